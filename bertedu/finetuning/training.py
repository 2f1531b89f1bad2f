"""Fine-tuning: a pre-trained encoder, one new layer, all of it trained on (paper, section 3.2)."""

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from statistics import fmean

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence
from tqdm.auto import tqdm

from bertedu.finetuning.examples import Examples, TaskError
from bertedu.finetuning.kinds import Item, Kind, TaskBatch, collate
from bertedu.model.bert import init_weights
from bertedu.model.features import BiLSTMFeatures, Encoder, Features, LayerFeatures
from bertedu.model.inference import evaluating
from bertedu.optimization import descend, make_optimizer, scheduled_rate

ADAM_EPS = 1e-6  # as in the code that the paper's authors published; torch's own is 1e-8
_CHUNK = 16  # batches among which rows of like length are brought together


class FineTuningDiverged(FloatingPointError):
    """The loss or its gradient became NaN or infinite."""


@dataclass(frozen=True)
class Hyperparameters:
    """How to fine-tune. Our models are small and bear a ten times higher rate than the paper's.

    The paper's grid: batches of 16 or 32, learning rate 5e-5, 3e-5 or 2e-5, 2 to 4 epochs,
    dropout 0.1 (appendix A.3). Ours were pre-trained without dropout and go on without. Dev is
    scored after every round: an epoch, or as many as hold ``min_steps`` steps, so that few labels
    do not mean few steps. Training ends after ``epochs`` rounds, or ``patience`` without a gain.
    """

    learning_rate: float = 3e-4
    batch_size: int = 32
    epochs: int = 3
    warmup_share: float = 0.1
    weight_decay: float = 0.01
    clip_norm: float = 1.0
    dropout: float = 0.0
    patience: int = 2
    min_steps: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        """Raise ValueError for what trains nothing."""
        if min(self.batch_size, self.epochs) < 1 or not 0 <= self.learning_rate < math.inf:
            raise ValueError(f"batch size and epochs from 1, the rate from 0: {self}")

    def learning_rate_at(self, step: int, steps: int) -> float:
        """Rise linearly during warm-up, then fall linearly to 0."""
        return scheduled_rate(step, steps, self.learning_rate, self.warmup_share)


class KeptStates:
    """The states of a frozen BERT, computed once for each row of tokens (paper, section 5.3)."""

    def __init__(self, encoder: BiLSTMFeatures, below: LayerFeatures) -> None:
        self.encoder, self.below = encoder, below
        self.rows: dict[tuple[int, ...], Tensor] = {}  # ids and segments -> (layers, tokens, H)

    def states(self, batch: TaskBatch) -> Tensor:
        """Return the (layers, R, S, H) of `LayerFeatures.states`; only new rows go through BERT."""
        rows = [row for item in batch.items for row in item.rows]
        keys = [(*row.ids, *row.type_ids) for row in rows]
        if new := [i for i, key in enumerate(keys) if key not in self.rows]:
            given = (batch.ids[new], batch.segment_ids[new], batch.padding_mask[new])
            for i, states in zip(new, self.below.states(*given).unbind(1), strict=True):
                self.rows[keys[i]] = states[:, : len(rows[i].ids)].clone()
        kept = [self.rows[key].transpose(0, 1) for key in keys]  # each (tokens, layers, H)
        return pad_sequence(kept, batch_first=True).permute(2, 0, 1, 3)

    def features(self, batch: TaskBatch) -> Features:
        """Encode a batch as the encoder itself does."""
        return self.encoder.read(self.below.combine(self.states(batch)), batch.padding_mask)


def kept_states(encoder: Encoder) -> KeptStates | None:
    """Return an empty store if the encoder reads the layers of a frozen BERT, else None."""
    if isinstance(encoder, BiLSTMFeatures) and isinstance(encoder.below, LayerFeatures):
        return KeptStates(encoder, encoder.below)
    return None


class TaskModel(nn.Module):
    """An encoder with the one new layer of a task on it.

    With ``frozen`` the encoder stays as it is, dropout included, and only the new layer learns.
    """

    def __init__(self, encoder: Encoder, kind: Kind, dropout: float = 0.0, frozen: bool = False):
        super().__init__()
        self.encoder, self.kind, self.frozen = encoder, kind, frozen
        self.head = kind.head(encoder.size, dropout)
        init_weights(self.head, 0.02)
        self.kept: KeptStates | None = None  # while `finetune` trains
        if frozen:
            encoder.requires_grad_(False)

    def train(self, mode: bool = True) -> "TaskModel":
        """Switch dropout on and off; in a frozen encoder it stays off."""
        super().train(mode)
        if self.frozen:
            self.encoder.eval()
        return self

    def forward(self, batch: TaskBatch) -> Tensor:
        """Return the scores that the kind of task asks for, the first axis being the item."""
        given = (batch.ids, batch.segment_ids, batch.padding_mask)
        features = self.kept.features(batch) if self.kept else self.encoder(*given)
        return self.kind.scores(self.head, features, batch)


@dataclass
class History:
    """What happened while training, and which epoch was kept."""

    losses: list[float] = field(default_factory=list)  # of each step
    dev: list[float] = field(default_factory=list)  # the metric after each round
    best_epoch: int = 0  # the round, counted from 1; 0: before training
    seconds: float = 0.0


def score_items(model: TaskModel, items: Sequence[Item]) -> list[Tensor]:
    """Return the scores of each item, on the CPU, in the order of ``items``."""
    device = next(model.parameters()).device
    scores: dict[int, Tensor] = {}
    with evaluating(model):
        for positions, batch in scoring_batches(items):
            scores |= zip(positions, model(batch.to(device)).cpu(), strict=True)
    return [scores[position] for position in range(len(items))]


def dev_metric(model: TaskModel, metric: str, examples: Examples, items: Sequence[Item]) -> float:
    """Score a model on dev, where it may set what it needs to set (see `Kind.calibrate`)."""
    kind = model.kind
    scores = score_items(model, items)
    kind.calibrate(examples, items, scores)
    return kind.metrics(kind.outcomes(examples, kind.answers(examples, items, scores)))[metric]


def finetune(
    model: TaskModel,
    train_items: Sequence[Item],
    dev_examples: Examples,
    dev_items: Sequence[Item],
    metric: str,
    recipe: Hyperparameters,
    progress: bool = True,
) -> History:
    """Train in place; keep the weights of the round that was best on dev.

    All chance (order, dropout) comes from the recipe's seed; the head is drawn by whoever made
    ``model``. The test split is not needed here, and is not asked for. Raises FineTuningDiverged if
    loss or gradient became NaN or infinite, TaskError if there is nothing to train or to select on.
    """
    if not train_items or not dev_items:
        raise TaskError("fine-tuning needs at least one training and one dev example")
    began, device = time.perf_counter(), next(model.parameters()).device
    optimizer = make_optimizer(model, recipe.weight_decay, ADAM_EPS)
    learning = [weight for group in optimizer.param_groups for weight in group["params"]]
    batches = math.ceil(len(train_items) / recipe.batch_size)
    epochs_in_round = max(1, math.ceil(recipe.min_steps / batches))
    steps_in_round = epochs_in_round * batches
    steps = recipe.epochs * steps_in_round
    history, best, best_state = History(), -math.inf, {}
    model.kept = kept_states(model.encoder)
    model.train()
    with tqdm(total=steps, desc="fine-tuning", unit="step", disable=not progress) as bar:
        for epoch in range(recipe.epochs * epochs_in_round):
            for batch in training_batches(train_items, recipe.batch_size, recipe.seed, epoch):
                step, batch = len(history.losses), batch.to(device)
                torch.manual_seed(recipe.seed * 1_000_003 + step)  # dropout knows only the step
                loss = model.kind.loss(model(batch), batch)
                history.losses.append(float(loss.detach()))
                rate = recipe.learning_rate_at(step, steps)
                norm = descend(learning, optimizer, loss, rate, recipe.clip_norm)
                if not math.isfinite(history.losses[-1] + float(norm)):
                    raise FineTuningDiverged(
                        f"the loss or its gradient became NaN or infinite in epoch {epoch + 1} at "
                        f"learning rate {recipe.learning_rate:g}: try a third of it"
                    )
                bar.update()
            if (epoch + 1) % epochs_in_round:
                continue
            mean = fmean(history.losses[-steps_in_round:])
            history.dev.append(dev_metric(model, metric, dev_examples, dev_items))
            if history.dev[-1] > best:
                best, history.best_epoch = history.dev[-1], len(history.dev)
                best_state = {name: value.clone() for name, value in model.state_dict().items()}
            bar.set_postfix_str(f"loss {mean:.3f}, dev {metric} {history.dev[-1]:.3f}")
            if len(history.dev) - history.best_epoch >= recipe.patience:
                break
    model.load_state_dict(best_state)
    model.eval()
    # once more, to be calibrated for these weights
    dev_metric(model, metric, dev_examples, dev_items)
    model.kept = None
    history.seconds = time.perf_counter() - began
    return history


def training_batches(
    items: Sequence[Item], size: int, seed: int, epoch: int
) -> Iterator[TaskBatch]:
    """Yield all items once, in an order that the seed and the epoch decide.

    Rows of like length meet in a batch, so that little is padded: items are shuffled, sorted
    within chunks of 16 batches, and the batches are shuffled again.
    """
    generator = np.random.default_rng([seed, epoch])
    shuffled = [items[i] for i in generator.permutation(len(items))]
    batches: list[list[Item]] = []
    for begin in range(0, len(items), size * _CHUNK):
        chunk = sorted(shuffled[begin : begin + size * _CHUNK], key=lambda item: item.length)
        batches += [chunk[i : i + size] for i in range(0, len(chunk), size)]
    for i in generator.permutation(len(batches)):
        yield collate(batches[i])


def scoring_batches(items: Sequence[Item], size: int = 64) -> Iterator[tuple[list[int], TaskBatch]]:
    """Yield all items once, sorted by length, with the places they had."""
    order = sorted(range(len(items)), key=lambda i: items[i].length)
    for begin in range(0, len(order), size):
        chosen = order[begin : begin + size]
        yield chosen, collate([items[i] for i in chosen])
