"""Models of three directions on one text: where may a query look, and where does it look?"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from tokenizers import Tokenizer
from torch import Tensor

from bertedu.analysis.attention_heads import encoder_of
from bertedu.analysis.views import ORANGE, Picture, heat_map, style, write_in_cell
from bertedu.model.attention import attention_mask
from bertedu.model.bert import Bert, BertForPreTraining
from course.workshop.attention_view import Attention, attend


def attend_all(
    models: Mapping[str, Bert | BertForPreTraining], tokenizer: Tokenizer, text: str
) -> list[Attention]:
    """Run every model on the same text and keep its weights, under its name.

    Raises ValueError if a model has no attention, or the text is too long for one of them.
    """
    return [attend(encoder_of(m), tokenizer, text, name=name) for name, m in models.items()]


def strongest_head(shown: Attention, query: int, keys: Sequence[int]) -> tuple[int, int]:
    """Return the layer and head, from 1, in which ``query`` gives most to ``keys`` (from 0)."""
    given = shown.weights[:, :, query, list(keys)].sum(-1)  # (layers, heads)
    row, head = divmod(int(given.argmax()), given.shape[1])
    return shown.layers[row], head + 1


def sides(weights: Tensor, query: int) -> Tensor:
    """Split what ``query`` gives away: (…, S, S) -> (…, 3), left, itself, right; the sum is 1."""
    row = weights[..., query, :]
    parts = (row[..., :query], row[..., query : query + 1], row[..., query + 1 :])
    return torch.stack([part.sum(-1) for part in parts], dim=-1)


@style()
def direction_maps(
    shown: Sequence[Attention], heads: Sequence[tuple[int, int]], query: int, title: str, alt: str
) -> Picture:
    """Draw one head of each model, (layer, head) from 1, as a map beside the others.

    What the mask of a model hides is hatched, so that it differs from a weight that is merely
    small. The row of token ``query`` is framed, and says its weights in %. One scale for all: the
    darkness is the square root of the weight, so that an even fan can be seen.
    """
    maps = [one.head(*place) for one, place in zip(shown, heads, strict=True)]
    top = max(float(weights.max()) for weights in maps)
    figure, panels = plt.subplots(1, len(shown), figsize=(6.1 * len(shown), 7.2), squeeze=False)
    for axes, one, weights, (layer, head) in zip(panels[0], shown, maps, heads, strict=True):
        size = len(one.tokens)
        heat_map(axes, weights.sqrt(), one.tokens, top=top**0.5)
        mask = attention_mask(torch.ones(1, size, dtype=torch.bool), one.direction)
        hidden = [] if mask is None else (~mask[0, 0]).nonzero().tolist()
        for row, column in hidden:
            _box(axes, row, column, fc="#EEEEEE", ec="#AAAAAA", hatch="///", linewidth=0)
        _box(axes, query, 0, size, fill=False, edgecolor=ORANGE, linewidth=3, zorder=3)
        for column, weight in enumerate(weights[query].tolist()):
            if weight >= 0.005:
                dark = weight > 0.3 * top
                write_in_cell(axes, query, column, f"{100 * weight:.0f}", dark, fontsize=11)
        axes.set_title(f"{one.name}: layer {layer}, head {head}", fontsize=17)
        axes.set_xlabel("is attended to (key)")
        axes.tick_params(labelsize=14)
    panels[0, 0].set_ylabel("attends (query)")
    figure.suptitle(title, fontsize=21)
    return Picture(figure, alt)


def _box(axes: Axes, row: int, column: int, width: int = 1, **looks: Any) -> None:
    axes.add_patch(Rectangle((column - 0.5, row - 0.5), width, 1, **looks))
