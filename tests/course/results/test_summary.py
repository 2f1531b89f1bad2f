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
from course.results.bootstrap import draw_texts, interval, often_drawn, seed_estimate
from course.results.record import RunRecord, pack
from course.results.summary import METRICS, draw_systems, paired_difference, summarize


@pytest.fixture(autouse=True)
def fewer_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as it takes to tell; defaults are bound when a function is made."""
    monkeypatch.setattr(bootstrap, "DRAWS", 400)


def system(name: str) -> tuple[str, str, str]:
    return (name, "fine-tuned", "all")


def recorded(folder: Path, systems: dict[str, Sequence[Any]]) -> RunRecord:
    """Write outcomes that were made up: for each system, of each run which of 60 texts is right."""
    sources = " ".join(map(str, range(60)))
    rows = [{"model": "(source)", "columns": "source", "outcomes": sources}]
    for model, runs in systems.items():
        for seed, right in enumerate(runs):
            method = model if model.startswith("features") else "fine-tuned"
            names = {"model": model, "method": method, "train_examples": "all"}
            outcomes = pack(np.array([(1, hit) for hit in right], float))
            rows.append(names | {"seed": str(seed), "columns": "label/found", "outcomes": outcomes})
    write_csv(folder / "outcomes" / "glue" / "x.csv", rows)
    return RunRecord(folder)


def hits(share: float, seed: int) -> list[int]:
    return (np.random.default_rng(seed).random(60) < share).astype(int).tolist()


# -- draws


def test_sources_are_drawn_whole() -> None:
    sources = np.array([2, 0, 1, 1, 2, 2, 3, 0, 9])
    numbers = {*sources.tolist()}
    once, *counts = often_drawn(sources)
    assert once.tolist() == [1] * 9
    drawn = np.array(counts)
    for source in numbers:
        of = drawn[:, sources == source]
        assert (of == of[:, :1]).all(), "a source was torn apart"
    firsts = [list(sources).index(source) for source in numbers]
    assert (drawn[:, firsts].sum(1) == 5).all(), "as many sources as there are"
    assert drawn.mean(0) == pytest.approx(np.ones(9), abs=0.2)
    values = np.random.default_rng(0).normal(size=(2, 9))
    means = bootstrap.drawn_means(values, sources)
    assert means[:, 0] == pytest.approx(values.mean(axis=1))
    for number, chosen in enumerate(draw_texts(sources)[:60], start=1):
        assert means[:, number] == pytest.approx(values[:, chosen].mean(axis=1))
    assert (drawn != 1).any()


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
    _, low, high, _ = seed_estimate([0.1 + 0.2, 0.3])
    assert low == high, "of seeds that are equal but for a float's last digit"
    assert seed_estimate([0.0, 0.0]) == (0, 0, 0, 1)


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


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("columns", RANDOM_OUTCOMES)
def test_scores_of_draws_are_those_of_the_drawn_examples(columns: str) -> None:
    """The sums over examples are drawn; here the examples themselves are."""
    dice, (kind, metric) = np.random.default_rng(1), kind_of(columns)
    width = len(kind.columns)
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
    for outcomes in (np.zeros((5, width)), np.ones((5, width)), np.eye(5, width)):  # all is alike
        (score,) = METRICS[columns](np.ones((1, 5)), outcomes)
        assert score == pytest.approx(kind.metrics(outcomes)[metric])
    never_changes = np.stack([np.arange(5.0), np.ones(5)], axis=1)
    assert METRICS["value/found"](np.ones((1, 5)), never_changes) == 0


# -- the file


def test_the_spread_of_runs_is_borrowed_from_runs_that_learned_alike(tmp_path: Path) -> None:
    """Where frozen features are read, runs lie further apart: nobody else gets their intervals."""

    def reach(**more: Sequence[Any]) -> float:
        runs = {name: [hits(0.6, seed) for seed in (0, 1)] for name in ("a", "b")}
        record = recorded(tmp_path, runs | more)
        found = paired_difference(record, "glue/x", system("a"), system("b"))
        return found.high - found.low

    far_apart = [[0] * 60, [1] * 60]
    assert reach(features=far_apart) == reach() < reach(c=far_apart) / 3


def test_the_summary_is_written_from_the_record_alone(tmp_path: Path) -> None:
    runs = {
        name: [hits(share, seed) for seed in range(3)] for name, share in (("a", 0.6), ("b", 0.2))
    }
    recorded(tmp_path, runs)
    rows = summarize(tmp_path, "a")
    written = read_csv(tmp_path / "finetuning_summary.csv")
    assert [row["mean"] for row in rows] == [row["mean"] for row in written]
    assert [(row["model"], row["seeds"], bool(row["minus_low"])) for row in written] == [
        ("a", "3", False),
        ("b", "3", True),
    ]
    assert all("minus_low" not in row for row in summarize(tmp_path)), "the usual was not run"
    found = paired_difference(RunRecord(tmp_path), "glue/x", system("b"), system("a"))
    expected = [float(written[1][f"minus_{end}"]) for end in ("reference", "low", "high", "p")]
    assert found == pytest.approx(expected, abs=5.1e-5)
    with pytest.raises(TaskError, match="no runs of nobody, fine-tuned, all on glue/x"):
        paired_difference(RunRecord(tmp_path), "glue/x", system("nobody"), system("a"))
    for folder, message in ((tmp_path, "runs of 'nobody'"), (tmp_path / "no", "no outcomes in")):
        with pytest.raises(TaskError, match=message):
            summarize(folder, "nobody")
    assert not (tmp_path / "no").exists()
