"""ERNIE: whole phrases are hidden, not single words (Sun et al. 2019, section 3.2)."""

import torch
from torch import Tensor

from bertedu.text.tokenization import MASK_ID, SPECIAL_TOKENS


def mask_phrases(
    ids: Tensor, first: Tensor, generator: torch.Generator, rate: float = 0.15
) -> tuple[Tensor, Tensor]:
    """Hide whole phrases: (B, S) token ids -> changed ids, and bool (B, S), true where hidden.

    ``first`` (B, S) names for each token the place where its phrase begins; a word by itself is a
    phrase of one. One draw a phrase decides for all its words, so each word is hidden at the same
    ``rate`` as by single draws. Raises ValueError if a phrase begins after one of its words.
    """
    position = torch.arange(ids.shape[1])
    if not (
        0 < rate <= 1 and ids.shape == first.shape and ((first >= 0) & (first <= position)).all()
    ):
        raise ValueError("rate must be above 0 to 1, first (B, S) a place not after the token's")
    chance = torch.rand(ids.shape, generator=generator).gather(1, first)
    selected = (chance < rate) & (ids >= len(SPECIAL_TOKENS))
    return ids.masked_fill(selected, MASK_ID), selected
