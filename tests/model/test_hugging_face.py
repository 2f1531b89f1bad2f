"""Folders of `transformers` into ours and back, whatever they leave out; and the Hub, played."""

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import httpx
import huggingface_hub
import pytest
import torch
from huggingface_hub import errors
from model_checks import shake
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
from torch import Tensor

import bertedu
from bertedu.analysis.fill import fill_blanks
from bertedu.files import FileError
from bertedu.model import checkpoints
from bertedu.model.bert import Bert, BertForPreTraining
from bertedu.model.checkpoints import (
    CheckpointError,
    FromChance,
    find_model,
    is_published,
    load_checkpoint,
)
from bertedu.model.config import BertConfig
from bertedu.model.elmo import ElmoForPreTraining

transformers = pytest.importorskip("transformers")

# numbered as in published vocabularies: [MASK] is not 4, and words differ by case and accent
WORDS = "the The dog Dog cafe café Café ##s in 犬 한국 was closed . , ##é e".split()
VOCABULARY = ["[PAD]", "[unused0]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
TEXTS = ["The dogs, in Cafés.", "the [MASK] was 犬犬 closed", "한국 É e\u0301 \u200bdog", ""]
ODD = {
    "vocab_size": len(VOCABULARY),
    "hidden_size": 24,
    "num_hidden_layers": 3,
    "num_attention_heads": 3,
    "intermediate_size": 20,
    "max_position_embeddings": 700,
    "type_vocab_size": 3,
    "layer_norm_eps": 1e-3,
    "hidden_dropout_prob": 0.3,
    "attention_probs_dropout_prob": 0.3,
    "initializer_range": 0.4,
}


def write_vocabulary(folder: Path, **settings: Any) -> None:
    (folder / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n", encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "BertTokenizer"} | settings)
    )


def make(folder: Path, their_class: str, **config: Any) -> Any:
    """Make a random model of theirs, saved by them, with a vocabulary."""
    torch.manual_seed(0)
    model = getattr(transformers, their_class)(transformers.BertConfig(**ODD | config)).eval()
    shake(model)
    model.save_pretrained(folder)
    write_vocabulary(folder)
    return model


def rows(length: int = 9) -> tuple[Tensor, Tensor, Tensor]:
    dice = torch.Generator().manual_seed(1)
    ids = torch.randint(6, len(VOCABULARY), (3, length), generator=dice)
    segments = torch.randint(0, 3, (3, length), generator=dice)
    padding = torch.arange(length) < torch.tensor([[length], [length // 2], [2]])
    return ids, segments, padding


def named(ids: Tensor, segments: Tensor, padding: Tensor) -> dict[str, Tensor]:
    return {"input_ids": ids, "token_type_ids": segments, "attention_mask": padding.long()}


def assert_same(ours: Tensor, theirs: Tensor) -> None:
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


def change_config(folder: Path, **values: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def change_tensors(folder: Path, change: Callable[[dict[str, Tensor]], object]) -> None:
    path = folder / "model.safetensors"
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path, {"format": "pt"})


# -- theirs into ours


@torch.no_grad()
@pytest.mark.parametrize("length", [9, 700])
def test_a_whole_bert(tmp_path: Path, length: int) -> None:
    theirs = make(tmp_path, "BertForPreTraining")
    model, _, absent, unused = find_model(tmp_path)
    assert isinstance(model, BertForPreTraining)
    assert not model.training
    assert (absent, unused) == ((), ())
    ids, segments, padding = rows(length)
    words, follows = model(ids, segments, padding)
    expected = theirs(**named(ids, segments, padding))
    assert_same(words[padding], expected.prediction_logits[padding])
    assert_same(follows, expected.seq_relationship_logits)


@torch.no_grad()
@pytest.mark.parametrize(
    ("their_class", "absent"),
    [
        ("BertForMaskedLM", ("next-sentence head", "pooler")),
        ("BertForNextSentencePrediction", ("masked-word head",)),
    ],
)
def test_one_head_is_kept_and_the_other_is_named(
    tmp_path: Path, their_class: str, absent: tuple[str, ...]
) -> None:
    theirs = make(tmp_path, their_class)
    torch.manual_seed(1)
    model, _, missing, unused = find_model(tmp_path)
    assert (missing, unused) == (absent, ())
    output = model(*rows())
    expected, padding = theirs(**named(*rows())).logits, rows()[2]
    if "Masked" in their_class:
        assert_same(output[0][padding], expected[padding])
    else:
        assert_same(output[1], expected)
    torch.manual_seed(2)
    other = find_model(tmp_path).model
    drawn = 1 if "Masked" in their_class else 0
    assert not torch.allclose(other(*rows())[drawn], output[drawn]), "from chance"
    with pytest.warns(FromChance, match=rf"no {' and no '.join(absent)}: there the model starts"):
        bertedu.load(tmp_path)
    with pytest.raises(CheckpointError, match=f"has no {absent[0]}"):
        load_checkpoint(tmp_path)


@torch.no_grad()
@pytest.mark.parametrize("pooler", [True, False])
def test_an_encoder_alone_stays_alone(tmp_path: Path, pooler: bool) -> None:
    config = transformers.BertConfig(**ODD)
    theirs = transformers.BertModel(config, add_pooling_layer=pooler).eval()
    shake(theirs)
    theirs.save_pretrained(tmp_path)
    write_vocabulary(tmp_path)
    model, tokenizer, absent, unused = find_model(tmp_path)
    assert isinstance(model, Bert)
    assert (absent, unused) == (() if pooler else ("pooler",), ())
    ids, segments, padding = rows()
    output, expected = model(ids, segments, padding), theirs(**named(ids, segments, padding))
    assert_same(output.last[padding], expected.last_hidden_state[padding])
    if pooler:
        assert_same(output.pooled, expected.pooler_output)
    with pytest.raises(ValueError, match="an encoder alone: it was published without the head"):
        fill_blanks(model, tokenizer, "the ___ was closed")


def test_padding_trains_nothing_but_without_a_mask_their_row_of_it_stays(tmp_path: Path) -> None:
    theirs = make(tmp_path, "BertModel")
    ours = bertedu.load(tmp_path)[0]
    assert isinstance(ours, Bert)
    ids, segments, padding = rows()
    ids = ids * padding  # [PAD] is 0
    for mask in (padding, torch.ones_like(padding)):
        ours.zero_grad()
        theirs.zero_grad()
        ours(ids, segments, mask).last[padding].square().sum().backward()
        output = theirs(**named(ids, segments, mask)).last_hidden_state
        output[padding].square().sum().backward()
        mine, other = ours.embeddings.token.weight.grad, theirs.embeddings.word_embeddings.weight
        assert mine is not None
        torch.testing.assert_close(mine[1:], other.grad[1:], rtol=1e-4, atol=1e-3)
        assert not other.grad[0].any()
        assert bool(mine[0].any()) == bool(mask.all())


def test_the_head_of_another_task_is_left_out_and_named(tmp_path: Path) -> None:
    theirs = make(tmp_path, "BertForTokenClassification")
    with pytest.warns(FromChance) as told:
        model, _ = bertedu.load(tmp_path)
    said = " ".join(str(warning.message) for warning in told)
    assert "no pooler: there the model starts from chance" in said
    assert "also holds classifier.bias, classifier.weight, which have no place" in said
    ids, segments, padding = rows()
    assert isinstance(model, Bert)
    with torch.no_grad():
        expected = theirs.bert(**named(ids, segments, padding)).last_hidden_state
        assert_same(model(ids, segments, padding).last[padding], expected[padding])


def test_a_decoder_of_its_own_is_refused(tmp_path: Path) -> None:
    make(tmp_path, "BertForPreTraining", tie_word_embeddings=False)
    with pytest.raises(CheckpointError, match=r"decoder\.weight is not the token embedding"):
        bertedu.load(tmp_path)


@torch.no_grad()
def test_a_decoder_beside_our_own_block_is_obeyed_as_by_transformers(tmp_path: Path) -> None:
    make(tmp_path, "BertModel")
    change_config(tmp_path, is_decoder=True, bertedu={"direction": "bidirectional"})
    model = find_model(tmp_path).model
    assert isinstance(model, Bert)
    assert model.config.direction == "left-to-right"
    ids, segments, padding = rows()
    theirs = transformers.AutoModel.from_pretrained(tmp_path)
    expected = theirs(**named(ids, segments, padding)).last_hidden_state
    assert_same(model(ids, segments, padding).last[padding], expected[padding])


def test_two_dropout_rates_are_told(tmp_path: Path) -> None:
    make(tmp_path, "BertModel", attention_probs_dropout_prob=0.0)
    with pytest.warns(UserWarning, match=r"rate 0\.0, all else at 0\.3.*if .* trained, it is 0\.3"):
        assert find_model(tmp_path).model.config.dropout == 0.3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: "\ufeff" + text, r"vocab\.txt begins with a byte order mark"),
        (
            lambda text: text.replace("dog\n", "the\n", 1),
            r"vocab\.txt lists 'the' twice",
        ),
    ],
)
def test_an_odd_line_of_a_vocabulary_is_named(
    tmp_path: Path, change: Callable[[str], str], message: str
) -> None:
    make(tmp_path, "BertModel")
    path = tmp_path / "vocab.txt"
    path.write_text(change(path.read_text(encoding="utf-8")), encoding="utf-8")
    with pytest.raises(CheckpointError, match=message):
        find_model(tmp_path)


@torch.no_grad()
def test_names_of_old_files(tmp_path: Path) -> None:
    theirs = make(tmp_path, "BertForPreTraining")
    change_config(tmp_path, model_type=None)
    values = json.loads((tmp_path / "config.json").read_text())
    for name in ("model_type", "initializer_range", "transformers_version"):
        values.pop(name)
    (tmp_path / "config.json").write_text(json.dumps(values))

    def change(tensors: dict[str, Tensor]) -> None:
        for name in list(tensors):
            old = name.replace("LayerNorm.weight", "LayerNorm.gamma")
            tensors[old.replace("LayerNorm.bias", "LayerNorm.beta")] = tensors.pop(name)
        bias = tensors.pop("cls.predictions.bias")
        tensors["cls.predictions.decoder.bias"] = bias  # known by this name, too
        tensors["bert.embeddings.position_ids"] = torch.arange(700)[None]

    change_tensors(tmp_path, change)
    model, _, absent, unused = find_model(tmp_path)
    assert (absent, unused) == ((), ())
    words, follows = model(*rows())
    expected, padding = theirs(**named(*rows())), rows()[2]
    assert_same(words[padding], expected.prediction_logits[padding])
    assert_same(follows, expected.seq_relationship_logits)


def test_a_pickle_is_refused_and_how_to_convert_it_is_said(tmp_path: Path) -> None:
    make(tmp_path, "BertForPreTraining")
    torch.save({}, tmp_path / "pytorch_model.bin")
    find_model(tmp_path)  # it may lie beside safetensors; nobody opens it
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"only a pickle \(pytorch_model.bin\).*convert it"):
        bertedu.load(tmp_path)


def test_quantized_weights(tmp_path: Path) -> None:
    make(tmp_path, "BertForPreTraining")
    name = "bert.encoder.layer.1.output.dense.weight"
    change_tensors(tmp_path, lambda tensors: tensors.update({name: tensors[name].to(torch.int8)}))
    with pytest.raises(CheckpointError, match=f"{name} is torch.int8: these weights are quantized"):
        find_model(tmp_path)


@pytest.mark.parametrize("relative", ["RobertaModel", "DistilBertModel", "ElectraModel"])
def test_relatives_of_bert_are_refused_by_name(tmp_path: Path, relative: str) -> None:
    sizes = {"vocab_size": 30, "hidden_size": 24, "num_attention_heads": 2, "num_hidden_layers": 1}
    config = getattr(transformers, relative.replace("Model", "Config"))(**sizes)
    getattr(transformers, relative)(config).save_pretrained(tmp_path)
    kind = relative.removesuffix("Model").lower()
    with pytest.raises(CheckpointError, match=f"does not describe a BERT .*is '{kind}': it"):
        bertedu.load(tmp_path)


# -- vocabularies


SETTINGS: list[dict[str, Any]] = [
    {},
    {"do_lower_case": True},
    {"do_lower_case": False},
    {"do_lower_case": True, "strip_accents": False},
    {"do_lower_case": False, "strip_accents": True, "tokenize_chinese_chars": False},
]


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("written", ["vocab.txt", "tokenizer.json"])
def test_words_are_cut_as_by_transformers(
    tmp_path: Path, settings: dict[str, Any], written: str
) -> None:
    make(tmp_path, "BertForPreTraining")
    write_vocabulary(tmp_path, **settings)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    if written == "tokenizer.json":
        theirs.save_pretrained(tmp_path)
        (tmp_path / "vocab.txt").unlink(missing_ok=True)
        whole = Tokenizer.from_file(str(tmp_path / written))
        whole.enable_truncation(4)  # as published files often have it
        whole.enable_padding(length=50)
        whole.save(str(tmp_path / written))
    model, ours, *_ = find_model(tmp_path)
    for text in TEXTS:
        assert ours.encode(text).ids == theirs(text).input_ids, text
        assert ours.encode(text, TEXTS[0]).type_ids == theirs(text, TEXTS[0]).token_type_ids
    bertedu.save_hugging_face(model, tmp_path / "back", ours)  # type: ignore[arg-type]
    again = transformers.AutoTokenizer.from_pretrained(tmp_path / "back")
    for text in TEXTS:
        assert again(text).input_ids == theirs(text).input_ids, text
    assert again.mask_token_id == VOCABULARY.index("[MASK]")
    assert again.model_max_length == 700
    reopened = find_model(tmp_path / "back").tokenizer
    assert [reopened.encode(text).ids for text in TEXTS] == [theirs(t).input_ids for t in TEXTS]


def test_case_and_accents_make_a_difference_here(tmp_path: Path) -> None:
    """Else the test above would prove nothing."""
    make(tmp_path, "BertModel")
    found = set()
    for settings in SETTINGS:
        write_vocabulary(tmp_path, **settings)
        found.add(str([find_model(tmp_path).tokenizer.encode(text).ids for text in TEXTS]))
    assert len(found) == 4  # nothing said is as lower-cased


def test_another_kind_of_tokenizer_comes_back_as_it_is(tmp_path: Path) -> None:
    make(tmp_path, "BertForPreTraining")
    ids = {token: number for number, token in enumerate(VOCABULARY)}
    theirs = Tokenizer(models.WordLevel(ids, unk_token="[UNK]"))
    theirs.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Lowercase()])
    theirs.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    theirs.save(str(tmp_path / "tokenizer.json"))
    model, ours, *_ = find_model(tmp_path)
    text = "The dog was CLOSED now"
    assert ours.encode(text).tokens == ["the", "dog", "was", "closed", "[UNK]"]
    bertedu.save_hugging_face(model, tmp_path / "back", ours)  # type: ignore[arg-type]
    again = transformers.AutoTokenizer.from_pretrained(tmp_path / "back")
    assert again(text).input_ids == ours.encode(text).ids
    assert again.mask_token_id == ids["[MASK]"]


def test_a_cutter_that_is_more_than_wordpiece_is_refused(tmp_path: Path) -> None:
    make(tmp_path, "BertModel")
    write_vocabulary(tmp_path, tokenizer_class="BertJapaneseTokenizer")
    with pytest.raises(CheckpointError, match="cut by a BertJapaneseTokenizer"):
        bertedu.load(tmp_path)


@pytest.mark.parametrize(("rows", "fits"), [(24, True), (25, False), (160, False), (22, False)])
def test_a_table_may_be_padded_to_a_round_number(tmp_path: Path, rows: int, fits: bool) -> None:
    assert len(VOCABULARY) == 23
    make(tmp_path, "BertForPreTraining", vocab_size=rows)
    if not fits:
        with pytest.raises(CheckpointError, match=f"23 word pieces, but the model has {rows}"):
            bertedu.load(tmp_path)
        return
    model, tokenizer = bertedu.load(tmp_path)
    guesses = fill_blanks(model, tokenizer, "the ___ was closed", top=18)[0]  # type: ignore[arg-type]
    assert {guess.word for guess in guesses} == {*WORDS, "[unused0]"}


def test_a_blank_is_found_in_a_published_vocabulary(tmp_path: Path) -> None:
    make(tmp_path, "BertForPreTraining")
    model, tokenizer = bertedu.load(tmp_path)
    ours = fill_blanks(model, tokenizer, "the ___ was closed .", top=4)[0]  # type: ignore[arg-type]
    pipe = transformers.pipeline("fill-mask", model=str(tmp_path), top_k=10)
    theirs = [
        guess
        for guess in pipe("the [MASK] was closed .")
        if guess["token_str"] not in VOCABULARY[:1] + VOCABULARY[2:6]
    ]
    assert [guess.word for guess in ours] == [guess["token_str"] for guess in theirs][:4]
    ratios = [a["score"] / b.probability for a, b in zip(theirs, ours, strict=False)]
    assert ratios == pytest.approx([ratios[0]] * len(ratios), rel=1e-4)


# -- ours into theirs


def ours(seed: int = 0, **config: Any) -> BertForPreTraining:
    torch.manual_seed(seed)
    names = {**ODD, **config}
    names["dropout"] = names.pop("hidden_dropout_prob")
    del names["attention_probs_dropout_prob"]
    model = BertForPreTraining(BertConfig(**names))
    shake(model)
    return model.eval()


@pytest.fixture
def tokenizer(tmp_path: Path) -> Tokenizer:
    make(tmp_path / "vocabulary", "BertModel")
    return find_model(tmp_path / "vocabulary").tokenizer


@torch.no_grad()
def test_both_heads_in_transformers_and_back(tmp_path: Path, tokenizer: Tokenizer) -> None:
    model = ours()
    bertedu.save_hugging_face(model, tmp_path / "out", tokenizer)
    theirs, told = transformers.AutoModelForPreTraining.from_pretrained(
        tmp_path / "out", output_loading_info=True
    )
    assert not any(told.values()), told
    words, follows = model(*rows())
    expected = theirs(**named(*rows()))
    assert_same(words, expected.prediction_logits)
    assert_same(follows, expected.seq_relationship_logits)
    back = find_model(tmp_path / "out").model
    for name, tensor in model.state_dict().items():
        assert torch.equal(back.state_dict()[name], tensor), name
    assert back.config == model.config


@torch.no_grad()
def test_an_encoder_in_transformers_and_back(tmp_path: Path, tokenizer: Tokenizer) -> None:
    model = ours().bert
    bertedu.save_hugging_face(model, tmp_path / "out", tokenizer)
    theirs, told = transformers.AutoModel.from_pretrained(
        tmp_path / "out", output_loading_info=True
    )
    assert type(theirs).__name__ == "BertModel"
    assert not any(told.values()), told
    output = model(*rows(), return_attention=True)
    expected = theirs(**named(*rows()), output_attentions=True)
    assert_same(output.last, expected.last_hidden_state)
    assert_same(output.pooled, expected.pooler_output)
    for weights, their_weights in zip(output.attention, expected.attentions, strict=True):
        assert_same(weights, their_weights)
    back, _, absent, unused = find_model(tmp_path / "out")
    assert isinstance(back, Bert)
    assert (absent, unused) == ((), ())
    for name, tensor in model.state_dict().items():
        assert torch.equal(back.state_dict()[name], tensor), name


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"direction": "left-to-right"}, "reads left to right"),
        ({"direction": "right-to-left"}, "reads right to left"),
        ({"norm": "pre"}, "norms before each sub-layer"),
    ],
)
def test_what_their_format_cannot_say_is_refused(
    tmp_path: Path, tokenizer: Tokenizer, config: dict[str, Any], message: str
) -> None:
    for model in (ours(**config), ours(**config).bert):
        with pytest.raises(CheckpointError, match=f"{message}.*our own format"):
            bertedu.save_hugging_face(model, tmp_path / "out", tokenizer)
    assert not (tmp_path / "out").exists()


def test_an_elmo_is_refused(tmp_path: Path, tokenizer: Tokenizer) -> None:
    model = ElmoForPreTraining(BertConfig(len(VOCABULARY), 8, 1, 1, 8))
    with pytest.raises(CheckpointError, match="has no ELMo"):
        bertedu.save_hugging_face(model, tmp_path / "out", tokenizer)


def test_the_tokenizer_is_asked_for_and_must_fit(tmp_path: Path, tokenizer: Tokenizer) -> None:
    with pytest.raises(ValueError, match=r"save_hugging_face\(model, folder, tokenizer\)"):
        bertedu.save_hugging_face(ours(), tmp_path / "out")
    with pytest.raises(CheckpointError, match="has 23 word pieces, the model 20"):
        bertedu.save_hugging_face(ours(vocab_size=20), tmp_path / "out", tokenizer)
    assert not (tmp_path / "out").exists()


def test_a_disk_that_fills_up_spoils_nothing(
    tmp_path: Path, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "out"
    bertedu.save_hugging_face(ours(), folder, tokenizer)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}

    def full(tensors: Any, path: Path, metadata: Any) -> None:
        Path(path).write_bytes(b"half of it")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoints, "save_file", full)
    with pytest.raises(FileError, match=r"cannot write .*model\.safetensors"):
        bertedu.save_hugging_face(ours(seed=1, layer_norm_eps=1e-6), folder, tokenizer)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


# -- the Hub, played: no network


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a Hub with one model, somebody/odd; anything else is not there."""
    make(tmp_path / "hub", "BertForPreTraining")

    def fetch(name: str, allow_patterns: Sequence[str]) -> str:
        if name != "somebody/odd":
            raise answered(errors.RepositoryNotFoundError)
        for path in (tmp_path / "hub").iterdir():
            if any(Path(path.name).match(pattern) for pattern in allow_patterns):
                (tmp_path / "cache").mkdir(exist_ok=True)
                shutil.copy(path, tmp_path / "cache")
        return str(tmp_path / "cache")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fetch)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "hub"


def answered(kind: type[Exception]) -> Exception:
    request = httpx.Request("GET", "https://huggingface.co")
    return kind("no\nmore", response=httpx.Response(404, request=request))  # type: ignore[call-arg]


def fail(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def fetch(*_: Any, **__: Any) -> str:
        raise error

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fetch)


def test_a_model_of_the_hub(hub: Path, tmp_path: Path) -> None:
    for name in ("pytorch_model.bin", "model.onnx", "modeling.py", "tf_model.h5"):
        (hub / name).write_text("not wanted")
    model, tokenizer = bertedu.load("somebody/odd")
    assert isinstance(model, BertForPreTraining)
    for name, tensor in find_model(hub).model.state_dict().items():
        assert torch.equal(model.state_dict()[name], tensor), name
    assert tokenizer.token_to_id("[MASK]") == VOCABULARY.index("[MASK]")
    fetched = {path.name for path in (tmp_path / "cache").iterdir()}
    assert fetched == {"config.json", "model.safetensors", "vocab.txt", "tokenizer_config.json"}


def test_a_folder_comes_before_the_hub(hub: Path, tmp_path: Path) -> None:
    shutil.copytree(hub, tmp_path / "somebody" / "odd")
    rates = dict.fromkeys(("hidden_dropout_prob", "attention_probs_dropout_prob"), 0.75)
    change_config(tmp_path / "somebody" / "odd", **rates)
    assert bertedu.load("somebody/odd")[0].config.dropout == 0.75
    assert not is_published("somebody/odd")
    assert is_published("somebody/else")
    assert is_published("minilm")
    assert not is_published("bert-mini")


def test_a_model_of_the_hub_that_is_only_a_pickle(hub: Path) -> None:
    (hub / "model.safetensors").rename(hub / "pytorch_model.bin")
    with pytest.raises(CheckpointError, match=r"somebody/odd has no model\.safetensors.*pickle"):
        bertedu.load("somebody/odd")


@pytest.mark.parametrize("where", ["folder", "hub"])
def test_weights_in_several_files_are_called_sharded(tmp_path: Path, hub: Path, where: str) -> None:
    """As transformers cuts them; joined as the message says, they are a model again."""
    theirs = transformers.AutoModel.from_pretrained(hub)
    (hub / "model.safetensors").unlink()
    theirs.save_pretrained(hub, max_shard_size="20KB")
    with pytest.raises(CheckpointError, match=r"is sharded: .*max_shard_size='50GB'"):
        bertedu.load(hub if where == "folder" else "somebody/odd")
    transformers.AutoModel.from_pretrained(hub).save_pretrained(hub, max_shard_size="50GB")
    assert torch.equal(
        find_model(hub).model.embeddings.token.weight,  # type: ignore[union-attr]
        theirs.embeddings.word_embeddings.weight,
    )


@pytest.mark.usefixtures("hub")
def test_a_name_that_is_neither_here_nor_there() -> None:
    with pytest.raises(CheckpointError, match="no folder runs/mine here, and the Hub has no model"):
        bertedu.load("runs/mine")


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (answered(errors.GatedRepoError), "accept their terms at https://huggingface.co/some/bert"),
        (errors.LocalEntryNotFoundError("offline"), "the Hub cannot be reached.*--local-dir"),
        (httpx.ProxyError("no\nproxy"), r"from the Hub \(ProxyError: no\).*by hand"),
        (OSError(28, "disk full"), r"\(OSError: .*disk full\)"),
    ],
)
def test_without_a_network_or_a_key_it_says_what_to_do(
    error: Exception, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail(monkeypatch, error)
    with pytest.raises(CheckpointError, match=message) as caught:
        bertedu.load("some/bert")
    assert "\n" not in str(caught.value)
