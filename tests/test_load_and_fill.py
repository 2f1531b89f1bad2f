"""`bertedu.load`, the shipped checkpoint and its results, and the commands built on them."""

import dataclasses
import json
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner, Result

import bertedu
from bertedu.analysis.fill import fill_blanks
from bertedu.cli import app
from bertedu.files import read_csv
from bertedu.model.bert import BertForPreTraining
from bertedu.model.checkpoints import CheckpointError, read_config, save_checkpoint
from bertedu.model.config import BertConfig
from bertedu.model.elmo import ElmoForPreTraining
from bertedu.text.corpus import DEFAULT_CORPORA
from bertedu.text.fast_tokenizer import save_tokenizer
from bertedu.text.sources import find
from bertedu.text.tokenization import SPECIAL_TOKENS
from course.cli import app as course

ROOT = Path(__file__).parent.parent
SHIPPED = ROOT / "data" / "checkpoints"
MINI = SHIPPED / "bert-mini"
VOCABULARY = [*SPECIAL_TOKENS, "the", "dog", "cat", "barked", "purred", "in", "yard", "##s", "."]

CONFIG = BertConfig(
    vocab_size=len(VOCABULARY),
    hidden_size=8,
    num_hidden_layers=1,
    num_attention_heads=2,
    intermediate_size=16,
    max_position_embeddings=16,
    initializer_range=0.5,
)


def write_checkpoint(folder: Path, words: list[str] = VOCABULARY) -> Path:
    torch.manual_seed(0)
    save_checkpoint(BertForPreTraining(CONFIG), folder)
    save_tokenizer(words, folder)
    return folder


def write_elmo(folder: Path, words: list[str] = VOCABULARY) -> ElmoForPreTraining:
    torch.manual_seed(0)
    model = ElmoForPreTraining(CONFIG)
    save_checkpoint(model, folder)
    save_tokenizer(words, folder)
    return model


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder that ships a checkpoint `tiny`; the working folder holds nothing."""
    monkeypatch.setenv("BERTEDU_DATA", str(tmp_path / "data"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return write_checkpoint(tmp_path / "data" / "checkpoints" / "tiny")


# -- load


def test_a_name_and_the_path_of_its_folder_load_the_same(tiny: Path) -> None:
    texts = "the ___ barked in the yard"
    answers = [fill_blanks(*bertedu.load(name), texts) for name in ("tiny", str(tiny), tiny)]
    assert answers[0] == answers[1] == answers[2]
    model, tokenizer = bertedu.load("tiny")
    assert not model.training
    assert tokenizer.encode("The dogs.").tokens == ["[CLS]", "the", "dog", "##s", ".", "[SEP]"]


def test_a_folder_of_ones_own_loads_from_the_working_folder(tiny: Path) -> None:
    write_checkpoint(Path("runs") / "mine")
    model, _ = bertedu.load("runs/mine")
    assert model.config.hidden_size == 8


def test_an_elmo_loads_by_name_and_by_path_ready_to_answer(tiny: Path) -> None:
    saved = write_elmo(tiny.with_name("elmo"))
    for name in ("elmo", tiny.with_name("elmo")):
        model, tokenizer = bertedu.load(name)
        assert isinstance(model, ElmoForPreTraining)
        assert not model.training
        text = "the ___ barked"
        assert fill_blanks(model, tokenizer, text) == fill_blanks(saved, tokenizer, text)
    assert isinstance(bertedu.load("tiny")[0], BertForPreTraining)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
def test_a_missing_file_of_an_elmo_is_named(tiny: Path, name: str) -> None:
    write_elmo(tiny.with_name("elmo"))
    (tiny.with_name("elmo") / name).unlink()
    (tiny.with_name("elmo") / "vocab.txt").unlink()  # would do in the place of tokenizer.json
    with pytest.raises(CheckpointError, match=re.escape(name)):
        bertedu.load("elmo")


@pytest.mark.parametrize("words", [VOCABULARY[:-1], [*VOCABULARY, "bird"]])
def test_the_vocabulary_of_another_model_is_refused_for_an_elmo(
    tiny: Path, words: list[str]
) -> None:
    write_elmo(tiny.with_name("elmo"), words)
    message = f"{len(words)} word pieces, but the model has {len(VOCABULARY)}"
    with pytest.raises(CheckpointError, match=message):
        bertedu.load("elmo")


def test_an_unknown_name_is_answered_with_the_known_ones(tiny: Path) -> None:
    write_checkpoint(tiny.with_name("other"))
    (tiny.parent / "note.txt").write_text("not a checkpoint")
    with pytest.raises(CheckpointError, match=r"no checkpoint 'tyni'.*one of other, tiny, minilm"):
        bertedu.load("tyni")


def test_no_checkpoint_at_all_is_said_so(tiny: Path) -> None:
    shutil.rmtree(tiny)
    with pytest.raises(CheckpointError, match=r"no checkpoint 'bert-mini'.*or one of minilm,"):
        bertedu.load()


def test_a_folder_for_downloads_alone_hides_no_shipped_checkpoint(tiny: Path) -> None:
    shutil.rmtree(tiny.parent)
    assert bertedu.load()[0].config.num_hidden_layers == 4


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
def test_a_missing_file_is_named(tiny: Path, name: str) -> None:
    (tiny / name).unlink()
    (tiny / "vocab.txt").unlink()  # would do in the place of tokenizer.json
    with pytest.raises(CheckpointError, match=re.escape(name)):
        bertedu.load("tiny")


def test_a_broken_vocabulary_is_named(tiny: Path) -> None:
    (tiny / "tokenizer.json").write_text("{")
    with pytest.raises(CheckpointError, match=r"tiny has no usable vocabulary"):
        bertedu.load("tiny")
    (tiny / "tokenizer.json").unlink()
    (tiny / "vocab.txt").write_text("the\n[UNK]\n[PAD]\n[SEP]\ndog\n")
    with pytest.raises(CheckpointError, match=r"vocab\.txt has no \[CLS\] and no \[MASK\]"):
        bertedu.load("tiny")


@pytest.mark.parametrize("words", [VOCABULARY[:-1], [*VOCABULARY, "bird"]])
def test_the_vocabulary_of_another_model_is_refused(tiny: Path, words: list[str]) -> None:
    save_tokenizer(words, tiny)
    message = f"{len(words)} word pieces, but the model has {len(VOCABULARY)}"
    with pytest.raises(CheckpointError, match=message):
        bertedu.load("tiny")


# -- the commands


def run(*words: object) -> Result:
    commands = course if words[0] == "score" else app
    return CliRunner().invoke(commands, [*map(str, words)])


def fails_with_one_line(result: Result, message: str) -> None:
    assert result.exit_code == 1, result.output
    assert isinstance(result.exception, SystemExit)  # and so no traceback
    assert result.stdout == ""
    assert re.fullmatch(rf"Error: [^\n]*{re.escape(message)}[^\n]*\n", result.stderr), result.stderr


def test_fill_prints_the_guesses_with_bars(tiny: Path) -> None:
    text = "the ___ barked in the ___"
    result = run("fill", text, "--checkpoint", "tiny", "--top", 3)
    assert result.exit_code == 0, result.output
    expected = fill_blanks(*bertedu.load("tiny"), text, top=3)
    lines = iter(result.stdout.splitlines())
    for number, guesses in enumerate(expected, start=1):
        assert next(lines) == f"blank {number}"
        for guess in guesses:
            word, share, *bar = next(lines).split()
            assert word == guess.word
            assert share == f"{guess.probability:.1%}"
            assert "".join(bar) == "█" * round(40 * guess.probability)
    assert list(lines) == []
    assert "█" in result.stdout


def test_fill_asks_an_elmo_too(tiny: Path) -> None:
    write_elmo(tiny.with_name("elmo"))
    result = run("fill", "the ___ barked", "--checkpoint", "elmo", "--top", 2)
    assert result.exit_code == 0, result.output
    (guesses,) = fill_blanks(*bertedu.load("elmo"), "the ___ barked", top=2)
    assert [line.split()[0] for line in result.stdout.splitlines()] == [
        "blank",
        *(guess.word for guess in guesses),
    ]
    fails_with_one_line(run("fill", "no blank", "--checkpoint", "elmo"), "no blank in")


def test_fill_asks_for_five_guesses(tiny: Path) -> None:
    result = run("fill", "the ___ .", "--checkpoint", tiny)
    assert len(result.stdout.splitlines()) == 6


def test_fill_draws_a_picture_when_asked(tiny: Path) -> None:
    pytest.importorskip("matplotlib")
    result = run("fill", "the ___ .", "--checkpoint", tiny, "--picture", "bars.png")
    assert result.exit_code == 0, result.output
    assert Path("bars.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    result = run("fill", "the ___ .", "--checkpoint", tiny, "--picture", "no/such/bars.png")
    fails_with_one_line(result, "no/such/bars.png")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["the dog barked"], "no blank in 'the dog barked': write ___ or [MASK]"),
        ([""], "no blank in ''"),
        (["___ " + "dog " * 20], "position embeddings for 16"),
        (["the ___", "--top", "10"], "ask for 1 to 9 guesses"),
        (
            ["the ___", "--checkpoint", "tyni"],
            "no checkpoint 'tyni': give a folder, a model of the Hub",
        ),
        (["the ___", "--checkpoint", "."], "not a checkpoint: it has no config.json"),
    ],
)
def test_fill_explains_what_it_cannot_do(tiny: Path, words: list[str], message: str) -> None:
    options = words if "--checkpoint" in words else [*words, "--checkpoint", "tiny"]
    fails_with_one_line(run("fill", *options), message)


def test_score_explains_what_it_cannot_do(tiny: Path) -> None:
    fails_with_one_line(run("score", "nothing"), "nothing is not a checkpoint")
    fails_with_one_line(run("score", tiny), "training.json")
    assert list(Path().iterdir()) == []


def test_score_prints_and_writes_the_same_table(
    tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows: list[dict[str, object]] = [
        {
            "system": "chance",
            "objective": "masked words",
            "length": 64,
            "mlm_loss": 9.0109,
            "mlm_accuracy": 1 / 8192,
        },
        {"system": "tiny", "objective": "masked words", "length": 64, "mlm_loss": 3.5}
        | {"mlm_accuracy": 0.4321, "nsp_accuracy": 0.75},
    ]
    asked: list[tuple[list[Path], tuple[int, ...]]] = []

    def fake(checkpoint: list[Path], lengths: Sequence[int]) -> list[dict[str, object]]:
        asked.append((checkpoint, tuple(lengths)))
        return rows

    monkeypatch.setattr("course.experiments.pretraining_scores.report", fake)
    result = run("score", tiny, "--out", "results/t.csv")
    assert result.exit_code == 0, result.output
    assert run("score", tiny, "--length", 64, "--out", "results/u.csv").exit_code == 0
    assert asked == [([tiny], (64, 128)), ([tiny], (64,))]
    written = read_csv(Path("results/t.csv"))
    assert [row["mlm_loss"] for row in written] == ["9.0109", "3.5"]
    for shown in ("9.0109", "0.0%", "3.5", "43.2%", "0.75", "results/t.csv"):
        assert shown in result.stdout


def fetched(name: str) -> bool:
    source = find(name)
    return source.path.is_file() and source.path.stat().st_size == source.size_bytes


@pytest.mark.skipif(
    not all(fetched(name) for name in DEFAULT_CORPORA), reason="not fetched: run `make data`"
)
def test_vocabulary_trains_the_committed_one_byte_for_byte(tmp_path: Path) -> None:
    result = run("vocabulary", "--out", tmp_path / "new")
    assert result.exit_code == 0, result.output
    committed = sorted((ROOT / "data" / "tokenizer").iterdir())
    assert sorted(p.name for p in (tmp_path / "new").iterdir()) == [p.name for p in committed]
    for path in committed:
        assert (tmp_path / "new" / path.name).read_bytes() == path.read_bytes(), path.name


@pytest.mark.skipif(
    not all(fetched(name) for name in DEFAULT_CORPORA), reason="not fetched: run `make data`"
)
def test_vocabulary_explains_what_it_cannot_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bertedu.text import corpus
    from bertedu.text.corpus import Document

    documents = [Document("dogs", "made up", "the dog barked in the yard " * 20)]
    assert documents[0].split == "train"
    monkeypatch.setattr(corpus, "load_documents", lambda name: documents)
    result = run("vocabulary", "--out", tmp_path / "new", "--size", 3)
    assert result.exit_code == 1
    assert re.fullmatch(r"Error: [^\n]*3 is too small[^\n]*\n", result.stderr)
    (tmp_path / "file").write_text("in the way")
    result = run("vocabulary", "--out", tmp_path / "file", "--size", 100)
    assert result.exit_code == 1
    assert re.fullmatch(r"Error: [^\n]*file[^\n]*\n", result.stderr)


# -- the shipped checkpoint


@pytest.fixture(scope="module")
def record() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((MINI / "training.json").read_text(encoding="utf-8"))
    return loaded


def test_the_shipped_checkpoint_is_a_bert_mini_with_the_course_vocabulary() -> None:
    model, tokenizer = bertedu.load()
    preset = BertConfig.preset("mini", vocab_size=8192)
    config = dataclasses.replace(model.config, dropout=preset.dropout)
    assert config == preset
    for name in ("vocab.txt", "tokenizer.json", "tokenizer_config.json"):
        assert (MINI / name).read_bytes() == (ROOT / "data" / "tokenizer" / name).read_bytes()
    assert all(p.isfinite().all() for p in model.parameters())
    guesses = fill_blanks(model, tokenizer, "He was born in the United ___ of America.")[0]
    assert guesses[0].word == "states"


def test_checkpoints_stay_small() -> None:
    size = sum(path.stat().st_size for path in SHIPPED.rglob("*") if path.is_file())
    assert size <= 60e6
    assert not [p.name for p in MINI.iterdir() if p.name.startswith(("training_state", "."))]


def test_the_record_says_what_was_trained_on_what(record: dict[str, Any]) -> None:
    assert record["config"] == dataclasses.asdict(read_config(MINI))
    assert record["corpora"] == {name: find(name).sha256 for name in DEFAULT_CORPORA}
    assert isinstance(record["recipe"]["seed"], int)


def test_the_record_says_where_and_how_long(record: dict[str, Any]) -> None:
    assert 0 < record["steps"] <= record["recipe"]["steps"]
    assert record["tokens"] > record["steps"]
    assert record["hardware"]
    assert record["device"] in ("cpu", "cuda", "mps")
    seconds = record["seconds"] + record["init"]["seconds"]
    assert record["device"] != "cpu" or seconds >= 3600
    assert record["commit"]


def test_the_curve_goes_from_the_first_steps_to_the_last(record: dict[str, Any]) -> None:
    for run in (record["init"], record):
        curve = run["curve"]
        steps = [point["step"] for point in curve]
        assert steps == sorted(set(steps))
        assert steps[0] <= run["steps"] / 20
        assert steps[-1] == run["steps"]
        assert curve[-1]["tokens"] <= run["tokens"]
        assert "dev_mlm_loss" in curve[-1]
    first, second = record["init"]["curve"], record["curve"]
    assert first[0]["mlm_loss"] > 6 > 5 > first[-1]["mlm_loss"]
    # what the second run was for, positions that the first has never used; notebook 05 tells it
    assert second[0]["mlm_loss"] > second[-1]["mlm_loss"] + 1
    lengths = [run["recipe"]["phases"][-1]["length"] for run in (record["init"], record)]
    assert lengths == [64, 128]


BASELINES = ("chance", "unigram", "neighbors")
TRAINED = {
    "masked words": {
        "bert-mini",
        "bert-L4H128",
        "bert-L4H128-1",
        "bert-L2H128",
        "no-nsp-L4H128",
    },
    "next words": {"ltr-L4H128", "ltr-L4H128-1", "ltr-L4H80"},
    "previous words": {"rtl-L4H128", "rtl-L4H80"},
    "both ways": {"elmo-L4H128"},
}


def results(length: str = "128", objective: str = "masked words") -> dict[str, dict[str, str]]:
    rows = read_csv(ROOT / "data" / "results" / "pretraining.csv")
    asked = [row for row in rows if (row["objective"], row["length"]) == (objective, length)]
    return {row["system"]: row for row in asked}


@pytest.mark.parametrize("objective", TRAINED)
@pytest.mark.parametrize("length", ["64", "128"])
def test_each_model_beats_every_baseline_beyond_its_interval(length: str, objective: str) -> None:
    table = results(length, objective)
    assert set(table) == {*BASELINES, *TRAINED[objective]}
    for system in TRAINED[objective]:
        model = table[system]
        for name in BASELINES:
            assert float(model["mlm_loss_high"]) < float(table[name]["mlm_loss_low"]), name
            assert float(model["mlm_accuracy_low"]) > float(table[name]["mlm_accuracy_high"]), name


def test_pairs_are_judged_by_the_models_that_were_trained_to() -> None:
    """Beside the majority rate; nobody promises to beat it by much."""
    for objective in TRAINED:
        for system, row in results("128", objective).items():
            assert bool(row["nsp_accuracy"]) == (system.startswith("bert-")), system
            assert 0.5 <= float(row["nsp_majority"]) < 0.6
            if row["nsp_accuracy"]:
                low, value, high = (
                    float(row[f"nsp_accuracy{end}"]) for end in ("_low", "", "_high")
                )
                assert low <= value <= high


def test_the_model_fills_nine_blanks_in_twenty() -> None:
    model = results()["bert-mini"]
    assert model["split"] == "test"
    assert float(model["mlm_accuracy"]) >= 0.45


def test_the_results_are_of_the_shipped_checkpoint(record: dict[str, Any]) -> None:
    model = results()["bert-mini"]
    for name in ("steps", "tokens"):  # both runs
        assert int(model[f"train_{name}"]) == record[name] + record["init"][name]
    assert int(model["seed"]) == record["recipe"]["seed"]
    assert model["config"] == "L4 H256 A4 V8192 bidirectional"
    for name in ("commit", "device", "seconds"):
        assert model[name], name


def test_transformers_opens_the_folder_and_agrees(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    transformers = pytest.importorskip("transformers")
    theirs = transformers.AutoModelForMaskedLM.from_pretrained(MINI, dtype=torch.float32).eval()
    their_tokenizer = transformers.AutoTokenizer.from_pretrained(MINI)
    model, tokenizer = bertedu.load()
    text = "The old [MASK] was naïvely re-elected president of the United States in 1864."
    encoded = their_tokenizer(text, return_tensors="pt")
    ids = encoded["input_ids"]
    assert ids[0].tolist() == tokenizer.encode(text).ids
    with torch.no_grad():
        expected = theirs(**encoded).logits
        got, _ = model(ids)
    torch.testing.assert_close(got, expected, atol=1e-3, rtol=0)


def test_help_does_not_wait_for_torch() -> None:
    import subprocess

    code = "import sys, bertedu, bertedu.cli; print('torch' in sys.modules)"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "False"
