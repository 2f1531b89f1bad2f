"""One-way pre-training: what is predicted where, that nothing leaks, and that it learns."""

import dataclasses
from typing import get_args

import numpy as np
import pytest
import torch

from bertedu.model.bert import BertForPreTraining
from bertedu.model.config import BertConfig, Direction
from bertedu.pretraining.batches import Batch, batches, fixed_batches
from bertedu.pretraining.evaluation import evaluate
from bertedu.pretraining.loop import train
from bertedu.pretraining.next_sentence import EncodedDocument
from bertedu.pretraining.next_word import next_words
from bertedu.pretraining.objective import pretraining_loss
from bertedu.pretraining.recipe import Phase, Recipe
from bertedu.text.tokenization import CLS_ID, PAD_ID, SEP_ID

SIZE = 40
ONE_WAY: tuple[Direction, ...] = ("left-to-right", "right-to-left")
CONFIG = BertConfig(SIZE, 16, 2, 2, 32, 64, dropout=0.0)


def documents(seed: int, count: int = 12) -> list[EncodedDocument]:
    """Sentences that count upwards from anywhere: each word says what comes before and after."""
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(count):
        starts = rng.integers(5, SIZE, 12)
        sentences = [[5 + (int(s) + i) % (SIZE - 5) for i in range(8)] for s in starts]
        made.append(EncodedDocument("counting", sentences))
    return made


def a_batch(direction: Direction) -> Batch:
    return fixed_batches(documents(1), 32, 4, SIZE, direction=direction)[0]


def test_each_word_is_predicted_once_from_the_position_beside_it() -> None:
    ids = torch.tensor(
        [[CLS_ID, 11, 12, SEP_ID, 13, SEP_ID, PAD_ID], [CLS_ID, 14, SEP_ID, 15, 16, 17, SEP_ID]]
    )
    right, following = next_words(ids, "left-to-right")
    assert right.nonzero().tolist() == [[0, 0], [0, 1], [0, 3], [1, 0], [1, 2], [1, 3], [1, 4]]
    assert following.tolist() == [11, 12, 13, 14, 15, 16, 17]
    left, previous = next_words(ids, "right-to-left")
    assert left.nonzero().tolist() == [[0, 2], [0, 3], [0, 5], [1, 2], [1, 4], [1, 5], [1, 6]]
    assert previous.tolist() == [11, 12, 13, 14, 15, 16, 17]


def test_the_ends_do_not_meet() -> None:
    full = torch.tensor([[10, 11, 12]])
    assert next_words(full, "left-to-right")[0].tolist() == [[True, True, False]]
    assert next_words(full, "right-to-left")[0].tolist() == [[False, True, True]]


def test_a_bidirectional_model_is_refused() -> None:
    with pytest.raises(ValueError, match="mask words instead"):
        next_words(torch.tensor([[10, 11]]), "bidirectional")


@pytest.mark.parametrize("direction", ONE_WAY)
def test_no_answer_can_be_seen_where_it_is_asked(direction: Direction) -> None:
    """Change one label's token: no score of the position that must predict it may move."""
    torch.manual_seed(0)
    model = BertForPreTraining(dataclasses.replace(CONFIG, direction=direction)).eval()
    batch = a_batch(direction)
    step = 1 if direction == "left-to-right" else -1
    before, _ = model(batch.ids, batch.segment_ids, batch.padding_mask)
    assert len(batch.labels) > 40
    for row, place in batch.selected.nonzero().tolist()[::7]:
        changed = batch.ids.clone()
        changed[row, place + step] = 5 + (changed[row, place + step] - 4) % (SIZE - 5)
        after, _ = model(changed, batch.segment_ids, batch.padding_mask)
        assert torch.equal(after[row, place], before[row, place])
        assert not torch.equal(after[row, place + step], before[row, place + step])


@pytest.mark.parametrize("direction", get_args(Direction))
def test_all_variants_read_the_same_pairs(direction: Direction) -> None:
    (batch, _), (masked, _) = (
        next(batches(documents(1), 32, 4, SIZE, seed=3, direction=d))
        for d in (direction, "bidirectional")
    )
    assert torch.equal(batch.padding_mask, masked.padding_mask)
    assert torch.equal(batch.segment_ids, masked.segment_ids)
    assert torch.equal(batch.next_labels, masked.next_labels)
    kept = ~masked.selected
    assert torch.equal(batch.ids[kept], masked.ids[kept])
    if direction != "bidirectional":
        assert torch.equal(batch.ids[masked.selected], masked.labels)  # nothing is masked


@pytest.mark.parametrize("direction", ONE_WAY)
def test_it_learns_what_can_be_learned_from_one_side(direction: Direction) -> None:
    torch.manual_seed(0)
    model = BertForPreTraining(dataclasses.replace(CONFIG, direction=direction))
    held_out = fixed_batches(documents(2), 32, 8, SIZE, direction=direction)
    before = evaluate(model, held_out)
    recipe = Recipe(200, 5e-3, next_sentence=False, phases=(Phase(1.0, 32, 8),))
    train(model, documents(0, 40), held_out, recipe, progress=False)
    after = evaluate(model, held_out)
    assert before.mlm_accuracy < 0.1
    # Seven words of eight follow from their neighbor; the first of a sentence does not.
    assert 0.75 < after.mlm_accuracy < 0.95


def test_without_next_sentences_that_head_and_the_pooler_stay_as_they_were() -> None:
    torch.manual_seed(0)
    model = BertForPreTraining(CONFIG)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    recipe = Recipe(3, next_sentence=False, phases=(Phase(1.0, 32, 8),))
    train(model, documents(0), [], recipe, progress=False)
    still = {n for n, p in model.named_parameters() if torch.equal(p, before[n])}
    unused = {n for n in before if n.startswith(("nsp.", "bert.pooler."))}
    assert unused <= still
    assert not [n for n in still - unused if n.endswith("query.weight")]


def test_the_loss_without_next_sentences_is_its_first_part() -> None:
    torch.manual_seed(0)
    model, batch = BertForPreTraining(CONFIG).eval(), a_batch("bidirectional")
    both, scores = pretraining_loss(model, batch)
    alone, same = pretraining_loss(model, batch, next_sentence=False)
    torch.testing.assert_close(both, scores[0] + scores[2])
    torch.testing.assert_close(alone, scores[0])
    torch.testing.assert_close(scores, same)
