"""The exercises of notebook a1: a slope from differences, slopes from rules, a training loop."""

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from course.exercises import judge
from course.exercises.judge import Exercise, Inputs, UnreadableError, named, offered


def _slope_cases() -> list[Inputs]:
    """Take wide steps, so that one sees on which sides of w they are."""
    functions = [
        named("square", lambda w: w * w),
        named("cube", lambda w: w**3),
        named("minutes_loss", lambda w: (3 * w - 6) ** 2),
    ]
    return [(f, w, h) for f in functions for w in (1.0, 2.0, -1.0, 0.0) for h in (0.5, 0.25)]


@Exercise.asking(
    asks="(f, w, h) -> float, the slope of f at w, from f at w - h and at w + h",
    cases=_slope_cases,
    tried="three functions at four points each, with steps of 0.5 and of 0.25.",
    start="f(w + h) - f(w - h): how much the function rises between the two points.",
    mistakes="""
    ✗ the slope is twice too large.
      the distance from w - h to w + h is 2h, not h.
    | (2 * h) => h
    ✗ the slope is too small: / 2 * h first halves, then multiplies by h.
      Python works from left to right. Put parentheses around (2 * h).
    | / (2 * h) => / 2 * h
    ✗ this is the slope to one side of w.
      on a curve the slope changes with every step. Go as far to the left as to the right:
      f(w + h) - f(w - h), over 2h.
    | (f(w + h) - f(w - h)) / (2 * h) => (f(w + h) - f(w)) / h
    | (f(w + h) - f(w - h)) / (2 * h) => (f(w) - f(w - h)) / h
    ✗ this is how much f rises, not how much it rises for each unit of w.
      divide by the distance from w - h to w + h, which is 2h.
    | / (2 * h) =>
    """,
)
def right_slope(f: Callable[[float], float], w: float, h: float) -> float:
    """Return the slope of f at w from two points, h to the left of w and h to the right."""
    return (f(w + h) - f(w - h)) / (2 * h)


# -- slopes from rules


@offered
class Number:
    """A number that remembers its parts, each with the slope of this number with respect to it."""

    def __init__(self, value: float, parts: Sequence[tuple["Number", float]] = ()) -> None:
        """Take a value, and pairs (part, slope); none for a number that was made of nothing."""
        self.value, self.parts = value, list(parts)

    def __repr__(self) -> str:
        """Write the value, and what it was made of."""
        parts = ", ".join(f"{part.value:g}: slope {slope:g}" for part, slope in self.parts)
        return f"{self.value:g}" + f" ({parts})" * bool(parts)


def _read_part(part: Any, slope: Any) -> tuple[str, float]:
    """Read a pair as the name of its part, which a copy does not have, and the slope."""
    if hasattr(slope, "value"):
        raise UnreadableError("a slope is a Number; pairs are (part, slope), a slope is a float.")
    if not hasattr(part, "value"):
        raise UnreadableError(f"a part is {judge.kind_of(part)}; the Number itself is wanted.")
    if not hasattr(part, "__name__"):
        raise UnreadableError("a part is a copy; the Number itself is wanted.")
    return part.__name__, judge.number(slope)


def _read_number(answer: Any, *_: Any) -> tuple[float, list[tuple[str, float]]]:
    value, made_of = getattr(answer, "value", None), getattr(answer, "parts", [()])  # no pair
    pairs = all(isinstance(pair, list | tuple) and len(pair) == 2 for pair in made_of)
    if not isinstance(value, int | float) or not pairs:
        raise UnreadableError("a Number is wanted: Number(value, [(part, slope), …]).")
    return float(value), sorted(_read_part(part, slope) for part, slope in made_of)


def _factors() -> Iterator[Inputs]:
    """Name the numbers: a part is told by its name."""
    for a in (2.0, -1.5, 0.0):
        for b in (3.0, -0.5, 4.0):
            yield named("a", Number(a)), named("b", Number(b))


@Exercise.asking(
    asks="(a, b) -> Number: the product, and its parts with their slopes",
    cases=_factors,
    read=_read_number,
    tried="9 products, of positive and negative numbers and of 0.",
    start="the value a.value * b.value. If a grows by 1, by how much does it grow?",
    mistakes="""
    ✗ each part has its own value for a slope.
      if a grows by 1, the product grows by one more b. The slope with respect to a is b's value.
    | (a, b.value), (b, a.value) => (a, a.value), (b, b.value)
    ✗ the slopes are those of a sum.
      in a + b each part counts once: slope 1. In a · b a change of a counts b times.
    | (a, b.value), (b, a.value) => (a, 1.0), (b, 1.0)
    ✗ the product has forgotten its parts.
      Number(value, [(a, …), (b, …)]): without them there is no way back.
    | , [(a, b.value), (b, a.value)] =>
    """,
)
def right_times(a: Number, b: Number) -> Number:
    """Multiply: if a grows by a little, the product grows by b times as much."""
    return Number(a.value * b.value, [(a, b.value), (b, a.value)])


def _play(rng: random.Random, size: int) -> list[Number]:
    """Make a calculation: each number after its parts, all needed for the last, many twice."""
    made = [Number(rng.choice((-2.0, -1.0, 1.0, 2.0, 3.0))) for _ in range(2)]
    while len(made) < size:
        a, b = rng.sample([made[-1], rng.choice(made)], 2)
        slopes = (1.0, 1.0) if rng.random() < 0.5 else (b.value, a.value)
        value = a.value + b.value if slopes == (1.0, 1.0) else a.value * b.value
        made.append(Number(value / 2, [(a, slopes[0] / 2), (b, slopes[1] / 2)]))
    used = {id(part) for number in made for part, _ in number.parts} | {id(made[-1])}
    return [number for number in made if id(number) in used]


def _plays() -> Iterator[list[Number]]:
    a, b = Number(2.0), Number(3.0)
    yield [a]
    yield [a, b, right_times(a, b)]
    yield [a, right_times(a, a)]
    rng = random.Random(4)
    yield from (_play(rng, size) for size in [4] * 10 + [6] * 10 + [12] * 10)


def _read_order(answer: Any, last: Number) -> tuple[list[float], bool]:
    """Return the values in the list, and whether each number stands behind its parts."""
    if not isinstance(answer, list | tuple) or not all(hasattr(one, "parts") for one in answer):
        raise UnreadableError("a list of Numbers is wanted.")
    index = {id(number): i for i, number in enumerate(answer)}
    pairs = [(index.get(id(p), 99), index[id(n)]) for n in answer for p, _ in n.parts]
    return sorted(float(one.value) for one in answer), all(a < b for a, b in pairs)


def _order_difference(_: Inputs, mine: Any, right: Any) -> str:
    if mine[0] != right[0]:
        return f"Yours holds the values {mine[0]}; they should be {right[0]}."
    return "In yours, a number stands before one of its parts."


@Exercise.asking(
    asks="(last) -> list of all Numbers it is made of, itself too, each once and after its parts",
    cases=lambda: [(numbers[-1],) for numbers in _plays()],
    read=_read_order,
    differ=_order_difference,
    tried="33 calculations, of one number to twelve, most of them with numbers used twice.",
    start="a function visit(number) inside yours: visit each part first, then append the number.",
    mistakes="""
    ✗ a number that is used twice is in the list twice.
      two ways lead to it. Remember in a set which numbers you have seen, and visit none again.
    | if number not in seen: => if True:
    ✗ numbers stand before their parts.
      append after the loop over the parts, not before it, and do not turn the list around.
    | return found => return found[::-1]
    | seen.add(number) => seen.add(number); found.insert(0, number) && found.append(number) =>
    ✗ only the first part of each number is followed.
      a number has several parts: loop over all of number.parts.
    | in number.parts => in number.parts[:1]
    ✗ the last number itself is missing.
      it belongs to the list, at the end: append every number that is visited.
    | return found => return found[:-1]
    """,
)
def right_in_order(last: Number) -> list[Number]:
    """Return all numbers that ``last`` is made of, each once and after its parts."""
    found: list[Number] = []
    seen = set()

    def visit(number: Number) -> None:
        if number not in seen:
            seen.add(number)
            for part, _ in number.parts:
                visit(part)
            found.append(number)

    visit(last)
    return found


@Exercise.asking(
    asks="(numbers, each after its parts) -> list: the slope of the last one with respect to each",
    moved=judge.anything_moved,
    cases=lambda: [(numbers,) for numbers in _plays()],
    read=lambda answer, numbers: judge.read_numbers(answer, "your list of slopes", (len(numbers),)),
    tried="33 calculations, of one number to twelve, most of them with numbers used twice.",
    start="slopes = dict.fromkeys(numbers, 0.0), and a 1.0 for the last number. Then go through "
    "reversed(numbers): what does each hand on to its parts?",
    in_place="your next cell needs this list. reversed(numbers) leaves it as it is.",
    mistakes="""
    ✗ a number that is used twice keeps only one of its slopes.
      each use hands on a slope of its own, and they add up: slopes[part] += …
    | slopes[part] += => slopes[part] =
    ✗ each part gets only the slope of the last step.
      slopes multiply along the way: slopes[number] * slope.
    | slopes[number] * slope => slope
    ✗ slopes are added along the way.
      if the last grows 2 times as fast as b, and b 3 times as fast as a, then it grows 6 times as
      fast as a: multiply.
    | slopes[number] * slope => slopes[number] + slope
    ✗ the numbers are gone through from the first to the last.
      what a number hands on is known only when all that use it have been asked: reversed(numbers).
    | reversed(numbers) => numbers
    ✗ all slopes are 0.
      begin with something: the last number's slope with respect to itself is 1.
    | slopes[numbers[-1]] = 1.0 =>
    """,
)
def right_backward(numbers: Sequence[Number]) -> list[float]:
    """Return the slope of the last number with respect to each; all stand after their parts."""
    slopes = dict.fromkeys(numbers, 0.0)
    slopes[numbers[-1]] = 1.0
    for number in reversed(numbers):
        for part, slope in number.parts:
            slopes[part] += slopes[number] * slope
    return [slopes[number] for number in numbers]


def _loop_cases() -> Iterator[Inputs]:
    draw = judge.drawer(2)
    for points, rate, steps in [(2, 0.5, 3), (4, 1.0, 3), (6, 0.5, 5), (8, 1.0, 5)] * 3:
        layer = nn.Linear(2, 2, device="meta", dtype=torch.float32).to_empty(device="cpu")
        layer.weight.data, layer.bias.data = draw(2, 2).float(), draw(2).float()
        y = torch.arange(points) % 2
        yield named("a_linear_layer", layer), draw(points, 2).float() + y[:, None], y, rate, steps


@Exercise.asking(
    asks="(layer, x (N, 2), y (N,), rate, steps) -> the loss before each step, a list of numbers",
    cases=_loop_cases,
    read=lambda answer, *inputs: judge.read_numbers(answer, "your list of losses", inputs[-1:]),
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
