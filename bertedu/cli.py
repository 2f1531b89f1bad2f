"""The command ``bertedu``. Every command imports what it needs itself, so that --help is quick."""

from __future__ import annotations

import io
import shutil
import sys
from codecs import BOM_UTF8, lookup
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer
from typer import Argument, BadParameter, Option, echo
from typer.core import TyperGroup

from bertedu.files import check_writable, write_csv
from bertedu.machine import device_named, use_one_thread


class PlainErrors(TyperGroup):
    """Commands whose expected errors are one plain message on stderr: no traceback."""

    # what Ctrl-C leaves behind, where a run does not say it itself
    stopped: ClassVar = {"pretrain": "stopped before the first step"}

    def invoke(self, ctx: Any) -> Any:
        """Run a command; exit with 1 after an error that a user can mend, with 130 after Ctrl-C."""
        from bertedu.text.sources import SourceError

        use_one_thread()
        if isinstance(sys.stdout, io.TextIOWrapper):  # a pipe on Windows has no sign for a bar
            sys.stdout.reconfigure(errors="replace")
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # `| head` has read enough: click ends it without a word
            raise
        except (SourceError, ValueError, OSError, FloatingPointError) as error:
            echo(f"Error: {error}", err=True)
            raise typer.Exit(1) from None
        except KeyboardInterrupt as interrupt:
            echo(str(interrupt) or self.stopped.get(ctx.invoked_subcommand, "stopped"), err=True)
            raise typer.Exit(130) from None


class Day(PlainErrors):
    """Commands in the order of a user's day: look, fine-tune, ask; training from none is last."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names as --help shows them."""
        day = ("fill", "finetune", "predict", "data", "vocabulary", "pretrain")
        return sorted(super().list_commands(ctx), key=day.index)


app = typer.Typer(
    cls=Day,
    help="BERT, taught by building it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
)
data = typer.Typer(help="Text, labels, weights of others: list, fetch, show.", no_args_is_help=True)
app.add_typer(data, name="data")

Device = Annotated[str | None, Option(help="cuda, mps or cpu; none: the best.")]


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


# the options of `pretrain`
PreConfig = Annotated[str | None, Option(help="tiny, mini, small, medium, base, large, L4H128…")]
PreCorpus = Annotated[
    list[str] | None,
    Option(help="A corpus, a folder of texts, or a file with blank lines between texts."),
]
PreLearningRate = Annotated[float | None, Option(help="Highest learning rate; none: 0.001.")]
PreBfloat16 = Annotated[bool | None, Option(help="16-bit products; none: 32, or as the run began.")]
PreThreads = Annotated[int | None, Option(help="CPU threads; none: 1, or as the run began.", min=1)]
PreInit = Annotated[Path | None, Option(help="Train this checkpoint further, not a new model.")]
PreVariant = Annotated[
    str, Option(help="bert, no-nsp, ltr (left to right), rtl, elmo, mlm-ltr, mlm-rtl, diffusion.")
]
PreKeepEvery = Annotated[int | None, Option(help="Keep the weights of every so many steps.", min=1)]
PreStream = Annotated[
    str | None, Option(help="Text too big for memory: files, a glob, or a dataset of the Hub.")
]
PreStopAt = Annotated[int | None, Option(help="Stop after this step; --resume goes on.", min=1)]
PreMaskRate = Annotated[
    float | None,
    Option(help="Share of tokens that is selected; none: 0.3, later 0.15; with --length 0.15."),
]
PreMasking = Annotated[str | None, Option(help="MASK/SAME/RND in % (table 8); none: 80/10/10.")]
PreOptimizer = Annotated[
    str, Option(help="adamw; or muon, for the layers' matrices, and adamw for the rest.")
]


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
    bfloat16: PreBfloat16 = None,
    threads: PreThreads = None,
    save_every: Annotated[int, Option(help="Steps between two saves.", min=1)] = 200,
    init: PreInit = None,
    length: Annotated[int | None, Option(help="Tokens a sequence; none: 64, later 128.")] = None,
    variant: PreVariant = "bert",
    keep_every: PreKeepEvery = None,
    stream: PreStream = None,
    stop_at: PreStopAt = None,
    mask_rate: PreMaskRate = None,
    masking: PreMasking = None,
    optimizer: PreOptimizer = "adamw",
    batch_tokens: Annotated[int, Option(help="Tokens a step; many suit a GPU.")] = 2048,
) -> None:
    """Pre-train BERT on real text: masked words and next sentences.

    Stop it as you like, even with kill -9: the same command with --resume goes on. Ctrl-C saves
    first. Several GPUs or processes: torchrun --nproc_per_node N -m bertedu pretrain ...
    """
    from bertedu.pretraining import run

    if stream and corpus:
        raise BadParameter("choose either --stream or --corpus")
    options = run.PreTrainingOptions(
        out=out,
        config=config,
        init=init,
        steps=steps,
        minutes=minutes,
        corpus=corpus,
        stream=stream,
        variant=variant,
        seed=seed,
        learning_rate=learning_rate,
        optimizer=optimizer,
        dropout=dropout,
        batch_tokens=batch_tokens,
        length=length,
        mask_rate=mask_rate,
        masking=masking,
        device=device,
        bfloat16=bfloat16,
        threads=threads,
        save_every=save_every,
        keep_every=keep_every,
        stop_at=stop_at,
        resume=resume,
    )
    run.pretrain(options, echo)


# the longer options of `finetune`
OwnKindName = Annotated[
    str | None, Option("--kind", help="class, score, choice, answer or tags; none: by the data.")
]
Endings = Annotated[
    list[str] | None, Option("--ending", help="A column with an ending to choose; repeatable.")
]
SplitColumn = Annotated[str | None, Option(help="A column with train, dev or test; none: drawn.")]
Encoding = Annotated[str, Option(help="Of the file, such as cp949 or latin-1.")]
FineOut = Annotated[Path, Option(help="Folder for the model; what is there is replaced.")]


@app.command()
def finetune(
    data: Annotated[
        str | None, Argument(help="A file of yours, or a benchmark such as glue/sst2.")
    ] = None,
    csv: Annotated[Path | None, Option(help="The same, for a table: its file.")] = None,
    text: Annotated[str, Option(help="The column with the text.")] = "text",
    label: Annotated[str, Option(help="The column with the label.")] = "label",
    text_b: Annotated[str | None, Option(help="The column with the second text of a pair.")] = None,
    ending: Endings = None,
    kind: OwnKindName = None,
    group: Annotated[str | None, Option(help="Rows alike here stay in one split.")] = None,
    split: SplitColumn = None,
    encoding: Encoding = "utf-8",
    rows: Annotated[int | None, Option(help="Read the first so many only.", min=1)] = None,
    model: Annotated[
        str, Option("--from", help="A checkpoint, minilm, bert-tiny, or a name of the Hub.")
    ] = "bert-mini",
    lora: Annotated[int | None, Option(help="Rank: only thin products learn.", min=1)] = None,
    learning_rate: Annotated[float | None, Option(help="None: by model.")] = None,
    seed: Annotated[int, Option(help="Of the split, the new layer and the batches.")] = 0,
    out: FineOut = Path("my-model"),
    device: Device = None,
) -> None:
    """Fine-tune a model on data of your own, until dev stops rising, beside counted words.

    A table with a line of column names (.csv, .tsv); questions in SQuAD's shape (.json, .jsonl);
    or a word and its tag in a line (.conll).
    """
    from bertedu.finetuning.own_data import Columns, read_data
    from bertedu.finetuning.own_model import fit
    from bertedu.pretraining.run import check_number

    if (data is None) == (csv is None):
        raise BadParameter("name a file, or a benchmark: bertedu finetune tickets.csv")
    check_number("--learning-rate", learning_rate)
    check_number("--seed", seed)
    device_named(device)  # refused before any work
    columns = Columns(text, label, text_b, tuple(ending or ()), group, split)
    own = read_data(csv or str(data), columns, kind, encoding, rows, seed)
    echo("\n".join(own.notes))
    _make_room(out)
    mine = fit(own, model, learning_rate, seed, device, lora=lora)
    mine.save(out)  # before anything that may fail for want of memory
    echo("\n".join((*mine.notes, mine.table())))
    if worst := mine.worst():
        echo("\n".join(("the worst of test:", *(f"  {line}" for line in worst))))
    echo(f"written: {out}")
    (out / "confusion.png").unlink(missing_ok=True)  # of the model that was replaced
    if own.task.kind == "classification":
        from bertedu.analysis.views import confusion_map

        right, said = mine.outcomes(model).T.tolist()
        title = f"What is taken for what, on {len(right)} of test"
        confusion_map(right, said, own.task.labels, title).save(out / "confusion.png")
        echo(f"written: {out / 'confusion.png'}")
    echo(f"try it: {mine.try_it(out)}")


def _make_room(out: Path) -> None:
    """Refuse a folder where no model can be written, or one lies that took longer to make."""
    check_writable(out)
    if (out / "finetuning.json").exists():
        echo(f"{out} holds a model, which this one will replace; --out names another folder")
    elif any((out / name).exists() for name in ("config.json", "training_state.safetensors")):
        raise ValueError(f"{out} holds a model that is not a fine-tuned one: --out names another")


@app.command()
def predict(
    folder: Annotated[Path, Argument(help="What `bertedu finetune` wrote.")],
    texts: Annotated[
        list[str] | None,
        Argument(help="One text, a pair, a question and a text, or a beginning and endings."),
    ] = None,
    csv: Annotated[
        Path | None, Option(help="A table, in place of texts: each row is asked.")
    ] = None,
    text: Annotated[
        list[str] | None, Option(help="A column of it with a text; repeatable. None: text.")
    ] = None,
    encoding: Encoding = "utf-8",
    out: Annotated[Path, Option(help="The table with what is predicted.")] = Path("predicted.csv"),
) -> None:
    """Ask a fine-tuned model about a text, or about each row of a table."""
    from bertedu.finetuning.saving import answer_table, load_finetuned, say_answer
    from bertedu.text.tokenization import check_text

    if bool(texts) == bool(csv):
        raise BadParameter('give a text, "…", or a table, --csv FILE --text COLUMN')
    for one in texts or []:  # before a model is loaded
        check_text(one)
    if csv:  # before hours of answers
        check_writable(out.parent)
        if out.is_dir() or out.resolve() == csv.resolve():
            raise ValueError(f"{out} is a folder, or the table itself: --out names a new file")
        if out.exists():
            echo(f"{out} is there, and will be replaced; --out names another file")
    found = load_finetuned(folder)
    if csv:
        rows, asked = answer_table(found, csv, text or ["text"], encoding)
        with csv.open("rb") as file:  # by its mark a spreadsheet knows UTF-8
            marked = file.read(3) == BOM_UTF8 or lookup(encoding).name != "utf-8"
        write_csv(out, rows, "\ufeff" * marked)
        echo(f"written: {out}, {asked:,} of {len(rows):,} rows with predicted and probability")
    else:
        echo(say_answer(found, texts or [], found.ask(*(texts or []))))


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
    from bertedu.model.checkpoints import ENCODERS_ALONE, is_published
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
