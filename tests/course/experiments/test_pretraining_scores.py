"""The table of pre-trained models: every number worked out a second time, on a tiny corpus."""

import json
import math
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from bertedu.model.bert import BertForPreTraining
from bertedu.model.checkpoints import CheckpointError, load_pretrained, save_checkpoint
from bertedu.model.config import BertConfig, Direction
from bertedu.model.elmo import ElmoForPreTraining
from bertedu.pretraining.batches import Batch, fixed_batches
from bertedu.pretraining.next_sentence import EncodedDocument
from bertedu.pretraining.run import VARIANTS
from bertedu.text.tokenization import SPECIAL_TOKENS
from course.experiments import pretraining_scores as module
from course.experiments.counting import NeighborModel, UnigramModel
from course.experiments.pretraining_scores import OBJECTIVES, PRIORS, curves, documents_of, report
from course.results.columns import by_document, word_columns

SIZE, FIRST = 40, len(SPECIAL_TOKENS)
Splits = dict[str, list[EncodedDocument]]
Table = dict[tuple[str, str], dict[str, Any]]  # by objective and system
ASKED = {
    **dict.fromkeys(("bert", "no-nsp", "mlm-ltr", "mlm-rtl"), "masked words"),
    **{"ltr": "next words", "rtl": "previous words", "elmo": "both ways"},
}


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


SPLITS = {"train": chain(0, 60), "dev": chain(1, 16), "test": chain(2, 24)}


def add_model(folder: Path, variant: str) -> Path:
    """Save a small untrained model of a variant, with the record that a run would leave."""
    torch.manual_seed(1)
    direction, next_sentence, question = VARIANTS[variant]
    config = BertConfig(SIZE, 8, 1, 2, 16, 128, initializer_range=0.5, direction=direction)
    model = ElmoForPreTraining(config) if variant == "elmo" else BertForPreTraining(config)
    save_checkpoint(model, folder / variant)
    record: dict[str, Any] = {"variant": variant, "config": asdict(config), "commit": "abc"}
    record |= {"steps": 7, "tokens": 700, "seconds": 1.5, "device": "cpu", "hardware": "x"}
    recipe: dict[str, Any] = {"seed": 3, "next_sentence": next_sentence}
    recipe |= {"masked": question == "masked", "learning_rate": 1e-3, "steps": 7}
    recipe["optimizer"] = "muon"
    curve = [{"step": 2, "mlm_loss": 5.0}, {"step": 4, "mlm_loss": 4.0, "dev_mlm_loss": 4.5}]
    record |= {"recipe": recipe, "curve": curve}
    (folder / variant / "training.json").write_text(json.dumps(record))
    return folder / variant


@pytest.fixture(scope="module")
def everyone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("variants")
    return {variant: add_model(folder, variant) for variant in ASKED}


@pytest.fixture(scope="module")
def table(everyone: dict[str, Path]) -> Table:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "load_splits", lambda: SPLITS)
        rows = report([*everyone.values()], lengths=(128,))
    return {(str(row["objective"]), str(row["system"])): row for row in rows}


# -- the numbers, worked out again


def counted(prior: float | None) -> Callable[..., Tensor]:
    """Counted neighbors, or single words: `test_counting` has them worked out by hand."""
    train = SPLITS["train"]
    return (NeighborModel(train, SIZE, prior) if prior else UnigramModel(train, SIZE)).scores


def network(model: Any) -> Callable[..., Tensor]:
    """The whole answer of a model, of which the asked places are taken afterward."""

    def scores(batch: Batch, direction: Direction) -> Tensor:
        with torch.no_grad():
            if isinstance(model, ElmoForPreTraining):
                both = model(batch.ids, batch.padding_mask)
                words = both[direction == "right-to-left"]
            else:
                words, _ = model(batch.ids, batch.segment_ids, batch.padding_mask)
        return words[batch.selected]

    return scores


def worked_out(
    scores: Callable[..., Tensor], objective: str, split: str = "test"
) -> tuple[int, float, float]:
    """Blanks, loss and accuracy on a split, blank by blank."""
    losses, right = [], []
    for direction in OBJECTIVES[objective]:
        for batch in fixed_batches(SPLITS[split], 128, 32, SIZE, direction=direction):
            rows = scores(batch, direction).log_softmax(-1)
            losses += (-rows.gather(1, batch.labels[:, None])[:, 0]).tolist()
            right += (rows.argmax(-1) == batch.labels).tolist()
    return len(losses), sum(losses) / len(losses), sum(right) / len(losses)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_every_system_of_an_objective_is_scored_on_the_same_words(
    objective: str, table: Table, everyone: dict[str, Path]
) -> None:
    systems = {system: row for (of, system), row in table.items() if of == objective}
    trained = [name for name in VARIANTS if ASKED.get(name) == objective]
    assert list(systems) == ["chance", "unigram", "neighbors", *trained]
    chance = systems.pop("chance")
    losses = {p: worked_out(counted(p), objective, "dev")[1] for p in PRIORS}
    assert systems["neighbors"]["prior"] == min(losses, key=losses.__getitem__), "on dev, not test"
    assert chance["mlm_loss"] == chance["mlm_loss_low"] == pytest.approx(math.log(SIZE), abs=1e-4)
    assert chance["mlm_accuracy"] == chance["mlm_accuracy_high"] == 1 / SIZE
    for system, row in systems.items():
        if system in trained:
            scores = network(load_pretrained(everyone[system]).eval())
        else:
            scores = counted(row.get("prior"))
        asked, loss, accuracy = worked_out(scores, objective)
        assert asked == row["selected_tokens"] == chance["selected_tokens"]
        assert row["mlm_loss"] == pytest.approx(loss, abs=2e-4), system
        assert row["mlm_accuracy"] == pytest.approx(accuracy, abs=1e-4), system
        for name in ("mlm_loss", "mlm_accuracy", "nsp_accuracy"):
            if name in row:  # about two standard errors each way, a hundred or so pairs
                low, high = row[f"{name}_low"], row[f"{name}_high"]
                assert low <= row[name] <= high
                assert 0.001 < high - low < 0.4, f"{system}: {name}"


def test_an_interval_counts_documents_not_their_pairs() -> None:
    """Ten pairs of one document that all go well or badly are one piece of luck, not ten."""
    luck = torch.rand(30, generator=torch.Generator().manual_seed(0)).double()
    documents = torch.arange(30).repeat_interleave(10)
    scores = torch.stack([torch.ones(300), luck[documents], luck[documents]], dim=1).double()
    row, apart = word_columns(by_document(scores, documents)), word_columns(scores)
    assert row["mlm_loss"] == apart["mlm_loss"] == pytest.approx(float(luck.mean()), abs=1e-4)
    wide, narrow = (r["mlm_loss_high"] - r["mlm_loss_low"] for r in (row, apart))
    assert wide / narrow == pytest.approx(10**0.5, rel=0.1)


def test_the_document_of_a_pair_is_that_of_its_first_half() -> None:
    texts = [[i for s in document.sentences for i in s] for document in SPLITS["test"]]
    batches = fixed_batches(SPLITS["test"], 32, 8, SIZE, direction="left-to-right")  # none hidden
    for batch, number in ((b, n) for b in batches for n in range(len(b.ids))):
        own = (batch.segment_ids[number] == 0) & batch.padding_mask[number]
        first = batch.ids[number][own][1:-1].tolist()
        of = documents_of([batch])[number]
        assert any(texts[of][i : i + len(first)] == first for i in range(len(texts[of])))


def test_order_is_asked_of_who_was_trained_for_it(table: Table, everyone: dict[str, Path]) -> None:
    assert [name for (_, name), row in table.items() if "nsp_accuracy" in row] == ["bert"]
    model, right, labels = load_pretrained(everyone["bert"]).eval(), [], []
    for batch in fixed_batches(SPLITS["test"], 128, 32, SIZE):
        with torch.no_grad():
            _, follows = model(batch.ids, batch.segment_ids, batch.padding_mask)
        right += (follows.argmax(-1) == batch.next_labels).tolist()
        labels += batch.next_labels.tolist()
    assert table["masked words", "bert"]["nsp_accuracy"] == pytest.approx(np.mean(right), abs=1e-4)
    assert {row["pairs"] for row in table.values()} == {len(labels)}
    majority = max(labels.count(0), labels.count(1)) / len(labels)
    assert {row["nsp_majority"] for row in table.values()} == {round(majority, 4)}
    row = table["masked words", "bert"]
    assert (row["config"], row["seed"]) == ("L1 H8 A2 V40 bidirectional", 3)
    assert table["both ways", "elmo"]["config"] == "2 x 1 LSTM H8 C11 V40"


def test_curves_of_many_runs_in_one_table(everyone: dict[str, Path]) -> None:
    rows = curves(list(everyone.values()))
    assert [row["run"] for row in rows[::2]] == [row["variant"] for row in rows[1::2]]
    about = {"run": "bert", "variant": "bert", "config": "L1 H8", "seed": 3, "commit": "abc"}
    about |= {"optimizer": "muon", "learning_rate": 1e-3, "steps": 7, "device": "cpu x"}
    assert rows[:2] == [
        about | {"step": 2, "mlm_loss": 5.0},
        about | {"step": 4, "mlm_loss": 4.0, "dev_mlm_loss": 4.5},
    ]


def test_a_run_that_went_on_from_others_counts_them_all(tmp_path: Path) -> None:
    def record(steps: int, init: object) -> dict[str, object]:
        figures = {"steps": steps, "tokens": 100 * steps, "seconds": steps / 4}
        return figures | {"recipe": {"seed": steps}, "init": init}

    foreign = {"sha256": "weights of somebody else, who kept no record"}
    save_checkpoint(BertForPreTraining(BertConfig(SIZE, 8, 1, 2, 16, 128)), tmp_path)
    text = json.dumps(record(1, record(2, record(4, foreign))))
    (tmp_path / "training.json").write_text(text)
    found = module.load_with_record(tmp_path)
    expected = {"seed": 1, "train_steps": 7, "train_tokens": 700, "train_seconds": 1.8}
    assert found.trained == pytest.approx(expected)
    assert (found.next_sentence, found.objective) == (True, "masked words")


def test_what_cannot_be_reported_is_refused_before_any_text_is_read(
    everyone: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "load_splits", lambda: pytest.fail("text was read"))
    record = (everyone["bert"] / "training.json").read_bytes()
    save_checkpoint(BertForPreTraining(BertConfig(SIZE + 1, 8, 1, 2, 16, 128)), tmp_path)
    for content in ("", "{}", "[]", '{"recipe": 3}'):
        (tmp_path / "training.json").write_text(content)
        with pytest.raises(CheckpointError, match=r"training\.json"):
            report([tmp_path])
    (tmp_path / "training.json").write_bytes(record)
    with pytest.raises(ValueError, match="vocabularies of different sizes"):
        report([everyone["bert"], tmp_path])
    with pytest.raises(ValueError, match=r"positions for 128 tokens.*at 129, .*up to 128"):
        report([everyone["bert"]], lengths=[16, 129])
    with pytest.raises(pytest.fail.Exception, match="text was read"):  # there is room
        report([everyone["elmo"]], lengths=[129])
