"""The family of BERT as a dated drawing: what came before it, and what came after."""

from bertedu.analysis.views import BLUE, ORANGE
from course.workshop.schematics import Drawing

COLUMNS = ("to 2017", "2018", "2019, to June", "2019, from July", "2020", "2024, 2025")
FAMILY = {  # name -> first on arXiv (seq2seq: its first version), column, row, notebook
    "seq2seq": ("2014-09", 0, 4, "18"),
    "Transformer": ("2017-06", 0, 0, "18"),
    "ELMo": ("2018-02", 1, 4, "12"),
    "GPT": ("2018-06", 1, 0, "17"),
    "BERT": ("2018-10", 1, 2, ""),
    "Transformer-XL": ("2019-01", 2, 5, "18"),
    "GPT-2": ("2019-02", 2, 0, "17"),
    "XLNet": ("2019-06", 2, 4, "17"),
    "RoBERTa": ("2019-07", 3, 1, "17"),
    "ALBERT": ("2019-09", 3, 3, "18"),
    "DistilBERT": ("2019-10", 3, 4, "17"),
    "ELECTRA": ("2020-03", 4, 2, "17"),
    "GPT-3": ("2020-05", 4, 0, "17"),
    "BigBird": ("2020-07", 4, 4, "18"),
    "MDLM": ("2024-06", 5, 1, "17"),
    "ModernBERT": ("2024-12", 5, 2, "18"),
    "T5Gemma": ("2025-04", 5, 0, "18"),
    "LLaDA": ("2025-02", 5, 3, "17"),
    "Ettin": ("2025-07", 5, 4, "17"),
    "mmBERT": ("2025-09", 5, 5, "17"),
}
WIDE, HIGH, STEP, ROW = 132, 44, 152, 62  # of a box; from column to column, and row to row
COLORS = {"17": BLUE, "18": ORANGE}
ACROSS = ("Transformer GPT", "GPT GPT-2", "GPT-2 GPT-3", "GPT-3 T5Gemma")
UP_OR_DOWN = ("seq2seq Transformer", "GPT BERT", "ELMo BERT", "Transformer-XL XLNet")


def family_tree() -> Drawing:
    """Draw who came from whom; boxes are blue in notebook 17, orange in notebook 18."""
    dated = ", ".join(f"{name} {date}" for name, (date, *_) in FAMILY.items())
    asked = ", ".join(name for name, (*_, notebook) in FAMILY.items() if notebook == "17")
    drawing = Drawing(
        446,
        f"A family tree with dates: {dated}. Lines lead from seq2seq to the Transformer; from the "
        "Transformer to GPT, BERT and Transformer-XL; from GPT and ELMo to BERT; from GPT to GPT-2 "
        "and on to GPT-3 and T5Gemma; from BERT to the others from 2019 on; "
        "to XLNet from Transformer-XL, too. "
        f"Blue, another question, notebook 17: {asked}. "
        "Orange, another machine, notebook 18: the rest but BERT and ELMo.",
    )
    for column, words in enumerate(COLUMNS):
        drawing.text(4 + STEP * column + WIDE / 2, 14, words, 16, bold=True)
    for name, (date, column, row, notebook) in FAMILY.items():
        words = f"{name}\n{date}" + f" · {notebook}" * bool(notebook)
        place = (4 + STEP * column, 32 + ROW * row, WIDE, HIGH)
        drawing.box(*place, words, COLORS.get(notebook, ""), name == "BERT", True, 14)
    for one, other in (pair.split() for pair in ACROSS):
        drawing.arrow((right(one), middle(one)), (left(other), middle(one)))
    for one, other in (pair.split() for pair in UP_OR_DOWN):
        x, half = left(one) + WIDE / 2, HIGH / 2 if middle(other) > middle(one) else -HIGH / 2
        drawing.arrow((x, middle(one) + half), (x, middle(other) - half))
    for other in ("BERT", "Transformer-XL"):  # down beside the Transformer
        x = right("Transformer") + 7
        drawing.arrow((x, middle("GPT")), (x, middle(other)), (left(other), middle(other)))
    line = middle("GPT") + ROW / 2  # along the years, above all that came from BERT
    x = right("BERT") + 7
    ends = [(x, middle("BERT")), (x, line), (left("ModernBERT") - 13, line)]
    drawing.arrow((right("BERT"), middle("BERT")), *ends, head=False)
    for name, (_, column, row, _) in FAMILY.items():
        if column > 1 and row and name != "Transformer-XL":
            x = left(name) - 13
            drawing.arrow((x, line), (x, middle(name)), (left(name), middle(name)))
    drawing.box(200, 412, 210, 28, "17: another question", BLUE)
    drawing.box(460, 412, 210, 28, "18: another machine", ORANGE)
    return drawing


def left(name: str) -> float:
    """Where a box begins."""
    return 4.0 + STEP * FAMILY[name][1]


def right(name: str) -> float:
    """Where a box ends."""
    return left(name) + WIDE


def middle(name: str) -> float:
    """The height of the middle of a box."""
    return 32.0 + ROW * FAMILY[name][2] + HIGH / 2
