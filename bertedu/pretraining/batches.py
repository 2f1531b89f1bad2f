"""A recipe, and the batches that it makes of documents. All chance comes from (seed, epoch, index),
so any step can be made again without a memory of those before: that makes `--resume` exact."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from bertedu.model.config import BertConfig, Direction
from bertedu.model.variants.diffusion import hide_some
from bertedu.optimization import scheduled_rate
from bertedu.pretraining.masking import PAPER, mask_tokens
from bertedu.pretraining.next_sentence import EncodedDocument, Pair, encode_documents, make_pairs
from bertedu.text.corpus import DEFAULT_CORPORA, SPLITS, Document, by_split, load_documents
from bertedu.text.fast_tokenizer import load_tokenizer
from bertedu.text.streaming import DocumentStream
from bertedu.text.tokenization import CLS_ID, MASK_ID, PAD_ID, SEP_ID, SPECIAL_TOKENS, UNK_ID

# --- The recipe ---------------------------------------------------------------------------------

# which words a model is asked for: hidden ones; the next one everywhere; or hidden ones, of each
# text another share, drawn from none to all
Question = Literal["masked", "next", "drawn"]
Optimizer = Literal["adamw", "muon"]


@dataclass(frozen=True)
class Phase:
    """A stretch of training: ``share`` of all steps, at one length, batch size and masking rate."""

    share: float
    length: int
    batch_size: int
    mask_rate: float = 0.15


@dataclass(frozen=True)
class Recipe:
    """How to train. The defaults learn most per minute on a small machine; see data/README.md.

    The paper's own: length 128 for 90 % of the steps, then 512; batch 256; 15 %; learning rate
    1e-4; 10,000 of 1,000,000 steps of warm-up; dropout 0.1.
    """

    steps: int
    learning_rate: float = 1e-3
    warmup_share: float = 0.02
    weight_decay: float = 0.01
    clip_norm: float = 1.0
    seed: int = 0
    next_sentence: bool = True  # whether the loss has this part
    masking: tuple[float, float] = PAPER  # share of [MASK], of random words (section 3.1)
    question: Question | None = None  # None: masked words of a bidirectional model, else next ones
    optimizer: Optimizer = "adamw"
    phases: tuple[Phase, ...] = (Phase(0.7, 64, 32, 0.30), Phase(0.3, 128, 16, 0.15))

    def phase_at(self, step: int) -> int:
        """Return the index of the phase that holds a step."""
        end = 0.0
        for index, phase in enumerate(self.phases):
            end += phase.share * self.steps
            if step < round(end):
                return index
        return len(self.phases) - 1

    def learning_rate_at(self, step: int) -> float:
        """Rise linearly from 0 during warm-up, then fall linearly to 0 (paper, appendix A.2)."""
        return scheduled_rate(step, self.steps, self.learning_rate, self.warmup_share)


def recipe_from(values: dict[str, Any]) -> Recipe:
    """Make a recipe of what a state or `training.json` holds; what it lacks has its default."""
    phases = tuple(Phase(**phase) for phase in values["phases"])
    return Recipe(**{**values, "phases": phases, "masking": tuple(values.get("masking", PAPER))})


# --- Text ---------------------------------------------------------------------------------------

Splits = dict[str, list[EncodedDocument]]
# All documents, read again in every epoch; or a function that gives those of an epoch, when there
# are too many to hold.
Text = Sequence[EncodedDocument] | Callable[[int], Sequence[EncodedDocument]]
Say = Callable[[str], None]  # print, or what is quieter
FEWEST = 40  # documents of a corpus before some are held out: of fewer, training may be left none


def load_splits(corpora: Sequence[str] = DEFAULT_CORPORA, say: Say = print) -> Splits:
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
    sentences = [sentence for document in splits["train"] for sentence in document.sentences]
    unknown, pieces = sum(s.count(UNK_ID) for s in sentences), sum(map(len, sentences))
    if unknown > 0.1 * pieces:
        said = f"{unknown / pieces:.0%} of the word pieces are [UNK]"
        say(f"{said}: this vocabulary was not made for such text")
    return splits


def stream_windows(where: str) -> Callable[[int], Splits]:
    """Return a function from the number of a window of a stream to its documents by split."""
    stream, tokenizer = DocumentStream(where), load_tokenizer()

    @lru_cache(maxsize=1)  # the first is asked for three times: to start, to score, to train
    def window(number: int) -> Splits:
        splits = by_split(d for d in stream.window(number) if d.text.strip())
        return {split: encode_documents(some, tokenizer) for split, some in splits.items()}

    return window


def with_company(documents: Sequence[EncodedDocument]) -> list[EncodedDocument]:
    """Leave out a document that is the only one of its source: no pair can be drawn for it."""
    count = Counter(document.source for document in documents if document.sentences)
    return [document for document in documents if count[document.source] > 1]


def halved(documents: Sequence[EncodedDocument]) -> list[EncodedDocument]:
    """Cut a document that is the only one of its source in two, where no loss asks what follows."""
    company = {document.source for document in with_company(documents)}
    parts = []
    for document in documents:
        half = 0 if document.source in company else len(document.sentences) // 2
        cut = document.sentences[:half], document.sentences[half:]
        parts += [EncodedDocument(document.source, some) for some in cut if some]
    return parts


# --- Batches ------------------------------------------------------------------------------------


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
    documents: Tensor | None = None  # (B,), numbers: rows of one document are not independent

    def to(self, device: torch.device) -> "Batch":
        """Move every tensor to a device."""
        return self._each(lambda name, tensor: tensor.to(device))

    def part(self, number: int, count: int) -> "Batch":
        """Return every ``count``-th row, from row ``number`` on."""
        mine = self.ids.new_zeros(len(self.ids), dtype=torch.bool)
        mine[number::count] = True
        in_mine = mine[self.selected.nonzero()[:, 0]]  # (n,)
        of_labels = ("labels", "weights")
        return self._each(lambda name, tensor: tensor[in_mine if name in of_labels else mine])

    def _each(self, change: Callable[[str, Tensor], Tensor]) -> "Batch":
        return Batch(**{n: change(n, t) for n, t in vars(self).items() if t is not None})


@dataclass(frozen=True)
class Position:
    """Where in the stream of batches we are: batch ``index`` of ``epoch``."""

    epoch: int = 0
    index: int = 0


@dataclass(frozen=True)
class PackedPairs:
    """The pairs of an epoch, shuffled, padded: ids, segments (N, S); three numbers of each (N,)."""

    ids: np.ndarray
    segments: np.ndarray
    sizes: np.ndarray
    labels: np.ndarray
    documents: np.ndarray


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
    documents = np.array([pairs[i].document for i in order], dtype=np.int64)
    return PackedPairs(ids, segments, sizes, labels, documents)


def batches(
    documents: Text, config: BertConfig, recipe: Recipe, phase: Phase, start: Position | None = None
) -> Iterator[tuple[Batch, Position]]:
    """Yield the batches of a phase without end, and after each the position of the next one.

    What is asked follows the recipe's ``question`` (`Question`), "drawn" weighted by 1 / share
    (masked diffusion). The pairs are the same for all.
    Every epoch draws its pairs and masks anew (dynamic masking). Raises ValueError if no batch can
    be filled.
    """
    epoch, first = (start.epoch, start.index) if start else (0, 0)
    size, asked = phase.batch_size, (config.direction, recipe.masking, recipe.question)
    while True:
        rng = np.random.default_rng([recipe.seed, epoch])
        here = documents(epoch) if callable(documents) else documents
        packed = pack_pairs(list(make_pairs(here, phase.length, rng)), phase.length, rng)
        count = len(packed.sizes) // size
        if not count:
            raise ValueError(
                f"{len(packed.sizes)} pairs do not fill one batch of {size}: use a smaller batch, "
                "or more text (a document of one sentence makes no pair)"
            )
        for index in range(first, count):
            rows, seed = slice(index * size, (index + 1) * size), [recipe.seed, epoch, index + 1]
            batch = make_batch(packed, rows, config.vocab_size, seed, phase.mask_rate, *asked)
            yield batch, Position(epoch, index + 1)
        epoch, first = epoch + 1, 0


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
        ids, (selected, labels) = original, next_words(original, direction)
    return Batch(
        ids=ids,
        segment_ids=torch.from_numpy(packed.segments[rows, :size].astype(np.int64)),
        padding_mask=torch.arange(size) < torch.from_numpy(packed.sizes[rows])[:, None],
        selected=selected,
        labels=labels,
        next_labels=torch.from_numpy(packed.labels[rows]),
        weights=weights,
        documents=torch.from_numpy(packed.documents[rows]),
    )


def next_words(ids: Tensor, direction: Direction) -> tuple[Tensor, Tensor]:
    """Say which position is to predict which word, when nothing is masked.

    Left to right, position t predicts token t + 1; right to left, token t - 1. Every word is a
    target; special tokens and padding are not, as in masking. Of (B, S) token ids, unchanged,
    returns bool (B, S), true at the n positions that predict something, and the n words they
    should. A bidirectional model sees the word that it would have to predict: ValueError.
    """
    if direction == "bidirectional":
        raise ValueError("a bidirectional model sees the next word: mask words instead")
    to_left = direction == "right-to-left"
    targets = ids.roll(1 if to_left else -1, dims=1)
    predicts = targets >= len(SPECIAL_TOKENS)
    predicts[:, 0 if to_left else -1] = False  # there, the roll has brought in the other end
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
    asked = (direction, PAPER, question)
    return [
        make_batch(packed, slice(i, i + batch_size), vocab_size, [seed, i], 0.15, *asked)
        for i in range(0, len(packed.sizes), batch_size)
    ]
