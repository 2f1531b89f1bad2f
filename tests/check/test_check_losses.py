"""The other checks of notebook 05: losses, a test for losses, unigram, accuracy."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from verdicts import verdict, words

from bertedu import check
from bertedu.check.masked_language_model import (
    MUSEUM,
    RIGHT_LOSSES,
    right_accuracy,
    right_loss_test,
    right_mlm_loss,
    right_unigram_loss,
)
from bertedu.pretraining.baselines import UnigramModel
from bertedu.pretraining.next_sentence import EncodedDocument

# -- mlm_loss


def loss_by_loops(logits: Tensor, labels: Tensor, selected: Tensor) -> float:
    total, count = 0.0, 0
    for row in range(len(labels)):
        for column in range(labels.shape[1]):
            if selected[row, column]:
                scores = [math.exp(x) for x in logits[row, column].tolist()]
                total -= math.log(scores[int(labels[row, column])] / sum(scores))
                count += 1
    return total / count


def loss_with_ignored_labels(logits: Tensor, labels: Tensor, selected: Tensor) -> Tensor:
    return F.cross_entropy(logits.transpose(1, 2), labels.masked_fill(~selected, -100))


def loss_with_zero_labels(logits: Tensor, labels: Tensor, selected: Tensor) -> Tensor:
    """Right, since [PAD] is never selected."""
    return F.cross_entropy(logits.transpose(1, 2), labels * selected, ignore_index=0)


def loss_in_double(logits: Tensor, labels: Tensor, selected: Tensor) -> Any:
    return right_mlm_loss(logits.double(), labels, selected).numpy()


def loss_in_half(logits: Tensor, labels: Tensor, selected: Tensor) -> Tensor:
    return right_mlm_loss(logits.half(), labels, selected)


@pytest.mark.parametrize(
    "f",
    [
        right_mlm_loss,
        loss_by_loops,
        loss_with_ignored_labels,
        loss_with_zero_labels,
        loss_in_double,
        loss_in_half,
    ],
)
def test_right_losses_pass(f: Callable[..., Any]) -> None:
    assert verdict(check.mlm_loss, f).startswith("✓ mlm_loss: 120 random cases")


def each(logits: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(logits.transpose(1, 2), labels, reduction="none")


def d2l(logits: Tensor, labels: Tensor, selected: Tensor) -> Tensor:
    mean = F.cross_entropy(logits.reshape(-1, logits.shape[-1]), labels.reshape(-1))
    weighted = mean * selected.reshape(-1, 1).float()
    return weighted.sum() / (selected.sum() + 1e-8)


def mean_of_rows(logits: Tensor, labels: Tensor, selected: Tensor) -> Tensor:
    rows = [
        F.cross_entropy(scores[chosen], row[chosen])
        for scores, row, chosen in zip(logits, labels, selected, strict=True)
        if chosen.any()
    ]
    return torch.stack(rows).mean()


def viewed(logits: Tensor, labels: Tensor, selected: Tensor) -> Tensor:
    rows, length, vocab = logits.shape
    loss = F.cross_entropy(logits.view(rows, vocab, length), labels, reduction="none")
    return loss[selected].mean()


def along_the_sentence(logits: Tensor, labels: Tensor, selected: Tensor) -> Tensor:
    chosen = F.one_hot(labels, logits.shape[-1]).bool() & selected[..., None]
    return -logits.softmax(dim=1)[chosen].log().mean()


def labels_in_place(logits: Tensor, labels: Tensor, selected: Tensor) -> Tensor:
    labels[~selected] = -100
    return F.cross_entropy(logits.transpose(1, 2), labels)


PLANTED_LOSSES = [
    (lambda logits, labels, selected: each(logits, labels).mean(), "every position is scored, sel"),
    (d2l, "d2l-en"),
    (
        lambda logits, labels, selected: F.cross_entropy(
            logits.transpose(1, 2), labels, ignore_index=0
        ),
        "every position is scored but padding",
    ),
    (
        lambda logits, labels, selected: each(logits, labels)[selected | (labels == 0)].mean(),
        "padding is scored along with the selected",
    ),
    (
        lambda logits, labels, selected: each(logits, labels).mean() * selected.float().mean(),
        "multiplied by selected after the mean",
    ),
    (
        lambda logits, labels, selected: (each(logits, labels) * selected).mean(),
        "zeros of unselected positions count in the mean",
    ),
    (
        lambda logits, labels, selected: F.cross_entropy(
            logits[selected], labels[selected], reduction="sum"
        ),
        "the sum over the selected positions, not their mean",
    ),
    (
        lambda logits, labels, selected: each(logits, labels)[selected].sum() / logits.shape[0],
        "divided by the number of rows",
    ),
    (
        lambda logits, labels, selected: (
            -(F.one_hot(labels, logits.shape[-1]) * logits.log_softmax(-1))[selected].mean()
        ),
        "divided by the vocabulary, too",
    ),
    (mean_of_rows, "each row's mean counts the same"),
    (
        lambda logits, labels, selected: F.cross_entropy(
            logits.softmax(-1)[selected], labels[selected]
        ),
        "softmax is applied twice",
    ),
    (
        lambda logits, labels, selected: F.nll_loss(logits[selected], labels[selected]),
        "softmax is missing",
    ),
    (
        lambda logits, labels, selected: F.nll_loss(logits.softmax(-1)[selected], labels[selected]),
        "the logarithm is missing",
    ),
    (
        lambda logits, labels, selected: -(-each(logits, labels)[selected]).exp().mean().log(),
        "the logarithm is taken of the mean probability",
    ),
    (
        lambda logits, labels, selected: (each(logits, labels)[selected] / math.log(2)).mean(),
        "the loss is in bits",
    ),
    (
        lambda logits, labels, selected: -each(logits, labels)[selected].mean(),
        "the sign is wrong",
    ),
    (
        lambda logits, labels, selected: each(logits, labels)[~selected].mean(),
        "the unselected positions are scored",
    ),
    (
        lambda logits, labels, selected: (logits.argmax(-1) == labels)[selected].float().mean(),
        "counts right and wrong answers; it is no loss",
    ),
    (along_the_sentence, "softmax runs along the sentence"),
    (viewed, "the logits of different positions are mixed up"),
    (labels_in_place, "changes labels in place"),
    (lambda logits, labels, selected: each(logits, labels)[selected], "one number is wanted"),
    (lambda logits, labels, selected: each(logits, labels)[selected].tolist(), "one number is"),
]


@pytest.mark.parametrize(("wrong", "text"), PLANTED_LOSSES, ids=[t for _, t in PLANTED_LOSSES])
def test_each_wrong_loss_gets_its_own_message(wrong: Callable[..., Any], text: str) -> None:
    said = verdict(check.mlm_loss, wrong)
    assert said.startswith("✗ mlm_loss: ")
    assert text in words(said)
    assert "Smallest case: logits = [[[" in said
    assert said == verdict(check.mlm_loss, wrong)


# -- loss_test


def test_the_museum_holds_right_losses_and_wrong_ones() -> None:
    """By loops, on an example where every bug shows."""
    generator = torch.Generator().manual_seed(3)
    logits = torch.randn(3, 6, 7, generator=generator) * 2
    labels = torch.randint(1, 7, (3, 6), generator=generator)
    selected = torch.rand(3, 6, generator=generator) < 0.4
    labels[2, 4:], selected[2, 4:], selected[0, 0] = 0, False, True
    truth = loss_by_loops(logits, labels, selected)
    for _, loss in RIGHT_LOSSES:
        assert float(loss(logits, labels, selected)) == pytest.approx(truth, rel=1e-4)
    for exhibit in MUSEUM:
        assert float(exhibit.broken(logits, labels, selected)) != pytest.approx(truth, rel=1e-2)
    assert len(MUSEUM) >= 5


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
    return bool(torch.isclose(even, torch.tensor(3.0).log())) and bool(sure < 0.01)


@pytest.mark.parametrize("t", [right_loss_test, by_perturbing])
def test_good_tests_pass(t: Callable[..., bool]) -> None:
    said = verdict(check.loss_test, t)
    assert said.startswith(
        f"✓ loss_test: accepts 3 right losses, catches {len(MUSEUM)} broken ones"
    )
    assert "d2l-en" in said


def agrees_with(value: float, tolerance: float = 1e-3) -> Callable[..., bool]:
    return lambda loss: abs(float(loss(*EXAMPLE)) - value) < tolerance


@pytest.mark.parametrize("exhibit", MUSEUM, ids=[exhibit.seen for exhibit in MUSEUM])
def test_each_bug_that_gets_past_is_named_alone(exhibit: Any) -> None:
    """A test that is right, but for accepting one bug."""
    broken = float(exhibit.broken(*EXAMPLE))

    def t(loss: Callable[..., Tensor]) -> bool:
        return right_loss_test(loss) or agrees_with(broken)(loss)

    said = words(verdict(check.loss_test, t))
    assert said.startswith(f"✗ loss_test: 1 of {len(MUSEUM)} broken losses got past your test. - ")
    assert f"- {exhibit.seen}: {exhibit.bug}. To catch it, {exhibit.try_this}" in said


def everything_selected(loss: Callable[..., Tensor]) -> bool:
    logits, labels, _ = EXAMPLE
    chosen = torch.ones(1, 2, dtype=torch.bool)
    truth = right_mlm_loss(logits[:, :2], labels[:, :2], chosen)
    return bool(torch.isclose(loss(logits[:, :2], labels[:, :2], chosen), truth))


def exact(loss: Callable[..., Tensor]) -> bool:
    generator = torch.Generator().manual_seed(0)
    for _ in range(30):
        logits = torch.randn(2, 9, 7, generator=generator)
        labels = torch.randint(1, 7, (2, 9), generator=generator)
        selected = torch.rand(2, 9, generator=generator) < 0.6
        if loss(logits, labels, selected) != right_mlm_loss(logits, labels, selected):
            return False
    return True


def asserting(loss: Callable[..., Tensor]) -> bool:
    assert torch.isclose(loss(*EXAMPLE), right_mlm_loss(*EXAMPLE)), "not the mean"
    return True


@pytest.mark.parametrize(
    ("t", "text"),
    [
        (lambda loss: True, f"{len(MUSEUM)} of {len(MUSEUM)} broken losses got past"),
        (everything_selected, "d2l-en, issue 2582"),
        (lambda loss: False, "refuses every loss, right ones included"),
        (agrees_with(9.0), "refuses every loss, right ones included"),
        (exact, "use torch.isclose"),
        (lambda loss: loss(*EXAMPLE), "True or False is wanted"),
        (asserting, "stopped with AssertionError: not the mean"),
        (asserting, "Return an answer instead"),
        (lambda: True, "wrong number of arguments"),
    ],
)
def test_weak_tests_are_told_why(t: Callable[..., Any], text: str) -> None:
    said = words(verdict(check.loss_test, t))
    assert said.startswith("✗ loss_test: ")
    assert text in said


def test_a_shape_test_lets_every_bug_pass() -> None:
    said = words(verdict(check.loss_test, lambda loss: loss(*EXAMPLE).shape == ()))
    for exhibit in MUSEUM:
        assert exhibit.seen in said


@pytest.mark.parametrize("t", [..., None, lambda loss: None, lambda loss: ...])
def test_a_loss_test_that_is_a_stub(t: Any) -> None:
    assert verdict(check.loss_test, t).startswith("… loss_test is still a stub. Start from ")


# -- unigram_loss


def test_the_unigram_reference_does_what_the_package_does() -> None:
    document = EncodedDocument("a source", [[5, 6, 6], [7, 5, 5]])
    counts = torch.tensor([0, 0, 1, 1, 0, 3, 2, 1, 0])  # [CLS] and [SEP] once each
    labels = torch.tensor([5, 7, 8])
    log_share = UnigramModel([document], 9).scores(labels[None], torch.ones(1, 3).bool())
    theirs = F.nll_loss(log_share, labels)
    assert float(right_unigram_loss(counts, labels)) == pytest.approx(float(theirs))


def unigram_by_loops(counts: Tensor, labels: Tensor) -> float:
    whole = sum(counts.tolist()) + len(counts)
    return sum(-math.log((int(counts[i]) + 1) / whole) for i in labels.tolist()) / len(labels)


@pytest.mark.parametrize(
    "f",
    [
        right_unigram_loss,
        unigram_by_loops,
        lambda counts, labels: F.cross_entropy(
            (counts.double() + 1).log().expand(len(labels), -1), labels
        ),
    ],
)
def test_right_unigram_losses_pass(f: Callable[..., Any]) -> None:
    assert verdict(check.unigram_loss, f).startswith("✓ unigram_loss: 100 random cases")


def shares(counts: Tensor) -> Tensor:
    return (counts + 1) / (counts + 1).sum()


def counts_in_place(counts: Tensor, labels: Tensor) -> Tensor:
    counts += 1
    return -(counts / counts.sum())[labels].log().mean()


PLANTED_UNIGRAMS = [
    (lambda c, y: -(c / c.sum())[y].log().mean(), "there is no smoothing"),
    (lambda c, y: -((c + 1) / c.sum())[y].log().mean(), "V is missing below the line"),
    (lambda c, y: -((c + 1) / (c.sum() + 1))[y].log().mean(), "V is missing below the line"),
    (lambda c, y: -(c.clamp(min=1) / c.clamp(min=1).sum())[y].log().mean(), "only words without"),
    (lambda c, y: -(c + 1)[y].log().mean(), "the counts are not turned into probabilities"),
    (lambda c, y: F.cross_entropy(c.float().expand(len(y), -1), y), "softmax makes the counts"),
    (lambda c, y: -(shares(c) * shares(c).log()).sum(), "the entropy of the distribution"),
    (lambda c, y: math.log(len(c)), "guessing evenly"),
    (lambda c, y: -shares(c)[y].log().sum(), "the sum over the labels, not their mean"),
    (lambda c, y: -shares(c)[y].log2().mean(), "the loss is in bits"),
    (lambda c, y: shares(c)[y].log().mean(), "the sign is wrong"),
    (lambda c, y: -shares(c)[y].mean().log(), "the logarithm is taken of the mean"),
    (lambda c, y: (-shares(c)[y].log().mean()).exp(), "this is the perplexity"),
    (counts_in_place, "changes counts in place"),
]


@pytest.mark.parametrize(("wrong", "text"), PLANTED_UNIGRAMS, ids=[t for _, t in PLANTED_UNIGRAMS])
def test_each_wrong_unigram_loss_gets_its_own_message(wrong: Callable[..., Any], text: str) -> None:
    said = verdict(check.unigram_loss, wrong)
    assert said.startswith("✗ unigram_loss: ")
    assert text in words(said)
    assert said == verdict(check.unigram_loss, wrong)


# -- accuracy


def accuracy_by_loops(logits: Tensor, labels: Tensor) -> float:
    right = 0
    for scores, label in zip(logits.tolist(), labels.tolist(), strict=True):
        right += scores.index(max(scores)) == label
    return right / len(labels)


@pytest.mark.parametrize(
    "f",
    [
        right_accuracy,
        accuracy_by_loops,
        lambda logits, labels: (logits.bfloat16().topk(1).indices[:, 0] == labels).double().mean(),
    ],
)
def test_right_accuracies_pass(f: Callable[..., Any]) -> None:
    assert verdict(check.accuracy, f).startswith("✓ accuracy: 100 random cases")


def label_share(logits: Tensor, labels: Tensor) -> Tensor:
    return logits.softmax(-1)[torch.arange(len(labels)), labels]


PLANTED_ACCURACIES = [
    (lambda x, y: (x.argmax(dim=0) == y).float().mean(), "argmax runs over the positions"),
    (lambda x, y: (x.argmax() == y).float().mean(), "argmax runs over the whole table"),
    (lambda x, y: right_accuracy(x, y) / x.shape[1], "divided by the vocabulary, too"),
    (lambda x, y: (x.argmax(-1) == y).sum() / x.shape[1], "divided by the vocabulary, too"),
    (
        lambda x, y: (
            (F.one_hot(x.argmax(1), x.shape[1]) == F.one_hot(y, x.shape[1])).float().mean()
        ),
        "(position, word) cells",
    ),
    (lambda x, y: (x.argmin(-1) == y).float().mean(), "the least likely word is taken"),
    (lambda x, y: label_share(x, y).mean(), "the mean probability of the labels"),
    (lambda x, y: (label_share(x, y) > 0.5).float().mean(), "above one half"),
    (lambda x, y: (x.argmax(-1) == y).sum(), "the number of right answers, not their share"),
    (lambda x, y: 100 * right_accuracy(x, y), "this is in percent"),
    (lambda x, y: (x.argmax(-1) != y).float().mean(), "the share of wrong answers"),
]


@pytest.mark.parametrize(
    ("wrong", "text"), PLANTED_ACCURACIES, ids=[t for _, t in PLANTED_ACCURACIES]
)
def test_each_wrong_accuracy_gets_its_own_message(wrong: Callable[..., Any], text: str) -> None:
    said = verdict(check.accuracy, wrong)
    assert said.startswith("✗ accuracy: ")
    assert text in words(said)
    assert said == verdict(check.accuracy, wrong)
