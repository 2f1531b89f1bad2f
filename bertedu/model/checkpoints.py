"""Weights to and from disk: safetensors only, under Hugging Face's names.

A checkpoint is a folder with `model.safetensors` and `config.json`; with the tokenizer's files
beside them `transformers` opens it as it is.
"""

import json
import math
import os
import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

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
    (r"^mlm\.decoder\.weight", "cls.predictions.decoder.weight"),
    (r"^nsp\.classifier\.", "cls.seq_relationship."),
)
_TABLE, _DECODER = "bert.embeddings.token.weight", "mlm.decoder.weight"  # one storage, if tied
_TWICE = "cls.predictions.decoder.bias"  # cls.predictions.bias under a second name
ELMO = "bertedu-elmo"  # model_type of a model that `transformers` does not have
_SIZES = tuple(f.name for f in fields(BertConfig) if f.name not in ("dropout", "direction", "norm"))
_OLD_SIZES = {"layer_norm_eps": 1e-12, "initializer_range": 0.02}  # not in the first configs
_DROPOUTS = ("hidden", "attention_probs")
# relatives of BERT on the Hub, and the first thing in which each is another model
_RELATIVES = {
    "roberta": "it counts positions from 2, has no segments, and cuts words into bytes",
    "xlm-roberta": "it counts positions from 2, has no segments, and cuts words by SentencePiece",
    "camembert": "it is a RoBERTa: positions from 2, no segments",
    "distilbert": "it has no segments and no pooler, and other names for everything",
    "albert": "its layers share one set of weights, and its embeddings are factorized",
    "electra": "its head tells replaced words from real ones, and its embeddings may be narrower",
    "deberta": "its attention uses relative positions",
    "deberta-v2": "its attention uses relative positions",
    "mpnet": "its attention uses relative positions",
    "modernbert": "it turns queries and keys by their position, and norms come before",
    "gpt2": "it reads from left to right, and its norms come before each sub-layer",
}
# settings of `transformers` that would make other numbers of the same weights
_MUST_BE = {
    "hidden_act": ("gelu", "only gelu is known"),
    "position_embedding_type": (
        "absolute",
        "it must be 'absolute', a vector for each place",
    ),
    "add_cross_attention": (False, "there is no second text to attend to in BERT"),
    "is_encoder_decoder": (False, "BERT has no decoder"),
    "pruned_heads": ({}, "every layer must have all its heads: get the weights before pruning"),
    "quantization_config": (None, "quantized weights are rounded: get the float ones"),
}


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
        It describes another kind of model, or has settings under which the weights mean others.

    """
    if values.get("model_type") == ELMO:
        raise CheckpointError(f"{path} describes an ELMo: load it with load_elmo")
    known = values.get("model_type")
    if known not in kinds and not (known is None and set(_SIZES) - set(_OLD_SIZES) <= set(values)):
        told = "" if known is None else f", and is {known!r}"
        why = f": {_RELATIVES[known]}" if known in _RELATIVES else ""
        raise CheckpointError(
            f"{path} does not describe a BERT (model_type must be 'bert'{told}{why})"
        )
    values = _OLD_SIZES | values
    _refuse_other_settings(values, path)
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
    except (TypeError, ValueError) as error:
        raise CheckpointError(f"{path} makes no model: {error}") from None


def _refuse_other_settings(values: dict[str, Any], path: str) -> None:
    """Raise CheckpointError if the same weights would give other numbers here."""
    for name, (wanted, why) in _MUST_BE.items():
        found = values.get(name, wanted)
        if found != wanted and (found or wanted):  # null and {} say no, too
            raise CheckpointError(f"{path}: {name} is {found!r}; {why}")
    for name in _OLD_SIZES:
        size = values[name]
        if type(size) not in (int, float) or not 0 < size < math.inf:
            raise CheckpointError(f"{path}: {name} is {size!r}; it must be a number above 0")
    hidden, attention = (values.get(f"{what}_dropout_prob", 0.1) for what in _DROPOUTS)
    if hidden != attention:
        raise CheckpointError(
            f"{path}: hidden_dropout_prob is {hidden!r}, attention_probs_dropout_prob "
            f"{attention!r}; here one rate holds for both. It matters in training only: write the "
            "one you want into both"
        )
    if not isinstance(values.get("bertedu", {}), dict):
        raise CheckpointError(
            f"{path} makes no model: bertedu is {values['bertedu']!r}; it must hold direction and "
            "norm, or be left out"
        )


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


_WHOLE, _PARTS = "model.safetensors", "model.safetensors.index.json"


def only_a_pickle(origin: str, name: str) -> str:
    """Say why a pickle is not opened, and what to do."""
    return (
        f"{origin} has no model.safetensors, only a pickle ({name}). A pickle is a program: it may "
        "do anything on this machine while it is opened, so bertedu opens none. Look on the Hub "
        "for the same model with safetensors (copies; pull requests by the bot SFconvertbot). If "
        "you trust its author, convert it once yourself: transformers.AutoModelForPreTraining"
        ".from_pretrained(OLD).save_pretrained(NEW), and the same with AutoTokenizer"
    )


def read_tensors(folder: Path) -> dict[str, Tensor]:
    """Read the weights of a folder: `model.safetensors`, or the parts that its index lists.

    Raises
    ------
    CheckpointError
        There are none, they are a pickle, or a file is broken.

    """
    if (folder / _WHOLE).is_file() or not (folder / _PARTS).is_file():
        pickles = [] if (folder / _WHOLE).is_file() else sorted(folder.glob("*.bin"))
        if pickles:
            raise CheckpointError(only_a_pickle(str(folder), pickles[0].name))
        return load_tensors(folder / _WHOLE)[0]
    try:
        listed = json.loads((folder / _PARTS).read_text(encoding="utf-8"))["weight_map"].values()
        names = sorted({Path(name).name for name in listed})  # never outside the folder
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{folder / _PARTS} lists no files: {error!r}") from None
    tensors: dict[str, Tensor] = {}
    for name in names:
        tensors |= load_tensors(folder / name)[0]
    return tensors


def hugging_face_tensors(model: nn.Module) -> dict[str, Tensor]:
    """Name all tensors as `transformers` does; a decoder that is the embedding is left out."""
    state = model.state_dict()
    if is_tied(model):
        del state[_DECODER]
    tensors = {hugging_face_name(name): tensor for name, tensor in state.items()}
    if hugging_face_name(_DECODER) in tensors:  # then `transformers` reads the second name only
        tensors[_TWICE] = tensors["cls.predictions.bias"].clone()
    return tensors


def is_tied(model: nn.Module) -> bool:
    """Whether there is an MLM head whose decoder is the token embedding itself: BERT's own way."""
    if not isinstance(model, BertForPreTraining):
        return False
    return model.mlm.decoder.weight is model.bert.embeddings.token.weight


def save_checkpoint(
    model: BertForPreTraining | ElmoForPreTraining,
    folder: Path,
    dtype: torch.dtype = torch.float32,
) -> None:
    """Write `model.safetensors` and `config.json`. Half precision halves the file."""
    if isinstance(model, ElmoForPreTraining):  # nobody else has this model: our names
        tensors = model.state_dict()
        del tensors["decoder.weight"]  # the token embedding, stored once
        described = {
            "model_type": ELMO,
            "config": asdict(model.config),
            "sizes": asdict(model.elmo.sizes),
        }
    else:
        tensors = hugging_face_tensors(model)
        described = hugging_face_config(model.config) | tie_setting(model)
    tensors = {n: tensor.detach().to("cpu", dtype).contiguous() for n, tensor in tensors.items()}
    save_tensors(tensors, folder / "model.safetensors", {"format": "pt"})
    write_atomically(folder / "config.json", json.dumps(described, indent=2) + "\n")


def tie_setting(model: nn.Module) -> dict[str, bool]:
    """Say in a config that the decoder is a table of its own, if it is."""
    apart = isinstance(model, BertForPreTraining) and not is_tied(model)
    return {"tie_word_embeddings": False} if apart else {}


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
        state = {n: finite(tensor.float(), n, str(folder)) for n, tensor in tensors.items()}
        model.load_state_dict(state | {"decoder.weight": state["elmo.token.weight"]})
    except CheckpointError:  # says what is wrong
        raise
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
    found = load_bert(folder, with_heads=True)
    if found.absent or not isinstance(found.model, BertForPreTraining):
        raise CheckpointError(
            f"{folder} has no {' and no '.join(found.absent)}: it is not a whole BERT with both "
            "heads of pre-training. bertedu.load opens what there is"
        )
    return found.model


def load_pretrained(folder: Path | str) -> BertForPreTraining | ElmoForPreTraining:
    """Load whichever of the two the folder holds; see `load_checkpoint` and `load_elmo`."""
    if read_json(Path(folder)).get("model_type") == ELMO:
        return load_elmo(folder)
    return load_checkpoint(folder)


class Found(NamedTuple):
    """What a folder holds: a model, its parts that start from chance, tensors without a place."""

    model: Bert | BertForPreTraining
    absent: tuple[str, ...]
    unused: tuple[str, ...]


def load_bert(folder: Path, with_heads: bool | None = None) -> Found:
    """Load what a folder of ours or of Hugging Face holds, as float32, in evaluation mode.

    Without any head of pre-training in the file it is an encoder alone; ``with_heads`` decides
    beforehand.

    Raises
    ------
    CheckpointError
        As `load_checkpoint`; but a head or the pooler may be missing as a whole.

    """
    config, tensors = read_config(folder), read_tensors(folder)
    if with_heads is None:
        with_heads = any(name.startswith("cls.") for name in tensors)
    model = BertForPreTraining(config) if with_heads else Bert(config)
    apart = read_json(folder).get("tie_word_embeddings") is False
    if apart and isinstance(model, BertForPreTraining):
        model.mlm.decoder.weight = nn.Parameter(model.mlm.decoder.weight.detach().clone())
    absent = load_weights(model, tensors, str(folder))
    return Found(model.eval(), absent, without_place(tensors, model))


# what an author may leave out as a whole, and its name for a reader
_HEADS = {"mlm.": "masked-word head", "nsp.": "next-sentence head", "bert.pooler.": "pooler"}
# old files call scale and shift of a layer norm gamma and beta
_OLD_NAMES = ((r"LayerNorm\.gamma$", "LayerNorm.weight"), (r"LayerNorm\.beta$", "LayerNorm.bias"))


def load_weights(
    model: Bert | BertForPreTraining, tensors: dict[str, Tensor], origin: str
) -> tuple[str, ...]:
    """Copy tensors under Hugging Face's names into our model.

    Names may be those of old files (gamma, beta), or lack the "bert." of an encoder saved alone.
    One thing differs in training: `transformers` never moves the row of [PAD] by looking it up
    (``padding_idx=0``). Ours has no such rule; with the padding mask, no gradient gets there.
    Returns the parts that the file lacks as a whole: heads and pooler, which keep the random
    weights they were made with. All else must be there and fit, or nothing is changed.

    Raises
    ------
    CheckpointError
        A tensor is missing, has another shape, is quantized or holds NaN, or a decoder that should
        be the token embedding is not.

    """
    found, state = canonical(tensors), model.state_dict()
    prefix = "" if isinstance(model, BertForPreTraining) else "bert."
    tied = is_tied(model)
    names = [prefix + name for name in state if not (tied and name == _DECODER)]
    absent = [
        part
        for part in _HEADS
        if not any(hugging_face_name(name) in found for name in names if name.startswith(part))
    ]
    for name in names:
        theirs, own = hugging_face_name(name), state[name.removeprefix(prefix)]
        if name.startswith(tuple(absent)):
            continue
        if theirs not in found:
            raise CheckpointError(f"{origin} has no tensor {theirs!r}: it is not a whole BERT")
        if found[theirs].shape != own.shape:
            raise CheckpointError(
                f"{origin}: {theirs} is {tuple(found[theirs].shape)}, but its config makes it "
                f"{tuple(own.shape)}. Weights and config.json come from different models."
            )
        if not found[theirs].is_floating_point():
            raise CheckpointError(
                f"{origin}: {theirs} is {found[theirs].dtype}: these weights are quantized. Get "
                "those with floating-point numbers"
            )
        state[name.removeprefix(prefix)] = finite(found[theirs].float(), theirs, origin)
    if tied:
        decoder = found.get(hugging_face_name(_DECODER))
        if decoder is not None and not torch.equal(decoder.float(), state[_TABLE]):
            raise CheckpointError(
                f"{origin}: {hugging_face_name(_DECODER)} is not the token embedding, but "
                "config.json says that they are one (tie_word_embeddings). If it was trained "
                'apart from it, write "tie_word_embeddings": false into config.json'
            )
        state[_DECODER] = state[_TABLE]
    model.load_state_dict(state)
    there = {name.split(".")[0] for name in names} | {"bert"}
    return tuple(_HEADS[part] for part in absent if part.split(".")[0] in there)


def finite(tensor: Tensor, name: str, origin: str) -> Tensor:
    """Return ``tensor``; raise CheckpointError if a number in it is NaN or infinite."""
    if not tensor.isfinite().all():
        raise CheckpointError(
            f"{origin}: {name} holds {int((~tensor.isfinite()).sum()):,} numbers that are NaN or "
            "infinite: its training went wrong, or the file was damaged. Get or train it again"
        )
    return tensor


def canonical(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Give tensors of old files, and of encoders saved alone, the names of today's whole BERTs."""
    alone = not any(name.startswith("bert.") for name in tensors)
    found = {}
    for name, tensor in tensors.items():
        for old, new in _OLD_NAMES:
            name = re.sub(old, new, name)
        if alone and name.startswith(("embeddings.", "encoder.", "pooler.")):
            name = f"bert.{name}"
        found[name] = tensor
    if _TWICE in found:
        found["cls.predictions.bias"] = found[_TWICE]  # should they differ, this one is used
    return found


def without_place(tensors: dict[str, Tensor], model: Bert | BertForPreTraining) -> tuple[str, ...]:
    """Name the tensors of a file that the model has no place for, such as heads of other tasks."""
    prefix = "" if isinstance(model, BertForPreTraining) else "bert."
    places = {hugging_face_name(prefix + name) for name in model.state_dict()} | {_TWICE}
    names = canonical(tensors)
    return tuple(n for n in names if n not in places and not n.endswith("position_ids"))
