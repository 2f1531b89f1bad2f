"""Mark the answer in a text: a start and an end, or nothing (paper, sections 4.2 and 4.3)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from tokenizers import Encoding, Tokenizer
from torch import Tensor, nn
from torch.nn import functional as F

from bertedu.finetuning.evaluation import metrics
from bertedu.finetuning.evaluation.metrics import TaskScores
from bertedu.finetuning.examples import Examples
from bertedu.finetuning.kinds import (
    Answer,
    Item,
    Items,
    ItemScores,
    Kind,
    Outcomes,
    TaskBatch,
    truncating,
)
from bertedu.model.features import Features
from bertedu.model.heads import SpanHead

STRIDE = 48  # tokens that a window shares with the one before it
ROOM = 32  # tokens of context that a question must leave room for, or it is cut
LONGEST_ANSWER = 30  # tokens


def context_positions(row: Encoding, segment: int = 1) -> list[int]:
    """Return the places of the context's tokens: its segment, B, without [SEP]."""
    return [position for position, part in enumerate(row.sequence_ids) if part == segment]


def answer_position(row: Encoding, start: int, end: int, segment: int = 1) -> tuple[int, int]:
    """Return the first and last token of characters start to end; (0, 0), `[CLS]`, if not there."""
    positions, offsets = context_positions(row, segment), row.offsets  # made anew when asked for
    # a token belongs to it if they share a character; the space before it, or an accent of its own
    # behind it, may belong to no token
    inside = [p for p in positions if offsets[p][0] < end and offsets[p][1] > start]
    if not inside or offsets[positions[0]][0] > start or offsets[positions[-1]][1] < end:
        return 0, 0  # the answer is in another window, or cut in two by the end of this one
    return inside[0], inside[-1]


def best_span(start: Tensor, end: Tensor, positions: Sequence[int]) -> tuple[float, int, int]:
    """Return the highest start + end score, and its two places; the end is not before the start.

    ``start`` and ``end`` are (S,); ``positions`` are the tokens that may be marked.
    """
    allowed = torch.tensor(positions)
    sums = start[allowed][:, None] + end[allowed][None, :]  # (P, P)
    window = torch.ones_like(sums, dtype=torch.bool).triu().tril(LONGEST_ANSWER - 1)
    sums = sums.masked_fill(~window, -math.inf)
    first, last = divmod(int(sums.argmax()), len(positions))
    return float(sums[first, last]), positions[first], positions[last]


@dataclass
class QuestionAnswering(Kind):
    """Start and end scores over the context; a long context is read in windows.

    With ``can_be_none``, "none" is scored at `[CLS]`, and said when its score is above the best
    span's by more than ``threshold``, which is set on dev (paper, section 4.3). ``by_character``
    is for Korean (see `character_f1`). The paper asks first; without ``question_first`` the context
    is segment A and the question B.
    """

    can_be_none: bool = False
    threshold: float = math.inf
    by_character: bool = False
    question_first: bool = True
    columns = ("exact", "f1", "answerable")

    def encode(self, examples: Examples, tokenizer: Tokenizer, max_length: int) -> list[Item]:
        """One row for each window: the question is segment A, a part of the context B."""
        items, part = [], int(self.question_first)
        with truncating(tokenizer, max_length):
            questions = [tokenizer.encode(example.question) for example in examples]
        for number, (example, asked) in enumerate(zip(examples, questions, strict=True)):
            length = len(asked.ids)
            if max_length - length - 1 < ROOM:
                length = min(length, max_length // 2)
            question = example.question[: max(end for _, end in asked.offsets[: length - 1])]
            stride = min(STRIDE, (max_length - length - 1) // 2)
            texts = (question, example.context)
            long_one = ("only_first", "only_second")[part]
            with truncating(tokenizer, max_length, stride, long_one):
                row = tokenizer.encode(*(texts if part else texts[::-1]))
            text, start = example.answers[0] if example.answers else ("", 0)
            # to its last token: no window can lack an accent of its own, which belongs to none
            read = tokenizer.encode(text, add_special_tokens=False).offsets or [(0, 0)]
            for window in (row, *row.overflowing):
                target = answer_position(window, start + read[0][0], start + read[-1][1], part)
                items.append(Item(number, (window,), target))
        return items

    def head(self, size: int, dropout: float) -> nn.Module:
        """A start and an end score for each token."""
        return SpanHead(size)

    def scores(self, head: nn.Module, features: Features, batch: TaskBatch) -> Tensor:
        """Return start and end scores, (B, 2, S); at padding the lowest number there is."""
        scores = head(features.tokens).movedim(0, 1)
        return scores.masked_fill(~batch.padding_mask[:, None], torch.finfo(scores.dtype).min)

    def loss(self, scores: Tensor, batch: TaskBatch) -> Tensor:
        """Mean of the cross entropies of start and end, each over the tokens of its window."""
        return F.cross_entropy(scores.flatten(0, 1), batch.target.flatten())

    def answers(self, examples: Examples, items: Items, scores: ItemScores) -> list[Answer]:
        """Return the best span of all windows of each question, or "" where none is likelier."""
        best = [(-math.inf, 0, 0)] * len(examples)  # score, first and last character
        none = [math.inf] * len(examples)
        for item, (start, end) in zip(items, scores, strict=True):
            (row,), number = item.rows, item.example
            # "none" must be likely in every window: one that holds the answer speaks against it
            none[number] = min(none[number], float(start[0] + end[0]))
            if positions := context_positions(row, int(self.question_first)):
                score, first, last = best_span(start, end, positions)
                if score > best[number][0]:
                    best[number] = score, row.offsets[first][0], row.offsets[last][1]
        answers = []
        for example, (score, begins, ends), no_answer in zip(examples, best, none, strict=True):
            silent = self.can_be_none and no_answer - score > self.threshold
            text = "" if silent else example.context[begins:ends]
            answers.append(Answer(text, start=begins, no_answer=no_answer - score))
        return answers

    def calibrate(self, examples: Examples, items: Items, scores: ItemScores) -> None:
        """Choose the threshold that gives the best F1."""
        if not self.can_be_none:
            return
        self.threshold = math.inf  # so that every question gets an answer to compare "none" with
        answers = self.answers(examples, items, scores)
        found = {q.name: answer.value for q, answer in zip(examples, answers, strict=True)}
        none = {q.name: answer.no_answer for q, answer in zip(examples, answers, strict=True)}
        self.threshold = metrics.best_threshold(examples, found, none, self._f1_of)

    @property
    def _f1_of(self) -> metrics.F1:
        return metrics.character_f1 if self.by_character else metrics.word_f1

    def outcomes(self, examples: Examples, answers: Sequence[Answer]) -> Outcomes:
        """Exact match and F1 of each question (0 to 1), and whether it has an answer."""
        return metrics.squad_outcomes(examples, [answer.value for answer in answers], self._f1_of)

    def metrics(self, outcomes: Outcomes) -> TaskScores:
        """Exact match and F1, 0 to 1; with both kinds of question there, each by itself as well."""
        scores = metrics.squad_means(outcomes)
        return {"character_f1": scores.pop("f1"), **scores} if self.by_character else scores
