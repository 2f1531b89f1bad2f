"""Does a fine-tuned model beat counted words on a table of the size that people have?

``python -m course few-rows`` draws 150 rows of each class of four sets, as often as there are
seeds, and gives them to `bertedu.finetuning.own_model.fit`: what ``bertedu finetune --csv`` does.
MiniLM learns by LoRA, `bert-mini` with all its weights. Runs that `data/results/few_rows.csv` has
are not made again; `few_rows_summary.csv` has the means.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bertedu.files import Row
from bertedu.finetuning.examples import Splits, Tagged, Task
from bertedu.finetuning.finetune import Setup
from bertedu.finetuning.own_data import OwnData
from bertedu.finetuning.own_model import UNTIL_DEV_STOPS, fit
from bertedu.machine import device_named
from course.experiments.tasks import load_task
from course.results.bootstrap import verdict_of
from course.results.record import RunRecord
from course.results.summary import draw_systems

NAME = "few_rows"  # of the record
SETS = {  # the task, and whether people gave the labels or a rule derived them
    "topic": "derived: the heading of a sentence's article",
    "questions": "published: TREC's six kinds of question",
    "sentiment": "published: lines of film reviews",
    "entities": "derived: the titles of articles, marked in sentences",
}
EACH = 150  # rows of a class
SIZE = f"{EACH} a class"
SEEDS = range(5)
COUNTED = Setup("word counts")
# Predicted of MiniLM minus word counts: supported on all four sets. Of bert-mini: supported on
# entities, undecided on topic and questions, contradicted on sentiment.
WAYS = (Setup("minilm", lora=8), Setup("bert-mini"))


def _class_of(example: Any) -> Any:
    """Return the class of an example; of a tagged sentence, the type of its first entity."""
    if isinstance(example, Tagged):
        return next(tag[2:] for tag in example.tags if tag != "O")
    return int(example.label)


def few_of(splits: Splits, each: int, seed: int) -> Splits:
    """Draw up to ``each`` training rows of every class, and a third as many for dev; all of test.

    Which rows they are depends on the seed, so that this luck, too, is in an interval over runs.
    """
    dice = np.random.default_rng(seed)

    def drawn(split: str, most: int) -> Iterator[Any]:
        left: dict[Any, int] = {}
        for i in dice.permutation(len(splits[split])):
            example = splits[split][i]
            left[name] = left.get(name := _class_of(example), most) - 1
            if left[name] >= 0:
                yield example

    train, dev = [*drawn("train", each)], [*drawn("dev", each // 3)]
    return {"train": train, "dev": dev, "test": splits["test"]}


def run_set(task: Task, splits: Splits, setup: Setup, seed: int, record: RunRecord) -> None:
    """Fit a model to one draw of rows, and write down how it and counted words did on test."""
    some = few_of(splits, EACH, seed)
    # without the cache: it would hold weights of the step before
    with torch.autocast(device_named(None).type, torch.bfloat16, cache_enabled=False):
        mine = fit(OwnData(task, some), setup.model, seed=seed, lora=setup.lora)
    more: Row = {"train_examples": SIZE, "rows": len(some["train"])}
    counted = replace(mine.run, answers={"test": mine.answers[COUNTED.model]})
    about = more | {"method": "baseline", "dev": "", "best_epoch": "", "seconds": ""}
    record.add(task, some, COUNTED, replace(UNTIL_DEV_STOPS, seed=seed), counted, "score", about)
    record.add(task, some, setup, mine.recipe, mine.run, "score", more | {"bfloat16": True})


def fill(results: Path, sets: Sequence[str] = (*SETS,), ways: Sequence[Setup] = WAYS) -> None:
    """Run what the record lacks of some sets and ways to learn."""
    record = RunRecord(results, NAME)
    for name in sets:
        task, splits = load_task(name)
        for setup in ways:
            for seed in SEEDS:
                key = {"task": name, "model": setup.model, "seed": str(seed)}
                if not any(key.items() <= row.items() for row in record.rows()):
                    run_set(task, splits, setup, seed, record)


def summary_rows(record: RunRecord) -> Iterator[Row]:
    """Yield, for each set, the mean of each system with its 95 % interval, and minus counting."""
    for name, about in SETS.items():
        drawn = draw_systems(record, name)
        counted = drawn[COUNTED.model, "baseline", SIZE]
        for (model, method, _), scores in drawn.items():
            row: Row = {"set": name, "about": about, "model": model, "method": method}
            low, high = scores.interval
            row |= {"rows": SIZE, "seeds": len(scores.scores)}
            row |= {"mean": f"{scores.mean:.4f}", "low": f"{low:.4f}", "high": f"{high:.4f}"}
            if scores is not counted:
                mean, low, high = scores.minus(counted)
                row |= {"minus_counting": f"{mean:.4f}", "minus_low": f"{low:.4f}"}
                row |= {"minus_high": f"{high:.4f}", "beats_counting": verdict_of(low, high)}
            yield row
