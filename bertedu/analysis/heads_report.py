"""The committed study of heads, as notebook 15 shows it: tables, intervals, claims."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from matplotlib import pyplot as plt
from torch import Tensor

from bertedu.analysis.heads import PATTERNS
from bertedu.analysis.probes import RELATIONS
from bertedu.analysis.verdicts import say
from bertedu.analysis.views import BLUE, GREEN, LIMIT, ORANGE, Picture, curve, heat_map, style
from bertedu.finetuning.run import read_csv
from bertedu.text.sources import shipped

Interval = tuple[float, float, float]  # value, low, high
COLORS = (BLUE, ORANGE, GREEN)


def results(model: str, statistic: str, folder: Path | None = None) -> list[dict[str, str]]:
    """Return the rows of one statistic in `heads.csv`.

    Raises
    ------
    ValueError
        There are none.

    """
    rows = [
        {name: str(value) for name, value in row.items()}
        for row in read_csv((folder or shipped("results")) / "heads.csv")
        if row["model"] == model and row["statistic"] == statistic
    ]
    if not rows:
        raise ValueError(
            f"no {statistic!r} of {model!r} in heads.csv: run "
            f"`python -m bertedu.analysis.heads_study --model {model}`"
        )
    return rows


def models(folder: Path | None = None, part: str = "patterns") -> list[str]:
    """Name the models of the study that have a part, in the order of the file."""
    rows = read_csv((folder or shipped("results")) / "heads.csv")
    return list(dict.fromkeys(str(row["model"]) for row in rows if row["part"] == part))


def by_head(model: str, statistic: str, folder: Path | None = None) -> Tensor:
    """Return a statistic of all heads: (L, A)."""
    rows = results(model, statistic, folder)
    size = [max(int(row[name]) for row in rows) for name in ("layer", "head")]
    table = torch.full(size, torch.nan)
    for row in rows:
        table[int(row["layer"]) - 1, int(row["head"]) - 1] = float(row["value"])
    return table


def interval_of(row: Mapping[str, str]) -> Interval:
    """Return value, low and high of a row."""
    return float(row["value"]), float(row["low"]), float(row["high"])


def claim(text: str, row: Mapping[str, str]) -> None:
    """Print whether a difference that should be above 0 is, by its interval."""
    _, low, high = interval_of(row)
    say(text, low, high, digits=2)


def relation(model: str, name: str, folder: Path | None = None) -> dict[str, dict[str, str]]:
    """Return the three rows that belong together: best head, fixed offset, and the difference."""
    path = (folder or shipped("results")) / "heads.csv"
    offset = next(
        str(row["statistic"])
        for row in read_csv(path)
        if row["model"] == model and str(row["statistic"]).startswith(f"{name}: offset")
    )
    return {
        "head": results(model, f"{name}: best head", folder)[0],
        "offset": results(model, offset, folder)[0],
        "difference": results(model, f"{name}: head minus offset", folder)[0],
    }


def pattern_map(model: str, title: str, alt: str, folder: Path | None = None) -> Picture:
    """Draw shares of attention, a row a head and a column a pattern; in a large model, a row a
    layer, with the share of the head that does most of it."""
    tables = torch.stack([by_head(model, name, folder) for name in PATTERNS], dim=-1)
    layers, heads = tables.shape[:2]
    if layers * heads <= 16:
        rows = [f"layer {i + 1}, head {j + 1}" for i in range(layers) for j in range(heads)]
        shares = tables.flatten(0, 1)
    else:
        rows, shares = [f"layer {i + 1}" for i in range(layers)], tables.amax(dim=1)
    with style():
        figure, axes = plt.subplots(figsize=(11, 2.2 + 0.55 * len(rows)))
        heat_map(axes, shares, rows, PATTERNS)
        axes.set_aspect("auto")
        axes.tick_params(labelsize=14)
        for i, line in enumerate(shares.tolist()):
            for j, share in enumerate(line):
                color = "white" if share > 0.5 else "black"
                axes.text(
                    j, i, f"{100 * share:.0f}", ha="center", va="center", color=color, fontsize=14
                )
        axes.set_xticks(range(len(PATTERNS)), PATTERNS, rotation=25, ha="right", fontsize=14)
        axes.set_title(title, fontsize=16)
        return Picture(figure, alt)


def relation_plot(
    names: Sequence[str], title: str, alt: str, folder: Path | None = None
) -> Picture:
    """Draw the best head and the best fixed offset on each relation: a panel a model."""
    with style():
        figure, panels = plt.subplots(
            1, len(names), figsize=(2.6 + 4 * len(names), 5.2), squeeze=False, sharey=True
        )
        for axes, model in zip(panels[0], names, strict=True):
            for place, name in enumerate(RELATIONS):
                found = relation(model, name, folder)
                for key, color, up in (("head", BLUE, -0.14), ("offset", ORANGE, 0.14)):
                    value, low, high = (100 * x for x in interval_of(found[key]))
                    axes.hlines(place + up, low, high, color=color, linewidth=4)
                    axes.plot(value, place + up, "o", color=color, markersize=10)
                row = found["head"]
                axes.annotate(
                    f"{row['layer']}.{row['head']}",
                    (100 * float(row["value"]), place - 0.14),
                    xytext=(0, 8),
                    textcoords="offset points",
                    ha="center",
                    color=BLUE,
                )
            axes.set(yticks=range(len(RELATIONS)), yticklabels=RELATIONS, xlim=(-4, 104))
            axes.set_ylim(len(RELATIONS) - 0.5, -0.6)
            axes.set(xlabel="right, %", title=model)
        below = panels[0, len(names) // 2]
        below.plot([], [], "o-", color=BLUE, label="best head (layer.head)")
        below.plot([], [], "o-", color=ORANGE, label="best fixed distance")
        below.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2)
        figure.suptitle(title, fontsize=18)
        return Picture(figure, alt)


def head_bars(
    model: str, statistic: str, xlabel: str, title: str, alt: str, folder: Path | None = None
) -> Picture:
    """Draw a statistic of every head with its interval, the largest on top."""
    rows = sorted(results(model, statistic, folder), key=lambda row: -float(row["value"]))
    with style():
        figure, axes = plt.subplots(figsize=(10, 1.8 + 0.45 * len(rows)))
        for place, row in enumerate(rows):
            value, low, high = interval_of(row)
            axes.hlines(place, low, high, color=BLUE, linewidth=4)
            axes.plot(value, place, "o", color=BLUE, markersize=10)
        axes.axvline(0, color=LIMIT, linestyle="--")
        names = [f"layer {row['layer']}, head {row['head']}" for row in rows]
        axes.set(yticks=range(len(rows)), yticklabels=names, xlabel=xlabel, title=title)
        axes.invert_yaxis()
        return Picture(figure, alt)


def layer_curves(
    model: str,
    panels: Mapping[str, Sequence[tuple[str, str]]],
    ylabels: Sequence[str],
    title: str,
    alt: str,
    folder: Path | None = None,
    scale: float = 1.0,
) -> Picture:
    """Draw statistics by layer: heading -> (statistic, label), a panel each."""
    with style():
        figure, drawn = plt.subplots(1, len(panels), figsize=(7.4 * len(panels), 5), squeeze=False)
        for axes, (heading, lines), ylabel in zip(drawn[0], panels.items(), ylabels, strict=True):
            for (statistic, label), color in zip(lines, COLORS, strict=False):
                rows = results(model, statistic, folder)
                x = [int(row["layer"]) for row in rows]
                values = [[scale * n for n in interval_of(row)] for row in rows]
                value, low, high = (list(column) for column in zip(*values, strict=True))
                curve(axes, x, value, low, high, label, color)
                axes.set_xticks(x)
            axes.set(xlabel="layer (0: embeddings)", ylabel=ylabel, title=heading)
        figure.suptitle(title, fontsize=18)
        return Picture(figure, alt)
