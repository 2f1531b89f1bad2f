"""The one-way language models of the ablations: predict the next word, or the previous one."""

import torch
from torch import Tensor

from bertedu.model.config import Direction
from bertedu.text.tokenization import SPECIAL_TOKENS


def next_words(
    ids: Tensor, direction: Direction, share: float = 1.0, generator: torch.Generator | None = None
) -> tuple[Tensor, Tensor]:
    """Say which position is to predict which word, when nothing is masked.

    Left to right, position t predicts token t + 1; right to left, token t - 1. Every word is a
    target; special tokens and padding are not, as in masking. Of (B, S) token ids, unchanged,
    returns bool (B, S), true at the n positions that predict something, and the n words they
    should; of these a ``share``, drawn by ``generator``. A bidirectional model sees the word
    that it would have to predict: ValueError.
    """
    if direction == "bidirectional":
        raise ValueError("a bidirectional model sees the next word: mask words instead")
    to_left = direction == "right-to-left"
    targets = ids.roll(1 if to_left else -1, dims=1)
    predicts = targets >= len(SPECIAL_TOKENS)
    predicts[:, 0 if to_left else -1] = False  # there, the roll has brought in the other end
    if share < 1:
        predicts &= torch.rand(ids.shape, generator=generator) < share
    return predicts, targets[predicts]
