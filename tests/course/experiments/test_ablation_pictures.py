"""The committed ablations as notebooks show them: right numbers, right words, nothing silent."""

from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from matplotlib import pyplot as plt
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from bertedu.files import write_csv
from course.experiments import ablation_pictures as ablation_results
from course.experiments.ablation_pictures import (
    TABLE_5,
    TABLE_6,
    TABLE_8,
    between_runs,
    difference_plot,
    pair_differences,
    results,
    same_recipe_intervals,
    score_lines,
    size_plot,
    step_curves,
    task_intervals,
)
from course.experiments.ablations import GRIDS, NAME, Grid, Variant
from course.results.verdicts import say

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
    row |= {"low": mean - 0.03, "high": mean + 0.04, "runs": 5}
    row["luck"] = 0.02 if task == "topic" else 0.03
    if variant in MINUS:
        ends = ("minus_reference", "minus_low", "minus_high")
        row |= dict(zip(ends, MINUS[variant], strict=True))
    return row


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setitem(GRIDS, "mine", GRID)
    monkeypatch.setenv("BERTEDU_DATA", str(tmp_path))
    folder = tmp_path / "results"
    folder.mkdir()
    rows = [
        summary_row("mine", name, task, mean)
        for task in ("topic", "pairs")
        for name, mean in [
            *(("BERT", 0.7), ("worse", 0.6), ("better", 0.8), ("alike", 0.7)),
            *(("majority", 0.1), ("word counts", 0.65)),
        ]
    ]
    for kind, start in (("both sides", 0.3), ("left alone", 0.4)):
        for step in (3000, 1500, 12000):  # not in order
            name = f"{kind}, {step} steps"
            rows.append(summary_row("steps", name, "topic", start + step / 100000))
    rows += [summary_row("steps", name, "topic", 0.2) for name in ("majority", "word counts")]
    rows += [summary_row("size", f"L{n} H128", "topic", 0.2 * n) for n in (2, 4)]
    rows.append(summary_row("size", "word counts", "topic", 0.5))
    write_csv(folder / f"{NAME}_summary.csv", rows)
    return folder


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
    rows = results("mine")
    assert len(rows) == 12
    assert rows["worse", "pairs"]["minus_high"] == "-0.05"
    with pytest.raises(
        ValueError, match="no results of grid 'direction': run `python -m course ablate dir"
    ):
        results("direction")


def test_scores_are_listed_best_first(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    score_lines("mine", "topic")
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("  ")[0] for line in lines] == [
        "better",
        "BERT",
        "alike",
        "word-count baseline",
        "worse",
        "always the same",
    ]
    assert lines[0].split() == ["better", "80.0", "(77.0", "to", "84.0)", "5", "runs"]
    assert "runs" not in lines[-1]


@pytest.mark.parametrize(
    ("ends", "word"),
    [
        ((-0.019, 0.019), "supported"),
        ((-0.03, 0.01), "undecided"),
        ((-0.01, 0.03), "undecided"),
        ((0.005, 0.015), "supported"),  # one is better, by little
        ((0.021, 0.05), "contradicted"),
        ((-0.05, -0.021), "contradicted"),
        ((-0.3, 0.3), "undecided"),
    ],
)
def test_alike_is_more_than_undecided(
    ends: tuple[float, float], word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    low, high = (100 * end for end in ends)
    say("alike", low, high, within=2)
    assert capsys.readouterr().out == f"{word:<15}alike: {low:+.1f} to {high:+.1f}\n"
    say("alike", low, high, within=40)
    assert capsys.readouterr().out.startswith("supported ")


def test_every_two_variants_are_compared_once(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def planted(grid: Grid, task: str, one: str, other: str, where: Path) -> Any:
        assert (grid, task, where) == (GRID, "topic", folder)
        return 0.0, -0.00041 * len(one), 0.02 * len(other)

    monkeypatch.setattr(ablation_results, "difference", planted)
    found = pair_differences("mine", "topic")
    assert len(found) == 6
    assert found["BERT", "better"] == pytest.approx((-0.164, 12.0))  # 0 is asked for: not rounded
    assert found["worse", "alike"] == pytest.approx((-0.205, 10.0))


def test_a_claim_is_asked_of_every_task_in_points(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def planted(grid: Grid, task: str, one: str, other: str, where: Path) -> Any:
        assert (grid, one, other, where) == (GRID, "better", "worse", folder)
        return {"topic": (0.1, 0.05, 0.2), "pairs": (0.0, -0.3, 0.1)}[task]

    monkeypatch.setattr(ablation_results, "difference", planted)
    found = task_intervals(GRID, "better", "worse")
    assert list(found) == ["topic", "pairs"]
    assert found["topic"] == pytest.approx((5, 20))
    assert found["pairs"] == pytest.approx((-30, 10))


def test_two_runs_of_a_variant_are_compared_on_every_task(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def planted(grid: Grid, task: str, where: Path) -> Any:
        assert (grid, where) == (GRID, folder)
        return (
            {("a", "b"): (0.0, -0.1, 0.2), ("a", "c"): (0.1, 0.05, 0.3)} if task == "topic" else {}
        )

    monkeypatch.setattr(ablation_results, "same_recipe", planted)
    found = same_recipe_intervals(GRID)
    assert found == {"topic": [pytest.approx((-10, 20)), pytest.approx((5, 30))], "pairs": []}


@pytest.mark.parametrize(
    ("grid", "pairs"), [("size", 9), ("masking", 18), ("steps", 42), ("longer", 12)]
)
def test_of_twenty_pairs_of_one_recipe_at_most_one_is_told_apart(grid: str, pairs: int) -> None:
    """What notebook 14 says before its verdicts, from the committed runs: 95 % intervals."""
    for some in same_recipe_intervals(GRIDS[grid]).values():
        assert len(some) == pairs  # three of every variant that was pre-trained three times
        assert sum(not low < 0 < high for low, high in some) <= len(some) / 20


def test_the_deviation_between_runs_is_told_task_by_task_in_points(folder: Path) -> None:
    assert between_runs("mine") == pytest.approx({"topic": 2, "pairs": 3})


def test_differences_stand_where_they_belong(folder: Path, drawn: list[Figure]) -> None:
    paper = {"BERT": {"MNLI": 80.0}, "worse": {"MNLI": 75.0}}
    tasks = {"topic": "Topics", "pairs": "Pairs"}
    picture = difference_plot("mine", tasks, "t", "alt text", paper, {"pairs": "MNLI"})
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
    with pytest.raises(
        ValueError, match="worse was not run on nothing: run `python -m course ablate mine`"
    ):
        difference_plot("mine", {"nothing": "N"}, "t", "alt")
    colors = [collection.get_edgecolor()[0].tolist() for collection in topic.collections]
    assert len({tuple(color) for color in colors}) == 3, "worse, better and undecided look alike"
    plt.close("all")


def test_a_difference_is_drawn_beside_the_deviation_between_runs(
    folder: Path, drawn: list[Figure]
) -> None:
    difference_plot(
        *("mine", {"topic": "T", "pairs": "P"}, "t", "alt"),
        variants=["better"],
        between_runs={"topic": 3.5},
    )
    topic, pairs = drawn[0].axes
    assert [label.get_text() for label in topic.get_yticklabels()] == ["better"]
    (band,) = topic.patches
    box = band.get_extents().transformed(topic.transData.inverted())
    assert (box.x0, box.x1) == pytest.approx((-3.5, 3.5))
    assert not pairs.patches


def test_curves_go_through_the_steps_in_order(folder: Path, drawn: list[Figure]) -> None:
    step_curves({"topic": "Topics"}, "t", "alt")
    lines = {line.get_label(): line for line in drawn[0].axes[0].lines}
    assert list(lines["both sides"].get_xdata()) == [1.5, 3, 12]
    assert list(lines["both sides"].get_ydata()) == pytest.approx([31.5, 33, 42])
    assert list(lines["left alone"].get_ydata()) == pytest.approx([41.5, 43, 52])
    named = [text.get_text() for text in drawn[0].axes[0].texts]
    assert named == ["always\nthe same", "word-count\nbaseline"]
    legend = drawn[0].axes[0].get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["both sides", "left alone"]


def test_sizes_stand_at_their_parameters(folder: Path, drawn: list[Figure]) -> None:
    size_plot({"L2 H128": 1_500_000, "L4 H128": 1_900_000}, {"topic": "Topics"}, "t", "a")
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


def test_no_name_of_a_size_lies_on_a_line_or_an_interval_or_a_name(drawn: list[Figure]) -> None:
    sizes = {"L2 H128": 1_570_000, "L4 H128": 1_930_000, "L4 H256": 5_480_000, "L8 H256": 8_640_000}
    size_plot(sizes, {"topic": "Topics", "entities": "Names"}, "t", "a")
    for axes in drawn[0].axes:
        (dashed,) = (line for line in axes.lines if line.get_linestyle() == "--")
        _, height = dashed.get_transform().transform((0, float(dashed.get_ydata()[0])))
        bars = [c for c in axes.collections if isinstance(c, LineCollection)]
        boxes = {text.get_text(): text.get_window_extent() for text in axes.texts}
        assert "word-count\nbaseline" in boxes
        for name, box in boxes.items():
            assert not box.y0 < height < box.y1, name
            for bar in bars:
                low, high = axes.transData.transform(bar.get_segments()[0])
                beside = low[0] < box.x0 or low[0] > box.x1
                assert beside or high[1] < box.y0 or low[1] > box.y1, name
        for (one, box), (other, its_box) in combinations(boxes.items(), 2):
            assert not box.overlaps(its_box), (one, other)


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


def test_six_procedures_are_six_runs() -> None:
    masked = [variant.checkpoints for variant in GRIDS["masking"].variants]
    assert len(set(masked)) == len(masked) == 6
    assert masked == [variant.checkpoints for variant in GRIDS["masking-frozen"].variants]
