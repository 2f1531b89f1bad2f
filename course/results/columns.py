"""Columns of the tables of results: a value, and the ends of its 95 % interval."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from bertedu.files import Row
from course.results.bootstrap import Estimate, ratio_interval

SCORE = ("mean", "low", "high")
MINUS_REFERENCE = ("minus_reference", "minus_low", "minus_high", "minus_p")


def in_columns(names: Sequence[str], found: Estimate) -> Row:
    """Return as many numbers of an estimate as there are names, to four digits; "" for NaN."""
    numbers = zip(names, found, strict=False)
    return {name: "" if np.isnan(number) else f"{number:.4f}" for name, number in numbers}


def with_interval(name: str, value: float, ends: tuple[float, float]) -> Row:
    """Return a value and its interval as three columns, to four digits."""
    low, high = ends
    return {name: round(value, 4), f"{name}_low": round(low, 4), f"{name}_high": round(high, 4)}


def estimate_columns(name: str, found: Estimate) -> Row:
    """Return an estimate as four columns: a value, its interval, and p to two digits."""
    return with_interval(name, found.value, found[1:3]) | {f"{name}_p": f"{found.p:.2g}"}


def read_estimate(row: Mapping[str, str], name: str) -> Estimate:
    """Read what `estimate_columns` wrote."""
    return Estimate(*(float(row[name + end]) for end in ("", "_low", "_high", "_p")))


def ratio_columns(name: str, sums: Tensor, counts: Tensor) -> Row:
    """Return a ratio of sums and its interval, (N,) and (N,): see `ratio_interval`."""
    return with_interval(name, float(sums.sum() / counts.sum()), ratio_interval(sums, counts))


def by_document(scores: Tensor, documents: Tensor) -> Tensor:
    """Add up (N, K) scores of pairs by document, (N,) -> (D, K): the units that are independent."""
    numbers, of = np.unique(documents.numpy(), return_inverse=True)
    sums = scores.new_zeros(len(numbers), scores.shape[1])
    return sums.index_add(0, torch.from_numpy(of), scores)


def word_columns(scores: Tensor) -> Row:
    """(N, 3) of `score_pairs`, of N units -> loss in nats a word and accuracy, with intervals."""
    counts, losses, right = scores.unbind(-1)
    return ratio_columns("mlm_loss", losses, counts) | ratio_columns("mlm_accuracy", right, counts)
