"""The loss of the words, without ever holding all their scores.

A score for each of V words at each of n places is by far the largest table of a training step:
2,000 places and 8,192 words make 16 million numbers, several times over while softmax and its
gradient are computed. But the gradient of one place needs the scores of that place only. So this
walks through the places a hundred or so at a time, and keeps of each lot the loss and the gradient.
"""

from typing import Any

import torch
from torch import Tensor, nn

PLACES_AT_ONCE = 128  # their scores fit into a processor's cache


def word_loss(states: Tensor, decoder: nn.Linear, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Mean cross entropy of ``decoder(states)`` and the share that it gets right.

    ``states`` are (n, H), ``labels`` (n,). Equal to `cross_entropy` up to rounding, with less
    memory and time. Products are in bfloat16 under autocast; shares and sums are in 32 bits, or in
    64 if ``states`` are.
    """
    device = states.device.type
    dtype = states.dtype
    if torch.is_autocast_enabled(device):
        dtype = torch.get_autocast_dtype(device)
    loss, right = _WordLoss.apply(  # type: ignore[no-untyped-call]
        states, decoder.weight, decoder.bias, labels, dtype
    )
    return loss, right


class _WordLoss(torch.autograd.Function):
    """Cross entropy whose gradient is computed on the way forward."""

    @staticmethod
    def forward(
        ctx: Any, states: Tensor, table: Tensor, bias: Tensor, labels: Tensor, dtype: torch.dtype
    ) -> tuple[Tensor, Tensor]:
        x, words, shift = states.to(dtype), table.to(dtype), bias.to(dtype)
        to_states = torch.empty_like(x)
        to_table, to_bias = torch.zeros_like(table), torch.zeros_like(bias)
        loss, right = table.new_zeros(()), table.new_zeros(())
        finest = torch.promote_types(dtype, torch.float32)
        for start in range(0, len(labels), PLACES_AT_ONCE):
            rows = slice(start, start + PLACES_AT_ONCE)
            label = labels[rows, None]
            scores = torch.addmm(shift, x[rows], words.T)  # (rows, V)
            # "the label has the highest score"; on a CPU, argmax would cost 5 % of the whole step
            own, highest = scores.gather(1, label), scores.amax(1, keepdim=True)
            right += (own >= highest).sum()
            shares = scores.softmax(1, dtype=finest)  # three times as fast as log_softmax
            # log(share of the label) = its distance to the highest score + log(highest share):
            # so a share that is too small for a number of 32 bits does no harm
            distance = own.to(finest) - highest.to(finest)
            loss -= (distance + shares.amax(1, keepdim=True).log()).sum()
            # the gradient of a score: the share that the model gave, less 1 at the right word
            gradient = shares
            gradient.scatter_add_(1, label, gradient.new_full((), -1.0).expand_as(label))
            to_bias += gradient.sum(0)
            gradient = gradient.to(dtype)
            to_states[rows] = gradient @ words
            to_table += gradient.T @ x[rows]
        ctx.save_for_backward(to_states, to_table, to_bias)
        ctx.places = places = max(1, len(labels))  # of nothing the loss is 0, not 0 / 0
        ctx.dtype = states.dtype
        share = right / places
        ctx.mark_non_differentiable(share)
        return loss / places, share

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        to_states, to_table, to_bias = ctx.saved_tensors
        share = gradients[0] / ctx.places
        return to_states.to(ctx.dtype) * share, to_table * share, to_bias * share, None, None
