"""What a notebook keeps when it is saved."""

import copy
import runpy
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

from course.workshop.stills import VIEW, on_save

BAR = "your BERT:   0%|          | 0/1001 [00:00<?, ?it/s]"
STILL = {"text/html": "<p>still</p>", "text/plain": "still"}


def saved(*outputs: dict[str, Any]) -> Any:
    cells = [{"outputs": [{"data": copy.deepcopy(data)} for data in outputs]}, {"source": "text"}]
    model = {"type": "notebook", "content": {"cells": cells, "metadata": {"widgets": {}, "k": 1}}}
    on_save(model, path="x.ipynb", contents_manager=None)
    assert model["content"]["metadata"] == {"k": 1}
    return [output["data"] for output in model["content"]["cells"][0]["outputs"]]


@pytest.mark.parametrize(
    ("output", "left"),
    [
        ({VIEW: {}, **STILL}, [STILL]),
        (STILL, [STILL]),
        ({VIEW: {}, "text/plain": BAR}, [{"text/plain": "your BERT: 1001"}]),
        ({VIEW: {}, "text/plain": [BAR]}, [{"text/plain": "your BERT: 1001"}]),
        ({VIEW: {}, "text/plain": BAR[10:]}, [{"text/plain": "progress bar: 1001"}]),
        ({VIEW: {}, "text/plain": "IntSlider(value=3)"}, []),
        ({"text/plain": BAR}, [{"text/plain": BAR}]),
    ],
)
def test_a_widget_leaves_its_still_and_a_bar_a_line(output: Any, left: list[Any]) -> None:
    assert saved(output) == left
    assert saved(STILL, output) == [STILL, *left]


def test_what_is_no_notebook_is_saved_as_it_is() -> None:
    for model in ({"type": "file", "content": VIEW}, {"type": "notebook", "content": None}):
        before = copy.deepcopy(model)
        on_save(model)
        assert model == before


def test_a_file_is_made_still(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, live = tmp_path / "x.ipynb", new_output("display_data", {VIEW: {}, "text/plain": BAR})
    nbformat.write(new_notebook(cells=[new_code_cell(outputs=[live])]), path)
    monkeypatch.setattr(sys, "argv", ["stills", str(path)])
    monkeypatch.delitem(sys.modules, "course.workshop.stills")
    runpy.run_module("course.workshop.stills", run_name="__main__")
    (output,) = nbformat.read(path, 4).cells[0].outputs
    assert output.data == {"text/plain": "your BERT: 1001"}
