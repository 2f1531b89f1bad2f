"""Learners on one machine may read one folder of data, to which none of them may write."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from house import ROOT

from bertedu.text import sources

# how a notebook begins: load, fill a blank, read both texts
WORK = """
import bertedu
from bertedu.analysis.fill import fill_blanks
from bertedu.text.corpus import load_documents
model, tokenizer = bertedu.load("bert-mini")
(guesses,) = fill_blanks(model, tokenizer, "I ask the ___ to pass this bill.")
print(guesses[0].word, *(len(load_documents(name)) > 200 for name in ("encyclopedia", "speeches")))
"""


def listing(folder: Path) -> dict[str, tuple[int, int, int]]:
    """Everything in a folder: size, mode, and when it was last changed."""
    stats = {str(path): path.stat() for path in [folder, *folder.rglob("*")]}
    return {name: (s.st_size, s.st_mode, s.st_mtime_ns) for name, s in stats.items()}


@pytest.mark.nightly
@pytest.mark.skipif(os.name != "posix", reason="file modes are those of POSIX")
def test_a_room_shares_one_folder_and_writes_nothing_there(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    (shared / "downloads").mkdir(parents=True)
    for name in ("encyclopedia", "speeches"):
        shutil.copy(sources.fetch(name), shared / "downloads")
    for name in ("sources.toml", "tokenizer", "checkpoints/bert-mini"):
        here, there = ROOT / "data" / name, shared / name
        there.parent.mkdir(exist_ok=True)
        (shutil.copytree if here.is_dir() else shutil.copy)(here, there)
    for path in [*shared.rglob("*"), shared]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    before = listing(shared)  # the superuser may write there all the same: so compare, too
    environment = {**os.environ, "BERTEDU_DATA": str(shared), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", WORK]
    seats = [
        subprocess.Popen(command, stdout=subprocess.PIPE, cwd=tmp_path, env=environment, text=True)
        for _ in range(8)
    ]
    said = [seat.communicate(timeout=500)[0] for seat in seats]
    assert said == ["congress True True\n"] * 8
    assert listing(shared) == before
