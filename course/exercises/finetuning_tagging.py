"""The exercises of notebook 11: targets of pieces, the head, entities, their F1, and a test."""

import random
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any

from bertedu.finetuning import tagging
from bertedu.finetuning.evaluation.metrics import tagging_scores
from bertedu.finetuning.kinds import NO_TARGET
from bertedu.finetuning.tagging import Tagging, first_pieces
from course.exercises import judge
from course.exercises.judge import Exercise, Inputs, UnreadableError
from course.exercises.museum import TestExercise
from course.exercises.patch import patched

Tags = Sequence[str]
WordIds = Sequence[int | None]
Span = tuple[str, int, int]  # type, first word, word after the last
TYPES = ("PLACE", "PERSON", "LIFE")
ALL_TAGS = ("O", *(f"{part}-{kind}" for kind in TYPES for part in "BI"))


def _align_cases() -> list[Inputs]:
    rng = random.Random(21)
    cases: list[Inputs] = []
    for words in [1] * 20 + [2] * 30 + [3] * 30 + [6] * 40:
        sizes = [rng.choice((1, 1, 2, 3)) for _ in range(words)]
        if words > 2 and rng.random() < 0.3:
            sizes[rng.randrange(words - 1)] = 0  # a word that has no piece at all
        pieces = [word for word, size in enumerate(sizes) for _ in range(size)]
        padding = [None] * rng.choice((0, 0, 1, 2))
        tags = [rng.randrange(1, 7) if rng.random() < 0.7 else 0 for _ in range(words)]
        cases.append(([None, *pieces, None, *padding], tags))
    return sorted(cases, key=lambda case: len(case[0]))


def _read_targets(answer: Any, word_ids: WordIds, *_: Any) -> list[int]:
    found = judge.read_wholes(answer, things="targets")
    if len(found) != len(word_ids):
        raise UnreadableError(
            f"your list has length {len(found)}; {len(word_ids)} targets are wanted here, one for "
            "each piece, [CLS] and [SEP] included."
        )
    return found


@Exercise.asking(
    asks="(word_ids, tags) -> targets. word_ids has a word number for each piece, None for [CLS], "
    "[SEP] and [PAD]; tags a number for each word. The first piece of a word gets its tag, all "
    "else -100",
    cases=_align_cases,
    read=_read_targets,
    tried="120 random cases, from one word to 6; words of no piece to three; padding.",
    start="targets = [], and a loop over word_ids. When is a piece the first of its word?",
    beside=(first_pieces, Tagging.encode),
    mistakes="""
    ✗ every piece of a word carries its tag.
      then a long word counts once for each piece. Only the first has a target: where the number
      differs from the one before.
    | or word == before =>
    ✗ later pieces get 0, which is the tag O.
      that teaches the model that the end of every name is no name. Write -100: no target.
    | NO_TARGET => 0
    | word is None or word == before => word is None else 0 if word == before
    ✗ the tags are handed out in turn, so a word without a piece moves all that follow.
      some words leave no piece (an invisible character, say). Ask word_ids which word it is:
      tags[word].
    | tags[word] => tags[sum(target != NO_TARGET for target in targets)]
    ✗ the first word gets no target.
      0 counts as False. Write `word is not None`, not `if word`.
    | word is None => not word
    """,
)
def right_align(word_ids: WordIds, tags: Sequence[int]) -> list[int]:
    """Return a target for each piece: its word's tag at the first piece, -100 elsewhere."""
    targets, before = [], None
    for word in word_ids:
        targets.append(NO_TARGET if word is None or word == before else tags[word])
        before = word
    return targets


def _entity_cases() -> list[Inputs]:
    rng = random.Random(23)
    sizes = [2] * 20 + [3] * 40 + [4] * 60 + [8] * 60
    return [(rng.choices(ALL_TAGS, weights=[3, 2, 3, 2, 3, 1, 1], k=size),) for size in sizes]


def _read_spans(answer: Any, *_: Any) -> list[Any]:
    if not isinstance(answer, list | tuple | set | frozenset):
        raise UnreadableError(
            f"your function returned {judge.kind_of(answer)}; a list or a set of (type, start, "
            "end) is wanted."
        )
    for item in answer:
        if not isinstance(item, tuple | list) or len(item) != 3 or not isinstance(item[0], str):
            said = judge.plain(item) if isinstance(item, tuple | list) else judge.kind_of(item)
            raise UnreadableError(
                f"one of your entities is {said}; (type, start, end) is wanted, as in "
                "('PLACE', 3, 5)."
            )
    return sorted((kind, *judge.read_wholes(ends, things="places")) for kind, *ends in answer)


@Exercise.asking(
    asks="(tags) -> [(type, start, end), …]; an I- that continues nothing is no entity",
    cases=_entity_cases,
    read=_read_spans,
    tried="180 random sentences of 2 to 8 tags, in any order that a model may answer.",
    start="start = None, and a loop over the tags. What ends an open entity, what begins one?",
    beside=(tagging.entities,),
    mistakes="""
    ✗ an I- that continues nothing begins an entity.
      that is the older, lenient way to count. Here only a B- begins an entity.
    | tag.startswith("B-") => start is None and tag != "O"
    ✗ an I- of another type continues an entity.
      B-PLACE I-PERSON is a place of one word. Compare the types, tag[2:].
    | tag != f"I-{tags[start][2:]}" => not tag.startswith("I-")
    ✗ two entities side by side become one.
      that is what B- is for: it ends what is open, and begins anew.
    | tag != f"I-{tags[start][2:]}" => tag[2:] != tags[start][2:] && if tag. => if
      start is None and tag.
    ✗ an entity at the end of the sentence is lost.
      the loop ends before anything closes it. Append an O, or look once more after it.
    | [*tags, "O"] => tags
    """,
)
def right_entities(tags: Tags) -> list[Span]:
    """Return (type, first word, word after the last); B- begins, I- of its type goes on."""
    found: list[Span] = []
    start = None  # of the open entity
    for i, tag in enumerate([*tags, "O"]):
        if start is not None and tag != f"I-{tags[start][2:]}":
            found.append((tags[start][2:], start, i))
            start = None
        if tag.startswith("B-"):
            start = i
    return found


Sentences = Sequence[Tags]


def _f1_cases() -> Iterator[Inputs]:
    """Truth as a person would tag, without an I- that lacks its B-; answers as a model may."""
    rng = random.Random(24)
    pieces = [[f"B-{kind}", f"I-{kind}"][:size] for kind in TYPES for size in (1, 2)]
    yield [["O", "O"]], [["O", "O"]]
    for sentences, size in [(1, 2)] * 20 + [(2, 3)] * 40 + [(2, 5)] * 40 + [(4, 7)] * 40:
        chosen = [rng.choices([["O"]] * 6 + pieces, k=size) for _ in range(sentences)]
        truth = [[*chain(*some)][:size] for some in chosen]
        found = [
            [tag if rng.random() < 0.7 else rng.choice(ALL_TAGS) for tag in tags] for tags in truth
        ]
        yield truth, found


def _averaged(truth: Sentences, found: Sentences) -> float:
    scores = [right_entity_f1([one], [other]) for one, other in zip(truth, found, strict=True)]
    return sum(scores) / len(scores)


@Exercise.asking(
    asks="(truth, found) -> float, both lists of sentences, a sentence a list of tags: F1 over all "
    "sentences together, 0 if there is no entity at all",
    cases=_f1_cases,
    tried="141 random cases, from one sentence to 4; wrong types, wrong ends, nothing at all.",
    start="three counts, right, found and there, and a loop over the sentences that adds to them.",
    beside=(Tagging.outcomes, Tagging.metrics),
    mistakes="""
    ✗ this is the accuracy of tags.
      nine tags in ten are O, and right without any work. Count entities: set(entities(…)) of both,
      and what they share.
    | right_entities(some) => enumerate(some)
    ✗ this is a mean of the F1 of each sentence.
      a sentence of one entity would count as much as one of five. Add up the three counts first,
      divide once.
    | = _averaged
    ✗ entities of different sentences are taken for one another.
      ('PLACE', 0, 1) of two sentences are two. Count sentence by sentence, or put the number of the
      sentence into the tuple.
    | zip(truth, found, strict=True) => [(sum(truth, []), sum(found, []))]
    """,
)
def right_entity_f1(truth: Sentences, found: Sentences) -> float:
    """Return 2 right / (found + there) over all sentences together; 0 if there are none."""
    right = said = there = 0
    for true_tags, tags in zip(truth, found, strict=True):
        a, b = (set(right_entities(some)) for some in (true_tags, tags))
        right, said, there = right + len(a & b), said + len(b), there + len(a)
    return 2 * right / (said + there) if said + there else 0.0


_untyped = patched(
    right_entity_f1, "set(right_entities(some)) => {span[1:] for span in right_entities(some)}", {}
)


def _strict(truth: Sentences, found: Sentences) -> float:
    return tagging_scores(truth, found)["f1"]


# -- a test for scorers

Answered = tuple[WordIds, Tags, Tags]  # word of each piece, tag of each word, answer of each piece
Scorer = Callable[[Sequence[Answered]], float]


def _score(sentences: Sequence[Answered]) -> float:
    """Count entities in what the first pieces of words answer; a word of no piece answers O."""
    truth, found = [], []
    for word_ids, tags, answers in sentences:
        said = dict(zip(reversed(word_ids), reversed(answers), strict=True))  # the first stays
        truth.append(list(tags))
        found.append([said.get(word, "O") for word in range(len(tags))])
    return float(right_entity_f1(truth, found))


@TestExercise.asking(
    asks="(scorer) -> bool, true if it counts entity F1 correctly. scorer(sentences) gets "
    "(word_ids, truth, found) for each sentence: the word number of each piece, the tag of each "
    "word, and the answer of each piece",
    thing="scorer",
    start="two sentences, each (word_ids, truth, found), and their F1 counted by hand.",
    right=(
        ("with loops", _score),
        ("with seqeval", patched(_score, "right_entity_f1 => _strict", {})),
    ),
    refuses_all="it returns False on every path, or your count by hand is off. Print it beside "
    "what the scorer gives; found has a tag for each *piece*.",
    refuses_right="it asks for more than entity F1 at first pieces, in all sentences together; or "
    "it compares floats with ==.",
    museum="""
    ✗ all pieces scored: counts every piece as a word, so a long name must be right several times.
      let a second piece give another answer than the first: the score must not move.
    | list(tags) => [tags[w] if w not in word_ids[:i] else tags[w].replace("B-", "I-")
      for i, w in enumerate(word_ids) if w is not None] && said.get(word, "O") for word in
      range(len(tags)) => a for a, w in zip(answers, word_ids) if w is not None
    ✗ padding scored: reads answers at [CLS], [SEP] and padding, where there is no word.
      answer B-PLACE at a place whose word number is None: the score must not move.
    | range(len(tags))] => range(len(tags))] + [a for a, w in zip(answers, word_ids) if w is None]
    ✗ token accuracy called F1: counts tags that agree, and nine in ten are O.
      answer O everywhere in a sentence with one entity: the score must be 0.
    | right_entity_f1(truth, found) => tagging_scores(truth, found)["accuracy"]
    ✗ I- after O: takes an I- that continues nothing for an entity.
      answer O I-PLACE: nothing was found, so it must cost no precision.
    | right_entity_f1(truth, found) => right_entity_f1(truth, [*map(tagging.iob2, found)])
    ✗ types ignored: counts a place taken for a person as right.
      answer B-PERSON for a B-PLACE: none of that is right.
    | right_entity_f1 => _untyped
    ✗ F1 averaged over sentences: gives a sentence of one entity the weight of one of five.
      score two sentences with different numbers of entities, one right and one wrong.
    | right_entity_f1 => _averaged
    """,
)
def right_tagging_test(scorer: Scorer) -> bool:
    """Say whether a scorer is right, by two sentences counted by hand.

    First sentence: one entity, found. Its second piece, and the padding, answer nonsense. Second:
    three entities; one has the wrong type, one is missed (an I- stands beside it), one is right.
    """
    first = (
        [None, 0, 1, 1, 2, None, None],
        ["B-PERSON", "I-PERSON", "O"],
        ["O", "B-PERSON", "I-PERSON", "O", "O", "O", "B-LIFE"],
    )
    second = (
        [None, 0, 1, 2, 3, 4, None],
        ["B-PLACE", "O", "O", "B-LIFE", "B-PLACE"],
        ["O", "B-PERSON", "O", "I-LIFE", "O", "B-PLACE", "O"],
    )
    right, found, there = 2, 3, 4
    return abs(scorer([first, second]) - 2 * right / (found + there)) < 1e-6
