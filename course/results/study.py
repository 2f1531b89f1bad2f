"""A study: runs, each with a name, whose rows stand in a CSV file; none is made twice."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated

import typer

from bertedu.files import Row, read_csv, write_csv
from course.results.origin import origin

Run = tuple[Row, Callable[[], Iterable[Row]]]  # what names a run, and what makes its rows


def study(record: Path, runs: Iterable[Run]) -> None:
    """Offer a study as a command that adds to a CSV file the runs that it lacks."""

    def add(out: Annotated[Path, typer.Option(help="CSV file to add to.")] = record) -> None:
        add_missing(out, runs)

    typer.run(add)


def add_missing(path: Path, runs: Iterable[Run]) -> None:
    """Make the rows of each run that a CSV file lacks, and write it after each."""
    made, rows = origin(), read_csv(path)  # before it runs: the code may be edited meanwhile
    for names, run in runs:
        if not any(all(old.get(k) == str(v) for k, v in names.items()) for old in rows):
            rows += [names | new | made for new in run()]
            write_csv(path, rows)
