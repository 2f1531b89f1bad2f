"""The exercises of notebook 17 on writing: the next token's chances, and an ending's score."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from torch import Tensor
from torch.nn import functional as F
from verdicts import verdict, words

from course.exercises import check

Function = Callable[..., Any]


def by_ranks(scores: Tensor, temperature: float, top_k: int) -> Tensor:
    """Right in another way: chances of all first, cut by rank, made to add up again."""
    chances = (scores / temperature).softmax(-1)
    chances = chances * (scores.argsort(descending=True).argsort() < top_k)
    return chances / chances.sum()


def by_numpy(scores: Tensor, temperature: float, top_k: int) -> Any:
    high = np.sort(scores.numpy())[-top_k]
    raised = np.where(scores.numpy() >= high, np.exp(scores.numpy() / temperature), 0)
    return raised / raised.sum()


def in_place(scores: Tensor, temperature: float, top_k: int) -> Tensor:
    scores[scores < scores.topk(top_k).values[-1]] = -float("inf")
    return (scores / temperature).softmax(-1)


def by_cross_entropy(scores: Tensor, ids: Tensor, start: int, per_token: bool) -> Tensor:
    how = "mean" if per_token else "sum"
    return -F.cross_entropy(scores[:-1][start - 1 :], ids[start:], reduction=how)


def by_loop(scores: Tensor, ids: Tensor, start: int, per_token: bool) -> float:
    total = 0.0
    for t in range(start, len(ids)):
        total += float(scores[t - 1].softmax(-1)[ids[t]].log())
    return total / (len(ids) - start) if per_token else total


@pytest.mark.parametrize(
    ("name", "f"),
    [
        ("next_token", by_ranks),
        ("next_token", by_numpy),
        ("ending_score", by_cross_entropy),
        ("ending_score", by_loop),
    ],
)
def test_right_answers_pass(name: str, f: Function) -> None:
    assert verdict(getattr(check, name), f).startswith(f"✓ {name}: ")


@pytest.mark.parametrize(
    ("name", "wrong", "text"),
    [
        ("next_token", lambda s, t, k: (s * t).softmax(-1), "cases come out wrong"),
        ("next_token", lambda s, t, k: (s / t).topk(k).indices, "cases come out wrong"),
        ("next_token", in_place, "changes scores in place"),
        (
            "ending_score",
            lambda s, i, a, p: F.cross_entropy(
                s[a - 1 : -1], i[a:], reduction="mean" if p else "sum"
            ),
            "the sign is turned",
        ),
        (
            "ending_score",
            lambda s, i, a, p: s.log_softmax(-1).gather(1, i[:, None])[a - 1 :, 0].sum(),
            "cases come out wrong",
        ),
    ],
)
def test_wrong_answers_are_told_why(name: str, wrong: Function, text: str) -> None:
    said = words(verdict(getattr(check, name), wrong))
    assert said.startswith(f"✗ {name}: ")
    assert text in said
