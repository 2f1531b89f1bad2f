"""The minutes at the head of a notebook are those of its text, its code and its exercises."""

from pathlib import Path
from typing import Any

import nbformat
import pytest

from course.classroom.minutes import HEAD, NOTEBOOKS, minutes_of, with_minutes


@pytest.mark.parametrize("path", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda path: path.name)
def test_every_head_states_what_its_notebook_takes(path: Path) -> None:
    notebook = nbformat.read(path, 4)
    assert HEAD.search(notebook.cells[0].source)
    assert notebook.cells[0].source == with_minutes(notebook), (
        "the notebook has changed: run python -m course.classroom.minutes"
    )


def cell(kind: str, source: str, **metadata: Any) -> dict[str, Any]:
    return {"cell_type": kind, "source": source, "metadata": metadata}


WORDS, LINES = cell("markdown", "word " * 480), cell("code", "x = 1\n\n" * 60)  # 4 and 5 minutes
EXERCISE = cell("markdown", "**1. Do it (★☆☆, 5 minutes).**")
FOLDED = cell("code", "x = 1\n" * 600, jupyter={"source_hidden": True})


@pytest.mark.parametrize(
    ("cells", "minutes"),
    [
        ([WORDS], (5, 0)),  # one to run
        ([WORDS, cell("markdown", "word " * 121)], (10, 0)),
        ([WORDS, LINES], (10, 0)),
        ([WORDS, FOLDED], (5, 0)),
        ([EXERCISE, EXERCISE, cell("markdown", "**2. And (★★★, 7 minutes).**")], (5, 20)),
    ],
)
def test_minutes_count_words_visible_lines_and_exercises(
    cells: list[dict[str, Any]], minutes: tuple[int, int]
) -> None:
    assert minutes_of(cells) == minutes
