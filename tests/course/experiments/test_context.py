"""Spoiled contexts: what stays, what moves; and a model that is known to use order, or not."""

import dataclasses
from pathlib import Path

import pytest
import torch

from bertedu.model.bert import BertForPreTraining
from bertedu.model.checkpoints import save_checkpoint
from bertedu.model.config import BertConfig
from bertedu.pretraining.batches import Batch, fixed_batches
from bertedu.pretraining.next_sentence import EncodedDocument
from bertedu.pretraining.objective import score_pairs
from course.experiments import context
from course.experiments.context import CONTEXTS, context_use, follow_run, spoil
from course.experiments.pretraining_scores import documents_of
from course.results.columns import by_document, word_columns

CONFIG = BertConfig(60, 16, 1, 2, 32, 24, dropout=0.0)
TEXT = [EncodedDocument("s", [[5 + (i + j) % 50 for j in range(9)]] * 8) for i in range(8)]


def test_only_the_words_around_a_blank_are_shuffled_or_those_of_the_next_text() -> None:
    ids = torch.tensor([[2, 10, 4, 12, 13, 14, 3], [2, 20, 4, 22, 3, 0, 0]])  # 4: a blank
    none = torch.zeros_like(ids)
    batch = Batch(ids, none, ids != 0, ids == 4, torch.tensor([11, 21]), none[:, 0])
    another = [[2, 20, 4, 22, 20, 22, 3], [2, 10, 4, 12, 3, 0, 0]]  # repeated, or cut
    assert spoil(batch, "another", torch.Generator()).ids.tolist() == another
    found = [spoil(batch, "shuffled", torch.Generator().manual_seed(n)).ids for n in range(99)]
    first = {tuple(one[0].tolist()) for one in found}
    assert len(first) == 24, "every order of four words"
    assert {(one[0], one[2], one[6], *sorted(one)) for one in first} == {
        (2, 4, 3, 2, 3, 4, 10, 12, 13, 14)
    }


def test_each_context_is_scored_on_the_same_blanks_spoiled() -> None:
    torch.manual_seed(0)
    model = BertForPreTraining(dataclasses.replace(CONFIG, initializer_range=0.5)).eval()
    batches = fixed_batches(TEXT, 24, 6, 60)
    assert len(batches) > 1
    scores = context_use(model, batches, seed=1)
    assert list(scores) == list(CONTEXTS)
    for name, table in scores.items():
        dice = torch.Generator().manual_seed(1)  # anew for each context: batches stay comparable
        spoiled = [spoil(batch, name, dice) for batch in batches]
        assert torch.equal(table, score_pairs(model, spoiled)[0])
    assert len({float(table[:, 1].sum()) for table in scores.values()}) == 3


def test_a_run_is_followed_from_its_start_through_every_kept_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that kept only its start, twice, scores alike at each step."""
    monkeypatch.setattr(context, "load_splits", lambda: {"train": TEXT, "dev": TEXT})
    torch.manual_seed(7)
    model = BertForPreTraining(dataclasses.replace(CONFIG, max_position_embeddings=64))
    context.initialize(model, TEXT)
    for step in (3, 12):
        save_checkpoint(model, tmp_path / "run" / "steps" / f"{step:06d}")
    (tmp_path / "run" / "training.json").write_text('{"recipe": {"seed": 7}, "commit": "abc"}')
    rows = follow_run(tmp_path / "run")
    assert [(row["step"], row["context"]) for row in rows] == [
        (step, name) for step in (0, 3, 12) for name in CONTEXTS
    ]
    about = {"run": "run", "config": "L1 H16", "seed": 7, "commit": "abc"}
    assert rows[0].items() >= about.items()
    batches = fixed_batches(TEXT, context.LENGTH, 32, 60)
    sums = by_document(context_use(model.eval(), batches)["as it is"], documents_of(batches))
    assert rows[3].items() >= word_columns(sums).items(), "pairs of one text are not independent"
    for row in rows[3:]:
        assert row == rows[CONTEXTS.index(row["context"])] | {"step": row["step"]}
