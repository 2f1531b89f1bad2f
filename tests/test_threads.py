"""One thread, unless somebody asks for more."""

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


@pytest.mark.parametrize(
    "lines",
    [("import bertedu",), (TWO, "import bertedu"), (TWO, "from bertedu.model.bert import Bert")],
)
def test_bertedu_computes_on_one_thread_whatever_is_imported_first(lines: tuple[str, ...]) -> None:
    assert threads(*lines) == 1


def test_whoever_asks_for_more_threads_gets_them() -> None:
    assert threads("import bertedu", TWO) == 2
    assert threads(TWO, "import bertedu", OMP_NUM_THREADS="2") == 2
