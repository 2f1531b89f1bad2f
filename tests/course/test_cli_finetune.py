"""`python -m course finetune`, `summary`, `tasks` and `predict`: end to end, and every refusal."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import tiny_finetuning as tiny
import torch
from called import printed_by, run
from typer.testing import Result

from bertedu.files import read_csv
from bertedu.finetuning.finetune import RATES, Setup
from bertedu.finetuning.saving import load_finetuned
from bertedu.finetuning.training import Hyperparameters
from course.cli import app
from course.experiments.tasks import TASKS
from course.results import record

SMALL = {"train": 16, "dev": 6, "test": 8}
QUICK = "--epochs 1 --batch-size 8 --seeds 2".split()
bertedu = partial(run, of=app)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.save_bert(tmp_path_factory.mktemp("model"))


@pytest.fixture(autouse=True)
def small_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("course.results.origin.current_commit", lambda: "abc1234")
    for make in tiny.MAKERS.values():
        task, _ = make(SMALL)
        monkeypatch.setitem(TASKS, task.name, task)
    learnable = tiny.replace(tiny.keyword_task()[0], name="learnable")
    monkeypatch.setitem(TASKS, "learnable", learnable)
    empty = tiny.replace(learnable, load=lambda: {"train": [], "dev": [], "test": []})
    monkeypatch.setitem(TASKS, "empty", empty)


def finetune(folder: Path, *more: object, tasks: str = "keyword") -> Result:
    return bertedu("finetune", *tasks.split(), "--results", folder / "results", *QUICK, *more)


def scored(folder: Path) -> list[dict[str, str]]:
    rows = read_csv(folder / "results" / "finetuning.csv")
    return [r for r in rows if r["purpose"] == "score" and r["method"] != "baseline"]


def test_from_training_to_answers_to_the_table(tmp_path: Path, checkpoint: Path) -> None:
    out, results = tmp_path / "model", tmp_path / "results"
    options = *"--epochs 6 --learning-rate 2e-2 --seeds 1 --out".split(), out
    result = finetune(tmp_path, "--from", checkpoint, *options, tasks="learnable")
    assert result.exit_code == 0, result.output
    (row,) = scored(tmp_path)
    assert float(row["test"]) > 0.9
    for said in (f"written: {out}", f"test accuracy {float(row['test']):.4f}", "majority: test"):
        assert said in result.output
    for text, answer in (("the man saw some wonderful stone", "yes"), ("a terrible house", "no")):
        assert run("predict", out, text).output.startswith(f"{answer} ("), text
    result = bertedu("summary", results, "--reference", checkpoint)
    table = {row["model"]: row for row in read_csv(results / "finetuning_summary.csv")}
    assert table[str(checkpoint)]["mean"] == f"{float(row['test']):.4f}"
    (line,) = [line for line in result.output.splitlines() if "majority" in line]
    low, high = (f"{float(table['majority'][f'minus_{end}']):+.4f}" for end in ("low", "high"))
    assert line.endswith(f"{low} to {high}")


def test_the_best_of_the_seeds_is_saved(
    tmp_path: Path, checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[record.Run] = []
    real = record.run_once

    def spy(*arguments: Any, **rest: Any) -> record.Run:
        made.append(real(*arguments, **rest))
        made[-1].history.dev[-1] = (0.1, 0.9, 0.3)[len(made) - 1]
        return made[-1]

    monkeypatch.setattr(record, "run_once", spy)
    out = tmp_path / "model"
    assert finetune(tmp_path, "--from", checkpoint, "--seeds", 3, "--out", out).exit_code == 0
    found = load_finetuned(out).answer(TASKS["keyword"].load()["test"])
    assert [run.answers["test"] == found for run in made] == [False, True, False]


def test_options_reach_the_runs_and_the_rate_goes_with_the_method(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[Any, ...]] = []
    threads: list[int] = []

    def spy(loaded: Any, setup: Any, recipe: Any, seeds: Any, *rest: Any, **_: Any) -> None:
        asked.append((loaded[0].name, setup, recipe, list(seeds), *rest[1:]))

    monkeypatch.setattr(record, "run_task", spy)
    monkeypatch.setattr(torch, "set_num_threads", threads.append)
    options = "--method frozen --examples 8 --dropout 0.2 --grid rates --again --threads 2".split()
    finetune(tmp_path, *options, tasks="keyword places")
    finetune(tmp_path, "--from", "minilm", "--device", "cpu", "--learning-rate", 0.5)
    frozen = Hyperparameters(RATES["frozen"][1], 8, 1, dropout=0.2)
    first = Setup("bert-L4H128", "frozen", 8), frozen, [0, 1], "rates", True
    second = Setup("minilm", device="cpu"), Hyperparameters(0.5, 8, 1), [0, 1], "none", False
    assert asked == [("keyword", *first), ("places", *first), ("keyword", *second)]
    assert 2 in threads


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ("keyword keywrod", "no task 'keywrod'"),
        ("empty", "the train split is empty"),
        ("keyword --method frosen", "no method 'frosen'"),
        ("keyword --grid big", "choose none, rates, full or seeds"),
        ("keyword places --out {tmp}/m", "name one task"),
        ("keyword --seeds 0 --out {tmp}/m", "one seed or more"),
        ("keyword --examples 0", "--examples"),
        ("keyword --learning-rate -1", "--learning-rate"),
        ("keyword --dropout nan", "--dropout"),
        ("keyword --device abacus", "device 'abacus' cannot be used here"),
        ("keyword --out {tmp}/file", "is a file"),
        ("keyword --results {tmp}/file/m", "cannot write to"),
    ],
)
def test_what_is_wrong_shows_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: str, message: str
) -> None:
    (tmp_path / "file").write_text("I am no folder")
    monkeypatch.setattr(record, "run_task", lambda *_, **__: pytest.fail("trained for nothing"))
    words = asked.format(tmp=tmp_path).split()
    result = bertedu("finetune", "--results", tmp_path / "results", *QUICK, *words)
    assert result.exit_code in (1, 2), result.output
    assert message in " ".join(result.output.replace("│", " ").split())
    assert "Traceback" not in result.output
    assert not (tmp_path / "results" / "finetuning.csv").exists()


def test_ctrl_c_leaves_what_was_recorded(
    tmp_path: Path, checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = record.run_once

    def interrupted(*arguments: Any, **rest: Any) -> record.Run:
        if scored(tmp_path):
            raise KeyboardInterrupt
        return real(*arguments, **rest)

    monkeypatch.setattr(record, "run_once", interrupted)
    result = finetune(tmp_path, "--from", checkpoint)
    assert result.exit_code == 130
    assert "what is recorded is not run again" in result.output
    assert [row["seed"] for row in scored(tmp_path)] == ["0"]


def test_help_and_checks_are_quick() -> None:
    """No torch for a help, whatever the command; no scikit-learn for the checks of a notebook."""
    code = """
import sys
from typer.testing import CliRunner
from course.cli import app
for name in ("finetune", "summary", "tasks"):
    assert "Usage" in CliRunner().invoke(app, [name, "--help"]).output
assert not {"torch", "numpy", "sklearn", "scipy", "tokenizers"} & set(sys.modules)
import course.exercises.check
assert not {"sklearn", "scipy", "pandas"} & set(sys.modules)
"""
    assert printed_by("-c", code) == ""
