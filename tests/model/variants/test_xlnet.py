"""XLNet: who sees whom. The usual bug: the query stream sees the word that it has to guess."""

import pytest
import torch
from torch import Tensor

from bertedu.model.config import BertConfig
from bertedu.model.variants.xlnet import Masks, XLNet, order_masks
from bertedu.text.tokenization import MASK_ID

CONFIG = BertConfig(40, 16, 3, 2, 32, 12, 2, 0.0, initializer_range=0.3)
IDS = torch.tensor([[2, 7, 8, 9, 10, 11, 3], [2, 17, 18, 19, 20, 21, 3]])
ORDER = torch.tensor([0, 6, 4, 1, 5, 3, 2])


def read_by(masks: Masks) -> Tensor:
    """(S, S): [i, j] is true if the guess at place i moves with the word at place j."""
    torch.manual_seed(0)
    model = XLNet(CONFIG, masks).eval()
    with torch.no_grad():
        before, columns = model(IDS, ORDER), []
        for j in range(IDS.shape[1]):
            changed = IDS.clone()
            changed[:, j] = 30
            columns.append((model(changed, ORDER) - before).abs().amax(dim=(0, 2)) > 1e-5)
    return torch.stack(columns, dim=1)


def test_a_guess_has_read_what_came_before_it_in_the_order_and_never_its_own_word() -> None:
    """Through three layers: also no content that has itself read the word."""
    read = read_by(order_masks)
    for turn, place in enumerate(ORDER.tolist()):
        assert read[place].nonzero()[:, 0].tolist() == sorted(ORDER[:turn].tolist())


def sees_itself(order: Tensor) -> tuple[Tensor, Tensor]:
    content, _ = order_masks(order)
    return content, content


def sees_all(order: Tensor) -> tuple[Tensor, Tensor]:
    content, query = order_masks(order)
    return torch.ones_like(content), query


@pytest.mark.parametrize("masks", [sees_itself, sees_all])
def test_the_two_leaks_would_be_seen(masks: Masks) -> None:
    """A query that sees its own content, and one that sees others who have read it."""
    assert read_by(masks).diagonal()[ORDER[1:]].any()


def test_content_has_read_itself_and_what_came_before() -> None:
    content, query = order_masks(torch.tensor([2, 0, 1]))
    assert content.int().tolist() == [[1, 0, 1], [1, 1, 1], [0, 0, 1]]
    assert query.int().tolist() == [[0, 0, 1], [1, 0, 1], [0, 0, 0]]


def test_padding_is_read_by_nobody_even_where_it_is_early_in_the_order() -> None:
    torch.manual_seed(0)
    model = XLNet(CONFIG).eval()
    order = torch.tensor([8, 0, 7, 6, 4, 1, 5, 3, 2])
    real = torch.arange(9)[None] < 7
    ids = [torch.cat([IDS[:1], torch.full((1, 2), end)], dim=1) for end in (0, 25)]
    one, other = (model(some, order, real)[:, :7] for some in ids)
    assert one.isfinite().all()
    torch.testing.assert_close(one, other)
    torch.testing.assert_close(one, model(IDS[:1], order[order < 7]))


def test_the_first_word_read_is_guessed_from_its_place_alone() -> None:
    model = XLNet(CONFIG).eval()
    order = torch.tensor([3, 0, 6, 4, 1, 5, 2])
    scores = model(IDS, order)[:, 3]
    torch.testing.assert_close(scores[0], scores[1])


@pytest.mark.parametrize("order", [[0, 1], [0, 1, 2, 3, 4, 5, 5], [1, 2, 3, 4, 5, 6, 7]])
def test_an_order_that_is_none_is_refused(order: list[int]) -> None:
    with pytest.raises(ValueError, match="does not name each of 7 places once"):
        XLNet(CONFIG)(IDS, torch.tensor(order))


def test_a_one_way_config_is_refused() -> None:
    with pytest.raises(ValueError, match="fixes the order of reading"):
        XLNet(BertConfig(40, 16, 1, 2, 32, direction="left-to-right"))


def test_a_query_is_read_by_no_other_place() -> None:
    """Not a leak, but another model: guesses would be made of guesses."""
    torch.manual_seed(0)
    model, spoiled = XLNet(CONFIG).eval(), int(ORDER[2])

    def spoil(_: object, inputs: tuple[Tensor, ...], states: Tensor) -> Tensor:
        at = torch.arange(states.shape[1]) == spoiled
        return states + at[:, None] * 3.0 if (inputs[0] == MASK_ID).all() else states

    before = model(IDS, ORDER)
    model.model.bert.embeddings.register_forward_hook(spoil)
    moved = (model(IDS, ORDER) - before).abs().amax(dim=(0, 2)) > 1e-5
    assert moved.nonzero()[:, 0].tolist() == [spoiled]
