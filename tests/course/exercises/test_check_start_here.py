"""The checks of notebook 00."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from verdicts import assert_named, verdict

from bertedu.model.attention import attention_mask
from bertedu.model.config import Direction
from course.exercises import check
from course.exercises.start_here import right_chance, right_top_words, right_which_can_see


def top_by_loops(logits: Tensor, k: int) -> tuple[list[int], list[float]]:
    scores = [math.exp(x) for x in logits.tolist()]
    best = sorted(range(len(scores)), key=lambda i: -scores[i])[:k]
    return best, [scores[i] / sum(scores) for i in best]


def top_by_sorting(logits: Tensor, k: int) -> list[Any]:
    shares = logits.double().softmax(0).numpy()
    ids = np.argsort(-shares)[:k]
    return [ids, shares[ids]]


def seen_by_asking(position: int, length: int, direction: str) -> list[int]:
    return [
        other
        for other in range(length)
        if direction == "bidirectional"
        or (other <= position) == (direction == "left-to-right")
        or other == position
    ]


def seen_as_range(position: int, length: int, direction: str) -> range:
    start = position if direction == "right-to-left" else 0
    return range(start, position + 1 if direction == "left-to-right" else length)


@pytest.mark.parametrize(
    ("name", "f"),
    [
        ("top_words", top_by_loops),
        ("top_words", top_by_sorting),
        ("chance", lambda v: torch.tensor(v).log()),
        ("chance", np.log),
        ("chance", lambda v: torch.nn.functional.cross_entropy(torch.ones(v), torch.tensor(0))),
        ("which_can_see", seen_by_asking),
        ("which_can_see", seen_as_range),
        ("which_can_see", lambda *inputs: torch.tensor(seen_by_asking(*inputs))),
        ("which_can_see", lambda *inputs: np.array(seen_by_asking(*inputs))),
    ],
)
def test_right_answers_pass(name: str, f: Callable[..., Any]) -> None:
    assert verdict(getattr(check, name), f).startswith(f"✓ {name}: ")


@pytest.mark.parametrize("direction", ["bidirectional", "left-to-right", "right-to-left"])
def test_the_reference_sees_what_the_model_sees(direction: Direction) -> None:
    mask = attention_mask(torch.ones(1, 5, dtype=torch.bool), direction)
    square = torch.ones(5, 5, dtype=torch.bool) if mask is None else mask[0, 0]
    for position in range(5):
        seen = set(square[position].nonzero()[:, 0].tolist())
        assert right_which_can_see(position, 5, direction) == seen


def logits_in_place(logits: Tensor, k: int) -> Any:
    logits -= logits.max()
    return right_top_words(logits, k)


PLANTED: list[tuple[str, Callable[..., Any], str]] = [
    ("top_words", lambda x, k: tuple(x.softmax(-1).topk(k)), "are in the wrong order"),
    ("top_words", lambda x, k: x.topk(k)[::-1], "these are logits, not probabilities"),
    ("top_words", logits_in_place, "changes logits in place"),
    ("top_words", lambda x, k: right_top_words(x, k)[0], "return two things: ids, probabilities"),
    ("top_words", lambda x, k: right_top_words(x, len(x)), "ids has shape (2,); (1,) is wanted"),
    ("chance", np.log2, "this is in bits: log2"),
    ("chance", lambda v: -right_chance(v), "the sign is wrong"),
    ("chance", lambda v: "ln V", "returned the str 'ln V'; one number is wanted"),
    ("chance", lambda v: math.log(v) + 1, "7 of 7 cases come out wrong"),
    ("which_can_see", lambda *a: seen_by_asking(*a)[:-1] or [0], "cases come out wrong"),
    (
        "which_can_see",
        lambda p, n, d: [j <= p for j in range(n)],
        "your list holds True or False; a position",
    ),
    ("which_can_see", lambda p, n, d: n, "returned an int; a list of positions is wanted"),
    ("which_can_see", lambda p, n, d: ["0"], "an item of your list is a str; a position is wanted"),
]


@pytest.mark.parametrize(("name", "wrong", "text"), PLANTED, ids=[text for *_, text in PLANTED])
def test_a_wrong_answer_is_named(name: str, wrong: Callable[..., Any], text: str) -> None:
    assert_named(getattr(check, name), name, wrong, text)
