"""The comparison of notebooks: last digits may differ, nothing else."""

import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbval_tolerance import alike

ALIKE = [
    ("loss 3.3852, 12 words", "loss 3.3853, 12 words"),  # the fifth digit
    ("a -0.0 b", "a 0.0 b"),
    ("1,234.56 nats", "1,234.57 nats"),
    ("     1.3   100.0   332.3\n", "     1.3    99.9   332.2\n"),  # it takes a blank's place
    ("|100.0 |", "|99.9  |"),
    ("  9.99e-05 nats", "  1.00e-04 nats"),
    ("+0.00 to +0.12", "-0.00 to +0.12"),
]
DIFFERENT = [
    ("loss 3.38", "loss 3.39"),  # the third digit
    ("loss 3.385", "loss 3.388"),  # the fourth, by more
    ("12 words", "13 words"),  # a count
    ("loss 3.3852", "loss  3.3852"),  # a blank
    ("loss 3.3852", "cost 3.3852"),
    ("-3.3852", "3.3852"),
    ("v1.2.3456", "v1.2.3457"),  # no number
    ("a 100.0   332.3", "a  99.9    332.2"),  # one blank more than the digit leaves
    ("a  99.9  b", "a 99.9   b"),  # a column moved, no number wider
    ("a 1.25        ", "a        1.25 "),  # a number in another column
    ("a 1.25\nb 2.50", "a 1.25"),  # a line lost
    ("9.98e-5", "9.99e-5"),  # the third digit
]


@pytest.mark.parametrize(("one", "other"), [*ALIKE, *DIFFERENT])
def test_last_digits_may_differ_and_nothing_else(one: str, other: str) -> None:
    assert alike(one, other) == alike(other, one) == ((one, other) in ALIKE)


@pytest.mark.parametrize(("printed", "passes"), [("3.38526", True), ("3.39521", False)])
def test_nbval_compares_by_it(tmp_path: Path, printed: str, passes: bool) -> None:
    cell = nbformat.v4.new_code_cell("print('loss 3.38521')", execution_count=1)
    cell.outputs = [nbformat.v4.new_output("stream", name="stdout", text=f"loss {printed}\n")]
    notebook = nbformat.v4.new_notebook(cells=[cell])
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3"}
    nbformat.write(notebook, tmp_path / "one.ipynb")
    options = ["-p", "nbval_tolerance", "--nbval", "--nbval-current-env", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", "-q", *options, str(tmp_path)]
    done = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True)
    assert (done.returncode == 0) == passes, done.stdout
