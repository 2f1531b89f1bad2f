"""Six objectives on the toy language: who hides what, exact readers, and the committed runs."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from bertedu.files import read_csv
from bertedu.text.sources import shipped
from bertedu.text.tokenization import MASK_ID
from course.experiments import objectives, toy_readers
from course.experiments.objectives import STUDIES, pairs, two_blanks
from course.experiments.toy_language import blank_posteriors
from course.experiments.toy_readers import (
    FIRST,
    HELD_OUT,
    LANGUAGE,
    TASKS,
    blanks,
    phrases,
    singles,
    text,
    topics,
)

ROWS = read_csv(shipped("results") / "objectives.csv")


class Exact(nn.Module):
    """Answers every blank with its exact chances: what no trained model can beat."""

    def forward(self, ids: Tensor, padding_mask: Tensor) -> tuple[Tensor, None]:
        scores = torch.full((*ids.shape, FIRST + len(LANGUAGE.words)), -1e9)
        for row, (words, real) in enumerate(zip(ids.tolist(), padding_mask.sum(1), strict=True)):
            inside = words[1 : int(real) - 1]
            known = [None if i == MASK_ID else LANGUAGE.words[i - FIRST] for i in inside]
            scores[row, 1 : len(known) + 1, FIRST:] = (
                blank_posteriors(LANGUAGE, known).log().float()
            )
        return scores, None


def test_the_gap_of_an_exact_reader_is_the_mutual_information(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Asked at once or in turn: the difference of the two, over pairs, is what they tell."""
    chosen, exact = pairs(0.3, 150)
    monkeypatch.setattr(objectives, "pairs", lambda: (chosen, exact))
    reader: Any = Exact()
    apart, in_turn = (two_blanks(reader, ask) for ask in (False, True))
    assert apart - in_turn == pytest.approx(exact, abs=0.2)  # some hundred pairs are a sample
    assert exact > 0.5


def test_phrases_are_hidden_whole_and_single_words_are_not() -> None:
    sentences, ids = text(10_000, HELD_OUT)
    hidden = phrases(ids, torch.Generator().manual_seed(0)) == MASK_ID
    alone = singles(ids, torch.Generator().manual_seed(0)) == MASK_ID
    assert hidden.sum() / alone.sum() == pytest.approx(1, abs=0.1)
    split = 0
    for sentence, whole, single in zip(sentences, hidden[:, 1:], alone[:, 1:], strict=True):
        for start, size, openers in ((1, 2, "old shy famous"), (len(sentence) - 3, 3, "in near")):
            if sentence[start] in openers.split():
                phrase = slice(start, start + size)
                assert len(set(whole[phrase].tolist())) == 1
                split += len(set(single[phrase].tolist())) > 1
    assert split > 50


def test_the_limit_of_blanks_is_that_of_an_exact_reader() -> None:
    ids, masked, limit = blanks(singles)
    scores, _ = Exact()(masked[:100], ids[:100] != 0)
    hidden = masked[:100] == MASK_ID
    paid = torch.nn.functional.cross_entropy(scores[hidden], ids[:100][hidden])
    assert paid.item() == pytest.approx(limit, abs=0.2)  # a tenth of the sentences


class Oracle(nn.Module):
    """Knows the topic, and answers one task."""

    def __init__(self, answers: tuple[int, ...]) -> None:
        super().__init__()
        self.answers = torch.tensor(answers)

    def forward(self, _: str, ids: Tensor, __: Tensor) -> Tensor:
        return nn.functional.one_hot(self.answers[topics(10_001, len(ids))[1]]).float()


@pytest.mark.parametrize("task", TASKS)
def test_a_task_is_scored_by_its_own_answers(monkeypatch: pytest.MonkeyPatch, task: str) -> None:
    monkeypatch.setattr(toy_readers, "train", lambda *_: None)
    bert = toy_readers.new_mlm(0).bert
    for other, answers in TASKS.items():
        monkeypatch.setattr(toy_readers, "MultiTask", lambda *_, a=answers: Oracle(a))
        right = toy_readers.few(bert, 0, task)
        assert (right == 1) == (other == task)


def test_topics_are_those_of_their_sentences() -> None:
    nouns = "puppy kitten parrot pony child woman".split()  # one of each topic
    sentences, topic = text(10_001, HELD_OUT)[0], topics(10_001, HELD_OUT)[1].tolist()
    told = [
        (nouns.index(w), t) for s, t in zip(sentences, topic, strict=True) for w in s if w in nouns
    ]
    assert len(told) > 100
    assert all(noun == t for noun, t in told)


def test_the_committed_runs_keep_to_the_limits_and_cost_what_they_say() -> None:
    seeds = {(row["idea"], row["seed"]) for row in ROWS}
    assert seeds >= {(study.__name__, str(seed)) for study in STUDIES for seed in range(3)}
    for row in ROWS:
        if "excess" in row["measure"]:
            assert float(row["value"]) > -0.01
    work: dict[tuple[str, str], list[float]] = {}
    for row in ROWS:
        work.setdefault((row["idea"], row["reader"]), []).append(float(row["operations"]))
    last = {key: max(operations) for key, operations in work.items()}
    for one, other in (("MLM at 15 %", "ELECTRA, every word"), ("MLM at 30 %", "MLM at 15 %")):
        assert last["electra", one] == pytest.approx(last["electra", other], rel=0.01)
    bert, xlnet = last["xlnet", "BERT, equal operations"], last["xlnet", "XLNet"]
    assert bert == pytest.approx(xlnet, rel=0.02)
