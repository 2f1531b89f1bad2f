"""The schematics: well-formed, told in words, every word in its place, true of the package."""

import base64
import re
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import TextPath

from bertedu.analysis.views import BLUE
from bertedu.model.attention import attention_mask
from bertedu.model.config import Direction
from bertedu.text.fast_tokenizer import load_vocabulary
from bertedu.text.tokenization import WordPiece
from course.workshop import schematics
from course.workshop.schematics import WIDTH, Drawing, input_sum, you_are_here

SVG = "{http://www.w3.org/2000/svg}"
NOTEBOOKS = sorted(
    path.name[:2] for path in (Path(__file__).parents[3] / "notebooks").glob("[0-9]*.ipynb")
)
DRAWINGS: dict[str, Callable[[], Drawing]] = {
    "input_sum": input_sum,
    "layer": schematics.layer,
    "attention": schematics.attention,
    "pretrain_finetune": schematics.pretrain_finetune,
    "directions": schematics.directions,
    "four_tasks": schematics.four_tasks,
    **{number: partial(you_are_here, number) for number in NOTEBOOKS},
}
each_drawing = pytest.mark.parametrize(
    "drawing", [make() for make in DRAWINGS.values()], ids=DRAWINGS
)
Box = tuple[float, float, float, float]  # left, top, right, bottom


def tree(drawing: Drawing) -> ElementTree.Element:
    return ElementTree.fromstring(drawing.svg)


def words_of(text: ElementTree.Element) -> str:
    return "".join(text.itertext()).replace("\u200b", "")


def extent(text: ElementTree.Element) -> Box:
    """Where a line of text stands, in DejaVu, the widest of the fonts that a page may take."""
    size, mono = float(text.attrib["font-size"]), "font-family" in text.attrib
    family = "DejaVu Sans Mono" if mono else "DejaVu Sans"
    prop = FontProperties(family=family, weight=text.get("font-weight", "normal"))
    outline = TextPath((0, 0), words_of(text), size=size, prop=prop).get_extents()
    x, y = float(text.attrib["x"]), float(text.attrib["y"])
    left = (
        x - outline.width * {"start": 0, "middle": 0.5, "end": 1}[text.get("text-anchor", "middle")]
    )
    return left, y - 0.75 * size, left + outline.width, y + 0.2 * size


def edges(rect: ElementTree.Element) -> Box:
    x, y, width, height = (float(rect.attrib[key]) for key in ("x", "y", "width", "height"))
    return x, y, x + width, y + height


def inside(small: Box, large: Box) -> bool:
    return (
        large[0] <= small[0]
        and large[1] <= small[1]
        and small[2] <= large[2]
        and small[3] <= large[3]
    )


def touch(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def misplaced(drawing: Drawing) -> list[str]:
    """What a reader would stumble over: words out of their box or the sheet, on words, on lines."""
    found, root = [], tree(drawing)
    texts = [(words_of(text), extent(text)) for text in root.iter(f"{SVG}text")]
    for box in map(edges, root.iter(f"{SVG}rect")):
        room = (box[0] + 2, box[1], box[2] - 2, box[3])
        out = [words for words, at in texts if touch(at, box) and not inside(at, room)]
        found += [f"{words!r} leaves its box" for words in out]
        found += [] if inside(box, (0, 0, WIDTH, drawing.height)) else [f"a box at {box} is cut"]
    for number, (words, place) in enumerate(texts):
        if not inside(place, (0, 0, WIDTH, drawing.height)):
            found.append(f"{words!r} is cut")
        found += [f"{words!r} on {w!r}" for w, other in texts[:number] if touch(place, other)]
    for line in root.iter(f"{SVG}polyline"):
        points = [tuple(map(float, p.split(","))) for p in line.attrib["points"].split()]
        for (x0, y0), (x1, y1) in pairwise(points):
            for step in range(101):
                x, y = (a + step / 100 * (b - a) for a, b in ((x0, x1), (y0, y1)))
                spot = (x - 0.5, y - 0.5, x + 0.5, y + 0.5)
                found += [
                    f"a line runs through {words!r}" for words, at in texts if touch(spot, at)
                ]
    return found


@each_drawing
def test_every_word_has_its_place(drawing: Drawing) -> None:
    assert misplaced(drawing) == []


@pytest.mark.parametrize(
    ("draw", "problem"),
    [
        (lambda d: d.box(10, 10, 60, 30, "much too long"), "leaves its box"),
        (lambda d: d.box(880, 10, 60, 30), "is cut"),
        (lambda d: d.text(880, 50, "too far right"), "is cut"),
        (lambda d: (d.text(99, 50, "one"), d.text(110, 55, "two")), "on 'one'"),
        (lambda d: (d.text(99, 50, "one"), d.arrow((50, 50), (150, 50))), "runs through 'one'"),
    ],
)
def test_a_word_out_of_place_is_noticed(draw: Callable[[Drawing], None], problem: str) -> None:
    drawing = Drawing(100, "a drawing with a mistake in it")
    assert misplaced(drawing) == []
    draw(drawing)
    assert any(problem in one for one in misplaced(drawing))


@each_drawing
def test_a_drawing_is_told_in_words_and_stands_alone(drawing: Drawing) -> None:
    root = tree(drawing)
    assert len(drawing.alt.split()) > 20
    told = root.find(f"{SVG}desc")
    assert told is not None
    assert repr(drawing) == told.text == root.attrib["aria-label"] == drawing.alt
    page = drawing._repr_html_()
    (image,) = re.findall(r'<img alt="[^"]{50,}" [^>]*base64,([^"]*)">', page)
    assert base64.b64decode(image).decode() == drawing.svg
    # nothing is named, so nothing can clash with a second drawing; nothing comes from elsewhere
    assert not [part for part in root.iter() if {"id", "class", "href"} & set(part.attrib)]
    rest = page.replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"https?:|url\(|<script|@import", rest)
    # the words take the color of the page, whether it is light or dark
    assert root.attrib["fill"] == "currentColor"
    assert not [text for text in root.iter(f"{SVG}text") if "fill" in text.attrib]


def strong(drawing: Drawing) -> list[str]:
    """The words of the boxes with a thick line."""
    groups = [g for g in tree(drawing).iter(f"{SVG}g") if g[0].attrib["stroke-width"] == "4"]
    return [" ".join(words_of(text) for text in group[1:]) for group in groups]


def test_every_notebook_finds_itself() -> None:
    assert [number for built in schematics.STAGES.values() for number in built] == NOTEBOOKS
    for number in NOTEBOOKS:
        *parts, mark = strong(you_are_here(number))
        assert mark == number
        told = you_are_here(number).alt
        assert f"notebook {number}," in told
        highlighted = told.split("Highlighted: ")[1].removesuffix(".").split(", ")
        assert [part.replace("- ", "-") for part in parts] == highlighted
    assert strong(you_are_here("03")) == ["self- attention", "03"]
    assert strong(you_are_here("06")) == ["NSP: does B follow A?", "06"]


@pytest.mark.parametrize("number", ["19", "3", "", 3])
def test_an_unknown_notebook_is_refused(number: str) -> None:
    with pytest.raises(ValueError, match=rf"no notebook {number!r}.*'00' to '1\d'"):
        you_are_here(number)


def test_the_sum_is_that_of_the_tokenizer() -> None:
    pair = WordPiece(load_vocabulary()).encode("My dog is cute.", "He likes playing.")
    shown = [words_of(text) for text in tree(input_sum()).iter(f"{SVG}text")]
    cells = [word for word in shown if word != "+" and " " not in word]
    assert cells[1:15] == pair.tokens
    assert cells[16:30] == ["AB"[segment] for segment in pair.segment_ids]
    assert cells[31:45] == [str(place) for place in range(len(pair.ids))]


def mask_row(direction: Direction) -> list[bool]:
    """What the second of four tokens may see."""
    mask = attention_mask(torch.ones(1, 4, dtype=torch.bool), direction)
    assert mask is not None
    return [bool(sees) for sees in mask[0, 0, 1]]


def test_what_is_seen_is_what_the_masks_let_see() -> None:
    groups = [g for g in tree(schematics.directions()).iter(f"{SVG}g") if len(g) == 2]
    tokens = [(words_of(g[1]), g[0].attrib["stroke"] == BLUE) for g in groups]
    tokens = [one for one in tokens if "state" not in one[0]]
    seen = [[blue for _, blue in tokens[start : start + 4]] for start in (0, 4, 8, 12)]
    left, right = mask_row("left-to-right"), mask_row("right-to-left")
    assert [word for word, _ in tokens] == 4 * ["the", "dog", "barked", "."]
    assert seen == [[True] * 4, left, left, right]
