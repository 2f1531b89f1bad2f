"""The whole model: tied, trained, selected; and what it says to wrong input."""

import dataclasses
from typing import Any

import model_checks as checks
import pytest
import torch
from model_checks import CONFIG, assert_close, make_model, sample

from bertedu.model.bert import Bert, BertForPreTraining
from bertedu.model.config import BertConfig


@pytest.mark.parametrize(
    "check",
    [
        checks.check_shapes,
        checks.check_decoder_tied,
        checks.check_parameters,
        checks.check_selected,
        checks.check_mlm_counts_selected,
        checks.check_nsp_of_one_kind,
    ],
)
def test_bert(check: checks.Check) -> None:
    check(make_model)


def test_left_out_inputs_are_one_segment_and_no_padding() -> None:
    model, (ids, _, _) = make_model(CONFIG), sample()
    full = torch.ones_like(ids, dtype=torch.bool)
    for ours, expected in zip(model(ids), model(ids, torch.zeros_like(ids), full), strict=True):
        assert_close(ours, expected, "defaults")


def test_a_mask_of_ones_and_zeros_is_as_good_as_a_bool_one() -> None:
    """Hugging Face's tokenizers give integers."""
    model, (ids, segments, padding) = make_model(CONFIG), sample()
    for kind in (torch.long, torch.float32):
        after = model(ids, segments, padding.to(kind))
        for ours, expected in zip(after, model(ids, segments, padding), strict=True):
            assert torch.equal(ours, expected)


def test_rows_do_not_see_each_other() -> None:
    model, (ids, segments, padding) = make_model(CONFIG), sample()
    before = model(ids, segments, padding)
    ids[1, 1] = 1 + ids[1, 1] % 36
    after = model(ids, segments, padding)
    for old, new in zip(before, after, strict=True):
        changed = [not torch.equal(old[row], new[row]) for row in range(3)]
        assert changed == [False, True, False]


def test_fresh_weights_follow_the_config() -> None:
    """Normal with the config's spread; biases 0; norms 1 and 0. Scores start near chance."""
    torch.manual_seed(0)
    config = BertConfig(2000, 128, 2, 2, 256, initializer_range=0.05)
    model = BertForPreTraining(config)
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            assert bool((parameter == 0).all()), name
        elif "norm" in name:
            assert bool((parameter == 1).all()), name
        else:
            assert parameter.std().item() == pytest.approx(0.05, rel=0.15), name
            assert abs(parameter.mean().item()) < 0.01, name


def test_two_seeds_two_models_one_seed_one_model() -> None:
    def first_weight(seed: int) -> torch.Tensor:
        torch.manual_seed(seed)
        return Bert(CONFIG).encoder.layers[0].attention.query.weight

    assert torch.equal(first_weight(1), first_weight(1))
    assert not torch.equal(first_weight(1), first_weight(2))


def test_layers_do_not_share_weights() -> None:
    layers = make_model(CONFIG).bert.encoder.layers
    pointers = {p.data_ptr() for layer in layers for p in layer.parameters()}
    assert len(pointers) == sum(len(list(layer.parameters())) for layer in layers)


IDS = torch.arange(1, 13).view(2, 6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((IDS[0],), r"ids must be \(batch, length\), not \(6,\)"),
        ((IDS[None],), r"ids must be \(batch, length\), not \(1, 2, 6\)"),
        ((IDS[:, :0],), r"not \(2, 0\)"),
        ((IDS.float(),), r"ids must be whole numbers, not torch.float32"),
        ((torch.ones(1, 17, dtype=torch.long),), "has 17 tokens; there are position embeddings"),
        ((IDS + 25,), "token id 37 is outside 0 to 36"),
        ((IDS - 2,), "token id -1 is outside 0 to 36"),
        ((IDS, torch.full_like(IDS, 2)), "segment id 2 is outside 0 to 1"),
        ((IDS, torch.full_like(IDS, -1)), "segment id -1 is outside 0 to 1"),
        ((IDS, IDS[:, :3]), r"segment_ids is \(2, 3\), ids is \(2, 6\)"),
        ((IDS, None, torch.ones(2, 5)), r"padding_mask is \(2, 5\), ids is \(2, 6\)"),
        ((IDS, None, torch.ones(2, 1, 6)), r"padding_mask is \(2, 1, 6\)"),
        ((IDS, None, torch.tensor([[1] * 6, [0] * 6])), "row 1 holds nothing but padding"),
        ((IDS, None, None, torch.ones(2, 5).bool()), r"selected must be bool \(2, 6\)"),
        ((IDS, None, None, torch.ones(2, 6).long()), "selected must be bool .* not torch.int64"),
    ],
)
def test_wrong_input_is_named(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_model(CONFIG)(*arguments)


def test_512_tokens_pass_and_513_do_not() -> None:
    model = Bert(dataclasses.replace(CONFIG, max_position_embeddings=512)).eval()
    with torch.no_grad():
        assert model(torch.ones(1, 512, dtype=torch.long)).last.isfinite().all()
    with pytest.raises(ValueError, match=r"has 513 tokens.*for 512\. Truncate it, or cut it"):
        model(torch.ones(1, 513, dtype=torch.long))


def test_every_id_of_the_vocabulary_is_accepted() -> None:
    model = make_model(CONFIG)
    assert model(torch.tensor([[0, 36]]), torch.tensor([[0, 1]]))[0].isfinite().all()
