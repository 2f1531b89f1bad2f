"""ELMo: which tokens move which states, what padding may do, and how the parts are tied."""

import dataclasses
import itertools
import json
import math
from pathlib import Path

import pytest
import torch
from torch import Tensor

from bertedu.model.bert import BertForPreTraining
from bertedu.model.checkpoints import load_checkpoint, load_elmo, save_checkpoint
from bertedu.model.config import ONE_WAY, BertConfig, count_parameters
from bertedu.model.elmo import Elmo, ElmoForPreTraining, ElmoSizes, ScalarMix, turn_around
from bertedu.model.weight_files import CheckpointError
from bertedu.pretraining.batches import Batch, next_words
from bertedu.pretraining.evaluation import evaluate
from bertedu.pretraining.objective import pretraining_loss
from bertedu.text.tokenization import CLS_ID, PAD_ID, SEP_ID

CONFIG = BertConfig(50, 16, 4, 4, 64, 32, dropout=0.0, initializer_range=0.5)
SIZES = ElmoSizes(layers=2, cells=24)


@pytest.fixture
def elmo() -> Elmo:
    torch.manual_seed(0)
    return Elmo(CONFIG, SIZES).eval()


def some_ids(length: int = 7) -> Tensor:
    return torch.randint(5, 50, (2, length), generator=torch.Generator().manual_seed(1))


def moved(before: Tensor, after: Tensor) -> Tensor:
    """(S,): which positions of any layer above the embedding have changed."""
    return (before[1:] - after[1:]).abs().amax(dim=(0, 1, 3)) > 1e-7


@pytest.mark.parametrize("changed", range(7))
def test_each_half_sees_its_own_side_and_nothing_of_the_other(elmo: Elmo, changed: int) -> None:
    ids, other = some_ids(), some_ids()
    other[:, changed] = 5 + (other[:, changed] - 4) % 45
    (left, right), (left_after, right_after) = elmo(ids), elmo(other)
    place = torch.arange(7)
    assert torch.equal(moved(left, left_after), place >= changed)
    assert torch.equal(moved(right, right_after), place <= changed)


def test_padding_changes_nothing(elmo: Elmo) -> None:
    ids = some_ids()
    padded = torch.cat([ids, torch.zeros(2, 3, dtype=torch.long)], dim=1)
    padded[:, 7:] = 9  # whatever stands there
    real = torch.arange(10).expand(2, 10) < 7
    for states, expected in zip(elmo(padded, real), elmo(ids), strict=True):
        torch.testing.assert_close(states[:, :, :7], expected)


def test_rows_of_different_length_turn_around_by_themselves() -> None:
    real = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
    assert turn_around(real).tolist() == [[4, 3, 2, 1, 0], [2, 1, 0, 3, 4]]


def test_the_right_half_reads_backwards(elmo: Elmo) -> None:
    """With the weights of the left half, it says of a text what that one says of its mirror."""
    elmo.backwards.load_state_dict(elmo.forwards.state_dict())
    ids = some_ids()
    left, _ = elmo(ids.flip(1))
    _, right = elmo(ids)
    torch.testing.assert_close(right, left.flip(2))


def test_each_layer_adds_to_what_came_in(elmo: Elmo) -> None:
    for layer in elmo.forwards.layers:
        for weight in layer.parameters():
            torch.nn.init.zeros_(weight)
    left, _ = elmo(some_ids())
    assert torch.equal(left[1], left[0])
    assert torch.equal(left[2], left[0])


def test_dropout_thins_the_words_and_what_each_layer_adds_never_the_sum() -> None:
    torch.manual_seed(0)
    model = Elmo(dataclasses.replace(CONFIG, dropout=0.5), SIZES).train()
    for states in model(some_ids()):
        for below, above in itertools.pairwise(states):
            untouched = (above == below).float().mean()  # nothing was added there
            assert 0.3 < untouched < 0.7
        for number, state in enumerate(states):
            gone = (state == 0).float().mean()
            assert 0.5 ** (number + 1) - 0.15 < gone < 0.5 ** (number + 1) + 0.15


def test_a_fresh_elmo_finds_all_words_about_as_likely() -> None:
    torch.manual_seed(0)
    model = ElmoForPreTraining(dataclasses.replace(CONFIG, initializer_range=0.02), SIZES)
    assert model.elmo.token.weight.std().item() == pytest.approx(0.02, rel=0.1)
    assert (model.decoder.bias == 0).all()
    for scores, states in zip(model(some_ids()), model.before_decoder(some_ids()), strict=True):
        losses = -scores.log_softmax(-1)
        assert (losses - math.log(50)).abs().max() < 0.4
        # what is compared with the table is of one size: the two halves, too
        torch.testing.assert_close(states.mean(-1), torch.zeros(2, 7), atol=1e-5, rtol=0)
        torch.testing.assert_close(states.square().mean(-1), torch.ones(2, 7), atol=1e-3, rtol=0)


def test_one_table_below_and_above() -> None:
    model = ElmoForPreTraining(CONFIG, SIZES)
    assert model.decoder.weight is model.elmo.token.weight
    following, previous = model(some_ids())
    assert following.shape == previous.shape == (2, 7, 50)
    following[:, 3].sum().backward()
    assert all(p.grad is None for p in model.elmo.backwards.parameters())
    assert model.elmo.token.weight.grad is not None


@pytest.mark.parametrize("size", ["mini", "L4H128", "tiny", "L8 H256"])
def test_the_usual_size_is_that_of_the_encoder_it_stands_beside(size: str) -> None:
    config = BertConfig.preset(size, 8192)
    model = ElmoForPreTraining(config)
    own = [p for half in (model.elmo.forwards, model.elmo.backwards) for p in half.parameters()]
    count = sum(p.numel() for p in own)
    assert count == pytest.approx(count_parameters(config)["encoder"], rel=0.01)


def test_a_mix_starts_even_and_learns_one_weight_a_layer() -> None:
    states = torch.randn(3, 2, 5, 4, generator=torch.Generator().manual_seed(2))
    mix = ScalarMix(3)
    torch.testing.assert_close(mix(states), states.mean(0))
    with torch.no_grad():
        mix.weights.copy_(torch.tensor([0.0, 50.0, 0.0]))
        mix.scale.fill_(2.0)
    torch.testing.assert_close(mix(states), 2 * states[1])
    assert sum(p.numel() for p in mix.parameters()) == 4


def test_scores_at_chosen_places_are_those_of_all_places() -> None:
    model = ElmoForPreTraining(CONFIG, SIZES).eval()
    ids = some_ids()
    next_at, previous_at = ids % 2 == 0, ids % 3 == 0
    following, previous = model(ids)
    some_left, some_right = model.before_decoder(ids, None, next_at, previous_at)
    torch.testing.assert_close(model.decoder(some_left), following[next_at])
    torch.testing.assert_close(model.decoder(some_right), previous[previous_at])


@pytest.mark.parametrize("half", [0, 1])
def test_no_half_sees_the_word_that_it_is_asked_for(half: int) -> None:
    """The leak test of pre-training: changing the asked word must not move its own scores."""
    model = ElmoForPreTraining(CONFIG, SIZES).eval()
    ids = some_ids()
    predicts, _ = next_words(ids, ONE_WAY[half])
    before = model(ids)[half]
    for column in range(7):
        asked = column + (1 if half == 0 else -1)
        if not (0 <= asked < 7 and predicts[0, column]):
            continue
        other = ids.clone()
        other[:, asked] = 5 + (other[:, asked] - 4) % 45
        torch.testing.assert_close(model(other)[half][:, column], before[:, column])


def test_the_loss_is_the_mean_of_two_language_models() -> None:
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


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_a_checkpoint_comes_back(tmp_path: Path, dtype: torch.dtype) -> None:
    model = ElmoForPreTraining(CONFIG, SIZES).eval()
    save_checkpoint(model, tmp_path, dtype)
    loaded = load_elmo(tmp_path)
    assert loaded.config == CONFIG
    assert loaded.elmo.sizes == SIZES
    assert loaded.decoder.weight is loaded.elmo.token.weight
    for name, value in model.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], value.to(dtype).float()), name
    with pytest.raises(CheckpointError, match="load it with load_elmo"):
        load_checkpoint(tmp_path)


def test_what_is_no_elmo_is_refused(tmp_path: Path) -> None:
    save_checkpoint(BertForPreTraining(CONFIG), tmp_path)
    with pytest.raises(CheckpointError, match="make no ELMo"):
        load_elmo(tmp_path)
    save_checkpoint(ElmoForPreTraining(CONFIG, SIZES), tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    config["sizes"]["cells"] = 25
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(CheckpointError, match=r"make no ELMo.*size mismatch"):
        load_elmo(tmp_path)
    with pytest.raises(CheckpointError, match=r"no config\.json"):
        load_elmo(tmp_path / "nowhere")


def test_bad_input_is_named(elmo: Elmo) -> None:
    with pytest.raises(ValueError, match="position embeddings for 32"):
        elmo(torch.full((1, 33), 5))
    with pytest.raises(ValueError, match="token id 50"):
        elmo(torch.tensor([[5, 50]]))
    with pytest.raises(ValueError, match="row 1 holds nothing but padding"):
        elmo(some_ids(), torch.tensor([[True] * 7, [False] * 7]))
