"""One machine to walk through: a BERT that computes in the page, each step with its numbers."""

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

import torch
from matplotlib import pyplot as plt
from matplotlib.colors import LinearSegmentedColormap
from tokenizers import Tokenizer, normalizers
from torch import Tensor

from bertedu.analysis.fill import BLANK, fill_blanks
from bertedu.analysis.views import BLUE, ORANGE, Picture, guess_panel, heat_map, style
from bertedu.files import write_atomically
from bertedu.model.bert import BertForPreTraining
from bertedu.model.checkpoints import load_named
from bertedu.model.config import BertConfig
from bertedu.model.inference import evaluating
from course.workshop.attention_view import attend
from course.workshop.page import Told, alive

HERE = Path(__file__).parent
PARTS = ("machine.css", "bert.js", "machine_steps.js", "machine.js")
MOST_PARAMETERS = 8_000_000  # 21 MB of script: bert-mini fits; bert-base would take 300 MB
MOST_TOKENS = 32  # more rows than that, one under the other, nobody reads


def write_weights(checkpoint: str | Path, folder: str | Path = ".") -> Path:
    """Write a checkpoint as a script that `bert.js` reads, NAME.weights.js; return its path.

    Raises what `load_named` and `write_tensors` do; ValueError if no head guesses words.
    """
    model, tokenizer = _load(checkpoint)
    tensors = dict(model.state_dict())
    del tensors["mlm.decoder.weight"]  # the token embedding, stored once
    return write_tensors(Path(checkpoint).name, tensors, model.config, tokenizer, folder)


def write_tensors(
    name: str,
    tensors: Mapping[str, Tensor],
    config: BertConfig,
    tokenizer: Tokenizer,
    folder: str | Path = ".",
) -> Path:
    """Write a BERT, or as many of its layers as ``tensors`` has, under the names of `state_dict`.

    It holds config, vocabulary and the parameters as 16-bit numbers in base64: a page opened from
    a disk may load a script that lies beside it, and nothing else. Raises ValueError if the parts
    are not BERT's own or too many for a page; FileError if the file cannot be written.
    """
    count, cut = sum(x.numel() for x in tensors.values()), tokenizer.normalizer
    wrong = None
    if count > MOST_PARAMETERS:
        wrong = f"has {count:,} parameters, and a page holds {MOST_PARAMETERS:,} at most"
    elif config.norm != "post":
        wrong = "is pre-norm, and the page computes BERT's own post-norm only"
    elif not (isinstance(cut, normalizers.BertNormalizer) and cut.lowercase):
        wrong = "keeps capital letters or cuts words otherwise, and the page does neither"
    if wrong:
        raise ValueError(f"{name} {wrong}: take another, such as bert-L4H128")
    numbers = b"".join(x.half().cpu().numpy().astype("<f2").tobytes() for x in tensors.values())
    ids, layers = tokenizer.get_vocab(), sum(x.endswith("attention.query.bias") for x in tensors)
    sizes = {"layers": layers, "heads": config.num_attention_heads}
    content = {
        "config": {**sizes, "eps": config.layer_norm_eps, "direction": config.direction},
        "vocab": sorted(ids, key=ids.__getitem__),
        "shapes": [[name, *x.shape] for name, x in tensors.items()],
        "base64": base64.b64encode(numbers).decode(),
    }
    path = Path(folder) / f"{name}.weights.js"
    text = f"(globalThis.bertWeights ??= {{}})[{json.dumps(name)}] = {json.dumps(content)};\n"
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        write_atomically(path, text)
    return path


class Machine(Told):
    """A checkpoint that computes in the page; where it cannot, a picture stands there."""

    def __init__(
        self,
        checkpoint: str | Path = "bert-L4H128",
        text: str = "I ask the ___ to pass this bill.",
        folder: str | Path = ".",
    ) -> None:
        """Start with a text, ``___`` for a blank, at the first head of the first layer.

        The weights are written into ``folder``, where the notebook lies (5 MB for the default).
        Raises what `write_weights` does, and ValueError if the text is too long to be shown.
        """
        model, tokenizer = _load(checkpoint)
        count = len(tokenizer.encode(BLANK.sub("[MASK]", text)).tokens)
        if count > MOST_TOKENS:
            raise ValueError(
                f"the text has {count} tokens, and a walk shows {MOST_TOKENS} at most: take a "
                "shorter text"
            )
        self.picture = _still(model, tokenizer, text)
        self.weights = write_weights(checkpoint, folder)
        self.alt, name = self.picture.alt, Path(checkpoint).name
        start = {"text": text, "layer": 0, "head": 0, "most": MOST_TOKENS}
        self.data = {"name": name, **start}

    def _repr_html_(self) -> str:
        style, *scripts = ((HERE / part).read_text(encoding="utf-8") for part in PARTS)
        still = (
            f"{self.picture._repr_html_()}"
            "<p>A still picture. Run the cell in a notebook, and it becomes a machine to walk "
            f'through.<a hidden href="{quote(self.weights.name)}"></a></p>'
        )
        begin, script = "startMachine(root, data)", "\n".join(scripts)
        page = alive("machine", "machine", self.data, still, script, begin)
        return f"<style>{style}</style>{page}"


def _load(checkpoint: str | Path) -> tuple[BertForPreTraining, Tokenizer]:
    """Open a checkpoint that guesses words, or say why it cannot."""
    model, tokenizer = load_named(checkpoint)
    if not isinstance(model, BertForPreTraining):
        raise ValueError(
            f"{checkpoint} is a {type(model).__name__}, not a BERT with the head that guesses "
            "words: take another, such as bert-L4H128"
        )
    return model, tokenizer


@style()
def _still(model: BertForPreTraining, tokenizer: Tokenizer, text: str) -> Picture:
    """Draw one token's vector layer by layer, what the first head attends to, and the guesses."""
    blank = "[MASK]" if model.config.direction == "bidirectional" else "[UNK]"  # as `score_blanks`
    shown = attend(model.bert, tokenizer, BLANK.sub(blank, text), layers=[1])
    ids = torch.tensor([[tokenizer.token_to_id(token) for token in shown.tokens]])
    place = shown.tokens.index(blank) if blank in shown.tokens else 1
    with evaluating(model):
        states = torch.stack([x[0, place] for x in model.bert(ids).hidden_states])
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(16, 5), width_ratios=(3, 2, 2))
    colors = LinearSegmentedColormap.from_list("signed", [ORANGE, "white", BLUE])
    top = float(states.abs().max()) / 2
    left.imshow(states.numpy(), cmap=colors, vmin=-top, vmax=top, aspect="auto")
    left.set_yticks(range(len(states)), ["input", *range(1, len(states))])
    left.set(title=f"the vector of {shown.tokens[place]}", xlabel="number", ylabel="after layer")
    left.grid(False)
    heat_map(middle, shown.head(1, 1), shown.tokens)
    middle.set(title="attention: layer 1, head 1")
    right.set_axis_off()
    alt = f"A BERT reads: {text} Its vector of {shown.tokens[place]} after each layer, as colors; "
    alt += "the attention of layer 1, head 1"
    if BLANK.search(text):
        right.set_axis_on()
        guesses = fill_blanks(model, tokenizer, text)[0]
        guess_panel(right, guesses)
        right.set(title="guesses, %", xlim=(0, 130 * guesses[0].probability))
        alt += f"; its guesses for the blank, {guesses[0].word} first"
    return Picture(figure, alt + ".")
