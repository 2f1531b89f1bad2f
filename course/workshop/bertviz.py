"""bertviz without a network: the model view of our own models.

As shipped, bertviz (Vig, 2019) fetches require.js, d3 and jQuery from another host, and is blank
where there is none. Here its scripts are shown with d3 and jQuery out of two installed packages, in
one page. That is 330 KB of other people's code in a view: look at it, export it, but do not
commit it. `without_scripts` takes it out of a notebook and leaves the picture.
"""

import html
import json
import re
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from bertedu.analysis.views import Picture, head_grid
from bertedu.files import table_beside
from bertedu.model.bert import Bert, BertForPreTraining
from course.workshop.attention_view import attend
from course.workshop.page import Told, for_script, named

MOST_TOKENS = 64  # more rows than that, one under the other, nobody reads
MOST_LINES = 20_000  # what is drawn at once, one line a weight, in about a second
D3_JQUERY = (("mpld3", "js/d3.v5.min.js"), ("xstatic.pkg.jquery", "data/jquery.min.js"))
MARK = "<script data-bertviz>"


class BertvizView(Told):
    """A view of bertviz, kept when exported; where scripts may not run, a picture stands there."""

    def __init__(self, params: dict[str, Any], picture: Picture) -> None:
        """Take what bertviz's script reads, and the picture that stands in for it."""
        self.picture, self.alt = picture, picture.alt
        # a color has 256 shades: four digits are enough
        self._data = for_script(
            json.loads(json.dumps(params), parse_float=lambda number: round(float(number), 4))
        )
        self._body = (
            f'<p>{TEXTS["how"]}</p><div class="bertviz" style="'
            "font-family:'Helvetica Neue', Helvetica, Arial, sans-serif;\">"
            '<div id="vis"></div></div>'
        )
        self._script = _script()

    def _repr_html_(self) -> str:
        name = named("bertviz-model", self._data)
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
            "<p>A still picture. Run the cell in a notebook, and it becomes bertviz's model "
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


def model_view(
    model: Bert | BertForPreTraining,
    tokenizer: Tokenizer,
    text: str,
    layers: Sequence[int] | None = None,
    name: str = "the model",
) -> BertvizView:
    """Show every head as a small picture; a click makes it large.

    ``layers`` are counted from 1; all of them if left out. Raises ValueError if the model has no
    attention, there is no such layer, or there are too many tokens or lines for a page.
    """
    count = len(tokenizer.encode(text).tokens)
    if count > MOST_TOKENS:
        raise ValueError(
            f"the text has {count} tokens, and a view shows {MOST_TOKENS} at most: "
            "take a shorter text"
        )
    if count <= 2:
        raise ValueError("the text has no words: there is nothing to show")
    shown = attend(model, tokenizer, text, name, layers)
    if (drawn := shown.weights.numel()) > MOST_LINES:
        raise ValueError(
            f"{drawn:,} lines are too many for one page ({MOST_LINES:,} at most): take a "
            f"shorter text, or fewer layers with layers=[{shown.layers[0]}]"
        )
    heads = [f"head {number}" for number in range(1, shown.weights.shape[1] + 1)]
    tokens = shown.tokens
    part = {"attn": shown.weights.tolist(), "left_text": tokens, "right_text": tokens}
    params = {
        "attention": [part | {"name": None}],
        "default_filter": "0",
        "display_mode": "light",
        "include_heads": list(range(len(heads))),
        "include_layers": [number - 1 for number in shown.layers],
        "total_heads": max(6, len(heads)),  # two heads would each fill the window
    }
    alt = (
        f"bertviz model view of {name}: {len(heads)} heads in each of the layers "
        f"{', '.join(map(str, shown.layers))}, over {len(tokens)} tokens."
    )
    rows = [f"layer {number}" for number in shown.layers]
    picture = head_grid(shown.weights, rows, heads, alt, tokens)
    return BertvizView(params, picture)


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


# -- bertviz's script, and the elements that it fills

TEXTS = table_beside(__file__)
EDITS: Sequence[Sequence[str]] = TEXTS["edits"]
BODY = re.compile(r"requirejs\(\['jquery', 'd3'\],\s*function ?\(\$, d3\) \{(.*)\}\);", re.DOTALL)


def _script() -> str:
    """Read bertviz's script, without what asks another host for d3 and jQuery."""
    shipped = files("bertviz").joinpath("model_view.js").read_text(encoding="utf-8")
    body = BODY.search(shipped)
    script, count = re.subn(r"const params = [^\n]*", "", body[1] if body else "", count=1)
    script = re.sub(r'console\.log\("(d3 version|x)", [^)]*\)', "", script)
    if not count or "</script" in script or any(old not in script for old, _ in EDITS):
        raise RuntimeError(
            "bertviz has changed its script: install the version this was written for, "
            "bertviz==1.4.1"
        )
    for old, new in EDITS:
        script = script.replace(old, new)
    return script


if __name__ == "__main__":
    import sys

    for argument in sys.argv[1:]:
        print(f"{argument}: {without_scripts(Path(argument))} outputs without their script")
