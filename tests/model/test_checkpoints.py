"""Weights to disk and back, to `transformers` and back, and every way a folder can be wrong."""

import dataclasses
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from model_checks import CONFIG, assert_tied, sample, shake
from safetensors.torch import load_file, save_file

from bertedu.files import FileError, write_atomically
from bertedu.model import checkpoints
from bertedu.model.bert import BertForPreTraining
from bertedu.model.checkpoints import (
    CheckpointError,
    load_checkpoint,
    load_pretrained,
    load_tensors,
    load_weights,
    read_config,
    save_checkpoint,
    save_tensors,
)
from bertedu.model.config import DIRECTIONS, BertConfig
from bertedu.model.elmo import ElmoForPreTraining, ElmoSizes

DROPOUTS = ("hidden_dropout_prob", "attention_probs_dropout_prob")


def new_model(config: BertConfig = CONFIG, seed: int = 0) -> BertForPreTraining:
    torch.manual_seed(seed)
    model = BertForPreTraining(config)
    shake(model)
    return model.eval()


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    save_checkpoint(new_model(), tmp_path / "model")
    return tmp_path / "model"


def weights(model: BertForPreTraining) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def same_weights(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[n], other[n]) for n in one)


# --- there and back ------------------------------------------------------------------------------


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_float32_comes_back_exactly(tmp_path: Path, norm: Any, direction: Any) -> None:
    config = dataclasses.replace(
        CONFIG, norm=norm, direction=direction, layer_norm_eps=1e-7, initializer_range=0.03
    )
    model = new_model(config)
    save_checkpoint(model, tmp_path / "a" / "b")  # folders are made
    loaded = load_checkpoint(str(tmp_path / "a" / "b"))
    assert loaded.bert.config == config
    assert same_weights(weights(model), weights(loaded))
    assert not loaded.training
    assert_tied(loaded, "loaded")
    for ours, theirs in zip(model(*sample()), loaded(*sample()), strict=True):
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_comes_back_rounded(tmp_path: Path, dtype: torch.dtype) -> None:
    model = new_model()
    save_checkpoint(model, tmp_path, dtype)
    save_checkpoint(model, tmp_path / "full")
    for tensor in load_file(tmp_path / "model.safetensors").values():
        assert tensor.dtype == dtype
    half, full = (p / "model.safetensors" for p in (tmp_path, tmp_path / "full"))
    assert half.stat().st_size < 0.6 * full.stat().st_size
    loaded = load_checkpoint(tmp_path)
    for name, tensor in model.state_dict().items():
        assert loaded.state_dict()[name].dtype == torch.float32
        assert torch.equal(loaded.state_dict()[name], tensor.to(dtype).float()), name
    assert next(model.parameters()).dtype == torch.float32  # the model itself is left alone


def test_the_table_is_stored_once(saved: Path) -> None:
    stored = load_file(saved / "model.safetensors")
    shape = (CONFIG.vocab_size, CONFIG.hidden_size)
    assert [n for n, t in stored.items() if t.shape == shape] == [
        "bert.embeddings.word_embeddings.weight"
    ]


def test_saving_again_replaces_and_leaves_nothing_else(saved: Path) -> None:
    second = new_model(seed=1)
    save_checkpoint(second, saved)
    assert same_weights(weights(second), weights(load_checkpoint(saved)))
    assert sorted(p.name for p in saved.iterdir()) == ["config.json", "model.safetensors"]


@pytest.mark.skipif(os.name != "posix", reason="file modes")
def test_others_may_read_it(saved: Path) -> None:
    assert (saved / "model.safetensors").stat().st_mode & 0o777 == 0o644


# --- transformers --------------------------------------------------------------------------------


def test_transformers_opens_the_folder(saved: Path) -> None:
    transformers = pytest.importorskip("transformers")
    ours = load_checkpoint(saved)
    ids, segments, padding = sample()
    named = {"input_ids": ids, "token_type_ids": segments, "attention_mask": padding.long()}
    theirs, told = transformers.BertForPreTraining.from_pretrained(
        saved, output_loading_info=True, local_files_only=True
    )
    assert not any(told.values()), told
    masked, told = transformers.AutoModelForMaskedLM.from_pretrained(
        saved, output_loading_info=True, local_files_only=True
    )
    assert not told["missing_keys"]
    assert not told["mismatched_keys"]
    # as with every published BERT: that class has no pooler and no next-sentence head
    assert all("pooler" in n or "seq_relationship" in n for n in told["unexpected_keys"])
    with torch.no_grad():
        words, follows = ours(ids, segments, padding)
        output, words_alone = theirs(**named), masked(**named).logits
    torch.testing.assert_close(output.prediction_logits, words, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(output.seq_relationship_logits, follows, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(words_alone, words, rtol=1e-5, atol=1e-5)


def test_transformers_does_not_look_ahead_in_a_left_to_right_model(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    ours = new_model(dataclasses.replace(CONFIG, direction="left-to-right"))
    save_checkpoint(ours, tmp_path)
    theirs = transformers.AutoModelForMaskedLM.from_pretrained(tmp_path, local_files_only=True)
    ids = sample()[0][:1]
    with torch.no_grad():
        expected, logits = ours(ids)[0], theirs(input_ids=ids).logits
    torch.testing.assert_close(logits, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("decoder", [False, True])
def test_we_open_a_folder_of_transformers(tmp_path: Path, decoder: bool) -> None:
    transformers = pytest.importorskip("transformers")
    theirs = transformers.BertForPreTraining(
        transformers.BertConfig(
            vocab_size=40,
            hidden_size=24,
            num_hidden_layers=2,
            num_attention_heads=3,
            intermediate_size=30,
            max_position_embeddings=12,
            hidden_dropout_prob=0.25,
            attention_probs_dropout_prob=0.25,
            is_decoder=decoder,
        )
    ).eval()
    shake(theirs)
    theirs.save_pretrained(tmp_path)
    ours = load_checkpoint(tmp_path)
    assert ours.bert.config.dropout == 0.25
    assert ours.bert.config.direction == ("left-to-right" if decoder else "bidirectional")
    ids, segments, padding = sample()
    with torch.no_grad():
        expected = theirs(ids, padding.long(), segments)
        words, follows = ours(ids, segments, padding)
    torch.testing.assert_close(
        words[padding], expected.prediction_logits[padding], rtol=1e-5, atol=1e-5
    )
    if not decoder:  # left to right we pool another token, the last
        torch.testing.assert_close(follows, expected.seq_relationship_logits, rtol=1e-5, atol=1e-5)


# --- broken and foreign weights ------------------------------------------------------------------


def cut_in_half(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def cut_in_the_header(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:100])


def cut_the_last_byte(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def garbage(path: Path) -> None:
    path.write_bytes(bytes(range(256)) * 20)


def empty(path: Path) -> None:
    path.write_bytes(b"")


def text(path: Path) -> None:
    path.write_text("version https://git-lfs.github.com/spec/v1\n", encoding="utf-8")


def pickle_in_disguise(path: Path) -> None:
    torch.save({"weight": torch.ones(3)}, path)


@pytest.mark.parametrize(
    "damage",
    [
        cut_in_half,
        cut_in_the_header,
        cut_the_last_byte,
        garbage,
        empty,
        text,
        pickle_in_disguise,
    ],
)
def test_a_broken_file_is_named(saved: Path, damage: Callable[[Path], None]) -> None:
    path = saved / "model.safetensors"
    damage(path)
    with pytest.raises(CheckpointError, match="is broken or only half there") as caught:
        load_checkpoint(saved)
    assert str(path) in str(caught.value)


def test_a_missing_file_is_named(saved: Path) -> None:
    (saved / "model.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"there is no file .*model\.safetensors"):
        load_checkpoint(saved)


def test_a_pickle_is_never_opened(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[Any, ...]:
            return (Path.touch, (tmp_path / "sprung",))

    path = tmp_path / "pytorch_model.bin"
    torch.save({"weight": Trap()}, path)
    with pytest.raises(CheckpointError, match="is broken"):
        load_tensors(path)
    path.rename(tmp_path / "model.safetensors")
    with pytest.raises(CheckpointError, match="is broken"):
        load_tensors(tmp_path / "model.safetensors")
    assert not (tmp_path / "sprung").exists()


def rewrite(folder: Path, change: Callable[[dict[str, torch.Tensor]], None]) -> None:
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})


def test_a_missing_tensor_is_named(saved: Path) -> None:
    name = "bert.encoder.layer.1.attention.self.key.bias"
    rewrite(saved, lambda tensors: tensors.__delitem__(name))
    with pytest.raises(CheckpointError, match=f"{saved.name} has no tensor '{name}'"):
        load_checkpoint(saved)


def test_a_tensor_of_another_shape_is_named(saved: Path) -> None:
    def change(tensors: dict[str, torch.Tensor]) -> None:
        tensors["bert.pooler.dense.weight"] = torch.zeros(24, 25)

    rewrite(saved, change)
    with pytest.raises(CheckpointError, match=r"pooler.dense.weight is \(24, 25\).*\(24, 24\)"):
        load_checkpoint(saved)


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize(
    "name", ["bert.embeddings.word_embeddings.weight", "cls.seq_relationship.bias"]
)
def test_weights_that_are_no_numbers_are_named(saved: Path, name: str, wrong: float) -> None:
    """As of a training that went wrong: every answer would be NaN, or IsNext."""
    tensors, _ = load_tensors(saved / "model.safetensors")
    tensors[name].view(-1)[1] = wrong
    save_tensors(tensors, saved / "model.safetensors", {})
    with pytest.raises(CheckpointError, match=f"{name} holds 1 numbers that are NaN or infinite"):
        load_checkpoint(saved)


def test_weights_too_large_for_32_bits_are_named(saved: Path) -> None:
    tensors, _ = load_tensors(saved / "model.safetensors")
    name = "bert.pooler.dense.bias"
    tensors[name] = tensors[name].double() + 1e300
    save_tensors(tensors, saved / "model.safetensors", {})
    with pytest.raises(CheckpointError, match=f"{name} holds 24 numbers"):
        load_checkpoint(saved)


def test_an_elmo_that_is_no_numbers_is_named(tmp_path: Path) -> None:
    save_checkpoint(ElmoForPreTraining(CONFIG, ElmoSizes(2, 40)), tmp_path)
    tensors, _ = load_tensors(tmp_path / "model.safetensors")
    tensors["elmo.token.weight"][3, 2] = float("nan")
    save_tensors(tensors, tmp_path / "model.safetensors", {})
    with pytest.raises(CheckpointError, match=r"elmo\.token\.weight holds 1 numbers"):
        load_pretrained(tmp_path)


def test_the_weights_of_another_model(saved: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    save_checkpoint(new_model(dataclasses.replace(CONFIG, vocab_size=50)), other)
    (saved / "config.json").write_bytes((other / "config.json").read_bytes())
    with pytest.raises(
        CheckpointError, match=r"word_embeddings.weight is \(37, 24\), .*\(50, 24\)"
    ):
        load_checkpoint(saved)
    save_file({"conv1.weight": torch.ones(2)}, saved / "model.safetensors")
    with pytest.raises(
        CheckpointError, match=r"has no tensor 'bert\.embeddings.*not a whole model"
    ):
        load_checkpoint(saved)


def test_a_decoder_that_is_not_the_embedding(saved: Path) -> None:
    """Left alone, the model would load and give other scores than its author's."""

    name = "cls.predictions.decoder.weight"

    def copy(tensors: dict[str, torch.Tensor]) -> None:
        tensors[name] = tensors["bert.embeddings.word_embeddings.weight"].clone()

    rewrite(saved, copy)
    load_checkpoint(saved)  # a copy is fine
    rewrite(saved, lambda tensors: tensors.update({name: tensors[name] + 1}))
    with pytest.raises(CheckpointError, match=r"decoder\.weight is not the token embedding"):
        load_checkpoint(saved)


def test_a_model_that_does_not_fit_is_left_as_it_was(saved: Path) -> None:
    tensors = load_file(saved / "model.safetensors")
    del tensors["cls.predictions.bias"]
    model = new_model(seed=5)
    before = weights(model)
    with pytest.raises(CheckpointError):
        load_weights(model, tensors, "test")
    assert same_weights(before, weights(model))


# --- wrong configs -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not valid JSON"),
        (b"{'hidden_size': 24}", "not valid JSON"),
        (b"\xff\xfe\x00binary", "not valid JSON"),
        (b"[1, 2]", "does not describe a BERT"),
        (b"{}", "does not describe a BERT"),
        (
            b'{"model_type": "roberta"}',
            "model_type must be 'bert', and is 'roberta': it count",
        ),
        (b'{"model_type": "distilbert"}', "and is 'distilbert': it has no segments"),
        (b'{"model_type": "electra"}', "and is 'electra': its head tells replaced words"),
        (b'{"model_type": "whisper"}', r"and is 'whisper'\)$"),
        (b'{"model_type": "bert"}', "lacks 'vocab_size'"),
    ],
)
def test_a_config_that_is_none(saved: Path, content: bytes, message: str) -> None:
    (saved / "config.json").write_bytes(content)
    with pytest.raises(CheckpointError, match=f"config.json.*{message}"):
        load_checkpoint(saved)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_attention_heads": 5}, "hidden_size 24 cannot be split into 5 equal heads"),
        ({"hidden_size": "24"}, "hidden_size is '24'"),
        ({"hidden_size": 24.0}, r"hidden_size is 24\.0"),
        ({"num_hidden_layers": None}, "num_hidden_layers is None"),
        (dict.fromkeys(DROPOUTS, "a little"), "makes no model"),
        ({"hidden_act": "gelu_new"}, "hidden_act is 'gelu_new'; only gelu is known"),
        (
            {"position_embedding_type": "relative_key"},
            "position_embedding_type is 'relative_key'; it must be 'absolute'",
        ),
        ({"quantization_config": {"bits": 8}}, "quantized weights are rounded"),
        ({"add_cross_attention": True}, "no layer reads the states of another model"),
        ({"pruned_heads": {"0": [1]}}, "every layer has all its heads"),
        *(
            ({"layer_norm_eps": wrong}, "layer_norm_eps is .*; it must be a number above 0")
            for wrong in (None, "1e-12", 0, -1e-12, float("nan"), float("inf"), True)
        ),
        ({"initializer_range": None}, "initializer_range is None; it must be a number"),
        ({"bertedu": {"direction": "up"}}, "direction 'up' is not one of"),
        ({"bertedu": "yes"}, "makes no model: 'str' object has no"),
    ],
)
def test_a_config_that_makes_no_model(saved: Path, change: dict[str, Any], message: str) -> None:
    path = saved / "config.json"
    values = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**values, **change}), encoding="utf-8")
    with pytest.raises(CheckpointError, match=message) as caught:
        load_checkpoint(saved)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    "change",
    [
        {"pruned_heads": {}},
        {"pruned_heads": None, "add_cross_attention": None, "quantization_config": None},
        {"layer_norm_eps": 1e-12, "torch_dtype": "float32", "use_cache": True},
    ],
)
def test_a_setting_that_changes_nothing_is_no_obstacle(saved: Path, change: dict[str, Any]) -> None:
    path = saved / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | change))
    assert same_weights(weights(load_checkpoint(saved)), weights(new_model()))


def test_a_config_without_dropout_has_that_of_transformers(saved: Path) -> None:
    path = saved / "config.json"
    values = json.loads(path.read_text(encoding="utf-8"))
    for name in DROPOUTS:
        del values[name]
    path.write_text(json.dumps(values), encoding="utf-8")
    assert load_checkpoint(saved).config.dropout == 0.1


def test_a_folder_without_config(saved: Path, tmp_path: Path) -> None:
    (saved / "config.json").unlink()
    with pytest.raises(CheckpointError, match=r"model is not a checkpoint: it has no config\.json"):
        load_checkpoint(saved)
    with pytest.raises(CheckpointError, match="nowhere is not a checkpoint"):
        load_checkpoint(tmp_path / "nowhere")


def test_a_config_that_cannot_be_read(saved: Path) -> None:
    (saved / "config.json").unlink()
    (saved / "config.json").mkdir()
    with pytest.raises(CheckpointError, match=r"cannot read .*config\.json"):
        read_config(saved)


# --- writing that fails --------------------------------------------------------------------------


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way", encoding="utf-8")
    with pytest.raises(FileError, match=r"cannot write .*file.model.*another folder"):
        save_checkpoint(new_model(), tmp_path / "file" / "model")
    with pytest.raises(FileError, match="cannot write"):
        write_atomically(tmp_path / "file" / "config.json", "{}")


@pytest.mark.skipif(
    os.name != "posix" or os.geteuid() == 0, reason="the superuser may write anywhere"
)
def test_a_folder_that_may_not_be_written(saved: Path) -> None:
    saved.chmod(0o500)
    try:
        with pytest.raises(FileError, match="cannot write "):
            save_checkpoint(new_model(seed=1), saved)
        assert same_weights(weights(new_model()), weights(load_checkpoint(saved)))
    finally:
        saved.chmod(0o700)


def disk_full_halfway(tensors: Any, path: Path, metadata: Any) -> None:
    Path(path).write_bytes(b"half of it")
    raise OSError(28, "No space left on device")


def refuse(*_: Any) -> None:
    raise PermissionError(13, "Permission denied")


@pytest.mark.parametrize(
    ("owner", "name", "failure", "reason"),
    [
        (checkpoints, "save_file", disk_full_halfway, "No space left"),
        (os, "replace", refuse, "Permission denied"),
        (Path, "mkdir", lambda *_, **__: refuse(), "Permission denied"),
    ],
)
def test_the_old_checkpoint_is_unharmed(
    saved: Path, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, failure: Any, reason: str
) -> None:
    files = {p.name: p.read_bytes() for p in saved.iterdir()}
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, failure)
        with pytest.raises(FileError, match=f"cannot write.*{reason}.*unharmed"):
            save_checkpoint(new_model(seed=1), saved)
    assert {p.name: p.read_bytes() for p in saved.iterdir()} == files  # no leftovers either
    assert same_weights(weights(new_model()), weights(load_checkpoint(saved)))


def test_a_text_that_cannot_be_written_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "config.json"
    write_atomically(path, "old")
    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(FileError, match=r"cannot write .*config\.json"):
        write_atomically(path, "new")
    assert path.read_text(encoding="utf-8") == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_an_interrupted_write_is_not_taken_for_a_checkpoint(
    saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C or a kill between two bytes: what is under the real name is whole."""

    def interrupted(tensors: Any, path: Path, metadata: Any) -> None:
        Path(path).write_bytes(b"half of it")
        raise KeyboardInterrupt

    monkeypatch.setattr(checkpoints, "save_file", interrupted)
    with pytest.raises(KeyboardInterrupt):
        save_checkpoint(new_model(seed=1), saved)
    assert same_weights(weights(new_model()), weights(load_checkpoint(saved)))
    assert sorted(p.name for p in saved.iterdir()) == ["config.json", "model.safetensors"]


def test_tensors_and_their_notes_come_back(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "state.safetensors"
    tensors = {"a": torch.arange(6).view(2, 3), "b": torch.tensor([0.1], dtype=torch.float64)}
    save_tensors(tensors, path, {"note": "Grüße, 한국어"})
    loaded, notes = load_tensors(path)
    assert notes == {"note": "Grüße, 한국어"}
    assert loaded.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert loaded[name].dtype == tensor.dtype
        assert torch.equal(loaded[name], tensor)
