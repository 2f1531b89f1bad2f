"""BigBird. The bugs people make: a mask that is built and not applied; rows and columns swapped,
so that global tokens see all and nobody sees them; random keys that fall on keys already seen."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from bertedu.analysis.leak import MOVED, movement
from bertedu.model.bert import BertForPreTraining
from bertedu.model.config import BertConfig
from bertedu.model.variants.bigbird import bigbird, reach, sparse_mask

CONFIG = BertConfig(50, 16, 2, 2, 32, 20, dropout=0.0, initializer_range=0.5)
IDS = torch.randint(5, 49, (16,), generator=torch.Generator().manual_seed(1))


def moved(model: BertForPreTraining, layer: int) -> Tensor:
    """Which states move, and with which words, after that many layers."""
    model.eval()
    with torch.no_grad():
        table = movement(lambda ids: model.bert(ids).hidden_states[layer], IDS, 49)
    return table > MOVED / 10


@pytest.mark.parametrize(
    "keys",
    [{"window": 1}, {"window": 2, "global_tokens": 1}, {"window": 1, "random_keys": 2}],
    ids=str,
)
@pytest.mark.parametrize("layers", [1, 2])
def test_the_states_have_read_what_the_mask_lets_them(keys: dict[str, int], layers: int) -> None:
    torch.manual_seed(0)
    model = bigbird(CONFIG, **keys)
    by_mask = reach(sparse_mask(16, **keys), 2)
    assert torch.equal(moved(model, layers), by_mask[layers - 1])
    assert not by_mask[0].all()


def test_each_query_has_its_neighbors_the_global_tokens_and_so_many_more() -> None:
    mask = sparse_mask(16, 2, 1, 3)
    place = torch.arange(16)
    assert mask[0].all()
    assert mask[:, 0].all()
    near = (place[:, None] - place).abs() <= 2
    assert mask[near].all()
    known = near.clone()
    known[:, 0] = True
    assert ((mask & ~known).sum(dim=1)[1:] == 3).all()  # three *more*, none of them known before
    assert not torch.equal(mask, sparse_mask(16, 2, 1, 3, seed=1))
    assert torch.equal(sparse_mask(16, 2, 1, 3, seed=1), sparse_mask(16, 2, 1, 3, seed=1))
    assert torch.equal(sparse_mask(5, 5), torch.ones(5, 5).bool())


def test_a_window_reaches_one_width_more_with_each_layer_and_a_global_token_all_in_two() -> None:
    place = torch.arange(16)
    away = (place[:, None] - place).abs()
    for layer, known in enumerate(reach(sparse_mask(16, 2), 4), start=1):
        assert torch.equal(known, away <= 2 * layer)
    assert reach(sparse_mask(16, 2, 1), 2)[1].all()


def test_padding_stays_unseen() -> None:
    torch.manual_seed(0)
    model = bigbird(CONFIG, window=3, global_tokens=1).eval()
    real = torch.ones(1, 16).bool()
    real[0, 10:] = False
    other = IDS.clone()
    other[10:] = 49
    states = [model.bert(ids[None], padding_mask=real).last[0, :10] for ids in (IDS, other)]
    assert torch.allclose(*states, atol=1e-6)


def test_a_window_as_long_as_the_text_is_bert() -> None:
    torch.manual_seed(0)
    model = bigbird(CONFIG, window=20)
    bert = BertForPreTraining(CONFIG)
    bert.load_state_dict(model.state_dict())
    assert torch.allclose(model(IDS[None])[0], bert(IDS[None])[0], atol=1e-5)


def test_what_cannot_be_is_refused() -> None:
    for keys in ((-1, 0, 0), (1, 21, 0), (1, 0, -2)):
        with pytest.raises(ValueError, match="0 or more, and 20 keys"):
            bigbird(CONFIG, *keys)
    with pytest.raises(ValueError, match="random_keys is 4; some token has 3 others left"):
        sparse_mask(8, 2, 0, 4)
    with pytest.raises(ValueError, match="look ahead in a model that is left-to-right"):
        bigbird(replace(CONFIG, direction="left-to-right"), 2, 1)
