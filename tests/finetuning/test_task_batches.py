"""Batches: nothing is lost, like lengths meet, and the tokenizer is left as it was."""

import itertools
from collections import Counter

import pytest
import torch
from tiny_kinds import CONTEXT, EXAMPLES, TOKENIZER, encoded, make_kind, tiny
from tokenizers import Tokenizer

from bertedu.finetuning.examples import Example, Tagged
from bertedu.finetuning.kinds import Item, collate, truncating
from bertedu.finetuning.training import score_items, scoring_batches, training_batches


def test_all_of_a_batch_goes_to_a_device() -> None:
    batch = encoded(make_kind("tagging"), EXAMPLES["tagging"])
    moved = batch.to(torch.device("meta"))
    for tensor in (moved.ids, moved.segment_ids, moved.padding_mask, moved.target):
        assert tensor.device.type == "meta"
    assert moved.items == batch.items


# -- the order of training


def many() -> list[Item]:
    """Items of all lengths from 3 tokens to 42; each has its number for a target."""
    rows = [TOKENIZER.encode("tree " * size) for size in range(1, 41)]
    sizes = torch.randint(40, (203,), generator=torch.Generator().manual_seed(0)).tolist()
    return [Item(number, (rows[size],), number) for number, size in enumerate(sizes)]


def test_an_epoch_yields_every_item_once_in_an_order_of_seed_and_epoch_alone() -> None:
    items, seen = many(), set()
    for seed, epoch, size in itertools.product((0, 1), (0, 1), (1, 8, 500)):
        batches = list(training_batches(items, size, seed, epoch))
        torch.manual_seed(5)
        order = [batch.target.tolist() for batch in batches]
        assert order == [b.target.tolist() for b in training_batches(items, size, seed, epoch)]
        assert Counter(itertools.chain(*order)) == Counter(range(len(items)))
        assert max(map(len, order)) <= size
        assert len(order) == -(-len(items) // size)
        for batch in batches:  # targets stay with their rows
            lengths = [items[target].length for target in batch.target]
            assert batch.padding_mask.sum(1).tolist() == lengths
        seen.add(frozenset(frozenset(some) for some in order) if size == 8 else str(order))
    assert len(seen) == 12


def test_like_lengths_meet_and_batches_are_shuffled() -> None:
    items = many()
    real = sum(item.length for item in items)
    batches = [batch.ids for batch in training_batches(items, 8, 0, 0)]
    shuffled = [items[i] for i in torch.randperm(203, generator=torch.Generator().manual_seed(1))]
    at_random = sum(collate(shuffled[i : i + 8]).ids.numel() for i in range(0, 203, 8))
    assert sum(ids.numel() for ids in batches) - real < (at_random - real) / 3
    ups = sum(b.shape[1] > a.shape[1] for a, b in itertools.pairwise(batches))
    assert 0.2 < ups / len(batches) < 0.8, "short batches first would teach short texts first"


def test_scoring_gives_each_item_its_own_score() -> None:
    """Sorted by length inside, in the order of the items outside."""
    model = tiny(make_kind("regression"))
    texts = [" ".join(["The old map", "was torn"][i % 2 :] * (1 + 7 * i % 11)) for i in range(80)]
    items = model.kind.encode([Example(text, None, 0) for text in texts], TOKENIZER, 128)
    batches = list(scoring_batches(items, 6))
    order = [place for places, _ in batches for place in places]
    assert sorted(order) == list(range(80))
    assert [items[i].length for i in order] == sorted(item.length for item in items)
    for places, batch in batches:
        assert [items[i] for i in places] == list(batch.items)
    together = score_items(model.train(), items)
    assert model.training, "as it was"
    alone = [score_items(model, [item])[0] for item in items]
    torch.testing.assert_close(torch.stack(together), torch.stack(alone), rtol=1e-5, atol=1e-5)
    assert len({round(float(score), 4) for score in together}) > 15, "the scores do differ"


# -- cutting


@pytest.mark.parametrize("before", [None, (50, 3, "only_first"), (20, 0, "longest_first")])
def test_the_tokenizer_is_left_as_it_was_even_by_an_error(
    before: tuple[int, int, str] | None,
) -> None:
    tokenizer = Tokenizer.from_str(TOKENIZER.to_str())
    whole = tokenizer.encode(CONTEXT).ids
    if before:
        tokenizer.enable_truncation(before[0], stride=before[1], strategy=before[2])
    state = tokenizer.truncation
    with truncating(tokenizer, 12) as cutting:
        assert cutting.encode(CONTEXT).ids == [*whole[:11], whole[-1]]
    assert tokenizer.truncation == state
    for name in EXAMPLES:
        make_kind(name).encode(EXAMPLES[name], tokenizer, 40)
        assert tokenizer.truncation == state, name
    with pytest.raises(KeyError):
        make_kind("tagging").encode([Tagged(("Lyon",), ("B-RIVER",))], tokenizer, 40)
