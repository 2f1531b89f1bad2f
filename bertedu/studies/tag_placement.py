"""What one score does not tell: which piece should carry the tag, and what of new entities?

``python -m bertedu.studies.tag_placement`` fine-tunes bert-L4H128 on `entities` with the tag on
the first piece of a word, on the last, or on every piece; and, on all training examples, splits the
counts of entities by type and by whether training has met the entity. It writes a row for each run
to `data/results/tagging.csv`, and does not repeat what is there. Notebook 11 shows the results.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import torch
import typer
from filelock import FileLock
from tokenizers import Encoding, Tokenizer

from bertedu.finetuning.baselines import word_count_answers
from bertedu.finetuning.collation import MAX_LENGTH, NO_TARGET, Item
from bertedu.finetuning.encoders import load_encoder
from bertedu.finetuning.examples import Examples, Splits, Tagged, Task, TaskError
from bertedu.finetuning.finetune import Setup
from bertedu.finetuning.kinds import Answer, Items, ItemScores, Outcomes
from bertedu.finetuning.record import pack, unpack
from bertedu.finetuning.tagging import Tagging, entities, first_pieces, known_spans
from bertedu.finetuning.tasks import load_task
from bertedu.finetuning.training import History, Hyperparameters, TaskModel, finetune, score_items
from bertedu.model.device import default_device
from bertedu.results.bootstrap import interval, resample
from bertedu.results.files import Row, read_csv, write_csv
from bertedu.results.origin import origin

Pieces = Literal["first", "last", "all"]
PIECES: tuple[Pieces, ...] = ("first", "last", "all")
RECORD = Path("data/results/tagging.csv")
MODEL, FEW = "bert-L4H128", 1500
RECIPE = Hyperparameters(1e-3, 16, 3)
KEY = ("model", "method", "train_examples", "pieces", "seed")
COLUMNS = ("learning_rate", "batch_size", "epochs", "dev", "test", "seconds")
MET = ("seen", "unseen")  # in training, or not
Groups = dict[str, Outcomes]  # "seen PLACE" -> right, found, there of each sentence


# -- which piece carries the tag


def last_pieces(encoding: Encoding) -> dict[int, int]:
    """Return word number -> place of its last word piece."""
    return {word: place for place, word in enumerate(encoding.word_ids) if word is not None}


@dataclass
class TaggingBy(Tagging):
    """Tagging whose tag stands at another piece than the first.

    With "all", every piece of a word is trained on the word's tag; the first one answers.
    """

    pieces: Pieces = "first"

    def encode(self, examples: Examples, tokenizer: Tokenizer, max_length: int) -> list[Item]:
        """As `Tagging`, with the targets moved."""
        items = super().encode(examples, tokenizer, max_length)
        return [Item(item.example, item.rows, self._target(item)) for item in items]

    def _target(self, item: Item) -> list[int]:
        (row,) = item.rows
        first, last = first_pieces(row), last_pieces(row)
        trained = {"first": first.values(), "last": last.values(), "all": range(len(row.ids))}
        return [
            NO_TARGET
            if word is None or place not in trained[self.pieces]
            else item.target[first[word]]
            for place, word in enumerate(row.word_ids)
        ]

    def answers(self, examples: Examples, items: Items, scores: ItemScores) -> list[Answer]:
        """Ask the piece that was trained; of all of them, the first."""
        if self.pieces == "last":
            scores = [_first_from_last(item, s) for item, s in zip(items, scores, strict=True)]
        return super().answers(examples, items, scores)


def _first_from_last(item: Item, score: torch.Tensor) -> torch.Tensor:
    """Give the first piece of each word the scores of its last one."""
    (row,), moved = item.rows, score.clone()
    moved[list(first_pieces(row).values())] = score[list(last_pieces(row).values())]
    return moved


# -- entities by group


def entity_words(example: Tagged, tags: Sequence[str]) -> dict[tuple[str, int, int], str]:
    """Return each entity of ``tags`` with its words, in lower case as the model reads them."""
    return {
        span: " ".join(example.words[span[1] : span[2]]).lower() for span in sorted(entities(tags))
    }


def known_entities(examples: Sequence[Tagged]) -> set[str]:
    """Return the words of all entities that some examples mark."""
    return {words for e in examples for words in entity_words(e, e.tags).values()}


def count_by_group(
    task: Task, examples: Sequence[Tagged], answers: Sequence[Answer], known: set[str]
) -> Groups:
    """Count entities for each sentence (right, found, there), by type and by whether training met
    their words. The groups add up to `Tagging.outcomes`."""
    types = dict.fromkeys(tag[2:] for tag in task.labels[1:])
    counts: Groups = {
        f"{met} {kind}": np.zeros((len(examples), 3)) for met in MET for kind in types
    }
    for row, (example, answer) in enumerate(zip(examples, answers, strict=True)):
        there, found = (entity_words(example, tags) for tags in (example.tags, answer.value))
        for span, words in {**there, **found}.items():
            group = counts[f"{MET[words not in known]} {span[0]}"]
            group[row] += (span in there and span in found, span in found, span in there)
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


def _key(row: Row) -> tuple[str, ...]:
    return tuple(str(row[name]) for name in KEY)


def _done(path: Path, row: Row) -> bool:
    return _key(row) in map(_key, read_csv(path))


def _score(outcomes: Outcomes, measure: str) -> float:
    return Tagging(()).metrics(outcomes)[measure]


def _write(path: Path, splits: Splits, row: Row, counts: Groups) -> None:
    f1 = _score(np.sum(list(counts.values()), axis=0), "f1")
    row = dict.fromkeys((*KEY, *COLUMNS), "") | row | {"test": round(f1, 5)}
    row |= origin(default_device()) | {"threads": torch.get_num_threads()}
    row |= {name: pack(table) for name, table in counts.items()}
    sources = sorted({e.source for e in splits["test"]})
    numbers = " ".join(str(sources.index(e.source)) for e in splits["test"])
    first = dict.fromkeys(row, "") | {"model": "(source)"} | dict.fromkeys(counts, numbers)
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(path.parent / ".finetuning.lock"):
        others = [other for other in read_csv(path)[1:] if _key(other) != _key(row)]
        write_csv(path, [first, *sorted([*others, row], key=_key)])


def run_study(
    task: Task,
    splits: Splits,
    path: Path,
    setups: Sequence[tuple[Setup, Pieces]],
    seeds: Sequence[int],
) -> None:
    """Run the baselines and every setup with every seed; write down what is not there yet."""
    train, test = splits["train"], splits["test"]
    baselines: dict[str, Callable[[], Sequence[Answer]]] = {
        "look-up": lambda: look_up(train, test),
        "word counts": lambda: word_count_answers(task, splits)["test"],
        "word counts, no capitals": lambda: word_count_answers(task, lower_case(splits))["test"],
    }
    for name, answer in baselines.items():
        row: Row = dict.fromkeys(KEY, "") | {"model": name, "method": "baseline"}
        row["train_examples"] = "all"
        if not _done(path, row):
            counts = count_by_group(task, test, answer(), known_entities(train))
            _write(path, splits, row, counts)
    for (setup, pieces), seed in product(setups, seeds):
        row = {"model": setup.model, "method": setup.method, "pieces": pieces, "seed": seed}
        row["train_examples"] = setup.train_examples or "all"
        if not _done(path, row):
            recipe = replace(RECIPE, seed=seed)
            history, counts = _run(task, splits, setup, pieces, recipe)
            row |= {"learning_rate": f"{recipe.learning_rate:g}", "batch_size": recipe.batch_size}
            row |= {"epochs": recipe.epochs, "dev": round(max(history.dev), 5)}
            row |= {"seconds": round(history.seconds, 1)}
            _write(path, splits, row, counts)


def _run(
    task: Task, splits: Splits, setup: Setup, pieces: Pieces, recipe: Hyperparameters
) -> tuple[History, Groups]:
    """Fine-tune once, as `run_once` does, with another encoding; count the test entities."""
    splits = {**splits, "train": splits["train"][: setup.train_examples]}
    encoder, tokenizer = load_encoder(setup.model, recipe.dropout, setup.untrained, recipe.seed)
    kind = TaggingBy(task.labels, pieces)
    torch.manual_seed(recipe.seed)  # of the new layer
    model = TaskModel(encoder, kind, recipe.dropout, setup.method == "frozen")
    items = {split: kind.encode(some, tokenizer, MAX_LENGTH) for split, some in splits.items()}
    history = finetune(model, items["train"], splits["dev"], items["dev"], "f1", recipe)
    answers = kind.answers(splits["test"], items["test"], score_items(model, items["test"]))
    return history, count_by_group(task, splits["test"], answers, known_entities(splits["train"]))


# -- what the record says


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds; ``draws`` are its values on other test texts and other seeds."""

    mean: float
    draws: np.ndarray[tuple[int], np.dtype[np.float64]]

    @property
    def interval(self) -> tuple[float, float]:
        """The middle 95 % of the draws."""
        return interval(self.draws.tolist())

    def __sub__(self, other: "Estimate") -> "Estimate":
        """Subtract on the same draws of texts."""
        return Estimate(self.mean - other.mean, self.draws - other.draws)


def estimate(
    path: Path,
    model: str,
    method: str,
    part: str = "",
    measure: str = "f1",
    train_examples: str = "all",
    pieces: str = "first",
) -> Estimate:
    """Score a system on all entities, or on a ``part``: seen, unseen, or a type.

    Raises TaskError if the record has no such run, or no such part.
    """
    rows = read_csv(path)
    wanted = (model, method, train_examples, pieces if method != "baseline" else "")
    chosen = [row for row in rows if _key(row)[:4] == wanted]
    groups = [name for name in (rows or [{}])[0] if name.split()[0] in MET]
    groups = [name for name in groups if not part or part in name.split()]
    if not chosen or not groups:
        raise TaskError(
            f"{path} has no {part or 'such'} result of {' '.join(wanted)}: run `python -m "
            "bertedu.studies.tag_placement`"
        )
    sources = np.array([int(word) for word in rows[0][groups[0]].split()])
    runs = [np.sum([unpack(row[name]) for name in groups], axis=0) for row in chosen]
    draws = [
        np.mean([_score(runs[i][examples], measure) for i in numbers])
        for examples, numbers in resample(sources, len(runs))
    ]
    return Estimate(float(np.mean([_score(run, measure) for run in runs])), np.array(draws))


SETUPS: tuple[tuple[Setup, Pieces], ...] = (
    (Setup(MODEL), "first"),
    *((Setup(MODEL, train_examples=FEW), pieces) for pieces in PIECES),
    (Setup(MODEL, "untrained"), "first"),
)


def main(
    out: Annotated[Path, typer.Option(help="CSV file to add to.")] = RECORD,
    seeds: Annotated[int, typer.Option(help="How many runs of each.", min=1)] = 3,
) -> None:
    """Run the study; some 15 minutes on one quiet core."""
    torch.set_num_threads(1)
    run_study(*load_task("entities"), out, SETUPS, range(seeds))


if __name__ == "__main__":
    typer.run(main)
