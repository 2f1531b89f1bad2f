"""The exercises of notebook a1: a slope from differences, one step downhill, a training loop."""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from course.exercises.judge import Exercise, Inputs, drawer, named, read_numbers


def right_slope(f: Callable[[float], float], w: float, h: float) -> float:
    """Return the slope of f at w from two points, h to the left of w and h to the right."""
    return (f(w + h) - f(w - h)) / (2 * h)


def _slope_cases() -> list[Inputs]:
    """Take wide steps, so that one sees on which sides of w they are."""
    functions = [
        named("square", lambda w: w * w),
        named("cube", lambda w: w**3),
        named("minutes_loss", lambda w: (3 * w - 6) ** 2),
    ]
    return [(f, w, h) for f in functions for w in (1.0, 2.0, -1.0, 0.0) for h in (0.5, 0.25)]


SLOPE = Exercise(
    asks="(f, w, h) -> float, the slope of f at w, from f at w - h and at w + h",
    right=right_slope,
    cases=_slope_cases,
    tried="three functions at four points each, with steps of 0.5 and of 0.25.",
    start="f(w + h) - f(w - h): how much the function rises between the two points.",
    mistakes="""
    ✗ the slope is twice too large.
      the distance from w - h to w + h is 2h, not h.
    | (2 * h) => h
    ✗ the slope is four times too large: / 2 * h first halves, then multiplies by h.
      Python works from left to right. Put parentheses around (2 * h).
    | / (2 * h) => / 2 * h
    ✗ this is the slope to one side of w.
      on a curve the slope changes with every step. Go as far to the left as to the right:
      f(w + h) - f(w - h), over 2h.
    | (f(w + h) - f(w - h)) / (2 * h) => (f(w + h) - f(w)) / h
    ✗ this is how much f rises, not how much it rises for each unit of w.
      divide by the distance from w - h to w + h, which is 2h.
    | / (2 * h) =>
    """,
)


def right_descent_step(w: Tensor, gradient: Tensor, rate: float) -> Tensor:
    """Move parameters (n,) against their gradient (n,)."""
    return w - rate * gradient


def _step_cases() -> Iterator[Inputs]:
    draw = drawer(1)
    for size, rate in [(1, 0.1), (1, 0.5), (2, 0.1), (3, 0.5), (8, 0.05), (8, 2.0)] * 5:
        yield draw(size) + 1, draw(size) * 3, rate


DESCENT_STEP = Exercise(
    asks="(w (n,), gradient (n,), rate) -> (n,), the parameters after one step",
    right=right_descent_step,
    cases=_step_cases,
    tensors="your result",
    tried="30 random steps, from one parameter to eight, with rates from 0.05 to 2.",
    start="rate * gradient: how far each parameter moves. Which way?",
    in_place="w -= … writes into the tensor that you were given. Return w - … instead.",
    mistakes="""
    ✗ this goes uphill.
      the gradient points in the direction in which the loss rises. Subtract.
    | w - rate => w + rate
    ✗ the learning rate is missing.
      a slope says which way and how steep, not how far. Use rate * gradient.
    | rate * gradient => gradient
    ✗ this is the step, not the parameters after it.
      return w minus the step.
    | w - rate * gradient => rate * gradient
    """,
)


def right_training_loop(
    layer: nn.Linear, x: Tensor, y: Tensor, rate: float, steps: int
) -> list[float]:
    """Train on points x (N, 2) with classes y (N,); return the loss before each step."""
    optimizer = torch.optim.SGD(layer.parameters(), lr=rate)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = F.cross_entropy(layer(x), y)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        losses.append(loss.item())
    return losses


def _loop_cases() -> Iterator[Inputs]:
    draw = drawer(2)
    for points, rate, steps in [(2, 0.5, 3), (4, 1.0, 3), (6, 0.5, 5), (8, 1.0, 5)] * 3:
        layer = nn.Linear(2, 2, device="meta", dtype=torch.float32).to_empty(device="cpu")
        with torch.no_grad():
            layer.weight.copy_(draw(2, 2))
            layer.bias.copy_(draw(2))
        y = torch.arange(points) % 2
        yield named("a_linear_layer", layer), draw(points, 2).float() + y[:, None], y, rate, steps


TRAINING_LOOP = Exercise(
    asks="(layer, x (N, 2), y (N,), rate, steps) -> the loss before each step, a list of numbers",
    right=right_training_loop,
    cases=_loop_cases,
    read=lambda answer, *inputs: read_numbers(answer, "your list of losses", inputs[-1:]),
    tried="12 different layers, 2 to 8 points, 3 to 5 steps: every loss is right.",
    start="optimizer = torch.optim.SGD(layer.parameters(), lr=rate), and losses = [].",
    mistakes="""
    ✗ the gradients of all steps so far are added up.
      backward() adds to what is there. Call optimizer.zero_grad() before it, in every step.
    | optimizer.zero_grad() =>
    ✗ the loss is the same at every step: the layer does not move.
      backward() finds the gradients, step() uses them. Is one of the two missing, does step() come
      first, or is zero_grad() between them?
    | loss.backward() => loss.backward(); optimizer.zero_grad()
    ✗ softmax is applied twice.
      F.cross_entropy takes logits, and applies softmax itself. Give it layer(x) as it is.
    | layer(x), y => layer(x).softmax(-1), y
    """,
)
