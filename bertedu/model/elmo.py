"""ELMo: two LSTM language models, one from each side, and a learned mix of their layers.

Peters et al. (2018), section 3. Two things differ from the paper: words come in as word pieces,
not as characters, so that all models of the course read the same input; and it is small.
"""

import math
import warnings
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from bertedu.model.config import BertConfig
from bertedu.model.inference import check_input

# True, and nothing that a reader could act on: it would stand in every notebook.
warnings.filterwarnings("ignore", message="LSTM with projections is not supported with oneDNN")


@dataclass(frozen=True)
class ElmoSizes:
    """How many LSTM layers a direction has, and how many cells each: more than H."""

    layers: int
    cells: int

    @classmethod
    def beside(cls, config: BertConfig) -> "ElmoSizes":
        """Return the sizes that have as many parameters as the Transformer layers of a config.

        Half as many layers, since there are two directions; such a layer has about 9 H numbers a
        cell, a Transformer layer 12 H squared.
        """
        return cls(max(1, config.num_hidden_layers // 2), math.ceil(config.hidden_size * 4 / 3))


class OneWay(nn.Module):
    """A language model from left to right: LSTM layers, each with a residual around it.

    Every output is projected back to H numbers, as in the paper, to be added to its input.
    """

    def __init__(self, hidden_size: int, sizes: ElmoSizes, dropout: float) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.LSTM(hidden_size, sizes.cells, proj_size=hidden_size, batch_first=True)
            for _ in range(sizes.layers)
        )
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> list[Tensor]:
        """(B, S, H) -> the state behind each layer, (B, S, H) each; row t has read 0 to t."""
        states = []
        for layer in self.layers:
            x = x + self.dropout(layer(x)[0])
            states.append(x)
        return states


class Elmo(nn.Module):
    """Both directions over one token table. Segments and positions are not needed: LSTMs count."""

    def __init__(self, config: BertConfig, sizes: ElmoSizes | None = None) -> None:
        super().__init__()
        sizes = sizes or ElmoSizes.beside(config)
        self.config, self.sizes = config, sizes
        self.token = nn.Embedding(config.vocab_size, config.hidden_size)
        nn.init.normal_(self.token.weight, std=config.initializer_range)
        self.dropout = nn.Dropout(config.dropout)
        self.forwards = OneWay(config.hidden_size, sizes, config.dropout)
        self.backwards = OneWay(config.hidden_size, sizes, config.dropout)

    def forward(self, ids: Tensor, padding_mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """(B, S) -> the states of both directions, each (L + 1, B, S, H).

        Row 0 of both is the token embedding. In the first, row t of a layer has read tokens 0 to
        t; in the second, t to the last real one. Nothing has read both sides together.
        Raises ValueError if the input is too long, ids are out of range, or a row is all padding.
        """
        padding_mask = (torch.ones_like(ids) if padding_mask is None else padding_mask).bool()
        check_input(self.config, ids, torch.zeros_like(ids), padding_mask)
        x = self.dropout(self.token(ids))
        back = turn_around(padding_mask)[..., None].expand_as(x)  # (B, S, H)
        from_left = self.forwards(x)
        from_right = [state.gather(1, back) for state in self.backwards(x.gather(1, back))]
        return torch.stack([x, *from_left]), torch.stack([x, *from_right])


def turn_around(padding_mask: Tensor) -> Tensor:
    """Return the order (B, S) that reverses the real tokens of each row and leaves padding last."""
    position = torch.arange(padding_mask.shape[1], device=padding_mask.device)
    length = padding_mask.sum(dim=1, keepdim=True)
    return torch.where(position < length, length - 1 - position, position)


class ScalarMix(nn.Module):
    """What a task takes from ELMo: one learned weight a layer, and one for all (equation 1)."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.zeros(layers))  # equal shares at first
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, states: Tensor) -> Tensor:
        """(layers, B, S, D) -> (B, S, D)."""
        return self.scale * torch.einsum("l,lbsd->bsd", self.weights.softmax(0), states)


class ElmoForPreTraining(nn.Module):
    """Two language models that share the token table, below and above (tied softmax)."""

    def __init__(self, config: BertConfig, sizes: ElmoSizes | None = None) -> None:
        super().__init__()
        self.config = config
        self.elmo = Elmo(config, sizes)
        self.norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.decoder = nn.Linear(config.hidden_size, config.vocab_size)
        self.decoder.weight = self.elmo.token.weight
        nn.init.zeros_(self.decoder.bias)

    def forward(self, ids: Tensor, padding_mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """(B, S) -> scores of the *next* token and of the *previous* one, (B, S, V) each."""
        left, right = self.before_decoder(ids, padding_mask)
        return self.decoder(left), self.decoder(right)

    def before_decoder(
        self,
        ids: Tensor,
        padding_mask: Tensor | None = None,
        next_at: Tensor | None = None,
        previous_at: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Return what `forward` does, with H numbers at each place in place of V word scores.

        With ``next_at`` and ``previous_at``, bool (B, S), at those positions only: (n, H) each.
        """
        from_left, from_right = self.elmo(ids, padding_mask)
        left = from_left[-1] if next_at is None else from_left[-1][next_at]
        right = from_right[-1] if previous_at is None else from_right[-1][previous_at]
        return self.norm(left), self.norm(right)
