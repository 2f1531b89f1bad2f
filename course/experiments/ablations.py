"""The ablations: which part of the recipe makes the difference? (paper, sections 5.1, 5.2, C)

`python -m course ablate GRID` fine-tunes pre-trained variants on the same few examples of each
task, and writes a row for each run to `data/results/ablations.csv`. What is there is not run again.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from tqdm.auto import tqdm

from bertedu.files import Row, write_csv
from bertedu.finetuning.examples import Splits, Task, TaskError
from bertedu.finetuning.finetune import MEAN, Setup, run_once
from bertedu.finetuning.own_model import UNTIL_DEV_STOPS
from bertedu.finetuning.training import Hyperparameters
from bertedu.model.checkpoints import CheckpointError, find_checkpoint
from bertedu.pretraining.run import read_record
from course.experiments.pretraining_scores import with_earlier_runs
from course.experiments.tasks import load_task
from course.results.bootstrap import BootstrapScores, Estimate, common_spread, halves
from course.results.columns import MINUS_REFERENCE, SCORE, in_columns
from course.results.record import RunRecord
from course.results.summary import System, draw_systems

NAME = "ablations"  # of the record
EXAMPLES = 1500  # training examples of every task, so that no task is decided by its size
# One rule says how long: until dev has stopped rising.
RECIPE = replace(UNTIL_DEV_STOPS, learning_rate=3e-4)
# Tags and spans have a plateau that this rate hardly leaves.
STEEP = replace(UNTIL_DEV_STOPS, learning_rate=1e-3, batch_size=16)
RECIPES = dict.fromkeys(("entities", "punctuation", "capitals"), STEEP)
FEATURES_RECIPE = replace(UNTIL_DEV_STOPS, learning_rate=3e-3, batch_size=16)


@dataclass(frozen=True)
class Variant:
    """One row of a table: a name, checkpoints that differ by their seed only, and the method."""

    name: str
    checkpoints: tuple[str, ...]
    method: str = "fine-tuned"


@dataclass(frozen=True)
class Grid:
    """Variants × tasks × checkpoints × ``seeds``; differences are taken from the first variant.

    No two runs of a variant have the same fine-tuning seed: that luck, too, is drawn for each.
    ``few_epochs``: not to the end but for three epochs, for a class that waits.
    """

    about: str
    variants: tuple[Variant, ...]
    tasks: tuple[str, ...]
    seeds: int = 1
    examples: int = EXAMPLES
    few_epochs: bool = False

    def cells(self) -> Iterator["Cell"]:
        """Yield every run, task by task, and of a task the first seed of every variant first."""
        for task, again, variant in product(self.tasks, range(self.seeds), self.variants):
            for number, checkpoint in enumerate(variant.checkpoints):
                setup = Setup(checkpoint, variant.method, self.examples)
                # the same for all variants; frozen features need a recipe of theirs
                recipe = FEATURES_RECIPE if setup.reads else RECIPES.get(task, RECIPE)
                if self.few_epochs:
                    recipe = replace(recipe, epochs=3, patience=2, min_steps=0)
                seed = again * len(variant.checkpoints) + number
                yield Cell(task, variant.name, setup, replace(recipe, seed=seed))


@dataclass(frozen=True)
class Cell:
    """One run of a grid."""

    task: str
    variant: str
    setup: Setup
    recipe: Hyperparameters


BERT, SEEDS = "bert-L4H128", range(3)


def runs_of(*halves: str, folder: str = "at-a-blank") -> tuple[str, ...]:
    """Name the three pre-trainings of a recipe, or of the two halves of a pair."""
    return tuple("+".join(f"{folder}/{half}-{seed}" for half in halves) for seed in SEEDS)


def _readers(folder: str) -> dict[str, tuple[str, ...]]:
    """Name the three pre-trainings of each reader of `same_question` in a folder of checkpoints."""
    names = {"both sides": "no-nsp", "left alone": "mlm-ltr", "right alone": "mlm-rtl"}
    return {reader: runs_of(name, folder=folder) for reader, name in names.items()}


# The same question under three masks, on a GPU, and before that on CPUs: see data/README.md
AT_A_BLANK, SAME_QUESTION = _readers("at-a-blank"), _readers("same-question")
BOTH = AT_A_BLANK["both sides"]
PAIRS = {
    "left and right": runs_of("mlm-ltr", "mlm-rtl"),
    # two so narrow that they are as large as one of the above, and have learned together
    "left and right, together": runs_of("joint-ltr", "joint-rtl"),
}
NEXT = runs_of("ltr")  # asked for the next word at every place, as GPT is
TUNED, READ = "fine-tuned" + MEAN, "features:sum of all" + MEAN
AGAIN = ("", "-1", "-2")  # three pre-trainings of one recipe; the first run has no number
# Each at the learning rate that was best for it on dev, of three: size_curves.csv.
SIZES = {
    name: runs_of(name.replace(" ", ""), folder="sizes")
    for name in ("L2 H128", "L4 H128", "L4 H256")
}
PROCEDURES = ("80/10/10", "100/0/0", "80/0/20", "80/20/0", "0/20/80", "0/0/100")
MASKED = {
    procedure: tuple(f"masking-{procedure.replace('/', '-')}{end}" for end in AGAIN)
    for procedure in PROCEDURES
}
STEPS = tuple(range(1500, 10501, 1500))


# The primary outcome, named before any of its rows was made, is the mean of "both sides" minus
# "left alone" over these three. Predicted: above zero, decided; most on punctuation, then entities,
# then topic. All else is exploratory; notebook 13 has what was predicted of it.
PRIMARY = ("topic", "entities", "punctuation")

GRIDS = {
    "direction": Grid(
        "what a token may see while pre-training (table 5): one question, several masks",
        (
            *(Variant(name, runs, TUNED) for name, runs in AT_A_BLANK.items()),
            Variant("left alone, every next word", NEXT, TUNED),
            # from other runs of the same recipe, on a CPU
            *(
                Variant(f"{name} + BiLSTM", SAME_QUESTION[name], "fine-tuned + BiLSTM" + MEAN)
                for name in ("both sides", "left alone")
            ),
            *(Variant(name, runs, TUNED) for name, runs in PAIRS.items()),
            # pre-trained once: their intervals take the luck of a run from the rows above
            Variant("ELMo, frozen", ("elmo-L4H128",), READ),
            Variant("both sides, frozen", ("no-nsp-L4H128",), READ),
            Variant("not pre-trained", BOTH, "untrained" + MEAN),
        ),
        (*PRIMARY, "capitals"),
    ),
    "pairs": Grid(
        "sentence pairs while pre-training, or none (the first two rows of table 5)",
        (Variant("BERT", (BERT,), TUNED), Variant("No NSP", ("no-nsp-L4H128",), TUNED)),
        ("description", "topic", "entities"),
        seeds=3,
    ),
    "pairs-cls": Grid(
        "the same, read at [CLS], where the pairs were asked",
        (Variant("BERT", (BERT,)), Variant("No NSP", ("no-nsp-L4H128",))),
        ("description",),
        seeds=3,
    ),
    "size": Grid(
        "layers and width (table 6)",
        tuple(Variant(name, runs) for name, runs in SIZES.items()),
        ("topic", "entities"),
    ),
    "masking": Grid(
        "what becomes of the selected words: MASK/SAME/RND (table 8)",
        tuple(Variant(procedure, runs) for procedure, runs in MASKED.items()),
        ("topic", "entities"),
    ),
    "masking-frozen": Grid(
        "the same, with the pre-trained model frozen (table 8, last column)",
        tuple(Variant(procedure, runs, "features:last") for procedure, runs in MASKED.items()),
        ("entities",),
    ),
    "steps": Grid(
        "the number of pre-training steps (figure 5)",
        tuple(
            Variant(f"{name}, {step} steps", tuple(f"{run}/steps/{step:06d}" for run in runs))
            for name, runs in list(SAME_QUESTION.items())[:2]
            for step in STEPS
        ),
        ("topic", "entities"),
    ),
    "quick": Grid(
        "a minute for a class: does it matter where you start?",
        (Variant("BERT", (BERT,)), Variant("not pre-trained", (BERT,), "untrained")),
        ("topic",),
        seeds=2,
        examples=600,
        few_epochs=True,
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


def run_cell(cell: Cell, folder: Path) -> Row:
    """Make one run and write it down."""
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
    variants: Sequence[str] | None = None,
    say: Callable[[str], None] = print,
) -> None:
    """Run what is missing of a grid.

    ``jobs`` processes share the runs. Of the grid, only ``tasks``, ``variants`` and the first
    ``seeds`` fine-tuning seeds are run, with baselines beside every task.

    Raises CheckpointError, before anything is run, if a checkpoint that is needed is missing or
    unfinished; SourceError if the data of a task cannot be loaded; TaskError if the grid has no
    such task, variant or seeds, or something was run with another recipe: a mean over two recipes
    would be of neither.
    """
    chosen = tuple(name for name in grid.tasks if tasks is None or name in tasks)
    if not chosen:
        raise TaskError(f"none of its tasks is asked for: it has {', '.join(grid.tasks)}")
    if seeds and seeds > grid.seeds:
        raise TaskError(f"the grid has {grid.seeds} seeds: its table would not count more")
    some = tuple(v for v in grid.variants if variants is None or v.name in variants)
    if variants and len(some) < len({*variants}):
        raise TaskError(f"the variants of this grid are {', '.join(v.name for v in grid.variants)}")
    grid = replace(grid, tasks=chosen, variants=some, seeds=seeds or grid.seeds)
    record, missing = RunRecord(folder, NAME), []
    loaded = {name: _task(name) for name in grid.tasks}
    for cell in grid.cells():
        if other := record.other_recipes(loaded[cell.task][0], cell.setup, cell.recipe):
            raise TaskError(
                f"{cell.task}, {cell.setup.model} was run with another recipe (learning rate "
                f"{other[0]['learning_rate']}): use another folder, --results FOLDER"
            )
        if record.find(loaded[cell.task][0], cell.setup, cell.recipe, "score") is None:
            missing.append(cell)
    for name in sorted({cell.setup.model for cell in missing}):
        pretrained_with(name)
    for task, splits in loaded.values():
        record.add_baselines(task, splits, grid.examples)
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
        futures = {pool.submit(run_cell, cell, folder): cell for cell in cells}
        try:
            for future in as_completed(futures):
                yield futures[future], future.result()
        finally:
            pool.shutdown(cancel_futures=True)


def summarize_task(grid: Grid, task: str, folder: Path) -> list[Row]:
    """Return a row for each variant: mean, interval, and difference from the first.

    The intervals hold for other texts and other runs. ``luck`` is the standard deviation of runs of
    one variant, pooled; where it is empty, none was run twice, and intervals are over texts only.
    """
    rows: list[Row] = []
    first, drawn = grid.variants[0].name, _drawn(grid, task, folder)
    spread = common_spread(drawn.values())
    for name, scores in drawn.items():
        row: Row = {"variant": name, "task": task, "train_examples": grid.examples}
        row["runs"] = len(scores.runs)
        row["luck"] = f"{spread.variance**0.5:.4f}" if spread else ""
        row |= in_columns(SCORE, scores.estimate(spread))
        if first in drawn and name != first:
            row |= in_columns(MINUS_REFERENCE, scores.minus(drawn[first], spread))
        rows.append(row)
    return rows


def difference(grid: Grid, task: str, one: str, other: str, folder: Path) -> Estimate:
    """Return how much better variant ``one`` is than ``other``, and the 95 % interval of that.

    Either may be a baseline; both are drawn on the same test examples. The interval holds for other
    texts and other runs of the variants. Raises TaskError if one of them was not run on this task,
    or there is none of that name.
    """
    drawn = _drawn(grid, task, folder)
    sides = [_known(grid, task, name, drawn) for name in (one, other)]
    return sides[0].minus(sides[1], common_spread(drawn.values()))


def mean_difference(
    grid: Grid, one: str, other: str, folder: Path, spread_of: Sequence[str] = ()
) -> Estimate:
    """Return `difference` for the mean over the tasks of a grid.

    A run of pre-training counts as one on all tasks, and so does its luck, which is told from the
    runs of ``spread_of``, if given: variants of the grid.
    """
    tasks = [_drawn(grid, task, folder) for task in grid.tasks]
    names = spread_of or [v.name for v in grid.variants if all(v.name in task for task in tasks)]
    drawn = {
        name: BootstrapScores(np.mean([task[name].runs for task in tasks], axis=0))
        for name in names
    }
    sides = [_known(grid, "all of its tasks", name, drawn) for name in (one, other)]
    return sides[0].minus(sides[1], common_spread(drawn.values()))


def primary_outcome(folder: Path) -> Estimate:
    """Return the mean over `PRIMARY` of both sides - left alone: named before its rows came."""
    both, left, right = AT_A_BLANK
    grid = replace(GRIDS["direction"], tasks=PRIMARY)
    return mean_difference(grid, both, left, folder, (both, left, right))


def same_recipe(grid: Grid, task: str, folder: Path) -> list[Estimate]:
    """Compare one half of the runs of each variant with the other, in every way: an A/A test.

    What is decided here is luck.
    """
    drawn = {n: of for n, of in _drawn(grid, task, folder).items() if of.trained}
    return [
        scores.against_itself(half, (of for n, of in drawn.items() if n != name))
        for name, scores in drawn.items()
        for half in halves(len(scores.runs))
    ]


def _known(grid: Grid, task: str, name: str, drawn: dict[str, BootstrapScores]) -> BootstrapScores:
    from bertedu.finetuning.evaluation.baselines import BASELINES

    known = [*(variant.name for variant in grid.variants), *BASELINES]
    if name not in known:
        raise TaskError(f"no variant {name!r}: choose one of {', '.join(known)}")
    if name not in drawn:
        raise TaskError(f"no runs of {name} on {task}: run `python -m course ablate`")
    return drawn[name]


def _drawn(grid: Grid, task: str, folder: Path) -> dict[str, BootstrapScores]:
    """Draw the texts of a task anew for all variants of a grid."""
    path = folder / NAME / f"{task}.csv"
    changed = path.stat().st_mtime_ns if path.exists() else 0
    return _all_drawn(grid, task, folder, changed)


@lru_cache(maxsize=32)
def _all_drawn(grid: Grid, task: str, folder: Path, _: int) -> dict[str, BootstrapScores]:
    """Do it once, as long as the file of outcomes is the same."""
    # another grid may have the same cell, and more seeds: those are not this grid's
    names = {
        (cell.setup.model, cell.setup.method, str(cell.recipe.seed)): cell.variant
        for cell in replace(grid, tasks=(task,)).cells()
    }

    def system_of(row: Row) -> System | None:
        if row["train_examples"] != str(grid.examples):
            return None
        key = (row["model"], row["method"], row["seed"])
        name = row["model"] if row["method"] == "baseline" else names.get(key)
        return (name, "", "") if name else None

    drawn = draw_systems(RunRecord(folder, NAME), task, system_of)
    return {name: scores for (name, *_), scores in drawn.items()}


def write_summary(folder: Path) -> list[Row]:
    """Summarize the tasks on which two variants of a grid were run: `ablations_summary.csv`."""
    rows: list[Row] = []
    there = {row["task"] for row in RunRecord(folder, NAME).rows()}
    for name, grid in GRIDS.items():
        for task in grid.tasks:
            drawn = _drawn(grid, task, folder) if task in there else {}
            if sum(variant.name in drawn for variant in grid.variants) > 1:
                rows += [{"grid": name, **row} for row in summarize_task(grid, task, folder)]
    write_csv(folder / f"{NAME}_summary.csv", rows)
    return rows
