"""`bertedu finetune FILE`, for all five kinds: what is said, what is written, what can be asked."""

import json
import random
import re
import shlex
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_finetuning as tiny
import torch
from called import one_line_error, run
from house import files_entered
from safetensors.torch import load_file, save_file

from bertedu.files import read_csv, write_csv
from bertedu.finetuning import own_model, saving
from bertedu.finetuning.examples import Choice, Example, Question, Tagged, TaskError
from bertedu.finetuning.finetune import Setup
from bertedu.finetuning.kinds import Answer
from bertedu.finetuning.own_data import Columns, OwnData, read_data
from bertedu.finetuning.saving import answer_table, load_finetuned
from bertedu.model.checkpoints import load_pretrained

WORDS = "the old man went to a house by river".split()


def rows() -> list[tuple[str, bool]]:
    """Forty texts, and whether the word that decides is in them."""
    dice, made = random.Random(0), []
    for n in range(40):
        words = dice.choices(WORDS, k=6)
        words[dice.randrange(6)] = "stone" if n % 2 else "garden"
        made.append((" ".join(words), bool(n % 2)))
    return made


def write(kind: str, folder: Path) -> list[str]:
    """Write data of a kind; return how `bertedu finetune` is asked to read it."""
    made = rows()
    if kind == "answer":
        asked = [
            {"context": text, "question": "what?", "id": str(n)}
            | {"answers": {"text": [text.split()[0]], "answer_start": [0]}}
            for n, (text, _) in enumerate(made)
        ]
        (folder / "own.jsonl").write_text("\n".join(map(json.dumps, asked)))
        return [str(folder / "own.jsonl")]
    if kind == "tags":
        blocks = [
            "\n".join(f"{w} {'B-X' if w == 'stone' else 'O'}" for w in t.split()) for t, _ in made
        ]
        (folder / "own.conll").write_text("\n\n".join(blocks))
        return [str(folder / "own.conll")]
    dash = "- " * (kind == "pair")
    lines = [
        f'"{dash}{t}","{t[::-1]}",{"yes" if y else "no"},{y + n / 100},{int(y)}'
        for n, (t, y) in enumerate(made)
    ]
    (folder / "own.csv").write_text("\n".join(["message,second,class,points,right", *lines]))
    how = {
        "class": "--label class",
        "pair": "--label class --text-b second",
        "score": "--label points",
        "choice": "--label right --ending message --ending second",
    }
    return ["--csv", str(folder / "own.csv"), "--text", "message", *how[kind].split()]


def own_data(folder: Path, label: str = "class") -> OwnData:
    """Write a table, and read it with one of its labels."""
    write("class", folder)
    return read_data(folder / "own.csv", Columns("message", label))


def asked_again(mine: own_model.OwnModel, folder: Path) -> list[Answer]:
    """Save a model, open it, and ask it about the texts of test."""
    mine.save(folder)
    loaded = load_finetuned(folder)
    return [loaded.ask(e.text) for e in mine.data.splits["test"]]


@pytest.fixture
def checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    brief = replace(own_model.UNTIL_DEV_STOPS, epochs=2, min_steps=1)
    monkeypatch.setattr(own_model, "UNTIL_DEV_STOPS", brief)
    monkeypatch.setattr(own_model, "DRAWS", 20)
    return tiny.save_bert(tmp_path / "tiny")


@pytest.mark.parametrize("kind", ["class", "pair", "score", "choice", "answer", "tags"])
def test_from_a_file_to_a_model_that_answers(kind: str, checkpoint: Path, tmp_path: Path) -> None:
    out = tmp_path / "mine"
    if replaced := kind in ("class", "score"):
        out.mkdir()
        (out / "finetuning.json").write_text("{}")
        (out / "confusion.png").touch()
    lora = ["--lora", 2] * (kind == "tags")
    said = run("finetune", *write(kind, tmp_path), *lora, "--from", checkpoint, "--out", out)
    assert said.exit_code == 0, said.output
    berts = load_pretrained(checkpoint).bert, load_finetuned(out).model.encoder.bert
    keys = [bert.encoder.layers[0].attention.key.weight for bert in berts]
    assert torch.equal(*keys) == (kind == "tags")
    assert ("which this one will replace" in said.stdout) == replaced
    for line in ("24 train, 8 dev, 8 test", "majority", "word counts", "minus counting"):
        assert line in said.stdout
    last = said.stdout.strip().splitlines()[-1]
    assert last.startswith("try it: bertedu predict")
    answered = run(*shlex.split(last)[3:])
    assert (answered.exit_code, bool(answered.stdout.strip())) == (0, True), answered.output
    assert (out / "confusion.png").exists() == (kind in ("class", "pair"))
    (scores,) = json.loads((out / "finetuning.json").read_text())["test"].values()
    assert {"majority", "word counts", str(checkpoint)} == {*scores}
    assert all(f"{name:<17}{score:7.3f}  " in said.stdout for name, score in scores.items())
    assert ("', said '" in said.stdout) == (kind in ("answer", "choice")), "what is wrong is shown"


def test_a_whole_table_is_answered_and_no_row_is_lost(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saving, "_TOGETHER", 7)
    table, model, out = tmp_path / "own.csv", tmp_path / "mine", tmp_path / "said.csv"
    run("finetune", *write("class", tmp_path), "--from", checkpoint, "--out", model)
    before = [row | {"é": "one\nmore"} for row in read_csv(table)]
    before[3]["message"] = " "
    write_csv(table, before, "\ufeff")
    table.write_bytes(table.read_bytes().replace(b"one\n", b"one\r"))
    said = run("predict", model, "--csv", table, "--text", "message", "--out", out)
    assert said.exit_code == 0, said.output
    assert f"{len(before) - 1} of {len(before)} rows" in said.output
    assert out.read_bytes()[:3] == table.read_bytes()[:3], "a mark stays"
    after = read_csv(out)
    assert [{name: row[name] for name in before[0]} for row in after] == before
    for row in [*after[:3], *after[4:9]]:
        alone = run("predict", model, row["message"]).stdout.strip()
        assert alone == f"{row['predicted']} ({float(row['probability']):.0%})"
    assert not after[3]["predicted"]
    again = "predict", model, "--csv", table, "--text", "message", "--out"
    assert "is there, and will be replaced" in run(*again, out).stdout
    assert read_csv(out) == after
    (odd := tmp_path / "odd.csv").write_text("text\n배\n", encoding="cp949")
    run("predict", model, "--csv", odd, "--encoding", "cp949", "--out", f"{odd}.csv")
    assert Path(f"{odd}.csv").read_text(encoding="utf-8").startswith("\ufefftext,predicted")
    (tmp_path / "bare.csv").write_text('text\na\n""\nb\n')
    assert "2 of 3 rows" in run("predict", model, "--csv", tmp_path / "bare.csv").output
    (tmp_path / "bare.csv").write_text("text\n")
    for words, error in {
        ("--csv", table, "--text", "message", "--out", table): "the table itself",
        ("--csv", table, "--text", "message", "--out", tmp_path): "is a folder",
        (): "give a text",
        ("a", "--csv", table): "give a text",
        ("--csv", table): "no column 'text'",
        ("--csv", tmp_path / "bare.csv"): "has no row",
        ("--csv", out, "--text", "message"): "a column 'predicted' already",
        ("--csv", table, "--text", "message", "--text", "e\u0301"): "give one text",
    }.items():
        refused = run("predict", model, *words)
        assert refused.exit_code
        assert error in refused.output


def test_the_table_and_the_worst_are_those_of_the_answers(checkpoint: Path, tmp_path: Path) -> None:
    """One word decides, and counting finds it. From a row to an answer few files are entered."""
    with files_entered() as files:
        mine = own_model.fit(data := own_data(tmp_path), str(checkpoint), progress=False)
        mine.save(tmp_path / "mine")
    with files_entered() as asked:
        answer_table(load_finetuned(tmp_path / "mine"), f"{tmp_path}/own.csv", ["message"])
    assert {"finetuning/own_data.py", "model/attention.py"} <= files
    assert len(files) <= 21, sorted(files)
    assert len(asked) <= 14, sorted(asked)
    truth = [int(e.label) for e in data.splits["test"]]
    said = [int(answer.value) for answer in mine.answers[mine.model]]
    right = sum(a == b for a, b in zip(truth, said, strict=True))
    *_, counted, own, gap = (line.split() for line in mine.table().splitlines())
    assert own[1] == f"{right / len(truth):.3f}"
    assert float(counted[2]) > 0.8
    assert float(gap[2]) == pytest.approx(float(own[1]) - float(counted[2]), abs=0.002)
    assert len(mine.worst()) == len(truth) - right
    assert all(text.split(":")[0] in ("yes, said no", "no, said yes") for text in mine.worst())
    assert (mine.notes, mine.recipe.learning_rate) == ([], 3e-4)
    assert mine.try_it("x").split("'")[1] == min((e.text for e in data.splits["test"]), key=len)
    again, other = (own_model.fit(data, str(checkpoint), seed=n, progress=False) for n in (0, 1))
    assert again.table() == mine.table()
    assert again.answers[mine.model] != other.answers[mine.model]


PLACE = Question("q", "who?", "It sank", (("It", 0),))
MISTAKES: list[list[tuple[Any, Answer, str]]] = [
    [
        (Tagged(("a", "ship"), ("B-X", "B-X")), Answer("OO"), "a[B-X, said O] ship[B-X, said O]"),
        (Tagged(("a", "ship"), ("O", "B-X")), Answer("OO"), "a ship[B-X, said O]"),
    ],
    [
        (Choice("It", ("sank", "flew"), 0), Answer(1, (0.2, 0.8)), "'sank', said 'flew': It"),
        (Choice("It", ("sank", "flew"), 1), Answer(0, (0.6, 0.4)), "'flew', said 'sank': It"),
    ],
    [
        (PLACE, Answer("", no_answer=-3), "'It', said '': who?"),
        (replace(PLACE, answers=()), Answer("It"), "'no answer', said 'It': who?"),
        (PLACE, Answer("the it"), ""),  # as the table counts
    ],
    [
        (Example("It", "x" * 999, 3), Answer(1), f"3.00, said 1.00: It | {'x' * 217}…"),
        (Example("It sank", None, 2), Answer(0.0035), "2.00, said 0.0035: It sank"),
    ],
]


@pytest.mark.parametrize("rows", MISTAKES)
def test_mistakes_are_told_with_truth_and_answer_the_worst_first(rows: list[Any]) -> None:
    examples, answers, lines = zip(*reversed(rows), strict=True)
    data, said = OwnData(tiny.rating_task()[0], {"test": examples}), {"m": [*answers]}
    mine = own_model.OwnModel(data, "m", own_model.UNTIL_DEV_STOPS, None, said, [])
    assert mine.worst() == [line for line in reversed(lines) if line]


def test_an_interval_holds_95_of_a_hundred_draws() -> None:
    """The first score is that of the test itself, and no draw."""
    scores = np.array([9.0, *np.arange(101.0)])
    assert own_model._interval(scores, ".2f") == "2.50 to 97.50"
    assert own_model._interval(np.ones(9), ".2f") == "not known from so few"


TABLE = ("own.csv", "--text", "message", "--label", "class")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "name a file, or a benchmark"),
        (("a.csv", "--csv", "b.csv"), "name a file, or a benchmark"),
        (("a.csv", "--learning-rate", "-1"), "--learning-rate"),
        (("none.csv",), "cannot read none.csv"),
        (("glue/sst2", "--rows", "5"), "is read as published: leave --rows"),
        ((*TABLE, "--device", "abacus"), "abacus"),
        ((*TABLE, "--out", "own.csv"), "own.csv"),
        ((*TABLE, "--out", "pretrained"), "a model that is not a fine-tuned one"),
        ((*TABLE, "--seed", "-1"), "--seed -1 should be"),
        ((*TABLE, "--lora", "0"), "--lora"),
    ],
)
def test_bad_orders_are_refused_before_any_work(
    words: tuple[str, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(own_model, "fit", lambda *_, **__: pytest.fail("it went to work"))
    write("class", tmp_path)
    (tmp_path / "pretrained").mkdir()
    (tmp_path / "pretrained" / "config.json").write_text("{}")
    result = run("finetune", *words)
    assert result.exit_code in (1, 2)
    assert isinstance(result.exception, SystemExit)
    assert said in result.output


def test_a_score_is_learned_in_any_unit(checkpoint: Path, tmp_path: Path) -> None:
    """In thousands, far from 0: what is answered, and saved, is as good as in tenths."""
    data = own_data(tmp_path, "points")
    first = own_model.fit(data, str(checkpoint), progress=False)
    for split, some in data.splits.items():
        data.splits[split] = [replace(e, label=1000 * e.label - 5000) for e in some]
    other = own_model.fit(data, str(checkpoint), progress=False)
    said, thousands = ([a.value for a in mine.answers[mine.model]] for mine in (first, other))
    assert thousands == pytest.approx([1000 * value - 5000 for value in said], abs=0.02)
    again = [answer.value for answer in asked_again(other, tmp_path / "mine")]
    assert again == pytest.approx(thousands, rel=1e-4)


def test_what_cannot_be_saved_is_refused_before_it_is_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_model, "run_once", lambda *_, **__: pytest.fail("it went to work"))
    write("class", tmp_path)
    table, elmo, out = tmp_path / "own.csv", tiny.save_elmo(tmp_path / "el+mo", 4), tmp_path / "new"
    result = run("finetune", table, *TABLE[1:], "--from", elmo, "--out", out / "mine")
    assert "is no single BERT" in one_line_error(result)
    assert not out.exists(), "no empty folder is left"


def test_a_model_is_written_before_it_is_told_of(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_model.OwnModel, "table", lambda _: 1 / 0)
    run("finetune", *write("class", tmp_path), "--from", checkpoint, "--out", tmp_path / "mine")
    assert load_finetuned(tmp_path / "mine")


def test_long_texts_are_counted(checkpoint: Path, tmp_path: Path) -> None:
    write("class", tmp_path)
    path = tmp_path / "own.csv"
    path.write_text(path.read_text() + f"\n{'house ' * 200},x,yes,1,1")
    data = read_data(path, Columns("message", "class"))
    (note,) = own_model.fit(data, str(checkpoint), progress=False).notes
    assert note.startswith("1 of 41 texts are longer than 128 word pieces")
    path.write_text(path.read_text().replace("garden", "정원 나무 꽃 물"))
    notes = own_model.fit(read_data(path, Columns("message", "class")), str(checkpoint)).notes
    assert re.match(r"[23]\d% of the word pieces are \[UNK\]", notes[-1])


def test_lora_moves_queries_values_and_new_layer_alone(checkpoint: Path, tmp_path: Path) -> None:
    two = {f"encoder.layers.0.attention.{name}.weight" for name in ("query", "value")}
    before = load_pretrained(checkpoint).bert.state_dict()
    for rate, moved in ((0.0, set[str]()), (0.05, two)):  # at the rate that is asked for
        mine = own_model.fit(own_data(tmp_path), str(checkpoint), rate, progress=False, lora=2)
        after = mine.run.model.encoder.bert.state_dict()
        assert {name for name, w in after.items() if not torch.equal(w, before[name])} == moved
    tensors = load_file(checkpoint / "model.safetensors")
    bare = shutil.copytree(checkpoint, tmp_path / "bare") / "model.safetensors"
    save_file({name: t for name, t in tensors.items() if "pooler" not in name}, bare)
    new = own_model.fit(own_data(tmp_path), str(bare.parent), progress=False, lora=2)
    assert new.run.model.encoder.bert.pooler.dense.bias.any(), "what its file lacks learns, too"
    said = [answer.probabilities for answer in asked_again(mine, tmp_path / "mine")]
    trained = [answer.probabilities for answer in mine.answers[mine.model]]
    torch.testing.assert_close(torch.tensor(said), torch.tensor(trained), atol=1e-4, rtol=1e-4)
    with pytest.raises(TaskError, match="LoRA is a way to fine-tune"):
        Setup(str(checkpoint), "frozen", lora=2)
