"""BERT, taught by building it: `bertedu.load("bert-mini")` gives the one this course trained."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from bertedu.model.bert import BertForPreTraining


def load(name: str | Path = "bert-mini") -> "tuple[BertForPreTraining, Tokenizer]":
    """Load a checkpoint and its tokenizer.

    Parameters
    ----------
    name
        A folder, or the name of one in `data/checkpoints`.

    Raises
    ------
    CheckpointError
        There is no such checkpoint, or a file of it is broken.

    """
    from bertedu.model.checkpoints import CheckpointError, load_checkpoint
    from bertedu.text.sources import shipped
    from bertedu.text.tokenization import load_tokenizer

    checkpoints = shipped("checkpoints")
    folder = Path(name)
    if not folder.is_dir():
        folder = checkpoints / name
    if not folder.is_dir():
        known = sorted(path.name for path in checkpoints.glob("*") if path.is_dir())
        raise CheckpointError(
            f"no checkpoint {str(name)!r}: give a folder, or one of {', '.join(known) or '(none)'}"
        )
    model = load_checkpoint(folder)
    try:
        tokenizer = load_tokenizer(folder)
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{folder} has no usable vocabulary: {error}") from None
    if tokenizer.get_vocab_size() != model.bert.config.vocab_size:
        raise CheckpointError(
            f"{folder}: vocab.txt has {tokenizer.get_vocab_size()} word pieces, but the model has "
            f"{model.bert.config.vocab_size}. They come from different models."
        )
    return model, tokenizer
