"""What heads do: where they look, what they pass on, and what changes when they look elsewhere."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import cast

import torch
from torch import Tensor, nn

from bertedu.model.attention import SelfAttention
from bertedu.model.bert import Bert, BertForPreTraining

Change = Callable[[int, Tensor], Tensor]  # layer from 1, weights (B, A, S, S) -> other weights

# what one query's unit of attention can go to; each key is counted under every heading that fits
PATTERNS = ("[CLS]", "[SEP]", "previous", "next", "itself", "same word", "punctuation")
MEASURES = (*PATTERNS, "entropy", "distance")


def encoder_of(model: nn.Module) -> Bert:
    """Return the encoder of a model, or raise ValueError: ELMo, made of LSTMs, has none."""
    bert = model if isinstance(model, Bert) else getattr(model, "bert", None)
    if not isinstance(bert, Bert):
        raise ValueError(f"a {type(model).__name__} has no attention: give a Bert or a model on it")
    return bert


@contextmanager
def changed_attention(model: Bert | BertForPreTraining, change: Change) -> Iterator[None]:
    """Let every layer work with other weights than its own, inside a with-block.

    ``change`` gets the number of the layer, from 1, and its weights (B, A, S, S), and returns the
    ones to use. They are part of the graph, so a gradient with respect to them can be taken.
    Raises ValueError for a layer that is not there, or within another such block.
    """
    parts = [part for part in encoder_of(model).modules() if isinstance(part, SelfAttention)]
    if any("forward" in vars(part) for part in parts):
        raise ValueError("its attention is changed already: let one change do both")
    if isinstance(change, _OnlyIn) and not 1 <= change.layer <= len(parts):
        raise ValueError(f"there is no layer {change.layer}: they count from 1 to {len(parts)}")

    def forward(
        layer: int, x: Tensor, mask: Tensor | None, return_weights: bool = False
    ) -> tuple[Tensor, Tensor]:
        weights = change(layer, parts[layer - 1].weights(x, mask))
        return parts[layer - 1].mix(weights, x), weights

    for layer, part in enumerate(parts, start=1):
        part.forward = partial(forward, layer)  # type: ignore[method-assign]
    try:
        yield
    finally:
        for part in parts:
            del part.forward  # the method of the class comes back


@dataclass(frozen=True)
class _OnlyIn:
    """A change of one layer, from 1."""

    layer: int
    change: Callable[[Tensor], Tensor]

    def __call__(self, layer: int, weights: Tensor) -> Tensor:
        return self.change(weights) if layer == self.layer else weights


def _is_head(head: int, weights: Tensor) -> Tensor:
    """Return bool (A, 1, 1), true at one head, from 1, of weights (B, A, S, S)."""
    if not 1 <= head <= weights.shape[1]:
        raise ValueError(f"there is no head {head}: they count from 1 to {weights.shape[1]}")
    return (torch.arange(1, weights.shape[1] + 1, device=weights.device) == head)[:, None, None]


def switch_off(layer: int, head: int) -> Change:
    """Return a change that lets one head, both from 1, pass on nothing (Michel et al., 2019)."""
    return _OnlyIn(layer, lambda weights: weights * ~_is_head(head, weights))


def spread_evenly(layer: int, head: int) -> Change:
    """Return a change that lets one head share out evenly over all keys that it may see."""

    def spread(weights: Tensor) -> Tensor:
        seen = (weights > 0).to(weights.dtype)
        even = seen / seen.sum(dim=-1, keepdim=True)
        return torch.where(_is_head(head, weights), even, weights)

    return _OnlyIn(layer, spread)


def shuffle_keys(layer: int) -> Change:
    """Return a change that deals out each query's weights of one layer anew, at random."""

    def shuffle(weights: Tensor) -> Tensor:
        generator = torch.Generator().manual_seed(0)
        order = torch.rand(weights.shape, generator=generator).argsort(dim=-1)
        return weights.gather(-1, order.to(weights.device))

    return _OnlyIn(layer, shuffle)


def measure(weights: Tensor, tokens: Sequence[str]) -> Tensor:
    """Say where heads look in one text: (layers, A, S, S) -> (layers, A, len(MEASURES)).

    The first are mean shares over queries, from 0 to 1. "same word" is the same token elsewhere;
    entropy is in nats; distance is the mean number of tokens between query and key.
    """
    weights, position = weights.cpu(), torch.arange(len(tokens))
    apart = position[None, :] - position[:, None]  # row a query, column a key
    alike = torch.tensor([[a == b for b in tokens] for a in tokens])
    keys = {
        "[CLS]": torch.tensor([t == "[CLS]" for t in tokens]),
        "[SEP]": torch.tensor([t == "[SEP]" for t in tokens]),
        "previous": apart == -1,
        "next": apart == 1,
        "itself": apart == 0,
        "same word": alike & (apart != 0),
        "punctuation": torch.tensor([len(t) == 1 and not t.isalnum() for t in tokens]),
    }
    parts = [weights * keys[name] for name in PATTERNS]
    parts += [torch.special.entr(weights), weights * apart.abs()]
    return torch.stack([part.sum(-1).mean(-1) for part in parts], dim=-1)


def rollout(weights: Tensor) -> Tensor:
    """Follow attention through all layers: (L, A, S, S) -> (S, S) (Abnar and Zuidema, 2020).

    A layer passes on 0.5 A + 0.5 I, its heads' mean and the residual. Row i of the product over
    layers says from which input tokens state i was mixed, were values unchanged. Rows sum to 1.
    """
    size = weights.shape[-1]
    steps = 0.5 * weights.mean(dim=1) + 0.5 * torch.eye(size)
    flow = steps[0]
    for step in steps[1:]:
        flow = step @ flow  # the later layer asks the earlier one
    return flow


def another_attention(
    model: BertForPreTraining, ids: Tensor, position: int, layer: int, steps: int = 60
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Look for weights of one layer that are far from the model's own and change no answer.

    For one sequence ``ids`` (S,) and the blank at ``position``, all heads of ``layer`` get new
    scores, found by gradient descent: away from the own weights, with the answer held where it was
    (after Jain and Wallace, 2019, section 4.2.2, who search for one layer of an LSTM).

    Returns own and new weights, each (A, S, S); own and new probabilities of all words, each (V,).
    """
    # changed to what it is: the answer before is computed as the one after, digit by digit
    with torch.no_grad(), changed_attention(model, lambda _, weights: weights):
        before = _logits(model, ids, position).log_softmax(-1)
        own = cast(Tensor, model.bert(ids[None], return_attention=True).attention[layer - 1])

    def searched() -> Tensor:
        return scores.masked_fill(own == 0, -1e9).softmax(-1)

    scores = own.clamp(min=1e-6).log().requires_grad_()
    optimizer = torch.optim.Adam([scores], lr=0.2)
    with changed_attention(model, _OnlyIn(layer, lambda _: searched())):
        with torch.enable_grad():
            for _ in range(steps):
                after = _logits(model, ids, position).log_softmax(-1)
                moved = (before.exp() * (before - after)).sum()  # KL divergence of the answers
                share = total_variation(own, searched())  # (1, A, S)
                # in the last layer only the blank's own row counts, so it is weighed by itself, too
                apart = 0.5 * (share.mean() + share[..., position].mean())
                (2 * moved - apart).backward(inputs=[scores])  # type: ignore[no-untyped-call]
                optimizer.step()
                optimizer.zero_grad()
        with torch.no_grad():
            after, new = _logits(model, ids, position).log_softmax(-1), searched()
    return own[0], new[0], before.exp(), after.exp()


@torch.no_grad()
def word_probabilities(model: BertForPreTraining, ids: Tensor, position: int) -> Tensor:
    """Return the probability of every word at one place of a sequence (S,): (V,)."""
    return _logits(model, ids, position).softmax(-1)


def total_variation(one: Tensor, other: Tensor) -> Tensor:
    """Return the share of attention that has moved, 0 to 1, for each query: (…, S) -> (…)."""
    return 0.5 * (one - other).abs().sum(dim=-1)


def _logits(model: BertForPreTraining, ids: Tensor, position: int) -> Tensor:
    only = torch.arange(len(ids)) == position
    return model(ids[None], selected=only[None])[0][0]
