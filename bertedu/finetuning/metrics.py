"""How good is it? Thin wrappers, and the arithmetic of SQuAD as its authors published it."""

import re
import string
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from scipy.stats import pearsonr, spearmanr
from seqeval.metrics import f1_score as entity_f1_score
from seqeval.scheme import IOB2
from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef

from bertedu.finetuning.examples import Question

Scores = dict[str, float]


def classification_scores(labels: Sequence[int], found: Sequence[int]) -> Scores:
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


def regression_scores(values: Sequence[float], found: Sequence[float]) -> Scores:
    """Correlation of Pearson and of Spearman; 0 if all answers are the same."""
    if len(set(found)) < 2 or len(set(values)) < 2:
        return {"pearson": 0.0, "spearman": 0.0}
    return {
        "pearson": float(pearsonr(values, found).statistic),
        "spearman": float(spearmanr(values, found).statistic),
    }


def tagging_scores(tags: Sequence[Sequence[str]], found: Sequence[Sequence[str]]) -> Scores:
    """F1 of whole entities, type and both ends right, as CoNLL counts; and accuracy of tags."""
    flat = [t for sentence in tags for t in sentence], [t for some in found for t in some]
    strict = entity_f1_score(
        [list(t) for t in tags],
        [list(t) for t in found],
        mode="strict",
        scheme=IOB2,
        zero_division=0,
    )
    return {"f1": float(strict), "accuracy": float(accuracy_score(*flat))}


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


def _shared_f1(mine: Sequence[str], right: Sequence[str]) -> float:
    if not mine or not right:
        return float(mine == right)
    same = sum((Counter(mine) & Counter(right)).values())
    if not same:
        return 0.0
    precision, recall = same / len(mine), same / len(right)
    return 2 * precision * recall / (precision + recall)


_KOREAN_SIGNS = re.compile(r"[《》〈〉‘’]")


def character_f1(found: str, answer: str) -> float:
    """F1 of the characters that two answers share, as KorQuAD counts: Korean words inflect."""
    mine, right = (
        [c for c in _KOREAN_SIGNS.sub("", text).lower() if c not in string.punctuation + " "]
        for text in (found, answer)
    )
    return _shared_f1(mine, right)


def squad_scores(
    questions: Sequence[Question],
    found: Mapping[str, str],
    f1_of: Callable[[str, str], float] = word_f1,
) -> Scores:
    """Exact match and F1, the best over the right answers, in per cent as published.

    ``f1_of`` is `word_f1`, or `character_f1` for Korean. ``found`` has an answer for each
    question's name, "" for none. Questions without an answer count, too (SQuAD 2.0); with both
    kinds there, each is also scored by itself.

    Raises
    ------
    KeyError
        A question was not answered.

    """
    exact, f1 = [], []
    for question in questions:
        right = [text for text, _ in question.answers if normalize_answer(text)] or [""]
        exact.append(max(exact_match(found[question.name], text) for text in right))
        f1.append(max(f1_of(found[question.name], text) for text in right))
    answerable = np.array([bool(question.answers) for question in questions])
    scores = {"exact": 100 * float(np.mean(exact)), "f1": 100 * float(np.mean(f1))}
    if answerable.any() and not answerable.all():
        for name, chosen in (("answerable", answerable), ("unanswerable", ~answerable)):
            scores[f"{name}_f1"] = 100 * float(np.array(f1)[chosen].mean())
    return scores


def best_threshold(
    questions: Sequence[Question],
    found: Mapping[str, str],
    no_answer: Mapping[str, float],
    f1_of: Callable[[str, str], float] = word_f1,
) -> float:
    """Find the score from which on to answer "none", so that F1 is best (SQuAD 2.0).

    ``no_answer`` is high where a question seems to have no answer. Found on dev, used on test. In
    doubt the middle between two scores; infinity means "always answer".
    """
    gains = []
    for question in questions:
        right = [text for text, _ in question.answers if normalize_answer(text)] or [""]
        answering = max(f1_of(found[question.name], text) for text in right)
        silent = max(f1_of("", text) for text in right)
        gains.append((no_answer[question.name], silent - answering))
    gains.sort(reverse=True)
    # silent on the k questions that most seem to have no answer
    totals = np.concatenate([[0.0], np.cumsum([gain for _, gain in gains])])
    scores = [score for score, _ in gains]
    best, threshold = 0.0, np.inf
    for k in range(1, len(gains) + 1):
        if k < len(gains) and scores[k] == scores[k - 1]:
            continue  # equal scores cannot be told apart
        if totals[k] > best + 1e-12:
            below = scores[k] if k < len(gains) else scores[k - 1] - 1
            best, threshold = float(totals[k]), (scores[k - 1] + below) / 2
    return float(threshold)
