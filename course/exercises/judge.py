"""What all exercises share: run the learner's function beside ours, and say what differs.

An exercise knows the usual mistakes as *wrong functions*, patches of the right one. If one of them
answers every case as the learner's function does, that is the mistake, and its message is printed.
"""

import copy
import inspect
import io
import linecache
import math
import operator
import os
import random
import re
import sys
import textwrap
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import cycle, repeat
from pathlib import Path
from types import EllipsisType
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from course.exercises.patch import patched, read_mistakes, source_of
from course.exercises.time_limit import TooLongError, at_most
from course.language import in_korean, spoken

Function = Callable[..., Any]
F = TypeVar("F", bound=Function)
Inputs = tuple[Any, ...]
SECONDS = 20.0  # for a learner's function, in all cases; ours take three at most


class UnreadableError(Exception):
    """An answer of the wrong kind. The message says what came, and what is wanted."""


def named(name: str, thing: Any) -> Any:
    """Give a function or model among the inputs a name that is the same in every run."""
    thing.__name__ = name
    return thing


@dataclass(frozen=True)
class Mistake:
    """A usual mistake: what one sees, what to change (or to try), and what makes it."""

    what: str
    likely: str
    wrong: tuple[Function, ...]


KNOWN: dict[str, Any] = {}  # what `check` offers: exercises, and what some of them need
# asked about every function that has passed: what to add to the verdict
KEEPERS: list[Callable[["Exercise", Function], str]] = []


def offered(thing: Any) -> Any:
    """Make a function or class available as `check.NAME`: a decorator."""
    KNOWN[thing.__name__] = thing
    return thing


def drawer(seed: int) -> Callable[..., Tensor]:
    """Make a function that draws tensors of numbers with one decimal."""
    generator = torch.Generator().manual_seed(seed)
    return lambda *shape: torch.randn(shape, generator=generator).mul(10).round() / 10


def tensor_moved(now: Any, before: Any) -> bool:
    """Whether a tensor is not as it was. Lists and the like a learner may work in."""
    return isinstance(before, Tensor) and not torch.equal(now, before)


def anything_moved(now: Any, before: Any) -> bool:
    """Whether a tensor, list or dictionary is not as it was."""
    return tensor_moved(now, before) or (
        isinstance(before, list | dict) and repr(now) != repr(before)
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class Registered:
    """What is called with the learner's function, as `check.NAME(my_NAME)`."""

    asks: str  # arguments and result, as help(check.NAME) shows them
    start: str  # how to begin: the first hint
    name: str = ""  # else that of our own answer, without its right_
    solution: tuple[Any, ...]  # the pieces to show, our own answer last

    def __post_init__(self) -> None:
        """Register it under its name."""
        name = self.name or self.ours.__name__.removeprefix("right_")
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "__doc__", f"Check `{name}`: {self.asks}")
        KNOWN[name] = self

    @property
    def ours(self) -> Function:
        """Our own answer, the last piece that is shown."""
        return self.solution[-1]

    @classmethod
    def asking(cls, *, beside: tuple[Any, ...] = (), **told: Any) -> Callable[[F], F]:
        """Make an exercise of a function, our own answer: as its decorator, or of a package's.

        ``told`` are the fields of the class; what is right is that function, if they do not say.
        ``beside`` is shown with it.
        """

        def answered(by: F) -> F:
            cls(solution=(*beside, by), **{"right": by, **told})
            return by

        return answered

    @property
    def arguments(self) -> tuple[str, ...]:
        """The names of the function's arguments; what the package may leave out is none."""
        every = inspect.signature(self.ours).parameters.values()
        return tuple(one.name for one in every if one.default is one.empty)

    def __repr__(self) -> str:
        """Say how to use it."""
        return f"check.{self.name}(my_{self.name}): {self.asks}"


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Exercise(Registered):
    """All that is needed to judge a function and to explain the verdict."""

    right: Function  # the names of its arguments are those of the exercise
    cases: Callable[[], Iterable[Inputs]]  # smallest first, the same at every call
    tried: str  # what a right function has passed
    mistakes: str  # see course/exercises/patch.py
    # (answer, *inputs) -> plain lists and numbers, or raises UnreadableError; if None, the kind of
    # number or tensor that our own answer is, or several: their names, "mixed, weights"
    read: Function | None = None
    tensors: str = ""
    in_place: str = "Work on a copy: x = x.clone()."
    differ: Callable[[Inputs, Any, Any], str] | None = None  # a better "Yours gives …"
    first_part: int | None = None  # of a pair, the result that the other one follows from
    moved: Callable[[Any, Any], bool] = tensor_moved  # (input after the call, before)

    def __call__(self, function: object) -> None:
        """Print the verdict on a learner's function; tell the keepers if it has passed."""
        said = self.verdict(function)
        if said.startswith("✓") and callable(function):
            said += "".join(keep(self, function) for keep in KEEPERS)
        print(said)

    def verdict(self, function: object) -> str:
        """Return the verdict on a learner's function."""
        return judge(self, function)

    def or_ours(self, function: object) -> Function:
        """Return a learner's function, made to give what ours does, if it passes; else ours."""
        passed = callable(function) and judge(self, function).startswith("✓")
        print(whose(self.name, passed))
        if not (passed and callable(function)):
            return self.right
        ours = self.right(*next(iter(self.cases())))
        return lambda *inputs, **named: without_numpy(function(*inputs, **named), ours)

    def reading(self, answer: Any, *inputs: Any) -> Any:
        """Read an answer as plain lists and numbers; raises UnreadableError if it is none."""
        if self.read:
            return self.read(answer, *inputs)
        ours, names = self.right(*inputs), self.tensors
        if not isinstance(ours, tuple):
            return read_like(ours, answer, names or "your result")
        return tuple(map(read_like, ours, read_parts(answer, names), names.split(", ")))


def whose(name: str, yours: bool) -> str:
    """Say whether the function of an exercise that is used is the learner's."""
    return spoken(f"{name}: {'yours' if yours else f'ours, until check.{name} passes yours'}")


@cache
def mistakes_of(exercise: Exercise) -> tuple[Mistake, ...]:
    """Make the wrong functions of an exercise."""
    return make_mistakes(exercise.mistakes, exercise.right, exercise.cases.__module__)


def make_mistakes(text: str, right: Any, module: str) -> tuple[Mistake, ...]:
    """Make the wrong functions of a text (see patch.py) that stands in that module."""
    return tuple(
        Mistake(what, likely, tuple(patched(right, one, vars(sys.modules[module])) for one in ways))
        for what, likely, ways in read_mistakes(text)
    )


@dataclass(frozen=True)
class Outcome:
    """What one call gave: a value, an error or an unreadable answer."""

    value: Any = None
    error: BaseException | None = None
    unreadable: str = ""
    nothing: bool = False
    printed: bool = False  # and returned nothing
    changed: tuple[str, ...] = field(default=(), compare=False)


def judge(exercise: Exercise, function: object) -> str:
    """Return the verdict on a learner's function, in plain words. Raises nothing."""
    name = exercise.name
    if complaint := cannot_call(name, exercise.arguments, function):
        return complaint
    assert callable(function)
    cases, ours = _reference(exercise)
    try:
        with at_most(SECONDS):
            mine = call_all(exercise, function, cases)
    except TooLongError:
        return too_long(name)
    nothing = all(outcome.nothing for outcome in mine)
    if nothing and not any(outcome.changed for outcome in mine):
        return prints_only(name) if mine[0].printed else stub(name)
    right = [nothing or _alike(a, b) for a, b in zip(mine, ours, strict=True)]
    failed = [i for i, outcome in enumerate(mine) if outcome.changed or not right[i]]
    if not failed:
        return spoken(f"✓ {name}: {exercise.tried}")
    first = failed[0]
    smallest = f"Smallest case: {show(exercise.arguments, cases[first])}."
    got = mine[first]
    if got.nothing and any(outcome.nothing for outcome in ours):
        got = replace(got, unreadable="")  # None may be an answer here: no return is missing

    def wrong(what: str, likely: str, difference: str = "") -> str:
        return report(f"✗ {name}: {what}", smallest, difference, likely=likely)

    difference = _difference(exercise, cases[first], got, ours[first])
    if mistake := _same_mistake(exercise, cases, mine):
        return wrong(mistake.what, mistake.likely, difference)
    if not all(map(_alike, mine, call_all(exercise, function, cases, seed=1))):
        if not all(map(_alike, mine, call_all(exercise, function, cases))):  # nor with that seed
            likely = (
                "something is kept from one call to the next: a default like found=[], or a list "
                "outside the function. Make it anew inside."
            )
            return wrong("the same input gives another result at the second call.", likely)
        likely = "your function draws random numbers of its own. Use only what it is given: "
        likely += f"{', '.join(exercise.arguments)}."
        return wrong("the same input gives another result each time.", likely)
    if got.changed:
        also = " and returns nothing" if got.nothing else ""
        what = f"your function changes {' and '.join(got.changed)} in place{also}."
        return wrong(what, exercise.in_place)
    if got.error is not None:
        return report(*describe_error(name, got.error), smallest, likely=advice(got.error))
    if got.unreadable:
        return wrong(got.unreadable, likely="")
    if mistake := _same_first_part(exercise, cases, mine, ours):
        what = f"{mistake.what} (There is more, but this comes first.)"
        return wrong(what, mistake.likely, difference)
    next_step = (
        "None of the usual mistakes gives these answers. Work the smallest case out by hand, print "
        "each step of your function, and look for the first step that differs; "
        f'check.solution("{name}") shows ours.'
    )
    what = f"✗ {name}: {len(failed)} of {len(cases)} cases come out wrong."
    return report(what, smallest, difference, next_step)


@cache
def _reference(exercise: Exercise) -> tuple[tuple[Inputs, ...], tuple[Outcome, ...]]:
    cases = tuple(exercise.cases())
    return cases, tuple(call_all(exercise, exercise.right, cases))


def cannot_call(name: str, arguments: Sequence[str], function: object) -> str:
    """Return a complaint if there is no function, or it takes other arguments; else ""."""
    if function is None or isinstance(function, EllipsisType):
        return stub(name)
    if not callable(function):
        return report(
            f"✗ {name}: got {_a(function)}, not a function.",
            likely=f"the function was called. Pass the function itself: check.{name}(my_{name}).",
        )
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some built-in functions do not tell
        return ""
    try:
        signature.bind(*arguments)
    except TypeError:
        takes = ", ".join(signature.parameters) or "nothing"
        return report(
            f"✗ {name}: wrong number of arguments.",
            f"Yours takes {takes}; it is called with {len(arguments)}: {', '.join(arguments)}.",
            likely=f"it should begin with def my_{name}({', '.join(arguments)}):",
        )
    return ""


def stub(name: str) -> str:
    """Say that there is no answer yet, and nothing of what it is."""
    return spoken(f'… {name}: not written yet, or no return. check.hint("{name}") helps.')


def prints_only(name: str) -> str:
    """Say that an answer was printed, but not returned."""
    return report(
        f"✗ {name}: your function prints something and returns nothing.",
        likely="print shows a value to you; only return hands it to the caller. End your function "
        "with return and the value that you printed.",
    )


def too_long(name: str) -> str:
    """Say that a function did not end."""
    return report(
        f"✗ {name}: your function runs for more than {SECONDS:g} seconds. Does a loop never end?",
        likely="a while whose condition stays true, or a list that grows while a for goes through "
        "it. Call your function on a small case, and print in the loop what should change.",
    )


def call_all(
    exercise: Exercise, function: Function, cases: Sequence[Inputs], seed: int = 0
) -> list[Outcome]:
    """Call a function on copies of all cases; nothing that it does gets out."""
    with undisturbed(seed):
        return [_call(exercise, function, inputs) for inputs in cases]


@contextmanager
def undisturbed(seed: int) -> Iterator[None]:
    """Swallow prints and warnings; fix all sources of chance, and put them back after."""
    python, numpy = random.getstate(), np.random.get_state()
    silence = io.StringIO()
    with (
        warnings.catch_warnings(),
        torch.random.fork_rng(devices=[]),
        redirect_stdout(silence),
        redirect_stderr(silence),
    ):
        warnings.simplefilter("ignore")
        torch.manual_seed(seed)
        random.seed(seed)
        np.random.seed(seed)
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numpy)


def is_stub(error: BaseException) -> bool:
    """Whether it is a learner's `raise NotImplementedError`; PyTorch's own come with a text."""
    return isinstance(error, NotImplementedError) and not str(error)


def _call(exercise: Exercise, function: Function, inputs: Inputs) -> Outcome:
    given = tuple(x.clone() if isinstance(x, Tensor) else copy.deepcopy(x) for x in inputs)
    try:
        with redirect_stdout(io.StringIO()) as said:
            answer = function(*given)
    except (Exception, SystemExit) as error:
        return Outcome(nothing=True) if is_stub(error) else Outcome(error=error)
    spoiled = [i for i, before in enumerate(inputs) if exercise.moved(given[i], before)]
    changed = tuple(exercise.arguments[i] for i in spoiled)
    parts = answer if isinstance(answer, tuple) and answer else (answer,)
    if all(part is None or part is Ellipsis for part in parts):
        printed = bool(said.getvalue().strip())
        none = "your function returned None here. Does every path end in a return?"
        return Outcome(nothing=True, unreadable=none, printed=printed, changed=changed)
    try:
        return Outcome(exercise.reading(without_numpy(answer), *inputs), changed=changed)
    except UnreadableError as error:
        return Outcome(unreadable=str(error), changed=changed)
    except Exception:  # an answer so odd that reading it fails
        return Outcome(unreadable=f"your function returned {_a(answer)}.", changed=changed)


def _same_mistake(
    exercise: Exercise, cases: Sequence[Inputs], mine: Sequence[Outcome], part: int | None = None
) -> Mistake | None:
    """Find the mistake that answers every case as the learner does (or that part of it)."""
    with undisturbed(seed=0):
        for mistake in mistakes_of(exercise):
            for wrong in mistake.wrong:
                # The largest case first: most wrong functions differ there already.
                outcomes = (_call(exercise, wrong, inputs) for inputs in reversed(cases))
                if all(_alike(a, b, part) for a, b in zip(outcomes, reversed(mine), strict=True)):
                    return mistake
    return None


def _same_first_part(
    exercise: Exercise, cases: Sequence[Inputs], mine: Sequence[Outcome], ours: Sequence[Outcome]
) -> Mistake | None:
    """Two mistakes at once: find the one in the result that comes first, if that one is wrong."""
    part = exercise.first_part
    told = [i for i, outcome in enumerate(mine) if outcome.value is not None]  # it may also raise
    if part is None or all(_alike(mine[i], ours[i], part) for i in told):
        return None
    return _same_mistake(exercise, [cases[i] for i in told], [mine[i] for i in told], part)


def _alike(a: Outcome, b: Outcome, part: int | None = None) -> bool:
    if a.error is not None or b.error is not None:
        return type(a.error) is type(b.error)
    if a.unreadable or b.unreadable or a.nothing or b.nothing:
        return (a.unreadable, a.nothing) == (b.unreadable, b.nothing)
    return alike(a.value, b.value) if part is None else alike(a.value[part], b.value[part])


def alike(a: Any, b: Any) -> bool:
    """Compare nested lists; numbers to two in a thousand, so that half precision passes."""
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(alike, a, b))
    if isinstance(a, float) or isinstance(b, float):
        return math.isclose(a, b, rel_tol=2e-3, abs_tol=2e-3) or (math.isnan(a) and math.isnan(b))
    return bool(a == b)


# -- reading an answer


def without_numpy(answer: Any, ours: Any = None) -> Any:
    """Turn NumPy's numbers into Python's, arrays into such as torch can read, or as ``ours``."""
    if isinstance(ours, Tensor):
        return torch.as_tensor(without_numpy(answer), dtype=ours.dtype)
    if isinstance(answer, np.generic | np.ndarray) and not answer.ndim:
        return answer.item()
    if isinstance(answer, np.ndarray):
        # torch reads no array backwards, as [::-1] makes it, nor one of the other byte order
        return np.array(answer, dtype=answer.dtype.newbyteorder("="), order="C")
    if type(answer) in (list, tuple, set):
        kinds = cycle(ours) if isinstance(ours, list | tuple) and ours else repeat(None)
        return type(answer)(map(without_numpy, answer, kinds))
    return answer


def read_parts(answer: Any, names: str) -> tuple[Any, ...]:
    """Take an answer apart that should be as many things as there are names."""
    wanted = names.count(",") + 1
    found = answer.tolist() if getattr(answer, "ndim", 0) == 1 else answer
    if not isinstance(found, tuple | list) or len(found) != wanted:
        many = {2: "two", 3: "three", 4: "four"}[wanted]
        raise UnreadableError(
            f"your function returned {_a(answer)}; return {many} things: {names}."
        )
    return tuple(found)


def parts(names: str, *readers: Function) -> Function:
    """Make a reader of several results, each by a reader of its own."""

    def read(answer: Any, *inputs: Any) -> tuple[Any, ...]:
        each = zip(readers, read_parts(answer, names), strict=True)
        return tuple(reader(part, *inputs) for reader, part in each)

    return read


def read_tensor(answer: Any, name: str, shape: Sequence[int]) -> Tensor:
    """Turn a tensor, array or list of numbers into a tensor, and insist on its shape."""
    try:
        tensor = torch.as_tensor(answer).detach()
    except (TypeError, ValueError, RuntimeError):
        raise UnreadableError(f"{name} is {_a(answer)}; a tensor or list is wanted.") from None
    if tensor.shape != torch.Size(shape):
        raise UnreadableError(
            f"{name} has shape {tuple(tensor.shape)}; {tuple(shape)} is wanted here."
        )
    return tensor


def read_numbers(answer: Any, name: str, shape: Sequence[int]) -> list[Any]:
    """Read a tensor of that shape; numbers that are not exact as they are in double precision."""
    tensor = read_tensor(answer, name, shape)
    exact = tensor.dtype in (torch.bool, torch.long)
    return (tensor if exact else tensor.double()).tolist()


def read_mask(answer: Any, name: str, shape: Sequence[int]) -> list[Any]:
    """Read a mask of that shape, and insist on True and False."""
    mask = read_tensor(answer, name, shape)
    if mask.dtype != torch.bool:
        raise UnreadableError(f"{name} is {mask.dtype}; a mask holds True and False.")
    return mask.tolist()


def number(answer: Any, *_: Any) -> float:
    """Read one number: Python's, NumPy's, or a tensor of one."""
    wanted = f"your function returned {_a(answer)}; one number is wanted."
    if isinstance(answer, Tensor | np.ndarray):
        if math.prod(answer.shape) != 1:
            raise UnreadableError(f'{wanted} Is the mean missing, or reduction="none" left in?')
        answer = answer.item()
    elif isinstance(answer, str | bool | np.bool_):
        raise UnreadableError(wanted)
    try:
        return float(answer)
    except (TypeError, ValueError):
        raise UnreadableError(wanted) from None


def read_like(ours: Any, answer: Any, name: str) -> Any:
    """Read such a number or tensor as ours is."""
    if getattr(ours, "dtype", None) == torch.long:
        return read_ids(answer, name, ours.shape).tolist()
    if np.shape(ours):
        return read_numbers(answer, name, np.shape(ours))
    return {bool: truth, int: whole}.get(type(ours), number)(answer)


def whole(answer: Any, *_: Any) -> int:
    """Read one whole number."""
    one = number(answer)
    if one != int(one):
        raise UnreadableError(f"your function returned {one:g}; a whole number is wanted.")
    return int(one)


def truth(answer: Any, *_: Any) -> bool:
    """Read True or False: Python's, NumPy's, or a tensor of one."""
    if isinstance(answer, Tensor | np.ndarray) and math.prod(answer.shape) == 1:
        answer = answer.item()
    if isinstance(answer, bool | np.bool_):
        return bool(answer)
    raise UnreadableError(f"your function returned {_a(answer)}; True or False is wanted.")


def kind_of(value: object) -> str:
    """Say what something is: an int, a list, None."""
    name = type(value).__name__
    return "None" if value is None else f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def read_whole(value: Any, *_: Any, name: str, wanted: str) -> int:
    """Read a part of an answer that should be a whole number."""
    try:
        return operator.index(value.item() if hasattr(value, "item") else value)
    except (TypeError, ValueError):
        raise UnreadableError(f"{name} is {kind_of(value)}; {wanted} is wanted.") from None


def read_wholes(answer: Any, *_: Any, things: str, thing: str = "a whole number") -> list[int]:
    """Read a list of whole numbers; True and False are none here."""
    found = answer.tolist() if hasattr(answer, "tolist") else answer
    if not isinstance(found, list | tuple | set | range):
        raise UnreadableError(
            f"your function returned {kind_of(answer)}; a list of {things} is wanted."
        )
    for item in found:
        if isinstance(item, bool):
            raise UnreadableError(f"your list holds True or False; {thing} is wanted.")
    return [read_whole(item, name="an item of your list", wanted=thing) for item in found]


def read_str(answer: Any, *_: Any, wanted: str) -> str:
    """Read a text."""
    if not isinstance(answer, str):
        raise UnreadableError(f"your function returned {kind_of(answer)}; {wanted} is wanted.")
    return answer


def read_ids(answer: Any, name: str, shape: Sequence[int]) -> Tensor:
    """Read a tensor of ids, and insist on whole numbers."""
    ids = read_tensor(answer, name, shape)
    if ids.is_floating_point() or ids.dtype == torch.bool:
        raise UnreadableError(
            f"{name} is {ids.dtype}; ids number the rows of a table, so they must stay whole "
            "numbers (torch.long)."
        )
    return ids


def _a(value: Any) -> str:
    """Describe a value in words that are the same on every machine."""
    if isinstance(value, Tensor):
        return f"a tensor of shape {tuple(value.shape)}"
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape}"
    if isinstance(value, tuple | list) and len(value) < 5:
        kind, inside = type(value).__name__, ", ".join(map(_a, value))
        return f"a {kind} ({inside})" if value else f"an empty {kind}"
    if isinstance(value, bool | int | float | str) and len(repr(value)) < 40:
        return f"the {type(value).__name__} {value!r}"
    return kind_of(value)


# -- words


def report(first: str, *details: str, likely: str = "") -> str:
    """Put a verdict together: the first line, and below it what is known in detail."""
    # a name like d2l-en stays in one piece; a syllable of Hangul is as wide as two letters
    fill = partial(textwrap.fill, width=60 if in_korean() else 100, break_on_hyphens=False)
    first, details, likely = spoken(first), tuple(map(spoken, details)), spoken(likely)
    parts = [fill(first, subsequent_indent="  ")]
    parts += [fill(d, initial_indent="  ", subsequent_indent="    ") for d in details if d]
    if likely:
        label = f"  {spoken('Likely')}: "
        parts.append(fill(likely, initial_indent=label, subsequent_indent="    "))
    return "\n".join(parts)


def show(names: Sequence[str], inputs: Inputs) -> str:
    """Write inputs so that they can be read, and typed."""
    return ", ".join(f"{name} = {plain(value)}" for name, value in zip(names, inputs, strict=True))


def plain(value: Any) -> str:
    """Write a value so that it can be read, and typed; a large tensor as its shape."""
    if isinstance(value, Tensor):
        if value.numel() > 24:
            return f"a tensor of shape {tuple(value.shape)}"
        value = value.tolist()
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(plain, value)) + "]"
    if isinstance(value, dict):
        few = ", ".join(f"{key!r}: {plain(one)}" for key, one in value.items())
        return f"{{{few}}}" if len(value) < 4 else f"a dictionary of {len(value)}"
    if isinstance(value, float):
        short = round(value, 3) + 0.0  # + 0.0: no "-0.0"
        return str(short) if short or not value else f"{value:.3g}"
    if isinstance(value, int) and value >= 10**6:
        return f"{value:_}"
    return str(value.__name__) if callable(value) else repr(value)


def differing(*names: str) -> Callable[[Inputs, Any, Any], str]:
    """Make a `differ` that names the results that differ, and no others."""

    def tell(_: Inputs, mine: Any, right: Any) -> str:
        parts = [
            f"{name} {plain(yours)} (it should be {plain(ours)})"
            for name, yours, ours in zip(names, mine, right, strict=True)
            if not alike(yours, ours)
        ]
        return f"Yours gives {', '.join(parts)}."

    return tell


def _difference(exercise: Exercise, inputs: Inputs, mine: Outcome, right: Outcome) -> str:
    said = mine.unreadable
    if mine.error is not None:
        said = describe_error(exercise.name, mine.error)[0].partition(": ")[2]
    if said:
        return said[0].upper() + said[1:]
    differ = exercise.differ
    if not differ and not exercise.read and isinstance(right.value, tuple):
        differ = differing(*exercise.tensors.split(", "))
    if differ:
        return differ(inputs, mine.value, right.value)
    return f"Yours gives {plain(mine.value)}; it should give {plain(right.value)}."


def describe_error(name: str, error: BaseException) -> tuple[str, str]:
    """Say what an error is called and says, and at which line of the learner's it came."""
    message = re.sub(r"0x[0-9a-f]+", "0x…", (str(error).splitlines() or [""])[0])[:200]
    kind = type(error).__name__
    first = f"✗ {name}: your function stopped with {kind}" + (f": {message}" if message else ".")
    return first, _learners_line(error)


# Code that is not the learner's: Python's own, the installed packages, the course's.
_COURSE = [Path(__file__).parents[2] / name for name in ("bertedu", "course")]
_NOT_THEIRS = tuple(
    str(folder.resolve()) + os.sep
    for folder in (Path(os.__file__).parent, Path(torch.__file__).parents[1], *_COURSE)
)


def _learners_line(error: BaseException) -> str:
    """Return the last line of the learner's own code that an error went through."""
    found = ""
    for frame, line in traceback.walk_tb(error.__traceback__):
        code = frame.f_code
        file = code.co_filename
        if not file.startswith("<frozen") and not str(Path(file).resolve()).startswith(_NOT_THEIRS):
            where = "" if code.co_name == "<lambda>" else f" of {code.co_name}"
            text = linecache.getline(file, line).strip()
            found = f"Line {line - code.co_firstlineno + 1}{where}: {text}"
    return found


def advice(error: BaseException) -> str:
    """Say what an error of this type, with these words in it, usually means."""
    mine = (hint for hint in _HINTS if isinstance(error, hint[0]))
    return next(text for _, said, text in mine if re.search(said, str(error)))


_HINTS: tuple[tuple[type[BaseException], str, str], ...] = (
    (Exception, r"bitwise_xor|for \^", "a power is written with **: x**2, not x^2."),
    (Exception, "ambiguous", "if, and, or want one True or False, not a tensor of them. Join them "
     "with & or |, each comparison in parentheses; in place of an if, use torch.where."),
    (NameError, "", "that name does not exist: import it, run its cell, or check its spelling."),
    (IndexError, "list|tuple|string", "an index points past the end of a list, a tuple or a "
     "string. The last item has no next one: how far does your loop go?"),
    (IndexError, "", "an index points outside its tensor, or a boolean index has another shape. "
     "Print both shapes just before that line."),
    (KeyError, "", "that key is not there. Print the keys just before that line."),
    (AttributeError, "", "the thing before the dot is not of the type you think. Print type(…)."),
    (ZeroDivisionError, "", "something that you divide by is 0 in this case."),
    (RecursionError, "", "your function calls itself without end."),
    (AssertionError, "", "an assert of your own failed. Return an answer instead."),
    (SystemExit, "", "leave out exit()."),
    (TypeError, "", "a value has the wrong type, or a call lacks an argument. Print type(…)."),
    (ValueError, "", "a value or a shape does not fit. Print shapes just before that line."),
    (RuntimeError, "bitwise", "& and | join True and False, not floats. Put each "
     "comparison in parentheses: (a < 1) & (b > 2). A mask is made with .bool()."),
    (NotImplementedError, "", "this operation wants floats, not whole numbers: write 3.0, not 3, "
     "or call .float()."),
    (RuntimeError, "that requires grad", "what learns is not written into, nor given to NumPy, as "
     "it is: do that inside with torch.no_grad(): or take .detach() first."),
    (RuntimeError, "", "two shapes do not fit together, a tensor has the wrong dtype, or a "
     "gradient finds no way back. Print .shape, .dtype and .requires_grad just before that line."),
    (BaseException, "", "call your function on the smallest case yourself, and print each step."),
)  # fmt: skip


def known(name: str) -> Registered:
    """Return an exercise; an unknown name raises LookupError with all names."""
    every = {name: thing for name, thing in KNOWN.items() if isinstance(thing, Registered)}
    if name not in every:
        raise LookupError(f"No exercise is called {name!r}. There are: {', '.join(every)}.")
    return every[name]


def show_solution(name: str) -> str:
    """Return the source of the pieces that solve an exercise."""
    parts = []
    for piece in known(name).solution:
        path = piece.__module__.replace(".", "/")
        parts.append(f"# {path}.py\n{source_of(piece)}")
    return "\n\n".join(parts)
