"""A room of kernels on one machine reads one folder of data, to which none of them writes."""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from jupyter_client.manager import KernelManager

from bertedu.text import sources

ROOT = Path(__file__).parent.parent
SEATS, FEWEST, KERNEL_BYTES = 30, 8, 700e6
WAIT = 500  # seconds
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


@contextmanager
def kernels(count: int, home: Path, env: dict[str, str]) -> Iterator[list[tuple[Any, Any]]]:
    """Start kernels, each with a client, and end them."""
    started: list[tuple[Any, Any]] = []
    try:
        for _ in range(count):
            manager = KernelManager()
            # IPython's history is one file for all kernels; a busy one prints "database is locked"
            quiet = ["--HistoryManager.enabled=False"]
            manager.start_kernel(env=env, cwd=str(home), extra_arguments=quiet)
            started.append((manager, manager.client()))
            started[-1][1].start_channels()
        for _, client in started:
            client.wait_for_ready(timeout=WAIT)
        yield started
    finally:
        for manager, client in started:
            client.stop_channels()
            manager.shutdown_kernel(now=True)


def printed(client: Any, asked: str) -> Any:
    """Wait until a kernel has done what it was asked, and return the JSON that it printed."""
    text = ""
    while True:
        message = client.get_iopub_msg(timeout=WAIT)
        kind, content = message["msg_type"], message["content"]
        if message["parent_header"].get("msg_id") != asked:
            continue
        assert kind != "error", "\n".join(content["traceback"])
        if kind == "stream" and content["name"] == "stdout":
            text += content["text"]
        if content.get("execution_state") == "idle":
            return json.loads(text)


@pytest.mark.nightly
@pytest.mark.skipif(os.name != "posix", reason="file modes are those of POSIX")
def test_a_room_of_kernels_shares_one_folder_and_writes_nothing_there(
    tmp_path: Path,
) -> None:
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

    fit = int(psutil.virtual_memory().available / KERNEL_BYTES)
    count = min(SEATS, max(FEWEST, fit))
    with kernels(count, home, {**os.environ, "BERTEDU_DATA": str(shared)}) as started:
        asked = [client.execute(WORK) for _, client in started]
        answers = [printed(client, one) for (_, client), one in zip(started, asked, strict=True)]
    assert listing(shared) == before
    assert answers == answers[:1] * count
    assert answers[0]["documents"][0] > 1000
    assert answers[0]["words"][0] in {"congress", "senate", "house"}
