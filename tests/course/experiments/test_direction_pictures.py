"""The pictures of notebook 13 show the rows of the committed tables."""

import pytest
from matplotlib.figure import Figure

from course.experiments import direction_pictures
from course.experiments.direction_pictures import less_loss, recall_plot, same_question_plot


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """Each figure, before it is closed."""
    figures: list[Figure] = []
    monkeypatch.setattr(direction_pictures, "Picture", lambda figure, _: figures.append(figure))
    return figures


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = {
        "same_question": [
            {"reader": reader, "told_by": "all", "loss": str(loss + seed / 10)}
            for reader, loss in {
                "both sides": 3.0,
                "left and right, joined": 3.5,
                "left alone": 4.0,
                "right alone": 5.0,
            }.items()
            for seed in range(3)
        ],
        "same_question_differences": [
            {
                "one": "both sides",
                "other": "left alone",
                "told_by": "all",
                "less_loss_low": "0.5",
                "less_loss_high": "1.5",
            }
        ],
        "recall": [
            {
                "layout": "list, blank, place",
                "reader": reader,
                "seed": str(seed),
                "length": str(length),
                "loss": str(height + length + seed / 10),
                "limit": str(height),
            }
            for height, reader in enumerate(direction_pictures.RECALL)
            for seed in range(2)
            for length in range(1, 9)
        ],
    }

    def committed(table: str, missing: str = "", **values: str) -> list[dict[str, str]]:
        return [r for r in rows[table] if all(r[name] == value for name, value in values.items())]

    monkeypatch.setattr(direction_pictures, "committed", committed)


def test_less_loss_turns_round_with_its_readers(tables: None) -> None:
    kinds = {"all": "any blanks"}
    assert less_loss("both sides", "left alone", kinds) == {"any blanks": (0.5, 1.5)}
    assert less_loss("left alone", "both sides", kinds) == {"any blanks": (-1.5, -0.5)}
    with pytest.raises(KeyError):
        less_loss("both sides", "nobody", kinds)


def test_every_run_is_a_dot(tables: None, drawn: list[Figure]) -> None:
    same_question_plot({"all": "any blanks"}, "A title", "Four readers.")
    (axes,) = drawn[0].axes
    dots = {tuple(line.get_xdata()) for line in axes.lines}
    assert dots == {tuple(loss + s / 10 for s in range(3)) for loss in (3.0, 3.5, 4.0, 5.0)}
    assert [text.get_text() for text in axes.texts] == ["3.10", "3.60", "4.10", "5.10"]


def test_recall_has_a_curve_for_each_reader_and_a_line_for_each_limit(
    tables: None, drawn: list[Figure]
) -> None:
    recall_plot({"list, blank, place": "frog ___ first"}, "A title", "Five readers.")
    (axes,) = drawn[0].axes
    dashed = [line for line in axes.lines if line.get_linestyle() == "--"]
    curves = [line for line in axes.lines if line.get_linestyle() != "--"]
    assert sorted(line.get_ydata()[0] for line in dashed) == [0, 1, 2, 3, 4]
    assert [line.get_label() for line in curves] == list(direction_pictures.RECALL)
    assert curves[0].get_ydata()[0] == pytest.approx(1.05)  # the mean of two seeds
