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
        items = re.findall(r"<item .*?</item>", package.read(main).decode(), re.DOTALL)
    for one, (name, _, found_options), item in zip(every, read, items, strict=True):
        assert name == one.name
        assert f'title="{name}"' in item
        assert item.count("<response_label ") == len(one.options)
        assert (
            item.count('varname="SCORE">100<') == sum(option.right for option in one.options) == 1
        )
        assert item.count("<itemfeedback ") == sum(bool(option.why) for option in one.options)
        assert len({option.text for option in one.options}) == len(one.options) >= 2
        for option, (right, answer, why) in zip(one.options, found_options, strict=True):
            assert right == option.right
            assert right or len(why.split()) >= 3, (name, answer)
            if "$" not in option.text + option.why:
                assert (answer, why) == (option.text, " ".join(option.why.split()))


def test_neither_the_place_nor_much_else_tells_the_right_answer() -> None:
    every = [one for name in course() for one in questions(name)]
    places = [[option.right for option in one.options].index(True) for one in every]
    for place in range(3):
        assert places.count(place) <= 0.45 * len(every)
    assert every == [one for name in course() for one in questions(name)]  # the same each time
    lengths = [
        ([len(o.text) for o in one.options], place)
        for one, place in zip(every, places, strict=True)
    ]
    longest = sum(some[at] > max(some[:at] + some[at + 1 :]) for some, at in lengths)
    assert longest <= LONGEST * len(every)


# What the specification declares for the elements we use, IMS QTI 1.2.1, ASI XML binding: the
# children of each, in order, and its attributes; those with ! are required, and of (A | B) one.
# Left out are only declared parts that we do not use: they would be refused.
DECLARED = {
    "questestinterop": "(qticomment? (objectbank | assessment | (section | item)+))",
    "assessment": "(qticomment? duration? qtimetadata* rubric* (sectionref | section)+)"
    " ident! title",
    "section": "(qticomment? duration? qtimetadata* rubric* (itemref | item | section)*)"
    " ident! title",
    "item": "(qticomment? duration? itemmetadata? rubric* presentation? resprocessing*"
    " itemfeedback*) ident! title label maxattempts",
    "itemmetadata": "(qtimetadata*)",
    "qtimetadata": "(vocabulary? qtimetadatafield+)",
    "qtimetadatafield": "(fieldlabel fieldentry)",
    "presentation": "(qticomment? (flow | (material | response_lid | response_str)+)) label",
    "material": "(qticomment? (mattext | matimage | matbreak)+ altmaterial*) label",
    "mattext": "() texttype label charset uri",
    "response_lid": "(material? (render_choice | render_extension) material?)"
    " ident! rcardinality=Single|Multiple|Ordered rtiming=Yes|No",
    "render_choice": "((material | response_label | flow_label)* response_na?) shuffle=Yes|No",
    "response_label": "((material | flow_mat)*) ident! rshuffle=Yes|No",
    "resprocessing": "(qticomment? outcomes (respcondition | itemproc_extension)+) scoremodel",
    "outcomes": "(qticomment? (decvar interpretvar*)+)",
    "decvar": "() varname vartype=Integer|String|Decimal|Scientific|Boolean|Enumerated|Set"
    " defaultval minvalue maxvalue members cutvalue",
    "respcondition": "(qticomment? conditionvar setvar* displayfeedback*) continue=Yes|No title",
    "conditionvar": "((not | and | or | unanswered | other | varequal)+)",
    "varequal": "() respident! case=Yes|No index",
    "setvar": "() varname action=Set|Add|Subtract|Multiply|Divide",
    "displayfeedback": "() linkrefid! feedbacktype=Response|Solution|Hint",
    "itemfeedback": "(((flow_mat | material) | solution | hint)+) ident! title",
    "flow_mat": "(qticomment? (flow_mat | material)+) class",
    "fieldlabel": "()",
    "fieldentry": "()",
}
QTI, ONE = (
    "{http://www.imsglobal.org/xsd/ims_qtiasiv1p2}",
    "{http://www.w3.org/2001/XMLSchema-instance}",
)


def invalid(root: ElementTree.Element) -> list[str]:
    """What of a QTI document is not as the specification declares it; nothing if it is valid."""
    wrong = []
    for node in root.iter():
        name = node.tag.removeprefix(QTI)
        if name not in DECLARED:
            wrong.append(f"<{name}> is not declared")
            continue
        content, _, attributes = DECLARED[name].rpartition(")")
        named = (
            f"(?:{word} )" if word.isalnum() or "_" in word else word
            for word in re.findall(r"\w+|\S", content + ")")
        )
        model = "".join(named)
        children = "".join(f"{child.tag.removeprefix(QTI)} " for child in node)
        if not re.fullmatch(model, children):
            wrong.append(f"<{name}> has {children or 'nothing'}: {content})")
        if children and (node.text or "").strip():
            wrong.append(f"<{name}> has text: {node.text}")
        known = dict(one.partition("=")[::2] for one in attributes.replace("!", "").split())
        needed = {one[:-1] for one in attributes.split() if one.endswith("!")}
        given = {key: value for key, value in node.attrib.items() if not key.startswith("{")}
        wrong += [f"<{name}> lacks {one}" for one in needed - given.keys()]
        for key, value in given.items():
            if key not in known or (known[key] and value not in known[key].split("|")):
                wrong.append(f"<{name}> has {key}={value}")
    return wrong


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files of a package with every question of the course."""
    pytest.importorskip("text2qti")
    path = tmp_path_factory.mktemp("qti") / "a.zip"
    assert bertedu("quiz", "--qti", path).exit_code == 0
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_a_package_for_canvas_is_built_as_ims_publishes_it(package: dict[str, bytes]) -> None:
    """Content Packaging 1.1: what the manifest names is there; QTI 1.2: what refers, refers."""
    manifest = ElementTree.fromstring(package["imsmanifest.xml"])
    assert manifest.tag.endswith("}manifest")
    named = {node.attrib["href"] for node in manifest.iter() if node.tag.endswith("}file")}
    assert named <= set(package)
    resources = [node.attrib for node in manifest.iter() if node.tag.endswith("}resource")]
    (main,) = [one for one in resources if one["type"].startswith("imsqti_xmlv1p2")]
    ids = {one["identifier"] for one in resources}
    needed = {n.attrib["identifierref"] for n in manifest.iter() if n.tag.endswith("}dependency")}
    assert needed <= ids
    (path,) = [name for name in named if main["identifier"] in name and "meta" not in name]
    root = ElementTree.fromstring(package[path])
    assert invalid(root) == []
    items = root.findall(f"{QTI}assessment/{QTI}section/{QTI}item")
    every = sum(len(questions(name)) for name in course())
    assert len({item.attrib["ident"] for item in items}) == len(items) == every > 0
    for item in items:
        (lid,) = item.iter(f"{QTI}response_lid")
        assert lid.attrib["rcardinality"] == "Single"
        labels = [one.attrib["ident"] for one in item.iter(f"{QTI}response_label")]
        assert len(set(labels)) == len(labels)
        asked = list(item.iter(f"{QTI}varequal"))
        assert {one.text for one in asked} == set(labels)
        assert {one.attrib["respident"] for one in asked} == {lid.attrib["ident"]}
        told = {one.attrib["linkrefid"] for one in item.iter(f"{QTI}displayfeedback")}
        assert told == {one.attrib["ident"] for one in item.iter(f"{QTI}itemfeedback")}
        scores = [one for one in item.iter(f"{QTI}setvar") if one.attrib["varname"] == "SCORE"]
        assert [one.text for one in scores] == ["100"]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("<outcomes>.*?</outcomes>", "", "<resprocessing> has respcondition"),
        ("(<presentation>.*?</presentation>)(.*?)(</item>)", r"\2\1\3", "<item> has itemmetadata"),
        (' ident="response1"', "", "<response_lid> lacks ident"),
        ('"Single"', '"One"', "rcardinality=One"),
        ("fieldlabel>", "label>", "<label> is not declared"),
        ("<section ", "<section shuffle='1' ", "<section> has shuffle=1"),
    ],
)
def test_a_package_that_is_not_as_declared_is_noticed(
    package: dict[str, bytes], old: str, new: str, said: str
) -> None:
    (main,) = (n for n in package if re.search("text2qti_assessment_.*/text2", n))
    text = re.sub(old, new, package[main].decode(), flags=re.DOTALL)
    assert said in "\n".join(invalid(ElementTree.fromstring(text)))


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
