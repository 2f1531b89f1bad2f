"""Where a run stands, on disk: all that it takes to go on as if nobody had stopped it."""

import json
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn

from bertedu.model.checkpoints import CheckpointError, load_tensors, save_tensors
from bertedu.pretraining.batches import Position
from bertedu.pretraining.recipe import Recipe, recipe_from


@dataclass
class State:
    """Where training stands: everything that `--resume` needs besides the weights."""

    step: int = 0
    position: Position = field(default_factory=Position)
    tokens: int = 0
    seconds: float = 0.0
    curve: list[dict[str, float]] = field(default_factory=list)

    def advance(self, position: Position, tokens: int) -> None:
        """Count a step that is done: where the next batch is, and the tokens of this one."""
        self.step, self.position, self.tokens = self.step + 1, position, self.tokens + tokens


def save_state(
    path: Path, model: nn.Module, optimizer: torch.optim.Optimizer, state: State, recipe: Recipe
) -> None:
    """Write weights, both Adam averages and the state into one file, in one rename."""
    tensors = {}
    for name, parameter in model.named_parameters():
        tensors[f"weight/{name}"] = parameter.detach().cpu().contiguous()
        for key, value in optimizer.state.get(parameter, {}).items():
            tensors[f"{key}/{name}"] = value.cpu().contiguous()
    described = {"state": asdict(state), "recipe": asdict(recipe)}
    save_tensors(tensors, path, {"training": json.dumps(described)})


def load_state(
    path: Path, model: nn.Module, optimizer: torch.optim.Optimizer, recipe: Recipe
) -> State:
    """Take up a run where `save_state` left it, if it is of this model and recipe."""
    tensors, metadata = load_tensors(path)
    try:
        described = json.loads(metadata["training"])
        if recipe_from(described["recipe"]) != recipe:
            raise CheckpointError(
                f"{path} was trained by another recipe: {described['recipe']}. Resume with the "
                "same options, or choose another --out."
            )
        parameters = dict(model.named_parameters())
        if other := {name.partition("/")[2] for name in tensors} ^ parameters.keys():
            raise KeyError(min(other))
        for name, parameter in parameters.items():
            with torch.no_grad():
                parameter.copy_(tensors[f"weight/{name}"])
            if not recipe.next_sentence and f"step/{name}" not in tensors:
                continue  # the pooler and the head of the sentence pairs: no loss has moved them
            optimizer.state[parameter] = {
                # the fused optimizer counts steps on the device of the weights
                "step": tensors[f"step/{name}"].to(parameter.device),
                "exp_avg": tensors[f"exp_avg/{name}"].to(parameter),
                "exp_avg_sq": tensors[f"exp_avg_sq/{name}"].to(parameter),
            }
    except (KeyError, RuntimeError) as error:
        raise CheckpointError(
            f"{path} belongs to another model ({error}). Resume with the config it was started "
            "with, or choose another --out."
        ) from None
    values = described["state"]
    return State(**{**values, "position": Position(**values["position"])})


@contextmanager
def interrupt_between_steps() -> Iterator[threading.Event]:
    """Let Ctrl-C set a flag, so that no step is left half done; a second Ctrl-C stops at once."""
    asked = threading.Event()

    def ask(signum: int, frame: Any) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        asked.set()

    before = signal.signal(signal.SIGINT, ask)
    try:
        yield asked
    finally:
        signal.signal(signal.SIGINT, before)


def read_recipe(state_path: Path) -> Recipe:
    """Read back the recipe of an unfinished run; raise CheckpointError if that is none."""
    _, metadata = load_tensors(state_path)
    try:
        return recipe_from(json.loads(metadata["training"])["recipe"])
    except (KeyError, TypeError, ValueError):
        raise CheckpointError(f"{state_path} is not the state of a training run") from None
