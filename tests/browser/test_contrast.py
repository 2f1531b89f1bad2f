"""The measure of contrast, on texts whose contrast is known: black on white has 21, gray less."""

from typing import Any

import pytest
from contrast import too_faint


@pytest.mark.parametrize(
    ("style", "faint"),
    [
        ("color: #767676", False),  # 4.54
        ("color: #777", True),  # 4.48
        ("color: #777; font: bold 40px sans-serif", True),  # large type is measured as all other
        ("color: #000; opacity: .5", True),  # as #808080, 3.95
        ("color: #767676; background: #eee", True),
        ("color: #767676; background: #111", True),  # 4.16
        ("color: #777; visibility: hidden", False),
    ],
)
def test_a_text_is_too_faint_below_four_and_a_half(browser: Any, style: str, faint: bool) -> None:
    page = browser.new_page()
    page.set_content(f"<p style='{style}'>a letter</p><p>black</p><i style='color: #ddd'>x</i>")
    found = too_faint(page, "p")
    assert bool(found) == faint, found
    assert any("x</i>" in one for one in too_faint(page)), "even one letter"
    assert not any("x</i>" in one for one in too_faint(page, but="i"))
    page.close()
