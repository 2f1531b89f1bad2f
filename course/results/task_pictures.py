"""The committed results of fine-tuning, as notebooks show them: scores, curves, differences."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import torch
from matplotlib import pyplot as plt
from matplotlib.patches import Rectangle

from bertedu.analysis.views import BLUE, GREEN, LIMIT, ORANGE, Picture, note, style
from bertedu.files import Row, shipped
from course.results import pictures
from course.results.bootstrap import Estimate, Floats
from course.results.record import RunRecord
from course.results.summary import drawn_reader, paired_difference

System = tuple[str, str]  # model, method
NAMES: dict[System, str] = {
    ("majority", "baseline"): "always the same",
    ("word counts", "baseline"): "word-count baseline",
    ("bert-L4H128", "untrained"): "not pre-trained",
    ("bert-L4H128", "frozen"): "pre-trained, frozen",
    ("bert-L4H128", "fine-tuned"): "pre-trained, fine-tuned",
    ("minilm", "fine-tuned"): "MiniLM, fine-tuned",
}
_COLORS = {"baseline": LIMIT, "untrained": ORANGE, "frozen": GREEN, "fine-tuned": BLUE}
CURVE = (30, 100, 300, 1000)  # training examples of a learning curve: runs until dev stops rising
UNITS = {"accuracy": "right, %", "f1": "F1, %", "pearson": "correlation (Pearson), ×100"}


def summary(task: str) -> dict[System, Row]:
    """Return the rows of `finetuning_summary.csv` for one task, trained on all examples.

    Raises ValueError if there are none.
    """
    missing = f"no results of task {task!r}: run `python -m course finetune {task}`, then summary"
    rows = pictures.committed("finetuning_summary", missing, task=task, train_examples="all")
    return {(row["model"], row["method"]): row for row in rows}


def score_lines(task: str, systems: Iterable[System] = NAMES) -> None:
    """Print the mean of each system over its seeds, and its 95 % interval, times 100."""
    rows = summary(task)
    for system in systems:
        if system in rows:
            seeds = rows[system]["seeds"]
            runs = f"{seeds} seeds" if seeds != "1" else ""
            pictures.print_score(NAMES[system], rows[system], 25, runs)


@style()
def score_plot(
    tasks: Mapping[str, str],
    title: str,
    alt: str,
    systems: Sequence[System] = tuple(NAMES),
    chance: Mapping[str, float] | None = None,
    readers: Mapping[str, Mapping[str, pictures.Score]] | None = None,
    tuned: Mapping[str, Mapping[str, pictures.Score]] | None = None,
) -> Picture:
    """Draw every system's mean and interval: a panel a task (name -> heading), a row a system.

    A system that was run on none of the tasks has no row. ``readers``, name -> task -> score, are
    more rows, on top; ``tuned`` are fine-tuned in another way, and stand below. ``chance``, by
    task, is an even guess from 0 to 1: a dashed line.
    """
    known = {task: summary(task) for task in tasks}
    rows = [(name, of, LIMIT, "s") for name, of in (readers or {}).items()]
    for system in systems:
        of = {t: pictures.score_of(found[system]) for t, found in known.items() if system in found}
        rows += [(NAMES[system], of, _COLORS[system[1]], "o")] * bool(of)
    rows += [(name, of, _COLORS["fine-tuned"], "o") for name, of in (tuned or {}).items()]
    page = (5.2 + 4.8 * len(tasks), 1.6 + 0.62 * len(rows))
    figure, panels = pictures.headed_panels(tasks, title, page, sharey=True)
    for task, axes in panels.items():
        for place, (_, scores, color, marker) in enumerate(rows):
            if task in scores:
                pictures.scored_bar(axes, place, scores[task], color, marker)
        pictures.name_rows(axes, [name for name, *_ in rows], above=0.7)
        if chance and task in chance:
            axes.axvline(100 * chance[task], color=LIMIT, linestyle="--")
            note(axes, "chance", (100 * chance[task], len(rows) - 0.6), (5, 0))
        axes.set_xlabel(_unit(task))
    return Picture(figure, alt)


@style()
def learning_curves(
    task: str,
    systems: Sequence[System],
    title: str,
    alt: str,
    everything: int,
    chance: float | None = None,
) -> Picture:
    """Draw scores against the number of training examples; "all" stands at ``everything``.

    ``chance``, from 0 to 1, is a guess that reads nothing: a dashed line.
    """
    figure, axes = plt.subplots(figsize=(11, 6))
    for system in systems:
        points = [
            (everything if count == "all" else int(count), pictures.score_of(row))
            for count, row in _curve_rows(task, system).items()
        ]
        if points:
            pictures.score_curve(axes, points, NAMES[system], _COLORS[system[1]], False)
    if chance is not None:
        axes.axhline(100 * chance, color=LIMIT, linestyle="--", label="chance")
    axes.legend(loc="lower right")  # at the end of a short curve a longer one would cross its name
    axes.set_xscale("log")
    ticks = [*CURVE, 3000, everything]
    axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    axes.minorticks_off()
    axes.set(xlabel="training examples", ylabel=_unit(task), title=title)
    return Picture(figure, alt)


@style()
def grid_map(task: str, model: str, title: str, alt: str) -> Picture:
    """Draw the grid search of a fine-tuned model: dev score by rate, batch size and epochs."""
    missing = f"no grid of task {task!r}: run `python -m course finetune {task} --grid full`"
    wanted = {"task": task, "model": model, "method": "fine-tuned", "purpose": "grid", "seed": "0"}
    rows = pictures.committed("finetuning", missing, **wanted)
    score = {
        (int(r["batch_size"]), int(r["epochs"]), float(r["learning_rate"])): 100 * float(r["dev"])
        for r in rows
    }
    sizes, epochs, rates = (sorted(set(values)) for values in zip(*score, strict=True))
    low, high = min(score.values()), max(score.values())
    bottom = low - (high - low) / 2  # so that the lowest is not white
    figure, panels = plt.subplots(1, len(sizes), figsize=(6.2 * len(sizes), 5), squeeze=False)
    for axes, size in zip(panels[0], sizes, strict=True):
        table = np.array([[score[size, e, r] for r in rates] for e in epochs])
        axes.imshow(table, cmap="Blues", vmin=bottom, vmax=high, aspect="auto")
        dark = bottom + 0.55 * (high - bottom)
        pictures.write_in_cells(axes, table, digits=1, white_above=dark, fontsize=16)
        for i, j in np.argwhere(table == high):
            best = Rectangle((j - 0.47, i - 0.47), 0.94, 0.94, fill=False, ec=ORANGE, lw=5)
            axes.add_patch(best)
        axes.set_xticks(range(len(rates)), [f"{rate:g}" for rate in rates])
        axes.set_yticks(range(len(epochs)), [str(e) for e in epochs])
        axes.set(xlabel="learning rate", ylabel="epochs", title=f"batches of {size}")
        axes.grid(False)
    figure.suptitle(title, fontsize=19)
    return Picture(figure, alt)


def task_difference(
    task: str, better: System, worse: System, examples: int | None = None
) -> Estimate:
    """Return one system minus another, in points, with its 95 % interval.

    Both were trained on all examples, or on the first so many. Raises TaskError if one was not.
    """
    count = str(examples or "all")
    return paired_difference(_record(), task, (*better, count), (*worse, count)) * 100


def difference_from(
    task: str, system: System, scores: Floats, examples: int | None = None
) -> Estimate:
    """Do as `task_difference`, for a system and a reader of known ``scores``.

    They are (n,), from 0 to 1, one for each test example, in the order of the task.
    """
    record, count = _record(), str(examples or "all")
    reader = drawn_reader(scores, record.outcomes(task)[0])
    return paired_difference(record, task, (*system, count), reader) * 100


def summary_of(task: str, system: System, examples: int) -> float:
    """Return the mean score of a system that was trained on the first so many, times 100."""
    return 100 * float(_curve_rows(task, system)[str(examples)]["mean"])


def labels_to_match(task: str, rival: System, system: System, examples: int) -> str:
    """Say with how many training examples, of those tried, a rival reaches a system's score."""
    goal = float(_curve_rows(task, system)[str(examples)]["mean"])
    for count, row in _curve_rows(task, rival).items():
        if float(row["mean"]) >= goal:
            return count if count == "all" else f"{int(count):,}"
    return "more than all"


def runs_of(task: str, system: System, purpose: str = "score") -> list[Row]:
    """Return the rows of `finetuning.csv` for one system, trained on all examples."""
    model, method = system
    wanted = {"task": task, "model": model, "method": method, "purpose": purpose}
    return pictures.committed("finetuning", train_examples="all", **wanted)


def live_rows(task: str, examples: int, epochs: int, model: str = "bert-L4H128") -> list[Row]:
    """Return a model's recorded runs, all methods and seeds, of a short recipe run in class.

    Raises ValueError if there are none.
    """
    wanted = {"task": task, "model": model, "purpose": "score"}
    wanted |= {"train_examples": str(examples), "epochs": str(epochs)}
    missing = (
        f"no such runs: python -m course finetune {task} --from {model} --examples {examples} "
        f"--epochs {epochs} --seeds 10"
    )
    return pictures.committed("finetuning", missing, **wanted)


def confusion(task: str, system: System, count: int) -> torch.Tensor:
    """Return how often each class (row) was called each class (column), summed over seeds."""
    table = torch.zeros(count, count)
    for row, outcomes in _record().outcomes(task)[1]:
        if (row["model"], row["method"], row["train_examples"]) == (*system, "all"):
            np.add.at(table.numpy(), tuple(outcomes.astype(int).T), 1)
    return table


def _record() -> RunRecord:
    return RunRecord(shipped("results"))


def _curve_rows(task: str, system: System) -> dict[str, Row]:
    """Return the rows of a system by number of examples, from few to "all"."""
    model, method = system
    rows = pictures.committed("finetuning_summary", task=task, model=model, method=method)
    by_count = {row["train_examples"]: row for row in rows}
    counts = (*map(str, CURVE), "3000", "all")
    return {count: by_count[count] for count in counts if count in by_count}


def _unit(task: str) -> str:
    return UNITS[pictures.committed("finetuning", task=task)[0]["metric"]]
