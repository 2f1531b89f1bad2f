"""Two processes, each with half of every batch, are one process: same curve, same weights."""

import dataclasses
import json
import socket
from pathlib import Path

import pytest
import torch
from called import printed_by
from forked import Program

from bertedu import machine
from bertedu.model.bert import BertForPreTraining
from bertedu.model.checkpoints import load_tensors
from bertedu.model.config import BertConfig
from bertedu.model.elmo import ElmoForPreTraining, ElmoSizes
from bertedu.pretraining.batches import Batch, Phase, Recipe, next_words
from bertedu.pretraining.objective import PreTrainingModel, StepLoss, pretraining_loss
from bertedu.pretraining.run import PreTrainingOptions, pretrain
from bertedu.pretraining.trainer import Trainer

CONFIG = BertConfig(60, 16, 2, 4, 32, 24, dropout=0.0, initializer_range=0.3)


def uneven_batch() -> Batch:
    """Seven rows with very different numbers of words to predict: none in the second."""
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(5, 60, (7, 12), generator=generator)
    ids[:, 0], ids[:, -1] = 2, 3
    selected = torch.zeros_like(ids, dtype=torch.bool)
    for row, count in enumerate((9, 0, 5, 1, 1, 2, 7)):
        selected[row, 1 : 1 + count] = True
    labels = torch.randint(5, 60, (int(selected.sum()),), generator=generator)
    follows = torch.randint(0, 2, (7,), generator=generator)
    return Batch(ids, torch.zeros_like(ids), torch.ones_like(selected), selected, labels, follows)


@pytest.mark.parametrize("kind", ["bert", "no-nsp", "elmo"])
@pytest.mark.parametrize("many", [2, 3, 7])
def test_the_mean_over_processes_is_the_loss_of_the_whole_batch(
    kind: str, many: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    model: PreTrainingModel = BertForPreTraining(CONFIG)
    batch, pairs = uneven_batch(), kind == "bert"
    if kind == "elmo":
        model = ElmoForPreTraining(CONFIG, ElmoSizes(1, 20))
        selected, labels = next_words(batch.ids, "left-to-right")
        batch = dataclasses.replace(batch, selected=selected, labels=labels)
    loss, scores = pretraining_loss(model, batch, pairs)
    loss.backward()
    expected = {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    monkeypatch.setattr(machine, "process_count", lambda: many)
    together = torch.zeros(4)
    for rank in range(many):
        monkeypatch.setattr(machine, "process_rank", lambda rank=rank: rank)
        part, part_scores = StepLoss(model, pairs)(batch)
        assert not torch.isclose(part, loss), "the work is shared"
        (part / many).backward()  # as DistributedDataParallel does
        together += part_scores / many
    torch.testing.assert_close(together, scores)
    found = {n: p.grad for n, p in model.named_parameters() if p.grad is not None}
    assert set(found) == set(expected)
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient, atol=1e-6, rtol=1e-4)


def run(folder: Path, out: Path, many: int, launcher: bool, *options: object) -> str:
    """Train in so many processes; return what all of them said."""
    command = ["pretrain", "--corpus", folder, "--out", out, "--config", "L1H64", "--device", "cpu"]
    arguments = [*map(str, (*command, *options)), "--no-bfloat16", "--threads", "1"]
    if launcher and many > 1:
        torchrun = ["-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={many}"]
        return printed_by(*torchrun, "-m", "bertedu", *arguments)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        meet = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1])}
    meet["WORLD_SIZE"] = str(many)
    programs = [Program(arguments, RANK=str(n), LOCAL_RANK=str(n), **meet) for n in range(many)]
    said = [program.end() for program in programs]
    for code, _, errors in said:
        assert code == 0, errors[-3000:]
    return "".join(output for _, output, _ in said)


@pytest.mark.parametrize(
    ("variant", "launcher"),
    [("no-nsp", False), pytest.param("bert", True, marks=pytest.mark.nightly)],
)
def test_two_gloo_processes_go_on_as_one_would(
    corpus: Path, tmp_path: Path, variant: str, launcher: bool
) -> None:
    """One process begins, two resume what it left; by night as `torchrun` starts them."""
    options = ("--steps", 8, "--save-every", 2, "--variant", variant)
    sittings: dict[str, list[tuple[int, tuple[object, ...]]]] = {
        "alone": [(1, ())],
        "together": [(1, ("--stop-at", 4)), (2, ("--resume",))],
    }
    found, weights = [], []
    for name, parts in sittings.items():
        for many, more in parts:
            said = run(corpus, tmp_path / name, many, launcher, *options, *more)
        assert said.count("written") == 1, "one process speaks"
        found.append(json.loads((tmp_path / name / "training.json").read_text()))
        weights.append(load_tensors(tmp_path / name / "model.safetensors")[0])
    alone, together = found
    assert (alone["processes"], together["processes"]) == (1, 2)
    for one, two in zip(alone["curve"], together["curve"], strict=True):
        assert set(one) == set(two)
        for name in set(one) - {"seconds"}:
            assert two[name] == pytest.approx(one[name], rel=2e-3, abs=2e-4), name
    for name, tensor in weights[0].items():
        torch.testing.assert_close(weights[1][name], tensor, atol=2e-3, rtol=0)


def test_too_many_processes_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "process_count", lambda: 9)
    with pytest.raises(ValueError, match="9 processes cannot share batches of 4 rows"):
        Trainer(BertForPreTraining(CONFIG), Recipe(2, phases=(Phase(1.0, 16, 4),)))
    with pytest.raises(ValueError, match="use --steps: --minutes cannot time them"):
        pretrain(PreTrainingOptions(tmp_path, minutes=1.0, corpus=["nowhere"]))
