"""The committed ablations as notebooks 13 and 14 show them: with intervals, beside the paper."""

import re
from collections.abc import Mapping, Sequence
from itertools import combinations, pairwise

from matplotlib import pyplot as plt

from bertedu.analysis.views import BLUE, GREEN, LIMIT, ORANGE, Picture, note, style
from bertedu.results.files import Row
from bertedu.studies.ablations import GRIDS, NAME, Grid, difference, same_recipe
from bertedu.studies.pictures import (
    committed,
    interval_bar,
    name_rows,
    print_score,
    score_curve,
    score_of,
)
from bertedu.studies.verdicts import Ends
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


def results(grid: str) -> dict[tuple[str, str], Row]:
    """Return the rows of `ablations_summary.csv` for one grid, by variant and task.

    Raises ValueError if the grid was not run.
    """
    missing = f"no results of grid {grid!r}: run `bertedu ablate {grid}`"
    rows = committed(f"{NAME}_summary", missing, grid=grid)
    return {(row["variant"], row["task"]): row for row in rows}


def score_lines(grid: str, task: str) -> None:
    """Print every variant's mean over its runs and 95 % interval, times 100, best first."""
    rows = [row for (_, of), row in results(grid).items() if of == task]
    for row in sorted(rows, key=lambda row: -float(row["mean"])):
        baseline = BASELINES.get(row["variant"])
        runs = "1 run" if row["runs"] == "1" else f"{row['runs']} runs"
        print_score(baseline or row["variant"], row, 31, "" if baseline else runs)


def task_intervals(grid: Grid, better: str, worse: str) -> dict[str, Ends]:
    """Return the 95 % interval, in points, of better - worse on each task of a grid."""
    return {task: _points(grid, task, better, worse) for task in grid.tasks}


def pair_differences(grid: str, task: str) -> dict[tuple[str, str], Ends]:
    """Return the 95 % interval, in points, of the difference of every two variants on a task."""
    names = [variant.name for variant in GRIDS[grid].variants]
    return {
        (one, other): _points(GRIDS[grid], task, one, other)
        for one, other in combinations(names, 2)
    }


def _points(grid: Grid, task: str, better: str, worse: str) -> Ends:
    _, low, high = difference(grid, task, better, worse, shipped("results"))
    return 100 * low, 100 * high


def same_recipe_intervals(grid: Grid) -> dict[str, list[Ends]]:
    """Return, task by task, the intervals of every two runs of one variant: an A/A test."""
    compared = {task: same_recipe(grid, task, shipped("results")) for task in grid.tasks}
    return {
        task: [(100 * low, 100 * high) for _, low, high in some.values()]
        for task, some in compared.items()
    }


def luck(grid: str) -> dict[str, float]:
    """Return for each task the standard deviation of runs of one variant, in points.

    It is pooled over the variants; two runs of one differ by their seeds alone.
    """
    rows = committed(f"{NAME}_summary", grid=grid)
    return {row["task"]: 100 * float(row["luck"]) for row in rows}


@style()
def difference_plot(
    grid: str,
    tasks: Mapping[str, str],
    title: str,
    alt: str,
    paper: Mapping[str, Mapping[str, float]] | None = None,
    beside: Mapping[str, str] | None = None,
    variants: Sequence[str] | None = None,
    luck: Mapping[str, float] | None = None,
) -> Picture:
    """Draw how far each variant is from the first one, with intervals: a panel a task.

    ``tasks`` is name -> heading. ``paper`` is a table above, and ``beside`` our task -> its column
    that is drawn as an open diamond. ``luck``, task -> points, is a gray band around 0.
    Raises ValueError if a variant was not run on a task.
    """
    rows = results(grid)
    first, *others = (variant.name for variant in GRIDS[grid].variants)
    others = list(variants or others)
    columns = min(3, len(tasks))
    lines = -(-len(tasks) // columns)
    page = (4.2 + 4.3 * columns, lines * (1.7 + 0.5 * len(others)))
    figure, panels = plt.subplots(lines, columns, figsize=page, squeeze=False, sharey=True)
    for axes in panels.flat[len(tasks) :]:
        axes.set_axis_off()
    for axes, (task, heading) in zip(panels.flat, tasks.items(), strict=False):
        for place, name in enumerate(others):
            if (name, task) not in rows:
                raise ValueError(f"{name} was not run on {task}: run `bertedu ablate {grid}`")
            score = score_of(rows[name, task], ("minus_reference", "minus_low", "minus_high"))
            color = ORANGE if score[2] < 0 else BLUE if score[1] > 0 else LIMIT
            interval_bar(axes, place, score, color)
            if paper and beside and task in beside and name in paper:
                gap = paper[name][beside[task]] - paper[first][beside[task]]
                axes.plot(gap, place, "D", ms=10, mfc="none", mec="black", mew=2)
        axes.axvline(0, color=LIMIT, linestyle="--")
        if luck and task in luck:
            axes.axvspan(-luck[task], luck[task], color=LIMIT, alpha=0.18, linewidth=0)
        name_rows(axes, others)
        axes.set_title(heading, fontsize=15)
        axes.set_xlabel(f"points from {first}")
        axes.locator_params(axis="x", nbins=6)  # the labels of more would touch
    figure.suptitle(title, fontsize=19)
    return Picture(figure, alt)


@style()
def step_curves(tasks: Mapping[str, str], title: str, alt: str) -> Picture:
    """Draw scores against pre-training steps (figure 5) for both kinds of model: a panel a task."""
    rows = results("steps")
    page = (7.5 * len(tasks) + 1, 5.6)
    figure, panels = plt.subplots(1, len(tasks), figsize=page, squeeze=False)
    for axes, (task, heading) in zip(panels[0], tasks.items(), strict=True):
        for kind, color in (("both sides", BLUE), ("left alone", ORANGE)):
            steps = re.compile(rf"{kind}, (\d+) steps")
            points = [
                (int(match[1]) / 1000, score_of(row))
                for (variant, of), row in rows.items()
                if of == task and (match := steps.fullmatch(variant))
            ]
            score_curve(axes, points, kind, color, name_at_end=False)
        for name, label in BASELINES.items():
            score = 100 * float(rows[name, task]["mean"])
            axes.axhline(score, color=LIMIT, linestyle="--", linewidth=1.8)
            beside = ("axes fraction", "data")  # the panel, where no curve goes
            words = label.replace(" ", "\n", 1)
            note(axes, words, (1.01, score), xycoords=beside, va="center", fontsize=13)
        axes.set(xlabel="pre-training steps, thousands", ylabel="score on the test, %")
        axes.set_title(heading, fontsize=15)
    panels[0, 0].legend(loc="lower center", bbox_to_anchor=(0.55, 0.1))  # the same for all
    figure.suptitle(title, fontsize=19)
    return Picture(figure, alt)


@style()
def size_plot(sizes: Mapping[str, int], tasks: Mapping[str, str], title: str, alt: str) -> Picture:
    """Draw scores against parameters: ``sizes`` is variant -> parameters; a panel a task."""
    rows = results("size")
    figure, panels = plt.subplots(1, len(tasks), figsize=(4.6 * len(tasks), 4.8), squeeze=False)
    for axes, (task, heading) in zip(panels[0], tasks.items(), strict=True):
        x = [size / 1e6 for size in sizes.values()]
        for number, (place, name) in enumerate(zip(x, sizes, strict=True)):
            value, low, high = score_of(rows[name, task])
            interval_bar(axes, place, (value, low, high), BLUE, upright=True)
            # of two that are close, one name above and one below
            end, shift = (low, -18) if number % 2 else (high, 8)
            note(axes, name, (place, end), (0, shift), "black", ha="center", fontsize=12)
        score = 100 * float(rows["word counts", task]["mean"])
        axes.axhline(score, color=GREEN, linestyle="--")
        # where the widest gap begins, so that no interval crosses the words
        free, _ = max(pairwise(sorted(x)), key=lambda gap: gap[1] / gap[0])
        note(axes, "counted words", (free, score), (8, -5), GREEN, va="top")
        axes.margins(y=0.14)  # room for the names
        axes.set(xscale="log", xlabel="parameters, millions")
        axes.set_xticks(x, [f"{value:.1f}" for value in x])
        axes.minorticks_off()
        axes.set_xlim(0.75 * min(x), 1.35 * max(x))  # room for the names
        axes.set_title(heading, fontsize=15)
    panels[0, 0].set_ylabel("score on the test, %")
    figure.suptitle(title, fontsize=19)
    return Picture(figure, alt)
