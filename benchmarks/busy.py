"""`python -m benchmarks.busy`: what a notebook takes while another program holds one core.

In a class that program is a browser, or a second notebook. The notebook runs alone and beside a
loop that never waits, in turns, each time in a fresh kernel.
"""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Annotated

import nbformat
import typer
from nbclient import NotebookClient
from tqdm import tqdm

from bertedu.files import Row, write_csv
from bertedu.machine import current_commit

NOTEBOOKS = Path(__file__).parent.parent / "notebooks"
DEFAULT = ["00_start_here", "08_finetuning_single_sentence"]  # they once took 33 and 16 times
RESULT = Path(__file__).parent.parent / "data" / "results" / "busy.csv"


def seconds_of(notebook: Path, busy: bool) -> float:
    """Run a notebook in a fresh kernel, without saving it, beside a busy core or not.

    Raises nbclient.exceptions.CellExecutionError if a cell failed.
    """
    content = nbformat.read(notebook, as_version=4)
    client = NotebookClient(content, resources={"metadata": {"path": str(notebook.parent)}})
    loop = "while True: pass" if busy else ""
    with subprocess.Popen([sys.executable, "-c", loop]) as process:
        try:
            began = time.perf_counter()
            client.execute()
            return time.perf_counter() - began
        finally:
            process.kill()


def main(
    names: Annotated[
        list[str] | None, typer.Argument(help="Notebooks by name; none: two that were slow.")
    ] = None,
    rounds: Annotated[int, typer.Option(help="How often each is timed.", min=1)] = 2,
    out: Annotated[Path, typer.Option(help="The CSV to write.")] = RESULT,
) -> None:
    """Time notebooks alone and beside a busy core, in turns. Close other programs first."""
    rows: list[Row] = []
    for name in names or DEFAULT:
        turns = [
            [seconds_of(NOTEBOOKS / f"{name}.ipynb", busy) for busy in (False, True)]
            for _ in tqdm(range(rounds), name)
        ]
        alone, beside = map(min, zip(*turns, strict=True))
        ratios = [slow / quick for quick, slow in turns]
        row: Row = {"notebook": name, "rounds": rounds}
        row |= {"idle_seconds": round(alone, 1), "busy_seconds": round(beside, 1)}
        row |= {"ratio_low": round(min(ratios), 2), "ratio_high": round(max(ratios), 2)}
        row |= {"target": "at most 2", "cores": os.cpu_count(), "commit": current_commit() or ""}
        typer.echo("  ".join(f"{key} {value}" for key, value in row.items()))
        rows.append(row)
    write_csv(out, rows)


if __name__ == "__main__":
    typer.run(main)
