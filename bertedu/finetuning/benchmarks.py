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
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from bertedu.files import Row  # with the columns of the Hub
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
    read_table,
    split_by,
)
from bertedu.finetuning.tagging import iob2

Source = tuple[str, Iterable[Row]]  # what to call it in a message, and its rows


@dataclass(frozen=True)
class Benchmark:
    """What a benchmark is, where it is found, and what its columns are called."""

    kind: KindName
    about: str
    metric: str  # the one that the paper reports
    hub: tuple[str, ...]  # dataset, and a configuration if it has several
    splits: tuple[str, ...] = ("train", "validation")  # train and dev (and test)
    labels: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()  # columns of GLUE, beside "label"


_TABLE = read_table(__file__)
BENCHMARKS = {name: Benchmark(**entry) for name, entry in _TABLE.items()}


def benchmark(name: str) -> Task:
    """Return one of `BENCHMARKS` as a task. Nothing is loaded before its ``load`` is called.

    Raises TaskError if there is no such benchmark; its ``load`` raises one if neither the Hub nor a
    cached copy can be read, or if what is found is not laid out as it was.
    """
    if name not in BENCHMARKS:
        raise TaskError(f"no benchmark {name!r}: choose one of {', '.join(BENCHMARKS)}")
    spec = BENCHMARKS[name]
    load, pairs = partial(_load, name), len(spec.texts) == 2
    return Task(name, spec.kind, spec.about, spec.labels, spec.metric, load, pairs)


def _load(name: str) -> Splits:
    sources = _from_hub(name)
    splits = SPLITS if len(sources) == len(SPLITS) else ("", "test")  # "": train and dev, by hash
    return collect(
        (splits[number] or ("dev" if split_by(example.source) == "dev" else "train"), example)
        for number, source in enumerate(sources)
        for example in _examples(BENCHMARKS[name], *source)
    )


# -- rows of the Hub


def _from_hub(name: str) -> list[Source]:
    spec = BENCHMARKS[name]
    carry = (
        f"On a machine with a network, run it once, or call datasets.load_dataset{spec.hub}; then "
        "carry the cache folder over (environment variable HF_HOME, else ~/.cache/huggingface)"
    )
    changed = "it is another data set by now: correct bertedu.finetuning.benchmarks"
    try:
        import datasets
        from huggingface_hub import get_session
    except ImportError:
        raise TaskError(
            f"{name} needs the package datasets: pip install 'bertedu[stream]'. {carry}"
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
        found = datasets.load_dataset(*spec.hub)
    except Exception as error:  # datasets and its back ends raise a dozen kinds
        reason = str(error).strip().splitlines()[0] if str(error).strip() else repr(error)
        raise TaskError(
            f"{name}: {'the Hub does not give' if online else 'no network, and no cached copy of'} "
            f"{spec.hub[0]} ({reason}). {carry}"
        ) from None
    finally:
        datasets.config.HF_HUB_OFFLINE = before
    sources: list[Source] = []
    for split in spec.splits:
        source = " ".join((*spec.hub, split))
        if split not in found:
            raise TaskError(f"{source} is not on the Hub any more; {changed}")
        feature = found[split].features.get("ner_tags" if spec.kind == "tagging" else "label")
        names = getattr(getattr(feature, "feature", feature), "names", None)
        if spec.labels and names and tuple(names) != spec.labels:
            raise TaskError(
                f"{source} numbers its labels {', '.join(names)}; we number them "
                f"{', '.join(spec.labels)}; {changed}"
            )
        sources.append((source, found[split]))
    return sources


# -- from rows to examples


def _examples(spec: Benchmark, source: str, rows: Iterable[Row]) -> list[AnyExample]:
    """Convert rows; a few are known to be broken, and are left out with a word."""
    total, examples = 0, []
    try:
        for row in rows:
            total += 1
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


def _example(row: Row, spec: Benchmark) -> Example | None:
    texts, value = [row[column] for column in spec.texts], row["label"]
    label: float | None
    if spec.kind == "regression" and value is not None:
        # The Hub has 32 bits, of which 3.8 is 3.799999952; three digits are published.
        label = round(float(value), 3)
        if not 0 <= label <= 5:
            raise ValueError(f"score {label} is not between 0 and 5")
    else:
        label = _label(value, spec.labels)
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
    answers: list[tuple[str, int]] = []
    published = row["answers"]
    for raw, begin in zip(published["text"], published["answer_start"], strict=True):
        text = raw.strip()
        start = begin - shift + len(raw) - len(raw.lstrip())
        if text and start >= 0 and context[start : start + len(text)] == text:
            answers.append((text, start))
    if not question or not context or (published["text"] and not answers):
        return None  # without an answer that it has, it would seem to have none
    kept = tuple(dict.fromkeys(answers))
    return Question(row["id"], question, context, kept, row["title"].strip())


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
