"""The Korean edition: in step with the English, cell by cell, or marked where it is not."""

import ast
import re
from collections import Counter
from pathlib import Path

import nbformat
import pytest

from bertedu.files import read_csv
from course import language
from course.classroom import glossary
from course.exercises import check  # noqa: F401  # fills KNOWN
from course.exercises.judge import KNOWN
from course.exercises.patch import read_mistakes
from course.korean import build, pages
from course.korean.alike import cell_problems, problems
from course.korean.pages import ROOT, Page, hashed, korean, plain, skeleton, terms

PAGES = pages.pages()
NOTEBOOKS = [name for name, page in PAGES.items() if page.source.suffix == ".ipynb"]
# what waits for its Korean: cells, {"05": {"5655d95d"}}; "messages" of exercises, "terms"
WAITING: dict[str, set[str]] = {}


@pytest.mark.parametrize("name", PAGES)
def test_what_is_written_is_as_the_english_is(name: str) -> None:
    """What waits is built in English, with a mark; all else is there, and nothing else differs."""
    wrong = problems(PAGES[name])
    late = {cell for cell, said in wrong.items() if said[0].startswith(("missing", "stale"))}
    waiting = WAITING.get(name, set())
    assert {cell: said for cell, said in wrong.items() if cell not in late & waiting} == {}
    assert waiting <= late, "this is written: take it off the list"


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_built_notebook_has_the_code_the_ids_and_the_outputs_of_the_english(name: str) -> None:
    page = PAGES[name]
    ours, theirs = nbformat.reads(build.built(page), 4), nbformat.read(page.source, 4)
    seen = build.texts(page)
    for a, b in zip(ours.cells, theirs.cells, strict=True):
        assert a.id == b.id
        if a.cell_type == "code":
            assert a == b
        else:
            assert (build.MARK in a.source) == (not seen[a.id][1])
            assert {**a, "source": ""} == {**b, "source": ""}


def test_every_link_of_a_built_page_leads_to_a_heading() -> None:
    made = {page.source.name: build.built(page) for page in PAGES.values() if page.name != "README"}
    texts = {
        name: "\n\n".join(cell.source for cell in nbformat.reads(text, 4).cells)
        if name.endswith(".ipynb")
        else text
        for name, text in made.items()
    }
    there = {
        (name, glossary.anchor(title))
        for name, text in texts.items()
        for title in build.TITLE.findall(pages.GLOSSARY_LINK.sub(r"\1", text))
    }
    for name, text in texts.items():
        for _, file, anchor in build.ANCHOR.findall(text):
            target = file.rsplit("/", 1)[-1] or name
            if target in texts:
                assert (target, anchor) in there, f"{name} leads to {file}#{anchor}"


# -- a small course: what is noticed, and what is built of it

ENGLISH = {
    "head": "# 03 · Scores\n\n**You will** add [scores](glossary.md#score).",
    "text": "## Why `x.T`?\n\nThe [token](glossary.md#token) has 0.67 of 3 million, as $e^2$ says: "
    "see [above](03_a.ipynb#Why-x.T?).",
    "task": "**1. Add (★★☆, 8 minutes).** Add **two** scores.",
    "quiz": "## Quiz\n\n**Which?**\n<details><summary>Rows</summary><b>Yes.</b> A row.</details>\n"
    "<details><summary>Columns</summary>No row there.</details>",
}
KOREAN = {
    "head": "# 03 · 점수\n\n**이 노트북에서는** 점수를 더한다.",
    "text": "## 왜 `x.T`인가?\n\n**토큰**(token)은 $e^2$에 따라 300만의 0.67이다. "
    "[위](03_a.ipynb#Why-x.T?)를 보라.",
    "task": "**1. 더하기 (★★☆, 8분).** 점수 **둘**을 더하라.",
    "quiz": "## 퀴즈\n\n**어느 것인가?**\n"
    "<details><summary>행</summary><b>맞다.</b> 행이다.</details>\n"
    "<details><summary>열</summary>거기에는 행이 없다.</details>",
}


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Page:
    """One notebook, all in Korean."""
    notebook = nbformat.v4.new_notebook()
    notebook.cells = [nbformat.v4.new_markdown_cell(t, id=name) for name, t in ENGLISH.items()]
    notebook.cells.insert(1, nbformat.v4.new_code_cell("print(1)", id="code"))
    one = Page("03", tmp_path / "03_a.ipynb", tmp_path / "ko" / "03_a.md")
    nbformat.write(notebook, one.source)
    pages.write(one, {n: (hashed(ENGLISH[n]), text) for n, text in KOREAN.items()})
    monkeypatch.setattr(build, "pages", lambda: {"03": one})
    for cached in (build.titles, build.anchors):
        monkeypatch.setattr(build, cached.__name__, cached.__wrapped__)
    return one


def seen(page: Page) -> dict[str, str]:
    """The cells of the page as they are built."""
    return {cell.id: cell.source for cell in nbformat.reads(build.built(page), 4).cells}


def change(page: Page, cell: str, old: str, new: str) -> None:
    notebook = nbformat.read(page.source, 4)
    (one,) = (c for c in notebook.cells if c.id == cell)
    assert old in one.source
    one.source = one.source.replace(old, new)
    nbformat.write(notebook, page.source)


def test_a_change_of_one_english_cell_names_its_korean_and_no_other(page: Page) -> None:
    change(page, "text", " has ", "\nhas ")  # neither another line break
    change(page, "text", "(glossary.md#token)", "(glossary.md#token-2)")  # nor another link of ours
    assert problems(page) == {}
    change(page, "task", "Add **two**", "Sum **two**")
    assert [*problems(page)] == ["task"]
    assert problems(page)["task"][0].startswith("stale")
    cells = seen(page)
    assert "Sum **two** scores" in cells["task"]
    assert [name for name, text in cells.items() if build.MARK in text] == ["task"]


@pytest.mark.parametrize(
    ("cell", "old", "new", "said"),
    [
        ("text", "0.67", "0.76", "numbers"),
        ("text", "300만", "30만", "numbers"),
        ("text", "이다.", "이다. 42개다.", "numbers not in the English: 42"),
        ("text", "$e^2$", "$e^3$", "formulas"),
        ("text", "`x.T`", "`x`", "code"),
        ("text", "03_a.ipynb#Why", "03_a.ipynb#When", "links"),
        ("text", "## ", "### ", "headings"),
        ("text", "이다.", "입니다.", "한다체"),
        ("text", "**토큰**(token)은", "**토큰(token)**은", "bold"),
        ("task", "8분", "9분", "exercise"),
        ("task", "★★☆", "★☆☆", "exercise"),
        ("quiz", "<b>맞다.</b> ", "", "quiz answers"),
        ("quiz", "거기에는", "<b>맞다.</b> 거기에는", "quiz answers"),
        ("quiz", "<details><summary>열</summary>거기에는 행이 없다.</details>", "", "tags"),
        ("head", KOREAN["head"], plain(ENGLISH["head"]), "missing"),
    ],
)
def test_what_differs_is_named(page: Page, cell: str, old: str, new: str, said: str) -> None:
    assert old in KOREAN[cell]
    assert cell_problems(ENGLISH[cell], KOREAN[cell]) == []
    found = cell_problems(ENGLISH[cell], KOREAN[cell].replace(old, new, 1))
    assert any(said in one for one in found), found


def test_a_lost_cell_is_missing_and_a_strange_one_an_orphan(page: Page) -> None:
    known = korean(page)
    pages.write(page, {"gone": known.pop("quiz"), **known})
    assert {name: said[0].split(":")[0] for name, said in problems(page).items()} == {
        "quiz": "missing",
        "gone": "orphan",
    }
    skeleton(page)
    assert [*problems(page)] == ["quiz", "gone"]
    assert korean(page)["quiz"][1] == plain(ENGLISH["quiz"])


def test_a_skeleton_keeps_what_is_written_and_shows_what_has_changed(page: Page) -> None:
    change(page, "task", "Add **two**", "Sum **two**")
    skeleton(page)
    skeleton(page)  # once more changes nothing
    text = korean(page)["task"][1]
    assert text.count("the English is now") == 1
    assert "Sum **two** scores" in text
    assert text.endswith(KOREAN["task"])
    assert problems(page)["task"][0].startswith("stale")
    file = page.target.read_text(encoding="utf-8")
    page.target.write_text(pages.STALE.sub("", file), encoding="utf-8")
    assert problems(page) == {}


def test_links_lead_to_korean_headings_and_terms_to_the_glossary(page: Page) -> None:
    cells = seen(page)
    assert f"(03_a.ipynb#{glossary.anchor('왜 `x.T`인가?')})" in cells["text"]
    assert "[**토큰**](glossary.md#token)(token)은" in cells["text"]
    assert "[점수](glossary.md#score)를 더한다" in cells["head"]


def test_a_plan_keeps_its_numbers_and_has_korean_titles(page: Page) -> None:
    row = "| [03](../../notebooks/03_a.ipynb) | Why `x.T`?; Quiz | 2–3 | – | – | 7 | – |"
    source = f"## Plan\n\n<!-- plan one -->\n{row}\n<!-- end -->"
    text = "## 계획\n\n<!-- plan one -->\n<!-- end -->"
    assert cell_problems(source, text) == []
    made = build.with_tables(source, text)
    assert row.replace("Why `x.T`?; Quiz", "왜 `x.T`인가?; 퀴즈") in made
    assert hashed(source) == hashed(source.replace("| 7 |", "| 8 |"))


def test_a_learners_notebook_is_never_written_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    built, mine = tmp_path / "built", tmp_path / "mine"
    built.mkdir()
    monkeypatch.setattr(build, "BUILT", built)
    monkeypatch.setattr(build, "LEARNER", mine)
    for name in ("03_a.ipynb", "glossary.md"):
        (built / name).write_text("first", encoding="utf-8")
    build.hand_out()
    (mine / "03_a.ipynb").write_text("an answer", encoding="utf-8")
    (built / "glossary.md").write_text("second", encoding="utf-8")
    build.hand_out()
    assert (mine / "03_a.ipynb").read_text(encoding="utf-8") == "an answer"
    assert (mine / "glossary.md").read_text(encoding="utf-8") == "second"
    assert "yours is kept" in capsys.readouterr().out


def test_each_term_of_the_glossary_has_one_korean_word() -> None:
    text = PAGES["glossary"].source.read_text(encoding="utf-8")
    entries = re.findall("^## (.+)$", text, re.MULTILINE)
    assert {term for term in entries if not terms().get(term)} == WAITING.get("terms", set())
    rows = [row["term"] for row in read_csv(pages.ENGLISH / "ko" / "terms.csv")]
    assert [term for term, count in Counter(rows).items() if count > 1] == []


# -- what is said: a table beside the English


FIELDS = ("start", "tried", "in_place", "refuses_all", "refuses_right")
# pieces of a sentence that is put together, and what is no message
PIECES = """
your function draws random numbers of its own. Use only what it is given:
your function changes {} in place{}.
ours, until check.{} passes yours
Does it leave torch (.item(), .tolist(), NumPy)? No gradient comes back.
{} of its {} parts {} yours:
{} of {} solved. {}
Question: {} In the text, {}.
{}. The rest are ours.
Its {} parts are still the course's; each one you solve becomes your own.
All {} of its parts are yours.
# {}, kept {}, exercise {}
feed_forward post_norm_layer encoder_layer stack pooler our_name load
""".strip().splitlines()


def exercise_messages() -> set[str]:
    """All that the exercises say, from their own fields."""
    found = set()
    for one in KNOWN.values():
        texts = [getattr(one, field, "") for field in FIELDS] if hasattr(one, "asks") else []
        for written in (getattr(one, "mistakes", ""), getattr(one, "museum", "")):
            texts += [text for mistake in read_mistakes(written or "") for text in mistake[:2]]
        demands = read_mistakes(getattr(one, "demands", ""))
        texts += [f"{what} {likely}" for what, likely, _ in demands]
        found |= {" ".join(text.split()) for text in texts if text}
    return found


def text_of(node: ast.AST) -> str:
    """What is written there, with {} for what changes; "" if it is no text."""
    if isinstance(node, ast.JoinedStr):
        return "".join(v.value if isinstance(v, ast.Constant) else "{}" for v in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def sentences_of(module: str) -> set[str]:
    """The texts of a module that look like sentences."""
    nodes = [*ast.walk(ast.parse((ROOT / f"course/{module}.py").read_text(encoding="utf-8")))]
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    docs = {ast.get_docstring(node, clean=False) for node in nodes if isinstance(node, documented)}
    inside = {id(v) for node in nodes if isinstance(node, ast.JoinedStr) for v in node.values}
    texts = {text_of(node) for node in nodes if id(node) not in inside} - docs
    return {text.strip() for text in texts if len(re.findall(r"(?<![\w.])[a-z]+\b", text)) > 3}


def test_what_every_exercise_says_stands_in_the_table() -> None:
    without = {text for text in exercise_messages() if text not in language.whole()}
    assert without == WAITING.get("messages", set())
    assert {(*row,) for row in language.rows()} == {("where", "english", "korean")}  # no more


def test_the_edition_is_small() -> None:
    files = [*(pages.ENGLISH / "ko").rglob("*"), PAGES["README"].target]
    assert sum(path.stat().st_size for path in files if path.is_file()) < 2_000_000


SPEAKING = ["exercises/judge", "exercises/museum", "exercises/hints", "workshop/my_bert"]


@pytest.mark.parametrize("module", SPEAKING)
def test_each_sentence_that_a_learner_is_told_has_korean_or_is_listed(module: str) -> None:
    said = {text: text.replace("{}", "qz") for text in sentences_of(module)}
    left = {text for text, one in said.items() if language.translated(one) == one}
    assert left - set(PIECES) == set()


def asked_for(path: Path) -> set[str]:
    """The texts for which a module, or a template, asks to have them in the reader's language."""
    written = path.read_text(encoding="utf-8")
    if path.suffix in (".html", ".js"):
        found = re.findall(r'filter spoken %}(.+?){%|spoken\("(.+?)"', written, re.DOTALL)
        return {block or call.replace("%d", "7") for block, call in found}
    calls = (node for node in ast.walk(ast.parse(written)) if isinstance(node, ast.Call))
    asking = (one for one in calls if getattr(one.func, "id", "") in {"spoken", "paragraph"})
    return {text_of(node).replace("{}", "qz") for call in asking for node in call.args}


def test_each_text_for_which_korean_is_asked_has_it() -> None:
    files = [path for kind in ("py", "html", "js") for path in (ROOT / "course").rglob(f"*.{kind}")]
    texts = set().union(*map(asked_for, files))
    assert len(texts) > 40
    left = {one.replace("qz", "{}") for one in texts if language.translated(one) == one}
    assert {one for one in left if re.search("[a-z]{3}", one)} - set(PIECES) == set()


def test_the_table_keeps_what_changes_and_the_code() -> None:
    for row in language.rows():
        theirs, ours = (language.HOLE.findall(row[name]) for name in ("english", "korean"))
        numbered = {int(one) for one in ours if one} or set(range(1, len(ours) + 1))
        assert numbered == set(range(1, len(theirs) + 1)), row
        if row["where"] != "toys":
            code = re.findall(r"\b[a-z_]+\.[a-z_]+\b(?:\()?|\b[a-z_]+\(", row["english"])
            assert [word for word in code if word not in row["korean"]] == [], row


@pytest.mark.parametrize(
    ("text", "korean"),
    [
        ("✗ softmax: 3 of 4 cases come out wrong.", "✗ softmax: 4가지 경우 가운데 3가지가 틀렸다."),
        ("Yours gives 1; it should give 2.", "내 함수는 1, 정답은 2이다."),
        ("Your function returned None.", "함수가 None을 반환했다."),
        ("your function returned a list.", "함수가 목록을 반환했다."),
        ("it should begin with def my_pair(layer):", "이렇게 시작해야 한다. def my_pair(layer):"),
        ("Nobody has ever said this.", "Nobody has ever said this."),
    ],
)
def test_a_message_is_said_in_korean_where_there_is_one(text: str, korean: str) -> None:
    assert language.translated(text) == korean


@pytest.mark.parametrize(
    ("particle", "words"),
    {
        "을": "clip step cat it next_token layer_norm scale stack 손실 3",
        "를": "softmax mask street loop dog adamw loss_of_a_pair 단어 2",
    }.items(),
)
def test_a_particle_follows_the_sound(particle: str, words: str) -> None:
    for word in words.split():
        assert language.filled("{}을(를)", [word]) == word + particle


def test_page_and_kernel_hear_the_same_sounds() -> None:
    assert f"/{language.CLOSED.pattern}/" in language.SHIM.read_text(encoding="utf-8")


def test_a_verdict_is_korean_only_where_korean_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    exercise = KNOWN["softmax"]
    columns = lambda scores: scores.softmax(dim=0)  # noqa: E731
    monkeypatch.delenv("BERTEDU_LANG", raising=False)
    assert "columns sum to 1, rows do not." in exercise.verdict(columns)
    monkeypatch.setenv("BERTEDU_LANG", "ko")
    assert "열의 합은 1인데 행의 합은 1이 아니다." in exercise.verdict(columns)
    assert "짐작: " in exercise.verdict(columns)
    assert exercise.verdict(exercise.right).startswith("✓ softmax: 무작위 표 133개")


def test_a_toy_gets_its_words_only_in_korean(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BERTEDU_LANG", raising=False)
    assert language.page("<p>toy</p>") == "<p>toy</p>"
    monkeypatch.setenv("BERTEDU_LANG", "ko")
    assert "스텝" in language.page("<p>toy</p>")
    assert "WORDS" not in language.shim()
