"""`check.masking`: right ones pass however written, each planted mistake gets its own message."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from verdicts import verdict, words

from bertedu import check
from bertedu.check.masked_language_model import MASKING, right_masking
from bertedu.pretraining.masking import mask_tokens

Answer = tuple[Any, Any]


def test_the_reference_does_what_the_package_does() -> None:
    ids = torch.randint(0, 300, (40, 60), generator=torch.Generator().manual_seed(1))
    masked, selected = mask_tokens(ids, 300, torch.Generator().manual_seed(2))
    generator = torch.Generator().manual_seed(2)  # the same draws, in the same order
    chance, group = (torch.rand(ids.shape, generator=generator) for _ in range(2))
    drawn = torch.randint(5, 300, ids.shape, generator=generator)
    again, chosen = right_masking(ids, chance, group, drawn)
    assert torch.equal(again, masked)
    assert torch.equal(chosen, selected)


# -- right ones


def by_loops(ids: Tensor, chance: Tensor, group: Tensor, words: Tensor) -> Answer:
    masked = ids.clone()
    selected = torch.zeros_like(ids, dtype=torch.bool)
    for i in range(ids.shape[0]):
        for j in range(ids.shape[1]):
            if ids[i, j] < 5 or chance[i, j] >= 0.15:
                continue
            selected[i, j] = True
            if group[i, j] < 0.8:
                masked[i, j] = 4
            elif group[i, j] < 0.9:
                masked[i, j] = words[i, j]
    return masked, selected


def in_numpy(ids: Tensor, chance: Tensor, group: Tensor, words: Tensor) -> Answer:
    selected = (chance.numpy() < 0.15) & (ids.numpy() > 4)
    masked = np.where(selected & (group.numpy() < 0.8), 4, ids.numpy())
    swap = selected & (group.numpy() >= 0.8) & (group.numpy() < 0.9)
    return [np.where(swap, words.numpy(), masked), selected]  # type: ignore[return-value]


def in_other_dtypes(ids: Tensor, chance: Tensor, group: Tensor, words: Tensor) -> Answer:
    masked, selected = right_masking(ids, chance.double(), group.double(), words)
    return masked.int(), selected.long()


def as_lists(ids: Tensor, chance: Tensor, group: Tensor, words: Tensor) -> Answer:
    masked, selected = by_loops(ids, chance, group, words)
    return masked.tolist(), selected.tolist()


@pytest.mark.parametrize("f", [right_masking, by_loops, in_numpy, in_other_dtypes, as_lists])
def test_right_ones_pass(f: Callable[..., Any]) -> None:
    said = verdict(check.masking, f)
    assert said.startswith("✓ masking: 200 random cases")
    assert said.count("\n") == 1


# -- wrong ones, as learners write them


def selects(condition: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Answer]:
    def f(ids: Tensor, chance: Tensor, group: Tensor, words: Tensor) -> Answer:
        selected = condition(ids, chance)
        masked = ids.clone()
        masked[selected & (group < 0.8)] = 4
        swap = selected & (group >= 0.8) & (group < 0.9)
        masked[swap] = words[swap]
        return masked, selected

    return f


def hides(change: Callable[..., Tensor]) -> Callable[..., Answer]:
    """``change(masked, selected, group, words)`` may write into masked."""

    def f(ids: Tensor, chance: Tensor, group: Tensor, words: Tensor) -> Answer:
        selected = (chance < 0.15) & (ids >= 5)
        return change(ids.clone(), selected, group, words), selected

    return f


def asks(returned: Callable[..., Tensor]) -> Callable[..., Answer]:
    """``returned(ids, masked, selected, group)`` is what comes back as selected."""

    def f(ids: Tensor, chance: Tensor, group: Tensor, words: Tensor) -> Answer:
        masked, selected = by_loops(ids, chance, group, words)
        return masked, returned(ids, masked, selected, group)

    return f


def eighty_of_all(ids: Tensor, chance: Tensor, group: Tensor, words: Tensor) -> Answer:
    selected = (chance < 0.15) & (ids >= 5)
    masked = torch.where(group < 0.8, 4, ids)
    return torch.where(selected & (group >= 0.8) & (group < 0.9), words, masked), selected


def eighty_of_all_words(ids: Tensor, chance: Tensor, group: Tensor, words: Tensor) -> Answer:
    word = ids >= 5
    masked = torch.where(word & (group < 0.8), 4, ids)
    return torch.where(word & (group >= 0.8) & (group < 0.9), words, masked), word & (chance < 0.15)


def all_mask(masked: Tensor, selected: Tensor, group: Tensor, words: Tensor) -> Tensor:
    masked[selected] = 4
    return masked


def swapped(masked: Tensor, selected: Tensor, group: Tensor, words: Tensor) -> Tensor:
    masked[selected & (group < 0.8)] = 4
    return torch.where(selected & (group >= 0.9), words, masked)


def else_random(masked: Tensor, selected: Tensor, group: Tensor, words: Tensor) -> Tensor:
    hidden = torch.where(group < 0.8, torch.tensor(4), words)
    return torch.where(selected, hidden, masked)


def no_random(masked: Tensor, selected: Tensor, group: Tensor, words: Tensor) -> Tensor:
    masked[selected & (group < 0.8)] = 4
    return masked


def overlapping(masked: Tensor, selected: Tensor, group: Tensor, words: Tensor) -> Tensor:
    masked[selected & (group < 0.8)] = 4
    return torch.where(selected & (group < 0.1), words, masked)


def two_ifs(masked: Tensor, selected: Tensor, group: Tensor, words: Tensor) -> Tensor:
    for i, j in selected.nonzero().tolist():
        if group[i, j] < 0.8:
            masked[i, j] = 4
        if group[i, j] < 0.9:
            masked[i, j] = words[i, j]
    return masked


def mask_and_random_swapped(masked: Tensor, selected: Tensor, group: Tensor, words: Tensor) -> Any:
    masked[selected & (group >= 0.8) & (group < 0.9)] = 4
    return torch.where(selected & (group < 0.8), words, masked)


def random_for_unselected(masked: Tensor, selected: Tensor, group: Tensor, words: Tensor) -> Tensor:
    masked[selected & (group < 0.8)] = 4
    return torch.where((group >= 0.8) & (group < 0.9), words, masked)


def where_turned_around(masked: Tensor, selected: Tensor, group: Tensor, words: Tensor) -> Tensor:
    masked[selected & (group < 0.8)] = 4
    swap = selected & (group >= 0.8) & (group < 0.9)
    return torch.where(selected & ~swap, masked, words)


def other_order(masked: Tensor, selected: Tensor, group: Tensor, words: Tensor) -> Tensor:
    masked[selected & (group >= 0.2)] = 4
    return torch.where(selected & (group < 0.1), words, masked)


def unpicked(masked: Tensor, selected: Tensor, group: Tensor, words: Tensor) -> Tensor:
    masked[selected & (group < 0.8)] = 4
    masked[selected & (group >= 0.8) & (group < 0.9)] = words
    return masked


def becomes(token: int) -> Callable[..., Tensor]:
    def change(masked: Tensor, selected: Tensor, group: Tensor, words: Tensor) -> Tensor:
        masked[selected & (group < 0.8)] = token
        return torch.where(selected & (group >= 0.8) & (group < 0.9), words, masked)

    return change


def from_chance(ids: Tensor, chance: Tensor, group: Tensor, words: Tensor) -> Answer:
    selected = (chance < 0.15) & (ids >= 5)
    masked = torch.where(selected & (chance / 0.15 < 0.8), 4, ids)
    swap = selected & (chance / 0.15 >= 0.8) & (chance / 0.15 < 0.9)
    return torch.where(swap, words, masked), selected


def in_place(ids: Tensor, chance: Tensor, group: Tensor, words: Tensor) -> Answer:
    selected = (chance < 0.15) & (ids >= 5)
    ids[selected & (group < 0.8)] = 4
    swap = selected & (group >= 0.8) & (group < 0.9)
    ids[swap] = words[swap]
    return ids, selected


def in_place_and_no_return(ids: Tensor, chance: Tensor, group: Tensor, words: Tensor) -> None:
    ids[(chance < 0.15) & (ids >= 5)] = 4


def own_draws(ids: Tensor, chance: Tensor, group: Tensor, words: Tensor) -> Answer:
    return right_masking(ids, torch.rand(ids.shape), torch.rand(ids.shape), words)


def first_version(ids: Tensor, chance: Tensor, group: Tensor, words: Tensor) -> Answer:
    """Two mistakes at once: specials, and 100/0/0."""
    return torch.where(chance < 0.15, 4, ids), chance < 0.15


PLANTED = [
    (selects(lambda ids, chance: chance < 0.15), "✗ masking: special tokens can be selected."),
    (selects(lambda ids, chance: (chance < 0.15) & (ids != 0)), "only padding is left out"),
    (
        selects(lambda ids, chance: (chance < 0.15) & (ids != 0) & (ids != 2) & (ids != 3)),
        "✗ masking: [UNK] and [MASK] can be selected",
    ),
    (
        selects(lambda ids, chance: (chance < 0.15) & (ids != 2) & (ids != 3)),
        "✗ masking: [PAD], [UNK] and [MASK] can be selected",
    ),
    (selects(lambda ids, chance: (chance < 0.15) & (ids >= 4)), "✗ masking: [MASK] can be"),
    (selects(lambda ids, chance: (chance < 0.15) & (ids > 5)), "lowest id is never selected"),
    (selects(lambda ids, chance: (chance > 0.15) & (ids >= 5)), "85 % of the words are selected"),
    (selects(lambda ids, chance: ids >= 5), "every word is selected, whatever its chance"),
    (eighty_of_all, "80 % of all tokens become [MASK]"),
    (eighty_of_all_words, "80 % of all tokens become [MASK]"),
    (hides(all_mask), "100/0/0"),
    (hides(lambda masked, *_: masked), "no selected token ever changes"),
    (hides(swapped), "random and kept are swapped"),
    (hides(else_random), "80/20/0"),
    (hides(no_random), "80/0/20"),
    (hides(overlapping), "the groups overlap"),
    (hides(two_ifs), "Use elif"),
    (hides(mask_and_random_swapped), "[MASK] and random are swapped"),
    (hides(random_for_unselected), "tokens that were not selected turn into random words"),
    (hides(where_turned_around), "tokens that were not selected turn into random words"),
    (hides(other_order), "cut from group in another order"),
    (hides(unpicked), "words is not picked at the places that change"),
    (hides(becomes(0)), "become [PAD], not [MASK]"),
    (hides(becomes(1)), "become [UNK], not [MASK]"),
    (from_chance, "drawn from chance, and group is never used"),
    (
        asks(lambda ids, masked, selected, group: selected & (group < 0.9)),
        "selected leaves out the tenth that stays unchanged",
    ),
    (asks(lambda ids, masked, selected, group: masked != ids), "selected is where ids changed"),
    (asks(lambda ids, masked, selected, group: masked == 4), "selected is true at [MASK] only"),
    (asks(lambda ids, masked, selected, group: ~selected), "selected is upside down"),
    (asks(lambda ids, masked, selected, group: ids >= 5), "selected is true at every word"),
    (in_place, "changes ids in place. "),
    (in_place_and_no_return, "changes ids in place and returns nothing"),
    (own_draws, "random numbers of its own"),
    (first_version, "special tokens can be selected. (There is more, but this comes first.)"),
]


@pytest.mark.parametrize(("wrong", "text"), PLANTED, ids=[text for _, text in PLANTED])
def test_each_planted_mistake_gets_its_own_message(wrong: Callable[..., Any], text: str) -> None:
    said = verdict(check.masking, wrong)
    assert said.startswith("✗ masking: ")
    assert text in words(said)
    assert "Smallest case: ids = [[" in said
    assert "Likely: " in said


def test_the_messages_are_the_same_every_time() -> None:
    for wrong in (own_draws, first_version, in_place):
        assert verdict(check.masking, wrong) == verdict(check.masking, wrong)


def test_the_case_shown_is_the_smallest_that_fails() -> None:
    def wrong(ids: Tensor, chance: Tensor, group: Tensor, words: Tensor) -> Answer:
        masked, selected = right_masking(ids, chance, group, words)
        if ids.shape[1] == 3:
            selected = selected.roll(1, dims=1)  # the usual messages do not know this one
        return masked, selected

    said = words(verdict(check.masking, wrong))
    failing = next(
        inputs
        for inputs in MASKING.cases()
        if inputs[0].shape == (1, 3)
        and not torch.equal(wrong(*inputs)[1], right_masking(*inputs)[1])
    )
    assert f"Smallest case: ids = {failing[0].tolist()}, chance" in said
    assert "of 200 cases come out wrong" in said
    assert 'check.solution("masking")' in said
    expected = right_masking(*failing)[1][0].tolist()
    first = next(i for i in range(3) if expected[i] != wrong(*failing)[1][0, i])
    assert f"Token {first + 1} (id {failing[0][0, first]}, chance" in said
    assert f"right is {right_masking(*failing)[0][0, first]}, {'' if expected[first] else 'not '}"


# -- answers of the wrong kind


def returns(change: Callable[[Tensor, Tensor], Any]) -> Callable[..., Any]:
    def f(ids: Tensor, chance: Tensor, group: Tensor, words: Tensor) -> Any:
        return change(*right_masking(ids, chance, group, words))

    return f


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (returns(lambda m, s: m), "returned a tensor of shape (1, 1); return two things"),
        (returns(lambda m, s: (s, m)), "the wrong order: first masked_ids"),
        (returns(lambda m, s: (m.float(), s)), "must stay whole numbers"),
        (returns(lambda m, s: (m, m)), "selected holds other values than True and False"),
        (returns(lambda m, s: (m, s.flatten())), "selected has shape (1,); (1, 1) is wanted"),
        (returns(lambda m, s: (m, None)), "selected is None; a tensor is wanted"),
        (returns(lambda m, s: "done"), "returned the str 'done'; return two things"),
        (returns(lambda m, s: {"ids": m}), "returned a dict; return two things"),
        (returns(lambda m, s: (m, s) if s.any() else None), "every path end in a return"),
    ],
)
def test_answers_of_the_wrong_kind_are_described(wrong: Callable[..., Any], text: str) -> None:
    said = verdict(check.masking, wrong)
    assert said.startswith("✗ masking: ")
    assert text in words(said)
