"""`python -m benchmarks.recipes`: which recipe learns most, of small runs on both corpora?"""

import dataclasses
from pathlib import Path
from typing import Annotated, Any

import torch
import typer

from bertedu.files import read_csv, write_csv
from bertedu.machine import default_device
from bertedu.model.bert import BertForPreTraining
from bertedu.model.config import BertConfig
from bertedu.pretraining.batches import Phase, Recipe, fixed_batches, load_splits
from bertedu.pretraining.objective import evaluate
from bertedu.pretraining.trainer import Trainer, initialize
from course.results.origin import origin

OUT, SEED = Path("data/results/recipes.csv"), 0

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
    threads: Annotated[int | None, typer.Option(help="CPU threads.")] = None,
) -> None:
    """Train every recipe that is not in the table yet."""
    if threads:
        torch.set_num_threads(threads)
    rows = read_csv(OUT)
    splits, device = load_splits(say=typer.echo), default_device()
    for name, (recipe_change, config_change, left_out) in RECIPES.items():
        if any((row["recipe"], row["steps"]) == (name, str(steps)) for row in rows):
            continue
        typer.echo(name)
        # one phase, so that only the change differs
        defaults: Change = {"phases": (Phase(1.0, 64, 32, 0.30),)}
        recipe = Recipe(steps, seed=SEED, **defaults | recipe_change)
        config = dataclasses.replace(BertConfig.preset("tiny", 8192), dropout=0.0)
        config = dataclasses.replace(config, **config_change)
        torch.manual_seed(SEED)
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
        row = {"recipe": name, "seed": SEED, "steps": str(steps), "tokens": state.tokens}
        for score in ("mlm_loss", "mlm_accuracy", "nsp_accuracy"):
            row[f"dev_{score}"] = round(getattr(scores, score), 4)
        rows.append(row | {"seconds": round(state.seconds, 1)} | origin(device))
        write_csv(OUT, rows)


if __name__ == "__main__":
    typer.run(main)
