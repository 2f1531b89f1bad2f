"""The exercises of notebook 00: the most likely words, and the loss of guessing."""

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from bertedu.analysis.fill import fill_blanks
from course.exercises.judge import Exercise, Inputs


def _top_cases() -> Iterator[Inputs]:
    generator = torch.Generator().manual_seed(1)
    sizes = [(2, 1)] * 10 + [(3, 1)] * 20 + [(3, 2)] * 30 + [(5, 3)] * 20 + [(12, 5)] * 20
    for vocab, k in sizes:
        scores = torch.randperm(6 * vocab, generator=generator)[:vocab]  # no two alike
        yield (scores - 2 * vocab) / 4, k


@Exercise.asking(
    asks="(logits (V,), k) -> (ids (k,), probabilities (k,)), most likely first",
    cases=_top_cases,
    tensors="ids, probabilities",
    tried="100 random cases, from 2 words to 12.",
    start="logits.softmax(-1): the probabilities of all words. Then the k highest.",
    beside=(fill_blanks,),
    mistakes="""
    ✗ ids and probabilities are in the wrong order.
      .topk gives values first, then indices. Return the indices first.
    | return ids, logits.softmax(-1)[ids] => return logits.softmax(-1)[ids], ids
    ✗ softmax runs over the k words only.
      their probabilities would sum to 1, as if the other words did not exist. First softmax over
      the whole vocabulary, then take the top k.
    | logits.softmax(-1)[ids] => logits[ids].softmax(-1)
    ✗ these are logits, not probabilities.
      softmax is missing: logits.softmax(-1).
    | .softmax(-1) =>
    """,
)
def right_top_words(logits: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return ids (k,) and probabilities (k,) of the k most likely of V words, best first."""
    ids = logits.topk(k).indices
    return ids, logits.softmax(-1)[ids]


@Exercise.asking(
    asks="(vocab_size) -> float, the loss of guessing evenly, in nats",
    cases=lambda: [(size,) for size in (2, 3, 5, 10, 100, 8192, 30522)],
    tried="7 vocabularies, from 2 words to the 30,522 of the published BERT.",
    start="the probability that an even guess gives the right word. The loss is -ln of it.",
    mistakes="""
    ✗ this is in bits: log2.
      the losses of this course are in nats. math.log, without a base, is the natural logarithm.
    | math.log => math.log2
    ✗ this is the probability of a right guess, 1/V, not the loss.
      the loss is -ln of that probability.
    | math.log(vocab_size) => 1 / vocab_size
    ✗ the sign is wrong: a loss is not negative.
      ln(1/V) is negative; the loss is minus that.
    | math.log(vocab_size) => math.log(1 / vocab_size)
    """,
)
def right_chance(vocab_size: int) -> float:
    """Return the loss of guessing evenly: -ln(1 / V) = ln V."""
    return math.log(vocab_size)
