"""The exercise of notebook a2: how much of a Korean answer was found, character by character."""

import random
from collections import Counter
from collections.abc import Iterator

from course.exercises.judge import Exercise, Inputs


def _f1_cases() -> Iterator[Inputs]:
    told = (
        "호수/호수; 호수/강; 호수에서/호수; 큰 호수/큰호수; 호수/큰 호수; 가가/가; 가/가가; /호수; "
        "호수/; /; 서울/서울특별시; 서울특별시에서/서울특별시; 물 과 물/물; 조선 시대/조선시대에"
    )
    yield from (tuple(pair.split("/")) for pair in told.split("; "))
    generator = random.Random(20)
    words = ["호수", "호수에서", "물", "물이", "큰", "소금", "소금물", "의", "강과", "수호"]
    for most in [2] * 30 + [4] * 40:
        yield tuple(" ".join(generator.choices(words, k=generator.randint(1, most))) for _ in "ab")


@Exercise.asking(
    asks="(found, answer) -> float: F1 of the characters of two answers, without spaces",
    cases=_f1_cases,
    tried="84 pairs of answers, empty ones, repeated characters, particles and spaces among them.",
    start="list(''.join(found.split())), and the same of answer; then Counter(…) & Counter(…).",
    mistakes="""
    ✗ words are counted, not characters.
      호수에서 and 호수 share no word, and two of four characters: take a list of characters.
    | list("".join(text.split())) => text.split()
    ✗ the spaces are counted, too.
      KorQuAD leaves them out, since one writes 큰 호수 and 큰호수: "".join(text.split()).
    | list("".join(text.split())) => list(text)
    ✗ a repeated character counts once.
      sets forget how often. Counter(mine) & Counter(right) keeps the smaller count.
    | list("".join(text.split())) => list(set("".join(text.split())))
    ✗ two empty answers get 0.
      where there is no answer, it is right to say nothing: 1 if both are empty.
    | float(mine == right) => 0.0
    """,
)
def right_char_f1(found: str, answer: str) -> float:
    """F1 of the characters that two answers share, spaces left out, as KorQuAD counts it."""
    mine, right = (list("".join(text.split())) for text in (found, answer))
    if not mine or not right:
        return float(mine == right)
    same = sum((Counter(mine) & Counter(right)).values())
    precision, recall = same / len(mine), same / len(right)
    return 2 * precision * recall / (precision + recall) if same else 0.0
