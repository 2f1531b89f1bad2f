"""The interactive attention view: who attends to whom, in a notebook or on an exported page."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from tokenizers import Tokenizer
from torch import Tensor

from bertedu.analysis.attention_heads import encoder_of
from bertedu.analysis.views import (
    ORANGE,
    Picture,
    attention_maps,
    head_grid,
    heat_map,
    style,
    write_in_cell,
)
from bertedu.model.attention import attention_mask
from bertedu.model.bert import Bert, BertForPreTraining
from bertedu.model.config import Direction
from bertedu.model.inference import evaluating
from course.workshop.page import Told, alive

SCRIPT = Path(__file__).with_suffix(".js")
MOST_BYTES = 1_000_000  # of weights in one view: a notebook should stay below 2 MB


@dataclass(frozen=True)
class Attention:
    """The weights that a model gave on one text."""

    name: str
    tokens: list[str]  # S of them
    layers: list[int]  # the numbers of the layers shown, counted from 1
    weights: Tensor  # (layers, heads, S, S); row = query, column = key; each row sums to 1
    direction: Direction = "bidirectional"  # where a query may look

    def head(self, layer: int, head: int) -> Tensor:
        """Return the weights (S, S) of one head, layer and head from 1."""
        return self.weights[self.layers.index(layer), head - 1]


def attend(
    model: Bert | BertForPreTraining,
    tokenizer: Tokenizer,
    text: str,
    name: str = "bert-mini",
    layers: Sequence[int] | None = None,
) -> Attention:
    """Run a model on a text, and keep its attention weights.

    ``layers`` are counted from 1, as in the paper; all of them if left out. Raises ValueError if
    the model has no attention, there is no such layer, or the text is longer than its positions.
    """
    bert, encoding = encoder_of(model), tokenizer.encode(text)
    depth = bert.config.num_hidden_layers
    chosen = list(range(1, depth + 1)) if layers is None else list(layers)
    if not chosen or any(not 1 <= layer <= depth for layer in chosen):
        raise ValueError(f"layers {chosen}: this model has layers 1 to {depth}")
    device = next(bert.parameters()).device
    ids, segments = (torch.tensor([x], device=device) for x in (encoding.ids, encoding.type_ids))
    with evaluating(bert):
        weights = bert(ids, segments, return_attention=True).attention
    kept = torch.stack([weights[layer - 1][0] for layer in chosen]).float().cpu()
    return Attention(name, encoding.tokens, chosen, kept, bert.config.direction)


def attend_all(
    models: Mapping[str, Bert | BertForPreTraining], tokenizer: Tokenizer, text: str
) -> list[Attention]:
    """Run every model on the same text and keep its weights, under its name. Raises as `attend`."""
    return [attend(model, tokenizer, text, name) for name, model in models.items()]


def strongest_head(shown: Attention, query: int, keys: Sequence[int]) -> tuple[int, int]:
    """Return the layer and head, from 1, in which ``query`` gives most to ``keys`` (from 0)."""
    given = shown.weights[:, :, query, list(keys)].sum(-1)  # (layers, heads)
    row, head = divmod(int(given.argmax()), given.shape[1])
    return shown.layers[row], head + 1


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


class AttentionView(Told):
    """A view without network and kernel; where scripts may not run, a picture stands there."""

    def __init__(self, *shown: Attention, layer: int = 1, head: int = 1) -> None:
        """Show one model, or several side by side, starting at a layer and head, both from 1.

        Raises ValueError if there is nothing to show, no such layer or head, or if there are more
        weights than a notebook should hold.
        """
        if not shown:
            raise ValueError("there is nothing to show: give one Attention or more, from attend(…)")
        self.shown, self.layer, self.head = shown, layer, head
        for one in shown:
            heads = one.weights.shape[1]
            if layer not in one.layers or not 1 <= head <= heads:
                raise ValueError(
                    f"{one.name} shows layers {one.layers} with heads 1 to {heads}, "
                    f"not layer {layer}, head {head}"
                )
        total = sum(one.weights.numel() for one in shown)
        if total > MOST_BYTES:
            raise ValueError(
                f"{total:,} weights are too many for one view ({MOST_BYTES:,} at most): show a "
                "shorter text, or fewer layers with attend(…, layers=[1, 2])"
            )
        self.alt = " ".join(map(self._told, shown))

    def data(self) -> dict[str, Any]:
        """Return what the script draws: for each model its tokens, and each weight in one byte."""
        return {
            "query": None,  # the token that is held at the start
            "views": [
                {
                    "name": one.name,
                    "direction": one.direction,
                    "start": [one.layers.index(self.layer), self.head - 1],
                    "tokens": one.tokens,
                    "layers": one.layers,
                    "heads": one.weights.shape[1],
                    "weights": base64.b64encode(
                        (255 * one.weights).round().to(torch.uint8).numpy().tobytes()
                    ).decode(),
                }
                for one in self.shown
            ],
        }

    def picture(self) -> Picture:
        """Return all heads as small maps, with a frame around those that the view starts with.

        Models with different numbers of layers or tokens get one large map each instead.
        """
        first, *others = self.shown
        if any((one.layers, one.tokens) != (first.layers, first.tokens) for one in others):
            where = f"layer {self.layer}, head {self.head}"
            large = {
                f"{one.name}: {where}": (one.head(self.layer, self.head), one.tokens)
                for one in self.shown
            }
            return attention_maps(large, self.alt)
        names: list[str] = []
        frames = []
        for one in self.shown:
            frames.append((one.layers.index(self.layer), len(names) + self.head - 1))
            whose = f"{one.name},\n" if others else ""
            names += [f"{whose}head {n}" for n in range(1, one.weights.shape[1] + 1)]
        rows = [f"layer {number}" for number in first.layers]
        maps = torch.cat([one.weights for one in self.shown], dim=1)
        return head_grid(maps, rows, names, self.alt, first.tokens, frames)

    def _told(self, one: Attention) -> str:
        query, key = divmod(int(one.head(self.layer, self.head).argmax()), len(one.tokens))
        return (
            f"Attention of {one.name}, layer {self.layer}, head {self.head}, over "
            f"{len(one.tokens)} tokens; the strongest is from {one.tokens[query]} to "
            f"{one.tokens[key]}."
        )

    def _repr_html_(self) -> str:
        still = (
            f"{self.picture()._repr_html_()}"
            "<p>A still picture, a row a query. Run the cell in a notebook, and it becomes a view "
            "to explore.</p>"
        )
        begin = "if (!root.attentionPanels) draw(root, data)"
        script = SCRIPT.read_text(encoding="utf-8")
        return alive("attention", "attention", self.data(), still, script, begin)
