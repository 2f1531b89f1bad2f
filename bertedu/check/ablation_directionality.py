"""The checks of notebook 13: what a state has read, alone and together, and what a gap is worth."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bertedu.analysis import verdicts
from bertedu.check import exercise
from bertedu.check.exercise import Exercise, Function, Inputs, Mistake, UnreadableError
from bertedu.check.museum import Exhibit, TestExercise, judge_test
from bertedu.finetuning import report
from bertedu.model.bert import Bert
from bertedu.model.config import BertConfig, Direction
from bertedu.model.inputs import check_input

States = Callable[[Tensor], Tensor]  # ids (B, S) -> hidden states (B, S, D)

# -- small readers

SIZE, LONGEST = 16, 32  # numbers a state, tokens a text; ids are below 100
_CONFIG = BertConfig(100, SIZE, 2, 2, 32, LONGEST, dropout=0.0, initializer_range=0.3)


class _Reader:
    """A function from ids to states that a check can name in a few words."""

    def __init__(self, name: str, states: States) -> None:
        self.name, self.states = name, states

    def __repr__(self) -> str:
        return self.name

    @torch.no_grad()
    def __call__(self, ids: Tensor) -> Tensor:
        """(B, S) -> (B, S, D)."""
        check_input(_CONFIG, ids, torch.zeros_like(ids), torch.ones_like(ids))
        return self.states(ids)


@cache
def _bert(direction: Direction, seed: int) -> Bert:
    """Return a small BERT whose random weights are large: whatever it reads, it shows."""
    with torch.random.fork_rng(devices=[]):  # nobody's chance is disturbed
        torch.manual_seed(seed)
        return Bert(replace(_CONFIG, direction=direction)).eval()


def _one_way(direction: Direction, seed: int) -> States:
    return lambda ids: _bert(direction, seed)(ids).last


def _side_by_side(left: States, right: States) -> States:
    return lambda ids: torch.cat([left(ids), right(ids)], dim=-1)


_LEFT, _RIGHT = _one_way("left-to-right", 13), _one_way("right-to-left", 14)
_PLAY = {
    "bert": _Reader("a BERT", _one_way("bidirectional", 12)),
    "left to right": _Reader("a left-to-right Transformer", _LEFT),
    "right to left": _Reader("a right-to-left Transformer", _RIGHT),
    "pair": _Reader("a pair of one-way Transformers", _side_by_side(_LEFT, _RIGHT)),
}


def play_reader(kind: str) -> States:
    """Return a small Transformer with random weights: ids (B, S) -> hidden states (B, S, D).

    ``kind`` is "bert", "left to right", "right to left" or "pair": the last two's states side by
    side. Two layers; 100 token ids; 32 tokens or fewer; D is 16, for the pair 32. The weights are
    the same each time.

    Raises
    ------
    ValueError
        There is no such kind; or, of the reader, ids it cannot read.

    """
    if kind not in _PLAY:
        raise ValueError(f"no play reader is called {kind!r}: choose one of {', '.join(_PLAY)}")
    return _PLAY[kind]


See = Callable[[int], Tensor]  # S -> (S, S), true where the state of a row reads the token


def _by_hand(see: See, size: int = 3, loud: float = 1.0, words: bool = True) -> States:
    """Make a reader of one line: each state is the tanh of a sum over what it reads."""
    generator = torch.Generator().manual_seed(5)
    token = torch.randn(100, size, generator=generator) if words else torch.zeros(100, size)
    place = torch.randn(LONGEST, size, generator=generator)

    def states(ids: Tensor) -> Tensor:
        length = ids.shape[1]
        read = see(length).float() @ token[ids] / math.sqrt(length)
        return loud * torch.tanh(read + 0.5 * place[:length])

    return states


def _square(length: int) -> Tensor:
    return torch.ones(length, length, dtype=torch.bool)


def _rounded(states: States) -> States:
    """Add what another order of the same sums may add: something in the seventh digit."""

    def noisy(ids: Tensor) -> Tensor:
        found = states(ids)
        place = torch.arange(found.numel()).view(found.shape)
        return found + 3e-6 * torch.cos(0.7 * (place + ids.sum()) + len(ids))

    return noisy


_TO_THE_LEFT = _by_hand(lambda n: _square(n).tril())
_TO_THE_RIGHT = _by_hand(lambda n: _square(n).triu())
_HAND = {
    "left": _Reader("a left-to-right reader", _TO_THE_LEFT),
    "both": _Reader("a reader of both sides", _by_hand(_square)),
    "pair": _Reader("a pair of one-way readers", _side_by_side(_TO_THE_LEFT, _TO_THE_RIGHT)),
    "before": _Reader(
        "a reader of what stands before each token", _by_hand(lambda n: _square(n).tril(-1))
    ),
    "nothing": _Reader("a reader that reads no token", _by_hand(_square, words=False)),
    "one": _Reader(
        "a left-to-right reader with one number a state",
        _by_hand(lambda n: _square(n).tril(), size=1),
    ),
    "quiet": _Reader(
        "a left-to-right reader with small numbers",
        _by_hand(lambda n: _square(n).tril(), loud=0.02),
    ),
    "of one length": _Reader(
        "a left-to-right reader whose states have length 1",
        lambda ids: F.normalize(_TO_THE_LEFT(ids), dim=-1),
    ),
    "neighbors": _Reader(
        "a reader of each token and its neighbors",
        _by_hand(lambda n: _square(n).tril(1).triu(-1)),
    ),
    "rounded": _Reader(
        "a left-to-right reader that rounds differently each time", _rounded(_TO_THE_LEFT)
    ),
    "rounded Transformer": _Reader(
        "a left-to-right Transformer that rounds differently each time", _rounded(_LEFT)
    ),
}


def _text(length: int, generator: torch.Generator) -> tuple[Tensor, int]:
    """Draw ids (1, S), and one that is none of them."""
    picked = 5 + torch.randperm(95, generator=generator)[: length + 1]
    return picked[None, :-1].clone(), int(picked[-1])


# -- which token reaches which state


def right_reach(states: States, ids: Tensor, new_id: int) -> Tensor:
    """Ids (1, S) -> bool (S, S): [i, j] is true if state i moves when token j is another."""
    before = states(ids)[0]  # (S, D)
    columns = []
    for j in range(ids.shape[1]):
        changed = ids.clone()
        changed[0, j] = new_id
        columns.append((states(changed)[0] - before).abs().amax(dim=-1) > 1e-4)
    return torch.stack(columns, dim=1)


def _reach_cases() -> list[Inputs]:
    generator = torch.Generator().manual_seed(13)
    plan = (
        *((_HAND["left"], n) for n in (2, 3)),
        *((_HAND["before"], n) for n in (2, 3)),
        (_HAND["nothing"], 2),
        *((_HAND["one"], n) for n in (2, 4)),
        *((_HAND["quiet"], n) for n in (2, 4)),
        *((_HAND["rounded"], n) for n in (2, 4)),
        (_HAND["of one length"], 3),
        *((_HAND["neighbors"], n) for n in (4, 5)),
        *((_HAND["pair"], n) for n in (2, 4)),
        *((reader, 4) for reader in _PLAY.values()),
        (_HAND["rounded Transformer"], 5),
        *((_HAND[name], 7) for name in ("pair", "left")),  # the last is asked most, so a quick one
    )
    return [(reader, *_text(length, generator)) for reader, length in plan]


def _read_reach(answer: Any, states: States, ids: Tensor, new_id: int) -> Any:
    length, size = states(ids)[0].shape
    wanted = f"({length}, {length}) is wanted"
    if isinstance(answer, list | tuple) and any(isinstance(x, Tensor) and x.ndim for x in answer):
        raise UnreadableError(
            f"your function returned a list of {len(answer)} tensors; one tensor is wanted: "
            "torch.stack(columns, dim=1)."
        )
    tensor = torch.as_tensor(answer).detach()
    shape = tuple(tensor.shape)
    if shape in ((1, length, length), (length, 1, length), (length, length, 1)):
        raise UnreadableError(
            f"your answer has shape {shape}, {wanted}: the batch axis is still there. "
            "states(…)[0] are the states of the one text."
        )
    if shape in ((length, length, size), (length, size, length), (length, 1, length, size)):
        raise UnreadableError(
            f"your answer has shape {shape}, {wanted}: one answer for each state, not for each of "
            f"its {size} numbers. One number that moves is enough: .amax(dim=-1)."
        )
    if shape in ((length, size), (size, length)) and length != size:
        raise UnreadableError(
            f"your answer has shape {shape}, {wanted}: you took the largest change over the wrong "
            "axis. Each state keeps its place, its numbers become one: .amax(dim=-1)."
        )
    if shape == (length,):
        raise UnreadableError(
            f"your answer has shape {shape}, {wanted}: replace every token in turn, and look at "
            "all states each time."
        )
    tensor = exercise.read_tensor(tensor, "your answer", (length, length))
    if tensor.dtype != torch.bool:
        raise UnreadableError(
            "your answer holds numbers; True and False are wanted. How far is far enough? Compare: "
            "> 1e-4."
        )
    return tensor.tolist()


def _tell_reach(inputs: Inputs, mine: list[list[bool]], right: list[list[bool]]) -> str:
    for i, (given, row) in enumerate(zip(mine, right, strict=True)):
        for j, (said, true) in enumerate(zip(given, row, strict=True)):
            if said != true:
                fact = "moves" if true else "does not move"
                return f"Replacing token {j} {fact} state {i}: entry [{i}, {j}] is {true}."
    return "Yours is right here, but ids come back changed."  # the judge asks only if one differs


Moved = Callable[[Tensor, Tensor], Tensor]  # after, before (S, D) -> bool (S,)
Change = Callable[[Tensor, int], Any]  # ids (1, S), j -> the places to fill with new_id


def _largest(after: Tensor, before: Tensor) -> Tensor:
    return (after - before).abs().amax(dim=-1)


def _reach_by(
    moved: Moved = lambda a, b: _largest(a, b) > 1e-4,
    places: Callable[[int], Any] = lambda j: j,
    then: Callable[[Tensor], Tensor] = lambda table: table,
) -> Function:
    """Make a `reach` that goes wrong in one place."""

    def wrong(states: States, ids: Tensor, new_id: int) -> Tensor:
        before, columns = states(ids)[0], []
        for j in range(ids.shape[1]):
            changed = ids.clone()
            changed[0, places(j)] = new_id
            columns.append(moved(states(changed)[0], before))
        return then(torch.stack(columns, dim=1))

    return wrong


def _moved_by(limit: float) -> Function:
    return _reach_by(lambda a, b: _largest(a, b) > limit)


REACH = Exercise(
    name="reach",
    right=right_reach,
    cases=_reach_cases,
    read=_read_reach,
    differ=_tell_reach,
    tried="23 cases: readers of the left, of the right, of both sides and of neither.",
    start="before = states(ids)[0]; then, for each j, a copy of ids in which token j is new_id.",
    in_place="changed = ids makes no copy. changed = ids.clone(), for every j anew.",
    source=(right_reach, play_reader),
    mistakes=(
        Mistake(
            "the table is transposed.",
            "a row is the state that moves, a column the token that was replaced: [i, j]. "
            "torch.stack(columns, dim=1), or .T.",
            (_reach_by(then=lambda t: t.T),),
        ),
        Mistake(
            "the changes pile up: in column j all tokens up to j are replaced.",
            "the copy is made once, before the loop, or not at all. Inside the loop: "
            "changed = ids.clone().",
            (_reach_by(places=lambda j: slice(0, j + 1)),),
        ),
        Mistake(
            "not only token j is replaced, but all from j on.",
            "changed[0, j], without a colon.",
            (_reach_by(places=lambda j: slice(j, None)),),
        ),
        Mistake(
            "all tokens are replaced at once.",
            "changed[0] is the whole row; changed[0, j] is token j.",
            (_reach_by(places=lambda j: slice(None)),),
        ),
        Mistake(
            "rounding counts as a move.",
            "the same sum in another order differs in the seventh digit. A move is more than 1e-4: "
            "(…).abs() > 1e-4; or torch.isclose with atol=1e-4, since its own is 1e-8.",
            (
                _reach_by(lambda a, b: (a != b).any(dim=-1)),
                _reach_by(lambda a, b: ~torch.isclose(a, b).all(dim=-1)),
                *(_moved_by(limit) for limit in (1e-8, 1e-7, 1e-6)),
            ),
        ),
        Mistake(
            "a small move is overlooked.",
            "the limit is too high: 1e-4 is far above rounding, and far below what a token does.",
            tuple(_moved_by(limit) for limit in (0.005, 0.01, 0.05, 0.1)),
        ),
        Mistake(
            "everything moves, whatever is replaced.",
            "what do you compare with? Subtract the states before the change, states(ids).",
            (
                _reach_by(lambda a, b: a.abs().amax(dim=-1) > 1e-4),
                _reach_by(then=torch.ones_like),
            ),
        ),
        Mistake(
            "nothing ever moves.",
            "the states are compared with themselves: changed = ids makes no copy, so that both "
            "change. changed = ids.clone().",
            (_reach_by(then=torch.zeros_like),),
        ),
        Mistake(
            "True and False are swapped.",
            "True where the state *moves*: > 1e-4, or not close.",
            (_reach_by(then=torch.logical_not),),
        ),
        Mistake(
            "only state j is looked at: the diagonal.",
            "that a token moves its own state is no news. Compare all states each time.",
            (_reach_by(then=lambda t: t & torch.eye(len(t), dtype=torch.bool)),),
        ),
        Mistake(
            "the diagonal is left out.",
            "a token usually moves its own state as well; measure it like every other.",
            (_reach_by(then=lambda t: t & ~torch.eye(len(t), dtype=torch.bool)),),
        ),
        Mistake(
            "the diagonal is taken for True without a look.",
            "a state need not have read its own token: measure it like every other.",
            (_reach_by(then=lambda t: t | torch.eye(len(t), dtype=torch.bool)),),
        ),
        Mistake(
            "one answer for all states: each column is the same from top to bottom.",
            "torch.allclose and .any() without an axis ask about all states at once. "
            ".amax(dim=-1) leaves one number a state.",
            (_reach_by(lambda a, b: (_largest(a, b) > 1e-4).any().expand(len(a))),),
        ),
        Mistake(
            "plus and minus cancel: the change is added up with its sign.",
            "behind a layer norm the numbers of a state always add up to 0, and so do their "
            "changes. First .abs(), then .amax(dim=-1).",
            (
                _reach_by(lambda a, b: (a - b).sum(dim=-1).abs() > 1e-4),
                _reach_by(lambda a, b: (a - b).mean(dim=-1).abs() > 1e-4),
                _reach_by(lambda a, b: (a - b).sum(dim=-1) > 1e-4),
                _reach_by(lambda a, b: (a - b).mean(dim=-1) > 1e-4),
            ),
        ),
        Mistake(
            "a state that only goes down does not count.",
            "a change has a sign: .abs() before you compare.",
            (_reach_by(lambda a, b: (a - b).amax(dim=-1) > 1e-4),),
        ),
        Mistake(
            "the lengths of the states are compared.",
            "behind a layer norm all states have the same length, whatever they have read. The "
            "length of the *difference*: (after - before).norm(dim=-1).",
            (
                _reach_by(
                    lambda a, b: (a.norm(dim=-1) - b.norm(dim=-1)).abs() > 1e-4,
                ),
            ),
        ),
        Mistake(
            "a state counts only if all its numbers move.",
            "one is enough: .amax(dim=-1), or .any(dim=-1). (Half the numbers of a pair have read "
            "one side only.)",
            (
                _reach_by(lambda a, b: (a - b).abs().amin(dim=-1) > 1e-4),
                _reach_by(lambda a, b: (~torch.isclose(a, b, atol=1e-4)).all(dim=-1)),
            ),
        ),
        Mistake(
            "only the first number of a state is looked at.",
            "all D of them: .amax(dim=-1). (The first half of a pair has read the left only.)",
            (_reach_by(lambda a, b: (a - b)[:, 0].abs() > 1e-4),),
        ),
    ),
)


def reach(function: object) -> None:
    """Check ``(states, ids, new_id) -> bool (S, S)``: [i, j], does state i move with token j?

    ``states`` takes ids (B, S) to hidden states (B, S, D); ids are (1, S). A move is more than
    1e-4 in any of the D numbers.
    """
    print(exercise.judge(REACH, function))


# -- what two tokens do together


def _with(states: States, ids: Tensor, i: int, new_id: int, *places: int) -> Tensor:
    """State i (D,) after the tokens at some places were replaced."""
    changed = ids.clone()
    changed[0, list(places)] = new_id
    return states(changed)[0, i]


def right_together(states: States, ids: Tensor, i: int, j: int, k: int, new_id: int) -> Tensor:
    """Ids (1, S), three places -> (D,): what j and k do to state i beyond each alone."""

    def state(*places: int) -> Tensor:
        changed = ids.clone()
        changed[0, list(places)] = new_id
        return states(changed)[0, i]

    return state(j, k) - state(j) - state(k) + state()


def _together_cases() -> list[Inputs]:
    generator = torch.Generator().manual_seed(14)
    plan: tuple[tuple[_Reader, int, Sequence[tuple[int, int, int]]], ...] = (
        (_HAND["both"], 3, ((1, 0, 2), (0, 1, 2))),
        (_HAND["left"], 3, ((2, 0, 1), (1, 0, 2))),
        (_HAND["pair"], 3, ((1, 0, 2), (0, 2, 1))),
        (_HAND["neighbors"], 4, ((1, 2, 0), (2, 1, 3), (1, 0, 3))),
        (_PLAY["bert"], 5, ((2, 1, 4), (3, 4, 0), (1, 2, 3))),
        (_PLAY["left to right"], 5, ((4, 1, 2), (2, 0, 4))),
        (_PLAY["pair"], 6, ((2, 1, 4), (3, 5, 0), (5, 1, 2))),
        (_HAND["both"], 7, ((4, 2, 5), (2, 6, 4))),  # the last is asked most, so a quick one
    )
    cases: list[Inputs] = []
    for reader, length, places in plan:
        for i, j, k in places:
            ids, new_id = _text(length, generator)
            cases.append((reader, ids, i, j, k, new_id))
    return cases


def _read_together(
    answer: Any, states: States, ids: Tensor, i: int, j: int, k: int, new_id: int
) -> Any:
    length, size = states(ids)[0].shape
    tensor = torch.as_tensor(answer).detach()
    shape = tuple(tensor.shape)
    if shape in ((), (1,)):
        raise UnreadableError(
            f"your function returned one number; the vector of {size} is wanted, without norm, sum "
            "or mean."
        )
    if shape in ((length, size), (1, length, size)):
        raise UnreadableError(
            f"your answer has shape {shape}; ({size},) is wanted: one state, states(…)[0, i]."
        )
    if shape == (1, size):
        raise UnreadableError(
            f"your answer has shape {shape}; ({size},) is wanted: the batch axis is still there. "
            "states(…)[0, i]."
        )
    return exercise.read_tensor(tensor, "your answer", (size,)).float().tolist()


Four = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]  # h(jk), h(j), h(k), h -> (D,)


def _of_four(combine: Four) -> Function:
    """Make a `together` that takes the right four states and combines them in its own way."""

    def wrong(states: States, ids: Tensor, i: int, j: int, k: int, new_id: int) -> Tensor:
        four = (_with(states, ids, i, new_id, *places) for places in ((j, k), (j,), (k,), ()))
        return combine(*four)

    return wrong


def _on_all(states: States, ids: Tensor, j: int, k: int, new_id: int) -> Tensor:
    """Return the right answer for every state, (S, D)."""
    return torch.stack([right_together(states, ids, i, j, k, new_id) for i in range(ids.shape[1])])


TOGETHER = Exercise(
    name="together",
    right=right_together,
    cases=_together_cases,
    read=_read_together,
    tried="19 cases: readers of one side, of both, and pairs, i between j and k and elsewhere.",
    start="a small function state(*places): copy ids, put new_id there, return states(…)[0, i]. "
    "You need it four times.",
    in_place="changed = ids makes no copy. changed = ids.clone(), for each of the four anew.",
    source=(right_together, play_reader),
    mistakes=(
        Mistake(
            "the unchanged state is missing.",
            "each of the two single changes is h(j) - h and h(k) - h, so h is taken away twice, "
            "and h(jk) has it once: + h.",
            (_of_four(lambda jk, j, k, h: jk - j - k),),
        ),
        Mistake(
            "the unchanged state has the wrong sign.",
            "(h(jk) - h) - (h(j) - h) - (h(k) - h): take the brackets away, and one + h is left.",
            (_of_four(lambda jk, j, k, h: jk - j - k - h),),
        ),
        Mistake(
            "the single changes are not taken away: this is all that j and k do.",
            "only what goes *beyond* the two alone: take away h(j) - h and h(k) - h.",
            (_of_four(lambda jk, j, k, h: jk - h),),
        ),
        Mistake(
            "all signs are turned around.",
            "h(jk) comes first, with a plus: h(jk) - h(j) - h(k) + h.",
            (_of_four(lambda jk, j, k, h: j + k - jk - h),),
        ),
        Mistake(
            "the single changes are added, not taken away.",
            "h(jk) - h(j) - h(k) + h.",
            (
                _of_four(lambda jk, j, k, h: jk + j + k + h),
                _of_four(lambda jk, j, k, h: jk + j + k - 3 * h),
                _of_four(lambda jk, j, k, h: jk + j + k - h),
            ),
        ),
        Mistake(
            "one of the single changes is added, not taken away.",
            "both go off: h(jk) - h(j) - h(k) + h.",
            (
                _of_four(lambda jk, j, k, h: jk + j - k - h),
                _of_four(lambda jk, j, k, h: jk - j + k - h),
                _of_four(lambda jk, j, k, h: jk + j - k + h),
                _of_four(lambda jk, j, k, h: jk - j + k + h),
            ),
        ),
        Mistake(
            "the changes pile up: what should be k alone is j and k.",
            "the copy of ids for k already has the new j. Copy ids itself, for each of the four.",
            (
                _of_four(lambda jk, j, k, h: h - j),
                _of_four(lambda jk, j, k, h: h - k),
            ),
        ),
        Mistake(
            "this is what one of the two does once the other is replaced.",
            "take away what it does alone, too. (If all four terms are there: is ids itself "
            "changed on the way? Then h is not the unchanged state any more: ids.clone().)",
            (
                _of_four(lambda jk, j, k, h: jk - j),
                _of_four(lambda jk, j, k, h: jk - k),
            ),
        ),
        Mistake(
            "this is always zero.",
            "all four are the same state. Either ids is changed itself (changed = ids makes no "
            "copy: ids.clone()), or the changed copy never goes into states.",
            (_of_four(lambda jk, j, k, h: torch.zeros_like(h)),),
        ),
        Mistake(
            "this is the mean over all states.",
            "only state i: states(…)[0, i].",
            (lambda s, ids, i, j, k, new: _on_all(s, ids, j, k, new).mean(dim=0),),
        ),
        Mistake(
            "this is another state's.",
            "i is the state that is looked at, j and k are the tokens that are replaced: "
            "states(…)[0, i].",
            (
                lambda s, ids, i, j, k, new: _on_all(s, ids, j, k, new)[j],
                lambda s, ids, i, j, k, new: _on_all(s, ids, j, k, new)[k],
                lambda s, ids, i, j, k, new: _on_all(s, ids, j, k, new)[0],
                lambda s, ids, i, j, k, new: _on_all(s, ids, j, k, new)[-1],
                lambda s, ids, i, j, k, new: _on_all(s, ids, j, k, new)[i - 1],
                lambda s, ids, i, j, k, new: right_together(s, ids, j, i, k, new),
                lambda s, ids, i, j, k, new: right_together(s, ids, k, i, j, new),
            ),
        ),
        Mistake(
            "absolute values are taken.",
            "which way a state moves matters, or two moves could not cancel: leave out .abs().",
            (
                _of_four(lambda jk, j, k, h: (jk - j - k + h).abs()),
                _of_four(lambda jk, j, k, h: (jk - h).abs() - (j - h).abs() - (k - h).abs()),
                _of_four(lambda jk, j, k, h: (jk - h).abs() - (j + k - 2 * h).abs()),
            ),
        ),
        Mistake(
            "the result is halved.",
            "this is a sum of four states, no mean.",
            (_of_four(lambda jk, j, k, h: (jk - j - k + h) / 2),),
        ),
        Mistake(
            "the result is squared.",
            "leave the numbers as they are, with their signs.",
            (_of_four(lambda jk, j, k, h: (jk - j - k + h).square()),),
        ),
        Mistake(
            "the mean of the single changes is taken away, not their sum.",
            "h(j) - h and h(k) - h, each of them whole.",
            (_of_four(lambda jk, j, k, h: jk - (j + k) / 2),),
        ),
    ),
)


def together(function: object) -> None:
    """Check ``(states, ids, i, j, k, new_id) -> (D,)``: h(jk) - h(j) - h(k) + h, at state i."""
    print(exercise.judge(TOGETHER, function))


# -- the interval of a difference


def right_difference_interval(ours: Tensor, theirs: Tensor, draws: Tensor) -> tuple[float, float]:
    """(n,), (n,), (R, n) -> the middle 95 % of the mean difference, both on the same draws."""
    means = (ours - theirs)[draws].mean(dim=1)  # (R,)
    return means.quantile(0.025).item(), means.quantile(0.975).item()


def _interval_cases() -> list[Inputs]:
    generator = torch.Generator().manual_seed(15)
    cases: list[Inputs] = []
    # 0.025 of these many draws less one is a whole number: no question of how to interpolate
    for number, count, wanted in ((3, 8, 8), (8, 81, 8), (20, 201, 8), (40, 401, 8)):
        made = 0
        while made < wanted:
            ours = (torch.rand(number, generator=generator) < 0.7).float()
            other = (torch.rand(number, generator=generator) < 0.4).float()
            theirs = torch.where(torch.rand(number, generator=generator) < 0.6, ours, other)
            draws = torch.randint(number, (count, number), generator=generator)
            means = (ours - theirs)[draws].mean(dim=1).sort().values
            if count == 8 and (means[0] != means[1] or means[-2] != means[-1]):
                continue  # nor here: the two lowest are alike, and the two highest
            if means[0] != means[-1]:
                cases.append((ours, theirs, draws))
                made += 1
    return cases


def _read_ends(answer: Any, *_: Any) -> list[float]:
    if hasattr(answer, "tolist"):
        answer = answer.tolist()
    low, high = exercise.read_pair(answer, "low, high")
    return [exercise.read_number(low), exercise.read_number(high)]


def _ends(values: Tensor, low: float = 0.025, high: float = 0.975) -> tuple[float, float]:
    return values.quantile(low).item(), values.quantile(high).item()


def _from_means(ends: Callable[[Tensor], tuple[Any, Any]]) -> Function:
    """Make an interval that has the right means (R,) and reads its ends off in its own way."""
    return lambda o, t, d: tuple(float(end) for end in ends((o - t)[d].mean(dim=1)))


def _around(middle: Tensor, reach: Tensor) -> tuple[Tensor, Tensor]:
    return middle - reach, middle + reach


def _sorted_ends(means: Tensor) -> tuple[Tensor, Tensor]:
    ordered, cut = means.sort().values, int(0.025 * len(means))
    return ordered[cut], ordered[-cut]


def _unpaired(other: Callable[[Tensor], Tensor]) -> Function:
    return lambda o, t, d: _ends(o[d].mean(dim=1) - t[other(d)].mean(dim=1))


def _each(ours: Tensor, theirs: Tensor, draws: Tensor) -> tuple[float, float, float, float]:
    return (*_ends(ours[draws].mean(dim=1)), *_ends(theirs[draws].mean(dim=1)))


def _less(a: tuple[float, ...], first: int, second: int, third: int, fourth: int) -> Any:
    return a[first] - a[second], a[third] - a[fourth]


DIFFERENCE_INTERVAL = Exercise(
    name="difference_interval",
    right=right_difference_interval,
    cases=_interval_cases,
    read=_read_ends,
    tried="32 random cases, of 3 to 40 examples and up to 401 draws.",
    start="ours - theirs is one number an example; [draws] picks from it, a row for each draw.",
    source=(right_difference_interval, report.paired_difference),
    mistakes=(
        Mistake(
            "each system has a draw of its own.",
            "an example that is hard for one is often hard for the other. Ask both the *same* "
            "draw, and that much of chance falls out: (ours - theirs)[draws].",
            (
                _unpaired(lambda d: d.flip(0)),
                _unpaired(lambda d: d.roll(1, 0)),
                _unpaired(lambda d: d.roll(-1, 0)),
                lambda o, t, d: _ends(o[d.flip(0)].mean(dim=1) - t[d].mean(dim=1)),
            ),
        ),
        Mistake(
            "these are the quantiles of each system, subtracted from each other.",
            "the ends of two intervals tell nothing about the difference. First the difference, "
            "draw by draw, then its quantiles.",
            (
                lambda o, t, d: _less(_each(o, t, d), 0, 2, 1, 3),
                lambda o, t, d: _less(_each(o, t, d), 0, 3, 1, 2),
            ),
        ),
        Mistake(
            "only one of the two systems is drawn anew.",
            "both are only known from these examples: (ours - theirs)[draws].",
            (
                lambda o, t, d: _ends(o[d].mean(dim=1) - t.mean()),
                lambda o, t, d: _ends(o.mean() - t[d].mean(dim=1)),
            ),
        ),
        Mistake(
            "this is the interval of one system, not of the difference.",
            "(ours - theirs)[draws].",
            (
                lambda o, t, d: _ends(o[d].mean(dim=1)),
                lambda o, t, d: _ends(t[d].mean(dim=1)),
            ),
        ),
        Mistake(
            "it is theirs minus ours.",
            "a difference above 0 shall mean that ours is better: ours - theirs.",
            (lambda o, t, d: _ends((t - o)[d].mean(dim=1)),),
        ),
        Mistake(
            "low and high are in the wrong order.",
            "return low, high.",
            (lambda o, t, d: right_difference_interval(o, t, d)[::-1],),
        ),
        Mistake(
            "5 % are cut off at each end, so 90 % are left.",
            "95 % in the middle leave 2.5 % on either side: 0.025 and 0.975.",
            (_from_means(lambda m: _ends(m, 0.05, 0.95)),),
        ),
        Mistake(
            "the two ends do not cut off the same share.",
            "2.5 % on either side: 0.025 and 0.975.",
            (
                _from_means(lambda m: _ends(m, 0.025, 0.95)),
                _from_means(lambda m: _ends(m, 0.05, 0.975)),
                _from_means(lambda m: _ends(m, 0.0, 0.95)),
                _from_means(lambda m: _ends(m, 0.05, 1.0)),
            ),
        ),
        Mistake(
            "these are the quartiles: half of the draws.",
            "2.5 % is 0.025, not 0.25.",
            (_from_means(lambda m: _ends(m, 0.25, 0.75)),),
        ),
        Mistake(
            "these are the lowest and the highest draw.",
            "with more draws they only move apart. 2.5 % lie outside on either side: "
            "means.quantile(0.025).",
            (_from_means(lambda m: (m.amin(), m.amax())),),
        ),
        Mistake(
            "the upper end is one draw too high.",
            "ordered[-n] has n - 1 draws above it, ordered[n] has n below it. "
            "means.quantile(0.975) counts right.",
            (_from_means(_sorted_ends),),
        ),
        Mistake(
            "it reaches one standard deviation to either side.",
            "that is about two thirds of the draws. The middle 95 % are read off: "
            "means.quantile(0.025).",
            (
                _from_means(lambda m: _around(m.mean(), m.std())),
                _from_means(lambda m: _around(m.mean(), m.std(correction=0))),
                lambda o, t, d: tuple(
                    end.item() for end in _around((o - t).mean(), (o - t)[d].mean(dim=1).std())
                ),
                lambda o, t, d: tuple(end.item() for end in _around((o - t).mean(), (o - t).std())),
            ),
        ),
        Mistake(
            "a bell curve is laid over the draws.",
            "1.96 standard deviations suppose a curve that few examples need not follow. The draws "
            "are there: means.quantile(0.025).",
            (
                _from_means(lambda m: _around(m.mean(), 1.96 * m.std())),
                _from_means(lambda m: _around(m.mean(), 1.96 * m.std(correction=0))),
                _from_means(lambda m: _around(m.mean(), 2 * m.std())),
                lambda o, t, d: tuple(
                    end.item()
                    for end in _around((o - t).mean(), 1.96 * (o - t).std() / len(o) ** 0.5)
                ),
            ),
        ),
        Mistake(
            "the width is divided by the root of the number of draws.",
            "then more draws would make our knowledge better; only more examples do. "
            "means.quantile(0.025).",
            (
                _from_means(lambda m: _around(m.mean(), m.std() / len(m) ** 0.5)),
                _from_means(lambda m: _around(m.mean(), 1.96 * m.std() / len(m) ** 0.5)),
            ),
        ),
        Mistake(
            "the mean runs over the draws, not over the examples of a draw.",
            "a row of draws is one draw: .mean(dim=1).",
            (lambda o, t, d: _ends((o - t)[d].mean(dim=0)),),
        ),
        Mistake(
            "these are quantiles of single examples.",
            "one example is -1, 0 or 1. First the mean of each draw, .mean(dim=1), then quantiles.",
            (
                lambda o, t, d: _ends((o - t)[d].flatten()),
                lambda o, t, d: _ends(o - t),
            ),
        ),
        Mistake(
            "this is a sum: the mean is missing.",
            "a difference of accuracies lies between -1 and 1: .mean(dim=1).",
            (lambda o, t, d: _ends((o - t)[d].sum(dim=1)),),
        ),
        Mistake(
            "absolute values are taken.",
            "that counts where they differ, not who is right: ours - theirs, with its sign.",
            (
                lambda o, t, d: _ends((o - t).abs()[d].mean(dim=1)),
                _from_means(lambda m: _ends(m.abs())),
            ),
        ),
        Mistake(
            "this is in percent.",
            "leave out the 100: a difference of accuracies lies between -1 and 1.",
            (_from_means(lambda m: _ends(100 * m)),),
        ),
        Mistake(
            "both ends are the mean.",
            "the mean says how large the difference is, not how sure: quantiles.",
            (
                _from_means(lambda m: (m.mean(), m.mean())),
                lambda o, t, d: ((o - t).mean().item(),) * 2,
            ),
        ),
    ),
)


def difference_interval(function: object) -> None:
    """Check ``(ours, theirs, draws) -> (low, high)``: a paired 95 % bootstrap interval.

    ``ours`` and ``theirs`` (n,) are 1.0 where a system was right; ``draws`` (R, n) are numbers of
    examples, drawn with replacement.
    """
    print(exercise.judge(DIFFERENCE_INTERVAL, function))


# -- what may be said

YES, NO, OPEN = "supported", "contradicted", "undecided"


def right_claim(low: float, high: float) -> str:
    """Say what the interval of ours - theirs makes of "ours is better"."""
    if low > 0:
        return YES
    return NO if high < 0 else OPEN


def _claim_cases() -> list[Inputs]:
    ends = (-0.4, -0.1, -0.02, -0.001, 0.0, 0.001, 0.02, 0.1, 0.4)
    cases = [(low, high) for low in ends for high in ends if low < high] + [(0.0, 0.0)]
    return sorted(cases, key=lambda case: (0.0 in case, abs(case[0]) + abs(case[1])))


def _read_word(answer: Any, *_: Any) -> str:
    if isinstance(answer, str) and answer.strip().lower() in (YES, NO, OPEN):
        return answer.strip().lower()
    if isinstance(answer, bool):
        raise UnreadableError(
            f"your function returned {answer}; there are three answers: {YES!r}, {NO!r} and "
            f"{OPEN!r}."
        )
    what = repr(answer) if isinstance(answer, str) and len(answer) < 40 else "something else"
    raise UnreadableError(
        f"your function returned {what}; one of {YES!r}, {NO!r} and {OPEN!r} is wanted."
    )


def _by_middle(low: float, high: float) -> str:
    return YES if low + high > 0 else NO if low + high < 0 else OPEN


CLAIM = Exercise(
    name="claim",
    right=right_claim,
    cases=_claim_cases,
    read=_read_word,
    tried="37 intervals: above 0, below it, around it, and with an end at 0.",
    start="if low > 0: … Then which end tells that the whole interval is below 0?",
    source=(right_claim, verdicts.verdict_of),
    mistakes=(
        Mistake(
            f"{YES!r} and {NO!r} are swapped.",
            "the interval is that of ours - theirs: above 0, ours is better.",
            (lambda a, b: NO if a > 0 else YES if b < 0 else OPEN,),
        ),
        Mistake(
            "only the middle of the interval is looked at.",
            "by chance alone it is nearly always on one side of 0. With 0 anywhere between the "
            "ends, and not only in the middle, both are open. Ask the ends: low > 0, high < 0.",
            (
                _by_middle,
                lambda a, b: YES if a + b > 0 else NO,
                lambda a, b: YES if a + b >= 0 else NO,
                lambda a, b: YES if a + b > 0 else OPEN,
            ),
        ),
        Mistake(
            "an end at 0 is not undecided for you.",
            "0 means no difference, and that has not been ruled out: > and <, not >= and <=.",
            (
                lambda a, b: YES if a >= 0 else NO if b <= 0 else OPEN,
                lambda a, b: NO if b <= 0 else YES if a >= 0 else OPEN,
                lambda a, b: YES if a >= 0 else NO if b < 0 else OPEN,
                lambda a, b: YES if a > 0 else NO if b <= 0 else OPEN,
                lambda a, b: OPEN if a < 0 < b else YES if b > 0 else NO,
                lambda a, b: OPEN if a == b == 0 else YES if a >= 0 else NO if b <= 0 else OPEN,
            ),
        ),
        Mistake(
            f"{OPEN!r} is missing: you say {NO!r} as soon as 0 is inside.",
            "that a difference was not found is not that there is none. An interval around 0 "
            "leaves both open.",
            (lambda a, b: YES if a > 0 else NO, lambda a, b: YES if a >= 0 else NO),
        ),
        Mistake(
            f"you never say {NO!r}.",
            f"an interval that lies wholly below 0 is an answer, too: high < 0 is {NO!r}.",
            (lambda a, b: YES if a > 0 else OPEN, lambda a, b: YES if a >= 0 else OPEN),
        ),
        Mistake(
            f"you never say {YES!r}.",
            f"low > 0 is {YES!r}.",
            (lambda a, b: NO if b < 0 else OPEN,),
        ),
        Mistake(
            "the wrong end is asked.",
            "the whole interval is above 0 if its *lower* end is: low > 0. And below 0 if its "
            "upper end is: high < 0.",
            (
                lambda a, b: YES if b > 0 else NO if a < 0 else OPEN,
                lambda a, b: NO if a < 0 else YES if b > 0 else OPEN,
                lambda a, b: YES if b > 0 else NO,
                lambda a, b: YES if b > 0 else NO if b < 0 else OPEN,
                lambda a, b: YES if a > 0 else NO if a < 0 else OPEN,
            ),
        ),
        Mistake(
            f"you say {OPEN!r} only if an end is exactly 0.",
            "0 anywhere inside is enough: neither low > 0 nor high < 0.",
            (
                lambda a, b: OPEN if 0 in (a, b) else _by_middle(a, b),
                lambda a, b: OPEN if 0 in (a, b) else YES if a > 0 else NO,
            ),
        ),
        Mistake(
            f"{OPEN!r} stands where the interval leaves 0 out.",
            "turn it around: 0 inside means undecided.",
            (
                lambda a, b: OPEN if a > 0 or b < 0 else _by_middle(a, b),
                lambda a, b: OPEN if a > 0 or b < 0 else YES,
                lambda a, b: OPEN if a > 0 or b < 0 else NO,
            ),
        ),
        Mistake(
            "0.05 is taken for the border.",
            "0.05 is a border for p-values. Here the border is no difference at all: 0.",
            (
                lambda a, b: YES if a > 0.05 else NO if b < -0.05 else OPEN,
                lambda a, b: YES if a >= 0.05 else NO if b <= -0.05 else OPEN,
                lambda a, b: YES if a > 0.05 else NO if b < 0.05 else OPEN,
            ),
        ),
        Mistake(
            "small differences are rounded away.",
            "a small difference can be a sure one: compare the ends as they are.",
            (
                lambda a, b: right_claim(round(a, 2), round(b, 2)),
            ),
        ),
        Mistake(
            "you always say the same.",
            "ask the ends: low > 0, then high < 0.",
            (lambda a, b: YES, lambda a, b: NO, lambda a, b: OPEN),
        ),
    ),
)  # fmt: skip


def claim(function: object) -> None:
    """Check ``(low, high) -> "supported", "contradicted" or "undecided"``."""
    print(exercise.judge(CLAIM, function))


# -- a test for readers that must not look ahead


@cache
def _parts() -> tuple[nn.LSTM, nn.Conv1d]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(16)
        return nn.LSTM(SIZE, SIZE, batch_first=True), nn.Conv1d(SIZE, SIZE, kernel_size=3)


def _embedded(ids: Tensor) -> Tensor:
    found: Tensor = _bert("left-to-right", 13).embeddings(ids, torch.zeros_like(ids))
    return found


def _lstm(ids: Tensor) -> Tensor:
    return 3 * _parts()[0](_embedded(ids))[0]  # type: ignore[no-any-return]


def _convolution(ids: Tensor) -> Tensor:
    before = F.pad(_embedded(ids).transpose(1, 2), (2, 0))  # nothing stands before the first
    return 3 * _parts()[1](before).transpose(1, 2)  # type: ignore[no-any-return]


def _masked(mask: Callable[[int, int], Tensor | None], layers: int = 2) -> States:
    """Make a Transformer; ``mask`` tells from the layer's number and S what it goes by."""

    def states(ids: Tensor) -> Tensor:
        x = _embedded(ids)
        for number, layer in enumerate(_bert("left-to-right", 13).encoder.layers[:layers]):
            x = layer(x, mask(number, ids.shape[1]))[0]
        return x

    return states


def _first_sees_all(length: int) -> Tensor:
    mask = _square(length).tril()
    mask[0] = True
    return mask


def _too_weak(length: int) -> Tensor:
    return torch.full((length, length), -8.0).triu(1)  # added to the scores


def _norm_over_places(ids: Tensor) -> Tensor:
    x = _LEFT(ids)
    spread = x.var(dim=1, correction=0, keepdim=True) + 1e-3
    return (x - x.mean(dim=1, keepdim=True)) / spread.sqrt()


def _mean_added(ids: Tensor) -> Tensor:
    x = _LEFT(ids)
    return x + x.mean(dim=1, keepdim=True)


def _counted_from_the_end(ids: Tensor) -> Tensor:
    bert = _bert("left-to-right", 13)
    table = bert.embeddings
    x = table.token(ids) + table.position.weight[: ids.shape[1]].flip(0)
    return bert.encoder(table.norm(x), _square(ids.shape[1]).tril())[0][-1]  # type: ignore[no-any-return]


def _kept_by_id(ids: Tensor) -> Tensor:
    x = _LEFT(ids)
    same = ids[:, :, None] == ids[:, None, :]  # (B, S, S)
    last = (same * torch.arange(ids.shape[1])).amax(dim=-1)  # where each token comes last
    return x.gather(1, last[..., None].expand_as(x))


RIGHT_READERS: tuple[tuple[str, States], ...] = (
    ("as a Transformer with a mask", _Reader("a masked Transformer", _LEFT)),
    ("as an LSTM", _Reader("an LSTM", _lstm)),
    ("as a convolution that is padded on the left", _Reader("a convolution", _convolution)),
    ("as an embedding with positions", _Reader("an embedding", _embedded)),
)
READER_MUSEUM = (
    Exhibit(
        "VTongTV/bert-from-scratch",
        "builds the causal mask, then passes the plain mask on",
        _Reader("plain mask", _masked(lambda layer, n: None)),
        "replace the last token: no state before it may move.",
    ),
    Exhibit(
        "a mask for one layer",
        "the first layer gets the causal mask, the layer above looks both ways",
        _Reader("one layer", _masked(lambda layer, n: None if layer else _square(n).tril())),
        "replace the last token: no state before it may move.",
    ),
    Exhibit(
        "a diagonal off by one",
        "lets each token see the next one",
        _Reader("off by one", _masked(lambda layer, n: _square(n).tril(1))),
        "look at the state just before the token that you replace, not only at far ones.",
    ),
    Exhibit(
        "a copied line",
        "uses the mask of right to left",
        _Reader("copied", _masked(lambda layer, n: _square(n).triu())),
        "replace the *last* token and look at the states before it: that a state does not move "
        "with an earlier token proves nothing.",
    ),
    Exhibit(
        "a first token that sees all",
        "[CLS] stands for the whole text, so its row of the mask was opened; from there the next "
        "layer takes what follows to every state",
        _Reader("first sees all", _masked(lambda layer, n: _first_sees_all(n))),
        "replace the last token, and look at every state before it, the first included.",
    ),
    Exhibit(
        "a mask too weak",
        "adds -8 to the scores where minus infinity is wanted, so a little of each later token "
        "comes through",
        _Reader("too weak", _masked(lambda layer, n: _too_weak(n))),
        "compare with a small tolerance, 1e-4, and replace several tokens: a large tolerance is a "
        "hole in the test.",
    ),
    Exhibit(
        "a mask cut to a window",
        "hides the next 8 tokens, and forgets all behind them",
        _Reader(
            "window", _masked(lambda layer, n: _square(n).tril() | _square(n).triu(9), layers=1)
        ),
        "take a long text, 32 tokens, and look far ahead: replace the last, look at the first.",
    ),
    Exhibit(
        "a norm over the wrong axis",
        "mean and spread are taken over the places of the text, not over the numbers of a state",
        _Reader("norm over places", _norm_over_places),
        "replace the last token: no state before it may move.",
    ),
    Exhibit(
        "the mean of the text added",
        "a sentence vector is added to each state, and it has read the end",
        _Reader("mean added", _mean_added),
        "replace the last token: no state before it may move.",
    ),
    Exhibit(
        "positions counted from the end",
        "the last token is always at position 0, so that each state knows how much is to come",
        _Reader("from the end", _counted_from_the_end),
        "cut the end off instead of replacing it: states(ids[:, :5]) must be states(ids)[:, :5].",
    ),
    Exhibit(
        "a cache by token id",
        "states are kept in a dictionary, so a token that comes again overwrites the state of its "
        "first place",
        _Reader("kept by id", _kept_by_id),
        "take a text in which tokens come twice, as in torch.randint(5, 100, (8, 32)).",
    ),
)


def right_look_ahead_test(states: States) -> bool:
    """Return True if what follows changes no state: every beginning of a text reads as alone."""
    ids = torch.randint(5, 100, (8, LONGEST))
    whole = states(ids)
    return all(
        torch.allclose(states(ids[:, :end]), whole[:, :end], atol=1e-4) for end in range(1, LONGEST)
    )


LOOK_AHEAD_TEST = TestExercise(
    name="look_ahead_test",
    argument="states",
    thing="reader",
    start="ids = torch.randint(5, 100, (8, 32)): what comes out of states(ids) for the first "
    "tokens, and what if the last ones are others, or cut off?",
    right=RIGHT_READERS,
    museum=READER_MUSEUM,
    refuses_all="the states *before* a change must stay, those from it on may move. Compare only "
    "the part before, with torch.allclose(…, atol=1e-4); is there a not too many?",
    refuses_right="it asks for more than is promised: a reader need not read all that came before, "
    "or anything but its own token. Or it compares with ==, and rounding differs: "
    "torch.allclose(…, atol=1e-4).",
    source=(right_look_ahead_test,),
)


def look_ahead_test(function: object) -> None:
    """Check a learner's test: ``(states) -> bool``, true if no state depends on what follows it.

    ``states`` takes ids (B, S), from 5 to 99, S up to 32, to hidden states (B, S, D).
    """
    print(judge_test(LOOK_AHEAD_TEST, function))


SOLUTIONS: tuple[tuple[str, tuple[Any, ...]], ...] = (
    *((e.name, e.source) for e in (REACH, TOGETHER, DIFFERENCE_INTERVAL, CLAIM)),
    (LOOK_AHEAD_TEST.name, LOOK_AHEAD_TEST.source),
)
