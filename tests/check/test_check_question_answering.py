"""The checks of notebook 10: decoding, F1 of words, windows, and two tests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from verdicts import verdict, words

from bertedu.check import finetuning_question_answering as check
from bertedu.check.finetuning_question_answering import (
    BEST_SPAN,
    MARK_MUSEUM,
    RIGHT_MARKERS,
    RIGHT_SCORERS,
    SCORE_MUSEUM,
    WINDOWS,
    WORD_F1,
    right_best_span,
    right_mark_test,
    right_score_test,
    right_windows,
    right_word_f1,
)
from bertedu.finetuning.inputs import truncating
from bertedu.finetuning.metrics import normalize_answer
from bertedu.finetuning.metrics import word_f1 as package_word_f1
from bertedu.finetuning.question_answering import LONGEST_ANSWER, context_places
from bertedu.finetuning.question_answering import best_span as package_best_span
from bertedu.text.tokenization import load_tokenizer

# -- all exercises

EXERCISES = (BEST_SPAN, WORD_F1, WINDOWS)


# -- the best span


def test_the_span_reference_decodes_as_the_package_does() -> None:
    generator = torch.Generator().manual_seed(3)
    for length in (1, 2, 7, 40, 60):
        start, end = torch.randn(2, length + 3, generator=generator)
        places = list(range(2, 2 + length))
        score, first, last = package_best_span(start, end, places)
        assert right_best_span(start, end, places, LONGEST_ANSWER) == (first, last)
        assert score == pytest.approx(float(start[first] + end[last]))


def span_vectorized(start: Tensor, end: Tensor, places: Sequence[int], longest: int) -> Any:
    at = torch.tensor(places)
    sums = start[at][:, None] + end[at]
    window = torch.ones_like(sums).triu() - torch.ones_like(sums).triu(longest)
    best = sums.masked_fill(window == 0, -torch.inf).argmax()
    return at[best // len(at)], at[best % len(at)]


def span_in_numpy(start: Tensor, end: Tensor, places: Sequence[int], longest: int) -> Any:
    pairs = [(i, j) for i in places for j in places if 0 <= j - i < longest]
    return np.array(max(pairs, key=lambda p: start[p[0]] + end[p[1]]))


def span_of_probabilities(start: Tensor, end: Tensor, places: Sequence[int], longest: int) -> Any:
    """The product of softmax orders as the sum of scores does."""
    p, q = start.double().softmax(-1), end.double().softmax(-1)
    pairs = [(i, j) for i in places for j in places if 0 <= j - i < longest]
    return max(pairs, key=lambda pair: float(p[pair[0]] * q[pair[1]]))


@pytest.mark.parametrize(
    "f", [right_best_span, span_vectorized, span_in_numpy, span_of_probabilities]
)
def test_right_decoders_pass(f: Callable[..., Any]) -> None:
    assert verdict(check.best_span, f).startswith("✓ best_span: 120 random cases")


def spans(
    pairs: str = "[(i, j) for i in places for j in places if i <= j < i + longest]",
    score: str = "start[i] + end[j]",
    answer: str = "i, j",
) -> Callable[..., Any]:
    """Write a function as a learner would, with one expression changed."""
    scope: dict[str, Any] = {}
    exec(
        "def f(start, end, places, longest):\n"
        f"    i, j = max({pairs}, key=lambda p: (lambda i, j: float({score}))(*p))\n"
        f"    return {answer}\n",
        scope,
    )
    f: Callable[..., Any] = scope["f"]
    return f


ORDERED = "for j in range(i, min(i + longest, len(start)))"
PLANTED_SPANS = [
    (spans("[(i, j) for i in places for j in places]"), "the end can come before the start"),
    (
        lambda start, end, places, longest: (
            places[int(start[places].argmax())],
            places[int(end[places].argmax())],
        ),
        "the end can come before the start",
    ),
    (
        lambda start, end, places, longest: (start.argmax(), end.argmax()),
        "the best start and the best end of all tokens are taken, question included",
    ),
    (spans(f"[(i, j) for i in range(len(start)) {ORDERED}]"), "tokens outside the text"),
    (spans("[(i, j) for i in places for j in places if i <= j]"), "answers of any length"),
    (
        spans("[(i, j) for i in places for j in places if i <= j <= i + longest]"),
        "one token too long",
    ),
    (
        spans("[(i, j) for i in places for j in places if i <= j < i + longest - 1]"),
        "the longest answers are refused",
    ),
    (
        spans("[(i, j) for i in places for j in places if i < j < i + longest]"),
        "an answer of one token is refused",
    ),
    (spans(score="start[i] * end[j]"), "the scores are multiplied"),
    (spans(score="-start[i] - end[j]"), "the lowest sum is taken"),
    (spans(score="end[i] + start[j]"), "start and end scores are swapped"),
    (spans(score="start[i] + start[j]"), "one of the two scores is used twice"),
    (spans(answer="i - places[0], j - places[0]"), "count from the start of the text"),
    (spans(answer="i, j + 1"), "last is the token behind the answer"),
    (spans(answer="j, i"), "last comes before first"),
    (spans(answer="(start[i] + end[j], i, j)"), "return first and last alone, without the score"),
    (spans(answer="float(i), float(j)"), "first is a float; the number of a token is wanted"),
    (spans(answer="i"), "return two things: first, last"),
]


@pytest.mark.parametrize(("wrong", "text"), PLANTED_SPANS, ids=[t for _, t in PLANTED_SPANS])
def test_each_wrong_decoder_gets_its_own_message(wrong: Callable[..., Any], text: str) -> None:
    said = verdict(check.best_span, wrong)
    assert said.startswith("✗ best_span: ")
    assert text in words(said)
    assert "Smallest case: start = [" in words(said)


def test_a_decoder_that_writes_into_its_scores_is_told() -> None:
    def masking(start: Tensor, end: Tensor, places: Sequence[int], longest: int) -> Any:
        found = right_best_span(start, end, places, longest)
        start[: places[0]] = -torch.inf
        return found

    assert "your function changes start in place" in verdict(check.best_span, masking)


# -- F1 of words


def test_the_f1_reference_counts_as_the_package_does() -> None:
    for found, answer in WORD_F1.cases():
        assert right_word_f1(found, answer) == pytest.approx(package_word_f1(found, answer))


def f1_by_removing(found: str, answer: str) -> float:
    mine, left = normalize_answer(found).split(), normalize_answer(answer).split()
    sizes, same = len(mine) + len(left), 0
    for word in mine:
        if word in left:
            left.remove(word)
            same += 1
    return 2 * same / sizes if sizes else 1.0


def test_right_f1_pass() -> None:
    for f in (right_word_f1, package_word_f1, f1_by_removing):
        assert verdict(check.word_f1, f).startswith("✓ word_f1: 117 pairs of answers")


def f1(clean: str = "normalize_answer(x).split()", score: str = "2 * p * r / (p + r)") -> Any:
    scope: dict[str, Any] = {"Counter": Counter, "normalize_answer": normalize_answer}
    exec(
        "def f(found, answer):\n"
        f"    mine, right = [{clean} for x in (found, answer)]\n"
        "    if not mine or not right:\n"
        "        return float(mine == right)\n"
        "    same = sum((Counter(mine) & Counter(right)).values())\n"
        "    p, r = same / len(mine), same / len(right)\n"
        f"    return {score} if same else 0.0\n",
        scope,
    )
    return scope["f"]


PLANTED_F1 = [
    (f1("set(normalize_answer(x).split())"), "a repeated word counts once"),
    (f1("x.split()"), "nothing is normalized"),
    (f1("normalize_answer(x)"), "characters are compared, not words"),
    (f1(score="p"), "this is precision"),
    (f1(score="r"), "this is recall"),
    (f1(score="(p + r) / 2"), "this is the plain mean"),
    (f1(score="p * r / (p + r)"), "the factor 2 is missing"),
    (f1(score="p * r"), "precision and recall are multiplied"),
    (f1(score="200 * p * r / (p + r)"), "this is in percent"),
    (f1(score="float(mine == right)"), "this is exact match"),
    (f1(score="None"), "None"),
]


@pytest.mark.parametrize(("wrong", "text"), PLANTED_F1, ids=[t for _, t in PLANTED_F1])
def test_each_wrong_f1_gets_its_own_message(wrong: Callable[..., Any], text: str) -> None:
    said = verdict(check.word_f1, wrong)
    assert said.startswith("✗ word_f1: ")
    assert text in words(said)


def test_a_division_by_zero_is_explained() -> None:
    def careless(found: str, answer: str) -> float:
        mine, right = normalize_answer(found).split(), normalize_answer(answer).split()
        same = sum((Counter(mine) & Counter(right)).values())
        p, r = same / len(mine), same / len(right)
        return 2 * p * r / (p + r)

    said = words(verdict(check.word_f1, careless))
    assert "your function stopped with ZeroDivisionError" in said
    assert "something that you divide by is 0 in this case" in said


# -- windows


def test_the_window_reference_cuts_as_the_tokenizer_does() -> None:
    tokenizer = load_tokenizer()
    for length, room, stride in WINDOWS.cases():
        if room < 4:
            continue
        with truncating(tokenizer, room + 4, stride, "only_second"):
            row = tokenizer.encode("?", " ".join(["a"] * length))
        rows = [row, *row.overflowing]
        starts = [r.offsets[context_places(r)[0]][0] // 2 for r in rows]
        assert starts == right_windows(length, room, stride)


def windows_by_range(length: int, room: int, stride: int) -> range:
    return range(0, max(length - stride, 1), room - stride)


def test_right_windows_pass() -> None:
    for f in (right_windows, windows_by_range, lambda *x: np.array(right_windows(*x))):
        assert verdict(check.windows, f).startswith("✓ windows: 42 texts")


PLANTED_WINDOWS = [
    (lambda n, room, stride: range(0, n, stride), "stride is taken for the step"),
    (lambda n, room, stride: range(0, n, room), "the windows share nothing"),
    (lambda n, room, stride: range(0, n, room + stride), "there are gaps between"),
    (lambda n, room, stride: range(0, n, room - stride), "where all the rest of the text has"),
    (
        lambda n, room, stride: range(0, max(n - room, 0) + 1, room - stride),
        "the end of the text is in no window",
    ),
    (
        lambda n, room, stride: list(range(0, n - stride, room - stride)) if n > room else [],
        "a text that fits into one window gets none",
    ),
    (
        lambda n, room, stride: [max(0, min(s, n - room)) for s in right_windows(n, room, stride)],
        "the last window is moved back",
    ),
    (
        lambda n, room, stride: [(s, s + room) for s in right_windows(n, room, stride)],
        "your list holds pairs or lists; only the start of each window",
    ),
    (lambda n, room, stride: 3, "your function returned an int; a list of starts"),
]


@pytest.mark.parametrize(("wrong", "text"), PLANTED_WINDOWS, ids=[t for _, t in PLANTED_WINDOWS])
def test_wrong_windows_get_their_own_message(wrong: Callable[..., Any], text: str) -> None:
    said = verdict(check.windows, wrong)
    assert said.startswith("✗ windows: ")
    assert text in words(said)


# -- the two tests


def test_our_tests_pass() -> None:
    said = words(verdict(check.mark_test, right_mark_test))
    assert said.startswith("✓ mark_test: accepts 2 right markers, catches 9 broken ones (bytes, ")
    said = words(verdict(check.score_test, right_score_test))
    assert said.startswith("✓ score_test: accepts 2 right scorers, catches 10 broken ones (sets, ")


@pytest.mark.parametrize("exhibit", MARK_MUSEUM, ids=[e.seen for e in MARK_MUSEUM])
def test_our_mark_test_catches(exhibit: Any) -> None:
    assert not right_mark_test(exhibit.broken)


@pytest.mark.parametrize("exhibit", SCORE_MUSEUM, ids=[e.seen for e in SCORE_MUSEUM])
def test_our_score_test_catches(exhibit: Any) -> None:
    assert not right_score_test(exhibit.broken)


@pytest.mark.parametrize("exhibit", MARK_MUSEUM, ids=[e.seen for e in MARK_MUSEUM])
def test_a_marker_that_gets_past_is_named(exhibit: Any) -> None:
    said = words(
        verdict(check.mark_test, lambda mark: mark is exhibit.broken or right_mark_test(mark))
    )
    assert "1 of 9 broken markers got past your test." in said
    assert f"{exhibit.seen}: {exhibit.bug}. To catch it, {exhibit.try_this}" in said


@pytest.mark.parametrize("exhibit", SCORE_MUSEUM, ids=[e.seen for e in SCORE_MUSEUM])
def test_a_scorer_that_gets_past_is_named(exhibit: Any) -> None:
    said = words(
        verdict(check.score_test, lambda score: score is exhibit.broken or right_score_test(score))
    )
    assert "1 of 10 broken scorers got past your test." in said
    assert f"{exhibit.seen}: {exhibit.bug}. To catch it, {exhibit.try_this}" in said


def test_plain_text_shows_little() -> None:
    """A test on short English text alone lets most of the museum pass."""

    def plain(mark: Any) -> bool:
        text = "The old dog slept here."
        for offsets, place in mark(text, "dog", 8, 20, 2):
            first, last = place
            if text[offsets[first][0] : offsets[last][1]] != "dog":
                return False
        return True

    said = words(verdict(check.mark_test, plain))
    for name in ("bytes", "normalized text", "first place", "cut answer", "no sharing"):
        assert f"- {name}: " in said


def test_tests_that_refuse_right_ones_are_told_why() -> None:
    said = words(verdict(check.mark_test, lambda mark: False))
    assert "your test refuses every marker, right ones included" in said

    def words_only(mark: Any) -> bool:
        ((offsets, _),) = mark("Zoë slept", "Zoë", 0, 20, 2)
        return len(offsets) == 2

    assert "refuses a right marker, one written with the package" in words(
        verdict(check.mark_test, words_only)
    )
    said = words(verdict(check.score_test, lambda score: score("lake", ["lake"])[0] == 100))
    assert "your test refuses every scorer, right ones included" in said
    assert "it returns False on every path, or expects percent" in said


def test_the_museum_is_wrong_where_it_says_so() -> None:
    """Each exhibit differs from the right ones in what its description names, and only there."""
    by_words = dict(RIGHT_MARKERS)["by hand, with whole words as tokens"]
    broken = {exhibit.seen: exhibit.broken for exhibit in MARK_MUSEUM}
    plain = ("one two three four", "two", 4, 8, 3)
    for name in ("bytes", "normalized text", "first place", "cut answer", "no sharing"):
        assert broken[name](*plain) == by_words(*plain)
    assert broken["bytes"]("ü two", "two", 2, 8, 3) == [([(0, 2), (3, 6)], (1, 1))]
    assert broken["normalized text"]("ü two", "two", 2, 8, 3) == [([(0, 2), (3, 6)], (1, 1))]
    assert broken["cut answer"]("a b c d e", "d e", 6, 4, 1)[0][1] == (3, 3)
    assert by_words("a b c d e", "d e", 6, 4, 1)[0][1] is None
    by_hand = dict(RIGHT_SCORERS)["by hand"]
    assert by_hand("New York New York", ["New York"]) == pytest.approx((0, 2 / 3))
