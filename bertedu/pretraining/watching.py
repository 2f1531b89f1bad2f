"""What happens around the steps of a run: means, the curve, saves, Ctrl-C, a NaN."""

import math
import time
from collections.abc import Sequence
from dataclasses import asdict
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


class Meter:
    """What the steps since the last row of the curve came to, on average."""

    def __init__(self, state: State, device: torch.device) -> None:
        self.device, self.began, self.before = device, time.perf_counter(), state.seconds
        self.restart()

    def restart(self) -> None:
        """Begin a new row."""
        self.sums, self.steps, self.tokens = torch.zeros(5, device=self.device), 0, 0

    def add(self, scores: Tensor, norm: Tensor, tokens: int) -> None:
        """Count a step: its four scores, the norm of its gradient, its tokens."""
        # The gradient is watched, too: this step's loss may be fine and its update NaN.
        self.sums = self.sums + torch.cat([scores, norm.detach()[None]])
        self.steps, self.tokens = self.steps + 1, self.tokens + tokens

    def means(self) -> list[float]:
        """Return the averages over steps and processes."""
        means: list[float] = processes.mean(self.sums / max(1, self.steps)).tolist()
        return means

    def seconds(self) -> float:
        """Return the seconds of training, earlier sittings included."""
        return self.before + time.perf_counter() - self.began


def progress_bar(state: State, last: int, progress: bool) -> tqdm:
    """Show how far the run is, from the first process only."""
    shown = progress and processes.rank() == 0
    return tqdm(total=last, initial=state.step, desc="pre-training", disable=not shown, unit="step")


def log(
    meter: Meter,
    state: State,
    recipe: Recipe,
    state_path: Path | None,
    bar: tqdm,
) -> None:
    """Write a row of the curve; refuse a loss that is no number."""
    means = meter.means()
    if not all(map(math.isfinite, means)):
        raise TrainingDiverged(_diverged(state, recipe, meter.steps, state_path))
    seconds = meter.seconds()
    bar.set_postfix_str(
        f"loss {means[0]:.2f}, words {means[1]:.1%}, "
        + (f"order {means[3]:.1%}, " if recipe.next_sentence else "")
        + f"{meter.tokens / max(seconds - state.seconds, 1e-9):,.0f} tokens/s"
    )
    state.seconds = seconds
    row: dict[str, float] = {
        "step": state.step,
        "tokens": state.tokens,
        "seconds": round(seconds, 1),
        "mlm_loss": means[0],
        "mlm_accuracy": means[1],
    }
    if recipe.next_sentence:
        row |= {"nsp_loss": means[2], "nsp_accuracy": means[3]}
    state.curve.append(row)
    meter.restart()


def score_on_dev(
    model: PreTrainingModel, held_out: Sequence[Batch], state: State, recipe: Recipe, bfloat16: bool
) -> None:
    """Put scores on held-out batches into the last row of the curve."""
    if not held_out or processes.rank() != 0:
        return
    with torch.autocast(next(model.parameters()).device.type, torch.bfloat16, enabled=bfloat16):
        dev = evaluate(model, held_out)
    state.curve[-1] |= {
        f"dev_{name}": value
        for name, value in asdict(dev).items()
        if recipe.next_sentence or not name.startswith("nsp")
    }


def save(
    path: Path | None,
    model: PreTrainingModel,
    optimizer: torch.optim.Optimizer,
    state: State,
    recipe: Recipe,
) -> None:
    """Save the state, if it is to be saved and this process is the one that writes."""
    if path is not None and processes.rank() == 0:
        save_state(path, model, optimizer, state, recipe)


def keep(model: PreTrainingModel, state_path: Path, step: int) -> None:
    """Keep the weights of the middle of a run, as a checkpoint of its own."""
    if processes.rank() == 0:
        folder = state_path.parent / "steps" / f"{step:06d}"
        save_checkpoint(model, folder, torch.float16)
        save_tokenizer(load_vocabulary(), folder)


def stop(
    model: PreTrainingModel,
    optimizer: torch.optim.Optimizer,
    meter: Meter,
    state: State,
    recipe: Recipe,
    state_path: Path | None,
) -> None:
    """Save what Ctrl-C found, if it is worth saving, and raise KeyboardInterrupt."""
    if state_path is None:
        raise KeyboardInterrupt(f"stopped after step {state.step}; nothing was saved")
    if not all(map(math.isfinite, meter.means())):
        raise TrainingDiverged(_diverged(state, recipe, meter.steps, state_path))
    state.seconds = meter.seconds()
    save(state_path, model, optimizer, state, recipe)
    raise KeyboardInterrupt(
        f"stopped after step {state.step}; the state is in {state_path}: go on with --resume"
    )


def _diverged(state: State, recipe: Recipe, steps: int, path: Path | None) -> str:
    kept = (
        f"The last good state is kept in {path}."
        if path is not None and path.exists()
        else "No state was saved yet."
    )
    return (
        f"the loss or its gradient became NaN or infinite between steps {state.step - steps + 1} "
        f"and {state.step}, at learning rate {recipe.learning_rate_at(state.step - 1):.2g}. {kept} "
        "The same chance would lead there again: start in another folder with half the learning "
        "rate, or another seed."
    )
