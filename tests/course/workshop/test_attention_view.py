"""Attention to look at, ours and bertviz's: the model's own numbers, pictures, clear errors."""

import base64
import dataclasses
from pathlib import Path
from typing import Any

import nbformat
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from shown import CONFIG, TEXT, attention, tiny_bert
from test_shown import data_of
from tokenizers import Tokenizer
from torch import Tensor

from bertedu.model.bert import BertForPreTraining
from bertedu.model.config import DIRECTIONS, Direction
from bertedu.model.elmo import ElmoForPreTraining
from course.workshop import bertviz
from course.workshop.attention_view import (
    Attention,
    AttentionView,
    attend,
    attend_all,
    direction_maps,
    strongest_head,
)
from course.workshop.bertviz import model_view

directions = pytest.mark.parametrize("direction", DIRECTIONS)


def data(view: Any) -> Any:
    """What the script on the page is given."""
    return data_of(view._repr_html_())


def all_or_none(found: Tensor) -> bool:
    assert found.all() == found.any()
    return bool(found.all())


# -- what a model gives


@directions
def test_the_picture_hatches_what_is_hidden_and_nothing_else(
    direction: Direction, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    hatched, framed, original = set[tuple[int, int]](), list[float](), Axes.add_patch

    def record(axes: Axes, patch: Rectangle) -> Rectangle:
        x, y = patch.get_xy()
        if patch.get_hatch():
            hatched.add((round(y + 0.5), round(x + 0.5)))
        else:
            framed.append(y + 0.5)
        return original(axes, patch)

    monkeypatch.setattr(Axes, "add_patch", record)
    (shown,) = attend_all({"x": tiny_bert(direction)}, tokenizer, TEXT)
    assert direction_maps([shown], [(2, 1)], 3, "title", "alt text").alt == "alt text"
    assert framed == [3]
    hidden = (shown.weights[0, 0] == 0).nonzero().tolist()
    assert hatched == {(i, j) for i, j in hidden}


@directions
def test_weights_are_the_models_own_and_a_mask_hides_exactly(
    direction: Direction, tokenizer: Tokenizer
) -> None:
    bert, ids = tiny_bert(direction), torch.tensor([tokenizer.encode(TEXT).ids])
    shown = attend(bert, tokenizer, TEXT)
    expected = bert(ids, return_attention=True).attention
    torch.testing.assert_close(shown.weights, torch.cat([w for w in expected if w is not None]))
    assert (shown.tokens, shown.layers) == (tokenizer.encode(TEXT).tokens, [1, 2, 3])
    assert shown.direction == data(AttentionView(shown))["views"][0]["direction"] == direction
    part = attend(bert, tokenizer, TEXT, layers=[3, 1])
    assert part.layers == [3, 1]
    assert torch.equal(part.weights, shown.weights[[2, 0]])
    query, key = torch.tril_indices(len(shown.tokens), len(shown.tokens), -1)
    assert all_or_none(shown.weights[..., query, key] > 0) == (direction != "right-to-left")
    assert all_or_none(shown.weights[..., key, query] > 0) == (direction != "left-to-right")


def test_dropout_is_off_the_mode_left_alone_and_an_encoder_taken_out(tokenizer: Tokenizer) -> None:
    torch.manual_seed(0)
    noisy = BertForPreTraining(dataclasses.replace(CONFIG, dropout=0.5)).train()
    first, second = attend_all({"a": noisy, "b": noisy.bert}, tokenizer, TEXT)
    assert torch.equal(first.weights, second.weights)
    assert noisy.training
    assert (first.name, second.name) == ("a", "b")
    assert data(model_view(noisy, tokenizer, TEXT)) == data(model_view(noisy.bert, tokenizer, TEXT))


# -- what goes to the page


@given(st.lists(st.text(min_size=1), min_size=1, max_size=4))
def test_tokens_and_weights_reach_the_page_to_half_a_byte(tokens: list[str]) -> None:
    shown = attention(*tokens)
    (view,) = AttentionView(shown, layer=2, head=3).data()["views"]
    raw = torch.frombuffer(bytearray(base64.b64decode(view["weights"])), dtype=torch.uint8)
    weights = raw.view(len(view["layers"]), view["heads"], len(tokens), len(tokens)) / 255
    assert (weights - shown.weights).abs().max() <= 0.5 / 255 + 1e-6
    assert (view["tokens"], view["layers"], view["start"]) == (tokens, [1, 2], [1, 2])


def test_models_of_other_layers_start_at_one_head_and_are_told_apart() -> None:
    one, two = attention("a", "b"), attention("a", "b", name="two")
    two = dataclasses.replace(two, layers=[2, 4])
    weights = one.weights.clone()
    weights[1, 2] = torch.tensor([[0.4, 0.6], [0.95, 0.05]])
    view = AttentionView(dataclasses.replace(one, weights=weights), two, layer=2, head=3)
    starts = [(part["name"], part["start"]) for part in data(view)["views"]]  # from 0 in there
    assert starts == [("m", [1, 2]), ("two", [0, 2])]
    first, second = view.alt.split(". ")
    assert first == "Attention of m, layer 2, head 3, over 2 tokens; the strongest is from b to a"
    assert second.startswith("Attention of two, layer 2, head 3, ")


# -- bertviz


def test_bertviz_gets_the_chosen_layers_by_number(tokenizer: Tokenizer) -> None:
    shown = attend(tiny_bert(), tokenizer, TEXT)
    view = model_view(tiny_bert(), tokenizer, TEXT, layers=[2, 3], name="a small one")
    given = data(view)
    (kept,) = given["attention"]
    assert torch.allclose(torch.tensor(kept["attn"]), shown.weights[1:], atol=6e-5)
    assert kept["left_text"] == kept["right_text"] == shown.tokens
    assert "of a small one" in repr(view)
    assert given["include_layers"] == [1, 2]  # bertviz counts from 0; the page adds 1
    assert ".text(config.layers[i] + 1)" in view._repr_html_()


def test_a_notebook_is_committed_without_the_scripts(tokenizer: Tokenizer, tmp_path: Path) -> None:
    html = model_view(tiny_bert(), tokenizer, TEXT)._repr_html_()
    result = nbformat.v4.new_output("execute_result", {"text/html": html}, execution_count=1)
    other = nbformat.v4.new_output("stream", text="<script data-bertviz> is only said here")
    cells = [nbformat.v4.new_code_cell("x", outputs=[one]) for one in (result, other)]
    path = tmp_path / "a.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    assert [bertviz.without_scripts(path) for _ in range(2)] == [1, 0]
    kept = nbformat.read(path, as_version=4)
    nbformat.validate(kept)
    assert kept.cells[0].outputs[0].data["text/html"] == html.partition("<script")[0]
    assert kept.cells[1].outputs[0].text == other.text
    for path in (Path(__file__).parents[3] / "notebooks").glob("*.ipynb"):
        text = path.read_text(encoding="utf-8")
        assert "data-bertviz" not in text, f"python -m course.workshop.bertviz {path}"


# -- directions side by side


def test_a_head_is_chosen_by_what_a_query_gives() -> None:
    """Two layers, numbered 3 and 4, of two heads over three tokens; even but for one row."""
    table = torch.full((2, 2, 3, 3), 1 / 3)
    table[1, 0, 2] = torch.tensor([0.5, 0.4, 0.1])
    table[0, 1, 2] = torch.tensor([0.1, 0.0, 0.9])
    table[0, 0, 2] = torch.tensor([0.0, 0.6, 0.4])  # more to b alone than the head above
    shown = Attention("m", ["a", "b", "c"], [3, 4], table)
    assert strongest_head(shown, 2, [0, 1]) == (4, 1)  # 0.9, counted from 1
    assert strongest_head(shown, 2, [2]) == (3, 2)
    assert strongest_head(shown, 2, [0, 2]) == (3, 2)  # 1.0: together, not one by one


# -- what is refused

LONG = Attention("m", ["t"] * 300, [1], torch.full((1, 12, 300, 300), 1 / 300))
AB = attention("a", "b")


@pytest.mark.parametrize(
    ("call", "said"),
    [
        *((lambda t, n=n: attend(tiny_bert(), t, TEXT, layers=n), "layers 1 to 3")
          for n in ([0], [4], [], [1, 9])),
        (lambda t: attend(tiny_bert(), t, "word " * 130), "position embeddings for 128"),
        (lambda t: attend_all({"x": ElmoForPreTraining(CONFIG)}, t, TEXT), "has no attention"),  # type: ignore[dict-item]
        (lambda t: AttentionView(), "nothing to show"),
        (lambda t: AttentionView(AB, layer=3), "not layer 3, head 1"),
        (lambda t: AttentionView(AB, head=4), "not layer 1, head 4"),
        (lambda t: AttentionView(AB, head=0), "not layer 1, head 0"),
        (lambda t: AttentionView(LONG), "shorter text, or fewer layers"),
        (lambda t: model_view(tiny_bert(), t, "ship " * 80), "82 tokens.* 64 at most"),
        (lambda t: model_view(tiny_bert(), t, " "), "no words"),
        (lambda t: model_view(ElmoForPreTraining(CONFIG), t, TEXT), "has no attention"),
    ],
)  # fmt: skip
def test_errors_say_what_to_do(call: Any, said: str, tokenizer: Tokenizer) -> None:
    with pytest.raises(ValueError, match=said):
        call(tokenizer)


def test_a_page_is_kept_small_and_a_new_bertviz_is_named(
    tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    bert, long = tiny_bert(), "ship " * 50  # 52 tokens: 3 layers of 2 heads make 16,224 weights
    monkeypatch.setattr(bertviz, "MOST_LINES", 16_223)
    with pytest.raises(ValueError, match=r"16,224 lines .* fewer layers with layers=\[1\]"):
        model_view(bert, tokenizer, long)
    model_view(bert, tokenizer, long, layers=[1])
    monkeypatch.setattr(bertviz, "EDITS", [("no such line", "")])
    with pytest.raises(RuntimeError, match="bertviz has changed its script"):
        model_view(bert, tokenizer, TEXT)
