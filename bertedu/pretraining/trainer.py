"""The pre-training loop: one step after another, a curve, and a state to go on from."""

import json
import math
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn
from tqdm.auto import tqdm

from bertedu import machine
from bertedu.model.bert import BertForPreTraining
from bertedu.model.checkpoints import CheckpointError, load_tensors, save_checkpoint, save_tensors
from bertedu.model.config import BertConfig
from bertedu.model.embeddings import sinusoidal_positions
from bertedu.optimization import MuonAndAdamW, descend, make_optimizer
from bertedu.pretraining.batches import Batch, Position, Recipe, Text, batches, recipe_from
from bertedu.pretraining.next_sentence import EncodedDocument
from bertedu.pretraining.objective import PreTrainingModel, StepLoss, evaluate, shared_by_processes
from bertedu.text.fast_tokenizer import load_vocabulary, save_tokenizer

_ADAM, _MUON = ("step", "exp_avg", "exp_avg_sq"), ("momentum_buffer",)  # what each remembers
_FAR = 1_000_000_007  # further apart than any two steps of a run: dropout differs by process


class TrainingDiverged(FloatingPointError):
    """The loss is no longer a number."""


@dataclass
class State:
    """Where training stands: everything that `--resume` needs besides the weights."""

    step: int = 0
    position: Position = field(default_factory=Position)
    tokens: int = 0
    seconds: float = 0.0
    curve: list[dict[str, float]] = field(default_factory=list)


def save_state(
    path: Path, model: nn.Module, optimizer: torch.optim.Optimizer, state: State, recipe: Recipe
) -> None:
    """Write weights, the averages of the optimizer and the state into one file, in one rename."""
    tensors = {}
    for name, parameter in model.named_parameters():
        tensors[f"weight/{name}"] = parameter
        for key, value in optimizer.state.get(parameter, {}).items():
            tensors[f"{key}/{name}"] = value
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
            kept = _MUON if f"{_MUON[0]}/{name}" in tensors else _ADAM
            if not recipe.next_sentence and f"{kept[0]}/{name}" not in tensors:
                continue  # the pooler and the head of the sentence pairs: no loss has moved them
            # the fused optimizer counts steps on the device of the weights
            values = {key: tensors[f"{key}/{name}"].to(parameter.device) for key in kept}
            optimizer.state[parameter] = values
    except (KeyError, RuntimeError) as error:
        raise CheckpointError(
            f"{path} belongs to another model ({error}). Resume with the config it was started "
            "with, or choose another --out."
        ) from None
    values = described["state"]
    return State(**{**values, "position": Position(**values["position"])})


def read_recipe(state_path: Path) -> Recipe:
    """Read back the recipe of an unfinished run; raise CheckpointError if that is none."""
    _, metadata = load_tensors(state_path)
    try:
        return recipe_from(json.loads(metadata["training"])["recipe"])
    except (KeyError, TypeError, ValueError):
        raise CheckpointError(f"{state_path} is not the state of a training run") from None


def initialize(model: PreTrainingModel, documents: Sequence[EncodedDocument]) -> None:
    """Give two head starts that shorten the early shoulder; both values remain free to learn.

    Positions start as small sinusoids, so that neighbors look alike; the output bias starts at the
    log frequency of each word, so that the model need not spend steps on learning it.
    """
    config = model.config
    counts = torch.ones(config.vocab_size)
    for document in documents:
        for sentence in document.sentences:
            counts += torch.bincount(torch.tensor(sentence), minlength=config.vocab_size)
    share = (counts / counts.sum()).log()
    with torch.no_grad():
        model.decoder.bias.copy_(share)
        if isinstance(model, BertForPreTraining):  # an ELMo has no positions: an LSTM counts
            sines = sinusoidal_positions(config.max_position_embeddings, config.hidden_size)
            model.bert.embeddings.position.weight.copy_(config.initializer_range * sines)


def optimizer_of(recipe: Recipe, model: PreTrainingModel) -> torch.optim.Optimizer:
    """Make the optimizer that a recipe names."""
    make = MuonAndAdamW if recipe.optimizer == "muon" else make_optimizer
    return make(model, recipe.weight_decay)


def stream_of(
    documents: Text, config: BertConfig, recipe: Recipe, state: State
) -> Iterator[tuple[Batch, Position]]:
    """Yield the batches from where a run is; a new phase starts an epoch of its own length."""
    while True:
        index = recipe.phase_at(state.step)
        if state.step and recipe.phase_at(state.step - 1) != index:
            state.position = Position(state.position.epoch + 1, 0)
        for batch in batches(documents, config, recipe, recipe.phases[index], state.position):
            yield batch
            if recipe.phase_at(state.step) != index:
                break


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


@dataclass
class Trainer:
    """Pre-trains a model in place by a recipe. Its state lies at ``path``, if there is one.

    After so many steps each: a row of the curve with the means since the last row, scores on
    held-out batches, a saved state (where a row ends), weights kept in `steps/NNNNNN` beside it.
    Raises ValueError if a state would be saved where no row ends, or processes outnumber rows.
    """

    model: PreTrainingModel
    recipe: Recipe
    path: Path | None = None
    bfloat16: bool = False  # products in 16 bits
    log_every: int = 50
    evaluate_every: int = 2000
    save_every: int = 200
    keep_every: int | None = None
    progress: bool = True

    def __post_init__(self) -> None:
        """Make what the first step needs."""
        if self.save_every % self.log_every:
            raise ValueError(f"save {self.save_every} is not a multiple of log {self.log_every}")
        self.device = next(self.model.parameters()).device
        self.first = machine.process_rank() == 0  # the process that writes and speaks
        self.optimizer = optimizer_of(self.recipe, self.model)
        loss = StepLoss(self.model, self.recipe.next_sentence)
        self.step_loss = shared_by_processes(loss, self.recipe, self.device)
        self.state = State()

    def train(
        self,
        documents: Text,
        held_out: Sequence[Batch] = (),
        resume: bool = False,
        stop_at: int | None = None,
    ) -> State:
        """Train to the last step, and return the state with its curve.

        All chance comes from the recipe's seed and the step, so a run that is killed and resumed
        ends with the same weights, bit for bit, on one CPU thread. With ``stop_at`` it ends after
        that step, its state saved as for Ctrl-C, while the schedule remains that of all steps.

        Raises TrainingDiverged if the loss or its gradient became NaN or infinite (the last good
        state stays on disk), CheckpointError or FileError if a state cannot be read or written,
        KeyboardInterrupt at Ctrl-C, with the last step saved.
        """
        if resume and self.path is not None and self.path.exists():
            self.state = load_state(self.path, self.model, self.optimizer, self.recipe)
        state, steps = self.state, self.recipe.steps
        last = steps if stop_at is None else min(stop_at, steps)
        self.model.train()
        self._began = time.perf_counter() - state.seconds  # earlier sittings included
        self._begin_row()
        stream = stream_of(documents, self.model.config, self.recipe, state)
        hidden = not (self.progress and self.first)
        bar = tqdm(total=last, initial=state.step, desc="pre-training", disable=hidden, unit="step")
        with interrupt_between_steps() as asked_to_stop, bar:
            while state.step < last:
                self._step(*next(stream))
                bar.update()
                at_end = state.step == steps
                if state.step % self.log_every == 0 or at_end:
                    bar.set_postfix_str(self._log())
                    if state.step % self.evaluate_every == 0 or at_end:
                        self._score_on_dev(held_out)
                    if state.step % self.save_every == 0 or at_end:
                        self._save()
                if self.keep_every and state.step % self.keep_every == 0:
                    self._keep()
                asked = torch.tensor(float(asked_to_stop.is_set()), device=self.device)
                if machine.mean_of_processes(asked) > 0:  # in any: all of them stop, or none
                    self._stop()
        if last < steps:
            state.seconds = self._seconds()
            self._save()
        self.model.eval()
        return state

    def _step(self, batch: Batch, position: Position) -> None:
        """Learn from a batch; ``position`` is that of the next one."""
        state, recipe = self.state, self.recipe
        batch, tokens = batch.to(self.device), int(batch.padding_mask.sum())
        # dropout, too, knows only the step
        torch.manual_seed(recipe.seed * 1_000_003 + state.step + _FAR * machine.process_rank())
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.bfloat16):
            loss, scores = self.step_loss(batch)
        rate, weights = recipe.learning_rate_at(state.step), self.model.parameters()
        norm = descend(weights, self.optimizer, loss, rate, recipe.clip_norm)
        state.step, state.position, state.tokens = state.step + 1, position, state.tokens + tokens
        # The gradient is watched, too: this step's loss may be fine and its update NaN.
        self._sums += torch.cat([scores, norm.detach()[None]])
        self._steps += 1
        self._tokens += tokens

    def _begin_row(self) -> None:
        self._sums = torch.zeros(5, device=self.device)
        self._steps = self._tokens = 0

    def _seconds(self) -> float:
        return time.perf_counter() - self._began

    def _means(self) -> list[float]:
        """Return the averages over steps and processes; refuse a loss that is no number."""
        means: list[float] = machine.mean_of_processes(self._sums / max(1, self._steps)).tolist()
        if all(map(math.isfinite, means)):
            return means
        kept, step = "No state was saved yet.", self.state.step
        if self.path is not None and self.path.exists():
            kept = f"The last good state is kept in {self.path}."
        raise TrainingDiverged(
            "the loss or its gradient became NaN or infinite between steps "
            f"{step - self._steps + 1} and {step}, at learning rate "
            f"{self.recipe.learning_rate_at(step - 1):.2g}. {kept} The same random numbers "
            "lead there again: start in another folder, at half the learning rate or another seed."
        )

    def _log(self) -> str:
        """Write a row of the curve; return it in words."""
        means, seconds, state = self._means(), self._seconds(), self.state
        said = f"loss {means[0]:.2f}, words {means[1]:.1%}, "
        row: dict[str, float] = {"step": state.step, "tokens": state.tokens}
        row |= {"seconds": round(seconds, 1), "mlm_loss": means[0], "mlm_accuracy": means[1]}
        if self.recipe.next_sentence:
            said += f"order {means[3]:.1%}, "
            row |= {"nsp_loss": means[2], "nsp_accuracy": means[3]}
        said += f"{self._tokens / max(seconds - state.seconds, 1e-9):,.0f} tokens/s"
        state.seconds = seconds
        state.curve.append(row)
        self._begin_row()
        return said

    def _score_on_dev(self, held_out: Sequence[Batch]) -> None:
        """Put scores on held-out batches into the last row of the curve."""
        if not held_out or not self.first:
            return
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.bfloat16):
            dev = evaluate(self.model, held_out)
        self.state.curve[-1] |= {
            f"dev_{name}": value
            for name, value in asdict(dev).items()
            if self.recipe.next_sentence or not name.startswith("nsp")
        }

    def _save(self) -> None:
        self._means()  # a good state on disk is never replaced by one that is spoiled
        if self.path is not None and self.first:
            save_state(self.path, self.model, self.optimizer, self.state, self.recipe)

    def _keep(self) -> None:
        """Keep the weights of the middle of a run, as a checkpoint of its own."""
        self._means()  # nor is a spoiled model kept
        if self.path is not None and self.first:
            folder = self.path.parent / "steps" / f"{self.state.step:06d}"
            save_checkpoint(self.model, folder, torch.float16)
            save_tokenizer(load_vocabulary(), folder)

    def _stop(self) -> None:
        """Save what Ctrl-C found, if it is worth saving, and raise KeyboardInterrupt."""
        step = self.state.step
        if self.path is None:
            raise KeyboardInterrupt(f"stopped after step {step}; nothing was saved")
        self.state.seconds = self._seconds()
        self._save()
        raise KeyboardInterrupt(
            f"stopped after step {step}; the state is in {self.path}: go on with --resume"
        )
