"""Commands, in this process or in one of their own, and the one line in which they fail."""

import subprocess
import sys
from typing import Any

from typer import Typer
from typer.testing import CliRunner, Result

from bertedu.cli import app


def run(*words: object, of: Typer = app, **environment: str) -> Result:
    """Call `bertedu`, or the commands ``of`` the course."""
    return CliRunner().invoke(of, [*map(str, words)], env=environment)


def printed_by(*command: object, **how: Any) -> str:
    """Run Python in a process of its own to a good end, and return what it printed."""
    words = [sys.executable, *map(str, command)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=600, **how)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def one_line_error(result: Result) -> str:
    assert result.exit_code == 1, result.output
    assert isinstance(result.exception, SystemExit), "a traceback"
    line = result.stderr.splitlines()[-1]  # above it there may be a progress bar
    assert line.startswith("Error: ")
    return line
