"""The exercises of notebook 11: targets of pieces, the head, entities, their F1, and a test."""

import random
from collections.abc import Callable
from itertools import chain
from typing import Any

import pytest
import torch
from seqeval.metrics import f1_score
from seqeval.scheme import IOB2
from torch import Tensor
from verdicts import verdict, words

from bertedu.finetuning import tagging
from bertedu.finetuning.examples import Tagged
from bertedu.finetuning.tagging import Tagging
from bertedu.model.heads import TaggingHead
from bertedu.text.fast_tokenizer import load_tokenizer
from course.exercises import check
from course.exercises.finetuning_tagging import (
    ALL_TAGS,
    TAGGING_TEST,
    right_align,
    right_entities,
    right_entity_f1,
    right_tag_shares,
)
from course.exercises.museum import exhibits


def test_the_reference_places_targets_as_the_package_does() -> None:
    tags = ("O", "B-PLACE", "I-PLACE", "B-PERSON", "I-PERSON", "B-LIFE", "I-LIFE")
    sentence = ("Unbelievably", "Mira", "\u200b\u200e", "Okonjo", "left", "Antananarivo", ".")
    truth = ("O", "B-PERSON", "O", "I-PERSON", "O", "B-PLACE", "O")
    (item,) = Tagging(tags).encode([Tagged(sentence, truth)], load_tokenizer(), 128)
    assert right_align(item.rows[0].word_ids, [tags.index(tag) for tag in truth]) == item.target


def test_the_reference_is_the_packages_head() -> None:
    torch.manual_seed(0)
    head = TaggingHead(6, 4, 0.0).eval()
    hidden = torch.randn(3, 6)
    ours = right_tag_shares(hidden, head.classifier.weight, head.classifier.bias)
    torch.testing.assert_close(ours, head(hidden[None])[0].softmax(-1))


def test_the_reference_reads_as_seqeval_does() -> None:
    dice = random.Random(1)
    for _ in range(300):
        tags = dice.choices(ALL_TAGS, k=dice.randint(1, 9))
        assert set(right_entities(tags)) == tagging.entities(tags)


# -- right in other ways


def align_by_dict(word_ids: list[int | None], tags: list[int]) -> list[int]:
    targets, places = [-100] * len(word_ids), {}
    for place, word in enumerate(word_ids):
        if word is not None:
            places.setdefault(word, place)
    for word, place in places.items():
        targets[place] = tags[word]
    return targets


def align_by_set(word_ids: list[int | None], tags: list[int]) -> Tensor:
    seen, targets = {None}, []
    while word_ids:  # a list of one's own may be used up
        word = word_ids.pop(0)
        targets.append(-100 if word in seen else tags[word])  # type: ignore[index]
        seen.add(word)
    return torch.tensor(targets)


def shares_by_loop(hidden: Tensor, weight: Tensor, bias: Tensor) -> list[list[float]]:
    rows = []
    for h in hidden:
        powers = [torch.exp(w @ h + b) for w, b in zip(weight, bias, strict=True)]
        rows.append([float(p / sum(powers)) for p in powers])
    return rows


def entities_by_slices(tags: list[str]) -> set[tuple[str, int, int]]:
    found = set()
    for start, tag in enumerate(tags):
        if tag[0] == "B":
            end = start + 1
            while end < len(tags) and tags[end] == "I" + tag[1:]:
                end += 1
            found.add((tag[2:], start, end))
    tags.append("spoiled")  # only a copy
    return found


def with_seqeval(truth: list[list[str]], found: list[list[str]]) -> float:
    return float(f1_score(truth, found, mode="strict", scheme=IOB2, zero_division=0))


def f1_by_numbers(truth: list[list[str]], found: list[list[str]]) -> float:
    a, b = (
        {(n, *span) for n, tags in enumerate(some) for span in right_entities(tags)}
        for some in (truth, found)
    )
    if not a & b:
        return 0
    precision, recall = len(a & b) / len(b), len(a & b) / len(a)
    return 2 * precision * recall / (precision + recall)


@pytest.mark.parametrize(
    ("name", "f", "said"),
    [
        ("align", align_by_dict, "120 random cases"),
        ("align", align_by_set, "120 random cases"),
        ("tag_shares", shares_by_loop, "100 random cases"),
        ("tag_shares", lambda h, w, b: (h @ w.T + b).double().softmax(1).numpy(), "100 random"),
        ("entities", entities_by_slices, "180 random sentences"),
        ("entities", lambda tags: tuple(map(list, right_entities(tags)[::-1])), "180 random"),
        ("entity_f1", with_seqeval, "141 random cases"),
        ("entity_f1", f1_by_numbers, "141 random cases"),
    ],
)
def test_what_is_right_in_another_way_passes(name: str, f: Any, said: str) -> None:
    first = verdict(getattr(check, name), f)
    assert first.startswith(f"✓ {name}: {said}")
    assert first == verdict(getattr(check, name), f)  # nothing was written into our cases


# -- wrong


def in_turn(word_ids: list[int | None], tags: list[int]) -> list[int]:
    rest = iter(tags)
    return [-100 if target == -100 else next(rest) for target in align_by_dict(word_ids, tags)]


def accuracy(truth: list[list[str]], found: list[list[str]]) -> float:
    pairs = [p for a, b in zip(truth, found, strict=True) for p in zip(a, b, strict=True)]
    return sum(a == b for a, b in pairs) / len(pairs)


@pytest.mark.parametrize(
    ("name", "wrong", "text"),
    [
        ("align", lambda w, t: [-100 if i is None else t[i] for i in w], "every piece of a word"),
        ("align", lambda w, t: [max(a, 0) for a in right_align(w, t)], "later pieces get 0"),
        ("align", in_turn, "the tags are handed out in turn"),
        ("align", lambda w, t: t, "your list has length 1; 3 targets are wanted"),
        ("align", lambda w, t: ["O"] * len(w), "list is a str; a whole number is wanted"),
        ("tag_shares", lambda h, w, b: (h @ w.T + b).softmax(0), "softmax runs over the tokens"),
        ("tag_shares", lambda h, w, b: (h @ w.T + b).sigmoid(), "a sigmoid of its own"),
        ("tag_shares", lambda h, w, b: right_tag_shares(h.zero_(), w, b), "changes hidden in pl"),
        ("entities", lambda t: [s for s in right_entities(t) if s[2] < len(t)], "at the end of th"),
        ("entities", lambda t: [(a, b, k) for k, a, b in right_entities(t)], "(type, start, end)"),
        ("entities", lambda t: len(right_entities(t)), "a list or a set of (type, start, end) is"),
        ("entity_f1", accuracy, "this is the accuracy of tags"),
        ("entity_f1", lambda t, f: right_entity_f1([[*chain(*t)]], [[*chain(*f)]]), "of differ"),
        ("entity_f1", lambda t, f: sum(with_seqeval([a], [f.pop(0)]) for a in t) / len(t),
         "a mean of the F1 of each sentence"),
    ],
)  # fmt: skip
def test_each_wrong_function_gets_its_own_message(name: str, wrong: Any, text: str) -> None:
    said = words(verdict(getattr(check, name), wrong))
    assert said.startswith(f"✗ {name}: ")
    assert text in said


# -- tagging_test

ONE = ([None, 0, 1, 1, None, None], ["B-PLACE", "B-LIFE"])
GOOD = ["O", "B-PLACE", "B-LIFE", "I-LIFE", "O", "O"]


def scored(scorer: Callable[..., float], found: list[str]) -> float:
    return float(scorer([(*ONE, found)]))


def tagging_by_perturbing(scorer: Callable[..., float]) -> bool:
    """A right test of another kind: move one answer, and see whether the score moves."""
    longer = ([None, 0, 1, 2, None], ["B-LIFE", "O", "B-LIFE"], ["O", *["O"] * 3, "O"])
    return (
        scored(scorer, GOOD) == 1
        and scored(scorer, [*GOOD[:3], "O", "O", "O"]) == 1  # a later piece
        and scored(scorer, [*GOOD[:5], "B-PLACE"]) == 1  # padding
        and scorer([longer]) == 0  # accuracy would be 1/3
        and scored(scorer, ["O", "B-PERSON", *GOOD[2:]]) == 0.5  # a type
        and abs(scored(scorer, ["O", "B-PLACE", "I-LIFE", "O", "O", "O"]) - 2 / 3) < 1e-9
        and abs(scorer([(*ONE, GOOD), longer]) - 2 * 2 / (2 + 4)) < 1e-9
    )


def test_a_good_test_of_another_kind_passes() -> None:
    said = words(verdict(check.tagging_test, tagging_by_perturbing))
    assert said.startswith("✓ tagging_test: accepts 2 right scorers, catches 6 broken ones")


def test_the_museum_is_as_described() -> None:
    pieces, padding, tokens, alone, untyped, averaged = (e.wrong[0] for e in exhibits(TAGGING_TEST))
    assert scored(pieces, GOOD) == 1
    assert scored(pieces, [*GOOD[:3], "O", "O", "O"]) == 0.5
    assert scored(padding, [*GOOD[:5], "B-PLACE"]) == pytest.approx(4 / 5)
    words_of_o = ([None, 0, 1, 2, None], ["O", "B-LIFE", "O"], ["O"] * 5)
    assert tokens([words_of_o]) == pytest.approx(2 / 3)
    assert scored(alone, ["O", "B-PLACE", "I-LIFE", "O", "O", "O"]) == 1
    assert scored(untyped, ["O", "B-PERSON", *GOOD[2:]]) == 1
    assert averaged([(*ONE, GOOD), words_of_o]) == 0.5


@pytest.mark.parametrize(
    ("t", "text"),
    [
        (lambda f: scored(f, GOOD) == 1, "6 of 6 broken scorers got past"),
        (lambda f: f is TAGGING_TEST.right[0][1], "refuses a right scorer, one written with seq"),
    ],
)
def test_weak_tests_are_told_why(t: Callable[..., Any], text: str) -> None:
    said = words(verdict(check.tagging_test, t))
    assert said.startswith("✗ tagging_test: ")
    assert text in said
