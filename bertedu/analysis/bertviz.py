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
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from tokenizers import Tokenizer
from torch import Tensor, nn

from bertedu.analysis.attention_view import Attention, attend, for_script
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

    def __init__(
        self,
        kind: str,
        page: str,
        params: dict[str, Any],
        picture: Picture,
        offered: Sequence[str] = (),
    ) -> None:
        """Take what bertviz returned, its parameters, and the picture that stands in for it.

        ``offered`` are names for a box that chooses whose attention a head view draws.
        """
        self.kind, self.params, self.picture, self.alt = kind, params, picture, picture.alt
        self._body, self._script = _parts(kind, page)
        if offered:
            options = "".join(
                f'<option value="{i}">{html.escape(name)}</option>'
                for i, name in enumerate(offered)
            )
            box = f'{LAYERS} Model: <select id="filter">{options}</select>'
            own_box = r'Attention: <select id="filter">.*?</select>'
            self._body = re.sub(own_box, "", self._body, flags=re.S).replace(LAYERS, box)

    def _repr_html_(self) -> str:
        data = for_script(self.params)
        name = f"bertviz-{self.kind}-" + hashlib.sha256(data.encode()).hexdigest()[:12]
        libraries = "\n".join(
            # a notebook page may have `exports`, `module` and `define`: not for these two
            f"(function (exports, module, define) {{ {_library(name)}\n}}).call(scope);"
            for name in SCRIPTS
        )
        return (
            f'<div class="bertedu-bertviz" data-view="{name}" role="group" '
            f'aria-label="{html.escape(self.alt)}">{self.picture._repr_html_()}'
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
            f"root.innerHTML = {for_script(self._body)};\n"
            'root.style.cssText = "background: white; color: black; overflow-x: auto";\n'
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

    Raises ValueError if a model has no attention, there is no such layer, the models differ in
    layers or heads, or there are too many tokens or numbers for a page.
    """
    from bertviz import head_view as draw

    models = dict(model) if isinstance(model, Mapping) else {name: model}
    several = len(models) > 1
    shown, parts = [], []
    for each, one in models.items():
        attention, start_b = _attend(one, tokenizer, text, pair, layers, each)
        page, params = _draw(draw, attention, start_b)
        shown.append(attention)
        parts.append(params)
    first = shown[0]
    if any(one.weights.shape != first.weights.shape for one in shown):
        raise ValueError("the models differ in layers, heads or tokens: give models of one size")
    numbers = len(shown) * first.weights.numel() * (2 if pair else 1)
    _check_size(first, "numbers", numbers, MOST_NUMBERS)
    params = parts[0] | {"layer": first.layers[0] - 1}
    if several:
        params["attention"] = [
            part | {"name": each if part["name"] is None else f"{each}, {part['name']}"}
            for each, own in zip(models, parts, strict=True)
            for part in own["attention"]
        ]
    layer = f"layer {first.layers[0]}"
    alt = f"bertviz head view of {', '.join(models)}, {layer}, over {len(first.tokens)} tokens."
    maps = torch.stack([one.weights[0] for one in shown])
    rows = list(models) if several else [layer]
    picture = head_grid(maps, rows, _head_names(first), alt, first.tokens)
    offered = [part["name"] for part in params["attention"]] if several else ()
    return BertvizView("head", page, params, picture, offered)


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
    _check_size(shown, "lines", lines, MOST_LINES)
    _check_size(shown, "numbers", lines * (2 if pair else 1), MOST_NUMBERS)
    page, params = _draw(draw, shown, start_b, display_mode="light")
    heads = _head_names(shown)
    params["total_heads"] = max(6, len(heads))  # two heads would each fill the window
    alt = (
        f"bertviz model view of {name}: {len(heads)} heads in each of the layers "
        f"{', '.join(map(str, shown.layers))}, over {len(shown.tokens)} tokens."
    )
    rows = [f"layer {number}" for number in shown.layers]
    picture = head_grid(shown.weights, rows, heads, alt, shown.tokens)
    return BertvizView("model", page, params, picture)


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
    Raises ValueError as `head_view` does, or if the view does not hold that layer or head.
    """
    from bertviz import neuron_view as bertviz_neuron

    shown, start_b = _attend(model, tokenizer, text, pair, layers, name)
    layer = shown.layers[0] if layer is None else layer
    heads, count = shown.weights.shape[1], len(shown.tokens)
    if layer not in shown.layers or not 1 <= head <= heads:
        raise ValueError(
            f"the view holds layers {shown.layers} with heads 1 to {heads}, "
            f"not layer {layer}, head {head}"
        )
    vectors = queries_and_keys(encoder_of(model), tokenizer, text, pair)
    chosen = [vectors[number - 1] for number in shown.layers]
    numbers = shown.weights.numel() + sum(q.numel() + k.numel() for q, k in chosen)
    _check_size(shown, "numbers", numbers * (2 if pair else 1), MOST_NUMBERS)
    answer = _Answer(
        {"attn": weights[None], "queries": queries[None], "keys": keys[None]}
        for weights, (queries, keys) in zip(shown.weights, chosen, strict=True)
    )
    cut = start_b or count
    place = shown.layers.index(layer)
    page = bertviz_neuron.show(
        answer,
        "bert",
        PIECES,
        shown.tokens[1 : cut - 1],  # bertviz puts [CLS] and [SEP] around them again
        shown.tokens[cut:-1] or None,
        display_mode="light",
        layer=place,
        head=head - 1,
        html_action="return",
    ).data
    params = _params(page)
    params["layer_names"] = shown.layers
    params["bidirectional"] = shown.direction != "left-to-right"
    alt = f"bertviz neuron view of {name}, layer {layer}, head {head}, over {count} tokens."
    queries, keys = (vectors[head - 1] for vectors in chosen[place])
    picture = neuron_maps(queries, keys, shown.head(layer, head), shown.tokens, alt)
    return BertvizView("neuron", page, params, picture)


def encoder_of(model: nn.Module) -> Bert:
    """Return the encoder of a model: itself, or what its heads stand on.

    Raises ValueError if it has none. ELMo is made of LSTMs.
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
    vectors: list[tuple[Tensor, Tensor]] = []

    def keep(part: SelfAttention, given: tuple[Tensor, ...]) -> None:
        query, key = part.split_heads(part.query(given[0])), part.split_heads(part.key(given[0]))
        vectors.append((query[0].float().cpu(), key[0].float().cpu()))

    parts = [part for part in bert.modules() if isinstance(part, SelfAttention)]
    hooks = [part.register_forward_pre_hook(keep) for part in parts]
    try:
        attend(bert, tokenizer, text, pair)
    finally:
        for hook in hooks:
            hook.remove()
    return vectors


def without_scripts(notebook: Path) -> int:
    """Take bertviz's script out of the outputs of a notebook file; the pictures stay.

    Returns how many outputs were changed. Run it before a commit:
    ``python -m bertedu.analysis.bertviz notebooks/15_reading_attention.ipynb``.
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


# in place of a tokenizer: the text is word pieces already, and nobody looks at their numbers
PIECES = SimpleNamespace(
    cls_token="[CLS]",
    sep_token="[SEP]",
    tokenize=list,
    convert_tokens_to_ids=lambda p: [0] * len(p),
)


class _Answer(nn.Module):
    """In place of a model: bertviz calls it, and gets what ours has computed already."""

    def __init__(self, records: Iterable[dict[str, Tensor]]) -> None:
        super().__init__()
        self.records = list(records)

    def forward(self, ids: Tensor, token_type_ids: Tensor | None = None) -> Any:
        return (self.records,)


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


def _check_size(shown: Attention, what: str, count: int, most: int) -> None:
    if count > most:
        raise ValueError(
            f"{count:,} {what} are too many for one page ({most:,} at most): take a "
            f"shorter text, or fewer layers with layers=[{shown.layers[0]}]"
        )


def _head_names(shown: Attention) -> list[str]:
    return [f"head {number}" for number in range(1, shown.weights.shape[1] + 1)]


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


def _draw(
    draw: Callable[..., Any], shown: Attention, start_b: int | None, **options: str
) -> tuple[str, dict[str, Any]]:
    """Return the page of bertviz's head or model view, and its parameters."""
    weights = list(shown.weights[:, None])  # (1, A, S, S) for each layer
    page = draw(weights, shown.tokens, start_b, html_action="return", **options).data
    return page, _params(page) | {"include_layers": [layer - 1 for layer in shown.layers]}


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
