"""LoRA: the model stays as it is; what is learned is a thin product beside it (Hu et al. 2021)."""

from torch import Tensor, nn
from torch.nn import functional as F

from bertedu.model.attention import SelfAttention

ADAPTED = ("query", "value")  # the two that Hu et al. adapt (section 4.2)


class LoraLinear(nn.Linear):
    """x ↦ Wx + b + s·BAx: W and b are frozen, A (r, in) and B (out, r) learn (equation 3).

    B begins at zero, so that nothing changes before the first step. s = ``alpha`` / r keeps the
    size of a change where it is when r is another.
    """

    def __init__(self, linear: nn.Linear, rank: int, alpha: float) -> None:
        super().__init__(linear.in_features, linear.out_features)
        self.weight, self.bias, self.scale = linear.weight, linear.bias, alpha / rank
        self.lora_a = nn.Parameter(linear.weight.new_empty(rank, linear.in_features))
        self.lora_b = nn.Parameter(linear.weight.new_zeros(linear.out_features, rank))
        nn.init.kaiming_uniform_(self.lora_a, a=5**0.5)

    def forward(self, x: Tensor) -> Tensor:
        """Map (..., in) to (..., out)."""
        return super().forward(x) + self.scale * F.linear(F.linear(x, self.lora_a), self.lora_b)


def add_lora(model: nn.Module, rank: int = 8, alpha: float = 16.0) -> None:
    """Freeze a model, and put a `LoraLinear` in the place of each query and value of its layers.

    Raises ValueError if the rank is below 1, or queries and values are no plain linear maps.
    """
    if rank < 1:
        raise ValueError(f"rank {rank}: a product of two matrices needs a rank of 1 or more")
    layers = [part for part in model.modules() if isinstance(part, SelfAttention)]
    if not layers:
        raise ValueError(f"a {type(model).__name__} has no self-attention to adapt")
    if any(type(getattr(layer, name)) is not nn.Linear for layer in layers for name in ADAPTED):
        raise ValueError("queries and values must be plain linear maps: are they adapted already?")
    model.requires_grad_(False)
    for layer in layers:
        for name in ADAPTED:
            setattr(layer, name, LoraLinear(getattr(layer, name), rank, alpha))


def merge_lora(model: nn.Module) -> None:
    """Add each product to its W, and put plain linear maps back: the same answers, no detour."""
    for place, adapted in list(model.named_modules()):
        if isinstance(adapted, LoraLinear):
            linear = nn.Linear(adapted.in_features, adapted.out_features)
            linear.weight = nn.Parameter(
                adapted.weight.detach() + adapted.scale * (adapted.lora_b @ adapted.lora_a).detach()
            )
            linear.bias = adapted.bias
            model.set_submodule(place, linear)


def lora_state(model: nn.Module) -> dict[str, Tensor]:
    """Return what was learned, by name: all that must be kept of an adapted model."""
    return {name: t for name, t in model.state_dict().items() if ".lora_" in name}
