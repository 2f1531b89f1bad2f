"""The exercises of notebook 03: softmax, attention, all heads at once, and a test for leaks."""

from collections.abc import Callable, Iterator
from itertools import cycle, islice, product
from math import sqrt

import torch
from torch import Tensor
from torch.nn import functional as F

from bertedu.model.attention import SelfAttention, attention_weights, scaled_dot_product_attention
from bertedu.model.config import DIRECTIONS
from course.exercises.by_hand import ByHand
from course.exercises.judge import Exercise, Inputs
from course.exercises.museum import TestExercise
from course.exercises.patch import patched


def _grid(generator: torch.Generator, *shape: int) -> Tensor:
    """Multiples of one half from -2 to 2, so that a case can be worked out by hand."""
    return torch.randint(-4, 5, shape, generator=generator) / 2


def _softmax_cases() -> Iterator[Inputs]:
    """Small numbers first; then every other row, or one column, higher by 1000: no exp can."""
    generator = torch.Generator().manual_seed(12)
    for shape in ((1, 2), (2, 2), (2, 3), (3, 3), (4, 6)):
        yield from ((_grid(generator, *shape),) for _ in range(20))
    for n, m in ((1, 2), (2, 2), (3, 4)):
        high = 1000 * (torch.arange(n, 0, -1) % 2)[:, None]
        yield from ((_grid(generator, n, m) + high,) for _ in range(10))
    first = torch.tensor([1000.0, 0.0, 0.0])
    yield from ((_grid(generator, n, 3) + first,) for n in (1, 2, 3))


@ByHand.asking(
    asks="(scores (n, m)) -> weights (n, m): rows sum to 1, even for scores of 1000",
    cases=_softmax_cases,
    tried="133 random tables, 33 of them with scores near 1000.",
    start="scores.exp(), then divide each row by its sum. Then try a score of 1000.",
    without=("softm",),  # log_softmax and softmin, too
    ready_made="PyTorch's softmax did the work",
    instead="Begin with scores.exp() and divide each row by its sum.",
    in_place="scores -= … writes into the caller's table. scores = scores - … makes a new one.",
    mistakes="""
    ✗ right for small scores, but a score of 1000 breaks it.
      exp(1000) is too large for a float. Subtract the highest score of each row first: the same
      factor then appears above and below the line, and cancels.
    | - scores.amax(dim=-1, keepdim=True) =>
    ✗ the highest score of the whole table is subtracted, so low rows vanish.
      a row 1000 below the highest becomes exp(-1000), which is 0, and then 0 / 0. Each row needs
      its own: scores.amax(dim=-1, keepdim=True).
    | scores.amax(dim=-1, keepdim=True) => scores.max()
    ✗ too little is subtracted from a row: a score of 1000 beside low ones still breaks it.
      the highest stays far above the mean, or the lowest, and its exp is too large. Subtract the
      highest itself, so that no exp is above 1: scores.amax(dim=-1, keepdim=True).
    | amax => mean
    ✗ the sums of the rows are lined up with the columns: keepdim=True is missing.
      without it .sum(dim=-1) has shape (n,), which torch lays along a row: every *column* is
      divided by another row's sum, and where n is not m it does not fit. .sum(dim=-1, keepdim=True)
      has shape (n, 1), one number for each row.
    | sum(dim=-1, keepdim=True) => sum(dim=-1)
    | , keepdim=True =>
    | sum(dim=-1, keepdim=True) => sum(dim=-1) && - scores.amax(dim=-1, keepdim=True) =>
    ✗ the highest scores of the rows are lined up with the columns: keepdim=True is missing.
      without it .amax(dim=-1) has shape (n,), which torch lays along a row: every *column* loses
      another row's highest score. .amax(dim=-1, keepdim=True) has shape (n, 1).
    | amax(dim=-1, keepdim=True) => amax(dim=-1)
    ✗ columns sum to 1, rows do not.
      the sum runs over the queries (dim=0). Each query shares out one unit over the keys: dim=-1.
    | dim=-1 => dim=0
    | weights.sum(dim=-1 => weights.sum(dim=0
    | weights.sum(dim=-1 => weights.sum(dim=0 && scores.amax(dim=-1, keepdim=True) => scores.max()
    | weights.sum(dim=-1 => weights.sum(dim=0 && - scores.amax(dim=-1, keepdim=True) =>
    ✗ all rows together sum to 1: there is one sum for the whole table.
      each query has one unit of its own to share out. Sum along each row:
      .sum(dim=-1, keepdim=True).
    | sum(dim=-1, keepdim=True) => sum()
    | sum(dim=-1, keepdim=True) => sum() && - scores.amax(dim=-1, keepdim=True) =>
    ✗ the scores are divided by their sum: exp is missing.
      a score may be negative, and a weight may not. First make all of them positive: scores.exp().
    | (scores - scores.amax(dim=-1, keepdim=True)).exp() => scores
    ✗ rows do not sum to 1: the division is missing.
      exp makes the scores positive. Then divide each row by its sum.
    | / weights.sum(dim=-1, keepdim=True) =>
    | / weights.sum(dim=-1, keepdim=True) => && - scores.amax(dim=-1, keepdim=True) =>
    """,
)
def right_softmax(scores: Tensor) -> Tensor:
    """Turn each row of scores (n, m) into positive weights that sum to 1."""
    weights = (scores - scores.amax(dim=-1, keepdim=True)).exp()
    return weights / weights.sum(dim=-1, keepdim=True)


Two = tuple[Tensor, Tensor]
LOWEST = torch.finfo(torch.float32).min


def _mask(real: Tensor, direction: str, further: int = 0) -> Tensor:
    """Return the mask (S, S); ``further`` lets each word see so many of the hidden side."""
    square = torch.ones(len(real), len(real), dtype=torch.bool)
    side = {"left-to-right": square.tril(further), "right-to-left": square.triu(-further)}
    return side.get(direction, square) & real


def _attention_cases() -> Iterator[Inputs]:
    """Every query sees at least one key; padding stands where it leaves one to each."""
    generator = torch.Generator().manual_seed(13)
    kinds = cycle(product((False, True), DIRECTIONS))
    for length, size in ((2, 1), (2, 2), (3, 2), (3, 4), (5, 9)):
        for padded, direction in islice(kinds, 40):
            real = torch.ones(length, dtype=torch.bool)
            real[0 if direction == "right-to-left" else -1] = not padded
            vectors = (_grid(generator, length, size) for _ in range(3))
            yield *vectors, _mask(real, direction)


@Exercise.asking(
    asks="(query, key, value (S, d), mask (S, S)) -> (mixed (S, d), weights (S, S)). mask is bool, "
    "true where a query (row) may see a key (column)",
    cases=_attention_cases,
    tensors="mixed, weights",
    first_part=1,
    tried="200 random cases, with and without padding, in three directions.",
    start="scores = query @ key.T, divided by the square root of d; then hide, softmax, mix. Three "
    "lines are enough.",
    in_place="a method that ends in _ writes into its tensor. masked_fill makes a new one, "
    "masked_fill_ does not.",
    beside=(attention_weights, scaled_dot_product_attention),
    mistakes="""
    ✗ the scores are not scaled.
      they must be divided by the square root of d = query.shape[-1]; otherwise long vectors make
      softmax choose one key and ignore the rest.
    | / sqrt(query.shape[-1]) =>
    ✗ the mask comes after softmax, so rows with something hidden do not sum to 1.
      the hidden keys have already taken their share, and through it they still affect the others.
      Hide before softmax: scores.masked_fill(~mask, -torch.inf).
    | masked_fill(~mask, -torch.inf).softmax(dim=-1) => softmax(dim=-1) * mask
    ✗ the mask is inverted: what should be hidden is seen, and the rest is hidden.
      here True means *may see*. Fill where it is False: masked_fill(~mask, …).
    | ~mask => mask
    | ~mask, -torch.inf => mask, -1e9
    ✗ the mask is not used: every query sees every key.
      masked_fill returns a new tensor. Did you keep it?
    | .masked_fill(~mask, -torch.inf) =>
    ✗ a hidden score becomes an ordinary number, and an ordinary number still gets its share.
      scores * mask makes it 0, and e^0 is 1; scores + mask only raises the others by 1. Softmax
      gives 0 to minus infinity alone: scores.masked_fill(~mask, -torch.inf).
    | masked_fill(~mask, -torch.inf) => mul(mask)
    | masked_fill(~mask, -torch.inf) => add(mask)
    ✗ the weights are nan: what may be seen was given 0 times minus infinity.
      that product is nan, not 0. Write minus infinity only where a key is hidden:
      scores.masked_fill(~mask, -torch.inf).
    | masked_fill(~mask, -torch.inf) => add(~mask * -torch.inf)
    ✗ softmax runs over the queries (dim=0): columns of the weights sum to 1, rows do not.
      a row is one query, and it shares out one unit over the keys: softmax(dim=-1).
    | softmax(dim=-1) => softmax(dim=0)
    ✗ the scores are divided by d, not by its square root.
      a sum of d random products has the variance d, so the standard deviation √d. Divide by that:
      math.sqrt(query.shape[-1]).
    | sqrt(query.shape[-1]) => query.shape[-1]
    ✗ the weights are right, but they mix keys instead of values.
      a key is what a word can be found by; what it hands over is its value: weights @ value.
    | weights @ value => weights @ key
    """,
)
def right_attention(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Two:
    """Return softmax(Q Kᵀ / √d) V (S, d) and the weights (S, S); query may see key where true."""
    scores = query @ key.T / sqrt(query.shape[-1])
    weights = scores.masked_fill(~mask, -torch.inf).softmax(dim=-1)
    return weights @ value, weights


# (B, A, S, d); where two are equal a wrong axis keeps the shape, and only the numbers tell
HEAD_SHAPES = (
    *((1, 2, 1, 1), (1, 2, 2, 1), (1, 2, 2, 2), (1, 2, 3, 1), (1, 2, 3, 2), (1, 3, 2, 2)),
    *((2, 2, 2, 2), (2, 2, 4, 2), (2, 3, 3, 3), (2, 4, 8, 3)),
)


def _numbered(*shape: int) -> Tensor:
    """0, 1, 2, …: the result shows where each number has gone."""
    return torch.arange(torch.Size(shape).numel()).float().view(shape)


@Exercise.asking(
    asks="(x (B, S, H), heads) -> (B, A, S, d); head a holds numbers a·d to a·d + d - 1",
    cases=lambda: [(_numbered(b, s, a * d), a) for b, a, s, d in HEAD_SHAPES],
    tried="10 shapes, some with as many heads as tokens.",
    start="x.unflatten(-1, (heads, -1)), which is (B, S, A, d). Which two axes must change places?",
    beside=(SelfAttention,),
    mistakes="""
    ✗ the shape is right, but heads hold pieces of different tokens.
      view and reshape only read the numbers in order; they cannot swap axes. First cut to
      (B, S, A, d), then transpose(1, 2).
    | length, heads, size // heads).transpose(1, 2) => heads, length, size // heads)
    ✗ the heads are on the third axis: this is (B, S, A, d).
      each head works by itself, so its axis comes before that of the tokens: transpose(1, 2).
    | .transpose(1, 2) =>
    ✗ the shape is right, but a head takes every A-th number, not d numbers in a row.
      you cut H to (d, A). The heads are side by side, so A comes first:
      x.unflatten(-1, (heads, -1)), which is (B, S, A, d). Then transpose(1, 2).
    | heads, size // heads).transpose(1, 2) => size // heads, heads).permute(0, 3, 1, 2)
    """,
)
def right_split_heads(x: Tensor, heads: int) -> Tensor:
    """Cut H numbers into ``heads`` runs of d: (B, S, H) -> (B, A, S, d)."""
    rows, length, size = x.shape
    return x.reshape(rows, length, heads, size // heads).transpose(1, 2)


@Exercise.asking(
    asks="(x (B, A, S, d)) -> (B, S, H), which undoes split_heads",
    cases=lambda: [(_numbered(*shape),) for shape in HEAD_SHAPES],
    tried="10 shapes, some with as many heads as tokens.",
    start="x.transpose(1, 2), which is (B, S, A, d) again. Which two axes become one?",
    beside=(SelfAttention,),
    mistakes="""
    ✗ the shape is right, but a row holds pieces of different tokens.
      it was reshaped without being transposed back. First transpose(1, 2), then flatten(2).
    | transpose(1, 2).flatten(2) => reshape(x.shape[0], x.shape[2], -1)
    ✗ the heads are below each other, not side by side.
      there is one row per token, with the numbers of all heads: flatten the *last* two axes
      of (B, S, A, d).
    | transpose(1, 2).flatten(2) => flatten(1, 2)
    ✗ the shape is right, but the heads take turns, number by number.
      the axis of the heads came to stand behind d. Each head's d numbers stay together: bring x to
      (B, S, A, d), and flatten the last two.
    | transpose(1, 2).flatten(2) => permute(0, 2, 3, 1).flatten(2)
    """,
)
def right_join_heads(x: Tensor) -> Tensor:
    """Put the heads side by side again: (B, A, S, d) -> (B, S, H)."""
    return x.transpose(1, 2).flatten(2)


def _multi_head_cases() -> Iterator[Inputs]:
    """As many rows as heads among them, where a forgotten axis raises no error."""
    generator = torch.Generator().manual_seed(15)
    sizes = [(1, 2, 2, 1), (1, 2, 2, 2), (2, 2, 4, 2), (2, 3, 4, 2), (3, 5, 6, 3)]
    for (rows, length, size, heads), direction in product(sizes, DIRECTIONS):
        for _ in range(4):
            real = torch.rand(rows, length, generator=generator) < 0.7
            real[:, 0 if direction != "right-to-left" else -1] = True
            mask = torch.stack([_mask(row, direction) for row in real])
            w = {}
            for name in ("query", "key", "value", "output"):
                w[f"{name}.weight"] = _grid(generator, size, size)
                w[f"{name}.bias"] = _grid(generator, size)
            yield _grid(generator, rows, length, size), mask, w, heads


@Exercise.asking(
    asks="(x (B, S, H), mask (B, S, S), w, heads) -> (B, S, H). w holds query.weight (H, H), "
    "query.bias (H,) and the same for key, value and output; mask is true where a query (row) may "
    "see a key (column)",
    cases=_multi_head_cases,
    tried="60 batches of one row to three, with one head to three, padded, in three directions.",
    start='x @ w["query.weight"].T + w["query.bias"], cut into heads: (B, A, S, d). The same for '
    "key and value; then the three lines of attention, with two axes in front.",
    beside=(SelfAttention,),
    mistakes="""
    ✗ the scores are divided by the square root of H, not of d.
      each head makes its dot products of d = H / A numbers: divide by the square root of
      query.shape[-1], after the split.
    | sqrt(query.shape[-1]) => sqrt(x.shape[-1])
    ✗ the mask of one row of the batch is used for a head of another.
      scores are (B, A, S, S) and mask is (B, S, S): torch lines axes up from the right, B with A.
      Give the mask an axis for the heads: mask[:, None].
    | mask[:, None] => mask
    ✗ the output map is missing.
      the heads stand side by side, and the fourth map mixes what they found: output.weight and
      output.bias.
    | return mixed @ w["output.weight"].T + w["output.bias"] => return mixed
    ✗ the heads are joined without going back to (B, S, A, d) first.
      the result has the right shape, and rows hold pieces of different tokens:
      .transpose(1, 2).flatten(2).
    | .transpose(1, 2).flatten(2) => .reshape(x.shape)
    ✗ the mask is not used: padding is attended to.
      masked_fill returns a new tensor. Did you keep it?
    | .masked_fill(~mask[:, None], -torch.inf) =>
    ✗ the weights are used the wrong way around.
      nn.Linear keeps a weight as (out, in): multiply by .T. All four are square, so no shape tells.
    | .weight"].T => .weight"]
    | w["output.weight"].T => w["output.weight"]
    | w[f"{name}.weight"].T => w[f"{name}.weight"]
    ✗ the biases are missing.
      each of the four maps adds one: query.bias, key.bias, value.bias, output.bias.
    | + w[f"{name}.bias"] =>
    | + w["output.bias"] =>
    | + w[f"{name}.bias"] => && + w["output.bias"] =>
    """,
)
def right_multi_head(x: Tensor, mask: Tensor, w: dict[str, Tensor], heads: int) -> Tensor:
    """(B, S, H), bool (B, S, S), maps by name -> (B, S, H): all heads of all rows at once."""

    def split(name: str) -> Tensor:
        mapped = x @ w[f"{name}.weight"].T + w[f"{name}.bias"]
        return mapped.reshape(*x.shape[:2], heads, -1).transpose(1, 2)  # (B, A, S, d)

    query, key, value = split("query"), split("key"), split("value")
    scores = query @ key.transpose(-2, -1) / sqrt(query.shape[-1])  # (B, A, S, S)
    weights = scores.masked_fill(~mask[:, None], -torch.inf).softmax(dim=-1)
    mixed = (weights @ value).transpose(1, 2).flatten(2)
    return mixed @ w["output.weight"].T + w["output.bias"]


Layer = Callable[..., Two]  # (x (S, H), real (S,), direction, dropout=0.0) -> mixed, weights


def right_layer(x: Tensor, real: Tensor, direction: str, dropout: float = 0.0) -> Two:
    """Attend within x (S, H) to what is real (S,) and in that direction: mixed, weights."""
    mask = _mask(real, direction)
    scores = x @ x.T / sqrt(x.shape[-1])
    weights = scores.masked_fill(~mask, LOWEST).softmax(-1)
    return F.dropout(weights, dropout) @ x, weights


ADDED = "scores.masked_fill(~mask, LOWEST) => (scores + torch.where(mask, 0.0, LOWEST))"
# less the highest score that is seen, so that no row of what is seen sinks to 0
ANEW = (
    "scores.masked_fill(~mask, LOWEST).softmax(-1) => F.normalize((scores - "
    "scores.masked_fill(~mask, LOWEST).amax(-1, True)).clamp(max=0).exp() * mask, p=1, dim=-1)"
)


@TestExercise.asking(
    asks="(layer) -> bool, true if it is a right attention. layer(x (S, H), real (S,), direction, "
    "dropout=0.0) returns mixed (S, H), weights (S, S)",
    thing="attention",
    start='layer(x, real, "left-to-right") before and after you change the last word of x.',
    right=(
        ("as in the package", right_layer),
        ("with a mask that is added", patched(right_layer, ADDED, {})),
        (
            "with a mask after exp, and rows that are made to sum to 1",
            patched(right_layer, ANEW, {}),
        ),
    ),
    refuses_all="it returns False on every path, or it demands more than is true: a word that "
    "is changed has another query, too, so its own row always moves.",
    refuses_right="it uses == between floats, compares two runs with dropout, or asks something of "
    "the rows of padding. Use torch.allclose, with dropout at 0, and only on rows that are real.",
    beside=(_mask,),
    museum="""
    ✗ VTongTV/bert-from-scratch: builds the causal mask, then passes the plain mask on.
      change the last word: under "left-to-right" no earlier row of mixed may move.
    | real, direction) => real, "bidirectional")
    ✗ pytorchic-bert: returns the weights as dropout has left them.
      call it with dropout=0.5: every row of weights must still sum to 1.
    | F.dropout(weights, dropout) => weights && softmax(-1) => softmax(-1); weights =
      F.dropout(weights, dropout)
    ✗ many first versions: attend to padding.
      change a word whose real is False: no other row of mixed may move.
    | real, direction) => torch.ones_like(real), direction)
    ✗ a mask applied too late: multiplies by the mask after softmax.
      rows of weights must sum to 1 under a one-sided direction, too.
    | masked_fill(~mask, LOWEST).softmax(-1) => softmax(-1) * mask
    ✗ a diagonal off by one: lets each token see the next one.
      change a word: under "left-to-right" the row just before it must not move.
    | real, direction) => real, direction, further=1)
    ✗ a copied line: uses the left-to-right mask for right-to-left as well.
      under "right-to-left", change the *first* word: no later row may move.
    | real, direction) => real, direction.replace("right-to-left", "left-to-right"))
    """,
)
def right_leak_test(layer: Layer) -> bool:
    """Say whether an attention is right: who may act on whom, and what its weights sum to.

    Every word is changed in turn, under every direction. A row of the result must move if its
    word may see the changed one, and must stay if it may not.
    """
    x = torch.tensor([[1.0, 0.2], [0.1, 0.9], [0.8, 0.5], [0.3, 0.7]])
    for direction, padded, word in product(DIRECTIONS, (False, True), range(4)):
        real = torch.tensor([True, True, True, not padded])
        may_see = _mask(real, direction)
        before, _ = layer(x, real, direction)
        changed = x.clone()
        changed[word] += 1
        _, weights = layer(changed, real, direction, dropout=0.5)
        if not torch.allclose(weights.sum(-1)[real], torch.ones(int(real.sum()))):
            return False
        after, _ = layer(changed, real, direction)
        moved = (after - before).abs().amax(-1) > 1e-6
        others = real & (torch.arange(4) != word)  # a changed word has another query, too
        if (moved != may_see[:, word])[others].any():
            return False
    return True
