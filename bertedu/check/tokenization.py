"""The checks of notebook 01: pair score, merge, longest match, pairs, truncation, decoding."""

import itertools
import random
import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from bertedu.check import exercise
from bertedu.check.exercise import Exercise, Function, Inputs, Mistake, UnreadableError
from bertedu.text.tokenization import (
    SPECIAL_TOKENS,
    WordPiece,
    apply_merge,
    best_merge,
    longest_first,
)

Words = list[tuple[list[str], int]]  # each word as its pieces, with how often it occurs


def _read_tokens(answer: Any, *_: Any) -> list[str]:
    if isinstance(answer, str):
        raise UnreadableError("your function returned one str; a list of tokens is wanted.")
    if not isinstance(answer, list | tuple):
        raise UnreadableError("your function returned no list; a list of tokens is wanted.")
    if not all(isinstance(token, str) for token in answer):
        raise UnreadableError("your list holds something that is not a str. Tokens, not ids.")
    return list(answer)


# -- the pair score


def right_pair_score(words: Words, left: str, right: str) -> float:
    """Return count(left right) / (count(left) * count(right)) over all words with their counts."""
    singles: Counter[str] = Counter()
    together = 0
    for pieces, count in words:
        for piece in pieces:
            singles[piece] += count
        together += count * list(itertools.pairwise(pieces)).count((left, right))
    return together / (singles[left] * singles[right])


def _score_cases() -> list[Inputs]:
    dice = random.Random(3)
    cases: list[Inputs] = []
    for count, size, length in ((30, 1, 3), (30, 2, 3), (30, 3, 5)):
        while count:
            words = []
            for _ in range(size):
                first, *rest = dice.choices("abc", k=dice.randint(2, length))
                words.append(([first, *("##" + c for c in rest)], dice.randint(1, 3)))
            left, right = dice.choice(list(itertools.pairwise(dice.choice(words)[0])))
            cases.append((words, left, right))
            count -= 1
    return cases


def _read_score(answer: Any, *_: Any) -> float:
    return exercise.read_number(answer)


def _once(words: Words) -> Words:
    return [(pieces, 1) for pieces, _ in words]


def _together(words: Words, left: str, right: str) -> int:
    return sum(n * list(itertools.pairwise(p)).count((left, right)) for p, n in words)


def _single(words: Words, piece: str) -> int:
    return sum(n * pieces.count(piece) for pieces, n in words)


def _either_order(words: Words, left: str, right: str) -> float:
    both = _together(words, left, right)
    both += _together(words, right, left) if left != right else 0
    return both / (_single(words, left) * _single(words, right))


def _same_word(words: Words, left: str, right: str) -> float:
    both = sum(n for pieces, n in words if left in pieces and right in pieces)
    return both / (_single(words, left) * _single(words, right))


def _once_a_word(words: Words, left: str, right: str) -> float:
    both = sum(n for pieces, n in words if (left, right) in itertools.pairwise(pieces))
    singles = [sum(n for pieces, n in words if piece in pieces) for piece in (left, right)]
    return both / (singles[0] * singles[1])


def _singles_uncounted(words: Words, left: str, right: str) -> float:
    return _together(words, left, right) / (
        _single(_once(words), left) * _single(_once(words), right)
    )


def _without_marks(words: Words, left: str, right: str) -> float:
    bare = [([piece.removeprefix("##") for piece in pieces], n) for pieces, n in words]
    return right_pair_score(bare, left.removeprefix("##"), right.removeprefix("##"))


PAIR_SCORE = Exercise(
    name="pair_score",
    right=right_pair_score,
    cases=_score_cases,
    read=_read_score,
    tried="90 random vocabularies, of one word to three.",
    start="three counts: left, right, and right directly after left. Each word counts as often "
    "as it occurs.",
    source=(right_pair_score, best_merge),
    mistakes=(
        Mistake(
            "this is the number of times that the pair occurs.",
            "that is what BPE maximizes. WordPiece divides it by count(left) · count(right).",
            (_together,),
        ),
        Mistake(
            "every word is counted once, however often it occurs.",
            "each word comes with a count; add that, not 1.",
            (lambda w, a, b: right_pair_score(_once(w), a, b),),
        ),
        Mistake(
            "the pair is counted as often as its words occur, the single pieces are not.",
            "add the word's count to the pieces, too.",
            (_singles_uncounted,),
        ),
        Mistake(
            "the pair is counted without the counts of its words, the single pieces with them.",
            "add the word's count to the pair, too.",
            (lambda w, a, b: _together(_once(w), a, b) / (_single(w, a) * _single(w, b)),),
        ),
        Mistake(
            "the pair count is divided by the sum of the two counts.",
            "by their product: two unrelated pieces meet in proportion to count(left) · "
            "count(right).",
            (lambda w, a, b: _together(w, a, b) / (_single(w, a) + _single(w, b)),),
        ),
        Mistake(
            "only the count of left is divided out.",
            "that is the probability that right follows left. Divide by count(right) as well.",
            (lambda w, a, b: _together(w, a, b) / _single(w, a),),
        ),
        Mistake(
            "only the count of right is divided out.",
            "divide by count(left) as well.",
            (lambda w, a, b: _together(w, a, b) / _single(w, b),),
        ),
        Mistake(
            "the pair is also counted in the other order.",
            "left must stand directly before right: zip(pieces, pieces[1:]).",
            (_either_order,),
        ),
        Mistake(
            "the two pieces count although they are not neighbors.",
            "both in the same word is not enough: right must follow left directly.",
            (_same_word,),
        ),
        Mistake(
            "a piece or a pair that comes twice in a word is counted once.",
            "pieces.count(piece), or a loop over all places: `in` only says whether.",
            (_once_a_word,),
        ),
        Mistake(
            "a piece with ## and the same letters without it are counted as one.",
            "they are different pieces: one begins a word, the other does not.",
            (_without_marks,),
        ),
    ),
)


def pair_score(function: object) -> None:
    """Check ``(words, left, right) -> float``; words is a list of (pieces, count)."""
    print(exercise.judge(PAIR_SCORE, function))


# -- one merge step


def right_merge_pieces(pieces: list[str], left: str, right: str) -> list[str]:
    """Join every left with the right directly after it, from left to right."""
    joined: list[str] = []
    for piece in pieces:
        if joined and (joined[-1], piece) == (left, right):
            joined[-1] = left + right.removeprefix("##")
        else:
            joined.append(piece)
    return joined


def _merge_cases() -> list[Inputs]:
    dice = random.Random(5)
    cases: list[Inputs] = []
    for count, length in ((20, 2), (30, 3), (30, 5), (30, 7)):
        for _ in range(count):
            first, *rest = dice.choices("ab", k=length)
            pieces = [first, *("##" + c for c in rest)]
            pair = dice.choice(list(itertools.pairwise(pieces)))
            if dice.random() < 0.2:
                pair = (pair[1], "##c")  # a pair that is not there
            cases.append((pieces, *pair))
    return cases


def _merging(join: Callable[[str, str], str]) -> Function:
    """Make a merge that spells the new piece in its own way."""

    def wrong(pieces: list[str], left: str, right: str) -> list[str]:
        joined: list[str] = []
        i = 0
        while i < len(pieces):
            if pieces[i : i + 2] == [left, right]:
                joined.append(join(left, right))
                i += 2
            else:
                joined.append(pieces[i])
                i += 1
        return joined

    return wrong


def _first_only(pieces: list[str], left: str, right: str) -> list[str]:
    for i, pair in enumerate(itertools.pairwise(pieces)):
        if pair == (left, right):
            return [*pieces[:i], left + right.removeprefix("##"), *pieces[i + 2 :]]
    return list(pieces)


def _right_stays(pieces: list[str], left: str, right: str) -> list[str]:
    after = [*pieces[1:], ""]
    return [
        a + b.removeprefix("##") if (a, b) == (left, right) else a
        for a, b in zip(pieces, after, strict=True)
    ]


def _from_the_right(pieces: list[str], left: str, right: str) -> list[str]:
    joined: list[str] = []
    for piece in reversed(pieces):
        if joined and (piece, joined[0]) == (left, right):
            joined[0] = left + right.removeprefix("##")
        else:
            joined.insert(0, piece)
    return joined


def _last_missing(pieces: list[str], left: str, right: str) -> list[str]:
    joined: list[str] = []
    i = 0
    while i < len(pieces) - 1:
        hit = (pieces[i], pieces[i + 1]) == (left, right)
        joined.append(left + right.removeprefix("##") if hit else pieces[i])
        i += 2 if hit else 1
    return joined


def _marks_ignored(pieces: list[str], left: str, right: str) -> list[str]:
    joined: list[str] = []
    bare = (left.removeprefix("##"), right.removeprefix("##"))
    i = 0
    while i < len(pieces):
        if tuple(piece.removeprefix("##") for piece in pieces[i : i + 2]) == bare:
            joined.append(pieces[i] + pieces[i + 1].removeprefix("##"))
            i += 2
        else:
            joined.append(pieces[i])
            i += 1
    return joined


MERGE_PIECES = Exercise(
    name="merge_pieces",
    right=right_merge_pieces,
    cases=_merge_cases,
    read=_read_tokens,
    tried="110 random words, with the pair none, one or several times.",
    start="a walk from left to right. Where left and right stand side by side, write one piece; "
    'elsewhere, copy. right.removeprefix("##") takes the mark off.',
    source=(apply_merge, right_merge_pieces),
    mistakes=(
        Mistake(
            "the ## of the right piece stays in the middle.",
            'the mark may only stand in front: left + right.removeprefix("##").',
            (_merging(lambda a, b: a + b),),
        ),
        Mistake(
            "the ## of the left piece is lost.",
            "a piece that continues a word still continues it after the merge. Take the mark off "
            "the right piece only; strip or replace takes off more.",
            (_merging(lambda a, b: (a + b).replace("##", "")),),
        ),
        Mistake(
            "every merged piece gets a ##.",
            "a piece that begins a word has none: keep left as it is.",
            (_merging(lambda a, b: "##" + (a + b).replace("##", "")),),
        ),
        Mistake(
            "only the first such pair is joined.",
            "go on to the end of the word.",
            (_first_only,),
        ),
        Mistake(
            "the right piece is still there after the merge.",
            "two pieces become one: skip right, i += 2.",
            (_right_stays,),
        ),
        Mistake(
            "the pairs are joined from right to left.",
            "where pairs overlap, as in ##a ##a ##a, the first two become one.",
            (_from_the_right,),
        ),
        Mistake(
            "the last piece of a word is missing.",
            "a loop over pairs ends one piece early. The last piece has no right neighbor, and "
            "must be copied all the same.",
            (_last_missing,),
        ),
        Mistake(
            "pieces match although one has a ## and the other has not.",
            "compare them as they are: a and ##a are different pieces.",
            (_marks_ignored,),
        ),
        Mistake(
            "nothing is ever joined.",
            "compare neighbors with (left, right), both with their ##.",
            (lambda pieces, left, right: list(pieces),),
        ),
    ),
)


def merge_pieces(function: object) -> None:
    """Check ``(pieces, left, right) -> pieces`` with every such pair joined."""
    print(exercise.judge(MERGE_PIECES, function))


# -- greedy longest match


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


def _cut_cases() -> list[Inputs]:
    dice = random.Random(11)
    cases: list[Inputs] = []
    for count, length, size in ((30, 2, 3), (40, 3, 5), (40, 5, 10), (40, 7, 16)):
        for _ in range(count):
            word = "".join(dice.choices("abc", k=length))
            inside = sorted(itertools.combinations(range(length + 1), 2))
            pieces = [("##" if i else "") + word[i:j] for i, j in inside]
            # Mostly pieces of the word itself; now and then all its letters, so that it can be cut.
            vocab = set(dice.sample(pieces, min(size, len(pieces))))
            if dice.random() < 0.7:
                vocab |= {word[0], *("##" + c for c in word[1:])}
            if dice.random() < 0.7:
                vocab.discard(word)
            vocab |= {dice.choice("abc") + dice.choice("abc"), "##" + dice.choice("abc")} - {word}
            cases.append((word, sorted(vocab)))
    return cases


Cut = Callable[[str, int, list[str]], int]  # (word, start, vocab) -> end; start if there is none


def _longest(word: str, start: int, vocab: list[str]) -> int:
    mark = "##" if start else ""
    return max(
        (j for j in range(start + 1, len(word) + 1) if mark + word[start:j] in vocab),
        default=start,
    )


def _shortest(word: str, start: int, vocab: list[str]) -> int:
    mark = "##" if start else ""
    return min(
        (j for j in range(start + 1, len(word) + 1) if mark + word[start:j] in vocab),
        default=start,
    )


def _bare(word: str, start: int, vocab: list[str]) -> int:
    return max(
        (j for j in range(start + 1, len(word) + 1) if word[start:j] in vocab), default=start
    )


def _not_whole(word: str, start: int, vocab: list[str]) -> int:
    """range(len(word) - 1, start, -1), unless a single letter is left."""
    mark = "##" if start else ""
    last = len(word) if len(word) - start == 1 else len(word) - 1
    return max(
        (j for j in range(start + 1, last + 1) if mark + word[start:j] in vocab), default=start
    )


def _cutting(
    find: Cut, spell: Callable[[str, int], str], unknown: str = "word", unknown_token: str = "[UNK]"
) -> Function:
    """Make a cutter. `unknown` says what happens where nothing fits: word, rest, letter, skip."""

    def wrong(word: str, vocab: list[str]) -> list[str]:
        pieces: list[str] = []
        start = 0
        while start < len(word):
            end = find(word, start, vocab)
            if end > start:
                pieces.append(spell(word[start:end], start))
                start = end
                continue
            if unknown == "word":
                return [unknown_token]
            if unknown == "rest":
                return [*pieces, unknown_token]
            if unknown == "stop":
                return pieces
            if unknown == "letter":
                pieces.append(unknown_token)
            start += 1
        return pieces

    return wrong


def _marked(text: str, start: int) -> str:
    return ("##" if start else "") + text


def _from_the_end(word: str, vocab: list[str]) -> list[str]:
    """The longest known suffix first."""
    pieces: list[str] = []
    end = len(word)
    while end > 0:
        for start in range(end):
            if _marked(word[start:end], start) in vocab:
                break
        else:
            return ["[UNK]"]
        pieces.insert(0, _marked(word[start:end], start))
        end = start
    return pieces


def _fewest(word: str, vocab: list[str]) -> list[str]:
    """The fewest pieces; of several such ways, the one with the longest first piece."""
    best: list[list[str] | None] = [None] * len(word) + [[]]
    for start in range(len(word) - 1, -1, -1):
        for end in range(len(word), start, -1):
            rest, piece = best[end], _marked(word[start:end], start)
            if rest is None or piece not in vocab:
                continue
            old = best[start]
            if old is None or len(rest) + 1 < len(old):
                best[start] = [piece, *rest]
    return ["[UNK]"] if best[0] is None else best[0]


def _whole_or_unknown(word: str, vocab: list[str]) -> list[str]:
    return [word] if word in vocab else ["[UNK]"]


CUT_WORD = Exercise(
    name="cut_word",
    right=right_cut_word,
    cases=_cut_cases,
    read=_read_tokens,
    tried="150 random words and vocabularies, some words unknown.",
    start="the whole word. Is it in vocab? If not, take a letter off its end and ask again. "
    "Then the same with the rest, with ## in front.",
    source=(WordPiece.split_word, WordPiece.longest_match),
    mistakes=(
        Mistake(
            "the shortest piece is taken, not the longest.",
            "end counts upwards. Begin with the whole rest of the word, and shorten it: "
            "range(len(word), start, -1).",
            (_cutting(_shortest, _marked),),
        ),
        Mistake(
            "the word is cut from its end.",
            "the longest *beginning* first, then the rest. (nlp.js cut from the end, too: its "
            "issue 1192.)",
            (_from_the_end,),
        ),
        Mistake(
            "the rest of the word is looked up without ##.",
            'a piece that does not begin the word is spelled with ## in vocab: "##" + '
            "word[start:end] as soon as start > 0.",
            (_cutting(_bare, _marked), _cutting(_bare, lambda text, start: text)),
        ),
        Mistake(
            "the right pieces, but their ## are missing.",
            "return the pieces as they stand in vocab, with ##. Without it nobody can tell where "
            "a word begins.",
            (_cutting(_longest, lambda text, start: text),),
        ),
        Mistake(
            "the known part of an unknown word is kept, and [UNK] put after it.",
            'half a word known is a word unknown: return ["[UNK]"] alone.',
            (_cutting(_longest, _marked, "rest"),),
        ),
        Mistake(
            "only the unknown letters become [UNK].",
            'if any part of a word cannot be cut, the whole word is ["[UNK]"].',
            (
                _cutting(_longest, _marked, "letter"),
                _cutting(_longest, _marked, "letter", "##[UNK]"),
            ),
        ),
        Mistake(
            "letters that do not fit are left out.",
            'text must not vanish: if a part cannot be cut, the word is ["[UNK]"].',
            (_cutting(_longest, _marked, "skip"), _cutting(_longest, _marked, "stop")),
        ),
        Mistake(
            "an unknown word becomes [] and is lost.",
            'return ["[UNK]"]: the model should know that something stood there.',
            (lambda w, v: [] if right_cut_word(w, v) == ["[UNK]"] else right_cut_word(w, v),),
        ),
        Mistake(
            "the whole rest of the word is never tried.",
            "range(len(word) - 1, …) begins one too early: word[start:end] stops before end, so "
            "begin with len(word).",
            (
                _cutting(_not_whole, _marked),
                _cutting(
                    lambda w, s, v: max(
                        (j for j in range(s + 1, len(w)) if _marked(w[s:j], s) in v), default=s
                    ),
                    _marked,
                ),
            ),
        ),
        Mistake(
            "this finds the fewest pieces.",
            "WordPiece is greedy: it takes the longest first piece, even where a shorter one would "
            "leave a better rest.",
            (_fewest,),
        ),
        Mistake(
            "words are looked up whole, and never cut.",
            "if the word is not in vocab, its beginning may be.",
            (_whole_or_unknown,),
        ),
    ),
)


def cut_word(function: object) -> None:
    """Check ``(word, vocab) -> pieces``, the longest match first, or ``["[UNK]"]``."""
    print(exercise.judge(CUT_WORD, function))


# -- packing a pair


def right_encode_pair(first: list[str], second: list[str]) -> tuple[list[str], list[int]]:
    """Pack [CLS] first [SEP] second [SEP], and number the segments 0 and 1."""
    tokens = ["[CLS]", *first, "[SEP]", *second, "[SEP]"]
    return tokens, [0] * (len(first) + 2) + [1] * (len(second) + 1)


def _pair_cases() -> list[Inputs]:
    words = "the dog ##s bark ##ed at night and we slept .".split()
    dice = random.Random(2)
    lengths = [(1, 1), (1, 2), (2, 1), (3, 2), (2, 5), (6, 6)]
    return [(dice.choices(words, k=a), dice.choices(words, k=b)) for a, b in lengths]


def _read_packed(answer: Any, *_: Any) -> tuple[list[str], list[int]]:
    tokens, segments = exercise.read_pair(answer, "tokens, segment_ids")
    if hasattr(segments, "tolist"):
        segments = segments.tolist()
    if not isinstance(segments, list | tuple) or not all(isinstance(s, int) for s in segments):
        raise UnreadableError("segment_ids should be a list of 0 and 1.")
    return _read_tokens(tokens), [int(s) for s in segments]


def _packed_difference(inputs: Inputs, mine: Any, right: Any) -> str:
    said = (f"{' '.join(t)} with {' '.join(map(str, s))}" for t, s in (mine, right))
    return "Yours gives {}; right is {}.".format(*said)


Segments = Callable[[int, int], list[int]]


def _packing(pack: Callable[[list[str], list[str]], tuple[list[str], list[str]]]) -> Function:
    """Make a packer with other tokens; it gives those of segment 0 and those of segment 1."""

    def wrong(first: list[str], second: list[str]) -> tuple[list[str], list[int]]:
        a, b = pack(first, second)
        return a + b, [0] * len(a) + [1] * len(b)

    return wrong


def _numbering(segments: Segments) -> Function:
    """Make a packer with the right tokens and other segment ids."""

    def wrong(first: list[str], second: list[str]) -> tuple[list[str], list[int]]:
        return right_encode_pair(first, second)[0], segments(len(first), len(second))

    return wrong


ENCODE_PAIR = Exercise(
    name="encode_pair",
    right=right_encode_pair,
    cases=_pair_cases,
    read=_read_packed,
    differ=_packed_difference,
    first_part=0,
    tried="6 pairs, from one token and one to six and six.",
    start='["[CLS]", *first, "[SEP]", …]. Then one number for each token of that list.',
    source=(WordPiece.encode, right_encode_pair),
    mistakes=(
        Mistake(
            "there is no [SEP] at the end.",
            "each segment ends with its own [SEP]: [CLS] A [SEP] B [SEP].",
            (_packing(lambda a, b: (["[CLS]", *a, "[SEP]"], b)),),
        ),
        Mistake(
            "there is no [SEP] between the two.",
            "each segment ends with its own [SEP]: [CLS] A [SEP] B [SEP].",
            (_packing(lambda a, b: (["[CLS]", *a], [*b, "[SEP]"])),),
        ),
        Mistake(
            "[CLS] is missing.",
            "every sequence begins with [CLS]; its vector will stand for the whole.",
            (_packing(lambda a, b: ([*a, "[SEP]"], [*b, "[SEP]"])),),
        ),
        Mistake(
            "the second text has a [CLS] of its own.",
            "one sequence, one [CLS].",
            (_packing(lambda a, b: (["[CLS]", *a, "[SEP]"], ["[CLS]", *b, "[SEP]"])),),
        ),
        Mistake(
            "the two texts have changed places.",
            "first comes first.",
            (lambda a, b: right_encode_pair(b, a),),
        ),
        Mistake(
            "the first [SEP] has segment 1.",
            "it ends the first segment and belongs to it: 0.",
            (_numbering(lambda a, b: [0] * (a + 1) + [1] * (b + 2)),),
        ),
        Mistake(
            "the last [SEP] has segment 0.",
            "it ends the second segment and belongs to it: 1.",
            (_numbering(lambda a, b: [0] * (a + 2) + [1] * b + [0]),),
        ),
        Mistake(
            "there are segment ids for the words, but not for [CLS] and [SEP].",
            "one id for each token: len(segment_ids) == len(tokens).",
            (_numbering(lambda a, b: [0] * a + [1] * b),),
        ),
        Mistake(
            "all tokens have the same segment.",
            "the second text, with its [SEP], is segment 1.",
            (_numbering(lambda a, b: [0] * (a + b + 3)),),
        ),
        Mistake(
            "the segments are 1 and 2.",
            "they are 0 and 1: they number the two rows of a table.",
            (_numbering(lambda a, b: [1] * (a + 2) + [2] * (b + 1)),),
        ),
        Mistake(
            "the segments are 1 and 0.",
            "the first text is 0, the second is 1.",
            (_numbering(lambda a, b: [1] * (a + 2) + [0] * (b + 1)),),
        ),
    ),
)


def encode_pair(function: object) -> None:
    """Check ``(first, second) -> (tokens, segment_ids)`` of two lists of tokens."""
    print(exercise.judge(ENCODE_PAIR, function))


# -- truncation


def right_truncate(a: int, b: int, room: int) -> tuple[int, int]:
    """Return how many tokens of each text stay, when the longer is cut until both fit."""
    while a + b > room:
        if a > b:
            a -= 1
        else:
            b -= 1
    return a, b


def _truncate_cases() -> list[Inputs]:
    # When two long texts share an odd room, who gets the last place is a convention, not a rule.
    every = itertools.product(range(1, 9), range(1, 9), range(2, 11))
    fair = [(a, b, room) for a, b, room in every if room % 2 == 0 or min(a, b) <= room // 2]
    return sorted(fair, key=sum)


def _read_two_numbers(answer: Any, *_: Any) -> list[int]:
    if hasattr(answer, "tolist"):
        answer = answer.tolist()
    numbers = list(exercise.read_pair(answer, "how many of each stay"))
    if not all(isinstance(n, int) and not isinstance(n, bool) for n in numbers):
        raise UnreadableError("return two whole numbers: how many of each stay.")
    return numbers


def _shortest_first(a: int, b: int, room: int) -> tuple[int, int]:
    while a + b > room and a * b:
        if a < b:
            a -= 1
        else:
            b -= 1
    return min(a, room), min(b, room)


def _in_turn(a: int, b: int, room: int) -> tuple[int, int]:
    turn = 0
    while a + b > room:
        if (turn == 0 and a) or not b:
            a -= 1
        else:
            b -= 1
        turn = 1 - turn
    return a, b


def _dropped(a: int, b: int, room: int) -> tuple[int, int]:
    stays = right_truncate(a, b, room)
    return a - stays[0], b - stays[1]


def _one_too_many(a: int, b: int, room: int) -> tuple[int, int]:
    return right_truncate(a, b, room - 1) if a + b >= room else (a, b)


TRUNCATE = Exercise(
    name="truncate",
    right=right_truncate,
    cases=_truncate_cases,
    read=_read_two_numbers,
    tried="every pair of lengths up to 8, in every room up to 10 (but not where two equally long "
    "texts fight for an odd place).",
    start="while a + b > room: and then take one from the longer.",
    source=(longest_first, right_truncate),
    mistakes=(
        Mistake(
            "only the second text is cut.",
            "compare the two lengths each time; the longer gives a token.",
            (
                lambda a, b, room: (a, max(room - a, 0) if a + b > room else b),
                lambda a, b, room: (min(a, room), min(b, max(room - a, 0))),
                lambda a, b, room: (a, room - a if a + b > room else b),
            ),
        ),
        Mistake(
            "only the first text is cut.",
            "compare the two lengths each time; the longer gives a token.",
            (
                lambda a, b, room: (max(room - b, 0) if a + b > room else a, b),
                lambda a, b, room: (min(a, max(room - b, 0)), min(b, room)),
                lambda a, b, room: (room - b if a + b > room else a, b),
            ),
        ),
        Mistake(
            "each text gets half of the room, even if the other needs less.",
            "what a short text leaves free belongs to the longer one.",
            (
                lambda a, b, room: (min(a, room // 2), min(b, room // 2)),
                lambda a, b, room: (min(a, room // 2), min(b, room - room // 2)),
                lambda a, b, room: (min(a, room - room // 2), min(b, room // 2)),
                lambda a, b, room: (
                    (a, b) if a + b <= room else (min(a, room // 2), min(b, room // 2))
                ),
            ),
        ),
        Mistake(
            "the texts are cut in proportion to their lengths.",
            "the shorter keeps everything as long as the longer is longer.",
            (
                lambda a, b, room: (
                    (a, b) if a + b <= room else (a * room // (a + b), room - a * room // (a + b))
                ),
                lambda a, b, room: (
                    (a, b) if a + b <= room else (a * room // (a + b), b * room // (a + b))
                ),
            ),
        ),
        Mistake(
            "the shorter text is cut.",
            "a < b turned around: the *longer* gives a token.",
            (_shortest_first,),
        ),
        Mistake(
            "both texts give tokens in turn.",
            "compare before each cut; only the longer gives one.",
            (
                _in_turn,
                lambda a, b, room: _in_turn(b, a, room)[::-1],
            ),
        ),
        Mistake(
            "these are the numbers of tokens cut off.",
            "return how many stay.",
            (_dropped,),
        ),
        Mistake(
            "one token too many is cut.",
            "as many as room may stay: while a + b > room, not >=.",
            (_one_too_many,),
        ),
        Mistake(
            "each text alone fits, but not both together.",
            "the room is for both: a + b must not be larger.",
            (lambda a, b, room: (min(a, room), min(b, room)),),
        ),
        Mistake(
            "nothing is cut.",
            "the room is for both: a + b must not be larger.",
            (lambda a, b, room: (a, b),),
        ),
    ),
)


def truncate(function: object) -> None:
    """Check ``(a, b, room) -> (kept_a, kept_b)``: lengths after cutting the longer first."""
    print(exercise.judge(TRUNCATE, function))


# -- decoding


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
    return re.sub(r" ([.,!?])", r"\1", " ".join(words))


def _decode_cases() -> list[Inputs]:
    texts = (
        "sing ##er",
        "dogs bark",
        "[CLS] dogs [SEP]",
        "dogs .",
        "a b ##c d",
        "un ##aff ##able",
        "[CLS] sing ##ers sing . [SEP]",
        "well , dogs ! dogs ?",
        "[CLS] the [MASK] bark ##ed [SEP] [UNK] ran [SEP] [PAD] [PAD]",
        "c # is a language",
        "[CLS] no , we did n ##ot ! [SEP] did you ? [SEP] [PAD]",
        "it ' s the sing ##er ##s - a choir : all of them",
    )
    return [(text.split(),) for text in texts]


def _read_text(answer: Any, *_: Any) -> str:
    if not isinstance(answer, str):
        raise UnreadableError("your function returned no str; one text is wanted.")
    return answer


def _tidy(text: str) -> str:
    return re.sub(r" ([.,!?])", r"\1", text)


def _words_only(tokens: Sequence[str], out: Sequence[str] = SPECIAL_TOKENS) -> list[str]:
    return [token for token in tokens if token not in out]


def _glued(tokens: Sequence[str]) -> str:
    return " ".join(tokens).replace(" ##", "")


DECODE = Exercise(
    name="decode",
    right=right_decode,
    cases=_decode_cases,
    read=_read_text,
    tried="12 sequences, with all five special tokens and four kinds of punctuation.",
    start="an empty list of words. A token with ## is glued to the last; another starts a word. "
    '" ".join at the end.',
    source=(WordPiece.decode, right_decode),
    mistakes=(
        Mistake(
            "the ## are still there.",
            "## means: glue me to the piece before. (tokenizers once printed them, too: its issue "
            "145.)",
            (
                lambda t: _tidy(" ".join(_words_only(t))),
                lambda t: " ".join(_words_only(t)),
            ),
        ),
        Mistake(
            "the ## are gone, and so is the news that they brought: a space stands there.",
            "## is not dirt to be wiped off. It says that no space goes here.",
            (
                lambda t: _tidy(" ".join(x.removeprefix("##") for x in _words_only(t))),
                lambda t: _tidy(" ".join(_words_only(t)).replace("##", "")),
                lambda t: " ".join(_words_only(t)).replace("##", ""),
            ),
        ),
        Mistake(
            "all spaces are gone.",
            "only a piece with ## is glued to the one before.",
            (
                lambda t: "".join(_words_only(t)).replace("##", ""),
                lambda t: "".join(x.removeprefix("##") for x in _words_only(t)),
            ),
        ),
        Mistake(
            "special tokens are still there.",
            "all five are left out: [PAD] [UNK] [CLS] [SEP] [MASK].",
            (lambda t: _tidy(_glued(t)),),
        ),
        Mistake(
            "some special tokens are still there.",
            "all five are left out: [PAD] [UNK] [CLS] [SEP] [MASK]. SPECIAL_TOKENS holds them.",
            tuple(
                lambda t, out=out: _tidy(_glued(_words_only(t, out)))
                for k in range(1, len(SPECIAL_TOKENS))
                for out in itertools.combinations(SPECIAL_TOKENS, k)
            ),
        ),
        Mistake(
            "a space stands before punctuation.",
            "take away the space before each of . , ! and ?",
            (lambda t: _glued(_words_only(t)),),
        ),
        Mistake(
            "the space before some marks is still there.",
            "take it away before each of . , ! and ?",
            tuple(
                lambda t, marks=marks: re.sub(f" ([{marks}])", r"\1", _glued(_words_only(t)))
                for k in range(1, 4)
                for marks in map("".join, itertools.combinations(".,!?", k))
            ),
        ),
        Mistake(
            "the text begins or ends with a space.",
            'join words with " ".join, or take the ends off with .strip().',
            (
                lambda t: right_decode(t) + " ",
                lambda t: " " + right_decode(t),
            ),
        ),
        Mistake(
            "a single # is lost.",
            "it is a word of its own. Only ## at the beginning of a token is a mark.",
            (
                lambda t: _tidy(_glued(_words_only(t)).replace("#", "")),
                lambda t: _tidy(
                    " ".join(x.lstrip("#") if not x.startswith("##") else x for x in _words_only(t))
                ).replace(" ##", ""),
                lambda t: _tidy(_glued(_words_only(t)).replace(" #", "")),
            ),
        ),
    ),
)


def decode(function: object) -> None:
    """Check ``(tokens) -> text``: pieces joined, special tokens left out."""
    print(exercise.judge(DECODE, function))


SOLUTIONS = tuple(
    (e.name, e.source) for e in (PAIR_SCORE, MERGE_PIECES, CUT_WORD, ENCODE_PAIR, TRUNCATE, DECODE)
)
