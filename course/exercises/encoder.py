"""The exercises of notebook 04: from one part of a layer to a stack with published weights."""

import random
import re
from collections.abc import Callable, Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bertedu.model.bert import Bert
from bertedu.model.checkpoints import hugging_face_name, load_weights
from bertedu.model.config import BertConfig
from bertedu.model.encoder import EncoderLayer, FeedForward
from bertedu.model.heads import Pooler
from course.exercises import judge
from course.exercises.embeddings import right_layer_norm
from course.exercises.judge import Exercise, Inputs, drawer, named, read_str
from course.exercises.museum import TestExercise
from course.exercises.self_attention import right_multi_head

Map = Callable[[Tensor], Tensor]  # (S, H) -> (S, H)


def _feed_forward_cases() -> Iterator[Inputs]:
    """Square ones among them, in which a forgotten transpose raises no error."""
    draw = drawer(2)
    for rows, size, inner in ((1, 1, 1), (1, 2, 2), (2, 2, 2), (2, 2, 8), (3, 4, 16)):
        for _ in range(20):
            yield draw(rows, size), draw(inner, size), draw(inner), draw(size, inner), draw(size)


@Exercise.asking(
    asks="(x (S, H), W1 (inner, H), b1, W2 (H, inner), b2) -> (S, H), with GELU between",
    cases=_feed_forward_cases,
    tried="100 random cases, from one number to three words of four.",
    start="x @ W1.T + b1: the hidden numbers, before GELU.",
    in_place="x += … writes into the caller's x, and the residual still needs it.",
    beside=(FeedForward,),
    mistakes="""
    ✗ there is no activation between the two maps.
      two linear maps in a row are one linear map: put F.gelu around the first.
    | F.gelu =>
    ✗ the activation is ReLU.
      the Transformer of 2017 had ReLU here. BERT has GELU: F.gelu.
    | gelu => relu
    ✗ the weights are used the wrong way around.
      nn.Linear keeps a weight as (out, in), one row per output: multiply by W1.T and W2.T. In
      the square cases the shapes fit either way, and only the numbers tell.
    | .T =>
    | W1.T => W1
    | W2.T => W2
    ✗ GELU acts on the result, too.
      it stands between the two maps alone. After the second one, every number may come out.
    | hidden @ W2.T + b2 => F.gelu(hidden @ W2.T + b2)
    ✗ GELU comes after the second map, not between the two.
      then the two maps are one linear map: put F.gelu around x @ W1.T + b1.
    | F.gelu(x @ W1.T + b1) => x @ W1.T + b1 && hidden @ W2.T + b2 => F.gelu(hidden @ W2.T + b2)
    ✗ x is added to the result.
      the residual belongs to the layer (exercise 2), not to this part: return f(x) alone.
    | return => return x +
    ✗ a bias is missing.
      each of the two maps adds its own: x @ W1.T + b1, and later … @ W2.T + b2.
    | + b1 =>
    | + b2 =>
    | + b1 => && + b2 =>
    """,
)
def right_feed_forward(x: Tensor, W1: Tensor, b1: Tensor, W2: Tensor, b2: Tensor) -> Tensor:
    """(S, H) -> (S, H), by way of (S, inner). W1 is (inner, H), W2 is (H, inner)."""
    hidden = F.gelu(x @ W1.T + b1)
    return hidden @ W2.T + b2


def _parts(length: int, size: int, draw: Callable[..., Tensor]) -> Inputs:
    """Draw attention, feed-forward, and two norms."""
    weights, value = draw(length, length).softmax(-1), draw(size, size) / size**0.5
    first, second = draw(size, 4 * size), draw(4 * size, size) / (2 * size)
    (scale_1, shift_1), (scale_2, shift_2) = draw(2, 2, size) / 2
    norm = "(a layer norm with its own scale and shift)"
    return (
        named("(fixed weights that sum to 1)", lambda x: weights @ x @ value),
        named("(two fixed maps, GELU between)", lambda x: F.gelu(x @ first) @ second),
        named(norm, lambda x: F.layer_norm(x, (size,), 1 + scale_1, shift_1, 1e-12)),
        named(norm, lambda x: F.layer_norm(x, (size,), 1 + scale_2, shift_2, 1e-12)),
    )


def _layer_cases() -> Iterator[Inputs]:
    draw = drawer(3)
    for length, size in ((1, 2), (1, 3), (2, 2), (2, 4), (5, 8)):
        yield from ((draw(length, size), *_parts(length, size, draw)) for _ in range(12))


@Exercise.asking(
    asks="(x (S, H), attention, feed_forward, norm_1, norm_2) -> (S, H), BERT's order",
    cases=_layer_cases,
    tried="60 layers with parts of their own: norm(x + f(x)), twice, as in BERT.",
    start="y = norm_1(x + attention(x)). The second step is the same, from y.",
    in_place="x += … writes into the caller's x. Write x = x + …",
    beside=(EncoderLayer,),
    mistakes="""
    ✗ the residual around feed-forward is missing.
      norm_2(y + feed_forward(y)). (graykode/nlp-tutorial leaves it out, and no shape shows it.)
    | y + feed => feed
    ✗ this is pre-norm: x + f(norm(x)).
      a fine layer, but not BERT's. Post-norm adds first: norm(x + f(x)).
    | norm_1(x + attention(x)) => x + attention(norm_1(x)) && norm_2(y + feed_forward(y)) =>
      y + feed_forward(norm_2(y))
    ✗ the second residual starts from the layer's input.
      after the first step, go on with y: norm_2(y + feed_forward(y)). With x, attention's result
      reaches the output only through feed-forward.
    | y + feed => x + feed
    ✗ feed-forward reads the layer's input x, and never sees what attention found.
      after the first step, go on with y alone: norm_2(y + feed_forward(y)).
    | feed_forward(y) => feed_forward(x)
    ✗ the residual around attention is missing.
      norm_1(x + attention(x)): without x, the input is gone after one layer.
    | x + attention => attention
    ✗ the norm is inside the sum: x + norm(f(x)).
      post-norm adds first and normalizes the sum: norm(x + f(x)).
    | norm_1(x + attention(x)) => x + norm_1(attention(x)) && norm_2(y + feed_forward(y)) =>
      y + norm_2(feed_forward(y))
    ✗ the second step uses the norm of the first.
      each step has a norm of its own, with its own scale and shift: norm_2.
    | norm_2(y => norm_1(y
    ✗ only one of the two sums is normalized.
      both steps end in a norm: norm_1 after attention, norm_2 after feed-forward.
    | norm_2(y + feed_forward(y)) => y + feed_forward(y)
    | norm_1(x + attention(x)) => x + attention(x)
    """,
)
def right_post_norm_layer(
    x: Tensor, attention: Map, feed_forward: Map, norm_1: Map, norm_2: Map
) -> Tensor:
    """norm(x + f(x)), twice: BERT's own order."""
    y = norm_1(x + attention(x))
    return norm_2(y + feed_forward(y))


Weights = dict[str, Tensor]  # by name; in a layer, such as attention.query.weight


class Parts(SimpleNamespace):
    """Functions of the notebooks before, by name."""

    def __repr__(self) -> str:
        """Name them."""
        return f"the functions {', '.join(vars(self))}"


OURS = Parts(
    multi_head=right_multi_head,
    layer_norm=right_layer_norm,
    feed_forward=right_feed_forward,
    post_norm_layer=right_post_norm_layer,
)


def as_trained(config: BertConfig, seed: int) -> Bert:
    """Make a small encoder in which no bias is 0 and no scale is 1, as after training."""
    with judge.undisturbed(seed), torch.no_grad():
        bert = Bert(config).eval()
        for parameter in bert.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.5)
    return bert.requires_grad_(False)


def _whole_layer_cases() -> Iterator[Inputs]:
    draw = drawer(7)
    for hidden, heads, rows, length in ((2, 1, 1, 1), (2, 2, 1, 2), (4, 2, 2, 2), (6, 3, 3, 4)):
        bert = as_trained(BertConfig(9, hidden, 1, heads, 2 * hidden, 4), seed=1)
        w = dict(bert.encoder.layers[0].state_dict())
        for _ in range(5):
            mask = draw(rows, length, length) < 0.5
            mask |= torch.eye(length, dtype=torch.bool)
            yield draw(rows, length, hidden), mask, w, heads, OURS


@Exercise.asking(
    asks="(x (B, S, H), mask (B, S, S), w, heads, part) -> (B, S, H). w holds the 16 tensors of a "
    "layer by name; part.multi_head, part.layer_norm, part.feed_forward and part.post_norm_layer "
    "are functions as you have written them",
    cases=_whole_layer_cases,
    tried="20 layers, of one head to three, on batches of one row to three.",
    start="print(list(w)). post_norm_layer wants four functions of x alone: write attention(x), "
    "which calls part.multi_head with the four maps, whose names lose their attention. in front.",
    beside=(EncoderLayer,),
    mistakes="""
    ✗ both norms have the same scale and shift.
      a layer has two: attention_norm and feed_forward_norm. In a loop, a lambda looks its variable
      up when it is called: norm(name) as a function of its own makes one for each.
    | norm("feed_forward_norm") => norm("attention_norm")
    | norm("attention_norm") => norm("feed_forward_norm")
    ✗ the norms are in the wrong order.
      attention_norm comes after attention, feed_forward_norm after feed-forward.
    | norm("attention_norm"), norm("feed_forward_norm") =>
      norm("feed_forward_norm"), norm("attention_norm")
    ✗ attention has one head, however many there should be.
      pass heads on: part.multi_head(x, mask, maps, heads).
    | mask, maps, heads) => mask, maps, 1)
    ✗ every token sees every other: the mask is not passed on.
      part.multi_head(x, mask, maps, heads): it is the mask that hides the padding.
    | x, mask, maps => x, torch.ones_like(mask), maps
    """,
)
def right_encoder_layer(x: Tensor, mask: Tensor, w: Weights, heads: int, part: Parts) -> Tensor:
    """(B, S, H), bool (B, S, S), the 16 tensors of a layer, A, four functions -> (B, S, H)."""
    maps = {name.removeprefix("attention."): w[name] for name in w if "attention." in name}
    names = ("intermediate.weight", "intermediate.bias", "output.weight", "output.bias")
    inner = [w[f"feed_forward.{name}"] for name in names]

    def attention(x: Tensor) -> Tensor:
        return part.multi_head(x, mask, maps, heads)

    def feed_forward(x: Tensor) -> Tensor:
        return part.feed_forward(x, *inner)

    def norm(name: str) -> Map:
        return lambda x: part.layer_norm(x, w[f"{name}.weight"], w[f"{name}.bias"], 1e-12)

    norms = norm("attention_norm"), norm("feed_forward_norm")
    return part.post_norm_layer(x, attention, feed_forward, *norms)


def _stack_cases() -> Iterator[Inputs]:
    """One layer to twelve, whose tensors come in no order, among those of other parts."""
    draw = drawer(8)
    rng = random.Random(8)
    layer = named("(a layer: x @ map + shift)", lambda x, w: x @ w["map"] + w["shift"])
    for layers, size in ((1, 1), (2, 1), (2, 2), (3, 2), (12, 2)):
        for _ in range(4):
            w = {"embeddings.norm.bias": draw(size), "pooler.dense.bias": draw(size)}
            for i in rng.sample(range(layers), layers):
                w |= {f"encoder.layers.{i}.map": draw(size, size) / 2}
                w |= {f"encoder.layers.{i}.shift": draw(size)}
            yield draw(1, 2, size), w, layer


@Exercise.asking(
    asks="(x (B, S, H), w, layer) -> list of L + 1 states (B, S, H), x first. w holds all tensors "
    "of a model: those of layer 3 begin with encoder.layers.3. layer(x, own) is a function, own "
    "the tensors of one layer, by their names without that beginning",
    cases=_stack_cases,
    read=lambda answer, x, w, layer: [
        judge.read_numbers(one, "a state", x.shape)
        for one in (answer if isinstance(answer, list | tuple) else [answer])
    ],
    tried="20 stacks of one layer to twelve, their tensors in no order.",
    start="states = [x], and a loop over the layers. Of which layer is encoder.layers.10.map?",
    mistakes="""
    ✗ layer 1 also gets the tensors of layers 10 and 11.
      "encoder.layers.10." begins with "encoder.layers.1", too: compare up to the second dot.
    | {i}." => {i}" && removeprefix(begin) => split(".", 3)[3]
    ✗ every layer reads the input.
      a layer reads what the one below has made: layer(states[-1], own).
    | states[-1] => states[0]
    ✗ the input is missing from the states.
      there are L + 1 of them: x is state 0.
    | return states => return states[1:]
    ✗ the layers come in the order of the file, not of their numbers.
      a dictionary keeps the order in which it was filled. Count: for i in range(number of layers).
    | in range(count): => in dict.fromkeys(n.split(".")[2] for n in w if n[:3] == "enc"):
    ✗ only the last state is returned.
      keep all of them: later notebooks look at each.
    | return states => return states[-1]
    """,
)
def right_stack(x: Tensor, w: Weights, layer: Callable[[Tensor, Weights], Tensor]) -> list[Tensor]:
    """Return the input and what each layer makes of the one before; w is the whole model's."""
    states = [x]
    count = 1 + max(int(name.split(".")[2]) for name in w if name.startswith("encoder.layers."))
    for i in range(count):
        begin = f"encoder.layers.{i}."
        own = {name.removeprefix(begin): w[name] for name in w if name.startswith(begin)}
        states.append(layer(states[-1], own))
    return states


def _name_cases() -> list[Inputs]:
    with torch.device("meta"):  # names alone: nothing is drawn
        names = {
            hugging_face_name(name) for name in Bert(BertConfig(30, 8, 2, 2, 16, 12)).state_dict()
        }
    for new, old in (("Norm.weight", "Norm.gamma"), ("Norm.bias", "Norm.beta")):
        names |= {name.replace(new, old) for name in names}
    names |= {"encoder.layer.0.gate.gamma", "encoder.layer.1.gate.beta"}  # of no norm
    whole_names = {f"bert.{name}" for name in names}
    names |= whole_names | {name.replace("layer.1", "layer.11") for name in whole_names}
    return [(name,) for name in sorted(names, key=lambda name: (len(name), name))]


@Exercise.asking(
    asks="(theirs) -> ours, the name of a tensor of the encoder",
    cases=_name_cases,
    read=partial(read_str, wanted="one name, a str,"),
    tried="every name of a two-layer encoder: old and new, with and without bert., layer 11 too; "
    "and a gamma and a beta of no norm.",
    start='one .replace for each row of the table, gamma and beta first; .removeprefix("bert.").',
    beside=(hugging_face_name,),
    mistakes=r"""
    ✗ old names stay as they are.
      gamma is weight, and beta is bias: files of 2018 still have them.
    | (r"LayerNorm\.gamma$", "LayerNorm.weight"), => && (r"LayerNorm\.beta$", "LayerNorm.bias"), =>
    ✗ every gamma and beta is renamed.
      only a norm's: LayerNorm.gamma, LayerNorm.beta. Another part may have a gamma of its own.
    | LayerNorm\.gamma$", "LayerNorm.weight => gamma", "weight && LayerNorm\.beta$", "LayerNorm.bias
      => beta", "bias
    ✗ "bert." stays in front.
      a whole model has it, an encoder saved alone does not: .removeprefix("bert.") does nothing
      where it is missing.
    | (r"^bert\.", ""), =>
    ✗ the output of attention ends up in the feed-forward part.
      attention.output.dense contains output.dense: replace the longer name first.
    | "attention.output") => "attention.feed_forward.output")
    | "attention.output") => "attention.feed_forward.output") &&
      "attention_norm") => "attention.feed_forward_norm")
    """,
)
def right_our_name(theirs: str) -> str:
    """Translate a published name of the encoder, old or new, into ours."""
    for pattern, ours in (
        (r"^bert\.", ""),
        (r"LayerNorm\.gamma$", "LayerNorm.weight"),
        (r"LayerNorm\.beta$", "LayerNorm.bias"),
        (r"word_embeddings", "token"),
        (r"position_embeddings", "position"),
        (r"token_type_embeddings", "segment"),
        (r"embeddings\.LayerNorm", "embeddings.norm"),
        (r"encoder\.layer\.", "encoder.layers."),
        (r"attention\.self\.", "attention."),
        (r"attention\.output\.dense", "attention.output"),
        (r"attention\.output\.LayerNorm", "attention_norm"),
        (r"intermediate\.dense", "feed_forward.intermediate"),
        (r"(?<!attention\.)output\.dense", "feed_forward.output"),
        (r"(?<!attention\.)output\.LayerNorm", "feed_forward_norm"),
    ):
        theirs = re.sub(pattern, ours, theirs)
    return theirs


def _load_cases() -> Iterator[Inputs]:
    rng = random.Random(12)
    translated = named(
        "our_name", lambda name: name.removeprefix("bert.").replace("gamma", "weight")
    )
    names = "bert.norm.gamma bert.map.weight map.bias cls.decoder.weight bert.position".split()
    for count in [1] * 3 + [2] * 5 + [4] * 12:
        some = rng.sample(names, count)
        tensors = {n: torch.tensor([float(i), 1.0]) for i, n in enumerate(names) if n in some}
        shapes = {translated(n): torch.Size([2]) for n in rng.sample(names[:-1], count)}
        if rng.random() < 0.5:
            shapes[rng.choice([*shapes])] = torch.Size([3])
        yield tensors, shapes, translated


def _read_load(answer: Any, *_: Any) -> Any:
    w, missing = judge.read_parts(answer, "w, missing")
    if not isinstance(w, dict) or isinstance(missing, str):
        raise judge.UnreadableError("return w, a dictionary, and missing, a list of names.")
    return sorted((name, torch.as_tensor(t).tolist()) for name, t in w.items()), sorted(missing)


@Exercise.asking(
    asks="(tensors, shapes, our_name) -> (w, missing). tensors: published name -> tensor; shapes: "
    "our name -> shape, for all that our encoder needs. w: our name -> tensor; missing: the names "
    "that are not in the file, or with another shape",
    cases=_load_cases,
    read=_read_load,
    first_part=0,
    tried="20 files, with tensors too many, too few, and of another shape.",
    start="a dictionary of the file under our names: {our_name(name): tensor for …}.",
    beside=(load_weights,),
    mistakes="""
    ✗ a tensor of another shape is loaded.
      it belongs to another model, and would fail far from here, or never: compare .shape.
    | and found[n].shape == shape =>
    ✗ what our encoder has no place for is loaded, too.
      a published file also holds heads: keep only the names in shapes.
    | w = { => w = found | {
    ✗ what is missing is not told.
      a model with one tensor from chance runs, and is wrong: name all that w does not hold.
    | sorted(shapes.keys() - w.keys()) => []
    ✗ the published names stay.
      put each tensor under our_name(name).
    | our_name(name): tensor => name: tensor
    """,
)
def right_load(
    tensors: Weights, shapes: dict[str, tuple[int, ...]], our_name: Callable[[str], str]
) -> tuple[Weights, list[str]]:
    """Published name -> tensor, our name -> shape: our name -> tensor, and what is missing."""
    found = {our_name(name): tensor for name, tensor in tensors.items()}
    w = {n: found[n] for n, shape in shapes.items() if n in found and found[n].shape == shape}
    return w, sorted(shapes.keys() - w.keys())


def _pooler_cases() -> Iterator[Inputs]:
    draw = drawer(6)
    for rows, length, size in ((1, 1, 1), (1, 2, 2), (2, 2, 2), (2, 3, 2), (3, 5, 4)):
        for _ in range(20):
            yield draw(rows, length, size), draw(size, size), draw(size)


@Exercise.asking(
    asks="(states (B, S, H), W (H, H), b (H,)) -> (B, H): tanh of a linear map of [CLS]'s state",
    cases=_pooler_cases,
    tried="100 random cases, from one token to 3 rows of 5.",
    start="states[:, 0], which is (B, H): the state of the first token, [CLS], in each row.",
    beside=(Pooler,),
    mistakes="""
    ✗ the tanh is missing.
      without it the result is only a linear map. torch.tanh brings every number into the range
      from -1 to 1.
    | torch.tanh(states[:, 0] @ W.T + b) => states[:, 0] @ W.T + b
    ✗ all tokens are averaged.
      that makes sentence vectors, too, and notebook 16 does it. BERT's pooler reads [CLS] alone:
      states[:, 0].
    | states[:, 0] => states.mean(1)
    ✗ the weights are used the wrong way around.
      nn.Linear keeps a weight as (out, in): multiply by W.T.
    | W.T => W
    ✗ the state of the last token is taken, not that of the first.
      the first one is [CLS]: states[:, 0].
    | states[:, 0] => states[:, -1]
    ✗ the first row is taken with all its tokens, not the first token of each row.
      the batch comes first in (B, S, H): states[:, 0].
    | states[:, 0] => states[0]
    ✗ the bias is missing.
      a linear map adds b, and only then comes tanh: torch.tanh(… + b).
    | + b) => )
    """,
)
def right_pooler(states: Tensor, W: Tensor, b: Tensor) -> Tensor:
    """One vector for each row: tanh of a linear map of `[CLS]`'s state. (B, S, H) -> (B, H)."""
    return torch.tanh(states[:, 0] @ W.T + b)


# -- a test for layers


class RightLayer(nn.Module):
    """A post-norm layer on (S, 8), with one head."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 1)
        self.norm_1, self.norm_2 = nn.LayerNorm(8), nn.LayerNorm(8)
        self.feed_forward = nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 8))

    def forward(self, x: Tensor) -> Tensor:
        """(S, 8) -> (S, 8)."""
        y = self.norm_1(x + self.attention(x, x, x)[0])
        return self.norm_2(y + self.feed_forward(y))


class _Packaged(nn.Module):
    """The package's own layer, for one sentence."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = EncoderLayer(BertConfig(1, 8, 1, 2, 32, dropout=0.0))

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x[None], None)[0][0]


@TestExercise.asking(
    asks="(make_layer) -> bool, true if it is a right post-norm layer. make_layer() gives a fresh "
    "module on (S, 8)",
    thing="layer",
    start="layer = make_layer(); set the weight and bias of every nn.Linear in layer.modules() to "
    "zero. What must layer(x) be now?",
    right=(("with the parts of PyTorch", RightLayer), ("with the parts of the package", _Packaged)),
    refuses_all="zero weight and bias of every nn.Linear, and nothing else: the norms keep their "
    "scale of 1. Compare with torch.allclose and a tolerance such as atol=1e-3, not with ==.",
    refuses_right="it depends on the names of the parts. Zero every nn.Linear in layer.modules(), "
    "and look at what comes out.",
    museum="""
    ✗ graykode/nlp-tutorial: has no residual around feed-forward.
      set all maps to zero, as in "The stack": this one then gives only zeros, a right one does not.
    | y + self.feed => self.feed
    ✗ a missing sum: has no residual around attention.
      set all maps to zero, as in "The stack": this one then gives only zeros, a right one does not.
    | x + self.attention => self.attention
    ✗ the Annotated Transformer: is pre-norm, x + f(norm(x)), though its text says norm(x + f(x)).
      set all maps to zero, as in "The stack": this one then gives x itself, a right one does not.
    | self.norm_1(x + self.attention(x, x, x)[0]) => x + self.attention(*3 * [self.norm_1(x)])[0] &&
      self.norm_2(y + self.feed_forward(y)) => y + self.feed_forward(self.norm_2(y))
    ✗ issue 29 of graykode/nlp-tutorial: makes a map in forward, a new one at every call.
      call the layer twice with the same x; or set all maps to zero, which does not reach that one.
    | , nn.Linear(32, 8) => && self.feed_forward(y) => nn.Linear(32, 8)(self.feed_forward(y))
    """,
)
def right_layer_test(make_layer: Callable[[], nn.Module]) -> bool:
    """Say whether a post-norm layer is right: with all maps at zero, only a layer norm is left.

    norm(x + 0) is norm(x), and the second norm leaves a normalized vector as it is. A missing
    residual leaves nothing of x, pre-norm leaves x itself, and a map that ``forward`` creates
    cannot be set to zero from outside.
    """
    layer = make_layer()
    with torch.no_grad():
        for part in layer.modules():
            if isinstance(part, nn.Linear):
                part.weight.zero_()
                part.bias.zero_()
        x = torch.randn(4, 8)
        return torch.allclose(layer(x), F.layer_norm(x, (8,)), atol=1e-3)
