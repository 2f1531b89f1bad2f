"""What one score does not tell: which piece should carry the tag, and what of new entities?

``python -m bertedu.finetuning.tagging_study`` fine-tunes bert-L4H128 on `entities` with the tag on
the first piece of a word, on the last, or on every piece; and, on all training examples, splits the
counts of entities by type and by whether training has met the entity. It writes a row for each run
to `data/results/tagging.csv`, and does not repeat what is there. Notebook 11 shows the results.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import torch
import typer
from filelock import FileLock
from tokenizers import Encoding, Tokenizer

from bertedu.finetuning.baselines import word_count_answers
from bertedu.finetuning.encoders import load_encoder
from bertedu.finetuning.examples import AnyExample, Splits, Tagged, Task, TaskError
from bertedu.finetuning.inputs import MAX_LENGTH, NO_TARGET, Item
from bertedu.finetuning.kinds import Answer, Outcomes
from bertedu.finetuning.loop import History, Recipe, TaskModel, finetune, score_items
from bertedu.finetuning.report import interval, resample
from bertedu.finetuning.run import Row, Setup, read_csv, write_csv
from bertedu.finetuning.tagging import Tagging, entities, first_pieces
from bertedu.finetuning.tasks import load_task
from bertedu.pretraining.loop import default_device, describe_machine
from bertedu.pretraining.run import current_commit

Pieces = Literal["first", "last", "all"]
PIECES: tuple[Pieces, ...] = ("first", "last", "all")
MODEL, FEW = "bert-L4H128", 1500
RECIPE = Recipe(1e-3, 16, 3)
KEY = ("model", "method", "train_examples", "pieces", "seed")
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

    def encode(
        self, examples: Sequence[AnyExample], tokenizer: Tokenizer, max_length: int
    ) -> list[Item]:
        """As `Tagging`, with the targets moved."""
        items = super().encode(examples, tokenizer, max_length)
        return [Item(item.example, item.rows, self._moved(item)) for item in items]

    def _moved(self, item: Item) -> list[int]:
        (row,) = item.rows
        first, last = first_pieces(row), last_pieces(row)
        target = [NO_TARGET] * len(row.ids)
        for word, place in first.items():
            begin = last[word] if self.pieces == "last" else place
            end = place if self.pieces == "first" else last[word]
            for at in range(begin, end + 1):
                target[at] = item.target[place]
        return target

    def answers(
        self, examples: Sequence[AnyExample], items: Sequence[Item], scores: Sequence[torch.Tensor]
    ) -> list[Answer]:
        """Ask the piece that was trained; of all of them, the first."""
        if self.pieces == "last":
            scores = [_first_from_last(item, s) for item, s in zip(items, scores, strict=True)]
        return super().answers(examples, items, scores)


def _first_from_last(item: Item, score: torch.Tensor) -> torch.Tensor:
    """Give the first piece of each word the scores of its last one."""
    moved, last = score.clone(), last_pieces(item.rows[0])
    for word, place in first_pieces(item.rows[0]).items():
        moved[place] = score[last[word]]
    return moved


# -- entities by group


def entity_words(example: Tagged, tags: Sequence[str]) -> dict[tuple[str, int, int], str]:
    """Return each entity of ``tags`` with its words, in lower case as the model reads them."""
    return {
        span: " ".join(example.words[span[1] : span[2]]).lower() for span in sorted(entities(tags))
    }


def known_entities(examples: Sequence[AnyExample]) -> set[str]:
    """Return the words of all entities that some examples mark."""
    return {
        words
        for e in examples
        if isinstance(e, Tagged)
        for words in entity_words(e, e.tags).values()
    }


def count_by_group(
    task: Task, examples: Sequence[AnyExample], answers: Sequence[Answer], known: set[str]
) -> Groups:
    """Count entities for each sentence (right, found, there), by type and by whether training met
    their words. The groups add up to `Tagging.outcomes`."""
    types = dict.fromkeys(tag[2:] for tag in task.labels[1:])
    counts: Groups = {
        f"{met} {kind}": np.zeros((len(examples), 3)) for met in MET for kind in types
    }
    for row, (example, answer) in enumerate(zip(examples, answers, strict=True)):
        assert isinstance(example, Tagged)
        there, found = (entity_words(example, tags) for tags in (example.tags, answer.value))
        for span, words in {**there, **found}.items():
            group = counts[f"{MET[words not in known]} {span[0]}"]
            group[row] += (span in there and span in found, span in found, span in there)
    return counts


def look_up(train: Sequence[AnyExample], examples: Sequence[AnyExample]) -> list[Answer]:
    """Mark what training has marked, word for word, the longest first: no model at all."""
    kinds = {
        e.words[start:end]: kind
        for e in train
        if isinstance(e, Tagged)
        for kind, start, end in entities(e.tags)
    }
    longest = max(map(len, kinds), default=0)
    found = []
    for example in examples:
        assert isinstance(example, Tagged)
        words, i = example.words, 0
        tags = ["O"] * len(words)
        while i < len(words):
            size = next((n for n in range(longest, 0, -1) if words[i : i + n] in kinds), 0)
            if size:
                size = min(size, len(words) - i)
                kind = kinds[words[i : i + size]]
                tags[i : i + size] = [f"B-{kind}", *[f"I-{kind}"] * (size - 1)]
            i += max(size, 1)
        found.append(Answer(tuple(tags)))
    return found


def lower_case(splits: Splits) -> Splits:
    """Return the same tagged examples without a capital letter."""
    return {
        split: [
            replace(e, words=tuple(word.lower() for word in e.words))
            for e in some
            if isinstance(e, Tagged)
        ]
        for split, some in splits.items()
    }


# -- the runs


def _done(path: Path, key: Row) -> bool:
    return any(all(row[n] == str(v) for n, v in key.items()) for row in read_csv(path))


def _write(path: Path, splits: Splits, row: Row, counts: Groups) -> None:
    sources = sorted({e.source for e in splits["test"]})
    first: Row = {"model": "(source)"}
    first |= dict.fromkeys(counts, " ".join(str(sources.index(e.source)) for e in splits["test"]))
    machine = describe_machine(default_device())
    row |= {"device": f"{machine['device']} {machine['hardware']}", "threads": machine["threads"]}
    row["commit"] = current_commit()
    row |= {
        name: " ".join("/".join(f"{value:.0f}" for value in line) for line in table)
        for name, table in counts.items()
    }
    blank = dict.fromkeys(row, "") | first
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(path.parent / ".finetuning.lock"):
        others = [r for r in read_csv(path) if r["model"] != "(source)"]
        kept = [r for r in others if _key(r) != _key(row)]
        write_csv(path, [blank, *sorted([*kept, row], key=_key)])


def _key(row: Row) -> tuple[str, ...]:
    return tuple(str(row[name]) for name in KEY)


def run_study(
    task: Task,
    splits: Splits,
    path: Path,
    setups: Sequence[tuple[Setup, Pieces]],
    seeds: Sequence[int],
    recipe: Recipe = RECIPE,
    progress: bool = True,
) -> None:
    """Run the baselines and every setup with every seed; write down what is not there yet."""
    test = splits["test"]
    baselines: dict[str, Callable[[], Sequence[Answer]]] = {
        "look-up": lambda: look_up(splits["train"], test),
        "word counts": lambda: word_count_answers(task, splits)["test"],
        "word counts, no capitals": lambda: word_count_answers(task, lower_case(splits))["test"],
    }
    for name, answer in baselines.items():
        key: Row = {**dict.fromkeys(KEY, ""), "model": name, "method": "baseline"}
        key["train_examples"] = "all"
        if not _done(path, key):
            counts = count_by_group(task, test, answer(), known_entities(splits["train"]))
            _write(path, splits, key | _recipe_columns(None) | _scores(counts), counts)
    for setup, pieces in setups:
        for seed in seeds:
            key = {"model": setup.model, "method": setup.method, "pieces": pieces, "seed": seed}
            key = {"train_examples": setup.train_examples or "all"} | key
            if not _done(path, key):
                one = replace(recipe, seed=seed)
                history, counts = _run(task, splits, setup, pieces, one, progress)
                row: Row = (
                    {name: key[name] for name in KEY} | _recipe_columns(one) | _scores(counts)
                )
                row |= {"dev": round(max(history.dev), 5), "seconds": round(history.seconds, 1)}
                _write(path, splits, row, counts)


def _run(
    task: Task, splits: Splits, setup: Setup, pieces: Pieces, recipe: Recipe, progress: bool
) -> tuple[History, Groups]:
    """Fine-tune once, as `run_once` does, with another encoding; count the test entities."""
    splits = {**splits, "train": splits["train"][: setup.train_examples]}
    encoder, tokenizer = load_encoder(setup.model, recipe.dropout, setup.untrained, recipe.seed)
    kind = TaggingBy(task.labels, pieces)
    torch.manual_seed(recipe.seed)  # of the new layer
    model = TaskModel(encoder, kind, recipe.dropout, setup.method == "frozen")
    items = {split: kind.encode(some, tokenizer, MAX_LENGTH) for split, some in splits.items()}
    history = finetune(
        model, items["train"], splits["dev"], items["dev"], "f1", recipe, progress=progress
    )
    answers = kind.answers(splits["test"], items["test"], score_items(model, items["test"]))
    return history, count_by_group(task, splits["test"], answers, known_entities(splits["train"]))


def _recipe_columns(recipe: Recipe | None) -> Row:
    names = ("learning_rate", "batch_size", "epochs")
    return {name: "" if recipe is None else f"{getattr(recipe, name):g}" for name in names}


def _scores(counts: Groups) -> Row:
    f1 = _f1(sum(counts.values(), np.zeros(3)).sum(axis=0))
    return {"dev": "", "test": round(f1, 5), "seconds": ""}


Counts = np.ndarray[Any, np.dtype[np.float64]]  # right, found, there


def _f1(counts: Counts) -> float:
    right, found, there = (float(n) for n in counts)
    return 2 * right / (found + there) if found + there else 0.0


def _recall(counts: Counts) -> float:
    right, _, there = (float(n) for n in counts)
    return right / there if there else 0.0


MEASURES = {"f1": _f1, "recall": _recall}


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

    Raises
    ------
    TaskError
        The record has no such run, or no such part.

    """
    rows = read_csv(path)
    wanted = (model, method, train_examples, pieces if method != "baseline" else "")
    mine = [row for row in rows if tuple(row[name] for name in KEY[:4]) == wanted]
    groups = [name for name in (rows or [{}])[0] if name.split()[0] in MET]
    groups = [name for name in groups if not part or part in name.split()]
    if not mine or not groups:
        raise TaskError(
            f"{path} has no {part or 'such'} result of {' '.join(wanted)}: run `python -m "
            "bertedu.finetuning.tagging_study`"
        )
    sources = np.array([int(word) for word in rows[0][groups[0]].split()])
    runs = [np.sum([_unpacked(row[name]) for name in groups], axis=0) for row in mine]
    score = MEASURES[measure]
    draws = [
        np.mean([score(runs[i][examples].sum(axis=0)) for i in chosen])
        for examples, chosen in resample(sources, len(runs))
    ]
    return Estimate(float(np.mean([score(run.sum(axis=0)) for run in runs])), np.array(draws))


def _unpacked(text: str) -> Outcomes:
    return np.array([[float(n) for n in word.split("/")] for word in text.split()])


SETUPS: tuple[tuple[Setup, Pieces], ...] = (
    (Setup(MODEL), "first"),
    *((Setup(MODEL, train_examples=FEW), pieces) for pieces in PIECES),
    (Setup(MODEL, "untrained"), "first"),
)


def main(
    out: Annotated[Path, typer.Option(help="CSV file to add to.")] = Path(
        "data/results/tagging.csv"
    ),
    seeds: Annotated[int, typer.Option(help="How many runs of each.", min=1)] = 3,
    only: Annotated[int | None, typer.Option(help="Only this one of the five setups.")] = None,
    threads: Annotated[int, typer.Option(help="CPU threads.", min=1)] = 1,
) -> None:
    """Run the study; some 15 minutes on one quiet core."""
    torch.set_num_threads(threads)
    task, splits = load_task("entities")
    setups = SETUPS if only is None else SETUPS[only : only + 1]
    run_study(task, splits, out, setups, range(seeds))


if __name__ == "__main__":
    typer.run(main)
