"""Take turns, look at the clock, say how sure a ratio is; and the peak memory of a step."""

import multiprocessing
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
from tqdm import tqdm

from benchmarks.sides import Setting, make_model, training_step
from bertedu.model.config import BertConfig
from bertedu.pretraining.batches import Batch

WARM_UP = 2  # rounds
STATUS = Path("/proc/self/status")  # where Linux says how much memory a process has had


def take_turns(
    functions: Mapping[str, Callable[[], object]], rounds: int
) -> dict[str, list[float]]:
    """Call each function once a round, A B C A B C …; return the milliseconds of every call.

    The speed of a machine drifts: two calls that follow each other drift together, two series of
    calls do not. `WARM_UP` rounds before are not counted.
    """
    times: dict[str, list[float]] = {name: [] for name in functions}
    for turn in tqdm(range(WARM_UP + rounds), unit="round", leave=False):
        for name, function in functions.items():
            began = time.perf_counter()
            function()
            ended = time.perf_counter()
            if turn >= WARM_UP:
                times[name].append(1e3 * (ended - began))
    return times


def ratio(above: Sequence[float], below: Sequence[float]) -> list[float]:
    """Divide round by round: the median of the ratios, and their quartiles."""
    ratios: list[float] = np.quantile(np.divide(above, below), [0.5, 0.25, 0.75]).tolist()
    return ratios


def peak_of_step(config: BertConfig, setting: Setting, batch: Batch) -> float:
    """Run a few steps in a fresh process; return its peak over that after the imports, in MB.

    Weights, gradients, both Adam averages and activations are in it; Python and libraries are not.
    """
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        return process.submit(_peak_of_step, config, setting, batch).result()


def _peak_of_step(config: BertConfig, setting: Setting, batch: Batch) -> float:
    before = _peak()
    step = training_step(make_model(config, setting), [batch], setting)
    for _ in range(3):
        step()
    return _peak() - before


def _peak() -> float:
    """Return the most memory that this process has had so far, in MB."""
    lines = STATUS.read_text(encoding="ascii").splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) * 1024 / 1e6
