"""The checks of notebook 09: rows, head and loss of multiple choice, and a test for its data."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from itertools import zip_longest
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from verdicts import assert_named_alone, verdict, words

from bertedu.check import finetuning_sentence_pairs as check
from bertedu.check.finetuning_sentence_pairs import (
    CHOICE_HEAD,
    CHOICE_LOSS,
    CHOICE_MUSEUM,
    CHOICE_ROWS,
    RIGHT_BUILDERS,
    right_choice_data_test,
    right_choice_head,
    right_choice_loss,
    right_choice_rows,
)
from bertedu.finetuning.examples import Choice
from bertedu.finetuning.inputs import collate
from bertedu.finetuning.kinds import MultipleChoice
from bertedu.model.features import Features
from bertedu.text.tokenization import load_tokenizer

Pieces = list[str]

# -- all exercises

EXERCISES = (CHOICE_ROWS, CHOICE_HEAD, CHOICE_LOSS)


# -- rows


def test_the_rows_are_those_of_the_package() -> None:
    tokenizer = load_tokenizer()
    beginning, endings = (
        "The river rises in the hills.",
        ("It is short.", "A town lies there, too."),
    )
    batch = collate(MultipleChoice().encode([Choice(beginning, endings, 0)], tokenizer, 64))
    pieces = [tokenizer.encode(t, add_special_tokens=False).tokens for t in (beginning, *endings)]
    tokens, segments, mask = right_choice_rows(pieces[0], pieces[1:])
    assert [[tokenizer.token_to_id(t) for t in row] for row in tokens] == batch.ids.tolist()
    assert segments == batch.segment_ids.tolist()
    assert mask == batch.padding_mask.int().tolist()


def rows_by_zip(beginning: Pieces, endings: list[Pieces]) -> Any:
    """Pad by zip_longest; segments and mask as tensors, made from the tokens."""
    rows = [["[CLS]", *beginning, "[SEP]", *ending, "[SEP]"] for ending in endings]
    tokens = list(zip(*zip_longest(*rows, fillvalue="[PAD]"), strict=True))
    mask = torch.tensor([[token != "[PAD]" for token in row] for row in tokens])
    place = torch.arange(mask.shape[1])
    return tokens, (mask & (place >= len(beginning) + 2)).int(), mask


@pytest.mark.parametrize("f", [right_choice_rows, rows_by_zip])
def test_right_rows_pass(f: Callable[..., Any]) -> None:
    assert verdict(check.choice_rows, f).startswith("✓ choice_rows: 61 random cases")


def as_learners_write(
    row: str = '["[CLS]"] + beginning + ["[SEP]"] + ending + ["[SEP]"]',
    segment: str = "[0] * (len(beginning) + 2) + [1] * (len(ending) + 1)",
    pad: str = "longest - len(row)",
    padded: str = '(row + ["[PAD]"] * n, segment + [0] * n, [1] * len(row) + [0] * n)',
    of: str = "endings",
) -> Callable[..., Any]:
    """Write a function as a learner would, with one expression changed."""
    scope: dict[str, Any] = {}
    exec(
        f"def f(beginning, endings):\n"
        f"    rows = [({row}, {segment}) for ending in {of}]\n"
        f"    longest = max(len(row) for row, _ in rows)\n"
        f"    tables = [], [], []\n"
        f"    for row, segment in rows:\n"
        f"        n = {pad}\n"
        f"        for table, part in zip(tables, {padded}):\n"
        f"            table.append(part)\n"
        f"    return tables\n",
        scope,
    )
    f: Callable[..., Any] = scope["f"]
    return f


def test_the_learners_function_unchanged_is_right() -> None:
    assert verdict(check.choice_rows, as_learners_write()).startswith("✓")


def in_place(beginning: Pieces, endings: list[Pieces]) -> Any:
    for ending in endings:
        ending.append("[SEP]")
    return right_choice_rows(beginning, [ending[:-1] for ending in endings])


PLANTED_ROWS = [
    (as_learners_write(row='["[CLS]"] + ending + ["[SEP]"] + beginning + ["[SEP]"]'), "before the"),
    (
        as_learners_write(
            row='beginning + ["[SEP]"] + ending + ["[SEP]"]',
            segment="[0] * (len(beginning) + 1) + [1] * (len(ending) + 1)",
        ),
        "[CLS] is missing",
    ),
    (
        as_learners_write(
            row='["[CLS]"] + beginning + ending + ["[SEP]"]',
            segment="[0] * (len(beginning) + 1) + [1] * (len(ending) + 1)",
        ),
        "the [SEP] between the two texts is missing",
    ),
    (
        as_learners_write(
            row='["[CLS]"] + beginning + ["[SEP]"] + ending',
            segment="[0] * (len(beginning) + 2) + [1] * len(ending)",
        ),
        "the last [SEP] is missing",
    ),
    (as_learners_write(segment="[0] * len(beginning + ending + [1, 2, 3])"), "segments are all 0"),
    (
        as_learners_write(segment="[1] * (len(beginning) + 2) + [0] * (len(ending) + 1)"),
        "the segments are swapped",
    ),
    (
        as_learners_write(segment="[0] * (len(beginning) + 1) + [1] * (len(ending) + 2)"),
        "the first [SEP] is in segment 1",
    ),
    (
        as_learners_write(segment="[0] * (len(beginning) + 2) + [1] * len(ending) + [0]"),
        "the last [SEP] is in segment 0",
    ),
    (as_learners_write(pad="0"), "the rows are not padded"),
    (
        as_learners_write(
            padded='(["[PAD]"] * n + row, [0] * n + segment, [0] * n + [1] * len(row))'
        ),
        "the padding stands on the left",
    ),
    (
        as_learners_write(padded='(row + ["[PAD]"] * n, segment + [0] * n, [1] * longest)'),
        "the mask is 1 at padding",
    ),
    (
        as_learners_write(
            padded='(row + ["[PAD]"] * n, segment + [0] * n, [0] * len(row) + [1] * n)'
        ),
        "the mask is the wrong way round",
    ),
    (
        as_learners_write(
            padded='(row + ["[PAD]"] * n, segment + [1] * n, [1] * len(row) + [0] * n)'
        ),
        "the padding is in segment 1",
    ),
    (in_place, "writes into beginning or endings"),
    (lambda a, b: right_choice_rows(a, b)[:2], "return three things"),
    (as_learners_write(of="endings[:1]"), "row for 2 endings; each ending needs a row of its own"),
    (lambda a, b: ("a", "b", "c"), "tokens is no list of rows"),
    (
        as_learners_write(padded='(row + ["[PAD]"] * n, segment, [1] * len(row) + [0] * n)'),
        "one number for each token is wanted",
    ),
    (
        as_learners_write(segment='["A"] * (len(beginning) + 2) + ["B"] * (len(ending) + 1)'),
        "segments should hold only 0 and 1",
    ),
]


@pytest.mark.parametrize(("wrong", "text"), PLANTED_ROWS, ids=[text for _, text in PLANTED_ROWS])
def test_each_wrong_row_gets_its_own_message(wrong: Callable[..., Any], text: str) -> None:
    said = verdict(check.choice_rows, wrong)
    assert said.startswith("✗ choice_rows: ")
    assert text in words(said)
    assert said == verdict(check.choice_rows, wrong)


def test_a_verdict_on_rows_in_full() -> None:
    said = verdict(
        check.choice_rows, as_learners_write(segment="[0] * (len(beginning + ending) + 3)")
    )
    assert said == (
        "✗ choice_rows: the segments are all 0.\n"
        "  Smallest case: beginning = ['dogs'], endings = [['bark'], ['do', 'not']].\n"
        "  Row 0 of your segments is 0 0 0 0 0 0; right is 0 0 0 1 1 0.\n"
        "  Likely: the ending and its [SEP] are segment 1.\n"
    )


# -- head


def test_the_head_is_that_of_the_package() -> None:
    torch.manual_seed(0)
    kind, whole = MultipleChoice(), torch.randn(12, 5)
    head = kind.head(5, dropout=0.0)
    tokenizer = load_tokenizer()
    examples = [Choice("a", tuple("bcde"), 1)] * 3
    batch = collate(kind.encode(examples, tokenizer, 16))
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
        scores[-1].append(
            sum(x * w for x, w in zip(row, weight.tolist(), strict=True)) + float(bias)
        )
    powers = [[math.exp(s) for s in row] for row in scores]
    return scores, [[p / sum(row) for p in row] for row in powers]


def folded_first(c: Tensor, weight: Tensor, bias: Tensor, choices: int) -> Any:
    folded = c.reshape(-1, choices, c.shape[-1])
    scores = torch.einsum("bnh,h->bn", folded, weight) + bias
    return [scores, torch.softmax(scores, 1)]


@pytest.mark.parametrize("f", [right_choice_head, head_by_loops, folded_first])
def test_right_heads_pass(f: Callable[..., Any]) -> None:
    assert verdict(check.choice_head, f).startswith("✓ choice_head: 100 random cases")


PLANTED_HEADS = [
    (lambda c, w, b, n: head_on(c.view(n, -1, c.shape[-1]).transpose(0, 1), w, b), "are mixed"),
    (lambda c, w, b, n: shared(right_choice_head(c, w, b, n)[0], 0), "softmax runs over the examp"),
    (
        lambda c, w, b, n: (right_choice_head(c, w, b, n)[0], (c @ w + b).softmax(0).view(-1, n)),
        "softmax runs over all rows of the batch",
    ),
    (
        lambda c, w, b, n: (right_choice_head(c, w, b, n)[0], (c @ w + b).sigmoid().view(-1, n)),
        "each choice has a sigmoid of its own",
    ),
    (lambda c, w, b, n: shared((c @ w).view(-1, n)), "the bias is missing"),
    (
        lambda c, w, b, n: shared(
            (c.view(-1, n, c.shape[-1]) - c.view(-1, n, c.shape[-1]).mean(1, keepdim=True)) @ w
        ),
        "the score of a choice depends on the other choices",
    ),
    (lambda c, w, b, n: shared((c @ w + b).tanh().view(-1, n)), "have been through a tanh"),
    (lambda c, w, b, n: ((c @ w + b).view(-1, n),) * 2, "the shares are the scores"),
    (
        lambda c, w, b, n: (right_choice_head(c, w, b, n)[1],) * 2,
        "the scores are softmaxed already",
    ),
    (
        lambda c, w, b, n: (
            right_choice_head(c, w, b, n)[0],
            right_choice_head(c, w, b, n)[1].softmax(1),
        ),
        "softmax is applied twice",
    ),
    (
        lambda c, w, b, n: (
            right_choice_head(c, w, b, n)[0],
            right_choice_head(c, w, b, n)[1].log(),
        ),
        "logarithms of the shares",
    ),
    (lambda c, w, b, n: right_choice_head(c, w, b, n)[::-1], "in the wrong order"),
    (lambda c, w, b, n: right_choice_head(c, w, b, n)[0], "return two things: scores, shares"),
    (
        lambda c, w, b, n: tuple(x[..., None] for x in right_choice_head(c, w, b, n)),
        "scores has shape (1, 2, 1); (1, 2) is wanted here",
    ),
    (lambda c, w, b, n: shared((c @ w + b)[None]), "scores has shape (1, 4); (2, 2) is wanted"),
    (lambda c, w, b, n: shared((c.mul_(w).sum(-1) + b).view(-1, n)), "changes c in place"),
]


def shared(scores: Tensor, dim: int = -1) -> tuple[Tensor, Tensor]:
    return scores, scores.softmax(dim)


def head_on(folded: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    return shared(folded @ weight + bias)


@pytest.mark.parametrize(("wrong", "text"), PLANTED_HEADS, ids=[text for _, text in PLANTED_HEADS])
def test_each_wrong_head_gets_its_own_message(wrong: Callable[..., Any], text: str) -> None:
    said = verdict(check.choice_head, wrong)
    assert said.startswith("✗ choice_head: ")
    assert text in words(said)
    assert said == verdict(check.choice_head, wrong)


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
        right_choice_loss,
        loss_by_loops,
        lambda s, y: right_choice_loss(s.double(), y).numpy(),
        lambda s, y: (s.logsumexp(1) - s[torch.arange(len(y)), y]).mean(),
        lambda s, y: -(F.one_hot(y, s.shape[1]) * s.log_softmax(-1)).sum(-1).mean(),
    ],
)
def test_right_choice_losses_pass(f: Callable[..., Any]) -> None:
    assert verdict(check.choice_loss, f).startswith("✓ choice_loss: 120 random cases")


def hot(scores: Tensor, labels: Tensor) -> Tensor:
    return F.one_hot(labels, scores.shape[1]).float()


PLANTED_LOSSES = [
    (lambda s, y: F.binary_cross_entropy(s.sigmoid(), hot(s, y)), "each ending is asked alone"),
    (lambda s, y: F.nll_loss(s.log_softmax(0), y), "softmax runs over the examples"),
    (lambda s, y: F.cross_entropy(s, y, reduction="sum"), "the sum over the examples, not their"),
    (lambda s, y: -(hot(s, y) * s.log_softmax(1)).mean(), "divided by B·N"),
    (lambda s, y: -s.log_softmax(1)[:, y].mean(), "do not pick one score for each example"),
    (lambda s, y: s.softmax(1)[torch.arange(len(y)), y].mean(), "the logarithm is missing"),
    (lambda s, y: -s[torch.arange(len(y)), y].mean(), "softmax is missing"),
    (lambda s, y: F.cross_entropy(s.softmax(1), y), "softmax is applied twice"),
    (lambda s, y: F.cross_entropy(s, torch.zeros_like(y)), "the labels are not looked at"),
    (lambda s, y: -s.softmax(1).max(1).values.log().mean(), "the labels are not looked at"),
    (lambda s, y: -right_choice_loss(s, y), "the sign is wrong"),
    (lambda s, y: loss_by_loops(s, y) / math.log(2), "the loss is in bits"),
    (lambda s, y: (s.argmax(1) == y).float().mean(), "this counts right and wrong answers"),
    (lambda s, y: F.cross_entropy(s, y, reduction="none"), "one number is wanted"),
    (lambda s, y: F.cross_entropy(s.mul_(1.5), y), "changes scores in place"),
]


@pytest.mark.parametrize(("wrong", "text"), PLANTED_LOSSES, ids=[t for _, t in PLANTED_LOSSES])
def test_each_wrong_choice_loss_gets_its_own_message(wrong: Callable[..., Any], text: str) -> None:
    said = verdict(check.choice_loss, wrong)
    assert said.startswith("✗ choice_loss: ")
    assert text in words(said)
    assert said == verdict(check.choice_loss, wrong)


# -- data

Made = tuple[list[int], list[list[int]], int]
Builder = Callable[..., dict[str, list[Made]]]
ARTICLES = [
    (split, topic, [[100 * n + 10 * s + i for i in range(1 + (3 * s + n) % 5)] for s in range(9)])
    for n, (split, topic) in enumerate(
        (split, topic)
        for split in ("test", "train")
        for _ in range(5)
        for topic in ("birds", "ships")
    )
]
HOME = {
    tuple(sentence): (n, split, topic, s)
    for n, (split, topic, sentences) in enumerate(ARTICLES)
    for s, sentence in enumerate(sentences)
}


def examples(builder: Builder, seeds: int = 20) -> list[tuple[str, Made]]:
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


@pytest.mark.parametrize("t", [right_choice_data_test, looks_right])
def test_good_data_tests_pass(t: Callable[[Builder], bool]) -> None:
    assert words(verdict(check.choice_data_test, t)) == (
        "✓ choice_data_test: accepts 2 right builders, catches 7 broken ones (examples split, test "
        "sentences as wrong endings in training, right ending always first, right ending always "
        "longest, wrong endings of another topic, wrong endings of the same article, segments "
        "swapped)."
    )


def test_the_museum_is_as_described() -> None:
    before = repr(ARTICLES)
    broken = {exhibit.seen: exhibit.broken for exhibit in CHOICE_MUSEUM}
    for _, builder in RIGHT_BUILDERS:
        assert looks_right(builder)
        assert builder(ARTICLES, 1) == builder(ARTICLES, 1) != builder(ARTICLES, 2)
    for builder in broken.values():
        assert not looks_right(builder)
        assert not right_choice_data_test(builder)
        assert builder(ARTICLES, 1) == builder(ARTICLES, 1)

    def homes(name: str) -> list[tuple[str, Any, list[Any], int]]:
        return [
            (split, HOME[tuple(a)], [HOME[tuple(end)] for end in endings], label)
            for split, (a, endings, label) in examples(broken[name], 3)
        ]

    strayed = [split != a[1] for split, a, _, _ in homes("examples split, not articles")]
    assert 0.4 < np.mean(strayed) < 0.6
    foreign = [
        any(end[1] != split for end in ends)
        for split, _, ends, _ in homes("test sentences as wrong endings in training")
    ]
    assert np.mean(foreign) > 0.5
    assert {label for *_, label in homes("right ending always first")} == {0}
    assert all(
        [end[2] == a[2] for end in ends].count(True) == 1
        for _, a, ends, _ in homes("wrong endings of another topic")
    )
    assert all(
        {end[0] for end in ends} == {a[0]}
        for _, a, ends, _ in homes("wrong endings of the same article")
    )
    assert all(ends[label][3] == a[3] - 1 for _, a, ends, label in homes("segments swapped"))
    lengths = [
        [len(end) for end in ends][label] >= max(map(len, ends))
        for _, (_, ends, label) in examples(broken["right ending always longest"], 3)
    ]
    assert np.mean(lengths) > 0.75
    assert repr(ARTICLES) == before


@pytest.mark.parametrize("exhibit", CHOICE_MUSEUM, ids=[e.seen for e in CHOICE_MUSEUM])
def test_each_builder_that_gets_past_is_named_alone(exhibit: Any) -> None:
    broken = exhibit.broken(ARTICLES, 3)
    assert_named_alone(
        check.choice_data_test,
        lambda f: right_choice_data_test(f) or f(ARTICLES, 3) == broken,
        "choice_data_test: 1 of 7 broken builders got past your test.",
        exhibit,
    )


@pytest.mark.parametrize(
    ("t", "text"),
    [
        (lambda builder: True, "7 of 7 broken builders got past your test"),
        (
            lambda builder: len({one[2] for _, one in examples(builder)}) > 1,
            "6 of 7 broken builders got past your test",
        ),
        (lambda builder: False, "refuses every builder, right ones included"),
        (
            lambda builder: len(builder(ARTICLES, 0)["train"]) > 40 and looks_right(builder),
            "refuses a right builder, one written with one example an article",
        ),
        (lambda builder: builder(ARTICLES, 0)["train"], "True or False is wanted"),
        (lambda builder: builder(ARTICLES)["train"] == [], "stopped with TypeError"),
        (lambda builder: builder(ARTICLES, 0)["dev"] == [], "stopped with KeyError"),
    ],
)
def test_weak_data_tests_are_told_why(t: Callable[..., Any], text: str) -> None:
    said = words(verdict(check.choice_data_test, t))
    assert said.startswith("✗ choice_data_test: ")
    assert text in said
