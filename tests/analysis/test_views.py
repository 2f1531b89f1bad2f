"""Pictures: alt text, bytes that do not change, the right numbers, colors all can tell apart."""

import base64
import io
import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from xml.etree import ElementTree

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.text import Text
from numpy.typing import NDArray
from PIL import Image

from bertedu.analysis import views
from bertedu.analysis.fill import Guess
from bertedu.analysis.views import Picture, guess_bars, limit_line, style

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


@pytest.mark.parametrize("alt", ["", "  ", "\n"])
def test_a_picture_without_words_is_refused(alt: str) -> None:
    with pytest.raises(ValueError, match="needs alt text"):
        Picture(draw(), alt)


def test_the_bytes_are_a_picture_with_something_on_it() -> None:
    image = Image.open(io.BytesIO(Picture(draw(), "a falling line").png))
    image.verify()
    image = Image.open(io.BytesIO(Picture(draw(), "a falling line").png))
    assert image.format == "PNG"
    assert image.size[0] > 500
    assert len(set(image.convert("RGB").get_flattened_data())) > 10
    assert "Software" not in image.info  # a new matplotlib must not change the file


def test_drawing_twice_gives_the_same_bytes() -> None:
    assert Picture(draw(), "line").png == Picture(draw(), "line").png
    assert guess_bars(ANSWERS, "bars").png == guess_bars(ANSWERS, "bars").png
    swapped = dict(reversed(ANSWERS.items()))
    assert guess_bars(swapped, "bars").png != guess_bars(ANSWERS, "bars").png


def test_a_notebook_gets_the_png_and_the_words() -> None:
    picture = Picture(draw(), 'a "falling" line, 3 < 4')
    shown = ElementTree.fromstring(picture._repr_html_().replace(">", "/>"))
    assert shown.get("alt") == 'a "falling" line, 3 < 4'
    kind, _, source = str(shown.get("src")).partition(",")
    assert kind == "data:image/png;base64"
    assert base64.b64decode(source) == picture.png
    assert repr(picture) == 'a "falling" line, 3 < 4'


def test_the_figure_is_closed_so_that_it_is_not_shown_twice() -> None:
    figure = draw()
    assert plt.get_fignums() == [figure.number]
    Picture(figure, "a falling line")
    assert plt.get_fignums() == []


def test_save_writes_the_same_png(tmp_path: Path) -> None:
    picture = Picture(draw(), "a falling line")
    picture.save(tmp_path / "line.png")
    assert (tmp_path / "line.png").read_bytes() == picture.png


# -- bars and limits


def axes_of_bars(
    answers: Mapping[str, Sequence[Guess]], monkeypatch: pytest.MonkeyPatch
) -> list[Axes]:
    """Call guess_bars and catch the figure before it becomes a PNG."""
    caught: list[tuple[Figure, str]] = []

    def catch(figure: Figure, alt: str) -> None:
        caught.append((figure, alt))

    monkeypatch.setattr(views, "Picture", catch)
    guess_bars(answers, "what the model guesses")
    ((figure, alt),) = caught
    assert alt == "what the model guesses"
    return figure.axes


def test_bars_show_every_guess_with_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    panels = axes_of_bars(ANSWERS, monkeypatch)
    assert len(panels) == len(ANSWERS)
    for axes, (sentence, guesses) in zip(panels, ANSWERS.items(), strict=True):
        titles = [axes.get_title(loc=place) for place in ("left", "center", "right")]
        assert sentence in titles
        bars = [bar for bar in axes.patches if isinstance(bar, Rectangle)]
        widths = [bar.get_width() for bar in bars]
        np.testing.assert_allclose(widths, [100 * guess.probability for guess in guesses])
        assert [label.get_text() for label in axes.get_yticklabels()] == [g.word for g in guesses]
        for bar, place in zip(bars, axes.get_yticks(), strict=True):
            assert bar.get_y() < place < bar.get_y() + bar.get_height()
        numbers = [text.get_text() for text in axes.texts]
        assert numbers == [f"{100 * guess.probability:.0f} %" for guess in guesses]


def test_the_best_guess_is_on_top_and_panels_share_a_scale(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    panels = axes_of_bars(ANSWERS, monkeypatch)
    for axes in panels:
        bottom, top = axes.get_ylim()
        assert top < bottom  # counted downwards
    assert len({axes.get_xlim() for axes in panels}) == 1
    low, high = panels[0].get_xlim()
    assert low == 0
    assert high > 60  # the longest bar fits, and its number
    assert "probability" in panels[-1].get_xlabel()
    assert "%" in panels[-1].get_xlabel()


def test_a_limit_is_a_dashed_line_right_across_with_its_value() -> None:
    figure, axes = plt.subplots()
    axes.set_ylim(0, 10)
    limit_line(axes, 6.928, "unigram")
    limit_line(axes, 9.011, "chance", below=True)
    for line, y in zip(axes.lines, (6.928, 9.011), strict=True):
        assert list(line.get_ydata()) == [y, y]
        assert list(line.get_xdata()) == [0, 1]  # in shares of the axes
        assert line.get_transform() == axes.get_yaxis_transform(which="grid")
        assert line.get_linestyle() == "--"
    assert [text.get_text() for text in axes.texts] == ["unigram: 6.93", "chance: 9.01"]
    figure.canvas.draw()
    for label, y, above in zip(axes.texts, (6.928, 9.011), (True, False), strict=True):
        box = label.get_window_extent().transformed(axes.transData.inverted())
        assert (box.y0 > y) if above else (box.y1 < y)


# -- the look


def style_sizes() -> dict[str, float]:
    """Every size of type that the style fixes, in points."""
    with style():
        figure, axes = plt.subplots()
        axes.plot([0, 1], label="a")
        axes.set(title="title", xlabel="x", ylabel="y")
        axes.legend()
        figure.suptitle("all")
        axes.annotate("note", (0, 0))
        figure.canvas.draw()
        texts = [text for text in figure.findobj(Text) if text.get_text()]
        return {text.get_text(): text.get_fontsize() for text in texts}


def test_all_type_can_be_read_from_the_last_row() -> None:
    sizes = style_sizes()
    assert {"title", "x", "y", "a", "all", "note"} <= set(sizes)
    assert len(sizes) > 10  # tick labels too
    small = {text: size for text, size in sizes.items() if size < 14}
    assert not small


def test_the_bars_keep_to_the_size_of_type(monkeypatch: pytest.MonkeyPatch) -> None:
    for axes in axes_of_bars(ANSWERS, monkeypatch):
        for text in axes.findobj(Text):
            assert not text.get_text() or text.get_fontsize() >= 14, text.get_text()


# Machado, Oliveira and Fernandes (2009): what a reader without one kind of cone sees (linear RGB)
SIGHT = {
    "all cones": np.eye(3),
    "protanopia": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    "deuteranopia": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
}
TO_XYZ = np.array(
    [
        [0.4124564, 0.3575761, 0.1804375],
        [0.2126729, 0.7151522, 0.0721750],
        [0.0193339, 0.1191920, 0.9503041],
    ]
)


def cielab(color: str, sight: NDArray[np.float64]) -> NDArray[np.float64]:
    """L*, a*, b* of a color as a reader with this sight sees it."""
    rgb = np.array(to_rgb(color))
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    xyz = TO_XYZ @ np.clip(sight @ linear, 0, 1) / TO_XYZ.sum(axis=1)
    f = np.where(xyz > (6 / 29) ** 3, np.cbrt(xyz), xyz / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def test_the_measure_of_color_knows_what_is_hard_to_tell_apart() -> None:
    np.testing.assert_allclose(cielab("#FFFFFF", SIGHT["all cones"]), [100, 0, 0], atol=0.01)
    np.testing.assert_allclose(
        cielab("#FF0000", SIGHT["all cones"]), [53.24, 80.09, 67.2], atol=0.1
    )
    # the classic pair: red and green lines
    apart = {
        name: float(np.linalg.norm(cielab("#C44E52", sight) - cielab("#55A868", sight)))
        for name, sight in SIGHT.items()
    }
    assert apart["deuteranopia"] < 0.5 * apart["all cones"]


def style_colors() -> list[str]:
    with style():
        return [entry["color"] for entry in mpl.rcParams["axes.prop_cycle"]]


@pytest.mark.parametrize("name", SIGHT)
def test_colors_can_be_told_apart_with_any_sight(name: str) -> None:
    colors = style_colors()
    assert len(colors) >= 6
    for one, other in itertools.combinations(colors, 2):
        # 2.3 is the least that can be seen side by side; lines far apart need many times that.
        apart = np.linalg.norm(cielab(one, SIGHT[name]) - cielab(other, SIGHT[name]))
        assert apart > 15, f"{one} and {other}, {name}: {apart:.0f}"


@pytest.mark.parametrize("name", SIGHT)
def test_colors_stand_out_from_the_paper(name: str) -> None:
    for color in [*style_colors(), views.LIMIT]:
        apart = np.linalg.norm(cielab(color, SIGHT[name]) - cielab("#FFFFFF", SIGHT[name]))
        assert apart > 30, f"{color}, {name}: {apart:.0f}"


def test_named_colors_are_those_of_the_style() -> None:
    own = [to_hex(color) for color in style_colors()]
    named = [to_hex(color) for color in (views.BLUE, views.ORANGE, views.GREEN)]
    assert named == own[:3]
    assert to_hex(views.LIMIT) not in own


def test_the_style_ends_with_its_block() -> None:
    before = mpl.rcParams["font.size"]
    with style():
        assert mpl.rcParams["font.size"] != before
    assert mpl.rcParams["font.size"] == before
