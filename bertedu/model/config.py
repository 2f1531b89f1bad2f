"""The numbers that fix a BERT, and the arithmetic that turns them into a parameter count."""

import re
from dataclasses import dataclass, fields
from typing import Literal

Direction = Literal["bidirectional", "left-to-right", "right-to-left"]
ONE_WAY: tuple[Direction, ...] = ("left-to-right", "right-to-left")
DIRECTIONS: tuple[Direction, ...] = ("bidirectional", *ONE_WAY)

# layers L, hidden size H, heads A: paper, section 3, and Turc et al. (2019) for the small ones
PRESETS = {
    "tiny": (2, 128, 2),
    "mini": (4, 256, 4),
    "small": (4, 512, 8),
    "medium": (8, 512, 8),
    "base": (12, 768, 12),
    "large": (24, 1024, 16),
}


@dataclass(frozen=True)
class BertConfig:
    """Sizes of a BERT under Hugging Face's names; the defaults are BERT-base.

    ``direction`` says which keys a query may see, ``norm`` where the layer norm is:
    "post" as in BERT, after each residual sum, or "pre", before each sub-layer. Raises ValueError
    if a size is not positive, the heads do not divide the hidden size, or a word is unknown.
    """

    vocab_size: int = 30522
    hidden_size: int = 768  # H
    num_hidden_layers: int = 12  # L
    num_attention_heads: int = 12  # A
    intermediate_size: int = 3072  # 4H
    max_position_embeddings: int = 512
    type_vocab_size: int = 2  # segments A and B
    dropout: float = 0.1
    layer_norm_eps: float = 1e-12
    initializer_range: float = 0.02
    direction: Direction = "bidirectional"
    norm: Literal["post", "pre"] = "post"

    def __post_init__(self) -> None:
        """Refuse sizes that cannot make a model."""
        for size in fields(self):
            value = getattr(self, size.name)
            if size.type is int and (not isinstance(value, int) or value < 1):
                raise ValueError(f"{size.name} is {value!r}; it must be a whole number, 1 or more")
        if self.hidden_size % self.num_attention_heads:
            raise ValueError(
                f"hidden_size {self.hidden_size} cannot be split into {self.num_attention_heads} "
                f"equal heads: choose num_attention_heads that divides it"
            )
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout is {self.dropout}; it must be at least 0 and below 1")
        if self.direction not in DIRECTIONS:
            raise ValueError(f"direction {self.direction!r} is not one of {', '.join(DIRECTIONS)}")
        if self.norm not in ("post", "pre"):
            raise ValueError(f"norm {self.norm!r} is neither 'post' nor 'pre'")

    @classmethod
    def preset(cls, name: str, vocab_size: int = 30522) -> "BertConfig":
        """Return one of `PRESETS`, or a size by its numbers: "L4 H128", with heads of 64."""
        numbers = re.fullmatch(r"L(\d+) ?H(\d+)", name)
        if numbers:
            layers, hidden = map(int, numbers.groups())
            heads = max(1, hidden // 64)
        elif name in PRESETS:
            layers, hidden, heads = PRESETS[name]
        else:
            raise ValueError(f"no preset {name!r}: choose {', '.join(PRESETS)}, or e.g. L4H128")
        return cls(vocab_size, hidden, layers, heads, 4 * hidden)  # the inner layer is always 4 H


def count_parameters(config: BertConfig) -> dict[str, int]:
    """Count the parameters of each part by arithmetic alone; tests compare with the real model."""
    hidden, inner = config.hidden_size, config.intermediate_size
    norm = 2 * hidden  # a scale and a shift for each dimension
    rows = config.vocab_size + config.max_position_embeddings + config.type_vocab_size
    attention = 4 * (hidden * hidden + hidden)  # query, key, value, output
    feed_forward = hidden * inner + inner + inner * hidden + hidden
    return {
        "embeddings": rows * hidden + norm,
        "encoder": config.num_hidden_layers * (attention + norm + feed_forward + norm)
        + (norm if config.norm == "pre" else 0),  # pre-norm: one more after the last layer
        "pooler": hidden * hidden + hidden,
        "mlm": hidden * hidden + hidden + norm + config.vocab_size,  # the decoder's bias alone
        "nsp": 2 * hidden + 2,
    }
