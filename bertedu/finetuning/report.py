"""The table: task × model, with intervals, and what a difference is worth."""

from collections import defaultdict
from collections.abc import Callable, Sequence
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
System = tuple[str, str, str]  # model, method, number of training examples


def main_metric(columns: str) -> Callable[[Outcomes], float]:
    """Return the metric of a kind of task as a function of its outcomes, without its details."""
    return _METRICS[columns]


def _accuracy(outcomes: Outcomes) -> float:
    return float((outcomes[:, 0] == outcomes[:, 1]).mean())


def _pearson(outcomes: Outcomes) -> float:
    value, found = outcomes.T
    if found.std() < 1e-9 or value.std() < 1e-9:
        return 0.0
    return float(np.corrcoef(value, found)[0, 1])


def _entity_f1(outcomes: Outcomes) -> float:
    right, found, there = outcomes.sum(axis=0)
    return float(2 * right / (found + there)) if found + there else 0.0


def _answer_f1(outcomes: Outcomes) -> float:
    return float(outcomes[:, 1].mean())


_METRICS: dict[str, Callable[[Outcomes], float]] = {
    "label/found": _accuracy,
    "value/found": _pearson,
    "right/found/there": _entity_f1,
    "exact/f1/answerable": _answer_f1,
}


def resample(
    sources: np.ndarray[Any, Any], runs: int, draws: int = DRAWS, seed: int = 0
) -> list[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]]:
    """Draw whole sources, and seeds, with replacement: (examples, runs) for each draw.

    Both are drawn, since both are chance: which texts the test holds, and how training went. The
    texts do not depend on the number of runs, so that any two systems meet on the same ones.
    """
    dice, of_runs = np.random.default_rng([seed, 0]), np.random.default_rng([seed, 1])
    order = np.argsort(sources, kind="stable")
    starts = np.searchsorted(sources[order], np.arange(sources.max() + 2))
    members = [order[a:b] for a, b in pairwise(starts)]
    return [
        (
            np.concatenate([members[i] for i in dice.integers(len(members), size=len(members))]),
            of_runs.integers(runs, size=runs),
        )
        for _ in range(draws)
    ]


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
    book: Book,
    task: str,
    one: System,
    other: System,
) -> tuple[float, float, float]:
    """Return mean(one) - mean(other) and its 95 % interval, on the same draws of texts.

    Where both have the same number of seeds, seed i of one is drawn with seed i of the other.

    Raises
    ------
    TaskError
        One of them has no runs.

    """
    mean, drawn = mean_and_draws(book, task, one)
    other_mean, other_drawn = mean_and_draws(book, task, other)
    return (mean - other_mean, *interval((drawn - other_drawn).tolist()))


def mean_and_draws(
    book: Book,
    task: str,
    system: System,
    system_of: Callable[[Row], System | None] | None = None,
) -> tuple[float, Floats]:
    """Return the mean score of a system's runs, and the same mean on each of `DRAWS` draws.

    All systems of a task meet the same draws of texts. ``system_of`` says which system a row of
    outcomes belongs to, if not model, method and number of training examples.

    Raises
    ------
    TaskError
        It has no runs.

    """
    sources, runs = book.outcomes(task)
    some = [(row, o) for row, o in runs if (system_of or _system)(row) == system]
    if not some:
        raise TaskError(
            f"no runs of {', '.join(filter(None, system))} on {task}: run it with bertedu "
            f"{'finetune' if system_of is None else 'ablate'}"
        )
    metric, outcomes = main_metric(some[0][0]["columns"]), [one for _, one in some]
    mean = float(np.mean([metric(one) for one in outcomes]))
    return mean, _resampled(sources, outcomes, metric)


def _resampled(
    sources: np.ndarray[Any, Any], runs: Sequence[Outcomes], metric: Callable[[Outcomes], float]
) -> Floats:
    return np.array(
        [
            np.mean([metric(runs[i][examples]) for i in chosen])
            for examples, chosen in resample(sources, len(runs))
        ]
    )


def _system(row: Row) -> System:
    return row["model"], row["method"], row["train_examples"]


def summarize_task(
    book: Book, task: str, reference: System, system_of: Callable[[Row], System | None] = _system
) -> list[Row]:
    """Return a row for each system: its mean over seeds, intervals, and how it differs.

    ``low`` and ``high`` hold for other test texts and other fine-tuning seeds together;
    ``seeds_low`` and ``seeds_high`` for other seeds on the same texts. None of them holds for other
    pre-training runs: the checkpoints of a system are these. ``minus_reference`` is this system
    minus ``reference`` on the same draws of texts, and, if both have the same seeds, of seeds.
    ``system_of`` says which system a row of outcomes belongs to; none: it is left out.
    """
    sources, runs = book.outcomes(task)
    systems: dict[System, list[Outcomes]] = defaultdict(list)
    columns: dict[System, str] = {}
    for row, outcomes in runs:
        system = system_of(row)
        if system is None:
            continue
        systems[system].append(outcomes)
        columns[system] = row["columns"]
    drawn: dict[System, Floats] = {}
    means: dict[System, float] = {}
    rows: list[Row] = []
    for system, some in systems.items():
        metric = main_metric(columns[system])
        scores = [metric(outcomes) for outcomes in some]
        means[system] = float(np.mean(scores))
        drawn[system] = _resampled(sources, some, metric)
        low, high = interval(drawn[system].tolist())
        seeds_low, seeds_high = seed_interval(scores)
        rows.append(
            {
                "task": task,
                "model": system[0],
                "method": system[1],
                "train_examples": system[2],
                "seeds": len(some),
                "mean": means[system],
                "low": low,
                "high": high,
                "seeds_low": seeds_low,
                "seeds_high": seeds_high,
            }
        )
    for row, system in zip(rows, systems, strict=True):
        if reference in drawn and system != reference:
            low, high = interval((drawn[system] - drawn[reference]).tolist())
            row["minus_reference"] = means[system] - means[reference]
            row |= {"minus_low": low, "minus_high": high, "verdict": verdict(low, high)}
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
