"""What the task "answer" gives away to a reader who never looks at the question.

Such passage-only readers are the control of Kaushik and Lipton (2018), "How Much Reading Does
Reading Comprehension Require?"
"""

from collections import defaultdict
from collections.abc import Sequence
from functools import cache

import numpy as np

from bertedu.finetuning.evaluation.metrics import word_f1
from bertedu.finetuning.examples import Question
from bertedu.text.corpus import load_documents
from course.results.bootstrap import Floats


@cache
def _openings() -> dict[str, list[tuple[str, str]]]:
    """Return the openings of all articles, with their titles, by their first word."""
    openings: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for document in load_documents("encyclopedia"):
        opening = " ".join(document.sentences()[:2])
        openings[opening.split(" ")[0]].append((opening, document.title))
    return openings


def articles_in(context: str) -> list[tuple[int, str, str]]:
    """Return the articles that a text of "answer" was put together from, in reading order.

    Each is (character at which it begins, its first two sentences, its title). Raises SourceError
    if the encyclopedia was not fetched.
    """
    articles, begin = [], 0
    for word in context.split(" "):
        articles += [
            (begin, opening, title)
            for opening, title in _openings().get(word, [])
            if context.startswith(opening, begin)
        ]
        begin += len(word) + 1
    return articles


def passage_only_f1(questions: Sequence[Question]) -> Floats:
    """Return the expected F1, 0 to 1, (n,), of a reader who knows all titles and reads no question.

    It picks one by lot: every article names its title in its own opening, so nothing else tells.
    Raises ValueError if it is no question of this task.
    """
    scores = []
    for question in questions:
        titles = [title for _, _, title in articles_in(question.context)]
        if not question.answers or not titles:
            raise ValueError(f"{question.name!r} is no question of the task 'answer'")
        scores.append(np.mean([word_f1(title, question.answers[0][0]) for title in titles]))
    return np.array(scores)
