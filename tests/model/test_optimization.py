"""AdamW and Muon, their schedule, and one step of them."""

import copy
from typing import Any

import pytest
import torch
from torch import nn

from bertedu.model.bert import BertForPreTraining
from bertedu.optimization import (
    MuonAndAdamW,
    descend,
    layer_matrices,
    make_optimizer,
    scheduled_rate,
)


def test_the_rate_rises_and_falls_in_straight_lines() -> None:
    rates = {0: 0.05, 4: 0.25, 9: 0.5, 10: 0.5, 55: 0.25, 99: 0.5 / 90, 100: 0}
    for step, rate in rates.items():  # the first step moves, too
        assert scheduled_rate(step, 100, 0.5, 0.1) == pytest.approx(rate)
    for step in (4_999, 505_000):  # the paper's
        assert scheduled_rate(step, 1_000_000, 1e-4, 0.01) == pytest.approx(5e-5)
    assert scheduled_rate(0, 1, 1e-3, 0.02) > 0


@pytest.mark.parametrize("make", [make_optimizer, MuonAndAdamW])
def test_only_matrices_decay_and_those_of_muon_by_its_own_rate(
    model: BertForPreTraining, make: Any
) -> None:
    model = BertForPreTraining(model.config)
    model.nsp.classifier.weight.requires_grad = False
    optimizer = make(model, 0.1)
    assert {group.get("betas", (0.9, 0.999)) for group in optimizer.param_groups} == {(0.9, 0.999)}
    optimizer.load_state_dict(optimizer.state_dict())  # makes its groups anew
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    zero = sum((p * 0).sum() for p in model.parameters())
    descend(model.parameters(), optimizer, torch.as_tensor(zero), 0.5, 1.0)
    inside = {id(p) for p in layer_matrices(model)} if make is MuonAndAdamW else set()
    for name, p in model.named_parameters():
        still = name.endswith("bias") or "norm" in name or name == "nsp.classifier.weight"
        decay = 0.0 if still else 0.05 * 3 if id(p) in inside else 0.05
        assert torch.allclose(p, (1 - decay) * before[name]), name


def test_a_step_is_that_of_torch_with_a_gradient_no_longer_than_asked() -> None:
    torch.manual_seed(0)
    layer, twin = nn.Linear(3, 2), nn.Linear(3, 2)
    twin.load_state_dict(layer.state_dict())
    ours, theirs = make_optimizer(layer, 0.1), make_optimizer(twin, 0.1)
    for step, clip in enumerate((0.5, 100.0)):
        x = torch.randn(4, 3)
        loss = 10 * layer(x).square().mean()
        norm = descend(layer.parameters(), ours, loss, 0.01 * (step + 1), clip)
        twin.zero_grad()
        (10 * twin(x).square().mean()).backward()
        whole = torch.cat([p.grad.flatten() for p in twin.parameters() if p.grad is not None])
        assert norm.item() == pytest.approx(whole.norm().item(), rel=1e-5)
        for p in twin.parameters():
            assert p.grad is not None
            p.grad *= min(1.0, clip / whole.norm().item())
        for group in theirs.param_groups:
            group["lr"] = 0.01 * (step + 1)
        theirs.step()
        torch.testing.assert_close([*layer.parameters()], [*twin.parameters()])


def test_muon_moves_the_layers_matrices_every_way_alike_and_adamw_all_else(
    model: BertForPreTraining,
) -> None:
    model, twin = copy.deepcopy(model), copy.deepcopy(model)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    inside = {id(p) for p in layer_matrices(model)}
    torch.manual_seed(0)
    for p, other in zip(model.parameters(), twin.parameters(), strict=True):
        p.grad = torch.randn_like(p)
        if p.ndim == 2:  # one way is a hundred times as steep as the others
            p.grad += 30 * p.grad[:, :1] * p.grad[:1]
        other.grad = p.grad.clone()
    for one, make in ((model, MuonAndAdamW), (twin, make_optimizer)):
        optimizer = make(one, 0.0)
        for group in optimizer.param_groups:
            group["lr"] = 0.01 * group.get("times", 1.0)
        optimizer.step()
    for (name, p), other in zip(model.named_parameters(), twin.parameters(), strict=True):
        assert (id(p) in inside) == ("layers." in name and p.ndim == 2)
        if id(p) not in inside:
            assert torch.equal(p, other), name
            continue
        values, theirs = (torch.linalg.svdvals(x - before[name]).detach() for x in (p, other))
        assert values.median() > 0.6 * values[0], name
        assert theirs.median() < 0.3 * theirs[0], name
        # a root mean square of 0.2, as AdamW's updates usually have (Liu et al. 2025, 2.2)
        size = values.norm() / p.numel() ** 0.5
        assert size == pytest.approx(0.2 * 0.01 * 3, rel=0.3)
