"""Exercises in which the learner writes a test, and the bug museum tests the test."""

import io
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass
from typing import Any

from bertedu.check import exercise
from bertedu.check.exercise import UnreadableError


@dataclass(frozen=True)
class Exhibit:
    """A broken function out of the bug museum: where it was seen, and what gives it away."""

    seen: str
    bug: str
    broken: Callable[..., Any]
    try_this: str


@dataclass(frozen=True)
class TestExercise:
    """Write a test that accepts every right function and refuses every exhibit."""

    __test__ = False  # pytest: this is no test of ours

    name: str
    argument: str  # the one argument of the learner's test
    thing: str  # what is tested, in the singular; its plural has an s
    start: str  # how to begin
    right: tuple[tuple[str, Callable[..., Any]], ...]  # how it is written, and itself
    museum: tuple[Exhibit, ...]
    refuses_all: str  # the likely reason why a test refuses everything
    refuses_right: str  # the likely reason why it refuses a right one
    source: tuple[Any, ...]  # a test of ours


def judge_test(one: TestExercise, function: object) -> str:
    """Show every function to the learner's test, and say what it got wrong."""
    if complaint := exercise.cannot_call(one.name, (one.argument,), one.start, function):
        return complaint
    assert callable(function)
    answers: list[Any] = []
    with exercise.undisturbed(seed=0), redirect_stdout(io.StringIO()) as said:
        for shown in [right for _, right in one.right] + [e.broken for e in one.museum]:
            try:
                answers.append(function(shown))
            except (Exception, SystemExit) as error:
                answers.append(... if exercise.is_stub(error) else error)
    if all(answer is None or answer is Ellipsis for answer in answers):
        if said.getvalue().strip() and answers[0] is None:
            return exercise.prints_only(one.name)
        return exercise.stub(one.name, one.start)
    verdicts = []
    for answer in answers:
        if isinstance(answer, BaseException):
            return exercise.report(
                *exercise.describe_error(one.name, answer), likely=exercise.hint(answer)
            )
        try:
            verdicts.append(exercise.read_bool(answer))
        except UnreadableError as error:
            return exercise.report(f"✗ {one.name}: {error}")
    if not any(verdicts):
        return exercise.report(
            f"✗ {one.name}: your test refuses every {one.thing}, right ones included.",
            likely=one.refuses_all,
        )
    for (how, _), accepted in zip(one.right, verdicts, strict=False):
        if not accepted:
            return exercise.report(
                f"✗ {one.name}: your test refuses a right {one.thing}, one written {how}.",
                likely=one.refuses_right,
            )
    passed = [e for e, v in zip(one.museum, verdicts[len(one.right) :], strict=True) if v]
    if passed:
        of_all = f"{len(passed)} of {len(one.museum)}"
        return exercise.report(
            f"✗ {one.name}: {of_all} broken {_plural(one.thing)} got past your test.",
            *(f"- {e.seen}: {e.bug}. To catch it, {e.try_this}" for e in passed),
        )
    museum = ", ".join(exhibit.seen.partition(",")[0] for exhibit in one.museum)
    return exercise.report(
        f"✓ {one.name}: accepts {len(one.right)} right {_plural(one.thing)}, catches "
        f"{len(one.museum)} broken ones ({museum})."
    )


def _plural(thing: str) -> str:
    return f"{thing}es" if thing.endswith("s") else f"{thing}s"
