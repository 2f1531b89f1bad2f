"""Blanks: what the guesses depend on, that they are the model's, and what cannot be filled."""

import math
import re
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer

from bertedu.analysis.fill import BLANK, Side, ask_readers, blank_logits, fill_blanks, unreadable
from bertedu.model.bert import BertForPreTraining
from bertedu.model.config import BertConfig, Direction
from bertedu.model.elmo import ElmoForPreTraining
from bertedu.pretraining.objective import PreTrainingModel
from bertedu.text.fast_tokenizer import fast_tokenizer
from bertedu.text.tokenization import MASK_ID, SPECIAL_TOKENS, UNK_ID

WORDS = ["the", "a", "dog", "cat", "bird", "barked", "purred", "sang", "in", "near", "yard", "tree"]
WORDS += ["loudly", ",", "."]
VOCABULARY = [*SPECIAL_TOKENS, *WORDS, "##s"]
LONGEST, ALL = 16, len(WORDS) + 1


def make(kind: Any = "bidirectional") -> Any:
    """Make a model so wide that every input word moves the answer."""
    torch.manual_seed(0)
    direction = "bidirectional" if kind == "elmo" else kind
    sizes = (len(VOCABULARY), 16, 2, 2, 32, LONGEST)
    config = BertConfig(*sizes, dropout=0.5, initializer_range=0.5, direction=direction)
    if kind != "elmo":
        return BertForPreTraining(config)
    model = ElmoForPreTraining(config)
    with torch.no_grad():
        for parameter in (*model.elmo.parameters(), model.decoder.bias):
            parameter.normal_()
    return model


KINDS = ["bidirectional", "left-to-right", "right-to-left", "elmo"]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return fast_tokenizer(VOCABULARY)


def shares(
    model: PreTrainingModel, tokenizer: Tokenizer, text: str, side: Side
) -> dict[str, float]:
    """All guesses for the one blank."""
    (guesses,) = fill_blanks(model, tokenizer, text, ALL, side)
    return {guess.word: guess.probability for guess in guesses}


# -- models that read one way


@pytest.mark.parametrize(
    ("kind", "side", "direction"),
    [
        ("left-to-right", "both", "left-to-right"),
        ("right-to-left", "both", "right-to-left"),
        ("elmo", "left", "left-to-right"),
        ("elmo", "right", "right-to-left"),
    ],
)
@pytest.mark.parametrize("place", range(1, 7))
def test_a_one_way_guess_is_the_one_for_a_text_without_the_blank_and_the_other_side(
    tokenizer: Tokenizer, kind: str, side: Side, direction: Direction, place: int
) -> None:
    words = ["the", "dog", "barked", "loudly", "near", "a"]
    tokens = ["[CLS]", *words, "[SEP]"]
    to_right = direction == "left-to-right"
    # from the right there is nothing to cut off, or positions would shift: other words, then
    seen = tokens[:place] if to_right else [*["cat"] * (place + 1), *tokens[place + 1 :]]
    model = make(kind).eval()
    with torch.no_grad():
        scores = model(torch.tensor([[VOCABULARY.index(token) for token in seen]]))
    half = scores[1] if side == "right" else scores[0]
    words[place - 1] = "___"
    (row,), _ = blank_logits(model, tokenizer, " ".join(words), side)
    torch.testing.assert_close(row, half[0, -1 if to_right else place + 1], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", ["left-to-right", "right-to-left", "elmo"])
def test_a_one_way_model_reads_other_blanks_as_unknown_and_its_own_not_at_all(
    tokenizer: Tokenizer, kind: str
) -> None:
    model = make(kind)
    seen = []
    reader = model.elmo if isinstance(model, ElmoForPreTraining) else model.bert
    handle = reader.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    text = "the ___ barked near ___ dog"
    got, _ = blank_logits(model, tokenizer, text)
    handle.remove()
    (ids,) = seen
    assert MASK_ID not in ids
    assert (ids == UNK_ID).nonzero().tolist() == [[0, 2], [0, 5]]
    for blank, other in ((0, 1), (1, 0)):
        one = text.split()
        one[(1, 4)[other]] = "zzz"  # no such word: [UNK]
        (alone,), tokens = blank_logits(model, tokenizer, " ".join(one))
        assert tokens.count("[UNK]") == 1
        torch.testing.assert_close(got[blank], alone, atol=1e-5, rtol=1e-5)


# -- the two halves of an ELMo


@pytest.mark.parametrize("place", range(5))
def test_joined_halves_are_multiplied_and_divided_by_the_frequency_of_the_word(
    tokenizer: Tokenizer, place: int
) -> None:
    model = make("elmo")
    words = ["the", "dog", "barked", "in", "yard"]
    words[place] = "___"
    text = " ".join(words)
    left, right, joined = (
        shares(model, tokenizer, text, side) for side in ("left", "right", "both")
    )
    bias = dict(zip(VOCABULARY, model.decoder.bias.tolist(), strict=True))
    frequency = torch.tensor([bias[word] for word in joined]).softmax(0)
    halves = (torch.tensor([half[word] for word in joined]) for half in (left, right))
    expected = math.prod(halves) / frequency
    found = torch.tensor([*joined.values()])
    torch.testing.assert_close(found, expected / expected.sum(), rtol=1e-3, atol=1e-7)


def test_readers_answer_under_their_names_and_an_elmo_three_times(tokenizer: Tokenizer) -> None:
    bert, elmo = make(), make("elmo")
    text = "the ___ barked near ___"
    answers = ask_readers({"BERT": bert, "ELMo": elmo, "again": bert}, tokenizer, text, top=3)
    expected = {
        "BERT": fill_blanks(bert, tokenizer, text, 3),
        "ELMo, left half": fill_blanks(elmo, tokenizer, text, 3, "left"),
        "ELMo, right half": fill_blanks(elmo, tokenizer, text, 3, "right"),
        "ELMo, joined": fill_blanks(elmo, tokenizer, text, 3),
        "again": fill_blanks(bert, tokenizer, text, 3),
    }
    assert list(answers.items()) == list(expected.items())  # in this order
    assert len({str(guesses) for guesses in answers.values()}) == 4


# -- all models


TEXTS = ["___", "___ sang", "the ___", "___ ___", "The ___ barked near a ____."]


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("kind", KINDS)
def test_guesses_are_a_softmax_over_words_alone_best_first(
    tokenizer: Tokenizer, kind: str, text: str
) -> None:
    model = make(kind)
    with torch.no_grad():  # special tokens are never guessed, however likely
        model.decoder.bias[: len(SPECIAL_TOKENS)] = 100
    logits, tokens = blank_logits(model, tokenizer, text)
    assert tokens.count("[MASK]") == len(BLANK.findall(text)) == len(logits)
    answers = fill_blanks(model, tokenizer, text, ALL)
    for row, guesses in zip(logits[:, len(SPECIAL_TOKENS) :].softmax(-1), answers, strict=True):
        assert {guess.word for guess in guesses} == {*WORDS, "##s"}
        expected = row[[VOCABULARY.index(g.word) - len(SPECIAL_TOKENS) for g in guesses]]
        got = [guess.probability for guess in guesses]
        assert got == sorted(got, reverse=True) == pytest.approx(expected.tolist(), abs=1e-6)
    assert fill_blanks(model, tokenizer, text, 3) == [guesses[:3] for guesses in answers]
    assert fill_blanks(model, tokenizer, text) == [guesses[:5] for guesses in answers]


def test_every_blank_gets_its_own_scores_in_reading_order(tokenizer: Tokenizer) -> None:
    model = make().eval()
    logits, tokens = blank_logits(model, tokenizer, "the ___ barked near a [MASK] .")
    with torch.no_grad():
        whole, _ = model(torch.tensor([[VOCABULARY.index(token) for token in tokens]]))
    torch.testing.assert_close(logits, whole[0, [2, 6]], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("blank", ["__", "_______", "[MASK]"])
def test_ways_to_write_a_blank_are_the_same(tokenizer: Tokenizer, blank: str) -> None:
    model = make()
    expected = fill_blanks(model, tokenizer, "the ___, loudly.")
    assert fill_blanks(model, tokenizer, f"The {blank}, loudly.") == expected


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_in_training_answers_without_dropout_and_goes_on(
    tokenizer: Tokenizer, kind: str
) -> None:
    model = make(kind)
    expected = fill_blanks(model.eval(), tokenizer, "the ___ sang")
    assert not model.training
    assert fill_blanks(model.train(), tokenizer, "the ___ sang") == expected
    with pytest.raises(ValueError, match=f"{LONGEST + 1} tokens.*position.*{LONGEST}"):
        fill_blanks(model, tokenizer, "___ " + "dog " * (LONGEST - 2))
    assert all(part.training for part in model.modules())
    assert all(p.grad is None for p in model.parameters())
    # one word less, and [CLS] and [SEP], is the longest text
    assert fill_blanks(model, tokenizer, "___ " + "dog " * (LONGEST - 3))


@pytest.mark.parametrize("kind", KINDS)
def test_what_cannot_be_answered_says_why(tokenizer: Tokenizer, kind: str) -> None:
    model = make(kind)
    for text in ("", "   ", "the dog barked", "the _ barked", "the [mask] sang"):
        words = re.escape(f"no blank in {text!r}: write ___ or [MASK]")
        with pytest.raises(ValueError, match=words):
            fill_blanks(model, tokenizer, text)
    for other in (None, 3, ["the", "___"], b"the ___"):
        with pytest.raises(TypeError, match=f"must be a string, not {type(other).__name__}"):
            fill_blanks(model, tokenizer, other)  # type: ignore[arg-type]
    for top in (0, -1, ALL + 1):
        with pytest.raises(ValueError, match=f"top is {top}: ask for 1 to {ALL} guesses"):
            fill_blanks(model, tokenizer, "the ___ sang", top)
    sides = {"middle": "side is 'middle'"}
    if kind != "elmo":
        sides |= {side: f"only an ELMo has a {side} half" for side in ("left", "right")}
        with pytest.raises(ValueError, match="encoder alone"):
            fill_blanks(model.bert, tokenizer, "the ___")
    for side, words in sides.items():
        with pytest.raises(ValueError, match=words):
            fill_blanks(model, tokenizer, "the ___ sang", side=side)  # type: ignore[arg-type]


def test_words_with_a_character_outside_the_vocabulary_are_named_as_typed(
    tokenizer: Tokenizer,
) -> None:
    assert unreadable(tokenizer, "The ____ dog barked, ___ in the YARD.") == []
    assert unreadable(tokenizer, "나는 ____ 를 😀 dog [MASK] 나는") == ["나는", "를", "😀", "나는"]
