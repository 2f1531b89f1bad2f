"""Masks, heads, weights, and who sees whom."""

import dataclasses

import model_checks as checks
import pytest
import torch
from model_checks import CONFIG, assert_close, make_model, sample

from bertedu.model.attention import SelfAttention, attention_mask, scaled_dot_product_attention
from bertedu.model.config import DIRECTIONS, Direction


@pytest.mark.parametrize(
    "check",
    [
        checks.check_attention_by_hand,
        checks.check_rows_sum_to_one,
        checks.check_explicit_equals_fast,
        checks.check_padding_further,
        checks.check_padding_ids_ignored,
    ],
)
def test_attention(check: checks.Check) -> None:
    check(make_model)


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_a_changed_token_moves_only_what_may_see_it(direction: Direction, norm: str) -> None:
    checks.check_leaks(
        lambda config: make_model(dataclasses.replace(config, norm=norm)), (direction,)
    )


def test_the_leak_check_tells_the_directions_apart() -> None:
    """A model of one direction fails the leak test of every other."""
    for built in DIRECTIONS:
        for claimed in DIRECTIONS:
            if built != claimed:
                with pytest.raises(AssertionError, match=f"{claimed}, token . changed"):
                    checks.check_leaks(
                        lambda config, built=built: make_model(
                            dataclasses.replace(config, direction=built)
                        ),
                        (claimed,),
                    )


def test_masks_by_hand() -> None:
    padding = torch.tensor([[True, True, False], [True, True, True]])
    both = attention_mask(padding, "bidirectional")
    assert both is not None
    assert both.tolist() == [[[[True, True, False]]], [[[True, True, True]]]]
    left = attention_mask(padding, "left-to-right")
    assert left is not None
    assert left.int().tolist() == [
        [[[1, 0, 0], [1, 1, 0], [1, 1, 0]]],
        [[[1, 0, 0], [1, 1, 0], [1, 1, 1]]],
    ]
    right = attention_mask(padding, "right-to-left")
    assert right is not None
    assert right.int().tolist() == [
        [[[1, 1, 0], [0, 1, 0], [0, 0, 0]]],
        [[[1, 1, 1], [0, 1, 1], [0, 0, 1]]],
    ]


def test_no_mask_where_nothing_is_hidden() -> None:
    full = torch.ones(2, 3, dtype=torch.bool)
    assert attention_mask(full, "bidirectional") is None
    assert attention_mask(full, "left-to-right") is not None


def test_two_tokens_by_eye() -> None:
    """Equal scores share equally; a score of ln 3 gets three times as much as a score of 0."""
    query = torch.tensor([[[[0.0], [1.0]]]])
    key = torch.tensor([[[[0.0], [1.0986123]]]])
    value = torch.tensor([[[[4.0], [8.0]]]])
    mixed, weights = scaled_dot_product_attention(query, key, value)
    assert_close(weights, torch.tensor([[[[0.5, 0.5], [0.25, 0.75]]]]), "weights", 1e-6)
    assert_close(mixed, torch.tensor([[[[6.0], [7.0]]]]), "mixed", 1e-6)


def test_dropout_changes_the_mixture_but_not_the_returned_weights() -> None:
    torch.manual_seed(0)
    query, key, value = torch.randn(3, 2, 4, 7, 6)
    plain, weights = scaled_dot_product_attention(query, key, value)
    dropped, same = scaled_dot_product_attention(query, key, value, dropout=0.5)
    assert torch.equal(weights, same)
    assert not torch.equal(plain, dropped)


@pytest.mark.parametrize("explicit", [False, True])
def test_both_paths_drop_weights_in_training_only(explicit: bool) -> None:
    layer = SelfAttention(dataclasses.replace(CONFIG, dropout=0.5))
    torch.manual_seed(0)
    x = torch.randn(1, 7, CONFIG.hidden_size)
    layer.train()
    assert not torch.equal(layer(x, None, explicit)[0], layer(x, None, explicit)[0])
    layer.eval()
    assert torch.equal(layer(x, None, explicit)[0], layer(x, None, explicit)[0])
    # on average, dropout leaves the mixture as it is
    layer.train()
    mean = torch.stack([layer(x, None, explicit)[0] for _ in range(1500)]).mean(0)
    assert_close(mean, layer.eval()(x, None)[0], "mean of dropped mixtures", 0.07)


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_queries_that_see_nothing_hurt_nobody(direction: Direction) -> None:
    """Right-to-left, padding behind the text sees no key at all: no NaN may come of it."""
    model = make_model(dataclasses.replace(CONFIG, direction=direction)).float().train()
    ids, segments, padding = sample()
    for explicit in (False, True):
        output = model.bert(ids, segments, padding, explicit)
        assert all(state.isfinite().all() for state in output.hidden_states)
        model.zero_grad()
        (model.mlm(output.last)[padding].logsumexp(-1).sum() + output.pooled.sum()).backward()
        for name, parameter in model.bert.named_parameters():
            assert parameter.grad is not None, name
            assert parameter.grad.isfinite().all(), name


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_gradients_of_both_paths_agree(direction: Direction) -> None:
    gradients = []
    for explicit in (False, True):
        model = make_model(dataclasses.replace(CONFIG, direction=direction))
        ids, segments, padding = sample()
        state = model.bert(ids, segments, padding, explicit).last
        (state[padding] ** 3).sum().backward()
        gradients.append([p.grad for p in model.bert.encoder.parameters()])
    for fast, slow in zip(*gradients, strict=True):
        assert_close(fast, slow, "gradient", 1e-8)


def test_bfloat16_takes_the_explicit_path_and_stays_near() -> None:
    model = make_model(CONFIG).float()
    ids, segments, padding = sample()
    exact = model.bert(ids, segments, padding).last
    with torch.autocast("cpu", torch.bfloat16):
        near = model.bert(ids, segments, padding).last.float()
    difference = (near - exact)[padding].abs().mean() / exact[padding].abs().mean()
    assert 0 < difference.item() < 0.03
