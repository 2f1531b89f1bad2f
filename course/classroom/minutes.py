"""How long a notebook takes: its text, its visible code, its run and its exercises.

`python -m course.classroom.minutes` writes the minutes into the head of every notebook.
"""

import re
from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any

import nbformat

from bertedu.files import write_atomically
from course.classroom.asked import HEADING, NOTEBOOKS

WORDS_A_MINUTE = 120  # dense text with formulas, read alone
LINES_A_MINUTE = 12  # of code that one is to understand
TO_RUN = 1  # minutes until all cells have run
HEAD = re.compile(r"^\| \d+: \d+ to read and run, \d+ for exercises \|", re.MULTILINE)
Cell = Mapping[str, Any]


def words_of(cell: Cell) -> int:
    """Count the words of a cell of text; one of code has none to read."""
    return len("".join(cell["source"]).split()) if cell["cell_type"] == "markdown" else 0


def lines_of(cell: Cell) -> int:
    """Count the lines of code that a reader sees; a folded cell has none."""
    if cell["cell_type"] != "code" or cell["metadata"].get("jupyter", {}).get("source_hidden"):
        return 0
    return sum(bool(line.strip()) for line in "".join(cell["source"]).splitlines())


def exercises_of(cell: Cell) -> dict[int, int]:
    """Return the number of each exercise that a cell sets, and its minutes."""
    text = "".join(cell["source"]) if cell["cell_type"] == "markdown" else ""
    return {int(number): int(minutes) for number, _, _, minutes in HEADING.findall(text)}


def minutes_of(cells: Sequence[Cell]) -> tuple[int, int]:
    """Return the minutes to read and run some cells, and those of their exercises, in fives."""
    reading = sum(words_of(c) / WORDS_A_MINUTE + lines_of(c) / LINES_A_MINUTE for c in cells)
    exercises = sum(sum(exercises_of(cell).values()) for cell in cells)
    return 5 * ceil((reading + TO_RUN) / 5), 5 * ceil(exercises / 5)


def with_minutes(notebook: Mapping[str, Any]) -> str:
    """Return the first cell of a notebook with its minutes made anew."""
    reading, exercises = minutes_of(notebook["cells"])
    head = f"| {reading + exercises}: {reading} to read and run, {exercises} for exercises |"
    return HEAD.sub(head, "".join(notebook["cells"][0]["source"]))


if __name__ == "__main__":
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        notebook = nbformat.read(path, 4)
        head = with_minutes(notebook)
        if head != notebook.cells[0].source:
            notebook.cells[0].source = head
            write_atomically(path, nbformat.writes(notebook) + "\n")
