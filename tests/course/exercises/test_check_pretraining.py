"""Notebook 07: right answers in several ways, some mistakes written in another way."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from verdicts import assert_named, seen, verdict, words

from bertedu.pretraining.recipe import Recipe
from course.exercises import check
from course.exercises.museum import exhibits
from course.exercises.pretraining import (
    RESUME_TEST,
    ByHand,
    right_adamw,
    right_clip,
    right_resume_test,
)

# -- learning rate


def rate_of_the_package(step: int, steps: int, warmup: int, peak: float) -> float:
    recipe = Recipe(steps=steps, learning_rate=peak, warmup_share=warmup / steps)
    return recipe.learning_rate_at(step)


def rate_by_if(step: int, steps: int, warmup: int, peak: float) -> float:
    if step < warmup:
        return peak * (step + 1) / warmup
    return peak * (1 - (step - warmup) / (steps - warmup))


def rate_by_interpolation(step: int, steps: int, warmup: int, peak: float) -> Any:
    return np.interp(step, [-1, warmup - 1, warmup, steps], [0, peak, peak, 0])


# -- clipping


def clip_by_torch(gradients: list[Tensor], max_norm: float) -> Any:
    parameters = [nn.Parameter(torch.zeros_like(g)) for g in gradients]
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.grad = gradient.clone()
    nn.utils.clip_grad_norm_(parameters, max_norm)
    return [parameter.grad for parameter in parameters]


def clip_by_norms(gradients: list[Tensor], max_norm: float) -> Any:
    norm = torch.stack([g.norm() for g in gradients]).norm()
    return [g * torch.clamp(max_norm / (norm + 1e-6), max=1.0) for g in gradients]


def clip_in_place(gradients: list[Tensor], max_norm: float) -> list[Tensor]:
    norm = torch.cat([g.flatten() for g in gradients]).norm()
    for g in gradients:
        g *= min(1, max_norm / norm)
    return gradients


# -- AdamW


def by_torch(kind: type[torch.optim.Adam]) -> Any:
    def f(w: Tensor, g: Tensor, m: Tensor, v: Tensor, t: int, rate: float, decay: float) -> Any:
        parameter = nn.Parameter(w.clone())
        optimizer = kind([parameter], lr=rate, weight_decay=decay)
        state = {"step": torch.tensor(t - 1.0), "exp_avg": m.clone(), "exp_avg_sq": v.clone()}
        optimizer.state[parameter] = state
        parameter.grad = g.clone()
        optimizer.step()
        return parameter, state["exp_avg"], state["exp_avg_sq"]

    return f


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
        names |= {"b1": 0.9, "b2": 0.999, "eps": 1e-8}
        for name, line in lines.items():
            names[name] = eval(line, {}, names)
        return names["answer"]

    return f


# -- what training costs


def costs(hours: str = "c * P * T / (ops * share) / 3600", c: int = 6, **more: str) -> Any:
    answer = more.get("answer", "(hours, hours * price)")

    def f(P: int, T: int, ops: int, share: float, price: float) -> Any:
        names = {"c": c, "P": P, "T": T, "ops": ops, "share": share, "price": price}
        names["hours"] = eval(hours, {}, names)
        return eval(answer, {}, names)

    return f


# -- what they have in common

RIGHT: list[tuple[str, Any]] = [
    ("learning_rate", rate_of_the_package),
    ("learning_rate", rate_by_if),
    ("learning_rate", rate_by_interpolation),
    ("clip", clip_by_torch),
    ("clip", clip_by_norms),
    ("adamw", by_torch(torch.optim.AdamW)),
    ("adamw", adamw_as_in_the_paper),
    ("adamw", written()),
    ("training_cost", costs()),
]
WRONG: list[tuple[str, Any, str]] = [
    ("learning_rate", lambda s, n, w, p: p * (1 - s / n), "there is no warm-up"),
    ("learning_rate", lambda s, n, w, p: p * min(s / w, (n - s) / (n - w)), "the rate of step 0"),
    ("learning_rate", lambda s, n, w, p: p * min((s + 1) / w, (n - s) / n), "from step 0"),
    ("learning_rate", lambda s, n, w, p: [p], "one number is wanted"),
    ("clip", lambda gs, top: [right_clip([g], top)[0] for g in gs], "is clipped by itself"),
    ("clip", clip_in_place, "changes gradients in place"),
    ("clip", lambda *given: clip_in_place(*given) and None, "in place and returns nothing"),
    ("clip", lambda gs, top: gs[0], "returned a Tensor; a list of tensors is wanted"),
    ("clip", lambda gs, top: gs[:1], "returned a list; a list of tensors is wanted, as many as"),
    ("clip", lambda gs, top: [None for g in gs], "tensor 1 of the list is None"),
    ("adamw", by_torch(torch.optim.Adam), "this is Adam with L2, which AdamW avoids"),
    ("adamw", written(w="w - lr * step - wd * w"), "decay is not multiplied by rate"),
    ("adamw", written(mh="m", vh="v"), "m and v are not corrected"),
    ("adamw", written(answer="(w, mh, vh)"), "m and v are returned as they were corrected for"),
    ("adamw", adamw_in_place, "changes m and v in place"),
    ("adamw", written(answer="w"), "return three things: weight, m, v"),
    ("adamw", written(answer="(w.sum(), m, v)"), "weight has shape (); (1,) is wanted here"),
    ("training_cost", costs("2 * P * T / (ops * share) / 3600"), "2 operations are counted"),
    ("training_cost", costs("6 * P * T / (ops * share)"), "these are seconds, not hours"),
    ("training_cost", costs("6 * P * T / ops * share / 3600"), "share makes the training shorter"),
    ("training_cost", costs(c=2, answer="(hours, price)"), "the forward pass alone. (There is"),
    ("training_cost", costs(answer="hours"), "return two things: hours, money"),
]


@pytest.mark.parametrize(("name", "f"), RIGHT)
def test_right_answers_pass(name: str, f: Any) -> None:
    assert verdict(getattr(check, name), f).startswith(f"✓ {name}: ")


@pytest.mark.parametrize(("name", "wrong", "text"), WRONG)
def test_a_mistake_written_in_another_way_is_named(name: str, wrong: Any, text: str) -> None:
    assert_named(getattr(check, name), name, wrong, text)


# -- a test of resuming


def run(trainer: Any, steps: int) -> Any:
    for _ in range(steps):
        trainer.step()
    return trainer


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


def one_step_too_many(trainer: Any) -> bool:
    state = run(trainer(), 5).save()
    return torch.equal(run(trainer.load(state), 4).weights(), run(trainer(), 8).weights())


def looks_into_the_state(trainer: Any) -> bool:
    return right_resume_test(trainer) and "m" in trainer().save()


NAMES = [seen(exhibit) for exhibit in exhibits(RESUME_TEST)]


def test_another_good_test_passes() -> None:
    assert verdict(check.resume_test, resume_in_one_run).startswith("✓ resume_test: accepts 2 ")


@pytest.mark.parametrize(
    ("t", "past"),
    [
        (lambda trainer: True, NAMES),
        (round_trip, [name for name in NAMES if "half" not in name]),
        (without_more_steps, ["a loop that saves no copy"]),
        (about, ["a loop that saves in half precision"]),
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
    ],
)
def test_tests_that_refuse_right_trainers_are_told_why(t: Callable[..., Any], text: str) -> None:
    said = words(verdict(check.resume_test, t))
    assert said.startswith("✗ resume_test: ")
    assert text in said


@pytest.mark.parametrize("shown", [e.wrong[0] for e in exhibits(RESUME_TEST)], ids=NAMES)
def test_all_trainers_learn_alike_until_they_are_stopped(shown: Any) -> None:
    """Nothing but resuming gives the broken ones away."""
    assert torch.equal(run(shown(), 300).weights(), run(ByHand(), 300).weights())
