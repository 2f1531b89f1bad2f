"""Scores against a plain loop over tokens, and intervals against arithmetic."""

import dataclasses
import math

import pytest
import torch

from bertedu.model.bert import BertForPreTraining
from bertedu.model.config import BertConfig
from bertedu.pretraining.batches import Batch
from bertedu.pretraining.evaluation import evaluate, score_pairs, sum_by_pair
from course.results.bootstrap import interval_over_runs, ratio_interval, ratio_intervals

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


def log_softmax(scores: list[float]) -> list[float]:
    top = max(scores)
    total = math.log(sum(math.exp(s - top) for s in scores)) + top
    return [s - total for s in scores]


def test_scores_equal_a_plain_loop_over_tokens() -> None:
    model = small_model().eval()
    losses: list[float] = []
    right: list[bool] = []
    pair_losses: list[float] = []
    pair_right: list[bool] = []
    by_pair: list[list[float]] = []
    for batch in BATCHES:
        with torch.no_grad():
            every, follows = model(batch.ids, batch.segment_ids, batch.padding_mask)  # (B, S, V)
        labels = iter(batch.labels.tolist())
        for row in range(len(batch.ids)):
            mine = []
            for place in range(12):
                if batch.selected[row, place]:
                    label = next(labels)
                    scores = every[row, place].tolist()
                    mine.append((-log_softmax(scores)[label], scores.index(max(scores)) == label))
            losses += [loss for loss, _ in mine]
            right += [hit for _, hit in mine]
            by_pair.append([len(mine), sum(x for x, _ in mine), sum(hit for _, hit in mine)])
            label = int(batch.next_labels[row])
            scores = follows[row].tolist()
            pair_losses.append(-log_softmax(scores)[label])
            pair_right.append(scores.index(max(scores)) == label)
    scores = evaluate(model, BATCHES)
    assert scores.mlm_loss == pytest.approx(sum(losses) / len(losses), rel=1e-5)
    assert scores.mlm_accuracy == pytest.approx(sum(right) / len(right))
    assert scores.nsp_loss == pytest.approx(sum(pair_losses) / 8, rel=1e-5)
    assert scores.nsp_accuracy == pytest.approx(sum(pair_right) / 8)
    words, pairs = score_pairs(model, BATCHES)
    assert torch.allclose(words, torch.tensor(by_pair, dtype=torch.float64), rtol=1e-5)
    assert pairs[:, 1].tolist() == [float(x) for x in pair_right]
    assert words[0].tolist() == [0, 0, 0]


def test_dropout_is_off_while_scoring_and_the_mode_is_put_back() -> None:
    model = small_model(dropout=0.5).train()
    assert evaluate(model, BATCHES) == evaluate(model, BATCHES)
    assert model.training
    model.eval()
    evaluate(model, BATCHES)
    assert not model.training
    assert all(p.grad is None for p in model.parameters())


def test_only_selected_labels_count() -> None:
    """Moving one label moves its own pair and no other; a token that is not selected has none."""
    model = small_model()
    words, pairs = score_pairs(model, BATCHES)
    batch = BATCHES[0]
    row = int(batch.selected.nonzero()[3, 0])
    labels = batch.labels.clone()
    labels[3] = (labels[3] - 4) % (VOCAB - 5) + 5
    changed, same_pairs = score_pairs(model, [dataclasses.replace(batch, labels=labels)])
    moved = (changed != words[:5]).any(dim=1)
    assert moved.tolist() == [i == row for i in range(5)]
    assert torch.equal(same_pairs, pairs[:5])

    # the answer to next sentence has no part in the words, and the other way round
    flipped = dataclasses.replace(batch, next_labels=1 - batch.next_labels)
    words_too, other = score_pairs(model, [flipped])
    assert torch.equal(words_too, words[:5])
    assert torch.equal(other[:, 1], 1 - pairs[:5, 1])


def test_every_token_is_added_to_its_own_pair() -> None:
    batch = BATCHES[1]
    scores = torch.zeros(len(batch.labels), VOCAB)
    scores[torch.arange(len(scores)), batch.labels] = 50.0  # certain, and right
    sums = sum_by_pair(batch, scores)
    assert sums[:, 0].tolist() == batch.selected.sum(1).tolist()
    assert sums[:, 2].tolist() == sums[:, 0].tolist()
    assert sums[:, 1].abs().max() < 1e-6
    uniform = sum_by_pair(batch, torch.zeros(len(batch.labels), VOCAB))
    assert torch.allclose(uniform[:, 1], uniform[:, 0] * math.log(VOCAB))


def test_no_batches_is_an_error() -> None:
    with pytest.raises(ValueError, match="held-out split empty"):
        evaluate(small_model(), [])


def test_the_interval_of_a_share_is_the_binomial_one() -> None:
    hits = torch.tensor([1.0] * 300 + [0.0] * 700)
    low, high = ratio_interval(hits, torch.ones(1000))
    sigma = (0.3 * 0.7 / 1000) ** 0.5
    assert low == pytest.approx(0.3 - 1.96 * sigma, abs=0.25 * sigma)
    assert high == pytest.approx(0.3 + 1.96 * sigma, abs=0.25 * sigma)
    assert (low, high) == ratio_interval(hits, torch.ones(1000))


def test_whole_pairs_are_drawn_with_their_own_number_of_tokens() -> None:
    """The delta method gives the spread of a ratio; tokens drawn one by one would give less."""
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(1, 20, (800,), generator=generator).double()
    quality = torch.rand(800, generator=generator).double()  # tokens of a pair are alike
    right = tokens * quality
    ratio = float(right.sum() / tokens.sum())
    sigma = float((right - ratio * tokens).std()) / float(tokens.mean()) / 800**0.5
    low, high = ratio_interval(right, tokens)
    assert (high - low) / 2 == pytest.approx(1.96 * sigma, rel=0.08)
    assert (high + low) / 2 == pytest.approx(ratio, abs=0.2 * sigma)


def test_a_draw_that_holds_nothing_to_count_is_left_out() -> None:
    alone = torch.tensor([1.0, 0.0, 0.0])  # of three units, two are 0 of 0
    assert ratio_interval(alone, alone) == (1.0, 1.0)


def test_the_variances_of_texts_and_of_runs_are_added() -> None:
    """Of texts 2; of two means over 4 runs, whose standard deviation is 3, 9/4 + 9/4."""
    low, high = interval_over_runs(10.0, [9.0, 11.0], (4, 4), (3.0, 10**6))
    reach = 1.96 * (2 + 4.5) ** 0.5
    assert (low, high) == pytest.approx((10 - reach, 10 + reach), rel=1e-4)


def test_the_interval_covers_the_truth_as_often_as_it_says() -> None:
    generator = torch.Generator().manual_seed(1)
    covered = 0
    for trial in range(200):
        tokens = torch.randint(1, 10, (150,), generator=generator).double()
        share = 0.2 + 0.4 * torch.rand(150, generator=generator).double()  # 0.4 on average
        ends = ratio_intervals((tokens * share)[:, None], tokens[:, None], draws=200, seed=trial)
        low, high = ends.flatten().tolist()
        covered += low <= 0.4 <= high
    assert 0.88 < covered / 200 <= 0.99
