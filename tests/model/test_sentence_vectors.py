"""Sentence vectors: each is that of its text alone, whatever else is in the list."""

import pytest
import torch
from model_checks import shake
from torch import Tensor, nn

import bertedu
from bertedu.model import checkpoints
from bertedu.model.bert import Bert, BertForPreTraining
from bertedu.model.checkpoints import Loaded
from bertedu.model.config import BertConfig
from bertedu.model.elmo import ElmoForPreTraining
from bertedu.model.features import encode
from bertedu.text.fast_tokenizer import load_tokenizer

TOKENIZER = load_tokenizer()
CONFIG = BertConfig(TOKENIZER.get_vocab_size(), 16, 2, 2, 32, 20, dropout=0.4)
TEXTS = [
    "The café by the river was closed.",
    "They laughed.",
    "",
    "Nobody had told the two brothers, who had walked for three hours in the rain, and longer.",
    "They laughed.",
    "Rain.",
]


@pytest.fixture(scope="module")
def bert() -> Bert:
    torch.manual_seed(0)
    model = Bert(CONFIG)
    shake(model)
    return model.eval()


def close(one: Tensor, other: Tensor) -> bool:
    return torch.allclose(one, other, rtol=1e-5, atol=1e-5)


@torch.no_grad()
def by_hand(bert: Bert, text: str) -> Tensor:
    ids = TOKENIZER.encode(text).ids
    if len(ids) > 20:
        ids = ids[:19] + [TOKENIZER.token_to_id("[SEP]")]
    states = bert(torch.tensor([ids])).last[0]
    return states.mean(0)


@pytest.mark.parametrize("batch_size", [1, 2, 4, 100])
def test_each_vector_is_that_of_its_text_alone(bert: Bert, batch_size: int) -> None:
    found = encode(bert, TOKENIZER, TEXTS, batch_size)
    for vector, text in zip(found, TEXTS, strict=True):
        assert close(vector, by_hand(bert, text)), text
    assert not close(found[0], found[1])


def test_a_long_text_is_cut_before_its_last_token(bert: Bert) -> None:
    longer = TEXTS[3] + " And so on."
    assert len(TOKENIZER.encode(TEXTS[3]).ids) > 20
    vectors = encode(bert, TOKENIZER, [TEXTS[3], longer, "Other " + TEXTS[3]])
    assert close(vectors[0], vectors[1])
    assert not close(vectors[0], vectors[2])


def test_like_lengths_meet_so_that_little_is_padded(bert: Bert) -> None:
    shapes = []
    hook = bert.register_forward_pre_hook(lambda _, inputs: shapes.append(inputs[0].shape))
    texts = ["Rain.", TEXTS[3]] * 4
    encode(bert, TOKENIZER, texts, batch_size=4)
    hook.remove()
    assert shapes == [(4, 4), (4, 20)]


def test_the_model_is_left_as_it_was_and_dropout_is_off(bert: Bert) -> None:
    expected = encode(bert, TOKENIZER, TEXTS)
    bert.train()
    assert close(encode(bert, TOKENIZER, TEXTS), expected)
    assert bert.training
    bert.eval()
    whole = BertForPreTraining(CONFIG)
    whole.bert.load_state_dict(bert.state_dict())
    assert close(encode(whole, TOKENIZER, TEXTS), expected)
    assert encode(bert, TOKENIZER, []).shape == (0, 16)


def test_what_cannot_be_encoded(bert: Bert) -> None:
    with pytest.raises(TypeError, match=r"Put it in a list: \[text\]"):
        encode(bert, TOKENIZER, "one text")
    with pytest.raises(ValueError, match="batch_size is 0"):
        encode(bert, TOKENIZER, TEXTS, batch_size=0)


def test_by_name(bert: Bert, monkeypatch: pytest.MonkeyPatch) -> None:
    found: dict[str, nn.Module] = {"minilm": bert, "elmo": ElmoForPreTraining(CONFIG)}
    monkeypatch.setattr(
        checkpoints,
        "find_model",
        lambda name: Loaded(found[name], TOKENIZER),  # type: ignore[arg-type]
    )
    assert close(bertedu.encode(TEXTS), encode(bert, TOKENIZER, TEXTS))
    with pytest.raises(TypeError, match="is an ELMo"):
        bertedu.encode(TEXTS, "elmo")
