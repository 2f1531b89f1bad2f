"""The attention view, as far as Python goes: the right weights, safe HTML, clear errors."""

import base64
import dataclasses
import json
import re
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer
from torch import Tensor

from bertedu.analysis.views import attention_maps, head_grid
from bertedu.model.bert import Bert
from bertedu.model.config import DIRECTIONS, BertConfig
from course.workshop import attention_view
from course.workshop.attention_view import Attention, AttentionView, attend

CONFIG = BertConfig(8192, 16, 3, 2, 32, 64, initializer_range=0.5)
TEXT = "The ship sank in the bay."


@pytest.fixture(scope="module")
def bert() -> Bert:
    torch.manual_seed(0)
    return Bert(CONFIG)


def some(tokens: Sequence[str], layers: int = 2, heads: int = 3, name: str = "m") -> Attention:
    size = len(tokens)
    scores = torch.randn(layers, heads, size, size, generator=torch.Generator().manual_seed(1))
    return Attention(name, list(tokens), list(range(1, layers + 1)), (4 * scores).softmax(-1))


def drawn(view: AttentionView) -> Any:
    """What the script on the page is given."""
    found = re.search(r"\nconst data = (.*);\n", view._repr_html_())
    assert found
    return json.loads(found[1])


def weights_of(data: Any, index: int = 0) -> Tensor:
    view = data["views"][index]
    size = len(view["tokens"])
    raw = torch.frombuffer(bytearray(base64.b64decode(view["weights"])), dtype=torch.uint8)
    return raw.view(len(view["layers"]), view["heads"], size, size) / 255


# -- what a model gives


def test_attend_keeps_the_models_own_weights(bert: Bert, tokenizer: Tokenizer) -> None:
    shown = attend(bert, tokenizer, TEXT)
    encoding = tokenizer.encode(TEXT)
    bert.eval()
    expected = bert(torch.tensor([encoding.ids]), return_attention=True).attention
    assert shown.tokens == encoding.tokens
    assert shown.layers == [1, 2, 3]
    torch.testing.assert_close(shown.weights, torch.cat([w for w in expected if w is not None]))


def test_layers_are_counted_from_one(bert: Bert, tokenizer: Tokenizer) -> None:
    whole, part = attend(bert, tokenizer, TEXT), attend(bert, tokenizer, TEXT, layers=[3, 1])
    assert part.layers == [3, 1]
    assert torch.equal(part.weights, whole.weights[[2, 0]])
    for wrong in ([0], [4], [], [1, 9]):
        with pytest.raises(ValueError, match="layers 1 to 3"):
            attend(bert, tokenizer, TEXT, layers=wrong)


def test_left_to_right_never_looks_right(tokenizer: Tokenizer) -> None:
    torch.manual_seed(0)
    one_way = Bert(dataclasses.replace(CONFIG, direction="left-to-right"))
    assert torch.equal(
        attend(one_way, tokenizer, TEXT).weights.triu(1),
        torch.zeros_like(attend(one_way, tokenizer, TEXT).weights),
    )


def test_attend_switches_dropout_off_and_leaves_the_mode_alone(tokenizer: Tokenizer) -> None:
    torch.manual_seed(0)
    noisy = Bert(dataclasses.replace(CONFIG, dropout=0.5)).train()
    first, second = (attend(noisy, tokenizer, TEXT).weights for _ in range(2))
    assert torch.equal(first, second)
    assert noisy.training


def test_too_long_a_text_names_the_length(bert: Bert, tokenizer: Tokenizer) -> None:
    with pytest.raises(ValueError, match="position embeddings for 64"):
        attend(bert, tokenizer, "word " * 80)


# -- what goes to the page


def test_weights_reach_the_page_to_half_a_byte() -> None:
    shown = some("a b c d".split())
    data = drawn(AttentionView(shown))
    assert (weights_of(data) - shown.weights).abs().max() <= 0.5 / 255 + 1e-6
    assert data["views"][0]["tokens"] == shown.tokens
    assert data["views"][0]["layers"] == [1, 2]


def test_two_models_stand_side_by_side_in_order() -> None:
    one, two = some("a b".split(), name="one"), some("a b c".split(), name="two")
    data = drawn(AttentionView(one, two, layer=2, head=3))
    assert [view["name"] for view in data["views"]] == ["one", "two"]
    assert (weights_of(data, 1) - two.weights).abs().max() < 0.01
    assert [view["start"] for view in data["views"]] == [[1, 2], [1, 2]]  # from 0 in the script


def test_each_model_may_start_at_a_head_of_its_own_and_all_at_one_token() -> None:
    one, two = some("a b".split()), some("a b".split(), name="two")
    view = AttentionView(one, dataclasses.replace(two, layers=[2, 4]), starts=[(1, 3), (4, 2)])
    data = drawn(view)
    assert [part["start"] for part in data["views"]] == [[0, 2], [1, 1]]
    assert data["query"] is None
    assert "two, layer 4, head 2" in view.alt
    held = AttentionView(one, two, layer=2, query=1)
    assert drawn(held)["query"] == 1
    best = one.tokens[int(one.weights[1, 0, 1].argmax())]
    assert f"over 2 tokens; b gives most to {best}." in held.alt


def test_the_page_knows_what_a_mask_hides(tokenizer: Tokenizer) -> None:
    torch.manual_seed(0)
    for direction in DIRECTIONS:
        model = Bert(dataclasses.replace(CONFIG, direction=direction))
        data = drawn(AttentionView(attend(model, tokenizer, TEXT)))
        assert data["views"][0]["direction"] == direction


HOSTILE = ["</script>", "<!--", "<img src=x onerror=alert(1)>", '"', "'", "&amp;", "\\", "\u2028"]


@pytest.mark.parametrize("token", HOSTILE)
def test_no_token_can_leave_the_script_or_the_alt_text(token: str) -> None:
    view = AttentionView(some([token, "b"], name=token))
    page = view._repr_html_()
    assert page.count("<script") == page.count("</script>") == 1
    assert page.count("<img") == 1
    assert "<!--" not in page
    assert drawn(view)["views"][0]["tokens"][0] == token


@given(st.lists(st.text(min_size=1), min_size=1, max_size=4))
def test_any_tokens_survive_the_way_to_the_page(tokens: list[str]) -> None:
    data = AttentionView(some(tokens)).data()
    assert data["views"][0]["tokens"] == tokens
    assert json.loads(json.dumps(data)) == data


def test_the_same_view_gives_the_same_html_and_another_view_another_name() -> None:
    page = AttentionView(some("a b".split()))._repr_html_()
    assert page == AttentionView(some("a b".split()))._repr_html_()

    def name(view: AttentionView) -> str:
        found = re.search(r'data-view="([^"]+)"', view._repr_html_())
        assert found
        return found[1]

    names = {
        name(AttentionView(some("a b".split()), **more)) for more in ({}, {"head": 2}, {"layer": 2})
    }
    assert len(names) == 3


def test_the_page_asks_nobody() -> None:
    page = AttentionView(some("a b".split()))._repr_html_()
    page = re.sub(r"data:image/png;base64,[\w+/=]+", "", page)
    assert not re.search(r"https?:|[\"'`(]//|\bimport\b|\bfetch\(|XMLHttp", page)


def test_where_scripts_do_not_run_there_is_a_picture_with_alt_text() -> None:
    shown = some("the ship sank".split())
    weights = shown.weights.clone()
    weights[1, 2] = torch.tensor([[0.1, 0.8, 0.1], [0.2, 0.3, 0.5], [0.05, 0.95, 0.0]])
    view = AttentionView(dataclasses.replace(shown, weights=weights), layer=2, head=3)
    fallback = view._repr_html_().partition("<script")[0]
    assert 'src="data:image/png;base64,' in fallback
    found = re.search(r'alt="([^"]+)"', fallback)
    assert found
    assert "layer 2, head 3" in found[1]
    assert "from sank to ship" in found[1]  # 0.95, the strongest
    assert repr(view) == found[1]


def test_the_picture_shows_every_head_and_frames_the_chosen_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []

    def record(*given: Any) -> Any:
        asked.append(given)
        return head_grid(*given)

    monkeypatch.setattr(attention_view, "head_grid", record)
    one, two = some("a b c".split()), some("a b c".split(), name="two")
    AttentionView(one, layer=2, head=1).picture()
    weights, rows, columns, _, tokens, chosen = asked[0]
    assert torch.equal(weights, one.weights)
    assert (rows, columns) == (["layer 1", "layer 2"], ["head 1", "head 2", "head 3"])
    assert (tokens, chosen) == (one.tokens, [(1, 0)])
    AttentionView(one, two, starts=[(2, 1), (1, 3)]).picture()
    weights, _, columns, _, _, chosen = asked[1]
    assert torch.equal(weights[:, 3:], two.weights)
    assert columns[3] == "two,\nhead 1"
    assert chosen == [(1, 0), (0, 5)]


def test_models_over_other_tokens_get_a_map_each(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def record(maps: Any, alt: str) -> Any:
        asked.append(maps)
        return attention_maps(maps, alt)

    monkeypatch.setattr(attention_view, "attention_maps", record)
    one, two = some("a b".split()), some("a b c".split(), name="two")
    AttentionView(one, two, layer=2, head=1).picture()
    assert list(asked[0]) == ["m: layer 2, head 1", "two: layer 2, head 1"]
    weights, tokens = asked[0]["two: layer 2, head 1"]
    assert torch.equal(weights, two.weights[1, 0])
    assert tokens == two.tokens


def test_the_text_below_the_picture_is_right_on_a_web_page_too() -> None:
    page = AttentionView(some("a b".split()))._repr_html_()
    assert "Run the cell in a notebook" in page
    assert "Trust" not in page


# -- what is refused


def test_errors_say_what_to_do() -> None:
    shown = some("a b".split())
    with pytest.raises(ValueError, match="nothing to show"):
        AttentionView()
    with pytest.raises(ValueError, match="not layer 3, head 1"):
        AttentionView(shown, layer=3)
    with pytest.raises(ValueError, match="not layer 1, head 4"):
        AttentionView(shown, head=4)
    with pytest.raises(ValueError, match="not layer 1, head 0"):
        AttentionView(shown, head=0)
    with pytest.raises(ValueError, match="1 starts for 2 models"):
        AttentionView(shown, shown, starts=[(1, 1)])
    with pytest.raises(ValueError, match="tokens 0 to 1, not 2"):
        AttentionView(shown, query=2)
    long = Attention("m", ["t"] * 300, [1], torch.full((1, 12, 300, 300), 1 / 300))
    with pytest.raises(ValueError, match="shorter text, or fewer layers"):
        AttentionView(long)
