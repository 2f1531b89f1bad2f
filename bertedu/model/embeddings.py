"""Token + segment + position: three vectors added at the input (paper, figure 2)."""

import torch
from torch import Tensor, nn

from bertedu.model.config import BertConfig


class Embeddings(nn.Module):
    """Look up three vectors for each token, add them, normalize, drop out."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.token = nn.Embedding(config.vocab_size, config.hidden_size)
        self.position = nn.Embedding(config.max_position_embeddings, config.hidden_size)
        self.segment = nn.Embedding(config.type_vocab_size, config.hidden_size)
        self.norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, ids: Tensor, segment_ids: Tensor) -> Tensor:
        """(B, S), (B, S) -> (B, S, H)."""
        x = self.token(ids)  # (B, S, H)
        x = x + self.segment(segment_ids)  # (B, S, H)
        x = x + self.position.weight[: ids.shape[1]]  # (B, S, H) + (S, H)
        return self.dropout(self.norm(x))


def sinusoidal_positions(length: int, size: int) -> Tensor:
    """Return (length, size) sines and cosines (Vaswani et al. 2017, section 3.5).

    BERT *learns* its positions. A table that starts out as a small copy of this one, so that
    near positions are alike from the first step, learns sooner.
    """
    position = torch.arange(length)[:, None]  # (S, 1)
    rate = 10000 ** (-torch.arange(0, size, 2) / size)  # (H/2)
    angle = position * rate  # (S, H/2)
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)[:, :size]  # (S, H)
