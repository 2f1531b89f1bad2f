"""BERT with the rate of blanks drawn for each text: what it writes, and what it pays.

Three kinds of model learn the toy language in the same batches: one reads from left to right, one
is a BERT with 30 % blanks, and one has its rate drawn (`diffusion_loss`). Both BERTs write in 1, 2,
4, 8 and 10 passes, more than any text has words, beside the exact chances. *Repeated*: the first
and the last of the three again, on few sentences that are read again and again.
``python -m course.experiments.diffusion`` adds to `diffusion.csv` and `repeated.csv` what they
lack, some twenty minutes of one core in all.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from bertedu.files import Row
from bertedu.model.bert import BertForPreTraining
from bertedu.model.inference import evaluating
from bertedu.model.variants.diffusion import diffusion_loss, unmask
from bertedu.model.variants.generation import generate
from bertedu.text.tokenization import CLS_ID, MASK_ID, PAD_ID, SPECIAL_TOKENS
from course.experiments import toy_readers as toy
from course.experiments.fitting import fit
from course.experiments.toy_readers import CONFIG, FIRST, LANGUAGE
from course.experiments.writing import LONGEST, score_texts, texts_of
from course.results.study import grid, study

LTR, FIXED, DRAWN, EXACT = "left to right", "BERT, 30 % blanks", "rate drawn", "exact chances"
STEPS, TEXTS, PASSES = 3000, 500, (1, 2, 4, 8, 10)
LEVELS, READINGS = (50, 200, 2000), (4, 16, 64, 256)  # sentences; how often each is read
MOST, DRAWS = 12_800, 40  # steps of a run; draws of blanks


@cache
def log_of_length(words: int) -> float:
    """Return log P that a sentence of the language has so many words."""
    return math.log(float(LANGUAGE.forward([None] * words)[-1] @ LANGUAGE.stop))


def least(sentences: Sequence[Sequence[str]], ends: bool = False) -> Tensor:
    """Return the nats (N,) that each text costs at least: its words, and then the end.

    Without ``ends``, the end is told: -log P(words | how many there are).
    """
    told = [0.0 if ends else log_of_length(len(s)) for s in sentences]
    logs = [LANGUAGE.log_probability(s) for s in sentences]
    return torch.tensor([a - b for a, b in zip(told, logs, strict=True)])


def next_word_loss(model: BertForPreTraining, ids: Tensor) -> Tensor:
    """(B, S) -> (B,) nats a text, its end among them."""
    scores, _ = model(ids[:, :-1], padding_mask=ids[:, :-1] != PAD_ID)
    return F.cross_entropy(scores.mT, ids[:, 1:], ignore_index=PAD_ID, reduction="none").sum(1)


def excess(model: Any, reader: str) -> float:
    """Return what a model pays for a held-out text above the least, in nats a word.

    Of a BERT it is the bound, the mean of `DRAWS` draws.
    """
    sentences, ids = toy.text(10_000, toy.HELD_OUT)
    generator = torch.Generator().manual_seed(10_000)
    with evaluating(model):
        if reader == LTR:
            paid = next_word_loss(model, ids)
        else:
            bounds = [diffusion_loss(model, ids, generator) for _ in range(DRAWS)]
            paid = torch.stack(bounds).mean(0)
    above = paid - least(sentences, ends=reader == LTR)
    return float(above.sum() / (ids >= FIRST).sum())


def trained(reader: str, seed: int, ids: Tensor, steps: int) -> Iterator[tuple[int, Any]]:
    """Train a reader on batches that are the same for all; yield each step, and the model."""
    if reader == LTR:
        model = toy.new_mlm(seed, replace(CONFIG, direction="left-to-right"))
    else:
        model = toy.new_mlm(seed)
    rows = torch.Generator().manual_seed(seed)

    def loss(generator: torch.Generator) -> Tensor:
        batch = toy.drawn(ids, rows)
        if reader == FIXED:
            return toy.mlm_loss(model, batch, toy.singles(batch, generator))
        if reader == LTR:
            return next_word_loss(model, batch).sum() / (batch[:, 1:] != PAD_ID).sum()
        return diffusion_loss(model, batch, generator).sum() / (batch >= FIRST).sum()

    for step in fit(model, loss, seed, steps, title=reader):
        yield step, model


def write(reader: str, seed: int) -> Iterator[Row]:
    """Train a reader, and score what it writes: a row for each order and number of passes."""
    if reader == EXACT:
        model: Any = toy.ExactReader()
    else:
        *_, (_, model) = trained(reader, seed, toy.text(seed)[1], STEPS)
    above = {"excess": round(excess(model, reader), 4)} if reader != EXACT else {}
    rng = torch.Generator().manual_seed(seed)
    if reader == LTR:
        written = generate(model, torch.full((TEXTS, 1), CLS_ID), LONGEST, generator=rng)
        yield {"order": LTR, "passes": LONGEST} | score_texts(texts_of(written)) | above
        return
    given = toy.text(20_000 + seed, TEXTS)[1]
    blank = given.masked_fill(given >= len(SPECIAL_TOKENS), MASK_ID)  # true lengths
    for order in ("any order", "the surest first"):
        for passes in PASSES:
            *_, written = unmask(model, blank, passes, order != "any order", generator=rng)
            yield {"order": order, "passes": passes} | score_texts(texts_of(written)) | above


def repeat(reader: str, sentences: int, seed: int) -> Iterator[Row]:
    """Train on few sentences, and look at what held-out ones cost after so many readings."""
    looks = {round(times * sentences / toy.BATCH): times for times in READINGS}
    looks = {step: times for step, times in looks.items() if 0 < step <= MOST}
    ids = toy.text(seed)[1][:sentences]
    for step, model in trained(reader, seed, ids, max(looks)):
        if step in looks:
            yield {"readings": looks[step], "excess": round(excess(model, reader), 4)}


WRITERS = grid(write, reader=(LTR, FIXED, DRAWN, EXACT), seed=range(3))
REPEATED = grid(repeat, sentences=LEVELS, reader=(LTR, DRAWN), seed=range(3))

if __name__ == "__main__":
    study(diffusion=WRITERS, repeated=REPEATED)
