"""What goes on top of the encoder: two heads to pre-train, four to fine-tune."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bertedu.model.config import BertConfig


class Pooler(nn.Module):
    """One vector for the whole input: a linear map and tanh on C, the last state of `[CLS]`."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)

    def forward(self, cls: Tensor) -> Tensor:
        """(B, H) -> (B, H)."""
        return torch.tanh(self.dense(cls))


class MLMHead(nn.Module):
    """Score every word of the vocabulary at a position (paper, section 3.1, task 1).

    The decoder is the token embedding table itself, plus a bias: one storage, one gradient.
    """

    def __init__(self, config: BertConfig, token_embedding: nn.Embedding) -> None:
        super().__init__()
        self.transform = nn.Linear(config.hidden_size, config.hidden_size)
        self.norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.decoder = nn.Linear(config.hidden_size, config.vocab_size)
        self.decoder.weight = token_embedding.weight

    def before_decoder(self, hidden: Tensor) -> Tensor:
        """(..., H) -> (..., H), to be compared with every row of the token table."""
        return self.norm(F.gelu(self.transform(hidden)))

    def forward(self, hidden: Tensor) -> Tensor:
        """(..., H) -> (..., V)."""
        return self.decoder(self.before_decoder(hidden))


class ClassificationHead(nn.Module):
    """K scores from the pooled C: next sentence, sentiment; with K = 1, a regression."""

    def __init__(self, hidden_size: int, num_labels: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.classifier = nn.Linear(hidden_size, num_labels)

    def forward(self, pooled: Tensor) -> Tensor:
        """(B, H) -> (B, K)."""
        return self.classifier(self.dropout(pooled))


class TaggingHead(ClassificationHead):
    """K scores for each token: (B, S, H) -> (B, S, K) (paper, section 5.3)."""


class SpanHead(TaggingHead):
    """A start and an end score for each token (paper, section 4.2)."""

    def __init__(self, hidden_size: int) -> None:
        super().__init__(hidden_size, num_labels=2)

    def forward(self, hidden: Tensor) -> Tensor:
        """(B, S, H) -> (2, B, S): start scores, end scores."""
        return super().forward(hidden).movedim(-1, 0)


class MultipleChoiceHead(ClassificationHead):
    """One score for each choice from its own pooled C (paper, section 4.4)."""

    def __init__(self, hidden_size: int, dropout: float = 0.0) -> None:
        super().__init__(hidden_size, num_labels=1, dropout=dropout)

    def forward(self, pooled: Tensor) -> Tensor:
        """(B, choices, H) -> (B, choices)."""
        return super().forward(pooled).squeeze(-1)
