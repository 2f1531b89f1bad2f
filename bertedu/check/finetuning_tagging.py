"""The checks of notebook 11: targets of pieces, the head, entities, their F1, and a test."""

import operator
import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from seqeval.metrics import f1_score
from seqeval.scheme import IOB2
from torch import Tensor

from bertedu.check import exercise
from bertedu.check.exercise import Exercise, Inputs, Mistake, UnreadableError
from bertedu.check.museum import Exhibit, TestExercise, judge_test
from bertedu.finetuning import tagging
from bertedu.finetuning.inputs import NO_TARGET
from bertedu.finetuning.tagging import Tagging, first_pieces
from bertedu.model.heads import ClassificationHead, TaggingHead

Tags = Sequence[str]
WordIds = Sequence[int | None]
Span = tuple[str, int, int]  # type, first word, word after the last
TYPES = ("PLACE", "PERSON", "LIFE")
ALL_TAGS = ("O", *(f"{part}-{kind}" for kind in TYPES for part in "BI"))


# -- tags of words -> targets of pieces


def right_align(word_ids: WordIds, tags: Sequence[int]) -> list[int]:
    """Return a target for each piece: its word's tag at the first piece, -100 elsewhere."""
    targets, before = [], None
    for word in word_ids:
        asked = word is not None and word != before
        targets.append(tags[word] if asked else NO_TARGET)  # type: ignore[index]
        before = word
    return targets


def _align_cases() -> list[Inputs]:
    dice = random.Random(21)
    cases: list[Inputs] = []
    for count, words in ((20, 1), (30, 2), (30, 3), (40, 6)):
        for _ in range(count):
            sizes = [dice.choice((1, 1, 2, 3)) for _ in range(words)]
            if words > 2 and dice.random() < 0.3:
                sizes[dice.randrange(words - 1)] = 0  # a word that has no piece at all
            pieces = [word for word, size in enumerate(sizes) for _ in range(size)]
            padding = [None] * dice.choice((0, 0, 1, 2))
            tags = [dice.randrange(1, 7) if dice.random() < 0.7 else 0 for _ in range(words)]
            cases.append(([None, *pieces, None, *padding], tags))
    return sorted(cases, key=lambda case: len(case[0]))


def _read_targets(answer: Any, word_ids: WordIds, *_: Any) -> list[int]:
    found = answer.tolist() if hasattr(answer, "tolist") else answer
    if not isinstance(found, list | tuple):
        raise UnreadableError(f"your function returned {_kind(answer)}; a list is wanted.")
    if len(found) != len(word_ids):
        raise UnreadableError(
            f"your list has length {len(found)}; {len(word_ids)} targets are wanted here, one for "
            "each piece, [CLS] and [SEP] included."
        )
    return [_whole(item, "a target") for item in found]


def _whole(number: Any, name: str) -> int:
    try:
        return operator.index(number.item() if hasattr(number, "item") else number)
    except TypeError:
        raise UnreadableError(f"{name} is {_kind(number)}; a whole number is wanted.") from None


def _kind(value: object) -> str:
    name = type(value).__name__
    return "None" if value is None else f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def _firsts(word_ids: WordIds) -> list[bool]:
    return [w is not None and w != b for w, b in zip(word_ids, [None, *word_ids], strict=False)]


def _lasts(word_ids: WordIds) -> list[bool]:
    return _firsts(word_ids[::-1])[::-1]


def _aligning(
    asked: Callable[[WordIds], list[bool]] = _firsts,
    later: int = NO_TARGET,
    special: int = NO_TARGET,
    value: Callable[[int, Sequence[int]], int] = lambda word, tags: tags[word],
) -> Callable[..., list[int]]:
    """Make a wrong function: which pieces carry a tag, and what stands at the others."""

    def wrong(word_ids: WordIds, tags: Sequence[int]) -> list[int]:
        return [
            special if word is None else value(word, tags) if first else later
            for word, first in zip(word_ids, asked(word_ids), strict=True)
        ]

    return wrong


def _every(word_ids: WordIds) -> list[bool]:
    return [word is not None for word in word_ids]


def _counted(word_ids: WordIds, tags: Sequence[int]) -> list[int]:
    rest = iter(tags)
    return [next(rest) if first else NO_TARGET for first in _firsts(word_ids)]


def _singles(word_ids: WordIds) -> list[bool]:
    return [f and last for f, last in zip(_firsts(word_ids), _lasts(word_ids), strict=True)]


ALIGN = Exercise(
    name="align",
    right=right_align,
    cases=_align_cases,
    read=_read_targets,
    tried="120 random cases, from one word to 6; words of no piece to three; padding.",
    start="targets = [], and a loop over word_ids. When is a piece the first of its word?",
    source=(first_pieces, Tagging.encode, right_align),
    mistakes=(
        Mistake(
            "every piece of a word carries its tag.",
            "then a long word counts as often as it has pieces. Only the first is asked: where the "
            "number differs from the one before.",
            (_aligning(_every), _aligning(_every, special=0)),
        ),
        Mistake(
            "the last piece carries the tag.",
            "a dict {word: place} keeps the last place; setdefault keeps the first.",
            (_aligning(_lasts),),
        ),
        Mistake(
            "later pieces get 0, which is the tag O.",
            "that teaches the model that the end of every name is no name. Write -100: not asked.",
            (_aligning(later=0), _aligning(later=0, special=0)),
        ),
        Mistake(
            "[CLS], [SEP] and padding get 0, which is the tag O.",
            "they are no words. Write -100 where the word number is None.",
            (_aligning(special=0),),
        ),
        Mistake(
            "what is not asked is marked with another number than -100.",
            "F.cross_entropy leaves out -100 by default, and nothing else.",
            tuple(_aligning(later=n, special=n) for n in (-1, 100, -99)),
        ),
        Mistake(
            "this is the number of the word, not its tag.",
            "tags[word] is wanted, where word comes from word_ids.",
            (_aligning(value=lambda word, tags: word),),
        ),
        Mistake(
            "the tags are one word off.",
            "word numbers begin at 0, as lists do: tags[word], with nothing added.",
            (
                _aligning(value=lambda word, tags: tags[word - 1]),
                _aligning(value=lambda word, tags: tags[(word + 1) % len(tags)]),
            ),
        ),
        Mistake(
            "the tags are handed out in turn, so a word without a piece moves all that follow.",
            "some words leave no piece (an invisible character, say). Ask word_ids which word it "
            "is: tags[word].",
            (_counted,),
        ),
        Mistake(
            "words of several pieces are not asked at all.",
            "those are most of the names. Ask their first piece.",
            (_aligning(_singles),),
        ),
        Mistake(
            "the first word is not asked.",
            "0 counts as False. Write `word is not None`, not `if word`.",
            (
                lambda word_ids, tags: [
                    tags[word] if word and word != before else NO_TARGET
                    for word, before in zip(word_ids, [None, *word_ids], strict=False)
                ],
            ),
        ),
    ),
)


def align(function: object) -> None:
    """Check ``(word_ids, tags) -> targets``.

    ``word_ids`` has a word number for each piece, None for `[CLS]`, `[SEP]` and `[PAD]`; ``tags``
    a number for each word. The first piece of a word gets its tag, all else -100.
    """
    print(exercise.judge(ALIGN, function))


# -- the head


def right_tag_shares(hidden: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """(S, H), (K, H), (K,) -> (S, K): a softmax over the tags at each token."""
    return (hidden @ weight.T + bias).softmax(-1)


def _share_cases() -> list[Inputs]:
    generator = torch.Generator().manual_seed(22)
    cases: list[Inputs] = []
    for count, tokens, size, tags in ((20, 2, 3, 4), (30, 3, 2, 4), (30, 4, 3, 2), (20, 6, 5, 7)):
        for _ in range(count):
            shapes = ((tokens, size), (tags, size), (tags,))
            cases.append(
                tuple(torch.randn(*s, generator=generator).mul(10).round() / 10 for s in shapes)
            )
    return cases


def _read_shares(answer: Any, hidden: Tensor, weight: Tensor, *_: Any) -> list[Any]:
    shape = (len(hidden), len(weight))
    return exercise.read_tensor(answer, "your answer", shape).float().tolist()


def _scored(hidden: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return hidden @ weight.T + bias


TAG_SHARES = Exercise(
    name="tag_shares",
    right=right_tag_shares,
    cases=_share_cases,
    read=_read_shares,
    tried="100 random cases, from 2 tokens to 6 and from 2 tags to 7.",
    start="scores = hidden @ weight.T + bias, which is (S, K); then softmax along one axis.",
    source=(TaggingHead, ClassificationHead, right_tag_shares),
    mistakes=(
        Mistake(
            "softmax runs over the tokens.",
            "dim=0 are the words of the sentence. Each token shares out one unit over its K tags: "
            "dim=-1.",
            (lambda h, w, b: _scored(h, w, b).softmax(0),),
        ),
        Mistake(
            "softmax is missing.",
            "these are scores; they may be negative. Take .softmax(-1).",
            (_scored, lambda h, w, b: h @ w.T),
        ),
        Mistake(
            "the bias is left out.",
            "hidden @ weight.T + bias. It says, for one, how frequent O is.",
            (lambda h, w, b: (h @ w.T).softmax(-1),),
        ),
        Mistake(
            "each tag has a sigmoid of its own.",
            "so a word could be a place and a person at once. A word has one tag: softmax.",
            (lambda h, w, b: _scored(h, w, b).sigmoid(),),
        ),
        Mistake(
            "every token gets what the first one says.",
            "[CLS] speaks for a whole text. A tag belongs to one token: use all rows of hidden.",
            (lambda h, w, b: right_tag_shares(h[:1], w, b).expand(len(h), -1),),
        ),
        Mistake(
            "every token gets what their mean says.",
            "a tag belongs to one token: no mean over the rows of hidden.",
            (lambda h, w, b: right_tag_shares(h.mean(0, keepdim=True), w, b).expand(len(h), -1),),
        ),
        Mistake(
            "these are log probabilities.",
            "log_softmax is what the loss wants. Here .softmax(-1).",
            (lambda h, w, b: _scored(h, w, b).log_softmax(-1),),
        ),
        Mistake(
            "softmax is applied twice.",
            "the second one makes all tags nearly alike.",
            (lambda h, w, b: right_tag_shares(h, w, b).softmax(-1),),
        ),
        Mistake(
            "the exponential is divided by nothing, or by the sum over all tokens.",
            "each row must sum to 1: divide by its own sum, sum(-1, keepdim=True).",
            (
                lambda h, w, b: _scored(h, w, b).exp(),
                lambda h, w, b: _scored(h, w, b).flatten().softmax(0).view(len(h), -1),
            ),
        ),
        Mistake(
            "these are the best tags, not shares.",
            "argmax comes later, when a tag must be given. The loss needs all shares.",
            (
                lambda h, w, b: torch.nn.functional.one_hot(
                    _scored(h, w, b).argmax(-1), len(w)
                ).float(),
            ),
        ),
    ),
)


def tag_shares(function: object) -> None:
    """Check ``(hidden (S, H), weight (K, H), bias (K,)) -> (S, K)``, a softmax at each token."""
    print(exercise.judge(TAG_SHARES, function))


# -- tags -> entities


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


def _random_tags(dice: random.Random, size: int) -> list[str]:
    return dice.choices(ALL_TAGS, weights=[3, 2, 3, 2, 3, 1, 1], k=size)


def _entity_cases() -> list[Inputs]:
    dice = random.Random(23)
    return [
        (_random_tags(dice, size),)
        for count, size in ((20, 2), (40, 3), (60, 4), (60, 8))
        for _ in range(count)
    ]


def _read_spans(answer: Any, *_: Any) -> list[Span]:
    if isinstance(answer, dict) or not isinstance(answer, list | tuple | set | frozenset):
        raise UnreadableError(
            f"your function returned {_kind(answer)}; a list or a set of (type, start, end) is "
            "wanted."
        )
    return sorted(_read_span(item) for item in answer)


def _read_span(item: Any) -> Span:
    if not isinstance(item, tuple | list) or len(item) != 3 or not isinstance(item[0], str):
        said = exercise.plain(item) if isinstance(item, tuple | list | str) else _kind(item)
        raise UnreadableError(
            f"one of your entities is {said}; (type, start, end) is wanted, as in ('PLACE', 3, 5)."
        )
    return item[0], _whole(item[1], "a start"), _whole(item[2], "an end")


def _walked(
    tags: Tags,
    i_begins: bool = False,
    any_type: bool = False,
    b_goes_on: bool = False,
    last: bool = True,
) -> list[Span]:
    """Read entities by other rules."""
    found: list[Span] = []
    start, kind = None, ""
    for i, tag in enumerate([*tags, "O"] if last else tags):
        alike = any_type or tag[2:] == kind
        goes_on = start is not None and (tag[0] == "I" or (b_goes_on and tag[0] == "B")) and alike
        if goes_on:
            continue
        if start is not None:
            found.append((kind, start, i))
            start = None
        if tag[0] == "B" or (i_begins and tag[0] == "I"):
            start, kind = i, tag[2:]
    return found


def _spans_of(change: Callable[[Span], tuple[Any, ...]]) -> Callable[[Tags], list[Any]]:
    return lambda tags: [change(span) for span in right_entities(tags)]


ENTITIES = Exercise(
    name="entities",
    right=right_entities,
    cases=_entity_cases,
    read=_read_spans,
    tried="180 random sentences of 2 to 8 tags, in any order that a model may answer.",
    start="start = None, and a loop over the tags. What ends an open entity, what begins one?",
    source=(tagging.entities, right_entities),
    mistakes=(
        Mistake(
            "end is the last word itself.",
            "end is the word after the last, as in a slice: words[start:end]. Add 1.",
            (_spans_of(lambda s: (s[0], s[1], s[2] - 1)),),
        ),
        Mistake(
            "the third number is the length.",
            "the word after the last is wanted: start + length.",
            (_spans_of(lambda s: (s[0], s[1], s[2] - s[1])),),
        ),
        Mistake(
            "an I- with nothing to go on begins an entity.",
            "that is the older, lenient way to count. Here it is none: only B- begins one.",
            (
                partial(_walked, i_begins=True),
                partial(_walked, i_begins=True, any_type=True),
                partial(_walked, i_begins=True, b_goes_on=True),
            ),
        ),
        Mistake(
            "an I- of another type goes on.",
            "B-PLACE I-PERSON is a place of one word. Compare the types, tag[2:].",
            (partial(_walked, any_type=True),),
        ),
        Mistake(
            "two entities side by side become one.",
            "that is what B- is for: it ends what is open, and begins anew.",
            (
                partial(_walked, b_goes_on=True),
                partial(_walked, b_goes_on=True, any_type=True),
                partial(_walked, b_goes_on=True, any_type=True, i_begins=True),
            ),
        ),
        Mistake(
            "an entity at the end of the sentence is lost.",
            "the loop ends before anything closes it. Append an O, or look once more after it.",
            (partial(_walked, last=False),),
        ),
        Mistake(
            "only the first word of each entity is taken.",
            "I- goes on: move the end along while the tag is I- with the same type.",
            (_spans_of(lambda s: (s[0], s[1], s[1] + 1)),),
        ),
        Mistake(
            "every tag is an entity of its own.",
            "B-PLACE I-PLACE is one place of two words.",
            (lambda tags: [(t[2:], i, i + 1) for i, t in enumerate(tags) if t != "O"],),
        ),
        Mistake(
            "entities of one word are missing.",
            "B- alone is one, too, whatever follows it.",
            (lambda tags: [s for s in right_entities(tags) if s[2] > s[1] + 1],),
        ),
        Mistake(
            "the type still has its B- before it.",
            "the type is the tag from its third letter on: tag[2:].",
            (_spans_of(lambda s: (f"B-{s[0]}", s[1], s[2])),),
        ),
        Mistake(
            "words are counted from 1.",
            "the first word is number 0, so that words[start:end] are its words.",
            (_spans_of(lambda s: (s[0], s[1] + 1, s[2] + 1)),),
        ),
    ),
)


def entities(function: object) -> None:
    """Check ``(tags) -> [(type, start, end), …]``; an I- with nothing to go on is no entity."""
    print(exercise.judge(ENTITIES, function))


# -- entity F1

Sentences = Sequence[Tags]
Reader = Callable[[Tags], list[Span]]


def right_entity_f1(truth: Sentences, found: Sentences) -> float:
    """Return 2 right / (found + there) over all sentences together; 0 if there are none."""
    right = said = there = 0
    for true_tags, tags in zip(truth, found, strict=True):
        a, b = set(right_entities(true_tags)), set(right_entities(tags))
        right, said, there = right + len(a & b), said + len(b), there + len(a)
    return 2 * right / (said + there) if said + there else 0.0


def _f1_cases() -> list[Inputs]:
    dice = random.Random(24)
    cases: list[Inputs] = [([["O", "O"]], [["O", "O"]])]
    for count, sentences, size in ((20, 1, 2), (40, 2, 3), (40, 2, 5), (40, 4, 7)):
        for _ in range(count):
            truth = [_told(dice, size) for _ in range(sentences)]
            found = [[_disturbed(dice, tag) for tag in tags] for tags in truth]
            cases.append((truth, found))
    return cases


def _told(dice: random.Random, size: int) -> list[str]:
    """Draw tags as a person would give them: no I- without its B-."""
    tags: list[str] = []
    while len(tags) < size:
        kind = dice.choice(TYPES)
        tags += dice.choice((["O"], ["O"], [f"B-{kind}"], [f"B-{kind}", f"I-{kind}"]))
    return tags[:size]


def _disturbed(dice: random.Random, tag: str) -> str:
    return dice.choice(ALL_TAGS) if dice.random() < 0.3 else tag


def _read_number(answer: Any, *_: Any) -> float:
    return exercise.read_number(answer)


def _counting(
    read: Reader = right_entities,
    score: Callable[[int, int, int], float] = lambda right, found, there: (
        2 * right / (found + there) if found + there else 0.0
    ),
) -> Callable[[Sentences, Sentences], float]:
    """Make a wrong function: how tags are read, and what is made of the three counts."""

    def wrong(truth: Sentences, found: Sentences) -> float:
        counts = [0, 0, 0]
        for true_tags, tags in zip(truth, found, strict=True):
            a, b = set(read(true_tags)), set(read(tags))
            counts = [n + m for n, m in zip(counts, (len(a & b), len(b), len(a)), strict=True)]
        return score(*counts)

    return wrong


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _flat(truth: Sentences, found: Sentences) -> list[tuple[str, str]]:
    return [p for a, b in zip(truth, found, strict=True) for p in zip(a, b, strict=True)]


def _accuracy(truth: Sentences, found: Sentences) -> float:
    pairs = _flat(truth, found)
    return sum(a == b for a, b in pairs) / len(pairs)


def _tag_f1(truth: Sentences, found: Sentences, types_only: bool = False) -> float:
    cut = 2 if types_only else 0
    pairs = [(a[cut:], b[cut:]) for a, b in _flat(truth, found)]
    nothing = "" if types_only else "O"
    right = sum(a == b != nothing for a, b in pairs)
    total = sum((a != nothing) + (b != nothing) for a, b in pairs)
    return _share(2 * right, total)


def _over_sentences(
    truth: Sentences, found: Sentences, empty: float | None = 0.0, read: Reader = right_entities
) -> float:
    scores = []
    for one, other in zip(truth, found, strict=True):
        if read(one) or read(other):
            scores.append(_counting(read)([one], [other]))
        elif empty is not None:
            scores.append(empty)
    return _share(sum(scores), len(scores))


def _over_types(
    truth: Sentences, found: Sentences, all_types: bool = True, nothing: float = 0.0
) -> float:
    scores = []
    for kind in TYPES:

        def read(tags: Tags, kind: str = kind) -> list[Span]:
            return [span for span in right_entities(tags) if span[0] == kind]

        if all_types or any(map(read, [*truth, *found])):
            scores.append(_counting(read)(truth, found))
    return sum(scores) / len(scores) if scores else nothing


def _one_set(truth: Sentences, found: Sentences) -> float:
    a, b = ({s for tags in some for s in right_entities(tags)} for some in (truth, found))
    return _share(2 * len(a & b), len(a) + len(b))


def _joined(truth: Sentences, found: Sentences) -> float:
    return _counting()(*([[tag for tags in some for tag in tags]] for some in (truth, found)))


def _overlapping(truth: Sentences, found: Sentences) -> float:
    right = said = there = 0
    for true_tags, tags in zip(truth, found, strict=True):
        a, b = right_entities(true_tags), right_entities(tags)
        right += sum(any(s[0] == t[0] and s[1] < t[2] and t[1] < s[2] for t in a) for s in b)
        said, there = said + len(b), there + len(a)
    return _share(2 * right, said + there)


def _without_types(tags: Tags) -> list[Span]:
    return [("", start, end) for _, start, end in right_entities(tags)]


def _without_ends(tags: Tags) -> list[Span]:
    return [(kind, start, 0) for kind, start, _ in right_entities(tags)]


_lenient: Reader = partial(_walked, i_begins=True)

ENTITY_F1 = Exercise(
    name="entity_f1",
    right=right_entity_f1,
    cases=_f1_cases,
    read=_read_number,
    tried="141 random cases, from one sentence to 4; wrong types, wrong ends, nothing at all.",
    start="three counts, right, found and there, and a loop over the sentences that adds to them.",
    source=(Tagging.outcomes, Tagging.metrics, right_entity_f1),
    mistakes=(
        Mistake(
            "this is the accuracy of tags.",
            "nine tags in ten are O, and right without any work. Count entities: set(entities(…)) "
            "of both, and what they share.",
            (_accuracy, lambda t, f: 1 - _accuracy(t, f)),
        ),
        Mistake(
            "tags are counted, not entities.",
            "half a name is no name: type, start and end must all be right. Take entities(tags) "
            "first.",
            (_tag_f1, partial(_tag_f1, types_only=True)),
        ),
        Mistake(
            "this is a mean of the F1 of each sentence.",
            "a sentence of one entity would count as much as one of five. Add up the three counts "
            "first, divide once.",
            tuple(
                partial(_over_sentences, empty=e, read=r)
                for e in (0.0, 1.0, None)
                for r in (right_entities, _lenient)
            ),
        ),
        Mistake(
            "this is a mean of the F1 of each type.",
            "a rare type would count as much as a frequent one. Count all types together.",
            (
                _over_types,
                partial(_over_types, all_types=False),
                partial(_over_types, all_types=False, nothing=float("nan")),
            ),
        ),
        Mistake(
            "types are ignored.",
            "a place taken for a person is wrong, even with the right ends. Compare the type.",
            (_counting(_without_types),),
        ),
        Mistake(
            "ends are ignored.",
            "New York for New York City is wrong. Compare type, start and end.",
            (_counting(_without_ends), _overlapping),
        ),
        Mistake(
            "an I- with nothing to go on counts as an entity.",
            "only B- begins one, as in exercise 3.",
            (_counting(_lenient),),
        ),
        Mistake(
            "entities of different sentences are taken for one another.",
            "('PLACE', 0, 1) of two sentences are two. Count sentence by sentence, or put the "
            "number of the sentence into the tuple.",
            (_one_set, _joined),
        ),
        Mistake(
            "this is precision.",
            "right / found. Who finds one entity and no more can have all of it. Take F1.",
            (_counting(score=lambda r, f, t: _share(r, f)),),
        ),
        Mistake(
            "this is recall.",
            "right / there. Who calls everything an entity can have much of it. Take F1.",
            (_counting(score=lambda r, f, t: _share(r, t)),),
        ),
        Mistake(
            "this is the plain mean of precision and recall.",
            "F1 is their harmonic mean, 2 right / (found + there): it is low if either is.",
            (_counting(score=lambda r, f, t: (_share(r, f) + _share(r, t)) / 2),),
        ),
        Mistake(
            "the factor 2 is missing.",
            "with everything right, found and there are equal, and this gives 0.5. F1 is "
            "2 right / (found + there).",
            (_counting(score=lambda r, f, t: _share(r, f + t)),),
        ),
        Mistake(
            "right ones are counted once in the denominator.",
            "right / (found + there - right) is the overlap of two sets (Jaccard). F1 is "
            "2 right / (found + there).",
            (_counting(score=lambda r, f, t: _share(r, f + t - r)),),
        ),
        Mistake(
            "this is how many are right.",
            "divide: 2 right / (found + there).",
            (_counting(score=lambda r, f, t: r),),
        ),
        Mistake(
            "nothing found and nothing there gives no 0.",
            "who finds nothing where nothing is has found nothing: 0.0, as seqeval says.",
            (
                _counting(score=lambda r, f, t: 2 * r / (f + t) if f + t else 1.0),
                _counting(score=lambda r, f, t: 2 * r / (f + t) if f + t else float("nan")),
                _counting(score=lambda r, f, t: 2 * r / (f + t)),
            ),
        ),
        Mistake(
            "this is in percent.",
            "a share lies between 0 and 1. Leave out the 100.",
            (lambda t, f: 100 * right_entity_f1(t, f),),
        ),
    ),
)


def entity_f1(function: object) -> None:
    """Check ``(truth, found) -> float``, both lists of sentences, a sentence a list of tags.

    Right is F1 over all sentences together, 0 if there is no entity at all.
    """
    print(exercise.judge(ENTITY_F1, function))


# -- a test for scorers

Answered = tuple[WordIds, Tags, Tags]  # word of each piece, tag of each word, answer of each piece
Scorer = Callable[[Sequence[Answered]], float]


def _at_first_pieces(word_ids: WordIds, answers: Tags) -> list[str]:
    pairs = zip(_firsts(word_ids), answers, strict=True)
    return [answer for first, answer in pairs if first]


def _scoring(
    answered: Callable[[Answered], tuple[Tags, Tags]] = lambda s: (
        s[1],
        _at_first_pieces(s[0], s[2]),
    ),
    score: Callable[[Sentences, Sentences], float] = right_entity_f1,
) -> Scorer:
    """Make a scorer: which tags of a sentence are compared, and how."""

    def scorer(sentences: Sequence[Answered]) -> float:
        pairs = [answered(sentence) for sentence in sentences]
        return score([truth for truth, _ in pairs], [found for _, found in pairs])

    return scorer


def _seqeval(truth: Sentences, found: Sentences) -> float:
    lists = [list(tags) for tags in truth], [list(tags) for tags in found]
    return float(f1_score(*lists, mode="strict", scheme=IOB2, zero_division=0))


def _all_pieces(sentence: Answered) -> tuple[Tags, Tags]:
    word_ids, truth, found = sentence
    tags, answers = [], []
    for word, first, answer in zip(word_ids, _firsts(word_ids), found, strict=True):
        if word is not None:
            tags.append(truth[word] if first else truth[word].replace("B-", "I-"))
            answers.append(answer)
    return tags, answers


def _padding_too(sentence: Answered) -> tuple[Tags, Tags]:
    word_ids, truth, found = sentence
    beyond = [answer for word, answer in zip(word_ids, found, strict=True) if word is None]
    return [*truth, *["O"] * len(beyond)], [*_at_first_pieces(word_ids, found), *beyond]


RIGHT_SCORERS: tuple[tuple[str, Scorer], ...] = (
    ("with loops", _scoring()),
    ("with seqeval", _scoring(score=_seqeval)),
)

TAGGING_MUSEUM = (
    Exhibit(
        "all pieces scored",
        "counts every piece as a word, so a long name must be right several times",
        _scoring(_all_pieces),
        "let a second piece answer something else than the first: the score must not move.",
    ),
    Exhibit(
        "padding scored",
        "reads answers at [CLS], [SEP] and padding, where there is no word",
        _scoring(_padding_too),
        "answer B-PLACE at a place whose word number is None: the score must not move.",
    ),
    Exhibit(
        "token accuracy called F1",
        "counts tags that agree, and nine in ten are O",
        _scoring(score=_accuracy),
        "answer O everywhere in a sentence with one entity: the score must be 0.",
    ),
    Exhibit(
        "I- after O",
        "takes an I- with nothing to go on for an entity",
        _scoring(score=_counting(_lenient)),
        "answer O I-PLACE: nothing was found, so it must cost no precision.",
    ),
    Exhibit(
        "types ignored",
        "counts a place taken for a person as right",
        _scoring(score=_counting(_without_types)),
        "answer B-PERSON for a B-PLACE: nothing of that is right.",
    ),
    Exhibit(
        "F1 averaged over sentences",
        "gives a sentence of one entity the weight of one of five",
        _scoring(score=_over_sentences),
        "score two sentences with different numbers of entities, one right and one wrong.",
    ),
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


TAGGING_TEST = TestExercise(
    name="tagging_test",
    argument="scorer",
    thing="scorer",
    start="two sentences, each (word_ids, truth, found), and their F1 counted by hand.",
    right=RIGHT_SCORERS,
    museum=TAGGING_MUSEUM,
    refuses_all="it returns False on every path, or your count by hand is off. Print it beside "
    "what the scorer gives; found has a tag for each *piece*.",
    refuses_right="it asks for more than entity F1 at first pieces, in all sentences together; or "
    "it compares floats with ==.",
    source=(right_tagging_test,),
)


def tagging_test(function: object) -> None:
    """Check a learner's test: ``(scorer) -> bool``, true if it counts entity F1 rightly.

    ``scorer(sentences)`` takes (word_ids, truth, found) for each sentence: the word number of each
    piece, the tag of each word, and the answer of each piece. The test is run on two right scorers
    and on the broken ones of the bug museum.
    """
    print(judge_test(TAGGING_TEST, function))


SOLUTIONS: tuple[tuple[str, tuple[Any, ...]], ...] = (
    *((e.name, e.source) for e in (ALIGN, TAG_SHARES, ENTITIES, ENTITY_F1)),
    (TAGGING_TEST.name, TAGGING_TEST.source),
)
