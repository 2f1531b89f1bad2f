"""What a pre-training run is: what is asked for, and the recipe that decides its weights."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast, get_args

from bertedu.model.config import BertConfig, Direction
from bertedu.model.optimization import scheduled_rate
from bertedu.pretraining.masking import PAPER, read_procedure

# which words a model is asked for: hidden ones; the next one everywhere; or at some places only;
# or hidden ones, of each text another share, drawn from none to all
Question = Literal["masked", "next", "some next", "drawn"]
Optimizer = Literal["adamw", "muon"]

# name -> what a token may see; whether the loss has a next-sentence part; the words asked for (5.1)
VARIANTS: dict[str, tuple[Direction, bool, Question]] = {
    "bert": ("bidirectional", True, "masked"),
    "no-nsp": ("bidirectional", False, "masked"),
    "ltr": ("left-to-right", False, "next"),
    "rtl": ("right-to-left", False, "next"),
    "elmo": ("left-to-right", False, "next"),  # it reads its text from both ends
    # the question of no-nsp under another attention mask: same batches, same blanks, same loss
    "mlm-ltr": ("left-to-right", False, "masked"),
    "mlm-rtl": ("right-to-left", False, "masked"),
    "ltr-some": ("left-to-right", False, "some next"),  # as many questions as no-nsp is asked
    "diffusion": ("bidirectional", False, "drawn"),  # each text by 1 / its share of blanks
}
TOKENS_A_STEP = 2048  # of the default recipe

# option -> what it may be, and in words
NUMBERS: dict[str, tuple[Callable[[float], bool], str]] = {
    "--learning-rate": (lambda rate: 0 < rate < math.inf, "a number above zero, such as 0.001"),
    "--dropout": (lambda share: 0 <= share < 1, "a share from 0 to below 1: 0.1 is 10 %"),
    "--steps": (lambda steps: steps >= 1, "a number above zero"),
    "--minutes": (lambda time: 0 < time < math.inf, "a number above zero"),
    "--batch-tokens": (lambda tokens: tokens >= 1, "a whole number above zero: 2048 is usual"),
    "--seed": (lambda seed: 0 <= seed < 2**32, f"a whole number from 0 to {2**32 - 1}"),
    "--mask-rate": (lambda rate: 0 < rate <= 1, "above 0 and at most 1: 0.15 is 15 %"),
}


def check_number(option: str, value: float | None) -> None:
    """Raise ValueError if a number is not what `NUMBERS` says of its option; None: not given."""
    fits, wanted = NUMBERS[option]
    if value is not None and not fits(value):
        raise ValueError(f"{option} {value} should be {wanted}")


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
    optimizer: Optimizer = "adamw"
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


def recipe_from(values: dict[str, Any]) -> Recipe:
    """Make a recipe of what a state or `training.json` holds; what it lacks has its default."""
    phases = tuple(Phase(**phase) for phase in values["phases"])
    return Recipe(**{**values, "phases": phases, "masking": tuple(values.get("masking", PAPER))})


@dataclass(frozen=True)
class PreTrainingOptions:
    """What `pretrain` is asked for. None: as a resumed run began, else the recipe's own.

    A new model has the size ``config`` (a preset); or the run starts from the weights of the
    finished checkpoint ``init``, with a fresh optimizer and learning rate.
    """

    out: Path  # receives the checkpoint; while the run lasts, its state
    config: str | None = None
    init: Path | None = None
    steps: int | None = None  # or
    minutes: float | None = None
    corpus: Sequence[str] | None = None
    stream: str | None = None  # text too big for memory (`DocumentStream`), in place of corpora
    variant: str = "bert"  # one of `VARIANTS`: what a token may see, and the loss
    seed: int | None = None
    learning_rate: float | None = None
    optimizer: str = "adamw"  # or "muon"
    dropout: float = 0.0
    batch_tokens: int = TOKENS_A_STEP
    length: int | None = None  # tokens a sequence all the time, in place of the recipe's phases
    mask_rate: float | None = None  # share of tokens that is selected, all the time
    masking: str | None = None  # of these, MASK/SAME/RND in per cent (table 8)
    device: str | None = None
    bfloat16: bool | None = None
    compiled: bool = False  # `torch.compile`: the first step of each phase then takes a minute
    threads: int | None = None
    save_every: int = 200
    keep_every: int | None = None  # keep the weights of every so many steps in `steps/NNNNNN`
    stop_at: int | None = None  # stop after this step; ``resume`` goes on
    resume: bool = False

    def check(self) -> None:
        """Refuse what makes no sense, before any work is done, by a ValueError that says why."""
        for option in NUMBERS:
            check_number(option, getattr(self, option.strip("-").replace("-", "_")))
        if self.masking is not None:
            read_procedure(self.masking)
        if self.config and self.init:
            raise ValueError(
                "choose either --config, for a new model, or --init, to train one further"
            )
        if self.variant not in VARIANTS:
            raise ValueError(f"no variant {self.variant!r}: choose one of {', '.join(VARIANTS)}")
        if self.optimizer not in get_args(Optimizer):
            raise ValueError(f"no optimizer {self.optimizer!r}: choose adamw or muon")
        for option, given, questions in (
            ("--masking", self.masking, {"masked"}),
            ("--mask-rate", self.mask_rate, {"masked", "some next"}),
        ):
            if given is not None and VARIANTS[self.variant][2] not in questions:
                raise ValueError(
                    f"the variant {self.variant} reads its text unmasked, or draws how much is "
                    f"hidden: leave out {option}"
                )
        if self.variant == "elmo" and self.init is not None:
            raise ValueError("--init trains a BERT further; an ELMo starts from scratch")
        if self.variant == "elmo" and (self.compiled or self.optimizer == "muon"):
            raise ValueError("an LSTM is one fused operation: leave out --compile and muon")

    def recipe(self, config: BertConfig) -> Recipe:
        """Return the recipe of a new run; without ``steps`` it has one, until a step is timed.

        Raises ValueError if the sequences are too long for a model of that size.
        """
        phases = Recipe.phases if self.length is None else (Phase(1.0, self.length, 1),)
        phases = tuple(
            Phase(
                phase.share,
                phase.length,
                max(1, self.batch_tokens // phase.length),
                phase.mask_rate if self.mask_rate is None else self.mask_rate,
            )
            for phase in phases
        )
        longest = max(phase.length for phase in phases)
        if not 16 <= longest <= config.max_position_embeddings:
            raise ValueError(
                f"sequences of {longest} tokens do not fit: choose a --length from 16 to "
                f"{config.max_position_embeddings}, the positions that the model has"
            )
        _, next_sentence, question = VARIANTS[self.variant]
        return Recipe(
            self.steps or 1,
            Recipe.learning_rate if self.learning_rate is None else self.learning_rate,
            seed=self.seed or 0,
            next_sentence=next_sentence,
            masking=PAPER if self.masking is None else read_procedure(self.masking),
            question=question,
            optimizer=cast(Optimizer, self.optimizer),
            phases=phases,
        )
