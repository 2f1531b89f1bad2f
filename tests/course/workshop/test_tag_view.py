"""Marked sentences: readable without color, safe in HTML, and no text before a click."""

import re

import pytest

from bertedu.finetuning.examples import Tagged
from course.workshop.tag_view import TaggedText, tag_examples

TYPES = ("PLACE", "PERSON", "LIFE")
WORDS = ("Mira", "Okonjo", "fed", "<geese>", "near", "Lake", "Vättern", "&", "Ume", ".")
TAGS = ("B-PERSON", "I-PERSON", "O", "B-LIFE", "O", "B-PLACE", "I-PLACE", "O", "B-PLACE", "O")


def without_markup(text: str) -> str:
    return " ".join(re.sub(r"<[^>]*>", "", text).split())


def test_entities_stand_together_with_their_type() -> None:
    text = TaggedText(WORDS, TAGS, TYPES)
    assert repr(text) == (
        "[Mira Okonjo PERSON] fed [<geese> LIFE] near [Lake Vättern PLACE] & [Ume PLACE] ."
    )
    assert text.parts()[0] == ("Mira Okonjo", "PERSON")


def test_html_says_the_type_in_words_and_escapes_all_else() -> None:
    shown = TaggedText(WORDS, TAGS, TYPES)._repr_html_()
    assert without_markup(shown) == (
        "Mira Okonjo PERSON fed &lt;geese&gt; LIFE near Lake Vättern PLACE &amp; Ume PLACE ."
    )
    assert shown.count("<mark") == shown.count("</mark>") == 4


def test_types_differ_in_more_than_color() -> None:
    shown = TaggedText(WORDS, TAGS, TYPES)._repr_html_()
    lines = re.findall(r"border-bottom:4px (\w+) (#\w+)'>([^<]*?) <b[^>]*>(\w+)</b>", shown)
    looks = {kind: (line, color) for line, color, _, kind in lines}
    assert len(lines) == 4
    assert len({line for line, _ in looks.values()}) == len(set(looks.values())) == 3
    # a type keeps its look, whatever else is in the sentence
    alone = TaggedText(("Ume",), ("B-PLACE",), TYPES)._repr_html_()
    assert "4px {} {}".format(*looks["PLACE"]) in alone
    assert (
        "4px {} {}".format(*looks["PLACE"])
        not in TaggedText(("Mira",), ("B-PERSON",), TYPES)._repr_html_()
    )


def test_what_is_no_entity_is_not_marked() -> None:
    text = TaggedText(("a", "b", "c"), ("O", "I-PLACE", "O"), TYPES)
    assert repr(text) == "a b c"
    assert "<mark" not in text._repr_html_()
    assert repr(TaggedText((), (), TYPES)) == ""


def test_a_type_that_nobody_named_is_shown_all_the_same() -> None:
    assert "MISC</b>" in TaggedText(("x",), ("B-MISC",), TYPES)._repr_html_()
    with pytest.raises(ValueError, match="2 words and 1 tags"):
        TaggedText(("a", "b"), ("O",), TYPES)


def test_examples_come_at_a_click_and_not_before() -> None:
    examples = [Tagged(WORDS, TAGS), Tagged(("Ume", "sleeps"), ("B-PLACE", "O"))]
    box = tag_examples(examples, [("O",) * 10, ("B-PERSON", "O")], TYPES)
    button, shown = box.children
    assert shown.value == ""
    button.click()
    assert "1 of 2" in shown.value
    truth, said = shown.value.split("The model says:")
    assert "Mira Okonjo PERSON" in without_markup(truth)
    assert "<mark" not in said
    button.click()
    truth, said = (without_markup(part) for part in shown.value.split("The model says:"))
    assert truth.endswith("Ume PLACE sleeps")
    assert said == "Ume PERSON sleeps"
    button.click()
    assert "1 of 2" in shown.value
    for wrong in ([], [("O",) * 10]):
        with pytest.raises(ValueError, match="as many of each"):
            tag_examples(examples[: 2 * bool(wrong)], wrong, TYPES)
