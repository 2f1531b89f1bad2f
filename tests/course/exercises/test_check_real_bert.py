"""Notebook 16: names, the first wrong rung, and a test of loaders."""

from typing import Any

import pytest
import torch
from verdicts import assert_named, verdict, words

from bertedu.model.bert import Bert
from bertedu.model.checkpoints import hugging_face_name
from course.exercises import check
from course.exercises.real_bert import PLAY, published_bert, right_loader, right_our_name

ROW = torch.arange(12)[None]


def by_replacing(theirs: str, leaving_out: int = 0) -> str:
    """Where order matters, the longer name comes first."""
    for pair in """Norm.gamma:Norm.weight Norm.beta:Norm.bias word_embeddings:token
    position_embeddings:position token_type_embeddings:segment
    embeddings.LayerNorm:embeddings.norm attention.self.:attention.
    encoder.layer.:encoder.layers. attention.output.LayerNorm:attention_norm
    attention.output.dense:attention.OUT intermediate.dense:feed_forward.intermediate
    output.dense:feed_forward.output output.LayerNorm:feed_forward_norm OUT:output""".split()[
        leaving_out:
    ]:
        old, new = pair.split(":")
        theirs = theirs.replace(old, new)
    return theirs.removeprefix("bert.")


def every_gamma(name: str) -> str:
    return name.replace(".gamma", ".weight").replace(".beta", ".bias")


def first_above(gaps: list[float], tolerance: float) -> Any:
    above = ~(torch.tensor(gaps, dtype=torch.double) <= tolerance)
    return above.int().argmax() if above.any() else torch.tensor(-1)


def test_every_name_comes_back() -> None:
    for name in Bert(PLAY).state_dict():
        assert right_our_name(f"bert.{hugging_face_name(name)}") == name


def test_other_right_ways_pass() -> None:
    assert verdict(check.our_name, by_replacing).startswith("✓")
    assert verdict(check.first_wrong, first_above).startswith("✓")


def test_a_mistake_written_in_another_way_is_named() -> None:
    for name, wrong, text in [
        ("our_name", lambda name: by_replacing("x" + name)[1:], '"bert." stays in front'),
        ("our_name", lambda name: by_replacing(name, 2), "old names stay"),
        ("our_name", lambda name: every_gamma(by_replacing(name)), "every gamma and beta"),
        ("our_name", lambda name: [name], "one name, a str, is wanted"),
        ("first_wrong", lambda gaps, tolerance: gaps.index(max(gaps)), "the largest gap"),
        ("first_wrong", lambda gaps, tolerance: 0.5, "a whole number is wanted"),
    ]:
        assert_named(getattr(check, name), name, wrong, text)


def test_nothing_in_the_played_tensors_is_zero() -> None:
    tensors, right = published_bert()
    assert all(bool((tensor != 0).all()) for tensor in tensors.values())
    segments = torch.zeros_like(ROW)
    torch.testing.assert_close(right_loader(tensors)(ROW, segments).pooled, right(ROW, segments))
    assert not torch.allclose(published_bert(seed=1)[1](ROW, segments), right(ROW, segments))


@pytest.mark.parametrize(
    ("ids", "part", "seen"),
    [
        (ROW, "pooled", "segment B forgotten"),
        (ROW[:, :6], "pooled", "a table cut to short texts"),
        (ROW, "last", "a pooler from chance"),
    ],
)
def test_careless_inputs_let_a_mistake_through(ids: Any, part: str, seen: str) -> None:
    def careless(loader: Any) -> bool:
        with torch.no_grad():
            mine, right = (f(published_bert()[0])(ids, 0 * ids) for f in (loader, right_loader))
        return torch.allclose(getattr(mine, part), getattr(right, part), atol=1e-4)

    assert f"- {seen}: " in words(verdict(check.loader_test, careless))
