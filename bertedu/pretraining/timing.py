"""How long a step takes here: how many fit into some minutes, and how many threads pay."""

import dataclasses
import os
import time

import torch

from bertedu.pretraining.batches import Text
from bertedu.pretraining.evaluation import PreTrainingModel
from bertedu.pretraining.loop import make_optimizer, stream_of
from bertedu.pretraining.objective import pretraining_loss
from bertedu.pretraining.recipe import Recipe
from bertedu.pretraining.state import State
from bertedu.pretraining.texts import Say


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


def use_threads_that_pay(
    model: PreTrainingModel, documents: Text, recipe: Recipe, bfloat16: bool, say: Say
) -> None:
    """Compute on one CPU thread, or on all cores if that makes a step a tenth shorter; say which.

    A few steps of the first phase are timed on each. On a machine that is busy now, or that is
    shared, one thread is the answer, and the right one: threads that wait for a core cost more
    than they bring.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    recipe = dataclasses.replace(recipe, phases=(dataclasses.replace(recipe.phases[0], share=1.0),))
    seconds = {}
    for threads in (1, cores or 1):
        torch.set_num_threads(threads)
        seconds[threads] = step_seconds(model, documents, recipe, bfloat16, tries=5)
    best = threads if seconds[threads] < 0.9 * seconds[1] else 1
    torch.set_num_threads(best)
    times = ", ".join(f"{count}: {1000 * each:.0f} ms" for count, each in seconds.items())
    say(f"CPU threads: {best} (a step takes, by threads, {times}); --threads N sets another number")
