"""The sizes, and the arithmetic against models that exist."""

import dataclasses
from typing import Any

import pytest
import torch
from model_checks import CONFIG

from bertedu.model.bert import Bert, BertForPreTraining
from bertedu.model.config import DIRECTIONS, PRESETS, BertConfig, count_parameters


def real_count(module: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


@pytest.mark.parametrize("vocab_size", [8192, 30522])
@pytest.mark.parametrize("name", PRESETS)
def test_the_arithmetic_is_the_real_count_of_each_part(name: str, vocab_size: int) -> None:
    config = BertConfig.preset(name, vocab_size)
    with torch.device("meta"):  # shapes without memory
        model = BertForPreTraining(config)
    counted = count_parameters(config)
    assert real_count(model) == sum(counted.values())
    encoder_alone = ("embeddings", "encoder", "pooler")
    for part in encoder_alone:
        assert real_count(getattr(model.bert, part)) == counted[part]
    assert real_count(model.bert) == sum(counted[part] for part in encoder_alone)
    assert real_count(model.nsp) == counted["nsp"]
    assert real_count(model.mlm) == counted["mlm"] + vocab_size * config.hidden_size  # the table


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_the_arithmetic_knows_every_switch(norm: Any, direction: Any) -> None:
    """No two sizes are equal here, so that none can stand in for another."""
    config = dataclasses.replace(CONFIG, norm=norm, direction=direction, type_vocab_size=3)
    counted = count_parameters(config)
    assert real_count(BertForPreTraining(config)) == sum(counted.values())
    assert real_count(Bert(config).encoder) == counted["encoder"]


@pytest.mark.parametrize(
    ("name", "encoder_and_pooler", "all_parts", "paper"),
    [("base", 109_482_240, 110_106_428, 110), ("large", 335_141_888, 336_226_108, 340)],
)
def test_the_papers_sizes(name: str, encoder_and_pooler: int, all_parts: int, paper: int) -> None:
    """Base is 109.5M without the heads, large 335.1M: to the nearest ten, 110M and 340M."""
    counted = count_parameters(BertConfig.preset(name))
    assert sum(counted[part] for part in ("embeddings", "encoder", "pooler")) == encoder_and_pooler
    assert sum(counted.values()) == all_parts
    assert round(encoder_and_pooler / 1e7) * 10 == paper
    assert round(all_parts / 1e7) * 10 == paper


def test_large_is_1024_wide_and_the_defaults_are_base() -> None:
    large = BertConfig.preset("large")
    assert (large.num_hidden_layers, large.hidden_size, large.num_attention_heads) == (24, 1024, 16)
    assert BertConfig() == BertConfig.preset("base")
    for name in PRESETS:
        config = BertConfig.preset(name)
        assert config.intermediate_size == 4 * config.hidden_size
        assert config.hidden_size / config.num_attention_heads == 64  # as in every published BERT


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"hidden_size": 100, "num_attention_heads": 12}, "100 cannot be split into 12 equal"),
        ({"hidden_size": 0}, "hidden_size is 0"),
        ({"vocab_size": -1}, "vocab_size is -1"),
        ({"num_hidden_layers": 0}, "num_hidden_layers is 0"),
        ({"num_attention_heads": 0}, "num_attention_heads is 0"),
        ({"intermediate_size": 0}, "intermediate_size is 0"),
        ({"max_position_embeddings": 0}, "max_position_embeddings is 0"),
        ({"type_vocab_size": 0}, "type_vocab_size is 0"),
        ({"hidden_size": 768.0}, r"hidden_size is 768\.0; it must be a whole number"),
        ({"hidden_size": "768"}, "hidden_size is '768'; it must be a whole number"),
        ({"dropout": 1.0}, r"dropout is 1\.0"),
        ({"dropout": -0.1}, r"dropout is -0\.1"),
        ({"dropout": float("nan")}, "dropout is nan"),
        ({"direction": "backwards"}, "'backwards' is not one of bidirectional, left-to-right"),
        ({"norm": "rms"}, "'rms' is neither 'post' nor 'pre'"),
    ],
)
def test_sizes_that_make_no_model(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        BertConfig(**wrong)


def test_unknown_preset_names_the_known_ones() -> None:
    with pytest.raises(ValueError, match="no preset 'huge'; there are tiny, mini, small"):
        BertConfig.preset("huge")
