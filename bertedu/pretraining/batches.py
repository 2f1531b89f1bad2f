"""From documents to padded batches. All chance comes from (seed, epoch, index), so any step can be
made again without a memory of the steps before it: that is what makes `--resume` exact."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from bertedu.model.config import BertConfig, Direction
from bertedu.model.variants.diffusion import hide_some
from bertedu.pretraining.masking import PAPER, mask_tokens
from bertedu.pretraining.next_sentence import EncodedDocument, Pair, encode_documents, make_pairs
from bertedu.pretraining.recipe import Phase, Question, Recipe
from bertedu.text.corpus import DEFAULT_CORPORA, SPLITS, Document, by_split, load_documents
from bertedu.text.fast_tokenizer import load_tokenizer
from bertedu.text.tokenization import CLS_ID, MASK_ID, PAD_ID, SEP_ID, SPECIAL_TOKENS

# All documents, read again in every epoch; or a function that gives those of an epoch, when there
# are too many to hold.
Text = Sequence[EncodedDocument] | Callable[[int], Sequence[EncodedDocument]]
Say = Callable[[str], None]  # print, or what is quieter
FEWEST = 40  # documents of a corpus before some are held out: of fewer, training may be left none


def load_splits(
    corpora: Sequence[str] = DEFAULT_CORPORA, say: Say = print
) -> dict[str, list[EncodedDocument]]:
    """Read corpora, cut them into sentences and word pieces: documents by split.

    A corpus of fewer than `FEWEST` documents is for training as a whole.
    """
    tokenizer = load_tokenizer()
    parts = {split: list[Document]() for split in SPLITS}
    for corpus in corpora:
        documents = load_documents(corpus)
        if few := len(documents) < FEWEST:
            say(f"{corpus} has fewer than {FEWEST} documents: none is held out, all are trained on")
        for split, members in ({"train": documents} if few else by_split(documents)).items():
            parts[split] += members
    splits = {}
    for split, members in parts.items():
        say(f"encoding {len(members):,} {split} documents")
        splits[split] = encode_documents(members, tokenizer)
    return splits


@dataclass(frozen=True)
class Batch:
    """One step's input. Tokens are (B, S); ``labels``: the n words to predict at ``selected``."""

    ids: Tensor  # (B, S), some of them changed by masking
    segment_ids: Tensor  # (B, S)
    padding_mask: Tensor  # (B, S), true at real tokens
    selected: Tensor  # (B, S), true where a word is to be predicted
    labels: Tensor  # (n,)
    next_labels: Tensor  # (B,), 0 IsNext, 1 NotNext
    weights: Tensor | None = None  # (n,), of the labels in the loss; none: all count the same

    def to(self, device: torch.device) -> "Batch":
        """Move every tensor to a device."""
        there = {name: value for name, value in vars(self).items() if value is not None}
        return Batch(**{name: tensor.to(device) for name, tensor in there.items()})

    def part(self, number: int, count: int) -> "Batch":
        """Return every ``count``-th row, from row ``number`` on."""
        mine = torch.zeros(len(self.ids), dtype=torch.bool)
        mine[number::count] = True
        in_mine = mine[self.selected.nonzero()[:, 0]]  # (n,)
        there = {name: value for name, value in vars(self).items() if value is not None}
        of_labels = ("labels", "weights")
        return Batch(**{n: t[in_mine if n in of_labels else mine] for n, t in there.items()})


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
    documents: Text, config: BertConfig, recipe: Recipe, phase: Phase, start: Position | None = None
) -> Iterator[tuple[Batch, Position]]:
    """Yield the batches of a phase without end, and after each the position of the next one.

    For a bidirectional model words are masked; a one-way model reads the text as it is, and
    predicts the next word everywhere. The pairs are the same. A ``question`` of the recipe says
    otherwise: asked for "masked" words, a one-way model has the batches of the bidirectional model;
    asked for "some next", it predicts at ``mask_rate`` of the places; "drawn" hides of each text
    another share of its words, and weights them by 1 / share (masked diffusion). Every epoch draws
    its pairs and masks anew (dynamic masking). Raises ValueError if the documents do not fill one
    batch.
    """
    epoch, index = (start.epoch, start.index) if start else (0, 0)
    while True:
        rng = np.random.default_rng([recipe.seed, epoch])
        here = documents(epoch) if callable(documents) else documents
        packed = pack_pairs(list(make_pairs(here, phase.length, rng)), phase.length, rng)
        count = len(packed.sizes) // phase.batch_size
        if not count:
            raise ValueError(
                f"{len(packed.sizes)} pairs do not fill one batch of {phase.batch_size}: "
                "use a smaller batch, or more text (a document of one sentence makes no pair)"
            )
        while index < count:
            rows = slice(index * phase.batch_size, (index + 1) * phase.batch_size)
            index += 1
            batch = make_batch(
                packed,
                rows,
                config.vocab_size,
                [recipe.seed, epoch, index],
                phase.mask_rate,
                config.direction,
                recipe.masking,
                recipe.question,
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
    """Mask some rows of an epoch, or ask for next words; no wider than the longest of them.

    ``masking``: of the selected tokens, the share of `[MASK]` and that of random words.
    """
    size = int(packed.sizes[rows].max())
    original = torch.from_numpy(packed.ids[rows, :size].astype(np.int64))
    number = int(np.random.SeedSequence(seed).generate_state(1)[0])
    generator = torch.Generator().manual_seed(number)
    if question is None:
        question = "masked" if direction == "bidirectional" else "next"
    weights = None
    if question == "drawn":
        selected, share = hide_some(original, generator)
        ids, labels = original.masked_fill(selected, MASK_ID), original[selected]
        words = (original >= len(SPECIAL_TOKENS)).sum()  # the loss is in nats for each of them
        weights = (len(labels) / words / share).expand_as(original)[selected]
    elif question == "masked":
        ids, selected = mask_tokens(original, vocab_size, generator, mask_rate, *masking)
        labels = original[selected]
    else:
        asked = mask_rate if question == "some next" else 1.0
        ids, (selected, labels) = original, next_words(original, direction, asked, generator)
    return Batch(
        ids=ids,
        segment_ids=torch.from_numpy(packed.segments[rows, :size].astype(np.int64)),
        padding_mask=torch.arange(size) < torch.from_numpy(packed.sizes[rows])[:, None],
        selected=selected,
        labels=labels,
        next_labels=torch.from_numpy(packed.labels[rows]),
        weights=weights,
    )


def next_words(
    ids: Tensor, direction: Direction, share: float = 1.0, generator: torch.Generator | None = None
) -> tuple[Tensor, Tensor]:
    """Say which position is to predict which word, when nothing is masked.

    Left to right, position t predicts token t + 1; right to left, token t - 1. Every word is a
    target; special tokens and padding are not, as in masking. Of (B, S) token ids, unchanged,
    returns bool (B, S), true at the n positions that predict something, and the n words they
    should; of these a ``share``, drawn by ``generator``. A bidirectional model sees the word
    that it would have to predict: ValueError.
    """
    if direction == "bidirectional":
        raise ValueError("a bidirectional model sees the next word: mask words instead")
    to_left = direction == "right-to-left"
    targets = ids.roll(1 if to_left else -1, dims=1)
    predicts = targets >= len(SPECIAL_TOKENS)
    predicts[:, 0 if to_left else -1] = False  # there, the roll has brought in the other end
    if share < 1:
        predicts &= torch.rand(ids.shape, generator=generator) < share
    return predicts, targets[predicts]


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
