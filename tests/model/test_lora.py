"""LoRA: nothing moves at first, then only the product; merged: `test_own_model.py`."""

import pytest
import torch
from torch import nn

from bertedu.model.bert import Bert
from bertedu.model.config import BertConfig
from bertedu.model.variants.lora import add_lora, lora_state

CONFIG = BertConfig(8192, 24, 3, 4, 40, 16)
IDS = torch.arange(5, 32).view(3, 9)
MASK = torch.arange(9) < torch.tensor([[9], [7], [4]])


def small() -> Bert:
    torch.manual_seed(0)
    return Bert(CONFIG).eval()


def states(bert: Bert) -> torch.Tensor:
    return bert(IDS, padding_mask=MASK).hidden_states[-1]


def trained(bert: Bert, steps: int = 3) -> Bert:
    """A few steps that lower the first number of each state."""
    optimizer = torch.optim.SGD([p for p in bert.parameters() if p.requires_grad], lr=5.0)
    for _ in range(steps):
        optimizer.zero_grad()
        states(bert)[..., 0].mean().backward()
        optimizer.step()
    return bert


def test_it_begins_as_the_model_and_only_the_product_learns() -> None:
    bert, plain = small(), small()
    add_lora(bert, rank=2)
    assert torch.equal(states(bert), states(plain))
    learns = {name for name, p in bert.named_parameters() if p.requires_grad}
    assert learns == lora_state(bert).keys()
    assert len(learns) == 4 * CONFIG.num_hidden_layers
    trained(bert)
    assert not torch.allclose(states(bert), states(plain), atol=1e-4)
    kept = bert.state_dict()
    assert all(torch.equal(kept[name], t) for name, t in plain.state_dict().items())
    assert all((lora_state(bert)[name] != 0).any() for name in learns)


def test_a_map_by_hand() -> None:
    """Wx + b + alpha / r · B(Ax): at another rank, a change keeps its size."""
    bert = small().double()
    add_lora(bert, rank=4, alpha=6)
    with pytest.raises(ValueError, match="adapted already"):
        add_lora(bert)
    part = trained(bert).encoder.layers[1].attention.value
    x = torch.randn(5, CONFIG.hidden_size, dtype=torch.double)
    by_hand = part.weight @ x.T + part.bias[:, None] + 1.5 * part.lora_b @ (part.lora_a @ x.T)
    torch.testing.assert_close(part(x), by_hand.T, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(("model", "rank"), [(nn.Linear(2, 2), 4), (small(), 0)])
def test_what_cannot_be_adapted_is_refused(model: nn.Module, rank: int) -> None:
    with pytest.raises(ValueError, match=r"self-attention|rank"):
        add_lora(model, rank)
