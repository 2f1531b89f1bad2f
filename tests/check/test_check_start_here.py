"""The checks of notebook 00."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from verdicts import verdict, words

from bertedu import check
from bertedu.check.start_here import right_chance, right_top_words, right_which_can_see
from bertedu.model.attention import attention_mask
from bertedu.model.config import Direction

# -- top_words


def top_by_loops(logits: Tensor, k: int) -> tuple[list[int], list[float]]:
    scores = [math.exp(x) for x in logits.tolist()]
    best = sorted(range(len(scores)), key=lambda i: -scores[i])[:k]
    return best, [scores[i] / sum(scores) for i in best]


def top_by_sorting(logits: Tensor, k: int) -> list[Any]:
    shares = logits.double().softmax(0).numpy()
    ids = np.argsort(-shares)[:k]
    return [ids, shares[ids]]


@pytest.mark.parametrize("f", [right_top_words, top_by_loops, top_by_sorting])
def test_right_top_words_pass(f: Callable[..., Any]) -> None:
    assert verdict(check.top_words, f).startswith("✓ top_words: 100 random cases")


def with_values(values: Callable[[Tensor], Tensor]) -> Callable[..., Any]:
    def f(logits: Tensor, k: int) -> tuple[Tensor, Tensor]:
        ids = logits.argsort(descending=True)[:k]
        return ids, values(logits)[ids]

    return f


def with_ids(choose: Callable[[Tensor, int], Tensor]) -> Callable[..., Any]:
    def f(logits: Tensor, k: int) -> tuple[Tensor, Tensor]:
        ids = choose(logits, k)
        return ids, logits.softmax(-1)[ids]

    return f


def topk_as_it_comes(logits: Tensor, k: int) -> Any:
    return tuple(logits.softmax(-1).topk(k))


def softmax_of_k(logits: Tensor, k: int) -> Any:
    values, ids = logits.topk(k)
    return ids, values.softmax(-1)


def worst_with_logits(logits: Tensor, k: int) -> Any:
    """Two mistakes: the ids come first."""
    ids = logits.argsort()[:k]
    return ids, logits[ids]


def logits_in_place(logits: Tensor, k: int) -> Any:
    logits -= logits.max()
    return right_top_words(logits, k)


PLANTED_TOPS = [
    (topk_as_it_comes, "ids and probabilities are in the wrong order"),
    (softmax_of_k, "softmax runs over the k words only"),
    (with_values(lambda x: x), "these are logits, not probabilities"),
    (with_values(lambda x: x.log_softmax(-1)), "these are log probabilities"),
    (with_values(torch.sigmoid), "sigmoid is used, not softmax"),
    (with_values(torch.exp), "the exponentials are not divided by their sum"),
    (with_values(lambda x: x / x.sum()), "divided by their sum, without exp"),
    (with_ids(lambda x, k: x.argsort()[:k]), "the least likely words"),
    (with_ids(lambda x, k: x.argsort()[:k].flip(0)), "the least likely words"),
    (with_ids(lambda x, k: x.argsort()[-k:]), "the best comes last"),
    (with_ids(lambda x, k: x.topk(k).indices.sort().values), "in the order of their ids"),
    (worst_with_logits, "the least likely words. (There is more, but this comes first.)"),
    (logits_in_place, "changes logits in place"),
    (lambda logits, k: right_top_words(logits, k)[0], "return two things: ids, probabilities"),
    (lambda logits, k: right_top_words(logits, len(logits)), "ids has shape (2,); (1,) is wanted"),
]


@pytest.mark.parametrize(("wrong", "text"), PLANTED_TOPS, ids=[t for _, t in PLANTED_TOPS])
def test_each_wrong_top_words_gets_its_own_message(wrong: Callable[..., Any], text: str) -> None:
    said = verdict(check.top_words, wrong)
    assert said.startswith("✗ top_words: ")
    assert text in words(said)
    assert "Smallest case: logits = [" in said
    assert said == verdict(check.top_words, wrong)


# -- chance


@pytest.mark.parametrize(
    "f",
    [
        right_chance,
        lambda v: -math.log(1 / v),
        lambda v: torch.tensor(v).log(),
        np.log,
        lambda v: torch.nn.functional.cross_entropy(torch.zeros(1, v), torch.tensor([0])),
    ],
)
def test_right_chances_pass(f: Callable[..., Any]) -> None:
    assert verdict(check.chance, f).startswith("✓ chance: 7 vocabularies")


PLANTED_CHANCES = [
    (lambda v: math.log2(v), "this is in bits: log2"),
    (lambda v: math.log(v, 10), "this is log10"),
    (lambda v: 1 / v, "1/V, not the loss"),
    (lambda v: -1 / v, "this is -1/V: the logarithm is missing"),
    (lambda v: math.log(1 / v), "the sign is wrong"),
    (lambda v: (v - 1) / v, "the share of wrong guesses"),
    (lambda v: v, "this is V itself"),
    (lambda v: -1 / v * math.log(1 / v), "one word of the sum"),
    (lambda v: "ln V", "returned the str 'ln V'; one number is wanted"),
    (lambda v: math.log(v) + 1, "7 of 7 cases come out wrong"),
]


@pytest.mark.parametrize(("wrong", "text"), PLANTED_CHANCES, ids=[t for _, t in PLANTED_CHANCES])
def test_each_wrong_chance_gets_its_own_message(wrong: Callable[..., Any], text: str) -> None:
    said = verdict(check.chance, wrong)
    assert said.startswith("✗ chance: ")
    assert text in words(said)
    assert "Smallest case: vocab_size = 2." in said


# -- which_can_see


@pytest.mark.parametrize("direction", ["bidirectional", "left-to-right", "right-to-left"])
def test_the_reference_sees_what_the_model_sees(direction: Direction) -> None:
    mask = attention_mask(torch.ones(1, 5, dtype=torch.bool), direction)
    square = torch.ones(5, 5, dtype=torch.bool) if mask is None else mask[0, 0]
    for position in range(5):
        seen = set(square[position].nonzero()[:, 0].tolist())
        assert right_which_can_see(position, 5, direction) == seen


def seen_by_asking(position: int, length: int, direction: str) -> list[int]:
    return [
        other
        for other in range(length)
        if direction == "bidirectional"
        or (other <= position) == (direction == "left-to-right")
        or other == position
    ]


def seen_as_tensor(position: int, length: int, direction: str) -> Tensor:
    return torch.tensor(sorted(right_which_can_see(position, length, direction)))


def seen_as_range(position: int, length: int, direction: str) -> range:
    start = position if direction == "right-to-left" else 0
    return range(start, position + 1 if direction == "left-to-right" else length)


def seen_as_array(position: int, length: int, direction: str) -> Any:
    return np.array(list(seen_as_range(position, length, direction)))


@pytest.mark.parametrize(
    "f", [right_which_can_see, seen_by_asking, seen_as_tensor, seen_as_range, seen_as_array]
)
def test_right_sights_pass(f: Callable[..., Any]) -> None:
    assert verdict(check.which_can_see, f).startswith("✓ which_can_see: every position of every")


def sees(left: Any, right: Any, both: Any = lambda p, n: range(n)) -> Callable[..., Any]:
    """Three rules (position, length) -> positions, by direction."""

    def f(position: int, length: int, direction: str) -> set[int]:
        rule = {"left-to-right": left, "right-to-left": right, "bidirectional": both}[direction]
        return set(rule(position, length))

    return f


def to_left(p: int, n: int) -> range:
    return range(p + 1)


def to_right(p: int, n: int) -> range:
    return range(p, n)


PLANTED_SIGHTS = [
    (sees(lambda p, n: range(p), lambda p, n: range(p + 1, n)), "a token cannot see itself."),
    (
        sees(lambda p, n: range(p), lambda p, n: range(p + 1, n), lambda p, n: {*range(n)} - {p}),
        "a token cannot see itself.",
    ),
    (sees(lambda p, n: range(p), to_right), "in one of the two directions, a token cannot see"),
    (sees(to_left, lambda p, n: range(p + 1, n)), "in one of the two directions, a token cannot"),
    (sees(to_right, to_left), "left-to-right and right-to-left are swapped"),
    (sees(lambda p, n: range(min(p + 2, n)), to_right), "one position too many"),
    (sees(lambda p, n: range(p + 2), to_right), "one position too many"),
    (sees(to_left, lambda p, n: range(max(p - 1, 0), n)), "one position too many"),
    (
        sees(
            lambda p, n: range(1, p + 2),
            lambda p, n: range(p + 1, n + 1),
            lambda p, n: range(1, n + 1),
        ),
        "positions are counted from 1",
    ),
    (sees(to_left, lambda p, n: range(p, n - 1)), "the last position is missing"),
    (sees(to_left, to_right, lambda p, n: range(n - 1)), "the last position is missing"),
    (sees(lambda p, n: range(n), lambda p, n: range(n)), "everything, whatever the direction"),
    (sees(to_left, to_right, to_left), "bidirectional sees one side only"),
    (
        sees(
            lambda p, n: {p - 1, p} & {*range(n)},
            lambda p, n: {p, p + 1} & {*range(n)},
            lambda p, n: {p - 1, p, p + 1} & {*range(n)},
        ),
        "only the neighbors can be seen",
    ),
    (
        lambda p, n, d: [j in right_which_can_see(p, n, d) for j in range(n)],
        "returned True and False",
    ),
    (lambda p, n, d: len(right_which_can_see(p, n, d)), "returned 1; a set of positions is wanted"),
    (lambda p, n, d: ["0"], "not a whole number"),
]


@pytest.mark.parametrize(("wrong", "text"), PLANTED_SIGHTS)
def test_each_wrong_sight_gets_its_own_message(wrong: Callable[..., Any], text: str) -> None:
    said = verdict(check.which_can_see, wrong)
    assert said.startswith("✗ which_can_see: ")
    assert text in words(said)
    assert "Smallest case: position = " in said
    assert said == verdict(check.which_can_see, wrong)
