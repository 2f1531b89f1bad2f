"""The checks of notebook a1."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from verdicts import assert_named, verdict

from course.exercises import check
from course.exercises.how_a_network_learns import right_slope, right_training_loop


def slope_by_loop(f: Callable[[float], float], w: float, h: float) -> float:
    left, right = (f(w + side * h) for side in (-1, 1))
    return (right - left) / h / 2


def step_by_loop(w: Tensor, gradient: Tensor, rate: float) -> list[float]:
    return [a - rate * b for a, b in zip(w.tolist(), gradient.tolist(), strict=True)]


def step_of_the_optimizer(w: Tensor, gradient: Tensor, rate: float) -> Tensor:
    moved = w.clone().requires_grad_()
    moved.grad = gradient
    torch.optim.SGD([moved], lr=rate).step()
    return moved


def loop_without_an_optimizer(
    layer: nn.Linear, x: Tensor, y: Tensor, rate: float, steps: int
) -> list[Tensor]:
    losses = []
    for _ in range(steps):
        losses.append(-layer(x).log_softmax(-1)[range(len(y)), y].mean())
        gradients = torch.autograd.grad(losses[-1], list(layer.parameters()))
        with torch.no_grad():
            for parameter, gradient in zip(layer.parameters(), gradients, strict=True):
                parameter -= rate * gradient
    return losses


def loop(order: str) -> Callable[..., list[float]]:
    """A learner's loop: z for zero_grad, f for forward, b for backward, s for step."""

    def train(layer: nn.Linear, x: Tensor, y: Tensor, rate: float, steps: int) -> list[float]:
        optimizer = torch.optim.SGD(layer.parameters(), lr=rate)
        losses, loss = [], F.cross_entropy(layer(x), y)
        for _ in range(steps):
            for line in order:
                if line == "z":
                    optimizer.zero_grad()
                elif line == "f":
                    loss = F.cross_entropy(layer(x), y)
                elif line == "b":
                    loss.backward()
                else:
                    optimizer.step()
            losses.append(loss.item())
        return losses

    return train


@pytest.mark.parametrize(
    ("name", "f"),
    [
        ("slope", slope_by_loop),
        ("slope", lambda f, w, h: torch.tensor(right_slope(f, w, h))),
        ("descent_step", step_by_loop),
        ("descent_step", step_of_the_optimizer),
        ("descent_step", lambda w, gradient, rate: (w - rate * gradient).numpy()),
        ("training_loop", loop_without_an_optimizer),
        ("training_loop", loop("zfbs")),
        ("training_loop", loop("fzbs")),
        ("training_loop", loop("fbsz")),
    ],
)
def test_right_answers_pass(name: str, f: Callable[..., Any]) -> None:
    assert verdict(getattr(check, name), f).startswith(f"✓ {name}: ")


def test_a_right_loop_passes_whatever_the_kind_of_number() -> None:
    """Notebook a1 computes in double precision, so that its digits are everybody's."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        assert verdict(check.training_loop, loop("zfbs")).startswith("✓")
        assert verdict(check.descent_step, step_by_loop).startswith("✓")
    finally:
        torch.set_default_dtype(before)


def step_in_place(w: Tensor, gradient: Tensor, rate: float) -> Tensor:
    w -= rate * gradient
    return w


PLANTED: list[tuple[str, Callable[..., Any], str]] = [
    ("slope", lambda f, w, h: (f(w + h) - f(w - h)) / h, "twice too large"),
    ("slope", lambda f, w, h: (f(w + h) - f(w - h)) / 2 * h, "halves, then multiplies"),
    ("slope", lambda f, w, h: (f(w + h) - f(w)) / h, "to one side of w"),
    ("slope", lambda f, w, h: f(w + h) - f(w - h), "not how much it rises for each unit"),
    ("slope", lambda f, w, h: f, "one number is wanted"),
    ("descent_step", step_in_place, "changes w in place"),
    ("descent_step", lambda w, g, rate: w + g * rate, "goes uphill"),
    ("descent_step", lambda w, g, rate: w - g, "learning rate is missing"),
    ("descent_step", lambda w, g, rate: g * rate, "the step, not the parameters after it"),
    ("descent_step", lambda w, g, rate: w - rate * g.mean(), "cases come out wrong"),
    ("training_loop", loop("fbs"), "of all steps so far are added up"),
    ("training_loop", loop("fbzs"), "the layer does not move"),
    ("training_loop", loop("zfsb"), "the layer does not move"),
    ("training_loop", loop("zfb"), "the layer does not move"),
    ("training_loop", loop("zfs"), "Is one of the two missing"),
    ("training_loop", lambda *a: right_training_loop(*a)[1:], "is wanted here"),
]


@pytest.mark.parametrize(
    ("name", "wrong", "text"), PLANTED, ids=[f"{n}-{t}" for n, _, t in PLANTED]
)
def test_a_wrong_answer_is_named(name: str, wrong: Callable[..., Any], text: str) -> None:
    assert_named(getattr(check, name), name, wrong, text)
