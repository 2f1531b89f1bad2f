"""The course as a website: what goes into it, and the pages that are made from other files.

`python -m course.classroom.site` lays a copy of all inputs into build/site-src, where links are
those of the repository, and Sphinx makes build/site of it. Nothing is executed.
"""

import re
import shutil
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

import nbformat

ROOT = Path(__file__).parents[3]
EXERCISE = re.compile(r"^\*\*(\d+)\. (.+) \((★[★☆]*), (\d+) minutes?\)\.?\*\*", re.MULTILINE)
GLOSSARY_LINK = re.compile(r"\[([^\]]+)\]\(glossary\.md#[^)]*\)")
WIDGET = "application/vnd.jupyter.widget-view+json"
# What learners call, though it is no room of the package.
MET = ("bertedu", "course.exercises.check", "course.workshop.my_bert")
ROOMS = tuple(
    f"bertedu.{room}"
    for room in "text model model.variants pretraining finetuning analysis studies results".split()
)


class Exercise(NamedTuple):
    """An exercise as its notebook announces it."""

    number: int
    title: str  # Markdown
    stars: str  # ★☆☆ to ★★★
    minutes: int
    anchor: str  # of the site


def exercises_of(notebook: Any, name: str) -> list[Exercise]:
    """List the exercises of a notebook by the ★ in their headings; ``name`` begins with 00 to a1.

    Sets a target before each of them, so that the page of exercises can lead there.
    """
    found = []
    for cell in notebook.cells:
        if cell.cell_type != "markdown":
            continue
        for number, title, stars, minutes in EXERCISE.findall(cell.source):
            anchor = f"exercise-{name[:2]}-{number}"
            title = GLOSSARY_LINK.sub(r"\1", title)
            found.append(Exercise(int(number), title, stars, int(minutes), anchor))
        cell.source = EXERCISE.sub(rf"(exercise-{name[:2]}-\1)=\n\g<0>", cell.source)
    return found


def without_widgets(notebook: Any) -> None:
    """Take out what only a running Python can move: progress bars and rows of buttons.

    What has HTML beside its widget keeps that, a still picture or a line of text.
    """
    notebook.metadata.pop("widgets", None)  # for its sake a page would ask other hosts for scripts
    for cell in notebook.cells:
        shown = cell.get("outputs", [])
        for output in list(shown):
            data = output.get("data", {})
            if data.pop(WIDGET, None) and "text/html" not in data:
                shown.remove(output)


def slug(title: str) -> str:
    """Return the address of a heading, without signs that Markdown or a browser spells anew.

    The same for a heading and for the address that JupyterLab gives it, which the pages link.
    """
    return re.sub(r"\$[^$]*\$|[^\w-]", "", unquote(title).strip().replace(" ", "-"))


def with_slugs(text: str) -> str:
    """Return a Markdown text whose links to headings of other pages use our addresses."""
    link = re.compile(r"(\]\([\w./-]+\.(?:ipynb|md)#)([^)\s]+)\)")
    return link.sub(lambda match: f"{match[1]}{slug(match[2])})", text)


def exercises_page(notebooks: dict[str, Any]) -> str:
    """Write the list of all exercises, notebook by notebook; sets their targets, too."""
    parts, count, minutes = [], 0, 0
    for name, notebook in notebooks.items():
        found = exercises_of(notebook, name)
        parts.append(f"\n## [{heading(notebook)}](notebooks/{name}.ipynb)\n")
        parts.append("| exercise | difficulty | minutes |\n|---|---|---|")
        parts += [
            f"| [{one.number}. {one.title}](#{one.anchor}) | {one.stars} | {one.minutes} |"
            for one in found
        ]
        count, minutes = count + len(found), minutes + sum(one.minutes for one in found)
    head = f"{count} exercises, {minutes / 60:.0f} hours by the minutes that stand beside them."
    return "\n".join(["# Exercises\n", head, *parts, ""])


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
    return "\n".join(["", "```{toctree}", ":hidden:", f":caption: {caption}", *pages, "```", ""])


def copy_with_links(page: Path, source: Path, name: str) -> None:
    """Copy a Markdown page of the repository, and the files that it links, into ``source``."""
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#\s]+)", text):
        file = (page.parent / target).resolve()
        copied = source / file.relative_to(ROOT) if file.is_relative_to(ROOT) else source
        if file.is_file() and file.suffix not in {".md", ".ipynb"}:
            copied.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, copied)
    text = re.sub(r"\]\(((?:\.\./)*)README\.md", r"](\1index.md", text)
    (source / name).parent.mkdir(parents=True, exist_ok=True)
    (source / name).write_text(with_slugs(text), encoding="utf-8")


def prepare(source: Path) -> None:
    """Lay all inputs into an empty folder: the repository's own pages, and those made from it."""
    guide = [path for path in [ROOT / "classroom" / "guide.md"] if path.exists()]
    beside = [ROOT / "notebooks" / "glossary.md", ROOT / "notebooks" / "reading_list.md"]
    for page in [*beside, *guide, ROOT / "CONTRIBUTING.md"]:
        copy_with_links(page, source, str(page.relative_to(ROOT)))
    paths = sorted((ROOT / "notebooks").glob("*.ipynb"))
    notebooks = {path.stem: nbformat.read(path, as_version=4) for path in paths}
    (source / "exercises.md").write_text(exercises_page(notebooks), encoding="utf-8")
    for name, notebook in notebooks.items():
        without_widgets(notebook)
        for cell in notebook.cells:
            if cell.cell_type == "markdown":
                cell.source = with_slugs(cell.source)
        nbformat.write(notebook, source / "notebooks" / f"{name}.ipynb")
    (source / "api").mkdir()
    for package in [*MET, *ROOMS]:
        (source / "api" / f"{package}.rst").write_text(api_page(package), encoding="utf-8")
    copy_with_links(ROOT / "README.md", source, "index.md")
    with (source / "index.md").open("a", encoding="utf-8") as front:
        front.write(toctree("Notebooks", [f"notebooks/{name}" for name in notebooks]))
        pages = ["exercises", "notebooks/glossary", "notebooks/reading_list"]
        front.write(toctree("Beside them", pages + ["course/classroom/guide"] * len(guide)))
        front.write(toctree("The package", [f"api/{name}" for name in [*MET, *ROOMS]]))
        front.write(toctree("Take part", ["CONTRIBUTING"]))
