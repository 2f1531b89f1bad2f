"""Patterns, rollout, changed weights, other attention: against loops, and what must not move."""

import dataclasses
import itertools
import math

import pytest
import torch
from torch import Tensor

from bertedu.analysis.attention_heads import (
    MEASURES,
    PATTERNS,
    another_attention,
    changed_attention,
    encoder_of,
    measure,
    rollout,
    shuffle_keys,
    spread_evenly,
    switch_off,
    total_variation,
    word_probabilities,
)
from bertedu.model.bert import BertForPreTraining
from bertedu.model.elmo import ElmoForPreTraining

TOKENS = ["[CLS]", "a", "ship", ",", "a", "?", "[SEP]"]


def random_weights(layers: int, heads: int, size: int) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return (2 * torch.randn(layers, heads, size, size, generator=generator)).softmax(-1)


# -- patterns and rollout, by loops


def test_where_heads_look_by_loops() -> None:
    weights, size = random_weights(2, 3, len(TOKENS)), len(TOKENS)
    weights[0, 0] = torch.eye(size)  # what has entropy 0
    expected = torch.zeros(2, 3, len(MEASURES))
    for layer, head, i, j in itertools.product(range(2), range(3), range(size), range(size)):
        goes_to = {
            "[CLS]": TOKENS[j] == "[CLS]",
            "[SEP]": TOKENS[j] == "[SEP]",
            "previous": j == i - 1,
            "next": j == i + 1,
            "itself": j == i,
            "same word": TOKENS[i] == TOKENS[j] and i != j,
            "punctuation": TOKENS[j] in (",", "?"),
        }
        w = float(weights[layer, head, i, j])
        terms = [w * goes_to[name] for name in PATTERNS]
        terms += [-w * math.log(w) if w else 0.0, w * abs(i - j)]
        expected[layer, head] += torch.tensor(terms) / size
    torch.testing.assert_close(measure(weights, TOKENS), expected)


def test_rollout_by_loops() -> None:
    weights = random_weights(3, 2, 4)
    expected = torch.eye(4)
    for layer in weights:
        step = torch.zeros(4, 4)
        for i in range(4):
            for j in range(4):
                step[i, j] = 0.5 * (layer[0, i, j] + layer[1, i, j]) / 2 + 0.5 * (i == j)
        expected = step @ expected
    torch.testing.assert_close(rollout(weights), expected)
    assert not torch.allclose(rollout(weights), rollout(weights.flip(0)))  # the order counts


# -- changed weights


def test_unchanged_weights_change_nothing_and_an_error_leaves_nothing_behind(
    model: BertForPreTraining,
) -> None:
    ids = torch.tensor([[2, 50, 60, 70, 3]])
    before = model.bert(ids, return_attention=True)
    layers = []
    with changed_attention(model, lambda layer, weights: (layers.append(layer), weights)[1]):
        inside = model.bert(ids, return_attention=True)
    assert layers == [1, 2, 3]
    torch.testing.assert_close(inside.last, before.last)
    torch.testing.assert_close(inside.attention, before.attention)
    with pytest.raises(RuntimeError), changed_attention(model, lambda layer, w: w / 0 @ w[..., 0]):
        model.bert(ids)
    change = spread_evenly(2, 0)
    with pytest.raises(ValueError, match="from 1 to 2"), changed_attention(model, change):
        model.bert(ids)
    with pytest.raises(ValueError, match="no layer 4: they count from 1 to 3"):
        changed_attention(model, switch_off(4, 1)).__enter__()
    with changed_attention(model, change), pytest.raises(ValueError, match="changed already"):
        changed_attention(model, change).__enter__()
    assert all("forward" not in vars(part) for part in model.modules())
    assert torch.equal(model.bert(ids, return_attention=True).last, before.last)


def test_a_head_that_is_off_is_one_whose_values_are_zero(model: BertForPreTraining) -> None:
    ids = torch.tensor([[2, 50, 60, 70, 3]])
    torch.manual_seed(0)
    other = BertForPreTraining(model.config).eval()
    value = other.bert.encoder.layers[1].attention.value
    with torch.no_grad():
        value.weight[8:] = 0  # head 2 of layer 2
        value.bias[8:] = 0
    with changed_attention(model, switch_off(2, 2)):
        off = model.bert(ids).hidden_states
    whole = model.bert(ids).hidden_states
    torch.testing.assert_close(off, other.bert(ids).hidden_states)
    torch.testing.assert_close(off[1], whole[1])  # below it, nothing changes
    assert not torch.allclose(off[2], whole[2])


def test_even_weights_go_to_visible_keys_only(model: BertForPreTraining) -> None:
    torch.manual_seed(0)
    one_way = BertForPreTraining(
        dataclasses.replace(model.config, direction="left-to-right")
    ).eval()
    with changed_attention(one_way, spread_evenly(2, 1)):
        found = one_way.bert(torch.tensor([[2, 50, 60, 3]]), return_attention=True).attention[1]
    expected = torch.ones(4, 4).tril() / torch.arange(1.0, 5)[:, None]
    torch.testing.assert_close(found[0, 0], expected)
    assert not torch.allclose(found[0, 1], expected)  # the other head stays


def test_shuffled_weights_are_the_same_numbers_elsewhere() -> None:
    weights = random_weights(1, 2, 8)
    dealt = shuffle_keys(3)(3, weights)
    torch.testing.assert_close(dealt.sort(-1).values, weights.sort(-1).values)
    assert not torch.allclose(dealt, weights)
    assert torch.equal(shuffle_keys(3)(2, weights), weights)


# -- gradient, and another attention with the same answer


def test_elmo_has_no_attention(model: BertForPreTraining) -> None:
    elmo = ElmoForPreTraining(dataclasses.replace(model.config, vocab_size=20))
    with pytest.raises(ValueError, match="a ElmoForPreTraining has no attention"):
        encoder_of(elmo)


@pytest.mark.parametrize("layer", [1, 3])
def test_another_attention_is_far_away_and_says_the_same(
    model: BertForPreTraining, layer: int
) -> None:
    ids = torch.tensor([2, 50, 4, 70, 90, 3])
    own, new, before, after = another_attention(model, ids, 2, layer)
    torch.testing.assert_close(new.sum(-1), torch.ones(2, 6))
    moved = (own - new).clamp(min=0).sum(-1)
    torch.testing.assert_close(total_variation(own, new), moved, atol=1e-5, rtol=0)
    assert min(moved.mean(), moved[:, 2].mean()) > 0.3
    assert total_variation(before, after) < 0.1
    expected = model.bert(ids[None], return_attention=True).attention[layer - 1]
    torch.testing.assert_close(own, expected[0])
    torch.testing.assert_close(before, word_probabilities(model, ids, 2))
    torch.testing.assert_close(before, model(ids[None])[0][0, 2].softmax(-1))
    with changed_attention(model, lambda here, w: new[None] if here == layer else w):
        torch.testing.assert_close(word_probabilities(model, ids, 2), after)
    assert all(parameter.grad is None for parameter in model.parameters())
