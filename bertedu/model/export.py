"""Out of the house: a folder that `transformers` opens, weights, config and tokenizer."""

import json
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer
from torch import Tensor

from bertedu.model.bert import Bert, BertForPreTraining
from bertedu.model.checkpoints import (
    CheckpointError,
    hugging_face_config,
    hugging_face_tensors,
    replacing,
    tie_setting,
    write_tensors,
)
from bertedu.model.config import BertConfig
from bertedu.text.tokenization import SPECIAL_TOKENS


def export_bert(model: Bert | BertForPreTraining, tokenizer: Tokenizer, folder: Path) -> None:
    """Write an encoder, or a BERT with both heads of pre-training, for `transformers`.

    Its answers are the same there. Trained on without a padding mask it is not: theirs freezes the
    row of [PAD] in the word table (``padding_idx=0``), ours does not.

    Raises
    ------
    CheckpointError
        Their format cannot express this model, the tokenizer is that of another, or ``folder``
        cannot be written.

    """
    refuse_inexpressible(model.config)
    their_class = "BertModel" if isinstance(model, Bert) else "BertForPreTraining"
    config = hugging_face_config(model.config) | {"architectures": [their_class]}
    longest = model.config.max_position_embeddings
    write_folder(
        folder, hugging_face_tensors(model), config | tie_setting(model), tokenizer, longest
    )


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
    tensors: Mapping[str, Tensor],
    config: Mapping[str, Any],
    tokenizer: Tokenizer,
    max_length: int,
    more: Mapping[str, str] | None = None,
) -> None:
    """Write weights, `config.json`, the tokenizer's two files, and ``more`` texts by name.

    All are written under temporary names before any takes the place of an older one.

    Raises
    ------
    CheckpointError
        The tokenizer has word pieces that the model has no embedding for, or the folder cannot be
        written.

    """
    pieces = max(tokenizer.get_vocab().values()) + 1
    if pieces > config["vocab_size"]:
        raise CheckpointError(
            f"the tokenizer has {pieces} word pieces, the model {config['vocab_size']}: it is the "
            "tokenizer of another model. bertedu.load gives both together"
        )
    plain = Tokenizer.from_str(tokenizer.to_str())  # cut and padded by who uses it, not by habit
    plain.no_truncation()
    plain.no_padding()
    texts = {
        "config.json": json.dumps(config, indent=2),
        "tokenizer.json": plain.to_str(),
        "tokenizer_config.json": json.dumps(tokenizer_settings(plain, max_length), indent=2),
        **(more or {}),
    }
    with ExitStack() as files:
        for name, text in texts.items():
            part = files.enter_context(replacing(folder / name))
            part.write_text(text + "\n", encoding="utf-8")
        part = files.enter_context(replacing(folder / "model.safetensors"))
        write_tensors(
            {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()},
            part,
            {"format": "pt"},
        )


def tokenizer_settings(tokenizer: Tokenizer, max_length: int) -> dict[str, Any]:
    """Say in their words how a tokenizer cuts: as BERT's, or just as `tokenizer.json` has it."""
    named = zip(("pad", "unk", "cls", "sep", "mask"), SPECIAL_TOKENS, strict=True)
    settings: dict[str, Any] = {
        f"{name}_token": token for name, token in named if tokenizer.token_to_id(token) is not None
    }
    settings["model_max_length"] = max_length
    parts = json.loads(tokenizer.to_str())
    normalizer = parts["normalizer"] or {}
    berts = normalizer.get("type") == "BertNormalizer" and normalizer["clean_text"]
    if not berts or parts["model"]["type"] != "WordPiece":
        return settings | {"tokenizer_class": "PreTrainedTokenizerFast"}
    return settings | {
        "tokenizer_class": "BertTokenizer",
        "do_lower_case": normalizer["lowercase"],
        "strip_accents": normalizer["strip_accents"],
        "tokenize_chinese_chars": normalizer["handle_chinese_chars"],
    }
