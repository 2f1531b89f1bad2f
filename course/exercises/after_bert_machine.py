"""The exercises of notebook 18, first part: asking the source, and what is remembered."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from bertedu.model.attention import SelfAttention
from bertedu.model.config import BertConfig
from bertedu.model.variants.seq2seq import cross_attention
from bertedu.model.variants.transformer_xl import remember
from course.exercises.judge import Exercise, Inputs, named, read_numbers, undisturbed


def _layer(size: int, heads: int, plain: bool = False) -> SelfAttention:
    """Make the four maps of attention; plain ones leave everything as it is."""
    with undisturbed(seed=size):
        layer = SelfAttention(BertConfig(10, size, 1, heads, 4 * size, dropout=0.0))
        for part in (layer.query, layer.key, layer.value, layer.output):
            if plain:
                nn.init.eye_(part.weight)
                nn.init.zeros_(part.bias)
            else:
                nn.init.normal_(part.weight)
    kind = "that leaves all as it is" if plain else f"with {heads} heads of {size // heads}"
    made: SelfAttention = named(f"SelfAttention {kind}", layer.requires_grad_(False))
    return made


def _cross_cases() -> Iterator[Inputs]:
    """As many words written as read first, where a mix-up keeps the shapes; then other numbers."""
    generator = torch.Generator().manual_seed(181)
    layers = [_layer(1, 1, plain=True), _layer(2, 1, plain=True), _layer(4, 2)]
    for written, read in ((1, 1), (2, 2), (2, 3), (4, 3), (3, 5)):
        for layer in layers:
            size = layer.query.in_features
            for padded in (0, 1) if read > 1 else (0,):
                x = torch.randint(-4, 5, (1, written, size), generator=generator) / 2
                source = torch.randint(-4, 5, (1, read, size), generator=generator) / 2
                mask = (torch.arange(read) < read - padded)[None, None, None]
                yield layer, x, source, mask


CROSS_ATTENTION = Exercise(
    asks="(attention, x (B, T, H), source (B, S, H), mask (B, 1, 1, S)) -> (mixed (B, T, H), "
    "weights (B, A, T, S)). attention is a SelfAttention, mask is true at real words of the source",
    right=cross_attention,
    cases=_cross_cases,
    tensors="mixed, weights",
    first_part=1,
    tried="27 cases, with more words written than read, fewer, and as many, some with padding.",
    start="query = attention.split_heads(attention.query(x)). Where do key and value come from? "
    "Then attention_weights(query, key, mask), and attention.mix.",
    mistakes="""
    ✗ nobody asks the source: queries, keys and values are all made of x.
      that is self-attention once more. Only the query is the writer's; keys and values are made of
      what was read: attention.key(source), attention.mix(weights, source).
    | attention.key(source) => attention.key(x) && mix(weights, source) => mix(weights, x)
    ✗ the right weights, but they mix the writer's own values.
      the answer must bring something from the source: attention.mix(weights, source).
    | mix(weights, source) => mix(weights, x)
    ✗ padding of the source is asked as if it were a word.
      the mask is not used. It belongs to attention_weights, which hides a key before softmax.
    | key, mask) => key)
    """,
)


def _read_kept(answer: Any, *inputs: Any) -> tuple[bool, list[Any]]:
    """Return whether a gradient would flow, and the numbers; the shape matters, too."""
    flows = isinstance(answer, Tensor) and answer.requires_grad
    return flows, read_numbers(answer, "what is kept", remember(*inputs).shape)


def _kept_cases() -> Iterator[Inputs]:
    for texts, width, before, now in ((1, 1, 1, 1), (1, 1, 2, 2), (2, 2, 0, 3), (2, 3, 4, 2)):
        numbers = torch.arange(1.0, 1 + texts * (before + now) * width)
        both = numbers.view(texts, before + now, width)
        for size in (2, 1, 3, 0, 9):
            yield both[:, :before].clone(), both[:, before:].clone().requires_grad_(), size


def _difference(_: Inputs, mine: Any, right: Any) -> str:
    if mine[1] == right[1]:
        return "Your numbers are right, but result.requires_grad is True."
    return f"Yours keeps {mine[1]}; right is {right[1]}."


REMEMBER = Exercise(
    asks="(old (B, M, H), new (B, S, H), size) -> the last size states of both, (B, up to size, "
    "H), through which no gradient flows",
    right=remember,
    cases=_kept_cases,
    read=_read_kept,
    differ=_difference,
    tried="20 cases: memory longer and shorter than the segment, empty, and of size 0.",
    start="torch.cat of the two along the places, dim=1. Which of them are the last size? And "
    "which method of a tensor cuts its gradient off?",
    mistakes="""
    ✗ the gradient flows on into the last segment.
      memory is a record. With a gradient, each step would run back through every segment before it,
      or stop with an error: end in .detach().
    | .detach() =>
    ✗ right, except that a memory of size 0 keeps everything.
      in Python -0 is 0, so both[:, -0:] is all of it. Count from the front: start at
      max(0, length - size).
    | max(0, both.shape[1] - size) => -size
    ✗ only the new segment is kept, though the memory has room for more.
      with a memory longer than a segment some of the old states stay: join first, then cut.
    | torch.cat([old, new], dim=1) => new
    """,
)
