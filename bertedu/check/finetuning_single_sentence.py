"""The checks of notebook 08: the new layer, macro F1, choosing on dev, a leak, and a test."""

import math
import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from bertedu.check import exercise
from bertedu.check.exercise import Exercise, Inputs, Mistake, UnreadableError
from bertedu.check.museum import Exhibit, TestExercise, judge_test
from bertedu.finetuning.kinds import Classification
from bertedu.model.heads import ClassificationHead

# -- the new layer


def right_class_shares(c: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Return softmax(C Wᵀ + b): (B, H), (K, H), (K,) -> (B, K)."""
    return (c @ weight.T + bias).softmax(dim=-1)


def _shares_cases() -> list[Inputs]:
    generator = torch.Generator().manual_seed(21)

    def draw(*shape: int) -> Tensor:
        return (torch.randn(*shape, generator=generator) * 2).round() / 2

    sizes = (
        [(1, 1, 2)] * 5 + [(1, 2, 2)] * 10 + [(2, 2, 2)] * 20 + [(3, 2, 4)] * 25 + [(4, 5, 3)] * 20
    )
    return [(draw(b, h), draw(k, h), draw(k)) for b, h, k in sizes]


def _read_table(answer: Any, c: Tensor, weight: Tensor, _: Tensor) -> Any:
    return exercise.read_tensor(answer, "shares", (len(c), len(weight))).tolist()


def _raw(c: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return c @ weight.T + bias


CLASS_SHARES = Exercise(
    name="class_shares",
    right=right_class_shares,
    cases=_shares_cases,
    read=_read_table,
    tried="80 random cases, from one sentence to 4, two classes to 4.",
    start="c @ weight.T, which is (B, K).",
    source=(ClassificationHead, right_class_shares),
    mistakes=(
        Mistake(
            "these are scores; they do not sum to 1.",
            "softmax over the last axis makes shares of them.",
            (_raw,),
        ),
        Mistake(
            "softmax goes over the sentences, not over the classes.",
            "each sentence shares out one unit among the classes: dim=-1.",
            (lambda c, weight, bias: _raw(c, weight, bias).softmax(0),),
        ),
        Mistake(
            "the whole batch sums to 1.",
            "each sentence shares out one unit of its own: softmax over the last axis.",
            (lambda c, weight, bias: _raw(c, weight, bias).flatten().softmax(0).view(len(c), -1),),
        ),
        Mistake(
            "rows and columns of weight are mixed up.",
            "class k has row k of weight: c @ weight.T, not c @ weight.",
            (
                lambda c, weight, bias: (c @ weight.flatten().view(c.shape[1], -1) + bias).softmax(
                    -1
                ),
            ),
        ),
        Mistake(
            "the bias is forgotten.",
            "add bias, (K,), to the scores before softmax.",
            (lambda c, weight, bias: (c @ weight.T).softmax(-1),),
        ),
        Mistake(
            "the bias is added after softmax.",
            "then the shares no longer sum to 1. It belongs to the scores.",
            (lambda c, weight, bias: (c @ weight.T).softmax(-1) + bias,),
        ),
        Mistake(
            "the bias is subtracted.",
            "the scores are C Wᵀ + b.",
            (lambda c, weight, bias: (c @ weight.T - bias).softmax(-1),),
        ),
        Mistake(
            "these are logarithms of shares.",
            "log_softmax is for the loss; softmax is asked.",
            (lambda c, weight, bias: _raw(c, weight, bias).log_softmax(-1),),
        ),
        Mistake(
            "each class is judged by itself.",
            'sigmoid answers "this one, yes or no?" for each class, and the answers need not sum '
            "to 1. Here one of the classes is right: softmax.",
            (lambda c, weight, bias: _raw(c, weight, bias).sigmoid(),),
        ),
        Mistake(
            "the best class gets all, the others nothing.",
            "that is the answer, not how sure it is. Softmax keeps the shares.",
            (
                lambda c, weight, bias: torch.nn.functional.one_hot(
                    _raw(c, weight, bias).argmax(-1), len(weight)
                ),
            ),
        ),
        Mistake(
            "tanh comes before the new layer once more.",
            "C has been through the pooler's tanh already (notebook 06).",
            (lambda c, weight, bias: _raw(c.tanh(), weight, bias).softmax(-1),),
        ),
        Mistake(
            "the scores are divided by √H.",
            "that belongs to attention (notebook 03); here the scores stay as they are.",
            (
                lambda c, weight, bias: (_raw(c, weight, bias) / math.sqrt(c.shape[1])).softmax(-1),
                lambda c, weight, bias: (c @ weight.T / math.sqrt(c.shape[1]) + bias).softmax(-1),
            ),
        ),
    ),
)


def class_shares(function: object) -> None:
    """Check ``(c (B, H), weight (K, H), bias (K,)) -> (B, K)``, a share for each class."""
    print(exercise.judge(CLASS_SHARES, function))


# -- macro F1


def _counts(true: Sequence[int], found: Sequence[int], k: int) -> tuple[int, int, int]:
    """Right answers of class k, all answers of class k, all of class k that there are."""
    right = sum(t == f == k for t, f in zip(true, found, strict=True))
    return right, list(found).count(k), list(true).count(k)


def _f1(right: float, answered: float, there: float) -> float:
    return 2 * right / (answered + there) if answered + there else 0.0


def right_macro_f1(true: list[int], found: list[int], classes: int) -> float:
    """Mean F1 of classes 0 to classes - 1; 0 for one that is neither there nor named."""
    return sum(_f1(*_counts(true, found, k)) for k in range(classes)) / classes


def _f1_cases() -> list[Inputs]:
    dice = random.Random(22)
    cases: list[Inputs] = []
    for count, size, classes in ((10, 2, 2), (25, 4, 2), (30, 7, 3), (25, 12, 4)):
        for _ in range(count):
            true = [dice.randrange(classes) for _ in range(size)]
            found = [t if dice.random() < 0.6 else dice.randrange(classes) for t in true]
            cases.append((true, found, classes))
    return cases


def _read_number(answer: Any, *_: Any) -> float:
    return exercise.read_number(answer)


Measure = Callable[[int, int, int], float]


def _mean_over_classes(measure: Measure, true: list[int], found: list[int], classes: int) -> float:
    return sum(measure(*_counts(true, found, k)) for k in range(classes)) / classes


def _precision(right: int, answered: int, there: int) -> float:
    return right / answered if answered else 0.0


def _recall(right: int, answered: int, there: int) -> float:
    return right / there if there else 0.0


def _of_means(true: list[int], found: list[int], classes: int) -> float:
    p = _mean_over_classes(_precision, true, found, classes)
    r = _mean_over_classes(_recall, true, found, classes)
    return 2 * p * r / (p + r) if p + r else 0.0


def _over_present(true: list[int], found: list[int], classes: int) -> float:
    present = sorted(set(true))
    return sum(_f1(*_counts(true, found, k)) for k in present) / len(present)


MACRO_F1 = Exercise(
    name="macro_f1",
    right=right_macro_f1,
    cases=_f1_cases,
    read=_read_number,
    tried="90 random cases, two classes to four; some classes are never named, or not there.",
    start="a loop over range(classes): count the right answers, the answers, the true ones.",
    source=(Classification.metrics, right_macro_f1),
    mistakes=(
        Mistake(
            "this is accuracy.",
            "count for each class by itself, then take the mean over the classes.",
            (
                lambda true, found, classes: _recall(
                    sum(map(int.__eq__, true, found)), 0, len(true)
                ),
            ),
        ),
        Mistake(
            "this is the mean precision.",
            "recall is missing: F1 = 2·P·R / (P + R), class by class.",
            (partial(_mean_over_classes, _precision),),
        ),
        Mistake(
            "this is the mean recall.",
            "precision is missing: F1 = 2·P·R / (P + R), class by class.",
            (partial(_mean_over_classes, _recall),),
        ),
        Mistake(
            "frequent classes count for more.",
            "that is weighted F1. In macro F1 every class has the same weight: divide by classes.",
            (
                lambda true, found, classes: (
                    sum(_f1(*_counts(true, found, k)) * true.count(k) for k in range(classes))
                    / len(true)
                ),
            ),
        ),
        Mistake(
            "precision and recall are averaged first, F1 is taken at the end.",
            "F1 of each class first, then the mean of these.",
            (_of_means,),
        ),
        Mistake(
            "this is the plain mean of precision and recall.",
            "F1 is 2·P·R / (P + R): low if one of the two is low.",
            (
                lambda true, found, classes: (
                    (
                        _mean_over_classes(_precision, true, found, classes)
                        + _mean_over_classes(_recall, true, found, classes)
                    )
                    / 2
                ),
            ),
        ),
        Mistake(
            "classes that do not occur in true are left out.",
            "a class may be named wrongly all the same: go over range(classes), and divide by it.",
            (_over_present,),
        ),
        Mistake(
            "classes that are neither in true nor in found are left out.",
            "scikit-learn does so, too, unless you name the classes (labels=range(classes)). Here "
            "they count as 0: divide by classes.",
            (
                lambda true, found, classes: (
                    sum(_f1(*_counts(true, found, k)) for k in range(classes))
                    / len({*true, *found})
                ),
            ),
        ),
        Mistake(
            "a class that is neither in true nor in found gets 1.",
            "nobody found anything there. Here it counts as 0.",
            (
                lambda true, found, classes: (
                    sum(
                        _f1(*_counts(true, found, k)) if k in (*true, *found) else 1.0
                        for k in range(classes)
                    )
                    / classes
                ),
            ),
        ),
        Mistake(
            "the 2 is missing.",
            "F1 = 2·P·R / (P + R): 1 if both are 1.",
            (lambda true, found, classes: right_macro_f1(true, found, classes) / 2,),
        ),
        Mistake(
            "the F1 are added up.",
            "divide by the number of classes.",
            (lambda true, found, classes: right_macro_f1(true, found, classes) * classes,),
        ),
        Mistake(
            "this is in percent.",
            "F1 lies between 0 and 1. Leave out the 100.",
            (lambda true, found, classes: right_macro_f1(true, found, classes) * 100,),
        ),
        Mistake(
            "this is the F1 of class 1 only.",
            "every class in turn is the one that is looked for: range(classes).",
            (lambda true, found, classes: _f1(*_counts(true, found, 1)),),
        ),
    ),
)


def macro_f1(function: object) -> None:
    """Check ``(true, found, classes) -> float``, the mean F1 of the classes."""
    print(exercise.judge(MACRO_F1, function))


# -- choose on dev, report test


def right_choose(dev: list[float], test: list[float]) -> tuple[int, float]:
    """Return the number of the run to keep, the first best on dev, and the score to report."""
    best = max(range(len(dev)), key=lambda i: dev[i])
    return best, test[best]


def _choose_cases() -> list[Inputs]:
    dice = random.Random(23)
    return [
        (
            [dice.randrange(6, 10) / 10 for _ in range(size)],  # coarse, so that some are equal
            [dice.randrange(50, 100) / 100 for _ in range(size)],
        )
        for count, size in ((15, 2), (30, 3), (35, 6))
        for _ in range(count)
    ]


def _read_choice(answer: Any, dev: list[float], _: list[float]) -> tuple[int, float]:
    number, score = exercise.read_pair(answer, "the number of the run, and the score to report")
    number = number.item() if hasattr(number, "item") else number
    if not isinstance(number, int) or isinstance(number, bool):
        raise UnreadableError(
            f"the number of the run is {type(number).__name__}; a whole number is wanted."
        )
    return number, round(float(score), 4)


def _argmax(values: Sequence[float]) -> int:
    return max(range(len(values)), key=lambda i: values[i])


CHOOSE = Exercise(
    name="choose",
    right=right_choose,
    cases=_choose_cases,
    read=_read_choice,
    first_part=0,
    tried="80 random grids of 2 to 6 runs.",
    start="the place of the highest dev score.",
    source=(right_choose,),
    mistakes=(
        Mistake(
            "the run is chosen on test.",
            "then the test score is that of the best *and* luckiest run. Choose on dev, look at "
            "test once.",
            (lambda dev, test: (_argmax(test), max(test)),),
        ),
        Mistake(
            "dev and test choose together.",
            "what was used for choosing can no longer tell how good the choice is: dev alone.",
            tuple(
                lambda dev, test, weight=weight: (
                    i := _argmax([d + weight * t for d, t in zip(dev, test, strict=True)]),
                    test[i],
                )
                for weight in (1.0, 0.5)
            ),
        ),
        Mistake(
            "the right run, but its dev score is reported.",
            "the best of many dev scores is too good: it was chosen for being high. Report test.",
            (lambda dev, test: (_argmax(dev), max(dev)),),
        ),
        Mistake(
            "the right run, but the best test score of all is reported.",
            "report the test score of the run that you chose, whatever the others have.",
            (lambda dev, test: (_argmax(dev), max(test)),),
        ),
        Mistake(
            "the right run, but the mean test score of all runs is reported.",
            "report the test score of the run that you chose.",
            (lambda dev, test: (_argmax(dev), sum(test) / len(test)),),
        ),
        Mistake(
            "the lowest dev score wins.",
            "these are accuracies, not losses: the highest is best.",
            (lambda dev, test: (i := _argmax([-d for d in dev]), test[i]),),
        ),
        Mistake(
            "the last run wins, whatever its score.",
            "later is not better: the highest dev score.",
            (lambda dev, test: (len(dev) - 1, test[-1]),),
        ),
        Mistake(
            "runs are counted from 1.",
            "the first run is number 0.",
            (lambda dev, test: (_argmax(dev) + 1, test[_argmax(dev)]),),
        ),
        Mistake(
            "of runs that are equally good on dev, the one that is better on test wins.",
            "test has no say, not even here: take the first.",
            (
                lambda dev, test: (
                    i := max(range(len(dev)), key=lambda j: (dev[j], test[j])),
                    test[i],
                ),
            ),
        ),
        Mistake(
            "of runs that are equally good on dev, the last wins.",
            "take the first, as max and argmax do.",
            (lambda dev, test: (i := max(range(len(dev)), key=lambda j: (dev[j], j)), test[i]),),
        ),
    ),
)


def choose(function: object) -> None:
    """Check ``(dev, test) -> (number of the run, score to report)``."""
    print(exercise.judge(CHOOSE, function))


# -- a planted leak


def _plain(text: str) -> str:
    return " ".join(text.lower().split())


def right_leaked(train: list[str], test: list[str]) -> list[int]:
    """Return the places in test whose text occurs in train, whatever its case and spaces."""
    seen = {_plain(text) for text in train}
    return [i for i, text in enumerate(test) if _plain(text) in seen]


_TEXTS = (
    "A quiet film.",
    "The plot is thin.",
    "It moved me.",
    "Too long by an hour.",
    "See it twice.",
    "A mess.",
    "Warm and funny.",
    "Nothing happens.",
    "A mess. See it twice.",
    "Am ess.",
)


def _leak_cases() -> list[Inputs]:
    dice = random.Random(24)

    def disguised(text: str) -> str:
        way = dice.randrange(4)
        return (text, text.lower(), f" {text} ", text.replace(" ", "  "))[way]

    cases: list[Inputs] = []
    for count, trained, tested in ((15, 1, 2), (30, 3, 3), (35, 5, 6)):
        for _ in range(count):
            train = dice.sample(_TEXTS, trained)
            test = [disguised(dice.choice(_TEXTS)) for _ in range(tested)]
            cases.append((list(train), test))
    return cases


def _read_places(answer: Any, *_: Any) -> list[int]:
    if isinstance(answer, set | tuple):
        answer = sorted(answer)
    if not isinstance(answer, list):
        raise UnreadableError(
            f"your function returned {type(answer).__name__}; a list of places is wanted."
        )
    if not all(isinstance(place, int) and not isinstance(place, bool) for place in answer):
        raise UnreadableError("the list should hold places (0, 1, …), not texts or truth values.")
    return answer


def _leaks(key: Callable[[str], str], train: list[str], test: list[str]) -> list[int]:
    seen = {key(text) for text in train}
    return [i for i, text in enumerate(test) if key(text) in seen]


LEAKED = Exercise(
    name="leaked",
    right=right_leaked,
    cases=_leak_cases,
    read=_read_places,
    tried="80 random cases; some copies have other spaces or other capitals.",
    start="a set of the training texts, each lower-cased and with single spaces.",
    source=(right_leaked,),
    mistakes=(
        Mistake(
            "only copies that are equal to the last space are found.",
            '"A mess." and " a mess. " are one text: compare " ".join(text.lower().split()).',
            (partial(_leaks, lambda text: text),),
        ),
        Mistake(
            "copies with other spaces get away.",
            'split and join: " ".join(text.lower().split()).',
            (partial(_leaks, str.lower),),
        ),
        Mistake(
            "copies with other capitals get away.",
            "lower-case both sides: the model does not see capitals either.",
            (partial(_leaks, lambda text: " ".join(text.split())),),
        ),
        Mistake(
            "copies with spaces inside get away.",
            'strip() takes those at the ends only. " ".join(text.split()) takes all.',
            (partial(_leaks, lambda text: text.strip().lower()),),
        ),
        Mistake(
            "the places are those in train.",
            "asked is which *test* texts are spoiled.",
            (lambda train, test: right_leaked(test, train),),
        ),
        Mistake(
            "these are the texts that are *not* in train.",
            "the others are the leak.",
            (
                lambda train, test: [
                    i for i in range(len(test)) if i not in right_leaked(train, test)
                ],
            ),
        ),
        Mistake(
            "each test text is compared with one training text, that at its own place.",
            "a copy may stand anywhere in train.",
            (
                lambda train, test: [
                    i
                    for i, (a, b) in enumerate(zip(train, test, strict=False))
                    if _plain(a) == _plain(b)
                ],
            ),
        ),
        Mistake(
            "places are counted from 1.",
            "the first text is at place 0.",
            (lambda train, test: [i + 1 for i in right_leaked(train, test)],),
        ),
        Mistake(
            "texts that only hold a training text, or stand in one, are taken for copies.",
            "a leak is the whole text: compare for equality, not with `in` between two strings.",
            (
                lambda train, test: [
                    i for i, b in enumerate(test) if any(_plain(a) in _plain(b) for a in train)
                ],
                lambda train, test: [
                    i for i, b in enumerate(test) if any(_plain(b) in _plain(a) for a in train)
                ],
            ),
        ),
        Mistake(
            "texts count as copies though their words are cut elsewhere.",
            'without any space "a mess" and "am ess" are the same. Keep one space between words.',
            (partial(_leaks, lambda text: "".join(text.lower().split())),),
        ),
        Mistake(
            "a text that comes twice in test is reported once.",
            "list.index gives the first place only. Go through test with enumerate.",
            (
                lambda train, test: sorted(
                    {
                        [_plain(t) for t in test].index(_plain(test[i]))
                        for i in right_leaked(train, test)
                    }
                ),
            ),
        ),
        Mistake(
            "only the first copy is found.",
            "go on after it: there may be more.",
            (lambda train, test: right_leaked(train, test)[:1],),
        ),
    ),
)


def leaked(function: object) -> None:
    """Check ``(train, test) -> places in test`` of texts that are in train as well."""
    print(exercise.judge(LEAKED, function))


# -- a test for functions that score


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
Evaluate = Callable[[Any, Examples, int], float]


def _lots(examples: Examples, size: int) -> list[Examples]:
    return [examples[i : i + size] for i in range(0, len(examples), size)]


def _hits(model: Any, lot: Examples) -> int:
    found = model([text for text, _ in lot])
    return sum(int(f == label) for f, (_, label) in zip(found, lot, strict=True))


def _by_batches(model: Any, examples: Examples, batch_size: int) -> float:
    model.eval()
    return sum(_hits(model, lot) for lot in _lots(examples, batch_size)) / len(examples)


def _by_length(model: Any, examples: Examples, batch_size: int) -> float:
    model.eval()
    return _by_batches(model, sorted(examples, key=lambda e: len(e[0])), batch_size)


def _train_mode(model: Any, examples: Examples, batch_size: int) -> float:
    return sum(_hits(model, lot) for lot in _lots(examples, batch_size)) / len(examples)


def _drops_the_last(model: Any, examples: Examples, batch_size: int) -> float:
    model.eval()
    lots = [lot for lot in _lots(examples, batch_size) if len(lot) == batch_size]
    count = sum(map(len, lots))
    return sum(_hits(model, lot) for lot in lots) / count if count else 0.0


def _mean_of_means(model: Any, examples: Examples, batch_size: int) -> float:
    model.eval()
    means = [_hits(model, lot) / len(lot) for lot in _lots(examples, batch_size)]
    return sum(means) / len(means)


def _sorts_texts_only(model: Any, examples: Examples, batch_size: int) -> float:
    model.eval()
    texts = sorted((text for text, _ in examples), key=len)  # less padding; and the labels?
    found = [
        a for lot in range(0, len(texts), batch_size) for a in model(texts[lot : lot + batch_size])
    ]
    hits = sum(int(f == label) for f, (_, label) in zip(found, examples, strict=True))
    return hits / len(examples)


def _full_batches_assumed(model: Any, examples: Examples, batch_size: int) -> float:
    model.eval()
    lots = _lots(examples, batch_size)
    return sum(_hits(model, lot) for lot in lots) / (len(lots) * batch_size)


def _first_batch(model: Any, examples: Examples, batch_size: int) -> float:
    model.eval()
    return _hits(model, examples[:batch_size]) / len(examples[:batch_size])


def right_accuracy_test(evaluate: Evaluate) -> bool:
    """Say whether a function computes accuracy, by examples of known score and uneven batches."""
    examples = [
        ("one", 1),
        ("one two", 1),
        ("a b c d e", 1),
        ("x y z", 0),
        ("p q", 0),
        ("r", 1),
        ("s t u v", 1),
    ]
    right = [
        ("one", 1),
        ("one two", 0),
        ("a b c", 1),
        ("d", 1),
        ("e f g h", 0),
        ("i j", 0),
        ("k", 1),
    ]
    return all(
        math.isclose(evaluate(PlayModel(), some, size), wanted)
        for some, wanted in ((examples, 4 / 7), (right, 1.0))
        for size in (2, 3, 7, 10)
    )


RIGHT_EVALUATIONS: tuple[tuple[str, Evaluate], ...] = (
    ("batch by batch", _by_batches),
    ("after sorting the examples by length, labels and all", _by_length),
)
ACCURACY_MUSEUM = (
    Exhibit(
        "dropout left on",
        "never calls model.eval(), so the model still drops numbers while it is scored",
        _train_mode,
        "give PlayModel examples that it gets all right after eval(): the score must be 1.",
    ),
    Exhibit(
        "the last batch dropped",
        "skips the examples that do not fill a batch (drop_last=True, as in training)",
        _drops_the_last,
        "use 7 examples in batches of 3, and let the last one be wrong.",
    ),
    Exhibit(
        "mean of batch means",
        "gives the few examples of the last batch the weight of a full one",
        _mean_of_means,
        "use 7 examples in batches of 3, the last one wrong, the others right: 6/7 is right.",
    ),
    Exhibit(
        "labels in another order",
        "sorts the texts by length to save padding, and forgets the labels",
        _sorts_texts_only,
        "let the texts come in no order of length, with labels that differ.",
    ),
    Exhibit(
        "divides by full batches",
        "divides by the number of batches times their size, also if the last is not full",
        _full_batches_assumed,
        "use 7 examples in batches of 3, all right: the score must be 1.",
    ),
    Exhibit(
        "one batch only",
        "scores the first batch, and stops",
        _first_batch,
        "put the wrong answers behind the first batch.",
    ),
)
ACCURACY_TEST = TestExercise(
    name="accuracy_test",
    argument="evaluate",
    thing="scoring function",
    start="a few (text, label) pairs of which you know how many check.PlayModel() gets right: it "
    "answers with the number of words modulo 2.",
    right=RIGHT_EVALUATIONS,
    museum=ACCURACY_MUSEUM,
    refuses_all="it returns False on every path, or the score that you expect is wrong: PlayModel "
    "answers 1 for one word, 0 for two words. Make a new PlayModel() for each call.",
    refuses_right="== between floats, or you expect the model to be asked in a certain order. Any "
    "order is right, as long as text and label stay together.",
    source=(right_accuracy_test, PlayModel),
)


def accuracy_test(function: object) -> None:
    """Check a learner's test: ``(evaluate) -> bool``, true if it computes accuracy.

    ``evaluate(model, examples, batch_size)`` gets (text, label) pairs. The test is run on two right
    functions and on the broken ones of the bug museum.
    """
    print(judge_test(ACCURACY_TEST, function))


SOLUTIONS: tuple[tuple[str, tuple[Any, ...]], ...] = (
    *((e.name, e.source) for e in (CLASS_SHARES, MACRO_F1, CHOOSE, LEAKED)),
    (ACCURACY_TEST.name, ACCURACY_TEST.source),
)
