"""Committed results of fine-tuning as notebooks show them: means, intervals, claims."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bertedu.files import shipped
from bertedu.finetuning.examples import TaskError
from course.results import bootstrap, pictures
from course.results import task_pictures as scores
from course.results.pictures import committed, score_of
from course.results.record import RunRecord

TUNED, RAW = ("bert-L4H128", "fine-tuned"), ("bert-L4H128", "untrained")
WORDS = ("word counts", "baseline")


@pytest.fixture(autouse=True)
def fewer_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bootstrap, "DRAWS", 50)


def written(axes: Axes) -> list[str]:
    return [text.get_text() for text in axes.texts]


def mean_of(task: str, system: tuple[str, str], count: object) -> float:
    names = {"model": system[0], "method": system[1], "train_examples": str(count)}
    (row,) = committed("finetuning_summary", task=task, **names)
    return 100 * float(row["mean"])


def test_a_line_has_mean_interval_and_seeds(capsys: pytest.CaptureFixture[str]) -> None:
    rows = scores.summary("topic")
    scores.score_lines("topic")
    systems = [system for system in scores.NAMES if system in rows]
    for line, system in zip(capsys.readouterr().out.splitlines(), systems, strict=True):
        mean, low, high = score_of(rows[system])
        seeds = rows[system]["seeds"]
        runs = f"{seeds} seeds" if seeds != "1" else ""
        said = f"{scores.NAMES[system]:<25}{mean:5.1f} ({low:.1f} to {high:.1f})  {runs}"
        assert line == said.rstrip()


def test_differences_are_those_of_the_means_on_as_many_examples() -> None:
    for count in (None, 2000):
        found = scores.task_difference("topic", TUNED, RAW, count)
        gap = mean_of("topic", TUNED, count or "all") - mean_of("topic", RAW, count or "all")
        assert found.value == pytest.approx(gap, abs=0.02)
        assert found.low < found.value < found.high
    with pytest.raises(TaskError, match="no runs of bert-L4H128, fine-tuned, 7"):
        scores.task_difference("topic", TUNED, RAW, 7)
    sources, runs = RunRecord(shipped("results")).outcomes("topic")
    known = next(o[:, 0] == o[:, 1] for row, o in runs if row["model"] == "majority")
    found = scores.difference_from("topic", TUNED, known.astype(float), 100)
    assert found.value == pytest.approx(mean_of("topic", TUNED, 100) - 100 * known.mean(), abs=0.02)
    with pytest.raises(TaskError, match="test examples; scores"):
        scores.difference_from("topic", TUNED, np.ones(len(sources) - 1))


def test_confusion_counts_all_seeds() -> None:
    table = scores.confusion("topic", TUNED, 11)
    truth = RunRecord(shipped("results")).outcomes("topic")[1][0][1][:, 0]
    seeds = int(scores.summary("topic")[TUNED]["seeds"])
    assert table.sum(1).tolist() == (seeds * np.bincount(truth.astype(int))).tolist()
    share = 100 * table.diag().sum() / table.sum()
    assert float(share) == pytest.approx(mean_of("topic", TUNED, "all"), abs=0.01)


@pytest.mark.parametrize("examples", [30, 100])
def test_how_many_labels_reach_a_rival(examples: int) -> None:
    goal = scores.summary_of("topic", TUNED, examples)
    assert goal == pytest.approx(mean_of("topic", TUNED, examples))
    counts = (30, 100, 300, 1000, 3000, "all")
    enough = [count for count in counts if mean_of("topic", WORDS, count) >= goal]
    told = scores.labels_to_match("topic", WORDS, TUNED, examples)
    assert told == (str(enough[0]) if enough else "more than all").replace("000", ",000")


def test_runs_by_purpose_and_what_is_missing_is_named() -> None:
    grid = scores.runs_of("sentiment", TUNED, "grid")
    assert {row["purpose"] for row in grid} == {"grid"}
    assert len(scores.runs_of("topic", TUNED)) == int(scores.summary("topic")[TUNED]["seeds"])
    assert {row["epochs"] for row in scores.live_rows("topic", 2000, 2)} == {"2"}
    missing: list[tuple[Callable[[], Any], str]] = [
        (lambda: scores.live_rows("topic", 7, 3, "minilm"), "topic --from minilm --examples 7 --e"),
        (lambda: scores.summary("chess"), "no results of task 'chess'"),
        (lambda: scores.grid_map("topic", "minilm", "title", "alt"), "--grid full"),
    ]
    for call, message in missing:
        with pytest.raises(ValueError, match=message):
            call()


def test_a_plot_has_a_row_for_each_reader_and_each_system(drawn: list[Figure]) -> None:
    readers = {"a list": {"topic": (40.0, 30.0, 45.0)}}
    more = {"larger": {"topic": (90.0, 88.0, 95.0)}}
    systems = [WORDS, RAW, TUNED]
    given = {"topic": "heading"}, "title", "alt", systems
    scores.score_plot(*given, chance={"topic": 0.5}, readers=readers, tuned=more)
    (axes,) = drawn[0].axes
    names = ["a list", *(scores.NAMES[system] for system in systems), "larger"]
    assert [label.get_text() for label in axes.get_yticklabels()] == names
    rows = scores.summary("topic")
    shown = [readers["a list"]["topic"], *(score_of(rows[s]) for s in systems)]
    for place, (bar, score) in enumerate(zip(axes.collections, shown, strict=False)):
        ends = np.asarray(bar.get_paths()[0].vertices)
        assert ends == pytest.approx(np.array([[score[1], place], [score[2], place]]))
    colors = [bar.get_color().tolist() for bar in axes.collections]  # type: ignore[attr-defined]
    assert colors[-1] == colors[-2] != colors[0], "all that is fine-tuned has one color"
    assert {"40.0", "chance"} <= {*written(axes)}
    assert axes.get_xlabel() == "right, %"


def test_curves_have_a_point_for_each_number_of_examples(drawn: list[Figure]) -> None:
    scores.learning_curves("topic", [WORDS, TUNED], "title", "alt", 9000, chance=0.25)
    axes = drawn[0].axes[0]
    curves = {str(line.get_label()): list(np.asarray(line.get_xdata())) for line in axes.lines}
    assert curves[scores.NAMES[TUNED]] == [30, 100, 300, 1000, 9000]
    assert curves[scores.NAMES[WORDS]] == [30, 100, 300, 1000, 3000, 9000]
    (chance,) = [line for line in axes.lines if line.get_label() == "chance"]
    assert list(np.asarray(chance.get_ydata())) == [25, 25], "in per cent, as the scores"


def test_a_grid_writes_each_score_in_its_place_and_marks_the_best(drawn: list[Figure]) -> None:
    scores.grid_map("sentiment", TUNED[0], "title", "alt")
    rows = [r for r in scores.runs_of("sentiment", TUNED, "grid") if r["seed"] == "0"]
    best = max(float(row["dev"]) for row in rows)
    for axes, size in zip(drawn[0].axes, ("16", "32"), strict=True):
        of = [row for row in rows if row["batch_size"] == size]
        of.sort(key=lambda row: (int(row["epochs"]), float(row["learning_rate"])))
        assert written(axes) == [f"{100 * float(row['dev']):.1f}" for row in of]
        assert len(axes.patches) == sum(float(row["dev"]) == best for row in of)


def test_a_table_of_the_paper_is_read_by_row_and_column() -> None:
    no_nsp = pictures.paper_table("table_5")["No NSP"]
    assert no_nsp == {"MNLI-m": 83.9, "QNLI": 84.9, "MRPC": 86.5, "SST-2": 92.6, "SQuAD": 87.9}
    assert pictures.paper_table("table_8")["0/0/100"]["NER, frozen"] == 94.6
