"""The record of runs: a row for each run, what each test example came out as, and many runs."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from filelock import FileLock

from bertedu.files import Row, read_csv, write_csv
from bertedu.finetuning.examples import Splits, Task, TaskError
from bertedu.finetuning.finetune import Run, Setup, make_kind, run_once
from bertedu.finetuning.kinds import Answer, Kind, Outcomes
from bertedu.finetuning.training import Hyperparameters
from bertedu.machine import device_named
from course.results.origin import origin

SYSTEM = ("task", "model", "method", "train_examples")
RECIPE = ("batch_size", "learning_rate", "epochs", "dropout", "patience", "min_steps")
KEY = (*SYSTEM, *RECIPE, "seed")
BATCH_SIZES, EPOCHS = (16, 32), (2, 3, 4)  # of the paper's grid; its rates go with the method


class RunRecord:
    """Rows of runs in a folder, and their outcomes beside them.

    `finetuning.csv` has the rows; `outcomes/TASK.csv` beside it the outcomes of the test split, so
    that any two models can be compared on the same examples without running them again. Several
    processes may write to it at once. A record of another name, such as "ablations", has its rows
    in `ablations.csv` and its outcomes in `ablations/TASK.csv`.
    """

    def __init__(self, folder: Path, name: str = "finetuning") -> None:
        self.folder, self.table = folder, folder / f"{name}.csv"
        self.outcomes_folder = folder / ("outcomes" if name == "finetuning" else name)
        self._lock = FileLock(folder / ".finetuning.lock")

    def rows(self) -> list[Row]:
        """Return all rows, values as text."""
        return read_csv(self.table)

    def find(self, task: Task, setup: Setup, recipe: Hyperparameters, purpose: str) -> Row | None:
        """Return the row of a run, if it has been run."""
        wanted = _key(task, setup, recipe) | {"purpose": purpose}
        return next((row for row in self.rows() if _has(row, wanted)), None)

    def add(
        self,
        task: Task,
        splits: Splits,
        setup: Setup,
        recipe: Hyperparameters,
        run: Run,
        purpose: str,
        more: Row | None = None,
    ) -> Row:
        """Write down a run, with ``more`` columns; one with the same key is replaced."""
        history = run.history
        row = _key(task, setup, recipe) | {"purpose": purpose, "metric": task.metric}
        row |= {"dev": round(max(history.dev), 5), "best_epoch": history.best_epoch}
        row |= {"seconds": round(history.seconds, 1), "bfloat16": False}
        more = (more or {}) | origin(device_named(setup.device))
        return self._write(task, splits, row, run.model.kind, run.answers.get("test"), more)

    def add_baselines(
        self, task: Task, splits: Splits, train_examples: int | None = None
    ) -> list[Row]:
        """Run the baselines that are not there yet, write them down, and return their rows."""
        from bertedu.finetuning.evaluation.baselines import BASELINES, baseline_answers

        splits = {**splits, "train": splits["train"][:train_examples]}
        kind = make_kind(task, splits)
        rows = []
        for name in BASELINES:
            key = {"task": task.name, "model": name, "train_examples": train_examples or "all"}
            if any(_has(row, key) for row in self.rows()):
                continue
            answers = baseline_answers(name, task, splits)
            dev = kind.metrics(kind.outcomes(splits["dev"], answers["dev"]))[task.metric]
            new: Row = dict.fromkeys(KEY, "") | key | {"method": "baseline", "purpose": "score"}
            new |= {"metric": task.metric, "dev": round(dev, 5)}
            more = origin(device_named(None))
            rows.append(self._write(task, splits, new, kind, answers["test"], more))
        return rows

    def other_recipes(self, task: Task, setup: Setup, recipe: Hyperparameters) -> list[Row]:
        """Return the rows of a system that was scored with another recipe."""
        key = _key(task, setup, recipe)
        system = {name: key[name] for name in SYSTEM} | {"purpose": "score"}
        same = {name: key[name] for name in RECIPE}
        return [row for row in self.rows() if _has(row, system) and not _has(row, same)]

    def forget_other_recipes(
        self, task: Task, setup: Setup, recipe: Hyperparameters, again: bool
    ) -> None:
        """See to it that a system has one recipe: a mean over two would be of neither.

        Raises TaskError if it was scored with another recipe, and not ``again`` asks to drop that.
        """
        other = self.other_recipes(task, setup, recipe)
        if not other:
            return
        if not again:
            values = ", ".join(f"{name} {other[0][name]}" for name in RECIPE)
            raise TaskError(
                f"{task.name}, {setup.model}, {setup.method} was scored with another recipe "
                f"({values}): --again drops those runs, --results FOLDER keeps both apart"
            )
        with self._lock:
            path, key = self._outcomes_path(task.name), _key(task, setup, recipe)
            system = {name: key[name] for name in SYSTEM if name != "task"}
            write_csv(path, [row for row in read_csv(path) if not _has(row, system)])
            write_csv(self.table, [row for row in self.rows() if row not in other])

    def outcomes(self, task_name: str) -> tuple[np.ndarray[Any, Any], list[tuple[Row, Outcomes]]]:
        """Return the source number of each test example, and each run with its outcomes.

        Raises TaskError if there is no record of that task.
        """
        rows = read_csv(self._outcomes_path(task_name))
        if not rows:
            raise TaskError(f"no outcomes of task {task_name!r} in {self.folder}: run it first")
        sources = np.array([int(word) for word in rows[0]["outcomes"].split()])
        return sources, [(row, unpack(row["outcomes"])) for row in rows[1:]]

    def _outcomes_path(self, task_name: str) -> Path:
        return self.outcomes_folder / f"{task_name}.csv"

    def _write(
        self,
        task: Task,
        splits: Splits,
        row: Row,
        kind: Kind,
        answers: list[Answer] | None,
        more: Row,
    ) -> Row:
        outcomes = None if answers is None else kind.outcomes(splits["test"], answers)
        if outcomes is not None:
            scores = kind.metrics(outcomes)
            row["test"] = round(scores.pop(task.metric), 5)
            row |= {f"test_{name}": round(score, 5) for name, score in scores.items()}
        row |= more | {"threads": torch.get_num_threads()}
        self.folder.mkdir(parents=True, exist_ok=True)
        with self._lock:
            if outcomes is not None:  # first: a run that has a row is not run again
                path = self._outcomes_path(task.name)
                same = {name: row[name] for name in ("model", "method", "train_examples", "seed")}
                new = same | {"columns": "/".join(kind.columns), "outcomes": pack(outcomes)}
                sources = sorted({example.source for example in splits["test"]})
                numbers = " ".join(str(sources.index(e.source)) for e in splits["test"])
                first = {"model": "(source)", "columns": "source", "outcomes": numbers}
                write_csv(path, [first, *_replaced(read_csv(path)[1:], new, same)])
            same = {name: row[name] for name in (*KEY, "purpose")}
            write_csv(self.table, _replaced(self.rows(), row, same))
        return {name: str(value) for name, value in row.items()}


def _key(task: Task, setup: Setup, recipe: Hyperparameters) -> Row:
    values = {
        **{"task": task.name, "model": setup.model, "method": setup.way},
        "train_examples": setup.train_examples or "all",
        **{name: getattr(recipe, name) for name in (*RECIPE, "seed")},
    }
    return {name: f"{v:g}" if isinstance(v, float) else v for name, v in values.items()}


def _replaced(rows: list[Row], new: Row, same: Row) -> list[Row]:
    """Put a row in the place of those with the ``same`` values, all in one order."""
    columns = ("task", "purpose", "model", "method", *KEY[3:])
    kept = [row for row in rows if not _has(row, same)]
    return sorted([*kept, new], key=lambda row: [str(row.get(name, "")) for name in columns])


def _has(row: Row, values: Row) -> bool:
    return all(row[name] == str(value) for name, value in values.items())


def pack(outcomes: Outcomes) -> str:
    """Write a row of numbers as "1/3"; whole ones without a point, others to four digits."""
    return " ".join("/".join(f"{round(value, 4):.12g}" for value in row) for row in outcomes)


def unpack(text: str) -> Outcomes:
    """Read what `pack` wrote."""
    return np.array([[float(value) for value in word.split("/")] for word in text.split()])


# -- many runs


def search(
    task: Task, splits: Splits, setup: Setup, recipe: Hyperparameters, record: RunRecord, grid: str
) -> Hyperparameters:
    """Search a grid on dev, and return the best recipe (paper, appendix A.3).

    ``grid`` is "rates": learning rates only, "full": batch size × rate × epochs, or "seeds": five
    seeds of one recipe, which show how far luck moves a score of the full one. The test split is
    not scored. What ``record`` has already is not run again.
    """
    sizes = BATCH_SIZES if grid == "full" else (recipe.batch_size,)
    lengths = EPOCHS if grid == "full" else (recipe.epochs,)
    rates = (recipe.learning_rate,) if grid == "seeds" else setup.rates
    seeds = range(5) if grid == "seeds" else (recipe.seed,)
    tried: dict[Hyperparameters, float] = {}
    for size, epochs, rate, seed in product(sizes, lengths, rates, seeds):
        one = replace(recipe, batch_size=size, epochs=epochs, learning_rate=rate, seed=seed)
        if grid != "rates":  # goes to its end: how long is one of the questions
            one = replace(one, patience=epochs, min_steps=0)
        row = record.find(task, setup, one, "grid")
        if row is None:
            run = run_once(task, splits, setup, one, score=())
            row = record.add(task, splits, setup, one, run, "grid")
        tried[one] = float(row["dev"])
        print(f"  batch {size}, rate {rate:g}, {epochs} epochs, seed {seed}: dev {tried[one]:.4f}")
    best = max(tried, key=tried.__getitem__)
    return replace(best, patience=recipe.patience, min_steps=recipe.min_steps, seed=recipe.seed)


def run_task(
    loaded: tuple[Task, Splits],
    setup: Setup,
    recipe: Hyperparameters,
    seeds: Sequence[int],
    record: RunRecord,
    grid: str = "none",
    again: bool = False,
    need_models: bool = False,
) -> list[Run]:
    """Search a recipe if asked, fine-tune with each seed, and write down and print every run.

    The baselines are run first, so that no score stands alone. Without seeds only the grid is
    searched. Returns the runs that were made now: what ``record`` has is not run again, except with
    ``again``, which also drops what was run with another recipe, or where the models are needed.
    """
    task, splits = loaded
    for baseline in record.add_baselines(task, splits, setup.train_examples):
        score = float(baseline["test"])
        print(f"{task.name}, {baseline['model']}: test {task.metric} {score:.4f}")
    who = f"{task.name}, {setup.model}, {setup.method}"
    if grid != "none":
        print(f"{who}: searching the grid on dev")
        recipe = search(task, splits, setup, recipe, record, grid)
    if len(seeds):
        record.forget_other_recipes(task, setup, recipe, again)
    runs: list[Run] = []
    for seed in seeds:
        one = replace(recipe, seed=seed)
        row = None if again else record.find(task, setup, one, "score")
        if row is None or need_models:
            runs.append(run_once(task, splits, setup, one))
        if row is None:  # a recorded one stays
            row = record.add(task, splits, setup, one, runs[-1], "score")
        scores = f"dev {float(row['dev']):.4f}, test {task.metric} {float(row['test']):.4f}"
        print(f"{who}, seed {seed}: {scores}")
    return runs
