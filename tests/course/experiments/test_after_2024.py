"""What came after 2024: runs and rows are told apart."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from called import run

from benchmarks import compare, measure, sides
from benchmarks.sides import Setting
from bertedu.files import read_csv
from bertedu.model.bert import BertForPreTraining
from bertedu.model.checkpoints import save_checkpoint
from bertedu.model.config import BertConfig
from bertedu.optimization import MuonAndAdamW
from bertedu.pretraining.batches import fixed_batches
from bertedu.pretraining.next_sentence import EncodedDocument
from course.experiments import after_2024


def record(curve: list[dict[str, float]], **recipe: object) -> dict[str, object]:
    values = {"recipe": recipe, "curve": curve, "steps": 100, "tokens": 1000}
    return values | {"device": "cpu", "hardware": "x", "commit": "abc"}


def test_tables_say_whose_a_number_is(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    for number, (_, seed, name) in enumerate(after_2024.BLANKS):
        made = record([{"dev_mlm_loss": 4.0, "dev_mlm_accuracy": number / 100}], seed=seed)
        made["init"] = record([]) if seed == 2 else None
        (runs / name).mkdir(parents=True)
        (runs / name / "training.json").write_text(json.dumps(made))
    asked = "blanks", "--runs", runs, "--out", tmp_path
    assert run(*asked, of=after_2024.app).exit_code == 0
    rows = read_csv(tmp_path / "next_first.csv")
    assert [r["mlm_accuracy"] for r in rows] == [str(n / 100) for n in range(len(rows))]
    assert len({(r["variant"], r["seed"]) for r in rows}) == len(rows) == 12
    assert [r["steps"] for r in rows] == ["100", "100", "200"] * 4, "earlier runs count"
    assert {r["device"] for r in rows} == {"cpu x"}


def test_left_to_right_and_diffusion_are_asked_for_the_same_words(tmp_path: Path) -> None:
    documents = [
        EncodedDocument("x", [[5 + n % 40, 9, 10 + n], [11, 12 + n, 13, 14], [15, 16 + n]])
        for n in range(8)
    ]
    some = fixed_batches(documents, 32, 4, 64, direction="left-to-right")
    rows = {}
    small = replace(BertConfig.preset("tiny"), vocab_size=64, dropout=0.0)
    one_way = replace(small, direction="left-to-right")
    for name, config in ((after_2024.LTR, one_way), (after_2024.DIFFUSION, small)):
        torch.manual_seed(0)
        model = BertForPreTraining(config)
        save_checkpoint(model, tmp_path / name)
        (tmp_path / name / "training.json").write_text(json.dumps(record([])))
        rows[name] = next(after_2024.nats_row(str(tmp_path / name), name, some))
        assert abs(rows[name]["nats"] - math.log(64)) < 0.5, "an untrained model guesses"
        again = next(after_2024.nats_row(str(tmp_path / name), name, some))
        assert again == rows[name]
    ltr, drawn = rows.values()
    words = sum(int((b.ids >= 5).sum()) for b in some)
    assert ltr["words"] == drawn["words"] == words == sum(len(b.labels) for b in some)


def test_a_step_is_timed_by_its_phases_and_every_side_sees_the_same_batches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[set[str]] = []
    moved: list[tuple[type, str, list[tuple[int, ...]]]] = []

    def training_step(_: Any, batches: list[Any], setting: Setting, make: Any) -> None:
        moved.append((make, setting.side, [tuple(batch.ids.shape) for batch in batches]))

    def take_turns(steps: dict[str, Any], rounds: int) -> dict[str, list[float]]:
        asked.append(set(steps))
        first = len(asked) == 1  # the phase that is 0.7 of the steps
        return {
            name: [(1000.0 if first else 3000.0) * (number + 1)] * rounds
            for number, name in enumerate(steps)
        }

    monkeypatch.setattr(compare, "precisions", lambda: [False, True])
    monkeypatch.setattr(sides, "training_step", training_step)
    monkeypatch.setattr(measure, "take_turns", take_turns)
    documents = [EncodedDocument("x", [[8 + n, 9, 10] * 8] * 20) for n in range(40)]
    rows = list(after_2024.step_rows(documents, rounds=2))
    assert asked[0] == asked[1]
    assert len(asked[0]) == 8, "two precisions: of ours two optimizers, of theirs two ways"
    assert [row["seconds"] for row in rows] == pytest.approx(
        [1.6 * (number + 1) for number in range(8) for _ in range(2)]
    )
    found = {(row["side"], row["optimizer"], row["setting"]) for row in rows}
    assert len(found) == 8
    assert not [of for of in found if of[:2] == ("theirs", "muon")]
    shapes = {tuple(of) for _, _, of in moved[:8]}
    assert len(shapes) == 1, "the same batches"
    assert {shape for (shape, *_) in shapes} != {shape for _, _, (shape, *_) in moved[8:]}
    assert [make for make, *_ in moved].count(MuonAndAdamW) == 4
