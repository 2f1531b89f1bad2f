"""What a check prints about a function."""

import io
from collections.abc import Callable
from contextlib import redirect_stdout
from typing import Any


def verdict(check: Callable[[Any], Any], function: Any) -> str:
    """Run a check; every check returns None, and prints the same words each time."""
    said = io.StringIO()
    with redirect_stdout(said):
        assert check(function) is None
    text = said.getvalue()
    assert text.strip()
    assert "Traceback" not in text
    return text


def words(text: str) -> str:
    """Undo the line breaks, so that a phrase can be looked for."""
    return " ".join(text.split())
