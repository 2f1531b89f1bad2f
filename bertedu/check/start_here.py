"""The checks of notebook 00: the likeliest words, the loss of guessing, and who may see whom."""

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from bertedu.analysis.fill import fill_blanks
from bertedu.check import exercise
from bertedu.check.exercise import Exercise, Inputs, Mistake, UnreadableError
from bertedu.model.attention import attention_mask

# -- the likeliest words


def right_top_words(logits: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return ids (k,) and probabilities (k,) of the k likeliest of V words, best first."""
    best = logits.softmax(-1).topk(k)
    return best.indices, best.values


def _top_cases() -> list[Inputs]:
    generator = torch.Generator().manual_seed(1)
    cases: list[Inputs] = []
    for count, vocab, k in ((10, 2, 1), (20, 3, 1), (30, 3, 2), (20, 5, 3), (20, 12, 5)):
        for _ in range(count):
            places = torch.randperm(6 * vocab, generator=generator)[:vocab]  # no two alike
            cases.append(((places - 2 * vocab) / 4, k))
    return cases


def _read_top(answer: Any, logits: Tensor, k: int) -> tuple[list[Any], list[Any]]:
    ids, probabilities = exercise.read_pair(answer, "ids, probabilities")
    return (
        exercise.read_tensor(ids, "ids", (k,)).float().tolist(),
        exercise.read_tensor(probabilities, "probabilities", (k,)).float().tolist(),
    )


def _top_difference(inputs: Inputs, mine: Any, right: Any) -> str:
    said = (
        f"ids {exercise.plain([int(i) if i == int(i) else i for i in ids])}, "
        f"probabilities {exercise.plain(probabilities)}"
        for ids, probabilities in (mine, right)
    )
    return "Yours gives {}; right is {}.".format(*said)


def _shares(logits: Tensor, k: int, values: Tensor) -> tuple[Tensor, Tensor]:
    """The right ids with other values (V,) than their probabilities."""
    ids = logits.topk(k).indices
    return ids, values[ids]


TOP_WORDS = Exercise(
    name="top_words",
    right=right_top_words,
    cases=_top_cases,
    read=_read_top,
    differ=_top_difference,
    first_part=0,
    tried="100 random cases, from 2 words to 12.",
    start="logits.softmax(-1): the probabilities of all words. Then the k highest.",
    source=(fill_blanks, right_top_words),
    mistakes=(
        Mistake(
            "ids and probabilities are in the wrong order.",
            ".topk gives values first, then indices. Return the indices first.",
            (lambda logits, k: right_top_words(logits, k)[::-1],),
        ),
        Mistake(
            "softmax runs over the k words only.",
            "their probabilities would sum to 1, as if the other words did not exist. First "
            "softmax over the whole vocabulary, then take the top k.",
            (
                lambda logits, k: (
                    logits.topk(k).indices,
                    logits.topk(k).values.softmax(-1),
                ),
            ),
        ),
        Mistake(
            "these are logits, not probabilities.",
            "softmax is missing: logits.softmax(-1).",
            (lambda logits, k: _shares(logits, k, logits),),
        ),
        Mistake(
            "these are log probabilities.",
            "log_softmax where softmax is wanted, or .exp() is missing.",
            (lambda logits, k: _shares(logits, k, logits.log_softmax(-1)),),
        ),
        Mistake(
            "sigmoid is used, not softmax.",
            "sigmoid judges each word by itself, so the probabilities of all words do not sum to "
            "1. Words compete: softmax.",
            (lambda logits, k: _shares(logits, k, logits.sigmoid()),),
        ),
        Mistake(
            "the exponentials are not divided by their sum.",
            "probabilities of all words sum to 1: logits.exp() / logits.exp().sum().",
            (lambda logits, k: _shares(logits, k, logits.exp()),),
        ),
        Mistake(
            "the logits are divided by their sum, without exp.",
            "logits can be negative, probabilities cannot: softmax, which is exp first.",
            (lambda logits, k: _shares(logits, k, logits / logits.sum()),),
        ),
        Mistake(
            "these are the least likely words.",
            "sorting puts the lowest first: descending=True, or largest=True in topk.",
            (
                lambda logits, k: (
                    (-logits).topk(k).indices,
                    logits.softmax(-1)[(-logits).topk(k).indices],
                ),
                lambda logits, k: tuple(
                    part.flip(0)
                    for part in (
                        (-logits).topk(k).indices,
                        logits.softmax(-1)[(-logits).topk(k).indices],
                    )
                ),
            ),
        ),
        Mistake(
            "the right words in the wrong order: the best comes last.",
            "sorted upwards. Turn both lists around, .flip(0), or sort with descending=True.",
            (lambda logits, k: tuple(part.flip(0) for part in right_top_words(logits, k)),),
        ),
        Mistake(
            "the right words, but in the order of their ids.",
            "most likely first: topk sorts by probability, a mask or a threshold does not.",
            (
                lambda logits, k: (
                    logits.topk(k).indices.sort().values,
                    logits.softmax(-1)[logits.topk(k).indices.sort().values],
                ),
            ),
        ),
    ),
)


def top_words(function: object) -> None:
    """Check ``(logits (V,), k) -> (ids (k,), probabilities (k,))``, most likely first."""
    print(exercise.judge(TOP_WORDS, function))


# -- the loss of guessing


def right_chance(vocab_size: int) -> float:
    """Return the loss of guessing evenly: -ln(1 / V) = ln V."""
    return math.log(vocab_size)


def _read_number(answer: Any, *_: Any) -> float:
    return exercise.read_number(answer)


CHANCE = Exercise(
    name="chance",
    right=right_chance,
    cases=lambda: [(size,) for size in (2, 3, 5, 10, 100, 8192, 30522)],
    read=_read_number,
    tried="7 vocabularies, from 2 words to the 30,522 of the published BERT.",
    start="the probability that an even guess gives to the right word. The loss is -ln of it.",
    source=(right_chance,),
    mistakes=(
        Mistake(
            "this is in bits: log2.",
            "the losses of this course are in nats. math.log, without a base, is the natural "
            "logarithm.",
            (lambda v: math.log2(v),),
        ),
        Mistake(
            "this is log10.",
            "math.log, without a base, is the natural logarithm.",
            (lambda v: math.log10(v),),
        ),
        Mistake(
            "this is the probability of a right guess, 1/V, not the loss.",
            "the loss is -ln of that probability.",
            (lambda v: 1 / v,),
        ),
        Mistake(
            "this is -1/V: the logarithm is missing.",
            "the loss is -ln P with P = 1/V, and that is ln V.",
            (lambda v: -1 / v,),
        ),
        Mistake(
            "the sign is wrong: a loss is not negative.",
            "ln(1/V) is negative; the loss is minus that.",
            (lambda v: -math.log(v),),
        ),
        Mistake(
            "this is the share of wrong guesses, not the loss.",
            "1 - 1/V counts mistakes. The loss is -ln P with P = 1/V.",
            (lambda v: 1 - 1 / v,),
        ),
        Mistake(
            "this is V itself: the logarithm is missing.",
            "V is the perplexity of guessing. The loss is ln V.",
            (lambda v: float(v),),
        ),
        Mistake(
            "this is -(1/V) ln(1/V): one word of the sum.",
            "the sum over V words has V such terms, and that makes ln V.",
            (lambda v: math.log(v) / v,),
        ),
    ),
)


def chance(function: object) -> None:
    """Check ``(vocab_size) -> float``, the loss of guessing evenly, in nats."""
    print(exercise.judge(CHANCE, function))


# -- who may see whom

DIRECTIONS = ("bidirectional", "left-to-right", "right-to-left")


def right_which_can_see(position: int, length: int, direction: str) -> set[int]:
    """Return the positions, from 0, that the token at ``position`` may look at."""
    if direction == "left-to-right":
        return set(range(position + 1))
    if direction == "right-to-left":
        return set(range(position, length))
    return set(range(length))


def _sight_cases() -> list[Inputs]:
    return [
        (position, length, direction)
        for length in range(1, 7)
        for position in range(length)
        for direction in DIRECTIONS
    ]


def _read_positions(answer: Any, *_: Any) -> list[int]:
    if isinstance(answer, Tensor):
        answer = answer.tolist()
    if isinstance(answer, str) or not isinstance(answer, Iterable):
        raise UnreadableError(
            f"your function returned {answer!r}; a set of positions is wanted, such as {{0, 1}}."
            if isinstance(answer, str | int | float)
            else "your function returned no set of positions; {0, 1} would be one."
        )
    found = set(answer)
    if any(isinstance(item, bool) for item in found):
        raise UnreadableError(
            "your function returned True and False; the positions themselves are wanted, "
            "such as {0, 1}."
        )
    if not all(isinstance(item, int) or hasattr(item, "__index__") for item in found):
        raise UnreadableError("your set holds something that is not a whole number.")
    return sorted(int(item) for item in found)


def _sight_difference(inputs: Inputs, mine: list[int], right: list[int]) -> str:
    said = ("{" + ", ".join(map(str, positions)) + "}" for positions in (mine, right))
    return "Yours gives {}; right is {}.".format(*said)


def _swapped(direction: str) -> str:
    other = {"left-to-right": "right-to-left", "right-to-left": "left-to-right"}
    return other.get(direction, direction)


def _one_further(position: int, length: int, direction: str) -> set[int]:
    seen = right_which_can_see(position, length, direction)
    further = {"left-to-right": position + 1, "right-to-left": position - 1}
    return seen | ({further[direction]} & set(range(length)) if direction in further else set())


WHICH_CAN_SEE = Exercise(
    name="which_can_see",
    right=right_which_can_see,
    cases=_sight_cases,
    read=_read_positions,
    differ=_sight_difference,
    tried="every position of every length up to 6, in three directions.",
    start='direction == "bidirectional": there, every token sees all of range(length).',
    source=(attention_mask, right_which_can_see),
    mistakes=(
        Mistake(
            "a token cannot see itself.",
            "a position belongs to what it may look at. It must: a first word, read from left to "
            "right, would see nothing at all.",
            (
                lambda p, n, d: right_which_can_see(p, n, d) - {p},
                lambda p, n, d: (
                    right_which_can_see(p, n, d) - (set() if d == DIRECTIONS[0] else {p})
                ),
                lambda p, n, d: (
                    right_which_can_see(p, n, d) - ({p} if d == DIRECTIONS[0] else set())
                ),
            ),
        ),
        Mistake(
            "in one of the two directions, a token cannot see itself.",
            "range(position) stops before position, and range(position + 1, length) starts after "
            "it. Each token sees itself in all three directions.",
            (
                lambda p, n, d: (
                    right_which_can_see(p, n, d) - ({p} if d == DIRECTIONS[1] else set())
                ),
                lambda p, n, d: (
                    right_which_can_see(p, n, d) - ({p} if d == DIRECTIONS[2] else set())
                ),
            ),
        ),
        Mistake(
            "left-to-right and right-to-left are swapped.",
            "reading from left to right, a token has seen what stands to its left: positions 0 to "
            "its own.",
            (lambda p, n, d: right_which_can_see(p, n, _swapped(d)),),
        ),
        Mistake(
            "one position too many: the next word can be seen.",
            "a model that sees the next word need not predict it. Left-to-right is "
            "range(position + 1), right-to-left is range(position, length).",
            (
                _one_further,
                lambda p, n, d: (
                    _one_further(p, n, d) if d == DIRECTIONS[1] else right_which_can_see(p, n, d)
                ),
                lambda p, n, d: (
                    _one_further(p, n, d) if d == DIRECTIONS[2] else right_which_can_see(p, n, d)
                ),
                lambda p, n, d: (
                    set(range(p + 2)) if d == DIRECTIONS[1] else (right_which_can_see(p, n, d))
                ),
            ),
        ),
        Mistake(
            "positions are counted from 1.",
            "they are counted from 0: the first is 0, the last is length - 1.",
            (
                lambda p, n, d: {seen + 1 for seen in right_which_can_see(p, n, d)},
                lambda p, n, d: {seen + 1 for seen in right_which_can_see(max(p - 1, 0), n, d)},
            ),
        ),
        Mistake(
            "the last position is missing.",
            "range(a, b) stops before b: range(position, length), not length - 1.",
            (
                lambda p, n, d: right_which_can_see(p, n, d) - {n - 1},
                lambda p, n, d: (
                    right_which_can_see(p, n, d) - (set() if d == DIRECTIONS[1] else {n - 1})
                ),
                lambda p, n, d: (
                    right_which_can_see(p, n, d) - ({n - 1} if d == DIRECTIONS[2] else set())
                ),
                lambda p, n, d: (
                    right_which_can_see(p, n, d) - ({n - 1} if d == DIRECTIONS[0] else set())
                ),
            ),
        ),
        Mistake(
            "every token sees everything, whatever the direction.",
            "only bidirectional does. Look at direction.",
            (lambda p, n, d: set(range(n)),),
        ),
        Mistake(
            "bidirectional sees one side only.",
            "BERT looks at both sides at once: set(range(length)).",
            (
                lambda p, n, d: right_which_can_see(p, n, DIRECTIONS[1] if d[0] == "b" else d),
                lambda p, n, d: right_which_can_see(p, n, DIRECTIONS[2] if d[0] == "b" else d),
            ),
        ),
        Mistake(
            "only the neighbors can be seen.",
            "attention has no limit of distance: left-to-right sees all the way back to 0.",
            (
                lambda p, n, d: right_which_can_see(p, n, d) & {p - 1, p, p + 1},
                lambda p, n, d: right_which_can_see(p, n, d) & {p - 1, p + 1},
            ),
        ),
    ),
)


def which_can_see(function: object) -> None:
    """Check ``(position, length, direction) -> set of positions`` that a token may look at."""
    print(exercise.judge(WHICH_CAN_SEE, function))


SOLUTIONS = tuple((e.name, e.source) for e in (TOP_WORDS, CHANCE, WHICH_CAN_SEE))
