"""Ablations: the same examples and recipe for all, nothing twice, nothing lost, pairs compared."""

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import forked
import pytest
import tiny_finetuning as tiny
from called import run

from bertedu.files import read_csv, shipped
from bertedu.finetuning.examples import TaskError
from bertedu.finetuning.training import Hyperparameters
from bertedu.model.checkpoints import CheckpointError
from course.cli import app
from course.experiments import ablations
from course.experiments.ablations import (
    GRIDS,
    NAME,
    Grid,
    Variant,
    ablate,
    difference,
    pretrained_with,
    summarize_task,
    write_summary,
)
from course.experiments.tasks import load_task
from course.results.record import RunRecord

SMALL = {"train": 24, "dev": 6, "test": 8}
TASKS = {"keyword": tiny.keyword_task(SMALL), "places": tiny.tagging_task(SMALL)}
PLACES = Hyperparameters(1e-2, 8, 1)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    house = tmp_path_factory.mktemp("models")
    folders = {
        "bert": tiny.save_bert(house / "bert"),
        "bert-1": tiny.save_bert(house / "bert-1", seed=1),
        "ltr": tiny.save_bert(house / "ltr", "left-to-right", 2),
        "rtl": tiny.save_bert(house / "rtl", "right-to-left", 3),
        "elmo": tiny.save_elmo(house / "elmo", 4),
    }
    for number, folder in enumerate(folders.values()):
        record = {"steps": 10 + number, "tokens": 1000 * (number + 1)}
        (folder / "training.json").write_text(json.dumps(record))
    return {name: str(folder) for name, folder in folders.items()}


@pytest.fixture(scope="module")
def grid(models: dict[str, str]) -> Grid:
    variants = (
        Variant("BERT", (models["bert"], models["bert-1"])),
        Variant("pair", (f"{models['ltr']}+{models['rtl']}",)),
        Variant("LTR + BiLSTM", (models["ltr"],), "fine-tuned + BiLSTM"),
        Variant("ELMo", (models["elmo"],), "features:sum of all"),
        Variant("not pre-trained", (models["bert"],), "untrained"),
    )
    return Grid("for tests", variants, ("keyword", "places"), seeds=2, examples=16)


def keyword(grid: Grid) -> Grid:
    return replace(grid, tasks=("keyword",))


@pytest.fixture(autouse=True, scope="module")
def tiny_tasks() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ablations, "load_task", TASKS.__getitem__)
        patch.setattr(ablations, "RECIPES", {"places": PLACES})
        patch.setattr(ablations, "RECIPE", Hyperparameters(3e-4))
        patch.setattr(ablations, "FEATURES_RECIPE", Hyperparameters(3e-3, 16, 6))
        ablations._task.cache_clear()
        yield
    ablations._task.cache_clear()


@pytest.fixture
def real_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ablations, "load_task", load_task)


@pytest.fixture
def no_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ablations, "run_once", lambda *_, **__: pytest.fail("ran"))


def go(grid: Grid, folder: Path, **more: Any) -> list[dict[str, str]]:
    ablate(grid, folder, say=lambda _: None, **more)
    return [row for row in RunRecord(folder, NAME).rows() if row["method"] != "baseline"]


@pytest.fixture(scope="module")
def ran_once(grid: Grid, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ran")
    go(grid, folder)
    return folder


@pytest.fixture
def ran(ran_once: Path, tmp_path: Path) -> Path:
    """A folder in which the grid has been run."""
    return Path(shutil.copytree(ran_once, tmp_path / "ran"))


# -- runs


def test_a_grid_is_every_variant_checkpoint_task_and_seed(grid: Grid) -> None:
    cells = list(replace(grid, seeds=3).cells())
    assert len(cells) == len(set(cells)) == 2 * 3 * 6
    # stopped early, every variant has been run as often as the others
    assert [cell.variant for cell in cells[:6]] == [cell.variant for cell in cells[6:12]]
    assert {cell.task for cell in cells[:18]} == {"keyword"}
    # a variant's runs share no seed: the luck of fine-tuning is drawn anew for each checkpoint
    seeds = [cell.recipe.seed for cell in cells[:18] if cell.variant == "BERT"]
    assert sorted(seeds) == list(range(6))
    for cell in cells:  # one recipe for a task, another for frozen features
        recipe = PLACES if cell.task == "places" else ablations.RECIPE
        assert cell.setup.train_examples == 16
        expected = ablations.FEATURES_RECIPE if cell.variant == "ELMo" else recipe
        assert cell.recipe == replace(expected, seed=cell.recipe.seed)
    few = replace(grid, few_epochs=True)
    assert {(c.recipe.epochs, c.recipe.min_steps) for c in few.cells()} == {(3, 0)}


def test_the_record_has_a_row_for_every_run(ran: Path) -> None:
    rows = [row for row in RunRecord(ran, NAME).rows() if row["method"] != "baseline"]
    assert len(rows) == 2 * 2 * 6
    assert {row["train_examples"] for row in rows} == {"16"}
    assert {(r["variant"], r["pretraining_steps"], r["pretraining_tokens"]) for r in rows} == {
        ("BERT", "10", "1000"),
        ("BERT", "11", "2000"),
        ("pair", "12", "7000"),  # steps of each, tokens of both
        ("LTR + BiLSTM", "12", "3000"),
        ("ELMo", "14", "5000"),
        ("not pre-trained", "0", "0"),
    }


def test_stopped_it_goes_on_and_runs_nothing_twice(
    grid: Grid, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    grid, real, left = keyword(grid), ablations.run_once, 5

    def counted(*arguments: Any, **more: Any) -> Any:
        nonlocal left
        if left == 0:
            raise KeyboardInterrupt
        left -= 1
        return real(*arguments, **more)

    monkeypatch.setattr(ablations, "run_once", counted)
    with pytest.raises(KeyboardInterrupt):
        go(grid, tmp_path)
    before = RunRecord(tmp_path, NAME).rows()
    for more, missing in ((grid, 7), (grid, 0), (replace(grid, seeds=3), 6)):
        left = missing
        go(more, tmp_path)
        assert left == 0, "ran other than what was missing"
    after = RunRecord(tmp_path, NAME).rows()
    assert [row for row in after if row in before] == before, "a row was overwritten"


@pytest.mark.usefixtures("no_runs")
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "no checkpoint"),
        ("config.json", "does not say how"),
        ("training_state.safetensors", "does not say how"),  # it has not come to its end
    ],
)
def test_a_missing_checkpoint_is_said_before_anything_is_run(
    grid: Grid, tmp_path: Path, content: str | None, message: str
) -> None:
    folder = tmp_path / "nowhere"
    if content:
        folder.mkdir()
        (folder / content).write_text("{}")
    other = grid.variants[2].checkpoints[0]
    absent = Variant("RTL", (f"{other}+{folder}",))
    with pytest.raises(CheckpointError, match=message):
        go(replace(grid, variants=(*grid.variants, absent)), tmp_path / "results")
    assert not (tmp_path / "results").exists()


@pytest.mark.usefixtures("no_runs")
def test_two_recipes_are_not_mixed_and_what_a_grid_has_not_is_not_run(
    grid: Grid, ran: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ablations, "RECIPE", Hyperparameters(learning_rate=7e-4))
    for asked in {"tasks": ["elsewhere"]}, {"seeds": 3}, {"variants": ["BERT", "bert"]}:
        with pytest.raises(TaskError, match=r"has keyword, places|has 2 seeds|are BERT, pair, LTR"):
            go(grid, ran, **asked)
    with pytest.raises(TaskError, match=r"another recipe \(learning rate 0.0003"):
        go(replace(grid, seeds=3), ran)
    go(replace(grid, tasks=("places",)), ran)  # of which nothing is missing
    # nor is one that another process has made meanwhile
    before = RunRecord(ran, NAME).rows()
    cells = replace(grid, tasks=("places",)).cells()
    assert all(ablations.run_cell(cell, ran) in before for cell in cells)


@pytest.mark.usefixtures("real_tasks")
def test_several_processes_write_what_one_does(
    models: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On real examples: the other processes know nothing of this file's tasks."""
    monkeypatch.setattr(ablations, "get_context", lambda _: forked.CONTEXT)
    grid = Grid("", (Variant("BERT", (models["bert"], models["bert-1"])),), ("topic",), 1, 40)
    one, two = (go(grid, tmp_path / str(jobs), jobs=jobs) for jobs in (1, 2))
    told = dict.fromkeys(("commit", "seconds", "threads"), "")
    assert [row | told for row in one] == [row | told for row in two]
    assert len(one) == 2


def test_what_a_checkpoint_has_read_is_what_its_runs_have(tmp_path: Path) -> None:
    run = tmp_path / "run"
    kept, other = (tiny.save_bert(run / "steps" / f"000{step}") for step in (300, 450))
    with pytest.raises(CheckpointError, match=r"training.json does not say how"):
        pretrained_with(str(kept))
    curve = [{"step": 150, "tokens": 1}, {"step": 300, "tokens": 77}, {"step": 600, "tokens": 99}]
    before = {"steps": 200, "tokens": 4000, "init": None}
    record = {"curve": curve, "steps": 600, "tokens": 99, "init": before}
    (tiny.save_bert(run) / "training.json").write_text(json.dumps(record))
    assert pretrained_with(str(kept)) == {"pretraining_steps": 300, "pretraining_tokens": 77}
    assert pretrained_with(str(run)) == {"pretraining_steps": 800, "pretraining_tokens": 4099}
    with pytest.raises(CheckpointError, match="does not say how"):
        pretrained_with(str(other))


# -- what is made of them


def by_variant(grid: Grid, folder: Path) -> dict[str, dict[str, str]]:
    return {row["variant"]: row for row in summarize_task(grid, "keyword", folder)}


def test_the_summary_compares_with_the_first_variant(
    grid: Grid, models: dict[str, str], ran: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = by_variant(grid, ran)
    assert rows.keys() == {*(v.name for v in grid.variants), "majority", "word counts"}
    assert int(rows["BERT"]["runs"]) == 4, "two pre-training seeds are one variant"
    runs = [r for r in RunRecord(ran, NAME).rows() if r["task"] == "keyword"]
    scores = [float(r["test"]) for r in runs if r["variant"] == "BERT"]
    assert float(rows["BERT"]["mean"]) == pytest.approx(sum(scores) / 4, abs=1e-4)
    assert "minus_low" not in rows["BERT"]
    for name in rows.keys() - {"BERT"}:
        gap = float(rows[name]["mean"]) - float(rows["BERT"]["mean"])
        assert float(rows[name]["minus_reference"]) == pytest.approx(gap, abs=2e-4)
    assert len(ablations.same_recipe(grid, "keyword", ran)) == 3 + 4, "halves of four, and of two"
    # runs with other numbers of examples are of another experiment, more seeds of another grid
    go(keyword(replace(grid, examples=24)), ran)
    more = keyword(replace(grid, variants=grid.variants[:1], seeds=4))
    go(more, ran)
    assert by_variant(grid, ran) == rows
    assert int(by_variant(more, ran)["BERT"]["runs"]) == 8, "the four that were there, and its own"
    alone = replace(grid, variants=(grid.variants[0], Variant("new", (models["rtl"],))))
    other = replace(grid, examples=99)
    monkeypatch.setattr(ablations, "GRIDS", {"mine": grid, "other": other, "alone": alone})
    written = write_summary(ran)
    assert {row["grid"] for row in written} == {"mine"}, "a grid of which one variant was run"
    assert {row["task"] for row in written} == {*grid.tasks}
    assert len(read_csv(ran / "ablations_summary.csv")) == len(written)


def test_a_difference_is_taken_on_the_same_texts(
    grid: Grid, models: dict[str, str], ran: Path
) -> None:
    for name, row in by_variant(grid, ran).items():
        if name == "BERT":
            assert difference(grid, "keyword", name, name, ran).value == 0
            continue
        found = difference(grid, "keyword", name, "BERT", ran)
        expected = [float(row[f"minus_{end}"]) for end in ("reference", "low", "high", "p")]
        assert found == pytest.approx(expected, abs=2e-4)
        assert -difference(grid, "keyword", "BERT", name, ran) == pytest.approx(found)
    more = replace(grid, variants=(*grid.variants, Variant("new", (models["rtl"],))))
    for name, message in (
        ("Bert", "no variant 'Bert': choose one of BERT, pair, LTR"),
        ("new", "no runs of new on keyword"),
    ):
        with pytest.raises(TaskError, match=message):
            difference(more, "keyword", "BERT", name, ran)


def test_a_difference_is_that_of_the_record_as_it_is_now(grid: Grid, tmp_path: Path) -> None:
    """Draws are kept, but not longer than the runs stay the same."""
    grid, told = keyword(replace(grid, variants=grid.variants[1:3], seeds=4)), []
    one, other = (variant.name for variant in grid.variants)
    for seeds in (1, 4):
        rows = go(grid, tmp_path, seeds=seeds)
        scores = [[float(r["test"]) for r in rows if r["variant"] == name] for name in (one, other)]
        means = [sum(some) / len(some) for some in scores]
        told.append(difference(grid, "keyword", one, other, tmp_path)[0])
        assert told[-1] == pytest.approx(means[0] - means[1])
    assert told[0] != told[1]


# -- the command


def test_the_command_runs_grids_and_says_what_came_out(
    grid: Grid, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(GRIDS, "size", replace(grid, variants=grid.variants[:2]))
    monkeypatch.setitem(GRIDS, "steps", keyword(grid))
    asked = ["ablate", "size", "steps", "--tasks", "places", "--seeds", "1"]
    result = run(*asked, "--results", tmp_path, of=app)
    assert result.exit_code == 0, result.output
    rows = RunRecord(tmp_path, NAME).rows()
    assert {row["task"] for row in rows} == {"places"}
    assert len([row for row in rows if row["method"] != "baseline"]) == 3
    assert "size: for tests" in result.output
    assert "steps: for tests" not in result.output, "it has no such task"
    assert "places       pair" in result.output
    assert (tmp_path / "ablations_summary.csv").is_file()

    for wrong in ("directions", "size --tasks places --tasks answer"):
        result = run("ablate", *wrong.split(), "--results", tmp_path, of=app)
        assert (result.exit_code, "Traceback" in result.output) == (2, False), wrong


# -- what is declared and committed


@pytest.mark.parametrize("name", GRIDS)
def test_a_declared_grid_is_sound_and_the_committed_record_holds_it(name: str) -> None:
    """Runs are by the rule of their grid, and at most a tenth of a task's stop at the cap."""
    grid, record = GRIDS[name], RunRecord(shipped("results"), NAME).rows()
    cells = [(c.task, c.setup.model, c.setup.method, str(c.recipe.seed)) for c in grid.cells()]
    assert len(set(cells)) == len(cells), "two variants would share a row"
    assert len({variant.name for variant in grid.variants}) == len(grid.variants)
    assert {row["pretraining_steps"] for row in record if row["method"] == "untrained"} == {"0"}
    same_size = [r for r in record if r["train_examples"] == str(grid.examples)]
    named = [(r["task"], r["model"], r["method"], r["seed"]) for r in same_size]
    made = [cell for cell in named if cell in cells]
    assert sorted(made) == sorted(cells), f"run `python -m course ablate {name}`"
    rows = [row for row, cell in zip(same_size, named, strict=True) if cell in cells]
    rules = {("3", "2", "0")} if grid.few_epochs else {("40", "4", "30")}
    assert {(r["epochs"], r["patience"], r["min_steps"]) for r in rows} <= rules
    for task in () if grid.few_epochs else grid.tasks:
        rising = [int(row["best_epoch"]) + 4 > 40 for row in rows if row["task"] == task]
        assert sum(rising) <= len(rising) / 10, task


def test_the_primary_outcome_is_the_mean_gap_of_its_tasks() -> None:
    folder = shipped("results")
    gaps = [difference(GRIDS["direction"], task, "both sides", "left alone", folder)
            for task in ablations.PRIMARY]  # fmt: skip
    found = ablations.primary_outcome(folder)
    assert found.value == pytest.approx(sum(gap.value for gap in gaps) / 3)
    widest = max(gap.high - gap.low for gap in gaps)
    assert 0 < found.high - found.low < widest, "three tasks tell more than one"
