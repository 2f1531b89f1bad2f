"""What is shown in a page: safe, told in words, the same each time, and nobody is asked."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from shown import AROUND, DRAWINGS, HTML, TOYS, Page, in_a_folder

from course.workshop import bertviz, my_bert, play

__all__ = ["in_a_folder"]  # a fixture
HOSTILE = "</script><!-- <img/onerror=a> \"'&amp;\\ \u2028 };"
EVERY: dict[str, Callable[[], Any]] = {
    **{name: lambda make=make: make("word") for name, make in AROUND.items()},
    **TOYS,
    **DRAWINGS,
    "Board": my_bert.board,
}


def data_of(page: str) -> Any:
    """What the script of a page is given."""
    (found,) = re.findall(r"^const (?:data|params) = (.*);$", page, re.MULTILINE)
    return json.loads(found)


def strings(data: Any) -> list[str]:
    if isinstance(data, dict | list):
        values = data.values() if isinstance(data, dict) else data
        return [text for value in values for text in strings(value)]
    return [data] if isinstance(data, str) else []


@pytest.mark.parametrize("name", HTML)
def test_no_word_becomes_a_tag_or_leaves_the_script(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = bertviz.attend
    words = iter(["word", HOSTILE])
    pages = []
    for word in words:

        def attend(*args: Any, word: str = word) -> Any:
            shown = original(*args)
            shown.tokens[1] = word
            return shown

        monkeypatch.setattr(bertviz, "attend", attend)
        pages.append(Page(HTML[name](word)))
    plain, hostile = pages
    assert hostile.tags == plain.tags
    assert "".join(HOSTILE.split()) in "".join(hostile.told.split())
    assert hostile.html.count("</script") <= 1
    if hostile.script:
        assert any(HOSTILE in text for text in strings(data_of(hostile.html)))
        assert "<" not in re.findall("^const (?:data|params) = .*$", hostile.html, re.M)[0]


@pytest.mark.parametrize("name", EVERY)
def test_it_is_told_in_words_the_same_each_time_and_asks_nobody(name: str) -> None:
    shown = EVERY[name]()
    html = shown._repr_html_()
    page = Page(html)
    alone = repr(shown)
    if name == "Board":
        assert shown.headline in page.told
    elif name == "TaggedText":
        assert alone == "[word X] b"
    else:
        assert alone in page.told
        assert len(alone.split()) > 3 or name in AROUND
    assert html == EVERY[name]()._repr_html_()  # an output that differed would fail nbval
    rest = re.sub(r"base64,[\w+/=]+|http://www\.w3\.org/[\w/]*", "", html)
    if "bertviz" not in html:  # others' scripts, read in the browser
        assert not re.search(r"https?:|[\"'`(]//|\b(import|fetch|eval)\(|XMLHttp|WebSocket", rest)
    assert not re.search(r"cdn|require\.config|requirejs|<script[^>]*src|@import", rest)
    assert "Trust" not in html
    assert ("Run the cell in a notebook" in page.told) == bool(page.script)


def test_another_view_has_another_name_so_that_views_on_a_page_do_not_mix() -> None:
    pages = [make() for make in TOYS.values()] + [make("x") for make in AROUND.values()]
    pages += [make("y") for make in AROUND.values()] + [play.dice("Another."), play.dice("A.", 1)]
    names = [
        value
        for shown in pages
        for key, values in Page(shown._repr_html_()).values.items()
        if key in ("data-view", "data-play", "id")
        for value in values
    ]
    scripts = 4
    assert len(names) == len(TOYS) + 2 * scripts + 2
    assert len(set(names)) >= len(names) - 2  # the name of a model is told, not drawn


@pytest.mark.parametrize("name", TOYS)
def test_a_toy_is_one_script_of_its_own_with_its_still_text(name: str) -> None:
    toy = TOYS[name]()
    page = Page(toy._repr_html_())
    assert toy.toy == name
    assert "".join(page.texts["pre"]) == toy.still
    assert data_of(page.html) == json.loads(json.dumps(toy.data))
    assert play.TOYS[name].read_text(encoding="utf-8") in page.script
    assert ("function openBert" in page.script) == ("weights" in toy.data)
    assert page.values.get("href", []) == toy.data.get("weights", [])
    # a name that is given twice is a syntax error: shared files and the toy's own are one script
    names = re.findall(r"^(?:async )?(?:function|const|let) (\w+)", page.script, re.MULTILINE)
    assert len(names) == len(set(names)), sorted(n for n in set(names) if names.count(n) > 1)


def test_every_script_has_a_function_that_fills_it() -> None:
    assert set(play.TOYS) == set(TOYS)
