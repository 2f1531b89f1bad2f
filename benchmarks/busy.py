"""`python -m benchmarks.busy`: what a notebook takes while another program holds one core.

In a class that program is a browser, or a second notebook. The notebook runs alone and beside a
loop that never waits, in turns, each time in a fresh kernel.
"""

import csv
import io
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import nbformat
import typer
from nbclient import NotebookClient
from tqdm import tqdm

from bertedu.files import write_atomically
from bertedu.machine import current_commit

NOTEBOOKS = Path(__file__).parent.parent / "notebooks"
DEFAULT = (
    "00_start_here",
    "08_finetuning_single_sentence",
)  # they once took 33 and 16 times as long
RESULT = Path(__file__).parent.parent / "data" / "results" / "busy.csv"
TARGET = "at most 2"


@contextmanager
def busy_core() -> Iterator[None]:
    """Keep one core busy for as long as the block lasts."""
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def seconds_of(notebook: Path) -> float:
    """Run a notebook in a fresh kernel, without saving it; return the seconds.

    Raises
    ------
    nbclient.exceptions.CellExecutionError
        A cell failed.

    """
    content = nbformat.read(notebook, as_version=4)
    client = NotebookClient(content, resources={"metadata": {"path": str(notebook.parent)}})
    began = time.perf_counter()
    client.execute()
    return time.perf_counter() - began


def main(
    names: Annotated[
        list[str] | None, typer.Argument(help="Notebooks by name; none: two that were slow.")
    ] = None,
    rounds: Annotated[int, typer.Option(help="How often each is timed.", min=1)] = 2,
    out: Annotated[Path, typer.Option(help="The CSV to write.")] = RESULT,
) -> None:
    """Time notebooks alone and beside a busy core, in turns. Close other programs first."""
    chosen = list(names or DEFAULT)
    rows: list[dict[str, object]] = []
    with tqdm(total=2 * rounds * len(chosen), unit="run") as bar:
        for name in chosen:
            notebook = NOTEBOOKS / f"{name}.ipynb"
            alone, beside = [], []
            for _ in range(rounds):
                bar.set_description(f"{name}, alone")
                alone.append(seconds_of(notebook))
                bar.update()
                bar.set_description(f"{name}, busy")
                with busy_core():
                    beside.append(seconds_of(notebook))
                bar.update()
            ratios = [slow / quick for slow, quick in zip(beside, alone, strict=True)]
            rows.append(
                {
                    "notebook": name,
                    "rounds": rounds,
                    "idle_seconds": round(min(alone), 1),
                    "busy_seconds": round(min(beside), 1),
                    "ratio_low": round(min(ratios), 2),
                    "ratio_high": round(max(ratios), 2),
                    "target": TARGET,
                    "cores": os.cpu_count(),
                    "commit": current_commit() or "",
                }
            )
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_atomically(out, text.getvalue())
    for row in rows:
        typer.echo(
            f"{row['notebook']:<34} alone {row['idle_seconds']} s, beside a busy core "
            f"{row['busy_seconds']} s: {row['ratio_low']} to {row['ratio_high']} times"
        )


if __name__ == "__main__":
    typer.run(main)
