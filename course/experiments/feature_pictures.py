"""The paper's table 7 beside ours: which layers to read, frozen or not."""

from collections.abc import Mapping

from matplotlib import pyplot as plt

from bertedu.analysis.views import BLUE, GREEN, LIMIT, ORANGE, Picture, note, style
from course.results import pictures
from course.results.task_pictures import summary

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
PAPER = {method: row["F1"] for method, row in pictures.paper_table("table_7").items()}


def feature_scores(task: str) -> dict[str, pictures.Score]:
    """Return method -> mean, low and high, times 100, of what the record has of `ROWS`.

    The controls, with an encoder that began at random, stand under "untrained" and the method.
    """
    scores = {}
    for (name, method), row in summary(task).items():
        method = "untrained fine-tuned" if method == "untrained" else method
        if name == "bert-L4H128" and method.removeprefix("untrained ") in ROWS:
            scores[method] = pictures.score_of(row)
    return scores


@style()
def table_seven(
    scores: Mapping[str, pictures.Score], title: str, alt: str, limits: Mapping[str, float]
) -> Picture:
    """Draw the paper's F1 on the left and ours on the right, a row a method.

    ``limits``, label -> F1 times 100, are readers without a network: dashed lines on the right.
    """
    figure, (left, right) = plt.subplots(1, 2, figsize=(14.5, 7), sharey=True)
    known = {method: (value, value, value) for method, value in PAPER.items()}
    for place, method in enumerate(ROWS):
        color = BLUE if method == "fine-tuned" else GREEN
        control = scores.get(f"untrained {method}")
        if control:
            pictures.interval_bar(right, place + 0.22, control, ORANGE, "s", size=8)
        both = (left, known, "not in the paper"), (right, scores, "not run yet")
        for axes, of, missing in both:
            if method in of:
                pictures.scored_bar(axes, place, of[method], color)
            else:
                middle = {"xycoords": axes.get_yaxis_transform(), "va": "center"}
                note(axes, missing, (0.5, place), ha="center", fontsize=13, **middle)
    for label, score in limits.items():
        right.axvline(score, color=LIMIT, linestyle="--", linewidth=1.8)
        below = len(ROWS) - 0.15  # the rows
        beyond = score == max(limits.values())  # there is room to the right of the last
        shift, side = (4, "left") if beyond else (-4, "right")
        note(right, label, (score, below), (shift, 0), ha=side, fontsize=13)
    pictures.name_rows(left, list(ROWS.values()), above=0.7, below=1.0)
    left.set_title("the paper: 12 layers, CoNLL-2003", fontsize=15)
    right.set_title("ours: 4 layers, entities", fontsize=15)
    if any(name.startswith("untrained") for name in scores):
        right.set_title("■ not pre-trained", fontsize=15, color=ORANGE, loc="right")
    left.set(xlabel="F1 on dev", xlim=(90, 97.4))
    right.set_xlabel("F1 on test")
    figure.suptitle(title, fontsize=19)
    return Picture(figure, alt)
