"""Two ways to carry on what was read: by asking the states of the reader, and by keeping them.

*Translation*: words in another order and another language, drawn anew for every step. A whole
Transformer against two GRUs of as many parameters with one vector between them. Foretold: both
learn short texts; the longer the text, the further the GRUs fall behind; some head of
cross-attention puts more than half of its weight on the word that is being translated.

*Memory*: pairs of a key and a value; each text has a dictionary of its own, so a value is told
only by an earlier pair with the same key. Cut into segments, a text hides the earlier ones from a
model without memory. The limits are exact. Foretold: with memory the loss comes near to the limit
of both segments, without it cannot pass that of its own; more memory than in training helps.

*Steps in a row*: how long the longest chain of operations is, in which each waits for the one
before, and what that costs in time, as a ratio taken side by side in one run.

``python -m bertedu.studies.recurrence`` writes `data/results/recurrence.csv`, in some 10 minutes of
one core. What is there is not run again. Notebook 18 shows the results.
"""

import math
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from statistics import median
from typing import Annotated

import torch
import typer
from torch import Tensor, nn
from torch.nn import functional as F
from tqdm.auto import tqdm

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
FIRST = len(SPECIAL_TOKENS)
WORDS, LONGEST = 16, 12  # words of each language, and of the longest text
PAIRS, KEYS = 8, 8  # pairs in a segment; keys, and as many values
SEGMENT, TRAINED = 2 * PAIRS, 4  # tokens; segments of a text in training, at most
BATCH, HELD_OUT, READINGS, TRANSLATIONS = 64, 1000, 500, 400  # two numbers of steps
MEMORIES = {0: (0,), SEGMENT: (SEGMENT, 3 * SEGMENT)}  # in training: at the test
STEPS = {"Transformer": TRANSLATIONS, "GRUs": TRANSLATIONS, "GRUs, 3 times": 3 * TRANSLATIONS}
ASKED = (1, 2 * TRAINED - 1)  # segments from 0: memory holds all before; longer than in training
Losses = Callable[[torch.Generator], tuple[Tensor, int, int]]  # loss, tokens, weights they passed


def draw_translations(
    count: int, lengths: tuple[int, int], generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Draw sources (count, S) and targets (count, S + 2): reversed, each word by another word."""
    low, high = lengths
    sizes = torch.randint(low, high + 1, (count, 1), generator=generator)
    words = torch.randint(WORDS, (count, high), generator=generator)
    place = torch.arange(high)
    source = (FIRST + words).masked_fill(place >= sizes, PAD_ID)
    # word w of the one language is word 7 w + 3 of the other, counted around
    other = FIRST + WORDS + (7 * words + 3) % WORDS
    target = torch.full((count, high + 2), PAD_ID)
    target[:, 0] = CLS_ID
    target[:, 1:-1] = other.gather(1, (sizes - 1 - place).clamp(min=0))
    target.masked_fill_(torch.arange(high + 2) > sizes, PAD_ID)
    return source, target.scatter(1, sizes + 1, SEP_ID)


def make_translator(name: str) -> Transformer | Recurrent:
    """Make a "Transformer", or "GRUs" of as many parameters (within 2 %)."""
    vocabulary = FIRST + 2 * WORDS
    if name == "GRUs":
        return Recurrent(vocabulary, 139)
    config = BertConfig(vocabulary, 64, 2, 4, 256, LONGEST + 2, 2, 0.0, initializer_range=0.1)
    return Transformer(config)


def _train(model: nn.Module, losses: Losses, seed: int, steps: int, rate: float) -> Row:
    """Train on what ``losses`` draws; return the tokens that were read, and the operations."""
    optimizer = make_optimizer(model, weight_decay=0.01)
    generator = torch.Generator().manual_seed(seed)
    spent: Row = {"tokens": 0, "operations": 0}
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


def _weights(*parts: nn.Module) -> int:
    return sum(weight.numel() for part in parts for weight in part.parameters())


def train_translator(
    name: str, seed: int, steps: int = TRANSLATIONS, longest: int = LONGEST
) -> tuple[Transformer | Recurrent, Row]:
    """Train a translator on texts of 1 to ``longest`` words; return it, and what it has cost."""
    torch.manual_seed(seed)
    model = make_translator(name)
    if isinstance(model, Recurrent):
        reader, writer = _weights(model.reader), _weights(model.writer, model.scores)
    else:
        reader, writer = _weights(model.encoder), _weights(model.layers, model.head)

    def losses(generator: torch.Generator) -> tuple[Tensor, int, int]:
        source, target = draw_translations(BATCH, (1, longest), generator)
        scores, _ = model(source, target[:, :-1])
        loss = F.cross_entropy(scores.transpose(1, 2), target[:, 1:], ignore_index=PAD_ID)
        read, written = int((source != PAD_ID).sum()), int((target[:, 1:] != PAD_ID).sum())
        return loss, read + written, reader * read + writer * written

    rate = 6e-3 if isinstance(model, Recurrent) else 2e-3  # tried: the GRUs learn more with more
    return model, _train(model, losses, seed, steps, rate)


def score_translator(model: Transformer | Recurrent, length: int) -> tuple[float, Tensor]:
    """Return the share of held-out texts without any mistake, and where cross-attention looks.

    That is the share of weight on the word being translated, (layers, heads), if there is any.
    """
    generator = torch.Generator().manual_seed(10_000)  # a seed that no training run has
    source, target = draw_translations(HELD_OUT, (length, length), generator)
    written = F.pad(translate(model, source, length + 1), (0, length + 1))[:, : length + 1]
    exact = (written == target[:, 1:]).all(dim=1).double().mean().item()
    with evaluating(model):
        _, weights = model(source, target[:, :-1])
    shares = [w[:, :, :-1].flip(-1).diagonal(dim1=2, dim2=3).mean((0, 2)) for w in weights]
    return exact, torch.stack(shares) if shares else torch.zeros(1, 1)


def draw_pairs(count: int, segments: int, generator: torch.Generator) -> Tensor:
    """Draw texts key, value, key, …, each with a dictionary of its own: ids (count, S)."""
    keys = torch.randint(KEYS, (count, segments * PAIRS), generator=generator)
    meaning = torch.randint(KEYS, (count, KEYS), generator=generator)
    values = meaning.gather(1, keys)
    return torch.stack([FIRST + keys, FIRST + KEYS + values], dim=-1).flatten(1)


def recall_limit(pair: int, segment: int, memory: int) -> float:
    """Return the mean nats that a value costs a reader of its own segment and so much memory.

    Pair and segment count from 0. Each earlier pair that is seen has the key with chance 1 / KEYS;
    if none has it, all values are equally likely.
    """
    seen = pair + min(segment * PAIRS, memory // 2)
    return float((1 - 1 / KEYS) ** seen * math.log(KEYS))


def train_reader(memory: int, seed: int, steps: int = READINGS) -> tuple[TransformerXL, Row]:
    """Train a reader with so much memory, on texts of 1 to `TRAINED` segments; and its cost."""
    torch.manual_seed(seed)
    config = BertConfig(
        FIRST + 2 * KEYS, 64, 2, 4, 256, SEGMENT, 1, 0.0, 1e-12, 0.1, "left-to-right"
    )
    model = TransformerXL(config, memory)
    every, head = _weights(model.layers), _weights(model.head)
    attention = sum(_weights(layer.attention) for layer in model.layers)

    def losses(generator: torch.Generator) -> tuple[Tensor, int, int]:
        segments = int(torch.randint(1, TRAINED + 1, (), generator=generator))
        ids = draw_pairs(BATCH, segments, generator)
        remembered = BATCH * memory * (segments - 1)
        passed = every * ids.numel() + attention * remembered + head * (ids.numel() // 2)
        return value_losses(model, ids).mean(), ids.numel(), passed

    return model, _train(model, losses, seed, steps, 3e-3)


def value_losses(model: TransformerXL, ids: Tensor) -> Tensor:
    """(B, S) -> nats for each value, (B, S / 2): the state at a key foretells it."""
    scores = model.head(model.read(ids, SEGMENT)[:, ::2])
    return F.cross_entropy(scores.transpose(1, 2), ids[:, 1::2], reduction="none")


def steps_in_a_row(result: Tensor) -> int:
    """Count the longest chain of operations behind a result, each waiting for the one before."""
    depth: dict[object, int] = {}
    stack = [(result.grad_fn, False)]
    while stack:
        node, children_done = stack.pop()
        if node is None or (node in depth and not children_done):
            continue
        before = [child for child, _ in node.next_functions if child is not None]
        if children_done:
            depth[node] = 1 + max((depth[child] for child in before), default=0)
        else:
            stack += [(node, True), *((child, False) for child in before if child not in depth)]
    return depth[result.grad_fn]


def compare_steps(length: int, repeats: int = 5) -> Row:
    """Read 16 texts of a length, there and back, with either reader, turn by turn."""
    source = torch.full((16, length), FIRST)
    vocabulary = FIRST + 2 * WORDS
    config = BertConfig(vocabulary, 64, 2, 4, 256, length, 2, 0.0)
    models = {"Transformer": Transformer(config), "GRUs": Recurrent(vocabulary, 139)}
    seconds: dict[str, list[float]] = {name: [] for name in models}
    row: Row = {"experiment": "steps", "length": length}
    for _, (name, model) in product(range(repeats + 1), models.items()):
        begun = time.perf_counter()
        read = model.encode(source)
        read.sum().backward()  # type: ignore[no-untyped-call]
        seconds[name].append(time.perf_counter() - begun)
        row[f"steps_{name}"] = steps_in_a_row(read)
    slower = median(seconds["GRUs"][1:]) / median(seconds["Transformer"][1:])  # the first warms up
    return row | {"time_ratio": round(slower, 3)}


def _translation_rows(name: str, seed: int) -> list[Row]:
    model, spent = train_translator(name.split(",")[0], seed, STEPS[name])
    rows = []
    for length in range(1, LONGEST + 1):
        exact, shares = score_translator(model, length)
        row: Row = {"experiment": "translation", "model": name, "seed": seed, "length": length}
        row |= {"exact": round(exact, 4), "parameters": _weights(model)}
        if shares.any():
            row |= {"best_head": round(shares.max().item(), 4)}
            row |= {"all_heads": round(shares.mean().item(), 4)}
        rows.append(row | spent)
    return rows


def _memory_rows(memory: int, seed: int) -> list[Row]:
    model, spent = train_reader(memory, seed)
    ids = draw_pairs(HELD_OUT, 2 * TRAINED, torch.Generator().manual_seed(10_000))
    rows = []
    for at_test in MEMORIES[memory]:
        model.memory_size = at_test
        with evaluating(model):
            means = value_losses(model, ids).mean(0).view(-1, PAIRS)
        for segment, pair in product(ASKED, range(PAIRS)):
            row: Row = {"experiment": "memory", "model": f"memory {memory}", "seed": seed}
            row |= {"at_test": at_test, "segment": segment + 1, "pair": pair + 1}
            row |= {"loss": round(means[segment, pair].item(), 4)}
            row |= {"limit": round(recall_limit(pair, segment, at_test), 4)}
            rows.append(row | {"parameters": _weights(model)} | spent)
    return rows


def findings(folder: Path) -> list[Finding]:
    """Return what the table of notebook 18 says of the two ideas, from the rows in a folder."""
    rows = read_csv(folder / RECORD.name)
    exact, losses = {}, {}
    for row in rows:
        if row["experiment"] == "translation" and row["length"] == str(LONGEST):
            exact[row["model"], row["seed"]] = float(row["exact"])
        if row["experiment"] == "memory" and row["segment"] == "2":
            run = losses.setdefault((row["model"], row["at_test"], row["seed"]), [])
            run.append(float(row["loss"]))
    seeds = sorted({seed for _, seed in exact})
    ends = sorted({seed for *_, seed in losses})
    means = {key: sum(values) / len(values) for key, values in losses.items()}
    return [
        finding("Transformer", 2017, "attention alone, without recurrence, translates better",
                f"points of texts of {LONGEST} words without a mistake, above two GRUs",
                [100 * (exact["Transformer", s] - exact["GRUs", s]) for s in seeds]),
        finding("Transformer-XL", 2019, "memory tells what stood before the segment",
                "nats a value less in the second segment, with memory",
                [means["memory 0", "0", s] - means[f"memory {SEGMENT}", str(SEGMENT), s]
                 for s in ends]),
    ]  # fmt: skip


def main(
    out: Annotated[Path, typer.Option(help="CSV file to add to.")] = RECORD,
    seeds: Annotated[int, typer.Option(help="How many runs of each.", min=1)] = 5,
) -> None:
    """Run the study; some 10 minutes on one quiet core."""
    torch.set_num_threads(1)
    made = origin()  # before it runs: the code may be edited meanwhile
    rows = read_csv(out)
    done = {(row["model"], row["seed"]) for row in rows}
    if ("", "") not in done:
        rows += [compare_steps(length) | made for length in (8, 16, 32, 64, 128, 256)]
    for seed, run in product(range(seeds), [*STEPS, *MEMORIES]):
        name = run if isinstance(run, str) else f"memory {run}"
        if (name, str(seed)) not in done:
            new = _translation_rows(run, seed) if isinstance(run, str) else _memory_rows(run, seed)
            rows += [row | made for row in new]
            write_csv(out, rows)


if __name__ == "__main__":
    typer.run(main)
