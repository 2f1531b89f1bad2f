"""The minutes at the head of a notebook: reading at 200 words a minute, and its exercises."""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
HEAD = re.compile(r"^\| (\d+): (\d+) to read and run, (\d+) for exercises \|", re.MULTILINE)
EXERCISE = re.compile(r"★[★☆]*, (\d+) minutes?\)")
WORDS_A_MINUTE = 200


def texts(path: Path) -> list[str]:
    """The Markdown cells of a notebook."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"]


STATED = [
    path for path in sorted((ROOT / "notebooks").glob("*.ipynb")) if HEAD.search(texts(path)[0])
]


def test_the_first_notebooks_state_their_minutes_in_parts() -> None:
    assert {path.name[:2] for path in STATED} >= {"00", "01", "02", "04", "05", "07"}


@pytest.mark.parametrize("path", STATED, ids=lambda path: path.name)
def test_the_minutes_of_the_head_are_those_of_the_text_and_its_exercises(path: Path) -> None:
    cells = texts(path)
    (stated,) = HEAD.findall(cells[0])
    together, reading, exercises = map(int, stated)
    assert together == reading + exercises
    asked = sum(int(minutes) for cell in cells for minutes in EXERCISE.findall(cell))
    assert asked > 0
    assert abs(exercises - asked) <= 2.5  # to the nearest five
    words = sum(len(cell.split()) for cell in cells)
    assert words / WORDS_A_MINUTE - 2.5 <= reading <= words / WORDS_A_MINUTE + 5  # and it runs
