"""The real program in a process of its own, forked from one that has loaded torch already."""

import multiprocessing
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bertedu.cli import app

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["forked", "bertedu.pretraining.run"])


def _work(arguments: Sequence[str], sabotage: str, said: str, environment: dict[str, str]) -> None:
    for number, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(os.open(Path(said, name), os.O_WRONLY | os.O_CREAT), number)
    os.environ.clear()
    os.environ.update(environment)
    exec(sabotage, {})
    sys.exit(app(list(arguments)))


class Program:
    """``bertedu`` with these arguments; `sabotage` is Python that runs before it."""

    def __init__(self, arguments: Sequence[str], sabotage: str = "", **environment: str) -> None:
        self.said = tempfile.TemporaryDirectory()
        environment = {**os.environ, "OMP_NUM_THREADS": "1", **environment}
        work = (arguments, sabotage, self.said.name, environment)
        self.process = CONTEXT.Process(target=_work, args=work)
        self.process.start()

    def end(self) -> tuple[int, str, str]:
        """Wait for its end; return its exit code (minus the signal that ended it), and what it
        wrote to the standard output and to the error output."""
        self.process.join(300)
        assert self.process.exitcode is not None, "not done in 300 s"
        said = [Path(self.said.name, name).read_text() for name in ("stdout", "stderr")]
        return self.process.exitcode, *said
