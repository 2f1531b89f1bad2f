"""How well text can be read: its contrast with what lies behind it, as WCAG 2 computes it."""

from typing import Any

LEAST = 4.5  # of text, WCAG 2.2, success criterion 1.4.3

# Texts whose contrast is too small, each once. A picture behind a text, or text that is hidden,
# struck as unavailable or part of a picture, is left out.
TOO_FAINT = """([least, within]) => {
  const paper = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  const over = (colors) => { // paint one over the other, as the page does
    paper.clearRect(0, 0, 1, 1);
    for (const color of ["#fff", ...colors]) {
      paper.fillStyle = color;
      paper.fillRect(0, 0, 1, 1);
    }
    return [...paper.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const light = (rgb) => rgb.map((c) => c / 255)
    .map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const found = new Map(), texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const node = texts.currentNode.parentElement;
    const text = texts.currentNode.data.trim();
    if (!text || !node.closest(within)) continue;
    if (!node.checkVisibility({visibilityProperty: true, opacityProperty: true})) continue;
    if (node.closest("script, style, svg, .MathJax, [aria-disabled=true], :disabled")) continue;
    const grounds = [];
    let behind = node, image = false, seen = 1;
    for (; behind; behind = behind.parentElement) {
      const style = getComputedStyle(behind);
      image ||= style.backgroundImage !== "none";
      seen *= parseFloat(style.opacity);
      grounds.unshift(style.backgroundColor);
    }
    if (image) continue;
    const back = over(grounds), ink = getComputedStyle(node).color;
    const front = over([...grounds, ink]).map((c, i) => c * seen + back[i] * (1 - seen));
    const [a, b] = [light(front), light(back)].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < least) {
      const where = `${node.tagName}.${node.className}`.slice(0, 60);
      found.set(where, `${ratio.toFixed(2)} ${where} ${text.slice(0, 40)}`);
    }
  }
  return [...found.values()];
}"""


def too_faint(page: Any, within: str = "body") -> list[str]:
    """Return the texts of a page, or of parts of it, that are hard to read as they are now."""
    return list(page.evaluate(TOO_FAINT, [LEAST, within]))
