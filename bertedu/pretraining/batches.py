"""From pairs to padded batches. All chance comes from (seed, epoch, index), so any step can be
made again without a memory of the steps before it: that is what makes `--resume` exact."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from bertedu.model.config import Direction
from bertedu.pretraining.masking import PAPER, mask_tokens
from bertedu.pretraining.next_sentence import EncodedDocument, Pair, make_pairs
from bertedu.pretraining.next_word import next_words
from bertedu.pretraining.recipe import Question
from bertedu.text.tokenization import CLS_ID, PAD_ID, SEP_ID

# All documents, read again in every epoch; or a function that gives those of an epoch, when there
# are too many to hold.
Text = Sequence[EncodedDocument] | Callable[[int], Sequence[EncodedDocument]]


@dataclass(frozen=True)
class Batch:
    """One step's input. Tokens are (B, S); ``labels``: the n words to predict at ``selected``."""

    ids: Tensor  # (B, S), some of them changed by masking
    segment_ids: Tensor  # (B, S)
    padding_mask: Tensor  # (B, S), true at real tokens
    selected: Tensor  # (B, S), true where a word is to be predicted
    labels: Tensor  # (n,)
    next_labels: Tensor  # (B,), 0 IsNext, 1 NotNext

    def to(self, device: torch.device) -> "Batch":
        """Move every tensor to a device."""
        return Batch(**{name: tensor.to(device) for name, tensor in vars(self).items()})

    def part(self, number: int, count: int) -> "Batch":
        """Return every ``count``-th row, from row ``number`` on."""
        mine = torch.zeros(len(self.ids), dtype=torch.bool)
        mine[number::count] = True
        in_mine = mine[self.selected.nonzero()[:, 0]]  # (n,)
        rows = {name: t[mine] for name, t in vars(self).items() if name != "labels"}
        return Batch(**rows, labels=self.labels[in_mine])


@dataclass(frozen=True)
class Position:
    """Where in the stream of batches we are: batch ``index`` of ``epoch``."""

    epoch: int = 0
    index: int = 0


@dataclass(frozen=True)
class PackedPairs:
    """The pairs of an epoch, shuffled, padded: ids, segments (N, S), sizes, labels (N,)."""

    ids: np.ndarray
    segments: np.ndarray
    sizes: np.ndarray
    labels: np.ndarray


def pack_pairs(
    pairs: Sequence[Pair], length: int, rng: np.random.Generator | None = None
) -> PackedPairs:
    """Write pairs as `[CLS] A [SEP] B [SEP] [PAD] …`, shuffled if ``rng`` is given."""
    order = np.arange(len(pairs)) if rng is None else rng.permutation(len(pairs))
    ids = np.full((len(pairs), length), PAD_ID, dtype=np.int32)
    segments = np.zeros((len(pairs), length), dtype=np.int8)
    sizes = np.zeros(len(pairs), dtype=np.int32)
    for row, index in enumerate(order):
        pair = pairs[index]
        tokens = [CLS_ID, *pair.a, SEP_ID, *pair.b, SEP_ID]
        ids[row, : len(tokens)] = tokens
        segments[row, len(pair.a) + 2 : len(tokens)] = 1
        sizes[row] = len(tokens)
    labels = np.array([pairs[i].label for i in order], dtype=np.int64)
    return PackedPairs(ids, segments, sizes, labels)


def batches(
    documents: Text,
    length: int,
    batch_size: int,
    vocab_size: int,
    seed: int,
    mask_rate: float = 0.15,
    start: Position | None = None,
    direction: Direction = "bidirectional",
    masking: tuple[float, float] = PAPER,
    question: Question | None = None,
) -> Iterator[tuple[Batch, Position]]:
    """Yield batches without end, and after each the position of the next one.

    For a bidirectional model words are masked; a one-way model reads the text as it is, and
    predicts the next word everywhere. The pairs are the same. A ``question`` says otherwise: asked
    for "masked" words, a one-way model has the batches of the bidirectional model; asked for "some
    next", it predicts at ``mask_rate`` of the places. Every epoch draws its pairs and masks anew
    (dynamic masking). ``masking``: of the selected tokens, the share of
    `[MASK]` and that of random words. Raises ValueError if the documents do not fill one batch.
    """
    epoch, index = (start.epoch, start.index) if start else (0, 0)
    while True:
        rng = np.random.default_rng([seed, epoch])
        here = documents(epoch) if callable(documents) else documents
        packed = pack_pairs(list(make_pairs(here, length, rng)), length, rng)
        count = len(packed.sizes) // batch_size
        if not count:
            raise ValueError(
                f"{len(packed.sizes)} pairs do not fill one batch of {batch_size}: "
                "use a smaller batch, or more text (a document of one sentence makes no pair)"
            )
        while index < count:
            rows = slice(index * batch_size, (index + 1) * batch_size)
            index += 1
            chance = [seed, epoch, index]
            batch = make_batch(
                packed, rows, vocab_size, chance, mask_rate, direction, masking, question
            )
            yield batch, Position(epoch, index)
        epoch, index = epoch + 1, 0


def make_batch(
    packed: PackedPairs,
    rows: slice,
    vocab_size: int,
    seed: list[int],
    mask_rate: float,
    direction: Direction = "bidirectional",
    masking: tuple[float, float] = PAPER,
    question: Question | None = None,
) -> Batch:
    """Mask some rows of an epoch, or ask for next words; no wider than the longest of them."""
    size = int(packed.sizes[rows].max())
    original = torch.from_numpy(packed.ids[rows, :size].astype(np.int64))
    number = int(np.random.SeedSequence(seed).generate_state(1)[0])
    generator = torch.Generator().manual_seed(number)
    if question is None:
        question = "masked" if direction == "bidirectional" else "next"
    if question == "masked":
        ids, selected = mask_tokens(original, vocab_size, generator, mask_rate, *masking)
        labels = original[selected]
    else:
        share = mask_rate if question == "some next" else 1.0
        ids, (selected, labels) = original, next_words(original, direction, share, generator)
    return Batch(
        ids=ids,
        segment_ids=torch.from_numpy(packed.segments[rows, :size].astype(np.int64)),
        padding_mask=torch.arange(size) < torch.from_numpy(packed.sizes[rows])[:, None],
        selected=selected,
        labels=labels,
        next_labels=torch.from_numpy(packed.labels[rows]),
    )


def fixed_batches(
    documents: Sequence[EncodedDocument],
    length: int,
    batch_size: int,
    vocab_size: int,
    seed: int = 2018,
    direction: Direction = "bidirectional",
    question: Question | None = None,
) -> list[Batch]:
    """Make the batches of one pass over held-out documents, the same at every call."""
    rng = np.random.default_rng([seed])
    packed = pack_pairs(list(make_pairs(documents, length, rng)), length, rng)
    return [
        make_batch(
            packed,
            slice(i, i + batch_size),
            vocab_size,
            [seed, i],
            0.15,
            direction,
            question=question,
        )
        for i in range(0, len(packed.sizes), batch_size)
    ]
