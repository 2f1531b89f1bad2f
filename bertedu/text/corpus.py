"""Documents, paragraphs, sentences, and the one split that everything shares.

BERT needs *documents*, not shuffled sentences: next sentence prediction asks whether two spans
follow each other (paper, section 3.1: "it is critical to use a document-level corpus").
"""

import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from bertedu.text.sources import read

DEFAULT_CORPORA = ("encyclopedia", "speeches")
SPLITS = ("train", "dev", "test")
# Held-out messages with a sister in training: of the same year, or with more than 3 % of the
# eight-word sequences of the shorter one in common. (Of three pairs these are 4 to 14 %, of all
# others at most 1.5 %.) A model that has read one knows too much of the other to be scored on it.
SISTERS = frozenset("1953-Truman-1 1972-Nixon-2 1973-Nixon-1 1974-Nixon-1 1981-Carter-1".split())
MAX_FILE_BYTES = 256 * 2**20  # everything is held in memory; a larger file deserves a clear word


class CorpusError(ValueError):
    """A text that cannot be used; the message names the file and what to do."""


@dataclass(frozen=True)
class Document:
    """One text with a name. ``topic`` and ``description`` are the encyclopedia editors' labels."""

    title: str
    source: str
    text: str
    topic: str | None = None
    description: str | None = None

    @property
    def split(self) -> str:
        """Return "train", "dev" or "test"; see `split_of`. `SISTERS` are "left out"."""
        if self.source == "speeches" and self.title in SISTERS:
            return "left out"
        return split_of(self.title)

    def paragraphs(self) -> list[str]:
        """Cut at line breaks: both default corpora write one paragraph a line."""
        return [p for line in self.text.splitlines() if (p := " ".join(line.split()))]

    def sentences(self) -> list[str]:
        """All sentences in order. No sentence crosses a paragraph."""
        return [s for paragraph in self.paragraphs() for s in split_sentences(paragraph)]


def split_of(title: str) -> str:
    """Assign a document to train (90 %), dev (5 %) or test (5 %) by a hash of its title.

    Adding, removing or reordering documents that have titles moves no other to another split, as a
    split by position would. Vocabulary, pre-training and every later task use this split.
    """
    bucket = int.from_bytes(hashlib.sha256(title.encode("utf-8")).digest()[:8], "big") % 100
    return "train" if bucket < 90 else "dev" if bucket < 95 else "test"


def by_split(documents: Iterable[Document]) -> dict[str, list[Document]]:
    """Sort documents into train, dev and test, in order; what is "left out" is in none."""
    documents = list(documents)
    return {split: [d for d in documents if d.split == split] for split in SPLITS}


# A period after one of these does not end a sentence, whatever follows.
_NEVER = frozenset(
    "mr mrs ms dr prof gen col lt maj capt sgt adm gov sen rep rev hon pres st ste mt ft "
    "messrs mme mlle fr sr jr vs cf e.g i.e viz lit fl ca approx esp incl b d r c".split()
)
# After one of these it does not when a number follows ("No. 5", "pp. 12").
_NOT_BEFORE_DIGIT = frozenset(
    "no nos vol vols pp p ch art sec fig op "
    "jan feb mar apr jun jul aug sep sept oct nov dec".split()
)
# "U.S. The law" ends a sentence, "U.S. Army" does not: only these words show a new start.
_STARTERS = frozenset(
    "the a an it its in on at he she they we i this that these those there his her their our "
    "but and for from as by when while after before since if to with under all no some many most "
    "however although during".split()
)
# End mark, closing quotes or brackets, space, then something that can start a sentence.
_BOUNDARY = re.compile(r"(?<![.!?…])([.!?…]+)[\"'”’)\]]*\s+(?=[\"'“‘(\[]*[^\W_a-z])")
_LAST_WORD = re.compile(r"[\w.&-]*$")
_FIRST_WORD = re.compile(r"[\"'“‘(\[]*(\w*\.?)")  # with its period: "A." is an initial
_NEAR = 100  # characters; longer than any word


def split_sentences(paragraph: str) -> list[str]:
    """Cut a paragraph into sentences by rule; joined by a space they give the paragraph back.

    The rules know abbreviations ("Mr. Adams"), initials ("J. S. Bach"), numbers ("No. 5", "3.14"),
    quotes and brackets that close after the period. They will err; so does every splitter.
    """
    paragraph = " ".join(paragraph.split())
    sentences, start = [], 0
    for match in _BOUNDARY.finditer(paragraph):
        # The nearest words decide; looking no further keeps a book on one line from taking hours.
        before = paragraph[max(start, match.start() - _NEAR) : match.start()]
        after = paragraph[match.end() : match.end() + _NEAR]
        first = _FIRST_WORD.match(after)
        next_word = first[1] if first else ""
        if next_word[:1].islower():  # "é" and "я", which the pattern lets through
            continue
        if match[1] == "." and not _period_ends(before, next_word):
            continue
        sentences.append(paragraph[start : match.end()].rstrip())
        start = match.end()
    if start < len(paragraph):
        sentences.append(paragraph[start:])
    return sentences


def _period_ends(before: str, next_word: str) -> bool:
    last = _LAST_WORD.search(before)
    word = (last[0] if last else "").lstrip(".&-")
    lower = word.lower()
    if lower in _NOT_BEFORE_DIGIT:
        return not next_word[:1].isdigit()
    if len(word) == 1 and word.isupper() and word != "I":  # an initial, or "vitamin C."
        return next_word.lower() in _STARTERS
    if lower in _NEVER:
        return False
    letters = "." in word and all(len(part) <= 2 for part in word.split("."))
    if letters and word[0].isalpha():  # "U.S.", but not "3.5"
        return next_word.lower() in _STARTERS
    return True


def _encyclopedia() -> Iterator[Document]:
    for content in read("encyclopedia").values():
        for title, article in json.loads(content).items():
            labels = article["topic"], article["description"] or None
            yield Document(title, "encyclopedia", article["extract"], *labels)


def _speeches() -> Iterator[Document]:
    for member, content in read("speeches").items():
        yield Document(Path(member).stem, "speeches", content.decode("utf-8"))


_BLANK_LINES = re.compile(r"\n\s*\n")
_READERS = {"encyclopedia": _encyclopedia, "speeches": _speeches}


def load_documents(corpus: str) -> list[Document]:
    """Read "encyclopedia", "speeches", a UTF-8 text file or a folder of them, in a fixed order.

    In one file a blank line ends a document, as in Google's code; in a folder each file is one.
    Raises CorpusError if it is neither a corpus nor a path, or as `read_text`; SourceError if the
    corpus could not be fetched.
    """
    if corpus in _READERS:
        return [document for document in _READERS[corpus]() if document.text.strip()]
    path = Path(corpus)
    if not (corpus and os.path.exists(path)):  # Path("") is the folder one works in
        raise CorpusError(
            f"{corpus!r} is neither a corpus ({', '.join(DEFAULT_CORPORA)}) nor an existing file "
            "or folder. Give the path of a UTF-8 text file, or of a folder of .txt files."
        )
    if not path.is_dir():
        texts = [text for text in _BLANK_LINES.split(read_text(path)) if text.strip()]
        if len(texts) == 1:
            return [Document(path.stem, path.name, texts[0])]
        return [Document(f"{path.stem} {n}", path.name, text) for n, text in enumerate(texts, 1)]
    files = sorted(p for p in path.rglob("*") if p.suffix.lower() == ".txt" and not p.is_dir())
    # JupyterLab keeps copies of what it edits in .ipynb_checkpoints
    files = [p for p in files if not any(n[0] == "." for n in p.relative_to(path).parts[:-1])]
    if not files:
        raise CorpusError(f"{path} holds no .txt file. Put one document into each .txt file.")
    return [Document(file.stem, path.name, read_text(file)) for file in files]


def read_text(file: Path) -> str:
    """Read a file; CorpusError if it is empty, binary, not UTF-8, too large, or not to be read."""
    try:
        size = file.stat().st_size
        if size > MAX_FILE_BYTES:
            raise CorpusError(
                f"{file} is {size / 2**20:.0f} MiB; a document may have at most "
                f"{MAX_FILE_BYTES / 2**20:.0f} MiB. Cut it into files: one a chapter or article."
            )
        content = file.read_bytes()
    except OSError as error:
        raise CorpusError(f"cannot read {file}: {error.strerror or error}.") from None
    if b"\0" in content:
        raise CorpusError(f"{file} is not text: it holds NUL bytes. Export it as plain UTF-8 text.")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise CorpusError(
            f"{file} is not UTF-8: byte {content[error.start]:#04x} at position {error.start}. "
            f"Convert it first: iconv -f latin1 -t utf-8 {file.name} > new.txt"
        ) from None
    if not text.strip():
        raise CorpusError(f"{file} is empty. Leave it out, or put text into it.")
    return text
