"""What the papers after BERT claim, and what a small measurement makes of it: one table."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bertedu.results.bootstrap import Verdict, seed_interval, verdict_of


@dataclass(frozen=True)
class Finding:
    """One line of the table *idea, claimed, measured, verdict*.

    ``unit`` names what was measured and in what: the claim is that ``value`` is above 0. ``low``
    and ``high`` are the ends of its 95 % interval over ``runs`` trainings.
    """

    idea: str  # the model, as its paper names it
    year: int
    claimed: str  # the paper's claim, in few words
    unit: str
    value: float
    low: float
    high: float
    runs: int

    @property
    def verdict(self) -> Verdict:
        """What the interval makes of the claim."""
        return verdict_of(self.low, self.high)


def finding(idea: str, year: int, claimed: str, unit: str, gaps: Sequence[float]) -> Finding:
    """Make a finding of differences, one for each seed: with the idea minus without it."""
    low, high = seed_interval(gaps)
    return Finding(idea, year, claimed, unit, float(np.mean(gaps)), low, high, len(gaps))
