"""The loss against plain loops and `cross_entropy`: value, hits and every gradient."""

from dataclasses import replace

import pytest
import torch
from small_runs import CONFIG, DOCUMENTS, RECIPE, new_model
from torch import Tensor, nn
from torch.nn import functional as F

from bertedu.pretraining.batches import Batch, batches
from bertedu.pretraining.objective import POSITIONS_AT_ONCE, pretraining_loss, word_loss

HIDDEN, WORDS = 12, 50


def a_batch() -> Batch:
    return next(batches(DOCUMENTS, CONFIG, RECIPE, RECIPE.phases[0]))[0]


@pytest.mark.parametrize(("dtype", "rel"), [(torch.float32, 1e-5), (torch.float64, 1e-13)])
def test_the_loss_is_the_mean_over_words_plus_the_mean_over_pairs(
    dtype: torch.dtype, rel: float
) -> None:
    model, batch = new_model(replace(CONFIG, dropout=0.0, initializer_range=0.3)), a_batch()
    model = model.to(dtype)
    every, follows = model(batch.ids, batch.segment_ids, batch.padding_mask)  # (B, S, V)
    means = []
    for given, labels in ((every[batch.selected], batch.labels), (follows, batch.next_labels)):
        rows = list(zip(given.detach(), labels.tolist(), strict=True))
        losses = [float(scores.logsumexp(0) - scores[label]) for scores, label in rows]
        hits = [int(scores.argmax()) == label for scores, label in rows]
        means += [sum(losses) / len(rows), sum(hits) / len(rows)]
    loss, scores = pretraining_loss(model, batch)
    assert loss.item() == pytest.approx(means[0] + means[2], rel=rel)
    assert scores.tolist() == pytest.approx(means, rel=rel)
    assert not scores.requires_grad
    alone, same = pretraining_loss(model, batch, next_sentence=False)
    assert torch.equal(alone, scores[0])
    assert torch.equal(scores, same)
    for label in (0, 1):  # neither is ignored, as 0 is where both losses share `ignore_index`
        of_one_kind = replace(batch, next_labels=torch.full_like(batch.next_labels, label))
        expected = -follows.log_softmax(1)[:, label].mean().item()
        assert pretraining_loss(model, of_one_kind)[1][2].item() == pytest.approx(expected)


# -- the loss of the words, in lots


def inputs(places: int) -> tuple[Tensor, nn.Linear, Tensor]:
    torch.manual_seed(places)
    decoder = nn.Linear(HIDDEN, WORDS)
    states = torch.randn(places, HIDDEN, requires_grad=True)
    return states, decoder, torch.randint(0, WORDS, (places,))


def gradients(loss: Tensor, states: Tensor, decoder: nn.Linear) -> list[Tensor]:
    return list(torch.autograd.grad(3 * loss, (states, decoder.weight, decoder.bias)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "places",
    [1, 7, POSITIONS_AT_ONCE - 1, POSITIONS_AT_ONCE, POSITIONS_AT_ONCE + 1, 3 * POSITIONS_AT_ONCE],
)
def test_in_lots_it_is_cross_entropy(places: int, dtype: torch.dtype) -> None:
    states, decoder, labels = inputs(places)
    decoder, states = decoder.to(dtype), states.detach().to(dtype).requires_grad_()
    loss, right = word_loss(states, decoder, labels)
    expected = F.cross_entropy(decoder(states), labels)
    atol, rtol = (1e-6, 1e-4) if dtype == torch.float32 else (1e-14, 1e-12)
    torch.testing.assert_close(loss, expected, atol=atol, rtol=rtol)
    hits = (decoder(states).argmax(1) == labels).float().mean()
    assert float(right) == pytest.approx(float(hits))
    pairs = zip(gradients(loss, states, decoder), gradients(expected, states, decoder), strict=True)
    for mine, theirs in pairs:
        torch.testing.assert_close(mine, theirs, atol=atol, rtol=rtol)


def test_in_bfloat16_it_is_as_near_as_autocast() -> None:
    states, decoder, labels = inputs(700)
    exact = F.cross_entropy(decoder(states), labels)
    with torch.autocast("cpu", torch.bfloat16):
        loss, _ = word_loss(states, decoder, labels)
        usual = F.cross_entropy(decoder(states).float(), labels)
    assert loss.dtype == torch.float32
    assert abs((loss - exact).item()) <= max(2e-3, 2 * abs((usual - exact).item()))
    found = [gradients(one, states, decoder) for one in (loss, usual, exact)]
    for mine, theirs, truth in zip(*found, strict=True):
        assert mine.dtype == truth.dtype
        assert float((mine - truth).norm()) <= 1.5 * float((theirs - truth).norm()) + 1e-4


def test_a_table_that_is_also_the_input_gets_both_gradients() -> None:
    """The token table stands below and above: its gradient is the sum of the two."""
    _, decoder, labels = inputs(20)
    table = decoder.weight
    expected = torch.autograd.grad(F.cross_entropy(decoder(table[:20]), labels), table)
    found = torch.autograd.grad(word_loss(table[:20], decoder, labels)[0], table)
    torch.testing.assert_close(found[0], expected[0], atol=1e-6, rtol=1e-4)


def test_scores_of_any_size_do_not_overflow_and_nothing_costs_nothing() -> None:
    states, decoder, labels = inputs(5)
    loss, _ = word_loss(states * 1e4, decoder, labels)
    torch.testing.assert_close(loss, F.cross_entropy(decoder(states * 1e4), labels))
    assert torch.isfinite(torch.autograd.grad(loss, states)[0]).all()
    assert word_loss(states[:0], decoder, labels[:0])[0].item() == 0
