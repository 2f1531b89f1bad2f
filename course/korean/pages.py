"""The pages of the course and their Korean: one Markdown file each, a head before each cell.

A head has the id of the English cell and a hash of the English that was translated; when that
changes, the Korean is known to be stale. A document has sections for cells.
"""

import hashlib
import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import NamedTuple

import nbformat

from bertedu.files import read_csv, write_atomically

ROOT = Path(__file__).parents[2]
ENGLISH = ROOT / "notebooks"
HEAD = re.compile(r"^<!-- ([\w가-힣-]+) ([0-9a-f]{8}) -->$", re.MULTILINE)
PLAN = re.compile(r"(<!-- plan \w+ -->)(.*?)(<!-- end -->)", re.DOTALL)
STALE = re.compile(r"^<!-- the English is now:\n.*?^-->\n*", re.MULTILINE | re.DOTALL)
GLOSSARY_LINK = re.compile(r"\[([^\]]+)\]\(glossary\.md#([^)]*)\)")


class Page(NamedTuple):
    """A notebook or document of the course, and where its Korean lies."""

    name: str
    source: Path
    target: Path


@cache
def pages() -> dict[str, Page]:
    """Return all there is to translate, by short names: 03, glossary, lectures/03, README."""
    korean, found = ENGLISH / "ko", {}
    for path in sorted(ENGLISH.glob("*.ipynb")):
        found[path.stem[:2]] = Page(path.stem[:2], path, korean / f"{path.stem}.md")
    for path in sorted(ENGLISH.glob("*.md")):
        found[path.stem] = Page(path.stem, path, korean / path.name)
    for path in sorted((ROOT / "course" / "classroom" / "lectures").glob("*.md")):
        name = f"lectures/{path.stem}"
        found[name] = Page(name, path, korean / f"{name}.md")
    guide = ROOT / "course" / "classroom" / "guide.md"
    found["guide"] = Page("guide", guide, korean / "guide.md")
    found["README"] = Page("README", ROOT / "README.md", ROOT / "README.ko.md")
    return found


def english(page: Page) -> dict[str, str]:
    """Return the English by id: a notebook's Markdown cells, or a document's sections."""
    if page.source.suffix == ".ipynb":
        cells = nbformat.read(page.source, as_version=4).cells
        return {cell.id: cell.source for cell in cells if cell.cell_type == "markdown"}
    found: dict[str, str] = {}
    for section in re.split("^(?=## )", page.source.read_text(encoding="utf-8"), flags=re.M):
        title = section.splitlines()[0].removeprefix("## ") if section.startswith("## ") else "top"
        name = re.sub(r"[\W_]+", "-", title.lower()).strip("-")
        found[name if name not in found else f"{name}-{len(found)}"] = section.strip()
    return found


def plain(source: str) -> str:
    """Return a source without what the builder makes: links into the glossary, a plan's table."""
    return PLAN.sub(r"\1\n\3", GLOSSARY_LINK.sub(r"\1", source))


def hashed(source: str) -> str:
    """Return eight digits that change when the words do, not when lines are broken elsewhere."""
    return hashlib.sha256(" ".join(plain(source).split()).encode()).hexdigest()[:8]


def korean(page: Page) -> dict[str, tuple[str, str]]:
    """Return hash and text of each cell that is written; ValueError for one written twice."""
    if not page.target.exists():
        return {}
    _, *parts = HEAD.split(page.target.read_text(encoding="utf-8"))
    names = parts[::3]
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise ValueError(f"{page.target.name}: {', '.join(twice)} is there twice: take one away")
    return {n: (h, t.strip()) for n, h, t in zip(names, parts[1::3], parts[2::3], strict=True)}


def write(page: Page, cells: dict[str, tuple[str, str]]) -> None:
    """Write the Korean file of a page."""
    page.target.parent.mkdir(parents=True, exist_ok=True)
    parts = [f"<!-- {name} {digest} -->\n{text}\n" for name, (digest, text) in cells.items()]
    write_atomically(page.target, "\n".join(parts))


def skeleton(page: Page) -> None:
    """Write what is missing in English, and what is stale with the new English above it."""
    own, known = english(page), korean(page)
    made: dict[str, tuple[str, str]] = {}
    for name, source in own.items():
        digest, text = known.get(name, (hashed(source), plain(source)))
        if digest != hashed(source):
            now = f"<!-- the English is now:\n{plain(source)}\n-->\n"
            digest, text = hashed(source), now + STALE.sub("", text)
        made[name] = digest, text
    write(page, made | {name: cell for name, cell in known.items() if name not in own})


@cache
def terms() -> dict[str, str]:
    """Return the Korean word of each term, from terms.csv."""
    return {row["term"]: row["korean"] for row in read_csv(ENGLISH / "ko" / "terms.csv")}
