"""Decks: the lectures as pages for a projector, which ask nothing of another host, and as PDF."""

import html
import os
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

from jinja2 import Environment, FileSystemLoader
from pygments.formatters import HtmlFormatter
from tqdm import tqdm

from bertedu.files import write_atomically
from course.classroom.asked import NotebookError
from course.classroom.slides import deck, lecture
from course.classroom.weights import lay_weights
from course.language import in_korean, shim, spoken

TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "templates"), autoescape=False
)
TEMPLATES.filters["spoken"] = TEMPLATES.globals["spoken"] = spoken
TEMPLATES.globals |= {"korean": in_korean(), "shim": shim() if in_korean() else ""}
MATHJAX = "jupyter-server-mathjax"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
CHROMIUM = ["--headless", "--no-sandbox", "--disable-gpu", "--no-pdf-header-footer"]


def take_mathjax(folder: Path) -> None:
    """Copy MathJax out of the package that brings it.

    Raises ModuleNotFoundError, which says how to install the package, if it is missing.
    """
    found = find_spec(MATHJAX.replace("-", "_"))
    if found is None or found.origin is None:
        raise ModuleNotFoundError(
            f"{MATHJAX} is not installed; formulas need it. `make slides` installs it, or: "
            'python -m pip install -c constraints.txt -e ".[course]"'
        )
    ignore = shutil.ignore_patterns("localization", "SVG", "a11y")
    source = Path(found.origin).with_name("static")
    shutil.copytree(source, folder / "mathjax", ignore=ignore, dirs_exist_ok=True)


def colors() -> str:
    """Return the colors of code, for light and for dark, each readable on its ground."""
    light, dark = (
        HtmlFormatter(style=style).get_style_defs(f"{root} .highlight")
        for style, root in (("a11y-high-contrast-light", ""), ("a11y-high-contrast-dark", ".dark"))
    )
    return f"{light}\n{dark}"


def write(folder: Path, names: list[str], pdf: bool = False) -> None:
    """Write the decks of these notebooks and a page that lists them; with ``pdf``, PDFs too.

    Raises NotebookError if PDFs are asked for and there is no Chromium.
    """
    browser = chromium() if pdf else ""
    take_mathjax(folder)
    style, listed = colors(), []
    template = TEMPLATES.get_template("deck.html")
    for name in tqdm(names, unit="deck", disable=None):
        slides = lecture(name)
        title = f"{name[:2]} · {slides[0].title}"
        page = template.render(
            title=html.escape(title), slides=deck(name), pygments=style, listed=[]
        )
        write_atomically(folder / f"{name}.html", page)
        listed.append((name, title, len(slides), round(sum(one.minutes for one in slides))))
    front = template.render(
        title=spoken("bertedu: lectures"), listed=listed, pdf=pdf, pygments=style
    )
    write_atomically(folder / "index.html", front)
    lay_weights(folder, names)
    if pdf:
        for name in tqdm(names, unit="PDF", disable=None):
            print_pdf(browser, folder / f"{name}.html")


def chromium() -> str:
    """Return a Chromium; NotebookError, which says how to get one, if there is none."""
    found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        raise NotebookError(
            "Chromium prints the PDFs, and there is none: apt install chromium, or set "
            "CHROMIUM=path. Any browser prints a deck, too: open it, and choose Print"
        )
    return found


def print_pdf(browser: str, page: Path) -> None:
    """Print a deck to a PDF beside it, a page for each slide."""
    out = page.with_suffix(".pdf").resolve()
    command = [browser, *CHROMIUM, "--virtual-time-budget=30000", f"--print-to-pdf={out}"]
    done = subprocess.run([*command, page.resolve().as_uri()], capture_output=True, text=True)
    if done.returncode or not out.is_file():
        raise NotebookError(f"{browser} did not print {page.name}: {done.stderr.strip()[-200:]}")
