"""ELECTRA. Usual bugs: the detector teaches the generator; a lucky sample counts as replaced."""

from dataclasses import replace

import pytest
import torch

from bertedu.model.config import BertConfig
from bertedu.model.variants.electra import Electra, replaced

CONFIG = BertConfig(20, 16, 2, 2, 32, 12, 2, 0.0, initializer_range=0.3)
ORIGINAL = torch.tensor([[2, 7, 5, 9, 3, 0], [2, 17, 18, 19, 11, 3]])
SELECTED = torch.tensor(
    [[False, True, False, True, False, False], [False, False, True, True, False, False]]
)
MASKED = ORIGINAL.masked_fill(SELECTED, 4)


def electra() -> Electra:
    torch.manual_seed(0)
    return Electra(CONFIG, generator_size=8)


def losses(model: Electra, everywhere: bool = True) -> tuple[torch.Tensor, torch.Tensor]:
    dice = torch.Generator().manual_seed(1)
    found: tuple[torch.Tensor, torch.Tensor] = model(
        ORIGINAL, MASKED, SELECTED, dice, ORIGINAL != 0, everywhere
    )
    return found


def test_a_sample_that_is_the_original_is_not_replaced() -> None:
    ids, labels = replaced(
        torch.tensor([[5, 6, 7, 8]]),
        torch.tensor([[9, 6, 9, 9]]),
        torch.tensor([[True, True, False, False]]),
    )
    assert ids.tolist() == [[9, 6, 7, 8]]
    assert labels.tolist() == [[True, False, False, False]]


def test_the_detector_does_not_teach_the_generator() -> None:
    """Fails when the detector reads a soft mixture of words, or shares the generator's table."""
    model = electra()
    losses(model)[1].backward()  # type: ignore[no-untyped-call]
    assert all(p.grad is None or not p.grad.any() for p in model.generator.parameters())
    assert model.detector.embeddings.token.weight.grad is not None
    assert model.detector.embeddings.token.weight.grad.any()
    model = electra()
    losses(model)[0].backward()  # type: ignore[no-untyped-call]
    assert all(p.grad is None for p in model.detector.parameters())
    assert model.generator.bert.embeddings.token.weight.grad is not None


def test_the_detector_reads_samples_and_answers_for_every_word() -> None:
    """The detector's loss worked out by hand from what it is given."""
    model = electra()
    seen: list[torch.Tensor] = []
    model.detector.embeddings.token.register_forward_hook(
        lambda _, inputs, out: seen.append(inputs[0])
    )
    for everywhere in (True, False):
        _, loss = losses(model, everywhere)
        ids = seen[-1]
        assert not (ids == 4).any()  # no [MASK] is left
        assert torch.equal(ids[~SELECTED], ORIGINAL[~SELECTED])
        chance = model.head(model.detector(ids, padding_mask=ORIGINAL != 0).last)[..., 0].sigmoid()
        right = torch.where(ids == ORIGINAL, 1 - chance, chance)
        asked = ORIGINAL >= 5 if everywhere else SELECTED
        torch.testing.assert_close(loss, -right[asked].log().mean())


def test_samples_come_from_the_generator() -> None:
    model = electra()
    with torch.no_grad():
        model.generator.mlm.decoder.bias[13] = 1e4  # it always says 13
    guess, _ = losses(model)
    assert guess > 1000
    read: list[torch.Tensor] = []
    model.detector.embeddings.token.register_forward_hook(
        lambda _, inputs, out: read.append(inputs[0])
    )
    losses(model)
    assert (read[0][SELECTED] == 13).all()


def test_the_generator_has_fewer_heads_of_the_same_width() -> None:
    model = Electra(replace(CONFIG, num_attention_heads=4), generator_size=8)
    assert model.generator.config.num_attention_heads == 2


def test_a_one_way_config_is_refused() -> None:
    with pytest.raises(ValueError, match="ELECTRA needs 'bidirectional'"):
        Electra(BertConfig(20, 16, 1, 2, 32, direction="right-to-left"), 8)
