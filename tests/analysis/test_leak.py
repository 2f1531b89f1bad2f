"""The leak test sees what moves, and whether the sides meet.

What each model may see, seen by it: `test_features.py`, `test_variants.py`.
"""

from pathlib import Path

import pytest
import tiny_finetuning as tiny
import torch
from torch import Tensor

from bertedu.analysis import leak
from bertedu.analysis.leak import MOVED, States, beyond_sum, movement, states_of
from bertedu.finetuning.finetune import load_encoder
from bertedu.model.features import BertFeatures

IDS = torch.tensor([2, 700, 900, 44, 1300, 2100, 3])
SIZE, NEW = len(IDS), 5000


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    tiny.save_bert(folder / "ltr", "left-to-right", 2)
    tiny.save_bert(folder / "rtl", "right-to-left", 3)
    tiny.save_elmo(folder / "elmo", 4)
    return folder


def states(house: Path, name: str) -> States:
    torch.manual_seed(0)
    return states_of(load_encoder("+".join(str(house / part) for part in name.split("+")))[0])


def test_rows_are_readers_and_columns_are_read_and_nothing_else_moves() -> None:
    """A model of which the state of token 3 has read token 1; and one with dropout."""

    def told(ids: Tensor) -> Tensor:
        states = torch.nn.functional.one_hot(torch.arange(SIZE), SIZE).float()
        states = states.repeat(len(ids), 1, 1)
        states[:, 3] += ids[:, 1, None]
        return states

    kept = IDS.clone()
    moved, state = movement(told, IDS, NEW), told(IDS[None])[0, 3]
    assert (moved > MOVED).nonzero().tolist() == [[3, 1]]
    torch.testing.assert_close(moved[3, 1] * state.norm(), (NEW - IDS[1]).abs() * SIZE**0.5)
    noisy = states_of(BertFeatures(tiny.small_bert(dropout=0.5)).train())
    assert torch.equal(full := movement(noisy, IDS, NEW), movement(noisy, IDS, NEW))
    assert (full > MOVED).all(), "a BERT reads every word"
    assert torch.equal(IDS, kept)
    for look in (movement, lambda *given: beyond_sum(given[0], given[1], 2, given[2])):
        with pytest.raises(ValueError, match="900 stands in the text: choose another id"):
            look(told, IDS, 900)


@pytest.mark.parametrize("name", ["ltr+rtl", "elmo"])
def test_in_a_pair_what_is_left_and_what_is_right_never_meet(house: Path, name: str) -> None:
    at = 3
    more = beyond_sum(states(house, name), IDS, at, NEW)
    assert more[:at, at + 1 :].max() < 2e-6  # a change left of the word, and one right of it
    assert more[at + 1 :, :at].max() < 2e-6
    same_side = more[:at, :at][~torch.eye(at, dtype=torch.bool)]
    assert (same_side > MOVED).all(), "on one side, words do meet"


def test_beyond_the_sum_is_the_second_difference() -> None:
    """h = (left + right, left * right): only the product is more than a sum."""

    def told(ids: Tensor) -> Tensor:
        left, right = ids[:, 1].float() / 100, ids[:, 5].float() / 100
        return torch.stack([left + right, left * right], dim=1)[:, None].expand(-1, SIZE, -1)

    more = beyond_sum(told, IDS, 3, NEW)
    product = (NEW / 100 - IDS[1] / 100) * (NEW / 100 - IDS[5] / 100)
    assert more[1, 5].item() == pytest.approx((product.abs() / told(IDS[None])[0, 3].norm()).item())
    more[1, 5] = more[5, 1] = 0
    assert more.abs().max() < 1e-3


def test_the_picture_tells_a_little_from_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Tensor] = []
    monkeypatch.setattr(leak, "heat_map", lambda axes, table, tokens: drawn.append(table))
    table = torch.tensor([[1.0, 2 * MOVED], [MOVED / 2, 0.5]])
    for maps in ({"a": table}, dict.fromkeys("abc", table)):
        assert repr(leak.movement_maps(maps, ["x", "y"], "t", "alt")) == "alt"
    assert [one.shape for one in drawn] == [(2, 2)] * 4
    assert drawn[0][0, 1] > 0.1
    assert (drawn[0][1, 0], drawn[0][0, 0]) == (0, 1)
