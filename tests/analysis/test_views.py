"""Pictures: alt text, bytes that do not change, the right numbers, colors all can tell apart."""

import base64
import io
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import matplotlib as mpl
import numpy as np
import pytest
import torch
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.text import Text
from PIL import Image

from bertedu.analysis import views
from bertedu.analysis.fill import Guess
from bertedu.analysis.views import Picture, confusion_map, guess_bars, limit_line, style

ANSWERS = {
    "the ___ barked": [Guess("dog", 0.6), Guess("cat", 0.3), Guess("bird", 0.04)],
    "the ___ sang": [Guess("bird", 0.25), Guess("woman", 0.125), Guess("dog", 0.0625)],
}


@pytest.fixture(autouse=True)
def _no_window_and_no_figure_left_open() -> Iterator[None]:
    plt.switch_backend("Agg")
    yield
    plt.close("all")


def draw() -> Figure:
    with style():
        figure, axes = plt.subplots()
        axes.plot([0, 1, 2], [3.0, 2.0, 1.0])
        limit_line(axes, 2.5, "chance")
        return figure


# -- a picture and its words


def test_a_picture_is_a_png_and_its_words_and_is_shown_once(tmp_path: Path) -> None:
    alt = 'a "falling" line, 3 < 4'
    figure = draw()
    picture = Picture(figure, alt)
    assert not plt.fignum_exists(figure.number)
    image = Image.open(io.BytesIO(picture.png))
    assert image.size[0] > 500
    assert "Software" not in image.info  # a new matplotlib must not change the file
    shown = ElementTree.fromstring(picture._repr_html_().replace(">", "/>"))
    kind, _, source = str(shown.get("src")).partition(",")
    assert kind == "data:image/png;base64"
    assert base64.b64decode(source) == picture.png
    assert repr(picture) == shown.get("alt") == alt
    picture.save(tmp_path / "line.png")
    assert (tmp_path / "line.png").read_bytes() == picture.png == Picture(draw(), alt).png
    with pytest.raises(ValueError, match="needs alt text"):
        Picture(draw(), " \n")


# -- bars and limits


def test_bars_show_every_guess_with_its_number_the_best_on_top(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    guess_bars({"$_$ ___": [Guess("$_$", 1.0)]}, "no mathematics")
    caught: list[tuple[Figure, str]] = []  # before it becomes a PNG
    monkeypatch.setattr(views, "Picture", lambda *given: caught.append(given))
    guess_bars(ANSWERS, "what the model guesses")
    ((figure, alt),) = caught
    assert alt == "what the model guesses"
    panels = figure.axes
    for axes, (sentence, guesses) in zip(panels, ANSWERS.items(), strict=True):
        assert sentence in [axes.get_title(loc=place) for place in ("left", "center", "right")]
        bars = [bar for bar in axes.patches if isinstance(bar, Rectangle)]
        widths = [bar.get_width() for bar in bars]
        np.testing.assert_allclose(widths, [100 * guess.probability for guess in guesses])
        assert [label.get_text() for label in axes.get_yticklabels()] == [g.word for g in guesses]
        assert axes.yaxis_inverted()
        numbers = [text.get_text() for text in axes.texts]
        assert numbers == [f"{100 * guess.probability:.0f} %" for guess in guesses]
    ((low, high),) = {axes.get_xlim() for axes in panels}
    assert low == 0
    assert 65 < high < 90  # the longest bar fits, and its number
    assert panels[-1].get_xlabel() == "probability, %"


def test_a_limit_is_a_dashed_line_right_across_with_its_value() -> None:
    _, axes = plt.subplots()
    limit_line(axes, 6.928, "unigram")
    limit_line(axes, 9.011, "chance", below=True)
    for line, text, y, side in zip(axes.lines, axes.texts, (6.928, 9.011), (1, -1), strict=True):
        assert list(line.get_ydata()) == [y, y]
        assert line.get_transform() == axes.get_yaxis_transform(which="grid")
        assert line.get_linestyle() == "--"
        box, (_, level) = text.get_window_extent(), axes.transData.transform((0, y))
        assert 0 < min(side * (edge - level) for edge in (box.y0, box.y1)) < 10
        assert box.x1 == pytest.approx(axes.bbox.x1)
    assert [text.get_text() for text in axes.texts] == ["unigram: 6.93", "chance: 9.01"]


# -- what is taken for what

LABELS = ("sea", "land", "$_$")  # dollars are no mathematics


def test_the_words_count_the_diagonal_and_name_the_most_frequent_mistake() -> None:
    right, said = [0, 0, 0, 1, 1, 2], [0, 1, 1, 1, 0, 2]
    alt = confusion_map(right, said, LABELS, "Six").alt
    assert alt == "Six: 3 of 6 on the diagonal. Most often sea was called land."
    assert confusion_map(said, right, LABELS, "Six").alt.endswith("land was called sea.")
    assert confusion_map(right, right, LABELS, "Six").alt == "Six: 6 of 6 on the diagonal."


def test_each_cell_that_counts_has_its_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """The class without examples has an empty row."""
    panels: list[Axes] = []
    monkeypatch.setattr(views, "Picture", lambda figure, _: panels.extend(figure.axes))
    confusion_map([0, 1, 0, 0], [2, 1, 2, 0], LABELS, "Four")
    (axes,) = panels
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("said", "right")
    cells = [(*cell.get_position(), cell.get_text(), cell.get_color()) for cell in axes.texts]
    assert cells == [(0, 0, "1", "black"), (2, 0, "2", "white"), (1, 1, "1", "white")]
    shares = [[1 / 3, 0, 2 / 3], [0, 1, 0], [0, 0, 0]]
    np.testing.assert_allclose(axes.images[0].get_array(), shares, rtol=1e-6)


# -- what is attended to


def test_maps_of_a_picture_have_one_scale_and_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    even, sharp, panels = torch.full((2, 2), 0.25), torch.eye(2) / 2, list[Axes]()
    monkeypatch.setattr(views, "Picture", lambda figure, _: panels.extend(figure.axes))
    views.attention_maps(
        {"even": (even.clone().requires_grad_(), "ab"), "sharp": (sharp, "cd")}, "alt"
    )
    learned = torch.stack([even, sharp])[None].bfloat16().requires_grad_()  # as from a model
    views.head_grid(learned, "3", "12", "alt", "ab", [(0, 1)])
    expected = [(even, 0.5, "abab"), (sharp, 0.5, "cdcd")]
    expected += [(even.sqrt(), 1, "abab"), (sharp.sqrt(), 1, "ab")]
    for axes, (weights, top, tokens) in zip(panels, expected, strict=True):
        (image,) = axes.images
        assert np.array_equal(image.get_array(), weights)
        assert (image.get_cmap().name, image.get_clim()) == ("Blues", (0, top))
        ticks = [*axes.get_yticklabels(), *axes.get_xticklabels()]
        assert "".join(tick.get_text() for tick in ticks) == tokens
    words = {text.get_text() for axes in panels for text in axes.findobj(Text)}
    assert words > {"even", "sharp", "is attended to (key)", "attends (query)", *"123"}
    frames = [axes.spines["top"].get_edgecolor() == to_rgba(views.ORANGE) for axes in panels]
    assert frames == [False, False, False, True]


# -- the look


def test_all_type_can_be_read_from_the_last_row_and_the_style_ends() -> None:
    before = mpl.rcParams["font.size"]
    with style():
        figure, axes = plt.subplots()
        axes.plot([0, 1], label="a")
        axes.set(title="title", xlabel="x", ylabel="y")
        axes.legend()
        figure.suptitle("all")
        axes.annotate("note", (0, 0))
        figure.canvas.draw()
        sizes = {t.get_text(): t.get_fontsize() for t in figure.findobj(Text) if t.get_text()}
    assert {"title", "x", "y", "a", "all", "note"} <= set(sizes)
    assert len(sizes) > 10  # tick labels too
    assert min(sizes.values()) >= 14
    assert mpl.rcParams["font.size"] == before


def test_colors_are_those_that_all_can_tell_apart() -> None:
    """Okabe and Ito's, without the yellow that does not stand out from the paper."""
    with style():
        colors = [entry["color"] for entry in mpl.rcParams["axes.prop_cycle"]]
    okabe_ito = "#000000 #E69F00 #56B4E9 #009E73 #0072B2 #D55E00 #CC79A7".split()
    assert sorted(colors) == sorted(okabe_ito)
    assert colors[:3] == [views.BLUE, views.ORANGE, views.GREEN]
    assert views.LIMIT not in colors
