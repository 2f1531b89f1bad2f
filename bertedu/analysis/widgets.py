"""Two things to play with in notebook 00: type a sentence, and guess against the model."""

import html
from collections.abc import Sequence

import ipywidgets as widgets
import torch
from tokenizers import Tokenizer

from bertedu.analysis.fill import BLANK, Guess, fill_blanks
from bertedu.model.bert import BertForPreTraining
from bertedu.text.corpus import Document


def bars_html(guesses: Sequence[Guess], truth: str | None = None) -> str:
    """Draw guesses as a small table with bars; the true word, if known, is set in bold."""
    rows = []
    for guess in guesses:
        word = html.escape(guess.word)
        word = f"<b>{word} ✓</b>" if guess.word == truth else word
        rows.append(
            f"<tr><td style='text-align:right;padding-right:8px'>{word}</td>"
            f"<td><div style='background:#0072B2;height:1em;width:{300 * guess.probability:.0f}px;"
            "display:inline-block;vertical-align:middle'></div> "
            f"{100 * guess.probability:.0f} %</td></tr>"
        )
    return f"<table style='font-size:110%'>{''.join(rows)}</table>"


def fill_box(
    model: BertForPreTraining, tokenizer: Tokenizer, text: str, top: int = 5
) -> widgets.VBox:
    """Return a text field; press Enter, and the guesses for every blank appear below it."""
    field = widgets.Text(
        value=text,
        continuous_update=False,
        description="Sentence:",
        layout=widgets.Layout(width="95%"),
    )
    answer = widgets.HTML()

    def show(_: object = None) -> None:
        try:
            blanks = fill_blanks(model, tokenizer, field.value, top)
        except ValueError as error:
            answer.value = f"<p>{html.escape(str(error))}</p>"
            return
        answer.value = "".join(
            f"<p>blank {number}</p>{bars_html(guesses)}"
            for number, guesses in enumerate(blanks, start=1)
        )

    field.observe(show, names="value")
    show()
    return widgets.VBox([field, answer])


def beat_bert(
    model: BertForPreTraining, tokenizer: Tokenizer, documents: Sequence[Document], seed: int = 0
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
