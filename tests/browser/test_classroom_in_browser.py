"""Every deck and every page in Chromium, from the file system, without a network."""

import re
from pathlib import Path
from typing import Any

import pytest

from course.classroom import pages

NAMES = sorted(path.stem for path in pages.NOTEBOOKS.glob("*.ipynb"))
TEXTS = ["index", "glossary", "reading_list"]
# From six picture heights away, a capital of 28 px type on 720 px is 16 minutes of arc high, the
# least that ISO 9241-303 allows; 20 px, for code and tables, are as much from four.
# No line may fall below 15 px: from five, twice what an eye with normal sight can tell apart.
TEXT, LEAST = 20, 15

# For each slide: is something cut off, and how large is its smallest type and most of its type?
MEASURE = """() => Reveal.getSlides().map((slide) => {
  const {h, v} = Reveal.getIndices(slide);
  Reveal.slide(h, v);
  const sizes = [];
  let right = 0;
  const texts = document.createTreeWalker(slide, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const text = texts.currentNode, parent = text.parentElement;
    if (!text.data.trim() || !parent.checkVisibility({visibilityProperty: true})) continue;
    if (parent.closest("svg, .MathJax, script, style, .bertedu-play, .bertedu-attention, "
      + ".bertedu-machine, .bertedu-bertviz")) continue;
    const range = document.createRange();
    range.selectNodeContents(text);
    right = Math.max(right, range.getBoundingClientRect().right);
    let size = parseFloat(getComputedStyle(parent).fontSize);
    for (let node = parent; node !== slide; node = node.parentElement)
      size *= parseFloat(node.style.zoom) || 1;
    sizes.push(...Array(text.data.trim().length).fill(size));
  }
  sizes.sort((a, b) => a - b);
  return {
    at: `${h}/${v} ` + slide.innerText.slice(0, 60),
    over: slide.scrollHeight > 721 || slide.scrollWidth > 1281 || right > 1281,
    least: sizes[0] ?? 99, middle: sizes[sizes.length >> 1] ?? 99,
  };
})"""


class Opened:
    """A page from a file, with what went wrong on it."""

    def __init__(self, browser: Any, path: Path, ready: str) -> None:
        """Open it offline, at the size of a projector, and wait until the selector is there."""
        viewport = {"width": 1280, "height": 720}
        self.context = browser.new_context(viewport=viewport, offline=True)
        self.page = self.context.new_page()
        self.wrong: list[str] = []
        self.page.on("pageerror", lambda error: self.wrong.append(f"{path.name}: {error}"))
        self.context.on("request", lambda request: self.asked(request.url))
        self.page.goto(path.as_uri())
        self.page.wait_for_selector(ready, state="attached", timeout=60_000)
        # alive, or without the weights of a model that its notebook has not trained here
        self.page.wait_for_function(
            """[...document.querySelectorAll(".bertedu-play")].every((toy) => toy.matches(".alive")
            || /has no model .(topic|description|answer|entities|tiny)/.test(toy.textContent))"""
        )

    def asked(self, url: str) -> None:
        if not url.startswith(("file:", "data:", "blob:", "about:")):
            self.wrong.append(f"asks for {url}")

    def formulas(self) -> tuple[int, int, str]:
        """Count formulas that are drawn and those that failed; what is left of the raw ones."""
        drawn, failed, text = self.page.evaluate(
            """() => [document.querySelectorAll(".MathJax").length,
            document.querySelectorAll(".MathJax_Error, .merror").length,
            [...document.querySelectorAll(".jp-RenderedMarkdown")].map((n) => n.innerText).join()
            ]"""
        )
        return drawn, failed, "".join(re.findall(r"\$[^$\n]{1,80}\\[a-z]+[^$\n]*\$", text))


@pytest.fixture(scope="module", params=["slides", "html"])
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp(request.param)
    pages.write(folder, deck=request.param == "slides")
    return folder


@pytest.fixture(scope="module")
def opened(browser: Any, written: Path) -> dict[str, Any]:
    """What was seen of every page of a folder; each is closed before the next one opens."""
    deck = "slides" in written.name
    seen: dict[str, Any] = {"deck": deck, "slides": [], "wrong": [], "folder": written}
    for name in NAMES + TEXTS:
        is_deck = deck and name in NAMES
        one = Opened(browser, written / f"{name}.html", "body.ready" if is_deck else "body")
        one.page.wait_for_function("MathJax.isReady && !MathJax.Hub.queue.pending")
        seen["wrong"] += one.wrong
        seen[name] = one.formulas()
        if is_deck:
            one.page.evaluate("Reveal.configure({fragments: false})")
            seen["slides"] += [row | {"deck": name} for row in one.page.evaluate(MEASURE)]
        one.context.close()
    return seen


def test_nothing_is_asked_of_another_host_and_nothing_fails(opened: dict[str, Any]) -> None:
    assert opened["wrong"] == []


def test_formulas_are_drawn(opened: dict[str, Any]) -> None:
    assert opened["03_self_attention"][0] >= (25 if opened["deck"] else 50)
    for name in NAMES:
        assert opened[name][1:] == (0, ""), name


def test_slides_show_all_of_themselves_in_type_that_the_last_row_can_read(
    opened: dict[str, Any],
) -> None:
    if not opened["deck"]:
        pytest.skip("pages have no slides")
    rows = opened["slides"]
    assert len(rows) > 20 * len(NAMES)
    over = [f"{row['deck']} {row['at']}" for row in rows if row["over"]]
    assert len(over) <= 0.01 * len(rows), over
    assert [row for row in rows if row["least"] < LEAST] == []
    assert sum(row["middle"] >= TEXT for row in rows) >= 0.95 * len(rows)


def test_a_toy_works_on_a_slide_and_on_a_page(browser: Any, written: Path) -> None:
    """Layer norm: another number in, other bars out."""
    deck = "slides" in written.name
    one = Opened(browser, written / "04_encoder.html", "body.ready" if deck else "body")
    toy = one.page.locator(".bertedu-play").first
    if deck:
        one.page.evaluate(
            """() => { const section = document.querySelector(".bertedu-play").closest("section");
            const {h, v} = Reveal.getIndices(section); Reveal.slide(h, v, 99); }"""
        )
    before = toy.inner_html()
    toy.locator("input[type=range]").first.press("ArrowRight")
    assert toy.inner_html() != before
    one.page.wait_for_selector(".bertedu-machine h3", state="attached", timeout=60_000)
    assert one.page.locator(".bertedu-machine section").count() == 0  # to reveal.js, a slide
    if deck:  # no step of the machine lies below the edge
        edge = """() => { const machine = document.querySelector(".bertedu-machine");
          const section = machine.closest("section"), {h, v} = Reveal.getIndices(section);
          const stage = machine.querySelector(".stage"), {bottom} = machine.getBoundingClientRect();
          Reveal.slide(h, v, 99);
          return [section.scrollHeight, stage.scrollHeight - stage.clientHeight, bottom]; }"""
        one.page.evaluate(edge)
        for step in one.page.locator(".bertedu-machine .box > button").all():
            step.click()
            high, hidden, bottom = one.page.evaluate(edge)
            assert high <= 720 >= bottom, step.inner_text()
            assert hidden <= 0, step.inner_text()
    one.context.close()
    assert one.wrong == []


def test_the_key_s_opens_the_notes(browser: Any, written: Path) -> None:
    if "slides" not in written.name:
        pytest.skip("pages have no notes")
    one = Opened(browser, written / "03_self_attention.html", "body.ready")
    with one.context.expect_page() as popup:
        one.page.keyboard.press("s")
    notes = popup.value
    notes.get_by_text(re.compile(r"^\d+ minutes:")).wait_for()
    assert "listens to whom" in notes.locator("#now").inner_text()
    notes.keyboard.press("ArrowRight")  # and it leads the deck
    assert one.page.evaluate("Reveal.getSlidePastCount()") == 1
    one.context.close()
    assert one.wrong == []
