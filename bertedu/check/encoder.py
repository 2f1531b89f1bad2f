"""The checks of notebook 04: GELU, feed-forward, the two layers, counting, and word vectors."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bertedu.check import exercise
from bertedu.check.exercise import Exercise, Inputs, Mistake
from bertedu.model.bert import BertOutput
from bertedu.model.config import BertConfig
from bertedu.model.encoder import EncoderLayer, FeedForward

Map = Callable[[Tensor], Tensor]  # (S, H) -> (S, H)

# -- gelu


def right_gelu(x: Tensor) -> Tensor:
    """x · Φ(x), where Φ(x) is the probability that a standard normal number is below x."""
    return x * 0.5 * (1 + torch.erf(x / math.sqrt(2)))


def _gelu_cases() -> list[Inputs]:
    generator = torch.Generator().manual_seed(1)
    cases: list[Inputs] = [(torch.tensor([v]),) for v in (1.0, -1.0, 0.0, 2.0, -2.5, 0.5, -0.7)]
    for shape in ((3,), (2, 4), (2, 3, 16)):
        cases += [(torch.randn(*shape, generator=generator) * 1.5,) for _ in range(20)]
    return cases


# GELU and ReLU are close, and the tanh form is closer still: what is compared is the distance
# to ReLU, magnified, so that a difference of 0.0003 counts and a rounding error does not.
ZOOM = 20


def _read_gelu(answer: Any, x: Tensor) -> Any:
    tensor = exercise.read_tensor(answer, "the result", x.shape)
    return ((tensor.double() - x.double().clamp(min=0)) * ZOOM).tolist()


def _gelu_difference(inputs: Inputs, mine: Any, right: Any) -> str:
    x = inputs[0].double()
    values = [torch.tensor(part, dtype=torch.float64) / ZOOM + x.clamp(min=0) for part in
              (mine, right)]  # fmt: skip
    worst = int((values[0] - values[1]).abs().nan_to_num(torch.inf).argmax())
    at, got, want = (float(part.flatten()[worst]) for part in (x, *values))
    return f"At x = {at:.3f} yours gives {got:.4f}; right is {want:.4f}."


def _tanh_gelu(x: Tensor) -> Tensor:
    return F.gelu(x, approximate="tanh")


def _cdf(x: Tensor) -> Tensor:
    return 0.5 * (1 + torch.erf(x / math.sqrt(2)))


GELU = Exercise(
    name="gelu",
    right=right_gelu,
    cases=_gelu_cases,
    read=_read_gelu,
    differ=_gelu_difference,
    tried="67 tensors, to four decimals: the exact GELU, not one of its approximations.",
    start="torch.erf(x / 2 ** 0.5), which runs from -1 to 1. Φ(x) must run from 0 to 1.",
    source=(FeedForward, right_gelu),
    mistakes=(
        Mistake(
            "this is the tanh approximation.",
            "no bug: Google's code for BERT has it. It is off by up to 0.0005. Exact is x·Φ(x) "
            "with torch.erf.",
            (_tanh_gelu,),
        ),
        Mistake(
            "this is the sigmoid approximation, x·σ(1.702 x).",
            "quick, and off by up to 0.02. Exact is x·Φ(x) with torch.erf.",
            (lambda x: x * torch.sigmoid(1.702 * x), lambda x: x * torch.sigmoid(1.7 * x)),
        ),
        Mistake(
            "this is SiLU (also called Swish), x·σ(x).",
            "the sigmoid σ is another S-shaped curve. GELU takes Φ: (1 + erf(x / √2)) / 2.",
            (F.silu,),
        ),
        Mistake(
            "this is Φ(x) alone: the x before it is missing.",
            "Φ(x) says how much of x gets through. Multiply: x * Φ(x).",
            (_cdf,),
        ),
        Mistake(
            "this is ReLU.",
            "max(0, x) has a corner at 0. GELU is x·Φ(x).",
            (F.relu,),
        ),
        Mistake(
            "Φ lacks its 1/2, so the result is twice too large.",
            "1 + erf runs from 0 to 2, a probability from 0 to 1: 0.5 * (1 + torch.erf(…)).",
            (lambda x: x * 2 * _cdf(x),),
        ),
        Mistake(
            "Φ lacks its 1: negative x come out positive.",
            "erf runs from -1 to 1. Φ(x) = (1 + erf(x / √2)) / 2.",
            (lambda x: x * torch.erf(x / math.sqrt(2)) / 2, lambda x: x * torch.erf(x / 2**0.5)),
        ),
        Mistake(
            "x is not divided by √2 inside erf.",
            "erf belongs to a bell curve of variance 1/2. For variance 1: erf(x / √2).",
            (lambda x: x * 0.5 * (1 + torch.erf(x)), lambda x: x * 0.5 * (1 + torch.erf(x / 2)),
             lambda x: x * 0.5 * (1 + torch.erf(x * 2**0.5))),
        ),
        Mistake(
            "the height of the bell curve stands where the area below it belongs.",
            "exp(-x²/2)/√(2π) is the density. Φ(x) adds it up from the far left to x.",
            (lambda x: x * torch.exp(-x * x / 2) / math.sqrt(2 * math.pi),),
        ),
    ),
)  # fmt: skip


def gelu(function: object) -> None:
    """Check ``(x of any shape) -> the same shape``: the exact GELU."""
    print(exercise.judge(GELU, function))


# -- feed_forward


def right_feed_forward(x: Tensor, W1: Tensor, b1: Tensor, W2: Tensor, b2: Tensor) -> Tensor:
    """(S, H) -> (S, H), by way of (S, inner). W1 is (inner, H), W2 is (H, inner)."""
    return F.gelu(x @ W1.T + b1) @ W2.T + b2


def _feed_forward_cases() -> list[Inputs]:
    """Square ones among them, in which a forgotten transpose raises no error."""
    generator = torch.Generator().manual_seed(2)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator).mul(10).round() / 10

    cases: list[Inputs] = []
    for rows, size, inner in ((1, 1, 1), (1, 2, 2), (2, 2, 2), (2, 2, 8), (3, 4, 16)):
        for _ in range(20):
            cases.append(
                (draw(rows, size), draw(inner, size), draw(inner), draw(size, inner), draw(size))
            )
    return cases


def _read_like_x(answer: Any, x: Tensor, *_: Any) -> Any:
    return exercise.read_tensor(answer, "the result", x.shape).double().tolist()


FEED_FORWARD = Exercise(
    name="feed_forward",
    right=right_feed_forward,
    cases=_feed_forward_cases,
    read=_read_like_x,
    tried="100 random cases, from one number to three words of four.",
    start="x @ W1.T + b1: the hidden numbers, before GELU.",
    in_place="x += … writes into the caller's x, and the residual still needs it.",
    source=(FeedForward, right_feed_forward),
    mistakes=(
        Mistake(
            "there is no activation between the two maps.",
            "two linear maps in a row are one linear map: put F.gelu around the first.",
            (lambda x, W1, b1, W2, b2: (x @ W1.T + b1) @ W2.T + b2,),
        ),
        Mistake(
            "the activation comes after the second map.",
            "GELU belongs between the maps; after the second, no output below -0.17 is possible.",
            (lambda x, W1, b1, W2, b2: F.gelu((x @ W1.T + b1) @ W2.T + b2),),
        ),
        Mistake(
            "there are two activations, one after each map.",
            "leave the output as it is: the residual sum needs negative numbers, too.",
            (lambda x, W1, b1, W2, b2: F.gelu(right_feed_forward(x, W1, b1, W2, b2)),),
        ),
        Mistake(
            "the activation is applied to the input.",
            "first x @ W1.T + b1, then GELU.",
            (lambda x, W1, b1, W2, b2: (F.gelu(x) @ W1.T + b1) @ W2.T + b2,),
        ),
        Mistake(
            "the activation is ReLU.",
            "the Transformer of 2017 had ReLU here. BERT has GELU: F.gelu.",
            (lambda x, W1, b1, W2, b2: F.relu(x @ W1.T + b1) @ W2.T + b2,),
        ),
        Mistake(
            "the first bias is forgotten.",
            "x @ W1.T + b1. Without it every hidden unit switches at 0.",
            (lambda x, W1, b1, W2, b2: F.gelu(x @ W1.T) @ W2.T + b2,),
        ),
        Mistake(
            "the first bias is added after the activation.",
            "b1 moves the place where a unit switches on: F.gelu(x @ W1.T + b1).",
            (lambda x, W1, b1, W2, b2: (F.gelu(x @ W1.T) + b1) @ W2.T + b2,),
        ),
        Mistake(
            "the second bias is forgotten.",
            "… @ W2.T + b2.",
            (lambda x, W1, b1, W2, b2: F.gelu(x @ W1.T + b1) @ W2.T,),
        ),
        Mistake(
            "both biases are forgotten.",
            "x @ W1.T + b1, and … @ W2.T + b2.",
            (lambda x, W1, b1, W2, b2: F.gelu(x @ W1.T) @ W2.T,),
        ),
        Mistake(
            "the weights are used the wrong way around.",
            "nn.Linear keeps a weight as (out, in), a row for each output: multiply by W1.T and "
            "W2.T. In the square cases the shapes fit either way, and only the numbers tell.",
            (
                lambda x, W1, b1, W2, b2: F.gelu(x @ W1 + b1) @ W2 + b2,
                lambda x, W1, b1, W2, b2: F.gelu(x @ W1 + b1) @ W2.T + b2,
                lambda x, W1, b1, W2, b2: F.gelu(x @ W1.T + b1) @ W2 + b2,
            ),
        ),
        Mistake(
            "the weights are reshaped, not transposed.",
            ".reshape and .view read the numbers in another order. .T turns rows into columns.",
            (
                lambda x, W1, b1, W2, b2: (
                    F.gelu(x @ W1.reshape(W1.shape[::-1]) + b1) @ W2.reshape(W2.shape[::-1]) + b2
                ),
            ),
        ),
        Mistake(
            "the input is added to the output.",
            "the residual is the layer's business, not the feed-forward's: return f(x) alone.",
            (lambda x, W1, b1, W2, b2: x + right_feed_forward(x, W1, b1, W2, b2),),
        ),
    ),
)


def feed_forward(function: object) -> None:
    """Check ``(x (S, H), W1 (inner, H), b1, W2 (H, inner), b2) -> (S, H)``, with GELU between."""
    print(exercise.judge(FEED_FORWARD, function))


# -- the two layers


@dataclass(frozen=True, eq=False)
class Named:
    """A function with a name to print in a message."""

    name: str
    function: Callable[..., Any]

    def __call__(self, *inputs: Any) -> Any:
        """Call the function."""
        return self.function(*inputs)

    def __repr__(self) -> str:
        """Return the name, which is the same in every run."""
        return self.name


def _draw_attention(length: int, size: int, generator: torch.Generator) -> Named:
    weights = torch.randn(length, length, generator=generator).softmax(-1)
    value = torch.randn(size, size, generator=generator) / size**0.5
    return Named("(fixed weights that sum to 1)", lambda x: weights @ x @ value)


def _draw_feed_forward(size: int, generator: torch.Generator) -> Named:
    first = torch.randn(size, 4 * size, generator=generator) / size**0.5
    second = torch.randn(4 * size, size, generator=generator) / (4 * size) ** 0.5
    return Named("(two fixed maps, GELU between)", lambda x: F.gelu(x @ first) @ second)


def _draw_norm(size: int, generator: torch.Generator) -> Named:
    scale = 1 + 0.5 * torch.randn(size, generator=generator)
    shift = 0.5 * torch.randn(size, generator=generator)
    return Named(
        "(a layer norm of its own scale and shift)",
        lambda x: F.layer_norm(x, (size,), scale, shift, 1e-12),
    )


def _layer_cases() -> list[Inputs]:
    generator = torch.Generator().manual_seed(3)
    cases: list[Inputs] = []
    for length, size in ((1, 2), (1, 3), (2, 2), (2, 4), (5, 8)):
        for _ in range(12):
            x = torch.randn(length, size, generator=generator).mul(10).round() / 10
            norms = _draw_norm(size, generator), _draw_norm(size, generator)
            attention = _draw_attention(length, size, generator)
            cases.append((x, attention, _draw_feed_forward(size, generator), *norms))
    return cases


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


def _in_turn(first: Callable[..., Tensor], second: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Make a layer out of two steps; each gets (input, f, norm, the layer's own input)."""

    def layer(x: Tensor, a: Map, f: Map, n1: Map, n2: Map) -> Tensor:
        return second(first(x, a, n1, x), f, n2, x)

    return layer


def _post(x: Tensor, f: Map, n: Map, start: Tensor) -> Tensor:
    return n(x + f(x))


def _pre(x: Tensor, f: Map, n: Map, start: Tensor) -> Tensor:
    return x + f(n(x))


def _post_alone(x: Tensor, f: Map, n: Map, start: Tensor) -> Tensor:
    return n(f(x))


def _pre_alone(x: Tensor, f: Map, n: Map, start: Tensor) -> Tensor:
    return f(n(x))


def _inside(x: Tensor, f: Map, n: Map, start: Tensor) -> Tensor:
    return x + n(f(x))


def _bare(x: Tensor, f: Map, n: Map, start: Tensor) -> Tensor:
    return x + f(x)


def _from_norm(x: Tensor, f: Map, n: Map, start: Tensor) -> Tensor:
    return n(x) + f(n(x))


def _swap(layer: Callable[..., Tensor], order: str) -> Callable[..., Tensor]:
    """Give a layer other parts than it asks for: order "af12" is the right one."""

    def wrong(x: Tensor, a: Map, f: Map, n1: Map, n2: Map) -> Tensor:
        parts = {"a": a, "f": f, "1": n1, "2": n2}
        return layer(x, *(parts[letter] for letter in order))

    return wrong


_WRONG_PARTS = (
    ("the same norm is used twice.", "norm_1 belongs to attention, norm_2 to the feed-forward: "
     "each learns a scale and a shift of its own.", ("af11", "af22")),
    ("the two norms are swapped.", "norm_1 belongs to attention, norm_2 to the feed-forward.",
     ("af21",)),
    ("feed-forward comes before attention.", "first the words are mixed, then each is worked on.",
     ("fa12", "fa21")),
    ("attention is called twice, feed-forward never.", "the second step takes feed_forward.",
     ("aa12",)),
    ("feed-forward is called twice, attention never.", "the first step takes attention.",
     ("ff12",)),
)  # fmt: skip


def _wrong_parts(layer: Callable[..., Tensor]) -> tuple[Mistake, ...]:
    return tuple(
        Mistake(what, likely, tuple(_swap(layer, order) for order in orders))
        for what, likely, orders in _WRONG_PARTS
    )


POST_NORM_LAYER = Exercise(
    name="post_norm_layer",
    right=right_post_norm_layer,
    cases=_layer_cases,
    read=_read_like_x,
    tried="60 layers with parts of their own: norm(x + f(x)), twice, as in BERT.",
    start="y = norm_1(x + attention(x)). The second step is the same, from y.",
    in_place="x += … writes into the caller's x. Write x = x + …",
    source=(EncoderLayer, right_post_norm_layer),
    mistakes=(
        Mistake(
            "the residual around attention is missing.",
            "norm_1(attention(x)) forgets x itself. Add first: norm_1(x + attention(x)).",
            (_in_turn(_post_alone, _post),),
        ),
        Mistake(
            "the residual around feed-forward is missing.",
            "norm_2(y + feed_forward(y)). (graykode/nlp-tutorial leaves it out; the shapes are "
            "all right.)",
            (_in_turn(_post, _post_alone),),
        ),
        Mistake(
            "both residuals are missing.",
            "each step adds to what came in: norm(x + f(x)).",
            (_in_turn(_post_alone, _post_alone),),
        ),
        Mistake(
            "this is pre-norm: x + f(norm(x)).",
            "a fine layer, but not BERT's. Post-norm adds first: norm(x + f(x)).",
            (_in_turn(_pre, _pre),),
        ),
        Mistake(
            "one step is post-norm, the other pre-norm.",
            "both steps read norm(x + f(x)).",
            (_in_turn(_pre, _post), _in_turn(_post, _pre)),
        ),
        Mistake(
            "the norm comes before the sum: x + norm(f(x)).",
            "normalize the sum, not what is added: norm(x + f(x)).",
            (_in_turn(_inside, _inside), _in_turn(_inside, _post), _in_turn(_post, _inside)),
        ),
        Mistake(
            "the second residual starts from the layer's input.",
            "after the first step go on with y: norm_2(y + feed_forward(y)). With x, attention's "
            "result reaches the output only through feed-forward.",
            (_in_turn(_post, lambda y, f, n, x: n(x + f(y))),),
        ),
        Mistake(
            "feed-forward reads the layer's input, not the first step's result.",
            "feed_forward(y), where y = norm_1(x + attention(x)).",
            (_in_turn(_post, lambda y, f, n, x: n(y + f(x))), lambda x, a, f, n1, n2: (
                n2(n1(x + a(x)) + x + f(x)))),
        ),
        Mistake(
            "a norm is missing.",
            "two norms in each layer: norm_1 after the first sum, norm_2 after the second.",
            (_in_turn(_bare, _post), _in_turn(_post, _bare), _in_turn(_bare, _bare)),
        ),
        *_wrong_parts(right_post_norm_layer),
    ),
)  # fmt: skip


def post_norm_layer(function: object) -> None:
    """Check ``(x (S, H), attention, feed_forward, norm_1, norm_2) -> (S, H)``, BERT's order."""
    print(exercise.judge(POST_NORM_LAYER, function))


PRE_NORM_LAYER = Exercise(
    name="pre_norm_layer",
    right=right_pre_norm_layer,
    cases=_layer_cases,
    read=_read_like_x,
    tried="60 layers with parts of their own: x + f(norm(x)), twice.",
    start="y = x + attention(norm_1(x)). The second step is the same, from y.",
    in_place="x += … writes into the caller's x. Write x = x + …",
    source=(EncoderLayer, right_pre_norm_layer),
    mistakes=(
        Mistake(
            "this is post-norm: norm(x + f(x)).",
            "that is BERT's own order. Pre-norm normalizes what f reads: x + f(norm(x)).",
            (_in_turn(_post, _post),),
        ),
        Mistake(
            "one step is pre-norm, the other post-norm.",
            "both steps read x + f(norm(x)).",
            (_in_turn(_pre, _post), _in_turn(_post, _pre)),
        ),
        Mistake(
            "the residual starts from the normalized x.",
            "x = norm(x) came first, so that the sum adds norm(x). Keep the raw x for the sum: "
            "x + f(norm(x)).",
            (_in_turn(_from_norm, _from_norm), _in_turn(_from_norm, _pre),
             _in_turn(_pre, _from_norm)),
        ),
        Mistake(
            "the residual around attention is missing.",
            "x + attention(norm_1(x)): without x the input is gone after one layer.",
            (_in_turn(_pre_alone, _pre),),
        ),
        Mistake(
            "the residual around feed-forward is missing.",
            "y + feed_forward(norm_2(y)).",
            (_in_turn(_pre, _pre_alone),),
        ),
        Mistake(
            "both residuals are missing.",
            "each step adds to what came in: x + f(norm(x)).",
            (_in_turn(_pre_alone, _pre_alone),),
        ),
        Mistake(
            "the norm is applied to what is added: x + norm(f(x)).",
            "normalize what goes into f, not what comes out: x + f(norm(x)).",
            (_in_turn(_inside, _inside), _in_turn(_inside, _pre), _in_turn(_pre, _inside)),
        ),
        Mistake(
            "a norm is missing.",
            "attention reads norm_1(x), feed-forward reads norm_2(y).",
            (_in_turn(_bare, _pre), _in_turn(_pre, _bare), _in_turn(_bare, _bare)),
        ),
        Mistake(
            "the layer ends with a norm.",
            "a pre-norm *stack* has one more norm after its last layer; a layer has none.",
            (lambda x, a, f, n1, n2: n2(right_pre_norm_layer(x, a, f, n1, n2)),),
        ),
        Mistake(
            "the second residual starts from the layer's input.",
            "after the first step go on with y: y + feed_forward(norm_2(y)).",
            (_in_turn(_pre, lambda y, f, n, x: x + f(n(y))),),
        ),
        *_wrong_parts(right_pre_norm_layer),
    ),
)  # fmt: skip


def pre_norm_layer(function: object) -> None:
    """Check ``(x (S, H), attention, feed_forward, norm_1, norm_2) -> (S, H)``, norms first."""
    print(exercise.judge(PRE_NORM_LAYER, function))


# -- counting


def _read_whole(answer: Any, *_: Any) -> int | float:
    number = exercise.read_number(answer)
    return int(number) if number.is_integer() else number


def right_layer_flops(length: int, hidden: int) -> int:
    """Count multiplications and additions of a layer's matrix products; inner is 4·hidden."""
    maps = 2 * length * hidden * hidden * 4  # query, key, value, output
    scores_and_mixing = 2 * (2 * length * length * hidden)
    feed_forward = 2 * (2 * length * hidden * 4 * hidden)
    return maps + scores_and_mixing + feed_forward


def _flop_cases() -> list[Inputs]:
    return [(1, 1), (2, 1), (1, 2), (3, 2), (2, 4), (64, 256), (128, 768), (512, 768), (512, 1024)]


def _flops_but(missing: Callable[[int, int], int]) -> Callable[[int, int], int]:
    return lambda S, H: right_layer_flops(S, H) - missing(S, H)


LAYER_FLOPS = Exercise(
    name="layer_flops",
    right=right_layer_flops,
    cases=_flop_cases,
    read=_read_whole,
    tried="nine sizes, BERT-base and BERT-large among them.",
    start="(S × H) @ (H × H) makes S·H numbers; each takes H multiplications and H additions.",
    source=(right_layer_flops,),
    mistakes=(
        Mistake(
            "a multiplication and an addition count as one.",
            "each step of a dot product multiplies *and* adds: 2 operations.",
            (lambda S, H: right_layer_flops(S, H) // 2,),
        ),
        Mistake(
            "scores and mixing are both forgotten.",
            "QKᵀ compares every pair of words, and the weights mix the values: 2·S²·H each. They "
            "are what grows with the square of the length.",
            (_flops_but(lambda S, H: 4 * S * S * H),),
        ),
        Mistake(
            "one of scores and mixing is forgotten.",
            "QKᵀ takes 2·S²·H, and weights times values takes 2·S²·H again.",
            (_flops_but(lambda S, H: 2 * S * S * H),),
        ),
        Mistake(
            "attention has three maps in your count, not four.",
            "query, key, value, and the output map that joins the heads: 4 · 2·S·H².",
            (_flops_but(lambda S, H: 2 * S * H * H),),
        ),
        Mistake(
            "one map of the feed-forward is missing.",
            "there and back: H → 4H and 4H → H, 2·S·H·4H each.",
            (_flops_but(lambda S, H: 8 * S * H * H),),
        ),
        Mistake(
            "the feed-forward is forgotten.",
            "two maps of 2·S·H·4H: two thirds of a short sequence's work.",
            (_flops_but(lambda S, H: 16 * S * H * H),),
        ),
        Mistake(
            "the feed-forward is as narrow as the rest.",
            "its inner size is 4·hidden, so each of its maps takes 2·S·H·4H.",
            (_flops_but(lambda S, H: 12 * S * H * H),),
        ),
        Mistake(
            "this is for one word, not for all of them.",
            "every word goes through every map: multiply by the length S.",
            (lambda S, H: right_layer_flops(S, H) // S,),
        ),
    ),
)


def layer_flops(function: object) -> None:
    """Check ``(length, hidden) -> FLOPs of one layer's matrix products``; inner is 4·hidden."""
    print(exercise.judge(LAYER_FLOPS, function))


# -- vectors of a word


def right_cosine(a: Tensor, b: Tensor) -> Tensor:
    """Return the cosine of the angle between two vectors (H,): 1 same direction, 0 none shared."""
    cosine: Tensor = a @ b / (a.norm() * b.norm())
    return cosine


def _cosine_cases() -> list[Inputs]:
    generator = torch.Generator().manual_seed(4)
    cases: list[Inputs] = [(torch.tensor([3.0, 4.0]), torch.tensor([4.0, 3.0]))]
    for size in (2, 3, 16):
        for _ in range(20):
            a, b = torch.randn(2, size, generator=generator).mul(20).round() / 10
            a[0], b[0] = a[0] + 5, b[0] + 3
            cases.append((a, b))
    return cases


def _read_number(answer: Any, *_: Any) -> float:
    return exercise.read_number(answer)


COSINE = Exercise(
    name="cosine",
    right=right_cosine,
    cases=_cosine_cases,
    read=_read_number,
    tried="61 pairs of vectors, short and long.",
    start="the dot product a @ b. What makes it larger, though the direction is the same?",
    source=(right_cosine,),
    mistakes=(
        Mistake(
            "this is the dot product: long vectors win.",
            "divide by both lengths: a.norm() * b.norm().",
            (lambda a, b: a @ b,),
        ),
        Mistake(
            "it is divided by one length only.",
            "divide by a.norm() and by b.norm().",
            (lambda a, b: a @ b / a.norm(), lambda a, b: a @ b / b.norm()),
        ),
        Mistake(
            "the lengths are squared.",
            "a @ a is the length squared: take its root, a.norm().",
            (lambda a, b: a @ b / ((a @ a) * (b @ b)),),
        ),
        Mistake(
            "it is divided by the sum of the lengths.",
            "twice as long a vector must not change the result: divide by their product.",
            (lambda a, b: a @ b / (a.norm() + b.norm()),),
        ),
        Mistake(
            "it is divided by the number of dimensions.",
            "that is a mean product. Divide by a.norm() * b.norm().",
            (lambda a, b: (a * b).mean(), lambda a, b: a @ b / len(a) ** 0.5),
        ),
        Mistake(
            "this is 1 minus the cosine, a distance.",
            "a similarity is 1 for the same direction.",
            (lambda a, b: 1 - right_cosine(a, b),),
        ),
        Mistake(
            "this is the distance between the two points.",
            "(a - b).norm() depends on the lengths. Take a @ b / (a.norm() * b.norm()).",
            (lambda a, b: (a - b).norm(),),
        ),
        Mistake(
            "this is the angle, not its cosine.",
            "leave out arccos.",
            (lambda a, b: right_cosine(a, b).acos(),
             lambda a, b: right_cosine(a, b).acos().rad2deg()),
        ),
        Mistake(
            "this is the correlation: the means are taken off first.",
            "cosine works with the vectors as they are.",
            (lambda a, b: right_cosine(a - a.mean(), b - b.mean()),),
        ),
    ),
)  # fmt: skip


def cosine(function: object) -> None:
    """Check ``(a (H,), b (H,)) -> scalar``, the cosine of the angle between them."""
    print(exercise.judge(COSINE, function))


def right_word_vector(states: Tensor, tokens: Sequence[str], word: str, layer: int) -> Tensor:
    """Pick the vector (H,) of a word's first appearance behind a layer; layer 0 is the input."""
    return states[layer, tokens.index(word)]


def _word_cases() -> list[Inputs]:
    generator = torch.Generator().manual_seed(5)
    sentences = (
        ("go", "go"),
        ("the bank", "bank"),
        ("by the bank of the river", "bank"),
        ("light is light", "light"),
        ("a spring in the spring of a hard year", "spring"),
    )
    cases: list[Inputs] = []
    for text, word in sentences:
        tokens = ["[CLS]", *text.split(), "[SEP]"]
        for layers, size in ((2, 2), (4, 3)):
            for layer in range(layers + 1):
                states = torch.randn(layers + 1, len(tokens), size, generator=generator)
                cases.append((states.mul(10).round() / 10, tokens, word, layer))
    return cases


def _read_vector(answer: Any, states: Tensor, *_: Any) -> Any:
    return exercise.read_tensor(answer, "the result", states.shape[-1:]).double().tolist()


def _at(token: Callable[[Sequence[str], str], int], step: int = 0) -> Callable[..., Tensor]:
    """Make a pick that looks for the token in its own way, and is some layers off."""
    return lambda states, tokens, word, layer: states[layer + step, token(tokens, word)]


def _index(tokens: Sequence[str], word: str) -> int:
    return tokens.index(word)


WORD_VECTOR = Exercise(
    name="word_vector",
    right=right_word_vector,
    cases=_word_cases,
    read=_read_vector,
    tried="40 words in five sentences, behind every layer.",
    start="tokens.index(word): the number of the word's first token, [CLS] being 0.",
    source=(BertOutput, right_word_vector),
    mistakes=(
        Mistake(
            "the token before the word is taken: [CLS] was not counted.",
            "states has a row for [CLS], too, so the first word is token 1. Look the word up in "
            "tokens, which begins with [CLS].",
            (_at(lambda tokens, word: tokens.index(word) - 1),),
        ),
        Mistake(
            "the token after the word is taken.",
            "tokens begins with [CLS] already: no + 1.",
            (_at(lambda tokens, word: tokens.index(word) + 1),),
        ),
        Mistake(
            "the vector of [CLS] is taken.",
            "[CLS] is token 0. The word's number is tokens.index(word).",
            (_at(lambda tokens, word: 0),),
        ),
        Mistake(
            "the last appearance of the word is taken, not the first.",
            "a dictionary or a loop that goes on after its find. tokens.index(word) stops at the "
            "first.",
            (_at(lambda tokens, word: len(tokens) - 1 - tokens[::-1].index(word)),),
        ),
        Mistake(
            "the layer is one too low.",
            "states[0] is the input of layer 1, states[1] its output: states[layer].",
            (_at(_index, -1), lambda states, tokens, word, layer: (
                states[max(layer - 1, 0), tokens.index(word)])),
        ),
        Mistake(
            "the layer is one too high.",
            "states has L + 1 entries: states[0] is the input, states[L] the last layer's output.",
            (_at(_index, 1),),
        ),
        Mistake(
            "the last layer is taken, whatever layer was asked for.",
            "states[-1] is the last one. Take states[layer].",
            (lambda states, tokens, word, layer: states[-1, tokens.index(word)],),
        ),
        Mistake(
            "the layers are counted from the top.",
            "states[0] is the input, at the bottom.",
            (lambda states, tokens, word, layer: states[-1 - layer, tokens.index(word)],),
        ),
        Mistake(
            "all tokens of the sentence are averaged.",
            "that is a vector of the sentence. Pick one row: tokens.index(word).",
            (lambda states, tokens, word, layer: states[layer].mean(0),
             lambda states, tokens, word, layer: states[layer, 1:-1].mean(0)),
        ),
        Mistake(
            "the layers are averaged.",
            "pick the one that was asked for: states[layer].",
            (lambda states, tokens, word, layer: states[:, tokens.index(word)].mean(0),),
        ),
    ),
)  # fmt: skip


def word_vector(function: object) -> None:
    """Check ``(states (L + 1, S, H), tokens, word, layer) -> (H,)``, the word's own vector."""
    print(exercise.judge(WORD_VECTOR, function))


# -- a test for layers


class _Layer(nn.Module):
    """A post-norm layer on (S, H) with all its parts; the exhibits each break one thing."""

    def __init__(self, size: int = 8) -> None:
        super().__init__()
        self.query = nn.Linear(size, size)
        self.key = nn.Linear(size, size)
        self.value = nn.Linear(size, size)
        self.output = nn.Linear(size, size)
        self.norm_1 = nn.LayerNorm(size)
        self.inner = nn.Linear(size, 4 * size)
        self.outer = nn.Linear(4 * size, size)
        self.norm_2 = nn.LayerNorm(size)

    def mix(self, x: Tensor) -> Tensor:
        """Attend with one head."""
        weights = (self.query(x) @ self.key(x).T / x.shape[-1] ** 0.5).softmax(-1)
        return self.output(weights @ self.value(x))  # type: ignore[no-any-return]

    def work(self, x: Tensor) -> Tensor:
        """Feed forward."""
        return self.outer(F.gelu(self.inner(x)))  # type: ignore[no-any-return]

    def forward(self, x: Tensor) -> Tensor:
        """(S, H) -> (S, H)."""
        y = self.norm_1(x + self.mix(x))
        return self.norm_2(y + self.work(y))  # type: ignore[no-any-return]


class _Packaged(nn.Module):
    """The package's own layer, for one sentence."""

    def __init__(self, size: int = 8) -> None:
        super().__init__()
        self.layer = EncoderLayer(BertConfig(1, size, 1, 2, 4 * size, dropout=0.0))

    def forward(self, x: Tensor) -> Tensor:
        """(S, H) -> (S, H)."""
        return self.layer(x[None], None)[0][0]  # type: ignore[no-any-return]


class NoFeedForwardResidual(_Layer):
    """Seen in graykode/nlp-tutorial: the second sum is missing."""

    def forward(self, x: Tensor) -> Tensor:
        """(S, H) -> (S, H)."""
        y = self.norm_1(x + self.mix(x))
        return self.norm_2(self.work(y))  # type: ignore[no-any-return]


class NoAttentionResidual(_Layer):
    """The first sum is missing."""

    def forward(self, x: Tensor) -> Tensor:
        """(S, H) -> (S, H)."""
        y = self.norm_1(self.mix(x))
        return self.norm_2(y + self.work(y))  # type: ignore[no-any-return]


class NormsFirst(_Layer):
    """Seen in the annotated Transformer: the text says norm(x + f(x)), the code does this."""

    def forward(self, x: Tensor) -> Tensor:
        """(S, H) -> (S, H)."""
        x = x + self.mix(self.norm_1(x))
        return x + self.work(self.norm_2(x))


class CreatedInForward(nn.Module):
    """Seen in graykode/nlp-tutorial, issue 29: new weights at every call, trained at none."""

    def __init__(self, size: int = 8) -> None:
        super().__init__()
        self.query = nn.Linear(size, size)
        self.key = nn.Linear(size, size)
        self.value = nn.Linear(size, size)
        self.inner = nn.Linear(size, 4 * size)
        self.outer = nn.Linear(4 * size, size)

    def forward(self, x: Tensor) -> Tensor:
        """(S, H) -> (S, H)."""
        size = x.shape[-1]
        weights = (self.query(x) @ self.key(x).T / size**0.5).softmax(-1)
        mixed = nn.Linear(size, size)(weights @ self.value(x))  # the output map: a new one
        y = nn.LayerNorm(size)(x + mixed)
        return nn.LayerNorm(size)(y + self.outer(F.gelu(self.inner(y))))  # type: ignore[no-any-return]


RIGHT_LAYERS = (
    Named("<makes a right layer>", _Layer),
    Named("<makes the package's EncoderLayer>", _Packaged),
)
BROKEN_LAYERS = (
    Named("<makes a layer without the residual around feed-forward>", NoFeedForwardResidual),
    Named("<makes a layer without the residual around attention>", NoAttentionResidual),
    Named("<makes a pre-norm layer>", NormsFirst),
    Named("<makes a layer that creates sub-layers in forward>", CreatedInForward),
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


def _layer_test_cases() -> list[Inputs]:
    return [(make,) for make in (*RIGHT_LAYERS, *BROKEN_LAYERS)]


def _read_bool(answer: Any, *_: Any) -> bool:
    return exercise.read_bool(answer)


def _same_twice(make_layer: Callable[[], nn.Module]) -> bool:
    layer, x = make_layer(), torch.randn(4, 8)
    return torch.equal(layer(x), layer(x))


def _depends_on_x(make_layer: Callable[[], nn.Module]) -> bool:
    """Zero all maps, and look only whether anything of x is left."""
    layer = make_layer()
    with torch.no_grad():
        for part in layer.modules():
            if isinstance(part, nn.Linear):
                part.weight.zero_()
                part.bias.zero_()
        return not torch.allclose(layer(torch.randn(4, 8)), layer(torch.randn(4, 8)))


def _normalized(make_layer: Callable[[], nn.Module]) -> bool:
    y = make_layer()(torch.randn(4, 8))
    return torch.allclose(y.mean(-1), torch.zeros(4), atol=1e-3)


LAYER_TEST = Exercise(
    name="layer_test",
    right=right_layer_test,
    cases=_layer_test_cases,
    read=_read_bool,
    tried="two right layers accepted, four broken ones refused.",
    start="layer = make_layer(); set the weight and bias of every nn.Linear in layer.modules() to "
    "zero. What must layer(x) be now?",
    source=(right_layer_test,),
    mistakes=(
        Mistake(
            "your test accepts every layer, broken ones included.",
            "shapes and finite numbers prove nothing: all four exhibits pass. Set the maps to zero "
            "and compare with F.layer_norm(x, (8,)).",
            (lambda make_layer: True,),
        ),
        Mistake(
            "your test refuses every layer, right ones included.",
            "compare with torch.allclose and a tolerance such as atol=1e-3, not with ==; and let "
            "the norms keep their scale of 1: zero the nn.Linear parts only.",
            (lambda make_layer: False,),
        ),
        Mistake(
            "your test catches sub-layers created in forward, and nothing else.",
            "the same input giving the same output is one property. Now set all maps to zero: a "
            "right layer is then the layer norm of its input.",
            (_same_twice,),
        ),
        Mistake(
            "your test accepts some broken layers: it asks only whether x still matters.",
            "pre-norm and sub-layers created in forward let x through as well. Compare with what "
            "must come out: F.layer_norm(x, (8,)).",
            (_depends_on_x,),
        ),
        Mistake(
            "your test accepts some broken layers: it asks only whether the output is normalized.",
            "only pre-norm fails that. Set all maps to zero, and compare with F.layer_norm(x, "
            "(8,)).",
            (_normalized,),
        ),
    ),
)


def layer_test(function: object) -> None:
    """Check a learner's test ``(make_layer) -> bool``: is it a right post-norm layer?

    ``make_layer()`` gives a fresh module on (S, 8). Two right layers and four broken ones, out of
    the bug museum, are shown to the test.
    """
    print(exercise.judge(LAYER_TEST, function))


SOLUTIONS: tuple[tuple[str, tuple[Any, ...]], ...] = tuple(
    (each.name, each.source)
    for each in (
        GELU,
        FEED_FORWARD,
        POST_NORM_LAYER,
        PRE_NORM_LAYER,
        LAYER_FLOPS,
        COSINE,
        WORD_VECTOR,
        LAYER_TEST,
    )
)
