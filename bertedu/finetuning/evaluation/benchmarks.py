"""The paper's own benchmarks, with the interface of our tasks: GLUE, SQuAD, CoNLL, SWAG, KorQuAD.

They come from the Hugging Face Hub through `datasets`; nothing of them is shipped. Without a
network, the copy that `datasets` has kept of an earlier time is read.

The published test sets have no labels. So our ``test`` is the published dev set, and ``dev`` one
tenth of the published train, drawn by a hash of the ``source`` of an example, so that no source is
in both: the article of a question (SQuAD, KorQuAD), the video (SWAG), else the first text. CoNLL
alone has three splits with labels, and keeps them. The training texts of SST-2 are phrases out of
the same sentences: its ``dev`` is easier than its ``test``, good for comparing settings only.
"""

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bertedu.files import Row, read_csv
from bertedu.finetuning.examples import (
    KINDS,
    SPLITS,
    AnyExample,
    Columns,
    Found,
    Splits,
    Tagged,
    Task,
    TaskError,
    collect,
    labeled,
    of_questions,
    of_table,
    split_by,
)
from bertedu.finetuning.tagging import iob2


@dataclass(frozen=True)
class Benchmark:
    """A row of `benchmarks.csv`: what a benchmark is, and what the Hub calls its parts."""

    name: str
    kind: str  # of `KINDS`
    metric: str  # the one that the paper reports
    hub: tuple[str, ...]  # dataset, and a configuration if it has several
    splits: tuple[str, ...]  # published ones: train and dev (and test)
    texts: tuple[str, ...]  # columns, one or two; none: answers and tags have columns of their own
    labels: tuple[str, ...]  # in the order of the Hub, where they are numbers
    about: str

    @property
    def columns(self) -> Columns:
        """Where a table has what; rows with the same first text, or of one film, stay together."""
        text, *pair = self.texts
        if self.kind == "choice":
            endings = ("ending0", "ending1", "ending2", "ending3")
            return Columns(text, endings=endings, group="video-id")
        return Columns(text, text_b=pair[0] if pair else None, group=text)


def _read(row: Row) -> Benchmark:
    lists = {name: tuple(row[name].split()) for name in ("hub", "splits", "texts", "labels")}
    return Benchmark(**row | lists)


BENCHMARKS = {row["name"]: _read(row) for row in read_csv(Path(__file__).with_suffix(".csv"))}


def benchmark(name: str) -> Task:
    """Return one of `BENCHMARKS` as a task. Nothing is loaded before its ``load`` is called.

    Raises TaskError if there is no such benchmark; its ``load`` raises one if neither the Hub nor a
    cached copy can be read, or if what is found is not laid out as it was.
    """
    if name not in BENCHMARKS:
        raise TaskError(f"no benchmark {name!r}: choose one of {', '.join(BENCHMARKS)}")
    spec = BENCHMARKS[name]
    load, pairs = partial(_load, spec), len(spec.texts) == 2
    return Task(name, KINDS[spec.kind][0], spec.about, spec.labels, spec.metric, load, pairs)


def _load(spec: Benchmark) -> Splits:
    found = _from_hub(spec)
    published = [_examples(spec, split, found) for split in spec.splits]
    if len(published) == len(SPLITS):
        pairs = zip(SPLITS, published, strict=True)
        return collect((split, example) for split, some in pairs for example in some)
    train, test = published
    drawn = [("dev" if split_by(e.source) == "dev" else "train", e) for e in train]
    return collect([*drawn, *(("test", example) for example in test)])


# -- rows of the Hub


def _from_hub(spec: Benchmark) -> Mapping[str, Any]:
    """Return the published data sets by split."""
    carry = (
        f"On a machine with a network, run it once, or call datasets.load_dataset{spec.hub}; then "
        "carry the cache folder over (environment variable HF_HOME, else ~/.cache/huggingface)"
    )
    try:
        import datasets
        from huggingface_hub import get_session
    except ImportError:
        raise TaskError(
            f"{spec.name} needs the package datasets: pip install 'bertedu[stream]'. {carry}"
        ) from None
    try:
        get_session().head(datasets.config.HF_ENDPOINT, timeout=5)
        online = True
    except Exception:  # of two HTTP libraries, by the version of huggingface_hub
        online = False
    before = datasets.config.HF_HUB_OFFLINE
    # Without a network, datasets would try again for half a minute before it looks into its cache.
    datasets.config.HF_HUB_OFFLINE = before or not online
    try:
        return datasets.load_dataset(*spec.hub)
    except Exception as error:  # datasets and its back ends raise a dozen kinds
        reason = next(iter(str(error).strip().splitlines()), repr(error))
        missing = "the Hub does not give" if online else "no network, and no cached copy of"
        raise TaskError(f"{spec.name}: {missing} {spec.hub[0]} ({reason}). {carry}") from None
    finally:
        datasets.config.HF_HUB_OFFLINE = before


# -- from rows to examples


def _examples(spec: Benchmark, split: str, found: Mapping[str, Any]) -> list[AnyExample]:
    """Convert rows; a few are known to be broken, and are left out with a word."""
    source = " ".join((*spec.hub, split))
    notes: list[str] = []
    try:
        feature = found[split].features.get("ner_tags" if spec.kind == "tags" else "label")
        names = getattr(getattr(feature, "feature", feature), "names", spec.labels)
        if spec.labels and tuple(names) != spec.labels:
            raise TaskError(
                f"{source}: its labels are {', '.join(names)}, not {', '.join(spec.labels)}"
            )
        rows = enumerate(found[split], start=1)
        some: Iterable[Found]
        if spec.kind == "answer":
            some = of_questions(source, rows, notes)
        elif spec.kind == "tags":
            some = (_sentence(row, spec, line, source) for line, row in rows if row["tokens"])
        else:
            cells = ((line, _cells(row, spec, f"{source}, line {line}")) for line, row in rows)
            some = of_table(source, cells, spec.columns, notes)
        examples = [labeled(one, spec.kind, spec.labels, source).example for one in some]
    except KeyError as error:
        raise TaskError(f"{source} has no {error}: its layout has changed") from None
    if not examples:
        raise TaskError(
            f"{source}: no row has both texts and a label. The published test sets have no labels: "
            "use the dev set"
        )
    for note in notes:
        warnings.warn(f"{source}: {note}", stacklevel=2)
    return examples


def _cells(row: Row, spec: Benchmark, where: str) -> Row:
    """Return a row of the Hub as a table would have it, where a label is its name.

    SWAG's second sentence begins alike, and ends in four ways.
    """
    cells = {name: "" if value in (None, -1) else str(value) for name, value in row.items()}
    for name in spec.columns.endings:
        cells[name] = cells[name].strip() and f"{cells['sent2']} {cells[name]}"
    if spec.kind == "class" and "label" in row and cells["label"]:
        if row["label"] not in range(len(spec.labels)):
            known = ", ".join(spec.labels)
            raise TaskError(f"{where}: label {row['label']!r} is not the number of one of {known}")
        cells["label"] = spec.labels[row["label"]]
    if spec.kind == "score" and cells["label"]:  # 32 bits (3.799999952) of three digits
        cells["label"] = f"{row['label']:.3f}"
    return cells


def _sentence(row: Row, spec: Benchmark, line: int, source: str) -> Found:
    """Return words and tags; the Hub does not tell which document a sentence is of.

    As published (IOB1), an entity begins with I-.
    """
    words = tuple(row["tokens"])
    try:
        tags = iob2([spec.labels[tag] for tag in row["ner_tags"]])
    except IndexError as error:
        raise TaskError(f"{source}, line {line}: {error}") from None
    return Found(Tagged(words, tags, " ".join(words)), line)
