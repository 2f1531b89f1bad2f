"""The counting models against the same counts in plain Python."""

import math
from collections import Counter
from itertools import pairwise

import pytest
import torch
from torch import Tensor

from bertedu.model.config import Direction
from bertedu.pretraining.batches import Batch, fixed_batches
from bertedu.pretraining.next_sentence import EncodedDocument
from bertedu.text.tokenization import CLS_ID, MASK_ID, SEP_ID
from course.experiments.counting import NeighborModel, UnigramModel, score_baseline

VOCAB = 14
DOCUMENTS = [
    EncodedDocument("s", [[5, 6, 7, 8], [5, 6, 9, 8, 5], [10, 6]]),
    EncodedDocument("s", [[5, 6, 7], [8, 5, 7, 8, 5, 6, 7, 8], [11]]),
    EncodedDocument("s", [[9, 8, 9, 8], [5, 9, 8]]),
]
TEXT = [i for d in DOCUMENTS for i in (CLS_ID, *[w for s in d.sentences for w in s], SEP_ID)]
SHARE = [(TEXT.count(w) + 1) / (len(TEXT) + VOCAB) for w in range(VOCAB)]


def by_hand(before: int, after: int, prior: float = 100.0) -> list[float]:
    """P(w | before, after), counted anew for every word."""
    twos = Counter(pairwise(TEXT))
    threes = Counter(zip(TEXT, TEXT[1:], TEXT[2:], strict=False))
    from_before = sum(twos[before, w] for w in range(VOCAB))
    from_after = sum(twos[w, after] for w in range(VOCAB))
    independent = []
    for w in range(VOCAB):
        left = (twos[before, w] + prior * SHARE[w]) / (from_before + prior)
        right = (twos[w, after] + prior * SHARE[w]) / (from_after + prior)
        independent.append(left * right / SHARE[w])
    between = {w: threes[before, w, after] for w in range(VOCAB) if threes[before, w, after]}
    kinds, count = len(between), sum(between.values())
    weight = count / (count + kinds) if count else 0.0  # Witten-Bell
    return [
        (1 - weight) * one / sum(independent) + weight * between.get(w, 0) / max(count, 1)
        for w, one in enumerate(independent)
    ]


ORIGINAL = torch.tensor([[CLS_ID, 5, 6, 7, 8, SEP_ID, 9, 8, SEP_ID], [CLS_ID, *[5, 6] * 3, 12, 3]])
WHERE = torch.zeros_like(ORIGINAL, dtype=torch.bool)
WHERE[0, [1, 3, 4, 7]] = True
WHERE[1, [2, 3, 6, 7]] = True  # the last: "6 _ [SEP]" and a word that never occurs


def asked(original: Tensor = ORIGINAL, where: Tensor = WHERE, hidden: int = MASK_ID) -> Batch:
    """A batch that asks for the words at some places, with ``hidden`` in their stead."""
    nothing = torch.zeros(len(original), dtype=torch.long)
    ids, real = original.masked_fill(where, hidden), torch.ones_like(where)
    return Batch(ids, torch.zeros_like(ids), real, where, original[where], nothing)


@pytest.mark.parametrize("prior", [None, 100.0, 1.0])
def test_chances_equal_counting_by_hand_and_are_never_zero(prior: float | None) -> None:
    counted = NeighborModel(DOCUMENTS, VOCAB, prior) if prior else UnigramModel(DOCUMENTS, VOCAB)
    scores, kinds = counted.scores(asked()), set()
    assert scores.isfinite().all()
    for given, (row, column) in zip(scores.exp().tolist(), WHERE.nonzero().tolist(), strict=True):
        before, after = int(ORIGINAL[row, column - 1]), int(ORIGINAL[row, column + 1])
        expected = by_hand(before, after, prior) if prior else SHARE
        assert given == pytest.approx(expected, rel=1e-4)
        assert sum(given) == pytest.approx(1, abs=1e-5)
        kinds.add(any(TEXT[i] == before and TEXT[i + 2] == after for i in range(len(TEXT) - 2)))
    assert kinds == {True, False}, "both estimates must be tried"


@pytest.mark.parametrize("direction", ["left-to-right", "right-to-left"])
def test_from_one_side_only_its_neighbor_counts(direction: Direction) -> None:
    step, twos = (1 if direction == "left-to-right" else -1), Counter(pairwise(TEXT))
    scores = NeighborModel(DOCUMENTS, VOCAB, 10.0).scores(asked(hidden=6), direction).exp()
    met = [twos[(6, w)[::step]] for w in range(VOCAB)]
    expected = [(n + 10 * share) / (sum(met) + 10) for n, share in zip(met, SHARE, strict=True)]
    for given in scores.tolist():
        assert given == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("kind", [UnigramModel, NeighborModel])
def test_the_word_itself_is_not_looked_at(kind: type) -> None:
    model = kind(DOCUMENTS, VOCAB)
    where = torch.zeros_like(ORIGINAL, dtype=torch.bool)
    where[0, [2, 4, 7]] = True  # no two of them neighbors
    before = model.scores(asked(where=where))
    for word in (5, 11, 13):
        other = ORIGINAL.masked_fill(where, word)
        assert torch.equal(model.scores(asked(other, where)), before)
        assert torch.equal(model.scores(asked(where=where, hidden=word)), before)


def test_a_baseline_answers_the_blanks_of_the_network_from_the_unmasked_text() -> None:
    """`[MASK]` and random words stand in the batch; the counts see what stood there before."""
    documents = [EncodedDocument("s", [[5, 6, 7, 8]] * 20) for _ in range(6)]
    batches = fixed_batches(documents, 32, 4, VOCAB)
    rows = score_baseline(NeighborModel(documents, VOCAB, prior=0.01), batches)
    assert len(rows) == sum(len(b.ids) for b in batches)
    assert rows[:, 0].sum() == sum(len(b.labels) for b in batches)
    # only where a span was cut do the neighbors leave a doubt
    assert rows[:, 2].sum() / rows[:, 0].sum() > 0.85
    text = torch.tensor([[CLS_ID, 5, 6, 7, SEP_ID]])
    single = asked(text, text == 6)
    count, loss, right = score_baseline(NeighborModel(DOCUMENTS, VOCAB), [single])[0].tolist()
    assert (count, right) == (1, 1)
    assert loss == pytest.approx(-math.log(by_hand(5, 7)[6]), rel=1e-4)
