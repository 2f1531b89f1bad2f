"""The exercises of notebook 15: rollout, the head that …, a refutation, and a test of rollouts."""

from collections.abc import Callable, Iterator
from itertools import product

import torch
from torch import Tensor

from bertedu.analysis.attention_heads import rollout, total_variation
from course.exercises.judge import Exercise, Inputs
from course.exercises.museum import TestExercise

Rollout = Callable[[Tensor], Tensor]


def _weights(generator: torch.Generator, *sizes: int) -> Tensor:
    """Rows that sum to 1, in hundredths, so that a case can be typed."""
    raw = torch.rand(*sizes, generator=generator).pow(3) + 0.02
    rounded = (100 * raw / raw.sum(-1, keepdim=True)).round()
    rounded[..., 0] += 100 - rounded.sum(-1)
    return rounded / 100


def _rollout_cases() -> list[Inputs]:
    generator = torch.Generator().manual_seed(15)
    sizes = [(1, 1, 2, 2), (2, 1, 2, 2), (1, 2, 2, 2), (2, 2, 3, 3), (3, 2, 4, 4)]
    return [(_weights(generator, *size),) for size in sizes for _ in range(20)]


Exercise.asking(
    asks="weights (L, A, S, S) -> (S, S): attention followed through all layers",
    cases=_rollout_cases,
    tried="100 random cases, of 1 to 3 layers with 1 or 2 heads.",
    start="steps = 0.5 * weights.mean(dim=1) + 0.5 * torch.eye(S); then multiply them, layer by "
    "layer.",
    mistakes="""
    ✗ the residual is missing.
      half of what a layer passes on has never been through attention: add 0.5 * I.
    | 0.5 * weights.mean(dim=1) + 0.5 * torch.eye(size) => weights.mean(dim=1)
    ✗ rows do not sum to 1: A + I is not halved.
      each row of A sums to 1 and so does each row of I, so their sum has rows of 2. 0.5 * A + 0.5 *
      I.
    | 0.5 * =>
    ✗ the layers are multiplied in the wrong order.
      the last layer's rows ask the layer below it: flow = step @ flow, and the first layer stands
      to the right.
    | step @ flow => flow @ step
    """,
)(rollout)


def _find_cases() -> list[Inputs]:
    generator = torch.Generator().manual_seed(16)
    cases: list[Inputs] = []
    for layers, count, size, wanted in ((1, 2, 3, 20), (2, 3, 4, 60), (3, 2, 6, 100)):
        while len(cases) < wanted:
            weights = _weights(generator, layers, count, size, size)
            queries = torch.randperm(size, generator=generator)[:-1].tolist()
            keys = torch.randint(size, (size - 1,), generator=generator).tolist()
            asked = weights[..., queries, :]
            clear = ((asked == asked.amax(-1, keepdim=True)).sum(-1) == 1).all()
            hits = (asked.argmax(-1) == torch.tensor(keys)).sum(-1)
            if clear and (hits == hits.max()).sum() == 1:  # one strongest key each, one winner
                cases.append((weights, queries, keys))
    return cases


@Exercise.asking(
    asks="(weights, queries, keys) -> (layer, head): the head that finds a relation best",
    cases=_find_cases,
    tensors="layer, head",
    tried="100 random cases, of 1 to 3 layers with 2 or 3 heads.",
    start="best = weights.argmax(dim=-1) is each query's strongest key; count where it is right.",
    mistakes="""
    ✗ you count layers and heads from 0.
      the paper and this course count from 1: add 1 to both.
    | layer + 1, head + 1 => layer, head
    ✗ queries and keys have changed places.
      weights[layer, head, query] is the row of one query; argmax runs along it.
    | weights.argmax(dim=-1) => weights.argmax(dim=-2)
    ✗ you take the head that gives the right keys the most weight in all.
      one heavy weight can outweigh many near misses. Count how often the right key is the
      *strongest*: argmax, then ==.
    | (best[..., queries] == torch.tensor(keys)) => weights[..., queries, keys]
    """,
)
def right_find_head(weights: Tensor, queries: list[int], keys: list[int]) -> tuple[int, int]:
    """(L, A, S, S): the layer and head, from 1, whose strongest key is most often right."""
    best = weights.argmax(dim=-1)  # (L, A, S)
    hits = (best[..., queries] == torch.tensor(keys)).sum(dim=-1)  # (L, A)
    layer, head = divmod(int(hits.argmax()), hits.shape[1])
    return layer + 1, head + 1


def _refute_cases() -> Iterator[Inputs]:
    generator = torch.Generator().manual_seed(17)
    for count, size, words in ((1, 2, 3), (2, 3, 4), (2, 5, 6)):
        for number in range(40):
            own, before = _weights(generator, count, size, size), _weights(generator, words)
            away = torch.zeros_like(own).scatter(-1, own.argmin(-1, keepdim=True), 1.0)
            mixed = torch.cat([away[:1], own[1:]])  # heads need not agree
            new = (own, away, own.flip(-1), mixed, mixed.flip(-1))[number % 5]
            after = (_weights(generator, words), before.softmax(-1))[number % 2]  # or same order
            clear = abs(float(total_variation(own, new).mean()) - 0.5) > 0.01
            if clear and (before == before.max()).sum() == 1:
                yield own, new, before, after


@Exercise.asking(
    asks="(own, new, before, after) -> bool: does this refute that the attention is why?",
    cases=_refute_cases,
    tried="random attention, near and far, with the same answer and with another.",
    start="moved = 0.5 * (own - new).abs().sum(dim=-1), a number for each query; then its mean.",
    beside=(total_variation,),
    mistakes="""
    ✗ you look at the answer only.
      the same answer from the same attention refutes nothing. More than half of the attention must
      have moved.
    | moved > 0.5 and =>
    ✗ you look at the attention only.
      if the answer has changed as well, the claim stands: compare before.argmax() with
      after.argmax().
    | and before.argmax() == after.argmax() =>
    ✗ what has moved is counted twice: the half is missing.
      what leaves one key arrives at another, so the differences of a row sum to twice what moved:
      0.5 * (own - new).abs().sum(-1).
    | moved > 0.5 => 2 * moved > 0.5
    """,
)
def right_refutes(own: Tensor, new: Tensor, before: Tensor, after: Tensor) -> bool:
    """(A, S, S) twice, (V,) twice: more than half of the attention moved, and the same word."""
    moved = total_variation(own, new).mean()
    return bool(moved > 0.5 and before.argmax() == after.argmax())


# -- a test of rollouts


def by_loops(weights: Tensor) -> Tensor:
    """(L, A, S, S) -> (S, S), number by number."""
    size = weights.shape[-1]
    flow = torch.eye(size)
    for layer in weights:
        step = torch.zeros(size, size)
        for i, j in product(range(size), repeat=2):
            step[i, j] = 0.5 * layer[:, i, j].mean() + (0.5 if i == j else 0.0)
        flow = step @ flow
    return flow


@TestExercise.asking(
    asks="a test, (rollout) -> bool: it is shown right rollouts and broken ones",
    thing="rollout",
    start="make weights (2, 2, 3, 3) whose rows sum to 1, work the answer out with loops, compare.",
    right=(("with matrices", rollout), ("with loops", by_loops)),
    refuses_all="do your weights' rows sum to 1? Compare with allclose, since floats differ in the "
    "last digit.",
    refuses_right="the two differ in the last digit only: torch.allclose, not ==.",
    beside=(by_loops,),
    museum="""
    ✗ no residual: attention alone is multiplied, as if a token did not keep its own state.
      let every head look at one token only: half must still stay at home.
    | 0.5 * weights.mean(dim=1) + 0.5 * torch.eye(size) => weights.mean(dim=1)
    ✗ the wrong order: the first layer asks the last.
      give two layers different maps: exchanging them must change the result the right way; work out
      two tokens by hand.
    | step @ flow => flow @ step
    ✗ not halved: A + I is used as it is.
      add up the rows.
    | 0.5 * =>
    ✗ the first head only: the other heads are forgotten.
      change the second head and see whether the result moves.
    | .mean(dim=1) => [:, 0]
    ✗ kept after dropout, as in dhlee347/pytorchic-bert: the weights have been through dropout: rows
    do not sum to 1, and no two runs agree.
      add up the rows, or call it twice.
    | weights.mean => torch.nn.functional.dropout(weights, 0.1).mean
    ✗ the mean of all layers: maps are averaged, so no path leads over a third token.
      let token 1 ask 2 in layer 2, and 2 ask 3 in layer 1: something of 3 must reach 1.
    | return flow => return steps.mean(0)
    """,
)
def right_rollout_test(rollout: Rollout) -> bool:
    """Two layers with two heads against loops; all bugs of the museum show there."""
    weights = torch.rand(2, 2, 3, 3, generator=torch.Generator().manual_seed(0))
    weights = weights / weights.sum(-1, keepdim=True)
    return torch.allclose(rollout(weights), by_loops(weights), atol=1e-5)
