"""SQuAD's arithmetic on its tricky cases; a best threshold by brute force: `calibrate`."""

import math

import pytest

from bertedu.finetuning.evaluation.metrics import (
    best_threshold,
    character_f1,
    exact_match,
    normalize_answer,
    squad_scores,
    word_f1,
)
from bertedu.finetuning.examples import Question


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("The Cat", "cat"),
        ("an  apple\ta day", "apple day"),
        ("theater", "theater"),  # an article is a word, not a beginning
        ("U.S.A.", "usa"),
        ("the the A", ""),  # vitamin A, too: the published script does the same
        ("a-b", "ab"),  # punctuation goes first, so this "a" is no article any more
        ("“quoted” 50%", "“quoted” 50"),  # only ASCII punctuation
        ("Straße", "straße"),
    ],
)
def test_normalization(text: str, normal: str) -> None:
    assert normalize_answer(text) == normal


@pytest.mark.parametrize(
    ("found", "answer", "exact", "f1", "by_character"),
    [
        ("The Denver Broncos", "Denver Broncos", 1, 1, 26 / 29),
        ("Broncos", "Denver Broncos", 0, 2 / 3, 14 / 20),
        ("Denver Denver", "Denver Broncos", 0, 0.5, 16 / 25),  # as often as both have it
        ("", "", 1, 1, 1),
        ("the", "", 1, 1, 0),  # nothing is left of it, by words
        ("", "Denver", 0, 0, 0),
        ("x", "Denver", 0, 0, 0),
        ("gold, silver", "silver gold", 0, 1, 1),  # words have no order in F1
        ("서울에서", "서울", 0, 0, 2 / 3),  # a particle at the end of a word
        ("《서울》", "서울.", 0, 0, 1),
    ],
)
def test_exact_match_and_f1(
    found: str, answer: str, exact: float, f1: float, by_character: float
) -> None:
    assert exact_match(found, answer) == exact
    for one, other in ((found, answer), (answer, found)):
        assert word_f1(one, other) == pytest.approx(f1)
        assert character_f1(one, other) == pytest.approx(by_character)


def question(name: str, *answers: str) -> Question:
    return Question(name, "?", "context", tuple((text, 0) for text in answers))


def test_the_best_of_several_answers_counts() -> None:
    questions = [question("1", "Denver", "the Denver Broncos"), question("2"), question("3", "x")]
    scores = squad_scores(questions, {"1": "Denver Broncos", "2": "", "3": ""})
    assert scores["exact"] == pytest.approx(200 / 3)
    assert scores["f1"] == pytest.approx(200 / 3)
    assert (scores["answerable_f1"], scores["unanswerable_f1"]) == (50, 100)
    assert "answerable_f1" not in squad_scores(questions[:1], {"1": "Denver"})
    korean = squad_scores([question("1", "서울")], {"1": "서울에서"}, character_f1)
    assert korean["f1"] == pytest.approx(200 / 3)
    assert squad_scores([question("1", "the")], {"1": ""})["f1"] == 100, "nothing is left of it"
    with pytest.raises(KeyError):
        squad_scores(questions, {"1": "x"})


def test_in_doubt_the_threshold_is_the_middle_and_who_is_right_always_answers() -> None:
    questions = [question("a", "x"), question("b")]
    said = {"a": "x", "b": "x"}
    assert best_threshold(questions, said, {"a": 1.0, "b": 4.0}) == 2.5
    assert best_threshold(questions[:1], said, {"a": 0.9}) == math.inf
    assert best_threshold(questions, said, {"a": 1.0, "b": 1.0}) == math.inf, "none is above"
