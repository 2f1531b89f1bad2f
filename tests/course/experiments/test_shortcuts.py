"""What "answer" gives away without its question: the articles are found, the reader is blind."""

from dataclasses import replace

import numpy as np
import pytest

from course.experiments.shortcuts import articles_in, passage_only_f1
from course.experiments.tasks import load_task


def test_who_reads_no_question_picks_one_of_three_titles_by_lot() -> None:
    test = load_task("answer")[1]["test"]
    for question in test:
        found = articles_in(question.context)
        assert question.source in [title for *_, title in found]
        assert " ".join(opening for _, opening, _ in found) == question.context
        assert all(question.context.startswith(opening, at) for at, opening, _ in found)
    blind = passage_only_f1(test)
    assert 0.33 < blind.mean() < 0.34
    assert np.array_equal(blind, passage_only_f1([replace(q, question="Which?") for q in test]))
    for other in (replace(test[0], answers=()), replace(test[0], context="Ann sat by a lake.")):
        with pytest.raises(ValueError, match="no question of the task 'answer'"):
            passage_only_f1([other])
