"""The folder of a run: one writer at a time, what it was started as, and its finished record."""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from bertedu.files import check_writable
from bertedu.model.checkpoints import CheckpointError, load_checkpoint
from bertedu.pretraining import processes
from bertedu.pretraining.options import PreTrainingOptions
from bertedu.pretraining.recipe import Recipe
from bertedu.text.fast_tokenizer import load_vocabulary

STATE_FILE = "training_state.safetensors"
RUN_FILE = "training_run.json"  # what --resume must find unchanged
LOCK_FILE = ".pretraining.lock"  # held while a run lasts; the system lets it go, even at kill -9


@contextmanager
def alone_in(out: Path) -> Iterator[None]:
    """Hold the lock of a run's folder, and leave no empty folder if the run is refused.

    Of several processes under `torchrun` the first holds it for all. Raises CheckpointError if
    another run holds it, FileError if the folder cannot be written.
    """
    if processes.rank() != 0:
        yield
        return
    new = [folder for folder in (out, *out.parents) if not folder.exists()]
    try:
        check_writable(out)
        lock = FileLock(out / LOCK_FILE, timeout=0)
        with suppress(NotImplementedError):  # a network disk may have no locks
            lock.acquire()
    except Timeout:
        raise CheckpointError(
            f"another run is writing to {out} now: wait until it ends, or choose another --out"
        ) from None
    try:
        yield
    finally:
        with suppress(OSError):  # Windows removes no open file; it may lie there
            (out / LOCK_FILE).unlink()
        lock.release()
        with suppress(OSError):  # one that is not empty stays
            for folder in new:
                folder.rmdir()


def read_record(folder: Path) -> dict[str, Any]:
    """Return the record of a finished run; raise CheckpointError if the folder holds none."""
    path = folder / "training.json"
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror or error}") from None
    except ValueError:
        record = None
    if not isinstance(record, dict):
        raise CheckpointError(f"{path} is not the record of a finished run")
    return record


def record_before(checkpoint: Path) -> dict[str, Any]:
    """What is known of the run that made a checkpoint; refuse one with other word pieces."""
    load_checkpoint(checkpoint)  # a broken one is found before any work is done
    if load_vocabulary(checkpoint) != load_vocabulary():
        raise CheckpointError(
            f"{checkpoint} was trained with another vocabulary than data/tokenizer: its token "
            "numbers mean other words, so it cannot be trained further here"
        )
    record = {"sha256": hashlib.sha256((checkpoint / "model.safetensors").read_bytes()).hexdigest()}
    with suppress(CheckpointError):  # weights of others have no record
        record |= read_record(checkpoint)
    return record


def check_same_run(
    options: PreTrainingOptions, run: dict[str, Any], started: dict[str, Any], recipe: Recipe
) -> None:
    """Refuse to go on with other options than the run was started with."""
    asked = {name: getattr(options, name) for name in ("steps", "seed", "learning_rate", "masking")}
    pairs = {n: (getattr(recipe, n), value) for n, value in asked.items() if value is not None}
    pairs |= {n: (started[n], run[n]) for n in run if n in started}  # an older run says less
    for name, (was, now) in pairs.items():
        if was != now:
            raise CheckpointError(
                f"{options.out} is a run with {name} {was}, not {now}: resume with the same "
                "options, or choose another --out"
            )
