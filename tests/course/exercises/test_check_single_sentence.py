"""Notebook 08: the new layer, macro F1, choosing on dev, a leak."""

from typing import Any

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, f1_score
from torch.nn import functional as F
from verdicts import assert_named, verdict

from course.exercises import check
from course.exercises.finetuning_single_sentence import PlayModel, right_leaked


def sk_f1(true: Any, found: Any, classes: int, **how: Any) -> Any:
    how = {"labels": range(classes), "average": "macro", "zero_division": 0, **how}
    return f1_score(true, found, **how)


def leaks(train: list[str], test: list[str], plain: Any) -> list[int]:
    known = [plain(text) for text in train]
    return [place for place in range(len(test)) if plain(test[place]) in known]


RIGHT: list[tuple[str, Any]] = [
    ("class_shares", lambda c, w, b: F.linear(c, w, b).softmax(1)),
    ("class_shares", lambda c, w, b: [F.softmax(w @ row + b, 0).tolist() for row in c]),
    ("macro_f1", sk_f1),
    ("choose", lambda dev, test: (dev.index(max(dev)), test[np.argmax(dev)])),
    ("leaked", lambda train, test: set(right_leaked(train, test))),
]
WRONG: list[tuple[str, Any, str]] = [
    ("class_shares", F.linear, "they do not sum to 1"),
    ("class_shares", lambda c, w, b: F.linear(c, w).softmax(1), "the bias is forgotten"),
    ("class_shares", lambda c, w, b: w @ c.T, "has shape"),
    ("macro_f1", lambda true, found, _: accuracy_score(true, found), "this is accuracy"),
    ("macro_f1", lambda *rows: sk_f1(*rows, labels=None), "neither in true nor in found"),
    ("macro_f1", lambda *rows: sk_f1(*rows, labels=sorted(set(rows[0]))), "do not occur in true"),
    ("macro_f1", lambda true, found, classes: [0.5], "one number is wanted"),
    ("choose", lambda dev, test: (test.index(max(test)), max(test)), "is chosen on test"),
    ("choose", lambda dev, test: (dev.index(max(dev)), max(dev)), "its dev score is reported"),
    ("choose", lambda dev, test: max(enumerate(test), key=lambda t: (dev[t[0]], t[1])), "no say"),
    ("choose", lambda dev, test: 3, "return two things"),
    ("choose", lambda dev, test: (0.5, 0.5), "a whole number is wanted"),
    ("leaked", lambda train, test: [i for i, t in enumerate(test) if t in train], "last space"),
    ("leaked", lambda train, test: leaks(train, test, lambda t: t.lower().strip()), "at the ends"),
    ("leaked", lambda train, test: leaks(train, test, lambda t: t.strip()), "at the ends"),
    ("leaked", lambda train, test: leaks(train, test, str.split), "in other capitals get away"),
    (
        "leaked",
        lambda train, test: list(test),
        "is a str; a place",
    ),
]


@pytest.mark.parametrize(("name", "mine"), RIGHT)
def test_other_right_ways_pass(name: str, mine: Any) -> None:
    assert verdict(getattr(check, name), mine).startswith("✓")


@pytest.mark.parametrize(("name", "wrong", "text"), WRONG)
def test_a_mistake_written_in_another_way_is_named(name: str, wrong: Any, text: str) -> None:
    assert_named(getattr(check, name), name, wrong, text)


def test_the_smallest_case_of_the_message_tells_labels_in_another_order() -> None:
    small = [("two words", 0), ("one", 1)]
    said = verdict(check.accuracy_test, lambda mine: mine(PlayModel(), small, 2) == 1)
    assert said.startswith("✗")
    assert "labels in another order" not in said


def test_the_play_model_needs_eval() -> None:
    model = PlayModel()
    texts = ["one", "one two", "a b c"]
    assert model(texts) == [1, 0, 0], "the third is dropped out"
    model.eval()
    assert model(texts) == [1, 0, 1]
