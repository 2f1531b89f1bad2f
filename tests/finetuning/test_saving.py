"""A fine-tuned model on disk: the same answers afterwards, here and in `transformers`."""

import dataclasses
import json
import math
import unicodedata
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
    TASKS,
    answers,
    encoded,
    make_kind,
    save,
    tiny,
    tuned,
)

import bertedu
from bertedu.finetuning.kinds import Answer, Classification
from bertedu.finetuning.question_answering import QuestionAnswering
from bertedu.finetuning.saving import FineTuned, load_finetuned, save_finetuned, say_answer
from bertedu.finetuning.training import TaskModel, score_items
from bertedu.model.checkpoints import CheckpointError
from bertedu.model.elmo import Elmo, ElmoSizes
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
OURS_ALONE: list[dict[str, Any]] = [{"norm": "pre"}, *({"direction": d} for d in ONE_WAY)]


@pytest.fixture
def moods(tmp_path: Path) -> Path:
    return save(tiny(Classification(CLASSES)), "classification", tmp_path / "moods")


# -- there and back


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize("config", [{}, *OURS_ALONE], ids=str)
def test_the_same_to_the_last_bit(tmp_path: Path, name: str, config: dict[str, Any]) -> None:
    """Also of a model in training mode, whose dropout is off once it is loaded."""
    model = tiny(make_kind(name), layer_norm_eps=1e-5, **config)
    items, folder = encoded(model.kind, EXAMPLES[name]).items, tmp_path / "a" / "b"
    scores, expected = score_items(model, items), answers(model, EXAMPLES[name])
    found = load_finetuned(str(save(model.train(), name, folder)))
    assert model.training
    assert not found.model.training
    assert {path.name for path in folder.iterdir()} == FILES
    labels = ("value",) if name == "regression" else TASKS[name].labels
    about = (TASKS[name].name, name, labels, 128, TASKS[name].pairs)
    assert (found.task, found.kind, found.labels, found.max_length, found.pairs) == about
    assert found.model.kind == model.kind
    for before, after in zip(scores, score_items(found.model, items), strict=True):
        assert torch.equal(before, after)
    assert found.answer(EXAMPLES[name]) == expected
    batch = encoded(found.model.train().kind, EXAMPLES[name])
    assert torch.equal(found.model(batch), found.model(batch)), "no dropout, even in training mode"
    # else no proof
    assert answers(tiny(make_kind(name), seed=1, **config), EXAMPLES[name]) != expected
    stored = load_file(folder / "model.safetensors")
    assert any("pooler" in key for key in stored) == (name not in ("tagging", "span"))


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize("config", OURS_ALONE, ids=str)
def test_what_their_format_cannot_say_they_do_not_get(
    tmp_path: Path, name: str, config: dict[str, Any]
) -> None:
    """It would read both ways, pool another token or norm elsewhere, and give other numbers."""
    transformers = pytest.importorskip("transformers")
    model = tiny(make_kind(name), **config)
    with pytest.raises(CheckpointError, match="it would give other answers there"):
        bertedu.save_hugging_face(tuned(model, name), tmp_path / "out")
    assert not (tmp_path / "out").exists()
    with pytest.raises(ValueError, match="bertedu-one-way"):
        transformers.AutoConfig.from_pretrained(save(model, name, tmp_path), local_files_only=True)


def test_labels_keep_their_order(tmp_path: Path) -> None:
    """Twelve: as text, 10 would come before 2."""
    labels = tuple(f"class {n * 7 % 12}" for n in range(12))
    mine = tuned(tiny(Classification(labels)), "classification")
    save_finetuned(dataclasses.replace(mine, labels=labels), tmp_path)
    assert load_finetuned(tmp_path).labels == labels


@pytest.mark.parametrize("threshold", [None, math.inf, 0.0, -3.25, 0.1 + 0.2])
@pytest.mark.parametrize("by_character", [False, True])
def test_how_a_span_is_chosen_comes_back(
    tmp_path: Path, threshold: float | None, by_character: bool
) -> None:
    kind = QuestionAnswering(by_character=by_character)
    if threshold is not None:
        kind = QuestionAnswering(True, threshold, by_character)
    model = tiny(kind)
    found = load_finetuned(save(model, "span", tmp_path))
    assert found.model.kind == kind
    json.loads((tmp_path / "config.json").read_text(), parse_constant=pytest.fail)  # no Infinity


def test_how_long_a_text_may_be_and_what_is_told_is_written(tmp_path: Path) -> None:
    about = {"seed": 3, "dev": {"accuracy": 0.5}, "name": "Zoë"}
    model = tiny(Classification(CLASSES))
    save_finetuned(tuned(model, "classification"), tmp_path, about)
    assert json.loads((tmp_path / "finetuning.json").read_text(encoding="utf-8")) == about
    for asked, kept in ((40, 40), (999, CONFIG.max_position_embeddings)):
        bertedu.save_hugging_face(tuned(model, "classification", max_length=asked), tmp_path)
        assert load_finetuned(tmp_path).max_length == kept
        settings = json.loads((tmp_path / "tokenizer_config.json").read_text())
        assert settings["model_max_length"] == kept


def test_their_pipeline_gives_the_same_label_and_what_they_save_we_open(moods: Path) -> None:
    transformers = pytest.importorskip("transformers")
    pipe = transformers.pipeline("text-classification", model=str(moods), top_k=None)
    pipe.model.save_pretrained(moods.with_name("again"))
    pipe.tokenizer.save_pretrained(moods.with_name("again"))
    for folder in (moods, moods.with_name("again")):
        found = load_finetuned(folder)
        for text in [*SENTENCES, "ZOË's  naïve\u200b café in 我们村 had 👋 [MASK] don't!"]:
            theirs = pipe([text])[0]
            assert {each["label"]: each["score"] for each in theirs} == pytest.approx(
                dict(zip(CLASSES, found.ask(text).probabilities, strict=True)), rel=1e-4
            )
            assert theirs[0]["label"] == CLASSES[found.ask(text).value]
        (pair,) = [pipe({"text": SENTENCES[0], "text_pair": SENTENCES[1]})]
        found.pairs = True
        best = max(pair, key=lambda each: each["score"])["label"]
        assert best == CLASSES[found.ask(*SENTENCES[:2]).value]


# -- what cannot be saved


def test_only_one_bert_can_be_saved(tmp_path: Path) -> None:
    berts: Any = [tiny(Classification(CLASSES), direction=way).encoder for way in ONE_WAY]
    halves = [half.bert for half in berts]
    for encoder in (ElmoFeatures(Elmo(CONFIG, ElmoSizes(1, 24))), PairFeatures(*halves)):
        model = TaskModel(encoder, Classification(CLASSES))
        with pytest.raises(CheckpointError, match=type(encoder).__name__):
            save(model, "classification", tmp_path / "new")
        with pytest.raises(CheckpointError, match=type(encoder).__name__):
            bertedu.save_hugging_face(tuned(model, "classification"), tmp_path / "new")
    assert not (tmp_path / "new").exists()


# -- what cannot be opened


def config(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    def do(folder: Path) -> None:
        values = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        change(values)
        (folder / "config.json").write_text(json.dumps(values), encoding="utf-8")

    return do


def own(**values: Any) -> Callable[[Path], None]:
    return config(lambda v: v["bertedu"].update(values))


def without(part: str) -> Callable[[Path], None]:
    """Leave tensors out: drawn at random, they would give other answers at every start."""

    def do(folder: Path) -> None:
        tensors = load_file(folder / "model.safetensors")
        kept = {name: tensor for name, tensor in tensors.items() if part not in name}
        save_file(kept, folder / "model.safetensors", {"format": "pt"})

    return do


OTHER = fast_tokenizer([*SPECIAL_TOKENS, *"abcdefgh"]).to_str()
# what is wrong with any checkpoint, the tests of the model try
WRONG: list[tuple[Callable[[Path], None], str]] = [
    (lambda folder: (folder / "tokenizer.json").write_text(OTHER) and None, "13 word pieces"),
    (own(kind="span"), "qa_outputs"),
    (own(kind="choice"), r"classifier.weight is \(3, 16\)"),
    (config(lambda v: v["bertedu"].pop("task")), "KeyError: 'task'"),
    (config(lambda v: v.update(id2label=["a", "b", "c"])), "do not fit together"),
    (config(lambda v: v.update(model_type="roberta")), "counts positions from 2"),
    *(
        (config(lambda v, own=own: v.update(bertedu=own)), "no fine-tuned model: `bertedu finetune")
        for own in (None, {}, "kind", [], 7)
    ),
    (without("classifier.bias"), "no tensor 'classifier.bias'"),
    (without("pooler.dense.bias"), "no tensor 'bert.pooler.dense.bias'"),
    (without("pooler"), "reads the pooler, which is not there"),
]


@pytest.mark.filterwarnings("ignore:Initializing zero-element tensors")
@pytest.mark.parametrize(("damage", "word"), WRONG, ids=[word for _, word in WRONG])
def test_a_folder_that_is_wrong_is_named_and_why(
    moods: Path, damage: Callable[[Path], None], word: str
) -> None:
    damage(moods)
    with pytest.raises(CheckpointError, match=word) as caught:
        load_finetuned(moods)
    assert str(moods) in str(caught.value)
    assert "\n" not in str(caught.value)


# -- asking


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> dict[str, FineTuned]:
    folder = tmp_path_factory.mktemp("asked")
    return {
        name: load_finetuned(save(tiny(make_kind(name), seed=3), name, folder / name))
        for name in EXAMPLES
    }


def test_an_answer_to_bare_texts_is_that_of_the_example(
    asked: dict[str, FineTuned], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whose label, never that of the bare texts, has no say."""

    def answer(name: str, number: int = 0) -> Answer:
        return asked[name].answer([EXAMPLES[name][number]])[0]

    assert asked["classification"].ask(SENTENCES[3]) == answer("classification", 2)
    assert asked["regression"].ask(SENTENCES[0], SENTENCES[3]) == answer("regression")
    beginning, *endings = (SENTENCES[number] for number in (2, 0, 3, 1))
    assert asked["choice"].ask(beginning, *endings) == answer("choice", 1)
    assert asked["span"].ask("When did she plant them?", CONTEXT) == answer("span")
    assert asked["tagging"].ask("Unbelievably Mira Okonjo left Lyon") == answer("tagging")
    assert len(asked["tagging"].ask("Mira left, didn't she?").value) == 6
    monkeypatch.setattr(FineTuned, "answer", lambda _, examples: examples)
    apart = [unicodedata.normalize("NFD", text) for text in SENTENCES]  # as a Mac writes é
    for name, count in {"classification": 1, "regression": 2, "choice": 3}.items():
        assert asked[name].ask(*apart[:count]) == asked[name].ask(*SENTENCES[:count])


USAGE = {  # fewest texts and most; what is said to others
    "classification": (1, 1, "give one text, not"),
    "regression": (2, 2, "give two texts, in the order"),  # its task is about pairs
    "span": (2, 2, "two texts: the question"),
    "tagging": (1, 1, "one sentence"),
    "choice": (3, 9, "a beginning, and two endings or more"),
}


@pytest.mark.parametrize("name", USAGE)
def test_each_kind_takes_its_number_of_texts_and_none_empty(
    asked: dict[str, FineTuned], name: str
) -> None:
    fewest, most, usage = USAGE[name]
    for count in (0, 1, 2, 3, 4):
        if not fewest <= count <= most:
            with pytest.raises(ValueError, match=usage):
                asked[name].ask(*(SENTENCES * 2)[:count])
    for empty in ("", " \n\t", None, 7):
        with pytest.raises(ValueError, match="a text is empty"):
            asked[name].ask(*["One."] * (fewest - 1), empty)  # type: ignore[arg-type]
    for text in (CONTEXT * 30, "unbelievably" * 300, "👋", "\u200b", "한국어 我 ½", "[SEP] [PAD]"):
        for count in range(fewest, min(most, 4) + 1):
            said = asked[name].ask(*[text] * count)
            assert say_answer(asked[name], [text] * count, said)


def test_answers_in_words(asked: dict[str, FineTuned]) -> None:
    assert say_answer(asked["classification"], ["x"], Answer(2, (0.1, 0.2, 0.7))) == "good (70%)"
    for value, said in {1.2345: "1.23", 12345.678: "12345.68", -0.00012345: "-0.000123"}.items():
        assert say_answer(asked["regression"], ["x"], Answer(value)) == said
    assert say_answer(asked["choice"], ["x", "a", "b"], Answer(1, (0.4, 0.6))) == "b (60%)"
    assert say_answer(asked["span"], ["x", "y"], Answer("")) == "(no answer)"
    assert say_answer(asked["span"], ["x", "y"], Answer("y")) == "y"
    tags = Answer(("B-PER", "O", "O"))
    assert say_answer(asked["tagging"], ["Mira slept."], tags) == "Mira/B-PER slept ."
