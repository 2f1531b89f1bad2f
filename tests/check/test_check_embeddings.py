"""The checks of notebook 02."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from verdicts import verdict, words

from bertedu import check
from bertedu.check import embeddings
from bertedu.check.embeddings import (
    MUSEUM,
    right_embedding_test,
    right_input_sum,
    right_layer_norm,
    right_layer_parameters,
    right_lookup,
    right_segment_ids,
    right_sinusoids,
)
from bertedu.check.exercise import Exercise
from bertedu.model.config import BertConfig, count_parameters
from bertedu.model.embeddings import Embeddings
from bertedu.text.tokenization import SPECIAL_TOKENS, WordPiece

Wrong = Callable[..., Any]


def assert_rejected(name: str, wrong: Wrong, text: str) -> None:
    """A wrong function gets its own message, the same one each time."""
    said = verdict(getattr(check, name), wrong)
    assert said.startswith(f"✗ {name}: ")
    assert text in words(said)
    assert "0x" not in said
    assert said == verdict(getattr(check, name), wrong)


def test_the_messages_of_an_exercise_are_all_different() -> None:
    exercises = [value for value in vars(embeddings).values() if isinstance(value, Exercise)]
    assert len(exercises) == len(embeddings.SOLUTIONS) == 7
    for one in exercises:
        assert len({mistake.what for mistake in one.mistakes}) == len(one.mistakes)
        assert words(verdict(getattr(check, one.name), lambda *_: None)).startswith(
            f"… {one.name} is still a stub. Start from {one.start}"
        )
        assert verdict(getattr(check, one.name), one.right) == f"✓ {one.name}: {one.tried}\n"


# -- lookup


def lookup_by_loops(ids: Tensor, table: Tensor) -> tuple[list[list[int]], list[Any]]:
    one_hot = [[int(word == i) for word in range(len(table))] for i in ids.tolist()]
    return one_hot, [table[i].tolist() for i in ids.tolist()]


def lookup_by_comparing(ids: Tensor, table: Tensor) -> list[Tensor]:
    one_hot = ids[:, None] == torch.arange(len(table))
    return [one_hot, nn.Embedding.from_pretrained(table)(ids)]


def lookup_in_numpy(ids: Tensor, table: Tensor) -> Any:
    one_hot = np.eye(len(table))[ids.numpy()]
    return one_hot, one_hot @ table.numpy()


@pytest.mark.parametrize("f", [lookup_by_loops, lookup_by_comparing, lookup_in_numpy])
def test_right_lookups_pass(f: Wrong) -> None:
    assert verdict(check.lookup, f).startswith("✓ lookup: 80 random tables")


def one_hots(make: Callable[[Tensor, int], Tensor]) -> Wrong:
    def f(ids: Tensor, table: Tensor) -> tuple[Tensor, Tensor]:
        one_hot = make(ids, len(table)).to(table.dtype)
        return one_hot, one_hot @ table

    return f


def transposed_one_hot(ids: Tensor, table: Tensor) -> tuple[Tensor, Tensor]:
    one_hot = torch.zeros(len(table), len(ids))
    one_hot[ids, torch.arange(len(ids))] = 1
    return one_hot, one_hot.T @ table


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (lambda ids, table: right_lookup(ids, table)[::-1], "in the wrong order"),
        (one_hots(lambda ids, v: F.one_hot((ids - 1) % v, v)), "too far left: ids are counted"),
        (one_hots(lambda ids, v: F.one_hot((ids + 1) % v, v)), "one column too far right"),
        (one_hots(lambda ids, v: torch.eye(v)[: len(ids)]), "at the positions 0, 1, 2"),
        (one_hots(lambda ids, v: F.one_hot(ids, v) * ids[:, None]), "the id itself is written"),
        (one_hots(lambda ids, v: F.one_hot(ids)), "only as wide as the largest id"),
        (transposed_one_hot, "one_hot is transposed"),
        (lambda ids, t: (F.one_hot(ids, len(t)), t[: len(ids)]), "the first rows of the table"),
        (lambda ids, table: table[ids], "return two things: one_hot, vectors"),
    ],
)
def test_each_wrong_lookup_gets_its_own_message(wrong: Wrong, text: str) -> None:
    assert_rejected("lookup", wrong, text)


# -- layer norm


def norm_by_loops(x: Tensor, scale: Tensor, shift: Tensor, eps: float) -> list[list[float]]:
    rows = []
    for row in x.tolist():
        mean = sum(row) / len(row)
        variance = sum((number - mean) ** 2 for number in row) / len(row)
        rows.append(
            [
                float(scale[i]) * (number - mean) / math.sqrt(variance + eps) + float(shift[i])
                for i, number in enumerate(row)
            ]
        )
    return rows


def norm_by_torch(x: Tensor, scale: Tensor, shift: Tensor, eps: float) -> Tensor:
    return F.layer_norm(x, x.shape[-1:], scale, shift, eps)


def norm_by_squares(x: Tensor, scale: Tensor, shift: Tensor, eps: float) -> Any:
    x = x.double()
    mean = x.mean(1, keepdim=True)
    variance = (x * x).mean(1, keepdim=True) - mean**2
    return (scale * (x - mean) * (variance + eps).rsqrt() + shift).numpy()


@pytest.mark.parametrize("f", [right_layer_norm, norm_by_loops, norm_by_torch, norm_by_squares])
def test_right_norms_pass(f: Wrong) -> None:
    assert verdict(check.layer_norm, f).startswith("✓ layer_norm: 80 random inputs")


def normalizing(normalize: Callable[[Tensor, float], Tensor]) -> Wrong:
    return lambda x, scale, shift, eps: normalize(x, eps) * scale + shift


def std(x: Tensor, dim: int = -1) -> Tensor:
    return x.std(dim, keepdim=True)


def mean(x: Tensor, dim: int = -1) -> Tensor:
    return x.mean(dim, keepdim=True)


def rooted(x: Tensor, eps: float) -> Tensor:
    return (x - mean(x)) / (mean((x - mean(x)) ** 2) + eps) ** 0.5


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (normalizing(lambda x, e: (x - mean(x)) / (std(x) + e)), "outside the root, and the var"),
        (
            normalizing(lambda x, e: (x - mean(x)) / (mean((x - mean(x)) ** 2) ** 0.5 + e)),
            "epsilon is outside the root. Smallest",
        ),
        (
            normalizing(lambda x, e: (x - mean(x)) / (std(x) ** 2 + e) ** 0.5),
            "layer_norm: the variance is divided by H - 1.",
        ),
        (
            normalizing(lambda x, e: (x - mean(x)) / mean((x - mean(x)) ** 2) ** 0.5),
            "epsilon is missing. Smallest",
        ),
        (normalizing(lambda x, e: (x - mean(x)) / std(x)), "epsilon is missing, and the variance"),
        (
            normalizing(
                lambda x, e: (x - mean(x, 0)) / (mean((x - mean(x, 0)) ** 2, 0) + e) ** 0.5
            ),
            "down the columns",
        ),
        (
            normalizing(lambda x, e: F.layer_norm(x, x.shape, eps=e)),
            "the whole table is normalized at once",
        ),
        (
            normalizing(lambda x, e: (x - x.mean(1)) / (x.var(1, correction=0) + e).sqrt()),
            "keepdim is missing",
        ),
        (lambda x, scale, shift, eps: rooted(x, eps), "scale and shift are forgotten"),
        (lambda x, scale, shift, eps: rooted(x, eps) + shift, "layer_norm: scale is forgotten"),
        (lambda x, scale, shift, eps: rooted(x, eps) * scale, "shift is forgotten"),
        (lambda x, scale, shift, eps: rooted(x, eps) * shift + scale, "shift are swapped"),
        (lambda x, scale, shift, eps: (rooted(x, eps) + shift) * scale, "added before scale"),
        (
            normalizing(lambda x, e: (x - mean(x)) / (mean((x - mean(x)) ** 2) + e)),
            "the root is missing",
        ),
        (normalizing(lambda x, e: x / (mean(x * x) + e) ** 0.5), "this is RMS norm"),
        (normalizing(lambda x, e: x - mean(x)), "centered, but not divided"),
        (
            lambda x, scale, shift, eps: (
                x.sub_(mean(x)) / (mean(x * x) + eps) ** 0.5 * scale + shift
            ),
            "changes x in place",
        ),
    ],
)
def test_each_wrong_norm_gets_its_own_message(wrong: Wrong, text: str) -> None:
    assert_rejected("layer_norm", wrong, text)


# -- segments


def segments_by_place(tokens: list[str]) -> Any:
    first = tokens.index("[SEP]")
    return np.array([i > first and token != "[PAD]" for i, token in enumerate(tokens)])


def segments_as_tensor(tokens: list[str]) -> Tensor:
    return torch.tensor(right_segment_ids(tokens)).float()


@pytest.mark.parametrize("f", [right_segment_ids, segments_by_place, segments_as_tensor])
def test_right_segments_pass(f: Wrong) -> None:
    assert verdict(check.segment_ids, f).startswith("✓ segment_ids: 18 inputs")


def test_the_reference_agrees_with_the_tokenizer() -> None:
    pair = WordPiece([*SPECIAL_TOKENS, "a", "b"]).encode("a a b", "b a")
    assert right_segment_ids(pair.tokens) == pair.segment_ids


def separators(tokens: list[str], including: bool) -> list[int]:
    return [tokens[: i + including].count("[SEP]") for i in range(len(tokens))]


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (
            lambda tokens: [
                int(n >= 1 and token != "[PAD]")
                for n, token in zip(separators(tokens, True), tokens, strict=True)
            ],
            "the first [SEP] is counted to segment B",
        ),
        (lambda tokens: separators(tokens, False), "a third segment"),
        (
            lambda tokens: [
                n if token not in ("[SEP]", "[PAD]") else 0
                for n, token in zip(separators(tokens, False), tokens, strict=True)
            ],
            "both [SEP] are counted to segment A",
        ),
        (lambda tokens: [min(n, 1) for n in separators(tokens, False)], "padding gets segment 1"),
        (lambda tokens: [n + 1 for n in right_segment_ids(tokens)], "called 1 and 2"),
        (lambda tokens: [1 - n for n in right_segment_ids(tokens)], "A and B are swapped"),
        (lambda tokens: [0] * len(tokens), "everything is segment A"),
        (
            lambda tokens: [1, *right_segment_ids(tokens)[1:]],
            "[CLS] is not counted to segment A",
        ),
        (lambda tokens: right_segment_ids(tokens)[1:], "is wanted here"),
    ],
)
def test_each_wrong_segment_gets_its_own_message(wrong: Wrong, text: str) -> None:
    assert_rejected("segment_ids", wrong, text)


# -- the sum


def sum_by_loops(ids: Tensor, segs: Tensor, token: Tensor, segment: Tensor, pos: Tensor) -> Any:
    return [
        [(token[ids[b, s]] + segment[segs[b, s]] + pos[s]).tolist() for s in range(ids.shape[1])]
        for b in range(len(ids))
    ]


def sum_by_layers(ids: Tensor, segs: Tensor, *tables: Tensor) -> Tensor:
    token, segment, position = map(nn.Embedding.from_pretrained, tables)
    return position(torch.arange(ids.shape[1])) + segment(segs) + token(ids)


def sum_by_the_package(ids: Tensor, segs: Tensor, *tables: Tensor) -> Tensor:
    vocab, size = tables[0].shape
    config = BertConfig(vocab, size, 1, 1, 1, max_position_embeddings=len(tables[2]))
    part = Embeddings(config).eval()
    for layer, table in zip((part.token, part.segment, part.position), tables, strict=True):
        layer.weight.data = table
    part.norm = nn.Identity()  # type: ignore[assignment]
    return part(ids, segs)


@pytest.mark.parametrize("f", [right_input_sum, sum_by_loops, sum_by_layers, sum_by_the_package])
def test_right_sums_pass(f: Wrong) -> None:
    assert verdict(check.input_sum, f).startswith("✓ input_sum: 80 random inputs")


def restarting(ids: Tensor, segs: Tensor, token: Tensor, segment: Tensor, pos: Tensor) -> Tensor:
    places = []
    for row in segs.tolist():
        count, before, out = 0, 0, []
        for part in row:
            count = 0 if part != before else count
            out.append(count)
            count, before = count + 1, part
        places.append(out)
    return token[ids] + segment[segs] + pos[torch.tensor(places)]


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (lambda i, s, t, e, p: t[i] + p[: i.shape[1]], "the segment vectors are missing"),
        (lambda i, s, t, e, p: t[i] + e[s], "the position vectors are missing"),
        (lambda i, s, t, e, p: t[i], "only the token vectors are there"),
        (lambda i, s, t, e, p: e[s] + p[: i.shape[1]], "the token vectors are missing"),
        (restarting, "positions start again in segment B"),
        (lambda i, s, t, e, p: t[i] + e[s] + p[1 : i.shape[1] + 1], "are counted from 1"),
        (lambda i, s, t, e, p: t[i] + e[s] + p[0], "every token gets position 0"),
        (lambda i, s, t, e, p: t[i] + e[s] + p[: i.shape[1]].flip(0), "counted from the end"),
        (lambda i, s, t, e, p: t[i] + e[s] + p[: len(i), None], "count the rows of the batch"),
        (lambda i, s, t, e, p: t[i] + e[s] + p[i], "looked up by word"),
        (lambda i, s, t, e, p: t[i] * e[s] * p[: i.shape[1]], "multiplied, not added"),
        (lambda *inputs: sum_by_layers(*inputs) / 3, "this is the mean"),
        (
            lambda i, s, t, e, p: t[i] * t.shape[1] ** 0.5 + e[s] + p[: i.shape[1]],
            "multiplied by the root of H",
        ),
        (lambda i, s, t, e, p: t[i] + e[0] + p[: i.shape[1]], "gets the vector of segment A"),
        (lambda i, s, t, e, p: t[i] + e[1 - s] + p[: i.shape[1]], "A and B are swapped"),
        (
            lambda *inputs: F.layer_norm(sum_by_layers(*inputs), inputs[2].shape[1:]),
            "the layer norm has been done already",
        ),
        (
            lambda i, s, t, e, p: torch.cat([t[i], e[s]], -1),
            "is wanted here",
        ),
    ],
)
def test_each_wrong_sum_gets_its_own_message(wrong: Wrong, text: str) -> None:
    assert_rejected("input_sum", wrong, text)


# -- sinusoids


def waves_by_loops(length: int, size: int) -> list[list[float]]:
    table = [[0.0] * size for _ in range(length)]
    for p in range(length):
        for k in range(size // 2):
            angle = p / 10000 ** (2 * k / size)
            table[p][2 * k], table[p][2 * k + 1] = math.sin(angle), math.cos(angle)
    return table


def waves_by_slices(length: int, size: int) -> Any:
    angle = np.arange(length)[:, None] * np.exp(-math.log(10000) * np.arange(0, size, 2) / size)
    table = np.zeros((length, size))
    table[:, 0::2], table[:, 1::2] = np.sin(angle), np.cos(angle)
    return table


@pytest.mark.parametrize("f", [right_sinusoids, waves_by_loops, waves_by_slices])
def test_right_sinusoids_pass(f: Wrong) -> None:
    assert verdict(check.sinusoids, f).startswith("✓ sinusoids: 9 tables")


def waves(
    even: Callable[[float], float] = math.sin,
    odd: Callable[[float], float] = math.cos,
    angle: Callable[[int, int, int], float] = lambda p, k, h: p / 10000 ** (2 * k / h),
) -> Wrong:
    return lambda length, size: [
        [(odd if c % 2 else even)(angle(p, c // 2, size)) for c in range(size)]
        for p in range(length)
    ]


def own_rates(length: int, size: int) -> list[list[float]]:
    return [
        [(math.cos if c % 2 else math.sin)(p / 10000 ** (c / size)) for c in range(size)]
        for p in range(length)
    ]


def concatenated(length: int, size: int) -> Tensor:
    table = torch.tensor(waves_by_loops(length, size))
    return torch.cat([table[:, ::2], table[:, 1::2]], 1)


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (waves(odd=math.sin), "there are only sines"),
        (waves(odd=lambda angle: 0.0), "there are only sines"),
        (waves(even=math.cos), "there are only cosines"),
        (waves(math.cos, math.sin), "sine and cosine are swapped"),
        (concatenated, "Both orders exist"),
        (waves(angle=lambda p, k, h: math.radians(p / 10000 ** (2 * k / h))), "in degrees"),
        (own_rates, "each column has a rate of its own"),
        (waves(angle=lambda p, k, h: p / 10000 ** (k / h)), "fall half as fast"),
        (waves(angle=lambda p, k, h: p / 10000 ** (4 * k / h)), "fall twice as fast"),
        (waves(angle=lambda p, k, h: p * 10000 ** (2 * k / h)), "the rates grow from pair to pair"),
        (waves(angle=lambda p, k, h: p / 10000 ** (k / max(h // 2 - 1, 1))), "exactly 1/10000"),
        (waves(angle=lambda p, k, h: p), "all columns turn equally fast"),
        (waves(angle=lambda p, k, h: p / 1000 ** (2 * k / h)), "the base is 1,000"),
        (waves(angle=lambda p, k, h: (p + 1) / 10000 ** (2 * k / h)), "counted from 1"),
        (lambda n, h: np.array(waves_by_loops(n, h)).T, "the table is transposed"),
    ],
)
def test_each_wrong_sinusoid_gets_its_own_message(wrong: Wrong, text: str) -> None:
    assert_rejected("sinusoids", wrong, text)


# -- counting


def counted_by_building(hidden: int, inner: int) -> int:
    with torch.device("meta"):
        layer = nn.TransformerEncoderLayer(hidden, 1, inner)
    return sum(p.numel() for p in layer.parameters())


def counted_from_the_package(hidden: int, inner: int) -> Tensor:
    one, two = (
        count_parameters(BertConfig(9, hidden, layers, 1, inner))["encoder"] for layers in (1, 2)
    )
    return torch.tensor(two - one)


@pytest.mark.parametrize(
    "f", [right_layer_parameters, counted_by_building, counted_from_the_package]
)
def test_right_counts_pass(f: Wrong) -> None:
    assert verdict(check.layer_parameters, f).startswith("✓ layer_parameters: 10 sizes")


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (lambda h, i: 4 * h * h + 2 * h * i + 4 * h, "the biases are forgotten. Smallest"),
        (lambda h, i: 4 * h * (h + 1) + 2 * h * i + 4 * h, "of the feed-forward part are forg"),
        (lambda h, i: 4 * h * (h + 1) + 2 * h * i + h + i + 2 * h, "one layer norm instead of two"),
        (lambda h, i: 4 * h * (h + 1) + 2 * h * i + h + i, "4·H are missing"),
        (lambda h, i: 4 * h * h + 2 * h * i, "the biases and the layer norms are forgotten"),
        (lambda h, i: 4 * h * (h + 1) + h * i + i + 4 * h, "part is counted once"),
        (lambda h, i: 4 * h * (h + 1) + 4 * h, "the feed-forward part is forgotten"),
        (lambda h, i: 3 * h * (h + 1) + 2 * h * i + h + i + 4 * h, "its output is forgotten"),
        (lambda h, i: h * (h + 1) + 2 * h * i + h + i + 4 * h, "attention is counted as one map"),
        (lambda h, i: 2 * h * i + h + i + 4 * h, "attention is forgotten"),
        (lambda h, i: 12 * counted_by_building(h, i), "the count of 12 layers"),
        (lambda h, i: counted_by_building(h, 4 * h), "inner is not used"),
        (lambda h, i: counted_by_building(h, i) + 0.5, "a whole number is wanted"),
        (lambda h, i: float(counted_by_building(h, i) - 2 * h), "2·H are missing"),
    ],
)
def test_each_wrong_count_gets_its_own_message(wrong: Wrong, text: str) -> None:
    assert_rejected("layer_parameters", wrong, text)


# -- a test for embeddings


def test_the_museum_is_broken_and_the_right_ones_are_right() -> None:
    accepted = [exhibit.seen for exhibit in MUSEUM if right_embedding_test(exhibit)]
    assert accepted == [exhibit.seen for exhibit in MUSEUM if not exhibit.bug]
    assert len(accepted) == 2
    assert all(exhibit.try_this for exhibit in MUSEUM if exhibit.bug)


def random_inputs(eps: float) -> tuple[Any, ...]:
    draw = torch.Generator().manual_seed(0)
    ids = torch.randint(5, (2, 6), generator=draw)
    segments = (torch.arange(6) > 2).long().expand(2, 6)
    tables = [torch.randn(rows, 4, generator=draw) for rows in (5, 2, 8)]
    return ids, segments, *tables, eps


def by_comparing(embed: Wrong) -> bool:
    inputs = random_inputs(eps=0.3)
    x = sum_by_layers(*inputs[:5])
    return bool((embed(*inputs) - F.layer_norm(x, (4,), eps=0.3)).abs().max() < 1e-4)


def by_shape(embed: Wrong) -> bool:
    inputs = random_inputs(eps=1e-12)
    return bool(embed(*inputs).shape == (2, 6, 4))


def by_segment(embed: Wrong) -> Any:
    ids, segments, *tables = random_inputs(eps=1e-12)
    return not torch.equal(embed(ids, segments, *tables), embed(ids, 1 - segments, *tables))


def with_a_tiny_epsilon(embed: Wrong) -> bool:
    inputs = random_inputs(eps=1e-12)
    x = sum_by_layers(*inputs[:5])
    return torch.allclose(embed(*inputs), F.layer_norm(x, (4,), eps=1e-12), atol=1e-4)


def too_strict(embed: Wrong) -> bool:
    return by_comparing(embed) and embed is MUSEUM[0]


@pytest.mark.parametrize("f", [right_embedding_test, by_comparing])
def test_right_tests_pass(f: Wrong) -> None:
    assert verdict(check.embedding_test, f).startswith(
        "✓ embedding_test: 2 right input layers accepted, 6 published mistakes rejected."
    )


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (by_shape, "your test accepts everything"),
        (lambda embed: False, "your test rejects everything"),
        (lambda embed: not by_comparing(embed), "your test is upside down"),
        (by_segment, "notices missing segments, and nothing else"),
        (with_a_tiny_epsilon, "does not notice where epsilon stands"),
        (too_strict, "Yours rejects it. Compare with torch.allclose"),
        (lambda embed: embed(*random_inputs(0.3)), "True or False is wanted"),
    ],
)
def test_each_wrong_test_gets_its_own_message(wrong: Wrong, text: str) -> None:
    assert_rejected("embedding_test", wrong, text)
