"""`python -m course grade`: what each learner has solved, found by running what they handed in.

A mark says that a function is right, not who wrote it. The notebook runs as the user who grades:
against somebody who is set on doing harm, grade in a container without a network.
"""

import hashlib
import json
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, NamedTuple

import psutil
from tqdm.auto import tqdm

from bertedu.files import Row, read_csv, write_csv
from course.classroom.asked import Asked, NotebookError, asked_in, course, read_cells, recognize
from course.classroom.asked import saved_verdicts as saved
from course.classroom.referee import COURSE, sign
from course.language import TABLE

ROOT = Path(__file__).parents[2]
WORDS = {"✓": "solved", "✗": "wrong", "…": "open"}  # best first; else "not judged"
ORDER = [*WORDS.values(), "not judged"]
RUNS = 4  # of one submission: each again without the cell that ended the one before
MARK = "\ufeff"  # by which Excel knows that a file has Hangul in it
REPORT = 1_000_000  # bytes; what a referee says takes some thousand
NOTHING = Asked(0, "", "", 0)  # what a file that is no notebook of the course is asked
Verdict = tuple[str, str, float]  # a word, the first line of the message, seconds
Code = dict[str, tuple[bytes, float]]  # by path: what is in a file, and its time


class Limits(NamedTuple):
    """What one notebook may use; one cell of it, a quarter of the minutes."""

    minutes: float
    gigabytes: float


def submissions(folder: Path) -> list[Path]:
    """List the notebooks: FOLDER/LEARNER/**/*.ipynb and FOLDER/LEARNER.ipynb, nothing hidden."""
    found = [path.relative_to(folder) for path in sorted(folder.rglob("*")) if path.is_file()]
    shown = [path for path in found if not any(part.startswith(".") for part in path.parts)]
    return [path for path in shown if path.suffix.lower() == ".ipynb"]


def grade(folder: Path, out: Path, notebooks: list[str], limits: Limits) -> list[Row]:
    """Grade every submission, and write the marks after each; return the rows.

    What ``out`` has already is kept, and not run again unless the file, or what the course asks,
    has changed since, or could not be judged. NotebookError: no notebook, or no marks in ``out``.
    """
    if not (every := submissions(folder)):
        raise NotebookError(
            f"no notebooks in {folder}. It should hold a folder for each learner, "
            "or one notebook for each, called like the learner"
        )
    try:
        old = [row for row in read_csv(out) if row["digest"]]
    except (KeyError, UnicodeDecodeError):
        raise NotebookError(f"{out} is no table of marks: name another file for --out") from None
    rows, code = list[Row](), course_code()
    for file in tqdm(every, desc="grading", unit="notebook", disable=None):
        rows += graded(folder, file, notebooks, limits, code, old)
        done = {row["file"] for row in rows}
        write_csv(out, [*rows, *(row for row in old if row["file"] not in done)], MARK)
    rows += [row for row in old if row["notebook"] not in ["", *notebooks]]
    write_csv(out, rows, MARK)
    return rows


def course_code() -> Code:
    """Read the files of the course: what is in our memory, no submission can change or delete."""
    paths = [TABLE, *(path for name in COURSE for path in Path(ROOT, name).rglob("*"))]
    return {
        path.relative_to(ROOT).as_posix(): (path.read_bytes(), path.stat().st_mtime)
        for path in paths
        if path.is_file() and ".pyc." not in path.name  # what another Python compiles just now
    }


def graded(
    folder: Path, file: Path, notebooks: list[str], limits: Limits, code: Code, old: list[Row]
) -> list[Row]:
    """Return the rows of one submission; none if it is not of these notebooks."""
    cells, name, trouble = list[Any](), recognize(file, []), ""
    try:
        cells = read_cells(folder / file)
        name = recognize(file, cells)
        trouble = "" if name else "is no notebook of this course"
    except NotebookError as error:
        trouble = str(error)
    if name and name not in notebooks:
        return []
    asked = [one for one in asked_in(course()[name]) if one.check] if name else []
    wanted = repr((asked, trouble, [cell.source for cell in cells]))
    digest = hashlib.sha256(wanted.encode(errors="replace")).hexdigest()[:12]
    learner = file.parts[0] if file.parts[1:] else file.stem
    about = {"learner": learner, "file": file.as_posix()}
    about = {k: readable(v) for k, v in about.items()} | {"digest": digest, "notebook": name}
    before = [row for row in old if all(row[key] == about[key] for key in about)]
    if before and all(row["verdict"] in WORDS.values() for row in before):
        return before
    verdicts: dict[str, Verdict] = {}
    if not trouble:
        try:
            verdicts, trouble = run_on(cells, asked, limits, code)
        except (OSError, ValueError) as error:  # the next one may have better luck
            trouble = f"could not be run ({type(error).__name__}: {error})"
    claimed, rows = saved(cells, asked), list[Row]()
    for one in asked or [NOTHING]:
        nothing = ("not judged", trouble) if trouble else ("open", f"no function {one.function}")
        verdict, message, seconds = verdicts.get(one.check, (*nothing, 0.0))
        if claimed.get(one.number) == "✓" and verdict != "solved":
            message += " (its saved output says ✓)"
        row = {"learner": about["learner"], "notebook": name, "exercise": one.check}
        row |= {"verdict": verdict, "message": readable(message), "seconds": f"{seconds:.2f}"}
        rows.append(row | about)
    return rows


def readable(text: str) -> str:
    """Return a text that can be written, and is no formula to Excel, whatever a submission says."""
    return "'" * text.startswith(tuple("=+-@\t\r")) + text.encode(errors="replace").decode()


def run_on(
    cells: list[Any], asked: list[Asked], limits: Limits, code: Code
) -> tuple[dict[str, Verdict], str]:
    """Run a submission, and again without the cell that ended it: that one costs its exercise.

    Return the verdicts, and why some are missing.
    """
    found: dict[str, Verdict] = {}
    left, ended = [cell for cell in cells if cell.cell_type == "code"], list[str]()
    for _ in range(RUNS):
        verdicts, stopped, count = run(left, asked, limits, code)
        for check, new in verdicts.items():
            found[check] = min(new, found.get(check, new), key=lambda one: ORDER.index(one[0]))
        if not stopped or not count:
            break
        culprit = left.pop(count - 1)
        ended.append(f"{stopped} in the cell that begins {culprit.source[:40]!r}")
        for one in asked:
            if one.cell == culprit.id or one.function in culprit.source:
                found.setdefault(one.check, ("not judged", ended[-1], 0.0))
    note = f" (run again without what {'; '.join(ended)})" if ended else ""
    judged = {c: v if v[0] == "not judged" else (v[0], v[1] + note, v[2]) for c, v in found.items()}
    return judged, ("; ".join(ended) or stopped) if stopped else ""


def run(
    cells: list[Any], asked: list[Asked], limits: Limits, code: Code
) -> tuple[dict[str, Verdict], str, int]:
    """Run code cells in a process of its own.

    Return the verdicts, what stopped it ("" if nothing did), and in which cell, counted from 1.
    """
    key = secrets.token_hex(32)
    sources = [(cell.id, cell.source) for cell in cells]
    names = [(one.cell, one.check, one.function) for one in asked]
    task = {"key": key, "cells": sources, "asked": names, "seconds": 60 * limits.minutes / 4}
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as nest,
        tempfile.TemporaryFile() as out,  # without a name, so that nothing can delete them
        tempfile.TemporaryFile() as failed,
    ):
        home = Path(nest, "handed", "in")  # its .. is its own, too
        for name, (content, changed) in code.items():
            (home / name).parent.mkdir(parents=True, exist_ok=True)
            (home / name).write_bytes(content)
            os.utime(home / name, (changed, changed))  # else Python would compile it anew
        with suppress(OSError):  # Windows may refuse it
            Path(home, "data").symlink_to(ROOT / "data")
        environment = {"BERTEDU_DATA": str(ROOT / "data"), "MPLBACKEND": "agg"} | os.environ
        environment["PYTHONPATH"] = os.pathsep.join([str(home), os.environ.get("PYTHONPATH", "")])
        environment["BERTEDU_MY_BERT"] = str(Path(home, "my_bert"))
        process = psutil.Popen(
            [sys.executable, "-m", "course.classroom.referee"],
            **{"stdin": subprocess.PIPE, "stdout": out, "stderr": failed, "cwd": home},
            **{"env": environment, "start_new_session": True},
        )
        with suppress(BrokenPipeError), process.stdin:
            process.stdin.write(json.dumps(task).encode())
        stopped = watch(process, limits, out)
        return heard(out, key, stopped or f"ended its process ({process.returncode})", failed)


def watch(process: Any, limits: Limits, told: IO[bytes]) -> str:
    """Wait for the end of a process, or end it; return which limit it met, if any."""
    end, family = time.monotonic() + 60 * limits.minutes, {process}
    try:
        while process.poll() is None:
            time.sleep(0.05)
            with suppress(psutil.Error):  # gone meanwhile
                family |= {*process.children(recursive=True)}
            if time.monotonic() > end:
                return f"ran longer than {limits.minutes:g} min"
            if sum(map(memory, family)) > limits.gigabytes * 1e9:
                return f"took more than {limits.gigabytes:g} GB of memory"
            if os.fstat(told.fileno()).st_size > REPORT:
                return "wrote where it should not"
        return ""
    finally:
        for one in family:
            with suppress(psutil.Error):
                one.kill()
        process.wait()
        psutil.wait_procs(family, timeout=1)


def memory(process: Any) -> int:
    """Return the bytes of memory that a process has; 0 if it has ended."""
    try:
        return int(process.memory_info().rss)
    except psutil.Error:
        return 0


def heard(
    told: IO[bytes], key: str, stopped: str, failed: IO[bytes]
) -> tuple[dict[str, Verdict], str, int]:
    """Read what the referee has signed; return the verdicts, what stopped it, and in which cell."""
    found: dict[str, Verdict] = {}
    cell, signed = 0, False
    told.seek(0)
    for line in told.read(REPORT).decode(errors="replace").splitlines():
        signature, _, text = line.partition(" ")
        if not secrets.compare_digest(signature.encode(), sign(key, text).encode()):
            continue
        signed, said = True, json.loads(text)
        cell, stopped = said.get("cell", cell), "" if "end" in said else stopped
        if "check" in said:
            first = said["said"].split("\n")[0]
            new = (WORDS.get(first[:1], "not judged"), first, said["seconds"])
            old = found.get(said["check"], new)
            found[said["check"]] = min(new, old, key=lambda one: ORDER.index(one[0]))
    if not signed and stopped.startswith("ended"):
        failed.seek(0)
        last = failed.read().decode(errors="replace").strip().rpartition("\n")[2]
        raise ValueError(f"the referee does not start: {last}")
    return found, stopped, cell


def by_learner(rows: list[Row]) -> list[Row]:
    """Count the verdicts of each learner; of two copies of a notebook, the better one counts."""
    best: dict[str, dict[tuple[str, str], str]] = {}
    for row in rows:
        mine, place = best.setdefault(row["learner"], {}), (row["notebook"], row["exercise"])
        mine[place] = min(row["verdict"], mine.get(place, ORDER[-1]), key=ORDER.index)
    counts = {learner: Counter(mine.values()) for learner, mine in best.items()}
    return [{"learner": who, **{w: count[w] for w in ORDER}} for who, count in counts.items()]
