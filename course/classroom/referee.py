"""The process in which `python -m course grade` runs one submission.

What is judged comes as JSON on the standard input, with a key; verdicts go out as signed lines.
The notebook's own output goes nowhere, so that it can neither fill a disk nor pass for a verdict.
"""

import hmac
import importlib
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

from course.exercises.time_limit import TooLongError, at_most

Say = Callable[[dict[str, Any]], None]
COURSE = ("bertedu", "course")  # what a notebook may import of ours
# If a notebook replaces a function of these, our own judge might believe anything. Of torch, only
# what compares: the rest changes by itself, such as manual_seed when the first optimizer is made.
WATCHED = "builtins contextlib copy inspect io math operator".split()
COMPARE = "allclose as_tensor equal isclose".split()


class Unkept(dict[int, list[Any]]):
    """What IPython keeps of a notebook's output, which may be gigantic: nothing."""

    def __missing__(self, count: int) -> list[Any]:
        """Return a list that nobody holds."""
        return []


def sign(key: str, text: str) -> str:
    """Return the signature of a line; the key is known to grade and this process."""
    return hmac.new(key.encode(), text.encode(), "sha256").hexdigest()


def speaker(key: str) -> Say:
    """Keep the standard output to ourselves, for signed lines; give the notebook none."""
    ours, nothing = os.fdopen(os.dup(1), "w", encoding="utf-8"), os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(nothing, number)

    def say(what: dict[str, Any]) -> None:
        text = json.dumps(what)
        print(sign(key, text), text, file=ours, flush=True)

    return say


def our_modules() -> list[str]:
    """Return the names of the course's modules that are loaded."""
    return [n for n in sys.modules if n.split(".")[0] in COURSE]


def judges(names: list[str]) -> tuple[dict[str, Any], list[str]]:
    """Return the checks of these names, with all they need at hand, and the list that they fill.

    They are out of the notebook's reach. What it imports under the names of our modules is a second
    copy, where it may replace what it likes; and these print into a list, where no thread can.
    """
    known = importlib.import_module("course.exercises.check").KNOWN
    judge = importlib.import_module("course.exercises.judge")
    museum = importlib.import_module("course.exercises.museum")
    ours, said = our_modules(), list[str]()
    for module in (sys.modules[name] for name in ours):
        vars(module)["print"] = said.append
    for thing in (known[name] for name in names):
        thing(thing.ours)
        if callable(thing.right):
            judge.mistakes_of(thing)
        else:
            museum.demanded(thing)
    for name in our_modules():
        del sys.modules[name]
    return {name: known[name] for name in names}, said


def watched() -> dict[str, Any]:
    """Return the functions that a judge relies on, by name."""
    import torch

    places = {name: vars(importlib.import_module(name)) for name in WATCHED}
    places["torch"] = {name: getattr(torch, name) for name in COMPARE}
    places["torch.Tensor"] = dict(vars(torch.Tensor))
    return {f"{a}.{b}": f for a, place in places.items() for b, f in place.items() if callable(f)}


def verdict(check: Any, said: list[str], function: object, before: dict[str, Any]) -> str:
    """Return what a check prints into its list, or why it cannot be believed."""
    said.clear()
    try:
        check(function)
    except BaseException as error:  # a check lets nothing out but, for example, a KeyboardInterrupt
        return f"✗ {check.name}: your function stopped with {type(error).__name__}"
    now = watched()
    changed = [name for name, function in before.items() if now.get(name) is not function]
    if changed:
        return f"the notebook has replaced {', '.join(changed[:3])}, so no check can be believed"
    return said[0]


def main() -> None:
    """Run the cells; judge each function once it is there, and again when it is another one."""
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    task = json.load(sys.stdin)
    say, asked = speaker(task.pop("key")), task["asked"]
    checks, told = judges([check for _, check, _ in asked])
    shell = InteractiveShell.instance(config=Config({"HistoryManager": {"enabled": False}}))
    assert shell.history_manager is not None
    shell.history_manager.outputs = Unkept()
    before, judged = watched(), dict[str, object]()
    for count, (cell_id, source) in enumerate(task["cells"], start=1):
        say({"cell": count})
        error: BaseException | None = None
        try:
            with at_most(task["seconds"]):
                result = shell.run_cell(source)  # type: ignore[no-untyped-call]
            error = result.error_before_exec or result.error_in_exec
        except TooLongError as rang:  # while IPython was busy with the cell
            error = rang
        how = "" if isinstance(error, TooLongError) else f"stops with {type(error).__name__}: "
        for cell, name, function in asked:
            mine = shell.user_ns.get(function)
            if cell_id != cell and function not in source:
                continue
            if mine is None and error:
                said = f"✗ {name}: its cell {how}{error}"
                say({"check": name, "said": said[:500], "seconds": 0.0})
            elif mine is not None and judged.get(name) is not mine:
                judged[name], begin = mine, time.perf_counter()
                said = verdict(checks[name], told, mine, before)
                say({"check": name, "said": said[:500], "seconds": time.perf_counter() - begin})
    say({"end": True})
    os._exit(0)  # no thread of the notebook's, and nothing it has registered, runs on


if __name__ == "__main__":
    main()
