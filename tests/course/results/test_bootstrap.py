"""Intervals against arithmetic, and against how often they hold."""

import pytest
import torch

from course.results.bootstrap import interval_over_runs, ratio_interval, ratio_intervals


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
