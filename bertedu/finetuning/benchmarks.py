"""The paper's own benchmarks, with the interface of our tasks: GLUE, SQuAD, CoNLL, SWAG, KorQuAD.

They come from the Hugging Face Hub through `datasets`, or from a folder of the files as their
authors published them; both ways give the same examples. Nothing of them is shipped.

The published test sets have no labels. So we select on a part of train and report on the published
dev set; nothing is selected on what is reported. Our ``dev`` is one tenth of the published train,
drawn by a hash of the ``source`` of an example, so that no source is in both: the article of a
question (SQuAD, KorQuAD), the video (SWAG), else the first text. ``test`` is the published dev set.
CoNLL alone has three splits with labels, and keeps them. The training texts of SST-2 are phrases
out of the same sentences: its ``dev`` is easier than its ``test``, and good for comparing settings
only.
"""

import csv
import json
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

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
from bertedu.results.files import Row  # with the columns of the Hub

Source = tuple[str, Iterable[Row]]  # what to call it in a message, and its rows
# Labels and tags are in the order of the Hub, where they are numbers.
CONLL_TAGS = ("O", *(f"{part}-{kind}" for kind in ("PER", "ORG", "LOC", "MISC") for part in "BI"))


@dataclass(frozen=True)
class Benchmark:
    """What a benchmark is, where it is found, and what its columns are called."""

    kind: KindName
    about: str
    metric: str  # the one that the paper reports
    hub: tuple[str, str | None]  # dataset and configuration
    home: str  # where its files are published
    files: tuple[str, ...]  # train and dev (and test) as published
    splits: tuple[str, ...] = ("train", "validation")  # the same on the Hub
    labels: tuple[str, ...] = ()
    columns: dict[str, str] = field(default_factory=dict)  # of GLUE, as below


# columns of the Hub -> the same in the published files; the label is the last
_ONE = {"sentence": "sentence", "label": "label"}
_PAIR = {"sentence1": "sentence1", "sentence2": "sentence2", "label": "label"}
_QNLI = {"question": "question", "sentence": "sentence", "label": "label"}
_QUESTIONS = {"question1": "question1", "question2": "question2", "label": "is_duplicate"}
_PREMISE = {"premise": "sentence1", "hypothesis": "sentence2", "label": "gold_label"}
_MRPC = {"sentence1": "#1 String", "sentence2": "#2 String", "label": "Quality"}
_FOLLOWS = "entailment not_entailment"
_MNLI = "entailment neutral contradiction"
_GLUE: tuple[tuple[str, str, str, str, dict[str, str]], ...] = (
    ("cola", "is a sentence grammatical?", "matthews", "unacceptable acceptable", _ONE),
    ("sst2", "film reviews, good or bad", "accuracy", "negative positive", _ONE),
    ("mrpc", "do two sentences say the same?", "binary_f1", "not_equivalent equivalent", _MRPC),
    ("qqp", "do two questions ask the same?", "binary_f1", "not_duplicate duplicate", _QUESTIONS),
    ("stsb", "how similar are they, 0 to 5?", "spearman", "", _PAIR | {"label": "score"}),
    ("mnli", "does it follow? Matched texts", "accuracy", _MNLI, _PREMISE),
    ("mnli-mm", "does it follow? Other kinds of text", "accuracy", _MNLI, _PREMISE),
    ("qnli", "does a sentence answer a question?", "accuracy", _FOLLOWS, _QNLI),
    ("rte", "does it follow? A small set", "accuracy", _FOLLOWS, _PAIR),
)


def _glue(name: str, about: str, metric: str, labels: str, columns: dict[str, str]) -> Benchmark:
    kind: KindName = "classification" if labels else "regression"
    dev = {"mnli": "_matched", "mnli-mm": "_mismatched"}.get(name, "")
    home, files = "https://gluebenchmark.com/tasks", ("train.tsv", f"dev{dev}.tsv")
    if name == "mrpc":  # GLUE may not pass it on: its dev set is a list of pairs of train
        home = "https://dl.fbaipublicfiles.com/ (senteval/senteval_data and glue/data)"
        files = ("msr_paraphrase_train.txt", "mrpc_dev_ids.tsv")
    hub, splits = ("nyu-mll/glue", name.removesuffix("-mm")), ("train", f"validation{dev}")
    return Benchmark(kind, about, metric, hub, home, files, splits, tuple(labels.split()), columns)


def _span(about: str, hub: str, home: str, files: str, metric: str = "f1") -> Benchmark:
    pair = (files.format("train"), files.format("dev"))
    return Benchmark("span", about, metric, (hub, None), home, pair)


_SQUAD = "https://rajpurkar.github.io/SQuAD-explorer/"
BENCHMARKS = {
    **{f"glue/{row[0]}": _glue(*row) for row in _GLUE},
    "squad": _span("SQuAD 1.1: mark the answer", "rajpurkar/squad", _SQUAD, "{}-v1.1.json"),
    "squad_v2": _span(
        "SQuAD 2.0: mark the answer, if any", "rajpurkar/squad_v2", _SQUAD, "{}-v2.0.json"
    ),
    "korquad": _span(
        "KorQuAD 1.0: mark the answer, in Korean",
        "KorQuAD/squad_kor_v1",
        "https://korquad.github.io/KorQuad%201.0/",
        "KorQuAD_v1.0_{}.json",
        "character_f1",
    ),
    "conll2003": Benchmark(
        "tagging",
        "mark persons, organizations, places and other names in the news",
        "f1",
        ("lhoestq/conll2003", None),
        "https://www.clips.uantwerpen.be/conll2003/ner/",
        ("eng.train", "eng.testa", "eng.testb"),
        ("train", "validation", "test"),
        CONLL_TAGS,
    ),
    "swag": Benchmark(
        "choice",
        "which of four endings comes next?",
        "accuracy",
        ("allenai/swag", "regular"),
        "https://github.com/rowanz/swagaf/tree/master/data",
        ("train.csv", "val.csv"),
    ),
}


def benchmark(name: str, folder: Path | None = None) -> Task:
    """Return one of `BENCHMARKS` as a task. Nothing is loaded before its ``load`` is called.

    ``folder`` is where the published files are; without it, they come from the Hugging Face Hub.
    Raises TaskError if there is no such benchmark; its ``load`` raises one if files or network are
    missing, or if what is found is not laid out as published.
    """
    if name not in BENCHMARKS:
        raise TaskError(f"no benchmark {name!r}: choose one of {', '.join(BENCHMARKS)}")
    spec = BENCHMARKS[name]
    load = partial(_load, name, folder)
    pairs = len(spec.columns) > len(_ONE)  # two columns of text beside the label
    return Task(name, spec.kind, spec.about, spec.labels, spec.metric, load, pairs)


def _load(name: str, folder: Path | None) -> Splits:
    sources = _from_hub(name) if folder is None else _from_folder(name, folder)
    splits = SPLITS if len(sources) == len(SPLITS) else ("", "test")  # "": train and dev, by hash
    return collect(
        (splits[number] or ("dev" if split_by(example.source) == "dev" else "train"), example)
        for number, source in enumerate(sources)
        for example in _examples(BENCHMARKS[name], *source, lenient=folder is None)
    )


# -- rows, from the Hub or from files


def _from_hub(name: str) -> list[Source]:
    spec = BENCHMARKS[name]
    by_hand = (
        f"Or get {', '.join(spec.files)} from {spec.home} on another machine, put them into one "
        "folder, and pass that folder."
    )
    try:
        import datasets
        from huggingface_hub import get_session
    except ImportError:
        raise TaskError(
            f"{name} needs the package datasets and a network: pip install 'bertedu[stream]'. "
            f"{by_hand}"
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
            f"{spec.hub[0]} ({reason}). {by_hand}"
        ) from None
    finally:
        datasets.config.HF_HUB_OFFLINE = before
    sources: list[Source] = []
    for split in spec.splits:
        source = " ".join(filter(None, (*spec.hub, split)))
        if split not in found:
            raise TaskError(f"{source} is not on the Hub any more. {by_hand}")
        feature = found[split].features.get("ner_tags" if spec.kind == "tagging" else "label")
        names = getattr(getattr(feature, "feature", feature), "names", None)
        if spec.labels and names and tuple(names) != spec.labels:
            raise TaskError(
                f"{source} numbers its labels {', '.join(names)}; we number them "
                f"{', '.join(spec.labels)}: it is another data set by now. {by_hand}"
            )
        sources.append((source, found[split]))
    return sources


def _from_folder(name: str, folder: Path) -> list[Source]:
    spec = BENCHMARKS[name]
    missing = [file for file in spec.files if not (folder / file).is_file()]
    if missing:
        raise TaskError(
            f"{name}: there is no {', '.join(missing)} in {folder}. It must hold "
            f"{', '.join(spec.files)} as published at {spec.home}"
        )
    paths = [folder / file for file in spec.files]
    if name == "glue/mrpc":
        (train, dev_ids), parts = paths, (("train", False), ("dev", True))
        return [(f"{train} ({part})", _mrpc_rows(train, dev_ids, dev)) for part, dev in parts]
    header = ["source", "label", "star", "sentence"] if name == "glue/cola" else None
    read = {"span": _squad_rows, "tagging": _conll_rows, "choice": _csv_rows}
    rows_of = read.get(spec.kind, partial(_tsv_rows, header=header))
    return [(str(path), rows_of(path)) for path in paths]


def _lines(path: Path) -> Iterator[str]:
    with path.open(encoding="utf-8-sig") as stream:  # str.splitlines would split at more signs
        for line in stream:
            yield line.rstrip("\n")


def _csv_rows(path: Path, header: Sequence[str] | None = None, **form: Any) -> Iterator[Row]:
    with path.open(encoding="utf-8-sig", newline="") as stream:
        yield from csv.DictReader(stream, header, **form)


# files of GLUE: quotation marks are mere text
_tsv_rows = partial(_csv_rows, delimiter="\t", quoting=csv.QUOTE_NONE)


def _mrpc_rows(path: Path, dev_ids: Path, in_dev: bool) -> Iterator[Row]:
    dev = {tuple(line.split("\t")[:2]) for line in _lines(dev_ids)}
    for row in _tsv_rows(path):
        if ((row["#1 ID"], row["#2 ID"]) in dev) == in_dev:
            yield row


def _conll_rows(path: Path) -> Iterator[Row]:
    words: list[str] = []
    tags: list[str] = []
    for number, line in enumerate((*_lines(path), ""), 1):
        if line.strip() and not line.startswith("-DOCSTART-"):
            fields = line.split()
            if len(fields) != 4:
                raise ValueError(
                    f"line {number} has {len(fields)} fields; four are published: word, part of "
                    "speech, chunk and entity"
                )
            words.append(fields[0])
            tags.append(fields[3])
        elif words:
            yield {"tokens": words, "ner_tags": tags}
            words, tags = [], []


def _squad_rows(path: Path) -> Iterator[Row]:
    for article in json.loads(path.read_text(encoding="utf-8-sig"))["data"]:
        for paragraph in article["paragraphs"]:
            for asked in paragraph["qas"]:
                # SQuAD 2.0 lists "plausible answers" of impossible questions: they are wrong ones
                answers = [] if asked.get("is_impossible") else asked["answers"]
                yield {
                    "id": asked["id"],
                    "title": article["title"],
                    "context": paragraph["context"],
                    "question": asked["question"],
                    "answers": {key: [a[key] for a in answers] for key in ("text", "answer_start")},
                }


# -- from rows to examples


def _examples(spec: Benchmark, source: str, rows: Iterable[Row], lenient: bool) -> list[AnyExample]:
    """Convert rows; a few are known to be broken, and are left out with a word."""
    total, examples = 0, []
    try:
        for row in rows:
            total += 1
            if example := _CONVERT.get(spec.kind, _example)(row, spec, lenient):
                examples.append(example)
    except KeyError as error:
        raise TaskError(
            f"{source} has no {error}: it is not laid out as published at {spec.home}"
        ) from None
    except (ValueError, TypeError, csv.Error) as error:
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


def _label(value: object, labels: tuple[str, ...]) -> int | None:
    """Number of a label that is given by name or by number; None if there is none."""
    text = str(value)
    if value is None or text in ("", "-", "-1"):  # "-": the annotators of MNLI did not agree
        return None
    if text in labels:
        return labels.index(text)
    if text.isdecimal() and int(text) < len(labels):
        return int(text)
    raise ValueError(f"label {text!r} is none of {', '.join(labels)}")


def _example(row: Row, spec: Benchmark, lenient: bool) -> Example | None:
    *texts, value = (row[ours if lenient else theirs] for ours, theirs in spec.columns.items())
    label: float | None
    if spec.kind == "regression" and value not in (None, ""):
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


def _question(row: Row, spec: Benchmark, lenient: bool) -> Question | None:
    """Answers of several people are kept once each. White space around texts goes.

    The Hub's copy of KorQuAD has lost white space at the head of contexts, so that there an answer
    can stand elsewhere than it says: such answers are left out if ``lenient``, and refused if not.
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
        elif not lenient:
            there = row["context"][begin : begin + len(raw)]
            raise ValueError(
                f"question {row['id']}: the answer {raw!r} does not stand at character {begin} of "
                f"its context; there stands {there!r}. Fetch the file again from {spec.home}"
            )
    if not question or not context or (published["text"] and not answers):
        return None  # without an answer that it has, it would seem to have none
    kept = tuple(dict.fromkeys(answers))
    return Question(row["id"], question, context, kept, row["title"].strip())


def _tagged(row: Row, spec: Benchmark, lenient: bool) -> Tagged | None:
    tags = [spec.labels[tag] if isinstance(tag, int) else tag for tag in row["ner_tags"]]
    # As published (IOB1), an entity begins with I-; and the Hub does not tell which document a
    # sentence is of.
    return Tagged(tuple(row["tokens"]), iob2(tags), " ".join(row["tokens"])) if tags else None


def _choice(row: Row, spec: Benchmark, lenient: bool) -> Choice | None:
    label = _label(row["label"], ("0", "1", "2", "3"))
    begin = row["sent2"].strip()  # the second sentence begins alike, and ends in four ways
    text, endings = row["sent1"].strip(), [row[f"ending{i}"].strip() for i in range(4)]
    if label is None or not text or not all(endings):
        return None
    whole = tuple(f"{begin} {ending}".strip() for ending in endings)
    return Choice(text, whole, label, row["video-id"])


_CONVERT = {"span": _question, "tagging": _tagged, "choice": _choice}  # others: _example
