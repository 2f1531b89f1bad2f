"""The pre-training loop: one loss, one optimizer, a schedule, checkpoints, and exact resume."""

import json
import math
import platform
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from tqdm.auto import tqdm

from bertedu.model.checkpoints import CheckpointError, load_tensors, save_tensors
from bertedu.model.elmo import ElmoForPreTraining
from bertedu.model.embeddings import sinusoidal_positions
from bertedu.pretraining import processes
from bertedu.pretraining.batches import Batch, Position, Text, batches
from bertedu.pretraining.evaluation import PreTrainingModel, ask, evaluate
from bertedu.pretraining.masking import PAPER
from bertedu.pretraining.next_sentence import EncodedDocument
from bertedu.pretraining.word_loss import word_loss

_FAR = 1_000_000_007  # further apart than any two steps of a run: dropout differs by process


class TrainingDiverged(RuntimeError):
    """The loss is no longer a number."""


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
    masked: bool | None = None  # ask for masked words? None: of a bidirectional model only
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
        warmup = max(1, round(self.warmup_share * self.steps))
        rise = (step + 1) / warmup
        fall = (self.steps - step) / max(1, self.steps - warmup)
        return self.learning_rate * min(rise, fall, 1.0)


def recipe_from(values: dict[str, Any]) -> Recipe:
    """Make a recipe of what a state or `training.json` holds; what it lacks has its default.

    Raises
    ------
    KeyError, TypeError
        That is no recipe.

    """
    phases = tuple(Phase(**phase) for phase in values["phases"])
    masking = tuple(values.get("masking", PAPER))
    return Recipe(**{**values, "phases": phases, "masking": masking})


@dataclass
class State:
    """Where training stands: everything that `--resume` needs besides the weights."""

    step: int = 0
    position: Position = field(default_factory=Position)
    tokens: int = 0
    seconds: float = 0.0
    curve: list[dict[str, float]] = field(default_factory=list)


def pretraining_loss(
    model: PreTrainingModel,
    batch: Batch,
    next_sentence: bool = True,
    weights: tuple[float, float] = (1.0, 1.0),
) -> tuple[Tensor, Tensor]:
    """Mean MLM loss plus mean NSP loss (paper, appendix A.2), or the first alone.

    Also returns a tensor of four: MLM loss, MLM accuracy, NSP loss, NSP accuracy. For a one-way
    model the first two are those of the next word; for ELMo, of the next and the previous word,
    and the last two are 0. ``weights`` multiply what concerns words and what concerns pairs: they
    make up for a part of a batch that holds fewer of them than other parts.
    """
    answers, follows = ask(model, batch)
    words = [word_loss(states, model.decoder, asked.labels) for asked, states in answers]
    mlm, right = (torch.stack(values).mean() for values in zip(*words, strict=True))
    nsp = ordered = torch.zeros_like(mlm)
    if follows is not None:
        nsp = F.cross_entropy(follows.float(), batch.next_labels)
        ordered = (follows.argmax(-1) == batch.next_labels).float().mean()
    mlm, right, nsp, ordered = (
        mlm * weights[0],
        right * weights[0],
        nsp * weights[1],
        ordered * weights[1],
    )
    loss = mlm + nsp if next_sentence else mlm
    return loss, torch.stack([mlm.detach(), right, nsp.detach(), ordered])


class StepLoss(nn.Module):
    """The loss of this process's rows of a batch, so that the mean over processes is the batch's.

    A mean over words is not the mean of two halves' means if one half holds more words. Every
    process knows the whole batch, so it knows its weight.
    """

    def __init__(self, model: PreTrainingModel, next_sentence: bool) -> None:
        super().__init__()
        self.model, self.next_sentence = model, next_sentence

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the loss and the four scores of `pretraining_loss`."""
        many = processes.count()
        if many == 1:
            return pretraining_loss(self.model, batch, self.next_sentence)
        mine = batch.part(processes.rank(), many)
        words = many * len(mine.labels) / max(1, len(batch.labels))
        pairs = many * len(mine.ids) / len(batch.ids)
        return pretraining_loss(self.model, mine, self.next_sentence, (words, pairs))


def initialize(model: PreTrainingModel, documents: Sequence[EncodedDocument]) -> None:
    """Two head starts that shorten the early plateau; both remain free to learn.

    Positions start as small sinusoids, so that neighbors look alike; the output bias starts at the
    words' log frequency, so that the model need not spend steps on learning it.
    """
    config = model.config
    counts = torch.ones(config.vocab_size)
    for document in documents:
        for sentence in document.sentences:
            counts += torch.bincount(torch.tensor(sentence), minlength=config.vocab_size)
    share = (counts / counts.sum()).log()
    with torch.no_grad():
        if isinstance(model, ElmoForPreTraining):  # it has no positions: an LSTM counts
            model.decoder.bias.copy_(share)
            return
        model.mlm.decoder.bias.copy_(share)
        sines = sinusoidal_positions(config.max_position_embeddings, config.hidden_size)
        model.bert.embeddings.position.weight.copy_(config.initializer_range * sines)


def make_optimizer(model: nn.Module, weight_decay: float) -> torch.optim.AdamW:
    """AdamW; weight decay on matrices only, not on biases and norms."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    groups = [
        {"params": [p for p in parameters if p.ndim > 1], "weight_decay": weight_decay},
        {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=0.0, betas=(0.9, 0.999), eps=1e-8, fused=True)


def default_device() -> torch.device:
    """CUDA, else Apple's MPS, else the CPU."""
    if torch.cuda.is_available():
        return torch.device("cuda")
    return torch.device("mps" if torch.backends.mps.is_available() else "cpu")


def has_fast_bfloat16(device: torch.device) -> bool:
    """Say whether bfloat16 products are faster than float32 ones here."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    if device.type == "cpu":
        known = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
        return known and _layer_seconds(True) < 0.9 * _layer_seconds(False)
    return False


@cache
def _layer_seconds(bfloat16: bool) -> float:
    """Time a feed-forward layer there and back: a CPU may know the instructions, and be slow."""
    weight, x = (torch.ones(n, 256, requires_grad=True) for n in (1024, 512))  # nobody's dice
    times = []
    for _ in range(6):
        began = time.perf_counter()
        with torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
            y = F.linear(x, weight)
        torch.autograd.grad(y, (x, weight), y.detach())
        times.append(time.perf_counter() - began)
    return min(times)


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
    """Take up a run where `save_state` left it.

    Raises
    ------
    CheckpointError
        The file is broken, of another model, or of another recipe.

    """
    tensors, metadata = load_tensors(path)
    try:
        described = json.loads(metadata["training"])
        if recipe_from(described["recipe"]) != recipe:
            raise CheckpointError(
                f"{path} was trained by another recipe: {described['recipe']}. Resume with the "
                "same options, or choose another --out."
            )
        parameters = dict(model.named_parameters())
        extra = {name for name in tensors if name.partition("/")[2] not in parameters}
        if extra:
            raise KeyError(min(extra))
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


def shrink_state(path: Path, out: Path) -> None:
    """Copy a state with 16 bits a number, so that it can be passed on: half the size.

    What goes on from it is near the run that was saved, no longer equal to it.

    Raises
    ------
    CheckpointError
        The file cannot be read, or the copy not written.

    """
    tensors, metadata = load_tensors(path)
    kinds = {"weight": torch.float16, "exp_avg": torch.bfloat16, "exp_avg_sq": torch.bfloat16}
    small = {
        name: tensor.to(kinds.get(name.partition("/")[0], tensor.dtype))
        for name, tensor in tensors.items()
    }
    save_tensors(small, out, metadata)


@contextmanager
def interrupt_between_steps() -> Iterator[threading.Event]:
    """Let Ctrl-C set a flag, so that no step is left half done; a second Ctrl-C stops at once."""
    asked = threading.Event()

    def ask(signum: int, frame: Any) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        asked.set()

    if threading.current_thread() is not threading.main_thread():
        yield asked  # signals reach the main thread only
        return
    before = signal.signal(signal.SIGINT, ask)
    try:
        yield asked
    finally:
        signal.signal(signal.SIGINT, before)


def train(
    model: PreTrainingModel,
    documents: Text,
    held_out: Sequence[Batch],
    recipe: Recipe,
    state_path: Path | None = None,
    resume: bool = False,
    bfloat16: bool = False,
    log_every: int = 50,
    evaluate_every: int = 2000,
    save_every: int = 200,
    progress: bool = True,
    after_step: Callable[[int], None] | None = None,
    stop_at: int | None = None,
) -> State:
    """Pre-train a model in place, and return the state with its curve.

    The curve has a row every ``log_every`` steps: means since the last row, and scores on
    ``held_out`` where they were taken. All chance comes from the recipe's seed and the step, so a
    run that is killed and resumed ends with the same weights, bit for bit, on one CPU thread.
    ``save_every`` is a multiple of ``log_every``: a state is saved where a row of the curve ends.
    ``after_step`` is called with the number of steps that are done. With ``stop_at`` the run ends
    after that step, its state saved as for Ctrl-C, while the schedule remains that of all steps.

    Raises
    ------
    TrainingDiverged
        The loss or its gradient became NaN or infinite. The last good state stays on disk.
    CheckpointError
        The state to resume from cannot be used, or a state cannot be written.
    KeyboardInterrupt
        Ctrl-C came. The step under way was finished and the state saved.
    ValueError
        ``save_every`` is not a multiple of ``log_every``.

    """
    if save_every % log_every:
        raise ValueError(f"save_every {save_every} is not a multiple of log_every {log_every}")
    many = processes.count()
    smallest = min(phase.batch_size for phase in recipe.phases)
    if many > smallest:
        raise ValueError(f"{many} processes cannot share batches of {smallest} rows: start fewer")
    first = processes.rank() == 0
    device = next(model.parameters()).device
    optimizer = make_optimizer(model, recipe.weight_decay)
    step_loss: nn.Module = StepLoss(model, recipe.next_sentence)
    if many > 1:
        step_loss = nn.parallel.DistributedDataParallel(
            step_loss,
            device_ids=[device.index] if device.type == "cuda" else None,
            find_unused_parameters=not recipe.next_sentence,
        )
    state = State()
    if resume and state_path is not None and state_path.exists():
        state = load_state(state_path, model, optimizer, recipe)
    last = recipe.steps if stop_at is None else min(stop_at, recipe.steps)
    model.train()
    sums, since, tokens_since, began = torch.zeros(5, device=device), 0, 0, time.perf_counter()
    seconds_before = state.seconds
    with (
        interrupt_between_steps() as asked_to_stop,
        tqdm(
            total=last,
            initial=state.step,
            desc="pre-training",
            disable=not (progress and first),
            unit="step",
        ) as bar,
    ):
        current: int | None = None
        while state.step < last:
            index = recipe.phase_at(state.step)
            if index != current:  # a new phase starts a new epoch of its own length
                first_of_phase = state.step > 0 and recipe.phase_at(state.step - 1) != index
                if first_of_phase:
                    state.position = Position(state.position.epoch + 1, 0)
                phase, current = recipe.phases[index], index
                stream = batches(
                    documents,
                    phase.length,
                    phase.batch_size,
                    model.config.vocab_size,
                    recipe.seed,
                    phase.mask_rate,
                    state.position,
                    model.config.direction,
                    recipe.masking,
                    recipe.masked,
                )
            batch, position = next(stream)
            batch_tokens = batch.real_tokens
            batch = batch.to(device)
            # dropout, too, knows only the step
            torch.manual_seed(recipe.seed * 1_000_003 + state.step + _FAR * processes.rank())
            for group in optimizer.param_groups:
                group["lr"] = recipe.learning_rate_at(state.step)
            with torch.autocast(device.type, torch.bfloat16, enabled=bfloat16):
                loss, scores = step_loss(batch)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            norm = nn.utils.clip_grad_norm_(model.parameters(), recipe.clip_norm)
            optimizer.step()

            state.step += 1
            state.position = position
            state.tokens += batch_tokens
            # The gradient is watched, too: this step's loss may be fine and its update NaN.
            sums = sums + torch.cat([scores, norm.detach()[None]])
            since, tokens_since = since + 1, tokens_since + batch_tokens
            bar.update()
            if state.step % log_every == 0 or state.step == recipe.steps:
                means = processes.mean(sums / since).tolist()
                if not all(math.isfinite(value) for value in means):
                    raise TrainingDiverged(_diverged(state, recipe, since, state_path))
                elapsed = time.perf_counter() - began
                speed = tokens_since / max(elapsed + seconds_before - state.seconds, 1e-9)
                bar.set_postfix_str(
                    f"loss {means[0]:.2f}, words {means[1]:.1%}, "
                    + (f"order {means[3]:.1%}, " if recipe.next_sentence else "")
                    + f"{speed:,.0f} tokens/s"
                )
                state.seconds = seconds_before + elapsed
                row: dict[str, float] = {
                    "step": state.step,
                    "tokens": state.tokens,
                    "seconds": round(state.seconds, 1),
                    "mlm_loss": means[0],
                    "mlm_accuracy": means[1],
                }
                if recipe.next_sentence:
                    row |= {"nsp_loss": means[2], "nsp_accuracy": means[3]}
                sums, since, tokens_since = torch.zeros(5, device=device), 0, 0
                if (
                    first
                    and held_out
                    and (state.step % evaluate_every == 0 or state.step == recipe.steps)
                ):
                    with torch.autocast(device.type, torch.bfloat16, enabled=bfloat16):
                        dev = evaluate(model, held_out)
                    row |= {
                        f"dev_{name}": value
                        for name, value in asdict(dev).items()
                        if recipe.next_sentence or not name.startswith("nsp")
                    }
                state.curve.append(row)
                due = state.step % save_every == 0 or state.step == recipe.steps
                if first and state_path is not None and due:
                    save_state(state_path, model, optimizer, state, recipe)
            if after_step is not None:
                after_step(state.step)
            if processes.any_of(asked_to_stop.is_set(), device):
                if state_path is None:
                    raise KeyboardInterrupt(f"stopped after step {state.step}; nothing was saved")
                if not processes.mean(sums).isfinite().all():
                    raise TrainingDiverged(_diverged(state, recipe, since, state_path))
                state.seconds = seconds_before + time.perf_counter() - began
                if first:
                    save_state(state_path, model, optimizer, state, recipe)
                raise KeyboardInterrupt(
                    f"stopped after step {state.step}; the state is in {state_path}: go on with "
                    "--resume"
                )
    if first and state_path is not None and last < recipe.steps:
        state.seconds = seconds_before + time.perf_counter() - began
        save_state(state_path, model, optimizer, state, recipe)
    model.eval()
    return state


def describe_machine(device: torch.device) -> dict[str, Any]:
    """Name the hardware and software of a run, for the record beside its numbers."""
    name = torch.cuda.get_device_name() if device.type == "cuda" else _cpu_name()
    return {
        "device": device.type,
        "hardware": name,
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "python": platform.python_version(),
    }


def _cpu_name() -> str:
    name = torch.cpu.get_capabilities().get("cpu_name") if platform.system() == "Linux" else None
    return str(name or platform.processor() or platform.machine())


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
