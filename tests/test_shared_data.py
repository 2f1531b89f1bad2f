"""A room of learners on one machine reads one folder of data, to which none of them writes."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from bertedu.text import sources

ROOT = Path(__file__).parent.parent
SEATS, FEWEST, BYTES = 30, 8, 700e6  # the last: of one that works
# how a notebook begins: load, fill a blank, read both texts
WORK = """
import hashlib, json
import bertedu
from bertedu.analysis.fill import fill_blanks
from bertedu.text.corpus import load_documents
model, tokenizer = bertedu.load("bert-mini")
(guesses,) = fill_blanks(model, tokenizer, "I ask the ___ to pass this bill.")
documents = [load_documents(name) for name in ("encyclopedia", "speeches")]
read = hashlib.sha256(repr(documents).encode()).hexdigest()
print(json.dumps({"words": [g.word for g in guesses], "read": read, **{
    "probabilities": [g.probability for g in guesses], "documents": [*map(len, documents)]}}))
"""


def listing(folder: Path) -> dict[str, tuple[int, int, int]]:
    """Everything in a folder: size, mode, and when it was last changed."""
    stats = {str(path): path.stat() for path in [folder, *folder.rglob("*")]}
    return {name: (s.st_size, s.st_mode, s.st_mtime_ns) for name, s in stats.items()}


@pytest.mark.nightly
@pytest.mark.skipif(os.name != "posix", reason="file modes are those of POSIX")
def test_a_room_shares_one_folder_and_writes_nothing_there(tmp_path: Path) -> None:
    shared, home = tmp_path / "shared", tmp_path / "home"
    home.mkdir()
    for name in ("sources.toml", "tokenizer", "checkpoints/bert-mini"):
        place = shared / name
        place.parent.mkdir(parents=True, exist_ok=True)
        here = ROOT / "data" / name
        (shutil.copytree if here.is_dir() else shutil.copy)(here, place)
    (shared / "downloads").mkdir()
    for name in ("encyclopedia", "speeches"):
        shutil.copy(sources.fetch(name), shared / "downloads")
    for path in [*shared.rglob("*"), shared]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    before = listing(shared)  # the superuser may write there all the same: so compare, too

    count = min(SEATS, max(FEWEST, int(psutil.virtual_memory().available / BYTES)))
    environment = {**os.environ, "BERTEDU_DATA": str(shared), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", WORK]
    room = [
        subprocess.Popen(command, stdout=subprocess.PIPE, cwd=home, env=environment, text=True)
        for _ in range(count)
    ]
    said = [one.communicate(timeout=500)[0] for one in room]
    assert listing(shared) == before
    assert said == said[:1] * count
    answer = json.loads(said[0])
    assert answer["documents"][0] > 1000
    assert answer["words"][0] in {"congress", "senate", "house"}
