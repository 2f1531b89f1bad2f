"""The text of a run: corpora, or a stream too big for memory, as word pieces by split."""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache

from bertedu.pretraining.next_sentence import EncodedDocument, encode_documents
from bertedu.text.corpus import DEFAULT_CORPORA, by_split, load_documents
from bertedu.text.fast_tokenizer import load_tokenizer
from bertedu.text.streaming import DocumentStream

Say = Callable[[str], None]  # print, or what is quieter


def load_splits(
    corpora: Sequence[str] = DEFAULT_CORPORA, say: Say = print
) -> dict[str, list[EncodedDocument]]:
    """Read corpora, cut them into sentences and word pieces: documents by split."""
    tokenizer = load_tokenizer()
    documents = (document for corpus in corpora for document in load_documents(corpus))
    splits = {}
    for split, members in by_split(documents).items():
        say(f"encoding {len(members):,} {split} documents")
        splits[split] = encode_documents(members, tokenizer)
    return splits


def stream_windows(where: str) -> Callable[[int], dict[str, list[EncodedDocument]]]:
    """Return a function from the number of a window of a stream to its documents by split."""
    stream, tokenizer = DocumentStream(where), load_tokenizer()

    @lru_cache(maxsize=1)  # the first is asked for three times: to start, to score, to train
    def window(number: int) -> dict[str, list[EncodedDocument]]:
        splits = by_split(d for d in stream.window(number) if d.text.strip())
        return {split: encode_documents(some, tokenizer) for split, some in splits.items()}

    return window


def with_company(documents: Sequence[EncodedDocument]) -> list[EncodedDocument]:
    """Leave out a document that is the only one of its source: no pair can be drawn for it."""
    count = Counter(document.source for document in documents if document.sentences)
    return [document for document in documents if count[document.source] > 1]
