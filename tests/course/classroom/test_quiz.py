"""python -m course quiz: every question of the course, as Moodle and Canvas read it."""

import re
import zipfile
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from nbformat.v4 import new_markdown_cell
from tiny_course import NAME, bertedu, save, tiny

from course.classroom.asked import NotebookError, course
from course.classroom.quiz import gift, questions

GOOD = """## Quiz

**What is `a_b` = {c}, and $\\alpha: 2$ #1?**
<details><summary>A ~ tilde</summary>No: see [it](glossary.md#x).</details>
<details><summary>$\\nu = 1$</summary><b>Yes.</b></details>"""
LONGEST = 0.4  # share of the questions whose right answer is longer than all others
QTI = "{http://www.imsglobal.org/xsd/ims_qtiasiv1p2}"
Read = list[tuple[str, str, list[tuple[bool, str, str]]]]


def read_gift(text: str) -> Read:
    """Read GIFT strictly: an escaped sign stands for itself, any other one means what GIFT says."""
    marks = {f"\\{sign}": chr(0xE000 + n) for n, sign in enumerate("\\~=#{}:")}
    text = re.sub(r"\\[\\~=#{}:]", lambda one: marks[one[0]], text)
    assert "\\" not in text

    def plain(part: str) -> str:
        assert not set("~=#{}:") & set(part), part
        return "".join({v: k[1] for k, v in marks.items()}.get(c, c) for c in part)

    found = []
    for block in text.strip().split("\n\n"):
        whole = re.fullmatch(r"::([^:]+)::\[html\](.+) \{\n((?:[=~][^#\n]+#.*\n)+)\}", block)
        assert whole, block
        answers = [(one[0] == "=", *one[1:].split("#")) for one in whole[3].splitlines()]
        options = [(right, plain(answer), plain(why)) for right, answer, why in answers]
        found.append((plain(whole[1]), plain(whole[2]), options))
    return found


def test_moodle_and_canvas_get_every_word_of_every_question(tmp_path: Path) -> None:
    pytest.importorskip("text2qti")
    done = bertedu("quiz", "--gift", tmp_path / "all.txt", "--qti", tmp_path / "all.zip")
    assert done.exit_code == 0, done.output
    found = {name: questions(name) for name in course()}
    every = [one for some in found.values() for one in some]
    options = sum(len(one.options) for one in every)
    assert min(map(len, found.values())) >= 2
    assert f"{len(every)} questions, {options} options" in done.output
    cells = [c for some in course().values() for c in some if "Quiz\n" in c.source]
    assert options == sum(cell.source.count("<details>") for cell in cells)
    read = read_gift((tmp_path / "all.txt").read_text(encoding="utf-8"))
    with zipfile.ZipFile(tmp_path / "all.zip") as package:
        (main,) = (n for n in package.namelist() if re.search("text2qti_assessment_.*/text2", n))
        items = [*ElementTree.fromstring(package.read(main)).iter(f"{QTI}item")]
    for one, (name, _, found_options), item in zip(every, read, items, strict=True):
        assert name == one.name
        assert item.attrib["title"] == name
        labels = [label.attrib["ident"] for label in item.iter(f"{QTI}response_label")]
        assert len(set(labels)) == len(labels) == len(one.options)
        (right_one,) = (
            condition.find(f".//{QTI}varequal").text
            for condition in item.iter(f"{QTI}respcondition")
            if [score.text for score in condition.iter(f"{QTI}setvar")] == ["100"]
        )
        assert [label == right_one for label in labels] == [o.right for o in one.options]
        assert len([*item.iter(f"{QTI}itemfeedback")]) == sum(bool(o.why) for o in one.options)
        assert len({option.text for option in one.options}) == len(one.options) >= 2
        for option, (right, answer, why) in zip(one.options, found_options, strict=True):
            assert right == option.right
            assert right or len(why.split()) >= 3, (name, answer)
            if "$" not in option.text + option.why:
                assert (answer, why) == (option.text, " ".join(option.why.split()))


def test_neither_the_place_nor_much_else_tells_the_right_answer() -> None:
    every = [one for name in course() for one in questions(name)]
    places = [[option.right for option in one.options].index(True) for one in every]
    assert max(map(places.count, range(3))) <= 0.45 * len(every)
    assert every == [one for name in course() for one in questions(name)]  # the same each time
    lengths = [[len(option.text) for option in one.options] for one in every]
    pairs = zip(lengths, places, strict=True)
    longest = sum(some[at] > max(some[:at] + some[at + 1 :]) for some, at in pairs)
    assert longest <= LONGEST * len(every)


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
    assert sorted(options) == [
        (False, "A ~ tilde", "No: see it."),
        (True, r"\(\nu = 1\)", "<b>Yes.</b>"),  # \n would begin a line
    ]


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


def test_a_quiz_needs_a_file_and_known_notebooks(tmp_path: Path) -> None:
    assert "--gift FILE" in bertedu("quiz").output
    done = bertedu("quiz", "--gift", tmp_path / "x", "99")
    assert done.exit_code == 1
    assert "no notebook begins with '99'" in done.output
    assert bertedu("quiz", "--gift", tmp_path / "x", "03").exit_code == 0
    assert {name[:2] for name, *_ in read_gift((tmp_path / "x").read_text("utf-8"))} == {"03"}
