"""Pre-training on the toy language, beside the best that anybody could do.

A loss alone says little: is 0.9 good? For the toy language the answer is known. Of every held-out
word, `text.toy` knows the exact chance given what stands left of it, right of it, or on both
sides; the mean of -log of that chance is the *limit* of a reader of that side. Whoever comes
below it in the long run has seen something that it should not see.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence
from tqdm.auto import tqdm

from bertedu.model.bert import BertForPreTraining
from bertedu.model.config import DIRECTIONS, BertConfig, Direction
from bertedu.model.evaluating import evaluating
from bertedu.pretraining.batches import Batch
from bertedu.pretraining.loop import make_optimizer
from bertedu.pretraining.masking import mask_tokens
from bertedu.pretraining.next_word import next_words
from bertedu.pretraining.objective import pretraining_loss
from bertedu.pretraining.recipe import Recipe
from bertedu.text.tokenization import CLS_ID, MASK_ID, PAD_ID, SEP_ID, SPECIAL_TOKENS
from bertedu.text.toy_language import ToyLanguage

STEPS, BATCH, LEARNING_RATE, MASK_RATE = 3000, 64, 3e-3, 0.30
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
    places = [(row, t) for row, sentence in enumerate(sentences) for t in range(len(sentence))]
    limits = {}
    for direction, (left, right) in SEES.items():
        chances = []
        for row, t in places:
            answer = language.words.index(sentences[row][t])
            chances.append(language.posterior(sentences[row], t, left, right)[answer])
        limits[direction] = -torch.stack(chances).log().float()
    ids, (rows, columns) = toy_ids(language, sentences), torch.tensor(places).T
    columns = columns + 1  # [CLS]
    return Questions(ids, rows, columns, ids[rows, columns], limits)


def toy_losses(model: BertForPreTraining, questions: Questions) -> Tensor:
    """(N,) nats that a model pays for each word: hidden in turn, or foretold from one side."""
    return F.nll_loss(toy_log_chances(model, questions), questions.answers, reduction="none")


def toy_log_chances(model: BertForPreTraining, questions: Questions) -> Tensor:
    """(N, V) log probabilities of each word: hidden in turn, or foretold from one side."""
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
    log_chances: Tensor = words.log_softmax(-1)
    return log_chances


def train_toy(
    direction: Direction = "bidirectional",
    seed: int = 0,
    steps: int = STEPS,
    progress: bool = True,
) -> BertForPreTraining:
    """Train a model of 2 layers and 64 numbers a token on the toy language. Under a minute.

    BERT's loss without sentence pairs: masked words, or next words if it reads in one direction.
    """
    *_, (_, model) = train_in_parts(direction, seed, steps, progress)
    return model.eval()


def train_in_parts(
    direction: Direction, seed: int, steps: int, progress: bool = True
) -> Iterator[tuple[int, BertForPreTraining]]:
    """Train as `train_toy`, and yield step and model at the start and after each twentieth part."""
    language = ToyLanguage()
    size = len(SPECIAL_TOKENS) + len(language.words)
    torch.manual_seed(seed)
    model = BertForPreTraining(BertConfig(size, 64, 2, 4, 256, 32, 2, 0.0, direction=direction))
    sentences = toy_ids(language, language.sample(TRAINING, seed))
    optimizer = make_optimizer(model, weight_decay=0.01)
    schedule = Recipe(steps, LEARNING_RATE)
    generator = torch.Generator().manual_seed(seed)
    for step in tqdm(range(steps), desc=f"toy, {direction}", disable=not progress):
        if step % max(1, steps // 20) == 0:
            yield step, model
        drawn = torch.randint(len(sentences), (BATCH,), generator=generator)
        batch = toy_batch(sentences[drawn], size, direction, generator)
        for group in optimizer.param_groups:
            group["lr"] = schedule.learning_rate_at(step)
        loss, _ = pretraining_loss(model, batch, next_sentence=False)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    yield steps, model


def toy_batch(
    original: Tensor, vocab_size: int, direction: Direction, generator: torch.Generator
) -> Batch:
    """Make a batch of single sentences (B, S), as `batches` does of pairs."""
    if direction == "bidirectional":
        ids, selected = mask_tokens(original, vocab_size, generator, MASK_RATE)
        labels = original[selected]
    else:
        ids, (selected, labels) = original, next_words(original, direction)
    nothing = torch.zeros(len(ids), dtype=torch.long)
    return Batch(ids, torch.zeros_like(ids), original != PAD_ID, selected, labels, nothing)


def compare_with_limits(seeds: int, steps: int = STEPS) -> list[dict[str, object]]:
    """Train all three directions, some seeds each; return a row for each look.

    Loss and limit are mean nats a word on the same held-out words, the excess of the loss is in
    per cent of the limit, seconds are those of training so far.
    """
    language = ToyLanguage()
    # A seed that no training run has. Frequent sentences are in both, as in real text.
    questions = toy_questions(language, language.sample(HELD_OUT, 10_000))
    rows: list[dict[str, object]] = []
    for direction, seed in product(DIRECTIONS, range(seeds)):
        limit = questions.limits[direction].mean().item()
        seconds, began = 0.0, time.perf_counter()
        for step, model in train_in_parts(direction, seed, steps):
            seconds += time.perf_counter() - began
            loss = toy_losses(model, questions).mean().item()
            rows.append(
                {
                    "direction": direction,
                    "seed": seed,
                    "step": step,
                    "loss": round(loss, 4),
                    "limit": round(limit, 4),
                    "excess_percent": round(100 * (loss / limit - 1), 2),
                    "seconds": round(seconds, 1),
                }
            )
            began = time.perf_counter()
    return rows
