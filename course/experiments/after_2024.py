"""What came after 2024, on the real text: two ideas, each with the runs that it needs.

*Next words first* (Weller et al. 2025; Gisserot-Boukhlef et al. 2025): a share of the steps asks
for next words, then the attention mask comes off, and the rest asks for blanks. *Muon*: beside
AdamW, in the same batches.

``pretrain`` makes the runs (data/README.md has the commands); ``blanks`` and ``curves`` read their
records into tables, ``seconds`` times a step.

Predicted, before any of it was run. Next words first: of held-out blanks, 25 % next words cost less
than 1 point, 50 % 1 to 3, 75 % more than 3 against blanks alone. Muon: at its best rate 0.05 to
0.15 nats below AdamW at its best; half of the steps to AdamW's last loss. (The tasks of notebook 13
were to be fine-tuned after each share, and full runs of both optimizers compared; neither was
finished.)
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from bertedu.files import Row, write_csv
from bertedu.model.bert import BertForPreTraining
from bertedu.model.config import BertConfig
from bertedu.pretraining.batches import load_splits
from bertedu.pretraining.next_sentence import EncodedDocument
from bertedu.pretraining.recipe import Recipe
from bertedu.pretraining.run import halved, step_seconds
from bertedu.pretraining.run_folder import read_record
from course.experiments.pretraining_scores import with_earlier_runs
from course.results.study import add_missing

SEEDS = range(3)
SHARES = (0, 25, 50, 75)  # per cent of 10,500 steps that ask for next words, before blanks
# (variant, seed, run) of what is asked for blanks
BLANKS = [(f"{share} %", seed, f"next-{share}-{seed}") for share in SHARES for seed in SEEDS]
VOCABULARY = 8192

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
