"""The study of notebook 11: where tags stand, which entities are new, and what its record says."""

from collections import defaultdict
from typing import Any

import numpy as np
import pytest
import torch
from tiny_kinds import TOKENIZER

from bertedu.files import read_csv, shipped
from bertedu.finetuning.examples import Splits, Tagged, TaskError
from bertedu.finetuning.kinds import NO_TARGET, Answer
from bertedu.finetuning.tagging import Tagging
from course.experiments.tag_placement import (
    KEY,
    PIECES,
    Pieces,
    TaggingBy,
    count_by_group,
    estimate,
    look_up,
)
from course.results import bootstrap
from course.results.record import unpack

TAGS = ("O", "B-PLACE", "I-PLACE", "B-LIFE", "I-LIFE")


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


def test_estimates_follow_from_the_committed_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bootstrap, "DRAWS", 5)
    path = shipped("results") / "tagging.csv"
    systems: dict[tuple[str, ...], list[dict[str, str]]] = defaultdict(list)
    for row in read_csv(path)[1:]:  # the first has the sources
        systems[tuple(row[name] for name in KEY)].append(row)
    for (model, method, examples, pieces), rows in systems.items():
        system: Any = {"train_examples": examples, "pieces": pieces or "first"}
        scores = estimate(path, model, method, **system)
        assert scores.runs[:, 0] == pytest.approx([float(row["test"]) for row in rows], abs=1e-5)
        assert scores.trained == (method != "baseline")
        assert all(int(row["best_epoch"] or 0) + 4 <= 40 for row in rows), "dev still rose"
        for part in ("unseen", "PLACE"):
            groups = [name for name in rows[0] if part in name.split()]
            right, found, there = np.sum([unpack(rows[0][n]).sum(0) for n in groups], axis=0)
            measured = [
                estimate(path, model, method, part, measure, **system).runs[0, 0]
                for measure in ("f1", "recall")
            ]
            assert measured == pytest.approx([2 * right / (found + there), right / there])
    for given, message in (
        (("m", "frozen"), r"no such result of m frozen all first.*tag_placement"),
        (("look-up", "baseline", "ORG"), "no ORG result"),
    ):
        with pytest.raises(TaskError, match=message):
            estimate(path, *given)
