"""One thread where an application runs; a library sets nothing."""

import os
import subprocess
import sys

import pytest

TWO = "import torch; torch.set_num_threads(2)"
SAY = "import torch; print(torch.get_num_threads())"


def threads(*lines: str, **variables: str) -> int:
    """Run lines in a fresh Python; return how many threads PyTorch then has."""
    environment = {k: v for k, v in os.environ.items() if k != "OMP_NUM_THREADS"} | variables
    done = subprocess.run(
        [sys.executable, "-c", "\n".join((*lines, SAY))],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return int(done.stdout)


@pytest.mark.parametrize("lines", [("import course",), (TWO, "from course.exercises import check")])
def test_the_course_computes_on_one_thread(lines: tuple[str, ...]) -> None:
    assert threads(*lines) == 1
    assert threads(*lines, TWO) == 2
    assert threads(TWO, *lines, OMP_NUM_THREADS="2") == 2


def test_the_package_leaves_threads_alone() -> None:
    assert threads(TWO, "import bertedu", "from bertedu.model.bert import Bert") == 2
