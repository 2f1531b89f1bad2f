"""For the tests of the classroom."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tiny_course import NAME, save, tiny

from course.classroom import asked


@pytest.fixture
def tiny_course(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of a course of one notebook."""
    folder = tmp_path / "course"
    save(tiny(), folder / f"{NAME}.ipynb")
    monkeypatch.setattr(asked, "NOTEBOOKS", folder)
    asked.course.cache_clear()
    yield folder
    asked.course.cache_clear()
