"""The same numbers and gradients as GELU and a linear map, and less kept for the way back."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bertedu.model.gelu_linear import GeluLinear


def gelu_linear(x: Tensor, linear: nn.Linear) -> Tensor:
    """Ours, with the weights of another."""
    ours = GeluLinear(linear.in_features, linear.out_features)
    ours.weight, ours.bias = linear.weight, linear.bias
    return ours(x)


def inputs(*shape: int) -> tuple[Tensor, nn.Linear]:
    torch.manual_seed(len(shape))
    return torch.randn(*shape, 24, requires_grad=True), nn.Linear(24, 6)


def gradients(y: Tensor, x: Tensor, linear: nn.Linear) -> list[Tensor]:
    return list(torch.autograd.grad((y * y).sum(), (x, linear.weight, linear.bias)))


@pytest.mark.parametrize("shape", [(5,), (2, 7), (1, 1), (2, 3, 4)])
def test_equal_to_the_two_steps(shape: tuple[int, ...]) -> None:
    x, linear = inputs(*shape)
    mine, expected = gelu_linear(x, linear), linear(F.gelu(x))
    torch.testing.assert_close(mine, expected)
    for a, b in zip(gradients(mine, x, linear), gradients(expected, x, linear), strict=True):
        torch.testing.assert_close(a, b)


def test_the_gradient_is_the_slope() -> None:
    x, linear = inputs(3)
    assert torch.autograd.gradcheck(lambda x: gelu_linear(x, linear.double()), x.double())


def test_under_autocast_as_near_as_pytorch() -> None:
    x, linear = inputs(40, 30)
    exact = linear(F.gelu(x))
    with torch.autocast("cpu", torch.bfloat16):
        mine, usual = gelu_linear(x, linear), linear(F.gelu(x))
    assert mine.dtype == usual.dtype == torch.bfloat16
    triples = zip(
        [mine, *gradients(mine.float(), x, linear)],
        [usual, *gradients(usual.float(), x, linear)],
        [exact, *gradients(exact, x, linear)],
        strict=True,
    )
    for a, b, truth in triples:
        assert (a - truth).norm() <= 1.3 * (b - truth).norm()
    assert linear.weight.grad is None
    gelu_linear(x, linear).sum().backward()
    assert linear.weight.grad is not None
    assert linear.weight.grad.dtype == torch.float32


def kept(function: object) -> int:
    """Bytes that the backward pass will need, parameters apart."""
    x, linear = inputs(64, 32)
    own = {p.data_ptr() for p in linear.parameters()}
    seen = {}

    def pack(tensor: Tensor) -> Tensor:
        if tensor.data_ptr() not in own:
            seen[tensor.data_ptr()] = tensor.numel() * tensor.element_size()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        function(x, linear)  # type: ignore[operator]
    return sum(seen.values())


def test_half_as_much_is_kept() -> None:
    assert kept(gelu_linear) == kept(lambda x, linear: linear(F.gelu(x))) // 2
