"""How well does a model fill blanks and order sentences on documents it has never seen?"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from bertedu.model.bert import BertForPreTraining
from bertedu.pretraining.batches import Batch


@dataclass(frozen=True)
class Scores:
    """Mean MLM loss in nats a selected token, share of them right; the same for pairs."""

    mlm_loss: float
    mlm_accuracy: float
    nsp_loss: float
    nsp_accuracy: float


def evaluate(model: BertForPreTraining, batches: Sequence[Batch]) -> Scores:
    """Score a model on batches; every selected token and every pair counts the same.

    Raises
    ------
    ValueError
        There are no batches.

    """
    words, pairs = score_pairs(model, batches)
    tokens, losses, right = words.sum(dim=0).tolist()
    nsp_loss, nsp_right = pairs.mean(dim=0).tolist()
    return Scores(losses / tokens, right / tokens, nsp_loss, nsp_right)


@torch.inference_mode()
def score_pairs(model: BertForPreTraining, batches: Sequence[Batch]) -> tuple[Tensor, Tensor]:
    """Score each of N pairs by itself, so that an interval can be drawn over them.

    Returns
    -------
    (N, 3): number of selected tokens, sum of their losses, number right.
    (N, 2): next-sentence loss, and 1 if it was right.

    Raises
    ------
    ValueError
        There are no batches.

    """
    if not batches:
        raise ValueError("no batches to evaluate on: is the held-out split empty?")
    was_training, device = model.training, next(model.parameters()).device
    model.eval()
    words, pairs = [], []
    for batch in batches:
        batch = batch.to(device)
        logits, follows = model(batch.ids, batch.segment_ids, batch.padding_mask, batch.selected)
        words.append(sum_by_pair(batch, logits))
        loss = F.cross_entropy(follows.float(), batch.next_labels, reduction="none")
        pairs.append(torch.stack([loss, (follows.argmax(-1) == batch.next_labels).float()], dim=1))
    model.train(was_training)
    return torch.cat(words).double().cpu(), torch.cat(pairs).double().cpu()


def sum_by_pair(batch: Batch, logits: Tensor) -> Tensor:
    """Add up scores (n, V) at the selected tokens of each pair: (B, 3), as in `score_pairs`."""
    loss = F.cross_entropy(logits.float(), batch.labels, reduction="none")  # (n,)
    right = (logits.argmax(-1) == batch.labels).float()  # (n,)
    values = torch.stack([torch.ones_like(loss), loss, right], dim=1)  # (n, 3)
    row = batch.selected.nonzero()[:, 0]  # (n,): which pair each token stands in
    return values.new_zeros(len(batch.ids), 3).index_add(0, row, values)


def bootstrap_interval(
    numerator: Tensor, denominator: Tensor, draws: int = 2000, seed: int = 0
) -> tuple[float, float]:
    """Return the 95 % interval of sum(numerator) / sum(denominator), both (N,).

    Pairs are drawn again with replacement, whole pairs, since tokens of one pair are not
    independent. It says how far another held-out text might differ, not another training run.
    """
    generator = torch.Generator().manual_seed(seed)
    count = len(numerator)
    ratios = []
    for _ in range(draws):
        rows = torch.randint(count, (count,), generator=generator)
        ratios.append(float(numerator[rows].sum() / denominator[rows].sum()))
    low, high = torch.tensor(ratios).quantile(torch.tensor([0.025, 0.975])).tolist()
    return low, high
