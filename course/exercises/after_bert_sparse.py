"""The exercises of notebook 18, second part: the mask of BigBird, and rotary positions."""

from collections.abc import Iterator

import torch
from torch import Tensor

from bertedu.model.variants.bigbird import sparse_mask
from bertedu.model.variants.rotary import rotate
from course.exercises.judge import Exercise, Inputs, UnreadableError, drawer, read_tensor


def right_window_mask(length: int, window: int, global_tokens: int, drawn: Tensor) -> Tensor:
    """Numbers, and random keys (S, r) -> bool (S, S), true where a row may see a column."""
    place = torch.arange(length)
    mask = (place[:, None] - place).abs() <= window
    mask[:global_tokens] = True
    mask[:, :global_tokens] = True
    mask[place[:, None], drawn] = True
    return mask


def _mask_cases() -> Iterator[Inputs]:
    generator = torch.Generator().manual_seed(183)
    for length in (3, 4, 6, 9):
        for window, global_tokens, drawn in ((0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1), (2, 2, 2)):
            keys = torch.randint(length, (length, drawn), generator=generator)
            yield length, window, global_tokens, keys


def _read_mask(answer: object, length: int, *_: object) -> list[list[bool]]:
    mask = read_tensor(answer, "your mask", (length, length))
    if mask.dtype != torch.bool:
        raise UnreadableError(f"your mask is {mask.dtype}; a mask holds True and False.")
    rows: list[list[bool]] = mask.tolist()
    return rows


def _tell_mask(_: Inputs, mine: list[list[bool]], right: list[list[bool]]) -> str:
    pairs = ((i, j) for i in range(len(right)) for j in range(len(right)))
    for i, j in pairs:
        if mine[i][j] != right[i][j]:
            return f"Row {i}, column {j} is {mine[i][j]}: may {i} see {j}? {right[i][j]}."
    return "Yours is right here, but drawn comes back changed."  # asked only if one differs


WINDOW_MASK = Exercise(
    asks="(length S, window, global_tokens, drawn (S, r)) -> bool (S, S): [i, j], may i see j? "
    "window neighbors on each side, itself, the first global_tokens, and its drawn keys",
    right=right_window_mask,
    cases=_mask_cases,
    read=_read_mask,
    differ=_tell_mask,
    tried="20 masks: windows, global tokens and random keys, alone and together.",
    start="place = torch.arange(length); (place[:, None] - place).abs() says how far apart row and "
    "column stand.",
    solution=(right_window_mask, sparse_mask),
    mistakes="""
    ✗ each token sees all that follows it.
      place[:, None] - place is negative for what follows: .abs() before you compare.
    | .abs() <=  => <=
    ✗ global tokens see all, but nobody sees them.
      a row is who sees, a column is who is seen. Global tokens are both: mask[:, :global_tokens].
    | mask[:, :global_tokens] = True => pass
    ✗ the random keys of one token are given to all.
      mask[:, drawn] fills whole columns. Each row has keys of its own: mask[place[:, None], drawn].
    | mask[place[:, None], drawn] => mask[:, drawn]
    """,
)


def _rotate_cases() -> Iterator[Inputs]:
    draw = drawer(184)
    for length, size in ((1, 2), (2, 2), (3, 2), (2, 4), (3, 4), (5, 4), (4, 8), (9, 16)):
        yield (draw(length, size),)
        yield (draw(1, size).expand(length, size).clone(),)  # the same vector at every place


ROTATE = Exercise(
    asks="x (S, d), a vector for each place -> (S, d): numbers 2k and 2k + 1 of place m are turned "
    "by the angle m * 10000 ** (-2k / d)",
    right=rotate,
    cases=_rotate_cases,
    tensors="your result",
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
)
