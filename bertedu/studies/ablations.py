"""The ablations: which part of the recipe makes the difference? (paper, sections 5.1, 5.2, C)

`bertedu ablate GRID` fine-tunes pre-trained variants on the same few examples of each task, and
writes a row for each run to `data/results/ablations.csv`. What is there is not run again.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from multiprocessing import get_context
from pathlib import Path

import torch
from tqdm.auto import tqdm

from bertedu.finetuning.baselines import BASELINES
from bertedu.finetuning.examples import Splits, Task, TaskError
from bertedu.finetuning.finetune import Setup, run_once
from bertedu.finetuning.record import RunRecord
from bertedu.finetuning.summary import System, SystemOf, draw_systems, drawn_reader, summarize_task
from bertedu.finetuning.tasks import load_task
from bertedu.finetuning.training import Hyperparameters
from bertedu.model.loading import find_checkpoint
from bertedu.model.weight_files import CheckpointError
from bertedu.pretraining.run_folder import read_record
from bertedu.results.bootstrap import BootstrapScores, Floats
from bertedu.results.files import Row, write_csv
from bertedu.studies.pretraining import with_earlier_runs

NAME = "ablations"  # of the record
EXAMPLES = 1500  # training examples of every task, so that no task is decided by its size
RECIPE = Hyperparameters(learning_rate=3e-4)
# Two tasks have a plateau that this rate does not leave in three epochs. "answer" has two epochs:
# every question brings nearly three windows of text.
RECIPES = {
    "entities": replace(RECIPE, learning_rate=1e-3, batch_size=16),
    "answer": replace(RECIPE, learning_rate=1e-3, batch_size=16, epochs=2),
}
FEATURES_RECIPE = Hyperparameters(learning_rate=3e-3, batch_size=16, epochs=6)


@dataclass(frozen=True)
class Variant:
    """One row of a table: a name, checkpoints that differ by their seed only, and the method."""

    name: str
    checkpoints: tuple[str, ...]
    method: str = "fine-tuned"


@dataclass(frozen=True)
class Grid:
    """Variants × tasks × fine-tuning seeds; differences are taken from the first variant."""

    about: str
    variants: tuple[Variant, ...]
    tasks: tuple[str, ...]
    seeds: int = 5
    examples: int = EXAMPLES

    def cells(self) -> Iterator["Cell"]:
        """Yield every run, task by task, and of a task the first seed of every variant first."""
        for task, seed, variant in product(self.tasks, range(self.seeds), self.variants):
            for checkpoint in variant.checkpoints:
                setup = Setup(checkpoint, variant.method, self.examples)
                # the same for all variants; frozen features need a recipe of theirs
                recipe = FEATURES_RECIPE if setup.reads else RECIPES.get(task, RECIPE)
                yield Cell(task, variant.name, setup, replace(recipe, seed=seed))


@dataclass(frozen=True)
class Cell:
    """One run of a grid."""

    task: str
    variant: str
    setup: Setup
    recipe: Hyperparameters


BERT, LTR = ("bert-L4H128", "bert-L4H128-1"), ("ltr-L4H128", "ltr-L4H128-1")
SIZES = {
    name: f"size-{name.replace(' ', '')}" for name in ("L2 H128", "L4 H128", "L4 H256", "L8 H256")
}
LONGER = {  # the last with a recipe of its own: see data/README.md
    "L2 H128, longer": "bert-L2H128",
    "L4 H128, longer": "bert-L4H128",
    "L4 H256, longer": "bert-mini",
}
PROCEDURES = ("80/10/10", "100/0/0", "80/0/20", "80/20/0", "0/20/80", "0/0/100")
MASKED = {procedure: f"masking-{procedure.replace('/', '-')}" for procedure in PROCEDURES}
STEPS = (1500, 3000, 6000, 10500, 15000, 21000)


def _variants(checkpoints: dict[str, str], method: str = "fine-tuned") -> tuple[Variant, ...]:
    return tuple(Variant(name, (folder,), method) for name, folder in checkpoints.items())


GRIDS = {
    "direction": Grid(
        "what a token may see while pre-training, and next sentence prediction (table 5)",
        (
            Variant("BERT", BERT),
            Variant("No NSP", ("no-nsp-L4H128",)),
            Variant("LTR & No NSP", LTR),
            Variant("LTR & No NSP + BiLSTM", LTR[:1], "fine-tuned + BiLSTM"),
            Variant("LTR and RTL, equal width", ("ltr-L4H128+rtl-L4H128",)),
            Variant("LTR and RTL, equal parameters", ("ltr-L4H80+rtl-L4H80",)),
            Variant("ELMo", ("elmo-L4H128",), "features:sum of all"),
            Variant("not pre-trained", BERT[:1], "untrained"),
        ),
        ("topic", "valence", "description", "next", "answer", "entities"),
    ),
    "size": Grid(
        "layers and width (table 6), and three that have read five or six times as much",
        _variants(SIZES | LONGER),
        ("topic", "entities"),
        seeds=3,
    ),
    "masking": Grid(
        "what becomes of the selected words: MASK/SAME/RND (table 8)",
        _variants(MASKED),
        ("topic", "entities"),
        seeds=3,
    ),
    "masking-frozen": Grid(
        "the same, with the pre-trained model frozen (table 8, last column)",
        _variants(MASKED, "features:last"),
        ("entities",),
        seeds=3,
    ),
    "steps": Grid(
        "the number of pre-training steps (figure 5)",
        _variants(
            {
                f"{name}, {step} steps": f"{run}/steps/{step:06d}"
                for name, run in (("BERT", BERT[0]), ("LTR & No NSP", LTR[0]))
                for step in STEPS
            }
        ),
        ("topic", "description"),
        seeds=3,
    ),
    "quick": Grid(
        "a minute for a class: does it matter where you start?",
        (Variant("BERT", BERT[:1]), Variant("not pre-trained", BERT[:1], "untrained")),
        ("topic",),
        seeds=2,
        examples=600,
    ),
}


def pretrained_with(name: str) -> Row:
    """Return the steps and tokens of pre-training of a checkpoint; of a pair, the sum of tokens.

    Raises CheckpointError if there is no such checkpoint, or no record beside it.
    """
    steps, tokens = zip(*map(_steps_and_tokens, name.split("+")), strict=True)
    return {"pretraining_steps": steps[0], "pretraining_tokens": sum(tokens)}


def _steps_and_tokens(name: str) -> tuple[int, int]:
    folder = find_checkpoint(name)
    kept = folder.parent.name == "steps"  # weights of the middle of a run: its curve knows
    run = folder.parent.parent if kept else folder
    try:
        record = read_record(run)
        if kept:
            record = next(row for row in record["curve"] if row["step"] == int(folder.name))
            return int(record["step"]), int(record["tokens"])
        return int(with_earlier_runs(record, "steps")), int(with_earlier_runs(record, "tokens"))
    except (ValueError, KeyError, StopIteration):
        path = run / "training.json"
        raise CheckpointError(f"{path} does not say how {name} was pre-trained") from None


@lru_cache(maxsize=2)
def _task(name: str) -> tuple[Task, Splits]:
    return load_task(name)


def run_cell(cell: Cell, folder: Path, threads: int | None = None) -> Row:
    """Make one run and write it down."""
    if threads:
        torch.set_num_threads(threads)
    task, splits = _task(cell.task)
    record = RunRecord(folder, NAME)
    known = record.find(task, cell.setup, cell.recipe, "score")
    if known is not None:  # made meanwhile by a grid that shares it, in another window
        return known
    run = run_once(task, splits, cell.setup, cell.recipe, progress=False)
    more: Row = {"variant": cell.variant} | pretrained_with(cell.setup.model)
    if cell.setup.untrained:
        more |= {"pretraining_steps": 0, "pretraining_tokens": 0}
    return record.add(task, splits, cell.setup, cell.recipe, run, "score", more)


def ablate(
    grid: Grid,
    folder: Path,
    jobs: int = 1,
    tasks: Sequence[str] | None = None,
    seeds: int | None = None,
    say: Callable[[str], None] = print,
) -> None:
    """Run what is missing of a grid.

    ``jobs`` processes share the runs, one thread each if they are several. Of the grid, only
    ``tasks`` and the first ``seeds`` fine-tuning seeds are run, with baselines beside every task.

    Raises CheckpointError, before anything is run, if a checkpoint is missing or unfinished;
    SourceError if the data of a task cannot be loaded; TaskError if the grid has no such task or
    seeds, or something was run with another recipe: a mean over two recipes would be of neither.
    """
    chosen = tuple(name for name in grid.tasks if tasks is None or name in tasks)
    if not chosen:
        raise TaskError(f"none of its tasks is asked for: it has {', '.join(grid.tasks)}")
    if seeds and seeds > grid.seeds:
        raise TaskError(f"the grid has {grid.seeds} seeds: its table would not count more")
    grid = replace(grid, tasks=chosen, seeds=seeds or grid.seeds)
    for name in sorted({cell.setup.model for cell in grid.cells()}):
        pretrained_with(name)
    record, loaded = RunRecord(folder, NAME), {}
    for name in grid.tasks:
        loaded[name], splits = _task(name)
        record.add_baselines(loaded[name], splits, grid.examples)
    missing = []
    for cell in grid.cells():
        if other := record.other_recipes(loaded[cell.task], cell.setup, cell.recipe):
            raise TaskError(
                f"{cell.task}, {cell.setup.model} was run with another recipe (learning rate "
                f"{other[0]['learning_rate']}): use another folder, --results FOLDER"
            )
        if record.find(loaded[cell.task], cell.setup, cell.recipe, "score") is None:
            missing.append(cell)
    with tqdm(total=len(missing), desc="runs") as bar:
        for cell, row in _run_all(missing, folder, jobs):
            bar.update()
            say(
                f"{cell.task}, {cell.variant}, {cell.setup.model}, seed {cell.recipe.seed}: "
                f"test {row['metric']} {float(row['test']):.4f}"
            )


def _run_all(cells: Sequence[Cell], folder: Path, jobs: int) -> Iterator[tuple[Cell, Row]]:
    if jobs == 1:
        for cell in cells:
            yield cell, run_cell(cell, folder)
        return
    # not forked: a fork of a process that has used torch's threads may hang
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        futures = {pool.submit(run_cell, cell, folder, 1): cell for cell in cells}
        try:
            for future in as_completed(futures):
                yield futures[future], future.result()
        finally:
            pool.shutdown(cancel_futures=True)


def summarize_grid(grid: Grid, folder: Path) -> list[Row]:
    """Return a row for each task and variant: mean over seeds, interval, difference from the first.

    The runs of checkpoints that differ by their pre-training seed are one variant.
    """
    record, system_of = RunRecord(folder, NAME), _systems_of(grid)
    first = (grid.variants[0].name, "", str(grid.examples))
    rows = [row for task in grid.tasks for row in summarize_task(record, task, first, system_of)]
    return [{"variant": row.pop("model"), **row} for row in rows]


def _systems_of(grid: Grid) -> SystemOf:
    """Return the function that says which variant of a grid a row of the record belongs to."""
    examples = str(grid.examples)
    # another grid may have the same cell, and more seeds: those are not this grid's
    variants = {
        (checkpoint, variant.method, str(seed)): (variant.name, "", examples)
        for variant in grid.variants
        for checkpoint in variant.checkpoints
        for seed in range(grid.seeds)
    }

    def system_of(row: Row) -> System | None:
        if row["train_examples"] != examples:
            return None
        if row["method"] == "baseline":
            return row["model"], "baseline", examples
        return variants.get((row["model"], row["method"], row["seed"]))

    return system_of


def difference(
    grid: Grid, task: str, one: str, other: str, folder: Path
) -> tuple[float, float, float]:
    """Return how much better variant ``one`` is than ``other``, and the 95 % interval of that.

    Either may be a baseline; both are drawn on the same test examples. The interval holds for other
    test texts and fine-tuning seeds; of the luck of pre-training it knows nothing. Raises TaskError
    if one of them was not run on this task, or there is none of that name.
    """
    return _drawn(grid, task, one, folder).minus(_drawn(grid, task, other, folder))


def difference_from(
    grid: Grid, task: str, name: str, scores: Floats, folder: Path
) -> tuple[float, float, float]:
    """Do as `difference`, for a variant and a reader of known ``scores``, (n,), from 0 to 1.

    They are the reader's on each test example, in the order of the task. Raises TaskError, too, if
    there are more or fewer scores than examples.
    """
    sources, _ = RunRecord(folder, NAME).outcomes(task)
    return _drawn(grid, task, name, folder).minus(drawn_reader(scores, sources))


def _drawn(grid: Grid, task: str, name: str, folder: Path) -> BootstrapScores:
    known = [*(variant.name for variant in grid.variants), *BASELINES]
    if name not in known:
        raise TaskError(f"no variant {name!r}: choose one of {', '.join(known)}")
    path = folder / NAME / f"{task}.csv"
    changed = path.stat().st_mtime_ns if path.exists() else 0
    system = (name, "baseline" if name in BASELINES else "", str(grid.examples))
    drawn = _all_drawn(grid, task, folder, changed)
    if system not in drawn:
        raise TaskError(f"no runs of {name} on {task}: run it with bertedu ablate")
    return drawn[system]


@lru_cache(maxsize=32)
def _all_drawn(grid: Grid, task: str, folder: Path, _: int) -> dict[System, BootstrapScores]:
    """Draw all variants of a grid on a task; once, as long as the file of outcomes is the same."""
    return draw_systems(RunRecord(folder, NAME), task, _systems_of(grid))


def write_summary(folder: Path) -> list[Row]:
    """Summarize the tasks on which two variants of a grid were run: `ablations_summary.csv`."""
    rows: list[Row] = []
    record = RunRecord(folder, NAME).rows()
    for name, grid in GRIDS.items():
        system_of = _systems_of(grid)
        runs = {(row["task"], system_of(row)) for row in record if row["method"] != "baseline"}
        many = Counter(task for task, system in runs if system)
        tasks = tuple(task for task in grid.tasks if many[task] > 1)
        summary = summarize_grid(replace(grid, tasks=tasks), folder)
        rows += [{"grid": name, **row} for row in summary]
    write_csv(folder / f"{NAME}_summary.csv", rows)
    return rows
