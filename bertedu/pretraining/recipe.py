"""What decides a pre-training run: steps, phases, rates, masking. All of it is in its record."""

from dataclasses import dataclass
from typing import Any, Literal

from bertedu.pretraining.masking import PAPER

# which words a model is asked for: hidden ones; the next one everywhere; or at some places only
Question = Literal["masked", "next", "some next"]


@dataclass(frozen=True)
class Phase:
    """A stretch of training: ``share`` of all steps, at one length, batch size and masking rate."""

    share: float
    length: int
    batch_size: int
    mask_rate: float = 0.15


@dataclass(frozen=True)
class Recipe:
    """How to train. The defaults learn most per minute on a small machine; see data/README.md.

    The paper's own: length 128 for 90 % of the steps, then 512; batch 256; 15 %; learning rate
    1e-4; 10,000 of 1,000,000 steps of warm-up; dropout 0.1.
    """

    steps: int
    learning_rate: float = 1e-3
    warmup_share: float = 0.02
    weight_decay: float = 0.01
    clip_norm: float = 1.0
    seed: int = 0
    next_sentence: bool = True  # whether the loss has this part
    masking: tuple[float, float] = PAPER  # share of [MASK], of random words (section 3.1)
    question: Question | None = None  # None: masked words of a bidirectional model, else next ones
    phases: tuple[Phase, ...] = (Phase(0.7, 64, 32, 0.30), Phase(0.3, 128, 16, 0.15))

    def phase_at(self, step: int) -> int:
        """Return the index of the phase that holds a step."""
        end = 0.0
        for index, phase in enumerate(self.phases):
            end += phase.share * self.steps
            if step < round(end):
                return index
        return len(self.phases) - 1

    def learning_rate_at(self, step: int) -> float:
        """Rise linearly from 0 during warm-up, then fall linearly to 0 (paper, appendix A.2)."""
        return scheduled_rate(step, self.steps, self.learning_rate, self.warmup_share)


def scheduled_rate(step: int, steps: int, peak: float, warmup_share: float) -> float:
    """Return the learning rate of a step: a linear rise from 0 to ``peak``, a linear fall to 0."""
    warmup = max(1, round(warmup_share * steps))
    rise = (step + 1) / warmup
    fall = (steps - step) / max(1, steps - warmup)
    return peak * min(rise, fall, 1.0)


def recipe_from(values: dict[str, Any]) -> Recipe:
    """Make a recipe of what a state or `training.json` holds; what it lacks has its default."""
    phases = tuple(Phase(**phase) for phase in values["phases"])
    masking = tuple(values.get("masking", PAPER))
    values = {**values, "phases": phases, "masking": masking}
    if "masked" in values:  # a record of before there was a third question
        values["question"] = {True: "masked", False: "next", None: None}[values.pop("masked")]
    return Recipe(**values)
