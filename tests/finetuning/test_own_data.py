"""Data of one's own: what is read, how it is split, what is said, and what is refused."""

import csv
import io
import json
import random
import re
import unicodedata
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from bertedu.finetuning.examples import SPLITS, Question, Tagged, TaskError, plain
from bertedu.finetuning.own_data import Columns, OwnData, read_data
from bertedu.finetuning.tagging import split_words

WORDS = "ship bay wood river tax bill vote north song red old wide".split()


def table(count: int = 60, classes: int = 3) -> str:
    """A table of so many rows, each of one of some classes."""
    lines = ["text,label"]
    for n in range(count):
        words = random.Random(n).choices(WORDS, k=6)
        lines.append(f"{' '.join(words)} {n},class {n % classes}")
    return "\n".join(lines) + "\n"


def read(tmp_path: Path, content: str | bytes, name: str = "own.csv", **how: Any) -> OwnData:
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
    return read_data(path, **how)


def every(data: OwnData) -> list[Any]:
    return [example for split in SPLITS for example in data.splits[split]]


def texts(data: OwnData, split: str) -> list[str]:
    return [example.text for example in data.splits[split]]


# -- what is read


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf_8-sig", "cp949", "utf-16"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_every_dialect_of_a_table_is_the_same_data(
    separator: str, encoding: str, newline: str, tmp_path: Path
) -> None:
    """Excel writes ; and a byte order mark; quotes hold separators, line ends and quotes."""
    asked = "Why,,;;\t\t||?".replace(separator, "")
    content = table().replace("ship", "배").replace(",", separator).replace("text", f'"{asked}"')
    content += f'"a{separator} ""b""{newline}c"{separator}class 0{newline}{newline}'
    written = content.replace("\n", newline).replace("\r\r\n", "\r\n").encode(encoding)
    found = read(tmp_path, written, encoding=encoding.removesuffix("-sig"), columns=Columns(asked))
    assert found.task.labels == ("class 0", "class 1", "class 2")
    labels = {e.text: e.label for e in every(found)}
    assert len(labels) == 61
    assert labels[" ".join(f'a{separator} "b" c'.split())] == 0
    plain = read(tmp_path, table().replace("ship", "배"))
    assert labels.items() > {e.text: e.label for e in every(plain)}.items()


def test_a_pair_a_score_and_a_choice(tmp_path: Path) -> None:
    rows = [f"a {n},b {n},{n / 10},end {n},stop {n},{n % 2}" for n in range(30)]
    content = "\n".join(["one,two,score,first,second,right", *rows])
    pair = read(tmp_path, content, columns=Columns("one", "score", "two"))
    assert (pair.task.kind, pair.task.pairs) == ("regression", True)
    assert "'score' holds numbers" in pair.notes[-1]
    assert not read(tmp_path, content, columns=Columns("one", "score", "")).task.pairs
    assert read(tmp_path, scores(*(f"{n}.250" for n in range(1, 9)))).task.kind == "regression"
    assert {(e.text, e.pair, e.label) for e in every(pair)} == {
        (f"a {n}", f"b {n}", n / 10) for n in range(30)
    }
    choice = read(tmp_path, content, columns=Columns("one", "right", endings=("first", "second")))
    assert choice.task.kind == "choice"
    assert {(e.text, e.endings, e.label) for e in every(choice)} == {
        (f"a {n}", (f"end {n}", f"stop {n}"), n % 2) for n in range(30)
    }
    stars = read(tmp_path, content, columns=Columns("one", "right"))
    assert stars.task.labels == ("0", "1"), "few whole numbers are names"
    assert read(tmp_path, scores(*[*range(21)] * 3)).task.kind == "regression"
    assert read(tmp_path, content, columns=Columns("one", "right"), kind="score").task.labels == ()
    halves = read(tmp_path, scores("0,125", "1,250", "1,125", "2,500", ".25", "5e-05", "1E+2"))
    assert {e.label for e in every(halves)} == {0.125, 1.25, 1.125, 2.5, 0.25, 5e-5, 100}


def squad(nested: bool, shift: int = 0) -> str:
    flat: list[dict[str, Any]] = []
    for n in range(12):
        answers = [{"text": f"w{n}", "answer_start": 4 + shift}] if n % 6 else []
        flat.append({"id": str(n), "context": f"the w{n} sank", "question": f"what sank {n}?"})
        flat[-1] |= {"answers": answers, "is_impossible": not n % 3}
    if nested:
        parts = [[{"context": row.pop("context"), "qas": [row]}] for row in flat]
        return json.dumps(
            {"data": [{"title": f"t{n}", "paragraphs": p} for n, p in enumerate(parts)]}
        )
    for row in flat:  # a list of each, as the Hub has it
        row["answers"] = {key: [a[key] for a in row["answers"]] for key in ("text", "answer_start")}
    return "\n".join(map(json.dumps, flat))


@pytest.mark.parametrize(("nested", "name"), [(True, "own.json"), (False, "own.JSONL")])
@pytest.mark.parametrize("shift", [0, 2])
def test_questions_in_both_shapes_of_squad(
    nested: bool, name: str, shift: int, tmp_path: Path
) -> None:
    found = read(tmp_path, squad(nested, shift), name)
    questions: list[Question] = every(found)
    assert Counter(q.answers for q in questions)[()] == 4
    assert all(q.context[start:].startswith(text) for q in questions for text, start in q.answers)
    assert ("answers moved" in " ".join(found.notes)) == bool(shift)
    for one in ("0", None):  # of two files that were joined, or of none
        renamed = re.sub('"id": "[0-9]"', f'"id": {json.dumps(one)}', squad(nested))
        assert len({q.name for q in every(read(tmp_path, renamed, name))}) == 12
    rows = [json.loads(row) for row in squad(False).splitlines()]
    rows = [
        row | {"question": f"{n}: {row['question']}", "title": "one"} for row in rows for n in "abc"
    ]
    found = read(tmp_path, json.dumps({"data": rows}), "flat.json")
    train, test = ({q.context for q in found.splits[split]} for split in ("train", "test"))
    assert min(len(train), len(test)), "both have some"
    assert not train & test, "questions about one paragraph stay together"


@pytest.mark.parametrize("scheme", ["IOB1", "IOB2", "BIOES"])
def test_sentences_of_conll(scheme: str, tmp_path: Path) -> None:
    tags = {"IOB1": "I I", "IOB2": "B I", "BIOES": "B E"}[scheme].split()
    one = "\n".join(f"{w} NN x {t}-LOC" for w, t in zip(["New", "York"], tags, strict=True))
    blocks = [f"{one}\nsank NN x O\nn\u00a0{n} NN x O" for n in range(12)]
    found = read(tmp_path, "-DOCSTART- -X- -X- O\n\n" + "\n\n".join(blocks), "own.conll")
    assert found.task.labels == ("O", "B-LOC", "I-LOC")
    assert "one or two documents" in found.notes[-1]
    assert {e.tags for e in every(found)} == {("B-LOC", "I-LOC", "O", "O")}
    assert {e.words[3] for e in every(found)} == {f"n\u00a0{n}" for n in range(12)}
    apart = read(tmp_path, "\n\n".join(["-DOCSTART- O", *blocks[:2]] * 3), "own.conll")
    assert re.search(r"of test .*: 2 \(line (3, 8|15, 20|27, 32)\)", apart.notes[-1]), "a document"
    tabs = "\n\n".join(f"New York\tB-LOC\t\n{n}\tO" for n in range(12))
    spaced = read(tmp_path, tabs, "own.tsv", kind="tags")
    assert {(e.words[0], e.tags) for e in spaced.splits["train"]} == {("New York", ("B-LOC", "O"))}


# -- how it is split


def test_a_split_keeps_alike_rows_together_and_classes_in_proportion(tmp_path: Path) -> None:
    content = table(90) + table(30).partition("\n")[2].replace(" ", "  ").upper().replace(
        "CLASS  ", "class "
    )
    found = read(tmp_path, content)
    where: dict[str, set[str]] = {}
    for split in SPLITS:
        for text in texts(found, split):
            where.setdefault(text.lower(), set()).add(split)
        share = Counter(e.label for e in found.splits[split])
        assert max(share.values()) - min(share.values()) <= 6
    assert {len(some) for some in where.values()} == {1}
    assert not any("stand in train" in note for note in found.notes)
    assert texts(read(tmp_path, content), "test") == texts(found, "test")
    assert texts(read(tmp_path, content, seed=1), "test") != texts(found, "test")
    rare = read(tmp_path, table(1000, 1) + "a,rare\nb,rare\nc,rare\n")
    assert all({e.label for e in some} == {0, 1} for some in rare.splits.values())


def test_groups_stay_in_one_split(tmp_path: Path) -> None:
    lines = table(60).splitlines()
    content = "\n".join([lines[0] + ",who", *(f"{x},w{n % 12}" for n, x in enumerate(lines[1:]))])
    found = read(tmp_path, content, columns=Columns(group="who"))
    groups = [{e.source for e in found.splits[split]} for split in SPLITS]
    assert sum(map(len, groups)) == len(set.union(*groups)) == 12
    loose = read(tmp_path, re.sub("w1\n", "\n", content), columns=Columns(group="who"))
    assert sum(len({e.source for e in loose.splits[split]}) for split in SPLITS) == 11 + 5


def test_a_split_of_the_file_is_kept_and_its_leaks_are_counted(tmp_path: Path) -> None:
    lines = table(30).splitlines()
    names = ["train"] * 20 + ["valid"] * 5 + ["TEST"] * 5
    rows = [f"{x},{s}" for x, s in zip(lines[1:], names, strict=True)]
    rows.append(f"{lines[1].upper().replace('CLASS', 'class')},test")  # the first row again
    found = read(tmp_path, "\n".join(["text,label,part", *rows]), columns=Columns(split="part"))
    assert found.notes[0].endswith("3 classes, class 0, class 1, class 2; 20 train, 5 dev, 6 test")
    assert any("texts of test that stand in train: 1 " in note for note in found.notes)
    without = [row for row in rows if ",valid" not in row]
    found = read(tmp_path, "\n".join(["text,label,part", *without]), columns=Columns(split="part"))
    assert any("no dev split: drawn from train" in note for note in found.notes)
    without += [f"a ship {n},class {n % 3},test" for n in range(400)]
    found = read(tmp_path, "\n".join(["text,label,part", *without]), columns=Columns(split="part"))
    assert len(found.splits["dev"]) in (3, 4, 5), "a fifth of train, however large test is"


# -- what is one, and what is two


@pytest.mark.parametrize("head", ["sep=,\n", "\n", " \n\n"])
def test_what_a_spreadsheet_writes_above_the_names_is_no_row(head: str, tmp_path: Path) -> None:
    assert texts(read(tmp_path, head + table()), "test") == texts(read(tmp_path, table()), "test")
    with pytest.raises(TaskError, match=f"line {62 + head.count(chr(10))}: it has 3 cells"):
        read(tmp_path, head + table() + "a,b,c\n")


def test_a_letter_is_one_however_it_is_written(tmp_path: Path) -> None:
    """A Mac writes é as two characters. Marks above and below a letter, and smileys, tell apart."""
    apart = unicodedata.normalize("NFD", "été,prédit")
    names = ["café", unicodedata.normalize("NFD", "café"), "thé"]
    content = "\n".join([apart, *(f"ship {n},{names[n % 3]}" for n in range(30))])
    assert read(tmp_path, content, columns=Columns("été", apart[6:])).task.labels == ("café", "thé")
    for one, other in (("ดี", "ดู"), ("ok 😀", "ok 😡"), ("1 + 1", "1 1"), ("!", "?")):
        assert plain(one) != plain(other)
    assert plain("Le  CAFÉ…") == plain("le café!") == plain(unicodedata.normalize("NFD", "le café"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Ada Lovelace's red-panda, didn't it?", "Ada|Lovelace's|red-panda|,|didn't|it|?"),
        ("राहुल, می\u200cخواهم ไป\u200bมา", "राहुल|,|می\u200cخواهم|ไป|\u200b|มา"),
        (unicodedata.normalize("NFD", "José sank."), unicodedata.normalize("NFD", "José|sank|.")),
    ],
)
def test_a_word_that_is_tagged_is_whole(text: str, words: str) -> None:
    assert split_words(text) == tuple(words.split("|"))


# -- what is said, and what is refused


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (",class 1", "rows without 'text', left out: 1 (line 62)"),
        ("an old ship,", "rows without 'label', left out: 1"),
        ("<p>old</p> ship,class 1", "rows with HTML tags, which are read as text: 1"),
        ('"old ship,class 1\nand new",class 2', "rows of several lines, which quotes hold tog"),
        ('"old ship,class 1\rand new",class 2', "rows of several lines, which quotes hold tog"),
        ("ship 0 x,class 1\nship 0 x,class 2", "rows with the same text and another label: 2"),
    ],
)
def test_what_looks_wrong_is_said_and_costs_nothing(line: str, said: str, tmp_path: Path) -> None:
    found = read(tmp_path, table() + line)
    assert any(note.startswith(said) for note in found.notes), found.notes
    assert len(every(found)) >= 60


def scores(*labels: object) -> str:
    """A table with a score in each row."""
    return "\n".join(["text;label", *(f"ship {n};{label}" for n, label in enumerate(labels))])


PART = "\n".join(["text,label,part", *(f"ship {n},{n % 2},train" for n in range(9))])
IN_PARTS = {"columns": Columns(split="part")}
CONLL = "\n\n".join(f"w{n} B-X" for n in range(9))
REFUSED: list[tuple[str, str | bytes, dict[str, Any], str]] = [
    ("own.csv", "", {}, "no example with both"),
    ("own.csv", "text,label\n", {}, "no example with both"),
    ("own.csv", "message,,\na,b,c\n", {}, "it has 'message', 'column 2', 'column 3' (--text"),
    ("own.csv", "text,text\na,b\n", {}, "two columns are called 'text'"),
    ("own.csv", table() + "a,b,c\n", {}, "line 62: it has 3 cells"),
    ("own.csv", table() + '"a,b\n', {}, "never closed"),
    ("own.csv", table() + "a\0b,class 1\n", {}, "line 62: a NUL byte"),
    ("own.csv", table(9, 1), {}, "every row has the label 'class 0'"),
    ("own.csv", table() + "a,rare\n", {}, "the class 'rare' has 1 different text "),
    ("own.csv", table() + "a,Class 1\n", {}, "differ by capitals only"),
    ("own.csv", table(60, 60), {}, "60 different values in 60 rows"),
    ("own.csv", table(), {"kind": "score"}, "a score is a number"),
    ("own.csv", scores(*["0.5", "0.7"] * 9, "n/a"), {}, "line 20: 'n/a' in 'label' is no number"),
    ("own.csv", scores("9", "1,000", "1,100"), {"kind": "score"}, "line 3: is '1,000' a thousand"),
    ("own.csv", scores(*["0.5"] * 9), {}, "every row has the label '0.5'"),
    ("own.csv", PART.replace("train", "test"), IN_PARTS, "no row is left for the train split"),
    ("own.csv", PART + "\na,2,dev\nb,2,test\nc,2,dev", IN_PARTS, "of train has the label '2'"),
    ("own.csv", table(), {"kind": "choice"}, "a choice needs two endings or more"),
    ("own.csv", table(), {"columns": Columns("a", "b", "c", ("d",))}, "leave --text-b away"),
    ("own.csv", table(), {"kind": "words"}, "no kind 'words'"),
    ("own.csv", table(), {"kind": "answer"}, "in SQuAD's shape"),
    ("own.csv", table(), {"encoding": "utf-99"}, "no encoding 'utf-99'"),
    ("own.csv", table().replace("ship", "배가 간다").encode("cp949"), {}, "--encoding cp949"),
    ("own.csv", table().replace("ship", "café").encode("latin-1"), {}, "--encoding latin-1"),
    ("own.csv", table().replace("ship", "don’t").encode("cp1252"), {}, "--encoding cp1252"),
    ("own.csv", table().replace("ship", "КОРАБЛЬ" * 9).encode("cp1251"), {}, "cp1251 for Russian"),
    ("own.csv", table().encode("utf-16"), {}, "--encoding utf-16"),
    ("own.jsonl", squad(False), {"columns": Columns(split="x")}, "no columns to choose"),
    ("own.csv", table(), {"columns": Columns(endings=("text",))}, "a choice needs two endings"),
    ("own.csv", table(), {"columns": Columns(endings=("text", "text"))}, "a choice is a number"),
    ("own.csv", "text,label\na,2", {"columns": Columns(endings=("text",) * 2)}, "numbered 0 to 1"),
    ("own.csv", table(), {"columns": Columns(split="label")}, "train, dev or test?"),
    ("own.csv", scores("950", "1.200", "3.500", "87"), {}, "Write it as 1200 or as 1.2000"),
    ("own.json", "{}\n{}", {}, "no JSON; an object in each line wants the ending .jsonl"),
    ("own.json", '{"x": 1}', {}, "not in the shape of SQuAD"),
    ("own.json", squad(True).replace("question", "ask", 1), {}, "own.json, line 1: KeyError"),
    ("own.json", "[" * 100_000, {}, "it is no JSON"),
    ("own.jsonl", '{"text": "a", "label": "b"}', {}, "texts with labels want a table (.csv)"),
    ("own.jsonl", squad(False) + "\n[9" + "9" * 5000, {}, "own.jsonl, line 13: "),
    ("own.jsonl", squad(False).replace("sank", r"\ud800"), {}, "surrogates not allowed"),
    ("own.jsonl", squad(False).replace("[4]", "[1e999]"), {}, "infinity"),
    ("own.conll", CONLL + "\n\nalone", {}, "line 19: 'alone' has no tag"),
    ("own.conll", CONLL + "\n\na X-PLACE", {}, "line 19: the tag 'X-PLACE' is neither"),
    ("own.conll", CONLL.replace("B-X", "O"), {}, "nothing to find"),
    ("own.conll", CONLL.replace("B-X", "O", 8), {"seed": 4}, "all words of train have one tag"),
]


@pytest.mark.parametrize(("name", "content", "how", "said"), REFUSED)
def test_bad_data_is_refused_in_one_clear_line(
    name: str, content: str | bytes, how: dict[str, Any], said: str, tmp_path: Path
) -> None:
    with pytest.raises(TaskError) as error:
        read(tmp_path, content, name, **how)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_too_many_rows_are_refused_before_memory_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bertedu.finetuning.own_data.MAX_ROWS", 50)
    with pytest.raises(TaskError, match="--rows 100000 reads the first"):
        read(tmp_path, table())
    assert len(every(read(tmp_path, table(), rows=40))) == 40
    marked = table(40).replace("ship", "<b>ship</b>")
    assert read(tmp_path, marked, rows=40).notes == read(tmp_path, marked).notes != []
    assert len(every(read(tmp_path, table(45).replace("\n", "\n,no text\n" * 9, 1)))) == 45


# what is exchanged for some bytes of a file
BROKEN = [b"", b'"', b'""', b"\0", b"\n", b"\r", b",", b";;", b"\t", b"|", b"0,1", b"-1", b"\x1a"]
BROKEN += [b"\xff", b"\xfe\xff", b"\xef\xbb\xbf", b"\xa0", "가".encode(), "\u2028".encode()]
BROKEN += [b"x" * 70_000, b"9" * 5_000, b"1e999", b"NaN", b"null", b"[", b"{", rb"\ud800"]


def broken(content: bytes, dice: random.Random) -> bytes:
    """Exchange, cut, double and put in, at one to four places."""
    made = bytearray(content)
    for _ in range(dice.randint(1, 4)):
        at = dice.randrange(len(made) + 1)
        made[at : at + dice.choice([0, 0, 1, 1, 2, 3, 9, 200])] = dice.choice([*BROKEN, made[:99]])
    return bytes(made)


def found_or_refused(path: Path, **how: Any) -> OwnData | None:
    """Read a file; a refusal is one line of a TaskError, and all that is read can be used."""
    found, said = None, ""
    try:
        found = read_data(path, **how)
    except TaskError as error:
        said = str(error)
    assert "\n" not in said
    for example in every(found) if found else ():
        " ".join(example.texts).encode("utf-8")
    return found


@pytest.mark.parametrize("seed", range(200))
def test_a_broken_table_is_read_whole_or_refused(seed: int, tmp_path: Path) -> None:
    dice = random.Random(seed)
    separator, written = dice.choice([(",", "utf-8"), (";", "utf-8-sig"), ("\t", "utf-16")])
    encoding = dice.choice([written.removesuffix("-sig")] * 4 + ["latin-1", "cp949", "utf-16"])
    path = tmp_path / "own.csv"
    path.write_bytes(broken(table(20).replace(",", separator).encode(written), dice))
    found = found_or_refused(path, encoding=encoding)
    if found is None:
        return
    decoded = path.read_bytes().decode("utf-8-sig" if encoding == "utf-8" else encoding)
    outside = re.sub('"[^"]*"', "", decoded.splitlines()[0])
    rows = [*csv.reader(io.StringIO(decoded, ""), delimiter=max(",;\t|", key=outside.count))]
    there = sum(any(cell.strip() for cell in row) for row in rows[1:])
    without = sum(int(n) for n in re.findall(r"left out: (\d+)", " ".join(found.notes)))
    assert len(every(found)) == there - without, "a row is lost in silence"


OTHERS = {"own.json": squad(True), "own.jsonl": squad(False), "own.conll": CONLL}


@pytest.mark.parametrize("name", OTHERS)
def test_broken_questions_and_sentences_are_read_whole_or_refused(
    name: str, tmp_path: Path
) -> None:
    dice, path, reads = random.Random(name), tmp_path / name, 0
    for _ in range(100):
        path.write_bytes(broken(OTHERS[name].encode(), dice))
        found = found_or_refused(path)
        if found is None:
            continue
        reads += 1
        examples = every(found)
        without = sum(int(n) for n in re.findall(r"left out: (\d+)", " ".join(found.notes)))
        assert held(path) == without + sum(
            len(e.words) if isinstance(e, Tagged) else 1 for e in examples
        ), "something is lost in silence"
        for example in examples:
            if isinstance(example, Tagged):
                assert len(example.words) == len(example.tags)
                continue
            assert isinstance(example, Question)
            for text, start in example.answers:
                assert text
                assert example.context.startswith(text, start)
    assert 0 < reads < 100, "both ends are seen"


def held(path: Path) -> int:
    """Count the words or the questions of a file, by other means than the package's."""
    text = path.read_text(encoding="utf-8-sig")
    if path.suffix != ".json":
        return sum(bool(line.strip()) for line in text.split("\n"))
    data = json.loads(text)["data"]
    return sum(len(part["qas"]) for article in data for part in article["paragraphs"])
