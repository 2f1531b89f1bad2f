"""The loss in lots is `cross_entropy`: value, hits and every gradient, at any number of places."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bertedu.pretraining.word_loss import PLACES_AT_ONCE, word_loss

HIDDEN, WORDS = 12, 50


def inputs(places: int) -> tuple[Tensor, nn.Linear, Tensor]:
    torch.manual_seed(places)
    decoder = nn.Linear(HIDDEN, WORDS)
    states = torch.randn(places, HIDDEN, requires_grad=True)
    return states, decoder, torch.randint(0, WORDS, (places,))


def gradients(loss: Tensor, states: Tensor, decoder: nn.Linear) -> list[Tensor]:
    return list(torch.autograd.grad(loss, (states, decoder.weight, decoder.bias)))


@pytest.mark.parametrize(
    "places", [1, 7, PLACES_AT_ONCE - 1, PLACES_AT_ONCE, PLACES_AT_ONCE + 1, 3 * PLACES_AT_ONCE]
)
def test_equal_to_cross_entropy(places: int) -> None:
    states, decoder, labels = inputs(places)
    loss, right = word_loss(states, decoder, labels)
    expected = F.cross_entropy(decoder(states), labels)
    torch.testing.assert_close(loss, expected)
    assert float(right) == pytest.approx(
        float((decoder(states).argmax(1) == labels).float().mean())
    )
    for mine, theirs in zip(
        gradients(3 * loss, states, decoder), gradients(3 * expected, states, decoder), strict=True
    ):
        torch.testing.assert_close(mine, theirs, atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize("places", [7, 3 * PLACES_AT_ONCE])
def test_in_64_bits_it_is_as_fine(places: int) -> None:
    states, decoder, labels = inputs(places)
    decoder, states = decoder.double(), states.detach().double().requires_grad_()
    loss, _ = word_loss(states, decoder, labels)
    expected = F.cross_entropy(decoder(states), labels)
    assert loss.dtype == torch.float64
    assert abs((loss - expected).item()) < 1e-13
    pairs = zip(gradients(loss, states, decoder), gradients(expected, states, decoder), strict=True)
    for mine, theirs in pairs:
        torch.testing.assert_close(mine, theirs, atol=1e-14, rtol=1e-12)


def test_in_bfloat16_it_is_as_near_as_autocast() -> None:
    states, decoder, labels = inputs(700)
    exact = F.cross_entropy(decoder(states), labels)
    with torch.autocast("cpu", torch.bfloat16):
        loss, _ = word_loss(states, decoder, labels)
        usual = F.cross_entropy(decoder(states).float(), labels)
    assert loss.dtype == torch.float32
    assert abs((loss - exact).item()) <= max(2e-3, 2 * abs((usual - exact).item()))
    pairs = zip(
        gradients(loss, states, decoder),
        gradients(usual, states, decoder),
        gradients(exact, states, decoder),
        strict=True,
    )
    for mine, theirs, truth in pairs:
        assert mine.dtype == truth.dtype
        assert float((mine - truth).norm()) <= 1.5 * float((theirs - truth).norm()) + 1e-4


def test_a_table_that_is_also_the_input_gets_both_gradients() -> None:
    """The token table stands below and above: its gradient is the sum of the two."""
    _, decoder, labels = inputs(20)
    expected = torch.autograd.grad(
        F.cross_entropy(decoder(decoder.weight[:20]), labels), decoder.weight
    )
    found = torch.autograd.grad(word_loss(decoder.weight[:20], decoder, labels)[0], decoder.weight)
    torch.testing.assert_close(found[0], expected[0], atol=1e-6, rtol=1e-4)


def test_scores_of_any_size_do_not_overflow() -> None:
    states, decoder, labels = inputs(5)
    loss, _ = word_loss(states * 1e4, decoder, labels)
    torch.testing.assert_close(loss, F.cross_entropy(decoder(states * 1e4), labels))
    assert torch.isfinite(torch.autograd.grad(loss, states)[0]).all()
