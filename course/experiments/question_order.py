"""Must an answer's reader know the question before it reads the text? (paper, section 5.1, (b))

``python -m course.experiments.question_order`` fine-tunes the models of `same_question` until dev
stops rising, to mark the answer among three short texts: once with the question first, once with it
last. Each is scored twice, on the test as it is and with the questions exchanged among the texts,
where reading the question cannot help. Runs that `data/results/question_order.csv` has are not made
again.
"""

from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Annotated

import typer

from bertedu.files import Row
from bertedu.finetuning.examples import Splits, Task
from bertedu.finetuning.finetune import Setup, run_once
from bertedu.finetuning.question_answering import QuestionAnswering
from bertedu.text.fast_tokenizer import load_tokenizer
from course.experiments.ablations import SAME_QUESTION, STEEP
from course.experiments.tasks import short_answers
from course.results.bootstrap import BootstrapScores, Estimate, common_spread
from course.results.record import RunRecord
from course.results.summary import System, draw_systems

NAME = "question_order"  # of the record
READERS = SAME_QUESTION
ORDERS = ("question first", "question last")
LONGEST = 128  # tokens of question and text: nothing is cut into windows


def questions_that_fit() -> Splits:
    """Return the questions whose text fits into the model, and "exchanged": those of test, mixed.

    There each text has the question of another one, and still the answer that it had: who finds it
    has not needed the question.
    """
    tokenizer = load_tokenizer()
    splits: Splits = {
        split: [q for q in some if len(tokenizer.encode(q.question, q.context).ids) <= LONGEST]
        for split, some in short_answers().items()
    }
    test = [*splits["test"]]
    # by half the test, so that no article meets another of its own three questions
    asked = test[len(test) // 2 :] + test[: len(test) // 2]
    splits["exchanged"] = [
        replace(text, question=other.question) for text, other in zip(test, asked, strict=True)
    ]
    return splits


def task_of(order: str, exchanged: bool = False) -> Task:
    """Return the task under which the record keeps an order's runs."""
    name = f"{order}, exchanged" if exchanged else order
    return Task(name, "span", "mark what is described", (), "f1", questions_that_fit)


def run_study(folder: Path, readers: Mapping[str, tuple[str, ...]], splits: Splits) -> None:
    """Fine-tune every checkpoint with the question first and last; write down what is missing."""
    record = RunRecord(folder, NAME)
    seeds = range(max(map(len, readers.values())))
    for seed, reader, order in product(seeds, readers, ORDERS):
        setup, recipe = Setup(readers[reader][seed]), replace(STEEP, seed=seed)
        task = task_of(order)
        if record.find(task, setup, recipe, "score"):
            continue
        kind = QuestionAnswering(question_first=order == ORDERS[0])
        run = run_once(task, splits, setup, recipe, ["test", "exchanged"], kind=kind)
        mixed = replace(run, answers={"test": run.answers["exchanged"]})
        # the row that `find` looks for comes last
        for one, answered in ((task_of(order, True), mixed), (task, run)):
            record.add(one, splits, setup, recipe, answered, "score", {"reader": reader})


def drawn_readers(folder: Path, task: Task) -> dict[str, BootstrapScores]:
    """Return each reader's scores on a task, and their mean on texts drawn anew."""
    names = {model: reader for reader, models in READERS.items() for model in models}

    def system_of(row: Row) -> System | None:
        return (names[row["model"]], "", "") if row["model"] in names else None

    drawn = draw_systems(RunRecord(folder, NAME), task.name, system_of)
    return {reader: scores for (reader, *_), scores in drawn.items()}


def order_gain(folder: Path, reader: str, reading: bool = False) -> Estimate:
    """Return F1 with the question first minus last, with the 95 % interval (0 to 1).

    With ``reading``, not of F1 but of what is lost when the questions are exchanged: how much more
    a reader takes from a question that comes first. Both orders start from the same checkpoints, so
    the luck of pre-training is mostly gone from the difference: its spread is that of the
    differences, run by run, pooled over the readers.
    """
    orders = (False, True) if reading else (False,)
    first, last = (
        [drawn_readers(folder, task_of(order, exchanged)) for exchanged in orders]
        for order in ORDERS
    )
    gaps = {name: first[0][name] - last[0][name] for name in READERS}
    if reading:
        gaps = {name: gap - (first[1][name] - last[1][name]) for name, gap in gaps.items()}
    return gaps[reader].estimate(common_spread(gaps.values()))


def main(
    out: Annotated[Path, typer.Option(help="Folder of results.")] = Path("data/results"),
) -> None:
    """Run the study; some three hours on one core."""
    run_study(out, READERS, questions_that_fit())


if __name__ == "__main__":
    typer.run(main)
