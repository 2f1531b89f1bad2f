"""The picture of a confusion: what it counts, and what its words say."""

import pytest

from bertedu.analysis import confusion
from bertedu.analysis.confusion import confusion_map

LABELS = ("sea", "land", "air")


def test_the_words_count_the_diagonal_and_name_the_most_frequent_mistake() -> None:
    right, said = [0, 0, 0, 1, 1, 2], [0, 1, 1, 1, 0, 2]
    alt = confusion_map(right, said, LABELS, "Six").alt
    assert alt == "Six: 3 of 6 on the diagonal. Most often sea was called land."
    assert confusion_map(said, right, LABELS, "Six").alt.endswith("land was called sea.")
    assert confusion_map(right, right, LABELS, "Six").alt == "Six: 6 of 6 on the diagonal."


def test_each_cell_that_counts_has_its_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """The class without examples has an empty row."""
    cells: list[tuple[object, ...]] = []
    monkeypatch.setattr(confusion, "write_in_cell", lambda _, *cell, **__: cells.append(cell))
    confusion_map([0, 1, 0, 0], [2, 1, 2, 0], LABELS, "Four")
    assert cells == [(0, 0, "1", False), (0, 2, "2", True), (1, 1, "1", True)]
