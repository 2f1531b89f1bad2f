"""The teacher's guide: its tables are those of the notebooks, and its plans fit their minutes."""

import copy
import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from course.classroom import guide

PLANS = tomllib.loads(guide.PLANS.read_text(encoding="utf-8"))


def test_the_guide_is_up_to_date() -> None:
    assert guide.GUIDE.read_text(encoding="utf-8") == guide.write_guide(), (
        "the notebooks have changed: run python -m course.classroom.guide"
    )


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_a_plan_fits_its_minutes_and_fills_them(plan: dict[str, Any]) -> None:
    _, together = guide.tables_of(plan)
    assert all(0.6 * plan["minutes"] <= minutes <= plan["minutes"] for minutes in together)


@pytest.fixture
def lesson(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A plan of one step, over a notebook with 300 words, two exercises and 24 lines of code."""
    texts = [
        "# Title",
        "## One\n" + "word " * 98,
        "**1. First (★☆☆, 5 minutes).** Do " + "it " * 94,
        "## Two\n" + "word " * 98 + "\n\n**2. Second (★★★, 7 minutes).**",
    ]
    cells = [
        {
            "cell_type": "markdown",
            "source": text,
            "metadata": {"slideshow": {"slide_type": "slide" if "#" in text else "fragment"}},
        }
        for text in texts
    ]
    code = {"cell_type": "code", "source": "x = 1\n\n" * 24, "metadata": {"slideshow": {}}}
    code["metadata"]["slideshow"]["slide_type"] = "fragment"
    folded = copy.deepcopy(code)
    folded["metadata"]["jupyter"] = {"source_hidden": True}
    cells += [code, folded]
    (tmp_path / "07_some.ipynb").write_text(json.dumps({"cells": cells}), encoding="utf-8")
    monkeypatch.setattr(guide, "NOTEBOOKS", tmp_path)
    return {"minutes": 60, "sessions": [{"steps": [{"notebook": "07"}], "breaks": 10}]}


def test_minutes_are_words_and_exercises_and_breaks(lesson: dict[str, Any]) -> None:
    table, minutes = guide.tables_of(lesson)
    assert minutes == [33]  # 306 words, 24 lines, exercises 12, breaks 10, to open 5: rounded up
    assert "| all | 2–6 | 2 | 1, 2 | 17 | – |" in table
    lesson["sessions"][0]["steps"][0] |= {"sections": ["Two"], "exercises": []}
    table, minutes = guide.tables_of(lesson)
    assert minutes == [19]
    assert "| Two | 4–6 | 1 | – | 3 | 7 |" in table


@pytest.mark.parametrize(
    ("step", "message"),
    [
        ({"notebook": "08"}, "no notebook '08'"),
        ({"sections": ["Three"]}, r"no section \['Three'\]"),
        ({"skip": ["Three"]}, r"no section \['Three'\]"),
        ({"sections": ["One"], "exercises": [2]}, r"no exercises \[2\]"),
    ],
)
def test_a_plan_that_names_what_is_not_there_is_refused(
    step: dict[str, Any], message: str, lesson: dict[str, Any]
) -> None:
    lesson["sessions"][0]["steps"][0] |= step
    with pytest.raises(ValueError, match=message):
        guide.tables_of(lesson)
