"""The paper's benchmarks: from files as published and from the Hub, the same examples.

All texts here are our own, in the formats of the originals.
"""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bertedu.finetuning.benchmarks import BENCHMARKS, CONLL_TAGS, benchmark
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

datasets = pytest.importorskip("datasets")


# -- what is published, in small: files, rows of the Hub, and what must come out of both


def tabs(text: str) -> str:
    return text.replace("|", "\t")


def squad(version: str, *articles: tuple[str, list[tuple[str, list[dict[str, Any]]]]]) -> str:
    """(title, [(context, questions)]) in the layout of SQuAD and KorQuAD."""
    data = [
        {"title": title, "paragraphs": [{"context": c, "qas": qas} for c, qas in paragraphs]}
        for title, paragraphs in articles
    ]
    return json.dumps({"version": version, "data": data}, ensure_ascii=False)


def asked(name: str, question: str, *answers: tuple[str, int], **more: Any) -> dict[str, Any]:
    found = [{"text": text, "answer_start": start} for text, start in answers]
    return {"id": name, "question": question, "answers": found, **more}


def hub_question(
    name: str, title: str, context: str, question: str, *answers: tuple[str, int]
) -> dict[str, Any]:
    texts, starts = [text for text, _ in answers], [start for _, start in answers]
    found = {"text": texts, "answer_start": starts}
    return {"id": name, "title": title, "context": context, "question": question, "answers": found}


MNLI_TRAIN = (
    "index|promptID|pairID|genre|sentence1_binary_parse|sentence2_binary_parse|sentence1_parse"
    "|sentence2_parse|sentence1|sentence2|label1|gold_label\n"
    "0|1|1n|fiction|( a )|( b )|(A)|(B)|Tom has a boat.|Tom owns a boat.|entailment|entailment\n"
    "1|1|1c|fiction|( a )|( b )|(A)|(B)|Tom has a boat.|Tom owns nothing.|neutral|contradiction\n"
    '2|2|2n|travel|( a )|( b )|(A)|(B)|He said "yes.|He is glad.|neutral|neutral\n'
)
MNLI_DEV = (
    "index|promptID|pairID|genre|sentence1_binary_parse|sentence2_binary_parse|sentence1_parse"
    "|sentence2_parse|sentence1|sentence2|label1|label2|label3|label4|label5|gold_label\n"
    "0|7|7e|{0}|( a )|( b )|(A)|(B)|A {0} text.|It is {0}.|neutral|entailment|entailment|entailment"
    "|entailment|entailment\n"
)
BOAT, CONTEXT = "The boat left Oslo on Monday.", "  Ann met Bo. Bo left. "
KOREAN = "세종은 1397년 서울에서 태어났다."

FILES: dict[str, dict[str, str]] = {
    "glue/cola": {
        "train.tsv": tabs('zz01|1||The kettle sang "all day.\nzz01|0|*|Kettle the sang.\n'),
        "dev.tsv": tabs("zz02|1||We slept well.\n"),
    },
    "glue/sst2": {
        "train.tsv": tabs('sentence|label\na quiet " delight |1\ndull and long |0\n'),
        "dev.tsv": tabs("sentence|label\nit never wakes up . |0\n"),
    },
    "glue/mrpc": {
        "msr_paraphrase_train.txt": "\ufeff"
        + tabs(
            "Quality|#1 ID|#2 ID|#1 String|#2 String\r\n"
            '1|11|12|"Rain fell," she said.|She said rain fell.\r\n'
            "0|21|22|Shares rose.|Shares fell.\r\n"
            "1|31|32|Two ships met.|A pair of ships met.\r\n"
        ),
        "mrpc_dev_ids.tsv": tabs("31|32\n12|11\n"),
    },
    "glue/qqp": {
        "train.tsv": tabs(
            "id|qid1|qid2|question1|question2|is_duplicate\n"
            "0|1|2|How do I bake?|How does one bake?|1\n"
            "1|3|4|What is snow?|Who is Snow?|0\n"
        ),
        "dev.tsv": tabs("id|qid1|qid2|question1|question2|is_duplicate\n5|6|7|Why?|How?|0\n"),
    },
    "glue/stsb": {
        "train.tsv": tabs(
            "index|genre|filename|year|old_index|source1|source2|sentence1|sentence2|score\n"
            "0|main-x|x|2012|1|none|none|A dog runs.|A dog is running.|3.800\n"
            "1|main-x|x|2012|2|none|none|A cat naps.|Rain falls.|0.000\n"
        ),
        "dev.tsv": tabs(
            "index|genre|filename|year|old_index|source1|source2|sentence1|sentence2|score\n"
            "0|main-x|x|2013|3|none|none|He waves.|He is waving.|4.583\n"
        ),
    },
    "glue/mnli": {
        "train.tsv": tabs(MNLI_TRAIN),
        "dev_matched.tsv": tabs(MNLI_DEV.format("travel")),
    },
    "glue/mnli-mm": {
        "train.tsv": tabs(MNLI_TRAIN),
        "dev_mismatched.tsv": tabs(MNLI_DEV.format("letters")),
    },
    "glue/qnli": {
        "train.tsv": tabs(
            "index|question|sentence|label\n"
            "0|Who left?|Ann left.|entailment\n1|Who left?|It rained.|not_entailment\n"
        ),
        "dev.tsv": tabs("index|question|sentence|label\n0|Who stayed?|Bo did.|entailment\n"),
    },
    "glue/rte": {
        "train.tsv": tabs(
            "index|sentence1|sentence2|label\n"
            "0|Oslo is in Norway.|Oslo is a place.|entailment\n"
            "1|It is hot.|It snows.|not_entailment\n"
        ),
        "dev.tsv": tabs("index|sentence1|sentence2|label\n0|Bo ran.|Bo sat.|not_entailment\n"),
    },
    "squad": {
        "train-v1.1.json": squad(
            "1.1", ("Boats", [(BOAT, [asked("q1", " When did it leave? ", ("Monday", 22))])])
        ),
        "dev-v1.1.json": squad(
            "1.1",
            (
                "People",
                [
                    (
                        CONTEXT,
                        [asked("q2", "Who left?", ("Bo", 10), ("Bo", 14), ("Bo", 14), (" Bo", 9))],
                    )
                ],
            ),
        ),
    },
    "squad_v2": {
        "train-v2.0.json": squad(
            "v2.0",
            (
                "Boats",
                [
                    (
                        BOAT,
                        [
                            asked("q1", "When?", ("Monday", 22), is_impossible=False),
                            asked(
                                "q3",
                                "When did it sink?",
                                is_impossible=True,
                                plausible_answers=[{"text": "Monday", "answer_start": 22}],
                            ),
                        ],
                    )
                ],
            ),
        ),
        "dev-v2.0.json": squad(
            "v2.0", ("People", [(CONTEXT, [asked("q4", "Who died?", is_impossible=True)])])
        ),
    },
    "korquad": {
        "KorQuAD_v1.0_train.json": squad(
            "KorQuAD_v1.0_train",
            ("세종", [(KOREAN, [asked("k1", "언제 태어났는가?", ("1397년", 4))])]),
        ),
        "KorQuAD_v1.0_dev.json": squad(
            "KorQuAD_v1.0_dev",
            ("서울", [(KOREAN, [asked("k2", "어디에서 태어났는가?", ("서울", 10))])]),
        ),
    },
    "conll2003": {
        "eng.train": (
            "-DOCSTART- -X- O O\n\n"
            "Ann NNP I-NP I-PER\nLee NNP I-NP I-PER\nBo NNP I-NP B-PER\nmet VBD I-VP O\n"
            "Oslo NNP I-NP I-LOC\nFC NNP I-NP I-ORG\n. . O O\n\n"
            "-DOCSTART- -X- O O\n\n"
            "Rain NN I-NP O\nfell VBD I-VP O\n"  # no empty line at the end
        ),
        "eng.testa": "-DOCSTART- -X- O O\n\nEU NNP I-NP I-ORG\n\n",
        "eng.testb": "-DOCSTART- -X- O O\n\nGerman JJ I-NP I-MISC\nrain NN I-NP O\n\n",
    },
    "swag": {
        "train.csv": (
            ",video-id,fold-ind,startphrase,sent1,sent2,gold-source,ending0,ending1,ending2,ending3"
            ",label\n"
            '0,v_1,1,A man sits. He,"A man sits, alone.",He,gold,"stands, then goes.",eats a hat.,'
            "flies.,sinks.,0\n"
        ),
        "val.csv": (
            ",video-id,fold-ind,startphrase,sent1,sent2,gold-source,ending0,ending1,ending2,ending3"
            ",label\n"
            "0,v_2,2,A dog barks. It,A dog barks.,It,gen,reads.,sings.,sails.,runs off.,3\n"
        ),
    },
}

COLA, NLI = ("unacceptable", "acceptable"), ("entailment", "neutral", "contradiction")
TWO_WAY = ("entailment", "not_entailment")
STRING = datasets.Value("string")


def glue_features(labels: tuple[str, ...], *texts: str) -> Any:
    label = datasets.ClassLabel(names=list(labels)) if labels else datasets.Value("float32")
    columns = dict.fromkeys(texts, STRING)
    return datasets.Features({**columns, "label": label, "idx": datasets.Value("int32")})


QA_FEATURES = datasets.Features(
    {
        **dict.fromkeys(("id", "title", "context", "question"), STRING),
        "answers": datasets.Sequence({"text": STRING, "answer_start": datasets.Value("int32")}),
    }
)
SWAG_COLUMNS = (
    "video-id fold-ind startphrase sent1 sent2 gold-source ending0 ending1 ending2 ending3"
)
FEATURES: dict[str, Any] = {
    "glue/cola": glue_features(COLA, "sentence"),
    "glue/sst2": glue_features(("negative", "positive"), "sentence"),
    "glue/mrpc": glue_features(("not_equivalent", "equivalent"), "sentence1", "sentence2"),
    "glue/qqp": glue_features(("not_duplicate", "duplicate"), "question1", "question2"),
    "glue/stsb": glue_features((), "sentence1", "sentence2"),
    "glue/mnli": glue_features(NLI, "premise", "hypothesis"),
    "glue/mnli-mm": glue_features(NLI, "premise", "hypothesis"),
    "glue/qnli": glue_features(TWO_WAY, "question", "sentence"),
    "glue/rte": glue_features(TWO_WAY, "sentence1", "sentence2"),
    "squad": QA_FEATURES,
    "squad_v2": QA_FEATURES,
    "korquad": QA_FEATURES,
    "conll2003": datasets.Features(
        {
            "id": STRING,
            "tokens": datasets.Sequence(STRING),
            "ner_tags": datasets.Sequence(
                datasets.ClassLabel(
                    names="O B-PER I-PER B-ORG I-ORG B-LOC I-LOC B-MISC I-MISC".split()
                )
            ),
        }
    ),
    "swag": datasets.Features(
        {
            **dict.fromkeys(SWAG_COLUMNS.split(), STRING),
            "label": datasets.ClassLabel(names=["0", "1", "2", "3"]),
        }
    ),
}
MNLI_ROWS = [
    ("Tom has a boat.", "Tom owns a boat.", 0),
    ("Tom has a boat.", "Tom owns nothing.", 2),
    ('He said "yes.', "He is glad.", 1),
]
# tuples are rows of GLUE: texts and label in the order of the columns
HUB: dict[str, dict[str, list[Any]]] = {
    "glue/cola": {
        "train": [('The kettle sang "all day.', 1), ("Kettle the sang.", 0)],
        "validation": [("We slept well.", 1)],
    },
    "glue/sst2": {
        "train": [('a quiet " delight ', 1), ("dull and long ", 0)],
        "validation": [("it never wakes up . ", 0)],
    },
    "glue/mrpc": {
        "train": [
            ('"Rain fell," she said.', "She said rain fell.", 1),
            ("Shares rose.", "Shares fell.", 0),
        ],
        "validation": [("Two ships met.", "A pair of ships met.", 1)],
    },
    "glue/qqp": {
        "train": [
            ("How do I bake?", "How does one bake?", 1),
            ("What is snow?", "Who is Snow?", 0),
        ],
        "validation": [("Why?", "How?", 0)],
    },
    "glue/stsb": {
        "train": [("A dog runs.", "A dog is running.", 3.8), ("A cat naps.", "Rain falls.", 0.0)],
        "validation": [("He waves.", "He is waving.", 4.583)],
    },
    "glue/mnli": {
        "train": MNLI_ROWS,
        "validation_matched": [("A travel text.", "It is travel.", 0)],
        "validation_mismatched": [("A letters text.", "It is letters.", 0)],
    },
    "glue/qnli": {
        "train": [("Who left?", "Ann left.", 0), ("Who left?", "It rained.", 1)],
        "validation": [("Who stayed?", "Bo did.", 0)],
    },
    "glue/rte": {
        "train": [("Oslo is in Norway.", "Oslo is a place.", 0), ("It is hot.", "It snows.", 1)],
        "validation": [("Bo ran.", "Bo sat.", 1)],
    },
    "squad": {
        "train": [hub_question("q1", "Boats", BOAT, " When did it leave? ", ("Monday", 22))],
        "validation": [
            hub_question(
                "q2", "People", CONTEXT, "Who left?", ("Bo", 10), ("Bo", 14), ("Bo", 14), (" Bo", 9)
            )
        ],
    },
    "squad_v2": {
        "train": [
            hub_question("q1", "Boats", BOAT, "When?", ("Monday", 22)),
            hub_question("q3", "Boats", BOAT, "When did it sink?"),
        ],
        "validation": [hub_question("q4", "People", CONTEXT, "Who died?")],
    },
    "korquad": {
        "train": [hub_question("k1", "세종", KOREAN, "언제 태어났는가?", ("1397년", 4))],
        "validation": [hub_question("k2", "서울", KOREAN, "어디에서 태어났는가?", ("서울", 10))],
    },
    "conll2003": {
        "train": [
            {
                "id": "0",
                "tokens": "Ann Lee Bo met Oslo FC .".split(),
                "ner_tags": [1, 2, 1, 0, 5, 3, 0],
            },
            {"id": "1", "tokens": ["Rain", "fell"], "ner_tags": [0, 0]},
        ],
        "validation": [{"id": "0", "tokens": ["EU"], "ner_tags": [3]}],
        "test": [{"id": "0", "tokens": ["German", "rain"], "ner_tags": [7, 0]}],
    },
    "swag": {
        "train": [
            dict(
                zip(
                    [*SWAG_COLUMNS.split(), "label"],
                    ["v_1", "1", "A man sits. He", "A man sits, alone.", "He", "gold"]
                    + ["stands, then goes.", "eats a hat.", "flies.", "sinks.", 0],
                    strict=True,
                )
            )
        ],
        "validation": [
            dict(
                zip(
                    [*SWAG_COLUMNS.split(), "label"],
                    ["v_2", "2", "A dog barks. It", "A dog barks.", "It", "gen"]
                    + ["reads.", "sings.", "sails.", "runs off.", 3],
                    strict=True,
                )
            )
        ],
    },
}
HUB["glue/mnli-mm"] = HUB["glue/mnli"]


def example(text: str, pair: str | None, label: float) -> Example:
    return Example(text, pair, label, source=text)


# (of the published train, of the published dev); of CoNLL train, dev and test
EXPECTED: dict[str, tuple[set[Any], ...]] = {
    "glue/cola": (
        {example('The kettle sang "all day.', None, 1), example("Kettle the sang.", None, 0)},
        {example("We slept well.", None, 1)},
    ),
    "glue/sst2": (
        {example('a quiet " delight', None, 1), example("dull and long", None, 0)},
        {example("it never wakes up .", None, 0)},
    ),
    "squad": (
        {Question("q1", "When did it leave?", BOAT, (("Monday", 22),), "Boats")},
        {Question("q2", "Who left?", "Ann met Bo. Bo left.", (("Bo", 8), ("Bo", 12)), "People")},
    ),
    "squad_v2": (
        {
            Question("q1", "When?", BOAT, (("Monday", 22),), "Boats"),
            Question("q3", "When did it sink?", BOAT, (), "Boats"),
        },
        {Question("q4", "Who died?", "Ann met Bo. Bo left.", (), "People")},
    ),
    "korquad": (
        {Question("k1", "언제 태어났는가?", KOREAN, (("1397년", 4),), "세종")},
        {Question("k2", "어디에서 태어났는가?", KOREAN, (("서울", 10),), "서울")},
    ),
    "conll2003": (
        {
            Tagged(
                tuple("Ann Lee Bo met Oslo FC .".split()),
                tuple("B-PER I-PER B-PER O B-LOC B-ORG O".split()),
                "Ann Lee Bo met Oslo FC .",
            ),
            Tagged(("Rain", "fell"), ("O", "O"), "Rain fell"),
        },
        {Tagged(("EU",), ("B-ORG",), "EU")},
        {Tagged(("German", "rain"), ("B-MISC", "O"), "German rain")},
    ),
    "swag": (
        {
            Choice(
                "A man sits, alone.",
                ("He stands, then goes.", "He eats a hat.", "He flies.", "He sinks."),
                0,
                "v_1",
            )
        },
        {Choice("A dog barks.", ("It reads.", "It sings.", "It sails.", "It runs off."), 3, "v_2")},
    ),
}
for _name in ("mrpc", "qqp", "stsb", "qnli", "rte", "mnli", "mnli-mm"):
    _rows = HUB[f"glue/{_name}"]
    _dev = {"mnli": "validation_matched", "mnli-mm": "validation_mismatched"}
    EXPECTED[f"glue/{_name}"] = tuple(
        {example(*row) for row in _rows[split]}
        for split in ("train", _dev.get(_name, "validation"))
    )


# -- tools


def write(folder: Path, name: str, **changed: str) -> Path:
    """Write the files of a benchmark; ``changed`` by "train", "dev" or "test"."""
    for part, (file, text) in zip(("train", "dev", "test"), FILES[name].items(), strict=False):
        (folder / file).write_bytes(changed.get(part, text).encode())
    return folder


def from_files(folder: Path, name: str, **changed: str) -> Splits:
    return benchmark(name, write(folder, name, **changed)).load()


Serve = Callable[..., None]


@pytest.fixture
def serve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Serve:
    """Put a data set on a Hub of our own: parquet files with the Hub's schema, and no network."""

    class Session:
        def head(self, *_: Any, **__: Any) -> None:
            return None

    monkeypatch.setattr("huggingface_hub.get_session", Session)
    original = datasets.load_dataset

    def put(name: str, rows: dict[str, list[Any]] | None = None, features: Any = None) -> None:
        features = features or FEATURES[name]
        files = {}
        for split, some in (rows or HUB[name]).items():
            some = [
                dict(zip(features, [*row, 0], strict=True)) if isinstance(row, tuple) else row
                for row in some
            ]
            files[split] = str(tmp_path / f"{split}.parquet")
            datasets.Dataset.from_list(some, features=features).to_parquet(files[split])

        def load(path: str, config: str | None = None) -> Any:
            assert (path, config) == BENCHMARKS[name].hub
            assert not datasets.config.HF_HUB_OFFLINE
            return original("parquet", data_files=files, cache_dir=str(tmp_path / "cache"))

        monkeypatch.setattr(datasets, "load_dataset", load)

    return put


def test_every_benchmark_is_tested() -> None:
    assert set(FILES) == set(FEATURES) == set(HUB) == set(EXPECTED) == set(BENCHMARKS)


# -- both ways


@pytest.mark.parametrize("name", BENCHMARKS)
def test_files_and_hub_give_the_same_examples(name: str, tmp_path: Path, serve: Serve) -> None:
    local = from_files(tmp_path, name)
    serve(name)
    hub = benchmark(name).load()
    assert local == hub
    found = [local["train"], local["dev"], local["test"]]
    if len(EXPECTED[name]) == 2:
        found = [[*local["train"], *local["dev"]], local["test"]]
    assert [set(some) for some in found] == list(EXPECTED[name])
    assert [len(some) for some in found] == [len(some) for some in EXPECTED[name]]
    two_texts = [e.pair is not None for some in local.values() for e in some if type(e) is Example]
    assert benchmark(name).pairs is any(two_texts)


def test_tags_have_the_numbers_of_the_hub() -> None:
    assert tuple(FEATURES["conll2003"]["ner_tags"].feature.names) == CONLL_TAGS


def test_classes_in_another_order_are_noticed(serve: Serve) -> None:
    """An entailment that is now called 2 would train well and score badly, without a word."""
    serve("glue/mnli", features=glue_features(NLI[::-1], "premise", "hypothesis"))
    with pytest.raises(TaskError, match="numbers its labels contradiction, neutral, entailment"):
        benchmark("glue/mnli").load()


# -- the splits


def sst2(lines: list[str]) -> str:
    return "sentence\tlabel\n" + "".join(f"{line}\t{i % 2}\n" for i, line in enumerate(lines))


def test_a_fixed_tenth_of_train_is_dev(tmp_path: Path) -> None:
    lines = [f"review number {i}" for i in range(1000)]
    splits = from_files(tmp_path, "glue/sst2", train=sst2(lines))
    check_examples(benchmark("glue/sst2"), splits)
    dev = {e.text for e in splits["dev"] if isinstance(e, Example)}
    assert 70 < len(dev) < 130
    assert len(splits["train"]) == 1000 - len(dev)
    assert [e.text for e in splits["test"] if isinstance(e, Example)] == ["it never wakes up ."]
    more = from_files(tmp_path, "glue/sst2", train=sst2(["new", *lines[::-1], "newer"]))
    again = {e.text for e in more["dev"] if isinstance(e, Example)}
    assert again - {"new", "newer"} == dev, "a text moved because of its neighbors"


def test_an_article_is_in_one_split(tmp_path: Path) -> None:
    def content(version: str, questions: int) -> str:
        return squad(
            version,
            *(
                (f"T{t}", [(f"T{t} {q}", [asked(f"{t} {q}", "What?")]) for q in range(questions)])
                for t in range(100)
            ),
        )

    found = {}
    for name, version, questions in (("squad", "1.1", 3), ("squad_v2", "v2.0", 4)):
        splits = from_files(tmp_path, name, train=content(version, questions))
        titles = {
            split: {e.context.split()[0] for e in splits[split] if isinstance(e, Question)}
            for split in ("train", "dev")
        }
        assert not titles["train"] & titles["dev"]
        assert 3 < len(titles["dev"]) < 20
        assert len(splits["train"]) + len(splits["dev"]) == 100 * questions
        found[name] = titles["dev"]
    assert found["squad"] == found["squad_v2"], "what one learns on, the other would select on"


def test_a_premise_and_a_video_are_in_one_split(tmp_path: Path) -> None:
    header = "index\tsentence1\tsentence2\tlabel\n"
    rows = [f"0\tpremise {i}\tpart {j}\tentailment\n" for i in range(100) for j in range(3)]
    splits = from_files(tmp_path, "glue/rte", train=header + "".join(rows))
    train, dev = ({e.text for e in splits[s] if isinstance(e, Example)} for s in ("train", "dev"))
    assert dev
    assert not train & dev
    header = FILES["swag"]["train.csv"].splitlines()[0] + "\n"
    rows = [f"0,v{i},1,x,Video {i} {j}.,He,gold,a,b,c,d,1\n" for i in range(100) for j in range(3)]
    splits = from_files(tmp_path, "swag", train=header + "".join(rows))
    train, dev = (
        {e.text.split()[1] for e in splits[s] if isinstance(e, Choice)} for s in ("train", "dev")
    )
    assert dev
    assert not train & dev


def test_both_mnli_differ_in_the_test_only(tmp_path: Path) -> None:
    matched = from_files(tmp_path, "glue/mnli")
    mismatched = from_files(tmp_path, "glue/mnli-mm")
    assert matched["train"] == mismatched["train"]
    assert matched["dev"] == mismatched["dev"]
    assert matched["test"] != mismatched["test"]


# -- answers


@pytest.mark.parametrize(("text", "start"), [("Bo", 9), ("Bob", 10), ("", 10), ("left", -3)])
def test_a_misplaced_answer_in_a_file_is_named(tmp_path: Path, text: str, start: int) -> None:
    content = squad("1.1", ("P", [(CONTEXT, [asked("q9", "Who?", ("Ann", 2), (text, start))])]))
    with pytest.raises(TaskError, match=rf"train-v1.1.json, row 1: question q9: .*{text!r}.*Fetch"):
        from_files(tmp_path, "squad", train=content)


def test_a_misplaced_answer_on_the_hub_is_left_out_and_counted(serve: Serve) -> None:
    """Its copy of KorQuAD has lost white space at the head of contexts, and so some answers."""
    rows = {
        "train": [
            hub_question("k1", "t", KOREAN, "무엇?", ("1397년", 5), ("서울", 10)),
            hub_question("k2", "t", KOREAN, "무엇?", ("1397년", 5)),
            hub_question("k3", "t", KOREAN, "무엇?", ("1397년", 4)),
        ],
        "validation": HUB["korquad"]["validation"],
    }
    serve("korquad", rows)
    with pytest.warns(UserWarning, match="1 of 3 rows are left out"):
        splits = benchmark("korquad").load()
    found = {e.name: e.answers for e in [*splits["train"], *splits["dev"]]}  # type: ignore[union-attr]
    assert found == {"k1": (("서울", 10),), "k3": (("1397년", 4),)}, "k2 has an answer, but where?"


# -- tags


@pytest.mark.parametrize(
    ("published", "expected"),
    [
        ("I-PER I-PER O I-PER", "B-PER I-PER O B-PER"),
        ("I-PER B-PER I-PER", "B-PER B-PER I-PER"),
        ("I-PER I-LOC I-LOC", "B-PER B-LOC I-LOC"),
        ("B-PER I-PER B-LOC O", "B-PER I-PER B-LOC O"),
        ("O I-MISC", "O B-MISC"),
    ],
)
def test_every_entity_begins_with_b(tmp_path: Path, published: str, expected: str) -> None:
    content = "".join(f"w{i} NN I-NP {tag}\n" for i, tag in enumerate(published.split()))
    splits = from_files(tmp_path, "conll2003", test=content)
    (example,) = splits["test"]
    assert isinstance(example, Tagged)
    assert " ".join(example.tags) == expected
    check_examples(benchmark("conll2003"), splits)


def test_a_tag_does_not_go_on_into_the_next_sentence(tmp_path: Path) -> None:
    content = "a NN I-NP I-PER\n\nb NN I-NP I-PER\n"
    splits = from_files(tmp_path, "conll2003", test=content)
    assert all(e.tags == ("B-PER",) for e in splits["test"])  # type: ignore[union-attr]


# -- rows that are known to be broken


def test_rows_without_text_or_label_are_left_out_and_counted(tmp_path: Path) -> None:
    broken = '"\tWhat is this ?\t0\n2\t5\t6\tWhat is a bird?\t\t0\n'
    with pytest.warns(UserWarning, match=r"train.tsv: 2 of 4 rows are left out"):
        splits = from_files(tmp_path, "glue/qqp", train=FILES["glue/qqp"]["train.tsv"] + broken)
    assert {*splits["train"], *splits["dev"]} == EXPECTED["glue/qqp"][0]
    undecided = FILES["glue/mnli"]["train.tsv"].replace("neutral\tcontradiction", "neutral\t-")
    with pytest.warns(UserWarning, match=r"train.tsv: 1 of 3 rows are left out"):
        splits = from_files(tmp_path, "glue/mnli", train=undecided)
    assert len([*splits["train"], *splits["dev"]]) == 2


def test_a_set_without_labels_is_refused(tmp_path: Path, serve: Serve) -> None:
    serve("glue/rte", {**HUB["glue/rte"], "validation": [("Bo ran.", "Bo sat.", -1)]})
    with pytest.raises(TaskError, match="test sets have no labels: use the dev set"):
        benchmark("glue/rte").load()


# -- what goes wrong


@pytest.mark.parametrize(
    ("name", "part", "content", "message"),
    [
        ("glue/sst2", "train", "text\tlabel\nfine\t1\n", "train.tsv has no 'sentence'"),
        ("glue/mnli", "dev", "sentence1\tsentence2\na\tb\n", "matched.tsv has no 'gold_label'"),
        ("glue/sst2", "train", "sentence\tlabel\nfine\t2\n", "row 1: label '2' is none of negat"),
        ("glue/cola", "train", "source\tlabel\tstar\tsentence\n", "label 'label' is none of unac"),
        ("glue/stsb", "dev", None, "score 7.0 is not between 0 and 5"),
        ("glue/rte", "dev", "", "none of its 0 rows"),
        ("squad", "train", "<html>", "train-v1.1.json, row 0: Expecting value"),
        ("squad", "train", "{}", "train-v1.1.json has no 'data'"),
        ("squad_v2", "dev", '{"data": [1]}', "dev-v2.0.json"),
        ("conll2003", "test", "Oslo NNP I-LOC\n", "eng.testb.*line 1 has 3 fields; four"),
        ("swag", "dev", "sent1,sent2\na,b\n", "val.csv has no 'label'"),
        ("glue/mrpc", "dev", "1\t2\n", r"\(dev\): none of its 0 rows"),
    ],
)
def test_another_layout_is_named(
    tmp_path: Path, name: str, part: str, content: str | None, message: str
) -> None:
    if content is None:
        content = FILES[name]["dev.tsv"].replace("4.583", "7.000")
    with pytest.raises(TaskError, match=message):
        from_files(tmp_path, name, **{part: content})


def test_missing_files_and_names_are_listed(tmp_path: Path) -> None:
    write(tmp_path, "conll2003")
    (tmp_path / "eng.testb").unlink()
    with pytest.raises(TaskError, match=r"no eng.testb in .*hold eng.train, eng.testa, eng.testb"):
        benchmark("conll2003", tmp_path).load()
    with pytest.raises(TaskError, match="no benchmark 'sst2': choose one of glue/cola, glue/sst2"):
        benchmark("sst2")


def test_without_a_network_it_fails_soon_and_says_what_to_fetch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Session:
        def head(self, *_: Any, **__: Any) -> None:
            raise OSError("no route")

    monkeypatch.setattr("huggingface_hub.get_session", Session)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path)
    began = time.perf_counter()
    with pytest.raises(TaskError) as caught:
        benchmark("swag").load()
    assert time.perf_counter() - began < 10
    assert "no network, and no cached copy of allenai/swag" in str(caught.value)
    assert "Or get train.csv, val.csv from https://github.com/rowanz/swagaf" in str(caught.value)
    assert not datasets.config.HF_HUB_OFFLINE, "later calls may have a network"


def test_what_the_hub_lacks_is_named(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    serve("glue/rte", {"train": HUB["glue/rte"]["train"]})
    with pytest.raises(TaskError, match="nyu-mll/glue rte validation is not on the Hub"):
        benchmark("glue/rte").load()

    def refuse(*_: Any) -> None:
        raise RuntimeError("Dataset scripts are no longer supported\nmore")

    monkeypatch.setattr(datasets, "load_dataset", refuse)
    with pytest.raises(TaskError, match=r"does not give .*\(Dataset scripts.*supported\)"):
        benchmark("squad").load()


def test_without_datasets_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(TaskError, match=r"pip install 'bertedu\[stream\]'.*train-v1.1.json"):
        benchmark("squad").load()
    assert from_files(tmp_path, "squad")["test"], "files need no datasets"


def test_metrics_are_those_of_the_paper() -> None:
    assert {name: benchmark(name).metric for name in BENCHMARKS} == {
        "glue/cola": "matthews",
        "glue/sst2": "accuracy",
        "glue/mrpc": "binary_f1",
        "glue/qqp": "binary_f1",
        "glue/stsb": "spearman",
        "glue/mnli": "accuracy",
        "glue/mnli-mm": "accuracy",
        "glue/qnli": "accuracy",
        "glue/rte": "accuracy",
        "squad": "f1",
        "squad_v2": "f1",
        "korquad": "character_f1",
        "conll2003": "f1",
        "swag": "accuracy",
    }


@pytest.mark.parametrize("name", BENCHMARKS)
def test_each_metric_is_one_that_its_kind_computes(name: str) -> None:
    task = benchmark(name)
    splits: Splits = {split: [] for split in ("train", "dev", "test")}
    kind = make_kind(task, splits)
    width = len(kind.columns)
    assert task.metric in kind.metrics(np.array([[1.0, 1.0, 1.0], [0.0, 0.0, 1.0]])[:, :width])
