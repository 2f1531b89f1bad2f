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
from functools import cache, partial
from itertools import product
from typing import Any

import numpy as np

from bertedu.files import table_beside
from bertedu.finetuning.evaluation.benchmarks import BENCHMARKS, benchmark
from bertedu.finetuning.examples import (
    SPLITS,
    AnyExample,
    Choice,
    Example,
    Question,
    Splits,
    Tagged,
    Task,
    TaskError,
    check_examples,
    collect,
    split_by,
)
from bertedu.finetuning.tagging import known_spans
from bertedu.text.corpus import Document, load_documents
from bertedu.text.sources import read

_TABLE: dict[str, dict[str, Any]] = {
    name: {key: tuple(x) if isinstance(x, list) else x for key, x in entry.items()}
    for name, entry in table_beside(__file__).items()
}
TOPICS, QUESTION_TYPES = (_TABLE[name]["labels"] for name in ("topic", "questions"))
ENTITY_TYPES = {"Geography": "PLACE", "People": "PERSON", "Biology and health sciences": "LIFE"}
Rows = Iterator[tuple[str, AnyExample]]  # with the split of each
Dice = np.random.Generator
Articles = list[Document]


# -- examples out of the encyclopedia, whose split is that of pre-training


@cache
def _articles() -> dict[str, Articles]:
    """Articles with a topic, by split, in the order of their titles."""
    articles: dict[str, Articles] = {split: [] for split in SPLITS}
    for document in sorted(load_documents("encyclopedia"), key=lambda d: d.title):
        if document.topic in TOPICS:
            articles[document.split].append(document)
    return articles


Make = Callable[[Document, Articles, int, Dice], AnyExample | None]
DRAWS = {"train": 1, "dev": 3, "test": 3}  # held-out articles are few: ask more of each


def _per_article(make: Make, name: str) -> Rows:
    """Make examples of each article, given the articles of its topic and split, and a number."""
    for split, articles in _articles().items():
        by_topic = defaultdict(list)
        for article in articles:
            by_topic[article.topic].append(article)
        for some in by_topic.values():
            for article, draw in product(some, range(DRAWS[split])):
                generator = _dice(name, article.title, str(draw))
                if example := make(article, some, draw, generator):
                    yield split, example


def _dice(*names: str) -> Dice:
    digest = hashlib.sha256("\0".join(names).encode("utf-8")).digest()
    return np.random.default_rng(int.from_bytes(digest[:8], "big"))


def _turn(count: int, title: str) -> list[int]:
    """Return the numbers up to ``count`` in an order that only the title decides."""
    return [int(i) for i in _dice("turn", title).permutation(count)]


@cache
def _sentences(article: Document) -> tuple[str, ...]:
    """Cut an article once: it is drawn many times."""
    return tuple(article.sentences())


def _other(article: Document, articles: Articles, generator: Dice, need: int = 1) -> Document:
    """Draw another article with at least ``need`` sentences."""
    for _ in range(1000):
        other = articles[int(generator.integers(len(articles)))]
        if other.title != article.title and len(_sentences(other)) >= need:
            return other
    raise TaskError(f"no article beside {article.title!r} under {article.topic!r} is long enough")


def _body(article: Document) -> list[str]:
    """Sentences of some length after the first, which names and defines."""
    return [s for s in _sentences(article)[1:] if len(s.split()) >= 5]


# -- the tasks


def _sentiment() -> Rows:
    """Film reviews, fresh (1) or rotten (0); a film's reviews are all in one split."""
    (content,) = read("sentiment").values()
    seen = {""}
    for row in csv.DictReader(io.StringIO(bz2.decompress(content).decode("utf-8"))):
        text, film = " ".join(row["text"].split()), row["movie_name"]
        if row["category"] not in ("fresh", "rotten") or text in seen:
            continue  # a plot is no review; the same review twice could be in two splits
        seen.add(text)
        yield split_by(film), Example(text, None, row["category"] == "fresh", film)


def _topic(article: Document, _: Articles, draw: int, generator: Dice) -> Example | None:
    """Which of eleven headings is this sentence's article under?"""
    body = _body(article)
    if draw >= len(body):
        return None
    text = body[_turn(len(body), article.title)[draw]]
    return Example(text, None, TOPICS.index(str(article.topic)), article.title)


def _questions() -> Rows:
    """TREC: what kind of answer does a question ask for?"""
    (content,) = read("questions").values()
    seen: set[str] = set()
    for line in content.decode("utf-8", "replace").splitlines():
        label, _, text = line.partition(" ")
        kind = label.partition(":")[0]
        if kind in QUESTION_TYPES and text not in seen:
            seen.add(text)
            yield split_by(text), Example(text, None, QUESTION_TYPES.index(kind), text)


def _valence() -> Rows:
    """How good or bad does it sound, from -4 to 4? Means of some twenty people (Hutto, 2014)."""
    seen = {""}
    for member, content in sorted(read("valence").items()):
        for line in content.decode("utf-8", "replace").splitlines()[1:]:
            name, value, text = (line.split("\t", 2) + ["", ""])[:3]
            text = " ".join(text.split())
            if text not in seen:
                seen.add(text)
                source = f"{member} {name.partition('_')[0]}"  # the pieces of one review together
                yield split_by(source), Example(text, None, float(value), source)


def _description(
    article: Document, articles: Articles, draw: int, generator: Dice
) -> Example | None:
    """Does this description fit this text? If not, it is of another article under the heading."""
    body = _body(article)[2 * draw : 2 * draw + 2]
    if not body or not article.description:
        return None
    fits = bool(generator.random() < 0.5)
    description: str | None = article.description
    while not fits and (not description or description == article.description):
        description = _other(article, articles, generator).description
    return Example(str(description), " ".join(body), fits, article.title)


def _next(article: Document, articles: Articles, draw: int, generator: Dice) -> Choice | None:
    """Which of four sentences comes next? Three are of other articles under the heading."""
    sentences = _sentences(article)
    if len(sentences) < 3 + draw:
        return None
    t = 1 + _turn(len(sentences) - 2, article.title)[draw]
    endings = [sentences[t + 1]]
    while len(endings) < 4:
        # from the third sentence on, like the right one: else the place would tell
        others = _other(article, articles, generator, need=3).sentences()[2:]
        other = others[int(generator.integers(len(others)))]
        if other not in endings:
            endings.append(other)
    order = generator.permutation(4)
    label = int(order.argmin())
    return Choice(sentences[t], tuple(endings[i] for i in order), label, article.title)


def title_positions(title: str, text: str) -> list[int]:
    """Return the characters at which a title begins in a text, as words of their own."""
    return [m.start() for m in re.finditer(rf"(?<!\w){re.escape(title)}(?!\w)", text)]


@cache
def _opening(article: Document, sentences: int) -> str:
    """Return the first sentences of an article, or "" if its title does not stand in them."""
    opening = " ".join(_sentences(article)[:sentences])
    return opening if title_positions(article.title, opening) else ""


def _answer(
    article: Document,
    _: Articles,
    draw: int,
    generator: Dice,
    none_share: float = 0.0,
    sentences: int = 2,
) -> Question | None:
    """Who or what is described? Mark it in the openings of several articles, under any heading.

    Of the articles under one heading, a model of our size can hardly tell which is described. Each
    opening, of so many ``sentences``, has the title of its own article in it: one that had not
    could be left out without a look at the question.
    """
    opening = _opening(article, sentences)
    if not opening or not article.description:
        return None
    if article.title.lower() in article.description.lower():
        return None  # the question would contain its answer
    texts = {article.title: opening}
    while len(texts) < 4:
        other = _other(article, _articles()[article.split], generator)
        if text := _opening(other, sentences):
            texts[other.title] = text
    titles = list(texts)[1:]
    name, answers = f"{article.title} {draw + 1}", []
    if generator.random() >= none_share:
        own = int(generator.integers(3))
        titles = [*titles[:own], article.title, *titles[own:2]]
        begins = sum(len(texts[t]) + 1 for t in titles[:own])
        answers = [(article.title, begins + s) for s in title_positions(article.title, opening)]
    context = " ".join(texts[t] for t in titles)
    if not answers and title_positions(article.title, context):
        return None  # mentioned by another article after all
    return Question(name, article.description, context, tuple(answers), article.title)


def short_answers() -> Splits:
    """Return the questions of "answer" in the shortest form: one sentence of each article."""
    return collect(_per_article(partial(_answer, sentences=1), "answer"))


def split_words(text: str) -> tuple[str, ...]:
    """Cut as the committed rows were: a mark above a letter, rare here, is a word of its own."""
    return tuple(re.findall(r"\w+(?:[-'’]\w+)*|[^\w\s]", text))


def _entities() -> Rows:
    """Mark places, people and living things; those of the test articles occur in no training text.

    A mention is the title of an article, word for word. Titles of one common word in lower case
    are left alone, since they are seldom meant; so is a single word at the head of a sentence.
    """
    known = {
        split_words(article.title): (ENTITY_TYPES[article.topic], split)
        for split, articles in _articles().items()
        for article in articles
        if article.topic in ENTITY_TYPES and article.title[:1].isupper() and len(article.title) > 3
    }
    longest = max(map(len, known), default=0)
    for split, articles in _articles().items():
        for article in articles:
            for sentence in _sentences(article):
                words = split_words(sentence)
                spans = [span for span in known_spans(words, known, longest) if span != (0, 1)]
                if not spans or len(words) > 60:
                    continue
                met = [known[words[start:end]] for start, end in spans]
                if split == "train" and any(of != "train" for _, of in met):
                    continue  # its entity is to be met for the first time in the test
                tags = ["O"] * len(words)
                for (start, end), (kind, _) in zip(spans, met, strict=True):
                    tags[start:end] = [f"B-{kind}", *[f"I-{kind}"] * (end - start - 1)]
                yield split, Tagged(words, tuple(tags), article.title)


def _bare_words(article: Document) -> list[tuple[str, str, bool]]:
    """Return the words of an article without punctuation: what followed each, and its capital.

    What followed is "COMMA", "STOP" (the end of a sentence) or "". The first word of a sentence
    has a capital in any case, so its own is not counted.
    """
    words: list[tuple[str, str, bool]] = []
    for sentence in _sentences(article):
        begin = len(words)
        for token in sentence.split():
            word = re.sub(r"^\W+|\W+$", "", token)
            if word:
                comma = "," in token[token.rindex(word) + len(word) :]
                capital = word[0].isupper() and len(words) > begin
                words.append((word, "COMMA" if comma else "", capital))
        if len(words) > begin:
            words[-1] = (words[-1][0], "STOP", words[-1][2])
    return words


BARE_LENGTH = 50  # words of a text whose punctuation, or capitals, are to be restored


def _restore(
    article: Document, _: Articles, draw: int, generator: Dice, capitals: bool
) -> Tagged | None:
    """Which words were followed by a comma or a full stop, or began with a capital?

    The text is a stretch of an article in lower case and without punctuation, as a speech
    recognizer writes it.
    """
    some = _bare_words(article)[BARE_LENGTH * draw : BARE_LENGTH * (draw + 1)]
    if len(some) < BARE_LENGTH:
        return None
    marks = ["CAPITAL" * capital if capitals else mark for _, mark, capital in some]
    tags = tuple(f"B-{mark}" if mark else "O" for mark in marks)
    return Tagged(tuple(word.lower() for word, _, _ in some), tags, article.title)


# -- the table


def _load(name: str) -> Splits:
    return collect(_ROWS[name]())


_ROWS: dict[str, Callable[[], Rows]] = {
    "sentiment": _sentiment,
    "topic": partial(_per_article, _topic, "topic"),
    "questions": _questions,
    "valence": _valence,
    "description": partial(_per_article, _description, "description"),
    "next": partial(_per_article, _next, "next"),
    "answer": partial(_per_article, _answer, "answer"),
    "answer-or-none": partial(_per_article, partial(_answer, none_share=1 / 3), "answer or none"),
    "entities": _entities,
    # one stretch, two questions: the marks are drawn from the same words
    "punctuation": partial(_per_article, partial(_restore, capitals=False), "restore"),
    "capitals": partial(_per_article, partial(_restore, capitals=True), "restore"),
}
TASKS = {name: Task(name, load=partial(_load, name), **entry) for name, entry in _TABLE.items()}


# -- any task by its name


def load_task(name: str) -> tuple[Task, Splits]:
    """Return a task, ours or a benchmark of the paper, and its checked examples by split.

    A benchmark (see `bertedu.finetuning.evaluation.benchmarks`) is read from the Hugging Face Hub.
    Raises TaskError if there is no such task, or its data cannot be used, and SourceError if its
    source cannot be fetched.
    """
    if name not in TASKS | BENCHMARKS:
        raise TaskError(f"no task {name!r}: choose one of {', '.join(TASKS | BENCHMARKS)}")
    task = TASKS.get(name) or benchmark(name)
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
    if task.metric == "accuracy":
        train, test = ([int(e.label) for e in splits[split]] for split in ("train", "test"))
        classes = len(task.labels) or len(splits["test"][0].endings)
        most = max(range(classes), key=train.count)
        about |= {"chance": 1 / classes, "majority": test.count(most) / len(test)}
    return about
