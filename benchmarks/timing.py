"""Take turns, look at the clock, and say how sure a ratio is."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

WARM_UP = 2  # rounds


class Ratio(NamedTuple):
    """The median of a ratio over all rounds, with its quartiles."""

    median: float
    low: float
    high: float


def take_turns(
    functions: Mapping[str, Callable[[], object]],
    rounds: int,
    advance: Callable[[], object] = lambda: None,
) -> dict[str, list[float]]:
    """Call each function once a round, A B C A B C …, and return the seconds of every call.

    The speed of a machine drifts: two calls that follow each other drift together, two series of
    calls do not. `WARM_UP` rounds before are not counted. ``advance`` runs after each call.
    """
    seconds: dict[str, list[float]] = {name: [] for name in functions}
    for turn in range(WARM_UP + rounds):
        for name, function in functions.items():
            began = time.perf_counter()
            function()
            ended = time.perf_counter()
            if turn >= WARM_UP:
                seconds[name].append(ended - began)
            advance()
    return seconds


def ratio(above: Sequence[float], below: Sequence[float]) -> Ratio:
    """Divide round by round; return the median of these ratios and their quartiles.

    Raises
    ------
    ValueError
        The series are empty or not equally long: the rounds do not match.

    """
    if len(above) != len(below) or not above:
        raise ValueError(f"{len(above)} and {len(below)} rounds cannot be compared pair by pair")
    low, median, high = np.quantile(np.divide(above, below), [0.25, 0.5, 0.75]).tolist()
    return Ratio(median, low, high)


def milliseconds(seconds: Sequence[float]) -> float:
    """Return the median in milliseconds."""
    return float(np.median(seconds)) * 1e3
