"""The checks of notebook 18, second part: the mask of BigBird, and rotary positions."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from verdicts import assert_named, verdict

from bertedu.model.variants.bigbird import sparse_mask
from bertedu.model.variants.rotary import rotate
from course.exercises import check
from course.exercises.after_bert_sparse import right_window_mask

Wrong = Callable[..., Any]


def mask_by_loops(length: int, window: int, global_tokens: int, drawn: Tensor) -> Any:
    mask = [[False] * length for _ in range(length)]
    for i in range(length):
        for j in range(length):
            mask[i][j] = abs(i - j) <= window or min(i, j) < global_tokens or j in drawn[i]
    return torch.tensor(mask)


def rotate_by_complex(x: Tensor) -> Tensor:
    pairs = torch.view_as_complex(x.double().unflatten(-1, (-1, 2)))  # type: ignore[no-untyped-call]
    rate = 10000 ** (-torch.arange(pairs.shape[-1]).double() / pairs.shape[-1])
    angle = torch.arange(len(x))[:, None] * rate
    return torch.view_as_real(pairs * torch.polar(torch.ones_like(angle), angle)).flatten(-2)


def rotate_by_loops(x: Tensor) -> list[list[float]]:
    size = x.shape[1]
    rows = []
    for m, row in enumerate(x.tolist()):
        new: list[float] = []
        for k in range(size // 2):
            t = torch.tensor(m * 10000 ** (-2 * k / size))
            a, b = row[2 * k], row[2 * k + 1]
            new += [float(a * t.cos() - b * t.sin()), float(a * t.sin() + b * t.cos())]
        rows.append(new)
    return rows


def test_the_mask_of_the_exercise_is_the_packages_without_chance() -> None:
    none = torch.zeros(12, 0).long()
    assert torch.equal(right_window_mask(12, 2, 1, none), sparse_mask(12, 2, 1))


@pytest.mark.parametrize(
    ("name", "f"),
    [
        ("window_mask", mask_by_loops),
        ("window_mask", lambda *a: mask_by_loops(*a).numpy()),
        ("rotate", rotate_by_complex),
        ("rotate", rotate_by_loops),
        ("rotate", lambda x: rotate(x[None, None])[0, 0]),
    ],
)
def test_right_answers_pass(name: str, f: Wrong) -> None:
    assert verdict(getattr(check, name), f).startswith(f"✓ {name}: ")


MASKS: list[tuple[Wrong, str]] = [
    (lambda s, w, g, d: mask_by_loops(s, w, 0, d), "cases come out wrong"),
    (lambda s, w, g, d: mask_by_loops(s, w, g, d).float(), "a mask holds True and False"),
    (lambda s, w, g, d: ~mask_by_loops(s, w, g, d), "may 0 see 0? True"),
]
ROTATES: list[tuple[Wrong, str]] = [
    (lambda x: rotate(x.flip(0)).flip(0), "cases come out wrong"),
    (lambda x: rotate(x)[0], "is wanted here"),
]


@pytest.mark.parametrize(
    ("name", "wrong", "text"),
    [("window_mask", *some) for some in MASKS] + [("rotate", *some) for some in ROTATES],
)
def test_a_wrong_answer_is_named(name: str, wrong: Wrong, text: str) -> None:
    assert_named(getattr(check, name), name, wrong, text)
