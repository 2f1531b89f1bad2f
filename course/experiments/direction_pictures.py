"""Pictures of notebook 13: grammar at a blank, the same question under three masks, and recall."""

from collections.abc import Mapping

import numpy as np
from matplotlib import pyplot as plt

from bertedu.analysis.views import BLUE, GREEN, LIMIT, ORANGE, Picture, style
from course.experiments.grammar import TELLS
from course.experiments.recall import READERS, lengths_of
from course.experiments.same_question import BOTH, LEFT, PAIR, RIGHT
from course.results.bootstrap import Estimate
from course.results.columns import read_estimate
from course.results.pictures import committed, headed_panels, interval_bar, name_rows
from course.results.verdicts import verdicts_together

# the readers beside the one of both sides, and how each is drawn
OTHERS = {PAIR: (GREEN, "D"), LEFT: (ORANGE, "<"), RIGHT: (ORANGE, ">")}
AT_A_BLANK = {BOTH: (BLUE, "o")} | OTHERS
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

    ``kinds`` is kind of blank -> heading of an estimate. Raises KeyError if they were not compared.
    """
    less = {}
    for row in committed("same_question_differences"):
        less[row["one"], row["other"], row["told_by"]] = read_estimate(row, "less_loss")
        less[row["other"], row["one"], row["told_by"]] = -read_estimate(row, "less_loss")
    return {heading: less[one, other, kind] for kind, heading in kinds.items()}


@style()
def same_question_plot(kinds: Mapping[str, str], title: str, alt: str) -> Picture:
    """Draw what each reader pays more than both sides, on one axis: a row for each kind of blank.

    ``kinds`` is kind -> heading.
    """
    figure, axes = plt.subplots(figsize=(11, 1.5 + 0.95 * len(kinds)))
    for i, (reader, (color, marker)) in enumerate(OTHERS.items()):
        more = less_loss(BOTH, reader, kinds).values()
        for place, (value, low, high, _) in enumerate(more):
            height = place + 0.7 * ((i + 0.5) / len(OTHERS) - 0.5)
            interval_bar(axes, height, (value, low, high), color, marker)
        axes.plot([], [], marker, color=color, label=reader, markersize=10)
    axes.axvline(0, color=LIMIT, linestyle="--")
    name_rows(axes, list(kinds.values()))
    axes.set(xlabel="nats more than both sides", title=title)
    axes.legend(loc="lower right")
    return Picture(figure, alt)


def grammar_scores(reader: str) -> dict[str, float]:
    """Return how often a reader is right at the blanks of each pair of words, in per cent."""
    right: dict[str, list[float]] = {}
    for row in committed("grammar", reader=reader):
        right.setdefault(row["pair"], []).append(100 * float(row["right"]))
    return {pair: float(np.mean(runs)) for pair, runs in right.items()}


def grammar_gaps(one: str, other: str) -> dict[str, Estimate]:
    """Return, by pair of words, how many points oftener one reader is right than another."""
    rows = committed("grammar_differences", one=one, other=other)
    return {row["pair"]: read_estimate(row, "points") for row in rows}


@style()
def grammar_plot(title: str, alt: str) -> Picture:
    """Draw who is right how often at each pair of words, and both sides minus the left alone.

    Pairs stand in groups, by the side that grammar says tells.
    """
    names = [f"{pair}   {tells}" for pair, tells in TELLS.items()]
    headings = {"right": "who is right?", "gap": "both sides − left alone"}
    figure, panels = headed_panels(headings, title, (13, 2 + 0.42 * len(names)), sharey=True)
    for reader, (color, marker) in AT_A_BLANK.items():
        scores = grammar_scores(reader)
        at = [scores[pair] for pair in TELLS]
        panels["right"].plot(at, range(len(at)), marker, color=color, label=reader, markersize=10)
    panels["right"].axvline(50, color=LIMIT, linestyle="--")
    gaps = grammar_gaps(BOTH, LEFT)
    words = verdicts_together([gaps[pair] for pair in TELLS])
    for place, (pair, word) in enumerate(zip(TELLS, words, strict=True)):
        color = {"supported": BLUE, "contradicted": ORANGE, "undecided": LIMIT}[word]
        interval_bar(panels["gap"], place, gaps[pair][:3], color)
    panels["gap"].axvline(0, color=LIMIT, linestyle="--")
    for axes in panels.values():
        name_rows(axes, names)
        sides = list(TELLS.values())
        for place in range(1, len(sides)):
            if sides[place] != sides[place - 1]:
                axes.axhline(place - 0.5, color=LIMIT, linewidth=1)
    panels["right"].set_xlabel("right, % of the places; dashed: a coin")
    panels["gap"].set_xlabel("points")
    panels["right"].legend(loc="lower left", fontsize=11)
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
