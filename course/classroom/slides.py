"""A notebook cut into the pieces of a deck, each with its notes for the teacher.

The template `templates/deck` draws them; its script cuts what is too tall for a slide.
"""

import html
import re
from collections.abc import Iterator
from typing import Any

from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from course.classroom.asked import LINK

WORDS = 45  # of a paragraph that a slide shows; whole sentences, and the rest is in the notes
FULL = 100  # words of a table or a list, if it has more than one row or item
LINES = 19  # of code, or of what it prints, on one slide
# Text up to an empty line; one inside a folded answer or a fenced block ends nothing.
BLOCK = re.compile(r"(?:<details>.*?</details>|```.*?```|\S|\s(?!\s*\n)|\n(?!\s*\n))+", re.DOTALL)
ANSWER = re.compile(r"<details><summary>(.*?)</summary>(.*?)</details>", re.DOTALL)
ITEM = re.compile(r"\n(?=(?:[-*]|\d+\.) )")
END = r"(?:(?<=[.?!])|(?<=[.?!][)*”\"])|(?<=[.?!]\*\*))(?<!et al\.)(?<!e\.g\.)(?<!i\.e\.)"
SENTENCE = re.compile(END + r"\s+(?=[^a-z])")


def deck(notebook: Any) -> Any:
    """Return a copy of a notebook in which every cell is one piece of a slide.

    What the template needs stands in the ``deck`` of a piece's metadata: whether it begins a
    ``page``; its ``step`` among the fragments, 0 if it is there from the start; its ``kind``, a
    caption (which stays with what is above it) or only a heading; and its ``notes``, as Markdown.
    """
    cells: list[Any] = []
    step, page = 0, ""
    for cell in notebook.cells:
        kind = cell.metadata.get("slideshow", {}).get("slide_type", "-")
        if kind in ("skip", "notes"):
            continue
        if kind in ("slide", "subslide"):
            step, page = 0, "slide" if "slide" in (kind, page) else kind
        step += kind == "fragment"
        for piece, notes in pieces(cell):
            caption = re.match(r"\*[^*]", piece.source) and cells and not cells[-1].source
            only_heading = re.fullmatch(r"(#.*\s*)+", piece.source) and "only-heading"
            look = "caption" if caption and not page else only_heading
            piece.metadata.deck = {"page": page, "step": step, "kind": look or "", "notes": notes}
            cells, page = [*cells, piece], ""
    for i, piece in enumerate(cells):
        after = cells[i + 1].metadata.deck["kind"] if cells[i + 1 :] else ""
        piece.metadata.deck |= {"later": i > 0, "last": after != "caption"}
    return new_notebook(cells=cells, metadata=notebook.metadata)


def pieces(cell: Any) -> Iterator[tuple[Any, str]]:
    """Yield the pieces of a cell and the notes of each."""
    if cell.cell_type == "markdown":
        heading = ""
        for block in map(str.strip, BLOCK.findall(cell.source)):
            if block.startswith("#") and "\n" not in block:
                heading += block + "\n\n"
                continue
            for part in parts_of(block):
                yield new_markdown_cell(heading + shortened(part)), teacher_notes(part)
                heading = ""
        if heading:
            yield new_markdown_cell(heading), ""
        return
    rich = [one for one in cell.outputs if "text/html" in one.get("data", {})]
    if not rich and "hide-input" not in cell.metadata.get("tags", []):
        for lines in cut_lines(cell.source):
            yield new_code_cell(lines), ""
    hidden = {"tags": ["hide-input"]}
    for output in cell.outputs:
        if output in rich:
            said = re.findall(r'<img alt="([^"]*)"', output.data["text/html"])[:1]
            notes = "".join(f"**To see:** {html.unescape(alt)}" for alt in said)
            yield new_code_cell(outputs=[output], metadata=hidden), notes
            continue
        text = output.get("text") or output.get("data", {}).get("text/plain", "")
        for lines in cut_lines(text):
            printed = new_output("stream", name="stdout", text=lines)
            yield new_code_cell(outputs=[printed], metadata=hidden), ""


def cut_lines(text: str) -> list[str]:
    """Cut a text of more than LINES lines, at empty lines where there are some."""
    lines, parts = text.strip("\n").split("\n"), []
    while len(lines) > LINES:
        empty = [i for i in range(LINES // 2, LINES) if not lines[i].strip()]
        at = empty[-1] if empty else -(-len(lines) // -(-len(lines) // LINES))
        parts.append("\n".join(lines[:at]))
        lines = lines[at + bool(empty) :]
    return [*parts, "\n".join(lines)] if any(map(str.strip, lines)) else parts


def parts_of(block: str) -> list[str]:
    """Cut a long list, or a long table into some with the same head; leave other text whole."""
    if block.startswith("|"):
        first, second, *items = block.split("\n")
        head = f"{first}\n{second}\n"
    else:
        head, items = "", [block] if "<details" in block else ITEM.split(block)
    parts: list[list[str]] = [[]]
    for item in items:
        if parts[-1] and len(" ".join([*parts[-1], item]).split()) > FULL:
            parts.append([])
        parts[-1].append(item)
    return [head + "\n".join(part) for part in parts]


def shortened(block: str) -> str:
    """Return what a slide shows of a block: its first sentences, or the first of each list item."""
    if re.match(r"\*\*\d+\. |\||```|\$\$|<", block):  # an exercise is shown whole, as tables are
        return block
    text, answers = re.match(r"(.*?)((?:<details>.*)?)$", block, re.DOTALL).groups()  # type: ignore[union-attr]
    return "\n".join(map(lead, ITEM.split(text.strip()))) + "\n" * bool(answers) + answers


def lead(text: str) -> str:
    """Return the first sentences of a text, WORDS words of them if the first one is not longer."""
    taken = ""
    for end in [match.end() for match in SENTENCE.finditer(text)] + [len(text)]:
        whole = all(text[:end].count(mark) % 2 == 0 for mark in ("$", "`", "**"))
        if taken and len(text[:end].split()) > WORDS:
            italics = text.startswith("*") and not text.startswith("**")
            return f"{taken.rstrip()} …" + "*" * (italics and taken.count("*") % 2)
        if whole and text[:end].count("[") == text[:end].count("]"):
            taken = text[:end]
    return text


def teacher_notes(block: str) -> str:
    """Return notes on a block: minutes, questions to ask, and what its slide leaves out."""
    plain = LINK.sub(r"\1", block)
    asked = ANSWER.sub("", plain)
    notes = []
    if minutes := re.match(r"\*\*\d+\. .*?(\d+ minutes)", plain):
        notes.append(f"**Exercise:** {minutes[1]}.")
    if minutes := re.search(r"^\| *(\d+): (.*?) *\|", plain, re.MULTILINE):
        notes.append(f"**{minutes[1]} minutes:** {minutes[2]}.")
    sentences = [] if asked.startswith(("|", "```")) else SENTENCE.split(asked.replace("*", ""))
    if questions := [one.strip() for one in sentences if one.strip().endswith("?")]:
        notes.append("**Ask:** " + " ".join(questions))
    if ANSWER.search(plain) or shortened(block) != block:
        notes.append(ANSWER.sub(r"\n\n**\1:** \2\n", plain))
    return "\n\n".join(notes).strip()
