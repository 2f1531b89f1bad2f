"""From examples to batches: what goes through the model at once, and what is asked of it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from tokenizers import Encoding, Tokenizer
from torch import Tensor

from bertedu.finetuning.examples import TaskError

MAX_LENGTH = 128  # the positions that this course pre-trains; longer texts are cut or windowed
_CHUNK = 16  # batches among which rows of like length are brought together


@dataclass(frozen=True)
class Item:
    """One example, or one window of a long one."""

    example: int  # its number in the list that was encoded
    rows: tuple[Encoding, ...]  # of tokens: one, or one for each choice
    target: Any  # a number, the start and the end of an answer, or a tag for each token

    @property
    def length(self) -> int:
        """Tokens of the longest row."""
        return max(len(row.ids) for row in self.rows)


@dataclass
class TaskBatch:
    """Padded token rows; with choices, those of one item follow one another."""

    ids: Tensor  # (R, S), R rows
    segment_ids: Tensor  # (R, S)
    padding_mask: Tensor  # (R, S)
    target: Tensor  # (B,), (B, 2) or (B, S), by the kind of task
    items: Sequence[Item]

    def to(self, device: torch.device) -> "TaskBatch":
        """Copy to a device."""
        tensors = (self.ids, self.segment_ids, self.padding_mask, self.target)
        ids, segment_ids, padding_mask, target = (tensor.to(device) for tensor in tensors)
        return TaskBatch(ids, segment_ids, padding_mask, target, self.items)


NO_TARGET = -100  # where nothing is asked: padding, and the second and later pieces of a word


def collate(items: Sequence[Item]) -> TaskBatch:
    """Pad some items to the longest of them."""
    rows = [row for item in items for row in item.rows]
    length = max(len(row.ids) for row in rows)

    def padded(values: list[list[int]], filler: int = 0) -> Tensor:
        return torch.tensor([some + [filler] * (length - len(some)) for some in values])

    targets = [item.target for item in items]
    return TaskBatch(
        padded([row.ids for row in rows]),
        padded([row.type_ids for row in rows]),
        padded([[1] * len(row.ids) for row in rows]).bool(),
        padded(targets, NO_TARGET) if isinstance(targets[0], list) else torch.tensor(targets),
        items,
    )


def training_batches(
    items: Sequence[Item], size: int, seed: int, epoch: int
) -> Iterator[TaskBatch]:
    """Yield all items once, in an order that the seed and the epoch decide.

    Rows of like length meet in a batch, so that little is padded: items are shuffled, sorted
    within chunks of 16 batches, and the batches are shuffled again.
    """
    generator = np.random.default_rng([seed, epoch])
    shuffled = [items[i] for i in generator.permutation(len(items))]
    batches: list[list[Item]] = []
    for begin in range(0, len(items), size * _CHUNK):
        chunk = sorted(shuffled[begin : begin + size * _CHUNK], key=lambda item: item.length)
        batches += [chunk[i : i + size] for i in range(0, len(chunk), size)]
    for i in generator.permutation(len(batches)):
        yield collate(batches[i])


def scoring_batches(items: Sequence[Item], size: int = 64) -> Iterator[tuple[list[int], TaskBatch]]:
    """Yield all items once, sorted by length, with the places they had."""
    order = sorted(range(len(items)), key=lambda i: items[i].length)
    for begin in range(0, len(order), size):
        chosen = order[begin : begin + size]
        yield chosen, collate([items[i] for i in chosen])


@contextmanager
def truncating(
    tokenizer: Tokenizer, max_length: int, stride: int = 0, strategy: str = "longest_first"
) -> Iterator[Tokenizer]:
    """Cut what is too long, or with ``stride`` keep it in ``Encoding.overflowing``.

    Afterwards the tokenizer cuts as it did before. Raises TaskError if ``max_length`` leaves no
    room for text beside `[CLS]` and `[SEP]`.
    """
    if max_length < 8:
        raise TaskError(f"max_length {max_length} is too short: there is no room for two texts")
    before = tokenizer.truncation
    tokenizer.enable_truncation(max_length, stride=stride, strategy=strategy)
    try:
        yield tokenizer
    finally:
        tokenizer.no_truncation()
        if before:
            tokenizer.enable_truncation(**before)
