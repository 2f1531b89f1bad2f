"""Intervals against arithmetic, and against how often they hold."""

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from scipy.stats import t

from bertedu.files import shipped
from course.experiments import ablations
from course.results import bootstrap
from course.results.bootstrap import (
    BootstrapScores,
    Estimate,
    Floats,
    Spread,
    common_spread,
    estimate,
    halves,
    ratio_interval,
    run_spread,
)
from course.results.record import RunRecord
from course.results.summary import draw_systems


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


def test_the_spread_of_runs_is_pooled_and_knows_what_texts_explain() -> None:
    """Column 0 is the test as it is; the others are draws, all alike but for the second group."""
    groups = [[1.0, 3.0], [10.0, 10.0, 13.0], [7.0]]
    still = [np.repeat(np.array(runs)[:, None], 3, axis=1) for runs in groups]
    assert run_spread(still) == (pytest.approx((1 + 1 + 1 + 1 + 4) / 3), 0, 3)
    still[0][:, 1:] += [[1, -1], [-1, 1]]  # the two lie 2 and 2 further apart, to either side
    assert run_spread(still).by_texts == pytest.approx(2 * 2 / 3)
    still[0][:, 1:] += [9, -9]  # which all feel alike
    assert run_spread(still).by_texts == pytest.approx(2 * 2 / 3)
    with pytest.raises(ValueError, match="no recipe was run twice"):
        run_spread([still[0][:1], still[2]])


@pytest.mark.parametrize(
    ("by_texts", "variance"),
    [
        (0, 2 + 4.5),  # of texts 2; of two means of 4 runs, whose variance is 9, 9/4 + 9/4
        (3, 0.5 + 4.5),  # 3/4 + 3/4 of the 2 is in the 9 already
        (8, 4.5),  # no less than the runs themselves
    ],
)
def test_what_texts_do_to_a_run_counts_once(by_texts: float, variance: float) -> None:
    drawn = np.array([10.0, 9.0, 11.0])
    found = estimate(drawn, (4, 4), Spread(9, by_texts, 6))
    freedom = 6 * (variance / 4.5) ** 2
    reach = t.ppf(0.975, freedom) * variance**0.5
    p = 2 * t.sf(10 / variance**0.5, freedom)
    assert found == pytest.approx((10, 10 - reach, 10 + reach, p))
    assert found * 100 == pytest.approx((1000, 1000 - 100 * reach, 1000 + 100 * reach, p))
    assert -found == pytest.approx((-10, -10 - reach, -10 + reach, p))


@pytest.mark.parametrize("by_runs", [0, 1, 4])  # variance between runs, of what texts do to one
@pytest.mark.parametrize(("groups", "runs"), [(4, 3), (6, 10)])
def test_the_interval_of_a_difference_holds_nineteen_times_of_twenty(
    by_runs: float, groups: int, runs: int
) -> None:
    """Recipes that are alike, on texts that are harder for some recipes, and for some runs."""
    dice, texts, draws, held = np.random.default_rng(1), 100, 100, 0
    for _ in range(1000):
        scores = dice.normal(size=texts) + 0.4 * dice.normal(size=(groups, 1, texts))
        scores = scores + dice.normal(size=(groups, runs, texts))
        scores = scores + dice.normal(size=(groups, runs, 1)) * (by_runs / texts) ** 0.5
        often = dice.multinomial(texts, np.full(texts, 1 / texts), size=draws)
        drawn = scores @ np.vstack([np.ones(texts), often]).T / texts
        known = [BootstrapScores(one) for one in drawn]
        found = known[0].minus(known[1], common_spread(known))
        held += found.low < 0 < found.high
        assert (found.p < 0.05) == (found.verdict != "undecided")
    assert 0.93 < held / 1000 < 0.97, held


def same_recipe() -> Iterator[Estimate]:
    """Compare halves of the committed runs of one recipe: no more than 10 of each group."""
    dice, folder = np.random.default_rng(0), shipped("results")
    there = {row["task"] for row in RunRecord(folder, ablations.NAME).rows()}
    for grid in ablations.GRIDS.values():
        for task in there.intersection(grid.tasks):
            yield from ablations.same_recipe(grid, task, folder)
    record = RunRecord(folder)
    for path in sorted(record.outcomes_folder.glob("*.csv")):
        systems = draw_systems(record, path.stem)
        for name, scores in systems.items():
            others = [of for n, of in systems.items() if n[2] == name[2] and n != name]
            ways = halves(len(scores.runs)) if len(scores.runs) > 2 else []
            for way in dice.permutation(len(ways))[:10]:
                yield scores.against_itself(ways[way], others)


@pytest.mark.parametrize("knows_texts", [True, False])
def test_one_run_in_twenty_is_told_from_another_of_its_recipe(
    knows_texts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not, where the spread of runs does not know what other texts do to each of them."""

    def blind(groups: Iterator[Floats]) -> Spread:
        return run_spread(groups)._replace(by_texts=0.0)

    monkeypatch.setattr(bootstrap, "DRAWS", 300)
    monkeypatch.setattr(bootstrap, "run_spread", run_spread if knows_texts else blind)
    ablations._all_drawn.cache_clear()
    decided = [one.p < 0.05 for one in same_recipe()]
    ablations._all_drawn.cache_clear()
    assert len(decided) >= 300
    assert (0.03 <= np.mean(decided) <= 0.07) == knows_texts, np.mean(decided)
