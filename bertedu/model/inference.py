"""Around a forward pass: its input is checked, and a model that is being trained is left alone."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from bertedu.model.config import BertConfig


def check_input(config: BertConfig, ids: Tensor, segment_ids: Tensor, padding: Tensor) -> None:
    """Raise ValueError with a message that says which input is wrong and where."""
    if ids.ndim != 2 or not ids.numel():
        raise ValueError(f"ids must be (batch, length), not {tuple(ids.shape)}: one sentence?")
    for name, values in (("ids", ids), ("segment_ids", segment_ids)):
        if values.dtype not in (torch.int32, torch.int64):
            raise ValueError(f"{name} are {values.dtype}, no whole numbers; call .long() on them")
    if ids.shape[1] > config.max_position_embeddings:
        raise ValueError(
            f"the sequence has {ids.shape[1]} tokens; there are position embeddings for "
            f"{config.max_position_embeddings}. Truncate it, or cut it into overlapping windows."
        )
    for name, values in (("segment_ids", segment_ids), ("padding_mask", padding)):
        if values.shape != ids.shape:
            raise ValueError(f"{name} is {tuple(values.shape)}, ids is {tuple(ids.shape)}")
    if ids.device.type != "cpu":  # looking at values would make a GPU wait
        return
    for name, values, size in (
        ("token id", ids, config.vocab_size),
        ("segment id", segment_ids, config.type_vocab_size),
    ):
        low, high = values.aminmax()
        if low < 0 or high >= size:
            wrong = low if low < 0 else high
            raise ValueError(
                f"{name} {int(wrong)} is outside 0 to {size - 1}: "
                "was the text encoded with another vocabulary?"
            )
    if len(empty := (~padding.any(dim=1)).nonzero()):
        raise ValueError(f"row {int(empty[0])} holds nothing but padding; drop it from the batch")


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Switch dropout and gradients off; leave the mode as it was, even after an error."""
    modes = [(part, part.training) for part in model.modules()]
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for part, mode in modes:
            part.training = mode
