"""Grammar at a blank: places of two words, what a reader says there, and who was right."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import tiny_finetuning as tiny
import torch

from bertedu.files import read_csv, shipped
from bertedu.model.bert import BertForPreTraining
from bertedu.pretraining.next_sentence import EncodedDocument
from course.experiments import grammar
from course.experiments.grammar import Positions, odds_at
from course.experiments.same_question import BOTH

WORDS = (50, 60)


@pytest.mark.parametrize(
    ("direction", "moves"), [("bidirectional", [True, True]), ("left-to-right", [True, False])]
)
def test_the_hidden_word_is_not_seen_and_the_others_are_as_the_mask_allows(
    direction: str, moves: list[bool]
) -> None:
    torch.manual_seed(0)
    model = BertForPreTraining(tiny.config(direction)).eval()

    def odds(*sentence: int, words: tuple[int, int] = WORDS) -> float:
        found = Positions([sentence, [9, 50]], np.array([1, 1]), np.array([0, 0]), np.array([0, 1]))
        return float(odds_at(model, found, words)[0])

    first = odds(70, 50, 71)
    assert odds(70, 60, 71) == pytest.approx(first, abs=1e-5)
    changed = [odds(72, 50, 71), odds(70, 50, 72)]
    assert [abs(value - first) > 1e-4 for value in changed] == moves
    assert odds(70, 50, 71, words=WORDS[::-1]) == pytest.approx(-first, abs=1e-5)


def test_the_committed_tables_follow_from_what_the_readers_said(tmp_path: Path) -> None:
    shutil.copy(shipped("results") / "grammar_odds.csv", tmp_path)
    grammar.write_tables(tmp_path)
    for name in ("grammar.csv", "grammar_differences.csv"):
        assert read_csv(tmp_path / name) == read_csv(shipped("results") / name)


@pytest.mark.parametrize(
    ("tells", "left"),
    [("right", ["the old", "the old dogs"]), ("left", ["dogs saw", "old dogs saw"])],
)
def test_of_the_side_that_tells_the_nearest_words_are_left(
    tells: str, left: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pieces = ["the", "old", "blank", "dog", "##s", "saw"]
    monkeypatch.setattr(grammar, "load_vocabulary", lambda: pieces)
    found = Positions([range(6)], np.array([2]), np.array([0]), np.array([0]))
    for words, text in enumerate([*left, "the old dogs saw", "the old dogs saw"]):
        cut = grammar.cut(found, tells, words)
        assert " ".join(pieces[i] for i in cut.sentences[0] if i != 2).replace(" ##", "") == text
        assert cut.sentences[0][cut.places[0]] == 2


@pytest.mark.parametrize("direction", ["bidirectional", "left-to-right"])
def test_who_does_not_read_the_side_that_is_cut_lacks_nothing(
    direction: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    model = BertForPreTraining(tiny.config(direction)).eval()
    for weight in model.parameters():
        weight.data *= 10  # so that the context tells
    texts = torch.randint(11, 99, (80, 9)).tolist()
    found = Positions(texts, np.full(80, 4), np.arange(80) % 2, np.arange(80))
    monkeypatch.setattr(grammar, "_places", lambda _: (WORDS, found))
    monkeypatch.setattr(grammar, "load_checkpoint", lambda _: model)
    lacks = [row["lacks"] for row in grammar.reach("a/an")[1:]]
    assert (any(lacks), lacks[-1]) == (direction == "bidirectional", 0)  # eight are all there are


def test_a_run_is_asked_if_it_can_be_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tiny.save_bert(tmp_path / "model")
    monkeypatch.setattr(grammar, "finished", lambda *run: run == (BOTH, 0))
    monkeypatch.setattr(grammar, "find_checkpoint", lambda _: folder)
    text = [EncodedDocument("s", [[11, 99], [98, 12]])]
    monkeypatch.setattr(grammar, "_texts", lambda: (text, torch.arange(20.0)))
    monkeypatch.setattr(grammar, "load_vocabulary", lambda: [*"0123456789x", "is", "are"])
    grammar._places.cache_clear()
    runs = [make for names, make in grammar.plan() if names["pair"] == "is/are"]
    which, document, prior, asked = (make()[0]["odds"] for make in runs)
    grammar._places.cache_clear()
    assert (which, document, prior) == ("0 1", "0 0", "1.0000")
    assert len(asked.split()) == 2
