"""What both sides are fed: real held-out text if it has been fetched, else random word pieces."""

import numpy as np

from bertedu.pretraining.batches import Batch, PackedPairs, fixed_batches, make_batch
from bertedu.pretraining.next_sentence import EncodedDocument, encode_documents
from bertedu.text.corpus import DEFAULT_CORPORA, load_documents
from bertedu.text.fast_tokenizer import load_tokenizer
from bertedu.text.sources import find
from bertedu.text.tokenization import CLS_ID, PAD_ID, SEP_ID, SPECIAL_TOKENS


def load_batches(count: int, size: int, length: int, vocab_size: int) -> tuple[list[Batch], str]:
    """Make ``count`` batches of (size, length) with 15 % selected, and say what they are."""
    if all(find(name).path.is_file() for name in DEFAULT_CORPORA):
        return real_batches(count, size, length, vocab_size), " and ".join(DEFAULT_CORPORA)
    return random_batches(count, size, length, vocab_size), "random ids"


def load_text() -> list[EncodedDocument]:
    """Return held-out documents if they have been fetched, else as many of random word pieces."""
    if all(find(name).path.is_file() for name in DEFAULT_CORPORA):
        return real_documents()
    rng = np.random.default_rng(0)

    def sentence() -> list[int]:
        ids: list[int] = rng.integers(len(SPECIAL_TOKENS), 8192, rng.integers(5, 50)).tolist()
        return ids

    return [
        EncodedDocument("random", [sentence() for _ in range(rng.integers(2, 20))])
        for _ in range(500)
    ]


def real_documents() -> list[EncodedDocument]:
    """Encode the held-out documents of the default corpora."""
    documents = [
        document
        for corpus in DEFAULT_CORPORA
        for document in load_documents(corpus)
        if document.split == "dev"
    ]
    return encode_documents(documents, load_tokenizer())


def real_batches(count: int, size: int, length: int, vocab_size: int) -> list[Batch]:
    """Make batches of the held-out documents of the default corpora."""
    batches = fixed_batches(real_documents(), length, size, vocab_size)
    return [batch for batch in batches if batch.ids.shape == (size, length)][:count]


def random_batches(count: int, size: int, length: int, vocab_size: int) -> list[Batch]:
    """Make batches of random word pieces in two segments, padded as much as real ones are."""
    rng = np.random.default_rng(0)
    rows = count * size
    sizes = rng.integers(length * 9 // 10, length, rows, endpoint=True)  # real: 95-97 % filled
    sizes[::size] = length  # one row of each batch is full, so that all have the same width
    ids = rng.integers(len(SPECIAL_TOKENS), vocab_size, (rows, length), dtype=np.int32)
    ids[:, 0], ids[:, length // 2] = CLS_ID, SEP_ID
    ids[np.arange(rows), sizes - 1] = SEP_ID
    place = np.arange(length)
    inside = place < sizes[:, None]
    ids[~inside] = PAD_ID
    segments = ((place > length // 2) & inside).astype(np.int8)
    packed = PackedPairs(ids, segments, sizes, rng.integers(0, 2, rows))
    return [
        make_batch(packed, slice(start, start + size), vocab_size, [0, start], mask_rate=0.15)
        for start in range(0, rows, size)
    ]


def one_sentence(batch: Batch, length: int) -> Batch:
    """Cut the first ``length`` tokens of the first row out of a batch: one input, no padding."""
    cut = slice(0, 1), slice(0, length)
    return Batch(
        ids=batch.ids[cut],
        segment_ids=batch.segment_ids[cut],
        padding_mask=batch.padding_mask[cut],
        selected=batch.selected[cut],
        labels=batch.labels[: int(batch.selected[cut].sum())],
        next_labels=batch.next_labels[:1],
    )
