"""The exercises of notebook 02: right in other ways, wrong in other ways than the patches."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from verdicts import assert_named, verdict, words

from bertedu.model.config import BertConfig, count_parameters
from bertedu.model.embeddings import Embeddings
from bertedu.text.tokenization import SPECIAL_TOKENS, WordPiece
from course.exercises import check
from course.exercises.embeddings import EMBEDDING_TEST, right_embedding_test, right_segment_ids


def lookup_by_loops(ids: Tensor, table: Tensor) -> tuple[list[list[int]], list[Any]]:
    one_hot = [[int(word == i) for word in range(len(table))] for i in ids.tolist()]
    return one_hot, [table[i].tolist() for i in ids.tolist()]


def lookup_by_comparing(ids: Tensor, table: Tensor) -> list[Tensor]:
    one_hot = ids[:, None] == torch.arange(len(table))
    return [one_hot, nn.Embedding.from_pretrained(table)(ids)]


def norm_by_torch(x: Tensor, scale: Tensor, shift: Tensor, eps: float) -> Tensor:
    return F.layer_norm(x, x.shape[-1:], scale, shift, eps)


def norm_by_squares(x: Tensor, scale: Tensor, shift: Tensor, eps: float) -> Any:
    x = x.double()
    mean = x.mean(1, keepdim=True)
    variance = (x * x).mean(1, keepdim=True) - mean**2
    return (scale * (x - mean) * (variance + eps).rsqrt() + shift).numpy()


def segments_by_place(tokens: list[str]) -> Any:
    first = tokens.index("[SEP]")
    return np.array([i > first and token != "[PAD]" for i, token in enumerate(tokens)])


def sum_by_loops(ids: Tensor, segs: Tensor, token: Tensor, segment: Tensor, pos: Tensor) -> Any:
    return [
        [(token[ids[b, s]] + segment[segs[b, s]] + pos[s]).tolist() for s in range(ids.shape[1])]
        for b in range(len(ids))
    ]


def sum_by_the_package(ids: Tensor, segs: Tensor, *tables: Tensor) -> Tensor:
    vocab, size = tables[0].shape
    config = BertConfig(vocab, size, 1, 1, 1, max_position_embeddings=len(tables[2]))
    part = Embeddings(config).eval()
    for layer, table in zip((part.token, part.segment, part.position), tables, strict=True):
        layer.weight.data = table
    part.norm = nn.Identity()  # type: ignore[assignment]
    return part(ids, segs)


def waves(
    angle: Callable[[int, int, int], float] = lambda p, c, h: p / 10000 ** (2 * (c // 2) / h),
) -> Any:
    return lambda length, size: [
        [(math.sin, math.cos)[c % 2](angle(p, c, size)) for c in range(size)] for p in range(length)
    ]


def waves_by_slices(length: int, size: int) -> Any:
    angle = np.arange(length)[:, None] * np.exp(-math.log(10000) * np.arange(0, size, 2) / size)
    table = np.zeros((length, size))
    table[:, 0::2], table[:, 1::2] = np.sin(angle), np.cos(angle)
    return table


def counted_by_building(hidden: int, inner: int) -> int:
    with torch.device("meta"):
        layer = nn.TransformerEncoderLayer(hidden, 1, inner)
    return sum(p.numel() for p in layer.parameters())


def counted_from_the_package(hidden: int, inner: int) -> Tensor:
    one, two = (
        count_parameters(BertConfig(9, hidden, layers, 1, inner))["encoder"] for layers in (1, 2)
    )
    return torch.tensor(two - one)


RIGHT: list[tuple[str, Any]] = [
    ("lookup", lookup_by_loops),
    ("lookup", lookup_by_comparing),
    ("layer_norm", norm_by_squares),
    ("segment_ids", segments_by_place),
    ("segment_ids", lambda tokens: torch.tensor(right_segment_ids(tokens)).float()),
    ("input_sum", sum_by_loops),
    ("input_sum", sum_by_the_package),
    ("sinusoids", waves()),
    ("sinusoids", waves_by_slices),
    ("layer_parameters", counted_by_building),
    ("layer_parameters", counted_from_the_package),
]


@pytest.mark.parametrize(("name", "f"), RIGHT)
def test_right_ones_pass(name: str, f: Any) -> None:
    one = getattr(check, name)
    assert words(verdict(one, f)).startswith(f"✓ {name}: {one.tried}")


def test_the_reference_agrees_with_the_tokenizer() -> None:
    pair = WordPiece([*SPECIAL_TOKENS, "a", "b"]).encode("a a b", "b a")
    assert right_segment_ids(pair.tokens) == pair.segment_ids


def shifted(by: int) -> Any:
    def f(ids: Tensor, table: Tensor) -> tuple[Tensor, Tensor]:
        one_hot = F.one_hot((ids + by) % len(table), len(table)).to(table.dtype)
        return one_hot, one_hot @ table

    return f


def std(x: Tensor) -> Tensor:
    return x.std(1, keepdim=True)


def centered(x: Tensor) -> Tensor:
    return x - x.mean(1, keepdim=True)


def norm_without_keepdim(x: Tensor, scale: Tensor, shift: Tensor, eps: float) -> Tensor:
    return scale * (x - x.mean(1)) / (x.var(1, correction=0) + eps).sqrt() + shift


def counted(tokens: list[str], including: bool) -> list[int]:
    return [tokens[: i + including].count("[SEP]") for i in range(len(tokens))]


WRONG: list[tuple[str, Any, str]] = [
    ("lookup", lambda i, t: lookup_by_loops(i, t)[::-1], "in the wrong order"),
    ("lookup", shifted(-1), "cases come out wrong"),
    ("lookup", lambda i, t: (F.one_hot(i), t[i]), "only as wide as the largest id"),
    ("lookup", lambda i, t: t[i], "return two things: one_hot, vectors"),
    ("layer_norm", lambda x, a, b, e: a * centered(x) / (std(x) + e) + b, "root, and the variance"),
    ("layer_norm", lambda x, a, b, e: a * centered(x) / (std(x) ** 2 + e) ** 0.5 + b, "by H - 1"),
    ("layer_norm", lambda x, *rest: norm_by_squares(x.mul_(2), *rest), "changes x in place"),
    ("layer_norm", norm_without_keepdim, "keepdim=True is missing"),
    ("segment_ids", lambda tokens: counted(tokens, False), "a third segment"),
    ("segment_ids", lambda tokens: [min(n, 1) for n in counted(tokens, False)], "padding gets"),
    ("segment_ids", lambda tokens: right_segment_ids(tokens)[1:], "is wanted here"),
    ("input_sum", lambda i, s, t, e, p: t[i] + p[: i.shape[1]], "the segment vectors are missing"),
    ("input_sum", lambda i, s, t, e, p: t[i] + e[s], "the position vectors are missing"),
    ("input_sum", lambda i, s, t, e, p: t[i] + e[s] + F.embedding(i, p), "chosen by the word"),
    ("input_sum", lambda i, s, t, e, p: torch.cat([t[i], e[s]], -1), "is wanted here"),
    ("sinusoids", waves(lambda p, c, h: p / 10000 ** (c / h)), "a rate of its own"),
    ("layer_parameters", lambda h, i: 4 * h * h + 2 * h * i + 4 * h, "the biases are missing"),
    ("layer_parameters", lambda h, i: counted_by_building(h, i) - 2 * h, "s: 2·H are missing"),
    ("layer_parameters", lambda h, i: 4 * h * h + 2 * h * i + 5 * h + i, "s: 4·H are missing"),
    ("layer_parameters", lambda h, i: counted_by_building(h, i) + 0.5, "a whole number is wanted"),
]


@pytest.mark.parametrize(("name", "wrong", "text"), WRONG)
def test_each_wrong_one_gets_its_own_message(name: str, wrong: Any, text: str) -> None:
    assert_named(getattr(check, name), name, wrong, text)


@pytest.mark.parametrize(
    "f",
    [
        norm_by_torch,
        lambda x, a, b, e: torch.layer_norm(x, x.shape[1:], eps=e) * a + b,
        lambda x, a, b, e: F.batch_norm(x.T, None, None, training=True, eps=e).T * a + b,
    ],
)
def test_a_ready_made_norm_is_no_solution(f: Any) -> None:
    said = words(verdict(check.layer_norm, f))
    assert said.startswith("✗ layer_norm: right, but PyTorch's norm did the work.")
    assert "Begin with x.mean(-1, keepdim=True)" in said


def compared(embed: Any, eps: float) -> float:
    """How far an input layer is from PyTorch's, at random inputs."""
    draw = torch.Generator().manual_seed(0)
    ids = torch.randint(5, (2, 6), generator=draw)
    segments = (torch.arange(6) > 2).long().expand(2, 6)
    tables = [torch.randn(rows, 4, generator=draw) for rows in (5, 2, 8)]
    x = sum_by_the_package(ids, segments, *tables)
    difference = embed(ids, segments, *tables, eps) - F.layer_norm(x, (4,), eps=eps)
    return float(difference.abs().max())


def test_right_tests_pass() -> None:
    for _, layer in EMBEDDING_TEST.right:
        assert right_embedding_test(layer)
    said = verdict(check.embedding_test, lambda embed: compared(embed, 0.3) < 1e-4)
    assert said.startswith("✓ embedding_test: accepts 2 right input layers, catches 5 broken ones")


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (lambda embed: compared(embed, 1e-12) < 1e-4, "take a large epsilon, such as 0.5"),
        (lambda embed: embed is EMBEDDING_TEST.right[0][1], "Compare with torch.allclose"),
        (lambda embed: compared(embed, 0.3), "True or False is wanted"),
    ],
)
def test_each_wrong_test_gets_its_own_message(wrong: Any, text: str) -> None:
    said = words(verdict(check.embedding_test, wrong))
    assert said.startswith("✗ embedding_test: ")
    assert text in said
