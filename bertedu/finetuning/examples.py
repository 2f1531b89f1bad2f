"""Four shapes of example, how rows become them, and the task that names and splits them.

The ``source`` of an example is where its text is from: an article, a film. Examples of one source
share words, so they are never split between training and test, and an interval that forgets it is
too short: `course.results.summary` draws whole sources.
"""

import hashlib
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal
from unicodedata import category, normalize

import numpy as np

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


def check_examples(task: Task, splits: Splits) -> None:
    """Refuse what cannot be trained on, before any time is spent.

    Raises TaskError if a split is missing or empty, an example is of another kind of task, a text
    is empty, a label unknown, a score NaN, an answer elsewhere, or words and tags do not match.
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
        classes = len(task.labels)
        if example.label not in range(classes) if classes else not np.isfinite(example.label):
            wanted = f"one of {classes} classes, from 0" if classes else "a finite score"
            raise TaskError(f"{where}: label {example.label} is not {wanted}")
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
            raise TaskError(f"{where}: {len(example.words)} words and {len(example.tags)} tags")
        if unknown := set(example.tags) - set(task.labels):
            raise TaskError(f"{where}: unknown tag {min(unknown)!r}")
    elif example.label not in range(len(example.endings)):
        raise TaskError(f"{where}: ending {example.label} is right, of {len(example.endings)}")


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


# -- rows, from a file or from the Hub, and a word on what was left out

KINDS: dict[str, tuple[KindName, str]] = {  # -> kind of a task, metric that selects on dev
    "class": ("classification", "accuracy"),
    "score": ("regression", "pearson"),
    "choice": ("choice", "accuracy"),
    "answer": ("span", "f1"),
    "tags": ("tagging", "f1"),
}
_SPLITS = {"train": "train", "training": "train", "test": "test"}
_SPLITS |= dict.fromkeys(("dev", "valid", "val", "validation"), "dev")
Numbered = Iterable[tuple[int, Mapping[str, Any]]]  # rows, each with the line it stands in


@dataclass(frozen=True)
class Columns:
    """Which columns of a table hold what, by the names in its first line."""

    text: str = "text"
    label: str = "label"
    text_b: str | None = None  # of pairs
    endings: tuple[str, ...] = ()  # of choices; the label is the number of the right one, from 0
    group: str | None = None  # rows of one group stay in one split
    split: str | None = None  # train, dev or test; none: it is drawn


@dataclass(frozen=True)
class Found:
    """An example, the line it stands in, its label as it is written, and its split if it has one.

    The source of the example is what keeps rows together: its group, or its text.
    """

    example: Any
    line: int
    label: str = ""
    split: str | None = None


def of_table(name: str, rows: Numbered, columns: Columns, notes: list[str]) -> Iterator[Found]:
    """Read the rows of a table; those with an empty cell are left out, and a note says so."""
    needed = [columns.text, *filter(None, [columns.text_b]), *columns.endings, columns.label]
    beside = [column for column in (columns.group, columns.split) if column]
    # one é, whether it is written as one character or as two
    keys = {column: normalize("NFC", column) for column in (*needed, *beside)}
    noticed: dict[str, list[int]] = defaultdict(list)  # what is said -> the lines of which
    for line, row in rows:
        if missing := [column for column, key in keys.items() if key not in row]:
            raise TaskError(
                f"{name} has no column {missing[0]!r}; it has "
                f"{', '.join(map(repr, row)) or 'none'} (--text and --label "
                "name yours). If its first line is a row already, write the columns' names above it"
            )
        cells = {c: normalize("NFC", " ".join(row[key].split())) for c, key in keys.items()}
        if blank := [column for column in needed if not cells[column]]:
            noticed[f"rows without {blank[0]!r}, left out"].append(line)
            continue
        if any(re.search(r"</?[a-zA-Z][^<>]*>", cells[column]) for column in needed[:-1]):
            noticed["rows with HTML tags, which are read as text"].append(line)
        if any(re.search(r"[\r\n]", row[keys[column]].strip()) for column in needed):
            noticed["rows of several lines, which quotes hold together"].append(line)
        yield _of_row(cells, columns, line, name)
    notes += [f"{what}: {count_at(lines)}" for what, lines in noticed.items()]


def _of_row(cells: Mapping[str, str], columns: Columns, line: int, name: str) -> Found:
    split = cells[columns.split].lower() if columns.split else None
    if split is not None and split not in _SPLITS:
        raise TaskError(f"{name}, line {line}: {columns.split!r} is {split!r}: train, dev or test?")
    text, second = cells[columns.text], cells[columns.text_b] if columns.text_b else None
    source = (columns.group and cells[columns.group]) or plain(f"{text} {second or ''}")
    endings = tuple(cells[column] for column in columns.endings)
    example = Choice(text, endings, 0, source) if endings else Example(text, second, 0, source)
    return Found(example, line, cells[columns.label], split and _SPLITS[split])


@cache
def _seen(character: str) -> str:
    """Return a blank for punctuation and for what nobody sees."""
    return " " if category(character)[0] in "PZC" else character


def plain(text: str) -> str:
    """Return what two texts share that differ by capitals, blanks and punctuation only."""
    return " ".join("".join(map(_seen, normalize("NFC", text).lower())).split()) or text


def count_at(lines: Sequence[int]) -> str:
    """Say in how many lines something stands, and which the first three are."""
    return f"{len(lines)} (line {', '.join(map(str, lines[:3]))}{', …' if len(lines) > 3 else ''})"


def of_questions(name: str, rows: Numbered, notes: list[str]) -> Iterator[Found]:
    """Read questions as the Hub has SQuAD, or as it was published; white space around them goes.

    An answer that stands elsewhere than it says is moved there, if it stands in one place only. A
    question of whose answers none has a place is left out: it would seem to have none. One that is
    called impossible has none, though one that is only plausible may stand there (KLUE).
    """
    moved, lost, names = list[int](), list[int](), set[str]()
    for line, row in rows:
        try:
            context, question = row["context"], row["question"]
            published = [] if row.get("is_impossible") is True else row["answers"]
            " ".join((context, question)).encode("utf-8")  # JSON can write half a character
            if isinstance(published, Mapping):
                published = [*zip(published["text"], published["answer_start"], strict=True)]
            else:
                published = [(answer["text"], answer["answer_start"]) for answer in published]
            answers = [*_placed(context, published)]
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise TaskError(
                f"{name}, line {line}: {error!r}. A question needs context, question and "
                "answers, each with text and answer_start; texts with labels want a table (.csv)"
            ) from None
        if any(was for _, _, was in answers):
            moved.append(line)
        if not context.strip() or not question.strip() or (published and not answers):
            lost.append(line)
            continue
        source = str(row.get("title") or plain(context)).strip()
        kept = tuple(dict.fromkeys((text, start) for text, start, _ in answers))
        named = str(row.get("id", line))
        named = f"{named} (line {line})" if named in names else named  # of files that were joined
        names.add(named)
        yield Found(Question(named, question.strip(), context.strip(), kept, source), line)
    if moved:
        notes.append(f"answers moved to where they stand: {count_at(moved)}")
    if lost:
        without = "questions without text or a place for their answer, left out"
        notes.append(f"{without}: {count_at(lost)}")


def _placed(context: str, published: Iterable[tuple[str, int]]) -> Iterator[tuple[str, int, bool]]:
    """Yield the answers that have a place in a context without white space, and if they moved."""
    shift, context = len(context) - len(context.lstrip()), context.strip()
    for raw, begin in published:
        text, start = raw.strip(), int(begin) - shift + len(raw) - len(raw.lstrip())
        there = start >= 0 and context.startswith(text, start)
        if text and (there or context.count(text) == 1):
            yield text, start if there else context.index(text), not there


def labeled(one: Found, kind: str, labels: tuple[str, ...], name: str) -> Found:
    """Give an example of a table its label as a number."""
    if kind in ("answer", "tags"):
        return one
    if kind == "class":
        return replace(one, example=replace(one.example, label=labels.index(one.label)))
    where = f"{name}, line {one.line}: the label is {one.label!r}, and"
    try:
        value = float(one.label.replace(",", "."))
    except ValueError:
        value = np.nan
    if not np.isfinite(value):
        raise TaskError(f"{where} a {kind} is a number")
    if kind == "choice":
        if value not in range(len(one.example.endings)):
            raise TaskError(f"{where} endings are numbered 0 to {len(one.example.endings) - 1}")
        value = int(value)
    return replace(one, example=replace(one.example, label=value))
