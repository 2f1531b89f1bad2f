"""Next sentence prediction: pairs of spans, half of them real neighbors (paper, 3.1, task 2)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from bertedu.text.corpus import Document

IS_NEXT, NOT_NEXT = 0, 1  # the order of the paper's classifier


@dataclass(frozen=True)
class EncodedDocument:
    """A document as word-piece ids, one list per sentence."""

    source: str
    sentences: list[list[int]]


@dataclass(frozen=True)
class Pair:
    """Two spans of word-piece ids, without special tokens, and whether B follows A."""

    a: list[int]
    b: list[int]
    label: int
    document: int = 0  # the number of the one that A is of


def make_pairs(
    documents: Sequence[EncodedDocument], length: int, rng: np.random.Generator
) -> Iterator[Pair]:
    """Walk through every document once and cut it into pairs of at most ``length`` - 3 ids.

    A is one or more whole sentences. With probability one half, B is what follows; otherwise it
    starts at a random sentence of *another document of the same source*: from another
    source, style and spelling alone would give the answer away. The sentences that a random B
    displaced come next as an A of their own. No pair crosses the end of a document, and a document
    of one sentence serves as B only.

    A random B is given the same room as a real one. Where documents are hardly longer than that
    room, a real B still shows: it is what A has left of its document, so it is shorter, and it
    never opens one. `outward_signs` measures both. Raises ValueError if some source has fewer than
    two documents, or ``length`` leaves no room for two spans.
    """
    room = length - 3  # [CLS] A [SEP] B [SEP]
    if room < 2:
        raise ValueError(f"length {length} leaves no room for two spans; use at least 5")
    by_source: dict[str, list[int]] = {}
    for index, document in enumerate(documents):
        if document.sentences:
            by_source.setdefault(document.source, []).append(index)
    for source, members in by_source.items():
        if len(members) < 2:
            raise ValueError(
                f"source {source!r} has one document; a NotNext pair needs another to draw from. "
                "Put a blank line between its chapters or articles, in a folder a file for each; "
                "or leave the pairs out of the loss, with --variant no-nsp."
            )
    for index, document in enumerate(documents):
        sentences, start = document.sentences, 0
        while start + 1 < len(sentences):
            end, size = start + 2, len(sentences[start]) + len(sentences[start + 1])
            while end < len(sentences) and size < room:
                size += len(sentences[end])
                end += 1
            split = int(rng.integers(start + 1, end))
            a = _join(sentences[start:split])
            if rng.random() < 0.5:
                b, label, start = _join(sentences[split:end]), IS_NEXT, end
            else:
                other = _other(by_source[document.source], index, rng)
                b = _random_span(documents[other], room - len(a), rng)
                label, start = NOT_NEXT, split
            yield Pair(*truncate_pair(a, b, room, rng), label, index)


OPENING = 8  # ids by which the start of a document is recognized


def outward_signs(
    pairs: Sequence[Pair], documents: Sequence[EncodedDocument]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Look at what needs no reading of A: how long B is, and whether it opens a document.

    Returns three arrays (N,): the length of B in ids, whether it starts as one of ``documents``
    starts (with the same `OPENING` ids), and the label.
    """
    starts = {tuple(_join(document.sentences[:OPENING])[:OPENING]) for document in documents}
    lengths = np.array([len(pair.b) for pair in pairs])
    opens = np.array([tuple(pair.b[:OPENING]) in starts for pair in pairs])
    return lengths, opens, np.array([pair.label for pair in pairs])


def truncate_pair(
    a: list[int], b: list[int], room: int, rng: np.random.Generator
) -> tuple[list[int], list[int]]:
    """Cut the longer span until both fit.

    Each span loses its front or its back, with equal chance; a span so long that its middle would
    never be seen keeps any stretch. So over the epochs every token is seen.
    """
    keep_a = min(len(a), max(room - len(b), (room + 1) // 2))
    keep_b = min(len(b), room - keep_a)
    chance_a, chance_b = rng.random(2)
    return _stretch(a, keep_a, chance_a), _stretch(b, keep_b, chance_b)


def encode_documents(documents: Sequence[Document], tokenizer: object) -> list[EncodedDocument]:
    """Encode every sentence with a `tokenizers.Tokenizer`, special tokens left out."""
    sentences = [document.sentences() for document in documents]
    flat = [sentence for document in sentences for sentence in document]
    encoded = iter(tokenizer.encode_batch_fast(flat, add_special_tokens=False))  # type: ignore[attr-defined]
    return [
        EncodedDocument(
            document.source, [e.ids for _, e in zip(own, encoded, strict=False) if e.ids]
        )
        for document, own in zip(documents, sentences, strict=True)
    ]


def _join(sentences: Sequence[list[int]]) -> list[int]:
    return [token for sentence in sentences for token in sentence]


def _other(members: list[int], index: int, rng: np.random.Generator) -> int:
    while (other := members[int(rng.integers(len(members)))]) == index:
        pass
    return other


def _stretch(span: list[int], keep: int, chance: float) -> list[int]:
    cut = len(span) - keep
    start = int(chance * (cut + 1)) if cut > keep else cut if chance < 0.5 else 0
    return span[start : start + keep]


def _random_span(document: EncodedDocument, room: int, rng: np.random.Generator) -> list[int]:
    """Take one sentence, and those after it until ``room`` is filled."""
    start = int(rng.integers(len(document.sentences)))
    span: list[int] = []
    for sentence in document.sentences[start:]:
        span += sentence
        if len(span) >= room:
            break
    return span
