"""A wrong function is the right one's text with some words replaced.

Mistakes are written as they are told, each with the patches that make it::

    ✗ the variance is divided by H - 1.
      x.var(-1) does that by itself. Here the row is all there is: correction=0.
    | (centered**2).mean(-1, keepdim=True) => x.var(-1, keepdim=True)
    | = divided_by_one_less

The first line is what one sees, the indented ones what to change. A line ``| old => new && old =>
new`` is one wrong function: each *old* is replaced wherever it stands. Several such lines are
several ways to the same mistake. ``| = …`` is an expression in the exercise's own file, where a
patch would be harder to read than the whole function. Long lines go on below, indented.
"""

import inspect
import re
import textwrap
from collections.abc import Iterator
from typing import Any


def read_mistakes(text: str) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Take a text of mistakes apart: what one sees, what to change, the patches.

    Raises ValueError if a mistake says nothing of what to change, or has no patch.
    """
    for block in inspect.cleandoc(text).split("✗ ")[1:]:
        words, *patches = re.split(r"^\| ", block, flags=re.MULTILINE)
        lines = words.splitlines()
        what = " ".join(line for line in lines if not line.startswith(" "))
        likely = " ".join(line.strip() for line in lines if line.startswith(" "))
        if not (what and likely and patches):
            raise ValueError(f"a mistake needs what one sees, what to change, a patch: {block!r}")
        yield what, likely, tuple(" ".join(patch.split()) for patch in patches)


def source_of(piece: Any) -> str:
    """Return the text of a function or class, without the exercise that it answers."""
    text = textwrap.dedent(inspect.getsource(piece)).rstrip()
    return re.sub(r"\A@\w+\.asking\(\n.*?^\)\n", "", text, flags=re.DOTALL | re.MULTILINE)


def patched(right: Any, patch: str, names: dict[str, Any]) -> Any:
    """Make the wrong function (or class) of a patch of the right one.

    ``names`` are those of the exercise's own file, for an expression. Raises ValueError if the
    text of the right function does not hold what is to be replaced.
    """
    if patch.startswith("= "):
        return eval(patch[2:], names)
    source = source_of(right)
    for one in patch.split(" && "):
        old, new = one.split(" => ") if " => " in one else (one.removesuffix(" =>"), "")
        if old not in source:
            raise ValueError(f"{right.__name__} does not hold {old!r}, which a patch replaces")
        source = source.replace(old, new)
    scope = dict(vars(inspect.getmodule(right)))
    exec(compile(source, inspect.getfile(right), "exec"), scope)  # a file of ours, not a learner's
    return scope[right.__name__]
