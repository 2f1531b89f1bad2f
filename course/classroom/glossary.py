"""Links between the notebooks and their glossary.

`python -m course.classroom.glossary notebooks/a1_*.ipynb` writes into the glossary where each term
is first met, and links the first use of each term in the notebooks named.
"""

import re
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote

import nbformat

from course.classroom.asked import NOTEBOOKS

# Words of every day: they are terms only where a notebook sets them in bold or italics.
EVERYDAY = {*"chance dev grid head key mask normalized position score segment span state".split()}
EVERYDAY |= {*"decoder memory units value window".split()}
# Neither searched nor linked: headings, tables, quotations, HTML, code, formulas, links.
LEFT_ALONE = re.compile(
    r"^ *[#|>].*?$|^ {4}.*?$|<summary>.*?</summary>|<[^>]+>|```.*?```|`[^`]+`|\$\$.*?\$\$|\$[^$]+\$"
    r"|\[[^\]]*\]\([^)]*\)",
    re.MULTILINE | re.DOTALL,
)
# And lines of HTML: they are searched, but a link there would not be one.
UNLINKED = re.compile(f"^<.*?$|{LEFT_ALONE.pattern}", LEFT_ALONE.flags)
FIRST_MET = re.compile(r"^→ \[notebook (\w\w)\]\(.*\)$", re.MULTILINE)


def read_cells(path: Path) -> tuple[Any, list[Any]]:
    """Return a notebook, and its Markdown cells after the head, without our links."""
    notebook = nbformat.read(path, as_version=4)
    cells = [cell for cell in notebook.cells[1:] if cell.cell_type == "markdown"]
    for cell in cells:
        cell.source = re.sub(r"\[([^\]]+)\]\(glossary\.md#[^)]*\)", r"\1", cell.source)
    return notebook, cells


def first_use(
    term: str, cells: list[Any], unseen: re.Pattern[str] = LEFT_ALONE
) -> tuple[int, int, int] | None:
    """Return cell, start and end of a term's first use: in bold or italics, else a plain one.

    What is ``unseen`` has no part in it.
    """
    stem = re.sub("y$", "(?:y|ie)", re.sub("[ -]", "[ -]", term))
    plain = None
    for number, cell in enumerate(cells):
        seen = unseen.sub(lambda match: "#" * len(match[0]), cell.source)
        for use in re.finditer(rf"(?<![\w-]){stem}(?:e?s)?(?![\w-])", seen, re.IGNORECASE):
            if seen[: use.start()].endswith("*") and seen[use.end() :].startswith("*"):
                return number, *use.span()
            plain = plain or (number, *use.span())
    return None if term in EVERYDAY else plain


def anchor(heading: str) -> str:
    """Return the address of a heading on its page, as JupyterLab and nbconvert make it."""
    return quote(re.sub(r"[`*]", "", heading).strip().replace(" ", "-"), safe="?,:")


def located(glossary: str) -> str:
    """Return the glossary with a link to the section where each term is first met.

    Raises ValueError if a term does not occur in the notebook that its entry names.
    """
    head, *entries = re.split("^## ", glossary, flags=re.MULTILINE)
    for i, entry in enumerate(entries):
        term, number = entry.splitlines()[0], FIRST_MET.findall(entry)[0]
        (path,) = NOTEBOOKS.glob(f"{number}_*.ipynb")
        cells = read_cells(path)[1]
        if (use := first_use(term, cells)) is None:
            raise ValueError(f"{term!r} does not occur in notebook {number}: name another one")
        before = [cell.source for cell in cells[: use[0]]] + [cells[use[0]].source[: use[1]]]
        sections = re.findall("^##+ (.+)$", "\n".join(before), re.MULTILINE)
        place = f"{path.name}#{anchor(sections[-1])}" if sections else path.name
        entries[i] = FIRST_MET.sub(f"→ [notebook {number}]({place})", entry)
    return "## ".join([head, *entries])


def linked(path: Path, terms: list[str]) -> Any:
    """Return a notebook in which the first use of each term is a link to its entry."""
    notebook, cells = read_cells(path)
    for term in sorted(terms, key=len, reverse=True):  # "attention map" before "attention"
        if use := first_use(term, cells, UNLINKED):
            number, start, end = use
            text = cells[number].source
            link = f"[{text[start:end]}](glossary.md#{anchor(term)})"
            cells[number].source = text[:start] + link + text[end:]
    return notebook


if __name__ == "__main__":
    page = NOTEBOOKS / "glossary.md"
    page.write_text(text := located(page.read_text(encoding="utf-8")), encoding="utf-8")
    for name in sys.argv[1:]:
        terms = re.findall("^## (.+)$", text, re.MULTILINE)
        nbformat.write(linked(Path(name), terms), name)
