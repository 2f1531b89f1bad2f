"""The exercises of notebook 13: who has read whom, two tokens together, an interval, a claim."""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from typing import Any, get_args

import torch
from torch import Tensor, nn

from bertedu.model.bert import Bert
from bertedu.model.config import BertConfig, Direction
from bertedu.model.inference import check_input
from course.exercises import judge
from course.exercises.judge import Exercise, Inputs, UnreadableError, named, offered
from course.exercises.museum import TestExercise
from course.results.bootstrap import Verdict, verdict_of
from course.results.summary import paired_difference

States = Callable[[Tensor], Tensor]  # ids (B, S) -> hidden states (B, S, D)

# -- small readers

SIZE, LONGEST = 16, 32  # numbers a state, tokens a text; ids are below 100
_CONFIG = BertConfig(100, SIZE, 2, 2, 32, LONGEST, dropout=0.0, initializer_range=0.3)


def _check(ids: Tensor) -> None:
    check_input(_CONFIG, ids, torch.zeros_like(ids), torch.ones_like(ids))


@cache
def _bert(direction: Direction, seed: int) -> Bert:
    """Return a small BERT whose random weights are large: whatever it reads, it shows."""
    with judge.undisturbed(seed):
        return Bert(replace(_CONFIG, direction=direction)).eval().requires_grad_(False)


def _one_way(direction: Direction, seed: int) -> States:
    return lambda ids: _bert(direction, seed)(ids).last


def _side_by_side(left: States, right: States) -> States:
    return lambda ids: torch.cat([left(ids), right(ids)], dim=-1)


def _rounded(states: States) -> States:
    """Add what another order of the same sums may add: something in the seventh digit."""

    def noisy(ids: Tensor) -> Tensor:
        found = states(ids)
        index = torch.arange(found.numel()).view(found.shape)
        return found + 3e-6 * torch.cos(0.7 * (index + ids.sum()) + len(ids))

    name = f"{judge.plain(states)} that rounds differently each time"
    return named(name, noisy)


def _by_hand(see: Callable[[Tensor], Tensor]) -> States:
    """Make a reader of one line: each state is the tanh of a sum over what it reads.

    ``see`` takes ones (S, S), and leaves those where the state of a row reads the token.
    """
    generator = torch.Generator().manual_seed(5)
    token = torch.randn(100, 3, generator=generator)
    position = torch.randn(LONGEST, 3, generator=generator)

    def states(ids: Tensor) -> Tensor:
        _check(ids)
        length = ids.shape[1]
        read = see(torch.ones(length, length)) @ token[ids] / math.sqrt(length)
        return torch.tanh(read + 0.5 * position[:length])

    return states


_PLAY: dict[str, States] = {
    "bert": named("a BERT", _one_way("bidirectional", 12)),
    "left to right": named("a left-to-right Transformer", _one_way("left-to-right", 13)),
    "right to left": named("a right-to-left Transformer", _one_way("right-to-left", 14)),
}
_PLAY["pair"] = named(
    "a pair of one-way Transformers", _side_by_side(_PLAY["left to right"], _PLAY["right to left"])
)
_ONE_WAY = named("a left-to-right reader", _by_hand(torch.tril))
_BOTH = named("a reader of both sides", _by_hand(lambda ones: ones))
_PAIR = named("a pair of one-way readers", _side_by_side(_ONE_WAY, _by_hand(torch.triu)))
_NEIGHBORS = named(
    "a reader of each token and its neighbors", _by_hand(lambda ones: ones.tril(1).triu(-1))
)


@offered
def play_reader(kind: str) -> States:
    """Return a small Transformer with random weights: ids (B, S) -> hidden states (B, S, D).

    ``kind`` is "bert", "left to right", "right to left" or "pair": the last two's states side by
    side. Two layers; 100 token ids; 32 tokens or fewer; D is 16, for the pair 32. The weights are
    the same each time. Raises ValueError for another kind; the reader does, for other ids.
    """
    if kind not in _PLAY:
        raise ValueError(f"no play reader is called {kind!r}: choose one of {', '.join(_PLAY)}")
    return _PLAY[kind]


def _text(length: int, generator: torch.Generator) -> tuple[Tensor, int]:
    """Draw ids (1, S), and one that is none of them."""
    picked = 5 + torch.randperm(95, generator=generator)[: length + 1]
    return picked[None, :-1].clone(), int(picked[-1])


def _reach_cases() -> list[Inputs]:
    generator = torch.Generator().manual_seed(13)
    plan: list[tuple[States, tuple[int, ...]]] = [
        (_ONE_WAY, (2, 3, 4, 5)),
        (named("a reader that reads no token", _by_hand(torch.zeros_like)), (2,)),
        (_rounded(_ONE_WAY), (2, 3, 4)),
        (_NEIGHBORS, (3, 4, 5)),
        (_PAIR, (2, 3, 4)),
        *((reader, (4,)) for reader in _PLAY.values()),
        (_rounded(_PLAY["left to right"]), (5,)),
        (_PAIR, (7,)),
        (_ONE_WAY, (7,)),  # the last is asked most, so a quick one
    ]
    return [(reader, *_text(n, generator)) for reader, lengths in plan for n in lengths]


def _read_reach(answer: Any, states: States, ids: Tensor, new_id: int) -> Any:
    tensor = judge.read_tensor(answer, "your answer", 2 * ids.shape[-1:])
    if tensor.dtype != torch.bool:
        raise UnreadableError(
            "your answer holds numbers; True and False are wanted. How far is far enough? Compare: "
            "> 1e-4."
        )
    return tensor.tolist()


@Exercise.asking(
    asks="(states, ids (1, S), new_id) -> bool (S, S): [i, j], does state i move with token j? "
    "states takes ids (B, S) to hidden states (B, S, D); a move is more than 1e-4",
    cases=_reach_cases,
    read=_read_reach,
    tried="21 cases: readers of the left, of the right, of both sides and of neither.",
    start="before = states(ids)[0]; then, for each j, a copy of ids in which token j is new_id.",
    in_place="changed = ids makes no copy. changed = ids.clone(), for every j anew.",
    beside=(play_reader,),
    mistakes="""
    ✗ the table is transposed.
      a row is the state that moves, a column the token that was replaced: [i, j].
      torch.stack(columns, dim=1), or .T.
    | dim=1 => dim=0
    ✗ the changes pile up: in column j all tokens up to j are replaced.
      the copy is made once, before the loop, or not at all. Inside the loop: changed = ids.clone().
    | changed[0, j] => changed[0, : j + 1]
    ✗ rounding counts as a move.
      the same sum in another order differs in the seventh digit. A move is more than 1e-4:
      (…).abs() > 1e-4; or torch.isclose with atol=1e-4, since its own is 1e-8.
    | 1e-4 => 0
    """,
)
def right_reach(states: States, ids: Tensor, new_id: int) -> Tensor:
    """Ids (1, S) -> bool (S, S): [i, j] is true if state i moves when token j is another."""
    before = states(ids)[0]  # (S, D)
    columns = []
    for j in range(ids.shape[1]):
        changed = ids.clone()
        changed[0, j] = new_id
        columns.append((states(changed)[0] - before).abs().amax(dim=-1) > 1e-4)
    return torch.stack(columns, dim=1)


def _together_cases() -> Iterator[Inputs]:
    generator = torch.Generator().manual_seed(14)
    plan = (
        (_BOTH, 3, ((1, 0, 2), (0, 1, 2))),
        (_ONE_WAY, 3, ((2, 0, 1), (1, 0, 2))),
        (_PAIR, 3, ((1, 0, 2), (0, 2, 1))),
        (_NEIGHBORS, 4, ((1, 2, 0), (2, 1, 3), (1, 0, 3))),
        (_PLAY["bert"], 5, ((2, 1, 4), (3, 4, 0), (1, 2, 3))),
        (_PLAY["left to right"], 5, ((4, 1, 2), (2, 0, 4))),
        (_PLAY["pair"], 6, ((2, 1, 4), (3, 5, 0), (5, 1, 2))),
        (_BOTH, 7, ((4, 2, 5), (2, 6, 4))),  # the last is asked most, so a quick one
    )
    for reader, length, places in plan:
        for three in places:
            ids, new_id = _text(length, generator)
            yield reader, ids, *three, new_id


@Exercise.asking(
    asks="(states, ids, i, j, k, new_id) -> (D,): h(jk) - h(j) - h(k) + h, at state i",
    cases=_together_cases,
    tensors="your answer",
    tried="19 cases: readers of one side, of both, and pairs, i between j and k and elsewhere.",
    start="a small function state(*places): copy ids, put new_id there, return states(…)[0, i]. "
    "You need it four times.",
    in_place="changed = ids makes no copy. changed = ids.clone(), for each of the four anew.",
    beside=(play_reader,),
    mistakes="""
    ✗ the unchanged state is missing.
      each of the two single changes is h(j) - h and h(k) - h, so h is taken away twice, and h(jk)
      has it once: + h.
    | + state() =>
    ✗ the single changes are not taken away: this is all that j and k do.
      only what goes *beyond* the two alone: take away h(j) - h and h(k) - h.
    | - state(j) - state(k) + state() => - state()
    ✗ this is another state's.
      i is the state that is looked at, j and k are the tokens that are replaced: states(…)[0, i].
    | [0, i] => [0, j]
    """,
)
def right_together(states: States, ids: Tensor, i: int, j: int, k: int, new_id: int) -> Tensor:
    """Ids (1, S), three places -> (D,): what j and k do to state i beyond each alone."""

    def state(*places: int) -> Tensor:
        changed = ids.clone()
        changed[0, list(places)] = new_id
        return states(changed)[0, i]

    return state(j, k) - state(j) - state(k) + state()


def _interval_cases() -> list[Inputs]:
    generator = torch.Generator().manual_seed(15)
    cases: list[Inputs] = []
    # 0.025 of these many draws less one is a whole number: no question of how to interpolate
    for number, count, wanted in ((3, 8, 8), (8, 81, 16), (20, 201, 24), (40, 401, 32)):
        while len(cases) < wanted:
            ours = (torch.rand(number, generator=generator) < 0.7).float()
            other = (torch.rand(number, generator=generator) < 0.4).float()
            theirs = torch.where(torch.rand(number, generator=generator) < 0.6, ours, other)
            draws = torch.randint(number, (count, number), generator=generator)
            means = (ours - theirs)[draws].mean(dim=1).sort().values
            if count == 8 and (means[0] != means[1] or means[-2] != means[-1]):
                continue  # nor here: the two lowest are alike, and the two highest
            if means[0] != means[-1]:
                cases.append((ours, theirs, draws))
    return cases


@Exercise.asking(
    asks="(ours (n,), theirs (n,), draws (R, n)) -> (low, high), a paired 95 % bootstrap interval",
    cases=_interval_cases,
    read=judge.parts("low, high", judge.number, judge.number),
    tried="32 random cases, of 3 to 40 examples and up to 401 draws.",
    start="ours - theirs is one number an example; [draws] picks from it, a row for each draw.",
    beside=(paired_difference,),
    mistakes="""
    ✗ each system has a draw of its own.
      an example that is hard for one is often hard for the other. Ask both the *same* draw, and
      that much of chance falls out: (ours - theirs)[draws].
    | (ours - theirs)[draws] => (ours[draws] - theirs[draws.flip(0)])
    ✗ 5 % are cut off at each end, so 90 % are left.
      95 % in the middle leave 2.5 % on either side: 0.025 and 0.975.
    | 0.025, 0.975 => 0.05, 0.95
    ✗ these are quantiles of single examples.
      one example is -1, 0 or 1. First the mean of each draw, .mean(dim=1), then quantiles.
    | .mean(dim=1) => .flatten()
    """,
)
def right_difference_interval(ours: Tensor, theirs: Tensor, draws: Tensor) -> tuple[float, float]:
    """(n,), (n,), (R, n) -> the middle 95 % of the mean difference, both on the same draws."""
    means, ends = (ours - theirs)[draws].mean(dim=1), torch.tensor([0.025, 0.975])  # (R,), (2,)
    low, high = means.quantile(ends).tolist()
    return low, high


def _claim_cases() -> list[Inputs]:
    ends = (-0.4, -0.1, -0.02, -0.001, 0.0, 0.001, 0.02, 0.1, 0.4)
    cases = [(low, high) for low in ends for high in ends if low < high] + [(0.0, 0.0)]
    return sorted(cases, key=lambda case: (0.0 in case, abs(case[0]) + abs(case[1])))


def _read_word(answer: Any, *_: Any) -> str:
    if not isinstance(answer, str) or answer not in get_args(Verdict):
        what = repr(answer) if isinstance(answer, bool | str) else "something else"
        raise UnreadableError(
            f"your function returned {what[:40]}; one of 'supported', 'contradicted' and "
            "'undecided' is wanted."
        )
    return answer


Exercise.asking(
    name="claim",
    asks='(low, high) -> "supported", "contradicted" or "undecided"',
    cases=_claim_cases,
    read=_read_word,
    tried="37 intervals: above 0, below it, around it, and with an end at 0.",
    start="if low > 0: … Then which end tells that the whole interval is below 0?",
    mistakes="""
    ✗ an end at 0 is not undecided for you.
      0 means no difference, and that has not been ruled out: > and <, not >= and <=.
    | low > => low >= && high < => high <=
    ✗ 'undecided' is missing: you say 'contradicted' as soon as 0 is inside.
      that a difference was not found is not that there is none. An interval around 0 leaves both
      open.
    | if high < than else "undecided" =>
    ✗ the wrong end is asked.
      the whole interval is above 0 if its *lower* end is: low > 0. And below 0 if its upper end is:
      high < 0.
    | low > than => high > than && high < than => low < than
    """,
)(verdict_of)


# -- a test for readers that must not look ahead


def _embed(ids: Tensor, places: Tensor) -> Tensor:
    _check(ids)
    table = _bert("left-to-right", 13).embeddings
    x = table.token(ids) + table.segment.weight[0] + table.position(places)
    return table.norm(x)


def right_reader(ids: Tensor) -> Tensor:
    """Read from left to right, by a mask: (B, S) -> (B, S, D)."""
    x = _embed(ids, torch.arange(ids.shape[-1]))
    length, layers = ids.shape[1], _bert("left-to-right", 13).encoder.layers
    square = torch.ones(length, length, dtype=torch.bool)
    for layer in layers:
        x = layer(x, square.tril())[0]
    return x


def _embedding(ids: Tensor) -> Tensor:
    return _embed(ids, torch.arange(ids.shape[-1]))


@cache
def _lstm() -> nn.LSTM:
    with judge.undisturbed(seed=16):
        return nn.LSTM(SIZE, SIZE, batch_first=True).requires_grad_(False)


def _by_lstm(ids: Tensor) -> Tensor:
    return 3 * _lstm()(_embedding(ids))[0]


@TestExercise.asking(
    asks="(states) -> bool, true if no state depends on what follows it. states takes ids (B, S), "
    "from 5 to 99, S up to 32, to hidden states (B, S, D)",
    thing="reader",
    start="ids = torch.randint(5, 100, (8, 32)): what comes out of states(ids) for the first "
    "tokens, and what if the last ones are others, or cut off?",
    right=(
        ("as a Transformer with a mask", right_reader),
        ("as an LSTM", _by_lstm),
        ("as an embedding with positions", _embedding),
    ),
    refuses_all="the states *before* a change must stay, those from it on may move. Compare only "
    "the part before, with torch.allclose(…, atol=1e-4); is there a not too many?",
    refuses_right="it asks for more than is promised: a reader need not read all that came before, "
    "or anything but its own token. Or it compares with ==, and rounding differs: "
    "torch.allclose(…, atol=1e-4).",
    museum="""
    ✗ VTongTV/bert-from-scratch: builds the causal mask, then passes the plain mask on.
      replace the last token: no state before it may move.
    | square.tril() => None
    ✗ a diagonal off by one: lets each token see the next one.
      look at the state just before the token that you replace, not only at far ones.
    | tril() => tril(1)
    ✗ a mask too weak: adds -8 to the scores where minus infinity is wanted, so a little of each
    later token comes through.
      compare with a small tolerance, 1e-4, and replace several tokens: a large tolerance is a hole
      in the test.
    | square.tril() => -8.0 * square.triu(1)
    ✗ a mask cut to a window: hides the next 8 tokens, and forgets all behind them.
      take a long text, 32 tokens, and look far ahead: replace the last, look at the first.
    | square.tril() => square.tril() | square.triu(9) && in layers => in layers[:1]
    ✗ the mean of the text added: a sentence vector is added to each state, and it has read the end.
      replace the last token: no state before it may move.
    | return x => return x + x.mean(dim=1, keepdim=True)
    ✗ positions counted from the end: the last token is always at position 0, so that each state
    knows how much is to come.
      cut the end off instead of replacing it: states(ids[:, :5]) must be states(ids)[:, :5].
    | torch.arange(ids.shape[-1]) => torch.arange(ids.shape[-1]).flip(0)
    """,
)
def right_look_ahead_test(states: States) -> bool:
    """Return True if what follows changes no state: every beginning of a text reads as alone."""
    ids = torch.randint(5, 100, (8, LONGEST))
    whole = states(ids)
    return all(
        torch.allclose(states(ids[:, :end]), whole[:, :end], atol=1e-4) for end in range(1, LONGEST)
    )
