"""bertviz without a network: head view, model view and neuron view of our own models.

As shipped, bertviz (Vig, 2019) fetches require.js, d3 and jQuery from another host, and is blank
where there is none. Here its script gets d3 and jQuery out of two installed packages, and they go
into the page with it. That is 330 KB of other people's code in each view: look at it, export it,
but do not commit it. `without_scripts` takes it out of a notebook and leaves the picture.
"""

import hashlib
import html
import importlib
import json
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from torch import Tensor, nn

from bertedu.analysis.attention_view import Attention, attend
from bertedu.analysis.views import Picture, head_grid, neuron_maps
from bertedu.model.attention import SelfAttention
from bertedu.model.bert import Bert, BertForPreTraining

MOST_TOKENS = 64  # more rows than that, one under the other, nobody reads
MOST_LINES = 20_000  # what the model view draws at once, one line a weight, in about a second
MOST_NUMBERS = 150_000  # weights, queries and keys in one page: about 1 MB
SCRIPTS = {
    "d3": ("mpld3", "js/d3.v5.min.js"),
    "jQuery": ("xstatic.pkg.jquery", "data/jquery.min.js"),
}
MARK = "<script data-bertviz>"
LAYERS = '<select id="layer"></select>'  # where bertviz's head view offers its layers


class BertvizView:
    """A view of bertviz that a notebook shows as the last line of a cell, and keeps when exported.

    Where scripts may not run, in a notebook that is not trusted yet, a picture stands there.
    """

    def __init__(self, kind: str, page: str, params: dict[str, Any], picture: Picture) -> None:
        """Take what bertviz returned, its parameters, and the picture that stands in for it."""
        self.kind, self.params, self._picture = kind, params, picture
        self.alt = picture.alt
        self._body, self._script = _parts(kind, page)

    def offer(self, names: Sequence[str]) -> None:
        """Put a box into a head view that chooses whose attention is drawn."""
        options = "".join(
            f'<option value="{i}">{html.escape(name)}</option>' for i, name in enumerate(names)
        )
        body = re.sub(r'Attention: <select id="filter">.*?</select>', "", self._body, flags=re.S)
        box = f'{LAYERS} Model: <select id="filter">{options}</select>'
        self._body = body.replace(LAYERS, box)

    def picture(self) -> Picture:
        """Return the picture that stands there where scripts do not run."""
        return self._picture

    def _repr_html_(self) -> str:
        # "<" is escaped, so that no token can end the script
        data = json.dumps(self.params, sort_keys=True).replace("<", "\\u003c")
        name = f"bertviz-{self.kind}-" + hashlib.sha256(data.encode()).hexdigest()[:12]
        body = json.dumps(self._body).replace("<", "\\u003c")
        libraries = "\n".join(
            # a notebook page may have `exports`, `module` and `define`: not for these two
            f"(function (exports, module, define) {{ {_library(name)}\n}}).call(scope);"
            for name in SCRIPTS
        )
        return (
            f'<div class="bertedu-bertviz" data-view="{name}" role="group" '
            f'aria-label="{html.escape(self.alt)}">{self._picture._repr_html_()}'
            f"<p>A still picture. Run the cell in a notebook, and it becomes bertviz's {self.kind} "
            "view.</p></div>"
            f"{MARK}\n(function () {{\n"
            f"const copies = document.querySelectorAll('[data-view=\"{name}\"]');\n"
            "const place = Array.from(copies).findIndex((copy) => !copy.dataset.drawn);\n"
            "if (place < 0) return;\nconst root = copies[place];\n"
            f'const params = {data};\nparams.root_div_id = root.id = "{name}-" + place;\n'
            'root.dataset.drawn = "yes";\n'
            f"const scope = {{}};\n{libraries}\n"
            "const d3 = scope.d3, $ = window.jQuery.noConflict(true);\n"
            f'root.innerHTML = {body};\nroot.style.cssText = "background: white; color: black; '
            f'overflow-x: auto";\n'
            f"{self._script}\n}})();\n</script>"
        )

    def __repr__(self) -> str:
        """Return the alt text: what a reader without a browser gets."""
        return self.alt


def head_view(
    model: Bert | BertForPreTraining | Mapping[str, Bert | BertForPreTraining],
    tokenizer: Tokenizer,
    text: str,
    pair: str | None = None,
    layers: Sequence[int] | None = None,
    name: str = "the model",
) -> BertvizView:
    """Show all heads of a layer at once: a line from each token to each that it attends to.

    ``layers`` are counted from 1; all of them if left out. The first one is shown at the start.
    Several models of one size, by name, get a box to choose from; the first is shown at the start.

    Raises
    ------
    ValueError
        A model has no attention, there is no such layer, the models differ in layers or heads, or
        there are too many tokens or numbers for a page.

    """
    from bertviz import head_view as draw

    models = dict(model) if isinstance(model, Mapping) else {name: model}
    shown, parts = [], []
    for each, one in models.items():
        found, start_b = _attend(one, tokenizer, text, pair, layers, each)
        shown.append(found)
        places = [layer - 1 for layer in found.layers]
        page = draw(
            _by_place(found), found.tokens, start_b, include_layers=places, html_action="return"
        )
        parts.append(_params(page.data))
    if len({tuple(found.weights.shape) for found in shown}) != 1:
        raise ValueError("the models differ in layers, heads or tokens: give models of one size")
    first = shown[0]
    _check_size(first, len(shown) * first.weights.numel() * (2 if pair else 1))
    params = parts[0] | {"layer": first.layers[0] - 1}
    if len(models) > 1:
        params["attention"] = [
            part | {"name": each if part["name"] is None else f"{each}, {part['name']}"}
            for each, found in zip(models, parts, strict=True)
            for part in found["attention"]
        ]
    names = ", ".join(models)
    alt = f"bertviz head view of {names}, layer {first.layers[0]}, over {len(first.tokens)} tokens."
    heads = [f"head {head}" for head in range(1, first.weights.shape[1] + 1)]
    rows = list(models) if len(models) > 1 else [f"layer {first.layers[0]}"]
    maps = torch.stack([found.weights[0] for found in shown])
    view = BertvizView("head", page.data, params, head_grid(maps, rows, heads, alt, first.tokens))
    if len(models) > 1:
        view.offer([part["name"] for part in params["attention"]])
    return view


def model_view(
    model: Bert | BertForPreTraining,
    tokenizer: Tokenizer,
    text: str,
    pair: str | None = None,
    layers: Sequence[int] | None = None,
    name: str = "the model",
) -> BertvizView:
    """Show every head of the chosen layers as a small picture; a click makes it large.

    Raises as `head_view` does.
    """
    from bertviz import model_view as draw

    shown, start_b = _attend(model, tokenizer, text, pair, layers, name)
    lines = shown.weights.numel()
    if lines > MOST_LINES:
        raise ValueError(
            f"{lines:,} lines are too many for one page ({MOST_LINES:,} at most): take a shorter "
            f"text, or fewer layers with layers=[{shown.layers[0]}]"
        )
    _check_size(shown, lines * (2 if pair else 1))
    places = [layer - 1 for layer in shown.layers]
    page = draw(
        _by_place(shown),
        shown.tokens,
        start_b,
        include_layers=places,
        display_mode="light",
        html_action="return",
    )
    params = _params(page.data)
    params["total_heads"] = max(6, shown.weights.shape[1])  # two heads would each fill the window
    alt = (
        f"bertviz model view of {name}: {shown.weights.shape[1]} heads in each of the layers "
        f"{', '.join(map(str, shown.layers))}, over {len(shown.tokens)} tokens."
    )
    rows = [f"layer {number}" for number in shown.layers]
    heads = [f"head {number}" for number in range(1, shown.weights.shape[1] + 1)]
    picture = head_grid(shown.weights, rows, heads, alt, shown.tokens)
    return BertvizView("model", page.data, params, picture)


def neuron_view(
    model: Bert | BertForPreTraining,
    tokenizer: Tokenizer,
    text: str,
    pair: str | None = None,
    layers: Sequence[int] | None = None,
    layer: int | None = None,
    head: int = 1,
    name: str = "the model",
) -> BertvizView:
    """Show where a weight comes from: query, key, their products number by number, softmax.

    The view starts at ``layer`` (the first one shown, if left out) and ``head``, both from 1.

    Raises
    ------
    ValueError
        As `head_view`; or the view does not hold that layer or head.

    """
    from bertviz import neuron_view as bertviz_neuron

    shown, start_b = _attend(model, tokenizer, text, pair, layers, name)
    layer = shown.layers[0] if layer is None else layer
    heads = shown.weights.shape[1]
    if layer not in shown.layers or not 1 <= head <= heads:
        raise ValueError(
            f"the view holds layers {shown.layers} with heads 1 to {heads}, "
            f"not layer {layer}, head {head}"
        )
    vectors = queries_and_keys(encoder_of(model), tokenizer, text, pair)
    chosen = [vectors[number - 1] for number in shown.layers]
    both = sum(queries.numel() + keys.numel() for queries, keys in chosen)
    _check_size(shown, (shown.weights.numel() + both) * (2 if pair else 1))
    records = [
        {"attn": weights[None], "queries": queries[None], "keys": keys[None]}
        for weights, (queries, keys) in zip(shown.weights, chosen, strict=True)
    ]
    cut = start_b or len(shown.tokens)
    page = bertviz_neuron.show(
        _Answer(records),
        "bert",
        _Pieces(),
        shown.tokens[1 : cut - 1],  # bertviz puts [CLS] and [SEP] around them again
        shown.tokens[cut:-1] or None,
        display_mode="light",
        layer=shown.layers.index(layer),
        head=head - 1,
        html_action="return",
    )
    params = _params(page.data)
    params["layer_names"] = shown.layers
    params["bidirectional"] = encoder_of(model).config.direction != "left-to-right"
    place = shown.layers.index(layer)
    alt = (
        f"bertviz neuron view of {name}, layer {layer}, head {head}, over {len(shown.tokens)} "
        "tokens."
    )
    queries, keys = (numbers[head - 1] for numbers in chosen[place])
    picture = neuron_maps(queries, keys, shown.weights[place, head - 1], shown.tokens, alt)
    return BertvizView("neuron", page.data, params, picture)


def encoder_of(model: nn.Module) -> Bert:
    """Return the encoder of a model: itself, or what its heads stand on.

    Raises
    ------
    ValueError
        It has none. ELMo is made of LSTMs.

    """
    bert = model if isinstance(model, Bert) else getattr(model, "bert", None)
    if not isinstance(bert, Bert):
        raise ValueError(
            f"a {type(model).__name__} has no attention to show: give a Bert, or a model on one"
        )
    return bert


@torch.no_grad()
def queries_and_keys(
    bert: Bert, tokenizer: Tokenizer, text: str, pair: str | None = None
) -> list[tuple[Tensor, Tensor]]:
    """Return each layer's queries and keys, both (A, S, d): what the weights are made of.

    softmax(queries keysᵀ / √d) gives the weights of the head back.
    """
    caught: list[Tensor] = []
    sizes = (bert.config.num_attention_heads, -1)

    def catch(module: nn.Module, given: Any, made: Tensor) -> None:
        heads: Tensor = made[0].unflatten(-1, sizes)  # type: ignore[no-untyped-call]
        caught.append(heads.transpose(0, 1).float().cpu())

    parts = [part for part in bert.modules() if isinstance(part, SelfAttention)]
    hooks = [  # query is called before key
        module.register_forward_hook(catch) for part in parts for module in (part.query, part.key)
    ]
    try:
        attend(bert, tokenizer, text, pair)
    finally:
        for hook in hooks:
            hook.remove()
    return list(zip(caught[::2], caught[1::2], strict=True))


def without_scripts(notebook: Path) -> int:
    """Take bertviz's script out of the outputs of a notebook file; the pictures stay.

    Returns how many outputs were changed. Run it before a commit:
    ``python -m bertedu.analysis.attention notebooks/15_reading_attention.ipynb``.
    """
    content = json.loads(notebook.read_text(encoding="utf-8"))
    changed = 0
    for cell in content["cells"]:
        for output in cell.get("outputs", []):
            page = output.get("data", {}).get("text/html", "")
            whole = page if isinstance(page, str) else "".join(page)
            if MARK in whole:
                kept = re.sub(re.escape(MARK) + r".*?</script>", "", whole, flags=re.DOTALL)
                output["data"]["text/html"] = kept.splitlines(keepends=True)
                changed += 1
    if changed:
        text = json.dumps(content, indent=1, ensure_ascii=False, sort_keys=True) + "\n"
        notebook.write_text(text, encoding="utf-8")
    return changed


# -- what bertviz is given


class _Answer:
    """In place of a model: bertviz calls it, and gets what ours has computed already."""

    def __init__(self, records: list[dict[str, Tensor]]) -> None:
        self.records = records

    def eval(self) -> None:
        """Do nothing: the weights are there."""

    def __call__(self, ids: Tensor, token_type_ids: Tensor | None = None) -> Any:
        return (self.records,)


class _Pieces:
    """In place of a tokenizer: the text is word pieces already."""

    cls_token, sep_token = "[CLS]", "[SEP]"

    def tokenize(self, pieces: list[str]) -> list[str]:
        """Return the pieces."""
        return pieces

    def convert_tokens_to_ids(self, pieces: list[str]) -> list[int]:
        """Return as many numbers; nobody looks at them."""
        return [0] * len(pieces)


def _attend(
    model: Bert | BertForPreTraining,
    tokenizer: Tokenizer,
    text: str,
    pair: str | None,
    layers: Sequence[int] | None,
    name: str,
) -> tuple[Attention, int | None]:
    """Return the weights, and where the second text begins."""
    encoding = tokenizer.encode(text, pair)
    count = len(encoding.tokens)
    if count > MOST_TOKENS:
        raise ValueError(
            f"the text has {count} tokens, and a view shows {MOST_TOKENS} at most: "
            "take a shorter text"
        )
    if count <= (3 if pair is not None else 2):
        raise ValueError("the text has no words: there is nothing to show")
    shown = attend(encoder_of(model), tokenizer, text, pair, name, layers)
    return shown, encoding.type_ids.index(1) if pair is not None else None


def _check_size(shown: Attention, numbers: int) -> None:
    if numbers > MOST_NUMBERS:
        raise ValueError(
            f"{numbers:,} numbers are too many for one page ({MOST_NUMBERS:,} at most): take a "
            f"shorter text, or fewer layers with layers=[{shown.layers[0]}]"
        )


def _by_place(shown: Attention) -> list[Tensor]:
    """One tensor (1, A, S, S) for each layer from the first on: bertviz chooses by place."""
    blank = torch.zeros_like(shown.weights[:1])
    found = [blank] * max(shown.layers)
    for layer, weights in zip(shown.layers, shown.weights, strict=True):
        found[layer - 1] = weights[None]
    return found


# -- what bertviz gives back


def _library(name: str) -> str:
    package, path = SCRIPTS[name]
    try:
        return files(importlib.import_module(package)).joinpath(path).read_text(encoding="utf-8")
    except (ImportError, OSError) as error:
        raise RuntimeError(
            f"{name} is missing, which bertviz draws with ({error}): "
            "pip install mpld3 XStatic-jQuery"
        ) from None


PARAMS = re.compile(r"(?:const params|window\.bertviz_params) = (?=\{)")
BODY = re.compile(r"requirejs\(\['jquery', 'd3'\],\s*function ?\(\$, d3\) \{(.*)\}\);", re.DOTALL)
# bertviz counts layers and heads from 0; the paper, and this course, from 1
EDITS: Mapping[str, Sequence[tuple[str, str]]] = {
    "head": [("val(layer).text(layer)", "val(layer).text(layer + 1)")],
    "model": [
        (".text(config.heads[i])", ".text(config.heads[i] + 1)"),
        (".text(config.layers[i])", ".text(config.layers[i] + 1)"),
        (
            "'Layer ' + config.layers[layerIndex] + \", Head \" + config.heads[headIndex]",
            "`Layer ${config.layers[layerIndex] + 1}, head ${config.heads[headIndex] + 1}`",
        ),
        ('console.log("x", x, y)', ""),
        (  # on a narrow page it shrinks as a whole; as shipped, the last layer is cut off
            '.attr("width", DIV_WIDTH)',
            '.attr("viewBox", `0 0 ${DIV_WIDTH} ${config.divHeight}`).attr("width", DIV_WIDTH)'
            '.style("max-width", "100%").style("height", "auto")',
        ),
    ],
    "neuron": [
        (
            'layerSelect.append($("<option />").val(i).text(i))',
            'layerSelect.append($("<option />").val(i).text(params.layer_names[i]))',
        ),
        (
            'headSelect.append($("<option />").val(i).text(i))',
            'headSelect.append($("<option />").val(i).text(i + 1))',
        ),
        # wider than many pages: one scrolls, and loses nothing at the right
        ('.attr("width", "100%")', '.attr("width", "100%").style("min-width", "1040px")'),
    ],
}
HELP = {
    "head": "Point at a token: left attends, right is attended to. Each square is a head, from the "
    "left: click to hide or show it, double-click for it alone.",
    "model": "A row a layer, a column a head. Click on a head to see its tokens; click again to "
    "close it.",
    "neuron": "Point at a token, then click on its plus sign: query × key, number by number, adds "
    "up to q · k; softmax makes it the weight.",
}


def _params(page: str) -> dict[str, Any]:
    """Read the parameters out of bertviz's page; numbers rounded, since a color has 256 shades."""
    found = PARAMS.search(page)
    if found is None:
        raise _changed("the parameters")
    decoder = json.JSONDecoder(parse_float=lambda number: round(float(number), 4))
    params: dict[str, Any] = decoder.raw_decode(page, found.end())[0]
    del params["root_div_id"]  # random, and a page may show a view twice
    return params


def _parts(kind: str, page: str) -> tuple[str, str]:
    """Cut bertviz's page into what it shows and what it runs; drop whatever asks another host."""
    body = page.partition("</script>")[2].partition("<script")[0].strip()
    body = re.sub(r"<div id=\S+", '<div class="bertviz"', body, count=1)
    found = BODY.search(page)
    if found is None:
        raise _changed("the way it loads d3")
    script, count = re.subn(r"const params = [^\n]*", "", found[1], count=1)
    for old, new in [*EDITS[kind], ('console.log("d3 version", d3.version)', "")]:
        if old in script:
            script = script.replace(old, new)
        elif "console" not in old:
            count = 0
    if not count or "</script" in script:
        raise _changed("its script")
    return f"<p>{HELP[kind]}</p>{body}", script


def _changed(what: str) -> RuntimeError:
    return RuntimeError(
        f"bertviz has changed {what}: install the version this was written for, bertviz==1.4.1"
    )


if __name__ == "__main__":
    import sys

    for argument in sys.argv[1:]:
        print(f"{argument}: {without_scripts(Path(argument))} outputs without their script")
