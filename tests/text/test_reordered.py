"""Where the two tokenizers differ since the library swaps marks, and what each says to no text."""

import unicodedata

import pytest
from strings import DIFFERENT, REORDERED

from bertedu.text.fast_tokenizer import fast_tokenizer
from bertedu.text.tokenization import SPECIAL_TOKENS, WordPiece


def test_the_list_holds_all_that_can_be_swapped() -> None:
    """Marks that stay and have a combining class, alone or as a part of another character."""
    found = {
        point
        for point in range(0x110000)
        for part in unicodedata.normalize("NFD", chr(point))
        if unicodedata.combining(part) and unicodedata.category(part) != "Mn"
    }
    assert not [hex(point) for point in found - REORDERED - DIFFERENT]
    # what else it names, this Python does not know yet
    assert all(unicodedata.category(chr(point)) == "Cn" for point in REORDERED - found)


@pytest.mark.parametrize(
    "text",
    [
        "\u302e\U0001d16e",  # a Hangul tone mark, then a flag of a musical note
        "\U0001d15f\u1b44",  # a quarter note: a head, and a stem that the adeg adeg passes
        "\U0001d1c0\u1b44",
    ],
)
def test_two_that_are_swapped_change_ids(text: str) -> None:
    pieces = sorted(set(unicodedata.normalize("NFD", text)))
    vocab = [*SPECIAL_TOKENS, *pieces, *(f"##{piece}" for piece in pieces)]
    slow, fast = WordPiece(vocab).tokenize(text), fast_tokenizer(vocab).encode(text).tokens[1:-1]
    assert "[UNK]" not in slow + fast
    assert slow != fast
    letters = ["".join(piece.removeprefix("##") for piece in some) for some in (slow, fast)]
    assert sorted(letters[0]) == sorted(letters[1])


def test_half_a_surrogate_pair_is_refused_by_both() -> None:
    vocab = [*SPECIAL_TOKENS, "a"]
    with pytest.raises(ValueError, match="Character 1 of this text is half a surrogate pair"):
        WordPiece(vocab).encode("a\ud800")
    with pytest.raises(TypeError):
        fast_tokenizer(vocab).encode("a\ud800")


@pytest.mark.parametrize("build", [WordPiece, fast_tokenizer])
def test_a_vocabulary_in_the_order_of_bert_base_says_what_to_do(build: type) -> None:
    vocab = ["[PAD]", "[unused0]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a"]
    with pytest.raises(ValueError, match=r"must start with .*as that of bert-base.*bertedu\.load"):
        build(vocab)
