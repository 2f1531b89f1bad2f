"""Committed results as notebooks show them: means, intervals, claims."""

from itertools import product
from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bertedu.analysis.views import Picture
from bertedu.files import write_csv
from bertedu.finetuning.examples import TaskError
from course.results import task_pictures as scores
from course.results.record import RunRecord
from course.results.summary import summarize
from course.results.task_pictures import (
    best_with_all,
    confusion,
    difference_from,
    grid_map,
    labels_to_reach,
    learning_curves,
    live_rows,
    runs_of,
    score_lines,
    score_plot,
    summary,
    task_difference,
)
from course.results.verdicts import say

TUNED, RAW = ("bert-L4H128", "fine-tuned"), ("bert-L4H128", "untrained")
WORDS = ("word counts", "baseline")
TEXTS = 300


def answers(right: float, seed: int) -> str:
    """300 answers of two classes, about so many of them right."""
    dice = np.random.default_rng(seed)
    labels = np.arange(TEXTS) % 2
    found = np.where(dice.random(TEXTS) < right, labels, 1 - labels)
    return " ".join(f"{a}/{b}" for a, b in zip(labels, found, strict=True))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two tuned runs at 80 %, two untrained at 60 %, a word-count baseline at 79 %; a grid."""
    monkeypatch.setenv("BERTEDU_DATA", str(tmp_path))
    folder = tmp_path / "results"
    runs = [
        (*TUNED, "all", 0, 0.8),
        (*TUNED, "all", 1, 0.8),
        (*RAW, "all", 0, 0.6),
        (*RAW, "all", 1, 0.6),
        (*WORDS, "all", "", 0.79),
        (*TUNED, "100", 0, 0.7),
    ]
    outcomes: list[dict[str, object]] = [
        {"model": "(source)", "columns": "source", "outcomes": " ".join(map(str, range(TEXTS)))}
    ]
    table: list[dict[str, object]] = []
    for number, (model, method, count, seed, right) in enumerate(runs):
        names = {"model": model, "method": method, "train_examples": count, "seed": seed}
        outcomes.append(names | {"columns": "label/found", "outcomes": answers(right, number)})
        more = {"purpose": "score", "metric": "accuracy", "dev": right, "test": right, "epochs": 3}
        table.append({"task": "play"} | names | more)
    one = {"task": "play", "model": TUNED[0], "method": TUNED[1], "train_examples": "all"}
    for batch, epochs, rate in product((16, 32), (2, 3), (1e-4, 3e-4)):
        grid = {"seed": 0, "purpose": "grid", "metric": "accuracy", "dev": 0.7 + epochs / 100}
        recipe = {"batch_size": batch, "epochs": epochs, "learning_rate": rate}
        table.append(one | grid | recipe)
    write_csv(folder / "finetuning.csv", table)
    write_csv(folder / "outcomes" / "play.csv", outcomes)
    summarize(folder, TUNED[0])
    return folder


def test_a_line_has_mean_interval_and_seeds(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = summary("play")
    assert set(rows) == {TUNED, RAW, WORDS}, "runs on a part of the data are no final results"
    score_lines("play")
    lines = capsys.readouterr().out.splitlines()
    assert [line[:22].strip() for line in lines] == [
        "word-count baseline",
        "not pre-trained",
        "pre-trained, fine-tune",
    ]
    by_hand = np.mean(
        [
            np.mean([a == b for a, b in (pair.split("/") for pair in answers(0.8, seed).split())])
            for seed in (0, 1)
        ]
    )
    assert f"{100 * by_hand:.1f} (" in lines[2]
    assert lines[2].endswith("2 seeds")
    assert "seed" not in lines[0], "counting words has no chance in it"


def test_claims_follow_the_interval(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    say("one", *task_difference("play", TUNED, RAW))
    say("two", *task_difference("play", RAW, TUNED))
    say("three", *task_difference("play", TUNED, WORDS))
    said = [line.split("  ")[0] for line in capsys.readouterr().out.splitlines()]
    assert said == ["supported", "contradicted", "undecided"]
    with pytest.raises(TaskError, match=r"untrained, 100"):
        task_difference("play", TUNED, RAW, 100)


def test_confusion_counts_all_seeds(folder: Path) -> None:
    table = confusion("play", TUNED, 2)
    assert table.sum() == 2 * TEXTS
    assert table.diag().sum() / table.sum() == pytest.approx(
        float(summary("play")[TUNED]["mean"]), abs=1e-3
    )
    assert table.sum(1).tolist() == [TEXTS, TEXTS], "rows are the truth"


def test_how_many_labels_reach_a_rival(folder: Path) -> None:
    assert best_with_all("play", RAW) == pytest.approx(60, abs=8)
    assert labels_to_reach("play", TUNED, RAW) == "100", "70 % with 100 is above 60 %"
    assert labels_to_reach("play", TUNED, WORDS) in ("all", "none of the numbers tried")
    assert labels_to_reach("play", RAW, TUNED) == "none of the numbers tried"
    assert labels_to_reach("play", TUNED, TUNED) == "all"


def test_runs_by_purpose(folder: Path) -> None:
    assert len(runs_of("play", TUNED)) == 2
    assert len(runs_of("play", TUNED, "grid")) == 8
    assert {row["seed"] for row in live_rows("play", 100, 3)} == {"0"}
    with pytest.raises(ValueError, match=r"play --from bert-L4H128 --examples 50 --epochs 3"):
        live_rows("play", 50, 3)
    with pytest.raises(ValueError, match=r"play --from minilm"):
        live_rows("play", 100, 3, "minilm")


def test_what_is_missing_is_named(folder: Path) -> None:
    with pytest.raises(ValueError, match="no results of task 'chess'"):
        summary("chess")
    with pytest.raises(ValueError, match="--grid full"):
        grid_map("play", "minilm", "title", "alt")


def test_pictures_are_drawn_of_what_is_there(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plot = score_plot({"play": "heading"}, "title", "what one sees")
    grid = grid_map("play", TUNED[0], "title", "a grid")
    monkeypatch.setitem(scores.NAMES, TUNED, "ours")
    curves = learning_curves("play", [WORDS, RAW, TUNED], "title", "curves", 900)
    assert (plot.alt, grid.alt, curves.alt) == ("what one sees", "a grid", "curves")
    assert all(picture.png.startswith(b"\x89PNG") for picture in (plot, grid, curves))


def test_a_system_that_was_never_run_has_no_row(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[list[str]] = []

    def keep(figure: Figure, alt: str) -> Picture:
        seen.append([label.get_text() for label in figure.axes[0].get_yticklabels()])
        return Picture(figure, alt)

    monkeypatch.setattr(scores, "Picture", keep)
    score_plot({"play": ""}, "title", "alt")
    assert seen == [["word-count baseline", "not pre-trained", "pre-trained, fine-tuned"]]


def test_a_reader_without_a_record_has_a_row_and_a_line(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    figures: list[Figure] = []

    def keep(figure: Figure, alt: str) -> Picture:
        figures.append(figure)
        return Picture(figure, alt)

    monkeypatch.setattr(scores, "Picture", keep)
    score_plot({"play": ""}, "title", "alt", [TUNED], readers={"a list": {"play": (40, 30, 45)}})
    axes = figures[0].axes[0]
    assert axes.get_yticklabels()[0].get_text() == "a list"
    assert "40.0" in [text.get_text() for text in axes.texts]
    bars = [collection.get_paths()[0].vertices for collection in axes.collections]
    assert bars[0].tolist() == [[30, 0], [45, 0]]
    assert bars[1][:, 1].tolist() == [1, 1], "the system has the next row"
    monkeypatch.setitem(scores.NAMES, TUNED, "ours")
    learning_curves("play", [TUNED], "title", "alt", 900, limits={"a list": 40})
    axes = figures[1].axes[0]
    assert [40, 40] in [list(line.get_ydata()) for line in axes.lines]
    assert "a list: 40" in [text.get_text() for text in axes.texts]


def test_a_reader_of_known_scores_meets_a_system_on_the_same_texts(folder: Path) -> None:
    rows = RunRecord(folder).outcomes("play")[1]
    wanted = (*TUNED, "all")
    runs = [o for r, o in rows if (r["model"], r["method"], r["train_examples"]) == wanted]
    right = np.mean([o[:, 0] == o[:, 1] for o in runs], axis=0)
    low, high = difference_from("play", TUNED, right - 0.1)
    assert low < 10 < high
    few, _ = difference_from("play", TUNED, right - 0.1, 100)
    assert few < low, "with 100 examples it is worse"
    with pytest.raises(TaskError, match="test examples; scores"):
        difference_from("play", TUNED, right[1:])


def upright_lines(axes: Axes) -> list[float]:
    """Where a line runs from the bottom of a panel to its top."""
    ends = [(np.asarray(line.get_xdata()), np.asarray(line.get_ydata())) for line in axes.lines]
    return [float(x[0]) for x, y in ends if list(y) == [0, 1]]


def test_chance_is_a_line_where_it_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BERTEDU_DATA", str(tmp_path))
    both = {"description": "one", "next": "other"}
    names = {"model": TUNED[0], "method": TUNED[1], "train_examples": "all"}
    runs = {"metric": "accuracy", "purpose": "score"}
    means = {"seeds": 1, "mean": 0.7, "low": 0.65, "high": 0.75}
    for name, more in (("finetuning", runs), ("finetuning_summary", means)):
        rows = [{"task": task} | names | more for task in both]
        write_csv(tmp_path / "results" / f"{name}.csv", rows)
    drawn: list[Figure] = []
    monkeypatch.setattr(scores, "Picture", lambda figure, alt: drawn.append(figure))
    for chance in (None, {"next": 0.25}, {"description": 0.5, "next": 0.25}):
        score_plot(both, "title", "alt", [TUNED], chance)
    lines = [[upright_lines(axes) for axes in figure.axes] for figure in drawn]
    assert lines == [[[], []], [[], [25.0]], [[50.0], [25.0]]]
