"""What the papers after BERT claim, and what small measurements make of it: the one table.

``after_bert.toml`` in the data folder lists each claim with the rows of results that speak of it.
"""

import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import isclose
from pathlib import Path
from statistics import mean
from typing import Any

from bertedu.files import Row, read_csv
from bertedu.text.sources import shipped
from course.results.bootstrap import Verdict, seed_interval, verdict_of
from course.results.verdicts import CEILING, VerdictTable


@dataclass(frozen=True)
class Finding:
    """One line of the table *idea, claimed, measured, verdict*.

    ``unit`` names what was measured and in what: the claim is that ``value`` is above 0. ``low``
    and ``high`` are the ends of its 95 % interval over ``runs`` trainings; ``same`` the ends of an
    A/A test, each model against itself trained with the next seed (not of one run, or equal ones).
    """

    idea: str  # the model, as its paper names it
    year: int
    claimed: str  # the paper's claim, in few words
    unit: str
    value: float
    low: float
    high: float
    runs: int
    same: tuple[float, float] | None = None

    @property
    def verdict(self) -> Verdict:
        """What the interval makes of the claim."""
        return verdict_of(self.low, self.high)

    def __str__(self) -> str:
        """Return claim, measurement and verdict, a line each."""
        over = "one training, over questions" if self.runs == 1 else f"{self.runs} seeds"
        same = f"; A/A {self.span(*self.same)}" if self.same else ""
        return (
            f"claimed:  {self.claimed} ({self.idea}, {self.year})\n"
            f"measured: {self.number(self.value)} ({self.span(self.low, self.high)}) {self.unit}, "
            f"{over}{same}\nverdict:  {self.verdict}"
        )

    def number(self, value: float) -> str:
        """Write a value with its sign: points to one digit, nats to two."""
        return f"{value:+.{1 if 'points' in self.unit else 2}f}"

    def span(self, low: float, high: float) -> str:
        """Write the ends of an interval; not if all runs are equal, which measures no chance."""
        if low == high:
            return CEILING
        return f"{self.number(low)} to {self.number(high)}"


def per_seed(rows: Iterable[Row], column: str = "value", **where: str) -> dict[str, float]:
    """Return for each seed the mean of a column over the rows with these values.

    Of several looks at one training, the last: those rows that cost the most operations.
    """
    found: dict[str, dict[float, list[float]]] = {}
    for row in rows:
        if all(row[name] == value for name, value in where.items()):
            looks = found.setdefault(row["seed"], {})
            looks.setdefault(float(row.get("operations") or 0), []).append(float(row[column]))
    return {seed: mean(looks[max(looks)]) for seed, looks in sorted(found.items())}


def findings(notebook: int, folder: Path | None = None) -> list[Finding]:
    """Return what the results in a folder (the course's own) make of the claims of a notebook."""
    claims = tomllib.loads(shipped("after_bert.toml").read_text(encoding="utf-8"))["claim"]
    folder = folder or shipped("results")
    return [_finding(folder, **claim) for claim in claims if claim.pop("notebook") == notebook]


def _finding(
    folder: Path, table: str, more: Row, less: Row | None = None, scale: float = 1, plus: float = 0,
    **said: Any,
) -> Finding:  # fmt: skip
    """Without ``less``, what is other there, the claim is about one row, which has an interval."""
    rows = read_csv(folder / f"{table}.csv")
    if less is None:
        column = more.pop("column")
        (row,) = (row for row in rows if more.items() <= row.items())
        ends = [scale * float(row[column + end]) + plus for end in ("", "_low", "_high")]
        return Finding(**said, value=ends[0], low=ends[1], high=ends[2], runs=1)
    one, other = (per_seed(rows, **of) for of in (more, more | less))
    again = [scale * (a - b) for of in (one, other) for a, b in pairwise(of.values())]
    if len(other) == 1:  # one model, from which all runs began
        other = dict.fromkeys(one, *other.values())
    gaps = [scale * (one[seed] - other[seed]) + plus for seed in one if seed in other]
    runs, value, (low, high) = len(gaps), mean(gaps), seed_interval(gaps)
    if isclose(low, high, abs_tol=1e-9):  # equal runs, but for the last digit of a float
        return Finding(**said, value=value, low=value, high=value, runs=runs)
    same = seed_interval(again)
    return Finding(**said, value=value, low=low, high=high, runs=runs, same=same)


def findings_table(found: Sequence[Finding]) -> VerdictTable:
    """Return the table *idea, claimed, measured, verdict*, an A/A test beside each line."""
    lines = {f"{f.idea} ({f.year}): {f.claimed}": f for f in found}
    return VerdictTable(
        {name: {"verdict": (f.low, f.high)} for name, f in lines.items()},
        "95 % intervals over trainings, on one test; of one training, over its questions. "
        "A/A: each model against itself, trained with the next seed.",
        {
            "measured": {name: f"{f.number(f.value)} {f.unit}" for name, f in lines.items()},
            "A/A": {name: f.span(*f.same) if f.same else "–" for name, f in lines.items()},
        },
        digits=2,
    )
