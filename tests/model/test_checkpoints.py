"""Every model to disk and back, to `transformers` and back; and every way a folder can be wrong."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from folders import (
    DROPOUTS,
    VOCABULARY,
    Tensors,
    a_tokenizer,
    change_config,
    change_tensors,
    contents,
    named,
    ours,
    outputs,
    rows,
    same,
    theirs,
    weights,
)
from safetensors.torch import load_file

import bertedu
from bertedu.files import FileError, write_atomically
from bertedu.model import checkpoints
from bertedu.model.bert import Bert, BertForPreTraining
from bertedu.model.checkpoints import CheckpointError, find_model, load_checkpoint, save_checkpoint

transformers = pytest.importorskip("transformers")

# our own format takes them all; `transformers` what reads both sides, norms after, and is no ELMo
MODELS: dict[str, dict[str, Any]] = {
    "bert": {},
    "encoder": {"kind": "encoder"},
    "left-to-right": {"direction": "left-to-right"},
    "right-to-left": {"direction": "right-to-left"},
    "pre-norm": {"norm": "pre"},
    "elmo": {"kind": "elmo"},
}


def assert_close(found: Any, expected: Any) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


def their_outputs(other: Any) -> Tensors:
    """What `outputs` says of ours, as far as they have it."""
    kind, padding, given = type(other).__name__, rows()[2], named(*rows())
    output, below = other(**given), getattr(other, "bert", other)(**given)
    found = {"states": below.last_hidden_state[padding], "pooled": below.pooler_output}
    if kind in ("BertForPreTraining", "BertForMaskedLM"):
        found["words"] = output["logits" if "Masked" in kind else "prediction_logits"][padding]
    if kind in ("BertForPreTraining", "BertForNextSentencePrediction"):
        found["order"] = output["logits" if "Next" in kind else "seq_relationship_logits"]
    return {name: value for name, value in found.items() if value is not None}


# --- there and back ------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", [name for name in MODELS if name != "encoder"])
def test_it_comes_back_from_disk(name: str, dtype: torch.dtype, tmp_path: Path) -> None:
    """Bit for bit, or rounded once; the table is stored once, and saving again replaces."""
    folder = tmp_path / "deep" / "model"
    for seed in (1, 0):
        save_checkpoint(model := ours(seed=seed, **MODELS[name]), folder, dtype)
    assert sorted(contents(folder)) == ["config.json", "model.safetensors"]
    stored = load_file(folder / "model.safetensors")
    assert {tensor.dtype for tensor in stored.values()} == {dtype}
    assert [tuple(tensor.shape) for tensor in stored.values()].count((len(VOCABULARY), 24)) == 1
    loaded = checkpoints.load_pretrained(str(folder))
    assert loaded.config == model.config
    assert not loaded.training
    assert loaded.decoder.weight is next(loaded.parameters()), "tied"
    assert same(weights(loaded), {n: t.to(dtype).float() for n, t in model.state_dict().items()})
    if dtype == torch.float32:
        assert same(outputs(loaded), outputs(model))
        assert not same(outputs(model), outputs(ours(seed=1, **MODELS[name]))), "else no proof"
    if name == "elmo":
        assert loaded.elmo.sizes == model.elmo.sizes
        with pytest.raises(CheckpointError, match="holds an ELMo"):
            load_checkpoint(folder)


@pytest.mark.parametrize("name", MODELS)
def test_transformers_says_the_same_or_does_not_get_it(name: str, tmp_path: Path) -> None:
    model, folder = ours(**MODELS[name]), tmp_path / "out"
    tokenizer = a_tokenizer(tmp_path)
    if name not in ("bert", "encoder"):
        with pytest.raises(CheckpointError, match=r"in our own format.*save_checkpoint"):
            bertedu.save_hugging_face(model, folder, tokenizer)
        assert not folder.exists()
        return
    bertedu.save_hugging_face(model, str(folder), tokenizer)
    auto = transformers.AutoModelForPreTraining if name == "bert" else transformers.AutoModel
    other, told = auto.from_pretrained(folder, output_loading_info=True)
    assert not any(told.values()), told
    with torch.no_grad():
        assert_close(outputs(model), their_outputs(other))
        bert = model if name == "encoder" else model.bert
        own = bert(*rows(), return_attention=True).attention
        assert_close(own, list(other(**named(*rows()), output_attentions=True).attentions))
    back, again, absent, unused = find_model(folder)
    assert (type(back), absent, unused) == (type(model), (), ())
    assert back.config == model.config
    assert same(weights(back), weights(model))
    assert again.get_vocab() == tokenizer.get_vocab()


def test_a_folder_of_ours_is_a_masked_lm_of_theirs_and_does_not_look_ahead(tmp_path: Path) -> None:
    for direction in ("bidirectional", "left-to-right"):
        save_checkpoint(model := ours(direction=direction), tmp_path)
        other = transformers.AutoModelForMaskedLM.from_pretrained(tmp_path)
        with torch.no_grad():
            logits = other(**named(*rows())).logits
        assert_close(logits[rows()[2]], outputs(model)["words"])


HEAD = ("classifier.bias", "classifier.weight")
# class of theirs, with or without a pooler: our class, absent, unused
THEIRS: dict[tuple[str, bool], tuple[type, tuple[str, ...], tuple[str, ...]]] = {
    ("BertForPreTraining", True): (BertForPreTraining, (), ()),
    ("BertForMaskedLM", False): (BertForPreTraining, ("next-sentence head", "pooler"), ()),
    ("BertForNextSentencePrediction", True): (BertForPreTraining, ("masked-word head",), ()),
    ("BertModel", True): (Bert, (), ()),
    ("BertModel", False): (Bert, ("pooler",), ()),
    ("BertForTokenClassification", False): (Bert, ("pooler",), HEAD),
}


@torch.no_grad()
@pytest.mark.parametrize("decoder", [False, True])
@pytest.mark.parametrize("kind", THEIRS, ids=str)
@pytest.mark.filterwarnings("ignore::bertedu.model.checkpoints.FromChance")
def test_theirs_says_the_same_here_and_what_it_lacks_is_told(
    kind: tuple[str, bool], decoder: bool, tmp_path: Path
) -> None:
    pooler = {"add_pooling_layer": kind[1]} if kind[0] == "BertModel" else {}
    other = theirs(tmp_path, kind[0], pooler, is_decoder=decoder)
    found = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        model, _, *missing = find_model(tmp_path)
        assert (type(model), *missing) == THEIRS[kind]
        assert model.config.dropout == 0.3
        assert model.config.direction == ("left-to-right" if decoder else "bidirectional")
        found.append(outputs(model))
    expected = their_outputs(other)
    for name, value in found[0].items():
        assert torch.equal(value, found[1][name]) == (name in expected), f"{name} from chance"
        if name in expected and not (decoder and name in ("pooled", "order")):
            assert_close(value, expected[name])  # left to right we pool another token, the last
    whole, absent, unused = THEIRS[kind]
    if absent or whole is Bert:
        with pytest.raises(
            CheckpointError, match=f"has no .*{'head' if whole is Bert else absent[-1]}"
        ):
            load_checkpoint(tmp_path)
    if absent or unused:
        with pytest.warns(checkpoints.FromChance) as told:
            bertedu.load(tmp_path)
        said = " ".join(str(warning.message) for warning in told)
        assert all(part in said for part in (*absent, *unused))


# --- what changes nothing ------------------------------------------------------------------------


def config(drop: tuple[str, ...] = (), **values: Any) -> Callable[[Path], None]:
    return lambda folder: change_config(folder, drop, **values)


def tensors(change: Callable[[Tensors], object]) -> Callable[[Path], None]:
    return lambda folder: change_tensors(folder, change)


def renamed(**pairs: str) -> Callable[[Path], None]:
    def change(tensors: Tensors) -> None:
        for name in list(tensors):
            tensor, new = tensors.pop(name), name
            for old, other in pairs.items():
                new = new.replace(old.replace("_", "."), other)
            tensors[new] = tensor

    return lambda folder: change_tensors(folder, change)


LOST = "bert.encoder.layer.1.attention.self.key.bias"
TABLE, DECODER = "bert.embeddings.word_embeddings.weight", "cls.predictions.decoder.weight"
HARMLESS: dict[str, Callable[[Path], None]] = {
    "old names": renamed(Norm_weight="Norm.gamma", Norm_bias="Norm.beta"),
    "another name": renamed(cls_predictions_bias="cls.predictions.decoder.bias"),
    "a copy of the table": tensors(lambda t: t.update({DECODER: t[TABLE].clone()})),
    "position ids": tensors(lambda t: t.update({"bert.embeddings.position_ids": torch.ones(70)})),
    "another pooler": tensors(lambda t: t.update({"pooler.dense.bias": torch.ones(24)})),
    "double precision": tensors(lambda t: t.update({n: one.double() for n, one in t.items()})),
    "sizes only": config(drop=("model_type", "transformers_version")),
    "nulls": config(pruned_heads=None, add_cross_attention=None, quantization_config=None),
    "settings of training": config(pruned_heads={}, torch_dtype="float32", use_cache=True),
    "a pickle beside": lambda folder: torch.save({}, folder / "pytorch_model.bin"),
}


@pytest.mark.parametrize("name", HARMLESS)
def test_what_changes_nothing(name: str, tmp_path: Path) -> None:
    theirs(tmp_path, "BertForPreTraining")
    before = find_model(tmp_path)
    HARMLESS[name](tmp_path)
    after = find_model(tmp_path)
    assert after.absent == ()
    assert after.unused == (("pooler.dense.bias",) if name == "another pooler" else ())
    assert after.model.config == before.model.config
    assert same(weights(after.model), weights(before.model))


def test_what_the_first_configs_leave_out_is_as_in_transformers(tmp_path: Path) -> None:
    """And is_decoder, which it may have written anew beside our own block, is obeyed."""
    save_checkpoint(ours(), tmp_path)
    change_config(tmp_path, ("layer_norm_eps", "initializer_range", *DROPOUTS), is_decoder=True)
    found = load_checkpoint(tmp_path).config
    assert (found.layer_norm_eps, found.initializer_range, found.dropout) == (1e-12, 0.02, 0.1)
    assert found.direction == "left-to-right"


def test_two_dropout_rates_are_told(tmp_path: Path) -> None:
    theirs(tmp_path, "BertModel", attention_probs_dropout_prob=0.0)
    with pytest.warns(UserWarning, match=r"rate 0\.0, all else at 0\.3"):
        assert find_model(tmp_path).model.config.dropout == 0.3


# --- what is wrong with a folder -----------------------------------------------------------------


def file(name: str, content: bytes | None) -> Callable[[Path], None]:
    """Replace the content of a file, or remove it."""
    return lambda f: (f / name).unlink() if content is None else put(f / name, content)


def put(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def spoilt(name: str, wrong: float) -> Callable[[Path], None]:
    return tensors(lambda t: t[name].view(-1).__setitem__(1, wrong))


def unreadable(folder: Path) -> None:
    (folder / "config.json").unlink()
    (folder / "config.json").mkdir()


JSON, WEIGHTS, WORDS = "config.json", "model.safetensors", "vocab.txt"
WRONG: list[tuple[Callable[[Path], None], str]] = [
    (file(JSON, None), r"no config\.json"),
    (unreadable, "config.json: .*again"),
    *((file(JSON, text), "config.json: .*again") for text in (b"", b"\xff\xfe\x00binary")),
    *((file(JSON, text), "describes no BERT") for text in (b"[1]", b"{}")),
    (file(JSON, b'{"model_type": "bert"}'), "lacks 'vocab_size'"),
    (config(model_type="roberta"), "is 'roberta': it counts positions from 2"),
    (config(model_type="whisper"), r"is 'whisper'\)$"),
    (config(hidden_act="gelu_new"), "only gelu"),
    (config(position_embedding_type="relative_key"), "must be 'absolute'"),
    (config(quantization_config={"bits": 8}), "quantized weights are rounded"),
    (config(add_cross_attention=True), "states of another model"),
    (config(pruned_heads={"0": [1]}), "has all its heads"),
    *(
        (config(layer_norm_eps=wrong), "layer_norm_eps is .* a number above 0")
        for wrong in ("1e-12", 0, float("nan"), float("inf"), True)
    ),
    (config(initializer_range=None), "initializer_range is None"),
    (config(num_attention_heads=5), "cannot be split into 5"),
    (config(hidden_size="24"), "hidden_size is '24'"),
    (config(**dict.fromkeys(DROPOUTS, "a little")), "makes no model"),
    (config(bertedu={"direction": "up"}), "'up' is not one of"),
    (config(bertedu="yes"), "makes no model"),
    *((config(num_hidden_layers=n), f"says {n} layers, the file has 3") for n in (2, 4)),
    (config(hidden_size=48), r"\(23, 24\), but its config.* says \(23, 48\)"),
    (file(WEIGHTS, None), r"no file .*model\.safetensors"),
    (lambda f: put(f / WEIGHTS, contents(f)[WEIGHTS][:999]), "broken or only half there"),
    (file(WEIGHTS, b""), "broken or only half there"),
    (tensors(lambda t: t.pop(LOST)), f"has no tensor '{LOST}'"),
    (tensors(lambda t: (t.clear(), t.update({"conv1": torch.ones(2)}))), "not a whole model"),
    (tensors(lambda t: t.update({LOST: torch.zeros(25)})), r"key.bias is \(25,\).*\(24,\)"),
    (tensors(lambda t: t.update({LOST: t[LOST].to(torch.int8)})), "torch.int8.*quantized"),
    *((spoilt(TABLE, wrong), f"{TABLE} holds NaN") for wrong in (float("nan"), float("-inf"))),
    (tensors(lambda t: t.update({LOST: t[LOST].double() + 1e300})), "key.bias holds NaN or inf"),
    (tensors(lambda t: t.update({DECODER: t[TABLE] + 1})), "decoder.* is not the token embedding"),
    (file(WORDS, None), "neither a tokenizer.json nor a vocab.txt"),
    (file(WORDS, b"\xef\xbb\xbf[PAD]\n[UNK]"), "byte order mark"),
    (file(WORDS, "\n".join([*VOCABULARY[:-1], "the"]).encode()), "lists 'the' twice"),
    (file(WORDS, "\n".join(VOCABULARY[6:]).encode()), r"no \[PAD\] and no \[UNK\]"),
    (file(WORDS, "\n".join(VOCABULARY[:-1]).encode()), "22 word pieces, .* the model has 23"),
    (file("tokenizer.json", b"\x00\xff" * 99), "no usable vocabulary"),
    (file("tokenizer_config.json", b"{"), "no usable vocabulary"),
    (
        file("tokenizer_config.json", b'{"tokenizer_class": "BertJapaneseTokenizer"}'),
        "cut by a BertJapaneseTokenizer",
    ),
]
WRONG_ELMO: list[tuple[Callable[[Path], None], str]] = [
    (config(sizes={"layers": 2, "cells": 32}), r"weight_ih_l0 is \(124, 24\), .*\(128, 24\)"),
    (config(sizes={"layers": 2}), "makes no ELMo"),
    (config(config={"vocab_size": 0}), "makes no ELMo.*vocab_size"),
    (tensors(lambda t: t.pop("norm.bias")), r"no tensor 'norm\.bias'"),
]


@pytest.mark.parametrize(
    ("kind", "damage", "word"),
    [*(("bert", *case) for case in WRONG), *(("elmo", *case) for case in WRONG_ELMO)],
)
def test_a_folder_that_is_wrong_is_named_and_why(
    kind: str, damage: Callable[[Path], None], word: str, tmp_path: Path
) -> None:
    save_checkpoint(ours(kind), tmp_path)
    a_tokenizer(tmp_path)
    damage(tmp_path)
    with pytest.raises(CheckpointError, match=word) as caught:
        bertedu.load(tmp_path)
    assert str(tmp_path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_weights_in_several_files_are_joined_as_told(tmp_path: Path) -> None:
    other = theirs(tmp_path, "BertModel")
    (tmp_path / WEIGHTS).unlink()
    other.save_pretrained(tmp_path, max_shard_size="20KB")
    with pytest.raises(CheckpointError, match=r"index\.json.*joins no .*max_shard_size='50GB'"):
        bertedu.load(tmp_path)
    joined = transformers.AutoModel.from_pretrained(tmp_path)
    joined.save_pretrained(tmp_path, max_shard_size="50GB")
    bert: Any = find_model(tmp_path).model
    assert torch.equal(bert.embeddings.token.weight, other.embeddings.word_embeddings.weight)


def test_a_pickle_is_never_opened(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[Any, ...]:
            return (Path.touch, (tmp_path / "sprung",))

    save_checkpoint(ours(), tmp_path)
    torch.save({"weight": Trap()}, tmp_path / WEIGHTS)
    with pytest.raises(CheckpointError, match="is broken"):
        bertedu.load(tmp_path)
    (tmp_path / WEIGHTS).rename(tmp_path / "pytorch_model.bin")
    with pytest.raises(CheckpointError, match=r"only pytorch_model\.bin.*convert it"):
        bertedu.load(tmp_path)
    assert not (tmp_path / "sprung").exists()


def test_a_model_that_does_not_fit_is_left_as_it_was(tmp_path: Path) -> None:
    save_checkpoint(ours(), tmp_path)
    tensors = load_file(tmp_path / WEIGHTS)
    del tensors["cls.predictions.bias"]
    model = ours(seed=5)
    before = weights(model)
    with pytest.raises(CheckpointError):
        checkpoints.load_weights(model, tensors, "test")
    assert same(before, weights(model))


# --- writing -------------------------------------------------------------------------------------


def refuse(*_: Any, **__: Any) -> None:
    raise PermissionError(13, "Permission denied")


def half(error: BaseException) -> Callable[..., None]:
    """Write a half of the file, and stop."""

    def write(tensors: Any, path: Path, metadata: Any) -> None:
        path.write_bytes(b"half of it")
        raise error

    return write


FAILURES: list[tuple[Any, str, Callable[..., None], str]] = [  # the first two of tensors alone
    (checkpoints, "save_file", half(OSError(28, "No space left on device")), "No space left"),
    (checkpoints, "save_file", half(KeyboardInterrupt()), ""),
    (os, "replace", refuse, "Permission denied"),
    (Path, "mkdir", refuse, "Permission denied"),
    (Path, "write_text", refuse, "Permission denied"),
]


@pytest.mark.parametrize(
    ("one_file", "owner", "name", "failure", "reason"),
    [*((False, *case) for case in FAILURES), *((True, *case) for case in FAILURES[2:])],
)
def test_a_write_that_fails_leaves_the_old_files(
    one_file: bool, owner: Any, name: str, failure: Any, reason: str, tmp_path: Path
) -> None:
    folder, tokenizer = tmp_path / "model", a_tokenizer(tmp_path)

    def save(seed: int) -> None:
        if one_file:
            write_atomically(folder / "some.json", str(seed))
        else:
            bertedu.save_hugging_face(ours(seed=seed, dropout=seed / 10), folder, tokenizer)

    save(0)
    before = contents(folder)
    error, said = FileError, f"cannot write.*{reason}.*unharmed"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, failure)
        with pytest.raises(error if reason else KeyboardInterrupt, match=said if reason else None):
            save(1)
    assert contents(folder) == before  # no leftovers either
    save(1)
    assert contents(folder).keys() == before.keys()
    assert contents(folder) != before


def test_the_tokenizer_is_asked_for_and_must_fit(tmp_path: Path) -> None:
    tokenizer, out = a_tokenizer(tmp_path), tmp_path / "out"
    with pytest.raises(ValueError, match=r"save_hugging_face\(model, folder, tokenizer\)"):
        bertedu.save_hugging_face(ours(), out)
    for size in (22, 23 + 128):  # a few more rows make a round number
        with pytest.raises(CheckpointError, match=f"has 23 word pieces, the model {size}"):
            bertedu.save_hugging_face(ours(vocab_size=size), out, tokenizer)
    assert not out.exists()
    bertedu.save_hugging_face(ours(vocab_size=23), out, tokenizer)


@pytest.mark.skipif(os.name != "posix", reason="file modes")
def test_tensors_and_their_notes_come_back_and_others_may_read_them(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "state.safetensors"
    tensors = {"a": torch.arange(6).view(2, 3).T, "b": torch.tensor([0.1], dtype=torch.float64)}
    checkpoints.save_tensors(tensors, path, {"note": "Grüße, 한국어"})
    loaded, notes = checkpoints.load_tensors(path)
    assert notes == {"note": "Grüße, 한국어"}
    assert same(loaded, tensors)
    assert {n: t.dtype for n, t in loaded.items()} == {n: t.dtype for n, t in tensors.items()}
    assert path.stat().st_mode & 0o777 == 0o644
    checkpoints.save_tensors(tensors, path, {})
    assert checkpoints.load_tensors(path)[1] == {}
