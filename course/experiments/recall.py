"""Recall: words that only both sides together tell, with limits that are exact.

A list of words, a blank, and a place: "frog lamp tree ___ second" asks for *lamp*. Where the blank
stands decides what a reader of one side has seen: the list, the place, or both. The XOR word is
smaller still: two bits, and between them their exclusive or. All texts are drawn anew for every
step, so nothing can be learned by heart. ``python -m course.experiments.recall`` adds the runs that
`data/results/recall.csv` lacks, a row for each run and length of the list.
"""

import math
from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bertedu.files import Row
from bertedu.finetuning.finetune import with_bilstm
from bertedu.model.bert import Bert
from bertedu.model.config import BertConfig, Direction
from bertedu.model.features import BertFeatures, Encoder, PairFeatures
from bertedu.text.tokenization import CLS_ID, MASK_ID, SEP_ID, SPECIAL_TOKENS
from course.experiments.fitting import train
from course.results.study import grid, study

WORDS, LONGEST = 16, 8  # words that a list is drawn from, and the longest list
FIRST_WORD = len(SPECIAL_TOKENS)
FIRST_POSITION = FIRST_WORD + WORDS  # ids of "first", "second", …
XOR = "bit, blank, bit"
LAYOUTS = ("list, blank, place", "place, blank, list", "list, place, blank", XOR)
READERS: dict[str, Direction | None] = {
    "BERT": "bidirectional",
    "left to right": "left-to-right",
    "right to left": "right-to-left",
    "pair": None,
    "pair + BiLSTM": None,
}
STEPS, BATCH, LEARNING_RATE, HELD_OUT = 600, 64, 2e-3, 1000


def recall_texts(
    layout: str, length: int, count: int, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Draw texts of a layout: ids (count, S), and which words (count,) belong in the blanks.

    The ``length`` words of a list are all different, so the list alone leaves them equally likely.
    """
    begin, blank, end = (torch.full((count, 1), token) for token in (CLS_ID, MASK_ID, SEP_ID))
    if layout == XOR:
        bits = torch.randint(2, (count, 2), generator=generator)
        left, right = (bits + FIRST_WORD).chunk(2, dim=1)
        return torch.cat([begin, left, blank, right, end], dim=1), bits.sum(dim=1) % 2
    words = torch.rand(count, WORDS, generator=generator).argsort(dim=1)[:, :length]
    place = torch.randint(length, (count, 1), generator=generator)
    parts = {"list": words + FIRST_WORD, "place": place + FIRST_POSITION, "blank": blank}
    inside = [parts[name] for name in layout.split(", ")]
    return torch.cat([begin, *inside, end], dim=1), words.gather(1, place)[:, 0]


def recall_limit(layout: str, reader: str, length: int) -> float:
    """Return the nats that a perfect reader of this kind pays for a blank.

    A pair scores a word by a sum: so much from the left, so much from the right. The loss is convex
    in the two terms, and the texts are as likely with the places of the list renumbered; so the
    best terms can be averaged over all numberings, and then neither knows of an order. It remains
    the list, without the place. With bits the same holds for swapping 0 and 1 on both sides.
    """
    before, _, after = layout.partition("blank")
    seen = {"left to right": before, "right to left": after}.get(reader, layout)
    if layout == XOR:
        return 0.0 if reader in ("BERT", "pair + BiLSTM") else math.log(2)
    one_half_sees_all = {"list", "place"} <= set(before.split(", "))
    if "list" not in seen:
        return math.log(WORDS)
    if "place" not in seen or (reader == "pair" and not one_half_sees_all):
        return math.log(length)
    return 0.0


class RecallReader(nn.Module):
    """A small encoder of 2 layers and 64 numbers a token, and one linear layer on its blank."""

    def __init__(self, reader: str, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        direction = READERS[reader]
        self.encoder: Encoder
        if direction is not None:
            self.encoder = BertFeatures(_small_bert(direction))
        else:
            halves = _small_bert("left-to-right"), _small_bert("right-to-left")
            pair = PairFeatures(*halves)
            self.encoder = with_bilstm(pair) if "BiLSTM" in reader else pair
        self.scores = nn.Linear(self.encoder.size, WORDS)

    def forward(self, ids: Tensor) -> Tensor:
        """(B, S) with one blank each -> the scores of all words in it, (B, WORDS)."""
        tokens = self.encoder(ids, torch.zeros_like(ids), torch.ones_like(ids).bool()).tokens
        return self.scores(tokens[ids == MASK_ID])


def _small_bert(direction: Direction) -> Bert:
    sizes = (FIRST_POSITION + LONGEST, 64, 2, 4, 256, 16, 2, 0.0)
    # weights of 0.02, BERT's, are small beside 1/√64 and cost so small a model some hundred steps
    return Bert(BertConfig(*sizes, initializer_range=0.1, direction=direction))


def train_recall(reader: str, layout: str, seed: int = 0, steps: int = STEPS) -> RecallReader:
    """Train a reader on fresh texts; each step has lists of one length, from 1 to `LONGEST`."""
    model = RecallReader(reader, seed)

    def loss(rng: torch.Generator) -> Tensor:
        length = int(torch.randint(1, LONGEST + 1, (), generator=rng))
        ids, answers = recall_texts(layout, length, BATCH, rng)
        return F.cross_entropy(model(ids), answers)

    train(model, loss, seed, steps, LEARNING_RATE, f"{reader}, {layout}")
    return model.eval()


@torch.inference_mode()
def score_recall(model: RecallReader, layout: str, length: int) -> tuple[float, float]:
    """Return loss in nats and share of right words, on held-out texts that are always the same."""
    generator = torch.Generator().manual_seed(10_000)  # a seed that no training run has
    ids, answers = recall_texts(layout, length, HELD_OUT, generator)
    scores = model(ids)
    right = (scores.argmax(dim=-1) == answers).double().mean()
    return F.cross_entropy(scores, answers).item(), right.item()


def lengths_of(layout: str) -> range:
    """Return the lengths of lists that are scored; the XOR word has no list."""
    return range(1, 2) if layout == XOR else range(1, LONGEST + 1)


def run(layout: str, reader: str, seed: int) -> Iterator[Row]:
    """Train one reader, and score it; a row for each length of the list."""
    model = train_recall(reader, layout, seed)
    for length in lengths_of(layout):
        loss, accuracy = score_recall(model, layout, length)
        row: Row = {"length": length, "loss": round(loss, 4), "accuracy": round(accuracy, 4)}
        yield row | {"limit": round(recall_limit(layout, reader, length), 4)}


PLAN = grid(run, layout=LAYOUTS, reader=READERS, seed=range(5))

if __name__ == "__main__":
    study(recall=PLAN)
