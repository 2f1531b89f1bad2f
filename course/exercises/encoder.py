"""The exercises of notebook 04: GELU, feed-forward, two layers, pooler, counting, word vectors."""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bertedu.model.bert import BertOutput
from bertedu.model.config import BertConfig
from bertedu.model.encoder import EncoderLayer, FeedForward
from bertedu.model.heads import Pooler
from course.exercises import judge
from course.exercises.judge import Exercise, Inputs, drawer, named, whole
from course.exercises.museum import TestExercise

Map = Callable[[Tensor], Tensor]  # (S, H) -> (S, H)


def right_gelu(x: Tensor) -> Tensor:
    """x · Φ(x), where Φ(x) is the probability that a standard normal number is below x."""
    below = 0.5 * (1 + torch.erf(x / math.sqrt(2)))
    return x * below


def _gelu_cases() -> Iterator[Inputs]:
    draw = drawer(1)
    yield from ((torch.tensor([v]),) for v in (1.0, -1.0, 0.0, 2.0, -2.5, 0.5, -0.7))
    for shape in ((3,), (2, 4), (2, 3, 16)):
        yield from ((draw(*shape) * 1.5,) for _ in range(20))


# GELU and ReLU are close, and the tanh form is closer still: what is compared is the distance
# to ReLU, magnified, so that a difference of 0.0003 counts and a rounding error does not.
ZOOM = 20


def _read_gelu(answer: Any, x: Tensor) -> Any:
    tensor = judge.read_tensor(answer, "the result", x.shape)
    return ((tensor.double() - x.double().relu()) * ZOOM).tolist()


def _gelu_difference(inputs: Inputs, mine: Any, right: Any) -> str:
    x = inputs[0].double()
    values = [torch.tensor(part).double() / ZOOM + x.relu() for part in (mine, right)]
    worst = int((values[0] - values[1]).abs().nan_to_num(torch.inf).argmax())
    at, got, want = (float(part.flatten()[worst]) for part in (x, *values))
    return f"At x = {at:.3f} yours gives {got:.4f}; it should give {want:.4f}."


GELU = Exercise(
    asks="(x of any shape) -> the same shape: the exact GELU",
    right=right_gelu,
    cases=_gelu_cases,
    read=_read_gelu,
    differ=_gelu_difference,
    tried="67 tensors, to four decimals: the exact GELU, not one of its approximations.",
    start="torch.erf(x / 2 ** 0.5), which runs from -1 to 1. Φ(x) must run from 0 to 1.",
    solution=(FeedForward, right_gelu),
    mistakes="""
    ✗ this is the tanh approximation.
      it is no bug: Google's code for BERT has it. But it is off by up to 0.0005. The exact GELU is
      x·Φ(x) with torch.erf.
    | x * below => F.gelu(x, approximate="tanh")
    ✗ Φ lacks its 1/2, so the result is twice too large.
      1 + erf runs from 0 to 2, but a probability from 0 to 1: 0.5 * (1 + torch.erf(…)).
    | 0.5 * =>
    ✗ x is not divided by √2 inside erf.
      erf belongs to a bell curve of variance 1/2. For variance 1, take erf(x / √2).
    | x / math.sqrt(2) => x
    | math.sqrt(2) => 2
    | x / math.sqrt(2) => x * math.sqrt(2)
    ✗ this is Φ(x) itself, the share that gets through: x is missing.
      GELU(x) is x · Φ(x). At x = 1 both are 0.84; at x = -1 only the sign tells them apart.
    | x * below => below
    ✗ this is the sigmoid form.
      1 / (1 + e^(-1.702 x)) comes near Φ(x), but GELU is then off by up to 0.02. The exact Φ needs
      torch.erf.
    | 0.5 * (1 + torch.erf(x / math.sqrt(2))) => torch.sigmoid(1.702 * x)
    """,
)


def right_feed_forward(x: Tensor, W1: Tensor, b1: Tensor, W2: Tensor, b2: Tensor) -> Tensor:
    """(S, H) -> (S, H), by way of (S, inner). W1 is (inner, H), W2 is (H, inner)."""
    hidden = F.gelu(x @ W1.T + b1)
    return hidden @ W2.T + b2


def _feed_forward_cases() -> Iterator[Inputs]:
    """Square ones among them, in which a forgotten transpose raises no error."""
    draw = drawer(2)
    for rows, size, inner in ((1, 1, 1), (1, 2, 2), (2, 2, 2), (2, 2, 8), (3, 4, 16)):
        for _ in range(20):
            yield draw(rows, size), draw(inner, size), draw(inner), draw(size, inner), draw(size)


FEED_FORWARD = Exercise(
    asks="(x (S, H), W1 (inner, H), b1, W2 (H, inner), b2) -> (S, H), with GELU between",
    right=right_feed_forward,
    cases=_feed_forward_cases,
    tensors="the result",
    tried="100 random cases, from one number to three words of four.",
    start="x @ W1.T + b1: the hidden numbers, before GELU.",
    in_place="x += … writes into the caller's x, and the residual still needs it.",
    solution=(FeedForward, right_feed_forward),
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
      the residual belongs to the layer (exercise 4), not to this part: return f(x) alone.
    | return => return x +
    ✗ a bias is missing.
      each of the two maps adds its own: x @ W1.T + b1, and later … @ W2.T + b2.
    | + b1 =>
    | + b2 =>
    | + b1 => && + b2 =>
    """,
)


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


def right_post_norm_layer(
    x: Tensor, attention: Map, feed_forward: Map, norm_1: Map, norm_2: Map
) -> Tensor:
    """norm(x + f(x)), twice: BERT's own order."""
    y = norm_1(x + attention(x))
    return norm_2(y + feed_forward(y))


def right_pre_norm_layer(
    x: Tensor, attention: Map, feed_forward: Map, norm_1: Map, norm_2: Map
) -> Tensor:
    """x + f(norm(x)), twice."""
    y = x + attention(norm_1(x))
    return y + feed_forward(norm_2(y))


POST_NORM_LAYER = Exercise(
    asks="(x (S, H), attention, feed_forward, norm_1, norm_2) -> (S, H), BERT's order",
    right=right_post_norm_layer,
    cases=_layer_cases,
    tensors="the result",
    tried="60 layers with parts of their own: norm(x + f(x)), twice, as in BERT.",
    start="y = norm_1(x + attention(x)). The second step is the same, from y.",
    in_place="x += … writes into the caller's x. Write x = x + …",
    solution=(EncoderLayer, right_post_norm_layer),
    mistakes="""
    ✗ the residual around feed-forward is missing.
      norm_2(y + feed_forward(y)). (graykode/nlp-tutorial leaves it out, and no shape shows it.)
    | y + feed => feed
    ✗ this is pre-norm: x + f(norm(x)).
      a fine layer, but not BERT's. Post-norm adds first: norm(x + f(x)).
    | = right_pre_norm_layer
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

PRE_NORM_LAYER = Exercise(
    asks="(x (S, H), attention, feed_forward, norm_1, norm_2) -> (S, H), norms first",
    right=right_pre_norm_layer,
    cases=_layer_cases,
    tensors="the result",
    tried="60 layers with parts of their own: x + f(norm(x)), twice.",
    start="y = x + attention(norm_1(x)). The second step is the same, from y.",
    in_place="x += … writes into the caller's x. Write x = x + …",
    solution=(EncoderLayer, right_pre_norm_layer),
    mistakes="""
    ✗ this is post-norm: norm(x + f(x)).
      that is BERT's own order. Pre-norm normalizes what f reads: x + f(norm(x)).
    | = right_post_norm_layer
    ✗ the residual starts from the normalized x.
      x = norm(x) came first, so the sum adds norm(x). Keep the raw x for the sum: x + f(norm(x)).
    | x + attention => norm_1(x) + attention && y + feed => norm_2(y) + feed
    ✗ the residual around attention is missing.
      x + attention(norm_1(x)): without x, the input is gone after one layer.
    | x + attention => attention
    ✗ the residual around feed-forward is missing.
      y + feed_forward(norm_2(y)): without y, nothing is passed on as it was.
    | y + feed => feed
    ✗ the second residual starts from the layer's input.
      after the first step, go on with y: y + feed_forward(norm_2(y)).
    | y + feed => x + feed
    ✗ the second step uses the norm of the first.
      each step has a norm of its own, with its own scale and shift: norm_2.
    | norm_2(y => norm_1(y
    ✗ only one of the two parts reads normalized vectors.
      both do: attention(norm_1(x)), then feed_forward(norm_2(y)).
    | norm_2(y) => y
    | norm_1(x) => x
    """,
)


def right_pooler(states: Tensor, W: Tensor, b: Tensor) -> Tensor:
    """One vector for each row: tanh of a linear map of `[CLS]`'s state. (B, S, H) -> (B, H)."""
    return torch.tanh(states[:, 0] @ W.T + b)


def _pooler_cases() -> Iterator[Inputs]:
    draw = drawer(6)
    for rows, length, size in ((1, 1, 1), (1, 2, 2), (2, 2, 2), (2, 3, 2), (3, 5, 4)):
        for _ in range(20):
            yield draw(rows, length, size), draw(size, size), draw(size)


POOLER = Exercise(
    asks="(states (B, S, H), W (H, H), b (H,)) -> (B, H): tanh of a linear map of [CLS]'s state",
    right=right_pooler,
    cases=_pooler_cases,
    tensors="your result",
    tried="100 random cases, from one token to 3 rows of 5.",
    start="states[:, 0], which is (B, H): the state of the first token, [CLS], in each row.",
    solution=(Pooler, right_pooler),
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


def right_layer_flops(length: int, hidden: int) -> int:
    """Count multiplications and additions of a layer's matrix products; inner is 4·hidden."""
    maps = 4 * (2 * length * hidden * hidden)  # query, key, value, output
    scores_and_mixing = 2 * (2 * length * length * hidden)
    feed_forward = 2 * (2 * length * hidden * 4 * hidden)
    return maps + scores_and_mixing + feed_forward


LAYER_FLOPS = Exercise(
    asks="(length, hidden) -> FLOPs of one layer's matrix products; inner is 4·hidden",
    right=right_layer_flops,
    cases=lambda: [
        *((1, 1), (2, 1), (1, 2), (3, 2), (2, 4), (64, 256)),
        *((128, 768), (512, 768), (512, 1024)),
    ],
    read=whole,
    tried="nine sizes, among them those of BERT-base and BERT-large.",
    start="(S × H) @ (H × H) makes S·H numbers; each takes H multiplications and H additions.",
    mistakes="""
    ✗ a multiplication and an addition are counted as one.
      each step of a dot product multiplies *and* adds: 2 operations.
    | (2 * => (
    ✗ scores and mixing are both missing.
      QKᵀ compares every pair of words, and the weights mix the values: 2·S²·H each. They are
      what grows with the square of the length.
    | + scores_and_mixing =>
    ✗ attention has three maps in your count, not four.
      query, key, value, and the output map that joins the heads: 4 · 2·S·H².
    | 4 * ( => 3 * (
    ✗ only one of scores and mixing is counted.
      QKᵀ compares every pair of words, and then the weights mix the values: 2·S²·H each.
    | scores_and_mixing = 2 * => scores_and_mixing = 1 *
    ✗ feed-forward is counted one way.
      there and back: H to 4H, then 4H to H, 2·S·H·4H each.
    | feed_forward = 2 * => feed_forward = 1 *
    ✗ feed-forward has H hidden numbers in your count, not 4·H.
      two maps, each between H and 4·H numbers: 2 · 2·S·H·4H.
    | 4 * hidden) => hidden)
    """,
)


def right_cosine(a: Tensor, b: Tensor) -> Tensor:
    """Return the cosine of the angle between two vectors (H,): 1 same direction, 0 none shared."""
    cosine: Tensor = a @ b / (a.norm() * b.norm())
    return cosine


def _cosine_cases() -> list[Inputs]:
    draw = drawer(4)
    pairs = [tuple(2 * draw(2, size) + 1) for size in (2, 3, 16) for _ in range(20)]
    return [(torch.tensor([3.0, 4.0]), torch.tensor([4.0, 3.0])), *pairs]


COSINE = Exercise(
    asks="(a (H,), b (H,)) -> scalar, the cosine of the angle between them",
    right=right_cosine,
    cases=_cosine_cases,
    tried="61 pairs of vectors, short and long.",
    start="the dot product a @ b. What makes it larger when the direction is the same?",
    mistakes="""
    ✗ this is the dot product: long vectors win.
      divide by both lengths: a.norm() * b.norm().
    | / (a.norm() * b.norm()) =>
    ✗ the lengths are squared.
      a @ a is the length squared: take its square root, a.norm().
    | a.norm() * b.norm() => (a @ a) * (b @ b)
    ✗ only one of the two lengths is divided out.
      a longer b must not change the angle either: a.norm() * b.norm().
    | a.norm() * b.norm() => a.norm()
    | a.norm() * b.norm() => b.norm()
    ✗ the second length is multiplied, not divided out.
      x / y * z divides by y alone. Put the product in brackets: / (a.norm() * b.norm()).
    | (a.norm() * b.norm()) => a.norm() * b.norm()
    """,
)


def right_word_vector(states: Tensor, tokens: Sequence[str], word: str, layer: int) -> Tensor:
    """Pick the vector (H,) of a word's first appearance after a layer; layer 0 is the input."""
    return states[layer, tokens.index(word)]


def _word_cases() -> list[Inputs]:
    draw = drawer(5)
    sentences = (
        ("go", "go"),
        ("by the bank of the river", "bank"),
        ("light is light", "light"),
    )
    return [
        (draw(layers + 1, len(text.split()) + 2, size), f"[CLS] {text} [SEP]".split(), word, layer)
        for text, word in sentences
        for layers, size in ((2, 2), (4, 3))
        for layer in range(layers + 1)
    ]


WORD_VECTOR = Exercise(
    asks="(states (L + 1, S, H), tokens, word, layer) -> (H,), the word's own vector",
    right=right_word_vector,
    cases=_word_cases,
    tensors="the result",
    tried="24 words in three sentences, after every layer.",
    start="tokens.index(word): the position of the word, [CLS] being 0.",
    solution=(BertOutput, right_word_vector),
    mistakes="""
    ✗ the token before the word is taken: [CLS] was not counted.
      states has a row for [CLS], too, so the first word is token 1. Look the word up in tokens,
      which begins with [CLS].
    | (word) => (word) - 1
    ✗ the last appearance of the word is taken, not the first.
      your dictionary or loop goes on after it has found one. tokens.index(word) stops at the first.
    | tokens.index(word) => -1 - tokens[::-1].index(word)
    ✗ the layer is one too low.
      states[0] is the input of layer 1, states[1] its output: states[layer].
    | [layer, => [layer - 1,
    ✗ the layer is one too high.
      states[0] is the input, so layer 1 is states[1], and states has no entry beyond the last
      layer: states[layer].
    | [layer, => [layer + 1,
    ✗ the layer and the position have changed places.
      states is (L + 1, S, H): the layer comes first, states[layer, position].
    | states[layer, tokens.index(word)] => states[tokens.index(word), layer]
    """,
)


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


LAYER_TEST = TestExercise(
    asks="(make_layer) -> bool, true if it is a right post-norm layer. make_layer() gives a fresh "
    "module on (S, 8)",
    thing="layer",
    start="layer = make_layer(); set the weight and bias of every nn.Linear in layer.modules() to "
    "zero. What must layer(x) be now?",
    right=(("with the parts of PyTorch", RightLayer), ("with the parts of the package", _Packaged)),
    refuses_all="compare with torch.allclose and a tolerance such as atol=1e-3, not with ==; and "
    "let the norms keep their scale of 1: zero the nn.Linear parts only.",
    refuses_right="it depends on the names of the parts. Zero every nn.Linear in layer.modules(), "
    "and look at what comes out.",
    solution=(right_layer_test,),
    museum="""
    ✗ graykode/nlp-tutorial: has no residual around feed-forward.
      set all maps to zero: a right layer then gives F.layer_norm(x, (8,)), and this one only zeros.
    | y + self.feed => self.feed
    ✗ a missing sum: has no residual around attention.
      set all maps to zero: a right layer then gives F.layer_norm(x, (8,)), and this one only zeros.
    | x + self.attention => self.attention
    ✗ the Annotated Transformer: is pre-norm, x + f(norm(x)), though its text says norm(x + f(x)).
      set all maps to zero: a right layer then gives F.layer_norm(x, (8,)), and this one x itself.
    | self.norm_1(x + self.attention(x, x, x)[0]) => x + self.attention(*3 * [self.norm_1(x)])[0] &&
      self.norm_2(y + self.feed_forward(y)) => y + self.feed_forward(self.norm_2(y))
    ✗ issue 29 of graykode/nlp-tutorial: makes a map in forward, a new one at every call.
      call the layer twice with the same x; or set all maps to zero, which does not reach that one.
    | , nn.Linear(32, 8) => && self.feed_forward(y) => nn.Linear(32, 8)(self.feed_forward(y))
    """,
)
