"""The exercises of notebook 08: the new layer, the loop, macro F1, choosing, a leak, and a test."""

import math
import random
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from bertedu.finetuning.kinds import Classification
from bertedu.model.heads import ClassificationHead
from course.exercises import judge
from course.exercises.judge import Exercise, Inputs, number, offered, parts, read_wholes, whole
from course.exercises.museum import TestExercise


def _shares_cases() -> list[Inputs]:
    draw = judge.drawer(21)
    sizes = [(1, 1, 2)] * 5 + [(1, 2, 2)] * 10 + [(2, 2, 2)] * 20 + [(3, 2, 4)] * 25
    return [(draw(b, h), draw(k, h), draw(k)) for b, h, k in sizes + [(4, 5, 3)] * 20]


@Exercise.asking(
    asks="(c (B, H), weight (K, H), bias (K,)) -> (B, K), a share for each class",
    cases=_shares_cases,
    tried="80 random cases, from one sentence to 4, two classes to 4.",
    start="c @ weight.T, which is (B, K).",
    beside=(ClassificationHead,),
    mistakes="""
    ✗ these are scores; they do not sum to 1.
      softmax over the last axis turns them into shares.
    | .softmax(dim=-1) =>
    ✗ softmax goes over the sentences, not over the classes.
      each sentence shares out one unit among the classes: dim=-1.
    | dim=-1 => dim=0
    ✗ the bias is forgotten.
      add bias, (K,), to the scores before softmax.
    | + bias =>
    """,
)
def right_class_probabilities(c: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Return softmax(C Wᵀ + b): (B, H), (K, H), (K,) -> (B, K)."""
    return (c @ weight.T + bias).softmax(dim=-1)


# -- the loop


class PlayBert:
    """A body of one map and a tanh, with a new layer on it; a step goes straight downhill."""

    def __init__(self, draw: Callable[..., Tensor], size: int, classes: int) -> None:
        shapes = (size, 2), (classes, 2), (classes,)
        self.weights = [draw(*shape).requires_grad_() for shape in shapes]

    def pooled(self, batch: Any) -> Tensor:
        """Return c, (B, 2)."""
        return (batch.x @ self.weights[0]).tanh()

    @torch.no_grad()
    def move(self, gradients: Sequence[Tensor], rate: float) -> None:
        """Move each weight against its gradient; ValueError if there is not one for each."""
        if len(gradients) != len(self.weights):
            raise ValueError(f"{len(gradients)} gradients for {len(self.weights)} weights")
        for weight, gradient in zip(self.weights, gradients, strict=True):
            weight -= rate * gradient

    def __repr__(self) -> str:
        """Say what it is made of."""
        return f"a play BERT, weights {judge.plain([w.detach() for w in self.weights])}"


def _tune_cases() -> Iterator[Inputs]:
    draw, rng = judge.drawer(25), random.Random(25)
    for rows, classes, steps in [(1, 2, 2)] * 10 + [(2, 2, 3)] * 15 + [(3, 4, 4)] * 15:
        targets = [torch.tensor(rng.choices(range(classes), k=rows)) for _ in range(steps)]
        batches = [SimpleNamespace(x=draw(rows, 3), target=target) for target in targets]
        rates = [rng.choice((0.5, 1.0, 2.0)) for _ in range(steps)]
        yield PlayBert(draw, 3, classes), batches, rates


@Exercise.asking(
    asks="(model, batches, rates) -> list of losses, one for each batch, before its step",
    cases=_tune_cases,
    read=lambda answer, _, batches, __: judge.read_numbers(answer, "losses", (len(batches),)),
    tried="40 random play models, one sentence to 3 in a batch, 2 to 4 steps.",
    start="a loop over zip(batches, rates); in it, the scores: model.pooled(batch) @ W.T + b.",
    mistakes="""
    ✗ softmax is applied twice.
      F.cross_entropy wants scores: it takes the softmax itself.
    | weight.T + bias => weight.T + bias && F.cross_entropy(scores, =>
      F.cross_entropy(scores.softmax(-1),
    ✗ only the new layer learns; the body never moves.
      that is the frozen model. Ask for the gradient of *all* of model.weights.
    | model.pooled(batch) @ => model.pooled(batch).detach() @ && loss, model.weights) =>
      loss, model.weights, materialize_grads=True)
    ✗ the gradients of all steps so far are added up.
      backward() adds to w.grad: set it to None before each step, or use torch.autograd.grad.
    | gradients = torch.autograd.grad(loss, model.weights) => loss.backward(); gradients = [w.grad
      for w in model.weights]
    ✗ nothing moves.
      after the gradients comes the step: model.move(gradients, rate).
    | model.move(gradients, rate) => pass
    ✗ every step has the first rate.
      rates has one for each batch: it rises and falls.
    | (gradients, rate) => (gradients, rates[0])
    ✗ the bias is forgotten.
      add b to the scores: its gradient is missing otherwise.
    | weight.T + bias => weight.T && loss, model.weights) => loss, model.weights,
      materialize_grads=True)
    ✗ the losses of a batch are summed, not averaged.
      then a larger batch makes larger steps. F.cross_entropy takes the mean if you let it.
    | batch.target) => batch.target, reduction="sum")
    ✗ each loss is measured after the step.
      keep the loss that you took the gradient of.
    | losses.append(loss.item()) => losses.append(F.cross_entropy(model.pooled(batch) @ weight.T +
      bias, batch.target).item())
    """,
)
def right_tune(model: Any, batches: Sequence[Any], rates: Sequence[float]) -> list[float]:
    """Fine-tune: one step for each batch, at its rate. Return the losses, in nats."""
    losses = []
    for batch, rate in zip(batches, rates, strict=True):
        weight, bias = model.weights[-2:]
        scores = model.pooled(batch) @ weight.T + bias
        loss = F.cross_entropy(scores, batch.target)
        gradients = torch.autograd.grad(loss, model.weights)
        model.move(gradients, rate)
        losses.append(loss.item())
    return losses


def _f1_cases() -> Iterator[Inputs]:
    rng = random.Random(22)
    for size, classes in [(2, 2)] * 10 + [(4, 2)] * 25 + [(7, 3)] * 30 + [(12, 4)] * 25:
        true = [rng.randrange(classes) for _ in range(size)]
        found = [t if rng.random() < 0.6 else rng.randrange(classes) for t in true]
        yield true, found, classes


@Exercise.asking(
    asks="(true, found, classes) -> float, the mean F1 of the classes",
    cases=_f1_cases,
    tried="90 random cases, two classes to four; some classes are never named, or not there.",
    start="a loop over range(classes): count the right answers, the answers, the true ones.",
    beside=(Classification.metrics,),
    mistakes="""
    ✗ this is accuracy.
      count for each class by itself, then take the mean over the classes.
    | += 2 * right / (named + there) if named + there else 0 => += right && / classes => / len(true)
    ✗ classes that do not occur in true are left out.
      a class may still be named, wrongly: go over range(classes), and divide by classes.
    | range(classes) => set(true) && / classes => / len(set(true))
    ✗ classes that are neither in true nor in found are left out.
      scikit-learn does so, too, unless you name the classes (labels=range(classes)). Here they
      count as 0: divide by classes.
    | / classes => / len({*true, *found})
    """,
)
def right_macro_f1(true: list[int], found: list[int], classes: int) -> float:
    """Mean F1 of classes 0 to classes - 1; 0 for one that is neither there nor named."""
    total = 0.0
    for k in range(classes):
        right = sum(t == f == k for t, f in zip(true, found, strict=True))
        named, there = found.count(k), true.count(k)
        total += 2 * right / (named + there) if named + there else 0
    return total / classes


def _choose_cases() -> Iterator[Inputs]:
    rng = random.Random(23)
    for size in [2] * 15 + [3] * 30 + [6] * 35:
        dev = [rng.randrange(6, 10) / 10 for _ in range(size)]  # coarse, so that some are equal
        yield dev, [rng.randrange(50, 100) / 100 for _ in dev]


@Exercise.asking(
    asks="(dev, test) -> (number of the run, score to report)",
    cases=_choose_cases,
    read=parts("the number of the run, and the score to report", whole, number),
    first_part=0,
    tried="80 random grids of 2 to 6 runs.",
    start="the place of the highest dev score.",
    mistakes="""
    ✗ the run is chosen on test.
      then the test score is that of the best *and* luckiest run. Choose on dev, look at test once.
    | dev[run] => test[run]
    ✗ the right run, but its dev score is reported.
      the best of many dev scores is too good: it was chosen for being high. Report test.
    | test[best] => dev[best]
    ✗ of runs that are equally good on dev, the one that is better on test wins.
      test has no say, not even here: take the first.
    | dev[run] => (dev[run], test[run])
    """,
)
def right_choose(dev: list[float], test: list[float]) -> tuple[int, float]:
    """Return the number of the run to keep, the first best on dev, and the score to report."""
    best = max(range(len(dev)), key=lambda run: dev[run])
    return best, test[best]


def _plain(text: str) -> str:
    return " ".join(text.lower().split())


_TEXTS = (
    "A quiet film./The plot is thin./It moved me./Too long by an hour./See it twice./A mess./"
    "Warm and funny./Nothing happens./A mess. See it twice./Am ess./A mess!/By too long an hour."
).split("/")


def _leak_cases() -> Iterator[Inputs]:
    rng = random.Random(24)
    wide, wider = (lambda text: text.replace(" ", "  ")), (lambda text: text.replace(" ", "   "))
    disguises = (str, str.lower, " {} ".format, wide, wider)
    for trained, tested in [(1, 2)] * 15 + [(3, 3)] * 30 + [(5, 6)] * 35:
        test = [rng.choice(disguises)(rng.choice(_TEXTS)) for _ in range(tested)]
        yield rng.choices(_TEXTS, k=trained), test


@Exercise.asking(
    asks="(train, test) -> places in test of texts that are in train as well",
    cases=_leak_cases,
    read=lambda answer, *_: sorted(read_wholes(answer, things="places", thing="a place in test")),
    tried="80 random cases; some copies have other spaces or other capitals.",
    start="a set of the training texts, each lower-cased and with single spaces.",
    beside=(_plain,),
    mistakes="""
    ✗ only copies that are equal to the last space are found.
      "A mess." and " a mess. " are one text: compare " ".join(text.lower().split()).
    | _plain(text) => text
    ✗ copies with other spaces get away.
      split and join: " ".join(text.lower().split()).
    | _plain(text) => text.lower()
    ✗ only spaces at the ends of a text are taken off.
      strip() leaves two spaces between words as they are: " ".join(text.lower().split()).
    | _plain(text) => text.lower().strip()
    | _plain(text) => text.strip()
    ✗ only spaces between words are made single; those at the ends are left on.
      " A mess. " and "A mess." are one text: " ".join(text.lower().split()).
    | _plain(text) => " " * text.startswith(" ") + _plain(text)
    ✗ copies in other capitals get away.
      lower-case both texts: " ".join(text.lower().split()).
    | _plain(text) => " ".join(text.split())
    ✗ texts that only contain a training text, or are part of one, are taken for copies.
      a leak is the whole text: compare for equality, not with `in` between two strings.
    | _plain(text) in seen => any(one in _plain(text) for one in seen)
    """,
)
def right_leaked(train: list[str], test: list[str]) -> list[int]:
    """Return the places in test whose text occurs in train, whatever its case and spaces."""
    seen = {_plain(text) for text in train}
    return [i for i, text in enumerate(test) if _plain(text) in seen]


# -- a test for functions that score


@offered
class PlayModel:
    """A model to test with: it answers a text with its number of words, modulo 2.

    Until ``eval()`` is called, its dropout is on: every third answer is wrong.
    """

    def __init__(self) -> None:
        self.training, self._asked = True, 0

    def eval(self) -> None:
        """Switch dropout off."""
        self.training = False

    def __call__(self, texts: Sequence[str]) -> list[int]:
        """Answer some texts."""
        answers = []
        for text in texts:
            self._asked += 1
            wrong = self.training and self._asked % 3 == 0
            answers.append((len(text.split()) + wrong) % 2)
        return answers


Examples = Sequence[tuple[str, int]]


def _by_batches(model: Any, examples: Examples, batch_size: int) -> float:
    model.eval()
    right = 0
    for start in range(0, len(examples), batch_size):
        batch = examples[start : start + batch_size]
        found = model([text for text, _ in batch])
        right += sum(f == label for f, (_, label) in zip(found, batch, strict=True))
    return right / len(examples)


def _by_length(model: Any, examples: Examples, batch_size: int) -> float:
    return _by_batches(model, sorted(examples, key=lambda one: len(one[0])), batch_size)


@TestExercise.asking(
    asks="(evaluate) -> bool, true if it computes accuracy. evaluate(model, examples, batch_size) "
    "gets (text, label) pairs",
    thing="scoring function",
    start="a few (text, label) pairs of which you know how many check.PlayModel() gets right: it "
    "answers with the number of words modulo 2.",
    right=(
        ("batch by batch", _by_batches),
        ("after sorting the examples by length, labels and all", _by_length),
    ),
    refuses_all="it returns False on every path, or the score that you expect is wrong: PlayModel "
    "answers 1 for one word, 0 for two words. Make a new PlayModel() for each call.",
    refuses_right="== between floats, or you expect the texts in a certain order. Any "
    "order is right, as long as text and label stay together.",
    beside=(PlayModel,),
    museum="""
    ✗ dropout left on: never calls model.eval(), so the model still drops numbers while it is
    scored.
      give PlayModel examples that it gets all right after eval(): the score must be 1.
    | model.eval() =>
    ✗ the last batch dropped: skips the examples that do not fill a batch (drop_last=True, as in
    training).
      use 7 examples in batches of 3, and let the last one be wrong.
    | (0, len(examples), => (0, len(examples) - batch_size + 1, && right / len(examples) =>
      right / max(1, len(examples) // batch_size * batch_size)
    ✗ mean of batch means: gives the few examples of the last batch the weight of a full one.
      use 7 examples in batches of 3, the last one wrong, the others right: 6/7 is right.
    | batch, strict=True)) => batch, strict=True)) / len(batch) && right / len(examples) =>
      right / math.ceil(len(examples) / batch_size)
    ✗ labels in another order: sorts the texts by length to save padding, and forgets the labels.
      give examples that PlayModel gets all right, so that the score must be 1, and whose labels
      read otherwise once the texts stand from short to long: “two words” (0) before “one” (1).
    | _ in batch => _ in sorted(examples, key=lambda one: len(one[0]))[start : start + batch_size]
    """,
)
def right_accuracy_test(evaluate: Callable[[Any, Examples, int], float]) -> bool:
    """Say whether a function computes accuracy, by examples of known score and uneven batches."""
    texts = ("one", "one two", "a b c d e", "x y z", "p q", "r", "s t u v")
    some = list(zip(texts, (1, 1, 1, 0, 0, 1, 1), strict=True))
    right = list(zip(texts, (1, 0, 1, 1, 0, 1, 0), strict=True))
    return all(
        math.isclose(evaluate(PlayModel(), examples, size), wanted)
        for examples, wanted in ((some, 4 / 7), (right, 1.0))
        for size in (2, 3, 7, 10)
    )
