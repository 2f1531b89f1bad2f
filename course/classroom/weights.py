"""The models that toys compute with, laid beside the pages on which they are played with."""

import contextlib
import os
import re
import shutil
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from tqdm import tqdm

from course.classroom import asked

WEIGHTS = re.compile(r'<a hidden href="([^"]+\.weights\.js)"')


def lay_weights(folder: Path, names: list[str], train: bool = False) -> list[str]:
    """Lay the weights that the toys of some notebooks ask for into a folder.

    A notebook that was run here has left its own beside it; with ``train``, others are run aside.
    Return the notebooks whose toys lack a model.
    """
    from course.experiments.tuned import READER, load_tuned
    from course.workshop import machine, play

    with contextlib.chdir(folder):
        play.own_text(load_tuned(READER), "Who is it?", "Nobody.")  # of notebook 10
        play.neighbors()
        play.meet()
        machine.write_weights("diffusion-L4H128")  # of the writer
    for weights in asked.NOTEBOOKS.glob("*.weights.js"):
        shutil.copy(weights, folder)
    without = lacking(folder, names)
    for name in tqdm(without if train else [], unit="notebook", desc="training", disable=None):
        with tempfile.TemporaryDirectory() as aside:
            run(name, aside)
            for weights in Path(aside).glob("*.weights.js"):
                shutil.copy(weights, folder)
    return lacking(folder, names)


def lacking(folder: Path, names: list[str]) -> list[str]:
    """List the notebooks whose toys ask for weights that do not lie in a folder."""
    text = {name: (asked.NOTEBOOKS / f"{name}.ipynb").read_text(encoding="utf-8") for name in names}
    wanted = {name: WEIGHTS.findall(one.replace('\\"', '"')) for name, one in text.items()}
    return [n for n in names if not all((folder / one).is_file() for one in wanted[n])]


def run(name: str, folder: str) -> None:
    """Run a notebook in a folder, with no parts of anybody's own; nothing of it is changed."""
    notebook = nbformat.read(asked.NOTEBOOKS / f"{name}.ipynb", as_version=4)
    client = NotebookClient(notebook, timeout=900, resources={"metadata": {"path": folder}})
    client.execute(env=os.environ | {"BERTEDU_MY_BERT": folder})
