"""The readable WordPiece and the fast tokenizer are one tokenizer, and it is BERT's."""

import itertools
import json
import os
import random
import subprocess
import sys
import unicodedata
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import tokenizers
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from strings import DIFFERENT, HAND_PICKED, PYTHON_DEPENDENT, REORDERED

from bertedu.files import FileError
from bertedu.text import tokenization
from bertedu.text.fast_tokenizer import (
    fast_tokenizer,
    load_tokenizer,
    load_vocabulary,
    save_tokenizer,
    train_vocabulary,
)
from bertedu.text.tokenization import (
    CLS_ID,
    MASK_ID,
    PAD_ID,
    SEP_ID,
    SPECIAL_TOKENS,
    UNK_ID,
    Character,
    Encoding,
    Piece,
    WordPiece,
    normalize,
    split_words,
    train_wordpiece,
)

TEXTBOOK = [
    *SPECIAL_TOKENS,
    *["the", "man", "went", "to", "store", "he", "bought", "a", "gallon", "milk", ".", "!"],
    *["un", "##aff", "##able", "##ab", "##le", "unaf", "pen", "penguin", "##s", "flight", "##less"],
]


def count_words(texts: Iterable[str]) -> Counter[str]:
    """Count the normalized words, as one would before training."""
    words = (word for text in texts for word in split_words(normalize(text)))
    return Counter("".join(c.text for c in word) for word in words)


def build_vocabulary() -> list[str]:
    """Pieces of the hand-picked strings, with holes, so that words are cut in all kinds of ways."""
    pieces = {
        tokenization.piece_name(word, start, end)
        for word in count_words(HAND_PICKED)
        for start in range(len(word))
        for end in range(start + 1, min(start + 5, len(word) + 1))
    }
    kept = {piece for piece in pieces if zlib.crc32(piece.encode()) % 6}
    letters = set("abcdefghijklmnopqrstuvwxyz")
    return [*SPECIAL_TOKENS, *sorted(kept | letters | {"##" + c for c in letters})]


VOCABULARY = build_vocabulary()
FAST = fast_tokenizer(VOCABULARY)


class Case(NamedTuple):
    text: str
    pair: str | None = None
    max_length: int | None = None


def fast_encoding(tokenizer: tokenizers.Tokenizer, case: Case) -> Encoding:
    if case.max_length is None:
        tokenizer.no_truncation()
    else:
        tokenizer.enable_truncation(case.max_length)
    fast = tokenizer.encode(case.text, case.pair)
    return Encoding(fast.ids, fast.tokens, fast.type_ids, fast.offsets)


def assert_same(tokenizer: WordPiece, cases: Iterable[Case]) -> None:
    for case in cases:
        expected = fast_encoding(FAST, case)
        assert tokenizer.encode(*case) == expected, case
        for skip in (True, False):
            decoded = FAST.decode(expected.ids, skip_special_tokens=skip)
            assert tokenizer.decode(expected.ids, skip_special=skip) == decoded, case


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


# --- By hand: what BERT's tokenizer does ----------------------------------------------------------


def test_special_tokens_have_the_first_ids() -> None:
    assert (PAD_ID, UNK_ID, CLS_ID, SEP_ID, MASK_ID) == (0, 1, 2, 3, 4)
    assert SPECIAL_TOKENS == ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("unable", "un ##able"),  # not un ##ab ##le: the longest
        ("Unaffable", "[UNK]"),  # "unaf" is longest, nothing goes on from there, no way back
        ("penguins!", "penguin ##s !"),
        ("FLIGHTLESS", "flight ##less"),
        ("the [MASK] bought", "the [MASK] bought"),
        ("thé  man\n.", "the man ."),
        ("the zebra", "the [UNK]"),
        ("penguinz", "[UNK]"),
        ("", ""),
    ],
)
def test_tokenize_by_hand(text: str, tokens: str) -> None:
    assert WordPiece(TEXTBOOK).tokenize(text) == tokens.split()


def test_pair_by_hand() -> None:
    encoding = WordPiece(TEXTBOOK).encode("The man went", "Penguins!")
    assert " ".join(encoding.tokens) == "[CLS] the man went [SEP] penguin ##s ! [SEP]"
    assert encoding.ids == [TEXTBOOK.index(token) for token in encoding.tokens]
    assert encoding.segment_ids == [0, 0, 0, 0, 0, 1, 1, 1, 1]
    assert encoding.offsets == [
        *[(0, 0), (0, 3), (4, 7), (8, 12), (0, 0)],
        *[(0, 7), (7, 8), (8, 9), (0, 0)],
    ]


def test_offsets_point_into_the_original_text() -> None:
    text = "\u200bThe  MÁN  wènt"
    encoding = WordPiece(TEXTBOOK).encode(text)
    assert [text[start:end] for start, end in encoding.offsets] == ["", "The", "MÁN", "wènt", ""]


def test_truncation_takes_from_the_longer_text() -> None:
    tokenizer = WordPiece(TEXTBOOK)
    encoding = tokenizer.encode("the man went to the store", "he bought", max_length=8)
    assert " ".join(encoding.tokens) == "[CLS] the man went [SEP] he bought [SEP]"
    encoding = tokenizer.encode("he bought", "the man went to the store", max_length=8)
    assert " ".join(encoding.tokens) == "[CLS] he bought [SEP] the man went [SEP]"
    assert tokenizer.encode("the man", max_length=2).tokens == ["[CLS]", "[SEP]"]


def test_empty_texts() -> None:
    tokenizer = WordPiece(TEXTBOOK)
    assert tokenizer.encode("").ids == [CLS_ID, SEP_ID]
    assert tokenizer.encode("", "").ids == [CLS_ID, SEP_ID, SEP_ID]
    assert tokenizer.encode("", "").segment_ids == [0, 0, 1]
    assert tokenizer.decode([]) == ""


def test_decode_by_hand() -> None:
    tokenizer = WordPiece(TEXTBOOK)
    encoding = tokenizer.encode("Penguins bought the [MASK] store!")
    assert tokenizer.decode(encoding.ids) == "penguins bought the store!"
    assert (
        tokenizer.decode(encoding.ids, skip_special=False)
        == "[CLS] penguins bought the [MASK] store! [SEP]"
    )


def test_decode_takes_ids_in_any_order() -> None:
    tokenizer = WordPiece(TEXTBOOK)
    assert tokenizer.decode([TEXTBOOK.index("##s"), TEXTBOOK.index("##able")]) == "##sable"
    dice = random.Random(0)
    for _ in range(300):
        ids = dice.choices(range(len(VOCABULARY)), k=dice.randrange(1, 8))
        assert WordPiece(VOCABULARY).decode(ids) == FAST.decode(ids)


# --- The readable and the fast one are equal ------------------------------------------------------


def test_every_code_point() -> None:
    """Cleaning, CJK, case, accents, punctuation: all of Unicode, between two letters."""
    normalizer, pre_tokenizer = FAST.normalizer, FAST.pre_tokenizer
    different = set()
    for point in range(sys.maxunicode + 1):
        if 0xD800 <= point <= 0xDFFF or 0x40000 <= point < 0xE0000:
            continue  # half surrogate pairs; planes that Unicode has not begun to fill
        text = f"a{chr(point)}b"
        fast = pre_tokenizer.pre_tokenize_str(normalizer.normalize_str(text))
        words = tokenization.split_words(tokenization.normalize(text))
        if [word for word, _ in fast] != ["".join(c.text for c in word) for word in words]:
            different.add(point)
    assert not [hex(point) for point in different - DIFFERENT]
    # The list is not longer than it must be: what it names differs, where this Python knows it.
    known = {point for point in DIFFERENT if unicodedata.category(chr(point)) != "Cn"}
    assert not [hex(point) for point in known - different - PYTHON_DEPENDENT]


def test_hand_picked_strings_are_equal() -> None:
    assert_same(WordPiece(VOCABULARY), hand_picked_cases())


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
    tokenizer = WordPiece(VOCABULARY)
    seen: list[str] = []

    # One text an example: Hypothesis tells examples apart, but not the texts inside of one.
    @settings(
        max_examples=examples, derandomize=True, deadline=None, suppress_health_check=[*HealthCheck]
    )
    @given(texts, st.integers(3, 20))
    def equal(text: str, max_length: int) -> None:
        seen.append(text)
        cut = len(text) // 3 if max_length % 2 else 2 * len(text) // 3
        pair = Case(text[:cut], text[cut:], max_length)
        assert_same(tokenizer, [Case(text), pair])

    equal()
    assert len(seen) >= 0.95 * examples
    assert len(set(seen)) > 0.7 * examples
    # They reach every branch: known words, cut words, unknown words, words of 100 characters.
    tokens = [token for text in seen[:4000] for token in tokenizer.tokenize(text)]
    assert 0.02 < tokens.count("[UNK]") / len(tokens) < 0.8
    assert sum(token.startswith("##") for token in tokens) > 0.05 * examples
    assert sum("x" * 100 in text for text in seen) > 0.001 * examples


def test_a_swapped_mark_changes_offsets_only() -> None:
    """What REORDERED leaves out, shown: the piece is the same, and its offset one off."""
    text = "a\u0301\u1b44"  # accent, then Balinese adeg adeg: NFD puts them the other way round
    vocab = [*SPECIAL_TOKENS, "a", "##\u1b44"]
    slow, fast = WordPiece(vocab).encode(text), fast_encoding(fast_tokenizer(vocab), Case(text))
    assert slow.ids == fast.ids
    assert slow.offsets[2] == (2, 3)
    assert fast.offsets[2] == (1, 2)


def test_google_rules_agree() -> None:
    """Against the pure Python tokenizer that `transformers` took over from Google."""
    from transformers.models.bert.tokenization_bert_legacy import BasicTokenizer

    # It lower-cases whole words (a final Σ becomes ς), and drops code points not in use.
    left_out = ("Σ", "\ufffe", "\U0002b81f")
    texts = [text for text in HAND_PICKED if not any(c in text for c in left_out)]
    texts = [text for text in texts if not any(token in text for token in SPECIAL_TOKENS)]
    assert len(texts) > 50
    google = BasicTokenizer(do_lower_case=True)
    for text in texts:
        words = tokenization.split_words(tokenization.normalize(text))
        assert ["".join(c.text for c in word) for word in words] == google.tokenize(text), text


def test_hugging_face_opens_what_we_save(tmp_path: Path) -> None:
    from transformers import AutoTokenizer, BertTokenizer

    save_tokenizer(VOCABULARY, tmp_path)
    tokenizer = WordPiece(VOCABULARY)
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
            mine = tokenizer.encode(*case)
            cut = {"truncation": True} if case.max_length else {}
            theirs = other(case.text, case.pair, max_length=case.max_length, **cut)
            assert theirs["input_ids"] == mine.ids, case
            assert theirs["token_type_ids"] == mine.segment_ids, case


# --- Planted mistakes: the comparison must catch every one ----------------------------------------

Patch = Callable[[pytest.MonkeyPatch], None]


def replace(name: str, mistake: object) -> Patch:
    return lambda patch: patch.setattr(tokenization, name, mistake)


def method(name: str, mistake: object) -> Patch:
    return lambda patch: patch.setattr(WordPiece, name, mistake)


def shortest_match(self: WordPiece, word: str, start: int) -> int:
    known = (
        end
        for end in range(start + 1, len(word) + 1)
        if tokenization.piece_name(word, start, end) in self.ids
    )
    return next(known, start)


def cut_only_b(a: int, b: int, room: int) -> tuple[int, int]:
    kept_a = min(a, room)
    return kept_a, min(b, room - kept_a)


def cut_in_proportion(a: int, b: int, room: int) -> tuple[int, int]:
    kept_a = min(a, max(room - b, (room + 1) // 2))  # the odd place goes to A, whoever is longer
    return kept_a, min(b, room - kept_a)


real_normalize = tokenization.normalize
real_encode = WordPiece.encode
real_split_word = WordPiece.split_word


def positions_of_normalized(text: str, first: int = 0) -> list[Character]:
    characters = real_normalize(text, first)
    return [Character(c.text, first + i) for i, c in enumerate(characters)]


def positions_from_part(text: str, first: int = 0) -> list[Character]:
    return real_normalize(text, 0)


def first_sep_in_segment_b(
    self: WordPiece, text: str, pair: str | None = None, max_length: int | None = None
) -> Encoding:
    encoding = real_encode(self, text, pair, max_length)
    segment_ids = list(encoding.segment_ids)
    if pair is not None:
        segment_ids[segment_ids.index(1) - 1] = 1
    return Encoding(encoding.ids, encoding.tokens, segment_ids, encoding.offsets)


def keep_known_half(self: WordPiece, word: list[Character]) -> list[Piece]:
    for end in range(len(word), 0, -1):
        pieces = real_split_word(self, word[:end])
        if pieces[0].token != "[UNK]":
            return pieces
    return real_split_word(self, word)


MISTAKES: dict[str, Patch] = {
    "## dropped": replace("piece_name", lambda word, start, end: word[start:end]),
    "## everywhere": replace("piece_name", lambda word, start, end: "##" + word[start:end]),
    "shortest match": method("longest_match", shortest_match),
    "accents kept": replace("strip_accents", lambda text: text),
    "compatibility forms folded": replace(
        "strip_accents", lambda text: unicodedata.normalize("NFKD", text)
    ),
    "Chinese not spaced": replace("is_cjk", lambda c: False),
    "Hangul spaced": replace("is_cjk", lambda c: "\uac00" <= c <= "\ud7a3"),
    "controls kept": replace("is_control", lambda c: False),
    "ASCII signs are letters": replace(
        "is_punctuation", lambda c: unicodedata.category(c).startswith("P")
    ),
    "99 characters a word": replace("MAX_CHARACTERS_PER_WORD", 99),
    "101 characters a word": replace("MAX_CHARACTERS_PER_WORD", 101),
    "known half of a word kept": method("split_word", keep_known_half),
    "only B is cut": replace("longest_first", cut_only_b),
    "odd place to A": replace("longest_first", cut_in_proportion),
    "first [SEP] in segment B": method("encode", first_sep_in_segment_b),
    "offsets in the normalized text": replace("normalize", positions_of_normalized),
    "offsets from the last special token": replace("normalize", positions_from_part),
    "[MASK] cut into [ mask ]": replace("_SPECIAL", tokenization.re.compile("(never)")),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_planted_mistake_is_caught(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    MISTAKES[mistake](monkeypatch)  # without one, test_hand_picked_strings_are_equal passes
    with pytest.raises(AssertionError):
        assert_same(WordPiece(VOCABULARY), hand_picked_cases())


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


def test_training_stops_when_every_word_is_one_piece() -> None:
    vocab, merges = train_wordpiece(HUGS, 1000)
    assert set(HUGS) <= set(vocab)
    assert len(set(vocab)) == len(vocab) < 1000
    assert WordPiece(vocab).tokenize("hugs pun pug bun") == ["hugs", "pun", "pug", "bun"]
    assert all(merge.piece in vocab for merge in merges)


def test_training_needs_a_pair_often_enough() -> None:
    _, merges = train_wordpiece({"zq": 1, "the": 5}, 100)
    assert {merge.piece for merge in merges}.isdisjoint({"zq"})
    _, merges = train_wordpiece({"zq": 1, "the": 5}, 100, min_count=1)
    assert merges[-1].piece == "zq"


def test_training_does_not_repeat_a_special_token() -> None:
    vocab, merges = train_wordpiece({"[PAD]": 5}, 100)
    assert merges[-1].piece == "[PAD]"
    assert vocab.count("[PAD]") == 1


def test_training_does_not_depend_on_the_order_of_words() -> None:
    words = count_words(HAND_PICKED[3:11])
    reordered = dict(sorted(words.items(), key=lambda item: item[0][::-1]))
    assert train_wordpiece(words, 150) == train_wordpiece(reordered, 150)


def test_words_trained_on_are_never_unknown() -> None:
    words = count_words(HAND_PICKED[3:11])
    vocab, _ = train_wordpiece(words, 120)
    tokenizer = WordPiece(vocab)
    assert all("[UNK]" not in tokenizer.tokenize(word) for word in words)


# --- The vocabulary of the course -----------------------------------------------------------------

DETERMINISM = """
import random, sys
from bertedu.text.fast_tokenizer import train_vocabulary
dice = random.Random(0)
letters = [chr(c) for c in range(0x61, 0x7b)] + [chr(c) for c in range(0x430, 0x450)]
words = ["".join(dice.choices(letters, k=dice.randrange(1, 9))) for _ in range(400)]
texts = [" ".join(dice.choices(words, k=12)) + " 東京!" for _ in range(300)]
sys.stdout.buffer.write("\\n".join(train_vocabulary(texts, 900)).encode())
"""


def test_training_is_the_same_in_every_process() -> None:
    outputs = set()
    for seed, threads in (("1", "true"), ("2", "false"), ("3", "true")):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "TOKENIZERS_PARALLELISM": threads}
        command = [sys.executable, "-c", DETERMINISM]
        outputs.add(
            subprocess.run(command, env=environment, capture_output=True, check=True).stdout
        )
    assert len(outputs) == 1
    assert len(outputs.pop().decode().split("\n")) == 900


def test_train_vocabulary_finds_words_and_their_parts() -> None:
    vocab = train_vocabulary(["The Café: walking, talking, walked, talked. 東京"] * 50, 60)
    assert vocab[:5] == list(SPECIAL_TOKENS)
    assert len(vocab) == len(set(vocab)) <= 60
    assert {"the", "cafe", "walk", "##ing", "東"} <= set(vocab)
    assert {"é", "T", "##東", "##,"}.isdisjoint(vocab)  # 東 and , are always words of their own
    assert "[UNK]" not in fast_tokenizer(vocab).encode("talking the cafe, 東京").tokens


def test_rare_characters_stay_out(monkeypatch: pytest.MonkeyPatch) -> None:
    text = ["a plain text of common letters " * 100, "ж"]
    assert "ж" in train_vocabulary(text, 100)
    monkeypatch.setattr("bertedu.text.fast_tokenizer.RAREST_CHARACTER", 1e-3)
    assert "ж" not in train_vocabulary(text, 100)
    monkeypatch.setattr("bertedu.text.fast_tokenizer.RAREST_CHARACTER", 1 / 4)
    assert "b" in train_vocabulary(["aaab"], 100), "just often enough"
    assert "b" not in train_vocabulary(["aaaab"], 100)
    monkeypatch.setattr("bertedu.text.fast_tokenizer.RAREST_CHARACTER", 1e-3)
    monkeypatch.setattr("bertedu.text.fast_tokenizer.MAX_ALPHABET", 3)
    vocab = train_vocabulary(text, 100)
    letters = {token for token in vocab[5:] if not token.startswith("##") and len(token) == 1}
    assert letters == {"t", "o", "e"}  # the commonest: e, o and t, ahead of a and m
    assert train_vocabulary(["dcba"], 100) == train_vocabulary(["abcd"], 100), "ties: a, b, c"
    assert UNK_ID in fast_tokenizer(vocab).encode("plain").ids


def test_save_and_load(tmp_path: Path) -> None:
    save_tokenizer(VOCABULARY, tmp_path / "new" / "folder")
    folder = tmp_path / "new" / "folder"
    assert load_vocabulary(folder) == VOCABULARY
    assert load_tokenizer(folder).to_str() == fast_tokenizer(VOCABULARY).to_str()
    assert json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    names = sorted(path.name for path in folder.iterdir())
    assert names == ["tokenizer.json", "tokenizer_config.json", "vocab.txt"]


def test_default_folder_is_in_the_data_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BERTEDU_DATA", str(tmp_path))
    save_tokenizer(TEXTBOOK, tmp_path / "tokenizer")
    assert load_vocabulary() == TEXTBOOK
    assert load_tokenizer().get_vocab_size() == len(TEXTBOOK)


def test_a_failed_save_leaves_the_old_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_tokenizer(TEXTBOOK, tmp_path)

    def full_disk(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full_disk)
    with pytest.raises(FileError, match="No space"):
        save_tokenizer([*TEXTBOOK, "new"], tmp_path)
    assert load_vocabulary(tmp_path) == TEXTBOOK
    assert len(list(tmp_path.iterdir())) == 3


# --- Errors say what is wrong and what to do ------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        (b"bytes", TypeError, "decode"),
        (None, TypeError, "NoneType"),
        (["a", "b"], TypeError, "loop"),
        (3, TypeError, "int"),
        ("ab\udc80", ValueError, "Character 2 .*errors='replace'"),
    ],
)
def test_what_is_not_text(text: object, error: type[Exception], words: str) -> None:
    tokenizer = WordPiece(TEXTBOOK)
    for call in (
        lambda: tokenizer.tokenize(text),  # type: ignore[arg-type]
        lambda: tokenizer.encode(text),  # type: ignore[arg-type]
        lambda: train_vocabulary([text]),  # type: ignore[list-item]
    ):
        with pytest.raises(error, match=words):
            call()
    if text is not None:
        with pytest.raises(error, match=words):
            tokenizer.encode("a", text)  # type: ignore[arg-type]


def test_one_str_is_not_a_list_of_texts() -> None:
    with pytest.raises(TypeError, match=r"list: \[text\]"):
        train_vocabulary("one text")


def test_max_length_without_room() -> None:
    tokenizer = WordPiece(TEXTBOOK)
    for arguments in (("a", None, 1), ("a", "he", 2), ("", None, 0), ("a", None, -5)):
        with pytest.raises(ValueError, match=r"no room for the [23] special tokens"):
            tokenizer.encode(*arguments)


@pytest.mark.parametrize("bad", [len(TEXTBOOK), 30522, -1, -100])
def test_decode_id_out_of_range(bad: int) -> None:
    with pytest.raises(ValueError, match=f"Id {bad} is not in this vocabulary"):
        WordPiece(TEXTBOOK).decode([CLS_ID, bad])


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"the\na\n", "must start with"),
        (b"[PAD]\n[UNK]\n[CLS]\n[SEP]\nthe\n", "must start with"),
        ("\n".join([*TEXTBOOK, "milk"]).encode(), "'milk' twice"),
        ("\ufeff".encode() + "\n".join(TEXTBOOK).encode(), "byte order mark"),
        ("\n".join([*TEXTBOOK, "", "x"]).encode(), "empty token"),
        (b"\xff\xfe\x00binary", "not UTF-8"),
    ],
)
def test_broken_vocabulary_file(tmp_path: Path, content: bytes, words: str) -> None:
    (tmp_path / "vocab.txt").write_bytes(content)
    for load in (load_vocabulary, load_tokenizer):
        with pytest.raises(ValueError, match=words) as caught:
            load(tmp_path)
        assert "vocab.txt" in str(caught.value)


def test_missing_vocabulary_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no vocabulary at .*vocab\.txt.*save_tokenizer"):
        load_tokenizer(tmp_path / "nowhere")


def test_vocabulary_with_windows_line_ends(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_bytes("\r\n".join(TEXTBOOK).encode())
    assert load_vocabulary(tmp_path) == TEXTBOOK


def test_bad_vocabularies() -> None:
    for build in (WordPiece, fast_tokenizer):
        with pytest.raises(ValueError, match="empty"):
            build([])
        with pytest.raises(ValueError, match="must start with"):
            build(["the", *SPECIAL_TOKENS])
        with pytest.raises(ValueError, match="twice"):
            build([*TEXTBOOK, "the"])


def test_training_without_room_or_text() -> None:
    with pytest.raises(ValueError, match=r"vocab_size=11 is too small.* 12"):
        train_wordpiece(HUGS, 11)
    with pytest.raises(ValueError, match="size"):
        train_vocabulary(["the man went"], 10)
    for nothing in ([], ["", " \n"], ["\x00\u200b"]):
        with pytest.raises(ValueError, match="No text"):
            train_vocabulary(nothing)
    assert train_wordpiece({}, 10) == (list(SPECIAL_TOKENS), [])
