"""The exercises of notebook 06: one pair, the loss, the number to beat, ranking, two tests."""

import random
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain, pairwise

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from bertedu.pretraining.next_sentence import IS_NEXT, NOT_NEXT, EncodedDocument, make_pairs
from bertedu.pretraining.objective import pretraining_loss
from course.exercises.judge import Exercise, Inputs, anything_moved, parts, read_whole, read_wholes
from course.exercises.museum import TestExercise

Sentences = list[list[int]]


def _pair_cases() -> Iterator[Inputs]:
    rng = random.Random(9)
    for fewest, most in [(2, 2)] * 20 + [(3, 3)] * 40 + [(4, 7)] * 60:
        ids = iter(range(5, 100))  # no id twice, so that each shows where it came from
        sizes = rng.choices((1, 2, 3), k=rng.randint(fewest, most))
        sentences = [[next(ids) for _ in range(size)] for size in sizes]
        start, split, end = sorted(rng.sample(range(len(sizes) + 1), 3))
        other = [next(ids) for _ in range(rng.randint(1, 2))]
        coin = rng.choice((5, 20, 40, 60, 80, 95)) / 100
        yield sentences, start, split, end, other, coin


@Exercise.asking(
    moved=anything_moved,
    asks="(sentences, start, split, end, other, coin) -> (a, b, label, go_on)",
    cases=_pair_cases,
    read=parts(
        "a, b, label, go_on",
        partial(read_wholes, things="ids for a", thing="an id of a"),
        partial(read_wholes, things="ids for b", thing="an id of b"),
        partial(read_whole, name="label", wanted="0 (IsNext) or 1 (NotNext)"),
        partial(read_whole, name="go_on", wanted="the number of a sentence"),
    ),
    first_part=0,
    in_place="its next user gets more. Begin with an empty list, a = [], and add to that.",
    tried="120 random cases, from 2 sentences to 7; spans of one sentence and of several.",
    start="A, which is sentences[start:split] joined; then an if for coin < 0.5.",
    beside=(make_pairs,),
    mistakes="""
    ✗ the labels are swapped.
      IsNext is 0 and NotNext is 1, in the order of the paper's classifier.
    | b, IS_NEXT => b, NOT_NEXT && other, NOT_NEXT => other, IS_NEXT
    ✗ the walk always goes on at end, so displaced sentences are lost.
      if B is other, sentences[split:end] have not been used: go on at split.
    | NOT_NEXT, split => NOT_NEXT, end
    ✗ A is one sentence too long.
      a slice leaves its end out: sentences[start:split], without + 1.
    | start:split] => start:split + 1]
    """,
)
def right_pair(
    sentences: Sentences, start: int, split: int, end: int, other: list[int], coin: float
) -> tuple[list[int], list[int], int, int]:
    """Return A, B, the label and the sentence at which the walk goes on."""
    a = list(chain(*sentences[start:split]))
    b = list(chain(*sentences[split:end]))
    if coin < 0.5:
        return a, b, IS_NEXT, end
    return a, other, NOT_NEXT, split


Loss = Callable[[Tensor, Tensor], Tensor]


def _nsp_cases() -> Iterator[Inputs]:
    generator = torch.Generator().manual_seed(10)
    for size in [1] * 20 + [2] * 40 + [3] * 40 + [8] * 20:
        scores = torch.randn(size, 2, generator=generator).mul(20).round() / 10
        yield scores, torch.randint(2, (size,), generator=generator)


@Exercise.asking(
    asks="(scores (B, 2), labels (B,)) -> scalar, the mean cross-entropy; label 0 is IsNext",
    cases=_nsp_cases,
    tried="120 random cases, from one pair to 8; batches of one label, too.",
    start="scores.log_softmax(dim=-1), two numbers per pair; then the label's, and their mean.",
    beside=(pretraining_loss,),
    mistakes="""
    ✗ real pairs are not counted.
      ignore_index=0 belongs to MLM, where 0 is [PAD]; here it is IsNext. With one loss for both
      tasks codertimo/BERT-pytorch never scored its label 0: the loss fell fast, the accuracy stayed
      at 50 % (issue 32).
    | -log_probabilities[torch.arange(len(labels)), labels].mean() =>
      F.nll_loss(log_probabilities, labels, ignore_index=0)
    ✗ the labels do not pick one score for each pair.
      [:, labels] takes these columns of every pair, [labels] takes whole rows. Pair by pair:
      log_probabilities[torch.arange(len(labels)), labels].
    | torch.arange(len(labels)), labels] => :, labels]
    ✗ the logarithm is missing.
      this is a mean of probabilities. The loss is the mean of -ln P(label).
    | log_softmax => softmax
    ✗ softmax is applied twice.
      F.cross_entropy applies softmax itself: give it the scores as they are.
    | scores.log => scores.softmax(-1).log
    """,
)
def right_nsp_loss(scores: Tensor, labels: Tensor) -> Tensor:
    """Mean cross-entropy (B, 2), (B,) -> (); label 0 is IsNext."""
    log_probabilities = scores.log_softmax(dim=-1)
    return -log_probabilities[torch.arange(len(labels)), labels].mean()


@TestExercise.asking(
    asks="a test, (loss_function) -> bool, true if it is a right NSP loss",
    thing="loss",
    start="a small example: scores (B, 2) and labels (B,), and the loss worked out by hand.",
    right=(("with log_softmax", right_nsp_loss), ("with F.cross_entropy", F.cross_entropy)),
    refuses_all="it returns False on every path, or the value worked out by hand is wrong or too "
    "coarse: compare with isclose and atol=1e-3, not with ==. "
    "Print that value beside what the loss function gives.",
    refuses_right="== between floats. Two right ways of computing may differ in the last "
    "digit: use torch.isclose.",
    museum="""
    ✗ codertimo/BERT-pytorch, NLLLoss(ignore_index=0): shares the loss of MLM, so label 0 is never
    counted (there it is NotNext, here IsNext; issue 98).
      score a real pair alone, or move its scores. A batch of NotNext alone looks fine.
    | -log_probabilities[torch.arange(len(labels)), labels].mean() =>
      F.nll_loss(log_probabilities, labels, ignore_index=0)
    ✗ labels ignored: scores every pair as if it were IsNext.
      change one label: the loss must move.
    | , labels] => , IS_NEXT]
    ✗ labels swapped: scores a real pair as NotNext, and a wrong one as IsNext.
      scores of (20, 0) with label 0 must give a loss near 0.
    | , labels] => , 1 - labels]
    ✗ softmax over the batch: lets the pairs of a batch share out one unit (dim=0).
      score two pairs together and apart: the mean must agree.
    | dim=-1 => dim=0
    """,
)
def right_nsp_loss_test(loss_function: Loss) -> bool:
    """Say whether a function is a right NSP loss, by one example done by hand.

    A real pair that the scores get right, a wrong one that they get wrong, a real one undecided;
    all differ, and not only by sign, or swapped labels would give the same mean.
    """
    scores = torch.tensor([[2.0, 0.0], [4.0, 1.0], [1.0, 1.0]])
    labels = torch.tensor([0, 1, 0])
    chances = scores.exp() / scores.exp().sum(dim=1, keepdim=True)
    by_hand = -(chances[0, 0].log() + chances[1, 1].log() + chances[2, 0].log()) / 3
    return bool(torch.isclose(loss_function(scores, labels), by_hand))


def _majority_cases() -> Iterator[Inputs]:
    generator = torch.Generator().manual_seed(11)
    chances = torch.rand(100, generator=generator)
    sizes = 4 * [1] + 16 * [2] + 20 * [3] + 30 * [5] + 30 * [9]
    for size, chance in zip(sizes, chances, strict=True):
        yield ((torch.rand(size, generator=generator) < chance).long(),)


@Exercise.asking(
    asks="(labels (N,)) -> float, the accuracy of always giving the more frequent answer",
    cases=_majority_cases,
    tried="100 random cases, from one label to 9. Either label may be the more frequent one.",
    start="the share of labels that are 1. What if it is below one half?",
    mistakes="""
    ✗ this is the share of NotNext (1).
      if IsNext is more frequent, you would always answer that: max(share, 1 - share).
    | max(share, 1 - share) => share
    ✗ this is the more frequent label itself.
      that is the answer to give. Return how often it is right: the share of labels that equal it.
    | max(share, 1 - share) => int(share > 0.5)
    ✗ every label is counted as a different one.
      a Counter or set over a tensor takes every element for a different one. Count labels.tolist().
    | max(share, 1 - share) => 1 / len(labels)
    """,
)
def right_majority(labels: Tensor) -> float:
    """Share of (N,) labels that are right if one always answers the more frequent one."""
    share = float(labels.float().mean())
    return max(share, 1 - share)


def _ranking_cases() -> Iterator[Inputs]:
    generator = torch.Generator().manual_seed(12)
    for size in [1] * 20 + [2] * 30 + [3] * 30 + [7] * 20:
        scores = torch.randint(-4, 5, (2, size), generator=generator) / 4
        tied = torch.rand(size, generator=generator) < 0.3
        yield scores[0], torch.where(tied, scores[0], scores[1])


@Exercise.asking(
    asks="(real (N,), wrong (N,)) -> float: how often real[i] > wrong[i]; a tie is half",
    cases=_ranking_cases,
    tried="100 random cases, from one pair to 7, a third of them ties.",
    start="real > wrong, which is (N,). Then the ties, real == wrong.",
    mistakes="""
    ✗ a tie counts as a win.
      >= in place of >. A model that gives all pairs one score would get 1, and knows nothing: a tie
      is one half.
    | 0.5 * =>
    ✗ a tie counts nothing.
      a model that gives all pairs one score knows as much as a coin: a tie is one half.
    | + 0.5 * (real == wrong).float() =>
    ✗ ties are left out of the count.
      they belong to the N pairs: a tie is one half, and divide by N.
    | points.mean() => points[real != wrong].mean()
    """,
)
def right_ranking(real: Tensor, wrong: Tensor) -> float:
    """Share of N pairs of scores (N,), (N,) in which the real one is higher; a tie is half."""
    points = (real > wrong).float() + 0.5 * (real == wrong).float()
    return float(points.mean())


# -- a test for pair builders

Documents = Sequence[tuple[str, Sentences]]
Triple = tuple[list[int], list[int], int]
Builder = Callable[[Documents, int], list[Triple]]


def _by_hand(documents: Documents, seed: int) -> list[Triple]:
    """Pair each sentence with the next one, or with one of another document of its source."""
    rng, made = random.Random(seed), []
    for index, (source, sentences) in enumerate(documents):
        others = [
            lines
            for i, (its, lines) in enumerate(documents)
            if lines and i != index and its == source
        ]
        for a, b in pairwise(sentences):
            if rng.random() < 0.5:
                made.append((a, b, IS_NEXT))
            else:  # of a lone document, _by_package says what is wrong
                made.append((a, rng.choice(rng.choice(others or [sentences])), NOT_NEXT))
    return [([*a], [*b], label) for a, b, label in made]


def _by_package(documents: Documents, seed: int) -> list[Triple]:
    """Use make_pairs, with so much room that nothing is cut."""
    encoded = [EncodedDocument(source, sentences) for source, sentences in documents]
    room = 5 + sum(len(sentence) for _, sentences in documents for sentence in sentences)
    made = make_pairs(encoded, room, np.random.default_rng(seed))
    return [(pair.a, pair.b, pair.label) for pair in made]


@TestExercise.asking(
    asks="a test, (builder) -> bool, true if it builds right pairs. builder(documents, seed) takes "
    "a list of (source, sentences) and returns a list of (a, b, label)",
    thing="builder",
    start="four documents of two sources, in which every id occurs once; then look at each of "
    "builder(documents, seed).",
    right=(
        ("by hand, with A and B of one sentence", _by_hand),
        ("with make_pairs, whose A and B may be several sentences", _by_package),
    ),
    refuses_all="it returns False on every path, or takes 0 for NotNext. Print a few pairs of "
    "builder(documents, seed) and look at them.",
    refuses_right="it asks for more than the rules. A and B may be several sentences long, and "
    "some pairs may all have the same label: build many, with several seeds.",
    museum="""
    ✗ all IsNext: never makes a wrong pair.
      build a few dozen pairs: both labels must occur.
    | rng.random() < 0.5 => True
    ✗ B from the same document: draws some of the wrong B from the document of A.
      give every document ids of its own: with label 1, B may hold none of the ids of A's document.
    | i != index and =>
    ✗ B from another source: draws the wrong B from another source, whose style gives the answer
    away.
      use two sources of two documents each: with label 1, A and B must share the source.
    | its == source => (its != source or len(dict(documents)) == 1)
    ✗ across documents' ends: pairs the last sentence of a document with the first of the next, and
    calls it IsNext.
      look at *all* pairs with label 0: A and B must be of one document.
    | for a, b, label in made] => for a, b, label in made] +
      [([*a[-1]], [*b[0]], IS_NEXT) for (_, a), (_, b) in pairwise(documents) if a and b]
    ✗ always the same B: takes the same sentence for every wrong pair of a document: easy to learn
    by heart.
      gather the B of all wrong pairs of a document of many sentences: they must differ.
    | rng.choice(rng.choice(others or [sentences])) => others[0][0]
    ✗ shuffled corpora: shuffles the sentences before it pairs them, so that nothing follows
    anything.
      number the ids in order: with label 0, B must begin with the id after A's last.
    | pairwise(sentences) => pairwise(rng.sample(sentences, len(sentences)))
    """,
)
def right_pair_test(builder: Builder) -> bool:
    """Say whether a builder is right, by documents whose ids tell where each comes from.

    Document d of four has ids 100·d to 100·d + 23, two a sentence; 0 and 1 share a source, 2 and 3.
    """
    documents = [
        (source, [[100 * d + i, 100 * d + i + 1] for i in range(0, 24, 2)])
        for d, source in enumerate(("speeches", "speeches", "stories", "stories"))
    ]
    pairs = list(chain.from_iterable(builder(documents, seed) for seed in range(10)))
    real = [(a, b) for a, b, label in pairs if label == IS_NEXT]
    wrong = [(a, b) for a, b, label in pairs if label == NOT_NEXT]
    partner = {0: 1, 1: 0, 2: 3, 3: 2}
    return (
        len(real) > 0
        and len({tuple(b) for _, b in wrong}) > len(documents)  # not one B for each document
        and all(b[0] == a[-1] + 1 for a, b in real)
        and all(b[0] // 100 == partner[a[0] // 100] for a, b in wrong)
    )
