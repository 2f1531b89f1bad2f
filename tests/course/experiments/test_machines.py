"""The texts of machines ask what they say, and every arm reads them at every length."""

import pytest
import torch

from bertedu.text.tokenization import CLS_ID, MASK_ID
from course.experiments.machines import (
    ARMS,
    BACK,
    HOW,
    LENGTH,
    NAMES,
    WORDS,
    echo_texts,
    name_texts,
)
from course.experiments.toy_readers import FIRST


def dice(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_a_text_holds_one_name_and_one_blank_that_asks_for_it() -> None:
    ids, selected, answers = name_texts(dice(), 500, 40)
    names = (ids >= FIRST) & (ids < FIRST + NAMES)
    assert (names.sum(dim=1) == 1).all()
    assert torch.equal(ids[names], answers)
    assert torch.equal(selected, ids == MASK_ID)
    assert (selected.sum(dim=1) == 1).all()
    assert (ids[:, 0] == CLS_ID).all()
    away = (names.nonzero()[:, 1] - selected.nonzero()[:, 1]).abs()
    assert away.min() == 1
    assert away.max() > 35
    assert set(answers.tolist()) == set(range(FIRST, FIRST + NAMES))


def test_a_blank_asks_for_a_word_that_can_be_seen_three_places_before() -> None:
    ids, selected, answers = echo_texts(dice(), 200, 30)
    rows, columns = selected.nonzero(as_tuple=True)
    assert torch.equal(ids[rows, columns - BACK], answers)
    assert columns.min() >= BACK
    assert (ids[selected] == MASK_ID).all()
    assert answers.max() < FIRST + WORDS
    assert (ids[~selected] >= FIRST).all()


@pytest.mark.parametrize(("experiment", "arm"), [(e, arm) for e in ARMS for arm in ARMS[e]])
def test_every_arm_reads_its_texts_at_every_length(experiment: str, arm: str) -> None:
    texts, (make, config) = HOW[experiment][1], ARMS[experiment][arm]
    sizes = [(2, times * LENGTH) for times in (1, 4)] if experiment in ("echo", "name") else [()]
    for size in sizes:
        ids, selected, answers = texts(dice(), *size)
        scores, _ = make(config)(ids, selected=selected)
        assert scores.shape == (len(answers), config.vocab_size)
        assert answers.max() < config.vocab_size
