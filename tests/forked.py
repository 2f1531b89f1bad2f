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

    @property
    def exit_code(self) -> int | None:
        """None while it runs, minus the signal if one ended it."""
        return self.process.exitcode

    def kill(self) -> None:
        """Kill -9, and wait until it is gone."""
        self.process.kill()
        self.process.join()

    def end(self, seconds: float = 300) -> tuple[str, str]:
        """Wait for its end; return what it wrote to the standard output and to the error output."""
        self.process.join(seconds)
        assert self.exit_code is not None, f"not done in {seconds} s"
        return tuple(Path(self.said.name, name).read_text() for name in ("stdout", "stderr"))
