"""The bootstrap: what is drawn again, the interval that follows, and what it makes of a claim."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

DRAWS = 2000
Floats = np.ndarray[Any, np.dtype[np.float64]]
Ints = np.ndarray[Any, np.dtype[np.int64]]
Verdict = Literal["supported", "undecided", "contradicted"]


def draw_texts(sources: Ints, draws: int = DRAWS, seed: int = 0) -> list[Ints]:
    """Draw whole sources with replacement: the numbers of the examples of each draw."""
    dice = np.random.default_rng([seed, 0])
    order = np.argsort(sources, kind="stable")
    members = np.split(order, np.bincount(sources).cumsum()[:-1])
    return [
        np.concatenate([members[i] for i in dice.integers(len(members), size=len(members))])
        for _ in range(draws)
    ]


def draw_runs(runs: int, draws: int = DRAWS, seed: int = 0) -> list[Ints]:
    """Draw as many runs as there are, with replacement: their numbers, for each draw."""
    dice = np.random.default_rng([seed, 1])
    return [dice.integers(runs, size=runs) for _ in range(draws)]


def resample(
    sources: Ints, runs: int, draws: int = DRAWS, seed: int = 0
) -> list[tuple[Ints, Ints]]:
    """Draw texts and runs: (examples, runs) for each draw.

    Both are drawn, since both are chance: which texts the test holds, and how training went. The
    texts do not depend on the number of runs, so that any two systems meet on the same ones.
    """
    return list(zip(draw_texts(sources, draws, seed), draw_runs(runs, draws, seed), strict=True))


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the middle 95 %."""
    low, high = np.quantile(values, [0.025, 0.975])
    return float(low), float(high)


def seed_interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % interval of a mean over seeds, by Student's t; one seed has none."""
    from scipy.stats import t

    if len(values) < 2:
        return float("nan"), float("nan")
    mean, error = np.mean(values), np.std(values, ddof=1) / len(values) ** 0.5
    reach = float(t.ppf(0.975, len(values) - 1) * error)
    return float(mean - reach), float(mean + reach)


def run_spread(groups: Sequence[Sequence[float]]) -> tuple[float, int]:
    """Return the standard deviation of runs of one recipe, and its degrees of freedom.

    ``groups``: for each recipe the scores of its runs. All recipes are pooled, since two
    or three runs alone say little about theirs. Raises ValueError if no recipe was run twice.
    """
    deviations = [np.array(runs) - np.mean(runs) for runs in groups]
    freedom = sum(len(runs) - 1 for runs in groups)
    if freedom < 1:
        raise ValueError("no recipe was run twice: the standard deviation of runs is not known")
    return float(np.sqrt(sum((d**2).sum() for d in deviations) / freedom)), freedom


def interval_over_runs(
    value: float, drawn: Sequence[float] | Floats, runs: Sequence[int], spread: tuple[float, int]
) -> tuple[float, float]:
    """Return the 95 % interval of a mean or a difference of means, for other texts and other runs.

    ``drawn`` is the value on texts drawn again; ``runs`` how many runs each of its means is of, and
    none for what has no luck of training; ``spread`` as from `run_spread`. The variances of the two
    kinds of luck are added, and since the spread is of few runs, the interval is Student's t.
    """
    from scipy.stats import t

    deviation, freedom = spread
    by_runs = deviation**2 * sum(1 / count for count in runs)
    reach = float(t.ppf(0.975, freedom) * np.sqrt(np.var(drawn, ddof=1) + by_runs))
    return value - reach, value + reach


def verdict_of(low: float, high: float, than: float = 0.0) -> Verdict:
    """Say what an interval makes of the claim that a value is above ``than``."""
    return "supported" if low > than else "contradicted" if high < than else "undecided"


@dataclass(frozen=True)
class BootstrapScores:
    """The scores of a system's runs, and their mean on each of `DRAWS` draws."""

    scores: list[float]
    draws: Floats

    @property
    def mean(self) -> float:
        """The mean over runs, on the test as it is."""
        return float(np.mean(self.scores))

    @property
    def interval(self) -> tuple[float, float]:
        """The middle 95 % of the draws."""
        return interval(self.draws.tolist())

    def __sub__(self, other: "BootstrapScores") -> "BootstrapScores":
        """Return the difference of the means, on common draws."""
        return BootstrapScores([self.mean - other.mean], self.draws - other.draws)

    def minus(self, other: "BootstrapScores") -> tuple[float, float, float]:
        """Return the difference of the means, and its 95 % interval on common draws."""
        difference = self - other
        return (difference.mean, *difference.interval)


def ratio_intervals(sums: Tensor, counts: Tensor, draws: int = 2000, seed: int = 0) -> Tensor:
    """Return the 95 % intervals of K ratios of sums: (N, K) and (N, K) -> (2, K), low and high.

    The N units (documents, or pairs of sentences) are drawn again with replacement, whole, since
    the tokens of one are not independent. It says how far other held-out text might differ, not
    another training run.
    """
    generator = torch.Generator().manual_seed(seed)
    chosen = torch.randint(len(sums), (draws, len(sums)), generator=generator)
    times = torch.zeros(draws, len(sums), dtype=torch.double)
    times.scatter_add_(1, chosen, torch.ones_like(chosen, dtype=torch.double))
    ratios = (times @ sums.double()) / (times @ counts.double())
    return ratios.nanquantile(torch.tensor([0.025, 0.975], dtype=torch.double), dim=0)


def ratio_interval(sums: Tensor, counts: Tensor) -> tuple[float, float]:
    """Return the interval of one ratio of sums, both (N,); see `ratio_intervals`."""
    low, high = ratio_intervals(sums[:, None], counts[:, None]).flatten().tolist()
    return low, high
