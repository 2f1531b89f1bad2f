"""Exercises of notebook 18: asking the source, memory, BigBird's mask, rotary places, Muon."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from bertedu.model.attention import SelfAttention
from bertedu.model.config import BertConfig
from bertedu.model.variants.bigbird import sparse_mask
from bertedu.model.variants.rotary import rotate
from bertedu.model.variants.seq2seq import cross_attention
from bertedu.model.variants.transformer_xl import remember
from course.exercises import judge
from course.exercises.judge import Exercise, Inputs, drawer


def _layer(size: int, heads: int, plain: bool = False) -> SelfAttention:
    """Make the four maps of attention; plain ones leave everything as it is."""
    with judge.undisturbed(seed=size):
        layer = SelfAttention(BertConfig(10, size, 1, heads, 4 * size, dropout=0.0))
        for part in (layer.query, layer.key, layer.value, layer.output):
            if plain:
                nn.init.eye_(part.weight)
                nn.init.zeros_(part.bias)
            else:
                nn.init.normal_(part.weight)
    kind = "that leaves all as it is" if plain else f"with {heads} heads of {size // heads}"
    made: SelfAttention = judge.named(f"SelfAttention {kind}", layer.requires_grad_(False))
    return made


def _cross_cases() -> Iterator[Inputs]:
    """As many words written as read first, where a mix-up keeps the shapes; then other numbers.

    In a batch no two rows have the same padding.
    """
    generator = torch.Generator().manual_seed(181)
    layers = [_layer(1, 1, plain=True), _layer(2, 1, plain=True), _layer(4, 2)]
    for rows, written, read in ((1, 1, 1), (1, 2, 2), (2, 2, 3), (2, 4, 3), (3, 3, 5)):
        for layer in layers:
            size = layer.query.in_features
            for padded in (0, 1) if read > 1 else (0,):
                x = torch.randint(-4, 5, (rows, written, size), generator=generator) / 2
                source = torch.randint(-4, 5, (rows, read, size), generator=generator) / 2
                real = read - padded * torch.arange(1, rows + 1)
                yield layer, x, source, (torch.arange(read) < real[:, None])[:, None, None]


Exercise.asking(
    asks="(attention, x (B, T, H), source (B, S, H), mask (B, 1, 1, S)) -> (mixed (B, T, H), "
    "weights (B, A, T, S)). attention is a SelfAttention, mask is true at real words of the source",
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
)(cross_attention)


def _read_kept(answer: Any, *inputs: Any) -> tuple[bool, list[Any]]:
    """Return whether a gradient would flow, and the numbers; the shape matters, too."""
    flows = isinstance(answer, Tensor) and answer.requires_grad
    return flows, judge.read_numbers(answer, "what is kept", remember(*inputs).shape)


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


Exercise.asking(
    asks="(old (B, M, H), new (B, S, H), size) -> the last size states of both, (B, up to size, "
    "H), through which no gradient flows",
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
)(remember)


def _mask_cases() -> Iterator[Inputs]:
    generator = torch.Generator().manual_seed(183)
    for length in (3, 4, 6, 9):
        for window, global_tokens, drawn in ((0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1), (2, 2, 2)):
            keys = torch.randint(length, (length, drawn), generator=generator)
            yield length, window, global_tokens, keys


def _tell_mask(_: Inputs, mine: list[list[bool]], right: list[list[bool]]) -> str:
    pairs = ((i, j) for i in range(len(right)) for j in range(len(right)))
    for i, j in pairs:
        if mine[i][j] != right[i][j]:
            return f"Row {i}, column {j} is {mine[i][j]}: may {i} see {j}? {right[i][j]}."
    return "Yours is right here, but drawn comes back changed."  # asked only if one differs


@Exercise.asking(
    asks="(length S, window, global_tokens, drawn (S, r)) -> bool (S, S): [i, j], may i see j? "
    "window neighbors on each side, itself, the first global_tokens, and its drawn keys",
    cases=_mask_cases,
    read=lambda answer, length, *_: judge.read_mask(answer, "your mask", (length, length)),
    differ=_tell_mask,
    tried="20 masks: windows, global tokens and random keys, alone and together.",
    start="position = torch.arange(length); (position[:, None] - position).abs() says how far "
    "apart row and column stand.",
    beside=(sparse_mask,),
    mistakes="""
    ✗ each token sees all that follows it.
      position[:, None] - position is negative for what follows: .abs() before you compare.
    | .abs() <=  => <=
    ✗ global tokens see all, but nobody sees them.
      a row is who sees, a column is who is seen. Global tokens are both: mask[:, :global_tokens].
    | mask[:, :global_tokens] = True => pass
    ✗ the random keys of one token are given to all.
      mask[:, drawn] fills whole columns. Each row has keys of its own:
      mask[position[:, None], drawn].
    | mask[position[:, None], drawn] => mask[:, drawn]
    """,
)
def right_window_mask(length: int, window: int, global_tokens: int, drawn: Tensor) -> Tensor:
    """Numbers, and random keys (S, r) -> bool (S, S), true where a row may see a column."""
    position = torch.arange(length)
    mask = (position[:, None] - position).abs() <= window
    mask[:global_tokens] = True
    mask[:, :global_tokens] = True
    mask[position[:, None], drawn] = True
    return mask


def _rotate_cases() -> Iterator[Inputs]:
    draw = drawer(184)
    for length, size in ((1, 2), (2, 2), (3, 2), (2, 4), (3, 4), (5, 4), (4, 8), (9, 16)):
        yield (draw(length, size),)
        yield (draw(1, size).expand(length, size).clone(),)  # the same vector at every place


Exercise.asking(
    asks="x (S, d), a vector for each place -> (S, d): numbers 2k and 2k + 1 of place m are turned "
    "by the angle m * 10000 ** (-2k / d)",
    cases=_rotate_cases,
    tried="16 cases, of 1 to 9 places and 1 to 8 pairs.",
    start="a = x[..., 0::2] and b = x[..., 1::2] are the pairs. (a, b) turned by t is "
    "(a cos t - b sin t, a sin t + b cos t).",
    mistakes="""
    ✗ number k is turned with number k + d/2.
      many programs pair so, and scores then know distances as well. Here neighbors are a pair:
      x[..., 0::2] and x[..., 1::2].
    | x[..., 0::2], x[..., 1::2] => x[..., : size // 2], x[..., size // 2 :] &&
      torch.stack(turned, dim=-1).flatten(-2) => torch.cat(turned, dim=-1)
    ✗ the turned numbers come back in another order: first halves of all pairs, then second halves.
      2k and 2k + 1 stay neighbors: torch.stack((new_a, new_b), dim=-1).flatten(-2).
    | torch.stack(turned, dim=-1).flatten(-2) => torch.cat(turned, dim=-1)
    ✗ the vectors get longer or shorter: this is no turn.
      one of the four products has the other sign: a cos t - b sin t, a sin t + b cos t.
    | - b * angle.sin() => + b * angle.sin()
    """,
)(rotate)


def _matrix_cases() -> Iterator[Inputs]:
    draw = drawer(185)
    yield torch.tensor([[3.0, 0.0], [0.0, 4.0]]), 0
    yield torch.tensor([[3.0, 0.0], [0.0, 4.0]]), 1
    for rows, columns, steps in ((1, 2, 1), (2, 2, 2), (2, 3, 1), (2, 3, 5), (3, 4, 20)):
        yield draw(rows, columns), steps


@Exercise.asking(
    asks="(matrix (m, n), m <= n, steps) -> (m, n): divided by its norm, then x becomes "
    "1.5 x - 0.5 x xᵀ x, so many times",
    cases=_matrix_cases,
    tried="7 cases, of 1 to 3 rows and up to 20 steps.",
    start="x = matrix / matrix.norm(), the root of the sum of all squares. Without a step "
    "that is all.",
    mistakes="""
    ✗ the matrix is not divided by its norm.
      singular values above 1.73 grow in each step in place of nearing 1: matrix / matrix.norm().
    | matrix / matrix.norm() => matrix
    ✗ each row is divided by a norm of its own.
      matrix.norm() is one number, over all of it. Rows of length 1 are not orthogonal yet.
    | matrix.norm() => matrix.norm(dim=1, keepdim=True)
    ✗ one step, however many are asked for.
      each step begins with the x of the last one: a loop over range(steps).
    | range(steps) => range(min(1, steps))
    ✗ every number by itself is cubed.
      x xᵀ x are two products of matrices, @ and @; x * x * x moves each number alone.
    | x @ x.T @ x => x * x * x
    """,
)
def right_orthogonalize(matrix: Tensor, steps: int) -> Tensor:
    """(m, n), m <= n -> (m, n): nearer to orthogonal rows with each step of Newton and Schulz."""
    x = matrix / matrix.norm()  # no singular value is above 1 now
    for _ in range(steps):
        x = 1.5 * x - 0.5 * x @ x.T @ x
    return x
