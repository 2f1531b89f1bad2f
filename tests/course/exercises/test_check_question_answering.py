"""The exercises of notebook 10: decoding, F1 of words, windows, and two tests."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from verdicts import assert_named, seen, verdict, words

from bertedu.finetuning.collation import truncating
from bertedu.finetuning.metrics import normalize_answer, word_f1
from bertedu.finetuning.question_answering import LONGEST_ANSWER, best_span, context_places
from bertedu.text.fast_tokenizer import load_tokenizer
from course.exercises import check
from course.exercises.finetuning_question_answering import (
    MARK_TEST,
    WINDOWS,
    right_best_span,
    right_windows,
)
from course.exercises.museum import exhibits


def test_the_span_reference_decodes_as_the_package_does() -> None:
    generator = torch.Generator().manual_seed(3)
    for length in (1, 2, 7, 40, 60):
        start, end = torch.randn(2, length + 3, generator=generator)
        places = list(range(2, 2 + length))
        score, first, last = best_span(start, end, places)
        assert right_best_span(start, end, places, LONGEST_ANSWER) == (first, last)
        assert score == pytest.approx(float(start[first] + end[last]))


def test_the_window_reference_cuts_as_the_tokenizer_does() -> None:
    tokenizer = load_tokenizer()
    for length, room, stride in WINDOWS.cases():
        with truncating(tokenizer, room + 4, stride, "only_second"):
            row = tokenizer.encode("?", " ".join(["a"] * length))
        rows = [row, *row.overflowing]
        starts = [r.offsets[context_places(r)[0]][0] // 2 for r in rows]
        assert starts == right_windows(length, room, stride)


# -- right in other ways


def span_vectorized(start: Tensor, end: Tensor, places: Sequence[int], longest: int) -> Any:
    at = torch.tensor(places)
    sums = start[at][:, None] + end[at]
    window = torch.ones_like(sums).triu() - torch.ones_like(sums).triu(longest)
    best = sums.masked_fill(window == 0, -torch.inf).argmax()
    return at[best // len(at)], at[best % len(at)]


def span_of_probabilities(start: Tensor, end: Tensor, places: Sequence[int], longest: int) -> Any:
    """The product of softmax orders as the sum of scores does."""
    p, q = start.double().softmax(-1), end.double().softmax(-1)
    pairs = [(i, j) for i in places for j in places if 0 <= j - i < longest]
    return np.array(max(pairs, key=lambda pair: float(p[pair[0]] * q[pair[1]])))


def f1_by_removing(found: str, answer: str) -> float:
    mine, left = normalize_answer(found).split(), normalize_answer(answer).split()
    sizes, same = len(mine) + len(left), 0
    for word in mine:
        if word in left:
            left.remove(word)
            same += 1
    return 2 * same / sizes if sizes else 1.0


@pytest.mark.parametrize(
    ("name", "f", "said"),
    [
        ("best_span", span_vectorized, "120 random cases"),
        ("best_span", span_of_probabilities, "120 random cases"),
        ("word_f1", word_f1, "117 pairs of answers"),
        ("word_f1", f1_by_removing, "117 pairs of answers"),
        (
            "windows",
            lambda n, room, stride: range(0, max(n - stride, 1), room - stride),
            "42 texts",
        ),
        ("windows", lambda *x: np.array(right_windows(*x)), "42 texts"),
    ],
)
def test_what_is_right_in_another_way_passes(name: str, f: Any, said: str) -> None:
    assert verdict(getattr(check, name), f).startswith(f"✓ {name}: {said}")


# -- wrong


def two_argmax(start: Tensor, end: Tensor, places: list[int], longest: int) -> Any:
    return places[int(start[places].argmax())], places[int(end[places].argmax())]


def masking(start: Tensor, end: Tensor, places: list[int], longest: int) -> Any:
    found = right_best_span(start, end, places, longest)
    start[: places[0]] = -torch.inf
    return found


def careless(found: str, answer: str) -> float:
    mine, right = normalize_answer(found).split(), normalize_answer(answer).split()
    same = sum((Counter(mine) & Counter(right)).values())
    p, r = same / len(mine), same / len(right)
    return 2 * p * r / (p + r)


@pytest.mark.parametrize(
    ("name", "wrong", "text"),
    [
        ("best_span", two_argmax, "the end can come before the start"),
        ("best_span", lambda s, e, p, _: right_best_span(s, e, p, 99), "answers of any length"),
        ("best_span", lambda s, e, p, n: right_best_span(s, e, p, n + 1), "be one token too long"),
        ("best_span", lambda s, e, p, n: right_best_span(s, e, p, n - 1), "exactly longest tokens"),
        ("best_span", lambda *x: [float(i) for i in right_best_span(*x)], "first is a float; the"),
        ("best_span", lambda *x: right_best_span(*x)[0], "return two things: first, last"),
        ("best_span", masking, "your function changes start in place"),
        ("word_f1", lambda a, b: f1_by_removing(*(" ".join({*normalize_answer(x).split()})
         for x in (a, b))), "a repeated word counts once"),
        ("word_f1", careless, "stopped with ZeroDivisionError"),
        ("windows", lambda n, room, stride: range(0, n, room), "the windows share nothing"),
        ("windows", lambda n, room, stride: range(0, n, room - stride), "has already been read"),
        ("windows", lambda n, *x: [(s, n) for s in right_windows(n, *x)], "your list is a tuple"),
        ("windows", lambda n, room, stride: 3, "your function returned an int; a list of starts"),
    ],
)  # fmt: skip
def test_wrong_answers_are_described(name: str, wrong: Any, text: str) -> None:
    assert_named(getattr(check, name), name, wrong, text)


def test_one_span_is_the_best_in_every_case() -> None:
    for start, end, places, longest in check.best_span.cases():
        pairs = [(i, j) for i in places for j in places if i <= j < i + longest]
        sums = sorted(float(start[i] + end[j]) for i, j in pairs)
        assert sums[-1] - sums[-2] > 0.015


# -- the two tests


def by_hand(context: str, word: str, room: int = 8, stride: int = 3) -> Any:
    return MARK_TEST.right[0][1](context, word, context.index(word), room, stride)


def test_plain_text_shows_little() -> None:
    """A test on short English text alone lets most of the museum pass."""
    plain = ("one two three four", "two", 4, 8, 3)
    said = words(verdict(check.mark_test, lambda mark: mark(*plain)[0][1] == (1, 1)))
    broken = {seen(exhibit): exhibit.wrong[0] for exhibit in exhibits(MARK_TEST)}
    for name in ("bytes", "first place", "cut answer", "no sharing"):
        assert f"- {name}: " in said
        assert broken[name](*plain) == by_hand("one two three four", "two")
    assert broken["bytes"]("ü two", "two", 2, 8, 3) == [([(0, 2), (3, 6)], (1, 1))]
    assert broken["cut answer"]("a b c d e", "d e", 6, 4, 1)[0][1] == (3, 3)
    assert by_hand("a b c d e", "d e", 4, 1)[0][1] is None


@pytest.mark.parametrize(
    ("t", "text"),
    [
        (lambda found, at: all(place for _, place in found),
         "every marker, right ones included. Likely: it wants the answer in every window."),
        (lambda found, at: sum(place is not None for _, place in found) == 1,
         "a right marker, one written by hand, with whole words as tokens. Likely: it wants the "
         "answer in one window only."),
        (lambda found, at: all(offsets[place[1] - 1][1] == at + 5 for offsets, place in found
         if place), "a right marker, one written by hand, with whole words as tokens. Likely: it "
         "takes last for the token after the answer."),
    ],
)  # fmt: skip
def test_a_test_of_more_than_the_rules_is_told_which(t: Any, text: str) -> None:
    context = "Zoë met Al. Then Al, at a café, met Zoë again, and Al left"
    at = context.index("again")
    assert text in words(verdict(check.mark_test, lambda m: t(m(context, "again", at, 8, 5), at)))


def test_tests_that_refuse_right_ones_are_told_why() -> None:
    said = words(verdict(check.mark_test, lambda mark: len(mark("Zoë", "Zoë", 0, 9, 2)[0][0]) == 1))
    assert "refuses a right marker, one written with the package" in said
    assert "it takes tokens for words" in said
    said = words(verdict(check.score_test, lambda score: score("lake", ["lake"])[0] == 100))
    assert "your test refuses every scorer, right ones included" in said
    assert "it returns False on every path, or expects percent" in said
