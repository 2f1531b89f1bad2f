"""A stream is its documents, window by window, in order, again and again; and what may go wrong."""

import glob
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from bertedu.text.corpus import CorpusError
from bertedu.text.streaming import DocumentStream

datasets = pytest.importorskip("datasets")


def write(folder: Path, count: int, name: str = "part", title: bool = True) -> Path:
    path = folder / f"{name}.jsonl"
    rows = [
        {"text": f"Text {i}. It is short."} | ({"title": f"t{i}"} if title else {})
        for i in range(count)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def titles(stream: DocumentStream, number: int) -> list[str]:
    return [document.title for document in stream.window(number)]


def test_windows_follow_each_other_and_start_again(tmp_path: Path) -> None:
    stream = DocumentStream(str(write(tmp_path, 7)), size=3)
    expected = [["t0", "t1", "t2"], ["t3", "t4", "t5"], ["t6"]]
    for number in range(8):
        assert titles(stream, number) == expected[number % 3], number


@pytest.mark.parametrize("size", [2, 3, 6, 7, 8, 100])
def test_every_document_comes_once_in_a_round(tmp_path: Path, size: int) -> None:
    stream = DocumentStream(str(write(tmp_path, 6)), size)
    count = -(-6 // size)
    seen = [title for number in range(count) for title in titles(stream, number)]
    assert seen == [f"t{i}" for i in range(6)]
    assert titles(stream, count) == titles(stream, 0)


@pytest.mark.parametrize("start", range(7))
def test_a_run_that_is_resumed_gets_the_window_it_would_have_got(
    tmp_path: Path, start: int
) -> None:
    path = str(write(tmp_path, 7))
    before = DocumentStream(path, size=3)
    expected = [titles(before, number) for number in range(9)][start : start + 2]
    resumed = DocumentStream(path, size=3)
    assert [titles(resumed, start), titles(resumed, start + 1)] == expected


def test_the_same_window_twice_and_backwards(tmp_path: Path) -> None:
    stream = DocumentStream(str(write(tmp_path, 9)), size=3)
    order = [2, 2, 0, 1, 1, 0, 2]
    assert [titles(stream, n)[0] for n in order] == ["t6", "t6", "t0", "t3", "t3", "t0", "t6"]


def test_no_more_is_read_than_a_window(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = []
    original = DocumentStream._document

    def count(self: DocumentStream, number: int, row: dict[str, Any]) -> Any:
        read.append(number)
        return original(self, number, row)

    monkeypatch.setattr(DocumentStream, "_document", count)
    stream = DocumentStream(str(write(tmp_path, 1000)), size=10)
    stream.window(0)
    stream.window(1)
    assert max(read) < 20


def test_a_glob_reads_its_files_in_order_and_documents_without_title_get_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, count in (("b", 1), ("a", 3)):
        write(tmp_path, count, name, title=False)
    where = str(tmp_path / "*.jsonl")
    of_the_disk = sorted(glob.glob(where), reverse=True)
    monkeypatch.setattr("glob.glob", lambda *_, **__: of_the_disk)  # in any order
    found = DocumentStream(where, size=10).window(0)
    assert [document.text[:6] for document in found] == ["Text 0", "Text 1", "Text 2", "Text 0"]
    assert [document.title for document in found] == [f"{where} {i}" for i in range(4)]


def test_rows_are_numbered_through_all_windows(tmp_path: Path) -> None:
    path = write(tmp_path, 5, title=False)
    stream = DocumentStream(str(path), size=2)
    for number in (1, 2, 0, 4):  # in order, back, and around the end
        first = 2 * (number % 3)
        expected = [f"{path} {i}" for i in range(first, min(first + 2, 5))]
        assert titles(stream, number) == expected
    with path.open("a") as file:
        file.write('{"body": "x"}\n')
    with pytest.raises(CorpusError, match="row 5 has no text"):
        DocumentStream(str(path), size=2).window(2)


def test_in_plain_text_an_empty_line_ends_a_document(tmp_path: Path) -> None:
    path = tmp_path / "books.txt"
    path.write_text("One. Two.\nThree.\n\nFour.\nFive.\n")
    found = DocumentStream(str(path)).window(0)
    assert [document.sentences() for document in found] == [
        ["One.", "Two.", "Three."],
        ["Four.", "Five."],
    ]


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_tables_are_read_by_their_column_text(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"t.{kind}"
    table = datasets.Dataset.from_dict({"text": ["One. Two.", "Three."], "title": ["x", "y"]})
    table.to_csv(path) if kind == "csv" else table.to_parquet(path)
    found = DocumentStream(str(path)).window(0)
    assert [(d.title, d.text) for d in found] == [("x", "One. Two."), ("y", "Three.")]


def test_what_cannot_be_streamed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")

    def refusal(where: object) -> str:
        with pytest.raises(CorpusError) as caught:
            DocumentStream(str(where), size=5)
        return str(caught.value)

    (tmp_path / "picture.png").write_bytes(b"x")
    assert "several kinds, or of none" in refusal(tmp_path / "picture.png")
    write(tmp_path, 2)
    assert "several kinds" in refusal(tmp_path / "*")
    assert "neither an existing file nor a dataset" in refusal(tmp_path / "missing.jsonl")
    other = tmp_path / "columns.jsonl"
    other.write_text('{"body": "x"}\n')
    assert "row 0 has no text; its columns are body" in refusal(other)
    empty = tmp_path / "empty.txt"
    empty.write_text("")
    assert "is empty" in refusal(empty) or "cannot stream" in refusal(empty)


@pytest.mark.parametrize(
    "where",
    [
        *("nosuch.txt", "nosuch.jsonl", "NOSUCH.TXT", "book.txt.gz", "owner/nosuch.txt", "*.txt"),
        *("./nosuch", "/no/such", "~/texts", "a/b/c", "texts\\nosuch", "here", "here/nosuch"),
    ],
)
def test_a_file_that_is_not_there_is_not_looked_for_on_the_hub(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("here").mkdir()
    monkeypatch.setattr(datasets, "load_dataset", lambda *_, **__: pytest.fail("asked the Hub"))
    with pytest.raises(CorpusError, match="neither an existing file nor a dataset") as caught:
        DocumentStream(where)
    assert where in str(caught.value)
    assert ("it is a folder: give its files, 'here/*.txt'" in str(caught.value)) == (
        where == "here"
    )


@pytest.mark.parametrize("where", ["squad", "owner/name", "owner/name-1.5:20231101.en"])
def test_a_name_of_the_hub_is_asked_for_there(monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    asked: list[tuple[Any, ...]] = []

    def load(*names: Any, **_: Any) -> Any:
        asked.append(names)
        return datasets.Dataset.from_dict({"text": ["One.", "Two."]}).to_iterable_dataset()

    monkeypatch.setattr(datasets, "load_dataset", load)
    assert len(DocumentStream(where).window(0)) == 2
    name, _, config = where.partition(":")
    assert asked == [(name, config or None)]


def test_without_datasets_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(CorpusError, match=r"pip install 'bertedu\[stream\]'"):
        DocumentStream(str(write(tmp_path, 3)))
