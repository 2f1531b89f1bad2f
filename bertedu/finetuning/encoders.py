"""What stands below the new layer: a model of ours, a published one, or the same untrained."""

from dataclasses import replace

import torch
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from bertedu.finetuning.collation import TaskBatch
from bertedu.model.bert import Bert
from bertedu.model.checkpoints import find_model
from bertedu.model.elmo import Elmo, ElmoForPreTraining
from bertedu.model.features import (
    BertFeatures,
    BiLSTMFeatures,
    ElmoFeatures,
    Encoder,
    Features,
    LayerFeatures,
    PairFeatures,
)

LSTM_SIZE = 128  # cells in each direction, on frozen features; the paper has 768, its BERT's width


def load_encoder(
    name: str, dropout: float = 0.0, untrained: bool = False, seed: int = 0
) -> tuple[Encoder, Tokenizer]:
    """Load an encoder and its tokenizer.

    ``name`` is what `bertedu.load` takes, or two one-way checkpoints with a plus between them: the
    ELMo-style pair. ``dropout`` is that of fine-tuning; it may have been pre-trained with another.
    ``untrained``: the same architecture with random weights, drawn by ``seed``, as is a pooler that
    was not published.

    Raises CheckpointError if there is no such checkpoint, or a file of it is broken; SourceError if
    a published encoder cannot be fetched; ValueError if the two of a pair do not read in opposite
    directions, or other word pieces.
    """
    if "+" in name:
        first, second = name.split("+", 1)
        left, tokenizer = _load_bert(first, dropout, untrained, seed)
        right, other = _load_bert(second, dropout, untrained, seed + 1_000_003)  # not left's draws
        if tokenizer.get_vocab() != other.get_vocab():
            raise ValueError(f"{first} and {second} do not have the same word pieces")
        return PairFeatures(left, right), tokenizer
    torch.manual_seed(seed)  # a part that its file lacks
    model, tokenizer, *_ = find_model(name)
    torch.manual_seed(seed)
    if isinstance(model, ElmoForPreTraining):
        elmo = Elmo(replace(model.config, dropout=dropout), model.elmo.sizes)
        if not untrained:
            elmo.load_state_dict(model.elmo.state_dict())
        return ElmoFeatures(elmo), tokenizer
    trained = model if isinstance(model, Bert) else model.bert
    bert = Bert(replace(trained.config, dropout=dropout))
    if not untrained:
        bert.load_state_dict(trained.state_dict())
    return BertFeatures(bert), tokenizer


def _load_bert(name: str, dropout: float, untrained: bool, seed: int) -> tuple[Bert, Tokenizer]:
    encoder, tokenizer = load_encoder(name, dropout, untrained, seed)
    if not isinstance(encoder, BertFeatures):
        raise ValueError(f"{name} is an ELMo; a pair is made of two Transformers")
    return encoder.bert, tokenizer


def with_bilstm(encoder: Encoder) -> BiLSTMFeatures:
    """Put a new BiLSTM on an encoder that is fine-tuned with it (paper, table 5, last row).

    A layer norm follows, which the paper does not name: without one the head gets states a fifth as
    large as any other variant's, and a tagger says "no name" everywhere after three epochs.
    """
    return BiLSTMFeatures(encoder, LSTM_SIZE, layer_norm=True)


def frozen_features(encoder: Encoder, reads: str) -> BiLSTMFeatures:
    """Put a new two-layer BiLSTM on a frozen BERT (paper, section 5.3) or ELMo.

    ELMo is read in its own way only: "sum of all", a weighted sum whose weights learn. Raises
    ValueError if the encoder is neither one BERT nor ELMo, or ``reads`` is none of
    `bertedu.model.features.READS`, or not ELMo's.
    """
    if isinstance(encoder, ElmoFeatures):
        if reads != "sum of all":
            raise ValueError(f'ELMo is read as "sum of all", not as {reads!r}')
        frozen = BiLSTMFeatures(encoder, LSTM_SIZE, frozen=True, layers=2)
        encoder.mix.requires_grad_(True)  # the task chooses the layers (Peters et al., 2018, §3.2)
        return frozen
    if not isinstance(encoder, BertFeatures):
        raise ValueError(
            f"features are read off the layers of one BERT, not of {type(encoder).__name__}"
        )
    return BiLSTMFeatures(LayerFeatures(encoder.bert, reads), LSTM_SIZE, layers=2)


class KeptStates:
    """The states of a frozen BERT, computed once for each row of tokens (paper, section 5.3)."""

    def __init__(self, encoder: BiLSTMFeatures, below: LayerFeatures) -> None:
        self.encoder, self.below = encoder, below
        self.rows: dict[tuple[int, ...], Tensor] = {}  # ids and segments -> (layers, tokens, H)

    def states(self, batch: TaskBatch) -> Tensor:
        """Return the (layers, R, S, H) of `LayerFeatures.states`; only new rows go through BERT."""
        rows = [row for item in batch.items for row in item.rows]
        keys = [(*row.ids, *row.type_ids) for row in rows]
        if new := [i for i, key in enumerate(keys) if key not in self.rows]:
            given = (batch.ids[new], batch.segment_ids[new], batch.padding_mask[new])
            for i, states in zip(new, self.below.states(*given).unbind(1), strict=True):
                self.rows[keys[i]] = states[:, : len(rows[i].ids)].clone()
        kept = [self.rows[key].transpose(0, 1) for key in keys]  # each (tokens, layers, H)
        return pad_sequence(kept, batch_first=True).permute(2, 0, 1, 3)

    def features(self, batch: TaskBatch) -> Features:
        """Encode a batch as the encoder itself does."""
        return self.encoder.read(self.below.combine(self.states(batch)), batch.padding_mask)


def kept_states(encoder: Encoder) -> KeptStates | None:
    """Return an empty store if the encoder reads the layers of a frozen BERT, else None."""
    if isinstance(encoder, BiLSTMFeatures) and isinstance(encoder.below, LayerFeatures):
        return KeptStates(encoder, encoder.below)
    return None
