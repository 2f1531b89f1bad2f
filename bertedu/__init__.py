"""BERT, taught by building it: `bertedu.load("bert-mini")` gives the one this course trained."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from bertedu.model.bert import BertForPreTraining
    from bertedu.model.elmo import ElmoForPreTraining


def load(
    name: str | Path = "bert-mini",
) -> "tuple[BertForPreTraining | ElmoForPreTraining, Tokenizer]":
    """Load a checkpoint and its tokenizer; the folder says whether it is a BERT or an ELMo.

    Parameters
    ----------
    name
        A folder, or the name of one in `data/checkpoints`.

    Raises
    ------
    CheckpointError
        There is no such checkpoint, or a file of it is broken.

    """
    from bertedu.model.loading import load_named

    return load_named(name)
