"""What notebook 09 asks of a plot of scores: the line of an even guess."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bertedu.studies import task_pictures as scores
from bertedu.studies.task_pictures import score_plot

BERT = ("bert-L4H128", "fine-tuned")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One system on two tasks."""
    monkeypatch.setenv("BERTEDU_DATA", str(tmp_path))
    folder = tmp_path / "results"
    folder.mkdir()
    rows: dict[str, list[dict[str, Any]]] = {"finetuning": [], "finetuning_summary": []}
    for task in ("description", "next"):
        one = {"task": task, "model": BERT[0], "method": BERT[1], "train_examples": "all"}
        rows["finetuning"].append(one | {"metric": "accuracy", "purpose": "score"})
        interval = {"mean": 0.7, "low": 0.65, "high": 0.75}
        rows["finetuning_summary"].append(one | {"seeds": 1} | interval)
    for name, some in rows.items():
        with (folder / f"{name}.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, list(some[0]))
            writer.writeheader()
            writer.writerows(some)
    return folder


def upright_lines(axes: Axes) -> list[float]:
    """Where a line runs from the bottom of a panel to its top."""
    ends = [(np.asarray(line.get_xdata()), np.asarray(line.get_ydata())) for line in axes.lines]
    return [float(x[0]) for x, y in ends if list(y) == [0, 1]]


def test_chance_is_a_line_where_it_is_given(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Figure] = []
    monkeypatch.setattr(scores, "Picture", lambda figure, alt: drawn.append(figure))
    both = {"description": "one", "next": "other"}
    for chance in (None, {"next": 0.25}, {"description": 0.5, "next": 0.25}):
        score_plot(both, "title", "alt", [BERT], chance)
    lines = [[upright_lines(axes) for axes in figure.axes] for figure in drawn]
    assert lines == [[[], []], [[], [25.0]], [[50.0], [25.0]]]
