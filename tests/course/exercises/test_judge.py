"""What all checks share: stubs, errors, isolation, solutions; no message hides another."""

import copy
import math
import random
import re
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils._pytree import tree_map, tree_map_only
from verdicts import verdict, words

from course.exercises import check, judge, start_here
from course.exercises.judge import KNOWN, Exercise, mistakes_of
from course.exercises.museum import TestExercise, exhibits
from course.exercises.patch import source_of
from course.exercises.time_limit import TooLongError, at_most

EXERCISES = [value for value in KNOWN.values() if isinstance(value, Exercise)]
TESTS = [value for value in KNOWN.values() if isinstance(value, TestExercise)]
by_name = pytest.mark.parametrize("one", EXERCISES, ids=[e.name for e in EXERCISES])
ALL: list[Exercise | TestExercise] = [*EXERCISES, *TESTS]
by_any_name = pytest.mark.parametrize("one", ALL, ids=[e.name for e in ALL])


def test_what_the_museum_says_reads_as_sentences() -> None:
    """The verdict goes on behind the bug: "…. To catch it, …"."""
    assert len(TESTS) > 10
    for one in TESTS:
        for exhibit in exhibits(one):
            assert ": " in exhibit.what
            assert exhibit.what.endswith("."), exhibit.what
            assert exhibit.likely.endswith("."), exhibit.likely
            assert len(exhibit.wrong) == 1


def test_a_function_is_used_if_it_passes_and_ours_until_then(
    capsys: pytest.CaptureFixture[str],
) -> None:
    one = check.chance

    def mine(vocab_size: int) -> float:
        return -math.log(1 / vocab_size)

    assert one.or_ours(mine)(7) == mine(7)
    assert one.or_ours(lambda vocab_size: 1 - mine(vocab_size)) is one.right
    assert one.or_ours(None) is one.right
    assert capsys.readouterr().out.splitlines() == [
        "chance: yours",
        *["chance: ours, until check.chance passes yours"] * 2,
    ]


@by_name
def test_what_passes_as_lists_is_in_the_next_cell_as_ours(one: Exercise) -> None:
    mine = one.or_ours(lambda *inputs: tree_map_only(Tensor, Tensor.tolist, one.right(*inputs)))
    first, again = (next(iter(one.cases())) for _ in range(2))
    found, wanted = (
        tree_map(lambda x: (type(x), getattr(x, "dtype", None)), answer)
        for answer in (mine(*first), judge.without_numpy(one.right(*again)))
    )
    assert found == wanted


@by_name
def test_every_known_mistake_gets_its_own_message(one: Exercise) -> None:
    """No mistake stands in the shadow of one before it, or is right after all."""
    known = mistakes_of(one)
    assert len({mistake.what for mistake in known}) == len(known)
    for mistake in known:
        for wrong in mistake.wrong:
            said = judge.judge(one, wrong)
            assert max(map(len, said.splitlines())) <= 100  # no wider than a notebook
            said = words(said)
            assert said.startswith(f"✗ {one.name}: {mistake.what} Smallest case: ")
            assert said.endswith(f"Likely: {mistake.likely}")


@pytest.mark.parametrize("one", TESTS, ids=[e.name for e in TESTS])
def test_a_test_of_ours_passes_and_each_exhibit_is_named_alone(one: TestExercise) -> None:
    """A learner's test that is blind to one exhibit is told which one, and how to catch it."""
    ours = one.ours
    assert verdict(one, ours).startswith(f"✓ {one.name}: accepts {len(one.right)} right ")
    broken = [e.wrong[0] for e in exhibits(one)]
    assert not any(map(ours, broken))
    stops = verdict(one, lambda shown: ours(shown) or 1 / 0)  # at an exhibit, as an assert would
    assert stops == verdict(one, ours)
    for exhibit, wrong in zip(exhibits(one), broken, strict=True):
        said = words(verdict(one, lambda shown, wrong=wrong: shown == wrong or shown not in broken))
        assert "1 of " in said
        assert f"- {exhibit.what} To catch it, {exhibit.likely}" in said
    said = words(verdict(one, lambda shown: True))
    assert all(f"- {exhibit.what}" in said for exhibit in exhibits(one))
    assert f"refuses every {one.thing}, right" in words(verdict(one, lambda shown: False))
    once = iter([False] * (len(one.right) + len(broken)))  # at a second look it stops
    assert f"refuses every {one.thing}, right" in words(verdict(one, lambda shown: next(once)))


def not_yet(*_: Any) -> None:
    raise NotImplementedError


@by_any_name
def test_a_stub_is_told_that_it_is_one_and_nothing_else(one: Exercise | TestExercise) -> None:
    stubs: list[Any] = [..., None, lambda *_: None, lambda *_: ..., not_yet]
    if isinstance(one, Exercise):
        stubs.append(lambda *_: (None, None))
    for stub in stubs:
        said = verdict(getattr(check, one.name), stub)
        assert said.startswith(f"… {one.name}: not written yet, or no return.")
        assert len(said) <= 101  # a notebook breaks longer lines in mid-word


def loops(*_: Any) -> None:
    while True:
        with suppress(Exception):
            time.sleep(1)


@pytest.mark.parametrize("name", ["slope", "softmax", "fair"])
def test_a_function_that_never_ends_is_ended(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    one = getattr(check, name)
    assert "✗" not in verdict(one, one.ours)  # what we need is at hand
    monkeypatch.setattr(judge, "SECONDS", 0.1)
    began = time.monotonic()
    said = words(verdict(one, loops))
    assert time.monotonic() - began < 0.9
    assert said.startswith(f"✗ {name}: your function runs for more than 0.1 seconds. Does a loop ")
    assert "print in the loop what should change" in said
    assert not any(signal.getitimer(signal.ITIMER_REAL))  # no alarm is left to ring


def test_an_alarm_leaves_the_one_around_it_and_rings_until_it_is_heard() -> None:
    def one_in_another() -> None:
        with pytest.raises(TooLongError, match=r"ran longer than 0\.1 s"), at_most(0.1):
            loops()
        with at_most(60):  # the shorter one is around it
            loops()

    def heard_the_second_time() -> None:
        with suppress(TooLongError):
            loops()
        loops()

    for f in (one_in_another, heard_the_second_time):
        with pytest.raises(TooLongError, match=r"ran longer than 0\.4 s"), at_most(0.4):
            f()


def test_another_thread_has_no_alarm_and_no_error() -> None:
    said: list[str] = []
    thread = threading.Thread(target=lambda: said.append(judge.judge(check.chance, np.log)))
    thread.start()
    thread.join()
    assert said[0].startswith("✓ chance")


@by_any_name
def test_an_answer_that_is_printed_and_not_returned_is_told_so(
    one: Exercise | TestExercise,
) -> None:
    def prints(*_: Any) -> None:
        print(3.14)

    def prints_and_waits(*_: Any) -> None:
        print("not done yet")
        raise NotImplementedError

    said = words(verdict(getattr(check, one.name), prints))
    assert said.startswith(f"✗ {one.name}: your function prints something and returns nothing.")
    assert "End your function with return" in said
    assert "not written yet" in verdict(getattr(check, one.name), prints_and_waits)
    assert "not written yet" in verdict(getattr(check, one.name), lambda *_: print(" ", end=""))


@by_any_name
def test_what_is_no_function_of_these_arguments_is_told_so(one: Exercise | TestExercise) -> None:
    run = getattr(check, one.name)
    assert f"✗ {one.name}: wrong number of arguments." in verdict(run, lambda: 1)
    assert f"✗ {one.name}: got the int 3, not a function." in verdict(run, 3)


@by_any_name
def test_no_check_disturbs_a_source_of_chance(one: Exercise | TestExercise) -> None:
    def states() -> Any:
        numpy: Any = np.random.get_state()
        return random.getstate(), numpy[1].tolist(), torch.get_rng_state().tolist()

    before = states()
    judge._reference.cache_clear()  # our own function draws, too, when it is first run

    def draws(*_: Any) -> Any:
        drawn = random.random() + float(np.random.rand()) + float(torch.rand(1))
        return drawn if isinstance(one, Exercise) else drawn > 0

    verdict(one, draws)
    assert states() == before
    if one.name == "chance":
        for draw in (random.random, np.random.rand, lambda: float(torch.rand(1))):
            assert "random numbers of its own" in verdict(one, lambda _, draw=draw: draw())


ODD: list[Any] = [
    lambda *_: "text",
    lambda *_: float("nan"),
    lambda *_: (torch.zeros(0), torch.zeros(0)),
    lambda *_: ([[1], [2, 3]], [[object()]]),
    lambda *_: 1 / 0,
    # every exercise meets those five, three exercises the others, too: no reader can raise
    lambda *_: [],
    lambda *_: {},
    lambda *_: object(),
    lambda *_: 1 + 2j,
    lambda *_: torch.zeros(0),
    lambda *_: np.array([object()]),
    lambda *_: (x for x in "ab"),
    lambda *_: [*range(100)],
    lambda *_: sys.exit(),
    lambda *arguments: arguments[99],
    lambda: None,
    torch.softmax,
    torch.zeros(2),
    object,
]
MEET_ALL = ("chance", "layer_norm", "choice_rows")  # a number, a tensor, three lists


@by_name
def test_nothing_raises_and_nothing_odd_passes(one: Exercise) -> None:
    for odd in ODD if one.name in MEET_ALL else ODD[:5]:
        said = verdict(one, odd)
        assert said.startswith(f"✗ {one.name}: ")
        assert "0x" not in said.replace("0x…", "")
        if one.name in MEET_ALL:
            assert said == verdict(one, odd)


def undefined_name(vocab_size: int) -> Any:
    return xor_of(vocab_size)  # type: ignore[name-defined]  # noqa: F821


def deep_inside_torch(vocab_size: int) -> Any:
    ones = torch.ones(vocab_size)
    return torch.nn.functional.cross_entropy(ones, torch.zeros(1))


def forever(vocab_size: int) -> Any:
    return forever(vocab_size)


@pytest.mark.parametrize(
    ("broken", "parts"),
    [
        (undefined_name, ["NameError", "Line 2 of undefined_name: return xor_of(", "spelling"]),
        (deep_inside_torch, ["Error", "Line 3 of deep_inside_torch: return torch.nn.functional"]),
        (forever, ["RecursionError", "Line 2 of forever", "calls itself"]),
        (lambda v: [1, 2][v], ["IndexError", "past the end of a list"]),
        (lambda v: torch.ones(2)[v], ["IndexError", "points outside its tensor", "both shapes"]),
        (lambda v: {}["V"], ["KeyError", "key is not there"]),
        (lambda v: v.log(), ["AttributeError", "'log'", "Print type("]),
        (lambda v: 1 / (v - v), ["ZeroDivisionError", "is 0 in this case"]),
        (lambda v: v + "1", ["TypeError", "wrong type"]),
        (lambda v: int("V"), ["ValueError", "does not fit"]),
        (lambda v: torch.ones(v).sum().backward(), ["two shapes do not", "gradient", ".requires_"]),
        (lambda v: (_ for _ in ()).throw(OSError("gone")), ["OSError: gone", "smallest case your"]),
        (lambda v: int(f"{object()}"), ["'<object object at 0x…>'"]),
        (lambda v: start_here.right_chance(v) / (v < 50), ["Smallest case: vocab_size = 100"]),
        (lambda v: exit(3), ["SystemExit", "leave out exit()"]),
        (lambda v: math.nan, ["Yours gives nan; it should"]),
        (lambda v: torch.tensor([v]).softmax(0), ["stopped with NotImpl", "wants floats"]),
        (lambda v: 0.5 & torch.tensor([v > 1]) > 0.1, ["Put each comparison in parentheses"]),
        (lambda v: torch.tensor([1.0, v]) ^ 2, ["not implemented", "is written with **"]),
        (lambda v: v if torch.tensor([1, v]) > 2 else 0, ["ambiguous", "use torch.where"]),
        (lambda v: torch.ones(v, requires_grad=True).zero_(), ["inside with torch.no_grad():"]),
        (lambda: 1, ["wrong number of arguments. Yours takes nothing; it is called with 1"]),
        (lambda a, b: 1, ["Yours takes a, b; it is called with 1: vocab_size"]),
        (0.5, ["got the float 0.5, not a function", "the function itself: check.chance(my_chan"]),
        (object(), ["got an object, not a function"]),
    ],
)
def test_an_error_is_told_with_the_learners_line_and_a_hint(broken: Any, parts: list[str]) -> None:
    said = words(verdict(check.chance, broken))
    assert said.startswith("✗ chance: ")
    for part in parts:
        assert part in said
    assert ".py" not in said  # no path of a machine


def test_prints_and_warnings_of_the_learner_stay_inside(capsys: pytest.CaptureFixture[str]) -> None:
    def f(vocab_size: int) -> float:
        print("here")
        print("there", file=sys.stderr)
        warnings.warn("careful", stacklevel=1)
        return start_here.right_chance(vocab_size)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check.chance(f)
    captured = capsys.readouterr()
    assert captured.out.startswith("✓ chance")
    assert captured.out.count("\n") == 1
    assert captured.err == ""


def test_what_is_kept_between_calls_is_no_random_number() -> None:
    def keeps(vocab_size: int, found: list[int] = []) -> float:  # noqa: B006
        found.append(vocab_size)
        return start_here.right_chance(sum(found))

    said = words(verdict(check.chance, keeps))
    assert said.startswith("✗ chance: the same input gives another result at the second call. ")
    assert said.endswith("outside the function. Make it anew inside.")


def is_full(value: Any, kinds: Any) -> bool:
    return isinstance(value, kinds) and 0 not in getattr(value, "shape", ())


@by_name
def test_what_a_function_does_to_its_inputs_is_told_and_forgotten(one: Exercise) -> None:
    """A list may be used up, where nothing else is said; a tensor may not."""

    def spoils(*inputs: Any) -> Any:
        copies = [x.clone() if isinstance(x, Tensor) else copy.deepcopy(x) for x in inputs]
        answer = one.right(*copies)
        for some in inputs:
            if isinstance(some, Tensor):
                some.data.copy_(some + 1 if some.dtype != torch.bool else ~some)
            elif isinstance(some, list | dict | set):
                some.clear()
        return answer

    counts = Tensor if one.moved is judge.tensor_moved else Tensor | list | dict
    spoiled = [
        [name for name, value in zip(one.arguments, case, strict=True) if is_full(value, counts)]
        for case in one.cases()
    ]
    said = words(verdict(one, wraps(one.right)(spoils)))
    if told := next(filter(None, spoiled), None):
        what = f"your function changes {' and '.join(told)} in place"
        assert said.startswith(f"✗ {one.name}: {what}")
        assert said.endswith(one.in_place)
    else:
        assert said.startswith("✓")
    assert verdict(one, one.right).startswith(f"✓ {one.name}: ")


@by_name
def test_there_are_as_many_cases_as_is_said_and_the_same_at_each_call(one: Exercise) -> None:
    first, second = (re.sub("0x[0-9a-f]+", "", repr([*one.cases()])) for _ in range(2))
    assert first == second
    if told := re.match(r"(\d+) ", one.tried):
        assert int(told[1]) == len([*one.cases()])


def test_numpy_answers_are_read_whatever_their_strides_order_and_kind() -> None:
    back = np.arange(3)[::-1]
    for array in (back, np.arange(3, dtype=">f4")[::-1], np.array([[2, 1, 0]]).T[:, 0]):
        read = judge.read_tensor(judge.without_numpy(array), "it", (3,))
        assert read.tolist() == [2, 1, 0]
    plain = judge.without_numpy([np.int64(3), (np.array(0.5), np.bool_(True)), [back]])
    assert plain[:2] == [3, (0.5, True)]
    assert [type(plain[0]), *map(type, plain[1])] == [int, float, bool]
    assert torch.equal(torch.as_tensor(plain[2][0]), torch.tensor([2, 1, 0]))
    text, tensor = "text", torch.ones(2)
    assert judge.without_numpy(text) is text
    assert judge.without_numpy(tensor) is tensor


@by_name
def test_a_right_answer_may_hold_numpy_numbers_and_arrays(one: Exercise) -> None:
    """Each tensor of our answer as doubles in an array that runs backwards, numbers NumPy's."""

    def in_numpy(value: Any) -> Any:
        if isinstance(value, Tensor):
            array = (value.double() if value.is_floating_point() else value).detach().numpy()
            return np.flip(np.flip(array).copy())
        if isinstance(value, list | tuple):
            return type(value)(map(in_numpy, value))
        if isinstance(value, bool):
            return np.bool_(value)
        if isinstance(value, int | float):
            return np.array(value)[()]
        return value

    @wraps(one.right)
    def f(*inputs: Any) -> Any:
        return in_numpy(one.right(*inputs))

    assert judge.judge(one, f).startswith(f"✓ {one.name}: ")


def test_numbers_are_written_short() -> None:
    assert judge.plain(torch.tensor([[0.12345, -0.0, 2.0]])) == "[[0.123, 0.0, 2.0]]"
    assert judge.plain(float("nan")) == "nan"
    assert judge.plain([1e-4, 1.234e-12, 0.0, 0.0006]) == "[0.0001, 1.23e-12, 0.0, 0.001]"
    assert judge.plain(torch.zeros(5, 5)) == "a tensor of shape (5, 5)"


@by_any_name
def test_every_exercise_has_a_solution(one: Exercise | TestExercise) -> None:
    said = verdict(check.solution, one.name)
    assert re.match(r"# (bertedu|course)/\w", said)
    assert re.search(r"^(def|class) \w+", said, re.MULTILINE)
    for piece in one.solution:
        name = getattr(piece, "__name__", "")
        assert f"def {name}(" in said or f"class {name}" in said, name
        assert source_of(piece) in said
        assert ".asking" not in said


@pytest.mark.parametrize("ask", [check.hint, check.solution])
def test_an_unknown_name_lists_the_exercises(ask: Callable[[str], None]) -> None:
    said = verdict(ask, "attentoin")
    assert said.startswith("No exercise is called 'attentoin'. There are: ")
    assert all(e.name in said for e in EXERCISES)
    assert "loss_test" in said


def test_what_is_no_exercise_is_told_with_all_names() -> None:
    with pytest.raises(AttributeError, match=r"called 'sofmax'. There are: .*softmax"):
        check.sofmax  # noqa: B018
    assert {"softmax", "hint", "solution"} <= set(dir(check))
    assert "(x (S, H), scale (H,)" in repr(check.layer_norm)
