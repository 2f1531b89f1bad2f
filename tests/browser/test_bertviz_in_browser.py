"""bertviz in a real browser, without a network: lines are drawn, layers can be chosen."""

import dataclasses
from typing import Any

import nbformat
import pytest
import torch

from bertedu.model.bert import Bert
from bertedu.model.config import BertConfig
from bertedu.text.fast_tokenizer import load_tokenizer
from course.workshop.attention_view import attend
from course.workshop.bertviz import head_view, model_view, neuron_view

PYTHON = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
TEXT = "The ship sank in the bay."
SIZE = 9  # tokens, with [CLS] and [SEP]


@pytest.fixture(scope="module")
def bert() -> Bert:
    torch.manual_seed(0)
    return Bert(BertConfig(8192, 16, 3, 2, 32, 96, initializer_range=0.5)).eval()


def drawn(view: Any, selector: str = "#vis") -> torch.Tensor:
    """How strongly each line is drawn."""
    return torch.tensor(
        view.evaluate(
            """(root, selector) => [...root.querySelectorAll(`${selector} line`)]
                 .map((line) => +line.getAttribute("stroke-opacity"))""",
            selector,
        )
    )


def close(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.shape == other.shape and torch.allclose(one, other, atol=1e-4)


def test_the_head_view_draws_the_layer_that_is_chosen(show: Any, bert: Bert) -> None:
    weights = attend(bert, load_tokenizer(), TEXT).weights
    page = show(head_view(bert, load_tokenizer(), TEXT, layers=[2, 3]))
    view = page.locator(".bertedu-bertviz")
    assert page.locator("img").count() == 0  # the picture has given way
    assert view.locator("select option").all_text_contents() == ["2", "3"]
    assert close(drawn(view), weights[1].flatten() / 2)  # bertviz divides by the heads shown
    view.locator("select").select_option("3")
    assert close(drawn(view), weights[2].flatten() / 2)
    view.locator("svg > g > rect").nth(1).click()  # hide head 2
    alone = weights[2].clone()
    alone[1] = 0
    assert close(drawn(view), alone.flatten())


def test_the_model_view_opens_a_head(show: Any, bert: Bert) -> None:
    weights = attend(bert, load_tokenizer(), TEXT).weights
    page = show(model_view(bert, load_tokenizer(), TEXT))
    view = page.locator(".bertedu-bertviz")
    assert close(drawn(view), weights.flatten())
    view.locator("svg > g > rect:last-child").nth(5).click()
    assert "Layer 3, head 2" in view.locator("svg text.detail").all_text_contents()
    assert close(drawn(view, "g.detail"), weights[2, 1].flatten())


def test_the_neuron_view_shows_how_a_weight_is_made(show: Any, bert: Bert) -> None:
    weights = attend(bert, load_tokenizer(), TEXT).weights
    page = show(neuron_view(bert, load_tokenizer(), TEXT))
    view = page.locator(".bertedu-bertviz")
    boxes = view.locator("select")
    assert boxes.nth(0).locator("option").all_text_contents() == ["1", "2", "3"]
    assert boxes.nth(1).locator("option").all_text_contents() == ["1", "2"]
    assert [boxes.nth(i).evaluate("(s) => s.selectedOptions[0].text") for i in (0, 1)] == ["1", "1"]
    assert close(drawn(view, "#collapsed"), weights[0, 0].flatten())
    boxes.nth(0).select_option(label="3")
    boxes.nth(1).select_option(label="2")
    assert close(drawn(view, "#collapsed"), weights[2, 1].flatten())
    token = view.locator("#collapsed #leftText text", has_text="ship").bounding_box()
    page.mouse.move(token["x"] + 5, token["y"] + 8)
    view.locator("#collapsed #leftText rect[width='16']").nth(2).click(force=True)
    assert view.locator("#expanded").get_attribute("visibility") == "visible"
    assert "Query q" in view.locator("#expanded").text_content()


def test_a_head_view_of_several_models_shows_the_one_that_is_chosen(show: Any, bert: Bert) -> None:
    torch.manual_seed(1)
    other = Bert(dataclasses.replace(bert.config, direction="left-to-right")).eval()
    page = show(head_view({"both": bert, "left only": other}, load_tokenizer(), TEXT))
    view = page.locator(".bertedu-bertviz")
    box = view.locator("select").nth(1)
    assert box.locator("option").all_text_contents() == ["both", "left only"]
    assert close(drawn(view), attend(bert, load_tokenizer(), TEXT).weights[0].flatten() / 2)
    box.select_option("left only")
    weights = attend(other, load_tokenizer(), TEXT).weights
    assert close(drawn(view), weights[0].flatten() / 2)
    view.locator("select").nth(0).select_option("3")
    assert close(drawn(view), weights[2].flatten() / 2)


@pytest.mark.parametrize("width", [600, 900])
def test_nothing_is_cut_off_on_a_narrow_page(show: Any, bert: Bert, width: int) -> None:
    page = show(model_view(bert, load_tokenizer(), TEXT), neuron_view(bert, load_tokenizer(), TEXT))
    page.set_viewport_size({"width": width, "height": 900})
    # JupyterLab's own rule for pictures in an output, which is what cuts
    page.add_style_tag(content="svg { max-width: 100%; height: auto }")
    inside = """(root) => {
      const svg = root.querySelector("svg");
      const { right, bottom, width } = svg.getBoundingClientRect();
      const box = (one) => one.getBoundingClientRect();
      const parts = [...svg.querySelectorAll("line, rect, text")].map(box);
      const over = Math.max(...parts.map((p) => Math.max(p.right - right, p.bottom - bottom)));
      return { over, width, reach: root.scrollWidth };
    }"""
    model, neuron = (page.locator(".bertedu-bertviz").nth(i).evaluate(inside) for i in (0, 1))
    assert model["over"] <= 3
    assert model["width"] <= width
    assert neuron["over"] <= 3
    assert neuron["reach"] >= neuron["width"] > 1000  # scrolled to, not cut


def test_two_views_on_a_page_do_not_mix(show: Any, bert: Bert) -> None:
    one = head_view(bert, load_tokenizer(), TEXT)
    page = show(
        one,
        one,
        neuron_view(bert, load_tokenizer(), TEXT),
        model_view(bert, load_tokenizer(), TEXT),
    )
    views = page.locator(".bertedu-bertviz")
    assert [drawn(views.nth(i)).numel() > 0 for i in range(4)] == [True] * 4
    before = drawn(views.nth(0))
    views.nth(1).locator("select").select_option("2")
    assert torch.equal(drawn(views.nth(0)), before)
    assert not torch.equal(drawn(views.nth(1)), before)


def test_in_jupyterlab_all_three_are_drawn(browser: Any, lab: Any) -> None:
    from test_notebooks_in_lab import open_and_run

    setup = (
        "import bertedu\nfrom course.workshop import bertviz\n"
        "model, tokenizer = bertedu.load('bert-L4H128')"
    )
    calls = [
        f"bertviz.{kind}_view(model, tokenizer, {TEXT!r})" for kind in ("head", "model", "neuron")
    ]
    cells = [nbformat.v4.new_code_cell(source) for source in (setup, *calls)]
    nbformat.write(
        nbformat.v4.new_notebook(cells=cells, metadata=PYTHON), lab.root / "bertviz.ipynb"
    )
    page, asked, errors = open_and_run(browser, lab, "bertviz.ipynb")
    views = page.locator(".bertedu-bertviz")
    assert views.count() == 3
    assert all(drawn(views.nth(i)).numel() > 0 for i in range(3))
    before = drawn(views.nth(0))
    views.nth(0).locator("select").select_option("3")
    assert not torch.equal(drawn(views.nth(0)), before)
    assert (asked, errors) == ([], [])
    page.context.close()
