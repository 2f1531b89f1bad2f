"""What a fine-tuning head reads: a vector for each token, and one for the whole input.

Every model of the ablations fits here: BERT of any direction, the "ELMo-style pair" that the paper
argues about and does not measure (section 5.1), ELMo itself, and a BiLSTM on top of any of them
(Table 5, last row). No part looks further than its model may, in pre-training and after.
"""

from collections.abc import Iterable
from itertools import compress
from typing import NamedTuple

import torch
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from bertedu.model.bert import Bert, BertForPreTraining, reads_all
from bertedu.model.config import ONE_WAY
from bertedu.model.elmo import Elmo, ScalarMix, turn_around
from bertedu.model.inference import evaluating


class Features(NamedTuple):
    """``tokens`` (B, S, D) and ``whole`` (B, D), with D the size of the encoder."""

    tokens: Tensor
    whole: Tensor


class BertFeatures(nn.Module):
    """The last states, and the pooled one of the token that has read everything."""

    def __init__(self, bert: Bert) -> None:
        super().__init__()
        self.bert, self.size = bert, bert.config.hidden_size

    def forward(self, ids: Tensor, segment_ids: Tensor, padding_mask: Tensor) -> Features:
        """Encode ids, segments and mask, each (B, S)."""
        output = self.bert(ids, segment_ids, padding_mask)
        return Features(output.last, output.pooled)


class PairFeatures(nn.Module):
    """Two one-way models, side by side: D is the sum of their sizes."""

    def __init__(self, left_to_right: Bert, right_to_left: Bert) -> None:
        super().__init__()
        given = (left_to_right.config.direction, right_to_left.config.direction)
        if given != ONE_WAY:
            raise ValueError(f"a pair is a left-to-right and a right-to-left model, not {given}")
        self.halves = nn.ModuleList([BertFeatures(left_to_right), BertFeatures(right_to_left)])
        self.size = left_to_right.config.hidden_size + right_to_left.config.hidden_size

    def forward(self, ids: Tensor, segment_ids: Tensor, padding_mask: Tensor) -> Features:
        """Encode with both halves; neither knows what the other has seen."""
        halves = zip(*(half(ids, segment_ids, padding_mask) for half in self.halves), strict=True)
        return Features(*(torch.cat(pair, dim=-1) for pair in halves))


class ElmoFeatures(nn.Module):
    """The learned mix of ELMo's layers (Peters et al., 2018, equation 1); D is 2 H.

    The whole input is the forward half at the last token and the backward half at the first: each
    where it has read everything.
    """

    def __init__(self, elmo: Elmo) -> None:
        super().__init__()
        self.elmo, self.size = elmo, 2 * elmo.config.hidden_size
        self.mix = ScalarMix(elmo.sizes.layers + 1)

    def forward(self, ids: Tensor, segment_ids: Tensor, padding_mask: Tensor) -> Features:
        """Encode; segments are not read, since an LSTM knows where it is."""
        states = torch.cat(self.elmo(ids, padding_mask), dim=-1)  # (L + 1, B, S, 2 H)
        tokens = self.mix(states)
        return Features(tokens, _ends(tokens, padding_mask))


class MeanFeatures(nn.Module):
    """The tokens of any encoder; the whole input is their mean, and no place stands for it.

    A one-way model has read everything at one end only, so the choice of a place is a choice for
    one direction. A mean favors none.
    """

    def __init__(self, below: "Encoder") -> None:
        super().__init__()
        self.below = below
        self.size: int = below.size

    def forward(self, ids: Tensor, segment_ids: Tensor, padding_mask: Tensor) -> Features:
        """Encode; padding has no part in the mean."""
        tokens = self.below(ids, segment_ids, padding_mask).tokens
        real = padding_mask[..., None].to(tokens.dtype)  # (B, S, 1)
        return Features(tokens, (tokens * real).sum(1) / real.sum(1))


# What a feature-based model reads (paper, section 5.3 and table 7): which of the L + 1 hidden
# states, of which number 0 is the input embedding, and how several become one. The paper's "last
# four" of 12 layers are the last two of our 4.
READS: dict[str, tuple[slice, str]] = {
    "embeddings": (slice(0, 1), "concat"),
    "second-to-last": (slice(-2, -1), "concat"),
    "last": (slice(-1, None), "concat"),
    "sum of last two": (slice(-2, None), "sum"),
    "concat of last two": (slice(-2, None), "concat"),
    "sum of all": (slice(1, None), "sum"),
    "concat of all": (slice(1, None), "concat"),
}


class LayerFeatures(nn.Module):
    """Hidden states of a frozen BERT, side by side or as a learned weighted sum.

    No gradient enters the BERT, and its dropout stays off, so its states of a text are always the
    same. Only the weights of a sum learn. Raises ValueError if ``reads`` is none of `READS`, or the
    model has fewer layers than that reads.
    """

    def __init__(self, bert: Bert, reads: str) -> None:
        super().__init__()
        if reads not in READS:
            raise ValueError(f"features cannot be {reads!r}: choose one of {', '.join(READS)}")
        self.chosen, how = READS[reads]
        numbers = range(bert.config.num_hidden_layers + 1)[self.chosen]
        if numbers[0] == 0 and reads != "embeddings":
            raise ValueError(f"{reads!r} needs a model of two layers or more; this one has one")
        self.bert, self.reads, count = bert.requires_grad_(False), reads, len(numbers)
        self.mix = ScalarMix(count) if how == "sum" else None
        self.size = bert.config.hidden_size * (1 if how == "sum" else count)

    def states(self, ids: Tensor, segment_ids: Tensor, padding_mask: Tensor) -> Tensor:
        """Return the chosen hidden states, (layers, B, S, H): all that this reads of an input."""
        with evaluating(self.bert):
            output = self.bert(ids, segment_ids, padding_mask)
            return torch.stack(output.hidden_states[self.chosen])

    def combine(self, states: Tensor) -> Tensor:
        """(layers, B, S, H) -> (B, S, D)."""
        return torch.cat(list(states), dim=-1) if self.mix is None else self.mix(states)

    def forward(self, ids: Tensor, segment_ids: Tensor, padding_mask: Tensor) -> Features:
        """Encode; the whole is what stands at the token that has read everything."""
        tokens = self.combine(self.states(ids, segment_ids, padding_mask))
        return Features(tokens, tokens[reads_all(padding_mask.bool(), self.bert.config.direction)])


class BiLSTM(nn.Module):
    """One LSTM from each end, side by side."""

    def __init__(self, size: int, hidden_size: int) -> None:
        super().__init__()
        self.forwards = nn.LSTM(size, hidden_size, batch_first=True)
        self.backwards = nn.LSTM(size, hidden_size, batch_first=True)

    def forward(self, x: Tensor, back: Tensor) -> Tensor:
        """(B, S, D) -> (B, S, 2 K); ``back`` (B, S, 1) is the order that turns rows around."""
        from_left = self.forwards(x)[0]  # (B, S, K)
        from_right = self.backwards(x.gather(1, back.expand_as(x)))[0]
        return torch.cat([from_left, from_right.gather(1, back.expand_as(from_right))], dim=-1)


class BiLSTMFeatures(nn.Module):
    """BiLSTM layers on top of any encoder: even over a one-way model, they see both sides.

    With ``frozen`` the encoder below stays as it is, and only what stands above it learns. With
    ``layer_norm`` the states leave as large as those of a BERT, whose every layer ends in one: new
    LSTMs start with states of about 0.2.
    """

    def __init__(
        self,
        below: "Encoder",
        hidden_size: int,
        frozen: bool = False,
        layers: int = 1,
        layer_norm: bool = False,
    ) -> None:
        super().__init__()
        self.below, self.size, self.frozen = below, 2 * hidden_size, frozen
        self.layers = nn.ModuleList(
            BiLSTM(self.size if number else below.size, hidden_size) for number in range(layers)
        )
        self.norm = nn.LayerNorm(self.size) if layer_norm else nn.Identity()
        if frozen:
            below.requires_grad_(False)

    def train(self, mode: bool = True) -> "BiLSTMFeatures":
        """Switch dropout on and off; in a frozen encoder it stays off."""
        super().train(mode)
        if self.frozen:
            self.below.eval()
        return self

    def forward(self, ids: Tensor, segment_ids: Tensor, padding_mask: Tensor) -> Features:
        """Encode below, then read the result from both ends."""
        return self.read(self.below(ids, segment_ids, padding_mask).tokens, padding_mask)

    def read(self, x: Tensor, padding_mask: Tensor) -> Features:
        """Do what stands above the encoder, on features (B, S, D) that may have been kept."""
        back = turn_around(padding_mask)[..., None]
        for layer in self.layers:
            x = layer(x, back)  # layer 2 reads both directions of layer 1
        return Features(self.norm(x), self.norm(_ends(x, padding_mask)))


Encoder = BertFeatures | PairFeatures | ElmoFeatures | LayerFeatures | BiLSTMFeatures | MeanFeatures


def _ends(tokens: Tensor, padding_mask: Tensor) -> Tensor:
    """Take the first half of each vector at the last real token, the second half at the first."""
    left, right = tokens.chunk(2, dim=-1)
    last = reads_all(padding_mask.bool(), "left-to-right")
    return torch.cat([left[last], right[:, 0]], dim=-1)


def encode(
    model: Bert | BertForPreTraining,
    tokenizer: Tokenizer,
    texts: Iterable[str],
    batch_size: int = 32,
) -> Tensor:
    """Return a vector for each text, (texts, H), in the order of the texts.

    It is the mean of the final states of the text's tokens, `[CLS]` and `[SEP]` included (Reimers
    and Gurevych 2019). Texts of like length meet in a batch, so that little is padded. What is
    longer than the model's positions is cut. Raises TypeError for one string or what is no text,
    ValueError if ``batch_size`` is below 1.
    """
    if isinstance(texts, str):
        raise TypeError("encode takes several texts, and got one str. Put it in a list: [text].")
    texts = list(texts)  # it may be a generator
    if wrong := [text for text in texts if not isinstance(text, str)]:
        raise TypeError(f"{wrong[0]!r} is no text: leave it out")
    if batch_size < 1:
        raise ValueError(f"batch_size is {batch_size}; it must be 1 or more")
    bert = model if isinstance(model, Bert) else model.bert
    device, longest = next(bert.parameters()).device, bert.config.max_position_embeddings
    encoded = tokenizer.encode_batch(texts)
    rows = [list(compress(row.ids, row.attention_mask)) for row in encoded]  # it may pad
    # cut what there is no position for, from the end, but not the last [SEP]
    rows = [row if len(row) <= longest else [*row[: longest - 1], row[-1]] for row in rows]
    order = sorted(range(len(rows)), key=lambda i: len(rows[i]))
    vectors = torch.empty(len(rows), bert.config.hidden_size, device=device)
    with evaluating(bert):
        for begin in range(0, len(order), batch_size):
            chosen = order[begin : begin + batch_size]
            ids = pad_sequence([torch.tensor(rows[i]) for i in chosen], batch_first=True).to(device)
            sizes = torch.tensor([len(rows[i]) for i in chosen], device=device)[:, None]  # (B, 1)
            real = torch.arange(ids.shape[1], device=device) < sizes  # (B, S)
            states = bert(ids, padding_mask=real).last.float()  # (B, S, H)
            vectors[chosen] = (states * real[..., None]).sum(1) / sizes
    return vectors
