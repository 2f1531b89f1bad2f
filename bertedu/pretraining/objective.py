"""The loss of pre-training: masked (or next) words, plus next sentences (paper, appendix A.2)."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bertedu.pretraining import processes
from bertedu.pretraining.batches import Batch
from bertedu.pretraining.evaluation import PreTrainingModel, ask
from bertedu.pretraining.recipe import Recipe
from bertedu.pretraining.word_loss import word_loss


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
        many = processes.count()
        if many == 1:
            return pretraining_loss(self.model, batch, self.next_sentence)
        mine = batch.part(processes.rank(), many)
        words = many * len(mine.labels) / max(1, len(batch.labels))
        pairs = many * len(mine.ids) / len(batch.ids)
        return pretraining_loss(self.model, mine, self.next_sentence, (words, pairs))


def shared_by_processes(step_loss: StepLoss, recipe: Recipe, device: torch.device) -> nn.Module:
    """Let every process compute its rows of each batch; alone, it computes all of them."""
    many = processes.count()
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
