"""The exercises of notebook 14: perplexity, corrupt, crossing, a test of fairness, and a game."""

import io
import math
import random
from collections.abc import Callable
from contextlib import redirect_stdout
from itertools import combinations
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from verdicts import assert_named, seen, verdict, words

from bertedu.pretraining.masking import mask_tokens, read_procedure
from course.exercises import check
from course.exercises.ablation_size_masking_steps import (
    CORRUPT,
    CROSSING,
    FAIR,
    PERPLEXITY,
    TABLE_8,
    Record,
    play_record,
    predict_order,
    right_corrupt,
    right_crossing,
    right_fair,
    right_perplexity,
)
from course.exercises.museum import exhibits
from course.experiments.ablations import PROCEDURES

# -- the references


def test_perplexity_is_that_of_all_words_in_one_list() -> None:
    probabilities = torch.rand(50, generator=torch.Generator().manual_seed(1)).double() + 0.01
    batches = (probabilities[:3], probabilities[3:40], probabilities[40:])
    losses = [float(-p.log().mean()) for p in batches]
    whole = float(torch.exp(-probabilities.log().mean()))
    assert right_perplexity(losses, [3, 37, 10]) == pytest.approx(whole)


def test_the_shares_are_those_of_table_8() -> None:
    for (mask, same), procedure in zip(TABLE_8, PROCEDURES, strict=True):
        assert read_procedure(procedure) == pytest.approx((mask, 1 - mask - same))


@pytest.mark.parametrize("procedure", PROCEDURES)
def test_each_procedure_gives_the_shares_that_the_package_gives(procedure: str) -> None:
    """Not the same tokens (the package cuts its coin in another order), but the same shares."""
    mask, rnd = read_procedure(procedure)
    ids = torch.randint(5, 3000, (200, 100), generator=torch.Generator().manual_seed(3))
    theirs, selected = mask_tokens(
        ids, 3000, torch.Generator().manual_seed(4), 0.15, mask_share=mask, random_share=rnd
    )
    coin = torch.rand(ids.shape, generator=torch.Generator().manual_seed(5))
    drawn = torch.randint(5, 3000, ids.shape, generator=torch.Generator().manual_seed(6))
    ours = right_corrupt(ids, selected, coin, drawn, mask, 1 - mask - rnd, 4)
    for masked in (theirs, ours):
        assert torch.equal(masked[~selected], ids[~selected])
        now, was = masked[selected], ids[selected]
        assert (now == 4).float().mean().item() == pytest.approx(mask, abs=0.03)
        assert ((now != 4) & (now != was)).float().mean().item() == pytest.approx(rnd, abs=0.03)


@pytest.mark.parametrize(
    ("ours", "theirs", "step"),
    [
        ([1, 2, 3], [2, 2, 2], 300),
        ([3, 3, 3], [2, 2, 2], 100),
        ([3, 1, 3], [2, 2, 2], 300),
        ([3, 2, 3], [2, 2, 2], 300),
        ([1, 3, 2], [2, 2, 2], None),
        ([1, 3, 4], [2, 2, 5], None),
    ],
)
def test_crossings_by_hand(ours: list[float], theirs: list[float], step: int | None) -> None:
    assert right_crossing([100, 200, 300], ours, theirs) == step


# -- right and wrong in other ways


def perplexity_by_product(losses: list[float], words: list[int]) -> float:
    """The geometric mean of what each word was given, turned over."""
    n = sum(words)
    product = math.prod(math.exp(-x) ** (k / n) for x, k in zip(losses, words, strict=True))
    return 1 / product


def perplexity_in_place(losses: list[float], words: list[int]) -> float:
    for i, n in enumerate(words):
        losses[i] *= n
    return math.exp(sum(losses) / sum(words))


def fates(stays: Callable[..., Any], of: Callable[..., Any] = lambda s: s) -> Callable[..., Any]:
    """As learners write it: if hidden, elif stays, else random; of what is selected."""

    def f(
        ids: Tensor, selected: Tensor, coin: Tensor, random_ids: Tensor, m: float, s: float, k: int
    ) -> Any:
        rest = torch.where(stays(coin, m, s), ids, random_ids)
        return torch.where(of(selected), torch.where(coin < m, k, rest), ids)

    return f


def corrupt_in_place(
    ids: Tensor, selected: Tensor, coin: Tensor, random_ids: Tensor, m: float, s: float, k: int
) -> Any:
    ids[selected & (coin < m)] = k
    places = selected & (coin >= m + s)
    ids[places] = random_ids[places]
    return ids


def crossing_by_all(steps: list[int], ours: list[float], theirs: list[float]) -> Any:
    for i, step in enumerate(steps):
        if all(a > b for a, b in zip(ours[i:], theirs[i:], strict=True)):
            return step
    return None


def crossing_in_torch(steps: list[int], ours: list[float], theirs: list[float]) -> Any:
    stays = (torch.tensor(ours) > torch.tensor(theirs)).flip(0).cumprod(0).flip(0)
    return torch.tensor(steps)[stays.argmax()] if stays.any() else None


def first_above(steps: list[int], ours: list[float], theirs: list[float]) -> Any:
    for step, a, b in zip(steps, ours, theirs, strict=True):
        if a > b:
            return step
    return None


@pytest.mark.parametrize(
    ("exercise", "f"),
    [
        (PERPLEXITY, perplexity_by_product),
        (PERPLEXITY, lambda x, n: np.exp(np.average(x, weights=n))),
        (CORRUPT, fates(lambda c, m, s: c < m + s)),
        (CROSSING, crossing_by_all),
        (CROSSING, crossing_in_torch),
    ],
)
def test_right_answers_pass(exercise: Any, f: Callable[..., Any]) -> None:
    assert verdict(exercise, f).startswith(f"✓ {exercise.name}: ")
    assert str(len(list(exercise.cases()))) in exercise.tried


@pytest.mark.parametrize(
    ("name", "wrong", "text"),
    [
        ("perplexity", lambda x, n: torch.tensor(x).mean().exp(), "every batch counts the same"),
        ("perplexity", lambda x, n: np.average(np.exp(x), weights=n), "exp comes before the mean"),
        ("perplexity", lambda x, n: np.average(x, weights=n), "this is the loss: exp is missing"),
        ("perplexity", perplexity_in_place, "changes losses in place"),
        ("corrupt", fates(lambda c, m, s: c >= m + s), "SAME and RND are exchanged"),
        ("corrupt", fates(lambda c, m, s: c < s), "random begins at same_share, not at"),
        (
            "corrupt",
            fates(lambda c, m, s: c < m + s, lambda selected: selected | ~selected),
            "mask_share of all tokens become [MASK]",
        ),
        ("corrupt", corrupt_in_place, "changes ids in place. "),
        ("corrupt", lambda *x: right_corrupt(*x).float(), "must stay whole numbers"),
        ("crossing", first_above, "this is the first step above, though ours falls back later"),
    ],
)
def test_wrong_answers_are_told_why(name: str, wrong: Callable[..., Any], text: str) -> None:
    assert_named(getattr(check, name), name, wrong, text)


# -- fair

SAME = (
    *("task", "seed", "train_examples", "batch_size", "learning_rate", "epochs"),
    *("pretraining_steps", "pretraining_tokens", "split", "tries"),
)


def run_by_run(rows: Record) -> bool:
    """Right: every run has one run of each variant that is like it."""
    variants = {row["variant"] for row in rows}
    groups: dict[tuple[Any, ...], list[str]] = {}
    for row in rows:
        rest = {k: v for k, v in row.items() if k not in ("variant", "method", "score")}
        groups.setdefault(tuple(sorted(rest.items())), []).append(row["variant"])
    return all(sorted(group) == sorted(variants) for group in groups.values())


@pytest.mark.parametrize("t", [right_fair, run_by_run])
def test_good_tests_of_fairness_pass(t: Callable[[Record], Any]) -> None:
    said = words(verdict(check.fair, t))
    assert said.startswith("✓ fair: accepts 6 right records, catches 6 broken ones (two models")


def sets_by_variant(*names: str) -> Callable[[Record], bool]:
    """The obvious test: of each variant and each column, the set of values."""

    def f(rows: Record) -> bool:
        variants = {row["variant"] for row in rows}
        return all(
            len({frozenset(r[name] for r in rows if r["variant"] == v) for v in variants}) == 1
            for name in names
        )

    return f


def got_past(t: Callable[[Record], Any]) -> set[str]:
    said = words(verdict(check.fair, t))
    assert " broken records got past your test." in said
    return {seen(e) for e in exhibits(FAIR) if f"- {seen(e)}: " in said}


def test_the_obvious_test_misses_what_sets_cannot_see() -> None:
    assert got_past(sets_by_variant(*SAME)) == {"a run that diverged", "a run made twice"}


@pytest.mark.parametrize("name", ["learning_rate", "pretraining_tokens", "split", "tries"])
def test_what_a_test_does_not_compare_gets_past_it(name: str) -> None:
    """One exhibit more for each column that is left out."""
    missed = got_past(sets_by_variant(*(n for n in SAME if n != name)))
    assert len(missed - got_past(sets_by_variant(*SAME))) == 1


def same_everywhere(rows: Record) -> bool:
    """Too strict: one recipe for all rows, although tasks may have their own."""
    return right_fair(rows) and len({row["learning_rate"] for row in rows}) == 1


@pytest.mark.parametrize(
    ("t", "text"),
    [
        (lambda rows: len({str(row) for row in rows}) == 1, "refuses every record, right ones"),
        (same_everywhere, "refuses a right record, one written with a recipe of its own for each"),
        (
            lambda rows: right_fair(rows) and len({row["method"] for row in rows}) == 1,
            "refuses a right record, one written with variants that differ by their method",
        ),
    ],
)
def test_weak_tests_are_told_why(t: Callable[..., Any], text: str) -> None:
    assert text in words(verdict(check.fair, t))


def test_rows_that_a_test_spoils_are_fresh_for_the_next() -> None:
    def spoils(rows: Record) -> bool:
        answer = right_fair(rows)
        for row in rows:
            row.clear()
        rows.clear()
        return answer

    assert verdict(check.fair, spoils).startswith("✓")
    assert verdict(check.fair, right_fair).startswith("✓")
    assert right_fair(play_record())


# -- the game

DIFFERENCES = {
    ("small", "middle"): (-11.0, -7.0),
    ("wide", "small"): (8.0, 12.0),
    ("middle", "wide"): (-3.0, 1.0),
    ("large", "small"): (17.0, 21.0),
    ("large", "middle"): (6.0, 14.0),
    ("large", "wide"): (5.0, 13.0),
}


def said(order: object, differences: Any = DIFFERENCES) -> str:
    out = io.StringIO()
    with redirect_stdout(out):
        predict_order(order, differences)
    text = out.getvalue()
    assert max(map(len, text.splitlines())) <= 100
    return words(text)


@pytest.mark.parametrize("order", [["large", "wide", "middle", "small"],
                                   ("large", "middle", "wide", "small")])  # fmt: skip
def test_an_open_pair_may_stand_either_way(order: Any) -> None:
    assert said(order) == (
        "✓ predict_order: 5 of 5 decided pairs came out as you said. 1 more does not count: the "
        "interval holds 0."
    )


def test_the_wrong_pairs_are_listed_the_clearest_first() -> None:
    assert said(["wide", "small", "large", "middle"]) == (
        "predict_order: 2 of 5 decided pairs came out as you said. 1 more does not count: the "
        "interval holds 0. "
        "- You put small before large, but large is better by 17.0 to 21.0. "
        "- You put small before middle, but middle is better by 7.0 to 11.0. "
        "- You put wide before large, but large is better by 5.0 to 13.0."
    )


def test_an_interval_that_touches_0_decides_nothing() -> None:
    touching = {("a", "b"): (0.0, 2.0), ("c", "a"): (1.0, 2.0), ("c", "b"): (3.0, 4.0)}
    for order in ("cab", "cba"):
        assert said([*order], touching).startswith("✓ predict_order: 2 of 2 decided pairs")
    apart = {**touching, ("a", "b"): (-2.0, -0.1)}
    assert said(["c", "a", "b"], apart).startswith("predict_order: 2 of 3 decided pairs")
    assert "count" not in said(["c", "a", "b"], apart)


def test_where_nothing_is_decided_nobody_is_wrong() -> None:
    open_pairs = dict.fromkeys([("a", "b"), ("a", "c"), ("b", "c")], (-1.0, 1.0))
    for order in ("abc", "cab", "bca"):
        text = said([*order], open_pairs)
        assert text.startswith("predict_order: the data decide none of 3 pairs. Every interval")
    assert "none of 1 pair" in said(["a", "b"], {("a", "b"): (math.nan, math.nan)})


def test_without_intervals_it_counts_as_kendalls_tau_does() -> None:
    stats = pytest.importorskip("scipy.stats")
    dice = random.Random(7)
    for _ in range(20):
        names = [f"v{i}" for i in range(7)]
        scores = dict(zip(names, dice.sample(range(100), 7), strict=True))
        order = dice.sample(names, 7)
        gaps = {(a, b): (scores[a] - scores[b],) * 2 for a, b in combinations(names, 2)}
        tau = stats.kendalltau([*scores.values()], [-order.index(n) for n in names]).statistic
        text = said(order, gaps)
        assert f"predict_order: {round(21 * (tau + 1) / 2)} of 21 decided pairs" in text
        assert text.count("- You put ") == round(21 * (1 - tau) / 2)


def test_how_a_pair_is_written_changes_nothing_and_tells_nothing() -> None:
    turned = {(b, a): (-high, -low) for (a, b), (low, high) in reversed(DIFFERENCES.items())}
    for order in (["wide", "small", "large", "middle"], ["large"], ..., ["x"]):
        assert said(order) == said(order, turned)
    assert "of large, middle, small, wide." in said(...)  # by the alphabet, not by score


@pytest.mark.parametrize("order", [..., None, [], [...], ["", ""]])
def test_an_empty_prediction_is_told_what_to_write(order: Any) -> None:
    assert said(order) == (
        "… predict_order: nothing is predicted yet. Before you look: which is best? Write a list, "
        "best first, of large, middle, small, wide."
    )


@pytest.mark.parametrize(
    ("order", "parts"),
    [
        ("large", ["a list is wanted, not a str"]),
        (3, ["a list is wanted, not an int"]),
        (["large", ..., "wide", "small"], ["Still to be placed: middle."]),
        (
            ["large", "wide", "midle", "small"],
            ["No variant is called 'midle'.", "Still to be placed: middle."],
        ),
        (
            ["large", "wide", "large", "large", "small"],
            ["large stands there 3 times; once is enough.", "Still to be placed: middle."],
        ),
        ([["large"]], ["No variant is called"]),
    ],
)
def test_an_order_with_gaps_is_told_kindly_and_gives_nothing_away(
    order: Any, parts: list[str]
) -> None:
    text = said(order) + " "
    assert text.startswith("… predict_order: ")
    for part in parts:
        assert part in text
    assert "better" not in text, "no result is told before the prediction stands"
    assert "decided" not in text
