"""The two sides: ours and Hugging Face's, with the same sizes, weights, batches and optimizer."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import cycle

import torch
from tokenizers import Tokenizer
from torch import Tensor, nn
from transformers import BertConfig as TheirConfig
from transformers import BertForPreTraining as TheirModel

from bertedu.model import checkpoints
from bertedu.model.bert import BertForPreTraining
from bertedu.model.config import BertConfig
from bertedu.optimization import make_optimizer
from bertedu.pretraining.batches import Batch
from bertedu.pretraining.objective import pretraining_loss

TOLERANCE = 1e-4  # nats of loss; for gradients, relative to their length


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


def make_model(config: BertConfig, setting: Setting) -> nn.Module:
    """Make the model of a side, ready to train, with random weights: on both sides the same."""
    torch.manual_seed(0)
    config = replace(config, dropout=setting.dropout)
    ours = BertForPreTraining(config)
    if setting.side == "ours":
        return ours.train()
    theirs: nn.Module = TheirModel(TheirConfig(**checkpoints.hugging_face_config(config)))
    theirs.set_attn_implementation(setting.attention)  # type: ignore[operator]
    theirs.load_state_dict(checkpoints.hugging_face_tensors(ours), strict=False)  # tied ones lack
    return theirs.train()


def loss_of(model: nn.Module, batch: Batch) -> Tensor:
    """Mean MLM loss plus mean NSP loss, each side in its own way.

    Ours scores words at the selected positions only. Hugging Face's, used as it is shipped,
    scores every position and then ignores those that are not selected.
    """
    if isinstance(model, BertForPreTraining):
        return pretraining_loss(model, batch)[0]
    labels = torch.full_like(batch.ids, -100).masked_scatter(batch.selected, batch.labels)
    loss: Tensor = model(
        input_ids=batch.ids,
        attention_mask=batch.padding_mask.long(),
        token_type_ids=batch.segment_ids,
        labels=labels,
        next_sentence_label=batch.next_labels,
    ).loss
    return loss


def assert_equal(ours: nn.Module, theirs: nn.Module, batch: Batch) -> None:
    """Raise NotEqual if the loss or a gradient differs, in float32 and without dropout."""
    losses = []
    for model in (ours, theirs):
        loss = loss_of(model.eval(), batch)  # no dropout
        loss.backward()  # type: ignore[no-untyped-call]
        losses.append(loss.item())
    if not abs(losses[0] - losses[1]) <= TOLERANCE:
        raise NotEqual(f"the losses differ: ours {losses[0]:.6f}, Hugging Face {losses[1]:.6f}")
    for name, parameter in ours.named_parameters():
        own, other = parameter.grad, theirs.get_parameter(checkpoints.hugging_face_name(name)).grad
        difference = (own - other).norm() / (other.norm() + TOLERANCE)  # type: ignore[operator, union-attr]
        if not difference <= TOLERANCE:
            raise NotEqual(f"the gradients of {name} differ by {difference:.2g} of their length")


def training_step(
    model: nn.Module,
    batches: Sequence[Batch],
    setting: Setting,
    make: Callable[[nn.Module, float], torch.optim.Optimizer] = make_optimizer,
) -> Callable[[], None]:
    """Return a function that does one step: forward, backward, clipping, fused AdamW if no other.

    Each call takes the next batch, so that the n-th call sees the same tokens on every side.
    """
    optimizer = make(model, 0.01)
    for group in optimizer.param_groups:
        group["lr"] = 1e-4
    stream = cycle(batches)

    def step() -> None:
        with torch.autocast("cpu", torch.bfloat16, enabled=setting.bfloat16):
            loss = loss_of(model, next(stream))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    return step


@torch.inference_mode()
def sentence_vectors(
    model: nn.Module, tokenizer: Tokenizer, texts: Sequence[str], size: int = 32
) -> Tensor:
    """Encode with Hugging Face as its guides show it: in the order of the texts, mean pooling."""
    tokenizer.enable_truncation(model.config.max_position_embeddings)  # type: ignore[union-attr, arg-type]
    tokenizer.enable_padding()
    vectors = []
    for begin in range(0, len(texts), size):
        rows = tokenizer.encode_batch(list(texts[begin : begin + size]))
        ids = torch.tensor([row.ids for row in rows])
        mask = torch.tensor([row.attention_mask for row in rows])
        states = model.bert(ids, mask).last_hidden_state  # type: ignore[operator]
        vectors.append((states * mask[:, :, None]).sum(1) / mask.sum(1, keepdim=True))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return torch.cat(vectors)
