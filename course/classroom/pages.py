"""The notebooks as pages or as slides that ask nothing of another host.

`python -m course.classroom.pages build/html` writes the pages, with `--slides build/slides` the
decks. Each folder can be carried away as it is, on a USB stick too.
"""

import argparse
import contextlib
import re
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import nbformat
from nbconvert import HTMLExporter
from nbformat.v4 import new_markdown_cell, new_notebook
from tqdm import tqdm
from traitlets.config import Config

from course.classroom import slides
from course.classroom.asked import NOTEBOOKS

# What is taken along: its folder; the package that brings it, where in it, and what stays there.
PARTS = {
    "mathjax": ("jupyter-server-mathjax", "static", ("localization", "SVG", "a11y")),
    "reveal": (
        "sphinx-revealjs",
        "_static/revealjs",
        ("*.map", "*.esm.js", "*.html", "plugin.js", "theme", "css")
        + ("highlight", "markdown", "math", "notes", "search"),
    ),
}
KEYS = (
    "Keys: **→** onward, **↓** down, **F** full screen, **S** notes for the speaker in a window of "
    "their own, **Esc** all slides at once, **B** a dark screen. **Alt** and a click enlarge what "
    "lies there (on Linux **Ctrl**)."
)
TEMPLATES = str(Path(__file__).parent / "templates")
VIEW = "application/vnd.jupyter.widget-view+json"


def take_along(part: str, folder: Path) -> None:
    """Copy a library of JavaScript out of the package that brings it.

    Raises ModuleNotFoundError, which says how to install the package, if it is missing.
    """
    package, inside, left_there = PARTS[part]
    found = find_spec(package.replace("-", "_"))
    if found is None or found.origin is None:
        raise ModuleNotFoundError(
            f"{package} is not installed; {part} comes out of it. `make slides` installs it, or: "
            'python -m pip install -c constraints.txt -e ".[classroom]"'
        )
    ignore = shutil.ignore_patterns(*left_there)
    source = Path(found.origin).parent / inside
    shutil.copytree(source, folder / part, ignore=ignore, dirs_exist_ok=True)


def exporter(template: str) -> HTMLExporter:
    """Return what turns a notebook into HTML by one of our templates, ``page`` or ``deck``."""
    hide = {"enabled": True, "remove_input_tags": {"hide-input"}}
    first = ["text/html", "image/svg+xml", "image/png", "text/markdown", "text/latex", "text/plain"]
    config = {"TagRemovePreprocessor": hide, "NbConvertBase": {"display_data_priority": first}}
    deck = template == "deck"
    return HTMLExporter(
        config=Config(config),
        template_name=template,
        extra_template_basedirs=[TEMPLATES],
        extra_template_paths=[TEMPLATES],  # so that one can extend the other
        exclude_input_prompt=deck,
        exclude_output_prompt=deck,
    )


def still(notebook: Any) -> Any:
    """Take what needs a running Python out of a notebook, and return it.

    A widget that has no HTML of its own is a progress bar, or does nothing on a page.
    """
    notebook.metadata.pop("widgets", None)  # for its sake a page would ask other hosts for scripts
    for cell in notebook.cells:
        for output in list(cell.get("outputs", [])):
            data = output.get("data", {})
            if data.pop(VIEW, None) and "text/html" not in data:
                cell.outputs.remove(output)
    return notebook


def converted(notebook: Any, name: str, template: str = "page") -> str:
    """Return a notebook as HTML, ``name`` in its title, whose links lead to the other pages."""
    notebook = still(notebook)
    if template == "deck":
        notebook = slides.deck(notebook)
    notebook.metadata["title"] = name
    body, _ = exporter(template).from_notebook_node(notebook)
    return re.sub(r'(href="[\w-]+)\.(?:ipynb|md)(?=["#])', r"\1.html", body)


def contents(notebooks: dict[str, Any], deck: bool) -> str:
    """Return the first page, as Markdown: what there is, and for slides the keys."""
    lines = ["# bertedu: the course as slides" if deck else "# bertedu", KEYS if deck else ""]
    for name, notebook in notebooks.items():
        title, _, rest = notebook.cells[0].source.partition("\n")
        (promise,) = re.findall(r"\*\*You will\*\* (.+?)\n\n", rest, re.DOTALL) or [""]
        lines.append(f"- [{title.strip('# ')}]({name}.ipynb): {' '.join(promise.split())}")
    return "\n\n".join([*lines, "[Glossary](glossary.md) · [Reading list](reading_list.md)"])


def write(folder: Path, deck: bool = False) -> None:
    """Write every notebook, the glossary, the reading list and a table of contents to a folder."""
    from course.workshop import play

    for part in PARTS if deck else ("mathjax",):
        take_along(part, folder)
    notebooks = {path.stem: nbformat.read(path, 4) for path in sorted(NOTEBOOKS.glob("*.ipynb"))}
    pages = {path.stem: path.read_text(encoding="utf-8") for path in NOTEBOOKS.glob("*.md")}
    pages["index"] = contents(notebooks, deck)
    for name, text in pages.items():
        notebook = new_notebook(cells=[new_markdown_cell(text)])
        (folder / f"{name}.html").write_text(converted(notebook, name), encoding="utf-8")
    for name, notebook in tqdm(notebooks.items(), unit="notebook"):
        body = converted(notebook, name, "deck" if deck else "page")
        (folder / f"{name}.html").write_text(body, encoding="utf-8")
    with contextlib.chdir(folder):  # what computes in the page reads its weights from beside it
        play.neighbors()
        play.meet()
    for weights in NOTEBOOKS.glob("*.weights.js"):  # of models that a notebook has trained here
        shutil.copy(weights, folder)
    print(f"Open {folder / 'index.html'} in a browser; no network is needed.")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--slides", action="store_true", help="decks instead of pages")
    asked = parser.parse_args()
    try:
        write(asked.folder, asked.slides)
    except ModuleNotFoundError as missing:
        raise SystemExit(str(missing)) from None
