"""The benchmark compares like with like, divides the right way round, and leaves nothing out."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer

from benchmarks import compare, sides
from benchmarks.__main__ import RESULT
from benchmarks.measure import peak_of_step, ratio
from benchmarks.sides import NotEqual, Setting, loss_of, make_model, training_step
from bertedu.files import read_csv, write_csv
from bertedu.model.config import BertConfig
from bertedu.optimization import MuonAndAdamW, layer_matrices, make_optimizer
from bertedu.pretraining.batches import fixed_batches
from bertedu.pretraining.next_sentence import EncodedDocument, make_pairs

CONFIG = BertConfig(100, 16, 2, 2, 32, 32)
DOCUMENTS = [EncodedDocument("a", [[5 + (i + k) % 90, 7, 9] for k in range(9)]) for i in range(40)]
BATCHES = fixed_batches(DOCUMENTS, 16, 4, 100)[:2]
ABOUT = ("cpu", "cores", "threads", "python", "torch", "transformers", "commit")
OURS, THEIRS = Setting("ours"), Setting("theirs")


# -- like with like


@pytest.mark.parametrize("name", ["cls.predictions.bias", "cls.seq_relationship.weight", ""])
def test_what_differs_is_noticed_and_not_timed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One number of theirs changed; or, of equal losses, one gradient."""
    ours, theirs = make_model(CONFIG, OURS), make_model(CONFIG, THEIRS)
    if name:
        torch.nn.init.ones_(theirs.get_parameter(name).view(-1)[:3])
    theirs.get_parameter("bert.embeddings.LayerNorm.bias").register_hook(lambda g: 1.01 * g)
    monkeypatch.setattr(compare, "make_model", lambda _, s: ours if s.side == "ours" else theirs)
    monkeypatch.setattr(compare, "take_turns", lambda *_: pytest.fail("timed all the same"))
    with pytest.raises(
        NotEqual, match="losses" if name else r"gradients of bert\.embeddings\.norm"
    ):
        compare.compare_steps(CONFIG, BATCHES, 1)


def test_a_step_moves_both_sides_alike() -> None:
    before, after = loss_of(make_model(CONFIG, OURS), BATCHES[0]).item(), []
    for setting in (OURS, THEIRS, Setting("theirs", attention="eager")):
        model = make_model(CONFIG, setting)
        if setting.side == "theirs":
            assert model.config._attn_implementation == setting.attention
        step = training_step(model, BATCHES, setting)
        for _ in range(3):
            step()
        after.append(loss_of(model, BATCHES[0]).item())
    assert after[1:] == pytest.approx(after[:1] * 2, abs=1e-4)
    assert after[0] < before - 1e-3


def test_a_step_is_of_the_optimizer_that_is_asked_for() -> None:
    moved = []
    for make in (make_optimizer, MuonAndAdamW):
        model = make_model(CONFIG, OURS)
        training_step(model, BATCHES, OURS, make)()
        moved.append([p.detach().clone() for p in layer_matrices(model)])
    apart = [float((one - other).abs().max()) for one, other in zip(*moved, strict=True)]
    assert min(apart) > 1e-5, "Muon moves the matrices of the layers another way"


def test_sentences_are_compared_like_with_like(
    tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = replace(CONFIG, vocab_size=8192, max_position_embeddings=128)
    texts = [" ".join(["word"] * (1 + 3 * i % 40)) for i in range(70)]
    rows = compare.compare_sentences(config, tokenizer, texts, 2)
    assert [(row["setting"], row["batch"], row["rounds"]) for row in rows] == [
        ("one sentence", 1, 10),
        ("many sentences", 70, 2),
    ]
    monkeypatch.setattr(compare, "sentence_vectors", lambda *g: 1.01 * sides.sentence_vectors(*g))
    with pytest.raises(NotEqual, match="vectors differ"):
        compare.compare_sentences(config, tokenizer, texts, 1)


# -- arithmetic


def test_a_ratio_is_taken_round_by_round() -> None:
    # The machine slows down tenfold after two rounds: it is 2 to 1 all along.
    assert ratio([2, 4, 20, 40], [1, 2, 10, 20]) == [2, 2, 2]
    assert ratio([10, 20, 30, 40, 50], [10] * 5) == [3, 2, 4]


def set_clock(patch: pytest.MonkeyPatch, times: dict[str, float]) -> None:
    """Set what each function takes; the machine has bfloat16."""
    patch.setattr(compare, "precisions", lambda: [False, True])
    patch.setattr(compare, "take_turns", lambda *_: {name: [t] for name, t in times.items()})


def test_best_settings_take_their_fastest(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = {"float32, dropout 0.1": 4, "float32, dropout 0": 1, "bfloat16, dropout 0": 2}
    theirs = {"sdpa, float32, dropout 0.1": 8, "eager, float32, dropout 0": 5}
    theirs |= {"sdpa, float32, dropout 0": 7, "sdpa, bfloat16, dropout 0": 9}
    theirs |= {"eager, bfloat16, dropout 0": 6}
    named = {"ours": ours, "theirs": theirs}
    times = {f"{side} {name}": t for side, some in named.items() for name, t in some.items()}
    set_clock(monkeypatch, times)
    rows = {row["setting"]: row for row in compare.compare_steps(CONFIG, BATCHES, 1)}
    best, equal = rows[compare.BEST], rows[compare.EQUAL]
    assert (best["ours"], best["theirs"]) == ("bfloat16, dropout 0", "eager, float32, dropout 0")
    assert (best["ratio"], equal["ratio"], equal["ours_ms"], equal["theirs_ms"]) == (2.5, 2, 4, 8)


def test_making_a_batch_is_its_share_of_the_epoch_and_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    full = len(list(make_pairs(DOCUMENTS, 16, np.random.default_rng(0)))) // 4
    set_clock(monkeypatch, {"pair": full * 3.0, "mask": min(10, full) * 2.0, "step": 100.0})
    row = compare.compare_input(CONFIG, DOCUMENTS, BATCHES[0], 1)
    assert (row["ours_ms"], row["theirs_ms"], row["ratio"]) == (5, 100, 0.05)


@pytest.mark.skipif(not compare.STATUS.exists(), reason="this system does not tell a peak")
def test_memory_is_that_of_a_process_of_its_own() -> None:
    """The logits and their gradient alone are 60 MB here, ten times the rest."""
    ballast = torch.ones(2**26)  # 268 MB of this process must not be counted
    config = replace(CONFIG, vocab_size=60_000, max_position_embeddings=128)
    batch = fixed_batches(DOCUMENTS * 8, 128, 16, 60_000)[0]
    logits = int(batch.selected.sum()) * 60_000 * 4 / 1e6
    assert 2 * logits < peak_of_step(config, OURS, batch) < 250, ballast.shape


# -- all rows, and the committed ones


def test_every_row_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare, "precisions", lambda: [False, True])
    asked: list[str] = []

    def peak(_: object, setting: Setting, __: object) -> float:
        """Ours 50, 60, 90, 50, …; theirs always 100."""
        asked.append(setting.side)
        return [50, 60, 90][asked.count("ours") % 3 - 1] if setting.side == "ours" else 100

    monkeypatch.setattr(compare, "peak_of_step", peak)
    memory = compare.compare_memory(CONFIG, BATCHES[0], 3)
    assert asked == ["ours", "theirs"] * 9, "not in turns"
    assert [row["ratio"] for row in memory] == [0.6] * 3, "ours by theirs"
    rows = [*compare.compare_steps(CONFIG, BATCHES, 2), *memory]
    rows.append(compare.compare_input(CONFIG, DOCUMENTS, BATCHES[0], 2))
    write_csv(tmp_path / "speed.csv", rows)
    written, committed = read_csv(tmp_path / "speed.csv"), read_csv(RESULT)
    assert [*written[0], *ABOUT] == list(committed[0])
    of_mini = {(r["benchmark"], r["setting"]) for r in committed if r["model"] == "L4 H256"}
    assert {(r["benchmark"], r["setting"]) for r in written} == of_mini
    assert {(r["benchmark"], r["model"], r["setting"]) for r in committed} >= set(compare.TARGETS)
    for row in [*written, *committed]:
        low, middle, high = (float(row[f"ratio{end}"]) for end in ("_low", "", "_high"))
        assert 0 < low <= middle <= high
    for row in committed:
        for target in map(float, re.findall(r"target ([\d.]+)", row["target"])):
            faster = row["benchmark"] in (compare.STEP, compare.SENTENCES)
            assert (float(row["ratio"]) > target) == faster, row
