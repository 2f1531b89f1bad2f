"""The checks of notebook 03: scores, softmax, attention, heads, masks, and a test for leaks."""

from collections.abc import Callable
from itertools import cycle
from math import exp, sqrt
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from bertedu.check import exercise
from bertedu.check.exercise import Exercise, Inputs, Mistake, UnreadableError
from bertedu.check.museum import Exhibit, TestExercise, judge_test
from bertedu.model.attention import SelfAttention, attention_mask, scaled_dot_product_attention
from bertedu.model.config import DIRECTIONS


def _grid(generator: torch.Generator, *shape: int) -> Tensor:
    """Multiples of one half from -2 to 2, so that a case can be worked out by hand."""
    return torch.randint(-4, 5, shape, generator=generator) / 2


# -- scores


def right_scores(query: Tensor, key: Tensor) -> Tensor:
    """Return the dot product of every query (n, d) with every key (m, d): (n, m)."""
    return query @ key.T


def _scores_cases() -> list[Inputs]:
    generator = torch.Generator().manual_seed(11)
    sizes = ((1, 1, 2), (1, 2, 2), (2, 2, 2), (2, 3, 2), (3, 3, 4), (3, 4, 5))
    return [
        (_grid(generator, n, d), _grid(generator, m, d)) for n, m, d in sizes for _ in range(20)
    ]


def _read_scores(answer: Any, query: Tensor, key: Tensor) -> list[Any]:
    scores = exercise.read_tensor(answer, "your table of scores", (len(query), len(key)))
    return scores.float().tolist()


SCORES = Exercise(
    name="scores",
    right=right_scores,
    cases=_scores_cases,
    read=_read_scores,
    tried="120 random cases, with as many keys as queries, and with more.",
    start="two loops: scores[i][j] = sum of query[i][k] * key[j][k]. Or one matrix product.",
    source=(scaled_dot_product_attention, right_scores),
    mistakes=(
        Mistake(
            "the table is transposed: a row belongs to a key here, not to a query.",
            "key @ query.T. Row i must hold the scores of query i: query @ key.T.",
            (lambda query, key: key @ query.T,),
        ),
        Mistake(
            "key is not transposed, so its columns are taken for keys.",
            "query @ key multiplies rows of query with columns of key. The keys are its rows: "
            "query @ key.T.",
            (lambda query, key: query @ key,),
        ),
        Mistake(
            "the numbers of different keys are mixed up.",
            "view and reshape read the numbers in another order; they do not turn the table. Use "
            "key.T.",
            (lambda query, key: query @ key.reshape(key.shape[1], key.shape[0]),),
        ),
        Mistake(
            "the scores are divided by the square root of d already.",
            "right for attention, but here the plain dot products are wanted.",
            (lambda query, key: query @ key.T / key.shape[-1] ** 0.5,),
        ),
        Mistake(
            "these are cosines: the lengths of the vectors are divided out.",
            "a dot product keeps them. Leave out the norms.",
            (
                lambda query, key: F.normalize(query, dim=-1) @ F.normalize(key, dim=-1).T,
                lambda query, key: F.cosine_similarity(query[:, None], key[None], dim=-1),
            ),
        ),
        Mistake(
            "these are distances, not dot products.",
            "alike vectors have a *small* distance and a *large* dot product: query @ key.T.",
            (
                lambda query, key: (query[:, None] - key[None]).norm(dim=-1),
                lambda query, key: (query[:, None] - key[None]).square().sum(-1),
            ),
        ),
        Mistake(
            "the products are not added up.",
            "query * key multiplies number by number and stops there. A dot product sums over the "
            "d numbers; the matrix product @ does both.",
            (lambda query, key: query * key,),
        ),
        Mistake(
            "query i meets key i only: that is one score a word.",
            "every query asks every key, so there are n times m scores: query @ key.T.",
            (lambda query, key: (query * key).sum(-1),),
        ),
        Mistake(
            "the queries ask the queries; key is not used.",
            "query @ query.T. The second factor is key.T.",
            (lambda query, key: query @ query.T,),
        ),
        Mistake(
            "the keys ask the keys; query is not used.",
            "key @ key.T. The first factor is query.",
            (lambda query, key: key @ key.T,),
        ),
        Mistake(
            "these are weights already: softmax comes later.",
            "leave out softmax; scores may be negative and need not sum to 1.",
            (lambda query, key: (query @ key.T).softmax(-1),),
        ),
    ),
)


def scores(function: object) -> None:
    """Check ``(query (n, d), key (m, d)) -> (n, m)``, all dot products, not scaled."""
    print(exercise.judge(SCORES, function))


# -- softmax


def right_softmax(scores: Tensor) -> Tensor:
    """Turn each row of scores (n, m) into positive weights that sum to 1."""
    weights = (scores - scores.amax(dim=-1, keepdim=True)).exp()
    return weights / weights.sum(dim=-1, keepdim=True)


def _softmax_cases() -> list[Inputs]:
    """Small numbers first; then rows that are higher by 1000, which no exp survives."""
    generator = torch.Generator().manual_seed(12)
    cases: list[Inputs] = []
    for n, m in ((1, 2), (2, 2), (2, 3), (3, 3), (4, 6)):
        cases += [(_grid(generator, n, m),) for _ in range(20)]
    for n, m in ((1, 2), (2, 2), (3, 4)):
        for _ in range(10):
            high = torch.randint(0, 2, (n, 1), generator=generator)
            high[-1] = 1
            cases.append((_grid(generator, n, m) + 1000 * high,))
    return cases


def _read_weights(answer: Any, scores: Tensor) -> list[Any]:
    weights = exercise.read_tensor(answer, "your table of weights", scores.shape)
    return weights.float().tolist()


def _shared(weights: Tensor, dim: int = -1) -> Tensor:
    return weights / weights.sum(dim, keepdim=True)


def _narrow_sum(weights: Tensor) -> Tensor:
    return weights / weights.sum(-1)


def _softmax_in_python(scores: Tensor, highest: float = 0.0) -> list[list[float]]:
    """As right as Python's floats allow: math.exp and / raise where tensors give NaN."""
    exps = [[exp(x - highest) for x in row] for row in scores.tolist()]
    return [[e / sum(row) for e in row] for row in exps]


SOFTMAX = Exercise(
    name="softmax",
    right=right_softmax,
    cases=_softmax_cases,
    read=_read_weights,
    tried="130 random tables, 30 of them with scores near 1000.",
    start="scores.exp(), then divide each row by its sum. Then try a score of 1000.",
    in_place="scores -= … writes into the caller's table. scores = scores - … makes a new one.",
    source=(right_softmax,),
    mistakes=(
        Mistake(
            "right for small scores, but a score of 1000 breaks it.",
            "exp(1000) is too large for a computer. Subtract the highest score of each row first: "
            "above and below the line the same factor appears, and cancels.",
            (
                lambda scores: _shared(scores.exp()),
                _softmax_in_python,
            ),
        ),
        Mistake(
            "the highest score of the whole table is subtracted, so low rows vanish.",
            "a row 1000 below the highest becomes exp(-1000), which is 0, and then 0 / 0. Each row "
            "needs its own: scores.amax(dim=-1, keepdim=True).",
            (
                lambda scores: _shared((scores - scores.max()).exp()),
                lambda scores: _softmax_in_python(scores, float(scores.max())),
            ),
        ),
        Mistake(
            "the sums of the rows have lost their place: keepdim=True is missing.",
            "without it .sum(dim=-1) has shape (n,), which torch lays along a row: every *column* "
            "is divided by another row's sum, and where n is not m nothing fits. "
            ".sum(dim=-1, keepdim=True) has shape (n, 1), one number a row.",
            (
                lambda scores: scores.exp() / scores.exp().sum(-1),
                lambda scores: _narrow_sum((scores - scores.amax(-1, keepdim=True)).exp()),
                lambda scores: _narrow_sum((scores - scores.max()).exp()),
            ),
        ),
        Mistake(
            "the highest scores of the rows have lost their place: keepdim=True is missing.",
            "without it .amax(dim=-1) has shape (n,), which torch lays along a row: every *column* "
            "loses another row's highest score, and where n is not m nothing fits. "
            ".amax(dim=-1, keepdim=True) has shape (n, 1), one number a row.",
            (lambda scores: _shared((scores - scores.amax(-1)).exp()),),
        ),
        Mistake(
            "the highest scores and the sums of the rows have lost their place: keepdim=True is "
            "missing twice.",
            "both need shape (n, 1), one number a row: .amax(dim=-1, keepdim=True) and "
            ".sum(dim=-1, keepdim=True).",
            (lambda scores: _narrow_sum((scores - scores.amax(-1)).exp()),),
        ),
        Mistake(
            "columns sum to 1, rows do not.",
            "the sum runs over the queries (dim=0). Each query shares out one unit over the keys: "
            "dim=-1.",
            (
                lambda scores: scores.softmax(0),
                lambda scores: _shared(scores.exp(), 0),
                lambda scores: _shared((scores - scores.max()).exp(), 0),
                lambda scores: _shared((scores - scores.amax(-1, keepdim=True)).exp(), 0),
            ),
        ),
        Mistake(
            "the whole table sums to 1, not each row.",
            ".sum() without dim adds up everything. Each row by itself: "
            ".sum(dim=-1, keepdim=True).",
            (
                lambda scores: scores.flatten().softmax(0).view_as(scores),
                lambda scores: scores.exp() / scores.exp().sum(),
                lambda scores: (
                    (scores - scores.amax(-1, keepdim=True)).exp()
                    / (scores - scores.amax(-1, keepdim=True)).exp().sum()
                ),
            ),
        ),
        Mistake(
            "the exponentials are not divided by their sum.",
            "weights share out one unit: divide each row by its sum, dim=-1, keepdim=True.",
            (
                lambda scores: scores.exp(),
                lambda scores: (scores - scores.amax(-1, keepdim=True)).exp(),
                lambda scores: (scores - scores.max()).exp(),
                lambda scores: scores.exp() / scores.exp().amax(-1, keepdim=True),
            ),
        ),
        Mistake(
            "the scores are divided by their sum, without exp.",
            "scores can be negative, and then so are your weights. First exp, then divide.",
            (lambda scores: _shared(scores),),
        ),
        Mistake(
            "exp is above the line only: the sum below it is that of the scores.",
            "first weights = exp(scores), then weights / weights.sum(…), the same on both sides.",
            (
                lambda scores: scores.exp() / scores.sum(-1, keepdim=True),
                lambda scores: (
                    (scores - scores.amax(-1, keepdim=True)).exp() / scores.sum(-1, keepdim=True)
                ),
            ),
        ),
        Mistake(
            "the best key gets all, the others nothing.",
            "argmax is hard, softmax is soft: exp(scores) divided by its sum.",
            (lambda scores: F.one_hot(scores.argmax(-1), scores.shape[-1]),),
        ),
        Mistake(
            "sigmoid judges each key by itself, so the rows do not sum to 1.",
            "the keys of a row compete: exp(scores) divided by its sum.",
            (lambda scores: scores.sigmoid(),),
        ),
        Mistake(
            "these are the logarithms of the weights.",
            "log_softmax where softmax is wanted, or .exp() is missing.",
            (lambda scores: scores.log_softmax(-1),),
        ),
        Mistake(
            "the sign is turned: the lowest score gets the most.",
            "the highest score minus the score, where the score minus the highest is wanted.",
            (
                lambda scores: (-scores).softmax(-1),
                lambda scores: _shared((-scores).exp()),
            ),
        ),
        Mistake(
            "the base is 2, not e.",
            "2 ** scores makes smaller differences. Use scores.exp().",
            (
                lambda scores: _shared(scores.exp2()),
                lambda scores: _shared((scores - scores.amax(-1, keepdim=True)).exp2()),
            ),
        ),
    ),
)


def softmax(function: object) -> None:
    """Check ``(scores (n, m)) -> weights (n, m)``: rows sum to 1, also for scores of 1000."""
    said = exercise.judge(SOFTMAX, function)
    if said.startswith("✓") and callable(function) and _calls_softmax(function):
        said = exercise.report(
            "✗ softmax: right, but PyTorch's softmax did the work.",
            likely="the exercise is to do without it. Begin with scores.exp() and divide each row "
            "by its sum.",
        )
    print(said)


class _Calls(TorchFunctionMode):
    """Takes down the names of the functions of PyTorch that are called."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        self.names.add(getattr(func, "__name__", ""))
        return func(*args, **(kwargs or {}))


def _calls_softmax(function: Callable[..., Any]) -> bool:
    with _Calls() as calls:
        exercise.call_all(SOFTMAX, function, SOFTMAX.cases())
    return any("softm" in name for name in calls.names)  # log_softmax and softmin, too


# -- attention

Two = tuple[Tensor, Tensor]


def right_attention(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Two:
    """Return softmax(Q Kᵀ / √d) V (S, d) and the weights (S, S); query may see key where true."""
    scores = query @ key.T / sqrt(query.shape[-1])
    weights = scores.masked_fill(~mask, -torch.inf).softmax(dim=-1)
    return weights @ value, weights


def _attention_cases() -> list[Inputs]:
    """Every query sees at least one key; padding stands where it leaves one to each."""
    generator = torch.Generator().manual_seed(13)
    kinds = cycle([(direction, padded) for padded in (False, True) for direction in DIRECTIONS])
    cases: list[Inputs] = []
    for length, size in ((2, 1), (2, 2), (3, 2), (3, 4), (5, 9)):
        for _ in range(40):
            direction, padded = next(kinds)
            real = torch.ones(1, length, dtype=torch.bool)
            if padded:
                real[0, 0 if direction == "right-to-left" else -1] = False
            allowed = attention_mask(real, direction)
            mask = torch.ones(length, length, dtype=torch.bool)
            if allowed is not None:
                mask = mask & allowed[0, 0]
            cases.append((*(_grid(generator, length, size) for _ in range(3)), mask))
    return cases


def _read_attention(
    answer: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor
) -> tuple[list[Any], list[Any]]:
    mixed, weights = exercise.read_pair(answer, "mixed, weights")
    return (
        exercise.read_tensor(mixed, "mixed", value.shape).float().tolist(),
        exercise.read_tensor(weights, "weights", mask.shape).float().tolist(),
    )


def _attention_difference(inputs: Inputs, mine: Any, right: Any) -> str:
    """Show the part that is wrong: the weights first, since the mixture follows from them."""
    part, name = (0, "mixed") if exercise.alike(mine[1], right[1]) else (1, "weights")
    told = [[[float(x) for x in row] for row in value[part]] for value in (mine, right)]
    return f"Your {name}: {exercise.plain(told[0])}; right is {exercise.plain(told[1])}."


LOWEST = torch.finfo(torch.float32).min
FILLS = (-torch.inf, LOWEST)


def _scaled(query: Tensor, key: Tensor) -> Tensor:
    return query @ key.T / sqrt(query.shape[-1])


def _with_scores(score: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Two]:
    """Make an attention that scores in its own way and then does everything right."""

    def wrong(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Two:
        weights = score(query, key).masked_fill(~mask, -torch.inf).softmax(-1)
        return weights @ value, weights

    return wrong


def _with_weights(share: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Two]:
    """Make an attention that turns right scores and a mask into weights in its own way."""

    def wrong(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Two:
        weights = share(_scaled(query, key), mask)
        return weights @ value, weights

    return wrong


def _with_mixture(mix: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]) -> Callable[..., Two]:
    """Make an attention that mixes (weights, query, key, value) in its own way."""

    def wrong(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Two:
        _, weights = right_attention(query, key, value, mask)
        return mix(weights, query, key, value), weights

    return wrong


def _filled_after(fill: float) -> Callable[..., Two]:
    return _with_weights(lambda scores, mask: scores.softmax(-1).masked_fill(~mask, fill))


def _over_queries(fill: float) -> Callable[..., Two]:
    return _with_weights(lambda scores, mask: scores.masked_fill(~mask, fill).softmax(-2))


def _upside_down(fill: float) -> Callable[..., Two]:
    return _with_weights(lambda scores, mask: scores.masked_fill(mask, fill).softmax(-1))


def _mask_turned(fill: float) -> Callable[..., Two]:
    return _with_weights(lambda scores, mask: scores.masked_fill(~mask.T, fill).softmax(-1))


ATTENTION = Exercise(
    name="attention",
    right=right_attention,
    cases=_attention_cases,
    read=_read_attention,
    differ=_attention_difference,
    first_part=1,
    tried="200 random cases, with and without padding, in three directions.",
    start="scores = query @ key.T, divided by the square root of d; hide; softmax; mix. Five lines "
    "are enough.",
    in_place="a method that ends in _ writes into its tensor. masked_fill makes a new one, "
    "masked_fill_ does not.",
    source=(scaled_dot_product_attention, right_attention),
    mistakes=(
        Mistake(
            "rows of your weights do not sum to 1; columns do.",
            "softmax over the queries (dim=-2). Each *query* shares out one unit of attention over "
            "the keys: dim=-1.",
            tuple(map(_over_queries, FILLS)),
        ),
        Mistake(
            "the scores are not scaled.",
            "nothing is divided by the square root of d = query.shape[-1], so long vectors make "
            "softmax choose one key and ignore the rest.",
            (_with_scores(lambda query, key: query @ key.T),),
        ),
        Mistake(
            "the scores are divided by d, not by its square root.",
            "dot products of d numbers spread as the square root of d: d ** 0.5.",
            (_with_scores(lambda query, key: query @ key.T / key.shape[-1]),),
        ),
        Mistake(
            "the scores are multiplied by the square root of d.",
            "scaling is to make them smaller: / d ** 0.5, or * d ** -0.5.",
            (_with_scores(lambda query, key: query @ key.T * key.shape[-1] ** 0.5),),
        ),
        Mistake(
            "the scores are divided by the square root of the number of tokens.",
            "d is the length of one vector, query.shape[-1], not len(query).",
            (
                _with_scores(lambda query, key: query @ key.T / len(key) ** 0.5),
                _with_scores(lambda query, key: query @ key.T / len(key)),
            ),
        ),
        Mistake(
            "the scaling comes after softmax, so the rows do not sum to 1.",
            "divide the *scores* by the square root of d, then softmax.",
            (
                lambda query, key, value, mask: tuple(
                    part / key.shape[-1] ** 0.5
                    for part in _with_scores(lambda q, k: q @ k.T)(query, key, value, mask)
                ),
            ),
        ),
        Mistake(
            "the mask comes after softmax, so rows with something hidden do not sum to 1.",
            "the hidden keys have taken their share already, and through it they still act on the "
            "others. Hide before softmax: scores.masked_fill(~mask, -torch.inf).",
            (
                _with_weights(lambda scores, mask: scores.softmax(-1) * mask),
                *map(_filled_after, (*FILLS, -1e9)),
            ),
        ),
        Mistake(
            "the mask is upside down: what should be hidden is seen, and the rest is hidden.",
            "here True means *may see*. Fill where it is False: masked_fill(~mask, …).",
            tuple(map(_upside_down, FILLS)),
        ),
        Mistake(
            "the mask is not used: every query sees every key.",
            "scores.masked_fill(…) returns a new tensor. Did you keep it?",
            (_with_weights(lambda scores, mask: scores.softmax(-1)),),
        ),
        Mistake(
            "hidden keys get a score of 0, and exp(0) is 1: they still take part.",
            "scores * mask, or masked_fill with 0. Hidden must mean minus infinity.",
            (_with_weights(lambda scores, mask: (scores * mask).softmax(-1)),),
        ),
        Mistake(
            "the mask is added as zeros and ones: hidden keys lose one point, no more.",
            "what is added must be 0 where allowed and minus infinity where hidden.",
            (
                _with_weights(lambda scores, mask: (scores + mask.float()).softmax(-1)),
                _with_weights(lambda scores, mask: (scores - mask.float()).softmax(-1)),
            ),
        ),
        Mistake(
            "the mask is transposed: query and key have changed places in it.",
            "rows of the mask are queries, columns are keys, as in the scores. Leave out .T.",
            tuple(map(_mask_turned, FILLS)),
        ),
        Mistake(
            "the scores are transposed: the keys ask and the queries answer.",
            "key @ query.T. Row i belongs to query i: query @ key.T.",
            (_with_scores(lambda query, key: key @ query.T / key.shape[-1] ** 0.5),),
        ),
        Mistake(
            "values and keys are swapped.",
            "queries are compared with *keys*; what is mixed are the *values*.",
            (
                lambda query, key, value, mask: right_attention(query, value, key, mask),
                _with_mixture(lambda weights, query, key, value: weights @ key),
            ),
        ),
        Mistake(
            "the queries are mixed, not the values.",
            "weights @ value: a query asks, but the answer is made of values.",
            (_with_mixture(lambda weights, query, key, value: weights @ query),),
        ),
        Mistake(
            "the mixture is transposed.",
            "mixed has a row for each query and d columns, like value. Leave out the last .T.",
            (_with_mixture(lambda weights, query, key, value: (weights @ value).T),),
        ),
        Mistake(
            "the weights are transposed before they mix: weights.T @ value.",
            "row i of the weights belongs to query i, and row i of the result, too: "
            "weights @ value.",
            (_with_mixture(lambda weights, query, key, value: weights.T @ value),),
        ),
        Mistake(
            "what you return as weights are the scores.",
            "return what comes out of softmax: each row sums to 1.",
            (
                lambda query, key, value, mask: (
                    right_attention(query, key, value, mask)[0],
                    _scaled(query, key),
                ),
                lambda query, key, value, mask: (
                    right_attention(query, key, value, mask)[0],
                    _scaled(query, key).masked_fill(~mask, -torch.inf),
                ),
            ),
        ),
        Mistake(
            "the two results are in the wrong order.",
            "return mixed, weights.",
            (lambda query, key, value, mask: right_attention(query, key, value, mask)[::-1],),
        ),
    ),
)


def attention(function: object) -> None:
    """Check ``(query, key, value (S, d), mask (S, S)) -> (mixed (S, d), weights (S, S))``.

    ``mask`` is bool, true where a query (row) may see a key (column).
    """
    print(exercise.judge(ATTENTION, function))


# -- heads


def right_split_heads(x: Tensor, heads: int) -> Tensor:
    """Cut H numbers into ``heads`` runs of d: (B, S, H) -> (B, A, S, d)."""
    rows, length, size = x.shape
    return x.reshape(rows, length, heads, size // heads).transpose(1, 2)


def right_join_heads(x: Tensor) -> Tensor:
    """Put the heads side by side again: (B, A, S, d) -> (B, S, H)."""
    return x.transpose(1, 2).flatten(2)


# (B, A, S, d); where two are equal a wrong axis keeps the shape, and only the numbers tell
HEAD_SHAPES = (
    (1, 2, 1, 1),
    (1, 2, 2, 1),
    (1, 2, 2, 2),
    (1, 2, 3, 1),
    (1, 2, 3, 2),
    (1, 3, 2, 2),
    (2, 2, 2, 2),
    (2, 2, 4, 2),
    (2, 3, 3, 3),
    (2, 4, 8, 3),
)


def _numbered(*shape: int) -> Tensor:
    """0, 1, 2, …: the result shows where each number has gone."""
    return torch.arange(torch.Size(shape).numel()).float().view(shape)


def _read_split(answer: Any, x: Tensor, heads: int) -> list[Any]:
    rows, length, size = x.shape
    shape = (rows, heads, length, size // heads)
    return exercise.read_tensor(answer, "your result", shape).float().tolist()


def _read_join(answer: Any, x: Tensor) -> list[Any]:
    rows, heads, length, size = x.shape
    shape = (rows, length, heads * size)
    return exercise.read_tensor(answer, "your result", shape).float().tolist()


SPLIT_HEADS = Exercise(
    name="split_heads",
    right=right_split_heads,
    cases=lambda: [(_numbered(b, s, a * d), a) for b, a, s, d in HEAD_SHAPES],
    read=_read_split,
    tried="10 shapes, some with as many heads as tokens.",
    start="x.unflatten(-1, (heads, -1)), which is (B, S, A, d). Which two axes must change places?",
    source=(SelfAttention, right_split_heads),
    mistakes=(
        Mistake(
            "the shape is right, but heads hold pieces of different tokens.",
            "view and reshape only read the numbers in order; they cannot turn axes. First cut "
            "(B, S, A, d), then transpose(1, 2).",
            (lambda x, heads: x.reshape(x.shape[0], heads, x.shape[1], x.shape[2] // heads),),
        ),
        Mistake(
            "the heads stand on the third axis: this is (B, S, A, d).",
            "each head works by itself, so the heads stand before the tokens: transpose(1, 2).",
            (lambda x, heads: x.unflatten(-1, (heads, -1)),),
        ),
        Mistake(
            "a head takes every A-th number; it should take d numbers in a row.",
            "cut into (heads, d), in this order: unflatten(-1, (heads, -1)).",
            (
                lambda x, heads: x.unflatten(-1, (-1, heads)).permute(0, 3, 1, 2),
                lambda x, heads: torch.stack([x[..., a::heads] for a in range(heads)], dim=1),
            ),
        ),
        Mistake(
            "the number of heads and the size of a head have changed places.",
            "unflatten(-1, (heads, -1)): heads first; what is left over is d.",
            (lambda x, heads: x.unflatten(-1, (-1, heads)).transpose(1, 2),),
        ),
        Mistake(
            "the heads stand before the batch: this is (A, B, S, d).",
            "stack puts the new axis first. dim=1 puts it behind the batch.",
            (lambda x, heads: torch.stack(x.chunk(heads, dim=-1)),),
        ),
        Mistake(
            "tokens and numbers have changed places: this is (B, A, d, S).",
            "one transposition too many. From (B, S, A, d) it is transpose(1, 2), once.",
            (
                lambda x, heads: x.unflatten(-1, (heads, -1)).permute(0, 2, 3, 1),
                lambda x, heads: x.transpose(1, 2).unflatten(1, (heads, -1)),
            ),
        ),
        Mistake(
            "the tokens are shared out among the heads.",
            "every head sees every token, but only d of its H numbers. Cut the last axis.",
            (
                lambda x, heads: x.unflatten(1, (heads, -1)),
                lambda x, heads: torch.stack(x.chunk(heads, dim=1), dim=1),
            ),
        ),
        Mistake(
            "every head gets all H numbers.",
            "H numbers are cut into A runs of d = H / A.",
            (lambda x, heads: x[:, None].expand(-1, heads, -1, -1),),
        ),
    ),
)


def split_heads(function: object) -> None:
    """Check ``(x (B, S, H), heads) -> (B, A, S, d)``; head a holds numbers a·d to a·d + d - 1."""
    print(exercise.judge(SPLIT_HEADS, function))


JOIN_HEADS = Exercise(
    name="join_heads",
    right=right_join_heads,
    cases=lambda: [(_numbered(*shape),) for shape in HEAD_SHAPES],
    read=_read_join,
    tried="10 shapes, some with as many heads as tokens.",
    start="the way back: x.transpose(1, 2) is (B, S, A, d). Which two axes become one?",
    source=(SelfAttention, right_join_heads),
    mistakes=(
        Mistake(
            "the shape is right, but a row holds pieces of different tokens.",
            "reshape without transposing back. First transpose(1, 2), then flatten(2).",
            (lambda x: x.reshape(x.shape[0], x.shape[2], -1),),
        ),
        Mistake(
            "the heads are shuffled like cards: one number of each in turn.",
            "that is (B, S, d, A). Heads come before numbers: transpose(1, 2) is (B, S, A, d).",
            (lambda x: x.permute(0, 2, 3, 1).flatten(2),),
        ),
        Mistake(
            "the last two axes are not joined: this is (B, S, A, d).",
            "flatten(2) makes one axis of the last two.",
            (lambda x: x.transpose(1, 2),),
        ),
        Mistake(
            "the heads stand below each other, not side by side.",
            "a row a token, with the numbers of all heads: flatten the *last* two axes of "
            "(B, S, A, d).",
            (
                lambda x: x.flatten(1, 2),
                lambda x: x.transpose(1, 2).flatten(1, 2),
            ),
        ),
        Mistake(
            "the heads are added up, or averaged.",
            "a sum or a mean throws away what each of them found. Put them side by side.",
            (lambda x: x.sum(1), lambda x: x.mean(1)),
        ),
        Mistake(
            "the first two axes change places and the batch gets lost: this begins with S.",
            "leave the batch where it is: transpose(1, 2) turns heads and tokens, nothing else.",
            (
                lambda x: x.transpose(0, 2).flatten(2),
                lambda x: x.permute(2, 0, 1, 3).flatten(2),
            ),
        ),
    ),
)


def join_heads(function: object) -> None:
    """Check ``(x (B, A, S, d)) -> (B, S, H)``, which undoes `split_heads`."""
    print(exercise.judge(JOIN_HEADS, function))


# -- the causal mask


def right_causal_mask(length: int) -> Tensor:
    """Return bool (S, S), true where query (row) may see key (column): itself and before."""
    return torch.ones(length, length, dtype=torch.bool).tril()


def _read_mask(answer: Any, length: int) -> tuple[str, list[Any]]:
    """Return what kind of numbers the mask is made of, and the numbers."""
    mask = exercise.read_tensor(answer, "your mask", (length, length))
    if mask.is_complex():
        raise UnreadableError("your mask is complex; True and False are wanted.")
    kind = "floats" if mask.is_floating_point() else "whole numbers"
    return "bool" if mask.dtype == torch.bool else kind, mask.float().tolist()


def _as_written(kind: str, value: float) -> float:
    return bool(value) if kind == "bool" else value if kind == "floats" else int(value)


def _mask_difference(inputs: Inputs, mine: Any, right: Any) -> str:
    said = []
    for kind, rows in (mine, right):
        written = [[_as_written(kind, value) for value in row] for row in rows]
        said.append(exercise.plain(written))
    return "Yours gives {}; right is {}.".format(*said)


def _ones(length: int) -> Tensor:
    return torch.ones(length, length, dtype=torch.bool)


def _added(length: int, fill: float) -> Tensor:
    return torch.zeros(length, length).masked_fill(~right_causal_mask(length), fill)


CAUSAL_MASK = Exercise(
    name="causal_mask",
    right=right_causal_mask,
    cases=lambda: [(length,) for length in range(1, 9)],
    read=_read_mask,
    differ=_mask_difference,
    first_part=1,
    tried="every length from 1 to 8.",
    start="a square of ones, torch.ones(length, length, dtype=torch.bool), and then keep the part "
    "on and below the diagonal.",
    source=(attention_mask, right_causal_mask),
    mistakes=(
        Mistake(
            "the mask is transposed: each token sees itself and what comes *later*.",
            "triu where tril is wanted. Row = who asks, column = who is seen, and no column to the "
            "right of the diagonal may be True.",
            (lambda length: right_causal_mask(length).T,),
        ),
        Mistake(
            "the diagonal is hidden: no token sees itself, and the first sees nothing at all.",
            "tril(-1), or < where <= is wanted. A row without a single True has nothing to share "
            "out its attention over.",
            (lambda length: _ones(length).tril(-1),),
        ),
        Mistake(
            "True and False are swapped.",
            "True means *may see* here. (Some libraries mean *hidden*: read before you call.)",
            (lambda length: ~right_causal_mask(length),),
        ),
        Mistake(
            "one column too many: each token sees the next one.",
            "tril(1). A model that sees the next word need not predict it: tril().",
            (lambda length: _ones(length).tril(1),),
        ),
        Mistake(
            "everything is allowed: this mask hides nothing.",
            "keep the part on and below the diagonal only: tril().",
            (_ones,),
        ),
        Mistake(
            "each token sees itself only.",
            "that is the diagonal. Everything to the left of it may be seen, too: tril().",
            (lambda length: torch.eye(length, dtype=torch.bool),),
        ),
        Mistake(
            "this is a mask to add: 0 and a large negative number.",
            "an equally good habit, but not what is asked for: True where a token may see, dtype "
            "torch.bool.",
            tuple(
                (lambda length, fill=fill: _added(length, fill)) for fill in (*FILLS, -1e9, -1e4)
            ),
        ),
        Mistake(
            "the right pattern, but in floats: a mask of True and False is wanted.",
            "~ of a float fails, and adding 1.0 to a score is no hiding. dtype=torch.bool.",
            (lambda length: right_causal_mask(length).float(),),
        ),
        Mistake(
            "the right pattern, but in whole numbers: a mask of True and False is wanted.",
            "~1 is -2, not 0, and an index of ones picks row 1 again and again. dtype=torch.bool.",
            (lambda length: right_causal_mask(length).long(),),
        ),
    ),
)


def causal_mask(function: object) -> None:
    """Check ``(length) -> bool (S, S)``: true where row i may see column j, that is j <= i."""
    print(exercise.judge(CAUSAL_MASK, function))


# -- a test for attention

Layer = Callable[..., Two]  # (x (S, H), real (S,), direction, dropout=0.0) -> mixed, weights


def _mask(real: Tensor, direction: str) -> Tensor:
    """Return the right mask, (S, S) of bool."""
    square = torch.ones(len(real), len(real), dtype=torch.bool)
    side = {"left-to-right": square.tril(), "right-to-left": square.triu()}
    return side.get(direction, square) & real


def _under(mask: Callable[[Tensor, str], Tensor], kept: bool = False) -> Layer:
    """Make a layer of a mask; ``kept`` returns the weights as dropout has left them."""

    def layer(x: Tensor, real: Tensor, direction: str, dropout: float = 0.0) -> Two:
        weights = _scaled(x, x).masked_fill(~mask(real, direction), LOWEST).softmax(-1)
        dropped = F.dropout(weights, dropout)
        return dropped @ x, dropped if kept else weights

    return layer


def _sharing(share: Callable[[Tensor, Tensor], Tensor]) -> Layer:
    """Make a layer that turns (scores, mask) into weights in its own way."""

    def layer(x: Tensor, real: Tensor, direction: str, dropout: float = 0.0) -> Two:
        weights = share(_scaled(x, x), _mask(real, direction))
        return F.dropout(weights, dropout) @ x, weights

    return layer


def _right_by_package(x: Tensor, real: Tensor, direction: str, dropout: float = 0.0) -> Two:
    each = x[None, None]
    mixed, weights = scaled_dot_product_attention(
        each, each, each, _mask(real, direction), dropout=dropout
    )
    return mixed[0, 0], weights[0, 0]


def _right_by_sharing_again(scores: Tensor, mask: Tensor) -> Tensor:
    return _shared(scores.softmax(-1) * mask)


RIGHT_LAYERS: tuple[tuple[str, Layer], ...] = (
    ("as in the package", _right_by_package),
    (
        "with a mask that is added",
        _sharing(lambda scores, mask: (scores + torch.where(mask, 0.0, LOWEST)).softmax(-1)),
    ),
    (
        "with a mask after softmax, and the rest shared out anew",
        _sharing(_right_by_sharing_again),
    ),
)


def _left_for_both(real: Tensor, direction: str) -> Tensor:
    return _mask(real, "bidirectional" if direction == "bidirectional" else "left-to-right")


def _one_further(real: Tensor, direction: str) -> Tensor:
    square = torch.ones(len(real), len(real), dtype=torch.bool)
    side = {"left-to-right": square.tril(1), "right-to-left": square.triu(-1)}
    return side.get(direction, square) & real


LAYER_MUSEUM = (
    Exhibit(
        "VTongTV/bert-from-scratch",
        "builds the causal mask, then passes the plain mask on",
        _under(lambda real, direction: _mask(real, "bidirectional")),
        'change the last word: under "left-to-right" no earlier row of mixed may move.',
    ),
    Exhibit(
        "pytorchic-bert",
        "returns the weights as dropout has left them",
        _under(_mask, kept=True),
        "call it with dropout=0.5: every row of weights must still sum to 1.",
    ),
    Exhibit(
        "many a first version",
        "attends to padding",
        _under(lambda real, direction: _mask(torch.ones_like(real), direction)),
        "change a word whose real is False: no other row of mixed may move.",
    ),
    Exhibit(
        "a mask put in too late",
        "multiplies by the mask after softmax",
        _sharing(lambda scores, mask: scores.softmax(-1) * mask),
        "rows of weights must sum to 1 under a one-sided direction, too.",
    ),
    Exhibit(
        "a mask of zeros",
        "gives hidden keys a score of 0, not of minus infinity",
        _sharing(lambda scores, mask: (scores * mask).softmax(-1)),
        'change the last word: under "left-to-right" no earlier row of mixed may move.',
    ),
    Exhibit(
        "a diagonal off by one",
        "lets each word see the next one",
        _under(_one_further),
        'change the word just behind: under "left-to-right" the row before it must not move.',
    ),
    Exhibit(
        "a copied line",
        "uses the left-to-right mask for right-to-left as well",
        _under(_left_for_both),
        'under "right-to-left", change the *first* word: no later row may move.',
    ),
)


def right_leak_test(layer: Layer) -> bool:
    """Say whether an attention is right: who may act on whom, and what its weights sum to.

    Every word is changed in turn, under every direction. A row of the result must move if its
    word may see the changed one, and must stay if it may not.
    """
    x = torch.tensor([[1.0, 0.2], [0.1, 0.9], [0.8, 0.5], [0.3, 0.7]])
    for direction in DIRECTIONS:
        for real in (torch.ones(4, dtype=torch.bool), torch.tensor([True, True, True, False])):
            allowed = attention_mask(real[None], direction)
            may_see = torch.ones(4, 4, dtype=torch.bool)
            if allowed is not None:
                may_see = may_see & allowed[0, 0]
            before, _ = layer(x, real, direction)
            for word in range(4):
                changed = x.clone()
                changed[word] += 1
                _, weights = layer(changed, real, direction, dropout=0.5)
                if not torch.allclose(weights.sum(-1)[real], torch.ones(int(real.sum()))):
                    return False
                after, _ = layer(changed, real, direction)
                moved = (after - before).abs().amax(-1) > 1e-6
                others = real & (torch.arange(4) != word)  # a changed word asks differently, too
                if (moved != may_see[:, word])[others].any():
                    return False
    return True


LEAK_TEST = TestExercise(
    name="leak_test",
    argument="layer",
    thing="attention",
    start='layer(x, real, "left-to-right") before and after you change the last word of x.',
    right=RIGHT_LAYERS,
    museum=LAYER_MUSEUM,
    refuses_all="it returns False on every path, or it asks for more than is true: a word that "
    "is changed asks differently, too, so its own row always moves.",
    refuses_right="== between floats, or two runs with dropout compared. Use torch.allclose, "
    "and leave dropout at 0 where you compare results.",
    source=(right_leak_test,),
)


def leak_test(function: object) -> None:
    """Check a learner's test: ``(layer) -> bool``, true if ``layer`` is a right attention.

    ``layer(x (S, H), real (S,), direction, dropout=0.0)`` returns mixed (S, H), weights (S, S).
    """
    print(judge_test(LEAK_TEST, function))


SOLUTIONS: tuple[tuple[str, tuple[Any, ...]], ...] = (
    *((e.name, e.source) for e in (SCORES, SOFTMAX, ATTENTION, SPLIT_HEADS, JOIN_HEADS)),
    (CAUSAL_MASK.name, CAUSAL_MASK.source),
    (LEAK_TEST.name, LEAK_TEST.source),
)
