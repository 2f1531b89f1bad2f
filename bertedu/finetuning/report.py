"""The table: task × model, with intervals, and what a difference is worth."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from bertedu.finetuning.examples import TaskError
from bertedu.finetuning.kinds import Outcomes
from bertedu.finetuning.run import Book, Row, write_csv

DRAWS = 2000
REFERENCE = "bert-L4H128"
Floats = np.ndarray[Any, np.dtype[np.float64]]
Ints = np.ndarray[Any, np.dtype[np.int64]]
System = tuple[str, str, str]  # model, method, number of training examples


@dataclass(frozen=True)
class Metric:
    """A score that follows from sums over examples, so that thousands of draws cost little."""

    parts: Callable[[Outcomes], Floats]  # (n, columns) -> (n, k), what is summed
    score: Callable[[Floats], Floats]  # sums (..., k) -> scores (...)

    def __call__(self, outcomes: Outcomes) -> float:
        """Return the score of all examples."""
        return float(self.score(self.parts(outcomes).sum(axis=0)))


def main_metric(columns: str) -> Metric:
    """Return the metric of a kind of task, without its details."""
    return _METRICS[columns]


def _share(right: Callable[[Outcomes], Floats]) -> Metric:
    """Return the mean of a number that each example has."""

    def parts(outcomes: Outcomes) -> Floats:
        return np.stack([right(outcomes), np.ones(len(outcomes))], axis=1)

    return Metric(parts, lambda sums: sums[..., 0] / sums[..., 1])


def _products(outcomes: Outcomes) -> Floats:
    x, y = outcomes.T - outcomes.mean(axis=0)[:, None]  # small numbers: nothing is rounded away
    return np.stack([np.ones(len(x)), x, y, x * x, y * y, x * y], axis=1)


def _pearson(sums: Floats) -> Floats:
    count, x, y, xx, yy, xy = np.moveaxis(sums, -1, 0)
    of_x, of_y = xx / count - (x / count) ** 2, yy / count - (y / count) ** 2
    fixed = (of_x < 1e-18) | (of_y < 1e-18)  # one of them never changes
    together = xy / count - x * y / count**2
    return np.where(fixed, 0.0, together / np.sqrt(np.where(fixed, 1.0, of_x * of_y)))


def _entity_f1(sums: Floats) -> Floats:
    right, found, there = np.moveaxis(sums, -1, 0)
    return np.where(found + there > 0, 2 * right / np.maximum(found + there, 1), 0.0)


_METRICS = {
    "label/found": _share(lambda outcomes: (outcomes[:, 0] == outcomes[:, 1]).astype(float)),
    "value/found": Metric(_products, _pearson),
    "right/found/there": Metric(lambda outcomes: outcomes, _entity_f1),
    "exact/f1/answerable": _share(lambda outcomes: outcomes[:, 1]),
}


def draw_texts(sources: Ints, draws: int = DRAWS, seed: int = 0) -> list[Ints]:
    """Draw whole sources with replacement: the numbers of the examples of each draw."""
    dice = np.random.default_rng([seed, 0])
    order = np.argsort(sources, kind="stable")
    starts = np.searchsorted(sources[order], np.arange(sources.max() + 2))
    members = [order[a:b] for a, b in pairwise(starts)]
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


def verdict(low: float, high: float) -> str:
    """Say what the interval of a difference supports."""
    return "higher" if low > 0 else "lower" if high < 0 else "undecided"


def paired_difference(
    book: Book, task: str, one: System, other: System
) -> tuple[float, float, float]:
    """Return mean(one) - mean(other) and its 95 % interval, on the same draws of texts.

    Where both have the same number of seeds, seed i of one is drawn with seed i of the other.

    Raises
    ------
    TaskError
        One of them has no runs.

    """
    drawn = draw_systems(book, task)
    for system in (one, other):
        if system not in drawn:
            raise TaskError(
                f"no runs of {', '.join(system)} on {task}: run it with bertedu finetune"
            )
    return drawn[one].minus(drawn[other])


@dataclass(frozen=True)
class Drawn:
    """The scores of a system's runs, and their mean on each of `DRAWS` draws."""

    scores: list[float]
    draws: Floats

    @property
    def mean(self) -> float:
        """The mean over runs, on the test as it is."""
        return float(np.mean(self.scores))

    def minus(self, other: "Drawn") -> tuple[float, float, float]:
        """Return the difference of the means, and its 95 % interval on common draws."""
        return (self.mean - other.mean, *interval((self.draws - other.draws).tolist()))


def drawn_reader(scores: Floats, sources: Ints) -> Drawn:
    """Return what `draw_systems` would of a reader whose score on each example is known.

    ``scores``: (n,), from 0 to 1; its score is their mean. ``sources``: (n,), as in a record.

    Raises
    ------
    TaskError
        There are more or fewer scores than examples.

    """
    if scores.shape != sources.shape:
        raise TaskError(f"there are {len(sources)} test examples; scores: {scores.shape}")
    means = np.array([scores[chosen].mean() for chosen in draw_texts(sources)])
    return Drawn([float(scores.mean())], means)


def draw_systems(
    book: Book, task: str, system_of: Callable[[Row], System | None] | None = None
) -> dict[System, Drawn]:
    """Return every system of a task, all on the same draws of texts.

    ``system_of`` says which system a row of outcomes belongs to (none: it is left out), if not
    model, method and number of training examples.
    """
    sources, rows = book.outcomes(task)
    systems: dict[System, list[tuple[str, Outcomes]]] = defaultdict(list)
    for row, outcomes in rows:
        system = (system_of or _system)(row)
        if system is not None:
            systems[system].append((row["columns"], outcomes))
    often = np.array([np.bincount(e, minlength=len(sources)) for e in draw_texts(sources)], float)
    found = {}
    for system, runs in systems.items():
        metric = main_metric(runs[0][0])
        scores = np.array([metric.score(often @ metric.parts(o)) for _, o in runs])  # (runs, draws)
        chosen = np.array(draw_runs(len(runs), len(often)))  # (draws, runs)
        draws = np.take_along_axis(scores.T, chosen, axis=1).mean(axis=1)
        found[system] = Drawn([metric(outcomes) for _, outcomes in runs], draws)
    return found


def _system(row: Row) -> System:
    return row["model"], row["method"], row["train_examples"]


def summarize_task(
    book: Book,
    task: str,
    reference: System,
    system_of: Callable[[Row], System | None] | None = None,
) -> list[Row]:
    """Return a row for each system: its mean over seeds, intervals, and how it differs.

    ``low`` and ``high`` hold for other test texts and other fine-tuning seeds together;
    ``seeds_low`` and ``seeds_high`` for other seeds on the same texts. None of them holds for other
    pre-training runs: the checkpoints of a system are these. ``minus_reference`` is this system
    minus ``reference`` on the same draws of texts, and, if both have the same seeds, of seeds.
    ``system_of`` says which system a row of outcomes belongs to; none: it is left out.
    """
    drawn = draw_systems(book, task, system_of)
    rows: list[Row] = []
    for system, found in drawn.items():
        low, high = interval(found.draws.tolist())
        seeds_low, seeds_high = seed_interval(found.scores)
        row: Row = {
            "task": task,
            "model": system[0],
            "method": system[1],
            "train_examples": system[2],
            "seeds": len(found.scores),
            "mean": found.mean,
            "low": low,
            "high": high,
            "seeds_low": seeds_low,
            "seeds_high": seeds_high,
        }
        if reference in drawn and system != reference:
            middle, low, high = found.minus(drawn[reference])
            row |= {"minus_reference": middle, "minus_low": low, "minus_high": high}
            row["verdict"] = verdict(low, high)
        rows.append(row)
    return [{name: _rounded(value) for name, value in row.items()} for row in rows]


def _rounded(value: Any) -> Any:
    if not isinstance(value, float):
        return value
    return "" if np.isnan(value) else f"{value:.4f}"


def summarize(
    folder: Path, reference: str | None = None, tasks: Sequence[str] | None = None
) -> list[Row]:
    """Summarize all tasks of a folder of results, and write `finetuning_summary.csv` there.

    Systems are compared with ``reference``, fine-tuned; if none is named, with `REFERENCE` where
    it was run.

    Raises
    ------
    TaskError
        The folder holds no outcomes, none of one of ``tasks``, or none of the reference.

    """
    book = Book(folder)
    outcomes = folder / "outcomes"
    names = tasks or sorted(
        path.relative_to(outcomes).with_suffix("").as_posix() for path in outcomes.rglob("*.csv")
    )
    if not names:
        raise TaskError(f"no outcomes in {folder}: run `bertedu finetune` first")
    rows = [
        row
        for name in names
        for row in summarize_task(book, name, (reference or REFERENCE, "fine-tuned", "all"))
    ]
    if reference and not any(
        row["model"] == reference and row["method"] == "fine-tuned" for row in rows
    ):
        raise TaskError(f"no fine-tuned runs of {reference!r} in {folder} to compare with")
    write_csv(folder / "finetuning_summary.csv", rows)
    return rows
