"""Models to and from disk: safetensors only, under Hugging Face's names.

A checkpoint is a folder with `model.safetensors` and `config.json`; with the tokenizer's files
beside them `transformers` opens it as it is.
"""

import json
import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bertedu.model.bert import Bert, BertForPreTraining
from bertedu.model.config import BertConfig
from bertedu.model.elmo import ElmoForPreTraining, ElmoSizes
from bertedu.model.hugging_face import (
    DECODER,
    DECODER_BIAS,
    ELMO,
    canonical,
    hugging_face_config,
    hugging_face_name,
    hugging_face_tensors,
    read_config,
)
from bertedu.model.weight_files import (
    CheckpointError,
    finite,
    load_tensors,
    read_json,
    save_together,
)

AnyModel = BertForPreTraining | Bert | ElmoForPreTraining
Names = tuple[str, ...]
_LAYER = re.compile(r"bert\.encoder\.layer\.(\d+)\.")
# what an author may leave out as a whole: how its names begin, and what a reader calls it
_HEADS = {
    "cls.predictions.": "masked-word head",
    "cls.seq_relationship.": "next-sentence head",
    "bert.pooler.": "pooler",
}


def save_checkpoint(
    model: BertForPreTraining | ElmoForPreTraining,
    folder: Path,
    dtype: torch.dtype = torch.float32,
) -> None:
    """Write `model.safetensors` and `config.json`. Half precision halves the file."""
    config: dict[str, Any]
    if isinstance(model, ElmoForPreTraining):  # nobody else has this model: our names
        tensors = model.state_dict()
        del tensors["decoder.weight"]  # the token embedding, stored once
        sizes = asdict(model.elmo.sizes)
        config = {"model_type": ELMO, "config": asdict(model.config), "sizes": sizes}
    else:
        tensors = hugging_face_tensors(model)
        config = hugging_face_config(model.config)
    tensors = {name: tensor.to(dtype) for name, tensor in tensors.items()}
    save_together(tensors, folder, {"config.json": json.dumps(config, indent=2)})


def load_checkpoint(folder: Path | str) -> BertForPreTraining:
    """Load a whole BERT, with both heads, as float32, in evaluation mode.

    Raises CheckpointError if a file is missing, broken, or does not fit its config.
    """
    model = load_pretrained(folder)
    if isinstance(model, ElmoForPreTraining):
        path = Path(folder) / "config.json"
        raise CheckpointError(f"{path} describes an ELMo: load it with load_elmo")
    return model


def load_pretrained(folder: Path | str) -> BertForPreTraining | ElmoForPreTraining:
    """Load a whole BERT or an ELMo of ours, whichever the folder holds; see `load_checkpoint`."""
    model, absent, _ = load_model(Path(folder), with_heads=True)
    if absent or isinstance(model, Bert):
        raise CheckpointError(
            f"{folder} has no {' and no '.join(absent)}: it is not a whole BERT with both "
            "heads of pre-training. bertedu.load opens what there is"
        )
    return model


def load_model(folder: Path, with_heads: bool = False) -> tuple[AnyModel, Names, Names]:
    """Load what a folder of ours or of Hugging Face holds, as float32, in evaluation mode.

    Without any head of pre-training in the file it is an encoder alone, unless ``with_heads``.
    Returns the model, its parts that start from chance, and the names of tensors without a place.
    Raises CheckpointError as `load_checkpoint`; but a head or the pooler may be missing as a whole.
    """
    if read_json(folder).get("model_type") == ELMO:
        return load_elmo(folder), (), ()
    config, (tensors, _) = read_config(folder), load_tensors(folder / "model.safetensors")
    with_heads = with_heads or any(name.startswith("cls.") for name in tensors)
    model = BertForPreTraining(config) if with_heads else Bert(config)
    absent, unused = load_weights(model, tensors, str(folder))
    return model.eval(), absent, unused


def load_elmo(folder: Path | str) -> ElmoForPreTraining:
    """Load the folder of an ELMo of ours as float32, in evaluation mode.

    Raises CheckpointError if a file is missing or broken, or it is no ELMo.
    """
    folder = Path(folder)
    values = read_json(folder)
    tensors, _ = load_tensors(folder / "model.safetensors")
    state = {n: finite(tensor.float(), n, str(folder)) for n, tensor in tensors.items()}
    try:
        model = ElmoForPreTraining(BertConfig(**values["config"]), ElmoSizes(**values["sizes"]))
        model.load_state_dict(state | {"decoder.weight": state["elmo.token.weight"]})
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        first = "; ".join(line.strip() for line in str(error).splitlines()[:2])
        raise CheckpointError(f"{folder}: config.json and weights make no ELMo: {first}") from None
    return model.eval()


def load_weights(
    model: Bert | BertForPreTraining, tensors: dict[str, Tensor], origin: str
) -> tuple[Names, Names]:
    """Copy tensors under Hugging Face's names into our model.

    Names may be those of old files (gamma, beta), or lack the "bert." of an encoder saved alone.
    Returns the parts that the file lacks as a whole: heads and pooler, which keep the random
    weights they were made with; and the names of tensors that have no place. Raises
    CheckpointError, and changes nothing, if a tensor is missing, has another shape, is quantized or
    holds NaN, or the decoder is not the token embedding.
    """
    tensors, state = canonical(tensors), model.state_dict()
    prefix = "" if isinstance(model, BertForPreTraining) else "bert."
    names = {own_name: hugging_face_name(prefix + own_name) for own_name in state}
    decoder = names.pop(DECODER, "")
    layers = len({found[1] for name in tensors if (found := _LAYER.match(name))})
    if layers and layers != (said := model.config.num_hidden_layers):
        raise CheckpointError(
            f"{origin}: config.json says {said} layers, and the file has {layers}"
        )
    absent = []
    for part in _HEADS:
        inside = [name for name in names.values() if name.startswith(part)]
        if inside and tensors.keys().isdisjoint(inside):
            absent.append(part)
    for own_name, name in names.items():
        if name.startswith(tuple(absent)):
            continue
        if name not in tensors:
            raise CheckpointError(f"{origin} has no tensor {name!r}: it is not a whole BERT")
        tensor, shape = tensors[name], state[own_name].shape
        if tensor.shape != shape:
            raise CheckpointError(
                f"{origin}: {name} is {tuple(tensor.shape)}, but its config makes it "
                f"{tuple(shape)}. Weights and config.json come from different models."
            )
        if not tensor.is_floating_point():
            raise CheckpointError(
                f"{origin}: {name} is {tensor.dtype}: these weights are quantized. Get "
                "those with floating-point numbers"
            )
        state[own_name] = finite(tensor.float(), name, origin)
    if decoder:
        table = state["bert.embeddings.token.weight"]
        if not torch.equal(tensors.get(decoder, table).float(), table):
            raise CheckpointError(
                f"{origin}: {decoder} is not the token embedding, as it is in BERT: it was trained "
                "apart from it, and has no place here"
            )
        state[DECODER] = table
    model.load_state_dict(state)
    places = {*names.values(), decoder, DECODER_BIAS}
    unused = [n for n in tensors if n not in places and not n.endswith("position_ids")]
    return tuple(_HEADS[part] for part in absent), tuple(unused)
