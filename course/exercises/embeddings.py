"""The exercises of notebook 02: layer norm, input sum, counting, a test."""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor
from torch.nn import functional as F

from bertedu.model.config import count_parameters
from bertedu.model.embeddings import Embeddings, sinusoidal_positions  # noqa: F401  # in an exhibit
from course.exercises.by_hand import ByHand
from course.exercises.judge import Exercise, Inputs
from course.exercises.museum import TestExercise


def _halves(generator: torch.Generator, *shape: int) -> Tensor:
    """Draw numbers from -3 to 3 in steps of one half, none of them 0: easy to add by hand."""
    whole = torch.randint(1, 7, shape, generator=generator)
    return whole * (torch.randint(0, 2, shape, generator=generator) * 2 - 1) / 2


def _norm_cases() -> Iterator[Inputs]:
    """Large epsilons, and rows of equal numbers, so that one sees where epsilon is."""
    generator = torch.Generator().manual_seed(2)
    sizes = [(1, 2)] * 8 + [(1, 3)] * 16 + [(2, 2)] * 16 + [(2, 4)] * 20 + [(5, 8)] * 20
    for number, (rows, size) in enumerate(sizes):
        x = _halves(generator, rows, size)
        if number % 4 == 3:
            x[-1] = x[-1, 0]  # no variance at all
        scale, shift = _halves(generator, size), _halves(generator, size)
        yield x, scale, shift, (1e-12, 0.5)[number % 2]


@ByHand.asking(
    asks="(x (S, H), scale (H,), shift (H,), eps) -> (S, H)",
    cases=_norm_cases,
    tried="80 random inputs, from one row of 2 to 5 rows of 8, some with equal numbers.",
    start="x.mean(-1, keepdim=True), the mean of each row.",
    without=("layer_norm", "batch_norm", "group_norm", "instance_norm"),
    ready_made="PyTorch's norm did the work",
    instead="Begin with x.mean(-1, keepdim=True), the mean of each row, and subtract it.",
    mistakes="""
    ✗ epsilon is outside the root, and the variance is divided by H - 1.
      x.std() + eps, as in the Annotated Transformer and in codertimo/BERT-pytorch (issue 30). Layer
      norm divides by the root of (variance + eps), with the variance divided by H.
    | (variance + eps).sqrt() => (x.std(-1, keepdim=True) + eps)
    ✗ epsilon is outside the root.
      sqrt(variance) + eps. It belongs inside: (variance + eps).sqrt().
    | (variance + eps).sqrt() => (variance.sqrt() + eps)
    ✗ the variance is divided by H - 1.
      x.var(-1) and x.std(-1) do that by themselves, to estimate the variance of something larger.
      Here the row is all there is: correction=0.
    | (centered**2).mean(-1, keepdim=True) => x.var(-1, keepdim=True)
    ✗ the numbers are normalized down the columns, over the tokens.
      dim=0. Then a token's vector would depend on its neighbors. Each row is normalized by itself:
      dim=-1.
    | mean(-1, => mean(0,
    ✗ the means of the rows are lined up with the columns: keepdim=True is missing.
      without it .mean(-1) has shape (S,), which torch lays along a row; where S is not H it does
      not fit. .mean(-1, keepdim=True) has shape (S, 1), one number for each row.
    | , keepdim=True =>
    | , keepdim=True => && (centered**2).mean(-1) => x.var(-1, correction=0)
    | x.mean(-1, keepdim=True) => x.mean(-1)
    | (centered**2).mean(-1, keepdim=True) => (centered**2).mean(-1)
    """,
)
def right_layer_norm(x: Tensor, scale: Tensor, shift: Tensor, eps: float) -> Tensor:
    """Normalize each row of (S, H) to mean 0 and variance 1, then scale and shift by (H,)."""
    centered = x - x.mean(-1, keepdim=True)
    variance = (centered**2).mean(-1, keepdim=True)
    return scale * (centered / (variance + eps).sqrt()) + shift


def _sum_cases() -> Iterator[Inputs]:
    generator = torch.Generator().manual_seed(3)
    sizes = [(1, 1, 1)] * 10 + [(1, 2, 1)] * 20 + [(1, 3, 2)] * 20 + [(2, 4, 3)] * 20
    for rows, length, size in sizes + [(3, 9, 8)] * 10:
        ids = torch.randint(4, (rows, length), generator=generator)
        first = torch.randint(1, length + 1, (rows, 1), generator=generator)
        segments = (torch.arange(length) >= first).long()
        tables = (_halves(generator, height, size) for height in (4, 2, length + 2))
        yield ids, segments, *tables


def _restarted(segment_ids: Tensor) -> Tensor:
    """Positions that start again in segment B."""
    index = torch.arange(segment_ids.shape[1]).expand_as(segment_ids)
    return torch.where(segment_ids == 1, index - (segment_ids == 0).sum(1, keepdim=True), index)


@Exercise.asking(
    asks="(ids (B, S), segment_ids (B, S), token (V, H), segment (2, H), position (P, H), P >= S) "
    "-> (B, S, H), before the norm",
    cases=_sum_cases,
    tried="80 random inputs, from one token to 3 rows of 9, with one segment or two.",
    start="token[ids], which is (B, S, H): all the token vectors at once.",
    beside=(Embeddings.forward,),
    mistakes="""
    ✗ the segment vectors are missing.
      segment_ids is never used. (DeepPavlov once did this: issue 1312.) Add segment[segment_ids].
    | + segment[segment_ids] =>
    ✗ the position vectors are missing.
      without them, word order is lost. Add position[:S], with S = ids.shape[1].
    | + position[torch.arange(length)] =>
    ✗ positions start again in segment B.
      position counts through the whole input, from [CLS] to the last [SEP], without a break. It is
      the segment vector that says which sentence a token is in.
    | torch.arange(length) => _restarted(segment_ids)
    ✗ the row of position is chosen by the word, not by its place.
      position[ids] looks up which word it is once more. Row 0 belongs to the first token, row 1 to
      the next, whatever the words: position[:S], with S = ids.shape[1].
    | position[torch.arange(length)] => position[ids]
    """,
)
def right_input_sum(
    ids: Tensor, segment_ids: Tensor, token: Tensor, segment: Tensor, position: Tensor
) -> Tensor:
    """Add three vectors for each token: (B, S), (B, S) -> (B, S, H)."""
    length = ids.shape[1]
    return token[ids] + segment[segment_ids] + position[torch.arange(length)]


@Exercise.asking(
    asks="(hidden, inner) -> int, the numbers that one encoder layer learns",
    cases=lambda: [
        *((1, 1), (1, 3), (2, 3), (2, 8), (3, 5), (5, 7), (128, 512), (256, 1024)),
        *((768, 3072), (1024, 4096)),
    ],
    differ=lambda inputs, mine, right: f"Yours gives {mine:,}; it should give {right:,}.",
    tried="10 sizes, up to those of BERT-large.",
    start="one linear map from H to H numbers: H·H weights and H biases.",
    beside=(count_parameters,),
    mistakes="""
    ✗ the biases are missing.
      every linear map adds one number to each of its outputs: 4·H in attention, inner and H in the
      feed-forward part.
    | + hidden) => ) && + inner) => )
    ✗ 2·H are missing.
      one layer norm instead of two, or a scale without a shift. There is a norm after attention
      and one after the feed-forward part, and each has H scales and H shifts.
    | 2 * 2 * => 2 *
    ✗ 4·H are missing: the two layer norms are not counted.
      there is a norm after attention and one after the feed-forward part, and each has H scales
      and H shifts.
    | + 2 * 2 * hidden =>
    ✗ attention has only three maps here: its output map is missing.
      query, key, value, and a fourth that mixes what the heads found.
    | 4 * (hidden => 3 * (hidden
    """,
)
def right_layer_parameters(hidden: int, inner: int) -> int:
    """Count one encoder layer: attention, feed-forward, and a layer norm after each."""
    attention = 4 * (hidden * hidden + hidden)  # query, key, value, output
    feed_forward = (hidden * inner + inner) + (inner * hidden + hidden)
    return attention + feed_forward + 2 * 2 * hidden


# -- a test for embeddings

Embed = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor, float], Tensor]


def right_embed(
    ids: Tensor, segment_ids: Tensor, token: Tensor, segment: Tensor, position: Tensor, eps: float
) -> Tensor:
    """Add the three vectors, and normalize."""
    x = token[ids] + segment[segment_ids] + position[: ids.shape[1]]
    centered = x - x.mean(-1, keepdim=True)
    variance = (centered**2).mean(-1, keepdim=True)
    return centered / (variance + eps).sqrt()


def _by_products(
    ids: Tensor, segment_ids: Tensor, token: Tensor, segment: Tensor, position: Tensor, eps: float
) -> Tensor:
    x = F.one_hot(ids, len(token)).to(token.dtype) @ token + position[: ids.shape[1]]
    x = x + F.one_hot(segment_ids, 2).to(segment.dtype) @ segment
    return F.layer_norm(x, x.shape[-1:], eps=eps)


@TestExercise.asking(
    asks="(embed) -> bool, true if it is a right input layer. "
    "embed(ids, segment_ids, token, segment, position, eps) returns the sum of the three lookups "
    "after a layer norm without scale and shift, (B, S, H)",
    thing="input layer",
    start="two ids, three small tables, and the sum and the layer norm done by hand.",
    right=(("by looking up rows", right_embed), ("by one-hot products", _by_products)),
    refuses_all="print what you compare. Is the layer norm on your side, too, with the same eps? "
    "== between floats is too strict: use torch.allclose.",
    refuses_right="two correct ways may round differently. Compare with torch.allclose.",
    museum="""
    ✗ DeepPavlov, issue 1312: never uses the segment ids.
      change one segment id: the vector there must move.
    | segment[segment_ids] => segment[0]
    ✗ d2l-en: has no layer norm.
      the mean of every vector must be 0.
    | return centered / (variance + eps).sqrt() => return x
    ✗ codertimo/BERT-pytorch, issue 30: adds epsilon outside the root, to a standard deviation that
    is divided by H - 1.
      take three numbers per vector; the difference between H and H - 1 is large there.
    | (variance + eps).sqrt() => (x.std(-1, keepdim=True) + eps)
    ✗ tracel-ai/burn, issue 2185: adds epsilon outside the root.
      take a large epsilon, such as 0.5; at 1e-12 you cannot see where it is added.
    | (variance + eps).sqrt() => (variance.sqrt() + eps)
    ✗ codertimo/BERT-pytorch, issue 53: adds sines instead of the learned position table.
      change row 1 of position: the vector at position 1 must move.
    | position[: ids.shape[1]] => sinusoidal_positions(*position.shape)[: ids.shape[1]]
    """,
)
def right_embedding_test(embed: Embed) -> bool:
    """Say whether an input layer is right, by one example done by hand in plain loops.

    Small vectors, a large epsilon, and the same word twice: so that anything left out shows.
    """
    token = torch.tensor([[1.0, 2.0, 4.0], [3.0, 1.0, 0.0]])
    segment = torch.tensor([[0.5, 0.0, 0.0], [0.0, 2.0, 1.0]])
    position = torch.tensor([[0.0, 1.0, 0.0], [1.0, 0.0, 3.0], [2.0, 0.0, 1.0], [9.0, 9.0, 0.0]])
    ids, segment_ids, eps = torch.tensor([[0, 1, 0]]), torch.tensor([[0, 0, 1]]), 0.5
    by_hand = []
    for i in range(3):
        x = token[ids[0, i]] + segment[segment_ids[0, i]] + position[i]
        mean = sum(x) / 3
        variance = sum((number - mean) ** 2 for number in x) / 3
        by_hand.append([float((number - mean) / (variance + eps) ** 0.5) for number in x])
    answer = embed(ids, segment_ids, token, segment, position, eps)
    return torch.allclose(answer, torch.tensor([by_hand]), atol=1e-5)
