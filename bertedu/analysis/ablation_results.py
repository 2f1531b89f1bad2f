"""The committed ablations as notebooks 13 and 14 show them: with intervals, beside the paper."""

import csv
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from bertedu.analysis.ablations import (
    GRIDS,
    NAME,
    Grid,
    Variant,
    difference,
    differences,
)
from bertedu.analysis.verdicts import Ends, Verdict
from bertedu.analysis.views import BLUE, GREEN, LIMIT, ORANGE, Picture, curve, style
from bertedu.finetuning.run import Book, Row
from bertedu.text.sources import shipped

# Devlin et al. (2019), dev sets: table 5, and for the masking procedures table 8.
TABLE_5: dict[str, dict[str, float]] = {
    "BERT": {"MNLI-m": 84.4, "QNLI": 88.4, "MRPC": 86.7, "SST-2": 92.7, "SQuAD": 88.5},
    "No NSP": {"MNLI-m": 83.9, "QNLI": 84.9, "MRPC": 86.5, "SST-2": 92.6, "SQuAD": 87.9},
    "LTR & No NSP": {"MNLI-m": 82.1, "QNLI": 84.3, "MRPC": 77.5, "SST-2": 92.1, "SQuAD": 77.8},
    "LTR & No NSP + BiLSTM": {
        "MNLI-m": 82.1,
        "QNLI": 84.1,
        "MRPC": 75.7,
        "SST-2": 91.6,
        "SQuAD": 84.9,
    },
}
TABLE_8: dict[str, dict[str, float]] = {
    "80/10/10": {"MNLI": 84.2, "NER": 95.4, "NER, frozen": 94.9},
    "100/0/0": {"MNLI": 84.3, "NER": 94.9, "NER, frozen": 94.0},
    "80/0/20": {"MNLI": 84.1, "NER": 95.2, "NER, frozen": 94.6},
    "80/20/0": {"MNLI": 84.4, "NER": 95.2, "NER, frozen": 94.7},
    "0/20/80": {"MNLI": 83.7, "NER": 94.8, "NER, frozen": 94.6},
    "0/0/100": {"MNLI": 83.6, "NER": 94.9, "NER, frozen": 94.6},
}
# Table 6: layers, width, heads -> perplexity of the masked words, and three tasks
TABLE_6: dict[tuple[int, int, int], dict[str, float]] = {
    (3, 768, 12): {"perplexity": 5.84, "MNLI-m": 77.9, "MRPC": 79.8, "SST-2": 88.4},
    (6, 768, 3): {"perplexity": 5.24, "MNLI-m": 80.6, "MRPC": 82.2, "SST-2": 90.7},
    (6, 768, 12): {"perplexity": 4.68, "MNLI-m": 81.9, "MRPC": 84.8, "SST-2": 91.3},
    (12, 768, 12): {"perplexity": 3.99, "MNLI-m": 84.4, "MRPC": 86.7, "SST-2": 92.9},
    (12, 1024, 16): {"perplexity": 3.54, "MNLI-m": 85.7, "MRPC": 86.9, "SST-2": 93.3},
    (24, 1024, 16): {"perplexity": 3.23, "MNLI-m": 86.6, "MRPC": 87.8, "SST-2": 93.7},
}
BASELINES = {"majority": "always the same", "word counts": "counted words"}


def results(grid: str, folder: Path | None = None) -> dict[tuple[str, str], dict[str, str]]:
    """Return the rows of `ablations_summary.csv` for one grid, by variant and task.

    Raises
    ------
    ValueError
        The grid was not run.

    """
    with open((folder or shipped("results")) / f"{NAME}_summary.csv", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["grid"] == grid]
    if not rows:
        raise ValueError(f"no results of grid {grid!r}: run `bertedu ablate {grid}`")
    return {(row["variant"], row["task"]): row for row in rows}


def score_lines(grid: str, task: str, folder: Path | None = None) -> None:
    """Print every variant's mean over its runs and 95 % interval, times 100, best first."""
    rows = [row for (_, of), row in results(grid, folder).items() if of == task]
    for row in sorted(rows, key=lambda row: -float(row["mean"])):
        value, low, high = (100 * float(row[name]) for name in ("mean", "low", "high"))
        name = BASELINES.get(row["variant"], row["variant"])
        runs = "" if row["variant"] in BASELINES else f"{row['seeds']} runs"
        print(f"{name:<31}{value:5.1f} ({low:.1f} to {high:.1f})  {runs}".rstrip())


def claim_alike(text: str, low: float, high: float, points: float = 2) -> Verdict:
    """Print and return whether a difference with this interval, in points, is at most so large.

    "supported" if the whole interval is within so many points of 0, "contradicted" if no part of
    it is. To be undecided which of two is better is not enough: the interval may be long.
    """
    near = -points < low and high < points
    word: Verdict = (
        "supported" if near else "contradicted" if low > points or high < -points else "undecided"
    )
    print(f"{word:<15}{text}: {low:+.1f} to {high:+.1f}")
    return word


def task_intervals(
    grid: Grid, better: str, worse: str, folder: Path | None = None
) -> dict[str, Ends]:
    """Return the 95 % interval, in points, of better - worse on each task of a grid."""
    where = folder or shipped("results")
    ends = {task: difference(grid, task, better, worse, where)[1:] for task in grid.tasks}
    return {task: (100 * low, 100 * high) for task, (low, high) in ends.items()}


def twins(grid: str, variant: str) -> Grid:
    """Return a grid of two variants, "one" and "other": the two pre-trainings of one variant.

    They differ by their seed alone, so what is decided between them is luck (an A/A test).

    Raises
    ------
    ValueError
        The variant was not pre-trained twice.

    """
    full = GRIDS[grid]
    chosen = next(v for v in full.variants if v.name == variant)
    if len(chosen.checkpoints) != 2:
        raise ValueError(f"{variant}: pre-trained {len(chosen.checkpoints)} times, not twice")
    pair = zip(("one", "other"), chosen.checkpoints, strict=True)
    variants = tuple(Variant(name, (checkpoint,), chosen.method) for name, checkpoint in pair)
    return Grid(f"two pre-trainings of {variant}", variants, full.tasks, full.seeds, full.examples)


def checkpoint_means(
    grid: str, task: str, variant: str, folder: Path | None = None
) -> dict[str, float]:
    """Return the mean score of each checkpoint of a variant, times 100: pre-training's luck."""
    book = Book(folder or shipped("results"), NAME)
    chosen = next(v for v in GRIDS[grid].variants if v.name == variant)
    found: dict[str, list[float]] = {name: [] for name in chosen.checkpoints}
    for row in book.rows():
        if _is_run(row, grid, task) and row["method"] == chosen.method and row["model"] in found:
            found[row["model"]].append(100 * float(row["test"]))
    return {name: sum(scores) / len(scores) for name, scores in found.items() if scores}


def _is_run(row: Row, grid: str, task: str) -> bool:
    return bool(row["task"] == task and row["train_examples"] == str(GRIDS[grid].examples))


def difference_plot(
    grid: str,
    tasks: Mapping[str, str],
    title: str,
    alt: str,
    paper: Mapping[str, Mapping[str, float]] | None = None,
    beside: Mapping[str, str] | None = None,
    folder: Path | None = None,
    variants: Sequence[str] | None = None,
    luck: Mapping[str, float] | None = None,
    readers: Mapping[str, tuple[str, float]] | None = None,
) -> Picture:
    """Draw how far each variant is from the first one, with intervals: a panel a task.

    ``tasks`` is name -> heading. ``paper`` is one of the tables above, ``beside`` our task -> the
    column of it that is drawn as an open diamond. Of the variants only ``variants`` are drawn, if
    given. ``luck``, task -> points, is how far two pre-trainings of the first variant are apart: a
    gray band on both sides of 0. ``readers``, task -> label and score times 100, is a dotted line.

    Raises
    ------
    ValueError
        A variant was not run on a task.

    """
    rows = results(grid, folder)
    first, *others = (variant.name for variant in GRIDS[grid].variants)
    others = list(variants or others)
    columns = min(3, len(tasks))
    lines = -(-len(tasks) // columns)
    with style():
        figure, panels = plt.subplots(
            lines,
            columns,
            figsize=(4.2 + 4.3 * columns, lines * (1.7 + 0.5 * len(others))),
            squeeze=False,
            sharey=True,
        )
        for axes in panels.flat[len(tasks) :]:
            axes.set_axis_off()
        for axes, (task, heading) in zip(panels.flat, tasks.items(), strict=False):
            for place, name in enumerate(others):
                row = rows.get((name, task))
                if row is None:
                    raise ValueError(f"{name} was not run on {task}: run `bertedu ablate {grid}`")
                middle, low, high = (
                    100 * float(row[f"minus_{end}"]) for end in ("reference", "low", "high")
                )
                color = ORANGE if high < 0 else BLUE if low > 0 else LIMIT
                axes.hlines(place, low, high, color=color, linewidth=4)
                axes.plot(middle, place, "o", color=color, markersize=10)
                if paper and beside and task in beside and name in paper:
                    gap = paper[name][beside[task]] - paper[first][beside[task]]
                    axes.plot(
                        *(gap, place),
                        "D",
                        markersize=10,
                        markerfacecolor="none",
                        markeredgecolor="black",
                        markeredgewidth=2,
                    )
            axes.axvline(0, color=LIMIT, linestyle="--")
            if luck and task in luck:
                axes.axvspan(
                    -abs(luck[task]), abs(luck[task]), color=LIMIT, alpha=0.18, linewidth=0
                )
            if readers and task in readers:
                _reader_line(axes, *readers[task], 100 * float(rows[first, task]["mean"]))
            axes.set(yticks=range(len(others)), yticklabels=others)
            axes.set_ylim(len(others) - 0.5, -0.5)
            axes.set_title(heading, fontsize=15)
            axes.set_xlabel(f"points from {first}")
        figure.suptitle(title, fontsize=19)
        return Picture(figure, alt)


def _reader_line(axes: Axes, label: str, score: float, first: float) -> None:
    """Draw how far a reader with a known score is from the first variant."""
    axes.axvline(score - first, color=LIMIT, linestyle=":", linewidth=2.5)
    axes.annotate(
        label,
        (score - first, 0.5),
        xycoords=("data", "axes fraction"),
        xytext=(4, 0),
        textcoords="offset points",
        rotation=90,
        va="center",
        color=LIMIT,
        fontsize=13,
    )


def step_curves(
    tasks: Mapping[str, str],
    title: str,
    alt: str,
    folder: Path | None = None,
    at_the_end: tuple[str, str] | None = None,
) -> Picture:
    """Draw scores against pre-training steps (figure 5) for both kinds of model: a panel a task.

    ``at_the_end`` is grid and variant of another model with as many steps, of which the end alone
    is known: a green diamond.
    """
    rows = results("steps", folder)
    with style():
        figure, panels = plt.subplots(
            1, len(tasks), figsize=(7.5 * len(tasks) + 1, 5.6), squeeze=False
        )
        for axes, (task, heading) in zip(panels[0], tasks.items(), strict=True):
            for kind, color in (("BERT", BLUE), ("LTR & No NSP", ORANGE)):
                points = sorted(
                    (step_of(variant), *(100 * float(row[n]) for n in ("mean", "low", "high")))
                    for (variant, of), row in rows.items()
                    if of == task and variant.startswith(f"{kind}, ")
                )
                x, values, low, high = (list(column) for column in zip(*points, strict=True))
                steps = [step / 1000 for step in x]
                curve(axes, steps, values, low, high, kind, color, name_at_end=False)
            for name, label in BASELINES.items():
                score = 100 * float(rows[name, task]["mean"])
                axes.axhline(score, color=LIMIT, linestyle="--", linewidth=1.8)
                axes.annotate(
                    label.replace(" ", "\n", 1),
                    (1.01, score),  # beside the panel, where no curve goes
                    xycoords=("axes fraction", "data"),
                    va="center",
                    color=LIMIT,
                    fontsize=13,
                )
            if at_the_end:
                grid, name = at_the_end
                row = results(grid, folder)[name, task]
                mean, bottom, top = (100 * float(row[n]) for n in ("mean", "low", "high"))
                axes.vlines(max(steps), bottom, top, color=GREEN, linewidth=3)
                axes.plot(max(steps), mean, "D", color=GREEN, markersize=11, label=name)
            axes.set(xlabel="pre-training steps, thousands", ylabel="score on the test, %")
            axes.set_title(heading, fontsize=15)
        panels[0, 0].legend(loc="lower center", bbox_to_anchor=(0.55, 0.1))  # the same for all
        figure.suptitle(title, fontsize=19)
        return Picture(figure, alt)


def step_of(variant: str) -> int:
    """Return the number of pre-training steps in the name of a variant of the grid "steps"."""
    return int(variant.rpartition(", ")[2].removesuffix(" steps"))


def size_plot(
    sizes: Mapping[str, int],
    tasks: Mapping[str, str],
    title: str,
    alt: str,
    folder: Path | None = None,
) -> Picture:
    """Draw scores against parameters: ``sizes`` is variant -> parameters; a panel a task."""
    rows = results("size", folder)
    with style():
        figure, panels = plt.subplots(1, len(tasks), figsize=(4.6 * len(tasks), 4.8), squeeze=False)
        for axes, (task, heading) in zip(panels[0], tasks.items(), strict=True):
            x = [sizes[name] / 1e6 for name in sizes]
            for number, (place, name) in enumerate(zip(x, sizes, strict=True)):
                row = rows[name, task]
                value, low, high = (100 * float(row[n]) for n in ("mean", "low", "high"))
                axes.vlines(place, low, high, color=BLUE, linewidth=4)
                axes.plot(place, value, "o", color=BLUE, markersize=10)
                below = number % 2  # of two that are close, one name above and one below
                axes.annotate(
                    name,
                    (place, low if below else high),
                    xytext=(0, -18 if below else 8),
                    textcoords="offset points",
                    ha="center",
                    fontsize=12,
                )
            score = 100 * float(rows["word counts", task]["mean"])
            axes.axhline(score, color=GREEN, linestyle="--")
            # where the widest gap begins, so that no interval crosses the words
            free, _ = max(pairwise(sorted(x)), key=lambda gap: gap[1] / gap[0])
            axes.annotate(
                "counted words",
                (free, score),
                xytext=(8, -5),
                textcoords="offset points",
                va="top",
                color=GREEN,
            )
            axes.margins(y=0.14)  # room for the names
            axes.set(xscale="log", xlabel="parameters, millions")
            axes.set_xticks(x, [f"{value:.1f}" for value in x])
            axes.minorticks_off()
            axes.set_xlim(0.75 * min(x), 1.35 * max(x))  # room for the names
            axes.set_title(heading, fontsize=15)
        panels[0, 0].set_ylabel("score on the test, %")
        figure.suptitle(title, fontsize=19)
        return Picture(figure, alt)


def pair_differences(
    grid: str, task: str, folder: Path | None = None
) -> dict[tuple[str, str], tuple[float, float]]:
    """Return the 95 % interval, in points, of the difference of every two variants on a task."""
    names = [variant.name for variant in GRIDS[grid].variants]
    found = differences(GRIDS[grid], task, names, folder or shipped("results"))
    return {pair: (100 * low, 100 * high) for pair, (_, low, high) in found.items()}
