"""The checks of notebook 16: names, the first wrong rung, and a test of loaders."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from verdicts import verdict, words

from bertedu import check
from bertedu.check.real_bert import (
    LOADER_MUSEUM,
    PLAY,
    RIGHT_LOADERS,
    published_bert,
    right_first_wrong,
    right_loader,
    right_loader_test,
    right_our_name,
)
from bertedu.model.bert import Bert
from bertedu.model.checkpoints import hugging_face_name

# -- our own answers


def test_every_name_comes_back() -> None:
    for name in Bert(PLAY).state_dict():
        theirs = hugging_face_name(name)
        assert theirs != name or name.startswith("pooler.")
        old = theirs.replace("LayerNorm.weight", "LayerNorm.gamma")
        old = old.replace("LayerNorm.bias", "LayerNorm.beta")
        for published in (theirs, old, f"bert.{theirs}", f"bert.{old}"):
            assert right_our_name(published) == name


def test_the_first_wrong_rung_by_hand() -> None:
    assert right_first_wrong([1e-6, 2e-6, 0.3, 4.0], 1e-4) == 2
    assert right_first_wrong([1e-6, 1e-4], 1e-4) == -1
    assert right_first_wrong([float("nan")], 1e-4) == 0


# -- other right answers are accepted, too


def by_replacing(theirs: str) -> str:
    name = theirs.removeprefix("bert.")
    for old, new in [
        ("gamma", "weight"),
        ("beta", "bias"),
        ("word_embeddings", "token"),
        ("position_embeddings", "position"),
        ("token_type_embeddings", "segment"),
        ("embeddings.LayerNorm", "embeddings.norm"),
        ("encoder.layer.", "encoder.layers."),
        ("attention.self.", "attention."),
        ("attention.output.LayerNorm", "attention_norm"),
        ("attention.output.dense", "attention.OUT"),
        ("intermediate.dense", "feed_forward.intermediate"),
        ("output.dense", "feed_forward.output"),
        ("output.LayerNorm", "feed_forward_norm"),
        ("OUT", "output"),
    ]:
        name = name.replace(old, new)
    return name


@pytest.mark.parametrize(
    ("run", "mine"),
    [
        (check.our_name, by_replacing),
        (
            check.first_wrong,
            lambda gaps, tolerance: next(
                (i for i, ok in enumerate(g <= tolerance for g in gaps) if not ok), -1
            ),
        ),
        (
            check.first_wrong,
            lambda gaps, tolerance: torch.tensor(right_first_wrong(gaps, tolerance)),
        ),
    ],
)
def test_other_right_ways_pass(run: Callable[[Any], None], mine: Callable[..., Any]) -> None:
    assert verdict(run, mine).startswith("✓")


@pytest.mark.parametrize(
    ("run", "mine", "said"),
    [
        (check.our_name, lambda theirs: [theirs], "one name, a str, is wanted"),
        (check.first_wrong, lambda gaps, tolerance: 0.5, "the number of a rung is wanted"),
        (check.first_wrong, lambda gaps, tolerance: True, "the number of a rung is wanted"),
    ],
)
def test_answers_of_the_wrong_kind(
    run: Callable[[Any], None], mine: Callable[..., Any], said: str
) -> None:
    assert said in words(verdict(run, mine))


# -- the test of loaders


def test_our_test_accepts_the_right_and_refuses_the_museum() -> None:
    assert all(right_loader_test(loader) for _, loader in RIGHT_LOADERS)
    for exhibit in LOADER_MUSEUM:
        assert not right_loader_test(exhibit.broken), exhibit.seen
    assert verdict(check.loader_test, right_loader_test).startswith("✓")


def test_nothing_in_the_played_tensors_is_zero() -> None:
    tensors, right = published_bert()
    assert all(bool((tensor != 0).all()) for tensor in tensors.values())
    ids, segments = torch.arange(12)[None], torch.zeros(1, 12, dtype=torch.long)
    torch.testing.assert_close(right_loader(tensors)(ids, segments).pooled, right(ids, segments))
    other = published_bert(seed=1)[1]
    assert not torch.allclose(other(ids, segments), right(ids, segments))


def careless(ids: torch.Tensor, segments: torch.Tensor, state: bool = False) -> Callable[..., bool]:
    """A test that compares, but on these inputs only, or only the last state."""

    def test(loader: Callable[..., Bert]) -> bool:
        tensors, right = published_bert()
        with torch.no_grad():
            mine, theirs = loader(tensors)(ids, segments), right_loader(tensors)(ids, segments)
        if state:
            return torch.allclose(mine.last, theirs.last, atol=1e-4)
        return torch.allclose(mine.pooled, right(ids, segments), atol=1e-4)

    return test


ROW = torch.arange(12)[None]


@pytest.mark.parametrize(
    ("mine", "seen"),
    [
        (careless(ROW, torch.zeros_like(ROW)), "segment B forgotten"),
        (careless(ROW[:, :6], (ROW[:, :6] > 2).long()), "a table cut to short texts"),
        (careless(ROW[:, :1], torch.ones(1, 1, dtype=torch.long)), "query and key, exchanged"),
        (careless(ROW, (ROW > 5).long(), state=True), "a pooler from chance"),
    ],
)
def test_careless_inputs_let_a_mistake_through(mine: Callable[..., bool], seen: str) -> None:
    assert seen in words(verdict(check.loader_test, mine))


@pytest.mark.parametrize("exhibit", LOADER_MUSEUM, ids=lambda e: e.seen)
def test_each_exhibit_that_slips_through_is_named(exhibit: Any) -> None:
    def blind(loader: Any) -> bool:
        return loader is exhibit.broken or right_loader_test(loader)

    said = words(verdict(check.loader_test, blind))
    assert f"1 of {len(LOADER_MUSEUM)} broken loaders got past" in said
    assert exhibit.seen in said
    assert words(exhibit.try_this) in said


def test_a_test_of_shapes_accepts_everything_but_nothing_else() -> None:
    def shapes(loader: Callable[..., Bert]) -> bool:
        return loader(published_bert()[0])(ROW).pooled.shape == (1, 8)

    assert f"{len(LOADER_MUSEUM)} of {len(LOADER_MUSEUM)} broken" in verdict(
        check.loader_test, shapes
    )
