"""One thread where an application runs; a library sets nothing."""

import os

import pytest
from called import printed_by

TWO = "import torch; torch.set_num_threads(2)"
SAY = "import torch; print(torch.get_num_threads())"


def threads(*lines: str, **variables: str) -> list[int]:
    """Run lines in a fresh Python; return how many threads PyTorch has where they SAY so."""
    environment = {k: v for k, v in os.environ.items() if k != "OMP_NUM_THREADS"} | variables
    return [int(line) for line in printed_by("-c", "\n".join(lines), env=environment).split()]


@pytest.mark.parametrize("lines", [("import course",), (TWO, "from course.exercises import check")])
def test_the_course_computes_on_one_thread(lines: tuple[str, ...]) -> None:
    assert threads(*lines, SAY, TWO, SAY) == [1, 2]
    assert threads(TWO, *lines, SAY, OMP_NUM_THREADS="2") == [2]


def test_the_package_leaves_threads_alone() -> None:
    assert threads(TWO, "import bertedu", "from bertedu.model.bert import Bert", SAY) == [2]
