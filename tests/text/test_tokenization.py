"""The readable WordPiece and the fast tokenizer are one tokenizer, and it is BERT's."""

import itertools
import random
import sys
import unicodedata
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from strings import DIFFERENT, HAND_PICKED, PYTHON_DEPENDENT, REORDERED

from bertedu.files import FileError
from bertedu.text.fast_tokenizer import (
    fast_tokenizer,
    load_tokenizer,
    load_vocabulary,
    save_tokenizer,
    train_vocabulary,
)
from bertedu.text.tokenization import (
    MASK_ID,
    PAD_ID,
    SPECIAL_TOKENS,
    UNK_ID,
    Encoding,
    WordPiece,
    normalize,
    piece_name,
    split_words,
    train_wordpiece,
)

TEXTBOOK = [
    *SPECIAL_TOKENS,
    *["the", "man", "went", "to", "store", "he", "bought", "a", "gallon", "milk", ".", "!"],
    *["un", "##aff", "##able", "##ab", "##le", "unaf", "pen", "penguin", "##s", "flight", "##less"],
]


def words_of(text: str) -> list[str]:
    return ["".join(c.text for c in word) for word in split_words(normalize(text))]


def build_vocabulary() -> list[str]:
    """Pieces of the hand-picked strings, with holes, so that words are cut in all kinds of ways."""
    pieces = {
        piece_name(word, start, end)
        for text in HAND_PICKED
        for word in words_of(text)
        for start in range(len(word))
        for end in range(start + 1, min(start + 5, len(word) + 1))
    }
    kept = {piece for piece in pieces if zlib.crc32(piece.encode()) % 6}
    letters = set("abcdefghijklmnopqrstuvwxyz")
    return [*SPECIAL_TOKENS, *sorted(kept | letters | {"##" + c for c in letters})]


VOCABULARY = build_vocabulary()
FAST, SLOW = fast_tokenizer(VOCABULARY), WordPiece(VOCABULARY)


class Case(NamedTuple):
    text: str
    pair: str | None = None
    max_length: int | None = None


def assert_same(cases: Iterable[Case]) -> None:
    for case in cases:
        FAST.no_truncation()
        if case.max_length is not None:
            FAST.enable_truncation(case.max_length)
        fast = FAST.encode(case.text, case.pair)
        expected = Encoding(fast.ids, fast.tokens, fast.type_ids, fast.offsets)
        assert SLOW.encode(*case) == expected, case
        for skip in (True, False):
            decoded = FAST.decode(expected.ids, skip_special_tokens=skip)
            assert SLOW.decode(expected.ids, skip_special=skip) == decoded, case


def hand_picked_cases() -> Iterator[Case]:
    dice = random.Random(0)
    for text in HAND_PICKED:
        yield Case(text)
        yield Case(text, max_length=dice.randrange(2, 12))
        yield Case(text, dice.choice(HAND_PICKED))
        yield Case(text, dice.choice(HAND_PICKED), dice.randrange(3, 20))
        yield Case(text, text, dice.randrange(3, 20))
    for first, second, length in itertools.product(range(7), range(7), range(3, 16)):
        yield Case("a " * first, "b " * second, length)


# --- By hand, and like the library ----------------------------------------------------------------


def test_by_hand() -> None:
    tokenizer = WordPiece(TEXTBOOK)
    # not un ##ab ##le: the longest; after "unaf" nothing goes on, and there is no way back
    text = "unable Unaffable zebra"
    assert tokenizer.tokenize(text) == ["un", "##able", "[UNK]", "[UNK]"]
    encoding = tokenizer.encode("The MÁN  went", "Penguins!")
    assert " ".join(encoding.tokens) == "[CLS] the man went [SEP] penguin ##s ! [SEP]"
    assert encoding.ids == [2, 5, 6, 7, 3, TEXTBOOK.index("penguin"), TEXTBOOK.index("##s"), 16, 3]
    assert encoding.segment_ids == [0, 0, 0, 0, 0, 1, 1, 1, 1]
    assert encoding.offsets[2:7] == [(4, 7), (9, 13), (0, 0), (0, 7), (7, 8)]
    assert tokenizer.decode(encoding.ids) == "the man went penguins!"


def test_every_code_point() -> None:
    """Cleaning, CJK, case, accents, punctuation: all of Unicode, between two letters."""
    normalizer, pre_tokenizer = FAST.normalizer, FAST.pre_tokenizer
    different = set()
    for point in range(sys.maxunicode + 1):
        if 0xD800 <= point <= 0xDFFF or 0x40000 <= point < 0xE0000:
            continue  # half surrogate pairs; planes that Unicode has not begun to fill
        text = f"a{chr(point)}b"
        fast = pre_tokenizer.pre_tokenize_str(normalizer.normalize_str(text))
        if [word for word, _ in fast] != words_of(text):
            different.add(point)
    assert not [hex(point) for point in different - DIFFERENT]
    # The list is not longer than it must be: what it names differs, where this Python knows it.
    known = {point for point in DIFFERENT if unicodedata.category(chr(point)) != "Cn"}
    assert not [hex(point) for point in known - different - PYTHON_DEPENDENT]


def test_hand_picked_strings_are_equal() -> None:
    assert_same(hand_picked_cases())


@pytest.mark.parametrize("examples", [2_000, pytest.param(20_500, marks=pytest.mark.nightly)])
def test_generated_strings_are_equal(examples: int) -> None:
    excluded = "".join(map(chr, sorted(DIFFERENT | REORDERED)))
    anything = st.characters(exclude_categories=["Cs"], exclude_characters=excluded)
    characters = st.sampled_from(sorted(set("".join(HAND_PICKED))))
    words = st.sampled_from(sorted({word for text in HAND_PICKED for word in text.split(" ")}))
    texts = st.one_of(
        st.text(anything, max_size=20),
        st.text(st.one_of(characters, characters, anything), max_size=20),
        st.builds(str.join, st.sampled_from(["", " "]), st.lists(words, max_size=5)),
    )

    @settings(
        max_examples=examples, derandomize=True, deadline=None, suppress_health_check=[*HealthCheck]
    )
    @given(texts, st.integers(3, 20))
    def equal(text: str, max_length: int) -> None:
        cut = len(text) // 3 if max_length % 2 else 2 * len(text) // 3
        assert_same([Case(text), Case(text[:cut], text[cut:], max_length)])

    equal()


def test_ids_in_any_order_are_decoded_alike() -> None:
    dice = random.Random(0)
    for _ in range(300):
        ids = dice.choices(range(len(VOCABULARY)), k=dice.randrange(8))
        assert SLOW.decode(ids) == FAST.decode(ids)


def test_hugging_face_opens_what_we_save(tmp_path: Path) -> None:
    from transformers import AutoTokenizer, BertTokenizer

    save_tokenizer(VOCABULARY, tmp_path)
    opened = AutoTokenizer.from_pretrained(tmp_path)
    (tmp_path / "tokenizer.json").unlink()  # vocab.txt and the settings alone must do as well
    for other in (opened, BertTokenizer.from_pretrained(tmp_path)):
        assert isinstance(other, BertTokenizer)
        assert len(other) == len(VOCABULARY)
        assert (other.pad_token_id, other.mask_token_id) == (PAD_ID, MASK_ID)
        assert other.model_max_length == 512
        for case in hand_picked_cases():
            if case.pair == "":
                continue  # `transformers` takes an empty second text for none
            mine = SLOW.encode(*case)
            cut = {"truncation": True} if case.max_length else {}
            theirs = other(case.text, case.pair, max_length=case.max_length, **cut)
            assert theirs["input_ids"] == mine.ids, case
            assert theirs["token_type_ids"] == mine.segment_ids, case


# --- Training by counting -------------------------------------------------------------------------

HUGS = {"hug": 10, "pug": 5, "pun": 12, "bun": 4, "hugs": 5}


def test_training_by_hand() -> None:
    vocab, merges = train_wordpiece(HUGS, 15)
    alphabet = ["##g", "##n", "##s", "##u", "b", "h", "p"]
    assert vocab == [*SPECIAL_TOKENS, *alphabet, "##ug", "##un", "hug"]
    # u and g meet in hug, pug and hugs, 10 + 5 + 5 times; u and n in pun and bun, 12 + 4. That
    # leaves p with two pieces behind it, 5 and 12 times, and h with one, 10 + 5 times.
    assert merges == [
        ("##u", "##g", "##ug", 20),
        ("##u", "##n", "##un", 16),
        ("h", "##ug", "hug", 15),
    ]
    # "z" comes last in the alphabet, and "##" before all letters
    assert [m.piece for m in train_wordpiece({"zab": 2}, 100)[1]] == ["##ab", "zab"]
    assert train_wordpiece({}, 5) == (list(SPECIAL_TOKENS), [])


@pytest.mark.parametrize("size", [130, 150, 1000])
def test_training_depends_on_counts_alone_and_leaves_no_word_unknown(size: int) -> None:
    words = Counter(word for text in HAND_PICKED[3:11] for word in words_of(text))
    vocab, merges = train_wordpiece(words, size)
    reordered = dict(sorted(words.items(), key=lambda item: item[0][::-1]))
    assert train_wordpiece(reordered, size) == (vocab, merges)
    assert len(vocab) == len(set(vocab)) <= size
    assert {merge.piece for merge in merges} <= set(vocab)
    assert all(merge.times >= 2 for merge in merges)
    tokenizer = WordPiece(vocab)
    assert all("[UNK]" not in tokenizer.tokenize(word) for word in words)
    if size == 1000:  # it stops by itself: what is met twice is one piece
        assert len(vocab) < size
        assert all(tokenizer.tokenize(word) == [word] for word in words if words[word] > 1)


def test_a_pair_that_is_met_once_and_a_word_like_a_special_token_add_nothing() -> None:
    assert train_wordpiece({"zq": 1, "the": 5}, 100)[1][-1].piece == "the"
    assert train_wordpiece({"zq": 1, "the": 5}, 100, min_count=1)[1][-1].piece == "zq"
    vocab, merges = train_wordpiece({"[PAD]": 5}, 100)
    assert (merges[-1].piece, vocab.count("[PAD]")) == ("[PAD]", 1)


# --- The vocabulary of the course -----------------------------------------------------------------


def test_train_vocabulary_finds_words_and_their_parts() -> None:
    vocab = train_vocabulary(["The Café: walking, talking, walked, talked. 東京"] * 50, 60)
    assert vocab[:5] == list(SPECIAL_TOKENS)
    assert len(vocab) == len(set(vocab)) <= 60
    assert {"the", "cafe", "walk", "##ing", "東"} <= set(vocab)
    assert {"é", "T", "##東", "##,"}.isdisjoint(vocab)  # 東 and , are always words of their own
    assert "[UNK]" not in fast_tokenizer(vocab).encode("talking the cafe, 東京").tokens


def test_rare_characters_stay_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def rarest(share: float, most: int = 400) -> None:
        monkeypatch.setattr("bertedu.text.fast_tokenizer.RAREST_CHARACTER", share)
        monkeypatch.setattr("bertedu.text.fast_tokenizer.MAX_ALPHABET", most)

    text = ["a plain text of common letters " * 100, "ж"]
    assert "ж" in train_vocabulary(text, 100)
    rarest(1e-3)
    assert "ж" not in train_vocabulary(text, 100)
    rarest(1 / 4)
    assert "b" in train_vocabulary(["aaab"], 9), "just often enough"
    assert "b" not in train_vocabulary(["aaaab"], 100)
    rarest(1e-3, most=3)
    vocab = train_vocabulary(text, 100)
    letters = {token for token in vocab[5:] if not token.startswith("##") and len(token) == 1}
    assert letters == {"t", "o", "e"}  # the commonest: e, o and t, ahead of a and m
    assert train_vocabulary(["dcba"], 100) == train_vocabulary(["abcd"], 100), "ties: a, b, c"
    assert UNK_ID in fast_tokenizer(vocab).encode("plain").ids


# --- Files, and errors ----------------------------------------------------------------------------


def test_save_and_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "tokenizer"
    save_tokenizer(VOCABULARY, folder)
    monkeypatch.setenv("BERTEDU_DATA", str(tmp_path))
    for place in (folder, None):  # the one of the data folder
        assert load_vocabulary(place) == VOCABULARY
        assert load_tokenizer(place).to_str() == fast_tokenizer(VOCABULARY).to_str()
    names = ["tokenizer.json", "tokenizer_config.json", "vocab.txt"]
    assert sorted(path.name for path in folder.iterdir()) == names

    def full_disk(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.replace", full_disk)
        with pytest.raises(FileError, match="No space"):
            save_tokenizer(TEXTBOOK, folder)
    assert load_vocabulary(folder) == VOCABULARY
    assert len(list(folder.iterdir())) == 3
    (folder / "vocab.txt").write_bytes("\r\n".join(TEXTBOOK).encode())  # as Windows ends lines
    assert load_vocabulary(folder) == TEXTBOOK
    with pytest.raises(FileNotFoundError, match=r"no vocabulary at .*vocab\.txt.*save_tokenizer"):
        load_tokenizer(tmp_path / "nowhere")


BERT_BASE = ["[PAD]", "[unused0]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a"]
VOCABULARIES = {
    "is empty": [],
    "must start with": ["the", *SPECIAL_TOKENS],
    "must start with .*as that of bert-base.*load": BERT_BASE,
    "'milk' twice": [*TEXTBOOK, "milk"],
    "byte order mark": ["\ufeff[PAD]", *TEXTBOOK[1:]],
    "empty token": [*TEXTBOOK, "", "x"],
}


@pytest.mark.parametrize("words", VOCABULARIES)
def test_a_bad_vocabulary_is_refused_by_all(words: str, tmp_path: Path) -> None:
    vocab = VOCABULARIES[words]
    (tmp_path / "vocab.txt").write_text("\n".join(vocab), encoding="utf-8")
    for build in (WordPiece, fast_tokenizer, load_tokenizer):
        in_file = build is load_tokenizer
        with pytest.raises(ValueError, match=words) as caught:
            build(tmp_path if in_file else vocab)
        assert ("vocab.txt" in str(caught.value)) == in_file
    (tmp_path / "vocab.txt").write_bytes(b"\xff\xfe\x00binary")
    with pytest.raises(ValueError, match=r"vocab\.txt is not UTF-8"):
        load_vocabulary(tmp_path)


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        (b"bytes", TypeError, "decode"),
        (None, TypeError, "NoneType"),
        (["a", "b"], TypeError, "loop"),
        ("ab\udc80", ValueError, "Character 2 .*half a surrogate pair.*errors='replace'"),
    ],
)
def test_what_is_not_text(text: Any, error: type[Exception], words: str) -> None:
    calls: list[Callable[[], object]] = [
        lambda: SLOW.tokenize(text),
        lambda: SLOW.encode(text),
        lambda: train_vocabulary([text]),
        lambda: SLOW.encode("a", text),
    ]
    for call in calls[: 3 if text is None else 4]:
        with pytest.raises(error, match=words):
            call()
    with pytest.raises(TypeError):
        FAST.encode(text)


ERRORS: list[tuple[Callable[[], object], type[Exception], str]] = [
    (lambda: train_vocabulary("one text"), TypeError, r"list: \[text\]"),
    (lambda: train_vocabulary([]), ValueError, "No text"),
    (lambda: train_vocabulary(["", " \n", "\x00\u200b"]), ValueError, "No text"),
    (lambda: train_vocabulary(["the man went"], 10), ValueError, "10 is too small.* take 19"),
    (lambda: train_wordpiece(HUGS, 11), ValueError, "vocab_size=11 is too small.* 12"),
    (lambda: SLOW.encode("a", None, 1), ValueError, "no room for the 2 special tokens"),
    (lambda: SLOW.encode("a", "he", 2), ValueError, "no room for the 3 special tokens"),
    (lambda: SLOW.decode([2, len(VOCABULARY)]), ValueError, "Id .* is not in this vocabulary"),
    (lambda: SLOW.decode([-100]), ValueError, "Id -100 is not in this vocabulary"),
    (lambda: SLOW.decode([-1]), ValueError, "Id -1 is not"),
]


@pytest.mark.parametrize(("call", "error", "words"), ERRORS)
def test_what_cannot_be_done_says_why(
    call: Callable[[], object], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        call()
