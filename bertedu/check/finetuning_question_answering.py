"""The checks of notebook 10: decoding a span, F1 of words, windows, and two tests."""

import math
import operator
import random
import re
import string
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise
from typing import Any

import torch
from tokenizers import Tokenizer
from torch import Tensor

from bertedu.check import exercise
from bertedu.check.exercise import Exercise, Function, Inputs, Mistake, UnreadableError
from bertedu.check.museum import Exhibit, TestExercise, judge_test
from bertedu.finetuning.examples import Question
from bertedu.finetuning.inputs import truncating
from bertedu.finetuning.metrics import normalize_answer, squad_scores
from bertedu.finetuning.metrics import word_f1 as package_word_f1
from bertedu.finetuning.question_answering import answer_place, context_places
from bertedu.finetuning.question_answering import best_span as package_best_span
from bertedu.text.tokenization import load_tokenizer

Span = tuple[int, int]


def _kind(value: object) -> str:
    name = type(value).__name__
    return "None" if value is None else f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def _read_whole(number: Any, name: str, wanted: str) -> int:
    try:
        return operator.index(number.item() if hasattr(number, "item") else number)
    except (TypeError, ValueError):
        raise UnreadableError(f"{name} is {_kind(number)}; {wanted} is wanted.") from None


# -- the best span


def right_best_span(start: Tensor, end: Tensor, places: Sequence[int], longest: int) -> Span:
    """Return the pair first <= last of ``places`` with the highest start + end score."""
    best, found = -math.inf, (places[0], places[0])
    for first in places:
        for last in places:
            score = float(start[first] + end[last])
            if first <= last < first + longest and score > best:
                best, found = score, (first, last)
    return found


def _span_cases() -> list[Inputs]:
    generator, dice = torch.Generator().manual_seed(13), random.Random(13)
    cases: list[Inputs] = []
    for count, fewest, most in ((20, 2, 2), (40, 3, 4), (60, 5, 8)):
        made = 0
        while made < count:
            begins, size = dice.randint(2, 4), dice.randint(fewest, most)
            length = begins + size + 1  # the question in front, [SEP] behind
            start, end = torch.randn(2, length, generator=generator).mul(20).round() / 10
            longest = dice.randint(2, size)
            places = list(range(begins, begins + size))
            sums = sorted(
                float(start[i] + end[j]) for i in places for j in places if i <= j < i + longest
            )
            if sums[-1] - sums[-2] > 0.15:  # no two spans are equally good
                cases.append((start, end, places, longest))
                made += 1
    return cases


def _read_places(answer: Any, *_: Any) -> Span:
    answer = answer.tolist() if hasattr(answer, "tolist") else answer
    if isinstance(answer, tuple | list) and len(answer) == 3:
        raise UnreadableError(
            "your function returned three things; return first and last alone, without the score."
        )
    first, last = exercise.read_pair(answer, "first, last")
    wanted = "the number of a token"
    return _read_whole(first, "first", wanted), _read_whole(last, "last", wanted)


Allowed = Callable[[int, int, int], bool]  # (first, last, longest) -> may they be a span?
Score = Callable[[Tensor, Tensor, int, int], Any]


def _in_order(first: int, last: int, longest: int) -> bool:
    return first <= last < first + longest


def _sum(start: Tensor, end: Tensor, first: int, last: int) -> Any:
    return start[first] + end[last]


def _searching(
    allowed: Allowed = _in_order,
    score: Score = _sum,
    everywhere: bool = False,
    answer: Callable[[int, int, Sequence[int]], Any] = lambda first, last, _: (first, last),
) -> Function:
    """Make a wrong function that tries all pairs."""

    def wrong(start: Tensor, end: Tensor, places: Sequence[int], longest: int) -> Any:
        among = range(len(start)) if everywhere else places
        best, found = -math.inf, (among[0], among[0])
        for first in among:
            for last in among:
                value = float(score(start, end, first, last))
                if allowed(first, last, longest) and value > best:
                    best, found = value, (first, last)
        return answer(*found, places)

    return wrong


def _start_first(start: Tensor, end: Tensor, places: Sequence[int], longest: int) -> Span:
    first = max(places, key=lambda i: float(start[i]))
    behind = [j for j in places if first <= j < first + longest]
    return first, max(behind, key=lambda j: float(end[j]))


def _end_first(start: Tensor, end: Tensor, places: Sequence[int], longest: int) -> Span:
    last = max(places, key=lambda j: float(end[j]))
    before = [i for i in places if i <= last < i + longest]
    return max(before, key=lambda i: float(start[i])), last


BEST_SPAN = Exercise(
    name="best_span",
    right=right_best_span,
    cases=_span_cases,
    read=_read_places,
    tried="120 random cases, texts of 2 to 8 tokens, a question in front and [SEP] behind.",
    start="two loops over places, with an if for first <= last < first + longest.",
    source=(package_best_span, right_best_span),
    mistakes=(
        Mistake(
            "the end can come before the start.",
            "the best start and the best end, each by itself, need not fit together. Try pairs: "
            "first <= last.",
            (
                _searching(lambda *_: True),
                _searching(lambda first, last, longest: last < first + longest),
                _searching(lambda first, last, longest: abs(last - first) < longest),
            ),
        ),
        Mistake(
            "the best start and the best end of all tokens are taken, question included.",
            "two argmax know neither of each other nor of places. Try pairs of places with "
            "first <= last.",
            (_searching(lambda *_: True, everywhere=True),),
        ),
        Mistake(
            "tokens outside the text are marked.",
            "the question and [SEP] have scores, too. Only places may be first or last.",
            (
                _searching(everywhere=True),
                _searching(lambda first, last, _: first <= last, everywhere=True),
            ),
        ),
        Mistake(
            "answers of any length are let through.",
            "longest is not used: last < first + longest.",
            (_searching(lambda first, last, _: first <= last),),
        ),
        Mistake(
            "an answer may be one token too long.",
            "from first to last are last - first + 1 tokens: last < first + longest.",
            (_searching(lambda first, last, longest: first <= last <= first + longest),),
        ),
        Mistake(
            "the longest answers are refused.",
            "from first to last are last - first + 1 tokens: last < first + longest, no - 1.",
            (_searching(lambda first, last, longest: first <= last < first + longest - 1),),
        ),
        Mistake(
            "an answer of one token is refused.",
            "start and end may be the same token: first <= last, not first < last.",
            (
                _searching(lambda first, last, longest: first < last < first + longest),
                _searching(lambda first, last, longest: first < last <= first + longest),
            ),
        ),
        Mistake(
            "the best start is fixed first, and then an end is looked for behind it.",
            "a slightly worse start may have a far better end. Compare sums of pairs.",
            (_start_first,),
        ),
        Mistake(
            "the best end is fixed first, and then a start is looked for before it.",
            "a slightly worse end may have a far better start. Compare sums of pairs.",
            (_end_first,),
        ),
        Mistake(
            "the scores are multiplied.",
            "two negative scores would make a good span. Scores are logarithms of probabilities, "
            "up to a constant: probabilities are multiplied, scores added.",
            (_searching(score=lambda start, end, first, last: start[first] * end[last]),),
        ),
        Mistake(
            "the lowest sum is taken.",
            "a high score is a likely place: the highest sum.",
            (
                _searching(score=lambda *x: -_sum(*x)),
                _searching(lambda first, last, _: first <= last, score=lambda *x: -_sum(*x)),
            ),
        ),
        Mistake(
            "start and end scores are swapped.",
            "first is scored by start, last by end.",
            (_searching(score=lambda start, end, first, last: end[first] + start[last]),),
        ),
        Mistake(
            "one of the two scores is used twice.",
            "first is scored by start, last by end.",
            (
                _searching(score=lambda start, end, first, last: start[first] + start[last]),
                _searching(score=lambda start, end, first, last: end[first] + end[last]),
            ),
        ),
        Mistake(
            "first and last count from the start of the text, not of the input.",
            "these are numbers in places, not tokens. Token k of the text is places[k].",
            (_searching(answer=lambda first, last, places: (first - places[0], last - places[0])),),
        ),
        Mistake(
            "last is the token behind the answer.",
            "last belongs to the answer: leave out the + 1.",
            (_searching(answer=lambda first, last, _: (first, last + 1)),),
        ),
        Mistake(
            "last comes before first.",
            "return first, last, in this order.",
            (_searching(answer=lambda first, last, _: (last, first)),),
        ),
    ),
)


def best_span(function: object) -> None:
    """Check ``(start (S,), end (S,), places, longest) -> (first, last)``.

    Of all pairs of ``places`` with first <= last and at most ``longest`` tokens, the one with the
    highest start[first] + end[last].
    """
    print(exercise.judge(BEST_SPAN, function))


# -- F1 of words


def right_word_f1(found: str, answer: str) -> float:
    """F1 of the words that two answers share, repeated words as often as both have them."""
    mine, right = normalize_answer(found).split(), normalize_answer(answer).split()
    if not mine or not right:
        return float(mine == right)
    same = sum((Counter(mine) & Counter(right)).values())
    precision, recall = same / len(mine), same / len(right)
    return 2 * precision * recall / (precision + recall) if same else 0.0


def _f1_cases() -> list[Inputs]:
    cases: list[Inputs] = [
        ("lake", "lake"),
        ("lake", "river"),
        ("old lake", "lake"),
        ("The lake", "lake"),
        ("Lake", "lake"),
        ("lake.", "lake"),
        ("lake lake", "lake"),
        ("lake", "lake lake"),
        ("", "lake"),
        ("lake", ""),
        ("", ""),
        ("the", "a"),
        ("the", "lake"),
        ("theater", "ater"),
        ("lake of salt", "salt of lake"),
        ("lake lake salt", "lake salt salt"),
        ("ten-mile lake", "ten mile lake"),
    ]
    dice = random.Random(14)
    words = ["lake", "Lake", "salt", "of", "the", "An", "old,", "(ice)", "ice", "North"]
    for count, most in ((20, 2), (40, 4), (40, 7)):
        for _ in range(count):
            texts = (" ".join(dice.choices(words, k=dice.randint(1, most))) for _ in range(2))
            cases.append(tuple(texts))
    return cases


def _read_score(answer: Any, *_: Any) -> float:
    return exercise.read_number(answer)


_ARTICLES = re.compile(r"\b(a|an|the)\b")


def _cleaned(lower: bool = True, signs: bool = True, articles: bool = True) -> Function:
    """Make a function that normalizes an answer, or leaves out a part of that."""

    def clean(text: str) -> list[str]:
        text = text.lower() if lower else text
        text = "".join(c for c in text if c not in string.punctuation) if signs else text
        return (_ARTICLES.sub(" ", text) if articles else text).split()

    return clean


def _common(mine: Sequence[str], right: Sequence[str]) -> int:
    return sum((Counter(mine) & Counter(right)).values())


def _harmonic(same: int, mine: Sequence[str], right: Sequence[str]) -> float:
    return 2 * same / (len(mine) + len(right))


_CLEAN = _cleaned()


def _scoring(
    clean: Callable[[str], Any] = _CLEAN,
    common: Callable[[Any, Any], int] = _common,
    score: Callable[[int, Any, Any], float] = _harmonic,
    empty: Callable[[Any, Any], float] = lambda mine, right: float(mine == right),
) -> Function:
    """Make a wrong function out of the four steps."""

    def wrong(found: str, answer: str) -> float:
        mine, right = clean(found), clean(answer)
        if not mine or not right:
            return empty(mine, right)
        return score(common(mine, right), mine, right)

    return wrong


def _union(same: int, mine: Sequence[str], right: Sequence[str]) -> float:
    return same / (len(mine) + len(right) - same)


WORD_F1 = Exercise(
    name="word_f1",
    right=right_word_f1,
    cases=_f1_cases,
    read=_read_score,
    tried="117 pairs of answers, empty ones, repeated words, articles and punctuation among them.",
    start="normalize_answer(found).split(), and the same of answer; then Counter(…) & Counter(…).",
    source=(package_word_f1, right_word_f1),
    mistakes=(
        Mistake(
            "a repeated word counts once.",
            "sets forget how often. Counter(mine) & Counter(right) keeps the smaller count.",
            (
                _scoring(lambda text: sorted(set(_cleaned()(text)))),
                _scoring(common=lambda mine, right: len(set(mine) & set(right))),
            ),
        ),
        Mistake(
            "a repeated word counts as shared each time, though the other answer has it once.",
            "`word in right` does not use the word up. Counter(mine) & Counter(right) does.",
            (
                _scoring(common=lambda mine, right: sum(word in right for word in mine)),
                _scoring(common=lambda mine, right: sum(word in mine for word in right)),
                lambda found, answer: _both_ways(_cleaned()(found), _cleaned()(answer)),
            ),
        ),
        Mistake(
            "nothing is normalized.",
            "“The lake.” and “lake” are the same answer: normalize_answer both first.",
            (_scoring(str.split), _scoring(str.split, empty=lambda *_: 0.0)),
        ),
        Mistake(
            "articles count as words.",
            "“the lake” and “lake” are the same answer: normalize_answer takes articles out.",
            (_scoring(_cleaned(articles=False)),),
        ),
        Mistake(
            "punctuation counts.",
            "“lake.” and “lake” are the same answer: normalize_answer takes it out.",
            (
                _scoring(_cleaned(signs=False)),
                _scoring(_cleaned(signs=False, articles=False)),
            ),
        ),
        Mistake(
            "capitals make another word.",
            "“Lake” and “lake” are the same answer: normalize_answer makes them small.",
            (_scoring(_cleaned(lower=False)), _scoring(_cleaned(lower=False, articles=False))),
        ),
        Mistake(
            "characters are compared, not words.",
            "a string is a sequence of characters: .split() is missing. (Korean is scored so.)",
            (_scoring(normalize_answer), _scoring(lambda text: "".join(_cleaned()(text)))),
        ),
        Mistake(
            "two empty answers get 0.",
            "to say nothing where nothing is right is right: 1 if both are empty.",
            (
                _scoring(empty=lambda *_: 0.0),
                _scoring(empty=lambda mine, right: math.nan),
            ),
        ),
        Mistake(
            "an empty answer is always right.",
            "only if the other one is empty, too: float(mine == right).",
            (
                _scoring(empty=lambda *_: 1.0),
                _scoring(empty=lambda mine, right: float(not mine)),
                _scoring(empty=lambda mine, right: float(not right)),
            ),
        ),
        Mistake(
            "this is precision.",
            "shared / found alone: one lucky word would be a perfect answer. F1 takes recall in.",
            (_scoring(score=lambda same, mine, right: same / len(mine)),),
        ),
        Mistake(
            "this is recall.",
            "shared / right alone: the whole text would be a perfect answer. F1 takes precision "
            "in.",
            (_scoring(score=lambda same, mine, right: same / len(right)),),
        ),
        Mistake(
            "this is the plain mean of precision and recall.",
            "F1 is the harmonic mean: 2 · precision · recall / (precision + recall).",
            (_scoring(score=lambda same, mine, right: (same / len(mine) + same / len(right)) / 2),),
        ),
        Mistake(
            "the factor 2 is missing.",
            "2 · precision · recall / (precision + recall), so that a perfect answer gets 1.",
            (_scoring(score=lambda *x: _harmonic(*x) / 2),),
        ),
        Mistake(
            "precision and recall are multiplied.",
            "F1 is their harmonic mean: 2 · precision · recall / (precision + recall).",
            (_scoring(score=lambda same, mine, right: same**2 / len(mine) / len(right)),),
        ),
        Mistake(
            "shared words are divided by all words of both.",
            "that is intersection over union, always below F1. F1 is 2 · shared / (found + right).",
            (
                _scoring(score=_union),
                _scoring(lambda text: sorted(set(_cleaned()(text))), score=_union),
            ),
        ),
        Mistake(
            "this is exact match.",
            "a part that is right counts, too: how many words do the two share?",
            (lambda found, answer: float(normalize_answer(found) == normalize_answer(answer)),),
        ),
        Mistake(
            "this is in percent.",
            "a score of one question lies between 0 and 1. Leave out the 100.",
            (
                lambda found, answer: 100 * right_word_f1(found, answer),
                _scoring(score=lambda *x: 100 * _harmonic(*x)),
            ),
        ),
    ),
)


def _both_ways(mine: Sequence[str], right: Sequence[str]) -> float:
    if not mine or not right:
        return float(mine == right)
    precision = sum(word in right for word in mine) / len(mine)
    recall = sum(word in mine for word in right) / len(right)
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def word_f1(function: object) -> None:
    """Check ``(found, answer) -> float``: F1 of the words of two answers, once normalized."""
    print(exercise.judge(WORD_F1, function))


# -- windows


def right_windows(length: int, room: int, stride: int) -> list[int]:
    """Return where windows start: each shares ``stride`` tokens with the one before it."""
    starts = [0]
    while starts[-1] + room < length:
        starts.append(starts[-1] + room - stride)
    return starts


def _window_cases() -> list[Inputs]:
    sizes = [(4, 1), (5, 2), (8, 3), (10, 4), (12, 2), (20, 9)]  # stride is below half the room
    return [
        (length, room, stride)
        for room, stride in sizes
        for length in (1, room - 1, room, room + 1, 2 * room - stride, 2 * room, 5 * room + 1)
    ]


def _read_starts(answer: Any, *_: Any) -> list[int]:
    answer = answer.tolist() if hasattr(answer, "tolist") else answer
    if not isinstance(answer, list | tuple | range):
        raise UnreadableError(f"your function returned {_kind(answer)}; a list of starts, please.")
    if any(isinstance(item, list | tuple) for item in answer):
        raise UnreadableError("your list holds pairs or lists; only the start of each window.")
    return [_read_whole(item, "an item of your list", "the number of a token") for item in answer]


def _walking(
    step: Callable[[int, int], int] = lambda room, stride: room - stride,
    more: Callable[[int, int, int], bool] = lambda start, room, length: start + room < length,
) -> Function:
    """Make a wrong function that walks by another step, or stops elsewhere."""

    def wrong(length: int, room: int, stride: int) -> list[int]:
        starts = [0]
        while more(starts[-1], room, length):
            starts.append(starts[-1] + step(room, stride))
        return starts

    return wrong


def _pulled_back(length: int, room: int, stride: int) -> list[int]:
    return [max(0, min(s, length - room)) for s in right_windows(length, room, stride)]


WINDOWS = Exercise(
    name="windows",
    right=right_windows,
    cases=_window_cases,
    read=_read_starts,
    tried="42 texts, shorter than a window, as long, one token longer, and five windows long.",
    start="starts = [0], and a while: does the last window reach the end of the text?",
    source=(right_windows, truncating),
    mistakes=(
        Mistake(
            "stride is taken for the step.",
            "here stride is what two windows *share*; the step is room - stride. (The paper's code "
            "calls the step doc_stride: read the manual.)",
            (
                _walking(lambda room, stride: stride),
                lambda length, room, stride: list(range(0, length, stride)),
                lambda length, room, stride: list(range(0, max(length - room, 0) + 1, stride)),
            ),
        ),
        Mistake(
            "the windows share nothing.",
            "an answer across an edge would be cut in two in both. The step is room - stride.",
            (
                _walking(lambda room, stride: room),
                lambda length, room, stride: list(range(0, length, room)),
            ),
        ),
        Mistake(
            "there are gaps between the windows.",
            "the step is room *minus* stride.",
            (
                _walking(lambda room, stride: room + stride),
                lambda length, room, stride: list(range(0, length, room + stride)),
            ),
        ),
        Mistake(
            "windows start where all the rest of the text has been read already.",
            "stop as soon as a window reaches the end: start + room >= length.",
            (
                _walking(more=lambda start, room, length: start < length),
                lambda length, room, stride: list(range(0, length, room - stride)),
            ),
        ),
        Mistake(
            "one window more comes when the last one just reaches the end.",
            "with start + room == length all has been read: <, not <=.",
            (_walking(more=lambda start, room, length: start + room <= length),),
        ),
        Mistake(
            "the end of the text is in no window.",
            "the last window may be shorter than room, and is needed all the same.",
            (
                lambda length, room, stride: list(
                    range(0, max(length - room, 0) + 1, room - stride)
                ),
                lambda length, room, stride: (
                    [s for s in right_windows(length, room, stride) if s + room <= length]
                ),
                lambda length, room, stride: (
                    [s for s in right_windows(length, room, stride) if s + room <= length] or [0]
                ),
            ),
        ),
        Mistake(
            "a text that fits into one window gets none.",
            "its only window starts at 0.",
            (
                lambda length, room, stride: (
                    right_windows(length, room, stride) if length > room else []
                ),
            ),
        ),
        Mistake(
            "the last window is moved back, so that it is full.",
            "that would do, too, but the package does not: it shares stride tokens as all others "
            "do, and is shorter.",
            (_pulled_back,),
        ),
        Mistake(
            "neighbors share one token too few.",
            "the step is room - stride, without + 1.",
            (_walking(lambda room, stride: room - stride + 1),),
        ),
        Mistake(
            "neighbors share one token too many.",
            "the step is room - stride, without - 1.",
            (_walking(lambda room, stride: room - stride - 1),),
        ),
        Mistake(
            "these are the ends of the windows.",
            "asked is where each starts.",
            (
                lambda length, room, stride: [
                    min(s + room, length) for s in right_windows(length, room, stride)
                ],
                lambda length, room, stride: [
                    s + room for s in right_windows(length, room, stride)
                ],
            ),
        ),
        Mistake(
            "the first window is missing.",
            "it starts at 0.",
            (lambda length, room, stride: right_windows(length, room, stride)[1:],),
        ),
    ),
)


def windows(function: object) -> None:
    """Check ``(length, room, stride) -> starts`` of windows that share ``stride`` tokens."""
    print(exercise.judge(WINDOWS, function))


# -- a test for those who place answers

Offsets = list[Span]
Window = tuple[Offsets, Span | None]
Marker = Callable[[str, str, int, int, int], list[Window]]


@cache
def _tokenizer() -> Tokenizer:
    return load_tokenizer()


def _by_package(context: str, answer: str, start: int, room: int, stride: int) -> list[Window]:
    """Mark word pieces, as `QuestionAnswering.encode` does; "?" stands for the question."""
    with truncating(_tokenizer(), room + 4, stride, "only_second"):
        row = _tokenizer().encode("?", context)
    found: list[Window] = []
    for window in (row, *row.overflowing):
        places = context_places(window)
        first, last = answer_place(window, start, start + len(answer))
        place = (first - places[0], last - places[0]) if first else None
        found.append(([window.offsets[p] for p in places], place))
    return found


_WORDS = re.compile(r"\w+|[^\w\s]")
Place = Callable[[Offsets, int, int], Span | None]


def _place(offsets: Offsets, start: int, end: int) -> Span | None:
    """Return the tokens from start to end, if the window holds them all."""
    inside = [i for i, (a, b) in enumerate(offsets) if a < end and b > start]
    if not inside or offsets[0][0] > start or offsets[-1][1] < end:
        return None
    return inside[0], inside[-1]


def _marking(
    place: Place = _place,
    shift: Callable[[str, int], int] = lambda context, at: at,
    walk: Callable[[int, int, int], list[int]] = right_windows,
    begin: Callable[[str, str, int], int] = lambda context, answer, start: start,
) -> Marker:
    """Make a marker of whole words; ``shift`` moves the offsets it reports."""

    def mark(context: str, answer: str, start: int, room: int, stride: int) -> list[Window]:
        spans = [match.span() for match in _WORDS.finditer(context)]
        start = begin(context, answer, start)
        found: list[Window] = []
        for at in walk(len(spans), room, stride):
            offsets = spans[at : at + room]
            where = place(offsets, start, start + len(answer)) if offsets else None
            found.append(([(shift(context, a), shift(context, b)) for a, b in offsets], where))
        return found

    return mark


def _in_bytes(context: str, at: int) -> int:
    return len(context[:at].encode("utf-8"))


def _in_split_accents(context: str, at: int) -> int:
    return len(unicodedata.normalize("NFD", context[:at]))


def _cut_too(offsets: Offsets, start: int, end: int) -> Span | None:
    """Mark what is there of an answer that the end of the window cuts."""
    inside = [i for i, (a, b) in enumerate(offsets) if a < end and b > start]
    return (inside[0], inside[-1]) if inside else None


def _not_at_the_edge(offsets: Offsets, start: int, end: int) -> Span | None:
    return _place(offsets, start, end) if offsets[-1][1] > end else None


def _changed(change: Callable[[int, int], Span]) -> Place:
    def place(offsets: Offsets, start: int, end: int) -> Span | None:
        found = _place(offsets, start, end)
        return found and change(*found)

    return place


def _only_full(length: int, room: int, stride: int) -> list[int]:
    return [s for s in right_windows(length, room, stride) if s + room <= length] or [0]


def _without_sharing(length: int, room: int, stride: int) -> list[int]:
    return list(range(0, length, room))


RIGHT_MARKERS: tuple[tuple[str, Marker], ...] = (
    ("with the package, whose tokens are word pieces", _by_package),
    ("by hand, with whole words as tokens", _marking()),
)

MARK_MUSEUM = (
    Exhibit(
        "bytes",
        "counts offsets in bytes, not in characters",
        _marking(shift=_in_bytes),
        "write é or an emoji before the answer, and cut the text by the offsets.",
    ),
    Exhibit(
        "normalized text",
        "counts offsets in a text whose accents have been split off as characters of their own",
        _marking(shift=_in_split_accents),
        "write é before the answer, and cut the *original* text by the offsets.",
    ),
    Exhibit(
        "first place",
        "marks the first place where the answer's words stand, not the one asked for",
        _marking(begin=lambda context, answer, start: context.index(answer)),
        "take a text with the answer's words in it twice, and ask for the second.",
    ),
    Exhibit(
        "end before start",
        "returns (last, first)",
        _marking(_changed(lambda first, last: (last, first))),
        "take an answer of two words: first <= last.",
    ),
    Exhibit(
        "one behind",
        "returns the token behind the answer as its last",
        _marking(_changed(lambda first, last: (first, last + 1))),
        "compare context[offsets[first][0] : offsets[last][1]] with the answer.",
    ),
    Exhibit(
        "cut answer",
        "marks what is left of an answer that the edge of a window cuts",
        _marking(_cut_too),
        "let a window end in the middle of the answer: it must say None.",
    ),
    Exhibit(
        "last token",
        "says None if the answer ends with the last token of a window",
        _marking(_not_at_the_edge),
        "put the answer at the end of the text: a window that holds all of it must mark it.",
    ),
    Exhibit(
        "no sharing",
        "cuts the text into windows that share nothing, and loses answers across their edges",
        _marking(walk=_without_sharing),
        "compare neighbors: the first `stride` offsets of a window are the last of the one before.",
    ),
    Exhibit(
        "lost end",
        "leaves out the last window unless it is full",
        _marking(walk=_only_full),
        "put the answer at the end of a long text: some window must mark it.",
    ),
)


def right_mark_test(mark: Marker) -> bool:
    """Say whether a marker is right, by asking for every word and every two words of a text."""
    context = "Zoë 🐶 met Al. Then Al, at a café, met Zoë again, and Al left"
    room, stride = 8, 3  # an answer of up to 4 tokens is whole in some window
    words = list(_WORDS.finditer(context))
    for size in (1, 2):
        for first, last in zip(words, words[size - 1 :], strict=False):
            start, end = first.start(), last.end()
            answer, marked = context[start:end], 0
            found = mark(context, answer, start, room, stride)
            for offsets, place in found:
                holds = offsets[0][0] <= start and offsets[-1][1] >= end
                if holds != (place is not None):
                    return False
                if place is not None:
                    i, j = place
                    if not 0 <= i <= j < len(offsets):
                        return False
                    if (offsets[i][0], offsets[j][1]) != (start, end):
                        return False
                    marked += 1
            if not marked:
                return False
            for (before, _), (after, _) in pairwise(found):
                if before[-stride:] != after[:stride]:
                    return False
    return True


MARK_TEST = TestExercise(
    name="mark_test",
    argument="mark",
    thing="marker",
    start="a text with an accent and an emoji, in which a name stands twice; then look at each "
    "(offsets, place) of mark(context, answer, start, 8, 3).",
    right=RIGHT_MARKERS,
    museum=MARK_MUSEUM,
    refuses_all="it returns False on every path, or takes last for the token behind the answer.",
    refuses_right="it asks for more than it may. A token may be a word or a part of one, several "
    "windows may mark the answer, and a window without it says None.",
    source=(right_mark_test,),
)


def mark_test(function: object) -> None:
    """Check a learner's test: ``(mark) -> bool``, true if it marks answers rightly.

    ``mark(context, answer, start, room, stride)`` returns (offsets, place) for each window.
    """
    print(judge_test(MARK_TEST, function))


# -- a test for those who score answers

Scorer = Callable[[str, Sequence[str]], tuple[float, float]]


def _by_squad(found: str, answers: Sequence[str]) -> tuple[float, float]:
    question = Question("q", "?", "", tuple((text, 0) for text in answers))
    scores = squad_scores([question], {"q": found})
    return scores["exact"] / 100, scores["f1"] / 100


def _best(values: Sequence[float]) -> float:
    return max(values)


def _judging(
    f1: Function = right_word_f1,
    clean: Callable[[str], Any] = _CLEAN,
    best: Callable[[Sequence[float]], float] = _best,
    exact: Callable[[Any, Any], bool] = operator.eq,
    unanswerable: Callable[[str], float] = lambda found: float(not found),
) -> Scorer:
    """Make a scorer, right or with one step spoiled."""

    def score(found: str, answers: Sequence[str]) -> tuple[float, float]:
        if not answers:
            return unanswerable(found), unanswerable(found)
        same = [float(exact(clean(found), clean(text))) for text in answers]
        return best(same), best([f1(found, text) for text in answers])

    return score


RIGHT_SCORERS: tuple[tuple[str, Scorer], ...] = (
    ("with squad_scores", _by_squad),
    ("by hand", _judging()),
)


def _unnormalized(clean: Function) -> Scorer:
    return _judging(_scoring(clean), clean)


SCORE_MUSEUM = (
    Exhibit(
        "sets",
        "takes F1 over sets, so that a repeated word counts once",
        _judging(_scoring(lambda text: sorted(set(_cleaned()(text))))),
        "repeat a word: “New York New York” against “New York” is 0.67, not 1.",
    ),
    Exhibit(
        "first answer only",
        "compares with the first right answer only",
        _judging(best=lambda values: values[0]),
        "give two right answers, and find the second.",
    ),
    Exhibit(
        "mean over answers",
        "takes the mean over the right answers where the best is wanted",
        _judging(best=lambda values: sum(values) / len(values)),
        "give two right answers, and find one of them word for word: 1 and 1.",
    ),
    Exhibit(
        "articles",
        "counts “the” and “a” as words",
        _unnormalized(_cleaned(articles=False)),
        "compare “the lake” with “lake”.",
    ),
    Exhibit(
        "punctuation",
        "takes “lake.” for another word than “lake”",
        _unnormalized(_cleaned(signs=False)),
        "compare “lake.” with “lake”.",
    ),
    Exhibit(
        "capitals",
        "takes “Lake” for another word than “lake”",
        _unnormalized(_cleaned(lower=False)),
        "compare “Lake” with “lake”.",
    ),
    Exhibit(
        "silence",
        "gives 0 for saying nothing where there is no answer",
        _judging(unanswerable=lambda found: 0.0),
        "score “” against no answers at all: 1 and 1.",
    ),
    Exhibit(
        "skipped",
        "gives 1 for whatever is said where there is no answer",
        _judging(unanswerable=lambda found: 1.0),
        "score “lake” against no answers at all: 0 and 0.",
    ),
    Exhibit(
        "recall",
        "takes recall for F1, so that the whole text is a perfect answer",
        _judging(_scoring(score=lambda same, mine, right: same / len(right))),
        "find twice as many words as are right: F1 is 0.67.",
    ),
    Exhibit(
        "part of it",
        "calls it an exact match if the right answer stands anywhere in what was found",
        _judging(exact=lambda mine, right: " ".join(right) in " ".join(mine)),
        "find a word too many: exact is 0, F1 is not.",
    ),
)


def right_score_test(score: Scorer) -> bool:
    """Say whether a scorer is right, by cases whose scores are known."""
    cases = [
        ("lake", ["river", "lake"], 1, 1),
        ("the Lake.", ["lake"], 1, 1),
        ("river", ["lake"], 0, 0),
        ("New York New York", ["New York"], 0, 2 / 3),
        ("salt lake", ["lake"], 0, 2 / 3),
        ("", [], 1, 1),
        ("lake", [], 0, 0),
        ("", ["lake"], 0, 0),
    ]
    for found, answers, exact, f1 in cases:
        mine = score(found, answers)
        if abs(mine[0] - exact) > 1e-6 or abs(mine[1] - f1) > 1e-6:
            return False
    return True


SCORE_TEST = TestExercise(
    name="score_test",
    argument="score",
    thing="scorer",
    start="cases whose scores you know: score(“the Lake.”, [“lake”]) is (1, 1).",
    right=RIGHT_SCORERS,
    museum=SCORE_MUSEUM,
    refuses_all="it returns False on every path, or expects percent: score returns shares, exact "
    "match first.",
    refuses_right="one of the numbers that it expects is wrong, or it compares fractions with ==. "
    "Use abs(a - b) < 1e-6.",
    source=(right_score_test,),
)


def score_test(function: object) -> None:
    """Check a learner's test: ``(score) -> bool``, true if it scores as SQuAD's authors do.

    ``score(found, answers)`` returns (exact match, F1); ``answers`` is empty if there is none.
    """
    print(judge_test(SCORE_TEST, function))


SOLUTIONS: tuple[tuple[str, tuple[Any, ...]], ...] = (
    *((e.name, e.source) for e in (BEST_SPAN, WORD_F1, WINDOWS)),
    *((t.name, t.source) for t in (MARK_TEST, SCORE_TEST)),
)
