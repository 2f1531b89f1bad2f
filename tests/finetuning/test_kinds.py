"""Classes, numbers and choices: the numbers of `transformers`, and what may move them."""

import dataclasses
import random
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import pearsonr, spearmanr
from sklearn.metrics import f1_score, matthews_corrcoef
from tiny_kinds import (
    CLASSES,
    EXAMPLES,
    SENTENCES,
    TOKENIZER,
    assert_same,
    encoded,
    make_kind,
    named,
    scores_and_loss,
    theirs_of,
    tiny,
)
from torch import Tensor

from bertedu.finetuning.collation import Item
from bertedu.finetuning.examples import AnyExample, Choice, Example, TaskError
from bertedu.finetuning.kinds import Answer, Classification, Kind, MultipleChoice, Regression
from bertedu.finetuning.training import TaskModel, score_items

KINDS = ("classification", "regression", "choice")


def answer(model: TaskModel, examples: list[AnyExample]) -> list[Answer]:
    items = model.kind.encode(examples, TOKENIZER, 128)
    return model.kind.answers(examples, items, score_items(model, items))


# -- the same numbers as `transformers`


@pytest.mark.parametrize("rows", [1, 4])
def test_classification_as_in_transformers(tmp_path: Path, rows: int) -> None:
    transformers = pytest.importorskip("transformers")
    kind = Classification(CLASSES)
    model, batch = tiny(kind), encoded(kind, EXAMPLES["classification"][:rows])
    assert (rows > 1) == bool((~batch.padding_mask).any())
    theirs = theirs_of(
        model, "classification", tmp_path, transformers.AutoModelForSequenceClassification
    )
    assert type(theirs) is transformers.BertForSequenceClassification
    scores, loss = scores_and_loss(model, batch)
    with torch.no_grad():
        expected = theirs(**named(batch), labels=batch.target)
    assert_same(scores, expected.logits)
    assert_same(loss, expected.loss)


@pytest.mark.parametrize("rows", [1, 3])
def test_regression_as_in_transformers(tmp_path: Path, rows: int) -> None:
    transformers = pytest.importorskip("transformers")
    kind = Regression()
    model, batch = tiny(kind), encoded(kind, EXAMPLES["regression"][:rows])
    theirs = theirs_of(
        model, "regression", tmp_path, transformers.AutoModelForSequenceClassification
    )
    scores, loss = scores_and_loss(model, batch)
    with torch.no_grad():
        expected = theirs(**named(batch), labels=batch.target)
    assert_same(scores, expected.logits)
    assert_same(loss, expected.loss)


@pytest.mark.parametrize("rows", [1, 2])
def test_choice_as_in_transformers(tmp_path: Path, rows: int) -> None:
    transformers = pytest.importorskip("transformers")
    kind = MultipleChoice()
    model, batch = tiny(kind), encoded(kind, EXAMPLES["choice"][:rows])
    theirs = theirs_of(model, "choice", tmp_path, transformers.AutoModelForMultipleChoice)
    scores, loss = scores_and_loss(model, batch)
    by_choice = {name: value.view(rows, 3, -1) for name, value in named(batch).items()}
    with torch.no_grad():
        expected = theirs(**by_choice, labels=batch.target)
    assert_same(scores, expected.logits)
    assert_same(loss, expected.loss)


# -- what moves what


@pytest.mark.parametrize("name", KINDS)
def test_the_loss_asks_for_the_target_and_for_nothing_else(name: str) -> None:
    """Downhill, the score of the right class rises and all others fall; a number moves closer."""
    kind = make_kind(name)
    batch = encoded(kind, EXAMPLES[name])
    model = tiny(kind)
    scores = model(batch).detach().requires_grad_()
    loss = kind.loss(scores, batch)
    (slope,) = torch.autograd.grad(loss, scores)
    if name == "regression":
        assert torch.equal(slope[:, 0] > 0, scores[:, 0] > batch.target)
        other = dataclasses.replace(batch, target=batch.target + 1)
    else:
        right = torch.zeros_like(slope, dtype=torch.bool)
        right[torch.arange(len(right)), batch.target] = True
        assert (slope[right] < 0).all()
        assert (slope[~right] > 0).all()
        other = dataclasses.replace(batch, target=(batch.target + 1) % scores.shape[1])
    assert abs(kind.loss(scores, other) - loss) > 1e-3


@pytest.mark.parametrize("name", KINDS)
def test_the_loss_is_a_mean_over_the_items(name: str) -> None:
    kind = make_kind(name)
    model, examples = tiny(kind), EXAMPLES[name]
    alone = [scores_and_loss(model, encoded(kind, [example]))[1] for example in examples]
    together = scores_and_loss(model, encoded(kind, examples))[1]
    assert_same(together, torch.stack(alone).mean())


@pytest.mark.parametrize("name", KINDS)
def test_labels_do_not_move_answers(name: str) -> None:
    model = tiny(make_kind(name))
    examples = list(EXAMPLES[name])
    blank = [dataclasses.replace(e, label=0) for e in examples if isinstance(e, Example | Choice)]
    assert answer(model, examples) == answer(model, blank)


def test_both_texts_and_their_order_matter() -> None:
    model = tiny(Classification(CLASSES))
    pairs = [(0, 1), (1, 0), (0, 2), (2, 1), (0, None)]
    found = answer(
        model, [Example(SENTENCES[a], None if b is None else SENTENCES[b], 0) for a, b in pairs]
    )
    shares = {tuple(round(share, 3) for share in each.shares) for each in found}
    assert len(shares) == len(pairs)


def test_the_classes_share_one() -> None:
    model = tiny(Classification(CLASSES))
    examples = list(EXAMPLES["classification"])
    items = model.kind.encode(examples, TOKENIZER, 128)
    scores = score_items(model, items)
    for each, score in zip(model.kind.answers(examples, items, scores), scores, strict=True):
        assert sum(each.shares) == pytest.approx(1)
        assert each.value == max(range(3), key=lambda k: each.shares[k])
        expected = np.exp(score.numpy()) / np.exp(score.numpy()).sum()
        assert each.shares == pytest.approx(tuple(expected))


def test_a_regression_answers_its_score() -> None:
    model = tiny(Regression())
    examples = list(EXAMPLES["regression"])
    items = model.kind.encode(examples, TOKENIZER, 128)
    scores = score_items(model, items)
    for each, score in zip(model.kind.answers(examples, items, scores), scores, strict=True):
        assert (each.value, each.shares) == (float(score), ())
    assert [item.target for item in items] == [2.5, -1.0, 4.0]
    assert encoded(model.kind, examples).target.dtype == torch.float32
    whole = encoded(model.kind, [Example("Two.", None, 2), Example("One.", None, True)])
    assert whole.target.dtype == torch.float32


# -- choices


def test_other_order_of_endings_other_order_of_shares() -> None:
    model = tiny(MultipleChoice())
    (plain,) = answer(model, [Choice(SENTENCES[0], SENTENCES[1:], 0)])
    assert len({round(share, 3) for share in plain.shares}) == 3
    for order in ((2, 0, 1), (1, 0, 2)):
        (turned,) = answer(model, [Choice(SENTENCES[0], tuple(SENTENCES[1 + i] for i in order), 0)])
        assert turned.shares == pytest.approx([plain.shares[i] for i in order], rel=1e-4)
        assert order[turned.value] == plain.value


def test_an_ending_moves_its_own_score_only() -> None:
    kind = MultipleChoice()
    model, first = tiny(kind), EXAMPLES["choice"][0]
    assert isinstance(first, Choice)
    other = dataclasses.replace(first, endings=(*first.endings[:2], "Nothing else was heard."))
    beside = EXAMPLES["choice"][1]
    before, after = (scores_and_loss(model, encoded(kind, [e, beside]))[0] for e in (first, other))
    moved = (before - after).abs() > 1e-3
    assert moved.tolist() == [[False, False, True], [False, False, False]]
    begun = dataclasses.replace(first, text="Nothing else was heard.")
    after = scores_and_loss(model, encoded(kind, [begun, beside]))[0]
    assert ((before - after).abs() > 1e-3).tolist() == [[True] * 3, [False] * 3]


def test_a_choice_is_read_as_a_pair() -> None:
    (item,) = MultipleChoice().encode([Choice("One.", ("Two.", "Three."), 1)], TOKENIZER, 128)
    for row, ending in zip(item.rows, ("Two.", "Three."), strict=True):
        assert row.ids == TOKENIZER.encode("One.", ending).ids
        assert sum(row.type_ids) == len(TOKENIZER.encode(ending).ids) - 1
    assert item.target == 1


def test_unequal_numbers_of_endings_are_refused() -> None:
    """Two and four make six rows, and six rows also make two times three."""
    examples = [Choice("One.", ("A.", "B."), 1), Choice("Two.", ("A.", "B.", "C.", "D."), 3)]
    with pytest.raises(TaskError, match="2 endings and another 4: give all of them the same"):
        MultipleChoice().encode(examples, TOKENIZER, 128)
    for example in examples:
        (item,) = MultipleChoice().encode([example], TOKENIZER, 128)
        assert len(item.rows) == len(example.endings)


# -- from answers to scores


@pytest.fixture
def judged() -> dict[str, tuple[Kind, list[AnyExample], list[Answer]]]:
    """Random truths, and answers that are right about half of the time."""
    rng = random.Random(3)
    classes = [rng.randrange(3) for _ in range(40)]
    values = [rng.random() for _ in range(40)]

    def guess(truth: int) -> Answer:
        return Answer(truth if rng.random() < 0.5 else rng.randrange(3), (0.2, 0.3, 0.5))

    return {
        "classification": (
            Classification(CLASSES),
            [Example("x", None, label) for label in classes],
            [guess(label) for label in classes],
        ),
        "choice": (
            MultipleChoice(),
            [Choice("x", ("a", "b", "c"), label) for label in classes],
            [guess(label) for label in classes],
        ),
        "regression": (
            Regression(),
            [Example("x", None, value) for value in values],
            [Answer(value + rng.random()) for value in values],
        ),
    }


@pytest.mark.parametrize("name", KINDS)
def test_a_part_of_the_outcomes_scores_as_that_part(
    judged: dict[str, tuple[Kind, list[AnyExample], list[Answer]]], name: str
) -> None:
    kind, examples, answers = judged[name]
    outcomes = kind.outcomes(examples, answers)
    assert outcomes.shape == (40, len(kind.columns))
    truths = [e.label for e in examples if isinstance(e, Example | Choice)]
    found = [a.value for a in answers]
    assert outcomes.T.tolist() == [truths, found]  # every measure here forgives a swap
    assert kind.columns[1] == "found"
    rng = random.Random(4)
    for drawn in (range(40), range(7, 19), [rng.randrange(40) for _ in range(40)]):
        part = [truths[i] for i in drawn], [found[i] for i in drawn]
        if name == "regression":
            expected = {"pearson": pearsonr(*part)[0], "spearman": spearmanr(*part)[0]}
        else:
            expected = {
                "accuracy": np.equal(*part).mean(),
                "macro_f1": f1_score(*part, average="macro"),
                "matthews": matthews_corrcoef(*part),
            }
        own = kind.outcomes([examples[i] for i in drawn], [answers[i] for i in drawn])
        assert np.array_equal(own, outcomes[list(drawn)])
        assert kind.metrics(own) == pytest.approx(expected)
        assert 0 < expected[next(iter(expected))] < 1
    if name != "regression":
        right = sum(t == f for t, f in zip(truths, found, strict=True))
        assert kind.metrics(outcomes)["accuracy"] == pytest.approx(right / 40)


def test_answers_and_examples_must_match(
    judged: dict[str, tuple[Kind, list[AnyExample], list[Answer]]],
) -> None:
    kind, examples, answers = judged["classification"]
    with pytest.raises(ValueError, match="shorter"):
        kind.outcomes(examples, answers[:-1])


def test_most_kinds_have_nothing_to_calibrate() -> None:
    nothing: list[Item] = []
    scores: list[Tensor] = []
    for name in KINDS:
        kind = make_kind(name)
        before = dataclasses.asdict(kind)  # type: ignore[call-overload]
        kind.calibrate([], nothing, scores)
        assert dataclasses.asdict(kind) == before  # type: ignore[call-overload]
