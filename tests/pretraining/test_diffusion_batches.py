"""The variant "diffusion" of `pretrain`: its loss is a bound, weighted right, in nats a word."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from small_runs import CONFIG, DOCUMENTS, RECIPE, VOCAB, new_model

from bertedu.model.inference import evaluating
from bertedu.model.variants.diffusion import hide_some
from bertedu.pretraining.batches import Batch, fixed_batches, make_batch, pack_pairs
from bertedu.pretraining.next_sentence import make_pairs
from bertedu.pretraining.objective import evaluate, pretraining_loss, word_loss
from bertedu.text.tokenization import MASK_ID, SPECIAL_TOKENS

PACKED = pack_pairs(list(make_pairs(DOCUMENTS, 24, np.random.default_rng(0))), 24)


def drawn(number: int, rows: int = 8) -> Batch:
    return make_batch(PACKED, slice(0, rows), VOCAB, [0, number], 0.3, question="drawn")


def test_every_word_weighs_one_on_average_and_special_tokens_nothing() -> None:
    words = torch.from_numpy(PACKED.ids[:8]) >= len(SPECIAL_TOKENS)
    total = torch.zeros(words.shape)
    for number in range(6000):
        batch = drawn(number)
        assert batch.weights is not None
        assert torch.equal(batch.ids == MASK_ID, batch.selected)
        width = batch.ids.shape[1]
        # the loss divides by the labels: undone here
        of_words = batch.weights * words.sum() / len(batch.labels)
        total[:, :width] += torch.zeros(batch.ids.shape).masked_scatter(batch.selected, of_words)
    mean = total / 6000
    assert not mean[~words].any()
    assert mean[words].mean() == pytest.approx(1, abs=0.02)
    assert mean[words].std() < 0.25


def test_rates_of_a_batch_spread_evenly_and_differ_from_batch_to_batch() -> None:
    ids, dice = torch.full((50, 400), 7), torch.Generator().manual_seed(0)
    hidden, rate = hide_some(ids, dice)
    assert sorted((rate * 50).long().flatten().tolist()) == list(range(50))
    assert torch.allclose(hidden.float().mean(1, keepdim=True), rate, atol=0.1)
    assert not torch.allclose(rate, hide_some(ids, dice)[1])


def test_a_weight_multiplies_loss_and_gradient_of_its_place_alone() -> None:
    torch.manual_seed(0)
    states, labels = torch.randn(300, 16, requires_grad=True), torch.randint(VOCAB, (300,))
    decoder, weights = torch.nn.Linear(16, VOCAB), torch.rand(300)
    nats = torch.nn.functional.cross_entropy(decoder(states), labels, reduction="none")
    expected = torch.autograd.grad((nats * weights).mean(), [states, *decoder.parameters()])
    loss, right = word_loss(states, decoder, labels, weights)
    found = torch.autograd.grad(loss, [states, *decoder.parameters()])
    torch.testing.assert_close(found, expected)
    assert loss.item() == pytest.approx((nats * weights).mean().item(), rel=1e-5)
    assert right == word_loss(states, decoder, labels)[1]


def test_training_and_scoring_ask_for_the_same_nats_a_word() -> None:
    model, batch = new_model(replace(CONFIG, dropout=0.0)), drawn(3)
    with evaluating(model):
        loss, _ = pretraining_loss(model, batch, next_sentence=False)
    assert evaluate(model, [batch]).mlm_loss == pytest.approx(loss.item(), rel=1e-5)
    unweighted = Batch(**{n: v for n, v in vars(batch).items() if n != "weights"})
    assert evaluate(model, [unweighted]).mlm_loss != pytest.approx(loss.item(), rel=1e-3)
    parts = [batch.part(number, 2) for number in range(2)]
    for part in parts:
        assert part.weights is not None
        assert len(part.weights) == len(part.labels)


def test_held_out_batches_draw_as_training_does() -> None:
    made: Any = fixed_batches(DOCUMENTS, 24, 8, VOCAB, question="drawn")
    assert all(batch.weights is not None for batch in made)
    assert RECIPE.question is None
