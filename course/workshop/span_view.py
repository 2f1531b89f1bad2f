"""An answer shown in its text: where it could start, where it could end, what was marked."""

import html
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from tokenizers import Tokenizer

from bertedu.analysis.views import BLUE, ORANGE
from bertedu.finetuning.examples import Question
from bertedu.finetuning.kinds import MAX_LENGTH, Answer
from bertedu.finetuning.question_answering import QuestionAnswering, context_positions
from bertedu.finetuning.training import TaskModel, score_items
from course.language import paragraph, spoken
from course.workshop.widgets import Playable, show_one


@dataclass(frozen=True)
class TextPiece:
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
    pieces: tuple[TextPiece, ...]
    none: TextPiece
    answer: tuple[int, int] | None

    @property
    def text(self) -> str:
        """The characters of the answer; "" for none."""
        return self.context[slice(*self.answer)] if self.answer else ""

    @property
    def alt(self) -> str:
        """Say in a sentence what is marked."""
        marked = f"“{self.text}” is marked" if self.answer else "nothing is marked"
        return spoken(f"Question: {self.question} In the text, {marked}.")

    def __repr__(self) -> str:
        """Return the alt text: what a reader without a browser gets."""
        return self.alt

    def _repr_html_(self) -> str:
        text, at = _bars("[CLS]", self.none) + " ", 0
        begin, end = self.answer or (-1, -1)
        for piece in self.pieces:
            between = html.escape(self.context[at : piece.begin])
            token = _bars(self.context[piece.begin : piece.end], piece)
            text += _marked(between) if begin < piece.begin < end else between
            text += _marked(token) if begin <= piece.begin < end else token
            at = piece.end
        text += html.escape(self.context[at:])
        marked = f"Marked: <b>{html.escape(self.text)}</b>" if self.answer else "Nothing is marked."
        blue = f"<span style='border-top:5px solid {BLUE}'>blue</span>"
        orange = f"<span style='border-bottom:5px solid {ORANGE}'>orange</span>"
        above = f"Bar above, {blue}: the answer may start here."
        below = f"Bar below, {orange}: it may end here. The darker, the likelier."
        return (
            f'<div role="group" aria-label="{html.escape(self.alt)}" style="font-size:120%">'
            f"<p><b>{html.escape(self.question)}</b></p>"
            f'<p style="line-height:2.3">{text}</p>'
            f"<p>{spoken(above)} {spoken(below)} {spoken(marked)}</p></div>"
        )


def _bars(text: str, piece: TextPiece) -> str:
    says = spoken(f"start {100 * piece.starts:.0f} %, end {100 * piece.ends:.0f} %")
    return (
        f'<span title="{says}" '
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
    likely, since every window must find nothing before "none" is said. Raises TypeError if the
    model does not mark answers.
    """
    kind = model.kind
    if not isinstance(kind, QuestionAnswering):
        raise TypeError(f"a {type(kind).__name__} marks no answer in a text")
    asked = Question("asked", question, context, ())
    items = kind.encode([asked], tokenizer, MAX_LENGTH)
    scores = score_items(model, items)
    (answer,) = kind.answers([asked], items, scores)
    # the shares of start and end in each window that a token stands in, and those of [CLS]
    shares: dict[tuple[int, int], list[tuple[float, float]]] = defaultdict(list)
    nones: list[tuple[float, float]] = []
    for item, window in zip(items, scores, strict=True):
        (row,) = item.rows
        both: list[tuple[float, float]] = list(zip(*window.softmax(-1).tolist(), strict=True))
        nones.append(both[0])
        for place in context_positions(row):
            shares[row.offsets[place]].append(both[place])
    pieces = tuple(
        TextPiece(*span, *map(max, zip(*shares[span], strict=True))) for span in sorted(shares)
    )
    none = TextPiece(0, 0, *map(min, zip(*nones, strict=True)))
    marked = (answer.start, answer.start + len(answer.value)) if answer.value else None
    return SpanView(question, context, pieces, none, marked)


def question_browser(questions: Sequence[Question], found: Sequence[Answer] = ()) -> Playable:
    """Return a button that shows one question after another, and what was ``found``, if given."""
    if found and len(found) != len(questions):
        raise ValueError(f"{len(questions)} questions, but {len(found)} answers")
    order = np.random.default_rng(0).permutation(len(questions)).tolist()
    return show_one(lambda i: question_html(questions[i], found[i] if found else None), order)


def question_html(question: Question, found: Answer | None = None) -> str:
    """Write a question and its text, every right answer in bold between arrows."""
    text, at = "", 0
    for right, start in sorted(question.answers, key=lambda answer: answer[1]):
        if start < at:
            continue  # it overlaps the one before
        text += f"{html.escape(question.context[at:start])}<b>▸{html.escape(right)}◂</b>"
        at = start + len(right)
    text += html.escape(question.context[at:])
    page = f"<p><b>{html.escape(question.question)}</b></p><p>{text}</p>"
    if not question.answers:
        page += paragraph("(the text does not hold the answer)")
    if found is not None:
        page += paragraph(f"found: <i>{html.escape(found.value) or spoken('(nothing)')}</i>")
    return page
