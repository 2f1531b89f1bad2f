"""Pictures of an experiment show the numbers of its committed CSV, each in its place."""

from collections.abc import Callable
from statistics import mean
from typing import Any

import pytest
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from bertedu.analysis.attention_heads import PATTERNS
from bertedu.analysis.probes import RELATIONS
from bertedu.analysis.views import BLUE, LIMIT, ORANGE, Picture
from bertedu.files import Row
from course.experiments import ablation_pictures as ablations
from course.experiments import direction_pictures as direction
from course.experiments import feature_pictures as features
from course.experiments import heads_pictures as heads
from course.experiments.ablations import GRIDS, STEPS
from course.experiments.grammar import TELLS
from course.experiments.recall import READERS
from course.results.columns import read_estimate
from course.results.pictures import committed, score_of

TASKS = {"topic": "Topics", "entities": "Names"}
MINUS = ("minus_reference", "minus_low", "minus_high")
SIZES = {"L2 H128": 1_570_000, "L4 H128": 1_930_000, "L4 H256": 5_480_000}
BERT, HEADS = "bert-L4H128", "loss added without the head"
SAID = ("a title", "what one sees")  # of every picture


def points(axes: Axes, marker: str = "o") -> list[tuple[float, float]]:
    """The marked values, in the order in which they were drawn."""
    lines = [line for line in axes.lines if line.get_marker() == marker]
    return [(x, y) for line in lines for x, y in zip(*line.get_data(), strict=True)]


def bars(axes: Axes) -> list[tuple[Any, str]]:
    """Both ends of each interval, and its color."""
    lines = [c for c in axes.collections if isinstance(c, LineCollection)]
    return [(c.get_segments()[0], to_hex(c.get_colors()[0]).upper()) for c in lines]


def by_variant(grid: str, task: str) -> dict[str, Row]:
    return {row["variant"]: row for row in committed("ablations_summary", grid=grid, task=task)}


def steps_of(task: str) -> list[tuple[float, float]]:
    rows, kinds = by_variant("steps", task), ("both sides", "left alone")
    names = {f"{kind}, {step} steps": step / 1000 for kind in kinds for step in STEPS}
    return [(x, score_of(rows[name])[0]) for name, x in names.items()]


def relations_of(model: str) -> list[tuple[float, float]]:
    told = []
    for place, name in enumerate(RELATIONS):
        rows = heads.relation(model, name)
        assert rows["offset"]["statistic"].startswith(f"{name}: offset ")
        offset, head = (100 * float(rows[of]["value"]) for of in ("offset", "head"))
        told += [(offset, place + 0.14), (head, place - 0.14)]
    return told


def heads_of(_: str) -> list[tuple[float, int]]:
    rows = committed("heads", model=BERT, statistic=HEADS)
    values = sorted((float(row["value"]) for row in rows), reverse=True)
    return [(value, place) for place, value in enumerate(values)]


# what is drawn, its panels, the names of its rows, and the points of a panel
CASES: dict[str, tuple[Callable[[], Picture], list[str], list[str], Callable[[str], Any]]] = {
    "steps": (lambda: ablations.step_curves(TASKS, *SAID), [*TASKS], [], steps_of),
    "sizes": (
        lambda: ablations.size_plot(SIZES, TASKS, *SAID),
        [*TASKS],
        [],
        lambda task: [
            (n / 1e6, score_of(by_variant("size", task)[name])[0]) for name, n in SIZES.items()
        ],
    ),
    "relations": (
        lambda: heads.relation_plot([BERT, "minilm"], *SAID),
        [BERT, "minilm"],
        [*RELATIONS],
        relations_of,
    ),
    "heads": (lambda: heads.head_bars(BERT, HEADS, "nats", *SAID), [""], [], heads_of),
    "layers": (
        lambda: heads.layer_curves(BERT, {"h": [("lens: right", "r")]}, ["y"], *SAID, scale=100),
        [""],
        [],
        lambda _: [
            (int(row["layer"]), 100 * float(row["value"]))
            for row in committed("heads", model=BERT, statistic="lens: right")
        ],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_picture_shows_its_table(name: str, drawn: list[Figure]) -> None:
    draw, panels, rows, expected = CASES[name]
    assert repr(draw()) == "what one sees"
    for panel, axes in zip(panels, drawn[0].axes, strict=True):
        assert points(axes) == [pytest.approx(point) for point in expected(panel)]
    labels = [label.get_text() for label in drawn[0].axes[0].get_yticklabels()]
    assert not rows or labels == rows


def test_differences_stand_in_their_rows_beside_the_paper_and_the_luck(drawn: list[Figure]) -> None:
    paper = {"both sides": {"QNLI": 84.9}, "right alone": {"QNLI": 80.0}}
    beside, luck = {"entities": "QNLI"}, {"topic": 3.5}
    ablations.difference_plot("direction", TASKS, *SAID, paper, beside, luck)
    names = [variant.name for variant in GRIDS["direction"].variants[1:]]
    for task, axes in zip(TASKS, drawn[0].axes, strict=True):
        rows = by_variant("direction", task)
        for place, name in enumerate(names):
            gap, low, high = score_of(rows[name], MINUS)
            assert points(axes)[place] == pytest.approx((gap, place))
            ends, color = bars(axes)[place]
            assert ends.ravel() == pytest.approx([low, place, high, place])
            assert color == (ORANGE if high < 0 else BLUE if low > 0 else LIMIT)
        theirs = [(-4.9, names.index("right alone"))] * (task == "entities")
        assert points(axes, "D") == [pytest.approx(point) for point in theirs]
        bands = [band.get_extents().transformed(axes.transData.inverted()) for band in axes.patches]
        wide = [pytest.approx((-3.5, 3.5))] * (task == "topic")
        assert [(band.x0, band.x1) for band in bands] == wide
    with pytest.raises(ValueError, match=r"not run on nothing.*course ablate direction"):
        ablations.difference_plot("direction", {"nothing": "N"}, *SAID)
    with pytest.raises(ValueError, match=r"no results of grid 'mine'.*course ablate mine"):
        ablations.results("mine")


def test_claims_are_asked_in_points() -> None:
    """Of pairs of variants, and of all tasks."""
    one, *_, other = (variant.name for variant in GRIDS["masking"].variants)
    asked = ablations.task_intervals(GRIDS["masking"], other, one)
    itself = ablations.same_recipe_differences(GRIDS["masking"])
    for task, found in asked.items():
        row = by_variant("masking", task)[other]
        assert found[:3] == pytest.approx(score_of(row, MINUS), abs=0.011)
        assert found.p == pytest.approx(float(row["minus_p"]), abs=1e-4)
        assert len(itself[task]) == 6 * 3, "of three runs of a variant, each beside the other two"
        assert ablations.between_runs("masking")[task] == 100 * float(row["luck"])
    pair = ablations.pair_differences("masking", "topic")[one, other]
    assert -pair == pytest.approx(asked["topic"])


def test_less_loss_turns_round_with_its_readers() -> None:
    names = {"one": "both sides", "other": "left alone", "told_by": "all"}
    (row,) = committed("same_question_differences", **names)
    less = read_estimate(row, "less_loss")
    assert direction.less_loss("both sides", "left alone", {"all": "any"}) == {"any": less}
    assert direction.less_loss("left alone", "both sides", {"all": "any"}) == {"any": -less}


def test_the_same_question_has_a_mark_for_each_reader_and_kind(drawn: list[Figure]) -> None:
    kinds = {"left": "by the left", "all": "any"}
    direction.same_question_plot(kinds, *SAID)
    (axes,) = drawn[0].axes
    assert [label.get_text() for label in axes.get_yticklabels()] == [*kinds.values()]
    heights = []
    for reader, (_, marker) in direction.OTHERS.items():
        names = {"one": "both sides", "other": reader}
        rows = [committed("same_question_differences", **names, told_by=kind)[0] for kind in kinds]
        shown = points(axes, marker)
        assert [x for x, _ in shown] == [pytest.approx(float(row["less_loss"])) for row in rows]
        assert [round(y) for _, y in shown] == [0, 1], "in the row of its kind"
        heights += [y for _, y in shown]
    assert len({*heights}) == len(heights), "no mark lies on another"


def test_grammar_shows_who_is_right_and_by_how_much_both_sides_are_ahead(
    drawn: list[Figure],
) -> None:
    direction.grammar_plot(*SAID)
    right, gap = drawn[0].axes
    for reader, (_, marker) in direction.AT_A_BLANK.items():
        of = [committed("grammar", pair=pair, reader=reader) for pair in TELLS]
        scores = [mean(100 * float(row["right"]) for row in rows) for rows in of]
        assert points(right, marker) == [pytest.approx((x, i)) for i, x in enumerate(scores)]
    names = {"one": "both sides", "other": "left alone"}
    rows = [committed("grammar_differences", pair=pair, **names)[0] for pair in TELLS]
    assert [x for x, _ in points(gap)] == [pytest.approx(float(row["points"])) for row in rows]
    colors = [color for _, color in bars(gap)]
    assert colors[list(TELLS).index("a/an")] == BLUE
    assert colors[list(TELLS).index("is/are")] == LIMIT
    decided = [float(r["points_p"]) < 0.05 / len(TELLS) for r in rows]
    assert all(color != LIMIT for color, clear in zip(colors, decided, strict=True) if clear)


def test_recall_has_a_curve_for_each_reader_and_a_line_for_each_limit(drawn: list[Figure]) -> None:
    layout = "list, blank, place"
    direction.recall_plot({layout: "a list"}, *SAID)
    (axes,) = drawn[0].axes
    lines = {line.get_label(): line for line in axes.lines if line.get_linestyle() == "-"}
    assert list(lines) == list(READERS)
    limits = set()
    for reader, line in lines.items():
        of = [committed("recall", layout=layout, reader=reader, length=str(n)) for n in range(1, 9)]
        losses = [mean(float(row["loss"]) for row in rows) for rows in of]
        assert line.get_ydata() == pytest.approx(losses)
        limits.add(tuple(float(rows[0]["limit"]) for rows in of))
    dashed = [tuple(line.get_ydata()) for line in axes.lines if line.get_linestyle() == "--"]
    assert sorted(dashed) == sorted(limits)


def test_features_stand_in_their_rows_beside_the_paper(drawn: list[Figure]) -> None:
    names, paper = list(features.ROWS), features.PAPER
    rows = committed("finetuning_summary", task="entities", train_examples="all", model=BERT)
    of = {row["method"]: score_of(row) for row in rows}
    of["untrained fine-tuned"] = of.pop("untrained")
    found = features.feature_scores("entities")
    assert found == {k: v for k, v in of.items() if k.removeprefix("untrained ") in names}
    del found["features:last"]
    features.table_seven(found, *SAID, {"a list": 73.9})
    left, right = drawn[0].axes
    assert points(left) == [(paper[name], names.index(name)) for name in names if name in paper]
    assert points(right) == [(found[name][0], names.index(name)) for name in names if name in found]
    controls = [found.get(f"untrained {name}") for name in names]
    assert [x for x, _ in points(right, "s")] == [score[0] for score in controls if score]
    said = [[text.get_text() for text in axes.texts] for axes in (left, right)]
    assert (said[0].count("not in the paper"), said[1].count("not run yet")) == (1, 1)


def test_a_map_shows_all_heads_of_a_small_model_and_the_busiest_of_a_large(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    maps: dict[int, Any] = {}
    monkeypatch.setattr(heads, "heat_map", lambda _, *given: maps.update({len(given[1]): given[0]}))
    for model in (BERT, "minilm"):
        heads.pattern_map(model, *SAID)
    for k, name in enumerate(PATTERNS):
        small, large = (committed("heads", model=m, statistic=name) for m in (BERT, "minilm"))
        assert maps[8][:, k].tolist() == pytest.approx([float(row["value"]) for row in small])
        by_layer = [[float(r["value"]) for r in large if r["layer"] == str(n)] for n in range(1, 7)]
        assert maps[6][:, k].tolist() == pytest.approx([max(some) for some in by_layer])
    with pytest.raises(ValueError, match="head_study --model other"):
        heads.results("other", "lens: loss")
