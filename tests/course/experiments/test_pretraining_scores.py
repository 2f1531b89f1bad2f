"""The table of pre-trained models: every number worked out a second time, on a tiny corpus."""

import json
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from bertedu.model.bert import BertForPreTraining
from bertedu.model.checkpoints import CheckpointError, load_pretrained, save_checkpoint
from bertedu.model.config import BertConfig
from bertedu.model.elmo import ElmoForPreTraining
from bertedu.pretraining.batches import Batch, fixed_batches
from bertedu.pretraining.next_sentence import EncodedDocument
from bertedu.pretraining.run import VARIANTS
from bertedu.text.tokenization import CLS_ID, SEP_ID, SPECIAL_TOKENS
from course.experiments import pretraining_scores as module
from course.experiments.counting import NeighborModel
from course.experiments.pretraining_scores import (
    OBJECTIVES,
    PRIORS,
    curves,
    documents_of,
    report,
)  # fmt: skip
from course.results.columns import by_document, word_columns

SIZE = 40
FIRST = len(SPECIAL_TOKENS)
Splits = dict[str, list[EncodedDocument]]
Table = dict[tuple[str, str], dict[str, Any]]  # by objective and system
COUNTED = ("chance", "unigram", "neighbors")
ASKED = {
    **dict.fromkeys(("bert", "no-nsp", "mlm-ltr", "mlm-rtl"), "masked words"),
    **{"ltr": "next words", "ltr-some": "next words", "rtl": "previous words", "elmo": "both ways"},
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


def noise(seed: int, documents: int) -> list[EncodedDocument]:
    """Text in which a few words are frequent and neighbors tell nothing."""
    rng = np.random.default_rng(seed)
    shares = 1 / np.arange(1, SIZE - FIRST + 1)
    words = rng.choice(SIZE - FIRST, (documents, 8, 10), p=shares / shares.sum()) + FIRST
    return [EncodedDocument(f"source{n % 2}", some.tolist()) for n, some in enumerate(words)]


SPLITS = {"train": chain(0, 60), "dev": chain(1, 16), "test": chain(2, 24)}
TEXT = [
    i
    for document in SPLITS["train"]
    for i in (CLS_ID, *(i for sentence in document.sentences for i in sentence), SEP_ID)
]


def add_model(folder: Path, variant: str) -> Path:
    """Save a small untrained model of a variant, with the record that a run would leave."""
    torch.manual_seed(1)
    direction, next_sentence, question = VARIANTS[variant]
    config = BertConfig(SIZE, 8, 1, 2, 16, 128, initializer_range=0.5, direction=direction)
    model = ElmoForPreTraining(config) if variant == "elmo" else BertForPreTraining(config)
    save_checkpoint(model, folder / variant)
    record: dict[str, Any] = {"variant": variant, "config": asdict(config), "commit": "abc"}
    record |= {"steps": 7, "tokens": 700, "seconds": 1.5}
    recipe = {"seed": 3, "next_sentence": next_sentence, "masked": question == "masked"}
    curve = [{"step": 2, "mlm_loss": 5.0}, {"step": 4, "mlm_loss": 4.0, "dev_mlm_loss": 4.5}]
    record |= {"recipe": recipe, "curve": curve}
    (folder / variant / "training.json").write_text(json.dumps(record))
    return folder / variant


@pytest.fixture(scope="module")
def everyone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("variants")
    return {variant: add_model(folder, variant) for variant in ASKED}


def make_report(folders: list[Path], splits: Splits = SPLITS) -> Table:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "load_splits", lambda: splits)
        patch.setattr("course.results.origin.current_commit", lambda: "abc1234")
        rows = report(folders, lengths=(128,))
    return {(str(row["objective"]), str(row["system"])): row for row in rows}


@pytest.fixture(scope="module")
def table(everyone: dict[str, Path]) -> Table:
    return make_report(list(everyone.values()))


# -- the numbers, worked out again


def unigram(batch: Batch, direction: str, prior: float) -> Tensor:
    count = Counter(TEXT)
    shares = torch.tensor([(count[w] + 1) / (len(TEXT) + SIZE) for w in range(SIZE)])
    return shares.log().expand(len(batch.labels), -1)


def neighbors(batch: Batch, direction: str, prior: float) -> Tensor:
    """From one side counted by hand; from both sides as `NeighborModel`, which has its own test."""
    if direction == "bidirectional":
        return NeighborModel(SPLITS["train"], SIZE, prior).scores(batch)
    step, pairs = (1 if direction == "left-to-right" else -1), Counter(pairwise(TEXT))
    share = unigram(batch, direction, prior)[0].exp().tolist()
    rows = []
    for beside in batch.ids[batch.selected].tolist():
        met = [pairs[(beside, w)[::step]] for w in range(SIZE)]
        total = sum(met) + prior
        rows.append([math.log((n + prior * p) / total) for n, p in zip(met, share, strict=True)])
    return torch.tensor(rows)


def network(model: Any) -> Callable[..., Tensor]:
    """The whole answer of a model, of which the asked places are taken afterward."""

    def scores(batch: Batch, direction: str, _: float) -> Tensor:
        with torch.no_grad():
            if isinstance(model, ElmoForPreTraining):
                both = model(batch.ids, batch.padding_mask)
                words = both[direction == "right-to-left"]
            else:
                words, _ = model(batch.ids, batch.segment_ids, batch.padding_mask)
        return words[batch.selected].log_softmax(-1)

    return scores


def worked_out(
    scores: Callable[..., Tensor], objective: str, prior: float = 0, split: str = "test"
) -> tuple[int, float, float]:
    """Blanks, loss and accuracy on a split, blank by blank."""
    losses, right = [], []
    for direction in OBJECTIVES[objective]:
        for batch in fixed_batches(SPLITS[split], 128, 32, SIZE, direction=direction):
            rows = scores(batch, direction, prior)
            losses += (-rows.gather(1, batch.labels[:, None])[:, 0]).tolist()
            right += (rows.argmax(-1) == batch.labels).tolist()
    return len(losses), sum(losses) / len(losses), sum(right) / len(losses)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_every_system_of_an_objective_is_scored_on_the_same_words(
    objective: str, table: Table, everyone: dict[str, Path]
) -> None:
    systems = {system: row for (of, system), row in table.items() if of == objective}
    assert list(systems) == [*COUNTED, *(name for name in VARIANTS if ASKED.get(name) == objective)]
    chance = systems.pop("chance")
    assert chance["mlm_loss"] == chance["mlm_loss_low"] == pytest.approx(math.log(SIZE), abs=1e-4)
    assert chance["mlm_accuracy"] == chance["mlm_accuracy_high"] == 1 / SIZE
    for system, row in systems.items():
        by_hand = {"unigram": unigram, "neighbors": neighbors}.get(system)
        scores = by_hand or network(load_pretrained(everyone[system]).eval())
        asked, loss, accuracy = worked_out(scores, objective, row.get("prior", 0))
        assert asked == row["selected_tokens"] == chance["selected_tokens"]
        assert row["mlm_loss"] == pytest.approx(loss, abs=2e-4), system
        assert row["mlm_accuracy"] == pytest.approx(accuracy, abs=1e-4), system
        assert ("prior" in row) == (system == "neighbors")
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


def test_the_prior_is_that_which_is_best_on_dev_and_never_on_test(
    table: Table, everyone: dict[str, Path]
) -> None:
    """In noise the plain frequencies deserve much weight, in a chain little."""
    losses = {p: worked_out(neighbors, "masked words", p, "dev")[1] for p in PRIORS}
    assert table["masked words", "neighbors"]["prior"] == min(losses, key=lambda p: losses[p])
    train = SPLITS["train"] + noise(5, 20)

    def prior(dev: list[EncodedDocument], test: list[EncodedDocument]) -> float:
        made = make_report([everyone["bert"]], {"train": train, "dev": dev, "test": test})
        return float(made["masked words", "neighbors"]["prior"])

    little = prior(chain(1, 16), noise(2, 12))
    assert prior(chain(1, 16), chain(2, 12)) == little
    assert prior(noise(1, 16), chain(2, 12)) > little


def test_a_row_says_what_was_run_where_and_comes_out_again(
    table: Table, everyone: dict[str, Path]
) -> None:
    row = table["masked words", "bert"]
    assert (row["config"], row["seed"]) == ("L1 H8 A2 V40 bidirectional", 3)
    trained = {name: row[f"train_{name}"] for name in ("steps", "tokens", "seconds")}
    assert trained == {"steps": 7, "tokens": 700, "seconds": 1.5}
    assert table["both ways", "elmo"]["config"] == "2 x 1 LSTM H8 C11 V40"
    for one in table.values():
        assert (one["commit"], one["split"]) == ("abc1234", "test")
        assert one["device"].startswith("cpu ")
    again = make_report([everyone["bert"]])["masked words", "bert"]
    assert again | {"seconds": 0} == row | {"seconds": 0}


def test_curves_of_many_runs_in_one_table(everyone: dict[str, Path]) -> None:
    rows = curves(list(everyone.values()))
    assert [row["run"] for row in rows[::2]] == [row["variant"] for row in rows[1::2]]
    about = {"run": "bert", "variant": "bert", "config": "L1 H8", "seed": 3, "commit": "abc"}
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


# -- what cannot be reported, said before any text is read


@pytest.fixture
def no_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "load_splits", lambda: pytest.fail("text was read"))


@pytest.mark.usefixtures("no_reading")
@pytest.mark.parametrize("content", [None, "", "{}", "[]", '{"recipe": 3}'])
def test_a_checkpoint_without_its_record_is_refused(
    everyone: dict[str, Path], tmp_path: Path, content: str | None
) -> None:
    for name in ("config.json", "model.safetensors"):
        (tmp_path / name).write_bytes((everyone["bert"] / name).read_bytes())
    if content is not None:
        (tmp_path / "training.json").write_text(content)
    with pytest.raises(CheckpointError, match=r"training\.json"):
        report([tmp_path])


@pytest.mark.usefixtures("no_reading")
def test_what_has_no_room_or_another_vocabulary_is_refused(
    everyone: dict[str, Path], tmp_path: Path
) -> None:
    save_checkpoint(BertForPreTraining(BertConfig(SIZE + 1, 8, 1, 2, 16, 128)), tmp_path)
    (tmp_path / "training.json").write_bytes((everyone["bert"] / "training.json").read_bytes())
    with pytest.raises(ValueError, match="vocabularies of different sizes"):
        report([everyone["bert"], tmp_path])
    with pytest.raises(ValueError, match=r"positions for 128 tokens.*at 129, .*up to 128"):
        report([everyone["bert"]], lengths=[16, 129])
    with pytest.raises(CheckpointError, match="not a checkpoint"):
        report([tmp_path / "nothing"])
    for folder, lengths in ((everyone["bert"], [16, 128]), (everyone["elmo"], [129])):
        with pytest.raises(pytest.fail.Exception, match="text was read"):  # there is room
            report([folder], lengths=lengths)
