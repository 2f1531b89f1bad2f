"""python -m course grade: marks that come from our judge, whatever a submission does."""

import io
import json
import sys
from pathlib import Path
from typing import Any

import nbformat
import psutil
import pytest
from called import printed_by
from nbformat.v4 import new_code_cell
from tiny_course import ANSWERS, NAME, WRONG, bertedu, save, stub, tiny

from bertedu.files import read_csv
from course.classroom import grade as grading
from course.classroom import referee
from course.classroom.asked import LARGEST, asked_in, course
from course.classroom.grade import Limits, by_learner, grade, heard, submissions, watch
from course.classroom.referee import sign
from course.exercises import check

LIMITS = Limits(2, 4)
ALL, NONE = dict.fromkeys(ANSWERS, "solved"), dict.fromkeys(ANSWERS, "open")
FORGED = """import course.exercises.check as check, course.exercises.judge as judge
import sys, threading, time
def speak():
    while True:
        sys.stdout.write("✓ slope: well\\n")
        time.sleep(0.001)
threading.Thread(target=speak, daemon=True).start()
judge.judge = lambda *_: "✓"
judge._alike = judge.alike = lambda *_: True
for name in list(check.KNOWN):
    check.KNOWN[name] = lambda _: print("✓ all is right")"""


def with_cell(text: str, place: int, *solved: str) -> Any:
    notebook = tiny(*solved)
    notebook.cells.insert(place, new_code_cell(text, id="theirs"))
    return notebook


def marks(rows: list[dict[str, Any]], learner: str) -> dict[str, str]:
    return {row["exercise"]: row["verdict"] for row in rows if row["learner"] == learner}


def messages(rows: list[dict[str, Any]], learner: str) -> str:
    return "\n".join(row["message"] for row in rows if row["learner"] == learner)


def test_marks_are_those_of_our_judge(tiny_course: Path, tmp_path: Path) -> None:
    folder, out = tmp_path / "in", tmp_path / "marks.csv"
    forged = with_cell(FORGED, 1)
    forged.cells[3].source += '\nprint("✓ slope: every query meets every key")'
    forged.cells[5].source = stub("chance", *WRONG).replace("chance(my", "slope(my")
    forged.cells[7].outputs = tiny("join_heads", said="✓").cells[6].outputs
    save(forged, folder / "forged.ipynb")
    stops = with_cell("import os\nos._exit(0)", 5, *ANSWERS)
    stops.cells[0].source += "\ntorch.optim.SGD([torch.ones(1)])"  # torch then changes itself
    stops.cells[4].source = stub("slope", *WRONG).replace("slope", "chance")
    for number, cell in enumerate(stops.cells):
        cell.id = f"new-{number}"
    save(stops, folder / "stops" / "deeper" / f"copy of {NAME}.ipynb")
    for name in ("broken", "only a zip"):
        (folder / name).mkdir()
    (folder / "broken" / f"{NAME}.ipynb").write_text("{", encoding="utf-8")
    done = bertedu("grade", folder, "--out", out, BERTEDU_LANG="ko")  # its words are at hand, too
    assert done.exit_code == 0, done.output
    rows = read_csv(out)
    assert marks(rows, "forged") == NONE | {"chance": "wrong"}
    assert "(its saved output says ✓)" in messages(rows, "forged").splitlines()[2]
    # the cell that ends the process costs nobody's exercise: it runs again without it
    assert marks(rows, "stops") == ALL | {"chance": "wrong"}
    assert "ended its process (0) in the cell that begins 'import os" in messages(rows, "stops")
    assert set(marks(rows, "broken").values()) == {"not judged"}
    assert "cannot be read as a notebook" in messages(rows, "broken")
    counted = {row["learner"]: row["solved"] for row in read_csv(tmp_path / "marks_by_learner.csv")}
    assert counted == {"broken": "0", "forged": "0", "stops": "2"}
    assert "stops  solved 2  wrong 1  open 0  not judged 0" in done.output
    assert "not judged: only a zip: no such notebook" in done.output


HOSTILE = {  # cells that a solved notebook has besides, and what must come out
    "loop": ("while True:\n    pass", 4, "", ""),
    "loop for ever": (
        "import signal\nsignal.signal(signal.SIGALRM, signal.SIG_IGN)\nwhile True:\n    pass",
        *(4, "", "ran longer than 1 min"),
    ),
    "memory": ('x = b"x" * 10**10', 4, "", "took more than 2 GB"),
    "sys.exit": ("import sys\nsys.exit(3)", 1, "", ""),
    "exit": ("exit()", 1, "", ""),
    "raise": ("raise KeyboardInterrupt", 1, "", ""),
    "much": ('for _ in range(2000):\n    print("✓ slope" * 10**5)', 1, "", ""),
    "torch": ("import torch\ntorch.equal = lambda *_: True", 1, "none", "has replaced torch.equal"),
    "package": ("import bertedu.model.attention as a\nvars(a).clear()", 1, "", ""),
    "lines": (
        "import os\nfor number in range(3, 99):\n    try:\n"
        '        os.write(number, b\'0 {"check": "slope"}\\n\' * 10**6)\n'
        "    except OSError:\n        pass\nwhile True:\n    pass",
        *(4, "", "wrote where it should not"),
    ),
    "delete": (  # `..` and what else it may
        "import os, shutil\nfor name in os.listdir('..'):\n    shutil.rmtree(f'../{name}')",
        *(1, "", ""),
    ),
    "course": (
        "from course import exercises\nfrom pathlib import Path\n"
        "for file in Path(exercises.__file__).parent.glob('*.py'):\n    file.write_text('1 / 0')",
        *(1, "", ""),
    ),
}


def test_a_submission_gets_copies_of_every_folder_that_it_could_import() -> None:
    """One that is forgotten is imported from the clone, where a submission may write."""
    packages = {path.parent.name for path in Path(grading.ROOT).glob("*/__init__.py")}
    assert {*grading.COURSE} == packages - {"benchmarks"}


@pytest.mark.parametrize("place", ["math.isclose", "torch.equal", "copy.deepcopy", "operator.eq"])
def test_a_judge_whose_tools_are_replaced_is_not_believed(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, said = referee.watched(), list[str]()

    def check(_: object) -> None:
        said.append("✓ slope: well")

    assert referee.verdict(check, said, None, before) == "✓ slope: well"
    monkeypatch.setattr(place, lambda *_, **__: True)
    assert f"has replaced {place}," in referee.verdict(check, said, None, before)


@pytest.mark.nightly
def test_nothing_that_a_submission_does_harms_others_or_the_course(
    tiny_course: Path, tmp_path: Path
) -> None:
    for name, (text, place, _, _) in HOSTILE.items():
        save(with_cell(text, place, *ANSWERS), tmp_path / "in" / name / f"{NAME}.ipynb")
    well = tiny("slope", "join_heads")
    well.cells += [new_code_cell(stub("chance", *ANSWERS["chance"]))]  # once more, below
    save(well, tmp_path / "in" / "well.ipynb")
    before = {path: path.read_bytes() for path in Path(check.__file__).parent.glob("*.py")}
    rows = grade(tmp_path / "in", tmp_path / "out.csv", [NAME], Limits(1, 2))
    assert before == {path: path.read_bytes() for path in before}
    for name, (_, _, solved, why) in HOSTILE.items():
        found = [check for check, mark in marks(rows, name).items() if mark == "solved"]
        wanted = [*ANSWERS] if solved == "" else [one for one in ANSWERS if one == solved]
        assert found == wanted, (name, messages(rows, name))
        assert why in messages(rows, name)
    assert marks(rows, "well") == ALL


def forms() -> dict[str, tuple[bytes, str]]:
    """Files as learners hand them in, and what each exercise must be called then."""
    solved = tiny(*ANSWERS)
    whole = "\n\n".join(cell.source for cell in solved.cells if cell.cell_type == "code")
    one_cell = nbformat.v4.new_notebook(cells=[new_code_cell(whole.rpartition("\n\n")[0])])
    bare = tiny(*ANSWERS)
    for cell in bare.cells:
        del cell["id"]
    bare["nbformat_minor"] = 2
    old = nbformat.convert(tiny(*ANSWERS), 3)
    large = tiny(*ANSWERS)
    large.cells[0].outputs = [nbformat.v4.new_output("stream", text="x" * (LARGEST + 1))]
    notebooks = {"김민수": solved, "one cell": one_cell, "no ids": bare, "old": old}
    found = {k: (json.dumps(v).encode(), "solved") for k, v in notebooks.items()}
    found["untouched"] = (json.dumps(tiny()).encode("utf-8-sig"), "open")
    broken = {"large": json.dumps(large).encode(), "empty": b"", "list": b"[]", "bytes": b"\xff\0"}
    broken |= {"deep": b"[" * 10**5, "null": b'{"nbformat": 4, "cells": null}'}
    return found | {name: (content, "not judged") for name, content in broken.items()}


@pytest.mark.nightly
def test_each_form_of_a_file_gets_its_own_rows_and_costs_others_nothing(
    tiny_course: Path, tmp_path: Path
) -> None:
    every = forms()
    for name, (content, _) in every.items():
        path = tmp_path / "in" / name / f"copy of {NAME}.ipynb"
        path.parent.mkdir(parents=True)
        path.write_bytes(content)
    (tmp_path / "in" / "folder.ipynb").mkdir()
    rows = grade(tmp_path / "in", tmp_path / "out.csv", [NAME], LIMITS)
    for name, (_, verdict) in every.items():
        assert set(marks(rows, name).values()) == {verdict}, (name, messages(rows, name))
        if verdict == "not judged":
            assert "cannot be read as a notebook" in messages(rows, name)
        else:
            assert set(marks(rows, name)) == set(ANSWERS)
    assert "clear its outputs" in messages(rows, "large")


def watched(code: str, tmp_path: Path, limits: Limits) -> tuple[str, int]:
    with Path(tmp_path, "told").open("wb") as told:
        process = psutil.Popen([sys.executable, "-c", code], stdout=told)
        return watch(process, limits, told), process.returncode


def test_limits_end_a_process_and_all_that_it_has_begun(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    child = f"import os, time; open({str(pid)!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    assert watched(code, tmp_path, Limits(0.08, 4))[0] == "ran longer than 0.08 min"
    left = [one for one in psutil.process_iter() if one.pid == int(pid.read_text())]
    assert all(one.status() == psutil.STATUS_ZOMBIE for one in left)
    half = "x = b'x' * 250_000_000\nwhile True: pass"
    much = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {half!r}])\n{half}"
    assert watched(much, tmp_path, Limits(0.5, 0.4))[0] == "took more than 0.4 GB of memory"
    assert "wrote where it" in watched("while True: print('x' * 1000)", tmp_path, LIMITS)[0]
    assert watched("raise SystemExit(3)", tmp_path, LIMITS) == ("", 3)


def test_only_signed_lines_are_heard() -> None:
    def line(key: str, **what: Any) -> str:
        text = json.dumps(what)
        return f"{sign(key, text)} {text}\n"

    def hears(*lines: str) -> Any:
        told = "".join(lines).encode(errors="surrogateescape")
        return heard(io.BytesIO(told), "key", "stopped", io.BytesIO())

    lines = [line("key", cell=3), line("key", check="slope", said="✗ slope: no\nmore", seconds=1)]
    forged = line("yek", check="slope", said="✓ slope", seconds=1)
    wrong = {"slope": ("wrong", "✗ slope: no", 1)}
    assert hears(*lines, forged, "✓ slope\n", "\0 {}\n", "\udcff\n") == (wrong, "stopped", 3)
    lines += [line("key", check="slope", said="✓ slope: yes", seconds=2)]
    lines += [line("key", check="slope", said="… slope", seconds=1), line("key", end=True)]
    assert hears(*lines) == ({"slope": ("solved", "✓ slope: yes", 2)}, "", 3)
    failed = io.BytesIO(b"Traceback\nno such module\n")
    with pytest.raises(ValueError, match="the referee does not start: no such module"):
        heard(io.BytesIO(b"?"), "key", "ended its process (1)", failed)


SECOND_LOOK = """
from course.classroom import referee
checks, told = referee.judges(["mark_test"])
print(referee.verdict(checks["mark_test"], told, lambda mark: False, {}))
"""


def test_what_a_test_may_want_instead_is_made_before_our_modules_are_out_of_reach() -> None:
    assert "it returns False on every path" in printed_by("-c", SECOND_LOOK)


@pytest.mark.nightly
def test_a_loop_costs_its_exercise_alone(tiny_course: Path, tmp_path: Path) -> None:
    notebook = tiny(*ANSWERS)
    notebook.cells[2].source = stub("slope", "f, w, h").replace("return", "while True:")
    loops = notebook.cells[4].source.replace("check.", "while True:\n    pass\ncheck.")
    notebook.cells[4].source = loops.replace("my_chance(", "my_other(", 1)
    save(notebook, tmp_path / "in" / "a.ipynb")
    rows = grade(tmp_path / "in", tmp_path / "marks.csv", [NAME], Limits(1.6, 4))
    assert marks(rows, "a") == {"slope": "wrong", "chance": "wrong", "join_heads": "solved"}
    assert messages(rows, "a").splitlines()[:2] == [
        "✗ slope: your function runs for more than 20 seconds. Does a loop never end?",
        "✗ chance: its cell ran longer than 24 s",
    ]


def test_a_run_goes_on_where_it_stopped_and_what_cannot_be_run_costs_others_nothing(
    tiny_course: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, out, ran = tmp_path / "in", tmp_path / "marks.csv", list[str]()
    late = ["slow"]  # the first time
    errors = {"stop": KeyboardInterrupt(), "gone": FileNotFoundError(2, "No such file", "told")}

    def run(cells: Any, asked: Any, *_: Any) -> Any:
        ran.append(cells[-1].source)
        if ran[-1] in errors:
            raise errors[ran[-1]]
        if ran[-1] in late:
            late.clear()
            return {}, "ran longer than a minute", 0
        return {one.check: ("solved", "✓", 1.0) for one in asked}, "", 0

    def hand_in(**sources: str) -> None:
        for name, source in sources.items():
            notebook = tiny()
            notebook.cells[-2].source = source
            save(notebook, folder / f"{name}.ipynb")

    def graded() -> tuple[list[Any], list[str]]:
        """The rows, as they are written; what was run for them."""
        ran.clear()
        rows = grade(folder, out, [NAME], LIMITS)
        assert rows == read_csv(out)
        assert [row["learner"] for row in rows] == sorted(row["learner"] for row in rows)
        return rows, [*ran]

    monkeypatch.setattr(grading, "run", run)
    hand_in(a="a", b="stop", c="c")
    with pytest.raises(KeyboardInterrupt):
        graded()
    assert marks(read_csv(out), "a") == ALL
    hand_in(b="gone")
    for again in (["gone", "c"], ["gone"]):  # what could not be judged is tried again, no other
        rows, tried = graded()
        assert tried == again
        assert "could not be run (FileNotFoundError: " in messages(rows, "b")
        assert marks(rows, "c") == ALL
    save(tiny("slope"), tiny_course / f"{NAME}.ipynb")  # the course asks the same as before
    course.cache_clear()
    hand_in(b="slow")
    rows, tried = graded()
    assert set(marks(rows, "b").values()) == {"not judged"}
    assert tried == ["slow"]
    assert marks(graded()[0], "b") == ALL
    (folder / "d.ipynb").touch()  # is none of the course
    graded()
    for gone in "cd":
        (folder / f"{gone}.ipynb").unlink()
    rows, tried = graded()
    assert {row["learner"] for row in rows} == {"a", "b"}
    assert tried == []
    notebook = tiny()
    del notebook.cells[5:7]
    save(notebook, tiny_course / f"{NAME}.ipynb")
    course.cache_clear()
    assert graded()[1] == ["a", "slow"], "the course asks less"


def test_what_ends_a_run_costs_the_exercise_of_its_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two cells that end whatever runs them; each run goes as far as the first that is left."""
    notebook = tiny(*ANSWERS)
    asked = [one for one in asked_in(notebook.cells) if one.check]
    notebook.cells[6].id = "new"  # it is known by its function
    ends = [notebook.cells[2].id, "new"]

    def run(cells: Any, asked: Any, *_: Any) -> Any:
        count = next((n for n, cell in enumerate(cells, 1) if cell.id in ends), 0)
        reached = {cell.id for cell in cells[: count - 1 if count else None]}
        said = ("wrong", "✗", 1.0) if count else ("solved", "✓", 1.0)  # the better one counts
        found = {one.check: said for one in asked if one.cell in reached}
        return found, "took more than 4 GB" if count else "", count

    monkeypatch.setattr(grading, "run", run)
    found, trouble = grading.run_on(notebook.cells, asked, LIMITS, {})
    assert [found[name][0] for name in ANSWERS] == ["not judged", "solved", "not judged"]
    assert "took more than 4 GB in the cell that begins 'def my_join" in found["join_heads"][1]
    assert "run again without" in found["chance"][1]
    assert trouble == ""
    ends += [cell.id for cell in notebook.cells]  # all of them: it ends, too
    found, trouble = grading.run_on(notebook.cells, asked, LIMITS, {})
    assert "solved" not in {verdict for verdict, *_ in found.values()}
    assert trouble.count("took more") == grading.RUNS


def test_excel_opens_the_marks_with_hangul_and_without_formulas(
    tiny_course: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grading, "run", lambda *_: ({}, "", 0))
    for name in ("김민수", "=1+1", "@x", "+1", "-1"):
        save(tiny(), tmp_path / "in" / f"{name}.ipynb")
    assert bertedu("grade", tmp_path / "in", "--out", tmp_path / "marks.csv").exit_code == 0
    for name in ("marks.csv", "marks_by_learner.csv"):
        content = (tmp_path / name).read_bytes()
        assert content.startswith(b"\xef\xbb\xbf")  # or Excel reads it in the locale's encoding
        cells = [cell for row in read_csv(tmp_path / name) for cell in row.values()]
        assert "김민수" in cells
        assert not [cell for cell in cells if cell.startswith(("=", "+", "-", "@"))]


def test_of_two_copies_the_better_one_counts() -> None:
    row = {"learner": "a", "notebook": NAME, "exercise": "slope"}
    more = row | {"exercise": "chance", "verdict": "not judged"}
    rows = [row | {"verdict": verdict} for verdict in ("wrong", "solved", "open")]
    (counted,) = by_learner([*rows, more])
    assert counted == {"learner": "a", "solved": 1, "wrong": 0, "open": 0, "not judged": 1}


def test_learners_are_folders_or_files_and_nothing_hidden_counts(tmp_path: Path) -> None:
    for name in ("a/x.ipynb", "a/deep/y.ipynb", "b.IPYNB", "a/.ipynb_checkpoints/x.ipynb", "c.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    found = [path.as_posix() for path in submissions(tmp_path)]
    assert found == ["a/deep/y.ipynb", "a/x.ipynb", "b.IPYNB"]
    done = bertedu("grade", tmp_path / "none", "--out", tmp_path / "out.csv")
    assert done.exit_code == 1
    assert "a folder for each learner" in done.output
    for table in (b"name\nA\n", "이름".encode("cp949")):  # a list of the class, say
        (tmp_path / "c.txt").write_bytes(table)
        done = bertedu("grade", tmp_path, "--out", tmp_path / "c.txt", "--notebook", "03")
        assert "c.txt is no table of marks: name another file" in done.output


def test_nbgrader_gets_a_locked_cell_after_each_exercise_that_passes_what_is_solved(
    tiny_course: Path, tmp_path: Path
) -> None:
    assert bertedu("nbgrader", tmp_path / "source").exit_code == 0
    notebook = nbformat.read(tmp_path / "source" / f"{NAME}.ipynb", as_version=4)
    nbformat.validate(notebook)
    assert not any(cell.get("outputs") for cell in notebook.cells)
    tests = [n for n, cell in enumerate(notebook.cells) if "nbgrader" in cell.metadata]
    asked = [one for one in asked_in(notebook.cells) if one.check]
    assert [notebook.cells[n - 1].id for n in tests] == [one.cell for one in asked]
    about = {"grade": True, "locked": True, "solution": False, "task": False, "points": 1}
    for n, one in zip(tests, asked, strict=True):
        found = notebook.cells[n].metadata.nbgrader
        assert found == about | {"grade_id": f"check_{one.check}", "schema_version": 3}
    source = notebook.cells[tests[0]].source
    exec(source, {"check": check, "my_slope": lambda f, w, h: (f(w + h) - f(w - h)) / (2 * h)})
    with pytest.raises(AssertionError, match="slope: not written yet"):
        exec(source, {"check": check, "my_slope": lambda f, w, h: ...})
