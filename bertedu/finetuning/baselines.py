"""What a sceptic would try first: no model at all, and counted words with a linear model."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp
from sklearn.feature_extraction import DictVectorizer
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS, TfidfVectorizer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.preprocessing import normalize

from bertedu.finetuning.examples import (
    AnyExample,
    Choice,
    Example,
    Question,
    Splits,
    Tagged,
    Task,
)
from bertedu.finetuning.kinds import Answer
from bertedu.finetuning.metrics import best_threshold
from bertedu.text.corpus import split_sentences

STRENGTHS = (0.1, 1.0, 10.0, 100.0)  # of LogisticRegression, C; chosen on dev


# -- no model at all


def majority_answers(task: Task, splits: Splits, split: str) -> list[Answer]:
    """Always give the most frequent answer of the training split.

    For a number its mean, for tags "no entity", for a span the first word of the text (or "none",
    where it can be).
    """
    examples = splits[split]
    train = splits["train"]
    if task.kind == "regression":
        mean = float(np.mean([e.label for e in train if isinstance(e, Example)]))
        return [Answer(mean)] * len(examples)
    if task.kind == "tagging":
        return [Answer((task.labels[0],) * len(e.words)) for e in examples if isinstance(e, Tagged)]
    if task.kind == "span":
        none = any(isinstance(e, Question) and not e.answers for e in train)
        return [
            Answer("" if none else e.context.split()[0])
            for e in examples
            if isinstance(e, Question)
        ]
    counts = Counter(int(e.label) for e in train if isinstance(e, Example | Choice))
    return [Answer(counts.most_common(1)[0][0])] * len(examples)


# -- counted words


def word_count_answers(task: Task, splits: Splits) -> dict[str, list[Answer]]:
    """Answer dev and test by counted words and a linear model.

    TF-IDF of words and word pairs and logistic regression; for two texts also the words that they
    share; for tags the word, its neighbors and its shape; for an answer no model, but the sentence
    that shares most with the question, and in it the first words in capitals.
    """
    if task.kind == "tagging":
        return _tags(splits)
    if task.kind == "span":
        return _spans(splits)
    if task.kind == "choice":
        return _endings(splits)
    return _classes(task, splits)


def _vectorizer(texts: Sequence[str]) -> TfidfVectorizer:
    return TfidfVectorizer(ngram_range=(1, 2), min_df=2, sublinear_tf=True).fit(texts)


def _together(
    vectorizer: TfidfVectorizer, texts: Sequence[str], pairs: Sequence[str]
) -> sp.csr_matrix:
    """Words of the first text, of the second, of both, and how alike the two are.

    What two texts share is little and rare, so it is made as large as the rest: else a linear
    model with few examples would not see it.
    """
    a, b = vectorizer.transform(texts), vectorizer.transform(pairs)
    both = a.multiply(b)
    alike = sp.csr_matrix(both.sum(axis=1))
    return sp.hstack([a, b, normalize(both), 10 * alike]).tocsr()


def _classes(task: Task, splits: Splits) -> dict[str, list[Answer]]:
    texts = {s: [e.text for e in some if isinstance(e, Example)] for s, some in splits.items()}
    pairs = {
        s: [e.pair or "" for e in some if isinstance(e, Example)] for s, some in splits.items()
    }
    labels = {
        s: np.array([e.label for e in some if isinstance(e, Example)]) for s, some in splits.items()
    }
    vectorizer = _vectorizer(texts["train"] + [pair for pair in pairs["train"] if pair])
    if any(pairs["train"]):
        x = {s: _together(vectorizer, texts[s], pairs[s]) for s in splits}
    else:
        x = {s: vectorizer.transform(texts[s]) for s in splits}
    if task.kind == "regression":
        models = [Ridge(1 / strength).fit(x["train"], labels["train"]) for strength in STRENGTHS]
        best = max(models, key=lambda m: m.score(x["dev"], labels["dev"]))
        return {s: [Answer(float(v)) for v in best.predict(x[s])] for s in ("dev", "test")}
    best = max(
        (
            _logistic(strength).fit(x["train"], labels["train"].astype(int))
            for strength in STRENGTHS
        ),
        key=lambda m: m.score(x["dev"], labels["dev"].astype(int)),
    )
    return {s: [Answer(int(v)) for v in best.predict(x[s])] for s in ("dev", "test")}


def _logistic(strength: float) -> LogisticRegression:
    return LogisticRegression(C=strength, max_iter=1000)


def _endings(splits: Splits) -> dict[str, list[Answer]]:
    """Is this the ending that follows? Asked of each alone; the likeliest wins."""
    rows = {
        s: [
            (e.text, end, i == e.label)
            for e in some
            if isinstance(e, Choice)
            for i, end in enumerate(e.endings)
        ]
        for s, some in splits.items()
    }
    vectorizer = _vectorizer([text for a, b, _ in rows["train"] for text in (a, b)])
    x = {
        s: _together(vectorizer, [r[0] for r in some], [r[1] for r in some])
        for s, some in rows.items()
    }
    right = np.array([r[2] for r in rows["train"]])
    labels = {
        s: np.array([e.label for e in some if isinstance(e, Choice)]) for s, some in splits.items()
    }
    found = {}
    for strength in STRENGTHS:
        model = _logistic(strength).fit(x["train"], right)
        found[strength] = {
            s: _argmax_by_example(model.decision_function(x[s]), splits[s]) for s in ("dev", "test")
        }
    best = max(STRENGTHS, key=lambda c: float(np.mean(found[c]["dev"] == labels["dev"])))
    return {s: [Answer(int(v)) for v in found[best][s]] for s in ("dev", "test")}


def _argmax_by_example(
    scores: np.ndarray[tuple[int], np.dtype[np.float64]], examples: Sequence[AnyExample]
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    sizes = [len(e.endings) for e in examples if isinstance(e, Choice)]
    return np.array([int(part.argmax()) for part in np.split(scores, np.cumsum(sizes)[:-1])])


def _word_facts(words: Sequence[str], i: int) -> dict[str, str | bool]:
    def at(j: int) -> str:
        return words[j] if 0 <= j < len(words) else "(edge)"

    word = words[i]
    return {
        "word": word.lower(),
        "before": at(i - 1).lower(),
        "after": at(i + 1).lower(),
        "ending": word[-3:].lower(),
        "capital": word[:1].isupper(),
        "capital before": at(i - 1)[:1].isupper(),
        "capital after": at(i + 1)[:1].isupper(),
        "first": i == 0,
    }


def _tags(splits: Splits) -> dict[str, list[Answer]]:
    facts, tags = {}, {}
    for split, some in splits.items():
        sentences = [e for e in some if isinstance(e, Tagged)]
        facts[split] = [_word_facts(e.words, i) for e in sentences for i in range(len(e.words))]
        tags[split] = [tag for e in sentences for tag in e.tags]
    vectorizer = DictVectorizer().fit(facts["train"])
    x = {split: vectorizer.transform(some) for split, some in facts.items()}
    best = max(
        (_logistic(strength).fit(x["train"], tags["train"]) for strength in (1.0, 10.0)),
        key=lambda m: m.score(x["dev"], tags["dev"]),
    )
    answers = {}
    for split in ("dev", "test"):
        found = iter(best.predict(x[split]).tolist())
        answers[split] = [
            Answer(_repaired([next(found) for _ in e.words]))
            for e in splits[split]
            if isinstance(e, Tagged)
        ]
    return answers


def _repaired(tags: list[str]) -> tuple[str, ...]:
    """Let an entity begin with B-: word by word, a linear model does not see to it."""
    for i, tag in enumerate(tags):
        if tag.startswith("I-") and (i == 0 or tags[i - 1][2:] != tag[2:]):
            tags[i] = "B-" + tag[2:]
    return tuple(tags)


def _spans(splits: Splits) -> dict[str, list[Answer]]:
    train = [e for e in splits["train"] if isinstance(e, Question)]
    vectorizer = TfidfVectorizer(sublinear_tf=True).fit(
        [text for e in train for text in (e.question, e.context)]
    )
    answers, threshold = {}, np.inf
    for split in ("dev", "test"):  # dev first: it sets the threshold
        questions = [e for e in splits[split] if isinstance(e, Question)]
        found = {e.name: _nearest_capitals(e, vectorizer) for e in questions}
        if split == "dev" and any(not e.answers for e in train):
            texts = {name: text for name, (text, _) in found.items()}
            none = {name: -alike for name, (_, alike) in found.items()}
            threshold = best_threshold(questions, texts, none)
        answers[split] = [
            Answer("" if -alike > threshold else text) for text, alike in found.values()
        ]
    return answers


def _nearest_capitals(question: Question, vectorizer: TfidfVectorizer) -> tuple[str, float]:
    """Return the first words in capitals of the likest sentence, and how alike it is."""
    sentences = split_sentences(question.context) or [question.context]
    alike = (
        vectorizer.transform(sentences) @ vectorizer.transform([question.question]).T
    ).toarray()
    best = sentences[int(alike.argmax())]
    words = best.split()
    starts = [
        i
        for i, word in enumerate(words)
        if word[:1].isupper() and word.lower() not in ENGLISH_STOP_WORDS
    ]
    first = starts[0] if starts else 0
    last = first
    while last + 1 < len(words) and words[last + 1][:1].isupper() and not words[last].endswith(","):
        last += 1
    return " ".join(words[first : last + 1]).strip(",.;:()"), float(alike.max())


BASELINES = {"majority", "word counts"}


def baseline_answers(name: str, task: Task, splits: Splits) -> dict[str, list[Answer]]:
    """Return the answers of one of `BASELINES` on dev and test."""
    if name == "majority":
        return {split: majority_answers(task, splits, split) for split in ("dev", "test")}
    return word_count_answers(task, splits)
