"""Every notebook in a real JupyterLab: it runs, asks nobody else, and can be read the next day."""

import re
from pathlib import Path
from typing import Any

import pytest
from acts import watched
from contrast import too_faint

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))

STATE = """() => {
  const panel = window.jupyterapp?.shell.currentWidget;
  if (!panel?.content?.model) return null;
  const cells = [];
  for (const cell of panel.content.model.cells) {
    if (cell.type !== "code" || !cell.sharedModel.getSource().trim()) continue;
    const errors = [];
    for (let i = 0; i < cell.outputs.length; i++) {
      const output = cell.outputs.get(i).toJSON();
      if (output.output_type === "error") errors.push(`${output.ename}: ${output.evalue}`);
    }
    const planned = (cell.getMetadata("tags") ?? []).includes("raises-exception");
    cells.push({ ran: cell.executionCount !== null, errors: planned ? [] : errors });
  }
  const kernel = panel.sessionContext.session?.kernel?.status;
  return { ready: panel.sessionContext.isReady && kernel === "idle", cells };
}"""
BROKEN = re.compile(
    r"Javascript Error|Error displaying widget|Error creating widget|Loading widget|"
    r"model not found|Error loading script"
)

# what can be played with (ipywidgets leave such keys to JupyterLab), and the cells as they are now
TOYS = ".bertedu-play, .bertedu-machine, .bertedu-attention, .bertedu-bertviz"
CONTROLS = "button:enabled, select, input[type=range], [tabindex='0']"
CELLS = """() => {
  const { widgets, activeCellIndex } = window.jupyterapp.shell.currentWidget.content;
  return [widgets.length, activeCellIndex];
}"""


def open_in_lab(browser: Any, lab: Any, notebook: str) -> Any:
    """Open a notebook on a page of its own, and wait until its kernel is ready."""
    own = (lab.url, lab.url.replace("http", "ws"))
    page = watched(browser, *own, offline=False, viewport={"width": 1280, "height": 1000})
    page.goto(lab.address(notebook))
    page.wait_for_selector(".jp-Notebook .jp-Cell", timeout=60_000)
    page.wait_for_function(f"() => ({STATE})()?.ready", timeout=60_000)
    return page


def open_and_run(browser: Any, lab: Any, notebook: str) -> Any:
    """Open a notebook, run all cells, wait."""
    page = open_in_lab(browser, lab, notebook)
    page.evaluate("() => window.jupyterapp.commands.execute('notebook:run-all-cells')")
    done = "s.ready && (s.cells.every(c => c.ran) || s.cells.some(c => c.errors.length))"
    page.wait_for_function(
        f"() => {{ const s = ({STATE})(); return s && {done}; }}", timeout=300_000, polling=250
    )
    page.wait_for_timeout(1500)  # widgets and figures come a little later
    return page


def broken(page: Any) -> list[str]:
    """What the outputs of a notebook say when a widget or a script does not work."""
    every = page.locator(".jp-OutputArea").all_inner_texts()
    return [text[:200] for text in every if BROKEN.search(text)]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_runs_in_jupyterlab_and_can_be_read_the_next_day(
    browser: Any, lab: Any, path: Path
) -> None:
    name = f"notebooks/{path.name}"
    page = open_and_run(browser, lab, name)
    cells = page.evaluate(STATE)["cells"]
    assert [cell["errors"] for cell in cells if cell["errors"]] == []
    assert all(cell["ran"] for cell in cells)
    assert broken(page) == []
    missing = page.evaluate(
        """() => [...document.querySelectorAll(".jp-OutputArea img")]
             .filter((img) => !img.complete || !img.naturalWidth || !img.alt).length"""
    )
    assert missing == 0, "a picture is broken or has no alt text"
    keys_stay_inside(page)
    assert page.wrong == []
    page.evaluate("() => window.jupyterapp.commands.execute('docmanager:save')")
    page.wait_for_function("() => !window.jupyterapp.shell.currentWidget.context.model.dirty")
    page.evaluate("() => window.jupyterapp.shell.currentWidget.sessionContext.shutdown()")
    page.context.close()
    saved = (lab.root / name).read_text(encoding="utf-8")
    assert "widget-view" not in saved
    assert not re.search(r" 0%\|", saved)
    page = open_in_lab(browser, lab, name)
    page.wait_for_timeout(2000)  # what is alive comes a little later
    assert broken(page) == []
    empty = page.evaluate(
        """() => [...document.querySelectorAll(".jp-OutputArea-output")]
             .filter((one) => !one.getBoundingClientRect().height).length"""
    )
    assert empty == 0
    change = "(theme) => window.jupyterapp.commands.execute('apputils:change-theme', {theme})"
    for theme, light in (("Light", "true"), ("Dark", "false")):  # the colors of code are Lab's own
        page.evaluate(change, f"JupyterLab {theme}")
        page.wait_for_selector(f"body[data-jp-theme-light={light}]", state="attached")
        page.wait_for_timeout(1000)
        inside = (".jp-OutputArea-output", ".jp-RenderedMarkdown")
        assert too_faint(page, *inside, but=".jp-RenderedMarkdown pre") == [], theme
    page.context.close()


def keys_stay_inside(page: Any) -> None:
    """With the focus in a toy, keys that would cut or leave the cell do neither."""
    for toy in page.locator(TOYS).all():
        if (control := toy.locator(CONTROLS).first).count() == 0 or not control.is_visible():
            continue
        name = toy.get_attribute("class"), control.evaluate("(one) => one.outerHTML")[:120]
        control.focus()
        before = page.evaluate(CELLS)
        for key in "xjkdda":
            page.keyboard.press(key)
        page.wait_for_timeout(100)
        assert page.evaluate(CELLS) == before, name
