"""An answer shown in its text: where it could start, where it could end, what was marked."""

import html
from collections.abc import Sequence
from dataclasses import dataclass

import ipywidgets as widgets
import numpy as np
import torch
from tokenizers import Tokenizer

from bertedu.analysis.views import BLUE, ORANGE
from bertedu.finetuning.examples import Question
from bertedu.finetuning.inputs import MAX_LENGTH
from bertedu.finetuning.kinds import Answer
from bertedu.finetuning.loop import TaskModel, score_items
from bertedu.finetuning.question_answering import QuestionAnswering, context_places


@dataclass(frozen=True)
class Piece:
    """A token's characters in the text, and the probability that an answer starts or ends there."""

    begin: int
    end: int
    starts: float
    ends: float


@dataclass(frozen=True)
class SpanView:
    """A text with its answer marked. A notebook shows it; its alt text is read aloud.

    Above each piece stands a bar for the start, below it one for the end: the darker, the likelier.
    ``none`` is the same for `[CLS]`. ``answer`` is (begin, end) in characters, or None.
    """

    question: str
    context: str
    pieces: tuple[Piece, ...]
    none: Piece
    answer: tuple[int, int] | None

    @property
    def text(self) -> str:
        """The characters of the answer; "" for none."""
        return self.context[slice(*self.answer)] if self.answer else ""

    @property
    def alt(self) -> str:
        """Say in a sentence what is marked."""
        marked = f"“{self.text}” is marked" if self.answer else "nothing is marked"
        return f"Question: {self.question} In the text, {marked}."

    def __repr__(self) -> str:
        """Return the alt text: what a reader without a browser gets."""
        return self.alt

    def _repr_html_(self) -> str:
        shown, at = [_bars("[CLS]", self.none), " "], 0
        begin, end = self.answer or (-1, -1)
        for piece in self.pieces:
            between = html.escape(self.context[at : piece.begin])
            shown.append(_marked(between) if begin < piece.begin < end else between)
            text = _bars(self.context[piece.begin : piece.end], piece)
            shown.append(_marked(text) if begin <= piece.begin < end else text)
            at = piece.end
        shown.append(html.escape(self.context[at:]))
        return (
            f'<div role="group" aria-label="{html.escape(self.alt)}" style="font-size:120%">'
            f"<p><b>{html.escape(self.question)}</b></p>"
            f'<p style="line-height:2.3">{"".join(shown)}</p>'
            f"<p>Bar above, <span style='border-top:5px solid {BLUE}'>blue</span>: the answer may "
            f"start here. Bar below, <span style='border-bottom:5px solid {ORANGE}'>orange</span>: "
            "it may end here. The darker, the likelier. "
            + (f"Marked: <b>{html.escape(self.text)}</b>" if self.answer else "Nothing is marked.")
            + "</p></div>"
        )


def _bars(text: str, piece: Piece) -> str:
    return (
        f'<span title="start {100 * piece.starts:.0f} %, end {100 * piece.ends:.0f} %" '
        f'style="border-top:5px solid {_faded(BLUE, piece.starts)};'
        f'border-bottom:5px solid {_faded(ORANGE, piece.ends)}">{html.escape(text)}</span>'
    )


def _faded(color: str, share: float) -> str:
    red, green, blue = (int(color[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},{share:.2f})"


def _marked(text: str) -> str:
    return f'<mark style="background:#fff1a8;color:#000">{text}</mark>' if text else ""


@torch.no_grad()
def span_view(model: TaskModel, tokenizer: Tokenizer, question: str, context: str) -> SpanView:
    """Ask a fine-tuned model, and show what it makes of every token.

    A token that stands in two windows shows the likelier of its two values; `[CLS]` the least
    likely, since every window must find nothing before "none" is said.

    Raises
    ------
    TypeError
        The model does not mark answers.

    """
    kind = model.kind
    if not isinstance(kind, QuestionAnswering):
        raise TypeError(f"a {type(kind).__name__} marks no answer in a text")
    asked = Question("asked", question, context, ())
    items = kind.encode([asked], tokenizer, MAX_LENGTH)
    scores = score_items(model, items)
    (answer,) = kind.answers([asked], items, scores)
    shares: dict[tuple[int, int], tuple[float, float]] = {}
    none = 1.0, 1.0
    for item, (start, end) in zip(items, scores, strict=True):
        (row,) = item.rows
        starts, ends = start.softmax(-1), end.softmax(-1)
        none = min(none[0], float(starts[0])), min(none[1], float(ends[0]))
        for place in context_places(row):
            before = shares.get(row.offsets[place], (0.0, 0.0))
            now = float(starts[place]), float(ends[place])
            shares[row.offsets[place]] = max(before[0], now[0]), max(before[1], now[1])
    pieces = tuple(Piece(*span, *shares[span]) for span in sorted(shares))
    found = (answer.start, answer.start + len(answer.value)) if answer.value else None
    return SpanView(question, context, pieces, Piece(0, 0, *none), found)


def question_browser(
    questions: Sequence[Question], found: Sequence[Answer] | None = None, seed: int = 0
) -> widgets.VBox:
    """Return a button that shows one question after another, and what was found.

    Nothing is shown before the first click, so that no text of others is saved with a notebook.
    """
    if found is not None and len(found) != len(questions):
        raise ValueError(f"{len(questions)} questions, but {len(found)} answers")
    order = np.random.default_rng(seed).permutation(len(questions)).tolist()
    button, shown = widgets.Button(description="Show one"), widgets.HTML()
    button.disabled = not questions
    state = {"at": -1}

    def show(_: object = None) -> None:
        state["at"] = (state["at"] + 1) % len(order)
        number = order[state["at"]]
        shown.value = question_html(questions[number], found[number] if found else None)

    button.on_click(show)
    return widgets.VBox([button, shown])


def question_html(question: Question, found: Answer | None = None) -> str:
    """Write a question and its text, every right answer in bold between arrows."""
    parts, at = [], 0
    for text, start in sorted(question.answers, key=lambda answer: answer[1]):
        if start < at:
            continue  # it overlaps the one before
        parts += [html.escape(question.context[at:start]), f"<b>▸{html.escape(text)}◂</b>"]
        at = start + len(text)
    parts.append(html.escape(question.context[at:]))
    said = ""
    if found is not None:
        said = f"<p>found: <i>{html.escape(found.value) or '(nothing)'}</i></p>"
    right = "" if question.answers else "<p>(the text does not hold the answer)</p>"
    return f"<p><b>{html.escape(question.question)}</b></p><p>{''.join(parts)}</p>{right}{said}"
