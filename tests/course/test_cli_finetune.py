"""`python -m course finetune`, `predict` and `summary`: end to end, every refusal, and Ctrl-C."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import tiny_finetuning as tiny
import torch
from typer.testing import CliRunner, Result

from bertedu.cli import app as package
from bertedu.files import read_csv
from bertedu.finetuning.finetune import RATES
from bertedu.finetuning.saving import load_finetuned
from course.cli import app
from course.experiments.tasks import TASKS
from course.results import search as running

SMALL = {"train": 16, "dev": 6, "test": 8}
QUICK = "--epochs 1 --batch-size 8 --seeds 2".split()


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.save_bert(tmp_path_factory.mktemp("model"))


@pytest.fixture(autouse=True)
def small_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("course.results.origin.current_commit", lambda: "abc1234")
    for make in tiny.MAKERS.values():
        task, _ = make(SMALL)
        monkeypatch.setitem(TASKS, task.name, task)
    keyword, _ = tiny.keyword_task()
    monkeypatch.setitem(TASKS, "learnable", tiny.replace(keyword, name="learnable"))


def bertedu(*arguments: object) -> Result:
    commands = package if arguments[0] == "predict" else app
    return CliRunner().invoke(commands, [str(argument) for argument in arguments])


def finetune(
    tmp_path: Path, checkpoint: Path | str, *more: object, tasks: str = "keyword"
) -> Result:
    where = ["--results", tmp_path / "results", "--from", checkpoint]
    return bertedu("finetune", *tasks.split(), *where, *QUICK, *more)


def rows(tmp_path: Path, name: str = "finetuning") -> list[dict[str, str]]:
    return read_csv(tmp_path / "results" / f"{name}.csv")


def scored(tmp_path: Path) -> list[dict[str, str]]:
    return [r for r in rows(tmp_path) if r["purpose"] == "score" and r["method"] != "baseline"]


def assert_refused(result: Result, message: str, code: int = 1) -> None:
    """One plain message, no traceback."""
    assert result.exit_code == code, result.output
    assert message in " ".join(result.output.replace("│", " ").split())
    assert "Traceback" not in result.output
    if code == 1:
        assert "Error: " in result.output


# --- End to end ---------------------------------------------------------------------------------


def test_from_training_to_answers_to_the_table(tmp_path: Path, checkpoint: Path) -> None:
    out = tmp_path / "model"
    options = "--epochs 6 --learning-rate 2e-2 --seeds 1 --out".split()
    result = finetune(tmp_path, checkpoint, *options, out, tasks="learnable")
    assert result.exit_code == 0, result.output
    assert f"written: {out}" in result.output
    assert f"written: {tmp_path / 'results' / 'finetuning.csv'}" in result.output
    (row,) = scored(tmp_path)
    assert float(row["test"]) > 0.9
    assert f"test accuracy {float(row['test']):.4f}" in result.output
    assert "learnable, majority: test accuracy" in result.output

    for text, answer in (("the man saw some wonderful stone", "yes"), ("a terrible house", "no")):
        result = bertedu("predict", out, text)
        assert result.exit_code == 0, result.output
        assert result.output.startswith(f"{answer} ("), text

    result = bertedu("summary", tmp_path / "results", "--reference", checkpoint)
    assert result.exit_code == 0, result.output
    table = {row["model"]: row for row in rows(tmp_path, "finetuning_summary")}
    assert table.keys() == {str(checkpoint), "majority", "word counts"}
    assert table[str(checkpoint)]["mean"] == f"{float(row['test']):.4f}"
    assert float(table["majority"]["minus_high"]) < 0
    (line,) = [line for line in result.output.splitlines() if "majority" in line]
    low, high = (f"{float(table['majority'][f'minus_{end}']):+.4f}" for end in ("low", "high"))
    assert line.endswith(f"{low} to {high}")


def test_the_best_of_the_seeds_is_saved_and_answers_as_it_did(
    tmp_path: Path, checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[running.Run] = []
    real = running.run_once

    def spy(*arguments: Any, **rest: Any) -> running.Run:
        made.append(real(*arguments, **rest))
        made[-1].history.dev[-1] = (0.1, 0.9, 0.3)[len(made) - 1]
        return made[-1]

    monkeypatch.setattr(running, "run_once", spy)
    out = tmp_path / "model"
    assert finetune(tmp_path, checkpoint, "--seeds", 3, "--out", out).exit_code == 0
    found = load_finetuned(out).answer(TASKS["keyword"].load()["test"])
    distances = [
        sum(abs(a.shares[0] - b.shares[0]) for a, b in zip(found, run.answers["test"], strict=True))
        for run in made
    ]
    assert min(distances) == distances[1]
    assert distances[1] < 0.02, "16 bits here, 32 there"


@pytest.mark.parametrize(
    ("task", "texts"),
    [
        ("keyword", ["a wonderful house"]),
        ("rating", ["a wonderful house"]),
        ("places", ["the man went to New York"]),
        ("who", ["Who was it?", "the old man Robert saw"]),
        ("ending", ["the old man", "saw wonderful", "saw terrible"]),
    ],
)
def test_every_kind_of_task_is_tuned_saved_and_asked(
    tmp_path: Path, checkpoint: Path, task: str, texts: list[str]
) -> None:
    out = tmp_path / "model"
    result = finetune(tmp_path, checkpoint, "--seeds", 1, "--out", out, tasks=task)
    assert result.exit_code == 0, result.output
    result = bertedu("predict", out, *texts)
    assert result.exit_code == 0, result.output
    assert result.output.strip()


def test_what_is_recorded_is_not_run_again(
    tmp_path: Path, checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []
    real = running.run_once

    def spy(*arguments: Any, **rest: Any) -> running.Run:
        calls.append(1)
        return real(*arguments, **rest)

    monkeypatch.setattr(running, "run_once", spy)
    for more, count in (
        ([], 2),
        ([], 2),
        (["--seeds", 3], 3),
        (["--again"], 5),
        (["--method", "frozen"], 7),
        (["--examples", 8], 9),
    ):
        result = finetune(tmp_path, checkpoint, *more)
        assert result.exit_code == 0, result.output
        assert len(calls) == count, more
    result = finetune(tmp_path, checkpoint, "--dropout", 0.2)
    assert result.exit_code == 1
    assert "scored with another recipe" in result.output
    assert len(calls) == 9


def test_several_tasks_and_the_default_rate_goes_with_the_method(
    tmp_path: Path, checkpoint: Path
) -> None:
    for method in ("frozen", "untrained"):
        result = finetune(tmp_path, checkpoint, "--method", method, tasks="keyword places")
        assert result.exit_code == 0, result.output
    found = {(row["task"], row["method"], float(row["learning_rate"])) for row in scored(tmp_path)}
    frozen, trained = RATES["frozen"][1], RATES["fine-tuned"][1]
    assert found == {
        *(("keyword", "frozen", frozen), ("places", "frozen", frozen)),
        *(("keyword", "untrained", trained), ("places", "untrained", trained)),
    }
    result = bertedu("summary", tmp_path / "results")
    assert result.exit_code == 0, result.output
    assert {row["task"] for row in rows(tmp_path, "finetuning_summary")} == {"keyword", "places"}


def test_tasks_are_listed_with_what_needs_no_model() -> None:
    result = bertedu("tasks", "keyword", "rating")
    assert result.exit_code == 0, result.output
    first, second = result.output.splitlines()[1:]
    labels = {s: [e.label for e in some] for s, some in TASKS["keyword"].load().items()}  # type: ignore[union-attr]
    most = max((0, 1), key=labels["train"].count)
    assert first.split()[:6] == f"keyword 16 6 8 50.0% {labels['test'].count(most) / 8:.1%}".split()
    assert second.split()[:4] == "rating 16 6 8".split()
    assert "%" not in second


# --- Refusals -----------------------------------------------------------------------------------


def test_names_that_are_wrong_show_before_any_work(tmp_path: Path, checkpoint: Path) -> None:
    results = tmp_path / "results"
    assert_refused(finetune(tmp_path, checkpoint, tasks="keyword keywrod"), "no task 'keywrod'")
    assert_refused(finetune(tmp_path, checkpoint, "--method", "frosen"), "no method 'frosen'")
    assert_refused(finetune(tmp_path, checkpoint, "--grid", "big"), "choose none, rates or full", 2)
    two = finetune(tmp_path, checkpoint, "--out", tmp_path / "m", tasks="keyword places")
    assert_refused(two, "name one task", 2)
    for option in ("--examples", "--batch-size", "--epochs"):
        assert finetune(tmp_path, checkpoint, option, 0).exit_code == 2, option
    none = finetune(tmp_path, checkpoint, "--seeds", 0, "--out", tmp_path / "m")
    assert_refused(none, "one seed or more", 2)
    assert bertedu("tasks", "keywrod").exit_code == 1
    assert not results.exists()


def test_a_device_or_a_folder_that_cannot_be_used_shows_before_training(
    tmp_path: Path, checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("I am no folder")
    monkeypatch.setattr(running, "run_once", lambda *_, **__: pytest.fail("trained for nothing"))
    for option in ("--out", "--results"):
        below = tmp_path / "file" / "below"
        assert_refused(finetune(tmp_path, checkpoint, option, below), f"cannot write to {below}: N")
    abacus = finetune(tmp_path, checkpoint, "--device", "abacus")
    assert_refused(abacus, "device 'abacus' cannot be used here")


def test_a_run_is_on_the_device_asked_for_and_its_row_says_so(
    tmp_path: Path, checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)  # the default would be CUDA
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "none")
    result = finetune(tmp_path, checkpoint, "--device", "cpu", "--seeds", 1)
    assert result.exit_code == 0, result.output
    assert scored(tmp_path)[0]["device"].startswith("cpu ")


def test_a_checkpoint_that_is_missing_or_of_the_wrong_kind(
    tmp_path: Path, checkpoint: Path
) -> None:
    assert_refused(finetune(tmp_path, "nothing-there"), "no checkpoint 'nothing-there'")
    pair = f"{checkpoint}+{checkpoint}"
    assert_refused(finetune(tmp_path, pair), "a pair is a left-to-right and a right-to-left model")
    (tmp_path / "empty").mkdir()
    assert_refused(finetune(tmp_path, tmp_path / "empty"), "it has no config.json")


def test_a_task_that_cannot_be_used_is_named(
    tmp_path: Path, checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task, splits = tiny.keyword_task(sizes=SMALL)
    monkeypatch.setitem(TASKS, "keyword", tiny.replace(task, load=lambda: {**splits, "dev": []}))
    assert_refused(finetune(tmp_path, checkpoint), "task keyword: the dev split is empty")


def test_a_rate_that_is_far_too_high_says_so(tmp_path: Path, checkpoint: Path) -> None:
    result = finetune(tmp_path, checkpoint, "--learning-rate", "1e30", tasks="rating")
    assert result.exit_code == 1
    assert "the loss became NaN or infinite" in result.output
    assert "try a third of it" in result.output
    assert scored(tmp_path) == []


def test_an_elmo_is_tuned_and_cannot_be_saved(tmp_path: Path) -> None:
    elmo = tiny.save_elmo(tmp_path / "elmo")
    assert finetune(tmp_path, elmo).exit_code == 0
    assert len(scored(tmp_path)) == 2
    result = finetune(tmp_path, elmo, "--out", tmp_path / "m")
    assert result.exit_code == 1
    assert "only a single BERT with a new layer can be saved" in result.output


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory, checkpoint: Path) -> Path:
    """A model of a task with one text or two."""
    house = tmp_path_factory.mktemp("tuned")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(TASKS, "keyword", tiny.keyword_task(sizes=SMALL)[0])
        patch.setattr("course.results.origin.current_commit", lambda: "abc1234")
        assert finetune(house, checkpoint, "--out", house / "m").exit_code == 0
    return house / "m"


def test_predict_refuses_what_it_cannot_answer(
    tmp_path: Path, tuned: Path, checkpoint: Path
) -> None:
    assert_refused(bertedu("predict", tmp_path / "nowhere", "x"), "it has no config.json")
    assert_refused(bertedu("predict", checkpoint, "x"), "holds no fine-tuned model")
    assert_refused(bertedu("predict", tuned, "a", "b"), "give one text, not 2")
    assert_refused(bertedu("predict", tuned, " "), "a text is empty")
    assert_refused(bertedu("predict", tuned), "Missing argument", 2)
    broken = tmp_path / "broken"
    broken.mkdir()
    for path in tuned.iterdir():
        (broken / path.name).write_bytes(path.read_bytes())
    whole = (broken / "model.safetensors").read_bytes()
    (broken / "model.safetensors").write_bytes(whole[: len(whole) // 2])
    assert_refused(bertedu("predict", broken, "x"), "is broken or only half there")


def test_a_summary_of_nothing_is_refused(tmp_path: Path) -> None:
    assert_refused(bertedu("summary", tmp_path / "nowhere"), "no outcomes in")
    assert not (tmp_path / "nowhere").exists()


# --- Ctrl-C, and speed --------------------------------------------------------------------------


@pytest.mark.parametrize("after", [0, 1])
def test_ctrl_c_leaves_what_was_recorded(
    tmp_path: Path, checkpoint: Path, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    real, calls = running.run_once, []

    def interrupted(*arguments: Any, **rest: Any) -> running.Run:
        if len(calls) == after:
            raise KeyboardInterrupt
        calls.append(1)
        return real(*arguments, **rest)

    monkeypatch.setattr(running, "run_once", interrupted)
    result = finetune(tmp_path, checkpoint, "--seeds", 3)
    assert result.exit_code == 130
    assert "what is recorded is not run again" in result.output
    assert [row["seed"] for row in scored(tmp_path)] == ["0", "1", "2"][:after]
    monkeypatch.setattr(running, "run_once", real)
    assert finetune(tmp_path, checkpoint, "--seeds", 3).exit_code == 0
    assert [row["seed"] for row in scored(tmp_path)] == ["0", "1", "2"]


def test_threads_are_set(tmp_path: Path, checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[int] = []
    monkeypatch.setattr(torch, "set_num_threads", said.append)
    assert finetune(tmp_path, checkpoint, "--threads", 2).exit_code == 0
    assert said == [2]


def test_help_is_quick() -> None:
    """It imports no torch, whatever the command."""
    code = """
import sys
from typer.testing import CliRunner
from course.cli import app
for name in ("finetune", "summary", "tasks"):
    result = CliRunner().invoke(app, [name, "--help"])
    assert result.exit_code == 0, result.output
    assert "Usage" in result.output
slow = {"torch", "numpy", "sklearn", "scipy", "tokenizers"} & set(sys.modules)
assert not slow, slow
"""
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr
