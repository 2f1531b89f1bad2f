"""The benchmark compares like with like, divides the right way round, and leaves nothing out."""

import os
import time
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from benchmarks import compare, report, sentences
from benchmarks.__main__ import RESULT
from benchmarks.inputs import one_sentence, random_batches
from benchmarks.memory import peak_of_step
from benchmarks.products import count_operations, linear_shapes
from benchmarks.sides import (
    NotEqual,
    Setting,
    assert_equal,
    loss_of,
    make_model,
    make_ours,
    make_theirs,
    training_step,
)
from benchmarks.timing import WARM_UP, milliseconds, ratio, take_turns
from bertedu.files import read_csv
from bertedu.model.config import BertConfig
from bertedu.pretraining.next_sentence import EncodedDocument, make_pairs

CONFIG = BertConfig(100, 16, 2, 2, 32, 32)
BATCHES = random_batches(2, size=4, length=16, vocab_size=100)
ABOUT = ("cpu", "cores", "threads", "python", "torch", "transformers", "commit")
SIZES = ("L4 H256", "L2 H128")
DOCUMENTS = [EncodedDocument("a", [[5 + (i + k) % 90, 7, 9] for k in range(9)]) for i in range(40)]


# -- like with like


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_both_sides_compute_the_same(attention: str) -> None:
    theirs = make_theirs(CONFIG, dropout=0.1, attention=attention)
    assert theirs.config._attn_implementation == attention
    assert_equal(make_ours(CONFIG, dropout=0.1), theirs, BATCHES[0])


@pytest.mark.parametrize(
    "changed", ["cls.predictions.bias", "cls.seq_relationship.weight", "bert.pooler.dense.bias"]
)
def test_changed_weights_are_noticed(changed: str) -> None:
    theirs = make_theirs(CONFIG)
    with torch.no_grad():
        theirs.get_parameter(changed)[0] += 0.1
    with pytest.raises(NotEqual, match=r"differ"):
        assert_equal(make_ours(CONFIG), theirs, BATCHES[0])


def test_equal_losses_with_other_gradients_are_noticed() -> None:
    theirs = make_theirs(CONFIG)
    theirs.get_parameter("bert.embeddings.LayerNorm.bias").register_hook(lambda g: 1.01 * g)
    with pytest.raises(NotEqual, match=r"gradients of bert\.embeddings\.norm\.bias"):
        assert_equal(make_ours(CONFIG), theirs, BATCHES[0])


def test_no_comparison_is_timed_when_the_sides_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(config: BertConfig, dropout: float = 0.0, attention: str = "sdpa") -> nn.Module:
        model = make_theirs(config, dropout, attention)
        nn.init.ones_(model.get_parameter("cls.predictions.bias")[:3])
        return model

    monkeypatch.setattr(compare, "make_theirs", wrong)
    monkeypatch.setattr(compare, "take_turns", lambda *_: pytest.fail("timed all the same"))
    with pytest.raises(NotEqual):
        compare.compare_steps(CONFIG, BATCHES, 1, int)


def test_a_step_moves_both_sides_alike() -> None:
    before = loss_of(make_ours(CONFIG), BATCHES[0]).item()
    losses = []
    for side in ("ours", "theirs"):
        model = make_model(CONFIG, Setting(side))
        step = training_step(model, BATCHES)
        for _ in range(3):
            step()
        losses.append(loss_of(model, BATCHES[0]).item())
    assert losses[0] == pytest.approx(losses[1], abs=1e-4)
    assert losses[0] < before - 1e-3


def test_random_batches_look_like_real_ones() -> None:
    batch = random_batches(1, size=32, length=128, vocab_size=8192)[0]
    assert batch.ids.shape == (32, 128)
    assert 0.9 < batch.padding_mask.float().mean() < 1
    assert 0.12 < batch.selected.float().mean() < 0.16
    assert set(batch.segment_ids.unique().tolist()) == {0, 1}
    assert not batch.segment_ids[~batch.padding_mask].any()
    sentence = one_sentence(batch, 16)
    assert sentence.ids.shape == (1, 16)
    assert sentence.padding_mask.all()
    assert len(sentence.labels) == sentence.selected.sum()


# -- the matrix products


def test_the_products_are_those_of_the_model() -> None:
    model, batch, seen = make_ours(CONFIG), BATCHES[0], []
    for part in model.modules():
        if isinstance(part, nn.Linear):
            part.register_forward_hook(
                lambda part, inputs, _: seen.append(
                    (inputs[0].numel() // part.in_features, part.in_features, part.out_features)
                )
            )
    model(batch.ids, batch.segment_ids, batch.padding_mask, batch.selected)
    shapes = linear_shapes(CONFIG, 4, 16, selected=int(batch.selected.sum()))
    assert sorted(shapes) == sorted(seen)


def test_operations_are_counted_forward_and_twice_backward() -> None:
    assert count_operations([(2, 3, 5)]) == 3 * (2 * 2 * 3 * 5)


# -- arithmetic


def test_ratio_is_taken_round_by_round() -> None:
    # The machine slows down tenfold after two rounds: it is 2 to 1 all along.
    assert ratio([2, 4, 20, 40], [1, 2, 10, 20]) == (2, 2, 2)
    assert ratio([10, 20, 30, 40, 50], [10] * 5) == (3, 2, 4)


def test_ratio_refuses_rounds_that_do_not_match() -> None:
    with pytest.raises(ValueError, match="2 and 1 rounds"):
        ratio([1, 2], [1])
    with pytest.raises(ValueError, match="0 and 0"):
        ratio([], [])


def test_functions_take_turns_and_warm_up_is_not_counted() -> None:
    calls, ticks = [], []
    seconds = take_turns(
        {"a": lambda: calls.append("a"), "b": lambda: (calls.append("b"), time.sleep(0.01))[0]},
        rounds=3,
        advance=lambda: ticks.append(1),
    )
    assert calls == ["a", "b"] * (WARM_UP + 3)
    assert len(ticks) == len(calls)
    assert len(seconds["a"]) == len(seconds["b"]) == 3
    assert ratio(seconds["b"], seconds["a"]).median > 5
    assert milliseconds(seconds["b"]) >= 10


# -- end to end


@pytest.mark.parametrize("bfloat16", [False, True])
def test_every_row_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bfloat16: bool
) -> None:
    monkeypatch.setattr(compare, "has_bfloat16", lambda: bfloat16)
    monkeypatch.setattr(compare, "name_of", lambda _: "L4 H256")
    measured: list[str] = []

    def peak(_config: object, setting: Setting, _batch: object, _folder: object) -> float:
        """Ours 50, 60, 90, 50, …; theirs always 100."""
        measured.append(setting.side)
        return [50, 60, 90][measured.count("ours") % 3 - 1] if setting.side == "ours" else 100

    monkeypatch.setattr(compare, "peak_of_step", peak)
    ticks: list[int] = []
    tick = lambda: ticks.append(1)  # noqa: E731
    rows = compare.compare_steps(CONFIG, BATCHES, 2, tick)
    rows += compare.compare_inference(CONFIG, BATCHES[0], 2, tick)
    rows += compare.compare_input(CONFIG, DOCUMENTS, BATCHES[0], 2, tick)
    assert len(ticks) == compare.count_calls(2), "the progress bar would not end at 100 %"
    rows += compare.compare_memory(CONFIG, BATCHES[0], 3, tick)
    assert len(ticks) == compare.count_calls(2) + compare.count_processes(3)
    assert measured == ["ours", "theirs"] * (len(measured) // 2), "not in turns"

    report.write_csv(rows, tmp_path / "new" / "speed.csv", report.machine())
    assert os.listdir(tmp_path / "new") == ["speed.csv"]
    written = read_csv(tmp_path / "new" / "speed.csv")
    check_columns(written)
    check_rows(written, ["L4 H256"], bfloat16)
    shown = report.table(rows)
    for row in rows:
        assert row.setting in shown
        assert f"{row.ratio:.2f}" in shown
    memory = [row for row in written if row["benchmark"] == report.MEMORY]
    assert all(row["target"] for row in memory if "sdpa, bfloat16" not in row["theirs"])
    assert all(float(row["ratio"]) == 0.6 for row in memory), "memory is ours / theirs"


def test_making_a_batch_is_its_share_of_the_epoch_and_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    full = len(list(make_pairs(DOCUMENTS, 16, np.random.default_rng(0)))) // 4
    times = {"pair": [full * 3.0], "mask": [min(10, full) * 2.0], "step": [100.0]}
    monkeypatch.setattr(compare, "take_turns", lambda *_: times)
    (row,) = compare.compare_input(CONFIG, DOCUMENTS, BATCHES[0], 1, int)
    assert (row.ours_ms, row.theirs_ms, row.ratio) == (5000, 100_000, 0.05)


def test_sentences_are_compared_like_with_like(monkeypatch: pytest.MonkeyPatch) -> None:
    config = replace(CONFIG, vocab_size=8192, max_position_embeddings=128)
    ticks: list[int] = []
    rows = sentences.compare_sentences(2, lambda: ticks.append(1), config, many=70)
    assert len(ticks) == sentences.count_sentence_calls(2)
    assert [(row.setting, row.batch) for row in rows] == [
        ("one sentence", 1),
        ("many sentences", 70),
    ]

    def wrong(config: BertConfig) -> object:
        ours, theirs = make_sides(config)
        torch.nn.init.ones_(theirs.get_parameter("embeddings.LayerNorm.bias"))
        return ours, theirs

    make_sides = sentences.make_sides
    monkeypatch.setattr(sentences, "make_sides", wrong)
    monkeypatch.setattr(sentences, "take_turns", lambda *_: pytest.fail("timed all the same"))
    with pytest.raises(NotEqual, match="the vectors differ"):
        sentences.compare_sentences(1, int, config, many=70)


def test_best_settings_take_their_fastest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare, "has_bfloat16", lambda: True)
    clock = {
        "ours float32, dropout 0.1": 4.0,
        "ours float32, dropout 0": 1.0,  # faster, but not what the package chooses
        "ours bfloat16, dropout 0": 2.0,
        "theirs sdpa, float32, dropout 0.1": 8.0,
        "theirs sdpa, float32, dropout 0": 7.0,
        "theirs eager, float32, dropout 0": 5.0,
        "theirs sdpa, bfloat16, dropout 0": 9.0,
        "theirs eager, bfloat16, dropout 0": 6.0,
        "products torch.float32": 3.0,
        "products torch.bfloat16": 0.5,
    }
    monkeypatch.setattr(
        compare, "take_turns", lambda functions, *_: {n: [clock[n]] for n in functions}
    )
    rows = {(r.benchmark, r.setting): r for r in compare.compare_steps(CONFIG, BATCHES, 1, int)}
    best = rows[report.STEP, compare.BEST]
    assert (best.theirs, best.ratio) == ("eager, float32, dropout 0", 2.5)
    equal = rows[report.STEP, compare.EQUAL]
    assert (equal.ratio, equal.ours_ms, equal.theirs_ms) == (2.0, 4000, 8000)
    assert rows[report.PRODUCTS, "float32, dropout 0.1"].ratio == 0.75
    half = rows[report.PRODUCTS, "bfloat16, dropout 0"]
    assert (half.ratio, half.products_ms) == (0.25, 500)
    shapes = linear_shapes(CONFIG, 4, 16, sum(int(b.selected.sum()) for b in BATCHES) // 2)
    assert half.products_gflops == pytest.approx(count_operations(shapes) / 0.5 / 1e9)


@pytest.mark.skipif(not compare.can_measure(), reason="this system does not tell a peak")
def test_memory_is_measured_in_a_process_of_its_own(tmp_path: Path) -> None:
    """The logits and their gradient alone are 60 MB here, ten times the rest."""
    ballast = torch.ones(2**26)  # 268 MB of this process must not be counted
    config = replace(CONFIG, vocab_size=60_000)
    batch = random_batches(1, size=8, length=128, vocab_size=60_000)[0]
    config = replace(config, max_position_embeddings=128)
    logits = int(batch.selected.sum()) * 60_000 * 4 / 1e6
    peak = peak_of_step(config, Setting("ours"), batch, tmp_path)
    assert 2 * logits < peak < 250, ballast.shape


def test_a_failed_memory_process_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho killed for memory >&2; exit 9\n")
    python.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(python))
    with pytest.raises(RuntimeError, match=r"\(float32, dropout 0\) failed:\nkilled for memory"):
        peak_of_step(CONFIG, Setting("ours"), BATCHES[0], tmp_path)


# -- the committed result


def check_columns(rows: list[dict[str, str]]) -> None:
    assert list(rows[0]) == [*(field.name for field in fields(report.Row)), *ABOUT]
    for row in rows:
        assert all(row[name] for name in ABOUT), row
        low, middle, high = (float(row[f"ratio{end}"]) for end in ("_low", "", "_high"))
        assert 0 < low <= middle <= high
        above, below = {
            report.PRODUCTS: ("products_ms", "ours_ms"),
            report.MEMORY: ("ours_mb", "theirs_mb"),
        }.get(row["benchmark"], ("theirs_ms", "ours_ms"))
        assert float(row[above]) > 0
        assert float(row[below]) > 0
        assert int(row["tokens"]) == int(row["batch"]) * int(row["length"]) > 0


def check_rows(rows: list[dict[str, str]], models: list[str], bfloat16: bool) -> None:
    """Check that no comparison is missing."""
    there = {(row["benchmark"], row["model"], row["setting"]) for row in rows}
    assert len(there) >= len(models) * (9 if bfloat16 else 8)
    for model in models:
        for setting in (compare.EQUAL, compare.BEST, compare.SAME):
            assert (report.STEP, model, setting) in there
        for what in ("one sentence", "batch"):
            assert (report.INFERENCE, model, what) in there
            assert (report.INFERENCE, model, f"{what}, with attention weights") in there
    best = "bfloat16, dropout 0" if bfloat16 else "float32, dropout 0"
    for model in models:
        for setting in ("float32, dropout 0.1", "float32, dropout 0", best):
            assert (report.PRODUCTS, model, setting) in there
    if compare.can_measure():
        assert (report.MEMORY, "L4 H256", "float32, dropout 0.1") in there
        assert not bfloat16 or (report.MEMORY, "L4 H256", best) in there


@pytest.mark.skipif(not RESULT.exists(), reason="data/results/speed.csv has not been made yet")
def test_the_committed_result_is_whole() -> None:
    rows = read_csv(RESULT)
    check_columns(rows)
    check_rows(rows, list(SIZES), bfloat16=any("bfloat16" in row["ours"] for row in rows))
    targets = [row for row in rows if row["target"] and row["benchmark"] != report.SENTENCES]
    assert {row["benchmark"] for row in targets} >= {report.STEP, report.MEMORY}
    assert {row["batch"] for row in targets} == {"32"}
    assert {row["length"] for row in targets} == {"128"}
    assert all(int(row["rounds"]) >= 5 for row in rows if row["benchmark"] != report.MEMORY)
