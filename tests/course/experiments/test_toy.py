"""Models on the toy language: near their limit, never below it, and caught if they peek."""

import math
from collections import defaultdict
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

import bertedu.model.bert as bert_module
from bertedu.files import read_csv
from bertedu.model.attention import attention_mask
from bertedu.model.bert import BertForPreTraining
from bertedu.model.config import DIRECTIONS, Direction
from course.cli import app
from course.experiments.toy import (
    SEES,
    Questions,
    toy_ids,
    toy_losses,
    toy_questions,
    train_toy,
)
from course.experiments.toy_language import ToyLanguage

RESULTS = Path(__file__).parents[3] / "data" / "results" / "toy.csv"


@pytest.fixture(scope="module")
def language() -> ToyLanguage:
    return ToyLanguage()


@pytest.fixture(scope="module")
def questions(language: ToyLanguage) -> Questions:
    return toy_questions(language, language.sample(300, 10_000))


def test_questions_ask_for_every_word_and_know_its_chance(language: ToyLanguage) -> None:
    sentences = [["the", "dog", "barked"], ["a", "shy", "kitten", "slept"]]
    questions = toy_questions(language, sentences)
    flat = [(s, t) for s in sentences for t in range(len(s))]
    assert len(questions.rows) == 7
    ids = toy_ids(language, sentences)
    assert ids[0].tolist()[-1] == 0  # the shorter one is padded
    for direction, (left, right) in SEES.items():
        for n, (sentence, t) in enumerate(flat):
            chance = language.posterior(sentence, t, left, right)[language.words.index(sentence[t])]
            assert questions.limits[direction][n].item() == pytest.approx(-math.log(chance))
    found = ids[questions.rows, questions.columns] - 5
    assert [language.words[i] for i in found.tolist()] == [s[t] for s, t in flat]


def test_more_is_known_from_both_sides_than_from_either(questions: Questions) -> None:
    both, left, right = (questions.limits[d].mean().item() for d in DIRECTIONS)
    assert both < 0.8 * min(left, right)


def trained(direction: Direction, steps: int, seed: int = 0) -> BertForPreTraining:
    """The model at the end of a training."""
    *_, (_, model) = train_toy(direction, seed, steps)
    return model


NIGHT = [pytest.param(d, 3000, 1.02, marks=pytest.mark.nightly) for d in DIRECTIONS]


@pytest.mark.parametrize(
    ("direction", "steps", "near"), [*((d, 300, 1.8) for d in DIRECTIONS), *NIGHT]
)
def test_a_model_comes_near_its_limit_and_not_below(
    questions: Questions, direction: Direction, steps: int, near: float
) -> None:
    """That the whole run comes within 2 % is held by the test of the committed toy.csv."""
    model = trained(direction, steps)
    paid, limit = toy_losses(model, questions), questions.limits[direction]
    assert paid.mean().item() < near * limit.mean().item()
    difference = paid - limit
    noise = difference.std().item() / math.sqrt(len(difference))
    assert difference.mean().item() > -4 * noise


def test_a_model_that_peeks_falls_below_its_limit(
    questions: Questions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The museum's bug: the causal mask is built, and the plain one passed on."""
    monkeypatch.setattr(
        bert_module, "attention_mask", lambda padding, _: attention_mask(padding, "bidirectional")
    )
    model = trained("left-to-right", 300)
    assert toy_losses(model, questions).mean() < 0.5 * questions.limits["left-to-right"].mean()


def test_a_longer_sentence_beside_it_changes_nothing(language: ToyLanguage) -> None:
    short, long = ["the", "dog", "barked"], language.sample(200, 3)
    model = trained("bidirectional", 5)
    alone = toy_losses(model, toy_questions(language, [short]))
    padded = toy_losses(model, toy_questions(language, [short, max(long, key=len)]))[:3]
    torch.testing.assert_close(alone, padded)


def test_the_command_writes_a_row_for_every_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from course.experiments import toy

    seeds, sample = [], ToyLanguage.sample

    def spied(self: ToyLanguage, count: int, seed: int) -> list[list[str]]:
        seeds.append(seed)
        return sample(self, count, seed)

    monkeypatch.setattr(ToyLanguage, "sample", spied)
    monkeypatch.setattr(toy, "HELD_OUT", 20)
    monkeypatch.setattr(toy.compare_with_limits, "__defaults__", (20,))
    out = tmp_path / "toy.csv"
    result = CliRunner().invoke(app, ["toy", "--seeds", "2", "--out", str(out)])
    assert result.exit_code == 0, result.output
    rows = read_csv(out)
    assert len(rows) == 3 * 2 * 21
    assert {row["direction"] for row in rows} == set(DIRECTIONS)
    held_out, *training = seeds
    assert training == [0, 1] * 3
    assert held_out not in range(100), "no training run may draw the sentences that it is asked"


def test_the_committed_curves_end_within_two_per_cent() -> None:
    """What the notebooks say of them: 2 % in under two minutes, and nobody below its limit."""
    rows = read_csv(RESULTS)
    last = max(int(row["step"]) for row in rows)
    ends = defaultdict(list)
    for row in rows:
        if int(row["step"]) == last:
            ends[row["direction"]].append(float(row["excess_percent"]))
            assert float(row["seconds"]) < 120
    assert set(ends) == set(DIRECTIONS)
    for direction, excess in ends.items():
        assert len(excess) >= 5, direction
        assert sum(excess) / len(excess) < 2, direction
        assert min(excess) > -1, direction
