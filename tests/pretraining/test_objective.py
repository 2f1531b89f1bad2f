"""Loss and scores against plain loops and `cross_entropy`: value, hits and every gradient."""

from dataclasses import astuple, replace

import pytest
import torch
from small_runs import CONFIG, VOCAB, new_model
from torch import Tensor, nn
from torch.nn import functional as F

from bertedu.model.bert import BertForPreTraining
from bertedu.pretraining.batches import Batch
from bertedu.pretraining.objective import (
    POSITIONS_AT_ONCE,
    evaluate,
    pretraining_loss,
    score_pairs,
    word_loss,
)

HIDDEN, WORDS = 12, 50


def a_batch(rows: int, seed: int, weighted: bool = False) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(5, VOCAB, (rows, 12), generator=generator)
    padding = torch.arange(12) < torch.randint(6, 13, (rows, 1), generator=generator)
    selected = padding & (torch.rand(ids.shape, generator=generator) < 0.3)
    selected[0] = False  # a pair without any selected token
    selected[1, 1] = True
    labels = torch.randint(5, VOCAB, (int(selected.sum()),), generator=generator)
    follows = torch.randint(0, 2, (rows,), generator=generator)
    weights = torch.rand(labels.shape, generator=generator) * 3 if weighted else None
    ids = ids.masked_fill(~padding, 0)
    return Batch(ids, torch.zeros_like(ids), padding, selected, labels, follows, weights)


# of unequal size: means of means would be wrong
BATCHES = [a_batch(5, 1), a_batch(3, 2), a_batch(4, 3, weighted=True)]


def a_model(dropout: float = 0.0) -> BertForPreTraining:
    return new_model(replace(CONFIG, dropout=dropout, initializer_range=0.5))


def looped(model: BertForPreTraining, batch: Batch) -> tuple[Tensor, Tensor]:
    """Words, nats and hits of each pair (B, 3); nats and hit of its order (B, 2)."""
    with torch.no_grad():
        every, follows = model(batch.ids, batch.segment_ids, batch.padding_mask)  # (B, S, V)

    def nats_and_hit(scores: Tensor, label: int) -> Tensor:
        return torch.stack([scores.logsumexp(0) - scores[label], scores.argmax() == label]).double()

    ones = torch.ones(len(batch.labels))
    given = iter(zip(batch.labels, ones if batch.weights is None else batch.weights, strict=True))
    words = torch.zeros(len(batch.ids), 3, dtype=torch.float64)
    for row, place in batch.selected.nonzero().tolist():
        label, weight = next(given)
        nats, hit = nats_and_hit(every[row, place], int(label))
        words[row] += torch.tensor([1, nats * weight, hit])
    pairs = zip(follows, batch.next_labels.tolist(), strict=True)
    return words, torch.stack([nats_and_hit(scores, label) for scores, label in pairs])


def test_scores_are_sums_over_the_tokens_of_each_pair() -> None:
    model = a_model().eval()
    words, pairs = map(torch.cat, zip(*(looped(model, b) for b in BATCHES), strict=True))
    found = score_pairs(model, BATCHES)
    torch.testing.assert_close(found, (words, pairs), rtol=1e-5, atol=1e-6)
    mean = [*(words.sum(0)[1:] / words.sum(0)[0]).tolist(), *pairs.mean(0).tolist()]
    assert astuple(evaluate(model, BATCHES)) == pytest.approx(mean, rel=1e-5)
    with pytest.raises(ValueError, match="held-out split empty"):
        evaluate(model, [])


@pytest.mark.parametrize("training", [True, False])
def test_dropout_is_off_while_scoring_and_the_mode_is_put_back(training: bool) -> None:
    model = a_model(dropout=0.5).train(training)
    assert evaluate(model, BATCHES) == evaluate(model, BATCHES)
    assert model.training == training
    assert all(p.grad is None for p in model.parameters())


@pytest.mark.parametrize("batch", BATCHES, ids=["five", "three", "weighted"])
@pytest.mark.parametrize(("dtype", "rel"), [(torch.float32, 1e-5), (torch.float64, 1e-13)])
def test_the_loss_is_the_mean_over_words_plus_the_mean_over_pairs(
    batch: Batch, dtype: torch.dtype, rel: float
) -> None:
    model = a_model().to(dtype)
    if batch.weights is not None:
        batch = replace(batch, weights=batch.weights.to(dtype))
    words, pairs = looped(model, batch)
    means = [*(words.sum(0)[1:] / words.sum(0)[0]).tolist(), *pairs.mean(0).tolist()]
    loss, scores = pretraining_loss(model, batch)
    assert loss.item() == pytest.approx(means[0] + means[2], rel=rel)
    assert scores.tolist() == pytest.approx(means, rel=rel)
    assert not scores.requires_grad
    alone, same = pretraining_loss(model, batch, next_sentence=False)
    assert torch.equal(alone, scores[0])
    assert torch.equal(scores, same)


# -- the loss of the words, in lots


def inputs(places: int, dtype: torch.dtype = torch.float32) -> tuple[Tensor, nn.Linear, Tensor]:
    torch.manual_seed(places)
    decoder = nn.Linear(HIDDEN, WORDS, dtype=dtype)
    states = torch.randn(places, HIDDEN, dtype=dtype, requires_grad=True)
    return states, decoder, torch.randint(0, WORDS, (places,))


def gradients(loss: Tensor, states: Tensor, decoder: nn.Linear) -> list[Tensor]:
    return list(torch.autograd.grad(3 * loss, (states, decoder.weight, decoder.bias)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("places", [1, 7, *(POSITIONS_AT_ONCE + n for n in (-1, 0, 1)), 384])
def test_in_lots_it_is_cross_entropy(places: int, weighted: bool, dtype: torch.dtype) -> None:
    states, decoder, labels = inputs(places, dtype)
    weights = torch.rand(places, dtype=dtype) if weighted else None
    loss, right = word_loss(states, decoder, labels, weights)
    nats = F.cross_entropy(decoder(states), labels, reduction="none")
    expected = (nats * (1 if weights is None else weights)).mean()
    near = (1e-6, 1e-4) if dtype == torch.float32 else (1e-14, 1e-12)
    torch.testing.assert_close(loss, expected, atol=near[0], rtol=near[1])
    hits = (decoder(states).argmax(1) == labels).float().mean()
    assert float(right) == pytest.approx(float(hits))
    found, truth = (gradients(one, states, decoder) for one in (loss, expected))
    torch.testing.assert_close(found, truth, atol=near[0], rtol=near[1])


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
