"""The bug museum: mistakes made in public, planted into our own code, and the check for each.

Every exhibit here returns the right shapes. `plant` takes pytest's monkeypatch, so that the bug is
gone when the test is over. Provenance: repository, and issue number where there is one.
"""

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import model_checks as checks
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bertedu.model import attention, bert, embeddings, encoder
from bertedu.model.bert import BertForPreTraining
from bertedu.model.config import BertConfig, Direction
from bertedu.pretraining import objective
from bertedu.pretraining.batches import Batch


@dataclass(frozen=True)
class Exhibit:
    """A bug, where it was seen, how to plant it, the check that must notice, and in what words."""

    name: str
    seen_in: str
    plant: Callable[[pytest.MonkeyPatch], None]
    caught_by: checks.Check
    says: str  # a regular expression: the check must fail for the bug, not by accident


# --- masks ---------------------------------------------------------------------------------------


def plain_mask_passed(patch: pytest.MonkeyPatch) -> None:
    """The causal mask is built; the layers get the other one."""
    real = attention.attention_mask

    def mask(padding: Tensor, direction: Direction) -> Tensor | None:
        real(padding, direction)
        return real(padding, "bidirectional")

    patch.setattr(bert, "attention_mask", mask)


def padding_attended(patch: pytest.MonkeyPatch) -> None:
    real = attention.attention_mask
    patch.setattr(bert, "attention_mask", lambda p, d: real(torch.ones_like(p), d))


# --- attention -----------------------------------------------------------------------------------

Attention = Callable[[Tensor, Tensor, Tensor, Tensor | None, float], tuple[Tensor, Tensor]]


def replace_attention(patch: pytest.MonkeyPatch, function: Attention) -> None:
    """Plant into both paths, so that "explicit differs from fast" does not give the bug away."""

    def forward(
        self: Any, x: Tensor, mask: Tensor | None, return_weights: bool = False
    ) -> tuple[Tensor, Tensor | None]:
        query, key, value = (self.split_heads(p(x)) for p in (self.query, self.key, self.value))
        dropout = self.dropout if self.training else 0.0
        mixed, weights = function(query, key, value, mask, dropout)
        return self.join_heads(mixed), weights if return_weights else None

    patch.setattr(attention.SelfAttention, "forward", forward)


def scores_of(q: Tensor, k: Tensor, mask: Tensor | None) -> Tensor:
    scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
    return scores if mask is None else scores.masked_fill(~mask, torch.finfo(scores.dtype).min)


def kept_after_dropout(patch: pytest.MonkeyPatch) -> None:
    def function(
        q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, dropout: float
    ) -> tuple[Tensor, Tensor]:
        weights = F.dropout(scores_of(q, k, mask).softmax(-1), dropout, training=dropout > 0)
        return weights @ v, weights

    replace_attention(patch, function)


def softmax_over_queries(patch: pytest.MonkeyPatch) -> None:
    def function(
        q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, dropout: float
    ) -> tuple[Tensor, Tensor]:
        weights = scores_of(q, k, mask).softmax(-2)
        return F.dropout(weights, dropout, training=dropout > 0) @ v, weights

    replace_attention(patch, function)


def no_scaling(patch: pytest.MonkeyPatch) -> None:
    def function(
        q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, dropout: float
    ) -> tuple[Tensor, Tensor]:
        weights = scores_of(q * q.shape[-1] ** 0.5, k, mask).softmax(-1)
        return F.dropout(weights, dropout, training=dropout > 0) @ v, weights

    replace_attention(patch, function)


def masked_after_softmax(patch: pytest.MonkeyPatch) -> None:
    def function(
        q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, dropout: float
    ) -> tuple[Tensor, Tensor]:
        weights = scores_of(q, k, None).softmax(-1)
        weights = weights if mask is None else weights * mask
        return F.dropout(weights, dropout, training=dropout > 0) @ v, weights

    replace_attention(patch, function)


class WronglySplit(attention.SelfAttention):
    """(B, S, H) read as (B, A, S, d) without a transpose: a "head" is a piece of the sentence."""

    def forward(
        self, x: Tensor, mask: Tensor | None, return_weights: bool = False
    ) -> tuple[Tensor, Tensor | None]:
        batch, size, hidden = x.shape
        query, key, value = (
            project(x).reshape(batch, self.num_heads, size, hidden // self.num_heads)
            for project in (self.query, self.key, self.value)
        )
        mixed, weights = attention.scaled_dot_product_attention(query, key, value, mask)
        return self.output(mixed.reshape(x.shape)), weights if return_weights else None


def split_on_the_wrong_axis(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(encoder, "SelfAttention", WronglySplit)


# --- layers --------------------------------------------------------------------------------------


class MadeInForward(nn.Module):
    """Two linear maps nobody lists: new, random and untrained at every call."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.sizes = config.hidden_size, config.intermediate_size
        self.output = nn.Linear(config.intermediate_size, config.hidden_size)

    def forward(self, x: Tensor) -> Tensor:
        return self.output(F.gelu(nn.Linear(*self.sizes).to(x)(x)))


def made_in_forward(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(encoder, "FeedForward", MadeInForward)


class WithoutResidual(encoder.EncoderLayer):
    """The feed-forward layer replaces what came in."""

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None,
        return_weights: bool = False,
        keep: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        mixed, weights = self.attention(x, mask, return_weights)
        if keep is not None:
            x, mixed = x[keep], mixed[keep]
        x = self.attention_norm(x + self.dropout(mixed))
        return self.feed_forward_norm(self.dropout(self.feed_forward(x))), weights


def without_residual(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(encoder, "EncoderLayer", WithoutResidual)


class OtherNorm(encoder.EncoderLayer):
    """The config says post-norm, the code is pre-norm."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__(config)
        self.norm_first = not self.norm_first


def other_norm(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(encoder, "EncoderLayer", OtherNorm)


def tanh_gelu(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(encoder, "F", SimpleNamespace(gelu=lambda x: F.gelu(x, approximate="tanh")))


def relu(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(encoder, "F", SimpleNamespace(gelu=F.relu))


# --- embeddings and heads ------------------------------------------------------------------------


def no_segments(patch: pytest.MonkeyPatch) -> None:
    real = embeddings.Embeddings.forward
    patch.setattr(
        embeddings.Embeddings, "forward", lambda self, ids, s: real(self, ids, torch.zeros_like(s))
    )


def no_embedding_norm(patch: pytest.MonkeyPatch) -> None:
    def forward(self: Any, ids: Tensor, segment_ids: Tensor) -> Tensor:
        x = self.token(ids) + self.segment(segment_ids) + self.position.weight[: ids.shape[1]]
        return self.dropout(x)

    patch.setattr(embeddings.Embeddings, "forward", forward)


def decoder_not_tied(patch: pytest.MonkeyPatch) -> None:
    class Untied(bert.MLMHead):
        def __init__(self, config: BertConfig, token_embedding: nn.Embedding) -> None:
            super().__init__(config, token_embedding)
            self.decoder.weight = nn.Parameter(token_embedding.weight.detach().clone())

    patch.setattr(bert, "MLMHead", Untied)


# --- the loss ------------------------------------------------------------------------------------


def replace_loss(patch: pytest.MonkeyPatch, spread_mlm: bool, ignore_nsp: bool) -> None:
    def loss(model: BertForPreTraining, batch: Batch) -> tuple[Tensor, Tensor]:
        words, follows = model(batch.ids, batch.segment_ids, batch.padding_mask)
        if spread_mlm:  # the mean is over all tokens already when the weights come
            labels, weights = batch.ids.clone(), batch.selected.float()
            labels[batch.selected] = batch.labels
            mean = F.cross_entropy(words.flatten(0, 1), labels.flatten())
            mlm = (mean * weights).sum() / weights.sum()
        else:
            mlm = F.cross_entropy(words[batch.selected], batch.labels)
        ignored = 0 if ignore_nsp else -100
        nsp = F.cross_entropy(follows, batch.next_labels, ignore_index=ignored)
        nothing = torch.zeros_like(mlm)
        return mlm + nsp, torch.stack([mlm, nothing, nsp, nothing]).detach()

    patch.setattr(objective, "pretraining_loss", loss)


def weights_after_the_mean(patch: pytest.MonkeyPatch) -> None:
    replace_loss(patch, spread_mlm=True, ignore_nsp=False)


def shared_ignore_index(patch: pytest.MonkeyPatch) -> None:
    replace_loss(patch, spread_mlm=False, ignore_nsp=True)


def correct_loss(patch: pytest.MonkeyPatch) -> None:
    """No bug: shows that the two above are caught for their bug, not for being written anew."""
    replace_loss(patch, spread_mlm=False, ignore_nsp=False)


def correct_attention(patch: pytest.MonkeyPatch) -> None:
    """No bug, in the frame that the attention exhibits share."""

    def function(
        q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, dropout: float
    ) -> tuple[Tensor, Tensor]:
        weights = scores_of(q, k, mask).softmax(-1)
        return F.dropout(weights, dropout, training=dropout > 0) @ v, weights

    replace_attention(patch, function)


MUSEUM = (
    Exhibit(
        "causal mask built, plain mask passed",
        "VTongTV/bert-from-scratch",
        plain_mask_passed,
        checks.check_leaks,
        "left-to-right, token 1 changed: layer 1",
    ),
    Exhibit(
        "padding attended to",
        "many",
        padding_attended,
        checks.check_padding_further,
        "bidirectional, state 1: ",
    ),
    Exhibit(
        "padding attended to: its ids matter",
        "many",
        padding_attended,
        checks.check_padding_ids_ignored,
        "bidirectional, words: ",
    ),
    Exhibit(
        "attention returned after dropout",
        "dhlee347/pytorchic-bert",
        kept_after_dropout,
        checks.check_rows_sum_to_one,
        "sum of a row: ",
    ),
    Exhibit(
        "softmax over the queries",
        "nerminnuraydogan/vision-transformer #1",
        softmax_over_queries,
        checks.check_rows_sum_to_one,
        "sum of a row: ",
    ),
    Exhibit(
        "softmax over the queries: later tokens leak",
        "nerminnuraydogan/vision-transformer #1",
        softmax_over_queries,
        checks.check_leaks,
        "left-to-right, token . changed: layer 1",
    ),
    Exhibit(
        "no 1/sqrt(d)",
        "mlc-ai/mlc-llm #3426",
        no_scaling,
        checks.check_attention_by_hand,
        "explicit path: ",
    ),
    Exhibit(
        "mask applied after softmax",
        "huggingface/pytorch-image-models #2236",
        masked_after_softmax,
        checks.check_padding_ids_ignored,
        "bidirectional, words: ",
    ),
    Exhibit(
        "heads split on the wrong axis",
        "reczoo/FuxiCTR #30",
        split_on_the_wrong_axis,
        checks.check_attention_by_hand,
        "explicit path: ",
    ),
    Exhibit(
        "heads split on the wrong axis: others move",
        "reczoo/FuxiCTR #30",
        split_on_the_wrong_axis,
        checks.check_leaks,
        "bidirectional, token 0 changed: layer 1",
    ),
    Exhibit(
        "sub-layers created in forward",
        "graykode/nlp-tutorial #29",
        made_in_forward,
        checks.check_parameters,
        "parameters are listed",
    ),
    Exhibit(
        "feed-forward without residual",
        "graykode/nlp-tutorial",
        without_residual,
        checks.check_zeroed_layer,
        "post-norm layer: ",
    ),
    Exhibit(
        "post-norm said, pre-norm done",
        "harvardnlp/annotated-transformer #1, #13",
        other_norm,
        checks.check_layer_by_hand,
        "post-norm layer: ",
    ),
    Exhibit(
        "tanh GELU",
        "codertimo/BERT-pytorch",
        tanh_gelu,
        checks.check_gelu_is_erf,
        "feed-forward: ",
    ),
    Exhibit(
        "ReLU instead of GELU",
        "d2l-ai/d2l-en",
        relu,
        checks.check_gelu_is_erf,
        "feed-forward: ",
    ),
    Exhibit(
        "segments ignored",
        "deeppavlov/DeepPavlov #1312",
        no_segments,
        checks.check_segments_matter,
        "segment id changed: input",
    ),
    Exhibit(
        "no layer norm on the embeddings",
        "d2l-ai/d2l-en",
        no_embedding_norm,
        checks.check_three_sums,
        "embeddings: ",
    ),
    Exhibit(
        "decoder not tied",
        "codertimo/BERT-pytorch",
        decoder_not_tied,
        checks.check_decoder_tied,
        "new: two parameters",
    ),
    Exhibit(
        "MLM weights multiplied after the mean",
        "d2l-ai/d2l-en",
        weights_after_the_mean,
        checks.check_mlm_counts_selected,
        "MLM loss: ",
    ),
    Exhibit(
        "NSP loss shares MLM's ignore_index",
        "codertimo/BERT-pytorch",
        shared_ignore_index,
        checks.check_nsp_of_one_kind,
        "NSP loss of label 0: ",
    ),
)
