"""The exercises of notebook 17, part two: a reading order, replaced words, soft targets."""

from collections.abc import Iterator

import torch
from torch import Tensor

from bertedu.model.variants.distillation import distillation_loss
from bertedu.model.variants.electra import replaced
from bertedu.model.variants.xlnet import order_masks
from course.exercises import judge
from course.exercises.judge import Exercise, Inputs


def _orders() -> Iterator[Inputs]:
    generator = torch.Generator().manual_seed(17)
    yield (torch.tensor([1, 0]),)
    yield (torch.tensor([2, 0, 1]),)  # the first that is not its own inverse
    for length in (3, 4, 5, 6, 8):
        for _ in range(10):
            yield (torch.randperm(length, generator=generator),)


ORDER_MASK = Exercise(
    name="order_mask",
    asks="order (S,), the places as they are read -> (content, query), bool (S, S) each: may the "
    "place of this row see the word of that column?",
    right=order_masks,
    cases=_orders,
    tensors="content, query",
    differ=judge.differing("content", "query"),
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
)


def _replaced_cases() -> Iterator[Inputs]:
    generator = torch.Generator().manual_seed(18)
    yield torch.tensor([[7, 8]]), torch.tensor([[9, 9]]), torch.tensor([[True, False]])
    yield torch.tensor([[7, 8]]), torch.tensor([[7, 9]]), torch.tensor([[True, False]])  # lucky
    for rows, length in [(1, 2)] * 19 + [(1, 4)] * 40 + [(2, 6)] * 30 + [(4, 9)] * 9:
        original, other = torch.randint(5, 12, (2, rows, length), generator=generator)
        lucky = torch.rand(rows, length, generator=generator) < 0.4
        selected = torch.rand(rows, length, generator=generator) < 0.4
        yield original, torch.where(lucky, original, other), selected


REPLACED = Exercise(
    asks="(original, sampled, selected), all (B, S) -> (ids, labels): what the detector reads, and "
    "for every word whether it is another than the original",
    right=replaced,
    cases=_replaced_cases,
    tensors="ids, labels",
    differ=judge.differing("ids", "labels"),
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
)


def right_soft_targets(student: Tensor, teacher: Tensor, temperature: float) -> Tensor:
    """Return KL(teacher || student), both softened, times the temperature squared."""
    told = (teacher / temperature).softmax(-1)
    ours, theirs = ((x / temperature).log_softmax(-1) for x in (student, teacher))
    return (told * (theirs - ours)).sum(-1).mean() * temperature**2


def _soft_cases() -> Iterator[Inputs]:
    draw = judge.drawer(19)
    for rows, words in [(1, 2)] * 10 + [(2, 3)] * 20 + [(4, 5)] * 20:
        for temperature in (1.0, 2.0):
            yield 2 * draw(rows, words), 2 * draw(rows, words), temperature


SOFT_TARGETS = Exercise(
    asks="(student (n, V), teacher (n, V), temperature) -> scalar, the mean over n of "
    "KL(teacher || student) of the softened chances, times temperature squared",
    right=right_soft_targets,
    cases=_soft_cases,
    tried="100 random cases, from one place to 4, at temperatures 1 and 2.",
    start="told = (teacher / temperature).softmax(-1); then the mean of ln told - ln ours, each "
    "word weighted by told.",
    solution=(right_soft_targets, distillation_loss),
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
