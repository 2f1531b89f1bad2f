"""Corpora that are too big for memory: documents by the window, through `datasets`.

A window is some thousand documents that follow each other in the stream. Training takes a window
as it takes an epoch of a small corpus, and only one window is in memory.
"""

import glob
import os
import re
from itertools import islice
from pathlib import Path
from typing import Any

from bertedu.text.corpus import CorpusError, Document

WINDOW = 10_000  # documents
_ON_THE_HUB = re.compile(r"[\w-][\w.-]*(/[\w-][\w.-]*)?(:[\w.-]+)?")  # owner/name:config
_FORMATS = {".txt": "text", ".jsonl": "json", ".json": "json", ".parquet": "parquet", ".csv": "csv"}


class DocumentStream:
    """The documents of a stream, one window of ``size`` documents at a time.

    ``where`` is a file, a glob of files (`.txt`: an empty line ends a document; `.jsonl`, `.csv`,
    `.parquet`: a column `text` and, if there is one, `title`), or the name of a dataset on the
    Hugging Face Hub, "wikimedia/wikipedia" or "wikimedia/wikipedia:20231101.en". Raises CorpusError
    if `datasets` is missing, nothing is found, or a file or row is of another kind, or not UTF-8.
    A last window that is less than a tenth full is left out: pairs need company.
    """

    def __init__(self, where: str, size: int = WINDOW) -> None:
        self.where, self.size = where, size
        self._rows = _open(where)
        self._next, self._position = iter(self._rows), 0  # the window that comes next
        self._windows: int | None = None  # how many there are; known after the last
        if not self._read(0):
            raise CorpusError(f"{where} is empty: there is no document in it")

    def window(self, number: int) -> list[Document]:
        """Return a window; after the last comes the first. Reading on in order is quickest."""
        if self._windows is not None:
            number %= self._windows
        if documents := self._read(number):
            return documents
        self._windows = 0  # beyond the end: count the windows, once
        while self._read(self._windows):
            self._windows += 1
        return self._read(number % self._windows)

    def _read(self, number: int) -> list[Document]:
        if number != self._position:
            self._next = iter(self._rows.skip(number * self.size))
        try:
            rows = list(islice(self._next, self.size))
        except Exception as error:  # as in `_open`: a network that fails, a file cut short
            hint = ". Save it as UTF-8" * isinstance(error, UnicodeDecodeError)
            raise CorpusError(f"{self.where} cannot be read: {error!r}{hint}") from None
        if number and len(rows) < self.size // 10:
            rows = []  # too few to make pairs of
        documents = [self._document(i, row) for i, row in enumerate(rows, number * self.size)]
        self._position = number + 1 if documents else number
        return documents

    def _document(self, number: int, row: dict[str, Any]) -> Document:
        text = row.get("text")
        if not isinstance(text, str):
            raise CorpusError(
                f"{self.where}: row {number} has no text; its columns are {', '.join(row)}. One "
                "named 'text' should hold words in every row: rename, fill or leave out"
            )
        # The split of a document goes by its title, so it must have one that stays.
        title = row.get("title") or f"{Path(self.where).name} {number}"
        return Document(str(title), self.where, text)


def _open(where: str) -> Any:
    matching = [where] if os.path.isfile(where) else glob.glob(where, recursive=True)
    files = sorted(filter(os.path.isfile, matching))
    if not files and _is_path(where):  # so nobody waits for the Hub to know no such name
        hint = f"; it is a folder: give its files, '{where}/*.txt'" if Path(where).is_dir() else ""
        raise CorpusError(
            f"cannot stream {where}: it is neither an existing file nor a dataset of the Hub, "
            f"whose names are like wikimedia/wikipedia{hint}"
        )
    try:
        import datasets
    except ImportError:
        raise CorpusError("streaming needs datasets: pip install 'bertedu[stream]'") from None
    options: dict[str, Any] = {"split": "train", "streaming": True}
    name, _, config = where.partition(":")
    if files:
        kinds = {_FORMATS.get(Path(file).suffix.lower(), "") for file in files}
        name, config = kinds.pop(), ""
        if kinds or not name:
            raise CorpusError(
                f"{where} names files of several kinds, or of none that can be streamed: choose "
                f"one of {', '.join(_FORMATS)}"
            )
        options["data_files"] = [glob.escape(file) for file in files]
        if name == "text":
            options["sample_by"] = "paragraph"
    try:
        return datasets.load_dataset(name, config or None, **options)
    except Exception as error:  # datasets and its back ends raise a dozen kinds
        reason = (str(error).strip() or repr(error)).splitlines()[0]
        raise CorpusError(
            f"cannot stream {where}: it is neither an existing file nor a dataset that can be "
            f"reached ({reason})"
        ) from None


def _is_path(where: str) -> bool:
    """Whether a name can only be that of a file: by its ending, its signs, or its folders."""
    path = Path(where)
    return (
        not _ON_THE_HUB.fullmatch(where)
        or not _FORMATS.keys().isdisjoint(suffix.lower() for suffix in path.suffixes)
        or path.is_dir()
        or (len(path.parts) > 1 and path.parent.is_dir())
    )
