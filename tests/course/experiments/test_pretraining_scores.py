"""The table of results: every number worked out a second time, on a tiny corpus."""

import csv
import json
import math
from collections import Counter
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from bertedu.files import FileError, write_csv
from bertedu.model.bert import BertForPreTraining
from bertedu.model.checkpoints import load_checkpoint, load_elmo, load_pretrained, save_checkpoint
from bertedu.model.config import BertConfig
from bertedu.model.elmo import ElmoForPreTraining
from bertedu.model.weight_files import CheckpointError
from bertedu.pretraining.batches import Batch, fixed_batches
from bertedu.pretraining.next_sentence import EncodedDocument
from bertedu.pretraining.recipe import VARIANTS
from bertedu.text.tokenization import CLS_ID, SEP_ID, SPECIAL_TOKENS
from course.experiments import pretraining_scores as module
from course.experiments.counting import NeighborModel
from course.experiments.pretraining_scores import OBJECTIVES, PRIORS, curves, report

SIZE = 40
FIRST = len(SPECIAL_TOKENS)
Splits = dict[str, list[EncodedDocument]]
SYSTEMS = ["chance", "unigram", "neighbors", "tiny"]


def chain(seed: int, documents: int) -> list[EncodedDocument]:
    """Text in which the next word is nearly always one of two: neighbors tell a lot."""
    rng = np.random.default_rng(seed)
    made = []
    for number in range(documents):
        word, sentences = int(rng.integers(SIZE - FIRST)), []
        for _ in range(8):
            sentence = []
            for _ in range(int(rng.integers(5, 15))):
                word = (word * 3 + int(rng.integers(1, 3))) % (SIZE - FIRST)
                sentence.append(FIRST + word)
            sentences.append(sentence)
        made.append(EncodedDocument(f"source{number % 2}", sentences))
    return made


def noise(seed: int, documents: int) -> list[EncodedDocument]:
    """Text in which a few words are frequent and neighbors tell nothing."""
    rng = np.random.default_rng(seed)
    shares = 1 / np.arange(1, SIZE - FIRST + 1)
    return [
        EncodedDocument(
            f"source{number % 2}",
            [
                (FIRST + rng.choice(SIZE - FIRST, 10, p=shares / shares.sum())).tolist()
                for _ in range(8)
            ],
        )
        for number in range(documents)
    ]


SPLITS = {"train": chain(0, 60), "dev": chain(1, 16), "test": chain(2, 24)}


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoints") / "tiny"
    torch.manual_seed(0)
    model = BertForPreTraining(
        BertConfig(
            vocab_size=SIZE,
            hidden_size=8,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=16,
            max_position_embeddings=128,
            initializer_range=0.5,
        )
    )
    save_checkpoint(model, folder)
    record = {"recipe": {"seed": 5}, "steps": 7, "tokens": 700, "seconds": 1.5}
    (folder / "training.json").write_text(json.dumps(record))
    return folder


def make_report(checkpoint: Path, splits: Splits) -> dict[str, dict[str, Any]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "load_splits", lambda: splits)
        patch.setattr("course.results.origin.current_commit", lambda: "abc1234")
        rows = report([checkpoint], lengths=(128,))
    assert [row["system"] for row in rows] == SYSTEMS
    return {str(row["system"]): row for row in rows}


@pytest.fixture(scope="module")
def table(checkpoint: Path) -> dict[str, dict[str, Any]]:
    return make_report(checkpoint, SPLITS)


def blanks(split: str = "test") -> list[Batch]:
    return fixed_batches(SPLITS[split], 128, 32, SIZE)


def train_text() -> list[int]:
    ids: list[int] = []
    for document in SPLITS["train"]:
        ids += [CLS_ID, *(i for sentence in document.sentences for i in sentence), SEP_ID]
    return ids


def test_chance_knows_the_size_of_the_vocabulary_only(table: dict[str, dict[str, Any]]) -> None:
    row = table["chance"]
    for column in ("mlm_loss", "mlm_loss_low", "mlm_loss_high"):
        assert row[column] == pytest.approx(math.log(SIZE), abs=1e-4)
    for column in ("mlm_accuracy", "mlm_accuracy_low", "mlm_accuracy_high"):
        assert row[column] == 1 / SIZE


def test_unigram_counts_the_training_text_only(table: dict[str, dict[str, Any]]) -> None:
    counts = Counter(train_text())
    total = sum(counts.values()) + SIZE
    labels = [label for batch in blanks() for label in batch.labels.tolist()]
    loss = sum(-math.log((counts[label] + 1) / total) for label in labels) / len(labels)
    best = max(range(SIZE), key=lambda i: counts[i])
    assert table["unigram"]["mlm_loss"] == pytest.approx(loss, abs=2e-4)
    assert table["unigram"]["mlm_accuracy"] == pytest.approx(
        labels.count(best) / len(labels), abs=1e-4
    )


def neighbor_scores(prior: float, split: str, batches: int | None = None) -> tuple[float, float]:
    """Loss and accuracy of the counts on a split, blank by blank."""
    counts = NeighborModel(SPLITS["train"], SIZE, prior)
    losses, right = [], 0
    for batch in blanks(split)[:batches]:
        rows = counts.scores(batch)
        for row, label in zip(rows, batch.labels.tolist(), strict=True):
            losses.append(-float(row[label]))
            right += int(row.argmax()) == label
    return sum(losses) / len(losses), right / len(losses)


def test_neighbors_use_the_prior_that_is_best_on_dev(table: dict[str, dict[str, Any]]) -> None:
    row = table["neighbors"]
    assert row["prior"] == min(PRIORS, key=lambda prior: neighbor_scores(prior, "dev", 8)[0])
    loss, accuracy = neighbor_scores(row["prior"], "test")
    assert row["mlm_loss"] == pytest.approx(loss, abs=2e-4)
    assert row["mlm_accuracy"] == pytest.approx(accuracy, abs=1e-4)
    assert [system for system in SYSTEMS if "prior" in table[system]] == ["neighbors"]


def test_the_prior_is_tuned_on_dev_and_never_on_test(checkpoint: Path) -> None:
    """In noise the plain frequencies deserve much weight, in a chain little."""
    train = SPLITS["train"] + noise(5, 20)

    def prior(dev: list[EncodedDocument], test: list[EncodedDocument]) -> float:
        made = make_report(checkpoint, {"train": train, "dev": dev, "test": test})
        return float(made["neighbors"]["prior"])

    little = prior(chain(1, 16), noise(2, 12))
    assert prior(chain(1, 16), chain(2, 12)) == little
    assert prior(noise(1, 16), chain(2, 12)) > little


def test_the_model_is_scored_blank_by_blank(
    checkpoint: Path, table: dict[str, dict[str, Any]]
) -> None:
    model = load_checkpoint(checkpoint)
    losses, right, order = [], 0, []
    with torch.no_grad():
        for batch in blanks():
            words, follows = model(batch.ids, batch.segment_ids, batch.padding_mask)
            order += (follows.argmax(-1) == batch.next_labels).tolist()
            places = batch.selected.nonzero().tolist()
            for (i, j), label in zip(places, batch.labels.tolist(), strict=True):
                shares = words[i, j].log_softmax(-1)
                losses.append(-float(shares[label]))
                right += int(shares.argmax()) == label
    row = table["tiny"]
    assert row["mlm_loss"] == pytest.approx(sum(losses) / len(losses), abs=2e-4)
    assert row["mlm_accuracy"] == pytest.approx(right / len(losses), abs=1e-4)
    assert row["nsp_accuracy"] == pytest.approx(sum(order) / len(order), abs=1e-4)


def test_all_systems_fill_the_same_blanks(table: dict[str, dict[str, Any]]) -> None:
    selected = sum(len(batch.labels) for batch in blanks())
    pairs = sum(len(batch.ids) for batch in blanks())
    assert selected > 100
    assert {row["selected_tokens"] for row in table.values()} == {selected}
    assert {row["pairs"] for row in table.values()} == {pairs}
    assert {row["split"] for row in table.values()} == {"test"}


def test_the_majority_rate_is_what_always_the_same_answer_gets(
    table: dict[str, dict[str, Any]],
) -> None:
    labels = [label for batch in blanks() for label in batch.next_labels.tolist()]
    majority = max(labels.count(0), labels.count(1)) / len(labels)
    assert 0.5 <= majority < 1
    assert {row["nsp_majority"] for row in table.values()} == {round(majority, 4)}


def test_every_interval_holds_its_value_and_has_a_width(table: dict[str, dict[str, Any]]) -> None:
    for system, row in table.items():
        for name in ("mlm_loss", "mlm_accuracy", "nsp_accuracy"):
            if name in row:
                low, high = row[f"{name}_low"], row[f"{name}_high"]
                assert low <= row[name] <= high, f"{system}: {name}"
                # about two standard errors each way, with a hundred or so independent pairs
                assert (high - low > 0.01) == (system != "chance"), f"{system}: {name}"
                assert high - low < 0.4, f"{system}: {name}"


def test_on_text_with_structure_neighbors_beat_frequencies(
    table: dict[str, dict[str, Any]],
) -> None:
    assert table["neighbors"]["mlm_loss_high"] < table["unigram"]["mlm_loss_low"]
    assert table["neighbors"]["mlm_accuracy_low"] > table["unigram"]["mlm_accuracy_high"]


def test_a_row_says_what_was_run_where(table: dict[str, dict[str, Any]]) -> None:
    row = table["tiny"]
    assert row["config"] == "L1 H8 A2 V40 bidirectional"
    trained = {name: row[name] for name in ("seed", "train_steps", "train_tokens", "train_seconds")}
    assert trained == {"seed": 5, "train_steps": 7, "train_tokens": 700, "train_seconds": 1.5}
    assert row["seconds"] >= 0
    for row in table.values():
        assert row["commit"] == "abc1234"
        assert row["device"].startswith("cpu ")


def test_the_same_report_again(checkpoint: Path, table: dict[str, dict[str, Any]]) -> None:
    again = make_report(checkpoint, SPLITS)
    for system, row in table.items():
        assert row | {"seconds": 0} == again[system] | {"seconds": 0}


# -- one-way models


def add_model(folder: Path, variant: str) -> Path:
    """Save a small untrained model of a variant, with the record that a run would leave."""
    torch.manual_seed(1)
    direction, next_sentence, question = VARIANTS[variant]
    config = BertConfig(SIZE, 8, 1, 2, 16, 128, initializer_range=0.5, direction=direction)
    model = ElmoForPreTraining(config) if variant == "elmo" else BertForPreTraining(config)
    save_checkpoint(model, folder / variant)
    record = {
        "variant": variant,
        "config": asdict(config),
        "recipe": {"seed": 3, "next_sentence": next_sentence, "masked": question == "masked"},
        "commit": "abc",
        "steps": 7,
        "tokens": 700,
        "seconds": 1.5,
        "curve": [{"step": 2, "mlm_loss": 5.0}, {"step": 4, "mlm_loss": 4.0, "dev_mlm_loss": 4.5}],
    }
    (folder / variant / "training.json").write_text(json.dumps(record))
    return folder / variant


@pytest.fixture(scope="module")
def everyone(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("variants")
    return [add_model(folder, variant) for variant in VARIANTS]


@pytest.fixture(scope="module")
def all_rows(everyone: list[Path]) -> dict[tuple[str, str], dict[str, Any]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "load_splits", lambda: SPLITS)
        rows = report(everyone, lengths=(128,))
    return {(str(row["objective"]), str(row["system"])): row for row in rows}


def test_each_model_is_asked_for_what_it_was_trained_for(
    all_rows: dict[tuple[str, str], dict[str, Any]],
) -> None:
    found = {system: objective for objective, system in all_rows if system in VARIANTS}
    assert found == {
        "bert": "masked words",
        "no-nsp": "masked words",
        "ltr": "next words",
        "rtl": "previous words",
        "elmo": "both ways",
        "mlm-ltr": "masked words",
        "mlm-rtl": "masked words",
        "ltr-some": "next words",
    }
    for objective in OBJECTIVES:
        assert {s for o, s in all_rows if o == objective} >= {"chance", "unigram", "neighbors"}
    with_order = {system for (_, system), row in all_rows.items() if "nsp_accuracy" in row}
    assert with_order == {"bert"}, "a head that was never trained has no score"


@pytest.mark.parametrize(("objective", "step"), [("next words", 1), ("previous words", -1)])
def test_one_counted_neighbor_by_hand(
    all_rows: dict[tuple[str, str], dict[str, Any]], objective: str, step: int
) -> None:
    row, text = all_rows[objective, "neighbors"], train_text()
    pairs = Counter(pairwise(text))
    count = Counter(text)
    share = {w: (count[w] + 1) / (len(text) + SIZE) for w in range(SIZE)}
    losses = []
    for batch in fixed_batches(SPLITS["test"], 128, 32, SIZE, direction="left-to-right"):
        for ids, real in zip(batch.ids.tolist(), batch.padding_mask.tolist(), strict=True):
            for t, word in enumerate(ids):
                if word < FIRST or not real[t]:
                    continue
                beside = ids[t - step]
                pair = (beside, word) if step == 1 else (word, beside)
                total = sum(pairs[(beside, w) if step == 1 else (w, beside)] for w in range(SIZE))
                chance = (pairs[pair] + row["prior"] * share[word]) / (total + row["prior"])
                losses.append(-math.log(chance))
    assert row["selected_tokens"] == len(losses)
    assert row["mlm_loss"] == pytest.approx(sum(losses) / len(losses), abs=2e-4)


def test_both_ways_is_the_mean_of_the_two(
    all_rows: dict[tuple[str, str], dict[str, Any]],
) -> None:
    both = all_rows["both ways", "unigram"]
    each = [all_rows[objective, "unigram"] for objective in ("next words", "previous words")]
    assert both["selected_tokens"] == sum(row["selected_tokens"] for row in each)
    assert both["mlm_loss"] == pytest.approx(sum(row["mlm_loss"] for row in each) / 2, abs=2e-4)


def test_an_elmo_is_scored_word_by_word(
    everyone: list[Path], all_rows: dict[tuple[str, str], dict[str, Any]]
) -> None:
    model = load_elmo(next(folder for folder in everyone if folder.name == "elmo"))
    losses = []
    with torch.no_grad():
        for batch in fixed_batches(SPLITS["test"], 128, 32, SIZE, direction="left-to-right"):
            following, previous = model(batch.ids, batch.padding_mask)
            for i, t in (batch.ids >= FIRST).nonzero().tolist():
                word = batch.ids[i, t]
                losses.append(-float(following[i, t - 1].log_softmax(-1)[word]))
                losses.append(-float(previous[i, t + 1].log_softmax(-1)[word]))
    row = all_rows["both ways", "elmo"]
    assert row["selected_tokens"] == len(losses)
    assert row["mlm_loss"] == pytest.approx(sum(losses) / len(losses), abs=2e-4)


def test_curves_of_many_runs_in_one_table(everyone: list[Path]) -> None:
    rows = curves(everyone)
    assert len(rows) == 2 * len(VARIANTS)
    assert [row["run"] for row in rows[::2]] == list(VARIANTS)
    assert rows[1] | {"run": "", "variant": ""} == {
        "run": "",
        "variant": "",
        "config": "L1 H8",
        "seed": 3,
        "commit": "abc",
        "step": 4,
        "mlm_loss": 4.0,
        "dev_mlm_loss": 4.5,
    }


def test_vocabularies_of_two_sizes_are_refused(everyone: list[Path], tmp_path: Path) -> None:
    save_checkpoint(BertForPreTraining(BertConfig(SIZE + 1, 8, 1, 2, 16, 128)), tmp_path)
    (tmp_path / "training.json").write_bytes((everyone[0] / "training.json").read_bytes())
    with pytest.raises(ValueError, match="vocabularies of different sizes"):
        report([everyone[0], tmp_path])


# -- what cannot be reported


def no_reading() -> Splits:
    pytest.fail("text was read before the options were checked")


def test_a_length_without_positions_is_refused_at_once(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = load_pretrained(checkpoint).config.max_position_embeddings
    monkeypatch.setattr(module, "load_splits", no_reading)
    message = rf"has positions for {room} tokens.*at {room + 1}, choose --length up to {room}"
    with pytest.raises(ValueError, match=message):
        report([checkpoint], lengths=[16, room + 1])
    with pytest.raises(pytest.fail.Exception, match="text was read"):  # as long as it has room
        report([checkpoint], lengths=[16, room])


def test_an_elmo_has_no_positions_and_is_scored_at_any_length(
    everyone: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    elmo = next(f for f in everyone if isinstance(load_pretrained(f), ElmoForPreTraining))
    room = load_pretrained(elmo).config.max_position_embeddings
    monkeypatch.setattr(module, "load_splits", no_reading)
    with pytest.raises(pytest.fail.Exception, match="text was read"):
        report([elmo], lengths=[room + 1])


@pytest.mark.parametrize("content", [None, "", "{}", "[]", '{"recipe": 3}'])
def test_a_checkpoint_without_its_record_is_refused_at_once(
    checkpoint: Path, tmp_path: Path, content: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "load_splits", no_reading)
    for name in ("config.json", "model.safetensors"):
        (tmp_path / name).write_bytes((checkpoint / name).read_bytes())
    if content is not None:
        (tmp_path / "training.json").write_text(content)
    with pytest.raises(CheckpointError, match=r"training\.json"):
        report([tmp_path])


def test_a_run_that_went_on_from_others_counts_them_all(tmp_path: Path) -> None:
    def record(steps: int, init: object) -> dict[str, object]:
        figures = {"steps": steps, "tokens": 100 * steps, "seconds": steps / 4}
        return figures | {"recipe": {"seed": steps}, "init": init}

    path = tmp_path / "training.json"
    foreign = {"sha256": "weights of somebody else, who kept no record"}
    path.write_text(json.dumps(record(1, record(2, record(4, foreign)))))
    expected = {"seed": 1, "train_steps": 7, "train_tokens": 700, "train_seconds": 1.8}
    save_checkpoint(BertForPreTraining(BertConfig(SIZE, 8, 1, 2, 16, 128)), tmp_path)
    found = module.load_with_record(tmp_path)
    assert found.next_sentence
    assert found.objective == "masked words"
    assert found.trained == pytest.approx(expected)


def test_no_checkpoint_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="not a checkpoint"):
        report([tmp_path / "nothing"])


# -- the file


def test_a_table_comes_back_from_its_csv(table: dict[str, dict[str, Any]], tmp_path: Path) -> None:
    path = tmp_path / "new" / "results.csv"
    write_csv(path, list(table.values()))
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    columns = {name for row in table.values() for name in row}
    for row, expected in zip(rows, table.values(), strict=True):
        assert set(row) == columns
        for name, text in row.items():
            value = expected.get(name, "")
            assert (float(text) if isinstance(value, int | float) else text) == value
    assert path.read_bytes().count(b"\r") == 0  # the same bytes on every system


def test_commas_and_quotes_survive(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [{"a": 'cpu "x", 2 cores'}, {"b": "é"}]
    write_csv(tmp_path / "t.csv", rows)
    with (tmp_path / "t.csv").open(newline="", encoding="utf-8") as file:
        assert list(csv.DictReader(file)) == [
            {"a": 'cpu "x", 2 cores', "b": ""},
            {"a": "", "b": "é"},
        ]


def test_a_failed_write_leaves_the_old_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "results.csv"
    write_csv(path, [{"a": 1}])
    old = path.read_bytes()
    real = Path.write_text

    def full_disk(self: Path, text: str, *args: Any, **options: Any) -> int:
        real(self, text[: len(text) // 2], *args, **options)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full_disk)
    with pytest.raises(FileError, match="No space left"):
        write_csv(path, [{"a": 2}])
    assert path.read_bytes() == old
    assert list(tmp_path.iterdir()) == [path]
