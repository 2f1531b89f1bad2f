"""Translations, pairs and their limits, and the counting of steps."""

import math

import pytest
import torch

from bertedu.model.inference import evaluating
from bertedu.text.tokenization import CLS_ID, PAD_ID, SEP_ID
from course.experiments.recurrence import (
    KEYS,
    PAIRS,
    SEGMENT,
    TRANSLATORS,
    WORDS,
    draw_pairs,
    draw_translations,
    make_translator,
    recall_limit,
    score_translator,
    steps_in_a_row,
    train_reader,
    train_translator,
    value_losses,
)
from course.experiments.toy_readers import FIRST
from course.results.pictures import committed


def test_a_target_is_the_source_turned_around_in_other_words() -> None:
    sources, targets = draw_translations(200, 1, 6, torch.Generator().manual_seed(0))
    dictionary: dict[int, int] = {}
    for source, target in zip(sources.tolist(), targets.tolist(), strict=True):
        words = [w for w in source if w != PAD_ID]
        padding = [PAD_ID] * (6 - len(words))
        assert source == words + padding
        assert target[0] == CLS_ID
        assert target[len(words) + 1 :] == [SEP_ID, *padding]
        for word, other in zip(words, reversed(target[1 : len(words) + 1]), strict=True):
            assert dictionary.setdefault(word, other) == other
    assert set(dictionary) == set(range(FIRST, FIRST + WORDS))
    assert set(dictionary.values()) == set(range(FIRST + WORDS, FIRST + 2 * WORDS))


@pytest.mark.parametrize("memory", [0, SEGMENT])
def test_the_limit_is_what_a_reader_by_heart_pays(memory: int) -> None:
    """Who writes down all pairs that it has seen, and guesses among all values otherwise."""
    ids = draw_pairs(3000, 2, torch.Generator().manual_seed(0)).view(3000, 2, PAIRS, 2).tolist()
    paid = torch.zeros(PAIRS)
    for first, second in ids:
        known = dict(first) if memory else {}
        for pair, (key, value) in enumerate(second):
            paid[pair] += 0 if key in known else math.log(KEYS)
            assert known.setdefault(key, value) == value
    limits = torch.tensor([recall_limit(pair, 1, memory) for pair in range(PAIRS)])
    torch.testing.assert_close(paid / 3000, limits, atol=0.06, rtol=0)


def test_the_steps_of_a_recurrence_grow_with_the_length_and_those_of_attention_do_not() -> None:
    x = torch.ones((), requires_grad=True)
    assert steps_in_a_row(x.exp().sin() + x.cos()) == 4  # add, sin, exp, and where x is written
    whole, gru = (
        [steps_in_a_row(make_translator(name).encode(torch.full((2, n), FIRST))) for n in (3, 6)]
        for name in TRANSLATORS
    )
    assert whole[0] == whole[1]
    assert gru[1] > 1.7 * gru[0]


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


def test_the_committed_runs_keep_to_their_limits() -> None:
    for row in committed("recurrence", experiment="memory"):
        limit = recall_limit(int(row["pair"]) - 1, 1, int(row["model"].split()[1]))
        assert float(row["limit"]) == round(limit, 4)
        assert float(row["loss"]) > limit - 0.1  # of 1,000 texts
