"""Scaled dot-product attention, many heads, and the masks of the three directions."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bertedu.model.config import BertConfig, Direction


def attention_mask(padding_mask: Tensor, direction: Direction) -> Tensor | None:
    """Say which key each query may see.

    ``padding_mask`` (B, S) is true at real tokens. "bidirectional" hides padding only,
    "left-to-right" also every later token, "right-to-left" every earlier one. Returns bool
    (B, 1, 1, S) or (B, 1, S, S), true where query (third axis) may see key (fourth axis); None if
    every query sees every key.
    """
    keys = padding_mask[:, None, None, :]  # (B, 1, 1, S)
    if direction == "bidirectional":
        return None if padding_mask.all() else keys
    length = padding_mask.shape[1]
    square = torch.ones(length, length, dtype=torch.bool, device=padding_mask.device)
    return keys & (square.tril() if direction == "left-to-right" else square.triu())


def attention_weights(query: Tensor, key: Tensor, mask: Tensor | None = None) -> Tensor:
    """Compute softmax(Q Kᵀ / √d): (B, A, S, d), (B, A, S, d) -> (B, A, S, S), rows sum to one."""
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    return scores.softmax(dim=-1)  # each query shares out one unit of attention


def scaled_dot_product_attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, dropout: float = 0.0
) -> tuple[Tensor, Tensor]:
    """Compute softmax(Q Kᵀ / √d) V (Vaswani et al. 2017, equation 1).

    query, key, value are (B, A, S, d). Returns the mixed values (B, A, S, d) and the weights
    (B, A, S, S), *before* dropout: each row sums to one.
    """
    weights = attention_weights(query, key, mask)
    return F.dropout(weights, dropout) @ value, weights


class SelfAttention(nn.Module):
    """Multi-head self-attention: every token attends to every token that it may see."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.num_heads = config.num_attention_heads
        self.dropout = config.dropout
        self.query = nn.Linear(config.hidden_size, config.hidden_size)
        self.key = nn.Linear(config.hidden_size, config.hidden_size)
        self.value = nn.Linear(config.hidden_size, config.hidden_size)
        self.output = nn.Linear(config.hidden_size, config.hidden_size)

    def weights(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """Share out each token's attention: (B, S, H) -> (B, A, S, S), before dropout."""
        query, key = self.split_heads(self.query(x)), self.split_heads(self.key(x))
        return attention_weights(query, key, mask)

    def mix(self, weights: Tensor, x: Tensor) -> Tensor:
        """Mix the values of x (B, S, H) by weights (B, A, S, S), with dropout: (B, S, H)."""
        weights = F.dropout(weights, self.dropout, self.training)
        return self.join_heads(weights @ self.split_heads(self.value(x)))

    def forward(
        self, x: Tensor, mask: Tensor | None, return_weights: bool = False
    ) -> tuple[Tensor, Tensor | None]:
        """(B, S, H) -> (B, S, H) and, if asked for, the weights (B, A, S, S)."""
        if torch.is_autocast_enabled(x.device.type):  # round once; autocast would, three times
            x = x.to(torch.get_autocast_dtype(x.device.type))
        # PyTorch's fused kernel never holds the weights, so it is used unless they are asked for;
        # on a CPU its bfloat16 backward pass is slower than the formula written out.
        if return_weights or (x.dtype == torch.bfloat16 and x.device.type == "cpu"):
            weights = self.weights(x, mask)
            return self.mix(weights, x), weights
        query, key, value = (self.split_heads(p(x)) for p in (self.query, self.key, self.value))
        dropout = self.dropout if self.training else 0.0
        mixed = F.scaled_dot_product_attention(query, key, value, mask, dropout)
        return self.join_heads(mixed), None

    def split_heads(self, x: Tensor) -> Tensor:
        """Cut H numbers into A pieces of d, one for each head: (B, S, H) -> (B, A, S, d)."""
        heads = (self.num_heads, x.shape[-1] // self.num_heads)
        return x.unflatten(-1, heads).transpose(1, 2)  # type: ignore[no-untyped-call]

    def join_heads(self, x: Tensor) -> Tensor:
        """Put the heads side by side and let them mix: (B, A, S, d) -> (B, S, H)."""
        return self.output(x.transpose(1, 2).flatten(2))
