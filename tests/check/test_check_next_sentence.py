"""The checks of notebook 06: a pair, its loss, the number to beat, ranking, and two tests."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable
from itertools import chain, pairwise
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from verdicts import assert_named_alone, verdict, words

from bertedu.check import next_sentence_prediction as check
from bertedu.check.next_sentence_prediction import (
    NSP_MUSEUM,
    PAIR_MUSEUM,
    RIGHT_BUILDERS,
    RIGHT_NSP_LOSSES,
    right_majority,
    right_nsp_loss,
    right_nsp_loss_test,
    right_pair,
    right_pair_test,
    right_ranking,
)
from bertedu.pretraining.next_sentence import EncodedDocument, make_pairs

Ids = list[int]

# -- pair


def test_the_pair_reference_walks_as_the_package_does() -> None:
    """The same draws in the same order; there is room enough, so nothing is cut."""
    documents = [
        EncodedDocument("one source", [[100 * d + s] for s in range(5, 17)]) for d in (0, 1)
    ]
    theirs = list(make_pairs(documents, 99, np.random.default_rng(4)))
    rng, ours, room = np.random.default_rng(4), [], 99 - 3
    for index, document in enumerate(documents):
        start = 0
        while start + 1 < len(document.sentences):
            split = int(rng.integers(start + 1, len(document.sentences)))
            coin, other = float(rng.random()), []
            if coin >= 0.5:
                while int(rng.integers(2)) == index:
                    pass
                begin = int(rng.integers(len(documents[1 - index].sentences)))
                other = list(chain(*documents[1 - index].sentences[begin:]))
            sentences = document.sentences
            a, b, label, start = right_pair(sentences, start, split, len(sentences), other, coin)
            rng.random(2)  # truncate_pair
            ours.append((a, b, label))
    assert max(len(a) + len(b) for a, b, _ in ours) <= room
    assert ours == [(pair.a, pair.b, pair.label) for pair in theirs]


Sentences = list[Ids]


def pair_by_loops(
    sentences: Sentences, start: int, split: int, end: int, other: Ids, coin: float
) -> Any:
    a: Ids = []
    for place in range(start, split):
        a.extend(sentences[place])
    b: Ids = []
    if coin >= 0.5:
        return a, other, 1, split
    for place in range(split, end):
        b += sentences[place]
    return a, b, 0, end


def pair_by_sum(s: Sentences, start: int, split: int, end: int, other: Ids, coin: float) -> Any:
    real = coin < 0.5
    a, b = (sum(s[i:j], []) for i, j in ((start, split), (split, end)))  # noqa: RUF017
    return [a, b if real else other, not real, end if real else split]


def pair_by_chain(s: Sentences, start: int, split: int, end: int, other: Ids, coin: float) -> Any:
    a, b = tuple(chain(*s[start:split])), chain.from_iterable(s[split:end])
    return (a, list(b), 0, end) if coin < 0.5 else (a, tuple(other), 1, split)


def pair_in_numpy(s: Sentences, start: int, split: int, end: int, other: Ids, coin: float) -> Any:
    a, label = np.concatenate(s[start:split]), np.int64(coin >= 0.5)
    return a, np.concatenate(s[split:end]) if coin < 0.5 else other, label, (end, split)[label]


def pair_in_torch(s: Sentences, start: int, split: int, end: int, other: Ids, coin: float) -> Any:
    a = torch.cat([torch.tensor(sentence) for sentence in s[start:split]])
    label = torch.tensor(coin) >= 0.5
    return a, other if label else [*chain(*s[split:end])], label, torch.where(label, split, end)


@pytest.mark.parametrize(
    "f", [right_pair, pair_by_loops, pair_by_sum, pair_by_chain, pair_in_numpy, pair_in_torch]
)
def test_right_pairs_pass(f: Callable[..., Any]) -> None:
    said = verdict(check.pair, f)
    assert said.startswith("✓ pair: 120 random cases")


def pairs(
    a: str = "s[start:split]",
    b: str = "s[split:end]",
    test: str = "coin < 0.5",
    real: str = "a, b, 0, end",
    wrong: str = "a, other, 1, split",
) -> Callable[..., Any]:
    """Write a function as a learner would, with one expression changed."""
    scope: dict[str, Any] = {"join": lambda spans: list(chain(*spans))}
    exec(
        f"def f(s, start, split, end, other, coin):\n"
        f"    a, b = join({a}), join({b})\n"
        f"    if {test}:\n"
        f"        return {real}\n"
        f"    return {wrong}\n",
        scope,
    )
    f: Callable[..., Any] = scope["f"]
    return f


def nested(s: Sentences, start: int, split: int, end: int, other: Ids, coin: float) -> Any:
    return (
        (s[start:split], s[split:end], 0, end) if coin < 0.5 else (s[start:split], other, 1, split)
    )


def nested_b(s: Sentences, start: int, split: int, end: int, other: Ids, coin: float) -> Any:
    a, b, label, go_on = right_pair(s, start, split, end, other, coin)
    return a, b if label else s[split:end], label, go_on


def appended(s: Sentences, start: int, split: int, end: int, other: Ids, coin: float) -> Any:
    a = s[start].copy()
    for sentence in s[start + 1 : split]:
        a.append(sentence)  # type: ignore[arg-type]
    return (a, *right_pair(s, start, split, end, other, coin)[1:])


def in_place(s: Sentences, start: int, split: int, end: int, other: Ids, coin: float) -> Any:
    a = s[start]
    for sentence in s[start + 1 : split]:
        a += sentence
    return (a, *right_pair(s, start, split, end, other, coin)[1:])


def own_coin(s: Sentences, start: int, split: int, end: int, other: Ids, coin: float) -> Any:
    return right_pair(s, start, split, end, other, random.random())


PLANTED_PAIRS = [
    (pairs(real="a, b, 1, end", wrong="a, other, 0, split"), "the labels are swapped"),
    (pairs(test="coin > 0.5"), "coin is compared the wrong way round"),
    (pairs(test="True"), "every pair is a real one: coin is not looked at"),
    (pairs(test="False"), "every pair is a wrong one: coin is not looked at"),
    (pairs(wrong="a, b, 1, split"), "B follows A in the document although the label says Not"),
    (pairs(real="a, other, 0, end"), "B is other although the label says IsNext"),
    (
        pairs(real="a, other, 0, end", wrong="a, b, 1, split"),
        "the two kinds of B are swapped; their labels are not",
    ),
    (pairs(wrong="a, other, 0, split"), "the label is always 0"),
    (pairs(real="a, b, 1, end"), "the label is always 1"),
    (pairs(wrong="a, other, 1, end"), "always goes on at end, so displaced sentences are lost"),
    (pairs(real="a, b, 0, split"), "always goes on at split, so a real B comes again"),
    (
        pairs(real="a, b, 0, split", wrong="a, other, 1, end"),
        "the two places to go on are swapped",
    ),
    (pairs(wrong="a, other, 1, split + 1"), "the walk goes on one sentence too late"),
    (pairs(real="a, b, 0, end + 1"), "the walk goes on one sentence too late"),
    (pairs(wrong="a, other, 1, start"), "the walk does not move on"),
    (pairs(wrong="a, other, 1, start + 1"), "the walk goes on at start + 1"),
    (
        pairs(real="a, b, 0, end - start", wrong="a, other, 1, split - start"),
        "how many sentences were used, not where to go on",
    ),
    (pairs(a="s[start:split + 1]"), "A is one sentence too long"),
    (pairs(a="s[start:split + 1]", b="s[split:end + 1]"), "A is one sentence too long"),
    (pairs(a="s[start:split - 1]"), "A is one sentence too short"),
    (pairs(a="s[:split]"), "A begins at the start of the document"),
    (pairs(a="[s[start]]"), "A is its first sentence only"),
    (pairs(a="s[start:end]"), "A runs up to end"),
    (pairs(b="s[split + 1:end]"), "B starts one sentence late"),
    (pairs(b="s[split - 1:end]"), "B starts with the last sentence of A"),
    (pairs(b="s[start:end]"), "B holds A as well"),
    (pairs(b="s[split:end - 1]"), "B is one sentence too short"),
    (pairs(b="s[split:end + 1]"), "B is one sentence too long"),
    (pairs(b="[s[split]]"), "B is its first sentence only"),
    (pairs(b="s[split:]"), "B runs to the end of the document"),
    (pairs(real="b, a, 0, end", wrong="other, a, 1, split"), "A and B are in the wrong order"),
    (pairs(real="a, b, end, 0", wrong="a, other, split, 1"), "label and go_on are in the wrong"),
    (nested, "a is a list of sentences; one list of ids is wanted. Join them"),
    (nested_b, "b is a list of sentences; one list of ids is wanted. Join them"),
    (appended, "a is a list of sentences; one list of ids is wanted. Join them"),
    (in_place, "writes into the document, or into other"),
    (own_coin, "random numbers of its own"),
    (
        pairs(a="s[:split]", wrong="a, other, 1, end"),
        "A begins at the start of the document. (There is more, but this comes first.)",
    ),
]


@pytest.mark.parametrize(("wrong", "text"), PLANTED_PAIRS, ids=[text for _, text in PLANTED_PAIRS])
def test_each_wrong_pair_gets_its_own_message(wrong: Callable[..., Any], text: str) -> None:
    said = verdict(check.pair, wrong)
    assert said.startswith("✗ pair: ")
    assert text in words(said)
    assert "Smallest case: sentences = [[" in said
    assert said == verdict(check.pair, wrong)


def test_a_verdict_on_a_pair_in_full() -> None:
    said = verdict(check.pair, pairs(real="a, b, 1, end", wrong="a, other, 0, split"))
    assert said == (
        "✗ pair: the labels are swapped.\n"
        "  Smallest case: sentences = [[5, 6], [7]], start = 0, split = 1, end = 2, other = [8, 9],"
        " coin =\n    0.8.\n"
        "  Yours gives label 0 (right is 1).\n"
        "  Likely: IsNext is 0 and NotNext is 1, in the order of the paper's classifier.\n"
    )


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (lambda *x: right_pair(*x)[:3], "returned 3 things; return four things: a, b, label, go"),
        (lambda *x: "done", "returned a str; return four things"),
        (lambda *x: (7, *right_pair(*x)[1:]), "a is an int; a list of ids is wanted"),
        (lambda *x: (None, *right_pair(*x)[1:]), "a is None; a list of ids is wanted"),
        (lambda *x: (["a word"], *right_pair(*x)[1:]), "an item of a is a str; an id is wanted"),
        (
            lambda *x: (*right_pair(*x)[:2], "IsNext", right_pair(*x)[3]),
            "label is a str; 0 (IsNext) or 1 (NotNext) is wanted",
        ),
        (
            lambda *x: (*right_pair(*x)[:3], None),
            "go_on is None; the number of a sentence is wanted",
        ),
        (lambda *x: right_pair(*x) if x[-1] < 0.5 else None, "every path end in a return"),
    ],
)
def test_pairs_of_the_wrong_kind_are_described(wrong: Callable[..., Any], text: str) -> None:
    said = verdict(check.pair, wrong)
    assert said.startswith("✗ pair: ")
    assert text in words(said)


# -- nsp_loss


def nsp_by_loops(scores: Tensor, labels: Tensor) -> float:
    total = 0.0
    for row, label in zip(scores.tolist(), labels.tolist(), strict=True):
        powers = [math.exp(x) for x in row]
        total -= math.log(powers[label] / sum(powers))
    return total / len(labels)


def nsp_by_sigmoid(scores: Tensor, labels: Tensor) -> Tensor:
    """Right, since softmax over two is a sigmoid of their difference."""
    difference = scores[:, 1] - scores[:, 0]
    return F.binary_cross_entropy_with_logits(difference, labels.float())


@pytest.mark.parametrize(
    "f",
    [
        right_nsp_loss,
        nsp_by_loops,
        nsp_by_sigmoid,
        lambda scores, labels: right_nsp_loss(scores.half(), labels),
        lambda scores, labels: right_nsp_loss(scores.double(), labels).numpy(),
        lambda scores, labels: -scores.log_softmax(1)[torch.arange(len(labels)), labels].mean(),
    ],
)
def test_right_nsp_losses_pass(f: Callable[..., Any]) -> None:
    assert verdict(check.nsp_loss, f).startswith("✓ nsp_loss: 120 random cases")


def chance(scores: Tensor, labels: Tensor) -> Tensor:
    return scores.softmax(-1)[torch.arange(len(labels)), labels]


def real_pairs_weightless(scores: Tensor, labels: Tensor) -> Tensor:
    return (F.cross_entropy(scores, labels, reduction="none") * labels).mean()


def nsp_in_place(scores: Tensor, labels: Tensor) -> Tensor:
    scores -= scores.logsumexp(1, keepdim=True)
    return F.nll_loss(scores, labels)


PLANTED_NSP_LOSSES = [
    (lambda x, y: F.nll_loss(x.log_softmax(1), y, ignore_index=0), "real pairs are not counted"),
    (real_pairs_weightless, "real pairs are not counted"),
    (lambda x, y: F.cross_entropy(x, y, ignore_index=1), "wrong pairs are not counted"),
    (lambda x, y: F.nll_loss(x.log_softmax(0), y), "softmax runs over the batch"),
    (lambda x, y: F.cross_entropy(x, y, reduction="sum"), "the sum over the pairs, not their"),
    (lambda x, y: -(F.one_hot(y, 2) * x.log_softmax(-1)).mean(), "divided by 2B"),
    (lambda x, y: (F.cross_entropy(x, y) * y).mean(), "the mean is multiplied by the labels"),
    (lambda x, y: F.nll_loss(x.softmax(-1), y), "the logarithm is missing"),
    (lambda x, y: -chance(x, y).mean().log(), "the logarithm is taken of the mean"),
    (lambda x, y: -x[torch.arange(len(y)), y].mean(), "softmax is missing"),
    (lambda x, y: F.cross_entropy(x.softmax(1), y), "softmax is applied twice"),
    (lambda x, y: F.cross_entropy(x.flip(1), y), "the labels are swapped"),
    (lambda x, y: -x.log_softmax(1)[:, 1].mean(), "the labels are not looked at"),
    (
        lambda x, y: F.binary_cross_entropy(x[:, 1].sigmoid(), y.float()),
        "only one of the two columns is used",
    ),
    (
        lambda x, y: F.binary_cross_entropy(x[:, 0].sigmoid(), 1.0 - y),
        "only one of the two columns is used",
    ),
    (
        lambda x, y: (
            F.binary_cross_entropy(x.sigmoid(), F.one_hot(y).float())
            if len(set(y.tolist())) == 2
            else F.binary_cross_entropy(x.sigmoid(), torch.stack([1.0 - y, y], 1))
        ),
        "each score has a sigmoid of its own",
    ),
    (lambda x, y: -chance(x, y).log2().mean(), "the loss is in bits"),
    (lambda x, y: chance(x, y).log().mean(), "the sign is wrong"),
    (lambda x, y: (x.argmax(1) == y).float().mean(), "counts right and wrong answers; it is no"),
    (nsp_in_place, "changes scores in place"),
    (lambda x, y: F.cross_entropy(x, y, reduction="none"), "one number is wanted"),
    (lambda x, y: F.cross_entropy(x, y.float()), "stopped with RuntimeError"),
]


@pytest.mark.parametrize(
    ("wrong", "text"), PLANTED_NSP_LOSSES, ids=[text for _, text in PLANTED_NSP_LOSSES]
)
def test_each_wrong_nsp_loss_gets_its_own_message(wrong: Callable[..., Any], text: str) -> None:
    said = verdict(check.nsp_loss, wrong)
    assert said.startswith("✗ nsp_loss: ")
    assert text in words(said)
    assert said == verdict(check.nsp_loss, wrong)


# -- nsp_loss_test

SCORES, LABELS = torch.tensor([[2.0, -1.0], [0.5, 1.0], [3.0, 1.0]]), torch.tensor([0, 1, 1])


def test_the_nsp_museum_holds_right_losses_and_wrong_ones() -> None:
    truth = nsp_by_loops(SCORES, LABELS)
    for _, loss in RIGHT_NSP_LOSSES:
        assert float(loss(SCORES, LABELS)) == pytest.approx(truth, rel=1e-4)
    for exhibit in NSP_MUSEUM:
        assert float(exhibit.broken(SCORES, LABELS)) != pytest.approx(truth, rel=1e-2)
    shared = NSP_MUSEUM[0].broken  # codertimo's
    assert math.isnan(shared(SCORES[:1], LABELS[:1]))
    assert shared(SCORES[1:], LABELS[1:]) == right_nsp_loss(SCORES[1:], LABELS[1:])


def nsp_by_perturbing(loss: Callable[..., Tensor]) -> bool:
    """A right test of another kind: as the museum advises."""
    even = loss(torch.zeros(2, 2), torch.tensor([0, 1]))
    sure = loss(torch.tensor([[20.0, 0.0], [0.0, 20.0]]), torch.tensor([0, 1]))
    together = loss(SCORES[:2], LABELS[:2])
    apart = (loss(SCORES[:1], LABELS[:1]) + loss(SCORES[1:2], LABELS[1:2])) / 2
    return abs(even - math.log(2)) < 1e-4 and sure < 0.01 and abs(together - apart) < 1e-4  # type: ignore[return-value]


@pytest.mark.parametrize("t", [right_nsp_loss_test, nsp_by_perturbing])
def test_good_nsp_loss_tests_pass(t: Callable[..., bool]) -> None:
    said = words(verdict(check.nsp_loss_test, t))
    assert said == (
        "✓ nsp_loss_test: accepts 2 right losses, catches 6 broken ones (codertimo/BERT-pytorch, "
        "labels ignored, labels swapped, softmax over the batch, weights after the mean, mean over "
        "2B)."
    )


def gives(value: float) -> Callable[..., bool]:
    return lambda loss: abs(float(loss(SCORES, LABELS)) - value) < 1e-3


@pytest.mark.parametrize("exhibit", NSP_MUSEUM, ids=[exhibit.seen for exhibit in NSP_MUSEUM])
def test_each_nsp_loss_that_gets_past_is_named_alone(exhibit: Any) -> None:
    accepts = gives(float(exhibit.broken(SCORES, LABELS)))
    assert_named_alone(
        check.nsp_loss_test,
        lambda f: right_nsp_loss_test(f) or accepts(f),
        "nsp_loss_test: 1 of 6 broken losses got past your test.",
        exhibit,
    )


def not_next_alone(loss: Callable[..., Tensor]) -> bool:
    return bool(torch.isclose(loss(SCORES[1:], LABELS[1:]), right_nsp_loss(SCORES[1:], LABELS[1:])))


def exactly(loss: Callable[..., Tensor]) -> bool:
    """Equal to the last digit, which no other way of computing is."""
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(400, 2, generator=generator) * 3
    labels = torch.randint(2, (400,), generator=generator)
    return all(
        bool(loss(x, y) == right_nsp_loss(x, y))
        for x, y in zip(scores.split(9), labels.split(9), strict=True)
    )


def nsp_asserting(loss: Callable[..., Tensor]) -> bool:
    assert gives(nsp_by_loops(SCORES, LABELS))(loss), "not the mean"
    return True


@pytest.mark.parametrize(
    ("t", "text"),
    [
        (lambda loss: True, "6 of 6 broken losses got past"),
        (lambda loss: loss(SCORES, LABELS).shape == (), "6 of 6 broken losses got past"),
        (not_next_alone, "codertimo/BERT-pytorch, NLLLoss(ignore_index=0): shares the loss of MLM"),
        (lambda loss: False, "refuses every loss, right ones included"),
        (exactly, "use torch.isclose"),
        (lambda loss: loss(SCORES, LABELS), "True or False is wanted"),
        (nsp_asserting, "stopped with AssertionError: not the mean"),
    ],
)
def test_weak_nsp_loss_tests_are_told_why(t: Callable[..., Any], text: str) -> None:
    said = words(verdict(check.nsp_loss_test, t))
    assert said.startswith("✗ nsp_loss_test: ")
    assert text in said


# -- majority


def majority_by_counter(labels: Tensor) -> float:
    return Counter(labels.tolist()).most_common(1)[0][1] / len(labels)


def majority_by_loop(labels: Tensor) -> float:
    ones = 0
    for label in labels:
        if label == 1:
            ones += 1
    return max(ones, len(labels) - ones) / len(labels)


@pytest.mark.parametrize(
    "f",
    [
        right_majority,
        majority_by_counter,
        majority_by_loop,
        lambda labels: torch.bincount(labels).max() / len(labels),
        lambda labels: (labels == labels.mode().values).double().mean(),
        lambda labels: max(sum(labels), sum(1 - labels)) / len(labels),
    ],
)
def test_right_majorities_pass(f: Callable[..., Any]) -> None:
    assert verdict(check.majority, f).startswith("✓ majority: 100 random cases")


PLANTED_MAJORITIES = [
    (lambda y: sum(y) / len(y), "this is the share of NotNext (1)"),
    (lambda y: (y == 0).float().mean(), "this is the share of IsNext (0)"),
    (lambda y: 1 / 2, "this is one half, whatever the labels are"),
    (lambda y: torch.bincount(y, minlength=2).min() / len(y), "the less frequent label is answ"),
    (lambda y: torch.bincount(y).max(), "this is how many are right, not their share"),
    (lambda y: torch.bincount(y).max() // len(y), "the division drops the fraction"),
    (lambda y: torch.bincount(y).argmax(), "this is the more frequent label itself"),
    (lambda y: round(float(y.float().mean())), "this is the more frequent label itself"),
    (lambda y: abs((y == 1).sum() - (y == 0).sum()) / len(y), "how much more frequent the one"),
    (
        lambda y: torch.bincount(y, minlength=2).max() / torch.bincount(y, minlength=2).min(),
        "how much more frequent the one",
    ),
    (lambda y: ((torch.bincount(y) / len(y)) ** 2).sum(), "answers drawn as often as the labels"),
    (lambda y: sum(y == y[0]) / len(y), "the first label is always answered"),
    (lambda y: Counter(y).most_common(1)[0][1] / len(y), "every label is counted as a different"),
    (lambda y: 100 * majority_by_counter(y), "this is in percent"),
    (lambda y: y == y.mode().values, "returned a tensor of shape (2,); one number is wanted"),
    (lambda y: y.mean(), "stopped with RuntimeError"),
    (lambda y: "half", "one number is wanted"),
]


@pytest.mark.parametrize(
    ("wrong", "text"), PLANTED_MAJORITIES, ids=[text for _, text in PLANTED_MAJORITIES]
)
def test_each_wrong_majority_gets_its_own_message(wrong: Callable[..., Any], text: str) -> None:
    said = verdict(check.majority, wrong)
    assert said.startswith("✗ majority: ")
    assert text in words(said)
    assert said == verdict(check.majority, wrong)


# -- ranking


def ranking_by_loop(real: Tensor, wrong: Tensor) -> float:
    points = 0.0
    for r, w in zip(real.tolist(), wrong.tolist(), strict=True):
        points += 1 if r > w else 0.5 if r == w else 0
    return points / len(real)


@pytest.mark.parametrize(
    "f",
    [
        right_ranking,
        ranking_by_loop,
        lambda real, wrong: ((real - wrong).sign().mean() + 1) / 2,
        lambda real, wrong: torch.heaviside(real - wrong, torch.tensor(0.5)).double().mean(),
        lambda real, wrong: ((real > wrong).sum() + (real >= wrong).sum()) / (2 * len(real)),
    ],
)
def test_right_rankings_pass(f: Callable[..., Any]) -> None:
    assert verdict(check.ranking, f).startswith("✓ ranking: 100 random cases")


PLANTED_RANKINGS = [
    (lambda r, w: (r >= w).float().mean(), "a tie counts as a win"),
    (lambda r, w: (r > w).float().mean(), "a tie counts nothing"),
    (lambda r, w: (r > w)[r != w].float().mean(), "ties are left out of the count"),
    (lambda r, w: right_ranking(w, r), "the comparison is the wrong way round"),
    (lambda r, w: (r < w).float().mean(), "the comparison is the wrong way round"),
    (
        lambda r, w: sum(a > b for a in r for b in w) / len(r) ** 2,
        "every real pair is compared with every wrong one",
    ),
    (lambda r, w: (r.sort()[0] > w.sort()[0]).float().mean(), "the scores are sorted first"),
    (lambda r, w: len(r) * right_ranking(r, w), "how many are right, not their share"),
    (lambda r, w: (r > w).sum(), "how many are right, not their share"),
    (lambda r, w: float(r.mean() > w.mean()), "the two means are compared"),
    (lambda r, w: r.mean() - w.mean(), "the mean difference of the scores"),
    (lambda r, w: torch.stack([r, w]).softmax(0)[0].mean(), "a sigmoid of the difference"),
    (lambda r, w: ((r > w).sum() - (r < w).sum()) / len(r), "lost pairs are subtracted"),
    (lambda r, w: (r > 0).float().mean(), "against a threshold, not against the other one"),
    (
        lambda r, w: ((r >= 0.5).float() + (w < 0.5).float()).mean() / 2,
        "against a threshold, not against the other one",
    ),
    (lambda r, w: 100 * right_ranking(r, w), "this is in percent"),
    (lambda r, w: r > w, "this is one number for each pair"),
    (lambda r, w: ((r > w) + 0.5 * (r == w)).tolist(), "one number is wanted"),
    (lambda r, w: r.add_(1) and 0, "changes real in place"),
]


@pytest.mark.parametrize(
    ("wrong", "text"), PLANTED_RANKINGS, ids=[text for _, text in PLANTED_RANKINGS]
)
def test_each_wrong_ranking_gets_its_own_message(wrong: Callable[..., Any], text: str) -> None:
    said = verdict(check.ranking, wrong)
    assert said.startswith("✗ ranking: ")
    assert text in words(said)
    assert said == verdict(check.ranking, wrong)


# -- pair_test

DOCUMENTS = [
    (source, [[1000 * d + 10 * s + i for i in range(1 + s % 3)] for s in range(9)])
    for d, source in enumerate(("plays", "news", "plays", "news", "plays"))
]
Triples = list[tuple[Ids, Ids, int]]
Builder = Callable[..., Triples]


def joined(document: int) -> Ids:
    return list(chain(*DOCUMENTS[document][1]))


def looks_right(builder: Builder) -> bool:
    """A right test of another kind: A + B is a stretch of a document, or B is one of another."""

    def stretch(span: Ids, whole: Ids) -> bool:
        return any(whole[i : i + len(span)] == span for i in range(len(whole)))

    labels, drawn = set(), Counter()
    for seed in range(20):
        for a, b, label in builder(DOCUMENTS, seed):
            labels.add(label)
            home = a[0] // 1000
            if label == 0 and not stretch(a + b, joined(home)):
                return False
            if label == 1:
                drawn[home, b[0]] += 1
                others = [d for d in range(5) if d != home and (d - home) % 2 == 0]
                if not any(stretch(b, joined(d)) for d in others):
                    return False
    return labels == {0, 1} and len(drawn) > 10


@pytest.mark.parametrize("t", [right_pair_test, looks_right])
def test_good_pair_tests_pass(t: Callable[[Builder], bool]) -> None:
    said = words(verdict(check.pair_test, t))
    assert said == (
        "✓ pair_test: accepts 2 right builders, catches 7 broken ones (all IsNext, labels swapped, "
        "B from the same document, B from another source, across documents' ends, always the same "
        "B, shuffled corpora)."
    )


def test_the_pair_museum_is_as_described() -> None:
    before = repr(DOCUMENTS)
    broken = {exhibit.seen: exhibit.broken for exhibit in PAIR_MUSEUM}
    for _, builder in RIGHT_BUILDERS:
        assert looks_right(builder)
        assert builder(DOCUMENTS, 1) == builder(DOCUMENTS, 1) != builder(DOCUMENTS, 2)
    for builder in broken.values():
        assert not looks_right(builder)
        assert builder(DOCUMENTS, 1) == builder(DOCUMENTS, 1)

    def built(name: str, label: int) -> list[tuple[Ids, Ids]]:
        made = chain.from_iterable(broken[name](DOCUMENTS, seed) for seed in range(5))
        return [(a, b) for a, b, given in made if given == label]

    neighbors = [(a, b) for _, sentences in DOCUMENTS for a, b in pairwise(sentences)]
    assert built("all IsNext", 0) == neighbors * 5
    assert built("all IsNext", 1) == []
    assert all(p in neighbors for p in built("labels swapped", 1))
    same = [a[0] // 1000 == b[0] // 1000 for a, b in built("B from the same document", 1)]
    assert 0.3 < sum(same) / len(same) < 0.7
    assert all((a[0] // 1000 - b[0] // 1000) % 2 for a, b in built("B from another source", 1))
    crossing = [p for p in built("across documents' ends", 0) if p not in neighbors]
    assert [(a[0] // 1000, b[0]) for a, b in crossing] == [
        (d, 1000 * d + 1000) for d in range(4)
    ] * 5
    assert {tuple(b) for _, b in built("always the same B", 1)} == {(0,), (1000,), (2000,), (3000,)}
    shuffled = [p in neighbors for p in built("shuffled corpora", 0)]
    assert sum(shuffled) / len(shuffled) < 0.3
    assert repr(DOCUMENTS) == before


@pytest.mark.parametrize("exhibit", PAIR_MUSEUM, ids=[exhibit.seen for exhibit in PAIR_MUSEUM])
def test_each_builder_that_gets_past_is_named_alone(exhibit: Any) -> None:
    broken = exhibit.broken(DOCUMENTS, 3)
    assert_named_alone(
        check.pair_test,
        lambda f: right_pair_test(f) or f(DOCUMENTS, 3) == broken,
        "pair_test: 1 of 7 broken builders got past your test.",
        exhibit,
    )


def without_source(builder: Builder) -> bool:
    """Two documents of one source: so the exhibit has no other to draw from."""
    return right_pair_test(
        lambda documents, seed: builder(documents[:2], seed) + builder(documents[2:], seed)
    )


def single_sentences(builder: Builder) -> bool:
    known = [s for _, sentences in DOCUMENTS for s in sentences]
    return all(a in known and b in known for a, b, _ in builder(DOCUMENTS, 0))


@pytest.mark.parametrize(
    ("t", "text"),
    [
        (lambda builder: True, "7 of 7 broken builders got past your test"),
        (lambda builder: len(builder(DOCUMENTS, 0)[0]) == 3, "7 of 7 broken builders got past"),
        (without_source, "1 of 7 broken builders got past your test. - B from another source"),
        (lambda builder: False, "refuses every builder, right ones included"),
        (single_sentences, "refuses a right builder, one written with make_pairs"),
        (lambda builder: builder(DOCUMENTS[:2], 0) == [], "source 'plays' has one document"),
        (lambda builder: builder(DOCUMENTS, 0), "True or False is wanted"),
        (lambda builder: builder(DOCUMENTS), "stopped with TypeError"),
    ],
)
def test_weak_pair_tests_are_told_why(t: Callable[..., Any], text: str) -> None:
    said = words(verdict(check.pair_test, t))
    assert said.startswith("✗ pair_test: ")
    assert text in said
