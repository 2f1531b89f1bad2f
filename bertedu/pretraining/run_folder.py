"""The folder of a run: where it stands, what it was started as, its record; and one writer only."""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock, Timeout
from torch import nn

from bertedu.files import check_writable
from bertedu.model.checkpoints import CheckpointError, load_checkpoint, load_tensors, save_tensors
from bertedu.pretraining import processes
from bertedu.pretraining.batches import Position
from bertedu.pretraining.masking import read_procedure
from bertedu.pretraining.recipe import PreTrainingOptions, Recipe, recipe_from
from bertedu.text.fast_tokenizer import load_vocabulary

STATE_FILE = "training_state.safetensors"
RUN_FILE = "training_run.json"  # what --resume must find unchanged
_ADAM, _MUON = ("step", "exp_avg", "exp_avg_sq"), ("momentum_buffer",)  # what each remembers
LOCK_FILE = ".pretraining.lock"  # held while a run lasts; the system lets it go, even at kill -9


@dataclass
class State:
    """Where training stands: everything that `--resume` needs besides the weights."""

    step: int = 0
    position: Position = field(default_factory=Position)
    tokens: int = 0
    seconds: float = 0.0
    curve: list[dict[str, float]] = field(default_factory=list)


def save_state(
    path: Path, model: nn.Module, optimizer: torch.optim.Optimizer, state: State, recipe: Recipe
) -> None:
    """Write weights, the averages of the optimizer and the state into one file, in one rename."""
    tensors = {}
    for name, parameter in model.named_parameters():
        tensors[f"weight/{name}"] = parameter.detach().cpu().contiguous()
        for key, value in optimizer.state.get(parameter, {}).items():
            tensors[f"{key}/{name}"] = value.cpu().contiguous()
    described = {"state": asdict(state), "recipe": asdict(recipe)}
    save_tensors(tensors, path, {"training": json.dumps(described)})


def load_state(
    path: Path, model: nn.Module, optimizer: torch.optim.Optimizer, recipe: Recipe
) -> State:
    """Take up a run where `save_state` left it, if it is of this model and recipe."""
    tensors, metadata = load_tensors(path)
    try:
        described = json.loads(metadata["training"])
        if recipe_from(described["recipe"]) != recipe:
            raise CheckpointError(
                f"{path} was trained by another recipe: {described['recipe']}. Resume with the "
                "same options, or choose another --out."
            )
        parameters = dict(model.named_parameters())
        if other := {name.partition("/")[2] for name in tensors} ^ parameters.keys():
            raise KeyError(min(other))
        for name, parameter in parameters.items():
            with torch.no_grad():
                parameter.copy_(tensors[f"weight/{name}"])
            kept = _MUON if f"{_MUON[0]}/{name}" in tensors else _ADAM
            if not recipe.next_sentence and f"{kept[0]}/{name}" not in tensors:
                continue  # the pooler and the head of the sentence pairs: no loss has moved them
            # the fused optimizer counts steps on the device of the weights
            values = {key: tensors[f"{key}/{name}"].to(parameter.device) for key in kept}
            optimizer.state[parameter] = values
    except (KeyError, RuntimeError) as error:
        raise CheckpointError(
            f"{path} belongs to another model ({error}). Resume with the config it was started "
            "with, or choose another --out."
        ) from None
    values = described["state"]
    return State(**{**values, "position": Position(**values["position"])})


def read_recipe(state_path: Path) -> Recipe:
    """Read back the recipe of an unfinished run; raise CheckpointError if that is none."""
    _, metadata = load_tensors(state_path)
    try:
        return recipe_from(json.loads(metadata["training"])["recipe"])
    except (KeyError, TypeError, ValueError):
        raise CheckpointError(f"{state_path} is not the state of a training run") from None


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


def read_started(out: Path) -> dict[str, Any]:
    """Return what an unfinished run wrote down when it began."""
    return dict(json.loads((out / RUN_FILE).read_text(encoding="utf-8")))


def remove_leftovers(out: Path) -> None:
    """Remove what a kill may have left of a state that was being written."""
    # safetensors writes to a .tmpXXXXXX of its own first
    for part in (*out.glob(f".{STATE_FILE}.*.part"), *out.glob(".tmp??????")):
        part.unlink(missing_ok=True)


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
    names = ("steps", "seed", "learning_rate", "optimizer")
    asked = {name: getattr(options, name) for name in names}
    asked["masking"] = options.masking and read_procedure(options.masking)
    pairs = {n: (getattr(recipe, n), value) for n, value in asked.items() if value is not None}
    pairs |= {name: (started.get(name, now), now) for name, now in run.items()}
    for name, (was, now) in pairs.items():
        if was != now:
            raise CheckpointError(
                f"{options.out} is a run with {name} {was}, not {now}: resume with the same "
                "options, or choose another --out"
            )
