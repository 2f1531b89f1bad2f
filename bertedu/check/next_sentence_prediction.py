"""The checks of notebook 06: one pair, the loss, the number to beat, ranking, two tests."""

import math
import operator
import random
from collections.abc import Callable, Sequence
from itertools import chain, pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from bertedu.check import exercise
from bertedu.check.exercise import Exercise, Function, Inputs, Mistake, UnreadableError
from bertedu.check.museum import Exhibit, TestExercise, judge_test
from bertedu.pretraining.loop import pretraining_loss
from bertedu.pretraining.next_sentence import IS_NEXT, NOT_NEXT, EncodedDocument, make_pairs

Sentences = list[list[int]]

# -- one pair


def right_pair(
    sentences: Sentences, start: int, split: int, end: int, other: list[int], coin: float
) -> tuple[list[int], list[int], int, int]:
    """Return A, B, the label and the sentence at which the walk goes on."""
    a = _join(sentences[start:split])
    if coin < 0.5:
        return a, _join(sentences[split:end]), IS_NEXT, end
    return a, other, NOT_NEXT, split


def _join(sentences: Sentences) -> list[int]:
    return [token for sentence in sentences for token in sentence]


def _pair_cases() -> list[Inputs]:
    dice = random.Random(9)
    cases: list[Inputs] = []
    for count, fewest, most in ((20, 2, 2), (40, 3, 3), (60, 4, 7)):
        for _ in range(count):
            ids = iter(range(5, 100))  # no id twice, so that each shows where it came from
            sizes = dice.choices((1, 2, 3), k=dice.randint(fewest, most))
            sentences = [[next(ids) for _ in range(size)] for size in sizes]
            start, split, end = sorted(dice.sample(range(len(sizes) + 1), 3))
            other = [next(ids) for _ in range(dice.randint(1, 2))]
            coin = dice.choice((5, 20, 40, 60, 80, 95)) / 100
            cases.append((sentences, start, split, end, other, coin))
    return cases


def _kind(value: object) -> str:
    name = type(value).__name__
    return "None" if value is None else f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def _read_pair(answer: Any, *_: Any) -> tuple[list[int], list[int], int, int]:
    if isinstance(answer, exercise.Changed):
        raise UnreadableError(
            "your function writes into the document, or into other: its next user gets more. Begin "
            "with an empty list, a = [], and add to that."
        )
    if not isinstance(answer, tuple | list) or len(answer) != 4:
        came = f"{len(answer)} things" if isinstance(answer, tuple | list) else _kind(answer)
        raise UnreadableError(
            f"your function returned {came}; return four things: a, b, label, go_on."
        )
    a, b, label, go_on = answer
    return (
        _read_span(a, "a"),
        _read_span(b, "b"),
        _read_whole(label, "label", "0 (IsNext) or 1 (NotNext)"),
        _read_whole(go_on, "go_on", "the number of a sentence"),
    )


def _read_span(span: Any, name: str) -> list[int]:
    span = span.tolist() if hasattr(span, "tolist") else span
    if not isinstance(span, list | tuple):
        raise UnreadableError(f"{name} is {_kind(span)}; a list of ids is wanted.")
    if any(isinstance(item, list | tuple) for item in span):
        raise UnreadableError(
            f"{name} is a list of sentences; one list of ids is wanted. Join them: [token for "
            "sentence in … for token in sentence]."
        )
    return [_read_whole(item, f"an item of {name}", "an id") for item in span]


def _read_whole(number: Any, name: str, wanted: str) -> int:
    try:
        return operator.index(number.item() if hasattr(number, "item") else number)
    except TypeError:
        raise UnreadableError(f"{name} is {_kind(number)}; {wanted} is wanted.") from None


def _pair_difference(inputs: Inputs, mine: Any, right: Any) -> str:
    """Name the results that differ, and no others."""
    parts = [
        f"{name} {exercise.plain(yours)} (right is {exercise.plain(ours)})"
        for name, yours, ours in zip(("a", "b", "label", "go_on"), mine, right, strict=True)
        if yours != ours
    ]
    return f"Yours gives {', '.join(parts)}."


Places = Callable[[int, int, int], tuple[int, int | None]]  # (start, split, end) -> two places


def _pairing(
    a: Places = lambda start, split, end: (start, split),
    b: Places = lambda start, split, end: (split, end),
    real: tuple[bool, bool] = (True, False),
    labels: tuple[int, int] = (IS_NEXT, NOT_NEXT),
    go_on: Places = lambda start, split, end: (end, split),
) -> Function:
    """Make a wrong function: where A and B are cut; then what coin < 0.5 gives, and the rest."""

    def wrong(
        sentences: Sentences, start: int, split: int, end: int, other: list[int], coin: float
    ) -> tuple[list[int], list[int], int, int | None]:
        tails = int(coin >= 0.5)
        places = start, split, end
        span = _join(sentences[slice(*b(*places))]) if real[tails] else other
        return _join(sentences[slice(*a(*places))]), span, labels[tails], go_on(*places)[tails]

    return wrong


PAIR = Exercise(
    name="pair",
    right=right_pair,
    cases=_pair_cases,
    read=_read_pair,
    differ=_pair_difference,
    first_part=0,
    tried="120 random cases, from 2 sentences to 7; spans of one sentence and of several.",
    start="A, which is sentences[start:split] joined; then an if for coin < 0.5.",
    source=(make_pairs, right_pair),
    mistakes=(
        Mistake(
            "the labels are swapped.",
            "IsNext is 0 and NotNext is 1, in the order of the paper's classifier.",
            (_pairing(labels=(NOT_NEXT, IS_NEXT)),),
        ),
        Mistake(
            "coin is compared the wrong way round.",
            "coin < 0.5 is the real pair: that B, label 0, and on at end.",
            (
                _pairing(
                    real=(False, True),
                    labels=(NOT_NEXT, IS_NEXT),
                    go_on=lambda start, split, end: (split, end),
                ),
            ),
        ),
        Mistake(
            "every pair is a real one: coin is not looked at.",
            "whoever always says IsNext would be right. From 0.5 on, B is other.",
            (
                _pairing(
                    real=(True, True), labels=(0, 0), go_on=lambda start, split, end: (end, end)
                ),
            ),
        ),
        Mistake(
            "every pair is a wrong one: coin is not looked at.",
            "with coin < 0.5, B is what follows A: sentences[split:end], joined.",
            (
                _pairing(
                    real=(False, False),
                    labels=(1, 1),
                    go_on=lambda start, split, end: (split, split),
                ),
            ),
        ),
        Mistake(
            "B follows A in the document although the label says NotNext.",
            "other is not used. With label 1, B is other.",
            (_pairing(real=(True, True)),),
        ),
        Mistake(
            "B is other although the label says IsNext.",
            "with label 0, B is what follows A: sentences[split:end], joined.",
            (_pairing(real=(False, False)),),
        ),
        Mistake(
            "the two kinds of B are swapped; their labels are not.",
            "with coin < 0.5, B is sentences[split:end], joined; otherwise it is other.",
            (_pairing(real=(False, True)),),
        ),
        Mistake(
            "the label is always 0.",
            "a pair with other is NotNext: label 1.",
            (_pairing(labels=(0, 0)),),
        ),
        Mistake(
            "the label is always 1.",
            "a pair from the document is IsNext: label 0.",
            (_pairing(labels=(1, 1)),),
        ),
        Mistake(
            "the walk always goes on at end, so displaced sentences are lost.",
            "if B is other, sentences[split:end] have not been used: go on at split.",
            (_pairing(go_on=lambda start, split, end: (end, end)),),
        ),
        Mistake(
            "the walk always goes on at split, so a real B comes again as an A.",
            "if B is from the document, its sentences are used up: go on at end.",
            (_pairing(go_on=lambda start, split, end: (split, split)),),
        ),
        Mistake(
            "the two places to go on are swapped.",
            "after a real B go on at end; after other, at split.",
            (_pairing(go_on=lambda start, split, end: (split, end)),),
        ),
        Mistake(
            "the walk goes on one sentence too late.",
            "end is the first sentence that is *not* in B, so nothing is to be added.",
            (
                _pairing(go_on=lambda start, split, end: (end + 1, split + 1)),
                _pairing(go_on=lambda start, split, end: (end + 1, split)),
                _pairing(go_on=lambda start, split, end: (end, split + 1)),
            ),
        ),
        Mistake(
            "the walk does not move on.",
            "it would never end. After a wrong pair, A is used up: go on at split.",
            (
                _pairing(go_on=lambda start, split, end: (end, start)),
                _pairing(go_on=lambda start, split, end: (start, start)),
            ),
        ),
        Mistake(
            "the walk goes on at start + 1, whatever was used.",
            "A may hold several sentences: go on at split, or at end if B was real.",
            (
                _pairing(go_on=lambda start, split, end: (end, start + 1)),
                _pairing(go_on=lambda start, split, end: (start + 1, start + 1)),
            ),
        ),
        Mistake(
            "go_on says how many sentences were used, not where to go on.",
            "it counts from the start of the document, as start does: end, or split.",
            (_pairing(go_on=lambda start, split, end: (end - start, split - start)),),
        ),
        Mistake(
            "A is one sentence too long.",
            "a slice leaves its end out: sentences[start:split], without + 1.",
            (
                _pairing(a=lambda start, split, end: (start, split + 1)),
                _pairing(
                    a=lambda start, split, end: (start, split + 1),
                    b=lambda start, split, end: (split, end + 1),
                ),
            ),
        ),
        Mistake(
            "A is one sentence too short.",
            "a slice leaves its end out already: sentences[start:split], without - 1.",
            (
                _pairing(a=lambda start, split, end: (start, split - 1)),
                _pairing(
                    a=lambda start, split, end: (start, split - 1),
                    b=lambda start, split, end: (split, end - 1),
                ),
            ),
        ),
        Mistake(
            "A begins at the start of the document.",
            "sentences[:split] takes along what earlier pairs have used: sentences[start:split].",
            (_pairing(a=lambda start, split, end: (0, split)),),
        ),
        Mistake(
            "A is its first sentence only.",
            "sentences[start] is one sentence. A is all of sentences[start:split], joined.",
            (_pairing(a=lambda start, split, end: (start, start + 1)),),
        ),
        Mistake(
            "A runs up to end: it holds the real B as well.",
            "whoever sees the answer in A need not predict it. A ends before split.",
            (_pairing(a=lambda start, split, end: (start, end)),),
        ),
        Mistake(
            "B starts one sentence late, so it does not follow A.",
            "A ends before sentence split, and B starts with it: sentences[split:end].",
            (_pairing(b=lambda start, split, end: (split + 1, end)),),
        ),
        Mistake(
            "B starts with the last sentence of A.",
            "A ends before sentence split, and B starts with it: sentences[split:end].",
            (_pairing(b=lambda start, split, end: (split - 1, end)),),
        ),
        Mistake(
            "B holds A as well.",
            "B starts where A ends: sentences[split:end].",
            (_pairing(b=lambda start, split, end: (start, end)),),
        ),
        Mistake(
            "B is one sentence too short.",
            "a slice leaves its end out already: sentences[split:end], without - 1.",
            (_pairing(b=lambda start, split, end: (split, end - 1)),),
        ),
        Mistake(
            "B is one sentence too long.",
            "a slice leaves its end out: sentences[split:end], without + 1.",
            (_pairing(b=lambda start, split, end: (split, end + 1)),),
        ),
        Mistake(
            "B is its first sentence only.",
            "sentences[split] is one sentence. B is all of sentences[split:end], joined.",
            (_pairing(b=lambda start, split, end: (split, split + 1)),),
        ),
        Mistake(
            "B runs to the end of the document.",
            "sentences[split:] takes what later pairs need: sentences[split:end].",
            (_pairing(b=lambda start, split, end: (split, None)),),
        ),
        Mistake(
            "A and B are in the wrong order.",
            "return a, b, label, go_on, in this order.",
            (lambda *x: (*right_pair(*x)[1::-1], *right_pair(*x)[2:]),),
        ),
        Mistake(
            "label and go_on are in the wrong order.",
            "return a, b, label, go_on, in this order.",
            (lambda *x: (*right_pair(*x)[:2], *right_pair(*x)[:1:-1]),),
        ),
    ),
)


def pair(function: object) -> None:
    """Check ``(sentences, start, split, end, other, coin) -> (a, b, label, go_on)``.

    A is sentences start to split - 1, joined. If coin < 0.5, B is sentences split to end - 1,
    joined, the label is 0, and the walk goes on at end; otherwise other, 1 and split.
    """
    print(exercise.judge(PAIR, exercise.that_changes_nothing(function, operator.ne)))


# -- the loss


def right_nsp_loss(scores: Tensor, labels: Tensor) -> Tensor:
    """Mean cross-entropy (B, 2), (B,) -> (); label 0 is IsNext."""
    return F.cross_entropy(scores, labels)


def _nsp_cases() -> list[Inputs]:
    generator = torch.Generator().manual_seed(10)
    cases: list[Inputs] = []
    for count, size in ((20, 1), (40, 2), (40, 3), (20, 8)):
        for _ in range(count):
            scores = torch.randn(size, 2, generator=generator).mul(20).round() / 10
            cases.append((scores, torch.randint(2, (size,), generator=generator)))
    return cases


def _read_number(answer: Any, *_: Any) -> float:
    return exercise.read_number(answer)


def _each(scores: Tensor, labels: Tensor, dim: int = -1) -> Tensor:
    """-ln P(label) of every pair (B,)."""
    return -scores.log_softmax(dim).gather(-1, labels[:, None])[:, 0]


Loss = Callable[[Tensor, Tensor], Tensor]


def _without_label(ignored: int) -> tuple[Loss, ...]:
    """Make three losses that leave out the pairs with one label."""
    return (
        lambda scores, labels: F.cross_entropy(scores, labels, ignore_index=ignored),
        lambda scores, labels: F.cross_entropy(scores, labels, ignore_index=ignored).nan_to_num(),
        lambda scores, labels: (_each(scores, labels) * (labels != ignored)).mean(),
    )


def _blind(scores: Tensor, labels: Tensor) -> Tensor:
    return -scores.log_softmax(-1)[:, IS_NEXT].mean()


def _swapped(scores: Tensor, labels: Tensor) -> Tensor:
    return right_nsp_loss(scores, 1 - labels)


def _across_pairs(scores: Tensor, labels: Tensor) -> Tensor:
    return _each(scores, labels, dim=0).mean()


def _halved(scores: Tensor, labels: Tensor) -> Tensor:
    return right_nsp_loss(scores, labels) / 2


def _weighted_after(scores: Tensor, labels: Tensor) -> Tensor:
    return (right_nsp_loss(scores, labels) * labels).mean()


NSP_LOSS = Exercise(
    name="nsp_loss",
    right=right_nsp_loss,
    cases=_nsp_cases,
    read=_read_number,
    tried="120 random cases, from one pair to 8; batches of one label, too.",
    start="scores.log_softmax(dim=-1), two numbers a pair; then the label's, and their mean.",
    source=(pretraining_loss, right_nsp_loss),
    mistakes=(
        Mistake(
            "real pairs are not counted.",
            "ignore_index=0 belongs to MLM, where 0 is [PAD]; here it is IsNext. With one loss for "
            "both tasks codertimo/BERT-pytorch never scored its label 0: the loss fell fast, the "
            "accuracy stayed at 50 % (issue 32).",
            _without_label(IS_NEXT),
        ),
        Mistake(
            "wrong pairs are not counted.",
            "both labels must be learned: leave out ignore_index, and the weights.",
            _without_label(NOT_NEXT),
        ),
        Mistake(
            "the labels do not pick one score for each pair.",
            "[:, labels] takes these columns of every pair, [labels] takes whole rows. Pair by "
            "pair: log_share[torch.arange(len(labels)), labels].",
            (
                lambda scores, labels: -scores.log_softmax(-1)[:, labels].mean(),
                lambda scores, labels: -scores.log_softmax(-1)[labels % len(labels)].mean(),
            ),
        ),
        Mistake(
            "softmax runs over the batch.",
            "dim=0 are the pairs. Each pair shares out one unit over its two labels: dim=-1.",
            (_across_pairs,),
        ),
        Mistake(
            "this is the sum over the pairs, not their mean.",
            "twice the batch would mean twice the loss: divide by B.",
            (lambda scores, labels: _each(scores, labels).sum(),),
        ),
        Mistake(
            "the sum is divided by 2B; there are B pairs.",
            "a mean over (B, 2) counts both labels. Only one of the two is asked for: divide by B.",
            (_halved,),
        ),
        Mistake(
            "the mean is multiplied by the labels.",
            "a real pair has label 0, and loses its weight. Every pair counts the same.",
            (_weighted_after,),
        ),
        Mistake(
            "the logarithm is missing.",
            "this is a mean of probabilities. The loss is the mean of -ln P(label).",
            (
                lambda scores, labels: 1 - (-_each(scores, labels)).exp().mean(),
                lambda scores, labels: -(-_each(scores, labels)).exp().mean(),
                lambda scores, labels: (-_each(scores, labels)).exp().mean(),
            ),
        ),
        Mistake(
            "the logarithm is taken of the mean probability.",
            "first the logarithm for each pair, then the mean: -P.log().mean().",
            (lambda scores, labels: -(-_each(scores, labels)).exp().mean().log(),),
        ),
        Mistake(
            "softmax is missing: scores are treated as log probabilities.",
            "-scores[label] is no probability. Take scores.log_softmax(-1), or F.cross_entropy.",
            (lambda scores, labels: F.nll_loss(scores, labels),),
        ),
        Mistake(
            "softmax is applied twice.",
            "F.cross_entropy does its own softmax: give it the scores as they are.",
            (lambda scores, labels: right_nsp_loss(scores.softmax(-1), labels),),
        ),
        Mistake(
            "the labels are swapped.",
            "column 0 is IsNext, and so is label 0: no 1 - labels, and no flip.",
            (_swapped,),
        ),
        Mistake(
            "the labels are not looked at.",
            "every pair is scored as IsNext, as NotNext, or as both. Pick the column of its label.",
            (
                _blind,
                lambda scores, labels: -scores.log_softmax(-1)[:, NOT_NEXT].mean(),
                lambda scores, labels: -scores.log_softmax(-1).mean(),
                lambda scores, labels: -scores.log_softmax(-1).sum(-1).mean(),
            ),
        ),
        Mistake(
            "only one of the two columns is used, with a sigmoid.",
            "what counts is the difference of the two scores, and softmax takes it: "
            "scores.log_softmax(-1).",
            tuple(
                lambda scores, labels, column=column, turned=turned: (
                    F.binary_cross_entropy_with_logits(
                        scores[:, column], (1 - labels if turned else labels).float()
                    )
                )
                for column in (IS_NEXT, NOT_NEXT)
                for turned in (False, True)
            ),
        ),
        Mistake(
            "each score has a sigmoid of its own.",
            "so both labels could be likely at once. A pair has one of two labels: softmax.",
            (
                lambda scores, labels: F.binary_cross_entropy_with_logits(
                    scores, F.one_hot(labels, 2).float()
                ),
                lambda scores, labels: F.binary_cross_entropy_with_logits(
                    scores, F.one_hot(labels, 2).float()
                ).mul(2),
                lambda scores, labels: -_picked(F.logsigmoid(scores), labels).mean(),
            ),
        ),
        Mistake(
            "the loss is in bits.",
            "log2. Ours is in nats, so that chance is ln 2: use the natural logarithm.",
            (lambda scores, labels: right_nsp_loss(scores, labels) / math.log(2),),
        ),
        Mistake(
            "the sign is wrong: a better model would get a higher number.",
            "ln P is never above 0. The loss is -ln P.",
            (lambda scores, labels: -right_nsp_loss(scores, labels),),
        ),
        Mistake(
            "this counts right and wrong answers; it is no loss.",
            "argmax has no slope, so nothing can be learned from it. Take -ln P(label).",
            (
                lambda scores, labels: (scores.argmax(-1) != labels).float().mean(),
                lambda scores, labels: (scores.argmax(-1) == labels).float().mean(),
            ),
        ),
    ),
)


def _picked(values: Tensor, labels: Tensor) -> Tensor:
    return values.gather(-1, labels[:, None])[:, 0]


def nsp_loss(function: object) -> None:
    """Check ``(scores (B, 2), labels (B,)) -> scalar``; column 0 and label 0 are IsNext.

    Right is the mean cross-entropy in nats.
    """
    print(exercise.judge(NSP_LOSS, function))


# -- a test for losses


def _by_hand(scores: Tensor, labels: Tensor) -> Tensor:
    return _each(scores, labels).mean()


RIGHT_NSP_LOSSES: tuple[tuple[str, Loss], ...] = (
    ("with F.cross_entropy", right_nsp_loss),
    ("with log_softmax and gather", _by_hand),
)

NSP_MUSEUM = (
    Exhibit(
        "codertimo/BERT-pytorch, NLLLoss(ignore_index=0)",
        "shares the loss of MLM, so label 0 is never counted (there it is NotNext, here IsNext; "
        "issue 98)",
        _without_label(IS_NEXT)[0],
        "score a real pair alone, or move its scores. A batch of NotNext alone looks fine.",
    ),
    Exhibit(
        "labels ignored",
        "scores every pair as if it were IsNext",
        _blind,
        "change one label: the loss must move.",
    ),
    Exhibit(
        "labels swapped",
        "scores a real pair as NotNext, and a wrong one as IsNext",
        _swapped,
        "scores of (20, 0) with label 0 must give a loss near 0.",
    ),
    Exhibit(
        "softmax over the batch",
        "lets the pairs of a batch share out one unit (dim=0)",
        _across_pairs,
        "score two pairs together and apart: the mean must agree.",
    ),
    Exhibit(
        "weights after the mean",
        "multiplies the mean by the labels, so a real pair makes the batch lighter",
        _weighted_after,
        "a batch with a real pair and even scores must give ln 2.",
    ),
    Exhibit(
        "mean over 2B",
        "divides by both columns of all pairs",
        _halved,
        "even scores must give ln 2 = 0.693, not half of it.",
    ),
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


NSP_LOSS_TEST = TestExercise(
    name="nsp_loss_test",
    argument="loss_function",
    thing="loss",
    start="a small example: scores (B, 2) and labels (B,), and the loss worked out by hand.",
    right=RIGHT_NSP_LOSSES,
    museum=NSP_MUSEUM,
    refuses_all="it returns False on every path, or the value worked out by hand is wrong or too "
    "coarse: compare with isclose and atol=1e-3, not with ==. "
    "Print that value beside what the loss function gives.",
    refuses_right="== between floats. Two right ways of computing may differ in the last "
    "digit: use torch.isclose.",
    source=(right_nsp_loss_test,),
)


def nsp_loss_test(function: object) -> None:
    """Check a learner's test: ``(loss_function) -> bool``, true if it is a right NSP loss.

    The test is run on two right losses and on the broken ones of the bug museum.
    """
    print(judge_test(NSP_LOSS_TEST, function))


# -- the number to beat


def right_majority(labels: Tensor) -> float:
    """Share of (N,) labels that are right if one always answers the more frequent one."""
    share = float(labels.float().mean())
    return max(share, 1 - share)


def _majority_cases() -> list[Inputs]:
    generator = torch.Generator().manual_seed(11)
    cases: list[Inputs] = []
    for count, size in ((4, 1), (16, 2), (20, 3), (30, 5), (30, 9)):
        for _ in range(count):
            chance = torch.rand(1, generator=generator)
            cases.append(((torch.rand(size, generator=generator) < chance).long(),))
    return cases


def _ones(labels: Tensor) -> float:
    return float(labels.float().mean())


MAJORITY = Exercise(
    name="majority",
    right=right_majority,
    cases=_majority_cases,
    read=_read_number,
    tried="100 random cases, from one label to 9. Either label may be the more frequent one.",
    start="the share of labels that are 1. What if it is below one half?",
    source=(right_majority,),
    mistakes=(
        Mistake(
            "this is the share of NotNext (1).",
            "if IsNext is more frequent, one would always answer that: max(share, 1 - share).",
            (_ones,),
        ),
        Mistake(
            "this is the share of IsNext (0).",
            "if NotNext is more frequent, one would always answer that: max(share, 1 - share).",
            (lambda labels: 1 - _ones(labels),),
        ),
        Mistake(
            "this is one half, whatever the labels are.",
            "half is what a coin gets. These labels need not be even: count them.",
            (lambda labels: 0.5,),
        ),
        Mistake(
            "the less frequent label is answered.",
            "min gives the share of errors. The share right is max.",
            (lambda labels: 1 - right_majority(labels),),
        ),
        Mistake(
            "this is how many are right, not their share.",
            "divide by len(labels).",
            (lambda labels: round(right_majority(labels) * len(labels)),),
        ),
        Mistake(
            "the division drops the fraction.",
            "// gives whole numbers: 0, but for labels that are all alike. Use /.",
            (lambda labels: int(right_majority(labels)),),
        ),
        Mistake(
            "this is the more frequent label itself.",
            "that is the answer to give. Asked is how often it is right: the share of labels that "
            "equal it.",
            (
                lambda labels: labels.mode().values,
                lambda labels: int(_ones(labels) > 0.5),
                lambda labels: int(_ones(labels) >= 0.5),
            ),
        ),
        Mistake(
            "this is how much more frequent the one label is than the other.",
            "asked is the share of the more frequent one among all N.",
            (
                lambda labels: abs(2 * _ones(labels) - 1),
                lambda labels: (
                    right_majority(labels) / (1 - right_majority(labels))
                    if 0 < _ones(labels) < 1
                    else math.inf
                ),
            ),
        ),
        Mistake(
            "this is for answers drawn as often as the labels occur: p² + (1 - p)².",
            "better is to give the more frequent answer every time: max(p, 1 - p).",
            (lambda labels: _ones(labels) ** 2 + (1 - _ones(labels)) ** 2,),
        ),
        Mistake(
            "the first label is always answered.",
            "it need not be the more frequent one. Count both.",
            (lambda labels: float((labels == labels[0]).float().mean()),),
        ),
        Mistake(
            "every label is counted as a different one.",
            "a Counter or set over a tensor takes each element for a thing of its own. Count "
            "labels.tolist().",
            (lambda labels: 1 / len(labels), lambda labels: 1),
        ),
        Mistake(
            "this is in percent.",
            "a share lies between 0 and 1. Leave out the 100.",
            (lambda labels: right_majority(labels) * 100,),
        ),
    ),
)


def majority(function: object) -> None:
    """Check ``(labels (N,)) -> float``, the accuracy of always giving the more frequent answer."""
    print(exercise.judge(MAJORITY, function))


# -- ranking


def right_ranking(real: Tensor, wrong: Tensor) -> float:
    """Share of N pairs of scores (N,), (N,) in which the real one is higher; a tie is half."""
    return float(((real > wrong).float() + 0.5 * (real == wrong).float()).mean())


def _ranking_cases() -> list[Inputs]:
    generator = torch.Generator().manual_seed(12)
    cases: list[Inputs] = []
    for count, size in ((20, 1), (30, 2), (30, 3), (20, 7)):
        for _ in range(count):
            scores = torch.randint(-4, 5, (2, size), generator=generator) / 4
            tied = torch.rand(size, generator=generator) < 0.3
            cases.append((scores[0], torch.where(tied, scores[0], scores[1])))
    return cases


def _points(tie: float) -> Callable[[Tensor, Tensor], Tensor]:
    """Make a function that gives a point if real is higher, and so much for a tie."""
    return lambda real, wrong: (real > wrong).float() + tie * (real == wrong).float()


def _wins(real: Tensor, wrong: Tensor) -> Tensor:
    return (real > wrong).float().sum()


RANKING = Exercise(
    name="ranking",
    right=right_ranking,
    cases=_ranking_cases,
    read=_read_number,
    tried="100 random cases, from one pair to 7, a third of them ties.",
    start="real > wrong, which is (N,). Then the ties, real == wrong.",
    source=(right_ranking,),
    mistakes=(
        Mistake(
            "a tie counts as a win.",
            ">= in place of >. Who gives all pairs one score would get 1, and knows nothing: a tie "
            "is one half.",
            (lambda real, wrong: _points(1)(real, wrong).mean(),),
        ),
        Mistake(
            "a tie counts nothing.",
            "who gives all pairs one score knows as much as a coin: a tie is one half.",
            (lambda real, wrong: _points(0)(real, wrong).mean(),),
        ),
        Mistake(
            "ties are left out of the count.",
            "they belong to the N pairs: a tie is one half, and divide by N.",
            (
                lambda real, wrong: _wins(real, wrong) / (real != wrong).sum(),
                lambda real, wrong: _wins(real, wrong) / (real != wrong).sum().clamp(min=1),
                lambda real, wrong: (_wins(real, wrong) / (real != wrong).sum()).nan_to_num(0.5),
            ),
        ),
        Mistake(
            "the comparison is the wrong way round.",
            "a point is won where the *real* pair is higher: real > wrong.",
            tuple(
                lambda real, wrong, tie=tie: _points(tie)(wrong, real).mean() for tie in (0.5, 0, 1)
            ),
        ),
        Mistake(
            "every real pair is compared with every wrong one.",
            "the pairs belong together, with the same A: compare real[i] with wrong[i], N times.",
            tuple(
                lambda real, wrong, tie=tie: _points(tie)(real[:, None], wrong).mean()
                for tie in (0.5, 0, 1)
            ),
        ),
        Mistake(
            "the scores are sorted first.",
            "that tears the pairs apart. Compare real[i] with wrong[i] as they come.",
            tuple(
                lambda real, wrong, tie=tie: _points(tie)(
                    real.sort().values, wrong.sort().values
                ).mean()
                for tie in (0.5, 0, 1)
            ),
        ),
        Mistake(
            "this is how many are right, not their share.",
            ".sum() where .mean() is wanted: divide by N.",
            tuple(
                lambda real, wrong, tie=tie: _points(tie)(real, wrong).sum() for tie in (0.5, 0, 1)
            ),
        ),
        Mistake(
            "this is one number for each pair.",
            ".mean() is missing.",
            tuple(map(_points, (0.5, 0, 1))),
        ),
        Mistake(
            "the two means are compared.",
            "one high score can outweigh many lost pairs. Compare each pair, then take the mean.",
            tuple(
                lambda real, wrong, tie=tie: _points(tie)(real.mean(), wrong.mean())
                for tie in (0.5, 0, 1)
            ),
        ),
        Mistake(
            "this is the mean difference of the scores.",
            "only the order counts, however narrow: real > wrong.",
            (lambda real, wrong: (real - wrong).mean(),),
        ),
        Mistake(
            "this is the mean of a sigmoid of the difference.",
            "only the order counts, however narrow: real > wrong.",
            (lambda real, wrong: (real - wrong).sigmoid().mean(),),
        ),
        Mistake(
            "lost pairs are subtracted: this runs from -1 to 1.",
            "a win is 1, a tie one half, a loss 0.",
            (lambda real, wrong: (real - wrong).sign().mean(),),
        ),
        Mistake(
            "each score is held against a threshold, not against the other one.",
            "that is the accuracy of a yes or no. Here the two are compared: real > wrong.",
            tuple(
                judge
                for limit in (0.0, 0.5)
                for judge in (
                    lambda real, wrong, limit=limit: (real > limit).float().mean(),
                    lambda real, wrong, limit=limit: (real >= limit).float().mean(),
                    lambda real, wrong, limit=limit: (
                        torch.cat([real > limit, wrong <= limit]).float().mean()
                    ),
                    lambda real, wrong, limit=limit: (
                        torch.cat([real >= limit, wrong < limit]).float().mean()
                    ),
                )
            ),
        ),
        Mistake(
            "this is in percent.",
            "a share lies between 0 and 1. Leave out the 100.",
            (lambda real, wrong: right_ranking(real, wrong) * 100,),
        ),
    ),
)


def ranking(function: object) -> None:
    """Check ``(real (N,), wrong (N,)) -> float``: how often real[i] > wrong[i]; a tie is half."""
    print(exercise.judge(RANKING, function))


# -- a test for pair builders

Documents = Sequence[tuple[str, Sentences]]
Triple = tuple[list[int], list[int], int]
Builder = Callable[[Documents, int], list[Triple]]


def _by_package(documents: Documents, seed: int) -> list[Triple]:
    """Use make_pairs, with so much room that nothing is cut."""
    encoded = [EncodedDocument(source, sentences) for source, sentences in documents]
    room = 5 + sum(len(_join(sentences)) for _, sentences in documents)
    made = make_pairs(encoded, room, np.random.default_rng(seed))
    return [(pair.a, pair.b, pair.label) for pair in made]


Draw = Callable[[Documents, int, random.Random], list[int]]  # (documents, whose A, …) -> B


def _candidates(documents: Documents, index: int, same_source: bool = True) -> list[Sentences]:
    """List the other documents of the same source, or those of other sources, if there are any."""
    source = documents[index][0]
    return [
        sentences
        for i, (other, sentences) in enumerate(documents)
        if i != index and sentences and (other == source) == same_source
    ]


def _from_another(documents: Documents, index: int, dice: random.Random) -> list[int]:
    return dice.choice(dice.choice(_candidates(documents, index)))


def _building(draw: Draw = _from_another, even: bool = True) -> Builder:
    """Make a builder that pairs single neighbors, or a sentence with what ``draw`` draws."""

    def build(documents: Documents, seed: int) -> list[Triple]:
        dice = random.Random(seed)
        made = []
        for index, (_, sentences) in enumerate(documents):
            for a, b in pairwise(sentences):
                if dice.random() < 0.5 or not even:
                    made.append((list(a), list(b), IS_NEXT))
                else:
                    made.append((list(a), list(draw(documents, index, dice)), NOT_NEXT))
        return made

    return build


def _from_anywhere(documents: Documents, index: int, dice: random.Random) -> list[int]:
    return dice.choice(documents[index][1] if dice.random() < 0.5 else _other(documents, index))


def _other(documents: Documents, index: int) -> Sentences:
    return _candidates(documents, index)[0]


def _from_another_source(documents: Documents, index: int, dice: random.Random) -> list[int]:
    foreign = _candidates(documents, index, same_source=False)
    return dice.choice(dice.choice(foreign or _candidates(documents, index)))


def _swapped_labels(documents: Documents, seed: int) -> list[Triple]:
    return [(a, b, 1 - label) for a, b, label in _building()(documents, seed)]


def _across_ends(documents: Documents, seed: int) -> list[Triple]:
    ends = pairwise(sentences for _, sentences in documents if sentences)
    crossing = [(list(a[-1]), list(b[0]), IS_NEXT) for a, b in ends]
    return _building()(documents, seed) + crossing


def _shuffled(documents: Documents, seed: int) -> list[Triple]:
    dice = random.Random(seed)
    return _building()([(s, dice.sample(lines, len(lines))) for s, lines in documents], seed)


RIGHT_BUILDERS: tuple[tuple[str, Builder], ...] = (
    ("with make_pairs, whose A and B may be several sentences", _by_package),
    ("by hand, with A and B of one sentence", _building()),
)

PAIR_MUSEUM = (
    Exhibit(
        "all IsNext",
        "never makes a wrong pair",
        _building(even=False),
        "build a few dozen pairs: both labels must occur.",
    ),
    Exhibit(
        "labels swapped",
        "calls real pairs 1 and wrong ones 0",
        _swapped_labels,
        "with label 0, B must follow A in the document.",
    ),
    Exhibit(
        "B from the same document",
        "draws some of the wrong B from the document of A",
        _building(_from_anywhere),
        "give every document ids of its own: with label 1, B may hold none of the ids of A's "
        "document.",
    ),
    Exhibit(
        "B from another source",
        "draws the wrong B from another source, whose style gives the answer away",
        _building(_from_another_source),
        "use two sources of two documents each: with label 1, A and B must share the source.",
    ),
    Exhibit(
        "across documents' ends",
        "pairs the last sentence of a document with the first of the next, and calls it IsNext",
        _across_ends,
        "look at *all* pairs with label 0: A and B must be of one document.",
    ),
    Exhibit(
        "always the same B",
        "takes the same sentence for every wrong pair of a document, to be learned by heart",
        _building(lambda documents, index, dice: _other(documents, index)[0]),
        "gather the B of all wrong pairs of a document of many sentences: they must differ.",
    ),
    Exhibit(
        "shuffled corpora",
        "shuffles the sentences before it pairs them, so that nothing follows anything",
        _shuffled,
        "number the ids through: with label 0, B must begin with the id after A's last.",
    ),
)


def right_pair_test(builder: Builder) -> bool:
    """Say whether a builder is right, by documents whose ids tell where each comes from.

    Document d of four has ids 100·d to 100·d + 23, two a sentence; 0 and 1 are of one source, 2
    and 3 of the other.
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


PAIR_TEST = TestExercise(
    name="pair_test",
    argument="builder",
    thing="builder",
    start="four documents of two sources, in which every id occurs once; then look at each of "
    "builder(documents, seed).",
    right=RIGHT_BUILDERS,
    museum=PAIR_MUSEUM,
    refuses_all="it returns False on every path, or takes 0 for NotNext. Print a few pairs of "
    "builder(documents, seed) and look at them.",
    refuses_right="it asks for more than it may. A and B may be several sentences long, and a few "
    "pairs may all have the same label: build many, with several seeds.",
    source=(right_pair_test,),
)


def pair_test(function: object) -> None:
    """Check a learner's test: ``(builder) -> bool``, true if it builds right pairs.

    ``builder(documents, seed)`` takes a list of (source, sentences) and returns a list of
    (a, b, label). The test is run on two right builders and on the broken ones of the bug museum.
    """
    print(judge_test(PAIR_TEST, function))


SOLUTIONS: tuple[tuple[str, tuple[Any, ...]], ...] = (
    *((e.name, e.source) for e in (PAIR, NSP_LOSS)),
    (NSP_LOSS_TEST.name, NSP_LOSS_TEST.source),
    *((e.name, e.source) for e in (MAJORITY, RANKING)),
    (PAIR_TEST.name, PAIR_TEST.source),
)
