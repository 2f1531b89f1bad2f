"""The committed study of heads, as notebook 15 shows it: tables, intervals, pictures."""

from collections.abc import Mapping, Sequence

import torch
from matplotlib import pyplot as plt
from torch import Tensor

from bertedu.analysis.attention_heads import PATTERNS
from bertedu.analysis.probes import RELATIONS
from bertedu.analysis.views import BLUE, GREEN, LIMIT, ORANGE, Picture, heat_map, note, style
from bertedu.files import Row
from course.results import pictures
from course.results.bootstrap import Estimate, over_texts

COLORS = (BLUE, ORANGE, GREEN)


def results(model: str, statistic: str) -> list[Row]:
    """Return the rows of one statistic in `heads.csv`; raises ValueError if there are none."""
    missing = (
        f"no {statistic!r} of {model!r} in heads.csv: run "
        f"`python -m course.experiments.head_study --model {model}`"
    )
    return pictures.committed("heads", missing, model=model, statistic=statistic)


def models(part: str) -> list[str]:
    """Name the models of the study that have a part, in the order of the file."""
    return list(dict.fromkeys(row["model"] for row in pictures.committed("heads", part=part)))


def by_head(model: str, statistic: str) -> Tensor:
    """Return a statistic of all heads: (L, A)."""
    rows = results(model, statistic)  # head by head, layer by layer
    layers = max(int(row["layer"]) for row in rows)
    return torch.tensor([float(row["value"]) for row in rows]).view(layers, -1)


def interval_of(row: Row, scale: float = 1.0) -> pictures.Score:
    """Return value, low and high of a row."""
    value, low, high = (scale * float(row[name]) for name in ("value", "low", "high"))
    return value, low, high


def difference_of(row: Row, scale: float = 1.0) -> Estimate:
    """Return the difference that a row holds: of a single model, over documents."""
    value, low, high = interval_of(row, scale)
    return over_texts(value, (high - low) / 2)


def relation(model: str, name: str) -> dict[str, Row]:
    """Return the three rows that belong together: best head, fixed offset, and the difference."""
    start, rows = f"{name}: offset", pictures.committed("heads", model=model)
    return {
        "head": results(model, f"{name}: best head")[0],
        "offset": next(row for row in rows if row["statistic"].startswith(start)),
        "difference": results(model, f"{name}: head minus offset")[0],
    }


@style()
def pattern_map(model: str, title: str, alt: str) -> Picture:
    """Draw mean attention weights, a row for each head and a column for each pattern; in a large
    model a row for each layer, with the weight of the head that does most of it."""
    tables = torch.stack([by_head(model, name) for name in PATTERNS], dim=-1)
    layers, heads = tables.shape[:2]
    if layers * heads <= 16:
        rows = [f"layer {i + 1}, head {j + 1}" for i in range(layers) for j in range(heads)]
        shares = tables.flatten(0, 1)
    else:
        rows, shares = [f"layer {i + 1}" for i in range(layers)], tables.amax(dim=1)
    figure, axes = plt.subplots(figsize=(11, 2.2 + 0.55 * len(rows)))
    heat_map(axes, shares, rows, PATTERNS)
    axes.set_aspect("auto")
    axes.tick_params(labelsize=14)
    percent = 100 * shares.double().numpy()
    pictures.write_in_cells(axes, percent, digits=0, white_above=50, fontsize=14)
    axes.set_xticks(range(len(PATTERNS)), PATTERNS, rotation=25, ha="right", fontsize=14)
    axes.set_title(title, fontsize=16)
    return Picture(figure, alt)


@style()
def relation_plot(names: Sequence[str], title: str, alt: str) -> Picture:
    """Draw the best head and the best fixed offset on each relation: a panel a model."""
    page = (2.6 + 4 * len(names), 5.2)
    figure, panels = plt.subplots(1, len(names), figsize=page, squeeze=False, sharey=True)
    for axes, model in zip(panels[0], names, strict=True):
        for place, name in enumerate(RELATIONS):
            rows = relation(model, name)
            pictures.interval_bar(axes, place + 0.14, interval_of(rows["offset"], 100), ORANGE)
            score = interval_of(rows["head"], 100)
            pictures.interval_bar(axes, place - 0.14, score, BLUE)
            where = "{layer}.{head}".format(**rows["head"])
            note(axes, where, (score[0], place - 0.14), (0, 8), BLUE, ha="center")
        pictures.name_rows(axes, RELATIONS, above=0.6)
        axes.set(xlim=(-4, 104), xlabel="right, %", title=model)
    below = panels[0, len(names) // 2]
    below.plot([], [], "o-", color=BLUE, label="best head (layer.head)")
    below.plot([], [], "o-", color=ORANGE, label="best fixed distance")
    below.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2)
    figure.suptitle(title, fontsize=18)
    return Picture(figure, alt)


@style()
def head_bars(model: str, statistic: str, xlabel: str, title: str, alt: str) -> Picture:
    """Draw a statistic of every head with its interval, the largest on top."""
    rows = sorted(results(model, statistic), key=lambda row: -float(row["value"]))
    figure, axes = plt.subplots(figsize=(10, 1.8 + 0.45 * len(rows)))
    for place, row in enumerate(rows):
        pictures.interval_bar(axes, place, interval_of(row), BLUE)
    axes.axvline(0, color=LIMIT, linestyle="--")
    names = [f"layer {row['layer']}, head {row['head']}" for row in rows]
    axes.set(yticks=range(len(rows)), yticklabels=names, xlabel=xlabel, title=title)
    axes.invert_yaxis()
    return Picture(figure, alt)


@style()
def layer_curves(
    model: str,
    panels: Mapping[str, Sequence[tuple[str, str]]],
    ylabels: Sequence[str],
    title: str,
    alt: str,
    scale: float = 1.0,
) -> Picture:
    """Draw statistics by layer: heading -> (statistic, label), a panel each."""
    figure, drawn = plt.subplots(1, len(panels), figsize=(7.4 * len(panels), 5), squeeze=False)
    for axes, (heading, lines), ylabel in zip(drawn[0], panels.items(), ylabels, strict=True):
        for (statistic, label), color in zip(lines, COLORS, strict=False):
            rows = results(model, statistic)
            layers = [int(row["layer"]) for row in rows]
            scores = [interval_of(row, scale) for row in rows]
            pictures.score_curve(axes, zip(layers, scores, strict=True), label, color)
            axes.set_xticks(layers)
        axes.set(xlabel="layer (0: embeddings)", ylabel=ylabel, title=heading)
    figure.suptitle(title, fontsize=18)
    return Picture(figure, alt)
