"""The same question under three masks: what is a second side worth, in nats, on the same blanks?

Three kinds of model were pre-trained on the same batches, with the same blanks and the same loss:
one sees both sides of a blank, one the left, one the right. Each is asked for the same held-out
words, one blank at a time, and so is a pair: left and right, joined. The blanks are sorted by what
tells them, which is counted in the training text and asked of no model. Two pairs are so narrow
that both halves have about the weights of one reader: one is joined, too, and the halves of the
other learned together (`joint_pair`).
``python -m course.experiments.same_question`` writes two tables of notebook 13, ``--narrow`` two
more, with the narrow pairs, and ``--longer`` the one of notebook 14: what four times the reading
adds for both sides, and for the left alone.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
import typer
from torch import Tensor
from torch.nn import functional as F
from tqdm.auto import tqdm

from bertedu.files import Row, write_csv
from bertedu.machine import default_device
from bertedu.model.bert import BertForPreTraining
from bertedu.model.checkpoints import find_checkpoint, load_checkpoint
from bertedu.pretraining.batches import load_splits
from bertedu.pretraining.next_sentence import EncodedDocument
from bertedu.text.fast_tokenizer import load_vocabulary
from bertedu.text.tokenization import CLS_ID, MASK_ID, SEP_ID, SPECIAL_TOKENS
from course.experiments.ablations import SAME_QUESTION, pretrained_with, runs_of
from course.experiments.counting import UnigramModel
from course.results.bootstrap import (
    BootstrapScores,
    Floats,
    Ints,
    common_spread,
    drawn_means,
    estimate,
    halves,
    run_spread,
)
from course.results.columns import estimate_columns
from course.results.origin import origin

FIXED, OPEN = 0.5, 0.1  # a word is told if it is this share of what stood there; below, it is open
SEEN = 5  # two neighbors that met less often together tell nothing
PER_KIND = 2000  # blanks of each kind
LONGEST = 100  # word pieces of a sentence
KINDS = ("left", "right", "both needed", "neither")
ALL = "all"  # any blanks, as they come
BOTH, LEFT, RIGHT = SAME_QUESTION
PAIR = "left and right, joined"
NARROW, TOGETHER = "left and right, narrow", "left and right, together"
RUNS = SAME_QUESTION | {PAIR: runs_of("mlm-ltr", "mlm-rtl", folder="same-question")}
NARROW_RUNS = {
    BOTH: SAME_QUESTION[BOTH],
    NARROW: runs_of("narrow-ltr", "narrow-rtl", folder="same-question"),
    TOGETHER: runs_of("joint-ltr", "joint-rtl", folder="same-question"),
}
# Four times the reading, once each
LONG = {BOTH: "same-question/no-nsp-long-0", LEFT: "same-question/mlm-ltr-long-0"}
MARKS = range(6000, 42001, 6000)  # steps of the longer runs at which weights were kept
Answers = dict[str, list[tuple[Floats, Floats]]]  # reader -> of each run, loss and right, (n,)


class Counts:
    """How often each number occurs."""

    def __init__(self, numbers: Ints) -> None:
        self.known, self.counts = np.unique(numbers, return_counts=True)

    def of(self, numbers: Ints) -> Ints:
        """Count each of some numbers, (n,)."""
        at = np.minimum(np.searchsorted(self.known, numbers), len(self.known) - 1)
        return np.where(self.known[at] == numbers, self.counts[at], 0)


class Neighbors:
    """How often each word stood behind one neighbor, before another, and between the two."""

    def __init__(self, left: Ints, word: Ints, right: Ints, size: int) -> None:
        """Count (n,) words with their neighbors; all are below ``size``."""
        self.size = size
        self.contexts = [Counts(context) for context in self._contexts(left, right)]
        self.with_word = [Counts(c * size + word) for c in self._contexts(left, right)]

    def _contexts(self, left: Ints, right: Ints) -> tuple[Ints, Ints, Ints]:
        return left, right, left * self.size + right

    def kinds(self, left: Ints, word: Ints, right: Ints) -> Ints:
        """Say what tells each word, (n,): an index into `KINDS`, or -1.

        "left": the left neighbor alone fixes it, and the right one leaves it open; "right" the
        other way round. "both needed": each neighbor leaves it open, together they fix it.
        "neither": it is open even so.
        """
        contexts = self._contexts(left, right)
        met = [counts.of(c) for counts, c in zip(self.contexts, contexts, strict=True)]
        with_word = zip(self.with_word, contexts, strict=True)
        times = [counts.of(c * self.size + word) for counts, c in with_word]
        by_left, by_right, by_both = (
            n / np.maximum(all_, 1) for n, all_ in zip(times, met, strict=True)
        )
        open_to_each = (by_left <= OPEN) & (by_right <= OPEN)
        rules = [
            (by_left >= FIXED) & (by_right <= OPEN),
            (by_right >= FIXED) & (by_left <= OPEN),
            open_to_each & (by_both >= FIXED) & (met[2] >= SEEN),
            open_to_each & (by_both <= OPEN),
        ]
        return np.select(rules, range(len(rules)), -1)


@dataclass(frozen=True)
class Blanks:
    """n words to hide, one at a time. A blank's ``place`` counts from 0, without `[CLS]`."""

    sentences: list[Sequence[int]]
    places: Ints
    documents: Ints  # numbers; blanks of one document are not independent
    kinds: list[str]

    def of(self, kind: str) -> "Blanks":
        """Return those of one kind."""
        some = [number for number, name in enumerate(self.kinds) if name == kind]
        sentences = [self.sentences[number] for number in some]
        return Blanks(sentences, self.places[some], self.documents[some], [kind] * len(some))


def neighbors_of(documents: Sequence[EncodedDocument]) -> tuple[Ints, Ints, Ints]:
    """Return left neighbors, words and right neighbors; an end of a sentence is one, too."""
    text = np.array([i for d in documents for s in d.sentences for i in (SEP_ID, *s, SEP_ID)])
    left, word, right = text[:-2], text[1:-1], text[2:]
    real = word != SEP_ID
    return left[real], word[real], right[real]


def find_blanks(
    documents: Sequence[EncodedDocument], neighbors: Neighbors, per_kind: int
) -> Blanks:
    """Draw blanks of each kind, and as many of any kind; `[UNK]` is never asked for."""
    kinds = neighbors.kinds(*neighbors_of(documents))
    where = [
        (sentence, place, number)
        for number, document in enumerate(documents)
        for sentence in document.sentences
        for place in range(len(sentence))
    ]
    asked = np.array(
        [len(s) <= LONGEST and s[place] >= len(SPECIAL_TOKENS) for s, place, _ in where]
    )
    rng = np.random.default_rng(0)
    chosen: list[tuple[Sequence[int], int, int]] = []
    names: list[str] = []
    for number, name in enumerate((*KINDS, ALL)):
        some = np.nonzero(asked & ((kinds == number) | (name == ALL)))[0]
        chosen += [where[i] for i in rng.permutation(some)[:per_kind]]
        names += [name] * (len(chosen) - len(names))
    sentences, places, numbers = zip(*chosen, strict=True)
    return Blanks(list(sentences), np.array(places), np.array(numbers), names)


def join(left: Tensor, right: Tensor, prior: Tensor) -> Tensor:
    """Multiply what two sides say of each word, divide by its share: log probabilities (n, V).

    ``left`` and ``right`` are scores (n, V), ``prior`` the words' log shares (V,).
    """
    return (left + right - prior).log_softmax(-1)


def hide(
    sentences: list[Sequence[int]], places: Ints
) -> Iterator[tuple[Ints, Tensor, Tensor, Tensor]]:
    """Hide the word at the place of each sentence, sentences of one length at a time.

    Yields the numbers of those sentences (n,), their ids with the blank (n, S), where it is, and
    the words that stood there (n,).
    """
    lengths = np.array([len(sentence) for sentence in sentences])
    for length in tqdm(np.unique(lengths), desc="blanks", leave=False):
        group = np.nonzero(lengths == length)[0]
        ids = torch.tensor([[CLS_ID, *sentences[i], SEP_ID] for i in group])
        blank = torch.zeros_like(ids, dtype=torch.bool)
        blank[range(len(group)), places[group] + 1] = True
        yield group, ids.masked_fill(blank, MASK_ID), blank, ids[blank]


@torch.inference_mode()
def answer_blanks(
    models: Sequence[BertForPreTraining], blanks: Blanks, prior: Tensor
) -> tuple[Floats, Floats]:
    """Return the loss in nats at each blank, (n,), and 1 where the first guess was right.

    One model answers for itself, two are joined.
    """
    loss, right = np.zeros(len(blanks.sentences)), np.zeros(len(blanks.sentences))
    device = next(models[0].parameters()).device
    for group, ids, blank, answers in hide(blanks.sentences, blanks.places):
        asked = {"ids": ids.to(device), "selected": blank.to(device)}
        said = [model(**asked)[0].cpu() for model in models]  # (n, V) each
        scores = said[0] if len(said) == 1 else join(said[0], said[1], prior)
        scores[:, : len(SPECIAL_TOKENS)] = -torch.inf
        log_chances = scores.log_softmax(-1)
        loss[group] = F.nll_loss(log_chances, answers, reduction="none").numpy()
        right[group] = (log_chances.argmax(-1) == answers).numpy()
    return loss, right


def load_runs(
    runs: Mapping[str, Sequence[str]],
) -> dict[str, list[list[BertForPreTraining]]]:
    """Load the pre-trained models: reader -> for each seed one model, or the two of a pair.

    Raises CheckpointError if a checkpoint is missing.
    """

    @cache
    def load(run: str) -> BertForPreTraining:
        return load_checkpoint(find_checkpoint(run)).to(default_device())

    return {
        reader: [[load(half) for half in run.split("+")] for run in some]
        for reader, some in runs.items()
    }


def answer_all(
    runs: Mapping[str, Sequence[Sequence[BertForPreTraining]]], blanks: Blanks, prior: Tensor
) -> Answers:
    """Ask every run, and every pair. The sum of two that learned together is an answer as it is."""
    return {
        reader: [answer_blanks(models, blanks, prior * (reader != TOGETHER)) for models in some]
        for reader, some in runs.items()
    }


def score_rows(asked: Answers, blanks: Blanks) -> list[Row]:
    """Return a row for each reader, run and kind of blank: mean loss and share right."""
    rows: list[Row] = []
    for reader, runs in asked.items():
        for seed, (loss, right) in enumerate(runs):
            for kind in (*KINDS, ALL):
                some = np.array(blanks.kinds) == kind
                row: Row = {"reader": reader, "seed": seed, "told_by": kind}
                row |= {"blanks": int(some.sum()), "documents": len(set(blanks.documents[some]))}
                row |= {"loss": round(float(loss[some].mean()), 4)}
                rows.append(row | {"accuracy": round(float(right[some].mean()), 4)})
    return rows


def difference_rows(asked: Answers, blanks: Blanks) -> list[Row]:
    """Return how many nats every reader pays less than every other, with intervals.

    The interval knows both kinds of luck, other documents and other runs of pre-training. Each run
    of a reader is compared with its others, too: an A/A test, which should say "undecided".
    """
    rows: list[Row] = []
    for kind in (*KINDS, ALL):
        some = np.array(blanks.kinds) == kind
        losses = {name: np.array([loss[some] for loss, _ in runs]) for name, runs in asked.items()}
        documents = blanks.documents[some]
        drawn = {n: BootstrapScores(drawn_means(runs, documents)) for n, runs in losses.items()}
        # this pair's runs are made of others: they tell nothing more of the luck of a run
        others = {name: of for name, of in drawn.items() if name != PAIR}
        spread = common_spread(others.values())
        for one, other in combinations(drawn, 2):
            row: Row = {"one": one, "other": other, "told_by": kind}
            less = drawn[other].minus(drawn[one], spread)
            rows.append(row | estimate_columns("less_loss", less))
        for name, of in drawn.items():
            known = [of for other, of in others.items() if other != name]
            for run in halves(len(of.runs)):
                row = {"one": f"{name}, run {run[0]}", "other": f"{name}, others", "told_by": kind}
                less = of.against_itself(run, known)
                rows.append(row | estimate_columns("less_loss", less))
    return rows


def longer_rows(
    short: Mapping[str, Floats], marks: Mapping[int, Mapping[str, Floats]], blanks: Blanks
) -> list[Row]:
    """Return what the left alone pays more than both sides, at every mark of a longer reading.

    ``short`` is reader -> loss in nats at each blank of its runs, (runs, n); ``marks`` is step ->
    the same, (n,), of one longer run of `BOTH` and one of `LEFT`. ``wider`` is how much more that
    gap is than that of the first short runs. The luck of a run is that of the short ones.
    """
    spread = run_spread(drawn_means(runs, blanks.documents) for runs in short.values())
    gap_of_short = short[LEFT][0] - short[BOTH][0]  # (n,)
    rows: list[Row] = []
    for step, long in marks.items():
        gap = long[LEFT] - long[BOTH]
        row: Row = {"step": step, "blanks": len(gap), "documents": len(set(blanks.documents))}
        row |= {"both_loss": round(float(long[BOTH].mean()), 4)}
        row |= {"left_loss": round(float(long[LEFT].mean()), 4)}
        for name, values, runs in (("gap", gap, 2), ("wider", gap - gap_of_short, 4)):
            found = estimate(drawn_means(values, blanks.documents), [1] * runs, spread)
            row |= estimate_columns(name, found)
        rows.append(row)
    return rows


def score_longer(blanks: Blanks, prior: Tensor) -> list[Row]:
    """Score both longer runs where their weights were kept, beside all the short ones.

    Raises CheckpointError if a checkpoint is missing.
    """

    def losses(*models: BertForPreTraining) -> Floats:
        return np.array([answer_blanks([model], blanks, prior)[0] for model in models])

    short = {
        reader: losses(*(model for (model,) in runs))
        for reader, runs in load_runs(SAME_QUESTION).items()
    }
    rows: list[Row] = []
    for step in MARKS:
        runs = {reader: f"{run}/steps/{step:06d}" for reader, run in LONG.items()}
        long = {r: losses(load_checkpoint(find_checkpoint(run)))[0] for r, run in runs.items()}
        read = pretrained_with(runs[BOTH])["pretraining_tokens"]
        rows += [{"tokens": read} | row for row in longer_rows(short, {step: long}, blanks)]
    return rows


def main(
    out: Annotated[Path, typer.Option(help="Folder of results.")] = Path("data/results"),
    per_kind: Annotated[int, typer.Option(help="Blanks of each kind.", min=1)] = PER_KIND,
    narrow: Annotated[bool, typer.Option("--narrow", help="Pairs as large as one.")] = False,
    longer: Annotated[bool, typer.Option("--longer", help="Four times the reading.")] = False,
) -> None:
    """Score all runs on the same held-out blanks; some minutes on one quiet core."""
    made = origin(default_device())  # before it runs: the code may be edited meanwhile
    size = len(load_vocabulary())
    splits = load_splits(say=lambda _: None)
    prior = UnigramModel(splits["train"], size).log_probabilities
    blanks = find_blanks(splits["test"], Neighbors(*neighbors_of(splits["train"]), size), per_kind)
    if longer:
        rows = score_longer(blanks.of(ALL), prior)
        write_csv(out / "longer_reading.csv", [row | made for row in rows])
        return
    name, runs = ("narrow_pairs", NARROW_RUNS) if narrow else ("same_question", RUNS)
    asked = answer_all(load_runs(runs), blanks, prior)
    write_csv(out / f"{name}.csv", [row | made for row in score_rows(asked, blanks)])
    differences = [row | made for row in difference_rows(asked, blanks)]
    write_csv(out / f"{name}_differences.csv", differences)


if __name__ == "__main__":
    typer.run(main)
