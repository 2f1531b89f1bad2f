"""`bertedu.load`, the shipped checkpoint and its results, and the commands built on them."""

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from called import one_line_error, run

import bertedu
from bertedu.analysis.fill import fill_blanks
from bertedu.analysis.views import guess_bars
from bertedu.cli import app
from bertedu.files import read_csv
from bertedu.model.bert import BertForPreTraining
from bertedu.model.checkpoints import CheckpointError, read_config, save_checkpoint
from bertedu.model.config import BertConfig
from bertedu.model.elmo import ElmoForPreTraining
from bertedu.text import corpus
from bertedu.text.corpus import DEFAULT_CORPORA, Document
from bertedu.text.fast_tokenizer import save_tokenizer
from bertedu.text.sources import find
from bertedu.text.tokenization import SPECIAL_TOKENS
from course.cli import app as course
from course.cli import committed_checkpoints

ROOT = Path(__file__).parent.parent
MINI = ROOT / "data" / "checkpoints" / "bert-mini"
VOCABULARY = [*SPECIAL_TOKENS, "the", "dog", "cat", "barked", "purred", "in", "yard", "##s", "."]
CONFIG = BertConfig(len(VOCABULARY), 8, 1, 2, 16, 16, initializer_range=0.5)
MODELS = {"tiny": BertForPreTraining, "elmo": ElmoForPreTraining}
TEXT = "the ___ barked in the yard"


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder that ships `tiny` and `elmo`; the working folder holds nothing."""
    monkeypatch.setenv("BERTEDU_DATA", str(tmp_path / "data"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    for name, make in MODELS.items():
        torch.manual_seed(0)
        save_checkpoint(make(CONFIG), tmp_path / "data" / "checkpoints" / name)
        save_tokenizer(VOCABULARY, tmp_path / "data" / "checkpoints" / name)
    return tmp_path / "data" / "checkpoints"


# -- load


@pytest.mark.parametrize("name", MODELS)
def test_a_name_and_the_path_of_its_folder_load_the_same(shelf: Path, name: str) -> None:
    shutil.copytree(shelf / name, "runs/mine")
    torch.manual_seed(0)
    saved = MODELS[name](CONFIG).eval()
    for given in (name, shelf / name, str(shelf / name), "runs/mine"):
        model, tokenizer = bertedu.load(given)
        assert type(model) is MODELS[name]
        assert not model.training
        assert fill_blanks(model, tokenizer, TEXT) == fill_blanks(saved, tokenizer, TEXT)
    assert tokenizer.encode("The dogs.").tokens == ["[CLS]", "the", "dog", "##s", ".", "[SEP]"]


def test_an_unknown_name_is_answered_with_the_known_ones(shelf: Path) -> None:
    (shelf / "adapters").mkdir()  # no checkpoint
    with pytest.raises(CheckpointError, match=r"no checkpoint 'tyni'.*one of elmo, tiny, minilm"):
        bertedu.load("tyni")
    for name in MODELS:
        shutil.rmtree(shelf / name)
    with pytest.raises(CheckpointError, match=r"no checkpoint 'bert-mini'.*or one of minilm,"):
        bertedu.load()
    shutil.rmtree(shelf)  # a folder for downloads alone hides no shipped checkpoint
    assert bertedu.load()[0].config.num_hidden_layers == 4


# -- the commands


@pytest.mark.parametrize("name", MODELS)
def test_fill_prints_the_guesses_with_bars_and_draws_them(shelf: Path, name: str) -> None:
    text = "the ___ barked in the ___"
    result = run("fill", text, "--checkpoint", name, "--top", 3, "--picture", "bars.png")
    assert result.exit_code == 0, result.output
    expected = []
    for number, guesses in enumerate(fill_blanks(*bertedu.load(name), text, top=3), start=1):
        expected.append(f"blank {number}".split())
        for guess in guesses:
            bar = "█" * round(40 * guess.probability)
            expected.append([guess.word, f"{guess.probability:.1%}", *bar.split()])
    lines = [line.split() for line in result.stdout.splitlines()]
    assert lines[: len(expected)] == expected
    first, _ = fill_blanks(*bertedu.load(name), text, top=3)
    assert Path("bars.png").read_bytes() == guess_bars({text: first}, "the same").png
    assert len(run("fill", TEXT, "--checkpoint", shelf / name).stdout.splitlines()) == 6


TINY = ("--checkpoint", "tiny")
FAILS: list[tuple[list[str], str]] = [
    (["fill", "the dog barked", *TINY], "no blank in 'the dog barked': write ___ or [MASK]"),
    (["fill", "the ___", *TINY, "--picture", "no/such/bars.png"], "no/such/bars.png"),
    (["fill", "the ___", "--checkpoint", "tyni"], "no checkpoint 'tyni': give a folder, a model"),
    (["fill", "the ___", "--checkpoint", "."], "not a checkpoint: it has no config.json"),
    (["score", "nothing"], "nothing is not a checkpoint"),
    (["score", "../data/checkpoints/tiny"], "training.json"),
    (["vocabulary", "--out", "new", "--size", "3"], "3 is too small"),
    (["vocabulary", "--out", "file", "--size", "100"], "file"),
]


@pytest.mark.parametrize(("words", "message"), FAILS)
def test_what_cannot_be_done_is_one_line(
    shelf: Path, words: list[str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents = [Document("dogs", "made up", "the dog barked in the yard " * 20)]
    assert documents[0].split == "train"
    monkeypatch.setattr(corpus, "load_documents", lambda name: documents)
    Path("file").write_text("in the way")
    assert message in one_line_error(run(*words, of=course if words[0] == "score" else app))
    assert [path.name for path in Path().iterdir()] == ["file"]


def test_score_prints_and_writes_the_same_table(
    shelf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row: dict[str, object] = {"objective": "masked words", "length": 64}
    rows = [
        row | {"system": "chance", "mlm_loss": 9.0109, "mlm_accuracy": 1 / 8192},
        row | {"system": "tiny", "mlm_loss": 3.5, "mlm_accuracy": 0.4321, "nsp_accuracy": 0.75},
    ]
    asked: list[Any] = []
    monkeypatch.setattr(
        "course.experiments.pretraining_scores.report", lambda *given: asked.append(given) or rows
    )
    result = run("score", shelf / "tiny", "--out", "results/t.csv", of=course)
    assert result.exit_code == 0, result.output
    again = run("score", shelf / "tiny", "--length", 64, "--out", "u.csv", of=course)
    assert again.exit_code == 0
    assert [(paths, [*lengths]) for paths, lengths in asked] == [
        ([shelf / "tiny"], [64, 128]),
        ([shelf / "tiny"], [64]),
    ]
    assert [row["mlm_loss"] for row in read_csv(Path("results/t.csv"))] == ["9.0109", "3.5"]
    for shown in ("9.0109", "0.0%", "3.5", "43.2%", "0.75", "results/t.csv"):
        assert shown in result.stdout


@pytest.mark.skipif(
    not all(find(name).path.is_file() for name in DEFAULT_CORPORA), reason="run `make data`"
)
def test_vocabulary_trains_the_committed_one_byte_for_byte(tmp_path: Path) -> None:
    result = run("vocabulary", "--out", tmp_path / "new")
    assert result.exit_code == 0, result.output
    committed = {p.name: p.read_bytes() for p in (ROOT / "data" / "tokenizer").iterdir()}
    assert {p.name: p.read_bytes() for p in (tmp_path / "new").iterdir()} == committed
    assert {name: (MINI / name).read_bytes() for name in committed} == committed


# -- the shipped checkpoint, and its results


def test_the_shipped_checkpoint_is_a_bert_mini_and_small() -> None:
    model, _ = bertedu.load()
    preset = BertConfig.preset("mini", vocab_size=8192)
    assert dataclasses.replace(model.config, dropout=preset.dropout) == preset
    assert not [p.name for p in MINI.iterdir() if p.name.startswith(("training_state", "."))]


BASELINES = {"chance", "unigram", "neighbors"}
TRAINED = {
    "masked words": "bert-mini bert-L4H128 bert-L2H128 no-nsp-L4H128",
    "next words": "ltr-L4H128 ltr-L4H80",
    "previous words": "rtl-L4H128 rtl-L4H80",
    "both ways": "elmo-L4H128",
}


def results(length: str = "128", objective: str = "masked words") -> dict[str, dict[str, str]]:
    rows = read_csv(ROOT / "data" / "results" / "pretraining.csv")
    asked = [row for row in rows if (row["objective"], row["length"]) == (objective, length)]
    return {row["system"]: row for row in asked}


def test_all_committed_models_are_scored_but_diffusion() -> None:
    """It hides any share of the words: counted neighbors beat it where 15 % are hidden."""
    scored = {folder.name for folder in committed_checkpoints()}
    assert scored == set(" ".join(TRAINED.values()).split())
    others = {"adapters", "diffusion-L4H128", "reader"}
    assert {path.name for path in MINI.parent.iterdir()} == scored | others


@pytest.mark.parametrize("objective", TRAINED)
@pytest.mark.parametrize("length", ["64", "128"])
def test_each_model_beats_every_baseline_beyond_its_interval(length: str, objective: str) -> None:
    table, trained = results(length, objective), TRAINED[objective].split()
    assert set(table) == {*BASELINES, *trained}
    for model in (table[system] for system in trained):
        for name in BASELINES:
            assert float(model["mlm_loss_high"]) < float(table[name]["mlm_loss_low"]), name
            assert float(model["mlm_accuracy_low"]) > float(table[name]["mlm_accuracy_high"]), name
    for system, row in table.items():  # only some were trained to judge pairs
        assert bool(row["nsp_accuracy"]) == (system.startswith("bert-")), system
        assert 0.5 <= float(row["nsp_majority"]) < 0.6


def test_the_record_says_what_was_trained_on_what_and_where() -> None:
    second: dict[str, Any] = json.loads((MINI / "training.json").read_text(encoding="utf-8"))
    first = second["init"]
    assert second["config"] == dataclasses.asdict(read_config(MINI))
    assert second["corpora"] == {name: find(name).sha256 for name in DEFAULT_CORPORA}
    assert all((second["hardware"], second["commit"], second["seconds"] + first["seconds"] >= 60))
    for one, length in ((first, 64), (second, 128)):
        assert one["curve"][-1]["step"] == one["steps"] <= one["recipe"]["steps"]
        assert one["curve"][-1]["tokens"] <= one["tokens"]
        assert "dev_mlm_loss" in one["curve"][-1]
        assert one["recipe"]["phases"][-1]["length"] == length
    # what the second run was for, positions that the first has never used; notebook 05 tells it
    assert second["curve"][0]["mlm_loss"] > second["curve"][-1]["mlm_loss"] + 1
    model = results()["bert-mini"]  # and the results are of this checkpoint
    assert (model["split"], model["config"]) == ("test", "L4 H256 A4 V8192 bidirectional")
    assert float(model["mlm_accuracy"]) >= 0.48
    for name in ("steps", "tokens"):  # both runs
        assert int(model[f"train_{name}"]) == second[name] + first[name]
    assert int(model["seed"]) == second["recipe"]["seed"]
    assert all(model[name] for name in ("commit", "device", "seconds"))
