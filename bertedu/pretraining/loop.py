"""The pre-training loop: batches, one step, a schedule, a curve, exact resume."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import nn

from bertedu.model.bert import BertForPreTraining
from bertedu.model.config import BertConfig
from bertedu.model.embeddings import sinusoidal_positions
from bertedu.pretraining import processes
from bertedu.pretraining.batches import Batch, Position, Text, batches
from bertedu.pretraining.evaluation import PreTrainingModel
from bertedu.pretraining.next_sentence import EncodedDocument
from bertedu.pretraining.objective import StepLoss, shared_by_processes
from bertedu.pretraining.recipe import Recipe
from bertedu.pretraining.state import State, interrupt_between_steps, load_state
from bertedu.pretraining.watching import Watch

_FAR = 1_000_000_007  # further apart than any two steps of a run: dropout differs by process


class Every(NamedTuple):
    """How many steps lie between two rows of the curve, scores on dev, saves, kept weights."""

    log: int = 50
    evaluate: int = 2000
    save: int = 200  # a multiple of ``log``: a state is saved where a row of the curve ends
    keep: int | None = None  # weights of the middle of the run, in `steps/NNNNNN` beside the state


EVERY = Every()


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


def make_optimizer(model: nn.Module, weight_decay: float, eps: float = 1e-8) -> torch.optim.AdamW:
    """AdamW; weight decay on matrices only, not on biases and norms."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    groups = [
        {"params": [p for p in parameters if p.ndim > 1], "weight_decay": weight_decay},
        {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=0.0, betas=(0.9, 0.999), eps=eps, fused=True)


def stream_of(
    documents: Text, config: BertConfig, recipe: Recipe, state: State
) -> Iterator[tuple[Batch, Position]]:
    """Yield the batches from where a run is; a new phase starts an epoch of its own length."""
    while True:
        index = recipe.phase_at(state.step)
        if state.step and recipe.phase_at(state.step - 1) != index:
            state.position = Position(state.position.epoch + 1, 0)
        phase = recipe.phases[index]
        for batch in batches(
            documents,
            phase.length,
            phase.batch_size,
            config.vocab_size,
            recipe.seed,
            phase.mask_rate,
            state.position,
            config.direction,
            recipe.masking,
            recipe.question,
        ):
            yield batch
            if recipe.phase_at(state.step) != index:
                break


def train(
    model: PreTrainingModel,
    documents: Text,
    held_out: Sequence[Batch],
    recipe: Recipe,
    state_path: Path | None = None,
    resume: bool = False,
    bfloat16: bool = False,
    every: Every = EVERY,
    progress: bool = True,
    stop_at: int | None = None,
) -> State:
    """Pre-train a model in place, and return the state with its curve.

    A row of the curve holds means since the last row, and scores on ``held_out`` where they were
    taken. All chance comes from the recipe's seed and the step, so a run that is killed and resumed
    ends with the same weights, bit for bit, on one CPU thread. With ``stop_at`` the run ends after
    that step, its state saved as for Ctrl-C, while the schedule remains that of all steps.

    Raises TrainingDiverged if the loss or its gradient became NaN or infinite (the last good state
    stays on disk), CheckpointError or FileError if a state cannot be read or written, ValueError if
    a batch has fewer rows than processes, KeyboardInterrupt at Ctrl-C, with the last step saved.
    """
    if every.save % every.log:
        raise ValueError(f"save {every.save} is not a multiple of log {every.log}")
    device = next(model.parameters()).device
    optimizer = make_optimizer(model, recipe.weight_decay)
    step_loss = shared_by_processes(StepLoss(model, recipe.next_sentence), recipe, device)
    state = State()
    if resume and state_path is not None and state_path.exists():
        state = load_state(state_path, model, optimizer, recipe)
    last = recipe.steps if stop_at is None else min(stop_at, recipe.steps)
    model.train()
    watch = Watch(model, optimizer, state, recipe, state_path, last, progress)
    stream = stream_of(documents, model.config, recipe, state)
    with interrupt_between_steps() as asked_to_stop, watch.bar:
        while state.step < last:
            batch, position = next(stream)
            batch, tokens = batch.to(device), int(batch.padding_mask.sum())
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

            state.advance(position, tokens)
            watch.count(scores, norm, tokens)
            at_end = state.step == recipe.steps
            if state.step % every.log == 0 or at_end:
                watch.log()
                if state.step % every.evaluate == 0 or at_end:
                    watch.score_on_dev(held_out, bfloat16)
                if state.step % every.save == 0 or at_end:
                    watch.save()
            if every.keep and state.step % every.keep == 0:
                watch.keep()
            if processes.any_of(asked_to_stop.is_set(), device):
                watch.stop()
    if last < recipe.steps:
        state.seconds = watch.seconds()
        watch.save()
    model.eval()
    return state
