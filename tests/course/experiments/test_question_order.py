"""Question first or last: the same questions, the same answers, and what a reader could know."""

from dataclasses import replace
from pathlib import Path

import pytest
import tiny_finetuning as tiny

from course.experiments import question_order as module
from course.experiments.question_order import (
    NAME,
    ORDERS,
    drawn_readers,
    order_gain,
    run_study,
    task_of,
)
from course.results.record import RunRecord


def test_a_study_goes_on_and_its_record_gives_the_gain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    readers = {
        name: tuple(str(tiny.save_bert(tmp_path / f"{name}{i}", seed=begin + i)) for i in range(2))
        for name, begin in (("one", 0), ("other", 9))
    }
    monkeypatch.setattr(module, "READERS", readers)
    monkeypatch.setattr(module, "STEEP", replace(module.STEEP, epochs=2))
    splits = tiny.span_task({"train": 8, "dev": 4, "test": 6})[1]
    splits["exchanged"] = [replace(q, question="what?") for q in splits["test"]]
    record = RunRecord(tmp_path, NAME)
    real, calls = RunRecord.add, iter([None])
    with monkeypatch.context() as patch:
        patch.setattr(RunRecord, "add", lambda *given: next(calls) or real(*given))
        with pytest.raises(StopIteration):  # between the two rows of a run
            run_study(tmp_path, readers, splits)
    run_study(tmp_path, readers, splits)
    assert len(record.rows()) == 2 * 2 * 2 * 2
    assert {row["reader"] for row in record.rows()} == {"one", "other"}
    scores, exchanged = (
        [drawn_readers(tmp_path, task_of(order, mixed))["one"].mean for order in ORDERS]
        for mixed in (False, True)
    )
    gain = scores[0] - scores[1]
    for reading, expected in ((False, gain), (True, gain - exchanged[0] + exchanged[1])):
        value, low, high, _ = order_gain(tmp_path, "one", reading)
        assert value == pytest.approx(expected)
        assert low <= value <= high
