"""The other exercises of notebook 05: losses, a test for losses, unigram, accuracy."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from verdicts import assert_named, verdict, words

from bertedu.pretraining.next_sentence import EncodedDocument
from course.exercises import check
from course.exercises.masked_language_model import (
    LOSS_TEST,
    right_mlm_loss,
    right_unigram_loss,
)
from course.exercises.museum import exhibits
from course.experiments.counting import UnigramModel


def loss_by_loops(logits: Tensor, labels: Tensor, selected: Tensor) -> float:
    total, count = 0.0, 0
    for row, column in selected.nonzero().tolist():
        scores = [math.exp(x) for x in logits[row, column].tolist()]
        total -= math.log(scores[int(labels[row, column])] / sum(scores))
        count += 1
    return total / count


def loss_with_zero_labels(logits: Tensor, labels: Tensor, selected: Tensor) -> Tensor:
    """Right, since [PAD] is never selected."""
    return F.cross_entropy(logits.transpose(1, 2), labels * selected, ignore_index=0)


def unigram_by_loops(counts: Tensor, labels: Tensor) -> float:
    whole = sum(counts.tolist()) + len(counts)
    return sum(-math.log((int(counts[i]) + 1) / whole) for i in labels.tolist()) / len(labels)


def accuracy_by_loops(logits: Tensor, labels: Tensor) -> float:
    pairs = zip(logits.tolist(), labels.tolist(), strict=True)
    return sum(scores.index(max(scores)) == label for scores, label in pairs) / len(labels)


@pytest.mark.parametrize(
    ("name", "f"),
    [
        ("mlm_loss", loss_by_loops),
        ("mlm_loss", loss_with_zero_labels),
        ("mlm_loss", lambda x, y, chosen: right_mlm_loss(x.double(), y, chosen).numpy()),
        ("mlm_loss", lambda x, y, chosen: right_mlm_loss(x.half(), y, chosen)),
        ("unigram_loss", unigram_by_loops),
        ("unigram_loss", lambda c, y: F.cross_entropy((c + 1.0).log().expand(len(y), -1), y)),
        ("accuracy", accuracy_by_loops),
        ("accuracy", lambda x, y: (x.bfloat16().topk(1).indices[:, 0] == y).double().mean()),
    ],
)
def test_right_ones_pass(name: str, f: Callable[..., Any]) -> None:
    one = getattr(check, name)
    assert words(verdict(one, f)).startswith(f"✓ {name}: {one.tried}")


def test_the_unigram_reference_does_what_the_package_does() -> None:
    document = EncodedDocument("a source", [[5, 6, 6], [7, 5, 5]])
    counts = torch.tensor([0, 0, 1, 1, 0, 3, 2, 1, 0])  # [CLS] and [SEP] once each
    labels = torch.tensor([5, 7, 8])
    theirs = -UnigramModel([document], 9).log_share[labels].mean()
    assert float(right_unigram_loss(counts, labels)) == pytest.approx(float(theirs))


def each(logits: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(logits.transpose(1, 2), labels, reduction="none")


def d2l(logits: Tensor, labels: Tensor, selected: Tensor) -> Tensor:
    mean = F.cross_entropy(logits.reshape(-1, logits.shape[-1]), labels.reshape(-1))
    return (mean * selected.reshape(-1, 1).float()).sum() / (selected.sum() + 1e-8)


def counts_in_place(counts: Tensor, labels: Tensor) -> Tensor:
    counts += 1
    return -(counts / counts.sum())[labels].log().mean()


WRONG: list[tuple[str, Any, str]] = [
    ("mlm_loss", d2l, "d2l-en"),
    ("mlm_loss", lambda x, y, chosen: (each(x, y) * chosen).mean(), "zeros of unselected"),
    ("mlm_loss", lambda x, y, chosen: each(x, y)[chosen].sum(), "the sum over the selected"),
    ("mlm_loss", lambda x, y, chosen: each(x.softmax(-1), y)[chosen].mean(), "applied twice"),
    ("mlm_loss", lambda x, y, chosen: each(x, y)[chosen].tolist(), "one number is wanted"),
    ("unigram_loss", lambda c, y: -(c / c.sum())[y].log().mean(), "there is no smoothing"),
    ("unigram_loss", lambda c, y: -((c + 1) / c.sum())[y].log().mean(), "V is missing below"),
    (
        "unigram_loss",
        lambda c, y: F.nll_loss((c + 1.0).log().expand(len(y), -1), y),
        "cases come out wrong",
    ),
    ("unigram_loss", counts_in_place, "changes counts in place"),
    ("accuracy", lambda x, y: (x.argmax(0) == y).float().mean(), "argmax runs over the positions"),
    ("accuracy", lambda x, y: (x.argmax(-1) == y).sum(), "the number of right answers, not their"),
]


@pytest.mark.parametrize(("name", "wrong", "text"), WRONG, ids=[text for *_, text in WRONG])
def test_each_wrong_one_gets_its_own_message(name: str, wrong: Any, text: str) -> None:
    assert_named(getattr(check, name), name, wrong, text)


# -- loss_test


def test_the_museum_holds_right_losses_and_wrong_ones() -> None:
    """By loops, on an example where every bug shows."""
    generator = torch.Generator().manual_seed(3)
    logits = torch.randn(3, 6, 7, generator=generator) * 2
    labels = torch.randint(1, 7, (3, 6), generator=generator)
    selected = torch.rand(3, 6, generator=generator) < 0.4
    labels[2, 4:], selected[2, 4:], selected[0, 0] = 0, False, True
    truth = loss_by_loops(logits, labels, selected)
    for _, loss in LOSS_TEST.right:
        assert float(loss(logits, labels, selected)) == pytest.approx(truth, rel=1e-4)
    for exhibit in exhibits(LOSS_TEST):
        assert float(exhibit.wrong[0](logits, labels, selected)) != pytest.approx(truth, rel=1e-2)


EXAMPLE = (
    torch.tensor([[[0.0, 3.0, 1.0], [2.0, 0.0, 5.0], [1.0, 4.0, 0.0], [7.0, 1.0, 2.0]]]),
    torch.tensor([[1, 1, 0, 2]]),
    torch.tensor([[True, False, False, True]]),
)


def by_perturbing(loss: Callable[..., Tensor]) -> bool:
    """A right test of another kind: move what must not matter, then what must."""
    logits, labels, selected = EXAMPLE
    base = loss(logits, labels, selected)
    for place in (1, 2):
        moved = logits.clone()
        moved[0, place] += torch.tensor([0.0, 2.0, 1.0])
        if not torch.isclose(loss(moved, labels, selected), base):
            return False
    even = loss(torch.zeros(1, 4, 3), labels, selected)
    sure = loss(20.0 * F.one_hot(labels, 3).float(), labels, selected)
    return abs(float(even) - math.log(3)) < 1e-4 and float(sure) < 0.01


def test_a_good_test_of_another_kind_passes() -> None:
    said = verdict(check.loss_test, by_perturbing)
    assert said.startswith("✓ loss_test: accepts 3 right losses, catches 5 broken ones (d2l-en,")


def exact(loss: Callable[..., Tensor]) -> bool:
    generator = torch.Generator().manual_seed(0)
    for _ in range(30):
        logits = torch.randn(2, 9, 7, generator=generator)
        labels = torch.randint(1, 7, (2, 9), generator=generator)
        selected = torch.rand(2, 9, generator=generator) < 0.6
        if loss(logits, labels, selected) != right_mlm_loss(logits, labels, selected):
            return False
    return True


def moves_whole_rows(loss: Callable[..., Tensor]) -> bool:
    logits, labels, selected = EXAMPLE
    moved = logits + 9 * ~selected.unsqueeze(-1)
    return torch.equal(loss(moved, labels, selected), loss(logits, labels, selected))


@pytest.mark.parametrize(
    ("t", "text"),
    [
        (moves_whole_rows, "not all of them by the same number: softmax ignores that"),
        (lambda loss: loss(*EXAMPLE).shape == (), "5 of 5 broken losses got past"),
        (lambda loss: abs(float(loss(*EXAMPLE)) - 9) < 1e-3, "refuses every loss, right ones incl"),
        (exact, "use torch.isclose"),
    ],
)
def test_weak_tests_are_told_why(t: Callable[..., Any], text: str) -> None:
    said = words(verdict(check.loss_test, t))
    assert said.startswith("✗ loss_test: ")
    assert text in said
