"""Translations, pairs and their limits, and the counting of steps."""

import torch

from bertedu.model.inference import evaluating
from course.experiments.recurrence import (
    KEYS,
    SEGMENT,
    TRANSLATORS,
    draw_pairs,
    make_translator,
    score_translator,
    train_reader,
    train_translator,
    value_losses,
)
from course.experiments.toy_readers import FIRST


def test_translators_are_of_one_size_and_learn() -> None:
    sizes = [sum(p.numel() for p in make_translator(name).parameters()) for name in TRANSLATORS]
    assert max(sizes) < 1.02 * min(sizes)
    model, spent = train_translator("Transformer", 0, steps=60, longest=1)
    exact, shares = score_translator(model, 1)
    assert exact > 0.9
    assert torch.allclose(shares, torch.ones(2, 4))  # of one word
    assert spent["tokens"] == 60 * 64 * (1 + 2)
    reader = sum(p.numel() for p in model.encoder.parameters())
    writer = sum(p.numel() for part in (model.layers, model.head) for p in part.parameters())
    assert spent["operations"] == 6 * 60 * 64 * (reader + 2 * writer)


def test_what_a_reader_pays_does_not_move_with_the_value_itself() -> None:
    model, spent = train_reader(SEGMENT, 0, steps=1)
    assert spent["tokens"] % (64 * SEGMENT) == 0
    ids = draw_pairs(2, 2, torch.Generator().manual_seed(1))
    other = ids.clone()
    other[:, -1] = FIRST + KEYS + (ids[:, -1] - FIRST - KEYS + 1) % KEYS
    with evaluating(model):
        before, after = value_losses(model, ids), value_losses(model, other)
    torch.testing.assert_close(before[:, :-1], after[:, :-1])
    assert not torch.allclose(before[:, -1], after[:, -1])
