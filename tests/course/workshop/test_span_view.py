"""The view of an answer in its text: bars, mark, alt text; and the browser of questions."""

import re
from html.parser import HTMLParser

import pytest
import torch

from bertedu.finetuning.examples import Question
from bertedu.finetuning.kinds import Answer, Classification
from bertedu.finetuning.question_answering import QuestionAnswering, context_places
from bertedu.finetuning.training import TaskModel, score_items
from bertedu.model.bert import Bert
from bertedu.model.config import BertConfig
from bertedu.model.features import BertFeatures
from bertedu.text.fast_tokenizer import load_tokenizer
from course.workshop import span_view as module
from course.workshop.span_view import (
    SpanView,
    TextPiece,
    question_browser,
    question_html,
    span_view,
)

TOKENIZER = load_tokenizer()
TEXT = "Zoë <b>met</b> Al & Mira at a café in Kraków. "


def model(kind: object = None) -> TaskModel:
    torch.manual_seed(0)
    size = BertConfig(TOKENIZER.get_vocab_size(), 16, 1, 2, 32, 128, initializer_range=0.4)
    return TaskModel(BertFeatures(Bert(size)), kind or QuestionAnswering()).eval()  # type: ignore[arg-type]


class Reader(HTMLParser):
    """What a browser shows as text, what is marked, and the titles of the pieces."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.text, self.marked, self.titles, self.paragraphs = "", "", [], [""]
        self.depth: list[str] = []
        self.feed(page)
        self.close()
        assert not self.depth  # everything that is opened is closed

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.depth.append(tag)
        self.titles += [value for name, value in attrs if name == "title"]
        if tag == "p":
            self.paragraphs.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.depth.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data
        self.paragraphs[-1] += data
        self.marked += data if "mark" in self.depth else ""


def view(answer: tuple[int, int] | None) -> SpanView:
    pieces = (TextPiece(0, 3, 0.7, 0.04), TextPiece(4, 7, 0.2, 0.9), TextPiece(7, 8, 0.0, 0.0))
    return SpanView("Who & why?", "Zoë met.", pieces, TextPiece(0, 0, 0.1, 0.02), answer)


def test_the_view_shows_text_bars_and_mark() -> None:
    page = view((0, 7))._repr_html_()
    seen = Reader(page)
    assert seen.paragraphs[1:3] == ["Who & why?", "[CLS] Zoë met."]
    assert seen.marked == "Zoë met"
    assert seen.titles == [
        "start 10 %, end 2 %",
        "start 70 %, end 4 %",
        "start 20 %, end 90 %",
        "start 0 %, end 0 %",
    ]
    assert "border-top:5px solid rgba(0,114,178,0.70)" in page
    assert "border-bottom:5px solid rgba(213,94,0,0.90)" in page


def test_what_is_marked_is_said_in_words() -> None:
    found, nothing = view((0, 7)), view(None)
    assert repr(found) == found.alt == "Question: Who & why? In the text, “Zoë met” is marked."
    assert nothing.alt == "Question: Who & why? In the text, nothing is marked."
    assert 'aria-label="Question: Who &amp; why? In' in found._repr_html_()
    assert "Marked: Zoë met" in Reader(found._repr_html_()).text
    assert "Nothing is marked." in Reader(nothing._repr_html_()).text
    assert Reader(nothing._repr_html_()).marked == ""


def test_a_model_is_asked_and_every_token_shown() -> None:
    asked = span_view(model(), TOKENIZER, "Who <i>?", TEXT)
    seen = Reader(asked._repr_html_())
    assert seen.paragraphs[2] == "[CLS] " + TEXT  # nothing of the text is lost or becomes a tag
    assert seen.marked == asked.text
    kind = QuestionAnswering()
    question = Question("q", "Who <i>?", TEXT, ())
    items = kind.encode([question], TOKENIZER, 128)
    (scores,) = score_items(model(), items)
    (answer,) = kind.answers([question], items, [scores])
    assert asked.text == answer.value
    (row,) = items[0].rows
    shares = scores.softmax(-1)
    for piece, place in zip(asked.pieces, context_places(row), strict=True):
        assert (piece.begin, piece.end) == row.offsets[place]
        assert (piece.starts, piece.ends) == pytest.approx(tuple(shares[:, place].tolist()))
    assert asked.none.starts == pytest.approx(float(shares[0, 0]))


def test_of_two_windows_the_likelier_value_is_shown() -> None:
    text = "The old gate was open and nobody saw it. " * 20
    kind = QuestionAnswering()
    items = kind.encode([Question("q", "Who?", text, ())], TOKENIZER, 128)
    assert len(items) > 1
    scores = score_items(model(), items)
    asked = span_view(model(), TOKENIZER, "Who?", text)
    seen: dict[tuple[int, int], list[float]] = {}
    for item, some in zip(items, scores, strict=True):
        shares = some.softmax(-1)
        for place in context_places(item.rows[0]):
            seen.setdefault(item.rows[0].offsets[place], []).append(float(shares[0, place]))
    assert any(len(values) > 1 for values in seen.values())
    assert [(p.begin, p.end) for p in asked.pieces] == sorted(seen)
    for piece in asked.pieces:
        assert piece.starts == pytest.approx(max(seen[piece.begin, piece.end]))
    assert asked.none.starts == pytest.approx(min(float(s.softmax(-1)[0, 0]) for s in scores))
    assert Reader(asked._repr_html_()).paragraphs[2] == "[CLS] " + text


def test_none_is_shown_where_it_is_said() -> None:
    always_none = QuestionAnswering(can_be_none=True, threshold=-1e9)
    asked = span_view(model(always_none), TOKENIZER, "Who?", TEXT)
    assert asked.answer is None
    assert asked.alt.endswith("nothing is marked.")


def test_a_model_for_something_else_is_refused() -> None:
    with pytest.raises(TypeError, match="a Classification marks no answer"):
        span_view(model(Classification(("no", "yes"))), TOKENIZER, "Who?", TEXT)


# -- the browser of questions

QUESTIONS = [
    Question("a", "Who <met>?", "Zoë met Al & Zoë.", (("Zoë", 0), ("Zoë", 13))),
    Question("b", "Who else?", "Mira met nobody.", ()),
]


def test_questions_come_at_a_click_and_not_before() -> None:
    box = question_browser(QUESTIONS)
    button, shown = box.children
    assert shown.value == ""
    pages = []
    for _ in range(3):
        button.click()
        pages.append(shown.value)
    assert pages[0] == pages[2]  # from the start again
    assert {pages[0], pages[1]} == {question_html(question) for question in QUESTIONS}


def test_right_answers_stand_between_arrows() -> None:
    page = question_html(QUESTIONS[0], Answer("met <Al>", start=4))
    seen = Reader(page)
    assert seen.paragraphs[1:] == ["Who <met>?", "▸Zoë◂ met Al & ▸Zoë◂.", "found: met <Al>"]
    silent = Reader(question_html(QUESTIONS[1], Answer("")))
    assert silent.paragraphs[3:] == ["(the text does not hold the answer)", "found: (nothing)"]
    overlapping = Question("c", "?", "New York City", (("New York", 0), ("York City", 4)))
    assert "▸New York◂ City" in Reader(question_html(overlapping)).text


def test_answers_belong_to_their_questions() -> None:
    box = question_browser(QUESTIONS, [Answer("first"), Answer("second")])
    button, shown = box.children
    for _ in QUESTIONS:
        button.click()
        asked_first = "Who &lt;met&gt;?" in shown.value
        assert ("first" in shown.value) == asked_first
    with pytest.raises(ValueError, match="2 questions, but 1 answers"):
        question_browser(QUESTIONS, [Answer("first")])


def test_nothing_to_show_is_a_dead_button() -> None:
    button, _ = question_browser([]).children
    assert button.disabled


def test_colors_are_those_of_the_pictures() -> None:
    assert re.fullmatch(r"rgba\(0,114,178,0\.50\)", module._faded(module.BLUE, 0.5))
