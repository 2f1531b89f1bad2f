"""Everything that the workshop shows in a page, each made around one word; and a strict reader."""

import dataclasses
import re
from collections.abc import Callable
from functools import cache, partial
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import torch

from bertedu.analysis.fill import Guess
from bertedu.finetuning.examples import Question
from bertedu.finetuning.finetune import kind_named, load_encoder
from bertedu.finetuning.saving import FineTuned
from bertedu.finetuning.training import TaskModel
from bertedu.model.bert import Bert, BertForPreTraining
from bertedu.model.checkpoints import save_checkpoint
from bertedu.model.config import BertConfig, Direction
from bertedu.text.fast_tokenizer import load_tokenizer, load_vocabulary, save_tokenizer
from course.experiments.toy_language import ToyLanguage
from course.workshop import bertviz, family_tree, play, schematics
from course.workshop.attention_view import Attention, AttentionView
from course.workshop.machine import Machine
from course.workshop.play import Playground
from course.workshop.span_view import SpanView, TextPiece, question_html
from course.workshop.tag_view import TaggedText
from course.workshop.widgets import columns_html

CONFIG = BertConfig(8192, 16, 3, 2, 32, 128, initializer_range=0.5)
TEXT = "The ship sank in the bay."
SENTENCE = "The happy dog barked."
A, B = "The river rises in the mountains.", "It flows south and ends in the sea."
WORDS, VECTORS = ["ship", "bridge", "it"], [[2.0, 0.0], [0.0, 2.0], [1.0, 0.0]]
NUMBERS = [1.0, 3.0, -2.0, 0.5, 2.0, -1.0, 0.0, 2.5]
START = "The river flows"
BANKS = {
    "money": ["The bank lent him money.", "He works in a bank and counts money."],
    "river": ["They walked along the bank of the river.", "Fish swim near the bank of the lake."],
}
LANGUAGE = ToyLanguage()
FRESH = LANGUAGE.sample(100, seed=2)
SIDES = {"left only": (True, False), "right only": (False, True), "both": (True, True)}
LABELS = {"classification": ("yes", "no", "both"), "tagging": ("O", "B-PLACE", "I-PLACE")}
HUGS = {"hug": 10, "pug": 5, "pun": 12, "bun": 4, "hugs": 5}
NOTEBOOKS = sorted(
    path.name[:2] for path in (Path(__file__).parents[1] / "notebooks").glob("[0-9]*.ipynb")
)


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What computes with a model writes its weights where it is; for a file that imports this."""
    monkeypatch.chdir(tmp_path)


@cache
def tiny_bert(direction: Direction = "bidirectional") -> Bert:
    torch.manual_seed(0)
    return Bert(dataclasses.replace(CONFIG, direction=direction)).eval()


def attention(
    *tokens: str, layers: int = 2, heads: int = 3, name: str = "m", seed: int = 1
) -> Attention:
    size = len(tokens)
    scores = torch.randn(layers, heads, size, size, generator=torch.Generator().manual_seed(seed))
    return Attention(name, list(tokens), list(range(1, layers + 1)), (4 * scores).softmax(-1))


def saved(folder: Path, **changes: Any) -> Path:
    """A tiny checkpoint that was not trained."""
    torch.manual_seed(0)
    folder.mkdir(exist_ok=True)
    config = dataclasses.replace(CONFIG, num_hidden_layers=2, **changes)
    save_checkpoint(BertForPreTraining(config), folder)
    save_tokenizer(load_vocabulary(), folder)
    return folder


def tuned(kind: Any = "classification", pairs: bool = False, of: str = "bert-L4H128") -> FineTuned:
    """A model with a new layer, not trained: its answers are as good a test."""
    encoder, tokenizer = load_encoder(of)
    labels = LABELS.get(kind, ())
    how = kind_named(kind, labels)
    torch.manual_seed(0)
    model = TaskModel(encoder, how)
    torch.nn.init.normal_(next(model.head.parameters()), std=0.1)
    return FineTuned(model.eval(), tokenizer, f"{kind}-{pairs}", kind, labels, pairs=pairs)


@cache
def exact() -> dict[str, float]:
    """The mean surprise of the exact answer, at every word of the fresh sentences."""

    def limit(left: bool, right: bool) -> float:
        shares = [
            LANGUAGE.posterior(sentence, place, left, right)[LANGUAGE.words.index(word)]
            for sentence in FRESH
            for place, word in enumerate(sentence)
        ]
        return -float(torch.stack(shares).log().mean())

    return {name: limit(*sides) for name, sides in SIDES.items()}


TOYS: dict[str, Callable[[], Playground]] = {
    "longest_match": lambda: play.longest_match("things"),
    "merge_stepper": lambda: play.merge_stepper(HUGS),
    "three_vectors": lambda: play.three_vectors(WORDS, VECTORS),
    "dice": lambda: play.dice(SENTENCE),
    "warm_up": play.warm_up,
    "plug": play.plug,
    "limits": lambda: play.limits(FRESH, exact()),
    "layer_norm": lambda: play.layer_norm(NUMBERS),
    "two_boxes": lambda: play.two_boxes(A, B),
    "neighbors": play.neighbors,
    "meet": play.meet,
    "which_word": lambda: play.which_word("It was ___ important city.", ("a", "an")),
    "three_readers": lambda: play.three_readers("it was small", "it", [(1, 1), (2, 2), (4, 1)]),
    "climb": lambda: play.climb("bank", "The river bank was full.", BANKS),
    "own_text": lambda: play.own_text(tuned(), "A sentence."),
    "writer": lambda: play.writer("diffusion-L4H128", START, 6, (1, 2, 6), (0.4, 1.0)),
}
DRAWINGS: dict[str, Callable[[], schematics.Drawing]] = {
    "family_tree": family_tree.family_tree,
    **{name: getattr(schematics, name) for name in (
        "input_sum", "layer", "attention", "pretrain_finetune", "directions", "four_tasks")},
    **{number: partial(schematics.you_are_here, number) for number in NOTEBOOKS},
}  # fmt: skip


def drawing(word: str) -> schematics.Drawing:
    made = schematics.Drawing(100, f"A drawing of {word}")
    made.box(10, 10, 600, 50, word)
    return made


# around a word, which may be hostile
AROUND: dict[str, Callable[[str], Any]] = {
    "AttentionView": lambda word: AttentionView(attention(word, "b", name=word)),
    "model_view": lambda word: bertviz.model_view(tiny_bert(), load_tokenizer(), TEXT, name=word),
    "Machine": lambda word: Machine(saved(Path("a <b> & c")), f"{word} ___"),
    "Playground": lambda word: Playground("dice", {"text": word}, f"alt {word}", f"still {word}"),
    "Drawing": drawing,
    "TaggedText": lambda word: TaggedText([word, "b"], ["B-X", "O"], ["X"]),
    "SpanView": lambda word: SpanView(
        word, f"{word} b", (TextPiece(0, len(word), 0.7, 0.2),), TextPiece(0, 0, 0.1, 0), (0, 3)
    ),
}
HTML: dict[str, Callable[[str], str]] = {
    **{name: lambda word, make=make: make(word)._repr_html_() for name, make in AROUND.items()},
    "question_html": lambda word: question_html(Question("q", word, word, ((word, 0),))),
    "columns_html": lambda word: columns_html({word: [Guess(word, 0.5)]}),
}


class Page(HTMLParser):
    """What a browser reads in some HTML; an element closed in the wrong order is an error."""

    def __init__(self, page: str) -> None:
        """Read it all."""
        super().__init__()
        self.html, self.open, self.tags = page, list[str](), list[tuple[str, ...]]()
        self.values: dict[str, list[str]] = {}  # of each attribute
        self.texts: dict[str, list[str]] = {}  # by the element that is open
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep its name and its attributes."""
        self.tags.append((tag, *(name for name, _ in attrs)))
        self.open += [tag] if tag not in ("img", "br") else []
        for name, value in attrs:
            self.values.setdefault(name, []).append(str(value))

    def handle_endtag(self, tag: str) -> None:
        """It is the last that was opened, or the table of cells that are left open."""
        while tag == "table" and self.open[-1] in ("td", "tr"):
            self.open.pop()
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Keep what is written, by all elements that it stands in."""
        for tag in {*self.open}:
            self.texts.setdefault(tag, []).append(data)

    @property
    def script(self) -> str:
        """The text of its script."""
        return "".join(self.texts.get("script", []))

    @property
    def told(self) -> str:
        """What is there without scripts, alt texts too."""
        still = Page(re.split(r"<script", self.html)[0])
        alts = still.values.get("alt", []) + still.values.get("aria-label", [])
        words = [text for tag, some in still.texts.items() if tag != "style" for text in some]
        return "\n".join(alts + words)
