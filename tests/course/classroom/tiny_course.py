"""A notebook of three exercises that is all of the course, and copies that learners hand in."""

from functools import partial
from pathlib import Path
from typing import Any

import nbformat
from called import run
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from course.cli import app

bertedu = partial(run, of=app)
NAME = "03_tiny"
ANSWERS = {
    "slope": ("f, w, h", "(f(w + h) - f(w - h)) / (2 * h)"),
    "chance": ("vocab_size", "torch.tensor(vocab_size).log()"),
    "join_heads": ("x", "x.transpose(1, 2).flatten(2)"),
}
WRONG = ("f, w, h", "f(w)")


def stub(check: str, arguments: str, answer: str = "...") -> str:
    return f"def my_{check}({arguments}):\n    return {answer}\n\n\ncheck.{check}(my_{check})"


def tiny(*solved: str, said: str = "…") -> Any:
    """The notebook with these exercises solved; what its outputs say of those is `said`."""
    cells = [new_code_cell("import torch\n\nfrom course.exercises import check", id="begin")]
    for number, (check, (arguments, answer)) in enumerate(ANSWERS.items(), start=1):
        heading = f"**{number}. [The {check}](glossary.md#x) (★★☆, {number} minutes).** Write it."
        cells.append(new_markdown_cell(heading, id=f"ask-{check}"))
        cell = new_code_cell(stub(check, arguments, "..."), id=f"do-{check}", execution_count=1)
        mark = said if check in solved else "…"
        cell.outputs = [new_output("stream", text=f"{mark} {check}: well\n")]
        if check in solved:
            cell.source = stub(check, arguments, answer)
        cells.append(cell)
    shown = new_code_cell("check.slope(museum_slope)", id="shown", execution_count=2)
    shown.outputs = [new_output("stream", text="✓ slope: a demonstration\n")]
    thought = new_markdown_cell("**4. Think (★☆☆, 1 minute).** Why?", id="think")
    return new_notebook(cells=[*cells, shown, thought], metadata={"kernelspec": KERNEL})


KERNEL = {"name": "python3", "display_name": "Python 3"}


def save(notebook: Any, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, path)
    return path
