"""WordPiece: from text to the integers BERT reads, and back (paper section 3).

Read from top to bottom this is the whole story: normalize a text, split it into words, train a
vocabulary of word pieces, cut words into pieces, pack one or two texts. Everything else in bertedu
uses `bertedu.text.fast_tokenizer`; the tests hold both to the same ids, offsets and segments.
"""

import itertools
import re
import string
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
PAD_ID, UNK_ID, CLS_ID, SEP_ID, MASK_ID = range(len(SPECIAL_TOKENS))
MAX_CHARACTERS_PER_WORD = 100  # a longer word is [UNK]: matching takes time quadratic in its length
# The fifth range starts at 2B820 in Google's code. The library says 2B920, and so do we.
CJK = (
    (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x2A6DF),
    (0x2A700, 0x2B81F), (0x2B920, 0x2CEAF), (0x2F800, 0x2FA1F),
)  # fmt: skip
_SPECIAL = re.compile("(" + "|".join(re.escape(token) for token in SPECIAL_TOKENS) + ")")


# --- From text to words -------------------------------------------------------------------------


class Character(NamedTuple):
    """A normalized character and the position in the original text that it comes from."""

    text: str
    position: int


def is_control(c: str) -> bool:
    """Tell whether `c` is invisible and to be dropped: controls, joiners, private use."""
    # Unassigned code points (Cn) stay: an emoji newer than this Python must not vanish.
    invisible = unicodedata.category(c) in ("Cc", "Cf", "Co") and c not in "\t\n\r"
    return invisible or c == "\ufffd"  # U+FFFD stands where decoding a file went wrong


def is_cjk(c: str) -> bool:
    """Tell whether `c` is a Chinese character (also in Japanese); kana and Hangul are not."""
    return any(first <= ord(c) <= last for first, last in CJK)


def is_punctuation(c: str) -> bool:
    """Tell whether `c` is a word of its own. ASCII signs such as $ or + count, as in BERT."""
    return c in string.punctuation or unicodedata.category(c).startswith("P")


def strip_accents(text: str) -> str:
    """Drop accents: é is taken apart into e and ´ (NFD), the mark (category Mn) is left out."""
    parts = unicodedata.normalize("NFD", text)
    return "".join(part for part in parts if unicodedata.category(part) != "Mn")


def normalize(text: str, first: int = 0) -> list[Character]:
    """Clean, lower-case and strip accents; `first` is the position of the text's first character.

    One character may become none (a control), one (A → a) or several (한 → ᄒ, ᅡ, ᆫ).
    """
    characters: list[Character] = []
    for position, original in enumerate(text, start=first):
        if is_control(original):
            continue
        plain = " " if original.isspace() else strip_accents(original).lower()
        if is_cjk(original):
            plain = f" {plain} "  # Chinese is written without spaces: one character, one word
        characters += [Character(c, position) for c in plain]
    return characters


def split_words(characters: Iterable[Character]) -> list[list[Character]]:
    """Split at whitespace, and make each punctuation character a word of its own."""
    words: list[list[Character]] = [[]]
    for character in characters:
        if character.text.isspace():
            words.append([])
        elif is_punctuation(character.text):
            words += [[character], []]
        else:
            words[-1].append(character)
    return [word for word in words if word]


# --- Training: which pieces deserve a place? ----------------------------------------------------


class Merge(NamedTuple):
    """One step of training: `left` and `right`, met so many `times`, become `piece`."""

    left: str
    right: str
    piece: str
    times: int


def train_wordpiece(
    word_counts: Mapping[str, int], vocab_size: int, min_count: int = 2
) -> tuple[list[str], list[Merge]]:
    """Train a vocabulary by counting; return it (special tokens first) and the merges in order.

    Every word starts as characters. Each step joins the neighbors that are met most often, which
    makes the text shorter by as many pieces; of equally frequent pairs the first in the alphabet.
    A pair must be met `min_count` times.

    That is byte-pair encoding. Google never published its trainer: Wu et al. (2016, section 4.1)
    ask for the fewest pieces, and call their algorithm greedy and similar to it. The library's,
    which made the vocabulary that our models use (`train_vocabulary`), joins the most frequent
    pair, too. What makes all of them WordPiece is how words are cut afterwards: longest match, not
    a replay of the merges.

    Raises ValueError if `vocab_size` cannot hold the special tokens and the single characters.
    """
    spelling = {w: [piece_name(w, i, i + 1) for i in range(len(w))] for w in word_counts}
    alphabet = sorted({piece for pieces in spelling.values() for piece in pieces})
    vocab = [*SPECIAL_TOKENS, *alphabet]
    if vocab_size < len(vocab):
        raise ValueError(
            f"vocab_size={vocab_size} is too small: the special tokens and the single characters "
            f"of these words alone take {len(vocab)}. Ask for at least that many."
        )
    merges: list[Merge] = []
    # until it is full, or every word is one piece, or no pair is frequent enough
    while len(vocab) < vocab_size and (best := best_merge(spelling, word_counts, min_count)):
        merges.append(best)
        if best.piece not in vocab:  # a word spelled [PAD] must not add a second [PAD]
            vocab.append(best.piece)
        spelling = {word: apply_merge(pieces, best) for word, pieces in spelling.items()}
    return vocab, merges


def best_merge(
    spelling: Mapping[str, list[str]], word_counts: Mapping[str, int], min_count: int
) -> Merge | None:
    """Count all neighboring pieces and return the most frequent pair, or None if there is none."""
    pairs = Counter[tuple[str, str]]()
    for word, pieces in spelling.items():
        for pair in itertools.pairwise(pieces):
            pairs[pair] += word_counts[word]
    enough = [pair for pair, count in pairs.items() if count >= min_count]
    if not enough:
        return None
    a, b = min(enough, key=lambda pair: (-pairs[pair], pair))
    return Merge(a, b, a + b.removeprefix("##"), pairs[a, b])


def apply_merge(pieces: Sequence[str], merge: Merge) -> list[str]:
    """Join every `merge.left`, `merge.right` in a word, from left to right."""
    joined: list[str] = []
    for piece in pieces:
        if joined and (joined[-1], piece) == (merge.left, merge.right):
            joined[-1] = merge.piece
        else:
            joined.append(piece)
    return joined


# --- Encoding and decoding ----------------------------------------------------------------------


class Piece(NamedTuple):
    """A token and the characters [start, end) of the original text that it covers."""

    token: str
    start: int
    end: int


class Encoding(NamedTuple):
    """What BERT reads: four lists of one length. Special tokens that were added cover (0, 0)."""

    ids: list[int]
    tokens: list[str]
    segment_ids: list[int]  # 0 for [CLS] A [SEP], 1 for B [SEP]
    offsets: list[tuple[int, int]]  # characters [start, end) of A or of B


def piece_name(word: str, start: int, end: int) -> str:
    """Spell a piece of a word: ## says that it does not begin the word."""
    return ("##" if start > 0 else "") + word[start:end]


def longest_first(a: int, b: int, room: int) -> tuple[int, int]:
    """Decide how many of `a` and `b` tokens fit into `room`: the longer is cut until both fit."""
    if a + b <= room:
        return a, b
    shorter = min(a, b, room // 2)  # it may keep up to half of the room
    return (room - shorter, shorter) if a > b else (shorter, room - shorter)


class WordPiece:
    """A tokenizer written to be read; a token's id is its place in `vocab`.

    It strips accents one character at a time and never reorders two marks; the library does. So
    where a text has rare marks in an unusual order, the two differ.
    """

    def __init__(self, vocab: Sequence[str]) -> None:
        """Raise ValueError if `vocab` does not start with SPECIAL_TOKENS or repeats a token."""
        check_vocabulary(vocab, "This vocabulary")
        self.vocab = list(vocab)
        self.ids = {token: i for i, token in enumerate(vocab)}

    def tokenize(self, text: str) -> list[str]:
        """Cut `text` into pieces, without adding [CLS] and [SEP]."""
        return [piece.token for piece in self.pieces(text)]

    def encode(self, text: str, pair: str | None = None, max_length: int | None = None) -> Encoding:
        """Pack `[CLS] text [SEP]` or `[CLS] text [SEP] pair [SEP]`, cut to `max_length` tokens.

        Raises TypeError if a text is not a str, ValueError if it holds half a surrogate pair or
        if `max_length` has no room for the special tokens.
        """
        first = self.pieces(text)
        second = [] if pair is None else self.pieces(pair)
        if max_length is not None:
            added = 2 if pair is None else 3
            if max_length < added:
                raise ValueError(
                    f"max_length={max_length} has no room for the {added} special tokens; "
                    f"use {added + 1} or more."
                )
            keep_first, keep_second = longest_first(len(first), len(second), max_length - added)
            first, second = first[:keep_first], second[:keep_second]
        segment_a = [Piece("[CLS]", 0, 0), *first, Piece("[SEP]", 0, 0)]
        segment_b = [] if pair is None else [*second, Piece("[SEP]", 0, 0)]
        pieces = segment_a + segment_b
        return Encoding(
            ids=[self.ids[piece.token] for piece in pieces],
            tokens=[piece.token for piece in pieces],
            segment_ids=[0] * len(segment_a) + [1] * len(segment_b),
            offsets=[(piece.start, piece.end) for piece in pieces],
        )

    def decode(self, ids: Iterable[int], skip_special: bool = True) -> str:
        """Put pieces together; case, accents, spacing are lost. Raises ValueError on a wrong id."""
        words: list[str] = []
        for i in ids:
            if not 0 <= i < len(self.vocab):
                raise ValueError(
                    f"Id {i} is not in this vocabulary (0 to {len(self.vocab) - 1}). Was it made "
                    "with another vocabulary, or is it a label to leave out, such as -100?"
                )
            token = self.vocab[i]
            if skip_special and token in SPECIAL_TOKENS:
                continue
            if words and token.startswith("##"):
                words[-1] += token.removeprefix("##")
            else:
                words.append(token)
        return re.sub(r" ([.,!?])", r"\1", " ".join(words))

    def pieces(self, text: str) -> list[Piece]:
        """Cut `text` into pieces with their offsets."""
        check_text(text)
        pieces: list[Piece] = []
        start = 0
        for part in _SPECIAL.split(text):  # "the [MASK] barked": the token itself, not [ mask ]
            if part in SPECIAL_TOKENS:
                pieces.append(Piece(part, start, start + len(part)))
            else:
                for word in split_words(normalize(part, first=start)):
                    pieces += self.split_word(word)
            start += len(part)
        return pieces

    def split_word(self, word: Sequence[Character]) -> list[Piece]:
        """Cut one word greedily: the longest piece that fits, then the longest of the rest."""
        text = "".join(c.text for c in word)
        unknown = [Piece("[UNK]", word[0].position, word[-1].position + 1)]
        if len(text) > MAX_CHARACTERS_PER_WORD:
            return unknown
        pieces: list[Piece] = []
        start = 0
        while start < len(text):
            end = self.longest_match(text, start)
            if end == start:
                return unknown  # half a word known is a word unknown
            token = piece_name(text, start, end)
            pieces.append(Piece(token, word[start].position, word[end - 1].position + 1))
            start = end
        return pieces

    def longest_match(self, word: str, start: int) -> int:
        """Return the end of the longest known piece of `word` from `start`; `start` if none."""
        for end in range(len(word), start, -1):
            if piece_name(word, start, end) in self.ids:
                return end
        return start


def check_text(text: object) -> None:
    """Raise TypeError if it is no str, ValueError if it holds half a surrogate pair."""
    if not isinstance(text, str):
        several = "One call takes one text; loop over several."
        hint = "Decode it first: data.decode('utf-8')." if isinstance(text, bytes) else several
        raise TypeError(f"A tokenizer reads a str, not {type(text).__name__}. {hint}")
    if half := re.search("[\ud800-\udfff]", text):
        raise ValueError(
            f"Character {half.start()} of this text is half a surrogate pair ({half[0]!a}), which "
            "is not Unicode text. Read the file with encoding='utf-8', errors='replace'."
        )


def check_vocabulary(vocab: Sequence[str], name: str) -> None:
    """Raise ValueError if it does not start with the special tokens, or repeats a token."""
    if not vocab:
        raise ValueError(f"{name} is empty. Restore it or train a new one.")
    check_tokens(vocab, name)
    start = tuple(vocab[: len(SPECIAL_TOKENS)])
    if start != SPECIAL_TOKENS:
        raise ValueError(
            f"{name} must start with {' '.join(SPECIAL_TOKENS)} but starts with {' '.join(start)}. "
            "Some published ones, such as that of bert-base, have them elsewhere: open those "
            "together with their model, with bertedu.load(FOLDER)."
        )
    if "" in vocab:
        raise ValueError(f"{name} has an empty token, number {list(vocab).index('')}. Remove it.")


def check_tokens(vocab: Sequence[str], name: str) -> None:
    """Raise ValueError if a byte order mark stands before the first token, or one is repeated."""
    if vocab[0].startswith("\ufeff"):
        raise ValueError(f"{name} begins with a byte order mark. Save it as UTF-8 without BOM.")
    for token, count in Counter(vocab).items():
        if count > 1:
            raise ValueError(f"{name} lists {token!r} twice; a token has one id. Remove one.")
