"""Which recipe learns most? The default, and one change at a time, at equal tokens.

    python -m benchmarks.recipes

Small runs (2 layers, 128 numbers a token) on the default corpora, scored on held-out documents.
A run that is already in data/results/recipes.csv is not made again.
"""

import csv
import dataclasses
from pathlib import Path
from typing import Annotated, Any

import torch
import typer

from bertedu.files import write_csv
from bertedu.model.bert import BertForPreTraining
from bertedu.model.config import BertConfig
from bertedu.model.device import default_device
from bertedu.pretraining.batches import fixed_batches, load_splits
from bertedu.pretraining.evaluation import evaluate
from bertedu.pretraining.recipe import Phase, Recipe
from bertedu.pretraining.trainer import Trainer, initialize
from course.results.origin import origin

OUT = Path("data/results/recipes.csv")

Change = dict[str, Any]
# name -> changes to the recipe, to the config, and which head starts are left out
RECIPES: dict[str, tuple[Change, Change, tuple[str, ...]]] = {
    "default": ({}, {}, ()),
    "15 % selected": ({"phases": (Phase(1.0, 64, 32, 0.15),)}, {}, ()),
    "50 % selected": ({"phases": (Phase(1.0, 64, 32, 0.50),)}, {}, ()),
    "length 128": ({"phases": (Phase(1.0, 128, 16, 0.30),)}, {}, ()),
    "length 32": ({"phases": (Phase(1.0, 32, 64, 0.30),)}, {}, ()),
    "positions drawn at random": ({}, {}, ("positions",)),
    "output bias zero": ({}, {}, ("bias",)),
    "pre-norm": ({}, {"norm": "pre"}, ()),
    "dropout 0.1": ({}, {"dropout": 0.1}, ()),
    "learning rate 5e-4": ({"learning_rate": 5e-4}, {}, ()),
    "learning rate 2e-3": ({"learning_rate": 2e-3}, {}, ()),
}


def main(
    steps: Annotated[int, typer.Option(help="Steps of about 2,000 tokens each.")] = 2000,
    seed: Annotated[int, typer.Option(help="Source of all chance.")] = 0,
    out: Annotated[Path, typer.Option(help="CSV file to extend.")] = OUT,
    threads: Annotated[int | None, typer.Option(help="CPU threads.")] = None,
) -> None:
    """Train every recipe that is not in the table yet."""
    if threads:
        torch.set_num_threads(threads)
    rows: list[dict[str, object]] = []
    if out.exists():
        with out.open(encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
    splits, device = load_splits(say=typer.echo), default_device()
    for name, (recipe_change, config_change, left_out) in RECIPES.items():
        if any((r["recipe"], r["steps"], r["seed"]) == (name, str(steps), str(seed)) for r in rows):
            continue
        typer.echo(name)
        # one phase, so that only the change differs
        recipe = Recipe(steps, seed=seed, phases=(Phase(1.0, 64, 32, 0.30),))
        recipe = dataclasses.replace(recipe, **recipe_change)
        changes: Change = {"dropout": 0.0} | config_change
        config = dataclasses.replace(BertConfig.preset("tiny", 8192), **changes)
        torch.manual_seed(seed)
        model = BertForPreTraining(config).to(device)
        positions = model.bert.embeddings.position.weight.detach().clone()
        initialize(model, splits["train"])
        with torch.no_grad():
            if "positions" in left_out:
                model.bert.embeddings.position.weight.copy_(positions)
            if "bias" in left_out:
                model.mlm.decoder.bias.zero_()
        state = Trainer(model, recipe).train(splits["train"])
        # held out at the length that this recipe was trained at: positions beyond are unlearned
        held_out = fixed_batches(splits["dev"], recipe.phases[0].length, 32, config.vocab_size)
        scores = evaluate(model, held_out)
        rows.append(
            {
                "recipe": name,
                "seed": str(seed),
                "steps": str(steps),
                "tokens": state.tokens,
                "dev_mlm_loss": round(scores.mlm_loss, 4),
                "dev_mlm_accuracy": round(scores.mlm_accuracy, 4),
                "dev_nsp_accuracy": round(scores.nsp_accuracy, 4),
                "seconds": round(state.seconds, 1),
            }
            | origin(device)
        )
        write_csv(out, rows)


if __name__ == "__main__":
    typer.run(main)
