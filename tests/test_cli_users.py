"""The command line as a newcomer uses it: odd numbers, odd bytes, files in the way."""

import errno
import os
import re
from pathlib import Path
from typing import Any

import pytest
from called import one_line_error, run
from typer.main import get_command

from bertedu.cli import app
from bertedu.model.bert import Bert
from bertedu.model.checkpoints import ENCODERS_ALONE, PUBLISHED, find_model
from bertedu.text.sources import find


def fail(*_: Any, **__: Any) -> None:
    pytest.fail("it went to work")


def test_a_pipe_that_has_read_enough_ends_a_command_without_a_word(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def gone() -> None:
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    monkeypatch.setattr("bertedu.text.sources.sources", gone)
    result = run("data", "list")
    assert (result.exit_code, result.stderr) == (1, "")


def test_what_cannot_be_read_or_written_is_refused_before_a_model_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bertedu.load", fail)
    monkeypatch.setattr("bertedu.finetuning.saving.load_finetuned", fail)
    bad = os.fsdecode(b"the \xff ___ barked")
    for words in (["fill", bad], ["predict", tmp_path, bad], ["predict", tmp_path, "good", bad]):
        assert "Character 4 of this text is half a surrogate pair" in one_line_error(run(*words))
    table = ["--csv", tmp_path / "own.csv", "--out", Path(__file__) / "said.csv"]
    assert "cannot write to" in one_line_error(run("predict", tmp_path, *table))


def test_an_encoder_without_a_head_is_refused_before_it_is_fetched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in PUBLISHED:  # these are the encoders without a head
        if find(name).path.is_file():
            assert isinstance(find_model(name).model, Bert) == (name in ENCODERS_ALONE), name
    monkeypatch.setattr("bertedu.model.checkpoints.read", fail)
    refused = run("fill", "the ___ barked", "--checkpoint", "minilm")
    assert "minilm is an encoder alone" in one_line_error(refused)
    with pytest.raises(pytest.fail.Exception, match="it went to work"):  # this one has a head
        run("fill", "the ___ barked", "--checkpoint", "bert-tiny")


def test_help_goes_through_a_users_day() -> None:
    """One looks at a model first, then has one of one's own; to train from nothing comes last."""
    helped = run("--help", COLUMNS="200", TERM="dumb")
    shown = re.findall(r"^│ ([a-z]+) ", helped.output, re.MULTILINE)
    assert shown == ["fill", "finetune", "predict", "data", "vocabulary", "pretrain"]
    for words in ([], ["data"]):  # who asks for nothing is helped
        assert run(*words).output.strip() == run(*words, "--help").output.strip()
    group: Any = get_command(app)
    commands = [group, *group.commands.values(), *group.commands["data"].commands.values()]
    assert all(one.help for command in commands for one in (command, *command.params))


def test_the_example_of_fills_help_has_a_sensible_answer() -> None:
    helped = run("fill", "--help", COLUMNS="200", TERM="dumb")
    (example,) = re.findall('"(.*___.*?)"', helped.output)
    result = run("fill", example, "--top", 1)
    assert result.exit_code == 0, result.output
    assert result.stdout.split()[2] == "congress", f"{example!r} gives {result.stdout}"
