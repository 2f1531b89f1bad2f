"""The least that a step must do: the matrix products of its linear layers, and nothing else."""

from collections.abc import Callable

import torch

from bertedu.model.config import BertConfig


def linear_shapes(
    config: BertConfig, batch_size: int, length: int, selected: int
) -> list[tuple[int, int, int]]:
    """List (rows, inputs, outputs) of every linear layer that a pre-training step passes through.

    The MLM head works at the ``selected`` positions only, and the last feed-forward layer at these
    and at every `[CLS]`, which is never selected. The products inside attention (scores, and
    weights times values) are not among them.
    """
    hidden, inner, tokens = (
        config.hidden_size,
        config.intermediate_size,
        batch_size * length,
    )
    attention = [(tokens, hidden, hidden)] * 4
    rows = [tokens] * (config.num_hidden_layers - 1) + [selected + batch_size]
    layers = [
        product for k in rows for product in (*attention, (k, hidden, inner), (k, inner, hidden))
    ]
    pooler_and_nsp = [(batch_size, hidden, hidden), (batch_size, hidden, 2)]
    mlm = [(selected, hidden, hidden), (selected, hidden, config.vocab_size)]
    return layers + pooler_and_nsp + mlm


def count_operations(shapes: list[tuple[int, int, int]]) -> int:
    """Count additions and multiplications, forward and both backward products."""
    return sum(3 * 2 * rows * inputs * outputs for rows, inputs, outputs in shapes)


def bare_products(shapes: list[tuple[int, int, int]], dtype: torch.dtype) -> Callable[[], None]:
    """Return a function that does y = x Wᵀ, dx = dy W and dW = dyᵀ x for each shape."""
    generator = torch.Generator().manual_seed(0)
    operands = {
        shape: [
            torch.randn(size, generator=generator).to(dtype)
            for size in ((shape[0], shape[1]), (shape[2], shape[1]), (shape[0], shape[2]))
        ]
        for shape in set(shapes)
    }

    @torch.inference_mode()
    def multiply() -> None:
        for shape in shapes:
            x, weight, dy = operands[shape]
            x @ weight.T
            dy @ weight
            dy.T @ x

    return multiply
