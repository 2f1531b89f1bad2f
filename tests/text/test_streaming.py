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


def write(folder: Path, count: int, name: str = "part", title: bool = True) -> Path:
    path = folder / f"{name}.jsonl"
    rows = [{"text": f"Text {i}.", "title": f"t{i}" if title else None} for i in range(count)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.parametrize("size", [1, 2, 3, 6, 7, 8, 100])
@pytest.mark.parametrize("title", [True, False])
def test_any_window_in_any_order_is_its_part_of_the_rows(
    tmp_path: Path, size: int, title: bool
) -> None:
    """In order, as a run that is resumed, twice, backwards, around the end and again."""
    path = write(tmp_path, 7, title=title)
    names = [f"t{i}" if title else f"part.jsonl {i}" for i in range(7)]
    parts = [names[i : i + size] for i in range(0, 7, size)]
    chance = random.Random(size)
    for order in ([*range(9)], [5, 6], [2, 2, 0, 1, 1, 0, 2], chance.choices(range(20), k=12)):
        stream = DocumentStream(str(path), size)
        for number in order:
            found = [document.title for document in stream.window(number)]
            assert found == parts[number % len(parts)], number


def test_no_more_is_read_than_a_window(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    monkeypatch.setattr(DocumentStream, "_document", lambda _, number, row: read.append(number))
    stream = DocumentStream(str(write(tmp_path, 1000)), size=10)
    stream.window(0)
    stream.window(1)
    assert max(read) < 20
    stream.window(100)  # beyond the end: all is read, but never again
    read.clear()
    stream.window(101)
    assert read == [*range(10, 20)]


def test_a_last_window_of_a_few_is_left_out(tmp_path: Path) -> None:
    stream = DocumentStream(str(write(tmp_path, 41)), size=20)
    assert [len(stream.window(number)) for number in range(5)] == [20] * 5


def test_a_glob_reads_its_files_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "within" / "it").mkdir(parents=True)
    for name, count in (("within/it/b", 1), ("a", 3)):
        write(tmp_path, count, name)
    of_the_disk = glob.glob  # in any order
    monkeypatch.setattr("glob.glob", lambda *of, **how: sorted(of_the_disk(*of, **how))[::-1])
    found = DocumentStream(str(tmp_path / "**" / "*.jsonl"), size=10).window(0)
    assert [document.title for document in found] == ["t0", "t1", "t2", "t0"]


def test_every_kind_of_file_gives_its_documents(tmp_path: Path) -> None:
    table = datasets.Dataset.from_dict({"text": ["One. Two.", "Three."], "title": ["x", "y"]})
    table.to_csv(tmp_path / "[t].csv")
    table.to_parquet(tmp_path / "[t].parquet")
    for kind in ("csv", "parquet"):
        found = DocumentStream(str(tmp_path / f"[t].{kind}")).window(0)
        assert [(d.title, d.text) for d in found] == [("x", "One. Two."), ("y", "Three.")]
    (tmp_path / "books.TXT").write_text("One. Two.\nThree.\n\nFour.\nFive.\n")
    found = DocumentStream(str(tmp_path / "books.TXT")).window(0)
    sentences = [document.sentences() for document in found]
    assert sentences == [["One.", "Two.", "Three."], ["Four.", "Five."]]


def test_what_cannot_be_streamed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "picture.png").write_bytes(b"x")
    (tmp_path / "columns.jsonl").write_text('{"body": "x"}\n')
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9")
    (tmp_path / "half.jsonl").write_text('{"text": "x"}\n{"te')
    with write(tmp_path, 5).open("a") as file:
        file.write('{"body": "x"}\n')
    for where, words in (
        ("picture.png", "several kinds, or of none"),
        ("*", "several kinds"),
        ("missing.jsonl", "neither an existing file nor a dataset"),
        ("columns.jsonl", "row 0 has no text; its columns are body. One named 'text' should hold"),
        ("empty.txt", "is empty|cannot stream"),
        ("latin.txt", "latin.txt cannot be read: .*Save it as UTF-8"),
        ("half.jsonl", "half.jsonl cannot be read: .*JSON"),
    ):
        with pytest.raises(CorpusError, match=words):
            DocumentStream(str(tmp_path / where), size=5)
    with pytest.raises(CorpusError, match="row 5 has no text"):
        DocumentStream(str(tmp_path / "part.jsonl"), size=2).window(2)
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(CorpusError, match=r"pip install 'bertedu\[stream\]'"):
        DocumentStream(str(tmp_path / "part.jsonl"))


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
    hint = "it is a folder: give its files, 'here/*.txt'"
    assert (hint in str(caught.value)) == (where == "here")


@pytest.mark.parametrize("where", ["squad", "owner/name", "owner/name-1.5:20231101.en"])
def test_a_name_of_the_hub_is_asked_for_there(monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    asked: list[tuple[Any, ...]] = []

    def load(*names: Any, streaming: bool, **_: Any) -> Any:
        asked.append((*names, streaming))
        if len(asked) == 2:
            raise ConnectionError("no network\nat all")
        return datasets.Dataset.from_dict({"text": ["One.", "Two."]}).to_iterable_dataset()

    monkeypatch.setattr(datasets, "load_dataset", load)
    assert len(DocumentStream(where).window(0)) == 2
    name, _, config = where.partition(":")
    assert asked == [(name, config or None, True)], "no more of it than is read"
    with pytest.raises(CorpusError, match=r"a dataset that can be reached \(no network\)"):
        DocumentStream(where)
