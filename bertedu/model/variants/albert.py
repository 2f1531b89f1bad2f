"""ALBERT: a narrow token table, and one layer for all depths (Lan et al. 2019, section 3.1)."""

from dataclasses import replace
from typing import Any

from torch import Tensor, nn

from bertedu.model.bert import BertForPreTraining, init_weights
from bertedu.model.config import BertConfig
from bertedu.model.embeddings import Embeddings
from bertedu.model.encoder import EncoderLayer


class NarrowEmbeddings(Embeddings):
    """Tables of E numbers a row, and one matrix from E to H: V·E + E·H weights, not V·H."""

    def __init__(self, config: BertConfig, embedding_size: int) -> None:
        super().__init__(replace(config, hidden_size=embedding_size, num_attention_heads=1))
        self.widen = nn.Linear(embedding_size, config.hidden_size)

    def forward(self, ids: Tensor, segment_ids: Tensor) -> Tensor:
        """(B, S), (B, S) -> (B, S, H)."""
        return self.widen(super().forward(ids, segment_ids))


class SameLayer(nn.Module):
    """One more pass through a layer that other depths pass through, too.

    Each depth is an object of its own, since the encoder asks which of its layers is the last.
    """

    def __init__(self, layer: EncoderLayer) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, *inputs: Any) -> tuple[Tensor, Tensor | None]:
        """Do what the layer does."""
        return self.layer(*inputs)


def albert(
    config: BertConfig, embedding_size: int | None = None, share_layers: bool = True
) -> BertForPreTraining:
    """Make a BERT with one layer for all depths, and tables of ``embedding_size`` numbers a row.

    Both heads stay; the second may answer sentence order in place of next sentence. Raises
    ValueError if the embedding size is not from 1 to the hidden size: wider tables save nothing.
    """
    size = config.hidden_size if embedding_size is None else embedding_size
    if not 1 <= size <= config.hidden_size:
        raise ValueError(
            f"embedding_size {size} should be from 1 to the hidden size, {config.hidden_size}: "
            "it is there to make the tables narrower"
        )
    model = BertForPreTraining(config)
    if share_layers:
        layers = model.bert.encoder.layers
        first = layers[0]
        assert isinstance(first, EncoderLayer)
        model.bert.encoder.layers = nn.ModuleList(SameLayer(first) for _ in layers)
    if size < config.hidden_size:
        narrow = NarrowEmbeddings(config, size)
        model.bert.embeddings = narrow
        model.mlm.transform = nn.Linear(config.hidden_size, size)  # the way back, H to E
        model.mlm.norm = nn.LayerNorm(size, eps=config.layer_norm_eps)
        model.mlm.decoder = nn.Linear(size, config.vocab_size)
        for part in (narrow, model.mlm.transform):
            init_weights(part, config.initializer_range)
        model.mlm.decoder.weight = narrow.token.weight
        nn.init.zeros_(model.mlm.decoder.bias)
    return model
