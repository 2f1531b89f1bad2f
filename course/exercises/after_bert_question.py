"""Exercises of notebook 17: from scores to the next token, and the score of an ending."""

from collections.abc import Iterator

import torch
from torch import Tensor

from bertedu.model.variants.generation import ending_score, next_token
from course.exercises.judge import Exercise, Inputs


def right_next_token(scores: Tensor, temperature: float, top_k: int) -> Tensor:
    """(V,) scores -> (V,) chances: the ``top_k`` best alone, their scores over the temperature."""
    worst = scores.topk(top_k).values[-1]
    kept = scores.masked_fill(scores < worst, -torch.inf)
    return (kept / temperature).softmax(-1)


def _token_cases() -> Iterator[Inputs]:
    generator = torch.Generator().manual_seed(17)
    yield torch.tensor([1.0, 3.0]), 2.0, 2
    yield torch.tensor([1.0, 3.0, 2.0]), 1.0, 2
    yield torch.tensor([-1.0, -3.0, -2.0]), 1.0, 1
    for size in (4, 6, 9, 20):
        for temperature, top_k in ((1.0, size), (0.5, size), (1.0, 2), (0.7, 3), (3.0, size - 1)):
            scores = torch.randperm(4 * size, generator=generator)[:size] / 4 - 2  # no two alike
            yield scores, temperature, top_k


NEXT_TOKEN = Exercise(
    asks="(scores (V,), temperature, top_k) -> (V,) chances that add up to 1",
    right=right_next_token,
    cases=_token_cases,
    tensors="your answer",
    tried="23 cases: 2 to 20 tokens, hot and cold, with one token kept, some, and all.",
    start="scores.topk(top_k).values[-1] is the lowest score that stays; softmax comes last.",
    in_place="masked_fill makes a copy; scores[…] = does not: scores = scores.clone().",
    solution=(right_next_token, next_token),
    mistakes="""
    ✗ your chances do not add up to 1: the temperature divides chances.
      it divides the scores; softmax comes after.
    | (kept / temperature).softmax(-1) => kept.softmax(-1) / temperature
    ✗ tokens beyond the top k keep a chance.
      a score of 0 is no chance of 0: exp(0) is 1. Before softmax, out means minus infinity.
    | -torch.inf => 0.0
    ✗ your chances do not add up to 1: what the others had is lost.
      cut first, then softmax, so that those who stay share out all of it.
    | (kept / temperature).softmax(-1) => (scores / temperature).softmax(-1) * (scores >= worst)
    """,
)


def right_ending_score(scores: Tensor, ids: Tensor, start: int, per_token: bool) -> Tensor:
    """(S, V) scores of a left-to-right model on ids (S,) -> log P(ids[start:] | ids[:start])."""
    chances = scores[start - 1 : -1].log_softmax(-1)  # row t predicts token t + 1
    each = chances.gather(1, ids[start:, None])[:, 0]
    return each.mean() if per_token else each.sum()


def _ending_cases() -> Iterator[Inputs]:
    generator = torch.Generator().manual_seed(18)
    yield torch.tensor([[1.0, 3.0], [2.0, 0.0]]), torch.tensor([0, 1]), 1, False
    for length, start, words in ((3, 2, 2), (3, 1, 3), (5, 3, 4), (8, 2, 6), (9, 6, 12)):
        for per_token in (False, True):
            scores = torch.randn(length, words, generator=generator).mul(20).round() / 10
            ids = torch.randint(words, (length,), generator=generator)
            yield scores, ids, start, per_token


ENDING_SCORE = Exercise(
    asks="(scores (S, V), ids (S,), start, per_token) -> log probability of ids[start:], or its "
    "mean over these tokens",
    right=right_ending_score,
    cases=_ending_cases,
    tried="11 endings of 1 to 6 tokens, whole and per token.",
    start="log_softmax makes log chances of each row. Which row predicts ids[start]?",
    solution=(right_ending_score, ending_score),
    mistakes="""
    ✗ each token is scored by its own row.
      the row of a token predicts the *next* one: rows start - 1 to S - 2, scores[start - 1 : -1].
    | scores[start - 1 : -1] => scores[start:]
    ✗ chances are added where their logarithms should be.
      the chance of two tokens is a product; logarithms make a sum of it: log_softmax.
    | log_softmax => softmax
    ✗ it is a loss: the sign is turned.
      a log probability is 0 or below, and the likelier ending has the higher one.
    | chances.gather => -chances.gather
    """,
)
