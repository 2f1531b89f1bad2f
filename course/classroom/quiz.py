"""`python -m course quiz`: the notebooks' questions, for Moodle (GIFT) and Canvas (QTI)."""

import random
import re
from pathlib import Path
from typing import NamedTuple

from nbconvert.filters.markdown import markdown2html

from bertedu.files import replacing, write_atomically
from course.classroom.asked import NotebookError, course

HEADING = re.compile(r"^## .*(?:Quiz|퀴즈)", re.MULTILINE)
OPTION = re.compile(r"<details>\s*<summary>(.*?)</summary>(.*?)</details>", re.DOTALL)
# into the course: nothing is there elsewhere
LINK = re.compile(r"\[([^\]]+)\]\((?!https?:)[^)]*\)")
FORMULA = re.compile(r"(?<!\\)\$([^$]+)\$")
RIGHT = re.compile(r"<b>(?:Yes|맞다)\b")


class Option(NamedTuple):
    """An answer and what is said to whoever gives it, both in HTML with formulas between $."""

    text: str
    why: str
    right: bool


class QuizQuestion(NamedTuple):
    """A question, in Markdown with formulas between $."""

    name: str
    text: str
    options: list[Option]


def questions(name: str) -> list[QuizQuestion]:
    """Return the questions of a notebook, the place of the right answer drawn for each.

    NotebookError for one that is not like the others.
    """
    found: list[QuizQuestion] = []
    for cell in course()[name]:
        if cell.cell_type != "markdown" or not HEADING.search(cell.source):
            continue
        for block in re.split(r"\n\s*\n(?=\*\*)", cell.source)[1:]:
            text, mark, rest = LINK.sub(r"\1", block).partition("<details>")
            options = [
                Option(option.strip(), why.strip(), bool(RIGHT.match(why.strip())))
                for option, why in OPTION.findall(mark + rest)
            ]
            beside = OPTION.sub("", mark + rest).strip()
            whole = len(options) == block.count("<details") and not beside
            if not whole or sum(one.right for one in options) != 1:
                raise NotebookError(
                    f"{name}, cell {cell.id}: a question needs options alone, and exactly one that "
                    f"says <b>Yes.</b>: {text.strip()[:60]}"
                )
            title = f"{name[:2]}, question {len(found) + 1}"
            random.Random(title).shuffle(options)  # the same place each time, and no habit in it
            found.append(QuizQuestion(title, re.sub(r"^\*\*|\*\*$", "", text.strip()), options))
    return found


def gift_text(html: str) -> str:
    r"""Write HTML so that GIFT takes each sign for itself, on one line, formulas as \(…\)."""
    html = FORMULA.sub(r"\\(\1\\)", html)
    return re.sub(r"([\\~=#{}:])", r"\\\1", " ".join(html.split()))


def gift(question: QuizQuestion) -> str:
    """Return a question in GIFT, Moodle's text format."""
    html = re.sub(r"^<p>|</p>$", "", markdown2html(question.text).strip())
    lines = [f"::{gift_text(question.name)}::[html]{gift_text(html)} {{"]
    for one in question.options:
        lines.append(f"{'=' if one.right else '~'}{gift_text(one.text)}#{gift_text(one.why)}")
    return "\n".join([*lines, "}"])


def write_gift(found: list[QuizQuestion], path: Path) -> None:
    """Write questions for Moodle: Question bank, Import, GIFT format."""
    write_atomically(path, "\n\n".join(map(gift, found)) + "\n")


def qti_source(found: list[QuizQuestion]) -> str:
    """Return questions as text2qti reads them: Markdown, with numbers, letters and a star."""
    lines = ["Quiz title: bertedu"]
    for number, one in enumerate(found, start=1):
        lines += ["", f"Title: {one.name}", f"{number}. {' '.join(one.text.split())}"]
        for letter, option in zip("abcdefgh", one.options, strict=False):
            mark = "*" if option.right else ""
            lines.append(f"{mark}{letter}) {' '.join(option.text.split())}")
            if option.why:
                lines.append(f"... {' '.join(option.why.split())}")
    return "\n".join(lines) + "\n"


def write_qti(found: list[QuizQuestion], path: Path) -> None:
    """Write questions for Canvas: Settings, Import Course Content, QTI .zip file."""
    try:
        from text2qti.config import Config
        from text2qti.qti import QTI
        from text2qti.quiz import Quiz
    except ModuleNotFoundError:
        raise NotebookError(
            "QTI needs text2qti: python -m pip install -c constraints.txt -e '.[classroom]'"
        ) from None
    quiz = Quiz(qti_source(found), config=Config())
    with replacing(path) as part:
        QTI(quiz).save(part)
