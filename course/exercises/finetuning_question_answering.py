"""The exercises of notebook 10: decoding a span, F1 of words, windows, and two tests."""

import math
import random
import re
import string
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from itertools import pairwise

import torch
from torch import Tensor

from bertedu.finetuning.evaluation import metrics
from bertedu.finetuning.evaluation.metrics import normalize_answer
from bertedu.finetuning.examples import Question
from bertedu.finetuning.kinds import truncating
from bertedu.finetuning.question_answering import answer_position, best_span, context_positions
from bertedu.text.fast_tokenizer import load_tokenizer
from course.exercises.judge import Exercise, Inputs, parts, read_whole, read_wholes
from course.exercises.museum import TestExercise

Span = tuple[int, int]


def _span_cases() -> Iterator[Inputs]:
    """With two decimals, so that in no case two spans are the best (a test makes sure)."""
    generator, rng = torch.Generator().manual_seed(21), random.Random(13)
    for fewest, most in [(2, 2)] * 20 + [(3, 4)] * 40 + [(5, 8)] * 60:
        begins, size = rng.randint(2, 4), rng.randint(fewest, most)
        length = begins + size + 1  # the question in front, [SEP] behind
        start, end = torch.randn(2, length, generator=generator).mul(200).round() / 100
        yield start, end, list(range(begins, begins + size)), rng.randint(2, size)


@Exercise.asking(
    asks="(start (S,), end (S,), places, longest) -> (first, last), the pair of places with the "
    "highest start[first] + end[last]; at most longest tokens",
    cases=_span_cases,
    read=parts(
        "first, last",
        partial(read_whole, name="first", wanted="the number of a token"),
        partial(read_whole, name="last", wanted="the number of a token"),
    ),
    tried="120 random cases, texts of 2 to 8 tokens, a question in front and [SEP] at the end.",
    start="two loops over places, with an if for first <= last < first + longest.",
    beside=(best_span,),
    mistakes="""
    ✗ the end can come before the start.
      the best start and the best end, each by itself, need not fit together. Try pairs: first <=
      last.
    | first <= last < first + longest and =>
    ✗ answers of any length are let through.
      longest is not used: last < first + longest.
    | < first + longest =>
    ✗ answers may be one token too long.
      from first to last, both included, there are last - first + 1 tokens: last < first + longest.
    | < first + longest => <= first + longest
    ✗ answers of exactly longest tokens are left out.
      from first to last, both included, there are last - first + 1 tokens: last < first + longest.
    | < first + longest => < first + longest - 1
    ✗ first and last count from the start of the text, not of the input.
      these are numbers in places, not tokens. Token k of the text is places[k].
    | return found => return found[0] - places[0], found[1] - places[0]
    """,
)
def right_best_span(start: Tensor, end: Tensor, places: Sequence[int], longest: int) -> Span:
    """Return the pair first <= last of ``places`` with the highest start + end score."""
    best, found = -math.inf, (places[0], places[0])
    for first in places:
        for last in places:
            score = float(start[first] + end[last])
            if first <= last < first + longest and score > best:
                best, found = score, (first, last)
    return found


def _f1_cases() -> Iterator[Inputs]:
    told = (
        "lake/lake; lake/river; old lake/lake; The lake/lake; Lake/lake; lake./lake; "
        "lake lake/lake; lake/lake lake; /lake; lake/; /; the/a; the/lake; theater/ater; "
        "lake of salt/salt of lake; lake lake salt/lake salt salt; ten-mile lake/ten mile lake"
    )
    yield from (tuple(pair.split("/")) for pair in told.split("; "))
    rng = random.Random(14)
    words = ["lake", "Lake", "salt", "of", "the", "An", "old,", "(ice)", "ice", "North"]
    for most in [2] * 20 + [4] * 40 + [7] * 40:
        yield tuple(" ".join(rng.choices(words, k=rng.randint(1, most))) for _ in range(2))


@Exercise.asking(
    asks="(found, answer) -> float: F1 of the words of two answers, once normalized",
    cases=_f1_cases,
    tried="117 pairs of answers, empty ones, repeated words, articles and punctuation among them.",
    start="normalize_answer(found).split(), and the same of answer; then Counter(…) & Counter(…).",
    beside=(metrics.word_f1,),
    mistakes="""
    ✗ a repeated word counts once.
      sets forget how often. Counter(mine) & Counter(right) keeps the smaller count.
    | normalize_answer(found).split() => set(normalize_answer(found).split()) &&
      normalize_answer(answer).split() => set(normalize_answer(answer).split())
    ✗ a repeated word counts as shared each time, though the other answer has it once.
      `word in right` does not use the word up. Counter(mine) & Counter(right) does.
    | sum((Counter(mine) & Counter(right)).values()) => sum(word in right for word in mine)
    ✗ two empty answers get 0.
      where there is no answer, it is right to say nothing: 1 if both are empty.
    | float(mine == right) => 0.0
    """,
)
def right_word_f1(found: str, answer: str) -> float:
    """F1 of the words that two answers share, repeated words as often as both have them."""
    mine, right = normalize_answer(found).split(), normalize_answer(answer).split()
    if not mine or not right:
        return float(mine == right)
    same = sum((Counter(mine) & Counter(right)).values())
    precision, recall = same / len(mine), same / len(right)
    return 2 * precision * recall / (precision + recall) if same else 0.0


def _window_cases() -> Iterator[Inputs]:
    for room, stride in ((4, 1), (5, 2), (8, 3), (10, 4), (12, 2), (20, 9)):  # below half the room
        for length in (1, room - 1, room, room + 1, 2 * room - stride, 2 * room, 5 * room + 1):
            yield length, room, stride


@Exercise.asking(
    asks="(length, room, stride) -> starts of windows that share stride tokens",
    cases=_window_cases,
    read=partial(read_wholes, things="starts", thing="the number of a token"),
    tried="42 texts, shorter than a window, as long, one token longer, and five windows long.",
    start="starts = [0], and a while: does the last window reach the end of the text?",
    beside=(truncating,),
    mistakes="""
    ✗ stride is taken for the step.
      here stride is what two windows *share*; the step is room - stride. (The paper's code calls
      the step doc_stride: read the manual.)
    | room - stride => stride
    ✗ the windows share nothing.
      an answer across an edge would be cut in two in both. The step is room - stride.
    | room - stride => room
    ✗ windows start where the rest of the text has already been read.
      stop as soon as a window reaches the end: start + room >= length.
    | return starts => return list(range(0, length, room - stride))
    """,
)
def right_windows(length: int, room: int, stride: int) -> list[int]:
    """Return where windows start: each shares ``stride`` tokens with the one before it."""
    starts = [0]
    while starts[-1] + room < length:
        starts.append(starts[-1] + room - stride)
    return starts


# -- a test for those who place answers

Window = tuple[list[Span], Span | None]
Marker = Callable[[str, str, int, int, int], list[Window]]
_WORDS = re.compile(r"\w+|[^\w\s]")


def _mark_words(context: str, answer: str, start: int, room: int, stride: int) -> list[Window]:
    """Mark whole words, in each window that holds the whole answer."""
    spans = [match.span() for match in _WORDS.finditer(context)]
    end, found = start + len(answer), list[Window]()
    for at in right_windows(len(spans), room, stride):
        offsets, place = spans[at : at + room], None
        inside = [i for i, (a, b) in enumerate(offsets) if a < end and b > start]
        if inside and offsets[0][0] <= start and offsets[-1][1] >= end:
            place = inside[0], inside[-1]
        found.append((offsets, place))
    return found


_tokenizer = cache(load_tokenizer)


def _mark_pieces(context: str, answer: str, start: int, room: int, stride: int) -> list[Window]:
    """Mark word pieces, as `QuestionAnswering.encode` does; "?" stands for the question."""
    with truncating(_tokenizer(), room + 4, stride, "only_second"):
        row = _tokenizer().encode("?", context)
    found: list[Window] = []
    for window in (row, *row.overflowing):
        places = context_positions(window)
        first, last = answer_position(window, start, start + len(answer))
        place = (first - places[0], last - places[0]) if first else None
        found.append(([window.offsets[p] for p in places], place))
    return found


@TestExercise.asking(
    asks="a test, (mark) -> bool, true if it marks answers correctly. mark(context, answer, "
    "start, room, stride) returns (offsets, place) for each window",
    thing="marker",
    start="a text with an accent and an emoji, in which a name occurs twice; then look at each "
    "(offsets, place) of mark(context, answer, start, 8, 3).",
    right=(
        ("by hand, with whole words as tokens", _mark_words),
        ("with the package, whose tokens are word pieces", _mark_pieces),
    ),
    refuses_all="it returns False on every path.",
    refuses_right="it takes tokens for words. A token may be a part of a word, or a comma: look at "
    "the text from the first token's begin to the last one's end.",
    demands="""
    ✗ it takes last for the token after the answer.
      last is the answer's own last token.
    | inside[-1] => inside[-1] + 1
    ✗ it wants the answer in every window.
      A window that does not hold it says None.
    | found.append => if place: found.append
    ✗ it wants the answer in one window only.
      Windows overlap: each that holds the whole answer marks it.
    | if inside and => if inside and not any(marked for _, marked in found) and
    """,
    museum="""
    ✗ bytes: counts offsets in bytes, not in characters.
      write é or an emoji before the answer, and cut the text by the offsets.
    | ((offsets, place)) => (([(len(context[:a].encode()), len(context[:b].encode()))
      for a, b in offsets], place))
    ✗ first place: marks the first place where the answer's words occur, not the one wanted.
      take a text with the answer's words in it twice, and ask for the second.
    | end, found => start = context.index(answer); end, found
    ✗ one too far: returns the token after the answer as its last.
      compare context[offsets[first][0] : offsets[last][1]] with the answer.
    | inside[-1] => inside[-1] + 1
    ✗ cut answer: marks what is left of an answer that the edge of a window cuts.
      let a window end in the middle of the answer: it must say None.
    | and offsets[0][0] <= start and offsets[-1][1] >= end =>
    ✗ last token: says None if the answer ends with the last token of a window.
      put the answer at the end of the text: a window that holds all of it must mark it.
    | >= end => > end
    ✗ no sharing: cuts the text into windows that share nothing, and loses answers across their
    edges.
      compare neighbors: the first `stride` offsets of a window are the last of the one before.
    | right_windows(len(spans), room, stride) => range(0, len(spans), room)
    """,
)
def right_mark_test(mark: Marker) -> bool:
    """Say whether a marker is right, by asking for every word and every two words of a text."""
    context = "Zoë 🐶 met Al. Then Al, at a café, met Zoë again, and Al left"
    room, stride = 8, 3  # an answer of up to 4 tokens is whole in some window
    words = list(_WORDS.finditer(context))
    for size in (1, 2):
        for first, last in zip(words, words[size - 1 :], strict=False):
            start, end = first.start(), last.end()
            found = mark(context, context[start:end], start, room, stride)
            if not any(place for _, place in found):
                return False
            for offsets, place in found:
                cut = offsets[place[0] : place[1] + 1] if place else []
                told = (cut[0][0], cut[-1][1]) if cut else None
                holds = offsets[0][0] <= start and offsets[-1][1] >= end
                if told != ((start, end) if holds else None):
                    return False
            for (before, _), (after, _) in pairwise(found):
                if before[-stride:] != after[:stride]:
                    return False
    return True


# -- a test for those who score answers

Scorer = Callable[[str, Sequence[str]], tuple[float, float]]


def _score(found: str, answers: Sequence[str]) -> tuple[float, float]:
    """Exact match and F1, each the best over the right answers; if none, "" is right, or "the"."""

    def words(text: str) -> list[str]:
        text = text.lower()
        text = "".join(c for c in text if c not in string.punctuation)
        return re.sub(r"\b(a|an|the)\b", " ", text).split()

    if not answers:
        nothing = float(not words(found))  # "the" and "." are nothing, too
        return nothing, nothing
    exact, f1 = [], []
    for answer in answers:
        mine, right = words(found), words(answer)
        exact.append(float(mine == right))
        same = sum((Counter(mine) & Counter(right)).values())
        f1.append(2 * same / (len(mine) + len(right)) if same else float(mine == right))
    return max(exact), max(f1)


def _by_squad(found: str, answers: Sequence[str]) -> tuple[float, float]:
    question = Question("q", "?", "", tuple((text, 0) for text in answers))
    scores = metrics.squad_scores([question], {"q": found})
    return scores["exact"] / 100, scores["f1"] / 100


@TestExercise.asking(
    asks="a test, (score) -> bool, true if it scores as SQuAD's authors do. score(found, answers) "
    "returns (exact match, F1); answers is empty if there is none",
    thing="scorer",
    start='cases whose scores you know: score("the Lake.", ["lake"]) is (1, 1).',
    right=(("by hand", _score), ("with squad_scores", _by_squad)),
    refuses_all="it returns False on every path, or expects percent: score returns shares, exact "
    "match first.",
    refuses_right="one of the numbers that it expects is wrong, or it compares fractions with ==. "
    "Use abs(a - b) < 1e-6.",
    museum=r"""
    ✗ sets: takes F1 over sets, so that a repeated word counts once.
      repeat a word: “New York New York” against “New York” is 2/3, not 1.
    | same = sum => mine, right = set(mine), set(right); same = sum
    ✗ first answer only: compares with the first right answer only.
      give two right answers, and find the second.
    | in answers: => in answers[:1]:
    ✗ articles: counts “the” and “a” as words.
      compare “the lake” with “lake”.
    | re.sub(r"\b(a|an|the)\b", " ", text) => text
    ✗ silence: gives 0 for saying nothing where there is no answer.
      score “” against no answers at all: 1 and 1.
    | return nothing, nothing => return 0.0, 0.0
    ✗ skipped: gives 1 for whatever is said where there is no answer.
      score “lake” against no answers at all: 0 and 0.
    | return nothing, nothing => return 1.0, 1.0
    ✗ recall: takes recall for F1, so that the whole text is a perfect answer.
      find twice as many words as are right: F1 is 2/3.
    | 2 * same / (len(mine) + len(right)) => same / len(right)
    """,
)
def right_score_test(score: Scorer) -> bool:
    """Say whether a scorer is right, by cases whose scores are known."""
    cases = [
        ("lake", ["river", "lake"], 1, 1),
        ("the Lake.", ["lake"], 1, 1),
        ("river", ["lake"], 0, 0),
        ("New York New York", ["New York"], 0, 2 / 3),
        ("salt lake", ["lake"], 0, 2 / 3),
        ("", [], 1, 1),
        ("lake", [], 0, 0),
        ("", ["lake"], 0, 0),
    ]
    for found, answers, exact, f1 in cases:
        mine = score(found, answers)
        if abs(mine[0] - exact) > 1e-6 or abs(mine[1] - f1) > 1e-6:
            return False
    return True
