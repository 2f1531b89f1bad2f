"""The loop that trains the small models of the experiments: all of them rise and fall alike.

Two runs differ by what a study changes, and by nothing else.
"""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn
from tqdm.auto import tqdm

from bertedu.optimization import descend, make_optimizer, scheduled_rate

PEAK = 3e-3  # learning rate
Loss = Callable[[torch.Generator], Tensor]  # generator -> (), the loss of what they draw


def fit(
    model: nn.Module, loss_of: Loss, seed: int, steps: int, peak: float = PEAK, title: str = "",
    warmup_share: float = 0.1, clip_norm: float = 1.0,
) -> Iterator[int]:  # fmt: skip
    """Train, and yield the number of each step, from 1, when it is done."""
    optimizer, generator = make_optimizer(model, 0.01), torch.Generator().manual_seed(seed)
    for step in tqdm(range(steps), desc=title or type(model).__name__):
        rate = scheduled_rate(step, steps, peak, warmup_share)
        descend(model.parameters(), optimizer, loss_of(generator), rate, clip_norm)
        yield step + 1


def train(
    model: nn.Module, loss_of: Loss, seed: int, steps: int, peak: float = PEAK, title: str = ""
) -> None:
    """Train to the end."""
    for _ in fit(model, loss_of, seed, steps, peak, title):
        pass
