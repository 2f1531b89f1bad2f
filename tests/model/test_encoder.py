"""Layers and the stack."""

import dataclasses

import model_checks as checks
import pytest
import torch
from model_checks import CONFIG, assert_close, make_model, norm_by_hand, sample_states

from bertedu.model.encoder import FeedForward


@pytest.mark.parametrize(
    "check",
    [
        checks.check_zeroed_layer,
        checks.check_layer_by_hand,
        checks.check_gelu_is_erf,
        checks.check_permutation,
    ],
)
def test_encoder(check: checks.Check) -> None:
    check(make_model)


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_the_stack_is_its_layers_one_after_the_other(norm: str) -> None:
    encoder = make_model(dataclasses.replace(CONFIG, norm=norm)).bert.encoder
    x = sample_states()
    expected = [x]
    for layer in encoder.layers:
        expected.append(layer(expected[-1], None)[0])
    if norm == "pre":
        expected[-1] = norm_by_hand(expected[-1], encoder.final_norm)
    states, _ = encoder(x, None)
    assert len(states) == len(expected) == 4
    for ours, by_hand in zip(states, expected, strict=True):
        assert_close(ours, by_hand, f"{norm}-norm stack")


def test_feed_forward_works_on_each_token_alone() -> None:
    part = make_model(CONFIG).bert.encoder.layers[0].feed_forward
    x = sample_states()
    other = x.clone()
    other[0, 3] += 1
    expected = torch.zeros(2, 7, dtype=torch.bool)
    expected[0, 3] = True
    assert torch.equal(checks.moved(part(x), part(other)), expected)


def test_gelu_at_known_points() -> None:
    """x Φ(x) at -1, 0, 1, 2, from a table of Φ; the tanh formula differs in the fourth decimal."""
    config = dataclasses.replace(CONFIG, hidden_size=1, num_attention_heads=1, intermediate_size=1)
    part = FeedForward(config)
    for linear in (part.intermediate, part.output):
        torch.nn.init.ones_(linear.weight)
        torch.nn.init.zeros_(linear.bias)
    ours = part(torch.tensor([[-1.0], [0.0], [1.0], [2.0]]))[:, 0]
    assert_close(ours, torch.tensor([-0.15865525, 0.0, 0.84134475, 1.95449974]), "gelu", 1e-6)


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_dropout_falls_on_what_is_added(norm: str) -> None:
    """With everything dropped, a layer keeps its input (post-norm: the norm of it)."""
    config = dataclasses.replace(CONFIG, norm=norm, dropout=0.0)
    layer = make_model(config).bert.encoder.layers[0].train()
    layer.dropout.p = 1.0
    x = sample_states()
    expected = x
    if norm == "post":
        expected = norm_by_hand(norm_by_hand(x, layer.attention_norm), layer.feed_forward_norm)
    assert_close(layer(x, None)[0], expected, norm)
