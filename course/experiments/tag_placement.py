"""What one score does not tell: which piece should carry the tag, and what of new entities?

``python -m course.experiments.tag_placement`` fine-tunes bert-L4H128 on `entities` with the tag on
the first piece of a word, on the last, or on every piece; and, on all training examples, splits the
counts of entities by type and by whether training has met the entity. It writes a row for each run
to `data/results/tagging.csv`, and does not repeat what is there. Notebook 11 shows the results.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Literal

import numpy as np
from tokenizers import Encoding, Tokenizer

from bertedu.files import Row, read_csv
from bertedu.finetuning.examples import Examples, Splits, Tagged, Task, TaskError
from bertedu.finetuning.finetune import Setup, run_once
from bertedu.finetuning.kinds import NO_TARGET, Answer, Item, Items, ItemScores, Outcomes
from bertedu.finetuning.own_model import UNTIL_DEV_STOPS
from bertedu.finetuning.tagging import Tagging, entities, first_pieces, known_spans
from course.experiments.tasks import load_task
from course.results.bootstrap import BootstrapScores, draw_texts
from course.results.record import pack, unpack
from course.results.study import Run, grid, study

Pieces = Literal["first", "last", "all"]
PIECES: tuple[Pieces, ...] = ("first", "last", "all")
MODEL, FEW = "bert-L4H128", 1500
SETUPS: tuple[tuple[Setup, Pieces], ...] = (
    (Setup(MODEL), "first"),
    *((Setup(MODEL, train_examples=FEW), pieces) for pieces in PIECES),
    (Setup(MODEL, "untrained"), "first"),
)
RECIPE = replace(UNTIL_DEV_STOPS, learning_rate=1e-3, batch_size=16)
KEY = ("model", "method", "train_examples", "pieces")
MET = ("seen", "unseen")  # in training, or not
Groups = dict[str, Outcomes]  # "seen PLACE" -> right, found, there of each sentence


# -- which piece carries the tag


def last_pieces(encoding: Encoding) -> dict[int, int]:
    """Return word number -> position of its last word piece."""
    return {word: position for position, word in enumerate(encoding.word_ids) if word is not None}


@dataclass
class TaggingBy(Tagging):
    """Tagging whose tag stands at another piece than the first.

    With "all", every piece of a word is trained on the word's tag; the first one answers.
    """

    pieces: Pieces = "first"

    def encode(self, examples: Examples, tokenizer: Tokenizer, max_length: int) -> list[Item]:
        """As `Tagging`, with the targets moved."""
        items = super().encode(examples, tokenizer, max_length)
        return [replace(item, target=self._target(item)) for item in items]

    def _target(self, item: Item) -> list[int]:
        (row,) = item.rows
        first, last = first_pieces(row), last_pieces(row)
        trained = {"first": first.values(), "last": last.values(), "all": range(len(row.ids))}
        return [
            NO_TARGET
            if word is None or position not in trained[self.pieces]
            else item.target[first[word]]
            for position, word in enumerate(row.word_ids)
        ]

    def answers(self, examples: Examples, items: Items, scores: ItemScores) -> list[Answer]:
        """Ask the piece that was trained; of all of them, the first."""
        if self.pieces == "last":  # the first piece of each word gets the scores of its last one
            scores = [score.clone() for score in scores]
            for (row,), score in zip((item.rows for item in items), scores, strict=True):
                score[list(first_pieces(row).values())] = score[list(last_pieces(row).values())]
        return super().answers(examples, items, scores)


# -- entities by group


def words_of(example: Tagged, start: int, end: int) -> str:
    """Return some words of a sentence, in lower case as the model reads them."""
    return " ".join(example.words[start:end]).lower()


def count_by_group(splits: Splits, types: Iterable[str], answers: Sequence[Answer]) -> Groups:
    """Count entities for each test sentence (right, found, there), by type and by whether training
    met their words. The groups add up to `Tagging.outcomes`."""
    known = {words_of(e, *span) for e in splits["train"] for _, *span in entities(e.tags)}
    counts: Groups = {
        f"{met} {kind}": np.zeros((len(splits["test"]), 3)) for met in MET for kind in types
    }
    for row, (example, answer) in enumerate(zip(splits["test"], answers, strict=True)):
        there, found = entities(example.tags), entities(answer.value)
        for entity in there | found:
            kind, *span = entity
            group = counts[f"{MET[words_of(example, *span) not in known]} {kind}"]
            group[row] += (entity in there & found, entity in found, entity in there)
    return counts


def look_up(train: Sequence[Tagged], examples: Sequence[Tagged]) -> list[Answer]:
    """Mark what training has marked, word for word, the longest first: no model at all."""
    kinds = {e.words[start:end]: kind for e in train for kind, start, end in entities(e.tags)}
    longest = max(map(len, kinds), default=0)
    answers = []
    for words in (example.words for example in examples):
        tags = ["O"] * len(words)
        for start, end in known_spans(words, kinds, longest):
            kind = kinds[words[start:end]]
            tags[start:end] = [f"B-{kind}", *[f"I-{kind}"] * (end - start - 1)]
        answers.append(Answer(tuple(tags)))
    return answers


def lower_case(splits: Splits) -> Splits:
    """Return the same tagged examples without a capital letter."""
    return {
        split: [replace(e, words=tuple(word.lower() for word in e.words)) for e in examples]
        for split, examples in splits.items()
    }


# -- the runs


def _score(outcomes: Outcomes, measure: str) -> float:
    return Tagging(()).metrics(outcomes)[measure]


@cache
def entity_task() -> tuple[Task, Splits, list[str]]:
    """Return the task, its examples, and the types of its entities."""
    task, splits = load_task("entities")
    return task, splits, list(dict.fromkeys(tag[2:] for tag in task.labels[1:]))


def counted(answers: Sequence[Answer]) -> Row:
    """Return the score of answers to the test, and their counts by group."""
    _, splits, types = entity_task()
    counts = count_by_group(splits, types, answers)
    f1 = _score(np.sum(list(counts.values()), axis=0), "f1")
    return {"test": round(f1, 5)} | {name: pack(table) for name, table in counts.items()}


def ask_baseline(model: str, **_: str) -> list[Row]:
    """Answer the test without a network; "(source)" says which article each sentence is from."""
    from bertedu.finetuning.evaluation.baselines import word_count_answers

    task, splits, types = entity_task()
    if model == "(source)":
        known = sorted({e.source for e in splits["test"]})
        numbers = " ".join(str(known.index(e.source)) for e in splits["test"])
        return [{f"{met} {kind}": numbers for met, kind in product(MET, types)}]
    if model == "look-up":
        return [counted(look_up(splits["train"], splits["test"]))]
    some = lower_case(splits) if "no capitals" in model else splits
    return [counted(word_count_answers(task, some)["test"])]


def tune(setup: Setup, pieces: Pieces, seed: int) -> list[Row]:
    """Fine-tune with the tag on these pieces, and score the test."""
    task, splits, _ = entity_task()
    some = splits | {"train": splits["train"][: setup.train_examples]}
    recipe, kind = replace(RECIPE, seed=seed), TaggingBy(task.labels, pieces)
    run = run_once(task, some, setup, recipe, ["test"], kind=kind)
    row: Row = {"learning_rate": f"{recipe.learning_rate:g}", "batch_size": recipe.batch_size}
    row |= {"epochs": recipe.epochs, "dev": round(max(run.history.dev), 5)}
    row |= {"best_epoch": run.history.best_epoch, "seconds": round(run.history.seconds, 1)}
    return [row | counted(run.answers["test"])]


def plan(setups: Sequence[tuple[Setup, Pieces]], seeds: Sequence[int]) -> list[Run]:
    """Return the baselines, and every setup with every seed."""
    runs = grid(ask_baseline, model=["(source)"])
    names = ("look-up", "word counts", "word counts, no capitals")
    runs += grid(ask_baseline, model=names, method=["baseline"], train_examples=["all"])
    for (setup, pieces), seed in product(setups, seeds):
        row: Row = {"model": setup.model, "method": setup.method}
        row |= {"train_examples": setup.train_examples or "all", "pieces": pieces, "seed": seed}
        runs.append((row, partial(tune, setup, pieces, seed)))
    return runs


# -- what the record says


def estimate(
    path: Path,
    model: str,
    method: str,
    part: str = "",
    measure: str = "f1",
    train_examples: str = "all",
    pieces: str = "first",
) -> BootstrapScores:
    """Score a system on all entities, or on a ``part``: seen, unseen, or a type.

    Raises TaskError if the record has no such run, or no such part.
    """
    rows = read_csv(path)
    wanted = (model, method, train_examples, pieces if method != "baseline" else "")
    chosen = [row for row in rows if tuple(row.get(name, "") for name in KEY) == wanted]
    groups = [name for name in (rows or [{}])[0] if name.split()[0] in MET]
    groups = [name for name in groups if not part or part in name.split()]
    if not chosen or not groups:
        raise TaskError(
            f"{path} has no {part or 'such'} result of {' '.join(wanted)}: run `python -m "
            "course.experiments.tag_placement`"
        )
    sources = np.array([int(word) for word in rows[0][groups[0]].split()])
    runs = [np.sum([unpack(row[name]) for name in groups], axis=0) for row in chosen]
    texts = [np.arange(len(sources)), *draw_texts(sources)]
    scores = np.array([[_score(run[some], measure) for some in texts] for run in runs])
    return BootstrapScores(scores, method != "baseline")


if __name__ == "__main__":
    study(tagging=plan(SETUPS, range(3)))
