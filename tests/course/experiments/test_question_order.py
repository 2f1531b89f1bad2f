"""Question first or last: the same questions, the same answers, and what a reader could know."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tiny_finetuning as tiny

from bertedu.finetuning.collation import Item
from bertedu.finetuning.question_answering import QuestionAnswering
from bertedu.text.fast_tokenizer import load_tokenizer
from course.experiments import question_order as module
from course.experiments.question_order import (
    LONGEST,
    NAME,
    ORDERS,
    drawn_readers,
    order_gain,
    questions_that_fit,
    run_study,
    task_of,
)
from course.results.record import RunRecord


def marked(item: Item, text: str) -> str:
    (row,), (first, last) = item.rows, item.target
    return text[row.offsets[first][0] : row.offsets[last][1]]


def test_the_order_moves_the_question_and_nothing_else() -> None:
    splits, tokenizer = questions_that_fit(), load_tokenizer()
    some = splits["test"][:40]
    for kind in (QuestionAnswering(), QuestionAnswering(question_first=False)):
        items = kind.encode(some, tokenizer, LONGEST)
        assert len(items) == len(some), "nothing is cut into windows"
        for item, question in zip(items, some, strict=True):
            assert marked(item, question.context) == question.answers[0][0]
            (row,) = item.rows
            place = row.sequence_ids.index(0), row.sequence_ids.index(1)
            words = tokenizer.encode(question.question).ids[1:-1]
            at = place[0] if kind.question_first else place[1]
            assert row.ids[at : at + len(words)] == words
    exchanged = splits["exchanged"]
    for before, after in zip(splits["test"], exchanged, strict=True):
        assert (before.context, before.answers) == (after.context, after.answers)
        assert before.question != after.question
    asked = [sorted(q.question for q in splits[name]) for name in ("test", "exchanged")]
    assert asked[0] == asked[1]


def test_a_study_goes_on_and_its_record_gives_the_gain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("course.results.origin.current_commit", lambda: "abc1234")
    readers = {
        "one": tuple(str(tiny.save_bert(tmp_path / f"one-{i}", seed=i)) for i in range(2)),
        "other": tuple(str(tiny.save_bert(tmp_path / f"other-{i}", seed=9 + i)) for i in range(2)),
    }
    monkeypatch.setattr(module, "READERS", readers)
    splits = tiny.span_task({"train": 8, "dev": 4, "test": 6})[1]
    splits["exchanged"] = [replace(q, question="what?") for q in splits["test"]]
    real, written = RunRecord.add, list[Any]()

    def stopped(*given: Any) -> Any:
        if written:
            raise KeyboardInterrupt
        written.append(real(*given))

    alone = {name: some[:1] for name, some in readers.items()}
    with monkeypatch.context() as patch:
        patch.setattr(RunRecord, "add", stopped)  # between the two rows of a run
        with pytest.raises(KeyboardInterrupt):
            run_study(tmp_path, alone, splits)
    run_study(tmp_path, alone, splits)
    record = RunRecord(tmp_path, NAME)
    assert len(record.rows()) == 2 * 2 * 2
    first = record.table.read_bytes()
    run_study(tmp_path, alone, splits)
    assert record.table.read_bytes() == first, "nothing is run twice"
    run_study(tmp_path, readers, splits)
    scores = [drawn_readers(tmp_path, task_of(order))["one"] for order in ORDERS]
    value, low, high = order_gain(tmp_path, "one")
    assert value == pytest.approx(scores[0].mean - scores[1].mean)
    assert low <= value <= high
    exchanged = [drawn_readers(tmp_path, task_of(order, True))["one"].mean for order in ORDERS]
    reads = [scored.mean - other for scored, other in zip(scores, exchanged, strict=True)]
    value, low, high = order_gain(tmp_path, "one", reading=True)
    assert value == pytest.approx(reads[0] - reads[1])
    assert low <= value <= high
    assert {row["reader"] for row in record.rows()} == {"one", "other"}
