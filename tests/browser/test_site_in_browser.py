"""The website in a real browser, opened as files and without a network."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from contrast import too_faint

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if built := os.environ.get("BERTEDU_SITE"):  # a site that was built before
        return Path(built).resolve()
    out = tmp_path_factory.mktemp("site") / "site"
    command = [sys.executable, "-m", "course.classroom.site", "--out", str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return out


@pytest.fixture
def visit(site: Path, watch: Callable[..., Any]) -> Callable[[str], Any]:
    """Open a page of the site by its name; nothing of it may fail or ask another host."""
    page = watch(1400, 1000)

    def open_page(name: str) -> Any:
        page.goto(f"{site.as_uri()}/{name}")
        page.wait_for_load_state()
        return page

    return open_page


def test_no_page_fails_asks_another_host_or_is_wider_than_the_window(
    site: Path, visit: Callable[[str], Any]
) -> None:
    for path in sorted(set(site.rglob("*.html")) - set(site.glob("_modules/**/*.html"))):
        page = visit(str(path.relative_to(site)))
        wide = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        assert wide <= 0, f"{path.name} is {wide} pixels too wide"


def test_the_front_page_fills_a_blank_and_leads_to_every_notebook(
    visit: Callable[[str], Any],
) -> None:
    page = visit("index.html")
    links = page.eval_on_selector_all(".bd-article a", "all => all.map((a) => a.href)")
    for path in (ROOT / "notebooks").glob("*.ipynb"):
        assert any(link.endswith(f"/notebooks/{path.stem}.html") for link in links)
    guess = page.locator(".front .guess")
    guess.get_by_text("congress").wait_for()
    page.locator(".front input[type=text]").fill("The river flows into the Atlantic ___.")
    guess.get_by_text("ocean").wait_for()


def test_the_search_finds_pages_of_the_course_before_names_of_functions(
    visit: Callable[[str], Any],
) -> None:
    page = visit("search.html?q=attention")
    page.wait_for_selector("#search-results li a[href*='03_self_attention']", state="attached")
    page.wait_for_timeout(2000)
    found = page.eval_on_selector_all("#search-results li > a", "all => all.map((a) => a.href)")
    api = ["/api/" in link for link in found]
    assert api == sorted(api)
    assert api.count(False) > 3
    page = visit("search.html?q=zyzzyva")  # what the course does not speak of
    page.get_by_text("did not match any documents").wait_for()
    assert page.locator("#search-results li a").count() == 0


STOPS = """() => {
  const every = "a[href], button, input, select, textarea, summary, [tabindex='0']";
  const stops = [...document.querySelectorAll(every)]
    .filter((one) => !one.disabled && one.tabIndex >= 0 && one.checkVisibility());
  const text = document.querySelector(".bd-article");
  return [stops[0].textContent.trim(), stops.findIndex((one) => text.contains(one))];
}"""
# the smallest letters of the text, without those that are set low or high
SMALL = """() => {
  const found = [], article = document.querySelector(".bd-article");
  const texts = document.createTreeWalker(article, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const node = texts.currentNode.parentElement;
    if (!texts.currentNode.data.trim() || !node.checkVisibility()) continue;
    if (node.closest("script, style, sub, sup, tspan, .MathJax, .bertedu-bertviz")) continue;
    const drawn = node.closest("svg") && node.getScreenCTM?.();
    const size = parseFloat(getComputedStyle(node).fontSize) * (drawn ? Math.abs(drawn.d) : 1);
    if (size < 11) found.push(`${size.toFixed(1)} ${texts.currentNode.data.trim().slice(0, 30)}`);
  }
  return found;
}"""
# what is cut: wider than what shows it, and that does not scroll
CUT = """() => [...document.querySelectorAll(".bd-article table, .bd-article pre")]
  .filter((one) => one.checkVisibility() && !one.closest("details:not([open])"))
  .filter((one) => {
    for (let node = one; node && !node.matches(".bd-article"); node = node.parentElement)
      if (["auto", "scroll"].includes(getComputedStyle(node).overflowX)) return false;
    return one.getBoundingClientRect().right > innerWidth + 1;
  }).map((one) => one.textContent.trim().slice(0, 40))"""
LOOKED_AT = ["index", "notebooks/03_self_attention", "notebooks/05_masked_language_model"]
LOOKED_AT += ["notebooks/13_ablation_directionality", "notebooks/15_reading_attention"]
LOOKED_AT += ["exercises", "api/bertedu.model"]


@pytest.mark.parametrize("name", LOOKED_AT)
def test_a_page_is_readable_on_a_phone_by_key_in_light_and_in_dark(
    visit: Callable[[str], Any], name: str
) -> None:
    page = visit(f"{name}.html")
    first, before = page.evaluate(STOPS)
    assert first == "Skip to main content"
    assert before <= 40
    if name.startswith("notebooks/"):
        assert page.locator(".prev-next-footer a, .prev-next-area a").count() == 2
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        page.wait_for_timeout(1500)
        assert too_faint(page) == []
    for width, height in ((1280, 720), (390, 844)):
        page.set_viewport_size({"width": width, "height": height})
        page.wait_for_timeout(500)
        assert page.evaluate(SMALL) == []
        assert page.evaluate(CUT) == []


def test_formulas_are_drawn(visit: Callable[[str], Any]) -> None:
    page = visit("notebooks/03_self_attention.html")
    count = page.locator(".math").count()
    assert count > 20
    page.wait_for_function(
        "n => document.querySelectorAll('.math .MathJax, .math .mjx-chtml').length >= n", arg=count
    )
    assert page.locator(".MathJax_Error, merror, .mjx-merror").count() == 0
    # a formula stands on the line, as the letters beside it do
    shown = page.locator("li:has(strong:text-is('query')) .math").first
    assert shown.evaluate("(node) => getComputedStyle(node).display") == "inline"


def test_the_machine_computes_with_weights_beside_the_page_and_follows_the_theme(
    visit: Callable[[str], Any],
) -> None:
    page = visit("notebooks/04_encoder.html")
    machine = page.locator(".bertedu-machine")
    machine.locator("button", has_text="embedding sum").click(timeout=60_000)
    pixels = "document.querySelector('.bertedu-machine .strips canvas').toDataURL()"
    before = page.evaluate(pixels)
    machine.locator("input[type=text]").first.fill("the [MASK] sings")  # other words, other numbers
    page.wait_for_function(f"(before) => {pixels} !== before", arg=before)
    before = page.evaluate(pixels)
    page.locator(".theme-switch-button").first.click()
    page.locator(".dropdown-menu.show").get_by_text("Dark").click()
    assert page.locator("html[data-theme=dark]").count() == 1
    page.wait_for_function(f"(before) => {pixels} !== before", arg=before)


def test_links_land_on_an_entry_of_the_glossary_and_on_an_exercise(
    visit: Callable[[str], Any],
) -> None:
    page = visit("notebooks/03_self_attention.html")
    page.locator(".bd-article a[href*='glossary.html#']", has_text="softmax").first.click()
    page.wait_for_url("**/glossary.html#**")
    assert page.evaluate("document.querySelector(':target h2').innerText").startswith("softmax")
    page = visit("exercises.html")
    assert page.locator(".bd-article td a").count() > 90
    link = page.locator(".bd-article td a", has_text="Softmax by hand")
    place = link.get_attribute("href").split("#")[1]
    link.click()
    page.wait_for_url(f"**/03_self_attention.html#{place}")
    assert "Softmax by hand" in page.locator(f":has(> #{place})").last.inner_text()


def test_the_documentation_shows_signatures_with_types_and_docstrings(
    visit: Callable[[str], Any],
) -> None:
    page = visit("api/bertedu.model.html")
    entry = page.locator("dl:has(> dt[id='bertedu.model.attention.attention_weights'])")
    text = entry.inner_text()
    assert "query: Tensor" in text
    assert "rows sum to one" in text
