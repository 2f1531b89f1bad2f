"""What toys, machine and view say to a reader of Korean: all of it, whatever is done with them."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from acts import SLIDE, walk
from shown import TOYS, in_a_folder
from test_play_in_browser import PASSAGE, UNREAD, WALKS, own
from test_view_in_browser import WALKS as VIEW_WALKS

from bertedu.text.fast_tokenizer import load_vocabulary
from course import language
from course.workshop.machine import Machine

__all__ = ["in_a_folder"]  # a fixture
Show = Callable[..., Any]
TOKENS = re.findall('const TOKENS = "(.+)"', language.SHIM.read_text(encoding="utf-8"))[0]
# names, guesses, and what a reader sees of formulas and code
LATIN = re.compile(
    r"^,? ?\S+ [\d.]+ %$|“[^”]*”|\[\w+\]|\b(?:BERT|LTR|RTL|GELU|LayerNorm|IsNext|NotNext|Python"
    r"|bias|query|key|value|ids?|softmax|bert-\S+|bertedu\S*|no-nsp\S*)\b"
)
# keeps all texts and labels that come up outside tokens, each with the tag of its element
RECORD = """([tokens, labels]) => {
  const heard = globalThis.heard = {};
  const hear = (text, at) => { if (/[a-z]{2}/i.test(text)) heard[text.trim()] = at; };
  const label = (node) => labels.forEach((name) =>
    node.hasAttribute(name) && hear(node.getAttribute(name), name));
  const walk = (node) => {
    if (node.nodeType === Node.TEXT_NODE) {
      const at = node.parentElement;
      if (at && !at.closest(tokens)) hear(node.data, at.closest(".bars") ? "bars" : at.localName);
    } else if (node.nodeType === Node.ELEMENT_NODE) {
      label(node);
      node.childNodes.forEach(walk);
    }
  };
  for (const root of document.querySelectorAll("[class^=bertedu-]")) {
    walk(root);
    new MutationObserver((changes) => changes.forEach(({ target, addedNodes }) => {
      addedNodes.forEach(walk);
      walk(target);
    })).observe(root, { subtree: true, childList: true, characterData: true, attributes: true });
  }
}"""
LABELS = ["aria-label", "aria-valuetext", "placeholder", "title"]
# what the script of the Korean edition makes of some texts
SAID = """(texts) => {
  const root = document.createElement("div");
  root.className = "bertedu-said";
  document.body.append(root);
  for (const text of texts) root.appendChild(document.createElement("span")).textContent = text;
  const shim = document.createElement("script");
  shim.textContent = %s;
  document.body.append(shim);
  return [...root.children].map((one) => one.textContent);
}"""


PRESS = """(n) => {
  const button = document.querySelectorAll("button")[n];
  if (button?.checkVisibility()) button.click();
}"""


def use(page: Any) -> None:
    """Press, move, choose and fill all that there is, also with what cannot be read."""
    for node in page.locator("select:visible").all():
        for value in range(node.locator("option").count()):
            node.select_option(index=value)
    for node in page.locator("input[type=range]").all():
        for end in ("max", "min"):
            node.evaluate(SLIDE, node.get_attribute(end))
    for number in range(40):  # some take others away
        page.evaluate(PRESS, number)
    for text in ("", "word " * 200, UNREAD):
        for node in page.locator("textarea:visible, input[type=text]:visible").all():
            before = node.input_value()
            node.fill(text)
            node.fill(before)


def texts_in(data: Any) -> str:
    """The texts that a toy was given."""
    if isinstance(data, dict | list | tuple):
        return " ".join(map(texts_in, data.values() if isinstance(data, dict) else data))
    return str(data).lower()


def still_english(page: Any, given: str) -> list[str]:
    """The texts that were heard and have a sentence without Korean, beside names and tokens.

    What is made of the words that a toy was ``given``, or their pieces, is the reader's.
    """
    heard = page.evaluate("heard")
    names = {one for one, at in heard.items() if at in {"bars", "option"}} & {*load_vocabulary()}
    texts = [
        text
        for text in heard.keys() - names
        if not all(word in given for word in re.findall("[a-z]+", LATIN.sub("", text).lower()))
    ]
    said = page.evaluate(SAID % json.dumps(language.shim()), texts)
    return [
        text
        for text, ours in zip(texts, said, strict=True)
        for part in language.SENTENCES.split(LATIN.sub("", ours))
        if re.search("[a-zA-Z]{2}", part) and not re.search("[가-힣]", part)
    ]


ALL: dict[str, tuple[Callable[[], Any], list[tuple[Any, ...]]]] = {
    **{name: (make, dict(WALKS).get(name, [])) for name, make in TOYS.items()},
    **{f"view {n}": one for n, one in enumerate(VIEW_WALKS)},
    "pair": (lambda: own("classification", "One.", "Two."), []),
    "choice": (lambda: own("choice", "She sang.", "It was loud.", "It was blue."), []),
    "tagging": (lambda: own("tagging", "Ada saw London."), []),
    "span": (lambda: own("span", "painter and teacher", PASSAGE), []),
    "machine": (Machine, [("press", "Tab"), *[("press", "ArrowRight")] * 40]),
}


@pytest.mark.parametrize("name", ALL)
def test_all_that_is_said_has_korean(show: Show, name: str) -> None:
    make, steps = ALL[name]
    page = show(view := make())
    page.evaluate(RECORD, [TOKENS, LABELS])
    walk(page, *steps)
    use(page)
    page.wait_for_timeout(300)
    data = view.data() if callable(view.data) else view.data
    assert still_english(page, texts_in(data)) == []
