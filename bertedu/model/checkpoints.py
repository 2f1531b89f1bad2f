"""Weights to and from disk: safetensors only, under Hugging Face's names.

A checkpoint is a folder with `model.safetensors` and `config.json`; with the tokenizer's files
beside them `transformers` opens it as it is.
"""

import json
import os
import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from bertedu.model.bert import Bert, BertForPreTraining
from bertedu.model.config import BertConfig, Direction
from bertedu.model.elmo import ElmoForPreTraining, ElmoSizes


class CheckpointError(ValueError):
    """A file that is not a checkpoint of this model; the message says which, why and what to do."""


# ours -> Hugging Face's, applied one after the other to every name
_TO_HUGGING_FACE = (
    (r"embeddings\.token\.", "embeddings.word_embeddings."),
    (r"embeddings\.position\.", "embeddings.position_embeddings."),
    (r"embeddings\.segment\.", "embeddings.token_type_embeddings."),
    (r"embeddings\.norm\.", "embeddings.LayerNorm."),
    (r"encoder\.layers\.(\d+)\.", r"encoder.layer.\1."),
    (r"\.attention_norm\.", ".attention.output.LayerNorm."),
    (r"\.attention\.output\.(weight|bias)", r".attention.output.dense.\1"),
    (r"\.attention\.(query|key|value)\.", r".attention.self.\1."),
    (r"\.feed_forward_norm\.", ".output.LayerNorm."),
    (r"\.feed_forward\.(intermediate|output)\.", r".\1.dense."),
    (r"^mlm\.transform\.", "cls.predictions.transform.dense."),
    (r"^mlm\.norm\.", "cls.predictions.transform.LayerNorm."),
    (r"^mlm\.decoder\.bias", "cls.predictions.bias"),
    (r"^nsp\.classifier\.", "cls.seq_relationship."),
)
_TIED = "bert.embeddings.token.weight"  # the decoder of the MLM head is this table
ELMO = "bertedu-elmo"  # model_type of a model that `transformers` does not have
_SIZES = tuple(f.name for f in fields(BertConfig) if f.name not in ("dropout", "direction", "norm"))


def hugging_face_name(name: str) -> str:
    """Translate the name of one of our parameters, e.g. `bert.embeddings.token.weight`."""
    for ours, theirs in _TO_HUGGING_FACE:
        name = re.sub(ours, theirs, name)
    return name


def hugging_face_config(config: BertConfig) -> dict[str, Any]:
    """Write a config the way `transformers` does; `bertedu` holds what that cannot say."""
    return {
        "architectures": ["BertForPreTraining"],
        "model_type": "bert",
        "hidden_act": "gelu",
        "pad_token_id": 0,
        "hidden_dropout_prob": config.dropout,
        "attention_probs_dropout_prob": config.dropout,
        **{name: value for name, value in asdict(config).items() if name in _SIZES},
        "is_decoder": config.direction == "left-to-right",  # else `transformers` looks ahead
        "bertedu": {"direction": config.direction, "norm": config.norm},
    }


def read_config(folder: Path, kinds: Collection[str] = ("bert",)) -> BertConfig:
    """Read `config.json`, ours or Hugging Face's; its `model_type` must be one of ``kinds``.

    Raises
    ------
    CheckpointError
        There is none, it is not JSON, or it describes another kind of model.

    """
    return config_from(read_json(folder), str(folder / "config.json"), kinds)


def config_from(
    values: dict[str, Any], path: str, kinds: Collection[str] = ("bert",)
) -> BertConfig:
    """Make a config of what a `config.json` says; ``path`` is for messages.

    Raises
    ------
    CheckpointError
        It describes another kind of model.

    """
    if values.get("model_type") == ELMO:
        raise CheckpointError(f"{path} describes an ELMo: load it with load_elmo")
    if values.get("model_type") not in kinds:
        raise CheckpointError(f"{path} does not describe a BERT (model_type must be 'bert')")
    if values.get("hidden_act", "gelu") != "gelu":
        raise CheckpointError(f"{path}: hidden_act is {values['hidden_act']!r}; only gelu is known")
    if values.get("position_embedding_type", "absolute") != "absolute":
        raise CheckpointError(f"{path}: position_embedding_type must be 'absolute'")
    one_way: Direction = "left-to-right" if values.get("is_decoder") else "bidirectional"
    own = values.get("bertedu", {})
    try:
        return BertConfig(
            **{name: values[name] for name in _SIZES},
            dropout=values.get("hidden_dropout_prob", 0.1),
            direction=own.get("direction", one_way),
            norm=own.get("norm", "post"),
        )
    except KeyError as error:
        raise CheckpointError(f"{path} lacks {error.args[0]!r}") from None
    except (AttributeError, TypeError, ValueError) as error:
        raise CheckpointError(f"{path} makes no model: {error}") from None


def read_json(folder: Path) -> dict[str, Any]:
    """Read the `config.json` of a folder, whatever it describes; raises as `read_config`."""
    path = folder / "config.json"
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CheckpointError(f"{folder} is not a checkpoint: it has no config.json") from None
    except ValueError:
        raise CheckpointError(f"{path} is not valid JSON; get the checkpoint again") from None
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error}") from None
    return values if isinstance(values, dict) else {}


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a temporary name to write to; rename it to ``path`` if all went well."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield part
        os.replace(part, path)
    except (OSError, SafetensorError) as error:
        raise CheckpointError(
            f"cannot write {path}: {error}. Free some space or choose another folder; "
            "the file that was there is unharmed."
        ) from error
    finally:
        with suppress(OSError):  # gone already if all went well
            part.unlink()


def write_atomically(path: Path, content: str) -> None:
    """Write a text file so that a reader sees the old one or the new one, never half of it."""
    with replacing(path) as part:
        part.write_text(content, encoding="utf-8")


def save_tensors(tensors: dict[str, Tensor], path: Path, metadata: dict[str, str]) -> None:
    """Write a safetensors file under a temporary name, then rename it."""
    with replacing(path) as part:
        write_tensors(tensors, part, metadata)


def write_tensors(tensors: dict[str, Tensor], path: Path, metadata: dict[str, str]) -> None:
    """Write a safetensors file that others may read; safetensors itself lets only the owner."""
    save_file(tensors, path, metadata)
    path.chmod(0o644)


def load_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Read all tensors of a safetensors file, and its metadata.

    Raises
    ------
    CheckpointError
        The file is missing, cut short, a pickle, or otherwise not safetensors.

    """
    if not path.is_file():
        raise CheckpointError(f"there is no file {path}")
    if path.suffix != ".safetensors":
        raise CheckpointError(
            f"{path} is not a .safetensors file. Other formats hold pickles, which can run any "
            "code on this machine when opened; ask the author for safetensors."
        )
    try:
        with safe_open(path, framework="pt") as file:
            names = list(file.keys())
            return {name: file.get_tensor(name) for name in names}, file.metadata() or {}
    except (SafetensorError, OSError) as error:
        raise CheckpointError(
            f"{path} is broken or only half there ({error}); get or train it again"
        ) from None


def save_checkpoint(
    model: BertForPreTraining | ElmoForPreTraining,
    folder: Path,
    dtype: torch.dtype = torch.float32,
) -> None:
    """Write `model.safetensors` and `config.json`. Half precision halves the file."""
    one_of_ours = isinstance(model, ElmoForPreTraining)  # nobody else has this model: our names
    tensors = {
        name if one_of_ours else hugging_face_name(name): tensor.detach().to("cpu", dtype)
        for name, tensor in model.state_dict().items()
        if name not in ("mlm.decoder.weight", "decoder.weight")  # the token embedding, stored once
    }
    tensors = {name: tensor.contiguous() for name, tensor in tensors.items()}
    save_tensors(tensors, folder / "model.safetensors", {"format": "pt"})
    if isinstance(model, ElmoForPreTraining):
        described = {
            "model_type": ELMO,
            "config": asdict(model.config),
            "sizes": asdict(model.elmo.sizes),
        }
    else:
        described = hugging_face_config(model.config)
    write_atomically(folder / "config.json", json.dumps(described, indent=2) + "\n")


def load_elmo(folder: Path | str) -> ElmoForPreTraining:
    """Load the folder of an ELMo as float32, in evaluation mode.

    Raises
    ------
    CheckpointError
        A file is missing or broken, or it is not an ELMo of ours.

    """
    folder = Path(folder)
    values = read_json(folder)
    if values.get("model_type") != ELMO:
        raise CheckpointError(f"{folder} holds no ELMo of ours: load it with load_checkpoint")
    tensors, _ = load_tensors(folder / "model.safetensors")
    try:
        model = ElmoForPreTraining(BertConfig(**values["config"]), ElmoSizes(**values["sizes"]))
        state = {name: tensor.float() for name, tensor in tensors.items()}
        model.load_state_dict(state | {"decoder.weight": state["elmo.token.weight"]})
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        first = "; ".join(line.strip() for line in str(error).splitlines()[:2])
        raise CheckpointError(f"{folder}: config.json and weights make no ELMo: {first}") from None
    return model.eval()


def load_checkpoint(folder: Path | str) -> BertForPreTraining:
    """Load a checkpoint folder as float32, in evaluation mode.

    Raises
    ------
    CheckpointError
        A file is missing, broken, or does not fit its config; the first wrong tensor is named.

    """
    folder = Path(folder)
    model = BertForPreTraining(read_config(folder))
    tensors, _ = load_tensors(folder / "model.safetensors")
    load_weights(model, tensors, str(folder))
    return model.eval()


def load_pretrained(folder: Path | str) -> BertForPreTraining | ElmoForPreTraining:
    """Load whichever of the two the folder holds; see `load_checkpoint` and `load_elmo`."""
    if read_json(Path(folder)).get("model_type") == ELMO:
        return load_elmo(folder)
    return load_checkpoint(folder)


# old files call scale and shift of a layer norm gamma and beta
_OLD_NAMES = ((r"LayerNorm\.gamma$", "LayerNorm.weight"), (r"LayerNorm\.beta$", "LayerNorm.bias"))


def load_encoder_weights(bert: Bert, tensors: dict[str, Tensor], origin: str) -> None:
    """Copy the tensors of a published encoder, with or without "bert." in front of their names.

    Heads are left alone. A model saved without a pooler keeps the random one it was made with.

    Raises
    ------
    CheckpointError
        A tensor of the encoder is missing or has another shape.

    """
    found = {}
    for name, tensor in tensors.items():
        for old, new in _OLD_NAMES:
            name = re.sub(old, new, name)
        found[name.removeprefix("bert.")] = tensor
    state = bert.state_dict()
    for name, own in state.items():
        theirs = hugging_face_name(name)
        if theirs not in found:
            if name.startswith("pooler."):
                continue
            raise CheckpointError(f"{origin} has no tensor {theirs!r}: it is not a whole BERT")
        if found[theirs].shape != own.shape:
            raise CheckpointError(
                f"{origin}: {theirs} is {tuple(found[theirs].shape)}, but its config makes it "
                f"{tuple(own.shape)}. Weights and config.json come from different models."
            )
        state[name] = found[theirs].float()
    bert.load_state_dict(state)


def load_weights(model: BertForPreTraining, tensors: dict[str, Tensor], origin: str) -> None:
    """Copy tensors under Hugging Face's names into our model; every one must fit.

    Raises
    ------
    CheckpointError
        A tensor is missing or has another shape.

    """
    state = {}
    for name, own in model.state_dict().items():
        if name == "mlm.decoder.weight":
            continue
        theirs = hugging_face_name(name)
        if theirs not in tensors:
            raise CheckpointError(f"{origin} has no tensor {theirs!r}: it is not a whole BERT")
        if tensors[theirs].shape != own.shape:
            raise CheckpointError(
                f"{origin}: {theirs} is {tuple(tensors[theirs].shape)}, but its config makes it "
                f"{tuple(own.shape)}. Weights and config.json come from different models."
            )
        state[name] = tensors[theirs].float()
    decoder = tensors.get("cls.predictions.decoder.weight")
    if decoder is not None and not torch.equal(decoder.float(), state[_TIED]):
        raise CheckpointError(
            f"{origin}: cls.predictions.decoder.weight is not the token embedding; "
            "ours is one table, so this model cannot be loaded"
        )
    state["mlm.decoder.weight"] = state[_TIED]
    model.load_state_dict(state)
