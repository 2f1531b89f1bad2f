"""Baselines: what needs no model, by hand; and counted words, which may not peek either."""

from dataclasses import replace
from typing import Any

import pytest
import tiny_finetuning as tiny

from bertedu.finetuning.baselines import BASELINES, STRENGTHS, baseline_answers, word_count_answers
from bertedu.finetuning.examples import Choice, Example, Question, Splits, Tagged, Task
from bertedu.finetuning.finetune import make_kind
from bertedu.finetuning.tagging import iob2


def values(name: str, task: Task, splits: Splits, split: str = "test") -> list[Any]:
    return [answer.value for answer in baseline_answers(name, task, splits)[split]]


def score(name: str, task: Task, splits: Splits) -> float:
    kind = make_kind(task, splits)
    answers = baseline_answers(name, task, splits)["test"]
    return kind.metrics(kind.outcomes(splits["test"], answers))[task.metric]


def some(*labels: float) -> list[Example]:
    return [Example("x", None, label) for label in labels]


# --- The majority, by hand ----------------------------------------------------------------------


def test_the_most_frequent_class_of_training() -> None:
    task, _ = tiny.keyword_task()
    splits: Splits = {"train": some(1, 0, 1), "dev": some(0), "test": some(0, 0, 0)}
    assert values("majority", task, splits) == [1, 1, 1]
    assert values("majority", task, splits, "dev") == [1]
    assert score("majority", task, splits) == 0
    splits["train"] = some(0, 0, 1)
    assert values("majority", task, splits) == [0, 0, 0]


def test_the_mean_of_training() -> None:
    task, _ = tiny.rating_task()
    splits: Splits = {"train": some(1, 2, 6), "dev": some(0), "test": some(9, -9)}
    assert values("majority", task, splits) == [3, 3]
    assert score("majority", task, splits) == 0, "no correlation"


def test_the_most_frequent_place_of_the_right_ending() -> None:
    task, _ = tiny.choice_task()
    train = [Choice("a", ("b", "c", "d"), label) for label in (2, 1, 2)]
    splits: Splits = {"train": train, "dev": train[:1], "test": train}
    assert values("majority", task, splits) == [2, 2, 2]
    assert score("majority", task, splits) == pytest.approx(2 / 3)


def test_no_entity_at_all() -> None:
    task, splits = tiny.tagging_task()
    found = values("majority", task, splits)
    assert found == [("O",) * len(e.words) for e in splits["test"]]  # type: ignore[union-attr]
    assert score("majority", task, splits) == 0


def test_the_first_word_or_none_where_that_can_be() -> None:
    task, splits = tiny.span_task()
    firsts = [e.context.split()[0] for e in splits["test"]]  # type: ignore[union-attr]
    assert values("majority", task, splits) == firsts
    one_without = replace(splits["train"][0], answers=())  # type: ignore[call-arg]
    mixed = {**splits, "train": [*splits["train"][1:], one_without]}
    assert values("majority", task, mixed) == [""] * len(firsts)


# --- Counted words ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", tiny.MAKERS)
def test_counted_words_learn_what_single_words_tell(name: str) -> None:
    task, splits = tiny.MAKERS[name]()
    assert score("word counts", task, splits) > 0.95
    assert score("majority", task, splits) < 0.7


def test_of_two_texts_they_count_what_both_share() -> None:
    """Neither text alone tells whether they share a thing."""
    task, splits = tiny.pair_task({"train": 400, "dev": 32, "test": 32})
    assert score("word counts", task, splits) > 0.9
    alone = {s: [replace(e, pair=None) for e in part] for s, part in splits.items()}  # type: ignore[call-arg]
    assert score("word counts", task, alone) < 0.8


def test_of_an_ending_they_count_what_it_shares_with_the_beginning() -> None:
    things = "king ship tree castle".split()

    def make(dice: Any, number: int) -> Choice:
        order = [str(t) for t in dice.permutation(things)[:3]]
        label = int(dice.integers(3))
        return Choice(f"the {order[label]} was old", tuple(f"a {t} it was" for t in order), label)

    splits = tiny.splits_of(make)
    assert score("word counts", tiny.choice_task()[0], splits) > 0.95


def test_endings_may_be_more_for_one_example_than_for_another() -> None:
    task, splits = tiny.choice_task()
    longer = [
        replace(e, endings=(*e.endings, "a stone"))
        for e in splits["test"][::2]
        if isinstance(e, Choice)
    ]
    test = [*splits["test"][1::2], *longer]
    assert score("word counts", task, {**splits, "test": test}) > 0.95


def test_tags_are_learned_from_shape_and_neighbors_where_the_word_is_new() -> None:
    task, splits = tiny.tagging_task()
    new = [
        replace(e, words=tuple("Zurich" if w in ("London", "France") else w for w in e.words))  # type: ignore[call-arg]
        for e in splits["test"]
        if isinstance(e, Tagged)
    ]
    assert score("word counts", task, {**splits, "test": new}) > 0.9


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ("O I-PLACE I-PLACE O", "O B-PLACE I-PLACE O"),
        ("I-PLACE O", "B-PLACE O"),
        ("B-PLACE I-LIFE I-LIFE", "B-PLACE B-LIFE I-LIFE"),
        ("B-PLACE I-PLACE B-PLACE", "B-PLACE I-PLACE B-PLACE"),
        ("O O", "O O"),
    ],
)
def test_an_entity_begins_with_b(tags: str, expected: str) -> None:
    assert iob2(tags.split()) == tuple(expected.split())


# --- Answers in a text --------------------------------------------------------------------------

TEXT = "Anna Lind lived in a small house. In the town Bert Olsen built a stone bridge. It rained."
SWIMS = "Carl Berg swims in the lake. It rained."


def ask(question: str, context: str, none: bool = False) -> Splits:
    asked = Question("q", question, context, ((context[:4], 0),))
    train = [replace(asked, name=f"t{i}") for i in range(3)]
    other = Question("d", "Who swims?", SWIMS, (("Carl Berg", 0),))
    train.append(replace(other, name="t8"))
    dev = [other]
    if none:
        train.append(Question("t9", "Who flies?", "It rained.", ()))
        dev.append(Question("d9", "Who flies?", "Nobody Else was there. It rained.", ()))
    return {"train": train, "dev": dev, "test": [asked]}


def test_the_answer_is_in_the_sentence_that_shares_words_with_the_question() -> None:
    task, _ = tiny.span_task()
    assert values("word counts", task, ask("Who built a bridge?", TEXT)) == ["Bert Olsen"]
    context, built = TEXT.replace("In the town ", ""), "Who built the stone bridge?"
    assert values("word counts", task, ask(built, context)) == ["Bert Olsen"]
    assert values("word counts", task, ask("Who lived in a house?", context)) == ["Anna Lind"]
    turned = "Bert Olsen built a stone bridge. It rained. Anna Lind lived in a small house."
    assert values("word counts", task, ask("Who lived in a house?", turned)) == ["Anna Lind"]


@pytest.mark.parametrize(
    ("context", "answer"),
    [
        ("The Old Bridge was built.", "Old Bridge"),
        ("it was built by Bert Olsen, Anna Lind said.", "Bert Olsen"),
        ("it was built by Bert.", "Bert"),
        ("built by nobody", "built"),
    ],
)
def test_the_first_words_in_capitals_are_marked(context: str, answer: str) -> None:
    task, _ = tiny.span_task()
    found = values("word counts", task, ask("Who built it?", context))
    assert found == [answer]


def test_where_little_is_shared_it_says_none_if_it_may() -> None:
    task, _ = tiny.span_task()
    context = "Bert Olsen built a stone bridge. It rained."
    assert values("word counts", task, ask("Who flies?", context)) != [""]
    assert values("word counts", task, ask("Who flies?", context, none=True)) == [""]
    sure = ask("Who built a stone bridge?", context, none=True)
    assert values("word counts", task, sure) == ["Bert Olsen"]
    assert values("word counts", task, sure, "dev") == ["Carl Berg", ""]


# --- What must not be looked at -----------------------------------------------------------------


@pytest.mark.parametrize("baseline", sorted(BASELINES))
@pytest.mark.parametrize("name", tiny.MAKERS)
def test_labels_of_the_test_are_never_used(name: str, baseline: str) -> None:
    task, splits = tiny.MAKERS[name]()
    turned = {**splits, "test": tiny.with_other_labels(task, splits["test"])}
    assert baseline_answers(baseline, task, turned) == baseline_answers(baseline, task, splits)


@pytest.mark.parametrize("name", tiny.MAKERS)
def test_texts_of_the_test_teach_nothing(name: str) -> None:
    """What is answered to dev and to an example does not depend on the rest of the test."""
    task, splits = tiny.MAKERS[name]()
    whole = word_count_answers(task, splits)
    part = word_count_answers(task, {**splits, "test": splits["test"][5:6]})
    assert part["dev"] == whole["dev"]
    assert part["test"] == whole["test"][5:6]


def test_dev_chooses_the_strength_and_training_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Turned labels of training turn the answers; turned labels of dev hardly matter."""
    task, splits = tiny.keyword_task()
    expected = values("word counts", task, splits)
    turned = splits | {s: tiny.with_other_labels(task, splits[s]) for s in ("train", "dev")}
    assert values("word counts", task, turned) == [1 - value for value in expected]
    noisy = {**splits, "dev": tiny.with_other_labels(task, splits["dev"])}
    assert score("word counts", task, noisy) > 0.75

    def right_on_dev(splits: Splits) -> int:
        found = values("word counts", task, splits, "dev")
        return sum(value == e.label for value, e in zip(found, splits["dev"], strict=True))

    # with every fifth label wrong, the weakest penalty suits training best, and dev less
    wrong = [
        replace(e, label=e.label if i % 5 else 1 - e.label) for i, e in enumerate(splits["train"])
    ]
    noisy, alone = {**splits, "train": wrong}, []
    chosen = right_on_dev(noisy)
    for strength in STRENGTHS:
        monkeypatch.setattr("bertedu.finetuning.baselines._logistic.__defaults__", ((strength,),))
        alone.append(right_on_dev(noisy))
    assert chosen == max(alone) > alone[-1]
