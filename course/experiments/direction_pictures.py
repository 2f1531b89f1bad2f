"""Pictures of notebook 13: the same question under three masks, and recall by place."""

from collections.abc import Mapping

import numpy as np

from bertedu.analysis.views import BLUE, GREEN, LIMIT, ORANGE, Picture, note, style
from course.experiments.recall import READERS, lengths_of
from course.experiments.same_question import BOTH, LEFT, PAIR, RIGHT
from course.results.bootstrap import Estimate
from course.results.columns import read_estimate
from course.results.pictures import committed, headed_panels, name_rows

SAME_QUESTION = {BOTH: BLUE, PAIR: GREEN, LEFT: ORANGE, RIGHT: ORANGE}
WIDTHS = (13, 10, 7, 5, 3)
RECALL = dict(zip(READERS, (BLUE, ORANGE, "#CC79A7", GREEN, "black"), strict=True))


def same_question_losses() -> dict[tuple[str, str], list[float]]:
    """Return the nats that each run pays for a blank: by reader, and by what tells the blank."""
    losses: dict[tuple[str, str], list[float]] = {}
    for row in committed("same_question"):
        losses.setdefault((row["reader"], row["told_by"]), []).append(float(row["loss"]))
    return losses


def less_loss(one: str, other: str, kinds: Mapping[str, str]) -> dict[str, Estimate]:
    """Return how many nats ``one`` pays less than ``other``, with the 95 % interval.

    ``kinds`` is kind of blank -> heading; an estimate stands under the heading. Raises KeyError if
    the two were not compared.
    """
    less = {}
    for row in committed("same_question_differences"):
        less[row["one"], row["other"], row["told_by"]] = read_estimate(row, "less_loss")
        less[row["other"], row["one"], row["told_by"]] = -read_estimate(row, "less_loss")
    return {heading: less[one, other, kind] for kind, heading in kinds.items()}


@style()
def same_question_plot(kinds: Mapping[str, str], title: str, alt: str) -> Picture:
    """Draw the nats that each run pays, a panel for each kind of blank (kind -> heading)."""
    losses = same_question_losses()
    figure, panels = headed_panels(kinds, title, (3.6 * len(kinds) + 2, 4.2), sharey=True)
    for kind, axes in panels.items():
        for place, (reader, color) in enumerate(SAME_QUESTION.items()):
            runs = losses[reader, kind]
            axes.plot(runs, [place] * len(runs), "o", color=color, markersize=11, alpha=0.6)
            mean = float(np.mean(runs))
            note(axes, f"{mean:.2f}", (mean, place), (0, 11), color, ha="center")
        name_rows(axes, list(SAME_QUESTION), above=0.8)
        axes.set_xlabel("loss, nats")
        axes.margins(x=0.2)
    return Picture(figure, alt)


@style()
def recall_plot(layouts: Mapping[str, str], title: str, alt: str) -> Picture:
    """Draw the nats of each reader against the words of the list, a panel for each layout.

    ``layouts`` is layout -> heading. Lines are means over seeds, the first the widest, since some
    lie on each other; strokes reach from the best seed to the worst. Dashes are the exact limits.
    """
    figure, panels = headed_panels(layouts, title, (5.2 * len(layouts) + 1, 5), sharey=True)
    for layout, axes in panels.items():
        lengths = list(lengths_of(layout))
        limits = set()
        for width, (reader, color) in zip(WIDTHS, RECALL.items(), strict=True):
            rows = committed("recall", layout=layout, reader=reader)
            of = {n: [float(r["loss"]) for r in rows if r["length"] == str(n)] for n in lengths}
            limits.add(tuple(float(r["limit"]) for r in rows if r["seed"] == "0"))
            mean = [float(np.mean(of[n])) for n in lengths]
            axes.plot(lengths, mean, color=color, label=reader, linewidth=width)
            best, worst = ([end(of[n]) for n in lengths] for end in (min, max))
            axes.vlines(lengths, best, worst, color)
        for limit in limits:
            axes.plot(lengths, limit, "--", color=LIMIT, linewidth=2.2, zorder=5)
        axes.set(xticks=lengths, xlabel="words in the list")
    figure.axes[0].set_ylabel("loss, nats")
    figure.axes[-1].legend(loc="center left", bbox_to_anchor=(1.02, 0.5))
    return Picture(figure, alt)
