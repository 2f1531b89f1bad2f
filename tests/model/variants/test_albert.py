"""ALBERT. The bug people make: layers that are copied, or only start out alike, and then part."""

import copy
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from bertedu.model.bert import BertForPreTraining
from bertedu.model.config import BertConfig, count_parameters
from bertedu.model.variants.albert import albert

CONFIG = BertConfig(50, 16, 3, 2, 32, 12, dropout=0.0, initializer_range=0.3)
IDS = torch.randint(5, 50, (2, 8), generator=torch.Generator().manual_seed(1))
SELECTED = torch.rand(2, 8, generator=torch.Generator().manual_seed(2)) < 0.4


def loss_of(model: BertForPreTraining) -> Tensor:
    words, follows = model(IDS, selected=SELECTED)
    return nn.functional.cross_entropy(words, IDS[SELECTED]) + follows[:, 0].sum()


def unrolled(model: BertForPreTraining) -> BertForPreTraining:
    """The same network with a copy of the layer at each depth: what ALBERT must not be."""
    other = BertForPreTraining(CONFIG)
    for name in ("embeddings", "pooler"):
        setattr(other.bert, name, copy.deepcopy(getattr(model.bert, name)))
    other.mlm, other.nsp = copy.deepcopy(model.mlm), copy.deepcopy(model.nsp)
    other.mlm.decoder.weight = other.bert.embeddings.token.weight
    for depth, layer in enumerate(model.bert.encoder.layers):
        other.bert.encoder.layers[depth] = copy.deepcopy(layer.layer)  # type: ignore[arg-type]
    return other


def test_the_gradient_of_the_shared_layer_is_the_sum_over_all_depths() -> None:
    torch.manual_seed(0)
    model = albert(CONFIG)
    copies = unrolled(model)
    ours, theirs = loss_of(model), loss_of(copies)
    assert torch.allclose(ours, theirs, atol=1e-6)
    ours.backward()  # type: ignore[no-untyped-call]
    theirs.backward()  # type: ignore[no-untyped-call]
    layers = [dict(layer.named_parameters()) for layer in copies.bert.encoder.layers]
    shared = dict(model.bert.encoder.layers[0].layer.named_parameters())  # type: ignore[union-attr,operator]
    assert set(shared) == set(layers[0])
    for name, weight in shared.items():
        each = [layer[name].grad for layer in layers]
        total = sum(grad for grad in each if grad is not None)
        assert torch.allclose(weight.grad, total, rtol=1e-3, atol=1e-5), name
    # and it is not the gradient of one depth: the depths disagree
    weight = shared["feed_forward.output.weight"].grad
    assert all(
        not torch.allclose(weight, layer["feed_forward.output.weight"].grad, rtol=0.1)
        for layer in layers
    )


def test_after_a_step_every_depth_still_is_the_same_layer() -> None:
    torch.manual_seed(0)
    model = albert(CONFIG)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    loss_of(model).backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    states = [
        {name: w.detach().clone() for name, w in layer.named_parameters()}
        for layer in model.bert.encoder.layers
    ]
    assert all(torch.equal(s[name], states[0][name]) for s in states for name in s)


@pytest.mark.parametrize("share", [True, False])
@pytest.mark.parametrize("size", [4, 16, None])
def test_the_weights_are_as_many_as_the_arithmetic_says(size: int | None, share: bool) -> None:
    model = albert(CONFIG, size, share_layers=share)
    counted = count_parameters(CONFIG)
    if share:
        counted["encoder"] //= 3
    if size == 4:
        rows = 50 + 12 + 2
        counted["embeddings"] = rows * 4 + 2 * 4 + (4 * 16 + 16)
        counted["mlm"] = (16 * 4 + 4) + 2 * 4 + 50
    assert sum(p.numel() for p in model.parameters()) == sum(counted.values())


def test_what_is_not_shared_and_as_wide_is_bert_itself() -> None:
    torch.manual_seed(3)
    model = albert(CONFIG, share_layers=False)
    torch.manual_seed(3)
    bert = BertForPreTraining(CONFIG)
    assert torch.equal(model(IDS)[0], bert(IDS)[0])


def test_narrow_tables_are_one_table_at_both_ends() -> None:
    torch.manual_seed(4)
    model = albert(CONFIG, 4)
    assert model.decoder.weight is model.bert.embeddings.token.weight
    words, _ = model(IDS)
    assert words.shape == (2, 8, 50)
    assert torch.linalg.matrix_rank(words.detach().flatten(0, 1)) <= 5  # 4 numbers, and a bias
    assert torch.allclose(model(IDS, selected=SELECTED)[0], words[SELECTED], atol=1e-5)
    # the way back begins like every other map, and its norm has the config's epsilon
    assert not model.mlm.transform.bias.any()
    assert 0.2 < model.mlm.transform.weight.std() < 0.4
    norm, row = (
        albert(replace(CONFIG, layer_norm_eps=3.0), 4).mlm.norm,
        torch.tensor([1, -1, 1, -1]),
    )
    torch.testing.assert_close(norm(row.float()), row / 2)  # √(1 + 3)


@pytest.mark.parametrize("size", [0, -1, 17])
def test_tables_that_save_nothing_are_refused(size: int) -> None:
    with pytest.raises(ValueError, match=rf"embedding_size {size} should be from 1 to .* 16"):
        albert(CONFIG, size)
