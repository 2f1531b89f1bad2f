"""The checks of notebook 04: right answers in several ways, and every planted mistake."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from verdicts import verdict, words

from bertedu.check import encoder as check
from bertedu.check.encoder import (
    BROKEN_LAYERS,
    RIGHT_LAYERS,
    SOLUTIONS,
    right_cosine,
    right_feed_forward,
    right_layer_flops,
    right_layer_test,
    right_post_norm_layer,
    right_pre_norm_layer,
    right_word_vector,
)
from bertedu.check.exercise import show_solution
from bertedu.model.config import BertConfig
from bertedu.model.encoder import EncoderLayer, FeedForward

CHECKS = {name: getattr(check, name) for name, _ in SOLUTIONS}


# -- right answers, written in several ways


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
    (
        "feed_forward",
        lambda x, W1, b1, W2, b2: F.linear(F.gelu(F.linear(x, W1, b1)), W2, b2),
        "100 random cases",
    ),
    ("post_norm_layer", post_in_two_names, "60 layers"),
    ("post_norm_layer", right_post_norm_layer, "60 layers"),
    ("pre_norm_layer", pre_in_two_names, "60 layers"),
    ("pre_norm_layer", right_pre_norm_layer, "60 layers"),
    ("layer_flops", lambda S, H: 24 * S * H**2 + 4 * S**2 * H, "nine sizes"),
    ("layer_flops", lambda S, H: torch.tensor(S * H * (24 * H + 4 * S)), "nine sizes"),
    ("cosine", lambda a, b: F.cosine_similarity(a, b, dim=0), "61 pairs"),
    (
        "cosine",
        lambda a, b: (
            sum(x * y for x, y in zip(a.tolist(), b.tolist(), strict=True))
            / math.hypot(*a.tolist())
            / math.hypot(*b.tolist())
        ),
        "61 pairs",
    ),
    ("word_vector", word_vector_by_loop, "40 words"),
    ("word_vector", right_word_vector, "40 words"),
    ("layer_test", by_zeroed_weights, "two right layers"),
    ("layer_test", right_layer_test, "two right layers"),
]


@pytest.mark.parametrize(("name", "f", "text"), RIGHT)
def test_right_answers_pass(name: str, f: Callable[..., Any], text: str) -> None:
    said = verdict(CHECKS[name], f)
    assert said.startswith(f"✓ {name}: {text}"), said


# -- planted mistakes


def ffn(x: Tensor, W1: Tensor, b1: Tensor, W2: Tensor, b2: Tensor) -> Tensor:
    return right_feed_forward(x, W1, b1, W2, b2)


def norm_used_twice(x: Tensor, a: Any, f: Any, n1: Any, n2: Any) -> Tensor:
    x = n1(x + a(x))
    return n1(x + f(x))  # type: ignore[no-any-return]


def norms_overwrite_x(x: Tensor, a: Any, f: Any, n1: Any, n2: Any) -> Tensor:
    x = n1(x)
    x = x + a(x)
    x = n2(x)
    return x + f(x)  # type: ignore[no-any-return]


def words_only(states: Tensor, tokens: list[str], word: str, layer: int) -> Tensor:
    return states[layer, tokens[1:-1].index(word)]


def found_last(states: Tensor, tokens: list[str], word: str, layer: int) -> Tensor:
    return states[layer, {token: i for i, token in enumerate(tokens)}[word]]


PLANTED: list[tuple[str, Callable[..., Any], str]] = [
    ("gelu", lambda x: F.gelu(x, approximate="tanh"), "the tanh approximation"),
    (
        "gelu",
        lambda x: 0.5 * x * (1 + torch.tanh((2 / math.pi) ** 0.5 * (x + 0.044715 * x**3))),
        "off by up to 0.0005",
    ),
    ("gelu", lambda x: x * torch.sigmoid(1.702 * x), "the sigmoid approximation"),
    ("gelu", lambda x: x / (1 + torch.exp(-x)), "SiLU"),
    ("gelu", lambda x: 0.5 * (1 + torch.erf(x / 2**0.5)), "the x before it is missing"),
    ("gelu", lambda x: x.clamp(min=0), "this is ReLU"),
    ("gelu", lambda x: x * (1 + torch.erf(x / 2**0.5)), "lacks its 1/2"),
    ("gelu", lambda x: x * torch.erf(x / 2**0.5) * 0.5, "lacks its 1:"),
    ("gelu", lambda x: x / 2 * (1 + torch.erf(x)), "not divided by √2"),
    (
        "gelu",
        lambda x: x * torch.distributions.Normal(0.0, 1.0).log_prob(x).exp(),
        "the height of the bell curve",
    ),
    ("feed_forward", lambda x, W1, b1, W2, b2: F.linear(x @ W1.T + b1, W2, b2), "no activation"),
    (
        "feed_forward",
        lambda x, W1, b1, W2, b2: F.gelu(F.linear(x @ W1.T + b1, W2, b2)),
        "comes after the second map",
    ),
    ("feed_forward", lambda *args: F.gelu(ffn(*args)), "two activations"),
    (
        "feed_forward",
        lambda x, W1, b1, W2, b2: F.linear(F.linear(F.gelu(x), W1, b1), W2, b2),
        "applied to the input",
    ),
    (
        "feed_forward",
        lambda x, W1, b1, W2, b2: (x @ W1.T + b1).relu() @ W2.T + b2,
        "the activation is ReLU",
    ),
    ("feed_forward", lambda x, W1, b1, W2, b2: ffn(x, W1, 0 * b1, W2, b2), "first bias is forg"),
    (
        "feed_forward",
        lambda x, W1, b1, W2, b2: F.linear(F.gelu(x @ W1.T) + b1, W2, b2),
        "added after the activation",
    ),
    ("feed_forward", lambda x, W1, b1, W2, b2: ffn(x, W1, b1, W2, 0 * b2), "second bias is forg"),
    ("feed_forward", lambda x, W1, b1, W2, b2: F.gelu(x @ W1.T) @ W2.T, "both biases"),
    (
        "feed_forward",
        lambda x, W1, b1, W2, b2: F.gelu(x @ W1 + b1) @ W2 + b2,
        "the wrong way around",
    ),
    (
        "feed_forward",
        lambda x, W1, b1, W2, b2: (
            F.gelu(x @ W1.view(x.shape[1], -1) + b1) @ W2.view(-1, x.shape[1]) + b2
        ),
        "reshaped, not transposed",
    ),
    ("feed_forward", lambda *args: args[0] + ffn(*args), "input is added to the output"),
    ("post_norm_layer", lambda x, a, f, n, m: m(n(a(x)) + f(n(a(x)))), "around attention is miss"),
    (
        "post_norm_layer",
        lambda x, a, f, n, m: m(f(n(x + a(x)))),
        "around feed-forward is missing",
    ),
    ("post_norm_layer", lambda x, a, f, n, m: m(f(n(a(x)))), "both residuals"),
    ("post_norm_layer", right_pre_norm_layer, "this is pre-norm"),
    (
        "post_norm_layer",
        lambda x, a, f, n, m: (y := n(x + a(x))) + f(m(y)),
        "one step is post-norm",
    ),
    (
        "post_norm_layer",
        lambda x, a, f, n, m: (y := x + n(a(x))) + m(f(y)),
        "the norm comes before the sum",
    ),
    (
        "post_norm_layer",
        lambda x, a, f, n, m: m(x + f(n(x + a(x)))),
        "second residual starts from the layer's input",
    ),
    (
        "post_norm_layer",
        lambda x, a, f, n, m: m(n(x + a(x)) + f(x)),
        "reads the layer's input",
    ),
    (
        "post_norm_layer",
        lambda x, a, f, n, m: m((y := x + a(x)) + f(y)),
        "a norm is missing",
    ),
    ("post_norm_layer", norm_used_twice, "the same norm is used twice"),
    (
        "post_norm_layer",
        lambda x, a, f, n, m: right_post_norm_layer(x, a, f, m, n),
        "two norms are swapped",
    ),
    (
        "post_norm_layer",
        lambda x, a, f, n, m: right_post_norm_layer(x, f, a, n, m),
        "feed-forward comes before attention",
    ),
    (
        "post_norm_layer",
        lambda x, a, f, n, m: m((y := n(x + a(x))) + a(y)),
        "feed-forward never",
    ),
    ("post_norm_layer", lambda x, a, f, n, m: m((y := n(x + f(x))) + f(y)), "attention never"),
    ("pre_norm_layer", right_post_norm_layer, "this is post-norm"),
    (
        "pre_norm_layer",
        lambda x, a, f, n, m: m((y := x + a(n(x))) + f(y)),
        "one step is pre-norm",
    ),
    ("pre_norm_layer", norms_overwrite_x, "starts from the normalized x"),
    (
        "pre_norm_layer",
        lambda x, a, f, n, m: (y := a(n(x))) + f(m(y)),
        "around attention is missing",
    ),
    ("pre_norm_layer", lambda x, a, f, n, m: f(m(x + a(n(x)))), "around feed-forward is missing"),
    ("pre_norm_layer", lambda x, a, f, n, m: f(m(a(n(x)))), "both residuals"),
    (
        "pre_norm_layer",
        lambda x, a, f, n, m: (y := x + n(a(x))) + m(f(y)),
        "applied to what is added",
    ),
    ("pre_norm_layer", lambda x, a, f, n, m: (y := x + a(n(x))) + f(y), "a norm is missing"),
    (
        "pre_norm_layer",
        lambda x, a, f, n, m: m((y := x + a(n(x))) + f(m(y))),
        "the layer ends with a norm",
    ),
    (
        "pre_norm_layer",
        lambda x, a, f, n, m: x + f(m(x + a(n(x)))),
        "second residual starts from the layer's input",
    ),
    (
        "pre_norm_layer",
        lambda x, a, f, n, m: (y := x + a(n(x))) + f(n(y)),
        "the same norm is used twice",
    ),
    (
        "pre_norm_layer",
        lambda x, a, f, n, m: right_pre_norm_layer(x, a, f, m, n),
        "two norms are swapped",
    ),
    (
        "pre_norm_layer",
        lambda x, a, f, n, m: right_pre_norm_layer(x, f, a, n, m),
        "feed-forward comes before attention",
    ),
    (
        "pre_norm_layer",
        lambda x, a, f, n, m: (y := x + a(n(x))) + a(m(y)),
        "feed-forward never",
    ),
    (
        "pre_norm_layer",
        lambda x, a, f, n, m: (y := x + f(n(x))) + f(m(y)),
        "attention never",
    ),
    ("layer_flops", lambda S, H: 12 * S * H * H + 2 * S * S * H, "count as one"),
    ("layer_flops", lambda S, H: 24 * S * H * H, "both forgotten"),
    ("layer_flops", lambda S, H: 24 * S * H * H + 2 * S * S * H, "one of scores and mixing"),
    ("layer_flops", lambda S, H: 22 * S * H * H + 4 * S * S * H, "three maps"),
    ("layer_flops", lambda S, H: 16 * S * H * H + 4 * S * S * H, "one map of the feed-forward"),
    ("layer_flops", lambda S, H: 8 * S * H * H + 4 * S * S * H, "the feed-forward is forgotten"),
    ("layer_flops", lambda S, H: 12 * S * H * H + 4 * S * S * H, "as narrow as the rest"),
    ("layer_flops", lambda S, H: 24 * H * H + 4 * S * H, "for one word"),
    ("cosine", torch.dot, "this is the dot product"),
    ("cosine", lambda a, b: a @ b / b.norm(), "one length only"),
    ("cosine", lambda a, b: a @ b / (a.norm() ** 2 * b.norm() ** 2), "lengths are squared"),
    ("cosine", lambda a, b: a @ b / (a.norm() + b.norm()), "the sum of the lengths"),
    ("cosine", lambda a, b: (a * b).mean(), "number of dimensions"),
    ("cosine", lambda a, b: 1 - F.cosine_similarity(a, b, dim=0), "1 minus the cosine"),
    ("cosine", lambda a, b: torch.dist(a, b), "distance between the two points"),
    ("cosine", lambda a, b: math.acos(min(1.0, float(right_cosine(a, b)))), "this is the angle"),
    (
        "cosine",
        lambda a, b: F.cosine_similarity(a - a.mean(), b - b.mean(), dim=0),
        "this is the correlation",
    ),
    ("word_vector", words_only, "[CLS] was not counted"),
    ("word_vector", lambda s, t, w, n: s[n, t.index(w) + 1], "token after the word"),
    ("word_vector", lambda s, t, w, n: s[n, 0], "vector of [CLS]"),
    ("word_vector", found_last, "last appearance"),
    ("word_vector", lambda s, t, w, n: s[n - 1, t.index(w)], "layer is one too low"),
    ("word_vector", lambda s, t, w, n: s[1:][n, t.index(w)], "layer is one too high"),
    ("word_vector", lambda s, t, w, n: s[-1, t.index(w)], "last layer is taken"),
    ("word_vector", lambda s, t, w, n: s.flip(0)[n, t.index(w)], "counted from the top"),
    ("word_vector", lambda s, t, w, n: s[n].mean(0), "all tokens of the sentence"),
    ("word_vector", lambda s, t, w, n: s[:, t.index(w)].mean(0), "the layers are averaged"),
    ("layer_test", lambda make: make()(torch.zeros(3, 8)).shape == (3, 8), "accepts every layer"),
    ("layer_test", lambda make: bool((make()(torch.ones(1, 8)) == 7).all()), "refuses every lay"),
    (
        "layer_test",
        lambda make: (lambda m: torch.equal(m(torch.eye(8)), m(torch.eye(8))))(make()),
        "catches sub-layers created in forward, and nothing else",
    ),
]


@pytest.mark.parametrize(
    ("name", "wrong", "text"), PLANTED, ids=[f"{name}: {text}" for name, _, text in PLANTED]
)
def test_each_planted_mistake_gets_its_own_message(
    name: str, wrong: Callable[..., Any], text: str
) -> None:
    said = verdict(CHECKS[name], wrong)
    assert said.startswith(f"✗ {name}: ")
    assert text in words(said), said
    assert said == verdict(CHECKS[name], wrong)


def does_x_matter(make_layer: Callable[[], nn.Module]) -> bool:
    layer = make_layer()
    for name, parameter in layer.named_parameters():
        if "norm" not in name:
            parameter.data.zero_()
    return bool((layer(torch.eye(8)) - layer(torch.eye(8).flip(0))).abs().max() > 1e-4)


def is_it_normalized(make_layer: Callable[[], nn.Module]) -> bool:
    return bool(make_layer()(torch.eye(8)).sum(-1).abs().max() < 1e-3)


@pytest.mark.parametrize(
    ("f", "text"),
    [(does_x_matter, "only whether x still matters"), (is_it_normalized, "output is normalized")],
)
def test_a_test_that_asks_too_little_is_told_so(f: Callable[..., Any], text: str) -> None:
    assert text in words(verdict(check.layer_test, f))


# -- what all checks have in common


@pytest.mark.parametrize("name", CHECKS)
def test_an_unsolved_stub_is_told_how_to_begin(name: str) -> None:
    def stub(*inputs: Any) -> None: ...

    said = verdict(CHECKS[name], stub)
    assert said.startswith(f"… {name} is still a stub. Start from ")


@pytest.mark.parametrize("name", CHECKS)
def test_every_exercise_has_a_solution(name: str) -> None:
    assert "def " in show_solution(SOLUTIONS, name)


@pytest.mark.parametrize("name", ["post_norm_layer", "pre_norm_layer", "layer_test", "gelu"])
def test_an_unknown_wrong_answer_shows_the_smallest_case_without_addresses(name: str) -> None:
    def odd(*inputs: Any) -> Any:
        return "maybe" if name == "layer_test" else inputs[0] * 3 + 1

    said = verdict(CHECKS[name], odd)
    assert "Smallest case: " in said
    assert "0x" not in said
    assert said == verdict(CHECKS[name], odd)


def test_changing_x_in_place_is_named() -> None:
    def wrong(x: Tensor, a: Any, f: Any, n1: Any, n2: Any) -> Tensor:
        x += a(x)
        y = n1(x)
        return n2(y + f(y))  # type: ignore[no-any-return]

    assert "changes x in place" in words(verdict(check.post_norm_layer, wrong))


def test_flops_agree_with_pytorchs_own_counter() -> None:
    from torch.utils.flop_counter import FlopCounterMode

    layer = EncoderLayer(BertConfig(1, 32, 1, 4, 128))
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        layer(torch.zeros(1, 10, 32), None, return_weights=True)
    assert counter.get_total_flops() == right_layer_flops(10, 32)


def test_the_museum_passes_a_shape_test_and_fails_the_right_one() -> None:
    for make in (*RIGHT_LAYERS, *BROKEN_LAYERS):
        y = make()(torch.randn(4, 8))
        assert y.shape == (4, 8)
        assert y.isfinite().all()
        assert right_layer_test(make) == (make in RIGHT_LAYERS)
