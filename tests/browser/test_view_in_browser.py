"""The attention views, ours and bertviz's, used as a reader uses them: pointer, click, keys."""

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
import shown
import torch
from acts import comes_true, press, refusal, says, texts, walk
from shown import TEXT, tiny_bert

from bertedu.text.fast_tokenizer import load_tokenizer
from course.workshop.attention_view import Attention, AttentionView, attend
from course.workshop.bertviz import model_view

Show = Callable[..., Any]


def attention(size: int, name: str = "model", seed: int = 0) -> Attention:
    """Random weights over tokens t0, t1, …; 3 layers of 2 heads."""
    return shown.attention(*(f"t{i}" for i in range(size)), layers=3, heads=2, name=name, seed=seed)


def one_way() -> Attention:
    """The same over 5 tokens, but a query sees only itself and what came before."""
    full = attention(5, "left-to-right")
    kept = full.weights.tril()
    return dataclasses.replace(
        full, weights=kept / kept.sum(-1, keepdim=True), direction="left-to-right"
    )


def percent(share: float) -> str:
    sent = round(255 * share) / 255  # a byte each
    return f"{int(100 * sent + 0.5)} %" if sent >= 0.005 else ""


def told(page: Any, side: str, figure: int = 0) -> list[str]:
    items = page.locator("figure").nth(figure).locator(f".{side} li small")
    return [text.strip() for text in items.all_inner_texts()]


def ink(page: Any) -> int:
    """How much is drawn between the two columns: the sum of all pixels' opacity."""
    return int(
        page.evaluate(
            """() => {
              const canvas = document.querySelector(".lines > canvas");
              const { data } = canvas.getContext("2d")
                .getImageData(0, 0, canvas.width, canvas.height);
              return data.reduce((sum, value, i) => sum + (i % 4 === 3 ? value : 0), 0);
            }"""
        )
    )


def test_pointing_at_a_token_isolates_its_row_or_column(show: Show) -> None:
    one = attention(5)
    page = show(AttentionView(one, layer=2, head=2))
    assert page.locator("img").count() == 0  # the picture has given way
    everything = ink(page)
    page.hover(".queries li >> nth=3")
    row = one.weights[1, 1, 3]
    assert told(page, "keys") == [percent(weight) for weight in row.tolist()]
    assert told(page, "queries") == [""] * 5
    assert f"“t3” attends to “t{int(row.argmax())}” {percent(float(row.max()))}" in says(page)
    assert 0 < ink(page) < everything
    page.hover(".keys li >> nth=1")
    column = one.weights[1, 1, :, 1]
    assert told(page, "queries") == [percent(weight) for weight in column.tolist()]
    assert told(page, "keys") == [""] * 5
    page.mouse.move(1, 1)
    assert told(page, "queries") == [""] * 5
    assert ink(page) == everything
    page.click("[aria-label='layer 3, head 2']")
    assert ink(page) != everything
    page.hover(".queries li >> nth=0")
    assert told(page, "keys") == [percent(weight) for weight in one.weights[2, 1, 0].tolist()]


ONE, TWO = "figure >> nth=0", "figure >> nth=1"
WALKS: list[tuple[Callable[[], AttentionView], list[tuple[Any, ...]]]] = [
    (lambda: AttentionView(attention(5)), [
        ("says", "Layer 1, head 1."), ("shows", ".which", []),  # one model has no switch
        # a click holds a token, and a second click lets it go
        ("click", ".queries li >> nth=2"), ("hover", ".queries li >> nth=4"),
        ("says", "“t2” attends"), ("click", ".queries li >> nth=2"),
        ("hover", ".queries li >> nth=4"), ("says", "“t4” attends"),
        ("click", "[aria-label='layer 3, head 2']"),
        ("is", "figure", "data-layer", "3"), ("is", "figure", "data-head", "2"),
        ("is", ".maps [aria-pressed=true]", "aria-label", "layer 3, head 2"),
    ]),
    (lambda: AttentionView(attention(5), layer=2, head=1), [
        ("press", "Tab", "ArrowRight", "ArrowRight", "ArrowUp"),  # stays at the last head
        ("says", "Layer 1, head 2."), ("is", ":focus", "aria-label", "layer 1, head 2"),
        ("press", "Tab", "ArrowDown", "ArrowDown"), ("says", "“t1” attends"),
        ("hover", ".says"), ("says", "“t1” attends"),
        ("press", "Escape"), ("says", "Point at a token"),
        ("press", "Tab", "ArrowUp"), ("says", "“t4” gets from"),
    ]),
    (lambda: AttentionView(one_way(), attention(5, "both")), [
        ("shows", "li.unseen", []), ("hover", f"{ONE} >> .queries li >> nth=2"),
        ("shows", "li.unseen", ["t3", "t4"]),
        ("is", "li.unseen", "aria-label", "t3, hidden by the mask"),
        ("hover", f"{ONE} >> .keys li >> nth=1"), ("shows", "li.unseen", ["t0"]),  # who sees t1?
        # the heads are chosen apart, the token together
        ("click", f"{TWO} >> [aria-label='layer 2, head 2']"),
        ("is", ONE, "data-layer", "1"), ("is", TWO, "data-layer", "2"),
    ]),
    (lambda: AttentionView(attention(5), attention(6)), [  # other tokens: they stay apart
        ("hover", f"{TWO} >> .queries li >> nth=3"), ("says", "Point at a token"),
        ("hover", f"{ONE} >> .queries li >> nth=3"), ("says", "“t3” attends"),
    ]),
]  # fmt: skip


@pytest.mark.parametrize(("view", "steps"), WALKS)
def test_every_act_is_answered(show: Show, view: Any, steps: list[tuple[Any, ...]]) -> None:
    assert refusal(show(view()), *steps) is None


class Held(AttentionView):
    """A view as the toy of three readers makes it: a token is held, each model has its head."""

    def data(self) -> dict[str, Any]:
        """The same, but for the start."""
        made = super().data()
        starts = [[0, 0], [1, 0], [2, 1]]
        views = [view | {"start": at} for view, at in zip(made["views"], starts, strict=True)]
        return {"query": 2, "views": views}


def test_three_models_stand_side_by_side_or_alone(show: Show) -> None:
    models = [attention(5, "one"), one_way(), attention(5, "three", seed=2)]
    page = show(Held(*models))
    for i, where in enumerate(["Layer 1, head 1", "Layer 2, head 1", "Layer 3, head 2"]):
        assert says(page, i).startswith(f"{where}: “t2” attends to")  # held from the start
    page.hover(".says")
    assert told(page, "keys", 2) == [percent(w) for w in models[2].weights[2, 1, 2].tolist()]
    figures = page.locator("figure")
    tops = [figures.nth(i).bounding_box()["y"] for i in range(3)]
    assert max(tops) - min(tops) < 1, "three small models do not fit beside each other"
    page.click(".which button >> text=left-to-right")
    assert [figures.nth(i).is_visible() for i in range(3)] == [False, True, False]
    assert texts(page, ".which [aria-pressed=true]") == ["left-to-right"]
    press(page, "Tab", "Enter")  # the next button, from the keyboard alone
    assert [figures.nth(i).is_visible() for i in range(3)] == [False, False, True]
    page.click(".which button >> text=all")
    assert [figures.nth(i).is_visible() for i in range(3)] == [True] * 3
    assert says(page, 1).startswith("Layer 2, head 1: “t2”")  # nothing was lost meanwhile


def test_nothing_of_0_percent_is_told_and_maps_follow_the_theme(show: Show) -> None:
    one = attention(5)
    tokens, weights = ["a", "because", "a longer one", "d", "e"], torch.zeros_like(one.weights)
    weights[..., 1] = 1
    page = show(AttentionView(dataclasses.replace(one, tokens=tokens, weights=weights)))
    walk(page, ("hover", ".queries li >> nth=0"),
         ("is", ".keys li >> nth=1", "aria-label", "because, 100 %"),
         ("is", ".keys li", "aria-label", "a"),
         ("says", "Layer 1, head 1: “a” attends to “because” 100 %."),
         ("hover", ".keys li >> nth=3"),
         ("says", "Layer 1, head 1: “d” gets from no token."))  # fmt: skip
    maps = "() => [...document.querySelectorAll('.maps canvas')].map((map) => map.toDataURL())"
    light = page.evaluate(maps)
    page.evaluate("document.body.style.color = 'white', document.body.dataset.jpThemeLight = false")
    assert comes_true(page, f"(old) => ({maps})().every((map, i) => map !== old[i])", light)


# -- bertviz


def assert_drawn(view: Any, weights: torch.Tensor, selector: str = "#vis") -> None:
    """Each line is as strong as its weight."""
    drawn = view.evaluate(
        """(root, selector) => [...root.querySelectorAll(`${selector} line`)]
             .map((line) => +line.getAttribute("stroke-opacity"))""",
        selector,
    )
    torch.testing.assert_close(torch.tensor(drawn), weights.flatten(), atol=1e-4, rtol=0)


def test_the_model_view_opens_a_head(show: Show) -> None:
    weights = attend(tiny_bert(), load_tokenizer(), TEXT).weights
    view = show(model_view(tiny_bert(), load_tokenizer(), TEXT)).locator(".bertedu-bertviz")
    assert view.locator("img").count() == 0  # the picture has given way
    assert_drawn(view, weights)
    view.locator("svg > g > rect:last-child").nth(5).click()
    assert "Layer 3, head 2" in view.locator("svg text.detail").all_text_contents()
    assert_drawn(view, weights[2, 1], "g.detail")


def test_nothing_of_bertviz_is_cut_off_on_a_narrow_page(show: Show) -> None:
    page = show(model_view(tiny_bert(), load_tokenizer(), TEXT))
    page.set_viewport_size({"width": 600, "height": 900})
    # JupyterLab's own rule for pictures in an output, which is what cuts
    page.add_style_tag(content="svg { max-width: 100%; height: auto }")
    inside = """(root) => {
      const svg = root.querySelector("svg"), box = (one) => one.getBoundingClientRect();
      const { right, bottom } = box(svg);
      const parts = [...svg.querySelectorAll("line, rect, text")].map(box);
      return Math.max(...parts.map((p) => Math.max(p.right - right, p.bottom - bottom)));
    }"""
    assert page.locator(".bertedu-bertviz").evaluate(inside) <= 3
