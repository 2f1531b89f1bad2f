"""Lectures: every slide takes something that is there, says little, and has minutes and notes."""

import base64
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib import pyplot as plt
from nbformat.v4 import new_code_cell, new_markdown_cell, new_output
from tiny_course import NAME, bertedu, save, tiny

from bertedu.analysis.views import Picture
from course.classroom import decks, slides
from course.classroom.asked import LINK, NotebookError, course
from course.classroom.slides import deck, lecture, thing_of

WORDS, TITLE = 30, 14  # at most, on a slide below its title, and in the title
SLIDES, MINUTES = range(15, 29), (40, 50)
A_MINUTE, ANSWER = 130, 0.5  # words; minutes until a question is answered, where it names none
ASK = re.compile(r"\*\*Ask(?:, ([\d.]+) min)?")
NAMES = sorted(course())
GOOD = """# A title

Some *words*.

{show drawn}

> 2 min. Say it. **Ask:** Why?

## Your turn, now

{turn 2}

> 3 min. Wait.
"""


def words(text: str) -> int:
    return len(re.findall(r"\w[\w'’./-]*", LINK.sub(r"\1", text)))


@pytest.mark.parametrize("name", NAMES)
def test_a_lecture_takes_what_is_there_and_fits_an_hour_with_few_words(name: str) -> None:
    found = lecture(name)
    assert len(found) in SLIDES
    assert MINUTES[0] <= sum(one.minutes for one in found) <= MINUTES[1]
    for one in found:
        thing_of(name, one)  # says which cell is gone
        assert words(one.text) <= WORDS, one
        assert words(one.title) <= TITLE, one
        assert 0.5 <= one.minutes <= 12, one
        assert len(one.notes.split()) >= 12, f"nothing to speak from: {one}"
        assert one.text or one.thing[0], one
    kinds = [one.thing[0] for one in found]
    assert {"turn", "clock"} & set(kinds), "nobody in the room does anything"
    assert sum(kind == "" for kind in kinds) <= len(found) // 3, "too many slides are words alone"
    assert sum("**Ask" in one.notes for one in found) >= len(found) // 2
    late = [one.title for one in found if "before you show" in one.notes]
    assert late == [], "asked when the answer stands there: ask on the slide before"
    assert found[-1].title == "Before next time"


PART = re.compile(
    r'width:(\d+)px;height:(\d+)px"><img.*?margin:-(\d+)px 0 0 -(\d+)px".*?base64,([^"]+)"'
)


def cuts(shown: str) -> Iterator[tuple[int, Any]]:
    """For each edge at which a slide cuts a picture: the pixel, and the pixels across it."""
    parts = PART.findall(shown)
    assert len(parts) == shown.count('class="part"'), "what is not read is not looked at"
    for *box, png in parts:
        wide, high, top, left = map(int, box)
        pixels = plt.imread(io.BytesIO(base64.b64decode(png)))[..., :3]
        rows = pixels[top : top + high]
        columns = pixels[:, left : left + wide].swapaxes(0, 1)
        for start, size, lines in ((left, wide, rows), (top, high, columns)):
            for edge in {start, start + size} & {*range(2, lines.shape[1] - 2)}:
                yield edge, lines[:, edge - 2 : edge + 2]


@pytest.mark.parametrize("name", NAMES)
def test_no_part_of_a_picture_is_cut_through_a_letter_or_a_mark(name: str) -> None:
    for one in lecture(name):
        changes = {edge: np.ptp(across, axis=1).max() for edge, across in cuts(thing_of(name, one))}
        assert all(change < 0.1 for change in changes.values()), (one.title, changes)


def aloud(slide: slides.Slide) -> float:
    """Minutes of a slide, spoken unhurriedly, with time for the room: its clock and its answers."""
    kind, clock, _ = slide.thing
    clocks = {"turn": slide.minutes, "clock": float(clock) if kind == "clock" else 0}
    answers = sum(float(minutes or ANSWER) for minutes in ASK.findall(slide.notes))
    return words(ASK.sub("", slide.notes)) / A_MINUTE + answers + clocks.get(kind, 0)


@pytest.mark.parametrize("name", NAMES)
def test_a_lecture_given_aloud_takes_its_minutes(name: str) -> None:
    found = lecture(name)
    planned, spoken = sum(one.minutes for one in found), sum(map(aloud, found))
    assert abs(spoken - planned) <= planned / 5
    for one in found:
        off = 2 if one.thing[0] == "turn" else 1  # some is said while the room works
        assert abs(aloud(one) - one.minutes) <= off, f"{one.title}: {aloud(one):.1f} minutes"


@pytest.fixture
def script(tiny_course: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A course of one notebook with one of each thing, and the folder of its lecture."""
    notebook = tiny()
    shown = [new_output("display_data", data={"text/html": f'<img alt="{i}">'}) for i in (1, 2)]
    print_out = new_output("stream", text="first\nline\n\nsecond <b>\nline\n")
    notebook.cells += [
        new_code_cell("a = 1\n\nb = 2\nc = 3", id="drawn", outputs=[*shown, print_out]),
        new_markdown_cell(
            "$x$ and $$y = z$$ and\n\n| a | b |\n|---|---|\n| 1 | [2](x) |", id="text"
        ),
    ]
    save(notebook, tiny_course / f"{NAME}.ipynb")
    course.cache_clear()
    monkeypatch.setattr(slides, "LECTURES", tmp_path)
    (tmp_path / "03.md").write_text(GOOD, encoding="utf-8")
    return tmp_path / "03.md"


def test_a_slide_has_title_words_thing_minutes_and_notes(script: Path) -> None:
    first, second = lecture(NAME)
    assert first == ("A title", "Some *words*.", ("show", "drawn", ""), 2, "Say it. **Ask:** Why?")
    assert (second.thing, second.minutes) == (("turn", "2", ""), 3)
    body = deck(NAME)
    assert body.count("<section") == 2
    assert "<h1>A title</h1>" in body
    assert '<aside class="notes tex2jax_ignore"><p><strong>2 min.</strong> Say it.' in body
    assert "exercise 2: <b>The chance</b>" in body
    assert 'data-minutes="3"' in body, "the minutes of the slide, not those of the exercise"
    asked = re.sub("<[^>]+>", "", body.split("<h2>")[1])
    assert "check." not in asked, "the check would print its hint"


@pytest.mark.parametrize(
    ("thing", "shown", "hidden"),
    [
        ("{show drawn}", 'alt="1"', 'alt="2"'),
        ("{show drawn | 2}", 'alt="2"', 'alt="1"'),
        ("{print drawn | second}", "second &lt;b&gt;\nline", "first"),
        ("{print drawn | first … second}", "\n\nsecond &lt;b&gt;</pre>", "&lt;b&gt;\nline"),
        ("{code drawn | b = }", '<span class="mi">3</span>', '<span class="mi">1</span>'),
        ("{formula text | x}", "$$x$$", "y"),
        ("{formula text}", "$$y = z$$", "$$x$$"),
        ("{table text | 1}", "<td>2</td>", "href"),
        ("{clock 2.5}", 'data-minutes="2.5"', "exercise"),
    ],
)
def test_what_a_slide_takes_and_nothing_else(
    script: Path, thing: str, shown: str, hidden: str
) -> None:
    script.write_text(GOOD.replace("{show drawn}", thing), encoding="utf-8")
    body = thing_of(NAME, lecture(NAME)[0])
    assert shown in body
    assert hidden not in body


def test_a_slide_shows_parts_of_a_picture_and_knows_its_smallest_type() -> None:
    figure, axes = plt.subplots(figsize=(4, 2), dpi=100)
    axes.set_title("a", fontsize=17)
    axes.text(0, 0, "b", fontsize=9.5)
    whole = Picture(figure, "two parts")._repr_html_()
    cell = new_code_cell(outputs=[new_output("display_data", data={"text/html": whole})])
    body = slides.show(cell, "0 0 25 100, 50 50 100 100")
    sizes = re.findall(r"width:(\d+)px;height:(\d+)px", body)
    wide, high = map(int, re.findall(r"width:(\d+)px;height:(\d+)px", slides.show(cell, ""))[0])
    assert [(int(a), int(b)) for a, b in sizes] == [(wide // 4, high), (wide // 2, high // 2)]
    assert re.findall(r"margin:(\S+) 0 0 (\S+)\"", body) == [
        ("-0px", "-0px"),
        (f"-{high // 2}px", f"-{wide // 2}px"),
    ]
    assert re.findall(r'alt="(.*?)"', body) == ["two parts", ""]  # read aloud once
    assert set(re.findall(r'data-type="(.*?)"', body)) == {"9.5"}


@pytest.mark.parametrize(
    "thing",
    ["{show gone}", "{show drawn | 3}", "{show text}", "{code drawn | d = }", "{formula drawn}"]
    + ["{print text}", "{table drawn}", "{turn 9}", "{shout drawn}"],
)
def test_a_slide_whose_cell_is_gone_is_named(script: Path, thing: str) -> None:
    script.write_text(GOOD.replace("{show drawn}", thing), encoding="utf-8")
    with pytest.raises(NotebookError, match=r"03\.md, slide 'A title': 03_tiny has nothing"):
        thing_of(NAME, lecture(NAME)[0])


@pytest.mark.parametrize(
    ("old", "new"),
    [("> 2 min.", "> Soon."), ("{show drawn}", "{show}"), ("Some", "{show drawn}\n\nSome")],
)
def test_a_slide_that_is_not_as_it_should_be_is_named(script: Path, old: str, new: str) -> None:
    script.write_text(GOOD.replace(old, new), encoding="utf-8")
    with pytest.raises(NotebookError, match=r"slide 'A title': it needs notes"):
        lecture(NAME)


def test_a_deck_asks_nothing_of_another_host(
    script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decks, "lay_weights", lambda *_: [])  # takes seconds
    assert bertedu("slides", tmp_path / "out").exit_code == 0
    found = {path.name: path for path in (tmp_path / "out").rglob("*.*")}
    assert {f"{NAME}.html", "index.html", "MathJax.js"} <= set(found)
    for name in (f"{NAME}.html", "index.html"):
        page = found[name].read_text(encoding="utf-8")
        loaded = set(re.findall(r'(?:src|href)="([^"#]+)"|@import|url\((.+?)\)', page))
        assert {a or b for a, b in loaded} <= {
            "mathjax/MathJax.js?config=TeX-AMS-MML_HTMLorMML-full,Safe",
            f"{NAME}.html",
        }
    assert "03 · A title</a> 2 slides, 5 minutes" in page


def test_without_chromium_or_mathjax_the_command_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decks.shutil, "which", lambda name: None)
    monkeypatch.delenv("CHROMIUM", raising=False)
    done = bertedu("slides", tmp_path, "03", "--pdf")
    assert done.exit_code == 1
    assert "apt install chromium" in done.output
    assert not [*tmp_path.iterdir()]
    monkeypatch.setattr(decks, "find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match=r"jupyter-server-mathjax is not.*make slides"):
        decks.take_mathjax(tmp_path)
