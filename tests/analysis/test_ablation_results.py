"""The committed ablations as notebooks show them: right numbers, right words, nothing silent."""

from __future__ import annotations

import csv
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib import pyplot as plt
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from bertedu.analysis import ablation_results
from bertedu.analysis.ablation_results import (
    TABLE_5,
    TABLE_6,
    TABLE_8,
    checkpoint_means,
    claim,
    claim_above,
    claim_alike,
    claim_gains,
    claim_interval,
    difference_plot,
    pair_differences,
    results,
    score_lines,
    size_plot,
    step_curves,
    step_of,
)
from bertedu.analysis.ablations import GRIDS, NAME, Grid, Variant

GRID = Grid(
    "for tests",
    (
        Variant("BERT", ("b-0", "b-1")),
        Variant("worse", ("w",)),
        Variant("better", ("x",)),
        Variant("alike", ("a",), "frozen"),
    ),
    ("topic", "pairs"),
    examples=30,
)
MINUS = {"worse": (-0.1, -0.2, -0.05), "better": (0.1, 0.02, 0.2), "alike": (0.0, -0.1, 0.1)}


def summary_row(grid: str, variant: str, task: str, mean: float) -> dict[str, object]:
    row: dict[str, object] = {"grid": grid, "variant": variant, "task": task, "mean": mean}
    row |= {"low": mean - 0.03, "high": mean + 0.04, "seeds": 5}
    if variant in MINUS:
        ends = ("minus_reference", "minus_low", "minus_high")
        row |= dict(zip(ends, MINUS[variant], strict=True))
    return row


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    columns = list(dict.fromkeys(name for row in rows for name in row))
    with path.open("w") as file:
        writer = csv.DictWriter(file, columns, restval="")
        writer.writeheader()
        writer.writerows(rows)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setitem(GRIDS, "mine", GRID)
    rows = [
        summary_row("mine", name, task, mean)
        for task in ("topic", "pairs")
        for name, mean in [
            *(("BERT", 0.7), ("worse", 0.6), ("better", 0.8), ("alike", 0.7)),
            *(("majority", 0.1), ("word counts", 0.65)),
        ]
    ]
    for kind, start in (("BERT", 0.3), ("LTR & No NSP", 0.4)):
        for step in (3000, 1500, 12000):  # not in order
            name = f"{kind}, {step} steps"
            rows.append(summary_row("steps", name, "topic", start + step / 100000))
    rows += [summary_row("steps", name, "topic", 0.2) for name in ("majority", "word counts")]
    rows += [summary_row("size", f"L{n} H128", "topic", 0.2 * n) for n in (2, 4)]
    rows.append(summary_row("size", "word counts", "topic", 0.5))
    write(tmp_path / f"{NAME}_summary.csv", rows)
    return tmp_path


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """Figures are closed when they become pictures; keep them."""
    figures: list[Figure] = []

    class Spy(ablation_results.Picture):
        def __init__(self, figure: Figure, alt: str) -> None:
            figures.append(figure)
            super().__init__(figure, alt)

    monkeypatch.setattr(ablation_results, "Picture", Spy)
    return figures


def test_results_are_those_of_the_grid(folder: Path) -> None:
    rows = results("mine", folder)
    assert len(rows) == 12
    assert rows["worse", "pairs"]["minus_high"] == "-0.05"
    with pytest.raises(ValueError, match="no results of grid 'direction': run `bertedu ablate dir"):
        results("direction", folder)


def test_scores_are_listed_best_first(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    score_lines("mine", "topic", folder)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("  ")[0] for line in lines] == [
        "better",
        "BERT",
        "alike",
        "counted words",
        "worse",
        "always the same",
    ]
    assert lines[0].split() == ["better", "80.0", "(77.0", "to", "84.0)", "5", "runs"]
    assert "runs" not in lines[-1]


@pytest.mark.parametrize(
    ("ends", "word"),
    [
        ((0.01, 0.2), "supported"),
        ((-0.2, -0.01), "not supported"),
        ((-0.1, 0.2), "undecided"),
        ((0.0, 0.2), "undecided"),
        ((-0.2, 0.0), "undecided"),
    ],
)
def test_a_claim_says_what_the_interval_says(
    ends: tuple[float, float],
    word: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def planted(grid: Grid, task: str, one: str, other: str, where: Path) -> Any:
        assert (grid, task, one, other, where) == (GRID, "topic", "BERT", "worse", folder)
        return (sum(ends) / 2, *ends)

    monkeypatch.setattr(ablation_results, "difference", planted)
    assert claim("BERT is better", "mine", "topic", "BERT", "worse", folder) == word
    said = capsys.readouterr().out
    assert said.startswith(f"{word:<15}BERT is better: ")
    assert said.split(": ")[1].strip() == f"{100 * ends[0]:+.1f} to {100 * ends[1]:+.1f}"
    assert claim_interval("BERT is better", *(100 * end for end in ends)) == word
    assert capsys.readouterr().out == said, "in points it reads the same"


@pytest.mark.parametrize(
    ("ends", "word"),
    [
        ((-0.019, 0.019), "supported"),
        ((-0.03, 0.01), "undecided"),
        ((-0.01, 0.03), "undecided"),
        ((0.005, 0.015), "supported"),  # one is better, by little
        ((0.021, 0.05), "not supported"),
        ((-0.05, -0.021), "not supported"),
        ((-0.3, 0.3), "undecided"),
    ],
)
def test_alike_is_more_than_undecided(
    ends: tuple[float, float], word: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ablation_results, "difference", lambda *_: (sum(ends) / 2, *ends))
    assert claim_alike("alike", "mine", "topic", "BERT", "worse", 2, folder) == word
    assert claim_alike("alike", "mine", "topic", "BERT", "worse", 40, folder) == "supported"


def test_a_variant_is_compared_with_known_scores(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    known = np.array([0.2, 0.4])

    def planted(grid: Grid, task: str, name: str, scores: Any, where: Path) -> Any:
        assert (grid, task, where) == (GRID, "topic", folder)
        assert scores is known
        return {"better": (0.02, 0.01, 0.03), "worse": (0, -0.03, -0.01)}.get(name, (0, -1, 1))

    monkeypatch.setattr(ablation_results, "difference_from", planted)
    assert claim_above("up", "mine", "topic", "better", known, folder) == "supported"
    assert "up: +1.0 to +3.0" in capsys.readouterr().out
    assert claim_above("up", "mine", "topic", "worse", known, folder) == "not supported"
    assert claim_above("up", "mine", "topic", "alike", known, folder) == "undecided"


def test_gains_are_compared(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def planted(grid: Grid, task: str, one: Any, other: Any, where: Path) -> Any:
        assert (grid, task, where) == (GRID, "topic", folder)
        return (0.02, 0.01, 0.03) if one == ("worse", "better") else (-0.02, -0.03, -0.01)

    monkeypatch.setattr(ablation_results, "difference_of_gains", planted)
    up, flat = ("worse", "better"), ("BERT", "alike")
    assert claim_gains("up", "mine", "topic", up, flat, folder) == "supported"
    assert "up: +1.0 to +3.0" in capsys.readouterr().out
    assert claim_gains("up", "mine", "topic", flat, up, folder) == "not supported"


def test_every_two_variants_are_compared_once(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def planted(grid: Grid, task: str, names: list[str], where: Path) -> Any:
        assert (task, where) == ("topic", folder)
        return {
            (one, other): (0.0, -0.00041 * len(one), 0.02 * len(other))
            for one, other in combinations(names, 2)
        }

    monkeypatch.setattr(ablation_results, "differences", planted)
    found = pair_differences("mine", "topic", folder)
    assert len(found) == 6
    assert found["BERT", "better"] == pytest.approx((-0.164, 12.0))  # 0 is asked for: not rounded
    assert found["worse", "alike"] == pytest.approx((-0.205, 10.0))


def test_luck_in_pretraining_is_told_by_checkpoint(folder: Path) -> None:
    def run(model: str, test: float, **more: object) -> dict[str, object]:
        row = {"task": "topic", "model": model, "method": "fine-tuned", "train_examples": 30}
        return row | {"test": test} | more

    rows = [run("b-0", 0.5), run("b-0", 0.7), run("b-1", 0.8)]
    rows += [run("b-0", 0.0, task="pairs"), run("b-0", 0.0, method="untrained")]
    rows += [run("b-1", 0.0, train_examples=10), run("w", 0.0)]
    write(folder / f"{NAME}.csv", rows)
    assert checkpoint_means("mine", "topic", "BERT", folder) == pytest.approx(
        {"b-0": 60, "b-1": 80}
    )
    assert checkpoint_means("mine", "topic", "alike", folder) == {}


def test_differences_stand_where_they_belong(folder: Path, drawn: list[Figure]) -> None:
    paper = {"BERT": {"MNLI": 80.0}, "worse": {"MNLI": 75.0}}
    tasks = {"topic": "Topics", "pairs": "Pairs"}
    picture = difference_plot("mine", tasks, "t", "alt text", paper, {"pairs": "MNLI"}, folder)
    assert repr(picture) == "alt text"
    (figure,) = drawn
    topic, pairs = figure.axes
    assert [label.get_text() for label in topic.get_yticklabels()] == ["worse", "better", "alike"]
    middles = [
        (float(line.get_xdata()[0]), float(line.get_ydata()[0]), line.get_marker())
        for line in pairs.lines
        if line.get_marker() not in ("None", "")
    ]
    assert (-10, 0, "o") in middles
    assert (10, 1, "o") in middles
    assert (0, 2, "o") in middles
    assert (-5, 0, "D") in middles  # the paper's
    assert len(middles) == 4
    assert not [line for line in topic.lines if line.get_marker() == "D"]
    with pytest.raises(ValueError, match="worse was not run on nothing: run `bertedu ablate mine`"):
        difference_plot("mine", {"nothing": "N"}, "t", "alt", folder=folder)
    colors = [collection.get_edgecolor()[0].tolist() for collection in topic.collections]
    assert len({tuple(color) for color in colors}) == 3, "worse, better and undecided look alike"
    plt.close("all")


def test_curves_go_through_the_steps_in_order(folder: Path, drawn: list[Figure]) -> None:
    step_curves({"topic": "Topics"}, "t", "alt", folder)
    lines = {line.get_label(): line for line in drawn[0].axes[0].lines}
    assert list(lines["BERT"].get_xdata()) == [1.5, 3, 12]
    assert list(lines["BERT"].get_ydata()) == pytest.approx([31.5, 33, 42])
    assert list(lines["LTR & No NSP"].get_ydata()) == pytest.approx([41.5, 43, 52])
    assert step_of("LTR & No NSP, 12000 steps") == 12000
    named = [text.get_text() for text in drawn[0].axes[0].texts]
    assert named == ["always the same", "counted words"], "the curves are named in the legend"
    legend = drawn[0].axes[0].get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["BERT", "LTR & No NSP"]


def test_sizes_stand_at_their_parameters(folder: Path, drawn: list[Figure]) -> None:
    size_plot({"L2 H128": 1_500_000, "L4 H128": 1_900_000}, {"topic": "Topics"}, "t", "a", folder)
    axes = drawn[0].axes[0]
    points = [
        (float(line.get_xdata()[0]), float(line.get_ydata()[0]))
        for line in axes.lines
        if line.get_marker() == "o"
    ]
    assert points == [pytest.approx((1.5, 40)), pytest.approx((1.9, 80))]
    bars = [c.get_segments()[0] for c in axes.collections if isinstance(c, LineCollection)]
    assert [(bar[0, 0], *bar[:, 1]) for bar in bars] == [
        pytest.approx((1.5, 37, 44)),
        pytest.approx((1.9, 77, 84)),
    ]


def test_no_interval_crosses_the_name_of_the_line(drawn: list[Figure]) -> None:
    sizes = {"L2 H128": 1_570_000, "L4 H128": 1_930_000, "L4 H256": 5_480_000, "L8 H256": 8_640_000}
    size_plot(sizes, {"topic": "Topics", "entities": "Names"}, "t", "a")
    for axes in drawn[0].axes:
        (name,) = (text for text in axes.texts if text.get_text() == "counted words")
        box = name.get_window_extent()
        for line in (c for c in axes.collections if isinstance(c, LineCollection)):
            low, high = axes.transData.transform(line.get_segments()[0])
            beside = low[0] < box.x0 or low[0] > box.x1
            assert beside or high[1] < box.y0 or low[1] > box.y1


def test_the_papers_tables_agree_with_each_other_and_with_our_grids() -> None:
    base = (12, 768, 12)
    assert TABLE_6[base]["MNLI-m"] == TABLE_5["BERT"]["MNLI-m"]
    assert TABLE_6[base]["MRPC"] == TABLE_5["BERT"]["MRPC"]
    assert TABLE_8["80/10/10"]["MNLI"] == pytest.approx(TABLE_5["BERT"]["MNLI-m"], abs=0.21)
    assert len(TABLE_6) == 6
    for table in (TABLE_5, TABLE_6, TABLE_8):
        assert len({tuple(row) for row in table.values()}) == 1, "a row lacks a column"
        assert all(1 < value < 100 for row in table.values() for value in row.values())
    assert [v.name for v in GRIDS["masking"].variants] == list(TABLE_8)
    assert [v.name for v in GRIDS["masking-frozen"].variants] == list(TABLE_8)
    assert {*TABLE_5} <= {v.name for v in GRIDS["direction"].variants}


def test_six_procedures_are_six_runs() -> None:
    masked = [variant.checkpoints for variant in GRIDS["masking"].variants]
    assert len(set(masked)) == len(masked) == 6
    assert masked == [variant.checkpoints for variant in GRIDS["masking-frozen"].variants]
