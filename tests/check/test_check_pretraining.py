"""The checks on pre-training: right answers in several ways, and every planted mistake."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from verdicts import assert_named, verdict, words

from bertedu.check import pretraining as check
from bertedu.check.pretraining import (
    MUSEUM,
    RIGHT_TRAINERS,
    SOLUTIONS,
    right_adamw,
    right_clip,
    right_learning_rate,
    right_resume_test,
    right_training_cost,
)
from bertedu.pretraining.loop import Recipe

CHECKS = {name: getattr(check, name) for name, _ in SOLUTIONS}
EXERCISES = (check.LEARNING_RATE, check.CLIP, check.ADAMW, check.TRAINING_COST)

Planted = list[tuple[Callable[..., Any], str]]


# -- learning rate


def test_the_reference_rate_is_the_recipes() -> None:
    recipe = Recipe(steps=50, learning_rate=2.0, warmup_share=0.2)
    for step in range(50):
        assert right_learning_rate(step, 50, 10, 2.0) == pytest.approx(
            recipe.learning_rate_at(step)
        )


def rate_by_if(step: int, steps: int, warmup: int, peak: float) -> float:
    if step < warmup:
        return peak * (step + 1) / warmup
    return peak * (1 - (step - warmup) / (steps - warmup))


def rate_by_torch(step: int, steps: int, warmup: int, peak: float) -> Tensor:
    curves = torch.tensor([(step + 1) / warmup, (steps - step) / (steps - warmup), 1.0])
    return peak * curves.min()


def rate_by_interpolation(step: int, steps: int, warmup: int, peak: float) -> Any:
    return np.interp(step, [-1, warmup - 1, warmup, steps], [0, peak, peak, 0])


def rate_by_product(step: int, steps: int, warmup: int, peak: float) -> float:
    """Right: one of the two is always 1."""
    return peak * min(1, (step + 1) / warmup) * min(1, (steps - step) / (steps - warmup))


def from_zero(s: int, n: int, w: int, p: float) -> float:
    return p * s / w if s < w else p * (n - s) / (n - w)


def google(s: int, n: int, w: int, p: float) -> float:
    return p * (s + 1) / w if s < w else p * (1 - s / n)


def root(s: int, n: int, w: int, p: float) -> float:
    return p * w**0.5 * min((s + 1) ** -0.5, (s + 1) * w**-1.5)


def cosine(s: int, n: int, w: int, p: float) -> float:
    return p * (s + 1) / w if s < w else p * (1 + math.cos((s - w) / (n - w) * math.pi)) / 2


def late_if(s: int, n: int, w: int, p: float) -> float:
    return p * (s + 1) / w if s <= w else p * (n - s) / (n - w)


RATES: Planted = [
    (lambda s, n, w, p: p * min(1, (n - s) / (n - w)), "there is no warm-up"),
    (lambda s, n, w, p: p * (1 - s / n), "there is no warm-up"),
    (lambda s, n, w, p: p * min(1, (s + 1) / w), "stays at peak after warm-up"),
    (lambda s, n, w, p: p, "the rate is peak at every step"),
    (lambda s, n, w, p: p * min(1, max((s + 1) / w, (n - s) / (n - w))), "max stands where min"),
    (lambda s, n, w, p: p * max((s + 1) / w, (n - s) / (n - w)), "the higher of rise and fall"),
    (lambda s, n, w, p: p * (s + 1) / w, "rises forever"),
    (google, "measured from step 0"),
    (lambda s, n, w, p: p * min((s + 1) / w, (n - s) / n), "measured from step 0"),
    (
        lambda s, n, w, p: p * ((s + 1) / w if s < w else 1 - s / (n - w)),
        "the fall does not begin at peak, and ends below 0",
    ),
    (
        lambda s, n, w, p: p * min((s + 1) / w, 1 - (s - w) / n, 1),
        "the fall does not end at 0",
    ),
    (from_zero, "the rate of step 0 is 0"),
    (lambda s, n, w, p: p * min(s / w, (n - s) / (n - w)), "the rate of step 0 is 0"),
    (
        lambda s, n, w, p: p * min((s + 1) / w, (n - (s + 1)) / (n - w)),
        "the fall is one step early",
    ),
    (
        lambda s, n, w, p: p * min((s + 1) / w, (n - s) / (n - w + 1)),
        "the fall begins one step early",
    ),
    (late_if, "at step = warmup, is above peak"),
    (lambda s, n, w, p: min((s + 1) / w, (n - s) / (n - w)), "peak is not a factor"),
    (lambda s, n, w, p: min(p, (s + 1) / w, (n - s) / (n - w)), "peak is not a factor"),
    (
        lambda s, n, w, p: p * (s + 1) / w if s < w else (n - s) / (n - w),
        "peak is not a factor",
    ),
    (root, "falls with the root of the step"),
    (cosine, "falls as a cosine"),
    (lambda s, n, w, p: p * min((s + 1) // w, (n - s) / (n - w), 1), "// gives whole numbers"),
    (lambda s, n, w, p: p * min((s + 1) / w, (n - s) // (n - w), 1), "// gives whole numbers"),
    (lambda s, n, w, p: p * ((s + 1) / w) * ((n - s) / (n - w)), "rise and fall are multiplied"),
    (lambda s, n, w, p: p * min((s + 1) / n, (n - s) / (n - w)), "stretched over all steps"),
    (
        lambda s, n, w, p: p * ((s + 1) / w if s < w else (s - w) / (n - w)),
        "begins at 0 and rises again",
    ),
    (lambda s, n, w, p: [p], "one number is wanted"),
    (lambda s, n, w, p: f"{p}", "one number is wanted"),
]


# -- clipping


def clip_by_torch(gradients: list[Tensor], max_norm: float) -> Any:
    parameters = [nn.Parameter(torch.zeros_like(g)) for g in gradients]
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.grad = gradient.clone()
    nn.utils.clip_grad_norm_(parameters, max_norm)
    return [parameter.grad for parameter in parameters]


def clip_by_loops(gradients: list[Tensor], max_norm: float) -> Any:
    total = 0.0
    for g in gradients:
        for number in g.flatten().tolist():
            total += number * number
    if math.sqrt(total) <= max_norm:
        return gradients
    return tuple(max_norm / math.sqrt(total) * g for g in gradients)


def clip_by_norms(gradients: list[Tensor], max_norm: float) -> Any:
    norm = torch.stack([g.norm() for g in gradients]).norm()
    return [g * torch.clamp(max_norm / (norm + 1e-6), max=1.0) for g in gradients]


def clip_in_place(gradients: list[Tensor], max_norm: float) -> list[Tensor]:
    norm = torch.cat([g.flatten() for g in gradients]).norm()
    for g in gradients:
        g *= min(1, max_norm / norm)
    return gradients


def clip_in_place_and_no_return(gradients: list[Tensor], max_norm: float) -> None:
    clip_in_place(gradients, max_norm)


def clip_into_the_list(gradients: list[Tensor], max_norm: float) -> list[Tensor]:
    for i, g in enumerate(right_clip(gradients, max_norm)):
        gradients[i] = g
    return gradients


def each_by_itself(gradients: list[Tensor], max_norm: float) -> list[Tensor]:
    return [g * min(1.0, max_norm / float(g.norm())) for g in gradients]


def measured(norm: Callable[[list[Tensor]], Any]) -> Callable[..., list[Tensor]]:
    def f(gradients: list[Tensor], max_norm: float) -> list[Tensor]:
        scale = min(1.0, max_norm / (float(norm(gradients)) + 1e-6))
        return [g * scale for g in gradients]

    return f


def scaled(scale: Callable[[Any, float], Any]) -> Callable[..., list[Tensor]]:
    def f(gradients: list[Tensor], max_norm: float) -> list[Tensor]:
        norm = math.sqrt(sum(float((g * g).sum()) for g in gradients))
        return [g * scale(norm, max_norm) for g in gradients]

    return f


def if_in_the_loop(gradients: list[Tensor], max_norm: float) -> list[Tensor]:
    norm = math.sqrt(sum(float((g * g).sum()) for g in gradients))
    return [g * max_norm / norm if g.norm() > max_norm else g for g in gradients]


def last_norm(gradients: list[Tensor]) -> Any:
    for g in gradients:
        norm = g.norm()
    return norm


CLIPS: Planted = [
    (each_by_itself, "each tensor is clipped by itself"),
    (lambda gs, top: [g.clamp(min=-top, max=top) for g in gs], "each number is clipped by itself"),
    (if_in_the_loop, "only tensors that are too long by themselves"),
    (measured(lambda gs: sum(g.norm() for g in gs)), "the norms of the tensors are added up"),
    (measured(lambda gs: sum(g.abs().sum() for g in gs)), "added up without being squared"),
    (measured(lambda gs: abs(sum(g.sum() for g in gs))), "added up before they are squared"),
    (measured(lambda gs: sum(g.square().sum() for g in gs)), "this is the norm squared"),
    (measured(lambda gs: torch.cat([g.flatten() for g in gs]).pow(2).mean() ** 0.5), "a mean is"),
    (measured(lambda gs: torch.stack([g.norm() for g in gs]).mean()), "a mean is taken where"),
    (measured(lambda gs: max(g.abs().max() for g in gs)), "the largest number is taken"),
    (measured(last_norm), "the norm is that of one tensor only"),
    (measured(lambda gs: max(g.norm() for g in gs)), "the norm is that of one tensor only"),
    (scaled(lambda norm, top: top / norm), "small gradients are scaled up. "),
    (scaled(lambda norm, top: max(1, top / norm)), "scaled up, and large ones stay"),
    (scaled(lambda norm, top: top / norm if norm < top else 1), "scaled up, and large ones stay"),
    (lambda gs, top: gs, "nothing is ever scaled"),
    (scaled(lambda norm, top: 1 / norm if norm > top else 1), "the norm becomes 1, not max_norm"),
    (scaled(lambda norm, top: top if norm > top else 1), "multiplied by max_norm, and not divided"),
    (scaled(lambda norm, top: norm / top if norm > top else 1), "large gradients get larger"),
    (scaled(lambda norm, top: 0 if norm > top else 1), "large gradients are thrown away"),
    (clip_in_place, "changes gradients in place"),
    (clip_in_place_and_no_return, "changes gradients in place"),
    (clip_into_the_list, "changes gradients in place"),
    (lambda gs, top: gs[0], "returned a Tensor; a list of tensors is wanted"),
    (lambda gs, top: (g for g in gs), "returned a generator; a list of tensors is wanted"),
    (lambda gs, top: gs[:1], "returned a list of 1; as many tensors as in gradients"),
    (lambda gs, top: [g.sum() for g in gs], "tensor 1 of the list has shape (); (1,) is wanted"),
    (lambda gs, top: [None for g in gs], "tensor 1 of the list is None; a tensor is wanted"),
]


def test_clipping_in_place_leaves_the_cases_alone() -> None:
    verdict(check.clip, clip_in_place)
    assert verdict(check.clip, right_clip).startswith("✓")


# -- AdamW


def adamw_by_torch(
    weight: Tensor, gradient: Tensor, m: Tensor, v: Tensor, t: int, rate: float, decay: float
) -> Any:
    parameter = nn.Parameter(weight.clone())
    optimizer = torch.optim.AdamW([parameter], lr=rate, weight_decay=decay)
    steps = torch.tensor(float(t - 1))
    state = {"step": steps, "exp_avg": m.clone(), "exp_avg_sq": v.clone()}
    optimizer.state[parameter] = state
    parameter.grad = gradient.clone()
    optimizer.step()
    return parameter, state["exp_avg"], state["exp_avg_sq"]


def adamw_by_loops(
    weight: Tensor, gradient: Tensor, m: Tensor, v: Tensor, t: int, rate: float, decay: float
) -> Any:
    rows = []
    for w, g, a, b in zip(*(x.tolist() for x in (weight, gradient, m, v)), strict=True):
        a, b = a + 0.1 * (g - a), b + 0.001 * (g * g - b)
        root = math.sqrt(b / (1 - 0.999**t))
        rows.append((w - rate * (a / (1 - 0.9**t) / (root + 1e-8) + decay * w), a, b))
    return [list(column) for column in zip(*rows, strict=True)]


def adamw_as_in_the_paper(
    weight: Tensor, gradient: Tensor, m: Tensor, v: Tensor, t: int, rate: float, decay: float
) -> Any:
    """Both corrections in the rate; in double precision."""
    m, v = 0.9 * m.double() + 0.1 * gradient, torch.lerp(v.double(), gradient.double() ** 2, 0.001)
    rate_now = rate * (1 - 0.999**t) ** 0.5 / (1 - 0.9**t)
    return weight * (1 - rate * decay) - rate_now * m / (v.sqrt() + 1e-8), m, v


def adamw_in_place(
    weight: Tensor, gradient: Tensor, m: Tensor, v: Tensor, t: int, rate: float, decay: float
) -> Any:
    m.mul_(0.9).add_(gradient, alpha=0.1)
    v.mul_(0.999).addcmul_(gradient, gradient, value=0.001)
    return right_adamw(weight, gradient, m, v, t, rate, decay)[0], m, v


def written(**changed: str) -> Callable[..., Any]:
    """Write the step as a learner does, in lines, with some of them changed."""
    lines = {
        "b1": "0.9",
        "b2": "0.999",
        "m": "b1 * m + (1 - b1) * g",
        "v": "b2 * v + (1 - b2) * g ** 2",
        "mh": "m / (1 - b1 ** t)",
        "vh": "v / (1 - b2 ** t)",
        "step": "mh / (vh ** 0.5 + eps)",
        "w": "w - lr * step - lr * wd * w",
        "answer": "(w, m, v)",
    } | changed

    def f(w: Any, g: Any, m: Any, v: Any, t: int, lr: float, wd: float) -> Any:
        names = {"w": w, "g": g, "m": m, "v": v, "t": t, "lr": lr, "wd": wd}
        names |= {"eps": 1e-8, "w0": w, "m0": m, "v0": v}
        for name, line in lines.items():
            names[name] = eval(line, {}, names)
        return names["answer"]

    return f


def adam_with_l2(w: Tensor, g: Tensor, m: Tensor, v: Tensor, t: int, lr: float, wd: float) -> Any:
    """What torch.optim.Adam does with its weight_decay."""
    parameter = nn.Parameter(w.clone())
    optimizer = torch.optim.Adam([parameter], lr=lr, weight_decay=wd)
    state = {"step": torch.tensor(t - 1.0), "exp_avg": m.clone(), "exp_avg_sq": v.clone()}
    optimizer.state[parameter] = state
    parameter.grad = g.clone()
    optimizer.step()
    return parameter.detach(), state["exp_avg"], state["exp_avg_sq"]


ADAMWS: Planted = [
    (adam_with_l2, "this is Adam with L2, which AdamW mends"),
    (
        written(m="b1 * m + (1 - b1) * (g + wd * w)", v="b2 * v + (1 - b2) * (g + wd * w) ** 2"),
        "this is Adam with L2",
    ),
    (written(step="(mh + wd * w) / (vh ** 0.5 + eps)", w="w - lr * step"), "divided by the root"),
    (written(w="w - lr * step - wd * w"), "decay is not multiplied by rate"),
    (written(w="w - lr * step + lr * wd * w"), "decay makes weights larger"),
    (written(w="w - lr * step"), "weights do not decay"),
    (written(w="(w - lr * step) * (1 - lr * wd)"), "decay is taken of the weight after the step"),
    (written(mh="m", vh="v"), "m and v are not corrected"),
    (written(vh="v"), "only m is corrected"),
    (written(mh="m"), "only v is corrected"),
    (written(mh="m * (1 - b1 ** t)", vh="v * (1 - b2 ** t)"), "m and v are made smaller"),
    (written(mh="m / (1 - b1)", vh="v / (1 - b2)"), "is the same at every step"),
    (written(mh="m / (1 - b1 * t)", vh="v / (1 - b2 * t)"), "multiplied by t, not raised"),
    (written(mh="m / (1 - b1 ** (t + 1))", vh="v / (1 - b2 ** (t + 1))"), "t is moved by one"),
    (written(mh="m / (1 - b1 ** (t - 1))", vh="v / (1 - b2 ** (t - 1))"), "t is moved by one"),
    (written(step="mh / (v ** 0.5 / (1 - b2 ** t) + eps)"), "but not of its correction"),
    (written(v="b2 * v + (1 - b2) * g"), "v averages the gradient, not its square"),
    (written(v="b2 * v + ((1 - b2) * g) ** 2"), "0.001 is squared along"),
    (written(b1="0.999", b2="0.9"), "0.9 and 0.999 are swapped"),
    (
        written(m="b2 * m + (1 - b2) * g", v="b1 * v + (1 - b1) * g ** 2"),
        "0.9 and 0.999 are swapped",
    ),
    (
        written(m="(1 - b1) * m + b1 * g", v="(1 - b2) * v + b2 * g ** 2"),
        "the averages keep little of the old",
    ),
    (written(m="b1 * m + g", v="b2 * v + g ** 2"), "comes into the averages in full"),
    (written(m="b1 * m + g"), "comes into the averages in full"),
    (written(step="mh / (vh + eps)"), "the root of v is missing"),
    (written(step="mh / (vh + eps) ** 0.5"), "1e-8 stands inside the root"),
    (written(step="mh / vh ** 0.5"), "1e-8 is missing"),
    (written(step="mh"), "m is not divided by the root of v"),
    (written(step="m"), "m is not divided by the root of v"),
    (written(step="g / (vh ** 0.5 + eps)"), "not along its average m"),
    (
        written(mh="m0 / (1 - b1 ** t)", vh="v0 / (1 - b2 ** t)"),
        "the step is made with the old averages",
    ),
    (written(mh="m0 / (1 - b1 ** t)"), "the step is made with the old averages"),
    (written(w="w + lr * step - lr * wd * w"), "the step goes uphill"),
    (written(w="w - step - lr * wd * w"), "the step is not multiplied by rate"),
    (written(answer="(w, mh, vh)"), "the corrected averages are returned"),
    (written(answer="(w, m0, v0)"), "the old averages are returned"),
    (written(answer="(w - w0, m, v)"), "the change is returned"),
    (written(answer="(m, v, w)"), "the results are in the wrong order"),
    (written(answer="(w, v, m)"), "the results are in the wrong order"),
    (
        written(v="b2 * v + (1 - b2) * g", vh="v.abs()", w="w + lr * step"),
        "v averages the gradient, not its square. (There is more, but this comes first.)",
    ),
    (adamw_in_place, "changes m and v in place"),
    (written(answer="w"), "returned a Tensor; return three things: weight, m, v"),
    (written(answer="(w, m)"), "returned a tuple of 2; return three things: weight, m, v"),
    (written(answer="(w.sum(), m, v)"), "weight has shape (); (1,) is wanted here"),
    (written(answer="(w, None, v)"), "m is None; a tensor is wanted"),
]


# -- what training costs


def cost_in_steps(
    parameters: int, tokens: int, operations_per_second: int, share: float, price: float
) -> Any:
    forward = 2 * parameters * tokens
    backward = 2 * forward
    speed = operations_per_second * share
    minutes = (forward + backward) / speed / 60
    return [minutes / 60, np.float64(minutes / 60 * price)]


def costs(hours: str = "c * P * T / (ops * share) / 3600", c: int = 6, **more: str) -> Any:
    answer = more.get("answer", "(hours, hours * price)")

    def f(P: int, T: int, ops: int, share: float, price: float) -> Any:
        names = {"c": c, "P": P, "T": T, "ops": ops, "share": share, "price": price}
        names["hours"] = eval(hours, {}, names)
        return eval(answer, {}, names)

    return f


COSTS: Planted = [
    (costs(c=2), "2 operations are counted, not 6"),
    (costs(c=3), "3 operations are counted, not 6"),
    (costs(c=4), "4 operations are counted, not 6"),
    (costs(c=1), "1 operation is counted, not 6"),
    (costs("6 * P * T / (ops * share)"), "these are seconds, not hours"),
    (
        costs("6 * P * T / (ops * share)", answer="(hours, hours / 3600 * price)"),
        "these are seconds, not hours",
    ),
    (costs("6 * P * T / (ops * share) / 60"), "these are minutes, not hours"),
    (costs("6 * P * T / (ops * share) / 86400"), "these are days, not hours"),
    (costs("6 * P * T / ops / 3600"), "share is not used"),
    (costs("6 * P * T / ops * share / 3600"), "share makes the training shorter"),
    (costs("6 * P * T / (ops * (1 - share)) / 3600"), "share is taken for what is lost"),
    (costs("6 * P * T / (ops * share / 100) / 3600"), "a number of percent"),
    (costs(answer="(hours * price, hours)"), "hours and money are in the wrong order"),
    (costs(answer="(hours, hours * 3600 * price)"), "price is taken per second"),
    (costs(answer="(hours, hours * 60 * price)"), "price is taken per minute"),
    (costs(answer="(hours, hours / price)"), "hours and price are divided"),
    (costs(answer="(hours, price)"), "money is the price of one hour"),
    (costs(answer="(hours, hours)"), "price is not used"),
    (costs(answer="(hours, hours * price * share)"), "share lowers the price"),
    (costs("6 * P * T / (ops * share) // 3600"), "the hours are rounded"),
    (costs("-(-6 * P * T / (ops * share) // 3600)"), "the hours are rounded"),
    (costs("ops * share / (6 * P * T) / 3600"), "the fraction is upside down"),
    (
        costs("2 * P * T / (ops * share) / 3600", answer="(hours, hours * price * 60)"),
        "2 operations are counted, not 6: that is the forward pass alone. (There is more",
    ),
    (costs(answer="hours"), "return two things: hours, money"),
    (costs(answer="(hours, str(price))"), "one number is wanted"),
    (costs(answer="(hours, None)"), "one number is wanted"),
]


# -- a test of resuming


def run(trainer: Any, steps: int) -> Any:
    for _ in range(steps):
        trainer.step()
    return trainer


def resume_by_curve(trainer: Any) -> bool:
    """A right test of another kind: the weights after each step, at every place of a break."""
    whole = trainer()
    curve = [run(whole, 1).weights().tolist() for _ in range(6)]
    for stop in range(1, 6):
        first = run(trainer(), stop)
        state = first.save()
        run(first, 3)
        second = trainer.load(state)
        if [run(second, 1).weights().tolist() for _ in range(6 - stop)] != curve[stop:]:
            return False
    return True


def resume_in_one_run(trainer: Any) -> bool:
    """The run that was saved is the one to compare with."""
    first = run(trainer(), 4)
    state = first.save()
    truth = run(first, 20).weights()
    return bool((run(trainer.load(state), 20).weights() == truth).all())


def round_trip(trainer: Any) -> bool:
    first = run(trainer(), 5)
    return torch.equal(trainer.load(first.save()).weights(), first.weights())


def without_more_steps(trainer: Any) -> bool:
    second = trainer.load(run(trainer(), 5).save())
    return torch.equal(run(second, 3).weights(), run(trainer(), 8).weights())


def about(trainer: Any) -> bool:
    first = run(trainer(), 20)
    state = first.save()
    truth = run(first, 1).weights()
    return torch.allclose(run(trainer.load(state), 1).weights(), truth, atol=1e-3)


def two_resumed(trainer: Any) -> bool:
    state = run(trainer(), 5).save()
    one, other = (run(trainer.load(state), 3).weights() for _ in range(2))
    return torch.equal(one, other)


def one_step_too_many(trainer: Any) -> bool:
    state = run(trainer(), 5).save()
    return torch.equal(run(trainer.load(state), 4).weights(), run(trainer(), 8).weights())


def looks_into_the_state(trainer: Any) -> bool:
    return right_resume_test(trainer) and "m" in trainer().save()


NAMES = [exhibit.seen for exhibit in MUSEUM]


@pytest.mark.parametrize("t", [right_resume_test, resume_by_curve, resume_in_one_run])
def test_good_tests_pass(t: Callable[..., bool]) -> None:
    said = words(verdict(check.resume_test, t))
    assert said.startswith("✓ resume_test: accepts 2 right trainers, catches 6 broken ones (a loop")


@pytest.mark.parametrize("exhibit", MUSEUM, ids=NAMES)
def test_each_exhibit_that_gets_past_is_named_alone(exhibit: Any) -> None:
    def t(trainer: Any) -> bool:
        return trainer is exhibit.broken or right_resume_test(trainer)

    said = words(verdict(check.resume_test, t))
    assert said.startswith("✗ resume_test: 1 of 6 broken trainers got past your test. - ")
    assert f"- {exhibit.seen}: {exhibit.bug}. To catch it, {exhibit.try_this}" in said


@pytest.mark.parametrize(
    ("t", "past"),
    [
        (lambda trainer: True, NAMES),
        (round_trip, [name for name in NAMES if "half" not in name]),
        (without_more_steps, ["a loop that saves no copy"]),
        (about, ["a loop that saves in half precision"]),
        (two_resumed, NAMES),
    ],
)
def test_weak_tests_are_told_what_got_past(t: Callable[..., bool], past: list[str]) -> None:
    said = words(verdict(check.resume_test, t))
    assert said.startswith(f"✗ resume_test: {len(past)} of 6 broken trainers got past your test.")
    assert [name for name in NAMES if f"- {name}: " in said] == past


@pytest.mark.parametrize(
    ("t", "text"),
    [
        (lambda trainer: False, "refuses every trainer, right ones included"),
        (one_step_too_many, "the two runs have not done the same number of steps"),
        (looks_into_the_state, "refuses a right trainer, one written with torch.optim.AdamW"),
        (looks_into_the_state, "Compare weights() only"),
        (lambda trainer: trainer().weights(), "True or False is wanted"),
        (lambda trainer: trainer().weight_decay, "stopped with AttributeError"),
        (lambda trainer, other: True, "wrong number of arguments"),
    ],
)
def test_tests_that_refuse_right_trainers_are_told_why(t: Callable[..., Any], text: str) -> None:
    said = words(verdict(check.resume_test, t))
    assert said.startswith("✗ resume_test: ")
    assert text in said


@pytest.mark.parametrize("shown", [t for _, t in RIGHT_TRAINERS] + [e.broken for e in MUSEUM])
def test_all_trainers_learn_alike_until_they_are_stopped(shown: Any) -> None:
    """Nothing but resuming gives the broken ones away."""
    one, other = run(shown(), 300), run(shown(), 300)
    assert torch.equal(one.weights(), other.weights())
    assert one.weights().isfinite().all()
    kept = one.weights()
    one.step()
    assert not torch.equal(kept, one.weights())
    if shown not in [t for _, t in RIGHT_TRAINERS]:
        assert torch.equal(other.weights(), run(check.ByHand(), 300).weights())


# -- what the exercises have in common


@pytest.mark.parametrize(
    ("name", "f"),
    [
        *(
            ("learning_rate", f)
            for f in (
                right_learning_rate,
                rate_by_if,
                rate_by_torch,
                rate_by_interpolation,
                rate_by_product,
            )
        ),
        *(("clip", f) for f in (right_clip, clip_by_torch, clip_by_loops, clip_by_norms)),
        *(
            ("adamw", f)
            for f in (
                right_adamw,
                adamw_by_torch,
                adamw_by_loops,
                adamw_as_in_the_paper,
                written(),
            )
        ),
        *(("training_cost", f) for f in (right_training_cost, cost_in_steps, costs())),
    ],
)
def test_right_answers_pass(name: str, f: Callable[..., Any]) -> None:
    assert verdict(CHECKS[name], f).startswith(f"✓ {name}: ")


PLANTED = [
    (name, wrong, text)
    for name, planted in (
        ("learning_rate", RATES),
        ("clip", CLIPS),
        ("adamw", ADAMWS),
        ("training_cost", COSTS),
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
        assert any(text.split(" (There")[0] in f"{mistake.what} {mistake.likely}" for text in texts)


@pytest.mark.parametrize("name", [exercise.name for exercise in EXERCISES])
def test_an_error_is_told_with_its_line(name: str) -> None:
    def broken(*inputs: Any) -> Any:
        return inputs[0] + undefined  # type: ignore[name-defined] # noqa: F821

    said = verdict(CHECKS[name], broken)
    assert "stopped with NameError" in words(said)
    assert "return inputs[0] + undefined" in said
