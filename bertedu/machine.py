"""The machine a program runs on: its threads, devices and processes, its name; the code's commit.

`torchrun` starts several processes for one run. All of them make the same batches from the same
seeds, so nothing has to be handed round except gradients, which `DistributedDataParallel` averages.
Without `torchrun` there is one process, number 0.
"""

import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


def use_one_thread() -> None:
    """Let PyTorch compute on one thread; OMP_NUM_THREADS overrules it.

    The models here are small: a second thread shortens a step little, and where another program
    needs the second core, each small product waits for it, and seconds become minutes. For
    applications, such as the command line and the notebooks; a library leaves it alone.
    """
    if "OMP_NUM_THREADS" in os.environ:
        return
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
    else:  # PyTorch reads this when it is imported, which `bertedu --help` need not wait for
        os.environ["OMP_NUM_THREADS"] = "1"


def default_device() -> "torch.device":
    """CUDA, else Apple's MPS, else the CPU."""
    import torch

    if torch.cuda.is_available():
        return torch.device("cuda")
    return torch.device("mps" if torch.backends.mps.is_available() else "cpu")


def device_named(name: str | None) -> "torch.device":
    """Return a device by name, or the best; raise ValueError if it cannot be used here."""
    import torch

    if name is None:
        return default_device()
    try:
        return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError) as error:  # torch raises either
        reason = str(error).splitlines()[0]
        raise ValueError(f"device {name!r} cannot be used here: {reason}") from None


def process_count() -> int:
    """Return how many processes work on this run."""
    from torch import distributed

    return distributed.get_world_size() if distributed.is_initialized() else 1


def process_rank() -> int:
    """Return which of them this is, from 0; number 0 writes files and speaks."""
    from torch import distributed

    return distributed.get_rank() if distributed.is_initialized() else 0


@contextmanager
def joined_processes(device: str | None) -> Iterator[str | None]:
    """Join the processes that `torchrun` started, if it did, and name this one's device."""
    import torch
    from torch import distributed

    if int(os.environ.get("WORLD_SIZE", "1")) == 1 or distributed.is_initialized():
        yield device
        return
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    if device == "cuda":
        device = f"cuda:{os.environ['LOCAL_RANK']}"
        torch.cuda.set_device(device)
    distributed.init_process_group("nccl" if device.startswith("cuda") else "gloo")
    try:
        yield device
    finally:
        distributed.destroy_process_group()


def mean_of_processes(values: "torch.Tensor") -> "torch.Tensor":
    """Average over all processes; each gets the same answer."""
    from torch import distributed

    if process_count() == 1:
        return values
    values = values / process_count()
    distributed.all_reduce(values)
    return values


def current_commit() -> str | None:
    """Return the commit of the code, with "+" if files were changed since; None outside git."""
    root = Path(__file__).parents[1]
    if not (root / ".git").exists():  # installed, perhaps within somebody's repository
        return None
    try:
        described = subprocess.run(
            ["git", "describe", "--always", "--dirty=+"], cwd=root, capture_output=True, text=True
        )
    except OSError:
        return None
    return described.stdout.strip() or None


def describe_machine(device: "torch.device") -> dict[str, Any]:
    """Name the hardware and software of a run, for the record beside its numbers."""
    import torch

    name = torch.cpu.get_capabilities().get("cpu_name") if platform.system() == "Linux" else None
    if device.type == "cuda":
        name = torch.cuda.get_device_name(device)
    return {
        "device": device.type,
        "hardware": str(name or platform.processor() or platform.machine()),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "python": platform.python_version(),
    }
