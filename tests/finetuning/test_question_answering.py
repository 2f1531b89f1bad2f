"""Answers in a text: where they stand, which windows hold them, and when "none" is said."""

import math
import unicodedata
from collections.abc import Sequence

import pytest
import torch
from tiny_kinds import CONTEXT, TOKENIZER, tiny
from torch import Tensor

from bertedu.finetuning.examples import Question
from bertedu.finetuning.kinds import Item
from bertedu.finetuning.question_answering import (
    LONGEST_ANSWER,
    STRIDE,
    QuestionAnswering,
    best_span,
    context_positions,
)
from bertedu.finetuning.training import score_items

KIND = QuestionAnswering()
LONG = CONTEXT * 4


def ask(question: str, context: str, answer: str = "", name: str = "q") -> Question:
    """Ask with the first place where the answer stands, or without an answer."""
    answers = ((answer, context.index(answer)),) if answer else ()
    return Question(name, question, context, answers)


def marked(item: Item, question: Question) -> str:
    """Read the text that a target marks."""
    (row,), (first, last) = item.rows, item.target
    return question.context[row.offsets[first][0] : row.offsets[last][1]]


def marking(items: Sequence[Item], chosen: int, first: int, last: int) -> list[Tensor]:
    """Make scores that are high at one span of one window."""
    scores = [torch.zeros(2, item.length) for item in items]
    scores[chosen][0, first] = scores[chosen][1, last] = 10
    return scores


# -- where an answer stands


@pytest.mark.parametrize(
    ("context", "answer", "expected"),
    [
        ("👋👋 The dog 🐶 slept here in Zürich.", "Zürich", "Zürich"),
        ("👋👋 The dog 🐶 slept here.", "🐶 slept", "🐶 slept"),
        ("서울 is where Mira lives, not 한국어.", "한국어", "한국어"),
        ("In 我们村 the gate was open.", "们", "们"),  # Chinese: a word for each character
        ("It cost $1,987.50 in all.", "1,987.50", "1,987.50"),
        ("ǅ İstanbul ﬁne.", "İstanbul", "İstanbul"),
        # a space before it belongs to no token, and no word before it does to the answer
        ("The gate was open.", " gate", "gate"),
        ("The gate was open.", "gate ", "gate"),
        # less than a piece: the pieces that it touches
        ("It was an unbelievable gate.", "believable", "unbelievable"),
        ("It was an unbelievable gate.", "liev", "eliev"),
        # nothing is marked in the question, and a special token in the text is a word like others
        ("What, was the [SEP] house open?", "What", "What"),
        ("First [SEP] then [CLS] the gate.", "the gate", "the gate"),
        ("No", "No", "No"),
        ("The gate was open.", "", ""),  # none: [CLS]
        (CONTEXT, CONTEXT.strip()[-1], "."),
        (CONTEXT, " ".join(CONTEXT.split()[:5]), " ".join(CONTEXT.split()[:5])),
    ],
)
def test_an_answer_is_marked_in_characters_of_the_original(
    context: str, answer: str, expected: str
) -> None:
    question = ask("What [SEP] is it?", context, answer)
    (item,) = KIND.encode([question], TOKENIZER, 128)
    assert marked(item, question) == expected


def test_accents_of_their_own_belong_to_their_letter() -> None:
    """One é is one character, the other two; no word after it may slip in, or must be there."""
    for text in ("The café au", "The café"):
        context, answer = (unicodedata.normalize("NFD", text) for text in (text, "café"))
        (item,) = KIND.encode([ask("What?", context, answer)], TOKENIZER, 128)
        (row,), (first, last) = item.rows, item.target
        assert row.tokens[first : last + 1] == ["ca", "##f", "##e"]


def test_the_first_of_several_answers_is_the_target() -> None:
    both = ("gate", CONTEXT.index("gate")), ("snow", CONTEXT.index("snow"))
    for answers in (both, both[::-1]):
        question = Question("q", "What?", CONTEXT, answers)
        (item,) = KIND.encode([question], TOKENIZER, 128)
        assert marked(item, question) == answers[0][0]


# -- windows


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("length", [9, 16, 33, 64, 128])
@pytest.mark.parametrize("words", [1, 12, 93, 94])
def test_windows_cover_the_text_and_overlap_by_stride(first: bool, length: int, words: int) -> None:
    """A question that leaves too little room for the text is cut, and no other."""
    question = ask("tree " * (words - 1) + "house", LONG.replace("e", "é"), "1987")
    items = QuestionAnswering(question_first=first).encode([question], TOKENIZER, length)
    whole = TOKENIZER.encode(question.context, add_special_tokens=False)
    begin, segment = 0, int(first)
    for item in items:
        (row,) = item.rows
        places = context_positions(row, segment)
        asked = [t for t, s in zip(row.tokens, row.sequence_ids, strict=True) if s == 1 - segment]
        assert asked == (["tree"] * (words - 1) + ["house"])[: len(asked)]
        assert len(asked) == (words if words + 3 + 32 <= length else min(words, length // 2 - 2))
        assert row.tokens[0] == "[CLS]"
        assert places == list(range(places[0], places[0] + len(places)))
        assert places[0] == (len(asked) + 2 if first else 1)
        end, room = begin + len(places), length - len(asked) - 3
        assert [row.offsets[p] for p in places] == whole.offsets[begin:end]
        assert len(places) == room or item is items[-1]
        last, begin = end, end - min(STRIDE, room // 2)
    assert last == len(whole.ids)


@pytest.mark.parametrize("length", [40, 128])
def test_an_answer_is_the_target_of_the_windows_that_hold_all_of_it(length: int) -> None:
    """From characters to tokens and back; an answer shorter than the overlap is in some window."""
    spans = TOKENIZER.encode(LONG, add_special_tokens=False).offsets
    for number in range(0, len(spans) - 8, 5):
        start, end = spans[number][0], spans[number + 7][1]
        question = Question("q", "Who?", LONG, ((LONG[start:end], start),))
        items = KIND.encode([question], TOKENIZER, length)
        for window, item in enumerate(items):
            (row,) = item.rows
            read = [row.offsets[place] for place in context_positions(row)]
            whole = read[0][0] <= start and end <= read[-1][1]
            assert (item.target != (0, 0)) == whole
            if whole:
                scores = marking(items, window, *item.target)
                (answer,) = KIND.answers([question], items, scores)
                assert ((answer.value, answer.start),) == question.answers
        assert any(item.target != (0, 0) for item in items)


def test_a_text_of_which_nothing_is_left() -> None:
    question = Question("q", "What?", "\u200b\u200e", ())
    for kind in (QuestionAnswering(), QuestionAnswering(True, 0.0)):
        items = kind.encode([question], TOKENIZER, 128)
        scores = score_items(tiny(kind), items)
        (answer,) = kind.answers([question], items, scores)
        assert answer.value == ""
        kind.calibrate([question], items, scores)


# -- the best span


@pytest.mark.parametrize("seed", range(20))
def test_the_best_span_by_brute_force(seed: int) -> None:
    """Never backwards, never longer than thirty tokens, and only where it is allowed."""
    dice = torch.Generator().manual_seed(seed)
    size = int(torch.randint(1, 80, (), generator=dice))
    start, end = torch.randn(2, size + 9, generator=dice) * 5
    start[:6] = end[:6] = start[size + 6 :] = end[size + 6 :] = 100  # the question, the padding
    places = range(6, 6 + size)
    spans = [
        (float(start[a] + end[b]), a, b)
        for a in places
        for b in places
        if a <= b < a + LONGEST_ANSWER
    ]
    score, first, last = best_span(start, end, list(places))
    assert (pytest.approx(score), first, last) == max(spans)


# -- none


def test_none_is_said_above_the_threshold_and_must_be_likely_in_every_window() -> None:
    question = ask("Who?", LONG, "Mira")
    items = KIND.encode([question], TOKENIZER, 128)
    scores = [torch.ones(2, item.length) for item in items]
    assert len(items) > 2
    for doubt in (None, *range(len(items))):
        for number, each in enumerate(scores):
            each[:, 0] = -0.5 if number == doubt else 1.5  # start and end: -1 or 3; the best span 2
        sure = 1.0 if doubt is None else -3.0
        for kind, silent in (
            (QuestionAnswering(True, sure - 0.1), True),
            (QuestionAnswering(True, sure), False),
            (QuestionAnswering(True), False),
            (QuestionAnswering(False, sure - 0.1), False),
        ):
            (answer,) = kind.answers([question], items, scores)
            assert (answer.value == "", answer.no_answer) == (silent, sure)


@pytest.mark.parametrize("by_character", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_no_threshold_scores_better_on_dev(seed: int, by_character: bool) -> None:
    kind = QuestionAnswering(True, -123.0, by_character)  # what was set before does not matter
    dice = torch.Generator().manual_seed(seed)
    words = ["Mira", "snow", "gate", ""]
    picked = torch.randint(3 if seed == 1 else 4, (12,), generator=dice).tolist()
    questions = [
        ask("Who?", CONTEXT, "" if seed == 2 else words[i], name=str(n))
        for n, i in enumerate(picked)
    ]
    items = kind.encode(questions, TOKENIZER, 128)
    scores = [torch.randn(2, item.length, generator=dice) for item in items]
    for item, score in zip(items[::2], scores[::2], strict=True):  # some answers are right
        score[0, item.target[0]] += 6
        score[1, item.target[1]] += 6

    def f1(threshold: float) -> float:
        kind.threshold = threshold
        outcomes = kind.outcomes(questions, kind.answers(questions, items, scores))
        return kind.metrics(outcomes)["character_f1" if by_character else "f1"]

    kind.calibrate(questions, items, scores)
    chosen = kind.threshold
    for tried in (-math.inf, *torch.linspace(-15, 15, 61).tolist(), math.inf):
        assert f1(tried) <= f1(chosen) + 1e-9
    if seed == 2:
        assert f1(chosen) == 1
