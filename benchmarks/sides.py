"""The two sides: ours and Hugging Face's, with the same sizes, weights, batches and optimizer."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import cycle

import torch
from torch import Tensor, nn
from transformers import BertConfig as TheirConfig
from transformers import BertForPreTraining as TheirModel

from bertedu.model.bert import BertForPreTraining
from bertedu.model.config import BertConfig
from bertedu.model.hugging_face import hugging_face_config, hugging_face_name
from bertedu.model.optimization import make_optimizer
from bertedu.pretraining.batches import Batch
from bertedu.pretraining.objective import pretraining_loss

TOLERANCE = 1e-4  # nats of loss; for gradients, relative to their length
IGNORED = -100  # Hugging Face's label of a token that is not to be predicted


class NotEqual(AssertionError):
    """The sides do not compute the same thing, so comparing their speed would mean nothing."""


@dataclass(frozen=True)
class Setting:
    """How a side runs. ``attention`` is Hugging Face's switch; ours chooses by itself."""

    side: str  # "ours" or "theirs"
    dropout: float = 0.0
    bfloat16: bool = False
    attention: str = "sdpa"

    def __str__(self) -> str:
        """Say it in words, for a table."""
        kind = f"{self.attention}, " if self.side == "theirs" else ""
        return f"{kind}{'bfloat16' if self.bfloat16 else 'float32'}, dropout {self.dropout:g}"


def make_ours(config: BertConfig, dropout: float = 0.0) -> BertForPreTraining:
    """Make our model; its random weights are the same at every call."""
    torch.manual_seed(0)
    return BertForPreTraining(replace(config, dropout=dropout))


def make_theirs(config: BertConfig, dropout: float = 0.0, attention: str = "sdpa") -> nn.Module:
    """Make Hugging Face's model with the sizes and the weights of ours."""
    values = hugging_face_config(replace(config, dropout=dropout))
    theirs: nn.Module = TheirModel(TheirConfig(**values))
    theirs.set_attn_implementation(attention)  # type: ignore[operator]
    copy_weights(make_ours(config), theirs)
    return theirs


def copy_weights(ours: nn.Module, theirs: nn.Module) -> None:
    """Copy our weights into Hugging Face's model; every parameter must have its partner."""
    own = {hugging_face_name(name): value for name, value in ours.named_parameters()}
    other = dict(theirs.named_parameters())
    if own.keys() != other.keys():
        raise NotEqual(f"one side lacks {', '.join(sorted(own.keys() ^ other.keys()))}")
    with torch.no_grad():
        for name, value in own.items():
            other[name].copy_(value)


def loss_of(model: nn.Module, batch: Batch) -> Tensor:
    """Mean MLM loss plus mean NSP loss, each side in its own way.

    Ours scores words at the selected positions only. Hugging Face's, used as it is shipped,
    scores every position and then ignores those that are not selected.
    """
    if isinstance(model, BertForPreTraining):
        return pretraining_loss(model, batch)[0]
    labels = torch.full_like(batch.ids, IGNORED).masked_scatter(batch.selected, batch.labels)
    loss: Tensor = model(
        input_ids=batch.ids,
        attention_mask=batch.padding_mask.long(),
        token_type_ids=batch.segment_ids,
        labels=labels,
        next_sentence_label=batch.next_labels,
    ).loss
    return loss


def assert_equal(ours: nn.Module, theirs: nn.Module, batch: Batch) -> None:
    """Compare the loss and every gradient, in float32 and without dropout.

    Raises
    ------
    NotEqual
        They differ; the message says where and by how much.

    """
    losses = []
    for model in (ours, theirs):
        model.eval()  # no dropout
        model.zero_grad()
        loss = loss_of(model, batch)
        loss.backward()  # type: ignore[no-untyped-call]
        losses.append(loss.item())
    if not abs(losses[0] - losses[1]) <= TOLERANCE:
        raise NotEqual(f"the losses differ: ours {losses[0]:.6f}, Hugging Face {losses[1]:.6f}")
    other = dict(theirs.named_parameters())
    for name, parameter in ours.named_parameters():
        own_gradient, gradient = parameter.grad, other[hugging_face_name(name)].grad
        assert own_gradient is not None
        assert gradient is not None
        difference = (own_gradient - gradient).norm() / (gradient.norm() + TOLERANCE)
        if not difference <= TOLERANCE:
            raise NotEqual(f"the gradients of {name} differ by {difference:.2g} of their length")


def make_model(config: BertConfig, setting: Setting) -> nn.Module:
    """Make the model of a side, ready to train."""
    if setting.side == "ours":
        return make_ours(config, setting.dropout).train()
    return make_theirs(config, setting.dropout, setting.attention).train()


def training_step(
    model: nn.Module, batches: Sequence[Batch], bfloat16: bool = False
) -> Callable[[], None]:
    """Return a function that does one step: forward, backward, clipping, fused AdamW.

    Each call takes the next batch, beginning with the first, so that the n-th call sees the same
    tokens on every side.
    """
    optimizer = make_optimizer(model, weight_decay=0.01)
    for group in optimizer.param_groups:
        group["lr"] = 1e-4
    stream = cycle(batches)

    def step() -> None:
        with torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
            loss = loss_of(model, next(stream))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    return step


def inference(config: BertConfig, side: str, weights: bool, batch: Batch) -> Callable[[], None]:
    """Return a function that encodes a batch in float32, with attention weights if asked for.

    Hugging Face's fused attention cannot return weights; with them it runs its eager one.
    """
    if side == "ours":
        ours = make_ours(config).eval().bert

        @torch.inference_mode()
        def encode() -> None:
            ours(batch.ids, batch.segment_ids, batch.padding_mask, return_attention=weights)

    else:
        theirs = make_theirs(config, attention="eager" if weights else "sdpa").eval()
        mask = batch.padding_mask.long()

        @torch.inference_mode()
        def encode() -> None:
            theirs.bert(  # type: ignore[operator]
                batch.ids, mask, batch.segment_ids, output_attentions=weights
            )

    return encode
