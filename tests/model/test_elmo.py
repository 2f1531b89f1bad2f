"""ELMo: how it reads, what dropout thins, how the parts are tied, and what the loss asks.

That each half sees its own side alone, and no padding, stands in `test_features.py`.
"""

import dataclasses
import itertools
import math

import pytest
import torch
from torch import Tensor

from bertedu.model.config import BertConfig, count_parameters
from bertedu.model.elmo import Elmo, ElmoForPreTraining, ElmoSizes, turn_around
from bertedu.pretraining.batches import Batch
from bertedu.pretraining.objective import evaluate, pretraining_loss
from bertedu.text.tokenization import CLS_ID, PAD_ID, SEP_ID

CONFIG = BertConfig(50, 16, 4, 4, 64, 32, dropout=0.0, initializer_range=0.5)
SIZES = ElmoSizes(layers=2, cells=24)


def some_ids() -> Tensor:
    return torch.randint(5, 50, (2, 7), generator=torch.Generator().manual_seed(1))


def test_the_right_half_reads_backwards() -> None:
    """With the weights of the left half, it says of a text what that one says of its mirror."""
    torch.manual_seed(0)
    elmo = Elmo(CONFIG, SIZES).eval()
    elmo.backwards.load_state_dict(elmo.forwards.state_dict())
    left, _ = elmo(some_ids().flip(1))
    _, right = elmo(some_ids())
    torch.testing.assert_close(right, left.flip(2))
    added = elmo.forwards.layers[0](left[0])[0]
    torch.testing.assert_close(left[1], left[0] + added)
    real = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
    assert turn_around(real).tolist() == [[4, 3, 2, 1, 0], [2, 1, 0, 3, 4]]


def test_dropout_thins_the_words_and_what_each_layer_adds_never_the_sum() -> None:
    torch.manual_seed(0)
    model = Elmo(dataclasses.replace(CONFIG, dropout=0.5), SIZES).train()
    for states in model(some_ids()):
        for below, above in itertools.pairwise(states):
            assert 0.3 < (above == below).float().mean() < 0.7  # nothing was added there
        for number, state in enumerate(states):
            gone = (state == 0).float().mean()
            assert 0.5 ** (number + 1) - 0.15 < gone < 0.5 ** (number + 1) + 0.15


def test_one_table_below_and_above_and_all_words_about_as_likely_at_first() -> None:
    torch.manual_seed(0)
    model = ElmoForPreTraining(dataclasses.replace(CONFIG, initializer_range=0.02), SIZES)
    assert model.decoder.weight is model.elmo.token.weight
    assert model.elmo.token.weight.std().item() == pytest.approx(0.02, rel=0.1)
    assert (model.decoder.bias == 0).all()
    for scores, states in zip(model(some_ids()), model.before_decoder(some_ids()), strict=True):
        assert (-scores.log_softmax(-1) - math.log(50)).abs().max() < 0.4
        # what is compared with the table is of one size: the two halves, too
        assert states.mean(-1).abs().max() < 1e-5
        assert states.square().mean(-1).sub(1).abs().max() < 1e-3


@pytest.mark.parametrize("size", ["mini", "L4H128", "tiny", "L8 H256"])
def test_the_usual_size_is_that_of_the_encoder_it_stands_beside(size: str) -> None:
    config = BertConfig.preset(size, 8192)
    elmo = ElmoForPreTraining(config).elmo
    own = sum(p.numel() for half in (elmo.forwards, elmo.backwards) for p in half.parameters())
    assert own == pytest.approx(count_parameters(config)["encoder"], rel=0.01)


def test_the_loss_is_the_mean_of_two_language_models() -> None:
    """Each asked for the word beside its place, which its scores there do not move with."""
    model = ElmoForPreTraining(CONFIG, SIZES).eval()
    ids = some_ids()
    ids[:, 0], ids[:, -1] = CLS_ID, SEP_ID
    ids[1, 4:] = torch.tensor([SEP_ID, PAD_ID, PAD_ID])
    real = ids != PAD_ID
    empty = torch.zeros(2, dtype=torch.long)
    batch = Batch(ids, torch.zeros_like(ids), real, torch.zeros_like(real), empty, empty)
    following, previous = (scores.log_softmax(-1) for scores in model(ids, real))
    losses: tuple[list[Tensor], list[Tensor]] = ([], [])
    for row, size in ((0, 7), (1, 5)):
        for t in range(1, size - 1):  # every word, not [CLS] and [SEP]
            losses[0].append(-following[row, t - 1, ids[row, t]])
            losses[1].append(-previous[row, t + 1, ids[row, t]])
    left, right = (torch.stack(values) for values in losses)
    loss, scores = pretraining_loss(model, batch, next_sentence=False)
    torch.testing.assert_close(loss, (left.mean() + right.mean()) / 2)
    dev = evaluate(model, [batch, batch])
    assert dev.mlm_loss == pytest.approx(loss.item(), rel=1e-5)
    assert dev.mlm_accuracy == pytest.approx(float(scores[1]), rel=1e-5)
    assert math.isnan(dev.nsp_accuracy)
