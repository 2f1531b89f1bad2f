"""bertviz offline, as far as Python goes: the model's own numbers, safe HTML, clear errors."""

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
import torch
from tokenizers import Tokenizer
from torch import Tensor

from bertedu.analysis import views
from bertedu.model.bert import Bert, BertForPreTraining
from bertedu.model.config import BertConfig
from bertedu.model.elmo import ElmoForPreTraining
from course.workshop import bertviz
from course.workshop.attention_view import attend
from course.workshop.bertviz import BertvizView, head_view, model_view, neuron_view

CONFIG = BertConfig(8192, 16, 3, 2, 32, 96, initializer_range=0.5)
TEXT = "The ship sank in the bay."
VIEWS = [head_view, model_view, neuron_view]


@pytest.fixture(scope="module")
def bert() -> Bert:
    torch.manual_seed(0)
    return Bert(CONFIG).eval()


def on_page(view: BertvizView) -> Any:
    """What the script on the page is given."""
    page = view._repr_html_()
    found = re.search(r"^const params = (.*);$", page, re.MULTILINE)
    assert found
    return json.loads(found[1])


def close(one: Any, other: Tensor) -> bool:
    return torch.allclose(torch.tensor(one), other, atol=6e-5)


# -- the model's own numbers


def test_the_head_view_holds_the_models_weights(bert: Bert, tokenizer: Tokenizer) -> None:
    shown = attend(bert, tokenizer, TEXT)
    (data,) = on_page(head_view(bert, tokenizer, TEXT))["attention"]
    assert data["left_text"] == data["right_text"] == shown.tokens
    assert close(data["attn"], shown.weights)


@pytest.mark.parametrize("draw", VIEWS)
def test_chosen_layers_are_the_right_ones(draw: Any, bert: Bert, tokenizer: Tokenizer) -> None:
    whole = attend(bert, tokenizer, TEXT).weights
    data = on_page(draw(bert, tokenizer, TEXT, layers=[2, 3]))
    kept = data["attention"]["all"] if draw is neuron_view else data["attention"][0]
    assert close(kept["attn"], whole[[1, 2]])
    if draw is neuron_view:
        assert data["layer_names"] == [2, 3]
    else:
        assert data["include_layers"] == [1, 2]  # bertviz counts from 0; the page adds 1


def test_a_layer_is_offered_under_its_number_from_one(bert: Bert, tokenizer: Tokenizer) -> None:
    assert ".text(layer + 1)" in head_view(bert, tokenizer, TEXT)._repr_html_()
    assert ".text(config.layers[i] + 1)" in model_view(bert, tokenizer, TEXT)._repr_html_()
    assert ".text(params.layer_names[i])" in neuron_view(bert, tokenizer, TEXT)._repr_html_()


def test_queries_and_keys_make_the_weights(bert: Bert, tokenizer: Tokenizer) -> None:
    weights = attend(bert, tokenizer, TEXT).weights
    data = on_page(neuron_view(bert, tokenizer, TEXT))["attention"]["all"]
    queries, keys = (torch.tensor(data[name]) for name in ("queries", "keys"))
    again = (queries @ keys.transpose(-2, -1) / queries.shape[-1] ** 0.5).softmax(-1)
    torch.testing.assert_close(again, weights, atol=1e-3, rtol=0)
    assert not torch.allclose(queries, keys, atol=0.1)


def test_several_models_are_offered_in_one_head_view(bert: Bert, tokenizer: Tokenizer) -> None:
    torch.manual_seed(3)
    other = Bert(dataclasses.replace(CONFIG, direction="left-to-right")).eval()
    view = head_view({"both <b>": bert, "left": other}, tokenizer, TEXT, layers=[2])
    first, second = on_page(view)["attention"]
    assert (first["name"], second["name"]) == ("both <b>", "left")
    assert close(first["attn"], attend(bert, tokenizer, TEXT, layers=[2]).weights)
    assert close(second["attn"], attend(other, tokenizer, TEXT, layers=[2]).weights)
    page = view._repr_html_()
    assert '<option value=\\"0\\">both &lt;b&gt;' in page.replace("\\u003c", "<")
    assert "left, layer 2" in view.alt
    small = Bert(dataclasses.replace(CONFIG, num_hidden_layers=2))
    with pytest.raises(ValueError, match="models of one size"):
        head_view({"one": bert, "two": small}, tokenizer, TEXT)


def test_a_model_with_heads_on_top_shows_its_encoder(tokenizer: Tokenizer) -> None:
    torch.manual_seed(1)
    whole = BertForPreTraining(CONFIG)
    assert on_page(head_view(whole, tokenizer, TEXT)) == on_page(
        head_view(whole.bert, tokenizer, TEXT)
    )


def test_the_neuron_view_starts_at_the_first_layer_shown(bert: Bert, tokenizer: Tokenizer) -> None:
    view = neuron_view(bert, tokenizer, TEXT, layers=[2, 3])
    assert [on_page(view)[key] for key in ("layer", "head")] == [0, 0]  # the first of each
    assert "layer 2, head 1" in view.alt
    assert on_page(view)["bidirectional"] is True
    one_way = Bert(dataclasses.replace(CONFIG, direction="left-to-right"))
    assert on_page(neuron_view(one_way, tokenizer, TEXT))["bidirectional"] is False


def test_no_hook_stays_in_the_model(bert: Bert, tokenizer: Tokenizer) -> None:
    neuron_view(bert, tokenizer, TEXT)
    assert not any(part._forward_hooks for part in bert.modules())


# -- the page


@pytest.mark.parametrize("draw", VIEWS)
def test_the_page_asks_nobody(draw: Any, bert: Bert, tokenizer: Tokenizer) -> None:
    page = draw(bert, tokenizer, TEXT)._repr_html_()
    page, pictures = re.subn(r'src="data:image/png;base64,[\w+/=]+"', "", page)
    assert pictures == 1
    assert not re.search(
        r'cdn|require\.config|requirejs|<script[^>]*src|@import| src="| href="', page
    )


@pytest.mark.parametrize("draw", VIEWS)
def test_the_same_view_gives_the_same_page(draw: Any, bert: Bert, tokenizer: Tokenizer) -> None:
    page = draw(bert, tokenizer, TEXT)._repr_html_()
    assert page == draw(bert, tokenizer, TEXT)._repr_html_()
    name = re.compile(r'data-view="([^"]+)"')
    other = draw(bert, tokenizer, "The ship sank in the lake.")._repr_html_()
    assert name.findall(page) != name.findall(other)


@pytest.mark.parametrize("token", ["</script>", "<!--", "<img src=x>", '"', "\\", "\u2028", "};"])
@pytest.mark.parametrize("draw", VIEWS)
def test_no_token_can_leave_the_script(
    draw: Any, token: str, bert: Bert, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = bertviz.attend

    def hostile(*args: Any, **kwargs: Any) -> Any:
        shown = original(*args, **kwargs)
        return dataclasses.replace(shown, tokens=[shown.tokens[0], token, *shown.tokens[2:]])

    monkeypatch.setattr(bertviz, "attend", hostile)
    view = draw(bert, tokenizer, TEXT)
    page = view._repr_html_()
    assert page.count("</script") == page.count(bertviz.MARK) == 1
    assert "<" not in page.partition("const params = ")[2].partition("\n")[0]
    data = on_page(view)["attention"]
    shown = data["all"] if draw is neuron_view else data[0]
    assert shown["left_text"][1] == token


@pytest.mark.parametrize("draw", VIEWS)
def test_where_scripts_do_not_run_there_is_a_picture(
    draw: Any, bert: Bert, tokenizer: Tokenizer
) -> None:
    view = draw(bert, tokenizer, TEXT, name="a small one")
    fallback = view._repr_html_().partition("<script")[0]
    assert 'src="data:image/png;base64,' in fallback
    assert f'alt="{view.alt}"' in fallback
    assert "of a small one" in repr(view)
    assert "Run the cell in a notebook" in fallback
    assert "Trust" not in fallback


def test_each_picture_shows_what_its_view_shows(
    bert: Bert, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    grids, neurons = [], []

    def grid(*given: Any) -> Any:
        grids.append(given)
        return views.head_grid(*given)

    def neuron(*given: Any) -> Any:
        neurons.append(given)
        return views.neuron_maps(*given)

    monkeypatch.setattr(bertviz, "head_grid", grid)
    monkeypatch.setattr(bertviz, "neuron_maps", neuron)
    shown = attend(bert, tokenizer, TEXT)
    head_view(bert, tokenizer, TEXT, layers=[2, 3])
    assert torch.equal(grids[0][0], shown.weights[1:2])  # the layer that the view starts with
    assert grids[0][1] == ["layer 2"]
    model_view(bert, tokenizer, TEXT)
    assert torch.equal(grids[1][0], shown.weights)
    assert [given[4] for given in grids] == [shown.tokens] * 2  # words beside the maps
    neuron_view(bert, tokenizer, TEXT, layers=[3, 2])
    query, key, weights, tokens, _ = neurons[0]
    again = (query @ key.T / query.shape[-1] ** 0.5).softmax(-1)
    torch.testing.assert_close(again, shown.weights[2, 0], atol=1e-5, rtol=0)
    assert torch.equal(weights, shown.weights[2, 0])
    assert tokens == shown.tokens


def test_a_notebook_is_committed_without_the_scripts(
    bert: Bert, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    view = head_view(bert, tokenizer, TEXT)
    html = view._repr_html_()
    result = nbformat.v4.new_output("execute_result", {"text/html": html}, execution_count=1)
    other = nbformat.v4.new_output("stream", text="<script data-bertviz> is only said here")
    cells = [nbformat.v4.new_code_cell("x", outputs=[one]) for one in (result, other)]
    path = tmp_path / "a.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    assert bertviz.without_scripts(path) == 1
    kept = nbformat.read(path, as_version=4)
    nbformat.validate(kept)
    assert kept.cells[0].outputs[0].data["text/html"] == html.partition("<script")[0]
    assert kept.cells[1].outputs[0].text == other.text
    assert bertviz.without_scripts(path) == 0


def test_no_committed_notebook_holds_the_scripts() -> None:
    for path in (Path(__file__).parents[3] / "notebooks").glob("*.ipynb"):
        text = path.read_text(encoding="utf-8")
        assert "data-bertviz" not in text, f"python -m course.workshop.bertviz {path}"


# -- what is refused


@pytest.mark.parametrize("draw", VIEWS)
def test_errors_say_what_to_do(draw: Any, bert: Bert, tokenizer: Tokenizer) -> None:
    with pytest.raises(ValueError, match=r"82 tokens, and a view shows 64 at most: take a shorter"):
        draw(bert, tokenizer, "ship " * 80)
    with pytest.raises(ValueError, match="no words"):
        draw(bert, tokenizer, " ")
    with pytest.raises(ValueError, match="layers 1 to 3"):
        draw(bert, tokenizer, TEXT, layers=[4])
    torch.manual_seed(0)
    with pytest.raises(ValueError, match="ElmoForPreTraining has no attention"):
        draw(ElmoForPreTraining(CONFIG), tokenizer, TEXT)


def test_a_page_is_kept_small(
    bert: Bert, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = "ship " * 50  # 52 tokens: 3 layers of 2 heads make 16,224 weights
    monkeypatch.setattr(bertviz, "MOST_LINES", 16_223)
    with pytest.raises(ValueError, match=r"16,224 lines .* fewer layers with layers=\[1\]"):
        model_view(bert, tokenizer, long)
    model_view(bert, tokenizer, long, layers=[1])
    monkeypatch.setattr(bertviz, "MOST_NUMBERS", 16_224)
    head_view(bert, tokenizer, long)
    with pytest.raises(ValueError, match=r"numbers are too many .* layers=\[1\]"):
        neuron_view(bert, tokenizer, long)  # queries and keys come on top
    with pytest.raises(ValueError, match="32,448 numbers are too many"):
        head_view({"one": bert, "two": bert}, tokenizer, long)


def test_a_new_bertviz_is_named(
    bert: Bert, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bertviz, "EDITS", {"head": [("no such line", "")]})
    with pytest.raises(RuntimeError, match="bertviz has changed its script"):
        head_view(bert, tokenizer, TEXT)
