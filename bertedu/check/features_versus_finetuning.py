"""The checks of notebook 12: mixing layers, joining layers, counting what moves, and a test."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from bertedu.check import exercise
from bertedu.check.exercise import Exercise, Function, Inputs, Mistake, UnreadableError
from bertedu.check.museum import Exhibit, TestExercise, judge_test
from bertedu.model.bert import Bert
from bertedu.model.config import BertConfig
from bertedu.model.elmo import ScalarMix
from bertedu.model.features import LayerFeatures

# -- a weighted sum of layers


def right_layer_mix(states: Tensor, weights: Tensor, scale: float) -> Tensor:
    """(layers, S, H), (layers,), a number -> (S, H)."""
    shares = weights.softmax(dim=0)
    return scale * (shares[:, None, None] * states).sum(dim=0)


def _mix_cases() -> list[Inputs]:
    generator = torch.Generator().manual_seed(12)
    cases: list[Inputs] = []
    for layers, length, size, count in ((2, 1, 2, 20), (3, 2, 2, 40), (4, 5, 3, 40)):
        for number in range(count):
            states = torch.randn(layers, length, size, generator=generator).mul(10).round() / 10
            weights = torch.randn(layers, generator=generator).mul(10).round() / 10
            cases.append((states, weights, (0.5, 2.0, 3.0)[number % 3]))
    return cases


def _read_mix(answer: Any, states: Tensor, *_: Any) -> Any:
    tensor = exercise.read_tensor(answer, "your answer", states.shape[1:])
    return tensor.float().tolist()


def _weighted(states: Tensor, shares: Tensor, scale: float = 1.0) -> Tensor:
    return scale * torch.einsum("l,lsh->sh", shares, states)


LAYER_MIX = Exercise(
    name="layer_mix",
    right=right_layer_mix,
    cases=_mix_cases,
    read=_read_mix,
    tried="100 random cases, of 2, 3 and 4 layers.",
    start="shares = weights.softmax(dim=0), one number a layer; then the sum of share times state.",
    source=(ScalarMix, right_layer_mix),
    mistakes=(
        Mistake(
            "the weights are used as they are; they do not sum to 1.",
            "a weight may be negative, and twice all weights would be twice the sum. First "
            "weights.softmax(dim=0).",
            (lambda s, w, g: _weighted(s, w, g),),
        ),
        Mistake(
            "the scale is missing.",
            "softmax fixes the total at 1, so a number of its own says how large the sum may be: "
            "scale * (...).",
            (lambda s, w, g: _weighted(s, w.softmax(0)),),
        ),
        Mistake(
            "softmax is missing, and so is the scale.",
            "softmax the weights over the layers, then multiply the sum by scale.",
            (lambda s, w, g: _weighted(s, w),),
        ),
        Mistake(
            "the scale goes into the softmax.",
            "scale * weights before the softmax makes it sharper, not the sum larger. Multiply "
            "after it.",
            (lambda s, w, g: _weighted(s, (g * w).softmax(0)),),
        ),
        Mistake(
            "the scale is added; it should multiply.",
            "scale * (...), not scale + (...).",
            (lambda s, w, g: g + _weighted(s, w.softmax(0)),),
        ),
        Mistake(
            "this is the plain mean of the layers: the weights are not looked at.",
            "equal shares are only how the training begins. Each layer has its own: "
            "weights.softmax(dim=0).",
            (lambda s, w, g: g * s.mean(0), lambda s, w, g: s.mean(0)),
        ),
        Mistake(
            "this is the plain sum of the layers: the weights are not looked at.",
            "each layer is multiplied by its share, weights.softmax(dim=0)[layer], and then added.",
            (lambda s, w, g: g * s.sum(0), lambda s, w, g: s.sum(0)),
        ),
        Mistake(
            "the sum is divided by the number of layers.",
            "the shares sum to 1 already, so this is .sum(dim=0), not .mean(dim=0).",
            (lambda s, w, g: _weighted(s, w.softmax(0), g) / len(s),),
        ),
        Mistake(
            "exp is taken, but the shares are not divided by their sum.",
            "softmax is exp(weights) / exp(weights).sum().",
            (lambda s, w, g: _weighted(s, w.exp(), g),),
        ),
        Mistake(
            "the weights are divided by their sum, without exp.",
            "a negative weight makes a negative share, and a sum near 0 a huge one: "
            "weights.softmax(dim=0).",
            (lambda s, w, g: _weighted(s, w / w.sum(), g),),
        ),
        Mistake(
            "each layer has a sigmoid of its own.",
            "then the shares do not sum to 1, and no layer has to give way to another: softmax.",
            (lambda s, w, g: _weighted(s, w.sigmoid(), g),),
        ),
        Mistake(
            "the shares go to the layers in the wrong order.",
            "weights[0] belongs to states[0].",
            (lambda s, w, g: _weighted(s, w.softmax(0).flip(0), g),),
        ),
        Mistake(
            "only the layer with the largest weight is taken.",
            "argmax cannot learn: a little more weight changes nothing. Each layer gets its share.",
            (lambda s, w, g: g * s[w.argmax()], lambda s, w, g: s[w.argmax()]),
        ),
        Mistake(
            "softmax runs over the states, not over the weights.",
            "the states stay as they are; the weights become shares.",
            (
                lambda s, w, g: g * (w[:, None, None] * s).softmax(0).sum(0),
                lambda s, w, g: _weighted(s.softmax(0), w, g),
            ),
        ),
    ),
)


def layer_mix(function: object) -> None:
    """Check ``(states, weights, scale) -> (S, H)``: ELMo's learned sum of layers."""
    print(exercise.judge(LAYER_MIX, function))


# -- layers side by side


def right_concat_layers(hidden_states: Sequence[Tensor], count: int) -> Tensor:
    """L + 1 of (S, H), the input embedding first; the last ``count`` -> (S, count * H)."""
    return torch.cat(list(hidden_states[-count:]), dim=-1)


def _concat_cases() -> list[Inputs]:
    cases: list[Inputs] = []
    for layers, length, size in ((2, 1, 1), (3, 2, 2), (4, 3, 2), (5, 2, 3)):
        for count in range(1, layers + 1):
            # 10 * layer + token + 0.1 * number: each value shows where it came from
            states = [
                10.0 * layer
                + torch.arange(1.0, length + 1)[:, None]
                + torch.arange(1.0, size + 1) / 10
                for layer in range(layers + 1)
            ]
            cases.append((states, count))
    return cases


def _read_concat(answer: Any, hidden_states: Sequence[Tensor], count: int) -> Any:
    length, size = hidden_states[0].shape
    if isinstance(answer, list | tuple) and answer and isinstance(answer[0], Tensor):
        raise UnreadableError(
            f"your function returned a list of {len(answer)} tensors; one tensor is wanted: "
            "torch.cat(…, dim=-1)."
        )
    tensor = torch.as_tensor(answer).detach()
    if tensor.shape == (count * length, size) and count > 1:
        raise UnreadableError(
            f"your answer has shape {tuple(tensor.shape)}; ({length}, {count * size}) is wanted: "
            "the layers came one below the other, as if the text were longer. Every token keeps "
            "its row: dim=-1."
        )
    if tensor.shape in ((count, length, size), (length, count, size), (length, size, count)):
        raise UnreadableError(
            f"your answer has shape {tuple(tensor.shape)}; ({length}, {count * size}) is wanted. "
            "torch.stack makes a new axis; torch.cat(…, dim=-1) makes the last one longer."
        )
    if tensor.shape == (length, size) and count > 1:
        raise UnreadableError(
            f"your answer has as many numbers a token as one layer, {size}; {count * size} are "
            "wanted. A sum or a mean cannot be taken apart again: torch.cat(…, dim=-1)."
        )
    return exercise.read_tensor(tensor, "your answer", (length, count * size)).float().tolist()


def _cat(states: Sequence[Tensor]) -> Tensor:
    return torch.cat(list(states), dim=-1)


CONCAT_LAYERS = Exercise(
    name="concat_layers",
    right=right_concat_layers,
    cases=_concat_cases,
    read=_read_concat,
    tried="14 cases, of 2 to 5 layers, from one of them to all.",
    start="hidden_states[-count:], a list of the states wanted; then torch.cat with dim=-1.",
    source=(LayerFeatures, right_concat_layers),
    mistakes=(
        Mistake(
            "these are the first states, with the input embedding; the last are wanted.",
            "hidden_states[0] is the embedding, which knows no context: count from the end, "
            "hidden_states[-count:].",
            (lambda h, n: _cat(h[:n]),),
        ),
        Mistake(
            "these are the lowest layers; the last are wanted.",
            "count from the end: hidden_states[-count:].",
            (lambda h, n: _cat(h[1 : n + 1]),),
        ),
        Mistake(
            "it is one layer too low: the last is left out.",
            "a slice leaves its end out already: hidden_states[-count:], with nothing behind the "
            "colon. (With L layers there are L + 1 states, so the last is number L.)",
            (lambda h, n: _cat(h[-n - 1 : -1]), lambda h, n: _cat(h[len(h) - 1 - n : len(h) - 1])),
        ),
        Mistake(
            "the layers come in the wrong order.",
            "the lower layer goes first, as in the list.",
            (lambda h, n: _cat(h[-n:][::-1]), lambda h, n: _cat([h[-i] for i in range(1, n + 1)])),
        ),
        Mistake(
            "each layer's numbers are dealt out one by one.",
            "all H numbers of one layer stand together, then all of the next: "
            "torch.cat(…, dim=-1), without a reshape that mixes them.",
            (lambda h, n: torch.stack(list(h[-n:]), dim=-1).flatten(-2),),
        ),
        Mistake(
            "rows of several tokens are mixed.",
            "reshape takes numbers in the order in which they lie, layer by layer here. "
            "torch.cat(…, dim=-1) keeps every token to its row.",
            (lambda h, n: torch.stack(list(h[-n:])).reshape(len(h[0]), -1),),
        ),
        Mistake(
            "the last layer comes count times.",
            "hidden_states[-1] is one layer; hidden_states[-count:] are count of them.",
            (lambda h, n: _cat([h[-1]] * n),),
        ),
    ),
)


def concat_layers(function: object) -> None:
    """Check ``(hidden_states, count) -> (S, count * H)``."""
    print(exercise.judge(CONCAT_LAYERS, function))


# -- what moves


class _Small(nn.Module):
    """A model that a check can name in one line."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def __repr__(self) -> str:
        return self.name


def _model(name: str, *parts: nn.Module) -> nn.Module:
    """Put parts into one model."""
    model = _Small(name)
    for number, part in enumerate(parts):
        model.add_module(f"part{number}", part)
    return model


def _frozen(part: nn.Module) -> nn.Module:
    return part.requires_grad_(False)


def _tied() -> nn.Module:
    table, decoder = nn.Embedding(7, 3), nn.Linear(3, 7)
    decoder.weight = table.weight
    return _model("an embedding table 7 × 3 and a decoder tied to it", table, decoder)


def _half() -> nn.Module:
    line = nn.Linear(3, 2)
    line.bias.requires_grad_(False)
    return _model("one linear layer 3 → 2 whose bias alone is frozen", line)


def _models() -> list[Inputs]:
    with torch.random.fork_rng(devices=[]):  # nobody's chance is disturbed
        return _made()


def _made() -> list[Inputs]:
    return [
        (model,)
        for model in (
            _model("one linear layer 2 → 3", nn.Linear(2, 3)),
            _model(
                "a frozen linear layer 4 → 4, and a new one 4 → 2",
                _frozen(nn.Linear(4, 4)),
                nn.Linear(4, 2),
            ),
            _half(),
            _model(
                "a batch norm of 5, with its running means, and a linear layer 5 → 2",
                nn.BatchNorm1d(5),
                nn.Linear(5, 2),
            ),
            _tied(),
            _model("a frozen linear layer 3 → 3, and nothing else", _frozen(nn.Linear(3, 3))),
            _model(
                "a frozen table 9 × 4 in a frozen stack, an LSTM 4 → 3, a linear layer 3 → 5",
                _frozen(nn.Sequential(nn.Embedding(9, 4), nn.LayerNorm(4))),
                nn.LSTM(4, 3),
                nn.Linear(3, 5),
            ),
        )
    ]


def right_trainable(model: nn.Module) -> int:
    """Return how many numbers an optimizer moves."""
    return sum(p.numel() for p in model.parameters() if p.requires_grad)


def _read_count(answer: Any, *_: Any) -> float:
    if isinstance(answer, exercise.Changed):
        raise UnreadableError(
            "your function changes requires_grad: whoever counts must leave the model as it is."
        )
    if not isinstance(answer, int | float | Tensor):
        raise UnreadableError(
            f"your function returned a {type(answer).__name__}; one number is wanted."
        )
    return exercise.read_number(answer)


def _moves_otherwise(own: Inputs, given: Inputs) -> bool:
    """Whether the function froze or thawed something."""
    pairs = zip(own[0].parameters(), given[0].parameters(), strict=True)
    return any(mine.requires_grad != theirs.requires_grad for mine, theirs in pairs)


def _count(of: Callable[[Tensor], float], moving: bool = True) -> Function:
    return lambda model: sum(of(p) for p in model.parameters() if p.requires_grad or not moving)


TRAINABLE = Exercise(
    name="trainable",
    right=right_trainable,
    cases=_models,
    read=_read_count,
    tried="7 models: frozen in part, as a whole, not at all; with tied weights and running means.",
    start="for p in model.parameters(): p.requires_grad says whether it moves, p.numel() how many.",
    source=(right_trainable, LayerFeatures),
    mistakes=(
        Mistake(
            "frozen parameters are counted as well.",
            "a parameter with requires_grad=False has no gradient and does not move: "
            "if p.requires_grad.",
            (_count(Tensor.numel, moving=False),),
        ),
        Mistake(
            "only the frozen parameters are counted.",
            "requires_grad=True means that it moves: leave out the not.",
            (lambda m: sum(p.numel() for p in m.parameters() if not p.requires_grad),),
        ),
        Mistake(
            "this is the number of tensors, not of the numbers in them.",
            "a weight of 4 × 2 holds eight numbers: p.numel().",
            (_count(lambda p: 1), _count(lambda p: 1, moving=False)),
        ),
        Mistake(
            "this counts rows, not numbers.",
            "len(p) and p.shape[0] are the first size only: p.numel().",
            (_count(len),),
        ),
        Mistake(
            "biases are left out.",
            "tensors of one axis move, too: count every p that requires a gradient.",
            (_count(lambda p: p.numel() if p.ndim > 1 else 0),),
        ),
        Mistake(
            "state_dict is counted: it holds tied weights twice, and running means that no "
            "gradient moves.",
            "go through model.parameters(); it names each parameter once.",
            (
                lambda m: sum(value.numel() for value in m.state_dict().values()),
                lambda m: sum(v.numel() for v in m.state_dict(keep_vars=True).values()
                              if v.requires_grad),
            ),
        ),
        Mistake(
            "only the parts that are linear layers are counted.",
            "an LSTM, a table and a norm learn as well: model.parameters() has all of them.",
            (
                lambda m: sum(
                    p.numel()
                    for part in m.modules()
                    if isinstance(part, nn.Linear)
                    for p in part.parameters()
                    if p.requires_grad
                ),
            ),
        ),
        Mistake(
            "these are bytes, not numbers.",
            "p.numel(), without p.element_size().",
            (_count(lambda p: p.numel() * p.element_size()),),
        ),
    ),
)  # fmt: skip


def trainable(function: object) -> None:
    """Check ``model -> how many of its numbers an optimizer moves``."""
    print(exercise.judge(TRAINABLE, exercise.that_changes_nothing(function, _moves_otherwise)))


# -- a test of features

Extract = Callable[[Bert, Tensor, Tensor, Tensor], Tensor]


def play_bert() -> Bert:
    """Make a small random BERT, in training mode, as every new model is: four layers, 16 wide."""
    return Bert(BertConfig(60, 16, 4, 4, 32, 24, dropout=0.3, initializer_range=0.3)).train()


def _mean(states: Tensor, padding_mask: Tensor) -> Tensor:
    real = padding_mask.bool()[..., None]
    return (states * real).sum(dim=1) / real.sum(dim=1)


@torch.no_grad()
def right_extract(bert: Bert, ids: Tensor, segment_ids: Tensor, padding_mask: Tensor) -> Tensor:
    """Mean second-to-last state of the real tokens: (B, S) three times -> (B, H)."""
    bert.eval()
    return _mean(bert(ids, segment_ids, padding_mask).hidden_states[-2], padding_mask)


def _extract_by_layers(
    bert: Bert, ids: Tensor, segment_ids: Tensor, padding_mask: Tensor
) -> Tensor:
    reader = LayerFeatures(bert, "second-to-last")
    tokens = reader(ids, segment_ids, padding_mask).tokens
    rows = [row[mask.bool()].mean(dim=0) for row, mask in zip(tokens, padding_mask, strict=True)]
    return torch.stack(rows).detach()


def _extract_by_state(number: int) -> Extract:
    def extract(bert: Bert, ids: Tensor, segment_ids: Tensor, padding_mask: Tensor) -> Tensor:
        with torch.no_grad():
            output = bert.eval()(ids, segment_ids, padding_mask)
        return _mean(output.hidden_states[number], padding_mask)

    return extract


@torch.no_grad()
def _dropout_on(bert: Bert, ids: Tensor, segment_ids: Tensor, padding_mask: Tensor) -> Tensor:
    return _mean(bert.train()(ids, segment_ids, padding_mask).hidden_states[-2], padding_mask)


def _with_gradient(bert: Bert, ids: Tensor, segment_ids: Tensor, padding_mask: Tensor) -> Tensor:
    bert.eval()
    return _mean(bert(ids, segment_ids, padding_mask).hidden_states[-2], padding_mask)


@torch.no_grad()
def _padding_in(bert: Bert, ids: Tensor, segment_ids: Tensor, padding_mask: Tensor) -> Tensor:
    states: Tensor = bert.eval()(ids, segment_ids, padding_mask).hidden_states[-2]
    return states.mean(dim=1)


@torch.no_grad()
def _zeros_in(bert: Bert, ids: Tensor, segment_ids: Tensor, padding_mask: Tensor) -> Tensor:
    states: Tensor = bert.eval()(ids, segment_ids, padding_mask).hidden_states[-2]
    return (states * padding_mask.bool()[..., None]).mean(dim=1)


@torch.no_grad()
def _no_segments(bert: Bert, ids: Tensor, segment_ids: Tensor, padding_mask: Tensor) -> Tensor:
    return _mean(bert.eval()(ids, None, padding_mask).hidden_states[-2], padding_mask)


@torch.no_grad()
def _no_mask(bert: Bert, ids: Tensor, segment_ids: Tensor, padding_mask: Tensor) -> Tensor:
    return _mean(bert.eval()(ids, segment_ids).hidden_states[-2], padding_mask)


@torch.no_grad()
def _swapped(bert: Bert, ids: Tensor, segment_ids: Tensor, padding_mask: Tensor) -> Tensor:
    """Arguments by place, in the order of another library: mask first, then segments."""
    padded = padding_mask.bool()
    output = bert.eval()(ids, padded.long(), (segment_ids > 0) | padded)
    return _mean(output.hidden_states[-2], padding_mask)


RIGHT_EXTRACTORS: tuple[tuple[str, Extract], ...] = (
    ("with torch.no_grad()", right_extract),
    ("with LayerFeatures", _extract_by_layers),
)
FEATURE_MUSEUM = (
    Exhibit(
        "dropout left on",
        "bert.eval() is missing, so two calls give two answers",
        _dropout_on,
        "call it twice on the same input, and compare.",
    ),
    Exhibit(
        "a gradient into the frozen model",
        "torch.no_grad() is missing, so an optimizer could still move the BERT",
        _with_gradient,
        "ask the result for requires_grad.",
    ),
    Exhibit(
        "the last layer",
        "it reads hidden_states[-1]",
        _extract_by_state(-1),
        "compute the mean yourself from bert(…).hidden_states[-2], in eval mode.",
    ),
    Exhibit(
        "one layer too low",
        "it counts as if the list began with layer 1; but the embedding comes first",
        _extract_by_state(-3),
        "compute the mean yourself from bert(…).hidden_states[-2], in eval mode.",
    ),
    Exhibit(
        "padding averaged in",
        "the mean runs over all places, so a text changes with the length of its neighbors",
        _padding_in,
        "pad the same text further: nothing may change.",
    ),
    Exhibit(
        "divided by the padded length",
        "padding is set to zero, but it is still counted in the mean",
        _zeros_in,
        "pad the same text further: nothing may change.",
    ),
    Exhibit(
        "segments not passed on",
        "every token is taken for one of segment A",
        _no_segments,
        "give it segments of both kinds: with others, the result must be another.",
    ),
    Exhibit(
        "mask not passed on",
        "attention reads the padding, even where the mean leaves it out",
        _no_mask,
        "put another word where padding is: nothing may change.",
    ),
    Exhibit(
        "mask and segments swapped",
        "transformers takes the mask second and segments third, our Bert the other way round",
        _swapped,
        "give it segments of both kinds, and compare with your own mean.",
    ),
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


FEATURE_TEST = TestExercise(
    name="feature_test",
    argument="extract",
    thing="extractor",
    start="bert = check.play_bert() and two texts, one of them padded; then call extract twice.",
    right=RIGHT_EXTRACTORS,
    museum=FEATURE_MUSEUM,
    refuses_all="compare with bert.eval()(ids, segments, mask).hidden_states[-2], averaged over "
    "the real tokens of each row; use torch.allclose. Dropout must be off in your own call, too.",
    refuses_right="two right ways differ in the seventh digit: use torch.allclose(…, atol=1e-5), "
    "not ==.",
    source=(right_feature_test, right_extract),
)


def feature_test(function: object) -> None:
    """Check a learner's test of ``extract(bert, ids, segment_ids, padding_mask) -> (B, H)``."""
    print(judge_test(FEATURE_TEST, function))


SOLUTIONS = (
    ("layer_mix", LAYER_MIX.source),
    ("concat_layers", CONCAT_LAYERS.source),
    ("trainable", TRAINABLE.source),
    ("feature_test", FEATURE_TEST.source),
)
