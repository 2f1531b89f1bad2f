"""What Korean and English must have alike: formulas, code, links, numbers, answers."""

import re
from collections import Counter
from decimal import Decimal

from markdown_it import MarkdownIt

from course.classroom.asked import HEADING
from course.classroom.quiz import OPTION, RIGHT
from course.korean.pages import GLOSSARY_LINK, STALE, Page, english, hashed, korean, plain, terms

STILL_ENGLISH = "missing: still English"
HANGUL = re.compile("[가-힣]")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
FORMULA = re.compile(r"\$\$.+?\$\$|(?<![\\$])\$[^$\n]+(?:\n[^$\n]+)*\$", re.DOTALL)
CODE = re.compile(r"(`+)(?!`)(.+?)(?<!`)\1(?!`)|<code>(.*?)</code>", re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)[^)]*\)")
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
        "quiz answers": [bool(RIGHT.match(why.strip())) for _, why in OPTION.findall(bare)],
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
    if exercises != [(n, s, m) for n, _, s, m in HEADING.findall(text)]:
        found.append("exercise: write **3. 제목 (★★☆, 8분).** with the same number, stars, minutes")
    found += number_problems(source, text)
    if stray_stars(text) > stray_stars(source):
        found.append("bold does not render: **셀프 어텐션**(self-attention)이, not **…(…)**이")
    if polite := POLITE.findall(words_only(text)):
        found.append(f"한다체: {', '.join(polite)}")
    if re.search("[A-Za-z]{3}", words_only(source)) and not HANGUL.search(text):
        found = [STILL_ENGLISH]
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
