"""The exercises on cross-attention and memory: right and wrong in other ways than the patches."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from verdicts import assert_named, verdict, words

from bertedu.model.attention import SelfAttention
from bertedu.model.variants.seq2seq import cross_attention
from bertedu.model.variants.transformer_xl import remember
from course.exercises import check

# -- right in other ways


def cross_by_loops(attention: SelfAttention, x: Tensor, source: Tensor, mask: Tensor) -> Any:
    query, key = (
        attention.split_heads(f(y)) for f, y in ((attention.query, x), (attention.key, source))
    )
    weights = torch.zeros(*query.shape[:3], key.shape[2])
    for head in range(query.shape[1]):
        for i, q in enumerate(query[0, head]):
            for j, k in enumerate(key[0, head]):
                if mask[0, 0, 0, j]:
                    weights[0, head, i, j] = math.exp(float(q @ k) / math.sqrt(len(q)))
    weights = weights / weights.sum(-1, keepdim=True)
    return attention.mix(weights, source), weights


def cross_by_adding(attention: SelfAttention, x: Tensor, source: Tensor, mask: Tensor) -> Any:
    query, key, value = (
        attention.split_heads(f(y))
        for f, y in ((attention.query, x), (attention.key, source), (attention.value, source))
    )
    hidden = torch.zeros(mask.shape).masked_fill(~mask, -1e9)
    weights = F.softmax(query @ key.mT / query.shape[-1] ** 0.5 + hidden, dim=-1)
    return [attention.join_heads(weights @ value), weights]


def kept_one_by_one(old: Tensor, new: Tensor, size: int) -> Tensor:
    states = [*old.unbind(1), *new.unbind(1)]
    while len(states) > size:
        states.pop(0)
    return torch.stack(states, dim=1).data if states else old[:, :0]


def kept_without_grad(old: Tensor, new: Tensor, size: int) -> Tensor:
    with torch.no_grad():
        both = torch.hstack([old, new])
        return both if size > both.shape[1] else both[:, both.shape[1] - size :]


RIGHT: list[tuple[str, Any]] = [
    ("cross_attention", cross_by_loops),
    ("cross_attention", cross_by_adding),
    ("remember", kept_one_by_one),
    ("remember", kept_without_grad),
    ("remember", lambda old, new, size: remember(old, new, size).numpy()),
]


@pytest.mark.parametrize(("name", "f"), RIGHT)
def test_right_ones_pass(name: str, f: Any) -> None:
    one = getattr(check, name)
    assert words(verdict(one, f)).startswith(f"✓ {name}: {one.tried}")


# -- wrong in other ways


def one_head(attention: SelfAttention, x: Tensor, source: Tensor, mask: Tensor) -> Any:
    weights = (attention.query(x) @ attention.key(source).mT)[:, None].masked_fill(~mask, -1e9)
    return attention.mix(weights.softmax(-1), source), weights.softmax(-1)


def no_mask(attention: SelfAttention, x: Tensor, source: Tensor, mask: Tensor) -> Any:
    return cross_attention(attention, x, source, torch.ones_like(mask))


def itself(attention: SelfAttention, x: Tensor, source: Tensor, mask: Tensor) -> Any:
    return cross_attention(attention, x, x, mask)


def with_gradient(old: Tensor, new: Tensor, size: int) -> Tensor:
    both = torch.hstack([old, new])
    return both[:, max(both.shape[1] - size, 0) :]


def by_width(old: Tensor, new: Tensor, size: int) -> Tensor:
    return torch.cat([old, new], dim=2).detach()


WRONG: list[tuple[str, Any, str]] = [
    ("cross_attention", itself, "nobody asks the source"),
    ("cross_attention", no_mask, "padding of the source is asked"),
    ("cross_attention", one_head, "weights has shape (1, 1, 1, 1); (1, 2, 1, 1)"),
    ("cross_attention", lambda *a: cross_attention(*a)[0], "return two things: mixed, weights"),
    ("remember", with_gradient, "the gradient flows on into the last segment"),
    ("remember", lambda old, new, n: torch.cat([old, new], 1)[:, -n:].detach(), "of size 0 keeps"),
    ("remember", lambda old, new, n: remember(old, new, n).clone().requires_grad_(), "gradient"),
    ("remember", lambda old, new, n: new.detach()[:, max(0, new.shape[1] - n) :], "only the new"),
    ("remember", by_width, "Smallest case"),
]


@pytest.mark.parametrize(("name", "wrong", "text"), WRONG)
def test_each_wrong_one_gets_its_own_message(name: str, wrong: Any, text: str) -> None:
    assert_named(getattr(check, name), name, wrong, text)


def test_the_case_by_hand() -> None:
    """Keys 1 and 0, a query of 1: e to 1 shares."""
    attention, *_ = next(iter(check.cross_attention.cases()))
    assert attention.query.in_features == 1
    mixed, weights = cross_attention(
        attention, torch.ones(1, 1, 1), torch.tensor([[[1.0], [0.0]]]), torch.ones(1, 1, 1, 2) > 0
    )
    assert weights[0, 0, 0, 0].item() == pytest.approx(math.e / (math.e + 1))
    assert mixed.item() == pytest.approx(math.e / (math.e + 1))
