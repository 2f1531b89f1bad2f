"""Two perfect one-sided readers, joined, know less than one that reads both sides at once."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import pytest
import torch
from test_toy_training import trained as train

from bertedu.pretraining import toy
from bertedu.pretraining.toy import exact_log_chances, toy_questions
from bertedu.studies.toy_sides import join, score_sides, told_by
from bertedu.text.toy_language import ToyLanguage


@pytest.fixture(scope="module")
def language() -> ToyLanguage:
    return ToyLanguage()


def test_joining_is_exact_where_the_sides_are_independent_given_the_word() -> None:
    generator = torch.Generator().manual_seed(0)
    prior = torch.rand(7, generator=generator).softmax(0)
    left = torch.rand(4, 7, generator=generator).softmax(0)  # P(left | word)
    right = torch.rand(5, 7, generator=generator).softmax(0)
    for i in range(4):
        for j in range(5):
            both = prior * left[i] * right[j]
            sides = (prior * left[i], prior * right[j])
            before, after = ((side / side.sum()).log()[None] for side in sides)
            joined = join(before, after, prior.log()[None])
            torch.testing.assert_close(joined[0].exp(), both / both.sum())


def test_a_word_that_cannot_stand_there_stays_impossible() -> None:
    prior = torch.tensor([[0.5, 0.5, 0.0]])
    joined = join(prior.log(), torch.tensor([[0.2, 0.4, 0.4]]).log(), prior.log()).exp()
    torch.testing.assert_close(joined, torch.tensor([[1 / 3, 2 / 3, 0.0]]))


def test_the_exact_chances_are_those_of_the_questions(language: ToyLanguage) -> None:
    sentences = language.sample(60, 5)
    questions = toy_questions(language, sentences)
    answers = questions.answers - 5
    for direction, sees in toy.SEES.items():
        chances = exact_log_chances(language, sentences, *sees)
        found = -chances[torch.arange(len(answers)), answers].float()
        torch.testing.assert_close(found, questions.limits[direction])


def test_who_tells_is_who_finds_it_four_times_as_likely(language: ToyLanguage) -> None:
    sentences = language.sample(200, 6)
    questions = toy_questions(language, sentences)
    kinds = told_by(questions)
    flat = [(s, t) for s in sentences for t in range(len(s))]
    assert kinds["all"].all()
    for n, (sentence, t) in enumerate(flat):
        word = language.words.index(sentence[t])
        left, right = (
            language.posterior(sentence, t, *sees)[word] for sees in ((True, False), (False, True))
        )
        assert kinds["left"][n] == (left >= 4 * right * (1 - 1e-6))
        assert kinds["right"][n] == (right >= 4 * left * (1 - 1e-6))
    assert 0.05 < kinds["left"].float().mean() < 0.4
    assert 0.05 < kinds["right"].float().mean() < 0.4


def test_a_perfect_pair_lies_between_one_side_and_both(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toy, "HELD_OUT", 300)
    trained: toy.Trained = {(direction, 0): train(direction, 30) for direction in toy.SEES}
    rows = {(row["reader"], row["told_by"]): row for row in score_sides(trained)}
    assert len(rows) == 4 * 3
    perfect = {reader: float(str(rows[reader, "all"]["perfect"])) for reader, _ in rows}
    assert perfect["bidirectional"] * 1.02 < perfect["joined"]
    assert perfect["joined"] < 0.9 * min(perfect["left-to-right"], perfect["right-to-left"])
    for row in rows.values():
        assert float(str(row["loss"])) < math.log(50)
        if row["told_by"] == "all":  # after 30 steps nobody is near a limit, nor below it
            assert float(str(row["loss"])) > float(str(row["perfect"]))
    for kind, blind in [("left", "right-to-left"), ("right", "left-to-right")]:
        assert rows[blind, kind]["perfect"] > 3 * rows["joined", kind]["perfect"]  # type: ignore[operator]


def test_a_pair_is_made_of_models_of_one_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toy, "HELD_OUT", 50)
    models = {d: train(d, 20) for d in toy.SEES}
    better = train("left-to-right", 200)
    trained: toy.Trained = {(d, seed): model for d, model in models.items() for seed in (0, 1)}
    trained["left-to-right", 1] = better
    rows = {(r["reader"], r["seed"], r["told_by"]): r["loss"] for r in score_sides(trained)}
    assert rows["joined", 1, "all"] < rows["joined", 0, "all"]  # type: ignore[operator]
    assert rows["right-to-left", 1, "all"] == rows["right-to-left", 0, "all"]


def test_the_committed_table_says_what_notebook_13_says() -> None:
    with (Path(__file__).parents[2] / "data" / "results" / "toy_sides.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["told_by"] == "all"]
    perfect = {row["reader"]: float(row["perfect"]) for row in rows}
    for reader in perfect:
        losses = [float(row["loss"]) for row in rows if row["reader"] == reader]
        assert len(losses) >= 5
        assert all(-0.01 < loss / perfect[reader] - 1 < 0.02 for loss in losses), reader
    trained = [float(row["loss"]) for row in rows if row["reader"] == "bidirectional"]
    assert max(trained) < perfect["joined"]  # a trained BERT, below a perfect pair
