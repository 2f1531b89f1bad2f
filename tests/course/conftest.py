"""For the tests of the course."""

import pytest
from matplotlib.figure import Figure

from bertedu.analysis.views import Picture


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """Every figure that becomes a picture, and is closed."""
    figures: list[Figure] = []
    finish = Picture.__init__

    def spy(self: Picture, figure: Figure, alt: str) -> None:
        figures.append(figure)
        finish(self, figure, alt)

    monkeypatch.setattr(Picture, "__init__", spy)
    return figures
