"""`check.masking`: right ones pass however written, each planted mistake gets its own message."""

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from verdicts import assert_named, verdict, words

from bertedu.pretraining.masking import mask_tokens
from course.exercises import check
from course.exercises.masked_language_model import right_masking

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


def by_loops(ids: Tensor, chance: Tensor, group: Tensor, words: Tensor) -> Answer:
    masked = ids.clone()
    selected = torch.zeros_like(ids, dtype=torch.bool)
    for i in range(ids.shape[0]):
        for j in range(ids.shape[1]):
            selected[i, j] = ids[i, j] > 4 and chance[i, j] < 0.15
            if selected[i, j] and group[i, j] < 0.9:
                masked[i, j] = 4 if group[i, j] < 0.8 else words[i, j]
    return masked, selected


def as_numbers(*inputs: Tensor) -> list[Any]:
    return [part.int() for part in right_masking(*inputs)]


@pytest.mark.parametrize("f", [by_loops, as_numbers])
def test_right_ones_pass(f: Callable[..., Any]) -> None:
    assert verdict(check.masking, f).startswith("✓ masking: 200 random cases")


def wrong_in(
    select: Callable[[Tensor, Tensor], Tensor] = lambda ids, chance: (chance < 0.15) & (ids >= 5),
    swap: Callable[[Tensor, Tensor], Tensor] = lambda chosen, group: chosen & (group < 0.9),
    ask: Callable[..., Tensor] = lambda ids, masked, selected: selected,
) -> Callable[..., Answer]:
    """A masking of three steps, one of which is replaced."""

    def f(ids: Tensor, chance: Tensor, group: Tensor, words: Tensor) -> Answer:
        selected = select(ids, chance)
        masked, hide = ids.clone(), selected & (group < 0.8)
        masked[swap(selected, group)] = words[swap(selected, group)]
        masked[hide] = 4
        return masked, ask(ids, masked, selected)

    return f


def in_place(ids: Tensor, chance: Tensor, group: Tensor, words: Tensor) -> Answer:
    selected = (chance < 0.15) & (ids >= 5)
    ids[selected & (group < 0.8)] = 4
    return torch.where(selected & (group >= 0.8) & (group < 0.9), words, ids), selected


def masked_anew(ids: Tensor, chance: Tensor, group: Tensor, words: Tensor) -> Answer:
    selected = (chance < 0.15) & (ids >= 5)
    changed = torch.where(selected & (group >= 0.8) & (group < 0.9), words, ids)
    changed = torch.where(selected & (group < 0.8), 4, ids)
    return changed, selected


def own_draws(ids: Tensor, chance: Tensor, group: Tensor, words: Tensor) -> Answer:
    return right_masking(ids, torch.rand(ids.shape), torch.rand(ids.shape), words)


def first_version(ids: Tensor, chance: Tensor, group: Tensor, words: Tensor) -> Answer:
    """Two mistakes at once: specials, and 100/0/0."""
    return torch.where(chance < 0.15, 4, ids), chance < 0.15


PLANTED = [
    (wrong_in(select=lambda ids, chance: chance < 0.15), "special tokens can be selected. Small"),
    (wrong_in(select=lambda ids, chance: (chance < 0.15) & (ids > 5)), "the one with id 5, can"),
    (masked_anew, "one of the two replacements is lost"),
    (wrong_in(swap=lambda chosen, group: chosen), "80/20/0"),
    (wrong_in(ask=lambda ids, masked, selected: ids != masked), "selected is where ids changed"),
    (in_place, "changes ids in place. "),
    (own_draws, "random numbers of its own"),
    (first_version, "special tokens can be selected. (There is more, but this comes first.)"),
]


@pytest.mark.parametrize(("wrong", "text"), PLANTED, ids=[text for _, text in PLANTED])
def test_each_planted_mistake_gets_its_own_message(wrong: Callable[..., Any], text: str) -> None:
    assert_named(check.masking, "masking", wrong, text)


def test_the_case_shown_is_the_smallest_that_fails() -> None:
    rolled = wrong_in(ask=lambda ids, masked, selected: selected.roll(1, dims=1))
    said = words(verdict(check.masking, rolled))
    assert "of 200 cases come out wrong" in said
    assert re.search(r"Smallest case: ids = \[\[\d+, \d+\]\], chance", said)
    assert re.search(
        r"Token 1 \(id \d+, .*\): yours gives \d+, (not )?selected; it should give", said
    )


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (lambda m, s: (m.float(), s), "must stay whole numbers"),
        (lambda m, s: (m, m), "selected holds values other than True and False"),
    ],
)
def test_answers_of_the_wrong_kind_are_described(answer: Callable[..., Any], text: str) -> None:
    def wrong(ids: Tensor, chance: Tensor, group: Tensor, words: Tensor) -> Any:
        return answer(*right_masking(ids, chance, group, words))

    assert text in words(verdict(check.masking, wrong))
