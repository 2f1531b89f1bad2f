"""Whole phrases hidden. The usual bug: a dice for each word, so that half a phrase stays."""

import pytest
import torch

from bertedu.model.variants.ernie import mask_phrases

IDS = torch.tensor([[2, 7, 8, 9, 10, 11, 12, 3]]).repeat(4000, 1)
FIRST = torch.tensor([[0, 1, 2, 2, 4, 4, 4, 7]]).repeat(4000, 1)


def test_a_phrase_is_hidden_whole_or_not_at_all() -> None:
    ids, selected = mask_phrases(IDS, FIRST, torch.Generator().manual_seed(0), rate=0.3)
    assert torch.equal(selected, ids == 4)
    assert torch.equal(ids[~selected], IDS[~selected])
    assert torch.equal(selected[:, 2], selected[:, 3])
    assert torch.equal(selected[:, 4], selected[:, 5])
    assert torch.equal(selected[:, 4], selected[:, 6])
    assert not torch.equal(selected[:, 1], selected[:, 2])
    assert not selected[:, [0, 7]].any()
    shares = selected[:, 1:7].double().mean(dim=0)
    assert ((shares - 0.3).abs() < 0.04).all()  # the rate of each word is as for single words


def test_phrases_that_are_none_are_refused() -> None:
    dice = torch.Generator().manual_seed(0)
    for first, rate in ((FIRST + 1, 0.3), (FIRST - 1, 0.3), (FIRST[:, :3], 0.3), (FIRST, 0.0)):
        with pytest.raises(ValueError, match="rate must be above 0 to 1"):
            mask_phrases(IDS, first, dice, rate)
