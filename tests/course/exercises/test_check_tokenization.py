"""The exercises of notebook 01."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from verdicts import assert_named, verdict

from bertedu.text.tokenization import (
    SPECIAL_TOKENS,
    Merge,
    WordPiece,
    apply_merge,
    longest_first,
)
from course.exercises import check
from course.exercises.tokenization import (
    right_cut_word,
    right_decode,
    right_encode_pair,
    right_merge_pieces,
)

Function = Callable[..., Any]

# -- the references are the package's functions


def test_the_references_do_what_the_package_does() -> None:
    pieces = ["a", "##a", "##a", "##b", "##a", "##a"]
    merge = Merge("##a", "##a", "##aa", 2)
    assert right_merge_pieces(pieces, "##a", "##a") == apply_merge(pieces, merge)
    assert right_merge_pieces(pieces, "##a", "##a") == ["a", "##aa", "##b", "##aa"]
    vocab = [*SPECIAL_TOKENS, "s", "sing", "##er", "##e", "##r", "##s", "."]
    tokenizer = WordPiece(vocab)
    for word in ("singers", "singer", "sings", "sin", "ring"):
        assert right_cut_word(word, vocab) == tokenizer.tokenize(word)
    packed = tokenizer.encode("singer", "sings.")
    ours = right_encode_pair(tokenizer.tokenize("singer"), tokenizer.tokenize("sings."))
    assert ours == (packed.tokens, packed.segment_ids)
    assert right_decode(packed.tokens) == tokenizer.decode(packed.ids) == "singer sings."


# -- right in other ways


def score_by_loops(words: Any, left: str, right: str) -> Any:
    a = b = ab = 0
    for pieces, count in words:
        for i, piece in enumerate(pieces):
            a += count * (piece == left)
            b += count * (piece == right)
            ab += count * (pieces[i : i + 2] == [left, right])
    return torch.tensor(ab / a / b)


def merge_in_place(pieces: list[str], left: str, right: str) -> list[str]:
    i = 0
    while i + 1 < len(pieces):
        if pieces[i] == left and pieces[i + 1] == right:
            pieces[i : i + 2] = [left + right[2:]]
        i += 1
    return pieces


def spell(text: str, start: int) -> str:
    return text if start == 0 else "##" + text


def cut_by(pick: Function, word: str, vocab: list[str], start: int = 0) -> list[str]:
    places = range(start + 1, len(word) + 1)
    ends = [end for end in places if spell(word[start:end], start) in vocab]
    if start == len(word) or not ends:
        return [] if start == len(word) else ["[UNK]"]
    rest = cut_by(pick, word, vocab, pick(ends))
    return rest if "[UNK]" in rest else [spell(word[start : pick(ends)], start), *rest]


def pack_by_append(first: list[str], second: list[str]) -> list[Any]:
    first.insert(0, "[CLS]")
    first.append("[SEP]")
    second.append("[SEP]")
    return [first + second, [0 for _ in first] + [1 for _ in second]]


def pack_with(make: Function) -> Function:
    def f(first: list[str], second: list[str]) -> tuple[Any, Any]:
        tokens, segments = right_encode_pair(first, second)
        return tuple(tokens), make(segments)

    return f


def truncate_other_convention(a: int, b: int, room: int) -> list[int]:
    while a + b > room:
        a, b = (a - 1, b) if a >= b else (a, b - 1)
    return [a, b]


def decode_with_replace(
    tokens: list[str], marks: str = ".,!?", special: tuple[str, ...] = SPECIAL_TOKENS
) -> str:
    text = " ".join(token for token in tokens if token not in special).replace(" ##", "")
    for mark in marks:
        text = text.replace(" " + mark, mark)
    return text


def decode_piece_by_piece(tokens: list[str]) -> str:
    text = ""
    for token in tokens:
        if re.fullmatch(r"\[[A-Z]+\]", token):
            continue
        if token[:2] == "##":
            text += token[2:]
        else:
            text += token if token in tuple(".,!?") else " " + token
    return text.strip()


@pytest.mark.parametrize(
    ("name", "f"),
    [
        ("pair_score", score_by_loops),
        ("merge_pieces", merge_in_place),
        ("cut_word", lambda word, vocab: cut_by(max, word, vocab)),
        ("encode_pair", pack_by_append),
        ("encode_pair", pack_with(np.array)),
        ("encode_pair", pack_with(torch.tensor)),
        ("truncate", longest_first),
        ("truncate", truncate_other_convention),
        ("decode", decode_with_replace),
        ("decode", decode_piece_by_piece),
    ],
)
def test_right_answers_pass(name: str, f: Function) -> None:
    for _ in range(2):  # and again: a function that changes its lists leaves the cases whole
        assert verdict(getattr(check, name), f).startswith(f"✓ {name}: ")


# -- wrong in other ways


def score_once_a_word(words: Any, left: str, right: str) -> float:
    a, b = (sum(p.count(one) * n for p, n in words) for one in (left, right))
    inside = f" {left} {right} "
    return sum(n for p, n in words if inside in f" {' '.join(p)} ") / a / b


def merge_past_the_end(pieces: list[str], left: str, right: str) -> list[str]:
    for i in range(len(pieces)):
        if (pieces[i], pieces[i + 1]) == (left, right):
            pieces[i : i + 2] = [left + right[2:]]
    return pieces


def merged(new: Function, step: int = 2) -> Function:
    def f(pieces: list[str], left: str, right: str) -> list[str]:
        done, i = [], 0
        while i < len(pieces):
            hit = pieces[i : i + 2] == [left, right]
            done.append(new(left, right) if hit else pieces[i])
            i += step if hit else 1
        return done

    return f


def numbered(segments: Function) -> Function:
    return lambda a, b: (["[CLS]", *a, "[SEP]", *b, "[SEP]"], segments(len(a), len(b)))


@pytest.mark.parametrize(
    ("name", "wrong", "text"),
    [
        (
            "pair_score",
            lambda words, *pair: score_by_loops([(p, 1) for p, _ in words], *pair),
            "every word is counted once",
        ),
        ("pair_score", lambda w, a, b: "high", "one number is wanted"),
        ("pair_score", score_once_a_word, "a pair that stands twice in a word is counted once"),
        ("merge_pieces", merge_past_the_end, "past the end of a list, a tuple or a string"),
        ("merge_pieces", merged(lambda a, b: a + b), "stays in the middle"),
        ("merge_pieces", merged(lambda a, b: a[-1] + b[-1]), "the ## of the left piece is lost"),
        ("merge_pieces", merged(lambda a, b: a + b[2:], step=1), "the right piece is still there"),
        ("merge_pieces", lambda p, a, b: " ".join(p), "a list of tokens is wanted"),
        ("cut_word", lambda w, v: cut_by(min, w, v), "the shortest piece is taken"),
        ("cut_word", lambda w, v: [0], "Return tokens, not ids"),
        (
            "encode_pair",
            lambda a, b: (["[CLS]", *a, "[SEP]", *b], [0] * (len(a) + 2) + [1] * len(b)),
            "there is no [SEP] at the end",
        ),
        ("encode_pair", numbered(lambda a, b: [0] * (a + 1) + [1] * (b + 2)), "the first [SEP] ha"),
        ("encode_pair", numbered(lambda a, b: [0] * a + [1] * b), "not for [CLS] and [SEP]"),
        (
            "encode_pair",
            lambda a, b: right_encode_pair(a, b)[0],
            "return two things: tokens, segment_ids",
        ),
        ("truncate", lambda a, b, room: (a, min(b, room - a)), "only the second text is cut"),
        (
            "truncate",
            lambda a, b, room: (min(a, room // 2), min(b, room // 2)),
            "each text gets half of the room",
        ),
        ("truncate", lambda a, b, room: (min(a, room), min(b, room)), "but not both together"),
        ("truncate", lambda a, b, room: room, "return two things"),
        (
            "decode",
            lambda t: decode_with_replace([x.replace("##", "") for x in t]),
            "there is a space in their place",
        ),
        ("decode", lambda t: decode_with_replace(t, ""), "there is a space before punctuation"),
        ("decode", lambda t: decode_with_replace([x for x in t if x[0] != "["]), "even a bracket"),
        (
            "decode",
            lambda t: decode_with_replace(t[t[0] == "[CLS]" :], special=("[SEP]",)),
            "only some of the special tokens are left out",
        ),
        ("decode", lambda t: t, "one text is wanted"),
    ],
)
def test_wrong_answers_are_told_why(name: str, wrong: Function, text: str) -> None:
    assert_named(getattr(check, name), name, wrong, text)
