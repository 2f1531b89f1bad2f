"""Many runs of a task: the grid search of the paper, and every seed, all written down."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product

from bertedu.finetuning.examples import Splits, Task
from bertedu.finetuning.finetune import Run, Setup, run_once
from bertedu.finetuning.training import Hyperparameters
from course.results.record import RunRecord

BATCH_SIZES = (16, 32)
EPOCHS = (2, 3, 4)


def search(
    task: Task,
    splits: Splits,
    setup: Setup,
    recipe: Hyperparameters,
    record: RunRecord,
    full: bool,
    say: Callable[[str], None] = print,
) -> Hyperparameters:
    """Search the grid on dev, and return the best recipe (paper, appendix A.3).

    ``full``: batch size × learning rate × epochs; otherwise learning rates only. The test split
    is not scored. What ``record`` has already is not run again.
    """
    sizes = BATCH_SIZES if full else (recipe.batch_size,)
    lengths = EPOCHS if full else (recipe.epochs,)
    tried: dict[Hyperparameters, float] = {}
    for size, epochs, rate in product(sizes, lengths, setup.rates):
        # every run of the grid goes to its end: how long is one of the questions
        patience = epochs if full else recipe.patience
        one = replace(recipe, batch_size=size, epochs=epochs, learning_rate=rate, patience=patience)
        row = record.find(task, setup, one, "grid")
        if row is None:
            run = run_once(task, splits, setup, one, score=())
            row = record.add(task, splits, setup, one, run, "grid")
        tried[one] = float(row["dev"])
        say(f"  batch {size}, rate {rate:g}, {epochs} epochs: dev {tried[one]:.4f}")
    return replace(max(tried, key=tried.__getitem__), patience=recipe.patience)


def run_task(
    task: Task,
    splits: Splits,
    setup: Setup,
    recipe: Hyperparameters,
    seeds: Sequence[int],
    record: RunRecord,
    grid: str = "none",
    again: bool = False,
    say: Callable[[str], None] = print,
    need_models: bool = False,
) -> list[Run]:
    """Search a recipe if asked, fine-tune with each seed, and write down every run.

    The baselines are run first, so that no score stands alone. Without seeds only the grid is
    searched. Returns the runs that were made now: what ``record`` has already is not run again,
    except with ``again``, which also drops what was run with another recipe, or where the models
    themselves are needed.
    """
    for baseline in record.add_baselines(task, splits, setup.train_examples):
        score = float(baseline["test"])
        say(f"{task.name}, {baseline['model']}: test {task.metric} {score:.4f}")
    who = f"{task.name}, {setup.model}, {setup.method}"
    if grid != "none":
        say(f"{who}: searching the grid on dev")
        recipe = search(task, splits, setup, recipe, record, grid == "full", say)
    if len(seeds):
        record.forget_other_recipes(task, setup, recipe, again)
    runs: list[Run] = []
    for seed in seeds:
        one = replace(recipe, seed=seed)
        row = None if again else record.find(task, setup, one, "score")
        if row is None or need_models:
            runs.append(run_once(task, splits, setup, one))
        if row is None:  # a recorded one stays
            row = record.add(task, splits, setup, one, runs[-1], "score")
        scores = f"dev {float(row['dev']):.4f}, test {task.metric} {float(row['test']):.4f}"
        say(f"{who}, seed {seed}: {scores}")
    return runs
