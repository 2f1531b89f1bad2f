"""Data of your own: a table, SQuAD's JSON or CoNLL's columns -> a task and its three splits.

Nothing is guessed in silence: `OwnData.notes` says which kind of task was read, how it was split,
what was left out and what looks wrong. What cannot be used is refused, with the line it stands in.
"""

import csv
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any
from unicodedata import normalize

import numpy as np

from bertedu.finetuning.evaluation.benchmarks import BENCHMARKS, benchmark
from bertedu.finetuning.examples import (
    KINDS,
    SPLITS,
    Choice,
    Columns,
    Found,
    Splits,
    Tagged,
    Task,
    TaskError,
    count_at,
    labeled,
    of_questions,
    of_table,
    plain,
)
from bertedu.finetuning.tagging import iob2

__all__ = ["Columns", "OwnData", "read_data", "read_table"]
MAX_ROWS = 1_000_000  # held in memory at once
FEW = 1000  # of fewer rows, a tenth would decide nothing: dev and test get a fifth each
_AS_IOB = {"S": "B", "U": "B", "E": "I", "L": "I"}  # of BIOES and BILOU


@dataclass
class OwnData:
    """A task, its splits, and what was noticed on the way."""

    task: Task
    splits: Splits
    notes: list[str] = field(default_factory=list)


def read_data(
    path: str | Path,
    columns: Columns | None = None,
    kind: str | None = None,
    encoding: str = "utf-8",
    rows: int | None = None,
    seed: int = 0,
) -> OwnData:
    """Read a file, say what it is, and split it.

    ``path`` may be a benchmark of the paper, such as glue/sst2. A name that ends in .json or .jsonl
    holds questions in SQuAD's shape; .conll, or any file of ``kind`` "tags", a word and its tag in
    a line, with an empty line between sentences. All else is a table whose first line names its
    columns, between commas, semicolons or tabs. ``rows``: read the first so many only. ``seed``
    draws the split, where the file has none.

    Raises TaskError, with the line and what to do, if it cannot be read so.
    """
    if str(path) in BENCHMARKS:
        if kind or rows or columns not in (None, Columns()):
            raise TaskError(f"{path} is read as published: leave --rows, --kind and columns away")
        task = benchmark(str(path))
        return OwnData(task, task.load(), [f"{path}: {task.about}"])
    path, columns = Path(path), columns or Columns()
    if columns.endings and columns.text_b:
        raise TaskError("a choice has endings, and no second text: leave --text-b away")
    if (kind == "choice" or columns.endings) and len(columns.endings) < 2:
        raise TaskError("a choice needs two endings or more: --ending COLUMN, once for each")
    notes: list[str] = []
    kind, found = _read(path, columns, kind, encoding, rows, notes)
    kind = kind or _guess(found, columns.label, notes)
    labels = _labels(found, kind)
    found = [labeled(one, kind, labels, path.name) for one in found]
    splits = _split(found, kind, seed, notes)
    name, metric = KINDS[kind]
    task = Task(
        *(path.stem, name, f"out of {path.name}", labels, metric, lambda: splits),
        pairs=bool(columns.text_b) and kind in ("class", "score"),
    )
    sizes = ", ".join(f"{len(splits[split])} {split}" for split in SPLITS)
    what = f"{len(labels)} {kind}es, {', '.join(labels)}" if kind == "class" else f"kind {kind}"
    return OwnData(task, splits, [f"{path.name}: {what}; {sizes}", *notes])


def _read(
    path: Path,
    columns: Columns,
    kind: str | None,
    encoding: str,
    rows: int | None,
    notes: list[str],
) -> tuple[str | None, list[Found]]:
    """Read the examples of a file, of the kind that its name or its first example says."""
    if kind is not None and kind not in KINDS:
        raise TaskError(f"no kind {kind!r}: choose one of {', '.join(KINDS)}")
    lines = _lines(path, encoding)
    suffix = path.suffix.lower()
    if columns != Columns() and (suffix in (".json", ".jsonl", ".conll") or kind == "tags"):
        raise TaskError(f"{path.name} has no columns to choose: leave --text and the like away")
    if suffix in (".json", ".jsonl"):
        asked = islice(_question_rows(path, lines), rows)
        kind, examples = "answer", of_questions(path.name, asked, notes)
    elif suffix == ".conll" or kind == "tags":
        kind, examples = "tags", islice(_sentences(path, lines), rows)
    elif kind == "answer":
        raise TaskError(f"{path.name}: answers are read from .json or .jsonl, in SQuAD's shape")
    else:
        table = islice(read_table(path, encoding), rows)
        examples = of_table(path.name, table, columns, notes)
    found = list(islice(examples, MAX_ROWS + 1))  # to the end: only there the notes are whole
    if len(found) > MAX_ROWS:
        raise TaskError(
            f"{path.name} has more than {MAX_ROWS:,} rows, which would fill the memory: "
            "--rows 100000 reads the first so many"
        )
    if not found:
        raise TaskError(f"{path.name} holds no example with both a text and a label")
    if isinstance(found[0].example, Choice):
        kind = "choice"
    if kind in ("tags", "answer") and len({one.example.source for one in found}) < len(SPLITS):
        # paragraphs, which questions share; of sentences, or of one paragraph or two, each alone
        contexts = [plain(getattr(one.example, "context", "")) for one in found]
        parts = contexts if len({*contexts}) >= len(SPLITS) else map(_text, found)
        found = [
            replace(one, example=replace(one.example, source=part))
            for one, part in zip(found, parts, strict=True)
        ]
        notes.append("all of it is of one or two documents: their parts are split, not they")
    return kind, found


# -- bytes to lines


def _lines(path: Path, encoding: str) -> Iterator[str]:
    """Yield the lines of a text, without a byte order mark; each refusal is a TaskError."""
    name, number = re.sub("^utf[-_]?8$", "utf-8-sig", encoding.lower()), 0
    try:
        with path.open(encoding=name, newline="") as file:
            for number, line in enumerate(file, start=1):
                if "\0" in line:
                    raise TaskError(
                        f"{path.name}, line {number}: a NUL byte. Was it cut off while it was "
                        "written, or is it no text? Export it anew, as CSV UTF-8"
                    )
                yield line
    except LookupError:
        raise TaskError(f"no encoding {encoding!r}: utf-8, cp949, latin-1, utf-16") from None
    except UnicodeError:
        raise TaskError(
            f"{path.name} is not {encoding}, after line {number}. Save it as CSV UTF-8, or name "
            f"what it is: --encoding {_guess_encoding(path)}"
        ) from None
    except OSError as error:
        raise TaskError(f"cannot read {path}: {error.strerror or error}") from None


def _guess_encoding(path: Path) -> str:
    """Say which encoding a file seems to have that is not UTF-8."""
    with path.open("rb") as file:
        some = file.read(2**20)
    if some[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return "utf-16"
    korean = some.decode("cp949", "replace")
    others = re.findall("[\u4e00-\u9fff\uf900-\ufaff\ufffd]", korean)  # of Chinese, of Russian
    if re.search("[가-힣]{2}", korean) and len(re.findall("[가-힣]", korean)) > 20 * len(others):
        return "cp949"
    if len(re.findall(rb"[\xc0-\xff]", some)) > len(re.findall(rb"[A-Za-z]", some)):
        return "NAME (cp1251 for Russian, cp1253 for Greek)"
    return "cp1252" if re.search(rb"[\x80-\x9f]", some) else "latin-1"


# -- lines to examples


def read_table(path: str | Path, encoding: str = "utf-8") -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the rows of a table, by the names in its first line, and the line at which each ends.

    Raises TaskError as `read_data` does.
    """
    path = Path(path)
    lines, head, first = _lines(path, encoding), list[str](), ""
    for first in lines:
        head.append(first)
        if first.strip() and not first.startswith("sep="):  # as Excel begins
            break
    separator = max(",;\t|", key=re.sub('"[^"]*"', "", first).count)  # outside of quotes
    csv.field_size_limit(2**24)
    reader = csv.reader(chain(head, lines), delimiter=separator, strict=True)
    try:
        for _ in head[1:]:
            next(reader)
        names = enumerate(next(reader, []), start=1)
        header = [normalize("NFC", name.strip()) or f"column {n}" for n, name in names]
        if twice := [name for name, count in Counter(header).items() if count > 1]:
            raise TaskError(f"{path.name}: two columns are called {twice[0]!r}. Rename one")
        for cells in reader:
            if not cells or (len(header) > 1 and not any(cell.strip() for cell in cells)):
                continue  # spreadsheets end so
            if len(cells) != len(header):
                raise TaskError(
                    f"{path.name}, line {reader.line_num}: it has {len(cells)} cells, and the "
                    f"first line names {len(header)} columns. A text with {separator!r} in it "
                    "wants quotes around it"
                )
            yield reader.line_num, dict(zip(header, cells, strict=True))
    except csv.Error as error:
        raise TaskError(
            f"{path.name}, near line {reader.line_num}: {error}. Is a quote never closed? A text "
            "that begins with one stands in quotes, and those within are doubled"
        ) from None


def _question_rows(path: Path, lines: Iterator[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    line = 1
    try:
        if path.suffix.lower() == ".jsonl":
            for line, text in enumerate(lines, start=1):
                if text.strip():
                    yield line, json.loads(text)
            return
        whole = json.loads("".join(lines))
    except TaskError:
        raise  # by those who read the lines
    except (ValueError, RecursionError) as error:  # a number, too, can be too long
        hint = "; an object in each line wants the ending .jsonl" * ("Extra" in str(error))
        raise TaskError(f"{path.name}, line {line}: {error}; it is no JSON{hint}") from None
    flat = whole if isinstance(whole, list) else None
    try:
        flat = flat or [
            {"title": article.get("title"), **paragraph, **question}
            for article in whole["data"]
            for paragraph in article.get("paragraphs", [article])
            for question in paragraph.get("qas", [{}])
        ]
    except (KeyError, TypeError, AttributeError) as error:
        raise TaskError(f"{path.name}: {error!r}; it is not in the shape of SQuAD") from None
    yield from enumerate(flat, start=1)


def _sentences(path: Path, lines: Iterator[str]) -> Iterator[Found]:
    """Read words and tags: the first and the last of the columns that blanks separate."""
    words: list[str] = []
    tags: list[str] = []
    begin, document = 1, ""

    def sentence() -> Iterator[Found]:
        if words:
            source = document or plain(" ".join(words))
            yield Found(Tagged(tuple(words), iob2(tags), source), begin)

    for number, line in enumerate(lines, start=1):
        line = line.strip()  # where there are tabs, a blank belongs to its cell
        # between blanks: a no-break space is part of its word
        cells = [c.strip() for c in re.split("\t" if "\t" in line else " +", line)] if line else []
        if not cells or cells[0] == "-DOCSTART-":
            yield from sentence()
            words, tags = [], []
            if cells:
                document = f"document at line {number}"
            continue
        if len(cells) < 2:
            raise TaskError(f"{path.name}, line {number}: {cells[0]!r} has no tag beside it")
        mark, _, kind = cells[-1].partition("-")
        mark = _AS_IOB.get(mark, mark)
        if cells[-1] != "O" and not (mark in ("B", "I") and kind):
            raise TaskError(
                f"{path.name}, line {number}: the tag {cells[-1]!r} is neither O nor B- or I- and "
                "a type, such as B-PLACE"
            )
        begin = begin if words else number
        words.append(cells[0])
        tags.append(f"{mark}-{kind}" if kind else "O")
    yield from sentence()


# -- labels


def _guess(found: Sequence[Found], column: str, notes: list[str]) -> str:
    """Tell names from measurements, which have a point or are many."""
    labels = {one.label for one in found}
    numbers = {x for x in labels if re.fullmatch(r"[-+]?(\d+|\d*[.,]\d+)([eE][-+]?\d+)?", x)}
    odd = [one for one in found if one.label not in numbers]
    measured = len(numbers) > 20 or any(re.search("[.,eE]", number) for number in numbers)
    if measured and not odd:
        notes.append(f"{column!r} holds numbers, so a score is learned; if not: --kind class")
        return "score"
    if measured and len(odd) <= len(found) / 10:
        raise TaskError(
            f"line {odd[0].line}: {odd[0].label!r} in {column!r} is no number, as most are. Empty "
            "the cell, and its row is left out; if all are names: --kind class"
        )
    if len(labels) > max(20, len(found) / 2):
        raise TaskError(
            f"{column!r} has {len(labels)} different values in {len(found)} rows. Is it the column "
            "of the label? A class needs several rows"
        )
    return "class"


def _labels(found: Sequence[Found], kind: str) -> tuple[str, ...]:
    """Return the classes or tags in order; TaskError if they cannot be learned."""
    if kind == "tags":
        types = {tag[2:] for one in found for tag in one.example.tags} - {""}
        if not types:
            raise TaskError("every word is tagged O: there is nothing to find")
        return ("O", *(f"{mark}-{name}" for name in sorted(types) for mark in "BI"))
    if kind == "score":
        for mark in ",.":  # where every label has three digits behind a point, they are decimals
            written = [one for one in found if mark in one.label]
            thousands = rf"[-+]?[1-9]\d{{0,2}}(\{mark}\d{{3}})+"
            clear = mark == "." and len(written) == len(found)
            if written and not clear and all(re.fullmatch(thousands, one.label) for one in written):
                label = written[0].label
                raise TaskError(
                    f"line {written[0].line}: is {label!r} a thousand or a fraction? Write it as "
                    f"{label.replace(mark, '')} or as {label.replace(mark, '.')}0"
                )
    if kind in ("class", "score") and len({one.label for one in found}) < 2:
        raise TaskError(f"every row has the label {found[0].label!r}: there is nothing to learn")
    if kind != "class":
        return ()
    texts: dict[str, set[str]] = defaultdict(set)
    for one in found:
        texts[one.label].add(one.example.source)
    alike: dict[str, list[str]] = defaultdict(list)
    for label in sorted(texts):
        alike[label.casefold()].append(label)
    for names in alike.values():
        if len(names) > 1:
            both = " and ".join(map(repr, names))
            raise TaskError(f"the labels {both} differ by capitals only: write them alike")
    label, some = min(texts.items(), key=lambda item: len(item[1]))
    if len(some) < len(SPLITS):
        raise TaskError(
            f"the class {label!r} has {len(some)} different text{'s' * (len(some) > 1)} (or "
            "groups), and needs three: one to learn from, one to choose by, one to test. Add rows, "
            "or leave the class out"
        )
    return tuple(sorted(texts))


# -- the split


def _split(found: list[Found], kind: str, seed: int, notes: list[str]) -> Splits:
    """Sort examples into splits as the file says, or draw one; and say what looks wrong with it."""
    parts: dict[str, list[Found]] = {split: [] for split in SPLITS}
    for one in found:
        parts[one.split or "train"].append(one)
    there = len(parts["train"])  # to draw from
    share = 0.2 if there < FEW else 0.1
    for split in ("test", "dev"):
        if not parts[split] and parts["train"]:
            of_these = share * there / len(parts["train"])
            parts["train"], parts[split] = _drawn(parts["train"], kind, of_these, seed)
            if any(one.split for one in found):
                notes.append(f"the file has no {split} split: drawn from train")
    for split, some in parts.items():
        if not some:
            raise TaskError(f"no row is left for the {split} split: it takes three texts or groups")
    learned = {one.label for one in parts["train"]}
    if absent := [one for one in found if kind == "class" and one.label not in learned]:
        raise TaskError(
            f"no row of train has the label {absent[0].label!r}, and of dev or test "
            f"{count_at([one.line for one in absent])}: give train some (another --seed?), or none"
        )
    if kind == "tags" and len({tag for one in parts["train"] for tag in one.example.tags}) < 2:
        raise TaskError("all words of train have one tag: tag more, or try another --seed")
    texts = {split: {_text(one): one for one in some} for split, some in parts.items()}
    for split in ("dev", "test"):
        if leaked := [one for text, one in texts[split].items() if text in texts["train"]]:
            where = count_at([one.line for one in leaked])
            notes.append(f"texts of {split} that stand in train: {where}; its score is too good")
    labels: dict[str, set[str]] = defaultdict(set)
    for one in found:
        labels[_text(one)].add(one.label)
    if torn := [one.line for one in found if len(labels[_text(one)]) > 1]:
        notes.append(f"rows with the same text and another label: {count_at(torn)}")
    return {split: [one.example for one in some] for split, some in parts.items()}


def _text(one: Found) -> str:
    """Return the text of an example, plainly: what a leak is looked for by."""
    return plain(" ".join(one.example.texts))


def _drawn(
    found: Iterable[Found], kind: str, share: float, seed: int
) -> tuple[list[Found], list[Found]]:
    """Take a share of whole sources out, of every class alike; return what stays, and the share."""
    sources: dict[str, list[Found]] = defaultdict(list)
    for one in found:
        sources[one.example.source].append(one)
    strata: dict[str, list[list[Found]]] = defaultdict(list)
    for some in sources.values():
        strata[some[0].label if kind == "class" else ""].append(some)
    generator = np.random.default_rng(seed)
    stay, out = list[Found](), list[Found]()
    for label in sorted(strata):
        groups = [strata[label][i] for i in generator.permutation(len(strata[label]))]
        count = min(max(1, round(share * len(groups))), len(groups) - 1)
        for position, some in enumerate(groups):
            (out if position < count else stay).extend(some)
    return [stay[i] for i in generator.permutation(len(stay))], out
