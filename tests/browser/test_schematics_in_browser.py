"""The schematics on a page, light and dark, wide and narrow: does every word stay in its place?"""

import re
from typing import Any

import pytest
from shown import DRAWINGS

from course.workshop import schematics

# words outside of their box or sheet, on other words, or in another color than the page's
LOST = """() => [...document.querySelectorAll("svg text")].filter((text) => {
  const at = text.getBoundingClientRect();
  const room = (text.parentNode.querySelector(":scope > rect") ?? text.closest("svg"))
    .getBoundingClientRect();
  const color = getComputedStyle(text).fill === getComputedStyle(document.body).color;
  const on = [...text.closest("svg").querySelectorAll("text")].some((other) => {
    const { left, right, top, bottom, height } = other.getBoundingClientRect();
    return other !== text && at.left < right - 1 && left < at.right - 1
      && at.top + height / 3 < bottom && top + height / 3 < at.bottom;
  });
  return !color || on || at.left < room.left || at.right > room.right || at.top < room.top - 1
    || at.bottom > room.bottom + 1;
}).map((text) => text.textContent)"""


@pytest.mark.parametrize("width", [900, 1400])
@pytest.mark.parametrize("look", ["background: #fff; color: #111", "background: #111; color: #eee"])
def test_every_word_stays_in_its_place(browser: Any, width: int, look: str) -> None:
    page = browser.new_page(viewport={"width": width, "height": 800})
    body = "".join(draw()._repr_html_() for draw in DRAWINGS.values())
    page.set_content(f'<!doctype html><body style="{look}">{body}')
    assert page.locator("svg").count() == len(DRAWINGS)
    assert page.evaluate(LOST) == []
    assert not page.locator("img:visible").count()
    sizes = page.evaluate("[...document.querySelectorAll('svg')].map((s) => s.clientWidth)")
    assert set(sizes) == {min(width - 16, 1250)}
    page.close()


def test_where_a_page_takes_the_drawing_away_the_image_stands(browser: Any) -> None:
    # what JupyterLab leaves of it in a notebook that was never run on this computer
    html = schematics.attention()._repr_html_()
    left = re.sub(r"<style>.*?</style>|</?(?:svg|desc|g|rect|poly\w+|text|tspan)\b[^>]*>", "", html)
    page = browser.new_page(viewport={"width": 900, "height": 800})
    page.set_content(f"<!doctype html><body>{left}")
    image = page.locator("img:visible")
    image.wait_for()
    assert image.evaluate("(img) => img.complete && img.naturalWidth") > 0
    assert image.bounding_box()["width"] > 800
    words = "() => document.body.scrollHeight - document.querySelector('img').height"
    assert page.evaluate(words) < 40  # nothing but margins: the bare words take no room
    page.close()
