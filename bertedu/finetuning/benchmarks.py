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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bertedu.files import Row, read_csv
from bertedu.finetuning.examples import (
    SPLITS,
    AnyExample,
    Choice,
    Example,
    KindName,
    Question,
    Splits,
    Tagged,
    Task,
    TaskError,
    collect,
    split_by,
)
from bertedu.finetuning.tagging import iob2


@dataclass(frozen=True)
class Benchmark:
    """A row of `benchmarks.csv`: what a benchmark is, and what the Hub calls its parts."""

    name: str
    kind: KindName
    metric: str  # the one that the paper reports
    hub: tuple[str, ...]  # dataset, and a configuration if it has several
    splits: tuple[str, ...]  # published ones: train and dev (and test)
    texts: tuple[str, ...]  # columns, one or two; empty where the kind has columns of its own
    labels: tuple[str, ...]  # in the order of the Hub, where they are numbers
    about: str


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
    return Task(name, spec.kind, spec.about, spec.labels, spec.metric, load, pairs)


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
    source, total = " ".join((*spec.hub, split)), 0
    examples: list[AnyExample] = []
    try:
        feature = found[split].features.get("ner_tags" if spec.kind == "tagging" else "label")
        names = getattr(getattr(feature, "feature", feature), "names", spec.labels)
        if spec.labels and tuple(names) != spec.labels:
            raise ValueError(f"its labels are {', '.join(names)}, not {', '.join(spec.labels)}")
        for total, row in enumerate(found[split], start=1):  # noqa: B007
            if example := _CONVERT.get(spec.kind, _example)(row, spec):
                examples.append(example)
    except KeyError as error:
        raise TaskError(f"{source} has no {error}: its layout has changed") from None
    except (ValueError, TypeError, IndexError) as error:
        raise TaskError(f"{source}, row {total}: {error}") from None
    if not examples:
        raise TaskError(
            f"{source}: none of its {total} rows has both texts and a label. The published test "
            "sets have no labels: use the dev set"
        )
    if len(examples) < total:
        warnings.warn(
            f"{source}: {total - len(examples)} of {total} rows are left out: a text or label is "
            "missing, or an answer does not stand in its text",
            stacklevel=2,
        )
    return examples


def _label(value: int | None, labels: Sequence[str]) -> int | None:
    """Check the number of a label; None if there is none."""
    if value in (None, -1):
        return None
    if value not in range(len(labels)):
        raise ValueError(f"label {value!r} is not the number of one of {', '.join(labels)}")
    return value


def _score(value: float | None) -> float | None:
    """Check a score from 0 to 5; the Hub has 32 bits (3.799999952), three digits are published."""
    score = None if value is None else round(float(value), 3)
    if score is not None and not 0 <= score <= 5:
        raise ValueError(f"score {score} is not between 0 and 5")
    return score


def _example(row: Row, spec: Benchmark) -> Example | None:
    texts, value = [row[column] for column in spec.texts], row["label"]
    label = _score(value) if spec.kind == "regression" else _label(value, spec.labels)
    if label is None or not all(text and text.strip() for text in texts):
        return None  # some lines of QQP end early
    text, *pair = (text.strip() for text in texts)
    return Example(text, pair[0] if pair else None, label, text)


def _question(row: Row, spec: Benchmark) -> Question | None:
    """Answers of several people are kept once each. White space around texts goes.

    The Hub's copy of KorQuAD has lost white space at the head of contexts, so that there an answer
    can stand elsewhere than it says: such answers are left out.
    """
    context, question = row["context"].strip(), row["question"].strip()
    shift = len(row["context"]) - len(row["context"].lstrip())
    published = row["answers"]
    answers = [
        (raw.strip(), begin - shift + len(raw) - len(raw.lstrip()))
        for raw, begin in zip(published["text"], published["answer_start"], strict=True)
        if raw.strip() and begin >= 0 and row["context"].startswith(raw, begin)
    ]
    if not question or not context or (published["text"] and not answers):
        return None  # without an answer that it has, it would seem to have none
    return Question(
        row["id"], question, context, tuple(dict.fromkeys(answers)), row["title"].strip()
    )


def _tagged(row: Row, spec: Benchmark) -> Tagged | None:
    tags = [spec.labels[tag] for tag in row["ner_tags"]]
    # As published (IOB1), an entity begins with I-; and the Hub does not tell which document a
    # sentence is of.
    return Tagged(tuple(row["tokens"]), iob2(tags), " ".join(row["tokens"])) if tags else None


def _choice(row: Row, spec: Benchmark) -> Choice | None:
    label = _label(row["label"], "0123")
    begin = row["sent2"].strip()  # the second sentence begins alike, and ends in four ways
    text, endings = row["sent1"].strip(), [row[f"ending{i}"].strip() for i in range(4)]
    if label is None or not text or not all(endings):
        return None
    whole = tuple(f"{begin} {ending}".strip() for ending in endings)
    return Choice(text, whole, label, row["video-id"])


_CONVERT = {"span": _question, "tagging": _tagged, "choice": _choice}  # others: _example
