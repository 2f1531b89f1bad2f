"""Weights in the order in which the processor reads them: faster answers for a text or two.

With few tokens a linear map spends its time fetching weights, not multiplying. oneDNN, the library
below PyTorch on a CPU, can store them in the blocks that its inner loop wants. It does so by itself
for nobody, since blocked weights cannot be trained.
"""

import copy
from typing import Any, NoReturn, TypeVar

import torch
from torch import Tensor, nn

from bertedu.model.bert import Bert, BertForPreTraining

AnyBert = TypeVar("AnyBert", Bert, BertForPreTraining)


class PackedLinear(nn.Module):
    """A linear map whose weights are packed."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.bias = linear.bias.detach()
        self.packed = torch.ops.mkldnn._reorder_linear_weight(linear.weight.detach())

    def forward(self, x: Tensor) -> Tensor:
        """(..., in) -> (..., out). Raises RuntimeError where a gradient is wanted."""
        if torch.is_grad_enabled() and x.requires_grad:
            raise RuntimeError(
                "a packed model only answers, it cannot be trained: train the model it was made "
                "from, or call this one under torch.inference_mode()"
            )
        pointwise = torch.ops.mkldnn._linear_pointwise
        return pointwise(x, self.packed, self.bias, "none", [], "")  # type: ignore[no-any-return]

    def _save_to_state_dict(self, *_: Any) -> NoReturn:
        """Refuse: without these weights a checkpoint would look whole, and be none."""
        raise RuntimeError("a packed model cannot be saved: save the model it was made from")


def pack(model: AnyBert) -> AnyBert:
    """Return a copy for inference whose encoder has packed weights; the same answers, sooner.

    To save it raises RuntimeError. Where PyTorch comes without oneDNN (on Apple silicon, for one)
    the copy is a plain one. Raises ValueError if the model is packed or not float32 on a CPU.
    """
    if any(isinstance(module, PackedLinear) for module in model.modules()):
        raise ValueError("this model is packed already")
    weight = next(model.parameters())
    if weight.dtype != torch.float32 or weight.device.type != "cpu":
        raise ValueError(
            f"packing is for float32 on a CPU, and this model is {weight.dtype} on "
            f"{weight.device}: model.float().cpu() first"
        )
    packed = copy.deepcopy(model).eval()
    if not hasattr(torch.ops.mkldnn, "_reorder_linear_weight"):
        return packed
    bert = packed if isinstance(packed, Bert) else packed.bert
    for module in list(bert.encoder.modules()):
        for name, child in module.named_children():
            if isinstance(child, nn.Linear):
                setattr(module, name, PackedLinear(child))
    return packed
