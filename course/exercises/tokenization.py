"""The exercises of notebook 01: merging, a vocabulary, the longest match, decoding, pairs."""

import itertools
import random
from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Any

from bertedu.text.tokenization import SPECIAL_TOKENS, WordPiece, apply_merge
from course.exercises.judge import Exercise, Inputs, UnreadableError, parts, read_str, read_wholes


def _read_tokens(answer: Any, *_: Any) -> list[str]:
    if not isinstance(answer, list | tuple):
        raise UnreadableError("your function did not return a list; a list of tokens is wanted.")
    if not all(isinstance(token, str) for token in answer):
        raise UnreadableError(
            "your list holds something that is not a str. Return tokens, not ids."
        )
    return list(answer)


def _merge_cases() -> Iterator[Inputs]:
    rng = random.Random(5)
    for length in [2] * 20 + [3] * 30 + [5] * 30 + [7] * 30:
        first, *rest = rng.choices(("a", "b", "ab"), k=length)
        pieces = [first, *("##" + c for c in rest)]
        pair = rng.choice(list(itertools.pairwise(pieces)))
        if rng.random() < 0.2:
            pair = (pair[1], "##c")  # a pair that is not there
        yield pieces, *pair


@Exercise.asking(
    asks="(pieces, left, right) -> pieces with every such pair joined",
    cases=_merge_cases,
    read=_read_tokens,
    tried="110 random words that hold the pair once, several times or not at all.",
    start="a loop from left to right. Where left and right stand side by side, write one piece; "
    'elsewhere, copy the piece. right.removeprefix("##") takes the mark off.',
    beside=(apply_merge,),
    mistakes="""
    ✗ the ## of the right piece stays in the middle.
      the mark may stand only at the front: left + right.removeprefix("##").
    | .removeprefix("##") =>
    ✗ the ## of the left piece is lost.
      a piece that continues a word still continues it after the merge. Take the mark off the right
      piece only; strip or replace takes off more.
    | left + right.removeprefix("##") => (left + right).replace("##", "")
    ✗ the right piece is still there after the merge.
      two pieces become one: skip right, i += 2.
    | else: => if True:
    """,
)
def right_merge_pieces(pieces: list[str], left: str, right: str) -> list[str]:
    """Join every left with the right directly after it, from left to right."""
    joined: list[str] = []
    for piece in pieces:
        if joined and (joined[-1], piece) == (left, right):
            joined[-1] = left + right.removeprefix("##")
        else:
            joined.append(piece)
    return joined


def _learn_cases() -> Iterator[Inputs]:
    """Few letters, so that pairs tie, and stand twice in a word; now and then too little room."""
    rng = random.Random(8)
    yield {"aa": 1}, 3
    yield {"aaaaa": 1}, 4  # a pair that stands twice in one word
    yield {"king": 3, "ring": 2, "sink": 1}, 12
    for words, length, more in [(1, 3, 2)] * 10 + [(2, 4, 3)] * 15 + [(4, 5, 6)] * 15:
        made = ["".join(rng.choices("abc", k=rng.randint(1, length))) for _ in range(words)]
        counts = {word: rng.randint(1, 4) for word in made}
        letters = {word[0] for word in made} | {"##" + c for word in made for c in word[1:]}
        yield counts, len(letters) + rng.randint(-1, more)


@Exercise.asking(
    asks="(counts, size) -> list of pieces: all letters, sorted, then each joined piece as it is "
    "made, until there are size. counts holds how often each word occurs; of equally frequent "
    "pairs, take the one that min() puts first",
    cases=_learn_cases,
    read=_read_tokens,
    tried="43 small languages, of one word to four, with ties, and some used up before the end.",
    start="spelling, a dictionary from each word to its letters, all but the first with ##. Its "
    "pieces, sorted, are the first of the vocabulary. Then a while: count pairs, join the best.",
    mistakes="""
    ✗ every word counts once, however often it occurs.
      a pair occurs as often as the word that it stands in: pairs[pair] += counts[word].
    | += counts[word] => += 1
    ✗ the letters themselves are missing.
      whatever is not joined has to be spelled: the vocabulary begins with all letters, sorted.
    | return pieces => return [p for p in pieces if len(p.removeprefix("##")) > 1]
    ✗ one of several equally frequent pairs is taken, but not the one that min() puts first.
      max keeps the first that it meets. min(pairs, key=lambda pair: (-pairs[pair], pair)) asks for
      the highest count, and among equals for the first in order.
    | (-pairs[pair], pair) => -pairs[pair]
    ✗ size counts merges, not pieces.
      the letters are pieces, too: stop as soon as len(pieces) is size.
    | len(pieces) < size => len(pieces) - len({*"".join(counts)}) < size
    """,
)
def right_learn_pieces(counts: dict[str, int], size: int) -> list[str]:
    """Return all letters in order, then pieces as they were made, until there are ``size``."""
    spelling = {word: [word[0], *("##" + letter for letter in word[1:])] for word in counts}
    pieces = sorted({piece for word in spelling.values() for piece in word})
    while len(pieces) < size:
        pairs: Counter[tuple[str, str]] = Counter()
        for word, spelled in spelling.items():
            for pair in itertools.pairwise(spelled):
                pairs[pair] += counts[word]
        if not pairs:
            break
        left, right = min(pairs, key=lambda pair: (-pairs[pair], pair))
        pieces.append(left + right.removeprefix("##"))
        for word, spelled in spelling.items():
            if left in spelled:
                spelling[word] = right_merge_pieces(spelled, left, right)
    return pieces


def _cut_cases() -> Iterator[Inputs]:
    rng = random.Random(11)
    for length, size in [(2, 3)] * 30 + [(3, 5)] * 40 + [(5, 10)] * 40 + [(7, 16)] * 40:
        word = "".join(rng.choices("abc", k=length))
        inside = sorted(itertools.combinations(range(length + 1), 2))
        pieces = [("##" if i else "") + word[i:j] for i, j in inside]
        # Mostly pieces of the word itself; now and then all its letters, so that it can be cut.
        vocab = set(rng.sample(pieces, min(size, len(pieces))))
        if rng.random() < 0.7:
            vocab |= {word[0], *("##" + c for c in word[1:])}
        if rng.random() < 0.7:
            vocab.discard(word)
        vocab |= {rng.choice("abc") + rng.choice("abc"), "##" + rng.choice("abc")} - {word}
        yield word, sorted(vocab)


@Exercise.asking(
    asks='(word, vocab) -> pieces, the longest match first, or ["[UNK]"]',
    cases=_cut_cases,
    read=_read_tokens,
    tried="150 random words and vocabularies, some words unknown.",
    start="the whole word. Is it in vocab? If not, take a letter off its end and try again. "
    "Then do the same with the rest, with ## in front.",
    beside=(WordPiece.split_word, WordPiece.longest_match),
    mistakes="""
    ✗ the shortest piece is taken, not the longest.
      end counts upward. Begin with all that is left of the word, and shorten that:
      range(len(word), start, -1).
    | range(len(word), start, -1) => range(start + 1, len(word) + 1)
    ✗ the word is cut from its end.
      take the longest *beginning* first, then the rest. (nlp.js cut from the end, too: its issue
      1192.)
    | start = 0 => end = len(word) && while start < len(word) => while end > 0 &&
      end in range(len(word), start, -1) => start in range(end) && append( => insert(0, &&
      start = end => end = start
    ✗ the rest of the word is looked up without ##.
      a piece that does not begin the word is in vocab with ##: look up "##" + word[start:end] as
      soon as start > 0.
    | ("##" if start else "") + =>
    ✗ the known part of an unknown word is kept, and [UNK] is put after it.
      a word that is known in part is unknown: return ["[UNK]"] alone.
    | return ["[UNK]"] => return [*pieces, "[UNK]"]
    """,
)
def right_cut_word(word: str, vocab: list[str]) -> list[str]:
    """Cut a word: the longest known piece, then the longest of the rest; or ["[UNK]"]."""
    pieces: list[str] = []
    start = 0
    while start < len(word):
        for end in range(len(word), start, -1):
            piece = ("##" if start else "") + word[start:end]
            if piece in vocab:
                break
        else:
            return ["[UNK]"]
        pieces.append(piece)
        start = end
    return pieces


def _pair_cases() -> list[Inputs]:
    words = "the dog ##s bark ##ed at night and we slept .".split()
    rng = random.Random(2)
    lengths = [(1, 1), (1, 2), (2, 1), (3, 2), (2, 5), (6, 6)]
    return [(rng.choices(words, k=a), rng.choices(words, k=b)) for a, b in lengths]


@Exercise.asking(
    asks="(first, second) -> (tokens, segment_ids) of two lists of tokens",
    cases=_pair_cases,
    read=parts("tokens, segment_ids", _read_tokens, partial(read_wholes, things="segment ids")),
    first_part=0,
    tried="6 pairs, from one token and one to six and six.",
    start='["[CLS]", *first, "[SEP]", …]. Then one number for each token of that list.',
    beside=(WordPiece.encode,),
    mistakes="""
    ✗ there is no [SEP] at the end.
      each segment ends with its own [SEP]: [CLS] A [SEP] B [SEP].
    | *second, "[SEP]" => *second && (len(second) + 1) => len(second)
    ✗ the first [SEP] is in segment 1.
      it ends the first segment and belongs to it: 0.
    | (first) + 2 => (first) + 1 && (second) + 1 => (second) + 2
    ✗ there are segment ids for the words, but not for [CLS] and [SEP].
      one id for each token: len(segment_ids) == len(tokens).
    | (len(first) + 2) => len(first) && (len(second) + 1) => len(second)
    """,
)
def right_encode_pair(first: list[str], second: list[str]) -> tuple[list[str], list[int]]:
    """Pack [CLS] first [SEP] second [SEP], and number the segments 0 and 1."""
    tokens = ["[CLS]", *first, "[SEP]", *second, "[SEP]"]
    return tokens, [0] * (len(first) + 2) + [1] * (len(second) + 1)


_TEXTS = (
    "sing ##er",
    "dogs bark",
    "[CLS] dogs [SEP]",
    "[UNK] ran [PAD]",
    "dogs .",
    "sing [UNK] ##s",
    "[CLS] the [MASK] bark ##ed [SEP] [UNK] ran [SEP] [PAD] [PAD]",
    "c # is a language",
    "see [ 1 ] .",
    "[CLS] no , we did n ##ot ! [SEP] did you ? [SEP] [PAD]",
    "it ' s the sing [MASK] ##er ##s - a choir : all of them .",
)


@Exercise.asking(
    asks="(tokens) -> text: pieces joined, special tokens left out",
    cases=lambda: [(text.split(),) for text in _TEXTS],
    read=partial(read_str, wanted="one text"),
    tried="11 sequences, with all five special tokens and four kinds of punctuation.",
    start="an empty list of words. A token with ## is glued to the last word; any other starts "
    'a new one. " ".join at the end.',
    beside=(WordPiece.decode,),
    mistakes="""
    ✗ the ## are gone, and so is what they said: there is a space in their place.
      ## is not dirt to be wiped off. It says that no space goes here.
    | words[-1] += token => words.append(token && .removeprefix("##") => .removeprefix("##"))
    | words[-1] += token => words.append(token && .removeprefix("##") => .removeprefix("##")) &&
      ".,!?" => ""
    ✗ special tokens are still there.
      all five are left out: [PAD] [UNK] [CLS] [SEP] [MASK].
    | token in SPECIAL_TOKENS => False
    ✗ only some of the special tokens are left out.
      there are five, and none of them is a word of the text: [PAD] and [MASK], too, and [UNK],
      because what it stood for is lost.
    | SPECIAL_TOKENS => ("[CLS]", "[SEP]")
    | SPECIAL_TOKENS => ("[CLS]", "[SEP]", "[PAD]")
    | SPECIAL_TOKENS => ("[CLS]", "[SEP]", "[PAD]", "[MASK]")
    | SPECIAL_TOKENS => ("[CLS]", "[SEP]", "[PAD]", "[UNK]")
    ✗ every token that begins with [ is left out, even a bracket of the text.
      [ is a word of its own, as in *see [ 1 ] .* Leave out exactly the five: token in
      SPECIAL_TOKENS.
    | token in SPECIAL_TOKENS => token.startswith("[")
    ✗ there is a space before punctuation.
      take away the space before each of . , ! and ?
    | ".,!?" => ""
    """,
)
def right_decode(tokens: list[str]) -> str:
    """Leave out special tokens, join pieces, and take away the space before . , ! ?"""
    words: list[str] = []
    for token in tokens:
        if token in SPECIAL_TOKENS:
            continue
        if words and token.startswith("##"):
            words[-1] += token.removeprefix("##")
        else:
            words.append(token)
    text = " ".join(words)
    for mark in ".,!?":
        text = text.replace(" " + mark, mark)
    return text
