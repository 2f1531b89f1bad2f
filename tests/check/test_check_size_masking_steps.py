"""The checks of notebook 14: perplexity, corrupt, crossing, a test of fairness, and a game."""

from __future__ import annotations

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
from verdicts import assert_named, assert_named_alone, verdict, words

from bertedu.analysis.ablations import PROCEDURES
from bertedu.check import ablation_size_masking_steps as check
from bertedu.check.ablation_size_masking_steps import (
    FAIR_MUSEUM,
    RIGHT_RECORDS,
    TABLE_8,
    Record,
    play_record,
    predict_order,
    right_corrupt,
    right_crossing,
    right_fair,
    right_perplexity,
)
from bertedu.pretraining.masking import mask_tokens, read_procedure

CHECKS = {"perplexity": check.perplexity, "corrupt": check.corrupt, "crossing": check.crossing}
EXERCISES = (check.PERPLEXITY, check.CORRUPT, check.CROSSING)
Planted = list[tuple[Callable[..., Any], str]]

# -- perplexity


def test_the_perplexity_of_guessing_is_the_number_of_words() -> None:
    assert right_perplexity([math.log(8192)] * 3, [7, 1, 20]) == pytest.approx(8192)


def test_perplexity_is_that_of_all_words_in_one_list() -> None:
    probabilities = torch.rand(50, generator=torch.Generator().manual_seed(1)).double() + 0.01
    batches = (probabilities[:3], probabilities[3:40], probabilities[40:])
    losses = [float(-p.log().mean()) for p in batches]
    whole = float(torch.exp(-probabilities.log().mean()))
    assert right_perplexity(losses, [3, 37, 10]) == pytest.approx(whole)


def perplexity_by_loop(losses: list[float], words: list[int]) -> float:
    total, count = 0.0, 0
    for loss, n in zip(losses, words, strict=True):
        total += loss * n
        count += n
    return 2.718281828 ** (total / count)


def perplexity_by_product(losses: list[float], words: list[int]) -> float:
    """The geometric mean of what each word was given, turned over."""
    n = sum(words)
    product = math.prod(math.exp(-x) ** (k / n) for x, k in zip(losses, words, strict=True))
    return 1 / product


def written_over(losses: list[float], words: list[int]) -> float:
    for loss, n in zip(losses, words, strict=True):
        total = loss * n
    return math.exp(total / sum(words))


def returned_early(losses: list[float], words: list[int]) -> float:
    for loss, n in zip(losses, words, strict=True):
        return math.exp(loss * n / n)
    return 0.0


def perplexity_in_place(losses: list[float], words: list[int]) -> float:
    for i, n in enumerate(words):
        losses[i] *= n
    return math.exp(sum(losses) / sum(words))


def weighted(losses: list[float], words: list[int]) -> float:
    return float(np.average(losses, weights=words))


PERPLEXITIES: Planted = [
    (lambda x, n: np.exp(np.mean(x)), "every batch counts the same, however many words"),
    (lambda x, n: torch.tensor(x).mean().exp(), "every batch counts the same, however many"),
    (lambda x, n: np.average(np.exp(x), weights=n), "exp comes before the mean"),
    (lambda x, n: np.exp(x).mean(), "exp comes before the mean"),
    (lambda x, n: np.exp(x).sum(), "exp comes before the mean"),
    (weighted, "this is the loss: exp is missing"),
    (lambda x, n: np.mean(x), "this is the loss: exp is missing"),
    (lambda x, n: weighted(x, n) / np.log(2), "this is the loss in bits"),
    (lambda x, n: np.log2(np.exp(weighted(x, n))), "this is the loss in bits"),
    (lambda x, n: 2 ** weighted(x, n), "the power is one of 2"),
    (lambda x, n: np.exp2(np.mean(x)), "the power is one of 2"),
    (lambda x, n: 10 ** weighted(x, n), "the power is one of 10"),
    (lambda x, n: math.exp(np.dot(x, n)), "this is exp of a sum, not of a mean"),
    (lambda x, n: np.exp(sum(x)), "this is exp of a sum, not of a mean"),
    (
        lambda x, n: (torch.tensor(x) * torch.tensor(n)).sum().exp(),  # inf where others are large
        "this is exp of a sum, not of a mean",
    ),
    (lambda x, n: math.exp(np.dot(x, n) / len(n)), "divided by the number of batches"),
    (lambda x, n: math.exp(sum(x) / sum(n)), "the losses are added as they are"),
    (lambda x, n: math.exp(np.dot(x, n)) / sum(n), "exp is taken of the total, and the division"),
    (lambda x, n: math.exp(sum(x)) / len(x), "exp is taken of the total, and the division"),
    (lambda x, n: math.log(weighted(x, n)), "this is the logarithm of the mean loss"),
    (lambda x, n: np.log(np.mean(x)), "this is the logarithm of the mean loss"),
    (lambda x, n: math.exp(-weighted(x, n)), "the sign is wrong: this is a probability"),
    (lambda x, n: -math.exp(weighted(x, n)), "the sign is wrong"),
    (returned_early, "only one batch is looked at"),
    (written_over, "only one batch is looked at"),
    (lambda x, n: math.exp(x[-1]), "only one batch is looked at"),
    (perplexity_in_place, "your function writes into its lists"),
    (lambda x, n: [right_perplexity(x, n)], "one number is wanted"),
    (lambda x, n: np.exp(np.array(x)), "an array of shape (2,); one number is wanted"),
    (lambda x, n: right_perplexity(x, n) + 1, "60 of 60 cases come out wrong"),
    (lambda x, n: math.exp(x * n / sum(n)), "stopped with TypeError"),
]


# -- corrupt


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


def corrupt_by_loops(
    ids: Tensor, selected: Tensor, coin: Tensor, random_ids: Tensor, m: float, s: float, k: int
) -> Any:
    rows = ids.tolist()
    for i, row in enumerate(selected.tolist()):
        for j, chosen in enumerate(row):
            if not chosen:
                continue
            if coin[i, j] < m:
                rows[i][j] = k
            elif coin[i, j] < m + s:
                pass
            else:
                rows[i][j] = int(random_ids[i, j])
    return rows


def corrupt_by_places(
    ids: Tensor, selected: Tensor, coin: Tensor, random_ids: Tensor, m: float, s: float, k: int
) -> Any:
    changed = ids.clone()
    changed[selected & (coin < m)] = k
    places = selected & ~(coin < m + s)
    changed[places] = random_ids[places]
    return changed.int()


def corrupt_in_numpy(
    ids: Tensor, selected: Tensor, coin: Tensor, random_ids: Tensor, m: float, s: float, k: int
) -> Any:
    c = coin.double().numpy()
    fate = np.where(c < m, k, np.where(c < m + s, ids, random_ids))
    return np.where(selected, fate, ids)


def corrupt_back(
    ids: Tensor, selected: Tensor, coin: Tensor, random_ids: Tensor, m: float, s: float, k: int
) -> Any:
    """All random first, then back again: right, since each line goes over the one before."""
    changed = torch.where(selected, random_ids, ids)
    changed = torch.where(coin < m + s, ids, changed)
    return torch.where(selected & (coin < m), k, changed)


def fates(
    hidden: Callable[..., Any], stays: Callable[..., Any], of: Callable[..., Any] = lambda s: s
) -> Callable[..., Any]:
    """As learners write it: if hidden, elif stays, else random; of what is selected."""

    def f(
        ids: Tensor, selected: Tensor, coin: Tensor, random_ids: Tensor, m: float, s: float, k: int
    ) -> Any:
        rest = torch.where(stays(coin, m, s), ids, random_ids)
        return torch.where(of(selected), torch.where(hidden(coin, m, s), k, rest), ids)

    return f


def in_turn(*lines: Callable[..., Any]) -> Callable[..., Any]:
    """As learners write it: one line after the other; each is (changed, coin, m, s, words, k)."""

    def f(
        ids: Tensor, selected: Tensor, coin: Tensor, random_ids: Tensor, m: float, s: float, k: int
    ) -> Any:
        changed = ids.clone()
        for line in lines:
            places, value = line(coin, m, s, ids, random_ids, k)
            changed = torch.where(selected & places, value, changed)
        return changed

    return f


def corrupt_in_place(
    ids: Tensor, selected: Tensor, coin: Tensor, random_ids: Tensor, m: float, s: float, k: int
) -> Any:
    ids[selected & (coin < m)] = k
    places = selected & (coin >= m + s)
    ids[places] = random_ids[places]
    return ids


def corrupt_in_place_and_no_return(*inputs: Any) -> None:
    corrupt_in_place(*inputs)


def whole_table(
    ids: Tensor, selected: Tensor, coin: Tensor, random_ids: Tensor, m: float, s: float, k: int
) -> Any:
    changed = torch.where(selected & (coin < m), k, ids)
    changed[selected & (coin >= m + s)] = random_ids
    return changed


def first_words(
    ids: Tensor, selected: Tensor, coin: Tensor, random_ids: Tensor, m: float, s: float, k: int
) -> Any:
    changed = torch.where(selected & (coin < m), k, ids)
    places = selected & (coin >= m + s)
    changed[places] = random_ids.reshape(-1)[: len(changed[places])]
    return changed


def not_kept(
    ids: Tensor, selected: Tensor, coin: Tensor, random_ids: Tensor, m: float, s: float, k: int
) -> Any:
    changed = torch.where(selected & (coin < m), k, ids)
    return torch.where(selected & (coin >= m) & (coin < m + s), changed, random_ids)


def unselected_random(*inputs: Any) -> Any:
    _, selected, _, random_ids = inputs[:4]
    return torch.where(selected, corrupt_back(*inputs), random_ids)


def everywhere(selected: Tensor) -> Tensor:
    return selected | ~selected


def to_mask(c: Tensor, m: float, s: float, ids: Tensor, words: Tensor, k: int) -> Any:
    return c < m, k


def below(c: Tensor, m: float, s: float) -> Any:
    return c < m


def with_pair(*inputs: Any) -> Any:
    return corrupt_back(*inputs), inputs[1]


CORRUPTS: Planted = [
    (fates(below, lambda c, m, s: c >= m + s), "SAME and RND are exchanged"),
    (fates(below, lambda c, m, s: c < 1 - s), "same_share is taken for the share of the random"),
    (fates(lambda c, m, s: c < s, lambda c, m, s: c < m + s), "mask_share and same_share are exch"),
    (
        in_turn(lambda c, m, s, ids, w, k: (c < m, w), lambda c, m, s, i, w, k: (c >= m + s, k)),
        "[MASK] and random are exchanged",
    ),
    (fates(below, lambda c, m, s: c >= 1 - s), "your shares are right, but cut from coin in anot"),
    (
        fates(lambda c, m, s: (c >= s) & (c < m + s), lambda c, m, s: c < s),
        "your shares are right, but cut from coin in another order",
    ),
    (
        in_turn(
            lambda c, m, s, ids, w, k: (c >= 0, w),
            to_mask,
            lambda c, m, s, ids, w, k: (c < s, ids),
        ),
        "the groups overlap",
    ),
    (
        in_turn(to_mask, lambda c, m, s, ids, w, k: (c < 1 - m - s, w)),
        "the groups overlap",
    ),
    (fates(below, lambda c, m, s: c < s), "random begins at same_share, not at mask_share + same"),
    (
        in_turn(to_mask, lambda c, m, s, ids, w, k: (c >= s, w)),
        "random begins at same_share, not at mask_share + same_share",
    ),
    (
        in_turn(to_mask, lambda c, m, s, ids, w, k: (~((c >= m) & (c < m + s)), w)),
        "nothing becomes [MASK]: the random ids go over it",
    ),
    (
        in_turn(to_mask, lambda c, m, s, ids, w, k: (c < m + s, w)),
        "nothing becomes [MASK]: the random ids go over it",
    ),
    (fates(below, lambda c, m, s: c < m + s, everywhere), "mask_share of all tokens become [MASK]"),
    (
        lambda ids, sel, c, w, m, s, k: torch.where(
            c < m, k, torch.where(sel & (c >= m + s), w, ids)
        ),
        "mask_share of all tokens become [MASK], not of the selected ones",
    ),
    (unselected_random, "tokens that were not selected turn into random ones"),
    (
        lambda ids, sel, c, w, m, s, k: torch.where(
            c >= m + s, w, torch.where(sel & (c < m), k, ids)
        ),
        "tokens that were not selected turn into random ones",
    ),
    (
        fates(below, lambda c, m, s: c < m + s, lambda s: ~s),
        "the unselected tokens are changed, and the selected ones are not",
    ),
    (lambda ids, sel, c, w, m, s, k: torch.where(sel, k, ids), "becomes [MASK], whatever the sha"),
    (lambda ids, sel, c, w, m, s, k: ids, "no token ever changes"),
    (
        lambda ids, sel, c, w, m, s, k: torch.where(sel & (c < m), k, ids),
        "no selected token becomes random: all the rest stays",
    ),
    (fates(below, lambda c, m, s: c < 0), "no selected word is kept: all the rest becomes random"),
    (
        lambda ids, sel, c, w, m, s, k: torch.where(sel & (c >= m + s), w, ids),
        "nothing becomes mask_id",
    ),
    (
        fates(lambda c, m, s: c > m, lambda c, m, s: c < m + s),
        "a comparison with mask_share is turned round",
    ),
    (
        fates(lambda c, m, s: c <= m, lambda c, m, s: c < m + s),
        "a coin that falls on a threshold goes to the wrong group",
    ),
    (
        fates(lambda c, m, s: (c <= m) & (m > 0), lambda c, m, s: c < m + s),
        "a coin that falls on a threshold goes to the wrong group",
    ),
    (
        fates(below, lambda c, m, s: c <= m + s),
        "a coin that falls on a threshold goes to the wrong group",
    ),
    (
        fates(lambda c, m, s: c < 0.8, lambda c, m, s: c < 0.9),
        "it is 80/10/10, whatever is asked for",
    ),
    (
        lambda ids, sel, c, w, m, s, k: corrupt_back(ids, sel, c, w, m, s, 4),
        "mask_id is not looked at",
    ),
    (
        lambda ids, sel, c, w, m, s, k: corrupt_back(ids, sel, c, w, m, s, 103),
        "mask_id is not looked at",
    ),
    (whole_table, "the random ids are not picked at the places that change"),
    (first_words, "the random ids are not picked at the places that change"),
    (corrupt_in_place, "changes ids in place. "),
    (corrupt_in_place_and_no_return, "changes ids in place and returns nothing"),
    (with_pair, "your function returned 2 things; the changed ids alone are wanted"),
    (lambda *x: corrupt_back(*x).float(), "must stay whole numbers"),
    (lambda *x: corrupt_back(*x)[x[1]], "is wanted here"),
    (lambda ids, sel, c, w, m, s, k: sel, "must stay whole numbers"),
    (not_kept, "cases come out wrong"),
]


def test_a_changed_input_does_not_reach_the_next_check() -> None:
    verdict(check.corrupt, corrupt_in_place)
    verdict(check.perplexity, perplexity_in_place)
    assert verdict(check.corrupt, right_corrupt).startswith("✓")
    assert verdict(check.perplexity, right_perplexity).startswith("✓")


def test_the_first_token_that_differs_is_pointed_to() -> None:
    said = words(verdict(check.corrupt, lambda *x: torch.where(x[1], x[6], x[0])))
    assert "Token 1 (id " in said
    assert ", selected, coin 0." in said
    assert ": yours gives 4; right is " in said


# -- crossing


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


def crossing_by_all(steps: list[int], ours: list[float], theirs: list[float]) -> Any:
    for i, step in enumerate(steps):
        if all(a > b for a, b in zip(ours[i:], theirs[i:], strict=True)):
            return step
    return None


def crossing_from_behind(steps: list[int], ours: list[float], theirs: list[float]) -> Any:
    found = None
    for i in reversed(range(len(steps))):
        if ours[i] <= theirs[i]:
            break
        found = steps[i]
    return found


def crossing_in_numpy(steps: list[int], ours: list[float], theirs: list[float]) -> Any:
    ahead = np.array(ours) > np.array(theirs)
    if not ahead[-1]:
        return None
    below = np.flatnonzero(~ahead)
    return np.array(steps)[below[-1] + 1 if len(below) else 0]


def crossing_in_torch(steps: list[int], ours: list[float], theirs: list[float]) -> Any:
    stays = (torch.tensor(ours) > torch.tensor(theirs)).flip(0).cumprod(0).flip(0)
    return torch.tensor(steps)[stays.argmax()] if stays.any() else None


def first_above(steps: list[int], ours: list[float], theirs: list[float]) -> Any:
    for step, a, b in zip(steps, ours, theirs, strict=True):
        if a > b:
            return step
    return None


def ends_above(steps: list[int], ours: list[float], theirs: list[float]) -> Any:
    return first_above(steps, ours, theirs) if ours[-1] > theirs[-1] else None


def crossing_index(steps: list[int], ours: list[float], theirs: list[float]) -> Any:
    for i in range(len(steps)):
        if all(ours[j] > theirs[j] for j in range(i, len(steps))):
            return i
    return None


def with_ties(steps: list[int], ours: list[float], theirs: list[float]) -> Any:
    for i, step in enumerate(steps):
        if all(a >= b for a, b in zip(ours[i:], theirs[i:], strict=True)):
            return step
    return None


def step_before(steps: list[int], ours: list[float], theirs: list[float]) -> Any:
    for i in reversed(range(len(steps))):
        if ours[i] <= theirs[i]:
            return steps[i]
    return None


def one_late(steps: list[int], ours: list[float], theirs: list[float]) -> Any:
    i = crossing_index(steps, ours, theirs)
    return None if i is None else steps[min(i + 1, len(steps) - 1)]


def last_rise(steps: list[int], ours: list[float], theirs: list[float]) -> Any:
    found, before = None, False
    for step, a, b in zip(steps, ours, theirs, strict=True):
        if a > b and not before:
            found = step
        before = a > b
    return found


def needs_a_rise(steps: list[int], ours: list[float], theirs: list[float]) -> Any:
    for i in range(1, len(steps)):
        ahead = all(a > b for a, b in zip(ours[i:], theirs[i:], strict=True))
        if ahead and ours[i - 1] <= theirs[i - 1]:
            return steps[i]
    return None


def short_of_the_end(steps: list[int], ours: list[float], theirs: list[float]) -> Any:
    for i in range(len(steps)):
        if all(ours[j] > theirs[j] for j in range(i, len(steps) - 1)):
            return steps[i]
    return None


def short_of_the_end_in_both(steps: list[int], ours: list[float], theirs: list[float]) -> Any:
    last = len(steps) - 1
    for i in range(last):
        if all(ours[j] > theirs[j] for j in range(i, last)):
            return steps[i]
    return None


def without_the_first(steps: list[int], ours: list[float], theirs: list[float]) -> Any:
    for i in range(1, len(steps)):
        if all(ours[j] > theirs[j] for j in range(i, len(steps))):
            return steps[i]
    return None


def last_above(steps: list[int], ours: list[float], theirs: list[float]) -> Any:
    return max((s for s, a, b in zip(steps, ours, theirs, strict=True) if a > b), default=None)


def largest_lead(steps: list[int], ours: list[float], theirs: list[float]) -> Any:
    lead = np.round(np.array(ours) - np.array(theirs), 3)
    return steps[lead.argmax()] if lead.max() > 0 else None


def above_the_end(steps: list[int], ours: list[float], theirs: list[float]) -> Any:
    return next((step for step, a in zip(steps, ours, strict=True) if a > theirs[-1]), None)


def above_the_best(steps: list[int], ours: list[float], theirs: list[float]) -> Any:
    return next((step for step, a in zip(steps, ours, strict=True) if a > max(theirs)), None)


def where_the_lines_meet(steps: list[int], ours: list[float], theirs: list[float]) -> Any:
    i = crossing_index(steps, ours, theirs)
    if i is None or i == 0:
        return None if i is None else steps[0]
    lead = np.array(ours) - np.array(theirs)
    return float(np.interp(0, lead[i - 1 : i + 1], steps[i - 1 : i + 1]))


def never_is(value: Any) -> Callable[..., Any]:
    def f(steps: list[int], ours: list[float], theirs: list[float]) -> Any:
        found = crossing_by_all(steps, ours, theirs)
        return value(steps) if found is None else found

    return f


def no_default(steps: list[int], ours: list[float], theirs: list[float]) -> Any:
    return next(
        step
        for i, step in enumerate(steps)
        if all(a > b for a, b in zip(ours[i:], theirs[i:], strict=True))
    )


def no_minimum(steps: list[int], ours: list[float], theirs: list[float]) -> Any:
    ahead = [crossing_by_all(steps[i:], ours[i:], theirs[i:]) for i in range(len(steps))]
    return min(step for step in ahead if step is not None)


def crossing_in_place(steps: list[int], ours: list[float], theirs: list[float]) -> Any:
    found = crossing_by_all(steps, ours, theirs)
    while ours:
        ours.pop()
    return found


CROSSINGS: Planted = [
    (first_above, "this is the first step above, though ours falls back later"),
    (ends_above, "only the first step above and the very end are looked at"),
    (crossing_index, "this is the index, not the step"),
    (with_ties, "a tie counts as above"),
    (lambda s, a, b: crossing_by_all(s, b, a), "this is where theirs stays above ours"),
    (lambda s, a, b: first_above(s, b, a), "this is where theirs stays above ours"),
    (step_before, "it is one step early"),
    (one_late, "it is one step late"),
    (last_rise, "this is where ours rises above for the last time"),
    (needs_a_rise, "above from the very first step gives None"),
    (short_of_the_end, "the last point is left out"),
    (short_of_the_end_in_both, "the last point is left out"),
    (without_the_first, "the first point is left out"),
    (last_above, "this is the last step above"),
    (lambda s, a, b: s[-1] if a[-1] > b[-1] else None, "this is the last step above"),
    (largest_lead, "this is the step with the largest lead"),
    (above_the_end, "ours is compared with one point of theirs"),
    (above_the_best, "ours is compared with one point of theirs"),
    (where_the_lines_meet, "this is a point between two steps"),
    *(
        (never_is(value), "where ours does not stay above, the answer is not None")
        for value in (lambda s: -1, lambda s: 0, lambda s: s[-1], lambda s: float("inf"))
    ),
    (no_default, "where ours does not stay above, the answer is not None"),
    (no_minimum, "where ours does not stay above, the answer is not None"),
    (crossing_in_place, "your function writes into its lists"),
    (lambda s, a, b: [s[0]], "one number is wanted"),
    (lambda s, a, b: str(s[0]), "one number is wanted"),
    (lambda s, a, b: len(s), "cases come out wrong"),
    (lambda s, a, b: s[a > b], "cases come out wrong"),
]


# -- what the three have in common


@pytest.mark.parametrize(
    ("name", "f"),
    [
        *(
            ("perplexity", f)
            for f in (
                right_perplexity,
                perplexity_by_loop,
                perplexity_by_product,
                lambda x, n: np.exp(np.average(x, weights=n)),
                lambda x, n: torch.tensor(x).repeat_interleave(torch.tensor(n)).mean().exp(),
            )
        ),
        *(
            ("corrupt", f)
            for f in (
                right_corrupt,
                corrupt_by_loops,
                corrupt_by_places,
                corrupt_in_numpy,
                corrupt_back,
                fates(below, lambda c, m, s: c < m + s),
            )
        ),
        *(
            ("crossing", f)
            for f in (
                right_crossing,
                crossing_by_all,
                crossing_from_behind,
                crossing_in_numpy,
                crossing_in_torch,
                lambda s, a, b: crossing_by_all(tuple(s), tuple(a), tuple(b)),  # type: ignore[arg-type]
            )
        ),
    ],
)
def test_right_answers_pass(name: str, f: Callable[..., Any]) -> None:
    said = verdict(CHECKS[name], f)
    assert said.startswith(f"✓ {name}: ")
    exercise = next(e for e in EXERCISES if e.name == name)
    assert str(len(exercise.cases())) in exercise.tried


PLANTED = [
    (name, wrong, text)
    for name, planted in (
        ("perplexity", PERPLEXITIES),
        ("corrupt", CORRUPTS),
        ("crossing", CROSSINGS),
    )
    for wrong, text in planted
]


@pytest.mark.parametrize(
    ("name", "wrong", "text"), PLANTED, ids=[f"{name}: {text}" for name, _, text in PLANTED]
)
def test_each_planted_mistake_is_named(name: str, wrong: Callable[..., Any], text: str) -> None:
    assert_named(CHECKS[name], name, wrong, text)


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda exercise: exercise.name)
def test_every_message_is_met_by_a_planted_mistake(exercise: Any) -> None:
    texts = [text for name, _, text in PLANTED if name == exercise.name]
    for mistake in exercise.mistakes:
        assert any(text in mistake.what for text in texts), mistake.what


# -- fair

SAME = (
    *("task", "seed", "train_examples", "batch_size", "learning_rate", "epochs"),
    *("pretraining_steps", "pretraining_tokens", "split", "tries"),
)


def names_all_runs(rows: Record) -> bool:
    """Right: sorted lists of text, variant by variant."""
    table = {}
    for variant in {row["variant"] for row in rows}:
        mine = [row for row in rows if row["variant"] == variant]
        table[variant] = sorted(str([row[name] for name in SAME]) for row in mine)
    return len({tuple(runs) for runs in table.values()}) == 1


def run_by_run(rows: Record) -> bool:
    """Right: every run has one run of each variant that is like it."""
    variants = {row["variant"] for row in rows}
    groups: dict[tuple[Any, ...], list[str]] = {}
    for row in rows:
        rest = {k: v for k, v in row.items() if k not in ("variant", "method", "score")}
        groups.setdefault(tuple(sorted(rest.items())), []).append(row["variant"])
    return all(sorted(group) == sorted(variants) for group in groups.values())


def in_pandas(rows: Record) -> Any:
    """Right: NumPy's truth counts as well."""
    pandas = pytest.importorskip("pandas")
    counts = pandas.DataFrame(rows).groupby([*SAME, "variant"]).size().unstack()
    return (counts == 1).all(axis=None)


@pytest.mark.parametrize("t", [right_fair, names_all_runs, run_by_run, in_pandas])
def test_good_tests_of_fairness_pass(t: Callable[[Record], Any]) -> None:
    said = words(verdict(check.fair, t))
    assert said.startswith("✓ fair: accepts 6 right records, catches 13 broken ones (two models")


@pytest.mark.parametrize("exhibit", FAIR_MUSEUM, ids=[e.seen for e in FAIR_MUSEUM])
def test_each_record_that_gets_past_is_named_alone(exhibit: Any) -> None:
    assert_named_alone(
        check.fair,
        lambda rows: rows == exhibit.broken() or right_fair(rows),
        "fair: 1 of 13 broken records got past your test.",
        exhibit,
    )


DIFFERS = {  # the columns of an unfair record that differ from those of the fair one
    "two models counted as one": {"pretraining_tokens"},
    "smaller batches where memory ran out": {"pretraining_steps"},
    "a line copied from the last report": {"train_examples"},
    "tuned where one hoped for more": {"learning_rate"},
    "fine-tuned in smaller batches": {"batch_size"},
    "a run that looked unfinished": {"epochs"},
    "other seeds": {"seed"},
    "a row under the wrong task": {"task"},
    "dev taken for test": {"split"},
    "the best of five": {"tries"},
    "a run that diverged": -1,
    "a run made twice": +1,
    "a task that was left out": -4,
}


@pytest.mark.parametrize("exhibit", FAIR_MUSEUM, ids=[e.seen for e in FAIR_MUSEUM])
def test_one_thing_is_unfair_in_each_record(exhibit: Any) -> None:
    fair, unfair = play_record(), exhibit.broken()
    expected = DIFFERS[exhibit.seen]
    if isinstance(expected, int):
        assert len(unfair) - len(fair) == expected
    else:
        pairs = list(zip(fair, unfair, strict=True))
        changed = [a["variant"] for a, b in pairs if a != b]
        assert {name for a, b in pairs for name in a if a[name] != b[name]} == expected
        assert len(set(changed)) == 1, "one variant differs from the others"


def test_the_records_that_are_fair_differ_as_they_say() -> None:
    records = {how: make() for how, make in RIGHT_RECORDS}
    assert len({row["variant"] for row in records["with two variants on one task"]}) == 2
    assert len({row["task"] for row in records["with two variants on one task"]}) == 1
    assert len({row["variant"] for row in records["with many variants and tasks"]}) == 5
    shuffled = records["with its rows in no order"]
    assert shuffled != play_record(seeds=5)
    assert sorted(map(str, shuffled)) == sorted(map(str, play_record(seeds=5)))
    rates = {
        (r["task"], r["learning_rate"]) for r in records["with a recipe of its own for each task"]
    }
    assert rates == {("topic", 3e-4), ("entities", 1e-3)}
    seeds = [(r["task"], r["seed"]) for r in records["with fewer seeds on one task"]]
    assert ("topic", 3) in seeds
    assert ("entities", 3) not in seeds
    assert len({row["method"] for row in records["with variants that differ by their method"]}) == 2


def sets_by_variant(*names: str) -> Callable[[Record], bool]:
    """The obvious test: of each variant and each column, the set of values."""

    def f(rows: Record) -> bool:
        variants = {row["variant"] for row in rows}
        return all(
            len({frozenset(r[name] for r in rows if r["variant"] == v) for v in variants}) == 1
            for name in names
        )

    return f


def first_rows(rows: Record) -> bool:
    firsts: dict[str, Any] = {}
    for row in rows:
        firsts.setdefault(row["variant"], [row[name] for name in SAME if name != "seed"])
    return len({str(first) for first in firsts.values()}) == 1


def got_past(t: Callable[[Record], Any]) -> set[str]:
    said = words(verdict(check.fair, t))
    assert " broken records got past your test." in said
    return {e.seen for e in FAIR_MUSEUM if f"- {e.seen}: " in said}


def test_the_obvious_test_misses_what_sets_cannot_see() -> None:
    assert got_past(sets_by_variant(*SAME)) == {
        "a run that diverged",
        "a run made twice",
        "a row under the wrong task",
    }


def test_counting_rows_as_well_leaves_the_slip() -> None:
    def counted(rows: Record) -> bool:
        names = [row["variant"] for row in rows]
        return sets_by_variant(*SAME)(rows) and len({names.count(n) for n in names}) == 1

    assert got_past(counted) == {"a row under the wrong task"}


def test_what_a_test_does_not_compare_gets_past_it() -> None:
    for name, seen in (
        ("pretraining_tokens", "two models counted as one"),
        ("pretraining_steps", "smaller batches where memory ran out"),
        ("train_examples", "a line copied from the last report"),
        ("learning_rate", "tuned where one hoped for more"),
        ("batch_size", "fine-tuned in smaller batches"),
        ("epochs", "a run that looked unfinished"),
        ("seed", "other seeds"),
        ("task", "a task that was left out"),
        ("split", "dev taken for test"),
        ("tries", "the best of five"),
    ):
        assert seen in got_past(sets_by_variant(*(n for n in SAME if n != name)))
        assert seen not in got_past(sets_by_variant(*SAME))


def same_everywhere(rows: Record) -> bool:
    """Too strict: one recipe for all rows, although tasks may have their own."""
    return right_fair(rows) and len({row["learning_rate"] for row in rows}) == 1


def in_order(rows: Record) -> bool:
    variants = list(dict.fromkeys(row["variant"] for row in rows))
    lists = [[[r[n] for n in SAME] for r in rows if r["variant"] == v] for v in variants]
    return all(one == lists[0] for one in lists)


def full_grid(rows: Record) -> bool:
    sizes = [{row[name] for row in rows} for name in ("variant", "task", "seed")]
    return right_fair(rows) and len(rows) == math.prod(map(len, sizes))


@pytest.mark.parametrize(
    ("t", "text"),
    [
        (lambda rows: True, "13 of 13 broken records got past your test"),
        (lambda rows: False, "refuses every record, right ones included"),
        (
            lambda rows: len({str(row) for row in rows}) == 1,
            "refuses every record, right ones included",
        ),
        (same_everywhere, "refuses a right record, one written with a recipe of its own for each"),
        (in_order, "refuses a right record, one written with its rows in no order"),
        (full_grid, "refuses a right record, one written with fewer seeds on one task"),
        (
            lambda rows: right_fair(rows) and len({row["method"] for row in rows}) == 1,
            "refuses a right record, one written with variants that differ by their method",
        ),
        (
            lambda rows: right_fair(rows) and len({row["variant"] for row in rows}) == 3,
            "refuses a right record, one written with two variants on one task",
        ),
        (
            lambda rows: right_fair(rows) and len({row["variant"] for row in rows}) < 4,
            "refuses a right record, one written with many variants and tasks",
        ),
        (lambda rows: rows[0]["tokens"] > 0, "stopped with KeyError: 'tokens'"),
        (lambda rows: rows.variant, "stopped with AttributeError"),
        (lambda rows: "fair", "True or False is wanted"),
    ],
)
def test_weak_tests_are_told_why(t: Callable[..., Any], text: str) -> None:
    said = words(verdict(check.fair, t))
    assert said.startswith("✗ fair: ")
    assert text in said


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


@pytest.mark.parametrize("left_over", [..., None, ""])
def test_what_is_left_over_beside_a_full_list_does_no_harm(left_over: Any) -> None:
    full = ["wide", "small", "large", "middle"]
    assert said([*full, left_over]) == said([left_over, *full]) == said(full)


@pytest.mark.parametrize("order", [..., None, [], (), [...], [None, None], ["", ""]])
def test_an_empty_prediction_is_told_what_to_write(order: Any) -> None:
    assert said(order) == (
        "… predict_order: nothing is predicted yet. Before you look: which is best? Write a list, "
        "best first, of large, middle, small, wide."
    )


@pytest.mark.parametrize(
    ("order", "parts"),
    [
        ("large", ["a list is wanted, not a str"]),
        ({"large", "small"}, ["a list is wanted, not a set"]),
        (3, ["a list is wanted, not an int"]),
        (["large", "wide"], ["Still to be placed: middle, small."]),
        (["large", ..., "wide", "small"], ["Still to be placed: middle."]),
        (
            ["large", "wide", "midle", "small"],
            ["No variant is called 'midle'. Is it middle?", "Still to be placed: middle."],
        ),
        (["large", "wide", "middle", "small", "zzz"], ["No variant is called 'zzz'. "]),
        (
            ["large", "wide", "large", "large", "small"],
            ["large stands there 3 times; once is enough.", "Still to be placed: middle."],
        ),
        ([1, 2, 3, 4], ["No variant is called '1'."]),
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


@pytest.mark.parametrize(
    "differences",
    [
        {},
        {("a", "b"): (1.0, -1.0)},
        {("a", "b"): (0.0, 1.0), ("b", "a"): (-1.0, 0.0)},
        {("a", "b"): (0.0, 1.0), ("b", "c"): (0.0, 1.0)},
        {("a", "a"): (0.0, 0.0)},
    ],
)
def test_differences_that_are_none_are_refused(differences: Any) -> None:
    with pytest.raises(ValueError, match=r"every pair of two or more names|is upside down"):
        predict_order(["a", "b"], differences)
