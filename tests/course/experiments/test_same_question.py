"""The same question under three masks: which blanks are asked, and what is made of the answers."""

import numpy as np
import pytest
import torch

from bertedu.model.bert import BertForPreTraining
from bertedu.model.config import DIRECTIONS, BertConfig
from bertedu.pretraining.next_sentence import EncodedDocument
from course.experiments.same_question import (
    ALL,
    BOTH,
    KINDS,
    LEFT,
    PAIR,
    RIGHT,
    TOGETHER,
    Blanks,
    Neighbors,
    answer_all,
    difference_rows,
    find_blanks,
    join,
    longer_rows,
    neighbors_of,
    score_rows,
)
from course.results.bootstrap import verdict_of

SIZE = 40
Runs = dict[str, list[list[BertForPreTraining]]]  # reader -> of each seed, one model or two


def _documents() -> list[EncodedDocument]:
    """Sentences in which 10 tells 11, 13 tells 12, and 14 and 16 together tell 15."""
    told = [[10, 11, 20 + i % 9] for i in range(90)] + [[20 + i % 9, 12, 13] for i in range(90)]
    # what stands beside 11 and 12 on the other side stands beside many other words, too
    told += [[30 + i % 7, 30 + i % 5, 20 + i % 9] for i in range(1200)]
    told += [[20 + i % 9, 30 + i % 5, 30 + i % 7] for i in range(1200)]
    both = [[14, 15, 16]] * 10
    left = [[14, 20 + i % 19, 30 + i % 7] for i in range(120)]
    right = [[30 + i % 7, 20 + i % 19, 16] for i in range(120)]
    return [EncodedDocument("", [s]) for s in told + both + left + right]


DOCUMENTS = _documents()
NEIGHBORS = Neighbors(*neighbors_of(DOCUMENTS), SIZE)


def kind_of(left: int, word: int, right: int) -> str:
    (number,) = NEIGHBORS.kinds(*(np.array([i]) for i in (left, word, right)))
    return "" if number < 0 else KINDS[number]


def test_kinds_of_blanks_by_what_tells_them() -> None:
    assert kind_of(10, 11, 25) == "left"
    assert kind_of(25, 12, 13) == "right"
    assert kind_of(14, 15, 16) == "both needed"
    assert kind_of(14, 20, 16) == "neither"
    assert kind_of(10, 11, 39) == "left"  # a right neighbor that was never met tells nothing
    assert kind_of(39, 15, 38) == "neither"


def test_joined_sides_are_right_where_they_are_independent() -> None:
    generator = torch.Generator().manual_seed(0)
    prior = torch.rand(5, generator=generator).softmax(-1)
    by_left, by_right = torch.rand(2, 5, generator=generator)  # P(side | word)
    left, right, both = (
        (prior * likelihood / (prior * likelihood).sum()).log()
        for likelihood in (by_left, by_right, by_left * by_right)
    )
    torch.testing.assert_close(join(left, right, prior.log()), both)


@pytest.fixture(scope="module")
def models() -> Runs:
    made: Runs = {}
    for name, direction in zip((BOTH, LEFT, RIGHT), DIRECTIONS, strict=True):
        sizes = (SIZE, 16, 1, 2, 32, 16, 2, 0.0)
        config = BertConfig(*sizes, initializer_range=0.3, direction=direction)
        for seed in range(2):
            torch.manual_seed(seed)
            made.setdefault(name, []).append([BertForPreTraining(config).eval()])
    pairs = [left + right for left, right in zip(made[LEFT], made[RIGHT], strict=True)]
    return made | {PAIR: pairs, TOGETHER: pairs[::-1]}


def test_nobody_sees_the_hidden_word_nor_the_side_that_is_not_theirs(models: Runs) -> None:
    def losses(*sentence: int) -> dict[str, float]:
        blank = Blanks([sentence], np.array([2]), np.array([0]), [ALL])
        asked = answer_all(models, blank, torch.zeros(SIZE))
        return {name: float(runs[0][0][0]) for name, runs in asked.items()}

    before = losses(21, 22, 23, 24, 25)
    by_left, by_right = losses(31, 22, 23, 24, 25), losses(21, 22, 23, 24, 35)
    for changed, alone in ((by_left, LEFT), (by_right, RIGHT)):
        moved = {name for name in before if abs(changed[name] - before[name]) > 1e-4}
        assert moved == {BOTH, alone, PAIR, TOGETHER}
    # over all words that could be hidden there, chances add up to 1: the word itself is not read
    all_words = [losses(21, 22, word, 24, 25) for word in range(5, SIZE)]
    for name in before:
        assert sum(np.exp(-some[name]) for some in all_words) == pytest.approx(1, abs=1e-4)


def test_rows_and_differences(models: Runs) -> None:
    blanks = find_blanks(DOCUMENTS, NEIGHBORS, per_kind=10)
    asked = answer_all(models, blanks, torch.zeros(SIZE))
    rows = {(r["reader"], r["seed"], r["told_by"]): r for r in score_rows(asked, blanks)}
    assert len(rows) == 5 * 2 * 5
    hits = asked[LEFT][1][1][np.array(blanks.kinds) == "left"]
    assert rows[LEFT, 1, "left"]["accuracy"] == round(float(hits.mean()), 4)
    mean = {name: (rows[name, 0, ALL]["loss"] + rows[name, 1, ALL]["loss"]) / 2 for name in asked}
    differences = difference_rows(asked, blanks)
    for row in differences:
        assert row["less_loss_low"] < row["less_loss"] < row["less_loss_high"]
        if row["told_by"] == ALL and "run" not in row["one"]:
            gap = mean[row["other"]] - mean[row["one"]]
            assert row["less_loss"] == pytest.approx(gap, abs=2e-4)
    assert sum("run" in row["one"] for row in differences) == 5 * 5


def test_a_gap_is_wider_by_what_the_longer_reading_adds_to_it() -> None:
    blanks = Blanks([[7]] * 90, np.zeros(90, int), np.arange(90) // 3, [ALL] * 90)
    dice = np.random.default_rng(0)
    hard = dice.normal(4.0, 1.0, 90)  # of a blank, for every reader
    short = {BOTH: hard, LEFT: hard + dice.normal(1.0, 0.2, 90)}
    marks = {
        1: {BOTH: hard - 0.5, LEFT: short[LEFT] - 0.5},  # both gain alike
        2: {BOTH: hard - 0.5, LEFT: short[LEFT]},
    }

    def verdicts(row: dict[str, float]) -> list[str]:
        return [verdict_of(row[f"{name}_low"], row[f"{name}_high"]) for name in ("gap", "wider")]

    def rows(apart: float) -> list[dict[str, float]]:
        """Three short runs of each, so far apart."""
        runs = {name: loss + np.array([[0], [apart], [-apart]]) for name, loss in short.items()}
        return longer_rows(runs, marks, blanks)

    alike, wider = rows(0.01)
    assert (alike["step"], alike["documents"], alike["wider"]) == (1, 30, 0)
    assert verdicts(alike) == ["supported", "undecided"]
    assert wider["wider"] == pytest.approx(0.5, abs=1e-4)
    assert wider["gap"] == pytest.approx(wider["left_loss"] - wider["both_loss"], abs=2e-4)
    assert verdicts(wider) == ["supported", "supported"]
    # four runs of such luck hide half a nat, two would not
    assert verdicts(rows(0.12)[1]) == ["supported", "undecided"]
