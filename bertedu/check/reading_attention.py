"""The checks of notebook 15: rollout, the head that …, a refutation, and a test of rollouts."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from bertedu.analysis import heads
from bertedu.check import exercise
from bertedu.check.exercise import Exercise, Inputs, Mistake, UnreadableError
from bertedu.check.museum import Exhibit, TestExercise, judge_test

Rollout = Callable[[Tensor], Tensor]


def _weights(generator: torch.Generator, *sizes: int) -> Tensor:
    """Rows that sum to 1, in hundredths, so that a case can be typed."""
    raw = torch.rand(*sizes, generator=generator).pow(3) + 0.02
    rounded = (100 * raw / raw.sum(-1, keepdim=True)).round()
    rounded[..., 0] += 100 - rounded.sum(-1)
    return rounded / 100


# -- rollout


def right_rollout(weights: Tensor) -> Tensor:
    """(L, A, S, S) -> (S, S): half the heads' mean, half the residual, layer after layer."""
    return heads.rollout(weights)


def _rollout_cases() -> list[Inputs]:
    generator = torch.Generator().manual_seed(15)
    sizes = [(1, 1, 2), (2, 1, 2), (1, 2, 2), (2, 2, 3), (3, 2, 4)]
    return [
        (_weights(generator, layers, count, size, size),)
        for layers, count, size in sizes
        for _ in range(20)
    ]


def _read_square(answer: Any, weights: Tensor) -> Any:
    size = weights.shape[-1]
    if isinstance(answer, Tensor) and answer.shape == weights.shape[1:]:
        raise UnreadableError(
            f"your answer has shape {tuple(answer.shape)}, ({size}, {size}) is wanted: the heads "
            "are still apart. Take their mean first."
        )
    return exercise.read_tensor(answer, "your answer", (size, size)).float().tolist()


def _roll(weights: Tensor, residual: float = 0.5, share: float = 0.5, late: bool = True) -> Tensor:
    steps = share * weights.mean(1) + residual * torch.eye(weights.shape[-1])
    flow = steps[0]
    for step in steps[1:]:
        flow = step @ flow if late else flow @ step
    return flow


def _once(weights: Tensor, reduce: Callable[[Tensor], Tensor]) -> Tensor:
    steps = 0.5 * reduce(weights) + 0.5 * torch.eye(weights.shape[-1])
    flow = steps[0]
    for step in steps[1:]:
        flow = step @ flow
    return flow


ROLLOUT = Exercise(
    name="rollout",
    right=right_rollout,
    cases=_rollout_cases,
    read=_read_square,
    tried="100 random cases, of 1 to 3 layers with 1 or 2 heads.",
    start="steps = 0.5 * weights.mean(dim=1) + 0.5 * torch.eye(S); then multiply them, layer by "
    "layer.",
    source=(heads.rollout,),
    mistakes=(
        Mistake(
            "the residual is missing.",
            "half of what a layer passes on has never been through attention: add 0.5 * I.",
            (
                lambda w: _roll(w, residual=0, share=1),
                lambda w: _roll(w, residual=0),
            ),
        ),
        Mistake(
            "rows do not sum to 1: A + I is not halved.",
            "each row of A sums to 1 and so does each row of I, so their sum has rows of 2. "
            "0.5 * A + 0.5 * I.",
            (lambda w: _roll(w, residual=1, share=1),),
        ),
        Mistake(
            "the layers are multiplied in the wrong order.",
            "the last layer's rows ask the layer below it: flow = step @ flow, and the first layer "
            "stands to the right.",
            (lambda w: _roll(w, late=False),),
        ),
        Mistake(
            "only the last layer is used.",
            "what it mixes was mixed before. Multiply the steps of all layers.",
            (lambda w: _roll(w[-1:]), lambda w: w[-1].mean(0)),
        ),
        Mistake(
            "only the first layer is used.",
            "go on: flow = step @ flow for every layer above it.",
            (lambda w: _roll(w[:1]), lambda w: w[0].mean(0)),
        ),
        Mistake(
            "the layers are averaged, not multiplied.",
            "a token reads a mixture of mixtures: that is a matrix product.",
            (lambda w: _roll(w.mean(0, keepdim=True)), lambda w: w.mean((0, 1))),
        ),
        Mistake(
            "the layers are multiplied number by number.",
            "* multiplies place by place; a path from i over k to j needs the matrix product @.",
            (lambda w: (0.5 * w.mean(1) + 0.5 * torch.eye(w.shape[-1])).prod(0),),
        ),
        Mistake(
            "only the first head is used.",
            "weights.mean(dim=1) takes the mean over heads.",
            (lambda w: _once(w, lambda x: x[:, 0]),),
        ),
        Mistake(
            "the heads are added, not averaged.",
            "then a row sums to the number of heads: weights.mean(dim=1).",
            (lambda w: _once(w, lambda x: x.sum(1)),),
        ),
        Mistake(
            "each place takes its strongest head.",
            "the largest of several rows sums to more than 1. Rollout takes the mean.",
            (lambda w: _once(w, lambda x: x.amax(1)),),
        ),
        Mistake(
            "queries and keys have changed places.",
            "a row is a query, in the weights and in the answer.",
            (
                lambda w: _roll(w).T,
                lambda w: _roll(w.transpose(-2, -1)),
            ),
        ),
    ),
)


def rollout(function: object) -> None:
    """Check ``weights (L, A, S, S) -> (S, S)``: attention followed through all layers."""
    print(exercise.judge(ROLLOUT, function))


# -- the head that …


def right_find_head(weights: Tensor, queries: list[int], keys: list[int]) -> tuple[int, int]:
    """(L, A, S, S): the layer and head, from 1, whose strongest key is most often right."""
    best = weights.argmax(dim=-1)  # (L, A, S)
    hits = (best[..., queries] == torch.tensor(keys)).sum(dim=-1)  # (L, A)
    layer, head = divmod(int(hits.argmax()), hits.shape[1])
    return layer + 1, head + 1


def _find_cases() -> list[Inputs]:
    generator = torch.Generator().manual_seed(16)
    cases: list[Inputs] = []
    for layers, count, size, wanted in ((1, 2, 3, 20), (2, 3, 4, 40), (3, 2, 6, 40)):
        made = 0
        while made < wanted:
            weights = _weights(generator, layers, count, size, size)
            queries = torch.randperm(size, generator=generator)[:-1].tolist()
            keys = torch.randint(size, (size - 1,), generator=generator).tolist()
            hits = (weights.argmax(-1)[..., queries] == torch.tensor(keys)).sum(-1).flatten()
            top = hits.sort(descending=True).values
            if top[0] > top[1]:  # one winner
                cases.append((weights, queries, keys))
                made += 1
    return cases


def _read_place(answer: Any, *_: Any) -> Any:
    layer, head = exercise.read_pair(answer, "layer, head")
    return [int(exercise.read_number(layer)), int(exercise.read_number(head))]


def _winner(hits: Tensor) -> tuple[int, int]:
    layer, head = divmod(int(hits.argmax()), hits.shape[1])
    return layer + 1, head + 1


def _given(w: Tensor, q: list[int], k: list[int]) -> Tensor:
    return w[..., q, k]  # (L, A, pairs)


FIND_HEAD = Exercise(
    name="find_head",
    right=right_find_head,
    cases=_find_cases,
    read=_read_place,
    tried="100 random cases, of 1 to 3 layers with 2 or 3 heads.",
    start="best = weights.argmax(dim=-1) is each query's strongest key; count where it is right.",
    source=(right_find_head,),
    mistakes=(
        Mistake(
            "you count layers and heads from 0.",
            "the paper and this course count from 1: add 1 to both.",
            (lambda w, q, k: tuple(n - 1 for n in right_find_head(w, q, k)),),
        ),
        Mistake(
            "layer and head have changed places.",
            "return layer, head.",
            (lambda w, q, k: right_find_head(w, q, k)[::-1],),
        ),
        Mistake(
            "queries and keys have changed places.",
            "weights[layer, head, query] is the row of one query; argmax runs along it.",
            (
                lambda w, q, k: right_find_head(w.transpose(-2, -1), q, k),
                lambda w, q, k: right_find_head(w, k, q),
            ),
        ),
        Mistake(
            "you take the head that gives the right keys the most weight in all.",
            "one heavy weight can outweigh many near misses. Count how often the right key is the "
            "*strongest*: argmax, then ==.",
            (
                lambda w, q, k: _winner(_given(w, q, k).sum(-1)),
                lambda w, q, k: _winner(_given(w, q, k).prod(-1)),
            ),
        ),
        Mistake(
            "you take the head with the single largest weight.",
            "one pair proves nothing. Count over all of them.",
            (
                lambda w, q, k: _winner(_given(w, q, k).amax(-1)),
                lambda w, q, k: _winner(w.amax((-2, -1))),
            ),
        ),
        Mistake(
            "only the first pair is looked at.",
            "queries[i] goes with keys[i], for every i.",
            (lambda w, q, k: _winner(_given(w, q, k)[..., 0]),),
        ),
        Mistake(
            "this is the worst head, not the best.",
            "argmax of the hits, not argmin.",
            (lambda w, q, k: _winner(-(w.argmax(-1)[..., q] == torch.tensor(k)).sum(-1).float()),),
        ),
    ),
)


def find_head(function: object) -> None:
    """Check ``(weights, queries, keys) -> (layer, head)``: the head that finds a relation best."""
    print(exercise.judge(FIND_HEAD, function))


# -- refute a claim


def right_refutes(own: Tensor, new: Tensor, before: Tensor, after: Tensor) -> bool:
    """(A, S, S) twice, (V,) twice: more than half of the attention moved, and the same word."""
    moved = heads.total_variation(own, new).mean()
    return bool(moved > 0.5 and before.argmax() == after.argmax())


def _refute_cases() -> list[Inputs]:
    generator = torch.Generator().manual_seed(17)
    cases: list[Inputs] = []
    for count, size, words in ((1, 2, 3), (2, 3, 4), (2, 5, 6)):
        for number in range(40):
            own = _weights(generator, count, size, size)
            near = number % 2 == 0
            new = own.flip(-1) if not near else own.clone()
            if number % 5 == 1:  # everything somewhere else
                new = torch.zeros_like(own).scatter(-1, own.argmin(-1, keepdim=True), 1.0)
            if number % 5 == 2:  # one query only
                new = own.clone()
                new[0, 0] = torch.eye(size)[int(own[0, 0].argmin())]
            before, after = (
                _weights(generator, words) if i == 0 or number % 3 else None for i in range(2)
            )
            assert before is not None
            if after is None:  # the same words in the same order, other numbers
                after = (before.sqrt() / before.sqrt().sum() * 100).round() / 100
                if number % 6:  # or hardly any other numbers
                    after = before.clone()
                    after[before.argmin()] += 0.01
                    after[before.argmax()] -= 0.01
            if (
                before.sort().values[-1] > before.sort().values[-2]
                and abs(float(heads.total_variation(own, new).mean()) - 0.5) > 0.01
            ):
                cases.append((own, new, before, after))
    return cases


def _same(before: Tensor, after: Tensor) -> bool:
    return bool(before.argmax() == after.argmax())


REFUTES = Exercise(
    name="refutes",
    right=right_refutes,
    cases=_refute_cases,
    read=lambda answer, *_: exercise.read_bool(answer),
    tried="random attention, near and far, with the same answer and with another.",
    start="moved = 0.5 * (own - new).abs().sum(dim=-1), a number for each query; then its mean.",
    source=(right_refutes, heads.total_variation),
    mistakes=(
        Mistake(
            "you look at the answer only.",
            "the same answer from the same attention refutes nothing. More than half of the "
            "attention must have moved.",
            (lambda o, n, b, a: _same(b, a),),
        ),
        Mistake(
            "you look at the attention only.",
            "if the answer has changed as well, the claim stands: compare before.argmax() with "
            "after.argmax().",
            (lambda o, n, b, a: heads.total_variation(o, n).mean() > 0.5,),
        ),
        Mistake(
            "what has moved is counted twice: the half is missing.",
            "what leaves one key arrives at another, so the differences of a row sum to twice what "
            "moved: 0.5 * (own - new).abs().sum(-1).",
            (lambda o, n, b, a: _same(b, a) and 2 * heads.total_variation(o, n).mean() > 0.5,),
        ),
        Mistake(
            "nothing is ever a refutation for you.",
            "three ways lead there. A mean over single weights, not over rows: sum over keys "
            "(dim=-1) first. Differences that cancel, since each row sums to 1 before and after: "
            ".abs(). Or equal probabilities asked for, where the same word is meant: argmax.",
            (
                lambda o, n, b, a: _same(b, a) and 0.5 * (o - n).abs().mean() > 0.5,
                lambda o, n, b, a: _same(b, a) and (o - n).abs().mean() > 0.5,
                lambda o, n, b, a: _same(b, a) and 0.5 * (o - n).sum(-1).mean() > 0.5,
                lambda o, n, b, a: torch.equal(b, a) and heads.total_variation(o, n).mean() > 0.5,
            ),
        ),
        Mistake(
            "one query that looks elsewhere is enough for you.",
            "the claim is about the layer: take the mean over queries and heads, not the largest.",
            (lambda o, n, b, a: _same(b, a) and heads.total_variation(o, n).max() > 0.5,),
        ),
        Mistake(
            "you ask whether the strongest keys differ.",
            "two keys with nearly the same weight can change places with next to nothing moved. "
            "Measure how much moved.",
            (lambda o, n, b, a: _same(b, a) and bool((o.argmax(-1) != n.argmax(-1)).any()),),
        ),
        Mistake(
            "you ask for a changed answer.",
            "the claim was: this attention is why. It falls if the answer is the same without it.",
            (lambda o, n, b, a: not _same(b, a) and heads.total_variation(o, n).mean() > 0.5,),
        ),
        Mistake(
            "you ask for the same probabilities.",
            "the last digits always move. The answer is the word: argmax.",
            (
                lambda o, n, b, a: (
                    torch.allclose(b, a, atol=5e-2) and heads.total_variation(o, n).mean() > 0.5
                ),
            ),
        ),
    ),
)


def refutes(function: object) -> None:
    """Check ``(own, new, before, after) -> bool``: does this refute that the attention is why?"""
    print(exercise.judge(REFUTES, function))


# -- a test of rollouts


def by_loops(weights: Tensor) -> Tensor:
    """(L, A, S, S) -> (S, S), number by number."""
    size = weights.shape[-1]
    flow = torch.eye(size)
    for layer in weights:
        step = torch.zeros(size, size)
        for i in range(size):
            for j in range(size):
                step[i, j] = 0.5 * layer[:, i, j].mean() + (0.5 if i == j else 0.0)
        flow = step @ flow
    return flow


RIGHT_ROLLOUTS: tuple[tuple[str, Rollout], ...] = (
    ("with matrices", heads.rollout),
    ("with loops", by_loops),
)


def _kept_after_dropout(weights: Tensor) -> Tensor:
    return _roll(torch.nn.functional.dropout(weights, 0.1))


ROLLOUT_MUSEUM = (
    Exhibit(
        "no residual",
        "attention alone is multiplied, as if a token did not keep its own state",
        lambda w: _roll(w, residual=0, share=1),
        "let every head look at one token only: half must still stay at home.",
    ),
    Exhibit(
        "the wrong order",
        "the first layer asks the last",
        lambda w: _roll(w, late=False),
        "give two layers different maps: exchanging them must change the result the right way; "
        "work out two tokens by hand.",
    ),
    Exhibit(
        "not halved",
        "A + I is used as it is",
        lambda w: _roll(w, residual=1, share=1),
        "add up the rows.",
    ),
    Exhibit(
        "the last layer only",
        "the layers below are forgotten",
        lambda w: _roll(w[-1:]),
        "change the first layer and see whether the result moves.",
    ),
    Exhibit(
        "the first head only",
        "the other heads are forgotten",
        lambda w: _once(w, lambda x: x[:, 0]),
        "change the second head and see whether the result moves.",
    ),
    Exhibit(
        "kept after dropout, as in dhlee347/pytorchic-bert",
        "the weights have been through dropout: rows do not sum to 1, and no two runs agree",
        _kept_after_dropout,
        "add up the rows, or call it twice.",
    ),
    Exhibit(
        "the mean of all layers",
        "maps are averaged, so no path leads over a third token",
        lambda w: _roll(w.mean(0, keepdim=True)),
        "let token 1 ask 2 in layer 2, and 2 ask 3 in layer 1: something of 3 must reach 1.",
    ),
)


def right_rollout_test(rollout: Rollout) -> bool:
    """Two layers with two heads against loops; all bugs of the museum show there."""
    weights = torch.rand(2, 2, 3, 3, generator=torch.Generator().manual_seed(0))
    weights = weights / weights.sum(-1, keepdim=True)
    return torch.allclose(rollout(weights), by_loops(weights), atol=1e-5)


ROLLOUT_TEST = TestExercise(
    name="rollout_test",
    argument="rollout",
    thing="rollout",
    start="make weights (2, 2, 3, 3) whose rows sum to 1, work the answer out with loops, compare.",
    right=RIGHT_ROLLOUTS,
    museum=ROLLOUT_MUSEUM,
    refuses_all="do your weights' rows sum to 1? Compare with allclose, since floats differ in the "
    "last digit.",
    refuses_right="the two differ in the last digit only: torch.allclose, not ==.",
    source=(by_loops, right_rollout_test),
)


def rollout_test(function: object) -> None:
    """Check a learner's test: it is shown right rollouts and broken ones."""
    print(judge_test(ROLLOUT_TEST, function))


SOLUTIONS = tuple((one.name, one.source) for one in (ROLLOUT, FIND_HEAD, REFUTES, ROLLOUT_TEST))
