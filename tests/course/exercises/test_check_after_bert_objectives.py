"""The checks of notebook 17, part two: a reading order, replaced words, soft targets."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from verdicts import assert_named, verdict

from bertedu.model.variants.distillation import distillation_loss
from bertedu.model.variants.electra import replaced
from bertedu.model.variants.xlnet import order_masks
from course.exercises import check
from course.exercises.after_bert_objectives import ORDER_MASK, SOFT_TARGETS, right_soft_targets

Wrong = Callable[..., Any]


def masks_by_loop(order: Tensor) -> tuple[list[list[bool]], list[list[bool]]]:
    size, read = len(order), set()
    content = [[False] * size for _ in range(size)]
    query = [[False] * size for _ in range(size)]
    for place in order.tolist():
        for other in read:
            content[place][other] = query[place][other] = True
        content[place][place] = True
        read.add(place)
    return content, query


def replaced_by_copy(original: Tensor, sampled: Tensor, selected: Tensor) -> tuple[Tensor, Tensor]:
    ids = original.clone()
    ids[selected] = sampled[selected]
    return ids, (ids != original).float()


def replaced_in_place(original: Tensor, sampled: Tensor, selected: Tensor) -> tuple[Tensor, Tensor]:
    original[selected] = sampled[selected]
    return original, (original != sampled) & selected


def turned(student: Tensor, teacher: Tensor, temperature: float) -> Tensor:
    return right_soft_targets(teacher, student, temperature)


def without_square(student: Tensor, teacher: Tensor, temperature: float) -> Tensor:
    one, other = (student / temperature).log_softmax(-1), (teacher / temperature).softmax(-1)
    return F.kl_div(one, other, reduction="batchmean")


RIGHT: list[tuple[str, Wrong, str]] = [
    ("order_mask", masks_by_loop, "52 orders"),
    ("order_mask", lambda order: [m.float() for m in order_masks(order)], "52 orders"),
    ("replaced", replaced_by_copy, "100 random cases"),
    ("soft_targets", distillation_loss, "100 random cases"),
]


@pytest.mark.parametrize(("name", "f", "text"), RIGHT)
def test_right_answers_pass(name: str, f: Wrong, text: str) -> None:
    assert verdict(getattr(check, name), f).startswith(f"✓ {name}: {text}")


def by_one(order: Tensor) -> Any:
    content, query = order_masks(order)
    return content, query | torch.eye(len(order)).bool()


WRONG: list[tuple[str, Wrong, str]] = [
    ("order_mask", by_one, "sees the word that it has to guess"),
    ("order_mask", lambda o: order_masks(o.argsort()), "is taken for the turn of place i"),
    ("order_mask", lambda o: order_masks(o)[0], "content, query"),
    ("order_mask", lambda o: order_masks(o.flip(0)), "rows and columns are swapped"),
    ("replaced", lambda o, s, c: (torch.where(c, s, o), c), "happens to be the original counts"),
    ("replaced", replaced_in_place, "changes original in place"),
    ("replaced", lambda o, s, c: replaced(o, s, ~c), "cases come out wrong"),
    ("soft_targets", turned, "turned round"),
    ("soft_targets", without_square, "the square of the temperature is missing"),
    ("soft_targets", lambda s, t, k: F.mse_loss(s, t), "cases come out wrong"),
]


@pytest.mark.parametrize(("name", "wrong", "text"), WRONG)
def test_a_wrong_answer_is_named(name: str, wrong: Wrong, text: str) -> None:
    assert_named(getattr(check, name), name, wrong, text)


def test_the_cases_can_tell_an_order_from_its_turns_and_a_temperature_from_none() -> None:
    orders = [order for (order,) in ORDER_MASK.cases()]
    assert sum(not torch.equal(order, order.argsort()) for order in orders) > 30
    for student, teacher, temperature in SOFT_TARGETS.cases():
        torch.testing.assert_close(
            right_soft_targets(student, teacher, temperature),
            distillation_loss(student, teacher, temperature),
        )
