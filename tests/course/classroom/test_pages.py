"""Pages and decks ask nothing of another host, and a deck shows what fits on a slide."""

import re
from pathlib import Path
from typing import Any

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from course.classroom import pages
from course.classroom.slides import (
    FULL,
    LINES,
    WORDS,
    cut_lines,
    deck,
    lead,
    parts_of,
    pieces,
    teacher_notes,
)

PICTURE = '<img alt="Two &quot;bars&quot;." src="data:image/png;base64,iVBORw0KGgo=">'
LONG = "See [it](02_embeddings.ipynb#x). Why so? " + "It has words. " * WORDS + "The end."
MATHJAX = "mathjax/MathJax.js?config=TeX-AMS-MML_HTMLorMML-full,Safe"
REVEAL = ("reveal/dist/reveal.css", "reveal/dist/reveal.js", "reveal/plugin/zoom/zoom.js")


def displayed(**data: str) -> Any:
    data = {pages.VIEW if kind == "widget" else f"text/{kind}": text for kind, text in data.items()}
    return new_output("display_data", data=data)


@pytest.fixture
def notebook() -> Any:
    """One of each kind of cell, in two slides."""
    shown = [displayed(widget="x", html=PICTURE), displayed(widget="{}", plain="0%|   | 0/9")]
    kinds: list[tuple[str, Any]] = [
        ("slide", new_markdown_cell(f"# 03 · Title\n\n**You will** see\nit.\n\n{LONG}")),
        ("skip", new_code_cell("import secret")),
        ("fragment", new_code_cell("draw()", outputs=shown)),
        ("-", new_markdown_cell("*Figure 1. Two bars.*")),
        ("fragment", new_code_cell("hidden()", metadata={"tags": ["hide-input"]})),
        ("slide", new_code_cell("\n".join(f"line_{i}()" for i in range(2 * LINES)))),
        ("subslide", new_markdown_cell("**2. Do it (★☆☆, 8 minutes).** Write $x^2$ in 100 words.")),
    ]
    for kind, cell in kinds:
        cell.metadata["slideshow"] = {"slide_type": kind}
    state = {"application/vnd.jupyter.widget-state+json": {"state": {}}}
    return new_notebook(cells=[cell for _, cell in kinds], metadata={"widgets": state})


@pytest.mark.parametrize(("template", "ours"), [("page", ()), ("deck", REVEAL)])
def test_what_is_written_asks_nothing_of_another_host_and_hides_the_code_of_pictures(
    notebook: Any, template: str, ours: tuple[str, ...]
) -> None:
    body = pages.converted(notebook, "03_title", template)
    loaded = re.findall(
        r'(?:src|href)="(?!data:)([^"#]+)|import\(["\'](.+?)["\']|@import|url\((.+?)\)', body
    )
    addresses = {address for match in loaded for address in match if address}
    assert {a for a in addresses if not a.startswith(("data:", "'data:"))} == (
        {MATHJAX, "02_embeddings.html", *ours}
    )
    assert not re.search("require.js|jquery", body, re.IGNORECASE)
    assert "0%|" not in body  # a progress bar says nothing on a page
    assert "base64,iVBORw0KGgo=" in body
    assert "<title>03_title</title>" in body
    code = {name: f">{name}<" in body for name in ("line_0", "draw", "secret", "hidden")}
    on_a_page = template == "page"
    assert code == {"line_0": True, "draw": on_a_page, "secret": on_a_page, "hidden": False}


def test_a_deck_is_cut_into_slides_steps_and_pieces_with_notes(notebook: Any) -> None:
    cells = deck(pages.still(notebook)).cells
    made = [cell.metadata.deck for cell in cells]
    assert [one["page"] for one in made] == ["slide", "", "", "", "slide", "", "subslide"]
    assert [one["step"] for one in made] == [0, 0, 1, 1, 0, 0, 0]
    assert [one["kind"] for one in made] == ["", "", "", "caption", "", "", ""]
    assert [one["last"] for one in made] == [True, True, False, True, True, True, True]
    assert (made[2]["notes"], made[-1]["notes"]) == (
        '**To see:** Two "bars".',
        "**Exercise:** 8 minutes.",
    )
    assert cells[0].source == "# 03 · Title\n\n**You will** see\nit."
    long = cells[1].source  # its first sentences; the whole stands in the notes
    assert long.startswith("See [it](02_embeddings.ipynb#x). Why so?")
    assert long.endswith("words. …")
    assert WORDS - 5 < len(long.split()) < WORDS + 5
    body = pages.converted(notebook, "x", "deck").partition("<body")[2]
    assert body.count("<section>") == body.count("</section>") == 2 + 3  # 2 columns, 3 slides
    assert body.count('class="unit') == 6  # the caption is in the unit of its picture
    notes = re.search(r'<aside class="notes tex2jax_ignore">(.*?The end\..*?)</aside>', body, re.S)
    assert notes
    assert "<strong>Ask:</strong> Why so?" in notes[1]
    assert "](" not in made[1]["notes"]


def test_a_long_cell_is_cut_and_no_line_is_lost() -> None:
    lines = [f"line {i}" for i in range(2 * LINES + 3)]
    parts = cut_lines("\n".join(lines))
    assert len(parts) == 3
    assert max(len(part.split("\n")) for part in parts) <= LINES
    assert "\n".join(parts).split("\n") == lines
    assert cut_lines("\n".join(lines[:LINES])) == ["\n".join(lines[:LINES])]
    assert cut_lines("\n") == []
    lines[LINES - 4] = ""  # an empty line is the place to cut
    assert len(cut_lines("\n".join(lines))[0].split("\n")) == LINES - 4


def test_a_long_table_or_list_is_cut_and_each_part_of_a_table_has_the_head() -> None:
    head, row = ["| a |", "|---|"], "| " + "word " * (FULL // 4) + "|"
    table, items = [row] * 4, [f"- {'word ' * (FULL // 4)}{i}" for i in range(5)]
    assert parts_of("\n".join(head + table)) == [
        "\n".join(head + table[:3]),
        "\n".join(head + table[3:]),
    ]
    assert parts_of("\n".join(items)) == ["\n".join(items[i : i + 3]) for i in (0, 3)]
    assert parts_of(LONG) == [LONG]


@pytest.mark.parametrize("whole", ["$a. B$ ", "`a. B` ", "[a. B](x) ", "See Li et al. (2017) "])
def test_what_belongs_together_is_not_cut(whole: str) -> None:
    text = f"One {whole}" + "word " * WORDS + "end."
    assert lead(text) == text
    assert lead("*Figure 1. Look. " + "Word " * WORDS + "end. Last.*") == "*Figure 1. Look. …*"


def test_notes_hold_minutes_questions_and_answers() -> None:
    head = "| minutes | you need |\n|---|---|\n| 65: 20 to read, 45 for exercises | notebook 02 |"
    assert teacher_notes(head) == "**65 minutes:** 20 to read, 45 for exercises."
    quiz = "**Which *sums* are 1?**\n<details><summary>Rows</summary><b>Yes.</b> One?</details>"
    asked, whole = teacher_notes(quiz).split("\n\n", 1)
    assert asked == "**Ask:** Which sums are 1?"
    assert "**Rows:** <b>Yes.</b> One?" in whole
    assert teacher_notes("Nothing to say.") == ""


def test_an_empty_line_in_an_answer_or_a_block_of_code_ends_no_piece() -> None:
    answer = "<details><summary>D</summary>\n\n```python\ne\n\nf\n```\n\n</details>"
    source = f"## A\n\nB\nC\n\n{answer}\n\n```\ng\n\nh\n```"
    found = [piece.source for piece, _ in pieces(new_markdown_cell(source))]
    assert [one.split("\n")[0] for one in found] == ["## A", "<details><summary>D</summary>", "```"]


def test_the_libraries_are_taken_along_without_what_is_not_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for part in pages.PARTS:
        pages.take_along(part, tmp_path)
    files = {path.relative_to(tmp_path).as_posix(): path for path in tmp_path.rglob("*.*")}
    needed = {"mathjax/MathJax.js", "mathjax/config/TeX-AMS-MML_HTMLorMML-full.js", *REVEAL}
    assert needed <= set(files)
    assert sum(path.stat().st_size for path in files.values()) < 4_000_000
    monkeypatch.setattr(pages, "find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match=r"sphinx-revealjs is not.*make slides"):
        pages.take_along("reveal", tmp_path)


def test_markdown_pages_and_contents_link_the_exported_pages(notebook: Any) -> None:
    text = (pages.NOTEBOOKS / "glossary.md").read_text(encoding="utf-8")
    page = pages.converted(new_notebook(cells=[new_markdown_cell(text)]), "glossary")
    for address in ("softmax", "learning-rate", "GELU"):
        assert f'id="{address}"' in page
    assert 'href="02_embeddings.html#' in page
    listed = pages.contents({"03_title": notebook}, deck=True)
    assert "- [03 · Title](03_title.ipynb): see it." in listed
    assert "**S** notes" in listed
