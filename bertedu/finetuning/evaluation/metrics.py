"""How good is it? The arithmetic of CoNLL and SQuAD as their authors published it."""

import math
import re
import string
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from bertedu.finetuning.examples import Question

TaskScores = dict[str, float]
Floats = np.ndarray[Any, np.dtype[np.float64]]


def tagging_scores(
    tags: Sequence[Sequence[str]], predictions: Sequence[Sequence[str]]
) -> TaskScores:
    """F1 of whole entities, type and both ends right, as CoNLL counts; and accuracy of tags."""
    from seqeval.metrics import accuracy_score, f1_score
    from seqeval.scheme import IOB2

    lists = [list(sentence) for sentence in tags], [list(sentence) for sentence in predictions]
    strict = f1_score(*lists, mode="strict", scheme=IOB2, zero_division=0)
    return {"f1": float(strict), "accuracy": float(accuracy_score(*lists))}


def normalize_answer(text: str) -> str:
    """Lower case, no punctuation, no articles, single spaces: what SQuAD calls the same answer."""
    text = "".join(c for c in text.lower() if c not in string.punctuation)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())


def exact_match(prediction: str, answer: str) -> float:
    """1 if both are the same once normalized."""
    return float(normalize_answer(prediction) == normalize_answer(answer))


def word_f1(prediction: str, answer: str) -> float:
    """F1 of the words that two answers share; of an empty one, 1 only if both are empty."""
    return _shared_f1(normalize_answer(prediction).split(), normalize_answer(answer).split())


def _shared_f1(prediction: Sequence[str], answer: Sequence[str]) -> float:
    if not prediction or not answer:
        return float(prediction == answer)
    same = (Counter(prediction) & Counter(answer)).total()
    if not same:
        return 0.0
    precision, recall = same / len(prediction), same / len(answer)
    return 2 * precision * recall / (precision + recall)


def character_f1(prediction: str, answer: str) -> float:
    """F1 of the characters that two answers share, as KorQuAD counts: Korean words inflect."""
    ignored = string.punctuation + " 《》〈〉‘’"
    return _shared_f1(
        *([c for c in text.lower() if c not in ignored] for text in (prediction, answer))
    )


F1 = Callable[[str, str], float]


def _best(score: F1, prediction: str, question: Question) -> float:
    """Score against the likest of the right answers; "" is right where there is none."""
    answers = [text for text, _ in question.answers if normalize_answer(text)] or [""]
    return max(score(prediction, text) for text in answers)


def squad_outcomes(questions: Sequence[Question], predictions: Sequence[str], f1_of: F1) -> Floats:
    """(n, 3): exact match and F1, the best over the right answers, and whether there are any."""
    pairs = zip(questions, predictions, strict=True)
    return np.array(
        [(_best(exact_match, text, q), _best(f1_of, text, q), bool(q.answers)) for q, text in pairs]
    )


def squad_means(outcomes: Floats) -> TaskScores:
    """Exact match and F1, 0 to 1; with both kinds of question there, each by itself as well."""
    exact, f1, answerable = outcomes.T
    scores = {"f1": float(f1.mean()), "exact": float(exact.mean())}
    some = answerable.astype(bool)
    if some.any() and not some.all():
        scores["answerable_f1"] = float(f1[some].mean())
        scores["unanswerable_f1"] = float(f1[~some].mean())
    return scores


def squad_scores(
    questions: Sequence[Question], predictions: Mapping[str, str], f1_of: F1 = word_f1
) -> TaskScores:
    """Exact match and F1, the best over the right answers, in per cent as published.

    ``f1_of`` is `word_f1`, or `character_f1` for Korean. ``predictions`` has an answer for each
    question's name, "" for none; a question that it lacks is a KeyError. Questions without an
    answer count, too (SQuAD 2.0); with both kinds there, each is also scored by itself.
    """
    outcomes = squad_outcomes(questions, [predictions[q.name] for q in questions], f1_of)
    return {name: 100 * score for name, score in squad_means(outcomes).items()}


def best_threshold(
    questions: Sequence[Question],
    predictions: Mapping[str, str],
    no_answer: Mapping[str, float],
    f1_of: F1 = word_f1,
) -> float:
    """Find the score from which on to answer "none", so that F1 is best (SQuAD 2.0).

    ``no_answer`` is high where a question seems to have no answer. Found on dev, used on test. In
    doubt the middle between two scores; infinity means "always answer".
    """
    gains = [
        (no_answer[q.name], _best(f1_of, "", q) - _best(f1_of, predictions[q.name], q))
        for q in questions
    ]
    gains.sort(reverse=True)
    gains += [(score - 1, 0.0) for score, _ in gains[-1:]]  # so that all may stay silent
    total = best = 0.0  # of staying silent on the questions that most seem to have no answer
    threshold = math.inf
    for (score, gain), (following, _) in pairwise(gains):
        total += gain
        if total > best + 1e-12 and following != score:  # equal scores cannot be told apart
            best, threshold = total, (score + following) / 2
    return float(threshold)
