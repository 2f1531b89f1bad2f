"""What a check prints about a function."""

import io
from collections.abc import Callable
from contextlib import redirect_stdout
from typing import Any

import torch


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


def assert_named(check: Callable[[Any], Any], name: str, wrong: Any, text: str) -> None:
    """The verdict names the mistake and a case, twice the same, and leaves torch's chance alone."""
    chance = torch.get_rng_state()
    said = verdict(check, wrong)
    assert said.startswith(f"✗ {name}: ")
    assert text in words(said)
    assert "Smallest case: " in said
    assert "0x" not in said  # no address: it would differ from run to run
    assert said == verdict(check, wrong)
    assert torch.equal(chance, torch.get_rng_state())


def assert_named_alone(
    check: Callable[[Any], Any], blind: Callable[..., bool], first: str, exhibit: Any
) -> None:
    """A learner's test that is right, but blind to one exhibit, is told which one, and why."""
    said = words(verdict(check, blind))
    assert said == f"✗ {first} - {exhibit.what} To catch it, {exhibit.likely}"


def seen(exhibit: Any) -> str:
    """Where a bug was seen: what stands before the colon."""
    return str(exhibit.what).split(": ", 1)[0]
