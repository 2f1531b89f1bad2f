"""The exercises of notebook 12: a mix of layers, layers side by side, what moves, and a test."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from verdicts import verdict, words

from bertedu.model.elmo import ScalarMix
from course.exercises import check
from course.exercises.features_versus_finetuning import (
    TRAINABLE,
    Extract,
    play_bert,
    right_extract,
    right_trainable,
)

Function = Callable[..., Any]


def mix_by_the_package(states: Tensor, weights: Tensor, scale: float) -> Tensor:
    mix = ScalarMix(len(states))
    mix.weights.data, mix.scale.data = weights, torch.tensor(scale)
    return mix(states[:, None])[0]


def count_by_length(model: nn.Module) -> int:
    return sum(len(p.flatten()) if p.requires_grad else 0 for p in model.parameters())


def thaws(model: nn.Module) -> int:
    count = right_trainable(model)
    model.requires_grad_(True)
    return count


@pytest.mark.parametrize(
    ("name", "f"),
    [
        ("layer_mix", mix_by_the_package),
        ("layer_mix", lambda s, w, g: g * torch.tensordot(w.softmax(0), s, dims=1)),
        ("concat_layers", lambda h, n: torch.cat(list(h), dim=-1)[:, -n * h[0].shape[-1] :]),
        ("trainable", count_by_length),
    ],
)
def test_right_answers_pass(name: str, f: Function) -> None:
    assert verdict(getattr(check, name), f).startswith(f"✓ {name}: ")


def test_counts_by_hand() -> None:
    counts = [right_trainable(model) for (model,) in TRAINABLE.cases()]
    assert counts == [9, 10, 6, 10 + 12, 21 + 7, 0]


@pytest.mark.parametrize(
    ("name", "wrong", "text"),
    [
        ("layer_mix", lambda s, w, g: g * (w[:, None, None] * s).sum(0), "they do not sum to 1"),
        ("layer_mix", lambda s, w, g: torch.tensordot(w.softmax(0), s, 1), "the scale is missing"),
        ("layer_mix", lambda s, w, g: g * s.mean(0), "cases come out wrong"),
        ("layer_mix", lambda s, w, g: s.mul_(2).sum(0), "changes states in place"),
        ("concat_layers", lambda h, n: torch.cat(h[len(h) - 1 - n : len(h) - 1], -1), "too low"),
        ("concat_layers", lambda h, n: torch.cat(list(h[-n:])), "your answer has shape"),
        ("concat_layers", lambda h, n: list(h[-n:]), "a tensor is wanted"),
        ("trainable", lambda m: sum(map(torch.numel, m.parameters())), "frozen parameters are cou"),
        ("trainable", lambda m: sum(p.requires_grad for p in m.parameters()), "number of tensors"),
        ("trainable", thaws, "counting must leave the model as it is"),
    ],
)
def test_wrong_answers_are_told_why(name: str, wrong: Function, text: str) -> None:
    for _ in range(2):  # a model that was thawed is frozen again for the next
        said = words(verdict(getattr(check, name), wrong))
        assert said.startswith(f"✗ {name}: ")
        assert text in said


# -- feature_test


def by_behavior(extract: Extract) -> bool:
    """A right test of another kind: no mean by hand, only what must and must not change."""
    bert, ids = play_bert(), torch.randint(5, 60, (1, 7))
    segments, mask = (torch.arange(7) > 2).long()[None], torch.ones(1, 7).bool()
    found = extract(bert, ids, segments, mask)
    more = torch.cat([mask, torch.zeros(1, 3).bool()], dim=1)
    longer, further = (torch.cat([x, x[:, :3]], dim=1) for x in (ids, segments))
    padded = extract(bert, longer, further, more)
    if found.requires_grad or not torch.allclose(found, padded, atol=1e-5):
        return False
    other, same = (extract(bert, ids, s, mask) for s in (1 - segments, segments))
    if torch.allclose(other, found, atol=1e-4) or not torch.allclose(same, found, atol=1e-5):
        return False
    for layer, moves in ((3, False), (2, True)):  # of layers 0 to 3, the last must not count
        for p in bert.encoder.layers[layer].parameters():
            p.data.add_(0.5 * torch.randn(p.shape))
        if torch.allclose(extract(bert, ids, segments, mask), found, atol=1e-4) == moves:
            return False
    return True


def test_a_test_by_behavior_passes() -> None:
    said = words(verdict(check.feature_test, by_behavior))
    assert said.startswith("✓ feature_test: accepts 2 right extractors, catches 6 broken ones")


def exactly(extract: Extract) -> bool:
    """Equal to the last bit, which no other way of averaging is."""
    bert, ids = play_bert(), torch.randint(5, 60, (8, 9))
    mask = torch.arange(9) < torch.tensor([[n] for n in (9, 8, 7, 6, 5, 4, 3, 7)])
    zeros = torch.zeros_like(ids)
    return torch.equal(extract(bert, ids, zeros, mask), right_extract(bert, ids, zeros, mask))


def test_too_strict_and_too_weak_tests_are_told_why() -> None:
    said = words(verdict(check.feature_test, exactly))
    assert "refuses a right extractor, one written with LayerFeatures" in said
    assert "6 of 6 broken extractors" in words(verdict(check.feature_test, lambda extract: True))
