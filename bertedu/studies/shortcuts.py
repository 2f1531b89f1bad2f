"""What the task "answer" gives away to a reader who never looks at the question.

Such passage-only readers are the control of Kaushik and Lipton (2018), "How Much Reading Does
Reading Comprehension Require?"
"""

from collections import defaultdict
from collections.abc import Sequence
from functools import cache

import numpy as np

from bertedu.finetuning.examples import Question
from bertedu.finetuning.metrics import word_f1
from bertedu.finetuning.tasks import title_places
from bertedu.results.bootstrap import Floats
from bertedu.text.corpus import load_documents


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


def passage_only_f1(questions: Sequence[Question]) -> tuple[Floats, Floats]:
    """Return the expected F1, 0 to 1, of two readers who know all titles and read no question.

    (n,) of one who picks any title by lot; (n,) of one who picks among those that stand in their
    own opening, as an answer of this task does. Raises ValueError if it is no such question.
    """
    by_lot, among_named = [], []
    for question in questions:
        articles = articles_in(question.context)
        named = [title for _, opening, title in articles if title_places(title, opening)]
        if not question.answers or not named:
            raise ValueError(f"{question.name!r} is no question of the task 'answer'")
        right = question.answers[0][0]
        by_lot.append(np.mean([word_f1(title, right) for _, _, title in articles]))
        among_named.append(np.mean([word_f1(title, right) for title in named]))
    return np.array(by_lot), np.array(among_named)
