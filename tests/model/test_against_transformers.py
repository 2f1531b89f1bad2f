"""The same weights in Hugging Face's model and in ours: the same loss, and every gradient.

The same states, attention and scores: `test_checkpoints.py`.
"""

import pytest
import torch
from model_checks import sample_batch, shake
from torch import Tensor

from bertedu.model.bert import BertForPreTraining
from bertedu.model.checkpoints import hugging_face_config, hugging_face_name, load_weights
from bertedu.model.config import BertConfig
from bertedu.pretraining.batches import Batch
from bertedu.pretraining.objective import pretraining_loss

transformers = pytest.importorskip("transformers")

CONFIGS = (
    BertConfig(61, 24, 2, 3, 40, 20),
    BertConfig(97, 32, 3, 4, 128, 33, layer_norm_eps=1e-5),
    BertConfig(30, 40, 5, 8, 24, 12, type_vocab_size=3, layer_norm_eps=1e-3, dropout=0.3),
)
configs = pytest.mark.parametrize("config", CONFIGS, ids=["L2", "L3", "L5"])


def pair(config: BertConfig, large: bool = True) -> tuple[BertForPreTraining, torch.nn.Module]:
    """Make theirs at random, load it into ours."""
    torch.manual_seed(7)
    theirs = transformers.BertForPreTraining(
        transformers.BertConfig(**hugging_face_config(config))
    ).eval()
    if large:  # no bias is 0 and no scale is 1 any more
        shake(theirs)
    ours = BertForPreTraining(config).eval()
    load_weights(ours, theirs.state_dict(), "transformers")
    return ours, theirs


def their_output(theirs: torch.nn.Module, batch: Batch) -> dict[str, Tensor]:
    labels = torch.full_like(batch.ids, -100)
    labels[batch.selected] = batch.labels
    return theirs(
        input_ids=batch.ids,
        token_type_ids=batch.segment_ids,
        attention_mask=batch.padding_mask.long(),
        labels=labels,
        next_sentence_label=batch.next_labels,
    )


def assert_same(ours: Tensor, theirs: Tensor, what: str) -> None:
    torch.testing.assert_close(
        ours, theirs, rtol=1e-5, atol=1e-5, msg=lambda text: f"{what}: {text}"
    )


@pytest.mark.parametrize("large", [False, True], ids=["fresh", "large"])
@configs
def test_loss_and_every_gradient(config: BertConfig, large: bool) -> None:
    ours, theirs = pair(config, large)
    batch = sample_batch(config)
    loss, _ = pretraining_loss(ours, batch)
    expected = their_output(theirs, batch)["loss"]
    assert_same(loss, expected, "loss")
    loss.backward()
    expected.backward()
    gradients = {name: parameter.grad for name, parameter in theirs.named_parameters()}
    for name, parameter in ours.named_parameters():
        gradient = gradients.pop(hugging_face_name(name))
        assert_same(parameter.grad, gradient, f"gradient of {name}")
        if "key.bias" not in name:  # softmax does not see it: its gradient is rounding
            # 1e-5 says little about gradients as small as that: compare to their own size, too
            off = float((parameter.grad - gradient).norm() / gradient.norm())
            assert off < 1e-4, f"gradient of {name} is off by {off:.1e} of its size"
    assert not gradients, "theirs has parameters that ours has not"
