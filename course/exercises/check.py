"""`check.NAME(my_NAME)` runs the learner's function beside ours and names the mistake.

The exercise NAME and the words of its known mistakes stand in the file of its notebook here, such
as `self_attention`; `judge` compares and says what is wrong.

`check.hint("NAME")` gives one more hint at each call, `check.solution("NAME")` the package's own
source: the package is the answer book.
"""

import importlib
import pkgutil
from collections.abc import Callable
from typing import Any

from bertedu.files import FileError
from course import exercises
from course.exercises.hints import next_hint
from course.exercises.judge import KNOWN, known, show_solution
from course.language import spoken

for _file in pkgutil.iter_modules(exercises.__path__):
    if _file.name != "check":
        importlib.import_module(f"course.exercises.{_file.name}")


def hint(name: str) -> None:
    """Print one more hint at each call; an unknown name prints all names."""
    _say(lambda: next_hint(known(name)))


def solution(name: str) -> None:
    """Print the source of what an exercise asks for; an unknown name prints all names."""
    _say(lambda: show_solution(name))


def _say(what: Callable[[], str]) -> None:
    try:
        print(what())
    except (LookupError, FileError) as error:
        print(spoken(str(error)))


def __getattr__(name: str) -> Any:
    if name in KNOWN:
        return KNOWN[name]
    raise AttributeError(f"no exercise is called {name!r}. There are: {', '.join(KNOWN)}.")


def __dir__() -> list[str]:
    return [*KNOWN, "hint", "solution"]
