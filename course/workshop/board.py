"""The machine as a drawing, its parts in color as they become the learner's; as text, too."""

import html
from collections.abc import Mapping, Sequence

from bertedu.analysis.views import BLUE, ORANGE
from course.exercises.judge import report
from course.language import spoken
from course.workshop.schematics import Drawing, Point

MARKS = {  # the mark before a part, what it says, and its color
    "✓": ("yours", BLUE),
    "!": ("yours cannot be used", ORANGE),
    "…": ("kept, but not loaded: my_bert.load()", ""),
    "·": ("still ours", ""),
}
BOXES: dict[str, tuple[float, float, float, float, str]] = {  # x, y, width, height; notebook
    "cut_word": (70, 14, 118, 44, "01"), "encode_pair": (212, 14, 132, 44, "01"),
    "input_sum": (368, 14, 122, 44, "02"), "layer_norm": (514, 14, 130, 44, "02"),
    "stack": (70, 86, 574, 176, "04"), "encoder_layer": (92, 132, 530, 112, "04"),
    "post_norm_layer": (112, 182, 172, 44, "04"), "multi_head": (304, 182, 138, 44, "03"),
    "feed_forward": (462, 182, 140, 44, "04"),
    "pooler": (690, 86, 110, 44, "04"), "nsp_loss": (690, 152, 110, 44, "06"),
    "mlm_loss": (690, 218, 110, 44, "05"),
    "our_name": (70, 296, 122, 44, "04"), "load": (216, 296, 90, 44, "04"),
    "adamw": (372, 296, 96, 44, "07"), "clip": (492, 296, 84, 44, "07"),
    "learning_rate": (604, 296, 146, 44, "07"),
    "pair": (70, 362, 84, 44, "06"), "masking": (178, 362, 110, 44, "05"),
}  # fmt: skip
FRAMES = ("stack", "encoder_layer")  # their names stand at the top, what they hold inside
ARROWS: tuple[tuple[Point, ...], ...] = (
    *(((48, 36), (68, 36)), ((188, 36), (210, 36)), ((344, 36), (366, 36))),
    *(((490, 36), (512, 36)), ((579, 58), (579, 84))),
    *(((644, 108), (688, 108)), ((745, 130), (745, 150)), ((644, 240), (688, 240))),
    *(((48, 318), (68, 318)), ((192, 318), (214, 318)), ((261, 296), (261, 264))),
    *(((420, 296), (420, 264)), ((492, 318), (470, 318))),
    *(((677, 340), (677, 352), (420, 352), (420, 342)),),
    *(((745, 262), (745, 280), (534, 280), (534, 294)),),
    *(((48, 384), (68, 384)), ((154, 384), (176, 384))),
)
WORDS = (  # x, y, what
    *((24, 36, "text"), (24, 318, "file"), (24, 384, "texts")),
    *((358, 384, "what it learns from"), (356, 280, "weights")),
)
TEXT = """\
01 02  text  → {cut_word} → {encode_pair} → {input_sum} → {layer_norm} → x
03 04  x     → {stack}: L times {encoder_layer}
               = {post_norm_layer} of {multi_head} and {feed_forward}
05 06  state → {mlm_loss}; → {pooler} → {nsp_loss}
       texts → {pair} → {masking}
07     loss  → {clip} → {adamw}, by {learning_rate}
04     file  → {our_name} → {load} → weights"""


class Board:
    """Which parts are yours: a drawing in a notebook, and text."""

    def __init__(self, marks: Mapping[str, str], notes: Sequence[str]) -> None:
        """Take a mark for each part, and what else there is to say."""
        self.marks = marks
        yours = [*marks.values()].count("✓")
        self.headline = spoken(f"{yours} of {len(marks)} parts of your BERT are yours.")
        legend = {mark: spoken(said) for mark, (said, _) in MARKS.items()}
        seen = [f"{mark} {said}" for mark, said in legend.items() if mark in marks.values()]
        self.notes = [", ".join(seen), *notes]

    def __repr__(self) -> str:
        """Return the board as text."""
        shown = TEXT.format(**{name: f"{mark} {name}" for name, mark in self.marks.items()})
        return "\n".join([self.headline, shown, *map(report, self.notes)])

    def drawing(self) -> Drawing:
        """Draw the machine."""
        told = ", ".join(f"{mark} {name}" for name, mark in self.marks.items())
        drawing = Drawing(414, f"{spoken('Your BERT as a machine.')} {self.headline} {told}.")
        for points in ARROWS:
            drawing.arrow(*points)
        for place_x, place_y, words in WORDS:
            drawing.text(place_x, place_y, spoken(words), 15)
        for name, (x, y, width, height, notebook) in BOXES.items():
            mark = self.marks[name]
            color, label = MARKS[mark][1], f"{mark} {name}"
            frame = name in FRAMES
            drawing.box(x, y, width, height, "" if frame else label, color, mark in "✓!", size=15)
            if frame:
                drawing.text(x + 90, y + 20, label, 15)
            drawing.text(x + width - 14, y + 9, notebook, 11)
        drawing.text(510, 110, spoken("L layers, one after the other"), 14)
        return drawing

    def _repr_html_(self) -> str:
        notes = "<br>".join(html.escape(spoken(note)) for note in self.notes)
        return f"<b>{self.headline}</b>{self.drawing()._repr_html_()}{notes}"
