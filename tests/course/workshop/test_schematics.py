"""The schematics stand alone on a page, and are true of the package."""

import base64
import re
from xml.etree import ElementTree

import pytest
import torch
from shown import DRAWINGS, NOTEBOOKS

from bertedu.analysis.views import BLUE
from bertedu.model.attention import attention_mask
from bertedu.model.config import Direction
from bertedu.text.fast_tokenizer import load_vocabulary
from bertedu.text.tokenization import WordPiece
from course.workshop import schematics
from course.workshop.family_tree import COLUMNS, FAMILY, family_tree, left, middle, right
from course.workshop.schematics import Drawing, input_sum, you_are_here

SVG = "{http://www.w3.org/2000/svg}"


def tree(drawing: Drawing) -> ElementTree.Element:
    return ElementTree.fromstring(drawing.svg)


def words_of(text: ElementTree.Element) -> str:
    return "".join(text.itertext()).replace("\u200b", "")


def points(line: ElementTree.Element) -> list[tuple[float, ...]]:
    return [tuple(map(float, point.split(","))) for point in line.attrib["points"].split()]


@pytest.mark.parametrize("name", DRAWINGS)
def test_a_drawing_stands_alone(name: str) -> None:
    """Whether its words are in their places, Chromium says, in tests/browser."""
    drawing = DRAWINGS[name]()
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


def test_the_family_stands_by_date_and_everyone_but_two_comes_from_somebody() -> None:
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
    assert len(heads) == 8 + 2 + 11
    reached = {
        name
        for name in FAMILY
        for x, y in heads
        if left(name) - 1 <= x <= right(name) and abs(y - middle(name)) < 23
    }
    assert set(FAMILY) - reached == {"seq2seq", "ELMo"}
