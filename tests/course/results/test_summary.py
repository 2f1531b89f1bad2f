"""The table: intervals that draw whole sources and seeds, and differences on the same draws."""

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tiny_finetuning as tiny
from scipy import stats

from bertedu.files import read_csv, write_csv
from bertedu.finetuning.examples import TaskError
from bertedu.finetuning.finetune import make_kind
from bertedu.finetuning.kinds import Kind
from course.results import bootstrap
from course.results.bootstrap import draw_texts, interval, often_drawn, seed_estimate, verdict_of
from course.results.record import RunRecord, pack
from course.results.summary import METRICS, draw_systems, paired_difference, summarize


@pytest.fixture(autouse=True)
def fewer_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as it takes to tell; defaults are bound when a function is made."""
    monkeypatch.setattr(draw_texts, "__defaults__", (400, 0))
    monkeypatch.setattr(often_drawn, "__defaults__", (400,))


def system(name: str) -> tuple[str, str, str]:
    return (name, "fine-tuned", "all")


def recorded(folder: Path, sources: Sequence[int], systems: dict[str, Sequence[Any]]) -> RunRecord:
    """Write outcomes that were made up: for each system, of each run whether it is right."""
    rows = [{"model": "(source)", "columns": "source", "outcomes": " ".join(map(str, sources))}]
    for model, runs in systems.items():
        for seed, right in enumerate(runs):
            names = {"model": model, "method": "fine-tuned", "train_examples": "all"}
            outcomes = pack(np.array([(1, hit) for hit in right], float))
            rows.append(names | {"seed": str(seed), "columns": "label/found", "outcomes": outcomes})
    write_csv(folder / "outcomes" / "task.csv", rows)
    return RunRecord(folder)


Table = dict[str, dict[str, Any]]


@pytest.fixture
def table(tmp_path: Path) -> Any:
    def make(sources: Sequence[int], systems: dict[str, Any], reference: str = "a") -> Table:
        recorded(tmp_path, sources, systems)
        return {row["model"]: row for row in summarize(tmp_path, reference)}

    return make


def minus(row: dict[str, Any]) -> tuple[float, ...]:
    return tuple(float(row[name]) for name in ("minus_reference", "minus_low", "minus_high"))


def hits(share: float, seed: int, size: int = 60) -> list[int]:
    return (np.random.default_rng(seed).random(size) < share).astype(int).tolist()


# -- draws


def test_sources_are_drawn_whole() -> None:
    sources = np.array([2, 0, 1, 1, 2, 2, 3, 0, 4])
    once, *counts = often_drawn(sources)
    assert once.tolist() == [1] * 9
    drawn = np.array(counts)
    for source in range(5):
        of = drawn[:, sources == source]
        assert (of == of[:, :1]).all(), "a source was torn apart"
    firsts = [list(sources).index(source) for source in range(5)]
    assert (drawn[:, firsts].sum(1) == 5).all(), "as many sources as there are"
    assert drawn.mean(0) == pytest.approx(np.ones(9), abs=0.2)
    values = np.random.default_rng(0).normal(size=(2, 9))
    means = bootstrap.drawn_means(values, sources)
    assert means[:, 0] == pytest.approx(values.mean(axis=1))
    for number, chosen in enumerate(draw_texts(sources)[:60], start=1):
        assert means[:, number] == pytest.approx(values[:, chosen].mean(axis=1))
    others = draw_texts(sources, seed=1)
    assert any(not np.array_equal(a, b) for a, b in zip(draw_texts(sources), others, strict=True))


def test_an_interval_is_the_middle_95_percent_and_over_seeds_students() -> None:
    assert interval(list(range(1001))) == pytest.approx((25, 975))
    for size in (2, 3, 10):
        values = np.random.default_rng(size).normal(0.8, 0.1, size)
        expected = stats.t.interval(0.95, size - 1, values.mean(), stats.sem(values))
        found = seed_estimate(values.tolist())
        assert found[1:3] == pytest.approx(expected)
        assert found.p == pytest.approx(stats.ttest_1samp(values, 0).pvalue)
    assert all(np.isnan(seed_estimate([0.7])[1:]))
    assert seed_estimate([0.1 + 0.2, 0.3]) == pytest.approx((0.3, 0.3, 0.3, 0))
    assert seed_estimate([0.0, 0.0]) == (0, 0, 0, 1)


# -- differences


@pytest.mark.parametrize(("ours", "theirs"), [(1, 1), (3, 3), (5, 1)])
def test_equal_systems_differ_by_nothing(table: Any, ours: int, theirs: int) -> None:
    """They meet on the same texts; where runs differ, their luck is left, of a single run, too."""
    runs = [hits(0.6, 0 if ours != theirs else seed) for seed in range(ours)]
    found = table([i // 2 for i in range(60)], {"a": runs, "b": runs[:theirs]})
    value, low, high = minus(found["b"])
    assert (value, low) == (0, -high)
    assert (high > 0) == (ours == theirs == 3)
    assert "minus_low" not in found["a"], "the reference itself"


def test_the_luck_of_a_single_run_is_that_of_the_others_on_as_many_examples(tmp_path: Path) -> None:
    runs = {"a": [hits(0.6, seed) for seed in range(3)], "b": [hits(0.6, 7)]}
    record = recorded(tmp_path, range(60), runs)
    _, low, high = minus({r["model"]: r for r in summarize(tmp_path, "a")}["b"])
    rows = read_csv(tmp_path / "outcomes" / "task.csv")
    for size, wider in (("100", False), ("all", True)):  # of two runs that have nothing in common
        more = [rows[1] | {"model": "c", "seed": str(s), "train_examples": size} for s in range(2)]
        for row, right in zip(more, (1, 0), strict=True):
            row["outcomes"] = pack(np.array([(1, right)] * 60, float))
        write_csv(tmp_path / "outcomes" / "task.csv", [*rows, *more])
        _, lower, higher = paired_difference(record, "task", system("b"), system("a"))[:3]
        assert (higher - lower > 1.5 * (high - low)) == wider


def test_always_a_little_better_is_higher_though_the_intervals_overlap(
    table: Any, tmp_path: Path
) -> None:
    few = hits(0.5, 1, 100)
    wrong = [i for i, hit in enumerate(few) if not hit]
    runs = {"a": [few], "b": [[1 if i in wrong[:8] else hit for i, hit in enumerate(few)]]}
    found, turned = table(range(100), runs), table(range(100), runs, "b")
    assert float(found["b"]["low"]) < float(found["a"]["high"]), "overlap"
    better, low, high = minus(found["b"])
    assert (better, low > 0) == (pytest.approx(0.08), True)
    assert minus(turned["a"]) == pytest.approx((-better, -high, -low), abs=1.1e-4)
    pair = paired_difference(RunRecord(tmp_path), "task", system("b"), system("a"))
    assert pair[:3] == pytest.approx((better, low, high), abs=5.1e-5)
    assert pair.p == pytest.approx(float(found["b"]["minus_p"]), abs=5.1e-5)
    with pytest.raises(TaskError, match="no runs of nobody, fine-tuned, all on task"):
        paired_difference(RunRecord(tmp_path), "task", system("nobody"), system("a"))


RANDOM_OUTCOMES: dict[str, Any] = {
    "label/found": lambda dice: dice.integers(0, 3, (40, 2)),
    "value/found": lambda dice: dice.normal(100, 1, (40, 2)),
    "right/found/there": lambda dice: np.sort(dice.integers(0, 4, (40, 3)), axis=1),
    "exact/f1/answerable": lambda dice: dice.random((40, 3)),
}


def kind_of(columns: str) -> tuple[Kind, str]:
    made = [make({"train": 4, "dev": 2, "test": 2}) for make in tiny.MAKERS.values()]
    kinds = [(make_kind(*one), one[0].metric) for one in made]
    return next((kind, metric) for kind, metric in kinds if "/".join(kind.columns) == columns)


@pytest.mark.parametrize("columns", RANDOM_OUTCOMES)
def test_scores_of_draws_are_those_of_the_drawn_examples(columns: str) -> None:
    """The sums over examples are drawn; here the examples themselves are."""
    dice, (kind, metric) = np.random.default_rng(1), kind_of(columns)
    sources = dice.integers(0, 15, 40)
    runs = [RANDOM_OUTCOMES[columns](dice).astype(float) for _ in range(3)]
    row = {"model": "a", "method": "m", "train_examples": "all", "columns": columns}
    book: Any = SimpleNamespace(outcomes=lambda _: (sources, [(row, o) for o in runs]))
    (drawn,) = draw_systems(book, "task").values()
    assert drawn.runs[:, 0] == pytest.approx([kind.metrics(o)[metric] for o in runs])
    for number, examples in enumerate(draw_texts(sources)[:60], start=1):
        scores = [kind.metrics(o[examples])[metric] for o in runs]
        assert drawn.runs[:, number] == pytest.approx(scores)
    assert drawn.runs.shape == (3, 401)
    assert draw_systems(book, "task", lambda row: None) == {}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("columns", RANDOM_OUTCOMES)
def test_the_quick_metric_is_that_of_the_kind_where_all_is_the_same(columns: str) -> None:
    kind, metric = kind_of(columns)
    width = len(kind.columns)
    for outcomes in (np.zeros((5, width)), np.ones((5, width)), np.eye(5, width)):
        (score,) = METRICS[columns](np.ones((1, 5)), outcomes)
        assert score == pytest.approx(kind.metrics(outcomes)[metric])


# -- the file


def test_the_summary_is_written_from_the_record_alone(tmp_path: Path) -> None:
    runs = {
        name: [hits(share, seed) for seed in range(3)] for name, share in (("a", 0.6), ("b", 0.2))
    }
    recorded(tmp_path, range(60), runs)
    rows = summarize(tmp_path, "a")
    written = read_csv(tmp_path / "finetuning_summary.csv")
    assert [row["mean"] for row in rows] == [row["mean"] for row in written]
    assert [(row["task"], row["model"], row["seeds"]) for row in written] == [
        ("task", "a", "3"),
        ("task", "b", "3"),
    ]
    assert verdict_of(*minus(written[1])[1:]) == "contradicted"
    assert written[0]["minus_low"] == ""
    assert all("minus_low" not in row for row in summarize(tmp_path)), "the usual was not run"
    with pytest.raises(TaskError, match="no fine-tuned runs of 'nobody'"):
        summarize(tmp_path, "nobody")


def test_a_folder_without_a_record_is_refused_and_left_alone(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match="no outcomes in"):
        summarize(tmp_path / "nowhere", "ours")
    assert not (tmp_path / "nowhere").exists()
