"""The guide's minutes, computed from the notebooks: `python -m course.classroom.guide`.

`plans.toml` says which sections and exercises a plan takes; a table for each plan is written into
`guide.md`, between its two marks. Run it again whenever the notebooks have changed.
"""

import json
import re
import tomllib
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any

from bertedu.files import write_atomically
from course.classroom.minutes import LINES_A_MINUTE, exercises_of, lines_of, words_of

HERE = Path(__file__).parent
GUIDE, PLANS, NOTEBOOKS = HERE / "guide.md", HERE / "plans.toml", HERE.parents[1] / "notebooks"
WORDS_A_MINUTE = 100  # explained, with questions and waiting for answers
TO_OPEN = 5  # minutes until everybody has the first notebook open
HEAD = """
| notebook | sections | cells | slides | exercises in class | minutes | left for home, minutes |
|---|---|---|---|---|---|---|"""
MARKS = r"(?<=<!-- plan {name} -->\n).*?(?=<!-- end -->)"


@dataclass
class Section:
    """A stretch of a notebook under one `##` heading."""

    first: int  # cell, counted from 1
    last: int
    words: int
    lines: int  # of visible code
    slides: int
    exercises: dict[int, int]  # number -> minutes


def sections_of(path: Path) -> dict[str, Section]:
    """Return the sections of a notebook by their headings; its head is left out."""
    found: dict[str, Section] = {}
    now = None
    for number, cell in enumerate(json.loads(path.read_text(encoding="utf-8"))["cells"], start=1):
        text = "".join(cell["source"])
        if cell["cell_type"] == "markdown" and text.startswith("## "):
            now = found[text.split("\n")[0][3:]] = Section(number, number, 0, 0, 0, {})
        if now is None:
            continue
        now.last = number
        now.slides += cell["metadata"]["slideshow"]["slide_type"] in ("slide", "subslide")
        now.words += words_of(cell)
        now.lines += lines_of(cell)
        now.exercises |= exercises_of(cell)
    return found


def notebook(number: str) -> Path:
    """Return the path of a notebook, from its number; ValueError if there is none."""
    paths = list(NOTEBOOKS.glob(f"{number}_*.ipynb"))
    if len(paths) != 1:
        raise ValueError(f"plans.toml: there is no notebook {number!r}")
    return paths[0]


def row_of(step: dict[str, Any]) -> tuple[str, float]:
    """Return the line of a table for one step of a plan, and its minutes.

    Raises ValueError if the notebook has no such section or exercise.
    """
    path = notebook(step["notebook"])
    sections = sections_of(path)
    chosen = step.get("sections") or [name for name in sections if name not in step.get("skip", ())]
    if unknown := {*chosen, *step.get("skip", ())} - set(sections):
        raise ValueError(f"plans.toml: {path.name} has no section {sorted(unknown)}")
    parts = [sections[name] for name in chosen]
    known = {number: minutes for part in parts for number, minutes in part.exercises.items()}
    asked = step.get("exercises", list(known))
    if not set(asked) <= set(known):
        raise ValueError(f"plans.toml: {path.name} has no exercises {asked} in these sections")
    exercises = sum(known[number] for number in asked)
    explained = sum(part.words / WORDS_A_MINUTE + part.lines / LINES_A_MINUTE for part in parts)
    minutes = explained + exercises
    cells = ", ".join(f"{part.first}–{part.last}" for part in parts)
    if not step.get("sections"):
        cells = f"{parts[0].first}–{parts[-1].last}"
    what = "; ".join(step["sections"]) if step.get("sections") else "all"
    if skipped := step.get("skip"):
        what = f"all but {'; '.join(skipped)}"
    home = sum(known.values()) - exercises
    cut = [
        f"[{path.stem[:2]}](../notebooks/{path.name})",
        what,
        cells,
        str(sum(part.slides for part in parts)),
        ", ".join(map(str, asked)) or "–",
        f"{minutes:.0f}",
        f"{home}" if home else "–",
    ]
    return f"| {' | '.join(cut)} |", minutes


def tables_of(plan: dict[str, Any]) -> tuple[str, list[int]]:
    """Return the tables of a plan, one for each of its sessions, and their minutes."""
    lines, minutes = [], []
    for session in plan["sessions"]:
        rows = [row_of(step) for step in session["steps"]]
        breaks = session.get("breaks", 0)
        minutes.append(ceil(sum(some for _, some in rows) + TO_OPEN + breaks))
        rests = f" and {breaks} of breaks" if breaks else ""
        if title := session.get("title"):
            lines += ["", f"**{title}**"]
        lines += [HEAD, *(line for line, _ in rows), ""]
        lines += [f"{minutes[-1]} of {plan['minutes']} minutes, with {TO_OPEN} to open{rests}.", ""]
    return "\n".join(lines), minutes


def write_guide() -> str:
    """Return the text of the guide with every table made anew; ValueError if a mark is missing."""
    text = GUIDE.read_text(encoding="utf-8")
    for name, plan in tomllib.loads(PLANS.read_text(encoding="utf-8")).items():
        mark = re.compile(MARKS.format(name=name), re.DOTALL)
        if not (place := mark.search(text)):
            raise ValueError(f"guide.md has no marks for the plan {name}")
        text = text[: place.start()] + tables_of(plan)[0] + text[place.end() :]
    return text


if __name__ == "__main__":
    write_atomically(GUIDE, write_guide())
