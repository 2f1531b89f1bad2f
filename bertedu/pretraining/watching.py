"""What happens around the steps of a run: means, the curve, saves, Ctrl-C, a NaN."""

import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor
from tqdm.auto import tqdm

from bertedu.model.checkpoints import save_checkpoint
from bertedu.pretraining import processes
from bertedu.pretraining.batches import Batch
from bertedu.pretraining.evaluation import PreTrainingModel, evaluate
from bertedu.pretraining.recipe import Recipe
from bertedu.pretraining.state import State, save_state
from bertedu.text.fast_tokenizer import load_vocabulary, save_tokenizer


class TrainingDiverged(FloatingPointError):
    """The loss is no longer a number."""


@dataclass
class Watch:
    """A run between its steps: what they came to since the last row of the curve, and its files."""

    model: PreTrainingModel
    optimizer: torch.optim.Optimizer
    state: State
    recipe: Recipe
    path: Path | None
    last: int  # step of this sitting
    progress: bool

    def __post_init__(self) -> None:
        """Begin to count."""
        self.device = next(self.model.parameters()).device
        self.began = time.perf_counter() - self.state.seconds  # earlier sittings included
        self.first = processes.rank() == 0  # the process that writes and speaks
        step, hidden = self.state.step, not (self.progress and self.first)
        self.bar = tqdm(
            total=self.last, initial=step, desc="pre-training", disable=hidden, unit="step"
        )
        self._begin_row()

    def _begin_row(self) -> None:
        self.sums, self.steps, self.tokens = torch.zeros(5, device=self.device), 0, 0

    def count(self, scores: Tensor, norm: Tensor, tokens: int) -> None:
        """Count a step: its four scores, the norm of its gradient, its tokens."""
        # The gradient is watched, too: this step's loss may be fine and its update NaN.
        self.sums = self.sums + torch.cat([scores, norm.detach()[None]])
        self.steps, self.tokens = self.steps + 1, self.tokens + tokens
        self.bar.update()

    def seconds(self) -> float:
        """Return the seconds of training, earlier sittings included."""
        return time.perf_counter() - self.began

    def _means(self) -> list[float]:
        """Return the averages over steps and processes; refuse a loss that is no number."""
        means: list[float] = processes.mean(self.sums / max(1, self.steps)).tolist()
        if all(map(math.isfinite, means)):
            return means
        kept, step = "No state was saved yet.", self.state.step
        if self.path is not None and self.path.exists():
            kept = f"The last good state is kept in {self.path}."
        raise TrainingDiverged(
            "the loss or its gradient became NaN or infinite between steps "
            f"{step - self.steps + 1} and {step}, at learning rate "
            f"{self.recipe.learning_rate_at(step - 1):.2g}. {kept} The same random numbers "
            "lead there again: start in another folder, at half the learning rate or another seed."
        )

    def log(self) -> None:
        """Write a row of the curve."""
        means, seconds, state = self._means(), self.seconds(), self.state
        self.bar.set_postfix_str(
            f"loss {means[0]:.2f}, words {means[1]:.1%}, "
            + (f"order {means[3]:.1%}, " if self.recipe.next_sentence else "")
            + f"{self.tokens / max(seconds - state.seconds, 1e-9):,.0f} tokens/s"
        )
        state.seconds = seconds
        row: dict[str, float] = {
            "step": state.step,
            "tokens": state.tokens,
            "seconds": round(seconds, 1),
            "mlm_loss": means[0],
            "mlm_accuracy": means[1],
        }
        if self.recipe.next_sentence:
            row |= {"nsp_loss": means[2], "nsp_accuracy": means[3]}
        state.curve.append(row)
        self._begin_row()

    def score_on_dev(self, held_out: Sequence[Batch], bfloat16: bool) -> None:
        """Put scores on held-out batches into the last row of the curve."""
        if not held_out or not self.first:
            return
        with torch.autocast(self.device.type, torch.bfloat16, enabled=bfloat16):
            dev = evaluate(self.model, held_out)
        self.state.curve[-1] |= {
            f"dev_{name}": value
            for name, value in asdict(dev).items()
            if self.recipe.next_sentence or not name.startswith("nsp")
        }

    def save(self) -> None:
        """Save the state, if it is to be saved and this process is the one that writes."""
        if self.path is not None and self.first:
            save_state(self.path, self.model, self.optimizer, self.state, self.recipe)

    def keep(self) -> None:
        """Keep the weights of the middle of a run, as a checkpoint of its own."""
        if self.path is not None and self.first:
            folder = self.path.parent / "steps" / f"{self.state.step:06d}"
            save_checkpoint(self.model, folder, torch.float16)
            save_tokenizer(load_vocabulary(), folder)

    def stop(self) -> None:
        """Save what Ctrl-C found, if it is worth saving, and raise KeyboardInterrupt."""
        step = self.state.step
        if self.path is None:
            raise KeyboardInterrupt(f"stopped after step {step}; nothing was saved")
        self._means()
        self.state.seconds = self.seconds()
        self.save()
        raise KeyboardInterrupt(
            f"stopped after step {step}; the state is in {self.path}: go on with --resume"
        )
