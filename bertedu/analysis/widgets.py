"""What notebook 00 plays with: a box for a sentence, readers side by side, a guessing game."""

import html
from collections.abc import Mapping, Sequence

import ipywidgets as widgets
import torch
from matplotlib import pyplot as plt
from tokenizers import Tokenizer

from bertedu.analysis.fill import BLANK, Guess, ask_readers, fill_blanks
from bertedu.analysis.views import BLUE, Picture, style
from bertedu.pretraining.evaluation import PreTrainingModel
from bertedu.text.corpus import Document


def bars_html(guesses: Sequence[Guess], truth: str | None = None, width: int = 300) -> str:
    """Draw guesses as a small table with bars; the true word, if known, is set in bold.

    ``width`` is the length of a bar of 100 %, in pixels.
    """
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
    names = "".join(f"<th scope='col'>{html.escape(name)}</th>" for name in answers)
    bars = "".join(
        f"<td style='vertical-align:top;padding-right:12px'>{bars_html(guesses, width=60)}</td>"
        for guesses in answers.values()
    )
    return f"<table><tr>{names}</tr><tr>{bars}</tr></table>"


def reader_bars(answers: Mapping[str, Mapping[str, Sequence[Guess]]], alt: str) -> Picture:
    """Draw guesses, sentence -> reader -> guesses: a row a sentence, a column a reader.

    The best guess of each reader is added to the alt text.
    """
    with style():
        readers = list(next(iter(answers.values())))
        figure = plt.figure(figsize=(2.8 * len(readers), 3.3 * len(answers)))
        rows = figure.subfigures(len(answers), squeeze=False)[:, 0]
        for row, (sentence, columns) in zip(rows, answers.items(), strict=True):
            row.suptitle(sentence, x=0.01, ha="left", weight="bold")
            for axes, reader in zip(
                row.subplots(1, len(readers), squeeze=False)[0], readers, strict=True
            ):
                words = [guess.word for guess in columns[reader]]
                shares = [100 * guess.probability for guess in columns[reader]]
                bars = axes.barh(range(len(words)), shares, color=BLUE)
                axes.bar_label(bars, fmt="%.0f %%", padding=4)
                axes.set_xlim(0, 150)  # the same for all readers, with room for "100 %"
                axes.set_xticks([])  # each bar says its number
                axes.set_yticks(range(len(words)), words)
                axes.invert_yaxis()
                axes.grid(False)
                axes.spines["bottom"].set_visible(False)
                axes.set_title(reader.replace(", ", ",\n"))
        best = (
            f"{sentence} " + "; ".join(f"{reader}: {columns[reader][0].word}" for reader in readers)
            for sentence, columns in answers.items()
        )
        return Picture(figure, f"{alt} Best guesses. {'. '.join(best)}.")


def fill_box(
    model: PreTrainingModel | Mapping[str, PreTrainingModel],
    tokenizer: Tokenizer,
    text: str,
    top: int = 5,
) -> widgets.VBox:
    """Return a text field; press Enter, and the guesses for every blank appear below it.

    With several models by name, their guesses stand beside each other.
    """
    field = widgets.Text(
        value=text,
        continuous_update=False,
        description="Sentence:",
        layout=widgets.Layout(width="95%"),
    )
    answer = widgets.HTML()

    def ask() -> list[str]:
        if not isinstance(model, Mapping):
            return [
                bars_html(guesses) for guesses in fill_blanks(model, tokenizer, field.value, top)
            ]
        answers = ask_readers(model, tokenizer, field.value, top)
        at_blanks = zip(*answers.values(), strict=True)
        return [columns_html(dict(zip(answers, at, strict=True))) for at in at_blanks]

    def show(_: object = None) -> None:
        try:
            blanks = ask()
        except ValueError as error:
            answer.value = f"<p>{html.escape(str(error))}</p>"
            return
        answer.value = "".join(
            f"<p>blank {number}</p>{shown}" for number, shown in enumerate(blanks, start=1)
        )

    field.observe(show, names="value")
    show()
    return widgets.VBox([field, answer])


def beat_bert(
    model: PreTrainingModel, tokenizer: Tokenizer, documents: Sequence[Document], seed: int = 0
) -> widgets.VBox:
    """Return a game: a sentence of a held-out document, one word hidden; you guess, BERT guesses.

    Raises
    ------
    ValueError
        The documents have no sentence of 8 to 40 words to play with.

    """
    puzzles = make_puzzles(tokenizer, documents, seed)
    if not puzzles:
        raise ValueError("no sentence of 8 to 40 words to play with: give more documents")
    sentence, answer, score = widgets.HTML(), widgets.HTML(), widgets.HTML()
    field = widgets.Text(placeholder="your guess", description="Word:")
    check = widgets.Button(description="Guess", disabled=True)  # nothing to guess before Start
    skip = widgets.Button(description="Start / next")
    state = {"at": -1, "you": 0, "bert": 0, "rounds": 0}

    def next_puzzle(_: object = None) -> None:
        state["at"] = (state["at"] + 1) % len(puzzles)
        sentence.value = f"<p style='font-size:120%'>{html.escape(puzzles[state['at']][0])}</p>"
        field.value, answer.value, check.disabled = "", "", False

    def guess(_: object = None) -> None:
        if check.disabled:  # a second click can arrive before the page shows the first one's effect
            return
        text, truth = puzzles[state["at"]]
        guesses = fill_blanks(model, tokenizer, text)[0]
        state["you"] += field.value.strip().lower() == truth
        state["bert"] += guesses[0].word == truth
        state["rounds"] += 1
        answer.value = f"<p>It was <b>{html.escape(truth)}</b>. BERT thought:</p>" + bars_html(
            guesses, truth
        )
        score.value = f"<p>you {state['you']}, BERT {state['bert']}, of {state['rounds']}</p>"
        check.disabled = True

    check.on_click(guess)
    skip.on_click(next_puzzle)
    # The first sentence comes after the game is on the page, so that no text of others is saved
    # with the notebook.
    box = widgets.VBox([sentence, widgets.HBox([field, check, skip]), answer, score])
    sentence.value = "<p>Press <i>Start / next</i>.</p>"
    return box


def make_puzzles(
    tokenizer: Tokenizer, documents: Sequence[Document], seed: int = 0, count: int = 200
) -> list[tuple[str, str]]:
    """Hide one word in each of ``count`` sentences: (sentence with `[MASK]`, the word).

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
            words[place] = "[MASK]"
            puzzles.append((" ".join(words), truth))
        if len(puzzles) == count:
            break
    return puzzles
