"""The checks of notebook 08: the new layer, macro F1, choosing on dev, a leak, and a test."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from sklearn.metrics import f1_score
from torch.nn import functional as F
from verdicts import verdict, words

from bertedu.check import finetuning_single_sentence as check
from bertedu.check.finetuning_single_sentence import (
    ACCURACY_MUSEUM,
    CHOOSE,
    CLASS_SHARES,
    LEAKED,
    MACRO_F1,
    RIGHT_EVALUATIONS,
    PlayModel,
    right_accuracy_test,
    right_choose,
    right_class_shares,
    right_leaked,
    right_macro_f1,
)
from bertedu.model.heads import ClassificationHead

ALL = (CLASS_SHARES, MACRO_F1, CHOOSE, LEAKED)


# -- our own answers, against the library


def test_the_shares_are_those_of_the_package() -> None:
    torch.manual_seed(0)
    head = ClassificationHead(6, 4)
    c = torch.randn(3, 6)
    mine = right_class_shares(c, head.classifier.weight, head.classifier.bias)
    torch.testing.assert_close(mine, head(c).softmax(-1))


@pytest.mark.parametrize("seed", range(20))
def test_macro_f1_is_that_of_scikit_learn(seed: int) -> None:
    dice = random.Random(seed)
    classes = dice.randint(2, 5)
    true, found = ([dice.randrange(classes) for _ in range(12)] for _ in range(2))
    theirs = f1_score(true, found, labels=range(classes), average="macro", zero_division=0)
    assert right_macro_f1(true, found, classes) == pytest.approx(float(theirs))


def test_choosing_never_looks_at_test() -> None:
    dice = random.Random(5)
    for _ in range(50):
        dev = [dice.random() for _ in range(5)]
        chosen = {right_choose(dev, [dice.random() for _ in range(5)])[0] for _ in range(10)}
        assert len(chosen) == 1


def test_a_leak_by_hand() -> None:
    assert right_leaked(["A mess.", "See it."], ["see  it.", "New.", " A MESS. "]) == [0, 2]


# -- other right answers are accepted, too


def by_loops(c: Any, weight: Any, bias: Any) -> list[list[float]]:
    rows = []
    for vector in c:
        scores = torch.stack([vector @ row + b for row, b in zip(weight, bias, strict=True)])
        rows.append((scores.exp() / scores.exp().sum()).tolist())
    return rows


def f1_by_precision(true: list[int], found: list[int], classes: int) -> float:
    total = 0.0
    for k in range(classes):
        right = sum(t == k and f == k for t, f in zip(true, found, strict=True))
        if right:
            p, r = right / found.count(k), right / true.count(k)
            total += 2 * p * r / (p + r)
    return total / classes


@pytest.mark.parametrize(
    ("run", "mine"),
    [
        (check.class_shares, by_loops),
        (check.class_shares, lambda c, w, b: F.linear(c, w, b).softmax(1)),
        (check.macro_f1, f1_by_precision),
        (check.choose, lambda dev, test: (dev.index(max(dev)), test[dev.index(max(dev))])),
        (check.leaked, right_leaked),
        (check.leaked, lambda train, test: set(right_leaked(train, test))),
    ],
)
def test_other_right_ways_pass(run: Callable[[Any], None], mine: Callable[..., Any]) -> None:
    assert verdict(run, mine).startswith("✓")


@pytest.mark.parametrize(
    ("run", "mine", "said"),
    [
        (check.class_shares, lambda c, w, b: w @ c.T, "has shape"),
        (check.choose, lambda dev, test: 3, "return two things"),
        (check.choose, lambda dev, test: (0.5, 0.5), "a whole number is wanted"),
        (check.leaked, lambda train, test: [True for _ in test], "should hold places"),
        (check.leaked, lambda train, test: 1, "a list of places is wanted"),
        (check.macro_f1, lambda true, found, classes: [0.5], "one number is wanted"),
    ],
)
def test_answers_of_the_wrong_kind(
    run: Callable[[Any], None], mine: Callable[..., Any], said: str
) -> None:
    assert said in words(verdict(run, mine))


# -- the test of scoring functions


def test_our_test_accepts_the_right_and_refuses_the_museum() -> None:
    assert all(right_accuracy_test(evaluate) for _, evaluate in RIGHT_EVALUATIONS)
    for exhibit in ACCURACY_MUSEUM:
        assert not right_accuracy_test(exhibit.broken), exhibit.seen
    assert verdict(check.accuracy_test, right_accuracy_test).startswith("✓")


def test_the_play_model_needs_eval() -> None:
    model = PlayModel()
    texts = ["one", "one two", "a b c"]
    assert model(texts) == [1, 0, 0], "the third is dropped out"
    model.eval()
    assert model(texts) == [1, 0, 1]


@pytest.mark.parametrize("exhibit", ACCURACY_MUSEUM, ids=lambda e: e.seen)
def test_each_exhibit_that_slips_through_is_named(exhibit: Any) -> None:
    def blind(evaluate: Any) -> bool:
        return evaluate is exhibit.broken or right_accuracy_test(evaluate)

    said = words(verdict(check.accuracy_test, blind))
    assert f"1 of {len(ACCURACY_MUSEUM)} broken scoring functions got past" in said
    assert exhibit.seen in said
    assert words(exhibit.try_this) in said
