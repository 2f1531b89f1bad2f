"""Grammar at a blank: places of two words, what a reader says there, and who was right."""

from pathlib import Path

import numpy as np
import pytest
import tiny_finetuning as tiny
import torch

from bertedu.files import Row
from bertedu.model.bert import BertForPreTraining
from bertedu.pretraining.next_sentence import EncodedDocument
from course.experiments import grammar
from course.experiments.grammar import Places, answers_of, difference_rows, find_places, odds_at
from course.experiments.same_question import BOTH, LEFT, PAIR, RIGHT

WORDS = (50, 60)


def documents() -> list[EncodedDocument]:
    """Ten short documents, each with both words once, and one with the first word fifty times."""
    short = [EncodedDocument("s", [[7 + i, 50, 9], [8, 60, 7 + i]]) for i in range(10)]
    return [*short, EncodedDocument("s", [[50, 9]] * 50)]


def test_places_are_as_many_of_each_and_from_as_many_documents_as_can_be() -> None:
    found = find_places(documents(), WORDS, per_word=8)
    there = [s[place] for s, place in zip(found.sentences, found.places, strict=True)]
    assert there == [WORDS[which] for which in found.which]
    assert found.which.tolist() == [0] * 8 + [1] * 8
    for which in (0, 1):
        assert len(set(found.documents[found.which == which])) == 8
    assert find_places(documents(), WORDS).which.tolist() == [0] * 10 + [1] * 10, (
        "the rarer decides"
    )


@pytest.mark.parametrize(
    ("direction", "moves"), [("bidirectional", [True, True]), ("left-to-right", [True, False])]
)
def test_the_hidden_word_is_not_seen_and_the_others_are_as_the_mask_allows(
    direction: str, moves: list[bool]
) -> None:
    torch.manual_seed(0)
    model = BertForPreTraining(tiny.config(direction)).eval()  # type: ignore[arg-type]

    def odds(sentence: list[int]) -> float:
        found = Places([sentence, [9, 50]], np.array([1, 1]), np.array([0, 0]), np.array([0, 1]))
        return float(odds_at(model, found, WORDS)[0])

    first = odds([70, 50, 71])
    assert odds([70, 60, 71]) == pytest.approx(first, abs=1e-5)
    changed = [odds([72, 50, 71]), odds([70, 50, 72])]
    assert [abs(value - first) > 1e-4 for value in changed] == moves
    flipped = Places([[70, 50, 71]], np.array([1]), np.array([0]), np.array([0]))
    assert odds_at(model, flipped, WORDS[::-1])[0] == pytest.approx(-first, abs=1e-5)


def rows(odds: dict[tuple[str, int], str], prior: float = 0.0) -> list[Row]:
    about = [("(which)", "", "0 1 0 1"), ("(document)", "", "0 0 1 2"), ("(prior)", "", str(prior))]
    said = [(reader, str(seed), values) for (reader, seed), values in odds.items()]
    return [
        {"pair": "a/an", "reader": reader, "seed": seed, "odds": values}
        for reader, seed, values in (*about, *said)
    ]


def test_a_pair_joins_both_sides_and_takes_the_prior_once() -> None:
    said = {(LEFT, 0): "-1 -1 -1 -1", (RIGHT, 0): "-1 2.5 -1 2.5", (LEFT, 1): "1 1 1 1"}
    right = answers_of(rows(said, prior=1.0), "a/an").right
    assert right[LEFT].tolist() == [[1, 0, 1, 0], [0, 1, 0, 1]]
    assert right[PAIR].tolist() == [[1, 1, 1, 1]], "seed 1 has no right half"
    without = answers_of(rows(said, prior=2.0), "a/an").right
    assert without[PAIR].tolist() == [[1, 0, 1, 0]]


def test_differences_are_paired_and_need_a_reader_that_was_trained_twice() -> None:
    always, never = "-1 1 -1 1", "1 -1 1 -1"
    said = {(BOTH, 0): always, (BOTH, 1): always, (LEFT, 0): never, (LEFT, 1): never}
    (row,) = difference_rows(rows(said), {"a/an": "right"})
    assert (row["one"], row["other"], row["points"]) == (BOTH, LEFT, 100)
    assert row["points_low"] == row["points_high"] == 100, "no text and no run differs"
    half = {**said, (LEFT, 1): always}
    (row,) = difference_rows(rows(half), {"a/an": "right"})
    assert row["points"] == 50
    assert float(row["points_low"]) < 0, "two runs that differ so much tell nothing"
    assert difference_rows(rows({(BOTH, 0): always, (LEFT, 0): never}), {"a/an": "right"}) == []


def test_who_has_been_asked_is_not_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tiny.save_bert(tmp_path / "model")
    monkeypatch.setattr(grammar, "_runs", lambda: [(BOTH, 0, folder)])
    monkeypatch.setattr(grammar, "TELLS", {"is/are": "left"})
    vocabulary = tiny.VOCABULARY
    one, other = vocabulary.index("is"), vocabulary.index("are")
    held_out = [EncodedDocument("s", [[one, 99], [98, other]])]
    prior = torch.zeros(len(vocabulary))
    first = grammar.ask(tmp_path / "odds.csv", held_out, prior)
    assert [row["reader"] for row in first] == ["(which)", "(document)", "(prior)", BOTH]
    monkeypatch.setattr(grammar, "odds_at", lambda *_: pytest.fail("asked again"))
    assert grammar.ask(tmp_path / "odds.csv", held_out, prior) == first
