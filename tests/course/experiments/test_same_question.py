"""The same question under three masks: which blanks are asked, and what is made of the answers."""

from pathlib import Path

import numpy as np
import pytest
import torch
import typer

from bertedu.files import read_csv
from bertedu.model.bert import BertForPreTraining
from bertedu.model.config import DIRECTIONS, BertConfig
from bertedu.pretraining.next_sentence import EncodedDocument
from bertedu.text.sources import shipped
from bertedu.text.tokenization import SEP_ID, UNK_ID
from course.experiments.same_question import (
    ALL,
    BOTH,
    KINDS,
    LEFT,
    MARKS,
    PAIR,
    RIGHT,
    Blanks,
    Neighbors,
    answer_all,
    difference_rows,
    find_blanks,
    join,
    longer_rows,
    main,
    neighbors_of,
    score_rows,
)
from course.results.bootstrap import interval_over_runs, run_spread, verdict_of

SIZE = 40


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


def test_kinds_of_blanks_by_what_tells_them() -> None:
    neighbors = Neighbors(*neighbors_of(_documents()), SIZE)

    def kind(left: int, word: int, right: int) -> str:
        (number,) = neighbors.kinds(*(np.array([i]) for i in (left, word, right)))
        return "" if number < 0 else KINDS[number]

    assert kind(10, 11, 25) == "left"
    assert kind(25, 12, 13) == "right"
    assert kind(14, 15, 16) == "both needed"
    assert kind(14, 20, 16) == "neither"
    assert kind(10, 11, 39) == "left"  # a right neighbor that was never met tells nothing
    assert kind(39, 15, 38) == "neither"


def test_blanks_are_of_the_kind_they_are_called() -> None:
    documents = _documents()
    neighbors = Neighbors(*neighbors_of(documents), SIZE)
    blanks = find_blanks(documents, neighbors, per_kind=20)
    assert [blanks.kinds.count(kind) for kind in (*KINDS, ALL)] == [20] * 5
    chosen = list(zip(blanks.sentences, blanks.places, blanks.documents, strict=True))
    for (sentence, place, document), kind in zip(chosen, blanks.kinds, strict=True):
        assert documents[document].sentences[0] is sentence
        left, word, right = ([SEP_ID, *sentence, SEP_ID][place + i] for i in range(3))
        (number,) = neighbors.kinds(np.array([left]), np.array([word]), np.array([right]))
        assert kind in (ALL, KINDS[number])
    for kind in (*KINDS, ALL):  # no blank twice
        some = [(d, p) for (_, p, d), k in zip(chosen, blanks.kinds, strict=True) if k == kind]
        assert len(set(some)) == 20


def test_what_cannot_be_read_is_not_asked_for() -> None:
    documents = [EncodedDocument("", [[UNK_ID, 10, UNK_ID, 11]]) for _ in range(9)]
    blanks = find_blanks(documents, Neighbors(*neighbors_of(documents), SIZE), per_kind=99)
    assert set(blanks.places) == {1, 3}


def test_joined_sides_are_right_where_they_are_independent() -> None:
    generator = torch.Generator().manual_seed(0)
    prior = torch.rand(5, generator=generator).softmax(-1)
    by_left, by_right = torch.rand(2, 5, generator=generator)  # P(side | word)
    left, right, both = (
        (prior * likelihood / (prior * likelihood).sum()).log()
        for likelihood in (by_left, by_right, by_left * by_right)
    )
    torch.testing.assert_close(join(left, right, prior.log()), both)


def _models() -> dict[str, list[BertForPreTraining]]:
    readers = dict(zip((BOTH, LEFT, RIGHT), DIRECTIONS, strict=True))
    models: dict[str, list[BertForPreTraining]] = {}
    for name, direction in readers.items():
        models[name] = []
        for seed in range(2):
            torch.manual_seed(seed)
            config = BertConfig(SIZE, 16, 1, 2, 32, 16, 2, 0.0, initializer_range=0.3)
            config = BertConfig(**{**vars(config), "direction": direction})
            models[name].append(BertForPreTraining(config).eval())
    return models


def test_nobody_sees_the_hidden_word_nor_the_side_that_is_not_theirs() -> None:
    models, prior = _models(), torch.zeros(SIZE)

    def losses(sentence: list[int]) -> dict[str, float]:
        blank = Blanks([sentence], np.array([2]), np.array([0]), [ALL])
        asked = answer_all(models, blank, prior)
        return {name: float(runs[0][0][0]) for name, runs in asked.items()}

    before = losses([21, 22, 23, 24, 25])
    left_changed = losses([31, 22, 23, 24, 25])
    right_changed = losses([21, 22, 23, 24, 35])
    moved_by_left = {name for name in before if abs(left_changed[name] - before[name]) > 1e-4}
    moved_by_right = {name for name in before if abs(right_changed[name] - before[name]) > 1e-4}
    assert moved_by_left == {BOTH, LEFT, PAIR}
    assert moved_by_right == {BOTH, RIGHT, PAIR}
    # over all words that could be hidden there, chances add up to 1: the word itself is not read
    chances = dict.fromkeys(before, 0.0)
    for word in range(5, SIZE):
        for name, loss in losses([21, 22, word, 24, 25]).items():
            chances[name] += float(np.exp(-loss))
    for total in chances.values():
        assert total == pytest.approx(1, abs=1e-4)


def test_rows_and_differences() -> None:
    documents = _documents()
    neighbors = Neighbors(*neighbors_of(documents), SIZE)
    blanks = find_blanks(documents, neighbors, per_kind=10)
    asked = answer_all(_models(), blanks, torch.zeros(SIZE))
    rows = {(r["reader"], r["seed"], r["told_by"]): r for r in score_rows(asked, blanks)}
    assert len(rows) == 4 * 2 * 5
    differences = difference_rows(asked, blanks)
    mean = {name: (rows[name, 0, ALL]["loss"] + rows[name, 1, ALL]["loss"]) / 2 for name in asked}
    for row in differences:
        assert row["less_loss_low"] < row["less_loss"] < row["less_loss_high"]
        if row["told_by"] == ALL and "run" not in row["one"]:
            assert row["less_loss"] == pytest.approx(
                mean[row["other"]] - mean[row["one"]], abs=2e-4
            )
    assert sum("run" in row["one"] for row in differences) == 4 * 5


def test_the_interval_holds_two_runs_of_one_recipe_nineteen_times_of_twenty() -> None:
    dice = np.random.default_rng(0)
    decided = with_texts_only = 0
    trials = 600
    for _ in range(trials):
        # five recipes of three runs; nothing differs but the luck of the run
        scores = dice.normal(0.0, 2.0, (5, 3))
        spread = run_spread(scores.tolist())
        text_luck = dice.normal(0.0, 0.5, 400)
        gap = float(scores[0].mean() - scores[1].mean() + dice.normal(0.0, 0.5))
        low, high = interval_over_runs(gap, (gap + text_luck).tolist(), (3, 3), spread)
        decided += verdict_of(low, high) != "undecided"
        with_texts_only += abs(gap) > 1.96 * 0.5
    assert decided / trials < 0.08
    assert with_texts_only / trials > 0.4


def test_spread_of_runs_is_pooled() -> None:
    spread, freedom = run_spread([[1.0, 3.0], [10.0, 10.0, 13.0], [7.0]])
    assert freedom == 3
    assert spread == pytest.approx(((1 + 1 + 1 + 1 + 4) / 3) ** 0.5)
    with pytest.raises(ValueError, match="no recipe was run twice"):
        run_spread([[1.0], [2.0]])


def test_a_gap_is_wider_by_what_the_longer_reading_adds_to_it() -> None:
    blanks = Blanks([[7]] * 90, np.zeros(90, int), np.arange(90) // 3, [ALL] * 90)
    dice = np.random.default_rng(0)
    hard = dice.normal(4.0, 1.0, 90)  # of a blank, for every reader
    short = {BOTH: hard, LEFT: hard + dice.normal(1.0, 0.2, 90)}
    marks = {
        1: {BOTH: hard - 0.5, LEFT: short[LEFT] - 0.5},  # both gain alike
        2: {BOTH: hard - 0.5, LEFT: short[LEFT]},
    }
    alike, wider = longer_rows(short, marks, blanks, (0.01, 6))
    assert alike["wider"] == pytest.approx(0, abs=1e-4)
    assert verdict_of(alike["wider_low"], alike["wider_high"]) == "undecided"
    assert wider["wider"] == pytest.approx(0.5, abs=1e-4)
    assert wider["gap"] == pytest.approx(wider["left_loss"] - wider["both_loss"], abs=2e-4)
    assert verdict_of(wider["wider_low"], wider["wider_high"]) == "supported"
    _, unsure = longer_rows(short, marks, blanks, (0.12, 6))
    # four runs of such luck hide half a nat, two would not
    assert verdict_of(unsure["wider_low"], unsure["wider_high"]) == "undecided"
    assert verdict_of(unsure["gap_low"], unsure["gap_high"]) == "supported"


def test_blanks_of_one_kind() -> None:
    blanks = Blanks([[5], [6, 7], [8]], np.array([0, 1, 0]), np.array([3, 4, 5]), ["a", "b", "a"])
    some = blanks.of("b")
    assert (some.sentences, some.places.tolist(), some.documents.tolist()) == ([[6, 7]], [1], [4])


def test_the_committed_reading_is_of_all_marks() -> None:
    rows = read_csv(shipped("results") / "longer_reading.csv")
    assert [int(row["step"]) for row in rows] == [*MARKS]
    short = {
        row["reader"]: float(row["loss"])
        for row in read_csv(shipped("results") / "same_question.csv")
        if row["told_by"] == ALL and row["seed"] == "0"
    }
    for row in rows:
        gap = float(row["left_loss"]) - float(row["both_loss"])
        assert float(row["gap"]) == pytest.approx(gap, abs=2e-4)
        assert float(row["wider"]) == pytest.approx(gap - short[LEFT] + short[BOTH], abs=4e-4)
    tokens = [int(row["tokens"]) for row in rows]
    assert tokens == sorted(tokens)
    assert tokens[-1] > 80e6


def test_the_longer_reading_asks_first_for_what_it_needs(tmp_path: Path) -> None:
    with pytest.raises(typer.BadParameter, match="run it without --longer first"):
        main(tmp_path, longer=True)
