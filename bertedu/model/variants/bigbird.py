"""BigBird: each token sees its neighbors, a few that see all, and some at random.

The mask of Zaheer et al. (2020, section 2) as a table (S, S): it shows who reads whom, and saves no
time. For that the paper leaves whole blocks of the table out.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from bertedu.model.bert import BertForPreTraining, init_weights
from bertedu.model.config import BertConfig
from bertedu.model.encoder import EncoderLayer


@cache
def sparse_mask(
    length: int, window: int, global_tokens: int = 0, random_keys: int = 0, seed: int = 0
) -> Tensor:
    """Say which key (column) each query (row) may see: bool (S, S).

    ``window`` neighbors on each side, and itself; the first ``global_tokens`` see all and are seen
    by all; ``random_keys`` more for each other query, drawn by ``seed`` among those that are left,
    or all of these if they are fewer. Raises ValueError if a number is negative, or ``length`` is
    less than ``global_tokens``.
    """
    if min(window, global_tokens, random_keys) < 0 or global_tokens > length:
        raise ValueError(f"{window}, {global_tokens}, {random_keys}: 0 or more, and {length} keys")
    position = torch.arange(length)
    mask = (position[:, None] - position).abs() <= window  # (S, S)
    mask[:global_tokens] = mask[:, :global_tokens] = True
    generator = torch.rand(length, length, generator=torch.Generator().manual_seed(seed))
    drawn = generator.masked_fill(mask, -1).topk(min(random_keys, length)).indices
    mask[global_tokens:] = mask.scatter(1, drawn, True)[global_tokens:]
    return mask


def reach(mask: Tensor, layers: int) -> Tensor:
    """Say what a state can have read: bool (L, S, S), [l - 1, i, j] if i knows j after l layers."""
    after = [mask]
    while len(after) < layers:
        after.append((mask.float() @ after[-1].float()) > 0)  # i sees a k that knew j
    return torch.stack(after)


class SparseLayer(EncoderLayer):
    """A layer in which each token sees only what a pattern, S -> bool (S, S), leaves it."""

    def __init__(self, config: BertConfig, pattern: Callable[[int], Tensor]) -> None:
        super().__init__(config)
        self.pattern = pattern

    def forward(self, x: Tensor, mask: Tensor | None, *more: Any) -> tuple[Tensor, Tensor | None]:
        """As `EncoderLayer`, with less to see."""
        seen = self.pattern(x.shape[1]).to(x.device)
        return super().forward(x, seen if mask is None else mask & seen, *more)


def bigbird(
    config: BertConfig, window: int, global_tokens: int = 0, random_keys: int = 0
) -> BertForPreTraining:
    """Make a BERT whose every layer has the same `sparse_mask`.

    Raises ValueError as that does, and for a one-way model: who sees all would tell what follows.
    """
    if config.direction != "bidirectional":
        raise ValueError(f"a global token would look ahead in a model that is {config.direction}")
    sizes = {"window": window, "global_tokens": global_tokens, "random_keys": random_keys}
    sparse_mask(config.max_position_embeddings, **sizes)  # refused now, not in the first step
    model = BertForPreTraining(config)
    model.bert.encoder.layers = nn.ModuleList(
        SparseLayer(config, lambda length: sparse_mask(length, **sizes))
        for _ in range(config.num_hidden_layers)
    )
    init_weights(model.bert.encoder, config.initializer_range)
    return model
