"""What the notebooks of the course ask: their exercises, and the function that answers each."""

import os
import re
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import nbformat

NOTEBOOKS = Path(os.environ.get("BERTEDU_NOTEBOOKS") or Path(__file__).parents[2] / "notebooks")
HEADING = re.compile(r"^\*\*(\d+)\. (.+?) \((★[★☆]*), (\d+)(?: minutes?|분)\)", re.MULTILINE)
STUB = re.compile(r"^def (my_\w+)\(.*^check\.(\w+)\(\1\)", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[([^\]]+)\]\([^)]*\)")
LARGEST = 30_000_000  # bytes; the course's own stay below 2 MB


class NotebookError(ValueError):
    """A file that is no notebook, or none of this course; the message says what to do."""


class Asked(NamedTuple):
    """An exercise; without a check if its reader has to judge the answer."""

    number: int
    title: str
    stars: str  # ★☆☆ to ★★★
    minutes: int
    cell: str = ""  # the id of the cell with the stub
    check: str = ""  # check.NAME
    function: str = ""  # what the learner's function is called, and handed over as


def read_cells(path: Path) -> list[Any]:
    """Return the cells of a notebook, in the newest format; NotebookError if it is none."""
    try:
        if path.stat().st_size > LARGEST:
            raise ValueError(f"{path.stat().st_size / 1e6:.0f} MB, clear its outputs")
        notebook = nbformat.reads(path.read_text(encoding="utf-8-sig"), as_version=4)
        nbformat.validate(notebook)
        for number, cell in enumerate(notebook.cells):  # before format 4.5 they have no id
            cell.setdefault("id", f"cell-{number}")
        return list(notebook.cells)
    except Exception as error:  # nbformat raises what it likes, RecursionError among it
        said = (str(error).splitlines() or [type(error).__name__])[0][:120]
        raise NotebookError(f"cannot be read as a notebook ({said}): save it once more") from None


def asked_in(cells: list[Any]) -> list[Asked]:
    """List the exercises: a heading with stars, and the first stub after it that is checked."""
    found: list[Asked] = []
    for cell in cells:
        if cell.cell_type == "markdown":
            for number, title, stars, minutes in HEADING.findall(cell.source):
                found.append(Asked(int(number), LINK.sub(r"\1", title), stars, int(minutes)))
        elif found and not found[-1].check and (stub := STUB.search(cell.source)):
            found[-1] = found[-1]._replace(cell=cell.id, check=stub[2], function=stub[1])
    return found


@cache
def course() -> dict[str, list[Any]]:
    """Return the cells of each notebook of the course, by its name without .ipynb, in order."""
    found = {path.stem: read_cells(path) for path in sorted(NOTEBOOKS.glob("*.ipynb"))}
    if not found:
        raise NotebookError(f"the notebooks of the course are not in {NOTEBOOKS}: clone it anew")
    return found


def chosen(names: list[str] | None) -> list[str]:
    """Return the notebooks that these names begin, such as 03; none: all."""
    for name in names or ():
        if not any(one.startswith(name) for one in course()):
            raise NotebookError(f"no notebook begins with {name!r}: {', '.join(course())}")
    return [one for one in course() if not names or one.startswith(tuple(names))]


def recognize(path: Path, cells: list[Any]) -> str:
    """Return which notebook of the course a file is, whatever its name; "" if none.

    The one that shares most cell ids with it; if none does, the one whose name is in its name.
    """
    ids = {cell.get("id") for cell in cells}
    shared = {name: len(ids & {cell.id for cell in own}) for name, own in course().items()}
    best = max(shared, key=shared.__getitem__)
    return best if shared[best] else next((name for name in course() if name in path.stem), "")


def saved_verdicts(cells: list[Any], asked: list[Asked]) -> dict[int, str]:
    """Return what the outputs that were saved say: by number, ✓ (solved), ✗ (tried) or … (open).

    An exercise whose check is called by no cell is left out: the file is of another edition.
    """
    found: dict[int, str] = {}
    for one in asked:
        call = re.compile(rf"^check\.{one.check}\({one.function}\)", re.MULTILINE)
        for cell in cells:
            if cell.cell_type == "code" and one.check and call.search(cell.source):
                text = "".join(out.get("text", "") for out in cell.outputs)
                said = re.findall(rf"^([✓✗…]) {one.check}\b", text, re.MULTILINE)
                found[one.number] = min([*said, found.get(one.number, "…")], key="✓✗…".index)
    return found
