"""The exercises of notebook 15: rollout, the head that …, a refutation, and a test of rollouts."""

from typing import Any

import pytest
import torch
from torch import Tensor
from verdicts import assert_named, verdict, words

from bertedu.analysis.attention_heads import rollout, total_variation
from course.exercises import check
from course.exercises.reading_attention import REFUTES, by_loops


def rollout_from_the_top(weights: Tensor) -> Tensor:
    """The other way round: start at the last layer, go down."""
    flow = torch.eye(weights.shape[-1])
    for layer in weights.flip(0):
        flow = flow @ (layer.mean(0) + torch.eye(len(flow))) / 2
    return flow


def find_by_loops(weights: Tensor, queries: list[int], keys: list[int]) -> list[int]:
    best, place = -1, [0, 0]
    for layer in range(weights.shape[0]):
        for head in range(weights.shape[1]):
            rows = [weights[layer, head, query].tolist() for query in queries]
            hits = sum(row.index(max(row)) == key for row, key in zip(rows, keys, strict=True))
            if hits > best:
                best, place = hits, [layer + 1, head + 1]
    return place


def refutes_by_loops(own: Tensor, new: Tensor, before: Tensor, after: Tensor) -> bool:
    moved = [
        sum(max(0.0, float(a - b)) for a, b in zip(one, other, strict=True))
        for one, other in zip(own.flatten(0, 1), new.flatten(0, 1), strict=True)
    ]
    same = before.tolist().index(max(before)) == after.tolist().index(max(after))
    return same and sum(moved) / len(moved) > 0.5


@pytest.mark.parametrize(
    ("name", "f", "said"),
    [
        ("rollout", by_loops, "100 random cases"),
        ("rollout", rollout_from_the_top, "100 random cases"),
        ("find_head", find_by_loops, "100 random cases"),
        ("refutes", refutes_by_loops, "random attention, near and far"),
    ],
)
def test_what_is_right_in_another_way_passes(name: str, f: Any, said: str) -> None:
    assert verdict(getattr(check, name), f).startswith(f"✓ {name}: {said}")


def test_the_cases_of_the_refutation_hold_all_four_kinds() -> None:
    kinds = {
        (bool(total_variation(o, n).mean() > 0.5), bool(b.argmax() == a.argmax()))
        for o, n, b, a in REFUTES.cases()
    }
    assert len(kinds) == 4


def upside_down(w: Tensor) -> Tensor:
    return rollout(torch.stack([layer.mean(0, keepdim=True) for layer in w.flip(0)]))


@pytest.mark.parametrize(
    ("name", "wrong", "text"),
    [
        ("rollout", upside_down, "the layers are multiplied in the wrong order"),
        ("rollout", lambda w: torch.linalg.multi_dot([*w.mean(1).flip(0), torch.eye(w.shape[-1])]),
         "the residual is missing"),
        ("rollout", lambda w: w, "is wanted here"),
        ("rollout", lambda w: w.mul_(2), "changes weights in place"),
        ("rollout", lambda w: w.mean((0, 1)) * 7 + 1, "cases come out wrong"),
        ("find_head", lambda w, q, k: find_by_loops(w.mT, q, k), "queries and keys have changed"),
        ("find_head", lambda w, q, k: 3, "return two things"),
        ("refutes", lambda o, n, b, a: (o - n).abs().sum(-1).mean() > 0.5
         and int(b.argmax()) == int(a.argmax()), "the half is missing"),
        ("refutes", lambda o, n, b, a: b.topk(1).indices == a.topk(1).indices, "the answer only"),
        ("refutes", lambda o, n, b, a: 0.7, "True or False"),
    ],
)  # fmt: skip
def test_wrong_answers_are_described(name: str, wrong: Any, text: str) -> None:
    assert_named(getattr(check, name), name, wrong, text)


def test_tests_that_are_too_strict_or_too_lax_are_told_so() -> None:
    text = words(verdict(check.rollout_test, lambda f: f is rollout))
    assert "refuses a right rollout, one written with loops" in text
    shapes = lambda f: f(torch.rand(2, 2, 3, 3)).shape == (3, 3)  # noqa: E731
    assert "6 of 6 broken rollouts got past" in words(verdict(check.rollout_test, shapes))
