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
from typer.testing import CliRunner

from bertedu.files import read_csv, write_csv
from bertedu.finetuning.examples import Splits, Task, TaskError
from bertedu.finetuning.finetune import Setup
from bertedu.finetuning.training import Hyperparameters
from bertedu.model.checkpoints import CheckpointError
from bertedu.model.config import BertConfig, count_parameters
from bertedu.text.sources import shipped
from course.cli import app
from course.experiments import ablations
from course.experiments.ablations import (
    FEATURES_RECIPE,
    GRIDS,
    NAME,
    SIZES,
    Grid,
    Variant,
    ablate,
    difference,
    pretrained_with,
    summarize_grid,
    write_summary,
)
from course.experiments.tasks import load_task
from course.results.bootstrap import verdict_of
from course.results.record import RunRecord

SMALL = {"train": 24, "dev": 6, "test": 8}
TASKS = {"keyword": tiny.keyword_task(SMALL), "places": tiny.tagging_task(SMALL)}


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


@pytest.fixture(autouse=True)
def tiny_tasks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(ablations, "load_task", TASKS.__getitem__)
    monkeypatch.setattr("course.results.origin.current_commit", lambda: "abc1234")
    ablations._task.cache_clear()
    yield
    ablations._task.cache_clear()


def grid_of(models: dict[str, str], tasks: tuple[str, ...] = ("keyword",), seeds: int = 2) -> Grid:
    return Grid(
        "for tests",
        (
            Variant("BERT", (models["bert"], models["bert-1"])),
            Variant("pair", (f"{models['ltr']}+{models['rtl']}",)),
            Variant("LTR + BiLSTM", (models["ltr"],), "fine-tuned + BiLSTM"),
            Variant("ELMo", (models["elmo"],), "features:sum of all"),
            Variant("not pre-trained", (models["bert"],), "untrained"),
        ),
        tasks,
        seeds,
        examples=16,
    )


def silent(_: str) -> None:
    pass


def go(grid: Grid, folder: Path, **more: Any) -> list[dict[str, str]]:
    ablate(grid, folder, say=silent, **more)
    return [row for row in RunRecord(folder, NAME).rows() if row["method"] != "baseline"]


@pytest.fixture(scope="module")
def ran_once(models: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The record of the whole grid, to be copied."""
    folder = tmp_path_factory.mktemp("ran")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ablations, "load_task", TASKS.__getitem__)
        ablations._task.cache_clear()
        go(grid_of(models), folder)
    return folder


@pytest.fixture
def ran(ran_once: Path, tmp_path: Path) -> Path:
    """A folder in which the grid has been run."""
    return Path(shutil.copytree(ran_once, tmp_path / "ran"))


def test_a_grid_is_every_variant_checkpoint_task_and_seed(models: dict[str, str]) -> None:
    grid = grid_of(models, ("keyword", "places"), seeds=3)
    cells = list(grid.cells())
    assert len(cells) == len(set(cells)) == 2 * 3 * 6
    # stopped early, every variant has been run as often as the others
    assert [cell.variant for cell in cells[:6]] == [cell.variant for cell in cells[6:12]]
    assert {cell.task for cell in cells[:18]} == {"keyword"}
    # a variant's runs share no seed: the luck of fine-tuning is drawn anew for each checkpoint
    seeds = [cell.recipe.seed for cell in cells[:18] if cell.variant == "BERT"]
    assert sorted(seeds) == list(range(6))


def test_all_variants_get_the_same_examples_and_recipe_and_the_record_a_row_for_every_run(
    models: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[str, Setup, Hyperparameters]] = []
    real = ablations.run_once

    def spy(task: Task, splits: Splits, setup: Setup, recipe: Hyperparameters, **more: Any) -> Any:
        seen.append((task.name, setup, recipe))
        assert splits is TASKS[task.name][1]
        return real(task, splits, setup, recipe, **more)

    monkeypatch.setattr(ablations, "run_once", spy)
    monkeypatch.setattr(ablations, "RECIPES", {"places": Hyperparameters(1e-2, 8, 1)})
    rows = go(grid_of(models, ("keyword", "places")), tmp_path)
    assert len(rows) == 2 * 2 * 6
    for row in rows:
        assert row["commit"] == "abc1234"
        assert row["device"].startswith(("cpu", "cuda", "mps"))
        assert float(row["seconds"]) >= 0
        assert 0 <= float(row["test"]) <= 1
        assert row["metric"] == ("accuracy" if row["task"] == "keyword" else "f1")
        assert row["train_examples"] == "16"
    steps = {(r["variant"], r["pretraining_steps"], r["pretraining_tokens"]) for r in rows}
    assert steps == {
        ("BERT", "10", "1000"),
        ("BERT", "11", "2000"),
        ("pair", "12", "7000"),  # steps of each, tokens of both
        ("LTR + BiLSTM", "12", "3000"),
        ("ELMo", "14", "5000"),
        ("not pre-trained", "0", "0"),
    }
    assert {setup.train_examples for _, setup, _ in seen} == {16}
    for name, expected in [("keyword", ablations.RECIPE), ("places", Hyperparameters(1e-2, 8, 1))]:
        for _, setup, recipe in [one for one in seen if one[0] == name]:
            want = FEATURES_RECIPE if setup.reads else expected
            assert recipe == replace(want, seed=recipe.seed)


def test_stopped_it_goes_on_and_runs_nothing_twice(
    models: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    grid, made = grid_of(models), 0
    real = ablations.run_once

    def counted(*arguments: Any, **more: Any) -> Any:
        nonlocal made
        if made == 5:
            raise KeyboardInterrupt
        made += 1
        return real(*arguments, **more)

    monkeypatch.setattr(ablations, "run_once", counted)
    with pytest.raises(KeyboardInterrupt):
        go(grid, tmp_path)
    before = RunRecord(tmp_path, NAME).rows()
    assert len([row for row in before if row["method"] != "baseline"]) == 5
    made = -100
    assert len(go(grid, tmp_path)) == 12
    assert made == -93, "ran other than what was missing"
    after = RunRecord(tmp_path, NAME).rows()
    assert [row for row in after if row in before] == before, "a row was overwritten"
    go(grid, tmp_path)
    assert made == -93
    go(replace(grid, seeds=3), tmp_path)
    assert made == -87


def test_a_missing_checkpoint_is_said_before_anything_is_run(
    models: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ablations, "run_once", lambda *_, **__: pytest.fail("ran"))
    grid = grid_of(models)
    absent = Variant("RTL", (f"{models['ltr']}+nowhere",))
    with pytest.raises(CheckpointError, match="no checkpoint 'nowhere'"):
        go(replace(grid, variants=(*grid.variants, absent)), tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("left", ["training_state.safetensors", "config.json"])
def test_an_unfinished_run_is_no_checkpoint(
    left: str, models: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ablations, "run_once", lambda *_, **__: pytest.fail("ran"))
    unfinished = tmp_path / "unfinished"
    unfinished.mkdir()
    (unfinished / left).write_text("{}")
    grid = Grid("", (Variant("half", (str(unfinished),)),), ("keyword",), 1, 16)
    with pytest.raises(CheckpointError, match="does not say how"):
        go(grid, tmp_path / "results")
    assert not (tmp_path / "results").exists()


def test_only_the_tasks_of_a_grid_are_run(models: dict[str, str], tmp_path: Path) -> None:
    grid = grid_of(models, ("keyword", "places"), seeds=1)
    rows = go(grid, tmp_path, tasks=["places", "elsewhere"])
    assert {row["task"] for row in rows} == {"places"}
    with pytest.raises(TaskError, match="none of its tasks is asked for: it has keyword, places"):
        go(grid, tmp_path, tasks=["elsewhere"])


def test_two_recipes_are_not_mixed(
    models: dict[str, str], ran: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    grid, before = grid_of(models), RunRecord(ran, NAME).rows()
    monkeypatch.setattr(ablations, "RECIPE", Hyperparameters(learning_rate=7e-4))
    with pytest.raises(TaskError, match=r"was run with another recipe \(learning rate 0.0003"):
        go(replace(grid, seeds=3), ran)
    assert RunRecord(ran, NAME).rows() == before


def test_a_run_that_another_process_has_made_meanwhile_is_not_made_again(
    models: dict[str, str], ran: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two windows run one grid: what is missing was looked up by both at the start."""
    monkeypatch.setattr(ablations, "run_once", lambda *_, **__: pytest.fail("ran"))
    before = RunRecord(ran, NAME).rows()
    rows = [ablations.run_cell(cell, ran) for cell in grid_of(models).cells()]
    assert len(rows) == 12
    assert all(row in before for row in rows)


def test_several_processes_write_what_one_does_in_32_bits(
    models: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On real examples: the other processes know nothing of this file's tasks."""
    monkeypatch.setattr(ablations, "load_task", load_task)
    monkeypatch.setattr(ablations, "get_context", lambda _: forked.CONTEXT)
    grid = Grid("", (Variant("BERT", (models["bert"], models["bert-1"])),), ("topic",), 1, 40)
    one, two = (go(grid, tmp_path / str(jobs), jobs=jobs) for jobs in (1, 2))
    assert [row["bfloat16"] for row in (*one, *two)] == ["False"] * 4
    told = ("commit", "seconds", "threads")
    for row in (*one, *two):
        for name in told:
            row.pop(name)
    assert one == two


def test_weights_of_the_middle_of_a_run_know_their_step_and_tokens(tmp_path: Path) -> None:
    run = tmp_path / "run"
    kept = tiny.save_bert(run / "steps" / "000300")
    with pytest.raises(CheckpointError, match=r"training.json does not say how"):
        pretrained_with(str(kept))
    curve = [{"step": 150, "tokens": 1}, {"step": 300, "tokens": 77}, {"step": 600, "tokens": 99}]
    (run / "training.json").write_text(json.dumps({"curve": curve, "steps": 600, "tokens": 99}))
    assert pretrained_with(str(kept)) == {"pretraining_steps": 300, "pretraining_tokens": 77}
    other = tiny.save_bert(run / "steps" / "000450")
    with pytest.raises(CheckpointError, match="does not say how"):
        pretrained_with(str(other))


def test_a_run_that_went_on_from_another_has_read_what_both_did(tmp_path: Path) -> None:
    folder = tiny.save_bert(tmp_path / "second")
    record = {"steps": 50, "tokens": 900, "init": {"steps": 200, "tokens": 4000, "init": None}}
    (folder / "training.json").write_text(json.dumps(record))
    told = pretrained_with(str(folder))
    assert told == {"pretraining_steps": 250, "pretraining_tokens": 4900}


def test_the_summary_compares_with_the_first_variant(
    models: dict[str, str], ran: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    grid = grid_of(models)
    rows = {row["variant"]: row for row in summarize_grid(grid, ran)}
    assert rows.keys() == {*(v.name for v in grid.variants), "majority", "word counts"}
    assert int(rows["BERT"]["runs"]) == 4, "two pre-training seeds are one variant"
    scores = [float(r["test"]) for r in RunRecord(ran, NAME).rows() if r["variant"] == "BERT"]
    assert float(rows["BERT"]["mean"]) == pytest.approx(sum(scores) / 4, abs=1e-4)
    assert "minus_low" not in rows["BERT"]
    for name in rows.keys() - {"BERT"}:
        gap = float(rows[name]["mean"]) - float(rows["BERT"]["mean"])
        assert float(rows[name]["minus_reference"]) == pytest.approx(gap, abs=2e-4)
    # runs with other numbers of examples are of another experiment
    go(replace(grid, examples=24), ran)
    again = {row["variant"]: row for row in summarize_grid(grid, ran)}
    assert again == rows
    monkeypatch.setattr(ablations, "GRIDS", {"mine": grid, "other": replace(grid, examples=99)})
    alone = replace(grid, variants=(grid.variants[0], Variant("new", (models["rtl"],))))
    monkeypatch.setitem(ablations.GRIDS, "alone", alone)  # one of its variants is in another grid
    written = write_summary(ran)
    assert {row["grid"] for row in written} == {"mine"}
    assert {row["variant"] for row in written} == rows.keys()


def test_a_difference_is_taken_on_the_same_texts(models: dict[str, str], ran: Path) -> None:
    grid = grid_of(models)
    rows = {row["variant"]: row for row in summarize_grid(grid, ran)}
    for name in ("pair", "ELMo"):
        middle, low, high = difference(grid, "keyword", name, "BERT", ran)
        assert middle == pytest.approx(float(rows[name]["minus_reference"]), abs=2e-4)
        assert low == pytest.approx(float(rows[name]["minus_low"]), abs=2e-4)
        assert high == pytest.approx(float(rows[name]["minus_high"]), abs=2e-4)
        turned = difference(grid, "keyword", "BERT", name, ran)
        assert turned == pytest.approx((-middle, -high, -low))
    assert difference(grid, "keyword", "BERT", "BERT", ran) == (0, 0, 0)
    baseline = rows["word counts"]
    middle, low, _ = difference(grid, "keyword", "word counts", "BERT", ran)
    assert middle == pytest.approx(float(baseline["minus_reference"]), abs=2e-4)
    assert low == pytest.approx(float(baseline["minus_low"]), abs=2e-4)
    with pytest.raises(TaskError, match="no variant 'Bert': choose one of BERT, pair, LTR"):
        difference(grid, "keyword", "BERT", "Bert", ran)
    only_bert = replace(grid, variants=(grid.variants[0],))
    with pytest.raises(TaskError, match="no variant 'pair'"):
        difference(only_bert, "keyword", "BERT", "pair", ran)
    other = replace(grid, variants=(*grid.variants, Variant("new", (models["rtl"],))))
    with pytest.raises(TaskError, match="no runs of new on keyword: run it with bertedu ablate"):
        difference(other, "keyword", "BERT", "new", ran)


def test_a_difference_is_that_of_the_record_as_it_is_now(
    models: dict[str, str], tmp_path: Path
) -> None:
    """Draws are kept, but not longer than the runs stay the same."""
    grid = grid_of(models, seeds=4)

    def tell() -> float:
        book, names = RunRecord(tmp_path, NAME), ("pair", "ELMo")
        means = [
            [float(row["test"]) for row in book.rows() if row["variant"] == name] for name in names
        ]
        told = difference(grid, "keyword", *names, tmp_path)[0]
        assert told == pytest.approx(sum(means[0]) / len(means[0]) - sum(means[1]) / len(means[1]))
        return told

    go(grid, tmp_path, seeds=1)
    before = tell()
    go(grid, tmp_path)
    assert tell() != before
    with pytest.raises(TaskError, match="the grid has 4 seeds: its table would not count more"):
        go(grid, tmp_path, seeds=5)


def test_a_grid_that_shares_a_cell_and_has_more_seeds_changes_nothing(
    models: dict[str, str], ran: Path
) -> None:
    grid = grid_of(models)
    before = summarize_grid(grid, ran)
    gap = difference(grid, "keyword", "BERT", "pair", ran)
    more = replace(grid, variants=grid.variants[:1], seeds=4)
    assert len(go(more, ran)) == len(list(grid.cells())) + 4
    assert summarize_grid(grid, ran) == before
    assert difference(grid, "keyword", "BERT", "pair", ran) == gap
    (row,) = (r for r in summarize_grid(more, ran) if r["variant"] == "BERT")
    assert int(row["runs"]) == 8, "it finds the four that were there, and its own"


# --- What is declared ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", GRIDS)
def test_declared_grids_are_sound(name: str) -> None:
    grid = GRIDS[name]
    cells = list(grid.cells())
    keys = {(c.task, c.setup.model, c.setup.method, c.recipe.seed) for c in cells}
    assert len(keys) == len(cells), "two variants would share a row"
    names = [variant.name for variant in grid.variants]
    assert len(set(names)) == len(names)
    for cell in cells:
        assert cell.setup.train_examples == grid.examples


def test_table_5_compares_pretrainings_of_one_question_read_alike() -> None:
    grid = GRIDS["direction"]
    assert len(grid.tasks) == 6
    for variant in grid.variants:
        once = variant.name in ("left and right, narrow", "ELMo")
        assert len(variant.checkpoints) == (1 if once else 3), "a verdict's unit is a pre-training"
        assert variant.method.endswith(", mean"), "the place of C favors a direction"
    left, right = (v.checkpoints for v in grid.variants if v.name in ("left alone", "right alone"))
    (pair,) = (v.checkpoints for v in grid.variants if v.name == "left and right")
    assert pair == tuple(f"{one}+{other}" for one, other in zip(left, right, strict=True))


def test_a_run_with_patience_goes_on_until_dev_stops_rising(models: dict[str, str]) -> None:
    variants = Variant("tuned", ("x",)), Variant("from scratch", ("x",), "untrained", patience=4)
    short, long = Grid("", variants, ("topic",), seeds=1).cells()
    assert long.recipe == replace(short.recipe, epochs=ablations.MOST_EPOCHS, patience=4)


def test_an_interval_holds_the_luck_of_runs(models: dict[str, str], ran: Path) -> None:
    """Wider where runs of one variant lie apart, and two runs of one variant are compared alike."""
    grid = grid_of(models)
    path = ran / NAME / "keyword.csv"
    _, low, high = difference(grid, "keyword", "pair", "word counts", ran)
    rows = read_csv(path)
    for row in rows[1:]:  # of one variant: one run all right, the others all wrong
        if row["model"] == models["bert"] and row["seed"] == "0":
            right = " ".join(
                f"{word.split('/')[0]}/{word.split('/')[0]}" for word in row["outcomes"].split()
            )
            row["outcomes"] = right
    write_csv(path, rows)
    _, low_now, high_now = difference(grid, "keyword", "pair", "word counts", ran)
    assert high_now - low_now > 1.2 * (high - low)
    compared = ablations.same_recipe(grid, "keyword", ran)
    assert len(compared) == 6 + 4  # of four runs of BERT six pairs, one of each of the others
    for (one, other), (value, low, high) in compared.items():
        assert one.partition(", run")[0] == other.partition(", run")[0]
        assert low <= value <= high


def test_the_equal_pair_has_as_many_parameters_as_bert() -> None:
    def count(name: str) -> int:
        config = replace(BertConfig.preset(name), vocab_size=8192)
        return sum(count_parameters(config).values())

    assert 0.93 < 2 * count("L4H80") / count("L4H128") < 1.07


def test_a_cell_of_features_has_a_recipe_of_its_own() -> None:
    variants = Variant("frozen", ("x",), "features:last"), Variant("tuned", ("x",))
    frozen, tuned = list(Grid("", variants, ("entities",), seeds=4).cells())[-2:]
    assert frozen.recipe == replace(FEATURES_RECIPE, seed=3)
    assert tuned.recipe == replace(ablations.RECIPES["entities"], seed=3)


# --- The command --------------------------------------------------------------------------------


def test_the_command_runs_a_grid_and_says_what_came_out(
    models: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(GRIDS, "quick", grid_of(models))
    result = CliRunner().invoke(
        app, ["ablate", "--quick", "--seeds", "1", "--results", str(tmp_path)]
    )
    assert result.exit_code == 0, result.output
    assert "keyword      BERT" in result.output
    assert (tmp_path / "ablations_summary.csv").is_file()
    assert len([r for r in RunRecord(tmp_path, NAME).rows() if r["method"] != "baseline"]) == 6


def test_the_command_leaves_out_grids_that_lack_a_task(
    models: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(GRIDS, "size", grid_of(models, ("keyword", "places"), seeds=1))
    monkeypatch.setitem(GRIDS, "steps", grid_of(models, ("keyword",), seeds=1))
    asked = ["ablate", "size", "steps", "--tasks", "places", "--results", str(tmp_path)]
    result = CliRunner().invoke(app, asked)
    assert result.exit_code == 0, result.output
    assert {row["task"] for row in RunRecord(tmp_path, NAME).rows()} == {"places"}
    assert "size: for tests" in result.output
    assert "steps: for tests" not in result.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["directions"], "no grid 'directions': choose one of direction, pairs, size"),
        (["size", "--quick"], "either grids or --quick"),
        (["size", "--tasks", "answer"], "no such task in these grids: leave --tasks out"),
    ],
)
def test_the_command_refuses_what_makes_no_sense(arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(app, ["ablate", *arguments])
    assert result.exit_code == 2
    assert message in " ".join(result.output.replace("│", " ").split())


def test_the_command_names_a_checkpoint_that_is_missing(
    models: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    grid = grid_of(models)
    absent = replace(grid, variants=(Variant("none", ("no-such-model",)),))
    monkeypatch.setitem(GRIDS, "quick", absent)
    result = CliRunner().invoke(app, ["ablate", "--quick", "--results", str(tmp_path)])
    assert result.exit_code == 1
    assert "no checkpoint 'no-such-model'" in result.output
    assert "Traceback" not in result.output


# --- What is committed --------------------------------------------------------------------------


def test_a_committed_run_comes_out_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the table, the command makes it anew: on another machine within its interval."""
    monkeypatch.setattr(ablations, "load_task", load_task)
    grid = GRIDS["quick"]
    small = replace(grid, variants=grid.variants[:1])
    (row,) = go(small, tmp_path, seeds=1)
    committed = shipped("results")
    known = RunRecord(committed, NAME).rows()
    key = ("task", "model", "method", "train_examples", "seed", "learning_rate", "epochs")
    (before,) = [old for old in known if all(old[name] == row[name] for name in key)]
    (summary,) = [r for r in summarize_grid(grid, committed) if r["variant"] == "BERT"]
    reach = (float(summary["high"]) - float(summary["low"])) / 2
    assert float(row["test"]) == pytest.approx(float(before["test"]), abs=reach)
    told = ("seconds", "commit", "device", "threads", "bfloat16", "test", "dev", "best_epoch")
    scores = [name for name in row if name.startswith("test")]
    for name in row.keys() - {*told, *scores}:
        assert row[name] == before[name], name


@pytest.mark.parametrize("name", GRIDS)
def test_the_committed_record_holds_the_whole_grid(name: str) -> None:
    grid, book = GRIDS[name], RunRecord(shipped("results"), NAME)
    made = {
        (row["task"], row["model"], row["method"], row["train_examples"], row["seed"])
        for row in book.rows()
    }
    for cell in grid.cells():
        model, method = cell.setup.model, cell.setup.method
        key = (cell.task, model, method, str(grid.examples), str(cell.recipe.seed))
        assert key in made, f"{key}: run `python -m course ablate {name}`"
    steps = {row["pretraining_steps"] for row in book.rows() if row["method"] == "untrained"}
    assert steps <= {"0"}


def test_a_size_stands_at_its_best_rate_with_a_worse_one_on_both_sides() -> None:
    rows = read_csv(shipped("results") / "size_curves.csv")
    on_dev = {r["run"]: float(r["dev_mlm_loss"]) for r in rows if r["dev_mlm_loss"]}  # at the end
    for size, chosen in SIZES.items():
        folder = f"size-{size.replace(' ', '')}-"
        tried = {run.removeprefix(folder): on_dev[run] for run in on_dev if folder in run}
        losses = {float(rate): loss for rate, loss in tried.items() if rate.count("-") == 1}
        rates, best = sorted(losses), min(losses, key=lambda rate: losses[rate])
        assert float(chosen.removeprefix(folder)) == best, size
        assert rates[0] < best < rates[-1], f"{size}: try a rate beyond {best}"


def test_the_interval_knows_the_runs_of_both_whoever_is_named_first() -> None:
    """Three runs beside one: the longer interval of the one is in the difference, both ways."""
    grid, committed = GRIDS["direction"], shipped("results")
    names = "both sides", "left and right, narrow"
    gap, low, high = difference(grid, "topic", *names, committed)
    assert difference(grid, "topic", *names[::-1], committed) == pytest.approx((-gap, -high, -low))
    _, low_of_three, high_of_three = difference(grid, "topic", names[0], "left alone", committed)
    assert high - low > 1.2 * (high_of_three - low_of_three)


def test_two_runs_of_one_recipe_are_seldom_told_apart() -> None:
    """The A/A test of the verdict, on the recorded outcomes of table 5: 5 % would be by chance."""
    grid, committed = GRIDS["direction"], shipped("results")
    verdicts = [
        verdict_of(low, high)
        for task in grid.tasks
        for _, low, high in ablations.same_recipe(grid, task, committed).values()
    ]
    assert len(verdicts) == len(grid.tasks) * (len(grid.variants) - 2) * 3
    assert sum(verdict != "undecided" for verdict in verdicts) <= 0.1 * len(verdicts)
