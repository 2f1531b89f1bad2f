"""The checks of notebook 01."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from verdicts import verdict, words

from bertedu import check
from bertedu.check.tokenization import (
    right_cut_word,
    right_decode,
    right_encode_pair,
    right_merge_pieces,
    right_pair_score,
    right_truncate,
)
from bertedu.text.tokenization import (
    SPECIAL_TOKENS,
    Merge,
    WordPiece,
    apply_merge,
    best_merge,
    longest_first,
)

Function = Callable[..., Any]


def spell(text: str, start: int) -> str:
    return text if start == 0 else "##" + text


def ends(word: str, start: int, vocab: list[str], step: int = 1) -> list[int]:
    """Where a known piece from `start` may end, shortest first."""
    places = range(start + 1, len(word) + 1)
    return [end for end in places if spell(word[start:end], start) in vocab][::step]


def walk(pick: Function, word: str, vocab: list[str]) -> list[str] | None:
    """Cut with some choice among the ends; None where there is none."""
    pieces, start = [], 0
    while start < len(word):
        found = ends(word, start, vocab)
        if not found:
            return None
        pieces.append(spell(word[start : pick(found)], start))
        start = pick(found)
    return pieces


# -- the references are the package's functions


def test_the_reference_score_is_the_one_that_training_uses() -> None:
    spelling = {"aba": ["a", "##b", "##a"], "ab": ["a", "##b"], "b": ["b"]}
    counts = {"aba": 3, "ab": 2, "b": 4}
    merge = best_merge(spelling, counts, min_count=1)
    assert merge is not None
    scored = [(spelling[word], counts[word]) for word in spelling]
    assert right_pair_score(scored, merge.left, merge.right) == merge.score
    assert merge.score == pytest.approx(1 / 5)


def test_the_other_references_do_what_the_package_does() -> None:
    pieces = ["a", "##a", "##a", "##b", "##a", "##a"]
    merge = Merge("##a", "##a", "##aa", 0.0)
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
    for a, b, room in ((10, 900, 509), (200, 100, 509), (7, 3, 8), (6, 6, 4), (1, 9, 3)):
        assert right_truncate(a, b, room) == longest_first(a, b, room)


# -- pair score


def score_by_loops(words: Any, left: str, right: str) -> float:
    a = b = ab = 0
    for pieces, count in words:
        for i, piece in enumerate(pieces):
            a += count * (piece == left)
            b += count * (piece == right)
            ab += count * (pieces[i : i + 2] == [left, right])
    return ab / a / b


def score_as_tensor(words: Any, left: str, right: str) -> Any:
    return torch.tensor(right_pair_score(words, left, right))


def scorer(formula: Function, weigh: bool = True, weigh_singles: bool = True) -> Function:
    def f(words: Any, left: str, right: str) -> float:
        a = b = ab = 0
        for pieces, count in words:
            n, m = count if weigh_singles else 1, count if weigh else 1
            a += n * sum(piece == left for piece in pieces)
            b += n * sum(piece == right for piece in pieces)
            ab += m * sum(p == [left, right] for p in zip_pairs(pieces))
        return float(formula(ab, a, b))

    return f


def zip_pairs(pieces: list[str]) -> list[list[str]]:
    return [list(pair) for pair in itertools.pairwise(pieces)]


def score(ab: int, a: int, b: int) -> float:
    return ab / (a * b)


def score_in_any_order(words: Any, left: str, right: str) -> float:
    a = sum(n * p.count(left) for p, n in words)
    b = sum(n * p.count(right) for p, n in words)
    ab = sum(n for p, n in words for x in zip_pairs(p) if sorted(x) == sorted([left, right]))
    return float(ab / (a * b))


def score_in_same_word(words: Any, left: str, right: str) -> float:
    a = sum(n * p.count(left) for p, n in words)
    b = sum(n * p.count(right) for p, n in words)
    return float(sum(n for p, n in words if {left, right} <= set(p)) / (a * b))


def score_with_sets(words: Any, left: str, right: str) -> float:
    a = sum(n for p, n in words if left in p)
    b = sum(n for p, n in words if right in p)
    return float(sum(n for p, n in words if [left, right] in zip_pairs(p)) / (a * b))


def score_of_letters(words: Any, left: str, right: str) -> float:
    bare = [([p[-1] for p in pieces], n) for pieces, n in words]
    return score_by_loops(bare, left[-1], right[-1])


# -- merge


def merge_in_place(pieces: list[str], left: str, right: str) -> list[str]:
    i = 0
    while i + 1 < len(pieces):
        if pieces[i] == left and pieces[i + 1] == right:
            pieces[i : i + 2] = [left + right[2:]]
        i += 1
    return pieces


def merge_as_tuple(pieces: list[str], left: str, right: str) -> tuple[str, ...]:
    return tuple(apply_merge(pieces, Merge(left, right, left + right[2:], 0.0)))


def merger(new: Function, step: int = 2, limit: int = 99, copy_last: bool = True) -> Function:
    def f(pieces: list[str], left: str, right: str) -> list[str]:
        done: list[str] = []
        i = found = 0
        while i < len(pieces) - (not copy_last):
            if pieces[i] == left and pieces[i + 1 : i + 2] == [right] and found < limit:
                done.append(new(left, right))
                i += step
                found += 1
            else:
                done.append(pieces[i])
                i += 1
        return done

    return f


def proper(left: str, right: str) -> str:
    return left + right[2:]


def merge_backwards(pieces: list[str], left: str, right: str) -> list[str]:
    i = len(pieces) - 2
    while i >= 0:
        if pieces[i] == left and pieces[i + 1 : i + 2] == [right]:
            pieces[i : i + 2] = [proper(left, right)]
        i -= 1
    return pieces


def merge_by_letters(pieces: list[str], left: str, right: str) -> list[str]:
    i = 0
    while i + 1 < len(pieces):
        if [p.lstrip("#") for p in pieces[i : i + 2]] == [left.lstrip("#"), right.lstrip("#")]:
            pieces[i : i + 2] = [pieces[i] + pieces[i + 1].lstrip("#")]
        i += 1
    return pieces


# -- cutting


def cut_by_recursion(word: str, vocab: list[str]) -> list[str]:
    return walk(max, word, list(set(vocab))) or ["[UNK]"]


def cut_shortest(word: str, vocab: list[str]) -> list[str]:
    return walk(min, word, vocab) or ["[UNK]"]


def cut_from_the_end(word: str, vocab: list[str]) -> list[str]:
    if not word:
        return []
    for start in range(len(word)):
        if spell(word[start:], start) in vocab:
            rest = cut_from_the_end(word[:start], vocab)
            return ["[UNK]"] if "[UNK]" in rest else [*rest, spell(word[start:], start)]
    return ["[UNK]"]


def cut_without_marks(word: str, vocab: list[str]) -> list[str]:
    pieces, start = [], 0
    while start < len(word):
        found = [e for e in range(start + 1, len(word) + 1) if word[start:e] in vocab]
        if not found:
            return ["[UNK]"]
        pieces.append(word[start : found[-1]])
        start = found[-1]
    return pieces


def cut_and_lose_marks(word: str, vocab: list[str]) -> list[str]:
    return [piece.removeprefix("##") for piece in right_cut_word(word, vocab)]


def cut_until_stuck(at: Function) -> Function:
    def f(word: str, vocab: list[str]) -> list[str]:
        pieces: list[str] = []
        start = 0
        while start < len(word):
            found = ends(word, start, vocab)
            if found:
                pieces.append(spell(word[start : found[-1]], start))
                start = found[-1]
            else:
                pieces += at(start)
                start = start + 1 if at(-1) else len(word)
        return pieces

    return f


def cut_too_short(word: str, vocab: list[str]) -> list[str]:
    pieces, start = [], 0
    while start < len(word):
        for end in range(len(word) - 1, start, -1):
            if spell(word[start:end], start) in vocab:
                break
        else:
            return ["[UNK]"]
        pieces.append(spell(word[start:end], start))
        start = end
    return pieces


def cut_fewest(word: str, vocab: list[str]) -> list[str]:
    def ways(start: int) -> list[list[str]]:
        if start == len(word):
            return [[]]
        return [
            [spell(word[start:end], start), *rest]
            for end in reversed(ends(word, start, vocab))
            for rest in ways(end)
        ]

    return min(ways(0), key=len, default=["[UNK]"])


# -- packing


def pack_by_append(first: list[str], second: list[str]) -> list[Any]:
    tokens = first
    tokens.insert(0, "[CLS]")
    tokens.append("[SEP]")
    segments = [0 for _ in tokens]
    second.append("[SEP]")
    return [tokens + second, segments + [1 for _ in second]]


def pack_with_arrays(first: list[str], second: list[str]) -> tuple[Any, Any]:
    tokens, segments = right_encode_pair(first, second)
    return tuple(tokens), np.array(segments)


def pack_with_tensors(first: list[str], second: list[str]) -> tuple[Any, Any]:
    tokens, segments = right_encode_pair(first, second)
    return tokens, torch.tensor(segments)


def packer(zeros: Function, ones: Function) -> Function:
    def f(first: list[str], second: list[str]) -> tuple[list[str], list[int]]:
        a, b = zeros(first), ones(second)
        return a + b, [0] * len(a) + [1] * len(b)

    return f


def numberer(segments: Function) -> Function:
    return lambda a, b: (["[CLS]", *a, "[SEP]", *b, "[SEP]"], segments(len(a), len(b)))


def start_rightly(a: list[str]) -> list[str]:
    return ["[CLS]", *a, "[SEP]"]


def end_rightly(b: list[str]) -> list[str]:
    return [*b, "[SEP]"]


# -- truncation


def truncate_at_once(a: int, b: int, room: int) -> tuple[int, int]:
    return longest_first(a, b, room)


def truncate_other_convention(a: int, b: int, room: int) -> list[int]:
    while a + b > room:
        a, b = (a - 1, b) if a >= b else (a, b - 1)
    return [a, b]


def truncate_shorter(a: int, b: int, room: int) -> tuple[int, int]:
    while a + b > room and a > 0 and b > 0:
        a, b = (a - 1, b) if a < b else (a, b - 1)
    return min(a, room), min(b, room)


def truncate_in_turn(a: int, b: int, room: int) -> tuple[int, int]:
    first = True
    while a + b > room:
        if (first or b == 0) and a > 0:
            a -= 1
        else:
            b -= 1
        first = not first
    return a, b


def truncate_by_share(a: int, b: int, room: int) -> tuple[int, int]:
    if a + b <= room:
        return a, b
    kept = int(room * a / (a + b))
    return kept, room - kept


def truncate_too_much(a: int, b: int, room: int) -> tuple[int, int]:
    while a + b >= room:
        a, b = (a - 1, b) if a > b else (a, b - 1)
    return a, b


# -- decoding


def decode_with_replace(tokens: list[str]) -> str:
    text = " ".join(token for token in tokens if token not in SPECIAL_TOKENS).replace(" ##", "")
    for mark in ".,!?":
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


def words_of(tokens: list[str]) -> list[str]:
    return [token for token in tokens if token not in SPECIAL_TOKENS]


def tidy(text: str) -> str:
    for mark in ".,!?":
        text = text.replace(" " + mark, mark)
    return text


RIGHT: list[tuple[Function, Function]] = [
    (check.pair_score, right_pair_score),
    (check.pair_score, score_by_loops),
    (check.pair_score, score_as_tensor),
    (check.merge_pieces, right_merge_pieces),
    (check.merge_pieces, merge_in_place),
    (check.merge_pieces, merge_as_tuple),
    (check.cut_word, right_cut_word),
    (check.cut_word, cut_by_recursion),
    (check.encode_pair, right_encode_pair),
    (check.encode_pair, pack_by_append),
    (check.encode_pair, pack_with_arrays),
    (check.encode_pair, pack_with_tensors),
    (check.truncate, right_truncate),
    (check.truncate, truncate_at_once),
    (check.truncate, truncate_other_convention),
    (check.decode, right_decode),
    (check.decode, decode_with_replace),
    (check.decode, decode_piece_by_piece),
]


@pytest.mark.parametrize(("checker", "f"), RIGHT)
def test_right_answers_pass(checker: Function, f: Function) -> None:
    for _ in range(2):  # and again: a function that changes its lists leaves the cases whole
        assert verdict(checker, f).startswith(f"✓ {checker.__name__}: ")


PLANTED: list[tuple[Function, Function, str]] = [
    (check.pair_score, scorer(lambda ab, a, b: ab), "the number of times that the pair occurs"),
    (check.pair_score, scorer(score, False, False), "every word is counted once"),
    (check.pair_score, scorer(score, True, False), "the single pieces are not"),
    (check.pair_score, scorer(score, False, True), "without the counts of its words"),
    (check.pair_score, scorer(lambda ab, a, b: ab / (a + b)), "by the sum of the two counts"),
    (check.pair_score, scorer(lambda ab, a, b: ab / a), "only the count of left is divided out"),
    (check.pair_score, scorer(lambda ab, a, b: ab / b), "only the count of right is divided out"),
    (check.pair_score, score_in_any_order, "also counted in the other order"),
    (check.pair_score, score_in_same_word, "although they are not neighbors"),
    (check.pair_score, score_with_sets, "twice in a word is counted once"),
    (check.pair_score, score_of_letters, "the same letters without it are counted as one"),
    (check.pair_score, lambda w, a, b: "high", "one number is wanted"),
    (check.merge_pieces, merger(lambda a, b: a + b), "stays in the middle"),
    (check.merge_pieces, merger(lambda a, b: a[-1] + b[-1]), "the ## of the left piece is lost"),
    (check.merge_pieces, merger(lambda a, b: "##" + a[-1] + b[-1]), "every merged piece gets a ##"),
    (check.merge_pieces, merger(proper, limit=1), "only the first such pair is joined"),
    (check.merge_pieces, merger(proper, step=1), "the right piece is still there"),
    (check.merge_pieces, merge_backwards, "joined from right to left"),
    (check.merge_pieces, merger(proper, copy_last=False), "the last piece of a word is missing"),
    (check.merge_pieces, merge_by_letters, "although one has a ## and the other has not"),
    (check.merge_pieces, lambda p, a, b: p, "nothing is ever joined"),
    (check.merge_pieces, lambda p, a, b: " ".join(p), "a list of tokens is wanted"),
    (check.cut_word, cut_shortest, "the shortest piece is taken"),
    (check.cut_word, cut_from_the_end, "the word is cut from its end"),
    (check.cut_word, cut_without_marks, "looked up without ##"),
    (check.cut_word, cut_and_lose_marks, "their ## are missing"),
    (check.cut_word, cut_until_stuck(lambda i: ["[UNK]"][: i + 1]), "[UNK] put after it"),
    (check.cut_word, cut_until_stuck(lambda i: ["[UNK]"]), "only the unknown letters become [UNK]"),
    (check.cut_word, cut_until_stuck(lambda i: []), "letters that do not fit are left out"),
    (check.cut_word, lambda w, v: walk(max, w, v) or [], "becomes [] and is lost"),
    (check.cut_word, cut_too_short, "the whole rest of the word is never tried"),
    (check.cut_word, cut_fewest, "this finds the fewest pieces"),
    (check.cut_word, lambda w, v: [w if w in v else "[UNK]"], "never cut"),
    (check.cut_word, lambda w, v: [0], "Tokens, not ids"),
    (check.encode_pair, packer(start_rightly, lambda b: b), "there is no [SEP] at the end"),
    (check.encode_pair, packer(lambda a: ["[CLS]", *a], end_rightly), "no [SEP] between the two"),
    (check.encode_pair, packer(end_rightly, end_rightly), "[CLS] is missing"),
    (check.encode_pair, packer(start_rightly, start_rightly), "has a [CLS] of its own"),
    (check.encode_pair, lambda a, b: right_encode_pair(b, a), "the two texts have changed places"),
    (
        check.encode_pair,
        numberer(lambda a, b: [0] * (a + 1) + [1] * (b + 2)),
        "the first [SEP] has segment 1",
    ),
    (
        check.encode_pair,
        numberer(lambda a, b: [0] * (a + 2) + [1] * b + [0]),
        "the last [SEP] has segment 0",
    ),
    (check.encode_pair, numberer(lambda a, b: [0] * a + [1] * b), "not for [CLS] and [SEP]"),
    (check.encode_pair, numberer(lambda a, b: [0] * (a + b + 3)), "all tokens have the same"),
    (
        check.encode_pair,
        numberer(lambda a, b: [1] * (a + 2) + [2] * (b + 1)),
        "the segments are 1 and 2",
    ),
    (
        check.encode_pair,
        numberer(lambda a, b: [1] * (a + 2) + [0] * (b + 1)),
        "the segments are 1 and 0",
    ),
    (
        check.encode_pair,
        lambda a, b: right_encode_pair(a, b)[0],
        "return two things: tokens, segment_ids",
    ),
    (check.truncate, lambda a, b, room: (a, min(b, room - a)), "only the second text is cut"),
    (check.truncate, lambda a, b, room: (min(a, room - b), b), "only the first text is cut"),
    (
        check.truncate,
        lambda a, b, room: (min(a, room // 2), min(b, room // 2)),
        "each text gets half of the room",
    ),
    (check.truncate, truncate_by_share, "in proportion to their lengths"),
    (check.truncate, truncate_shorter, "the shorter text is cut"),
    (check.truncate, truncate_in_turn, "both texts give tokens in turn"),
    (
        check.truncate,
        lambda a, b, room: tuple(
            x - y for x, y in zip((a, b), longest_first(a, b, room), strict=True)
        ),
        "the numbers of tokens cut off",
    ),
    (check.truncate, truncate_too_much, "one token too many is cut"),
    (check.truncate, lambda a, b, room: (min(a, room), min(b, room)), "but not both together"),
    (check.truncate, lambda a, b, room: (a, b), "nothing is cut"),
    (check.truncate, lambda a, b, room: room, "return two things"),
    (check.decode, lambda t: tidy(" ".join(words_of(t))), "the ## are still there"),
    (
        check.decode,
        lambda t: tidy(" ".join(words_of(t)).replace("##", "")),
        "a space stands there",
    ),
    (check.decode, lambda t: " ".join(words_of(t)).replace("##", ""), "a space stands there"),
    (check.decode, lambda t: "".join(words_of(t)).replace("##", ""), "all spaces are gone"),
    (
        check.decode,
        lambda t: tidy(" ".join(t).replace(" ##", "")),
        "✗ decode: special tokens are still there",
    ),
    (
        check.decode,
        lambda t: tidy(" ".join(x for x in t if x not in ("[CLS]", "[SEP]")).replace(" ##", "")),
        "some special tokens are still there",
    ),
    (
        check.decode,
        lambda t: " ".join(words_of(t)).replace(" ##", ""),
        "a space stands before punctuation",
    ),
    (
        check.decode,
        lambda t: " ".join(words_of(t)).replace(" ##", "").replace(" .", "."),
        "the space before some marks is still there",
    ),
    (check.decode, lambda t: decode_with_replace(t) + " ", "begins or ends with a space"),
    (check.decode, lambda t: decode_with_replace(t).replace("#", ""), "a single # is lost"),
    (check.decode, lambda t: words_of(t), "one text is wanted"),
]


@pytest.mark.parametrize(("checker", "wrong", "text"), PLANTED, ids=[t for *_, t in PLANTED])
def test_each_mistake_gets_its_own_message(checker: Function, wrong: Function, text: str) -> None:
    said = verdict(checker, wrong)
    assert said.startswith(f"✗ {checker.__name__}: ")
    assert text in words(said)
    assert "Smallest case: " in said
    assert said == verdict(checker, wrong)


def stub(*_: Any) -> None: ...


@pytest.mark.parametrize(
    "checker",
    [
        check.pair_score,
        check.merge_pieces,
        check.cut_word,
        check.encode_pair,
        check.truncate,
        check.decode,
    ],
)
def test_a_stub_is_told_how_to_begin_and_the_answer_book_opens(
    checker: Function, capsys: pytest.CaptureFixture[str]
) -> None:
    name = checker.__name__
    for unsolved in (None, ...):
        assert verdict(checker, unsolved).startswith(f"… {name} is still a stub. Start from ")
    check.solution(name)
    assert "# bertedu/text/tokenization.py\n" in capsys.readouterr().out
