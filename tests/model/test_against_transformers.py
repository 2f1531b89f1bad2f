"""The same weights in Hugging Face's model and in ours: the same numbers, gradients included."""

import dataclasses

import pytest
import torch
from model_checks import sample_batch, shake
from torch import Tensor

from bertedu.model.bert import BertForPreTraining
from bertedu.model.checkpoints import hugging_face_config, hugging_face_name, load_weights
from bertedu.model.config import DIRECTIONS, BertConfig
from bertedu.pretraining.batches import Batch
from bertedu.pretraining.objective import pretraining_loss

transformers = pytest.importorskip("transformers")

CONFIGS = (
    BertConfig(61, 24, 2, 3, 40, 20),
    BertConfig(97, 32, 3, 4, 128, 33, layer_norm_eps=1e-5),
    BertConfig(30, 40, 5, 8, 24, 12, type_vocab_size=3, layer_norm_eps=1e-3, dropout=0.3),
)


def pair(config: BertConfig, large: bool) -> tuple[BertForPreTraining, torch.nn.Module]:
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
        output_hidden_states=True,
        output_attentions=True,
    )


def assert_same(ours: Tensor, theirs: Tensor, what: str) -> None:
    torch.testing.assert_close(
        ours, theirs, rtol=1e-5, atol=1e-5, msg=lambda text: f"{what}: {text}"
    )


@pytest.mark.parametrize("large", [False, True], ids=["fresh", "large"])
@pytest.mark.parametrize("config", CONFIGS, ids=["L2", "L3", "L5"])
def test_every_state_weight_score_and_gradient(config: BertConfig, large: bool) -> None:
    ours, theirs = pair(config, large)
    batch = sample_batch(config)
    real = batch.padding_mask
    expected = their_output(theirs, batch)
    output = ours.bert(batch.ids, batch.segment_ids, real, return_attention=True)
    fast = ours.bert(batch.ids, batch.segment_ids, real)
    assert len(output.hidden_states) == config.num_hidden_layers + 1
    for number, state in enumerate(expected["hidden_states"]):
        assert_same(output.hidden_states[number], state, f"state {number}")
        assert_same(fast.hidden_states[number][real], state[real], f"state {number}, fast path")
    assert len(output.attention) == config.num_hidden_layers
    for number, weights in enumerate(expected["attentions"]):
        assert_same(output.attention[number], weights, f"attention {number}")
    pooled = theirs.bert(batch.ids, real.long(), batch.segment_ids).pooler_output
    assert_same(output.pooled, pooled, "pooled")
    words, follows = ours(batch.ids, batch.segment_ids, real)
    assert_same(words, expected["prediction_logits"], "word scores")
    assert_same(follows, expected["seq_relationship_logits"], "next-sentence scores")

    loss, _ = pretraining_loss(ours, batch)
    assert_same(loss, expected["loss"], "loss")
    loss.backward()
    expected["loss"].backward()
    gradients = {name: parameter.grad for name, parameter in theirs.named_parameters()}
    for name, parameter in ours.named_parameters():
        gradient = gradients.pop(hugging_face_name(name))
        assert_same(parameter.grad, gradient, f"gradient of {name}")
        if "key.bias" not in name:  # softmax does not see it: its gradient is rounding
            # 1e-5 says little about gradients as small as that: compare to their own size, too
            off = float((parameter.grad - gradient).norm() / gradient.norm())
            assert off < 1e-4, f"gradient of {name} is off by {off:.1e} of its size"
    assert not gradients, "theirs has parameters that ours has not"


@pytest.mark.parametrize("config", CONFIGS, ids=["L2", "L3", "L5"])
def test_a_decoder_is_our_left_to_right(config: BertConfig) -> None:
    config = dataclasses.replace(config, direction="left-to-right")
    ours, theirs = pair(config, large=True)
    assert theirs.config.is_decoder
    batch = sample_batch(config)
    real = batch.padding_mask
    with torch.no_grad():
        expected = their_output(theirs, batch)
        output = ours.bert(batch.ids, batch.segment_ids, real, return_attention=True)
        words, follows = ours(batch.ids, batch.segment_ids, real)
    assert float(expected["attentions"][0].triu(1).abs().max()) == 0
    for number, state in enumerate(expected["hidden_states"]):
        assert_same(output.hidden_states[number][real], state[real], f"state {number}")
    for number, weights in enumerate(expected["attentions"]):
        rows = real[:, None, :].expand(weights.shape[:3])
        assert_same(output.attention[number][rows], weights[rows], f"attention {number}")
    assert_same(words[real], expected["prediction_logits"][real], "word scores")
    # Theirs pools [CLS], which has read nothing but itself; ours the last real token.
    at_cls = ours.nsp(ours.bert.pooler(output.last[:, 0]))
    assert_same(at_cls, expected["seq_relationship_logits"], "next-sentence scores at [CLS]")
    last = output.last[torch.arange(len(real)), real.sum(dim=1) - 1]
    assert_same(follows, ours.nsp(ours.bert.pooler(last)), "next-sentence scores")


def test_right_to_left_is_a_decoder_on_the_text_read_backwards() -> None:
    """Turn the positions round as well, and the mirror image must agree."""
    config = dataclasses.replace(CONFIGS[1], direction="right-to-left")
    size = 9
    ours, theirs = pair(dataclasses.replace(config, direction="left-to-right"), large=True)
    mirrored = BertForPreTraining(config).eval()
    mirrored.load_state_dict(ours.state_dict())
    with torch.no_grad():
        mirrored.bert.embeddings.position.weight[:size] = (
            ours.bert.embeddings.position.weight[:size].clone().flip(0)
        )
        ids = torch.arange(1, 2 * size + 1).view(2, size)
        expected = theirs.bert(ids, output_hidden_states=True).hidden_states
        states = mirrored.bert(ids.flip(1)).hidden_states
    for number, (state, theirs_) in enumerate(zip(states, expected, strict=True)):
        assert_same(state.flip(1), theirs_, f"state {number}")


def test_names_there_and_back() -> None:
    """Each of our names is one of theirs, none twice; only their copies of tied ones are left."""
    ours, theirs = pair(CONFIGS[2], large=True)
    own = [name for name in ours.state_dict() if name != "mlm.decoder.weight"]
    translated = [hugging_face_name(name) for name in own]
    assert len(set(translated)) == len(own)
    state = theirs.state_dict()
    assert set(state) - set(translated) == {
        "cls.predictions.decoder.weight",
        "cls.predictions.decoder.bias",
    }
    for name, theirs_ in zip(own, translated, strict=True):
        assert torch.equal(ours.state_dict()[name], state[theirs_]), name
    fresh = transformers.BertForPreTraining(theirs.config).eval()
    back = {hugging_face_name(n): ours.state_dict()[n] for n in own}
    missing, unexpected = fresh.load_state_dict(back, strict=False)
    assert not unexpected
    assert all(name.startswith("cls.predictions.decoder.") for name in missing)
    for name, tensor in fresh.state_dict().items():
        assert torch.equal(tensor, state[name]), name


def test_only_left_to_right_is_written_as_a_decoder() -> None:
    for direction in DIRECTIONS:
        written = hugging_face_config(dataclasses.replace(CONFIGS[0], direction=direction))
        assert written["is_decoder"] is (direction == "left-to-right")
        assert written["bertedu"]["direction"] == direction
