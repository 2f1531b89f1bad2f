"""The fine-tuned models that the course ships: our own reader of questions, five adapters.

``python -m course.experiments.tuned`` runs what `data/results/tuned.csv` lacks; with names, that of
those. The reader is `bert-L4H128`, all of it trained on all questions of "answer": a folder that
``bertedu predict data/checkpoints/reader QUESTION TEXT`` opens. An adapter is what LoRA learned
beside MiniLM (Hu et al. 2021), with the new layer: half a megabyte at most. Beside each adapter the
record has MiniLM with all its weights trained by the same rule: until dev stops rising, at the rate
that dev prefers.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
import typer

from bertedu.files import Row
from bertedu.finetuning.collation import MAX_LENGTH
from bertedu.finetuning.examples import Splits, Task
from bertedu.finetuning.finetune import Run, Setup, load_encoder, make_kind
from bertedu.finetuning.saving import FineTuned, load_finetuned, save_finetuned
from bertedu.finetuning.training import Hyperparameters, TaskModel, finetune, score_items
from bertedu.machine import device_named
from bertedu.model.checkpoints import CheckpointError, load_tensors, save_tensors
from bertedu.model.variants.lora import add_lora, lora_state, merge_lora
from bertedu.text.sources import shipped
from course.experiments.shortcuts import passage_only_f1
from course.experiments.tasks import TASKS, describe_task, load_task
from course.results.record import RunRecord

NAME = "tuned"  # of the record
READER = "reader"
SEEDS = range(3)  # of what dev prefers; the first ships
UNTIL_DEV_STOPS = Hyperparameters(batch_size=64, epochs=40, patience=4)


@dataclass(frozen=True)
class Plan:
    """What is tried, seed 0 each; dev chooses, and the other seeds follow."""

    task: str
    setups: tuple[Setup, ...]
    rates: tuple[float, ...]
    recipe: Hyperparameters = UNTIL_DEV_STOPS
    seeds: range = SEEDS

    def trials(self) -> Iterator[tuple[Setup, Hyperparameters]]:
        """Yield each setup with each rate."""
        for setup in self.setups:
            for rate in self.rates:
                yield setup, replace(self.recipe, learning_rate=rate)


def _adapter(task: str, *ranks: int) -> Plan:
    return Plan(task, tuple(Setup("minilm", lora=rank) for rank in ranks), (1e-3, 3e-3))


_OWN = Setup("bert-L4H128")
PLANS = {
    READER: Plan("answer", (_OWN,), (5e-4,), Hyperparameters(epochs=9, patience=9), range(1)),
    "topic": _adapter("topic", 8),
    "description": _adapter("description", 8),
    "next": _adapter("next", 8),
    # Predicted of these two: F1 above 85 and above 80; LoRA at most three points behind all weights
    # on each of the five tasks, by this rule; no more than a point between the ranks on dev.
    "answer": _adapter("answer", 8, 16),
    "entities": _adapter("entities", 8, 16),
}
ADAPTERS = tuple(name for name in PLANS if name != READER)
WHOLE = "all weights of "
PLANS |= {WHOLE + name: Plan(name, (Setup("minilm"),), (1e-4, 3e-4)) for name in ADAPTERS}


def train_model(task: Task, splits: Splits, setup: Setup, recipe: Hyperparameters) -> Run:
    """Fine-tune, round to the 16 bits in which it is kept, and answer the test split.

    Products are computed in bfloat16 while it trains, which takes a third of the time; what is
    scored is what is kept.
    """
    encoder, tokenizer = load_encoder(setup.model, seed=recipe.seed)
    torch.manual_seed(recipe.seed)  # of the new layers
    if setup.lora is not None:
        add_lora(encoder, setup.lora)
    kind, device = make_kind(task, splits), device_named(setup.device)
    model = TaskModel(encoder, kind).to(device)
    items = {split: kind.encode(some, tokenizer, MAX_LENGTH) for split, some in splits.items()}
    # without the cache: it would hold weights of the step before
    with torch.autocast(device.type, torch.bfloat16, cache_enabled=False):
        history = finetune(
            *(model, items["train"], splits["dev"], items["dev"]), task.metric, recipe
        )
    with torch.no_grad():
        for weight in model.parameters():
            if weight.requires_grad:
                weight.copy_(weight.half())
    answers = kind.answers(splits["test"], items["test"], score_items(model, items["test"]))
    return Run(model, tokenizer, history, {"test": answers})


def chance(task: Task, splits: Splits) -> float:
    """Return what needs no reading: the most frequent class, an even guess, a random title."""
    if task.kind == "span":
        return float(np.mean(passage_only_f1(splits["test"])))
    about = describe_task(task, splits)
    return float(np.max([about.get("majority", 0.0), about.get("chance", 0.0)]))


def run_one(
    name: str,
    setup: Setup,
    recipe: Hyperparameters,
    results: Path,
    checkpoints: Path | None = None,
    purpose: str = "score",
) -> Row:
    """Train one model of a plan and write its row; keep the model, too, if there is where.

    The ``purpose`` "grid" is for dev only: the test split is not written down.
    """
    task, splits = load_task(PLANS[name].task)
    run = train_model(task, splits, setup, recipe)
    if purpose == "grid":
        run.answers.clear()
    weights = [*run.model.parameters()]
    more: Row = {"name": name, "bfloat16": True}
    more |= {"moved": sum(w.numel() for w in weights if w.requires_grad)}
    more |= {"weights": sum(w.numel() for w in weights), "chance": round(chance(task, splits), 5)}
    row = RunRecord(results, NAME).add(task, splits, setup, recipe, run, purpose, more)
    if checkpoints is not None:
        keep(name, run, task, row, checkpoints)
    return row


def keep(name: str, run: Run, task: Task, row: Row, checkpoints: Path) -> None:
    """Write a model in 16 bits, with its row: an adapter, or a whole folder."""
    model = run.model.cpu()
    if thin := lora_state(model):
        state = thin | {f"head.{n}": tensor for n, tensor in model.head.state_dict().items()}
        half = {n: tensor.half() for n, tensor in state.items()}
        about = {"format": "pt", "bertedu": json.dumps(row)}
        save_tensors(half, checkpoints / "adapters" / f"{name}.safetensors", about)
        return
    save_finetuned(model, run.tokenizer, task, checkpoints / name, row)
    path = checkpoints / name / "model.safetensors"
    tensors, metadata = load_tensors(path)
    save_tensors({n: tensor.half() for n, tensor in tensors.items()}, path, metadata)


def run_plan(name: str, results: Path, checkpoints: Path) -> list[Row]:
    """Run what the record lacks of a plan: each trial on dev, then the seeds of the best.

    Seed 0 of an adapter, and of the reader, is kept. Returns the rows of the seeds.
    """
    plan, record = PLANS[name], RunRecord(results, NAME)
    task = TASKS[plan.task]
    trials = [*plan.trials()]
    tried = [0.0] * len(trials)
    for i, (setup, recipe) in enumerate(trials if len(trials) > 1 else []):
        row = record.find(task, setup, recipe, "grid")
        row = row or run_one(name, setup, recipe, results, purpose="grid")
        tried[i] = float(row["dev"])
    setup, best = trials[int(np.argmax(tried))]
    rows = []
    for seed in plan.seeds:
        recipe = replace(best, seed=seed)
        kept = None if seed or name.startswith(WHOLE) else checkpoints
        row = record.find(task, setup, recipe, "score")
        rows.append(row or run_one(name, setup, recipe, results, kept))
    return rows


def load_tuned(name: str) -> FineTuned:
    """Return a shipped model, an adapter of `ADAPTERS` or the reader, ready to be asked.

    An adapter is added to MiniLM's weights, which are fetched first if they must be. Raises
    CheckpointError or SourceError if a file is missing or cannot be fetched.
    """
    if name == READER:
        return load_finetuned(shipped("checkpoints") / READER)
    plan = PLANS[name]
    task = TASKS[plan.task]
    state, _ = load_tensors(shipped("checkpoints") / "adapters" / f"{name}.safetensors")
    encoder, tokenizer = load_encoder(plan.setups[0].model)
    add_lora(encoder, next(len(a) for n, a in state.items() if n.endswith("lora_a")))
    model = TaskModel(encoder, make_kind(task, {"train": []}))
    floats = {n: tensor.float() for n, tensor in state.items()}
    if strange := model.load_state_dict(floats, strict=False).unexpected_keys:
        raise CheckpointError(f"the adapter {name} has {strange[0]}, which has no place in MiniLM")
    merge_lora(model)
    model.eval()
    return FineTuned(model, tokenizer, task.name, task.kind, task.labels, pairs=task.pairs)


def main(
    names: Annotated[list[str] | None, typer.Argument(help="Of the models; none: all.")] = None,
    results: Annotated[Path, typer.Option(help="Folder of results.")] = Path("data/results"),
    checkpoints: Annotated[Path, typer.Option(help="Folder of models.")] = Path("data/checkpoints"),
) -> None:
    """Run what the record lacks of the models, or of those named. Many hours without a GPU."""
    for name in names or PLANS:
        for row in run_plan(name, results, checkpoints):
            print(f"{name}, seed {row['seed']}: test {row['metric']} {row['test']}")


if __name__ == "__main__":
    typer.run(main)
