"""How long a step takes here, and so how many fit into some minutes."""

import dataclasses
import time

import torch

from bertedu.pretraining.batches import Text
from bertedu.pretraining.evaluation import PreTrainingModel
from bertedu.pretraining.loop import make_optimizer, stream_of
from bertedu.pretraining.objective import pretraining_loss
from bertedu.pretraining.recipe import Recipe
from bertedu.pretraining.state import State


def step_seconds(
    model: PreTrainingModel, documents: Text, recipe: Recipe, bfloat16: bool, tries: int = 8
) -> float:
    """Return how long a step of a recipe takes: each phase's median of some, by its share."""
    device = next(model.parameters()).device
    optimizer = make_optimizer(model, recipe.weight_decay)  # at learning rate 0: nothing moves
    mean = 0.0
    for phase in recipe.phases:
        alone = dataclasses.replace(recipe, phases=(phase,))
        stream = stream_of(documents, model.config, alone, State())
        times = []
        for _ in range(tries):
            batch = next(stream)[0].to(device)
            began = time.perf_counter()
            with torch.autocast(device.type, torch.bfloat16, enabled=bfloat16):
                loss, _ = pretraining_loss(model, batch)
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            loss.item()  # wait for a GPU
            times.append(time.perf_counter() - began)
        mean += phase.share * sorted(times)[len(times) // 2]
    return mean
