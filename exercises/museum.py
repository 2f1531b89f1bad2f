"""Exercises in which the learner writes a test, and the bug museum tests the test."""

import io
import sys
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import cache
from typing import Any

from exercises import judge
from exercises.judge import Registered, UnreadableError
from exercises.patch import patched, read_mistakes


@dataclass(frozen=True)
class Exhibit:
    """A broken function out of the bug museum: where it was seen, and what gives it away."""

    seen: str
    bug: str
    try_this: str
    broken: Any


@dataclass(frozen=True, eq=False, repr=False)
class TestExercise(Registered):
    """Write a test that accepts every right function and refuses every exhibit.

    The museum is written as mistakes are (see exercises/patch.py), with ``seen: bug`` in the first
    line, and patches of the first right function.
    """

    __test__ = False  # pytest: this is no test of ours

    argument: str  # the one argument of the learner's test
    thing: str  # what is tested, in the singular; its plural has an s
    right: tuple[tuple[str, Any], ...]  # how it is written, and itself
    museum: str
    refuses_all: str  # the likely reason why a test refuses everything
    refuses_right: str  # the likely reason why it refuses a right one
    solution: tuple[Any, ...]  # a test of ours

    def __call__(self, function: object) -> None:
        """Print the verdict on a learner's test."""
        print(judge_test(self, function))


@cache
def exhibits(one: TestExercise) -> tuple[Exhibit, ...]:
    """Make the broken functions of a museum; each has one patch."""
    right, names = one.right[0][1], vars(sys.modules[one.solution[0].__module__])
    return tuple(
        Exhibit(seen, bug.removesuffix("."), try_this, patched(right, patch, names))
        for what, try_this, (patch,) in read_mistakes(one.museum)
        for seen, bug in [what.split(": ", 1)]
    )


def judge_test(one: TestExercise, function: object) -> str:
    """Show every function to the learner's test, and say what it got wrong."""
    if complaint := judge.cannot_call(one.name, (one.argument,), one.start, function):
        return complaint
    assert callable(function)
    museum = exhibits(one)
    answers: list[Any] = []
    with judge.undisturbed(seed=0), redirect_stdout(io.StringIO()) as said:
        for shown in [right for _, right in one.right] + [e.broken for e in museum]:
            try:
                answers.append(function(shown))
            except (Exception, SystemExit) as error:
                answers.append(... if judge.is_stub(error) else error)
    if all(answer is None or answer is Ellipsis for answer in answers):
        if said.getvalue().strip() and answers[0] is None:
            return judge.prints_only(one.name)
        return judge.stub(one.name, one.start)
    verdicts = []
    for answer in answers:
        if isinstance(answer, BaseException):
            return judge.report(*judge.describe_error(one.name, answer), likely=judge.hint(answer))
        try:
            verdicts.append(judge.truth(answer))
        except UnreadableError as error:
            return judge.report(f"✗ {one.name}: {error}")
    if not any(verdicts):
        return judge.report(
            f"✗ {one.name}: your test refuses every {one.thing}, right ones included.",
            likely=one.refuses_all,
        )
    for (how, _), accepted in zip(one.right, verdicts, strict=False):
        if not accepted:
            return judge.report(
                f"✗ {one.name}: your test refuses a right {one.thing}, one written {how}.",
                likely=one.refuses_right,
            )
    passed = [e for e, v in zip(museum, verdicts[len(one.right) :], strict=True) if v]
    if passed:
        of_all = f"{len(passed)} of {len(museum)}"
        return judge.report(
            f"✗ {one.name}: {of_all} broken {_plural(one.thing)} got past your test.",
            *(f"- {e.seen}: {e.bug}. To catch it, {e.try_this}" for e in passed),
        )
    names = ", ".join(exhibit.seen.partition(",")[0] for exhibit in museum)
    return judge.report(
        f"✓ {one.name}: accepts {len(one.right)} right {_plural(one.thing)}, catches "
        f"{len(museum)} broken ones ({names})."
    )


def _plural(thing: str) -> str:
    return f"{thing}es" if thing.endswith("s") else f"{thing}s"
