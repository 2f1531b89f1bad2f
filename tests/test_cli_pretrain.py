"""`bertedu pretrain`: a whole run on a small text, kill -9 and resume, and every refusal."""

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from forked import Program
from safetensors.torch import load_file
from torch import Tensor
from typer.testing import CliRunner, Result

from bertedu.cli import app
from bertedu.model.bert import BertForPreTraining
from bertedu.model.checkpoints import (
    CheckpointError,
    load_checkpoint,
    load_named,
    load_pretrained,
    load_tensors,
    save_tensors,
)
from bertedu.model.config import PRESETS, BertConfig
from bertedu.pretraining import objective
from bertedu.pretraining import run as running
from bertedu.pretraining.next_sentence import EncodedDocument
from bertedu.pretraining.options import VARIANTS
from bertedu.pretraining.recipe import Recipe
from bertedu.pretraining.run import step_seconds
from bertedu.pretraining.run_folder import RUN_FILE, STATE_FILE
from bertedu.pretraining.texts import halved, load_splits, with_company
from bertedu.text.fast_tokenizer import save_tokenizer, train_vocabulary
from bertedu.text.streaming import DocumentStream
from bertedu.text.tokenization import MASK_ID

STEPS, BOUNDARY = 40, 28  # of the default recipe: 70 % of the steps at length 64, then 128
OPTIONS = "--config tiny --threads 1 --no-bfloat16 --device cpu --dropout 0.1 --seed 5"


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Sixty documents of invented words, and a vocabulary of their own: small, so quick."""
    house = tmp_path_factory.mktemp("house")
    folder = house / "text"
    folder.mkdir()
    chance = random.Random(0)
    words = [a + b for a in "ba ke lo mi nu ra se to".split() for b in "n r s t l".split()]
    texts = []
    for document in range(60):
        own = chance.sample(words, 12)
        sentences = [
            " ".join(chance.choices(own, k=chance.randint(5, 14))).capitalize() + "."
            for _ in range(30)
        ]
        texts.append("\n".join(sentences))
        (folder / f"{document}.txt").write_text(texts[-1], encoding="utf-8")
    save_tokenizer(train_vocabulary(texts, 100), house / "data" / "tokenizer")
    threads = torch.get_num_threads()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BERTEDU_DATA", str(house / "data"))
        yield folder
    torch.set_num_threads(threads)


def command(corpus: Path, out: Path, *more: object) -> list[str]:
    return ["pretrain", *OPTIONS.split(), *map(str, ("--corpus", corpus, "--out", out, *more))]


def steps_on_disk(out: Path) -> int:
    try:
        _, metadata = load_tensors(out / STATE_FILE)
    except CheckpointError:
        return 0
    return int(json.loads(metadata["training"])["state"]["step"])


def kill_after(program: Program, out: Path, saved: int, delay: float) -> None:
    """Kill -9 some time after a state of at least so many steps is on the disk."""
    deadline = time.monotonic() + 300
    while program.exit_code is None and steps_on_disk(out) < saved:
        assert time.monotonic() < deadline, "no progress"
        time.sleep(0.02)
    time.sleep(delay)
    assert program.exit_code is None, f"it ended before it was killed: {program.end()}"
    program.kill()


# The half of a state file is written, then the process is gone.
DIE_WHILE_WRITING = """
import os, signal
import bertedu.model.checkpoints as weight_files
whole, count = weight_files.save_file, []
def save_file(tensors, part, metadata):
    whole(tensors, part, metadata)
    count.append(1)
    if len(count) == {saves}:
        with open(part, "r+b") as file:
            file.truncate(part.stat().st_size // 2)
        os.kill(os.getpid(), signal.SIGKILL)
weight_files.save_file = save_file
"""
# The state at the end of the first phase is the last that was saved.
DIE_AT_THE_BOUNDARY = """
import os, signal
import bertedu.pretraining.watching as watching
original = watching.save_state
def save_state(path, model, optimizer, state, recipe):
    original(path, model, optimizer, state, recipe)
    if state.step == {step}:
        os.kill(os.getpid(), signal.SIGKILL)
watching.save_state = save_state
"""


def test_kill_9_at_any_moment_then_resume_ends_bit_identical(corpus: Path, tmp_path: Path) -> None:
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    options = ("--config", "L1H64", "--steps", STEPS, "--save-every", 4)
    first = command(corpus, broken, *options)
    again = [*first, "--resume"]
    delay = random.Random().uniform(0, 0.3)
    undisturbed = Program(command(corpus, whole, *options))
    kill_after(Program(first), broken, 4, delay)
    reached = [steps_on_disk(broken)]

    for sabotage in (DIE_WHILE_WRITING.format(saves=3), DIE_AT_THE_BOUNDARY.format(step=BOUNDARY)):
        program = Program(again, sabotage)
        program.end()
        assert program.exit_code == -signal.SIGKILL
        if len(reached) == 1:
            assert list(broken.glob(".*.part")), "it should have died with half a file"
        reached.append(steps_on_disk(broken))
    assert reached[2] == BOUNDARY
    assert 0 < reached[0] < reached[1] < BOUNDARY, (reached, delay)

    (broken / ".tmpaB3dE9").touch()  # what a kill in the middle of safetensors leaves
    program = Program(again)
    output, errors = program.end()
    assert program.exit_code == 0, errors
    assert f"written: {broken}" in output

    _, errors = undisturbed.end()
    assert undisturbed.exit_code == 0, errors
    expected, found = (load_file(out / "model.safetensors") for out in (whole, broken))
    assert expected.keys() == found.keys()
    for name, tensor in expected.items():
        assert torch.equal(tensor, found[name]), f"{name} differs after kills at {reached}"
    left, right = (json.loads((out / "training.json").read_text()) for out in (whole, broken))
    assert [row["step"] for row in right["curve"]] == list(range(2, STEPS + 1, 2))
    for row in (*left["curve"], *right["curve"]):
        del row["seconds"]
    assert left["curve"] == right["curve"]
    for key in ("tokens", "steps", "recipe", "config", "corpora"):
        assert left[key] == right[key], key
    assert sorted(p.name for p in broken.iterdir()) == sorted(p.name for p in whole.iterdir())
    assert {p.name for p in broken.iterdir()} == {
        *("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"),
        *("vocab.txt", "training.json"),
    }
    # 16 bits are what the file holds; the 32-bit states must agree, too
    model = load_checkpoint(broken)
    assert model.bert.config.dropout == 0.1
    assert left["curve"][-1]["dev_mlm_loss"] > 0


# --- In this process: one tiny model, so that every refusal can be tried quickly ----------------


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, corpus: Path) -> None:
    """A smaller BERT behind the same names, encoded once."""
    splits = encoded(corpus)
    monkeypatch.setattr(running, "load_splits", lambda corpora, say: splits)
    monkeypatch.setitem(PRESETS, "tiny", (1, 8, 1))


CACHE: dict[Path, dict[str, list[EncodedDocument]]] = {}


def encoded(corpus: Path) -> dict[str, list[EncodedDocument]]:
    if corpus not in CACHE:
        CACHE[corpus] = load_splits([str(corpus)], lambda line: None)
    return CACHE[corpus]


def invoke(corpus: Path, out: Path, *more: object) -> Result:
    result = CliRunner().invoke(app, command(corpus, out, *more))
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def refused(corpus: Path, out: Path, *more: object) -> str:
    result = invoke(corpus, out, *more)
    assert result.exit_code == 1, result.output
    assert "Traceback" not in result.stderr
    message = result.stderr.splitlines()[-1]  # above it there may be a progress bar
    assert message.startswith("Error: ")
    return message


def interrupted(corpus: Path, out: Path, monkeypatch: pytest.MonkeyPatch, step: int = 5) -> Result:
    """Run until Ctrl-C comes in the middle of a step."""
    steps = iter(range(10_000))
    original = objective.pretraining_loss

    def loss(*arguments: Any) -> Any:
        if next(steps) == step:
            os.kill(os.getpid(), signal.SIGINT)
        return original(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(objective, "pretraining_loss", loss)
        return invoke(corpus, out, "--steps", 8, "--save-every", 2)


@pytest.mark.usefixtures("small")
def test_a_run_interrupted_by_ctrl_c_goes_on(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, whole = tmp_path / "run", tmp_path / "whole"
    result = interrupted(corpus, out, monkeypatch, step=4)
    assert result.exit_code == 130
    assert "stopped after step 5; the state is in" in result.stderr
    assert "--resume" in result.stderr
    assert steps_on_disk(out) == 5
    assert invoke(corpus, out, "--resume").exit_code == 0  # the number of steps is remembered
    assert invoke(corpus, whole, "--steps", 8, "--save-every", 2).exit_code == 0
    one, two = (load_file(o / "model.safetensors") for o in (out, whole))
    assert all(torch.equal(one[name], two[name]) for name in one)


@pytest.mark.usefixtures("small")
def test_a_run_in_progress_is_not_overwritten_nor_resumed_as_another(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "run"
    interrupted(corpus, out, monkeypatch)
    before = (out / STATE_FILE).read_bytes()
    message = refused(corpus, out, "--steps", 8)
    assert "holds a run in progress" in message
    assert "--resume" in message
    other = corpus.parent / "other"
    for options, problem in (
        (["--steps", 9], "steps 8, not 9"),
        (["--seed", 6], "seed 5, not 6"),
        (["--learning-rate", 0.5], "learning_rate 0.001, not 0.5"),
        (["--config", "mini"], "config"),
        (["--dropout", 0.2], "config"),
        (["--corpus", other], "corpora"),
        (["--masking", "100/0/0"], "masking (0.8, 0.1), not (1.0, 0.0)"),
        (["--mask-rate", 0.5], "mask_rate None, not 0.5"),
        (["--seed", 0], "seed 5, not 0"),
        (["--length", 32], "length None, not 32"),
        (["--variant", "no-nsp"], "variant bert, not no-nsp"),
    ):
        message = refused(corpus, out, "--resume", *options)
        assert problem in message
        assert "same options" in message
    monkeypatch.setattr(running, "load_vocabulary", lambda: [*load_vocabulary()[:-1], "changed"])
    assert "vocabulary" in refused(corpus, out, "--resume")
    assert (out / STATE_FILE).read_bytes() == before, "something was lost"


load_vocabulary = running.load_vocabulary


@pytest.mark.usefixtures("small")
def test_a_state_without_a_run_file_still_resumes(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs that an earlier version started have none; the weights still have to fit."""
    out = tmp_path / "run"
    interrupted(corpus, out, monkeypatch)
    (out / RUN_FILE).unlink()
    assert "belongs to another model" in refused(corpus, out, "--resume", "--config", "mini")
    vocabulary = [*load_vocabulary(), "one-more"]
    monkeypatch.setattr(running, "load_vocabulary", lambda: vocabulary)
    assert "belongs to another model" in refused(corpus, out, "--resume")
    monkeypatch.setattr(running, "load_vocabulary", load_vocabulary)
    assert invoke(corpus, out, "--resume").exit_code == 0


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("instructions", [False, True])
def test_unless_it_is_asked_a_run_is_in_32_bits_on_every_machine(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, instructions: bool
) -> None:
    """Its precision belongs to its recipe: what the machine could do has no say."""
    for name in ("_is_avx512_bf16_supported", "_is_amx_tile_supported"):
        monkeypatch.setattr(torch.cpu, name, lambda: instructions)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda **_: instructions)
    monkeypatch.setattr(sys.modules[__name__], "OPTIONS", OPTIONS.replace("--no-bfloat16", ""))
    result = invoke(corpus, tmp_path / "run", "--steps", 1)
    assert result.exit_code == 0
    assert "float32" in result.output
    assert json.loads((tmp_path / "run/training.json").read_text())["bfloat16"] is False


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("asked", [False, True])
def test_a_run_ends_with_the_products_that_it_began_with(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: bool
) -> None:
    unsaid = OPTIONS.replace("--no-bfloat16", "")
    monkeypatch.setattr(
        sys.modules[__name__], "OPTIONS", f"{unsaid} --bfloat16" if asked else unsaid
    )
    out = tmp_path / "run"
    interrupted(corpus, out, monkeypatch)
    monkeypatch.setattr(sys.modules[__name__], "OPTIONS", unsaid)
    other = "--no-bfloat16" if asked else "--bfloat16"
    assert f"is a run with bfloat16 {asked}" in refused(corpus, out, "--resume", other)
    result = invoke(corpus, out, "--resume")
    assert result.exit_code == 0
    assert ("bfloat16" if asked else "float32") in result.output
    assert json.loads((out / "training.json").read_text())["bfloat16"] is asked


@pytest.mark.usefixtures("small")
def test_a_run_of_a_time_when_none_said_what_products_it_has_resumes(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "run"
    interrupted(corpus, out, monkeypatch)
    run = json.loads((out / RUN_FILE).read_text())
    run.pop("bfloat16")
    (out / RUN_FILE).write_text(json.dumps(run))
    assert invoke(corpus, out, "--resume", "--bfloat16").exit_code == 0
    assert json.loads((out / "training.json").read_text())["bfloat16"] is True


@pytest.mark.usefixtures("small")
def test_a_state_from_before_there_was_a_choice_of_masking_resumes(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, whole = tmp_path / "run", tmp_path / "whole"
    interrupted(corpus, out, monkeypatch)
    tensors, metadata = load_tensors(out / STATE_FILE)
    described = json.loads(metadata["training"])
    assert described["recipe"].pop("masking") == [0.8, 0.1]
    save_tensors(tensors, out / STATE_FILE, {"training": json.dumps(described)})
    assert invoke(corpus, out, "--resume").exit_code == 0
    assert invoke(corpus, whole, "--steps", 8, "--save-every", 2).exit_code == 0
    one, two = (load_file(o / "model.safetensors") for o in (out, whole))
    assert all(torch.equal(one[name], two[name]) for name in one)


@pytest.mark.usefixtures("small")
def test_another_masking_trains_another_model_and_is_written_down(
    corpus: Path, tmp_path: Path
) -> None:
    trained = {}
    for masking in ("80/10/10", "0/100/0", None):
        out = tmp_path / str(masking).replace("/", "-")
        options = ["--masking", masking] if masking else []
        assert invoke(corpus, out, "--steps", 2, "--save-every", 2, *options).exit_code == 0
        trained[masking] = load_file(out / "model.safetensors")
        record = json.loads((out / "training.json").read_text())
        assert record["recipe"]["masking"] == ([0.0, 0.0] if masking == "0/100/0" else [0.8, 0.1])
    name = "bert.encoder.layer.0.attention.self.query.weight"
    assert torch.equal(trained["80/10/10"][name], trained[None][name])
    assert not torch.equal(trained["0/100/0"][name], trained[None][name])


@pytest.mark.usefixtures("small")
def test_another_mask_rate_trains_another_model_and_is_written_down(
    corpus: Path, tmp_path: Path
) -> None:
    trained = {}
    for rate in (0.15, 0.6, None):
        out = tmp_path / str(rate)
        options = ["--mask-rate", rate] if rate else []
        assert invoke(corpus, out, "--steps", 2, "--length", 64, *options).exit_code == 0
        trained[rate] = load_file(out / "model.safetensors")
        record = json.loads((out / "training.json").read_text())
        assert [phase["mask_rate"] for phase in record["recipe"]["phases"]] == [rate or 0.15]
    name = "bert.encoder.layer.0.attention.self.query.weight"
    assert torch.equal(trained[0.15][name], trained[None][name])
    assert not torch.equal(trained[0.6][name], trained[None][name])
    assert invoke(corpus, tmp_path / "phases", "--steps", 2, "--mask-rate", 0.6).exit_code == 0
    record = json.loads((tmp_path / "phases" / "training.json").read_text())
    assert [phase["mask_rate"] for phase in record["recipe"]["phases"]] == [0.6, 0.6]


@pytest.mark.usefixtures("small")
def test_a_run_is_scored_on_dev_and_at_no_position_that_it_has_never_seen(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    cut = running.fixed_batches

    def spy(documents: Any, length: int, *more: Any, **named: Any) -> Any:
        asked.append(length)
        assert all(any(document is one for one in encoded(corpus)["dev"]) for document in documents)
        found = cut(documents, length, *more, **named)
        assert all(batch.ids.shape[1] == length for batch in found)
        return found

    monkeypatch.setattr(running, "fixed_batches", spy)
    for options in (["--length", 32], []):
        out = tmp_path / str(len(options))
        assert invoke(corpus, out, "--steps", 2, *options).exit_code == 0
    assert asked == [32, running.EVALUATION_LENGTH]


@pytest.mark.usefixtures("small")
def test_a_compiled_run_trains_the_same_model(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Traced as for a GPU, but not turned into machine code, which would take a minute."""
    compiled: list[str] = []
    whole = torch.nn.Module.compile

    def traced(module: torch.nn.Module) -> None:
        compiled.append(type(module).__name__)
        whole(module, backend="aot_eager")

    monkeypatch.setattr(torch.nn.Module, "compile", traced)
    trained = []
    for more in ([], ["--compile"]):
        out = tmp_path / f"run{len(more)}"
        options = ["--steps", 3, "--save-every", 1, "--dropout", 0, "--no-bfloat16", *more]
        assert invoke(corpus, out, *options).exit_code == 0
        assert json.loads((out / "training.json").read_text())["compiled"] == bool(more)
        trained.append(load_file(out / "model.safetensors"))
    assert compiled == ["Encoder"]
    plain, fused = trained
    assert plain.keys() == fused.keys()
    assert all(torch.allclose(plain[n].float(), fused[n].float(), atol=2e-3) for n in plain)
    said = refused(corpus, tmp_path / "elmo", "--steps", 3, "--variant", "elmo", "--compile")
    assert "leave out --compile" in said


@pytest.mark.usefixtures("small")
def test_each_seed_starts_as_a_model_of_its_own(corpus: Path, tmp_path: Path) -> None:
    starts = []
    for number, seed in enumerate((1, 1, 2)):
        out = tmp_path / str(number)
        still = ("--steps", 1, "--learning-rate", 1e-12, "--seed", seed)
        assert invoke(corpus, out, *still).exit_code == 0
        starts.append(load_file(out / "model.safetensors"))
    name = "bert.encoder.layer.0.attention.self.query.weight"
    one, again, other = (start[name] for start in starts)
    assert torch.equal(one, again)
    assert not torch.equal(one, other)
    # its scores start at how often a word stands in the training text, and only there
    counts = torch.ones(len(load_vocabulary()))
    for document in encoded(corpus)["train"]:
        for sentence in document.sentences:
            counts += torch.bincount(torch.tensor(sentence), minlength=len(counts))
    bias = load_checkpoint(tmp_path / "0").mlm.decoder.bias
    torch.testing.assert_close(bias, (counts / counts.sum()).log(), atol=5e-3, rtol=0)


@pytest.mark.usefixtures("small")
def test_a_finished_run_is_not_touched(corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    assert invoke(corpus, out, "--steps", 2, "--save-every", 2).exit_code == 0
    before = {p.name: p.read_bytes() for p in out.iterdir()}
    for more in ([], ["--resume"]):
        assert "holds a finished run" in refused(corpus, out, "--steps", 2, *more)
    assert {p.name: p.read_bytes() for p in out.iterdir()} == before
    record = json.loads(before["training.json"])
    assert record["steps"] == record["recipe"]["steps"] == 2
    assert record["recipe"]["seed"] == 5
    assert record["corpora"] == {str(corpus): None}
    assert record["config"]["dropout"] == 0.1
    assert record["threads"] == 1
    assert record["seconds"] > 0
    assert record["curve"][-1]["step"] == 2
    assert {"hardware", "torch", "python", "commit", "bfloat16", "tokens"} <= record.keys()


@pytest.mark.usefixtures("small")
def test_init_goes_on_from_the_weights_with_a_fresh_learning_rate(
    corpus: Path, tmp_path: Path
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    assert invoke(corpus, first, "--steps", 2).exit_code == 0
    rest = ("--learning-rate", 1e-12, "--length", 32, "--save-every", 3)
    arguments = ["pretrain", *map(str, ("--init", first, "--out", second, "--corpus", corpus))]
    arguments += ["--steps", "3", "--seed", "6", *map(str, rest)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    # at a learning rate of nothing, the weights are those of the first run
    before, after = (dict(load_checkpoint(f).named_parameters()) for f in (first, second))
    for name, weight in before.items():
        torch.testing.assert_close(weight, after[name], rtol=1e-3, atol=1e-6)
    record = json.loads((second / "training.json").read_text())
    assert record["recipe"]["phases"] == [
        {"share": 1.0, "length": 32, "batch_size": 64, "mask_rate": 0.15}
    ]
    earlier = json.loads((first / "training.json").read_text())
    digest = hashlib.sha256((first / "model.safetensors").read_bytes()).hexdigest()
    assert record["init"] == {"sha256": digest} | earlier
    assert (record["steps"], earlier["steps"]) == (3, 2)


@pytest.mark.usefixtures("small")
def test_a_run_from_a_checkpoint_resumes_from_no_other(corpus: Path, tmp_path: Path) -> None:
    for seed in (1, 2):
        made = tmp_path / f"init{seed}"
        assert invoke(corpus, made, "--steps", 1, "--seed", seed).exit_code == 0
    arguments = ["pretrain", "--out", tmp_path / "run", "--corpus", corpus, "--no-bfloat16"]

    def go_on(seed: int, *more: object) -> Result:
        rest = ("--init", tmp_path / f"init{seed}", *more)
        return CliRunner().invoke(app, [str(a) for a in (*arguments, *rest)])

    assert go_on(1, "--steps", 2, "--save-every", 1, "--stop-at", 1).exit_code == 0
    refusal = go_on(2, "--resume")
    assert refusal.exit_code == 1
    assert "is a run with init" in refusal.stderr
    assert go_on(1, "--resume").exit_code == 0


@pytest.mark.usefixtures("small")
def test_init_refuses_what_cannot_be_trained_further(corpus: Path, tmp_path: Path) -> None:
    def refusal(*more: object) -> str:
        arguments = ["pretrain", *map(str, ("--corpus", corpus, "--steps", 2, *more))]
        result = CliRunner().invoke(app, [*arguments, "--out", str(tmp_path / "new")])
        assert result.exit_code == 1, result.output
        assert "Traceback" not in result.output
        assert not (tmp_path / "new").exists()
        return result.output + result.stderr

    first = tmp_path / "first"
    assert invoke(corpus, first, "--steps", 2).exit_code == 0
    assert "choose either --config" in refusal("--config", "tiny", "--init", first)
    assert "--length from 16 to" in refusal("--init", first, "--length", 100_000)
    assert "--length from 16 to" in refusal("--length", 8)
    assert "config.json" in refusal("--init", tmp_path / "nowhere")
    words = (first / "vocab.txt").read_text().splitlines()
    (first / "vocab.txt").write_text("\n".join([*words[:-2], words[-1], words[-2]]) + "\n")
    assert "another vocabulary" in refusal("--init", first)
    (first / "vocab.txt").unlink()
    assert "no vocabulary at" in refusal("--init", first)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("variant", VARIANTS)
def test_a_variant_is_one_switch(
    corpus: Path, tmp_path: Path, variant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, held_out = tmp_path / "run", []
    train = running.train

    def watch(model: Any, text: Any, scored_on: Any, *more: Any, **named: Any) -> Any:
        held_out.extend(scored_on)
        return train(model, text, scored_on, *more, **named)

    monkeypatch.setattr(running, "train", watch)
    assert invoke(corpus, out, "--steps", 2, "--variant", variant).exit_code == 0
    record = json.loads((out / "training.json").read_text())
    direction, next_sentence, question = VARIANTS[variant]
    assert record["variant"] == variant
    assert record["config"]["direction"] == direction
    assert record["recipe"]["next_sentence"] == next_sentence
    loaded = load_pretrained(out) if variant == "elmo" else load_checkpoint(out)
    assert loaded.config.direction == direction
    assert {"mlm_loss", "dev_mlm_loss"} <= set(record["curve"][-1])
    told_of_pairs = {name for name in record["curve"][-1] if "nsp" in name}
    assert bool(told_of_pairs) == next_sentence  # no score of a head that nothing has trained
    # and it is scored by the question that it learns to answer
    batch, masked = held_out[0], question == "masked"
    assert bool((batch.ids == MASK_ID).any()) == masked
    if not masked:
        asked = batch.selected.roll(-1 if variant == "rtl" else 1, dims=1)
        assert torch.equal(batch.labels, batch.ids[asked])


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("variant", VARIANTS)
def test_every_variant_resumes_bit_identical(
    corpus: Path, tmp_path: Path, variant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ("--steps", 12, "--save-every", 2, "--variant", variant, "--threads", 1)
    assert invoke(corpus, tmp_path / "whole", *options).exit_code == 0
    original = objective.pretraining_loss

    def die(model: Any, batch: Any, *more: bool) -> Any:
        if next(steps) == 7:
            raise RuntimeError("out of power")
        return original(model, batch, *more)

    steps = iter(range(100))
    with monkeypatch.context() as patch:
        patch.setattr(objective, "pretraining_loss", die)
        with pytest.raises(RuntimeError, match="out of power"):
            invoke(corpus, tmp_path / "broken", *options)
    assert invoke(corpus, tmp_path / "broken", *options, "--resume").exit_code == 0
    whole, broken = (tmp_path / name / "model.safetensors" for name in ("whole", "broken"))
    assert whole.read_bytes() == broken.read_bytes()


@pytest.mark.usefixtures("small")
def test_the_masked_question_is_the_same_under_three_attention_masks(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Direction is the only thing that differs: every tensor of every batch is equal."""
    original, seen = objective.pretraining_loss, []

    def watch(model: Any, batch: Any, *more: bool) -> Any:
        seen[-1].append((model.config.direction, batch, next(iter(model.parameters())).clone()))
        return original(model, batch, *more)

    monkeypatch.setattr(objective, "pretraining_loss", watch)
    for variant in ("no-nsp", "mlm-ltr", "mlm-rtl"):
        seen.append([])
        out = tmp_path / variant
        options = ("--steps", 8, "--variant", variant, "--seed", 3, "--threads", 1)
        assert invoke(corpus, out, *options).exit_code == 0
    assert [steps[0][0] for steps in seen] == ["bidirectional", "left-to-right", "right-to-left"]
    for steps in zip(*seen, strict=True):
        both, *others = (vars(batch) for _, batch, _ in steps)
        for other in others:
            assert all(torch.equal(both[name], other[name]) for name in both)
        assert (both["ids"] == MASK_ID).any(), "words are masked"
    firsts = [steps[0][2] for steps in seen]
    assert all(torch.equal(firsts[0], first) for first in firsts), "and they start as one model"
    lasts = [steps[-1][2] for steps in seen]
    assert not torch.equal(lasts[0], lasts[1])
    assert not torch.equal(lasts[0], lasts[2])


@pytest.mark.usefixtures("small")
def test_a_run_in_two_sittings_is_one_run(corpus: Path, tmp_path: Path) -> None:
    """--stop-at keeps the schedule of the whole run, unlike a run of fewer steps."""
    options = ("--steps", 10, "--save-every", 2, "--threads", 1)
    assert invoke(corpus, tmp_path / "whole", *options).exit_code == 0
    first = invoke(corpus, tmp_path / "two", *options, "--stop-at", 5)
    assert first.exit_code == 0
    assert "stopped after step 5 of 10" in first.output
    assert "written" not in first.output
    assert steps_on_disk(tmp_path / "two") == 5
    assert not (tmp_path / "two" / "model.safetensors").exists()
    assert invoke(corpus, tmp_path / "two", *options, "--resume").exit_code == 0
    whole, two = (tmp_path / name / "model.safetensors" for name in ("whole", "two"))
    assert whole.read_bytes() == two.read_bytes()


@pytest.mark.usefixtures("small")
def test_weights_are_kept_at_intervals(corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    assert invoke(corpus, out, "--steps", 6, "--keep-every", 2).exit_code == 0
    # each can be loaded as what it is, a model with its tokenizer
    kept = [load_named(out / "steps" / f"{step:06d}")[0] for step in (2, 4, 6)]
    last = load_checkpoint(out)
    for model in kept:
        same = [
            torch.equal(mine, theirs)
            for mine, theirs in zip(model.parameters(), last.parameters(), strict=True)
        ]
        assert all(same) == (model is kept[-1])
    assert sorted(path.name for path in (out / "steps").iterdir()) == ["000002", "000004", "000006"]


@pytest.mark.usefixtures("small")
def test_variants_do_not_mix(corpus: Path, tmp_path: Path) -> None:
    assert "no variant 'gpt': choose one of bert, no-nsp, ltr, rtl, elmo" in refused(
        corpus, tmp_path / "new", "--steps", 2, "--variant", "gpt"
    )
    one_way = tmp_path / "ltr"
    assert invoke(corpus, one_way, "--steps", 2, "--variant", "ltr").exit_code == 0
    arguments = ["pretrain", "--init", one_way, "--out", tmp_path / "x", "--corpus", corpus]
    result = CliRunner().invoke(app, [*map(str, arguments), "--steps", "2"])
    assert result.exit_code == 1
    assert "reads left-to-right" in result.output + result.stderr
    result = CliRunner().invoke(app, [*map(str, arguments), "--steps", "2", "--variant", "elmo"])
    assert "an ELMo starts from scratch" in result.output + result.stderr


@pytest.mark.usefixtures("small")
def test_a_broken_state_is_named(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "run"
    interrupted(corpus, out, monkeypatch)
    (out / STATE_FILE).write_bytes((out / STATE_FILE).read_bytes()[:1000])
    message = refused(corpus, out, "--resume")
    assert "broken or only half there" in message
    assert STATE_FILE in message


@pytest.mark.usefixtures("small")
def test_nan_is_told_in_one_line_and_the_state_is_kept(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original, steps = objective.pretraining_loss, iter(range(100))

    def loss(model: BertForPreTraining, batch: Any, *more: bool) -> Any:
        if next(steps) == 5:
            torch.nn.init.constant_(model.bert.pooler.dense.bias, float("nan"))
        return original(model, batch, *more)

    monkeypatch.setattr(objective, "pretraining_loss", loss)
    message = refused(corpus, tmp_path / "run", "--steps", 8, "--save-every", 2)
    assert "NaN or infinite between steps 5 and 6" in message
    assert steps_on_disk(tmp_path / "run") == 4
    assert not (tmp_path / "run" / "model.safetensors").exists()


@pytest.mark.parametrize("options", [[], ["--steps", 3, "--minutes", 1]])
def test_steps_or_minutes_before_anything_is_read(
    corpus: Path, tmp_path: Path, options: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "load_splits", lambda *_: pytest.fail("read the corpora first"))
    message = refused(corpus, tmp_path / "run", *options)
    assert "either --steps N or --minutes M" in message
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--minutes", 0], "above zero"),
        (["--minutes", -1], "above zero"),
        (["--minutes", "inf"], "above zero"),
        (["--minutes", "nan"], "above zero"),
        (["--steps", 3, "--config", "huge"], "no preset 'huge'; there are tiny, mini"),
        (["--steps", 3, "--device", "abacus"], "device 'abacus' cannot be used here"),
        (["--steps", 3, "--dropout", 1], "--dropout 1.0 should be a share"),
        (["--steps", 3, "--corpus", "nowhere"], "'nowhere' is neither a corpus"),
        (["--steps", 3, "--masking", "80/10"], "three whole percentages that add up to 100"),
        (["--steps", 3, "--masking", "100/0/0", "--variant", "ltr"], "leave out --masking"),
        (["--steps", 3, "--mask-rate", 0.3, "--variant", "rtl"], "leave out --mask-rate"),
        (["--steps", 3, "--mask-rate", 15], "--mask-rate 15.0 should be above 0 and at most 1"),
        (["--steps", 3, "--mask-rate", 0], "--mask-rate 0.0 should be above 0 and at most 1"),
    ],
)
@pytest.mark.usefixtures("small")
def test_options_that_make_no_sense(
    tmp_path: Path,
    corpus: Path,
    options: list[object],
    problem: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if "--corpus" in options:
        monkeypatch.undo()
    assert problem in refused(corpus, tmp_path / "run", *options)
    assert not (tmp_path / "run").exists()


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has CUDA")
def test_cuda_where_there_is_none(corpus: Path, tmp_path: Path) -> None:
    message = refused(corpus, tmp_path / "run", "--steps", 3, "--device", "cuda")
    assert "device 'cuda' cannot be used here" in message


def test_a_missing_vocabulary(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tokenizer").mkdir()
    monkeypatch.setenv("BERTEDU_DATA", str(tmp_path))
    message = refused(corpus, tmp_path / "run", "--steps", 3)
    assert "no vocabulary at" in message
    assert not (tmp_path / "run").exists()


@pytest.mark.usefixtures("small")
def test_a_folder_that_cannot_be_written_is_noticed_before_training(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "train", lambda *_, **__: pytest.fail("trained for nothing"))
    (tmp_path / "file").write_text("I am no folder")
    for out in (tmp_path / "file", tmp_path / "file" / "below"):
        message = refused(corpus, out, "--steps", 3)
        assert f"cannot write to {out}" in message
    assert (tmp_path / "file").read_text() == "I am no folder"


@pytest.mark.parametrize("victim", ["model.safetensors", "training.json"])
@pytest.mark.usefixtures("small")
def test_a_disk_that_is_full_at_the_end_loses_nothing(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, victim: str
) -> None:
    out = tmp_path / "run"
    original: Callable[..., None] = os.replace

    def replace(source: Any, target: Any) -> None:
        if Path(target).name == victim:
            raise OSError(28, "No space left on device")
        original(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", replace)
        message = refused(corpus, out, "--steps", 4, "--save-every", 2)
    assert "No space left on device" in message
    assert steps_on_disk(out) == 4
    assert invoke(corpus, out, "--resume").exit_code == 0
    assert not (out / STATE_FILE).exists()
    assert json.loads((out / "training.json").read_text())["steps"] == 4


def test_a_step_takes_what_its_phases_take_by_their_shares(
    corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a clock of its own: a step of the first phase takes 2 s, of the second 5 s.

    Half of that is the way back; and whatever the first steps take, as on a GPU, does not count.
    """
    now, started = [0.0], set[int]()
    monkeypatch.setattr(running.time, "perf_counter", lambda: now[0])
    original = running.pretraining_loss

    def loss(model: BertForPreTraining, batch: Any, *more: bool) -> Any:
        half = 1.0 if len(batch.ids) == 32 else 2.5
        if len(batch.ids) not in started:
            started.add(len(batch.ids))
            now[0] += 100.0
        now[0] += half
        total, scores = original(model, batch, *more)

        def back(gradient: Tensor) -> None:
            now[0] += half

        total.register_hook(back)
        return total, scores

    monkeypatch.setattr(running, "pretraining_loss", loss)
    torch.manual_seed(0)
    model = BertForPreTraining(BertConfig(100, 8, 1, 1, 16, 128))
    before = [p.detach().clone() for p in model.parameters()]
    train = encoded(corpus)["train"]
    assert step_seconds(model, train, Recipe(1), False) == pytest.approx(0.7 * 2 + 0.3 * 5)
    assert all(torch.equal(p, q) for p, q in zip(model.parameters(), before, strict=True))
    assert all(p.grad is None for p in model.parameters())


@pytest.mark.usefixtures("small")
def test_minutes_end_in_time(corpus: Path, tmp_path: Path) -> None:
    began = time.monotonic()
    assert invoke(corpus, tmp_path / "run", "--minutes", 0.05).exit_code == 0
    assert time.monotonic() - began < 60  # 3 s asked for; a slow machine may be busy
    record = json.loads((tmp_path / "run" / "training.json").read_text())
    assert 0.3 < record["seconds"] < 30
    assert record["steps"] == record["recipe"]["steps"] >= 20


@pytest.mark.usefixtures("corpus")
def test_a_small_text_is_all_trained_on_and_says_so(tmp_path: Path) -> None:
    """Of a few documents dev may get one, or the only one: "Guitar" would be held out."""
    folder, book = tmp_path / "texts", tmp_path / "Guitar.txt"
    folder.mkdir()
    texts = [" ".join(f"Sentence {i} of {n} is short." for i in range(150)) for n in range(3)]
    for title, text in zip(("Seoul", "한국", "Guitar"), texts, strict=True):
        (folder / f"{title}.txt").write_text(text, encoding="utf-8")

    def trained(where: Path, *more: object) -> str:
        out = tmp_path / "runs" / str(len(runs))
        runs.append(out)
        result = invoke(where, out, "--steps", 2, *more)
        assert result.exit_code == 0, result.output
        assert f"{where} has fewer than 40 documents: none is held out" in result.output
        assert "too few held-out documents" in result.output
        assert "dev_mlm_loss" not in json.loads((out / "training.json").read_text())["curve"][-1]
        return result.output

    runs: list[Path] = []
    assert "encoding 3 train documents" in trained(folder)
    book.write_text("\n\n".join(texts), encoding="utf-8")
    assert "encoding 3 train documents" in trained(book)
    book.write_text("\n".join(texts), encoding="utf-8")
    for variant in ("no-nsp", "ltr", "elmo"):
        assert "encoding 1 train documents" in trained(book, "--variant", variant)
    message = refused(book, tmp_path / "run", "--steps", 2)
    assert "source 'Guitar.txt' has one document" in message
    assert "a blank line between its chapters or articles" in message


@pytest.mark.usefixtures("small")
def test_a_stream_is_trained_on_window_by_window_and_resumes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("datasets")
    monkeypatch.setattr(DocumentStream.__init__, "__defaults__", (100,))
    nouns = "river city tree ship king law war book".split()
    path = tmp_path / "big.jsonl"
    with path.open("w") as file:
        for number in range(250):
            words = [nouns[(number + k) % 8] for k in range(6)]
            text = " ".join(f"The {word} stood near the {words[0]}." for word in words)
            file.write(json.dumps({"title": f"t{number}", "text": text}) + "\n")

    def train(out: Path, *more: object) -> Result:
        options = ["--config", "tiny", "--steps", 24, "--save-every", 2, "--threads", 1]
        arguments = ["pretrain", "--stream", path, "--out", out, *options, "--no-bfloat16", *more]
        return CliRunner().invoke(app, [str(a) for a in arguments])

    windows: list[int] = []
    window = DocumentStream.window

    def watch(stream: DocumentStream, number: int) -> Any:
        windows.append(number)
        return window(stream, number)

    monkeypatch.setattr(DocumentStream, "window", watch)
    whole = train(tmp_path / "whole")
    assert whole.exit_code == 0, whole.output
    assert windows == list(range(len(windows)))
    assert len(windows) > 2
    assert train(tmp_path / "two", "--stop-at", 14).exit_code == 0
    assert train(tmp_path / "two", "--resume").exit_code == 0
    first, second = (tmp_path / name / "model.safetensors" for name in ("whole", "two"))
    assert first.read_bytes() == second.read_bytes()
    record = json.loads((tmp_path / "whole" / "training.json").read_text())
    assert record["corpora"] == {f"stream:{path}": None}
    assert "dev_mlm_loss" in record["curve"][-1], "its first window has documents held out"
    both = ["pretrain", "--stream", "x", "--corpus", "y", "--out", tmp_path / "z", "--steps", 1]
    assert CliRunner().invoke(app, [str(a) for a in both]).exit_code == 2


def test_a_document_alone_of_its_source_is_left_out_and_an_empty_one_is_no_company() -> None:
    words = [[7, 8, 9]] * 4
    two = [EncodedDocument("two", words), EncodedDocument("two", words)]
    alone = [EncodedDocument("one", words), EncodedDocument("one", [])]
    assert with_company([*alone, *two]) == two
    halves = [EncodedDocument("one", words[:2]), EncodedDocument("one", words[2:])]
    assert halved([*two, *alone]) == [*two, *halves]


def test_the_commit_is_that_of_the_course_wherever_one_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = running.current_commit()
    who = ("-c", "user.name=a", "-c", "user.email=a@b.c")
    for command in (["init"], [*who, "commit", "--allow-empty", "-m", "elsewhere"]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True, capture_output=True)
    monkeypatch.chdir(tmp_path)
    assert running.current_commit() == here


@pytest.mark.usefixtures("small")
def test_a_record_names_the_code_that_ran_not_what_it_became_meanwhile(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit, train = ["before"], running.train

    def edit_and_train(*arguments: Any, **named: Any) -> Any:
        commit[0] = "after"
        return train(*arguments, **named)

    monkeypatch.setattr(running, "current_commit", lambda: commit[0])
    monkeypatch.setattr(running, "train", edit_and_train)
    assert invoke(corpus, tmp_path / "run", "--steps", 1).exit_code == 0
    assert json.loads((tmp_path / "run" / "training.json").read_text())["commit"] == "before"
