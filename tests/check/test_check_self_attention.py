"""The checks of notebook 03."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from verdicts import verdict, words

from bertedu import check
from bertedu.check.self_attention import (
    LAYER_MUSEUM,
    RIGHT_LAYERS,
    right_attention,
    right_causal_mask,
    right_join_heads,
    right_leak_test,
    right_scores,
    right_softmax,
    right_split_heads,
)
from bertedu.model.attention import SelfAttention, scaled_dot_product_attention
from bertedu.model.config import BertConfig

Wrong = Callable[..., Any]


def assert_rejected(name: str, wrong: Wrong, text: str) -> None:
    """A wrong function gets its own message and a smallest case, and the same ones each time."""
    said = verdict(getattr(check, name), wrong)
    assert said.startswith(f"✗ {name}: ")
    assert text in words(said)
    assert "Smallest case: " in said
    assert said == verdict(getattr(check, name), wrong)


NAMES = [
    "scores",
    "softmax",
    "attention",
    "split_heads",
    "join_heads",
    "causal_mask",
    "leak_test",
]


@pytest.mark.parametrize("name", NAMES)
def test_a_stub_is_told_how_to_begin(name: str) -> None:
    def stub(*arguments: Any) -> None: ...

    arguments = {"scores": 2, "attention": 4, "split_heads": 2}.get(name, 1)
    stubs: dict[int, Wrong] = {
        1: lambda a: stub(a),
        2: lambda a, b: stub(a, b),
        4: lambda a, b, c, d: stub(a, b, c, d),
    }
    said = verdict(getattr(check, name), stubs[arguments])
    assert said.startswith(f"… {name} is still a stub. Start from ")


@pytest.mark.parametrize("name", NAMES)
def test_the_answer_book_has_the_exercise(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    check.solution(name)
    said = capsys.readouterr().out
    assert "# bertedu/" in said
    assert f"def right_{name}(" in said


# -- scores


def scores_by_loops(query: Tensor, key: Tensor) -> list[list[float]]:
    return [
        [sum(a * b for a, b in zip(q, k, strict=True)) for k in key.tolist()]
        for q in query.tolist()
    ]


@pytest.mark.parametrize(
    "f",
    [
        right_scores,
        scores_by_loops,
        lambda query, key: torch.einsum("nd,md->nm", query, key),
        lambda query, key: (query[:, None] * key).sum(-1),
        lambda query, key: F.linear(query.double(), key.double()).numpy(),
        lambda query, key: query.bfloat16() @ key.bfloat16().T,
    ],
)
def test_right_scores_pass(f: Wrong) -> None:
    assert verdict(check.scores, f).startswith("✓ scores: 120 random cases")


def scores_in_place(query: Tensor, key: Tensor) -> Tensor:
    query *= 1.5
    return query @ key.T / 1.5


PLANTED_SCORES = [
    (lambda q, k: torch.einsum("nd,md->mn", q, k), "the table is transposed"),
    (lambda q, k: torch.matmul(q, k), "key is not transposed, so its columns"),
    (lambda q, k: q @ k.reshape(k.shape[::-1]), "the numbers of different keys are mixed up"),
    (lambda q, k: q @ k.T / math.sqrt(q.shape[1]), "divided by the square root of d already"),
    (lambda q, k: F.cosine_similarity(q[:, None], k, dim=-1), "these are cosines"),
    (lambda q, k: torch.cdist(q, k), "these are distances, not dot products"),
    (lambda q, k: k * q, "the products are not added up"),
    (lambda q, k: (k * q).sum(1), "query i meets key i only"),
    (lambda q, k: torch.einsum("nd,md->nm", q, q), "key is not used"),
    (lambda q, k: F.linear(k, k), "query is not used"),
    (lambda q, k: F.softmax(q @ k.T, dim=1), "these are weights already"),
    (scores_in_place, "changes query in place"),
    (lambda q, k: q @ k.T + 1, "120 of 120 cases come out wrong"),
]


@pytest.mark.parametrize(("wrong", "text"), PLANTED_SCORES, ids=[t for _, t in PLANTED_SCORES])
def test_each_wrong_score_gets_its_own_message(wrong: Wrong, text: str) -> None:
    assert_rejected("scores", wrong, text)


# -- softmax


def softmax_by_loops(scores: Tensor) -> list[list[float]]:
    table = []
    for row in scores.tolist():
        exps = [math.exp(score - max(row)) for score in row]
        table.append([e / sum(exps) for e in exps])
    return table


def softmax_in_numpy(scores: Tensor) -> Any:
    values = scores.numpy()
    exps = np.exp(values - values.max(1, keepdims=True))
    return exps / exps.sum(1, keepdims=True)


@pytest.mark.parametrize(
    "f",
    [
        right_softmax,
        softmax_by_loops,
        softmax_in_numpy,
        lambda scores: (scores - scores.logsumexp(1, keepdim=True)).exp(),
    ],
)
def test_right_softmaxes_pass(f: Wrong) -> None:
    assert verdict(check.softmax, f).startswith("✓ softmax: 130 random tables")


@pytest.mark.parametrize(
    "f",
    [
        lambda scores: scores.softmax(-1),
        lambda scores: torch.softmax(scores, 1),
        lambda scores: F.softmax(scores, dim=-1),
        lambda scores: F.softmin(-scores, dim=-1),
        lambda scores: scores.log_softmax(-1).exp(),
        torch.nn.Softmax(dim=-1),
    ],
)
def test_a_ready_made_softmax_is_no_solution(f: Wrong) -> None:
    said = words(verdict(check.softmax, f))
    assert said.startswith("✗ softmax: right, but PyTorch's softmax did the work.")
    assert "Begin with scores.exp()" in said


def naive(scores: Tensor) -> Tensor:
    return torch.exp(scores) / torch.exp(scores).sum(1, keepdim=True)


def naive_in_python(scores: Tensor) -> list[list[float]]:
    table = []
    for row in scores.tolist():
        total = sum(math.exp(score) for score in row)
        table.append([math.exp(score) / total for score in row])
    return table


def one_highest(scores: Tensor) -> Tensor:
    return naive(scores - scores.max())


def below(scores: Tensor) -> Tensor:
    """The highest score of each row taken away."""
    return scores - scores.max(1, keepdim=True).values


def narrow_twice(scores: Tensor) -> Tensor:
    weights = (scores - scores.amax(dim=1)).exp()
    return weights / weights.sum(dim=1)


def softmax_in_place(scores: Tensor) -> Tensor:
    scores -= scores.max(1, keepdim=True).values
    return naive(scores)


PLANTED_SOFTMAXES = [
    (naive, "a score of 1000 breaks it"),
    (naive_in_python, "a score of 1000 breaks it"),
    (one_highest, "the highest score of the whole table is subtracted"),
    (lambda s: F.softmax(s, dim=0), "columns sum to 1, rows do not"),
    (lambda s: s.exp() / s.exp().sum(0), "columns sum to 1, rows do not"),
    (lambda s: below(s).exp() / below(s).exp().sum(0), "columns sum to 1, rows do not"),
    (lambda s: s.exp() / s.exp().sum(), "the whole table sums to 1"),
    (lambda s: below(s).exp() / below(s).exp().sum(), "the whole table sums to 1"),
    (lambda s: s.exp() / s.exp().sum(1), "the sums of the rows have lost their place"),
    (lambda s: below(s).exp() / below(s).exp().sum(1), "the sums of the rows have lost their"),
    (lambda s: naive(s - s.max(1).values), "the highest scores of the rows have lost their place"),
    (narrow_twice, "keepdim=True is missing twice"),
    (torch.exp, "the exponentials are not divided by their sum"),
    (lambda s: below(s).exp(), "the exponentials are not divided by their sum"),
    (lambda s: s / s.sum(1, keepdim=True), "divided by their sum, without exp"),
    (lambda s: below(s).exp() / s.sum(1, keepdim=True), "exp is above the line only"),
    (
        lambda s: s.exp() / s.exp().max(1, keepdim=True).values,
        "the exponentials are not divided by their sum",
    ),
    (lambda s: F.one_hot(s.max(1).indices, s.shape[1]), "the best key gets all"),
    (torch.sigmoid, "sigmoid judges each key by itself"),
    (lambda s: F.log_softmax(s, dim=1), "these are the logarithms of the weights"),
    (lambda s: F.softmax(-s, dim=1), "the lowest score gets the most"),
    (lambda s: 2 ** below(s) / (2 ** below(s)).sum(1, keepdim=True), "the base is 2, not e"),
    (softmax_in_place, "changes scores in place"),
    (lambda s: s.softmax(1).sum(1), "your table of weights has shape"),
]


@pytest.mark.parametrize(("wrong", "text"), PLANTED_SOFTMAXES)
def test_each_wrong_softmax_gets_its_own_message(wrong: Wrong, text: str) -> None:
    assert_rejected("softmax", wrong, text)


# -- attention


def attention_by_package(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Any:
    query, key, value = (part[None, None] for part in (query, key, value))
    mixed, weights = scaled_dot_product_attention(query, key, value, mask)
    return mixed[0, 0], weights[0, 0]


def attention_by_loops(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Any:
    length, size = query.shape
    mixed, weights = torch.zeros(length, size), torch.zeros(length, length)
    for i in range(length):
        seen = [j for j in range(length) if mask[i, j]]
        exps = [math.exp(float(query[i] @ key[j]) / math.sqrt(size)) for j in seen]
        for j, e in zip(seen, exps, strict=True):
            weights[i, j] = e / sum(exps)
            mixed[i] += weights[i, j] * value[j]
    return mixed, weights


def attention_by_adding(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Any:
    added = torch.zeros(mask.shape).masked_fill(mask.logical_not(), -1e9)
    weights = (query / query.shape[1] ** 0.5 @ key.T + added).softmax(1)
    return [weights @ value, weights.numpy()]


def attention_shared_anew(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Any:
    weights = (query @ key.T * query.shape[1] ** -0.5).softmax(1) * mask
    weights = weights / weights.sum(1, keepdim=True)
    return weights @ value, weights


@pytest.mark.parametrize(
    "f",
    [
        right_attention,
        attention_by_package,
        attention_by_loops,
        attention_by_adding,
        attention_shared_anew,
    ],
)
def test_right_attentions_pass(f: Wrong) -> None:
    said = verdict(check.attention, f)
    assert said.startswith("✓ attention: 200 random cases, with and without padding, in three")


def test_the_reference_is_what_pytorch_computes() -> None:
    query, key, value = torch.randn(3, 5, 8, generator=torch.Generator().manual_seed(1))
    mask = torch.ones(5, 5, dtype=torch.bool).tril()
    expected = F.scaled_dot_product_attention(query[None], key[None], value[None], mask)
    torch.testing.assert_close(right_attention(query, key, value, mask)[0], expected[0])


def attention_with(
    score: Callable[[Tensor, Tensor], Tensor] = lambda q, k: q @ k.T / math.sqrt(q.shape[1]),
    share: Callable[[Tensor, Tensor], Tensor] = lambda s, m: F.softmax(
        s.masked_fill(m.logical_not(), -1e9), dim=1
    ),
    mix: Callable[..., Tensor] = lambda w, q, k, v: torch.matmul(w, v),
) -> Wrong:
    """An attention of three steps, of which a test replaces one."""

    def f(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Any:
        weights = share(score(query, key), mask)
        return mix(weights, query, key, value), weights

    return f


def scaled_too_late(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Any:
    weights = (query @ key.T).masked_fill(~mask, -1e9).softmax(1) / math.sqrt(key.shape[1])
    return weights @ value, weights


def scores_for_weights(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Any:
    scores = query @ key.T / math.sqrt(key.shape[1])
    return scores.masked_fill(~mask, -torch.inf).softmax(1) @ value, scores


def fill_in_place(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Any:
    mask.logical_not_()
    return right_attention(query, key, value, ~mask)


def weights_only(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Any:
    return right_attention(query, key, value, mask)[1]


def in_reverse(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Any:
    mixed, weights = right_attention(query, key, value, mask)
    return weights, mixed


PLANTED_ATTENTIONS = [
    (
        attention_with(share=lambda s, m: F.softmax(s.masked_fill(~m, -1e9), dim=0)),
        "rows of your weights do not sum to 1; columns do",
    ),
    (
        attention_with(share=lambda s, m: s.masked_fill(~m, -torch.inf).softmax(0)),
        "rows of your weights do not sum to 1; columns do",
    ),
    (attention_with(lambda q, k: q @ k.T), "the scores are not scaled"),
    (attention_with(lambda q, k: q @ k.T / q.shape[1]), "divided by d, not by its square root"),
    (
        attention_with(lambda q, k: q @ k.T * math.sqrt(k.shape[1])),
        "multiplied by the square root of d",
    ),
    (
        attention_with(lambda q, k: q @ k.T / math.sqrt(q.shape[0])),
        "square root of the number of tokens",
    ),
    (scaled_too_late, "the scaling comes after softmax"),
    (attention_with(share=lambda s, m: s.softmax(1) * m), "the mask comes after softmax"),
    (
        attention_with(share=lambda s, m: s.softmax(1).masked_fill(~m, -1e9)),
        "the mask comes after softmax",
    ),
    (
        attention_with(share=lambda s, m: s.masked_fill(m, -torch.inf).softmax(1)),
        "the mask is upside down",
    ),
    (attention_with(share=lambda s, m: s.masked_fill(m, -1e9).softmax(1)), "mask is upside down"),
    (attention_with(share=lambda s, m: s.softmax(1)), "the mask is not used"),
    (
        attention_with(share=lambda s, m: s.masked_fill(~m, 0).softmax(1)),
        "hidden keys get a score of 0",
    ),
    (attention_with(share=lambda s, m: (s + m).softmax(1)), "added as zeros and ones"),
    (
        attention_with(share=lambda s, m: s.masked_fill(~m.T, -1e9).softmax(1)),
        "the mask is transposed",
    ),
    (
        attention_with(lambda q, k: torch.einsum("id,jd->ji", q, k) / math.sqrt(q.shape[1])),
        "the scores are transposed",
    ),
    (attention_with(mix=lambda w, q, k, v: w @ k), "values and keys are swapped"),
    (lambda q, k, v, m: attention_by_package(q, v, k, m), "values and keys are swapped"),
    (attention_with(mix=lambda w, q, k, v: w @ q), "the queries are mixed, not the values"),
    (attention_with(mix=lambda w, q, k, v: (w @ v).T), "the mixture is transposed"),
    (attention_with(mix=lambda w, q, k, v: w.T @ v), "weights are transposed before they mix"),
    (scores_for_weights, "what you return as weights are the scores"),
    (in_reverse, "the two results are in the wrong order"),
    (fill_in_place, "changes mask in place"),
    (weights_only, "return two things: mixed, weights"),
    (
        attention_with(lambda q, k: q @ k.T, mix=lambda w, q, k, v: w @ k),
        "the scores are not scaled. (There is more, but this comes first.)",
    ),
]


@pytest.mark.parametrize(("wrong", "text"), PLANTED_ATTENTIONS)
def test_each_wrong_attention_gets_its_own_message(wrong: Wrong, text: str) -> None:
    assert_rejected("attention", wrong, text)


# -- heads


def split_by_loops(x: Tensor, heads: int) -> Any:
    rows, length, size = x.shape
    run = size // heads
    y = torch.zeros(rows, heads, length, run)
    for a in range(heads):
        y[:, a] = x[:, :, a * run : (a + 1) * run]
    return y


def split_by_view(x: Tensor, heads: int) -> Tensor:
    rows, length, size = x.shape
    return x.view(rows, length, heads, size // heads).permute(0, 2, 1, 3)


@pytest.mark.parametrize(
    "f",
    [
        right_split_heads,
        split_by_loops,
        split_by_view,
        lambda x, heads: torch.stack(x.chunk(heads, -1), dim=1),
        lambda x, heads: np.stack(np.split(x.numpy(), heads, axis=-1), axis=1),
    ],
)
def test_right_splits_pass(f: Wrong) -> None:
    assert verdict(check.split_heads, f).startswith("✓ split_heads: 10 shapes")


def as_view(x: Tensor, *shape: int) -> Tensor:
    return x.contiguous().view(len(x), *shape)


PLANTED_SPLITS = [
    (lambda x, a: as_view(x, a, x.shape[1], x.shape[2] // a), "heads hold pieces of different"),
    (lambda x, a: as_view(x, x.shape[1], a, x.shape[2] // a), "this is (B, S, A, d)"),
    (
        lambda x, a: as_view(x, x.shape[1], x.shape[2] // a, a).permute(0, 3, 1, 2),
        "a head takes every A-th number",
    ),
    (
        lambda x, a: as_view(x, x.shape[1], x.shape[2] // a, a).transpose(1, 2),
        "the number of heads and the size of a head have changed places",
    ),
    (lambda x, a: torch.stack(x.split(x.shape[2] // a, dim=2)), "this is (A, B, S, d)"),
    (lambda x, a: split_by_view(x, a).transpose(2, 3), "this is (B, A, d, S)"),
    (lambda x, a: torch.stack(x.chunk(a, 1), 1), "the tokens are shared out among the heads"),
    (lambda x, a: torch.stack([x] * a, dim=1), "every head gets all H numbers"),
    (lambda x, a: split_by_view(x, a).flip(1), "cases come out wrong"),
]


@pytest.mark.parametrize(("wrong", "text"), PLANTED_SPLITS, ids=[t for _, t in PLANTED_SPLITS])
def test_each_wrong_split_gets_its_own_message(wrong: Wrong, text: str) -> None:
    assert_rejected("split_heads", wrong, text)


@pytest.mark.parametrize(
    "f",
    [
        right_join_heads,
        lambda x: torch.cat(list(x.unbind(1)), dim=-1),
        lambda x: x.permute(0, 2, 1, 3).reshape(len(x), x.shape[2], -1),
        lambda x: np.concatenate(list(np.moveaxis(x.numpy(), 1, 0)), axis=-1),
    ],
)
def test_right_joins_pass(f: Wrong) -> None:
    assert verdict(check.join_heads, f).startswith("✓ join_heads: 10 shapes")


PLANTED_JOINS = [
    (lambda x: as_view(x, x.shape[2], x.shape[1] * x.shape[3]), "a row holds pieces of different"),
    (lambda x: x.movedim(1, 3).flatten(2), "the heads are shuffled like cards"),
    (lambda x: x.permute(0, 2, 1, 3), "the last two axes are not joined"),
    (lambda x: torch.cat(list(x.unbind(1)), dim=1), "below each other, not side by side"),
    (lambda x: sum(x.unbind(1)), "the heads are added up, or averaged"),
    (lambda x: x.mean(dim=1), "the heads are added up, or averaged"),
    (lambda x: x.permute(2, 1, 0, 3).flatten(2), "the batch gets lost"),
    (lambda x: x.flip(1).transpose(1, 2).flatten(2), "cases come out wrong"),
]


@pytest.mark.parametrize(("wrong", "text"), PLANTED_JOINS)
def test_each_wrong_join_gets_its_own_message(wrong: Wrong, text: str) -> None:
    assert_rejected("join_heads", wrong, text)


def test_heads_are_split_and_joined_as_in_the_package() -> None:
    """The formula of the notebook, with the references of the exercises, is `SelfAttention`."""
    torch.manual_seed(0)
    layer = SelfAttention(BertConfig(50, 12, 1, 3, 24)).eval()
    x = torch.randn(2, 5, 12)
    query, key, value = (
        right_split_heads(part(x), 3) for part in (layer.query, layer.key, layer.value)
    )
    mask = torch.ones(5, 5, dtype=torch.bool)
    mixed = torch.stack(
        [
            torch.stack([right_attention(*head, mask)[0] for head in zip(*row, strict=True)])
            for row in zip(query, key, value, strict=True)
        ]
    )
    torch.testing.assert_close(layer.output(right_join_heads(mixed)), layer(x, None)[0])


# -- the causal mask


@pytest.mark.parametrize(
    "f",
    [
        right_causal_mask,
        lambda n: [[j <= i for j in range(n)] for i in range(n)],
        lambda n: np.tril(np.ones((n, n), dtype=bool)),
        lambda n: torch.arange(n)[:, None] >= torch.arange(n),
        lambda n: ~torch.ones(n, n).triu(1).bool(),
    ],
)
def test_right_causal_masks_pass(f: Wrong) -> None:
    assert verdict(check.causal_mask, f).startswith("✓ causal_mask: every length from 1 to 8")


def compared(see: Callable[[int, int], bool]) -> Wrong:
    return lambda n: torch.tensor([[see(i, j) for j in range(n)] for i in range(n)])


PLANTED_MASKS = [
    (compared(lambda i, j: j >= i), "the mask is transposed"),
    (compared(lambda i, j: j < i), "the diagonal is hidden"),
    (compared(lambda i, j: j > i), "True and False are swapped"),
    (compared(lambda i, j: j <= i + 1), "one column too many"),
    (compared(lambda i, j: True), "everything is allowed"),
    (compared(lambda i, j: i == j), "each token sees itself only"),
    (
        lambda n: torch.full((n, n), -torch.inf).triu(1),
        "a mask to add: 0 and a large negative number",
    ),
    (lambda n: torch.full((n, n), -1e9).triu(1), "a mask to add: 0 and a large negative number"),
    (lambda n: torch.tril(torch.ones(n, n)), "the right pattern, but in floats"),
    (lambda n: np.tril(np.ones((n, n), dtype=int)), "the right pattern, but in whole numbers"),
    (
        lambda n: torch.triu(torch.ones(n, n)),
        "the mask is transposed: each token sees itself and what comes *later*. (There is more",
    ),
    (lambda n: torch.ones(n, dtype=torch.bool), "your mask has shape (1,); (1, 1) is wanted"),
    (compared(lambda i, j: i - 1 <= j <= i), "cases come out wrong"),
]


@pytest.mark.parametrize(("wrong", "text"), PLANTED_MASKS)
def test_each_wrong_causal_mask_gets_its_own_message(wrong: Wrong, text: str) -> None:
    assert_rejected("causal_mask", wrong, text)


# -- leak_test


def test_the_museum_is_caught_by_the_reference() -> None:
    torch.manual_seed(0)
    assert all(right_leak_test(layer) for _, layer in RIGHT_LAYERS)
    assert not any(right_leak_test(exhibit.broken) for exhibit in LAYER_MUSEUM)


def test_every_exhibit_passes_a_shape_test() -> None:
    """Or it would be no museum piece."""
    x, real = torch.randn(5, 3), torch.tensor([True, True, True, True, False])
    for exhibit in LAYER_MUSEUM:
        mixed, weights = exhibit.broken(x, real, "left-to-right", dropout=0.2)
        assert mixed.shape == (5, 3)
        assert weights.shape == (5, 5)
        assert mixed.isfinite().all()


def test_a_right_leak_test_passes() -> None:
    said = words(verdict(check.leak_test, right_leak_test))
    assert said.startswith("✓ leak_test: accepts 3 right attentions, catches 7 broken ones")


X, REAL = torch.tensor([[1.0, 0.5], [0.2, 1.0], [0.7, 0.1]]), torch.tensor([True, True, True])


def knows_one_leak(layer: Wrong) -> bool:
    """Catches the plain mask, but not what shows with dropout, padding or the other side."""
    longer = X.clone()
    longer[2] += 1
    before, after = (layer(x, REAL, "left-to-right")[0] for x in (X, longer))
    return bool(torch.allclose(before[:2], after[:2]))


def knows_only_shapes(layer: Wrong) -> bool:
    return bool(layer(X, REAL, "bidirectional")[0].shape == X.shape)


def calls_it_with_too_little(layer: Wrong) -> Any:
    return layer(X)


def wants_the_same_bits(layer: Wrong) -> bool:
    """Refuses right layers, since dropout makes two runs differ."""
    first, second = (layer(X, REAL, "bidirectional", dropout=0.5)[0] for _ in range(2))
    return bool((first == second).all() or layer is RIGHT_LAYERS[0][1])


@pytest.mark.parametrize(
    ("test", "said", "not_said"),
    [
        (knows_only_shapes, "7 of 7 broken attentions got past your test", "Likely"),
        (knows_one_leak, "pytorchic-bert: returns the weights as dropout", "VTongTV"),
        (knows_one_leak, "many a first version: attends to padding", "a mask of zeros"),
        (knows_one_leak, "a copied line", "VTongTV"),
        (lambda layer: False, "refuses every attention, right ones included", "Smallest"),
        (wants_the_same_bits, "your test refuses a right attention", "got past"),
        (lambda layer: "yes", "True or False is wanted", "got past"),
        (calls_it_with_too_little, "stopped with TypeError", "got past"),
    ],
)
def test_each_wrong_leak_test_gets_its_own_message(test: Wrong, said: str, not_said: str) -> None:
    answer = words(verdict(check.leak_test, test))
    assert answer.startswith("✗ leak_test: ")
    assert said in answer
    assert not_said not in answer
    assert answer == words(verdict(check.leak_test, test))
