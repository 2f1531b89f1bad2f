"""python -m course quiz: every question of the course, as Moodle and Canvas read it."""

import re
import zipfile
from pathlib import Path
from typing import Any

import pytest
from nbformat.v4 import new_markdown_cell
from tiny_course import NAME, bertedu, save, tiny

from course.classroom.asked import NotebookError, course
from course.classroom.quiz import gift, questions, write_gift

GOOD = """## Quiz

**What is `a_b` = {c}, and $\\alpha: 2$ #1?**
<details><summary>A ~ tilde</summary>No: see [it](glossary.md#x).</details>
<details><summary>$\\nu = 1$</summary><b>Yes.</b></details>"""


@pytest.mark.parametrize("name", course())
def test_each_question_has_one_right_answer_and_every_wrong_one_says_why(name: str) -> None:
    found = questions(name)
    assert len(found) >= 3
    marks = [cell.source.count("<details>") for cell in course()[name] if "Quiz\n" in cell.source]
    assert sum(len(one.options) for one in found) == sum(marks)
    for one in found:
        assert len(one.options) >= 2
        assert sum(option.right for option in one.options) == 1
        assert len({option.text for option in one.options}) == len(one.options)
        for option in one.options:
            assert option.text
            assert option.right or len(option.why.split()) >= 3, (one.name, option)


def read_gift(text: str) -> list[tuple[str, str, list[tuple[bool, str, str]]]]:
    """Read GIFT strictly: an escaped sign stands for itself, any other one means what GIFT says."""
    marks = {f"\\{sign}": chr(0xE000 + n) for n, sign in enumerate("\\~=#{}:")}
    text = re.sub(r"\\[\\~=#{}:]", lambda one: marks[one[0]], text)
    assert "\\" not in text

    def plain(part: str) -> str:
        assert not set("~=#{}:") & set(part), part
        return "".join({v: k[1] for k, v in marks.items()}.get(c, c) for c in part)

    found = []
    for block in text.strip().split("\n\n"):
        whole = re.fullmatch(r"::([^:]+)::\[html\](.+) \{\n((?:[=~].+\n)+)\}", block)
        assert whole, block
        options = []
        for line in whole[3].splitlines():
            answer, mark, why = line[1:].partition("#")
            assert mark
            options.append((line[0] == "=", plain(answer), plain(why)))
        found.append((plain(whole[1]), plain(whole[2]), options))
    return found


def test_gift_holds_every_word_of_every_question(tmp_path: Path) -> None:
    done = bertedu("quiz", "--gift", tmp_path / "all.txt")
    assert done.exit_code == 0, done.output
    read = read_gift((tmp_path / "all.txt").read_text(encoding="utf-8"))
    every = [one for name in course() for one in questions(name)]
    assert (
        f"{len(every)} questions, {sum(len(one.options) for one in every)} options" in done.output
    )
    assert [name for name, _, _ in read] == [one.name for one in every]
    for one, (_, _, options) in zip(every, read, strict=True):
        assert [right for right, _, _ in options] == [option.right for option in one.options]
        for option, (_, answer, why) in zip(one.options, options, strict=True):
            if "$" not in option.text + option.why:
                assert (answer, why) == (option.text, " ".join(option.why.split()))


def quizzed(folder: Path, text: str) -> Any:
    notebook = tiny()
    notebook.cells.append(new_markdown_cell(text, id="quiz"))
    save(notebook, folder / f"{NAME}.ipynb")
    course.cache_clear()
    return questions(NAME)


def test_signs_formulas_and_links_survive(tiny_course: Path) -> None:
    ((name, text, options),) = read_gift("\n\n".join(map(gift, quizzed(tiny_course, GOOD))))
    assert name == "03, question 1"
    assert text == r"What is <code>a_b</code> = {c}, and \(\alpha: 2\) #1?"
    assert options[0] == (False, "A ~ tilde", "No: see it.")
    assert options[1] == (True, r"\(\nu = 1\)", "<b>Yes.</b>")  # \n would begin a line


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("<b>Yes.</b>", "Right."),
        ("No: see", "<b>Yes.</b> See"),
        ("</summary>No", "</sumary>No"),
        ("</details>\n", "</details>\n\nMore.\n\n"),
    ],
)
def test_a_question_unlike_the_others_is_named(tiny_course: Path, old: str, new: str) -> None:
    with pytest.raises(NotebookError, match=r"03_tiny, cell quiz: .*What is"):
        quizzed(tiny_course, GOOD.replace(old, new))


def test_canvas_gets_every_question_with_one_right_answer(tmp_path: Path) -> None:
    pytest.importorskip("text2qti")
    assert bertedu("quiz", "--qti", tmp_path / "all.zip").exit_code == 0
    with zipfile.ZipFile(tmp_path / "all.zip") as package:
        (main,) = (n for n in package.namelist() if re.search("text2qti_assessment_.*/text2", n))
        xml = package.read(main).decode()
    every = [one for name in course() for one in questions(name)]
    items = re.findall(r"<item .*?</item>", xml, re.DOTALL)
    assert len(items) == len(every)
    for one, item in zip(every, items, strict=True):
        assert f'title="{one.name}"' in item
        assert item.count("<response_label ") == len(one.options)
        assert item.count('varname="SCORE">100<') == 1
        assert item.count("<itemfeedback ") == sum(bool(option.why) for option in one.options)


def test_a_quiz_needs_a_file_and_known_notebooks(tmp_path: Path) -> None:
    assert "--gift FILE" in bertedu("quiz").output
    done = bertedu("quiz", "--gift", tmp_path / "x", "99")
    assert done.exit_code == 1
    assert "no notebook begins with '99'" in done.output
    write_gift(questions("03_self_attention"), tmp_path / "x")
    once = (tmp_path / "x").read_text(encoding="utf-8")
    bertedu("quiz", "--gift", tmp_path / "x", "03")
    assert (tmp_path / "x").read_text(encoding="utf-8") == once
