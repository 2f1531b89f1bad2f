"""What the pictures of committed results share: rows of a table, a value with its interval, words.

The tables are those of ``data/results``, or of the folder that ``BERTEDU_DATA`` names.
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bertedu.analysis.views import note, write_in_cell
from bertedu.files import Row, read_csv, shipped, table_beside
from course.results.bootstrap import Floats
from course.results.columns import SCORE

Score = tuple[float, float, float]  # value, low, high


def committed(table: str, missing: str = "", /, **values: str) -> list[Row]:
    """Return the rows of a table of results that have these values in these columns.

    Raises ValueError if there are none and ``missing`` says what to do about it.
    """
    rows = read_csv(shipped("results") / f"{table}.csv")
    rows = [row for row in rows if all(row[name] == value for name, value in values.items())]
    if missing and not rows:
        raise ValueError(missing)
    return rows


def paper_table(name: str) -> dict[str, dict[str, float]]:
    """Return a table of the paper (`pictures.toml`): row -> column -> number."""
    tables = table_beside(__file__)
    columns = tables[name].pop("columns")
    return {row: dict(zip(columns, some, strict=True)) for row, some in tables[name].items()}


def headed_panels(
    headings: Mapping[str, str],
    title: str,
    size: tuple[float, float],
    columns: int | None = None,
    sharey: bool = False,
) -> tuple[Figure, dict[str, Axes]]:
    """Make panels under one title, key -> heading, in so many columns; return them by key."""
    columns = columns or len(headings)
    lines = -(-len(headings) // columns)
    figure, panels = plt.subplots(lines, columns, figsize=size, squeeze=False, sharey=sharey)
    figure.suptitle(title, fontsize=19)
    for axes in panels.flat[len(headings) :]:
        axes.set_axis_off()
    for axes, heading in zip(panels.flat, headings.values(), strict=False):
        axes.set_title(heading, fontsize=15)
    return figure, dict(zip(headings, panels.flat, strict=False))


def score_of(row: Row, columns: Sequence[str] = SCORE) -> Score:
    """Return a value and the ends of its interval, times 100."""
    value, low, high = (100 * float(row[name]) for name in columns)
    return value, low, high


def print_score(name: str, row: Row, width: int, runs: str) -> None:
    """Print a score and its interval, times 100, after a name in a column so wide."""
    value, low, high = score_of(row)
    print(f"{name:<{width}}{value:5.1f} ({low:.1f} to {high:.1f})  {runs}".rstrip())


def interval_bar(
    axes: Axes,
    place: float,
    score: Score,
    color: str,
    marker: str = "o",
    size: float = 10,
    upright: bool = False,
) -> None:
    """Draw a value and its interval: across at the height ``place``, or upright above it."""
    value, low, high = score
    (axes.vlines if upright else axes.hlines)(place, low, high, color=color, linewidth=4)
    point = (place, value) if upright else (value, place)
    axes.plot(*point, marker, color=color, markersize=size)


def scored_bar(axes: Axes, place: float, score: Score, color: str, marker: str = "o") -> None:
    """Draw a value and its interval across, and the value in figures above it."""
    interval_bar(axes, place, score, color, marker, size=11)
    white = {"facecolor": "white", "edgecolor": "none", "pad": 0.5}  # over a line
    note(axes, f"{score[0]:.1f}", (score[0], place), (0, 11), color, ha="center", bbox=white)


def score_curve(
    axes: Axes,
    points: Iterable[tuple[float, Score]],
    label: str,
    color: str,
    name_at_end: bool = True,
) -> None:
    """Draw scores over x as a curve, its name at the right end or in the legend.

    Intervals are a band. Raises ValueError if a value lies outside its interval.
    """
    x, scores = zip(*sorted(points), strict=True)
    values, lows, highs = zip(*scores, strict=True)
    if not all(low <= value <= high for value, low, high in scores):
        raise ValueError(f"{label}: a value lies outside its interval")
    axes.fill_between(x, lows, highs, color=color, alpha=0.2, linewidth=0)
    axes.plot(x, values, color=color, marker="o", label=label)
    if name_at_end:
        end = x[-1], values[-1]
        note(axes, label, end, (10, 0), color, va="center", annotation_clip=False)


def name_rows(axes: Axes, names: Sequence[str], above: float = 0.5, below: float = 0.5) -> None:
    """Name the rows of a panel from the top down, with room above the first and below the last."""
    axes.set(yticks=range(len(names)), yticklabels=names)
    axes.set_ylim(len(names) - 1 + below, -above)


def write_in_cells(
    axes: Axes, table: Floats, digits: int, white_above: float, fontsize: int
) -> None:
    """Write the numbers of a heat map into its cells, in white where the cell is dark."""
    for (row, column), value in np.ndenumerate(table):
        dark = bool(value > white_above)
        write_in_cell(axes, row, column, f"{value:.{digits}f}", dark, fontsize)
