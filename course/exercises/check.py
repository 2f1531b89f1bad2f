"""`check.NAME(my_NAME)` runs the learner's function beside ours and names the mistake.

`check.solution("NAME")` prints the package's own source: the package is the answer book.
"""

import importlib
import pkgutil
from typing import Any

from course import exercises
from course.exercises.judge import KNOWN, show_solution

for _file in pkgutil.iter_modules(exercises.__path__):
    if _file.name != "check":
        importlib.import_module(f"course.exercises.{_file.name}")


def solution(name: str) -> None:
    """Print the source of what an exercise asks for; an unknown name prints all names."""
    print(show_solution(name))


def __getattr__(name: str) -> Any:
    if name in KNOWN:
        return KNOWN[name]
    raise AttributeError(f"no exercise is called {name!r}. There are: {', '.join(KNOWN)}.")


def __dir__() -> list[str]:
    return [*KNOWN, "solution"]
