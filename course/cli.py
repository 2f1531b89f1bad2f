"""The commands of the course, `python -m course`: experiments, the record, the classroom.

Every command imports what it needs itself, so that --help is quick.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, BadParameter, Option, echo

from bertedu.cli import Device, PlainErrors
from course.classroom.commands import app as classroom

if TYPE_CHECKING:
    from bertedu.files import Row


class Commands(PlainErrors):
    """The same, where runs are recorded one by one."""

    stopped = {  # noqa: RUF012
        "finetune": "stopped; what is recorded is not run again",
        "ablate": "stopped; what is recorded is not run again",
        "few-rows": "stopped; what is recorded is not run again",
        "grade": "stopped; marks that are written are not run again",
    }


app = typer.Typer(
    cls=Commands,
    help="The course: its tasks and experiments, and what a classroom needs.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
)
app.add_typer(classroom)  # progress, grade, nbgrader, quiz

Table = Annotated[Path, Option(help="CSV file to write.")]
Results = Annotated[Path, Option(help="Folder of the record.")]


def write_table(out: Path, rows: Sequence[Row], line: str, said: Sequence[Row] = ()) -> None:
    """Write rows as a CSV file, and say them (or those ``said``): ``line``, with its columns."""
    from bertedu.files import write_csv

    write_csv(out, rows)
    for row in said or rows:
        echo(line.format_map(defaultdict(str, row)))
    echo(f"written: {out}")


@app.command()
def tasks(names: Annotated[list[str] | None, Argument(help="Tasks to load.")] = None) -> None:
    """List the tasks for fine-tuning; of those named, also sizes and what needs no model."""
    from course.experiments.tasks import TASKS, describe_task, load_task

    if not names:
        for task in TASKS.values():
            echo(f"{task.name:<15}{task.kind:<15}{task.about}")
        return
    echo(f"{'':<15}{'train':>7}{'dev':>6}{'test':>6}  chance  majority")
    for name in names:
        task, splits = load_task(name)
        about = describe_task(task, splits)
        sizes = f"{about['train']:>7,}{about['dev']:>6,}{about['test']:>6,}"
        known = "".join(f"{about[k]:>9.1%}" for k in ("chance", "majority") if k in about)
        echo(f"{name:<15}{sizes}{known:<18}  {task.about}")


# the longer options of `finetune`
FineModel = Annotated[str, Option("--from", help="A checkpoint, minilm, bert-tiny, or LTR+RTL.")]
FineMethod = Annotated[
    str,
    Option(
        help="fine-tuned, frozen (new layer only), untrained (from scratch), or features:last "
        'and others: a BiLSTM on frozen layers; "untrained features:last" is its control.'
    ),
]
FineGrid = Annotated[
    str,
    Option(help="Search on dev first: none, rates, full (the paper's way), or seeds (its luck)."),
]
FineEpochs = Annotated[
    int | None, Option(help="So many at most; none: until dev stops rising.", min=1)
]
FineOut = Annotated[Path | None, Option(help="Save the model of the seed that is best on dev.")]


@app.command()
def finetune(
    tasks: Annotated[list[str], Argument(help="Names from `python -m course tasks`.")],
    model: FineModel = "bert-L4H128",
    method: FineMethod = "fine-tuned",
    seeds: Annotated[int, Option(help="How many runs; 0: search the grid only.", min=0)] = 5,
    grid: FineGrid = "none",
    examples: Annotated[int | None, Option(help="Train on the first so many only.", min=1)] = None,
    learning_rate: Annotated[float | None, Option(help="None: by method.")] = None,
    batch_size: Annotated[int, Option(help="Examples a step.", min=1)] = 32,
    epochs: FineEpochs = None,
    dropout: Annotated[float, Option(help="While fine-tuning; the paper: 0.1.")] = 0.0,
    out: FineOut = None,
    results: Results = Path("data/results"),
    again: Annotated[bool, Option("--again", help="Run what is recorded, too.")] = False,
    device: Device = None,
    threads: Annotated[int | None, Option(help="CPU threads; none: 1.", min=1)] = None,
) -> None:
    """Fine-tune a model on tasks, with baselines beside it, and write down every run.

    Stop it as you like: what the record has already is not run again.
    """
    import torch

    from bertedu.files import check_writable
    from bertedu.finetuning.finetune import Setup
    from bertedu.finetuning.own_model import UNTIL_DEV_STOPS
    from bertedu.finetuning.saving import FineTuned, save_finetuned
    from bertedu.finetuning.training import Hyperparameters
    from bertedu.pretraining.run import check_number
    from course.experiments.tasks import load_task
    from course.results.record import RunRecord, run_task

    if threads:
        torch.set_num_threads(threads)
    if grid not in ("none", "rates", "full", "seeds"):
        raise BadParameter(f"--grid is {grid!r}: choose none, rates, full or seeds")
    if out and (len(tasks) > 1 or not seeds):
        raise BadParameter("--out saves one model: name one task, and one seed or more")
    if out and out.exists() and not out.is_dir():
        raise BadParameter(f"--out names a folder, and {out} is a file")
    check_number("--learning-rate", learning_rate)
    check_number("--dropout", dropout)
    setup = Setup(model, method, examples, device)
    rate = setup.rates[1] if learning_rate is None else learning_rate
    length = Hyperparameters(epochs=epochs) if epochs else UNTIL_DEV_STOPS
    recipe = replace(length, learning_rate=rate, batch_size=batch_size, dropout=dropout)
    book = RunRecord(results)
    loaded = [load_task(name) for name in tasks]  # a wrong name shows before any work
    for folder in filter(None, (results, out)):  # and so does a folder that takes no model
        check_writable(folder)
    for task, splits in loaded:
        made = run_task(
            (task, splits), setup, recipe, range(seeds), book, grid, again, need_models=bool(out)
        )
        if out:
            best = max(made, key=lambda run: max(run.history.dev))
            about = {"task": task.name, "from": model, "method": method, "dev": best.history.dev}
            save_finetuned(FineTuned.of(best.model, best.tokenizer, task), out, about)
            echo(f"written: {out}")
    echo(f"written: {book.table}")


@app.command()
def summary(
    results: Annotated[Path, Argument(help="Folder of the record.")] = Path("data/results"),
    reference: Annotated[
        str | None, Option(help="The model to compare with; none: bert-L4H128.")
    ] = None,
) -> None:
    """Write the table task × model with its intervals, from the record of `finetune`."""
    from course.results.summary import summarize

    for row in summarize(results, reference):
        echo(
            f"{row['task']:<15}{row['model']:<14}{row['method']:<12}{row['train_examples']:<6}"
            f"{_mean(row)}"
        )
    echo(f"written: {results / 'finetuning_summary.csv'}")


def _mean(row: Row) -> str:
    """Write a mean with its interval, and how far it is from the reference."""
    said = f"{row['mean']} ({row['low']} to {row['high']})"
    if not row.get("minus_low"):
        return said
    return f"{said}  {float(row['minus_low']):+.4f} to {float(row['minus_high']):+.4f}"


@app.command()
def ablate(
    grids: Annotated[
        list[str] | None, Argument(help="direction, size, …; quick: in a minute; none: the others.")
    ] = None,
    tasks: Annotated[list[str] | None, Option(help="These tasks only; repeatable.")] = None,
    seeds: Annotated[int | None, Option(help="Of its seeds, the first so many.", min=1)] = None,
    variants: Annotated[list[str] | None, Option(help="Only these; repeatable.")] = None,
    jobs: Annotated[int, Option(help="Runs at the same time.", min=1)] = 1,
    results: Results = Path("data/results"),
) -> None:
    """Compare variants of pre-training on small tasks: the paper's ablations.

    Stop it as you like: what `ablations.csv` has is not run again. --variants writes no summary.
    """
    from course.experiments.ablations import GRIDS, write_summary
    from course.experiments.ablations import ablate as run

    chosen = grids or [name for name in GRIDS if name != "quick"]
    unknown = [name for name in chosen if name not in GRIDS]
    if unknown:
        raise BadParameter(f"no grid {unknown[0]!r}: choose one of {', '.join(GRIDS)}")
    if {*(tasks or ())} - {task for name in chosen for task in GRIDS[name].tasks}:
        raise BadParameter("no such task in these grids: leave --tasks out to see all")
    chosen = [name for name in chosen if not tasks or {*tasks} & {*GRIDS[name].tasks}]
    for name in chosen:
        echo(f"{name}: {GRIDS[name].about}")
        run(GRIDS[name], results, jobs, tasks, seeds, variants, say=echo)
    for row in [] if variants else write_summary(results):
        if row["grid"] in chosen:
            echo(f"{row['task']:<13}{row['variant']:<32}{_mean(row)}")
    echo(f"written: {results / 'ablations.csv'}")


@app.command()
def few_rows(results: Results = Path("data/results")) -> None:
    """Fit MiniLM to 150 rows of a class of four sets, beside word counts.

    Stop it as you like: what `few_rows.csv` has already is not run again.
    """
    from course.experiments.few_rows import NAME, fill, summary_rows
    from course.results.record import RunRecord

    fill(results)
    line = "{set:<10} {model:<12} {mean} ({low} to {high})  beats counting: {beats_counting}"
    write_table(results / f"{NAME}_summary.csv", [*summary_rows(RunRecord(results, NAME))], line)


@app.command()
def score(
    checkpoints: Annotated[
        list[Path] | None, Argument(help="Folders of checkpoints; none: all committed ones.")
    ] = None,
    out: Table = Path("data/results/pretraining.csv"),
    length: Annotated[
        list[int] | None, Option(help="Tokens a sequence, repeatable; none: 64 and 128.", min=16)
    ] = None,
) -> None:
    """Score checkpoints on held-out documents, beside chance and counting. Some minutes."""
    from course.experiments.pretraining_scores import LENGTHS, report

    rows = report(checkpoints or committed_checkpoints(), length or LENGTHS)
    line = "length {length:>3} {objective:<14} {system:<16} loss {mlm_loss:>7}  "
    write_table(out, rows, line + "words {mlm_accuracy:.1%}  pairs {nsp_accuracy}")


@app.command()
def curves(
    runs: Annotated[list[Path], Argument(help="Folders of finished runs.")],
    out: Table = Path("data/results/size_curves.csv"),
) -> None:
    """Write the loss curves of finished runs into one table."""
    from bertedu.files import write_csv
    from course.experiments.pretraining_scores import curves as collect

    rows = collect(runs)
    write_csv(out, rows)
    echo(f"written: {out}, {len(rows):,} rows")


def committed_checkpoints() -> list[Path]:
    """List the folders in data/checkpoints that hold a model and its record.

    Masked diffusion stays out: it has a score of its own (`results/bounds.csv`).
    """
    from bertedu.files import shipped
    from bertedu.pretraining.run import read_record

    folders = sorted(file.parent for file in shipped("checkpoints").glob("*/training.json"))
    return [folder for folder in folders if read_record(folder)["variant"] != "diffusion"]


@app.command()
def pairs(
    checkpoint: Annotated[Path, Argument(help="Folder of a checkpoint.")] = Path(
        "data/checkpoints/bert-mini"
    ),
    out: Table = Path("data/results/next_sentence.csv"),
) -> None:
    """Ask a checkpoint about wrong sentence pairs of several kinds, beside word overlap."""
    from bertedu.model.checkpoints import load_checkpoint
    from course.experiments.wrong_pairs import judge_pairs

    rows = judge_pairs(load_checkpoint(checkpoint), checkpoint.name)
    line = "{judge:<13} {kind:<15} {ranked_right:>6.1%}  "
    line += "({ranked_right_low:.1%} to {ranked_right_high:.1%})"
    write_table(out, rows, line, [row for row in rows if row["kind"] != "real"])


@app.command()
def context(
    run: Annotated[Path, Argument(help="Folder of a run that used --keep-every.")],
    out: Table = Path("data/results/context.csv"),
) -> None:
    """Ask what a model takes from its context, at every step whose weights a run has kept."""
    from course.experiments.context import follow_run

    write_table(out, follow_run(run), "step {step:>6} {context:<10} loss {mlm_loss:.3f}")


@app.command()
def toy(
    seeds: Annotated[int, Option(help="Training runs for each direction.", min=1)] = 5,
    out: Table = Path("data/results/toy.csv"),
    threads: Annotated[int, Option(help="CPU threads; so small a model needs one.")] = 1,
) -> None:
    """Train on the toy language, beside the exact limits. Some 40 seconds a run."""
    import torch

    from course.experiments.toy import compare_with_limits
    from course.results.origin import origin

    torch.set_num_threads(threads)
    made = origin()  # before it runs: the code may be edited meanwhile
    rows = [row | made for row in compare_with_limits(seeds)]
    line = "{direction:<14} seed {seed}  loss {loss:.3f}  limit {limit:.3f}  "
    line += "{excess_percent:+.1f} %"
    write_table(out, rows, line, [row for row in rows if row["step"] == rows[-1]["step"]])
