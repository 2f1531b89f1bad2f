"""Pictures, all in one style, each with a sentence for those who cannot see it."""

import io
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bertedu.analysis.fill import Guess

STYLE = Path(__file__).with_name("bertedu.mplstyle")
BLUE, ORANGE, GREEN = "#0072B2", "#D55E00", "#009E73"
LIMIT = "#555555"  # chance lines and limits are gray and dashed everywhere


class Picture:
    """A finished figure. A notebook shows the PNG; its alt text is read aloud, and stands in
    for the picture in plain text."""

    def __init__(self, figure: Figure, alt: str) -> None:
        """Draw the figure once, and close it."""
        if not alt.strip():
            raise ValueError("every picture needs alt text: say in a sentence what it shows")
        self.alt = alt
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", metadata={"Software": None})
        plt.close(figure)
        self.png = buffer.getvalue()

    def save(self, path: Path) -> None:
        """Write the PNG."""
        path.write_bytes(self.png)

    def _repr_mimebundle_(
        self, include: object = None, exclude: object = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        return {"image/png": self.png, "text/plain": self.alt}, {"image/png": {"alt": self.alt}}


def style() -> AbstractContextManager[None]:
    """Use the course's look inside a with-block."""
    return mpl.rc_context(fname=STYLE)


def guess_bars(answers: Mapping[str, Sequence[Guess]], alt: str) -> Picture:
    """Draw the best guesses for some blanks, one panel a sentence."""
    with style():
        tallest = max(len(guesses) for guesses in answers.values())
        figure, panels = plt.subplots(
            len(answers),
            figsize=(9, len(answers) * (0.9 + 0.42 * tallest)),
            squeeze=False,
            sharex=True,
        )
        for axes, (sentence, guesses) in zip(panels[:, 0], answers.items(), strict=True):
            words = [guess.word for guess in guesses]
            shares = [100 * guess.probability for guess in guesses]
            bars = axes.barh(range(len(words)), shares, color=BLUE)
            axes.bar_label(bars, fmt="%.0f %%", padding=4)
            axes.set_yticks(range(len(words)), words)
            axes.invert_yaxis()
            axes.set_title(sentence, fontsize=15)
        highest = max(guess.probability for guesses in answers.values() for guess in guesses)
        panels[-1, 0].set_xlim(0, 118 * highest)  # room for the number behind the longest bar
        panels[-1, 0].set_xlabel("probability, %")
        return Picture(figure, alt)


def limit_line(axes: Axes, y: float, label: str, below: bool = False) -> None:
    """Draw a dashed line right across: chance, or a limit that cannot be passed."""
    axes.axhline(y, color=LIMIT, linestyle="--", linewidth=1.8)
    axes.annotate(
        f"{label}: {y:.2f}",
        (1, y),
        xycoords=("axes fraction", "data"),
        xytext=(0, -4 if below else 4),
        textcoords="offset points",
        ha="right",
        va="top" if below else "bottom",
        color=LIMIT,
    )
