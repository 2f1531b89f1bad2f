"""Masked language modeling: choose 15 % of the tokens, and hide them 80/10/10 (paper, 3.1)."""

import torch
from torch import Tensor

from bertedu.text.tokenization import MASK_ID, SPECIAL_TOKENS

PAPER = (0.8, 0.1)  # share of [MASK], share of random words; the rest stays


def read_procedure(text: str) -> tuple[float, float]:
    """Turn "80/10/10", MASK/SAME/RND as in the paper's table 8, into the shares of MASK and RND."""
    parts = [int(part) for part in text.split("/") if part.isdecimal()]
    if len(parts) != 3 or sum(parts) != 100 or text != "/".join(map(str, parts)):
        raise ValueError(
            f"masking {text!r} should be three whole percentages that add up to 100, "
            "MASK/SAME/RND: 80/10/10 is the paper's"
        )
    return parts[0] / 100, parts[2] / 100


def mask_tokens(
    ids: Tensor,
    vocab_size: int,
    generator: torch.Generator,
    rate: float = 0.15,
    mask_share: float = PAPER[0],
    random_share: float = PAPER[1],
) -> tuple[Tensor, Tensor]:
    """Select tokens to predict, and change them so that the answer cannot be read off.

    Of the selected tokens, ``mask_share`` become `[MASK]`, ``random_share`` a random word, and the
    rest stay as they are. Special tokens are never selected and never drawn. One draw per
    token decides its group, so the groups cannot overlap.

    Takes token ids (B, S); the same seed of ``generator`` gives the same masks. Returns changed ids
    (B, S) and bool (B, S), true where the original is to be predicted: at least one token. Raises
    ValueError if a share is not between 0 and 1, or there is nothing to mask.
    """
    if not (0 < rate <= 1 and 0 <= mask_share <= 1 and 0 <= random_share <= 1 - mask_share + 1e-9):
        raise ValueError(
            f"rate {rate}, mask_share {mask_share}, random_share {random_share}: "
            "each must lie between 0 and 1, and the last two must not add up to more than 1"
        )
    maskable = ids >= len(SPECIAL_TOKENS)  # the specials have the first ids
    if not maskable.any():
        raise ValueError("nothing to mask: every token is special. Is the text empty?")
    chance = torch.rand(ids.shape, generator=generator).masked_fill(~maskable, 2.0)
    selected = (chance < rate) | (chance == chance.min())  # in a tiny batch, the luckiest one

    group = torch.rand(ids.shape, generator=generator)
    words = torch.randint(len(SPECIAL_TOKENS), vocab_size, ids.shape, generator=generator)
    masked = ids.masked_fill(selected & (group < mask_share), MASK_ID)
    to_random = selected & (group >= mask_share) & (group < mask_share + random_share)
    return torch.where(to_random, words, masked), selected
