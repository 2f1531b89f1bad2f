"""Answers in a text: where they stand, which windows hold them, and when "none" is said."""

import dataclasses
import math
import random
import unicodedata
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_kinds import (
    CONTEXT,
    EXAMPLES,
    TOKENIZER,
    assert_same,
    encoded,
    named,
    scores_and_loss,
    theirs_of,
    tiny,
)
from torch import Tensor

from bertedu.finetuning.collation import Item, collate
from bertedu.finetuning.examples import Question
from bertedu.finetuning.kinds import Answer
from bertedu.finetuning.metrics import squad_scores
from bertedu.finetuning.question_answering import (
    LONGEST_ANSWER,
    STRIDE,
    QuestionAnswering,
    answer_place,
    best_span,
    context_places,
)
from bertedu.finetuning.training import score_items

KIND = QuestionAnswering()
LONG = CONTEXT * 4


def ask(question: str, context: str, answer: str = "", nth: int = 0, name: str = "q") -> Question:
    """Ask with the nth place where the answer stands, or without an answer."""
    start = -1
    for _ in range(nth + 1):
        start = context.index(answer, start + 1)
    return Question(name, question, context, ((answer, start),) if answer else ())


def windows(question: Question, max_length: int = 128) -> list[Item]:
    return KIND.encode([question], TOKENIZER, max_length)


def marked(item: Item, question: Question) -> str:
    """Read the text that a target marks."""
    (row,) = item.rows
    first, last = item.target
    return question.context[row.offsets[first][0] : row.offsets[last][1]]


def marking(items: Sequence[Item], choose: int, first: int, last: int) -> list[Tensor]:
    """Scores that are high at one span of one window."""
    scores = [torch.zeros(2, item.length) for item in items]
    scores[choose][0, first] = scores[choose][1, last] = 10
    return scores


# -- where an answer stands


@pytest.mark.parametrize(
    ("context", "answer", "expected"),
    [
        ("The café in Zürich was naïve.", "Zürich", "Zürich"),
        ("👋👋 The dog 🐶 slept here.", "slept", "slept"),
        ("👋👋 The dog 🐶 slept here.", "🐶 slept", "🐶 slept"),
        ("서울 is where Mira lives, not 한국어.", "lives", "lives"),
        ("서울 is where Mira lives, not 한국어.", "한국어", "한국어"),
        ("In 我们村 the gate was open.", "们", "们"),  # Chinese: a word for each character
        ("In 我们村 the gate was open.", "gate", "gate"),
        ("It cost $1,987.50 in all.", "1,987.50", "1,987.50"),
        ("He said \u200bno\u200e to that.", "no", "no"),
        ("ǅ İstanbul ﬁne.", "İstanbul", "İstanbul"),
        # a space before it belongs to no token, and no word before it does to the answer
        ("The gate was open.", " gate", "gate"),
        ("The gate was open.", "gate ", "gate"),
        # less than a piece: the pieces that it touches
        ("It was an unbelievable gate.", "believable", "unbelievable"),
        ("It was an unbelievable gate.", "unbe", "unbel"),
        ("It was an unbelievable gate.", "liev", "eliev"),
    ],
)
def test_an_answer_is_marked_in_characters_of_the_original(
    context: str, answer: str, expected: str
) -> None:
    question = ask("What?", context, answer)
    (item,) = windows(question)
    assert marked(item, question) == expected


def test_accents_of_their_own_belong_to_their_letter() -> None:
    """One é is one character, the other two; no word after it may slip in."""
    context = unicodedata.normalize("NFD", "The café au lait was naïve of Zoë.")
    answer = unicodedata.normalize("NFD", "café")
    question = ask("What?", context, answer)
    (item,) = windows(question)
    (row,) = item.rows
    assert row.tokens[item.target[0] : item.target[1] + 1] == ["ca", "##f", "##e"]


def test_every_answer_is_found_at_both_ends_of_a_text() -> None:
    words = CONTEXT.split()
    for answer in (words[0], " ".join(words[:5]), CONTEXT.strip()[-1], "the gate was open."):
        question = ask("Who?", CONTEXT, answer)
        (item,) = windows(question)
        assert marked(item, question) == answer
    (row,) = item.rows
    assert item.target[1] == len(row.ids) - 2  # the last but [SEP]


def test_an_answer_cut_by_the_end_of_a_window_is_not_in_it() -> None:
    question = ask("Who?", LONG)
    for item in windows(question, 50):
        (row,) = item.rows
        places = context_places(row)
        begin, end = row.offsets[places[0]][0], row.offsets[places[-1]][1]
        assert answer_place(row, begin, end) == (places[0], places[-1])
        if begin:
            assert answer_place(row, begin - 1, end) == (0, 0)
            assert answer_place(row, 0, begin) == (0, 0)
        if end < len(LONG.rstrip()):
            assert answer_place(row, begin, end + 1) == (0, 0)
            assert answer_place(row, end, end + 4) == (0, 0)


def test_nothing_is_marked_in_the_question() -> None:
    question = ask("Was the house open?", "The house was open.", "house")
    (item,) = windows(question)
    (row,) = item.rows
    assert item.target[0] > row.tokens.index("[SEP]")
    assert all(row.type_ids[place] == 1 for place in context_places(row))
    assert len(context_places(row)) == 5


def test_a_special_token_in_the_text_is_a_word_like_others() -> None:
    question = ask("What [SEP] is it?", "First [SEP] then [CLS] the gate.", "the gate")
    (item,) = windows(question)
    assert marked(item, question) == "the gate"


# -- windows


@pytest.mark.parametrize("length", [24, 33, 64, 90, 128])
@pytest.mark.parametrize("text", [LONG, LONG.replace("e", "é"), "unbelievably " * 70])
def test_windows_cover_the_text_and_overlap_by_the_stride(text: str, length: int) -> None:
    question = ask("What was open?", text)
    items = windows(question, length)
    head = TOKENIZER.encode(question.question).ids
    room = length - len(head) - 1
    stride = min(STRIDE, room // 2)
    whole = TOKENIZER.encode(text, add_special_tokens=False)
    begin = 0
    assert len(items) > 1
    for item in items:
        (row,) = item.rows
        places = context_places(row)
        assert row.ids[: len(head)] == head
        assert places == list(range(len(head), len(row.ids) - 1))
        assert row.ids[-1] == head[-1]
        end = begin + len(places)
        assert [row.ids[p] for p in places] == whole.ids[begin:end]
        assert [row.offsets[p] for p in places] == whole.offsets[begin:end]
        assert len(row.ids) == length or item is items[-1]
        last, begin = end, end - stride
    assert last == len(whole.ids)


@pytest.mark.parametrize("length", [40, 128])
def test_an_answer_shorter_than_the_overlap_is_whole_in_some_window(length: int) -> None:
    spans = TOKENIZER.encode(LONG, add_special_tokens=False).offsets
    for number in range(0, len(spans) - 8, 5):
        start, end = spans[number][0], spans[number + 7][1]
        question = Question("q", "Who?", LONG, ((LONG[start:end], start),))
        found = [item for item in windows(question, length) if item.target != (0, 0)]
        assert found
        for item in found:
            assert marked(item, question) == LONG[start:end]
            assert item.rows[0].offsets[item.target[0]][0] == start, "this place, not its twin"


def test_the_first_of_several_answers_is_the_target() -> None:
    twice = ("gate", CONTEXT.index("gate")), ("snow", CONTEXT.index("snow"))
    for answers in (twice, twice[::-1]):
        question = Question("q", "What?", CONTEXT, answers)
        (item,) = windows(question)
        assert marked(item, question) == answers[0][0]


def test_windows_without_the_answer_are_asked_for_none() -> None:
    question = ask("When?", LONG, "1987")
    items = windows(question)
    assert [marked(item, question) for item in items] == ["1987"] + [""] * (len(items) - 1)
    assert len(items) > 2
    assert {item.target for item in windows(ask("When?", LONG))} == {(0, 0)}


@pytest.mark.parametrize("length", [8, 9, 15, 16, 20, 31, 40, 63, 64, 65, 100, 128])
@pytest.mark.parametrize("words", [1, 3, 12, 30, 60, 95, 200])
def test_questions_of_any_length_leave_room_for_the_text(length: int, words: int) -> None:
    question = ask("tree " * (words - 1) + "house", CONTEXT, "1987")
    items = windows(question, length)
    assert max(item.length for item in items) <= length
    read: set[tuple[int, int]] = set()
    for item in items:
        (row,) = item.rows
        places = context_places(row)
        read |= {row.offsets[place] for place in places}
        if item is not items[-1]:
            assert len(places) >= min(32, length // 2 - 1), "room for the text"
        asked = [t for t, s in zip(row.tokens, row.sequence_ids, strict=True) if s == 0]
        assert asked == (["tree"] * (words - 1) + ["house"])[: len(asked)]
        if words + 3 + 32 <= length:
            assert len(asked) == words, "no need to cut"
        else:
            assert len(asked) >= min(words, length // 2 - 2)
    assert read == set(TOKENIZER.encode(CONTEXT, add_special_tokens=False).offsets)
    assert any(marked(item, question) == "1987" for item in items) or length < 16


def test_a_text_shorter_than_everything() -> None:
    question = ask("What?", "No", "No")
    (item,) = windows(question)
    assert marked(item, question) == "No"
    (answer,) = KIND.answers([question], [item], [torch.zeros(2, item.length)])
    assert (answer.value, answer.start) == ("No", 0)


def test_a_text_of_which_nothing_is_left() -> None:
    question = Question("q", "What?", "\u200b\u200e", ())
    for can_be_none in (False, True):
        kind = QuestionAnswering(can_be_none, 0.0)
        items = kind.encode([question], TOKENIZER, 128)
        model = tiny(kind)
        (answer,) = kind.answers([question], items, score_items(model, items))
        assert answer.value == ""
        kind.calibrate([question], items, score_items(model, items))


# -- the best span


def brute_force(start: Tensor, end: Tensor, places: Sequence[int]) -> tuple[float, int, int]:
    spans = [
        (float(start[a] + end[b]), a, b)
        for a in places
        for b in places
        if a <= b < a + LONGEST_ANSWER
    ]
    return max(spans, key=lambda span: span[0])


@pytest.mark.parametrize("seed", range(20))
def test_the_best_span_by_brute_force(seed: int) -> None:
    dice = torch.Generator().manual_seed(seed)
    size = int(torch.randint(1, 60, (), generator=dice))
    start, end = torch.randn(2, size + 9, generator=dice) * 5
    places = list(range(6, 6 + size))
    score, first, last = best_span(start, end, places)
    expected = brute_force(start, end, places)
    assert score == pytest.approx(expected[0])
    assert (first, last) == expected[1:]
    assert 6 <= first <= last < 6 + size


def test_an_answer_is_no_longer_than_thirty_tokens_and_never_backwards() -> None:
    places = list(range(5, 60))
    for a, b, fits in ((10, 39, True), (10, 40, False), (20, 20, True), (20, 19, False)):
        start, end = torch.zeros(2, 64)
        start[a] = end[b] = 10
        score, first, last = best_span(start, end, places)
        assert (first, last) == (a, b) if fits else score == 10
        assert first <= last < first + LONGEST_ANSWER
    everywhere = torch.zeros(64)
    everywhere[:5] = everywhere[60:] = 100  # the question and the padding may not be marked
    assert best_span(everywhere, everywhere, places)[0] == 0


# -- answers


def test_what_is_answered_is_a_piece_of_the_text() -> None:
    """Marked in any window, an answer is the exact text, and starts where it says."""
    question = ask("Qui?", LONG.replace("e", "é").replace("Wolvés", "🐺"))
    items = windows(question)
    assert len(items) > 2
    for number, item in enumerate(items):
        (row,) = item.rows
        places = context_places(row)
        for first, last in ((places[0], places[3]), (places[7], places[7]), (places[-5],) * 2):
            scores = marking(items, number, first, last)
            (answer,) = KIND.answers([question], items, scores)
            assert answer.start == row.offsets[first][0]
            assert answer.value == question.context[answer.start : row.offsets[last][1]]
            assert answer.value != ""
    for seed in range(5):
        model = tiny(KIND, seed=seed)
        (answer,) = KIND.answers([question], items, score_items(model, items))
        at = answer.start
        assert question.context[at : at + len(answer.value)] == answer.value != ""


def test_a_target_answered_is_the_answer() -> None:
    """From characters to tokens and back."""
    questions = [ask("?", LONG, "the first snow", nth) for nth in range(4)]
    for question in questions:
        items = windows(question)
        for number, item in enumerate(items):
            if item.target == (0, 0):
                continue
            (answer,) = KIND.answers([question], items, marking(items, number, *item.target))
            assert ((answer.value, answer.start),) == question.answers
            assert KIND.outcomes([question], [answer]).tolist() == [[1, 1, 1]]


def test_each_question_gets_the_best_of_its_own_windows() -> None:
    questions = [ask("A?", CONTEXT), ask("B?", LONG), ask("C?", CONTEXT)]
    items = KIND.encode(questions, TOKENIZER, 128)
    assert [item.example for item in items][:2] == [0, 1]
    dice = torch.Generator().manual_seed(7)
    scores = [torch.randn(2, item.length, generator=dice) for item in items]
    before = KIND.answers(questions, items, scores)
    for number, item in enumerate(items):
        pushed = [each.clone() for each in scores]
        pushed[number][:, 20] += 50
        after = KIND.answers(questions, items, pushed)
        (row,) = item.rows
        for example in range(3):
            if example == item.example:
                assert after[example].start == row.offsets[20][0]
            else:
                assert after[example] == before[example]


def test_none_must_be_likely_in_every_window() -> None:
    kind = QuestionAnswering(True, 0.0)
    question = ask("Who?", LONG, "Mira")
    items = kind.encode([question], TOKENIZER, 128)
    assert len(items) > 2

    def answer(none: Sequence[float]) -> Answer:
        scores = [torch.zeros(2, item.length) for item in items]
        for each, value in zip(scores, none, strict=True):
            each[:, 0] = value / 2
        return kind.answers([question], items, scores)[0]

    sure = answer([5.0] * len(items))
    assert (sure.value, sure.no_answer) == ("", 5.0)
    for number in range(len(items)):
        none = [5.0] * len(items)
        none[number] = -1.0
        doubt = answer(none)
        assert (doubt.value != "", doubt.no_answer) == (True, -1.0)


def test_none_is_said_above_the_threshold_and_only_if_it_can_be() -> None:
    question = ask("Who?", CONTEXT)
    (item,) = windows(question)
    scores = torch.zeros(2, item.length)
    scores[:, 0] = 1.5  # none: 3; the best span: 0
    for kind, silent in (
        (QuestionAnswering(True, 2.9), True),
        (QuestionAnswering(True, 3.0), False),
        (QuestionAnswering(True, 3.1), False),
        (QuestionAnswering(True), False),
        (QuestionAnswering(False, 2.9), False),
    ):
        (answer,) = kind.answers([question], [item], [scores])
        assert (answer.value == "") is silent
        assert answer.no_answer == 3


# -- the threshold


def calibrated(none: Sequence[float], answerable: Sequence[bool]) -> tuple[float, list[str]]:
    """Set the threshold on questions whose spans are always right, if there is anything right."""
    questions = [
        ask(f"Who {n}?", CONTEXT, "Mira" if some else "", name=str(n))
        for n, some in enumerate(answerable)
    ]
    kind = QuestionAnswering(True, -123.0)
    items = kind.encode(questions, TOKENIZER, 128)
    scores = []
    for item, value in zip(items, none, strict=True):
        row = torch.full((2, item.length), -50.0)
        mir, a = context_places(item.rows[0])[:2]
        row[0, mir] = row[1, a] = 0
        row[:, 0] = value / 2
        scores.append(row)
    kind.calibrate(questions, items, scores)
    return kind.threshold, [answer.value for answer in kind.answers(questions, items, scores)]


def test_the_threshold_parts_those_with_from_those_without() -> None:
    threshold, said = calibrated([-4, 3, -2, 5], [True, False, True, False])
    assert threshold == pytest.approx(0.5)  # between -2 and 3
    assert said == ["Mira", "", "Mira", ""]
    threshold, said = calibrated([6, 3, 7, 5], [True, False, False, False])
    assert said == ["", "", "", ""], "one wrong for three right"


def test_where_all_have_answers_none_is_never_said() -> None:
    assert calibrated([9, 3, -2], [True] * 3) == (math.inf, ["Mira"] * 3)


def test_where_none_has_an_answer_none_is_always_said() -> None:
    threshold, said = calibrated([9, 3, -2], [False] * 3)
    assert said == [""] * 3
    assert -4 < threshold < -2


def test_no_threshold_scores_better_on_dev() -> None:
    rng = random.Random(0)
    kind = QuestionAnswering(True)
    words = ["Mira", "snow", "gate", ""]
    questions = [ask("Who?", CONTEXT, rng.choice(words), name=str(n)) for n in range(12)]
    items = kind.encode(questions, TOKENIZER, 128)
    dice = torch.Generator().manual_seed(1)
    scores = [torch.randn(2, item.length, generator=dice) for item in items]
    for number in range(0, 12, 2):  # some answers are right
        scores[number][0, items[number].target[0]] += 6
        scores[number][1, items[number].target[1]] += 6

    def f1() -> float:
        return kind.metrics(kind.outcomes(questions, kind.answers(questions, items, scores)))["f1"]

    kind.calibrate(questions, items, scores)
    best, chosen = f1(), kind.threshold
    for kind.threshold in (-math.inf, *np.linspace(-15, 15, 121).tolist(), math.inf):
        assert f1() <= best + 1e-9
    kind.calibrate(questions, items, scores)
    assert kind.threshold == chosen, "what was set before does not matter"


def test_without_questions_that_have_none_nothing_is_set() -> None:
    kind = QuestionAnswering(False, 7.0)
    questions = [ask("Who?", CONTEXT)]
    items = kind.encode(questions, TOKENIZER, 128)
    kind.calibrate(questions, items, [torch.zeros(2, items[0].length)])
    assert kind.threshold == 7


# -- scores and loss


@pytest.mark.parametrize("rows", [1, 3])
def test_scores_and_loss_as_in_transformers(tmp_path: Path, rows: int) -> None:
    transformers = pytest.importorskip("transformers")
    model, batch = tiny(KIND), encoded(KIND, EXAMPLES["span"][:rows])
    theirs = theirs_of(model, "span", tmp_path, transformers.AutoModelForQuestionAnswering)
    scores, loss = scores_and_loss(model, batch)
    with torch.no_grad():
        expected = theirs(
            **named(batch),
            start_positions=batch.target[:, 0],
            end_positions=batch.target[:, 1],
        )
    real = batch.padding_mask
    assert_same(scores[:, 0][real], expected.start_logits[real])
    assert_same(scores[:, 1][real], expected.end_logits[real])
    if rows == 1:  # theirs lets padding take part of the probability
        assert real.all()
        assert_same(loss, expected.loss)
    else:
        assert not real.all()


def test_padding_gets_no_probability() -> None:
    model = tiny(KIND)
    items = KIND.encode(EXAMPLES["span"], TOKENIZER, 128)
    short, long = items[0], max(items, key=lambda item: item.length)
    batch = collate([short, long])
    scores, _ = scores_and_loss(model, batch)
    assert scores[0, :, short.length :].shape[1] > 10
    assert scores.softmax(-1)[0, :, short.length :].sum() == 0
    assert scores.softmax(-1)[0, :, : short.length].sum() == pytest.approx(2)
    losses = [scores_and_loss(model, collate([item]))[1] for item in (short, long)]
    assert_same(KIND.loss(scores, batch), torch.stack(losses).mean())


def test_start_and_end_are_asked_for_separately() -> None:
    model = tiny(KIND)
    batch = encoded(KIND, EXAMPLES["span"][:1])
    scores = model(batch).detach()
    before = float(KIND.loss(scores, batch))
    (start, end), changes = batch.target[0].tolist(), {}
    assert start != end
    for which, place in ((0, start), (0, end), (1, start), (1, end)):
        pushed = scores.clone()
        pushed[0, which, place] += 3
        changes[which, place] = float(KIND.loss(pushed, batch)) - before
    assert changes[0, start] < 0 < changes[0, end]
    assert changes[1, end] < 0 < changes[1, start]


def test_answers_of_the_dataset_do_not_move_what_is_said() -> None:
    model = tiny(KIND)
    given: list[list[Question]] = [[], []]
    for example in EXAMPLES["span"]:
        assert isinstance(example, Question)
        given[0].append(example)
        given[1].append(dataclasses.replace(example, answers=()))
    said = []
    for questions in given:
        items = KIND.encode(questions, TOKENIZER, 128)
        said.append(KIND.answers(questions, items, score_items(model, items)))
    assert said[0] == said[1]


# -- measures


def test_outcomes_are_what_squad_counts() -> None:
    questions = [
        Question("a", "?", CONTEXT, (("Mira", 0), ("1987", CONTEXT.index("1987")))),
        ask("?", CONTEXT, "the gate", name="b"),
        ask("?", CONTEXT, name="c"),
        ask("?", CONTEXT, name="d"),
    ]
    said = ["in 1987.", "gate", "", "snow"]
    outcomes = KIND.outcomes(questions, [Answer(text) for text in said])
    assert outcomes[:, 0].tolist() == [0, 1, 1, 0]
    assert outcomes[:, 1] == pytest.approx([2 / 3, 1, 1, 0])
    assert outcomes[:, 2].tolist() == [1, 1, 0, 0]
    for part in ([0, 1, 2, 3], [0, 1], [2, 3], [0, 3], [1]):
        expected = squad_scores(
            [questions[i] for i in part], {questions[i].name: said[i] for i in part}
        )
        scores = {name: value / 100 for name, value in expected.items()}
        assert KIND.metrics(outcomes[part]) == pytest.approx(scores)
    assert "answerable_f1" in KIND.metrics(outcomes)
