"""Pictures of an experiment show the numbers of its committed CSV, each in its place."""

from itertools import combinations
from statistics import mean

import pytest
import torch
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from bertedu.analysis.attention_heads import PATTERNS
from bertedu.analysis.probes import RELATIONS
from bertedu.analysis.views import BLUE, LIMIT, ORANGE, Picture
from bertedu.files import Row
from bertedu.finetuning.finetune import FEATURES
from bertedu.text.sources import shipped
from course.experiments import ablation_pictures as ablations
from course.experiments import direction_pictures as direction
from course.experiments import feature_pictures as features
from course.experiments import heads_pictures as heads
from course.experiments.ablations import GRIDS, STEPS, difference
from course.experiments.recall import READERS
from course.results.pictures import committed

TASKS = {"topic": "Topics", "entities": "Names"}


def times100(row: Row, *columns: str) -> list[float]:
    return [100 * float(row[name]) for name in columns]


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """Every figure that becomes a picture, and is closed."""
    figures: list[Figure] = []
    finish = Picture.__init__

    def spy(self: Picture, figure: Figure, alt: str) -> None:
        figures.append(figure)
        finish(self, figure, alt)
        assert (self.alt, repr(self)) == ("what one sees", "what one sees")

    monkeypatch.setattr(Picture, "__init__", spy)
    return figures


def points(axes: Axes, marker: str = "o") -> list[tuple[float, float]]:
    """The marked values, in the order in which they were drawn."""
    lines = [line for line in axes.lines if line.get_marker() == marker and len(line.get_xdata())]
    return [(x, y) for line in lines for x, y in zip(*line.get_data(), strict=True)]


def bars(axes: Axes) -> list[tuple[list[list[float]], str]]:
    """Both ends of each interval, and its color."""
    lines = [c for c in axes.collections if isinstance(c, LineCollection)]
    return [(c.get_segments()[0].tolist(), to_hex(c.get_colors()[0]).upper()) for c in lines]


def words(axes: Axes) -> list[str]:
    return [text.get_text() for text in axes.texts]


def rows_named(axes: Axes) -> list[str]:
    return [label.get_text() for label in axes.get_yticklabels()]


# -- the ablations


@pytest.mark.parametrize("variants", [None, ["right alone", "left and right"]])
def test_differences_stand_in_their_rows_beside_the_paper_and_the_luck(
    variants: list[str] | None, drawn: list[Figure]
) -> None:
    paper = {"both sides": {"QNLI": 84.9}, "right alone": {"QNLI": 80.0}}
    ablations.difference_plot(
        *("direction", TASKS, "t", "what one sees", paper, {"entities": "QNLI"}, variants),
        between_runs={"topic": 3.5},
    )
    names = variants or [variant.name for variant in GRIDS["direction"].variants[1:]]
    for (task, heading), axes in zip(TASKS.items(), drawn[0].axes, strict=True):
        assert axes.get_title("left") == heading
        summary = committed("ablations_summary", task=task, grid="direction")
        rows = {row["variant"]: row for row in summary}
        for place, name in enumerate(names):
            gap, low, high = times100(rows[name], "minus_reference", "minus_low", "minus_high")
            assert points(axes)[place] == pytest.approx((gap, place))
            ends, color = bars(axes)[place]
            assert ends == [pytest.approx([low, place]), pytest.approx([high, place])]
            assert color == (ORANGE if high < 0 else BLUE if low > 0 else LIMIT)
        at = names.index("right alone")
        assert points(axes, "D") == ([pytest.approx((-4.9, at))] if task == "entities" else [])
        bands = [
            patch.get_extents().transformed(axes.transData.inverted()) for patch in axes.patches
        ]
        assert [(box.x0, box.x1) for box in bands] == [pytest.approx((-3.5, 3.5))] * (
            task == "topic"
        )
    assert rows_named(drawn[0].axes[0]) == names
    with pytest.raises(ValueError, match=r"not run on nothing.*course ablate direction"):
        ablations.difference_plot("direction", {"nothing": "N"}, "t", "alt")
    with pytest.raises(ValueError, match=r"no results of grid 'mine'.*course ablate mine"):
        ablations.results("mine")


def test_curves_go_through_the_steps_in_order(drawn: list[Figure]) -> None:
    ablations.step_curves(TASKS, "t", "what one sees")
    for task, axes in zip(TASKS, drawn[0].axes, strict=True):
        rows = {
            row["variant"]: row for row in committed("ablations_summary", grid="steps", task=task)
        }
        lines = {line.get_label(): line for line in axes.lines}
        for kind in ("both sides", "left alone"):
            told = [(n / 1000, *times100(rows[f"{kind}, {n} steps"], "mean")) for n in STEPS]
            curve = zip(*lines[kind].get_data(), strict=True)
            assert [*curve] == [pytest.approx(point) for point in told]
        levels = [line.get_ydata()[0] for line in axes.lines if line.get_linestyle() == "--"]
        assert levels == [times100(rows[name], "mean")[0] for name in ("majority", "word counts")]
        assert words(axes) == ["always\nthe same", "word-count\nbaseline"]


def test_sizes_stand_at_their_parameters_and_no_name_on_a_line_or_another(
    drawn: list[Figure],
) -> None:
    sizes = {"L2 H128": 1_570_000, "L4 H128": 1_930_000, "L4 H256": 5_480_000, "L8 H256": 8_640_000}
    ablations.size_plot(sizes, TASKS, "t", "what one sees")
    for task, axes in zip(TASKS, drawn[0].axes, strict=True):
        rows = {
            row["variant"]: row for row in committed("ablations_summary", grid="size", task=task)
        }
        for (name, size), point, (ends, _) in zip(
            sizes.items(), points(axes), bars(axes), strict=True
        ):
            value, low, high = times100(rows[name], "mean", "low", "high")
            assert point == pytest.approx((size / 1e6, value))
            assert ends == [pytest.approx([size / 1e6, low]), pytest.approx([size / 1e6, high])]
        (dashed,) = (line for line in axes.lines if line.get_linestyle() == "--")
        assert dashed.get_ydata()[0] == times100(rows["word counts"], "mean")[0]
        height = axes.transData.transform((1, dashed.get_ydata()[0]))[1]
        boxes = {text.get_text(): text.get_window_extent() for text in axes.texts}
        assert boxes.keys() == {*sizes, "word-count\nbaseline"}
        for name, box in boxes.items():
            assert not box.y0 < height < box.y1, name
            for ends, _ in bars(axes):
                low, high = axes.transData.transform(ends)
                beside = low[0] < box.x0 or low[0] > box.x1
                assert beside or high[1] < box.y0 or low[1] > box.y1, name
        for (one, box), (other, its_box) in combinations(boxes.items(), 2):
            assert not box.overlaps(its_box), (one, other)


def test_scores_are_listed_best_first(capsys: pytest.CaptureFixture[str]) -> None:
    ablations.score_lines("direction", "topic")
    lines = capsys.readouterr().out.splitlines()
    rows = committed("ablations_summary", grid="direction", task="topic")
    assert len(lines) == len(rows)
    means = [float(line[31:36]) for line in lines]
    assert means == sorted(means, reverse=True)
    (first,) = (row for row in rows if row["variant"] == "both sides")
    told = "both sides {:.1f} ({:.1f} to {:.1f}) 3 runs".format(
        *times100(first, "mean", "low", "high")
    )
    assert told.split() in [line.split() for line in lines]
    assert lines[-1].startswith("always the same ")
    assert lines[-1].endswith(")"), "a baseline has no runs"


def test_claims_are_asked_in_points() -> None:
    grid, folder = GRIDS["masking"], shipped("results")
    names = [variant.name for variant in grid.variants]
    pairs = ablations.pair_differences("masking", "topic")
    assert list(pairs) == list(combinations(names, 2))
    one, other = names[1], names[3]
    asked = ablations.task_intervals(grid, one, other)
    assert list(asked) == list(grid.tasks)
    for task, ends in asked.items():
        _, low, high = difference(grid, task, one, other, folder)
        assert ends == pytest.approx((100 * low, 100 * high), abs=1e-9)
    assert pairs[one, other] == asked["topic"]
    luck = {
        r["task"]: 100 * float(r["luck"]) for r in committed("ablations_summary", grid="masking")
    }
    assert ablations.between_runs("masking") == luck


@pytest.mark.parametrize(
    ("grid", "pairs"), [("size", 9), ("masking", 18), ("steps", 42), ("longer", 12)]
)
def test_of_twenty_pairs_of_one_recipe_at_most_one_is_told_apart(grid: str, pairs: int) -> None:
    """What notebook 14 says before its verdicts, from the committed runs: 95 % intervals."""
    for some in ablations.same_recipe_intervals(GRIDS[grid]).values():
        assert len(some) == pairs  # three of every variant that was pre-trained three times
        assert sum(not low < 0 < high for low, high in some) <= len(some) / 20
        assert min(high - low for low, high in some) > 1, "in points"


def test_the_papers_tables_agree_with_each_other_and_with_our_grids() -> None:
    bert, base = ablations.TABLE_5["BERT"], ablations.TABLE_6[12, 768, 12]
    assert (base["MNLI-m"], base["MRPC"]) == (bert["MNLI-m"], bert["MRPC"])
    assert ablations.TABLE_8["80/10/10"]["MNLI"] == pytest.approx(bert["MNLI-m"], abs=0.21)
    for grid in ("masking", "masking-frozen"):
        assert [variant.name for variant in GRIDS[grid].variants] == list(ablations.TABLE_8)


# -- the same question, and recall


def test_less_loss_turns_round_with_its_readers() -> None:
    (row,) = committed(
        "same_question_differences", one="both sides", other="left alone", told_by="all"
    )
    low, high = float(row["less_loss_low"]), float(row["less_loss_high"])
    kinds = {"all": "any blanks"}
    assert direction.less_loss("both sides", "left alone", kinds) == {"any blanks": (low, high)}
    assert direction.less_loss("left alone", "both sides", kinds) == {"any blanks": (-high, -low)}
    with pytest.raises(KeyError):
        direction.less_loss("both sides", "nobody", kinds)


def test_every_run_is_a_dot(drawn: list[Figure]) -> None:
    kinds = {"left": "told by the left", "all": "any blanks"}
    direction.same_question_plot(kinds, "t", "what one sees")
    for kind, axes in zip(kinds, drawn[0].axes, strict=True):
        told = [
            [float(row["loss"]) for row in committed("same_question", reader=reader, told_by=kind)]
            for reader in direction.SAME_QUESTION
        ]
        assert points(axes) == [(x, place) for place, runs in enumerate(told) for x in runs]
        assert words(axes) == [f"{mean(runs):.2f}" for runs in told]
    assert rows_named(drawn[0].axes[0]) == list(direction.SAME_QUESTION)


def test_recall_has_a_curve_for_each_reader_and_a_line_for_each_limit(drawn: list[Figure]) -> None:
    layouts = ("list, blank, place", "list, place, blank")
    direction.recall_plot({layout: layout for layout in layouts}, "t", "what one sees")
    for layout, axes in zip(layouts, drawn[0].axes, strict=True):
        lines = {line.get_label(): line for line in axes.lines if line.get_linestyle() == "-"}
        assert list(lines) == list(READERS)
        limits, ends = set(), []
        for reader, line in lines.items():
            of = [
                committed("recall", layout=layout, reader=reader, length=str(n))
                for n in range(1, 9)
            ]
            losses = [[float(row["loss"]) for row in rows] for rows in of]
            assert line.get_ydata() == pytest.approx([mean(some) for some in losses])
            limits.add(tuple(float(rows[0]["limit"]) for rows in of))
            ends.append([(min(some), max(some)) for some in losses])
        dashed = [tuple(line.get_ydata()) for line in axes.lines if line.get_linestyle() == "--"]
        assert sorted(dashed) == sorted(limits)
        strokes = [c.get_segments() for c in axes.collections if isinstance(c, LineCollection)]
        assert [[tuple(stroke[:, 1]) for stroke in some] for some in strokes] == ends


# -- table 7


def test_features_stand_in_their_rows_beside_the_paper(drawn: list[Figure]) -> None:
    assert list(features.ROWS) == [*FEATURES, "fine-tuned"]
    found, names = features.feature_scores("entities"), list(features.ROWS)
    rows = committed("finetuning_summary", task="entities", train_examples="all")
    of = {
        r["method"]: times100(r, "mean", "low", "high") for r in rows if r["model"] == "bert-L4H128"
    }
    of["untrained fine-tuned"] = of.pop("untrained")
    assert {name: list(score) for name, score in found.items()} == {
        name: score for name, score in of.items() if name.removeprefix("untrained ") in names
    }
    assert list(features.feature_scores("entities", "minilm")) == ["fine-tuned"]
    shown = {name: score for name, score in found.items() if name != "features:last"}
    features.table_seven(shown, "t", "what one sees", {"a list": 73.9})
    left, right = drawn[0].axes
    assert rows_named(left) == list(features.ROWS.values())
    paper = features.PAPER
    assert points(left) == [(paper[name], names.index(name)) for name in names if name in paper]
    assert points(right) == [(shown[name][0], names.index(name)) for name in names if name in shown]
    controls = {name: shown.get(f"untrained {name}") for name in names}
    assert [x for x, _ in points(right, "s")] == [score[0] for score in controls.values() if score]
    assert (words(left).count("not in the paper"), words(right).count("not run yet")) == (1, 1)
    assert "a list" in words(right)
    dashed = [
        [line.get_xdata()[0] for line in a.lines if line.get_linestyle() == "--"]
        for a in (left, right)
    ]
    assert dashed == [[], [73.9]]


# -- heads


def test_tables_of_heads_stand_by_layer_and_head() -> None:
    for model, shape in (("bert-L4H128", (4, 2)), ("minilm", (6, 12))):
        table = heads.by_head(model, PATTERNS[2])
        assert table.shape == shape
        for row in committed("heads", model=model, statistic=PATTERNS[2]):
            value = float(table[int(row["layer"]) - 1, int(row["head"]) - 1])
            assert value == pytest.approx(float(row["value"]))
    assert {"bert-L4H128", "minilm"} & {*heads.models("lens")} == {"bert-L4H128"}
    found = heads.relation("minilm", RELATIONS[1])
    names = {key: row["statistic"] for key, row in found.items()}
    assert names.pop("offset").startswith(f"{RELATIONS[1]}: offset ")
    assert names == {
        "head": f"{RELATIONS[1]}: best head",
        "difference": f"{RELATIONS[1]}: head minus offset",
    }
    with pytest.raises(ValueError, match="head_study --model other"):
        heads.results("other", "lens: loss")


def test_a_map_shows_all_heads_of_a_small_model_and_the_busiest_of_a_large(
    monkeypatch: pytest.MonkeyPatch, drawn: list[Figure]
) -> None:
    maps: dict[int, torch.Tensor] = {}
    monkeypatch.setattr(
        heads, "heat_map", lambda axes, table, rows, columns: maps.__setitem__(len(rows), table)
    )
    for model in ("bert-L4H128", "minilm"):
        heads.pattern_map(model, "t", "what one sees")
    for k, name in enumerate(PATTERNS):
        assert torch.equal(maps[8][:, k], heads.by_head("bert-L4H128", name).flatten())
        assert torch.equal(maps[6][:, k], heads.by_head("minilm", name).amax(dim=1))


def test_heads_layers_and_relations_are_drawn_where_they_belong(drawn: list[Figure]) -> None:
    heads.relation_plot(["bert-L4H128", "minilm"], "t", "what one sees")
    for model, axes in zip(("bert-L4H128", "minilm"), drawn[0].axes, strict=True):
        assert axes.get_title("left") == model
        expected = []
        for place, name in enumerate(RELATIONS):
            rows = heads.relation(model, name)
            expected += [
                (100 * float(rows["offset"]["value"]), place + 0.14),
                (100 * float(rows["head"]["value"]), place - 0.14),
            ]
        assert points(axes) == [pytest.approx(point) for point in expected]
    assert rows_named(drawn[0].axes[0]) == list(RELATIONS)
    heads.head_bars("bert-L4H128", "loss added without the head", "x", "t", "what one sees")
    (axes,) = drawn[1].axes
    rows = committed("heads", model="bert-L4H128", statistic="loss added without the head")
    rows.sort(key=lambda row: -float(row["value"]))
    assert points(axes) == [(float(row["value"]), place) for place, row in enumerate(rows)]
    assert rows_named(axes)[0] == "layer {layer}, head {head}".format(**rows[0])
    panels = {"h": [("lens: right", "r")]}
    heads.layer_curves("bert-L4H128", panels, ["y"], "t", "what one sees", scale=100)
    (axes,) = drawn[2].axes
    rows = committed("heads", model="bert-L4H128", statistic="lens: right")
    told = [(int(row["layer"]), 100 * float(row["value"])) for row in rows]
    assert points(axes) == [pytest.approx(point) for point in told]
    assert (axes.get_title("left"), axes.get_ylabel()) == ("h", "y")
