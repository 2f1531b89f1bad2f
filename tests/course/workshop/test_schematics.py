"""The schematics: every word in its place, standing alone on a page, true of the package."""

import base64
import re
from collections.abc import Callable
from itertools import pairwise
from xml.etree import ElementTree

import pytest
import torch
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import TextPath
from shown import DRAWINGS, NOTEBOOKS

from bertedu.analysis.views import BLUE
from bertedu.model.attention import attention_mask
from bertedu.model.config import Direction
from bertedu.text.fast_tokenizer import load_vocabulary
from bertedu.text.tokenization import WordPiece
from course.workshop import schematics
from course.workshop.family_tree import COLUMNS, FAMILY, family_tree, left, middle, right
from course.workshop.schematics import WIDTH, Drawing, input_sum, you_are_here

SVG = "{http://www.w3.org/2000/svg}"
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
    wide = TextPath((0, 0), words_of(text), size=size, prop=prop).get_extents().width
    x, y = float(text.attrib["x"]), float(text.attrib["y"])
    x -= wide * {"start": 0, "middle": 0.5, "end": 1}[text.get("text-anchor", "middle")]
    return x, y - 0.75 * size, x + wide, y + 0.2 * size


def edges(rect: ElementTree.Element) -> Box:
    x, y, width, height = (float(rect.attrib[key]) for key in ("x", "y", "width", "height"))
    return x, y, x + width, y + height


def points(line: ElementTree.Element) -> list[tuple[float, ...]]:
    return [tuple(map(float, point.split(","))) for point in line.attrib["points"].split()]


def inside(small: Box, large: Box) -> bool:
    beyond = zip(small[:2] + large[2:], large[:2] + small[2:], strict=True)
    return all(a >= b for a, b in beyond)


def touch(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def misplaced(drawing: Drawing) -> list[str]:
    """What a reader would stumble over: words out of their box or the sheet, on words, on lines."""
    found, root, sheet = list[str](), tree(drawing), (0.0, 0.0, float(WIDTH), float(drawing.height))
    texts = [(words_of(text), extent(text)) for text in root.iter(f"{SVG}text")]
    for box in map(edges, root.iter(f"{SVG}rect")):
        room = (box[0] + 2, box[1], box[2] - 2, box[3])
        out = [words for words, at in texts if touch(at, box) and not inside(at, room)]
        found += [f"{words!r} leaves its box" for words in out]
        found += [] if inside(box, sheet) else [f"a box at {box} is cut"]
    for number, (words, place) in enumerate(texts):
        found += [] if inside(place, sheet) else [f"{words!r} is cut"]
        found += [f"{words!r} on {w!r}" for w, other in texts[:number] if touch(place, other)]
    for line in root.iter(f"{SVG}polyline"):
        for (x0, y0), (x1, y1) in pairwise(points(line)):
            for step in range(101):
                x, y = (a + step / 100 * (b - a) for a, b in ((x0, x1), (y0, y1)))
                spot = (x - 0.5, y - 0.5, x + 0.5, y + 0.5)
                found += [f"a line runs through {w!r}" for w, at in texts if touch(spot, at)]
    return found


@pytest.mark.parametrize("name", DRAWINGS)
def test_every_word_has_its_place_and_the_drawing_stands_alone(name: str) -> None:
    drawing = DRAWINGS[name]()
    assert misplaced(drawing) == []
    root, page = tree(drawing), drawing._repr_html_()
    assert len(drawing.alt.split()) > 20
    told = root.find(f"{SVG}desc")
    assert told is not None
    assert told.text == root.attrib["aria-label"] == drawing.alt
    (image,) = re.findall(r'<img alt="[^"]{50,}" [^>]*base64,([^"]*)">', page)
    assert base64.b64decode(image).decode() == drawing.svg
    # nothing is named, so nothing can clash with a second drawing; nothing comes from elsewhere
    assert not [part for part in root.iter() if {"id", "class", "href"} & set(part.attrib)]
    assert "url(" not in page
    # the words take the color of the page, whether it is light or dark
    assert root.attrib["fill"] == "currentColor"
    assert not [text for text in root.iter(f"{SVG}text") if "fill" in text.attrib]


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
    draw(drawing)
    assert any(problem in one for one in misplaced(drawing))


def strong(drawing: Drawing) -> list[str]:
    """The words of the boxes with a thick line."""
    groups = [g for g in tree(drawing).iter(f"{SVG}g") if g[0].attrib["stroke-width"] == "4"]
    return [" ".join(words_of(text) for text in group[1:]) for group in groups]


def test_every_notebook_finds_itself_and_others_are_refused() -> None:
    assert [number for built in schematics.STAGES.values() for number in built] == NOTEBOOKS
    for number in NOTEBOOKS:
        *parts, mark = strong(you_are_here(number))
        assert mark == number
        told = you_are_here(number).alt
        assert f"notebook {number}," in told
        highlighted = told.split("Highlighted: ")[1].removesuffix(".").split(", ")
        assert [part.replace("- ", "-") for part in parts] == highlighted
    assert strong(you_are_here("06")) == ["NSP: does B follow A?", "06"]
    for number in ("19", "3", ""):
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
    before, after = mask_row("left-to-right"), mask_row("right-to-left")
    assert [word for word, _ in tokens] == 4 * ["the", "dog", "barked", "."]
    assert seen == [[True] * 4, before, before, after]


def test_the_family_stands_by_date_and_everyone_but_the_first_two_comes_from_somebody() -> None:
    places = [(column, row) for _, column, row, _ in FAMILY.values()]
    assert len({*places}) == len(places)
    assert [column for column, _ in places] == sorted(column for column, _ in places)
    for name, (date, column, *_) in FAMILY.items():
        year, month = date.split("-")
        assert year in COLUMNS[column] or int(year) <= 2017, name
        assert ("from July" in COLUMNS[column]) == (year == "2019" and int(month) > 6), name
        assert f"{name} {date}" in family_tree().alt
    assert strong(family_tree()) == ["BERT 2018-10"]
    heads = [points(head)[0] for head in tree(family_tree()).iter(f"{SVG}polygon")]
    assert len(heads) == 7 + 2 + 10
    reached = {
        name
        for name in FAMILY
        for x, y in heads
        if left(name) - 1 <= x <= right(name) and abs(y - middle(name)) < 23
    }
    assert set(FAMILY) - reached == {"seq2seq", "Transformer"}
