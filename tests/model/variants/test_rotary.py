"""ModernBERT. The bug people make: halves turned as if they were pairs on one side only, values
turned as well, or turned by the place in the wrong dimension; then scores know absolute places."""

from dataclasses import replace

import pytest
import torch

from bertedu.analysis.leak import MOVED, movement
from bertedu.model.config import BertConfig
from bertedu.model.variants.rotary import modern_bert, rotate

CONFIG = BertConfig(50, 16, 3, 2, 32, 40, 1, dropout=0.0, initializer_range=0.5)
DICE = torch.Generator().manual_seed(1)


def test_a_score_depends_on_the_distance_only() -> None:
    query, key = torch.randn(2, 8, generator=DICE, dtype=torch.double)
    turned = [rotate(x.expand(30, 8)) for x in (query, key)]  # the same vector at all places
    scores = turned[0] @ turned[1].T  # (30, 30)
    for distance in range(-29, 30):
        line = scores.diagonal(distance)
        assert torch.allclose(line, line[0].expand_as(line), atol=1e-9)
    assert scores[0].std() > 0.05  # and it does depend on it
    assert not torch.allclose(scores[0, 3], scores[3, 0])  # before is not after
    assert torch.allclose(scores[0, 0], query @ key)


def test_turning_keeps_lengths_and_turns_pairs_by_hand() -> None:
    x = torch.randn(2, 3, 7, 8, generator=DICE)
    assert torch.allclose(rotate(x).norm(dim=-1), x.norm(dim=-1), atol=1e-5)
    quarter = rotate(torch.tensor([[1.0, 0.0], [1.0, 0.0]]))  # place 1: one radian
    assert torch.allclose(quarter, torch.tensor([[1.0, 0.0], [0.5403, 0.8415]]), atol=1e-4)


def test_a_text_further_right_has_the_same_states() -> None:
    """What stands before is far off and looks away: no layer sees further than its window."""
    torch.manual_seed(0)
    model = modern_bert(CONFIG, window=2, every=9).eval()  # only the first layer sees all
    model.bert.encoder.layers[0] = model.bert.encoder.layers[1]
    ids = torch.randint(5, 50, (1, 30), generator=DICE)
    later = torch.cat([torch.randint(5, 50, (1, 10), generator=DICE), ids], dim=1)
    here, there = model.bert(ids).last[0], model.bert(later).last[0, 10:]
    assert torch.allclose(here[6:], there[6:], atol=1e-5)  # 3 layers of 2 neighbors
    assert not torch.allclose(here[:3], there[:3], atol=1e-3)


def test_words_that_change_places_change_states() -> None:
    torch.manual_seed(0)
    model = modern_bert(CONFIG).eval()
    ids = torch.randint(5, 50, (1, 12), generator=DICE)
    swapped = ids.flip(1)
    here, there = model.bert(ids).last[0], model.bert(swapped).last[0].flip(0)
    assert (here - there).abs().max() > 0.05  # without places they would be the same


def test_only_every_third_layer_sees_all() -> None:
    torch.manual_seed(0)
    model = modern_bert(replace(CONFIG, num_hidden_layers=5), window=1).eval()
    ids = torch.randint(5, 49, (12,), generator=DICE)
    place = torch.arange(12)
    away = (place[:, None] - place).abs()
    for number, layer in enumerate(model.bert.encoder.layers):

        def alone(some: torch.Tensor, layer: torch.nn.Module = layer) -> torch.Tensor:
            with torch.no_grad():
                return layer(model.bert.embeddings(some, torch.zeros_like(some)), None)[0]  # type: ignore[no-any-return]

        seen = movement(alone, ids, 49) > MOVED / 10
        assert seen.all() if number % 3 == 0 else torch.equal(seen, away <= 1), number


def test_it_takes_longer_texts_than_any_table_and_both_kernels_agree() -> None:
    torch.manual_seed(0)
    model = modern_bert(CONFIG, window=2).eval()
    ids = torch.randint(5, 50, (2, 40), generator=DICE)
    assert not any("position" in name for name, p in model.named_parameters() if p.requires_grad)
    fast, slow = model.bert(ids), model.bert(ids, return_attention=True)
    assert torch.allclose(fast.last, slow.last, atol=1e-5)


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="no segments: set type_vocab_size=1"):
        modern_bert(replace(CONFIG, type_vocab_size=2))
    with pytest.raises(ValueError, match="an even number"):
        modern_bert(replace(CONFIG, hidden_size=14))
    with pytest.raises(ValueError, match="window 0 and every 3"):
        modern_bert(CONFIG, window=0)
    with pytest.raises(ValueError, match="7 numbers a head are no pairs"):
        rotate(torch.ones(3, 7))
    with pytest.raises(ValueError, match="segment id 1 is outside 0 to 0"):
        modern_bert(CONFIG).bert(torch.ones(1, 3).long(), torch.ones(1, 3).long())
