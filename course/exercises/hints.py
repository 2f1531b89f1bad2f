"""`check.hint("NAME")`: one more hint at each call, the last one nearly the answer.

The first says how to begin. The others are our own answer, one statement more each time, so that
no hint is written twice; in the last statement, what stands in parentheses is left out. How many
were asked for is kept beside the learner's parts, for the learner alone.
"""

import ast
import json
import os
import re
from pathlib import Path

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
    return "\n\n".join([head, *code[-1:], *last * (due >= len(every))])


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
