"""The sizes, and the arithmetic against models that exist."""

import dataclasses
from typing import Any

import pytest
import torch
from model_checks import CONFIG

from bertedu.model.bert import BertForPreTraining
from bertedu.model.config import PRESETS, BertConfig, count_parameters

ODD = dataclasses.replace(CONFIG, type_vocab_size=3)  # no two sizes are equal
CONFIGS = {name: BertConfig.preset(name, 8192) for name in PRESETS} | {
    "odd": ODD,
    "odd, pre-norm": dataclasses.replace(ODD, norm="pre"),
}


@pytest.mark.parametrize("name", CONFIGS)
def test_the_arithmetic_is_the_real_count_of_each_part(name: str) -> None:
    config = CONFIGS[name]
    with torch.device("meta"):  # shapes without memory
        model = BertForPreTraining(config)
    parts = {part: getattr(model.bert, part) for part in ("embeddings", "encoder", "pooler")}
    parts |= {"mlm": model.mlm, "nsp": model.nsp}
    real = {part: sum(p.numel() for p in module.parameters()) for part, module in parts.items()}
    real["mlm"] -= config.vocab_size * config.hidden_size  # the table, counted once
    assert count_parameters(config) == real


@pytest.mark.parametrize(("name", "size"), [("base", 109_482_240), ("large", 335_141_888)])
def test_the_papers_sizes(name: str, size: int) -> None:
    """Without the heads, 110M and 340M to the nearest ten."""
    counted = count_parameters(BertConfig.preset(name))
    assert sum(counted[part] for part in ("embeddings", "encoder", "pooler")) == size


def test_presets_and_sizes_by_their_numbers() -> None:
    layers = [BertConfig.preset(name).num_hidden_layers for name in PRESETS]
    assert layers == [2, 4, 4, 8, 12, 24]
    assert BertConfig() == BertConfig.preset("base")
    assert BertConfig.preset("L4 H256") == BertConfig.preset("L4H256") == BertConfig.preset("mini")
    for config in map(BertConfig.preset, PRESETS):
        assert config.intermediate_size == 4 * config.hidden_size
        assert config.hidden_size / config.num_attention_heads == 64  # as in every published BERT
    narrow = BertConfig.preset("L4H32", 50)
    assert (narrow.vocab_size, narrow.num_attention_heads, narrow.intermediate_size) == (50, 1, 128)
    with pytest.raises(ValueError, match="no preset 'huge': choose tiny, mini, small"):
        BertConfig.preset("huge")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"hidden_size": 100}, "100 cannot be split into 12 equal"),
        *(({size.name: 0}, f"{size.name} is 0") for size in dataclasses.fields(ODD)[:7]),
        ({"vocab_size": -1}, "vocab_size is -1"),
        ({"hidden_size": 768.0}, r"hidden_size is 768\.0; it must be a whole number"),
        ({"hidden_size": "768"}, "hidden_size is '768'"),
        ({"dropout": 1.0}, r"dropout is 1\.0"),
        ({"dropout": -0.1}, r"dropout is -0\.1"),
        ({"dropout": float("nan")}, "dropout is nan"),
        ({"direction": "backwards"}, "'backwards' is not one of bidirectional"),
        ({"norm": "rms"}, "'rms' is neither"),
    ],
)
def test_sizes_that_make_no_model(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        BertConfig(**wrong)
