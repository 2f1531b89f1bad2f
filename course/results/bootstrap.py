"""The bootstrap: what is drawn again, the interval that follows, and what it makes of a claim."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

DRAWS = 2000
Floats = np.ndarray[Any, np.dtype[np.float64]]
Ints = np.ndarray[Any, np.dtype[np.int64]]
Verdict = Literal["supported", "undecided", "contradicted"]


def _draws(count: int) -> Ints:
    """Draw so many sources with replacement, by their numbers: (draws, count)."""
    return np.random.default_rng([0, 0]).integers(count, size=(DRAWS, count))


def draw_texts(sources: Ints) -> list[Ints]:
    """Draw whole sources with replacement: the numbers of the examples of each draw."""
    counts = np.unique(sources, return_counts=True)[1]
    members = np.split(np.argsort(sources, kind="stable"), counts.cumsum()[:-1])
    return [np.concatenate([members[i] for i in drawn]) for drawn in _draws(len(members))]


def often_drawn(sources: Ints) -> Floats:
    """Return how often each example is there, (1 + draws, n): once in the test, then in each draw.

    ``sources``: (n,), a number of the article (or other unit) that each is of: drawn whole.
    """
    names, number = np.unique(sources, return_inverse=True)
    often = [np.bincount(drawn, minlength=len(names))[number] for drawn in _draws(len(names))]
    return np.array([np.ones(len(number)), *often])


def drawn_means(values: Floats, sources: Ints) -> Floats:
    """Return the means of values, (..., n) -> (..., 1 + draws): once, then on sources drawn again.

    For ``sources`` see `often_drawn`.
    """
    often = often_drawn(sources)
    return np.asarray(values @ (often / often.sum(axis=1, keepdims=True)).T)


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the middle 95 %."""
    low, high = np.quantile(values, [0.025, 0.975])
    return float(low), float(high)


class Estimate(NamedTuple):
    """A mean or a difference, the ends of its 95 % interval, and how rare it is by luck alone.

    ``p`` is the chance to find one as far from 0 if the truth is 0.
    """

    value: float
    low: float
    high: float
    p: float

    @property
    def verdict(self) -> Verdict:
        """What it makes of the claim that the truth is above 0, taken alone."""
        return verdict_of(self.low, self.high)

    def __neg__(self) -> "Estimate":
        """Return the difference the other way round."""
        return Estimate(-self.value, -self.high, -self.low, self.p)

    def __mul__(self, factor: Any) -> "Estimate":
        """Return it in another unit, such as points; ``factor`` is above 0."""
        return Estimate(factor * self.value, factor * self.low, factor * self.high, self.p)


class Spread(NamedTuple):
    """How far apart runs of one recipe lie: their variance on a test as it is.

    ``by_texts`` is the part of it that other test texts would do to each run alone: half of the
    variance of the difference of two runs, over texts drawn again.
    """

    variance: float
    by_texts: float
    freedom: int


def run_spread(groups: Iterable[Floats]) -> Spread:
    """Return the spread of runs of one recipe.

    ``groups``: for each recipe the scores (runs, 1 + draws) of its runs, on the test as it is and
    on texts drawn again, the same for all. All recipes are pooled, since two or three runs alone
    say little about theirs. Raises ValueError if no recipe was run twice.
    """
    deviations = [runs - runs.mean(axis=0) for runs in groups]
    freedom = sum(len(d) - 1 for d in deviations)
    if freedom < 1:
        raise ValueError("no recipe was run twice: the spread of runs is not known")
    variance = sum(float((d[:, 0] ** 2).sum()) for d in deviations) / freedom
    by_texts = sum(float(d[:, 1:].var(axis=1, ddof=1).sum()) for d in deviations) / freedom
    return Spread(variance, by_texts, freedom)


def estimate(drawn: Floats, runs: Sequence[int] = (), spread: Spread | None = None) -> Estimate:
    """Return a mean or a difference of means with its 95 % interval, for other texts and runs.

    ``drawn`` (1 + draws,) is its value on the test as it is, then on texts drawn again; ``runs``
    how many runs each of its means is of, and none for what has no luck of training. What other
    texts do to each run alone is in the spread of runs already: of the variance over texts, only
    what is beyond that is added. The interval is Student's t, its degrees of freedom are
    Satterthwaite's (Biometrics Bulletin 2, 1946): the variance of runs is an estimate of few runs.
    """
    from scipy.stats import t

    value, by_texts = float(drawn[0]), float(np.var(drawn[1:], ddof=1))
    share, freedom = sum(1 / count for count in runs), np.inf
    if share and spread and spread.variance:
        by_runs = share * spread.variance
        by_texts = by_runs + max(0.0, by_texts - share * spread.by_texts)
        freedom = spread.freedom * (by_texts / by_runs) ** 2
    error = by_texts**0.5
    reach = float(t.ppf(0.975, freedom)) * error
    p = float(2 * t.sf(abs(value) / error, freedom)) if error else float(value == 0)
    return Estimate(value, value - reach, value + reach, p)


def over_texts(value: float, reach: float) -> Estimate:
    """Return an estimate whose 95 % interval, ``reach`` to each side, is known: a single run's."""
    return estimate(value + np.array([0, -1, 1]) * reach / (1.95996 * 2**0.5))


def seed_estimate(values: Sequence[float]) -> Estimate:
    """Return a mean over seeds with its 95 % interval, by Student's t; one seed has none.

    Of seeds that are equal, but for the last digit of a float, the mean is all that is known.
    """
    mean = float(np.mean(values))
    if len(values) < 2:
        return Estimate(mean, np.nan, np.nan, np.nan)
    if np.ptp(values) < 1e-9:
        return Estimate(mean, mean, mean, float(abs(mean) < 1e-9))
    # on a test that is never drawn again
    return BootstrapScores(np.repeat(np.array(values, float)[:, None], 3, axis=1)).estimate()


def verdict_of(low: float, high: float, than: float = 0.0) -> Verdict:
    """Say what an interval makes of the claim that a value is above ``than``."""
    return "supported" if low > than else "contradicted" if high < than else "undecided"


@dataclass(frozen=True)
class BootstrapScores:
    """The scores (runs, 1 + draws) of a system's runs: on the test, then on texts drawn again.

    What is not ``trained`` has no luck of training: its one run is all there is.
    """

    runs: Floats
    trained: bool = True

    @property
    def mean(self) -> float:
        """The mean over runs, on the test as it is."""
        return float(self.runs[:, 0].mean())

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of the mean; of a single run, over texts only."""
        return self.estimate()[1:3]

    def estimate(self, spread: Spread | None = None) -> Estimate:
        """Return the mean with its interval; the spread of runs is its own if none is given."""
        return _estimate([self], self.runs.mean(axis=0), spread)

    def __sub__(self, other: "BootstrapScores") -> "BootstrapScores":
        """Return the differences run by run: of pairs of runs that belong together."""
        return BootstrapScores(self.runs - other.runs, self.trained or other.trained)

    def minus(self, other: "BootstrapScores", spread: Spread | None = None) -> Estimate:
        """Return the difference of the means, on common texts, of runs that are independent.

        The spread of runs is that of both if none is given; if neither was run twice, the interval
        is over texts only, and so about these two runs.
        """
        return _estimate([self, other], self.runs.mean(axis=0) - other.runs.mean(axis=0), spread)

    def against_itself(self, half: Sequence[int], others: Iterable["BootstrapScores"]) -> Estimate:
        """Compare the runs of these numbers with the rest, as `minus` would: an A/A test.

        The spread is of each half by itself and of ``others``: it must not know the difference.
        """
        one, rest = self.runs[list(half)], np.delete(self.runs, list(half), axis=0)
        spread = run_spread([one, rest, *(other.runs for other in others if other.trained)])
        return BootstrapScores(one).minus(BootstrapScores(rest), spread)


def common_spread(systems: Iterable[BootstrapScores]) -> Spread | None:
    """Return the spread of runs of all these systems; None if none was run twice."""
    runs = [some.runs for some in systems if some.trained]
    return run_spread(runs) if any(len(some) > 1 for some in runs) else None


def _estimate(sides: Sequence[BootstrapScores], drawn: Floats, spread: Spread | None) -> Estimate:
    if not (spread := spread or common_spread(sides)):
        return estimate(drawn)
    return estimate(drawn, [len(side.runs) for side in sides if side.trained], spread)


def halves(runs: int) -> list[tuple[int, ...]]:
    """Return every way to split so many runs in two: the numbers of the smaller half, or of one."""
    ways = combinations(range(runs), runs // 2) if runs > 1 else ()
    return [way for way in ways if runs % 2 or 0 in way]


def ratio_interval(sums: Tensor, counts: Tensor, draws: int = DRAWS) -> tuple[float, float]:
    """Return the 95 % interval of a ratio of sums: (N,) and (N,) -> low and high.

    The N units (documents, or pairs of sentences) are drawn again with replacement, whole, since
    the tokens of one are not independent. It is over other held-out text, not another training.
    """
    generator = torch.Generator().manual_seed(0)
    chosen = torch.randint(len(sums), (draws, len(sums)), generator=generator)
    times = torch.zeros(draws, len(sums), dtype=torch.double)
    times.scatter_add_(1, chosen, torch.ones_like(chosen, dtype=torch.double))
    ratios = (times @ sums.double()) / (times @ counts.double())
    low, high = ratios.nanquantile(torch.tensor([0.025, 0.975], dtype=torch.double)).tolist()
    return low, high
