"""The checks of notebook 12: a mix of layers, layers side by side, what moves, and a test."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from verdicts import assert_named_alone, verdict, words

from bertedu.check import features_versus_finetuning as check
from bertedu.check.features_versus_finetuning import (
    FEATURE_MUSEUM,
    RIGHT_EXTRACTORS,
    TRAINABLE,
    Extract,
    play_bert,
    right_concat_layers,
    right_extract,
    right_feature_test,
    right_layer_mix,
    right_trainable,
)
from bertedu.model.bert import Bert
from bertedu.model.elmo import ScalarMix

# -- layer_mix


def mix_by_loops(states: Tensor, weights: Tensor, scale: float) -> Tensor:
    parts = [2.718281828**w for w in weights.tolist()]
    total = torch.zeros_like(states[0])
    for part, state in zip(parts, states, strict=True):
        total = total + part / sum(parts) * state
    return scale * total


def mix_by_the_package(states: Tensor, weights: Tensor, scale: float) -> Tensor:
    mix = ScalarMix(len(states))
    with torch.no_grad():
        mix.weights.copy_(weights)
        mix.scale.fill_(scale)
    return mix(states[:, None])[0]


@pytest.mark.parametrize(
    "f",
    [
        right_layer_mix,
        mix_by_loops,
        mix_by_the_package,
        lambda s, w, g: g * torch.tensordot(w.softmax(0), s, dims=1),
        lambda s, w, g: (g * (w.exp() / w.exp().sum()) @ s.flatten(1)).view(s.shape[1:]),
    ],
)
def test_right_mixes_pass(f: Callable[..., Any]) -> None:
    assert verdict(check.layer_mix, f).startswith("✓ layer_mix: 100 random cases")


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (lambda s, w, g: w @ s.flatten(1), "is wanted here"),
        (lambda s, w, g: torch.cat(list(s), dim=-1), "is wanted here"),
        (lambda s, w, g: s.mul_(2).sum(0), "changes states in place"),
        (lambda s, w, g: w.softmax(0) * s, "is wanted here"),
        (lambda s, w, g: s @ s @ w, "stopped with RuntimeError"),
        (lambda s, w, g: "sum", "a tensor is wanted"),
        (lambda s, w, g: s[0] * 7 + 1, "100 of 100 cases come out wrong"),
    ],
)
def test_other_wrong_mixes_are_described(wrong: Callable[..., Any], text: str) -> None:
    assert text in words(verdict(check.layer_mix, wrong))


# -- concat_layers


@pytest.mark.parametrize(
    "f",
    [
        right_concat_layers,
        lambda h, n: torch.cat([h[i] for i in range(len(h) - n, len(h))], dim=-1),
        lambda h, n: torch.stack(list(h[-n:]), dim=1).flatten(1),
        lambda h, n: torch.cat(list(h[len(h) - n :]), dim=1).numpy(),
        lambda h, n: torch.cat(list(h), dim=-1)[:, -n * h[0].shape[-1] :],
    ],
)
def test_right_joins_pass(f: Callable[..., Any]) -> None:
    assert verdict(check.concat_layers, f).startswith("✓ concat_layers: 14 cases")


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (lambda h, n: torch.cat(list(h[-n:]), dim=0), "one below the other, as if the text were"),
        (lambda h, n: torch.cat(list(h[-n:])), "one below the other, as if the text were"),
        (lambda h, n: torch.stack(list(h[-n:])), "torch.stack makes a new axis"),
        (lambda h, n: torch.stack(list(h[-n:]), dim=-1), "torch.stack makes a new axis"),
        (lambda h, n: sum(h[-n:]), "A sum or a mean cannot be taken apart again"),
        (lambda h, n: h[-n], "as many numbers a token as one layer"),
        (lambda h, n: list(h[-n:]), "a list of"),
        (lambda h, n: torch.cat(list(h), dim=-1), "is wanted here"),
        (lambda h, n: torch.cat(h[-n:] + [h[0]], dim=-1), "is wanted here"),
    ],
)
def test_wrong_shapes_are_told_what_they_mean(wrong: Callable[..., Any], text: str) -> None:
    said = words(verdict(check.concat_layers, wrong))
    assert said.startswith("✗ concat_layers: ")
    assert text in said


# -- trainable


def count_by_loop(model: nn.Module) -> int:
    total = 0
    for parameter in model.parameters():
        if parameter.requires_grad:
            size = 1
            for side in parameter.shape:
                size *= side
            total += size
    return total


@pytest.mark.parametrize(
    "f",
    [
        right_trainable,
        count_by_loop,
        lambda m: sum(torch.tensor(p.nelement()) for p in m.parameters() if p.requires_grad),
        lambda m: float(sum(p.flatten().shape[0] for p in m.parameters() if p.requires_grad)),
    ],
)
def test_right_counts_pass(f: Callable[..., Any]) -> None:
    assert verdict(check.trainable, f).startswith("✓ trainable: 7 models")


def test_counts_by_hand() -> None:
    counts = [right_trainable(model) for (model,) in TRAINABLE.cases()]
    assert counts == [9, 10, 6, 10 + 12, 21 + 7, 0, 4 * 3 * (4 + 3 + 2) + 20]


def thaws(model: nn.Module) -> int:
    model.requires_grad_(True)
    return right_trainable(model)


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (thaws, "whoever counts must leave the model as it is"),
        (lambda m: [p.numel() for p in m.parameters()], "one number is wanted"),
        (lambda m: str(right_trainable(m)), "one number is wanted"),
        (lambda m: m.weight.numel(), "stopped with AttributeError"),
        (lambda m: right_trainable(m) + 1, "7 of 7 cases come out wrong"),
    ],
)
def test_other_wrong_counts_are_described(wrong: Callable[..., Any], text: str) -> None:
    said = words(verdict(check.trainable, wrong))
    assert said.startswith("✗ trainable: ")
    assert text in said


def test_a_model_that_was_thawed_is_frozen_again_for_the_next() -> None:
    verdict(check.trainable, thaws)
    assert verdict(check.trainable, right_trainable).startswith("✓")


# -- feature_test


def by_behavior(extract: Extract) -> bool:
    """A right test of another kind: no mean by hand, only what must and must not change."""
    bert, ids = play_bert(), torch.randint(5, 60, (1, 7))
    segments, mask = (torch.arange(7) > 2).long()[None], torch.ones(1, 7).bool()
    found = extract(bert, ids, segments, mask)
    longer = extract(
        bert,
        torch.cat([ids, ids[:, :3]], dim=1),
        torch.cat([segments, segments[:, :3]], dim=1),
        torch.cat([mask, torch.zeros(1, 3).bool()], dim=1),
    )
    if found.requires_grad or not torch.allclose(found, longer, atol=1e-5):
        return False
    if torch.allclose(extract(bert, ids, 1 - segments, mask), found, atol=1e-4):
        return False
    if not torch.allclose(extract(bert, ids, segments, mask), found, atol=1e-5):
        return False
    with torch.no_grad():
        for layer, moves in ((3, False), (2, True)):  # of layers 0 to 3, the last must not count
            for p in bert.encoder.layers[layer].parameters():
                p.add_(0.5 * torch.randn(p.shape))
            now = extract(bert, ids, segments, mask)
            if torch.allclose(now, found, atol=1e-4) == moves:
                return False
    return True


@pytest.mark.parametrize("t", [right_feature_test, by_behavior])
def test_good_feature_tests_pass(t: Callable[[Extract], bool]) -> None:
    said = words(verdict(check.feature_test, t))
    assert said.startswith(
        "✓ feature_test: accepts 2 right extractors, catches 9 broken ones (drop"
    )


def test_the_museum_is_as_described() -> None:
    torch.manual_seed(0)
    bert = play_bert()
    ids = torch.randint(5, 60, (2, 9))
    segments = (torch.arange(9) > 3).long().expand(2, -1)
    mask = torch.arange(9) < torch.tensor([[9], [6]])
    right = right_extract(bert, ids, segments, mask)
    for _, extract in RIGHT_EXTRACTORS:
        torch.testing.assert_close(extract(play_like(bert), ids, segments, mask), right)
    for exhibit in FEATURE_MUSEUM:
        found = exhibit.broken(play_like(bert), ids, segments, mask)
        assert found.shape == right.shape, "each passes a shape test"
        if exhibit.seen == "a gradient into the frozen model":
            assert found.requires_grad
            assert torch.allclose(found, right, atol=1e-5)
        else:
            assert not found.requires_grad
            assert not torch.allclose(found, right, atol=1e-3), exhibit.seen


def play_like(bert: Bert) -> Bert:
    copy = play_bert()
    copy.load_state_dict(bert.state_dict())
    return copy


@pytest.mark.parametrize("exhibit", FEATURE_MUSEUM, ids=[e.seen for e in FEATURE_MUSEUM])
def test_each_extractor_that_gets_past_is_named_alone(exhibit: Any) -> None:
    assert_named_alone(
        check.feature_test,
        lambda f: f is exhibit.broken or right_feature_test(f),
        "feature_test: 1 of 9 broken extractors got past your test.",
        exhibit,
    )


def shape_only(extract: Extract) -> bool:
    ids = torch.randint(5, 60, (2, 9))
    ones = torch.ones_like(ids)
    return extract(play_bert(), ids, ones - 1, ones.bool()).shape == (2, 16)


def exactly(extract: Extract) -> bool:
    """Equal to the last bit, which no other way of averaging is."""
    bert = play_bert()
    ids = torch.randint(5, 60, (8, 9))
    mask = torch.arange(9) < torch.tensor([[n] for n in (9, 8, 7, 6, 5, 4, 3, 7)])
    zeros = torch.zeros_like(ids)
    return torch.equal(extract(bert, ids, zeros, mask), right_extract(bert, ids, zeros, mask))


@pytest.mark.parametrize(
    ("t", "text"),
    [
        (lambda extract: True, "9 of 9 broken extractors got past your test"),
        (shape_only, "9 of 9 broken extractors got past your test"),
        (lambda extract: False, "refuses every extractor, right ones included"),
        (exactly, "refuses a right extractor, one written with LayerFeatures"),
        (lambda extract: extract(1), "stopped with TypeError"),
        (lambda extract: "right", "True or False is wanted"),
    ],
)
def test_weak_feature_tests_are_told_why(t: Callable[..., Any], text: str) -> None:
    said = words(verdict(check.feature_test, t))
    assert said.startswith("✗ feature_test: ")
    assert text in said
