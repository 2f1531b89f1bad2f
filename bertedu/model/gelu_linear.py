"""GELU and the linear map behind it, keeping one table for the way back in place of two.

The largest tables of a Transformer layer stand inside its feed-forward part: (B, S, 4H) before
GELU and the same after. PyTorch keeps both for the backward pass. But what comes after GELU can
be computed again from what came before it, at next to no cost.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class GeluLinear(nn.Linear):
    """A linear map of GELU of its input: (..., 4H) -> (..., H)."""

    def forward(self, x: Tensor) -> Tensor:
        """Equal to ``linear(gelu(x))``, under autocast as well."""
        weight, bias = self.weight, self.bias
        if not torch.is_grad_enabled():  # no way back, nothing to save for it
            return F.linear(F.gelu(x), weight, bias)
        if torch.is_autocast_enabled(x.device.type):
            dtype = torch.get_autocast_dtype(x.device.type)
            return _apply(x.to(dtype), weight.to(dtype), bias.to(dtype))
        return _apply(x, weight, bias)


def _apply(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return _Gelu.apply(x, weight, bias)  # type: ignore[no-any-return, no-untyped-call]


class _Gelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return torch.addmm(bias, F.gelu(x).flatten(0, -2), weight.T).view(*x.shape[:-1], -1)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x, weight = ctx.saved_tensors
        gradient = gradients[0].flatten(0, -2)  # (N, H)
        to_weight = gradient.T @ F.gelu(x).flatten(0, -2)
        to_x = torch.ops.aten.gelu_backward((gradient @ weight).view_as(x), x)
        return to_x, to_weight, gradient.sum(dim=0)
