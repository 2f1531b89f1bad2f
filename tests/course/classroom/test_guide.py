"""What the classroom's tools write into guide and notebooks is up to date, and plans fit."""

import re
import tomllib
from pathlib import Path
from typing import Any

import nbformat
import pytest

from course.classroom import guide
from course.classroom.asked import NOTEBOOKS, course
from course.classroom.minutes import with_minutes

PLANS = tomllib.loads(guide.PLANS.read_text(encoding="utf-8"))


def test_the_guide_is_up_to_date() -> None:
    made = guide.write_guide()
    assert guide.GUIDE.read_text("utf-8") == made, "run python -m course.classroom.guide"


@pytest.mark.parametrize("path", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda path: path.name)
def test_every_head_states_what_its_notebook_takes(path: Path) -> None:
    notebook = nbformat.read(path, 4)
    head = notebook.cells[0].source
    assert head == with_minutes(notebook), "run python -m course.classroom.minutes"
    notebook.cells.append(nbformat.v4.new_markdown_cell("**9. All (★★★, 1000 minutes).**"))
    assert head != with_minutes(notebook)


def markdown() -> dict[str, str]:
    """All that is not code, by notebook."""
    return {
        name[:2]: "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
        for name, cells in course().items()
    }


def test_notebooks_stay_short() -> None:
    """Words of Markdown, folded answers too."""
    words = {name: len(text.split()) for name, text in markdown().items()}
    assert [name for name, count in words.items() if count > 4000] == [], words
    first = sum(words[name] for name in "00 01 02 03 04 05 a1".split())
    assert first <= 17_600, f"{first} words in 00 to 05 and a1: cut as many as you add"
    assert max(words["17"], words["18"]) <= 3_500, words
    assert words["13"] <= 2_600, words
    every = sum(words.values())
    assert every <= 60_900, f"{every} words in all notebooks: cut as many as you add"


def test_one_heading_in_three_is_a_question_at_most() -> None:
    headings = re.findall("^##+ (.+)$", "\n".join(markdown().values()), re.MULTILINE)
    assert 0 < sum(one.endswith("?") for one in headings) <= len(headings) / 3


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_a_plan_fits_its_minutes_and_fills_them(plan: dict[str, Any]) -> None:
    _, together = guide.tables_of(plan)
    assert all(0.6 * plan["minutes"] <= minutes <= plan["minutes"] for minutes in together)


@pytest.mark.parametrize(
    ("step", "message"),
    [
        ({"notebook": "98"}, "no notebook begins with '98'"),
        ({"sections": ["Three"]}, r"no section \['Three'\]"),
        ({"skip": ["Three"]}, r"no section \['Three'\]"),
        ({"sections": ["Why three vectors for one word?"], "exercises": [1]}, r"exercises \[1\]"),
    ],
)
def test_a_plan_that_names_what_is_not_there_is_refused(step: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        guide.row_of({"notebook": "03"} | step)
