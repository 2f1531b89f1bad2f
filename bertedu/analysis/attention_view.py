"""The interactive attention view: who attends to whom, in a notebook or on an exported page."""

import base64
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from torch import Tensor

from bertedu.analysis.views import Picture, attention_maps
from bertedu.model.bert import Bert

SCRIPT = Path(__file__).with_suffix(".js")
MOST_BYTES = 1_000_000  # of weights in one view: a notebook should stay below 2 MB


@dataclass(frozen=True)
class Attention:
    """The weights that a model gave on one text."""

    name: str
    tokens: list[str]  # S of them
    layers: list[int]  # the numbers of the layers shown, counted from 1
    weights: Tensor  # (layers, heads, S, S); row = query, column = key; each row sums to 1


@torch.no_grad()
def attend(
    bert: Bert,
    tokenizer: Tokenizer,
    text: str,
    pair: str | None = None,
    name: str = "bert-mini",
    layers: Sequence[int] | None = None,
) -> Attention:
    """Run a model on a text, or on a pair of texts, and keep its attention weights.

    ``layers`` are counted from 1, as in the paper; all of them if left out.

    Raises
    ------
    ValueError
        The text is longer than the model's positions, or there is no such layer.

    """
    encoding = tokenizer.encode(text, pair)
    depth = bert.config.num_hidden_layers
    chosen = list(range(1, depth + 1)) if layers is None else list(layers)
    if not chosen or any(not 1 <= layer <= depth for layer in chosen):
        raise ValueError(f"layers {chosen}: this model has layers 1 to {depth}")
    device = next(bert.parameters()).device
    ids, segments = (torch.tensor([x], device=device) for x in (encoding.ids, encoding.type_ids))
    was_training = bert.training
    bert.eval()
    try:
        weights = bert(ids, segments, return_attention=True).attention
    finally:
        bert.train(was_training)
    kept = torch.stack([weights[layer - 1][0] for layer in chosen]).float().cpu()
    return Attention(name, encoding.tokens, chosen, kept)


class AttentionView:
    """A view that a notebook shows as the last line of a cell. It needs no network and no kernel.

    Where scripts may not run, in a notebook that is not trusted yet, a picture stands there.
    """

    def __init__(self, *shown: Attention, layer: int = 1, head: int = 1) -> None:
        """Show one model, or several side by side, starting at a layer and head, both from 1.

        Raises
        ------
        ValueError
            Nothing to show, no such layer or head, or more weights than a notebook should hold.

        """
        if not shown:
            raise ValueError("there is nothing to show: give one Attention or more, from attend(…)")
        for one in shown:
            heads, size = one.weights.shape[1], len(one.tokens)
            if one.weights.shape != (len(one.layers), heads, size, size):
                raise ValueError(
                    f"{one.name}: weights {tuple(one.weights.shape)} do not fit "
                    f"{len(one.layers)} layers and {size} tokens"
                )
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
        self.shown, self.layer, self.head = shown, layer, head

    def data(self) -> dict[str, Any]:
        """Return what the script draws: for each model its tokens, and each weight in one byte."""
        first = self.shown[0]
        return {
            "layer": first.layers.index(self.layer),
            "head": self.head - 1,
            "views": [
                {
                    "name": one.name,
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
        """Return the head that the view starts with as a heat map, a panel a model."""
        maps = {
            one.name: (one.weights[one.layers.index(self.layer), self.head - 1], one.tokens)
            for one in self.shown
        }
        return attention_maps(
            {f"{name}: layer {self.layer}, head {self.head}": map for name, map in maps.items()},
            self.alt,
        )

    @property
    def alt(self) -> str:
        """Say in words what the view shows at the start, for those who cannot see it."""
        parts = []
        for one in self.shown:
            weights = one.weights[one.layers.index(self.layer), self.head - 1]
            query, key = divmod(int(weights.argmax()), len(one.tokens))
            parts.append(
                f"Attention of {one.name}, layer {self.layer}, head {self.head}, over "
                f"{len(one.tokens)} tokens; the strongest is from {one.tokens[query]} "
                f"to {one.tokens[key]}."
            )
        return " ".join(parts)

    def _repr_html_(self) -> str:
        # "<" is escaped, so that no token can end the script
        data = json.dumps(self.data(), sort_keys=True).replace("<", "\\u003c")
        name = "attention-" + hashlib.sha256(data.encode()).hexdigest()[:12]
        return (
            f'<div class="bertedu-attention" data-view="{name}">'
            f"{self.picture()._repr_html_()}"
            "<p>This picture becomes a view to explore when the notebook is trusted: run the cell, "
            "or choose <i>Trust Notebook</i>.</p></div>"
            f'<script type="module">{SCRIPT.read_text(encoding="utf-8")}\n'
            f"const data = {data};\n"
            f"for (const root of document.querySelectorAll('[data-view=\"{name}\"]'))\n"
            "  if (!root.attentionPanels) draw(root, data);\n"
            "</script>"
        )

    def __repr__(self) -> str:
        """Return the alt text: what a reader without a browser gets."""
        return self.alt

    def widget(self) -> Any:
        """Return the view as a live widget: `layer`, `head` (from 0), `side` and `token` follow.

        Needed only where Python wants to know what the reader chose; the plain view is lighter.
        """
        return attention_widget(self.data())


def attention_widget(data: dict[str, Any]) -> Any:
    """Make an anywidget of the same script. The class is made late: anywidget is slow to import."""
    import anywidget
    import traitlets

    class AttentionWidget(anywidget.AnyWidget):
        _esm = SCRIPT
        data = traitlets.Dict().tag(sync=True)
        layer = traitlets.Int().tag(sync=True)
        head = traitlets.Int().tag(sync=True)
        side = traitlets.Unicode("").tag(sync=True)  # "queries", "keys", or "" for none
        token = traitlets.Int(-1).tag(sync=True)

    return AttentionWidget(data=data, layer=data["layer"], head=data["head"])
