"""The sentence box and the guessing game, played through their widgets."""

import re
from itertools import pairwise
from pathlib import Path

import ipywidgets as widgets
import nbformat
import pytest
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from nbconvert import HTMLExporter

from bertedu.analysis.fill import Guess, ask_readers, blank_logits, fill_blanks
from bertedu.model.bert import BertForPreTraining
from bertedu.model.config import BertConfig
from bertedu.model.elmo import ElmoForPreTraining
from bertedu.text.corpus import Document
from bertedu.text.fast_tokenizer import fast_tokenizer
from bertedu.text.tokenization import SPECIAL_TOKENS
from course.workshop import widgets as own
from course.workshop.widgets import (
    bars_html,
    beat_bert,
    columns_html,
    fill_box,
    make_puzzles,
    reader_bars,
)

NOTEBOOK = Path(__file__).parents[3] / "notebooks" / "00_start_here.ipynb"
WORDS = ["the", "a", "old", "dog", "cat", "bird", "barked", "purred", "sang", "in", "near", "big"]
WORDS += ["yard", "tree", "and", "then", "slept"]
TOKENIZER = fast_tokenizer([*SPECIAL_TOKENS, *WORDS, "dogs", "un", "##known", "##s", ",", ".", "7"])
MODEL = BertForPreTraining(
    BertConfig(
        vocab_size=TOKENIZER.get_vocab_size(),
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=1,
        intermediate_size=8,
        max_position_embeddings=64,
        initializer_range=0.5,
    )
)
READERS = {"BERT": MODEL, "ELMo": ElmoForPreTraining(MODEL.config)}
ARTICLE = Document(
    "Animals",
    "made up",
    "The old dog barked in the big yard, and then slept.\n"
    "A cat purred near the big tree and then the dog barked.\n"
    "Unknown dogs sang in 7 yards, and then 7 unknown birds slept.\n"
    "The bird sang.\n"
    "The ____ dog barked in the big yard and then the cat purred.\n"
    + "The dog barked and "
    + "then the dog barked and " * 9
    + "then slept.\n",
)


# -- the sentence box


def parts(box: widgets.VBox) -> tuple[widgets.Text, widgets.HTML]:
    field, answer = box.children
    return field, answer


def test_the_box_answers_at_once_and_again_for_a_new_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[tuple[str, int]] = []

    def fake(model: object, tokenizer: object, text: str, top: int) -> list[list[Guess]]:
        asked.append((text, top))
        return [[Guess(f"word{len(asked)}", 0.25)]]

    monkeypatch.setattr(own, "fill_blanks", fake)
    field, answer = parts(fill_box(MODEL, TOKENIZER, "the ___ sang", top=3))
    assert "word1" in answer.value
    field.value = "the ___ barked"
    assert asked == [("the ___ sang", 3)] * 2 + [("the ___ barked", 3)]  # twice: for the page too
    assert "word3" in answer.value
    assert "word1" not in answer.value
    assert field.continuous_update is False  # not a run of the model at every key


def test_the_box_shows_the_guesses_of_every_blank() -> None:
    field, answer = parts(fill_box(MODEL, TOKENIZER, "the ___ sang near a ___", top=2))
    assert re.findall(r"blank \d", answer.value) == ["blank 1", "blank 2"]
    assert answer.value.count("<tr>") == 4
    field.value = "the ___ sang"
    assert answer.value.count("<tr>") == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("the dog barked", "write ___ or [MASK]"),
        ("", "no blank"),
        ("___ " + "dog " * 100, "103 word pieces, and the model reads 64 at most"),
    ],
)
def test_the_box_explains_what_it_cannot_fill_and_recovers(text: str, message: str) -> None:
    field, answer = parts(fill_box(MODEL, TOKENIZER, "the ___ sang"))
    before = answer.value
    field.value = text
    assert message in answer.value
    assert "<table" not in answer.value
    field.value = "the ___ sang"
    assert answer.value == before


@pytest.mark.parametrize("model", [MODEL, READERS])
def test_the_box_names_what_the_model_cannot_read(model: own.PreTrainingModel) -> None:
    field, answer = parts(fill_box(model, TOKENIZER, "the ___ sang"))
    assert "cannot read" not in answer.value
    field.value = "나는 ___ 😀 dog 나는"
    assert "cannot read <b>나는</b>, <b>😀</b>:" in answer.value
    assert "<table" in answer.value  # it guesses all the same


def test_a_page_without_a_kernel_shows_a_picture_of_the_guesses() -> None:
    box = fill_box(MODEL, TOKENIZER, "the ___ sang near a ___")
    guesses = fill_blanks(MODEL, TOKENIZER, "the ___ sang near a ___")
    best = ", ".join(at[0].word for at in guesses)
    bundle = box._repr_mimebundle_()
    assert "application/vnd.jupyter.widget-view+json" in bundle
    assert 'src="data:image/png;base64,' in bundle["text/html"]
    assert bundle["text/plain"].endswith(f"The best: {best}.")
    assert bundle["text/plain"] in bundle["text/html"]  # the alt text
    readers = fill_box(READERS, TOKENIZER, "the ___ sang near a ___")._repr_mimebundle_()
    for name in ["BERT: ", "ELMo, joined: "]:
        assert readers["text/plain"].count(name) == 2  # two blanks
    for shown in (bundle, readers):  # by chance the letters of a picture may spell anything
        assert "VBox" not in re.sub(r"base64,[^\"]+", "", str(shown))


def test_a_page_says_what_is_wrong_with_the_first_sentence() -> None:
    bundle = fill_box(MODEL, TOKENIZER, "the dog <sang>")._repr_mimebundle_()
    assert "write ___ or [MASK]" in bundle["text/plain"]
    assert "&lt;sang&gt;" in bundle["text/html"]


def test_an_exported_page_shows_it_too() -> None:
    """The page takes the widgets only if their state lies in the notebook: 00 must keep none."""
    box = beat_bert(MODEL, TOKENIZER, [ARTICLE])
    output = nbformat.v4.new_output("execute_result", box._repr_mimebundle_())
    cell = nbformat.v4.new_code_cell("beat_bert()", outputs=[output])
    page, _ = HTMLExporter().from_notebook_node(nbformat.v4.new_notebook(cells=[cell]))
    assert own.HOW_TO_PLAY in page
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    assert "widgets" not in notebook.metadata, (
        "execute it with --ExecutePreprocessor.store_widget_state=False"
    )


def test_html_typed_by_a_learner_stays_text(monkeypatch: pytest.MonkeyPatch) -> None:
    _, answer = parts(fill_box(MODEL, TOKENIZER, "<script>alert(1)</script> & no blank"))
    assert "<script" not in answer.value
    assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp; no blank" in answer.value
    box = fill_box(MODEL, TOKENIZER, "<script>alert(1)</script> & ___")
    assert "<script" not in str(box._repr_mimebundle_()["text/html"])
    monkeypatch.setattr(own, "fill_blanks", lambda *_: [[Guess("<b>&", 0.5)]])
    _, answer = parts(fill_box(MODEL, TOKENIZER, "___"))
    assert "&lt;b&gt;&amp;" in answer.value
    assert "<b>" not in answer.value


def test_bars_are_as_long_as_the_guess_is_likely_and_the_truth_is_marked() -> None:
    shown = bars_html([Guess("dog", 0.5), Guess("cat", 0.1)], truth="cat")
    long, short = map(int, re.findall(r"width:(\d+)px", shown))
    assert long == 5 * short
    assert "50 %" in shown
    assert "10 %" in shown
    assert re.findall("<b>(.*?)</b>", shown) == ["cat ✓"]


# -- several readers


def test_the_box_shows_several_readers_side_by_side_at_every_blank() -> None:
    field, answer = parts(fill_box(READERS, TOKENIZER, "the ___ sang near a ___", top=2))
    expected = ask_readers(READERS, TOKENIZER, "the ___ sang near a ___", 2)
    names = ["BERT", "ELMo, left half", "ELMo, right half", "ELMo, joined"]
    assert re.findall("<th[^>]*>(.*?)</th>", answer.value) == names * 2
    first, second = re.split(r"<p>blank \d</p>", answer.value)[1:]
    for number, shown in enumerate((first, second)):
        assert shown == columns_html({name: expected[name][number] for name in names})
    assert first != second
    field.value = "a ___ sang"
    assert answer.value.count("<th ") == 4
    field.value = "nothing to fill"
    assert "write ___ or [MASK]" in answer.value
    assert "<table" not in answer.value


def test_a_column_holds_the_guesses_of_its_reader() -> None:
    shown = columns_html({"one": [Guess("dog", 0.5), Guess("cat", 0.25)], "<two>": [Guess("a", 1)]})
    assert shown.index("one") < shown.index("&lt;two&gt;")
    assert "<two>" not in shown
    dog, cat, a = (shown.index(f">{word}<") for word in ("dog", "cat", "a"))
    assert dog < cat < a
    assert list(map(int, re.findall(r"width:(\d+)px", shown))) == [30, 15, 60]


def test_the_picture_has_a_row_a_sentence_and_a_column_a_reader(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    figures: list[Figure] = []

    def keep(figure: Figure, alt: str) -> str:
        figure.draw_without_rendering()  # lays it out
        figures.append(figure)
        return alt

    monkeypatch.setattr(own, "Picture", keep)
    answers = {
        "the ___ sang": {
            "one": [Guess("bird", 0.5), Guess("cat", 0.2)],
            "two, right half": [Guess("a", 0.1)],
        },
        "___ barked": {
            "one": [Guess("dog", 1.0)],
            "two, right half": [Guess("##s", 0.25), Guess("big", 0.2)],
        },
    }
    alt = reader_bars(answers, "Two readers.")
    assert alt == (
        "Two readers. Best guesses. the ___ sang one: bird; two, right half: a. "
        "___ barked one: dog; two, right half: ##s."
    )
    (figure,) = figures
    sentences = [axes for axes in figure.axes if axes.texts and not axes.axison]
    panels = [axes for axes in figure.axes if axes.axison]
    assert [axes.texts[0].get_text() for axes in sentences] == list(answers)
    for row, columns in zip((panels[:2], panels[2:]), answers.values(), strict=True):
        assert [axes.get_title(loc="left") for axes in row] == ["one", "two,\nright half"]
        for axes, guesses in zip(row, columns.values(), strict=True):
            assert [label.get_text() for label in axes.get_yticklabels()] == [
                guess.word for guess in guesses
            ]
            widths = [bar.get_width() for bar in axes.patches if isinstance(bar, Rectangle)]
            assert widths == pytest.approx([100 * guess.probability for guess in guesses])
            assert axes.yaxis_inverted()  # the best guess on top
    assert len({axes.get_xlim() for axes in panels}) == 1
    assert panels[0].get_xlim()[1] > 110  # a bar of 100 % and its number fit
    # however long the words of a row are, a reader's panels stand below each other
    left = [axes.get_position().x0 for axes in panels]
    assert left[0] == pytest.approx(left[2], abs=1e-6)
    assert left[1] == pytest.approx(left[3], abs=1e-6)
    # and each sentence stands above its own row
    rows = [axes.get_position() for axes in (sentences[0], panels[0], sentences[1], panels[2])]
    assert all(above.y0 >= below.y1 for above, below in pairwise(rows))


def test_the_picture_is_a_png_with_alt_text() -> None:
    answers = {"the ___": {"one": [Guess("dog", 0.5)]}}
    picture = reader_bars(answers, "One reader.")
    assert picture.png.startswith(b"\x89PNG")
    assert "dog" in picture.alt


# -- the puzzles


def test_a_puzzle_hides_the_word_that_stood_there() -> None:
    originals = [" ".join(s.split()).lower() for s in ARTICLE.sentences()]
    puzzles = [p for seed in range(40) for p in make_puzzles(TOKENIZER, [ARTICLE], seed)]
    assert len(puzzles) > 40
    for text, truth in puzzles:
        assert text.count("___") == 1
        assert text.replace("___", truth).lower() in originals
        assert 8 <= len(text.split()) <= 40


def test_only_whole_words_of_letters_are_hidden() -> None:
    puzzles = [p for seed in range(200) for p in make_puzzles(TOKENIZER, [ARTICLE], seed)]
    hidden = {truth for _, truth in puzzles}
    assert hidden <= {*WORDS, "dogs"}
    assert {"dog", "dogs", "the"} <= hidden  # and so not: 7; yard, (its comma); unknown (2 pieces)
    for text, _ in puzzles:
        assert "___" in text.split()
        assert blank_logits(MODEL, TOKENIZER, text)[1].count("[MASK]") == 1


def test_short_long_and_blank_sentences_are_left_out() -> None:
    texts = [t for seed in range(40) for t, _ in make_puzzles(TOKENIZER, [ARTICLE], seed)]
    assert not [t for t in texts if len(t.split()) == 3 or len(t.split()) > 40 or "____" in t]
    assert len({len(t.split()) for t in texts}) >= 2


def test_the_same_seed_makes_the_same_puzzles() -> None:
    documents = [ARTICLE] * 5
    first = make_puzzles(TOKENIZER, documents, seed=1)
    assert make_puzzles(TOKENIZER, documents, seed=1) == first
    assert make_puzzles(TOKENIZER, documents, seed=2) != first
    assert make_puzzles(TOKENIZER, documents, seed=1, count=2) == first[:2]


def test_no_sentence_to_play_with_is_an_error() -> None:
    short = Document("Bird", "made up", "The bird sang.")
    assert make_puzzles(TOKENIZER, [short]) == []
    with pytest.raises(ValueError, match="8 to 40 words to play with: give more"):
        beat_bert(MODEL, TOKENIZER, [short])


# -- the game


class Game:
    """Presses the buttons and reads what is shown."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, bert: str) -> None:
        self.asked: list[str] = []

        def fake(model: object, tokenizer: object, text: str) -> list[list[Guess]]:
            self.asked.append(text)
            return [[Guess(bert, 0.5), Guess("<i>", 0.25)]]

        monkeypatch.setattr(own, "fill_blanks", fake)
        self.puzzles = make_puzzles(TOKENIZER, [ARTICLE] * 3, seed=5)
        long = [puzzle for puzzle in self.puzzles if len(puzzle[1]) > 4]
        for opening in long[:1]:
            self.puzzles.remove(opening)
            self.puzzles.insert(0, opening)
        self.box = beat_bert(MODEL, TOKENIZER, [ARTICLE] * 3, seed=5)
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


def test_no_text_of_the_corpus_is_in_the_widget_before_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    game = Game(monkeypatch, "dog")
    state = everything_in(game.box)
    assert "Start" in state
    assert "___" not in state
    bundle = str(game.box._repr_mimebundle_())
    assert "___" not in bundle
    for sentence in ARTICLE.sentences():
        for five in zip(*(sentence.split()[i:] for i in range(5)), strict=False):
            assert " ".join(five) not in state
            assert " ".join(five) not in bundle


def test_nothing_can_be_guessed_before_start(monkeypatch: pytest.MonkeyPatch) -> None:
    game = Game(monkeypatch, "dog")
    before = everything_in(game.box)
    assert game.check.disabled
    game.check.click()
    assert everything_in(game.box) == before
    assert not game.asked


def test_right_and_wrong_guesses_count(monkeypatch: pytest.MonkeyPatch) -> None:
    first = Game(monkeypatch, "dog").puzzles[0][1]
    game = Game(monkeypatch, bert=first)  # it is right whenever the first word is hidden
    assert len(game.puzzles) >= 3
    game.start.click()
    text, truth = game.puzzles[0]
    assert text in game.sentence.value
    assert not game.check.disabled
    game.guess(f" {truth.upper()} ")  # case and spaces do not matter
    assert game.asked == [text]
    assert f"It was <b>{truth}</b>" in game.answer.value
    assert "&lt;i&gt;" in game.answer.value
    assert game.score.value == "<p>you 1, BERT 1, of 1</p>"

    you, bert = 1, 1
    for number, (text, truth) in enumerate(game.puzzles[1:4], start=2):
        game.start.click()
        assert text in game.sentence.value
        assert game.answer.value == ""
        assert game.field.value == ""
        game.guess(truth if number == 3 else "xyzzy")
        you, bert = you + (number == 3), bert + (truth == first)
        assert game.score.value == f"<p>you {you}, BERT {bert}, of {number}</p>"
    assert you == 2


def test_enter_guesses_as_the_button_does(monkeypatch: pytest.MonkeyPatch) -> None:
    game = Game(monkeypatch, "dog")
    assert game.field.continuous_update is False  # the value comes with Enter, not with every key
    game.field.value = "before the start"
    assert not game.asked
    game.start.click()
    text, truth = game.puzzles[0]
    game.field.value = truth
    assert game.asked == [text]
    assert game.score.value.startswith("<p>you 1, ")
    game.check.click()  # after Enter there is nothing left to guess
    assert game.score.value.endswith("of 1</p>")
    game.start.click()  # empties the field, which is no guess
    assert game.field.value == game.answer.value == ""
    assert len(game.asked) == 1


@pytest.mark.parametrize("nothing", ["", "  "])
def test_an_empty_guess_does_not_count(monkeypatch: pytest.MonkeyPatch, nothing: str) -> None:
    game = Game(monkeypatch, "dog")
    game.enter()
    assert "Type a word" not in game.answer.value  # there is no sentence yet
    game.start.click()
    game.enter()
    assert "Type a word" in game.answer.value
    game.answer.value = ""
    game.guess(nothing)
    assert "Type a word" in game.answer.value
    assert game.score.value == ""
    assert not game.asked
    assert not game.check.disabled  # and it can still be guessed
    game.guess("dog")
    assert "of 1" in game.score.value


def test_the_first_word_to_guess_is_a_long_one() -> None:
    long = 0
    for seed in range(20):
        puzzles = make_puzzles(TOKENIZER, [ARTICLE] * 9, seed)
        box = beat_bert(MODEL, TOKENIZER, [ARTICLE] * 9, seed)
        sentence, row, answer, _ = box.children
        row.children[2].click()
        row.children[0].value = "xyzzy"
        truth = re.findall("<b>(.*?)</b>", answer.value)[0]
        assert len(truth) > 4 or all(len(word) <= 4 for _, word in puzzles)
        long += len(truth) > 4
        shown = [text for text, word in puzzles if word == truth and text in sentence.value]
        assert shown  # and its sentence stands there, the blank as ___
    assert long > 10
    only_short = Document("Dog", "made up", "The dog the cat the dog the cat the dog sang.\n" * 9)
    row = beat_bert(MODEL, TOKENIZER, [only_short]).children[1]
    row.children[2].click()  # better a short word than none


def test_a_sentence_can_be_guessed_once_only(monkeypatch: pytest.MonkeyPatch) -> None:
    game = Game(monkeypatch, "dog")
    game.start.click()
    game.guess("xyzzy")
    assert game.check.disabled
    after = game.score.value
    game.guess(game.puzzles[0][1])  # now that it is known
    assert game.score.value == after
    assert len(game.asked) == 1


def test_skipping_costs_nothing_and_after_the_last_comes_the_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    game = Game(monkeypatch, "dog")
    for text, _ in [*game.puzzles, game.puzzles[0]]:
        game.start.click()
        assert text in game.sentence.value
    assert game.score.value == ""
    assert not game.asked


def test_the_game_runs_on_a_real_model() -> None:
    box = beat_bert(MODEL, TOKENIZER, [ARTICLE])
    _, row, answer, score = box.children
    field, check, start = row.children
    start.click()
    field.value = "dog"
    check.click()
    assert answer.value.count("<tr>") == 5
    assert "of 1" in score.value


def test_html_in_a_document_stays_text() -> None:
    evil = Document("Evil", "made up", "The dog <script>x</script> barked & the dog barked the.")
    box = beat_bert(MODEL, TOKENIZER, [evil] * 20)
    sentence, row, _, _ = box.children
    row.children[2].click()
    assert "<script" not in sentence.value
    assert "&lt;script&gt;" in sentence.value
