"""The command ``bertedu``. Every command imports what it needs itself, so that --help is quick."""

from __future__ import annotations

import io
import shutil
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, BadParameter, Option, echo
from typer.core import TyperGroup

from classroom.commands import app as classroom

if TYPE_CHECKING:
    from bertedu.results.files import Row


# what Ctrl-C leaves behind, where a run does not say it itself
STOPPED = {
    "pretrain": "stopped before the first step",
    "finetune": "stopped; what is recorded is not run again",
    "ablate": "stopped; what is recorded is not run again",
    "grade": "stopped; marks that are written are not run again",
}


class PlainErrors(TyperGroup):
    """Commands whose expected errors are one plain message on stderr: no traceback."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command; exit with 1 after an error that a user can mend, with 130 after Ctrl-C."""
        from bertedu.text.sources import SourceError

        if isinstance(sys.stdout, io.TextIOWrapper):  # a pipe on Windows has no sign for a bar
            sys.stdout.reconfigure(errors="replace")
        try:
            return super().invoke(ctx)
        except (SourceError, ValueError, OSError, FloatingPointError) as error:
            echo(f"Error: {error}", err=True)
            raise typer.Exit(1) from None
        except KeyboardInterrupt as interrupt:
            echo(str(interrupt) or STOPPED.get(str(ctx.invoked_subcommand), "stopped"), err=True)
            raise typer.Exit(130) from None


app = typer.Typer(
    cls=PlainErrors,
    help="BERT, taught by building it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
)
data = typer.Typer(
    help="Text, labels and weights of others: list, fetch, show.", no_args_is_help=True
)
app.add_typer(data, name="data")
app.add_typer(classroom)  # progress, grade, nbgrader, quiz

Table = Annotated[Path, Option(help="CSV file to write.")]
Results = Annotated[Path, Option(help="Folder of the record.")]
Device = Annotated[str | None, Option(help="cuda, mps or cpu; none: the best.")]


def write_table(out: Path, rows: Sequence[Row], line: str, said: Sequence[Row] = ()) -> None:
    """Write rows as a CSV file, and say them (or those ``said``): ``line``, with its columns."""
    from bertedu.results.files import write_csv

    write_csv(out, rows)
    for row in said or rows:
        echo(line.format_map(defaultdict(str, row)))
    echo(f"written: {out}")


@data.command("list")
def data_list() -> None:
    """List all sources; * marks the core ones."""
    from bertedu.text.sources import sources

    width = shutil.get_terminal_size((10_000, 24)).columns
    for source in sources().values():
        mark = "*" if source.default else " "
        # of the right size; `data show` checks the hash as well
        there = source.path.is_file() and source.path.stat().st_size == source.size_bytes
        line = f"{mark} {source.name:<13}{_megabytes(source.size_bytes):>9}  "
        line += f"{'fetched' if there else '-':<8} {source.description}"
        echo(line if len(line) <= width else line[: width - 1] + "…")


@data.command("fetch")
def data_fetch(
    names: Annotated[
        list[str] | None, Argument(help="Names of sources; none: the core ones.")
    ] = None,
    wheel_dir: Annotated[
        Path | None,
        Option("--from", metavar="DIR", help="Take the wheels from this folder, without pip."),
    ] = None,
) -> None:
    """Fetch sources with pip, or from a folder of wheels, and check their hashes."""
    from bertedu.text.sources import fetch, find, sources

    # All names are looked up first: a typing error should not show after a long download.
    chosen = [find(name) for name in names or ()]
    for source in chosen or [source for source in sources().values() if source.default]:
        echo(f"{source.name}: {fetch(source.name, wheel_dir=wheel_dir)}")


@data.command("show")
def data_show(name: Annotated[str, Argument(help="Name of a source.")]) -> None:
    """Show what a source is, its license, how to cite it, its state and its files."""
    from bertedu.text.sources import SourceError, find, read

    source = find(name)
    state, members = f"not fetched: run `bertedu data fetch {name}`", ", ".join(source.members)
    if source.path.is_file():
        try:
            found, state = read(name, fetch_missing=False), "fetched, hash verified"
            members = f"{len(found)} ({_megabytes(sum(map(len, found.values())))})"
        except SourceError as error:
            state = f"unusable: {error}"
    echo(source.name)
    echo(f"  what      {source.description}")
    echo(f"  language  {source.language}")
    echo(f"  license   {source.license}")
    echo(f"  cite      {source.citation}")
    echo(f"  package   {source.package}=={source.version}")
    echo(f"  wheel     {source.path} ({_megabytes(source.size_bytes)})")
    echo(f"  sha256    {source.sha256}")
    echo(f"  state     {state}")
    echo(f"  members   {members}")


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB" if size >= 1e5 else f"{size / 1e3:.1f} kB"


@app.command()
def vocabulary(
    out: Annotated[Path, Option(help="Folder that receives the tokenizer's files.")],
    size: Annotated[int, Option(help="Number of word pieces.")] = 8192,
) -> None:
    """Train the WordPiece vocabulary on the training split of the core corpora."""
    from bertedu.text.corpus import DEFAULT_CORPORA, load_documents
    from bertedu.text.fast_tokenizer import save_tokenizer, train_vocabulary

    documents = [document for name in DEFAULT_CORPORA for document in load_documents(name)]
    training = [document.text for document in documents if document.split == "train"]
    echo(f"training on {len(training):,} documents, some seconds")
    save_tokenizer(train_vocabulary(training, size), out)
    echo(f"written: {out}")


# the longer options of `pretrain`
PreConfig = Annotated[str | None, Option(help="tiny, mini, small, medium, base, large, L4H128…")]
PreCorpus = Annotated[
    list[str] | None,
    Option(help="A corpus, a folder of texts, or a file with blank lines between texts."),
]
PreLearningRate = Annotated[float | None, Option(help="Highest learning rate; none: 0.001.")]
PreKeepEvery = Annotated[int | None, Option(help="Keep the weights of every so many steps.", min=1)]
PreStopAt = Annotated[int | None, Option(help="Stop after this step; --resume goes on.", min=1)]
PreCompiled = Annotated[bool, Option("--compile", help="torch.compile: for long runs on a GPU.")]


@app.command()
def pretrain(
    out: Annotated[Path, Option(help="Folder for the checkpoint.")],
    config: PreConfig = None,
    steps: Annotated[int | None, Option(help="How many steps to train.", min=1)] = None,
    minutes: Annotated[float | None, Option(help="Or: about how many minutes.")] = None,
    corpus: PreCorpus = None,
    resume: Annotated[bool, Option("--resume", help="Go on where a run stopped.")] = False,
    seed: Annotated[int | None, Option(help="Source of all chance; none: 0.")] = None,
    learning_rate: PreLearningRate = None,
    dropout: Annotated[float, Option(help="The paper's 0.1 pays in long runs only.")] = 0.0,
    device: Device = None,
    bfloat16: Annotated[
        bool | None, Option(help="16-bit products; none: 32 bits, or as the run began.")
    ] = None,
    threads: Annotated[
        int | None, Option(help="CPU threads; none: 1, or as the run began.", min=1)
    ] = None,
    save_every: Annotated[int, Option(help="Steps between two saves.", min=1)] = 200,
    init: Annotated[
        Path | None, Option(help="Train this checkpoint further, in place of a new model.")
    ] = None,
    length: Annotated[int | None, Option(help="Tokens a sequence; none: 64, later 128.")] = None,
    variant: Annotated[
        str,
        Option(help="bert, no-nsp, ltr (left to right), rtl, elmo, mlm-ltr, mlm-rtl or ltr-some."),
    ] = "bert",
    keep_every: PreKeepEvery = None,
    stream: Annotated[
        str | None, Option(help="Text too big for memory: files, a glob, or a dataset of the Hub.")
    ] = None,
    stop_at: PreStopAt = None,
    mask_rate: Annotated[
        float | None,
        Option(help="Share of tokens that is selected; none: 0.3, later 0.15; with --length 0.15."),
    ] = None,
    masking: Annotated[
        str | None, Option(help="MASK/SAME/RND in per cent (table 8); none: 80/10/10.")
    ] = None,
    compiled: PreCompiled = False,
) -> None:
    """Pre-train BERT on real text: masked words and next sentences.

    Stop it as you like, even with kill -9: the same command with --resume goes on. Ctrl-C saves
    first. Several GPUs or processes: torchrun --nproc_per_node N -m bertedu pretrain ...
    """
    given = dict(locals())
    from bertedu.pretraining.masking import read_procedure
    from bertedu.pretraining.options import PreTrainingOptions
    from bertedu.pretraining.run import pretrain as run

    if stream and corpus:
        raise BadParameter("choose either --stream or --corpus")
    given["masking"] = None if masking is None else read_procedure(masking)
    run(PreTrainingOptions(**given), echo)


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
    from bertedu.studies.pretraining import LENGTHS, report

    rows = report(checkpoints or committed_checkpoints(), length or LENGTHS)
    line = "length {length:>3} {objective:<14} {system:<16} loss {mlm_loss:>7}  "
    write_table(out, rows, line + "words {mlm_accuracy:.1%}  pairs {nsp_accuracy}")


@app.command()
def pairs(
    checkpoint: Annotated[Path, Argument(help="Folder of a checkpoint.")] = Path(
        "data/checkpoints/bert-mini"
    ),
    out: Table = Path("data/results/next_sentence.csv"),
) -> None:
    """Ask a checkpoint about wrong sentence pairs of several kinds, beside word overlap."""
    from bertedu.model.checkpoints import load_checkpoint
    from bertedu.studies.pairs import judge_pairs

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
    from bertedu.studies.context import follow_run

    write_table(out, follow_run(run), "step {step:>6} {context:<10} loss {mlm_loss:.3f}")


@app.command()
def toy(
    seeds: Annotated[int, Option(help="Training runs for each direction.", min=1)] = 5,
    out: Table = Path("data/results/toy.csv"),
    threads: Annotated[int, Option(help="CPU threads; so small a model needs one.")] = 1,
) -> None:
    """Train on the toy language, beside the exact limits. Some 40 seconds a run."""
    import torch

    from bertedu.pretraining.toy import compare_with_limits
    from bertedu.results.origin import origin

    torch.set_num_threads(threads)
    made = origin()  # before it runs: the code may be edited meanwhile
    rows = [row | made for row in compare_with_limits(seeds)]
    line = "{direction:<14} seed {seed}  loss {loss:.3f}  limit {limit:.3f}  "
    line += "{excess_percent:+.1f} %"
    write_table(out, rows, line, [row for row in rows if row["step"] == rows[-1]["step"]])


@app.command()
def tasks(names: Annotated[list[str] | None, Argument(help="Tasks; none: all.")] = None) -> None:
    """List the tasks for fine-tuning: sizes, and what needs no model."""
    from bertedu.finetuning.tasks import TASKS, describe_task, load_task

    echo(f"{'':<15}{'train':>7}{'dev':>6}{'test':>6}  chance  majority")
    for name in names or TASKS:
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
FineOut = Annotated[Path | None, Option(help="Save the model of the seed that is best on dev.")]


@app.command()
def finetune(
    tasks: Annotated[list[str], Argument(help="Names from `bertedu tasks`.")],
    model: FineModel = "bert-L4H128",
    method: FineMethod = "fine-tuned",
    seeds: Annotated[int, Option(help="How many runs; 0: search the grid only.", min=0)] = 5,
    grid: Annotated[
        str, Option(help="Search on dev first: none, rates, or full (the paper's way).")
    ] = "none",
    examples: Annotated[int | None, Option(help="Train on the first so many only.", min=1)] = None,
    learning_rate: Annotated[float | None, Option(help="None: by method.")] = None,
    batch_size: Annotated[int, Option(help="Examples a step.", min=1)] = 32,
    epochs: Annotated[int, Option(help="At most; dev may end it.", min=1)] = 3,
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

    from bertedu.finetuning.finetune import Setup
    from bertedu.finetuning.record import RunRecord
    from bertedu.finetuning.saving import save_finetuned
    from bertedu.finetuning.search import run_task
    from bertedu.finetuning.tasks import load_task
    from bertedu.finetuning.training import Hyperparameters
    from bertedu.pretraining.options import check_number
    from bertedu.results.files import check_writable

    if threads:
        torch.set_num_threads(threads)
    if grid not in ("none", "rates", "full"):
        raise BadParameter(f"--grid is {grid!r}: choose none, rates or full")
    if out and (len(tasks) > 1 or not seeds):
        raise BadParameter("--out saves one model: name one task, and one seed or more")
    if out and out.exists() and not out.is_dir():
        raise BadParameter(f"--out names a folder, and {out} is a file")
    check_number("--learning-rate", learning_rate)
    check_number("--dropout", dropout)
    setup = Setup(model, method, examples, device)
    rate = setup.rates[1] if learning_rate is None else learning_rate
    recipe = Hyperparameters(rate, batch_size, epochs, dropout=dropout)
    book = RunRecord(results)
    loaded = [load_task(name) for name in tasks]  # a wrong name shows before any work
    for folder in filter(None, (results, out)):  # and so does a folder that takes no model
        check_writable(folder)
    for task, splits in loaded:
        made = run_task(
            task, splits, setup, recipe, range(seeds), book, grid, again, echo, bool(out)
        )
        if out:
            best = max(made, key=lambda run: max(run.history.dev))
            dev = best.history.dev
            about = {"task": task.name, "from": model, "method": method, "dev": dev}
            save_finetuned(best.model, best.tokenizer, task, out, about)
            echo(f"written: {out}")
    echo(f"written: {book.table}")


@app.command()
def predict(
    folder: Annotated[Path, Argument(help="What `bertedu finetune --out` wrote.")],
    texts: Annotated[
        list[str],
        Argument(help="One text, a pair, a question and a text, or a beginning and endings."),
    ],
) -> None:
    """Ask a fine-tuned model."""
    from bertedu.finetuning.saving import load_finetuned, say_answer
    from bertedu.text.tokenization import check_text

    for text in texts:  # before a model is loaded
        check_text(text)
    found = load_finetuned(folder)
    echo(say_answer(found, texts, found.ask(*texts)))


@app.command()
def summary(
    results: Annotated[Path, Argument(help="Folder of the record.")] = Path("data/results"),
    reference: Annotated[
        str | None, Option(help="The model to compare with; none: bert-L4H128.")
    ] = None,
) -> None:
    """Write the table task × model with its intervals, from the record of `bertedu finetune`."""
    from bertedu.finetuning.summary import summarize

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
        list[str] | None, Argument(help="direction, size, masking, …; none: all.")
    ] = None,
    quick: Annotated[
        bool, Option("--quick", help="A minute for a class, in place of a night.")
    ] = False,
    tasks: Annotated[list[str] | None, Option(help="These tasks only; repeatable.")] = None,
    seeds: Annotated[
        int | None, Option(help="Of the grid's seeds, the first so many.", min=1)
    ] = None,
    jobs: Annotated[int, Option(help="Runs at the same time.", min=1)] = 1,
    results: Results = Path("data/results"),
) -> None:
    """Compare variants of pre-training on small tasks: the paper's ablations.

    Stop it as you like: what `ablations.csv` has already is not run again.
    """
    from bertedu.studies.ablations import GRIDS, write_summary
    from bertedu.studies.ablations import ablate as run

    chosen = ["quick"] if quick else grids or [name for name in GRIDS if name != "quick"]
    unknown = [name for name in chosen if name not in GRIDS]
    if quick and grids:
        raise BadParameter("choose either grids or --quick")
    if unknown:
        raise BadParameter(f"no grid {unknown[0]!r}: choose one of {', '.join(GRIDS)}")
    chosen = [name for name in chosen if not tasks or {*tasks} & {*GRIDS[name].tasks}]
    if not chosen:
        raise BadParameter("no such task in these grids: leave --tasks out to see all")
    for name in chosen:
        echo(f"{name}: {GRIDS[name].about}")
        run(GRIDS[name], results, jobs, tasks, seeds, say=echo)
    for row in write_summary(results):
        if row["grid"] in chosen:
            echo(f"{row['task']:<13}{row['variant']:<32}{_mean(row)}")
    echo(f"written: {results / 'ablations.csv'}")


@app.command()
def curves(
    runs: Annotated[
        list[Path] | None, Argument(help="Folders of finished runs; none: all committed.")
    ] = None,
    out: Table = Path("data/results/pretraining_curves.csv"),
) -> None:
    """Write the loss curves of finished runs into one table."""
    from bertedu.results.files import write_csv
    from bertedu.studies.pretraining import curves as collect

    rows = collect(runs or committed_checkpoints())
    write_csv(out, rows)
    echo(f"written: {out}, {len(rows):,} rows")


def committed_checkpoints() -> list[Path]:
    """List the folders in data/checkpoints that hold a model and its record."""
    from bertedu.text.sources import shipped

    folders = sorted(shipped("checkpoints").iterdir())
    return [folder for folder in folders if (folder / "training.json").is_file()]


@app.command()
def fill(
    text: Annotated[str, Argument(help='Such as "I ask the ___ to pass this bill."')],
    checkpoint: Annotated[str, Option(help="A folder, or a name.")] = "bert-mini",
    top: Annotated[int, Option(help="How many guesses.", min=1)] = 5,
    picture: Annotated[
        Path | None, Option(help="Also draw the guesses for the first blank as a PNG.")
    ] = None,
) -> None:
    """Fill the blanks of a sentence with a pre-trained model."""
    import bertedu
    from bertedu.analysis.fill import fill_blanks
    from bertedu.model.loading import ENCODERS_ALONE, is_published
    from bertedu.text.tokenization import check_text

    check_text(text)
    if checkpoint in ENCODERS_ALONE and is_published(checkpoint):  # before it is fetched
        raise ValueError(
            f"{checkpoint} is an encoder alone: it was published without the head that fills "
            "blanks. Choose another checkpoint, such as bert-mini"
        )
    model, tokenizer = bertedu.load(checkpoint)
    blanks = fill_blanks(model, tokenizer, text, top)
    if picture:
        from bertedu.analysis.views import guess_bars

        guess_bars({text: blanks[0]}, f"The best guesses for {text}").save(picture)
    for number, guesses in enumerate(blanks, start=1):
        echo(f"blank {number}")
        for guess in guesses:
            bar = "█" * round(40 * guess.probability)
            echo(f"  {guess.word:<14} {guess.probability:6.1%} {bar}")
