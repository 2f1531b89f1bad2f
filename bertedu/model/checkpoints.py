"""Models to and from disk: safetensors only, under Hugging Face's names.

A checkpoint is a folder with `model.safetensors` and `config.json`; with the tokenizer's files
beside them `transformers` opens it as it is.
"""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from bertedu.model.bert import Bert, BertForPreTraining
from bertedu.model.config import BertConfig
from bertedu.model.elmo import ElmoForPreTraining, ElmoSizes
from bertedu.model.hugging_face import (
    DECODER,
    DECODER_BIAS,
    ELMO,
    canonical,
    hugging_face_config,
    hugging_face_names,
    hugging_face_tensors,
    is_untied,
    read_config,
    tie_setting,
)
from bertedu.model.weight_files import (
    CheckpointError,
    finite,
    load_tensors,
    read_json,
    read_tensors,
    save_tensors,
)
from bertedu.results.files import write_atomically

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
        config = hugging_face_config(model.config) | tie_setting(model)
    tensors = {n: tensor.detach().to("cpu", dtype).contiguous() for n, tensor in tensors.items()}
    save_tensors(tensors, folder / "model.safetensors", {"format": "pt"})
    write_atomically(folder / "config.json", json.dumps(config, indent=2) + "\n")


def load_elmo(folder: Path | str) -> ElmoForPreTraining:
    """Load the folder of an ELMo as float32, in evaluation mode.

    Raises CheckpointError if a file is missing or broken, or it is not an ELMo of ours.
    """
    folder = Path(folder)
    values = read_json(folder)
    if values.get("model_type") != ELMO:
        raise CheckpointError(f"{folder} holds no ELMo of ours: load it with load_checkpoint")
    tensors, _ = load_tensors(folder / "model.safetensors")
    state = {n: finite(tensor.float(), n, str(folder)) for n, tensor in tensors.items()}
    try:
        model = ElmoForPreTraining(BertConfig(**values["config"]), ElmoSizes(**values["sizes"]))
        model.load_state_dict(state | {"decoder.weight": state["elmo.token.weight"]})
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        first = "; ".join(line.strip() for line in str(error).splitlines()[:2])
        raise CheckpointError(f"{folder}: config.json and weights make no ELMo: {first}") from None
    return model.eval()


def load_checkpoint(folder: Path | str) -> BertForPreTraining:
    """Load a checkpoint folder as float32, in evaluation mode.

    Raises CheckpointError if a file is missing, broken, or does not fit its config.
    """
    model, absent, _ = load_bert(Path(folder), with_heads=True)
    if absent or not isinstance(model, BertForPreTraining):
        raise CheckpointError(
            f"{folder} has no {' and no '.join(absent)}: it is not a whole BERT with both "
            "heads of pre-training. bertedu.load opens what there is"
        )
    return model


def load_pretrained(folder: Path | str) -> BertForPreTraining | ElmoForPreTraining:
    """Load whichever of the two the folder holds; see `load_checkpoint` and `load_elmo`."""
    if read_json(Path(folder)).get("model_type") == ELMO:
        return load_elmo(folder)
    return load_checkpoint(folder)


def load_bert(
    folder: Path, with_heads: bool = False
) -> tuple[Bert | BertForPreTraining, tuple[str, ...], tuple[str, ...]]:
    """Load what a folder of ours or of Hugging Face holds, as float32, in evaluation mode.

    Without any head of pre-training in the file it is an encoder alone, unless ``with_heads``.
    Returns the model, its parts that start from chance, and the names of tensors without a place.
    Raises CheckpointError as `load_checkpoint`; but a head or the pooler may be missing as a whole.
    """
    config, tensors = read_config(folder), canonical(read_tensors(folder))
    with_heads = with_heads or any(name.startswith("cls.") for name in tensors)
    model = BertForPreTraining(config) if with_heads else Bert(config)
    apart = read_json(folder).get("tie_word_embeddings") is False
    if apart and isinstance(model, BertForPreTraining):
        model.mlm.decoder.weight = nn.Parameter(model.mlm.decoder.weight.detach().clone())
    absent = load_weights(model, tensors, str(folder))
    places = {*hugging_face_names(model).values(), DECODER_BIAS}
    unused = [n for n in tensors if n not in places and not n.endswith("position_ids")]
    return model.eval(), absent, tuple(unused)


def load_weights(
    model: Bert | BertForPreTraining, tensors: dict[str, Tensor], origin: str
) -> tuple[str, ...]:
    """Copy tensors under Hugging Face's names into our model.

    Names may be those of old files (gamma, beta), or lack the "bert." of an encoder saved alone.
    One thing differs in training: `transformers` never moves the row of [PAD] by looking it up
    (``padding_idx=0``). Ours has no such rule; with the padding mask, no gradient gets there.
    Returns the parts that the file lacks as a whole: heads and pooler, which keep the random
    weights they were made with. Raises CheckpointError, and changes nothing, if a tensor is
    missing, has another shape, is quantized or holds NaN, or a decoder that should be the token
    embedding is not.
    """
    tensors, state, names = canonical(tensors), model.state_dict(), hugging_face_names(model)
    decoder_name = None if is_untied(model) else names.pop(DECODER, None)
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
    if decoder_name:
        table = state["bert.embeddings.token.weight"]
        if not torch.equal(tensors.get(decoder_name, table).float(), table):
            raise CheckpointError(
                f"{origin}: {decoder_name} is not the token embedding, but "
                "config.json says that they are one (tie_word_embeddings). If it was trained "
                'apart from it, write "tie_word_embeddings": false into config.json'
            )
        state[DECODER] = table
    model.load_state_dict(state)
    return tuple(_HEADS[part] for part in absent)
