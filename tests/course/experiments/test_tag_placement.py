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
from bertedu.finetuning.finetune import Setup
from bertedu.finetuning.kinds import Answer
from bertedu.finetuning.tagging import Tagging
from bertedu.finetuning.training import History
from course.experiments import tag_placement as study
from course.experiments.tag_placement import (
    PIECES,
    Pieces,
    TaggingBy,
    count_by_group,
    estimate,
    look_up,
    lower_case,
)
from course.results.study import add_missing

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
NOTHING = [Answer(("O",) * len(e.tags)) for e in TEST]
SENTENCE = tagged("Unbelievably Okonjo/B-PLACE \u200b\u200e left/I-PLACE Antananarivo/B-LIFE")


@pytest.mark.parametrize("pieces", PIECES)
def test_the_piece_that_is_trained_answers(pieces: Pieces) -> None:
    kind = TaggingBy(TAGS, pieces)
    (item,) = kind.encode([SENTENCE], TOKENIZER, 128)
    if pieces == "first":
        assert item.target == Tagging(TAGS).encode([SENTENCE], TOKENIZER, 128)[0].target
    ids = item.rows[0].word_ids
    scores = torch.randn(len(ids), len(TAGS), generator=torch.Generator().manual_seed(1))
    before = scores.clone()
    (answer,) = kind.answers([SENTENCE], [item], [scores])
    assert torch.equal(scores, before)
    assert answer.value[2] == "O"  # no piece
    targets, sizes = [NO_TARGET] * len(ids), set()
    for word in (0, 1, 3, 4):
        places = [i for i, other in enumerate(ids) if other == word]
        sizes.add(len(places))
        for place in {"first": places[:1], "last": places[-1:], "all": places}[pieces]:
            targets[place] = TAGS.index(SENTENCE.tags[word])
        says = places[-1 if pieces == "last" else 0]
        assert answer.value[word] == TAGS[int(scores[says].argmax())]
    assert item.target == targets
    assert len(sizes) > 1, "several pieces, and one"


def test_entities_are_counted_by_type_and_by_whether_they_are_known() -> None:
    answers = [
        Answer(("B-LIFE", "O", "B-PLACE", "O")),  # half a name: an invented one
        Answer(("B-LIFE", "O", "B-PLACE", "O", "O", "B-LIFE")),  # a wrong type, two right
        Answer(("O", "B-PLACE")),
    ]
    counts = count_by_group(SPLITS, ["PLACE", "LIFE"], answers)
    assert {name: table.tolist() for name, table in counts.items()} == {
        "seen PLACE": [[0, 0, 1], [1, 1, 1], [0, 0, 0]],
        "seen LIFE": [[1, 1, 1], [0, 0, 0], [0, 0, 0]],
        "unseen PLACE": [[0, 1, 0], [0, 0, 1], [0, 1, 0]],
        "unseen LIFE": [[0, 0, 0], [1, 2, 1], [0, 0, 0]],
    }
    whole = Tagging(TAGS).outcomes(TEST, answers)
    assert np.array_equal(np.sum(list(counts.values()), axis=0), whole)


def test_the_list_marks_what_training_has_marked_the_longest_first() -> None:
    train = [*TRAIN, tagged("York/B-PLACE"), tagged("York/B-LIFE Minster/I-LIFE Choir/I-LIFE")]
    for text in (
        "Lake/B-PLACE Tana/I-PLACE Lyon/B-PLACE Lake Geese geese/B-LIFE near Lyon/B-PLACE",
        "Lake",
        "York/B-PLACE Minster York/B-LIFE Minster/I-LIFE Choir/I-LIFE York/B-PLACE",
    ):
        example = tagged(text)
        assert look_up(train, [example])[0].value == example.tags
    assert look_up([], TEST) == NOTHING


def test_lower_case_changes_words_alone() -> None:
    for split, examples in lower_case(SPLITS).items():
        for before, after in zip(SPLITS[split], examples, strict=True):
            assert vars(after) == vars(before) | {"words": tuple(w.lower() for w in before.words)}  # type: ignore[union-attr]


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A record whose three runs have answered this and that, without any training."""
    everything = [Answer(e.tags) for e in TEST]

    def run(*given: Any, kind: TaggingBy) -> SimpleNamespace:
        task, splits, setup, recipe, score = given
        assert (task, score, len(splits["train"]), kind.pieces) == (TASK, ["test"], 3, "first")
        good = setup.method == "fine-tuned" and recipe.seed == 0
        history = History(losses=[1.0], dev=[0.25, 0.5])
        return SimpleNamespace(history=history, answers={"test": everything if good else NOTHING})

    monkeypatch.setattr(study, "run_once", run)
    monkeypatch.setattr(study, "word_count_answers", lambda task, splits: {"test": NOTHING})
    monkeypatch.setattr(study, "load_task", lambda _: (TASK, SPLITS))
    study.entity_task.cache_clear()
    methods = ("fine-tuned", "untrained")
    plan = study.plan([(Setup("m", method, 3), "first") for method in methods], range(3))
    add_missing(tmp_path / "tagging.csv", plan)
    study.entity_task.cache_clear()
    source, *rows = read_csv(tmp_path / "tagging.csv")
    assert source["seen PLACE"] == "0 1 1"
    assert [rows[3][name] for name in ("train_examples", "dev", "test", "seen PLACE")] == [
        *("3", "0.5", "1.0", "1/1/1 1/1/1 0/0/0")
    ]
    return tmp_path / "tagging.csv"


def test_estimates_follow_from_the_counts(made: Path) -> None:
    def known(*more: str) -> Any:
        return estimate(made, "look-up", "baseline", *more)

    for method, mean in (("fine-tuned", 1 / 3), ("untrained", 0)):  # one seed of three
        assert estimate(made, "m", method, train_examples="3").mean == pytest.approx(mean)
    # the list: Lake Tana and Lyon of five ("Geese" is not "geese")
    assert known().mean == pytest.approx(2 * 2 / (2 + 5))
    assert known("unseen").mean == 0
    assert known("PLACE").mean == pytest.approx(2 * 2 / (2 + 3))
    seen = known("seen", "recall")
    assert seen.mean == pytest.approx(2 / 3)
    # articles are drawn whole: only c, only d, or both
    assert {round(float(v), 3) for v in seen.runs[0]} == {0.5, 0.667, 1.0}
    assert seen.minus(seen) == (0, 0, 0, 1), "on the same texts, and counting has no luck"
    other = seen - estimate(made, "word counts", "baseline", "seen", "recall")
    assert np.array_equal(other.runs, seen.runs)
    for path, method, part, message in (
        (made, "frozen", "", r"no such result of m frozen 3 first.*tag_placement"),
        (made, "untrained", "ORG", "no ORG result"),
        (made.with_name("none.csv"), "untrained", "", "no such result"),
    ):
        with pytest.raises(TaskError, match=message):
            estimate(path, "m", method, part, train_examples="3")
