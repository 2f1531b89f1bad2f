"""What a check prints about a function, and the runners of tables of functions."""

import io
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from typing import Any

import pytest
import torch

from course.exercises import check
from course.exercises.museum import exhibits

Row = tuple[Any, ...]


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


def seen(exhibit: Any) -> str:
    """Where a bug was seen: what stands before the colon."""
    return str(exhibit.what).split(": ", 1)[0]


def then(right: Any, spoil: Any) -> Any:
    """The right answer of a function that spoils its inputs."""
    return lambda *inputs: (right(*inputs), spoil(*inputs))[0]


def right_ones(rows: Sequence[Row]) -> Callable[..., None]:
    """Make a test of (exercise, function): it passes, and again: no case was written into."""

    @pytest.mark.parametrize(("name", "f"), rows)
    def test(name: str, f: Any) -> None:
        one = getattr(check, name)
        said = verdict(one, f)
        assert words(said).startswith(f"✓ {name}: {one.tried}")
        assert said == verdict(one, f)

    return test


def wrong_ones(rows: Sequence[Row]) -> Callable[..., None]:
    """Make a test of (exercise, function, words): so it is told, with a case, twice the same."""

    @pytest.mark.parametrize(("name", "wrong", "text"), rows)
    def test(name: str, wrong: Any, text: str) -> None:
        chance, one = torch.get_rng_state(), getattr(check, name)
        said = verdict(one, wrong)
        assert said.startswith(f"✗ {name}: ")
        assert text in words(said)
        assert "Smallest case: " in said
        assert "0x" not in said  # no address: it would differ from run to run
        assert said == verdict(one, wrong)
        assert torch.equal(chance, torch.get_rng_state())

    return test


def learners_tests(rows: Sequence[Row]) -> Callable[..., None]:
    """Make a test of (exercise, a learner's test, what it should be told).

    That is a list of the exhibits that get past it (how their names begin; none: the test is a
    good one; ...: all of them), or words about what it refuses.
    """

    @pytest.mark.parametrize(("name", "t", "told"), rows)
    def test(name: str, t: Any, told: Any) -> None:
        one = getattr(check, name)
        said, museum = words(verdict(one, t)), exhibits(one)
        if isinstance(told, str):
            assert said.startswith(f"✗ {name}: ")
            assert told in said
            return
        missed = [e for e in museum if f"- {e.what}" in said]
        assert said.count("To catch it,") == len(missed[:1])  # one thing to try next
        assert all(f"- {e.what} To catch it, {e.likely}" in said for e in missed[:1])
        past = [*map(seen, missed)]
        told = [*map(seen, museum)] if told is ... else told
        assert [a[: len(b)] for a, b in zip(past, told, strict=False)] == told, past
        head = f"✗ {name}: {len(told)} of {len(museum)} broken " if told else f"✓ {name}: accepts "
        assert said.startswith(head)
        assert len(past) == len(told)

    return test
