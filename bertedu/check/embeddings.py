"""The checks of notebook 02: lookup, layer norm, the input sum, positions, segments, counting."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from bertedu.check import exercise
from bertedu.check.exercise import Exercise, Function, Inputs, Mistake, UnreadableError
from bertedu.model.config import count_parameters
from bertedu.model.embeddings import Embeddings, sinusoidal_positions
from bertedu.text.tokenization import WordPiece


def _halves(generator: torch.Generator, *shape: int) -> Tensor:
    """Draw numbers from -3 to 3 in steps of one half, none of them 0: easy to add by hand."""
    whole = torch.randint(1, 7, shape, generator=generator)
    return whole * (torch.randint(0, 2, shape, generator=generator) * 2 - 1) / 2


# -- a lookup is a product


def right_lookup(ids: Tensor, table: Tensor) -> tuple[Tensor, Tensor]:
    """Return one-hot rows (S, V) for ids (S,), and their product with the table (V, H): (S, H)."""
    one_hot = F.one_hot(ids, len(table)).to(table.dtype)
    return one_hot, one_hot @ table


def _lookup_cases() -> list[Inputs]:
    generator = torch.Generator().manual_seed(1)
    cases: list[Inputs] = []
    for count, length, vocab, size in ((10, 1, 2, 1), (20, 1, 3, 2), (30, 3, 4, 3), (20, 7, 9, 5)):
        for _ in range(count):
            ids = torch.randint(vocab, (length,), generator=generator)
            cases.append((ids, _halves(generator, vocab, size)))
    return cases


def _read_lookup(answer: Any, ids: Tensor, table: Tensor) -> tuple[list[Any], list[Any]]:
    first, second = exercise.read_pair(answer, "one_hot, vectors")
    vocab, size = table.shape
    one_hot = exercise.read_tensor(first, "one_hot", (len(ids), vocab))
    vectors = exercise.read_tensor(second, "vectors", (len(ids), size))
    return one_hot.float().tolist(), vectors.float().tolist()


def _times(one_hot: Tensor, table: Tensor) -> tuple[Tensor, Tensor]:
    return one_hot, one_hot @ table


LOOKUP = Exercise(
    name="lookup",
    right=right_lookup,
    cases=_lookup_cases,
    read=_read_lookup,
    first_part=0,
    tried="80 random tables, from 2 words to 9. The product picks the rows table[ids].",
    start="torch.zeros(len(ids), len(table)), and write a 1 into each row.",
    source=(Embeddings, right_lookup),
    mistakes=(
        Mistake(
            "one_hot and vectors are in the wrong order.",
            "return one_hot, vectors.",
            (lambda ids, table: right_lookup(ids, table)[::-1],),
        ),
        Mistake(
            "the ones stand one column too far left: ids are counted from 1.",
            "ids are counted from 0. Word 0 is the first row of the table.",
            (lambda ids, table: _times(torch.eye(len(table))[ids - 1], table),),
        ),
        Mistake(
            "the ones stand one column too far right.",
            "ids + 1, or a row of zeros too many. Word 0 is the first row of the table.",
            (
                lambda ids, table: _times(torch.eye(len(table))[ids + 1], table),
                lambda ids, table: _times(torch.eye(len(table))[(ids + 1) % len(table)], table),
            ),
        ),
        Mistake(
            "the ones stand at the positions 0, 1, 2, …, whatever the words are.",
            "a unit matrix. In row s, the 1 belongs into column ids[s].",
            (
                lambda ids, table: _times(torch.eye(len(ids), len(table)), table),
                lambda ids, table: _times(torch.eye(len(table))[: len(ids)], table),
            ),
        ),
        Mistake(
            "the id itself is written where a 1 belongs.",
            "one_hot[s, ids[s]] = 1. With the id in its place, word 7 would weigh seven times as "
            "much as word 1, and word 0 nothing.",
            (lambda ids, table: _times(right_lookup(ids, table)[0] * ids[:, None], table),),
        ),
        Mistake(
            "one_hot is only as wide as the largest id.",
            "F.one_hot(ids) guesses the number of words. Say it: F.one_hot(ids, len(table)).",
            (
                lambda ids, table: _times(F.one_hot(ids).float(), table),
                lambda ids, table: (F.one_hot(ids).float(), table[ids]),
            ),
        ),
        Mistake(
            "one_hot is transposed: a column a word of the sentence.",
            "(S, V) is wanted: one *row* for each token of the sentence, .T is too many.",
            (
                lambda ids, table: (right_lookup(ids, table)[0].T, table[ids]),
                lambda ids, table: (
                    right_lookup(ids, table)[0].T,
                    right_lookup(ids, table)[0].T @ table,
                ),
            ),
        ),
        Mistake(
            "the vectors are the first rows of the table, whatever the words are.",
            "table[:len(ids)]. Multiply: one_hot @ table.",
            (lambda ids, table: (right_lookup(ids, table)[0], table[: len(ids)]),),
        ),
        Mistake(
            "each vector is the sum of the whole sentence.",
            "a sum over the tokens somewhere. Each row of one_hot picks one vector.",
            (
                lambda ids, table: (
                    right_lookup(ids, table)[0],
                    table[ids].sum(0).expand(len(ids), -1),
                ),
            ),
        ),
    ),
)


def lookup(function: object) -> None:
    """Check ``(ids (S,), table (V, H)) -> (one_hot (S, V), vectors (S, H))``."""
    print(exercise.judge(LOOKUP, function))


# -- layer norm


def right_layer_norm(x: Tensor, scale: Tensor, shift: Tensor, eps: float) -> Tensor:
    """Normalize each row of (S, H) to mean 0 and variance 1, then scale and shift by (H,)."""
    centered = x - x.mean(-1, keepdim=True)
    variance = (centered**2).mean(-1, keepdim=True)
    return scale * centered / (variance + eps).sqrt() + shift


def _norm_cases() -> list[Inputs]:
    """Large epsilons, and rows of equal numbers, so that one sees where epsilon stands."""
    generator = torch.Generator().manual_seed(2)
    cases: list[Inputs] = []
    for count, rows, size in ((8, 1, 2), (16, 1, 3), (16, 2, 2), (20, 2, 4), (20, 5, 8)):
        for number in range(count):
            x = _halves(generator, rows, size)
            if number % 4 == 3:
                x[-1] = x[-1, 0]  # no variance at all
            scale, shift = _halves(generator, size), _halves(generator, size)
            cases.append((x, scale, shift, (1e-12, 0.5)[number % 2]))
    return cases


def _read_like_first(answer: Any, x: Tensor, *_: Any) -> list[Any]:
    read: list[Any] = exercise.read_tensor(answer, "your result", x.shape).float().tolist()
    return read


Parts = Callable[[Tensor, float], Tensor]  # (x, eps) -> normalized


def _normed(normalize: Parts) -> Function:
    """Make a layer norm that scales and shifts rightly."""
    return lambda x, scale, shift, eps: scale * normalize(x, eps) + shift


def _centered(x: Tensor, dim: int = -1) -> Tensor:
    return x - x.mean(dim, keepdim=True)


def _var(x: Tensor, correction: int = 0, dim: int = -1) -> Tensor:
    return x.var(dim, correction=correction, keepdim=True)


def _unit(x: Tensor, eps: float) -> Tensor:
    return _centered(x) / (_var(x) + eps).sqrt()


LAYER_NORM = Exercise(
    name="layer_norm",
    right=right_layer_norm,
    cases=_norm_cases,
    read=_read_like_first,
    tried="80 random inputs, from one row of 2 to 5 rows of 8; equal numbers in a row, too.",
    start="x.mean(-1, keepdim=True), the mean of each row.",
    source=(right_layer_norm,),
    mistakes=(
        Mistake(
            "epsilon is outside the root, and the variance is divided by H - 1.",
            "x.std() + eps, as in the Annotated Transformer and in codertimo/BERT-pytorch (issue "
            "30). Layer norm divides by the root of (variance + eps), with the variance divided "
            "by H.",
            (
                _normed(lambda x, eps: _centered(x) / (x.std(-1, keepdim=True) + eps)),
                lambda x, scale, shift, eps: (
                    scale * _centered(x) / (x.std(-1, keepdim=True) + eps) + shift
                ),
            ),
        ),
        Mistake(
            "epsilon is outside the root.",
            "sqrt(variance) + eps. It belongs inside: (variance + eps).sqrt().",
            (_normed(lambda x, eps: _centered(x) / (_var(x).sqrt() + eps)),),
        ),
        Mistake(
            "the variance is divided by H - 1.",
            "x.var(-1) and x.std(-1) do that by themselves, to estimate the variance of something "
            "larger. Here the row is all there is: correction=0.",
            (_normed(lambda x, eps: _centered(x) / (_var(x, 1) + eps).sqrt()),),
        ),
        Mistake(
            "epsilon is missing.",
            "a row of equal numbers has no variance, and 0 / 0 is not a number: "
            "(variance + eps).sqrt().",
            (_normed(lambda x, eps: _centered(x) / _var(x).sqrt()),),
        ),
        Mistake(
            "epsilon is missing, and the variance is divided by H - 1.",
            "x.std(-1) alone. Take (variance + eps).sqrt(), with correction=0 in the variance.",
            (_normed(lambda x, eps: _centered(x) / x.std(-1, keepdim=True)),),
        ),
        Mistake(
            "the numbers are normalized down the columns, over the tokens.",
            "dim=0. Then a token's vector would depend on its neighbors. Each row is normalized by "
            "itself: dim=-1.",
            (
                _normed(lambda x, eps: _centered(x, 0) / (_var(x, 0, 0) + eps).sqrt()),
                _normed(lambda x, eps: _centered(x, 0) / (_var(x, 1, 0) + eps).sqrt()),
            ),
        ),
        Mistake(
            "the whole table is normalized at once.",
            "x.mean() without an axis. Each row is normalized by itself: x.mean(-1, keepdim=True).",
            (
                _normed(lambda x, eps: (x - x.mean()) / (x.var(correction=0) + eps).sqrt()),
                _normed(lambda x, eps: (x - x.mean()) / (x.var() + eps).sqrt()),
            ),
        ),
        Mistake(
            "the means are subtracted along the wrong axis: keepdim is missing.",
            "x.mean(-1) is (S,), and is lined up with the columns. keepdim=True makes it (S, 1), "
            "and it is lined up with the rows.",
            (
                _normed(
                    lambda x, eps: (x - x.mean(-1)) / (x.var(-1, correction=0) + eps).sqrt(),
                ),
                _normed(
                    lambda x, eps: (
                        (x - x.mean(-1)) / (((x - x.mean(-1)) ** 2).mean(-1) + eps).sqrt()
                    ),
                ),
            ),
        ),
        Mistake(
            "scale and shift are forgotten.",
            "mean 0 and variance 1 is not the end: multiply by scale, then add shift.",
            (lambda x, scale, shift, eps: _unit(x, eps),),
        ),
        Mistake(
            "scale is forgotten.",
            "multiply by scale before shift is added.",
            (lambda x, scale, shift, eps: _unit(x, eps) + shift,),
        ),
        Mistake(
            "shift is forgotten.",
            "after scale * …, add shift.",
            (lambda x, scale, shift, eps: scale * _unit(x, eps),),
        ),
        Mistake(
            "scale and shift are swapped.",
            "multiply by scale, add shift.",
            (lambda x, scale, shift, eps: shift * _unit(x, eps) + scale,),
        ),
        Mistake(
            "shift is added before scale is multiplied.",
            "then shift is scaled, too. First scale * normalized, then + shift.",
            (lambda x, scale, shift, eps: scale * (_unit(x, eps) + shift),),
        ),
        Mistake(
            "the root is missing: this divides by the variance.",
            "divide by (variance + eps).sqrt().",
            (_normed(lambda x, eps: _centered(x) / (_var(x) + eps)),),
        ),
        Mistake(
            "the mean is not subtracted.",
            "the row must be centered first: x - x.mean(-1, keepdim=True).",
            (_normed(lambda x, eps: x / (_var(x) + eps).sqrt()),),
        ),
        Mistake(
            "the mean is not subtracted, neither above nor below: this is RMS norm.",
            "newer models do that. BERT centers the row first: x - x.mean(-1, keepdim=True).",
            (_normed(lambda x, eps: x / ((x**2).mean(-1, keepdim=True) + eps).sqrt()),),
        ),
        Mistake(
            "the row is centered, but not divided.",
            "divide by (variance + eps).sqrt().",
            (_normed(lambda x, eps: _centered(x)),),
        ),
    ),
)


def layer_norm(function: object) -> None:
    """Check ``(x (S, H), scale (H,), shift (H,), eps) -> (S, H)``."""
    print(exercise.judge(LAYER_NORM, function))


# -- which segment


def right_segment_ids(tokens: Sequence[str]) -> list[int]:
    """Return 0 up to the first [SEP] and on padding, 1 from there to the second [SEP]."""
    segments, current = [], 0
    for token in tokens:
        segments.append(0 if token == "[PAD]" else current)
        if token == "[SEP]":
            current = 1
    return segments


_WORDS = "dogs bark loudly at night and cats sleep all day".split()


def _segment_cases() -> list[Inputs]:
    cases: list[Inputs] = []
    for first in (1, 2, 4):
        for second in (0, 1, 3):
            for padding in (0, 2):
                a, b = _WORDS[:first], _WORDS[first : first + second]
                tokens = ["[CLS]", *a, "[SEP]", *([*b, "[SEP]"] if b else [])]
                cases.append((tokens + ["[PAD]"] * padding,))
    return sorted(cases, key=lambda case: len(case[0]))


def _read_segments(answer: Any, tokens: Sequence[str]) -> list[int]:
    read = exercise.read_tensor(answer, "your result", (len(tokens),))
    if read.is_floating_point() and (read != read.round()).any():
        raise UnreadableError("segment ids number the rows of a table: whole numbers are wanted.")
    segments: list[int] = read.long().tolist()
    return segments


def _before(tokens: Sequence[str]) -> list[int]:
    """Count the [SEP] to the left of each token."""
    return [list(tokens[:i]).count("[SEP]") for i in range(len(tokens))]


def _mapped(change: Callable[[str, int], int]) -> Function:
    """Make segments that are right but for a change of (token, segment)."""
    return lambda tokens: [
        change(token, segment)
        for token, segment in zip(tokens, right_segment_ids(tokens), strict=True)
    ]


SEGMENT_IDS = Exercise(
    name="segment_ids",
    right=right_segment_ids,
    cases=_segment_cases,
    read=_read_segments,
    tried="18 inputs: one sentence and two, with padding and without.",
    start="a loop over tokens, and a variable that is 0 until the first [SEP] has gone by.",
    source=(WordPiece.encode, right_segment_ids),
    mistakes=(
        Mistake(
            "the first [SEP] is counted to segment B.",
            "it ends sentence A, so it belongs to A. Write down the segment first, then switch.",
            (
                lambda tokens: [
                    0 if token == "[PAD]" else min(1, before + (token == "[SEP]"))
                    for token, before in zip(tokens, _before(tokens), strict=True)
                ],
            ),
        ),
        Mistake(
            "both [SEP] are counted to segment A.",
            "each [SEP] belongs to the sentence that it ends: the second one is 1.",
            (_mapped(lambda token, segment: 0 if token == "[SEP]" else segment),),
        ),
        Mistake(
            "there is a third segment behind the second [SEP].",
            "counting the [SEP] so far makes 2 of the padding, and the table has two rows. Padding "
            "gets 0.",
            (_before,),
        ),
        Mistake(
            "padding gets segment 1.",
            "it belongs to no sentence; by custom it gets 0.",
            (
                lambda tokens: [min(1, before) for before in _before(tokens)],
                _mapped(lambda token, segment: 1 if token == "[PAD]" else segment),
            ),
        ),
        Mistake(
            "the segments are called 1 and 2.",
            "they number the rows of a table, from 0: A is 0, B is 1.",
            (
                _mapped(lambda token, segment: segment + 1),
                _mapped(lambda token, segment: 0 if token == "[PAD]" else segment + 1),
            ),
        ),
        Mistake(
            "A and B are swapped.",
            "the first sentence is 0, the second 1.",
            (
                _mapped(lambda token, segment: 1 - segment),
                _mapped(lambda token, segment: 0 if token == "[PAD]" else 1 - segment),
            ),
        ),
        Mistake(
            "everything is segment A.",
            "the variable never becomes 1, or is set back. From the token behind the first [SEP] "
            "on, it is 1.",
            (_mapped(lambda token, segment: 0),),
        ),
        Mistake(
            "[CLS] is not counted to segment A.",
            "[CLS] opens the input, and stands in A: 0.",
            (_mapped(lambda token, segment: 1 if token == "[CLS]" else segment),),
        ),
        Mistake(
            "the segments alternate from token to token.",
            "a segment lasts until its [SEP].",
            (
                lambda tokens: [i % 2 for i in range(len(tokens))],
                _mapped(lambda token, segment: int(token == "[SEP]")),
            ),
        ),
    ),
)


def segment_ids(function: object) -> None:
    """Check ``(tokens) -> list of 0 and 1``, 0 for A and for padding, 1 for B."""
    print(exercise.judge(SEGMENT_IDS, function))


# -- the sum at the input


def right_input_sum(
    ids: Tensor, segment_ids: Tensor, token: Tensor, segment: Tensor, position: Tensor
) -> Tensor:
    """Add three vectors for each token: (B, S), (B, S) -> (B, S, H)."""
    return token[ids] + segment[segment_ids] + position[: ids.shape[1]]


def _sum_cases() -> list[Inputs]:
    generator = torch.Generator().manual_seed(3)
    cases: list[Inputs] = []
    sizes = ((10, 1, 1, 1), (20, 1, 2, 1), (20, 1, 3, 2), (20, 2, 4, 3), (10, 3, 9, 8))
    for count, rows, length, size in sizes:
        for _ in range(count):
            ids = torch.randint(4, (rows, length), generator=generator)
            first = torch.randint(1, length + 1, (rows, 1), generator=generator)
            segments = (torch.arange(length) >= first).long()
            tables = (_halves(generator, height, size) for height in (4, 2, length + 2))
            cases.append((ids, segments, *tables))
    return cases


def _read_sum(answer: Any, ids: Tensor, _: Tensor, token: Tensor, *__: Any) -> list[Any]:
    shape = (*ids.shape, token.shape[1])
    read: list[Any] = exercise.read_tensor(answer, "your result", shape).float().tolist()
    return read


def _sum_difference(inputs: Inputs, mine: Any, right: Any) -> str:
    """Point to the first token that differs."""
    ids, segments, *_ = inputs
    for row in range(len(right)):
        for place in range(len(right[row])):
            ours, theirs = right[row][place], mine[row][place]
            if not exercise.alike(theirs, ours):
                return (
                    f"Row {row}, position {place} (id {int(ids[row, place])}, segment "
                    f"{int(segments[row, place])}): yours gives {exercise.plain(theirs)}; "
                    f"right is {exercise.plain(ours)}."
                )
    return ""


def _at(places: Callable[[Tensor, Tensor], Tensor]) -> Function:
    """Make a sum that takes its position vectors from other places (ids, segment ids)."""
    return lambda ids, segments, token, segment, position: (
        token[ids] + segment[segments] + position[places(ids, segments)]
    )


def _restarted(ids: Tensor, segments: Tensor) -> Tensor:
    place = torch.arange(ids.shape[1]).expand_as(ids)
    return torch.where(segments == 1, place - (segments == 0).sum(1, keepdim=True), place)


INPUT_SUM = Exercise(
    name="input_sum",
    right=right_input_sum,
    cases=_sum_cases,
    read=_read_sum,
    differ=_sum_difference,
    tried="80 random inputs, from one token to 3 rows of 9, with one segment and two.",
    start="token[ids], which is (B, S, H): all the token vectors at once.",
    source=(Embeddings.forward, right_input_sum),
    mistakes=(
        Mistake(
            "the segment vectors are missing.",
            "segment_ids is never used. (So it was in DeepPavlov, issue 1312.) Add "
            "segment[segment_ids].",
            (lambda ids, s, token, segment, position: token[ids] + position[: ids.shape[1]],),
        ),
        Mistake(
            "the position vectors are missing.",
            "without them, word order is lost. Add position[:S], with S = ids.shape[1].",
            (lambda ids, s, token, segment, position: token[ids] + segment[s],),
        ),
        Mistake(
            "only the token vectors are there.",
            "add segment[segment_ids] and position[:S], with S = ids.shape[1].",
            (lambda ids, s, token, segment, position: token[ids],),
        ),
        Mistake(
            "the token vectors are missing.",
            "add token[ids].",
            (lambda ids, s, token, segment, position: segment[s] + position[: ids.shape[1]],),
        ),
        Mistake(
            "positions start again in segment B.",
            "position counts the whole input, [CLS] to the last [SEP], without a break. Which "
            "sentence it is, the segment vector says.",
            (_at(_restarted),),
        ),
        Mistake(
            "positions are counted from 1.",
            "[CLS] stands at position 0: position[:S], or torch.arange(S).",
            (_at(lambda ids, s: torch.arange(1, ids.shape[1] + 1)),),
        ),
        Mistake(
            "every token gets position 0.",
            "position[0], or positions that never count up: position[:S].",
            (_at(lambda ids, s: torch.zeros_like(ids)),),
        ),
        Mistake(
            "positions are counted from the end.",
            "the first token is at position 0.",
            (_at(lambda ids, s: torch.arange(ids.shape[1]).flip(0)),),
        ),
        Mistake(
            "positions count the rows of the batch.",
            "all rows begin at position 0. Count along the sequence: ids.shape[1], not "
            "ids.shape[0].",
            (_at(lambda ids, s: torch.arange(len(ids))[:, None].expand_as(ids)),),
        ),
        Mistake(
            "the position table is looked up by word.",
            "position[ids]. The row of position is where the token stands: position[:S].",
            (_at(lambda ids, s: ids),),
        ),
        Mistake(
            "the vectors are multiplied, not added.",
            "BERT adds the three: token[ids] + segment[segment_ids] + position[:S].",
            (
                lambda ids, s, token, segment, position: (
                    token[ids] * segment[s] * position[: ids.shape[1]]
                ),
                lambda ids, s, token, segment, position: (
                    token[ids] * (segment[s] + position[: ids.shape[1]])
                ),
                lambda ids, s, token, segment, position: (
                    (token[ids] + segment[s]) * position[: ids.shape[1]]
                ),
                lambda ids, s, token, segment, position: (
                    token[ids] * segment[s] + position[: ids.shape[1]]
                ),
            ),
        ),
        Mistake(
            "this is the mean of the three vectors, not their sum.",
            "leave out the division by 3.",
            (lambda *inputs: right_input_sum(*inputs) / 3,),
        ),
        Mistake(
            "the token vectors are multiplied by the root of H.",
            "the first Transformer did that (Vaswani et al., 2017, section 3.4). BERT does not.",
            (
                lambda ids, s, token, segment, position: right_input_sum(
                    ids, s, token * math.sqrt(token.shape[1]), segment, position
                ),
            ),
        ),
        Mistake(
            "every token gets the vector of segment A.",
            "segment[0]. Look it up for each token: segment[segment_ids].",
            (
                lambda ids, s, token, segment, position: right_input_sum(
                    ids, s * 0, token, segment, position
                ),
            ),
        ),
        Mistake(
            "A and B are swapped.",
            "row 0 of the segment table is for A: segment[segment_ids].",
            (
                lambda ids, s, token, segment, position: right_input_sum(
                    ids, 1 - s, token, segment, position
                ),
            ),
        ),
        Mistake(
            "the segment id itself is added, not its vector.",
            "0 and 1 are the numbers of rows: segment[segment_ids].",
            (
                lambda ids, s, token, segment, position: (
                    token[ids] + s[..., None] + position[: ids.shape[1]]
                ),
            ),
        ),
        Mistake(
            "the position itself is added, not its vector.",
            "0, 1, 2, … are the numbers of rows: position[:S].",
            (
                lambda ids, s, token, segment, position: (
                    token[ids] + segment[s] + torch.arange(ids.shape[1])[:, None]
                ),
            ),
        ),
        Mistake(
            "the layer norm has been done already.",
            "only the sum is wanted here.",
            (
                lambda *inputs: F.layer_norm(
                    right_input_sum(*inputs), inputs[2].shape[1:], eps=1e-12
                ),
                lambda *inputs: F.layer_norm(right_input_sum(*inputs), inputs[2].shape[1:]),
            ),
        ),
    ),
)


def input_sum(function: object) -> None:
    """Check ``(ids, segment_ids, token, segment, position) -> (B, S, H)``, before the norm.

    ``ids`` and ``segment_ids`` are (B, S); the tables are (V, H), (2, H) and (P, H), with P >= S.
    """
    print(exercise.judge(INPUT_SUM, function))


# -- sines and cosines


def right_sinusoids(length: int, size: int) -> Tensor:
    """Return (length, size): sine and cosine side by side, one pair for each of size/2 rates."""
    return sinusoidal_positions(length, size)


def _waves(
    length: int,
    size: int,
    exponents: Tensor | None = None,
    base: float = 10000,
    first: int = 0,
    unit: float = 1,
) -> Tensor:
    """Angles (length, size/2), with rates base ** -exponent and positions from ``first`` on."""
    exponents = torch.arange(0, size, 2) / size if exponents is None else exponents
    return torch.arange(first, first + length)[:, None] * base**-exponents * unit


def _side_by_side(angle: Tensor) -> Tensor:
    return torch.stack([angle.sin(), angle.cos()], -1).flatten(1)


def _column_by_column(length: int, size: int) -> Tensor:
    """Give each column a rate of its own."""
    angle = _waves(length, size, torch.arange(size) / size)
    return torch.where(torch.arange(size) % 2 == 0, angle.sin(), angle.cos())


def _to_the_end(length: int, size: int) -> Tensor:
    """Tensor2tensor's rates: from 1 to exactly 1/10000."""
    return _waves(length, size, torch.arange(size // 2) / max(size // 2 - 1, 1))


SINUSOIDS = Exercise(
    name="sinusoids",
    right=right_sinusoids,
    cases=lambda: [(1, 2), (2, 2), (2, 4), (3, 4), (4, 4), (4, 6), (8, 8), (12, 8), (6, 12)],
    read=lambda answer, length, size: (
        exercise.read_tensor(answer, "your table", (length, size)).float().tolist()
    ),
    tried="9 tables, up to 12 positions and 12 columns.",
    start="torch.zeros(length, size), and two loops: over positions p, over even columns 2k.",
    source=(sinusoidal_positions,),
    mistakes=(
        Mistake(
            "there are only sines.",
            "odd columns hold the cosine of the same angle.",
            (
                lambda n, h: _waves(n, h).sin().repeat_interleave(2, 1),
                lambda n, h: _waves(n, h, torch.arange(h) / h).sin(),
                lambda n, h: _side_by_side(_waves(n, h)) * (torch.arange(h) % 2 == 0),
            ),
        ),
        Mistake(
            "there are only cosines.",
            "even columns hold the sine of the same angle.",
            (
                lambda n, h: _waves(n, h).cos().repeat_interleave(2, 1),
                lambda n, h: _waves(n, h, torch.arange(h) / h).cos(),
                lambda n, h: _side_by_side(_waves(n, h)) * (torch.arange(h) % 2 == 1),
            ),
        ),
        Mistake(
            "sine and cosine are swapped.",
            "even columns are sines, odd ones cosines. At position 0, a row is 0, 1, 0, 1, …",
            (lambda n, h: torch.stack([_waves(n, h).cos(), _waves(n, h).sin()], -1).flatten(1),),
        ),
        Mistake(
            "all sines come first, then all cosines.",
            "torch.cat instead of torch.stack. Both orders exist: tensor2tensor and fairseq "
            "concatenate, the paper (Vaswani et al., 2017, section 3.5) and we interleave. To a "
            "model it is all the same, for it learns which column is which; to a comparison not.",
            (lambda n, h: torch.cat([_waves(n, h).sin(), _waves(n, h).cos()], 1),),
        ),
        Mistake(
            "the angles are in degrees.",
            "torch.sin takes radians, and so does the formula: no radians(), no factor 180/π.",
            (
                lambda n, h: _side_by_side(_waves(n, h, unit=math.pi / 180)),
                lambda n, h: _side_by_side(_waves(n, h, unit=180 / math.pi)),
            ),
        ),
        Mistake(
            "each column has a rate of its own.",
            "a sine and its cosine share the angle: columns 2k and 2k + 1 both use 2k / H.",
            (_column_by_column,),
        ),
        Mistake(
            "the rates fall half as fast as they should: the exponent is k / H.",
            "for pair k it is 2k / H, so that the last one comes close to 1. (A base of 100 does "
            "the same: it is 10,000.)",
            (lambda n, h: _side_by_side(_waves(n, h, torch.arange(h // 2) / h)),),
        ),
        Mistake(
            "the rates fall twice as fast as they should: the exponent is 4k / H.",
            "columns are counted in twos already, 0, 2, 4, …: do not double them again.",
            (lambda n, h: _side_by_side(_waves(n, h, 2 * torch.arange(0, h, 2) / h)),),
        ),
        Mistake(
            "the rates grow from pair to pair.",
            "the sign of the exponent: position / 10000 ** (2k / H).",
            (lambda n, h: _side_by_side(_waves(n, h, -torch.arange(0, h, 2) / h)),),
        ),
        Mistake(
            "the slowest rate is exactly 1/10000.",
            "a division by size - 1 or pairs - 1, as in tensor2tensor. Ours is 2k / H, which stops "
            "one step before.",
            (
                lambda n, h: _side_by_side(_to_the_end(n, h)),
                lambda n, h: torch.cat([_to_the_end(n, h).sin(), _to_the_end(n, h).cos()], 1),
            ),
        ),
        Mistake(
            "all columns turn equally fast.",
            "the exponent is always 0. It is 2k / H for pair k.",
            (lambda n, h: _side_by_side(_waves(n, h, torch.zeros(h // 2))),),
        ),
        *(
            Mistake(
                f"the base is {base:,}.",
                "it is 10,000.",
                (lambda n, h, base=base: _side_by_side(_waves(n, h, base=base)),),
            )
            for base in (1000, 100_000)
        ),
        Mistake(
            "positions are counted from 1.",
            "the first row is position 0: 0, 1, 0, 1, …",
            (lambda n, h: _side_by_side(_waves(n, h, first=1)),),
        ),
        Mistake(
            "the table is transposed.",
            "one row a position, (length, size).",
            (lambda n, h: right_sinusoids(n, h).T,),
        ),
    ),
)


def sinusoids(function: object) -> None:
    """Check ``(length, size) -> (length, size)`` for an even size, sine and cosine in turn."""
    print(exercise.judge(SINUSOIDS, function))


# -- counting


def right_layer_parameters(hidden: int, inner: int) -> int:
    """Count one encoder layer: attention, feed-forward, and a layer norm behind each."""
    attention = 4 * (hidden * hidden + hidden)  # query, key, value, output
    feed_forward = (hidden * inner + inner) + (inner * hidden + hidden)
    return attention + feed_forward + 2 * 2 * hidden


def _read_count(answer: Any, *_: Any) -> int:
    number = exercise.read_number(answer)
    if number != int(number):
        raise UnreadableError(f"your function returned {number:g}; a whole number is wanted.")
    return int(number)


def _more(change: Callable[[int, int], int]) -> Function:
    """Make a count that is off by (H, inner) -> so many."""
    return lambda h, i: right_layer_parameters(h, i) + change(h, i)


LAYER_PARAMETERS = Exercise(
    name="layer_parameters",
    right=right_layer_parameters,
    cases=lambda: [
        *((1, 1), (1, 3), (2, 3), (2, 8), (3, 5), (5, 7), (128, 512), (256, 1024)),
        *((768, 3072), (1024, 4096)),
    ],
    read=_read_count,
    differ=lambda inputs, mine, right: f"Yours gives {mine:,}; right is {right:,}.",
    tried="10 sizes, up to those of BERT-large.",
    start="one linear map from H to H numbers: H·H weights and H biases.",
    source=(count_parameters, right_layer_parameters),
    mistakes=(
        Mistake(
            "the biases are forgotten.",
            "every linear map adds one number to each of its outputs: 4·H in attention, inner and "
            "H in the feed-forward part.",
            (
                _more(lambda h, i: -5 * h - i),
                _more(lambda h, i: -7 * h - i),  # and the shifts of the norms, which are biases
            ),
        ),
        Mistake(
            "the biases of the feed-forward part are forgotten.",
            "inner after the first map, H after the second.",
            (_more(lambda h, i: -h - i),),
        ),
        Mistake(
            "2·H are missing.",
            "one layer norm instead of two, or a scale without a shift. There is a norm behind "
            "attention and one behind the feed-forward part, and each has H scales and H shifts.",
            (_more(lambda h, i: -2 * h),),
        ),
        Mistake(
            "4·H are missing.",
            "both layer norms (each has H scales and H shifts), or the four biases of attention "
            "(query, key, value and output have H each).",
            (_more(lambda h, i: -4 * h),),
        ),
        Mistake(
            "the biases and the layer norms are forgotten.",
            "only the matrices are counted. Biases: 5·H + inner. Two norms: 4·H.",
            (_more(lambda h, i: -9 * h - i),),
        ),
        Mistake(
            "the feed-forward part is counted once.",
            "it is two maps: from H to inner, and back from inner to H.",
            (
                _more(lambda h, i: -(i * h + h)),
                _more(lambda h, i: -(h * i + i)),
                _more(lambda h, i: -h * i),
            ),
        ),
        Mistake(
            "the feed-forward part is forgotten.",
            "two maps, from H to inner and back, each with its biases.",
            (_more(lambda h, i: -(2 * h * i + h + i)),),
        ),
        Mistake(
            "attention has three maps: its output is forgotten.",
            "query, key, value, and a fourth that mixes what the heads found.",
            (_more(lambda h, i: -(h * h + h)), _more(lambda h, i: -h * h)),
        ),
        Mistake(
            "attention is counted as one map.",
            "query, key, value and output are four.",
            (_more(lambda h, i: -3 * (h * h + h)),),
        ),
        Mistake(
            "attention is forgotten.",
            "four maps from H to H: query, key, value, output.",
            (_more(lambda h, i: -4 * (h * h + h)),),
        ),
        Mistake(
            "there is one norm too many.",
            "a layer has two. (The one of the embeddings is counted with them.)",
            (_more(lambda h, i: 2 * h),),
        ),
        Mistake(
            "the biases of the feed-forward part have the sizes of its inputs.",
            "a bias belongs to an output: inner after the first map, H after the second. Only "
            "their sum is right if both are wrong.",
            (_more(lambda h, i: h - i), _more(lambda h, i: i - h)),
        ),
        Mistake(
            "this is the count of 12 layers.",
            "one layer is wanted; base has 12 of them, large 24.",
            (lambda h, i: 12 * right_layer_parameters(h, i),),
        ),
        Mistake(
            "inner is not used: 4·H stands in its place.",
            "in BERT it is always 4·H, but the function is told: use inner.",
            (lambda h, i: right_layer_parameters(h, 4 * h),),
        ),
    ),
)


def layer_parameters(function: object) -> None:
    """Check ``(hidden, inner) -> int``, the numbers that one encoder layer learns."""
    print(exercise.judge(LAYER_PARAMETERS, function))


# -- a test for embeddings

Embed = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor, float], Tensor]


@dataclass(frozen=True, repr=False)
class Exhibit:
    """An input layer, right or out of the bug museum; ``bug`` is empty for a right one."""

    seen: str
    bug: str
    embed: Embed
    try_this: str = ""

    def __call__(self, *inputs: Any) -> Tensor:
        """Do what the exhibit does."""
        return self.embed(*inputs)

    def __repr__(self) -> str:
        """Say where it was seen, not where it lies in memory."""
        return f"<{self.seen}>"


def _plain_norm(x: Tensor, eps: float) -> Tensor:
    return F.layer_norm(x, x.shape[-1:], eps=eps)


def _embed(
    ids: Tensor, segment_ids: Tensor, token: Tensor, segment: Tensor, position: Tensor, eps: float
) -> Tensor:
    return _plain_norm(right_input_sum(ids, segment_ids, token, segment, position), eps)


def _by_products(
    ids: Tensor, segment_ids: Tensor, token: Tensor, segment: Tensor, position: Tensor, eps: float
) -> Tensor:
    x = F.one_hot(ids, len(token)).to(token.dtype) @ token + position[: ids.shape[1]]
    x = x + F.one_hot(segment_ids, 2).to(segment.dtype) @ segment
    x = x - x.mean(-1, keepdim=True)
    return x * ((x * x).mean(-1, keepdim=True) + eps).rsqrt()


def _segments_ignored(
    ids: Tensor, segment_ids: Tensor, token: Tensor, segment: Tensor, position: Tensor, eps: float
) -> Tensor:
    return _embed(ids, segment_ids * 0, token, segment, position, eps)


def _norming(norm: Callable[[Tensor, float], Tensor]) -> Embed:
    """Make an input layer with the right sum, and another norm."""
    return lambda ids, segment_ids, token, segment, position, eps: norm(
        right_input_sum(ids, segment_ids, token, segment, position), eps
    )


def _sines_added(
    ids: Tensor, segment_ids: Tensor, token: Tensor, segment: Tensor, position: Tensor, eps: float
) -> Tensor:
    waves = sinusoidal_positions(len(position), position.shape[1]).to(position.dtype)
    return _embed(ids, segment_ids, token, segment, waves, eps)


def _restarting(
    ids: Tensor, segment_ids: Tensor, token: Tensor, segment: Tensor, position: Tensor, eps: float
) -> Tensor:
    x = token[ids] + segment[segment_ids] + position[_restarted(ids, segment_ids)]
    return _plain_norm(x, eps)


MUSEUM = (
    Exhibit("right, by looking up rows", "", _embed),
    Exhibit("right, by one-hot products", "", _by_products),
    Exhibit(
        "DeepPavlov, issue 1312",
        "never uses the segment ids",
        _segments_ignored,
        "change one segment id: the vector there must move.",
    ),
    Exhibit(
        "d2l-en",
        "has no layer norm",
        _norming(lambda x, eps: x),
        "the mean of every vector must be 0.",
    ),
    Exhibit(
        "codertimo/BERT-pytorch, issue 30",
        "adds epsilon outside the root, to a standard deviation that is divided by H - 1",
        _norming(lambda x, eps: _centered(x) / (x.std(-1, keepdim=True) + eps)),
        "take three numbers a vector; the difference between H and H - 1 is large there.",
    ),
    Exhibit(
        "tracel-ai/burn, issue 2185",
        "adds epsilon outside the root",
        _norming(lambda x, eps: _centered(x) / (_var(x).sqrt() + eps)),
        "take a large epsilon, such as 0.5; at 1e-12 nobody can see where it stands.",
    ),
    Exhibit(
        "codertimo/BERT-pytorch, issue 53",
        "adds sines instead of the position table that is to be learned",
        _sines_added,
        "change row 1 of position: the vector at position 1 must move.",
    ),
    Exhibit(
        "many a first version",
        "lets positions start again in segment B",
        _restarting,
        "put the same word into A and B; their positions must differ.",
    ),
)


def right_embedding_test(embed: Embed) -> bool:
    """Say whether an input layer is right, by one example done by hand in plain loops.

    Small vectors, a large epsilon, and the same word twice: whatever is left out shows.
    """
    token = torch.tensor([[1.0, 2.0, 4.0], [3.0, 1.0, 0.0]])
    segment = torch.tensor([[0.5, 0.0, 0.0], [0.0, 2.0, 1.0]])
    position = torch.tensor([[0.0, 1.0, 0.0], [1.0, 0.0, 3.0], [2.0, 0.0, 1.0], [9.0, 9.0, 0.0]])
    ids, segment_ids, eps = torch.tensor([[0, 1, 0]]), torch.tensor([[0, 0, 1]]), 0.5
    by_hand = []
    for place in range(3):
        x = token[ids[0, place]] + segment[segment_ids[0, place]] + position[place]
        mean = sum(x) / 3
        variance = sum((number - mean) ** 2 for number in x) / 3
        by_hand.append([float((number - mean) / (variance + eps) ** 0.5) for number in x])
    answer = embed(ids, segment_ids, token, segment, position, eps)
    return torch.allclose(answer, torch.tensor([by_hand]), atol=1e-5)


def _test_difference(inputs: Inputs, mine: bool, right: bool) -> str:
    exhibit = inputs[0]
    if right:
        return "Yours rejects it. Compare with torch.allclose: two right ways may round otherwise."
    return f"Yours accepts it, but it {exhibit.bug}. Try: {exhibit.try_this}"


def _noticing(*bugs: str) -> Function:
    """Make a test that rejects only exhibits whose bug is described with one of these words."""
    return lambda embed: not any(bug in embed.bug for bug in bugs)


EMBEDDING_TEST = Exercise(
    name="embedding_test",
    right=right_embedding_test,
    cases=lambda: [(exhibit,) for exhibit in MUSEUM],
    read=lambda answer, *_: exercise.read_bool(answer),
    differ=_test_difference,
    tried=f"{sum(not e.bug for e in MUSEUM)} right input layers accepted, "
    f"{sum(bool(e.bug) for e in MUSEUM)} published mistakes rejected.",
    start="two ids, three small tables, and the sum and the layer norm done by hand.",
    source=(right_embedding_test,),
    mistakes=(
        Mistake(
            "your test accepts everything.",
            "a test of shapes? All of these have the right shape. Compare numbers, or change an "
            "input that must matter.",
            (lambda embed: True,),
        ),
        Mistake(
            "your test rejects everything, right ones too.",
            "print what you compare. Is the layer norm on your side, too, with the same eps?",
            (lambda embed: False,),
        ),
        Mistake(
            "your test is upside down.",
            "True is for a right one.",
            (lambda embed: not right_embedding_test(embed),),
        ),
        Mistake(
            "your test notices missing segments, and nothing else.",
            "a good beginning. Compare every number with a sum and a layer norm by hand.",
            (_noticing("segment ids"),),
        ),
        Mistake(
            "your test does not notice where epsilon stands.",
            "at eps = 1e-12 nobody can. You choose eps: take 0.5.",
            (
                _noticing("segment ids", "no layer norm", "H - 1", "sines", "start again"),
                _noticing("segment ids", "no layer norm", "sines", "start again"),
            ),
        ),
        Mistake(
            "your test compares the norm, but not the positions.",
            "use at least three positions, two segments, and a position table of your own.",
            (_noticing("segment ids", "no layer norm", "epsilon"),),
        ),
    ),
)


def embedding_test(function: object) -> None:
    """Check a learner's test: ``(embed) -> bool``, true if it is a right input layer.

    ``embed(ids, segment_ids, token, segment, position, eps)`` returns the sum of the three
    lookups after a layer norm without scale and shift, (B, S, H).
    """
    print(exercise.judge(EMBEDDING_TEST, function))


SOLUTIONS: tuple[tuple[str, tuple[Any, ...]], ...] = tuple(
    (e.name, e.source)
    for e in (
        LOOKUP,
        LAYER_NORM,
        SEGMENT_IDS,
        INPUT_SUM,
        SINUSOIDS,
        LAYER_PARAMETERS,
        EMBEDDING_TEST,
    )
)
