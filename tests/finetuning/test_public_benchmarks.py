"""The paper's benchmarks: rows as the Hub has them, and the examples that they become.

All texts here are our own, in the formats of the originals.
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from bertedu.finetuning.evaluation.benchmarks import BENCHMARKS, benchmark
from bertedu.finetuning.examples import (
    Choice,
    Example,
    Question,
    Splits,
    Tagged,
    TaskError,
    check_examples,
)
from bertedu.finetuning.finetune import make_kind
from bertedu.finetuning.own_data import read_data

datasets = pytest.importorskip("datasets")
Value, Sequence, ClassLabel = datasets.Value, datasets.Sequence, datasets.ClassLabel
STRING, NUMBER = Value("string"), Value("int32")

# GLUE as the Hub has it: columns of texts, names of labels in their order (none: a number), metric
NLI, TWO = ("entailment", "neutral", "contradiction"), ("entailment", "not_entailment")
PAIR = ("sentence1", "sentence2")
GLUE: dict[str, tuple[tuple[str, ...], tuple[str, ...], str]] = {
    "glue/cola": (("sentence",), ("unacceptable", "acceptable"), "matthews"),
    "glue/sst2": (("sentence",), ("negative", "positive"), "accuracy"),
    "glue/mrpc": (PAIR, ("not_equivalent", "equivalent"), "binary_f1"),
    "glue/qqp": (("question1", "question2"), ("not_duplicate", "duplicate"), "binary_f1"),
    "glue/stsb": (PAIR, (), "spearman"),
    "glue/mnli": (("premise", "hypothesis"), NLI, "accuracy"),
    "glue/mnli-mm": (("premise", "hypothesis"), NLI, "accuracy"),
    "glue/qnli": (("question", "sentence"), TWO, "accuracy"),
    "glue/rte": (PAIR, TWO, "accuracy"),
}
Row = dict[str, Any]
Cases = dict[str, dict[Any, Row]]  # of each split: example -> the row that it comes from
QA = dict.fromkeys(("id", "title", "context", "question"), STRING) | {
    "answers": Sequence({"text": STRING, "answer_start": NUMBER})
}
NER = "O B-PER I-PER B-ORG I-ORG B-LOC I-LOC B-MISC I-MISC".split()
CONLL = {"id": STRING, "tokens": Sequence(STRING), "ner_tags": Sequence(ClassLabel(names=NER))}
SWAG = dict.fromkeys(
    "video-id startphrase sent1 sent2 ending0 ending1 ending2 ending3".split(), STRING
) | {"label": ClassLabel(names=list("0123"))}
BOAT, CONTEXT = "Monday? It left Oslo on Monday.", "  Ann met Bo. Bo left. "
KOREAN = "세종은 1397년 서울에서 태어났다."


def glue(name: str, mark: str, count: int = 2) -> dict[Any, Row]:
    """Make rows with a quotation mark that is not closed, and white space at the end."""
    texts, labels, _ = GLUE[name]
    made = {}
    for n in range(count):
        label = n % len(labels) if labels else round(3.8 + n / 1000, 3)
        given = [f'{mark} "{n} {column}' for column in texts]
        example = Example(given[0], given[1] if given[1:] else None, label, given[0])
        row = {column: f"{text} " for column, text in zip(texts, given, strict=True)}
        made[example] = row | {"label": label, "idx": n}
    return made


def asked(name: str, title: str, context: str, *answers: tuple[str, int]) -> Row:
    found = {"text": [text for text, _ in answers], "answer_start": [start for _, start in answers]}
    row = {"id": name, "title": f"{title} ", "context": context, "question": " Who? "}
    return row | {"answers": found}


def question(name: str, title: str, context: str, *answers: tuple[str, int]) -> Question:
    return Question(name, "Who?", context.strip(), answers, title)


def tagged(words: str, published: str, tags: str) -> dict[Any, Row]:
    numbers = [NER.index(tag) for tag in published.split()]
    row = {"id": "0", "tokens": words.split(), "ner_tags": numbers}
    return {Tagged(tuple(words.split()), tuple(tags.split()), words): row}


def swag(video: str, sentence: str, begin: str, endings: str, label: int) -> dict[Any, Row]:
    parts = endings.split()
    row = {"video-id": video, "startphrase": "", "sent1": sentence, "sent2": begin, "label": label}
    row |= {f"ending{n}": part for n, part in enumerate(parts)}
    return {Choice(sentence, tuple(f"{begin} {part}" for part in parts), label, video): row}


_QUESTIONS: Cases = {
    "train": {
        question("1", "A", BOAT, ("Monday", 0)): asked("1", "A", BOAT, ("Monday", 0)),
        question("2", "A", BOAT): asked("2", "A", BOAT),
        question("3", "세종", KOREAN, ("서울", 10)): asked("3", "세종", KOREAN, ("서울", 10)),
    },
    "validation": {  # several people answered
        question("4", "B", CONTEXT, ("Bo", 8), ("Bo", 12)): asked(
            "4", "B", CONTEXT, ("Bo", 10), ("Bo", 14), ("Bo", 14), (" Bo", 9)
        )
    },
}
_TAGGED: Cases = {
    "train": tagged(
        "Ann Lee Bo met Oslo FC",
        "I-PER I-PER B-PER O I-LOC I-ORG",
        "B-PER I-PER B-PER O B-LOC B-ORG",
    ),
    "validation": tagged("EU", "B-ORG", "B-ORG"),
    "test": tagged("German rain", "I-MISC O", "B-MISC O"),
}
_CHOICES: Cases = {
    "train": swag("v1", "A man sits.", "He", "stands. eats. flies. sinks.", 0),
    "validation": swag("v2", "A dog barks.", "It", "reads. sings. sails. left.", 3),
}
CASES: dict[str, tuple[str, Row, Cases]] = {  # metric, columns of the Hub, rows
    "squad": ("f1", QA, _QUESTIONS),
    "squad_v2": ("f1", QA, _QUESTIONS),
    "korquad": ("character_f1", QA, _QUESTIONS),
    "conll2003": ("f1", CONLL, _TAGGED),
    "swag": ("accuracy", SWAG, _CHOICES),
}
for _name, (_texts, _labels, _metric) in GLUE.items():
    _label = ClassLabel(names=list(_labels)) if _labels else Value("float32")
    _dev = {"glue/mnli": "_matched", "glue/mnli-mm": "_mismatched"}.get(_name, "")
    _rows = {split: glue(_name, split) for split in ("train", f"validation{_dev}")}
    CASES[_name] = (
        _metric,
        dict.fromkeys(_texts, STRING) | {"label": _label, "idx": NUMBER},
        _rows,
    )

Serve = Callable[..., Splits]


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Serve:
    """Put a data set on a Hub of our own, with the Hub's columns and types, and load it."""

    online = SimpleNamespace(head=lambda *_, **__: None)
    monkeypatch.setattr("huggingface_hub.get_session", lambda: online)
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", False)  # the shell may say otherwise

    def put(name: str, columns: Row | None = None, **splits: list[Row]) -> Splits:
        _, usual, cases = CASES[name]
        features = datasets.Features(columns or usual)
        rows = {split: list(some.values()) for split, some in cases.items()} | splits
        held = {
            split: datasets.Dataset.from_dict(
                {column: [row[column] for row in some] for column in features}, features=features
            )
            for split, some in rows.items()
        }

        def load(*hub: str) -> Any:
            assert hub == BENCHMARKS[name].hub
            assert not datasets.config.HF_HUB_OFFLINE
            return held

        monkeypatch.setattr(datasets, "load_dataset", load)
        return read_data(name).splits

    return put


def test_every_benchmark_is_tested() -> None:
    assert set(CASES) == set(BENCHMARKS)
    with pytest.raises(TaskError, match="no benchmark 'sst2': choose one of glue/cola, glue/sst2"):
        benchmark("sst2")


@pytest.mark.parametrize("name", CASES)
def test_rows_become_examples(name: str, serve: Serve) -> None:
    metric, _, cases = CASES[name]
    splits, task = serve(name), benchmark(name)
    found, expected = [splits["train"], splits["dev"], splits["test"]], list(cases.values())
    if len(expected) == 2:
        found = [[*splits["train"], *splits["dev"]], splits["test"]]
    assert [set(some) for some in found] == [set(some) for some in expected]
    assert [len(some) for some in found] == [len(some) for some in expected]
    whole: Splits = {split: [*splits["train"], *splits["dev"], *splits["test"]] for split in splits}
    check_examples(task, whole)
    assert task.metric == metric
    kind = make_kind(task, splits)
    outcomes = np.array([[1.0, 1.0, 1.0], [0.0, 0.0, 1.0]])[:, : len(kind.columns)]
    assert metric in kind.metrics(outcomes)


# -- the splits


def test_a_fixed_tenth_of_train_is_dev_and_no_source_is_in_both(serve: Serve) -> None:
    dev_of: dict[str, set[str]] = {}
    (clip,) = CASES["swag"][2]["train"].values()
    pairs = glue("glue/rte", "", 600).values()
    for name, rows in {
        "squad": [asked(f"{n}", f"T{n % 300}", BOAT) for n in range(600)],
        "squad_v2": [asked(f"{n}", f"T{n % 300}", CONTEXT) for n in range(900)],
        "swag": [clip | {"video-id": f"T{n % 300}"} for n in range(600)],
        "glue/rte": [row | {"sentence1": f"T{n % 300}"} for n, row in enumerate(pairs)],
    }.items():
        splits = serve(name, train=rows)
        train, dev = ({e.source for e in splits[split]} for split in ("train", "dev"))
        assert not train & dev
        assert len(train | dev) == 300
        assert len(dev) == 34, "the same for ever"
        assert len(splits["train"]) + len(splits["dev"]) == len(rows)
        dev_of[name] = dev
    assert len(set(map(frozenset, dev_of.values()))) == 1, "what one learns, another selects on"


# -- rows that are known to be broken


@pytest.mark.parametrize(
    ("text", "start", "place"),
    [("Bo", 9, None), ("Bob", 10, None), ("", 10, None), ("left", -3, 15)],
)
def test_a_misplaced_answer_is_moved_or_left_out(
    serve: Serve, text: str, start: int, place: int | None
) -> None:
    """The Hub's KorQuAD has lost white space at the head of contexts, and so some answers."""
    rows = [
        asked("1", "P", CONTEXT, ("Ann", 2), (text, start)),
        asked("2", "P", CONTEXT, (text, start)),
    ]
    with pytest.warns(
        UserWarning, match="moved to where they" if place else r"left out: 1 \(line 2"
    ):
        splits = serve("squad", train=rows)
    found = {q.name: q.answers for q in [*splits["train"], *splits["dev"]]}
    moved = () if place is None else ((text, place),)
    # a question whose answer has no place would seem to have none
    assert found == {"1": (("Ann", 0), *moved)} | ({"2": moved} if moved else {})


def test_rows_without_text_or_label_are_left_out_and_counted(serve: Serve) -> None:
    good, *bad = glue("glue/mnli", "", 4).values()
    changes: list[Row] = [{"label": -1}, {"premise": " "}, {"premise": None}]
    bad = [row | change for row, change in zip(bad, changes, strict=True)]
    with (
        pytest.warns(UserWarning, match=r"mnli train: .* 'premise', left out: 2 \(line 3"),
        pytest.warns(UserWarning, match=r"mnli train: rows without 'label', left out: 1 \(line 2"),
    ):
        splits = serve("glue/mnli", train=[good, *bad])
    assert len([*splits["train"], *splits["dev"]]) == 1
    (clip,) = CASES["swag"][2]["train"].values()
    for change in ({"label": -1}, {"sent1": " "}, {"ending2": ""}):
        with pytest.warns(UserWarning, match=r"swag.* train: rows without .* out: 1 \(line 2"):
            serve("swag", train=[clip, clip | change])
    asked_nothing = next(iter(glue("glue/rte", "").values())) | {"label": -1}
    with pytest.raises(TaskError, match="test sets have no labels: use the dev set"):
        serve("glue/rte", validation=[asked_nothing])


# -- what goes wrong

NUMBERED = {"tokens": Sequence(STRING), "ner_tags": Sequence(NUMBER)}
# would train well and score badly, without a word
TURNED = CASES["glue/mnli"][1] | {"label": ClassLabel(names=NLI[::-1])}


@pytest.mark.parametrize(
    ("name", "columns", "row", "message"),
    [
        ("glue/sst2", {"text": STRING, "label": NUMBER}, ("fine", 1), "has no column 'sentence'"),
        ("glue/rte", dict.fromkeys(PAIR, STRING), ("a", "b"), "has no column 'label'"),
        ("squad", dict.fromkeys(("id", "context"), STRING), ("q1", "a"), "line 1: KeyError.'que"),
        ("glue/sst2", {"sentence": STRING, "label": NUMBER}, ("b", 2), "line 1: label 2 is not"),
        ("glue/sst2", {"sentence": STRING, "label": NUMBER}, ("a", -2), "line 1: label -2 is not"),
        ("glue/sst2", dict.fromkeys(("sentence", "label"), STRING), ("a", "1"), "label '1' is not"),
        ("glue/stsb", None, ("a", "b", float("nan"), 0), "line 1: .* a score is a number"),
        ("glue/stsb", None, None, "no row has both"),
        ("conll2003", NUMBERED, (["Oslo"], [9]), "2003 train, line 1: tuple index out of range"),
        ("glue/mnli", TURNED, None, "its labels are contradiction, neutral, entailment, not"),
    ],
)
def test_another_layout_is_named(
    serve: Serve, name: str, columns: Row | None, row: Any, message: str
) -> None:
    names = columns or CASES[name][1]
    train = [] if row is None else [dict(zip(names, row, strict=True))]
    with pytest.raises(TaskError, match=message):
        serve(name, columns, **{split: [] for split in CASES[name][2]} | {"train": train})


def test_what_the_hub_lacks_is_named(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(CASES["glue/rte"][2], "validation")
    with pytest.raises(TaskError, match="glue rte validation has no 'validation': its layout"):
        serve("glue/rte")

    def refuse(*_: Any) -> None:
        raise RuntimeError("Dataset scripts are no longer supported\nmore")

    monkeypatch.setattr(datasets, "load_dataset", refuse)
    with pytest.raises(TaskError, match=r"does not give .*\(Dataset scripts.*supported\)"):
        benchmark("squad").load()
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(TaskError, match=r"pip install 'bertedu\[stream\]'.*HF_HOME"):
        benchmark("squad").load()


def test_without_a_network_it_fails_soon_and_says_what_to_carry_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_route(*_: Any, **__: Any) -> None:
        raise OSError("no route")

    offline = SimpleNamespace(head=no_route)
    monkeypatch.setattr("huggingface_hub.get_session", lambda: offline)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path)
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", False)
    began = time.perf_counter()
    with pytest.raises(TaskError, match="no network, and no cached copy of allenai/swag") as caught:
        benchmark("swag").load()
    assert time.perf_counter() - began < 10
    assert "load_dataset('allenai/swag', 'regular'); then carry" in str(caught.value)
    assert not datasets.config.HF_HUB_OFFLINE, "later calls may have a network"
