"""The exercises of notebook 12: mixing layers, joining layers, counting what moves, and a test."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from bertedu.model.bert import Bert
from bertedu.model.config import BertConfig
from bertedu.model.elmo import ScalarMix
from bertedu.model.features import LayerFeatures
from course.exercises.judge import Exercise, Inputs, drawer, named, offered
from course.exercises.museum import TestExercise


def _mix_cases() -> Iterator[Inputs]:
    draw = drawer(12)
    for i, shape in enumerate([(2, 1, 2)] * 20 + [(3, 2, 2)] * 40 + [(4, 5, 3)] * 40):
        yield draw(*shape), draw(shape[0]), (0.5, 2.0, 3.0)[i % 3]


@Exercise.asking(
    asks="(states (layers, S, H), weights (layers,), scale) -> (S, H): ELMo's learned sum of "
    "layers",
    cases=_mix_cases,
    tried="100 random cases, of 2, 3 and 4 layers.",
    start="shares = weights.softmax(dim=0), one number per layer; then sum share times state.",
    beside=(ScalarMix,),
    mistakes="""
    ✗ the weights are used as they are; they do not sum to 1.
      a weight may be negative, and twice all weights would be twice the sum. First
      weights.softmax(dim=0).
    | .softmax(dim=0) =>
    ✗ the scale is missing.
      softmax fixes the total at 1, so a number of its own says how large the sum may be:
      scale * (...).
    | scale * =>
    ✗ the sum is divided by the number of layers.
      the shares sum to 1 already, so this is .sum(dim=0), not .mean(dim=0).
    | .sum => .mean
    """,
)
def right_layer_mix(states: Tensor, weights: Tensor, scale: float) -> Tensor:
    """(layers, S, H), (layers,), a number -> (S, H)."""
    shares = weights.softmax(dim=0)
    return scale * (shares[:, None, None] * states).sum(dim=0)


def _concat_cases() -> Iterator[Inputs]:
    for layers, length, size in ((2, 1, 2), (3, 2, 2), (4, 3, 2), (5, 2, 3)):
        # 10 * layer + token + 0.1 * number: each value shows where it came from
        rows = torch.arange(1.0, length + 1)[:, None] + torch.arange(1.0, size + 1) / 10
        states = [10.0 * layer + rows for layer in range(layers + 1)]
        yield from ((states, count) for count in range(1, layers + 1))


@Exercise.asking(
    asks="(hidden_states, L + 1 of (S, H), count) -> (S, count * H)",
    cases=_concat_cases,
    tried="14 cases, of 2 to 5 layers, from one of them to all.",
    start="hidden_states[-count:], a list of the states wanted; then torch.cat with dim=-1.",
    beside=(LayerFeatures,),
    mistakes="""
    ✗ these are the first states, with the input embedding; the last are wanted.
      hidden_states[0] is the embedding, which knows no context: count from the end,
      hidden_states[-count:].
    | [-count:] => [:count]
    ✗ it is one layer too low: the last is left out.
      a slice leaves its end out already: hidden_states[-count:], with nothing after the colon.
      (With L layers there are L + 1 states, so the last is number L.)
    | [-count:] => [-count - 1 : -1]
    ✗ rows of several tokens are mixed.
      reshape takes numbers in the order in which they lie, layer by layer here. torch.cat(…,
      dim=-1) keeps every token to its row.
    | torch.cat => torch.stack && , dim=-1) => ).reshape(len(hidden_states[0]), -1)
    """,
)
def right_concat_layers(hidden_states: Sequence[Tensor], count: int) -> Tensor:
    """L + 1 of (S, H), the input embedding first; the last ``count`` -> (S, count * H)."""
    return torch.cat(list(hidden_states[-count:]), dim=-1)


def _models() -> list[Inputs]:
    with torch.random.fork_rng(devices=[]):  # nobody's chance is disturbed
        half, table, decoder = nn.Linear(3, 2), nn.Embedding(7, 3), nn.Linear(3, 7)
        half.bias.requires_grad_(False)
        decoder.weight = table.weight
        described: tuple[tuple[Any, ...], ...] = (
            ("one linear layer 2 → 3", nn.Linear(2, 3)),
            ("a frozen linear layer 4 → 4, and a new one 4 → 2",
             nn.Linear(4, 4).requires_grad_(False), nn.Linear(4, 2)),
            ("one linear layer 3 → 2 whose bias alone is frozen", half),
            ("a batch norm of 5, with its running means, and a linear layer 5 → 2",
             nn.BatchNorm1d(5), nn.Linear(5, 2)),
            ("an embedding table 7 × 3 and a decoder tied to it", table, decoder),
            ("a frozen linear layer 3 → 3, and nothing else",
             nn.Linear(3, 3).requires_grad_(False)),
        )  # fmt: skip
        return [(named(name, nn.ModuleList(parts)),) for name, *parts in described]


def _moves_otherwise(now: nn.Module, before: nn.Module) -> bool:
    """Whether the function froze or thawed something."""
    pairs = zip(now.parameters(), before.parameters(), strict=True)
    return any(mine.requires_grad != theirs.requires_grad for mine, theirs in pairs)


@Exercise.asking(
    asks="model -> how many of its numbers an optimizer moves",
    cases=_models,
    moved=_moves_otherwise,
    tried="6 models: frozen in part, as a whole, not at all; with tied weights and running means.",
    start="for p in model.parameters(): p.requires_grad says whether it moves, p.numel() how many.",
    in_place="it changes requires_grad; counting must leave the model as it is.",
    beside=(LayerFeatures,),
    mistakes="""
    ✗ frozen parameters are counted as well.
      a parameter with requires_grad=False has no gradient and does not move: if p.requires_grad.
    | if p.requires_grad =>
    ✗ this is the number of tensors, not of the numbers in them.
      a weight of 4 × 2 holds eight numbers: p.numel().
    | p.numel() => 1
    ✗ state_dict is counted: it holds tied weights twice, and running means that no gradient moves.
      go through model.parameters(); it names each parameter once.
    | parameters() => state_dict().values() && if p.requires_grad =>
    """,
)
def right_trainable(model: nn.Module) -> int:
    """Return how many numbers an optimizer moves."""
    return sum(p.numel() for p in model.parameters() if p.requires_grad)


# -- a test of features

Extract = Callable[[Bert, Tensor, Tensor, Tensor], Tensor]


@offered
def play_bert() -> Bert:
    """Make a small random BERT, in training mode, as every new model is: four layers, 16 wide."""
    return Bert(BertConfig(60, 16, 4, 4, 32, 24, dropout=0.3, initializer_range=0.3)).train()


@torch.no_grad()
def right_extract(bert: Bert, ids: Tensor, segment_ids: Tensor, padding_mask: Tensor) -> Tensor:
    """Mean second-to-last state of the real tokens: (B, S) three times -> (B, H)."""
    states: Tensor = bert.eval()(ids, segment_ids, padding_mask).hidden_states[-2]
    real = padding_mask.bool()[..., None]
    return (states * real).sum(dim=1) / real.sum(dim=1)


def _extract_by_layers(bert: Bert, ids: Tensor, segment_ids: Tensor, mask: Tensor) -> Tensor:
    tokens = LayerFeatures(bert, "second-to-last")(ids, segment_ids, mask).tokens
    return torch.stack([tokens[i, row].mean(dim=0) for i, row in enumerate(mask.bool())]).detach()


@TestExercise.asking(
    asks="(extract) -> bool, true if it is right. extract(bert, ids, segment_ids, padding_mask) "
    "returns the mean second-to-last state of the real tokens, (B, H)",
    thing="extractor",
    start="bert = check.play_bert() and two texts, one of them padded; then call extract twice.",
    right=(("with torch.no_grad()", right_extract), ("with LayerFeatures", _extract_by_layers)),
    refuses_all="compare with bert.eval()(ids, segments, mask).hidden_states[-2], averaged over "
    "the real tokens of each row; use torch.allclose. Dropout must be off in your own call, too.",
    refuses_right="two right ways differ in the seventh digit: use torch.allclose(…, atol=1e-5), "
    "not ==.",
    beside=(right_extract,),
    museum="""
    ✗ dropout left on: bert.eval() is missing, so two calls give two answers.
      call it twice on the same input, and compare.
    | .eval() => .train()
    ✗ a gradient into the frozen model: torch.no_grad() is missing, so an optimizer could still move
    the BERT.
      ask the result for requires_grad.
    | @torch.no_grad() =>
    ✗ the last layer: it reads hidden_states[-1].
      compute the mean yourself from bert(…).hidden_states[-2], in eval mode.
    | [-2] => [-1]
    ✗ padding averaged in: the mean runs over all places, so a text changes with the length of its
    neighbors.
      pad the same text further: nothing may change.
    | (states * real).sum(dim=1) / real.sum(dim=1) => states.mean(dim=1)
    ✗ segments not passed on: every token is taken for one of segment A.
      give it segments of both kinds: with other segments the result must change.
    | (ids, segment_ids => (ids, None
    ✗ mask not passed on: attention reads the padding, even where the mean leaves it out.
      put another word where padding is: nothing may change.
    | (ids, segment_ids, padding_mask) => (ids, segment_ids)
    """,
)
def right_feature_test(extract: Extract) -> bool:
    """Return True if the features are right: a mean by hand, the same twice, and no gradient."""
    bert = play_bert()
    ids = torch.randint(5, 60, (2, 9))
    segments = (torch.arange(9) > 3).long().expand(2, -1)
    mask = torch.arange(9) < torch.tensor([[9], [6]])
    found = extract(bert, ids, segments, mask)
    again = extract(bert, ids, segments, mask)
    with torch.no_grad():
        states = bert.eval()(ids, segments, mask).hidden_states[-2]
    by_hand = torch.stack([states[0].mean(dim=0), states[1, :6].mean(dim=0)])
    same = torch.allclose(found, by_hand, atol=1e-5) and torch.allclose(found, again)
    return same and not found.requires_grad
