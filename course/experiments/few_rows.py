"""Does a fine-tuned model beat counted words on a table of the size that people have?

``python -m course.experiments.few_rows`` draws 150 rows of each class of four sets, as often as
there are seeds, and gives them to `bertedu.finetuning.own_model.fit`: what ``bertedu finetune
--csv`` does. MiniLM learns by LoRA, `bert-mini` with all its weights. Runs that
`data/results/few_rows.csv` has are not made again; `few_rows_summary.csv` has the means.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer

from bertedu.files import Row, write_csv
from bertedu.finetuning.examples import Splits, Tagged, Task
from bertedu.finetuning.finetune import Setup
from bertedu.finetuning.own_data import OwnData
from bertedu.finetuning.own_model import UNTIL_DEV_STOPS, fit
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
SEEDS = range(3)
COUNTED = "word counts"


@dataclass(frozen=True)
class Way:
    """A model, and how it learns."""

    model: str
    lora: int | None = None

    @property
    def method(self) -> str:
        """How the record calls it."""
        return "fine-tuned" if self.lora is None else f"LoRA, rank {self.lora}"


WAYS = (Way("minilm", 8), Way("bert-mini"))


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


def run_set(task: Task, splits: Splits, way: Way, seed: int, record: RunRecord) -> None:
    """Fit a model to one draw of rows, and write down how it and counted words did on test."""
    some = few_of(splits, EACH, seed)
    # without the cache: it would hold weights of the step before
    with torch.autocast("cpu", torch.bfloat16, cache_enabled=False):
        mine = fit(OwnData(task, some), way.model, seed=seed, lora=way.lora)
    recipe, setup = replace(UNTIL_DEV_STOPS, seed=seed), Setup(way.model, lora=way.lora)
    more: Row = {"train_examples": f"{EACH} a class", "rows": len(some["train"])}
    counted = replace(mine.run, answers={"test": mine.answers[COUNTED]})
    about = more | {"method": "baseline", "dev": "", "best_epoch": "", "seconds": ""}
    record.add(task, some, Setup(COUNTED), recipe, counted, "score", about)
    about = more | {"method": way.method, "bfloat16": True}
    record.add(task, some, setup, recipe, mine.run, "score", about)


def summary_rows(record: RunRecord) -> Iterator[Row]:
    """Yield, for each set, the mean of each system with its 95 % interval, and minus counting."""
    for name, about in SETS.items():
        drawn = draw_systems(record, name)
        size = f"{EACH} a class"
        counted = drawn[COUNTED, "baseline", size]
        for (model, method, _), scores in drawn.items():
            row: Row = {"set": name, "about": about, "model": model, "method": method}
            low, high = scores.interval
            row |= {"rows": size, "seeds": len(scores.scores)}
            row |= {"mean": f"{scores.mean:.4f}", "low": f"{low:.4f}", "high": f"{high:.4f}"}
            if scores is not counted:
                mean, low, high = scores.minus(counted)
                row |= {"minus_counting": f"{mean:.4f}", "minus_low": f"{low:.4f}"}
                row |= {"minus_high": f"{high:.4f}", "beats_counting": verdict_of(low, high)}
            yield row


def main(
    out: Annotated[Path, typer.Option(help="Folder of results.")] = Path("data/results"),
) -> None:
    """Run what the record lacks, half an hour on one core in all, and write the summary."""
    torch.set_num_threads(1)
    record = RunRecord(out, NAME)
    for way in WAYS:
        for name in SETS:
            for seed in SEEDS:
                key = {"task": name, "model": way.model, "seed": str(seed)}
                if any(all(row[n] == v for n, v in key.items()) for row in record.rows()):
                    continue
                run_set(*load_task(name), way, seed, record)
    rows = [*summary_rows(record)]
    write_csv(out / f"{NAME}_summary.csv", rows)
    for row in rows:
        print(*(row.get(name, "") for name in ("set", "model", "mean", "beats_counting")))


if __name__ == "__main__":
    typer.run(main)
