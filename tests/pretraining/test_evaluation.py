"""Scores against a plain loop over tokens."""

import dataclasses

import pytest
import torch

from bertedu.model.bert import BertForPreTraining
from bertedu.model.config import BertConfig
from bertedu.pretraining.batches import Batch
from bertedu.pretraining.objective import evaluate, score_pairs

VOCAB = 40


def small_model(dropout: float = 0.3) -> BertForPreTraining:
    torch.manual_seed(0)
    config = BertConfig(VOCAB, 16, 2, 2, 32, 32, dropout=dropout, initializer_range=0.5)
    return BertForPreTraining(config)


def a_batch(rows: int, seed: int) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(5, VOCAB, (rows, 12), generator=generator)
    sizes = torch.randint(6, 13, (rows, 1), generator=generator)
    padding = torch.arange(12) < sizes
    ids = ids.masked_fill(~padding, 0)
    selected = padding & (torch.rand(ids.shape, generator=generator) < 0.3)
    selected[0] = False  # a pair without any selected token
    selected[1, 1] = True
    labels = torch.randint(5, VOCAB, (int(selected.sum()),), generator=generator)
    follows = torch.randint(0, 2, (rows,), generator=generator)
    return Batch(ids, torch.zeros_like(ids), padding, selected, labels, follows)


BATCHES = [a_batch(5, 1), a_batch(3, 2)]  # of unequal size: means of means would be wrong


def test_scores_equal_a_plain_loop_over_tokens() -> None:
    model = small_model().eval()
    by_pair, pairs = [], []
    for batch in BATCHES:
        with torch.no_grad():
            every, follows = model(batch.ids, batch.segment_ids, batch.padding_mask)  # (B, S, V)
        labels = iter(batch.labels.tolist())
        for row in range(len(batch.ids)):
            sums = [0.0, 0.0, 0.0]
            for scores in every[row, batch.selected[row]]:
                label = next(labels)
                loss, right = float(scores.logsumexp(0) - scores[label]), scores.argmax() == label
                sums = [sums[0] + 1, sums[1] + loss, sums[2] + float(right)]
            by_pair.append(sums)
            label, scores = int(batch.next_labels[row]), follows[row]
            loss, right = float(scores.logsumexp(0) - scores[label]), scores.argmax() == label
            pairs.append([loss, float(right)])
    found = score_pairs(model, BATCHES)
    for mine, expected in zip(found, (by_pair, pairs), strict=True):
        assert torch.allclose(mine, torch.tensor(expected, dtype=torch.float64), rtol=1e-5)
    assert found[0][0].tolist() == [0, 0, 0]
    tokens, losses, right = (sum(row[i] for row in by_pair) for i in range(3))
    assert dataclasses.astuple(evaluate(model, BATCHES)) == pytest.approx(
        (losses / tokens, right / tokens, *(sum(row[i] for row in pairs) / 8 for i in (0, 1))),
        rel=1e-5,
    )


def test_dropout_is_off_while_scoring_and_the_mode_is_put_back() -> None:
    model = small_model(dropout=0.5).train()
    assert evaluate(model, BATCHES) == evaluate(model, BATCHES)
    assert model.training
    model.eval()
    evaluate(model, BATCHES)
    assert not model.training
    assert all(p.grad is None for p in model.parameters())


def test_no_batches_is_an_error() -> None:
    with pytest.raises(ValueError, match="held-out split empty"):
        evaluate(small_model(), [])
