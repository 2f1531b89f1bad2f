"""The guide's minutes, computed from the notebooks: `python -m course.classroom.guide`.

`plans.toml` says which sections and exercises a plan takes; a table for each plan is written into
`guide.md`, between its two marks. Run it again whenever the notebooks have changed.
"""

import re
import tomllib
from math import ceil
from pathlib import Path
from typing import Any

from bertedu.files import write_atomically
from course.classroom.asked import chosen, course
from course.classroom.minutes import LINES_A_MINUTE, exercises_of, lines_of, words_of
from course.classroom.slides import lecture

GUIDE, PLANS = (Path(__file__).with_name(name) for name in ("guide.md", "plans.toml"))
WORDS_A_MINUTE = 100  # explained, with questions and waiting for answers
TO_OPEN = 5  # minutes until everybody has the first notebook open
HEAD = """
| notebook | sections | cells | slides | exercises in class | minutes | left for home, minutes |
|---|---|---|---|---|---|---|"""
MARKS = r"(?<=<!-- plan {name} -->\n).*?(?=<!-- end -->)"


def sections_of(name: str) -> dict[str, list[tuple[int, Any]]]:
    """Return the sections of a notebook by their `##` headings, without its head.

    Each has its cells, counted from 1 in the notebook.
    """
    found: dict[str, list[tuple[int, Any]]] = {}
    section = None
    for number, cell in enumerate(course()[name], start=1):
        if cell.cell_type == "markdown" and cell.source.startswith("## "):
            section = found[cell.source.partition("\n")[0][3:]] = []
        if section is not None:
            section.append((number, cell))
    return found


def row_of(step: dict[str, Any]) -> tuple[str, float]:
    """Return the line of a table for one step of a plan, and its minutes.

    Raises ValueError if there is no such notebook, section or exercise.
    """
    (name,) = chosen([step["notebook"]])
    sections, named, skipped = sections_of(name), step.get("sections", []), step.get("skip", [])
    if unknown := {*named, *skipped} - set(sections):
        raise ValueError(f"plans.toml: {name} has no section {sorted(unknown)}")
    parts = [sections[title] for title in named or sections if title not in skipped]
    cells = [cell for part in parts for _, cell in part]
    known = {number: minutes for cell in cells for number, minutes in exercises_of(cell).items()}
    asked = step.get("exercises", list(known))
    if not set(asked) <= set(known):
        raise ValueError(f"plans.toml: {name} has no exercises {asked} in these sections")
    in_class = sum(known[number] for number in asked)
    words, lines = sum(map(words_of, cells)), sum(map(lines_of, cells))
    minutes = words / WORDS_A_MINUTE + lines / LINES_A_MINUTE + in_class
    spans = parts if named else [[parts[0][0], parts[-1][-1]]]
    columns = [
        f"[{name[:2]}](../../notebooks/{name}.ipynb)",
        "; ".join(named) or ("all but " + "; ".join(skipped) if skipped else "all"),
        ", ".join(f"{span[0][0]}–{span[-1][0]}" for span in spans),
        slides_of(name, cells),
        ", ".join(map(str, asked)) or "–",
        f"{minutes:.0f}",
        str(sum(known.values()) - in_class or "–"),
    ]
    return f"| {' | '.join(columns)} |", minutes


def slides_of(name: str, cells: list[Any]) -> str:
    """Say which slides of a notebook's lecture belong to some of its cells, such as 3–9, 12.

    A slide that takes nothing from the notebook belongs where the one before it does.
    """
    ids, numbers, inside = {cell.id for cell in cells}, list[int](), False
    asked = {str(number) for cell in cells for number in exercises_of(cell)}
    for number, slide in enumerate(lecture(name), start=1):
        kind, taken, _ = slide.thing
        if kind not in ("", "clock"):
            inside = taken in (asked if kind == "turn" else ids)
        numbers += [number] * inside
    starts = [n for n in numbers if n - 1 not in numbers]
    ends = [n for n in numbers if n + 1 not in numbers]
    return ", ".join(f"{a}–{b}" if a < b else f"{a}" for a, b in zip(starts, ends, strict=True))


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
