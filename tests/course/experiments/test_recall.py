"""Recall by place: the texts, their exact limits, and who can see what."""

import math
from itertools import permutations

import pytest
import torch
from torch.nn import functional as F

from bertedu.text.tokenization import CLS_ID, MASK_ID, SEP_ID
from course.experiments.recall import (
    FIRST_POSITION,
    FIRST_WORD,
    LAYOUTS,
    READERS,
    XOR,
    RecallReader,
    lengths_of,
    recall_limit,
    recall_texts,
    score_recall,
    train_recall,
)
from course.results.pictures import committed


def dice(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("layout", LAYOUTS[:3])
def test_an_answer_is_the_word_at_the_place(layout: str) -> None:
    ids, answers = recall_texts(layout, 5, 50, dice())
    for row, answer in zip(ids.tolist(), answers.tolist(), strict=True):
        assert (row[0], row[-1]) == (CLS_ID, SEP_ID)
        words = [token for token in row if FIRST_WORD <= token < FIRST_POSITION]
        (place,) = [token - FIRST_POSITION for token in row if token >= FIRST_POSITION]
        assert len(set(words)) == 5
        assert words[place] == answer + FIRST_WORD
        parts = {"list": words[0], "blank": MASK_ID, "place": place + FIRST_POSITION}
        assert ", ".join(sorted(parts, key=lambda name: row.index(parts[name]))) == layout


def test_the_xor_word_is_told_by_no_side() -> None:
    ids, answers = recall_texts(XOR, 1, 4000, dice())
    left, right = ids[:, 1] - FIRST_WORD, ids[:, 3] - FIRST_WORD
    assert torch.equal(left ^ right, answers)
    for side in (left, right):
        for bit in (0, 1):
            assert answers[side == bit].double().mean().item() == pytest.approx(0.5, abs=0.04)


def _best_sum(from_left: list[int], from_right: list[int], answers: list[int]) -> float:
    """Return the least mean loss of scores f[left] + g[right], over equally likely texts."""
    torch.manual_seed(0)
    f, g = (
        torch.randn(max(side) + 1, max(answers) + 1, dtype=torch.double, requires_grad=True)
        for side in (from_left, from_right)
    )
    optimizer = torch.optim.LBFGS([f, g], max_iter=500, line_search_fn="strong_wolfe")

    def loss() -> torch.Tensor:
        optimizer.zero_grad()
        value = F.cross_entropy(f[from_left] + g[from_right], torch.tensor(answers))
        value.backward()  # type: ignore[no-untyped-call]
        return value

    optimizer.step(loss)  # type: ignore[no-untyped-call]
    return loss().item()


@pytest.mark.parametrize(("words", "length"), [(4, 2), (4, 3), (3, 3)])
def test_no_sum_of_two_sides_is_better_than_the_list_alone(words: int, length: int) -> None:
    lists = list(permutations(range(words), length))
    texts = [(i, place) for i in range(len(lists)) for place in range(length)]
    left, right = map(list, zip(*texts, strict=True))
    found = _best_sum(left, right, [lists[i][place] for i, place in texts])
    assert found == pytest.approx(recall_limit("list, blank, place", "pair", length), abs=1e-5)


def test_no_sum_of_two_bits_is_their_xor() -> None:
    found = _best_sum([0, 0, 1, 1], [0, 1, 0, 1], [0, 1, 1, 0])
    assert found == pytest.approx(recall_limit(XOR, "pair", 1)) == pytest.approx(math.log(2))


def test_a_reader_of_one_side_does_not_move_with_the_other() -> None:
    ids, _ = recall_texts("list, blank, place", 4, 8, dice(1))
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


def test_the_committed_runs_keep_to_their_limits() -> None:
    for row in committed("recall"):
        limit = recall_limit(row["layout"], row["reader"], int(row["length"]))
        assert int(row["length"]) in lengths_of(row["layout"])
        assert float(row["limit"]) == round(limit, 4)
        assert float(row["loss"]) > limit - 0.08  # on 1,000 texts a reader may be lucky
