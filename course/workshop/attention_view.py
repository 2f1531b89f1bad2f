"""The interactive attention view: who attends to whom, in a notebook or on an exported page."""

import base64
import hashlib
import json
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
from course import language

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


class AttentionView:
    """A view without network and kernel; where scripts may not run, a picture stands there."""

    def __init__(
        self,
        *shown: Attention,
        layer: int = 1,
        head: int = 1,
        starts: Sequence[tuple[int, int]] | None = None,
        query: int | None = None,
    ) -> None:
        """Show one model, or several side by side, starting at a layer and head, both from 1.

        ``starts`` gives each model a (layer, head) of its own. ``query``, a place in the text from
        0, is the token held at the start. Raises ValueError if there is nothing to show, no such
        layer, head or token, or if there are more weights than a notebook should hold.
        """
        if not shown:
            raise ValueError("there is nothing to show: give one Attention or more, from attend(…)")
        starts = [(layer, head)] * len(shown) if starts is None else starts
        if len(starts) != len(shown):
            raise ValueError(f"{len(starts)} starts for {len(shown)} models: one for each")
        self.shown, self.query = list(zip(shown, starts, strict=True)), query
        for one, (first, second) in self.shown:
            heads, size = one.weights.shape[1], len(one.tokens)
            if first not in one.layers or not 1 <= second <= heads:
                raise ValueError(
                    f"{one.name} shows layers {one.layers} with heads 1 to {heads}, "
                    f"not layer {first}, head {second}"
                )
            if query is not None and not 0 <= query < size:
                raise ValueError(f"{one.name} has tokens 0 to {size - 1}, not {query}")
        total = sum(one.weights.numel() for one in shown)
        if total > MOST_BYTES:
            raise ValueError(
                f"{total:,} weights are too many for one view ({MOST_BYTES:,} at most): show a "
                "shorter text, or fewer layers with attend(…, layers=[1, 2])"
            )

    def data(self) -> dict[str, Any]:
        """Return what the script draws: for each model its tokens, and each weight in one byte."""
        return {
            "query": self.query,
            "views": [
                {
                    "name": one.name,
                    "direction": one.direction,
                    "start": [one.layers.index(layer), head - 1],
                    "tokens": one.tokens,
                    "layers": one.layers,
                    "heads": one.weights.shape[1],
                    "weights": base64.b64encode(
                        (255 * one.weights).round().to(torch.uint8).numpy().tobytes()
                    ).decode(),
                }
                for one, (layer, head) in self.shown
            ],
        }

    def picture(self) -> Picture:
        """Return all heads as small maps, with a frame around those that the view starts with.

        Models with different numbers of layers or tokens get one large map each instead.
        """
        (first, _), *others = self.shown
        if any((one.layers, one.tokens) != (first.layers, first.tokens) for one, _ in others):
            large = {
                f"{one.name}: layer {layer}, head {head}": (one.head(layer, head), one.tokens)
                for one, (layer, head) in self.shown
            }
            return attention_maps(large, self.alt)
        names: list[str] = []
        frames = []
        for one, (layer, head) in self.shown:
            frames.append((one.layers.index(layer), len(names) + head - 1))
            whose = f"{one.name},\n" if others else ""
            names += [f"{whose}head {n}" for n in range(1, one.weights.shape[1] + 1)]
        rows = [f"layer {number}" for number in first.layers]
        maps = torch.cat([one.weights for one, _ in self.shown], dim=1)
        return head_grid(maps, rows, names, self.alt, first.tokens, frames)

    @property
    def alt(self) -> str:
        """Say in words what the view shows at the start, for those who cannot see it."""
        parts = []
        for one, (layer, head) in self.shown:
            weights, tokens = one.head(layer, head), one.tokens
            if self.query is None:
                query, key = divmod(int(weights.argmax()), len(tokens))
                most = f"the strongest is from {tokens[query]} to {tokens[key]}."
            else:
                key = int(weights[self.query].argmax())
                most = f"{tokens[self.query]} gives most to {tokens[key]}."
            where = f"{one.name}, layer {layer}, head {head}"
            parts.append(f"Attention of {where}, over {len(tokens)} tokens; {most}")
        return " ".join(parts)

    def _repr_html_(self) -> str:
        data = for_script(self.data())
        name = "attention-" + hashlib.sha256(data.encode()).hexdigest()[:12]
        return language.page(
            f'<div class="bertedu-attention" data-view="{name}">'
            f"{self.picture()._repr_html_()}"
            "<p>A still picture, a row a query. Run the cell in a notebook, and it becomes a view "
            "to explore.</p></div>"
            f'<script type="module">{SCRIPT.read_text(encoding="utf-8")}\n'
            f"const data = {data};\n"
            f"for (const root of document.querySelectorAll('[data-view=\"{name}\"]'))\n"
            "  if (!root.attentionPanels) draw(root, data);\n"
            "</script>"
        )

    def __repr__(self) -> str:
        """Return the alt text: what a reader without a browser gets."""
        return self.alt


def for_script(value: object) -> str:
    """Write a value into a script; "<" is escaped, so that no token can end the script."""
    return json.dumps(value, sort_keys=True).replace("<", "\\u003c")
