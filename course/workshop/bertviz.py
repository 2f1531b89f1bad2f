"""bertviz without a network: head view, model view and neuron view of our own models.

As shipped, bertviz (Vig, 2019) fetches require.js, d3 and jQuery from another host, and is blank
where there is none. Here its scripts are shown with d3 and jQuery out of two installed packages, in
one page. That is 330 KB of other people's code in each view: look at it, export it, but do not
commit it. `without_scripts` takes it out of a notebook and leaves the picture.
"""

import hashlib
import html
import json
import re
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from importlib.resources import files
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from torch import Tensor

from bertedu.analysis.attention_heads import encoder_of
from bertedu.analysis.views import Picture, head_grid, neuron_maps
from bertedu.files import table_beside
from bertedu.model.attention import SelfAttention
from bertedu.model.bert import Bert, BertForPreTraining
from course.workshop.attention_view import Attention, attend, for_script

MOST_TOKENS = 64  # more rows than that, one under the other, nobody reads
MOST_LINES = 20_000  # what the model view draws at once, one line a weight, in about a second
MOST_NUMBERS = 150_000  # weights, queries and keys in one page: about 1 MB
D3_JQUERY = (("mpld3", "js/d3.v5.min.js"), ("xstatic.pkg.jquery", "data/jquery.min.js"))
MARK = "<script data-bertviz>"


class BertvizView:
    """A view of bertviz, kept when exported; where scripts may not run, a picture stands there."""

    def __init__(
        self, kind: str, params: dict[str, Any], picture: Picture, models: str = ""
    ) -> None:
        """Take what bertviz's script reads, the picture that stands in for it, and the HTML of a
        box that chooses whose attention a head view draws."""
        self.kind, self.picture, self.alt = kind, picture, picture.alt
        # a color has 256 shades: four digits are enough
        self._data = for_script(
            json.loads(json.dumps(params), parse_float=lambda number: round(float(number), 4))
        )
        padding = "padding:8px;" if kind == "neuron" else ""
        self._body = (
            f'<p>{VIEWS[kind]["how"]}</p><div class="bertviz" style="{padding}'
            "font-family:'Helvetica Neue', Helvetica, Arial, sans-serif;\">"
            f'<span style="user-select:none">{VIEWS[kind]["choices"]}{models} </span>'
            '<div id="vis"></div></div>'
        )
        self._script = _script(kind)

    def _repr_html_(self) -> str:
        name = f"bertviz-{self.kind}-" + hashlib.sha256(self._data.encode()).hexdigest()[:12]
        libraries = (
            files(package).joinpath(path).read_text(encoding="utf-8") for package, path in D3_JQUERY
        )
        # a notebook page may have `exports`, `module` and `define`: not for these two
        loaded = "\n".join(
            f"(function (exports, module, define) {{ {library}\n}}).call(scope);"
            for library in libraries
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
            f'const params = {self._data};\nparams.root_div_id = root.id = "{name}-" + place;\n'
            'root.dataset.drawn = "yes";\n'
            f"const scope = {{}};\n{loaded}\n"
            "const d3 = scope.d3, $ = window.jQuery.noConflict(true);\n"
            f"root.innerHTML = {for_script(self._body)};\n"
            'root.style.cssText = "background: white; color: black; overflow-x: auto";\n'
            "root.onkeydown = (event) => event.stopPropagation();\n"  # x would cut the cell
            f"{self._script}\n}})();\n</script>"
        )

    def __repr__(self) -> str:
        """Return the alt text: what a reader without a browser gets."""
        return self.alt


def head_view(
    model: Bert | BertForPreTraining | Mapping[str, Bert | BertForPreTraining],
    tokenizer: Tokenizer,
    text: str,
    layers: Sequence[int] | None = None,
    name: str = "the model",
) -> BertvizView:
    """Show all heads of a layer at once: a line from each token to each that it attends to.

    ``layers`` are counted from 1; all of them if left out. The first one is shown at the start.
    Several models of one size, by name, get a box to choose from; the first is shown at the start.

    Raises ValueError if a model has no attention, there is no such layer, the models differ in
    layers or heads, or there are too many tokens or numbers for a page.
    """
    models = dict(model) if isinstance(model, Mapping) else {name: model}
    shown = [_attend(one, tokenizer, text, layers, each) for each, one in models.items()]
    first = shown[0]
    if any(one.weights.shape != first.weights.shape for one in shown):
        raise ValueError("the models differ in layers, heads or tokens: give models of one size")
    _check_size(first, "numbers", len(shown) * first.weights.numel(), MOST_NUMBERS)
    several = len(models) > 1
    params = {
        "attention": [_part(one, name=one.name if several else None) for one in shown],
        "default_filter": "0",
        "heads": None,
        "include_layers": [number - 1 for number in first.layers],
        "layer": first.layers[0] - 1,
    }
    layer = f"layer {first.layers[0]}"
    alt = f"bertviz head view of {', '.join(models)}, {layer}, over {len(first.tokens)} tokens."
    maps = torch.stack([one.weights[0] for one in shown])
    rows = list(models) if several else [layer]
    picture = head_grid(maps, rows, _head_names(first), alt, first.tokens)
    options = "".join(
        f'<option value="{i}">{html.escape(each)}</option>' for i, each in enumerate(models)
    )
    box = f' Model: <select id="filter">{options}</select>' if several else ""
    return BertvizView("head", params, picture, box)


def model_view(
    model: Bert | BertForPreTraining,
    tokenizer: Tokenizer,
    text: str,
    layers: Sequence[int] | None = None,
    name: str = "the model",
) -> BertvizView:
    """Show every head as a small picture; a click makes it large. Raises as `head_view` does."""
    shown = _attend(model, tokenizer, text, layers, name)
    _check_size(shown, "lines", shown.weights.numel(), MOST_LINES)
    heads = _head_names(shown)
    params = {
        "attention": [_part(shown, name=None)],
        "default_filter": "0",
        "display_mode": "light",
        "include_heads": list(range(len(heads))),
        "include_layers": [number - 1 for number in shown.layers],
        "total_heads": max(6, len(heads)),  # two heads would each fill the window
    }
    alt = (
        f"bertviz model view of {name}: {len(heads)} heads in each of the layers "
        f"{', '.join(map(str, shown.layers))}, over {len(shown.tokens)} tokens."
    )
    rows = [f"layer {number}" for number in shown.layers]
    picture = head_grid(shown.weights, rows, heads, alt, shown.tokens)
    return BertvizView("model", params, picture)


def neuron_view(
    model: Bert | BertForPreTraining,
    tokenizer: Tokenizer,
    text: str,
    layers: Sequence[int] | None = None,
    name: str = "the model",
) -> BertvizView:
    """Show where a weight comes from: query, key, their products number by number, softmax.

    The view starts at the first head of the first layer shown. Raises as `head_view` does.
    """
    shown = _attend(model, tokenizer, text, layers, name)
    vectors = queries_and_keys(encoder_of(model), tokenizer, text)
    queries, keys = ([vectors[number - 1][i] for number in shown.layers] for i in (0, 1))
    numbers = shown.weights.numel() + sum(part.numel() for part in queries + keys)
    _check_size(shown, "numbers", numbers, MOST_NUMBERS)
    own = {"queries": [q.tolist() for q in queries], "keys": [k.tolist() for k in keys]}
    params = {
        "attention": {"all": _part(shown, **own)},
        "bidirectional": shown.direction != "left-to-right",
        "default_filter": "all",
        "display_mode": "light",
        "head": 0,
        "layer": 0,
        "layer_names": shown.layers,
    }
    layer = shown.layers[0]
    alt = f"bertviz neuron view of {name}, layer {layer}, head 1, over {len(shown.tokens)} tokens."
    picture = neuron_maps(queries[0][0], keys[0][0], shown.weights[0, 0], shown.tokens, alt)
    return BertvizView("neuron", params, picture)


@torch.no_grad()
def queries_and_keys(bert: Bert, tokenizer: Tokenizer, text: str) -> list[tuple[Tensor, Tensor]]:
    """Return each layer's queries and keys, both (A, S, d): what the weights are made of.

    softmax(queries keysᵀ / √d) gives the weights of the head back.
    """
    vectors: list[tuple[Tensor, Tensor]] = []

    def keep(part: SelfAttention, given: tuple[Tensor, ...]) -> None:
        query, key = part.split_heads(part.query(given[0])), part.split_heads(part.key(given[0]))
        vectors.append((query[0].float().cpu(), key[0].float().cpu()))

    with ExitStack() as hooks:  # which leave the model when the block ends
        for part in bert.modules():
            if isinstance(part, SelfAttention):
                hooks.enter_context(part.register_forward_pre_hook(keep))
        attend(bert, tokenizer, text)
    return vectors


def without_scripts(notebook: Path) -> int:
    """Take bertviz's script out of the outputs of a notebook file; the pictures stay.

    Returns how many outputs were changed. Run it before a commit:
    ``python -m course.workshop.bertviz notebooks/15_reading_attention.ipynb``.
    """
    content = json.loads(notebook.read_text(encoding="utf-8"))
    changed = 0
    for cell in content["cells"]:
        for output in cell.get("outputs", []):
            page = "".join(output.get("data", {}).get("text/html", ""))  # a string, or its lines
            if MARK in page:
                kept = re.sub(re.escape(MARK) + r".*?</script>", "", page, flags=re.DOTALL)
                output["data"]["text/html"] = kept.splitlines(keepends=True)
                changed += 1
    if changed:
        text = json.dumps(content, indent=1, ensure_ascii=False, sort_keys=True) + "\n"
        notebook.write_text(text, encoding="utf-8")
    return changed


# -- what bertviz's scripts are given


def _attend(
    model: Bert | BertForPreTraining,
    tokenizer: Tokenizer,
    text: str,
    layers: Sequence[int] | None,
    name: str,
) -> Attention:
    count = len(tokenizer.encode(text).tokens)
    if count > MOST_TOKENS:
        raise ValueError(
            f"the text has {count} tokens, and a view shows {MOST_TOKENS} at most: "
            "take a shorter text"
        )
    if count <= 2:
        raise ValueError("the text has no words: there is nothing to show")
    return attend(model, tokenizer, text, name, layers)


def _check_size(shown: Attention, what: str, count: int, most: int) -> None:
    if count > most:
        raise ValueError(
            f"{count:,} {what} are too many for one page ({most:,} at most): take a "
            f"shorter text, or fewer layers with layers=[{shown.layers[0]}]"
        )


def _head_names(shown: Attention) -> list[str]:
    return [f"head {number}" for number in range(1, shown.weights.shape[1] + 1)]


def _part(shown: Attention, **more: Any) -> dict[str, Any]:
    tokens = shown.tokens
    return {"attn": shown.weights.tolist(), "left_text": tokens, "right_text": tokens, **more}


# -- bertviz's scripts, and the elements that they fill

VIEWS = table_beside(__file__)
EDITS: Mapping[str, Sequence[Sequence[str]]] = {kind: view["edits"] for kind, view in VIEWS.items()}
BODY = re.compile(r"requirejs\(\['jquery', 'd3'\],\s*function ?\(\$, d3\) \{(.*)\}\);", re.DOTALL)


def _script(kind: str) -> str:
    """Read bertviz's script, without what asks another host for d3 and jQuery."""
    shipped = files("bertviz").joinpath(f"{kind}_view.js").read_text(encoding="utf-8")
    body = BODY.search(shipped)
    script, count = re.subn(r"const params = [^\n]*", "", body[1] if body else "", count=1)
    script = re.sub(r'console\.log\("(d3 version|x)", [^)]*\)', "", script)
    if not count or "</script" in script or any(old not in script for old, _ in EDITS[kind]):
        raise RuntimeError(
            "bertviz has changed its script: install the version this was written for, "
            "bertviz==1.4.1"
        )
    for old, new in EDITS[kind]:
        script = script.replace(old, new)
    return script


if __name__ == "__main__":
    import sys

    for argument in sys.argv[1:]:
        print(f"{argument}: {without_scripts(Path(argument))} outputs without their script")
