"""Committed results as notebooks show them: means, intervals, claims."""

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bertedu.files import write_csv
from bertedu.finetuning.examples import TaskError
from course.results import pictures
from course.results import task_pictures as scores
from course.results.record import RunRecord, pack
from course.results.summary import summarize
from course.results.verdicts import say

TUNED, RAW = ("bert-L4H128", "fine-tuned"), ("bert-L4H128", "untrained")
WORDS = ("word counts", "baseline")
RUNS = [  # model, method, examples, seed, share of right answers
    (*TUNED, "all", 0, 0.8),
    (*TUNED, "all", 1, 0.8),
    (*TUNED, "all", 2, 0.8),
    (*RAW, "all", 0, 0.6),
    (*RAW, "all", 1, 0.6),
    (*RAW, "all", 2, 0.6),
    (*WORDS, "all", "", 0.79),
    (*TUNED, "100", 0, 0.7),
]
TEXTS = 300


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A record of made-up answers, and a grid."""
    monkeypatch.setenv("BERTEDU_DATA", str(tmp_path))
    folder, labels = tmp_path / "results", np.arange(TEXTS) % 2
    sources = " ".join(map(str, range(TEXTS)))
    outcomes = [{"model": "(source)", "columns": "source", "outcomes": sources}]
    table: list[dict[str, Any]] = []
    for number, (model, method, count, seed, right) in enumerate(RUNS):
        names = {"model": model, "method": method, "train_examples": count, "seed": seed}
        found = np.where(np.random.default_rng(number).random(TEXTS) < right, labels, 1 - labels)
        packed = pack(np.stack([labels, found], axis=1).astype(float))
        outcomes.append(names | {"columns": "label/found", "outcomes": packed})
        more = {"purpose": "score", "metric": "accuracy", "dev": right, "test": right, "epochs": 3}
        table.append({"task": "play"} | names | more)
    for batch, epochs, rate in product((16, 32), (2, 3), (1e-4, 3e-4)):
        grid = {"purpose": "grid", "dev": 0.7 + epochs / 100 + (batch == 32 and rate == 1e-4) / 50}
        recipe = {"batch_size": batch, "epochs": epochs, "learning_rate": rate}
        table.append(table[0] | grid | recipe)
    write_csv(folder / "finetuning.csv", table)
    write_csv(folder / "outcomes" / "play.csv", outcomes)
    summarize(folder, TUNED[0])
    return folder


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """The figures of pictures that are made."""
    figures: list[Figure] = []
    monkeypatch.setattr(scores, "Picture", lambda figure, alt: figures.append(figure))
    return figures


def written(axes: Axes) -> list[str]:
    return [text.get_text() for text in axes.texts]


def test_a_line_has_mean_interval_and_seeds(capsys: pytest.CaptureFixture[str]) -> None:
    rows = scores.summary("play")
    assert set(rows) == {TUNED, RAW, WORDS}, "runs on a part of the data are no final results"
    scores.score_lines("play")
    lines = capsys.readouterr().out.splitlines()
    for line, system in zip(lines, (WORDS, RAW, TUNED), strict=True):
        mean, low, high = (100 * float(rows[system][name]) for name in ("mean", "low", "high"))
        runs = "3 seeds" if system[1] != "baseline" else ""  # counting words has no chance in it
        said = f"{scores.NAMES[system]:<25}{mean:5.1f} ({low:.1f} to {high:.1f})  {runs}"
        assert line == said.rstrip()


def test_claims_follow_the_interval(capsys: pytest.CaptureFixture[str]) -> None:
    say("one", scores.task_difference("play", TUNED, RAW))
    say("two", scores.task_difference("play", RAW, TUNED))
    say("three", scores.task_difference("play", TUNED, WORDS))
    said = [line.split("  ")[0] for line in capsys.readouterr().out.splitlines()]
    assert said == ["supported", "contradicted", "undecided"]
    with pytest.raises(TaskError, match="untrained, 100"):
        scores.task_difference("play", TUNED, RAW, 100)


def test_confusion_counts_all_seeds(folder: Path) -> None:
    table = scores.confusion("play", TUNED, 2)
    assert table.sum(1).tolist() == [1.5 * TEXTS, 1.5 * TEXTS], "rows are the truth"
    mean = float(scores.summary("play")[TUNED]["mean"])
    assert table.diag().sum() / table.sum() == pytest.approx(mean, abs=1e-3)


def test_how_many_labels_reach_a_rival() -> None:
    for rival, count in (
        (WORDS, "all"),  # 79 % with all is above 70 %
        (TUNED, "100"),  # the row of another rule, "all", is none of its curve
        (RAW, "more than all"),
    ):
        assert scores.labels_to_match("play", rival, TUNED, 100) == count


def test_runs_by_purpose_and_what_is_missing_is_named() -> None:
    assert len(scores.runs_of("play", TUNED)) == 3
    assert len(scores.runs_of("play", TUNED, "grid")) == 8
    assert {row["seed"] for row in scores.live_rows("play", 100, 3)} == {"0"}
    missing: list[tuple[Callable[[], Any], str]] = [
        (lambda: scores.live_rows("play", 50, 3, "minilm"), "play --from minilm --examples 50 --e"),
        (lambda: scores.summary("chess"), "no results of task 'chess'"),
        (lambda: scores.grid_map("play", "minilm", "title", "alt"), "--grid full"),
    ]
    for call, message in missing:
        with pytest.raises(ValueError, match=message):
            call()


def test_a_reader_of_known_scores_meets_a_system_on_the_same_texts(folder: Path) -> None:
    rows = RunRecord(folder).outcomes("play")[1]
    right = np.mean([outcomes[:, 0] == outcomes[:, 1] for _, outcomes in rows[:3]], axis=0)
    found = scores.difference_from("play", TUNED, right - 0.1)
    assert found.low < 10 < found.high
    few = scores.difference_from("play", TUNED, right - 0.1, 100)
    assert few.low < found.low, "with 100 examples it is worse"
    with pytest.raises(TaskError, match="test examples; scores"):
        scores.difference_from("play", TUNED, right[1:])


def test_a_plot_has_a_row_for_each_reader_and_each_system_that_was_run(
    drawn: list[Figure],
) -> None:
    readers = {"a list": {"play": (40.0, 30.0, 45.0)}}
    more = {"larger": {"play": (90.0, 88.0, 95.0)}}
    scores.score_plot(
        {"play": "heading"}, "title", "alt", chance={"play": 0.5}, readers=readers, tuned=more
    )
    scores.score_plot({"play": "heading"}, "title", "alt", [TUNED])
    axes = drawn[0].axes[0]
    names = [label.get_text() for label in axes.get_yticklabels()]
    known = [scores.NAMES[system] for system in (WORDS, RAW, TUNED)]
    assert names == ["a list", *known, "larger"]
    rows = scores.summary("play")
    ends = [(30.0, 45.0)]
    ends += [
        (100 * float(rows[s]["low"]), 100 * float(rows[s]["high"])) for s in (WORDS, RAW, TUNED)
    ]
    ends += [(88.0, 95.0)]
    bars = [np.asarray(bar.get_paths()[0].vertices) for bar in axes.collections]
    for place, (bar, (low, high)) in enumerate(zip(bars, ends, strict=True)):
        assert bar == pytest.approx(np.array([[low, place], [high, place]]))
    colors = [bar.get_color().tolist() for bar in axes.collections]  # type: ignore[attr-defined]
    assert colors[-1] == colors[-2] != colors[0], "all that is fine-tuned has one color"
    assert {"40.0", "chance"} <= set(written(axes))
    assert axes.get_xlabel() == "right, %"
    lines = [[float(x) for x in line.get_xdata()] for line in axes.lines]  # type: ignore[union-attr]
    assert [50.0, 50.0] in lines
    assert "chance" not in written(drawn[1].axes[0])


def test_curves_have_a_point_for_each_number_of_examples(drawn: list[Figure]) -> None:
    scores.learning_curves("play", [WORDS, TUNED], "title", "alt", 900)
    axes = drawn[0].axes[0]
    curves = {str(line.get_label()): list(np.asarray(line.get_xdata())) for line in axes.lines}
    assert curves[scores.NAMES[TUNED]] == [100], "all of them were trained by another rule"
    assert curves[scores.NAMES[WORDS]] == [900]


def test_a_grid_writes_each_score_in_its_place_and_marks_the_best(drawn: list[Figure]) -> None:
    scores.grid_map("play", TUNED[0], "title", "alt")
    small, large = drawn[0].axes
    assert written(small) == ["72.0", "72.0", "73.0", "73.0"]
    assert written(large) == ["74.0", "72.0", "75.0", "73.0"]
    assert [len(axes.patches) for axes in (small, large)] == [0, 1]
    assert large.patches[0].get_xy() == pytest.approx((-0.47, 0.53))  # type: ignore[attr-defined]
    assert [label.get_text() for label in large.get_xticklabels()] == ["0.0001", "0.0003"]


# -- what all pictures of results share


def test_every_panel_stands_under_its_heading_and_all_under_one_title() -> None:
    headings = {"a": "first", "b": "second", "c": "third"}
    figure, panels = pictures.headed_panels(headings, "all three", (4, 4), columns=2)
    assert {key: axes.get_title() for key, axes in panels.items()} == headings
    assert figure.get_suptitle() == "all three"
    assert list(panels.values()) == figure.axes[:3], "in reading order"
    assert [axes.axison for axes in figure.axes] == [True, True, True, False], "a place is empty"
    plt.close(figure)


def test_a_value_outside_its_interval_is_refused() -> None:
    figure, axes = plt.subplots()
    with pytest.raises(ValueError, match="outside its interval"):
        pictures.score_curve(axes, [(1, (5.0, 6.0, 7.0))], "some", "black")
    plt.close(figure)


def test_a_table_of_the_paper_is_read_by_row_and_column() -> None:
    no_nsp = pictures.paper_table("table_5")["No NSP"]
    assert no_nsp == {"MNLI-m": 83.9, "QNLI": 84.9, "MRPC": 86.5, "SST-2": 92.6, "SQuAD": 87.9}
    assert pictures.paper_table("table_8")["0/0/100"]["NER, frozen"] == 94.6
