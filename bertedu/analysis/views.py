"""Pictures, all in one style, each with a sentence for those who cannot see it."""

import base64
import html
import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import torch
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text
from torch import Tensor

from bertedu.analysis.fill import Guess

STYLE = Path(__file__).with_name("bertedu.mplstyle")
BLUE, ORANGE, GREEN = "#0072B2", "#D55E00", "#009E73"
LIMIT = "#555555"  # chance lines and limits are gray and dashed everywhere


class Picture:
    """A finished figure; its alt text is read aloud, and stands in for it in plain text."""

    def __init__(self, figure: Figure, alt: str) -> None:
        """Draw the figure once, and close it."""
        if not alt.strip():
            raise ValueError("every picture needs alt text: say in a sentence what it shows")
        self.alt = alt
        buffer = io.BytesIO()
        sizes = [x.get_fontsize() for x in figure.findobj(Text) if x.get_visible() and x.get_text()]
        noted = {"Type": f"{min(sizes):g} pt"} if sizes else {}  # how far it may be made smaller
        figure.savefig(buffer, format="png", metadata={"Software": None, **noted})
        plt.close(figure)
        self.png = buffer.getvalue()

    def save(self, path: str | Path) -> None:
        """Write the PNG."""
        Path(path).write_bytes(self.png)

    def _repr_html_(self) -> str:
        # as HTML, because JupyterLab shows a bare PNG without its alt text
        source = base64.b64encode(self.png).decode()
        return (
            f'<img alt="{html.escape(self.alt)}" style="max-width: 100%" '
            f'src="data:image/png;base64,{source}">'
        )

    def __repr__(self) -> str:
        """Return the alt text: what a reader without a browser gets."""
        return self.alt


@contextmanager
def style() -> Iterator[None]:
    """Use the course's look inside a with-block, or in a whole function: ``@style()``."""
    with mpl.rc_context(fname=STYLE):
        yield


def note(
    axes: Axes,
    text: str,
    place: tuple[float, float],
    shift: tuple[float, float] = (0, 0),
    color: str = LIMIT,
    **more: Any,
) -> None:
    """Write at a place, ``shift`` points away from it."""
    axes.annotate(text, place, xytext=shift, textcoords="offset points", color=color, **more)


def literal(text: str) -> str:
    """Keep two dollars from being read as mathematics."""
    return text.replace("$", r"\$")


def guess_panel(axes: Axes, guesses: Sequence[Guess]) -> None:
    """Draw guesses as bars, the first on top, each with its number in %."""
    bars = axes.barh(range(len(guesses)), [100 * g.probability for g in guesses], color=BLUE)
    axes.bar_label(bars, fmt="%.0f %%", padding=4)
    axes.set_yticks(range(len(guesses)), [literal(guess.word) for guess in guesses])
    axes.invert_yaxis()


@style()
def guess_bars(answers: Mapping[str, Sequence[Guess]], alt: str) -> Picture:
    """Draw the best guesses for some blanks, one panel a sentence."""
    size = (9, len(answers) * (0.9 + 0.42 * max(map(len, answers.values()))))
    figure, panels = plt.subplots(len(answers), figsize=size, squeeze=False, sharex=True)
    for axes, (sentence, guesses) in zip(panels[:, 0], answers.items(), strict=True):
        guess_panel(axes, guesses)
        axes.set_title(literal(sentence), fontsize=15)
    highest = max(guess.probability for guesses in answers.values() for guess in guesses)
    axes.set_xlim(0, 118 * highest)  # room for the number behind the longest bar
    axes.set_xlabel("probability, %")
    return Picture(figure, alt)


def limit_line(axes: Axes, y: float, label: str, below: bool = False) -> None:
    """Draw a dashed line right across: chance, or a limit that cannot be passed."""
    axes.axhline(y, color=LIMIT, linestyle="--", linewidth=1.8)
    at = ("axes fraction", "data")
    shift, va = (-4, "top") if below else (4, "bottom")
    note(axes, f"{label}: {y:.2f}", (1, y), (0, shift), xycoords=at, ha="right", va=va)


def heat_map(
    axes: Axes,
    table: Tensor,
    rows: Sequence[str],
    columns: Sequence[str] | None = None,
    top: float = 1.0,
) -> None:
    """Draw a table of shares, dark for much, with a name at each row and column.

    ``table`` is (rows, columns); ``top`` is the value of the darkest blue. Attention is drawn with
    a row a query and a column a key.
    """
    columns = columns or rows
    size = min(15.0, 300 / max(len(rows), len(columns)))  # the names of 60 tokens must not touch
    axes.imshow(table.detach().float().cpu().numpy(), cmap="Blues", vmin=0, vmax=top)
    turned = 90 if len(columns) > 3 else 0
    axes.set_xticks(range(len(columns)), columns, rotation=turned, fontsize=size)
    axes.set_yticks(range(len(rows)), rows, fontsize=size)
    axes.set_xticks([i + 0.5 for i in range(len(columns) - 1)], minor=True)
    axes.set_yticks([i + 0.5 for i in range(len(rows) - 1)], minor=True)
    axes.tick_params(which="minor", length=0)
    axes.grid(False)
    axes.grid(which="minor", color="white", linewidth=size / 15)


def write_in_cell(
    axes: Axes, row: int, column: int, text: str, dark: bool, fontsize: float
) -> None:
    """Write into a cell of a heat map, in white where it is dark."""
    color = "white" if dark else "black"
    axes.text(column, row, text, ha="center", va="center", color=color, fontsize=fontsize)


@style()
def confusion_map(
    right: Sequence[float], said: Sequence[float], labels: Sequence[str], title: str
) -> Picture:
    """Draw how often each class (a row) was called each class (a column), darker for more.

    ``right`` and ``said`` hold the number of a class for each example. A perfect model would have
    a dark diagonal and nothing else.
    """
    counts = torch.zeros(len(labels), len(labels))
    pairs = np.array([right, said], dtype=int)
    np.add.at(counts.numpy(), tuple(pairs), 1)
    shares = counts / counts.sum(dim=1, keepdim=True).clamp(min=1)
    size = min(60.0, max(3.5, 0.55 * len(labels)))  # inches
    figure, axes = plt.subplots(figsize=(size + 2.5, size + 1))
    heat_map(axes, shares, [literal(label) for label in labels])
    for row, column in np.argwhere(counts.numpy() > 0).tolist():
        dark = float(shares[row, column]) > 0.5
        write_in_cell(axes, row, column, f"{int(counts[row, column])}", dark, fontsize=11)
    axes.set(xlabel="said", ylabel="right")
    axes.set_title(title, fontsize=15)
    wrong = [(int(n), i, j) for (i, j), n in np.ndenumerate(counts.numpy()) if i != j and n]
    alt = f"{title}: {int(counts.trace())} of {pairs.shape[1]} on the diagonal."
    if wrong:
        _, row, column = max(wrong)
        alt += f" Most often {labels[row]} was called {labels[column]}."
    return Picture(figure, alt)


@style()
def attention_maps(maps: Mapping[str, tuple[Tensor, Sequence[str]]], alt: str) -> Picture:
    """Draw attention weights, title -> ((S, S), tokens), a panel each, all on the same scale."""
    figure, panels = plt.subplots(1, len(maps), figsize=(6.8 * len(maps), 7.4), squeeze=False)
    top = max(float(weights.detach().max()) for weights, _ in maps.values())
    for axes, (title, (weights, tokens)) in zip(panels[0], maps.items(), strict=True):
        heat_map(axes, weights, tokens, top=top)
        axes.set_title(title, fontsize=15)
        axes.set(xlabel="is attended to (key)", ylabel="attends (query)")
    return Picture(figure, alt)


@style()
def head_grid(
    weights: Tensor,
    rows: Sequence[str],
    columns: Sequence[str],
    alt: str,
    tokens: Sequence[str],
    chosen: Sequence[tuple[int, int]] = (),
) -> Picture:
    """Draw every head as a small map: ``weights`` (rows, columns, S, S), often a row a layer.

    All maps have one scale, the square root of the weight, so that small ones can be seen.
    Tokens are written at the left and at the bottom where there is room for them. ``chosen`` are
    rows and columns, from 0, that get an orange frame.
    """
    few = len(columns) <= 8
    named = len(tokens) * len(columns) <= 150  # beyond, names would touch
    size = 3.1 if named and len(columns) <= 4 else 2.2 if few else 1.1
    page = (size * len(columns) + 1.6, size * len(rows) + 1.3)
    figure, panels = plt.subplots(len(rows), len(columns), figsize=page, squeeze=False)
    darkness = weights.detach().float().cpu().sqrt().numpy()
    for row, line in enumerate(panels):
        for column, axes in enumerate(line):
            axes.imshow(darkness[row, column], cmap="Blues", vmin=0, vmax=1)
            axes.set(xticks=[], yticks=[])
            axes.grid(False)
            if (row, column) in chosen:
                axes.spines[:].set(visible=True, color=ORANGE, linewidth=4)
            if row == 0:
                axes.set_title(columns[column], fontsize=13 if few else 11)
        line[0].set_ylabel(rows[row], fontsize=13)
    if named:
        letters = min(12.0, 58 * size / len(tokens))
        for axes in panels[:, 0]:
            axes.set_yticks(range(len(tokens)), tokens, fontsize=letters)
        for axes in panels[-1]:
            axes.set_xticks(range(len(tokens)), tokens, fontsize=letters, rotation=90)
    return Picture(figure, alt)
