"""Commands in this process, and the one line in which they fail."""

from typer import Typer
from typer.testing import CliRunner, Result

from bertedu.cli import app


def run(*words: object, of: Typer = app, **environment: str) -> Result:
    """Call `bertedu`, or the commands ``of`` the course."""
    return CliRunner().invoke(of, [*map(str, words)], env=environment)


def one_line_error(result: Result) -> str:
    assert result.exit_code == 1, result.output
    assert isinstance(result.exception, SystemExit), "a traceback"
    line = result.stderr.splitlines()[-1]  # above it there may be a progress bar
    assert line.startswith("Error: ")
    return line
