"""How well does a model fill blanks and order sentences on documents it has never seen?"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from bertedu.model.bert import BertForPreTraining
from bertedu.model.config import ONE_WAY
from bertedu.model.elmo import ElmoForPreTraining
from bertedu.model.inference import evaluating
from bertedu.pretraining.batches import Batch, next_words

PreTrainingModel = BertForPreTraining | ElmoForPreTraining


@dataclass(frozen=True)
class Scores:
    """Mean MLM loss in nats per selected token, share of them right; the same for pairs."""

    mlm_loss: float
    mlm_accuracy: float
    nsp_loss: float
    nsp_accuracy: float


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
