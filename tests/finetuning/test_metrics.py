"""The measures against their definitions, and SQuAD's arithmetic on its tricky cases."""

import math
import random

import numpy as np
import pytest

from bertedu.finetuning.examples import Question
from bertedu.finetuning.kinds import Classification, Kind, Regression
from bertedu.finetuning.metrics import (
    best_threshold,
    character_f1,
    exact_match,
    normalize_answer,
    squad_scores,
    tagging_scores,
    word_f1,
)

# -- SQuAD


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("The Cat", "cat"),
        ("a cat", "cat"),
        ("an  apple\ta day", "apple day"),
        ("theater", "theater"),  # an article is a word, not a beginning
        ("U.S.A.", "usa"),
        ("the the", ""),
        ("A", ""),  # vitamin A, too: the published script does the same
        ("it's", "its"),
        ("well-known", "wellknown"),
        ("a-b", "ab"),  # punctuation goes first, so this "a" is no article any more
        ("50%", "50"),
        ("“quoted”", "“quoted”"),  # only ASCII punctuation
        ("Straße", "straße"),
        ("  ", ""),
    ],
)
def test_normalization(text: str, normal: str) -> None:
    assert normalize_answer(text) == normal


@pytest.mark.parametrize(
    ("found", "answer", "exact", "f1"),
    [
        ("The Denver Broncos", "Denver Broncos", 1, 1),
        ("Broncos", "Denver Broncos", 0, 2 / 3),
        ("Denver Denver", "Denver Broncos", 0, 0.5),  # a word counts as often as both have it
        ("", "", 1, 1),
        ("the", "", 1, 1),  # nothing is left of it
        ("", "Denver", 0, 0),
        ("Denver", "", 0, 0),
        ("Boston", "Denver", 0, 0),
        ("gold, silver", "silver gold", 0, 1),  # words have no order in F1
    ],
)
def test_exact_match_and_f1(found: str, answer: str, exact: float, f1: float) -> None:
    assert exact_match(found, answer) == exact
    assert word_f1(found, answer) == pytest.approx(f1)
    assert word_f1(answer, found) == pytest.approx(f1)


def question(name: str, *answers: str) -> Question:
    return Question(name, "?", "context", tuple((text, 0) for text in answers))


def test_the_best_of_several_answers_counts() -> None:
    questions = [question("1", "Denver", "the Denver Broncos"), question("2"), question("3", "x")]
    scores = squad_scores(questions, {"1": "Denver Broncos", "2": "", "3": ""})
    assert scores["exact"] == pytest.approx(200 / 3)
    assert scores["f1"] == pytest.approx(200 / 3)
    assert (scores["answerable_f1"], scores["unanswerable_f1"]) == (50, 100)
    assert "answerable_f1" not in squad_scores(questions[:1], {"1": "Denver"})


def test_an_answer_that_normalizes_to_nothing_counts_as_none() -> None:
    assert squad_scores([question("1", "the")], {"1": ""})["f1"] == 100


def test_a_question_left_out_is_an_error() -> None:
    with pytest.raises(KeyError):
        squad_scores([question("1", "x")], {})


def brute_force(
    questions: list[Question], found: dict[str, str], scores: dict[str, float]
) -> float:
    best = -1.0
    for t in [-math.inf, *scores.values(), math.inf]:
        for silent in (lambda s, t=t: s >= t, lambda s, t=t: s > t):
            said = {n: "" if silent(scores[n]) else a for n, a in found.items()}
            best = max(best, squad_scores(questions, said)["f1"])
    return best


@pytest.mark.parametrize("seed", range(30))
def test_no_threshold_is_better_than_the_best(seed: int) -> None:
    rng = random.Random(seed)
    words = ["red", "green", "blue"]
    questions, found, scores = [], {}, {}
    for n in map(str, range(rng.randint(1, 9))):
        questions.append(question(n, *([rng.choice(words)] if rng.random() < 0.6 else [])))
        found[n] = " ".join(rng.sample(words, rng.randint(1, 2)))
        scores[n] = rng.choice([0.0, 0.5, 1.0, rng.random()])
    threshold = best_threshold(questions, found, scores)
    said = {n: "" if scores[n] > threshold else answer for n, answer in found.items()}
    assert squad_scores(questions, said)["f1"] == pytest.approx(
        brute_force(questions, found, scores)
    )


def test_who_is_always_right_should_always_answer() -> None:
    questions = [question(n, "x") for n in "abc"]
    assert best_threshold(questions, dict.fromkeys("abc", "x"), dict.fromkeys("abc", 0.9)) == np.inf


# -- the others


def scores_of(kind: Kind, right: list[int], found: list[int]) -> dict[str, float]:
    return kind.metrics(np.array([right, found], float).T)


def test_accuracy_and_macro_f1_by_hand() -> None:
    scores = scores_of(Classification(()), [0, 0, 0, 1], [0, 0, 1, 1])
    assert scores["accuracy"] == 0.75
    assert scores["macro_f1"] == pytest.approx((0.8 + 2 / 3) / 2)
    always = scores_of(Classification(()), [0] * 9 + [1], [0] * 10)
    assert always["accuracy"] == 0.9
    assert always["macro_f1"] < 0.5, "always the same class must not look good"


def test_correlations_by_hand() -> None:
    scores = scores_of(Regression(), [1, 2, 3, 4], [1, 2, 3, 40])
    assert scores["spearman"] == pytest.approx(1)
    mine = np.corrcoef([1, 2, 3, 4], [1, 2, 3, 40])[0, 1]
    assert scores["pearson"] == pytest.approx(mine)
    assert scores_of(Regression(), [1, 2, 3], [5, 5, 5]) == {"pearson": 0, "spearman": 0}
    shifted = scores_of(Regression(), [1, 2, 4], [10, 20, 40])
    assert shifted["pearson"] == pytest.approx(1), "scale does not matter"


def entities(tags: list[str]) -> set[tuple[str, int, int]]:
    """Every whole entity, by a plain walk."""
    found, start = set(), None
    for i, tag in enumerate([*tags, "O"]):
        if start is not None and tag != f"I-{tags[start][2:]}":
            found.add((tags[start][2:], start, i))
            start = None
        if tag.startswith("B-"):
            start = i
    return found


@pytest.mark.parametrize("seed", range(20))
def test_entity_f1_by_a_plain_walk(seed: int) -> None:
    rng = random.Random(seed)
    choice = ["O", "O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
    right, found = ([[rng.choice(choice) for _ in range(12)] for _ in range(6)] for _ in "12")
    for sentence in right:  # a gold I- follows its B- or I-
        for i, tag in enumerate(sentence):
            if tag.startswith("I-") and (i == 0 or sentence[i - 1][1:] != tag[1:]):
                sentence[i] = f"B{tag[1:]}"
    hits = sum(len(entities(a) & entities(b)) for a, b in zip(right, found, strict=True))
    total = sum(len(entities(tags)) for tags in right + found)
    expected = 2 * hits / total if total else 0
    assert tagging_scores(right, found)["f1"] == pytest.approx(expected)


def test_half_an_entity_is_no_entity() -> None:
    right = [["B-PER", "I-PER", "O"]]
    assert tagging_scores(right, [["B-PER", "O", "O"]])["f1"] == 0
    assert tagging_scores(right, [["B-LOC", "I-LOC", "O"]])["f1"] == 0
    assert tagging_scores(right, right)["f1"] == 1
    only_o = tagging_scores([["B-PER", *"O" * 9]], [["O"] * 10])
    assert (only_o["f1"], only_o["accuracy"]) == (0, 0.9), "accuracy flatters who finds nothing"


def test_korean_answers_share_characters() -> None:
    """A particle at the end of a word costs a part of the score there, and all of it by words."""
    assert character_f1("서울에서", "서울") == pytest.approx(2 * 0.5 * 1 / 1.5)
    assert word_f1("서울에서", "서울") == 0
    assert character_f1("《서울》", "서울.") == 1
    assert character_f1("a cat", "a dog") == pytest.approx(2 / 8), "no article is dropped"
    assert character_f1("", "서울") == 0
    assert character_f1("", "") == 1
    question = Question("k", "어디?", "그는 서울에서 왔다", (("서울", 3),))
    by_character = squad_scores([question], {"k": "서울에서"}, character_f1)
    assert by_character["f1"] == pytest.approx(200 / 3)
    assert by_character["exact"] == 0


def test_matthews_and_the_f1_of_one_class() -> None:
    labels, found = [1, 1, 0, 0, 1], [1, 0, 0, 1, 1]
    scores = scores_of(Classification(()), labels, found)
    # true positives 2, false positives 1, false negatives 1, true negatives 1
    assert scores["binary_f1"] == pytest.approx(2 * 2 / (2 * 2 + 1 + 1))
    assert scores["matthews"] == pytest.approx((2 * 1 - 1 * 1) / (3 * 3 * 2 * 2) ** 0.5)
    assert scores_of(Classification(()), [1, 1], [1, 1])["matthews"] == 0, "one class only"
    assert "binary_f1" not in scores_of(Classification(()), [0, 1, 2], [0, 1, 1])
