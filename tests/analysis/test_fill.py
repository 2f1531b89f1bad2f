"""Blanks: what the guesses depend on, that they are the model's, and what cannot be filled."""

from __future__ import annotations

import re

import pytest
import torch
from tokenizers import Tokenizer

from bertedu.analysis.fill import Guess, blank_logits, fill_blanks
from bertedu.model.bert import BertForPreTraining
from bertedu.model.config import BertConfig, Direction
from bertedu.text.tokenization import SPECIAL_TOKENS, fast_tokenizer

WORDS = ["the", "a", "dog", "cat", "bird", "barked", "purred", "sang", "in", "near", "yard", "tree"]
WORDS += ["loudly", ",", "."]
VOCABULARY = [*SPECIAL_TOKENS, *WORDS, "##s"]
LONGEST = 16


def make_model(direction: Direction = "bidirectional") -> BertForPreTraining:
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(VOCABULARY),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=LONGEST,
        dropout=0.5,
        initializer_range=0.5,  # wide, so that every input word moves the answer
        direction=direction,
    )
    return BertForPreTraining(config)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return fast_tokenizer(VOCABULARY)


def shares(model: BertForPreTraining, tokenizer: Tokenizer, text: str) -> dict[str, float]:
    """All guesses for the first blank."""
    guesses = fill_blanks(model, tokenizer, text, top=len(VOCABULARY) - len(SPECIAL_TOKENS))[0]
    return {guess.word: guess.probability for guess in guesses}


def differ(one: dict[str, float], other: dict[str, float]) -> bool:
    assert one.keys() == other.keys()
    return max(abs(one[word] - other[word]) for word in one) > 1e-4


@pytest.mark.parametrize(
    ("direction", "left_matters", "right_matters"),
    [
        ("bidirectional", True, True),
        ("left-to-right", True, False),
        ("right-to-left", False, True),
    ],
)
def test_guesses_depend_on_the_sides_the_model_sees(
    tokenizer: Tokenizer, direction: Direction, left_matters: bool, right_matters: bool
) -> None:
    model = make_model(direction)
    here = shares(model, tokenizer, "the ___ barked in the yard")
    assert differ(here, shares(model, tokenizer, "a ___ barked in the yard")) == left_matters
    assert differ(here, shares(model, tokenizer, "the ___ barked in the tree")) == right_matters
    assert differ(here, shares(model, tokenizer, "the ___ sang in the yard")) == right_matters


def test_probabilities_are_a_softmax_over_words_alone(tokenizer: Tokenizer) -> None:
    model = make_model()
    text = "the dog ___ loudly ."
    ids = [2, *(VOCABULARY.index(word) for word in ["the", "dog", "[MASK]", "loudly", "."]), 3]
    with torch.no_grad():
        logits, _ = model.eval()(torch.tensor([ids]))
    expected = logits[0, 3, len(SPECIAL_TOKENS) :].softmax(-1)
    got = shares(model, tokenizer, text)
    assert sum(got.values()) == pytest.approx(1, abs=1e-5)
    for word, share in zip(VOCABULARY[len(SPECIAL_TOKENS) :], expected.tolist(), strict=True):
        assert got[word] == pytest.approx(share, abs=1e-6), word


def test_special_tokens_are_never_guessed_however_likely(tokenizer: Tokenizer) -> None:
    model = make_model()
    with torch.no_grad():
        model.mlm.decoder.bias[: len(SPECIAL_TOKENS)] = 100
    got = shares(model, tokenizer, "the ___ barked")
    assert set(got) == set(VOCABULARY[len(SPECIAL_TOKENS) :])
    assert all(share > 0 for share in got.values())


def test_best_guess_first_and_as_many_as_asked(tokenizer: Tokenizer) -> None:
    model = make_model()
    everything = sorted(shares(model, tokenizer, "the ___ sang").items(), key=lambda x: -x[1])
    for top in (1, 3, 5):
        (guesses,) = fill_blanks(model, tokenizer, "the ___ sang", top)
        assert [(g.word, g.probability) for g in guesses] == everything[:top]
    assert len(fill_blanks(model, tokenizer, "the ___ sang")[0]) == 5


def test_every_blank_gets_its_own_guesses_in_reading_order(tokenizer: Tokenizer) -> None:
    model = make_model()
    text = "the ___ barked near a ____ ."
    answers = fill_blanks(model, tokenizer, text, 3)
    assert len(answers) == 2
    logits, tokens = blank_logits(model, tokenizer, text)
    assert tokens == ["[CLS]", "the", "[MASK]", "barked", "near", "a", "[MASK]", ".", "[SEP]"]
    ids = torch.tensor([[VOCABULARY.index(token) for token in tokens]])
    with torch.no_grad():
        whole, _ = model.eval()(ids)
    for row, place, guesses in zip(logits, (2, 6), answers, strict=True):
        torch.testing.assert_close(row, whole[0, place], atol=1e-5, rtol=1e-5)
        best = int(whole[0, place, len(SPECIAL_TOKENS) :].argmax()) + len(SPECIAL_TOKENS)
        assert guesses[0].word == VOCABULARY[best]


@pytest.mark.parametrize("blank", ["__", "_______", "[MASK]"])
def test_ways_to_write_a_blank_are_the_same(tokenizer: Tokenizer, blank: str) -> None:
    model = make_model()
    expected = fill_blanks(model, tokenizer, "the ___, loudly.")
    assert fill_blanks(model, tokenizer, f"The {blank}, loudly.") == expected


def test_a_model_in_training_answers_without_dropout_and_goes_on(tokenizer: Tokenizer) -> None:
    model = make_model().train()
    first = fill_blanks(model, tokenizer, "the ___ sang")
    assert fill_blanks(model, tokenizer, "the ___ sang") == first
    assert model.training
    assert all(part.training for part in model.modules())
    assert fill_blanks(model.eval(), tokenizer, "the ___ sang") == first
    assert not model.training
    assert all(p.grad is None for p in model.parameters())


@pytest.mark.parametrize("text", ["", "   ", "the dog barked", "the _ barked", "the [mask] sang"])
def test_a_text_without_a_blank_is_told_how_to_write_one(tokenizer: Tokenizer, text: str) -> None:
    message = re.escape(f"no blank in {text!r}: write ___ or [MASK]")
    with pytest.raises(ValueError, match=message):
        fill_blanks(make_model(), tokenizer, text)


@pytest.mark.parametrize("text", [None, 3, ["the", "___"], b"the ___"])
def test_something_that_is_not_text_is_named(tokenizer: Tokenizer, text: object) -> None:
    with pytest.raises(TypeError, match=f"must be a string, not {type(text).__name__}"):
        fill_blanks(make_model(), tokenizer, text)  # type: ignore[arg-type]


def test_the_longest_text_fits_and_one_word_more_is_an_error(tokenizer: Tokenizer) -> None:
    model = make_model()
    text = "___ " + "dog " * (LONGEST - 3)  # and [CLS] and [SEP]
    assert fill_blanks(model, tokenizer, text)
    with pytest.raises(ValueError, match=f"{LONGEST + 1} tokens.*position.*{LONGEST}"):
        fill_blanks(model, tokenizer, text + "dog")
    model.train()
    with pytest.raises(ValueError, match="position"):
        fill_blanks(model, tokenizer, text + "dog")
    assert model.training


@pytest.mark.parametrize("top", [0, -1, len(WORDS) + 2, 10_000])
def test_more_or_fewer_guesses_than_there_are_words(tokenizer: Tokenizer, top: int) -> None:
    with pytest.raises(ValueError, match=f"top is {top}: ask for 1 to {len(WORDS) + 1} guesses"):
        fill_blanks(make_model(), tokenizer, "the ___ sang", top)


def test_a_guess_is_a_word_and_a_share(tokenizer: Tokenizer) -> None:
    guess = fill_blanks(make_model(), tokenizer, "the ___ sang")[0][0]
    assert guess == Guess(guess.word, guess.probability)
    assert guess.word in VOCABULARY
    assert isinstance(guess.probability, float)
