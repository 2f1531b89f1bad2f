"""The committed results of fine-tuning, as notebooks show them: intervals, curves, claims."""

import csv
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from bertedu.analysis.verdicts import Ends, say
from bertedu.analysis.views import BLUE, GREEN, LIMIT, ORANGE, Picture, curve, style
from bertedu.finetuning.report import (
    Floats,
    draw_systems,
    drawn_reader,
    interval,
    paired_difference,
)
from bertedu.finetuning.run import Book
from bertedu.text.sources import shipped

System = tuple[str, str]  # model, method
Score = tuple[float, float, float]  # mean, low, high, times 100
NAMES: dict[System, str] = {
    ("majority", "baseline"): "always the same",
    ("word counts", "baseline"): "counted words",
    ("bert-L4H128", "untrained"): "not pre-trained",
    ("bert-L4H128", "frozen"): "pre-trained, frozen",
    ("bert-L4H128", "fine-tuned"): "pre-trained, fine-tuned",
    ("minilm", "fine-tuned"): "MiniLM, fine-tuned",
}
_COLORS = {"baseline": LIMIT, "untrained": ORANGE, "frozen": GREEN, "fine-tuned": BLUE}
CURVE = (100, 300, 1000, 3000)  # numbers of training examples that a learning curve tries
UNITS = {
    "accuracy": "right, %",
    "f1": "F1, %",
    "pearson": "correlation (Pearson), ×100",
}


def summary(task: str, folder: Path | None = None) -> dict[System, dict[str, str]]:
    """Return the rows of `finetuning_summary.csv` for one task, trained on all examples.

    Raises
    ------
    ValueError
        There is no such result.

    """
    rows = _rows("finetuning_summary.csv", folder)
    found = {
        (row["model"], row["method"]): row
        for row in rows
        if row["task"] == task and row["train_examples"] == "all"
    }
    if not found:
        raise ValueError(
            f"no results of task {task!r}: run `bertedu finetune {task}`, then summary"
        )
    return found


def score_lines(task: str, systems: Iterable[System] = NAMES, folder: Path | None = None) -> None:
    """Print the mean of each system over its seeds, and its 95 % interval, times 100."""
    rows = summary(task, folder)
    for system in systems:
        if system in rows:
            row = rows[system]
            value, low, high = (100 * float(row[name]) for name in ("mean", "low", "high"))
            seeds = f"{row['seeds']} seeds" if row["seeds"] != "1" else ""
            print(f"{NAMES[system]:<25}{value:5.1f} ({low:.1f} to {high:.1f})  {seeds}".rstrip())


def score_plot(
    tasks: Mapping[str, str],
    title: str,
    alt: str,
    systems: Sequence[System] = tuple(NAMES),
    folder: Path | None = None,
    chance: Mapping[str, float] | None = None,
    readers: Mapping[str, Mapping[str, Score]] | None = None,
) -> Picture:
    """Draw every system's mean and interval: a panel a task (name -> heading), a row a system.

    A system that was run on none of the tasks has no row. ``readers``, name -> task -> mean, low,
    high, times 100, are more rows, on top, of what is not in the summary. ``chance``, by task, is
    what an even guess gets, from 0 to 1; it is drawn as a dashed line.
    """
    found = {task: summary(task, folder) for task in tasks}
    systems = [system for system in systems if any(system in rows for rows in found.values())]
    readers = readers or {}
    names = [*readers, *(NAMES[system] for system in systems)]
    more = len(readers)
    with style():
        figure, panels = plt.subplots(
            1,
            len(tasks),
            figsize=(5.2 + 4.8 * len(tasks), 1.6 + 0.62 * len(names)),
            squeeze=False,
            sharey=True,
        )
        for axes, (task, heading) in zip(panels[0], tasks.items(), strict=True):
            rows = found[task]
            for place, known in enumerate(readers.values()):
                if task in known:
                    _row(axes, place, known[task], LIMIT, "s")
            for place, system in enumerate(systems, start=more):
                if system in rows:
                    score = tuple(100 * float(rows[system][n]) for n in ("mean", "low", "high"))
                    _row(axes, place, score, _COLORS[system[1]])
            axes.set(yticks=range(len(names)), yticklabels=names)
            axes.set_ylim(len(names) - 0.5, -0.7)
            if chance and task in chance:
                axes.axvline(100 * chance[task], color=LIMIT, linestyle="--")
                axes.annotate(
                    "chance",
                    (100 * chance[task], len(names) - 0.6),
                    xytext=(5, 0),
                    textcoords="offset points",
                    color=LIMIT,
                )
            axes.set_xlabel(UNITS[_metric(task, folder)])
            if len(tasks) > 1 or heading:
                axes.set_title(heading, fontsize=15)
        figure.suptitle(title, fontsize=19)
        return Picture(figure, alt)


def _row(axes: Axes, place: int, score: tuple[float, ...], color: str, marker: str = "o") -> None:
    value, low, high = score
    axes.hlines(place, low, high, color=color, linewidth=4)
    axes.plot(value, place, marker, color=color, markersize=11)
    axes.annotate(
        f"{value:.1f}",
        (value, place),
        xytext=(0, 11),
        textcoords="offset points",
        ha="center",
        color=color,
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5},  # over the line
    )


def learning_curves(
    task: str,
    systems: Sequence[System],
    title: str,
    alt: str,
    everything: int,
    folder: Path | None = None,
    limits: Mapping[str, float] | None = None,
) -> Picture:
    """Draw scores against the number of training examples; "all" stands at ``everything``.

    ``limits``, label -> score times 100, are dashed lines: readers that learn nothing more from
    more examples.
    """
    rows = _curve_rows(task, folder)
    with style():
        figure, axes = plt.subplots(figsize=(11, 6))
        for system in systems:
            mine = [row for row in rows if (row["model"], row["method"]) == system]
            points = sorted(
                (
                    everything if row["train_examples"] == "all" else int(row["train_examples"]),
                    *(100 * float(row[name]) for name in ("mean", "low", "high")),
                )
                for row in mine
            )
            if points:
                x, values, low, high = (list(column) for column in zip(*points, strict=True))
                curve(axes, x, values, low, high, NAMES[system], _COLORS[system[1]])
        for label, score in (limits or {}).items():
            axes.axhline(score, color=LIMIT, linestyle="--", linewidth=1.8)
            axes.annotate(
                f"{label}: {score:.0f}",
                (CURVE[0], score),
                xytext=(0, 4),
                textcoords="offset points",
                color=LIMIT,
            )
        axes.set_xscale("log")
        ticks = [*CURVE, everything]
        axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
        axes.minorticks_off()
        axes.set(xlabel="training examples", ylabel=UNITS[_metric(task, folder)], title=title)
        return Picture(figure, alt)


def grid_map(task: str, model: str, title: str, alt: str, folder: Path | None = None) -> Picture:
    """Draw the grid search of a fine-tuned model: dev score by rate, batch size and epochs."""
    rows = [
        row
        for row in _rows("finetuning.csv", folder)
        if row["task"] == task
        and row["purpose"] == "grid"
        and (row["model"], row["method"]) == (model, "fine-tuned")
    ]
    if not rows:
        raise ValueError(f"no grid of task {task!r}: run `bertedu finetune {task} --grid full`")
    score = {
        (int(r["batch_size"]), int(r["epochs"]), float(r["learning_rate"])): 100 * float(r["dev"])
        for r in rows
    }
    sizes, epochs = sorted({key[0] for key in score}), sorted({key[1] for key in score})
    rates = sorted({key[2] for key in score})
    low, high = min(score.values()), max(score.values())
    with style():
        figure, panels = plt.subplots(1, len(sizes), figsize=(6.2 * len(sizes), 5), squeeze=False)
        for axes, size in zip(panels[0], sizes, strict=True):
            table = [[score[size, e, r] for r in rates] for e in epochs]
            bottom = low - (high - low) / 2  # so that the lowest is not white
            axes.imshow(table, cmap="Blues", vmin=bottom, vmax=high, aspect="auto")
            for i, row in enumerate(table):
                for j, value in enumerate(row):
                    dark = (value - bottom) / (high - bottom) > 0.55
                    axes.text(
                        j,
                        i,
                        f"{value:.1f}",
                        ha="center",
                        va="center",
                        fontsize=16,
                        color="white" if dark else "black",
                    )
                    if value == high:
                        corner = (j - 0.47, i - 0.47)
                        frame = Rectangle(corner, 0.94, 0.94, fill=False, edgecolor=ORANGE, lw=5)
                        axes.add_patch(frame)
            axes.set_xticks(range(len(rates)), [f"{rate:g}" for rate in rates])
            axes.set_yticks(range(len(epochs)), [str(e) for e in epochs])
            axes.set(xlabel="learning rate", ylabel="epochs", title=f"batches of {size}")
            axes.grid(False)
        figure.suptitle(title, fontsize=19)
        return Picture(figure, alt)


def claim(
    text: str,
    task: str,
    better: System,
    worse: System,
    examples: int | None = None,
    folder: Path | None = None,
) -> None:
    """Print whether the interval of a difference supports that one system beats another.

    Both were trained on all examples, or on the first so many.
    """
    book = Book(folder or shipped("results"))
    count = str(examples or "all")
    _, low, high = paired_difference(book, task, (*better, count), (*worse, count))
    say(text, 100 * low, 100 * high)


def difference_from(
    task: str,
    system: System,
    scores: Floats,
    examples: int | None = None,
    folder: Path | None = None,
) -> Ends:
    """Return the 95 % interval, in points, of a system minus a reader of known ``scores``.

    The system was trained on all examples, or on the first so many. ``scores``: (n,), from 0 to 1,
    what the reader gets on each test example, in the order of the task.
    """
    book = Book(folder or shipped("results"))
    sources, _ = book.outcomes(task)
    _, low, high = draw_systems(book, task)[*system, str(examples or "all")].minus(
        drawn_reader(scores, sources)
    )
    return 100 * low, 100 * high


def reader_score(task: str, scores: Floats, folder: Path | None = None) -> Score:
    """Return a reader's mean over the test examples and its 95 % interval, times 100."""
    sources, _ = Book(folder or shipped("results")).outcomes(task)
    drawn = drawn_reader(scores, sources)
    low, high = interval(drawn.draws.tolist())
    return 100 * drawn.mean, 100 * low, 100 * high


def best_with_all(task: str, system: System, folder: Path | None = None) -> float:
    """Return the mean score of a system that was trained on all examples, times 100."""
    return 100 * float(summary(task, folder)[system]["mean"])


def labels_to_reach(task: str, system: System, rival: System, folder: Path | None = None) -> str:
    """Say with how many training examples a system first reaches what a rival has with all.

    Only the numbers of examples that were tried are looked at.
    """
    goal = float(summary(task, folder)[rival]["mean"])
    tried = [
        (math.inf if row["train_examples"] == "all" else int(row["train_examples"]), row["mean"])
        for row in _curve_rows(task, folder)
        if (row["model"], row["method"]) == system
    ]
    enough = sorted(count for count, mean in tried if float(mean) >= goal)
    if not enough:
        return "none of the numbers tried"
    return "all" if math.isinf(enough[0]) else f"{enough[0]:,}"


def runs_of(
    task: str, system: System, purpose: str = "score", folder: Path | None = None
) -> list[dict[str, str]]:
    """Return the rows of `finetuning.csv` for one system, trained on all examples."""
    return [
        row
        for row in _rows("finetuning.csv", folder)
        if (row["task"], row["purpose"], row["train_examples"]) == (task, purpose, "all")
        and (row["model"], row["method"]) == system
    ]


def live_rows(
    task: str,
    examples: int,
    epochs: int,
    model: str = "bert-L4H128",
    folder: Path | None = None,
) -> list[dict[str, str]]:
    """Return a model's recorded runs, all methods and seeds, of a short recipe run in class.

    Raises
    ------
    ValueError
        There are none.

    """
    found = [
        row
        for row in _rows("finetuning.csv", folder)
        if (row["task"], row["model"], row["purpose"]) == (task, model, "score")
        and (row["train_examples"], row["epochs"]) == (str(examples), str(epochs))
    ]
    if not found:
        raise ValueError(
            f"no such runs: bertedu finetune {task} --from {model} --examples {examples} "
            f"--epochs {epochs} --seeds 10"
        )
    return found


def confusion(task: str, system: System, count: int, folder: Path | None = None) -> torch.Tensor:
    """Return how often each class (row) was called each class (column), summed over seeds."""
    _, runs = Book(folder or shipped("results")).outcomes(task)
    table = torch.zeros(count, count)
    for row, outcomes in runs:
        if (row["model"], row["method"], row["train_examples"]) == (*system, "all"):
            np.add.at(table.numpy(), tuple(outcomes.astype(int).T), 1)
    return table


def _curve_rows(task: str, folder: Path | None) -> list[dict[str, str]]:
    """Return the rows of one recipe with more and more examples; short runs are left out."""
    counts = {*map(str, CURVE), "all"}
    return [
        row
        for row in _rows("finetuning_summary.csv", folder)
        if row["task"] == task and row["train_examples"] in counts
    ]


def _metric(task: str, folder: Path | None) -> str:
    return next(row["metric"] for row in _rows("finetuning.csv", folder) if row["task"] == task)


def _rows(name: str, folder: Path | None) -> list[dict[str, str]]:
    with open((folder or shipped("results")) / name, encoding="utf-8") as file:
        return list(csv.DictReader(file))
