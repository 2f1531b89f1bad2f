"""The measure of contrast, on texts whose contrast is known: black on white has 21, gray less."""

from typing import Any

from contrast import too_faint

CASES = {
    "color: #767676": False,  # 4.54
    "color: #777": True,  # 4.48
    "color: #777; font: bold 40px sans-serif": True,  # large type is measured as all other
    "color: #000; opacity: .5": True,  # as #808080, 3.95
    "color: #767676; background: #eee": True,  # 3.92
    "color: #767676; background: #111": True,  # 4.16
    "color: #777; visibility: hidden": False,
}


def test_a_text_is_too_faint_below_four_and_a_half(browser: Any) -> None:
    page = browser.new_page()
    page.set_content("".join(f'<p style="{style}">x</p>' for style in CASES))
    found = too_faint(page)
    assert {style: any(f'"{style}"' in one for one in found) for style in CASES} == CASES
    assert too_faint(page, but="p:first-child ~ p") == [], "only the first is asked, which is not"
    page.close()
