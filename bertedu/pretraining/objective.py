"""What pre-training asks of a model, the loss, and the scores on text it has never seen.

Masked (or next) words, plus next sentences (paper, appendix A.2).
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bertedu import machine
from bertedu.model.bert import BertForPreTraining
from bertedu.model.config import ONE_WAY
from bertedu.model.elmo import ElmoForPreTraining
from bertedu.model.inference import evaluating
from bertedu.pretraining.batches import Batch, Recipe, next_words

PreTrainingModel = BertForPreTraining | ElmoForPreTraining
POSITIONS_AT_ONCE = 128  # their scores fit into a processor's cache


def ask(model: PreTrainingModel, batch: Batch) -> tuple[list[tuple[Batch, Tensor]], Tensor | None]:
    """Ask a model for the words that its kind of pre-training hides.

    BERT names the masked words, a one-way model the next word everywhere. ELMo is two models: the
    batch is asked for the next words and then for the previous ones.

    Returns the batch, as it was asked, with (n, H) for its n labels (``model.decoder`` makes word
    scores of them; for ELMo, two of these), and next-sentence scores (B, 2): ELMo has none.
    """
    if isinstance(model, BertForPreTraining):
        states, follows = model.before_decoder(
            batch.ids, batch.segment_ids, batch.padding_mask, batch.selected
        )
        return [(batch, states)], follows
    words = [next_words(batch.ids, direction) for direction in ONE_WAY]
    asked = [dataclasses.replace(batch, selected=where, labels=labels) for where, labels in words]
    both = model.before_decoder(batch.ids, batch.padding_mask, *(where for where, _ in words))
    return list(zip(asked, both, strict=True)), None


# --- The loss -----------------------------------------------------------------------------------


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
    words = [word_loss(s, model.decoder, asked.labels, asked.weights) for asked, s in answers]
    mlm, right = (torch.stack(values).mean() for values in zip(*words, strict=True))
    nsp = ordered = torch.zeros_like(mlm)
    if follows is not None:
        nsp = F.cross_entropy(follows.to(mlm.dtype), batch.next_labels)
        ordered = (follows.argmax(-1) == batch.next_labels).to(mlm.dtype).mean()
    mlm, right = mlm * weights[0], right * weights[0]
    nsp, ordered = nsp * weights[1], ordered * weights[1]
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
        many = machine.process_count()
        if many == 1:
            return pretraining_loss(self.model, batch, self.next_sentence)
        mine = batch.part(machine.process_rank(), many)
        words = many * len(mine.labels) / max(1, len(batch.labels))
        pairs = many * len(mine.ids) / len(batch.ids)
        return pretraining_loss(self.model, mine, self.next_sentence, (words, pairs))


def shared_by_processes(step_loss: StepLoss, recipe: Recipe, device: torch.device) -> nn.Module:
    """Let every process compute its rows of each batch; alone, it computes all of them."""
    many = machine.process_count()
    smallest = min(phase.batch_size for phase in recipe.phases)
    if many > smallest:
        raise ValueError(f"{many} processes cannot share batches of {smallest} rows: start fewer")
    if many == 1:
        return step_loss
    return nn.parallel.DistributedDataParallel(
        step_loss,
        device_ids=[device.index] if device.type == "cuda" else None,
        find_unused_parameters=not recipe.next_sentence,
    )


def word_loss(
    states: Tensor, decoder: nn.Linear, labels: Tensor, weights: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Mean cross entropy of ``decoder(states)`` and the share that it gets right.

    ``states`` are (n, H), ``labels`` (n,); ``weights`` (n,) multiply the losses.
    Equal to `cross_entropy` up to rounding, with less memory and time. Products are in
    bfloat16 under autocast; probabilities and sums are in 32 bits, or in 64 if ``states`` are.

    A score for each of V words at each of n places is by far the largest table of a training step:
    2,000 places and 8,192 words make 16 million numbers, several times over while softmax and its
    gradient are computed. But the gradient of one place needs the scores of that place only. So
    this walks through `POSITIONS_AT_ONCE`, and keeps of each lot the loss and the gradient.
    """
    device = states.device.type
    dtype = states.dtype
    if torch.is_autocast_enabled(device):
        dtype = torch.get_autocast_dtype(device)
    loss, right = _WordLoss.apply(  # type: ignore[no-untyped-call]
        states, decoder.weight, decoder.bias, labels, weights, dtype
    )
    return loss, right


class _WordLoss(torch.autograd.Function):
    """Cross entropy whose gradient is computed on the way forward."""

    @staticmethod
    def forward(
        ctx: Any,
        states: Tensor,
        table: Tensor,
        bias: Tensor,
        labels: Tensor,
        weights: Tensor | None,
        dtype: torch.dtype,
    ) -> tuple[Tensor, Tensor]:
        x, words, shift = states.to(dtype), table.to(dtype), bias.to(dtype)
        to_states = torch.empty_like(x)
        to_table, to_bias = torch.zeros_like(table), torch.zeros_like(bias)
        loss, right = table.new_zeros(()), table.new_zeros(())
        finest = torch.promote_types(dtype, torch.float32)
        # a GPU would wait between small lots
        many = POSITIONS_AT_ONCE * (1 if states.device.type == "cpu" else 32)
        for start in range(0, len(labels), many):
            rows = slice(start, start + many)
            label = labels[rows, None]
            scores = torch.addmm(shift, x[rows], words.T)  # (rows, V)
            # "the label has the highest score"; on a CPU, argmax would cost 5 % of the whole step
            own, highest = scores.gather(1, label), scores.amax(1, keepdim=True)
            right += (own >= highest).sum()
            probabilities = scores.softmax(1, dtype=finest)  # three times as fast as log_softmax
            # log(share of the label) = its distance to the highest score + log(highest share):
            # so a share that is too small for a number of 32 bits does no harm
            distance = own.to(finest) - highest.to(finest)
            nats = distance + probabilities.amax(1, keepdim=True).log()
            loss -= (nats if weights is None else nats * weights[rows, None]).sum()
            # the gradient of a score: the share that the model gave, less 1 at the right word
            gradient = probabilities
            gradient.scatter_add_(1, label, gradient.new_full((), -1.0).expand_as(label))
            if weights is not None:
                gradient *= weights[rows, None]
            to_bias += gradient.sum(0)
            gradient = gradient.to(dtype)
            to_states[rows] = gradient @ words
            to_table += gradient.T @ x[rows]
        ctx.save_for_backward(to_states, to_table, to_bias)
        ctx.positions = positions = max(1, len(labels))  # of nothing the loss is 0, not 0 / 0
        ctx.dtype = states.dtype
        share = right / positions
        ctx.mark_non_differentiable(share)
        return loss / positions, share

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        to_states, to_table, to_bias = ctx.saved_tensors
        share = gradients[0] / ctx.positions
        return to_states.to(ctx.dtype) * share, to_table * share, to_bias * share, None, None, None


# --- Scores -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Scores:
    """Mean MLM loss in nats per selected token, share of them right; the same for pairs."""

    mlm_loss: float
    mlm_accuracy: float
    nsp_loss: float
    nsp_accuracy: float


def evaluate(model: PreTrainingModel, batches: Sequence[Batch]) -> Scores:
    """Score a model on batches; every selected token and every pair counts the same."""
    words, pairs = score_pairs(model, batches)
    tokens, losses, right = words.sum(dim=0).tolist()
    nsp_loss, nsp_right = pairs.mean(dim=0).tolist()
    return Scores(losses / tokens, right / tokens, nsp_loss, nsp_right)


def score_pairs(model: PreTrainingModel, batches: Sequence[Batch]) -> tuple[Tensor, Tensor]:
    """Score each of N pairs by itself, so that an interval can be drawn over them.

    Returns (N, 3): number of selected tokens, sum of their losses, number right; and (N, 2):
    next-sentence loss, and 1 if it was right; NaN for an ELMo. Raises ValueError without batches.
    """
    if not batches:
        raise ValueError("no batches to evaluate on: is the held-out split empty?")
    device = next(model.parameters()).device
    words, pairs = [], []
    with evaluating(model):
        for batch in batches:
            batch = batch.to(device)
            answers, follows = ask(model, batch)
            sums = [sum_by_pair(asked, model.decoder(states)) for asked, states in answers]
            words.append(torch.stack(sums).sum(dim=0))
            if follows is None:
                pairs.append(torch.full((len(batch.ids), 2), torch.nan))
                continue
            loss = F.cross_entropy(follows.float(), batch.next_labels, reduction="none")
            right = (follows.argmax(-1) == batch.next_labels).float()
            pairs.append(torch.stack([loss, right], dim=1))
    return torch.cat(words).double().cpu(), torch.cat(pairs).double().cpu()


def sum_by_pair(batch: Batch, logits: Tensor) -> Tensor:
    """Add up scores (n, V) at the selected tokens of each pair: (B, 3), as in `score_pairs`."""
    loss = F.cross_entropy(logits.float(), batch.labels, reduction="none")  # (n,)
    loss = loss if batch.weights is None else loss * batch.weights
    right = (logits.argmax(-1) == batch.labels).float()  # (n,)
    values = torch.stack([torch.ones_like(loss), loss, right], dim=1)  # (n, 3)
    row = batch.selected.nonzero()[:, 0]  # (n,): which pair each token stands in
    return values.new_zeros(len(batch.ids), 3).index_add(0, row, values)
