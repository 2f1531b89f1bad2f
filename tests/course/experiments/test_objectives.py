"""Four objectives on the toy language: who hides what, exact readers, and what was paid for."""

from typing import Any

import pytest
import torch

from bertedu.text.tokenization import MASK_ID
from course.experiments import objectives
from course.experiments.objectives import pairs, two_blanks
from course.experiments.toy_readers import (
    HELD_OUT,
    ExactReader,
    blanks,
    singles,
    text,
    topics,
)
from course.results.pictures import committed


def test_the_gap_of_an_exact_reader_is_the_mutual_information(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Asked at once or in turn: the difference of the two, over pairs, is what they tell."""
    chosen, exact = pairs(0.3, 150)
    monkeypatch.setattr(objectives, "pairs", lambda: (chosen, exact))
    reader: Any = ExactReader()
    apart, in_turn = (two_blanks(reader, ask) for ask in (False, True))
    assert apart - in_turn == pytest.approx(exact, abs=0.2)  # some hundred pairs are a sample
    assert exact > 0.5


def test_the_limit_of_blanks_is_that_of_an_exact_reader() -> None:
    ids, masked, limit = blanks(singles)
    scores, _ = ExactReader()(masked[:100], ids[:100] != 0)
    hidden = masked[:100] == MASK_ID
    paid = torch.nn.functional.cross_entropy(scores[hidden], ids[:100][hidden])
    assert paid.item() == pytest.approx(limit, abs=0.2)  # a tenth of the sentences


def test_topics_are_those_of_their_sentences() -> None:
    nouns = "puppy kitten parrot pony child woman".split()  # one of each topic
    sentences, topic = text(10_001, HELD_OUT)[0], topics(10_001, HELD_OUT)[1].tolist()
    told = [
        (nouns.index(w), t) for s, t in zip(sentences, topic, strict=True) for w in s if w in nouns
    ]
    assert len(told) > 100
    assert all(noun == t for noun, t in told)


def test_no_excess_is_below_the_limit_and_rivals_paid_the_same() -> None:
    work: dict[tuple[str, str], float] = {}
    for row in committed("objectives"):
        assert "excess" not in row["measure"] or float(row["value"]) > -0.01
        key = row["idea"], row["reader"]
        work[key] = max(work.get(key, 0), float(row["operations"]))
    for one, other, near in (
        (("electra", "MLM at 15 %"), ("electra", "ELECTRA, every word"), 0.01),
        (("electra", "MLM at 30 %"), ("electra", "MLM at 15 %"), 0.01),
        (("xlnet", "BERT, equal operations"), ("xlnet", "XLNet"), 0.02),
    ):
        assert work[one] == pytest.approx(work[other], rel=near)
