"""The checks on pre-training: learning rate, clipping, AdamW, what it costs, a test of resuming."""

import copy
import math
from collections.abc import Callable
from typing import Any, Self

import torch
from torch import Tensor, nn

from bertedu.check import exercise
from bertedu.check.exercise import Exercise, Function, Inputs, Mistake, UnreadableError
from bertedu.check.museum import Exhibit, TestExercise, judge_test
from bertedu.pretraining.loop import Recipe, load_state, make_optimizer, save_state

# -- learning rate


def right_learning_rate(step: int, steps: int, warmup: int, peak: float) -> float:
    """Rise in a line for ``warmup`` steps, then fall in a line; ``step`` counts from 0."""
    rise = (step + 1) / warmup
    fall = (steps - step) / (steps - warmup)
    return peak * min(rise, fall)


def _rate_cases() -> list[Inputs]:
    runs = ((3, 1, 2.0), (4, 2, 0.5), (6, 3, 10.0), (10, 4, 1.0), (20, 2, 4.0), (50, 10, 2.0))
    return [(step, *run) for run in runs for step in range(run[0])]


def _read_number(answer: Any, *_: Any) -> float:
    return exercise.read_number(answer)


Curve = Callable[[int, int, int], float]  # (step, steps, warmup) -> share of the peak


def _rise(s: int, n: int, w: int) -> float:
    return (s + 1) / w


def _fall(s: int, n: int, w: int) -> float:
    return (n - s) / (n - w)


def _rate(rise: Curve, fall: Curve) -> tuple[Function, Function]:
    """Make a schedule of two curves, joined by an if and by a min."""
    return (
        lambda s, n, w, p: p * (rise(s, n, w) if s < w else fall(s, n, w)),
        lambda s, n, w, p: p * min(rise(s, n, w), fall(s, n, w), 1),
    )


LEARNING_RATE = Exercise(
    name="learning_rate",
    right=right_learning_rate,
    cases=_rate_cases,
    read=_read_number,
    tried="every step of 6 runs, from 3 steps to 50. It reaches peak and never goes above.",
    start="rise = (step + 1) / warmup. What is the line that is 1 at step warmup, and 0 at steps?",
    source=(Recipe.learning_rate_at, right_learning_rate),
    mistakes=(
        Mistake(
            "there is no warm-up.",
            "nothing rises. Adam's averages of the first steps know little, so these steps must be "
            "small: (step + 1) / warmup while that is less than 1.",
            (
                *_rate(lambda s, n, w: 1, _fall),
                lambda s, n, w, p: p * _fall(s, n, w),
                lambda s, n, w, p: p * (n - s) / n,
            ),
        ),
        Mistake(
            "the rate stays at peak after warm-up.",
            "the fall is missing: (steps - step) / (steps - warmup).",
            _rate(_rise, lambda s, n, w: 1),
        ),
        Mistake(
            "the rate is peak at every step.",
            "warmup and steps are not used; or max stands where min is wanted: of rise and fall "
            "the lower one counts.",
            (lambda s, n, w, p: p,),
        ),
        Mistake(
            "the higher of rise and fall is taken.",
            "max where min is wanted. Rise holds while it is the lower one, then fall.",
            (lambda s, n, w, p: p * max(_rise(s, n, w), _fall(s, n, w)),),
        ),
        Mistake(
            "the rate rises forever.",
            "nothing stops (step + 1) / warmup at 1, and nothing falls: take min with the fall.",
            (lambda s, n, w, p: p * _rise(s, n, w),),
        ),
        Mistake(
            "the fall is measured from step 0, not from the end of warm-up.",
            "(steps - step) / steps is below 1 when warm-up ends, so the rate jumps. Divide by "
            "steps - warmup. (Google's own BERT jumps: by 1 %, its warm-up being that short.)",
            (
                *_rate(_rise, lambda s, n, w: (n - s) / n),
                lambda s, n, w, p: p * min(1, _rise(s, n, w)) * (n - s) / n,
            ),
        ),
        Mistake(
            "the fall does not begin at peak, and ends below 0.",
            "1 - step / (steps - warmup) begins at step 0. Count from the end of warm-up: "
            "step - warmup.",
            _rate(_rise, lambda s, n, w: 1 - s / (n - w)),
        ),
        Mistake(
            "the fall does not end at 0.",
            "it takes steps - warmup steps, not steps: divide by steps - warmup.",
            _rate(_rise, lambda s, n, w: 1 - (s - w) / n),
        ),
        Mistake(
            "the rate of step 0 is 0: the first step changes nothing.",
            "step / warmup. Steps count from 0, so rise with step + 1.",
            _rate(lambda s, n, w: s / w, _fall),
        ),
        Mistake(
            "the fall is one step early, so the last step's rate is 0.",
            "The last step is steps - 1, and its rate is not 0 yet: "
            "(steps - step) / (steps - warmup).",
            (
                *_rate(_rise, lambda s, n, w: (n - s - 1) / (n - w)),
                *_rate(_rise, lambda s, n, w: (n - s - 1) / (n - w - 1)),
            ),
        ),
        Mistake(
            "the fall begins one step early.",
            "divide by steps - warmup, without + 1: at step = warmup the rate is peak.",
            _rate(_rise, lambda s, n, w: (n - s) / (n - w + 1)),
        ),
        Mistake(
            "one step, at step = warmup, is above peak.",
            "step <= warmup where step < warmup is wanted; min(rise, fall) needs no if.",
            (lambda s, n, w, p: p * (_rise if s <= w else _fall)(s, n, w),),
        ),
        Mistake(
            "peak is not a factor of the whole rate.",
            "rise and fall are shares of peak, between 0 and 1: peak * min(rise, fall).",
            (
                lambda s, n, w, p: min(_rise(s, n, w), _fall(s, n, w)),
                lambda s, n, w, p: min(p, _rise(s, n, w), _fall(s, n, w)),
                lambda s, n, w, p: min(p * _rise(s, n, w), _fall(s, n, w)),
                lambda s, n, w, p: min(_rise(s, n, w), p * _fall(s, n, w)),
                lambda s, n, w, p: p * _rise(s, n, w) if s < w else _fall(s, n, w),
                lambda s, n, w, p: _rise(s, n, w) if s < w else p * _fall(s, n, w),
            ),
        ),
        Mistake(
            "the rate falls with the root of the step.",
            "that is the schedule of the first Transformer, which never reaches 0. BERT's fall is "
            "a line: (steps - step) / (steps - warmup).",
            (
                *_rate(_rise, lambda s, n, w: (w / (s + 1)) ** 0.5),
                *_rate(_rise, lambda s, n, w: (w / max(s, 1)) ** 0.5),
            ),
        ),
        Mistake(
            "the rate falls as a cosine.",
            "many recipes do; BERT's fall is a line: (steps - step) / (steps - warmup).",
            _rate(_rise, lambda s, n, w: 0.5 * (1 + math.cos(math.pi * (s - w) / (n - w)))),
        ),
        Mistake(
            "the division drops what is behind the point.",
            "// gives whole numbers, 0 for all shares below 1. Use /.",
            (
                *_rate(lambda s, n, w: (s + 1) // w, _fall),
                *_rate(_rise, lambda s, n, w: (n - s) // (n - w)),
                *_rate(lambda s, n, w: (s + 1) // w, lambda s, n, w: (n - s) // (n - w)),
            ),
        ),
        Mistake(
            "rise and fall are multiplied, though each is above 1 at times.",
            "only the lower one counts: min(rise, fall).",
            (lambda s, n, w, p: p * _rise(s, n, w) * _fall(s, n, w),),
        ),
        Mistake(
            "the rise is stretched over all steps.",
            "(step + 1) / steps. It is done after warmup steps: (step + 1) / warmup.",
            _rate(lambda s, n, w: (s + 1) / n, _fall),
        ),
        Mistake(
            "after warm-up the rate begins at 0 and rises again.",
            "(step - warmup) / (steps - warmup) is the share that is over. Take the share that is "
            "left: (steps - step) / (steps - warmup).",
            _rate(_rise, lambda s, n, w: (s - w) / (n - w)),
        ),
    ),
)


def learning_rate(function: object) -> None:
    """Check ``(step, steps, warmup, peak) -> float``: up in a line, then down in a line.

    Step counts from 0; the rate of the last warm-up step is ``peak``, that of ``steps`` would be 0.
    """
    print(exercise.judge(LEARNING_RATE, function))


# -- clipping

Gradients = list[Tensor]


def right_clip(gradients: Gradients, max_norm: float) -> Gradients:
    """Scale all gradients by one factor, so that their common norm is at most ``max_norm``."""
    norm = sum(g.square().sum().item() for g in gradients) ** 0.5
    scale = max_norm / norm if norm > max_norm else 1.0
    return [g * scale for g in gradients]


def _clip_cases() -> list[Inputs]:
    generator = torch.Generator().manual_seed(9)
    cases: list[Inputs] = [([torch.tensor([3.0]), torch.tensor([-4.0])], 2.5)]
    shapes: tuple[tuple[tuple[int, ...], ...], ...] = (
        ((1,), (1,)),
        ((2,), (1,)),
        ((2,), (2,), (1,)),
        ((2, 2), (3,)),
        ((4, 5), (5,), (5, 4), (4,)),
    )
    for sizes in shapes:
        for _ in range(16):
            gradients = []
            for size in sizes:
                number = torch.randint(1, 7, size, generator=generator) / 2  # never 0
                gradients.append(number * (torch.randint(2, size, generator=generator) * 2 - 1))
            pick = int(torch.randint(5, (1,), generator=generator))
            cases.append((gradients, (0.5, 1.0, 2.0, 5.0, 20.0)[pick]))
    return cases


def _in_place(own: Inputs, given: Inputs) -> bool:
    """Whether the list of gradients or one of the tensors is another now."""
    return len(own[0]) != len(given[0]) or not all(map(torch.equal, own[0], given[0]))


def _read_clip(answer: Any, gradients: Gradients, max_norm: float) -> list[Any]:
    if isinstance(answer, exercise.Changed):
        raise UnreadableError(
            "your function changes gradients in place; return new tensors, g * scale for each g."
        )
    if not isinstance(answer, list | tuple):
        kind = f"a {type(answer).__name__}"
        raise UnreadableError(f"your function returned {kind}; a list of tensors is wanted.")
    if len(answer) != len(gradients):
        raise UnreadableError(
            f"your function returned a list of {len(answer)}; as many tensors as in gradients are "
            f"wanted, here {len(gradients)}."
        )
    return [
        exercise.read_tensor(mine, f"tensor {i + 1} of the list", g.shape).float().tolist()
        for i, (mine, g) in enumerate(zip(answer, gradients, strict=True))
    ]


def _clip_by(norm: Callable[[Gradients], Any]) -> Function:
    """Make a clipping that measures in its own way and then does everything right."""

    def wrong(gradients: Gradients, max_norm: float) -> Gradients:
        measured = float(norm(gradients))
        return [g * (max_norm / measured if measured > max_norm else 1) for g in gradients]

    return wrong


def _scale_by(factor: Callable[[float, float], float]) -> Function:
    """Make a clipping that measures rightly and then scales in its own way."""

    def wrong(gradients: Gradients, max_norm: float) -> Gradients:
        norm = float(_all(gradients).norm())
        return [g * factor(norm, max_norm) for g in gradients]

    return wrong


def _all(gradients: Gradients) -> Tensor:
    return torch.cat([g.flatten() for g in gradients])


def _long_ones_only(gradients: Gradients, max_norm: float) -> Gradients:
    scaled = right_clip(gradients, max_norm)
    return [s if g.norm() > max_norm else g for g, s in zip(gradients, scaled, strict=True)]


CLIP = Exercise(
    name="clip",
    right=right_clip,
    cases=_clip_cases,
    read=_read_clip,
    tried="81 random cases, of 2 to 4 tensors. Long gradients get shorter and keep their "
    "direction, short ones stay.",
    start="one norm of all numbers in all tensors: the root of the sum of their squares.",
    source=(right_clip,),
    mistakes=(
        Mistake(
            "each tensor is clipped by itself.",
            "the norm is taken inside the loop. One norm of all tensors together, and one factor "
            "for all, or the direction of the step changes.",
            (lambda gs, top: [right_clip([g], top)[0] for g in gs],),
        ),
        Mistake(
            "each number is clipped by itself.",
            "clamp bends the direction of the step. Multiply all numbers by one factor, "
            "max_norm / norm.",
            (lambda gs, top: [g.clamp(-top, top) for g in gs],),
        ),
        Mistake(
            "only tensors that are too long by themselves are scaled.",
            "the if stands inside the loop. Compare the norm of all with max_norm, once.",
            (_long_ones_only,),
        ),
        Mistake(
            "the norms of the tensors are added up.",
            "lengths in different directions do not add: add up the squares of the norms, then "
            "take the root.",
            (_clip_by(lambda gs: sum(g.norm() for g in gs)),),
        ),
        Mistake(
            "the numbers are added up without being squared.",
            "the norm is the root of the sum of squares.",
            (
                _clip_by(lambda gs: _all(gs).abs().sum()),
                _clip_by(lambda gs: _all(gs).abs().sum() ** 0.5),
            ),
        ),
        Mistake(
            "the numbers are added up before they are squared.",
            "plus and minus cancel. First g.square(), then .sum(), then the root.",
            (
                _clip_by(lambda gs: _all(gs).sum().abs()),
                _clip_by(lambda gs: sum(g.sum().square() for g in gs) ** 0.5),
            ),
        ),
        Mistake(
            "the root is missing: this is the norm squared.",
            "take the root of the sum of squares, ** 0.5.",
            (_clip_by(lambda gs: _all(gs).square().sum()),),
        ),
        Mistake(
            "a mean is taken where a sum is wanted.",
            "the norm grows with the number of weights: the root of the *sum* of squares.",
            (
                _clip_by(lambda gs: _all(gs).square().mean().sqrt()),
                _clip_by(lambda gs: sum(g.square().mean() for g in gs) ** 0.5),
                _clip_by(lambda gs: (sum(g.square().sum() for g in gs) / len(gs)) ** 0.5),
                _clip_by(lambda gs: sum(g.norm() for g in gs) / len(gs)),
            ),
        ),
        Mistake(
            "the largest number is taken for the norm.",
            "that is the norm of order infinity. Take the root of the sum of squares.",
            (_clip_by(lambda gs: _all(gs).abs().max()),),
        ),
        Mistake(
            "the norm is that of one tensor only.",
            "a loop that writes over its result, or max. Add up the squares of all tensors.",
            (
                _clip_by(lambda gs: gs[-1].norm()),
                _clip_by(lambda gs: gs[0].norm()),
                _clip_by(lambda gs: max(g.norm() for g in gs)),
            ),
        ),
        Mistake(
            "small gradients are scaled up.",
            "the if is missing. Near the end gradients should be small: scale only if norm is "
            "above max_norm, or by min(1, max_norm / norm).",
            (_scale_by(lambda norm, top: top / norm),),
        ),
        Mistake(
            "small gradients are scaled up, and large ones stay.",
            "max where min is wanted, or < where >. Scale if norm is above max_norm.",
            (_scale_by(lambda norm, top: max(1, top / norm)),),
        ),
        Mistake(
            "nothing is ever scaled.",
            "the scaled tensors are not the ones returned, or the if is never true.",
            (_scale_by(lambda norm, top: 1),),
        ),
        Mistake(
            "the norm becomes 1, not max_norm.",
            "g / norm has length 1. Multiply by max_norm, too.",
            (
                _scale_by(lambda norm, top: 1 / norm if norm > top else 1),
                _scale_by(lambda norm, top: 1 / norm),
                _scale_by(lambda norm, top: min(1, 1 / norm)),
            ),
        ),
        Mistake(
            "large gradients are multiplied by max_norm, and not divided by norm.",
            "the factor is max_norm / norm.",
            (
                _scale_by(lambda norm, top: top if norm > top else 1),
                _scale_by(lambda norm, top: top),
            ),
        ),
        Mistake(
            "large gradients get larger.",
            "the fraction is upside down: max_norm / norm.",
            (
                _scale_by(lambda norm, top: norm / top if norm > top else 1),
                _scale_by(lambda norm, top: norm / top),
            ),
        ),
        Mistake(
            "large gradients are thrown away.",
            "the step is still to be made, only shorter: scale by max_norm / norm.",
            (_scale_by(lambda norm, top: 0 if norm > top else 1),),
        ),
    ),
)


def clip(function: object) -> None:
    """Check ``(gradients, max_norm) -> list of tensors``.

    Right is to scale all of them by max_norm / norm if their common norm is above max_norm.
    """
    print(exercise.judge(CLIP, exercise.that_changes_nothing(function, _in_place)))


# -- AdamW


def right_adamw(
    weight: Tensor, gradient: Tensor, m: Tensor, v: Tensor, t: int, rate: float, decay: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Do step ``t``, which counts from 1, of AdamW; return weight, m and v after it."""
    m = 0.9 * m + 0.1 * gradient
    v = 0.999 * v + 0.001 * gradient**2
    m_hat = m / (1 - 0.9**t)
    v_hat = v / (1 - 0.999**t)
    weight = weight - rate * decay * weight
    weight = weight - rate * m_hat / (v_hat.sqrt() + 1e-8)
    return weight, m, v


def _adamw_cases() -> list[Inputs]:
    """First steps that can be done by hand, a gradient of 0, a tiny one, then later steps."""
    generator = torch.Generator().manual_seed(10)

    def whole(low: int, high: int, size: int) -> Tensor:
        sign = torch.randint(2, (size,), generator=generator) * 2 - 1
        return sign * torch.randint(low, high, (size,), generator=generator).float()

    zero = torch.zeros(1)
    cases: list[Inputs] = [
        (torch.ones(1), torch.full((1,), 2.0), zero, zero, 1, 0.1, 0.5),
        (torch.ones(1), zero, zero, zero, 1, 0.1, 0.5),
        (zero, torch.full((1,), 0.001), zero, zero, 1, 1.0, 0.0),
    ]
    for size, ts in ((1, (1, 2, 3)), (2, (1, 2, 3, 5, 10)), (6, (1, 2, 10, 100))):
        for t in ts:
            for rate, decay in ((0.1, 0.5), (1.0, 0.1), (0.5, 0.5), (1.0, 0.0)):
                weight, m, v = whole(1, 9, size) / 2, torch.zeros(size), torch.zeros(size)
                for now in range(1, t):
                    _, m, v = right_adamw(weight, whole(2, 9, size), m, v, now, rate, decay)
                m, v = m.mul(1000).round() / 1000, v.mul(1000).round() / 1000
                cases.append((weight, whole(2, 9, size), m, v, t, rate, decay))
    return cases


def _read_adamw(answer: Any, weight: Tensor, *_: Any) -> tuple[list[Any], list[Any]]:
    """The averages come first: the weight follows from them."""
    if not isinstance(answer, tuple | list) or len(answer) != 3:
        many = f" of {len(answer)}" if isinstance(answer, tuple | list) else ""
        raise UnreadableError(
            f"your function returned a {type(answer).__name__}{many}; return three things: "
            "weight, m, v."
        )
    new, m, v = (
        exercise.read_tensor(part, name, weight.shape).double().tolist()
        for name, part in zip(("weight", "m", "v"), answer, strict=True)
    )
    return [m, v], new


def _adamw_difference(inputs: Inputs, mine: Any, right: Any) -> str:
    said = []
    for name, yours, ours in zip("mv", mine[0], right[0], strict=True):
        if not exercise.alike(yours, ours):
            said.append(f"{name}: yours {exercise.plain(yours)}, right {exercise.plain(ours)}.")
    if not exercise.alike(mine[1], right[1]):
        yours, ours = exercise.plain(mine[1]), exercise.plain(right[1])
        said.append(f"weight: yours {yours}, right {ours}.")
    return "After the step, " + " ".join(said)


def _new_m(m: Tensor, g: Tensor) -> Tensor:
    return 0.9 * m + 0.1 * g


def _new_v(v: Tensor, g: Tensor) -> Tensor:
    return 0.999 * v + 0.001 * g**2


def _m_hat(m: Tensor, t: int) -> Tensor:
    return m / (1 - 0.9**t)


def _v_hat(v: Tensor, t: int) -> Tensor:
    return v / (1 - 0.999**t)


def _step(m: Tensor, v: Tensor, t: int) -> Tensor:
    return _m_hat(m, t) / (_v_hat(v, t).sqrt() + 1e-8)


def _adamw_but(
    m: Callable[[Tensor, Tensor], Tensor] = _new_m,
    v: Callable[[Tensor, Tensor], Tensor] = _new_v,
    step: Callable[[Tensor, Tensor, int], Tensor] = _step,
    decay: Callable[[float, float], float] = lambda rate, decay: rate * decay,
) -> Function:
    """Make an AdamW that is right but for some of its four parts."""

    def wrong(
        w: Tensor, g: Tensor, old_m: Tensor, old_v: Tensor, t: int, rate: float, pull: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        new_m, new_v = m(old_m, g), v(old_v, g)
        return w - decay(rate, pull) * w - rate * step(new_m, new_v, t), new_m, new_v

    return wrong


def _adamw_along(step: Callable[..., Tensor]) -> Function:
    """Make an AdamW that moves along ``step(gradient, old m, old v, t, decay * weight)``."""

    def wrong(
        w: Tensor, g: Tensor, m: Tensor, v: Tensor, t: int, rate: float, decay: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        return w - rate * step(g, m, v, t, decay * w), _new_m(m, g), _new_v(v, g)

    return wrong


def _adamw_given(change: Callable[..., Any]) -> Function:
    """Make an AdamW of other inputs: ``change(w, g, m, v, t, rate, decay)``."""
    return lambda *inputs: right_adamw(*change(*inputs))


def _adamw_returning(change: Callable[..., tuple[Any, ...]]) -> Function:
    """Make an AdamW that returns ``change(new weight, new m, new v, *inputs)``."""
    return lambda *inputs: change(*right_adamw(*inputs), *inputs)


ADAMW = Exercise(
    name="adamw",
    right=right_adamw,
    cases=_adamw_cases,
    read=_read_adamw,
    differ=_adamw_difference,
    first_part=0,
    tried="51 steps, from the first to the hundredth, as torch.optim.AdamW does them.",
    start="the two averages: m = 0.9 * m + 0.1 * gradient, and v the same way, of the squares.",
    in_place="m += … and m.mul_(…) write into the caller's tensor; m = m + … makes a new one.",
    source=(right_adamw, make_optimizer),
    mistakes=(
        Mistake(
            "decay is added to the gradient: this is Adam with L2, which AdamW mends.",
            "there, decay goes through m and v and is divided by the root: weights with large "
            "gradients hardly decay. Keep it out: weight - rate * decay * weight.",
            (
                _adamw_given(lambda w, g, m, v, t, rate, pull: (w, g + pull * w, m, v, t, rate, 0)),
                _adamw_given(
                    lambda w, g, m, v, t, rate, pull: (w, g + pull * w, m, v, t, rate, pull)
                ),
            ),
        ),
        Mistake(
            "decay is divided by the root of v, too.",
            "it stands inside the fraction. Decay is the same for all weights: take "
            "rate * decay * weight, outside.",
            (
                _adamw_along(
                    lambda g, m, v, t, pull: (
                        (_m_hat(_new_m(m, g), t) + pull)
                        / (_v_hat(_new_v(v, g), t).sqrt() + 1e-8)
                    )
                ),
            ),
        ),
        Mistake(
            "decay is not multiplied by rate.",
            "weight - decay * weight takes the same away while the rate falls to 0. Right is "
            "weight - rate * decay * weight.",
            (_adamw_but(decay=lambda rate, decay: decay),),
        ),
        Mistake(
            "decay makes weights larger.",
            "the sign: weight - rate * decay * weight.",
            (_adamw_but(decay=lambda rate, decay: -rate * decay),),
        ),
        Mistake(
            "weights do not decay.",
            "decay is not used, or its result is lost: weight - rate * decay * weight.",
            (_adamw_but(decay=lambda rate, decay: 0),),
        ),
        Mistake(
            "decay is taken of the weight after the step.",
            "take it of the weight that came in; the order of the two lines is swapped. (It "
            "matters little while rate is small.)",
            (
                _adamw_returning(
                    lambda new, new_m, new_v, w, g, m, v, t, rate, decay: (
                        (1 - rate * decay) * (w - rate * _step(new_m, new_v, t)), new_m, new_v
                    )
                ),
            ),
        ),
        Mistake(
            "m and v are not corrected for their start at 0.",
            "after one step m is a tenth of the gradient: m / (1 - 0.9**t), v / (1 - 0.999**t). "
            "(Google's own BERT left this out; torch's AdamW does not.)",
            (_adamw_but(step=lambda m, v, t: m / (v.sqrt() + 1e-8)),),
        ),
        Mistake(
            "only m is corrected for its start at 0.",
            "v starts at 0 as well, and is slower: v / (1 - 0.999**t).",
            (_adamw_but(step=lambda m, v, t: _m_hat(m, t) / (v.sqrt() + 1e-8)),),
        ),
        Mistake(
            "only v is corrected for its start at 0.",
            "m starts at 0 as well: m / (1 - 0.9**t).",
            (_adamw_but(step=lambda m, v, t: m / (_v_hat(v, t).sqrt() + 1e-8)),),
        ),
        Mistake(
            "m and v are made smaller where they should be corrected.",
            "both are too small at first. Divide: m / (1 - 0.9**t).",
            (
                _adamw_but(
                    step=lambda m, v, t: (
                        m * (1 - 0.9**t) / ((v * (1 - 0.999**t)).sqrt() + 1e-8)
                    )
                ),
            ),
        ),
        Mistake(
            "the correction of m and v is the same at every step.",
            "1 - 0.9 is right for the first step only. Take the power: 1 - 0.9**t.",
            (_adamw_but(step=lambda m, v, t: _step(m, v, 1)),),
        ),
        Mistake(
            "0.9 is multiplied by t, not raised to the power t.",
            "* where ** is wanted: 1 - 0.9**t.",
            (
                _adamw_but(
                    step=lambda m, v, t: (
                        m / (1 - 0.9 * t) / ((v / (1 - 0.999 * t)).sqrt() + 1e-8)
                    )
                ),
            ),
        ),
        Mistake(
            "t is moved by one.",
            "it counts from 1 already: 1 - 0.9**t.",
            (
                _adamw_but(step=lambda m, v, t: _step(m, v, t + 1)),
                _adamw_but(step=lambda m, v, t: _step(m, v, t - 1)),
                _adamw_given(lambda w, g, m, v, t, *rest: (w, g, m, v, t - 1, *rest)),
            ),
        ),
        Mistake(
            "the root is taken of v, but not of its correction.",
            "correct first, then take the root: (v / (1 - 0.999**t)).sqrt().",
            (
                _adamw_but(
                    step=lambda m, v, t: _m_hat(m, t) / (v.sqrt() / (1 - 0.999**t) + 1e-8)
                ),
            ),
        ),
        Mistake(
            "v averages the gradient, not its square.",
            "v is the average of gradient**2: what counts is how large it is, not its sign.",
            (
                _adamw_but(v=lambda v, g: 0.999 * v + 0.001 * g),
                _adamw_but(v=lambda v, g: 0.999 * v + 0.001 * g.abs()),
            ),
        ),
        Mistake(
            "0.001 is squared along with the gradient.",
            "only the gradient is squared: 0.001 * gradient**2.",
            (_adamw_but(v=lambda v, g: 0.999 * v + (0.001 * g) ** 2),),
        ),
        Mistake(
            "0.9 and 0.999 are swapped.",
            "m is the quick average, 0.9; v the slow one, 0.999.",
            tuple(
                _adamw_but(
                    m=lambda m, g: 0.999 * m + 0.001 * g,
                    v=lambda v, g: 0.9 * v + 0.1 * g**2,
                    step=step,
                )
                for step in (
                    _step,
                    lambda m, v, t: m / (1 - 0.999**t) / ((v / (1 - 0.9**t)).sqrt() + 1e-8),
                )
            ),
        ),
        Mistake(
            "the averages keep little of the old and take most of the new.",
            "0.9 belongs to the old m and 0.1 to the gradient, 0.999 to the old v and 0.001 to "
            "the square.",
            tuple(
                _adamw_but(m=m, v=v)
                for m, v in (
                    (lambda m, g: 0.1 * m + 0.9 * g, lambda v, g: 0.001 * v + 0.999 * g**2),
                    (lambda m, g: 0.1 * m + 0.9 * g, _new_v),
                    (_new_m, lambda v, g: 0.001 * v + 0.999 * g**2),
                )
            ),
        ),
        Mistake(
            "the new gradient comes into the averages in full.",
            "that makes them sums. An average takes 0.1 of the gradient, 0.001 of its square.",
            tuple(
                _adamw_but(m=m, v=v)
                for m, v in (
                    (lambda m, g: 0.9 * m + g, lambda v, g: 0.999 * v + g**2),
                    (lambda m, g: 0.9 * m + g, _new_v),
                    (_new_m, lambda v, g: 0.999 * v + g**2),
                )
            ),
        ),
        Mistake(
            "the root of v is missing.",
            "v is an average of squares: divide by its root, which is as large as a gradient.",
            (_adamw_but(step=lambda m, v, t: _m_hat(m, t) / (_v_hat(v, t) + 1e-8)),),
        ),
        Mistake(
            "1e-8 stands inside the root.",
            "there it counts as 0.0001, too much beside a tiny gradient: v_hat.sqrt() + 1e-8.",
            (_adamw_but(step=lambda m, v, t: _m_hat(m, t) / (_v_hat(v, t) + 1e-8).sqrt()),),
        ),
        Mistake(
            "1e-8 is missing: a weight without a gradient becomes NaN.",
            "0 / 0. A rare word may have had no gradient yet: divide by v_hat.sqrt() + 1e-8.",
            (_adamw_but(step=lambda m, v, t: _m_hat(m, t) / _v_hat(v, t).sqrt()),),
        ),
        Mistake(
            "m is not divided by the root of v.",
            "that is momentum alone. Divide by v_hat.sqrt() + 1e-8, and every weight takes steps "
            "of about the same size.",
            (
                _adamw_but(step=lambda m, v, t: _m_hat(m, t)),
                _adamw_but(step=lambda m, v, t: m),
            ),
        ),
        Mistake(
            "the step goes along the gradient, not along its average m.",
            "above the line stands m_hat.",
            (
                _adamw_along(
                    lambda g, m, v, t, pull: (
                        pull + g / (_v_hat(_new_v(v, g), t).sqrt() + 1e-8)
                    )
                ),
            ),
        ),
        Mistake(
            "the step is made with the old averages.",
            "first bring m and v up to date, then use these.",
            (
                _adamw_along(lambda g, m, v, t, pull: pull + _step(m, v, t)),
                _adamw_along(lambda g, m, v, t, pull: pull + _step(m, _new_v(v, g), t)),
                _adamw_along(lambda g, m, v, t, pull: pull + _step(_new_m(m, g), v, t)),
            ),
        ),
        Mistake(
            "the step goes uphill.",
            "the gradient points to where the loss grows: weight - rate * …",
            (_adamw_but(step=lambda m, v, t: -_step(m, v, t)),),
        ),
        Mistake(
            "the step is not multiplied by rate.",
            "weight - rate * m_hat / (…).",
            (
                _adamw_given(
                    lambda w, g, m, v, t, rate, decay: (w, g, m, v, t, 1.0, rate * decay)
                ),
            ),
        ),
        Mistake(
            "the corrected averages are returned.",
            "the next step would correct them again. Return m and v; m_hat and v_hat are for this "
            "step only.",
            (
                _adamw_returning(
                    lambda new, m, v, *given: (new, _m_hat(m, given[4]), _v_hat(v, given[4]))
                ),
            ),
        ),
        Mistake(
            "the old averages are returned.",
            "the next step needs the new ones.",
            (_adamw_returning(lambda new, m, v, *given: (new, given[2], given[3])),),
        ),
        Mistake(
            "the change is returned, not the weight.",
            "subtract it from weight.",
            (
                _adamw_returning(lambda new, m, v, *given: (new - given[0], m, v)),
                _adamw_returning(lambda new, m, v, *given: (given[0] - new, m, v)),
            ),
        ),
        Mistake(
            "the results are in the wrong order.",
            "return weight, m, v.",
            (
                _adamw_returning(lambda new, m, v, *_: (new, v, m)),
                _adamw_returning(lambda new, m, v, *_: (m, v, new)),
            ),
        ),
    ),
)  # fmt: skip


def adamw(function: object) -> None:
    """Check ``(weight, gradient, m, v, t, rate, decay) -> (weight, m, v)``; t counts from 1.

    Right is one step of torch.optim.AdamW with betas 0.9 and 0.999 and eps 1e-8.
    """
    print(exercise.judge(ADAMW, function))


# -- what training costs


def right_training_cost(
    parameters: int, tokens: int, operations_per_second: int, share: float, price: float
) -> tuple[float, float]:
    """Return hours and money for a training at ``share`` of a chip's speed; price is per hour.

    Each token multiplies and adds once with each parameter: 2 operations forward, 4 backward.
    """
    seconds = 6 * parameters * tokens / (operations_per_second * share)
    hours = seconds / 3600
    return hours, hours * price


class _Large(int):
    """A number that is written as one can read it, and type it: 1_000_000."""

    def __repr__(self) -> str:
        return f"{int(self):_}"


def _cost_cases() -> list[Inputs]:
    generator = torch.Generator().manual_seed(11)

    def pick(*values: Any) -> Any:
        return values[int(torch.randint(len(values), (1,), generator=generator))]

    cases: list[Inputs] = [(_Large(10**6), _Large(3 * 10**6), _Large(10**10), 0.4, 4.0)]
    for scale in (1, 10, 100):
        for _ in range(13):
            parameters = _Large(pick(1, 2, 4, 11) * scale * 10**6)
            tokens = _Large(pick(5, 7, 12, 25) * scale * 10**7)
            speed = _Large(pick(1, 2, 5) * scale * 10**11)
            cases.append(
                (parameters, tokens, speed, pick(0.2, 0.25, 0.4, 0.8), pick(0.3, 2.0, 4.0))
            )
    # BERT-base, by the paper's numbers: 128,000 tokens a batch, 1,000,000 times
    paper = _Large(110 * 10**6), _Large(128 * 10**9)
    return [*cases, (*paper, _Large(10**15), 0.4, 2.5)]


def _read_cost(answer: Any, *_: Any) -> tuple[float, float]:
    hours, money = exercise.read_pair(answer, "hours, money")
    return exercise.read_number(hours), exercise.read_number(money)


def _cost_difference(inputs: Inputs, mine: Any, right: Any) -> str:
    said = (
        f"{exercise.plain(hours)} hours, money {exercise.plain(cost)}"
        for hours, cost in (mine, right)
    )
    return "Yours gives {}; right is {}.".format(*said)


def _hours(change: Callable[[float, float], float]) -> tuple[Function, Function]:
    """Make costs of which the hours are ``change(right hours, share)``; money with them, or not."""

    def both(*inputs: Any) -> tuple[float, float]:
        hours = change(right_training_cost(*inputs)[0], inputs[3])
        return hours, hours * inputs[4]

    return both, lambda *inputs: (both(*inputs)[0], right_training_cost(*inputs)[1])


def _money(change: Callable[[float, float, float], float]) -> Function:
    """Make a cost of which the money is ``change(right hours, share, price)``."""

    def wrong(*inputs: Any) -> tuple[float, float]:
        hours, _ = right_training_cost(*inputs)
        return hours, change(hours, *inputs[3:])

    return wrong


TRAINING_COST = Exercise(
    name="training_cost",
    right=right_training_cost,
    cases=_cost_cases,
    read=_read_cost,
    differ=_cost_difference,
    first_part=0,
    tried="41 trainings, from 1 million parameters to BERT-base.",
    start="the operations of the whole training: 6 * parameters * tokens.",
    source=(right_training_cost,),
    mistakes=(
        Mistake(
            "2 operations are counted, not 6: that is the forward pass alone.",
            "backward costs twice as much again, one gradient for the inputs and one for the "
            "weights: 2 + 4 = 6.",
            _hours(lambda hours, share: hours * 2 / 6),
        ),
        Mistake(
            "3 operations are counted, not 6.",
            "a multiplication and an addition are two operations, and there are 3 such pairs: one "
            "forward, two backward.",
            _hours(lambda hours, share: hours * 3 / 6),
        ),
        Mistake(
            "4 operations are counted, not 6: that is the backward pass alone.",
            "the forward pass comes first, with 2.",
            _hours(lambda hours, share: hours * 4 / 6),
        ),
        Mistake(
            "1 operation is counted, not 6.",
            "6 * parameters * tokens: 2 forward, 4 backward.",
            _hours(lambda hours, share: hours / 6),
        ),
        Mistake(
            "these are seconds, not hours.",
            "operations divided by operations per second are seconds. Divide by 3600.",
            _hours(lambda hours, share: hours * 3600),
        ),
        Mistake(
            "these are minutes, not hours.",
            "an hour has 3600 seconds: divide by 3600, not by 60.",
            _hours(lambda hours, share: hours * 60),
        ),
        Mistake(
            "these are days, not hours.",
            "3600 seconds make an hour. Do not divide by 24 as well.",
            _hours(lambda hours, share: hours / 24),
        ),
        Mistake(
            "share is not used.",
            "no training reaches what the data sheet says: the chip does "
            "operations_per_second * share.",
            _hours(lambda hours, share: hours * share),
        ),
        Mistake(
            "share makes the training shorter.",
            "the less is reached, the longer it takes: divide by share.",
            _hours(lambda hours, share: hours * share**2),
        ),
        Mistake(
            "share is taken for what is lost.",
            "share is what a training step reaches. Divide by share, not by 1 - share.",
            _hours(lambda hours, share: hours * share / (1 - share)),
        ),
        Mistake(
            "share is taken for a number of percent.",
            "it lies between 0 and 1 already: leave out the 100.",
            _hours(lambda hours, share: hours * 100),
        ),
        Mistake(
            "hours and money are in the wrong order.",
            "return hours, money.",
            (lambda *inputs: right_training_cost(*inputs)[::-1],),
        ),
        Mistake(
            "price is taken per second.",
            "price is per hour: hours * price.",
            (_money(lambda hours, share, price: hours * 3600 * price),),
        ),
        Mistake(
            "price is taken per minute.",
            "price is per hour: hours * price.",
            (_money(lambda hours, share, price: hours * 60 * price),),
        ),
        Mistake(
            "hours and price are divided, not multiplied.",
            "twice the hours cost twice as much: hours * price.",
            (
                _money(lambda hours, share, price: hours / price),
                _money(lambda hours, share, price: price / hours),
            ),
        ),
        Mistake(
            "money is the price of one hour.",
            "multiply by hours.",
            (_money(lambda hours, share, price: price),),
        ),
        Mistake(
            "price is not used.",
            "money is hours * price.",
            (_money(lambda hours, share, price: hours),),
        ),
        Mistake(
            "share lowers the price.",
            "a chip that waits is paid for, too: hours * price.",
            (_money(lambda hours, share, price: hours * share * price),),
        ),
        Mistake(
            "the hours are rounded.",
            "//, int or round. Half an hour is half the price: leave the number as it is.",
            (
                *_hours(lambda hours, share: math.floor(hours)),
                *_hours(lambda hours, share: math.ceil(hours)),
                *_hours(lambda hours, share: round(hours)),
            ),
        ),
        Mistake(
            "the fraction is upside down: the larger the model, the less it takes.",
            "operations divided by operations per second are seconds.",
            (
                *_hours(lambda hours, share: 1 / (hours * 3600**2)),
                *_hours(lambda hours, share: 1 / hours),
            ),
        ),
    ),
)


def training_cost(function: object) -> None:
    """Check ``(parameters, tokens, operations_per_second, share, price) -> (hours, money)``.

    Right are 6 operations for each parameter and token, at ``share`` of the chip's best speed.
    """
    print(exercise.judge(TRAINING_COST, function))


# -- a test of resuming

_ROWS = torch.randn(1009, 5, generator=torch.Generator().manual_seed(12))  # four inputs, a target


class ByHand:
    """A small run that needs all it keeps: AdamW, warm-up, rows in order, dropout."""

    def __init__(self) -> None:
        self.weight, self.m, self.v = torch.zeros(4), torch.zeros(4), torch.zeros(4)
        self.steps, self.place = 0, 0
        self.chance = torch.Generator().manual_seed(13)

    def step(self) -> None:
        """Do one step of training."""
        rows = _ROWS[(self.place + torch.arange(3)) % len(_ROWS)]
        inputs = rows[:, :4] * (torch.rand(3, 4, generator=self.chance) < 0.8)
        gradient = inputs.T @ (inputs @ self.weight - rows[:, 4])
        rate = 0.1 * min(1.0, (self.steps + 1) / 10)
        averages = (self.weight, self.m, self.v)
        news = right_adamw(self.weight, gradient, self.m, self.v, self.steps + 1, rate, 0.01)
        for old, new in zip(averages, news, strict=True):
            old.copy_(new)
        self.steps, self.place = self.steps + 1, self.place + 3

    def weights(self) -> Tensor:
        """Return a copy of the weights (4,)."""
        return self.weight.clone()

    def save(self) -> dict[str, Any]:
        """Return a state from which `load` can go on."""
        return copy.deepcopy(
            {
                **{name: getattr(self, name) for name in ("weight", "m", "v", "steps", "place")},
                "chance": self.chance.get_state(),
            }
        )

    @classmethod
    def load(cls, state: dict[str, Any]) -> Self:
        """Go on from a state."""
        trainer = cls()
        for name, value in copy.deepcopy(state).items():
            if name == "chance":
                trainer.chance.set_state(value)
            else:
                setattr(trainer, name, value)
        return trainer


class WithTorch:
    """Another small run, with torch's AdamW; its batches are drawn anew from seed and step."""

    def __init__(self) -> None:
        self.weight = nn.Parameter(torch.zeros(4))
        self.optimizer = torch.optim.AdamW([self.weight], weight_decay=0.01)
        self.steps = 0

    def step(self) -> None:
        """Do one step of training."""
        generator = torch.Generator().manual_seed(14_000_000 + self.steps)
        rows = _ROWS[torch.randint(len(_ROWS), (3,), generator=generator)]
        self.optimizer.param_groups[0]["lr"] = 0.1 * min(1.0, (self.steps + 1) / 10)
        self.optimizer.zero_grad()
        with torch.enable_grad():
            loss = (rows[:, :4] @ self.weight - rows[:, 4]).square().mean()
            loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        self.steps += 1

    def weights(self) -> Tensor:
        """Return a copy of the weights (4,)."""
        return self.weight.detach().clone()

    def save(self) -> dict[str, Any]:
        """Return a state from which `load` can go on."""
        optimizer = copy.deepcopy(self.optimizer.state_dict())
        return {"weight": self.weights(), "optimizer": optimizer, "steps": self.steps}

    @classmethod
    def load(cls, state: dict[str, Any]) -> Self:
        """Go on from a state."""
        trainer = cls()
        trainer.weight.data.copy_(state["weight"])
        trainer.optimizer.load_state_dict(copy.deepcopy(state["optimizer"]))
        trainer.steps = state["steps"]
        return trainer


def _forgets(*names: str) -> type[ByHand]:
    """Make a run that does not save some of what it keeps: these begin anew."""

    class Forgetful(ByHand):
        def save(self) -> dict[str, Any]:
            begin = ByHand().save()
            return super().save() | {name: begin[name] for name in names}

    return Forgetful


class _NoCopy(ByHand):
    def save(self) -> dict[str, Any]:
        return super().save() | {"weight": self.weight, "m": self.m, "v": self.v}


class _Half(ByHand):
    def save(self) -> dict[str, Any]:
        return super().save() | {"weight": self.weight.half().float()}


RIGHT_TRAINERS: tuple[tuple[str, type[Any]], ...] = (
    ("by hand, with a generator whose state is saved", ByHand),
    ("with torch.optim.AdamW, its batches drawn from seed and step", WithTorch),
)

MUSEUM = (
    Exhibit(
        "a loop that saves no optimizer",
        "Adam's averages m and v begin again at 0",
        _forgets("m", "v"),
        "go on after load: the weights just loaded are right, the next step is not.",
    ),
    Exhibit(
        "a loop that saves no step number",
        "the learning rate begins again at warm-up",
        _forgets("steps"),
        "save after some steps, and go on after load.",
    ),
    Exhibit(
        "a loop that saves no place in the data",
        "the first batches are read again",
        _forgets("place"),
        "save after some steps, go on after load, and compare with a run that was never stopped.",
    ),
    Exhibit(
        "a loop that saves no state of chance",
        "dropout draws the same as in the first steps again",
        _forgets("chance"),
        "compare with a run that was never stopped, not with a second resumed one.",
    ),
    Exhibit(
        "a loop that saves no copy",
        "the state holds the run's own tensors, which later steps change",
        _NoCopy,
        "let the first run do more steps between save and load.",
    ),
    Exhibit(
        "a loop that saves in half precision",
        "the weights come back rounded",
        _Half,
        "compare exactly, with torch.equal.",
    ),
)


def right_resume_test(trainer: type[Any]) -> bool:
    """Say whether 5 steps, a save and 3 steps end exactly where 8 steps end."""
    whole = trainer()
    for _ in range(8):
        whole.step()
    first = trainer()
    for _ in range(5):
        first.step()
    state = first.save()
    first.step()  # what is on disk must not change with it
    resumed = trainer.load(state)
    for _ in range(3):
        resumed.step()
    return torch.equal(whole.weights(), resumed.weights())


RESUME_TEST = TestExercise(
    name="resume_test",
    argument="trainer",
    thing="trainer",
    start="whole = trainer(), and some steps without a break. A run that is saved halfway must end "
    "with the same weights.",
    right=RIGHT_TRAINERS,
    museum=MUSEUM,
    refuses_all="the two runs have not done the same number of steps: n without a break; k, save, "
    "load, then n - k.",
    refuses_right="what is in a state is the trainer's own affair. Compare weights() only, after "
    "equally many steps.",
    source=(right_resume_test, save_state, load_state),
)


def resume_test(function: object) -> None:
    """Check a learner's test: ``(trainer) -> bool``, true if its runs resume exactly.

    ``trainer`` is a class: ``trainer()`` starts a run, ``.step()`` does a step, ``.save()`` returns
    a state, ``trainer.load(state)`` goes on from it, ``.weights()`` returns a copy of the weights.
    """
    print(judge_test(RESUME_TEST, function))


SOLUTIONS: tuple[tuple[str, tuple[Any, ...]], ...] = (
    *((e.name, e.source) for e in (LEARNING_RATE, CLIP, ADAMW, TRAINING_COST)),
    (RESUME_TEST.name, RESUME_TEST.source),
)
