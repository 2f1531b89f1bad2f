"""Spoiled contexts: what stays, what moves; and a model that is known to use order, or not."""

import dataclasses
import math
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from bertedu.model.bert import BertForPreTraining
from bertedu.model.checkpoints import save_checkpoint
from bertedu.model.config import BertConfig
from bertedu.model.weight_files import CheckpointError
from bertedu.pretraining import evaluation
from bertedu.pretraining.batches import Batch
from course.experiments.context import CONTEXTS, context_use, follow_run, spoil

CONFIG = BertConfig(60, 16, 1, 2, 32, 24, dropout=0.0)


def a_batch() -> Batch:
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(5, 60, (6, 14), generator=generator)
    sizes = torch.tensor([14, 14, 9, 14, 6, 14])[:, None]
    real = torch.arange(14) < sizes
    ids[:, 0] = 2
    ids = ids.scatter(1, sizes - 1, 3).masked_fill(~real, 0)
    selected = (torch.rand(ids.shape, generator=generator) < 0.3) & (ids >= 5)
    selected[:, 2] = True
    labels = ids[selected]
    # as in real batches, some selected words are not hidden: they must stay, too
    ids = ids.masked_fill(selected & (torch.rand(ids.shape, generator=generator) < 0.8), 4)
    return Batch(ids, torch.zeros_like(ids), real, selected, labels, torch.zeros(6).long())


BATCH = a_batch()
AROUND = (BATCH.ids >= 5) & ~BATCH.selected


@pytest.mark.parametrize("context", CONTEXTS)
def test_only_the_words_around_are_spoiled(context: str) -> None:
    other = spoil(BATCH, context, torch.Generator().manual_seed(1))
    for field in dataclasses.fields(Batch):
        if field.name != "ids":
            assert torch.equal(getattr(other, field.name), getattr(BATCH, field.name))
    assert torch.equal(other.ids[~AROUND], BATCH.ids[~AROUND])
    for i, (before, after) in enumerate(zip(BATCH.ids, other.ids, strict=True)):
        assert torch.equal(before, after) == (context == "as it is")
        if context == "shuffled":
            assert sorted(before.tolist()) == sorted(after.tolist())
        if context == "another":  # the words of the next row
            following = (i + 1) % 6
            words, found = BATCH.ids[following][AROUND[following]], after[AROUND[i]]
            assert torch.equal(found, words.repeat(10)[: len(found)])


class Oracle(nn.Module):
    """Sure of the word that its rule finds in the text: a model whose use of context is known."""

    def __init__(self, rule: str) -> None:
        super().__init__()
        self.rule, self.decoder = rule, nn.Identity()
        self.unused = nn.Parameter(torch.zeros(1))

    def before_decoder(self, ids: Tensor, *more: Tensor) -> tuple[Tensor, Tensor]:
        selected = more[-1]
        logits = torch.zeros(*ids.shape, 60)
        for row, column in selected.nonzero().tolist():
            if self.rule == "order":  # the word before
                logits[row, column, ids[row, column - 1]] = 9
            elif self.rule == "words":  # any word of the text
                logits[row, column, ids[row]] = 9
        return logits[selected], torch.zeros(len(ids), 2)


@pytest.mark.parametrize(
    ("rule", "hurt"),
    [("order", {"shuffled", "another"}), ("words", {"another"}), ("nothing", set())],
)
def test_the_cost_tells_what_a_model_used(
    rule: str, hurt: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluation, "BertForPreTraining", Oracle)
    selected = AROUND & torch.roll(AROUND, 1, 1)
    selected[:, ::2] = False
    labels = torch.roll(BATCH.ids, 1, 1)[selected]  # every blank repeats the word before it
    ids = BATCH.ids.masked_fill(selected, 4)
    copied = dataclasses.replace(BATCH, ids=ids, selected=selected, labels=labels)
    scores = context_use(Oracle(rule), [copied])  # type: ignore[arg-type]
    loss = {name: float(table[:, 1].sum() / table[:, 0].sum()) for name, table in scores.items()}
    assert list(loss) == list(CONTEXTS)
    assert {name for name in loss if loss[name] > loss["as it is"] + 0.2} == hurt
    assert rule != "nothing" or loss["another"] == pytest.approx(math.log(60))


def test_a_run_that_cannot_be_followed_is_named(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="pre-train with --keep-every"):
        follow_run(tmp_path)
    config = dataclasses.replace(CONFIG, direction="left-to-right")
    save_checkpoint(BertForPreTraining(config), tmp_path / "steps" / "000002")
    (tmp_path / "training.json").write_text('{"recipe": {"seed": 0}, "commit": null}')
    with pytest.raises(CheckpointError, match="no blanks to ask for"):
        follow_run(tmp_path)
