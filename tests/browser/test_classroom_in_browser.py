"""Every deck in Chromium, from the file system, without a network."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from contrast import too_faint

from course.classroom import decks
from course.classroom.asked import course
from course.classroom.slides import lecture

ROOT, NAMES = Path(__file__).parents[2], list(course())
# From six picture heights away, a capital of 28 px type on 720 px is 16 minutes of arc high, the
# least that ISO 9241-303 allows; 18 px, for the smallest label, are as much from four.
LEAST = 18

# For each slide: what goes beyond its edges, its smallest type, and how far down and right it goes.
MEASURE = """() => {
  const press = (key) => document.dispatchEvent(new KeyboardEvent("keydown", {key}));
  press("Home");
  return [...document.querySelectorAll(".slide")].map((slide) => {
    const row = {title: slide.querySelector("h1, h2").textContent, over: [], least: 99, small: "",
                 low: 0, right: 0};
    const seen = (box, what) => {
      if (!box.width || !box.height) return;
      row.low = Math.max(row.low, box.bottom);
      row.right = Math.max(row.right, box.right);
      const out = box.right > 1265 || box.bottom > 721 || box.left < 15 || box.top < -1;
      if (out) row.over.push(what);
    };
    const inside = (node) => node.parentElement.closest(".stage, .rail"); // these scroll
    for (const node of slide.querySelectorAll("img, svg, canvas, button, table, pre, .stage"))
      if (node.checkVisibility({visibilityProperty: true}) && !inside(node))
        seen((node.closest(".part") ?? node).getBoundingClientRect(), node.tagName);
    for (const image of slide.querySelectorAll("img[data-type]")) {
      const zoom = image.getBoundingClientRect().width / image.naturalWidth;
      const size = (4 / 3) * image.dataset.type * zoom;
      if (size < row.least) Object.assign(row, {least: size, small: "letters of the picture"});
    }
    const texts = document.createTreeWalker(slide, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
      const text = texts.currentNode, parent = text.parentElement;
      if (!text.data.trim() || !parent.checkVisibility({visibilityProperty: true})) continue;
      if (parent.closest("script, style")) continue;
      const range = document.createRange();
      range.selectNodeContents(text);
      if (!inside(parent)) seen(range.getBoundingClientRect(), text.data.slice(0, 30));
      const low = "sub, sup, tspan[font-size], .MathJax, .MathJax_Display, .MJX_Assistive_MathML";
      if (parent.closest(low)) continue;
      let size = parseFloat(getComputedStyle(parent).fontSize);
      const drawn = parent.closest("svg") && parent.getScreenCTM?.();
      if (drawn) size *= Math.abs(drawn.d);
      else for (let node = parent; node; node = node.parentElement)
        size *= parseFloat(node.style.zoom) || 1;
      if (size < row.least) Object.assign(row, {least: size, small: text.data.slice(0, 30)});
    }
    press("ArrowRight");
    return row;
  });
}"""


def go(page: Any, selector: str) -> Any:
    """Show the slide on which something lies, and return that."""
    at = "(s) => [...document.querySelectorAll('.slide')].findIndex((n) => n.querySelector(s))"
    page.evaluate(f"location.hash = '#{page.evaluate(at, selector) + 1}'")
    page.wait_for_function(f"document.querySelector('.now').querySelector('{selector}')")
    return page.locator(f".now {selector}").first


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All decks; the Korean ones, from build/ko, in a folder ko."""
    folder: Path = tmp_path_factory.mktemp("slides")
    decks.write(folder, NAMES)
    ours = os.environ | {"BERTEDU_LANG": "ko", "BERTEDU_NOTEBOOKS": str(ROOT / "build" / "ko")}
    for words in (["course.korean", "build"], ["course", "slides", str(folder / "ko")]):
        subprocess.run([sys.executable, "-m", *words], cwd=ROOT, env=ours, check=True)
    return folder


@pytest.fixture
def opened(watch: Callable[..., Any], written: Path) -> Callable[[str], Any]:
    """Open a deck by its name, at the size of a projector, and wait until all on it is alive."""

    def open_deck(name: str) -> Any:
        page = watch(1280, 720, color_scheme="light")
        page.goto((written / f"{name}.html").as_uri())
        page.wait_for_selector("body.ready", timeout=60_000)
        # alive, or without the weights of a model that its notebook has not trained here
        page.wait_for_function(
            """[...document.querySelectorAll(".bertedu-play")].every((toy) => toy.matches(".alive")
            || /(no model |모델이 없다).(topic|description|answer|entities|tiny)/
            .test(toy.textContent))"""
        )
        page.wait_for_function("MathJax.isReady && !MathJax.Hub.queue.pending")
        return page

    return open_deck


@pytest.mark.parametrize("name", [*NAMES, *(f"ko/{name}" for name in NAMES)])
def test_a_deck_fits_its_slides_and_can_be_read_from_the_last_row(
    opened: Callable[[str], Any], name: str
) -> None:
    page = opened(name)
    rows = page.evaluate(MEASURE)
    assert len(rows) == len(lecture(Path(name).name))
    assert [(row["title"], row["over"]) for row in rows if row["over"]] == []
    small = [(row["title"], row["least"], row["small"]) for row in rows if row["least"] < LEAST]
    assert small == []
    half = 720 if name in NAMES else 0  # the same lines are shorter in Korean
    empty = [row["title"] for row in rows if row["low"] < 400 or row["right"] < half]
    assert empty == [], "the lower or the right half is empty"
    assert page.locator(".MathJax_Error, .merror").count() == 0
    text = page.evaluate("document.querySelector('main').innerText")
    assert re.findall(r"\$[^$\n]{1,80}\\[a-z]+[^$\n]*\$", text) == []
    for theme in ("light", "dark"):
        for number in range(len(rows)):
            page.keyboard.press("ArrowRight" if number else "Home")
            assert too_faint(page) == [], (theme, number + 1)
        page.keyboard.press("d")


def test_a_toy_works_on_a_slide_and_every_step_of_the_machine_fits(
    opened: Callable[[str], Any],
) -> None:
    page = opened("04_encoder")
    toy = go(page, ".bertedu-play")
    before = toy.inner_html()
    toy.locator("input[type=range]").first.press("ArrowRight")
    assert toy.inner_html() != before
    page.wait_for_selector(".bertedu-machine h3", state="attached", timeout=60_000)
    machine = go(page, ".bertedu-machine")
    for step in machine.locator(".box > button").all():
        step.click()
        hidden, bottom = machine.evaluate(
            """(machine) => {
              const stage = machine.querySelector(".stage");
              const hidden = stage.scrollHeight - stage.clientHeight;
              return [hidden, machine.getBoundingClientRect().bottom];
            }"""
        )
        assert bottom <= 720, step.inner_text()
        assert hidden <= 0, step.inner_text()


def test_the_speakers_window_shows_notes_the_next_slide_and_a_clock(
    opened: Callable[[str], Any],
) -> None:
    page = opened("03_self_attention")
    first, second, third = lecture("03_self_attention")[:3]
    with page.context.expect_page() as popup:
        page.keyboard.press("s")
    notes = popup.value
    assert first.title in notes.locator("#now").inner_text()
    assert first.notes.split(".")[0] in notes.locator("#all").inner_text()
    assert second.title[-20:] in notes.locator("#next").inner_text()
    following = notes.frame_locator("iframe").locator(".slide.now h2")
    assert second.title[-20:] in following.inner_text()
    notes.get_by_text(re.compile(r"^\d\d:\d\d · 0 min$")).wait_for()
    notes.keyboard.press("ArrowRight")  # and it leads the deck
    assert page.evaluate("location.hash") == "#2"
    notes.wait_for_function(
        f"document.body.innerText.includes('begin after {first.minutes:g} min')"
    )
    assert third.title in notes.locator("#next").inner_text()


def test_a_click_starts_the_clock_of_an_exercise(opened: Callable[[str], Any]) -> None:
    page = opened("03_self_attention")
    clock = go(page, "button.clock")
    begin = clock.inner_text()
    clock.click()
    page.wait_for_function(
        "(begin) => document.querySelector('.now .clock').textContent !== begin", arg=begin
    )
    clock.click()
    assert clock.inner_text() == begin


def test_chromium_prints_a_page_for_each_slide(browser: Any, written: Path) -> None:
    decks.print_pdf(decks.chromium(), written / "03_self_attention.html")
    printed = (written / "03_self_attention.pdf").read_bytes()
    assert printed.count(b"/Type /Page\n") == len(lecture("03_self_attention"))
    assert re.findall(rb"/MediaBox \[0 0 (\d+)[\d.]* (\d+)", printed)[0] == (b"960", b"540")
