"""The committed ablations as notebooks 13 and 14 show them: with intervals, beside the paper."""

import re
from collections.abc import Mapping
from itertools import combinations, pairwise

from bertedu.analysis.views import BLUE, GREEN, LIMIT, ORANGE, Picture, note, style
from bertedu.files import Row, shipped
from course.experiments.ablations import GRIDS, NAME, Grid, difference, same_recipe
from course.results import pictures
from course.results.bootstrap import Estimate
from course.results.columns import MINUS_REFERENCE

# the paper's: variant -> task -> score; table 6 by layers, width and heads
TABLE_5, TABLE_8 = pictures.paper_table("table_5"), pictures.paper_table("table_8")
TABLE_6: dict[tuple[int, ...], dict[str, float]] = {
    tuple(map(int, size.split())): row for size, row in pictures.paper_table("table_6").items()
}
BASELINES = {"majority": "always the same", "word counts": "word-count baseline"}


def results(grid: str) -> dict[tuple[str, str], Row]:
    """Return the rows of `ablations_summary.csv` for one grid, by variant and task.

    Raises ValueError if the grid was not run.
    """
    missing = f"no results of grid {grid!r}: run `python -m course ablate {grid}`"
    rows = pictures.committed(f"{NAME}_summary", missing, grid=grid)
    return {(row["variant"], row["task"]): row for row in rows}


def task_intervals(grid: Grid, better: str, worse: str) -> dict[str, Estimate]:
    """Return better - worse, in points, with its 95 % interval, on each task of a grid."""
    return {task: _points(grid, task, better, worse) for task in grid.tasks}


def pair_differences(grid: str, task: str) -> dict[tuple[str, str], Estimate]:
    """Return the difference of every two variants on a task, in points, with its 95 % interval."""
    names = [variant.name for variant in GRIDS[grid].variants]
    return {pair: _points(GRIDS[grid], task, *pair) for pair in combinations(names, 2)}


def _points(grid: Grid, task: str, better: str, worse: str) -> Estimate:
    return difference(grid, task, better, worse, shipped("results")) * 100


def same_recipe_differences(grid: Grid) -> dict[str, list[Estimate]]:
    """Return, task by task, each half of the runs of a variant minus the rest: an A/A test."""
    return {
        task: [one * 100 for one in same_recipe(grid, task, shipped("results"))]
        for task in grid.tasks
    }


def between_runs(grid: str) -> dict[str, float]:
    """Return for each task the standard deviation of runs of one variant, in points.

    It is pooled over the variants; two runs of one differ by their seeds alone.
    """
    rows = pictures.committed(f"{NAME}_summary", grid=grid)
    return {row["task"]: 100 * float(row["luck"]) for row in rows}


@style()
def difference_plot(
    grid: str,
    tasks: Mapping[str, str],
    title: str,
    alt: str,
    paper: Mapping[str, Mapping[str, float]] | None = None,
    beside: Mapping[str, str] | None = None,
    between_runs: Mapping[str, float] | None = None,
) -> Picture:
    """Draw how far each variant is from the first one, with intervals: a panel a task.

    ``tasks`` is name -> heading. ``paper`` is a table above, and ``beside`` our task -> its column
    that is drawn as an open diamond. ``between_runs``, task -> standard deviation between runs in
    points, is a gray band around 0.
    What was not run leaves its row empty. Raises ValueError if the second variant was not.
    """
    rows = results(grid)
    first, *others = (variant.name for variant in GRIDS[grid].variants)
    across = 2 if len(tasks) == 4 else min(3, len(tasks))
    page = (4.2 + 4.3 * across, -(-len(tasks) // across) * (1.7 + 0.5 * len(others)))
    figure, panels = pictures.headed_panels(tasks, title, page, across, sharey=True)
    for task, axes in panels.items():
        if (others[0], task) not in rows:
            raise ValueError(
                f"{others[0]} was not run on {task}: run `python -m course ablate {grid}`"
            )
        for place, name in enumerate(others):
            if (name, task) not in rows:
                continue
            score = pictures.score_of(rows[name, task], MINUS_REFERENCE[:3])
            color = ORANGE if score[2] < 0 else BLUE if score[1] > 0 else LIMIT
            pictures.interval_bar(axes, place, score, color)
            if paper and beside and task in beside and name in paper:
                gap = paper[name][beside[task]] - paper[first][beside[task]]
                axes.plot(gap, place, "D", ms=10, mfc="none", mec="black", mew=2)
        axes.axvline(0, color=LIMIT, linestyle="--")
        if between_runs and task in between_runs:
            width = between_runs[task]
            axes.axvspan(-width, width, color=LIMIT, alpha=0.18, linewidth=0)
        pictures.name_rows(axes, others)
        axes.set_xlabel(f"points from {first}")
        axes.locator_params(axis="x", nbins=6)  # the labels of more would touch
    return Picture(figure, alt)


@style()
def step_curves(tasks: Mapping[str, str], title: str, alt: str) -> Picture:
    """Draw scores against pre-training steps (figure 5) for both kinds of model: a panel a task."""
    rows = results("steps")
    figure, panels = pictures.headed_panels(tasks, title, (7.5 * len(tasks) + 1, 5.6))
    for task, axes in panels.items():
        for kind, color in (("both sides", BLUE), ("left alone", ORANGE)):
            steps = re.compile(rf"{kind}, (\d+) steps")
            points = [
                (int(match[1]) / 1000, pictures.score_of(row))
                for (variant, of), row in rows.items()
                if of == task and (match := steps.fullmatch(variant))
            ]
            pictures.score_curve(axes, points, kind, color, name_at_end=False)
        for name, label in BASELINES.items():
            score = 100 * float(rows[name, task]["mean"])
            axes.axhline(score, color=LIMIT, linestyle="--", linewidth=1.8)
            beside = ("axes fraction", "data")  # the panel, where no curve goes
            words = label.replace(" ", "\n", 1)
            note(axes, words, (1.01, score), xycoords=beside, va="center", fontsize=13)
        axes.set(xlabel="pre-training steps, thousands", ylabel="score on the test, %")
    figure.axes[0].legend(loc="lower center", bbox_to_anchor=(0.55, 0.1))  # the same for all
    return Picture(figure, alt)


@style()
def size_plot(sizes: Mapping[str, int], tasks: Mapping[str, str], title: str, alt: str) -> Picture:
    """Draw scores against parameters: ``sizes`` is variant -> parameters; a panel a task."""
    rows = results("size")
    figure, panels = pictures.headed_panels(tasks, title, (4.6 * len(tasks), 4.8))
    for task, axes in panels.items():
        x = [size / 1e6 for size in sizes.values()]
        for number, (place, name) in enumerate(zip(x, sizes, strict=True)):
            value, low, high = pictures.score_of(rows[name, task])
            pictures.interval_bar(axes, place, (value, low, high), BLUE, upright=True)
            # of two that are close, one name above and one below; none on the baseline's line
            end, shift = (high, (6, 8)) if number % 2 else (low, (0, -18))
            note(axes, name, (place, end), shift, "black", ha="center", fontsize=12)
        score = 100 * float(rows["word counts", task]["mean"])
        axes.axhline(score, color=GREEN, linestyle="--")
        # where the widest gap begins, so that no interval crosses the words
        free, _ = max(pairwise(sorted(x)), key=lambda gap: gap[1] / gap[0])
        note(axes, "word-count\nbaseline", (free, score), (16, 5), GREEN, va="bottom")
        axes.margins(y=0.14)  # room for the names
        axes.set(xscale="log", xlabel="parameters, millions")
        axes.set_xticks(x, [f"{value:.1f}" for value in x])
        axes.minorticks_off()
        axes.set_xlim(0.75 * min(x), 1.35 * max(x))  # room for the names
    figure.axes[0].set_ylabel("score on the test, %")
    return Picture(figure, alt)
