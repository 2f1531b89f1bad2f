"""A reader and a writer: the whole Transformer (Vaswani et al. 2017), and what it replaced.

BERT is the half that reads. The other half writes, one word after the other, and at each word asks
the reader's states: *cross-attention*. Before it, two recurrent networks had one vector between
them (Sutskever et al. 2014), which had to hold the whole source. Both have the same methods here. A
source (B, S) ends in `[PAD]`s, a target begins with `[CLS]` and ends with `[SEP]`.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence

from bertedu.model.attention import SelfAttention, attention_mask, attention_weights
from bertedu.model.bert import init_weights
from bertedu.model.config import BertConfig
from bertedu.model.embeddings import Embeddings
from bertedu.model.encoder import Encoder, FeedForward
from bertedu.model.heads import MLMHead
from bertedu.model.inference import check_input, evaluating
from bertedu.text.tokenization import CLS_ID, PAD_ID, SEP_ID


def cross_attention(
    attention: SelfAttention, x: Tensor, source: Tensor, mask: Tensor
) -> tuple[Tensor, Tensor]:
    """Ask the source: queries of x (B, T, H), keys and values of ``source`` (B, S, H).

    ``mask`` (B, 1, 1, S) is true at real tokens of the source. Returns the mixture (B, T, H) and
    the weights (B, A, T, S), a row for each word that is written (section 3.2.3).
    """
    query = attention.split_heads(attention.query(x))  # (B, A, T, d)
    key = attention.split_heads(attention.key(source))  # (B, A, S, d)
    weights = attention_weights(query, key, mask)
    return attention.mix(weights, source), weights


class DecoderLayer(nn.Module):
    """What was written, then the source, then each token by itself; norms as in the paper."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.attention, self.cross = SelfAttention(config), SelfAttention(config)
        self.feed_forward = FeedForward(config)
        size, eps = config.hidden_size, config.layer_norm_eps
        self.norms = nn.ModuleList(nn.LayerNorm(size, eps=eps) for _ in range(3))
        self.dropout = nn.Dropout(config.dropout)

    def forward(
        self, x: Tensor, source: Tensor, written: Tensor | None, mask: Tensor
    ) -> tuple[Tensor, Tensor]:
        """(B, T, H), (B, S, H) and the masks of both -> (B, T, H), cross weights (B, A, T, S)."""
        mixed, _ = self.attention(x, written)
        x = self.norms[0](x + self.dropout(mixed))
        mixed, weights = cross_attention(self.cross, x, source, mask)
        x = self.norms[1](x + self.dropout(mixed))
        return self.norms[2](x + self.dropout(self.feed_forward(x))), weights


class Transformer(nn.Module):
    """BERT's encoder, and as many decoder layers. One word table for source, target and answer.

    Raises ValueError unless the config is the paper's: norms behind each part, and no direction,
    since the reader reads both sides and the writer what it has written.
    """

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        if config.direction != "bidirectional" or config.norm != "post":
            raise ValueError(
                "the Transformer reads both ways and writes one way, with norms behind each part: "
                f"not direction {config.direction!r} with norm {config.norm!r}"
            )
        self.config = config
        self.embeddings, self.encoder = Embeddings(config), Encoder(config)
        self.layers = nn.ModuleList(DecoderLayer(config) for _ in range(config.num_hidden_layers))
        self.head = MLMHead(config, self.embeddings.token)
        init_weights(self, config.initializer_range)

    def _embed(self, ids: Tensor, segment: int) -> Tensor:
        segments = torch.full_like(ids, segment)  # 0 is read, 1 is written
        check_input(self.config, ids, segments, ids != PAD_ID)
        return self.embeddings(ids, segments)

    def forward(self, source: Tensor, target: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Read a source (B, S), and score the word after each of a target (B, T)."""
        return self.decode(target, source, self.encode(source))

    def encode(self, source: Tensor) -> Tensor:
        """(B, S) -> states (B, S, H). Raises ValueError as `Bert` does."""
        mask = attention_mask(source != PAD_ID, "bidirectional")
        return self.encoder(self._embed(source, 0), mask)[0][-1]

    def decode(self, target: Tensor, source: Tensor, read: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Score the word after each of a target (B, T): (B, T, V), and each layer's weights."""
        x, weights = self._embed(target, 1), []
        written = attention_mask(target != PAD_ID, "left-to-right")
        for layer in self.layers:
            x, w = layer(x, read, written, (source != PAD_ID)[:, None, None, :])
            weights.append(w)
        return self.head(x), weights


class Recurrent(nn.Module):
    """Two GRUs; what passes between them is one vector, the reader's last state."""

    def __init__(self, vocabulary: int, size: int) -> None:
        super().__init__()
        self.words = nn.Embedding(vocabulary, size)
        self.encoder = nn.GRU(size, size, batch_first=True)
        self.layers = nn.GRU(size, size, batch_first=True)
        self.head = nn.Linear(size, vocabulary)

    def forward(self, source: Tensor, target: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Read a source (B, S), and score the word after each of a target (B, T)."""
        return self.decode(target, source, self.encode(source))

    def encode(self, source: Tensor) -> Tensor:
        """(B, S) -> the state after the last real token, (1, B, H)."""
        lengths = (source != PAD_ID).sum(dim=1).cpu()
        real: Any = pack_padded_sequence(self.words(source), lengths, True, enforce_sorted=False)
        return self.encoder(real)[1]

    def decode(self, target: Tensor, source: Tensor, read: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Write from that one vector; it never looks back at the source."""
        return self.head(self.layers(self.words(target), read)[0]), []


def translate(model: Transformer | Recurrent, source: Tensor, longest: int) -> Tensor:
    """Write the likeliest word again and again: (B, up to ``longest``), `[PAD]` after `[SEP]`."""
    with evaluating(model):
        read = model.encode(source)
        target = source.new_full((len(source), 1), CLS_ID)
        ended = torch.zeros_like(target, dtype=torch.bool)
        while target.shape[1] <= longest and not ended.all():
            scores, _ = model.decode(target, source, read)
            word = scores[:, -1:].argmax(dim=-1).masked_fill(ended, PAD_ID)
            target, ended = torch.cat([target, word], dim=1), ended | (word == SEP_ID)
    return target[:, 1:]
