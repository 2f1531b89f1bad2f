"""Packed weights: the same numbers, for answering only, and the model itself stays as it was."""

import copy
from pathlib import Path

import pytest
import torch
from model_checks import shake

from bertedu.model.bert import Bert, BertForPreTraining
from bertedu.model.checkpoints import save_checkpoint
from bertedu.model.config import BertConfig
from bertedu.model.packing import PackedLinear, pack

CONFIG = BertConfig(60, 32, 3, 4, 96, 24, dropout=0.5)
needs_onednn = pytest.mark.skipif(
    not hasattr(torch.ops.mkldnn, "_reorder_linear_weight"),
    reason="this build of PyTorch has no oneDNN: packing makes a plain copy there",
)


@pytest.fixture
def model() -> BertForPreTraining:
    torch.manual_seed(0)
    model = BertForPreTraining(CONFIG)
    shake(model)
    return model.eval()


def inputs(batch: int, size: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(size)
    ids = torch.randint(5, 60, (batch, size), generator=generator)
    real = torch.arange(size) < torch.tensor([[size], *[[max(1, size // 2)]] * (batch - 1)])
    return ids, (torch.arange(size) > size // 2).long().expand(batch, -1), real


@needs_onednn
@pytest.mark.parametrize(("batch", "size"), [(1, 1), (1, 17), (5, 24), (40, 9)])
def test_the_same_numbers(model: BertForPreTraining, batch: int, size: int) -> None:
    given = inputs(batch, size)
    packed = pack(model)
    assert sum(isinstance(module, PackedLinear) for module in packed.modules()) == 6 * 3
    with torch.no_grad():
        for one, other in zip(model(*given), packed(*given), strict=True):
            torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)
        mine, theirs = (m.bert(*given, return_attention=True).attention for m in (model, packed))
    for one, other in zip(mine, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


def test_an_encoder_alone_is_packed_too(model: BertForPreTraining) -> None:
    given = inputs(3, 12)
    with torch.no_grad():
        packed = pack(model.bert)
        assert isinstance(packed, Bert)
        torch.testing.assert_close(packed(*given).last, model.bert(*given).last)


def test_neither_changes_the_other(model: BertForPreTraining) -> None:
    given, before = inputs(2, 12), copy.deepcopy(model.state_dict())
    packed = pack(model.train())
    assert model.training
    assert not packed.training, "dropout would make it answer at random"
    with torch.no_grad():
        first = packed(*given)[0]
        for parameter in model.parameters():
            parameter.add_(1)
        assert torch.equal(packed(*given)[0], first)
    model.load_state_dict(before)
    model.eval()
    with torch.no_grad():
        torch.testing.assert_close(model(*given)[0], first, rtol=1e-5, atol=1e-5)


@needs_onednn
def test_it_cannot_be_trained(model: BertForPreTraining) -> None:
    with pytest.raises(RuntimeError, match="a packed model only answers"):
        pack(model)(*inputs(2, 12))


@needs_onednn
def test_it_cannot_be_saved_or_packed_again(model: BertForPreTraining, tmp_path: Path) -> None:
    """A checkpoint without the weights of its layers would look whole."""
    packed = pack(model)
    with pytest.raises(RuntimeError, match="save the model it was made from"):
        save_checkpoint(packed, tmp_path / "new")
    assert not (tmp_path / "new").exists()
    with pytest.raises(ValueError, match="packed already"):
        pack(packed)


def test_other_numbers_than_float32_are_refused(model: BertForPreTraining) -> None:
    with pytest.raises(ValueError, match=r"this model is torch\.float64 on cpu: model\.float"):
        pack(model.double())


def test_without_onednn_it_is_a_plain_copy(
    model: BertForPreTraining, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.ops, "mkldnn", object())
    packed = pack(model)
    assert not any(isinstance(module, PackedLinear) for module in packed.modules())
    given = inputs(2, 12)
    with torch.no_grad():
        assert torch.equal(packed(*given)[0], model(*given)[0])
