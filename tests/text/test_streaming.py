"""A stream is its documents, window by window, in order, again and again; and what may go wrong."""

import glob
import json
import random
import sys
from pathlib import Path
from typing import Any

import pytest

from bertedu.text.corpus import CorpusError
from bertedu.text.streaming import DocumentStream

datasets = pytest.importorskip("datasets")


def write(folder: Path, count: int, name: str = "part", title: bool = True) -> str:
    path = folder / f"{name}.jsonl"
    rows = [
        {"text": f"Text {i}. It is short."} | ({"title": f"t{i}"} if title else {})
        for i in range(count)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def titles(stream: DocumentStream, number: int) -> list[str]:
    return [document.title for document in stream.window(number)]


@pytest.mark.parametrize("title", [True, False])
@pytest.mark.parametrize("size", [1, 2, 3, 6, 7, 100])
def test_a_window_is_the_same_whenever_it_is_asked_for(
    tmp_path: Path, size: int, title: bool
) -> None:
    """In order, back, twice, beyond the end, and first of all as by a run that is resumed."""
    path, dice = write(tmp_path, 6, title=title), random.Random(size)
    every = [f"t{i}" if title else f"{path} {i}" for i in range(6)]
    windows = [every[begin : begin + size] for begin in range(0, 6, size)]
    for asked in (range(8), [9], *(dice.choices(range(9), k=7) for _ in range(4))):
        stream = DocumentStream(path, size)
        for number in asked:
            assert titles(stream, number) == windows[number % len(windows)], [*asked]


def test_no_more_is_read_than_a_window(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = []
    original = DocumentStream._document

    def count(self: DocumentStream, number: int, row: dict[str, Any]) -> Any:
        read.append(number)
        return original(self, number, row)

    monkeypatch.setattr(DocumentStream, "_document", count)
    stream = DocumentStream(write(tmp_path, 1000), size=10)
    stream.window(0)
    stream.window(1)
    assert max(read) < 20


def test_a_glob_reads_its_files_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, count in (("b", 1), ("a", 3)):
        write(tmp_path, count, name, title=False)
    where = str(tmp_path / "*.jsonl")
    of_the_disk = sorted(glob.glob(where), reverse=True)
    monkeypatch.setattr("glob.glob", lambda *_, **__: of_the_disk)  # in any order
    found = DocumentStream(where, size=10).window(0)
    assert [document.text[:6] for document in found] == ["Text 0", "Text 1", "Text 2", "Text 0"]
    assert [document.title for document in found] == [f"{where} {i}" for i in range(4)]


@pytest.mark.parametrize("kind", ["txt", "csv", "parquet"])
def test_every_kind_of_file_gives_its_documents(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"t.{kind}"
    table = datasets.Dataset.from_dict(
        {"text": ["One. Two.\nThree.", "Four."], "title": ["x", "y"]}
    )
    if kind == "txt":  # an empty line ends a document
        path.write_text("One. Two.\nThree.\n\nFour.\n")
    else:
        table.to_csv(path) if kind == "csv" else table.to_parquet(path)
    found = DocumentStream(str(path)).window(0)
    assert [d.sentences() for d in found] == [["One.", "Two.", "Three."], ["Four."]]
    assert [d.title for d in found] == (
        [f"{path} {i}" for i in (0, 1)] if kind == "txt" else ["x", "y"]
    )


@pytest.mark.parametrize(
    ("where", "content", "words"),
    [
        ("picture.png", "x", "several kinds, or of none"),
        ("*", "x", "several kinds"),
        ("rows.jsonl", '{"text": "a"}\n{"body": "x"}\n', "row 1 has no text; its columns .*body"),
        ("empty.txt", "", "is empty|cannot stream"),
        *((name, None, "neither an existing file nor a dataset") for name in
          ("nosuch.txt", "nosuch.jsonl", "NOSUCH.TXT", "book.txt.gz", "owner/nosuch.txt",
           "no/*.txt", "./nosuch", "/no/such", "~/texts", "a/b/c", "texts\\nosuch", "here/nosuch")),
        ("here", None, r"neither .* it is a folder: give its files, 'here/\*\.txt'"),
    ],
)  # fmt: skip
def test_what_cannot_be_streamed_is_named_without_asking_the_hub(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str, content: str | None, words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("here").mkdir()
    write(tmp_path, 2)
    if content is None:
        monkeypatch.setattr(datasets, "load_dataset", lambda *_, **__: pytest.fail("asked the Hub"))
    else:
        Path(where.replace("*", "b.txt")).write_text(content)
    with pytest.raises(CorpusError, match=words) as caught:
        DocumentStream(where, size=5)
    assert where in str(caught.value)
    assert ("it is a folder" in str(caught.value)) == (where == "here")


@pytest.mark.parametrize("where", ["squad", "owner/name", "owner/name-1.5:20231101.en"])
def test_a_name_of_the_hub_is_asked_for_there(monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    asked: list[tuple[Any, ...]] = []

    def load(*names: Any, **_: Any) -> Any:
        asked.append(names)
        if where == "squad":
            raise ConnectionError("no network\nat all")
        return datasets.Dataset.from_dict({"text": ["One.", "Two."]}).to_iterable_dataset()

    monkeypatch.setattr(datasets, "load_dataset", load)
    if where == "squad":
        with pytest.raises(CorpusError, match=r"nor a dataset that can be reached \(no network\)"):
            DocumentStream(where)
    else:
        assert len(DocumentStream(where).window(0)) == 2
    name, _, config = where.partition(":")
    assert asked == [(name, config or None)]


def test_without_datasets_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(CorpusError, match=r"pip install 'bertedu\[stream\]'"):
        DocumentStream(write(tmp_path, 3))
