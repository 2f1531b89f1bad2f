"""The checks of notebook 15: right answers pass, each planted mistake gets its own message."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from verdicts import verdict, words

from bertedu.check import reading_attention as check
from bertedu.check.exercise import Exercise
from bertedu.check.reading_attention import (
    FIND_HEAD,
    REFUTES,
    RIGHT_ROLLOUTS,
    ROLLOUT,
    ROLLOUT_MUSEUM,
    by_loops,
    right_find_head,
    right_refutes,
    right_rollout,
    right_rollout_test,
)

CHECKS: list[tuple[Callable[[Any], None], Exercise]] = [
    (check.rollout, ROLLOUT),
    (check.find_head, FIND_HEAD),
    (check.refutes, REFUTES),
]
PLANTED = [
    pytest.param(judge, mistake, wrong, id=f"{exercise.name}-{i}-{j}")
    for judge, exercise in CHECKS
    for i, mistake in enumerate(exercise.mistakes)
    for j, wrong in enumerate(mistake.wrong)
]


@pytest.mark.parametrize(("judge", "mistake", "wrong"), PLANTED)
def test_a_planted_mistake_gets_its_own_message(judge: Any, mistake: Any, wrong: Any) -> None:
    text = words(verdict(judge, wrong))
    assert text.startswith("✗")
    assert words(mistake.what) in text
    assert words(mistake.likely) in text


def test_no_two_mistakes_share_a_message() -> None:
    for _, exercise in CHECKS:
        assert len({mistake.what for mistake in exercise.mistakes}) == len(exercise.mistakes)


def rollout_from_the_top(weights: Tensor) -> Tensor:
    """The other way round: start at the last layer, go down."""
    flow = torch.eye(weights.shape[-1])
    for layer in weights.flip(0):
        flow = flow @ (layer.mean(0) + torch.eye(len(flow))) / 2
    return flow


@pytest.mark.parametrize("f", [right_rollout, by_loops, rollout_from_the_top])
def test_right_rollouts_pass(f: Callable[..., Any]) -> None:
    assert verdict(check.rollout, f).startswith("✓ rollout: 100 random cases")


def find_by_loops(weights: Tensor, queries: list[int], keys: list[int]) -> list[int]:
    best, place = -1, [0, 0]
    for layer in range(weights.shape[0]):
        for head in range(weights.shape[1]):
            hits = 0
            for query, key in zip(queries, keys, strict=True):
                row = weights[layer, head, query].tolist()
                hits += row.index(max(row)) == key
            if hits > best:
                best, place = hits, [layer + 1, head + 1]
    return place


@pytest.mark.parametrize("f", [right_find_head, find_by_loops])
def test_right_finders_pass(f: Callable[..., Any]) -> None:
    assert verdict(check.find_head, f).startswith("✓ find_head: 100 random cases")


def refutes_by_loops(own: Tensor, new: Tensor, before: Tensor, after: Tensor) -> bool:
    moved = [
        sum(max(0.0, float(a - b)) for a, b in zip(one, other, strict=True))
        for one, other in zip(own.flatten(0, 1), new.flatten(0, 1), strict=True)
    ]
    same = before.tolist().index(max(before)) == after.tolist().index(max(after))
    return same and sum(moved) / len(moved) > 0.5


@pytest.mark.parametrize("f", [right_refutes, refutes_by_loops])
def test_right_refutations_pass(f: Callable[..., Any]) -> None:
    assert verdict(check.refutes, f).startswith("✓ refutes")


def test_the_cases_of_the_refutation_hold_all_four_kinds() -> None:
    kinds = {
        (bool(check.heads.total_variation(o, n).mean() > 0.5), bool(b.argmax() == a.argmax()))
        for o, n, b, a in REFUTES.cases()
    }
    assert len(kinds) == 4


@pytest.mark.parametrize(("judge", "exercise"), CHECKS)
def test_an_empty_stub_is_told_how_to_begin(judge: Any, exercise: Exercise) -> None:
    arguments = ", ".join(exercise.arguments)
    stub = eval(f"lambda {arguments}: ...")
    text = words(verdict(judge, stub))
    assert "still a stub" in text
    assert words(exercise.start) in text


@pytest.mark.parametrize(
    ("judge", "wrong", "text"),
    [
        (check.rollout, lambda w: w.mean(0), "heads are still apart"),
        (check.rollout, lambda w: w, "is wanted here"),
        (check.rollout, lambda w: w.mul_(2), "changes weights in place"),
        (check.rollout, lambda w: w.mean((0, 1)) * 7 + 1, "cases come out wrong"),
        (check.find_head, lambda w, q, k: 3, "return two things"),
        (check.refutes, lambda o, n, b, a: 0.7, "True or False"),
    ],
)
def test_other_wrong_answers_are_described(judge: Any, wrong: Any, text: str) -> None:
    assert text in words(verdict(judge, wrong))


# -- the test of rollouts


def test_right_tests_pass() -> None:
    assert verdict(check.rollout_test, right_rollout_test).startswith("✓ rollout_test: accepts 2")


@pytest.mark.parametrize("exhibit", ROLLOUT_MUSEUM, ids=lambda e: e.seen)
def test_a_test_that_lets_one_bug_pass_is_told_which(exhibit: Any) -> None:
    def blind(rollout: Any) -> bool:
        return rollout is exhibit.broken or right_rollout_test(rollout)

    text = words(verdict(check.rollout_test, blind))
    assert "1 of 7 broken rollouts got past" in text
    assert words(exhibit.try_this) in text
    assert not right_rollout_test(exhibit.broken)


def test_tests_that_refuse_too_much_are_told_so() -> None:
    assert "refuses every rollout" in words(verdict(check.rollout_test, lambda rollout: False))
    only = RIGHT_ROLLOUTS[0][1]
    text = words(verdict(check.rollout_test, lambda rollout: rollout is only))
    assert "refuses a right rollout, one written with loops" in text
    shapes = lambda rollout: rollout(torch.rand(2, 2, 3, 3)).shape == (3, 3)  # noqa: E731
    assert "7 of 7 broken rollouts got past" in words(verdict(check.rollout_test, shapes))
