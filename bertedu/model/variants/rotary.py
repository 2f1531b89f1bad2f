"""ModernBERT: places as angles, most layers with a window, no segments (Warner et al. 2024).

Rotary positions are Su et al.'s (2021, section 3.2).
"""

from functools import partial

import torch
from torch import Tensor, nn

from bertedu.model.bert import BertForPreTraining, init_weights
from bertedu.model.config import BertConfig
from bertedu.model.variants.bigbird import SparseLayer, sparse_mask


def rotate(x: Tensor, base: float = 10_000.0) -> Tensor:
    """Turn each pair of numbers by an angle that grows with the place: (..., S, d) -> (..., S, d).

    Numbers 2k and 2k + 1 of place m are turned by m · base^(-2k/d). Raises ValueError if d is odd.
    """
    length, size = x.shape[-2:]
    if size % 2:
        raise ValueError(f"rotary positions turn pairs: {size} numbers a head are no pairs")
    rate = base ** (-torch.arange(0, size, 2, device=x.device) / size)  # (d/2)
    angle = torch.arange(length, device=x.device)[:, None] * rate  # (S, d/2)
    a, b = x[..., 0::2], x[..., 1::2]
    turned = a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()
    return torch.stack(turned, dim=-1).flatten(-2).to(x.dtype)


class RotaryLinear(nn.Linear):
    """The map to queries, or to keys: a linear one, then each head is turned by its place."""

    def __init__(self, size: int, num_heads: int) -> None:
        super().__init__(size, size)
        self.num_heads = num_heads

    def forward(self, x: Tensor) -> Tensor:
        """(B, S, H) -> (B, S, H)."""
        heads = super().forward(x).view(*x.shape[:2], self.num_heads, -1).transpose(1, 2)
        return rotate(heads).transpose(1, 2).flatten(2)


def modern_bert(
    config: BertConfig, window: int | None = None, every: int = 3
) -> BertForPreTraining:
    """Make a BERT without a position table, whose queries and keys are turned by their places.

    With a ``window``, layers see that many neighbors on each side; only the first and each
    ``every``-th after it see all. Raises ValueError for segments, odd heads, a number below 1.
    """
    if config.type_vocab_size != 1:
        raise ValueError("ModernBERT has no segments: set type_vocab_size=1")
    if config.hidden_size // config.num_attention_heads % 2:
        raise ValueError("rotary positions turn pairs: give each head an even number of numbers")
    if every < 1 or (window is not None and window < 1):
        raise ValueError(f"window {window} and every {every} should be 1 or more")
    model = BertForPreTraining(config)
    nothing = torch.zeros(1, config.hidden_size)  # one row, added to every place
    model.bert.embeddings.position = nn.Embedding.from_pretrained(nothing)  # type: ignore[no-untyped-call]
    layers = model.bert.encoder.layers
    for number in range(len(layers)):
        if window is not None and number % every:
            layers[number] = SparseLayer(config, partial(sparse_mask, window=window))
        for name in ("query", "key"):
            turned = RotaryLinear(config.hidden_size, config.num_attention_heads)
            setattr(layers[number].attention, name, turned)
    init_weights(model.bert.encoder, config.initializer_range)
    return model
