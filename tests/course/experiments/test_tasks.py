"""The tasks: their examples are sound, held out, and what their names say."""

import bz2
import dataclasses
import re
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pytest
from called import run

from bertedu.finetuning.examples import (
    SPLITS,
    AnyExample,
    Choice,
    Example,
    Question,
    Splits,
    Tagged,
    TaskError,
    check_examples,
)
from bertedu.finetuning.tagging import entities
from bertedu.text import corpus
from bertedu.text.corpus import Document, load_documents, split_sentences
from bertedu.text.sources import find
from course.cli import app
from course.experiments import tasks as module
from course.experiments.shortcuts import articles_in, passage_only_f1
from course.experiments.tasks import ENTITY_TYPES, TASKS, TOPICS, describe_task, load_task

SOURCES = {"sentiment": "sentiment", "questions": "questions", "valence": "valence"}
DERIVED = [name for name in TASKS if name not in SOURCES]


def there(name: str) -> bool:
    source = find(SOURCES.get(name, "encyclopedia"))
    return source.path.is_file() and source.path.stat().st_size == source.size_bytes


@pytest.fixture(scope="module")
def all_splits() -> Iterator[dict[str, Splits]]:
    """All tasks that are there; meanwhile, each paragraph is cut into sentences but once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(corpus, "split_sentences", lru_cache(maxsize=None)(split_sentences))
        yield {name: load_task(name)[1] for name in TASKS if there(name)}


@pytest.fixture
def splits(all_splits: dict[str, Splits], name: str) -> Any:
    if name not in all_splits:
        pytest.skip(f"not fetched: run `bertedu data fetch {SOURCES.get(name, 'encyclopedia')}`")
    return all_splits[name]


def of(*names: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("name", names)


@pytest.fixture(scope="module")
def articles() -> list[Document]:
    return list(load_documents("encyclopedia"))


def texts(example: AnyExample) -> list[str]:
    if isinstance(example, Example):
        return [text for text in (example.text, example.pair) if text]
    if isinstance(example, Choice):
        return [example.text, *example.endings]
    return [example.context if isinstance(example, Question) else " ".join(example.words)]


# -- every task


@of(*TASKS)
def test_examples_are_sound_and_enough(splits: Splits, name: str) -> None:
    check_examples(TASKS[name], splits)
    assert len(splits["train"]) > 4000
    assert min(len(splits["dev"]), len(splits["test"])) > 200


@of(*(name for name in TASKS if TASKS[name].kind in ("classification", "choice")))
def test_the_order_tells_nothing(splits: Splits, name: str) -> None:
    labels = [example.label for example in splits["train"]]
    first, second = Counter(labels[::2]), Counter(labels[1::2])
    half = len(labels) // 2
    for one, other in ((first, second), (Counter(labels[:half]), Counter(labels[half:]))):
        for label, count in one.items():
            assert abs(count - other[label]) < 6 * (count**0.5 + 1), label


@of(*TASKS)
def test_nothing_is_in_two_splits_and_no_example_comes_twice(splits: Splits, name: str) -> None:
    sources = {split: {e.source for e in splits[split]} for split in SPLITS}
    assert all(all(some) for some in sources.values()), "an example without a source"
    seen = {split: {t for e in splits[split] for t in texts(e)} for split in SPLITS}
    shared = {e.text for some in splits.values() for e in some if name == "description"}
    for one, other in combinations(SPLITS, 2):
        assert not sources[one] & sources[other]
        assert not {t for t in (seen[one] & seen[other]) - shared if len(t.split()) > 8}
    assert all(len(set(splits[split])) == len(splits[split]) for split in SPLITS)


@of(*DERIVED)
def test_no_test_text_was_pre_trained_on(
    splits: Splits, name: str, articles: list[Document]
) -> None:
    """Held-out articles are held out from pre-training, too: no sentence of theirs is in it."""
    training = {
        module.split_words(sentence)
        for document in articles
        if document.split == "train"
        for sentence in document.sentences()
    }
    held_out = (e for split in ("dev", "test") for e in splits[split])
    asked = [s for e in held_out for text in texts(e) for s in split_sentences(text)]
    assert len(asked) > 400
    for sentence in asked:
        assert len(sentence.split()) <= 6 or module.split_words(sentence) not in training, sentence


# -- one by one


def test_the_labels_of_the_table_are_those_that_the_readers_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = (
        "text,movie_name,category\nGood.,A,fresh\nBad.,B,rotten\nA man.,C,plot\nGood.,A,fresh\n"
        "Fine.,A,fresh\nFair.,A,rotten\n"
    )
    monkeypatch.setattr(module, "read", lambda _: {"x": bz2.compress(table.encode())})
    task = TASKS["sentiment"]
    splits = task.load()
    named = [(e.text, task.labels[int(e.label)]) for some in splits.values() for e in some]
    told = {"Good.": "fresh", "Bad.": "rotten", "Fine.": "fresh", "Fair.": "rotten"}
    assert sorted(named) == sorted(told.items())
    assert sum(any(e.source == "A" for e in some) for some in splits.values()) == 1, "a film"
    kinds = ENTITY_TYPES.values()
    assert TASKS["entities"].labels == ("O", *(f"{part}-{k}" for k in kinds for part in "BI"))
    assert TASKS["description"].labels == ("no", "yes"), "0 is no: it does not fit"


@of("topic")
def test_topics_are_the_editors_and_no_opening_is_asked_about(
    splits: Any, articles: list[Document]
) -> None:
    topic = {s: d.topic for d in articles for s in d.sentences()[1:]}
    assert all(topic[e.text] == TOPICS[e.label] for e in splits["test"])
    assert {e.label for e in splits["test"]} == set(range(11))


@of("description")
def test_a_wrong_description_is_of_the_same_heading(splits: Any, articles: list[Document]) -> None:
    described, titled = {}, {}
    for d in articles:
        described.setdefault(d.description, []).append(d.topic)
        titled[d.title] = d
    for example in splits["test"]:
        article = titled[example.source]
        assert example.pair in " ".join(article.sentences()[1:])
        assert (example.text == article.description) == bool(example.label)
        assert article.topic in described[example.text]
    assert 0.4 < sum(e.label for e in splits["test"]) / len(splits["test"]) < 0.6


@of("next")
def test_the_right_ending_is_the_next_sentence_and_no_place_in_an_article_tells(
    splits: Any, articles: list[Document]
) -> None:
    """A second sentence sounds like one; if only wrong endings were, they could be crossed out."""
    follows: set[tuple[str, str]] = set()
    topic: dict[str, str | None] = {}
    place: dict[str, int] = {}
    for d in articles:
        follows |= {*pairwise(d.sentences())}
        topic |= dict.fromkeys(d.sentences(), d.topic)
        for i, sentence in enumerate(d.sentences()):
            place.setdefault(sentence, i)
    for example in splits["test"]:
        fits = [i for i, ending in enumerate(example.endings) if (example.text, ending) in follows]
        assert fits == [example.label]
        assert len({topic[ending] for ending in example.endings}) == 1
        assert len(set(example.endings)) == 4
    near: Counter[int] = Counter()
    far: Counter[int] = Counter()
    for example in splits["train"]:
        for i, ending in enumerate(example.endings):
            (near if i == example.label else far)[min(place[ending], 4)] += 1
    assert max(near[at] + far[at] for at in (0, 1)) < 0.005 * far.total()
    assert abs(near[2] / near.total() - far[2] / far.total()) < 0.1


@of("answer", "answer-or-none")
def test_answers_are_titles_and_questions_do_not_contain_them(splits: Any, name: str) -> None:
    without = 0
    for example in splits["test"]:
        assert example.source.lower() not in example.question.lower()
        assert {text for text, _ in example.answers} <= {example.source}
        without += not example.answers
        assert example.answers or not module.title_positions(example.source, example.context)
    share = without / len(splits["test"])
    assert share == 0 if name == "answer" else 0.25 < share < 0.42
    begins = [e.answers[0][1] / len(e.context) for e in splits["train"] if e.answers]
    places = Counter(round(3 * begin) for begin in begins)
    assert min(places[0], places[1], places[2]) > 0.15 * places.total(), "the place tells"


@of("answer")
def test_without_the_question_nothing_tells_one_title_from_the_others(
    splits: Any, articles: list[Document]
) -> None:
    """Each of the three articles names its title: a reader of no question draws one of three."""
    heading, test, same = {d.title: d.topic for d in articles}, splits["test"], []
    blind = passage_only_f1(test)
    assert 0.33 < blind.mean() < 0.34
    other = [dataclasses.replace(question, question="Which?") for question in test]
    assert np.array_equal(blind, passage_only_f1(other))
    for changed in ({"answers": ()}, {"context": "Ann sat by a lake."}):
        with pytest.raises(ValueError, match="no question of the task 'answer'"):
            passage_only_f1([dataclasses.replace(test[0], **changed)])
    for question in test:
        found = articles_in(question.context)
        assert len(found) == 3
        assert question.source in [title for *_, title in found]
        assert " ".join(opening for _, opening, _ in found) == question.context
        for _, opening, title in found:
            assert module.title_positions(title, opening), f"{title} could be left out unread"
            if title != question.source:
                same.append(heading[title] == heading[question.source])
    assert 0.02 < sum(same) / len(same) < 0.4, "most are under another heading"
    short = module.short_answers()["dev"]
    length = [sum(len(q.context) for q in some) / len(some) for some in (splits["dev"], short)]
    assert 0.4 < length[1] / length[0] < 0.75, "one sentence of each article, not two"


@of("entities")
def test_entities_of_the_test_articles_are_unseen_in_training(
    splits: Any, articles: list[Document]
) -> None:
    kinds = {
        module.split_words(d.title): (ENTITY_TYPES[d.topic], d.split)
        for d in articles
        if d.topic in ENTITY_TYPES
    }
    mentions = {
        split: [(kind, e.words[i:j]) for e in splits[split] for kind, i, j in entities(e.tags)]
        for split in SPLITS
    }
    assert all(kinds[words][0] == kind for kind, words in mentions["test"])
    new = {words for _, words in mentions["test"] if kinds[words][1] == "test"}
    assert len(new) > 50
    assert not new & {words for _, words in mentions["train"]}
    for example in (*splits["test"], *splits["train"]):
        assert (0, 1) not in [(i, j) for _, i, j in entities(example.tags)], "a head of a sentence"


@of("punctuation")
def test_marks_and_capitals_are_those_of_the_text(
    splits: Any, all_splits: dict[str, Splits]
) -> None:
    """Two questions about the same bare words; a mark belongs to the word before it."""
    text = "The king (an old Dane, they say) slept, woke and ruled. He had 1,000 ships!"
    bare = module._bare_words(Document("title", "encyclopedia", text))
    assert [word for word, *_ in bare] == re.findall(r"[\w,]*\w", text)
    marks = dict.fromkeys(("Dane", "slept"), "COMMA") | dict.fromkeys(("ruled", "ships"), "STOP")
    assert {word: mark for word, mark, _ in bare if mark} == marks
    assert [word for word, _, capital in bare if capital] == ["Dane"]  # not a sentence's first word
    capitals: Any = all_splits["capitals"]
    for split in SPLITS:
        for one, other in zip(splits[split], capitals[split], strict=True):
            assert one.words == other.words
            assert len(one.words) == module.BARE_LENGTH
            assert not any(word != word.lower() or word[-1] in ",.?!" for word in one.words)
    named = [{tag for e in some["test"] for tag in e.tags} for some in (splits, capitals)]
    assert named == [{"O", "B-COMMA", "B-STOP"}, {"O", "B-CAPITAL"}]


# -- what is said of them


def test_chance_and_majority_by_hand() -> None:
    def some(*labels: int) -> list[Example]:
        return [Example("x", None, label) for label in labels]

    splits: Splits = {"train": some(2, 2, 1, 0), "dev": some(0), "test": some(0, 0, 0, 2)}
    task = dataclasses.replace(TASKS["sentiment"], labels=("a", "b", "c"))
    about = describe_task(task, splits)
    assert (about["train"], about["dev"], about["test"]) == (4, 1, 4)
    assert about["chance"] == pytest.approx(1 / 3)
    assert about["majority"] == 0.25, "the most frequent of training, not of the test"
    choices: Splits = {split: [Choice("a", ("b", "c", "d", "e"), 1)] for split in SPLITS}
    assert describe_task(TASKS["next"], choices)["chance"] == 0.25
    assert "chance" not in describe_task(TASKS["valence"], splits)


@of("topic")
def test_the_list_names_a_task_and_refuses_an_unknown_one(
    splits: Splits, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(TaskError, match="no task 'topics': choose one of sentiment, topic"):
        load_task("topics")
    assert run("tasks", "topics", of=app).exit_code == 1
    with monkeypatch.context() as nothing_is_fetched:
        nothing_is_fetched.setattr(module, "load_task", None)
        listed = run("tasks", of=app).stdout
    assert [line.split()[0] for line in listed.splitlines()] == [*TASKS]
    monkeypatch.setattr(module, "load_task", lambda name, *_: (TASKS[name], splits))
    result = run("tasks", "topic", of=app)
    assert result.exit_code == 0, result.output
    (line,) = [row for row in result.output.splitlines() if row.startswith("topic ")]
    assert f"{len(splits['train']):,}" in line


# -- what is refused

GOOD: dict[str, AnyExample] = {
    "sentiment": Example("A film.", None, 1),
    "valence": Example("A film.", None, 0.5),
    "description": Example("A film.", "A man.", 1),
    "answer": Question("x", "Who?", "It was Ann.", (("Ann", 7),)),
    "entities": Tagged(("Ann",), ("B-PERSON",)),
    "next": Choice("a", ("b", "c"), 1),
}
BAD: list[tuple[str, Any, str]] = [
    ("sentiment", Example("A film.", None, 2), "label 2 is not one of 2"),
    ("sentiment", Example("A film.", None, 0.5), "label 0.5"),
    ("valence", Example("A film.", None, np.nan), "nan is not a finite score"),
    ("sentiment", Example("  ", None, 1), "is empty"),
    ("sentiment", Example("A film.", "A man.", 1), "has 2, .* one text"),
    ("sentiment", Example(3, None, 1), "not a text"),
    ("description", Example("A film.", "", 1), "is empty"),
    ("description", Example("A film.", None, 1), "has 1, .* two texts"),
    ("answer", Question("x", "Who?", "It was Ann.", (("Bob", 7),)), "found there: 'Ann'"),
    ("answer", Question("x", "Who?", "It was Ann.", (("Ann", 70),)), "not at character"),
    ("answer", Question("x", "Who?", "It was Ann.", (("", 3),)), "not at character"),
    ("entities", Tagged(("a", "b"), ("O",)), "2 words and 1 tags"),
    ("entities", Tagged(("a",), ("B-FISH",)), "unknown tag 'B-FISH'"),
    ("entities", Tagged((), ()), "is empty"),
    ("next", Choice("a", ("b", "c"), 2), "ending 2 is right, of 2"),
]
BAD += [
    (name, other, f"of type {type(other).__name__}.*{TASKS[name].kind}.*{type(good).__name__}")
    for name, good in GOOD.items()
    for other in (*GOOD.values(), "A film.")
    if type(other) is not type(good)
]


@pytest.mark.parametrize(("name", "example", "message"), BAD)
def test_bad_examples_are_named_with_their_place(name: str, example: Any, message: str) -> None:
    good = GOOD[name]
    splits: Splits = {"train": [good], "dev": [good, example], "test": [good]}
    with pytest.raises(TaskError, match=f"task {name}, dev example 1: .*{message}"):
        check_examples(TASKS[name], splits)
    for split in SPLITS:
        with pytest.raises(TaskError, match=f"the {split} split is empty"):
            check_examples(TASKS[name], {**splits, "dev": [good], split: []})
