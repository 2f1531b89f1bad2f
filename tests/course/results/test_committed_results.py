"""The committed record of fine-tuning: table, outcomes and summary say the same."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from bertedu.files import read_csv, shipped
from course.experiments import few_rows
from course.results.record import RunRecord
from course.results.summary import METRICS, summarize

RESULTS = shipped("results")
ROWS = read_csv(RESULTS / "finetuning.csv")
TASKS = sorted({row["task"] for row in ROWS})


@pytest.mark.parametrize("task", TASKS)
def test_each_score_follows_from_its_outcomes(task: str) -> None:
    scored = {
        (row["model"], row["method"], row["train_examples"], row["seed"]): float(row["test"])
        for row in ROWS
        if row["task"] == task and row["purpose"] == "score"
    }
    sources, runs = RunRecord(RESULTS).outcomes(task)
    found = {}
    for row, outcomes in runs:
        assert len(outcomes) == len(sources)
        key = (row["model"], row["method"], row["train_examples"], row["seed"])
        found[key] = METRICS[row["columns"]](np.ones((1, len(outcomes))), outcomes)[0]
    assert found == pytest.approx(scored, abs=2e-4)


def test_the_summary_is_that_of_the_outcomes(tmp_path: Path) -> None:
    shutil.copytree(RESULTS / "outcomes", tmp_path / "outcomes")
    summarize(tmp_path)
    again, committed = (
        read_csv(folder / "finetuning_summary.csv") for folder in (tmp_path, RESULTS)
    )
    assert again == committed


def test_the_summary_of_few_rows_is_what_its_command_makes_of_the_record() -> None:
    rows = [*few_rows.summary_rows(RunRecord(RESULTS, few_rows.NAME))]
    committed = read_csv(RESULTS / f"{few_rows.NAME}_summary.csv")
    assert committed == [{name: str(row.get(name, "")) for name in committed[0]} for row in rows]
    assert all(int(row["seeds"]) >= 3 for row in rows)


def test_every_row_names_commit_machine_and_seconds() -> None:
    for row in ROWS:
        assert row["commit"], row
        assert not row["commit"].endswith("+"), "made while files were being edited"
        assert row["device"], row
        if row["method"] != "baseline":
            assert float(row["seconds"]) > 0, row
        assert row["purpose"] != "grid" or row["test"] == "", "a grid has seen no test score"


def test_runs_until_dev_stops_rising_have_come_there() -> None:
    """At most a tenth of a task's runs were stopped by the cap, whatever the number of labels."""
    by_task: dict[str, list[bool]] = {}
    for row in ROWS:
        if row["epochs"] == "40":
            assert (row["patience"], row["min_steps"]) == ("4", "30"), row
            by_task.setdefault(row["task"], []).append(int(row["best_epoch"]) + 4 > 40)
    assert {"topic", "entities"} <= by_task.keys()
    for task, at_the_cap in by_task.items():
        assert sum(at_the_cap) <= len(at_the_cap) / 10, task


SETUP = ("task", "model", "method", "train_examples", "epochs")
# (notebook, *setup): the band, clear of what a cell says of the run
BANDS = {
    ("08", "topic", "bert-L4H128", "fine-tuned", "2000", "2"): (0.48, 0.62),  # above 45 %
    ("08", "topic", "bert-L4H128", "untrained", "2000", "2"): (0.08, 0.22),  # below 25 %
    ("09", "description", "bert-L4H128", "fine-tuned", "1500", "3"): (0.60, 0.72),
    ("10", "answer", "bert-L4H128", "fine-tuned", "600", "2"): (0.24, 0.33),  # below 33.4 %
    ("11", "entities", "bert-L4H128", "fine-tuned", "1500", "3"): (0.45, 0.70),  # above a third
    ("12", "entities", "bert-L4H128", "features:sum of all", "1500", "4"): (0.35, 0.70),  # 25 %
    ("16", "topic", "bert-tiny", "fine-tuned", "2000", "2"): (0.55, 0.68),  # above 50 %
    ("16", "topic", "bert-tiny", "untrained", "2000", "2"): (0.22, 0.36),  # below 40 %
}


def test_only_what_a_notebook_runs_live_is_short() -> None:
    """Every other scored run of ours went on until dev stopped rising."""
    ours = [row for row in ROWS if row["purpose"] == "score" and row["model"] == "bert-L4H128"]
    short = {tuple(row[name] for name in SETUP) for row in ours if row["epochs"] != "40"}
    assert short <= {run[1:] for run in BANDS}


@pytest.mark.parametrize(("run", "band"), BANDS.items(), ids=lambda it: "-".join(map(str, it)))
def test_a_live_run_lands_in_its_band(run: tuple[str, ...], band: tuple[float, float]) -> None:
    """Ten seeds of what a notebook runs live stay clear of what its cell says of it."""
    found = [
        float(row["test"])
        for row in ROWS
        if tuple(row[name] for name in SETUP) == run[1:] and row["purpose"] == "score"
    ]
    assert len(found) == 10
    assert band[0] < min(found)
    assert max(found) < band[1]
