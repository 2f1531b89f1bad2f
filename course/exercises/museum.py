"""Exercises in which the learner writes a test, and the bug museum tests the test."""

import copy
import io
import re
from collections.abc import Callable
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass
from functools import cache
from typing import Any

from course.exercises import judge
from course.exercises.judge import Mistake, Registered, UnreadableError, make_mistakes
from course.exercises.time_limit import TooLongError, at_most


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class TestExercise(Registered):
    """Write a test that accepts every right function and refuses every exhibit.

    The museum is written as mistakes are (see patch.py): where a bug was seen and what it
    is, ``seen: bug``, what gives it away, and one patch of the first right function.
    """

    __test__ = False  # pytest: this is no test of ours

    thing: str  # what is tested, in the singular
    right: tuple[tuple[str, Any], ...]  # how it is written, and itself
    museum: str
    refuses_all: str  # the likely reason why a test refuses everything
    refuses_right: str  # the likely reason why it refuses a right one
    demands: str = ""  # better reasons: what it may ask for against the rules, and a patch with it

    def __call__(self, function: object) -> None:
        """Print the verdict on a learner's test."""
        print(judge_test(self, function))


def _accepts(function: Callable[..., Any], shown: Any) -> bool:
    """Whether a learner's test takes this for right, without a word and without an error."""
    with judge.undisturbed(seed=0), suppress(UnreadableError):
        return judge.truth(_answer(function, shown))
    return False


def _answer(function: Callable[..., Any], shown: Any) -> Any:
    """Return what a learner's test says, or the error it stops with; ... if it is not written."""
    try:
        return function(copy.deepcopy(shown))  # it may be a list, and sorted there
    except (Exception, SystemExit) as error:
        return ... if judge.is_stub(error) else error


@cache
def exhibits(one: TestExercise) -> tuple[Mistake, ...]:
    """Make the broken functions of a museum."""
    return make_mistakes(one.museum, one.right[0][1], one.ours.__module__)


@cache
def demanded(one: TestExercise) -> tuple[Mistake, ...]:
    """Make what a test may want that refuses the first right function, of which they are made."""
    return make_mistakes(one.demands, one.right[0][1], one.ours.__module__)


def judge_test(one: TestExercise, function: object) -> str:
    """Show every function to the learner's test, and say what it got wrong."""
    if complaint := judge.cannot_call(one.name, one.arguments, function):
        return complaint
    assert callable(function)
    museum = exhibits(one)
    every = [right for _, right in one.right] + [bug.wrong[0] for bug in museum]
    try:
        with (
            judge.undisturbed(seed=0),
            redirect_stdout(io.StringIO()) as said,
            at_most(judge.SECONDS),
        ):
            answers = [_answer(function, shown) for shown in every]
    except TooLongError:
        return judge.too_long(one.name)
    if all(answer is None or answer is Ellipsis for answer in answers):
        if said.getvalue().strip() and answers[0] is None:
            return judge.prints_only(one.name)
        return judge.stub(one.name)
    verdicts = []
    for number, found in enumerate(answers):
        if isinstance(found, BaseException) and number < len(one.right):
            return judge.report(*judge.describe_error(one.name, found), likely=judge.advice(found))
        try:  # an error at an exhibit has noticed something, as in any test
            verdicts.append(not isinstance(found, BaseException) and judge.truth(found))
        except UnreadableError as error:
            return judge.report(f"✗ {one.name}: {error}")
    if not any(verdicts[: len(one.right)]) and all(verdicts[len(one.right) :]):
        what = f"your test refuses every right {one.thing}, and accepts every broken one."
        return judge.report(f"✗ {one.name}: {what}", likely="True and False are swapped.")
    for (how, _), accepted in zip(one.right, verdicts, strict=False):
        if accepted:
            continue
        asked = () if verdicts[0] else demanded(one)
        reasons = (f"{m.what} {m.likely}" for m in asked if _accepts(function, m.wrong[0]))
        more = next(reasons, "")
        if not any(verdicts):
            what = f"your test refuses every {one.thing}, right ones included."
            return judge.report(f"✗ {one.name}: {what}", likely=more or one.refuses_all)
        what = f"your test refuses a right {one.thing}, one written {how}."
        return judge.report(f"✗ {one.name}: {what}", likely=more or one.refuses_right)
    passed = [bug for bug, v in zip(museum, verdicts[len(one.right) :], strict=True) if v]
    things = one.thing + ("es" if one.thing.endswith("s") else "s")
    if passed:
        first, *others = passed  # one thing to try next is enough
        return judge.report(
            f"✗ {one.name}: {len(passed)} of {len(museum)} broken {things} got past your test.",
            f"- {first.what} To catch it, {first.likely}",
            *(f"- {bug.what}" for bug in others),
        )
    names = ", ".join(re.split("[:,]", bug.what)[0] for bug in museum)
    return judge.report(
        f"✓ {one.name}: accepts {len(one.right)} right {things}, catches {len(museum)} broken ones "
        f"({names})."
    )
