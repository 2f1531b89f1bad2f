"""One machine to walk through: a BERT that computes in the page, each step with its numbers."""

import base64
import hashlib
import html
import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import torch
from matplotlib import pyplot as plt
from matplotlib.colors import LinearSegmentedColormap
from tokenizers import Tokenizer, normalizers

from bertedu.analysis.attention_view import attend, for_script
from bertedu.analysis.fill import BLANK, fill_blanks
from bertedu.analysis.views import BLUE, ORANGE, Picture, guess_panel, heat_map, style
from bertedu.model.bert import BertForPreTraining
from bertedu.model.loading import load_named
from bertedu.results.files import write_atomically

SCRIPTS = [Path(__file__).with_name(name) for name in ("bert.js", "machine_steps.js", "machine.js")]
LOOK = Path(__file__).with_name("machine.css")
MOST_PARAMETERS = 8_000_000  # 21 MB of script: bert-mini fits, bert-base would be 300 MB
MOST_TOKENS = 32  # more rows than that, one under the other, nobody reads
PAGE = (
    "<!doctype html><html lang='en'><meta charset='utf-8'><title>BERT, step by step</title>"
    "<meta name='viewport' content='width=device-width'>"
    "<style>html {{ color-scheme: light dark }} body {{ max-width: 1400px; margin: 1em auto; "
    "padding: 0 1em; font-family: system-ui, sans-serif }}</style>{}</html>\n"
)


def write_weights(checkpoint: str | Path, folder: str | Path = ".") -> Path:
    """Write a checkpoint as a script that `bert.js` reads; return its path.

    ``NAME.weights.js`` holds config, vocabulary and the parameters as 16-bit numbers, in base64: a
    page opened from a disk may load a script that lies beside it, and nothing else. Raises
    ValueError if there is no head that guesses words, the parts are not BERT's own (pre-norm,
    another tokenizer) or there are too many parameters for a page; what `load_named` raises; and
    FileError if the file cannot be written.
    """
    model, tokenizer = _load(checkpoint)
    config = model.config
    tensors = dict(model.state_dict())
    del tensors["mlm.decoder.weight"]  # the token embedding, stored once
    numbers = b"".join(x.half().cpu().numpy().astype("<f2").tobytes() for x in tensors.values())
    vocabulary = tokenizer.get_vocab()
    content = {
        "config": {
            "name": Path(checkpoint).name,
            "layers": config.num_hidden_layers,
            "heads": config.num_attention_heads,
            "eps": config.layer_norm_eps,
            "direction": config.direction,
        },
        "vocab": sorted(vocabulary, key=vocabulary.__getitem__),
        "shapes": [[name, *x.shape] for name, x in tensors.items()],
        "base64": base64.b64encode(numbers).decode(),
    }
    path = Path(folder) / f"{Path(checkpoint).name}.weights.js"
    key = json.dumps(Path(checkpoint).name)
    text = f"(globalThis.bertWeights ??= {{}})[{key}] = {json.dumps(content)};\n"
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        write_atomically(path, text)
    return path


class Machine:
    """A checkpoint that computes in the page; where it cannot, a picture stands there."""

    def __init__(
        self,
        checkpoint: str | Path = "bert-L4H128",
        text: str = "I ask the ___ to pass this bill.",
        layer: int = 1,
        head: int = 1,
        folder: str | Path = ".",
    ) -> None:
        """Start with a text, ``___`` for a blank, at a layer and a head, both counted from 1.

        The weights are written into ``folder``, where the notebook or the page lies (5 MB for the
        default). Raises what `write_weights` does, and ValueError if there is no such layer or
        head, or the text is too long to be shown.
        """
        self.model, self.tokenizer = _load(checkpoint)
        config = self.model.config
        if not (1 <= layer <= config.num_hidden_layers and 1 <= head <= config.num_attention_heads):
            raise ValueError(
                f"{checkpoint} has layers 1 to {config.num_hidden_layers} with heads 1 to "
                f"{config.num_attention_heads}, not layer {layer}, head {head}"
            )
        tokens = self.tokenizer.encode(BLANK.sub("[MASK]", text)).tokens
        if len(tokens) > MOST_TOKENS:
            raise ValueError(
                f"the text has {len(tokens)} tokens, and a walk shows {MOST_TOKENS} at most: take "
                "a shorter text"
            )
        self.checkpoint, self.text, self.layer, self.head = checkpoint, text, layer, head
        self.weights = write_weights(checkpoint, folder)

    @style()
    def picture(self) -> Picture:
        """Return one token's vector layer by layer, what a head attends to, and the guesses."""
        text = BLANK.sub("[MASK]", self.text)
        name = Path(self.checkpoint).name
        shown = attend(self.model.bert, self.tokenizer, text, name, [self.layer])
        tokens = shown.tokens
        place = tokens.index("[MASK]") if "[MASK]" in tokens else min(1, len(tokens) - 1)
        ids = torch.tensor([self.tokenizer.encode(text).ids])
        with torch.no_grad():
            states = torch.stack([x[0, place] for x in self.model.bert(ids).hidden_states])
        figure, (left, middle, right) = plt.subplots(1, 3, figsize=(16, 5), width_ratios=(3, 2, 2))
        colors = LinearSegmentedColormap.from_list("signed", [ORANGE, "white", BLUE])
        top = float(states.abs().quantile(0.99))
        left.imshow(states, cmap=colors, vmin=-top, vmax=top, aspect="auto")
        left.set_yticks(range(len(states)), ["input", *(f"layer {i + 1}" for i in range(len(states) - 1))])
        left.set(title=f"the vector of {tokens[place]}, layer by layer", xlabel="number of the vector")
        left.grid(False)
        heat_map(middle, shown.head(self.layer, self.head), tokens)
        middle.set_title(f"layer {self.layer}, head {self.head}")
        alt = f"{name} reads: {self.text} The vector of {tokens[place]} after each layer, as colors"
        alt += f"; the attention of layer {self.layer}, head {self.head}"
        if BLANK.search(self.text):
            guesses = fill_blanks(self.model, self.tokenizer, self.text)[0]
            guess_panel(right, guesses)
            right.set(title="guesses, %", xlim=(0, 125 * guesses[0].probability))
            alt += f"; and the guesses for the blank, {guesses[0].word} first"
        else:
            right.set_axis_off()
        return Picture(figure, alt + ".")

    def data(self) -> dict[str, Any]:
        """Return what the script starts with."""
        name = Path(self.checkpoint).name
        start = {"layer": self.layer - 1, "head": self.head - 1}
        return {"name": name, "text": self.text, "most": MOST_TOKENS, **start}

    def write_page(self, path: str | Path) -> Path:
        """Write a page of its own, weights beside it: open it from a disk, without a network."""
        path = Path(path)
        write_weights(self.checkpoint, path.parent)
        write_atomically(path, PAGE.format(self._repr_html_()))
        return path

    def _repr_html_(self) -> str:
        data = for_script(self.data())
        name = "machine-" + hashlib.sha256(data.encode()).hexdigest()[:12]
        scripts = "\n".join(path.read_text(encoding="utf-8") for path in SCRIPTS)
        return (
            f'<div class="bertedu-machine" data-view="{name}">{self.picture()._repr_html_()}'
            "<p>A still picture. Run the cell in a notebook, and it becomes a machine to walk "
            "through. In a page without a kernel it does so, too, if "
            f'<a href="{html.escape(quote(self.weights.name))}">{html.escape(self.weights.name)}'
            f"</a> lies beside the page.</p></div><style>{LOOK.read_text(encoding='utf-8')}</style>"
            '<script type="module">'
            f"{scripts}\nconst data = {data};\n"
            f"for (const root of document.querySelectorAll('[data-view=\"{name}\"]'))\n"
            "  startMachine(root, data);\n</script>"
        )

    def __repr__(self) -> str:
        """Return the alt text: what a reader without a browser gets."""
        return self.picture().alt


def _load(checkpoint: str | Path) -> tuple[BertForPreTraining, Tokenizer]:
    """Open a checkpoint that the script can compute, or say why it cannot."""
    model, tokenizer = load_named(checkpoint)
    if not isinstance(model, BertForPreTraining):
        raise ValueError(
            f"{checkpoint} is a {type(model).__name__}, not a BERT with a head that guesses words: "
            "take one of ours, such as bert-L4H128"
        )
    count = sum(x.numel() for x in model.parameters())
    if count > MOST_PARAMETERS:
        raise ValueError(
            f"{checkpoint} has {count:,} parameters, too many for a page ({MOST_PARAMETERS:,} at "
            "most): take a smaller one, such as bert-L4H128"
        )
    normalizer = tokenizer.normalizer
    if model.config.norm != "post" or not (
        isinstance(normalizer, normalizers.BertNormalizer) and normalizer.lowercase
    ):
        raise ValueError(
            f"{checkpoint} is not built as BERT (post-norm, lower-cased WordPiece), and the page "
            "computes nothing else"
        )
    return model.eval(), tokenizer
