"""`check.hint("NAME")`: one more hint at each call, the last one nearly the answer.

The first says how to begin. The others are our own answer, one statement more each time, so that
no hint is written twice; in the last statement, what stands in parentheses is left out. Names that
our file knows and the notebook does not are imported above it. How many hints were asked for is
kept beside the learner's parts, for the learner alone.
"""

import ast
import builtins
import json
import os
import re
import sys
from pathlib import Path
from types import ModuleType

from bertedu.files import write_atomically
from course.exercises.judge import Registered, report
from course.exercises.patch import source_of
from course.language import spoken


def folder() -> Path:
    """Return where a learner's own things are kept: parts of a BERT, and which hints were asked."""
    chosen = os.environ.get("BERTEDU_MY_BERT") or Path(__file__).parents[2] / "my_bert"
    return Path(chosen).expanduser()


def taken() -> dict[str, int]:
    """Return how many hints were asked for, by exercise; none if the file cannot be read."""
    try:
        found = json.loads((folder() / "hints.json").read_text(encoding="utf-8"))
        return {str(name): int(count) for name, count in found.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def next_hint(one: Registered) -> str:
    """Count a call, and return all hints that are due; behind the last one, where ours is."""
    every, counts = hints_of(one), taken()
    due = counts.get(one.name, 0) + 1
    counts[one.name] = min(due, len(every))
    write_atomically(folder() / "hints.json", json.dumps(counts, sort_keys=True) + "\n")
    begin, *code = every[:due]
    head = report(f"Hint {counts[one.name]} of {len(every)} for {one.name}. Start from {begin}")
    last = [spoken(f'That was the last hint; check.solution("{one.name}") shows ours.')]
    needed = ["\n".join(imports(one, text)) for text in code[-1:]]
    return "\n\n".join([head, *filter(None, needed), *code[-1:], *last * (due >= len(every))])


def imports(one: Registered, text: str) -> list[str]:
    """Return the imports of what `text` uses of our file and the notebook does not have."""
    ours, here = vars(sys.modules[one.ours.__module__]), vars(sys.modules["__main__"])
    nodes = ast.walk(ast.parse(source_of(one.ours)))
    used = {n.id for n in nodes if isinstance(n, ast.Name)} & {*re.findall(r"\w+", text)} & {*ours}
    known = vars(builtins) | here
    missing = [name for name in used if known.get(name) is not ours[name]]
    return sorted(_import(name, ours[name], one.ours.__module__) for name in missing)


def _import(name: str, value: object, ours: str) -> str:
    if isinstance(value, ModuleType):
        return f"import {value.__name__}" + f" as {name}" * (name != value.__name__)
    home = getattr(value, "__module__", ours)
    found = getattr(sys.modules[home], name, None) is value
    return f"from {home if found else ours} import {name}"


def hints_of(one: Registered) -> list[str]:
    """Return all hints: how to begin, then the body of our answer, growing; always two or more."""
    source = re.sub(r"  # (type|noqa)\b.*", "", source_of(one.ours))
    lines = source.splitlines()
    definition = ast.parse("\n".join(lines)).body[0]
    assert isinstance(definition, ast.FunctionDef | ast.ClassDef)
    told = [node for node in ast.walk(definition) if isinstance(node, ast.stmt)]
    docs = {n.lineno for n in told if isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant)}
    cuts = sorted({node.lineno - 1 for node in told[1:] if node.lineno not in docs})
    shown = ["\n".join(lines[cuts[0] : end]).rstrip() for end in cuts[1:]]
    last = "\n".join(lines[cuts[-1] :])
    return [one.start, *shown, "\n".join([*shown[-1:], without_the_inside(last)])]


def without_the_inside(statement: str) -> str:
    """Leave out what stands in innermost parentheses; if there are none, the last word."""
    open_ended = re.sub(r"\(([^()]+)\)", "(…)", statement)
    return open_ended if open_ended != statement else re.sub(r"\S+\s*$", "…", statement)
