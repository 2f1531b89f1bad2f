"""A tag for each word, by a model that reads word pieces (paper, section 5.3)."""

import re
import unicodedata
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from seqeval.scheme import IOB2, Entities
from tokenizers import Encoding, Tokenizer
from torch import Tensor, nn
from torch.nn import functional as F

from bertedu.finetuning.evaluation.metrics import TaskScores
from bertedu.finetuning.examples import Examples
from bertedu.finetuning.kinds import (
    NO_TARGET,
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
from bertedu.model.heads import TaggingHead

# Python's \w lacks the marks that Hindi, Thai and a decomposed é write above and below a letter,
# the soft hyphen, and the two joiners of Persian and Hindi
_MARKS = "".join(c for c in map(chr, range(2**16)) if unicodedata.category(c)[0] == "M")
_MARKS += "\u00ad\u200c\u200d"
_WORD = re.compile(rf"[\w{_MARKS}]+(?:[-'’][\w{_MARKS}]+)*|[^\w\s]")


def split_words(text: str) -> tuple[str, ...]:
    """Cut a sentence into words and punctuation: the units that are tagged."""
    return tuple(_WORD.findall(text))


def first_pieces(encoding: Encoding) -> dict[int, int]:
    """Return word number -> place of its first word piece; words that were cut off are left out."""
    positions: dict[int, int] = {}
    for position, word in enumerate(encoding.word_ids):
        if word is not None:
            positions.setdefault(word, position)
    return positions


@dataclass
class Tagging(Kind):
    """The first piece of a word carries its tag; the pieces after it are not asked."""

    labels: tuple[str, ...]  # the first is what a word gets that did not fit in
    columns = ("right", "found", "there")

    def encode(self, examples: Examples, tokenizer: Tokenizer, max_length: int) -> list[Item]:
        """One row for each sentence, with targets at first pieces only."""
        number_of = {tag: number for number, tag in enumerate(self.labels)}
        items = []
        with truncating(tokenizer, max_length):
            for number, example in enumerate(examples):
                row = tokenizer.encode(list(example.words), is_pretokenized=True)
                target = [NO_TARGET] * len(row.ids)
                for word, position in first_pieces(row).items():
                    target[position] = number_of[example.tags[word]]
                items.append(Item(number, (row,), target))
        return items

    def head(self, size: int, dropout: float) -> nn.Module:
        """K scores for each token."""
        return TaggingHead(size, len(self.labels), dropout)

    def scores(self, head: nn.Module, features: Features, batch: TaskBatch) -> Tensor:
        """Return a score for each tag of each token, (B, S, K)."""
        return head(features.tokens)

    def loss(self, scores: Tensor, batch: TaskBatch) -> Tensor:
        """Mean cross entropy over the words of the batch; 0 if none of them has a piece."""
        rows, target = scores.flatten(0, 1), batch.target.flatten()
        total = F.cross_entropy(rows, target, ignore_index=NO_TARGET, reduction="sum")
        return total / (target != NO_TARGET).sum().clamp(min=1)

    def answers(self, examples: Examples, items: Items, scores: ItemScores) -> list[Answer]:
        """Give each word the best tag of its first piece, one that was cut off the first tag."""
        answers = []
        for example, item, score in zip(examples, items, scores, strict=True):
            best, tags = score.argmax(-1).tolist(), [self.labels[0]] * len(example.words)
            for word, position in first_pieces(item.rows[0]).items():
                tags[word] = self.labels[best[position]]
            answers.append(Answer(tuple(tags)))
        return answers

    def outcomes(self, examples: Examples, answers: Sequence[Answer]) -> Outcomes:
        """Count entities for each sentence: found and right, found, there."""
        rows = []
        for example, answer in zip(examples, answers, strict=True):
            there, found = entities(example.tags), entities(answer.value)
            rows.append((len(there & found), len(found), len(there)))
        return np.array(rows, float)

    def metrics(self, outcomes: Outcomes) -> TaskScores:
        """Precision, recall and F1 of whole entities, as seqeval counts them (strict, IOB2)."""
        right, found, there = outcomes.sum(axis=0).tolist()
        return {
            "f1": 2 * right / (found + there) if found + there else 0.0,
            "precision": right / found if found else 0.0,
            "recall": right / there if there else 0.0,
        }


def entities(tags: Sequence[str]) -> set[tuple[str, int, int]]:
    """Return (type, first word, word after the last) of each entity; an I- without B- is none."""
    (some,) = Entities([list(tags)], IOB2).entities
    return {(entity.tag, entity.start, entity.end) for entity in some}


def iob2(tags: Sequence[str]) -> tuple[str, ...]:
    """Begin every entity with B-, where an I- follows no tag of its type."""
    return tuple(
        f"B-{tag[2:]}" if tag.startswith("I-") and last[2:] != tag[2:] else tag
        for last, tag in pairwise(("O", *tags))
    )


def known_spans(
    words: tuple[str, ...], known: Container[tuple[str, ...]], longest: int
) -> Iterator[tuple[int, int]]:
    """Yield (first word, word after the last) of what is known, from the left, the longest first.

    ``longest`` is the number of words of the longest that is known.
    """
    start = 0
    while start < len(words):
        ends = range(min(start + longest, len(words)), start, -1)
        end = next((end for end in ends if words[start:end] in known), None)
        if end:
            yield start, end
        start = end or start + 1
