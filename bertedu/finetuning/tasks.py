"""The tasks of this course, each in the role of one of the paper's, out of real text and labels.

Most are *derived*: real sentences and real editors' labels, put to a use that the editors did not
have in mind. They are not GLUE, SQuAD, CoNLL or SWAG and are never called so. `data/README.md` has
a datasheet for each. What is drawn by chance depends on the title of an article and on the articles
beside it under the same heading, so the same corpus always gives the same examples.
"""

import bz2
import csv
import hashlib
import io
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path

import numpy as np

from bertedu.finetuning.examples import (
    SPLITS,
    Choice,
    Example,
    Question,
    Splits,
    Tagged,
    Task,
    TaskError,
    check_examples,
)
from bertedu.text.corpus import Document, load_documents
from bertedu.text.sources import read

TOPICS = (
    "Arts",
    "Biology and health sciences",
    "Everyday life",
    "Geography",
    "History",
    "Mathematics",
    "People",
    "Philosophy and religion",
    "Physical sciences",
    "Society and social sciences",
    "Technology",
)
QUESTION_TYPES = ("ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM")
ENTITY_TYPES = {"Geography": "PLACE", "People": "PERSON", "Biology and health sciences": "LIFE"}
TAGS = ("O", *(f"{part}-{kind}" for kind in ENTITY_TYPES.values() for part in "BI"))


# -- splits


def split_by(name: str) -> str:
    """Return train (80 %), dev or test (10 % each) by a hash: for texts nobody pre-trains on."""
    bucket = int.from_bytes(hashlib.sha256(name.encode("utf-8")).digest()[:8], "big") % 10
    return "train" if bucket < 8 else "dev" if bucket == 8 else "test"


def _dice(*names: str) -> np.random.Generator:
    digest = hashlib.sha256("\0".join(names).encode("utf-8")).digest()
    return np.random.default_rng(int.from_bytes(digest[:8], "big"))


def _collect(pairs: Iterator[tuple[str, object]]) -> Splits:
    """(split, example) pairs -> examples by split, each split in an order that tells nothing."""
    found: dict[str, list[object]] = {split: [] for split in SPLITS}
    for split, example in pairs:
        found[split].append(example)
    for split, examples in found.items():
        np.random.default_rng(len(split)).shuffle(examples)
    return found  # type: ignore[return-value]


# -- with labels that humans gave


def _sentiment() -> Splits:
    """Film reviews, fresh (1) or rotten (0); a film's reviews are all in one split."""

    def rows() -> Iterator[tuple[str, object]]:
        (content,) = read("sentiment").values()
        seen: set[str] = set()
        for row in csv.DictReader(io.StringIO(bz2.decompress(content).decode("utf-8"))):
            text = " ".join(row["text"].split())
            if row["category"] not in ("fresh", "rotten") or text in seen or not text:
                continue  # a plot is no review; the same review twice could be in two splits
            seen.add(text)
            fresh, film = row["category"] == "fresh", row["movie_name"]
            yield split_by(film), Example(text, None, fresh, film)

    return _collect(rows())


def _questions() -> Splits:
    """TREC: what kind of answer does a question ask for?"""

    def rows() -> Iterator[tuple[str, object]]:
        (content,) = read("questions").values()
        seen: set[str] = set()
        for line in content.decode("utf-8", "replace").splitlines():
            label, _, text = line.partition(" ")
            kind = label.partition(":")[0]
            if kind in QUESTION_TYPES and text not in seen:
                seen.add(text)
                yield split_by(text), Example(text, None, QUESTION_TYPES.index(kind), text)

    return _collect(rows())


def _valence() -> Splits:
    """How good or bad does it sound, from -4 to 4? Means of some twenty people (Hutto, 2014)."""

    def rows() -> Iterator[tuple[str, object]]:
        seen: set[str] = set()
        for member, content in sorted(read("valence").items()):
            lines = content.decode("utf-8", "replace").splitlines()
            for line in lines[1:]:
                name, value, text = (line.split("\t", 2) + ["", ""])[:3]
                text = " ".join(text.split())
                if not text or text in seen:
                    continue
                seen.add(text)
                source = f"{member} {name.partition('_')[0]}"  # the pieces of one review together
                yield split_by(source), Example(text, None, float(value), source)

    return _collect(rows())


# -- derived from the encyclopedia, whose split is that of pre-training


@lru_cache(maxsize=1)
def _articles() -> dict[str, list[Document]]:
    """Articles with a topic, by split, in the order of their titles."""
    found: dict[str, list[Document]] = {split: [] for split in SPLITS}
    for document in load_documents("encyclopedia"):
        if document.topic in TOPICS:
            found[document.split].append(document)
    return {split: sorted(some, key=lambda d: d.title) for split, some in found.items()}


def _by_topic(split: str) -> dict[str, list[Document]]:
    found = defaultdict(list)
    for document in _articles()[split]:
        found[str(document.topic)].append(document)
    return found


Make = Callable[[Document, list[Document], int, np.random.Generator], object | None]
DRAWS = {"train": 1, "dev": 3, "test": 3}  # held-out articles are few: ask more of each


def _per_article(make: Make, name: str) -> Splits:
    """Make examples of each article, given the articles of its topic and split, and a number."""

    def rows() -> Iterator[tuple[str, object]]:
        for split in SPLITS:
            for articles in _by_topic(split).values():
                for article in articles:
                    for draw in range(DRAWS[split]):
                        dice = _dice(name, article.title, str(draw))
                        example = make(article, articles, draw, dice)
                        if example is not None:
                            yield split, example

    return _collect(rows())


def _one(items: list[str], dice: np.random.Generator) -> str:
    return items[int(dice.integers(len(items)))]


def _turn(count: int, title: str) -> list[int]:
    """Return the numbers up to ``count`` in an order that only the title decides."""
    return [int(i) for i in _dice("turn", title).permutation(count)]


def _other(
    article: Document, articles: list[Document], dice: np.random.Generator, need: int = 1
) -> Document:
    """Draw another article with at least ``need`` sentences."""
    for _ in range(1000):
        found = articles[int(dice.integers(len(articles)))]
        if found.title != article.title and len(found.sentences()) >= need:
            return found
    raise TaskError(f"no article beside {article.title!r} under {article.topic!r} is long enough")


def _body(article: Document) -> list[str]:
    """Sentences of some length after the first, which names and defines."""
    return [s for s in article.sentences()[1:] if len(s.split()) >= 5]


def _topic() -> Splits:
    """Which of eleven headings is this sentence's article under?"""

    def make(
        article: Document, _: list[Document], draw: int, dice: np.random.Generator
    ) -> object | None:
        body = _body(article)
        if draw >= len(body):
            return None
        text = body[_turn(len(body), article.title)[draw]]
        return Example(text, None, TOPICS.index(str(article.topic)), article.title)

    return _per_article(make, "topic")


def _description() -> Splits:
    """Does this description fit this text? If not, it is of another article under the heading."""

    def make(
        article: Document, articles: list[Document], draw: int, dice: np.random.Generator
    ) -> object | None:
        body = _body(article)[2 * draw : 2 * draw + 2]
        if not body or not article.description:
            return None
        fits = bool(dice.random() < 0.5)
        description: str | None = article.description
        while not fits and (not description or description == article.description):
            description = _other(article, articles, dice).description
        return Example(str(description), " ".join(body), fits, article.title)

    return _per_article(make, "description")


def _next() -> Splits:
    """Which of four sentences comes next? Three are of other articles under the heading."""

    def make(
        article: Document, articles: list[Document], draw: int, dice: np.random.Generator
    ) -> object | None:
        sentences = article.sentences()
        if len(sentences) < 3 + draw:
            return None
        t = 1 + _turn(len(sentences) - 2, article.title)[draw]
        endings = [sentences[t + 1]]
        while len(endings) < 4:
            # from the third sentence on, like the right one: else the place would tell
            other = _one(_other(article, articles, dice, need=3).sentences()[2:], dice)
            if other not in endings:
                endings.append(other)
        order = dice.permutation(4)
        label = int(order.argmin())
        return Choice(sentences[t], tuple(endings[i] for i in order), label, article.title)

    return _per_article(make, "next")


def title_places(title: str, text: str) -> list[int]:
    """Return the characters at which a title begins in a text, as words of their own."""
    return [m.start() for m in re.finditer(rf"(?<!\w){re.escape(title)}(?!\w)", text)]


def _answer(none_share: float) -> Callable[[], Splits]:
    """Who or what is described? Mark it in the openings of several articles, under any heading.

    Of the articles under one heading, a model of our size can hardly tell which is described.
    """
    name = "answer" if not none_share else "answer or none"

    def make(
        article: Document, _: list[Document], draw: int, dice: np.random.Generator
    ) -> object | None:
        opening = " ".join(article.sentences()[:2])
        if not article.description or not title_places(article.title, opening):
            return None
        if article.title.lower() in article.description.lower():
            return None  # the question would contain its answer
        question = f"{article.title} {draw + 1}"
        texts = {article.title: opening}
        while len(texts) < 4:
            other = _other(article, _articles()[article.split], dice)
            texts[other.title] = " ".join(other.sentences()[:2])
        answerable = bool(dice.random() >= none_share)
        titles = [t for t in texts if t != article.title][: 2 if answerable else 3]
        if not answerable:
            context = " ".join(texts[t] for t in titles)
            if title_places(article.title, context):
                return None  # mentioned by another article after all
            return Question(question, article.description, context, (), article.title)
        own = int(dice.integers(3))
        titles.insert(own, article.title)
        context = " ".join(texts[t] for t in titles)
        begins = sum(len(texts[t]) + 1 for t in titles[:own])
        ends = begins + len(opening)
        starts = [s for s in title_places(article.title, context) if begins <= s < ends]
        answers = tuple((article.title, start) for start in starts)
        return Question(question, article.description, context, answers, article.title)

    return lambda: _per_article(make, name)


_WORD = re.compile(r"\w+(?:[-'’]\w+)*|[^\w\s]")


def split_words(text: str) -> tuple[str, ...]:
    """Cut a sentence into words and punctuation: the units that are tagged."""
    return tuple(_WORD.findall(text))


def _entities() -> Splits:
    """Mark places, people and living things; those of the test articles occur in no training text.

    A mention is the title of an article, word for word. Titles of one common word in lower case
    are left alone, since they are seldom meant.
    """
    kinds, split_of_title = {}, {}
    for split, articles in _articles().items():
        for article in articles:
            title = article.title
            if article.topic in ENTITY_TYPES and title[:1].isupper() and len(title) > 3:
                words = split_words(title)
                kinds[words] = ENTITY_TYPES[str(article.topic)]
                split_of_title[words] = split
    longest = max(map(len, kinds), default=0)

    def tag(sentence: str, source: str) -> tuple[Tagged, list[tuple[str, ...]]]:
        words = split_words(sentence)
        tags, mentions, i = ["O"] * len(words), [], 0
        while i < len(words):
            for size in range(min(longest, len(words) - i), 0, -1):
                span = words[i : i + size]
                if span in kinds and (i > 0 or size > 1):
                    kind = kinds[span]
                    tags[i : i + size] = [f"B-{kind}", *[f"I-{kind}"] * (size - 1)]
                    mentions.append(span)
                    i += size - 1
                    break
            i += 1
        return Tagged(words, tuple(tags), source), mentions

    def rows() -> Iterator[tuple[str, object]]:
        for split, articles in _articles().items():
            for article in articles:
                for sentence in article.sentences():
                    example, mentions = tag(sentence, article.title)
                    if not mentions or len(example.words) > 60:
                        continue
                    if split == "train" and any(split_of_title[m] != "train" for m in mentions):
                        continue  # its entity is to be met for the first time in the test
                    yield split, example

    return _collect(rows())


TASKS = {
    task.name: task
    for task in (
        Task(
            "sentiment",
            "classification",
            "film reviews, fresh or rotten (the role of SST-2)",
            ("rotten", "fresh"),
            "accuracy",
            _sentiment,
        ),
        Task(
            "topic",
            "classification",
            "the heading of a sentence's article, of eleven; derived",
            TOPICS,
            "accuracy",
            _topic,
        ),
        Task(
            "questions",
            "classification",
            "what kind of answer a question asks for (TREC), of six",
            QUESTION_TYPES,
            "accuracy",
            _questions,
        ),
        Task(
            "valence",
            "regression",
            "how good it sounds, -4 to 4, as people rated it (the role of STS-B)",
            (),
            "pearson",
            _valence,
        ),
        Task(
            "description",
            "classification",
            "does a description fit a text? (the role of QNLI); derived",
            ("no", "yes"),
            "accuracy",
            _description,
            pairs=True,
        ),
        Task(
            "next",
            "choice",
            "which of four sentences comes next? (the role of SWAG); derived",
            (),
            "accuracy",
            _next,
        ),
        Task(
            "answer",
            "span",
            "who or what is described? Mark it in a text (the role of SQuAD 1.1); derived",
            (),
            "f1",
            _answer(0.0),
        ),
        Task(
            "answer-or-none",
            "span",
            "the same, where one text in three has no answer (the role of SQuAD 2.0); derived",
            (),
            "f1",
            _answer(1 / 3),
        ),
        Task(
            "entities",
            "tagging",
            "places, people and living things, those of the test unseen (CoNLL's role); derived",
            TAGS,
            "f1",
            _entities,
        ),
    )
}


def load_task(name: str, folder: Path | None = None) -> tuple[Task, Splits]:
    """Return a task, ours or a benchmark of the paper, and its checked examples by split.

    A benchmark (see `bertedu.finetuning.benchmarks`) is read from the network, or from its
    published files in ``folder``.

    Raises
    ------
    TaskError
        There is no such task, or its data cannot be used.
    bertedu.text.sources.SourceError
        Its source cannot be fetched.

    """
    from bertedu.finetuning.benchmarks import BENCHMARKS, benchmark  # it imports this module

    if name not in TASKS and name not in BENCHMARKS:
        raise TaskError(f"no task {name!r}: choose one of {', '.join((*TASKS, *BENCHMARKS))}")
    task = TASKS[name] if name in TASKS else benchmark(name, folder)
    splits = task.load()
    check_examples(task, splits)
    return task, splits


def describe_task(task: Task, splits: Splits) -> dict[str, object]:
    """Say how large a task is, and what needs no model at all, on its test examples.

    ``chance``: the expected score of guessing evenly; ``majority``: of the most frequent answer of
    the training split. For accuracy only; other measures have none that is worth knowing.
    """
    about: dict[str, object] = {"task": task.name, "kind": task.kind}
    about |= {split: len(splits[split]) for split in SPLITS}
    if task.metric != "accuracy":
        return about
    labels = {
        split: [int(e.label) for e in splits[split] if isinstance(e, Example | Choice)]
        for split in SPLITS
    }
    sizes = [len(e.endings) for e in splits["test"] if isinstance(e, Choice)]
    classes = len(task.labels) or sizes[0]
    most = max(range(classes), key=labels["train"].count)
    test = labels["test"]
    return about | {"chance": 1 / classes, "majority": test.count(most) / len(test)}
