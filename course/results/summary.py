"""The table: task × model, with intervals, and what a difference is worth."""

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import numpy as np

from bertedu.files import Row, write_csv
from bertedu.finetuning.examples import TaskError
from bertedu.finetuning.kinds import Outcomes
from course.results.bootstrap import (
    BootstrapScores,
    Estimate,
    Floats,
    Ints,
    Spread,
    common_spread,
    drawn_means,
    often_drawn,
)
from course.results.columns import MINUS_REFERENCE, SCORE, in_columns
from course.results.record import SYSTEM, RunRecord

REFERENCE = "bert-L4H128"
System = tuple[str, str, str]  # model, method, number of training examples
SystemOf = Callable[[Row], System | None]  # of a row of outcomes; none: it is left out


# how often each draw takes each example (draws, n), outcomes (n, columns) -> scores (draws,)
Metric = Callable[[Floats, Outcomes], Floats]


def _accuracy(often: Floats, outcomes: Outcomes) -> Floats:
    return often @ (outcomes[:, 0] == outcomes[:, 1]) / often.sum(axis=1)


def _span_f1(often: Floats, outcomes: Outcomes) -> Floats:
    return often @ outcomes[:, 1] / often.sum(axis=1)


def _entity_f1(often: Floats, outcomes: Outcomes) -> Floats:
    right, found, there = (often @ outcomes).T
    return np.where(found + there > 0, 2 * right / np.maximum(found + there, 1), 0.0)


def _pearson(often: Floats, outcomes: Outcomes) -> Floats:
    x, y = outcomes.T - outcomes.mean(axis=0)[:, None]  # small numbers: nothing is rounded away
    sums = often @ np.stack([np.ones(len(x)), x, y, x * x, y * y, x * y], axis=1)
    count, x, y, xx, yy, xy = sums.T
    of_x, of_y = xx / count - (x / count) ** 2, yy / count - (y / count) ** 2
    fixed = (of_x < 1e-18) | (of_y < 1e-18)  # one of them never changes
    together = xy / count - x * y / count**2
    return np.where(fixed, 0.0, together / np.sqrt(np.where(fixed, 1.0, of_x * of_y)))


# the columns of a kind's outcomes -> its main metric, as sums: thousands of draws cost little
METRICS: dict[str, Metric] = {
    "label/found": _accuracy,
    "value/found": _pearson,
    "right/found/there": _entity_f1,
    "exact/f1/answerable": _span_f1,
}


def paired_difference(
    record: RunRecord, task: str, one: System, other: System | BootstrapScores
) -> Estimate:
    """Return mean(one) - mean(other) with its 95 % interval, on the same draws of texts.

    ``other`` may be a reader of `drawn_reader`. Raises TaskError if one of them has no runs.
    """
    drawn = draw_systems(record, task)
    systems = [side for side in (one, other) if not isinstance(side, BootstrapScores)]
    if missing := [", ".join(system) for system in systems if system not in drawn]:
        raise TaskError(f"no runs of {missing[0]} on {task}: run it with bertedu finetune")
    rival = other if isinstance(other, BootstrapScores) else drawn[other]
    return drawn[one].minus(rival, _spread(drawn, *systems))


def drawn_reader(scores: Floats, sources: Ints) -> BootstrapScores:
    """Return what `draw_systems` would of a reader whose score on each example is known.

    ``scores``: (n,), from 0 to 1; its score is their mean. ``sources``: (n,), as in a record.
    Raises TaskError if there are more or fewer scores than examples.
    """
    if scores.shape != sources.shape:
        raise TaskError(f"there are {len(sources)} test examples; scores: {scores.shape}")
    return BootstrapScores(drawn_means(scores[None], sources), trained=False)


def _spread(drawn: dict[System, BootstrapScores], *systems: System) -> Spread | None:
    """Return the spread of runs of all that learned like these: from as many examples, and alike.

    Runs of an LSTM on frozen features lie several times as far apart as those of fine-tuning.
    """
    ways = {("features" in method, count) for _, method, count in systems}
    alike = (of for (_, way, count), of in drawn.items() if ("features" in way, count) in ways)
    return common_spread(alike)


def _system(row: Row) -> System:
    return row["model"], row["method"], row["train_examples"]


def draw_systems(
    record: RunRecord, task: str, system_of: SystemOf = _system
) -> dict[System, BootstrapScores]:
    """Return every system of a task, all on the same draws of texts.

    ``system_of`` says which system a row of outcomes belongs to: its model, method and number of
    training examples, if nothing else is said. A baseline is not trained by chance.
    """
    sources, rows = record.outcomes(task)
    often = often_drawn(sources)
    systems: dict[System, list[Floats]] = defaultdict(list)
    trained: dict[System, bool] = {}
    for row, outcomes in rows:
        if system := system_of(row):
            systems[system].append(METRICS[row["columns"]](often, outcomes))
            trained[system] = row["method"] != "baseline"
    return {name: BootstrapScores(np.array(runs), trained[name]) for name, runs in systems.items()}


def summarize_task(record: RunRecord, task: str, reference: System) -> list[Row]:
    """Return a row for each system: its mean over seeds, intervals, and how it differs.

    The intervals hold for other test texts and fine-tuning seeds, not for other pre-training runs.
    ``minus_reference`` is this system minus ``reference`` on the same draws of texts.
    """
    drawn = draw_systems(record, task)
    rows = []
    for system, scores in drawn.items():
        row: Row = dict(zip(SYSTEM, (task, *system), strict=True))
        row |= {"seeds": len(scores.runs)}
        row |= in_columns(SCORE, scores.estimate(_spread(drawn, system)))
        if reference in drawn and system != reference:
            spread = _spread(drawn, system, reference)
            row |= in_columns(MINUS_REFERENCE, scores.minus(drawn[reference], spread))
        rows.append(row)
    return rows


def summarize(folder: Path, reference: str | None = None) -> list[Row]:
    """Summarize all tasks of a folder of results, and write `finetuning_summary.csv` there.

    Systems are compared with ``reference``, fine-tuned; if none is named, with `REFERENCE` where
    it was run. Raises TaskError if the folder holds no outcomes, or none of the reference.
    """
    record = RunRecord(folder)
    outcomes = record.outcomes_folder
    names = sorted(
        path.relative_to(outcomes).with_suffix("").as_posix() for path in outcomes.rglob("*.csv")
    )
    if not names:
        raise TaskError(f"no outcomes in {folder}: run `python -m course finetune` first")
    system = (reference or REFERENCE, "fine-tuned", "all")
    rows = [row for name in names for row in summarize_task(record, name, system)]
    if reference and not any((row["model"], row["method"]) == system[:2] for row in rows):
        raise TaskError(f"no fine-tuned runs of {reference!r} in {folder} to compare with")
    write_csv(folder / "finetuning_summary.csv", rows)
    return rows
