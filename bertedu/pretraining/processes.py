"""Several processes on one run. `torchrun` starts them; each computes its rows of every batch.

All of them make the same batches from the same seeds, so nothing has to be handed round except
gradients, which `DistributedDataParallel` averages. Without `torchrun` there is one process, and
every function here is what it would be without this file.
"""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, distributed


def count() -> int:
    """Return how many processes work on this run."""
    return distributed.get_world_size() if distributed.is_initialized() else 1


def rank() -> int:
    """Return which of them this is, from 0; number 0 writes files and speaks."""
    return distributed.get_rank() if distributed.is_initialized() else 0


@contextmanager
def joined(device: str | None) -> Iterator[str | None]:
    """Join the processes that `torchrun` started, if it did, and name this one's device."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1 or distributed.is_initialized():
        yield device
        return
    if device is None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda":
        device = f"cuda:{os.environ['LOCAL_RANK']}"
        torch.cuda.set_device(device)
    distributed.init_process_group("nccl" if device.startswith("cuda") else "gloo")
    try:
        yield device
    finally:
        distributed.destroy_process_group()


def mean(values: Tensor) -> Tensor:
    """Average over all processes; each gets the same answer."""
    if count() == 1:
        return values
    values = values.clone()
    distributed.all_reduce(values)
    return values / count()


def any_of(here: bool, device: torch.device) -> bool:
    """Whether it is true in any process: all of them stop, or none."""
    return bool(mean(torch.tensor(float(here), device=device)) > 0)


@contextmanager
def interrupt_between_steps() -> Iterator[threading.Event]:
    """Let Ctrl-C set a flag, so that no step is left half done; a second Ctrl-C stops at once."""
    asked = threading.Event()

    def ask(signum: int, frame: Any) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        asked.set()

    before = signal.signal(signal.SIGINT, ask)
    try:
        yield asked
    finally:
        signal.signal(signal.SIGINT, before)
