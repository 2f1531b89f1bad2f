"""The exercises of notebook 09: rows, head and loss of multiple choice, and a test for its data."""

import operator
import random
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

from torch import Tensor

from bertedu.finetuning.kinds import MultipleChoice, collate
from bertedu.model.heads import ClassificationHead, MultipleChoiceHead
from course.exercises import judge
from course.exercises.judge import Exercise, Inputs, UnreadableError
from course.exercises.museum import TestExercise
from course.exercises.patch import patched

Pieces = list[str]
_PARTS = ("tokens", "segments", "mask")


def _separated_last(beginning: Pieces, endings: list[Pieces]) -> tuple[list[Any], ...]:
    """Pad before the last [SEP]; segments and mask go with the tokens."""
    tokens, segments, mask = right_choice_rows(beginning, endings)
    for part in (tokens, segments, mask):
        for row, ending in zip(part, endings, strict=True):
            row.append(row.pop(len(beginning) + 2 + len(ending)))
    return tokens, segments, mask


def _rows_cases() -> Iterator[Inputs]:
    rng = random.Random(20)
    words = "the dog ##s bark ##ed at night and we slept .".split()
    yield ["dogs"], [["bark"], ["do", "not"]]
    for choices, most in [(2, 2)] * 15 + [(3, 3)] * 15 + [(4, 4)] * 15 + [(4, 6)] * 15:
        sizes = [rng.randint(1, most) for _ in range(choices)]
        sizes[rng.randrange(choices)] = most + 1  # never all alike: something is padded
        beginning = rng.choices(words, k=rng.randint(1, most))
        yield beginning, [rng.choices(words, k=size) for size in sizes]


def _read_rows(answer: Any, beginning: Pieces, endings: list[Pieces]) -> list[list[list[Any]]]:
    parts = judge.read_parts(answer, ", ".join(_PARTS))
    tables = [part.tolist() if hasattr(part, "tolist") else part for part in parts]
    for name, table in zip(_PARTS, tables, strict=True):
        if not isinstance(table, list | tuple) or {*map(type, table)} - {list, tuple}:
            raise UnreadableError(f"{name} is no list of rows; a list for each ending is wanted.")
        if len(table) != len(endings):
            raise UnreadableError(
                f"{name} has {len(table)} and not {len(endings)} rows; each ending needs a row of "
                "its own, with the beginning in it."
            )
        if [*map(len, table)] != [*map(len, tables[0])]:
            raise UnreadableError(f"{name} should hold one number for each token.")
    try:
        numbers = [[[*map(operator.index, row)] for row in table] for table in tables[1:]]
    except TypeError:
        raise UnreadableError("segments and mask must hold only whole numbers, 0 and 1.") from None
    return [[[*row] for row in tables[0]], *numbers]


def _rows_difference(inputs: Inputs, mine: Any, right: Any) -> str:
    """Show the first row of the first part that differs."""
    for name, yours, ours in zip(_PARTS, mine, right, strict=True):
        for number, (one, other) in enumerate(zip(yours, ours, strict=True)):
            if one != other:
                gives, wanted = (" ".join(map(str, row)) for row in (one, other))
                return f"Row {number} of your {name} is {gives}; it should be {wanted}."
    return ""


@Exercise.asking(
    moved=judge.anything_moved,
    asks="(beginning, endings) -> (tokens, segments, mask), a row for each ending: [CLS] beginning "
    "[SEP] ending [SEP], padded on the right with [PAD]; segment 1 for the ending and its [SEP]; "
    "mask 0 at padding",
    cases=_rows_cases,
    read=_read_rows,
    differ=_rows_difference,
    first_part=0,
    in_place='the next ending gets more. Begin each row with a new list: ["[CLS]", *beginning, …].',
    tried="61 random cases, 2 to 4 endings of different lengths.",
    start="one row: [CLS] beginning [SEP] ending [SEP]. Then a loop over the endings, and last the "
    "padding.",
    beside=(MultipleChoice.encode, collate),
    mistakes="""
    ✗ the first [SEP] is in segment 1.
      it belongs to the beginning, which it ends: 0.
    | [0] * len(first) + [1] * len(second) => [0] * (len(first) - 1) + [1] * (len(second) + 1)
    ✗ the rows are not padded.
      rows of a tensor are equally long: fill up with [PAD] to the longest of them.
    | * padding => * 0
    ✗ the mask is 1 at padding, too: it is attended to.
      1 for what is text, [CLS] and [SEP] included; 0 for [PAD].
    | [1] * len(first + second) + [0] * padding => [1] * longest
    ✗ segment 1 goes on to the end of the row.
      it ends with the ending's [SEP]; padding belongs to no text, and gets 0.
    | [1] * len(second) + [0] * padding => [1] * (len(second) + padding)
    ✗ the last [SEP] comes after the padding.
      [SEP] closes the text: [CLS] beginning [SEP] ending [SEP], and only then [PAD].
    | first + second + ["[PAD]"] * padding => [*first, *second[:-1], *["[PAD]"] * padding, "[SEP]"]
    | = _separated_last
    """,
)
def right_choice_rows(beginning: Pieces, endings: list[Pieces]) -> tuple[list[Any], ...]:
    """Pack [CLS] beginning [SEP] ending [SEP] for each ending, padded to the longest."""
    first = ["[CLS]", *beginning, "[SEP]"]
    seconds = [[*ending, "[SEP]"] for ending in endings]
    longest = len(first) + max(map(len, seconds))
    tokens, segments, mask = [], [], []
    for second in seconds:
        padding = longest - len(first + second)
        tokens.append(first + second + ["[PAD]"] * padding)
        segments.append([0] * len(first) + [1] * len(second) + [0] * padding)
        mask.append([1] * len(first + second) + [0] * padding)
    return tokens, segments, mask


def _head_cases() -> Iterator[Inputs]:
    draw = judge.drawer(21)
    sizes = [(1, 2, 1)] * 10 + [(2, 2, 2)] * 20 + [(2, 3, 4)] * 30 + [(3, 4, 5)] * 30
    for examples, choices, size in sizes + [(5, 4, 8)] * 10:
        yield draw(examples * choices, size), draw(size), draw() + 0.3, choices


@Exercise.asking(
    asks="(c (B*N, H), weight (H,), bias (), choices N) -> (scores, shares), both (B, N)",
    cases=_head_cases,
    tensors="scores, shares",
    first_part=0,
    tried="100 random cases, 1 to 5 examples of 2 to 4 choices.",
    start="c @ weight + bias, one number per row. Then shape (examples, choices), then softmax.",
    beside=(MultipleChoice.scores, MultipleChoiceHead, ClassificationHead),
    mistakes="""
    ✗ the choices of different examples are mixed.
      rows of one example follow one another: .view(-1, choices), not .view(choices, -1).T.
    | .view(-1, choices) => .view(choices, -1).T
    ✗ softmax runs over the examples.
      dim=0 are the examples. The choices of one example share out 1: dim=-1.
    | dim=-1 => dim=0
    ✗ the bias is missing.
      the shares are the same without it, but the score is c · weight + bias.
    | + bias =>
    ✗ the scores are softmaxed already.
      return the bare scores first, then the shares.
    | return scores, => return scores.softmax(-1),
    """,
)
def right_choice_head(
    c: Tensor, weight: Tensor, bias: Tensor, choices: int
) -> tuple[Tensor, Tensor]:
    """Score each row, (B * choices, H) -> (B, choices), and share out 1 over the choices."""
    scores = (c @ weight + bias).view(-1, choices)
    return scores, scores.softmax(dim=-1)


# -- a test for data

Article = tuple[str, str, Sequence[Sequence[int]]]  # split, topic, sentences
Made = tuple[list[int], list[list[int]], int]  # beginning, endings, label
Builder = Callable[[Sequence[Article], int], dict[str, list[Made]]]


def _some(rng: random.Random, pool: Sequence[Any], most: int = 3) -> list[Any]:
    return rng.sample(pool, min(most, len(pool)))


def _build(articles: Sequence[Article], seed: int) -> dict[str, list[Made]]:
    """Make an example of each two neighbors; wrong endings come from other articles."""
    rng = random.Random(seed)
    made: dict[str, list[Made]] = {"train": [], "test": []}
    for index, (split, topic, sentences) in enumerate(articles):
        others = [
            sentence
            for i, (its_split, its_topic, its_sentences) in enumerate(articles)
            if i != index and its_split == split and its_topic == topic
            for sentence in its_sentences
        ]
        for t in range(len(sentences) - 1):
            beginning, ending = sentences[t], sentences[t + 1]
            endings = _some(rng, others)
            label = rng.randint(0, len(endings))
            endings.insert(label, ending)
            made[split].append((list(beginning), [list(one) for one in endings], label))
    return made


_ONE_AN_ARTICLE = "range(len(sentences) - 1) => _some(rng, range(len(sentences) - 1), most=1)"


@TestExercise.asking(
    asks="(builder) -> bool, true if it builds right multiple choice. builder(articles, seed) gets "
    "a list of (split, topic, sentences) and returns a dictionary of lists of (beginning, endings, "
    "label), by split",
    thing="builder",
    start="articles of two splits and two topics, four in each, in which every id occurs once; "
    'then look at each example of builder(articles, seed)["train"] and ["test"].',
    right=(
        ("with one example for each pair of neighbors", _build),
        ("with one example per article", patched(_build, _ONE_AN_ARTICLE, {})),
    ),
    refuses_all="it returns False on every path, or the four endings are compared with the wrong "
    "article. Print some examples of builder(articles, seed) and look at them.",
    refuses_right="it asks for more than the rules. With few examples the right ending may be "
    "first, or longest, by chance: build many, with several seeds.",
    museum="""
    ✗ test sentences as wrong endings in training: draws wrong endings from all articles; a sentence
    learned to be wrong comes again.
      look at all four endings, too: in made["train"] none may be of a test article.
    | and its_split == split =>
    ✗ right ending always first: never shuffles, so label 0 is always right.
      gather the labels of many examples: all of 0 to 3 must occur.
    | rng.randint(0, len(endings)) => 0
    ✗ right ending always longest: takes wrong endings that are shorter than the right one: the
    length tells.
      give your sentences different lengths, and count how often the right one is longest.
    | _some(rng, others) => sorted(others, key=len)[:3]
    ✗ wrong endings of another topic: draws them from articles on something else, so the topic
    tells.
      use two topics in each split: all four endings must be of the beginning's topic.
    | its_topic == topic => its_topic != topic
    ✗ wrong endings of the same article: draws them from the article itself, where another sentence
    may follow as well.
      a wrong ending may hold none of the ids of the beginning's article.
    | _some(rng, others) => _some(rng, [*sentences[:t], *sentences[t + 2 :]])
    ✗ segments swapped: gives the later sentence as the beginning and the earlier one as its ending.
      number the ids in order: the right ending must begin with the id after the beginning's last.
    | sentences[t], sentences[t + 1] => sentences[t + 1], sentences[t]
    """,
)
def right_choice_data_test(builder: Builder) -> bool:
    """Say whether a builder is right, by articles whose ids tell where each comes from.

    Article n has ids from 1000·n on, numbered through, in twelve sentences of one to four ids;
    there are four articles for each split and topic.
    """
    articles: list[Article] = []
    for n in range(16):
        ids = iter(range(1000 * n, 1000 * n + 100))
        sentences = [list(islice(ids, 1 + i * (n + 3) % 4)) for i in range(12)]
        articles.append((("train", "test")[n % 2], ("rivers", "painters")[n // 8], sentences))
    labels, longest = [], 0.0
    for seed in range(20):
        for split, examples in builder(articles, seed).items():
            for beginning, endings, label in examples:
                own, *others = (first // 1000 for first, *_ in (beginning, *endings))
                if any(articles[n][:2] != (split, articles[own][1]) for n in (own, *others)):
                    return False  # of the other split, or on another topic
                if endings[label][0] != beginning[-1] + 1 or others.count(own) != 1:
                    return False  # does not follow, or a wrong one of the same article
                lengths = [len(ending) for ending in endings]
                if lengths[label] == max(lengths):
                    longest += 1 / lengths.count(max(lengths))
                labels.append(label)
    return {*labels} == {0, 1, 2, 3} and longest / len(labels) < 0.4
