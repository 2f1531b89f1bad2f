"""Pre-training on the toy language, beside the best that anybody could do.

Of every held-out word, `text.toy_language` knows the exact chance given what stands left of it,
right of it, or on both sides; the mean of -log of that chance is the *limit* of a reader of that
side. Whoever comes below it in the long run has seen something that it should not see.
"""

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

from bertedu.files import Row
from bertedu.model.bert import BertForPreTraining
from bertedu.model.config import DIRECTIONS, BertConfig, Direction
from bertedu.model.inference import evaluating
from bertedu.pretraining.batches import Batch, next_words
from bertedu.pretraining.masking import mask_tokens
from bertedu.pretraining.objective import pretraining_loss
from bertedu.text.tokenization import CLS_ID, MASK_ID, PAD_ID, SEP_ID, SPECIAL_TOKENS
from course.experiments.fitting import fit
from course.experiments.toy_language import ToyLanguage

STEPS, BATCH, MASK_RATE = 3000, 64, 0.30
TRAINING, HELD_OUT = 20_000, 1_000  # sentences
SEES: dict[Direction, tuple[bool, bool]] = {  # left of the word, right of it
    "bidirectional": (True, True),
    "left-to-right": (True, False),
    "right-to-left": (False, True),
}


@dataclass(frozen=True)
class Questions:
    """N held-out words, ``answers``. ``ids`` is (sentences, S); word n is at ``rows``, ``columns``.

    ``limits`` has for each direction the (N,) nats that a perfect reader of it would pay.
    """

    ids: Tensor
    rows: Tensor
    columns: Tensor
    answers: Tensor
    limits: dict[Direction, Tensor]


def toy_ids(language: ToyLanguage, sentences: Sequence[Sequence[str]]) -> Tensor:
    """Write sentences as `[CLS] … [SEP] [PAD] …`: (sentences, S)."""
    number = {word: i for i, word in enumerate([*SPECIAL_TOKENS, *language.words])}
    rows = [torch.tensor([CLS_ID, *(number[word] for word in s), SEP_ID]) for s in sentences]
    return pad_sequence(rows, batch_first=True, padding_value=PAD_ID)


def toy_questions(language: ToyLanguage, sentences: Sequence[Sequence[str]]) -> Questions:
    """Ask for every word of some sentences, and compute what a perfect reader would pay."""
    ids = toy_ids(language, sentences)
    rows, columns = (ids >= len(SPECIAL_TOKENS)).nonzero(as_tuple=True)
    answers = ids[rows, columns]
    words = answers - len(SPECIAL_TOKENS)  # as columns of the language
    limits = {}
    for direction, sees in SEES.items():
        positions = (
            (sentence, position) for sentence in sentences for position in range(len(sentence))
        )
        chances = torch.stack([language.posterior(*at, *sees) for at in positions])  # (N, W)
        limits[direction] = F.nll_loss(chances.log(), words, reduction="none").float()
    return Questions(ids, rows, columns, answers, limits)


def held_out_questions() -> Questions:
    """Ask for every word of some held-out sentences."""
    language = ToyLanguage()
    # A seed that no training run has. Frequent sentences are in both, as in real text.
    return toy_questions(language, language.sample(HELD_OUT, 10_000))


def toy_losses(model: BertForPreTraining, questions: Questions) -> Tensor:
    """(N,) nats that a model pays for each word: hidden in turn, or foretold from one side."""
    direction = model.config.direction
    sentences, rows, columns = questions.ids, questions.rows, questions.columns
    with evaluating(model):
        if direction == "bidirectional":
            ids = sentences[rows].clone()
            at = torch.zeros_like(ids, dtype=torch.bool)
            at[torch.arange(len(rows)), columns] = True
            ids[at] = MASK_ID
            words, _ = model(ids, padding_mask=ids != PAD_ID, selected=at)  # one a row, in order
        else:
            scores, _ = model(sentences, padding_mask=sentences != PAD_ID)
            words = scores[rows, columns + (1 if direction == "right-to-left" else -1)]
    return F.cross_entropy(words, questions.answers, reduction="none")


def train_toy(
    direction: Direction, seed: int, steps: int, ends: bool = False
) -> Iterator[tuple[int, BertForPreTraining]]:
    """Train 2 layers of 64 numbers a token on the toy language; yield step and model 21 times.

    Once at the start, and after each twentieth part. The loss is BERT's without sentence pairs:
    masked words, or next words of a model that reads in one direction; with ``ends`` one
    that reads from left to right foretells the end, too, to write. All of it takes a minute.
    """
    if ends and direction != "left-to-right":
        raise ValueError(f"{direction}: only a left-to-right model foretells where a text ends")
    language = ToyLanguage()
    size = len(SPECIAL_TOKENS) + len(language.words)
    torch.manual_seed(seed)
    model = BertForPreTraining(BertConfig(size, 64, 2, 4, 256, 32, 2, 0.0, direction=direction))
    sentences = toy_ids(language, language.sample(TRAINING, seed))

    def loss(generator: torch.Generator) -> Tensor:
        original = sentences[torch.randint(len(sentences), (BATCH,), generator=generator)]
        if direction == "bidirectional":
            ids, selected = mask_tokens(original, size, generator, MASK_RATE)
            labels = original[selected]
        elif ends:
            ids, selected = original, (original != PAD_ID) & (original != SEP_ID)
            labels = original.roll(-1, dims=1)[selected]
        else:
            ids, (selected, labels) = original, next_words(original, direction)
        none = torch.zeros_like(ids)  # one segment, and no pair
        batch = Batch(ids, none, original != PAD_ID, selected, labels, none[:, 0])
        return pretraining_loss(model, batch, next_sentence=False)[0]

    yield 0, model
    title = f"toy, {direction}"
    for step in fit(model, loss, seed, steps, title=title, warmup_share=0.02, clip_norm=math.inf):
        if step % max(1, steps // 20) == 0 or step == steps:
            yield step, model


def compare_with_limits(seeds: int, steps: int = STEPS) -> list[Row]:
    """Train all three directions, some seeds each; return a row for each look.

    Loss and limit are mean nats per word on the same held-out words, the excess of the loss is in
    per cent of the limit, seconds are those of training so far.
    """
    questions = held_out_questions()
    rows: list[Row] = []
    for direction, seed in product(DIRECTIONS, range(seeds)):
        limit = questions.limits[direction].mean().item()
        seconds, began = 0.0, time.perf_counter()
        for step, model in train_toy(direction, seed, steps):
            seconds += time.perf_counter() - began
            loss = toy_losses(model, questions).mean().item()
            row: Row = {"direction": direction, "seed": seed, "step": step}
            row |= {"loss": round(loss, 4), "limit": round(limit, 4)}
            row |= {"excess_percent": round(100 * (loss / limit - 1), 2)}
            rows.append(row | {"seconds": round(seconds, 1)})
            began = time.perf_counter()
    return rows
