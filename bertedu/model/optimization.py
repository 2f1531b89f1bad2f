"""How weights move: AdamW, its learning rate, one clipped step; for every kind of training."""

import torch
from torch import Tensor, nn


def make_optimizer(model: nn.Module, weight_decay: float, eps: float = 1e-8) -> torch.optim.AdamW:
    """AdamW; weight decay on matrices only, not on biases and norms."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    groups = [
        {"params": [p for p in parameters if p.ndim > 1], "weight_decay": weight_decay},
        {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=0.0, betas=(0.9, 0.999), eps=eps, fused=True)


def scheduled_rate(step: int, steps: int, peak: float, warmup_share: float) -> float:
    """Return the learning rate of a step: a linear rise from 0 to ``peak``, a linear fall to 0."""
    warmup = max(1, round(warmup_share * steps))
    rise = (step + 1) / warmup
    fall = (steps - step) / max(1, steps - warmup)
    return peak * min(rise, fall, 1.0)


def descend(
    model: nn.Module, optimizer: torch.optim.Optimizer, loss: Tensor, rate: float, clip_norm: float
) -> Tensor:
    """Move the weights one step down the slope of ``loss``, at a learning rate of ``rate``.

    Returns the norm of the whole gradient, which is scaled down to ``clip_norm`` if it is longer.
    """
    for group in optimizer.param_groups:
        group["lr"] = rate
    optimizer.zero_grad(set_to_none=True)
    loss.backward()  # type: ignore[no-untyped-call]
    norm = nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    optimizer.step()
    return norm
