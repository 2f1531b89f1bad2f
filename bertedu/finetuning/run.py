"""A fine-tuning run from names to scores, the grid search of the paper, and the record."""

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from filelock import FileLock
from tokenizers import Tokenizer

from bertedu.finetuning.baselines import BASELINES, baseline_answers
from bertedu.finetuning.encoders import frozen_features, load_encoder, with_bilstm
from bertedu.finetuning.examples import Question, Splits, Task, TaskError
from bertedu.finetuning.inputs import MAX_LENGTH
from bertedu.finetuning.kinds import (
    Answer,
    Classification,
    Kind,
    MultipleChoice,
    Outcomes,
    Regression,
)
from bertedu.finetuning.loop import History, Recipe, TaskModel, finetune, score_items
from bertedu.finetuning.question_answering import QuestionAnswering
from bertedu.finetuning.tagging import Tagging
from bertedu.model.checkpoints import write_atomically
from bertedu.model.features import READS, Encoder
from bertedu.model.loading import is_published
from bertedu.pretraining.loop import default_device, describe_machine, has_fast_bfloat16
from bertedu.pretraining.run import current_commit

# "features:last" reads the last layer of the frozen model; "untrained features:last" is its control
FEATURES = tuple(f"features:{reads}" for reads in READS)
METHODS = (
    "fine-tuned",
    "frozen",
    "untrained",
    "fine-tuned + BiLSTM",
    *FEATURES,
    *(f"untrained {name}" for name in FEATURES),
)
Rates = tuple[float, float, float]
# The paper's are for 110 million parameters; small models bear more, new layers alone still more.
RATES: dict[str, Rates] = {
    "fine-tuned": (1e-4, 3e-4, 1e-3),
    "frozen": (1e-3, 3e-3, 1e-2),
    "published": (3e-5, 1e-4, 3e-4),
}
BATCH_SIZES = (16, 32)
EPOCHS = (2, 3, 4)
SYSTEM = ("task", "model", "method", "train_examples")
PARTS = ("batch_size", "learning_rate", "epochs", "dropout", "patience")  # of a recipe
KEY = (*SYSTEM, *PARTS, "seed")
Row = dict[str, Any]


def make_kind(task: Task, splits: Splits) -> Kind:
    """Return the kind of a task, ready to encode its examples."""
    if task.kind == "classification":
        return Classification(task.labels)
    if task.kind == "regression":
        return Regression()
    if task.kind == "choice":
        return MultipleChoice()
    if task.kind == "tagging":
        return Tagging(task.labels)
    none = any(isinstance(e, Question) and not e.answers for e in splits["train"])
    return QuestionAnswering(none, by_character=task.metric == "character_f1")


@dataclass(frozen=True)
class Setup:
    """Which model, how: all that a run needs besides the task and the recipe."""

    model: str
    method: str = "fine-tuned"
    train_examples: int | None = None  # none: all

    def __post_init__(self) -> None:
        """Refuse a method that is none."""
        if self.method not in METHODS:
            raise TaskError(f"no method {self.method!r}: choose one of {', '.join(METHODS)}")
        if self.train_examples is not None and self.train_examples < 1:
            raise TaskError(f"{self.train_examples} training examples: at least one is needed")

    @property
    def untrained(self) -> bool:
        """Whether the encoder is drawn at random."""
        return self.method.startswith("untrained")

    @property
    def reads(self) -> str:
        """What is read off a frozen encoder (`READS`); empty if its last layer is trained on."""
        return self.method.partition("features:")[2]

    @property
    def rates(self) -> Rates:
        """Learning rates worth trying."""
        if self.reads or self.method == "frozen":
            return RATES["frozen"]
        return RATES["published" if is_published(self.model) else "fine-tuned"]


@dataclass
class Run:
    """A fine-tuned model and what it answered."""

    model: TaskModel
    tokenizer: Tokenizer
    history: History
    answers: dict[str, list[Answer]]
    bfloat16: bool  # products in 16 bits


def run_once(
    task: Task,
    splits: Splits,
    setup: Setup,
    recipe: Recipe,
    score: Sequence[str] = ("dev", "test"),
    device: torch.device | None = None,
    bfloat16: bool | None = None,
    progress: bool = True,
) -> Run:
    """Fine-tune once, and answer the splits of ``score``.

    Raises
    ------
    TaskError
        The examples cannot be encoded.
    CheckpointError, SourceError
        The encoder cannot be loaded.
    FineTuningDiverged
        The loss became NaN.

    """
    device = device or default_device()
    if bfloat16 is None:
        bfloat16 = has_fast_bfloat16(device)
    encoder: Encoder
    encoder, tokenizer = load_encoder(setup.model, recipe.dropout, setup.untrained, recipe.seed)
    kind = make_kind(task, splits)
    train = splits["train"][: setup.train_examples]
    torch.manual_seed(recipe.seed)  # of the new layers
    if setup.reads:
        encoder = frozen_features(encoder, setup.reads)
    elif setup.method == "fine-tuned + BiLSTM":
        encoder = with_bilstm(encoder)
    model = TaskModel(encoder, kind, recipe.dropout, setup.method == "frozen").to(device)
    items = {
        split: kind.encode(train if split == "train" else splits[split], tokenizer, MAX_LENGTH)
        for split in {"train", "dev", *score}
    }
    history = finetune(
        model, items["train"], splits["dev"], items["dev"], task.metric, recipe, bfloat16, progress
    )
    answers = {
        split: kind.answers(splits[split], items[split], score_items(model, items[split], bfloat16))
        for split in score
    }
    return Run(model, tokenizer, history, answers, bfloat16)


def search(
    task: Task,
    splits: Splits,
    setup: Setup,
    recipe: Recipe,
    book: "Book",
    full: bool,
    say: Callable[[str], None] = print,
    progress: bool = True,
) -> Recipe:
    """Search the grid on dev, and return the best recipe (paper, appendix A.3).

    ``full``: batch size × learning rate × epochs; otherwise learning rates only. The test split
    is not scored. What `book` has already is not run again.
    """
    sizes = BATCH_SIZES if full else (recipe.batch_size,)
    lengths = EPOCHS if full else (recipe.epochs,)
    tried: list[tuple[float, Recipe]] = []
    for size in sizes:
        for epochs in lengths:
            for rate in setup.rates:
                # every run of the grid goes to its end: how long is one of the questions
                one = replace(
                    recipe,
                    batch_size=size,
                    epochs=epochs,
                    learning_rate=rate,
                    patience=epochs if full else recipe.patience,
                )
                row = book.find(task, setup, one, "grid")
                if row is None:
                    run = run_once(task, splits, setup, one, score=(), progress=progress)
                    row = book.add(task, splits, setup, one, run, "grid")
                tried.append((float(row["dev"]), one))
                say(f"  batch {size}, rate {rate:g}, {epochs} epochs: dev {float(row['dev']):.4f}")
    best = max(tried, key=lambda pair: pair[0])[1]
    return replace(best, patience=recipe.patience)


class Book:
    """The record: a row for each run, and what each test example came out as.

    `finetuning.csv` has the rows; `outcomes/TASK.csv` beside it the outcomes of the test split, so
    that any two models can be compared on the same examples without running them again. Several
    processes may write to it at once. A record of another name, such as "ablations", has its rows
    in `ablations.csv` and its outcomes in `ablations/TASK.csv`.
    """

    def __init__(self, folder: Path, name: str = "finetuning") -> None:
        self.folder, self.table = folder, folder / f"{name}.csv"
        self.outcomes_folder = folder / ("outcomes" if name == "finetuning" else name)

    def rows(self) -> list[Row]:
        """Return all rows, values as text."""
        return read_csv(self.table)

    def find(self, task: Task, setup: Setup, recipe: Recipe, purpose: str) -> Row | None:
        """Return the row of a run, if it has been run."""
        wanted = _key(task, setup, recipe) | {"purpose": purpose}
        for row in self.rows():
            if all(row[name] == str(value) for name, value in wanted.items()):
                return row
        return None

    def add(
        self,
        task: Task,
        splits: Splits,
        setup: Setup,
        recipe: Recipe,
        run: Run,
        purpose: str,
        more: Row | None = None,
    ) -> Row:
        """Write down a run, with ``more`` columns; one with the same key is replaced."""
        kind, history = run.model.kind, run.history
        row: Row = _key(task, setup, recipe) | {
            "purpose": purpose,
            "metric": task.metric,
            "dev": round(max(history.dev), 5),
            "best_epoch": history.best_epoch,
            "seconds": round(history.seconds, 1),
            "bfloat16": run.bfloat16,
        }
        outcomes = None
        if "test" in run.answers:
            outcomes = kind.outcomes(splits["test"], run.answers["test"])
            row |= _test_columns(task, kind, outcomes)
        return self._write(task, splits, row | (more or {}), kind, outcomes)

    def forget_other_recipes(self, task: Task, setup: Setup, recipe: Recipe, again: bool) -> None:
        """See to it that a system has one recipe: a mean over two would be of neither.

        Raises
        ------
        TaskError
            It was scored with another recipe, and not ``again`` asks to drop that.

        """
        wanted, other = _key(task, setup, recipe), self.other_recipes(task, setup, recipe)
        if not other:
            return
        if not again:
            told = ", ".join(f"{name} {other[0][name]}" for name in PARTS)
            raise TaskError(
                f"{task.name}, {setup.model}, {setup.method} was scored with another recipe "
                f"({told}): --again drops those runs, --results FOLDER keeps both apart"
            )
        with _locked(self.folder):
            path = self._outcomes_path(task.name)
            system = {name: str(wanted[name]) for name in SYSTEM if name != "task"}
            kept = [r for r in read_csv(path) if any(r[n] != v for n, v in system.items())]
            write_csv(path, kept)
            write_csv(self.table, [row for row in self.rows() if row not in other])

    def other_recipes(self, task: Task, setup: Setup, recipe: Recipe) -> list[Row]:
        """Return the rows of a system that was scored with another recipe."""
        wanted = _key(task, setup, recipe)
        return [
            row
            for row in self.rows()
            if row["purpose"] == "score"
            and all(row[name] == str(wanted[name]) for name in SYSTEM)
            and any(row[name] != str(wanted[name]) for name in PARTS)
        ]

    def _outcomes_path(self, task_name: str) -> Path:
        return self.outcomes_folder / f"{task_name}.csv"

    def add_baseline(
        self, task: Task, splits: Splits, name: str, train_examples: int | None = None
    ) -> Row:
        """Run a baseline and write it down."""
        splits = {**splits, "train": splits["train"][:train_examples]}
        kind = make_kind(task, splits)
        answers = baseline_answers(name, task, splits)
        dev = kind.metrics(kind.outcomes(splits["dev"], answers["dev"]))[task.metric]
        outcomes = kind.outcomes(splits["test"], answers["test"])
        row: Row = dict.fromkeys(KEY, "") | {
            "task": task.name,
            "model": name,
            "method": "baseline",
            "purpose": "score",
            "train_examples": train_examples or "all",
            "metric": task.metric,
            "dev": round(dev, 5),
        }
        row |= _test_columns(task, kind, outcomes)
        return self._write(task, splits, row, kind, outcomes)

    def has_baseline(self, task: Task, name: str, train_examples: int | None = None) -> bool:
        """Say whether a baseline was run."""
        wanted = (task.name, name, str(train_examples or "all"))
        return any(
            (row["task"], row["model"], row["train_examples"]) == wanted for row in self.rows()
        )

    def _write(
        self, task: Task, splits: Splits, row: Row, kind: Kind, outcomes: Outcomes | None
    ) -> Row:
        machine = describe_machine(default_device())
        row["device"] = f"{machine['device']} {machine['hardware']}"
        row["threads"], row["commit"] = machine["threads"], current_commit()
        self.folder.mkdir(parents=True, exist_ok=True)
        with _locked(self.folder):
            same = (*KEY, "purpose")
            if outcomes is not None:  # first: a run that has a row is not run again
                self._write_outcomes(task, splits, row, kind, outcomes)
            kept = [r for r in self.rows() if any(r[n] != str(row[n]) for n in same)]
            write_csv(self.table, sorted([*kept, row], key=_order))
        return {name: str(value) for name, value in row.items()}

    def _write_outcomes(
        self, task: Task, splits: Splits, row: Row, kind: Kind, outcomes: Outcomes
    ) -> None:
        path = self._outcomes_path(task.name)
        names = {name: row[name] for name in ("model", "method", "train_examples", "seed")}
        kept = [
            r
            for r in read_csv(path)
            if r["model"] != "(source)" and any(r[n] != str(v) for n, v in names.items())
        ]
        sources = sorted({e.source for e in splits["test"]})
        numbers = " ".join(str(sources.index(e.source)) for e in splits["test"])
        first = {"model": "(source)", "columns": "source", "outcomes": numbers}
        kept.append(names | {"columns": "/".join(kind.columns), "outcomes": _pack(outcomes)})
        path.parent.mkdir(parents=True, exist_ok=True)
        write_csv(path, [first, *sorted(kept, key=_order)])

    def outcomes(self, task_name: str) -> tuple[np.ndarray[Any, Any], list[tuple[Row, Outcomes]]]:
        """Return the source number of each test example, and each run with its outcomes.

        Raises
        ------
        TaskError
            There is no record of that task.

        """
        rows = read_csv(self._outcomes_path(task_name))
        if not rows:
            raise TaskError(f"no outcomes of task {task_name!r} in {self.folder}: run it first")
        sources = np.array([int(word) for word in rows[0]["outcomes"].split()])
        return sources, [(row, _unpack(row["outcomes"])) for row in rows[1:]]


def _key(task: Task, setup: Setup, recipe: Recipe) -> Row:
    return {
        "task": task.name,
        "model": setup.model,
        "method": setup.method,
        "train_examples": setup.train_examples or "all",
        "batch_size": recipe.batch_size,
        "learning_rate": f"{recipe.learning_rate:g}",
        "epochs": recipe.epochs,
        "dropout": f"{recipe.dropout:g}",
        "patience": recipe.patience,
        "seed": recipe.seed,
    }


def _test_columns(task: Task, kind: Kind, outcomes: Outcomes) -> Row:
    scores = kind.metrics(outcomes)
    main = {"test": round(scores[task.metric], 5)}
    return main | {f"test_{n}": round(v, 5) for n, v in scores.items() if n != task.metric}


def _order(row: Row) -> tuple[Any, ...]:
    return tuple(
        str(row.get(name, "")) for name in ("task", "purpose", "model", "method", *KEY[3:])
    )


def _pack(outcomes: Outcomes) -> str:
    """Write a row of numbers as "1/3"; whole ones without a point."""
    return " ".join("/".join(f"{round(value, 4):.12g}" for value in row) for row in outcomes)


def _unpack(text: str) -> Outcomes:
    return np.array([[float(value) for value in word.split("/")] for word in text.split()])


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    with FileLock(folder / ".finetuning.lock"):
        yield


def read_csv(path: Path) -> list[Row]:
    """Return the rows of a CSV file, values as text; none if there is no file."""
    csv.field_size_limit(10_000_000)
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return []
    return list(csv.DictReader(io.StringIO(text)))


def write_csv(path: Path, rows: Sequence[Row]) -> None:
    """Write rows in one rename; a column that a row lacks stays empty there."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_atomically(path, text.getvalue())


def run_task(
    task: Task,
    splits: Splits,
    setup: Setup,
    recipe: Recipe,
    seeds: Sequence[int],
    book: Book,
    grid: str = "none",
    again: bool = False,
    say: Callable[[str], None] = print,
    progress: bool = True,
    need_models: bool = False,
) -> list[Run]:
    """Search a recipe if asked, fine-tune with each seed, and write down every run.

    The baselines are run first, so that no score stands alone. Without seeds only the grid is
    searched. Returns the runs that were made
    now: what the book has already is not run again, except with ``again``, which also drops what
    was run with another recipe, or where the models themselves are needed.
    """
    for name in sorted(BASELINES):
        if not book.has_baseline(task, name, setup.train_examples):
            row = book.add_baseline(task, splits, name, setup.train_examples)
            say(f"{task.name}, {name}: test {task.metric} {float(row['test']):.4f}")
    if grid != "none":
        say(f"{task.name}, {setup.model}, {setup.method}: searching the grid on dev")
        recipe = search(task, splits, setup, recipe, book, grid == "full", say, progress)
    if len(seeds):
        book.forget_other_recipes(task, setup, recipe, again)
    made: list[Run] = []
    for seed in seeds:
        one = replace(recipe, seed=seed)
        recorded = None if again else book.find(task, setup, one, "score")
        if recorded is None or need_models:
            run = run_once(task, splits, setup, one, progress=progress)
            made.append(run)
        row = recorded or book.add(task, splits, setup, one, run, "score")  # recorded: it stays
        who = f"{task.name}, {setup.model}, {setup.method}, seed {seed}"
        say(f"{who}: dev {float(row['dev']):.4f}, test {task.metric} {float(row['test']):.4f}")
    return made
