"""No sentence of a corpus stands in the repository, not even in the output of a notebook."""

import bz2
import re
from collections.abc import Iterable, Iterator

import pytest
from house import ROOT, repository_files

from bertedu.text.corpus import load_documents
from bertedu.text.sources import find, read

RUN = 9  # so many words in the same order are no chance
WORD = re.compile(r"[a-z0-9]+")
KINDS = {".py", ".ipynb", ".md", ".csv", ".toml", ".json", ".js", ".yml", ".txt"}


def runs(text: str) -> Iterator[tuple[str, ...]]:
    """Yield each run of RUN words."""
    words = WORD.findall(text.lower())
    for i in range(len(words) - RUN + 1):
        yield tuple(words[i : i + RUN])


def committed() -> dict[str, str]:
    """Text files that git knows or would add."""
    paths = [path for path in repository_files() if path.suffix in KINDS]
    own = [path for path in paths if path.name not in ("tokenizer.json", "vocab.txt")]
    return {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in own}


def copied(texts: Iterable[str], files: dict[str, str]) -> dict[str, str]:
    """Name the files that share a run with one of the texts, and the first such run."""
    theirs = {hash(run) for text in texts for run in runs(text)}  # numbers: they are millions
    shared = {
        name: next((run for run in runs(content) if hash(run) in theirs), ())
        for name, content in files.items()
    }
    return {name: " ".join(run) for name, run in shared.items() if run}


def source_texts(name: str) -> list[str]:
    if name in ("encyclopedia", "speeches"):
        return [sentence for d in load_documents(name) for sentence in d.sentences()]
    members = read(name, fetch_missing=False)
    if name == "sentiment":
        members = {key: bz2.decompress(content) for key, content in members.items()}
    return [
        line
        for content in members.values()
        for line in content.decode("utf-8", "replace").splitlines()
    ]


def test_no_sentence_of_others_is_committed() -> None:
    names = ["encyclopedia", "speeches", "sentiment", "questions", "valence"]
    missing = [name for name in names if not find(name).path.is_file()]
    texts = (text for name in names if name not in missing for text in source_texts(name))
    assert copied(texts, committed()) == {}
    if missing:
        pytest.skip(f"not fetched: run `bertedu data fetch {' '.join(missing)}`")


def test_a_copied_sentence_is_noticed() -> None:
    theirs = ["The small river rises in the hills and flows slowly to the sea."]
    theirs_in_output = "print: the small river rises in the hills and flows slowly, as we know"
    assert set(copied(theirs, {"a": theirs_in_output, "b": "A small river."})) == {"a"}
