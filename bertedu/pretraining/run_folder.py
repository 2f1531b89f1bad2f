"""The folder of a run: one writer at a time, what it was started as, and its finished record."""

import errno
import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from bertedu.model.checkpoints import load_checkpoint
from bertedu.model.weight_files import CheckpointError
from bertedu.pretraining import processes
from bertedu.pretraining.options import PreTrainingOptions
from bertedu.pretraining.recipe import Recipe
from bertedu.results.files import write_atomically
from bertedu.text.fast_tokenizer import load_vocabulary

STATE_FILE = "training_state.safetensors"
RUN_FILE = "training_run.json"  # what --resume must find unchanged
LOCK_FILE = ".pretraining.lock"  # held while a run lasts; the system lets it go, even at kill -9


@contextmanager
def alone_in(out: Path) -> Iterator[None]:
    """Hold the lock of a run's folder, and leave no empty folder if the run is refused.

    Of several processes under `torchrun` the first holds it for all. Raises CheckpointError if
    another run holds it, or the folder cannot be written.
    """
    if processes.rank() != 0:
        yield
        return
    new = [folder for folder in (out, *out.parents) if not folder.exists()]
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
        lock = FileLock(out / LOCK_FILE, timeout=0)
        try:
            with suppress(NotImplementedError):  # a network disk may have no locks
                lock.acquire()
        except Timeout:
            raise CheckpointError(
                f"another run is writing to {out} now: wait for its end, or choose another --out"
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


@contextmanager
def writing(out: Path) -> Iterator[None]:
    """Say in words of this folder why it cannot be written."""
    try:
        yield
    except OSError as error:
        reason, advice = error.strerror or str(error), "choose another folder"
        if isinstance(error, FileExistsError | NotADirectoryError):
            reason, advice = "a file of that name is in the way", "--out names a folder"
        elif error.errno in (errno.ENOSPC, errno.EDQUOT):
            advice = "free some space, or choose another folder"
        raise CheckpointError(f"cannot write to {out}: {reason}; {advice}") from None


def write_run(out: Path, run: dict[str, Any]) -> None:
    """Write down what the run is, which also shows early whether ``out`` can be written."""
    write_atomically(out / RUN_FILE, json.dumps(run, indent=1) + "\n")


def started_as(out: Path) -> dict[str, Any]:
    """Return what an unfinished run wrote down when it began; nothing if it did not."""
    path = out / RUN_FILE
    run: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return run


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
    try:
        vocabulary = (checkpoint / "vocab.txt").read_text(encoding="utf-8").splitlines()
    except OSError:
        raise CheckpointError(f"{checkpoint} has no vocab.txt to compare with ours") from None
    if vocabulary != load_vocabulary():
        raise CheckpointError(
            f"{checkpoint} was trained with another vocabulary than data/tokenizer: its token "
            "numbers mean other words, so it cannot be trained further here"
        )
    record = {"sha256": hashlib.sha256((checkpoint / "model.safetensors").read_bytes()).hexdigest()}
    with suppress(CheckpointError):  # weights of others have no record
        record |= read_record(checkpoint)
    return record


def check_same_run(options: PreTrainingOptions, run: dict[str, Any], recipe: Recipe) -> None:
    """Refuse to go on with other options than the run was started with; clear what a kill left."""
    out = options.out
    asked = {name: getattr(options, name) for name in ("steps", "seed", "learning_rate", "masking")}
    changed = {
        name: (getattr(recipe, name), value)
        for name, value in asked.items()
        if value is not None and value != getattr(recipe, name)
    }
    if before := started_as(out):
        before.setdefault("bfloat16", run["bfloat16"])  # of a time when a run did not say
        changed |= {n: (before.get(n), run[n]) for n in run if before.get(n) != run[n]}
    for name, (was, now) in changed.items():
        raise CheckpointError(
            f"{out} is a run with {name} {was}, not {now}: resume with the same options, or "
            "choose another --out"
        )
    # safetensors writes to a .tmpXXXXXX of its own first, and a kill may leave that, too
    for part in (*out.glob(f".{STATE_FILE}.*.part"), *out.glob(".tmp??????")):
        part.unlink(missing_ok=True)
