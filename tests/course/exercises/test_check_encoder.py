"""The checks of notebook 04: right answers in several ways, and wrong ones."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode
from verdicts import assert_named, verdict, words

from bertedu.model.config import BertConfig
from bertedu.model.encoder import EncoderLayer, FeedForward
from bertedu.model.heads import Pooler
from course.exercises import check
from course.exercises.encoder import LAYER_TEST, right_layer_flops
from course.exercises.museum import exhibits


def gelu_by_loops(x: Tensor) -> Any:
    values = [v * (1 + math.erf(v / math.sqrt(2))) / 2 for v in x.flatten().tolist()]
    return torch.tensor(values).reshape(x.shape)


def feed_forward_by_module(x: Tensor, W1: Tensor, b1: Tensor, W2: Tensor, b2: Tensor) -> Tensor:
    module = FeedForward(BertConfig(1, W1.shape[1], 1, 1, W1.shape[0]))
    with torch.no_grad():
        module.intermediate.weight.copy_(W1)
        module.intermediate.bias.copy_(b1)
        module.output.weight.copy_(W2)
        module.output.bias.copy_(b2)
    return module(x)  # type: ignore[no-any-return]


def feed_forward_by_loops(x: Tensor, W1: Tensor, b1: Tensor, W2: Tensor, b2: Tensor) -> Tensor:
    rows = []
    for word in x:
        inner = torch.stack([row @ word + b for row, b in zip(W1, b1, strict=True)])
        inner = F.gelu(inner)
        rows.append(torch.stack([row @ inner + b for row, b in zip(W2, b2, strict=True)]))
    return torch.stack(rows)


def post_in_two_names(x: Tensor, a: Any, f: Any, n1: Any, n2: Any) -> Tensor:
    mixed = a(x)
    middle = n1(mixed + x)
    return n2(f(middle) + middle)  # type: ignore[no-any-return]


def pre_in_two_names(x: Tensor, a: Any, f: Any, n1: Any, n2: Any) -> Tensor:
    for part, norm in ((a, n1), (f, n2)):
        x = part(norm(x)) + x
    return x


def cosine_by_loops(a: Tensor, b: Tensor) -> float:
    product: float = sum(x * y for x, y in zip(a.tolist(), b.tolist(), strict=True))
    return product / math.hypot(*a.tolist()) / math.hypot(*b.tolist())


def pooler_by_module(states: Tensor, W: Tensor, b: Tensor) -> Tensor:
    pooler = Pooler(BertConfig(1, len(b), 1, 1, 1))
    pooler.load_state_dict({"dense.weight": W, "dense.bias": b})
    return pooler(states[:, 0])  # type: ignore[no-any-return]


def pooler_by_rows(states: Tensor, W: Tensor, b: Tensor) -> Tensor:
    return torch.stack([(W @ row[0] + b).tanh() for row in states])


def word_vector_by_loop(states: Tensor, tokens: list[str], word: str, layer: int) -> Any:
    for i, token in enumerate(tokens):
        if token == word:
            return states[layer][i].tolist()
    return None


def by_zeroed_weights(make_layer: Callable[[], nn.Module]) -> bool:
    layer = make_layer()
    for name, parameter in layer.named_parameters():
        if "norm" not in name:
            parameter.data.zero_()
    x = torch.arange(16.0).reshape(2, 8) ** 1.5
    y = layer(x)
    wanted = (x - x.mean(-1, keepdim=True)) / x.std(-1, keepdim=True, unbiased=False)
    return bool(((y - wanted).abs() < 1e-2).all())


RIGHT: list[tuple[str, Callable[..., Any], str]] = [
    ("gelu", F.gelu, "67 tensors"),
    ("gelu", gelu_by_loops, "67 tensors"),
    ("gelu", lambda x: x * torch.distributions.Normal(0.0, 1.0).cdf(x), "67 tensors"),
    ("feed_forward", feed_forward_by_module, "100 random cases"),
    ("feed_forward", feed_forward_by_loops, "100 random cases"),
    ("post_norm_layer", post_in_two_names, "60 layers"),
    ("pre_norm_layer", pre_in_two_names, "60 layers"),
    ("pooler", pooler_by_module, "100 random cases"),
    ("pooler", pooler_by_rows, "100 random cases"),
    ("layer_flops", lambda S, H: torch.tensor(S * H * (24 * H + 4 * S)), "nine sizes"),
    ("cosine", lambda a, b: F.cosine_similarity(a, b, dim=0), "61 pairs"),
    ("cosine", cosine_by_loops, "61 pairs"),
    ("word_vector", word_vector_by_loop, "24 words"),
    ("layer_test", by_zeroed_weights, "accepts 2 right layers, catches 4 broken ones"),
]


@pytest.mark.parametrize(("name", "f", "text"), RIGHT)
def test_right_answers_pass(name: str, f: Callable[..., Any], text: str) -> None:
    assert verdict(getattr(check, name), f).startswith(f"✓ {name}: {text}")


def norms_overwrite_x(x: Tensor, a: Any, f: Any, n1: Any, n2: Any) -> Tensor:
    x = n1(x)
    x = x + a(x)
    x = n2(x)
    return x + f(x)  # type: ignore[no-any-return]


def in_place(x: Tensor, a: Any, f: Any, n1: Any, n2: Any) -> Tensor:
    x += a(x)
    y = n1(x)
    return n2(y + f(y))  # type: ignore[no-any-return]


def words_only(states: Tensor, tokens: list[str], word: str, layer: int) -> Tensor:
    return states[layer, tokens[1:-1].index(word)]


def found_last(states: Tensor, tokens: list[str], word: str, layer: int) -> Tensor:
    return states[layer, {token: i for i, token in enumerate(tokens)}[word]]


PLANTED: list[tuple[str, Callable[..., Any], str]] = [
    (
        "gelu",
        lambda x: 0.5 * x * (1 + torch.tanh((2 / math.pi) ** 0.5 * (x + 0.044715 * x**3))),
        "off by up to 0.0005",
    ),
    ("gelu", lambda x: x / 2 * (1 + torch.erf(x)), "not divided by √2"),
    ("gelu", lambda x: x / (1 + torch.exp(-1.702 * x)), "this is the sigmoid form"),
    ("gelu", lambda x: torch.distributions.Normal(0.0, 1.0).cdf(x), "x is missing"),
    ("gelu", lambda x: x * 3 + 1, "67 of 67 cases come out wrong"),
    ("feed_forward", lambda x, A, a, B, b: F.linear(F.linear(x, A, a), B, b), "no activation"),
    ("pooler", lambda states, W, b: F.linear(states, W, b)[:, 0], "the tanh is missing"),
    ("feed_forward", lambda x, A, a, B, b: F.gelu(x @ A + a) @ B + b, "the wrong way around"),
    ("feed_forward", lambda x, A, a, B, b: F.gelu(x @ A.T + a) @ B + b, "the wrong way around"),
    ("feed_forward", lambda *of: F.gelu(feed_forward_by_module(*of)), "acts on the result, too"),
    ("feed_forward", lambda x, A, a, B, b: F.gelu((x @ A.T + a) @ B.T + b), "after the second map"),
    ("feed_forward", lambda x, *of: feed_forward_by_module(x, *of) + x, "x is added to the result"),
    ("feed_forward", lambda x, A, a, B, b: F.gelu(F.linear(x, A, a)) @ B.T, "a bias is missing"),
    ("pooler", lambda states, W, b: (states[:, -1] @ W.T + b).tanh(), "the last token is taken"),
    ("pooler", lambda states, W, b: (states[0] @ W.T + b).tanh(), "the first row is taken"),
    ("pooler", lambda states, W, b: (states[:, 0] @ W.T).tanh(), "the bias is missing"),
    ("post_norm_layer", lambda x, a, f, n, m: m(f(n(x + a(x)))), "feed-forward is missing"),
    ("post_norm_layer", lambda x, a, f, n, m: m(n(x + a(x)) + f(x)), "reads the layer's input x"),
    ("post_norm_layer", lambda x, a, f, n, m: m(f(y := n(a(x))) + y), "around attention is miss"),
    ("post_norm_layer", lambda x, a, f, n, m: (y := x + n(a(x))) + m(f(y)), "inside the sum"),
    ("post_norm_layer", lambda x, a, f, n, m: n(f(y := n(x + a(x))) + y), "the norm of the first"),
    ("post_norm_layer", lambda x, a, f, n, m: (y := n(x + a(x))) + f(y), "only one of the two"),
    ("post_norm_layer", pre_in_two_names, "this is pre-norm"),
    ("post_norm_layer", in_place, "changes x in place"),
    ("post_norm_layer", lambda x, *parts: x * 3 + 1, "60 of 60 cases come out wrong"),
    ("pre_norm_layer", post_in_two_names, "this is post-norm"),
    ("pre_norm_layer", norms_overwrite_x, "starts from the normalized x"),
    ("pre_norm_layer", lambda x, a, f, n, m: (y := a(n(x))) + f(m(y)), "around attention is miss"),
    ("pre_norm_layer", lambda x, a, f, n, m: f(m(x + a(n(x)))), "feed-forward is missing"),
    ("pre_norm_layer", lambda x, a, f, n, m: f(m(x + a(n(x)))) + x, "the layer's input"),
    ("pre_norm_layer", lambda x, a, f, n, m: (y := x + a(n(x))) + f(n(y)), "the norm of the first"),
    ("pre_norm_layer", lambda x, a, f, n, m: (y := x + a(n(x))) + f(y), "only one of the two"),
    ("layer_flops", lambda S, H: 24 * S * H * H + 2 * S * S * H, "only one of scores and mixing"),
    ("layer_flops", lambda S, H: 16 * S * H * H + 4 * S * S * H, "counted one way"),
    ("layer_flops", lambda S, H: 12 * S * H * H + 4 * S * S * H, "H hidden numbers"),
    ("layer_flops", lambda S, H: 12 * S * H * H + 2 * S * S * H, "counted as one"),
    ("layer_flops", lambda S, H: 24 * S * H * H, "both missing"),
    ("layer_flops", lambda S, H: 22 * S * H * H + 4 * S * S * H, "three maps"),
    ("layer_flops", lambda S, H: 0.5, "a whole number is wanted"),
    ("cosine", torch.dot, "this is the dot product"),
    ("cosine", lambda a, b: F.normalize(a, dim=0) @ b, "only one of the two lengths"),
    ("cosine", lambda a, b: a @ b / math.hypot(*a) * math.hypot(*b), "multiplied, not divided"),
    ("cosine", lambda a, b: 1 - F.cosine_similarity(a, b, dim=0), "cases come out wrong"),
    ("word_vector", words_only, "[CLS] was not counted"),
    ("word_vector", found_last, "last appearance"),
    ("word_vector", lambda s, t, word, layer: s[t.index(word)][layer], "have changed places"),
    ("word_vector", lambda s, t, word, layer: s[layer + 1][t.index(word)], "one too high"),
]


@pytest.mark.parametrize(("name", "wrong", "text"), PLANTED)
def test_a_wrong_answer_is_named(name: str, wrong: Callable[..., Any], text: str) -> None:
    assert_named(getattr(check, name), name, wrong, text)


@pytest.mark.parametrize(
    ("test", "past"),
    [
        (lambda make: make()(torch.zeros(3, 8)).shape == (3, 8), 4),
        (lambda make: (lambda m: torch.equal(m(torch.eye(8)), m(torch.eye(8))))(make()), 3),
        (lambda make: bool(make()(torch.eye(8)).sum(-1).abs().max() < 1e-3), 3),
    ],
)
def test_a_test_that_asks_too_little_is_told_so(test: Callable[..., bool], past: int) -> None:
    assert f"{past} of 4 broken layers got past your test" in words(verdict(LAYER_TEST, test))


def test_the_museum_passes_a_shape_test() -> None:
    for exhibit in exhibits(LAYER_TEST):
        y = exhibit.wrong[0]()(torch.randn(4, 8))
        assert y.shape == (4, 8)
        assert y.isfinite().all()


def test_flops_agree_with_pytorchs_own_counter() -> None:
    layer = EncoderLayer(BertConfig(1, 32, 1, 4, 128))
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        layer(torch.zeros(1, 10, 32), None, return_weights=True)
    assert counter.get_total_flops() == right_layer_flops(10, 32)
