"""Tags: asked and answered at first pieces only, and entities counted as seqeval counts them."""

import dataclasses
import random
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from seqeval.metrics import f1_score, precision_score, recall_score
from seqeval.scheme import IOB2
from tiny_kinds import (
    EXAMPLES,
    TAGS,
    TOKENIZER,
    assert_same,
    encoded,
    make_kind,
    named,
    scores_and_loss,
    theirs_of,
    tiny,
)
from torch import Tensor

from bertedu.finetuning.collation import NO_TARGET, Item, collate
from bertedu.finetuning.examples import Tagged
from bertedu.finetuning.kinds import Answer
from bertedu.finetuning.tagging import Tagging, entities, first_pieces
from bertedu.finetuning.training import TaskModel, score_items

KIND = Tagging(TAGS)
# one piece; several; punctuation inside; no piece at all; one piece
WORDS = ("the", "unbelievably", "don't", "\u200b\u200e", "house")
TRUTH = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")


def item_of(*words: str, tags: tuple[str, ...] | None = None, max_length: int = 128) -> Item:
    example = Tagged(words, tags or ("O",) * len(words))
    (item,) = KIND.encode([example], TOKENIZER, max_length)
    return item


def answer_to(item: Item, words: tuple[str, ...], scores: Tensor) -> tuple[str, ...]:
    (answer,) = KIND.answers([Tagged(words, ("O",) * len(words))], [item], [scores])
    return tuple(answer.value)


# -- where a tag stands


def test_targets_stand_at_first_pieces_only() -> None:
    item = item_of(*WORDS, tags=TRUTH)
    (row,) = item.rows
    assert [row.tokens[p] for p in first_pieces(row).values()] == ["the", "unb", "don", "house"]
    asked = {
        row.tokens[place]: TAGS[target]
        for place, target in enumerate(item.target)
        if target != NO_TARGET
    }
    # the tag of the word without a piece is asked nowhere, and moves nobody else's
    assert asked == {"the": "O", "unb": "B-PER", "don": "I-PER", "house": "I-LOC"}
    assert len(row.ids) == len(item.target) > len(WORDS) + 4
    assert item.target[0] == item.target[-1] == NO_TARGET  # [CLS] and [SEP]


def test_an_answer_reads_first_pieces_only() -> None:
    item = item_of(*WORDS)
    (row,) = item.rows
    firsts = first_pieces(row)
    assert set(firsts) == {0, 1, 2, 4}
    scores = torch.randn(len(row.ids) + 5, len(TAGS), generator=torch.Generator().manual_seed(0))
    for word, place in firsts.items():
        scores[place] = 0.0
        scores[place, TAGS.index(TRUTH[word])] = 1.0
    expected = ("O", "B-PER", "I-PER", "O", "I-LOC")  # the first tag for what has no piece
    assert answer_to(item, WORDS, scores) == expected
    batch = dataclasses.replace(collate([item_of(*WORDS, tags=TRUTH)]))
    loss = KIND.loss(scores[None, : len(row.ids)], batch)
    for place in range(len(scores)):
        pushed = scores.clone()
        pushed[place, TAGS.index("B-LOC")] += 100.0
        other = answer_to(item, WORDS, pushed)
        changed = [word for word in range(len(WORDS)) if other[word] != expected[word]]
        assert changed == [word for word, first in firsts.items() if first == place]
        if place < len(row.ids):
            now = KIND.loss(pushed[None, : len(row.ids)], batch)
            assert (abs(now - loss) > 1) == (place in firsts.values())


def test_words_are_counted_as_given_not_as_cut() -> None:
    """Spaces, punctuation or the name of a special token inside make no second word."""
    words = ("New York", "o'clock", "[MASK]", "U.S.A.", "end")
    firsts = first_pieces(item_of(*words).rows[0])
    tokens = item_of(*words).rows[0].tokens
    assert sorted(firsts) == [0, 1, 2, 3, 4]
    assert [tokens[firsts[word]] for word in (0, 2, 3, 4)] == ["new", "[MASK]", "u", "end"]


def test_words_cut_off_get_the_first_tag() -> None:
    words = ("mira",) * 12
    item = item_of(*words, tags=("B-PER",) * 12, max_length=10)
    (row,) = item.rows
    kept = len(first_pieces(row))
    assert 0 < kept < 12
    scores = torch.zeros(len(row.ids), len(TAGS))
    scores[:, TAGS.index("B-PER")] = 1
    assert answer_to(item, words, scores) == ("B-PER",) * kept + ("O",) * (12 - kept)
    assert sum(target != NO_TARGET for target in item.target) == kept
    # they count as misses
    example = Tagged(words, ("B-PER",) * 12)
    (row_of_counts,) = KIND.outcomes([example], KIND.answers([example], [item], [scores]))
    assert row_of_counts.tolist() == [kept, kept, 12]


def test_the_truth_moves_no_answer() -> None:
    model = tiny(KIND, seed=3)
    examples = EXAMPLES["tagging"]
    blank = [dataclasses.replace(e, tags=("O",) * len(e.tags)) for e in examples]  # type: ignore
    answers = []
    for given in (examples, blank):
        items = KIND.encode(given, TOKENIZER, 128)
        answers.append(KIND.answers(given, items, score_items(model, items)))
    assert answers[0] == answers[1]
    assert [len(answer.value) for answer in answers[0]] == [5, 2]
    assert len(set(answers[0][0].value)) > 1


# -- the loss


@pytest.mark.parametrize("rows", [1, 2])
def test_scores_and_loss_as_in_transformers(tmp_path: Path, rows: int) -> None:
    transformers = pytest.importorskip("transformers")
    model, batch = tiny(KIND), encoded(KIND, EXAMPLES["tagging"][:rows])
    theirs = theirs_of(model, "tagging", tmp_path, transformers.AutoModelForTokenClassification)
    scores, loss = scores_and_loss(model, batch)
    with torch.no_grad():
        expected = theirs(**named(batch), labels=batch.target)
    assert_same(scores[batch.padding_mask], expected.logits[batch.padding_mask])
    assert_same(loss, expected.loss)
    assert [theirs.config.id2label[i] for i in range(5)] == list(TAGS)


def test_the_loss_is_a_mean_over_words() -> None:
    """Long sentences count more than short ones, and padding counts nothing."""
    model = tiny(KIND)
    batches = [encoded(KIND, [example]) for example in EXAMPLES["tagging"]]
    words = [len(e.words) for e in EXAMPLES["tagging"]]  # type: ignore[union-attr]
    alone = [float(scores_and_loss(model, batch)[1]) for batch in batches]
    together = float(scores_and_loss(model, encoded(KIND, EXAMPLES["tagging"]))[1])
    assert words == [5, 2]
    assert together == pytest.approx(np.average(alone, weights=words), rel=1e-5)
    assert abs(together - np.mean(alone)) > 1e-3


def test_a_batch_without_a_word_to_tag_has_loss_zero() -> None:
    """The mean of nothing is NaN, and one NaN spoils every weight."""
    model: TaskModel = tiny(KIND)
    batch = encoded(KIND, [Tagged(("\u200b",), ("O",))])
    loss = KIND.loss(model(batch), batch)
    assert loss.item() == 0
    loss.backward()  # type: ignore[no-untyped-call]
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


# -- entities


def by_hand(tags: tuple[str, ...]) -> set[tuple[str, int, int]]:
    """Walk once: B- begins, I- of the same type goes on, anything else ends."""
    found, start = set(), None
    for i, tag in enumerate([*tags, "O"]):
        if start is not None and tag != f"I-{tags[start][2:]}":
            found.add((tags[start][2:], start, i))
            start = None
        if tag.startswith("B-"):
            start = i
    return found


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ("O O", set()),
        ("B-PER I-PER O", {("PER", 0, 2)}),
        ("B-PER B-PER", {("PER", 0, 1), ("PER", 1, 2)}),
        ("I-PER I-PER", set()),
        ("B-PER I-LOC", {("PER", 0, 1)}),
        ("O I-LOC B-LOC", {("LOC", 2, 3)}),
        ("B-LOC O I-LOC", {("LOC", 0, 1)}),
    ],
)
def test_entities_by_hand(tags: str, expected: set[tuple[str, int, int]]) -> None:
    assert entities(tags.split()) == expected
    assert by_hand(tuple(tags.split())) == expected


def random_tags(rng: random.Random, size: int) -> tuple[str, ...]:
    """Any order of tags: also I- without B-, and types that change on the way."""
    return tuple(rng.choice(TAGS) for _ in range(size))


def disturbed(rng: random.Random, tags: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(rng.choice(TAGS) if rng.random() < 0.2 else tag for tag in tags)


@pytest.mark.parametrize("seed", range(25))
def test_counts_of_sentences_add_up_to_seqeval(seed: int) -> None:
    rng = random.Random(seed)
    truths = [random_tags(rng, rng.randint(1, 14)) for _ in range(rng.randint(1, 8))]
    found = [disturbed(rng, tags) for tags in truths]
    examples = [Tagged(("x",) * len(tags), tags) for tags in truths]
    outcomes = KIND.outcomes(examples, [Answer(tags) for tags in found])
    for row, truth, tags in zip(outcomes, truths, found, strict=True):
        there, said = by_hand(truth), by_hand(tags)
        assert row.tolist() == [len(there & said), len(said), len(there)]
    for part in (slice(None), slice(0, 3)):
        given = [list(t) for t in truths[part]], [list(t) for t in found[part]]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about sentences without an entity
            expected = {
                "f1": f1_score(*given, mode="strict", scheme=IOB2, zero_division=0),
                "precision": precision_score(*given, mode="strict", scheme=IOB2, zero_division=0),
                "recall": recall_score(*given, mode="strict", scheme=IOB2, zero_division=0),
            }
        assert KIND.metrics(outcomes[part]) == pytest.approx(expected)


def test_nothing_found_and_nothing_there() -> None:
    assert KIND.metrics(np.array([[0.0, 0, 0]])) == {"f1": 0, "precision": 0, "recall": 0}
    assert KIND.metrics(np.array([[0.0, 2, 0]])) == {"f1": 0, "precision": 0, "recall": 0}
    assert KIND.metrics(np.array([[1.0, 4, 2]]))["recall"] == 0.5
    assert KIND.metrics(np.array([[1.0, 4, 2]]))["precision"] == 0.25
    assert make_kind("tagging").columns == ("right", "found", "there")
