"""The glossary and the reading list: every entry is in order, and every link leads somewhere."""

import re
from pathlib import Path
from urllib.parse import unquote

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from course.classroom.asked import NOTEBOOKS
from course.classroom.glossary import EVERYDAY, FIRST_MET, linked, located

TEXT = (NOTEBOOKS / "glossary.md").read_text(encoding="utf-8")
ENTRIES = dict(entry.split("\n", 1) for entry in re.split("^## ", TEXT, flags=re.MULTILINE)[1:])
PAGES = [NOTEBOOKS / "glossary.md", NOTEBOOKS / "reading_list.md"]
LINKED = sorted(NOTEBOOKS.glob("*.ipynb"))


def test_the_terms_are_in_alphabetical_order_and_none_is_defined_by_itself() -> None:
    assert len(ENTRIES) >= 70
    assert list(ENTRIES) == sorted(ENTRIES, key=str.casefold)
    assert set(ENTRIES) >= EVERYDAY
    for term, entry in ENTRIES.items():
        assert re.fullmatch(r"[\w -]+", term)  # it goes into a pattern
        definition = re.split(r"\*Elsewhere|→", entry)[0]
        assert 4 <= len(definition.split()) <= 75, term
        first = re.split(r"(?<=[.:]) ", definition.strip())[0]
        itself = rf"(?<![\w`-]){re.escape(term)}s?(?![\w`-])"
        assert not re.search(itself, first, re.IGNORECASE), first


def test_every_term_is_where_its_entry_says_and_a_moved_one_is_noticed() -> None:
    """Not up to date? `python -m course.classroom.glossary` looks the sections up again."""
    assert len(FIRST_MET.findall(TEXT)) == len(ENTRIES)
    assert located(TEXT) == TEXT
    with pytest.raises(ValueError, match="'perplexity' does not occur in notebook 01"):
        located(re.sub(r"(## perplexity\n\n.+\n\n→ \[notebook )\d\d", r"\g<1>01", TEXT))
    stale = TEXT.replace("#One-step-downhill", "#One-step-uphill")
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


@pytest.mark.parametrize("path", [*PAGES, *LINKED], ids=lambda path: path.name)
def test_every_link_leads_to_a_heading_and_notebooks_are_as_the_tool_leaves_them(
    path: Path,
) -> None:
    links = re.findall(r"\]\(([\w.]+)(?:#([^)\s]*))?\)", prose(path))
    assert links
    for file, heading in links:
        target = NOTEBOOKS / file
        assert target.exists(), file
        assert not heading or unquote(heading) in headings(target), (file, heading)
    if path.suffix == ".ipynb":
        again = nbformat.writes(linked(path, list(ENTRIES))) + "\n"
        same = again == path.read_text(encoding="utf-8")
        assert same, f"run `python -m course.classroom.glossary {path}`"
        assert again.count("(glossary.md#") > 3


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
        # longer terms come first, and a word of every day counts only when it is marked
        (("A batch size is of a batch.",), ("A [batch size](L-size) is of a [batch](L).",)),
        (("The key.", "Each **key**"), ("The key.", "Each **[key](K)**")),
    ],
)  # fmt: skip
def test_the_first_use_is_linked(
    tmp_path: Path, texts: tuple[str, ...], wanted: tuple[str, ...]
) -> None:
    head, code = new_markdown_cell("# Title with a batch"), new_code_cell("batch = 1")
    path = tmp_path / "n.ipynb"
    nbformat.write(new_notebook(cells=[head, *map(new_markdown_cell, texts), code]), path)
    expected = [
        t.replace("(L", "(glossary.md#batch").replace("(K)", "(glossary.md#key)") for t in wanted
    ]
    for _ in range(2):  # and a second time changes nothing
        notebook = linked(path, ["batch", "batch size", "key"])
        assert [cell.source for cell in notebook.cells] == [head.source, *expected, code.source]
        nbformat.write(notebook, path)
