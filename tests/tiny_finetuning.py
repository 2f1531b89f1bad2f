"""Tiny random models and hand-made tasks, for the tests of fine-tuning."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from bertedu.finetuning.examples import AnyExample, Choice, Example, Question, Splits, Tagged, Task
from bertedu.model.bert import Bert, BertForPreTraining
from bertedu.model.checkpoints import save_checkpoint
from bertedu.model.config import BertConfig, Direction
from bertedu.model.elmo import ElmoForPreTraining, ElmoSizes
from bertedu.text.fast_tokenizer import load_vocabulary, save_tokenizer

VOCABULARY = load_vocabulary()
FILLER = "the old man went to a house by river and saw some stone in small garden".split()
SIZES = {"train": 96, "dev": 32, "test": 32}
TAGS = ("O", "B-PLACE", "I-PLACE")


def config(direction: Direction = "bidirectional", hidden: int = 16, layers: int = 1) -> BertConfig:
    return BertConfig(
        *(len(VOCABULARY), hidden, layers, 2, 2 * hidden, 128),
        direction=direction,
        initializer_range=0.1,
        dropout=0.3,  # not that of any recipe
    )


def small_bert(seed: int = 0, dropout: float = 0.0) -> Bert:
    """Make a BERT for tests that need no folder."""
    torch.manual_seed(seed)
    return Bert(replace(config(), dropout=dropout))


def save_bert(
    folder: Path, direction: Direction = "bidirectional", seed: int = 0, layers: int = 1
) -> Path:
    """Write a checkpoint of random weights, with the course's tokenizer."""
    torch.manual_seed(1000 + seed)  # not the draws of an untrained model
    save_checkpoint(BertForPreTraining(config(direction, layers=layers)), folder)
    save_tokenizer(VOCABULARY, folder)
    return folder


def save_elmo(folder: Path, seed: int = 0) -> Path:
    torch.manual_seed(1000 + seed)  # not the draws of an untrained model
    save_checkpoint(ElmoForPreTraining(config(), ElmoSizes(1, 24)), folder)
    save_tokenizer(VOCABULARY, folder)
    return folder


def words(dice: np.random.Generator, count: int) -> list[str]:
    return [str(word) for word in dice.choice(FILLER, count)]


def some_words(dice: np.random.Generator, keyword: str, count: int = 6) -> str:
    """Put a keyword somewhere among filler."""
    found = words(dice, count)
    found.insert(int(dice.integers(count + 1)), keyword)
    return " ".join(found)


def splits_of(make: object, sizes: dict[str, int] = SIZES) -> Splits:
    """Call ``make(dice, number)`` for each example of each split; nothing is in two of them."""
    return {
        split: [
            make(np.random.default_rng([0, place, number]), number)  # type: ignore[operator]
            for number in range(count)
        ]
        for place, (split, count) in enumerate(sizes.items())
    }


def task_of(make: object, sizes: dict[str, int], *about: Any) -> tuple[Task, Splits]:
    splits = splits_of(make, sizes)
    return Task(*about, load=lambda: splits), splits


def keyword_task(sizes: dict[str, int] = SIZES) -> tuple[Task, Splits]:
    """One word decides the class; two examples share a source."""

    def make(dice: np.random.Generator, number: int) -> Example:
        label = int(dice.integers(2))
        return Example(
            some_words(dice, ("terrible", "wonderful")[label]), None, label, f"film {number // 2}"
        )

    about = "keyword", "classification", "is it good?", ("no", "yes"), "accuracy"
    return task_of(make, sizes, *about)


def pair_task(sizes: dict[str, int] = SIZES) -> tuple[Task, Splits]:
    """Do two texts share their last word? Neither alone tells."""
    things = "king ship tree".split()

    def make(dice: np.random.Generator, number: int) -> Example:
        first, second = (str(thing) for thing in dice.choice(things, 2))
        a, b = (" ".join([*words(dice, 1), thing]) for thing in (first, second))
        return Example(a, b, first == second, f"pair {number}")

    about = "pairs", "classification", "same?", ("no", "yes"), "accuracy"
    return task_of(make, sizes, *about)


def rating_task(sizes: dict[str, int] = SIZES) -> tuple[Task, Splits]:
    """Count good words minus bad ones."""

    def make(dice: np.random.Generator, number: int) -> Example:
        good = int(dice.integers(4))
        said = [*["wonderful"] * good, *["terrible"] * (3 - good), *words(dice, 2)]
        return Example(" ".join(said), None, 2 * good - 3, f"text {number}")

    return task_of(make, sizes, "rating", "regression", "how good?", (), "pearson")


def choice_task(sizes: dict[str, int] = SIZES) -> tuple[Task, Splits]:
    """The right ending is the one with the keyword."""

    def make(dice: np.random.Generator, number: int) -> Choice:
        label = int(dice.integers(3))
        endings = [some_words(dice, "wonderful" if i == label else "terrible", 3) for i in range(3)]
        return Choice(" ".join(words(dice, 3)), tuple(endings), label, f"text {number}")

    return task_of(make, sizes, "ending", "choice", "what next?", (), "accuracy")


def tagging_task(sizes: dict[str, int] = SIZES) -> tuple[Task, Splits]:
    """A few names are places, of one word or two."""
    places = (("London",), ("New", "York"), ("France",))

    def make(dice: np.random.Generator, number: int) -> Tagged:
        before, after = words(dice, int(dice.integers(1, 4))), words(dice, 2)
        place = places[int(dice.integers(len(places)))]
        tags = ["B-PLACE", *["I-PLACE"] * (len(place) - 1)]
        return Tagged(
            (*before, *place, *after),
            (*["O"] * len(before), *tags, *["O"] * len(after)),
            f"text {number}",
        )

    return task_of(make, sizes, "places", "tagging", "where?", TAGS, "f1")


def span_task(sizes: dict[str, int] = SIZES, none_share: float = 0.0) -> tuple[Task, Splits]:
    """The answer is the one name in the text, if there is one."""
    names = "John Mary Robert".split()

    def make(dice: np.random.Generator, number: int) -> Question:
        name = str(dice.choice(names))
        before, after = words(dice, 3), words(dice, 3)
        if dice.random() < none_share:
            context = " ".join(before + after)
            return Question(f"q{number}", "Who was it?", context, (), f"text {number}")
        context = " ".join([*before, name, *after])
        answer = (name, context.index(name))
        return Question(f"q{number}", "Who was it?", context, (answer,), f"text {number}")

    return task_of(make, sizes, "who", "span", "who?", (), "f1")


MAKERS = {
    "classification": keyword_task,
    "regression": rating_task,
    "choice": choice_task,
    "tagging": tagging_task,
    "span": span_task,
}


def with_other_labels(task: Task, examples: Sequence[AnyExample]) -> list[AnyExample]:
    """Give every example a label that is not its own; its texts stay."""
    found: list[AnyExample] = []
    for e in examples:
        if isinstance(e, Question):
            first = e.context.split()[0]
            found.append(replace(e, answers=((first, 0),)))
        elif isinstance(e, Tagged):
            found.append(replace(e, tags=("B-PLACE", *e.tags[:-1])))
        elif isinstance(e, Choice):
            found.append(replace(e, label=(e.label + 1) % len(e.endings)))
        elif task.labels:
            found.append(replace(e, label=(e.label + 1) % len(task.labels)))
        else:
            found.append(replace(e, label=-e.label))
    return found


def weights(model: nn.Module) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in model.state_dict().items()}


def moved(one: dict[str, Tensor], two: dict[str, Tensor]) -> set[str]:
    """Names of what differs, but for a key's bias: it adds the same to every score of a query, and
    softmax does not see that."""
    names = [name for name in one if not name.endswith("attention.key.bias")]
    return {name for name in names if not torch.equal(one[name], two[name])}
