"""ELMo: which tokens move which states, what padding may do, and how the parts are tied."""

import pytest
import torch
from torch import Tensor

from bertedu.model.config import BertConfig, count_parameters
from bertedu.model.elmo import Elmo, ElmoForPreTraining, ElmoSizes, ScalarMix, turn_around

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


def test_one_table_below_and_above() -> None:
    model = ElmoForPreTraining(CONFIG, SIZES)
    assert model.decoder.weight is model.elmo.token.weight
    following, previous = model(some_ids())
    assert following.shape == previous.shape == (2, 7, 50)
    following[:, 3].sum().backward()
    assert all(p.grad is None for p in model.elmo.backwards.parameters())
    assert model.elmo.token.weight.grad is not None


def test_the_usual_size_is_that_of_the_encoder_it_stands_beside() -> None:
    config = BertConfig.preset("mini", 8192)
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


def test_bad_input_is_named(elmo: Elmo) -> None:
    with pytest.raises(ValueError, match="position embeddings for 32"):
        elmo(torch.full((1, 33), 5))
    with pytest.raises(ValueError, match="token id 50"):
        elmo(torch.tensor([[5, 50]]))
    with pytest.raises(ValueError, match="row 1 holds nothing but padding"):
        elmo(some_ids(), torch.tensor([[True] * 7, [False] * 7]))
