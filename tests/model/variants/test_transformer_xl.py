"""The bugs people make: memory that leaks gradients, places counted from the segment's first word.

Read in segments, with memory for all of it, a text has the states that it has in one piece; a place
counted anew in each segment breaks that.
"""

import dataclasses

import pytest
import torch

from bertedu.analysis.leak import MOVED, movement
from bertedu.model.config import BertConfig
from bertedu.model.variants.transformer_xl import TransformerXL, remember

CONFIG = BertConfig(40, 16, 2, 2, 32, 8, 1, 0.0, initializer_range=0.5, direction="left-to-right")
IDS = torch.arange(5, 17).repeat(2, 1)
IDS[1] += 12


def make(memory: int) -> TransformerXL:
    torch.manual_seed(0)
    return TransformerXL(CONFIG, memory).double().eval()


@pytest.mark.parametrize("segment", [1, 3, 4, 5, 6])
def test_in_segments_or_in_one_piece_it_is_the_same_text(segment: int) -> None:
    model = make(12)
    torch.testing.assert_close(model.read(IDS, segment), model.read(IDS, 12))


def test_the_words_order_is_told() -> None:
    """Without any place the test before would pass, too; two layers would count who sees whom."""
    torch.manual_seed(0)
    model = TransformerXL(dataclasses.replace(CONFIG, num_hidden_layers=1), 12).double().eval()
    turned = IDS.clone()
    turned[:, :2] = IDS[:, [1, 0]]
    moved = (model.read(turned, 12) - model.read(IDS, 12)).abs().amax(-1) > 1e-6
    assert moved[:, 2:8].all()
    assert not moved[:, 8:].any(), "from distance 7 up all are one"


def test_no_gradient_flows_into_the_memory() -> None:
    model = make(4)
    _, memory = model(IDS[:, :4])
    assert not any(states.requires_grad for states in memory)
    states, _ = model(IDS[:, 4:8], memory)
    (states**2).sum().backward()
    gradient = model.token.weight.grad
    assert gradient is not None
    assert (gradient[IDS[:, 4:8].flatten()] != 0).any(-1).all()
    assert (gradient[IDS[:, :4].flatten()] == 0).all()


def test_which_states_move_across_the_border() -> None:
    """Two layers, memory of 4: a layer looks back 4 places before the segment, each time again."""
    with torch.no_grad():
        moved = {
            m: movement(lambda ids, m=m: make(m).read(ids, 4), IDS[0], 39) > MOVED for m in (0, 4)
        }
    place = torch.arange(12)
    state, word = place[:, None], place
    begins = state // 4 * 4
    assert torch.equal(moved[0], (word <= state) & (word >= begins))
    assert torch.equal(moved[4], (word <= state) & (word >= begins - 8))


def test_how_much_is_kept() -> None:
    old, new = torch.arange(3.0).view(1, 3, 1), torch.arange(3.0, 5.0).view(1, 2, 1)
    kept = {size: remember(old, new, size).flatten().tolist() for size in (0, 1, 3, 9)}
    assert kept == {0: [], 1: [4], 3: [2, 3, 4], 9: [0, 1, 2, 3, 4]}
    _, memory = make(0)(IDS)
    assert [tuple(states.shape) for states in memory] == [(2, 0, 16)] * 2


def test_a_memory_that_cannot_be_is_refused() -> None:
    both_ways = BertConfig(40, 16, 2, 2, 32, 8)
    with pytest.raises(ValueError, match='take direction="left-to-right"'):
        TransformerXL(both_ways, 4)
    with pytest.raises(ValueError, match="memory_size is -1"):
        make(-1)
    _, memory = make(4)(IDS)
    with pytest.raises(ValueError, match="memory is of 2 texts, ids of 1"):
        make(4)(IDS[:1], memory)
