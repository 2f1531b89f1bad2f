"""Four objectives on the toy language: who hides what, exact readers, and what was paid for."""

from typing import Any

import pytest

from course.experiments import objectives
from course.experiments.objectives import pairs, two_blanks
from course.experiments.toy_readers import ExactReader
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


def test_rivals_paid_the_same() -> None:
    work: dict[tuple[str, str], float] = {}
    for row in committed("objectives"):
        key = row["idea"], row["reader"]
        work[key] = max(work.get(key, 0), float(row["operations"]))
    for one, other, near in (
        (("electra", "MLM at 15 %"), ("electra", "ELECTRA, every word"), 0.01),
        (("electra", "MLM at 30 %"), ("electra", "MLM at 15 %"), 0.01),
        (("xlnet", "BERT, equal operations"), ("xlnet", "XLNet"), 0.02),
    ):
        assert work[one] == pytest.approx(work[other], rel=near)
