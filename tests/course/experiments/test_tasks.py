"""The tasks: their examples are sound, held out, and what their names say."""

import bz2
import dataclasses
import re
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise

import pytest
from typer.testing import CliRunner

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
from bertedu.text import corpus
from bertedu.text.corpus import load_documents, split_sentences
from bertedu.text.sources import find
from course.cli import app
from course.experiments import tasks
from course.experiments import tasks as module
from course.experiments.shortcuts import articles_in, passage_only_f1
from course.experiments.tasks import (
    ENTITY_TYPES,
    TASKS,
    TOPICS,
    describe_task,
    load_task,
)

DERIVED = (
    *("topic", "description", "next", "answer", "answer-or-none", "entities"),
    *("punctuation", "capitals"),
)
SOURCES = {"sentiment": "sentiment", "questions": "questions", "valence": "valence"}


def there(name: str) -> bool:
    source = find(SOURCES.get(name, "encyclopedia"))
    return source.path.is_file() and source.path.stat().st_size == source.size_bytes


@pytest.fixture(scope="module")
def loaded() -> Iterator[dict[str, Splits]]:
    """All tasks that are there; meanwhile, each paragraph is cut into sentences but once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(corpus, "split_sentences", lru_cache(maxsize=None)(split_sentences))
        yield {name: load_task(name)[1] for name in TASKS if there(name)}


def need(loaded: dict[str, Splits], name: str) -> Splits:
    if name not in loaded:
        pytest.skip(f"not fetched: run `bertedu data fetch {SOURCES.get(name, 'encyclopedia')}`")
    return loaded[name]


def texts(example: AnyExample) -> Iterator[str]:
    if isinstance(example, Example):
        yield from (text for text in (example.text, example.pair) if text)
    elif isinstance(example, Question):
        yield example.context
    elif isinstance(example, Tagged):
        yield " ".join(example.words)
    else:
        yield from (example.text, *example.endings)


def test_marks_and_capitals_are_those_of_the_text(loaded: dict[str, Splits]) -> None:
    """Two questions about the same bare words; a mark belongs to the word before it."""
    text = "The king (an old Dane, they say) slept, woke and ruled. He had 1,000 ships!"
    bare = module._bare_words(corpus.Document("title", "encyclopedia", text))
    assert [word for word, *_ in bare] == re.findall(r"[\w,]*\w", text)
    assert {word: mark for word, mark, _ in bare if mark} == {
        **dict.fromkeys(("Dane", "slept"), "COMMA"),
        **dict.fromkeys(("ruled", "ships"), "STOP"),
    }
    assert [word for word, _, capital in bare if capital] == ["Dane"]  # not a sentence's first word
    marked, capitals = need(loaded, "punctuation"), need(loaded, "capitals")
    for split in SPLITS:
        for one, other in zip(marked[split], capitals[split], strict=True):
            assert one.words == other.words
            assert len(one.words) == module.BARE_LENGTH
            assert not any(word != word.lower() or word[-1] in ",.?!" for word in one.words)


# -- every task


@pytest.mark.parametrize("name", TASKS)
def test_examples_are_sound_and_enough(loaded: dict[str, Splits], name: str) -> None:
    splits = need(loaded, name)
    check_examples(TASKS[name], splits)
    assert len(splits["train"]) > 4000
    assert min(len(splits["dev"]), len(splits["test"])) > 200


@pytest.mark.parametrize("name", TASKS)
def test_the_same_examples_every_time(loaded: dict[str, Splits], name: str) -> None:
    need(loaded, name)
    module._articles.cache_clear()
    assert TASKS[name].load() == loaded[name]


@pytest.mark.parametrize("name", TASKS)
def test_the_order_tells_nothing(loaded: dict[str, Splits], name: str) -> None:
    splits = need(loaded, name)
    examples = splits["train"]
    if isinstance(examples[0], Example | Choice) and name != "valence":
        half = len(examples) // 2
        first, second = (
            Counter(e.label for e in part)  # type: ignore[union-attr]
            for part in (examples[:half], examples[half:])
        )
        for label, count in first.items():
            assert abs(count - second[label]) < 6 * (count**0.5 + 1), label


@pytest.mark.parametrize("name", DERIVED)
def test_no_test_text_was_pre_trained_on(loaded: dict[str, Splits], name: str) -> None:
    """Held-out articles are held out from pre-training, too: no sentence of theirs is in it."""
    splits = need(loaded, name)

    def words(sentence: str) -> str:
        return " ".join(module.split_words(sentence))

    training = {
        words(sentence)
        for document in load_documents("encyclopedia")
        if document.split == "train"
        for sentence in document.sentences()
    }
    count = 0
    for split in ("dev", "test"):
        for example in splits[split]:
            for text in texts(example):
                for sentence in split_sentences(text):
                    count += 1
                    if len(sentence.split()) > 6:
                        assert words(sentence) not in training, sentence
    assert count > 400


@pytest.mark.parametrize("name", TASKS)
def test_no_text_is_in_two_splits(loaded: dict[str, Splits], name: str) -> None:
    splits = need(loaded, name)
    seen = {split: {t for e in splits[split] for t in texts(e)} for split in SPLITS}
    for first, second in (("train", "dev"), ("train", "test"), ("dev", "test")):
        both = {t for t in seen[first] & seen[second] if len(t.split()) > 8}
        if name == "description":
            both -= {e.text for s in splits.values() for e in s if isinstance(e, Example)}
        assert not both, min(both)


@pytest.mark.parametrize("name", TASKS)
def test_a_source_is_in_one_split_and_an_example_comes_once(
    loaded: dict[str, Splits], name: str
) -> None:
    splits = need(loaded, name)
    sources = {split: {e.source for e in splits[split]} for split in SPLITS}
    assert all(all(some) for some in sources.values()), "an example without a source"
    assert not sources["train"] & sources["dev"]
    assert not sources["train"] & sources["test"]
    assert not sources["dev"] & sources["test"]
    for split in SPLITS:
        assert len(set(splits[split])) == len(splits[split])


# -- one by one


def test_a_film_is_in_one_split(loaded: dict[str, Splits]) -> None:
    import csv
    import io

    from bertedu.text.sources import read

    splits = need(loaded, "sentiment")
    (content,) = read("sentiment").values()
    film: dict[str, str] = {}
    for row in csv.DictReader(io.StringIO(bz2.decompress(content).decode("utf-8"))):
        if row["category"] != "plot":
            film.setdefault(" ".join(row["text"].split()), row["movie_name"])
    films = {split: {film[next(texts(e))] for e in splits[split]} for split in SPLITS}
    assert not films["train"] & films["test"]
    assert not films["train"] & films["dev"]
    assert len(films["test"]) > 10


def test_the_labels_of_the_table_are_those_that_the_readers_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = "text,movie_name,category\nGood.,A,fresh\nBad.,B,rotten\nA man.,C,plot\n"
    monkeypatch.setattr(tasks, "read", lambda _: {"x": bz2.compress(table.encode())})
    task = TASKS["sentiment"]
    named = {e.text: task.labels[int(e.label)] for some in task.load().values() for e in some}
    assert named == {"Good.": "fresh", "Bad.": "rotten"}
    kinds = ENTITY_TYPES.values()
    assert TASKS["entities"].labels == ("O", *(f"{part}-{k}" for k in kinds for part in "BI"))
    assert TASKS["description"].labels == ("no", "yes"), "0 is no: it does not fit"


def test_topics_are_the_editors_and_no_opening_is_asked_about(loaded: dict[str, Splits]) -> None:
    splits = need(loaded, "topic")
    articles = {s: d for d in load_documents("encyclopedia") for s in d.sentences()[1:]}
    for example in splits["test"]:
        assert isinstance(example, Example)
        assert articles[example.text].topic == TOPICS[int(example.label)]
    assert {int(e.label) for e in splits["test"] if isinstance(e, Example)} == set(range(11))


def test_a_wrong_description_is_of_the_same_heading(loaded: dict[str, Splits]) -> None:
    splits = need(loaded, "description")
    of, topic = {}, {}
    for d in load_documents("encyclopedia"):
        if d.topic in TOPICS and d.description and d.split == "test":
            of.setdefault(d.description, []).append(d)
            body = module._body(d)
            topic |= {" ".join(body[i : i + 2]): d for i in range(0, len(body), 2)}
    for example in splits["test"]:
        assert isinstance(example, Example)
        article = topic[str(example.pair)]
        assert article.title == example.source
        if example.label:
            assert example.text == article.description
        else:
            assert example.text != article.description
            assert article.topic in {d.topic for d in of[example.text]}


def test_the_right_ending_is_the_next_sentence(loaded: dict[str, Splits]) -> None:
    splits = need(loaded, "next")
    follows, topic = {}, {}
    for d in load_documents("encyclopedia"):
        sentences = d.sentences()
        follows |= dict.fromkeys(pairwise(sentences), d)
        topic |= dict.fromkeys(sentences, d.topic)
    for example in splits["test"]:
        assert isinstance(example, Choice)
        right = [i for i, ending in enumerate(example.endings) if (example.text, ending) in follows]
        assert right == [example.label]
        assert len({topic[ending] for ending in example.endings}) == 1
        assert len(set(example.endings)) == 4


def test_the_place_of_an_ending_in_its_article_does_not_tell(loaded: dict[str, Splits]) -> None:
    """A second sentence sounds like one; if only wrong endings were, they could be crossed out."""
    splits = need(loaded, "next")
    place: dict[str, int] = {}
    for d in load_documents("encyclopedia"):
        for i, sentence in enumerate(d.sentences()):
            place.setdefault(sentence, i)
    right, wrong = Counter[int](), Counter[int]()
    for example in splits["train"]:
        assert isinstance(example, Choice)
        for i, ending in enumerate(example.endings):
            (right if i == example.label else wrong)[min(place[ending], 4)] += 1
    for where in (0, 1):
        assert right[where] + wrong[where] < 0.005 * wrong.total(), where
    assert abs(right[2] / right.total() - wrong[2] / wrong.total()) < 0.1


@pytest.mark.parametrize("name", ["answer", "answer-or-none"])
def test_answers_are_titles_and_questions_do_not_contain_them(
    loaded: dict[str, Splits], name: str
) -> None:
    splits = need(loaded, name)
    without = 0
    for example in splits["test"]:
        assert isinstance(example, Question)
        title = example.source
        assert title.lower() not in example.question.lower()
        without += not example.answers
        for text, _ in example.answers:
            assert text == title
        if not example.answers:
            assert not module.title_places(title, example.context)
    share = without / len(splits["test"])
    assert share == 0 if name == "answer" else 0.25 < share < 0.42
    places = Counter(
        round(3 * e.answers[0][1] / len(e.context))
        for e in splits["train"]
        if isinstance(e, Question) and e.answers
    )
    assert min(places[0], places[1], places[2]) > 0.15 * places.total(), "the place tells"


def test_without_the_question_nothing_tells_one_title_from_the_others(
    loaded: dict[str, Splits],
) -> None:
    """Each of the three articles names its title: a reader of no question draws one of three."""
    questions = need(loaded, "answer")["test"]
    assert 0.33 < passage_only_f1(questions).mean() < 0.34
    for question in questions:
        for _, opening, title in articles_in(question.context):
            assert module.title_places(title, opening), f"{title} could be left out unread"
    usual, short = need(loaded, "answer")["dev"], module.short_answers()["dev"]
    length = [sum(len(one.context) for one in some) / len(some) for some in (usual, short)]
    assert 0.4 < length[1] / length[0] < 0.75, "one sentence of each article, not two"


def test_most_of_the_other_articles_of_a_question_are_under_another_heading(
    loaded: dict[str, Splits],
) -> None:
    articles = module._articles()["test"]
    openings = [(" ".join(a.sentences()[:2]), a.topic, a.title) for a in articles]
    heading = {a.title: a.topic for a in articles}
    same = []
    for example in need(loaded, "answer")["test"][:200]:
        assert isinstance(example, Question)
        others = {
            title: topic
            for opening, topic, title in openings
            if opening in example.context and title != example.source
        }
        assert len(others) >= 2
        same += [topic == heading[example.source] for topic in others.values()]
    assert 0.02 < sum(same) / len(same) < 0.4


def mentions(example: Tagged) -> list[tuple[str, tuple[str, ...]]]:
    found: list[tuple[str, list[str]]] = []
    for word, tag in zip(example.words, example.tags, strict=True):
        if tag.startswith("B-"):
            found.append((tag[2:], [word]))
        elif tag.startswith("I-"):
            assert found[-1][0] == tag[2:], "I- without its B-"
            found[-1][1].append(word)
    return [(kind, tuple(words)) for kind, words in found]


def test_entities_of_the_test_articles_are_unseen_in_training(loaded: dict[str, Splits]) -> None:
    splits = need(loaded, "entities")
    kinds = {
        module.split_words(d.title): (ENTITY_TYPES[d.topic], d.split)
        for d in load_documents("encyclopedia")
        if d.topic in ENTITY_TYPES
    }
    seen = {words for e in splits["train"] if isinstance(e, Tagged) for _, words in mentions(e)}
    unseen = 0
    for example in splits["test"]:
        assert isinstance(example, Tagged)
        for kind, words in mentions(example):
            assert kinds[words][0] == kind
            if kinds[words][1] == "test":
                assert words not in seen
                unseen += 1
    assert unseen > 100


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


def test_the_list_names_every_task_that_is_there(
    loaded: dict[str, Splits], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "load_task", lambda name, *_: (TASKS[name], loaded[name]))
    result = CliRunner().invoke(app, ["tasks", *loaded])
    assert result.exit_code == 0, result.output
    for name, splits in loaded.items():
        (line,) = [row for row in result.output.splitlines() if row.startswith(f"{name} ")]
        assert f"{len(splits['train']):,}" in line
    monkeypatch.undo()
    refused = CliRunner().invoke(app, ["tasks", "sentimnt"])
    assert refused.exit_code == 1


# -- what is refused


def test_an_unknown_task_is_named() -> None:
    with pytest.raises(TaskError, match="no task 'sentimnt': choose one of sentiment, topic"):
        load_task("sentimnt")


GOOD = Example("A film.", None, 1)
GOOD_FOR = {
    "description": Example("A film.", "A man.", 1),
    "answer": Question("x", "Who?", "It was Ann.", (("Ann", 7),)),
    "entities": Tagged(("Ann",), ("B-PERSON",)),
    "next": Choice("a", ("b", "c"), 1),
}


@pytest.mark.parametrize(
    ("task", "example", "message"),
    [
        ("sentiment", Example("A film.", None, 2), "label 2 is not one of 2 classes"),
        ("sentiment", Example("A film.", None, 0.5), "label 0.5 is not one of 2 classes"),
        ("sentiment", Example("  ", None, 1), "a text is empty"),
        ("description", Example("A film.", "", 1), "a text is empty"),
        ("description", Example("A film.", None, 1), "has 1, and this task is about two texts"),
        ("sentiment", Example("A film.", "A man.", 1), "has 2, and this task is about one text"),
        ("sentiment", Example(3, None, 1), "is not a text"),  # type: ignore[arg-type]
        ("answer", Question("x", "Who?", "It was Ann.", (("Bob", 7),)), "found there: 'Ann'"),
        ("answer", Question("x", "Who?", "It was Ann.", (("Ann", 70),)), "is not at character"),
        ("answer", Question("x", "Who?", "It was Ann.", (("", 3),)), "is not at character"),
        ("entities", Tagged(("a", "b"), ("O",)), "2 words and 1 tags do not match"),
        ("entities", Tagged(("a",), ("B-FISH",)), "unknown tag 'B-FISH'"),
        ("entities", Tagged((), ()), "a text is empty"),
        ("next", Choice("a", ("b", "c"), 2), "ending 2 is right, but there are 2"),
    ],
)
def test_bad_examples_are_named_with_their_place(
    task: str, example: AnyExample, message: str
) -> None:
    good = GOOD_FOR.get(task, GOOD)
    splits: Splits = {"train": [good], "dev": [example], "test": [good]}
    with pytest.raises(TaskError, match=f"task {task}, dev example 0: .*{message}"):
        check_examples(TASKS[task], splits)


@pytest.mark.parametrize(
    ("task", "kind"),
    [
        ("sentiment", "classification"),
        ("valence", "regression"),
        ("answer", "span"),
        ("entities", "tagging"),
        ("next", "choice"),
    ],
)
def test_an_example_of_another_shape_is_named_with_what_is_wanted(task: str, kind: str) -> None:
    good = GOOD_FOR.get(task, GOOD)
    for other in (GOOD, *GOOD_FOR.values(), "A film."):
        if type(other) is type(good):
            continue
        wanted = (
            f"task {task}, test example 1: it is of type {type(other).__name__}, and a {kind} task "
            f"needs examples of type {type(good).__name__}"
        )
        splits: Splits = {"train": [good], "dev": [good], "test": [good, other]}
        with pytest.raises(TaskError) as caught:
            check_examples(TASKS[task], splits)
        assert str(caught.value) == wanted


@pytest.mark.parametrize("split", SPLITS)
def test_an_empty_split_is_named(split: str) -> None:
    splits: Splits = {name: [GOOD] for name in SPLITS} | {split: []}
    with pytest.raises(TaskError, match=f"the {split} split is empty"):
        check_examples(TASKS["sentiment"], splits)
