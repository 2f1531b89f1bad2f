"""Models to and from disk, and by name: safetensors only, under Hugging Face's names.

A checkpoint is a folder with `model.safetensors` and `config.json`; with the tokenizer's files
beside them `transformers` opens it as it is.
"""

import json
import math
import re
import warnings
from collections.abc import Collection, Mapping
from contextlib import ExitStack
from dataclasses import asdict, fields
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from tokenizers import Tokenizer, normalizers
from torch import Tensor

from bertedu.files import FileError, replacing, shipped
from bertedu.model.bert import Bert, BertForPreTraining
from bertedu.model.config import BertConfig, Direction
from bertedu.model.elmo import ElmoForPreTraining, ElmoSizes
from bertedu.text.fast_tokenizer import bert_tokenizer, tokenizer_files
from bertedu.text.sources import read
from bertedu.text.tokenization import SPECIAL_TOKENS, check_tokens

AnyModel = BertForPreTraining | Bert | ElmoForPreTraining
Names = tuple[str, ...]


class CheckpointError(FileError):
    """A file that is not a checkpoint of this model; the message says which, why and what to do."""


# --- Files --------------------------------------------------------------------------------------

_SHARDS = "model.safetensors.index.json"  # beside weights in several files


def read_json(folder: Path, name: str = "config.json") -> dict[str, Any]:
    """Read an object of a folder; CheckpointError if there is no such file, or it is not JSON."""
    try:
        values = json.loads((folder / name).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CheckpointError(f"{folder} is not a checkpoint: it has no {name}") from None
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{folder}/{name}: {error}; get the checkpoint again") from None
    return values if isinstance(values, dict) else {}


def load_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Read all tensors of a safetensors file, and its metadata.

    Raises CheckpointError if the file is missing, cut short, or not safetensors.
    """
    if not path.is_file():
        raise _no_weights(path, str(path.parent))
    try:
        with safe_open(path, framework="pt") as file:
            names = list(file.keys())
            return {name: file.get_tensor(name) for name in names}, file.metadata() or {}
    except (SafetensorError, OSError) as error:
        raise CheckpointError(
            f"{path} is broken or only half there ({error}); get or train it again"
        ) from None


def _no_weights(path: Path, origin: str, instead: str = "") -> CheckpointError:
    """Return the error for a file that is not there; it may lie there in another form."""
    others = sorted(found.name for kind in (_SHARDS, "*.bin") for found in path.parent.glob(kind))
    if not (others or instead):
        return CheckpointError(f"there is no file {path}")
    return CheckpointError(
        f"{origin} has no model.safetensors, only {others[0] if others else instead}. bertedu "
        "joins no files, and opens no pickle: that is a program, and may do anything on this "
        "machine. Look on the Hub for the same model with safetensors (copies; pull requests by "
        "the bot SFconvertbot). If you trust its author, convert it once: transformers."
        "AutoModelForPreTraining.from_pretrained(OLD).save_pretrained(NEW, max_shard_size='50GB'), "
        "and the same with AutoTokenizer"
    )


def save_tensors(tensors: Mapping[str, Tensor], path: Path, metadata: dict[str, str]) -> None:
    """Write a safetensors file under a temporary name, then rename it."""
    with replacing(path) as part:
        whole = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
        save_file(whole, part, metadata)
        part.chmod(0o644)  # others may read it; safetensors itself lets only the owner


def write_folder(
    folder: Path,
    tensors: Mapping[str, Tensor],
    config: Mapping[str, Any],
    tokenizer: Tokenizer | None = None,
    max_length: int = 0,
    more: Mapping[str, str] | None = None,
) -> None:
    """Write weights, `config.json`, the tokenizer's two files if given, ``more`` texts by name.

    No old file goes before all new ones are whole. Raises CheckpointError if the tokenizer is
    that of another model, FileError if the folder cannot be written.
    """
    texts = {"config.json": json.dumps(config, indent=2), **(more or {})}
    if tokenizer is not None:
        pieces = max(tokenizer.get_vocab().values()) + 1
        if not 0 <= config["vocab_size"] - pieces < _PADDED:
            raise CheckpointError(
                f"the tokenizer has {pieces} word pieces, the model {config['vocab_size']}: it is "
                "the tokenizer of another model. bertedu.load gives both together"
            )
        texts |= tokenizer_files(tokenizer, max_length)
    with ExitStack() as files:
        for name, text in texts.items():
            part = files.enter_context(replacing(folder / name))
            part.write_text(text + "\n", encoding="utf-8")
        save_tensors(tensors, folder / "model.safetensors", {"format": "pt"})


# --- Hugging Face's names -----------------------------------------------------------------------

# ours, theirs: patterns, applied one after the other to every name. An ELMo's names, which nobody
# else has, stay as they are.
_NAMES = (
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
# theirs, of old files and of new ones: a layer norm's scale and shift, the decoder's bias
_OLD_NAMES = (
    (r"LayerNorm\.gamma$", "LayerNorm.weight"),
    (r"LayerNorm\.beta$", "LayerNorm.bias"),
    (r"^cls\.predictions\.decoder\.bias$", "cls.predictions.bias"),
)
_TIED = {  # the decoder, and the token embedding that it is: stored once
    "mlm.decoder.weight": "bert.embeddings.token.weight",
    "decoder.weight": "elmo.token.weight",
}
_LAYER = re.compile(r"bert\.encoder\.layer\.(\d+)\.")
# what an author may leave out as a whole: how its names begin, and what a reader calls it
_PARTS = {
    "cls.predictions.": "masked-word head",
    "cls.seq_relationship.": "next-sentence head",
    "bert.pooler.": "pooler",
}


def hugging_face_name(name: str) -> str:
    """Translate the name of one of our parameters, e.g. `bert.embeddings.token.weight`."""
    for ours, theirs in _NAMES:
        name = re.sub(ours, theirs, name)
    return name


def hugging_face_tensors(model: AnyModel, prefix: str = "") -> dict[str, Tensor]:
    """Name all tensors as `transformers` does, each behind ``prefix``; the decoder is left out.

    Raises CheckpointError for a variant with parts of its own: it would come back as plain BERT.
    """
    if odd := {type(p).__name__ for p in model.modules() if ".variants." in type(p).__module__}:
        raise CheckpointError(f"no folder tells of {', '.join(sorted(odd))}: keep the state_dict")
    state = model.state_dict()
    return {hugging_face_name(prefix + name): state[name] for name in state if name not in _TIED}


def _todays_names(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Give tensors of old files, and of encoders saved alone, the names of today's whole BERTs."""
    alone = not any(name.startswith("bert.") for name in tensors)
    renamed = {}
    for theirs in sorted(tensors):
        within = alone and theirs.startswith(("embeddings.", "encoder.", "pooler."))
        name = f"bert.{theirs}" if within else theirs
        for old, new in _OLD_NAMES:
            name = re.sub(old, new, name)
        renamed[name] = tensors[theirs]
    return renamed


def load_weights(
    model: AnyModel, tensors: Mapping[str, Tensor], origin: str
) -> tuple[Names, Names]:
    """Copy tensors under Hugging Face's names into our model.

    Names may be those of old files (gamma, beta), or lack the "bert." of an encoder saved alone.
    Returns the parts that the file lacks as a whole: heads and pooler, which keep the random
    weights they were made with; and the names of tensors that have no place. Raises
    CheckpointError, and changes nothing, if a tensor is missing, has another shape, is quantized or
    holds NaN, or the decoder is not the token embedding.
    """
    tensors, state = _todays_names(tensors), model.state_dict()
    prefix = "bert." if isinstance(model, Bert) else ""
    names = {own_name: hugging_face_name(prefix + own_name) for own_name in state}
    layers = len({found[1] for name in tensors if (found := _LAYER.match(name))})
    if layers and layers != (said := model.config.num_hidden_layers):
        raise CheckpointError(f"{origin}: config.json says {said} layers, the file has {layers}")
    parts = {part: [n for n in names.values() if n.startswith(part)] for part in _PARTS}
    absent = [part for part in parts if parts[part] and tensors.keys().isdisjoint(parts[part])]
    for own_name, name in names.items():
        if own_name not in _TIED and not name.startswith(tuple(absent)):
            state[own_name] = usable(tensors.get(name), state[own_name].shape, name, origin)
    for decoder in _TIED.keys() & names.keys():
        table = state[decoder] = state[_TIED[decoder]]
        if not torch.equal(tensors.get(names[decoder], table).float(), table):
            raise CheckpointError(
                f"{origin}: {names[decoder]} is not the token embedding, as it must be in a BERT"
            )
    model.load_state_dict(state)
    places = set(names.values())
    unused = [n for n in tensors if n not in places and not n.endswith("position_ids")]
    return tuple(_PARTS[part] for part in absent), tuple(unused)


def usable(tensor: Tensor | None, shape: torch.Size, name: str, origin: str) -> Tensor:
    """Return a tensor of a file as float32; CheckpointError if the model cannot use it."""
    if tensor is None:
        raise CheckpointError(f"{origin} has no tensor {name!r}: it is not a whole model")
    if tensor.shape != shape:
        why = f"is {tuple(tensor.shape)}, but its config, of another model, says {tuple(shape)}"
    elif not tensor.is_floating_point():
        why = f"is {tensor.dtype}: quantized. Get the weights with floating-point numbers"
    elif not (tensor := tensor.float()).isfinite().all():
        why = "holds NaN or infinite numbers: its training went wrong, or the file was damaged"
    else:
        return tensor
    raise CheckpointError(f"{origin}: {name} {why}. Get or train it again")


# --- Settings -----------------------------------------------------------------------------------

_ELMO = "bertedu-elmo"  # model_type of a model that `transformers` does not have
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
_RELATIVES = {  # on the Hub, and the first thing in which each is another model than BERT
    "roberta": "it counts positions from 2, has no segments, and cuts words into bytes",
    "distilbert": "it has no segments and no pooler, and other names for everything",
    "bertedu-one-way": "it is fine-tuned: bertedu.finetuning.saving.load_finetuned opens it",
    "albert": "its layers share one set of weights, and its embeddings are factorized",
    "electra": "its head tells replaced words from real ones, and its embeddings may be narrower",
    "deberta": "its attention uses relative positions",
    "modernbert": "it turns queries and keys by their position, and norms come before",
    "gpt2": "it reads from left to right, and its norms come before each sub-layer",
}
_KEEP = (
    "Keep it in our own format: bertedu.model.checkpoints.save_checkpoint, and "
    "bertedu.finetuning.saving.save_finetuned once it is fine-tuned"
)


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
    kind = values.get("model_type")
    sizes_only = kind is None and set(_SIZES) - set(_OLD_SIZES) <= set(values)
    if kind not in kinds and not sizes_only:
        named = "" if kind is None else f", and is {kind!r}"
        why = f": {_RELATIVES[kind]}" if kind in _RELATIVES else ""
        raise CheckpointError(f"{path} describes no BERT (model_type must be 'bert'{named}{why})")
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


def refuse_inexpressible(config: BertConfig) -> None:
    """Raise CheckpointError if `transformers` would make another model of these weights."""
    what = f"reads {config.direction.replace('-', ' ')}, and theirs reads both sides"
    if config.norm != "post":
        what = "has norms before each sub-layer, and theirs after it"
    if config.norm != "post" or config.direction != "bidirectional":
        raise CheckpointError(f"This model {what}: it would give other answers there. {_KEEP}")


# --- Models -------------------------------------------------------------------------------------


def save_checkpoint(
    model: BertForPreTraining | ElmoForPreTraining, folder: Path, dtype: torch.dtype = torch.float32
) -> None:
    """Write `model.safetensors` and `config.json`. Half precision halves the file."""
    config = hugging_face_config(model.config)
    if isinstance(model, ElmoForPreTraining):
        sizes = asdict(model.elmo.sizes)
        config = {"model_type": _ELMO, "config": asdict(model.config), "sizes": sizes}
    tensors = hugging_face_tensors(model)
    write_folder(folder, {name: tensor.to(dtype) for name, tensor in tensors.items()}, config)


def export_model(model: AnyModel, folder: Path, tokenizer: Tokenizer | None) -> None:
    """Write an encoder, or a BERT with both heads of pre-training, for `transformers`.

    Its answers are the same there. Trained on without a padding mask it is not: theirs freezes the
    row of [PAD] in the word table (``padding_idx=0``), ours does not. Raises CheckpointError if
    their format cannot express this model, ValueError without a tokenizer, or as `write_folder`.
    """
    if isinstance(model, ElmoForPreTraining):
        raise CheckpointError(f"`transformers` has no ELMo. {_KEEP}")
    if tokenizer is None:
        raise ValueError(
            "a model without its tokenizer cannot be used: "
            "save_hugging_face(model, folder, tokenizer), both as bertedu.load gives them"
        )
    refuse_inexpressible(model.config)
    their_class = "BertModel" if isinstance(model, Bert) else "BertForPreTraining"
    config = hugging_face_config(model.config) | {"architectures": [their_class]}
    longest = model.config.max_position_embeddings
    write_folder(folder, hugging_face_tensors(model), config, tokenizer, longest)


def load_checkpoint(folder: Path | str) -> BertForPreTraining:
    """Load a whole BERT, with both heads, as float32, in evaluation mode.

    Raises CheckpointError if a file is missing, broken, or does not fit its config.
    """
    model = load_pretrained(folder)
    if isinstance(model, ElmoForPreTraining):
        raise CheckpointError(f"{folder} holds an ELMo: load it with load_pretrained")
    return model


def load_pretrained(folder: Path | str) -> BertForPreTraining | ElmoForPreTraining:
    """Load a whole BERT or an ELMo of ours, whichever the folder holds; see `load_checkpoint`."""
    model, absent, _ = load_model(Path(folder))
    if absent or isinstance(model, Bert):
        lacks = (*absent, "head of pre-training") if isinstance(model, Bert) else absent
        raise CheckpointError(
            f"{folder} has no {' and no '.join(lacks)}: it is not a whole BERT. bertedu.load opens "
            "what there is"
        )
    return model


def load_model(folder: Path) -> tuple[AnyModel, Names, Names]:
    """Load what a folder of ours or of Hugging Face holds, as float32, in evaluation mode.

    Without any head of pre-training in the file it is an encoder alone. Returns the model, its
    parts that start from chance, and the names of tensors without a place. Raises CheckpointError
    as `load_checkpoint`; but a head or the pooler may be missing as a whole.
    """
    values, path = read_json(folder), folder / "model.safetensors"
    model: AnyModel
    if values.get("model_type") == _ELMO:
        try:
            sizes = ElmoSizes(**values["sizes"])
            model = ElmoForPreTraining(BertConfig(**values["config"]), sizes)
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise CheckpointError(f"{folder}/config.json makes no ELMo: {error}") from None
        tensors, _ = load_tensors(path)
    else:
        config, (tensors, _) = read_config(folder), load_tensors(path)
        with_heads = any(name.startswith("cls.") for name in tensors)
        model = BertForPreTraining(config) if with_heads else Bert(config)
    absent, unused = load_weights(model, tensors, str(folder))
    return model.eval(), absent, unused


# --- By name ------------------------------------------------------------------------------------

PUBLISHED = ("minilm", "bert-tiny")  # sources that hold the weights of others
ENCODERS_ALONE = ("minilm",)  # of these, those without a head: known before they are fetched
_ON_THE_HUB = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*")  # owner/name
_WANTED = (  # of a repository; never a pickle, never code
    *("config.json", "model.safetensors", _SHARDS),
    *("tokenizer.json", "tokenizer_config.json", "vocab.txt"),
)
_NORMALIZER = {  # settings of the normalizer: as `transformers` and as `tokenizers` call them
    "do_lower_case": "lowercase",
    "tokenize_chinese_chars": "handle_chinese_chars",
    "strip_accents": "strip_accents",
}
_PADDED = 128  # a table of embeddings may be made longer than the vocabulary, to a round number


class FromChance(UserWarning):
    """Some part of a loaded model is not trained, or some part of its file was not used."""


class Loaded(NamedTuple):
    """A model and its tokenizer; its parts that start from chance; tensors without a place."""

    model: AnyModel
    tokenizer: Tokenizer
    absent: Names = ()
    unused: Names = ()


def load_named(name: str | Path) -> tuple[AnyModel, Tokenizer]:
    """Load a model and its tokenizer; what `bertedu.load` does."""
    model, tokenizer, absent, unused = find_model(name)
    said = {
        f"{name} has no {' and no '.join(absent)}: there the model starts from chance. Train it "
        "before you believe what it says; all else is as the file has it.": absent,
        f"{name} also holds {', '.join(unused)}, which have no place in a pre-trained BERT and "
        "were left out (the head of another task?).": unused,
    }
    for text, parts in said.items():
        if parts:
            warnings.warn(text, FromChance, stacklevel=3)
    return model, tokenizer


def find_model(name: str | Path) -> Loaded:
    """Load a folder, else a checkpoint of `data/checkpoints` or `runs`, else of a wheel or the Hub.

    What is missing of it is said, and nobody is warned. Raises CheckpointError if there is no such
    model, or a file of it is missing or broken.
    """
    name = str(name)
    with TemporaryDirectory() as unpacked:
        if not is_published(name):
            folder = find_checkpoint(name)
        elif name not in PUBLISHED:
            folder = download(name)
        else:
            (folder := Path(unpacked) / name).mkdir()
            for member, content in read(name).items():
                (folder / Path(member).name).write_bytes(content)
        model, absent, unused = load_model(folder)
        return Loaded(model, read_tokenizer(folder, model.config.vocab_size), absent, unused)


def find_checkpoint(name: str) -> Path:
    """Return the folder itself, or one in `data/checkpoints` or `runs`; else CheckpointError."""
    if folder := _folder(name):
        return folder
    ours = sorted(path.parent.name for path in shipped("checkpoints").glob("*/config.json"))
    raise CheckpointError(
        f"no checkpoint {name!r}: give a folder, a model of the Hub with its owner, such as "
        f"google-bert/bert-base-uncased, or one of {', '.join([*ours, *PUBLISHED])}"
    )


def _folder(name: str) -> Path | None:
    places = (Path(name), shipped("checkpoints") / name, Path("runs") / name)
    return next((folder for folder in places if folder.is_dir()), None)


def is_published(name: str) -> bool:
    """Whether these are the weights of others: in a wheel, or on the Hub."""
    known = name in PUBLISHED or _ON_THE_HUB.fullmatch(name) is not None
    return known and _folder(name) is None


def download(name: str) -> Path:
    """Return the folder of a model of the Hub, fetched now or before.

    Raises CheckpointError if there is no network, no such model or no safetensors, or its authors
    must be asked first.
    """
    from huggingface_hub import errors, snapshot_download

    reasons: dict[type[Exception], str] = {  # the first is one of the second
        errors.GatedRepoError: f"accept its authors' terms at https://huggingface.co/{name}, then "
        "run `hf auth login`",
        errors.RepositoryNotFoundError: "the Hub has no model of this name (or it is private: run "
        "`hf auth login`). Is it spelled as on https://huggingface.co/models ?",
        errors.LocalEntryNotFoundError: "the Hub cannot be reached. Try again with a network, or "
        "use 'minilm' or 'bert-tiny', which come with pip",
    }
    try:
        folder = Path(snapshot_download(name, allow_patterns=list(_WANTED)))
    except Exception as error:  # proxies, certificates and time-outs have their own classes
        known = (why for kind, why in reasons.items() if isinstance(error, kind))
        why = next(known, f"{type(error).__name__}: {' '.join(str(error).split())}")
        raise CheckpointError(
            f"there is no folder {name} here, and none from the Hub: {why}. Or fetch it elsewhere, "
            f"with `hf download {name} --local-dir FOLDER`, and load that folder"
        ) from None
    if not (folder / "model.safetensors").is_file():
        raise _no_weights(folder / "model.safetensors", name, "pytorch_model.bin, it seems")
    return folder


def read_tokenizer(folder: Path, rows: int) -> Tokenizer:
    """Open `tokenizer.json`, or `vocab.txt` with the settings of `tokenizer_config.json`.

    It neither cuts nor pads, whatever its author had set. Raises CheckpointError if there is no
    vocabulary, it is broken, or it does not fit the ``rows`` of the word embedding.
    """
    whole, config = folder / "tokenizer.json", folder / "tokenizer_config.json"
    try:
        settings = json.loads(config.read_text(encoding="utf-8")) if config.is_file() else {}
        if whole.is_file():
            tokenizer = Tokenizer.from_buffer(whole.read_bytes())
        else:
            tokenizer = _read_vocabulary(folder, settings)
        if isinstance(normalizer := tokenizer.normalizer, normalizers.BertNormalizer):
            for theirs in _NORMALIZER.keys() & settings:  # they have the last word
                setattr(normalizer, _NORMALIZER[theirs], settings[theirs])
    except Exception as error:  # tokenizers raises nothing narrower
        raise CheckpointError(f"{folder} has no usable vocabulary: {error}") from None
    tokenizer.no_truncation()
    tokenizer.no_padding()
    pieces = max(tokenizer.get_vocab().values(), default=-1) + 1
    if pieces != rows and not (rows % 8 == 0 and pieces < rows < pieces + _PADDED):
        raise CheckpointError(
            f"{folder}: its tokenizer has {pieces} word pieces, but the model has {rows}. They "
            "come from different models."
        )
    return tokenizer


def _read_vocabulary(folder: Path, settings: dict[str, Any]) -> Tokenizer:
    """Make a WordPiece tokenizer of the lines of `vocab.txt`."""
    kind = settings.get("tokenizer_class", "BertTokenizer")
    if kind not in ("BertTokenizer", "BertTokenizerFast", "PreTrainedTokenizerFast"):
        raise ValueError(f"its words are cut by a {kind}, not by WordPiece alone")
    try:
        lines = (folder / "vocab.txt").read_text(encoding="utf-8").removesuffix("\n").split("\n")
    except FileNotFoundError:
        raise ValueError("there is neither a tokenizer.json nor a vocab.txt") from None
    check_tokens(lines, "vocab.txt")
    lost = [token for token in SPECIAL_TOKENS if token not in lines]
    if lost:
        raise ValueError(f"vocab.txt has no {' and no '.join(lost)}")
    return bert_tokenizer(lines)
