"""The table: intervals that draw whole sources and seeds, and differences on the same draws."""

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tiny_finetuning as tiny
from scipy import stats

from bertedu.files import read_csv
from bertedu.finetuning.examples import TaskError
from bertedu.finetuning.finetune import Setup, make_kind
from bertedu.finetuning.kinds import Answer, Outcomes
from bertedu.finetuning.training import History, Hyperparameters
from course.results import summary as report
from course.results.bootstrap import draw_runs, interval, resample, seed_interval, verdict_of
from course.results.record import RunRecord
from course.results.summary import (
    METRICS,
    System,
    draw_systems,
    paired_difference,
    summarize,
    summarize_task,
)


@pytest.fixture(autouse=True)
def fewer_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as it takes to tell; defaults are bound when a function is made."""
    for function in (resample, report.bootstrap.draw_texts, report.bootstrap.draw_runs):
        monkeypatch.setattr(function, "__defaults__", (400, 0))


class Made:
    """In place of a book: outcomes that were made up."""

    def __init__(self, sources: Sequence[int], systems: dict[str, Sequence[Sequence[int]]]) -> None:
        self.sources, self.systems = np.array(sources), systems

    def outcomes(self, _: str) -> tuple[Any, list[tuple[dict[str, str], Outcomes]]]:
        rows = []
        for model, runs in self.systems.items():
            for seed, right in enumerate(runs):
                name = {"model": model, "method": "fine-tuned", "train_examples": "all"}
                outcomes = np.array([(1, hit) for hit in right], float)
                rows.append((name | {"seed": str(seed), "columns": "label/found"}, outcomes))
        return self.sources, rows


def system(name: str) -> System:
    return (name, "fine-tuned", "all")


def table(made: Made, reference: str = "a") -> dict[str, dict[str, Any]]:
    rows = summarize_task(made, "task", system(reference))  # type: ignore[arg-type]
    return {row["model"]: row for row in rows}


def width(row: dict[str, Any]) -> float:
    return float(row["high"]) - float(row["low"])


# --- Draws --------------------------------------------------------------------------------------


def test_sources_are_drawn_whole() -> None:
    sources = np.array([2, 0, 1, 1, 2, 2, 3, 0, 4])
    counts, sizes = np.zeros(9), set()
    for examples, _ in resample(sources, 1, 500):
        times = np.bincount(examples, minlength=9)
        for source in range(5):
            assert len(set(times[sources == source])) == 1, "a source was torn apart"
        drawn = sum(times[list(sources).index(source)] for source in range(5))
        assert drawn == 5, "as many sources as there are"
        sizes.add(len(examples))
        counts += times
    assert len(sizes) > 3, "sources have other sizes, so do draws"
    assert counts / 500 == pytest.approx(np.ones(9), abs=0.2)


def test_seeds_are_drawn_too_and_the_texts_do_not_depend_on_how_many_there_are() -> None:
    sources = np.repeat(np.arange(10), 3)
    one, five = resample(sources, 1, 50), resample(sources, 5, 50)
    for (first, _), (second, chosen) in zip(one, five, strict=True):
        assert np.array_equal(first, second)
        assert len(chosen) == 5
        assert set(chosen) <= set(range(5))
    assert {tuple(sorted(chosen)) for _, chosen in five} != {(0, 1, 2, 3, 4)}
    assert len({tuple(first) for first, _ in one}) == 50
    assert all(
        np.array_equal(x[0], y[0]) and np.array_equal(x[1], y[1])
        for x, y in zip(five, resample(sources, 5, 50), strict=True)
    )


def test_an_interval_is_the_middle_95_percent() -> None:
    assert interval(list(range(1001))) == pytest.approx((25, 975))
    assert interval([3.0]) == (3, 3)


def test_examples_that_share_a_source_make_the_interval_wider() -> None:
    """200 answers, right or wrong by source: they say no more than 20 would."""
    right = np.repeat(np.random.default_rng(0).integers(0, 2, 20), 10).tolist()
    clustered = table(Made(np.repeat(np.arange(20), 10).tolist(), {"a": [right]}))["a"]
    independent = table(Made(range(200), {"a": [right]}))["a"]
    assert clustered["mean"] == independent["mean"]
    assert width(clustered) > 2 * width(independent)
    assert width(independent) == pytest.approx(4 * (0.25 / 200) ** 0.5, rel=0.2)


def test_seeds_that_differ_make_the_interval_wider() -> None:
    """Every text is alike here: what varies is the seeds."""
    same = table(Made(range(50), {"a": [[1] * 50] * 4}))["a"]
    assert (same["low"], same["high"]) == ("1.0000", "1.0000")
    other = table(Made(range(50), {"a": [[1] * 50, [0] * 50] * 2}))["a"]
    assert float(other["mean"]) == 0.5
    assert width(other) > 0.7


# --- Seeds alone --------------------------------------------------------------------------------


def test_where_runs_are_not_drawn_only_the_texts_are() -> None:
    made = Made(range(20), {"a": [[1] * 20, [0] * 20]})  # one run right on all, one on none
    for runs_drawn in (True, False):
        drawn = draw_systems(made, "task", runs_drawn=runs_drawn)  # type: ignore[arg-type]
        assert set(drawn[system("a")].draws) == ({0.0, 0.5, 1.0} if runs_drawn else {0.5})


def test_the_interval_over_seeds_is_students() -> None:
    for size in (2, 3, 5, 10):
        values = np.random.default_rng(size).normal(0.8, 0.1, size)
        expected = stats.t.interval(0.95, size - 1, values.mean(), stats.sem(values))
        assert seed_interval(values.tolist()) == pytest.approx(expected)
    assert all(np.isnan(seed_interval([0.7])))


def test_one_seed_has_no_interval_over_seeds_and_several_have() -> None:
    found = table(Made(range(4), {"a": [[1, 1, 0, 0]], "b": [[1, 1, 1, 0], [1, 0, 0, 0]]}))
    assert (found["a"]["seeds_low"], found["a"]["seeds_high"]) == ("", "")
    assert found["a"]["seeds"] == 1
    expected = [f"{v:.4f}" for v in seed_interval([0.75, 0.25])]
    assert [found["b"]["seeds_low"], found["b"]["seeds_high"]] == expected
    assert found["b"]["seeds"] == 2
    assert found["b"]["mean"] == "0.5000"


# --- Differences --------------------------------------------------------------------------------


def verdict(row: dict[str, str]) -> str:
    """What the row makes of the claim that its system is better than the reference."""
    return verdict_of(float(row["minus_low"]), float(row["minus_high"]))


def hits(share: float, seed: int, size: int = 60) -> list[int]:
    return (np.random.default_rng(seed).random(size) < share).astype(int).tolist()


@pytest.mark.parametrize("seeds", [1, 3])
def test_equal_systems_differ_by_nothing(seeds: int) -> None:
    runs = [hits(0.6, seed) for seed in range(seeds)]
    row = table(Made([i // 2 for i in range(60)], {"a": runs, "b": runs}))["b"]
    assert [float(row[n]) for n in ("minus_reference", "minus_low", "minus_high")] == [0, 0, 0]
    assert verdict(row) == "undecided"


def test_equal_systems_with_other_numbers_of_seeds_differ_by_nothing() -> None:
    """A baseline has one run, a model five: they still meet on the same texts."""
    right = hits(0.5, 0)
    row = table(Made(range(60), {"a": [right] * 5, "b": [right]}))["b"]
    assert [float(row[n]) for n in ("minus_reference", "minus_low", "minus_high")] == [0, 0, 0]


def test_always_a_little_better_is_higher_though_the_intervals_overlap() -> None:
    few = hits(0.5, 1, 100)
    wrong = [i for i, hit in enumerate(few) if not hit]
    more = [1 if hit or i in wrong[:8] else 0 for i, hit in enumerate(few)]
    made = Made(range(100), {"a": [few], "b": [more]})
    found = table(made)
    assert float(found["b"]["low"]) < float(found["a"]["high"]), "overlap"
    assert verdict(found["b"]) == "supported"
    assert float(found["b"]["minus_reference"]) == pytest.approx(0.08)
    assert float(found["b"]["minus_low"]) > 0
    turned = table(made, "b")["a"]
    assert verdict(turned) == "contradicted"
    assert float(turned["minus_reference"]) == pytest.approx(-0.08)
    assert float(turned["minus_high"]) == pytest.approx(-float(found["b"]["minus_low"]))


def test_the_reference_itself_and_a_reference_that_is_missing_have_no_difference() -> None:
    made = Made(range(60), {"a": [hits(0.5, 0)], "b": [hits(0.6, 1)]})
    assert "minus_low" not in table(made)["a"]
    assert "minus_low" in table(made)["b"]
    assert all("minus_low" not in row for row in table(made, "nobody").values())


def test_a_pair_of_systems_by_name_is_what_the_table_says() -> None:
    made: Any = Made(
        [i // 3 for i in range(60)],
        {"a": [hits(0.4, s) for s in range(3)], "b": [hits(0.7, s) for s in range(3)]},
    )
    row = table(made)["b"]
    found = paired_difference(made, "task", system("b"), system("a"))
    columns = ("minus_reference", "minus_low", "minus_high")
    assert [f"{v:.4f}" for v in found] == [row[n] for n in columns]
    mean, low, high = paired_difference(made, "task", system("a"), system("b"))
    assert (mean, low, high) == pytest.approx((-found[0], -found[2], -found[1]))
    with pytest.raises(TaskError, match="no runs of nobody, fine-tuned, all on task"):
        paired_difference(made, "task", system("nobody"), system("a"))


RANDOM_OUTCOMES = {
    "label/found": lambda dice: dice.integers(0, 3, (40, 2)),
    "value/found": lambda dice: dice.normal(100, 1, (40, 2)),
    "right/found/there": lambda dice: np.sort(dice.integers(0, 4, (40, 3)), axis=1),
    "exact/f1/answerable": lambda dice: dice.random((40, 3)),
}


@pytest.mark.parametrize("columns", RANDOM_OUTCOMES)
def test_scores_of_draws_are_those_of_the_drawn_examples(columns: str) -> None:
    """The sums over examples are drawn; here the examples themselves are."""
    dice = np.random.default_rng(1)
    sources = dice.integers(0, 15, 40)
    runs = [RANDOM_OUTCOMES[columns](dice).astype(float) for _ in range(3)]
    row = {"model": "a", "method": "m", "train_examples": "all", "columns": columns}
    book: Any = SimpleNamespace(outcomes=lambda _: (sources, [(row, o) for o in runs]))
    (drawn,) = draw_systems(book, "task").values()

    def metric(outcomes: Any) -> float:
        return float(METRICS[columns](np.ones((1, len(outcomes))), outcomes)[0])

    assert drawn.scores == pytest.approx([metric(o) for o in runs])
    expected = [
        np.mean([metric(runs[i][examples]) for i in chosen])
        for examples, chosen in resample(sources, 3, 400)
    ]
    assert drawn.draws == pytest.approx(np.array(expected))


# --- Metrics ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", tiny.MAKERS)
def test_the_quick_metric_is_that_of_the_kind(name: str) -> None:
    task, splits = tiny.MAKERS[name]({"train": 4, "dev": 2, "test": 2})
    kind = make_kind(task, splits)
    quick = METRICS["/".join(kind.columns)]
    dice = np.random.default_rng(0)
    for trial in range(20):
        if name in ("classification", "choice"):
            outcomes = dice.integers(0, 3, (12, 2)).astype(float)
        elif name == "regression":
            outcomes = dice.normal(0, 1, (12, 2))
            if trial == 0:
                outcomes[:, 1] = 0.5  # always the same answer
        elif name == "tagging":
            there, found = dice.integers(0, 4, (2, 12))
            outcomes = np.stack([np.minimum(there, found) * (trial % 3 > 0), found, there], 1)
            outcomes = outcomes.astype(float) * (trial > 0)  # none at all, once
        else:
            outcomes = np.stack(
                [dice.integers(0, 2, 12), dice.random(12), dice.integers(0, 2, 12)], 1
            )
        (score,) = quick(np.ones((1, 12)), outcomes)
        assert score == pytest.approx(kind.metrics(outcomes)[task.metric]), trial


# --- The file -----------------------------------------------------------------------------------


def record(book: RunRecord, model: str, right: int, seed: int = 0) -> None:
    task, splits = tiny.keyword_task(sizes={"train": 8, "dev": 4, "test": 10})
    labels = [int(e.label) for e in splits["test"]]  # type: ignore[union-attr]
    answers = [Answer(label if i < right else 1 - label) for i, label in enumerate(labels)]
    run: Any = SimpleNamespace(
        model=SimpleNamespace(kind=make_kind(task, splits)),
        history=History([0.1], [0.5], 1),
        answers={"test": answers},
    )
    book.add(task, splits, Setup(model), Hyperparameters(seed=seed), run, "score")


def test_the_summary_is_written_from_the_record_alone(tmp_path: Path) -> None:
    book = RunRecord(tmp_path)
    for seed in range(3):
        record(book, "ours", 6 + seed, seed)
        record(book, "theirs", 2, seed)
    rows = summarize(tmp_path, "ours")
    written = {row["model"]: row for row in read_csv(tmp_path / "finetuning_summary.csv")}
    assert {row["model"]: row["mean"] for row in rows} == {"ours": "0.7000", "theirs": "0.2000"}
    assert written["ours"]["task"] == "keyword"
    assert written["ours"]["seeds"] == "3"
    assert verdict(written["theirs"]) == "contradicted"
    assert written["theirs"]["minus_reference"] == "-0.5000"
    assert written["ours"]["minus_low"] == ""


def test_a_folder_without_a_record_is_refused_and_left_alone(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match="no outcomes in"):
        summarize(tmp_path / "nowhere", "ours")
    assert not (tmp_path / "nowhere").exists()
    with pytest.raises(TaskError, match="no outcomes of task 'other'"):
        RunRecord(tmp_path).outcomes("other")


def test_runs_are_drawn_by_the_seed_and_only_those_there_are() -> None:
    drawn = [np.array(draw_runs(5, draws=50, seed=seed)) for seed in (0, 0, 1)]
    assert (drawn[0] == drawn[1]).all()
    assert (drawn[0] != drawn[2]).any()
    assert set(drawn[0].flatten()) == set(range(5))
