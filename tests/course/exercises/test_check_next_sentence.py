"""The exercises of notebook 06: a pair, its loss, the number to beat, ranking, and two tests."""

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
from verdicts import assert_named, seen, verdict, words

from bertedu.pretraining.next_sentence import EncodedDocument, make_pairs
from course.exercises import check
from course.exercises.museum import exhibits
from course.exercises.next_sentence_prediction import (
    PAIR_TEST,
    right_nsp_loss,
    right_pair,
    right_pair_test,
    right_ranking,
)

Ids = list[int]
Sentences = list[Ids]


def test_the_pair_reference_walks_as_the_package_does() -> None:
    """The same draws in the same order; there is room enough, so nothing is cut."""
    documents = [
        EncodedDocument("one source", [[100 * d + s] for s in range(5, 17)]) for d in (0, 1)
    ]
    theirs = list(make_pairs(documents, 99, np.random.default_rng(4)))
    rng, ours = np.random.default_rng(4), []
    for index, document in enumerate(documents):
        sentences, start = document.sentences, 0
        while start + 1 < len(sentences):
            split = int(rng.integers(start + 1, len(sentences)))
            coin, other = float(rng.random()), []
            if coin >= 0.5:
                while int(rng.integers(2)) == index:
                    pass
                begin = int(rng.integers(len(documents[1 - index].sentences)))
                other = list(chain(*documents[1 - index].sentences[begin:]))
            a, b, label, start = right_pair(sentences, start, split, len(sentences), other, coin)
            rng.random(2)  # truncate_pair
            ours.append((a, b, label))
    assert ours == [(pair.a, pair.b, pair.label) for pair in theirs]


# -- right in other ways


def pair_by_loops(s: Sentences, start: int, split: int, end: int, other: Ids, coin: float) -> Any:
    a: Ids = []
    for place in range(start, split):
        a.extend(s[place])
    b: Ids = []
    if coin >= 0.5:
        return a, other, 1, split
    for place in range(split, end):
        b += s[place]
    return a, b, 0, end


def pair_in_numpy(s: Sentences, start: int, split: int, end: int, other: Ids, coin: float) -> Any:
    a, label = np.concatenate(s[start:split]), np.int64(coin >= 0.5)
    return a, np.concatenate(s[split:end]) if coin < 0.5 else other, label, (end, split)[label]


def pair_in_torch(s: Sentences, start: int, split: int, end: int, other: Ids, coin: float) -> Any:
    a = torch.cat([torch.tensor(sentence) for sentence in s[start:split]])
    label = torch.tensor(coin) >= 0.5
    return [a, other if label else (*chain(*s[split:end]),), label, torch.where(label, split, end)]


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


def majority_by_counter(labels: Tensor) -> float:
    return Counter(labels.tolist()).most_common(1)[0][1] / len(labels)


def ranking_by_loop(real: Tensor, wrong: Tensor) -> float:
    points = 0.0
    for r, w in zip(real.tolist(), wrong.tolist(), strict=True):
        points += 1 if r > w else 0.5 if r == w else 0
    return points / len(real)


@pytest.mark.parametrize(
    ("name", "f"),
    [
        ("pair", pair_by_loops),
        ("pair", pair_in_numpy),
        ("pair", pair_in_torch),
        ("nsp_loss", F.cross_entropy),
        ("nsp_loss", nsp_by_loops),
        ("nsp_loss", nsp_by_sigmoid),
        ("nsp_loss", lambda scores, labels: right_nsp_loss(scores.half(), labels)),
        ("nsp_loss", lambda scores, labels: right_nsp_loss(scores.double(), labels).numpy()),
        ("majority", majority_by_counter),
        ("majority", lambda labels: torch.bincount(labels).max() / len(labels)),
        ("majority", lambda labels: max(sum(labels), sum(1 - labels)) / len(labels)),
        ("ranking", ranking_by_loop),
        ("ranking", lambda real, wrong: ((real - wrong).sign().mean() + 1) / 2),
        ("ranking", lambda r, w: ((r > w).sum() + (r >= w).sum()) / (2 * len(r))),
    ],
)
def test_what_is_right_in_another_way_passes(name: str, f: Any) -> None:
    many = "120" if name in ("pair", "nsp_loss") else "100"
    assert verdict(getattr(check, name), f).startswith(f"✓ {name}: {many} random cases")


# -- wrong


def pairs(
    a: str = "s[start:split]", real: str = "a, b, 0, end", wrong: str = "a, other, 1, split"
) -> Callable[..., Any]:
    """Write a function as a learner would, with one expression changed."""
    scope: dict[str, Any] = {"join": lambda spans: list(chain(*spans))}
    exec(
        f"def f(s, start, split, end, other, coin):\n"
        f"    a, b = join({a}), join(s[split:end])\n"
        f"    if coin < 0.5:\n"
        f"        return {real}\n"
        f"    return {wrong}\n",
        scope,
    )
    f: Callable[..., Any] = scope["f"]
    return f


def in_place(s: Sentences, start: int, split: int, *rest: Any) -> Any:
    a = s[start]
    for sentence in s[start + 1 : split]:
        a += sentence
    return (a, *right_pair(s, start, split, *rest)[1:])


def swapped(places: dict[int, Any]) -> Callable[..., Any]:
    """Return the right pair with something else in these places."""
    return lambda *x: tuple(places.get(i, part) for i, part in enumerate(right_pair(*x)))


def nsp_in_place(scores: Tensor, labels: Tensor) -> Tensor:
    scores -= scores.logsumexp(1, keepdim=True)
    return F.nll_loss(scores, labels)


@pytest.mark.parametrize(
    ("name", "wrong", "text"),
    [
        ("pair", pairs(wrong="a, other, 1, end"), "always goes on at end, so displaced sentences"),
        ("pair", pairs(a="[s[start]]"), "cases come out wrong"),
        ("pair", pairs(a="s[start:split + 1]", wrong="a, other, 1, end"),
         "A is one sentence too long. (There is more, but this comes first.)"),
        ("pair", pairs(real="s[start:split], b, 0, end"), "list is a list; an id of a is wanted"),
        ("pair", pairs(real="a, s[split:end], 0, end"), "list is a list; an id of b is wanted"),
        ("pair", in_place, "your function changes sentences in place. Smallest case"),
        ("pair", in_place, "Likely: its next user gets more. Begin with an empty list, a = []"),
        ("pair", lambda s, i, j, k, other, _: right_pair(s, i, j, k, other, random.random()),
         "random numbers of its own"),
        ("pair", lambda *x: right_pair(*x)[:3], "); return four things: a, b, label, go_on."),
        ("pair", lambda *x: "done", "the str 'done'; return four things"),
        ("pair", swapped({0: 7}), "an int; a list of ids for a is wanted"),
        ("pair", swapped({0: None}), "None; a list of ids for a is wanted"),
        ("pair", swapped({0: ["a word"]}), "your list is a str; an id of a is wanted"),
        ("pair", swapped({2: "IsNext"}), "label is a str; 0 (IsNext) or 1 (NotNext) is wanted"),
        ("pair", swapped({3: None}), "go_on is None; the number of a sentence is wanted"),
        ("pair", lambda *x: right_pair(*x) if x[-1] < 0.5 else None, "every path end in a return"),
        ("nsp_loss", lambda x, y: F.cross_entropy(x, y, ignore_index=0), "real pairs are not coun"),
        ("nsp_loss", lambda x, y: F.nll_loss(x.softmax(-1), y), "the logarithm is missing"),
        ("nsp_loss", lambda x, y: F.cross_entropy(x.softmax(1), y), "softmax is applied twice"),
        ("nsp_loss", nsp_in_place, "changes scores in place"),
        ("nsp_loss", lambda x, y: F.cross_entropy(x, y, reduction="none"), "one number is wanted"),
        ("nsp_loss", lambda x, y: F.cross_entropy(x, y.float()), "stopped with RuntimeError"),
        ("majority", lambda y: sum(y) / len(y), "this is the share of NotNext (1)"),
        ("majority", lambda y: Counter(y).most_common(1)[0][1] / len(y), "as a different one"),
        ("majority", lambda y: torch.bincount(y).argmax(), "this is the more frequent label its"),
        ("majority", lambda y: y == y.mode().values, "a tensor of shape (2,); one number is"),
        ("majority", lambda y: y.mean(), "stopped with RuntimeError"),
        ("ranking", lambda r, w: (r >= w).float().mean(), "a tie counts as a win"),
        ("ranking", lambda r, w: (r > w)[r != w].float().mean(), "ties are left out of the count"),
        ("ranking", lambda r, w: right_ranking(w, r), "cases come out wrong"),
        ("ranking", lambda r, w: r.add_(1) and 0, "changes real in place"),
    ],
)  # fmt: skip
def test_wrong_answers_are_described(name: str, wrong: Any, text: str) -> None:
    assert_named(getattr(check, name), name, wrong, text)


def test_a_verdict_on_a_pair_in_full() -> None:
    said = verdict(check.pair, pairs(real="a, b, 1, end", wrong="a, other, 0, split"))
    assert said == (
        "✗ pair: the labels are swapped.\n"
        "  Smallest case: sentences = [[5, 6], [7]], start = 0, split = 1, end = 2, other = [8, 9],"
        " coin =\n    0.8.\n"
        "  Yours gives [[5, 6], [8, 9], 0, 1]; it should give [[5, 6], [8, 9], 1, 1].\n"
        "  Likely: IsNext is 0 and NotNext is 1, in the order of the paper's classifier.\n"
    )


# -- the two tests

SCORES, LABELS = torch.tensor([[2.0, -1.0], [0.5, 1.0], [3.0, 1.0]]), torch.tensor([0, 1, 1])


def nsp_by_perturbing(loss: Callable[..., Tensor]) -> bool:
    """A right test of another kind: as the museum advises."""
    even = loss(torch.zeros(2, 2), torch.tensor([0, 1]))
    sure = loss(torch.tensor([[20.0, 0.0], [0.0, 20.0]]), torch.tensor([0, 1]))
    together = loss(SCORES[:2], LABELS[:2])
    apart = (loss(SCORES[:1], LABELS[:1]) + loss(SCORES[1:2], LABELS[1:2])) / 2
    return abs(even - math.log(2)) < 1e-4 and sure < 0.01 and abs(together - apart) < 1e-4  # type: ignore[return-value]


def not_next_alone(loss: Callable[..., Tensor]) -> bool:
    return bool(torch.isclose(loss(SCORES[1:], LABELS[1:]), right_nsp_loss(SCORES[1:], LABELS[1:])))


DOCUMENTS = [
    (source, [[1000 * d + 10 * s + i for i in range(1 + s % 3)] for s in range(9)])
    for d, source in enumerate(("plays", "news", "plays", "news", "plays"))
]
Builder = Callable[..., list[tuple[Ids, Ids, int]]]


def looks_right(builder: Builder) -> bool:
    """A right test of another kind: A + B is a stretch of a document, or B is one of another."""

    def within(span: Ids, document: int) -> bool:
        whole = list(chain(*DOCUMENTS[document][1]))
        return any(whole[i : i + len(span)] == span for i in range(len(whole)))

    labels, drawn = set(), set()
    for seed in range(20):
        for a, b, label in builder(DOCUMENTS, seed):
            labels.add(label)
            home = a[0] // 1000
            if label == 0 and not within(a + b, home):
                return False
            if label == 1:
                drawn.add((home, b[0]))
                others = [d for d in range(5) if d != home and (d - home) % 2 == 0]
                if not any(within(b, d) for d in others):
                    return False
    return labels == {0, 1} and len(drawn) > 10


def without_source(builder: Builder) -> bool:
    """Two documents of one source: so the exhibit has no other to draw from."""
    return right_pair_test(
        lambda documents, seed: builder(documents[:2], seed) + builder(documents[2:], seed)
    )


@pytest.mark.parametrize(
    ("name", "t", "text"),
    [
        ("nsp_loss_test", nsp_by_perturbing, "✓ nsp_loss_test: accepts 2 right losses, catches 4"),
        ("nsp_loss_test", lambda f: f(SCORES, LABELS).shape == (), "4 of 4 broken losses got past"),
        ("nsp_loss_test", not_next_alone, "codertimo/BERT-pytorch, NLLLoss(ignore_index=0): s"),
        ("nsp_loss_test", lambda loss: loss is right_nsp_loss, "use torch.isclose"),
        ("nsp_loss_test", lambda loss: loss(SCORES, LABELS), "True or False is wanted"),
        ("pair_test", looks_right, "✓ pair_test: accepts 2 right builders, catches 6 broken ones"),
        ("pair_test", lambda f: len(f(DOCUMENTS, 0)[0]) == 3, "6 of 6 broken builders got past"),
        ("pair_test", without_source, "1 of 6 broken builders got past your test. - B from an"),
        ("pair_test", lambda f: all(b in chain(*(s for _, s in DOCUMENTS))
         for _, b, _ in f(DOCUMENTS, 0)), "refuses a right builder, one written with make_pairs"),
        ("pair_test", lambda f: f(DOCUMENTS[:2], 0) == [], "source 'plays' has one document"),
        ("pair_test", lambda f: f(DOCUMENTS), "stopped with TypeError"),
    ],
)  # fmt: skip
def test_tests_are_told_what_they_miss(name: str, t: Any, text: str) -> None:
    assert text in words(verdict(getattr(check, name), t))


def test_the_pair_museum_is_as_described() -> None:
    broken = {seen(exhibit): exhibit.wrong[0] for exhibit in exhibits(PAIR_TEST)}

    def built(name: str, label: int) -> list[tuple[Ids, Ids]]:
        made = chain.from_iterable(broken[name](DOCUMENTS, seed) for seed in range(5))
        return [(a, b) for a, b, given in made if given == label]

    neighbors = [(a, b) for _, sentences in DOCUMENTS for a, b in pairwise(sentences)]
    assert built("all IsNext", 0) == neighbors * 5
    same = [a[0] // 1000 == b[0] // 1000 for a, b in built("B from the same document", 1)]
    assert 0.2 < sum(same) / len(same) < 0.7
    assert all((a[0] // 1000 - b[0] // 1000) % 2 for a, b in built("B from another source", 1))
    crossing = [(a[0], b[0]) for a, b in built("across documents' ends", 0) if b[0] % 1000 == 0]
    assert crossing == [(1000 * d + 80, 1000 * d + 1000) for d in range(4)] * 5
    shuffled = [p in neighbors for p in built("shuffled corpora", 0)]
    assert sum(shuffled) / len(shuffled) < 0.3
