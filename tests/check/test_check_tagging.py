"""The checks of notebook 11: targets of pieces, the head, entities, their F1, and a test."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import chain
from typing import Any

import pytest
import torch
from seqeval.metrics import f1_score
from seqeval.scheme import IOB2
from torch import Tensor
from verdicts import assert_named_alone, verdict, words

from bertedu.check import finetuning_tagging as check
from bertedu.check.finetuning_tagging import (
    ALIGN,
    ENTITIES,
    ENTITY_F1,
    RIGHT_SCORERS,
    TAG_SHARES,
    TAGGING_MUSEUM,
    right_align,
    right_entities,
    right_entity_f1,
    right_tag_shares,
    right_tagging_test,
)
from bertedu.finetuning import tagging
from bertedu.finetuning.examples import Tagged
from bertedu.finetuning.tagging import Tagging
from bertedu.model.heads import TaggingHead
from bertedu.text.tokenization import load_tokenizer

EXERCISES = (ALIGN, TAG_SHARES, ENTITIES, ENTITY_F1)

# -- align


def test_the_reference_places_targets_as_the_package_does() -> None:
    tags = ("O", "B-PLACE", "I-PLACE", "B-PERSON", "I-PERSON", "B-LIFE", "I-LIFE")
    sentence = ("Unbelievably", "Mira", "\u200b\u200e", "Okonjo", "left", "Antananarivo", ".")
    truth = ("O", "B-PERSON", "O", "I-PERSON", "O", "B-PLACE", "O")
    (item,) = Tagging(tags).encode([Tagged(sentence, truth)], load_tokenizer(), 128)
    numbers = [tags.index(tag) for tag in truth]
    assert right_align(item.rows[0].word_ids, numbers) == item.target


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


@pytest.mark.parametrize("f", [right_align, align_by_dict, align_by_set])
def test_right_alignments_pass(f: Callable[..., Any]) -> None:
    said = verdict(check.align, f)
    assert said.startswith("✓ align: 120 random cases")
    assert said == verdict(check.align, f)  # nothing was written into our cases


PLANTED_ALIGNMENTS = [
    (lambda w, t: [-100 if i is None else t[i] for i in w], "every piece of a word carries"),
    (lambda w, t: [0 if i is None else t[i] for i in w], "every piece of a word carries"),
    (lambda w, t: align_by_dict(w[::-1], t)[::-1], "the last piece carries the tag"),
    (
        lambda w, t: [
            a if a >= 0 or i is None else 0 for a, i in zip(right_align(w, t), w, strict=True)
        ],
        "later pieces get 0, which is the tag O",
    ),
    (lambda w, t: [max(a, 0) for a in right_align(w, t)], "later pieces get 0, which is the tag O"),
    (
        lambda w, t: [
            0 if i is None else a for a, i in zip(right_align(w, t), w, strict=True)
        ],
        "[CLS], [SEP] and padding get 0",
    ),
    (lambda w, t: [max(a, -1) for a in right_align(w, t)], "another number than -100"),
    (lambda w, t: right_align(w, list(range(len(t)))), "the number of the word, not its tag"),
    (lambda w, t: right_align(w, t[-1:] + t), "the tags are one word off"),
    (lambda w, t: right_align(w, t[1:] + t[:1]), "the tags are one word off"),
    (
        lambda w, t: [
            -100 if i is None or w.count(i) > 1 else t[i] for i in w
        ],
        "words of several pieces are not asked",
    ),
    (lambda w, t: [t[i] if i and i != b else -100 for i, b in zip(w, [None, *w], strict=False)],
     "the first word is not asked"),
    (lambda w, t: t, "your list has length 1; 3 targets are wanted"),
    (lambda w, t: right_align(w, t)[1:-1], "[CLS] and [SEP] included"),
    (lambda w, t: ["O"] * len(w), "a target is a str; a whole number is wanted"),
    (lambda w, t: 3, "a list is wanted"),
    (lambda w, t: [t[i] for i in range(len(w))], "stopped with IndexError"),
    (lambda w, t: right_align(w, [0] * len(t)), "cases come out wrong"),
]  # fmt: skip


@pytest.mark.parametrize(("wrong", "text"), PLANTED_ALIGNMENTS)
def test_each_wrong_alignment_gets_its_own_message(wrong: Callable[..., Any], text: str) -> None:
    said = words(verdict(check.align, wrong))
    assert said.startswith("✗ align: ")
    assert text in said


def test_tags_handed_out_in_turn_are_found_out() -> None:
    def in_turn(word_ids: list[int | None], tags: list[int]) -> list[int]:
        number, before, targets = -1, None, []
        for word in word_ids:
            number += word is not None and word != before
            targets.append(tags[number] if word is not None and word != before else -100)
            before = word
        return targets

    assert "handed out in turn" in words(verdict(check.align, in_turn))


# -- tag_shares


def test_the_reference_is_the_packages_head() -> None:
    torch.manual_seed(0)
    head = TaggingHead(6, 4, 0.0).eval()
    hidden = torch.randn(3, 6)
    ours = right_tag_shares(hidden, head.classifier.weight, head.classifier.bias)
    torch.testing.assert_close(ours, head(hidden[None])[0].softmax(-1))


def shares_by_loop(hidden: Tensor, weight: Tensor, bias: Tensor) -> list[list[float]]:
    rows = []
    for h in hidden:
        powers = [torch.exp(w @ h + b) for w, b in zip(weight, bias, strict=True)]
        rows.append([float(p / sum(powers)) for p in powers])
    return rows


@pytest.mark.parametrize(
    "f",
    [
        right_tag_shares,
        shares_by_loop,
        lambda h, w, b: torch.nn.functional.linear(h, w, b).double().softmax(1).numpy(),
        lambda h, w, b: torch.softmax(torch.einsum("sh,kh->sk", h, w) + b, dim=1),
    ],
)
def test_right_shares_pass(f: Callable[..., Any]) -> None:
    assert verdict(check.tag_shares, f).startswith("✓ tag_shares: 100 random cases")


PLANTED_SHARES = [
    (lambda h, w, b: (h @ w.T + b).softmax(0), "softmax runs over the tokens"),
    (lambda h, w, b: h @ w.T + b, "softmax is missing"),
    (lambda h, w, b: (h @ w.T).softmax(-1), "the bias is left out"),
    (lambda h, w, b: (h @ w.T + b).sigmoid(), "a sigmoid of its own"),
    (lambda h, w, b: (h[0] @ w.T + b).softmax(-1).repeat(len(h), 1), "what the first one says"),
    (lambda h, w, b: (h.mean(0) @ w.T + b).softmax(-1).repeat(len(h), 1), "their mean"),
    (lambda h, w, b: (h @ w.T + b).log_softmax(-1), "log probabilities"),
    (lambda h, w, b: right_tag_shares(h, w, b).T, "is wanted here"),
    (lambda h, w, b: right_tag_shares(h, w, b).argmax(-1), "is wanted here"),
    (lambda h, w, b: h @ w + b, "stopped with RuntimeError"),
    (lambda h, w, b: right_tag_shares(h.zero_(), w, b), "changes hidden in place"),
]


@pytest.mark.parametrize(("wrong", "text"), PLANTED_SHARES)
def test_each_wrong_head_gets_its_own_message(wrong: Callable[..., Any], text: str) -> None:
    said = words(verdict(check.tag_shares, wrong))
    assert said.startswith("✗ tag_shares: ")
    assert text in said


# -- entities


def random_tags(dice: random.Random) -> list[str]:
    return dice.choices(check.ALL_TAGS, k=dice.randint(1, 9))


def test_the_reference_reads_as_seqeval_does() -> None:
    dice = random.Random(1)
    for _ in range(300):
        tags = random_tags(dice)
        assert set(right_entities(tags)) == tagging.entities(tags)


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


@pytest.mark.parametrize(
    "f",
    [
        right_entities,
        entities_by_slices,
        tagging.entities,
        lambda tags: sorted(right_entities(tags), reverse=True),
        lambda tags: tuple(list(span) for span in right_entities(tags)),
    ],
)
def test_right_readers_pass(f: Callable[..., Any]) -> None:
    assert verdict(check.entities, f).startswith("✓ entities: 180 random sentences")


def runs_of_tags(tags: list[str]) -> list[tuple[str, int, int]]:
    """Everything between two O is one entity, with the type it begins with."""
    found, start = [], None
    for i, tag in enumerate([*tags, "O"]):
        if tag == "O" and start is not None:
            found.append((tags[start][2:], start, i))
            start = None
        elif tag != "O" and start is None:
            start = i
    return found


def lenient(tags: list[str]) -> list[tuple[str, int, int]]:
    repaired = list(tags)
    for i, tag in enumerate(tags):
        if tag[0] == "I" and (i == 0 or tags[i - 1][2:] != tag[2:]):
            repaired[i] = "B" + tag[1:]
    return right_entities(repaired)


PLANTED_READERS = [
    (lambda t: [(k, a, b - 1) for k, a, b in right_entities(t)], "end is the last word itself"),
    (lambda t: [(k, a, b - a) for k, a, b in right_entities(t)], "the third number is the length"),
    (lenient, "an I- with nothing to go on begins an entity"),
    (runs_of_tags, "two entities side by side become one"),
    (lambda t: right_entities([*t, "B-LIFE"])[:-1], "✓"),
    (lambda t: [s for s in right_entities(t) if s[2] < len(t)], "at the end of the sentence is"),
    (lambda t: [(k, a, a + 1) for k, a, _ in right_entities(t)], "only the first word"),
    (lambda t: [(x[2:], i, i + 1) for i, x in enumerate(t) if x[0] in "BI"], "every tag is an"),
    (lambda t: [s for s in right_entities(t) if s[2] - s[1] > 1], "entities of one word are"),
    (lambda t: [(t[a], a, b) for _, a, b in right_entities(t)], "still has its B- before it"),
    (lambda t: [(k, a + 1, b + 1) for k, a, b in right_entities(t)], "counted from 1"),
    (lambda t: [(a, b, k) for k, a, b in right_entities(t)], "(type, start, end) is wanted"),
    (lambda t: [k for k, _, _ in right_entities(t)], "(type, start, end) is wanted"),
    (lambda t: len(right_entities(t)), "a list or a set of (type, start, end) is wanted"),
    (lambda t: [("PLACE", 0, 1)], "cases come out wrong"),
    (lambda t: [(k, a, t[b]) for k, a, b in right_entities(t)], "stopped with IndexError"),
]


@pytest.mark.parametrize(("wrong", "text"), PLANTED_READERS)
def test_each_wrong_reader_gets_its_own_message(wrong: Callable[..., Any], text: str) -> None:
    said = words(verdict(check.entities, wrong))
    assert text == "✓" or said.startswith("✗ entities: ")
    assert text in said


# -- entity_f1


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


@pytest.mark.parametrize("f", [right_entity_f1, with_seqeval, f1_by_numbers])
def test_right_f1s_pass(f: Callable[..., Any]) -> None:
    assert verdict(check.entity_f1, f).startswith("✓ entity_f1: 141 random cases")


def accuracy(truth: list[list[str]], found: list[list[str]]) -> float:
    pairs = [p for a, b in zip(truth, found, strict=True) for p in zip(a, b, strict=True)]
    return sum(a == b for a, b in pairs) / len(pairs)


def averaged(truth: list[list[str]], found: list[list[str]]) -> float:
    return sum(with_seqeval([a], [b]) for a, b in zip(truth, found, strict=True)) / len(truth)


def untyped(some: list[list[str]]) -> list[list[str]]:
    """Rename types only within whole entities, so that ends stay as they are."""
    return [
        [
            f"{'B' if any(s == i for _, s, _ in spans) else 'I'}-X"
            if any(s <= i < e for _, s, e in spans)
            else "O"
            for i in range(len(tags))
        ]
        for tags in some
        for spans in [right_entities(tags)]
    ]


PLANTED_F1S = [
    (accuracy, "this is the accuracy of tags"),
    (
        lambda t, f: right_entity_f1([list(chain(*t))], [list(chain(*f))]),
        "entities of different sentences",
    ),
    (averaged, "a mean of the F1 of each sentence"),
    (lambda t, f: right_entity_f1(untyped(t), untyped(f)), "types are ignored"),
    (lambda t, f: f1_by_numbers(t, f) * 100, "this is in percent"),
    (lambda t, f: f1_by_numbers(t, f) / 2, "the factor 2 is missing"),
    (lambda t, f: f1_score(t, f, zero_division=0), "an I- with nothing to go on counts"),
    (lambda t, f: f1_score(t, f, average="macro", mode="strict", scheme=IOB2, zero_division=0),
     "a mean of the F1 of each type"),
    (lambda t, f: (t, f), "one number is wanted"),
    (lambda t, f: 1 / 0, "stopped with ZeroDivisionError"),
    (lambda t, f: 0.25, "cases come out wrong"),
]  # fmt: skip


@pytest.mark.parametrize(("wrong", "text"), PLANTED_F1S)
def test_each_wrong_f1_gets_its_own_message(wrong: Callable[..., Any], text: str) -> None:
    said = words(verdict(check.entity_f1, wrong))
    assert said.startswith("✗ entity_f1: ")
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


@pytest.mark.parametrize("t", [right_tagging_test, tagging_by_perturbing])
def test_good_tests_pass(t: Callable[..., bool]) -> None:
    said = words(verdict(check.tagging_test, t))
    assert said == (
        "✓ tagging_test: accepts 2 right scorers, catches 6 broken ones (all pieces scored, "
        "padding scored, token accuracy called F1, I- after O, types ignored, F1 averaged over "
        "sentences)."
    )


def test_the_museum_is_as_described() -> None:
    broken = {exhibit.seen: exhibit.broken for exhibit in TAGGING_MUSEUM}
    for _, scorer in RIGHT_SCORERS:
        assert tagging_by_perturbing(scorer)
    for scorer in broken.values():
        assert not tagging_by_perturbing(scorer)
    assert scored(broken["all pieces scored"], GOOD) == 1
    assert scored(broken["all pieces scored"], [*GOOD[:3], "O", "O", "O"]) == 0.5
    assert scored(broken["padding scored"], [*GOOD[:5], "B-PLACE"]) == pytest.approx(4 / 5)
    nothing = ["O"] * 6
    assert scored(broken["token accuracy called F1"], nothing) == 0
    words_of_o = ([None, 0, 1, 2, None], ["O", "B-LIFE", "O"], ["O"] * 5)
    assert broken["token accuracy called F1"]([words_of_o]) == pytest.approx(2 / 3)
    assert scored(broken["I- after O"], ["O", "B-PLACE", "I-LIFE", "O", "O", "O"]) == 1
    assert scored(broken["types ignored"], ["O", "B-PERSON", *GOOD[2:]]) == 1
    assert broken["F1 averaged over sentences"]([(*ONE, GOOD), words_of_o]) == 0.5


@pytest.mark.parametrize(
    "exhibit", TAGGING_MUSEUM, ids=[exhibit.seen for exhibit in TAGGING_MUSEUM]
)
def test_each_scorer_that_gets_past_is_named_alone(exhibit: Any) -> None:
    assert_named_alone(
        check.tagging_test,
        lambda f: right_tagging_test(f) or f is exhibit.broken,
        "tagging_test: 1 of 6 broken scorers got past your test.",
        exhibit,
    )


@pytest.mark.parametrize(
    ("t", "text"),
    [
        (lambda f: True, "6 of 6 broken scorers got past"),
        (lambda f: scored(f, GOOD) == 1, "6 of 6 broken scorers got past"),
        (lambda f: False, "refuses every scorer, right ones included"),
        (lambda f: f is RIGHT_SCORERS[0][1], "refuses a right scorer, one written with seqeval"),
        (lambda f: scored(f, GOOD), "True or False is wanted"),
        (lambda f: f(ONE), "stopped with TypeError"),
    ],
)
def test_weak_tests_are_told_why(t: Callable[..., Any], text: str) -> None:
    said = words(verdict(check.tagging_test, t))
    assert said.startswith("✗ tagging_test: ")
    assert text in said
