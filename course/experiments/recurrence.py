"""Two ways to have read: ask the reader's states, or keep those of the last segment.

*Translation* into another order and other words, drawn anew for every step: a whole Transformer
against two GRUs of as many parameters. *Memory*: pairs of a key and a value, cut into segments;
only an earlier pair with its key tells a value. *Steps*: the longest chain of operations that wait
for each other, and time as a ratio, in one run.
``python -m course.experiments.recurrence`` adds to `data/results/recurrence.csv` what it lacks; 12
minutes of one core in all.
"""

import math
import time
from collections.abc import Iterator
from itertools import product
from statistics import median

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bertedu.files import Row
from bertedu.model.attention import SelfAttention
from bertedu.model.config import BertConfig
from bertedu.model.inference import evaluating
from bertedu.model.variants.seq2seq import Recurrent, Transformer, translate
from bertedu.model.variants.transformer_xl import TransformerXL
from bertedu.text.tokenization import CLS_ID, PAD_ID, SEP_ID
from course.experiments.fitting import train
from course.experiments.toy_readers import FIRST
from course.results.study import grid, study

WORDS, LONGEST = 16, 12  # of a language, and of a text
PAIRS, KEYS, TRAINED = 8, 8, 4  # of a segment; as many values; segments in training, at most
SEGMENT = 2 * PAIRS
BATCH, HELD_OUT = 64, 1000
TRANSLATORS = ("Transformer", "GRUs")
MEMORIES = {"memory 0": 0, "memory 16": SEGMENT}


def draw_translations(
    count: int, low: int, high: int, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Draw sources (count, S) and targets (count, S + 2): reversed, each word by another word."""
    sizes = torch.randint(low, high + 1, (count, 1), generator=generator)
    words = torch.randint(WORDS, (count, high), generator=generator)
    position, end = torch.arange(high), torch.full((count, 1), PAD_ID)
    other = FIRST + WORDS + (7 * words + 3) % WORDS  # the dictionary
    beyond = position >= sizes
    other = other.gather(1, (sizes - 1 - position).clamp(min=0)).masked_fill(beyond, PAD_ID)
    target = torch.cat([torch.full_like(end, CLS_ID), other, end], 1).scatter(1, sizes + 1, SEP_ID)
    return (FIRST + words).masked_fill(beyond, PAD_ID), target


def make_translator(name: str) -> Transformer | Recurrent:
    """Make a "Transformer", or "GRUs" of as many parameters (within 2 %)."""
    if name != "Transformer":
        return Recurrent(FIRST + 2 * WORDS, 139)
    sizes = (FIRST + 2 * WORDS, 64, 2, 4, 256, LONGEST + 2, 2)
    return Transformer(BertConfig(*sizes, 0.0, 1e-12, 0.1))


def _weights(*parts: nn.Module) -> int:
    return sum(weight.numel() for part in parts for weight in part.parameters())


def train_translator(
    name: str, seed: int, steps: int, longest: int = LONGEST
) -> tuple[Transformer | Recurrent, Row]:
    """Train a translator on texts of 1 to ``longest`` words; return it, and what it has cost."""
    torch.manual_seed(seed)
    model = make_translator(name)
    spent: Row = {"parameters": _weights(model), "tokens": 0, "operations": 0}
    reader, writer = _weights(model.encoder), _weights(model.layers, model.head)

    def loss(generator: torch.Generator) -> Tensor:
        source, target = draw_translations(BATCH, 1, longest, generator)
        read, written = int((source != PAD_ID).sum()), int((target[:, 1:] != PAD_ID).sum())
        spent["tokens"] += read + written
        spent["operations"] += 6 * (reader * read + writer * written)
        scores, _ = model(source, target[:, :-1])
        return F.cross_entropy(scores.transpose(1, 2), target[:, 1:], ignore_index=PAD_ID)

    # with 2e-3 the GRUs learn less
    train(model, loss, seed, steps, 6e-3 if isinstance(model, Recurrent) else 2e-3)
    return model, spent


def score_translator(model: Transformer | Recurrent, length: int) -> tuple[float, Tensor]:
    """Return the share of held-out texts without a mistake, and of weight on the right word.

    The latter is (layers, heads), over the words to be written; (0,) without cross-attention.
    """
    generator = torch.Generator().manual_seed(10_000)  # a seed that no training run has
    source, target = draw_translations(HELD_OUT, length, length, generator)
    written = F.pad(translate(model, source, length + 1), (0, length + 1))[:, : length + 1]
    exact = (written == target[:, 1:]).all(dim=1).double().mean().item()
    with evaluating(model):
        _, weights = model(source, target[:, :-1])
    shares = [w[:, :, :-1].flip(-1).diagonal(dim1=2, dim2=3).mean((0, 2)) for w in weights]
    return exact, torch.stack(shares) if shares else torch.zeros(0)


def draw_pairs(count: int, segments: int, generator: torch.Generator) -> Tensor:
    """Draw texts key, value, key, …, each with a dictionary of its own: ids (count, S)."""
    keys = torch.randint(KEYS, (count, segments * PAIRS), generator=generator)
    values = torch.randint(KEYS, (count, KEYS), generator=generator).gather(1, keys)
    return torch.stack([FIRST + keys, FIRST + KEYS + values], dim=-1).flatten(1)


def recall_limit(pair: int, segment: int, memory: int) -> float:
    """Return the mean nats of a value to who sees its own segment, and so many tokens before.

    Pair and segment count from 0. If no pair that is seen has the key, all values are as likely.
    """
    seen = pair + min(segment * PAIRS, memory // 2)
    return float((1 - 1 / KEYS) ** seen * math.log(KEYS))


def value_losses(model: TransformerXL, ids: Tensor) -> Tensor:
    """(B, S) -> nats for each value, (B, S / 2): the state at a key predicts it."""
    scores = model.head(model.read(ids, SEGMENT)[:, ::2])
    return F.cross_entropy(scores.transpose(1, 2), ids[:, 1::2], reduction="none")


def train_reader(memory: int, seed: int, steps: int = 500) -> tuple[TransformerXL, Row]:
    """Train a reader with so much memory, on texts of 1 to `TRAINED` segments; and its cost."""
    torch.manual_seed(seed)
    sizes = (FIRST + 2 * KEYS, 64, 2, 4, 256, SEGMENT, 1)
    model = TransformerXL(BertConfig(*sizes, 0.0, 1e-12, 0.1, "left-to-right"), memory)
    spent: Row = {"parameters": _weights(model), "tokens": 0, "operations": 0}
    every, head = _weights(model.layers), _weights(model.head)
    attention = _weights(*(part for part in model.modules() if isinstance(part, SelfAttention)))

    def loss(generator: torch.Generator) -> Tensor:
        segments = int(torch.randint(1, TRAINED + 1, (), generator=generator))
        ids = draw_pairs(BATCH, segments, generator)
        passed = every * ids.numel() + attention * BATCH * memory * (segments - 1)
        spent["tokens"] += ids.numel()
        spent["operations"] += 6 * (passed + head * (ids.numel() // 2))
        return value_losses(model, ids).mean()

    train(model, loss, seed, steps)
    return model, spent


def steps_in_a_row(result: Tensor) -> int:
    """Count the longest chain of operations behind a result, each waiting for the one before."""
    count, waiting = 0, {result.grad_fn}
    while waiting:
        waiting = {one for node in waiting if node for one, _ in node.next_functions if one}
        count += 1
    return count


def compare_steps(length: int, repeats: int = 5) -> list[Row]:
    """Read 16 texts of a length, there and back, with either reader, turn by turn, on one core."""
    source = torch.full((16, length), FIRST)
    whole = Transformer(BertConfig(FIRST + 2 * WORDS, 64, 2, 4, 256, length, 2, 0.0))
    models = {"Transformer": whole, "GRUs": make_translator("GRUs")}
    seconds: dict[str, list[float]] = {name: [] for name in models}
    row: Row = {}
    for _, (name, model) in product(range(repeats + 1), models.items()):
        begun = time.process_time()
        read = model.encode(source)
        read.sum().backward()  # type: ignore[no-untyped-call]
        seconds[name].append(time.process_time() - begun)
        row[f"steps_{name}"] = steps_in_a_row(read)
    slower = median(seconds["GRUs"][1:]) / median(seconds["Transformer"][1:])  # the first warms up
    return [row | {"time_ratio": round(slower, 3)}]


def _translation(experiment: str, model: str, seed: int) -> Iterator[Row]:
    translator, spent = train_translator(model, seed, 400)
    for length in range(1, LONGEST + 1):
        exact, shares = score_translator(translator, length)
        row: Row = {"length": length, "exact": round(exact, 4)}
        if len(shares):
            row |= {"best_head": round(shares.max().item(), 4)}
            row |= {"all_heads": round(shares.mean().item(), 4)}
        yield row | spent


def _memory(experiment: str, model: str, seed: int) -> Iterator[Row]:
    reader, spent = train_reader(MEMORIES[model], seed)
    ids = draw_pairs(HELD_OUT, 2 * TRAINED, torch.Generator().manual_seed(10_000))
    with evaluating(reader):
        means = value_losses(reader, ids[:, : 2 * SEGMENT]).mean(0)[PAIRS:]
    for pair, loss in enumerate(means.tolist()):  # of the second segment
        limit = recall_limit(pair, 1, reader.memory_size)
        yield {"pair": pair + 1, "loss": round(loss, 4), "limit": round(limit, 4)} | spent


LENGTHS = (8, 16, 32, 64, 128, 256)
PLAN = [
    *grid(lambda experiment, length: compare_steps(length), experiment=["steps"], length=LENGTHS),
    *grid(_translation, experiment=["translation"], model=TRANSLATORS, seed=range(3)),
    *grid(_memory, experiment=["memory"], model=MEMORIES, seed=range(3)),
]

if __name__ == "__main__":
    study(recurrence=PLAN)
