"""The study of notebook 11: where tags stand, which entities are new, and what its record says."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from tiny_kinds import TOKENIZER

from bertedu.files import read_csv
from bertedu.finetuning.collation import NO_TARGET
from bertedu.finetuning.examples import Splits, Tagged, Task, TaskError
from bertedu.finetuning.finetune import Run, Setup, run_once
from bertedu.finetuning.kinds import Answer
from bertedu.finetuning.tagging import Tagging
from bertedu.finetuning.training import History, Hyperparameters
from course.experiments import tag_placement as study
from course.experiments.tag_placement import (
    MET,
    PIECES,
    Pieces,
    TaggingBy,
    count_by_group,
    estimate,
    look_up,
    lower_case,
    run_study,
)

TAGS = ("O", "B-PLACE", "I-PLACE", "B-LIFE", "I-LIFE")
TASK = Task("names", "tagging", "", TAGS, "f1", dict)


def tagged(text: str, source: str = "") -> Tagged:
    """Read "Ume/B-PLACE sleeps" as words and tags."""
    pairs = [word.partition("/") for word in text.split()]
    return Tagged(tuple(p[0] for p in pairs), tuple(p[2] or "O" for p in pairs), source)


TRAIN = [
    tagged("geese/B-LIFE near Lake/B-PLACE Tana/I-PLACE", "a"),
    tagged("Lake/B-PLACE Tana/I-PLACE and Lyon/B-PLACE", "b"),
]
TEST = [
    tagged("Geese/B-LIFE left Lake/B-PLACE Tana/I-PLACE", "c"),
    tagged("Velmarra/B-PLACE , Lyon/B-PLACE and the tillow/B-LIFE", "d"),
    tagged("nothing here", "d"),
]
SPLITS: Splits = {"train": TRAIN * 4, "dev": TRAIN, "test": TEST}
SENTENCE = tagged("Unbelievably Okonjo/B-PLACE \u200b\u200e left/I-PLACE Antananarivo/B-LIFE")


# -- which piece


@pytest.mark.parametrize("pieces", PIECES)
def test_targets_stand_where_they_should(pieces: Pieces) -> None:
    (item,) = TaggingBy(TAGS, pieces).encode([SENTENCE], TOKENIZER, 128)
    (row,) = item.rows
    for place, word in enumerate(row.word_ids):
        places = [i for i, other in enumerate(row.word_ids) if other == word]
        asked = word is not None and (
            pieces == "all" or place == (places[0] if pieces == "first" else places[-1])
        )
        wanted = TAGS.index(SENTENCE.tags[word]) if asked and word is not None else NO_TARGET
        assert item.target[place] == wanted
    assert len({row.word_ids.count(w) for w in (0, 1, 3, 4)}) > 1  # several pieces, and one


def test_first_is_what_tagging_does() -> None:
    (ours,) = TaggingBy(TAGS, "first").encode([SENTENCE], TOKENIZER, 128)
    (theirs,) = Tagging(TAGS).encode([SENTENCE], TOKENIZER, 128)
    assert ours.target == theirs.target


@pytest.mark.parametrize("pieces", PIECES)
def test_the_piece_that_was_trained_answers(pieces: Pieces) -> None:
    kind = TaggingBy(TAGS, pieces)
    (item,) = kind.encode([SENTENCE], TOKENIZER, 128)
    ids = item.rows[0].word_ids
    scores = torch.randn(len(ids), len(TAGS), generator=torch.Generator().manual_seed(1))
    before = scores.clone()
    (answer,) = kind.answers([SENTENCE], [item], [scores])
    for word in (0, 1, 3, 4):
        places = [i for i, other in enumerate(ids) if other == word]
        place = places[-1] if pieces == "last" else places[0]
        assert answer.value[word] == TAGS[int(scores[place].argmax())]
    assert answer.value[2] == "O"  # no piece
    assert torch.equal(scores, before)


# -- groups


def test_entities_are_counted_by_type_and_by_whether_they_are_known() -> None:
    answers = [
        ("B-LIFE", "O", "B-PLACE", "O"),  # half a name: an invented one
        ("B-LIFE", "O", "B-PLACE", "O", "O", "B-LIFE"),  # a wrong type, two right
        ("O", "B-PLACE"),
    ]
    counts = count_by_group(SPLITS, ["PLACE", "LIFE"], [Answer(tags) for tags in answers])
    assert {name: table.tolist() for name, table in counts.items()} == {
        "seen PLACE": [[0, 0, 1], [1, 1, 1], [0, 0, 0]],
        "seen LIFE": [[1, 1, 1], [0, 0, 0], [0, 0, 0]],
        "unseen PLACE": [[0, 1, 0], [0, 0, 1], [0, 1, 0]],
        "unseen LIFE": [[0, 0, 0], [1, 2, 1], [0, 0, 0]],
    }
    whole = Tagging(TAGS).outcomes(TEST, [Answer(tags) for tags in answers])
    assert np.array_equal(np.sum(list(counts.values()), axis=0), whole)


# -- no model at all


def test_the_list_marks_what_training_has_marked() -> None:
    found = look_up(TRAIN, [tagged("Lake Tana Lyon Lake Geese geese near Lyon"), tagged("Lake")])
    assert [answer.value for answer in found] == [
        ("B-PLACE", "I-PLACE", "B-PLACE", "O", "O", "B-LIFE", "O", "B-PLACE"),
        ("O",),
    ]
    assert [a.value for a in look_up([], TEST)] == [("O",) * len(e.tags) for e in TEST]


def test_the_longest_name_wins() -> None:
    train = [tagged("York/B-PLACE"), tagged("York/B-LIFE Minster/I-LIFE Choir/I-LIFE")]
    (answer,) = look_up(train, [tagged("York Minster York Minster Choir York")])
    assert answer.value == ("B-PLACE", "O", "B-LIFE", "I-LIFE", "I-LIFE", "B-PLACE")


def test_lower_case_changes_words_alone() -> None:
    lower = lower_case(SPLITS)
    for split, examples in SPLITS.items():
        for before, after in zip(examples, lower[split], strict=True):
            assert isinstance(before, Tagged)
            assert isinstance(after, Tagged)
            assert after.words == tuple(word.lower() for word in before.words)
            assert (after.tags, after.source) == (before.tags, before.source)


# -- the record


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A record whose three runs have answered this and that, without any training."""
    monkeypatch.setattr("course.results.origin.current_commit", lambda: "abc1234")
    asked: list[str] = []
    everything = [e.tags for e in TEST]
    nothing = [("O",) * len(e.tags) for e in TEST]

    def run(*given: Any, kind: TaggingBy) -> SimpleNamespace:
        task, _, setup, recipe, score = given
        assert (task, score) == (TASK, ["test"])
        asked.append(f"{setup.method} {kind.pieces} {recipe.seed}")
        good = setup.method == "fine-tuned" and recipe.seed == 0
        tags = everything if good else nothing
        history = History(losses=[1.0], dev=[0.25, 0.5])
        return SimpleNamespace(history=history, answers={"test": [Answer(t) for t in tags]})

    monkeypatch.setattr(study, "run_once", run)
    monkeypatch.setattr(
        study, "word_count_answers", lambda task, splits: {"test": [Answer(t) for t in nothing]}
    )
    path = tmp_path / "results" / "tagging.csv"
    setups: list[tuple[Setup, Pieces]] = [(Setup("m"), "first"), (Setup("m", "untrained"), "first")]
    run_study(TASK, SPLITS, path, setups, range(2))
    assert len(asked) == 4
    run_study(TASK, SPLITS, path, setups, range(3))  # what is there is not repeated
    assert asked[4:] == ["fine-tuned first 2", "untrained first 2"]
    return path


def test_every_run_has_one_row(made: Path) -> None:
    rows = read_csv(made)
    assert rows[0]["model"] == "(source)"
    assert rows[0]["seen PLACE"] == "0 1 1"
    names = [(r["model"], r["method"], r["seed"]) for r in rows[1:]]
    assert names == [
        ("look-up", "baseline", ""),
        *(("m", "fine-tuned", str(seed)) for seed in range(3)),
        *(("m", "untrained", str(seed)) for seed in range(3)),
        ("word counts", "baseline", ""),
        ("word counts, no capitals", "baseline", ""),
    ]
    run = rows[2]
    assert (run["dev"], run["test"], run["commit"]) == ("0.5", "1.0", "abc1234")
    assert run["seen PLACE"] == "1/1/1 1/1/1 0/0/0"


def test_estimates_follow_from_the_counts(made: Path) -> None:
    assert estimate(made, "m", "fine-tuned").mean == pytest.approx(1 / 3)  # one seed of three
    assert estimate(made, "m", "untrained").mean == 0
    # the list: Lake Tana and Lyon of five ("Geese" is not "geese")
    assert estimate(made, "look-up", "baseline").mean == pytest.approx(2 * 2 / (2 + 5))
    assert estimate(made, "look-up", "baseline", "unseen").mean == 0
    seen = estimate(made, "look-up", "baseline", "seen", "recall")
    assert seen.mean == pytest.approx(2 / 3)
    assert estimate(made, "look-up", "baseline", "PLACE").mean == pytest.approx(2 * 2 / (2 + 3))
    # articles are drawn whole: only c, only d, or both
    assert {round(float(v), 3) for v in seen.draws} == {0.5, 0.667, 1.0}
    assert seen.interval == (0.5, 1.0)


def test_a_difference_is_taken_on_the_same_texts(made: Path) -> None:
    one = estimate(made, "look-up", "baseline", "seen", "recall")
    assert (one - one).interval == (0, 0)
    other = one - estimate(made, "word counts", "baseline", "seen", "recall")
    assert other.mean == one.mean
    assert np.array_equal(other.draws, one.draws)


def test_what_is_not_there_is_named(made: Path) -> None:
    with pytest.raises(TaskError, match=r"no such result of m frozen all first.*tag_placement"):
        estimate(made, "m", "frozen")
    with pytest.raises(TaskError, match="no ORG result"):
        estimate(made, "m", "untrained", "ORG")
    with pytest.raises(TaskError, match="no such result"):
        estimate(made.with_name("none.csv"), "m", "untrained")


def test_a_real_run_trains_and_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tiny_kinds import tiny

    def load(*_: object) -> tuple[object, object]:
        return tiny(Tagging(TAGS)).encoder, TOKENIZER

    monkeypatch.setattr("bertedu.finetuning.finetune.load_encoder", load)
    monkeypatch.setattr(study, "RECIPE", Hyperparameters(1e-2, 2, 8, patience=8))
    setups: list[tuple[Setup, Pieces]] = [(Setup("m", train_examples=2), p) for p in PIECES]
    memory: Splits = {**SPLITS, "dev": TRAIN, "test": TRAIN}
    histories: list[History] = []

    def recorded(*given: Any, **more: Any) -> Run:
        run = run_once(*given, **more)
        histories.append(run.history)
        return run

    monkeypatch.setattr(study, "run_once", recorded)
    run_study(TASK, memory, tmp_path / "tagging.csv", setups, [0])
    for history in histories:
        assert len(history.losses) == 8  # two examples are one batch
        assert history.losses[-1] < history.losses[0] - 0.1
    rows = [row for row in read_csv(tmp_path / "tagging.csv") if row["model"] == "m"]
    assert {row["pieces"] for row in rows} == set(PIECES)
    for row in rows:
        assert row["test"] == row["dev"]  # they are the same examples here
        words = " ".join(row[f"{met} {kind}"] for met in MET for kind in ("PLACE", "LIFE")).split()
        assert sum(int(word.split("/")[2]) for word in words) == 4
