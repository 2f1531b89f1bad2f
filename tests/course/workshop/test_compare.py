"""Three directions on one text: what a mask hides, who moves, and which head is chosen."""

import dataclasses
from collections.abc import Mapping

import pytest
import torch
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from tokenizers import Tokenizer
from torch import Tensor

from bertedu.model.bert import Bert, BertForPreTraining
from bertedu.model.config import BertConfig
from bertedu.model.elmo import ElmoForPreTraining
from course.workshop.attention_view import Attention
from course.workshop.compare import attend_all, direction_maps, sides, strongest_head

CONFIG = BertConfig(8192, 16, 3, 2, 32, 64, initializer_range=0.5)
TEXT = "The ship sank in the bay."
Models = Mapping[str, Bert]


@pytest.fixture(scope="module")
def models() -> Models:
    torch.manual_seed(0)
    return {
        "BERT": Bert(CONFIG).eval(),
        "left": Bert(dataclasses.replace(CONFIG, direction="left-to-right")).eval(),
        "right": Bert(dataclasses.replace(CONFIG, direction="right-to-left")).eval(),
    }


def weights(models: Models, tokenizer: Tokenizer, text: str) -> dict[str, Tensor]:
    return {shown.name: shown.weights for shown in attend_all(models, tokenizer, text)}


def test_what_a_mask_hides_is_exactly_zero(models: Models, tokenizer: Tokenizer) -> None:
    found = weights(models, tokenizer, TEXT)
    assert (found["left"].triu(1) == 0).all()
    assert (found["right"].tril(-1) == 0).all()
    off_diagonal = ~torch.eye(found["BERT"].shape[-1], dtype=torch.bool)
    assert (found["BERT"][..., off_diagonal] > 0).all()
    for name, visible in (("left", torch.Tensor.tril), ("right", torch.Tensor.triu)):
        allowed = visible(torch.ones_like(found[name])) > 0
        assert (found[name][allowed] > 0).all()


def test_a_later_word_changes_earlier_rows_only_where_they_may_read_it(
    models: Models, tokenizer: Tokenizer
) -> None:
    before = weights(models, tokenizer, TEXT)
    after = weights(models, tokenizer, TEXT.replace("bay", "lake"))
    at = tokenizer.encode(TEXT).tokens.index("bay")
    assert torch.equal(before["left"][:, :, :at], after["left"][:, :, :at])
    assert not torch.equal(before["left"][:, :, at], after["left"][:, :, at])
    assert torch.equal(before["right"][:, :, at + 1 :], after["right"][:, :, at + 1 :])
    for name in ("BERT", "right"):
        moved = (before[name] - after[name])[:, :, :at].abs().amax(-1)
        assert (moved > 1e-6).all()  # every head of every layer, in every row before the word


def test_names_and_directions_go_with_the_weights(models: Models, tokenizer: Tokenizer) -> None:
    shown = attend_all(models, tokenizer, TEXT)
    assert [one.name for one in shown] == ["BERT", "left", "right"]
    assert [one.direction for one in shown] == ["bidirectional", "left-to-right", "right-to-left"]
    torch.manual_seed(0)
    whole = BertForPreTraining(CONFIG).eval()
    (one,) = attend_all({"x": whole}, tokenizer, TEXT)
    (other,) = attend_all({"x": whole.bert}, tokenizer, TEXT)
    assert torch.equal(one.weights, other.weights)
    with pytest.raises(ValueError, match="ElmoForPreTraining has no attention"):
        attend_all({"ELMo": ElmoForPreTraining(CONFIG)}, tokenizer, TEXT)  # type: ignore[dict-item]


def by_hand() -> Attention:
    """Two layers, numbered 3 and 4, of two heads over three tokens; even but for one row."""
    table = torch.full((2, 2, 3, 3), 1 / 3)
    table[1, 0, 2] = torch.tensor([0.5, 0.4, 0.1])
    table[0, 1, 2] = torch.tensor([0.1, 0.0, 0.9])
    table[0, 0, 2] = torch.tensor([0.0, 0.6, 0.4])  # more to b alone than the head above
    return Attention("m", ["a", "b", "c"], [3, 4], table)


def test_the_head_is_chosen_by_what_one_query_gives() -> None:
    assert strongest_head(by_hand(), 2, [0, 1]) == (4, 1)  # 0.9, counted from 1
    assert strongest_head(by_hand(), 2, [2]) == (3, 2)
    assert strongest_head(by_hand(), 2, [0, 2]) == (3, 2)  # 1.0: together, not one by one


def test_a_row_is_split_at_its_query() -> None:
    table = torch.tensor([[0.2, 0.3, 0.5], [0.1, 0.6, 0.3], [0.7, 0.2, 0.1]])
    torch.testing.assert_close(sides(table, 1), torch.tensor([0.1, 0.6, 0.3]))
    torch.testing.assert_close(sides(table, 0), torch.tensor([0.0, 0.2, 0.8]))
    torch.testing.assert_close(sides(table, 2), torch.tensor([0.9, 0.1, 0.0]))
    assert sides(by_hand().weights, 0).shape == (2, 2, 3)


def test_the_picture_hatches_what_is_hidden_and_nothing_else(
    models: Models, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    hatched: list[tuple[float, float]] = []
    framed: list[float] = []
    original = Axes.add_patch

    def record(axes: Axes, patch: Rectangle) -> Rectangle:
        x, y = patch.get_xy()
        if patch.get_hatch():
            hatched.append((x + 0.5, y + 0.5))
        else:
            framed.append(y + 0.5)
        return original(axes, patch)

    monkeypatch.setattr(Axes, "add_patch", record)
    _, left, right = attend_all(models, tokenizer, TEXT)
    size = len(left.tokens)
    picture = direction_maps([left], [(2, 1)], 3, "title", "alt text")
    assert picture.alt == "alt text"
    assert framed == [3]
    assert sorted(hatched) == sorted((j, i) for i in range(size) for j in range(i + 1, size))
    hatched.clear()
    direction_maps([right], [(1, 1)], 0, "title", "alt text")
    assert sorted(hatched) == sorted((j, i) for i in range(size) for j in range(i))
