"""The exercises of notebook 07: learning rate, clipping, AdamW, the cost, a test of resuming."""

import copy
import random
from collections.abc import Iterator
from functools import partial
from typing import Any, Self

import torch
from torch import Tensor, nn

from bertedu.optimization import make_optimizer
from bertedu.pretraining.batches import Recipe
from bertedu.pretraining.trainer import load_state, save_state
from course.exercises import judge
from course.exercises.judge import Exercise, Inputs, UnreadableError, differing
from course.exercises.museum import TestExercise


def _rate_cases() -> list[Inputs]:
    runs = ((3, 1, 2.0), (4, 2, 0.5), (6, 3, 10.0), (10, 4, 1.0), (20, 2, 4.0), (50, 10, 2.0))
    return [(step, *run) for run in runs for step in range(run[0])]


@Exercise.asking(
    asks="(step, steps, warmup, peak) -> float: up in a line, then down in a line. Step counts "
    "from 0; the rate of the last warm-up step is peak, that of steps would be 0",
    cases=_rate_cases,
    tried="every step of 6 runs, from 3 steps to 50. It reaches peak and never goes above.",
    start="rise = (step + 1) / warmup. What is the line that is 1 at step warmup, and 0 at steps?",
    beside=(Recipe.learning_rate_at,),
    mistakes="""
    ✗ there is no warm-up.
      nothing rises. Adam's averages of the first steps know little, so these steps must be small:
      (step + 1) / warmup while that is less than 1.
    | min(rise, fall) => (1 - step / steps)
    ✗ the fall is measured from step 0, not from the end of warm-up.
      (steps - step) / steps is below 1 when warm-up ends, so the rate jumps. Divide by
      steps - warmup. (Google's own BERT jumps, by 1 %: its warm-up is that short.)
    | (steps - warmup) => steps
    | min(rise, fall) => (rise if step < warmup else (steps - step) / steps)
    ✗ the rate of step 0 is 0: the first step changes nothing.
      step / warmup. Steps count from 0, so rise with step + 1.
    | (step + 1) => step
    """,
)
def right_learning_rate(step: int, steps: int, warmup: int, peak: float) -> float:
    """Rise in a line for ``warmup`` steps, then fall in a line; ``step`` counts from 0."""
    rise = (step + 1) / warmup
    fall = (steps - step) / (steps - warmup)
    return peak * min(rise, fall)


Gradients = list[Tensor]


def _clip_cases() -> Iterator[Inputs]:
    whole = partial(torch.randint, generator=torch.Generator().manual_seed(9))
    yield [torch.tensor([3.0]), torch.tensor([-4.0])], 2.5
    sizes: list[list[tuple[int, ...]]] = [[(1,), (1,)], [(2,), (1,)], [(2,), (2,), (1,)]]
    for shapes in [*sizes, [(2, 2), (3,)], [(4, 5), (5,), (5, 4), (4,)]]:
        for i in range(16):
            signs = [whole(0, 2, shape) * 2 - 1 for shape in shapes]
            gradients = [sign * whole(1, 7, sign.shape) / 2 for sign in signs]
            yield gradients, (0.5, 1.0, 2.0, 5.0, 20.0)[i % 5]


def _read_clip(answer: Any, gradients: Gradients, max_norm: float) -> list[Any]:
    if not isinstance(answer, list | tuple) or len(answer) != len(gradients):
        raise UnreadableError(
            f"your function returned {judge.kind_of(answer)}; a list of tensors is wanted, as many "
            f"as in gradients, here {len(gradients)}."
        )
    return [
        judge.read_tensor(mine, f"tensor {i} of the list", g.shape).float().tolist()
        for i, (mine, g) in enumerate(zip(answer, gradients, strict=True), start=1)
    ]


@Exercise.asking(
    moved=judge.anything_moved,
    asks="(gradients, max_norm) -> list of tensors, whose common norm is at most max_norm",
    cases=_clip_cases,
    read=_read_clip,
    tried="81 random cases, of 2 to 4 tensors. Long gradients get shorter and keep their "
    "direction, short ones stay.",
    start="one norm of all numbers in all tensors: the root of the sum of their squares.",
    in_place="return new tensors, g * scale for each g.",
    mistakes="""
    ✗ each tensor is clipped by itself.
      the norm is taken inside the loop. One norm of all tensors together, and one factor for all,
      or the direction of the step changes.
    | g * scale => g * (max_norm / g.norm()).clamp(max=1)
    ✗ the norms of the tensors are added up.
      lengths in different directions do not add: add up the squares of the norms, then take the
      root.
    | g.square().sum().item() for g in gradients) ** 0.5 => g.norm().item() for g in gradients)
    ✗ small gradients are scaled up.
      the if is missing. Near the end gradients should be small: scale only if norm is above
      max_norm, or by min(1, max_norm / norm).
    | if norm > max_norm else 1.0 =>
    """,
)
def right_clip(gradients: Gradients, max_norm: float) -> Gradients:
    """Scale all gradients by one factor, so that their common norm is at most ``max_norm``."""
    norm = sum(g.square().sum().item() for g in gradients) ** 0.5
    scale = max_norm / norm if norm > max_norm else 1.0
    return [g * scale for g in gradients]


def _adamw_cases() -> Iterator[Inputs]:
    """First steps that can be done by hand, a gradient of 0, a tiny one, then later steps."""
    generator = torch.Generator().manual_seed(10)

    def whole(low: int, size: int) -> Tensor:
        sign = torch.randint(2, (size,), generator=generator) * 2 - 1
        return sign * torch.randint(low, 9, (size,), generator=generator).float()

    zero = torch.zeros(1)
    yield zero + 1, zero + 2, zero, zero, 1, 0.1, 0.5
    yield zero + 1, zero, zero, zero, 1, 0.1, 0.5
    yield zero, zero + 0.0003, zero, zero, 1, 1.0, 0.0
    for size, ts in ((1, (1, 2, 3)), (2, (1, 2, 3, 5, 10)), (6, (1, 2, 10, 100))):
        for t in ts:
            for rate, decay in ((0.1, 0.5), (1.0, 0.1), (0.5, 0.5), (1.0, 0.0)):
                weight, m, v = whole(1, size) / 2, torch.zeros(size), torch.zeros(size)
                for now in range(1, t):
                    _, m, v = right_adamw(weight, whole(2, size), m, v, now, rate, decay)
                m, v = m.round(decimals=3), v.round(decimals=3)
                yield weight, whole(2, size), m, v, t, rate, decay


def _averages_first(answer: Any, *inputs: Any) -> tuple[list[Any], list[Any]]:
    """The weight follows from the averages."""
    names = ("weight", "m", "v")
    each = zip(judge.read_parts(answer, ", ".join(names)), names, inputs, strict=False)
    weight, *averages = (judge.read_numbers(part, name, like.shape) for part, name, like in each)
    return averages, weight


@Exercise.asking(
    asks="(weight, gradient, m, v, t, rate, decay) -> (weight, m, v); t counts from 1. Right is "
    "one step of torch.optim.AdamW with betas 0.9 and 0.999 and eps 1e-8",
    cases=_adamw_cases,
    read=_averages_first,
    differ=differing("m and v", "weight"),
    first_part=0,
    tried="51 steps, from the first to the hundredth, as torch.optim.AdamW does them.",
    start="the two averages: m = 0.9 * m + 0.1 * gradient, and v the same way, of the squares.",
    in_place="m += … and m.mul_(…) write into the caller's tensor; m = m + … makes a new one.",
    beside=(make_optimizer,),
    mistakes="""
    ✗ decay is added to the gradient: this is Adam with L2, which AdamW avoids.
      there, decay goes through m and v and is divided by the root: weights with large gradients
      hardly decay. Keep it out: weight - rate * decay * weight.
    | 0.9 * m + => 0.9 * m + 0.1 * decay * weight + && gradient**2 => (gradient + decay * weight)**2
      && weight = weight - rate * decay * weight =>
    ✗ decay is not multiplied by rate.
      weight - decay * weight takes the same away while the rate falls to 0. Right is
      weight - rate * decay * weight.
    | rate * decay => decay
    ✗ m and v are not corrected for their start at 0.
      after one step m is a tenth of the gradient: m / (1 - 0.9**t), v / (1 - 0.999**t). (Google's
      own BERT left this out; torch's AdamW does not.)
    | m / (1 - 0.9**t) => m && v / (1 - 0.999**t) => v
    ✗ m and v are returned as they were corrected for this step.
      the next step goes on from the averages themselves; corrected anew each time, they would grow.
      Keep the quotients under other names, m_hat and v_hat, and return m and v.
    | return weight, m, v => return weight, m_hat, v_hat
    """,
)
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


def _cost_cases() -> Iterator[Inputs]:
    pick = random.Random(11).choice
    yield 10**6, 3 * 10**6, 10**10, 0.4, 4.0
    for scale in [1] * 13 + [10] * 13 + [100] * 13:
        parameters, tokens = pick((1, 2, 4, 11)) * scale * 10**6, pick((5, 7, 12)) * scale * 10**7
        speed = pick((1, 2, 5)) * scale * 10**11
        yield parameters, tokens, speed, pick((0.2, 0.25, 0.4, 0.8)), pick((0.3, 2.0))
    # BERT-base, by the paper's numbers: 128,000 tokens a batch, 1,000,000 times
    yield 110 * 10**6, 128 * 10**9, 10**15, 0.4, 2.5


@Exercise.asking(
    asks="(parameters, tokens, operations_per_second, share, price) -> (hours, money). Count 6 "
    "operations per parameter and token, at share of the chip's best speed",
    cases=_cost_cases,
    tensors="hours, money",
    first_part=0,
    tried="41 trainings, from 1 million parameters to BERT-base.",
    start="the operations of the whole training: 6 * parameters * tokens.",
    mistakes="""
    ✗ 2 operations are counted, not 6: that is the forward pass alone.
      backward costs twice as much again, one gradient for the inputs and one for the weights:
      2 + 4 = 6.
    | 6 * parameters => 2 * parameters
    ✗ these are seconds, not hours.
      operations divided by operations per second are seconds. Divide by 3600.
    | seconds / 3600 => seconds
    ✗ share makes the training shorter.
      the smaller share is, the longer it takes: divide by it.
    | * share => / share
    """,
)
def right_training_cost(
    parameters: int, tokens: int, operations_per_second: int, share: float, price: float
) -> tuple[float, float]:
    """Return hours and money for a training at ``share`` of a chip's speed; price is per hour.

    Each token multiplies and adds once with each parameter: 2 operations forward, 4 backward.
    """
    seconds = 6 * parameters * tokens / (operations_per_second * share)
    hours = seconds / 3600
    return hours, hours * price


# -- a test of resuming

_ROWS = torch.randn(1009, 5, generator=torch.Generator().manual_seed(12))  # four inputs, a target


class SmallRun:
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
        return self.weight.detach().clone()

    def save(self) -> dict[str, Any]:
        """Return a state from which `load` can go on."""
        names = ("weight", "m", "v", "steps", "chance", "place")
        state = {name: getattr(self, name) for name in names}
        return copy.deepcopy(state)

    @classmethod
    def load(cls, state: dict[str, Any]) -> Self:
        """Go on from a state."""
        trainer = cls()
        vars(trainer).update(copy.deepcopy(state))
        return trainer


class _WithTorch(SmallRun):
    """Another small run, with torch's AdamW; its batches are drawn anew from seed and step."""

    def __init__(self) -> None:
        self.weight = nn.Parameter(torch.zeros(4))
        self.optimizer = torch.optim.AdamW([self.weight], weight_decay=0.01)
        self.steps = 0

    def step(self) -> None:
        generator = torch.Generator().manual_seed(14_000_000 + self.steps)
        rows = _ROWS[torch.randint(len(_ROWS), (3,), generator=generator)]
        self.optimizer.param_groups[0]["lr"] = 0.1 * min(1.0, (self.steps + 1) / 10)
        self.optimizer.zero_grad()
        with torch.enable_grad():
            loss = (rows[:, :4] @ self.weight - rows[:, 4]).square().mean()
            loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        self.steps += 1

    def save(self) -> dict[str, Any]:
        return copy.deepcopy(vars(self))


@TestExercise.asking(
    asks="(trainer) -> bool, true if its runs resume exactly. trainer is a class: trainer() starts "
    "a run, .step() does a step, .save() returns a state, trainer.load(state) goes on from it, "
    ".weights() returns a copy of the weights",
    thing="trainer",
    start="whole = trainer(), and some steps without a break. A run that is saved halfway must end "
    "with the same weights.",
    right=(
        ("by hand, with a generator whose state is saved", SmallRun),
        ("with torch.optim.AdamW, its batches drawn from seed and step", _WithTorch),
    ),
    refuses_all="the two runs have not done the same number of steps: n without a break; k, save, "
    "load, then n - k. Or keep what load returns: resumed = trainer.load(state) is a new trainer.",
    refuses_right="what is in a state is the trainer's own business. Compare weights() only, after "
    "equally many steps.",
    beside=(save_state, load_state),
    museum="""
    ✗ a loop that saves no optimizer: Adam's averages m and v begin again at 0.
      go on after load: the weights just loaded are right, the next step is not.
    | "m", "v", =>
    ✗ a loop that saves no step number: the learning rate begins again at warm-up.
      save after some steps, and go on after load.
    | "steps", =>
    ✗ a loop that saves no place in the data: the first batches are read again.
      save after some steps, go on after load, and compare with a run that was never stopped.
    | , "place") => )
    ✗ a loop that saves no random state: dropout draws the numbers of the first steps again.
      compare with a run that was never stopped, not with a second resumed one.
    | "chance", =>
    ✗ a loop that saves no copy: the state holds the run's own tensors, which later steps change.
      let the first run do more steps between save and load.
    | return copy.deepcopy(state) => return state
    ✗ a loop that saves in half precision: the weights come back rounded.
      compare exactly, with torch.equal.
    | return copy.deepcopy(state) => state["weight"] = self.weight.half().float(); return
      copy.deepcopy(state)
    """,
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
