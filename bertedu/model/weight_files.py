"""The files of a checkpoint, safetensors and JSON: what is wrong with one is said by its name."""

import json
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from bertedu.files import FileError, replacing

SHARDS = "model.safetensors.index.json"  # beside weights in several files


class CheckpointError(FileError):
    """A file that is not a checkpoint of this model; the message says which, why and what to do."""


def read_json(folder: Path) -> dict[str, Any]:
    """Read the `config.json` of a folder; CheckpointError if there is none, or it is not JSON."""
    path = folder / "config.json"
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CheckpointError(f"{folder} is not a checkpoint: it has no config.json") from None
    except ValueError:
        raise CheckpointError(f"{path} is not valid JSON; get the checkpoint again") from None
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error}") from None
    return values if isinstance(values, dict) else {}


def save_tensors(tensors: dict[str, Tensor], path: Path, metadata: dict[str, str]) -> None:
    """Write a safetensors file under a temporary name, then rename it."""
    with replacing(path) as part:
        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
        save_file(tensors, part, metadata)
        part.chmod(0o644)  # others may read it; safetensors itself lets only the owner


def save_together(tensors: dict[str, Tensor], folder: Path, texts: Mapping[str, str]) -> None:
    """Write `model.safetensors` and texts by name: no old file goes before all new are whole."""
    with ExitStack() as files:
        for name, text in texts.items():
            part = files.enter_context(replacing(folder / name))
            part.write_text(text + "\n", encoding="utf-8")
        save_tensors(tensors, folder / "model.safetensors", {"format": "pt"})


def load_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Read all tensors of a safetensors file, and its metadata.

    Raises CheckpointError if the file is missing, cut short, or not safetensors.
    """
    if not path.is_file():
        raise no_weights(path, str(path.parent))
    try:
        with safe_open(path, framework="pt") as file:
            names = list(file.keys())
            return {name: file.get_tensor(name) for name in names}, file.metadata() or {}
    except (SafetensorError, OSError) as error:
        raise CheckpointError(
            f"{path} is broken or only half there ({error}); get or train it again"
        ) from None


def no_weights(path: Path, origin: str, pickle: str = "") -> CheckpointError:
    """Return the error for a file that is not there; it may lie there in another form."""
    if (path.parent / SHARDS).is_file():
        return CheckpointError(
            f"{origin} is sharded: its weights are cut into several files, which {SHARDS} lists. "
            "Join them once: transformers.AutoModelForPreTraining.from_pretrained(OLD)"
            ".save_pretrained(NEW, max_shard_size='50GB'), and the same with AutoTokenizer"
        )
    if not (pickle := pickle or next((p.name for p in sorted(path.parent.glob("*.bin"))), "")):
        return CheckpointError(f"there is no file {path}")
    return CheckpointError(
        f"{origin} has no model.safetensors, only a pickle ({pickle}). A pickle is a program: it "
        "may do anything on this machine while it is opened, so bertedu opens none. Look on the "
        "Hub for the same model with safetensors (copies; pull requests by the bot SFconvertbot). "
        "If you trust its author, convert it once yourself: transformers.AutoModelForPreTraining"
        ".from_pretrained(OLD).save_pretrained(NEW), and the same with AutoTokenizer"
    )


def finite(tensor: Tensor, name: str, origin: str) -> Tensor:
    """Return ``tensor``; raise CheckpointError if a number in it is NaN or infinite."""
    if not tensor.isfinite().all():
        raise CheckpointError(
            f"{origin}: {name} holds {int((~tensor.isfinite()).sum()):,} numbers that are NaN or "
            "infinite: its training went wrong, or the file was damaged. Get or train it again"
        )
    return tensor
