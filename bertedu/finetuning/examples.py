"""Four shapes of example, and the task that names them, splits them and scores them.

The ``source`` of an example is where its text is from: an article, a film. Examples of one source
share words, so they are never split between training and test, and an interval that forgets it is
too short: `course.results.summary` draws whole sources.
"""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from bertedu.files import table_beside

KindName = Literal["classification", "regression", "span", "tagging", "choice"]
SPLITS = ("train", "dev", "test")


class TaskError(ValueError):
    """Data that cannot be used; the message says which example, why, and what to do."""


@dataclass(frozen=True)
class Example:
    """One text or two, and a class (its number) or a value."""

    text: str
    pair: str | None
    label: float  # of a classification, a whole number
    source: str = ""

    @property
    def texts(self) -> tuple[str, ...]:
        """What a model reads of it, as `FineTuned.ask` takes it."""
        return (self.text,) if self.pair is None else (self.text, self.pair)


@dataclass(frozen=True)
class Question:
    """A question about a text, and where its answer stands; no answers if the text has none."""

    name: str
    question: str
    context: str
    answers: tuple[tuple[str, int], ...]  # (text, the character of context at which it starts)
    source: str = ""

    @property
    def texts(self) -> tuple[str, ...]:
        """The question, and the text that may hold its answer."""
        return self.question, self.context


@dataclass(frozen=True)
class Tagged:
    """Words, and a tag for each: O, or B- and I- with a type (Ramshaw and Marcus, 1995)."""

    words: tuple[str, ...]
    tags: tuple[str, ...]
    source: str = ""

    @property
    def texts(self) -> tuple[str, ...]:
        """The sentence."""
        return (" ".join(self.words),)


@dataclass(frozen=True)
class Choice:
    """A beginning, some endings, and the number of the right one."""

    text: str
    endings: tuple[str, ...]
    label: int
    source: str = ""

    @property
    def texts(self) -> tuple[str, ...]:
        """The beginning, and its endings."""
        return self.text, *self.endings


AnyExample = Example | Question | Tagged | Choice
SHAPES: dict[KindName, type[AnyExample]] = {
    "classification": Example,
    "regression": Example,
    "span": Question,
    "tagging": Tagged,
    "choice": Choice,
}
Examples = Sequence[Any]  # of one of these shapes
Splits = dict[str, Examples]


@dataclass(frozen=True)
class Task:
    """A name, what it stands in for, and where its examples come from."""

    name: str
    kind: KindName
    about: str
    labels: tuple[str, ...]  # classes or tags; empty for regression, span and choice
    metric: str  # the one that selects on dev: the higher, the better
    load: Callable[[], Splits]
    pairs: bool = False  # two texts are classified or rated together, not one


def read_table(module: str) -> dict[str, dict[str, Any]]:
    """Return the entries of `table_beside`, such as `tasks.toml`, by name; lists as tuples."""
    return {
        name: {key: tuple(x) if isinstance(x, list) else x for key, x in entry.items()}
        for name, entry in table_beside(module).items()
    }


def check_examples(task: Task, splits: Splits) -> None:
    """Refuse what cannot be trained on, before any time is spent.

    Raises TaskError if a split is missing or empty, an example has the shape of another kind of
    task, a text is empty, a label is unknown, an answer does not stand where it should, or words
    and tags do not match.
    """
    for split in SPLITS:
        if not splits.get(split):
            raise TaskError(f"task {task.name}: the {split} split is empty")
        for number, example in enumerate(splits[split]):
            _check(task, example, f"task {task.name}, {split} example {number}")


def _check(task: Task, example: AnyExample, where: str) -> None:
    shape = SHAPES[task.kind]
    if not isinstance(example, shape):
        raise TaskError(
            f"{where}: it is of type {type(example).__name__}, and a {task.kind} task needs "
            f"examples of type {shape.__name__}"
        )
    texts = example.words or ("",) if isinstance(example, Tagged) else example.texts
    if not all(isinstance(text, str) and text.strip() for text in texts):
        raise TaskError(f"{where}: a text is empty, or is not a text")
    if isinstance(example, Example):
        if task.pairs != (len(texts) == 2):
            wanted = "two texts" if task.pairs else "one text"
            raise TaskError(f"{where}: it has {len(texts)}, and this task is about {wanted}")
        if task.labels and example.label not in range(len(task.labels)):
            raise TaskError(
                f"{where}: label {example.label} is not one of {len(task.labels)} classes, which "
                "are numbered from 0"
            )
    elif isinstance(example, Question):
        for text, start in example.answers:
            there = example.context[start : start + len(text)]
            if there != text or not text:
                raise TaskError(
                    f"{where}: the answer {text!r} is not at character {start} of its "
                    f"context; found there: {there!r}"
                )
    elif isinstance(example, Tagged):
        if len(example.words) != len(example.tags):
            raise TaskError(
                f"{where}: {len(example.words)} words and {len(example.tags)} tags do not match"
            )
        if unknown := set(example.tags) - set(task.labels):
            raise TaskError(f"{where}: unknown tag {min(unknown)!r}")
    elif example.label not in range(len(example.endings)):
        raise TaskError(
            f"{where}: ending {example.label} is right, but there are {len(example.endings)}"
        )


def split_by(name: str) -> str:
    """Return train (80 %), dev or test (10 % each) by a hash: for texts nobody pre-trains on."""
    bucket = int.from_bytes(hashlib.sha256(name.encode("utf-8")).digest()[:8], "big") % 10
    return "train" if bucket < 8 else "dev" if bucket == 8 else "test"


def collect(pairs: Iterable[tuple[str, AnyExample]]) -> Splits:
    """(split, example) pairs -> examples by split, each split in an order that tells nothing."""
    splits: dict[str, Any] = {split: [] for split in SPLITS}
    for split, example in pairs:
        splits[split].append(example)
    for split, examples in splits.items():
        np.random.default_rng(len(split)).shuffle(examples)
    return splits
