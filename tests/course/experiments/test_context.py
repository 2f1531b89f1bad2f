"""Spoiled contexts: what stays, what moves; and a model that is known to use order, or not."""

import dataclasses
import math
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from bertedu.model.bert import BertForPreTraining
from bertedu.model.checkpoints import CheckpointError, save_checkpoint
from bertedu.model.config import BertConfig
from bertedu.pretraining.batches import Batch
from course.experiments.context import CONTEXTS, context_use, follow_run, spoil
from course.results.columns import word_columns

CONFIG = BertConfig(60, 16, 1, 2, 32, 24, dropout=0.0)


def a_batch(seed: int = 0) -> Batch:
    generator = torch.Generator().manual_seed(seed)
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
    none = torch.zeros(6, dtype=torch.long)
    return Batch(ids, torch.zeros_like(ids), real, selected, labels, none)


def around(batch: Batch) -> Tensor:
    return (batch.ids >= 5) & ~batch.selected


@pytest.mark.parametrize("context", CONTEXTS)
def test_blanks_labels_and_special_tokens_stay(context: str) -> None:
    batch = a_batch()
    other = spoil(batch, context, torch.Generator().manual_seed(1))
    assert torch.equal(other.ids[~around(batch)], batch.ids[~around(batch)])
    for name in ("selected", "labels", "padding_mask", "segment_ids"):
        assert torch.equal(getattr(other, name), getattr(batch, name))


def test_shuffling_keeps_the_words_of_each_row_and_moves_them() -> None:
    batch = a_batch()
    other = spoil(batch, "shuffled", torch.Generator().manual_seed(1))
    for before, after in zip(batch.ids, other.ids, strict=True):
        assert sorted(before.tolist()) == sorted(after.tolist())
        assert not torch.equal(before, after)


def test_another_context_is_that_of_the_next_row() -> None:
    batch = a_batch()
    other = spoil(batch, "another", torch.Generator())
    for i in range(6):
        places, following = around(batch)[i], (i + 1) % 6
        words = batch.ids[following][around(batch)[following]].tolist()
        found = other.ids[i][places].tolist()
        assert found == (words * 10)[: len(found)]


class Oracle(nn.Module):
    """Sure of the word that its rule finds in the text: a model whose use of context is known."""

    def __init__(self, rule: str) -> None:
        super().__init__()
        self.rule, self.decoder = rule, nn.Identity()
        self.unused = nn.Parameter(torch.zeros(1))

    def before_decoder(self, ids: Tensor, *_: Tensor) -> tuple[Tensor, Tensor]:
        selected = _[-1]
        logits = torch.zeros(*ids.shape, 60)
        for row, column in selected.nonzero().tolist():
            if self.rule == "order":  # the word before
                logits[row, column, ids[row, column - 1]] = 9
            elif self.rule == "words":  # any word of the text
                logits[row, column, ids[row]] = 9
        return logits[selected], torch.zeros(len(ids), 2)


def copied() -> Batch:
    """Every blank repeats the word before it."""
    batch = a_batch()
    ids = batch.ids.clone()
    labels = torch.roll(ids, 1, 1)
    selected = around(batch) & torch.roll(around(batch), 1, 1)
    selected[:, ::2] = False
    return dataclasses.replace(
        batch, ids=ids.masked_fill(selected, 4), selected=selected, labels=labels[selected]
    )


@pytest.mark.parametrize(
    ("rule", "hurt"),
    [("order", {"shuffled", "another"}), ("words", {"another"}), ("nothing", set())],
)
def test_the_cost_tells_what_a_model_used(
    rule: str, hurt: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import bertedu.pretraining.evaluation as evaluation

    monkeypatch.setattr(evaluation, "BertForPreTraining", Oracle)
    scores = context_use(Oracle(rule), [copied()])  # type: ignore[arg-type]
    loss = {name: float(table[:, 1].sum() / table[:, 0].sum()) for name, table in scores.items()}
    costs = {name for name, value in loss.items() if value > loss["as it is"] + 0.2}
    assert costs == hurt, loss
    if rule == "nothing":
        assert loss["another"] == pytest.approx(math.log(60))


def test_a_new_model_takes_nothing_from_the_context() -> None:
    torch.manual_seed(0)
    scores = context_use(BertForPreTraining(CONFIG), [a_batch()])
    assert list(scores) == list(CONTEXTS)
    rows = [word_columns(table) for table in scores.values()]
    losses = [float(str(row["mlm_loss"])) for row in rows]
    assert max(losses) - min(losses) < 0.05
    for row in rows:
        assert row["mlm_loss_low"] <= row["mlm_loss"] <= row["mlm_loss_high"]  # type: ignore[operator]


def test_a_run_without_kept_weights_is_named(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="pre-train with --keep-every"):
        follow_run(tmp_path)
    config = dataclasses.replace(CONFIG, direction="left-to-right")
    save_checkpoint(BertForPreTraining(config), tmp_path / "steps" / "000002")
    (tmp_path / "training.json").write_text('{"recipe": {"seed": 0}, "commit": null}')
    with pytest.raises(CheckpointError, match="no blanks to ask for"):
        follow_run(tmp_path)
