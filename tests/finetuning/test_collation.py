"""Batches: padding changes nothing, nothing is lost, and the tokenizer is left as it was."""

import itertools
from collections import Counter

import pytest
import torch
from tiny_kinds import CONTEXT, EXAMPLES, SENTENCES, TOKENIZER, encoded, make_kind, tiny
from tokenizers import Tokenizer

from bertedu.finetuning.collation import (
    NO_TARGET,
    Item,
    collate,
    scoring_batches,
    training_batches,
    truncating,
)
from bertedu.finetuning.examples import AnyExample, Choice, Example, Question, Tagged, TaskError
from bertedu.finetuning.training import score_items

LONGER: dict[str, AnyExample] = {
    "classification": Example(CONTEXT, SENTENCES[3], 2),
    "regression": Example(CONTEXT, SENTENCES[3], 2),
    "choice": Choice(CONTEXT, SENTENCES[1:], 1),
    "tagging": Tagged(tuple(CONTEXT.split()), ("O",) * len(CONTEXT.split())),
    "span": Question("longer", SENTENCES[3], CONTEXT, ()),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_longer_neighbor_changes_no_score(name: str) -> None:
    kind = make_kind(name)
    model = tiny(kind)
    first = kind.encode(EXAMPLES[name][:1], TOKENIZER, 128)[0]
    longer = kind.encode([LONGER[name]], TOKENIZER, 128)[0]
    assert longer.length > first.length + 15
    with torch.no_grad():
        alone = model(collate([first]))[0]
        beside = model(collate([first, longer]))[0]
        as_second = model(collate([longer, first]))[1]
    for found in (beside, as_second):
        if name == "tagging":
            found = found[: first.length]
        if name == "span":
            found = found[:, : first.length]
        torch.testing.assert_close(found, alone, rtol=1e-5, atol=1e-5)


def test_what_stands_in_the_padding_changes_no_score() -> None:
    kind = make_kind("classification")
    model, batch = tiny(kind), encoded(kind, EXAMPLES["classification"])
    padding = ~batch.padding_mask
    assert padding.any()
    assert not batch.ids[padding].any()
    assert not batch.segment_ids[padding].any()
    with torch.no_grad():
        before = model(batch)
        batch.ids[padding], batch.segment_ids[padding] = 99, 1
        torch.testing.assert_close(model(batch), before, rtol=1e-5, atol=1e-5)
        batch.padding_mask[:] = True  # taken for tokens, they would matter
        assert (model(batch) - before).abs().max() > 0.01


def test_a_batch_holds_what_the_items_hold() -> None:
    kind = make_kind("tagging")
    items = kind.encode(EXAMPLES["tagging"], TOKENIZER, 128)
    batch = collate(items)
    for row, item in enumerate(items):
        (encoding,), size = item.rows, item.length
        assert batch.ids[row, :size].tolist() == encoding.ids
        assert batch.padding_mask[row].tolist() == [i < size for i in range(batch.ids.shape[1])]
        assert batch.target[row, :size].tolist() == item.target
        assert set(batch.target[row, size:].tolist()) <= {NO_TARGET}
    (pair,) = make_kind("classification").encode([Example("One.", "Two.", 0)], TOKENIZER, 128)
    assert collate([pair]).segment_ids.tolist() == [[0, 0, 0, 0, 1, 1, 1]]


def test_to_moves_every_tensor() -> None:
    moved = encoded(make_kind("tagging"), EXAMPLES["tagging"]).to(torch.device("meta"))
    for tensor in (moved.ids, moved.segment_ids, moved.padding_mask, moved.target):
        assert tensor.device.type == "meta"
    assert len(moved.items) == 2


# -- the order of training


def many(count: int = 203) -> list[Item]:
    """Items of all lengths from 3 tokens to 42; each has its number for a target."""
    rows = [TOKENIZER.encode("tree " * size) for size in range(1, 41)]
    dice = torch.Generator().manual_seed(0)
    sizes = torch.randint(40, (count,), generator=dice).tolist()
    return [Item(number, (rows[size],), number) for number, size in enumerate(sizes)]


def order(items: list[Item], seed: int, epoch: int, size: int = 8) -> list[list[int]]:
    return [batch.target.tolist() for batch in training_batches(items, size, seed, epoch)]


def test_an_epoch_yields_every_item_once() -> None:
    items = many()
    for seed, epoch, size in itertools.product((0, 1), (0, 1), (1, 8, 500)):
        batches = order(items, seed, epoch, size)
        assert Counter(itertools.chain(*batches)) == Counter(range(len(items)))
        assert max(map(len, batches)) <= size
        assert len(batches) == -(-len(items) // size)
    for batch in training_batches(items, 8, 0, 0):  # targets stay with their rows
        for row, target in zip(batch.padding_mask, batch.target.tolist(), strict=True):
            assert int(row.sum()) == items[target].length


def test_seed_and_epoch_alone_decide_the_order() -> None:
    items = many()
    first = order(items, 0, 0)
    torch.manual_seed(5)
    assert order(items, 0, 0) == first
    others = [order(items, 1, 0), order(items, 0, 1), order(items, 1, 1)]
    for one, other in itertools.combinations([first, *others], 2):
        assert one != other
        assert {frozenset(batch) for batch in one} != {frozenset(batch) for batch in other}


def test_like_lengths_meet_and_batches_are_shuffled() -> None:
    items = many()
    real = sum(item.length for item in items)
    padded = sum(batch.ids.numel() for batch in training_batches(items, 8, 0, 0))
    shuffled = torch.randperm(len(items), generator=torch.Generator().manual_seed(1)).tolist()
    at_random = sum(
        collate([items[i] for i in shuffled[begin : begin + 8]]).ids.numel()
        for begin in range(0, len(items), 8)
    )
    assert padded - real < (at_random - real) / 3
    lengths = [batch.ids.shape[1] for batch in training_batches(items, 8, 0, 0)]
    ups = sum(b > a for a, b in itertools.pairwise(lengths))
    assert 0.2 < ups / len(lengths) < 0.8, "short batches first would teach short texts first"


def test_scoring_gives_each_item_its_own_score() -> None:
    """Sorted by length inside, in the order of the items outside."""
    kind = make_kind("regression")
    model = tiny(kind)
    texts = [" ".join(["The old map", "was torn"][i % 2 :] * (1 + 7 * i % 11)) for i in range(20)]
    items = kind.encode([Example(text, None, 0) for text in texts], TOKENIZER, 128)
    found = [place for places, _ in scoring_batches(items, 6) for place in places]
    assert sorted(found) == list(range(20))
    assert [items[i].length for i in found] == sorted(item.length for item in items)
    for places, batch in scoring_batches(items, 6):
        assert [items[i] for i in places] == list(batch.items)
    together = score_items(model.train(), items)
    assert model.training, "as it was"
    for item, score in zip(items, together, strict=True):
        (alone,) = score_items(model, [item])
        torch.testing.assert_close(score, alone, rtol=1e-5, atol=1e-5)
    assert len({round(float(score), 4) for score in together}) > 15, "the scores do differ"


# -- cutting


@pytest.fixture
def tokenizer() -> Tokenizer:
    return Tokenizer.from_str(TOKENIZER.to_str())


def test_cuts_inside_and_only_inside(tokenizer: Tokenizer) -> None:
    whole = tokenizer.encode(CONTEXT).ids
    with truncating(tokenizer, 10) as cutting:
        assert cutting.encode(CONTEXT).ids == [*whole[:9], whole[-1]]
    assert tokenizer.encode(CONTEXT).ids == whole
    assert len(whole) > 40


@pytest.mark.parametrize("before", [None, (50, 3, "only_first"), (20, 0, "longest_first")])
def test_the_tokenizer_is_left_as_it_was_even_by_an_error(
    tokenizer: Tokenizer, before: tuple[int, int, str] | None
) -> None:
    if before:
        tokenizer.enable_truncation(before[0], stride=before[1], strategy=before[2])
    state = tokenizer.truncation
    with truncating(tokenizer, 12, 2, "only_second"):
        assert tokenizer.truncation != state
    assert tokenizer.truncation == state
    with pytest.raises(RuntimeError, match="in between"), truncating(tokenizer, 12):
        raise RuntimeError("in between")
    assert tokenizer.truncation == state
    with pytest.raises(TaskError), truncating(tokenizer, 3):
        pass
    assert tokenizer.truncation == state
    for name in EXAMPLES:
        make_kind(name).encode(EXAMPLES[name], tokenizer, 40)
        assert tokenizer.truncation == state, name
    broken = Tagged(("Lyon",), ("B-RIVER",))
    with pytest.raises(KeyError):
        make_kind("tagging").encode([broken], tokenizer, 40)
    assert tokenizer.truncation == state


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize("length", [-1, 0, 2, 7])
def test_too_short_a_length_is_refused(name: str, length: int) -> None:
    with pytest.raises(TaskError, match=f"max_length {length} is too short"):
        make_kind(name).encode(EXAMPLES[name], TOKENIZER, length)


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize("length", [8, 9, 16, 21, 40, 57, 128])
def test_no_row_is_longer_than_asked(name: str, length: int) -> None:
    items = make_kind(name).encode([*EXAMPLES[name], LONGER[name]], TOKENIZER, length)
    assert max(item.length for item in items) <= length
    if length <= 57:
        assert max(item.length for item in items) == length, "room is used"
    numbers = [item.example for item in items]
    assert numbers == sorted(numbers)
    assert set(numbers) == set(range(len(EXAMPLES[name]) + 1))


def test_the_longer_of_two_texts_is_cut() -> None:
    kind = make_kind("classification")
    for pair in ((SENTENCES[2], CONTEXT), (CONTEXT, SENTENCES[2])):
        (item,) = kind.encode([Example(*pair, 0)], TOKENIZER, 24)
        short = TOKENIZER.encode(SENTENCES[2], add_special_tokens=False).ids
        segment = pair.index(SENTENCES[2])
        (row,) = item.rows
        inside = [i for i, s in zip(row.ids, row.sequence_ids, strict=True) if s == segment]
        assert inside == short
