"""Recall by place: the texts, their exact limits, who can see what, and the committed runs."""

import math
from itertools import permutations
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

from bertedu.files import read_csv
from bertedu.text.sources import shipped
from bertedu.text.tokenization import CLS_ID, MASK_ID, SEP_ID
from course.experiments import recall
from course.experiments.recall import (
    FIRST_PLACE,
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


def test_an_answer_is_the_word_at_the_place() -> None:
    generator = torch.Generator().manual_seed(0)
    for layout in LAYOUTS[:3]:
        ids, answers = recall_texts(layout, 5, 50, generator)
        for row, answer in zip(ids.tolist(), answers.tolist(), strict=True):
            assert row[0] == CLS_ID
            assert row[-1] == SEP_ID
            words = [token for token in row if FIRST_WORD <= token < FIRST_PLACE]
            (place,) = [token - FIRST_PLACE for token in row if token >= FIRST_PLACE]
            assert len(set(words)) == 5
            assert words[place] == answer + FIRST_WORD
        parts = {"list": (FIRST_WORD, FIRST_PLACE), "blank": (MASK_ID, MASK_ID + 1)}
        at = {
            name: next(i for i, token in enumerate(ids[0].tolist()) if low <= token < high)
            for name, (low, high) in (parts | {"place": (FIRST_PLACE, 99)}).items()
        }
        assert ", ".join(sorted(at, key=at.__getitem__)) == layout


def test_the_xor_word_is_told_by_no_side() -> None:
    ids, answers = recall_texts(XOR, 1, 4000, torch.Generator().manual_seed(0))
    left, right = ids[:, 1] - FIRST_WORD, ids[:, 3] - FIRST_WORD
    assert torch.equal(left ^ right, answers)
    for side in (left, right):
        for bit in (0, 1):
            assert answers[side == bit].double().mean().item() == pytest.approx(0.5, abs=0.04)


def _best_sum(from_left: list[int], from_right: list[int], answers: list[int]) -> float:
    """Return the least mean loss of scores f[left] + g[right], over equally likely texts."""
    answer = torch.tensor(answers)
    torch.manual_seed(0)
    f = torch.randn(max(from_left) + 1, max(answers) + 1, dtype=torch.double, requires_grad=True)
    g = torch.randn(max(from_right) + 1, max(answers) + 1, dtype=torch.double, requires_grad=True)
    optimizer = torch.optim.LBFGS([f, g], max_iter=500, line_search_fn="strong_wolfe")

    def loss() -> torch.Tensor:
        optimizer.zero_grad()
        value = F.cross_entropy(f[from_left] + g[from_right], answer)
        value.backward()  # type: ignore[no-untyped-call]
        return value

    optimizer.step(loss)  # type: ignore[no-untyped-call]
    return loss().item()


@pytest.mark.parametrize(("words", "length"), [(4, 2), (4, 3), (3, 3)])
def test_no_sum_of_two_sides_is_better_than_the_list_alone(words: int, length: int) -> None:
    lists = list(permutations(range(words), length))
    texts = [(i, place) for i in range(len(lists)) for place in range(length)]
    left, right = zip(*texts, strict=True)
    found = _best_sum(list(left), list(right), [lists[i][place] for i, place in texts])
    assert found == pytest.approx(math.log(length), abs=1e-5)
    assert recall_limit("list, blank, place", "pair", length) == pytest.approx(math.log(length))


def test_no_sum_of_two_bits_is_their_xor() -> None:
    assert _best_sum([0, 0, 1, 1], [0, 1, 0, 1], [0, 1, 1, 0]) == pytest.approx(math.log(2))
    assert recall_limit(XOR, "pair", 1) == pytest.approx(math.log(2))


def test_a_reader_of_one_side_does_not_move_with_the_other() -> None:
    ids, _ = recall_texts("list, blank, place", 4, 8, torch.Generator().manual_seed(1))
    other_place, other_list = ids.clone(), ids.clone()
    other_place[:, -2] = FIRST_PLACE + (ids[:, -2] - FIRST_PLACE + 1) % 4
    other_list[:, 1:5] = ids[:, 1:5].flip(1)
    moves = {}
    for name in READERS:
        model = RecallReader(name, seed=0).eval()
        scores = model(ids)
        by_place, by_list = model(other_place), model(other_list)
        both = other_place.clone()
        both[:, 1:5] = other_list[:, 1:5]
        beyond = model(both) - by_place - by_list + scores
        moves[name] = tuple(
            bool(change.abs().max() > 1e-4)
            for change in (by_place - scores, by_list - scores, beyond)
        )
    assert moves == {  # with the place, with the list, with both beyond the sum of each
        "BERT": (True, True, True),
        "left to right": (False, True, False),
        "right to left": (True, False, False),
        "pair": (True, True, False),
        "pair + BiLSTM": (True, True, True),
    }


def test_bert_learns_the_xor_word_and_a_pair_does_not() -> None:
    steps = 80
    loss, accuracy = score_recall(train_recall("BERT", XOR, 0, steps, progress=False), XOR, 1)
    assert accuracy == 1
    assert loss < 0.1
    loss, _ = score_recall(train_recall("pair", XOR, 0, steps, progress=False), XOR, 1)
    assert loss > math.log(2) - 0.01


def test_rows_that_are_there_are_not_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "recall.csv"
    monkeypatch.setattr(recall, "LAYOUTS", (XOR,))
    calls = []

    def train(reader: str, layout: str, seed: int) -> RecallReader:
        calls.append((reader, seed))
        return RecallReader(reader, seed).eval()

    monkeypatch.setattr(recall, "train_recall", train)
    recall.main(out, seeds=1)
    first = read_csv(out)
    assert [row["reader"] for row in first] == list(READERS)
    recall.main(out, seeds=2)
    assert calls == [(reader, seed) for seed in (0, 1) for reader in READERS]
    assert read_csv(out)[:5] == first


def test_the_committed_runs_keep_to_their_limits() -> None:
    rows = read_csv(shipped("results") / "recall.csv")
    seen = {(row["layout"], row["reader"], int(row["seed"]), int(row["length"])) for row in rows}
    assert seen == {
        (layout, reader, seed, length)
        for layout in LAYOUTS
        for reader in READERS
        for seed in range(5)
        for length in lengths_of(layout)
    }
    for row in rows:
        limit = recall_limit(row["layout"], row["reader"], int(row["length"]))
        assert float(row["limit"]) == round(limit, 4)
        assert float(row["loss"]) > limit - 0.08  # on 1,000 texts a reader may be lucky
