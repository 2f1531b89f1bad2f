"""What a seed draws is what the committed results were made of, to the last token.

Who changes a text, a task or a blank on purpose makes its results anew, and then these digests.
"""

import hashlib
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import pytest
import torch
from torch import Tensor

from bertedu.pretraining.batches import fixed_batches
from bertedu.pretraining.next_sentence import EncodedDocument, encode_documents
from bertedu.text.corpus import load_documents
from bertedu.text.fast_tokenizer import load_tokenizer, load_vocabulary
from course.experiments import (
    context,
    few_rows,
    grammar,
    machines,
    recall,
    recurrence,
    same_question,
    sentence_order,
    tasks,
    toy_readers,
    writing,
)
from course.experiments.question_order import questions_that_fit

TASKS = {
    **{"sentiment": "c429cb64", "topic": "ce3e265b", "questions": "2cff6f63"},
    **{"valence": "90850d6c", "description": "83d5b868", "next": "9284b5ff"},
    **{"answer": "66c3d460", "answer-or-none": "01b2c8be", "entities": "67ec3198"},
    **{"punctuation": "bb325411", "capitals": "c8c1914e"},
}


def dice(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def task(name: str) -> Any:
    return tasks.load_task(name)[1]


def few(name: str) -> Any:
    splits = few_rows.few_of(task(name), 20, seed=1)
    return splits["train"], splits["dev"]


@cache
def held_out() -> list[EncodedDocument]:
    some = [d for d in load_documents("encyclopedia") if d.split == "dev"]
    return encode_documents(some, load_tokenizer())


def spoiled(kind: str) -> Tensor:
    (batch, *_) = fixed_batches(held_out(), 64, 32, 8192)
    return context.spoil(batch, kind, dice()).ids


def blanks() -> Any:
    counted = same_question.Neighbors(*same_question.neighbors_of(held_out()), 8192)
    found = same_question.find_blanks(held_out(), counted, 50)
    return found.sentences, found.places.tolist(), found.documents.tolist(), found.kinds


def places(*pair: str) -> Any:
    one, other = map(load_vocabulary().index, pair)
    found = grammar.find_positions(held_out(), (one, other))
    return found.sentences, found.places.tolist(), found.which.tolist(), found.documents.tolist()


def orders(question: str) -> Any:
    pairs, documents = sentence_order.pairs_of("test")
    drawn = sentence_order.draw_pairs(pairs["real"], pairs[question], dice())
    some = [drawn, *(pairs[kind][::50] for kind in pairs)]
    return [[(pair.a, pair.b, pair.label) for pair in of] for of in some], documents


DRAWN: dict[str, tuple[Callable[[], Any], str]] = {
    **{f"task {name}": (partial(task, name), of) for name, of in TASKS.items()},
    "exchanged questions": (lambda: questions_that_fit()["exchanged"], "3c1b2bba"),
    "few topics": (partial(few, "topic"), "9296223c"),
    "few names": (partial(few, "entities"), "50388b0d"),
    "words shuffled": (partial(spoiled, "shuffled"), "ec0c2ea1"),
    "words of another": (partial(spoiled, "another"), "f15f9987"),
    "same question": (blanks, "9f927125"),
    "grammar": (partial(places, "is", "are"), "1ca192b4"),
    "pairs": (partial(orders, "swapped"), "b9c603e4"),
    "list, blank, place": (
        partial(recall.recall_texts, recall.LAYOUTS[0], 5, 50, dice()),
        "7c3fec44",
    ),
    "place, blank, list": (
        partial(recall.recall_texts, recall.LAYOUTS[1], 5, 50, dice()),
        "4400e345",
    ),
    "bit, blank, bit": (partial(recall.recall_texts, recall.XOR, 1, 50, dice()), "8a6cb976"),
    "translations": (partial(recurrence.draw_translations, 50, 1, 6, dice()), "175c8ed5"),
    "keys and values": (partial(recurrence.draw_pairs, 50, 2, dice()), "84f113d1"),
    "names": (partial(machines.name_texts, dice(), 50, 40), "fb20e691"),
    "echoes": (partial(machines.echo_texts, dice(), 50, 30), "7ebfcfe9"),
    "toy": (lambda: toy_readers.text(7, 200)[0], "5281283c"),
    "toy topics": (partial(toy_readers.topics, 10_001, 200), "4023c891"),
    "prompt alone": (partial(writing.ask_topic, 0), "726934da"),
    "prompt of four": (partial(writing.ask_topic, 4), "eea63871"),
}


def digest(drawn: Any) -> str:
    def plain(some: Any) -> Any:
        if isinstance(some, Tensor):
            return some.tolist()
        if isinstance(some, list | tuple):
            return [plain(one) for one in some]
        return {k: plain(v) for k, v in some.items()} if isinstance(some, dict) else some

    return hashlib.sha256(repr(plain(drawn)).encode()).hexdigest()[:8]


@pytest.mark.parametrize("name", DRAWN)
def test_a_seed_draws_what_it_drew(name: str) -> None:
    draw, expected = DRAWN[name]
    assert digest(draw()) == expected
