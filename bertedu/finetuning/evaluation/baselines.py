"""What a skeptic would try first: no model at all, and counted words with a linear model."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.feature_extraction import DictVectorizer
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS, TfidfVectorizer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.preprocessing import normalize

from bertedu.finetuning.evaluation.metrics import best_threshold
from bertedu.finetuning.examples import Question, Splits, Task
from bertedu.finetuning.kinds import Answer
from bertedu.finetuning.tagging import iob2
from bertedu.text.corpus import split_sentences

BASELINES = ("majority", "word counts")
STRENGTHS = (0.1, 1.0, 10.0, 100.0)  # of LogisticRegression, C; chosen on dev
SCORED = ("dev", "test")
# letters of Thai, Lao, Burmese, Khmer, Japanese and Chinese
_NO_SPACES = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]")
Answers = dict[str, list[Answer]]  # of dev and test


def baseline_answers(name: str, task: Task, splits: Splits) -> Answers:
    """Return the answers of one of `BASELINES` on dev and test.

    "majority" is the most frequent answer of the training split; for a number its mean, for tags
    "no entity", for a span the first word of the text (or "none", where it can be).
    """
    if name != "majority":
        return word_count_answers(task, splits)
    train = splits["train"]
    if task.kind == "tagging":
        return {s: [Answer((task.labels[0],) * len(e.words)) for e in splits[s]] for s in SCORED}
    if task.kind == "span" and all(e.answers for e in train):
        return {s: [Answer(e.context.split()[0]) for e in splits[s]] for s in SCORED}
    if task.kind == "span":
        answer = Answer("")
    elif task.kind == "regression":
        answer = Answer(float(np.mean([e.label for e in train])))
    else:
        answer = Answer(Counter(int(e.label) for e in train).most_common(1)[0][0])
    return {s: [answer] * len(splits[s]) for s in SCORED}


def word_count_answers(task: Task, splits: Splits) -> Answers:
    """Answer dev and test by counted words and a linear model.

    TF-IDF of words (letters, if no spaces part them) and their pairs, and logistic regression; for
    two texts also the words that they share; for tags the word, its neighbors and its shape; for an
    answer no model: of the sentence that shares most with the question the first words in capitals.
    """
    own_way = {"tagging": _tags, "span": _spans, "choice": _endings}.get(task.kind)
    return own_way(splits) if own_way else _classes(task, splits)


def _vectorizer(texts: Sequence[str], longest: int = 2, texts_at_least: int = 2) -> TfidfVectorizer:
    how = {"ngram_range": (1, longest), "min_df": texts_at_least, "sublinear_tf": True}
    if 2 * len(_NO_SPACES.findall(whole := "".join(texts))) > len(whole):
        how["analyzer"] = "char"
    try:
        return TfidfVectorizer(**how).fit(texts)
    except ValueError:  # not a word stands in two of them: letters, then
        return TfidfVectorizer(analyzer="char").fit(texts)


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


def _logistic(strengths: Sequence[float] = STRENGTHS) -> list[LogisticRegression]:
    return [LogisticRegression(C=strength, max_iter=1000) for strength in strengths]


def _best_on_dev(models: Iterable[Any], x: Mapping[str, Any], y: Mapping[str, Any]) -> Any:
    """Fit models, and return the one that scores best on dev."""
    fitted = [model.fit(x["train"], y["train"]) for model in models]
    return max(fitted, key=lambda model: model.score(x["dev"], y["dev"]))


def _classes(task: Task, splits: Splits) -> Answers:
    numbers = task.kind == "regression"
    texts = {s: [e.text for e in some] for s, some in splits.items()}
    pairs = {s: [e.pair or "" for e in some] for s, some in splits.items()}
    dtype = float if numbers else int
    y = {s: np.array([e.label for e in some], dtype) for s, some in splits.items()}
    vectorizer = _vectorizer(texts["train"] + [pair for pair in pairs["train"] if pair])
    if any(pairs["train"]):
        x = {s: _together(vectorizer, texts[s], pairs[s]) for s in splits}
    else:
        x = {s: vectorizer.transform(texts[s]) for s in splits}
    best = _best_on_dev([Ridge(1 / c) for c in STRENGTHS] if numbers else _logistic(), x, y)
    return {s: [Answer(value) for value in best.predict(x[s]).tolist()] for s in SCORED}


def _endings(splits: Splits) -> Answers:
    """Is this the ending that follows? Asked of each alone; the likeliest wins."""
    pairs = {s: [(e.text, end) for e in some for end in e.endings] for s, some in splits.items()}
    vectorizer = _vectorizer([text for pair in pairs["train"] for text in pair])
    x = {s: _together(vectorizer, *zip(*some, strict=True)) for s, some in pairs.items()}
    right = [i == e.label for e in splits["train"] for i in range(len(e.endings))]

    def chosen(model: LogisticRegression, split: str) -> list[int]:
        ends = np.cumsum([len(e.endings) for e in splits[split]])
        parts = np.split(model.decision_function(x[split]), ends[:-1])
        return [int(part.argmax()) for part in parts]

    best = max(
        (model.fit(x["train"], right) for model in _logistic()),
        key=lambda m: np.mean(np.equal(chosen(m, "dev"), [e.label for e in splits["dev"]])),
    )
    return {s: [Answer(number) for number in chosen(best, s)] for s in SCORED}


def _word_facts(words: Sequence[str], i: int) -> dict[str, str | bool]:
    before, word, after = ("(edge)", *words, "(edge)")[i : i + 3]
    return {
        "word": word.lower(),
        "before": before.lower(),
        "after": after.lower(),
        "ending": word[-3:].lower(),
        "capital": word[:1].isupper(),
        "capital before": before[:1].isupper(),
        "capital after": after[:1].isupper(),
        "first": i == 0,
    }


def _tags(splits: Splits) -> Answers:
    facts = {
        s: [_word_facts(e.words, i) for e in some for i in range(len(e.words))]
        for s, some in splits.items()
    }
    tags = {s: [tag for e in some for tag in e.tags] for s, some in splits.items()}
    vectorizer = DictVectorizer().fit(facts["train"])
    x = {s: vectorizer.transform(some) for s, some in facts.items()}
    best = _best_on_dev(_logistic((1.0, 10.0)), x, tags)
    answers = {}
    for split in SCORED:
        predicted = iter(best.predict(x[split]).tolist())
        # word by word, a linear model does not see to it that an entity begins with B-
        answers[split] = [Answer(iob2([next(predicted) for _ in e.words])) for e in splits[split]]
    return answers


def _spans(splits: Splits) -> Answers:
    train = splits["train"]
    vectorizer = _vectorizer([text for e in train for text in (e.question, e.context)], 1, 1)
    answers, threshold = {}, np.inf
    for split in SCORED:  # dev first: it sets the threshold
        nearest = {e.name: _nearest_capitals(e, vectorizer) for e in splits[split]}
        if split == "dev" and any(not e.answers for e in train):
            texts = {name: text for name, (text, _) in nearest.items()}
            none = {name: -alike for name, (_, alike) in nearest.items()}
            threshold = best_threshold(splits[split], texts, none)
        answers[split] = [
            Answer("" if -alike > threshold else text) for text, alike in nearest.values()
        ]
    return answers


def _nearest_capitals(question: Question, vectorizer: TfidfVectorizer) -> tuple[str, float]:
    """Return the first words in capitals of the likest sentence, and how alike it is."""
    sentences = split_sentences(question.context) or [question.context]
    asked = vectorizer.transform([question.question])
    alike = (vectorizer.transform(sentences) @ asked.T).toarray()
    words = sentences[int(alike.argmax())].split()
    capital = [word[:1].isupper() for word in words]
    starts = (i for i in np.flatnonzero(capital) if words[i].lower() not in ENGLISH_STOP_WORDS)
    last = first = next(starts, 0)
    while last + 1 < len(words) and capital[last + 1] and not words[last].endswith(","):
        last += 1
    return " ".join(words[first : last + 1]).strip(",.;:()"), float(alike.max())
