"""Folders of small models, ours and those of `transformers`, and ways to change a file in them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from model_checks import shake
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from torch import Tensor

from bertedu.model.bert import Bert, BertForPreTraining
from bertedu.model.checkpoints import AnyModel, read_tokenizer
from bertedu.model.config import BertConfig
from bertedu.model.elmo import ElmoForPreTraining, ElmoSizes

# numbered as in published vocabularies: [MASK] is not 4, and words differ by case and accent
WORDS = "the The dog Dog cafe café Café ##s in 犬 한국 was closed . , ##é e".split()
VOCABULARY = ["[PAD]", "[unused0]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
SIZES = {
    "vocab_size": len(VOCABULARY),
    "hidden_size": 24,
    "num_hidden_layers": 3,
    "num_attention_heads": 3,
    "intermediate_size": 20,
    "max_position_embeddings": 70,
    "type_vocab_size": 3,
    "layer_norm_eps": 1e-3,
    "initializer_range": 0.4,
}
DROPOUTS = ("hidden_dropout_prob", "attention_probs_dropout_prob")
CONFIG = BertConfig(**SIZES, dropout=0.3)  # type: ignore[arg-type]
Tensors = dict[str, Tensor]


def ours(kind: str = "bert", seed: int = 0, **config: Any) -> Any:
    """Make "bert", "encoder" or "elmo" at random, with no weight left at zero or one."""
    torch.manual_seed(seed)
    sizes: Any = SIZES | {"dropout": 0.3} | config
    made: dict[str, Callable[[BertConfig], AnyModel]] = {
        "bert": BertForPreTraining,
        "encoder": Bert,
        "elmo": lambda config: ElmoForPreTraining(config, ElmoSizes(2, 31)),
    }
    model = made[kind](BertConfig(**sizes))
    shake(model)
    return model.eval()


def theirs(folder: Path, their_class: str, add: dict[str, Any] | None = None, **config: Any) -> Any:
    """Make a random model of theirs, saved by them, with a vocabulary."""
    import transformers

    torch.manual_seed(0)
    sizes = SIZES | dict.fromkeys(DROPOUTS, 0.3) | config
    model = getattr(transformers, their_class)(transformers.BertConfig(**sizes), **(add or {}))
    shake(model.eval())
    model.save_pretrained(folder)
    write_vocabulary(folder)
    return model


def dice(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def write_vocabulary(folder: Path, **settings: Any) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n", encoding="utf-8")
    settings = {"tokenizer_class": "BertTokenizer"} | settings
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


def a_tokenizer(folder: Path) -> Tokenizer:
    """Write that vocabulary, and read it."""
    write_vocabulary(folder)
    return read_tokenizer(folder, len(VOCABULARY))


def rows() -> tuple[Tensor, Tensor, Tensor]:
    """Return ids, segment ids and padding mask of three rows."""
    generator = dice(1)
    ids = torch.randint(6, len(VOCABULARY), (3, 9), generator=generator)
    segments = torch.randint(0, 3, (3, 9), generator=generator)
    padding = torch.arange(9) < torch.tensor([[9], [4], [2]])
    return ids, segments, padding


def named(ids: Tensor, segments: Tensor, padding: Tensor) -> Tensors:
    """Name them as `transformers` does."""
    return {"input_ids": ids, "token_type_ids": segments, "attention_mask": padding.long()}


@torch.no_grad()
def outputs(model: AnyModel) -> dict[str, Tensor]:
    """Everything that a model says of `rows`, where it is no padding."""
    ids, segments, padding = rows()
    if isinstance(model, ElmoForPreTraining):
        left, right = model(ids, padding)
        return {"next": left[padding], "previous": right[padding]}
    bert = model if isinstance(model, Bert) else model.bert
    output = bert(ids, segments, padding)
    found = {"states": output.last[padding], "pooled": output.pooled}
    if isinstance(model, BertForPreTraining):
        words, found["order"] = model(ids, segments, padding)
        found["words"] = words[padding]
    return found


def weights(model: AnyModel) -> Tensors:
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def same(one: Tensors, other: Tensors) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[n], other[n]) for n in one)


def change_config(folder: Path, drop: tuple[str, ...] = (), **values: Any) -> None:
    path = folder / "config.json"
    changed = json.loads(path.read_text(encoding="utf-8")) | values
    path.write_text(json.dumps({n: v for n, v in changed.items() if n not in drop}))


def change_tensors(folder: Path, change: Callable[[Tensors], object]) -> None:
    path = folder / "model.safetensors"
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path, {"format": "pt"})


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}
