"""What a reader types into or clicks on: a sentence box, example after example, a guessing game."""

import html
from collections.abc import Callable, Mapping, Sequence
from itertools import cycle
from typing import Any

import ipywidgets as widgets
import torch
from matplotlib import pyplot as plt
from tokenizers import Tokenizer

from bertedu.analysis.fill import BLANK, Guess, ask_readers, fill_blanks, unreadable
from bertedu.analysis.views import BLUE, Picture, guess_bars, guess_panel, style
from bertedu.pretraining.objective import PreTrainingModel
from bertedu.text.corpus import Document
from course.language import paragraph, spoken

Readers = PreTrainingModel | Mapping[str, PreTrainingModel]  # one model, or several by name


def show_one(page: Callable[[int], str], order: Sequence[int]) -> "Playable":
    """Return a button that shows the next ``page`` (HTML) each time, in that order, over and over.

    Nothing is shown before the first click, so that no text of others is saved with a notebook.
    """
    button = widgets.Button(description=spoken("Show one"), disabled=not order)
    shown, numbers = widgets.HTML(), cycle(order)

    def show(_: object = None) -> None:
        shown.value = page(next(numbers))

    button.on_click(show)
    still = f"A button that shows one of {len(order):,} at each click. Run this cell to see them."
    return Playable([button, shown], paragraph(still), spoken(still))


class Playable(widgets.VBox):  # type: ignore[misc]  # ipywidgets has no types
    """A box of widgets, and what stands in its place where no kernel runs: a web page, a slide."""

    def __init__(self, children: Sequence[widgets.Widget], still: str, plain: str) -> None:
        super().__init__(children)
        self.still, self.plain = still, plain

    def _repr_mimebundle_(self, **options: Any) -> dict[str, Any]:
        # a page shows the richest kind that it can: the widgets, else the HTML, else the text
        bundle: dict[str, Any] = super()._repr_mimebundle_(**options)
        return bundle | {"text/html": self.still, "text/plain": self.plain}


def bars_html(guesses: Sequence[Guess], truth: str | None = None, width: int = 300) -> str:
    """Draw guesses as a table with bars, 100 % as long as ``width``; the true word is in bold."""
    rows = []
    for guess in guesses:
        word = html.escape(guess.word)
        word = f"<b>{word} ✓</b>" if guess.word == truth else word
        rows.append(
            f"<tr><td style='text-align:right;padding-right:8px'>{word}</td>"
            f"<td style='white-space:nowrap'><div style='background:{BLUE};height:1em;"
            f"width:{width * guess.probability:.0f}px;display:inline-block;vertical-align:middle'>"
            f"</div> {100 * guess.probability:.0f} %</td></tr>"
        )
    return f"<table style='font-size:110%'>{''.join(rows)}</table>"


def columns_html(answers: Mapping[str, Sequence[Guess]]) -> str:
    """Draw the guesses of several readers at one blank beside each other, a column a reader."""
    names = "".join(f"<th scope='col'>{html.escape(spoken(name))}</th>" for name in answers)
    bars = "".join(
        f"<td style='vertical-align:top;padding-right:12px'>{bars_html(guesses, width=60)}</td>"
        for guesses in answers.values()
    )
    return f"<table><tr>{names}</tr><tr>{bars}</tr></table>"


@style()
def reader_bars(answers: Mapping[str, Mapping[str, Sequence[Guess]]], alt: str) -> Picture:
    """Draw guesses, sentence -> reader -> guesses: a row a sentence, a column a reader.

    The best guess of each reader is added to the alt text.
    """
    readers = list(next(iter(answers.values())))
    figure = plt.figure(figsize=(2.8 * len(readers), 3.3 * len(answers)))
    # one grid for all, so that the columns stand below each other: a thin row for a sentence,
    # then a row of panels
    heights = [1, 8] * len(answers)
    shown = [guess for row in answers.values() for some in row.values() for guess in some]
    most = max(guess.probability for guess in shown)
    grid = figure.add_gridspec(len(heights), len(readers), height_ratios=heights)
    for row, (sentence, columns) in enumerate(answers.items()):
        head = figure.add_subplot(grid[2 * row, :])
        head.text(0, 0, sentence, weight="bold", fontsize=17).set_in_layout(False)
        head.set_axis_off()
        for column, reader in enumerate(readers):
            axes = figure.add_subplot(grid[2 * row + 1, column])
            guess_panel(axes, columns[reader])
            axes.set_xlim(0, 150 * most)  # the same for all, with room for the number
            axes.set_xticks([])  # each bar says its number
            axes.grid(False)
            axes.spines["bottom"].set_visible(False)
            axes.set_title(reader.replace(", ", ",\n"))
    best = (
        f"{sentence} " + "; ".join(f"{reader}: {columns[reader][0].word}" for reader in readers)
        for sentence, columns in answers.items()
    )
    return Picture(figure, f"{alt} Best guesses. {'. '.join(best)}.")


def fill_box(model: Readers, tokenizer: Tokenizer, text: str, top: int = 5) -> Playable:
    """Return a text field; press Enter, and the guesses for every blank appear below it.

    With several models by name, their guesses stand beside each other. Where no kernel runs, a
    picture of the guesses for ``text`` stands there. Words that the model cannot read are named.
    """
    several = isinstance(model, Mapping)
    models = list(model.values()) if isinstance(model, Mapping) else [model]
    room = min(one.config.max_position_embeddings for one in models)

    def ask(text: str) -> list[dict[str, list[Guess]]]:
        """Return reader -> guesses for each blank; a model alone has no name."""
        pieces = len(tokenizer.encode(BLANK.sub("[MASK]", text)).ids)
        if pieces > room:
            raise ValueError(f"Too long: {pieces} word pieces, and the model reads {room} at most.")
        if isinstance(model, Mapping):
            answers = ask_readers(model, tokenizer, text, top)
        else:
            answers = {"": fill_blanks(model, tokenizer, text, top)}
        return [dict(zip(answers, at, strict=True)) for at in zip(*answers.values(), strict=True)]

    label, wide = spoken("Sentence:"), {"width": "95%"}
    field = widgets.Text(text, description=label, continuous_update=False, layout=wide)
    answer = widgets.HTML()

    def show(_: object = None) -> None:
        try:
            answer.value = _cannot_read(tokenizer, field.value) + "".join(
                paragraph(f"blank {number}") + (columns_html(at) if several else bars_html(at[""]))
                for number, at in enumerate(ask(field.value), start=1)
            )
        except ValueError as error:
            answer.value = paragraph(html.escape(str(error)))

    field.observe(show, names="value")
    show()
    try:
        blanks = ask(text)
    except ValueError as error:  # the box says it, and so does the page
        return Playable([field, answer], answer.value, spoken(str(error)))
    rows = {f"{text}  (blank {number})": at for number, at in enumerate(blanks, start=1)}
    if len(blanks) == 1:
        rows = {text: blanks[0]}
    if several:
        picture = reader_bars(rows, f"The {top} best guesses of each reader.")
    else:
        best = ", ".join(at[""][0].word for at in blanks)
        alt = f"The {top} best guesses for each blank of: {text} The best: {best}."
        picture = guess_bars({name: at[""] for name, at in rows.items()}, alt)
    hint = paragraph("Run this cell, and type a sentence of your own.")
    still = f"{picture._repr_html_()}{hint}"
    return Playable([field, answer], still, repr(picture))


def _cannot_read(tokenizer: Tokenizer, text: str) -> str:
    """Name the words that are only `[UNK]` to the model, in a paragraph; none: nothing."""
    words = dict.fromkeys(unreadable(tokenizer, text))
    if not words:
        return ""
    named = ", ".join(f"<b>{html.escape(word)}</b>" for word in words)
    return paragraph(
        f"The model cannot read {named}: its vocabulary lacks a character. It sees [UNK], "
        "for <i>unknown</i>, and guesses from the other words."
    )


HOW_TO_PLAY = (
    "A game against BERT: a sentence that it has not been trained on, with one word hidden. "
    "You guess, then BERT does. Run this cell to play."
)


def beat_bert(
    model: PreTrainingModel, tokenizer: Tokenizer, documents: Sequence[Document], seed: int = 0
) -> Playable:
    """Return a game: a sentence of a held-out document, one word hidden; you guess, BERT guesses.

    Enter guesses, as the button does. An empty guess does not count. The first word to guess is a
    long one. Raises ValueError if no sentence of the documents has 8 to 40 words to play with.
    """
    puzzles = make_puzzles(tokenizer, documents, seed)
    if not puzzles:
        raise ValueError("no sentence of 8 to 40 words to play with: give more documents")
    # "the" is one word in ten, and a dull one to begin with
    opening = next((p for p in puzzles if len(p[1]) > 4), puzzles[0])
    puzzles.insert(0, puzzles.pop(puzzles.index(opening)))
    sentence, answer, score = widgets.HTML(), widgets.HTML(), widgets.HTML()
    # Enter brings the value, and that is the guess
    hint, label, go, on = map(spoken, ("your guess", "Word:", "Guess", "Start / next"))
    field = widgets.Text(placeholder=hint, description=label, continuous_update=False)
    check = widgets.Button(description=go, disabled=True)  # nothing to guess before Start
    skip = widgets.Button(description=on)
    upcoming, current = cycle(puzzles), ("", "")
    you = bert = rounds = 0

    def next_puzzle(_: object = None) -> None:
        nonlocal current
        current = next(upcoming)
        sentence.value = f"<p style='font-size:120%'>{html.escape(current[0])}</p>"
        field.value, answer.value, check.disabled = "", "", False
        field.focus()

    def guess(_: object = None) -> None:
        nonlocal you, bert, rounds
        if check.disabled:  # Enter before Start, or a second click before the page shows the first
            return
        word = field.value.strip().lower()
        if not word:
            answer.value = paragraph("Type a word first.")
            return
        text, truth = current
        guesses = fill_blanks(model, tokenizer, text)[0]
        you, bert, rounds = you + (word == truth), bert + (guesses[0].word == truth), rounds + 1
        answer.value = paragraph(f"It was <b>{html.escape(truth)}</b>. BERT thought:")
        answer.value += bars_html(guesses, truth)
        score.value = paragraph(f"you {you}, BERT {bert}, of {rounds}")
        check.disabled = True

    def entered(_: object, content: Mapping[str, Any], __: object) -> None:
        # Enter in an empty field changes no value, so nobody else hears of it
        if content.get("event") == "submit" and not field.value.strip():
            guess()

    field.observe(guess, names="value")  # Enter
    field.on_msg(entered)
    check.on_click(guess)
    skip.on_click(next_puzzle)
    # The first sentence comes after the game is on the page, so that no text of others is saved
    # with the notebook.
    sentence.value = paragraph("Press <i>Start / next</i>.")
    row = widgets.HBox([field, check, skip])
    return Playable([sentence, row, answer, score], paragraph(HOW_TO_PLAY), spoken(HOW_TO_PLAY))


def make_puzzles(
    tokenizer: Tokenizer, documents: Sequence[Document], seed: int = 0, count: int = 200
) -> list[tuple[str, str]]:
    """Hide one word in each of ``count`` sentences: (sentence with a blank, ``___``; the word).

    Only words that are a single word piece of letters are hidden, so that one guess can be right.
    """
    generator = torch.Generator().manual_seed(seed)
    sentences = [s for document in documents for s in document.sentences()]
    puzzles = []
    for index in torch.randperm(len(sentences), generator=generator).tolist():
        words = sentences[index].split()
        if not 8 <= len(words) <= 40 or BLANK.search(sentences[index]):
            continue
        place = int(torch.randint(len(words), (1,), generator=generator))
        truth = words[place].lower()
        if truth.isalpha() and tokenizer.token_to_id(truth) is not None:
            words[place] = "___"
            puzzles.append((" ".join(words), truth))
        if len(puzzles) == count:
            break
    return puzzles
