"""Runs and their record: nothing twice, nothing lost, and the test split only at the end."""

import csv
import multiprocessing
import time
from dataclasses import replace
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tiny_finetuning as tiny

from bertedu.finetuning.evaluation import baselines
from bertedu.finetuning.evaluation.baselines import baseline_answers
from bertedu.finetuning.examples import Splits, Task, TaskError
from bertedu.finetuning.finetune import RATES, Run, Setup, make_kind
from bertedu.finetuning.kinds import Answer
from bertedu.finetuning.training import History, Hyperparameters
from course.results import record as recording
from course.results.record import BATCH_SIZES, EPOCHS, RunRecord, run_task, search

SMALL = {"train": 16, "dev": 6, "test": 8}
RECIPE = Hyperparameters(3e-3, 8, 1, dropout=0.1, patience=2)
KEYWORD = tiny.keyword_task(SMALL)
SETUP = Setup("x")


@pytest.fixture(autouse=True)
def no_git(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("course.results.origin.current_commit", lambda: "abc1234")


@pytest.fixture
def book(tmp_path: Path) -> RunRecord:
    return RunRecord(tmp_path / "results")


def pretend(task: Task, splits: Splits, dev: float = 0.5, right: int = 3) -> Run:
    """Make a run without running: so many of its answers to the test are right."""
    labels = [int(e.label) for e in splits["test"]]
    answers = [Answer(label if i < right else 1 - label) for i, label in enumerate(labels)]
    history = History([0.1], [dev, dev / 2], 1, 1.25)  # the first of two rounds was kept
    model: Any = SimpleNamespace(kind=make_kind(task, splits))
    return Run(model, model, history, {"test": answers})


class Runs:
    """In place of runs: dev is best at one place of the grid, and the calls are kept."""

    def __init__(self) -> None:
        self.calls: list[Hyperparameters] = []
        self.scored: list[tuple[str, ...]] = []
        self.best: tuple[int, float, int] = (0, 0, 0)
        self.stop_at = -1

    def __call__(
        self, task: Task, splits: Splits, setup: Setup, recipe: Hyperparameters, **rest: Any
    ) -> Run:
        if len(self.calls) == self.stop_at:
            raise KeyboardInterrupt
        self.calls.append(recipe)
        self.scored.append(rest.get("score", ("dev", "test")))
        here = (recipe.batch_size, recipe.learning_rate, recipe.epochs)
        run = pretend(task, splits, dev=0.9 if here == self.best else 0.8)
        return replace(run, answers=run.answers if "test" in self.scored[-1] else {})


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Runs:
    made = Runs()
    monkeypatch.setattr(recording, "run_once", made)
    return made


def go(book: RunRecord, seeds: int = 1, recipe: Hyperparameters = RECIPE, **more: Any) -> list[Run]:
    return run_task(KEYWORD, more.pop("setup", SETUP), recipe, range(seeds), book, **more)


def scored(book: RunRecord) -> list[dict[str, Any]]:
    return [row for row in book.rows() if row["purpose"] == "score" and row["method"] != "baseline"]


def right_answers(book: RunRecord) -> dict[tuple[str, str], int]:
    _, found = book.outcomes("keyword")
    return {(row["model"], row["seed"]): int((o[:, 0] == o[:, 1]).sum()) for row, o in found}


# -- the grid


@pytest.mark.parametrize("place", [0, 11, 17])
def test_the_grid_finds_what_is_best_on_dev_and_goes_on_where_it_was_stopped(
    book: RunRecord, runs: Runs, place: int
) -> None:
    cells = list(product(BATCH_SIZES, RATES["fine-tuned"], EPOCHS))
    runs.best, runs.stop_at = cells[place], 5
    recipe = Hyperparameters(5.0, 7, 1, patience=3, seed=4, weight_decay=0.2)
    with pytest.raises(KeyboardInterrupt):
        search(*KEYWORD, SETUP, recipe, book, "full")
    runs.stop_at = -1
    size, rate, epochs = runs.best
    for _ in range(2):  # the second time there is nothing to do
        found = search(*KEYWORD, SETUP, recipe, book, "full")
        assert found == replace(recipe, batch_size=size, learning_rate=rate, epochs=epochs)
    tried = [(r.batch_size, r.learning_rate, r.epochs) for r in runs.calls]
    assert sorted(tried) == sorted(cells)
    assert all(r.patience >= r.epochs for r in runs.calls), "how long is one of the questions"
    assert set(runs.scored) == {()}
    assert not book.outcomes_folder.exists()
    for row in book.rows():
        assert row["purpose"] == "grid"
        assert not any(row[name] for name in row if name.startswith("test"))


def test_searching_rates_leaves_the_rest_alone_and_what_it_finds_is_scored(
    book: RunRecord, runs: Runs
) -> None:
    rates = RATES["frozen"]
    runs.best = (8, rates[2], 1)
    frozen = Setup("x", "frozen")
    go(book, 2, setup=frozen, grid="rates")
    tried = [replace(RECIPE, learning_rate=rate) for rate in rates]
    best = tried[2]
    assert runs.calls == [*tried, best, replace(best, seed=1)]
    assert [(row["learning_rate"], row["seed"]) for row in scored(book)] == [
        ("0.01", "0"),
        ("0.01", "1"),
    ]
    before = scored(book)
    runs.best = (8, rates[0], 1)
    assert go(book, 0, setup=Setup("y"), grid="full") == []
    assert scored(book) == before, "without seeds only the grid is searched"


def test_five_seeds_of_one_recipe_show_the_luck_of_a_grid(book: RunRecord, runs: Runs) -> None:
    """The first is a cell of the full grid, and is not run twice; none is chosen."""
    recipe = replace(RECIPE, batch_size=16, learning_rate=3e-4, epochs=3, patience=2, min_steps=30)
    assert search(*KEYWORD, SETUP, recipe, book, "seeds") == recipe
    assert runs.calls == [replace(recipe, seed=s, patience=3, min_steps=0) for s in range(5)]
    search(*KEYWORD, SETUP, recipe, book, "full")
    assert len(book.rows()) == 5 + len(BATCH_SIZES) * len(EPOCHS) * 3 - 1


# -- the record


def test_what_is_recorded_is_not_run_again_unless_asked(
    book: RunRecord, runs: Runs, capsys: pytest.CaptureFixture[str]
) -> None:
    assert len(go(book, 2)) == 2
    said = capsys.readouterr().out.splitlines()
    before = book.table.read_bytes()
    assert go(book, 2) == []
    assert capsys.readouterr().out.splitlines() == said[2:], "all but the baselines"
    assert said[-1] == "keyword, x, fine-tuned, seed 1: dev 0.8000, test accuracy 0.3750"
    for option in ("need_models", "again"):
        runs.calls.clear()
        assert len(go(book, 1, **{option: True})) == 1
        assert [recipe.seed for recipe in runs.calls] == [0]
        assert book.table.read_bytes() == before, "replaced where it was, not doubled"
    assert len(go(book, 3)) == 1
    assert [row["seed"] for row in scored(book)] == ["0", "1", "2"]
    assert len(right_answers(book)) == 3 + 2, "and two baselines"


def test_baselines_are_run_once_first_and_with_as_few_examples(
    book: RunRecord, runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[str, int]] = []

    def spy(name: str, task: Task, splits: Splits) -> Any:
        calls.append((name, len(splits["train"])))
        assert len(runs.calls) in (0, 2)
        return baseline_answers(name, task, splits)

    monkeypatch.setattr(baselines, "baseline_answers", spy)
    for count in (None, None, 8):
        go(book, setup=Setup("x", train_examples=count), again=True)
    assert calls == [(name, n) for n in (16, 8) for name in ("majority", "word counts")]
    labels = [e.label for e in KEYWORD[1]["test"]]
    most = max((0, 1), key=[e.label for e in KEYWORD[1]["train"]].count)
    (row,) = [r for r in book.rows() if (r["model"], r["train_examples"]) == ("majority", "all")]
    assert float(row["test"]) == pytest.approx(labels.count(most) / 8)


@pytest.mark.parametrize(
    "change",
    [
        *({"batch_size": 4}, {"learning_rate": 1e-3}, {"epochs": 2}, {"seed": 1}),
        *({"dropout": 0.2}, {"patience": 1}, {"min_steps": 3}),
    ],
)
def test_another_recipe_is_another_run(book: RunRecord, change: dict[str, Any]) -> None:
    task, splits = KEYWORD
    other = replace(RECIPE, **change)
    for right, recipe in ((3, RECIPE), (5, other), (7, other)):
        book.add(task, splits, SETUP, recipe, pretend(task, splits, right=right), "score")
    assert len(book.rows()) == 2, "a row is replaced, and its neighbor stays"
    assert (book.find(task, SETUP, RECIPE, "score") or {})["test"] == "0.375"
    assert (book.find(task, SETUP, other, "score") or {})["test"] == "0.875"
    assert not book.find(task, SETUP, RECIPE, "grid")
    assert not book.find(replace(task, name="other"), SETUP, RECIPE, "score")
    for another in (Setup("y"), Setup("x", "frozen"), Setup("x", train_examples=8)):
        assert not book.find(task, another, RECIPE, "score")
    assert len(book.other_recipes(task, SETUP, RECIPE)) == ("seed" not in change)


def test_a_system_is_scored_with_one_recipe(book: RunRecord, runs: Runs) -> None:
    """Two runs of one recipe and one of another would make a mean of neither."""
    go(book, 2)
    go(book, 2, setup=Setup("y"))
    other = replace(RECIPE, learning_rate=1e-3)
    for options in ({}, {"need_models": True}):
        with pytest.raises(TaskError, match=r"another recipe .*learning_rate 0.003.*--again"):
            go(book, 1, other, **options)
    go(book, 1, other, again=True)
    rows = {(row["model"], row["seed"], row["learning_rate"]) for row in scored(book)}
    assert rows == {("x", "0", "0.001"), ("y", "0", "0.003"), ("y", "1", "0.003")}
    systems = {("x", "0"), ("y", "0"), ("y", "1"), ("majority", ""), ("word counts", "")}
    assert right_answers(book).keys() == systems, "others stay"


@pytest.mark.parametrize("name", tiny.MAKERS)
def test_the_record_says_what_came_out_whatever_the_task(book: RunRecord, name: str) -> None:
    go_task, go_splits = tiny.tagging_task(SMALL)
    book.add_baselines(go_task, go_splits)
    task, splits = tiny.MAKERS[name](SMALL)
    kind: Any = make_kind(task, splits)
    answers = baseline_answers("word counts", task, splits)
    model: Any = SimpleNamespace(kind=kind)
    run = Run(model, model, History([0.1], [0.25, 0.75, 0.5], 2, 1.26), answers)
    row = book.add(task, splits, SETUP, RECIPE, run, "score", {"variant": "a"})
    assert row == {key: value for key, value in scored(book)[0].items() if key in row}
    told = ("task", "model", "seed", "metric", "commit", "dev", "best_epoch", "seconds", "variant")
    expected = [task.name, "x", "0", task.metric, "abc1234", "0.75", "2", "1.3", "a"]
    assert [row[key] for key in told] == expected
    assert row["device"].startswith(("cpu", "cuda", "mps"))
    outcomes = kind.outcomes(splits["test"], answers["test"])
    sources, found = book.outcomes(task.name)
    (recorded,) = [(some, o) for some, o in found if some["model"] == "x"]
    assert recorded[0]["columns"] == "/".join(kind.columns)
    assert recorded[1] == pytest.approx(outcomes, abs=5.1e-5)
    alike = np.array([e.source for e in splits["test"]])
    assert np.array_equal(sources[:, None] == sources, alike[:, None] == alike)
    scores = kind.metrics(outcomes)
    for metric, score in scores.items():
        written = row["test" if metric == task.metric else f"test_{metric}"]
        assert float(written) == pytest.approx(score, abs=1e-5)
    with book.table.open(encoding="utf-8", newline="") as file:
        assert len({len(line) for line in csv.reader(file)}) == 1


# -- stopped, and side by side


@pytest.mark.parametrize("which", ["finetuning.csv", "keyword.csv"])
def test_stopped_while_writing_a_run_is_whole_or_is_made_again(
    book: RunRecord, monkeypatch: pytest.MonkeyPatch, which: str
) -> None:
    """A row whose outcomes were never written would never be run again."""
    task, splits = KEYWORD
    real, second = recording.write_csv, replace(RECIPE, seed=1)

    def interrupted(path: Path, rows: Any) -> None:
        if path.name == which:
            raise KeyboardInterrupt
        real(path, rows)

    book.add(task, splits, SETUP, RECIPE, pretend(task, splits), "score")
    monkeypatch.setattr(recording, "write_csv", interrupted)
    with pytest.raises(KeyboardInterrupt):
        book.add(task, splits, SETUP, second, pretend(task, splits, right=5), "score")
    monkeypatch.setattr(recording, "write_csv", real)
    assert book.find(task, SETUP, RECIPE, "score")
    assert not book.find(task, SETUP, second, "score"), "recorded, without its outcomes"
    book.add(task, splits, SETUP, second, pretend(task, splits, right=5), "score")
    assert right_answers(book) == {("x", "0"): 3, ("x", "1"): 5}


def _write_rows(folder: Path, model: str, count: int) -> None:
    task, splits = KEYWORD
    for seed in range(count):
        recipe = replace(RECIPE, seed=seed)
        RunRecord(folder).add(task, splits, Setup(model), recipe, pretend(task, splits), "score")


def test_two_processes_lose_no_row_of_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "fork" not in multiprocessing.get_all_start_methods():
        pytest.skip("needs fork: a fresh process would take seconds to import torch")
    real = recording.write_csv

    def slowly(path: Path, rows: Any) -> None:
        time.sleep(0.03)  # between reading and writing, time for others to do harm
        real(path, rows)

    monkeypatch.setattr(recording, "write_csv", slowly)
    context = multiprocessing.get_context("fork")
    processes = [
        context.Process(target=_write_rows, args=(tmp_path, model, 6)) for model in ("one", "two")
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    wanted = {(model, str(seed)) for model in ("one", "two") for seed in range(6)}
    book = RunRecord(tmp_path)
    assert {(row["model"], row["seed"]) for row in book.rows()} == wanted
    assert right_answers(book).keys() == wanted
