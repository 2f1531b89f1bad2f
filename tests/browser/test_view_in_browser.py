"""The attention view, used as a reader uses it: pointer, click, keys; what does the page show?"""

import dataclasses
from collections.abc import Callable
from typing import Any

import nbformat
import torch

from course.workshop.attention_view import Attention, AttentionView

PYTHON = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}


def attention(size: int, name: str = "model", seed: int = 0) -> Attention:
    """Random weights over tokens t0, t1, …; 3 layers of 2 heads."""
    scores = torch.randn(3, 2, size, size, generator=torch.Generator().manual_seed(seed))
    tokens = [f"t{i}" for i in range(size)]
    return Attention(name, tokens, [1, 2, 3], (3 * scores).softmax(-1))


def percent(share: float) -> str:
    return f"{int(100 * round(255 * share) / 255 + 0.5)} %"


def shares(page: Any, side: str, figure: int = 0) -> list[str]:
    items = page.locator("figure").nth(figure).locator(f".{side} li small")
    return [text.strip() for text in items.all_inner_texts()]


def says(page: Any, figure: int = 0) -> str:
    return str(page.locator(".says").nth(figure).inner_text())


def ink(page: Any, figure: int = 0) -> int:
    """How much is drawn between the two columns: the sum of all pixels' opacity."""
    return int(
        page.evaluate(
            """(figure) => {
              const canvas = document.querySelectorAll(".lines > canvas")[figure];
              const pen = canvas.getContext("2d");
              const { data } = pen.getImageData(0, 0, canvas.width, canvas.height);
              let sum = 0;
              for (let i = 3; i < data.length; i += 4) sum += data[i];
              return sum;
            }""",
            figure,
        )
    )


def test_the_picture_gives_way_to_the_view(show: Callable[..., Any]) -> None:
    page = show(AttentionView(attention(5)))
    assert page.locator("img").count() == 0
    assert page.locator(".queries li").count() == page.locator(".keys li").count() == 5
    assert page.locator(".maps button").count() == 6
    assert ink(page) > 0
    assert says(page).startswith("Layer 1, head 1.")


def test_pointing_at_a_token_isolates_its_row(show: Callable[..., Any]) -> None:
    one = attention(5)
    page = show(AttentionView(one, layer=2, head=2))
    everything = ink(page)
    page.hover(".queries li >> nth=3")
    row = one.weights[1, 1, 3]
    assert shares(page, "keys") == [percent(w) if w > 0.005 else "" for w in row.tolist()]
    assert shares(page, "queries") == [""] * 5
    assert f"“t3” attends to “t{int(row.argmax())}” {percent(float(row.max()))}" in says(page)
    assert 0 < ink(page) < everything
    page.hover(".keys li >> nth=1")  # the other way: a column
    column = one.weights[1, 1, :, 1]
    assert shares(page, "queries") == [percent(w) if w > 0.005 else "" for w in column.tolist()]
    assert shares(page, "keys") == [""] * 5
    page.mouse.move(1, 1)
    assert shares(page, "queries") == [""] * 5
    assert ink(page) == everything


def test_a_click_holds_a_token_and_a_second_click_lets_it_go(show: Callable[..., Any]) -> None:
    page = show(AttentionView(attention(5)))
    page.click(".queries li >> nth=2")
    page.hover(".queries li >> nth=4")
    assert "“t2” attends" in says(page)
    page.click(".queries li >> nth=2")
    page.hover(".queries li >> nth=4")
    assert "“t4” attends" in says(page)


def test_a_click_on_a_map_chooses_layer_and_head(show: Callable[..., Any]) -> None:
    one = attention(5)
    page = show(AttentionView(one))
    before = page.evaluate("() => document.querySelector('.lines > canvas').toDataURL()")
    page.click("[aria-label='layer 3, head 2']")
    figure = page.locator("figure")
    assert (figure.get_attribute("data-layer"), figure.get_attribute("data-head")) == ("3", "2")
    assert page.locator(".maps [aria-pressed=true]").count() == 1
    assert page.evaluate("() => document.querySelector('.lines > canvas').toDataURL()") != before
    page.hover(".queries li >> nth=0")
    row = one.weights[2, 1, 0].tolist()
    assert shares(page, "keys") == [percent(w) if w > 0.005 else "" for w in row]


def test_all_of_it_works_from_the_keyboard(show: Callable[..., Any]) -> None:
    page = show(AttentionView(attention(5), layer=2, head=1))
    page.keyboard.press("Tab")  # the map of the chosen head, and no other map
    assert page.evaluate("() => document.activeElement.ariaLabel") == "layer 2, head 1"
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")  # stays at the last head
    page.keyboard.press("ArrowUp")
    assert says(page).startswith("Layer 1, head 2.")
    assert page.evaluate("() => document.activeElement.ariaLabel") == "layer 1, head 2"
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    assert "“t1” attends" in says(page)
    page.mouse.move(5, 5)
    assert "“t1” attends" in says(page)
    page.keyboard.press("Escape")
    assert "Point at a token" in says(page)
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowUp")
    assert "“t4” gets from" in says(page)


def test_two_models_move_together_but_choose_heads_apart(show: Callable[..., Any]) -> None:
    one, two = attention(5, "one"), attention(5, "two", seed=1)
    page = show(AttentionView(one, two))
    page.hover("figure >> nth=0 >> .queries li >> nth=3")
    assert "“t3” attends" in says(page, 0)
    assert "“t3” attends" in says(page, 1)
    row = two.weights[0, 0, 3].tolist()
    assert shares(page, "keys", figure=1) == [percent(w) if w > 0.005 else "" for w in row]
    page.click("figure >> nth=1 >> [aria-label='layer 2, head 2']")
    layers = [page.locator("figure").nth(i).get_attribute("data-layer") for i in (0, 1)]
    assert layers == ["1", "2"]


def one_way(size: int, name: str = "left-to-right") -> Attention:
    """The same, but a query sees only itself and what came before."""
    full = attention(size, name)
    kept = full.weights.tril()
    return dataclasses.replace(
        full, weights=kept / kept.sum(-1, keepdim=True), direction="left-to-right"
    )


def test_three_models_stand_side_by_side_or_alone(show: Callable[..., Any]) -> None:
    models = [attention(5, "one"), one_way(5), attention(5, "three", seed=2)]
    page = show(AttentionView(*models, starts=[(1, 1), (2, 1), (3, 2)], query=2))
    for i, where in enumerate(["Layer 1, head 1", "Layer 2, head 1", "Layer 3, head 2"]):
        assert says(page, i).startswith(f"{where}: “t2” attends to")  # held from the start
    figures = page.locator("figure")
    tops = [figures.nth(i).bounding_box()["y"] for i in range(3)]
    assert max(tops) - min(tops) < 1, "three small models do not fit beside each other"
    page.click(".which button >> text=left-to-right")
    assert [figures.nth(i).is_visible() for i in range(3)] == [False, True, False]
    assert page.locator(".which [aria-pressed=true]").all_inner_texts() == ["left-to-right"]
    page.keyboard.press("Tab")  # the next button, from the keyboard alone
    page.keyboard.press("Enter")
    assert [figures.nth(i).is_visible() for i in range(3)] == [False, False, True]
    page.click(".which button >> text=all")
    assert [figures.nth(i).is_visible() for i in range(3)] == [True] * 3
    assert says(page, 1).startswith("Layer 2, head 1: “t2”")  # nothing was lost meanwhile


def test_one_model_has_no_switch(show: Callable[..., Any]) -> None:
    assert show(AttentionView(attention(5))).locator(".which").count() == 0


def test_what_the_mask_hides_is_struck_out(show: Callable[..., Any]) -> None:
    page = show(AttentionView(one_way(5), attention(5, "both")))
    struck = [".keys li.unseen", ".queries li.unseen"]
    assert [page.locator(where).count() for where in struck] == [0, 0]
    page.hover("figure >> nth=0 >> .queries li >> nth=2")
    hidden = page.locator("figure").nth(0).locator(".keys li.unseen")
    assert hidden.all_inner_texts() == ["t3", "t4"]
    assert hidden.nth(0).get_attribute("aria-label") == "t3, hidden by the mask"
    assert page.locator("figure").nth(1).locator("li.unseen").count() == 0
    page.hover("figure >> nth=0 >> .keys li >> nth=1")  # who may see t1? Not t0
    assert page.locator(".queries li.unseen").all_inner_texts() == ["t0"]


def test_shares_are_apart_from_their_words_and_nothing_of_0_percent_is_told(
    show: Callable[..., Any],
) -> None:
    one = attention(5)
    tokens = ["a", "because", "a longer one", "d", "e"]
    weights = torch.zeros_like(one.weights)
    weights[..., 1] = 1
    page = show(AttentionView(dataclasses.replace(one, tokens=tokens, weights=weights)))
    page.hover(".queries li >> nth=0")
    item = page.locator(".keys li").nth(1)
    word, share = (item.locator(name).bounding_box() for name in ("span", "small"))
    text = page.evaluate(
        """() => {
          const range = document.createRange();
          range.selectNodeContents(document.querySelectorAll(".keys li small")[1]);
          return range.getBoundingClientRect().x;
        }"""
    )
    assert text - (word["x"] + word["width"]) >= 4, (word, share)
    assert item.get_attribute("aria-label") == "because, 100 %"
    assert page.locator(".keys li").nth(0).get_attribute("aria-label") == "a"
    assert says(page) == "Layer 1, head 1: “a” attends to “because” 100 %."
    page.hover(".keys li >> nth=3")
    assert says(page) == "Layer 1, head 1: “d” gets from no token."


def test_an_even_fan_can_be_seen_on_black_and_on_white(show: Callable[..., Any]) -> None:
    one = attention(16)
    even = dataclasses.replace(one, weights=torch.full_like(one.weights, 1 / 16))
    page = show(AttentionView(even))

    def contrast(color: str, background: int) -> float:
        """WCAG's contrast of a single line of the fan, as drawn, to the page."""
        page.evaluate(f"document.body.style.color = '{color}'")
        page.click("[aria-label='layer 2, head 1']")  # the line is drawn again
        *rgb, opacity = page.evaluate(
            """() => {
              const canvas = document.querySelector(".lines > canvas");
              const pen = canvas.getContext("2d");
              const sharp = canvas.width / 190;  // 4 pixels in: the top line has no neighbor
              const { data } = pen.getImageData(4 * sharp, 0, 1, 16 * sharp);
              let best = 0;
              for (let i = 4; i < data.length; i += 4) if (data[i + 3] > data[best + 3]) best = i;
              return [...data.slice(best, best + 4)].map((part) => part / 255);
            }"""
        )
        seen = [opacity * part + (1 - opacity) * background for part in rgb]
        linear = [c / 12.92 if c <= 0.04 else ((c + 0.055) / 1.055) ** 2.4 for c in seen]
        light = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
        bright, dark = max(light, background), min(light, background)
        return float((bright + 0.05) / (dark + 0.05))

    assert contrast("white", 0) > 1.5
    assert contrast("black", 1) > 1.5


def test_maps_and_buttons_follow_the_theme(show: Callable[..., Any]) -> None:
    page = show(AttentionView(attention(4), attention(4)))
    buttons = """() => [...document.querySelectorAll(".bertedu-attention button")].map((button) => {
      const { backgroundColor, color } = getComputedStyle(button);
      return [backgroundColor, color, button.querySelector("canvas")?.toDataURL() ?? ""];
    })"""
    light = page.evaluate(buttons)
    page.evaluate(
        """() => { document.body.style = "background: #111; color: white";
        document.body.dataset.jpThemeLight = "false"; }"""
    )
    page.wait_for_function(f"(old) => ({buttons})().at(-1)[2] !== old", arg=light[-1][2])
    for (paper, ink, picture), (_, black, old) in zip(page.evaluate(buttons), light, strict=True):
        assert paper == "rgba(0, 0, 0, 0)"  # the page itself is seen
        assert (ink, black) == ("rgb(255, 255, 255)", "rgb(0, 0, 0)")
        assert picture != old or not picture


def test_panels_with_other_tokens_stay_apart(show: Callable[..., Any]) -> None:
    page = show(AttentionView(attention(5), attention(6)))
    page.hover("figure >> nth=0 >> .queries li >> nth=3")
    assert "“t3” attends" in says(page, 0)
    assert "Point at a token" in says(page, 1)


def test_two_views_on_a_page_do_not_mix(show: Callable[..., Any]) -> None:
    page = show(AttentionView(attention(4)), AttentionView(attention(7)))
    assert page.locator("figure").count() == 2
    page.hover("figure >> nth=1 >> .queries li >> nth=6")
    assert "“t6” attends" in says(page, 1)
    assert "Point at a token" in says(page, 0)


def test_sixty_tokens_fit_and_are_redrawn_within_a_frame(show: Callable[..., Any]) -> None:
    page = show(AttentionView(attention(4)), AttentionView(attention(60)))
    heights = [page.locator(".queries").nth(i).bounding_box()["height"] for i in (0, 1)]
    assert heights[0] < 120
    assert heights[1] < 1000
    items = page.locator(".queries").nth(1).locator("li")
    assert items.nth(59).bounding_box()["height"] >= 14
    times = page.evaluate(
        """() => {
          const panel = document.querySelectorAll(".bertedu-attention")[1].attentionPanels[0];
          const times = [];
          for (let i = 0; i < 60; i++) {
            const start = performance.now();
            if (i % 2) panel.isolate("queries", i);
            else panel.choose(i % 3, i % 2);
            times.push(performance.now() - start);
          }
          return times.sort((a, b) => a - b);
        }"""
    )
    assert times[len(times) // 2] < 16  # milliseconds; the median, since a machine may be busy


def test_in_jupyterlab_the_view_works(browser: Any, lab: Any) -> None:
    from test_notebooks_in_lab import open_and_run

    source = (
        "import torch\n"
        "from course.workshop.attention_view import Attention, AttentionView\n"
        "weights = torch.randn(3, 2, 5, 5).softmax(-1)\n"
        "AttentionView(Attention('m', list('abcde'), [1, 2, 3], weights))"
    )
    cells = [nbformat.v4.new_code_cell(source)]
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=PYTHON), lab.root / "view.ipynb")
    page, asked, errors = open_and_run(browser, lab, "view.ipynb")
    figure = page.locator("figure")
    assert figure.count() == 1
    # the lines end where the words begin, whatever JupyterLab does to lists
    lines = figure.locator(".lines > canvas").bounding_box()
    words = figure.locator(".keys li").first.bounding_box()
    assert abs(lines["x"] + lines["width"] - words["x"]) < 1
    figure.locator("[aria-label='layer 3, head 1']").click()
    figure.locator(".queries li").nth(2).click()
    assert "Layer 3, head 1: “c” attends" in figure.locator(".says").inner_text()
    figure.locator("[aria-label='layer 3, head 1']").focus()
    page.keyboard.press("ArrowUp")
    assert figure.get_attribute("data-layer") == "2"
    # cut, next cell, delete, new cell: JupyterLab's, but not with the focus in here
    for where in ("[aria-label='layer 2, head 1']", ".queries", ".keys"):
        figure.locator(where).focus()
        for key in "xjddba":
            page.keyboard.press(key)
    page.wait_for_timeout(300)
    state = "[w.widgets.length, w.activeCellIndex]"
    found = page.evaluate(
        f"() => {{ const w = window.jupyterapp.shell.currentWidget.content; return {state}; }}"
    )
    assert found == [1, 0]
    assert (asked, errors) == ([], [])
    page.context.close()


def test_an_untrusted_notebook_shows_the_picture(browser: Any, lab: Any) -> None:
    """A fresh clone: the outputs came with the file, and nobody has run a cell yet."""
    html = AttentionView(attention(5))._repr_html_()
    output = nbformat.v4.new_output("execute_result", {"text/html": html}, execution_count=1)
    cell = nbformat.v4.new_code_cell("view", execution_count=1, outputs=[output])
    nbformat.write(
        nbformat.v4.new_notebook(cells=[cell], metadata=PYTHON), lab.root / "untrusted.ipynb"
    )
    context = browser.new_context()
    page = context.new_page()
    page.goto(lab.address("untrusted.ipynb"))
    page.wait_for_selector(".jp-OutputArea img", timeout=60_000)
    page.wait_for_timeout(1000)
    picture = page.locator(".jp-OutputArea img")
    assert picture.get_attribute("alt").startswith("Attention of model, layer 1, head 1")
    assert picture.evaluate("(img) => img.naturalWidth") > 300
    assert page.locator("figure").count() == 0
    context.close()
