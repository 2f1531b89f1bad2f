"""build/ko: the notebooks and documents in Korean; code, ids and outputs are the English ones.

What has no Korean, or an older one, stays English with a mark. Links to headings lead to the
Korean ones, and the first use of a term, where the English links it, to its entry in the glossary.
"""

import re
import shutil
from functools import cache
from pathlib import Path

import nbformat

from bertedu.files import write_atomically
from course.classroom.glossary import UNLINKED, anchor
from course.korean.alike import STILL_ENGLISH, cell_problems, stray_stars
from course.korean.pages import (
    GLOSSARY_LINK,
    PLAN,
    ROOT,
    STALE,
    Page,
    english,
    hashed,
    korean,
    pages,
    plain,
    terms,
)
from course.language import translated

BUILT = ROOT / "build" / "ko"
LEARNER = ROOT / "ko"  # where a learner's copy lies; git ignores it
MARK = "*(아직 한국어가 없거나 영어가 바뀐 부분이라 영어로 보인다.)*"
TITLE = re.compile("^#+ (.+)$", re.MULTILINE)
ANCHOR = re.compile(r"(\]\()([\w./-]*)#([^)\s]+)\)")


def texts(page: Page) -> dict[str, tuple[str, bool]]:
    """Return what a reader sees of each cell, and whether it is Korean."""
    known, found = korean(page), {}
    for name, source in english(page).items():
        digest, text = known.get(name, ("", ""))
        ready = digest == hashed(source) and not STALE.search(text)
        ready = ready and STILL_ENGLISH not in cell_problems(source, text)
        found[name] = (text, True) if ready else (plain(source), False)
    return found


@cache
def titles() -> dict[tuple[str, str], str]:
    """Return the heading that a reader sees for each English one, by file."""
    found: dict[tuple[str, str], str] = {}
    for page in pages().values():
        for source, (text, _) in zip(english(page).values(), texts(page).values(), strict=True):
            both = (TITLE.findall(plain(one)) for one in (source, text))
            found |= {(page.source.name, theirs): ours for theirs, ours in zip(*both, strict=False)}
    return found


@cache
def anchors() -> dict[tuple[str, str], str]:
    """Return for each heading, by file and English address, its address in the built page."""
    return {(file, anchor(theirs)): anchor(ours) for (file, theirs), ours in titles().items()}


def with_anchors(page: Page, text: str) -> str:
    """Return a text whose links to headings have their Korean addresses."""

    def lead(match: re.Match[str]) -> str:
        name = match[2].rsplit("/", 1)[-1] or page.source.name
        return f"{match[1]}{match[2]}#{anchors().get((name, match[3]), match[3])})"

    return ANCHOR.sub(lead, text)


def with_terms(source: str, text: str) -> str:
    """Link the first use of each term that the English cell links."""
    for _, place in GLOSSARY_LINK.findall(source):
        name = next((term for term in terms() if anchor(term) == place), "")
        word = terms().get(name, "")
        seen = UNLINKED.sub(lambda match: "#" * len(match[0]), text)
        for use in re.finditer(rf"(\*\*)?{re.escape(word)}(?(1)\*\*)", seen) if word else ():
            start, end = use.span()
            link = f"[{text[start:end]}](glossary.md#{place})"
            made = text[:start] + link + text[end:]
            if stray_stars(made) == stray_stars(text):
                text = made
                break
    return text


def with_tables(source: str, text: str) -> str:
    """Put the tables of the guide's plans back: their numbers, and sections by Korean titles."""

    def line(english: str) -> str:
        if not english.startswith("| "):
            return translated(english)
        cells = english.strip("| ").split(" | ")
        if notebook := re.search(r"notebooks/([\w.]+)\)", english):
            parts = re.split("(; |all but )", cells[1])
            ours = (titles().get((notebook[1], part), translated(part)) for part in parts)
            cells[1] = "".join(ours)
        return f"| {' | '.join(map(translated, cells))} |"

    tables = {mark: table for mark, table, _ in PLAN.findall(source)}
    made = {mark: "\n".join(map(line, table.split("\n"))) for mark, table in tables.items()}
    return PLAN.sub(lambda found: f"{found[1]}{made.get(found[1], '')}{found[3]}", text)


def cell_text(page: Page, source: str, text: str, ready: bool) -> str:
    """Return a cell as it is built; one that is still English says so."""
    text = with_tables(source, text)
    if ready:
        return with_anchors(page, with_terms(source, text))
    mark = f"> {MARK}" if page.name.startswith("lectures/") else MARK
    between = "\n" if page.name.startswith("lectures/") else "\n\n"
    return with_anchors(page, text + between + mark)


def built(page: Page) -> str:
    """Return a page as it is built: a notebook's JSON, or a document."""
    own, seen = english(page), texts(page)
    made = {name: cell_text(page, own[name], *seen[name]) for name in own}
    if page.source.suffix != ".ipynb":
        return "\n\n".join(made.values()) + "\n"
    notebook = nbformat.read(page.source, as_version=4)
    for cell in notebook.cells:
        cell.source = made.get(cell.id, cell.source)
    return str(nbformat.writes(notebook)) + "\n"


def build() -> None:
    """Make build/ko anew."""
    shutil.rmtree(BUILT, ignore_errors=True)
    for page in pages().values():
        lecture = page.name.startswith("lectures/")
        out = BUILT / (f"{page.name}.md" if lecture else page.source.name)
        out.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(out, built(page))


def hand_out() -> None:
    """Copy what a learner opens into ko/, but over no notebook that is there already."""
    LEARNER.mkdir(exist_ok=True)
    for path in sorted(BUILT.glob("*.*")):
        there = LEARNER / path.name
        if path.suffix == ".ipynb" and there.exists():
            if there.read_bytes() != path.read_bytes():
                print(f"{Path('ko', path.name)}: yours is kept")
        else:
            shutil.copyfile(path, there)
