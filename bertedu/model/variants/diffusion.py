"""Masked diffusion: BERT with a rate of blanks drawn anew for each text writes, too.

Of each text a share between none and all is hidden, and the loss is weighted by 1 / rate: then it
is a bound on -log P(text) (Sahoo et al. 2024, section 3; Nie et al. 2025, section 2). To write,
begin with blanks alone and fill in some of them in each pass.
"""

from collections.abc import Iterator

import torch
from torch import Generator, Tensor
from torch.nn import functional as F

from bertedu.model.bert import BertForPreTraining
from bertedu.model.inference import evaluating
from bertedu.model.variants.generation import next_token
from bertedu.text.tokenization import MASK_ID, PAD_ID, SPECIAL_TOKENS


def hide_some(ids: Tensor, generator: Generator) -> tuple[Tensor, Tensor]:
    """Draw a rate for each text, and hide so many of its words: bool (B, S), rates (B, 1).

    The rates of the B texts lie evenly between 0 and 1, from a place that is drawn: one estimate
    of the loss varies less so.
    """
    position = torch.arange(len(ids)) / len(ids)
    rate = (torch.rand((), generator=generator) + position).remainder(1)[:, None].clamp(min=1e-6)
    return (torch.rand(ids.shape, generator=generator) < rate) & (ids >= len(SPECIAL_TOKENS)), rate


def diffusion_loss(
    model: BertForPreTraining, ids: Tensor, generator: Generator, segment_ids: Tensor | None = None
) -> Tensor:
    """(B, S) -> (B,) nats a text: on average, at least -log P(its words | how many there are).

    With exact chances the mean over many draws is -log P itself.
    """
    hidden, rate = (drawn.to(ids.device) for drawn in hide_some(ids.cpu(), generator))
    masked, real = ids.masked_fill(hidden, MASK_ID), ids != PAD_ID
    scores, _ = model(masked, segment_ids, real, hidden)  # (n, V)
    nats = F.cross_entropy(scores, ids[hidden], reduction="none")
    return (nats.new_zeros(ids.shape).masked_scatter(hidden, nats) / rate).sum(dim=1)


def unmask(
    model: BertForPreTraining, ids: Tensor, passes: int, confident: bool = False,
    temperature: float = 1.0, generator: Generator | None = None,
) -> Iterator[Tensor]:  # fmt: skip
    """Fill the `[MASK]` of ids (B, S) in so many passes, and yield the ids after each.

    A pass draws a word for every blank at once and keeps as many as are due: those drawn with the
    highest chance if ``confident``, else any. Words of one pass do not know of each other; with a
    pass for each word this is the chain rule, in a drawn order. Raises ValueError as `next_token`
    does, if there is no pass, or the model reads one side alone.
    """
    if passes < 1 or model.config.direction != "bidirectional":
        raise ValueError(f"{passes} passes of a {model.config.direction} model fill no blanks")
    real, total = ids != PAD_ID, (ids == MASK_ID).sum(dim=1, keepdim=True)
    for later in reversed(range(passes)):
        with evaluating(model):
            scores, _ = model(ids, padding_mask=real)
        scores[..., : len(SPECIAL_TOKENS)] = -torch.inf
        chances = next_token(scores, temperature)
        drawn = torch.multinomial(chances.flatten(0, 1), 1, generator=generator).view(ids.shape)
        sure = chances.gather(-1, drawn[..., None])[..., 0]
        sure = sure if confident else torch.rand(ids.shape, generator=generator, device=ids.device)
        position = sure.masked_fill(ids != MASK_ID, -1).argsort(1, descending=True).argsort(1)
        due = (ids == MASK_ID).sum(dim=1, keepdim=True) - total * later // passes
        ids = torch.where(position < due, drawn, ids)
        yield ids
