"""What came after 2024, on the real text: three ideas, each with the runs that it needs.

*Next words first* (Weller et al. 2025; Gisserot-Boukhlef et al. 2025): a share of the steps asks
for next words, then the attention mask comes off, and the rest asks for blanks. *Masked diffusion*:
its held-out bound beside the loss of a left-to-right model. *Muon*: beside AdamW, in the same
batches.

``pretrain`` makes the runs (data/README.md has the commands); ``blanks`` and ``curves`` read their
records into tables, ``bounds`` scores three models, ``seconds`` times a step.

Predicted, before any of it was run. Next words first: of held-out blanks, 25 % next words cost less
than 1 point, 50 % 1 to 3, 75 % more than 3 against blanks alone. Masked diffusion: its bound is 0.3
to 0.9 nats a word above the loss of left to right. Muon: at its best rate 0.05 to 0.15 nats below
AdamW at its best; half of the steps to AdamW's last loss. (The tasks of notebook 13 were to be
fine-tuned after each share, and full runs of both optimizers compared; neither was finished.)
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import torch
import typer
from torch import Tensor
from torch.nn import functional as F

from bertedu.files import Row, write_csv
from bertedu.model.bert import BertForPreTraining
from bertedu.model.checkpoints import find_checkpoint, load_checkpoint
from bertedu.model.config import BertConfig
from bertedu.model.inference import evaluating
from bertedu.model.variants.diffusion import hide_some
from bertedu.pretraining.batches import Batch, fixed_batches, load_splits
from bertedu.pretraining.evaluation import score_pairs
from bertedu.pretraining.next_sentence import EncodedDocument
from bertedu.pretraining.recipe import Recipe
from bertedu.pretraining.run import halved, step_seconds
from bertedu.pretraining.run_folder import read_record
from bertedu.text.tokenization import MASK_ID, SPECIAL_TOKENS
from course.experiments.pretraining_scores import with_earlier_runs
from course.results.columns import ratio_columns
from course.results.study import add_missing

SEEDS = range(3)
SHARES = (0, 25, 50, 75)  # per cent of 10,500 steps that ask for next words, before blanks
# (variant, seed, run) of what is asked for blanks
BLANKS = [(f"{share} %", seed, f"next-{share}-{seed}") for share in SHARES for seed in SEEDS]
LENGTH, BATCH, VOCABULARY = 128, 32, 8192
# every twelfth batch of held-out texts; draws of blanks in each, for the bound
EVERY, DRAWS = 12, 4
LTR, FIXED = "left to right", "BERT without NSP"
READERS = {LTR: "ltr-L4H128", FIXED: "no-nsp-L4H128"}

app = typer.Typer(help=__doc__.splitlines()[0], no_args_is_help=True, add_completion=False)
RESULTS = Path("data/results")
Out = Annotated[Path, typer.Option(help="Folder of results.")]
Runs = Annotated[Path, typer.Option(help="Folder of the runs.")]


def made(record: Row) -> Row:
    """Say where a run comes from: device and commit."""
    return {"device": f"{record['device']} {record['hardware']}", "commit": record["commit"]}


def trained(record: Row) -> Row:
    """Say what a run has read, with those that it went on from."""
    return {name: int(with_earlier_runs(record, name)) for name in ("steps", "tokens")}


def diffusion_nats(model: BertForPreTraining, batch: Batch, dice: torch.Generator) -> Tensor:
    """Return one draw of the bound on -log P of each text, (B,), in nats; segments are told."""
    hidden, rate = hide_some(batch.ids, dice)
    masked = batch.ids.masked_fill(hidden, MASK_ID)
    scores, _ = model(masked, batch.segment_ids, batch.padding_mask, hidden)
    nats = F.cross_entropy(scores, batch.ids[hidden], reduction="none")
    paid = torch.zeros_like(hidden, dtype=nats.dtype).masked_scatter(hidden, nats)
    return (paid / rate).sum(dim=1)


def bound_row(checkpoint: str, batches: Sequence[Batch]) -> Iterator[Row]:
    """Score a model in nats a word: what a left-to-right model pays, or the bound of diffusion."""
    model = load_checkpoint(find_checkpoint(checkpoint))
    assert isinstance(model, BertForPreTraining)
    if model.config.direction != "bidirectional":
        words, nats, _ = score_pairs(model, batches)[0].unbind(-1)
    else:
        dice, some = torch.Generator().manual_seed(2024), []
        with evaluating(model):
            for batch in batches:
                draws = [diffusion_nats(model, batch, dice) for _ in range(DRAWS)]
                some.append(torch.stack(draws).mean(dim=0).double())
        nats = torch.cat(some)
        words = torch.cat([(b.ids >= len(SPECIAL_TOKENS)).sum(dim=1) for b in batches]).double()
    yield ratio_columns("nats", nats, words) | trained(read_record(find_checkpoint(checkpoint)))


def step_rows(documents: Sequence[EncodedDocument], rounds: int = 5) -> Iterator[Row]:
    """Time a step of both optimizers, in turn, on one thread of the CPU: medians."""
    config = replace(BertConfig.preset("L4H128"), vocab_size=VOCABULARY, dropout=0.0)
    for number in range(rounds):
        for optimizer in ("adamw", "muon"):
            recipe = Recipe(1, optimizer=optimizer, next_sentence=False)
            taken = step_seconds(BertForPreTraining(config), documents, recipe, bfloat16=False)
            yield {"optimizer": optimizer, "seed": number, "seconds": round(taken, 4)}


@app.command()
def blanks(runs: Runs = Path("runs/after-2024"), out: Out = RESULTS) -> None:
    """Read held-out blanks from the records of runs: next_first.csv."""
    rows: list[Row] = []
    for variant, seed, name in BLANKS:
        record = read_record(runs / name)
        dev = {n: record["curve"][-1][f"dev_{n}"] for n in ("mlm_loss", "mlm_accuracy")}
        about: Row = {"variant": variant, "seed": seed, "run": name}
        rows.append(about | dev | trained(record) | made(record))
    write_csv(out / "next_first.csv", rows)


@app.command()
def bounds(out: Out = RESULTS) -> None:
    """Score three models in nats a word, on the same held-out texts: bounds.csv."""
    texts = load_splits()["test"]
    batches = fixed_batches(texts, LENGTH, BATCH, VOCABULARY, direction="left-to-right")[::EVERY]
    rows = [({"reader": r, "run": name}, partial(bound_row, name, batches))
            for r, name in READERS.items()]  # fmt: skip
    add_missing(out / "bounds.csv", rows)


@app.command()
def seconds(out: Out = RESULTS) -> None:
    """Time a step of AdamW and of Muon: muon_seconds.csv."""
    documents = halved(load_splits()["train"])
    add_missing(out / "muon_seconds.csv", [({"config": "L4 H128"}, partial(step_rows, documents))])


@app.command()
def curves(
    runs: Annotated[list[Path], typer.Argument(help="Folders of finished runs.")],
    out: Annotated[Path, typer.Option(help="CSV file to write.")] = RESULTS / "muon.csv",
) -> None:
    """Collect loss curves, from the records of runs, into one table."""
    rows: list[Row] = []
    for folder in runs:
        record = read_record(folder)
        recipe = record["recipe"]
        names = ("optimizer", "learning_rate", "seed", "steps")
        about: Row = {"run": folder.name} | {name: recipe[name] for name in names}
        keep = ("step", "tokens", "mlm_loss", "dev_mlm_loss", "dev_mlm_accuracy")
        for row in record["curve"]:
            rows.append(about | {k: row[k] for k in keep if k in row} | made(record))
    write_csv(out, rows)


if __name__ == "__main__":
    app()
