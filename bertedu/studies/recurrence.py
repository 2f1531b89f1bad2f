"""Two ways to have read: ask the reader's states, or keep those of the last segment.

*Translation* into another order and other words, drawn anew for every step: a whole Transformer
against two GRUs of as many parameters. Foretold: on long texts the GRUs fall behind; some head of
cross-attention puts more than half of its weight on the word that is translated. *Memory*: pairs of
a key and a value, cut into segments; only an earlier pair with its key tells a value. Foretold:
with memory the loss comes near the exact limit of both segments, and without stays at that of one.
*Steps*: the longest chain of operations that wait for each other, and time as a ratio, in one run.

``python -m bertedu.studies.recurrence`` writes `data/results/recurrence.csv` in 12 minutes of one
core; what is there is not run again. Notebook 18 shows the results.
"""

import math
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from statistics import mean, median

import torch
import typer
from torch import Tensor, nn
from torch.nn import functional as F
from tqdm.auto import tqdm

from bertedu.model.attention import SelfAttention
from bertedu.model.config import BertConfig
from bertedu.model.evaluating import evaluating
from bertedu.model.variants.seq2seq import Recurrent, Transformer, translate
from bertedu.model.variants.transformer_xl import TransformerXL
from bertedu.pretraining.loop import make_optimizer
from bertedu.pretraining.recipe import scheduled_rate
from bertedu.results.files import Row, read_csv, write_csv
from bertedu.results.origin import origin
from bertedu.studies.after_bert import Finding, finding
from bertedu.text.tokenization import CLS_ID, PAD_ID, SEP_ID, SPECIAL_TOKENS

RECORD = Path("data/results/recurrence.csv")
FIRST, WORDS, LONGEST = len(SPECIAL_TOKENS), 16, 12  # words of a language, and of a text
PAIRS, KEYS, TRAINED = 8, 8, 4  # of a segment; as many values; segments in training, at most
SEGMENT = 2 * PAIRS
BATCH, HELD_OUT = 64, 1000
TRANSLATORS = {"Transformer": 400, "GRUs": 400, "GRUs, 3 times": 1200}  # name: steps
MEMORIES = {0: (0,), SEGMENT: (SEGMENT, 3 * SEGMENT)}  # in training: at the test
ASKED = (1, 2 * TRAINED - 1)  # segments from 0: all before is in memory; longer than in training
Losses = Callable[[torch.Generator], tuple[Tensor, int, int]]  # loss, tokens, weights they passed


def draw_translations(
    count: int, low: int, high: int, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Draw sources (count, S) and targets (count, S + 2): reversed, each word by another word."""
    sizes = torch.randint(low, high + 1, (count, 1), generator=generator)
    words = torch.randint(WORDS, (count, high), generator=generator)
    place, end = torch.arange(high), torch.full((count, 1), PAD_ID)
    other = FIRST + WORDS + (7 * words + 3) % WORDS  # the dictionary
    other = other.gather(1, (sizes - 1 - place).clamp(min=0)).masked_fill(place >= sizes, PAD_ID)
    target = torch.cat([torch.full_like(end, CLS_ID), other, end], 1).scatter(1, sizes + 1, SEP_ID)
    return (FIRST + words).masked_fill(place >= sizes, PAD_ID), target


def make_translator(name: str) -> Transformer | Recurrent:
    """Make a "Transformer", or "GRUs" of as many parameters (within 2 %)."""
    if name != "Transformer":
        return Recurrent(FIRST + 2 * WORDS, 139)
    return Transformer(
        BertConfig(FIRST + 2 * WORDS, 64, 2, 4, 256, LONGEST + 2, 2, 0.0, 1e-12, 0.1)
    )


def _weights(*parts: nn.Module) -> int:
    return sum(weight.numel() for part in parts for weight in part.parameters())


def _train(model: nn.Module, losses: Losses, seed: int, steps: int, rate: float) -> Row:
    """Train on what ``losses`` draws; return the parameters, tokens read and operations."""
    optimizer = make_optimizer(model, weight_decay=0.01)
    generator = torch.Generator().manual_seed(seed)
    spent: Row = {"parameters": _weights(model), "tokens": 0, "operations": 0}
    for step in tqdm(range(steps), desc=type(model).__name__):
        for group in optimizer.param_groups:
            group["lr"] = scheduled_rate(step, steps, rate, warmup_share=0.1)
        loss, tokens, passed = losses(generator)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        spent["tokens"] += tokens
        spent["operations"] += 6 * passed
    return spent


def train_translator(
    name: str, seed: int, steps: int, longest: int = LONGEST
) -> tuple[Transformer | Recurrent, Row]:
    """Train a translator on texts of 1 to ``longest`` words; return it, and what it has cost."""
    torch.manual_seed(seed)
    model = make_translator(name)
    if isinstance(model, Recurrent):
        reader, writer = _weights(model.reader), _weights(model.writer, model.scores)
    else:
        reader, writer = _weights(model.encoder), _weights(model.layers, model.head)

    def losses(generator: torch.Generator) -> tuple[Tensor, int, int]:
        source, target = draw_translations(BATCH, 1, longest, generator)
        scores, _ = model(source, target[:, :-1])
        loss = F.cross_entropy(scores.transpose(1, 2), target[:, 1:], ignore_index=PAD_ID)
        read, written = int((source != PAD_ID).sum()), int((target[:, 1:] != PAD_ID).sum())
        return loss, read + written, reader * read + writer * written

    rate = 6e-3 if isinstance(model, Recurrent) else 2e-3  # with 2e-3 the GRUs learn less
    return model, _train(model, losses, seed, steps, rate)


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
    """(B, S) -> nats for each value, (B, S / 2): the state at a key foretells it."""
    scores = model.head(model.read(ids, SEGMENT)[:, ::2])
    return F.cross_entropy(scores.transpose(1, 2), ids[:, 1::2], reduction="none")


def train_reader(memory: int, seed: int, steps: int = 500) -> tuple[TransformerXL, Row]:
    """Train a reader with so much memory, on texts of 1 to `TRAINED` segments; and its cost."""
    torch.manual_seed(seed)
    sizes = (FIRST + 2 * KEYS, 64, 2, 4, 256, SEGMENT, 1)
    model = TransformerXL(BertConfig(*sizes, 0.0, 1e-12, 0.1, "left-to-right"), memory)
    every, head = _weights(model.layers), _weights(model.head)
    attention = _weights(*(part for part in model.modules() if isinstance(part, SelfAttention)))

    def losses(generator: torch.Generator) -> tuple[Tensor, int, int]:
        segments = int(torch.randint(1, TRAINED + 1, (), generator=generator))
        ids = draw_pairs(BATCH, segments, generator)
        passed = every * ids.numel() + attention * BATCH * memory * (segments - 1)
        return value_losses(model, ids).mean(), ids.numel(), passed + head * (ids.numel() // 2)

    return model, _train(model, losses, seed, steps, 3e-3)


def steps_in_a_row(result: Tensor) -> int:
    """Count the longest chain of operations behind a result, each waiting for the one before."""
    count, waiting = 0, {result.grad_fn}
    while waiting:
        waiting = {one for node in waiting if node for one, _ in node.next_functions if one}
        count += 1
    return count


def compare_steps(length: int, repeats: int = 5) -> Row:
    """Read 16 texts of a length, there and back, with either reader, turn by turn, on one core."""
    source = torch.full((16, length), FIRST)
    whole = Transformer(BertConfig(FIRST + 2 * WORDS, 64, 2, 4, 256, length, 2, 0.0))
    models = {"Transformer": whole, "GRUs": make_translator("GRUs")}
    seconds: dict[str, list[float]] = {name: [] for name in models}
    row: Row = {"experiment": "steps", "length": length}
    for _, (name, model) in product(range(repeats + 1), models.items()):
        begun = time.process_time()
        read = model.encode(source)
        read.sum().backward()  # type: ignore[no-untyped-call]
        seconds[name].append(time.process_time() - begun)
        row[f"steps_{name}"] = steps_in_a_row(read)
    slower = median(seconds["GRUs"][1:]) / median(seconds["Transformer"][1:])  # the first warms up
    return row | {"time_ratio": round(slower, 3)}


def _translation_rows(name: str, seed: int) -> list[Row]:
    model, spent = train_translator(name, seed, TRANSLATORS[name])
    rows = []
    for length in range(1, LONGEST + 1):
        exact, shares = score_translator(model, length)
        row: Row = {"experiment": "translation", "model": name, "seed": seed, "length": length}
        row |= {"exact": round(exact, 4)}
        if len(shares):
            row |= {"best_head": round(shares.max().item(), 4)}
            row |= {"all_heads": round(shares.mean().item(), 4)}
        rows.append(row | spent)
    return rows


def _memory_rows(memory: int, seed: int) -> list[Row]:
    model, spent = train_reader(memory, seed)
    ids = draw_pairs(HELD_OUT, 2 * TRAINED, torch.Generator().manual_seed(10_000))
    rows = []
    for model.memory_size in MEMORIES[memory]:
        with evaluating(model):
            means = value_losses(model, ids).mean(0).view(-1, PAIRS)
        for segment, pair in product(ASKED, range(PAIRS)):
            row: Row = {"experiment": "memory", "model": f"memory {memory}", "seed": seed}
            row |= {"at_test": model.memory_size, "segment": segment + 1, "pair": pair + 1}
            row |= {"loss": round(means[segment, pair].item(), 4)}
            limit = round(recall_limit(pair, segment, model.memory_size), 4)
            rows.append(row | {"limit": limit} | spent)
    return rows


def mean_over(column: str, rows: list[Row], **values: str) -> list[float]:
    """Return the mean of a column for each seed, over the rows with these values."""
    chosen = [row for row in rows if all(row[name] == value for name, value in values.items())]
    seeds = sorted({row["seed"] for row in chosen})
    return [mean(float(row[column]) for row in chosen if row["seed"] == seed) for seed in seeds]


def findings(folder: Path) -> list[Finding]:
    """Return what the table of notebook 18 says of the two, from the CSV in a folder."""
    rows = read_csv(folder / RECORD.name)
    exact = [mean_over("exact", rows, model=name, length=str(LONGEST)) for name in TRANSLATORS]
    nats = mean_over("loss", rows, model=f"memory {SEGMENT}", at_test=str(SEGMENT), segment="2")
    alone = mean(recall_limit(pair, 1, 0) for pair in range(PAIRS))
    return [
        finding("Transformer", 2017, "attention alone translates better than recurrence",
                f"points more of texts of {LONGEST} words whole, against GRUs without attention",
                [100 * (a - b) for a, b in zip(exact[0], exact[1], strict=False)]),
        finding("Transformer-XL", 2019, "a memory of the last segment tells what stood there",
                "nats a value below the exact limit of one segment", [alone - n for n in nats]),
    ]  # fmt: skip


def main(out: Path = RECORD, seeds: int = 5) -> None:
    """Add what is missing to the CSV file ``out``, so many runs of each."""
    torch.set_num_threads(1)
    made = origin()  # before it runs: the code may be edited meanwhile
    rows = read_csv(out)
    done = {(row["model"], row["seed"]) for row in rows}
    if ("", "") not in done:
        rows += [compare_steps(length) | made for length in (8, 16, 32, 64, 128, 256)]
    runs: list[str | int] = [*TRANSLATORS, *MEMORIES]
    for seed, run in product(range(seeds), runs):
        name = run if isinstance(run, str) else f"memory {run}"
        if (name, str(seed)) not in done:
            new = _translation_rows(run, seed) if isinstance(run, str) else _memory_rows(run, seed)
            rows += [row | made for row in new]
            write_csv(out, rows)


if __name__ == "__main__":
    typer.run(main)
