"""The same weights in Hugging Face's model and in ours: the same loss, and every gradient.

The same states, attention and scores: `test_checkpoints.py`.
"""

import pytest
import torch
from folders import named
from model_checks import assert_close, sample_batch, shake

from bertedu.model.bert import BertForPreTraining
from bertedu.model.checkpoints import hugging_face_config, hugging_face_name, load_weights
from bertedu.model.config import BertConfig
from bertedu.pretraining.objective import pretraining_loss

transformers = pytest.importorskip("transformers")

CONFIGS = (
    BertConfig(61, 24, 2, 3, 40, 20),
    BertConfig(97, 32, 3, 4, 128, 33, layer_norm_eps=1e-5),
    BertConfig(30, 40, 5, 8, 24, 12, type_vocab_size=3, layer_norm_eps=1e-3, dropout=0.3),
)


@pytest.mark.parametrize("config", CONFIGS, ids=["L2", "L3", "L5"])
def test_loss_and_every_gradient(config: BertConfig) -> None:
    torch.manual_seed(7)
    theirs = transformers.BertForPreTraining(
        transformers.BertConfig(**hugging_face_config(config))
    ).eval()
    shake(theirs)
    ours = BertForPreTraining(config).eval()
    load_weights(ours, theirs.state_dict(), "transformers")
    batch = sample_batch(config)
    labels = torch.full_like(batch.ids, -100)
    labels[batch.selected] = batch.labels
    given = named(batch.ids, batch.segment_ids, batch.padding_mask)
    expected = theirs(**given, labels=labels, next_sentence_label=batch.next_labels)["loss"]
    loss, _ = pretraining_loss(ours, batch)
    assert_close(loss, expected, "loss", 1e-5)
    loss.backward()
    expected.backward()
    gradients = {name: parameter.grad for name, parameter in theirs.named_parameters()}
    for name, parameter in ours.named_parameters():
        gradient = gradients.pop(hugging_face_name(name))
        assert_close(parameter.grad, gradient, f"gradient of {name}", 1e-5)
        if "key.bias" not in name:  # softmax does not see it: its gradient is rounding
            # 1e-5 says little about gradients as small as that: compare to their own size, too
            off = float((parameter.grad - gradient).norm() / gradient.norm())
            assert off < 1e-4, f"gradient of {name} is off by {off:.1e} of its size"
    assert not gradients, "theirs has parameters that ours has not"
