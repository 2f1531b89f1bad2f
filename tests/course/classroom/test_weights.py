"""The weights of toys: laid beside a page, and where a notebook must be run for them, run aside."""

from pathlib import Path

import pytest
from nbformat.v4 import new_code_cell, new_output
from tiny_course import NAME, save, tiny

from course.classroom import weights
from course.classroom.asked import course
from course.workshop import machine, play

WRITES = """import os
from pathlib import Path
Path("mine.weights.js").write_text("trained")
Path("rest.txt").write_text(os.environ["BERTEDU_MY_BERT"])"""


@pytest.fixture
def asks(tiny_course: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A notebook whose toy asks for weights that it writes itself."""
    for toy in ("neighbors", "meet"):  # theirs take seconds
        monkeypatch.setattr(play, toy, lambda: None)
    monkeypatch.setattr(machine, "write_weights", lambda name: None)
    notebook = tiny()
    own = play.Playground("own_text", {"weights": ["mine.weights.js"]}, "A toy", "a")
    shown = new_output("display_data", data={"text/html": own._repr_html_()})
    notebook.cells = [new_code_cell(WRITES, id="writes", outputs=[shown])]
    save(notebook, tiny_course / f"{NAME}.ipynb")
    return tiny_course


def test_a_notebook_is_run_aside_for_weights_that_are_not_here(asks: Path, tmp_path: Path) -> None:
    page, before = tmp_path / "page", (asks / f"{NAME}.ipynb").read_bytes()
    page.mkdir()
    assert weights.lay_weights(page, [NAME]) == [NAME]
    assert [path.name for path in page.iterdir()] == ["answer.weights.js"], "of the reader"
    assert weights.lay_weights(page, [NAME], train=True) == []
    assert {path.name for path in page.iterdir()} == {"answer.weights.js", "mine.weights.js"}
    assert (asks / f"{NAME}.ipynb").read_bytes() == before
    assert [path.name for path in asks.iterdir()] == [f"{NAME}.ipynb"]


def test_where_a_notebook_has_been_run_nothing_is_trained(
    asks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (asks / "mine.weights.js").write_text("from before")
    monkeypatch.setattr(weights, "run", lambda *_: pytest.fail("it was run"))
    assert weights.lay_weights(tmp_path, [NAME], train=True) == []
    assert (tmp_path / "mine.weights.js").read_text() == "from before"


def test_only_what_a_notebook_trains_lacks_in_a_fresh_clone(tmp_path: Path) -> None:
    own = "bert-mini-embeddings bert-L4H128 ltr-L4H128 rtl-L4H128 diffusion-L4H128 answer"
    for name in own.split():
        (tmp_path / f"{name}.weights.js").touch()
    found = [name[:2] for name in weights.lacking(tmp_path, list(course()))]
    assert found == ["08", "09", "11", "16"]
