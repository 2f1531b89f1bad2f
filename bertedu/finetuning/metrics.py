"""How good is it? Thin wrappers, and the arithmetic of SQuAD as its authors published it."""

import math
import re
import string
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import chain

import numpy as np
from scipy.stats import pearsonr, spearmanr
from seqeval.metrics import f1_score as entity_f1_score
from seqeval.scheme import IOB2
from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef

from bertedu.finetuning.examples import Question

TaskScores = dict[str, float]


def classification_scores(labels: Sequence[int], found: Sequence[int]) -> TaskScores:
    """Accuracy; mean of the F1 of each class, frequent or not; Matthews' correlation (CoLA).

    With the two classes 0 and 1 also the F1 of class 1 (MRPC, QQP).
    """
    scores = {
        "accuracy": float(accuracy_score(labels, found)),
        "macro_f1": float(f1_score(labels, found, average="macro", zero_division=0)),
        "matthews": float(matthews_corrcoef(labels, found)) if len({*labels, *found}) > 1 else 0.0,
    }
    if set(labels) | set(found) <= {0, 1}:
        scores["binary_f1"] = float(f1_score(labels, found, zero_division=0))
    return scores


def regression_scores(values: Sequence[float], found: Sequence[float]) -> TaskScores:
    """Correlation of Pearson and of Spearman; 0 if all answers are the same."""
    if len(set(found)) < 2 or len(set(values)) < 2:
        return {"pearson": 0.0, "spearman": 0.0}
    return {
        "pearson": float(pearsonr(values, found).statistic),
        "spearman": float(spearmanr(values, found).statistic),
    }


def tagging_scores(tags: Sequence[Sequence[str]], found: Sequence[Sequence[str]]) -> TaskScores:
    """F1 of whole entities, type and both ends right, as CoNLL counts; and accuracy of tags."""
    lists = [list(sentence) for sentence in tags], [list(sentence) for sentence in found]
    strict = entity_f1_score(*lists, mode="strict", scheme=IOB2, zero_division=0)
    accuracy = accuracy_score(*([*chain.from_iterable(some)] for some in lists))
    return {"f1": float(strict), "accuracy": float(accuracy)}


def normalize_answer(text: str) -> str:
    """Lower case, no punctuation, no articles, single spaces: what SQuAD calls the same answer."""
    text = "".join(c for c in text.lower() if c not in string.punctuation)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())


def exact_match(found: str, answer: str) -> float:
    """1 if both are the same once normalized."""
    return float(normalize_answer(found) == normalize_answer(answer))


def word_f1(found: str, answer: str) -> float:
    """F1 of the words that two answers share; of an empty one, 1 only if both are empty."""
    return _shared_f1(normalize_answer(found).split(), normalize_answer(answer).split())


def _shared_f1(found: Sequence[str], answer: Sequence[str]) -> float:
    if not found or not answer:
        return float(found == answer)
    same = (Counter(found) & Counter(answer)).total()
    if not same:
        return 0.0
    precision, recall = same / len(found), same / len(answer)
    return 2 * precision * recall / (precision + recall)


def character_f1(found: str, answer: str) -> float:
    """F1 of the characters that two answers share, as KorQuAD counts: Korean words inflect."""
    ignored = string.punctuation + " 《》〈〉‘’"
    return _shared_f1(*([c for c in text.lower() if c not in ignored] for text in (found, answer)))


F1 = Callable[[str, str], float]


def _best(score: F1, found: str, question: Question) -> float:
    """Score against the likest of the right answers; "" is right where there is none."""
    answers = [text for text, _ in question.answers if normalize_answer(text)] or [""]
    return max(score(found, text) for text in answers)


def squad_scores(
    questions: Sequence[Question], found: Mapping[str, str], f1_of: F1 = word_f1
) -> TaskScores:
    """Exact match and F1, the best over the right answers, in per cent as published.

    ``f1_of`` is `word_f1`, or `character_f1` for Korean. ``found`` has an answer for each
    question's name, "" for none; a question that it lacks is a KeyError. Questions without an
    answer count, too (SQuAD 2.0); with both kinds there, each is also scored by itself.
    """
    exact = np.array([_best(exact_match, found[q.name], q) for q in questions])
    f1 = np.array([_best(f1_of, found[q.name], q) for q in questions])
    answerable = np.array([bool(question.answers) for question in questions])
    scores = {"exact": 100 * float(exact.mean()), "f1": 100 * float(f1.mean())}
    if answerable.any() and not answerable.all():
        scores["answerable_f1"] = 100 * float(f1[answerable].mean())
        scores["unanswerable_f1"] = 100 * float(f1[~answerable].mean())
    return scores


def best_threshold(
    questions: Sequence[Question],
    found: Mapping[str, str],
    no_answer: Mapping[str, float],
    f1_of: F1 = word_f1,
) -> float:
    """Find the score from which on to answer "none", so that F1 is best (SQuAD 2.0).

    ``no_answer`` is high where a question seems to have no answer. Found on dev, used on test. In
    doubt the middle between two scores; infinity means "always answer".
    """
    gains = [
        (no_answer[q.name], _best(f1_of, "", q) - _best(f1_of, found[q.name], q)) for q in questions
    ]
    gains.sort(reverse=True)
    scores = [score for score, _ in gains]
    total = best = 0.0  # of staying silent on the questions that most seem to have no answer
    threshold = math.inf
    for k, (score, gain) in enumerate(gains):
        total += gain
        following = scores[k + 1] if k + 1 < len(gains) else score - 1
        if total > best + 1e-12 and following != score:  # equal scores cannot be told apart
            best, threshold = total, (score + following) / 2
    return float(threshold)
