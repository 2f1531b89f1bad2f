"""The glossary and the reading list: every entry is in order, and every link leads somewhere."""

import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from course.classroom.glossary import EVERYDAY, FIRST_MET, NOTEBOOKS, first_use, linked, located

TEXT = (NOTEBOOKS / "glossary.md").read_text(encoding="utf-8")
ENTRIES = dict(entry.split("\n", 1) for entry in re.split("^## ", TEXT, flags=re.MULTILINE)[1:])
PAGES = [NOTEBOOKS / "glossary.md", NOTEBOOKS / "reading_list.md"]
LINKED = sorted(path.name for path in NOTEBOOKS.glob("*.ipynb"))


def test_the_terms_are_in_alphabetical_order() -> None:
    assert len(ENTRIES) >= 70
    assert list(ENTRIES) == sorted(ENTRIES, key=str.casefold)
    assert all(re.fullmatch(r"[\w -]+", term) for term in ENTRIES)  # they go into a pattern
    assert set(ENTRIES) >= EVERYDAY


@pytest.mark.parametrize("term", ENTRIES)
def test_no_term_is_defined_by_itself(term: str) -> None:
    definition = re.split(r"\*Elsewhere|→", ENTRIES[term])[0]
    assert 4 <= len(definition.split()) <= 75
    first = re.split(r"(?<=[.:]) ", definition.strip())[0]
    assert not re.search(rf"(?<![\w`-]){re.escape(term)}s?(?![\w`-])", first, re.IGNORECASE), first


def test_every_term_is_where_its_entry_says_and_a_moved_one_is_noticed() -> None:
    """Not up to date? `python -m course.classroom.glossary` looks the sections up again."""
    assert len(FIRST_MET.findall(TEXT)) == len(ENTRIES)
    assert located(TEXT) == TEXT
    with pytest.raises(ValueError, match="'perplexity' does not occur in notebook 01"):
        located(re.sub(r"(## perplexity\n\n.+\n\n→ \[notebook )\d\d", r"\g<1>01", TEXT))
    stale = TEXT.replace("#How-far?", "#How-fast?")
    assert stale != TEXT
    assert located(stale) == TEXT


def prose(path: Path) -> str:
    """What is written on a page; of a notebook without its code, and without a toy's script."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".ipynb":
        return text
    cells = nbformat.reads(text, as_version=4).cells
    return "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")


def headings(path: Path) -> set[str]:
    """The addresses on a page: its headings, as JupyterLab and nbconvert make them."""
    found = re.findall("^#+ (.+)$", prose(path), re.MULTILINE)
    return {re.sub("[`*]", "", heading).strip().replace(" ", "-") for heading in found}


@pytest.mark.parametrize("path", [*PAGES, *(NOTEBOOKS / name for name in LINKED)], ids=str)
def test_every_link_leads_to_a_heading_that_exists(path: Path) -> None:
    links = re.findall(r"\]\(([\w.]+)(?:#([^)\s]*))?\)", prose(path))
    assert links
    for file, heading in links:
        target = NOTEBOOKS / file
        assert target.exists(), file
        assert not heading or unquote(heading) in headings(target), (file, heading)


@pytest.mark.parametrize("name", LINKED)
def test_a_linked_notebook_is_as_the_tool_leaves_it(name: str) -> None:
    path = NOTEBOOKS / name
    again = nbformat.writes(linked(path, list(ENTRIES))) + "\n"
    assert again == path.read_text(encoding="utf-8")
    assert again.count("(glossary.md#") > 3


def written(folder: Path, *texts: str) -> Path:
    cells: list[Any] = [new_markdown_cell("# Title with a batch"), *map(new_markdown_cell, texts)]
    path = folder / "n.ipynb"
    nbformat.write(new_notebook(cells=[*cells, new_code_cell("batch = 1")]), path)
    return path


@pytest.mark.parametrize(
    ("texts", "wanted"),
    [
        (("A batch, a batch.", "batch"), ("A [batch](L), a batch.", "batch")),
        (("A batch.", "a **batch** of"), ("A batch.", "a **[batch](L)** of")),
        (("A batch.", "*Batches* of"), ("A batch.", "*[Batches](L)* of")),
        (("mini-batch, batched", "Batches"), ("mini-batch, batched", "[Batches](L)")),
        (("## The batch\n`batch` $batch$ b", "b"), ("## The batch\n`batch` $batch$ b", "b")),
        (("$$batch$$ $x$ batch $x$",), ("$$batch$$ $x$ [batch](L) $x$",)),
        (("[a batch](x.md) <b batch>",), ("[a batch](x.md) <b batch>",)),
        (("> batch\n\n| batch |\n\n    batch\n",), ("> batch\n\n| batch |\n\n    batch\n",)),
        (("<details>batch</details>\n\nbatch",), ("<details>batch</details>\n\n[batch](L)",)),
        (("see [batch](glossary.md#other), batch",), ("see [batch](L), batch",)),
    ],
)
def test_the_first_use_is_linked(
    tmp_path: Path, texts: tuple[str, ...], wanted: tuple[str, ...]
) -> None:
    path = written(tmp_path, *texts)
    for _ in range(2):  # and a second time changes nothing
        notebook = linked(path, ["batch"])
        cells = [cell.source for cell in notebook.cells[1:-1]]
        assert cells == [text.replace("(L)", "(glossary.md#batch)") for text in wanted]
        assert notebook.cells[0].source == "# Title with a batch"
        nbformat.write(notebook, path)


def test_longer_terms_come_first_and_everyday_words_only_when_marked(tmp_path: Path) -> None:
    terms = ["attention", "attention map", "key", "query"]
    path = written(
        tmp_path, "The key to an attention map is attention.", "Each **key**, *queries*."
    )
    assert [cell.source for cell in linked(path, terms).cells[1:-1]] == [
        "The key to an [attention map](glossary.md#attention-map) is "
        "[attention](glossary.md#attention).",
        "Each **[key](glossary.md#key)**, *[queries](glossary.md#query)*.",
    ]
    assert first_use("key", [new_markdown_cell("the key")]) is None
