"""Recall by place: the texts, their exact limits, and who can see what."""

import pytest
import torch

from course.experiments.recall import (
    FIRST_POSITION,
    READERS,
    XOR,
    RecallReader,
    recall_texts,
    score_recall,
    train_recall,
)


def test_a_reader_of_one_side_does_not_move_with_the_other() -> None:
    ids, _ = recall_texts("list, blank, place", 4, 8, torch.Generator().manual_seed(1))
    other_place, other_list = ids.clone(), ids.clone()
    other_place[:, -2] = FIRST_POSITION + (ids[:, -2] - FIRST_POSITION + 1) % 4
    other_list[:, 1:5] = ids[:, 1:5].flip(1)
    both = other_place.clone()
    both[:, 1:5] = other_list[:, 1:5]
    moves = {}
    for name in READERS:
        model = RecallReader(name, seed=0).eval()
        scores, by_place, by_list, by_both = map(model, (ids, other_place, other_list, both))
        beyond = by_both - by_place - by_list + scores
        changes = (by_place - scores, by_list - scores, beyond)
        moves[name] = tuple(bool(change.abs().max() > 1e-4) for change in changes)
    assert moves == {  # with the place, with the list, with both beyond the sum of each
        "BERT": (True, True, True),
        "left to right": (False, True, False),
        "right to left": (True, False, False),
        "pair": (True, True, False),
        "pair + BiLSTM": (True, True, True),
    }


@pytest.mark.parametrize(("reader", "low", "high"), [("BERT", 0, 0.1), ("pair", 0.68, 1)])
def test_bert_learns_the_xor_word_and_a_pair_does_not(reader: str, low: float, high: float) -> None:
    loss, accuracy = score_recall(train_recall(reader, XOR, 0, 80), XOR, 1)
    assert low < loss < high
    assert (accuracy == 1) == (reader == "BERT")
