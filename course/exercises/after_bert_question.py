"""Exercises of notebook 17: the next token, an ending, a reading order, replaced words, targets."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from bertedu.model.variants.distillation import distillation_loss
from bertedu.model.variants.electra import replaced
from bertedu.model.variants.generation import ending_score, next_token
from bertedu.model.variants.xlnet import order_masks
from course.exercises.judge import Exercise, Inputs, differing, drawer, read_mask, read_parts


def _token_cases() -> Iterator[Inputs]:
    generator = torch.Generator().manual_seed(17)
    yield torch.tensor([1.0, 3.0]), 2.0, 2
    yield torch.tensor([1.0, 3.0, 2.0]), 1.0, 2
    yield torch.tensor([-1.0, -3.0, -2.0]), 1.0, 1
    for size in (4, 6, 9, 20):
        for temperature, top_k in ((1.0, size), (0.5, size), (1.0, 2), (0.7, 3), (3.0, size - 1)):
            scores = torch.randperm(4 * size, generator=generator)[:size] / 4 - 2  # no two alike
            yield scores, temperature, top_k


@Exercise.asking(
    asks="(scores (V,), temperature, top_k) -> (V,) chances that add up to 1",
    cases=_token_cases,
    tensors="your answer",
    tried="23 cases: 2 to 20 tokens, hot and cold, with one token kept, some, and all.",
    start="scores.topk(top_k).values[-1] is the lowest score that stays; softmax comes last.",
    in_place="masked_fill makes a copy; scores[…] = does not: scores = scores.clone().",
    beside=(next_token,),
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
def right_next_token(scores: Tensor, temperature: float, top_k: int) -> Tensor:
    """(V,) scores -> (V,) chances: the ``top_k`` best alone, their scores over the temperature."""
    worst = scores.topk(top_k).values[-1]
    kept = scores.masked_fill(scores < worst, -torch.inf)
    return (kept / temperature).softmax(-1)


def _ending_cases() -> Iterator[Inputs]:
    generator = torch.Generator().manual_seed(18)
    yield torch.tensor([[1.0, 3.0], [2.0, 0.0]]), torch.tensor([0, 1]), 1, False
    for length, start, words in ((3, 2, 2), (3, 1, 3), (5, 3, 4), (8, 2, 6), (9, 6, 12)):
        for per_token in (False, True):
            scores = torch.randn(length, words, generator=generator).mul(20).round() / 10
            ids = torch.randint(words, (length,), generator=generator)
            yield scores, ids, start, per_token


@Exercise.asking(
    asks="(scores (S, V), ids (S,), start, per_token) -> log probability of ids[start:], or its "
    "mean over these tokens",
    cases=_ending_cases,
    tried="11 endings of 1 to 6 tokens, whole and per token.",
    start="log_softmax makes log chances of each row. Which row predicts ids[start]?",
    beside=(ending_score,),
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
def right_ending_score(scores: Tensor, ids: Tensor, start: int, per_token: bool) -> Tensor:
    """(S, V) scores of a left-to-right model on ids (S,) -> log P(ids[start:] | ids[:start])."""
    chances = scores[start - 1 : -1].log_softmax(-1)  # row t predicts token t + 1
    each = chances.gather(1, ids[start:, None])[:, 0]
    return each.mean() if per_token else each.sum()


def _orders() -> Iterator[Inputs]:
    generator = torch.Generator().manual_seed(17)
    yield (torch.tensor([1, 0]),)
    yield (torch.tensor([2, 0, 1]),)  # the first that is not its own inverse
    for length in (3, 4, 5, 6, 8):
        for _ in range(10):
            yield (torch.randperm(length, generator=generator),)


def _read_streams(answer: Any, order: Tensor) -> list[Any]:
    each = zip(read_parts(answer, "content, query"), ("content", "query"), strict=True)
    return [read_mask(part, name, 2 * order.shape) for part, name in each]


Exercise.asking(
    name="order_mask",
    asks="order (S,), the places as they are read -> (content, query), bool (S, S) each: may the "
    "place of this row see the word of that column?",
    cases=_orders,
    read=_read_streams,
    differ=differing("content", "query"),
    tried="52 orders of 2 to 8 places.",
    start="turn = order.argsort(): when is place i read? Then compare the turns of two places.",
    first_part=0,
    mistakes="""
    ✗ the query stream sees the word that it has to guess.
      its loss would fall to 0 and nothing be learned. A query sees what was read *before*: <, not
      <=.
    | turn[None, :] < turn[:, None] => turn[None, :] <= turn[:, None]
    ✗ rows and columns are swapped.
      a row is who looks, a column who is looked at: turn[None, :] <= turn[:, None].
    | turn[None, :] <= turn[:, None], turn[None, :] < turn[:, None] => turn[:, None] <=
      turn[None, :], turn[:, None] < turn[None, :]
    ✗ order[i] is taken for the turn of place i.
      order[0] is the place that is read first. When place i is read stands where order holds i:
      turn = order.argsort().
    | order.argsort() => order
    """,
)(order_masks)


def _replaced_cases() -> Iterator[Inputs]:
    generator = torch.Generator().manual_seed(18)
    yield torch.tensor([[7, 8]]), torch.tensor([[9, 9]]), torch.tensor([[True, False]])
    yield torch.tensor([[7, 8]]), torch.tensor([[7, 9]]), torch.tensor([[True, False]])  # lucky
    for rows, length in [(1, 2)] * 19 + [(1, 4)] * 40 + [(2, 6)] * 30 + [(4, 9)] * 9:
        original, other = torch.randint(5, 12, (2, rows, length), generator=generator)
        lucky = torch.rand(rows, length, generator=generator) < 0.4
        selected = torch.rand(rows, length, generator=generator) < 0.4
        yield original, torch.where(lucky, original, other), selected


Exercise.asking(
    asks="(original, sampled, selected), all (B, S) -> (ids, labels): what the detector reads, and "
    "for every word whether it is another than the original",
    cases=_replaced_cases,
    tensors="ids, labels",
    tried="100 random cases, from two words to 4 rows of 9. A sample may be the original.",
    start="ids = torch.where(selected, …, …): samples where a word was selected.",
    in_place="original[selected] = … writes into the original, and labels still need it. "
    "torch.where makes a copy.",
    mistakes="""
    ✗ a sample that happens to be the original counts as replaced.
      the detector could not know better than to be wrong there. Compare words: ids != original.
    | ids != original => selected
    ✗ the labels are turned round: true where a word is the original.
      here true means replaced: != and not ==.
    | ids != original => ids == original
    ✗ places that were not selected are called replaced.
      sampled differs from original there, too, but was not put in: compare ids with original.
    | ids != original => sampled != original
    """,
)(replaced)


def _soft_cases() -> Iterator[Inputs]:
    draw = drawer(19)
    for rows, words in [(1, 2)] * 10 + [(2, 3)] * 20 + [(4, 5)] * 20:
        for temperature in (1.0, 2.0):
            yield 2 * draw(rows, words), 2 * draw(rows, words), temperature


@Exercise.asking(
    asks="(student (n, V), teacher (n, V), temperature) -> scalar, the mean over n of "
    "KL(teacher || student) of the softened chances, times temperature squared",
    cases=_soft_cases,
    tried="100 random cases, from one place to 4, at temperatures 1 and 2.",
    start="told = (teacher / temperature).softmax(-1); then the mean of ln told - ln ours, each "
    "word weighted by told.",
    beside=(distillation_loss,),
    mistakes="""
    ✗ the divergence is turned round: KL(student || teacher).
      the teacher's chances are the weights: told * (theirs - ours).
    | told = (teacher => told = (student && theirs - ours => ours - theirs
    ✗ the square of the temperature is missing.
      at temperature T the gradients are T² times smaller; the factor brings them back.
    | * temperature**2 =>
    ✗ the mean is taken over words, too.
      sum over the words of a place, then the mean over places: .sum(-1).mean();
      F.kl_div needs reduction="batchmean".
    | .sum(-1).mean() => .mean()
    """,
)
def right_soft_targets(student: Tensor, teacher: Tensor, temperature: float) -> Tensor:
    """Return KL(teacher || student), both softened, times the temperature squared."""
    told = (teacher / temperature).softmax(-1)
    ours, theirs = ((x / temperature).log_softmax(-1) for x in (student, teacher))
    return (told * (theirs - ours)).sum(-1).mean() * temperature**2
