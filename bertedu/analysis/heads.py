"""What heads do: where they look, what they pass on, and what changes when they look elsewhere."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import torch
from tokenizers import Tokenizer
from torch import Tensor

from bertedu.analysis.attention import encoder_of
from bertedu.model.attention import SelfAttention, scaled_dot_product_attention
from bertedu.model.bert import Bert, BertForPreTraining

Change = Callable[[int, Tensor], Tensor]  # layer from 1, weights (B, A, S, S) -> other weights

# what one query's unit of attention can go to; each key is counted under every heading that fits
PATTERNS = ("[CLS]", "[SEP]", "previous", "next", "itself", "same word", "punctuation")
MEASURES = (*PATTERNS, "entropy", "distance")


@contextmanager
def changed_attention(model: Bert | BertForPreTraining, change: Change) -> Iterator[None]:
    """Let every layer work with other weights than its own, inside a with-block.

    ``change`` gets the number of the layer, from 1, and its weights (B, A, S, S), and returns the
    ones to use. They are part of the graph, so a gradient with respect to them can be taken.
    """
    parts = [part for part in encoder_of(model).modules() if isinstance(part, SelfAttention)]
    for number, part in enumerate(parts, start=1):
        part.forward = partial(_forward, part, number, change)  # type: ignore[method-assign]
    try:
        yield
    finally:
        for part in parts:
            del part.forward  # the method of the class comes back


def _forward(
    part: SelfAttention,
    layer: int,
    change: Change,
    x: Tensor,
    mask: Tensor | None,
    return_weights: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Do what `SelfAttention.forward` does, with changed weights."""
    sizes = (part.num_heads, x.shape[-1] // part.num_heads)
    query, key, value = (
        project(x).unflatten(-1, sizes).transpose(1, 2)
        for project in (part.query, part.key, part.value)
    )
    weights = change(layer, scaled_dot_product_attention(query, key, value, mask)[1])
    return part.output((weights @ value).transpose(1, 2).flatten(2)), weights


def switch_off(layer: int, head: int) -> Change:
    """Return a change that lets one head, both from 1, pass on nothing (Michel et al., 2019)."""

    def change(here: int, weights: Tensor) -> Tensor:
        if here != layer:
            return weights
        kept = torch.ones(weights.shape[1], 1, 1, dtype=weights.dtype, device=weights.device)
        kept[head - 1] = 0
        return weights * kept

    return change


def spread_evenly(layer: int, head: int) -> Change:
    """Return a change that lets one head share out evenly over all keys that it may see."""

    def change(here: int, weights: Tensor) -> Tensor:
        if here != layer:
            return weights
        seen = (weights > 0).to(weights.dtype)
        even = seen / seen.sum(dim=-1, keepdim=True)
        chosen = torch.arange(weights.shape[1], device=weights.device) == head - 1
        return torch.where(chosen[:, None, None], even, weights)

    return change


def shuffle_keys(layer: int, seed: int = 0) -> Change:
    """Return a change that deals out each query's weights of one layer anew, at random."""

    def change(here: int, weights: Tensor) -> Tensor:
        if here != layer:
            return weights
        generator = torch.Generator().manual_seed(seed)
        order = torch.rand(weights.shape, generator=generator).argsort(dim=-1)
        return weights.gather(-1, order.to(weights.device))

    return change


def measure(weights: Tensor, tokens: Sequence[str]) -> Tensor:
    """Say where heads look in one text: (layers, A, S, S) -> (layers, A, len(MEASURES)).

    The first are mean shares over queries, from 0 to 1. "same word" is the same token elsewhere;
    entropy is in nats; distance is the mean number of tokens between query and key.
    """
    size = len(tokens)
    place = torch.arange(size)
    apart = place[None, :] - place[:, None]  # row a query, column a key
    alike = torch.tensor([[a == b for b in tokens] for a in tokens])
    marks = [not any(letter.isalnum() for letter in t) and len(t) == 1 for t in tokens]
    keys = {
        "[CLS]": torch.tensor([t == "[CLS]" for t in tokens]).expand(size, size),
        "[SEP]": torch.tensor([t == "[SEP]" for t in tokens]).expand(size, size),
        "previous": apart == -1,
        "next": apart == 1,
        "itself": apart == 0,
        "same word": alike & (apart != 0),
        "punctuation": torch.tensor(marks).expand(size, size),
    }
    found = [(weights * keys[name]).sum(-1).mean(-1) for name in PATTERNS]
    entropy = torch.special.entr(weights).sum(-1).mean(-1)
    distance = (weights * apart.abs()).sum(-1).mean(-1)
    return torch.stack([*found, entropy, distance], dim=-1)


def rollout(weights: Tensor) -> Tensor:
    """Follow attention through all layers: (L, A, S, S) -> (S, S) (Abnar and Zuidema, 2020).

    Half of what a layer passes on is its heads' mean, half is the residual: 0.5 A + 0.5 I. Row i of
    the product over layers says from which input tokens the state of token i was mixed, if every
    value were passed on unchanged. Rows sum to 1.
    """
    size = weights.shape[-1]
    steps = 0.5 * weights.mean(dim=1) + 0.5 * torch.eye(size)
    flow = steps[0]
    for step in steps[1:]:
        flow = step @ flow  # the later layer asks the earlier one
    return flow


def gradient_times_attention(
    model: BertForPreTraining, tokenizer: Tokenizer, text: str, word: str
) -> tuple[list[str], Tensor]:
    """Weigh each attention weight by how much the score of ``word`` at the `[MASK]` hangs on it.

    Returns tokens and (L, A, S, S): weight × gradient of the log probability. To first order, it is
    what would be lost if the weight were 0.

    Raises
    ------
    ValueError
        The text has not exactly one `[MASK]`, or the word is no single word piece.

    """
    encoding = tokenizer.encode(text)
    if encoding.tokens.count("[MASK]") != 1:
        raise ValueError(f"the text needs exactly one [MASK], it has {text.count('[MASK]')}")
    target = tokenizer.token_to_id(word)
    if target is None:
        raise ValueError(f"{word!r} is no word piece of this vocabulary: take a more usual word")
    caught: list[Tensor] = []

    def catch(layer: int, weights: Tensor) -> Tensor:
        weights.retain_grad()
        caught.append(weights)
        return weights

    with torch.enable_grad(), changed_attention(model, catch):
        scores = model(torch.tensor([encoding.ids]))[0][0, encoding.tokens.index("[MASK]")]
        gradients = torch.autograd.grad(scores.log_softmax(-1)[target], caught)
    products = [w.detach()[0] * g[0] for w, g in zip(caught, gradients, strict=True)]
    return encoding.tokens, torch.stack(products)


def another_attention(
    model: BertForPreTraining,
    ids: Tensor,
    place: int,
    layer: int,
    steps: int = 60,
    strength: float = 2.0,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Look for weights of one layer that are far from the model's own and change no answer.

    For one sequence ``ids`` (S,) and the blank at ``place``, all heads of ``layer`` get new scores,
    found by gradient descent: away from the own weights, with the answer held where it was (after
    Jain and Wallace, 2019, section 4.2.2, who search for one layer of an LSTM).

    Returns
    -------
    Own and new weights, each (A, S, S); own and new probabilities of all words, each (V,).

    """
    own: list[Tensor] = []

    def catch(here: int, weights: Tensor) -> Tensor:
        if here == layer:
            own.append(weights.detach())
        return weights

    with torch.no_grad(), changed_attention(model, catch):
        before = model(ids[None], selected=_only(ids, place))[0][0].log_softmax(-1)
    visible = own[0] > 0
    scores = own[0].clamp(min=1e-6).log().requires_grad_()
    optimizer = torch.optim.Adam([scores], lr=0.2)

    def change(here: int, weights: Tensor) -> Tensor:
        return scores.masked_fill(~visible, -1e9).softmax(-1) if here == layer else weights

    with torch.enable_grad(), changed_attention(model, change):
        for _ in range(steps):
            after = model(ids[None], selected=_only(ids, place))[0][0].log_softmax(-1)
            moved = (before.exp() * (before - after)).sum()  # KL divergence of the answers
            share = total_variation(own[0], change(layer, own[0]))  # (1, A, S)
            # in the last layer only the blank's own row counts, so it is weighed by itself, too
            apart = 0.5 * (share.mean() + share[..., place].mean())
            (strength * moved - apart).backward(inputs=[scores])
            optimizer.step()
            optimizer.zero_grad()
    with torch.no_grad(), changed_attention(model, change):
        after = model(ids[None], selected=_only(ids, place))[0][0].log_softmax(-1)
        new = change(layer, own[0])
    return own[0][0], new[0], before.exp(), after.exp()


@torch.no_grad()
def word_shares(model: BertForPreTraining, ids: Tensor, place: int) -> Tensor:
    """Return the probability of every word at one place of a sequence (S,): (V,)."""
    return model(ids[None], selected=_only(ids, place))[0][0].softmax(-1)  # type: ignore[no-any-return]


def total_variation(one: Tensor, other: Tensor) -> Tensor:
    """Return the share of attention that has moved, 0 to 1, for each query: (…, S) -> (…)."""
    return 0.5 * (one - other).abs().sum(dim=-1)


def _only(ids: Tensor, place: int) -> Tensor:
    return (torch.arange(len(ids)) == place)[None]
