"""The paper's table 7 beside ours: which layers to read, frozen or not."""

from collections.abc import Mapping
from pathlib import Path

from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from bertedu.analysis.scores import summary
from bertedu.analysis.views import BLUE, GREEN, LIMIT, ORANGE, Picture, style

# our method -> the name of its row; "two (four)": of our 4 layers, and of the paper's 12
ROWS = {
    "features:embeddings": "embeddings",
    "features:second-to-last": "second-to-last layer",
    "features:last": "last layer",
    "features:sum of last two": "last two (four), weighted sum",
    "features:concat of last two": "last two (four), side by side",
    "features:sum of all": "all, weighted sum",
    "features:concat of all": "all, side by side",
    "fine-tuned": "everything fine-tuned",
}
# dev F1 on CoNLL-2003, BERT-base with 12 layers: Devlin et al. (2019), table 7
PAPER = {
    "features:embeddings": 91.0,
    "features:second-to-last": 95.6,
    "features:last": 94.9,
    "features:sum of last two": 95.9,
    "features:concat of last two": 96.1,
    "features:sum of all": 95.5,
    "fine-tuned": 96.4,
}
Score = tuple[float, float, float]  # mean, low, high


def feature_scores(
    task: str, model: str = "bert-L4H128", folder: Path | None = None
) -> dict[str, Score]:
    """Return method -> mean, low and high, times 100, of what the record has of `ROWS`.

    The controls, with an encoder that began at random, stand under "untrained" and the method.
    """
    found = {}
    for (name, method), row in summary(task, folder).items():
        method = "untrained fine-tuned" if method == "untrained" else method
        if name == model and method.removeprefix("untrained ") in ROWS:
            mean, low, high = (100 * float(row[column]) for column in ("mean", "low", "high"))
            found[method] = mean, low, high
    return found


def table_seven(
    scores: Mapping[str, Score], title: str, alt: str, limits: Mapping[str, float] | None = None
) -> Picture:
    """Draw the paper's F1 on the left and ours on the right, a row a method.

    ``limits``, label -> F1 times 100, are readers without a network: dashed lines on the right.
    """
    with style():
        figure, (left, right) = plt.subplots(1, 2, figsize=(14.5, 7), sharey=True)
        for place, method in enumerate(ROWS):
            color = BLUE if method == "fine-tuned" else GREEN
            if method in PAPER:
                _point(left, place, (PAPER[method],) * 3, color)
            else:
                left.text(0.5, place, "not in the paper", **_middle(left))
            control = f"untrained {method}"
            if control in scores:
                _point(right, place + 0.22, scores[control], ORANGE, "s", "")
            if method in scores:
                _point(right, place, scores[method], color)
            else:
                right.text(0.5, place, "not run yet", **_middle(right))
        for label, score in (limits or {}).items():
            right.axvline(score, color=LIMIT, linestyle="--", linewidth=1.8)
            right.annotate(
                label,
                (score, len(ROWS) - 0.15),  # below the rows
                xytext=(-4, 0),
                textcoords="offset points",
                ha="right",
                color=LIMIT,
                fontsize=13,
            )
        left.set(yticks=range(len(ROWS)), yticklabels=list(ROWS.values()))
        left.set_ylim(len(ROWS) - (0.0 if limits else 0.4), -0.7)
        left.set_title("the paper: 12 layers, CoNLL-2003", fontsize=15)
        right.set_title("ours: 4 layers, entities", fontsize=15)
        if any(name.startswith("untrained") for name in scores):
            right.set_title("■ not pre-trained", fontsize=15, color=ORANGE, loc="right")
        left.set(xlabel="F1 on dev", xlim=(90, 97.4))
        right.set_xlabel("F1 on test")
        figure.suptitle(title, fontsize=19)
        return Picture(figure, alt)


def _middle(axes: Axes) -> dict[str, object]:
    return {
        "transform": axes.get_yaxis_transform(),
        "ha": "center",
        "va": "center",
        "color": LIMIT,
        "fontsize": 13,
    }


def _point(
    axes: Axes, place: float, score: Score, color: str, marker: str = "o", label: str = "{:.1f}"
) -> None:
    value, low, high = score
    axes.hlines(place, low, high, color=color, linewidth=4)
    axes.plot(value, place, marker, color=color, markersize=11 if label else 8)
    axes.annotate(
        label.format(value),
        (value, place),
        xytext=(0, 10),
        textcoords="offset points",
        ha="center",
        color=color,
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5},  # over a dashed line
    )
