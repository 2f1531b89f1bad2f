"""What stays of an output when its kernel is gone: a picture or a line of text, no dead widget.

JupyterLab calls `on_save` for every notebook that it saves, by `binder/jupyter_server_config.py`;
``python -m course.workshop.stills NOTEBOOK…`` does the same to files.
"""

import re
import sys
from typing import Any

import nbformat

VIEW = "application/vnd.jupyter.widget-view+json"
BAR = re.compile(r"^(.*?):? *\d+%\|.*?/ ?([\d.,]+\w*) ")  # what tqdm prints: a name, and how many


def still(notebook: Any) -> Any:
    """Take what needs a running Python out of a notebook, and return it.

    A widget leaves the HTML or the text that it brings; a progress bar, how much there was to do.
    """
    notebook["metadata"].pop("widgets", None)  # for its sake a page would ask other hosts
    for cell in notebook["cells"]:
        for output in list(cell.get("outputs", [])):
            data = output.get("data", {})
            if data.pop(VIEW, None) is None or "text/html" in data:
                continue
            plain = "".join(data.get("text/plain", ""))
            if bar := BAR.match(plain):
                data["text/plain"] = f"{bar[1] or 'progress bar'}: {bar[2]}"
            else:
                cell["outputs"].remove(output)
    return notebook


def on_save(model: Any, **_: Any) -> None:
    """Put stills in place of widgets in what is about to be written; the open page keeps them."""
    if model["type"] == "notebook" and model.get("content"):
        still(model["content"])


if __name__ == "__main__":
    for name in sys.argv[1:]:
        nbformat.write(still(nbformat.read(name, as_version=4)), name)
