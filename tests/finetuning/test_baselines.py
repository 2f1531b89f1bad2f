"""Baselines: what needs no model, by hand; and counted words, which may not peek either."""

from dataclasses import replace
from typing import Any

import pytest
import tiny_finetuning as tiny

from bertedu.finetuning.evaluation import baselines
from bertedu.finetuning.evaluation.baselines import baseline_answers, word_count_answers
from bertedu.finetuning.examples import Choice, Question, Splits, Task
from bertedu.finetuning.finetune import make_kind

MADE = {name: make() for name, make in tiny.MAKERS.items()}
kinds = pytest.mark.parametrize("name", MADE)


def values(name: str, task: Task, splits: Splits, split: str = "test") -> list[Any]:
    return [answer.value for answer in baseline_answers(name, task, splits)[split]]


def score(name: str, task: Task, splits: Splits) -> float:
    kind = make_kind(task, splits)
    answers = baseline_answers(name, task, splits)["test"]
    return kind.metrics(kind.outcomes(splits["test"], answers))[task.metric]


# -- the majority, by hand


@pytest.mark.parametrize(
    ("name", "labels", "expected"),
    [
        ("classification", (1, 0, 1), 1),
        ("classification", (0, 0, 1), 0),
        ("regression", (1, 2, 6), 3),
        ("choice", (2, 1, 2), 2),
    ],
)
def test_the_majority_is_the_most_frequent_answer_or_the_mean(
    name: str, labels: tuple[int, ...], expected: float
) -> None:
    task, splits = MADE[name]
    train = [replace(e, label=n) for e, n in zip(splits["train"], labels, strict=False)]
    for split in ("dev", "test"):
        found = values("majority", task, {**splits, "train": train}, split)
        assert found == [expected] * len(splits[split])


def test_the_majority_of_tags_is_no_entity_and_of_answers_the_first_word_or_none() -> None:
    task, splits = MADE["tagging"]
    assert values("majority", task, splits) == [("O",) * len(e.words) for e in splits["test"]]
    task, splits = MADE["span"]
    assert values("majority", task, splits) == [e.context.split()[0] for e in splits["test"]]
    mixed = [*splits["train"][1:], replace(splits["train"][0], answers=())]
    assert set(values("majority", task, {**splits, "train": mixed})) == {""}


# -- counted words


@kinds
def test_counted_words_learn_what_single_words_tell(name: str) -> None:
    assert score("word counts", *MADE[name]) > 0.95
    assert score("majority", *MADE[name]) < 0.7


@pytest.mark.parametrize("start", ["", "今天，"])
def test_letters_are_counted_where_no_word_tells_or_no_space_parts_them(start: str) -> None:
    task, splits = MADE["classification"]
    alone: Splits = {
        split: [replace(e, text=start + "好坏中"[int(e.label)] * n) for n, e in enumerate(some, 9)]
        for split, some in splits.items()
    }
    assert values("word counts", task, alone) == [e.label for e in alone["test"]]


def test_of_two_texts_they_count_what_both_share() -> None:
    """Neither text alone tells whether they share a thing."""
    task, splits = tiny.pair_task({"train": 400, "dev": 32, "test": 32})
    assert score("word counts", task, splits) > 0.9
    alone = {s: [replace(e, pair=None) for e in part] for s, part in splits.items()}
    assert score("word counts", task, alone) < 0.8


def test_of_an_ending_they_count_what_it_shares_with_the_beginning() -> None:
    """And one example may have more endings than another."""

    def make(dice: Any, number: int) -> Choice:
        order = [
            str(t) for t in dice.permutation("king ship tree castle".split())[: 3 + number % 2]
        ]
        label = int(dice.integers(3))
        return Choice(f"the {order[label]} was old", tuple(f"a {t} it was" for t in order), label)

    assert score("word counts", MADE["choice"][0], tiny.splits_of(make)) > 0.95


def test_tags_are_learned_from_shape_and_neighbors_where_the_word_is_new() -> None:
    task, splits = MADE["tagging"]
    new = [
        replace(e, words=tuple("Zurich" if w in ("London", "France") else w for w in e.words))
        for e in splits["test"]
    ]
    assert score("word counts", task, {**splits, "test": new}) > 0.9


# -- answers in a text

TEXT = "Anna Lind lived in a small house. In the town Bert Olsen built a stone bridge. It rained."


def ask(question: str, context: str, none: bool = False) -> Splits:
    """Ask beside a dev split with an answer, and with ``none`` also one without."""
    asked = Question("q", question, context, ((context[:4], 0),))
    swims = "Carl Berg swims in the lake. It rained."
    other = Question("d", "Who swims?", swims, (("Carl Berg", 0),))
    train, dev = [replace(asked, name="t1"), replace(other, name="t2")], [other]
    if none:
        train.append(Question("t3", "Who flies?", "It rained.", ()))
        dev.append(Question("d9", "Who flies?", "Nobody Else was there. It rained.", ()))
    return {"train": train * 3, "dev": dev, "test": [asked]}


@pytest.mark.parametrize(
    ("question", "context", "answer"),
    [
        ("Who built a bridge?", TEXT, "Bert Olsen"),
        ("Who lived in a house?", TEXT, "Anna Lind"),
        ("Who built it?", "The Old Bridge was built.", "Old Bridge"),
        ("Who built it?", "it was built by Bert Olsen, Anna Lind said.", "Bert Olsen"),
        ("Who built it?", "it was built by Bert.", "Bert"),
        ("Who built it?", "built by nobody", "built"),
    ],
)
def test_the_first_words_in_capitals_of_the_sentence_that_shares_most(
    question: str, context: str, answer: str
) -> None:
    assert values("word counts", MADE["span"][0], ask(question, context)) == [answer]


def test_where_little_is_shared_it_says_none_if_it_may() -> None:
    task, context = MADE["span"][0], "Bert Olsen built a stone bridge. It rained."
    assert values("word counts", task, ask("Who flies?", context)) != [""]
    assert values("word counts", task, ask("Who flies?", context, none=True)) == [""]
    sure = ask("Who built a stone bridge?", context, none=True)
    assert values("word counts", task, sure) == ["Bert Olsen"]
    assert values("word counts", task, sure, "dev") == ["Carl Berg", ""]


# -- what must not be looked at


@kinds
@pytest.mark.parametrize("baseline", baselines.BASELINES)
def test_neither_labels_nor_other_texts_of_the_test_are_used(name: str, baseline: str) -> None:
    task, splits = MADE[name]
    whole = baseline_answers(baseline, task, splits)
    turned = {**splits, "test": tiny.with_other_labels(task, splits["test"])}
    assert baseline_answers(baseline, task, turned) == whole
    part = baseline_answers(baseline, task, {**splits, "test": splits["test"][5:6]})
    assert part == {"dev": whole["dev"], "test": whole["test"][5:6]}


def test_dev_chooses_the_strength_and_training_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Turned labels of training turn the answers; turned labels of dev hardly matter."""
    task, splits = MADE["classification"]
    expected = values("word counts", task, splits)
    turned = splits | {s: tiny.with_other_labels(task, splits[s]) for s in ("train", "dev")}
    assert values("word counts", task, turned) == [1 - value for value in expected]
    noisy = {**splits, "dev": tiny.with_other_labels(task, splits["dev"])}
    assert score("word counts", task, noisy) > 0.75

    # with every fifth label wrong, the weakest penalty suits training best, and dev less
    wrong = [
        replace(e, label=e.label if i % 5 else 1 - e.label) for i, e in enumerate(splits["train"])
    ]

    def right_on_dev() -> int:
        found = word_count_answers(task, {**splits, "train": wrong})["dev"]
        return sum(a.value == e.label for a, e in zip(found, splits["dev"], strict=True))

    chosen, alone = right_on_dev(), []
    for strength in baselines.STRENGTHS:
        monkeypatch.setattr(baselines._logistic, "__defaults__", ((strength,),))
        alone.append(right_on_dev())
    assert chosen == max(alone) > alone[-1]
