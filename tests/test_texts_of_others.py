"""No sentence of a corpus stands in the repository, not even in the output of a notebook."""

import re
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from bertedu.text.corpus import load_documents
from bertedu.text.sources import find, read

ROOT = Path(__file__).parents[1]
RUN = 9  # so many words in the same order are no chance
WORD = re.compile(r"[a-z0-9]+")
KINDS = {".py", ".ipynb", ".md", ".csv", ".toml", ".json", ".js", ".yml", ".txt"}


def runs(text: str) -> Iterator[int]:
    """Yield a number for each run of RUN words."""
    words = WORD.findall(text.lower())
    for i in range(len(words) - RUN + 1):
        yield hash(tuple(words[i : i + RUN]))


def committed() -> dict[str, str]:
    """Text files that git knows or would add."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    paths = [ROOT / name for name in listed if Path(name).suffix in KINDS]
    return {
        str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
        for path in paths
        if path.is_file() and path.name not in ("tokenizer.json", "vocab.txt")
    }


def copied(texts: Iterable[str], files: dict[str, str]) -> dict[str, str]:
    """Name the files that share a run with one of the texts, and the first such run."""
    theirs = {run for text in texts for run in runs(text)}
    found = {}
    for name, content in files.items():
        words = WORD.findall(content.lower())
        for i in range(len(words) - RUN + 1):
            if hash(tuple(words[i : i + RUN])) in theirs:
                found[name] = " ".join(words[i : i + RUN])
                break
    return found


def source_texts(name: str) -> list[str]:
    if name in ("encyclopedia", "speeches"):
        return [sentence for d in load_documents(name) for sentence in d.sentences()]
    members = read(name, fetch_missing=False)
    if name == "sentiment":
        import bz2

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
