"""How well text can be read: its contrast with what lies behind it, as axe-core computes it.

WCAG 2.2, success criterion 1.4.3, but 4.5 for large type, too: a projector is no screen.
"""

from typing import Any

import pytest

AXE = "axe_playwright_python.base"
RUN = """async ([include, exclude]) => {
  const contrastRatio = {normal: {expected: 4.5}, large: {expected: 4.5}};
  axe.configure({checks: [{id: "color-contrast", options: {contrastRatio, ignoreLength: true}}]});
  const only = {runOnly: ["color-contrast"], resultTypes: ["violations"]};
  const {violations} = await axe.run({include, exclude}, only);
  return violations.flatMap((one) => one.nodes).map(({any, html}) => {
    const {contrastRatio, fgColor, bgColor} = any[0].data;
    return `${contrastRatio} ${fgColor} on ${bgColor}: ${html.slice(0, 120)}`;
  });
}"""


def too_faint(page: Any, *within: str, but: str = "") -> list[str]:
    """Return the texts of a page, or of parts of it, that are hard to read as they are now."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(pytest.importorskip(AXE, reason="make browser installs axe").AXE_SCRIPT)
    include = [[one] for one in within or ("body",)]
    return list(page.evaluate(RUN, [include, [[but]] if but else []]))
