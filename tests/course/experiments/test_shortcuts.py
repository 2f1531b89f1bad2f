"""What "answer" gives away without its question: the articles are found, the readers are blind."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from bertedu.finetuning.examples import Question
from bertedu.text.corpus import Document
from bertedu.text.sources import find
from course.experiments import shortcuts
from course.experiments.shortcuts import articles_in, passage_only_f1
from course.experiments.tasks import load_task

VERN = "Lake Vern is a deep lake in the north. It feeds a river that has no name."
MINT = "Mint is a plant that grows by every brook. People make tea of its leaves."
TIN = "A tin mine was opened here. The Tinners, as they are called, still sing."
WOAD = "Woad. A blue."
ORLA = "The Orla is a river that comes out of a lake. Its water is brown and cold."


@pytest.fixture
def small_encyclopedia(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    openings = {"Lake Vern": VERN, "Mint (plant)": MINT, "Tin": TIN, "Orla": ORLA, "Woad": WOAD}
    documents = [
        Document(title, "encyclopedia", text + " More.") for title, text in openings.items()
    ]
    monkeypatch.setattr(shortcuts, "load_documents", lambda name: documents)
    shortcuts._openings.cache_clear()
    yield
    shortcuts._openings.cache_clear()


def ask(title: str, *openings: str) -> Question:
    context = " ".join(openings)
    return Question("q", "What is it?", context, ((title, context.index(title)),), title)


@pytest.mark.usefixtures("small_encyclopedia")
def test_articles_are_found_where_they_begin() -> None:
    context = f"{MINT} {WOAD} {TIN}"
    begins = [0, len(MINT) + 1, len(MINT) + len(WOAD) + 2]
    titles = ["Mint (plant)", "Woad", "Tin"]
    assert articles_in(context) == list(zip(begins, [MINT, WOAD, TIN], titles, strict=True))
    changed = articles_in(context.replace("its leaves", "leaves"))
    assert [title for _, _, title in changed] == titles[1:], "an opening counts as a whole only"


@pytest.mark.usefixtures("small_encyclopedia")
def test_who_reads_no_question_picks_by_lot() -> None:
    questions = [ask("Lake Vern", MINT, VERN, TIN), ask("Orla", MINT, ORLA)]
    by_lot = passage_only_f1(questions)
    assert by_lot == pytest.approx([1 / 3, 1 / 2])
    blind = passage_only_f1([replace(q, question="Which plant?") for q in questions])
    assert np.array_equal(blind, by_lot), "the question is never read"


@pytest.mark.usefixtures("small_encyclopedia")
@pytest.mark.parametrize(
    "question",
    [
        Question("q", "What?", VERN, (), "Lake Vern"),
        Question("q", "What?", "Ann sat by a lake.", (("Ann", 0),), "Ann"),
    ],
)
def test_other_questions_are_refused(question: Question) -> None:
    with pytest.raises(ValueError, match="no question of the task 'answer'"):
        passage_only_f1([question])


def test_the_real_questions_are_made_of_three_articles_with_the_answer_among_them() -> None:
    source = find("encyclopedia")
    if not source.path.is_file():
        pytest.skip("not fetched: run `bertedu data fetch encyclopedia`")
    splits = load_task("answer")[1].values()
    for q in (q for questions in splits for q in questions if isinstance(q, Question)):
        articles = articles_in(q.context)
        assert len(articles) == 3
        assert q.answers[0][0] in [title for _, _, title in articles]
