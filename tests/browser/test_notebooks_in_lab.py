"""Every notebook in a real JupyterLab: all cells run, nothing fails, nobody else is asked."""

import re
from pathlib import Path
from typing import Any

import pytest

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


def open_and_run(browser: Any, lab: Any, notebook: str) -> tuple[Any, list[str], list[str]]:
    """Open a notebook, run all cells, wait: the page, requests to others, errors of the page."""
    context = browser.new_context(viewport={"width": 1280, "height": 1000})
    page = context.new_page()
    asked: list[str] = []
    errors: list[str] = []
    own = (lab.url, lab.url.replace("http", "ws"), "data:", "blob:")
    page.on("request", lambda r: None if r.url.startswith(own) else asked.append(r.url))
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(lab.address(notebook))
    page.wait_for_selector(".jp-Notebook .jp-Cell", timeout=60_000)
    page.wait_for_function(f"() => ({STATE})()?.ready", timeout=60_000)
    page.evaluate("() => window.jupyterapp.commands.execute('notebook:run-all-cells')")
    done = "s.ready && (s.cells.every(c => c.ran) || s.cells.some(c => c.errors.length))"
    page.wait_for_function(
        f"() => {{ const s = ({STATE})(); return s && {done}; }}", timeout=300_000, polling=250
    )
    page.wait_for_timeout(1500)  # widgets and figures come a little later
    return page, asked, errors


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_runs_in_jupyterlab(browser: Any, lab: Any, path: Path, tmp_path: Path) -> None:
    page, asked, errors = open_and_run(browser, lab, f"notebooks/{path.name}")
    cells = page.evaluate(STATE)["cells"]
    assert [cell["errors"] for cell in cells if cell["errors"]] == []
    assert all(cell["ran"] for cell in cells)
    shown = page.locator(".jp-OutputArea").all_inner_texts()
    assert [text[:200] for text in shown if BROKEN.search(text)] == []
    assert errors == []
    assert asked == []
    missing = page.evaluate(
        """() => [...document.querySelectorAll(".jp-OutputArea img")]
             .filter((img) => !img.complete || !img.naturalWidth || !img.alt).length"""
    )
    assert missing == 0, "a picture is broken or has no alt text"
    keys_stay_inside(page)
    assert errors == []
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
