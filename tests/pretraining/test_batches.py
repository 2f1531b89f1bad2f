"""Packing, masks, labels, and batches that depend on (seed, epoch, index) alone."""

from collections import Counter
from itertools import combinations, islice, pairwise

import numpy as np
import pytest
import torch

from bertedu.pretraining.batches import (
    Batch,
    Position,
    batches,
    fixed_batches,
    make_batch,
    pack_pairs,
)
from bertedu.pretraining.next_sentence import EncodedDocument, Pair, make_pairs
from bertedu.text.tokenization import CLS_ID, MASK_ID, PAD_ID, SEP_ID, SPECIAL_TOKENS

VOCAB = 500


def collection(documents: int = 30, seed: int = 0) -> list[EncodedDocument]:
    """Sentences of 5 to 45 words and 5 to 50 a document: as long as real ones."""
    rng = np.random.default_rng(seed)
    return [
        EncodedDocument(
            "s",
            [
                rng.integers(len(SPECIAL_TOKENS), VOCAB, rng.integers(5, 46)).tolist()
                for _ in range(rng.integers(5, 51))
            ],
        )
        for _ in range(documents)
    ]


DOCUMENTS = collection()


def same(one: Batch, two: Batch) -> bool:
    return all(
        torch.equal(a, b) for a, b in zip(vars(one).values(), vars(two).values(), strict=True)
    )


def original(batch: Batch) -> torch.Tensor:
    return batch.ids.masked_scatter(batch.selected, batch.labels)


def test_a_pair_becomes_cls_a_sep_b_sep_padding() -> None:
    pairs = [Pair([11, 12], [13], 0), Pair([21], [22, 23, 24], 1)]
    packed = pack_pairs(pairs, 9, np.random.default_rng(0))
    rows = {int(row[1]): i for i, row in enumerate(packed.ids)}
    short, long = rows[11], rows[21]
    assert packed.ids[short].tolist() == [CLS_ID, 11, 12, SEP_ID, 13, SEP_ID, 0, 0, 0]
    assert packed.ids[long].tolist() == [CLS_ID, 21, SEP_ID, 22, 23, 24, SEP_ID, 0, 0]
    assert packed.segments[short].tolist() == [0, 0, 0, 0, 1, 1, 0, 0, 0]
    assert packed.segments[long].tolist() == [0, 0, 0, 1, 1, 1, 1, 0, 0]
    assert (packed.sizes[short], packed.sizes[long]) == (6, 7)
    assert (packed.labels[short], packed.labels[long]) == (0, 1)

    batch = make_batch(packed, slice(0, 2), VOCAB, [1, 2, 3], 0.15)
    assert batch.ids.shape == (2, 7)  # no wider than its longest row
    assert batch.padding_mask[short].tolist() == [True] * 6 + [False]
    assert batch.padding_mask[long].all()
    assert batch.padding_mask.sum() == 13
    assert original(batch).tolist() == packed.ids[:, :7].tolist()
    assert batch.segment_ids.tolist() == packed.segments[:, :7].tolist()
    assert batch.next_labels.tolist() == packed.labels.tolist()
    assert {t.dtype for t in (batch.ids, batch.labels, batch.next_labels)} == {torch.int64}


def test_pairs_are_shuffled() -> None:
    pairs = [Pair([i], [i], i % 2) for i in range(10, 110)]
    packed = pack_pairs(pairs, 5, np.random.default_rng(0))
    order = packed.ids[:, 1].tolist()
    assert order != sorted(order)
    assert sorted(order) == list(range(10, 110))
    assert packed.ids[:, 3].tolist() == order
    assert (packed.labels == packed.ids[:, 1] % 2).all()


def test_labels_are_the_original_ids_at_the_selected_places() -> None:
    """An epoch rebuilt by hand: same pairs, shuffle, slices; nothing else in the batch moves."""
    rng = np.random.default_rng([3, 0])
    packed = pack_pairs(list(make_pairs(DOCUMENTS, 64, rng)), 64, rng)
    count = len(packed.sizes) // 16
    for i, (batch, position) in enumerate(islice(batches(DOCUMENTS, 64, 16, VOCAB, 3), count)):
        size = int(packed.sizes[16 * i : 16 * i + 16].max())
        before = torch.from_numpy(packed.ids[16 * i : 16 * i + 16, :size]).long()
        assert torch.equal(original(batch), before)
        assert torch.equal(batch.labels, before[batch.selected])
        assert torch.equal(batch.ids[~batch.selected], before[~batch.selected])
        assert not batch.selected[before < len(SPECIAL_TOKENS)].any()
        assert torch.equal(batch.padding_mask, before != PAD_ID)
        assert batch.next_labels.tolist() == packed.labels[16 * i : 16 * i + 16].tolist()
        for row, segments in zip(before.tolist(), batch.segment_ids.tolist(), strict=True):
            first, second = (j for j, token in enumerate(row) if token == SEP_ID)
            inside = [1 if first < j <= second else 0 for j in range(len(row))]
            assert segments == inside
            assert row[0] == CLS_ID
        assert position == Position(0, i + 1)


def test_the_answer_is_not_in_the_input() -> None:
    hidden = total = 0
    for batch, _ in islice(batches(DOCUMENTS, 64, 16, VOCAB, 0), 30):
        hidden += int((batch.ids[batch.selected] == MASK_ID).sum())
        total += len(batch.labels)
        # about one in ten stays (and one in 5,000 is drawn again)
        assert (batch.ids[batch.selected] == batch.labels).float().mean() < 0.25
    assert abs(hidden / total - 0.8) < 5 * (0.16 / total) ** 0.5


@pytest.mark.parametrize("rate", [0.15, 0.4])
def test_the_masking_rate_is_the_one_asked_for(rate: float) -> None:
    selected = words = 0
    for batch, _ in islice(batches(DOCUMENTS, 64, 16, VOCAB, 0, mask_rate=rate), 30):
        selected += len(batch.labels)
        words += int((original(batch) >= len(SPECIAL_TOKENS)).sum())
    assert abs(selected / words - rate) < 5 * (rate * (1 - rate) / words) ** 0.5


@pytest.mark.parametrize("masking", [(1.0, 0.0), (0.0, 1.0), (0.0, 0.0), (0.5, 0.0)])
def test_the_masking_procedure_is_the_one_asked_for(masking: tuple[float, float]) -> None:
    hidden = same = total = 0
    stream = batches(DOCUMENTS, 64, 16, VOCAB, 0, masking=masking)
    for batch, _ in islice(stream, 30):
        chosen = batch.ids[batch.selected]
        hidden += int((chosen == MASK_ID).sum())
        same += int((chosen == batch.labels).sum())
        total += len(batch.labels)
    assert abs(hidden / total - masking[0]) < 0.02
    assert abs(same / total - (1 - sum(masking))) < 0.02


def test_any_batch_can_be_made_again_from_its_position() -> None:
    walked = list(islice(batches(DOCUMENTS, 48, 16, VOCAB, seed=9), 130))
    epochs = Counter(position.epoch for _, position in walked)
    assert len(epochs) >= 2, "the test must cross an epoch"
    starts = [Position(), *(position for _, position in walked)]
    ends_of_epochs = [i for i in range(1, 130) if walked[i][1].epoch > walked[i - 1][1].epoch]
    for index in {0, 1, 17, 129, *ends_of_epochs, *(i - 1 for i in ends_of_epochs)}:
        batch, position = next(batches(DOCUMENTS, 48, 16, VOCAB, 9, start=starts[index]))
        assert same(batch, walked[index][0]), f"batch {index}"
        assert position == walked[index][1]
    other, _ = next(batches(DOCUMENTS, 48, 16, VOCAB, seed=10))
    assert not torch.equal(original(other), original(walked[0][0]))


def test_masks_differ_from_batch_to_batch_and_epoch_to_epoch() -> None:
    """Dynamic masking. A generator seeded by the run alone would pass every shape test."""
    per_epoch = len(list(make_pairs(DOCUMENTS, 64, np.random.default_rng([0, 0])))) // 16
    drawn = [b for b, _ in islice(batches(DOCUMENTS, 64, 16, VOCAB, 0), per_epoch + 2)]
    of_another_seed, _ = next(batches(DOCUMENTS, 64, 16, VOCAB, 1))
    # the second batch, the first of the next epoch, the first of the next seed: sums are equal
    for one, two in combinations((*drawn[:2], drawn[per_epoch], of_another_seed), 2):
        width = min(one.ids.shape[1], two.ids.shape[1])
        both = one.selected[:, :width] & two.selected[:, :width]
        assert both.sum() < 0.5 * one.selected.sum()


def test_every_pair_of_an_epoch_is_used_once() -> None:
    documents = collection(6, seed=2)
    for epoch in (0, 1):
        rng = np.random.default_rng([4, epoch])
        pairs = Counter(
            (CLS_ID, *p.a, SEP_ID, *p.b, SEP_ID) for p in make_pairs(documents, 64, rng)
        )
        used: Counter[tuple[int, ...]] = Counter()
        stream = batches(documents, 64, 8, VOCAB, 4, start=Position(epoch, 0))
        for batch, position in stream:
            if position.epoch > epoch:
                break
            for row, real in zip(original(batch), batch.padding_mask, strict=True):
                used[tuple(row[real].tolist())] += 1
        left_over = pairs - used
        assert not used - pairs
        assert sum(left_over.values()) == sum(pairs.values()) % 8


@pytest.mark.parametrize("length", [64, 128])
def test_rows_are_well_filled(length: int) -> None:
    drawn = [b for b, _ in islice(batches(DOCUMENTS, length, 16, VOCAB, 0), 20)]
    real, places = sum(int(b.padding_mask.sum()) for b in drawn), sum(b.ids.numel() for b in drawn)
    assert real / places > 0.9


def test_held_out_batches_are_the_same_at_every_call_and_leave_nothing_out() -> None:
    documents = collection(6, seed=2)
    one, two = (fixed_batches(documents, 64, 8, VOCAB) for _ in range(2))
    assert all(map(same, one, two))
    assert len(one) == len(two)
    assert not same(one[0], fixed_batches(documents, 64, 8, VOCAB, seed=1)[0])
    rng = np.random.default_rng([2018])
    assert sum(len(b.ids) for b in one) == len(list(make_pairs(documents, 64, rng)))
    assert len(one[-1].ids) < 8, "the last, smaller batch counts as well"
    for first, second in pairwise(one[:-1]):  # full ones: the same chance would show
        width = min(first.ids.shape[1], second.ids.shape[1])
        both = first.selected[:, :width] & second.selected[:, :width]
        assert both.sum() < 0.5 * first.selected.sum()


def test_held_out_batches_ask_what_training_asks() -> None:
    """15 % masked words; a one-way model reads them whole, unless it is asked for masked ones."""
    both, ltr, rtl, masked = (
        fixed_batches(DOCUMENTS, 64, 16, VOCAB, **options)
        for options in (
            {},
            {"direction": "left-to-right"},
            {"direction": "right-to-left"},
            {"direction": "left-to-right", "question": "masked"},
        )
    )
    words = sum(int((original(batch) >= len(SPECIAL_TOKENS)).sum()) for batch in both)
    assert sum(len(batch.labels) for batch in both) / words == pytest.approx(0.15, abs=0.01)
    assert all(map(same, both, masked))
    for masks, left, right in zip(both, ltr, rtl, strict=True):
        assert torch.equal(original(masks), left.ids)
        assert torch.equal(original(masks), right.ids)
        assert torch.equal(left.labels, left.ids[left.selected.roll(1, dims=1)])
        assert torch.equal(right.labels, right.ids[right.selected.roll(-1, dims=1)])


def test_some_next_words_are_a_part_of_all_of_them() -> None:
    """The same text, the same answers; asked at about three places of ten, others in each epoch."""
    drawn = []
    for question in ("next", "some next"):
        stream = batches(
            DOCUMENTS, 64, 16, VOCAB, 0, 0.3, direction="left-to-right", question=question
        )
        drawn.append([batch for batch, position in islice(stream, 60) if position.epoch < 2])
    asked = 0
    for every, some in zip(*drawn, strict=True):
        assert torch.equal(every.ids, some.ids)
        assert not (some.selected & ~every.selected).any()
        assert torch.equal(some.labels, every.labels[some.selected[every.selected]])
        asked += len(some.labels)
    assert asked / sum(len(batch.labels) for batch in drawn[0]) == pytest.approx(0.3, abs=0.02)
    places = {tuple(batch.selected.nonzero().flatten().tolist()) for batch in drawn[1]}
    assert len(places) == len(drawn[1])


def test_each_epoch_is_read_from_its_own_window() -> None:
    """Window 0 knows one word, window 1 another."""
    windows = [[EncodedDocument("s", [[word] * 8] * 20)] * 12 for word in (50, 60)]
    seen: dict[int, set[int]] = {}
    for batch, position in batches(lambda epoch: windows[epoch % 2], 64, 8, VOCAB, 0):
        seen.setdefault(position.epoch, set()).update(batch.labels.tolist())
        if position.epoch == 3:
            break
    assert seen == {0: {50}, 1: {60}, 2: {50}, 3: {60}}


def test_too_little_text_is_an_error_not_an_endless_loop() -> None:
    documents = collection(2)
    with pytest.raises(ValueError, match=r"pairs do not fill one batch of 1000.*smaller batch"):
        next(batches(documents, 64, 1000, VOCAB, 0))
    with pytest.raises(ValueError, match="0 pairs do not fill one batch"):
        next(batches([], 64, 4, VOCAB, 0))
    assert fixed_batches([], 64, 4, VOCAB) == []


def test_a_batch_moves_whole() -> None:
    batch, _ = next(batches(DOCUMENTS, 64, 4, VOCAB, 0))
    moved = batch.to(torch.device("meta"))
    assert {tensor.device.type for tensor in vars(moved).values()} == {"meta"}
    assert moved.ids.shape == batch.ids.shape
