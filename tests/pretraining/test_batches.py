"""Packing, masks, labels, next words, and batches that depend on (seed, epoch, index) alone."""

import hashlib
from collections.abc import Iterator
from itertools import combinations, islice
from typing import Any

import numpy as np
import pytest
import torch

from bertedu.model.config import BertConfig
from bertedu.model.variants.diffusion import hide_some
from bertedu.pretraining.batches import (
    Batch,
    Phase,
    Position,
    Recipe,
    batches,
    fixed_batches,
    halved,
    make_batch,
    next_words,
    pack_pairs,
    with_company,
)
from bertedu.pretraining.next_sentence import EncodedDocument, Pair, make_pairs
from bertedu.pretraining.run import VARIANTS
from bertedu.text.tokenization import CLS_ID, MASK_ID, PAD_ID, SEP_ID, SPECIAL_TOKENS

VOCAB, WORDS = 500, len(SPECIAL_TOKENS)
GOLDEN = {
    "bert": "160154508210",
    "mlm-ltr": "160154508210",
    "ltr": "8e7d4218fe4e",
    "rtl": "c9a1a60e6789",
    "diffusion": "b2bed609bbf4",
}


def collection(documents: int = 30, seed: int = 0) -> list[EncodedDocument]:
    """Sentences of 5 to 45 words and 5 to 50 a document: as long as real ones."""
    rng = np.random.default_rng(seed)
    return [
        EncodedDocument(
            "s",
            [
                rng.integers(WORDS, VOCAB, rng.integers(5, 46)).tolist()
                for _ in range(rng.integers(5, 51))
            ],
        )
        for _ in range(documents)
    ]


DOCUMENTS = collection()


def stream(
    documents: Any = DOCUMENTS,
    size: int = 16,
    rate: float = 0.15,
    start: Position | None = None,
    direction: Any = "bidirectional",
    **recipe: Any,
) -> Iterator[tuple[Batch, Position]]:
    phase, config = Phase(1.0, 64, size, rate), BertConfig(VOCAB, direction=direction)
    return batches(documents, config, Recipe(1, **recipe), phase, start)


def tensors(batch: Batch) -> dict[str, torch.Tensor]:
    return {name: tensor for name, tensor in vars(batch).items() if tensor is not None}


def same(one: Batch, two: Batch) -> bool:
    first, second = tensors(one), tensors(two)
    return first.keys() == second.keys() and all(torch.equal(first[n], second[n]) for n in first)


def original(batch: Batch) -> torch.Tensor:
    return batch.ids.masked_scatter(batch.selected, batch.labels)


def assert_masks_differ(*drawn: Batch) -> None:
    """A generator seeded by the run alone would pass every shape test."""
    for one, two in combinations(drawn, 2):
        width = min(one.ids.shape[1], two.ids.shape[1])
        both = one.selected[:, :width] & two.selected[:, :width]
        assert both.sum() < 0.5 * one.selected.sum()


@pytest.mark.parametrize("variant", GOLDEN)
def test_batches_are_those_of_runs_in_progress(variant: str) -> None:
    """Every number of some batches: whoever changes one on purpose ends all runs in progress."""
    direction, _, question = VARIANTS[variant]
    digest = hashlib.sha256()
    for epoch in (0, 1):
        options: Any = {"direction": direction, "question": question, "masking": (0.7, 0.2)}
        for batch, _ in islice(stream(start=Position(epoch, 2), rate=0.2, seed=7, **options), 3):
            for name, tensor in tensors(batch).items():
                if name not in ("weights", "documents"):  # no whole numbers; read by no model
                    digest.update(tensor.long().numpy().tobytes())
    assert digest.hexdigest()[:12] == GOLDEN[variant]


def test_a_pair_becomes_cls_a_sep_b_sep_padding() -> None:
    packed = pack_pairs([Pair([11, 12], [13], 0), Pair([21], [22, 23, 24], 1)], 9)
    assert packed.ids.tolist() == [
        [CLS_ID, 11, 12, SEP_ID, 13, SEP_ID, 0, 0, 0],
        [CLS_ID, 21, SEP_ID, 22, 23, 24, SEP_ID, 0, 0],
    ]
    batch = make_batch(packed, slice(0, 2), VOCAB, [1, 2, 3], 0.15)
    assert original(batch).tolist() == packed.ids[:, :7].tolist()  # no wider than its longest row
    assert batch.padding_mask.tolist() == [[True] * 6 + [False], [True] * 7]
    assert batch.segment_ids.tolist() == [[0, 0, 0, 0, 1, 1, 0], [0, 0, 0, 1, 1, 1, 1]]
    assert batch.next_labels.tolist() == [0, 1]


def test_any_batch_can_be_made_again_from_its_position() -> None:
    walked = list(islice(stream(seed=9), 130))
    epochs = [position.epoch for _, position in walked]
    assert epochs[-1] >= 2, "the test must cross an epoch"
    starts = [Position(), *(position for _, position in walked)]
    ends = [i for i in range(1, 130) if epochs[i] > epochs[i - 1]]
    for index in {0, 1, 17, 129, *ends, *(i - 1 for i in ends)}:
        batch, position = next(stream(start=starts[index], seed=9))
        assert same(batch, walked[index][0]), f"batch {index}"
        assert position == walked[index][1]
    other, _ = next(stream(seed=10))
    assert not torch.equal(original(other), original(walked[0][0]))
    # the second batch, the first of the next epoch, the first of the next seed: sums are equal
    assert_masks_differ(walked[0][0], walked[1][0], walked[ends[0]][0], other)


def test_each_epoch_is_read_from_its_own_window() -> None:
    """Window 0 knows one word, window 1 another."""
    windows = [[EncodedDocument("s", [[word] * 8] * 20)] * 12 for word in (50, 60)]
    seen: dict[int, set[int]] = {}
    for batch, position in stream(lambda epoch: windows[epoch % 2], 8):
        seen.setdefault(position.epoch, set()).update(batch.labels.tolist())
        if position.epoch == 3:
            break
    assert seen == {0: {50}, 1: {60}, 2: {50}, 3: {60}}


def test_too_little_text_is_an_error_not_an_endless_loop() -> None:
    for documents, size in ((collection(2), 1000), ([], 4)):
        with pytest.raises(ValueError, match=f"pairs do not fill one batch of {size}: use a small"):
            next(stream(documents, size))


def test_a_document_alone_of_its_source_is_left_out_and_an_empty_one_is_no_company() -> None:
    words = [[7, 8, 9]] * 4
    two = [EncodedDocument("two", words), EncodedDocument("two", words)]
    alone = [EncodedDocument("one", words), EncodedDocument("one", [])]
    assert with_company([*alone, *two]) == two
    halves = [EncodedDocument("one", words[:2]), EncodedDocument("one", words[2:])]
    assert halved([*two, *alone]) == [*two, *halves]


# -- held-out batches


def test_held_out_batches_are_the_same_at_every_call_and_leave_nothing_out() -> None:
    documents = collection(6, seed=2)
    one, two = (fixed_batches(documents, 64, 8, VOCAB) for _ in range(2))
    assert len(one) == len(two)
    assert all(map(same, one, two))
    assert not same(one[0], fixed_batches(documents, 64, 8, VOCAB, seed=1)[0])
    rng = np.random.default_rng([2018])
    assert sum(len(b.ids) for b in one) == len(list(make_pairs(documents, 64, rng)))
    assert len(one[-1].ids) < 8, "the last, smaller batch counts as well"
    assert_masks_differ(*one[:-1])


@pytest.mark.parametrize(("direction", "step"), [("left-to-right", 1), ("right-to-left", -1)])
def test_held_out_batches_ask_what_training_asks(direction: Any, step: int) -> None:
    """15 % masked words; a one-way model reads them whole, unless it is asked for masked ones."""
    both = fixed_batches(DOCUMENTS, 64, 16, VOCAB)
    words = sum(int((original(batch) >= WORDS).sum()) for batch in both)
    assert sum(len(batch.labels) for batch in both) / words == pytest.approx(0.15, abs=0.01)
    plain, masked, drawn = (
        fixed_batches(DOCUMENTS, 64, 16, VOCAB, direction=direction, question=question)
        for question in (None, "masked", "drawn")
    )
    assert all(map(same, both, masked))
    assert all(batch.weights is not None for batch in drawn)
    for masks, batch in zip(both, plain, strict=True):
        assert torch.equal(original(masks), batch.ids)
        assert torch.equal(batch.labels, batch.ids[batch.selected.roll(step, dims=1)])


# -- other questions


def test_each_word_is_predicted_once_from_the_position_beside_it() -> None:
    ids = torch.tensor(
        [[CLS_ID, 11, 12, SEP_ID, 13, SEP_ID, PAD_ID], [CLS_ID, 14, SEP_ID, 15, 16, 17, SEP_ID]]
    )
    right, following = next_words(ids, "left-to-right")
    assert right.nonzero().tolist() == [[0, 0], [0, 1], [0, 3], [1, 0], [1, 2], [1, 3], [1, 4]]
    left, previous = next_words(ids, "right-to-left")
    assert left.nonzero().tolist() == [[0, 2], [0, 3], [0, 5], [1, 2], [1, 4], [1, 5], [1, 6]]
    assert following.tolist() == previous.tolist() == [11, 12, 13, 14, 15, 16, 17]
    full = torch.tensor([[10, 11, 12]])  # its ends do not meet
    assert next_words(full, "left-to-right")[0].tolist() == [[True, True, False]]
    assert next_words(full, "right-to-left")[0].tolist() == [[False, True, True]]
    with pytest.raises(ValueError, match="mask words instead"):
        next_words(full, "bidirectional")


def test_of_masked_diffusion_every_word_weighs_one_on_average_and_special_tokens_nothing() -> None:
    packed = pack_pairs(list(make_pairs(DOCUMENTS, 24, np.random.default_rng(0))), 24)
    words = torch.from_numpy(packed.ids[:8]) >= WORDS
    total = torch.zeros(words.shape)
    for number in range(3000):
        batch = make_batch(packed, slice(0, 8), VOCAB, [0, number], 0.3, question="drawn")
        assert batch.weights is not None
        assert torch.equal(batch.ids == MASK_ID, batch.selected)
        # the loss divides by the labels: undone here
        of_words = batch.weights * words.sum() / len(batch.labels)
        total[:, : batch.ids.shape[1]][batch.selected] += of_words
    mean = total / 3000
    assert not mean[~words].any()
    assert mean[words].mean() == pytest.approx(1, abs=0.02)
    assert mean[words].std() < 0.35


def test_rates_of_a_batch_spread_evenly_and_differ_from_batch_to_batch() -> None:
    ids, generator = torch.full((50, 400), 7), torch.Generator().manual_seed(0)
    hidden, rate = hide_some(ids, generator)
    assert sorted((rate * 50).long().flatten().tolist()) == list(range(50))
    assert torch.allclose(hidden.float().mean(1, keepdim=True), rate, atol=0.1)
    assert not torch.allclose(rate, hide_some(ids, generator)[1])


# -- what is done with a batch


def test_a_batch_moves_whole_and_its_parts_are_the_batch() -> None:
    batch, _ = next(stream(size=7, question="drawn"))
    moved = tensors(batch.to(torch.device("meta")))
    assert {tensor.device.type for tensor in moved.values()} == {"meta"}
    assert moved.keys() == tensors(batch).keys()
    for number in range(3):
        with torch.device("meta"):  # of a batch on a GPU, the rows are chosen there
            part = batch.part(number, 3)
        rows = list(range(number, 7, 3))
        for name in tensors(batch).keys() - {"labels", "weights"}:
            assert torch.equal(getattr(part, name), getattr(batch, name)[rows])
        for name in ("labels", "weights"):
            values = getattr(batch, name)
            full = torch.full(batch.ids.shape, -1).to(values).masked_scatter(batch.selected, values)
            assert torch.equal(getattr(part, name), full[rows][batch.selected[rows]])
