"""The fine-tuned models that the course ships: our own reader of questions, three adapters.

``python -m course.experiments.tuned`` trains those that `data/results/tuned.csv` lacks; with names,
those. The reader is `bert-L4H128`, all of it trained to its end on all questions of "answer": a
folder that ``bertedu predict data/checkpoints/reader QUESTION TEXT`` opens. An adapter is what LoRA
learned beside MiniLM (Hu et al. 2021), with the new layer: half a megabyte at most.
"""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
import typer

from bertedu.files import Row, write_csv
from bertedu.finetuning.collation import MAX_LENGTH
from bertedu.finetuning.examples import Splits, Task
from bertedu.finetuning.finetune import Run, Setup, load_encoder, make_kind
from bertedu.finetuning.saving import FineTuned, load_finetuned, save_finetuned
from bertedu.finetuning.training import Hyperparameters, TaskModel, finetune, score_items
from bertedu.model.checkpoints import CheckpointError, load_tensors, save_tensors
from bertedu.model.variants.lora import add_lora, lora_state, merge_lora
from bertedu.text.sources import shipped
from course.experiments.shortcuts import passage_only_f1
from course.experiments.tasks import TASKS, describe_task, load_task
from course.results.record import RunRecord
from course.results.summary import draw_systems

NAME = "tuned"  # of the record
READER = "reader"
RANK = 8


@dataclass(frozen=True)
class Plan:
    """How one of the models is trained."""

    task: str
    recipe: Hyperparameters
    model: str = "minilm"
    rank: int | None = RANK  # none: every weight learns
    examples: int | None = None  # none: all

    @property
    def method(self) -> str:
        """How the record calls it."""
        return "fine-tuned" if self.rank is None else f"LoRA, rank {self.rank}"


# As many examples and epochs as all of MiniLM's weights had
_LORA = Hyperparameters(learning_rate=1e-3, epochs=2)
PLANS = {
    READER: Plan("answer", Hyperparameters(5e-4, epochs=9, patience=9), "bert-L4H128", None),
    "topic": Plan("topic", _LORA),
    "description": Plan("description", _LORA),
    "next": Plan("next", replace(_LORA, batch_size=16), examples=1000),
}


def train_model(plan: Plan, task: Task, splits: Splits) -> Run:
    """Fine-tune, round to the 16 bits in which it is kept, and answer the test split.

    Products are computed in bfloat16 while it trains, which takes a third of the time; what is
    scored is what is kept.
    """
    encoder, tokenizer = load_encoder(plan.model, seed=plan.recipe.seed)
    torch.manual_seed(plan.recipe.seed)  # of the new layers
    if plan.rank is not None:
        add_lora(encoder, plan.rank)
    kind = make_kind(task, splits)
    model = TaskModel(encoder, kind)
    items = {split: kind.encode(some, tokenizer, MAX_LENGTH) for split, some in splits.items()}
    # without the cache: it would hold weights of the step before
    with torch.autocast("cpu", torch.bfloat16, cache_enabled=False):
        history = finetune(
            *(model, items["train"], splits["dev"], items["dev"]), task.metric, plan.recipe
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


def make(name: str, results: Path, checkpoints: Path) -> Row:
    """Train one of `PLANS`, write it and its row, and return the row."""
    plan = PLANS[name]
    task, splits = load_task(plan.task)
    splits = splits | {"train": splits["train"][: plan.examples]}
    run, record = train_model(plan, task, splits), RunRecord(results, NAME)
    setup = Setup(plan.model, train_examples=plan.examples)
    weights = [*run.model.parameters()]
    more: Row = {"name": name, "method": plan.method, "bfloat16": True}
    more |= {"moved": sum(w.numel() for w in weights if w.requires_grad)}
    more |= {"weights": sum(w.numel() for w in weights), "chance": round(chance(task, splits), 5)}
    others = [row for row in record.rows() if row["name"] != name]  # also of another recipe
    write_csv(record.table, others)
    record.add(task, splits, setup, plan.recipe, run, "score", more)
    system = plan.model, plan.method, str(plan.examples or "all")
    low, high = draw_systems(record, task.name)[system].interval
    more |= {"low": round(low, 5), "high": round(high, 5)}
    row = record.add(task, splits, setup, plan.recipe, run, "score", more)
    if plan.rank is None:
        save_finetuned(run.model, run.tokenizer, task, checkpoints / name, row)
        path = checkpoints / name / "model.safetensors"
        tensors, metadata = load_tensors(path)
        save_tensors({n: tensor.half() for n, tensor in tensors.items()}, path, metadata)
    else:
        state = lora_state(run.model) | {
            f"head.{n}": tensor for n, tensor in run.model.head.state_dict().items()
        }
        half = {n: tensor.half() for n, tensor in state.items()}
        about = {"format": "pt", "bertedu": json.dumps(row)}
        save_tensors(half, checkpoints / "adapters" / f"{name}.safetensors", about)
    return row


def load_tuned(name: str) -> FineTuned:
    """Return a shipped model by its name in `PLANS`, ready to be asked.

    An adapter is added to MiniLM's weights, which are fetched first if they must be. Raises
    CheckpointError or SourceError if a file is missing or cannot be fetched.
    """
    if name == READER:
        return load_finetuned(shipped("checkpoints") / READER)
    plan = PLANS[name]
    task = TASKS[plan.task]
    state, _ = load_tensors(shipped("checkpoints") / "adapters" / f"{name}.safetensors")
    encoder, tokenizer = load_encoder(plan.model)
    add_lora(encoder, RANK)
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
    """Train the models that the record lacks, or those named; half an hour on one core in all."""
    known = {row["name"] for row in RunRecord(results, NAME).rows()}
    torch.set_num_threads(1)
    for name in names or [name for name in PLANS if name not in known]:
        row = make(name, results, checkpoints)
        print(f"{name}: test {row['metric']} {row['test']} ({row['low']} to {row['high']})")


if __name__ == "__main__":
    typer.run(main)
