"""What is said to a learner, in Korean where the environment variable BERTEDU_LANG is ko.

notebooks/ko/messages.csv has the English and the Korean; ``{}`` stands for what changes, which the
Korean may take in another order as ``{2}``, counted from 1. What has no Korean is said in English.
"""

import csv
import json
import os
import re
from functools import cache
from pathlib import Path

TABLE = Path(__file__).parents[1] / "notebooks" / "ko" / "messages.csv"
SHIM = Path(__file__).with_name("language.js")
HOLE = re.compile(r"\{(\d?)\}")
SENTENCES = re.compile(r"(?<=[.:?!]) (?=[A-Z“])")
# 을(를) and the like, after the sound that a word ends with: Hangul, digits, names of letters
PARTICLE = re.compile(
    r"([가-힣]|[0-9]|[A-Za-z]+)([\"'”’)\]`]*)(을\(를\)|이\(가\)|은\(는\)|과\(와\))"
)
CLOSED = re.compile("[013678LMNRlmn]$|[lmn]e$|ng$|(?:^|[^aeiou])[aeiou][pt]$|[aou]ck$")
CODE = re.compile(r"[\".`_]$|(^|\w)\($|^: $")  # before a name of code: check.{}, my_{}({}), "{}"
MARKED = re.compile(r"(\s*[✓✗…!·] (?:[\w.-]+: )?)(.+)", re.DOTALL)


def in_korean() -> bool:
    """Whether a learner reads Korean; looked up at each call, as a test may change it."""
    return os.environ.get("BERTEDU_LANG") == "ko"


@cache
def rows() -> list[dict[str, str]]:
    """Return the table: where, english, korean."""
    with TABLE.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@cache
def whole() -> dict[str, str]:
    """Return what Python says, as it stands."""
    return {row["english"]: row["korean"] for row in rows() if row["where"] != "toys"}


@cache
def patterns() -> list[tuple[re.Pattern[str], str, list[bool]]]:
    """Return what has something that changes, the longest first: the most particular one wins.

    With each goes its Korean, and which of its holes hold code, which stays as it is.
    """
    found = [one for one in whole().items() if HOLE.search(one[0])]
    found.sort(key=lambda one: -len(HOLE.sub("", one[0])))
    made = []
    for english, ours in found:
        around = HOLE.split(english)[::2]
        code = [CODE.search(before) is not None for before in around[:-1]]
        made.append((re.compile("(.+?)".join(map(re.escape, around)), re.DOTALL), ours, code))
    return made


def filled(korean: str, parts: list[str]) -> str:
    """Put parts into a text, in order or by number, and choose the particles after them."""

    def particle(match: re.Match[str]) -> str:
        last, between, both = match.groups()
        code = ord(last[-1]) - 0xAC00
        closed = code % 28 > 0 if code >= 0 else CLOSED.search(last)
        return f"{last}{between}{both[0] if closed else both[2]}"

    left = iter(parts)
    text = HOLE.sub(lambda hole: parts[int(hole[1]) - 1] if hole[1] else next(left), korean)
    return PARTICLE.sub(particle, text)


def translated(text: str) -> str:
    """Return the Korean of a text, at once or sentence by sentence; what has none stays."""
    for one in (text, text[:1].lower() + text[1:]):
        if one in whole():
            return whole()[one]
    if marked := MARKED.fullmatch(text):
        return marked[1] + translated(marked[2])
    for one in (text, text[:1].lower() + text[1:]):
        for pattern, ours, code in patterns():
            if match := pattern.fullmatch(one):
                parts = zip(match.groups(), code, strict=True)
                return filled(ours, [p if is_code else translated(p) for p, is_code in parts])
    sentences = SENTENCES.split(text)
    return " ".join(map(translated, sentences)) if len(sentences) > 1 else text


def spoken(text: str) -> str:
    """Return what is said to a learner in the language that is read."""
    return translated(text) if in_korean() else text


def paragraph(text: str) -> str:
    """Return what is said as HTML."""
    return f"<p>{spoken(text)}</p>"


def page(html: str) -> str:
    """Return what a cell shows with the words of its toys in the language that is read."""
    return f'{html}<script type="module">{shim()}</script>' if in_korean() else html


@cache
def shim() -> str:
    """Return the script that puts Korean words into the toys of a page."""
    words = [[row["english"], row["korean"]] for row in rows() if row["where"] == "toys"]
    data = json.dumps(words, ensure_ascii=False).replace("</", "<\\/")
    return SHIM.read_text(encoding="utf-8").replace("WORDS", data, 1)
