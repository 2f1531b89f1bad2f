"""How weights move: AdamW or Muon, their rate, one clipped step; for all training."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

MUON_TIMES = 3.0  # its learning rate, of AdamW's


def make_optimizer(model: nn.Module, weight_decay: float, eps: float = 1e-8) -> torch.optim.AdamW:
    """AdamW; weight decay on matrices only, not on biases and norms."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    groups = [
        {"params": [p for p in parameters if p.ndim > 1], "weight_decay": weight_decay},
        {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=0.0, betas=(0.9, 0.999), eps=eps, fused=True)


class MuonAndAdamW(torch.optim.Optimizer):
    """Muon for the matrices of the layers, AdamW for the rest (Jordan et al. 2024).

    Muon makes the update of a matrix orthogonal: every direction of it moves equally far. Its rate
    is `MUON_TIMES` that of AdamW, with updates scaled to be as large (Liu et al. 2025, 2.2).
    """

    def __init__(self, model: nn.Module, weight_decay: float) -> None:
        matrices = layer_matrices(model)
        inside = {id(p) for p in matrices}
        groups = [{"params": matrices, "times": MUON_TIMES}]
        self.muon = torch.optim.Muon(groups, 0.0, weight_decay, adjust_lr_fn="match_rms_adamw")
        self.adamw = make_optimizer(model, weight_decay)
        for group in self.adamw.param_groups:
            group["params"] = [p for p in group["params"] if id(p) not in inside]
        super().__init__([*self.muon.param_groups, *self.adamw.param_groups], {})

    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Move every weight."""
        self.muon.state = self.adamw.state = self.state  # one for all three, as the groups are:
        self.muon.param_groups = self.param_groups[:1]  # `load_state_dict` makes both anew
        self.adamw.param_groups = self.param_groups[1:]
        self.muon.step()  # type: ignore[no-untyped-call]
        self.adamw.step()


def layer_matrices(model: nn.Module) -> list[nn.Parameter]:
    """Return the matrices inside the layers: no table of tokens or places, no head."""
    named = model.named_parameters()
    return [p for name, p in named if "layers." in name and p.ndim == 2 and p.requires_grad]


def scheduled_rate(step: int, steps: int, peak: float, warmup_share: float) -> float:
    """Return the learning rate of a step: a linear rise from 0 to ``peak``, a linear fall to 0."""
    warmup = max(1, round(warmup_share * steps))
    rise = (step + 1) / warmup
    fall = (steps - step) / max(1, steps - warmup)
    return peak * min(rise, fall, 1.0)


def descend(
    weights: Iterable[Tensor],
    optimizer: torch.optim.Optimizer,
    loss: Tensor,
    rate: float,
    clip_norm: float,
) -> Tensor:
    """Move ``weights`` one step down the slope of ``loss``, at a learning rate of ``rate``.

    Returns the norm of the whole gradient, which is scaled down to ``clip_norm`` if it is longer.
    """
    for group in optimizer.param_groups:
        group["lr"] = rate * group.get("times", 1.0)
    optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    norm = nn.utils.clip_grad_norm_(weights, clip_norm)
    optimizer.step()
    return norm
