"""The text of a run: corpora, or a stream too big for memory, as word pieces by split."""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache

from bertedu.pretraining.next_sentence import EncodedDocument, encode_documents
from bertedu.text.corpus import DEFAULT_CORPORA, SPLITS, Document, by_split, load_documents
from bertedu.text.fast_tokenizer import load_tokenizer
from bertedu.text.streaming import DocumentStream

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


def halved(documents: Sequence[EncodedDocument]) -> list[EncodedDocument]:
    """Cut a document that is the only one of its source in two, where no loss asks what follows."""
    company = {document.source for document in with_company(documents)}
    parts = []
    for document in documents:
        half = 0 if document.source in company else len(document.sentences) // 2
        cut = document.sentences[:half], document.sentences[half:]
        parts += [EncodedDocument(document.source, some) for some in cut if some]
    return parts
