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
    from bertedu.text.sources import data_dir
    from bertedu.text.tokenization import load_tokenizer

    shipped = data_dir() / "checkpoints"
    folder = Path(name)
    if not folder.is_dir():
        folder = shipped / name
    if not folder.is_dir():
        known = sorted(path.name for path in shipped.glob("*") if path.is_dir())
        raise CheckpointError(
            f"no checkpoint {str(name)!r}: give a folder, or one of {', '.join(known) or '(none)'}"
        )
    return load_checkpoint(folder), load_tokenizer(folder)
