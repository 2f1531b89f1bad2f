"""What "answer" gives away without its question: the articles are found, the reader is blind."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from bertedu.finetuning.examples import Question
from bertedu.text.corpus import Document
from course.experiments import shortcuts
from course.experiments.shortcuts import articles_in, passage_only_f1

VERN = "Lake Vern is a deep lake in the north. It feeds a river that has no name."
MINT = "Mint is a plant that grows by every brook. People make tea of its leaves."
TIN = "A tin mine was opened here. The Tinners, as they are called, still sing."
WOAD = "Woad. A blue."
ORLA = "The Orla is a river that comes out of a lake. Its water is brown and cold."
OPENINGS = {"Lake Vern": VERN, "Mint (plant)": MINT, "Tin": TIN, "Orla": ORLA, "Woad": WOAD}


@pytest.fixture(autouse=True)
def small_encyclopedia(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    documents = [
        Document(title, "encyclopedia", f"{text} More.") for title, text in OPENINGS.items()
    ]
    monkeypatch.setattr(shortcuts, "load_documents", lambda name: documents)
    shortcuts._openings.cache_clear()
    yield
    shortcuts._openings.cache_clear()


def ask(title: str, *openings: str) -> Question:
    context = " ".join(openings)
    return Question("q", "What is it?", context, ((title, context.index(title)),), title)


def test_articles_are_found_where_they_begin() -> None:
    context = f"{MINT} {WOAD} {TIN}"
    begins = [0, len(MINT) + 1, len(MINT) + len(WOAD) + 2]
    titles = ["Mint (plant)", "Woad", "Tin"]
    assert articles_in(context) == list(zip(begins, [MINT, WOAD, TIN], titles, strict=True))
    changed = articles_in(context.replace("its leaves", "leaves"))
    assert [title for _, _, title in changed] == titles[1:], "an opening counts as a whole only"


def test_who_reads_no_question_picks_by_lot() -> None:
    questions = [ask("Lake Vern", MINT, VERN, TIN), ask("Orla", MINT, ORLA)]
    for asked in (questions, [replace(q, question="Which plant?") for q in questions]):
        assert passage_only_f1(asked) == pytest.approx([1 / 3, 1 / 2])
    for context, answers in ((VERN, ()), ("Ann sat by a lake.", (("Ann", 0),))):
        with pytest.raises(ValueError, match="no question of the task 'answer'"):
            passage_only_f1([Question("q", "What?", context, answers, "Ann")])
