"""The exercises of notebook 03: right in other ways, wrong in other ways than the patches."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from verdicts import assert_named, verdict, words

from bertedu.model.attention import SelfAttention, scaled_dot_product_attention
from bertedu.model.config import BertConfig
from course.exercises import check
from course.exercises.museum import exhibits
from course.exercises.self_attention import (
    LEAK_TEST,
    right_attention,
    right_join_heads,
    right_split_heads,
)

Any4 = Callable[[Tensor, Tensor, Tensor, Tensor], Any]

# -- right in other ways


def scores_by_loops(query: Tensor, key: Tensor) -> list[list[float]]:
    return [
        [sum(a * b for a, b in zip(q, k, strict=True)) for k in key.tolist()]
        for q in query.tolist()
    ]


def softmax_by_loops(scores: Tensor) -> list[list[float]]:
    table = []
    for row in scores.tolist():
        exps = [math.exp(score - max(row)) for score in row]
        table.append([e / sum(exps) for e in exps])
    return table


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


def split_by_view(x: Tensor, heads: int) -> Tensor:
    rows, length, size = x.shape
    return x.view(rows, length, heads, size // heads).permute(0, 2, 1, 3)


RIGHT: list[tuple[str, Any]] = [
    ("scores", scores_by_loops),
    ("scores", lambda query, key: F.linear(query.double(), key.double()).numpy()),
    ("scores", lambda query, key: query.bfloat16() @ key.bfloat16().T),
    ("softmax", softmax_by_loops),
    ("softmax", lambda scores: (scores - scores.logsumexp(1, keepdim=True)).exp()),
    ("attention", attention_by_package),
    ("attention", attention_by_loops),
    ("attention", attention_by_adding),
    ("split_heads", split_by_view),
    ("split_heads", lambda x, heads: np.stack(np.split(x.numpy(), heads, axis=-1), axis=1)),
    ("join_heads", lambda x: torch.cat(list(x.unbind(1)), dim=-1)),
    ("join_heads", lambda x: np.concatenate(list(np.moveaxis(x.numpy(), 1, 0)), axis=-1)),
    ("causal_mask", lambda n: [[j <= i for j in range(n)] for i in range(n)]),
    ("causal_mask", lambda n: np.tril(np.ones((n, n), dtype=bool))),
]


@pytest.mark.parametrize(("name", "f"), RIGHT)
def test_right_ones_pass(name: str, f: Any) -> None:
    one = getattr(check, name)
    assert words(verdict(one, f)).startswith(f"✓ {name}: {one.tried}")


@pytest.mark.parametrize(
    "f",
    [
        lambda scores: scores.softmax(-1),
        lambda scores: F.softmax(scores, dim=-1),
        lambda scores: F.softmin(-scores, dim=-1),
        lambda scores: scores.log_softmax(-1).exp(),
        torch.nn.Softmax(dim=-1),
    ],
)
def test_a_ready_made_softmax_is_no_solution(f: Any) -> None:
    said = words(verdict(check.softmax, f))
    assert said.startswith("✗ softmax: right, but PyTorch's softmax did the work.")
    assert "Begin with scores.exp()" in said


def test_the_reference_is_what_pytorch_computes() -> None:
    query, key, value = torch.randn(3, 5, 8, generator=torch.Generator().manual_seed(1))
    mask = torch.ones(5, 5, dtype=torch.bool).tril()
    expected = F.scaled_dot_product_attention(query[None], key[None], value[None], mask)
    torch.testing.assert_close(right_attention(query, key, value, mask)[0], expected[0])


def test_heads_are_split_and_joined_as_in_the_package() -> None:
    """The formula of the notebook, with the references of the exercises, is `SelfAttention`."""
    torch.manual_seed(0)
    layer = SelfAttention(BertConfig(50, 12, 1, 3, 24)).eval()
    x, mask = torch.randn(2, 5, 12), torch.ones(5, 5, dtype=torch.bool)
    parts = [right_split_heads(part(x), 3) for part in (layer.query, layer.key, layer.value)]
    rows = zip(*(part.flatten(0, 1) for part in parts), strict=True)
    mixed = torch.stack([right_attention(q, k, v, mask)[0] for q, k, v in rows])
    torch.testing.assert_close(
        layer.output(right_join_heads(mixed.unflatten(0, (2, 3)))), layer(x, None)[0]
    )


# -- wrong in other ways


def naive(scores: Tensor) -> Tensor:
    return torch.exp(scores) / torch.exp(scores).sum(1, keepdim=True)


def softmax_in_place(scores: Tensor) -> Tensor:
    scores -= scores.max(1, keepdim=True).values
    return naive(scores)


def attention(
    power: float = 0.5, hidden: float | None = -torch.inf, dim: int = 1, keys: bool = False
) -> Any4:
    def f(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Any:
        scores = torch.einsum("id,jd->ij", query, key) / key.shape[1] ** power
        weights = F.softmax(scores if hidden is None else scores.where(mask, hidden), dim=dim)
        weights = weights * mask if hidden is None else weights
        return torch.matmul(weights, key if keys else value), weights

    return f


def added(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Any:
    scores = query @ key.T / key.shape[1] ** 0.5 + (1 - mask.float()) * -math.inf
    return scores.softmax(1) @ value, scores.softmax(1)


def as_view(x: Tensor, *shape: int) -> Tensor:
    return x.contiguous().view(len(x), *shape)


def compared(see: Callable[[int, int], bool]) -> Any:
    return lambda n: torch.tensor([[see(i, j) for j in range(n)] for i in range(n)])


WRONG: list[tuple[str, Any, str]] = [
    ("scores", lambda q, k: torch.einsum("nd,md->mn", q, k), "the table is transposed"),
    ("scores", lambda q, k: torch.matmul(q, k), "key is not transposed, so its columns"),
    ("scores", lambda q, k: q.mul_(1.5) @ k.T / 1.5, "changes query in place"),
    ("scores", lambda q, k: q @ k.T + 1, "120 of 120 cases come out wrong"),
    ("scores", lambda q, k: q @ k.T / math.sqrt(k.shape[1]), "divided by the square root of d"),
    ("softmax", naive, "a score of 1000 breaks it"),
    ("softmax", lambda s: F.softmax(s, dim=0), "columns sum to 1, rows do not"),
    (
        "softmax",
        lambda s: s.exp() / s.exp().sum(1),
        "the sums of the rows are lined up with the columns",
    ),
    ("softmax", lambda s: (e := (s - s.max(1)[0]).exp()) / e.sum(1, True), "the highest scores of"),
    ("softmax", lambda s: (e := s.exp()) / e.sum(0), "columns sum to 1, rows do not"),
    ("softmax", lambda s: (e := s.exp()) / torch.sum(e), "all rows together sum to 1"),
    ("softmax", lambda s: s / s.sum(1)[:, None], "exp is missing"),
    ("softmax", torch.exp, "the division is missing"),
    ("softmax", lambda s: naive(s - s.mean(1)[:, None]), "the mean of each row is subtracted"),
    ("softmax", softmax_in_place, "changes scores in place"),
    ("attention", attention(power=0), "the scores are not scaled"),
    ("attention", attention(hidden=None), "the mask comes after softmax"),
    ("attention", attention(power=0, keys=True), "not scaled. (There is more, but this comes"),
    ("attention", attention(dim=0), "softmax runs over the queries"),
    ("attention", attention(hidden=1e-9), "a hidden score becomes an ordinary number"),
    ("attention", attention(power=1), "divided by d, not by its square root"),
    ("attention", attention(keys=True), "they mix keys instead of values"),
    ("attention", added, "the weights are nan"),
    ("attention", lambda *qkvm: right_attention(*qkvm)[1], "return two things: mixed, weights"),
    ("split_heads", lambda x, a: as_view(x, a, x.shape[1], x.shape[2] // a), "pieces of different"),
    ("split_heads", lambda x, a: x.unflatten(2, (a, -1)), "this is (B, S, A, d)"),
    ("split_heads", lambda x, a: torch.stack([x[..., i::a] for i in range(a)], 1), "every A-th"),
    ("split_heads", lambda x, a: split_by_view(x, a).flip(1), "None of the usual mistakes gives"),
    ("join_heads", lambda x: as_view(x, x.shape[2], x.shape[1] * x.shape[3]), "pieces of differ"),
    ("join_heads", lambda x: torch.cat(list(x.unbind(1)), dim=1), "below each other"),
    ("join_heads", lambda x: torch.stack(list(x.unbind(1)), dim=-1).flatten(2), "take turns"),
    ("causal_mask", compared(lambda i, j: j < i), "the diagonal is hidden"),
    ("causal_mask", compared(lambda i, j: j > i), "True and False are swapped"),
    ("causal_mask", lambda n: torch.tril(torch.ones(n, n)), "the right pattern, but in numbers"),
    ("causal_mask", lambda n: torch.ones(n, n).int().tril(), "the right pattern, but in numbers"),
    ("causal_mask", compared(lambda i, j: j >= i), "the mask of a right-to-left model"),
    ("causal_mask", compared(lambda i, j: j - i < 2), "the diagonal is one too high"),
    ("causal_mask", lambda n: 1 - torch.ones(n, n).tril(), "are swapped. (There is more"),
    ("causal_mask", lambda n: torch.ones(n).bool(), "has shape (1,); (1, 1) is wanted"),
    ("causal_mask", lambda n: torch.ones(n, n) * 1j, "your mask is complex"),
]


@pytest.mark.parametrize(("name", "wrong", "text"), WRONG, ids=[text for *_, text in WRONG])
def test_each_wrong_one_gets_its_own_message(name: str, wrong: Any, text: str) -> None:
    assert_named(getattr(check, name), name, wrong, text)


# -- leak_test


def test_every_exhibit_passes_a_shape_test() -> None:
    """Or it would be no museum piece."""
    x, real = torch.randn(5, 3), torch.tensor([True, True, True, True, False])
    for exhibit in exhibits(LEAK_TEST):
        mixed, weights = exhibit.wrong[0](x, real, "left-to-right", dropout=0.2)
        assert mixed.shape == (5, 3)
        assert weights.shape == (5, 5)
        assert mixed.isfinite().all()


X, REAL = torch.tensor([[1.0, 0.5], [0.2, 1.0], [0.7, 0.1]]), torch.tensor([True, True, True])


def knows_one_leak(layer: Any) -> bool:
    """Catches the plain mask, but not what shows with dropout, padding or the other side."""
    longer = X.clone()
    longer[2] += 1
    before, after = (layer(x, REAL, "left-to-right")[0] for x in (X, longer))
    return bool(torch.allclose(before[:2], after[:2]))


def wants_the_same_bits(layer: Any) -> bool:
    """Refuses right layers, since dropout makes two runs differ."""
    first, second = (layer(X, REAL, "bidirectional", dropout=0.5)[0] for _ in range(2))
    return bool((first == second).all() or layer is LEAK_TEST.right[0][1])


@pytest.mark.parametrize(
    ("test", "said", "not_said"),
    [
        (knows_one_leak, "pytorchic-bert: returns the weights as dropout", "VTongTV"),
        (knows_one_leak, "a copied line", "a mask applied too late"),
        (wants_the_same_bits, "your test refuses a right attention", "got past"),
    ],
)
def test_each_wrong_leak_test_gets_its_own_message(test: Any, said: str, not_said: str) -> None:
    answer = words(verdict(check.leak_test, test))
    assert answer.startswith("✗ leak_test: ")
    assert said in answer
    assert not_said not in answer
