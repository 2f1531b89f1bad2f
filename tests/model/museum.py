"""The bug museum: mistakes made in public, planted into our own code, and the checks that notice.

Every exhibit returns the right shapes. It takes pytest's monkeypatch, so that the bug is gone when
the test is over. Provenance: repository, and issue number where there is one.
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
from bertedu.model.config import BertConfig
from bertedu.pretraining import objective
from bertedu.pretraining.batches import Batch

Plant = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True)
class Exhibit:
    """A bug, where it was seen, how to plant it, the check that must notice, and in what words."""

    name: str
    seen_in: str
    plant: Plant
    caught_by: checks.Check
    says: str  # a regular expression: the check must fail for the bug, not by accident


MUSEUM: list[Exhibit] = []


def exhibit(seen_in: str, **caught_by: str) -> Callable[[Plant], Plant]:
    """Show a bug: ``check="what it says"``, for each check that notices it."""

    def show(plant: Plant) -> Plant:
        for check, says in caught_by.items():
            name = f"{plant.__name__}: {check}".replace("_", " ")
            MUSEUM.append(Exhibit(name, seen_in, plant, getattr(checks, f"check_{check}"), says))
        return plant

    return show


# --- masks ---------------------------------------------------------------------------------------


@exhibit("VTongTV/bert-from-scratch", leaks="left-to-right, token 1 changed: layer 1")
def causal_mask_built_and_plain_mask_passed(patch: pytest.MonkeyPatch) -> None:
    real = attention.attention_mask
    patch.setattr(bert, "attention_mask", lambda padding, _: real(padding, "bidirectional"))


@exhibit("many", padding="bidirectional, state 1: ")
def padding_attended_to(patch: pytest.MonkeyPatch) -> None:
    real = attention.attention_mask
    patch.setattr(bert, "attention_mask", lambda p, d: real(torch.ones_like(p), d))


# --- attention -----------------------------------------------------------------------------------


def replace_attention(
    patch: pytest.MonkeyPatch,
    over: int = -1,
    scaled: bool = True,
    mask_late: bool = False,
    dropped: bool = False,
) -> None:
    """Plant into both paths, so that "explicit differs from fast" does not give the bug away.

    As it is, it is right: softmax ``over`` keys, scores scaled, masked before it, and weights
    returned as they are before dropout.
    """

    def forward(
        self: Any, x: Tensor, mask: Tensor | None, return_weights: bool = False
    ) -> tuple[Tensor, Tensor | None]:
        query, key, value = (self.split_heads(p(x)) for p in (self.query, self.key, self.value))
        scores = query @ key.transpose(-2, -1) / (query.shape[-1] ** 0.5 if scaled else 1)
        if mask is not None and not mask_late:
            scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
        weights = scores.softmax(over)
        if mask is not None and mask_late:
            weights = weights * mask
        after = F.dropout(weights, self.dropout, self.training)
        mixed = self.join_heads(after @ value)
        return mixed, (after if dropped else weights) if return_weights else None

    patch.setattr(attention.SelfAttention, "forward", forward)


@exhibit("dhlee347/pytorchic-bert", rows_sum_to_one="sum of a row: ")
def attention_returned_after_dropout(patch: pytest.MonkeyPatch) -> None:
    replace_attention(patch, dropped=True)


@exhibit(
    "nerminnuraydogan/vision-transformer #1",
    rows_sum_to_one="sum of a row: ",
    leaks="left-to-right, token . changed: layer 1",
)
def softmax_over_the_queries(patch: pytest.MonkeyPatch) -> None:
    replace_attention(patch, over=-2)


@exhibit("mlc-ai/mlc-llm #3426", attention_by_hand="explicit path: ")
def no_scaling(patch: pytest.MonkeyPatch) -> None:
    replace_attention(patch, scaled=False)


@exhibit("huggingface/pytorch-image-models #2236", padding="bidirectional, ")
def mask_applied_after_softmax(patch: pytest.MonkeyPatch) -> None:
    replace_attention(patch, mask_late=True)


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


@exhibit(
    "reczoo/FuxiCTR #30",
    attention_by_hand="explicit path: ",
    leaks="bidirectional, token 0 changed: layer 1",
)
def heads_split_on_the_wrong_axis(patch: pytest.MonkeyPatch) -> None:
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


@exhibit("graykode/nlp-tutorial #29", parameters="parameters are listed")
def sub_layers_created_in_forward(patch: pytest.MonkeyPatch) -> None:
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


@exhibit("graykode/nlp-tutorial", layer_by_hand="post-norm layer: ")
def feed_forward_without_residual(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(encoder, "EncoderLayer", WithoutResidual)


class OtherNorm(encoder.EncoderLayer):
    """The config says post-norm, the code is pre-norm."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__(config)
        self.norm_first = not self.norm_first


@exhibit("harvardnlp/annotated-transformer #1, #13", layer_by_hand="post-norm layer: ")
def post_norm_said_and_pre_norm_done(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(encoder, "EncoderLayer", OtherNorm)


@exhibit("codertimo/BERT-pytorch", gelu_is_erf="feed-forward: ")
def tanh_gelu(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(encoder, "F", SimpleNamespace(gelu=lambda x: F.gelu(x, approximate="tanh")))


@exhibit("d2l-ai/d2l-en", gelu_is_erf="feed-forward: ")
def relu_in_place_of_gelu(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(encoder, "F", SimpleNamespace(gelu=F.relu))


# --- embeddings and heads ------------------------------------------------------------------------


@exhibit("deeppavlov/DeepPavlov #1312", segments_matter="segment id changed: input")
def segments_ignored(patch: pytest.MonkeyPatch) -> None:
    real = embeddings.Embeddings.forward
    patch.setattr(
        embeddings.Embeddings, "forward", lambda self, ids, s: real(self, ids, torch.zeros_like(s))
    )


@exhibit("d2l-ai/d2l-en", three_sums="embeddings: ")
def no_layer_norm_on_the_embeddings(patch: pytest.MonkeyPatch) -> None:
    def forward(self: Any, ids: Tensor, segment_ids: Tensor) -> Tensor:
        x = self.token(ids) + self.segment(segment_ids) + self.position.weight[: ids.shape[1]]
        return self.dropout(x)

    patch.setattr(embeddings.Embeddings, "forward", forward)


@exhibit("codertimo/BERT-pytorch", decoder_tied="new: two parameters")
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


@exhibit("d2l-ai/d2l-en", mlm_counts_selected="MLM loss: ")
def mlm_weights_multiplied_after_the_mean(patch: pytest.MonkeyPatch) -> None:
    replace_loss(patch, spread_mlm=True, ignore_nsp=False)


@exhibit("codertimo/BERT-pytorch", nsp_of_one_kind="NSP loss of label 0: ")
def nsp_loss_shares_the_ignore_index_of_mlm(patch: pytest.MonkeyPatch) -> None:
    replace_loss(patch, spread_mlm=False, ignore_nsp=True)
