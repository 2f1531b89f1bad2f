"""What a fine-tuning head reads: a vector for each token, and one for the whole input.

Every model of the ablations fits here: BERT of any direction, the "ELMo-style pair" that the paper
argues about and does not measure (section 5.1), ELMo itself, and a BiLSTM on top of any of them
(Table 5, last row). No part looks further than its model may: what holds in pre-training holds
while fine-tuning.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from bertedu.model.bert import Bert, reads_all
from bertedu.model.elmo import Elmo, ScalarMix, turn_around


class Features(NamedTuple):
    """``tokens`` (B, S, D) and ``whole`` (B, D), with D the size of the encoder."""

    tokens: Tensor
    whole: Tensor


class BertFeatures(nn.Module):
    """The last states, and C: pooled from the token that has read everything."""

    def __init__(self, bert: Bert) -> None:
        super().__init__()
        self.bert, self.size = bert, bert.config.hidden_size

    def forward(self, ids: Tensor, segment_ids: Tensor, padding_mask: Tensor) -> Features:
        """Encode ids, segments and mask, each (B, S)."""
        output = self.bert(ids, segment_ids, padding_mask)
        return Features(output.last, output.pooled)


class PairFeatures(nn.Module):
    """Two one-way models, side by side: D is the sum of their sizes."""

    def __init__(self, left_to_right: Bert, right_to_left: Bert) -> None:
        super().__init__()
        found = (left_to_right.config.direction, right_to_left.config.direction)
        if found != ("left-to-right", "right-to-left"):
            raise ValueError(f"a pair is a left-to-right and a right-to-left model, not {found}")
        self.halves = nn.ModuleList([BertFeatures(left_to_right), BertFeatures(right_to_left)])
        self.size = left_to_right.config.hidden_size + right_to_left.config.hidden_size

    def forward(self, ids: Tensor, segment_ids: Tensor, padding_mask: Tensor) -> Features:
        """Encode with both halves; neither knows what the other has seen."""
        left, right = (half(ids, segment_ids, padding_mask) for half in self.halves)
        return Features(
            torch.cat([left.tokens, right.tokens], dim=-1),
            torch.cat([left.whole, right.whole], dim=-1),
        )


class ElmoFeatures(nn.Module):
    """The learned mix of ELMo's layers (Peters et al., 2018, equation 1); D is 2 H.

    The whole input is the forward half at the last token and the backward half at the first: each
    where it has read everything.
    """

    def __init__(self, elmo: Elmo) -> None:
        super().__init__()
        self.elmo, self.size = elmo, 2 * elmo.config.hidden_size
        self.mix = ScalarMix(elmo.sizes.layers + 1)

    def forward(self, ids: Tensor, segment_ids: Tensor, padding_mask: Tensor) -> Features:
        """Encode; segments are not read, since an LSTM knows where it is."""
        states = torch.cat(self.elmo(ids, padding_mask), dim=-1)  # (L + 1, B, S, 2 H)
        tokens = self.mix(states)
        return Features(tokens, _ends(tokens, padding_mask))


class BiLSTMFeatures(nn.Module):
    """A BiLSTM on top of any encoder: even over a one-way model, it sees both sides.

    With ``frozen`` the encoder below stays as it is, and only what stands above it learns.
    """

    def __init__(self, below: "Encoder", hidden_size: int, frozen: bool = False) -> None:
        super().__init__()
        self.below, self.size, self.frozen = below, 2 * hidden_size, frozen
        self.forwards = nn.LSTM(below.size, hidden_size, batch_first=True)
        self.backwards = nn.LSTM(below.size, hidden_size, batch_first=True)
        if frozen:
            below.requires_grad_(False)

    def train(self, mode: bool = True) -> "BiLSTMFeatures":
        """Switch dropout on and off; in a frozen encoder it stays off."""
        super().train(mode)
        if self.frozen:
            self.below.eval()
        return self

    def forward(self, ids: Tensor, segment_ids: Tensor, padding_mask: Tensor) -> Features:
        """Encode below, then read the result from both ends."""
        x = self.below(ids, segment_ids, padding_mask).tokens
        back = turn_around(padding_mask)[..., None]
        from_left = self.forwards(x)[0]  # (B, S, K)
        from_right = self.backwards(x.gather(1, back.expand_as(x)))[0]
        tokens = torch.cat([from_left, from_right.gather(1, back.expand_as(from_right))], dim=-1)
        return Features(tokens, _ends(tokens, padding_mask))


Encoder = BertFeatures | PairFeatures | ElmoFeatures | BiLSTMFeatures


def _ends(tokens: Tensor, padding_mask: Tensor) -> Tensor:
    """Take the first half of each vector at the last real token, the second half at the first."""
    left, right = tokens.chunk(2, dim=-1)
    last = reads_all(padding_mask.bool(), "left-to-right")
    return torch.cat([left[last], right[:, 0]], dim=-1)
