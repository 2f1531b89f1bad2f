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


def displayed(data: dict[str, str]) -> Any:
    return new_output("display_data", data=data)


@pytest.fixture
def notebook() -> Any:
    """One of each kind of cell, in two slides."""
    bar = {pages.VIEW: "{}", "text/plain": "0%|   | 0/9"}
    kinds: list[tuple[str, Any]] = [
        ("slide", new_markdown_cell(f"# 03 · Title\n\n{LONG}")),
        ("skip", new_code_cell("import secret")),
        ("fragment", new_code_cell("draw()", outputs=[displayed({"text/html": PICTURE})])),
        ("-", new_markdown_cell("*Figure 1. Two bars.*")),
        ("fragment", new_code_cell("hidden()", metadata={"tags": ["hide-input"]})),
        ("slide", new_code_cell("\n".join(f"line_{i}()" for i in range(2 * LINES)))),
        ("fragment", new_code_cell("wait()", outputs=[displayed(bar)])),
        ("subslide", new_markdown_cell("**2. Do it (★☆☆, 8 minutes).** Write $x^2$ in 100 words.")),
    ]
    for kind, cell in kinds:
        cell.metadata["slideshow"] = {"slide_type": kind}
    return new_notebook(cells=[cell for _, cell in kinds])


@pytest.mark.parametrize("template", ["page", "deck"])
def test_what_is_written_asks_nothing_of_another_host(notebook: Any, template: str) -> None:
    notebook.metadata["widgets"] = {"application/vnd.jupyter.widget-state+json": {"state": {}}}
    body = pages.converted(notebook, "03_title", template)
    loaded = re.findall(
        r'(?:src|href)="(?!data:)([^"#]+)|import\(["\'](.+?)["\']|@import|url\((.+?)\)', body
    )
    addresses = {address for match in loaded for address in match if address}
    expected = {"mathjax/MathJax.js?config=TeX-AMS-MML_HTMLorMML-full,Safe", "02_embeddings.html"}
    ours = {"reveal/dist/reveal.css", "reveal/dist/reveal.js", "reveal/plugin/zoom/zoom.js"}
    assert {a for a in addresses if not a.startswith(("data:", "'data:"))} == (
        expected | ours if template == "deck" else expected
    )
    assert "require.js" not in body
    assert "jquery" not in body.lower()
    assert "0%|" not in body  # a progress bar says nothing on a page
    assert "<title>03_title</title>" in body


def test_code_of_pictures_is_hidden_and_other_code_is_not(notebook: Any) -> None:
    page, slide = (pages.converted(notebook, "x", name) for name in ("page", "deck"))
    for body in (page, slide):
        assert ">line_0<" in body
    assert ">draw<" in page
    assert ">draw<" not in slide
    assert ">secret<" in page
    assert ">secret<" not in slide
    assert ">hidden<" not in page + slide


def test_a_deck_is_cut_into_slides_steps_and_pieces(notebook: Any) -> None:
    made = [cell.metadata.deck for cell in deck(pages.still(notebook)).cells]
    assert [one["page"] for one in made] == ["slide", "", "", "slide", "", "", "subslide"]
    assert [one["step"] for one in made] == [0, 1, 1, 0, 0, 1, 0]
    assert [one["kind"] for one in made] == ["", "", "caption", "", "", "", ""]
    assert [one["last"] for one in made] == [True, False, True, True, True, True, True]
    body = pages.converted(notebook, "x", "deck").partition("<body")[2]
    assert body.count("<section>") == body.count("</section>") == 2 + 3  # 2 columns, 3 slides
    assert body.count('class="unit') == 6  # the caption is in the unit of its picture


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


def test_long_prose_is_cut_after_a_sentence_and_whole_in_the_notes(notebook: Any) -> None:
    first = deck(notebook).cells[0]
    assert first.source.startswith("# 03 · Title\n\nSee [it](02_embeddings.ipynb#x). Why so?")
    assert first.source.endswith("words. …")
    assert WORDS - 5 < len(first.source.split()) < WORDS + 10
    assert "The end." in first.metadata.deck["notes"]
    assert "](" not in first.metadata.deck["notes"]
    body = pages.converted(notebook, "x", "deck")
    (notes,) = re.findall(
        r'<aside class="notes tex2jax_ignore">(.*?The end\..*?)</aside>', body, re.DOTALL
    )
    assert "<strong>Ask:</strong> Why so?" in notes


@pytest.mark.parametrize(
    "text",
    [
        "One $a. B$ " + "word " * WORDS + "end.",  # a formula is not cut
        "One `a. B` " + "word " * WORDS + "end.",
        "One [a. B](x) " + "word " * WORDS + "end.",
        "See Vaswani et al. (2017) " + "word " * WORDS + "end.",
        "Short. Two.",
    ],
)
def test_what_belongs_together_is_not_cut(text: str) -> None:
    assert lead(text) == text


def test_a_cut_caption_is_still_in_italics() -> None:
    text = "*Figure 1. Look. " + "Word " * WORDS + "end. Last.*"
    assert lead(text) == "*Figure 1. Look. …*"


def test_notes_hold_minutes_questions_answers_and_what_a_picture_shows(notebook: Any) -> None:
    made = [cell.metadata.deck["notes"] for cell in deck(notebook).cells]
    assert made[1] == '**To see:** Two "bars".'
    assert made[-1] == "**Exercise:** 8 minutes."
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


def test_the_libraries_are_taken_along_without_what_is_not_needed(tmp_path: Path) -> None:
    for part in pages.PARTS:
        pages.take_along(part, tmp_path)
    assert (tmp_path / "mathjax" / "MathJax.js").is_file()
    assert (tmp_path / "mathjax" / "config" / "TeX-AMS-MML_HTMLorMML-full.js").is_file()
    reveal = {
        path.relative_to(tmp_path / "reveal").as_posix()
        for path in tmp_path.rglob("reveal/**/*.*s")
    }
    assert {"dist/reveal.css", "dist/reveal.js", "plugin/zoom/zoom.js"} <= reveal
    assert sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()) < 4_000_000


def test_a_missing_package_is_named_with_the_way_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "find_spec", lambda name: None)
    with pytest.raises(
        ModuleNotFoundError, match=r"sphinx-revealjs is not.*`make slides`.*classroom"
    ):
        pages.take_along("reveal", tmp_path)


def test_markdown_pages_and_contents_link_the_exported_pages(notebook: Any) -> None:
    text = (pages.NOTEBOOKS / "glossary.md").read_text(encoding="utf-8")
    page = pages.converted(new_notebook(cells=[new_markdown_cell(text)]), "glossary")
    for address in ("softmax", "learning-rate", "GELU"):
        assert f'id="{address}"' in page
    assert 'href="02_embeddings.html#' in page
    notebook.cells[0].source = "# 03 · Title\n\n**You will** see\nit.\n\nMore."
    listed = pages.contents({"03_title": notebook}, deck=True)
    assert "- [03 · Title](03_title.ipynb): see it." in listed
    assert "**S** notes" in listed
