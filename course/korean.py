"""The Korean edition: one Markdown file a notebook, each cell headed by its id and a hash.

`python -m course.korean skeleton 03` writes into notebooks/ko what 03 lacks, in English, to be
replaced; `check 03` says what is missing, stale or not as the English is; `build` makes build/ko.
The hash is of the English that was translated: when that changes, the Korean is known to be stale.
"""

from __future__ import annotations

import csv
import hashlib
import re
import sys
from collections import Counter
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import NamedTuple

import nbformat
from markdown_it import MarkdownIt

from bertedu.files import write_atomically
from course.classroom.asked import HEADING, NOTEBOOKS

ROOT = NOTEBOOKS.parent
HEAD = re.compile(r"^<!-- ([\w가-힣-]+) ([0-9a-f]{8}) -->$", re.MULTILINE)
STALE = re.compile(r"^<!-- the English is now:\n.*?^-->\n*", re.MULTILINE | re.DOTALL)
GLOSSARY_LINK = re.compile(r"\[([^\]]+)\]\(glossary\.md#([^)]*)\)")
HANGUL = re.compile("[가-힣]")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
FORMULA = re.compile(r"\$\$.+?\$\$|(?<![\\$])\$[^$\n]+(?:\n[^$\n]+)*\$", re.DOTALL)
CODE = re.compile(r"(`+)(?!`)(.+?)(?<!`)\1(?!`)|<code>(.*?)</code>", re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)[^)]*\)")
KOREAN_HEADING = re.compile(r"^\*\*(\d+)\. (.+?) \((★[★☆]*), (\d+)분\)", re.MULTILINE)
UNITS = {"thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
UNITS |= {"천": 10**3, "만": 10**4, "백만": 10**6, "천만": 10**7, "억": 10**8, "조": 10**12}
NUMBER = re.compile(
    r"(?<![A-Za-z0-9_.#])(\d+(?:,\d{3})*(?:\.\d+)?)"
    r"(?:[ -]?(thousand|[mbtr]+illion|천만|백만|[천만억조]))?"
)
# What gives a translation away: said, and left to the writer.
STIFF = re.compile(
    "에 의해|당신|되어[진졌]|에 있어서|[을를] 가지고 있|에 다름 아니|것이 가능|필요로 |로 하여금"
    r"|함에 있어|\S+의 \S+의 \S+의"
)
BIEUP = "".join(chr(code) for code in range(0xAC00 + 17, 0xD7A4, 28))  # syllables that end in ㅂ
POLITE = re.compile(rf"\S*(?:[{BIEUP}]니다|[세어아해예에]요)(?=[.?!\s])")


class Page(NamedTuple):
    """A notebook or document of the course, and where its Korean lies."""

    name: str
    source: Path
    target: Path


@cache
def pages() -> dict[str, Page]:
    """Return all there is to translate, by short names: 03, glossary, lectures/03, README."""
    korean, found = NOTEBOOKS / "ko", {}
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        found[path.stem[:2]] = Page(path.stem[:2], path, korean / f"{path.stem}.md")
    for path in sorted(NOTEBOOKS.glob("*.md")):
        found[path.stem] = Page(path.stem, path, korean / path.name)
    for path in sorted((ROOT / "course" / "classroom" / "lectures").glob("*.md")):
        name = f"lectures/{path.stem}"
        found[name] = Page(name, path, korean / f"{name}.md")
    guide = ROOT / "course" / "classroom" / "guide.md"
    found["guide"] = Page("guide", guide, korean / "guide.md")
    found["README"] = Page("README", ROOT / "README.md", ROOT / "README.ko.md")
    return found


def english(page: Page) -> dict[str, str]:
    """Return the English by id: a notebook's Markdown cells, or a document's sections."""
    if page.source.suffix == ".ipynb":
        cells = nbformat.read(page.source, as_version=4).cells
        return {cell.id: cell.source for cell in cells if cell.cell_type == "markdown"}
    found: dict[str, str] = {}
    for section in re.split("^(?=## )", page.source.read_text(encoding="utf-8"), flags=re.M):
        title = section.splitlines()[0].removeprefix("## ") if section.startswith("## ") else "top"
        name = re.sub(r"[\W_]+", "-", title.lower()).strip("-")
        found[name if name not in found else f"{name}-{len(found)}"] = section.strip()
    return found


def plain(source: str) -> str:
    """Return a source without links into the glossary, which the builder sets anew."""
    return GLOSSARY_LINK.sub(r"\1", source)


def hashed(source: str) -> str:
    """Return eight digits that change when the words do, not when lines are broken elsewhere."""
    return hashlib.sha256(" ".join(plain(source).split()).encode()).hexdigest()[:8]


def korean(page: Page) -> dict[str, tuple[str, str]]:
    """Return hash and text of each cell that is written; ValueError for one written twice."""
    if not page.target.exists():
        return {}
    _, *parts = HEAD.split(page.target.read_text(encoding="utf-8"))
    names = parts[::3]
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise ValueError(f"{page.target.name}: {', '.join(twice)} is there twice: take one away")
    return {n: (h, t.strip()) for n, h, t in zip(names, parts[1::3], parts[2::3], strict=True)}


def write(page: Page, cells: dict[str, tuple[str, str]]) -> None:
    """Write the Korean file of a page."""
    page.target.parent.mkdir(parents=True, exist_ok=True)
    parts = [f"<!-- {name} {digest} -->\n{text}\n" for name, (digest, text) in cells.items()]
    write_atomically(page.target, "\n".join(parts))


def skeleton(page: Page) -> None:
    """Write what is missing in English, and what is stale with the new English above it."""
    own, known = english(page), korean(page)
    made: dict[str, tuple[str, str]] = {}
    for name, source in own.items():
        digest, text = known.get(name, (hashed(source), plain(source)))
        if digest != hashed(source):
            now = f"<!-- the English is now:\n{plain(source)}\n-->\n"
            digest, text = hashed(source), now + STALE.sub("", text)
        made[name] = digest, text
    write(page, made | {name: cell for name, cell in known.items() if name not in own})


# -- what must be the same


def words_only(text: str) -> str:
    """Return a text without code, formulas, HTML tags and the targets of links."""
    for pattern in (FENCE, CODE, FORMULA):
        text = pattern.sub(" ", text)
    return re.sub(r"<[^>]+>", " ", LINK.sub("]", text))


def numbers(text: str) -> list[set[Decimal]]:
    """Return what each number of a text may mean: 2만 is twenty thousand, or 'only 2'."""
    found: list[set[Decimal]] = []
    end, last = -9, 0
    for match in NUMBER.finditer(words_only(text)):
        bare, unit = Decimal(match[1].replace(",", "")), UNITS.get(match[2] or "", 1)
        if 0 <= match.start() - end <= 1 and unit < last:  # 1억 1000만 is one number
            found[-1] = {one + bare * unit for one in found[-1]}
        else:
            found.append({bare * unit, bare} if match[2] in {"만", "천", "조"} else {bare * unit})
        end, last = match.end(), unit if match[2] and HANGUL.match(match[2]) else 0
    return found


def number_problems(source: str, text: str) -> list[str]:
    """Say which numbers are missing, and which are new; small ones may replace words."""
    wanted = Counter(value for values in numbers(source) for value in values)
    given, lost = numbers(text), []
    for value in wanted.elements():
        match = next((values for values in given if value in values), None)
        if match is None:
            lost.append(f"{value:f}")
        else:
            given.remove(match)
    new = [f"{min(v):f}" for v in given if min(v) > 20 and not v & set(wanted)]
    found = [f"numbers missing: {', '.join(lost)}"] if lost else []
    return found + ([f"numbers not in the English: {', '.join(new)}"] if new else [])


def stray_stars(text: str) -> int:
    """Count the asterisks that a reader would see: emphasis that was not understood."""
    text = FORMULA.sub("@0@", text)
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    seen = [token for token in tokens if token.type == "html_block"]
    for token in tokens:
        seen += [child for child in token.children or [] if child.type == "text"]
    return sum(token.content.count("*") for token in seen)


def quiz_answers(text: str) -> list[bool]:
    """Say of each `<details>` whether it is the right answer."""
    return [
        bool(re.match("<b>(Yes|맞다)", why)) for why in re.findall(r"</summary>\s*(.{9})", text)
    ]


def shape(text: str) -> dict[str, object]:
    """Return what must be alike in both languages, by what it is called."""
    bare = FENCE.sub("", text)
    return {
        "code blocks": FENCE.findall(text),
        "code": {(two or three).replace("\n", " ") for _, two, three in CODE.findall(bare)},
        "formulas": {" ".join(one.split()) for one in FORMULA.findall(CODE.sub("", bare))},
        "links": sorted(LINK.findall(bare)),
        "tags": re.findall(r"</?(?:details|summary)\b|<(?:img|table|tr|a)\b", bare),
        "headings": [len(one) for one in re.findall(r"^(#+) ", bare, re.MULTILINE)],
        "table rows": [row.count("|") for row in re.findall(r"^\|.*$", bare, re.MULTILINE)],
        "parts of a slide": re.findall(r"^\{.*\}$", bare, re.MULTILINE),
        "quiz answers": quiz_answers(bare),
    }


def cell_problems(source: str, text: str) -> list[str]:
    """Say what a Korean cell has that its English does not have, and the other way round."""
    source = plain(source)
    found = []
    for (what, theirs), ours in zip(shape(source).items(), shape(text).values(), strict=True):
        if theirs != ours:
            a, b = ([*one] if isinstance(one, set | list) else [] for one in (theirs, ours))
            lost, new = [x for x in a if x not in b], [x for x in b if x not in a]
            detail = f" without {lost}" * bool(lost) + f" with {new}" * bool(new)
            found.append(f"{what} differ:{detail or f' {theirs} became {ours}'}")
    exercises = [(n, stars, minutes) for n, _, stars, minutes in HEADING.findall(source)]
    if exercises != [(n, s, m) for n, _, s, m in KOREAN_HEADING.findall(text)]:
        found.append("exercise: write **3. 제목 (★★☆, 8분).** with the same number, stars, minutes")
    found += number_problems(source, text)
    if stray_stars(text) > stray_stars(source):
        found.append("bold does not render: **셀프 어텐션**(self-attention)이, not **…(…)**이")
    if polite := POLITE.findall(words_only(text)):
        found.append(f"한다체: {', '.join(polite)}")
    if re.search("[A-Za-z]{3}", words_only(source)) and not HANGUL.search(text):
        found = ["missing: still English"]
    return found


def problems(page: Page) -> dict[str, list[str]]:
    """Say by cell what keeps a page from being in step; empty when it is."""
    own, known = english(page), korean(page)
    found: dict[str, list[str]] = {name: ["missing"] for name in own if name not in known}
    for name, (digest, text) in known.items():
        if name not in own:
            found[name] = ["orphan: no such cell in English; move its text, or take it away"]
        elif digest != hashed(own[name]) or STALE.search(text):
            found[name] = ["stale: the English has changed; `skeleton` shows it"]
        elif wrong := cell_problems(own[name], text):
            found[name] = wrong
    return found


@cache
def terms() -> dict[str, str]:
    """Return the Korean word of each term, from terms.csv."""
    with (NOTEBOOKS / "ko" / "terms.csv").open(encoding="utf-8", newline="") as file:
        return {row["term"]: row["korean"] for row in csv.DictReader(file)}


def advice(page: Page) -> dict[str, list[str]]:
    """Say by cell which terms have another word, and what sounds translated."""
    own, found = english(page), {}
    for name, (_, text) in korean(page).items():
        lacks = [f"stiff: {one}" for one in STIFF.findall(text)]
        for _, anchor in GLOSSARY_LINK.findall(own.get(name, "")):
            word = terms().get(anchor.replace("-", " "), terms().get(anchor, ""))
            if word and word not in text:
                lacks.append(f"{anchor}: {word}")
        if lacks:
            found[name] = lacks
    return found


def share(page: Page) -> tuple[int, int]:
    """Return how many cells of a page are in step, and how many there are."""
    own, wrong = english(page), problems(page)
    return sum(name not in wrong for name in own), len(own)


def main(words: list[str]) -> int:
    """Do what the command line says; 1 if something is not in step."""
    command, *names = words or ["help"]
    if command not in {"skeleton", "check"} or (unknown := set(names) - set(pages())):
        known = ", ".join(pages())
        print(f"python -m course.korean skeleton|check [NAME …], with names among {known}")
        if command in {"skeleton", "check"}:
            print(f"unknown: {', '.join(sorted(unknown))}")
        return 2
    wrong = 0
    for page in (pages()[name] for name in names or pages()):
        if command == "skeleton":
            skeleton(page)
            print(f"written: {page.target.relative_to(ROOT)}")
            continue
        for name, said in problems(page).items():
            wrong += 1
            print(f"{page.name} {name}: {'; '.join(said)}")
        for name, said in advice(page).items() if names else ():
            print(f"{page.name} {name}: (advice) {'; '.join(said)}")
        print("{}: {} of {} cells in step".format(page.name, *share(page)))
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
