"""The exercises of notebook 16: the rung that is wrong, and a test of loaders."""

import random
from collections.abc import Callable

import torch
from torch import Tensor

from bertedu.model.bert import Bert
from bertedu.model.checkpoints import hugging_face_name, load_weights
from bertedu.model.config import BertConfig
from course.exercises.encoder import as_trained
from course.exercises.judge import Exercise, Inputs, offered
from course.exercises.museum import TestExercise

# vocabulary, size, layers, heads, inner size, longest text
PLAY = BertConfig(30, 8, 2, 2, 16, 12)
Tensors = dict[str, Tensor]


def _gap_cases() -> list[Inputs]:
    rng = random.Random(31)
    ladders = [[1e-6], [0.5], [1e-4, 0.5]]
    for size in (2, 3, 4, 7):
        for _ in range(15):
            wrong = rng.randrange(size + 1)  # from there on; with size: none is
            gaps = rng.choices((1e-7, 3e-6, 5e-5), k=wrong)
            ladders.append(gaps + rng.choices((0.002, 0.3, 0.08, 4.0), k=size - wrong))
    ladders += [[1e-6, 0.3, 1e-6, 0.4], [2e-6, float("nan"), 0.2]]
    return [*((gaps, 1e-4) for gaps in ladders), ([0.05, 2.0], 0.1)]


@Exercise.asking(
    asks="(gaps, tolerance) -> int, the first rung that is wrong, or -1",
    cases=_gap_cases,
    tried="66 ladders of one to seven rungs, one with a NaN.",
    start="a loop over enumerate(gaps): return the first number whose gap is too large.",
    mistakes="""
    ✗ this is the rung with the largest gap.
      an early mistake grows from layer to layer, so the largest gap comes late. The first one that
      is too large is where to look.
    | not gap <= tolerance => gap == max(gaps)
    ✗ rungs are counted from 1.
      the embeddings are rung 0.
    | return rung => return rung + 1
    ✗ a NaN counts as right.
      every comparison with NaN is False, gap > tolerance too. Ask `not gap <= tolerance`.
    | not gap <= tolerance => gap > tolerance
    """,
)
def right_first_wrong(gaps: list[float], tolerance: float) -> int:
    """Return the number of the first rung whose gap is above the tolerance, from 0; -1 if none."""
    for rung, gap in enumerate(gaps):
        if not gap <= tolerance:  # "not <=": nothing is known of a NaN, so it is wrong
            return rung
    return -1


# -- a test of loaders


@offered
def published_bert(seed: int = 0) -> tuple[Tensors, Callable[..., Tensor]]:
    """Play an author: tensors under Hugging Face's names, and what the right model makes of ids.

    The second is ``right(ids, segment_ids) -> pooled``, (B, S), (B, S) -> (B, 8), for ids below 30,
    segments 0 and 1 and at most 12 tokens. As after real training, no number in the tensors is 0.
    """
    bert = as_trained(PLAY, seed)

    def right(ids: Tensor, segment_ids: Tensor) -> Tensor:
        found: Tensor = bert(ids, segment_ids).pooled
        return found

    return {hugging_face_name(name): t for name, t in bert.state_dict().items()}, right


def right_loader(tensors: Tensors) -> Bert:
    """Make a `Bert` of published tensors."""
    bert = Bert(PLAY)
    load_weights(bert, tensors, "these tensors")
    return bert.eval()


@torch.no_grad()
def _by_hand(tensors: Tensors) -> Bert:
    bert = Bert(PLAY).eval()
    for ours, parameter in bert.named_parameters():
        name = hugging_face_name(ours)
        tensor = tensors[name]
        parameter.copy_(tensor)
    return bert


@TestExercise.asking(
    asks="(loader) -> bool, a test of functions that make a `Bert` of published tensors",
    thing="loader",
    start="tensors, right = check.published_bert(), and random ids of shape (4, 12).",
    right=(("as a loop over the parameters", _by_hand), ("with load_weights", right_loader)),
    refuses_all="are both asked about the same ids and segments? Numbers computed in two ways "
    "differ in the seventh digit: torch.allclose(..., atol=1e-4).",
    refuses_right="numbers computed in two ways differ in the seventh digit: torch.allclose(..., "
    "atol=1e-4), not torch.equal.",
    museum="""
    ✗ TensorFlow weights, read as they are: the square matrices of attention stay transposed; every
    shape fits.
      compare numbers with the right model's, not shapes.
    | copy_(tensor) => copy_(tensor.T if "attention" in name and tensor.ndim == 2 else tensor)
    ✗ positions counted as in RoBERTa: position 0 gets the vector of position 2.
      compare with the right model; all positions but the first may be off, too.
    | copy_(tensor) => copy_(tensor.roll(-2, 0) if "position" in name else tensor)
    ✗ segment B forgotten: both segments get the vector of segment A.
      use inputs with segment 1 in them.
    | copy_(tensor) => copy_(tensor[0] if "token_type" in name else tensor)
    ✗ a table cut to short texts: positions from 8 on are not loaded: they are zeros.
      use rows as long as the table: 12 tokens.
    | copy_(tensor) => copy_(tensor * (torch.arange(12) < 8)[:, None] if "position" in name else
      tensor)
    ✗ a pooler from chance: all states are right, and the pooled vector is not.
      compare .pooled, not only .last.
    | copy_(tensor) => copy_(torch.full_like(tensor, 0.1) if "pooler" in name else tensor)
    ✗ load_state_dict(strict=False): no name matches, nothing is loaded, and nothing is said.
      compare with the right model.
    | parameter.copy_(tensor) =>
    """,
)
def right_loader_test(loader: Callable[[Tensors], Bert]) -> bool:
    """Compare the pooled vectors of random rows with every position, both segments, many words."""
    tensors, right = published_bert()
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(30, (4, 12), generator=generator)
    segments = torch.randint(2, (4, 12), generator=generator)
    with torch.no_grad():
        found = loader(dict(tensors))(ids, segments).pooled
    return torch.allclose(found, right(ids, segments), atol=1e-4)
