"""Lectures: a script in Markdown for each notebook, and what its slides take from the notebook.

`lectures/03.md` belongs to notebook 03. ``# Title`` opens the first slide, ``## Title`` each other
one; below it come a few words, one thing taken from the notebook, ``{kind cell-id}`` on a line of
its own, and as a quotation the notes: ``> 2 min. What to say. **Ask:** a question.`` The room has
half a minute to answer, or what the question names: ``**Ask, 2 min:**``, in pairs. Kinds:

- ``show``: a picture or a toy, as the cell has drawn it; with ``| 2``, its second; with
  ``| 0 0 50 100, 50 0 75 100``, parts of a picture, side by side: left, top, right, bottom, in %;
- ``code``, ``print``: lines of the cell, or of what it printed; with ``| words``, the paragraph
  from these words on; with ``| words … words``, the lines from the first to the last of them;
- ``formula``, ``table``: those of a cell of text; with ``| words``, the one that holds them;
- ``turn``: the exercise of this number, ``{turn 2}``: its stub, and the slide's minutes;
- ``clock``: minutes for something smaller, ``{clock 2}``.
"""

import base64
import html
import re
import struct
from collections.abc import Callable
from pathlib import Path
from textwrap import wrap
from typing import Any, NamedTuple

from nbconvert.filters import Highlight2HTML, markdown2html
from traitlets.config import Config

from course.classroom.asked import LINK, NOTEBOOKS, NotebookError, asked_in, course
from course.language import spoken

LECTURES = Path(__file__).with_name("lectures")
if (_built := NOTEBOOKS / "lectures").is_dir():  # in the language of those notebooks
    LECTURES = _built
SLIDE = re.compile(r"^#{1,2} (.+)$", re.MULTILINE)
THING = re.compile(r"^\{(\w+) ([\w.-]+)(?: \| (.+))?\}$", re.MULTILINE)
NOTES = re.compile(r"(?:^>.*\n?)+", re.MULTILINE)
MINUTES = re.compile(r"([\d.]+)(?: min|분)\.")
FORMULA = re.compile(r"\$\$(.+?)\$\$|\$([^$\n]+)\$", re.DOTALL)
TABLE = re.compile(r"(?:^\|.*\n?)+", re.MULTILINE)
IMAGE = re.compile(r'<img alt="([^"]*)"[^>]* src="data:image/png;base64,([^"]+)">')
TYPE = re.compile(rb"tEXtType\0([\d.]+) pt")  # the smallest in a picture, as Picture notes it
STYLE = 15.0  # points, of a picture that notes none: the type of the course's style
WIDEST, PROSE = 104, 60  # characters of a line that fits a slide, and of one that reads well
highlight = Highlight2HTML(config=Config())


class Slide(NamedTuple):
    """One slide of a lecture, as its script says it."""

    title: str
    text: str  # Markdown
    thing: tuple[str, str, str]  # kind, cell id or number, words to find; "" three times: none
    minutes: float
    notes: str  # Markdown


def lecture(name: str) -> list[Slide]:
    """Read the script of a notebook; NotebookError for a slide that is not as it should be."""
    path = LECTURES / f"{name[:2]}.md"
    before, *parts = SLIDE.split(path.read_text(encoding="utf-8"))
    slides = []
    for title, body in zip(parts[::2], parts[1::2], strict=True):
        things, notes = THING.findall(body), "".join(NOTES.findall(body))
        notes = re.sub("^> ?", "", notes, flags=re.MULTILINE).strip()
        text = THING.sub("", NOTES.sub("", body)).strip()
        minutes = MINUTES.match(notes)
        if not minutes or len(things) > 1 or "{" in text or before.strip():
            raise NotebookError(
                f"{path.name}, slide {title!r}: it needs notes that begin with minutes (> 2 min.), "
                "and at most one {kind cell-id}, on a line of its own"
            )
        said = notes[minutes.end() :].strip()
        slides.append(Slide(title, text, (things or [("", "", "")])[0], float(minutes[1]), said))
    return slides


def paragraph(text: str, words: str) -> str:
    """Return the lines of a text from some words on, to others or to an empty line; "" if none."""
    first, _, last = words.partition(" … ")
    lines = text.strip("\n").split("\n")
    start = next((i for i, line in enumerate(lines) if first in line), len(lines))
    ends = [i + 1 for i, line in enumerate(lines[start:], start) if last and last in line]
    if last:
        return "\n".join(lines[start : ends[0]]) if ends else ""
    return "\n".join(lines[start:]).split("\n\n")[0].rstrip()


def printed(cell: Any) -> str:
    """Return what a cell printed, else its result as text."""
    outputs = cell.get("outputs", [])
    texts = [o.text for o in outputs if "text" in o] or [
        o.get("data", {}).get("text/plain", "") for o in outputs
    ]
    return "\n".join(text.strip("\n") for text in texts)


def show(cell: Any, words: str) -> str:
    """Return the picture, toy or table that a cell has drawn, one by number, or parts of it."""
    outputs = cell.get("outputs", [])
    drawn = [o.data["text/html"] for o in outputs if "text/html" in o.get("data", {})]
    one = "".join(drawn[int(words) - 1 if words.isdigit() else 0 :][:1])
    image = None if "bertedu-" in one else IMAGE.search(one)
    parts = "" if words.isdigit() else words
    return picture(image[1], image[2], parts) if image else one


def measured(data: str) -> tuple[int, int, float]:
    """Return width and height of a PNG in pixels, and the points of its smallest type."""
    png = base64.b64decode(data)
    noted = TYPE.search(png)
    return *struct.unpack(">II", png[16:24]), float(noted[1]) if noted else STYLE


def picture(alt: str, data: str, parts: str) -> str:
    """Return a picture, or parts of it, with the points of its smallest type."""
    wide, high, points = measured(data)
    found = list[str]()
    for part in (parts or "0 0 100 100").split(","):
        shares = zip(map(float, part.split()), (wide, high) * 2, strict=True)
        left, top, right, bottom = (share * size / 100 for share, size in shares)
        size = f"width:{right - left:.0f}px;height:{bottom - top:.0f}px"
        found.append(
            f'<div class="part" style="{size}"><img alt="{alt if not found else ""}" '
            f'style="margin:{-top:.0f}px 0 0 {-left:.0f}px" data-type="{points:g}" '
            f'src="data:image/png;base64,{data}"></div>'
        )
    return "".join(found)


def code(cell: Any, words: str) -> str:
    """Return lines of code, colored."""
    found = paragraph(cell.source, words) if words else cell.source
    return str(highlight(found)) if found else ""


def output(cell: Any, words: str) -> str:
    """Return lines that a cell printed; prose is wrapped, and columns only where they must be."""
    found = paragraph(printed(cell), words) if words else printed(cell)
    most = WIDEST if re.search(r"\S  +\S", found) else PROSE
    lines = "\n".join("\n".join(wrap(one, most)) for one in found.split("\n"))
    return f"<pre>{html.escape(lines)}</pre>" if found else ""


def formula(cell: Any, words: str) -> str:
    """Return a formula of a cell of text, set on a line of its own."""
    every = sorted(FORMULA.findall(cell.source), key=lambda one: not one[0])  # displayed first
    found = [a or b for a, b in every if words in a + b]
    return f"<p>$${html.escape(found[0])}$$</p>" if found else ""


def table(cell: Any, words: str) -> str:
    """Return a table of a cell of text."""
    found = [one for one in TABLE.findall(LINK.sub(r"\1", cell.source)) if words in one]
    return str(markdown2html(found[0])) if found else ""


KINDS: dict[str, Callable[[Any, str], str]] = {
    "show": show,
    "code": code,
    "print": output,
    "formula": formula,
    "table": table,
}


def clock(minutes: float) -> str:
    """Return a clock that a click starts."""
    return f'<button class="clock" type="button" data-minutes="{minutes:g}"></button>'


def turn(name: str, number: str, minutes: float) -> str:
    """Return an exercise: its title, its stub without the check, and a clock."""
    cells = course()[name]
    one = next((one for one in asked_in(cells) if str(one.number) == number), None)
    if one is None:
        return ""
    stub = next((cell.source for cell in cells if cell.id == one.cell), "")
    lines = re.sub(r"^check\..*", "", stub[stub.find("def my_") :], flags=re.MULTILINE).strip()
    said = spoken(f"Notebook {name[:2]}, exercise {number}:")
    head = f"<p>{said} <b>{html.escape(one.title)}</b></p>"
    return head + (str(highlight(lines)) if one.cell else "") + clock(minutes)


def thing_of(name: str, slide: Slide) -> str:
    """Return what a slide takes from its notebook, as HTML; NotebookError if it is not there."""
    kind, cell_id, words = slide.thing
    drawn = ""
    if kind == "turn":
        drawn = turn(name, cell_id, slide.minutes)
    elif kind == "clock":
        drawn = clock(float(cell_id))
    elif kind in KINDS:
        cells = [cell for cell in course()[name] if cell.id == cell_id]
        drawn = "".join(KINDS[kind](cell, words) for cell in cells)
    if kind and not drawn:
        asked = f"{kind} {cell_id}{words and ' | '}{words}"
        raise NotebookError(
            f"lectures/{name[:2]}.md, slide {slide.title!r}: {name} has nothing for {{{asked}}}"
        )
    return drawn


def slide_html(name: str, slide: Slide, first: bool) -> str:
    """Return a slide as HTML, with its notes for the speaker."""
    kind, tag = slide.thing[0] or "words", "h1" if first else "h2"
    above = f"<p class=chip>{spoken('Your turn')}</p>" if kind in ("turn", "clock") else ""
    title, text = (str(markdown2html(part)) for part in (slide.title, slide.text))
    title = re.sub(r"^<p>|</p>$", "", title.strip())
    minutes = spoken(f"{slide.minutes:g} min.")
    notes = markdown2html(f"**{minutes}** {slide.notes}")
    drawn, beside = thing_of(name, slide), ""
    if kind == "turn":  # its clock stands beside the title
        drawn, mark, rest = drawn.partition("<button")
        beside = mark + rest
    kind += " picture" * ('class="part"' in drawn)
    thing = f'<div class="room"><div class="thing">{drawn}</div></div>{beside}'
    return (
        f'<section class="slide {kind}{" first" * first}"><header>{above}<{tag}>{title}</{tag}>'
        f'<div class="text">{text}</div></header>{thing * bool(slide.thing[0])}'
        f'<aside class="notes tex2jax_ignore">{notes}</aside></section>'
    )


def deck(name: str) -> str:
    """Return the slides of a notebook's lecture as HTML."""
    slides = lecture(name)
    return "\n".join(slide_html(name, one, i == 0) for i, one in enumerate(slides))
