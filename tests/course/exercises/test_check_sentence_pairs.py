"""The exercises of notebook 09: rows, head and loss of multiple choice, and a test for its data."""

import math
from collections import Counter
from collections.abc import Callable
from itertools import product, zip_longest
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from verdicts import verdict, words

from bertedu.finetuning.collation import collate
from bertedu.finetuning.examples import Choice
from bertedu.finetuning.kinds import MultipleChoice
from bertedu.model.features import Features
from bertedu.text.fast_tokenizer import load_tokenizer
from course.exercises import check
from course.exercises.finetuning_sentence_pairs import (
    CHOICE_DATA_TEST,
    right_choice_head,
    right_choice_loss,
    right_choice_rows,
)
from course.exercises.museum import exhibits

# -- rows


def test_the_rows_are_those_of_the_package() -> None:
    tokenizer = load_tokenizer()
    texts = ("The river rises in the hills.", "It is short.", "A town lies there, too.")
    one = Choice(texts[0], texts[1:], 0)
    batch = collate(MultipleChoice().encode([one], tokenizer, 64))
    pieces = [tokenizer.encode(text, add_special_tokens=False).tokens for text in texts]
    tokens, segments, mask = right_choice_rows(pieces[0], pieces[1:])
    assert [[tokenizer.token_to_id(t) for t in row] for row in tokens] == batch.ids.tolist()
    assert segments == batch.segment_ids.tolist()
    assert mask == batch.padding_mask.int().tolist()


def rows_by_zip(beginning: list[str], endings: list[list[str]]) -> Any:
    """Pad by zip_longest; segments and mask as tensors, made from the tokens."""
    rows = [["[CLS]", *beginning, "[SEP]", *ending, "[SEP]"] for ending in endings]
    tokens = list(zip(*zip_longest(*rows, fillvalue="[PAD]"), strict=True))
    mask = torch.tensor([[token != "[PAD]" for token in row] for row in tokens])
    place = torch.arange(mask.shape[1])
    return tokens, (mask & (place >= len(beginning) + 2)).int(), mask


def rows_in_place(beginning: list[str], endings: list[list[str]]) -> Any:
    for ending in endings:
        ending.append("[SEP]")
    return right_choice_rows(beginning, [ending[:-1] for ending in endings])


def rows_by_numbers(beginning: list[str], endings: list[list[str]], closed: bool = True) -> Any:
    """Segments read off the place alone, so that they go on; or [SEP] put at the very end."""
    tokens, segments, mask = (list(map(list, part)) for part in rows_by_zip(beginning, endings))
    begins, size = len(beginning) + 2, len(tokens[0])
    if closed:
        return tokens, [[int(place >= begins) for place in range(size)] for _ in tokens], mask
    rows = [["[CLS]", *beginning, "[SEP]", *ending] for ending in endings]
    rows = [[*row, *["[PAD]"] * (size - 1 - len(row)), "[SEP]"] for row in rows]
    return rows, segments, mask


def test_right_rows_pass() -> None:
    assert verdict(check.choice_rows, rows_by_zip).startswith("✓ choice_rows: 61 random cases")


# -- head


def test_the_head_is_that_of_the_package() -> None:
    torch.manual_seed(0)
    kind, whole = MultipleChoice(), torch.randn(12, 5)
    head = kind.head(5, dropout=0.0)
    examples = [Choice("a", tuple("bcde"), 1)] * 3
    batch = collate(kind.encode(examples, load_tokenizer(), 16))
    linear = head.classifier
    assert isinstance(linear, torch.nn.Linear)
    scores, shares = right_choice_head(whole, linear.weight[0], linear.bias[0], 4)
    assert torch.allclose(kind.scores(head, Features(whole[:, None], whole), batch), scores)
    answers = kind.answers(examples, (), list(scores))
    assert np.allclose([a.shares for a in answers], shares.detach(), atol=1e-6)


def head_by_loops(c: Tensor, weight: Tensor, bias: Tensor, choices: int) -> Any:
    scores: list[list[float]] = []
    for place, row in enumerate(c.tolist()):
        if place % choices == 0:
            scores.append([])
        pairs = zip(row, weight.tolist(), strict=True)
        scores[-1].append(sum(x * w for x, w in pairs) + float(bias))
    powers = [[math.exp(s) for s in row] for row in scores]
    return scores, [[p / sum(row) for p in row] for row in powers]


def folded_first(c: Tensor, weight: Tensor, bias: Tensor, choices: int) -> Any:
    folded = c.reshape(-1, choices, c.shape[-1])
    scores = torch.einsum("bnh,h->bn", folded, weight) + bias
    return [scores, torch.softmax(scores, 1)]


@pytest.mark.parametrize("f", [head_by_loops, folded_first])
def test_right_heads_pass(f: Callable[..., Any]) -> None:
    assert verdict(check.choice_head, f).startswith("✓ choice_head: 100 random cases")


def shared(scores: Tensor, dim: int = -1) -> tuple[Tensor, Tensor]:
    return scores, scores.softmax(dim)


# -- loss


def loss_by_loops(scores: Tensor, labels: Tensor) -> float:
    total = 0.0
    for row, label in zip(scores.tolist(), labels.tolist(), strict=True):
        powers = [math.exp(x) for x in row]
        total -= math.log(powers[label] / sum(powers))
    return total / len(labels)


@pytest.mark.parametrize(
    "f",
    [
        loss_by_loops,
        F.cross_entropy,
        lambda s, y: right_choice_loss(s.double(), y).numpy(),
        lambda s, y: -(F.one_hot(y, s.shape[1]) * s.log_softmax(-1)).sum(-1).mean(),
    ],
)
def test_right_choice_losses_pass(f: Callable[..., Any]) -> None:
    said = verdict(check.choice_loss, f)
    assert said.startswith("✓ choice_loss: 120 random cases")


@pytest.mark.parametrize(
    ("name", "wrong", "text"),
    [
        ("choice_rows", rows_in_place, "changes endings in place. Smallest case"),
        ("choice_rows", lambda a, b: (rows_by_zip(a, b)[0], *[rows_by_zip(a, b)[2]] * 2),
         "Row 0 of your segments is 1 1 1 1 1 0; it should be 0 0 0 1 1 0"),
        ("choice_rows", rows_by_numbers, "segment 1 goes on to the end of the row"),
        ("choice_rows", lambda a, b: rows_by_numbers(a, b, False), "comes after the padding"),
        ("choice_rows", lambda a, b: right_choice_rows(a, b)[:2], "return three things"),
        ("choice_rows", lambda a, b: right_choice_rows(a, b[:1]), "has 1 and not 2 rows; each end"),
        ("choice_rows", lambda a, b: ("a", "b", "c"), "tokens is no list of rows"),
        ("choice_rows", lambda a, b: (*right_choice_rows(a, b)[:2], [[1]] * len(b)), "one number"),
        ("choice_rows", lambda a, b: [right_choice_rows(a, b)[0]] * 3, "mask should hold only"),
        ("choice_head", lambda c, w, b, n: shared((c @ w + b).view(n, -1).T), "are mixed"),
        ("choice_head", lambda c, w, b, n: shared((c @ w + b).view(-1, n), 0), "over the examples"),
        ("choice_head", lambda c, w, b, n: shared((c @ w).view(-1, n)), "the bias is missing"),
        ("choice_head", lambda c, w, b, n: (folded_first(c, w, b, n)[1],) * 2, "are softmaxed"),
        ("choice_head", lambda c, w, b, n: shared((c @ w + b)[None]), "scores has shape (1, 4)"),
        ("choice_head", lambda c, w, b, n: shared((c.mul_(w).sum(-1) + b).view(-1, n)),
         "changes c in place"),
        ("choice_loss", lambda s, y: F.nll_loss(s.log_softmax(0), y), "runs over the examples"),
        ("choice_loss", lambda s, y: F.cross_entropy(s.softmax(1), y), "softmax is applied twice"),
    ],
)  # fmt: skip
def test_each_wrong_function_gets_its_own_message(name: str, wrong: Any, text: str) -> None:
    said = words(verdict(getattr(check, name), wrong))
    assert said.startswith(f"✗ {name}: ")
    assert text in said


# -- data

Builder = Callable[..., dict[str, list[Any]]]
ARTICLES = [
    (split, topic, [[100 * n + 10 * s + i for i in range(1 + (3 * s + n) % 5)] for s in range(9)])
    for n, (split, topic) in enumerate(
        product(("test", "test", "train", "train"), ("birds", "ships", "ships", "birds"))
    )
]
HOME = {
    tuple(sentence): (n, split, topic, s)
    for n, (split, topic, sentences) in enumerate(ARTICLES)
    for s, sentence in enumerate(sentences)
}


def examples(builder: Builder, seeds: int = 20) -> list[Any]:
    made = [builder(ARTICLES, seed) for seed in range(seeds)]
    return [(split, one) for some in made for split in some for one in some[split]]


def looks_right(builder: Builder) -> bool:
    """A right test of another kind: look every sentence up."""
    places: Counter[int] = Counter()
    longest = count = 0
    for split, (beginning, endings, label) in examples(builder):
        n, its_split, topic, s = HOME[tuple(beginning)]
        homes = [HOME[tuple(ending)] for ending in endings]
        if its_split != split or any(home[1:3] != (split, topic) for home in homes):
            return False
        if homes[label][::3] != (n, s + 1) or [home[0] for home in homes].count(n) > 1:
            return False
        places[label] += 1
        others = max(len(e) for i, e in enumerate(endings) if i != label)
        longest += len(endings[label]) > others
        count += 1
    return min(places[i] for i in range(4)) > count / 8 and longest < count / 3


def test_a_good_data_test_of_another_kind_passes() -> None:
    said = words(verdict(check.choice_data_test, looks_right))
    assert said.startswith("✓ choice_data_test: accepts 2 right builders, catches 6 broken ones")


def test_the_builders_draw_by_their_seed_and_leave_articles_alone() -> None:
    before = repr(ARTICLES)
    for builder in [right for _, right in CHOICE_DATA_TEST.right]:
        assert builder(ARTICLES, 1) == builder(ARTICLES, 1) != builder(ARTICLES, 2)
    for exhibit in exhibits(CHOICE_DATA_TEST):
        assert exhibit.wrong[0](ARTICLES, 1) == exhibit.wrong[0](ARTICLES, 1)
        assert all(len(endings) == 4 for _, (_, endings, _) in examples(exhibit.wrong[0], 1))
        assert exhibit.wrong[0](ARTICLES[:1], 1)  # nobody to draw from, and no error
    assert repr(ARTICLES) == before


@pytest.mark.parametrize(
    ("t", "text"),
    [
        (lambda builder: True, "6 of 6 broken builders got past your test"),
        (lambda builder: {one[2] for _, one in examples(builder)} != {0}, "5 of 6 broken builders"),
        (lambda builder: len(examples(builder)) > 999, "one written with one example per article"),
    ],
)
def test_weak_data_tests_are_told_why(t: Callable[..., Any], text: str) -> None:
    said = words(verdict(check.choice_data_test, t))
    assert said.startswith("✗ choice_data_test: ")
    assert text in said
