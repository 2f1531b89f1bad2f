"""A study: runs, each with a name, whose rows stand in a CSV file; none is made twice."""

from collections.abc import Callable, Iterable
from functools import partial
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import torch
import typer

from bertedu.files import Row, read_csv, write_csv
from course.results.origin import origin

Run = tuple[Row, Callable[[], Iterable[Row]]]  # what names a run, and what makes its rows


def grid(run: Callable[..., Iterable[Row]], **axes: Iterable[Any]) -> list[Run]:
    """Name a run for each combination of the axes, the first of which changes slowest.

    ``run`` takes the values in the order of its parameters, which are called like the axes.
    """
    names = [dict(zip(axes, values, strict=True)) for values in product(*axes.values())]
    return [(name, partial(run, **name)) for name in names]


def study(then: Callable[[Path], None] | None = None, **tables: Iterable[Run]) -> None:
    """Offer a study as a command that adds to each table, a CSV file, the runs that it lacks.

    ``then`` is given the folder afterward, to write what follows from the tables.
    """

    def add(
        out: Annotated[Path, typer.Option(help="Folder of results.")] = Path("data/results"),
    ) -> None:
        for name, runs in tables.items():
            add_missing(out / f"{name}.csv", runs)
        if then:
            then(out)

    typer.run(add)


def add_missing(path: Path, runs: Iterable[Run], device: torch.device | None = None) -> None:
    """Make the rows of each run that a CSV file lacks, and write it after each.

    ``device`` is where the runs compute; none: the CPU.
    """
    made, rows = origin(device), read_csv(path)  # before it runs: the code may be edited meanwhile
    for names, run in runs:
        if not any(all(old.get(k) == str(v) for k, v in names.items()) for old in rows):
            rows += [names | new | made for new in run()]
            write_csv(path, rows)
