"""Hugging Face's names, settings and files: what `transformers` writes, and what it opens."""

import json
import math
import re
import warnings
from collections.abc import Collection, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer
from torch import Tensor

from bertedu.files import table_beside
from bertedu.model.bert import Bert, BertForPreTraining
from bertedu.model.config import BertConfig, Direction
from bertedu.model.weight_files import CheckpointError, read_json, save_together
from bertedu.text.fast_tokenizer import tokenizer_files

ELMO = "bertedu-elmo"  # model_type of a model that `transformers` does not have
DECODER = "mlm.decoder.weight"  # the token embedding itself
DECODER_BIAS = "cls.predictions.decoder.bias"  # cls.predictions.bias under a second name
_TABLES = table_beside(__file__)
# old files call scale and shift of a layer norm gamma and beta
_OLD_NAMES = ((r"LayerNorm\.gamma$", "LayerNorm.weight"), (r"LayerNorm\.beta$", "LayerNorm.bias"))
_SIZES = tuple(f.name for f in fields(BertConfig) if f.name not in ("dropout", "direction", "norm"))
_DROPOUTS = ("hidden_dropout_prob", "attention_probs_dropout_prob")
_OLD_SIZES = {"layer_norm_eps": 1e-12, "initializer_range": 0.02}  # not in the first configs
# settings of `transformers` that would make other numbers of the same weights
_MUST_BE: dict[str, tuple[list[Any], str]] = {
    "hidden_act": (["gelu"], "only gelu is known"),
    "position_embedding_type": (["absolute"], "it must be 'absolute', a vector for each place"),
    "quantization_config": ([None], "quantized weights are rounded: get the float ones"),
    "add_cross_attention": ([False, None], "here no layer reads the states of another model"),
    "pruned_heads": ([{}, None], "here every layer has all its heads"),
}


# --- Names --------------------------------------------------------------------------------------


def hugging_face_name(name: str) -> str:
    """Translate the name of one of our parameters, e.g. `bert.embeddings.token.weight`."""
    for ours, theirs in _TABLES["names"]:
        name = re.sub(ours, theirs, name)
    return name


def canonical(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Give tensors of old files, and of encoders saved alone, the names of today's whole BERTs."""
    alone = not any(name.startswith("bert.") for name in tensors)
    renamed = {}
    for name, tensor in tensors.items():
        for old, new in _OLD_NAMES:
            name = re.sub(old, new, name)
        if alone and name.startswith(("embeddings.", "encoder.", "pooler.")):
            name = f"bert.{name}"
        renamed[name] = tensor
    if DECODER_BIAS in renamed:
        renamed["cls.predictions.bias"] = renamed[DECODER_BIAS]  # should they differ, this is used
    return renamed


def hugging_face_tensors(model: Bert | BertForPreTraining) -> dict[str, Tensor]:
    """Name all tensors as `transformers` does; the decoder, which is the embedding, is left out."""
    state = model.state_dict()
    return {hugging_face_name(name): state[name] for name in state if name != DECODER}


# --- Settings -----------------------------------------------------------------------------------


def hugging_face_config(config: BertConfig) -> dict[str, Any]:
    """Write a config the way `transformers` does; `bertedu` holds what that cannot say."""
    return {
        "architectures": ["BertForPreTraining"],
        "model_type": "bert",
        "hidden_act": "gelu",
        "pad_token_id": 0,
        **dict.fromkeys(_DROPOUTS, config.dropout),
        **{name: getattr(config, name) for name in _SIZES},
        "is_decoder": config.direction == "left-to-right",  # else `transformers` looks ahead
        "attn_implementation": "eager",  # the quicker ones give no attention weights, nor a warning
        "bertedu": {"direction": config.direction, "norm": config.norm},
    }


def read_config(folder: Path, kinds: Collection[str] = ("bert",)) -> BertConfig:
    """Read `config.json`, ours or Hugging Face's; its `model_type` must be one of ``kinds``.

    Raises CheckpointError if there is none, it is not JSON or another kind of model, or it has
    settings under which the weights mean others.
    """
    values, path = read_json(folder), folder / "config.json"
    model_type = values.get("model_type")
    sizes_only = model_type is None and set(_SIZES) - set(_OLD_SIZES) <= set(values)
    if model_type not in kinds and not sizes_only:
        named = "" if model_type is None else f", and is {model_type!r}"
        relative = _TABLES["relatives"].get(model_type)
        why = f": {relative}" if relative else ""
        raise CheckpointError(
            f"{path} does not describe a BERT (model_type must be 'bert'{named}{why})"
        )
    values = _OLD_SIZES | values
    for name, (wanted, why) in _MUST_BE.items():
        if name in values and values[name] not in wanted:
            raise CheckpointError(f"{path}: {name} is {values[name]!r}; {why}")
    for name in _OLD_SIZES:
        size = values[name]
        if type(size) not in (int, float) or not 0 < size < math.inf:
            raise CheckpointError(f"{path}: {name} is {size!r}; it must be a number above 0")
    dropout, of_attention = (values.get(name, 0.1) for name in _DROPOUTS)
    if dropout != of_attention:
        warnings.warn(
            f"{path}: attention weights are dropped at the rate {of_attention}, all else at "
            f"{dropout}. Here one rate is for both: if this model is trained, it is {dropout}.",
            stacklevel=2,
        )
    own = values.get("bertedu") or {}
    # `transformers` may have written is_decoder anew beside the block that we wrote: it is obeyed
    one_way: Direction | None = "left-to-right" if values.get("is_decoder") else None
    try:
        return BertConfig(
            **{name: values[name] for name in _SIZES},
            dropout=dropout,
            direction=one_way or own.get("direction", "bidirectional"),
            norm=own.get("norm", "post"),
        )
    except KeyError as error:
        raise CheckpointError(f"{path} lacks {error.args[0]!r}") from None
    except (AttributeError, TypeError, ValueError) as error:
        raise CheckpointError(f"{path} makes no model: {error}") from None


# --- Out of the house ---------------------------------------------------------------------------


def export_bert(model: Bert | BertForPreTraining, tokenizer: Tokenizer, folder: Path) -> None:
    """Write an encoder, or a BERT with both heads of pre-training, for `transformers`.

    Its answers are the same there. Trained on without a padding mask it is not: theirs freezes the
    row of [PAD] in the word table (``padding_idx=0``), ours does not. Raises CheckpointError if
    their format cannot express this model, or as `write_folder`.
    """
    refuse_inexpressible(model.config)
    their_class = "BertModel" if isinstance(model, Bert) else "BertForPreTraining"
    config = hugging_face_config(model.config) | {"architectures": [their_class]}
    longest = model.config.max_position_embeddings
    write_folder(folder, hugging_face_tensors(model), config, tokenizer, longest)


def refuse_inexpressible(config: BertConfig) -> None:
    """Raise CheckpointError if `transformers` would make another model of these weights."""
    what = ""
    if config.direction != "bidirectional":
        what = f"This model reads {config.direction.replace('-', ' ')}, and theirs reads both sides"
    if config.norm != "post":
        what = "This model norms before each sub-layer, and theirs after it"
    if what:
        raise CheckpointError(
            f"{what}: opened by `transformers` it would give other answers, without an error. "
            "Keep it in our own format: bertedu.model.checkpoints.save_checkpoint, and "
            "bertedu.finetuning.saving.save_finetuned once it is fine-tuned"
        )


def write_folder(
    folder: Path,
    tensors: dict[str, Tensor],
    config: Mapping[str, Any],
    tokenizer: Tokenizer,
    max_length: int,
    more: Mapping[str, str] | None = None,
) -> None:
    """Write weights, `config.json`, the tokenizer's two files, and ``more`` texts by name.

    No old file goes before all new ones are whole. Raises CheckpointError if the tokenizer has word
    pieces without an embedding, FileError if the folder cannot be written.
    """
    pieces = max(tokenizer.get_vocab().values()) + 1
    if pieces > config["vocab_size"]:
        raise CheckpointError(
            f"the tokenizer has {pieces} word pieces, the model {config['vocab_size']}: it is the "
            "tokenizer of another model. bertedu.load gives both together"
        )
    own = {"config.json": json.dumps(config, indent=2), **tokenizer_files(tokenizer, max_length)}
    save_together(tensors, folder, own | dict(more or {}))
