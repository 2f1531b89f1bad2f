"""What the papers after BERT claim, and what small measurements make of it: the one table.

``after_bert.toml`` in the data folder lists each claim with the rows of results that speak of it.
"""

import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from statistics import mean
from typing import Any

from bertedu.files import Row, read_csv, shipped
from course.experiments.ablations import mean_difference
from course.experiments.after_2024 import GRIDS
from course.results.bootstrap import Estimate, Verdict, over_texts, seed_estimate
from course.results.verdicts import VerdictTable, ends_of, verdicts_together


@dataclass(frozen=True)
class Finding:
    """One line of the table *idea, claimed, measured, verdict*.

    ``unit`` names what was measured and in what: the claim is that it is above 0. The interval of
    ``found`` is over ``runs`` trainings, ``same`` an A/A test, each model against itself trained
    with the next seed (not of one run, or equal ones). ``verdict``: of a notebook's all, together.
    """

    idea: str  # the model, as its paper names it
    year: int
    claimed: str  # the paper's claim, in few words
    unit: str
    found: Estimate
    runs: int
    same: Estimate | None = None
    verdict: Verdict = "undecided"

    def __str__(self) -> str:
        """Return claim, measurement and verdict, a line each."""
        over = "a single training, over questions" if self.runs == 1 else f"{self.runs} seeds"
        same = f"; A/A {ends_of(self.same, self.digits)}" if self.same else ""
        alone = f" (alone {self.found.verdict})" if self.found.verdict != self.verdict else ""
        return (
            f"claimed:  {self.claimed} ({self.idea}, {self.year})\n"
            f"measured: {self.found.value:+.{self.digits}f} ({ends_of(self.found, self.digits)}) "
            f"{self.unit}, {over}{same}\nverdict:  {self.verdict}{alone}"
        )

    @property
    def digits(self) -> int:
        """Points are written to one digit, nats to two."""
        return 1 if "points" in self.unit else 2


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


def findings(notebook: int) -> list[Finding]:
    """Return what the course's own results make of the claims of a notebook."""
    claims = tomllib.loads(shipped("after_bert.toml").read_text(encoding="utf-8"))["claim"]
    folder = shipped("results")
    made = [_finding(folder, **claim) for claim in claims if claim.pop("notebook") == notebook]
    verdicts = verdicts_together([one.found for one in made])
    return [replace(one, verdict=word) for one, word in zip(made, verdicts, strict=True)]


def _finding(
    folder: Path, table: str, more: Row, less: Row | None = None, scale: float = 1, plus: float = 0,
    grid: str | None = None, **said: Any,
) -> Finding:  # fmt: skip
    """Without ``less``, what is other there, the claim is about one row, which has an interval.

    Runs of a ``grid`` of after_2024 are compared as other ablations are, over texts, too.
    """
    rows = read_csv(folder / f"{table}.csv")
    if less is None:
        column = more.pop("column")
        (row,) = (row for row in rows if more.items() <= row.items())
        value, low, high = (scale * float(row[column + end]) for end in ("", "_low", "_high"))
        return Finding(**said, found=over_texts(value + plus, (high - low) / 2), runs=1)
    one, other = (per_seed(rows, **of) for of in (more, more | less))
    again = [scale * (a - b) for of in (one, other) for a, b in pairwise(of.values())]
    if len(other) == 1:  # one model, from which all runs began
        other = dict.fromkeys(one, *other.values())
    gaps = [scale * (one[seed] - other[seed]) + plus for seed in one if seed in other]
    found = seed_estimate(gaps)
    if grid and less:
        sides = more["variant"], less["variant"]
        found = mean_difference(GRIDS[grid], *sides, folder / "after_2024") * scale
    same = seed_estimate(again) if found.low < found.high else None
    return Finding(**said, found=found, runs=len(gaps), same=same)


def findings_table(found: Sequence[Finding]) -> VerdictTable:
    """Return the table *idea, claimed, measured, verdict*, an A/A test beside each line."""
    lines = {f"{f.idea} ({f.year}): {f.claimed}": f for f in found}
    beside: dict[str, dict[str, str]] = {"measured": {}, "runs": {}, "A/A": {}}
    for name, f in lines.items():
        beside["measured"][name] = f"{f.found.value:+.{f.digits}f} {f.unit}"
        beside["runs"][name] = "single" if f.runs == 1 else str(f.runs)
        beside["A/A"][name] = ends_of(f.same, f.digits) if f.same else "–"
    return VerdictTable(
        {name: {"verdict": f.found} for name, f in lines.items()},
        "95 % intervals over trainings, on one test; on tasks over its texts, too; of a single "
        "training, over its questions. "
        "A/A: each model against itself, trained with the next seed.",
        beside,
        digits=2,
    )
