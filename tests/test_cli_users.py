"""The command line as a newcomer uses it: odd numbers, files in the way, two runs at once."""

import json
import os
import re
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from forked import Program
from test_cli_pretrain import command, corpus, encoded, invoke, refused, steps_on_disk
from typer.testing import CliRunner, Result

from bertedu.cli import app
from bertedu.model.bert import Bert
from bertedu.model.checkpoints import ENCODERS_ALONE, PUBLISHED, find_model
from bertedu.model.config import PRESETS
from bertedu.pretraining import run as running
from bertedu.pretraining.run_folder import LOCK_FILE, RUN_FILE
from bertedu.text.sources import find
from course.cli import app as course

__all__ = ["corpus"]  # a fixture


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, corpus: Path) -> None:
    """A smaller BERT behind the same names, encoded once."""
    splits = encoded(corpus)
    monkeypatch.setattr(running, "load_splits", lambda corpora, say: splits)
    monkeypatch.setitem(PRESETS, "tiny", (1, 8, 1))


@pytest.fixture
def no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("load_splits", "train", "BertForPreTraining"):
        monkeypatch.setattr(running, name, lambda *_, **__: pytest.fail("it went to work"))


def run(*words: object) -> Result:
    commands = course if words[0] == "finetune" else app
    return CliRunner().invoke(commands, [*map(str, words)])


# -- numbers that cannot be meant


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize("value", [-1, 0, "nan", "inf", "-inf"])
def test_a_learning_rate_that_cannot_be_meant_is_refused_before_any_work(
    corpus: Path, tmp_path: Path, value: object
) -> None:
    message = refused(corpus, tmp_path / "run", "--steps", 3, "--learning-rate", value)
    assert "--learning-rate" in message
    assert "should be a number above zero" in message
    assert not (tmp_path / "run").exists()


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize(
    ("option", "value"),
    [
        *(("--dropout", value) for value in (-0.1, 1, "nan", "inf")),
        *(("--seed", value) for value in (-5, 2**32)),
        *(("--mask-rate", value) for value in (0, 1.5, "nan")),
        *(("--minutes", value) for value in (0, -1, "nan", "inf")),
    ],
)
def test_other_numbers_are_refused_by_the_name_of_their_option(
    corpus: Path, tmp_path: Path, option: str, value: object
) -> None:
    length = [] if option == "--minutes" else ["--steps", 3]
    message = refused(corpus, tmp_path / "made" / "run", *length, option, value)
    assert message.startswith(f"Error: {option} ")
    assert " should be " in message
    assert list(tmp_path.iterdir()) == [], "no folder is left, nor one above it"


@pytest.mark.parametrize("option", ["--learning-rate", "--dropout"])
def test_fine_tuning_refuses_such_numbers_too(
    monkeypatch: pytest.MonkeyPatch, option: str, tmp_path: Path
) -> None:
    def fail(*_: Any) -> None:
        pytest.fail("it went to work")

    monkeypatch.setattr("course.experiments.tasks.load_task", fail)
    for value in (-1, "nan", "inf"):
        result = run("finetune", "topic", "--results", tmp_path, option, value)
        assert result.exit_code == 1, result.output
        assert result.stderr.startswith(f"Error: {option} ")


# -- a file in the way


@pytest.mark.usefixtures("no_work")
def test_out_that_is_a_file_is_refused_at_once(corpus: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("I am no folder")
    for out in (tmp_path / "file", tmp_path / "file" / "below"):
        message = refused(corpus, out, "--steps", 3)
        assert f"cannot write to {out}: " in message
        assert message.endswith("; choose another folder")
    assert (tmp_path / "file").read_text() == "I am no folder"


def test_fine_tuning_into_a_file_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "course.experiments.tasks.load_task", lambda *_: pytest.fail("it went to work")
    )
    (tmp_path / "file").touch()
    result = run("finetune", "topic", "--seeds", 1, "--out", tmp_path / "file")
    assert result.exit_code == 2
    assert "is a file" in " ".join(result.stderr.replace("│", " ").split())


# -- two runs into one folder

# Trains until the file `go` is there: the other run comes meanwhile.
WAIT = """
import time
from pathlib import Path
import bertedu.pretraining.run as run
original = run.train
def train(*arguments, **named):
    Path({here!r}).touch()
    while not Path({go!r}).exists():
        time.sleep(0.02)
    return original(*arguments, **named)
run.train = train
"""


def wait_for(path: Path, program: Program) -> None:
    deadline = time.monotonic() + 120
    while not path.exists():
        assert program.exit_code is None, program.end()
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("kill", [False, True])
def test_two_runs_do_not_write_into_one_folder(corpus: Path, tmp_path: Path, kill: bool) -> None:
    out, here, go = (tmp_path / name for name in ("run", "here", "go"))
    words = command(corpus, out, "--steps", 3)
    first = Program(words, WAIT.format(here=str(here), go=str(go)))
    try:
        wait_for(here, first)
        for more in ([], ["--resume"]):
            message = refused(corpus, out, "--steps", 3, *more)
            assert f"another run is writing to {out} now" in message
        if kill:
            first.kill()  # the lock file stays, the lock does not
            assert (out / LOCK_FILE).exists()
            assert invoke(corpus, out, "--steps", 3).exit_code == 0
        else:
            go.touch()
            _, errors = first.end()
            assert first.exit_code == 0, errors
            assert "holds a finished run" in refused(corpus, out, "--steps", 3)
    finally:
        first.kill()
    assert (out / "model.safetensors").exists()
    assert not (out / LOCK_FILE).exists()


# -- threads


@pytest.mark.usefixtures("small")
def test_a_run_keeps_the_threads_that_it_began_with(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What torch is told is written down, and not done."""
    import test_cli_pretrain

    options = test_cli_pretrain.OPTIONS.replace("--threads 1 ", "")
    monkeypatch.setattr(test_cli_pretrain, "OPTIONS", options)
    told = [1]
    monkeypatch.setattr(torch, "set_num_threads", told.append)
    monkeypatch.setattr(torch, "get_num_threads", lambda: told[-1])
    plain, asked = tmp_path / "plain", tmp_path / "asked"
    assert invoke(corpus, plain, "--steps", 200, "--stop-at", 1).exit_code == 0
    assert told == [1], "nothing is measured, however long the run"
    assert invoke(corpus, asked, "--steps", 9, "--stop-at", 1, "--threads", 4).exit_code == 0
    assert told == [1, 4]
    for threads, out in ((1, plain), (4, asked)):
        assert json.loads((out / RUN_FILE).read_text())["threads"] == threads
        told.append(3)
        assert invoke(corpus, out, "--resume", "--stop-at", 2).exit_code == 0
        assert steps_on_disk(out) == 2
        assert told[-1] == threads
    assert invoke(corpus, asked, "--resume", "--stop-at", 3, "--threads", 2).exit_code == 0
    assert told[-1] == 2, "unless it is told"


# -- texts that cannot be read, files that hold none


def one_line_error(result: Result) -> str:
    assert result.exit_code == 1, result.output
    assert isinstance(result.exception, SystemExit), "a traceback"
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith("Error: ")
    return line


def test_bytes_that_are_no_utf_8_are_refused_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        pytest.fail("it loaded a model first")

    monkeypatch.setattr("bertedu.load", fail)
    monkeypatch.setattr("bertedu.finetuning.saving.load_finetuned", fail)
    bad = os.fsdecode(b"the \xff ___ barked")
    for words in (["fill", bad], ["predict", tmp_path, bad], ["predict", tmp_path, "good", bad]):
        assert "Character 4 of this text is half a surrogate pair" in one_line_error(run(*words))


# -- fill


def test_an_encoder_without_a_head_is_refused_before_it_is_fetched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        pytest.fail("it fetched 83 MB")

    monkeypatch.setattr("bertedu.model.checkpoints.read", fail)
    message = one_line_error(run("fill", "the ___ barked", "--checkpoint", "minilm"))
    assert "minilm is an encoder alone" in message
    assert "such as bert-mini" in message


def test_the_encoders_alone_are_those_without_a_head() -> None:
    for name in PUBLISHED:
        source = find(name)
        if not source.path.is_file():
            pytest.skip("not fetched: run `make weights`")
        assert isinstance(find_model(name).model, Bert) == (name in ENCODERS_ALONE), name


def test_the_example_of_fills_help_has_a_sensible_answer() -> None:
    helped = CliRunner().invoke(app, ["fill", "--help"], env={"COLUMNS": "200", "TERM": "dumb"})
    (example,) = re.findall('"(.*___.*?)"', helped.output)
    result = run("fill", example, "--top", 1)
    assert result.exit_code == 0, result.output
    assert result.stdout.split()[2] == "congress", f"{example!r} gives {result.stdout}"
