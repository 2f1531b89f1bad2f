"""The fine-tuned models that the course ships: our own reader of questions, five adapters.

``python -m course.experiments.tuned`` runs what `data/results/tuned.csv` lacks; with names, that of
those. The reader is `bert-L4H128`, all of it trained on all questions of "answer": a folder that
``bertedu predict data/checkpoints/reader QUESTION TEXT`` opens. An adapter is what LoRA learned
beside MiniLM (Hu et al. 2021), with the new layer: half a megabyte at most. One rule for all five:
until dev stops rising; rank and rate are those that dev preferred; three seeds. All weights of
MiniLM are tried beside each by the same rule, on dev alone.
"""

import json
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
import typer

from bertedu.files import Row, shipped
from bertedu.finetuning.examples import Splits, Task
from bertedu.finetuning.finetune import Run, Setup, load_encoder, make_kind
from bertedu.finetuning.kinds import MAX_LENGTH
from bertedu.finetuning.own_model import UNTIL_DEV_STOPS
from bertedu.finetuning.saving import FineTuned, load_finetuned, save_finetuned
from bertedu.finetuning.training import Hyperparameters, TaskModel, finetune, score_items
from bertedu.machine import device_named
from bertedu.model.checkpoints import CheckpointError, load_tensors, save_tensors
from bertedu.model.variants.lora import add_lora, lora_state, merge_lora
from course.experiments.shortcuts import passage_only_f1
from course.experiments.tasks import TASKS, describe_task, load_task
from course.results.record import RunRecord

NAME = "tuned"  # of the record
READER = "reader"
RECIPE = replace(UNTIL_DEV_STOPS, batch_size=64, min_steps=0)  # an epoch is a round: all are long


@dataclass(frozen=True)
class Plan:
    """What is tried on dev, each setup with each rate, and how often the best of it is scored."""

    task: str
    setups: tuple[Setup, ...]
    rates: tuple[float, ...]
    recipe: Hyperparameters = RECIPE
    seeds: int = 3

    def trials(self) -> list[tuple[Setup, Hyperparameters]]:
        """Return each setup with each rate."""
        setups = [replace(setup, train_examples=_SOME.get(self.task)) for setup in self.setups]
        rates = [replace(self.recipe, learning_rate=rate) for rate in self.rates]
        return [*product(setups, rates)]


_SOME = {"next": 2000}  # four sentences in each: as many texts as the other tasks have
# Predicted before any was trained so, for each of the five: all weights are ahead of the adapter by
# so much. (For "answer" and "entities", whose grids came first: F1 above 85 and above 80; between
# the ranks at most a point on dev.)
PREDICTED_GAP = 0.01, 0.07
_TO_READ = Hyperparameters(epochs=9, patience=9)
_ALL, _LORA = (Setup("minilm"),), (Setup("minilm", lora=8), Setup("minilm", lora=16))
ADAPTERS = ("topic", "description", "next", "answer", "entities")
PLANS = {READER: Plan("answer", (Setup("bert-L4H128"),), (5e-4,), _TO_READ, seeds=1)}
PLANS |= {name: Plan(name, _LORA, (1e-3, 3e-3)) for name in ADAPTERS}
PLANS |= {f"all weights of {name}": Plan(name, _ALL, (1e-4, 3e-4), seeds=0) for name in ADAPTERS}


def train_model(task: Task, splits: Splits, setup: Setup, recipe: Hyperparameters) -> Run:
    """Fine-tune, round to the 16 bits in which it is kept, and answer the test split.

    Products are in bfloat16 while it trains: a third of the time. What is scored is what is kept.
    """
    encoder, tokenizer = load_encoder(setup.model, seed=recipe.seed)
    torch.manual_seed(recipe.seed)  # of the new layers
    if setup.lora is not None:
        add_lora(encoder, setup.lora)
    splits = splits | {"train": splits["train"][: setup.train_examples]}
    kind, device = make_kind(task, splits), device_named(setup.device)
    model = TaskModel(encoder, kind).to(device)
    items = {split: kind.encode(some, tokenizer, MAX_LENGTH) for split, some in splits.items()}
    # without the cache: it would hold weights of the step before
    with torch.autocast(device.type, torch.bfloat16, cache_enabled=False):
        history = finetune(model, items["train"], splits["dev"], items["dev"], task.metric, recipe)
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
    name: str, setup: Setup, recipe: Hyperparameters, record: RunRecord, purpose: str
) -> tuple[Task, Run, Row]:
    """Train one model of a plan and write its row: "score" with its test, "grid" with dev alone."""
    task, splits = load_task(PLANS[name].task)
    run = train_model(task, splits, setup, recipe)
    if purpose == "grid":
        run.answers.clear()
    weights = [*run.model.parameters()]
    more: Row = {"name": name, "bfloat16": True}
    more |= {"moved": sum(w.numel() for w in weights if w.requires_grad)}
    more |= {"weights": sum(w.numel() for w in weights), "chance": round(chance(task, splits), 5)}
    return task, run, record.add(task, splits, setup, recipe, run, purpose, more)


def keep(name: str, run: Run, task: Task, row: Row, checkpoints: Path) -> None:
    """Write a model in 16 bits, with its row: an adapter, or a whole folder."""
    model = run.model.cpu()
    if thin := lora_state(model):
        state = thin | {f"head.{n}": tensor for n, tensor in model.head.state_dict().items()}
        half = {n: tensor.half() for n, tensor in state.items()}
        about = {"format": "pt", "bertedu": json.dumps(row)}
        save_tensors(half, checkpoints / "adapters" / f"{name}.safetensors", about)
        return
    save_finetuned(FineTuned.of(model, run.tokenizer, task), checkpoints / name, row)
    path = checkpoints / name / "model.safetensors"
    tensors, metadata = load_tensors(path)
    save_tensors({n: tensor.half() for n, tensor in tensors.items()}, path, metadata)


def preferred(name: str, results: Path) -> tuple[Setup, Hyperparameters]:
    """Return what dev prefers of a plan, after the trials that the record lacks."""
    record, plan = RunRecord(results, NAME), PLANS[name]

    def on_dev(trial: tuple[Setup, Hyperparameters]) -> float:
        row = record.find(TASKS[plan.task], *trial, "grid")
        return float((row or run_one(name, *trial, record, "grid")[-1])["dev"])

    trials = plan.trials()
    return max(trials, key=on_dev) if len(trials) > 1 else trials[0]


def run_seed(name: str, seed: int, results: Path, checkpoints: Path) -> Row:
    """Train what dev preferred of a plan with one seed; run what the record lacks of it.

    Seed 0 is kept below ``checkpoints``.
    """
    record = RunRecord(results, NAME)
    setup, recipe = preferred(name, results)
    recipe = replace(recipe, seed=seed)
    if row := record.find(TASKS[PLANS[name].task], setup, recipe, "score"):
        return row
    task, run, row = run_one(name, setup, recipe, record, "score")
    if seed == 0:
        keep(name, run, task, row, checkpoints)
    return row


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
        preferred(name, results)
        for seed in range(PLANS[name].seeds):
            row = run_seed(name, seed, results, checkpoints)
            print(f"{name}, seed {seed}: dev {row['metric']} {row['dev']}, test {row['test']}")


if __name__ == "__main__":
    typer.run(main)
