"""Grammar at a blank: places of two words, what a reader says there, and who was right."""

from pathlib import Path

import numpy as np
import pytest
import tiny_finetuning as tiny
import torch

from bertedu.files import Row, read_csv
from bertedu.model.bert import BertForPreTraining
from bertedu.pretraining.next_sentence import EncodedDocument
from course.experiments import grammar
from course.experiments.grammar import (
    Positions,
    answers_of,
    difference_rows,
    find_positions,
    odds_at,
)
from course.experiments.same_question import BOTH, LEFT, PAIR, RIGHT
from course.results.study import add_missing

WORDS = (50, 60)


def test_places_are_as_many_of_each_and_from_as_many_documents_as_can_be() -> None:
    short = [EncodedDocument("s", [[7 + i, 50, 9], [8, 60, 7 + i]]) for i in range(10)]
    documents = [*short, EncodedDocument("s", [[50, 9]] * 50)]
    found = find_positions(documents, WORDS, per_word=8)
    there = [s[place] for s, place in zip(found.sentences, found.places, strict=True)]
    assert there == [WORDS[which] for which in found.which]
    assert found.which.tolist() == [0] * 8 + [1] * 8
    for which in (0, 1):
        assert len(set(found.documents[found.which == which])) == 8
    rarer = find_positions(documents, WORDS).which.tolist()
    assert rarer == [0] * 10 + [1] * 10, "the rarer decides"


@pytest.mark.parametrize(
    ("direction", "moves"), [("bidirectional", [True, True]), ("left-to-right", [True, False])]
)
def test_the_hidden_word_is_not_seen_and_the_others_are_as_the_mask_allows(
    direction: str, moves: list[bool]
) -> None:
    torch.manual_seed(0)
    model = BertForPreTraining(tiny.config(direction)).eval()  # type: ignore[arg-type]

    def odds(*sentence: int, words: tuple[int, int] = WORDS) -> float:
        found = Positions([sentence, [9, 50]], np.array([1, 1]), np.array([0, 0]), np.array([0, 1]))
        return float(odds_at(model, found, words)[0])

    first = odds(70, 50, 71)
    assert odds(70, 60, 71) == pytest.approx(first, abs=1e-5)
    changed = [odds(72, 50, 71), odds(70, 50, 72)]
    assert [abs(value - first) > 1e-4 for value in changed] == moves
    assert odds(70, 50, 71, words=WORDS[::-1]) == pytest.approx(-first, abs=1e-5)


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
    assert answers_of(rows(said, prior=2.0), "a/an").right[PAIR].tolist() == [[1, 0, 1, 0]]


def test_differences_are_paired_and_need_a_reader_that_was_trained_twice() -> None:
    always, never = "-1 1 -1 1", "1 -1 1 -1"
    said = {(BOTH, 0): always, (BOTH, 1): always, (LEFT, 0): never, (LEFT, 1): never}
    (row,) = difference_rows(rows(said), {"a/an": "right"})
    assert (row["one"], row["other"], row["points"]) == (BOTH, LEFT, 100)
    assert row["points_low"] == row["points_high"] == 100, "no text and no run differs"
    (row,) = difference_rows(rows({**said, (LEFT, 1): always}), {"a/an": "right"})
    assert row["points"] == 50
    assert float(row["points_low"]) < 0, "two runs that differ so much tell nothing"
    assert difference_rows(rows({(BOTH, 0): always, (LEFT, 0): never}), {"a/an": "right"}) == []


def test_odds_are_of_the_places_and_the_tables_follow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tiny.save_bert(tmp_path / "model")
    for pair in {*grammar.TELLS} - {"is/are"}:
        monkeypatch.delitem(grammar.TELLS, pair)
    monkeypatch.setattr(grammar, "load_vocabulary", lambda: tiny.VOCABULARY)
    monkeypatch.setattr(grammar, "finished", lambda *run: run == (BOTH, 0))
    monkeypatch.setattr(grammar, "find_checkpoint", lambda _: folder)
    one, other = map(tiny.VOCABULARY.index, ("is", "are"))
    splits = {"train": [EncodedDocument("s", [[one, one, other]])], "test": []}
    splits["dev"] = [EncodedDocument("s", [[one, 99], [98, other]])]
    monkeypatch.setattr(grammar, "load_splits", lambda **_: splits)
    caches = (grammar._texts, grammar._places)
    for some in caches:
        some.cache_clear()
    add_missing(tmp_path / "grammar_odds.csv", grammar.plan())
    for some in caches:
        some.cache_clear()
    grammar.write_tables(tmp_path)
    odds = read_csv(tmp_path / "grammar_odds.csv")
    assert [row["reader"] for row in odds] == ["(which)", "(document)", "(prior)", BOTH]
    assert float(odds[2]["odds"]) == pytest.approx(np.log(2 / 3), abs=1e-4)
    (row,) = read_csv(tmp_path / "grammar.csv")
    said = np.array([float(value) for value in odds[3]["odds"].split()]) > 0
    assert float(row["right"]) == (said == [False, True]).mean()
    assert (row["tells"], row["places"], row["documents"]) == ("left", "2", "1")
