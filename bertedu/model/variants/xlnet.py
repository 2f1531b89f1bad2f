"""XLNet: words read in a random order, each foretold from those read before (Yang et al. 2019).

BERT guesses two hidden words independently. XLNet guesses the second knowing the first. The words
stay where they are; only the mask inside attention says who has been read already.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from bertedu.model.bert import BertForPreTraining
from bertedu.model.config import BertConfig
from bertedu.model.inference import check_input
from bertedu.text.tokenization import MASK_ID

Masks = Callable[[Tensor], tuple[Tensor, Tensor]]


def order_masks(order: Tensor) -> tuple[Tensor, Tensor]:
    """Say who may see whom when places are read in this order (XLNet, section 2.3).

    ``order`` (S,) lists the places as they are read: [2, 0, 1] reads place 2 first. Returns two
    bool (S, S), true where the place of a row may see the word of a column: for the content stream,
    which knows its own word, and for the query stream, which has to guess it.
    """
    turn = order.argsort()  # turn[i]: when place i is read
    return turn[None, :] <= turn[:, None], turn[None, :] < turn[:, None]


class XLNet(nn.Module):
    """BERT's layers with two streams: one knows the word of its place, the other the place alone.

    Both run through the same layers in one row of 2 S states: S of content, then S of queries. Only
    content is ever read by others. (The paper also has relative positions and memory; not here.)
    """

    def __init__(self, config: BertConfig, masks: Masks = order_masks) -> None:
        """Raises ValueError for a one-way config: the order is drawn anew for every batch."""
        super().__init__()
        if config.direction != "bidirectional":
            raise ValueError(
                f"direction {config.direction!r} fixes the order of reading; XLNet draws it: "
                "use 'bidirectional'"
            )
        self.model, self.masks = BertForPreTraining(config), masks

    def forward(self, ids: Tensor, order: Tensor, padding_mask: Tensor | None = None) -> Tensor:
        """Score the word at each place from those read before it: ids (B, S) -> (B, S, V).

        Raises ValueError as `Bert` does, and if ``order`` (S,) does not name every place once.
        """
        bert, size = self.model.bert, ids.shape[-1]
        real = (torch.ones_like(ids) if padding_mask is None else padding_mask).bool()
        check_input(bert.config, ids, torch.zeros_like(ids), real)
        if sorted(order.tolist()) != [*range(size)]:
            raise ValueError(f"order {order.tolist()} does not name each of {size} places once")
        content, query = self.masks(order)
        see = torch.cat([content, query])  # (2 S, S)
        see = torch.cat([see, torch.zeros_like(see)], dim=1)  # nobody reads a query
        keys = torch.cat([real, real], dim=1)[:, None, None, :]
        itself = torch.eye(2 * size, dtype=torch.bool, device=ids.device)  # so that no row is empty
        segments = torch.zeros_like(ids)
        knows = bert.embeddings(ids, segments)
        asks = bert.embeddings(torch.full_like(ids, MASK_ID), segments)  # the place alone
        states, _ = bert.encoder(torch.cat([knows, asks], dim=1), (see & keys) | itself)
        return self.model.mlm(states[-1][:, size:])
