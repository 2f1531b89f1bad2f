"""A fine-tuned model on disk: the same answers afterwards, here and in `transformers`."""

import dataclasses
import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny_kinds import (
    CLASSES,
    CONFIG,
    CONTEXT,
    EXAMPLES,
    SENTENCES,
    TAGS,
    TASKS,
    TOKENIZER,
    encoded,
    make_kind,
    save,
    tiny,
)

import bertedu
from bertedu.files import FileError
from bertedu.finetuning.kinds import Answer, Classification
from bertedu.finetuning.question_answering import QuestionAnswering
from bertedu.finetuning.saving import FineTuned, load_finetuned, save_finetuned, say_answer
from bertedu.finetuning.training import TaskModel, score_items
from bertedu.model import checkpoints
from bertedu.model.bert import BertForPreTraining
from bertedu.model.checkpoints import CheckpointError, save_checkpoint
from bertedu.model.elmo import Elmo, ElmoForPreTraining, ElmoSizes
from bertedu.model.features import ElmoFeatures, PairFeatures
from bertedu.text.fast_tokenizer import fast_tokenizer
from bertedu.text.tokenization import SPECIAL_TOKENS

FILES = {
    "config.json",
    "finetuning.json",
    "model.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
}
ONE_WAY = ("left-to-right", "right-to-left")


def answers(model: TaskModel, name: str) -> list[Answer]:
    items = model.kind.encode(EXAMPLES[name], TOKENIZER, 128)
    return model.kind.answers(EXAMPLES[name], items, score_items(model, items))


@pytest.fixture
def moods(tmp_path: Path) -> Path:
    return save(tiny(Classification(CLASSES)), "classification", tmp_path / "moods")


# -- there and back


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize(
    "config",
    [{}, {"norm": "pre"}, *({"direction": direction} for direction in ONE_WAY)],
    ids=["plain", "pre-norm", *ONE_WAY],
)
def test_the_same_to_the_last_bit(tmp_path: Path, name: str, config: dict[str, Any]) -> None:
    model = tiny(make_kind(name), layer_norm_eps=1e-5, **config)
    found = load_finetuned(str(save(model, name, tmp_path / "a" / "b")))
    assert {path.name for path in (tmp_path / "a" / "b").iterdir()} == FILES
    assert not found.model.training
    assert (found.task, found.kind, found.max_length) == (TASKS[name].name, name, 128)
    assert found.model.kind == model.kind
    items = model.kind.encode(EXAMPLES[name], found.tokenizer, 128)
    for before, after in zip(
        score_items(model, items), score_items(found.model, items), strict=True
    ):
        assert torch.equal(before, after)
    assert found.answer(EXAMPLES[name]) == answers(model, name)
    other = answers(tiny(make_kind(name), seed=1, **config), name)
    assert other != answers(model, name), "else this test would prove nothing"


def test_dropout_is_off_in_what_is_loaded(moods: Path) -> None:
    """Also if somebody switches to training mode and back, or trains on."""
    found = load_finetuned(moods)
    again = [found.answer(EXAMPLES["classification"]) for _ in range(3)]
    assert again[0] == again[1] == again[2]


def test_a_model_in_training_mode_is_saved_as_it_is(tmp_path: Path) -> None:
    model = tiny(Classification(CLASSES)).train()
    found = load_finetuned(save(model, "classification", tmp_path))
    assert model.training
    assert found.answer(EXAMPLES["classification"]) == answers(model.eval(), "classification")


def test_labels_keep_their_order(tmp_path: Path) -> None:
    """Twelve: as text, 10 would come before 2."""
    labels = tuple(f"class {n * 7 % 12}" for n in range(12))
    task = dataclasses.replace(TASKS["classification"], labels=labels)
    save_finetuned(tiny(Classification(labels)), TOKENIZER, task, tmp_path, {})
    assert load_finetuned(tmp_path).labels == labels


@pytest.mark.parametrize("threshold", [math.inf, 0.0, -3.25, 0.1 + 0.2])
def test_the_threshold_comes_back(tmp_path: Path, threshold: float) -> None:
    model = tiny(QuestionAnswering(True, threshold))
    found = load_finetuned(save(model, "span", tmp_path))
    assert found.model.kind == QuestionAnswering(True, threshold)
    assert found.answer(EXAMPLES["span"]) == answers(model, "span")
    json.loads((tmp_path / "config.json").read_text(), parse_constant=pytest.fail)  # no Infinity


def test_what_counts_korean_still_does_after_loading(tmp_path: Path) -> None:
    for by_character in (True, False):
        model = tiny(QuestionAnswering(by_character=by_character))
        assert load_finetuned(save(model, "span", tmp_path)).model.kind == model.kind


def test_the_threshold_decides_after_loading(tmp_path: Path) -> None:
    model = tiny(QuestionAnswering(True))
    (difference, *_) = (answer.no_answer for answer in answers(model, "span"))
    for nudge, silent in ((-0.01, True), (0.01, False)):
        model.kind.threshold = difference + nudge  # type: ignore[attr-defined]
        found = load_finetuned(save(model, "span", tmp_path))
        assert (found.answer(EXAMPLES["span"])[0].value == "") is silent
    assert load_finetuned(save(tiny(QuestionAnswering()), "span", tmp_path)).model.kind == (
        QuestionAnswering(False)
    )


def test_what_is_told_about_it_is_written(tmp_path: Path) -> None:
    about = {"seed": 3, "dev": {"accuracy": 0.5}, "name": "Zoë"}
    save_finetuned(
        tiny(Classification(CLASSES)), TOKENIZER, TASKS["classification"], tmp_path, about
    )
    assert json.loads((tmp_path / "finetuning.json").read_text(encoding="utf-8")) == about


# -- in `transformers`


@pytest.mark.parametrize("way", ["save_finetuned", "save_hugging_face"])
@pytest.mark.parametrize("name", EXAMPLES)
def test_transformers_says_the_same(tmp_path: Path, name: str, way: str) -> None:
    transformers = pytest.importorskip("transformers")
    auto = {
        "choice": transformers.AutoModelForMultipleChoice,
        "tagging": transformers.AutoModelForTokenClassification,
        "span": transformers.AutoModelForQuestionAnswering,
    }.get(name, transformers.AutoModelForSequenceClassification)
    model = tiny(make_kind(name))
    if way == "save_finetuned":
        save(model, name, tmp_path)
    else:
        labels = TASKS[name].labels
        found = FineTuned(model, TOKENIZER, TASKS[name].name, name, labels)  # type: ignore[arg-type]
        bertedu.save_hugging_face(found, tmp_path)
        back = load_finetuned(tmp_path)
        assert back.answer(EXAMPLES[name]) == answers(model, name)
        bertedu.save_hugging_face(back, tmp_path)  # and once more, of what was loaded
    theirs, told = auto.from_pretrained(tmp_path, output_loading_info=True, local_files_only=True)
    assert not any(told.values()), told
    batch = encoded(model.kind, EXAMPLES[name][:1])
    rows = {
        "input_ids": batch.ids,
        "token_type_ids": batch.segment_ids,
        "attention_mask": batch.padding_mask.long(),
    }
    if name == "choice":
        rows = {key: value[None] for key, value in rows.items()}
    with torch.no_grad():
        expected, output = model(batch), theirs(**rows)
    if name == "span":
        found = torch.stack([output.start_logits, output.end_logits], dim=1)
    else:
        found = output.logits
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    labels = {"classification": CLASSES, "tagging": TAGS, "regression": ("value",)}.get(name)
    if labels:
        assert theirs.config.id2label == dict(enumerate(labels))
        assert theirs.config.label2id == {label: i for i, label in enumerate(labels)}


@pytest.mark.parametrize("config", [{"norm": "pre"}, *({"direction": d} for d in ONE_WAY)])
def test_what_their_format_cannot_say_is_not_handed_out(
    tmp_path: Path, config: dict[str, Any]
) -> None:
    model = tiny(Classification(CLASSES), **config)
    found = FineTuned(model, TOKENIZER, "moods", "classification", CLASSES)
    with pytest.raises(CheckpointError, match="opened by `transformers` it would give other"):
        bertedu.save_hugging_face(found, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_text_is_cut_no_longer_than_it_was_trained(tmp_path: Path) -> None:
    model = tiny(Classification(CLASSES))
    found = FineTuned(model, TOKENIZER, "moods", "classification", CLASSES, max_length=40)
    bertedu.save_hugging_face(found, tmp_path)
    assert load_finetuned(tmp_path).max_length == 40
    settings = json.loads((tmp_path / "tokenizer_config.json").read_text())
    assert settings["model_max_length"] == 40


def test_their_pipeline_gives_the_same_label(moods: Path) -> None:
    transformers = pytest.importorskip("transformers")
    pipe = transformers.pipeline("text-classification", model=str(moods), top_k=None)
    found = load_finetuned(moods)
    texts = [*SENTENCES, "ZOË's  naïve\u200b café in 我们村 had 👋 [MASK] don't!"]
    said = set()
    for text in texts:
        own, theirs = found.ask(text), pipe(text)
        theirs = theirs[0] if isinstance(theirs[0], list) else theirs
        said.add(own.value)
        assert theirs[0]["label"] == CLASSES[own.value]
        assert {each["label"]: each["score"] for each in theirs} == pytest.approx(
            dict(zip(CLASSES, own.shares, strict=True)), rel=1e-4
        )
    (pair,) = [pipe({"text": texts[0], "text_pair": texts[1]})]
    found.pairs = True
    assert (
        max(pair, key=lambda each: each["score"])["label"]
        == (CLASSES[found.ask(texts[0], texts[1]).value])
    )
    assert pipe.tokenizer.model_max_length == 128


def test_what_they_save_again_we_open(moods: Path, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    theirs = transformers.AutoModelForSequenceClassification.from_pretrained(moods)
    theirs.save_pretrained(tmp_path / "again")
    transformers.AutoTokenizer.from_pretrained(moods).save_pretrained(tmp_path / "again")
    again, before = load_finetuned(tmp_path / "again"), load_finetuned(moods)
    assert again.answer(EXAMPLES["classification"]) == before.answer(EXAMPLES["classification"])


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize(
    "config",
    [{"norm": "pre"}, *({"direction": direction} for direction in ONE_WAY)],
    ids=["pre-norm", *ONE_WAY],
)
def test_transformers_refuses_what_it_does_not_have(
    tmp_path: Path, name: str, config: dict[str, Any]
) -> None:
    """It would read both ways, pool another token or norm elsewhere, and give other numbers."""
    transformers = pytest.importorskip("transformers")
    save(tiny(make_kind(name), **config), name, tmp_path)
    for auto in (transformers.AutoConfig, transformers.AutoModelForSequenceClassification):
        with pytest.raises(ValueError, match="bertedu-one-way"):
            auto.from_pretrained(tmp_path, local_files_only=True)


# -- what cannot be saved


def test_only_one_bert_can_be_saved(tmp_path: Path) -> None:
    task = TASKS["classification"]
    halves = [
        tiny(Classification(CLASSES), direction=direction).encoder.bert  # type: ignore[union-attr]
        for direction in ONE_WAY
    ]
    for encoder in (ElmoFeatures(Elmo(CONFIG, ElmoSizes(1, 24))), PairFeatures(*halves)):
        model = TaskModel(encoder, Classification(CLASSES))
        with pytest.raises(CheckpointError, match=f"this encoder is a {type(encoder).__name__}"):
            save_finetuned(model, TOKENIZER, task, tmp_path / "new", {})
    assert not (tmp_path / "new").exists()


def disk_full_halfway(*args: Any, **_: Any) -> None:
    path = next(arg for arg in args if isinstance(arg, Path))
    path.write_bytes(b"half of it")
    raise OSError(28, "No space left on device")


def full_from(name: str) -> Callable[..., int]:
    """Make a `Path.write_text` for a disk that has room until a file of that name."""

    def write(path: Path, text: str, **_: Any) -> int:
        if f".{name}." in path.name:
            disk_full_halfway(path)
        return path.write_bytes(text.encode())

    return write


@pytest.mark.parametrize("full", sorted(FILES))
def test_nothing_is_half_written(
    moods: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full: str
) -> None:
    """Whichever file the disk has no room for: the folder is as it was, and no mixture."""
    before = {path.name: path.read_bytes() for path in moods.iterdir()}
    other = tiny(Classification(CLASSES[::-1]), seed=1)
    task = dataclasses.replace(TASKS["classification"], labels=CLASSES[::-1])
    with monkeypatch.context() as patch:
        if full == "model.safetensors":
            patch.setattr(checkpoints, "save_file", disk_full_halfway)
        else:
            patch.setattr(Path, "write_text", full_from(full))
        for folder in (moods, tmp_path / "new"):
            with pytest.raises(FileError, match=f"cannot write .*{full}.*No space left"):
                save_finetuned(other, TOKENIZER, task, folder, {})
    assert {path.name: path.read_bytes() for path in moods.iterdir()} == before
    assert not list((tmp_path / "new").iterdir())
    with pytest.raises(CheckpointError, match=r"no config\.json"):
        load_finetuned(tmp_path / "new")
    save_finetuned(other, TOKENIZER, task, moods, {})  # now there is room
    assert load_finetuned(moods).labels == CLASSES[::-1]
    assert {path.name for path in moods.iterdir()} == FILES


def test_a_place_where_nothing_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way", encoding="utf-8")
    with pytest.raises(FileError, match=r"cannot write .*choose another folder"):
        save(tiny(Classification(CLASSES)), "classification", tmp_path / "file" / "model")


# -- what cannot be opened


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
@pytest.mark.parametrize("damage", ["missing", "empty", "half", "garbage"])
def test_a_broken_file(moods: Path, name: str, damage: str) -> None:
    path = moods / name
    content = path.read_bytes()
    path.unlink()
    if damage != "missing":
        broken = {"empty": b"", "half": content[: len(content) // 2], "garbage": b"\x00\xff" * 99}
        path.write_bytes(broken[damage])
    with pytest.raises(CheckpointError) as caught:
        load_finetuned(moods)
    said = str(caught.value)
    assert str(moods) in said
    assert "\n" not in said
    if name != "tokenizer.json":
        assert name in said
    if damage != "missing":
        assert re.search("again", said), "says what to do"


def change_config(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    path = folder / "config.json"
    values = json.loads(path.read_text(encoding="utf-8"))
    change(values)
    path.write_text(json.dumps(values), encoding="utf-8")


@pytest.mark.filterwarnings("ignore:Initializing zero-element tensors")
@pytest.mark.parametrize(
    "change",
    [
        lambda values: values["bertedu"].update(kind="poetry"),
        lambda values: values["bertedu"].update(kind="span"),
        lambda values: values["bertedu"].update(kind="choice"),
        lambda values: values["bertedu"].update(kind=["classification"]),
        lambda values: values["bertedu"].pop("task"),
        lambda values: values["bertedu"].pop("max_length"),
        lambda values: values.update(id2label={"0": "yes", "1": "no"}),
        lambda values: values.update(id2label={"zero": "yes", "1": "no", "2": "or"}),
        lambda values: values.update(id2label=["yes", "no", "or"]),
        lambda values: values.pop("id2label"),
        lambda values: values.update(hidden_size=32),
        lambda values: values.pop("hidden_size"),
        lambda values: values.update(model_type="roberta"),
    ],
)
def test_a_config_that_does_not_fit(
    moods: Path, change: Callable[[dict[str, Any]], object]
) -> None:
    load_finetuned(moods)
    change_config(moods, change)
    with pytest.raises(CheckpointError, match=re.escape(str(moods))):
        load_finetuned(moods)


@pytest.mark.parametrize("own", [None, {}, "kind", [], 7])
def test_a_model_that_is_not_fine_tuned(moods: Path, own: Any) -> None:
    change_config(moods, lambda values: values.update(bertedu=own))
    with pytest.raises(CheckpointError, match="holds no fine-tuned model: `bertedu finetune FILE"):
        load_finetuned(moods)


def test_a_pretrained_model_is_not_fine_tuned(tmp_path: Path) -> None:
    for model in (
        BertForPreTraining(CONFIG),
        ElmoForPreTraining(CONFIG, ElmoSizes(1, 24)),
    ):
        save_checkpoint(model, tmp_path / "model")
        with pytest.raises(CheckpointError, match="holds no fine-tuned model: `bertedu finetune"):
            load_finetuned(tmp_path / "model")
    with pytest.raises(CheckpointError, match=r"nowhere is not a checkpoint: it has no config"):
        load_finetuned(tmp_path / "nowhere")


def test_the_tokenizer_of_another_model(moods: Path) -> None:
    other = fast_tokenizer([*SPECIAL_TOKENS, *"abcdefgh"])
    (moods / "tokenizer.json").write_text(other.to_str(), encoding="utf-8")
    with pytest.raises(CheckpointError, match=r"13 word pieces, .*another model"):
        load_finetuned(moods)


@pytest.mark.parametrize("lost", ["classifier.weight", "classifier.bias", "bert.pooler.dense.bias"])
def test_a_lost_tensor(moods: Path, lost: str) -> None:
    """Drawn at random instead, it would give other answers at every start."""
    path = moods / "model.safetensors"
    tensors = load_file(path)
    del tensors[lost]
    save_file(tensors, path, {"format": "pt"})
    with pytest.raises(CheckpointError, match=re.escape(str(moods))):
        load_finetuned(moods)


def test_where_nothing_reads_the_pooler_it_is_not_saved(tmp_path: Path) -> None:
    for name in EXAMPLES:
        save(tiny(make_kind(name)), name, tmp_path)
        stored = any("pooler" in key for key in load_file(tmp_path / "model.safetensors"))
        assert stored == (name not in ("tagging", "span"))


# -- asking


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> dict[str, FineTuned]:
    folder = tmp_path_factory.mktemp("asked")
    return {
        name: load_finetuned(save(tiny(make_kind(name), seed=3), name, folder / name))
        for name in EXAMPLES
    }


def test_an_answer_to_bare_texts_is_that_of_the_example(asked: dict[str, FineTuned]) -> None:
    def first(name: str, number: int = 0) -> Answer:
        return asked[name].answer(EXAMPLES[name][number : number + 1])[0]

    assert asked["classification"].ask(SENTENCES[0]) == first("classification")
    assert asked["regression"].ask(SENTENCES[0], SENTENCES[3]) == first("regression")
    assert asked["choice"].ask(*SENTENCES) == first("choice")
    assert asked["span"].ask("When did she plant them?", CONTEXT) == first("span")
    assert asked["tagging"].ask("Unbelievably Mira Okonjo left Lyon") == first("tagging")
    assert len(asked["tagging"].ask("Mira left, didn't she?").value) == 6


@pytest.mark.parametrize(
    ("name", "wrong", "usage"),
    [
        ("classification", (0, 2, 3), "give one text, not"),
        ("regression", (0, 1, 3), "give two texts, in the order"),  # its task is about pairs
        ("span", (0, 1, 3), "two texts: the question"),
        ("tagging", (0, 2), "one sentence"),
        ("choice", (0, 1, 2), "a beginning, and two endings or more"),
    ],
)
def test_wrong_numbers_of_texts(
    asked: dict[str, FineTuned], name: str, wrong: tuple[int, ...], usage: str
) -> None:
    for count in range(5):
        texts = (SENTENCES * 2)[:count]
        if count in wrong:
            with pytest.raises(ValueError, match=usage):
                asked[name].ask(*texts)
        elif count < 3 or name == "choice":
            asked[name].ask(*texts)


@pytest.mark.parametrize("empty", ["", " \n\t", None, 7])
def test_an_empty_text(asked: dict[str, FineTuned], empty: Any) -> None:
    for name, texts in (
        ("classification", (empty,)),
        ("regression", ("One.", empty)),
        ("span", ("Who?", empty)),
        ("tagging", (empty,)),
        ("choice", ("One.", "Two.", empty)),
    ):
        with pytest.raises(ValueError, match="a text is empty"):
            asked[name].ask(*texts)


def test_texts_of_any_length_and_script_get_an_answer(asked: dict[str, FineTuned]) -> None:
    for text in (
        CONTEXT * 30,
        "unbelievably" * 300,
        "👋",
        "\u200b",
        "한국어 我们 ½",
        "[SEP] [PAD]",
    ):
        for name, found in asked.items():
            texts = (text,) * {"span": 2, "regression": 2, "choice": 3}.get(name, 1)
            said = say_answer(found, texts, found.ask(*texts))
            assert said, name


def test_answers_in_words(asked: dict[str, FineTuned]) -> None:
    assert say_answer(asked["classification"], ["x"], Answer(2, (0.1, 0.2, 0.7))) == "good (70%)"
    assert say_answer(asked["regression"], ["x"], Answer(1.2345)) == "1.23"
    assert say_answer(asked["choice"], ["x", "a", "b"], Answer(1, (0.4, 0.6))) == "b (60%)"
    assert say_answer(asked["span"], ["x", "y"], Answer("")) == "(no answer)"
    assert say_answer(asked["span"], ["x", "y"], Answer("y")) == "y"
    tags = Answer(("B-PER", "O", "O"))
    assert say_answer(asked["tagging"], ["Mira slept."], tags) == "Mira/B-PER slept ."
