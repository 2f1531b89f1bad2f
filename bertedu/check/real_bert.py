"""The checks of notebook 16: names, the rung that is wrong, and a test of loaders."""

import random
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from bertedu.check import exercise
from bertedu.check.exercise import Exercise, Inputs, Mistake, UnreadableError
from bertedu.check.museum import Exhibit, TestExercise, judge_test
from bertedu.model.bert import Bert
from bertedu.model.checkpoints import hugging_face_name, load_weights
from bertedu.model.config import BertConfig

PLAY = BertConfig(
    vocab_size=30,
    hidden_size=8,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=16,
    max_position_embeddings=12,
)
Tensors = dict[str, Tensor]

# -- names

_RENAMED = (
    (r"^bert\.", ""),
    (r"\.gamma$", ".weight"),
    (r"\.beta$", ".bias"),
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
)


def right_our_name(theirs: str) -> str:
    """Translate a published name of the encoder, old or new, into ours."""
    for pattern, ours in _RENAMED:
        theirs = re.sub(pattern, ours, theirs)
    return theirs


def _name_cases() -> list[Inputs]:
    with torch.device("meta"):  # names alone: nothing is drawn
        names = [hugging_face_name(name) for name in Bert(PLAY).state_dict()]
    old = [
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
            "LayerNorm.bias", "LayerNorm.beta"
        )
        for name in names
    ]
    whole = [f"bert.{name}" for name in (*names, *old)]
    far = [name.replace("layer.1", "layer.11") for name in whole if "layer.1" in name]
    return [(name,) for name in sorted({*names, *old, *whole, *far}, key=lambda n: (len(n), n))]


def _read_name(answer: Any, *_: Any) -> str:
    if not isinstance(answer, str):
        raise UnreadableError(
            f"your function returned a {type(answer).__name__}; one name, a str, is wanted."
        )
    return answer


def _without(*dropped: int, instead: Sequence[tuple[str, str]] = ()) -> Callable[[str], str]:
    def translate(theirs: str) -> str:
        rules = [rule for i, rule in enumerate(_RENAMED) if i not in dropped]
        for pattern, ours in (*instead, *rules):
            theirs = re.sub(pattern, ours, theirs)
        return theirs

    return translate


OUR_NAME = Exercise(
    name="our_name",
    right=right_our_name,
    cases=_name_cases,
    read=_read_name,
    tried="every name of a two-layer encoder: old and new, with and without bert., layer 11 too.",
    start='one .replace for each row of the table, and .removeprefix("bert.").',
    source=(hugging_face_name, right_our_name),
    mistakes=(
        Mistake(
            "gamma and beta are swapped.",
            "gamma is what is multiplied, our weight; beta is what is added, our bias.",
            (
                _without(1, 2, instead=[(r"\.gamma$", ".bias"), (r"\.beta$", ".weight")]),
                _without(
                    1,
                    2,
                    instead=[(r"\.gamma$", ".BIAS"), (r"\.beta$", ".weight"), ("BIAS", "bias")],
                ),
            ),
        ),
        Mistake(
            "old names stay as they are.",
            "gamma is weight, and beta is bias: files of 2018 still have them.",
            (_without(1, 2),),
        ),
        Mistake(
            '"bert." stays in front.',
            'a whole model has it, an encoder saved alone does not: .removeprefix("bert.") does '
            "nothing where it is missing.",
            (_without(0),),
        ),
        Mistake(
            "the two layer norms of a layer are swapped.",
            "attention.output.LayerNorm stands behind attention, output.LayerNorm alone behind "
            "the feed-forward part.",
            (
                _without(
                    10,
                    13,
                    instead=[
                        (r"attention\.output\.LayerNorm", "FEED_norm"),
                        (r"(?<!attention\.)output\.LayerNorm", "attention_norm"),
                        ("FEED", "feed_forward"),
                    ],
                ),
            ),
        ),
        Mistake(
            "the output of attention ends up in the feed-forward part.",
            "attention.output.dense contains output.dense: replace the longer name first.",
            (
                _without(
                    9,
                    12,
                    instead=[
                        (r"attention\.output\.dense", "attention.feed_forward.output"),
                        (r"(?<!attention\.)output\.dense", "feed_forward.output"),
                    ],
                ),
                _without(
                    9,
                    12,
                    instead=[
                        (r"attention\.output\.dense", "feed_forward.output"),
                        (r"(?<!attention\.)output\.dense", "feed_forward.output"),
                    ],
                ),
            ),
        ),
        Mistake(
            "both layer norms of a layer get one name.",
            "then one of the two overwrites the other: attention_norm and feed_forward_norm.",
            (
                _without(10, 13, instead=[(r"(attention\.)?output\.LayerNorm", "attention_norm")]),
                _without(
                    10, 13, instead=[(r"(attention\.)?output\.LayerNorm", "feed_forward_norm")]
                ),
            ),
        ),
        Mistake(
            "query and key are swapped.",
            "they have the same names with us, without self.",
            (
                lambda theirs: (
                    right_our_name(theirs)
                    .replace("query", "QUERY")
                    .replace("key", "query")
                    .replace("QUERY", "key")
                ),
            ),
        ),
        Mistake(
            "self stays in the name.",
            "attention.self.query is attention.query with us.",
            (_without(8),),
        ),
        Mistake(
            "the layers are called layer.",
            "with us they are encoder.layers, in the plural.",
            (_without(7),),
        ),
        Mistake(
            "position and segment are swapped.",
            "token_type says A or B: segment. position_embeddings is position.",
            (
                _without(
                    4,
                    5,
                    instead=[
                        ("position_embeddings", "segment"),
                        ("token_type_embeddings", "position"),
                    ],
                ),
            ),
        ),
        Mistake(
            "layers with two digits lose one.",
            "12 layers are numbered 0 to 11: a pattern needs \\d+, not \\d.",
            (lambda theirs: re.sub(r"layers\.1\d\.", "layers.1.", right_our_name(theirs)),),
        ),
    ),
)


def our_name(function: object) -> None:
    """Check ``(theirs) -> ours``, the name of a tensor of the encoder."""
    print(exercise.judge(OUR_NAME, function))


# -- which rung is wrong?


def right_first_wrong(gaps: list[float], tolerance: float) -> int:
    """Return the number of the first rung whose gap is above the tolerance, from 0; -1 if none."""
    for number, gap in enumerate(gaps):
        if not gap <= tolerance:  # "not <=": nothing is known of a NaN, so it is wrong
            return number
    return -1


def _gap_cases() -> list[Inputs]:
    dice = random.Random(31)
    cases: list[Inputs] = [([1e-6], 1e-4), ([0.5], 1e-4), ([1e-4, 0.5], 1e-4)]
    for size in (2, 3, 4, 7):
        for _ in range(15):
            wrong = dice.randrange(size + 1)  # from there on; with size: none is
            gaps = [dice.choice((1e-7, 3e-6, 5e-5)) for _ in range(wrong)]
            gaps += [dice.choice((0.002, 0.3, 0.08, 4.0)) for _ in range(size - wrong)]
            cases.append((gaps, 1e-4))
    later = [([1e-6, 0.3, 1e-6, 0.4], 1e-4), ([2e-6, float("nan"), 0.2], 1e-4), ([0.05, 2.0], 0.1)]
    return [*cases, *later]


def _read_rung(answer: Any, *_: Any) -> int:
    if hasattr(answer, "item") and getattr(answer, "ndim", 1) == 0:
        answer = answer.item()
    if not isinstance(answer, int) or isinstance(answer, bool):
        raise UnreadableError(
            f"your function returned a {type(answer).__name__}; the number of a rung is wanted."
        )
    return answer


def _above(gaps: list[float], tolerance: float) -> list[int]:
    return [i for i, gap in enumerate(gaps) if not gap <= tolerance]


FIRST_WRONG = Exercise(
    name="first_wrong",
    right=right_first_wrong,
    cases=_gap_cases,
    read=_read_rung,
    tried="66 ladders of one to seven rungs, one with a NaN.",
    start="a loop over enumerate(gaps): return the first number whose gap is too large.",
    source=(right_first_wrong,),
    mistakes=(
        Mistake(
            "this is the rung with the largest gap.",
            "an early mistake grows from layer to layer, so the largest gap comes late. The first "
            "one that is too large is where to look.",
            (
                lambda gaps, tolerance: (
                    max(range(len(gaps)), key=lambda i: gaps[i]) if _above(gaps, tolerance) else -1
                ),
                lambda gaps, tolerance: max(range(len(gaps)), key=lambda i: gaps[i]),
            ),
        ),
        Mistake(
            "this is the last wrong rung.",
            "all that follow a wrong rung are wrong, too: return the first.",
            (lambda gaps, tolerance: max(_above(gaps, tolerance), default=-1),),
        ),
        Mistake(
            "this is the last right rung.",
            "one further: the rung after it is the first wrong one.",
            (
                lambda gaps, tolerance: (
                    right_first_wrong(gaps, tolerance) - 1 if _above(gaps, tolerance) else -1
                ),
            ),
        ),
        Mistake(
            "rungs are counted from 1.",
            "the embeddings are rung 0.",
            (
                lambda gaps, tolerance: (
                    right_first_wrong(gaps, tolerance) + 1 if _above(gaps, tolerance) else -1
                ),
            ),
        ),
        Mistake(
            "this is how many rungs are wrong.",
            "the number of the first one is wanted.",
            (lambda gaps, tolerance: len(_above(gaps, tolerance)),),
        ),
        Mistake(
            "this is the first right rung.",
            "turn the comparison round: a gap *above* the tolerance is wrong.",
            (
                lambda gaps, tolerance: next(
                    (i for i, gap in enumerate(gaps) if gap <= tolerance), -1
                ),
            ),
        ),
        Mistake(
            "a NaN counts as right.",
            "every comparison with NaN is False, gap > tolerance too. Ask `not gap <= tolerance`.",
            (
                lambda gaps, tolerance: next(
                    (i for i, gap in enumerate(gaps) if gap > tolerance), -1
                ),
            ),
        ),
        Mistake(
            "a ladder without a wrong rung does not give -1.",
            "after the loop: return -1.",
            (
                lambda gaps, tolerance: min(_above(gaps, tolerance), default=0),
                lambda gaps, tolerance: min(_above(gaps, tolerance), default=len(gaps)),
                lambda gaps, tolerance: min(_above(gaps, tolerance), default=len(gaps) - 1),
            ),
        ),
        Mistake(
            "a gap of just the tolerance counts as wrong.",
            "the tolerance is what is still allowed.",
            (
                lambda gaps, tolerance: next(
                    (i for i, gap in enumerate(gaps) if not gap < tolerance), -1
                ),
            ),
        ),
    ),
)


def first_wrong(function: object) -> None:
    """Check ``(gaps, tolerance) -> int``, the first rung that is wrong, or -1."""
    print(exercise.judge(FIRST_WRONG, function))


# -- a test of loaders


def published_bert(seed: int = 0) -> tuple[Tensors, Callable[..., Tensor]]:
    """Play an author: tensors under Hugging Face's names, and what the right model makes of ids.

    The second is ``right(ids, segment_ids) -> C``, (B, S), (B, S) -> (B, 8), for ids below 30,
    segments 0 and 1 and at most 12 tokens. As after real training, no number in the tensors is 0.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        bert = Bert(PLAY).eval()
        with torch.no_grad():
            for parameter in bert.parameters():
                parameter.add_(torch.randn_like(parameter), alpha=0.5)

    @torch.no_grad()
    def right(ids: Tensor, segment_ids: Tensor) -> Tensor:
        found: Tensor = bert(ids, segment_ids).pooled
        return found

    return {hugging_face_name(n): t.detach() for n, t in bert.state_dict().items()}, right


def right_loader(tensors: Tensors) -> Bert:
    """Make a `Bert` of published tensors."""
    bert = Bert(PLAY)
    load_weights(bert, tensors, "these tensors")
    return bert.eval()


def _by_hand(tensors: Tensors) -> Bert:
    bert = Bert(PLAY).eval()
    with torch.no_grad():
        for name, parameter in bert.named_parameters():
            parameter.copy_(tensors[hugging_face_name(name)])
    return bert


def right_loader_test(loader: Callable[[Tensors], Bert]) -> bool:
    """Compare C on random rows that use every position, both segments and many words."""
    tensors, right = published_bert()
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(30, (4, 12), generator=generator)
    segments = torch.randint(2, (4, 12), generator=generator)
    with torch.no_grad():
        found = loader(dict(tensors))(ids, segments).pooled
    return torch.allclose(found, right(ids, segments), atol=1e-4)


def _broken(change: Callable[[str, Tensors], Tensor], tensors: Tensors) -> Bert:
    return right_loader({name: change(name, tensors) for name in tensors})


def _exhibit(seen: str, bug: str, change: Callable[[str, Tensors], Tensor], tip: str) -> Exhibit:
    return Exhibit(seen, bug, partial(_broken, change), tip)


def _exchange(name: str, one: str, other: str) -> str:
    return name.replace(one, other) if one in name else name.replace(other, one)


def _nothing(tensors: Tensors) -> Bert:
    return Bert(PLAY).eval()


LOADER_MUSEUM = (
    _exhibit(
        "TensorFlow weights, read as they are",
        "the square matrices of attention stay transposed; every shape fits",
        lambda name, t: t[name].T if "attention" in name and t[name].ndim == 2 else t[name],
        "compare numbers with the right model's, not shapes.",
    ),
    _exhibit(
        "gamma and beta, taken for one another",
        "what should be multiplied is added, in every layer norm",
        lambda name, t: (
            t[
                name.replace("weight", "bias")
                if "weight" in name
                else name.replace("bias", "weight")
            ]
            if "LayerNorm" in name
            else t[name]
        ),
        "compare with the right model.",
    ),
    _exhibit(
        "positions counted as in RoBERTa",
        "position 0 gets the vector of position 2",
        lambda name, t: t[name].roll(-2, 0) if "position_embeddings" in name else t[name],
        "compare with the right model; all positions but the first may be off, too.",
    ),
    _exhibit(
        "segment B forgotten",
        "both segments get the vector of segment A",
        lambda name, t: t[name][[0, 0]] if "token_type" in name else t[name],
        "use inputs with segment 1 in them.",
    ),
    _exhibit(
        "a table cut to short texts",
        "positions from 8 on are not loaded: they are zeros",
        lambda name, t: (
            torch.cat([t[name][:8], torch.zeros(4, 8)]) if "position_emb" in name else t[name]
        ),
        "use rows as long as the table: 12 tokens.",
    ),
    _exhibit(
        "query and key, exchanged",
        "tokens answer where they should ask",
        lambda name, t: t[_exchange(name, "query", "key")],
        "use rows of more than one token: alone, a token attends to itself whatever the scores.",
    ),
    _exhibit(
        "one layer for all",
        "every layer gets the weights of layer 0",
        lambda name, t: t[name.replace("layer.1", "layer.0")],
        "compare what comes out at the end, not after the first layer.",
    ),
    _exhibit(
        "a pooler from chance",
        "all states are right, and C is not",
        lambda name, t: torch.full_like(t[name], 0.1) if "pooler" in name else t[name],
        "compare .pooled, not only .last.",
    ),
    Exhibit(
        "load_state_dict(strict=False)",
        "no name matches, nothing is loaded, and nothing is said",
        _nothing,
        "compare with the right model.",
    ),
)
RIGHT_LOADERS = (("with load_weights", right_loader), ("as a loop over the parameters", _by_hand))

LOADER_TEST = TestExercise(
    name="loader_test",
    argument="loader",
    thing="loader",
    start="tensors, right = check.published_bert(), and random ids of shape (4, 12).",
    right=RIGHT_LOADERS,
    museum=LOADER_MUSEUM,
    refuses_all="are both asked about the same ids and segments? Numbers computed in two ways "
    "differ in the seventh digit: torch.allclose(..., atol=1e-4).",
    refuses_right="numbers computed in two ways differ in the seventh digit: torch.allclose(..., "
    "atol=1e-4), not torch.equal.",
    source=(right_loader_test,),
)


def loader_test(function: object) -> None:
    """Check ``(loader) -> bool``, a test of functions that make a `Bert` of published tensors."""
    print(judge_test(LOADER_TEST, function))


SOLUTIONS: tuple[tuple[str, tuple[Any, ...]], ...] = (
    *((e.name, e.source) for e in (OUR_NAME, FIRST_WRONG)),
    (LOADER_TEST.name, LOADER_TEST.source),
)
