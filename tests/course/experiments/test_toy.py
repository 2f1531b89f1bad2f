"""Models on the toy language: near their limit, never below it, and caught if they peek."""

import math
from pathlib import Path

import pytest
from called import run

from bertedu.files import read_csv
from bertedu.model.bert import BertForPreTraining
from bertedu.model.config import DIRECTIONS, Direction
from bertedu.text.tokenization import SEP_ID
from course.cli import app
from course.experiments import toy
from course.experiments.toy import SEES, Questions, toy_ids, toy_losses, toy_questions, train_toy
from course.experiments.toy_language import ToyLanguage

LANGUAGE = ToyLanguage()


@pytest.fixture(scope="module")
def questions() -> Questions:
    return toy_questions(LANGUAGE, LANGUAGE.sample(300, 10_000))


def test_questions_ask_for_every_word_and_know_its_chance(questions: Questions) -> None:
    sentences = [["the", "dog", "barked"], ["a", "shy", "kitten", "slept"]]
    asked, ids = toy_questions(LANGUAGE, sentences), toy_ids(LANGUAGE, sentences)
    flat = [(s, t) for s in sentences for t in range(len(s))]
    assert ids[0].tolist()[-1] == 0  # the shorter one is padded
    for direction, sides in SEES.items():
        for limit, (sentence, t) in zip(asked.limits[direction].tolist(), flat, strict=True):
            at = LANGUAGE.words.index(sentence[t])
            chance = float(LANGUAGE.posterior(sentence, t, *sides)[at])
            assert limit == pytest.approx(-math.log(chance))
    found = ids[asked.rows, asked.columns] - 5
    assert [LANGUAGE.words[i] for i in found.tolist()] == [s[t] for s, t in flat]
    both, left, right = (questions.limits[d].mean().item() for d in DIRECTIONS)
    assert both < 0.8 * min(left, right)


def trained(direction: Direction, steps: int, ends: bool = False) -> BertForPreTraining:
    """The model at the end of a training."""
    *_, (_, model) = train_toy(direction, 0, steps, ends)
    return model


NIGHT = [pytest.param(d, 3000, 1.02, marks=pytest.mark.nightly) for d in DIRECTIONS]


@pytest.mark.parametrize(
    ("direction", "steps", "near"), [*((d, 300, 1.8) for d in DIRECTIONS), *NIGHT]
)
def test_a_model_comes_near_its_limit_and_not_below(
    questions: Questions, direction: Direction, steps: int, near: float
) -> None:
    paid, limit = toy_losses(trained(direction, steps), questions), questions.limits[direction]
    assert paid.mean().item() < near * limit.mean().item()
    difference = paid - limit
    noise = difference.std().item() / math.sqrt(len(difference))
    assert difference.mean().item() > -4 * noise


def test_a_writer_learns_where_texts_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toy, "TRAINING", 500)
    ids = toy_ids(LANGUAGE, ["the dog barked loudly in the yard".split()])
    model = trained("left-to-right", 40, ends=True)
    assert model(ids)[0][0, -2].softmax(-1)[SEP_ID].item() > 0.5  # else it is never asked for
    with pytest.raises(ValueError, match="only a left-to-right model"):
        trained("bidirectional", 1, ends=True)


def test_the_command_writes_a_row_for_every_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("TRAINING", "HELD_OUT"):
        monkeypatch.setattr(toy, name, 20)
    monkeypatch.setattr(toy.compare_with_limits, "__defaults__", (20,))
    out = tmp_path / "toy.csv"
    result = run("toy", "--seeds", 2, "--out", out, of=app)
    assert result.exit_code == 0, result.output
    rows = read_csv(out)
    looks = [(d, str(s), str(n)) for d in DIRECTIONS for s in range(2) for n in range(21)]
    assert [(row["direction"], row["seed"], row["step"]) for row in rows] == looks
    for row in rows:
        excess = 100 * (float(row["loss"]) / float(row["limit"]) - 1)
        assert float(row["excess_percent"]) == pytest.approx(excess, abs=0.05)
