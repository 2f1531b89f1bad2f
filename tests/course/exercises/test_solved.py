"""The course as a learner goes through it who solves everything: what they write is what runs.

Each stub is filled with what `check.solution` prints; a cell must say what is committed, but for
whose parts are used. (`make notebooks` runs it with its stubs.) One notebook: `-m nightly -k 04_`.
"""

import ast
import importlib
import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from called import printed_by
from nbclient import NotebookClient
from nbval_tolerance import alike
from verdicts import verdict, words

from course.exercises import check
from course.exercises.judge import KNOWN
from course.workshop import my_bert

pytestmark = pytest.mark.nightly
NOTEBOOKS = sorted((Path(__file__).parents[3] / "notebooks").glob("*.ipynb"))
ALL = len(my_bert.EXERCISES)
AGREES = {  # where the learner's whole model runs: what its notebook prints if it is right
    "04": r"after:( 0\.0000){3}",
    "05": r"both 0\.\d+ nats: your BERT is [0-5] % above",
    "07": r"resumed (\d+\.\d+), without a stop \1 ",
    "16": r"yours( 0\.0000){8}",
}


@pytest.fixture(autouse=True)
def parts(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The one folder of what this learner keeps."""
    monkeypatch.setenv("BERTEDU_MY_BERT", str(tmp_path_factory.getbasetemp() / "learner"))
    return my_bert.folder()


def stubs(cells: list[Any]) -> dict[str, Any]:
    """The cells that ask for a function, by the name of their exercise."""
    found = ((re.search(r"(?m)^check\.(\w+)\((my_\w+)\)", cell.source), cell) for cell in cells)
    return {m[1]: cell for m, cell in found if m and f"def {m[2]}(" in cell.source}


def solved(name: str, cell: str) -> str:
    """Write what `check.solution` prints in the stub's place, with the imports of its file."""
    (stub,) = (one for one in ast.parse(cell).body if isinstance(one, ast.FunctionDef))
    wanted, fits = [argument.arg for argument in stub.args.args], []
    _, *printed = re.split(r"^# (\S+)\.py\n", verdict(check.solution, name), flags=re.M)
    for home, text in zip(printed[::2], printed[1::2], strict=True):
        piece = ast.parse(text).body[0]
        takes = piece.args.args if isinstance(piece, ast.FunctionDef) else []
        if [argument.arg for argument in takes][: len(wanted)] == wanted:
            fits.append((piece, text, home.replace("/", ".")))
    assert fits, f"check.solution({name!r}) prints no function of {wanted}"
    piece, text, home = fits[-1]  # the package's own comes first, where both are printed
    assert isinstance(piece, ast.FunctionDef)
    used = {one.id for one in ast.walk(piece) if isinstance(one, ast.Name)}
    needs = sorted(used & vars(importlib.import_module(home)).keys())
    mine = [f"from {home} import {need}" for need in needs]
    mine.append(re.sub(rf"\b{piece.name}\b", stub.name, text.rstrip()))
    return cell.replace(ast.get_source_segment(cell, stub) or "", "\n".join(mine))


def said(cell: Any) -> str:
    """All text that a cell shows, progress and warnings aside."""
    streams = [one.text for one in cell.outputs if one.get("name") == "stdout"]
    shown = [one.data.get("text/plain", "") for one in cell.outputs if "data" in one]
    shown = [text for text in shown if not re.fullmatch(r"[\w -]+: +\d+(%.*)?", text)]
    return words("".join(streams) + "\n" + "\n".join(shown))


def with_yours(text: str, yours: list[str]) -> str:
    """What a cell should say that said this while everything was ours."""
    for name in yours:
        text = text.replace(f"{name}: ours, until check.{name} passes yours", f"{name}: yours")
        text = re.sub(rf"· {name}\b", f"✓ {name}", text)
        text = text.replace(f"Switched on: {name}, ours", f"Switched on: {name}, yours")
    kept = [name for name in my_bert.EXERCISES if name in yours]
    none = f"Its {ALL} parts are still the course's; each one you solve becomes your own."
    some = f"{len(kept)} of its {ALL} parts are yours: {', '.join(kept)}. The rest are ours."
    some = {0: none, ALL: f"All {ALL} of its parts are yours."}.get(len(kept), some)
    legend = "✓ yours" + ", · still ours" * (len(kept) < ALL)
    text = text.replace(none, some).replace("· still ours", legend)
    return text.replace(f"0 of {ALL} parts", f"{len(kept)} of {ALL} parts")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_with_the_learners_own_functions(path: Path, parts: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    notebook.cells = cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    committed = [*map(said, cells)]
    yours, asked, wrong = [one.stem for one in parts.glob("*.py")], stubs(cells), []
    for name, cell in asked.items():
        cell.source = solved(name, cell.source)
    NotebookClient(notebook, timeout=600, resources={"metadata": {"path": path.parent}}).execute()
    for cell, text in zip(cells, committed, strict=True):
        if name := next((name for name, one in asked.items() if one is cell), ""):
            yours.append(name)
            kept = f"kept: {sum(n in yours for n in my_bert.EXERCISES)} of {ALL} parts of your BERT"
            should = f"✓ {name}: .*{kept if name in my_bert.EXERCISES else '[.)]'}"
            right = re.fullmatch(should, said(cell)) is not None
        else:
            right = alike(said(cell), should := with_yours(text, yours))
            right = right or "nbval-ignore-output" in cell.metadata.get("tags", [])
        if not right:
            wrong.append(f"{cell.source}\n\nsays\n\n{said(cell)}\n\nand should\n\n{should}")
    assert not wrong, "\n\n------\n\n".join(wrong)
    if pattern := AGREES.get(path.name[:2]):
        assert re.search(r"parts are yours.* " + pattern, " ".join(map(said, cells)))


def test_then_every_exercise_is_solved_and_every_part_is_the_learners() -> None:
    asked = [name for path in NOTEBOOKS for name in stubs(nbformat.read(path, 4).cells)]
    assert sorted(asked) == sorted(name for name, one in KNOWN.items() if hasattr(one, "solution"))
    later = "from course.workshop import my_bert; my_bert.load(); print(my_bert.board())"
    board = printed_by("-c", later)
    assert board.startswith(f"{ALL} of {ALL} parts of your BERT are yours.\n" * 2 + "01 02 "), board
    assert board.count("✓ ") == ALL + 1
    after = "After BERT, yours to switch on: next_token, window_mask, rotate."
    assert board.endswith(f"\n✓ yours\n{after}\n")
