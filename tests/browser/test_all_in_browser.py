"""All that is alive on a page, together: apart from each other, legible, within reach, in Lab."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest
from acts import press, texts, written
from nbconvert import HTMLExporter
from shown import TEXT, in_a_folder, tiny_bert
from test_notebooks_in_lab import CELLS, keys_stay_inside, open_and_run, open_in_lab
from test_play_in_browser import made, own
from test_view_in_browser import attention

from bertedu.text.fast_tokenizer import load_tokenizer
from course.workshop import play
from course.workshop.attention_view import AttentionView
from course.workshop.bertviz import model_view
from course.workshop.machine import Machine

__all__ = ["in_a_folder"]  # a fixture
PYTHON = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
Show = Callable[..., Any]


def acted(page: Any, of: str) -> list[str]:
    """What each toy or view of a kind looks like."""
    return [one.evaluate("(n) => n.outerHTML") for one in page.locator(of).all()]


@pytest.mark.parametrize(
    ("make", "of", "act"),
    [
        (lambda: play.longest_match("things"), ".bertedu-play",
         lambda one: one.locator("text=step ▶").click()),
        (lambda: AttentionView(attention(4)), ".bertedu-attention",
         lambda one: one.locator(".queries li").nth(3).click()),
        (lambda: model_view(tiny_bert(), load_tokenizer(), TEXT), ".bertedu-bertviz",
         lambda one: one.locator("svg > g > rect:last-child").first.click()),
        (Machine, ".bertedu-machine", lambda one: one.locator(".rail >> text=guess").click()),
    ],
)  # fmt: skip
def test_copies_on_one_page_do_not_mix(show: Show, make: Any, of: str, act: Any) -> None:
    view = make()
    page = show(view, view, view)
    page.wait_for_timeout(500)
    before = acted(page, of)
    act(page.locator(of).nth(1))
    after = acted(page, of)
    assert [one != other for one, other in zip(before, after, strict=True)] == [False, True, False]
    if of != ".bertedu-bertviz":  # another run of the first copy's cell begins none anew
        page.evaluate(
            """() => {
              const [code, script] = [document.scripts[0], document.createElement("script")];
              Object.assign(script, { type: "module", textContent: code.textContent });
              document.body.append(script);
            }"""
        )
        page.wait_for_timeout(200)
        assert acted(page, of) == after


# what sticks out of its toy at the right, in pixels
OUTSIDE = """() => [...document.querySelectorAll(".bertedu-play *")].filter((node) =>
  node.getBoundingClientRect().right > node.closest(".bertedu-play").getBoundingClientRect().right)
  .map((node) => node.outerHTML.slice(0, 200))"""
# of each text in sight: its element, its color, the size of its type
TYPE = """() => [...document.querySelectorAll(".bertedu-play *")]
  .filter((node) => node.childElementCount === 0 && node.textContent.trim()
    && node.getClientRects().length && node.tagName !== "STYLE")
  .map((node) => {
    const { color, fill, fontSize } = getComputedStyle(node);
    const text = node.tagName === "text", scale = text ? node.getScreenCTM().a : 1;
    return [text ? fill : color, scale * parseFloat(fontSize)];
  })"""


def test_toys_and_machine_fit_and_can_be_read_in_both_themes(show: Show) -> None:
    page = show(*made(), Machine())
    machine = page.locator(".bertedu-machine")
    themes = [("white", "black"), ("rgb(17, 17, 17)", "rgb(238, 238, 238)")]
    for width, colors in zip((725, 900, 1400), [*themes, themes[1]], strict=True):
        # JupyterLab leaves 725 of 900 pixels to an output
        page.set_viewport_size({"width": width, "height": 800})
        page.evaluate(
            "([b, c]) => { document.body.style = `background: ${b}; color: ${c}`; }", colors
        )
        assert page.evaluate(OUTSIDE) == []
        found = page.evaluate(TYPE)
        assert len(found) > 100
        assert min(size for _, size in found) >= 15
        plain = page.evaluate("getComputedStyle(document.body).color")
        odd = {color for color, _ in found if color != plain}
        assert len(odd) <= 4, odd  # all else has the color of the page; names of vectors are mixed
        if width > 800:
            machine.locator("input").fill("A very long sentence of representatives, " * 3)
            for step in (*range(11), 35, 36, 37):
                machine.evaluate("(one, step) => one.machine.change({ step })", step % 14)
                assert machine.evaluate("(one) => one.scrollWidth") <= width
            assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_nothing_sticks_out_of_a_narrow_column_not_even_a_word_without_end(show: Show) -> None:
    page = show(*made())
    page.evaluate("document.body.style.width = '660px'")  # as the site has it
    for word in ("", "unaffably" * 334, "unaffably" * 4):  # too long for any step, and for none
        for field in page.locator("input[type=text], textarea").all():
            field.fill(f"{word} 5")  # what is typed into the stepper has a count
        for step in page.locator("text=end ▶|").all():
            step.click(force=True)
        assert page.evaluate(OUTSIDE) == []


def test_every_control_has_a_name_and_is_reached_by_tab(show: Show) -> None:
    page = show(*made())
    assert page.locator("pre").count() == 0  # the still texts have given way
    assert page.evaluate("document.querySelectorAll('[id]').length") == 0
    assert page.locator(".says[aria-live=polite]").count() >= len(made())
    reached = []
    for _ in range(page.locator("button, input, [tabindex='0']").count()):
        press(page, "Tab")
        reached.append(
            page.evaluate(
                """() => { const a = document.activeElement; return a.ariaLabel || a.textContent
                     || a.closest("label")?.textContent; }"""
            )
        )
    assert all(reached)
    assert reached[:3] == ["your word", "|◀ start", "◀ back"]
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"


def test_without_scripts_the_still_parts_stand_there(browser: Any, tmp_path: Path) -> None:
    page, toys = browser.new_page(java_script_enabled=False, offline=True), made()
    page.goto(written(tmp_path / "still.html", *toys, AttentionView(attention(5)), Machine()))
    assert page.locator("pre").all_inner_texts() == [toy.still for toy in toys]
    assert texts(page, ".bertedu-play > p:first-child") == [toy.alt for toy in toys]
    assert page.locator("img:visible").count() == 2
    page.context.close()


@pytest.mark.parametrize("make", [lambda: own("classification", "A sentence."), Machine])
def test_a_model_that_is_not_there_is_said_in_plain_words(
    browser: Any, tmp_path: Path, make: Any
) -> None:
    address = written(tmp_path / "page.html", make())
    for weights in tmp_path.glob("*.weights.js"):
        weights.unlink()
    page = browser.new_page(offline=True)
    page.goto(address)
    page.wait_for_selector("text=here: the page has no model")
    shown = page.inner_text("body")
    assert "Run the notebook in JupyterLab" in shown
    assert str(tmp_path) not in shown
    assert page.locator("a:visible").count() == 0, "a link to a file that is not there"
    assert page.locator("pre:visible, img:visible").count() == 1  # the still part stays
    page.context.close()


def in_lab(lab: Any, name: str, *sources: str) -> Path:
    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    path: Path = lab.root / name
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=PYTHON), path)
    return path


def test_in_jupyterlab_all_are_alive_keys_stay_inside_and_so_in_the_exported_page(
    browser: Any, lab: Any
) -> None:
    """Notebooks show most of them, too: here is what Lab's own style might spoil."""
    setup = (
        "import torch, bertedu\nfrom course.workshop import bertviz, play\n"
        "from course.workshop.attention_view import Attention, AttentionView\n"
        "from course.workshop.machine import Machine"
    )
    view = "AttentionView(Attention('m', list('abcde'), [1], torch.ones(1, 2, 5, 5) / 5))"
    heads = f"bertviz.model_view(*bertedu.load('bert-L4H128'), {TEXT!r})"
    toys = ("play.longest_match('things')", "play.neighbors()")
    path = in_lab(lab, "all.ipynb", setup, view, heads, "Machine()", *toys)
    page = open_and_run(browser, lab, path.name)
    page.wait_for_function("document.querySelectorAll('.bertedu-play.alive').length === 2")
    page.wait_for_selector(".bertedu-machine h3")
    assert page.locator(".bertedu-bertviz line").count() > 0
    # the lines end where the words begin, whatever JupyterLab does to lists
    lines = page.locator(".lines > canvas").bounding_box()
    words = page.locator(".keys li").first.bounding_box()
    assert abs(lines["x"] + lines["width"] - words["x"]) < 1
    name, number, strip = (
        page.locator(f".cells {one}").first.bounding_box() for one in ("th", "td", ".strip")
    )
    assert name["x"] + 60 < number["x"] < strip["x"] - 40, "the style of Lab squeezes no column"
    keys_stay_inside(page)
    for where in (".queries", ".keys", ".bertedu-machine .stage"):
        page.locator(where).focus()
        before = page.evaluate(CELLS)
        press(page, *"xjddba")
        page.wait_for_timeout(300)
        assert page.evaluate(CELLS) == before
    assert page.wrong == []
    page.evaluate("() => window.jupyterapp.commands.execute('docmanager:save')")
    page.wait_for_timeout(1000)
    page.context.close()
    assert path.stat().st_size < 2_000_000  # the weights are not in it
    exported = path.with_suffix(".html")
    exported.write_text(HTMLExporter().from_filename(str(path))[0], encoding="utf-8")
    page = browser.new_page(offline=True)
    page.goto(exported.as_uri())
    page.wait_for_selector(".bertedu-machine h3")
    page.fill(".bertedu-machine input", "She lives in the city of New ___.")
    assert "york 78 %" in page.locator(".guess").inner_text()
    page.context.close()


def test_an_untrusted_notebook_shows_the_picture(browser: Any, lab: Any) -> None:
    """A fresh clone: the outputs came with the file, and nobody has run a cell yet."""
    html = AttentionView(attention(5))._repr_html_()
    output = nbformat.v4.new_output("execute_result", {"text/html": html}, execution_count=1)
    cell = nbformat.v4.new_code_cell("view", execution_count=1, outputs=[output])
    path = lab.root / "untrusted.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=[cell], metadata=PYTHON), path)
    page = open_in_lab(browser, lab, path.name)
    page.wait_for_timeout(1000)
    picture = page.locator(".jp-OutputArea img")
    assert picture.get_attribute("alt").startswith("Attention of model, layer 1, head 1")
    assert picture.evaluate("(img) => img.naturalWidth") > 300
    assert page.locator("figure").count() == 0
    page.context.close()
