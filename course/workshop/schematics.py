"""Schematics of BERT: drawn by us, as SVG that takes the colors of the page, with alt text.

What matters has a thicker line besides its color. Nothing has an id: several fit one page.
"""

import base64
import html
import itertools
import math
import re
from collections.abc import Sequence

from bertedu.analysis.views import BLUE, GREEN, ORANGE
from bertedu.files import table_beside
from course.workshop.page import Told

WIDTH = 900  # of every drawing, so that all letters on a page have one size
MONO = ' font-family="Menlo, Consolas, monospace"'
Point = tuple[float, float]


class Drawing(Told):
    """A drawing that is being made, and then shown; its alt text stands in for it in plain text."""

    def __init__(self, height: int, alt: str) -> None:
        """Begin with an empty sheet, ``WIDTH`` x ``height``."""
        self.height, self.alt = height, alt
        self.parts: list[str] = []

    def text(
        self, x: float, y: float, words: str, size: float = 17, bold: bool = False, look: str = ""
    ) -> None:
        """Write lines around the height y, the first one ``bold``; "T_i" gets a subscript."""
        low = r'<tspan dy="3" font-size="75%">\1</tspan><tspan dy="-3">&#8203;</tspan>'
        lines = re.sub(r"(?<=[A-Z])_(\w+)", low, html.escape(words)).split("\n")
        for number, line in enumerate(lines):
            below = y + size * (0.35 + 1.22 * (number - (len(lines) - 1) / 2))
            own = look + ' font-weight="bold"' * (bold and number == 0)
            place = f'x="{x:.1f}" y="{below:.1f}" font-size="{size}"'
            self.parts.append(f"<text {place}{own}>{line}</text>")

    def box(  # noqa: PLR0913  x, y, sizes, words and looks
        self, x: float, y: float, width: float, height: float, words: str = "", color: str = "",
        strong: bool = False, bold: bool = False, size: float = 16, look: str = "",
    ) -> None:  # fmt: skip
        """Draw a box around words, gray or in a color."""
        paint = 'fill-opacity=".04" stroke="currentColor" stroke-opacity=".6"'
        if color:
            paint = f'fill="{color}" fill-opacity=".13" stroke="{color}"'
        place = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height}"'
        thick = 4 if strong else 1.6
        self.parts.append(f'<g><rect {place} rx="6" {paint} stroke-width="{thick}"/>')
        if words:
            self.text(x + width / 2, y + height / 2, words, size, bold, look)
        self.parts.append("</g>")

    def arrow(
        self, *points: Point, color: str = "currentColor", width: float = 1.6, head: bool = True
    ) -> None:
        """Draw a line through points, with a head at the last one."""
        (x0, y0), (x, y) = points[-2:]
        share = head * (6 + 1.5 * width) / math.dist(*points[-2:])
        dx, dy = share * (x - x0), share * (y - y0)
        corners = [(x, y), (x - dx - dy / 2, y - dy + dx / 2), (x - dx + dy / 2, y - dy - dx / 2)]
        line, tip = (
            " ".join(f"{a:.1f},{b:.1f}" for a, b in some)
            for some in ([*points[:-1], (x - dx / 2, y - dy / 2)], corners)
        )
        look = f'fill="none" stroke="{color}" stroke-width="{width}"'
        self.parts.append(f'<polyline points="{line}" {look}/>')
        self.parts.append(f'<polygon points="{tip}" fill="{color}"/>' * head)

    def row(
        self, x: float, y: float, words: Sequence[str], widths: Sequence[float],
        colors: Sequence[str], look: str = MONO, gap: float = 4,
    ) -> list[float]:  # fmt: skip
        """Draw boxes side by side, 32 high; return their middles."""
        middles = []
        for word, width, color in zip(words, widths, colors, strict=True):
            self.box(x, y, width, 32, word, color, look=look)
            middles.append(x + width / 2)
            x += width + gap
        return middles

    @property
    def svg(self) -> str:
        """The drawing, which is also good as a file."""
        alt = html.escape(self.alt)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {self.height}" '
            f'style="width: 100%; max-width: 1250px" role="img" aria-label="{alt}" '
            'font-family="Helvetica, Arial, sans-serif" text-anchor="middle" fill="currentColor">'
            f"<desc>{alt}</desc>{''.join(self.parts)}</svg>"
        )

    def _repr_html_(self) -> str:
        # From a notebook that was never run on this computer JupyterLab takes <style> and <svg>
        # away, but leaves the words: their size is then 0, and the image stands there.
        source = f"data:image/svg+xml;base64,{base64.b64encode(self.svg.encode()).decode()}"
        return (
            "<style>.bertedu-drawing img { display: none }</style>"
            '<div class="bertedu-drawing" style="font-size: 0">'
            f'<img alt="{html.escape(self.alt)}" style="background: white" src="{source}">'
            f"{self.svg}</div>"
        )


_OVERVIEW = table_beside(__file__)
PARTS: dict[str, tuple[str, float, float, float, float]] = _OVERVIEW["parts"]
STAGES: dict[str, dict[str, list[str]]] = _OVERVIEW["stages"]


def you_are_here(notebook: str) -> Drawing:
    """Draw BERT as a whole, and the way through the course with a mark at one notebook.

    ``notebook`` is its number, "00" to "18"; the parts that it is about are highlighted. Raises
    ValueError if there is no such notebook.
    """
    here = next((stage for stage, built in STAGES.items() if notebook in built), None)
    if here is None:
        raise ValueError(f"no notebook {notebook!r}: give its number as text, '00' to '18'")
    parts = STAGES[here][notebook]
    about = [PARTS[part][0].replace("-\n", "-").replace("\n", " ") for part in parts]
    drawing = Drawing(
        222,
        "BERT as a whole: text, word pieces, token + segment + position, L layers of "
        "self-attention, add & norm, feed-forward, add & norm, then the heads for MLM, NSP and "
        f"your task. You are here: notebook {notebook}, {here}. Highlighted: {', '.join(about)}.",
    )
    drawing.text(24, 70, "text", 16)
    for start, end in ((44, 62), (146, 164), (276, 306), (402, 414), (476, 488), (570, 582)):
        drawing.arrow((start, 70), (end, 70))
    drawing.box(292, 6, 366, 108)
    drawing.text(475, 21, "L layers, one after the other", 16)
    for y in (22.0, 70.0, 118.0):
        drawing.arrow((658, 70), (692, y))
    for part, (words, x, y, width, height) in PARTS.items():
        now = part in parts
        drawing.box(x, y, width, height, words, BLUE if now else "", now)
    widths = [max(8.7 * len(stage) + 12, 33 * len(built)) for stage, built in STAGES.items()]
    x, spare = 10.0, (WIDTH - 12 - sum(widths)) / len(widths)
    for (stage, built), width in zip(STAGES.items(), widths, strict=True):
        each = (width + spare - 6) / len(built)
        drawing.text(x + (width + spare) / 2 - 4, 152, stage, 16, stage == here)
        for number in built:
            now = number == notebook
            drawing.box(x, 165, each - 4, 28, number, BLUE if now else "", now, now)
            if now:
                drawing.text(min(max(x + each / 2, 66), 834), 211, "you are here", 16, bold=True)
            x += each
        x += 6
    return drawing


def room(words: Sequence[str]) -> list[float]:
    """Return how wide a box each of some word pieces needs."""
    return [max(32, 9.7 * len(word) + 12) for word in words]


def input_sum() -> Drawing:
    """Draw the sum at the input for the two sentences of notebook 02 (paper, figure 2)."""
    drawing = Drawing(
        284,
        "The word pieces of two texts, [CLS] my dog is cut ##e . [SEP] and he like ##s playing . "
        "[SEP]. For each piece three vectors are added: one for the token; one for its segment, A "
        "or B; one for its position, 0 to 13. Layer norm makes a row of x, S × H, of each sum.",
    )
    pieces = "[CLS] my dog is cut ##e . [SEP] he like ##s playing . [SEP]".split()
    widths, middles = room(pieces), [0.0]
    gap = (WIDTH - 132 - sum(widths)) / (len(pieces) - 1)
    for y, label, words, colors, look in (
        (4, "token\nwhich word?", pieces, [BLUE] * 14, MONO),
        (64, "segment\nwhich text?", "A" * 8 + "B" * 6, [GREEN] * 8 + [ORANGE] * 6, ""),
        (124, "position\nwhich place?", [str(place) for place in range(14)], [""] * 14, ""),
    ):
        drawing.text(112, y + 16, label, 16, bold=True, look=' text-anchor="end"')
        middles = drawing.row(124, y, words, widths, colors, look, gap)
        for x in middles if y > 4 else ():
            drawing.text(x, y - 14, "+", 20)
    drawing.box(124, 188, 768, 34, "layer norm, for each sum by itself", size=17)
    for x in middles:
        drawing.arrow((x, 156), (x, 186))
        drawing.arrow((x, 222), (x, 250))
    drawing.text(508, 268, "x, S × H: a row of H numbers for each of the S tokens")
    return drawing


def layer() -> Drawing:
    """Draw one layer as BERT has it: post-norm, norm(x + f(x)), twice (Vaswani et al. 2017)."""
    drawing = Drawing(
        190,
        "One layer: x, S × H, goes through self-attention and also past it; the two are added, and "
        "layer norm follows. What comes out goes through feed-forward, H to 4H to H, and also past "
        "it; the two are added, and layer norm follows. Between any two parts run S × H numbers.",
    )
    y, start = 104, 36
    drawing.text(20, y, "x", 20, bold=True)
    for name, what in (("self-attention", "tokens mix"), ("feed-forward", "H → 4H → H")):
        box, plus, norm, end = start + 60, start + 262, start + 304, start + 378
        drawing.text((start + 22 + plus) / 2, 18, "residual: as it came in", 16)
        drawing.arrow((start, y), (box, y))
        drawing.arrow((start + 22, y), (start + 22, 36), (plus, 36), (plus, y - 17), width=3)
        drawing.box(box, y - 40, 136, 80, f"{name}\n{what}", BLUE, bold=True, size=17)
        drawing.arrow((box + 136, y), (plus - 17, y))
        drawing.box(plus - 15, y - 15, 30, 30, "+", size=26)
        drawing.arrow((plus + 15, y), (norm, y))
        drawing.box(norm, y - 28, 74, 56, "layer\nnorm", GREEN, size=17)
        drawing.text(start + 29, y + 18, "S × H", 16)
        drawing.text(box + 162, y + 18, "S × H", 16)
        drawing.text((start + end) / 2 + 20, 172, f"norm(x + {name}(x))")
        start = end
    drawing.arrow((start, y), (start + 60, y))
    drawing.text(start + 29, y + 18, "S × H", 16)
    drawing.text(start + 64, y, "next\nlayer", 16, look=' text-anchor="start"')
    return drawing


def attention() -> Drawing:
    """Draw self-attention with A heads, from x to its output, with shapes."""
    drawing = Drawing(
        304,
        "From x, S × H, three tables make Q, what I look for, K, what I can be found by, and V, "
        "what I hand over. Each is cut into A heads of d = H / A numbers. In a head, Q times K "
        "transposed, divided by the root of d, is S × S scores; softmax makes weights of each row; "
        "weights times V is the mixture, S × d. The heads are joined, S × H, and one more table, "
        "the output, mixes them.",
    )
    drawing.text(24, 150, "x\nS × H", 16, bold=True)
    for name, what, y, color in (
        ("Q", "what I look for", 62, BLUE),
        ("K", "what I can be\nfound by", 150, ORANGE),
        ("V", "what I hand over", 238, GREEN),
    ):
        drawing.arrow((49, 150), (60, 150), (60, y), (72, y))
        drawing.box(74, y - 36, 150, 72, f"{name} = x W_{name}\n{what}", color, bold=True)
    drawing.text(149, 292, "each S × H", 16)
    drawing.box(262, 36, 390, 236)
    for more in (8, 16):  # the other heads, behind the first
        top, right = 36 - more, 652 + more
        drawing.arrow((262 + more, top), (right, top), (right, 272 - more), head=False)
    drawing.text(457, 56, "one of A heads: its d = H / A columns of Q, K, V", 16)
    drawing.box(276, 84, 106, 84, "scores\nQ Kᵀ / √d\nS × S", BLUE, bold=True)
    drawing.box(412, 84, 100, 84, "weights\nsoftmax\nS × S", bold=True)
    drawing.box(538, 132, 100, 84, "mixture\nweights · V\nS × d", GREEN, bold=True)
    drawing.box(696, 132, 84, 84, "heads\njoined\nS × H", bold=True)
    drawing.box(808, 132, 84, 84, "output\ntable\nS × H", bold=True)
    drawing.arrow((224, 62), (244, 62), (244, 110), (274, 110))
    drawing.arrow((224, 150), (244, 150), (244, 142), (274, 142))
    drawing.arrow((224, 238), (588, 238), (588, 218))
    drawing.arrow((382, 126), (410, 126))
    drawing.arrow((512, 126), (524, 126), (524, 160), (536, 160))
    drawing.arrow((638, 174), (694, 174))
    drawing.arrow((780, 174), (806, 174))
    return drawing


def stack(
    drawing: Drawing, x: float, y: float, title: str, text: str, heads: dict[int, str],
    color: str = ORANGE,
) -> None:  # fmt: skip
    """Draw a text's pieces, BERT above them, its vectors C and T_i, and heads over some of these.

    The left upper corner is (x, y); it is 256 high.
    """
    tokens, widths = text.split(), room(text.split())
    vectors = ["C", *(f"T_{place}" for place in range(1, len(tokens)))]
    colors = [color if place in heads else "" for place in range(len(tokens))]
    width = sum(widths) + 4 * (len(widths) - 1)
    drawing.text(x, y + 14, title, 19, bold=True, look=' text-anchor="start"')
    drawing.row(x, y + 106, vectors, widths, colors, "")
    drawing.box(x, y + 160, width, 38, "BERT", BLUE, bold=True, size=18)
    middles = drawing.row(x, y + 222, tokens, widths, [""] * len(tokens))
    for place, middle in enumerate(middles):
        drawing.arrow((middle, y + 222), (middle, y + 200))
        drawing.arrow((middle, y + 160), (middle, y + 140))
        if head := heads.get(place):
            needed, height = 9.4 * max(map(len, head.split("\n"))) + 15, 32 + 20 * head.count("\n")
            x = max(x, middle - needed / 2)
            drawing.box(x, y + 84 - height, needed, height, head, color, strong=True)
            drawing.arrow((middle, y + 106), (middle, y + 86))
            x += needed + 6


def pretrain_finetune() -> Drawing:
    """Draw the two halves of BERT's life: same network, weights copied, a new head (figure 1)."""
    drawing = Drawing(
        286,
        "Left, pre-training, from chance, on text without labels: [CLS], text A with a hidden "
        "word, [SEP], text B, [SEP] go into BERT. The NSP head reads C: is B next? The MLM head "
        "reads the vector of the hidden word: which word? Right, fine-tuning on labeled examples: "
        "the same BERT starts with a copy of every weight; the head that reads C is new.",
    )
    heads = {0: "NSP head\nIsNext?", 2: "MLM head\nwhich word?"}
    stack(drawing, 8, 0, "pre-training", "[CLS] the [MASK] [SEP] it ran [SEP]", heads, GREEN)
    heads = {0: "new head\nwhich topic?"}
    stack(drawing, 508, 0, "fine-tuning", "[CLS] moths eat its leaves [SEP]", heads)
    drawing.text(200, 272, "from chance, on text without labels")
    drawing.text(684, 272, "from these weights, on labeled examples")
    drawing.arrow((402, 179), (504, 179), color=BLUE, width=5)
    drawing.text(450, 148, "its weights\nare copied", 16)
    return drawing


def directions() -> Drawing:
    """Draw what the state of one word has read in BERT, GPT and ELMo (paper, figure 3)."""
    drawing = Drawing(
        276,
        "What has the state of dog read, in: the dog barked. In BERT all four tokens, from both "
        "sides, in every layer. In GPT, left to right, the and dog. In ELMo the left half has read "
        "the and dog, the right half dog, barked and the period; the two meet only at the end, "
        "where their states are joined.",
    )
    tokens, heights = "the dog barked .".split(), (254, 178, 100)
    fan = [((level, a), (level + 1, b)) for level in (0, 1) for a in range(4) for b in range(4)]
    up = [(start, end) for start, end in fan if start[1] == end[1]]
    right = [((level, a), (level, a + 1)) for level in (1, 2) for a in range(3)]
    drawing.box(484, 34, 290, 32, "state of dog: joined", BLUE, strong=True)
    for x, title, edges in (
        (8, "BERT: both sides", fan),
        (246, "GPT: left to right", [(start, end) for start, end in fan if start[1] <= end[1]]),
        (484, "ELMo: left half", up + right),
        (694, "ELMo: right half", up + [(end, start) for start, end in right]),
    ):
        read = {(2, 1)}  # (level, place): the state of dog, and then all that it has read
        for _ in edges:
            read |= {start for start, end in edges if end in read}
        colors = {place: BLUE if place in read else "" for edge in edges for place in edge}
        drawing.text(x + 98, 14, title, 18, bold=True)
        shown = [colors[0, place] for place in range(4)]
        middles = drawing.row(x, 240, tokens, room(tokens), shown)
        for (low, a), (high, b) in sorted(edges, key=lambda edge: edge[1] in read):
            side, lift = (14 * (b - a), 0) if low == high else (0, 14)
            start = (middles[a] + side, heights[low] - lift)
            end = (middles[b] - side, heights[high] + lift)
            seen = (high, b) in read
            color, width = (BLUE, 2.6) if seen else ("currentColor", 0.8)
            drawing.arrow(start, end, color=color, width=width, head=seen)
        for level, place in itertools.product((1, 2), range(4)):
            corner, color = (middles[place] - 12, heights[level] - 12), colors[level, place]
            drawing.box(*corner, 24, 24, "", color, bool(color))
        drawing.arrow((middles[1], 86), (middles[1], 68))
        if x < 484:
            drawing.box(x, 34, 138, 32, "state of dog", BLUE, strong=True)
    return drawing


def four_tasks() -> Drawing:
    """Draw four ways to fine-tune (paper, figure 4), a panel each."""
    drawing = Drawing(
        526,
        "Four tasks, one BERT. One text, one class: the head reads C. Two texts, one class: it "
        "reads C, too. Where is the answer: every vector of the text gets a start and an end "
        "score; lake is the start, vern the end. A tag for each word: the head reads each T_i.",
    )
    moths, ran = "[CLS] moths eat its leaves [SEP]", "[CLS] it ran [SEP] the dog ran [SEP]"
    lake, name = "[CLS] where ? [SEP] in lake vern [SEP]", "[CLS] benjamin franklin was here [SEP]"
    tags = {1: "B-PERSON", 2: "I-PERSON", 3: "O", 4: "O"}
    stack(drawing, 6, 0, "08 · one text, one class", moths, {0: "biology"})
    stack(drawing, 458, 0, "09 · two texts, one class", ran, {0: "B fits A"})
    stack(drawing, 6, 270, "10 · where is the answer?", lake, {5: "start", 6: "end"})
    stack(drawing, 458, 270, "11 · a tag for each word", name, tags)
    return drawing
