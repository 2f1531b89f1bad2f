"""Answers and entities marked in their text, and the buttons that show one after another."""

import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import pytest
import torch
from shown import CONFIG, Page
from tokenizers import Tokenizer

from bertedu.finetuning.examples import Question, Tagged
from bertedu.finetuning.kinds import Answer, Classification
from bertedu.finetuning.question_answering import QuestionAnswering, context_positions
from bertedu.finetuning.training import TaskModel, score_items
from bertedu.model.bert import Bert
from bertedu.model.features import BertFeatures
from course.workshop.span_view import (
    SpanView,
    TextPiece,
    question_browser,
    question_html,
    span_view,
)
from course.workshop.tag_view import TaggedText, tag_examples

TEXT = "Zoë <b>met</b> Al & Mira at a café in Kraków. "
LONG = "The old gate was open and nobody saw it. " * 20
TYPES = ("PLACE", "PERSON", "LIFE")
WORDS = ("Mira", "Okonjo", "fed", "<geese>", "near", "Lake", "Vättern", "&", "Ume", ".")
TAGS = ("B-PERSON", "I-PERSON", "O", "B-LIFE", "O", "B-PLACE", "I-PLACE", "O", "B-PLACE", "O")
QUESTIONS = [
    Question("a", "Who <met>?", "Zoë met Al & Zoë.", (("Zoë", 0), ("Zoë", 13))),
    Question("b", "Who else?", "Mira met nobody.", ()),
]


def model(kind: Any) -> TaskModel:
    torch.manual_seed(0)
    return TaskModel(BertFeatures(Bert(CONFIG)), kind).eval()


def paragraphs(html: str) -> list[str]:
    """What a browser shows of each paragraph."""
    return [
        "".join(Page(one).texts.get("p", [])) for one in re.findall(r"<p.*?</p>", html, re.DOTALL)
    ]


# -- answers


@pytest.mark.parametrize("text", [TEXT, LONG])
def test_every_token_is_shown_with_the_likelier_of_its_values(
    text: str, tokenizer: Tokenizer
) -> None:
    kind = QuestionAnswering()
    question = Question("q", "Who <i>?", text, ())
    items = kind.encode([question], tokenizer, 128)
    assert (len(items) > 1) == (text == LONG)
    scores = score_items(model(kind), items)
    seen: dict[tuple[int, int], list[list[float]]] = {}
    for item, some in zip(items, scores, strict=True):
        for place in context_positions(item.rows[0]):
            both = some.softmax(-1)[:, place].tolist()
            seen.setdefault(item.rows[0].offsets[place], []).append(both)
    asked = span_view(model(kind), tokenizer, "Who <i>?", text)
    assert [(p.begin, p.end) for p in asked.pieces] == sorted(seen)
    for piece in asked.pieces:
        highest = [max(values) for values in zip(*seen[piece.begin, piece.end], strict=True)]
        assert [piece.starts, piece.ends] == pytest.approx(highest)
    nones = torch.stack([some.softmax(-1)[:, 0] for some in scores]).amin(0).tolist()
    assert [asked.none.starts, asked.none.ends] == pytest.approx(nones)
    (answer,) = kind.answers([question], items, scores)
    assert asked.text == answer.value
    page = asked._repr_html_()
    assert paragraphs(page)[1] == "[CLS] " + text  # nothing is lost or becomes a tag
    assert "".join(Page(page).texts.get("mark", [])) == asked.text


def test_bars_mark_and_words_say_the_same() -> None:
    pieces = (TextPiece(0, 3, 0.7, 0.04), TextPiece(4, 7, 0.2, 0.9))
    view = SpanView("Who & why?", "Zoë met.", pieces, TextPiece(0, 0, 0.1, 0.02), (0, 7))
    page = Page(view._repr_html_())
    assert paragraphs(page.html)[:2] == ["Who & why?", "[CLS] Zoë met."]
    assert "".join(page.texts["mark"]) == "Zoë met"
    shares = [(10, 2), (70, 4), (20, 90)]
    assert page.values["title"] == [f"start {start} %, end {end} %" for start, end in shares]
    assert "border-top:5px solid rgba(0,114,178,0.70)" in page.html
    assert "border-bottom:5px solid rgba(213,94,0,0.90)" in page.html
    assert repr(view) == "Question: Who & why? In the text, “Zoë met” is marked."


def test_none_is_shown_where_it_is_said_and_another_kind_refused(tokenizer: Tokenizer) -> None:
    always_none = QuestionAnswering(can_be_none=True, threshold=-1e9)
    asked = span_view(model(always_none), tokenizer, "Who?", TEXT)
    assert asked.answer is None
    assert asked.alt.endswith("nothing is marked.")
    assert "mark" not in Page(asked._repr_html_()).texts
    with pytest.raises(TypeError, match="a Classification marks no answer"):
        span_view(model(Classification(("no", "yes"))), tokenizer, "Who?", TEXT)


def test_right_answers_stand_between_arrows() -> None:
    page = question_html(QUESTIONS[0], Answer("met <Al>", start=4))
    assert paragraphs(page) == ["Who <met>?", "▸Zoë◂ met Al & ▸Zoë◂.", "found: met <Al>"]
    silent = paragraphs(question_html(QUESTIONS[1], Answer("")))
    assert silent[2:] == ["(the text does not hold the answer)", "found: (nothing)"]
    overlapping = Question("c", "?", "New York City", (("New York", 0), ("York City", 4)))
    assert "▸New York◂ City" in paragraphs(question_html(overlapping))


# -- entities


@pytest.mark.parametrize(
    ("words", "tags", "shown"),
    [
        (WORDS, TAGS,
         "[Mira Okonjo PERSON] fed [<geese> LIFE] near [Lake Vättern PLACE] & [Ume PLACE] ."),
        ("abc", ("O", "I-PLACE", "O"), "a b c"),  # an I- alone begins nothing
        ((), (), ""),
        ("x", ("B-MISC",), "[x MISC]"),  # a type that nobody named
    ],
)  # fmt: skip
def test_entities_stand_together_with_their_type_in_words(
    words: Sequence[str], tags: Sequence[str], shown: str
) -> None:
    text = TaggedText(words, tags, TYPES)
    assert repr(text) == shown
    html = text._repr_html_()
    assert "".join(paragraphs(html)).split() == re.sub(r"[][]", "", shown).split()
    assert html.count("<mark") == html.count("</mark>") == shown.count("[")


def test_types_differ_in_more_than_color() -> None:
    html = TaggedText(WORDS, TAGS, TYPES)._repr_html_()
    looks = set(re.findall(r"border-bottom:4px (\w+) (#\w+)", html))
    assert len({line for line, _ in looks}) == len(looks) == 3
    with pytest.raises(ValueError, match="2 words and 1 tags"):
        TaggedText(("a", "b"), ("O",), TYPES)


# -- one after another

EXAMPLES = [Tagged(WORDS, TAGS), Tagged(("Ume", "sleeps"), ("B-PLACE", "O"))]
SAID = [("O",) * 10, ("B-PERSON", "O")]


@pytest.mark.parametrize(
    ("box", "pages"),
    [
        (lambda: question_browser(QUESTIONS), [["Who <met>?"], ["Who else?"]]),
        (lambda: question_browser(QUESTIONS, [Answer("first"), Answer("second")]),
         [["Who <met>?", "first"], ["Who else?", "second"]]),
        (lambda: tag_examples(EXAMPLES, SAID, TYPES),
         [["1 of 2", "Okonjo PERSON", "says: Mira Okonjo fed"],
          ["2 of 2", "Ume PLACE sleeps", "says: Ume PERSON sleeps"]]),
    ],
)  # fmt: skip
def test_examples_come_at_a_click_and_not_before(
    box: Callable[[], Any], pages: list[list[str]]
) -> None:
    button, shown = box().children
    assert shown.value == ""
    seen = []
    for _ in range(4):
        button.click()
        seen.append(" ".join(" ".join(paragraphs(shown.value)).split()))
    assert seen[:2] == seen[2:]
    assert all(one != other for one, other in pairwise(seen))
    for words in pages:
        (page,) = (one for one in seen[:2] if words[0] in one)
        assert all(word in page for word in words)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: question_browser(QUESTIONS, [Answer("first")]), "2 questions, but 1 answers"),
        (lambda: tag_examples([], [], TYPES), "as many of each"),
        (lambda: tag_examples(EXAMPLES, SAID[:1], TYPES), "as many of each"),
    ],
)
def test_answers_belong_to_what_is_shown(call: Callable[[], Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        call()
    assert question_browser([]).children[0].disabled
