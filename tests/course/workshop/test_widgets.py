"""The sentence box and the guessing game, played through their widgets, in both languages."""

import re
from typing import Any

import ipywidgets as widgets
import pytest

from bertedu.analysis.fill import Guess, ask_readers, blank_logits
from bertedu.finetuning.examples import Question, Tagged
from bertedu.finetuning.kinds import Answer
from bertedu.model.bert import BertForPreTraining
from bertedu.model.config import BertConfig
from bertedu.model.elmo import ElmoForPreTraining
from bertedu.text.corpus import Document
from bertedu.text.fast_tokenizer import fast_tokenizer
from bertedu.text.tokenization import SPECIAL_TOKENS
from course.workshop import widgets as own
from course.workshop.span_view import SpanView, TextPiece, question_browser
from course.workshop.tag_view import tag_examples
from course.workshop.widgets import bars_html, beat_bert, columns_html, fill_box, make_puzzles

WORDS = ["the", "a", "old", "dog", "cat", "bird", "barked", "purred", "sang", "in", "near", "big"]
WORDS += ["yard", "tree", "and", "then", "slept"]
TOKENIZER = fast_tokenizer([*SPECIAL_TOKENS, *WORDS, "dogs", "un", "##known", "##s", ",", ".", "7"])
MODEL = BertForPreTraining(
    BertConfig(TOKENIZER.get_vocab_size(), 8, 1, 1, 8, 64, initializer_range=0.5)
)
READERS = {"BERT": MODEL, "ELMo": ElmoForPreTraining(MODEL.config)}
NAMES = ["BERT", "ELMo, left half", "ELMo, right half", "ELMo, joined"]
ARTICLE = Document(
    "Animals",
    "made up",
    "The old dog barked in the big yard, and then slept.\n"
    "A cat purred near the big tree and then the dog barked.\n"
    "Unknown dogs sang in 7 yards, and then 7 unknown birds slept.\n"
    "The bird sang.\n"
    "The ____ dog barked in the big yard and then the cat purred.\n"
    "The dog sang near the big cat\n" + " ".join(["dog"] * 41),  # 7 words, and 41
)
TWO_BLANKS = "the ___ sang near a ___"


# -- the sentence box


@pytest.mark.parametrize(("model", "readers"), [(MODEL, [""]), (READERS, NAMES)])
def test_the_box_shows_the_guesses_of_every_reader_at_every_blank(
    model: Any, readers: list[str]
) -> None:
    box = fill_box(model, TOKENIZER, TWO_BLANKS, top=2)
    field, answer = box.children
    expected = ask_readers(READERS, TOKENIZER, TWO_BLANKS, 2)
    first = answer.value
    _, *blanks = re.split(r"<p>blank \d</p>", first)
    for number, shown in enumerate(blanks):
        columns = {name: expected[name or "BERT"][number] for name in readers}
        assert shown == (columns_html(columns) if readers[1:] else bars_html(columns[""]))
    assert len(blanks) == 2
    bundle = box._repr_mimebundle_()  # where there is no kernel
    assert "application/vnd.jupyter.widget-view+json" in bundle
    assert 'src="data:image/png;base64,' in bundle["text/html"]
    assert bundle["text/plain"] in bundle["text/html"]  # the alt text
    best = [columns[number][0].word for number in (0, 1) for columns in expected.values()]
    assert all(word in bundle["text/plain"] for word in (best if readers[1:] else best[::4]))
    # by chance the letters of a picture may spell anything
    assert "VBox" not in re.sub(r"base64,[^\"]+", "", str(bundle))
    assert field.continuous_update is False  # not a run of the model at every key
    for text, said in (
        ("the dog barked", "write ___ or [MASK]"),
        ("", "no blank"),
        ("___ " + "dog " * 100, "103 word pieces, and the model reads 64 at most"),
        ("<script>alert(1)</script> & no blank", "&lt;script&gt;alert(1)&lt;/script&gt; &amp; no"),
    ):
        field.value = text
        assert said in answer.value
        assert "<table" not in answer.value
    field.value = "나는 ___ 😀 dog 나는"
    assert "cannot read <b>나는</b>, <b>😀</b>:" in answer.value
    assert answer.value.count("<table style") == len(readers)  # it guesses all the same
    field.value = TWO_BLANKS
    assert answer.value == first


def test_a_page_says_what_is_wrong_with_the_first_sentence_and_escapes_it() -> None:
    bundle = fill_box(MODEL, TOKENIZER, "the dog <sang>")._repr_mimebundle_()
    assert "write ___ or [MASK]" in bundle["text/plain"]
    assert "&lt;sang&gt;" in bundle["text/html"]


def test_bars_are_as_long_as_the_guess_is_likely_and_the_truth_is_marked() -> None:
    shown = bars_html([Guess("dog", 0.5), Guess("cat", 0.1)], truth="cat")
    assert re.findall(r"width:(\d+)px", shown) == ["150", "30"]
    assert re.findall(r"\d+ %", shown) == ["50 %", "10 %"]
    assert re.findall("<b>(.*?)</b>", shown) == ["cat ✓"]
    shown = columns_html({"one": [Guess("dog", 0.5), Guess("cat", 0.25)], "two": [Guess("a", 1)]})
    places = [shown.index(f">{word}<") for word in ("one", "two", "dog", "cat", "a")]
    assert places == sorted(places)
    assert re.findall(r"width:(\d+)px", shown) == ["30", "15", "60"]


# -- the puzzles


def test_a_puzzle_hides_one_whole_word_of_letters_that_stood_there() -> None:
    originals = [" ".join(s.split()).lower() for s in ARTICLE.sentences()]
    puzzles = [p for seed in range(100) for p in make_puzzles(TOKENIZER, [ARTICLE], seed)]
    for text, truth in puzzles:
        assert text.count("___") == 1
        assert "___" in text.split()
        assert text.replace("___", truth).lower() in originals
        assert 8 <= len(text.split()) <= 40
    hidden = {truth for _, truth in puzzles}
    assert hidden <= {*WORDS, "dogs"}
    assert {"dog", "dogs", "the"} <= hidden  # and so not: 7; yard, (its comma); unknown (2 pieces)
    assert len({len(text.split()) for text, _ in puzzles}) >= 2
    assert blank_logits(MODEL, TOKENIZER, puzzles[0][0])[1].count("[MASK]") == 1


def test_the_seed_decides_and_no_puzzle_is_an_error() -> None:
    first, other = (make_puzzles(TOKENIZER, [ARTICLE] * 5, seed=seed) for seed in (1, 2))
    assert make_puzzles(TOKENIZER, [ARTICLE] * 5, seed=1, count=2) == first[:2] != other[:2]
    with pytest.raises(ValueError, match="8 to 40 words to play with: give more"):
        beat_bert(MODEL, TOKENIZER, [Document("Bird", "made up", "The bird sang.")])


# -- the game


class Game:
    """Presses the buttons and reads what is shown."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, bert: str = "dog") -> None:
        """Begin a game against a BERT that always says the same word."""
        self.asked: list[str] = []

        def fake(model: object, tokenizer: object, text: str) -> list[list[Guess]]:
            self.asked.append(text)
            return [[Guess(bert, 0.5), Guess("<i>", 0.25)]]

        monkeypatch.setattr(own, "fill_blanks", fake)
        self.puzzles = make_puzzles(TOKENIZER, [ARTICLE] * 3, seed=7)
        opening = next(puzzle for puzzle in self.puzzles if len(puzzle[1]) > 4)  # a long one
        self.puzzles.remove(opening)
        self.puzzles.insert(0, opening)
        self.box = beat_bert(MODEL, TOKENIZER, [ARTICLE] * 3, seed=7)
        self.sentence, row, self.answer, self.score = self.box.children
        self.field, self.check, self.start = row.children

    def enter(self) -> None:
        """What the page sends when Enter is pressed, besides a value that has changed."""
        self.field._handle_custom_msg({"event": "submit"}, [])

    def guess(self, word: str) -> None:
        """The field gets its new value when Enter is pressed, or when the button is."""
        self.field.value = word
        self.check.click()


def everything_in(widget: widgets.Widget) -> str:
    """All that the widgets would save into a notebook, as one text."""
    own_state = str(widget.get_state())
    return own_state + "".join(everything_in(child) for child in getattr(widget, "children", ()))


def test_before_start_nothing_can_be_guessed_and_no_text_of_the_corpus_is_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    game = Game(monkeypatch)
    before = everything_in(game.box)
    game.check.click()
    game.enter()
    assert everything_in(game.box) == before
    assert not game.asked
    saved = before + str(game.box._repr_mimebundle_())
    assert "Start" in saved
    assert "___" not in saved
    for sentence in ARTICLE.sentences():
        for five in zip(*(sentence.split()[i:] for i in range(5)), strict=False):
            assert " ".join(five) not in saved


def test_right_and_wrong_guesses_count_once(monkeypatch: pytest.MonkeyPatch) -> None:
    first = Game(monkeypatch).puzzles[0][1]
    game, you, bert = Game(monkeypatch, bert=first), 0, 0  # right whenever that word is hidden
    for number, (text, truth) in enumerate(game.puzzles[:4], start=1):
        game.start.click()
        assert text in game.sentence.value
        assert game.answer.value == game.field.value == ""
        assert not game.check.disabled
        # case and spaces do not matter
        game.guess(f" {truth.upper()} " if number in (1, 3) else "xyzzy")
        assert f"It was <b>{truth}</b>" in game.answer.value
        assert "&lt;i&gt;" in game.answer.value
        you, bert = you + (number in (1, 3)), bert + (truth == first)
        assert game.score.value == f"<p>you {you}, BERT {bert}, of {number}</p>"
        assert game.check.disabled
        game.guess(truth)  # now that it is known
        game.check.click()
        assert game.score.value.endswith(f"of {number}</p>")
    assert game.asked == [text for text, _ in game.puzzles[:4]]
    assert (you, bert) > (1, 0)


def test_enter_guesses_and_an_empty_guess_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    game = Game(monkeypatch)
    assert game.field.continuous_update is False  # the value comes with Enter, not with every key
    game.start.click()
    for nothing in ("", "  "):
        game.answer.value = ""
        game.guess(nothing)
        game.enter()
        assert "Type a word" in game.answer.value
        assert (game.score.value, game.asked) == ("", [])
        assert not game.check.disabled  # and it can still be guessed
    game.field.value = game.puzzles[0][1]
    assert game.asked == [game.puzzles[0][0]]
    assert game.score.value.startswith("<p>you 1, ")
    game.start.click()  # empties the field, which is no guess
    assert game.field.value == game.answer.value == ""
    assert len(game.asked) == 1


def test_skipping_costs_nothing_and_after_the_last_comes_the_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    game = Game(monkeypatch)
    for text, _ in [*game.puzzles, game.puzzles[0]]:
        game.start.click()
        assert text in game.sentence.value
    assert game.score.value == ""
    assert not game.asked


def test_the_game_runs_on_a_real_model_and_html_in_a_document_stays_text() -> None:
    text = "The dog <b>x</b> barked & the dog barked the.\n"  # better a short word than none
    box = beat_bert(MODEL, TOKENIZER, [Document("Evil", "made up", text * 20)])
    sentence, row, answer, score = box.children
    row.children[2].click()
    assert "&lt;b&gt;x&lt;/b&gt;" in sentence.value
    assert "<b>" not in sentence.value
    row.children[0].value = "dog"
    assert answer.value.count("<tr>") == 5
    assert "of 1" in score.value


# -- in Korean


def told(widget: widgets.Widget) -> set[str]:
    """All that a reader sees of a widget and of what stands in its place, without the marks."""
    names = ("description", "placeholder", "value", "still")
    texts = {str(getattr(widget, name, "")) for name in names}
    pieces = {piece.strip() for text in texts for piece in re.split("<[^>]+>", text)}
    return pieces.union(*(told(child) for child in getattr(widget, "children", ())))


def everything_shown(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """What boxes, game, questions and tags say in turn; what is asked is in capitals."""
    seen: set[str] = set()
    box = fill_box(READERS, TOKENIZER, "THE ___ ___.")
    game = Game(monkeypatch, bert="THE")
    tags = tag_examples([Tagged(("THE",), ("O",))], [["O"]], ["PLACE"])
    asked = [Question("1", "WHO?", "THE DOG.", ()), Question("2", "WHO?", "THE DOG.", ())]
    pages = question_browser(asked, [Answer("1", "DOG", 4, 0.0), Answer("2", "", 0, 0.0)])
    for text in ("THE ___ 나", "NONE", "___ " * 70):
        seen |= told(box)
        box.children[0].value = text
    for act in (game.start.click, game.check.click, lambda: game.guess("DOG")):
        seen |= told(game.box)
        act()
    for view in (tags, pages, pages):
        seen |= told(view)
        view.children[0].click()
    for answer in ((4, 7), None):
        view = SpanView("WHO?", "THE DOG", (), TextPiece(0, 0, 0.5, 0.5), answer)
        seen |= {view.alt, *re.split("<[^>]+>", view._repr_html_())}
        seen |= {*re.findall('title="(.+?)"', view._repr_html_())}
    return seen.union(*map(told, (box, game.box, tags, pages)))


def test_in_korean_nothing_is_said_in_english(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BERTEDU_LANG", raising=False)
    english = {one for one in everything_shown(monkeypatch) if re.search("[a-z]{2}", one)}
    assert len(english) > 25
    monkeypatch.setenv("BERTEDU_LANG", "ko")
    words = {*WORDS, "dogs", "known", "un", "lt", "i", "gt"}
    same = english & everything_shown(monkeypatch)
    assert {one for one in same if not {*re.findall("[a-z]+", one.lower())} <= words} == set()
