"""The course as a website: what goes into it, and the pages that are made from other files.

`python -m course.classroom.site` lays a copy of all inputs into build/site-src, where links are
those of the repository, and Sphinx makes build/site of it. Nothing is executed.
"""

import re
import shutil
from pathlib import Path
from tempfile import mkdtemp
from typing import Any
from urllib.parse import unquote

import nbformat

from course.classroom.asked import HEADING, NOTEBOOKS, asked_in
from course.classroom.slides import IMAGE, measured
from course.language import spoken
from course.workshop.machine import Machine
from course.workshop.stills import still

ROOT = Path(__file__).parents[3]
LETTERS = 11  # pixels, of the smallest letter
MINUTES = re.compile(r"^\| (\d+): ", re.MULTILINE)
PROMISE = re.compile(r"\*\*(?:You will|이 노트북에서는)\*\* (.+?)\n\n", re.DOTALL)
FRONT = """# bertedu: BERT, taught by building it

{count} notebooks and a small PyTorch package that is tested like one. In the first hour you fill a
blank with a BERT; at the end you have one that is made of your own functions, and it trains.

{live}

Change the sentence: this page runs the model itself. A blank is `___`.

**[Start here: fill a blank](notebooks/00_start_here.ipynb)** · [Install it](README.md) ·
[Teach with it](course/classroom/guide.md) · [All exercises](exercises.md) ·
[What is a …?](notebooks/glossary.md)

## The way through

{map}
"""
# What learners call, though it is no room of the package.
MET = ("bertedu", "course.exercises.check", "course.workshop.my_bert")
_ROOMS = "text model model.variants pretraining finetuning finetuning.evaluation analysis"
ROOMS = tuple(f"bertedu.{room}" for room in _ROOMS.split())


def slug(title: str) -> str:
    """Return the address of a heading, without signs that Markdown or a browser spells anew.

    The same for a heading and for the address that JupyterLab gives it, which the pages link.
    """
    words = re.sub(r"\$[^$]*\$|[^\w-]", "", unquote(title).strip().replace(" ", "-"))
    return words.strip("-")


def with_slugs(text: str) -> str:
    """Return a Markdown text whose links to headings of other pages use our addresses."""
    link = re.compile(r"(\]\([\w./-]+\.(?:ipynb|md)#)([^)\s]+)\)")
    return link.sub(lambda match: f"{match[1]}{slug(match[2])})", text)


def legible(page: str) -> str:
    """Give each picture of some HTML the width that its smallest letters need to be read."""

    def widened(image: re.Match[str]) -> str:
        wide, _, points = measured(image[2])
        least = min(wide, wide * LETTERS / (points * 4 / 3))
        return image[0].replace('style="', f'style="min-width: {least:.0f}px; ', 1)

    return IMAGE.sub(widened, page)


def exercises_page(notebooks: dict[str, Any]) -> str:
    """Write the list of all exercises, notebook by notebook.

    Sets a target before each of them, so that the page can lead there.
    """
    parts, minutes = [], []
    for name, notebook in notebooks.items():
        anchor = f"exercise-{name[:2]}-"
        parts.append(f"\n## [{heading(notebook)}](notebooks/{name}.ipynb)\n")
        parts.append(spoken("| exercise | difficulty | minutes |") + "\n|---|---|---|")
        for one in asked_in(notebook.cells):
            title = f"[{one.number}. {one.title}](#{anchor}{one.number})"
            parts.append(f"| {title} | {one.stars} | {one.minutes} |")
            minutes.append(one.minutes)
        for cell in notebook.cells:
            if cell.cell_type == "markdown":
                cell.source = HEADING.sub(rf"({anchor}\1)=\n\g<0>", cell.source)
    hours = f"{sum(minutes) / 60:.0f}"
    head = spoken(f"{len(minutes)} exercises, {hours} hours by the minutes beside them.")
    return "\n".join([f"# {spoken('Exercises')}\n", head, *parts, ""])


def heading(notebook: Any) -> str:
    """Return the title of a notebook, the first line of its first cell."""
    return str(notebook.cells[0].source.splitlines()[0].removeprefix("# "))


def api_page(package: str) -> str:
    """Write the reStructuredText page of a module, or of a room: then its modules follow."""
    folder = ROOT.joinpath(*package.split("."))
    files = sorted(folder.glob("[!_]*.py")) if package in ROOMS else []
    lines = [package, "=" * len(package), "", f".. automodule:: {package}", "   :members:", ""]
    for file in files:
        lines += [file.stem, "-" * len(file.stem), ""]
        lines += [f".. automodule:: {package}.{file.stem}", "   :members:", ""]
    return "\n".join(lines)


def toctree(caption: str, pages: list[str]) -> str:
    """Write a list of pages for the bar at the left."""
    lines = ["", "```{toctree}", ":hidden:", f":caption: {spoken(caption)}", *pages, "```", ""]
    return "\n".join(lines)


def front_page(notebooks: dict[str, Any]) -> str:
    """Write the first page: what it is, a blank that fills itself, where to begin, and a map."""
    weights = 'href="notebooks/'  # they lie beside the notebooks
    live = re.sub(r'(<a hidden )href="', rf"\1{weights}", Machine(folder=mkdtemp())._repr_html_())
    lines = []
    for name, notebook in notebooks.items():
        head = notebook.cells[0].source
        minutes, promise = MINUTES.search(head), PROMISE.search(head)
        about = spoken(f"{minutes[1]} minutes.") + " " if minutes else ""
        about += spoken(f"You will {' '.join(promise[1].split())}") if promise else ""
        lines.append(f"- [{heading(notebook)}](notebooks/{name}.ipynb)  \n  {about}")
    indented = "\n".join(["```{raw} html", '<div class="front">', live, "</div>", "```"])
    return spoken(FRONT).format(count=len(notebooks), live=indented, map="\n".join(lines))


def copy_with_links(page: Path, source: Path, name: str) -> None:
    """Copy a Markdown page of the repository, and the files that it links, into ``source``."""
    built = NOTEBOOKS / page.name  # in the language of those notebooks
    text = (built if built.is_file() else page).read_text(encoding="utf-8")
    text = text.replace("[English](README.md) · [한국어](README.ko.md)\n\n", "")  # it has a switch
    for target in re.findall(r"\]\(([^)#\s]+)", text):
        file = (page.parent / target).resolve()
        copied = source / file.relative_to(ROOT) if file.is_relative_to(ROOT) else source
        if file.is_file() and file.suffix not in {".md", ".ipynb"}:
            copied.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, copied)
    (source / name).parent.mkdir(parents=True, exist_ok=True)
    (source / name).write_text(with_slugs(text), encoding="utf-8")


def prepare(source: Path) -> None:
    """Lay all inputs into an empty folder: the repository's own pages, and those made from it."""
    guide = Path(__file__).parents[1] / "guide.md"
    beside = [ROOT / "notebooks" / "glossary.md", ROOT / "notebooks" / "reading_list.md", guide]
    for page in [*beside, ROOT / "CONTRIBUTING.md"]:
        copy_with_links(page, source, str(page.relative_to(ROOT)))
    paths = sorted(NOTEBOOKS.glob("*.ipynb"))
    notebooks = {path.stem: still(nbformat.read(path, as_version=4)) for path in paths}
    (source / "exercises.md").write_text(exercises_page(notebooks), encoding="utf-8")
    for name, notebook in notebooks.items():
        for cell in notebook.cells:
            if cell.cell_type == "markdown":
                cell.source = with_slugs(cell.source)
            for data in (one.data for one in cell.get("outputs", []) if "data" in one):
                if "text/html" in data:
                    data["text/html"] = legible(data["text/html"])
        nbformat.write(notebook, source / "notebooks" / f"{name}.ipynb")
    (source / "api").mkdir()
    for package in [*MET, *ROOMS]:
        (source / "api" / f"{package}.rst").write_text(api_page(package), encoding="utf-8")
    names = "\n   ".join([*MET, *ROOMS])
    index = f"The package\n===========\n\n.. toctree::\n   :maxdepth: 1\n\n   {names}\n"
    (source / "api" / "index.rst").write_text(index, encoding="utf-8")
    copy_with_links(ROOT / "README.md", source, "README.md")
    front = front_page(notebooks) + toctree("Notebooks", [f"notebooks/{n}" for n in notebooks])
    pages = ["exercises", "notebooks/glossary", "notebooks/reading_list"]
    front += toctree("Beside them", [*pages, "README", "course/classroom/guide"])
    front += toctree("For developers", ["api/index", "CONTRIBUTING"])
    (source / "index.md").write_text(front, encoding="utf-8")
