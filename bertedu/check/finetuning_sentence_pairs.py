"""The checks of notebook 09: rows, head and loss of multiple choice, and a test for its data."""

import math
import operator
import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from bertedu.check import exercise
from bertedu.check.exercise import Exercise, Function, Inputs, Mistake, UnreadableError
from bertedu.check.museum import Exhibit, TestExercise, judge_test
from bertedu.finetuning.inputs import collate
from bertedu.finetuning.kinds import Classification, MultipleChoice
from bertedu.model.heads import ClassificationHead, MultipleChoiceHead

Pieces = list[str]
Rows = tuple[list[Pieces], list[list[int]], list[list[int]]]  # tokens, segments, mask

# -- a row for each ending


def right_choice_rows(beginning: Pieces, endings: list[Pieces]) -> Rows:
    """Pack [CLS] beginning [SEP] ending [SEP] for each ending, padded to the longest."""
    longest = len(beginning) + max(map(len, endings)) + 3
    tokens, segments, mask = [], [], []
    for ending in endings:
        row = ["[CLS]", *beginning, "[SEP]", *ending, "[SEP]"]
        padding = longest - len(row)
        tokens.append(row + ["[PAD]"] * padding)
        segments.append(
            [0] * (len(beginning) + 2) + [1] * (len(ending) + 1) + [0] * padding,
        )
        mask.append([1] * len(row) + [0] * padding)
    return tokens, segments, mask


def _rows_cases() -> list[Inputs]:
    dice = random.Random(20)
    words = "the dog ##s bark ##ed at night and we slept .".split()
    cases: list[Inputs] = [(["dogs"], [["bark"], ["do", "not"]])]
    for choices, most in ((2, 2), (3, 3), (4, 4), (4, 6)):
        for _ in range(15):
            sizes = [dice.randint(1, most) for _ in range(choices)]
            sizes[dice.randrange(choices)] = most + 1  # never all alike: something is padded
            cases.append(
                (
                    dice.choices(words, k=dice.randint(1, most)),
                    [dice.choices(words, k=size) for size in sizes],
                )
            )
    return cases


_PARTS = ("tokens", "segments", "mask")


def _read_rows(answer: Any, beginning: Pieces, endings: list[Pieces]) -> Rows:
    if isinstance(answer, exercise.Changed):
        raise UnreadableError(
            "your function writes into beginning or endings: the next ending gets more. Begin each "
            'row with a new list: ["[CLS]", *beginning, …].'
        )
    if not isinstance(answer, tuple | list) or len(answer) != 3:
        raise UnreadableError("return three things: tokens, segments, mask.")
    tokens, segments, mask = (
        _read_table(part, name, len(endings)) for part, name in zip(answer, _PARTS, strict=True)
    )
    for name, table in (("segments", segments), ("mask", mask)):
        for row, of_tokens in zip(table, tokens, strict=True):
            if len(row) != len(of_tokens):
                raise UnreadableError(
                    f"a row of {name} has {len(row)} numbers, its row of tokens {len(of_tokens)} "
                    "tokens; one number for each token is wanted."
                )
    return tokens, _whole(segments, "segments"), _whole(mask, "mask")


def _read_table(table: Any, name: str, rows: int) -> list[list[Any]]:
    table = table.tolist() if hasattr(table, "tolist") else table
    if not isinstance(table, list | tuple) or not all(isinstance(r, list | tuple) for r in table):
        raise UnreadableError(f"{name} is no list of rows; a list for each ending is wanted.")
    if len(table) != rows:
        raise UnreadableError(
            f"{name} has {len(table)} row{'s' * (len(table) != 1)} for {rows} endings; each ending "
            "needs a row of its own, with the beginning in it."
        )
    return [list(row) for row in table]


def _whole(table: list[list[Any]], name: str) -> list[list[int]]:
    if not all(isinstance(value, int | bool) for row in table for value in row):
        raise UnreadableError(f"{name} should hold only 0 and 1.")
    return [[int(value) for value in row] for row in table]


def _rows_difference(inputs: Inputs, mine: Any, right: Any) -> str:
    """Show the first row of the first part that differs."""
    for name, yours, ours in zip(_PARTS, mine, right, strict=True):
        for number, (one, other) in enumerate(zip(yours, ours, strict=True)):
            if one != other:
                return f"Row {number} of your {name} is {_line(one)}; right is {_line(other)}."
    return ""


def _line(row: Sequence[Any]) -> str:
    return " ".join(map(str, row))


def _packing(
    row: Callable[[Pieces, Pieces], Pieces] = lambda a, b: ["[CLS]", *a, "[SEP]", *b, "[SEP]"],
    segment: Callable[[int, int], list[int]] = lambda a, b: [0] * (a + 2) + [1] * (b + 1),
    of_padding: tuple[int, int] = (0, 0),  # segment, mask
    of_text: int = 1,  # mask
    left: bool = False,
    pad: bool = True,
) -> Function:
    """Make a wrong function: how a row is written, its segments, and how it is padded."""

    def wrong(beginning: Pieces, endings: list[Pieces]) -> Rows:
        rows = [row(beginning, ending) for ending in endings]
        longest = max(map(len, rows))
        tables: tuple[list[Any], list[Any], list[Any]] = ([], [], [])
        for one, ending in zip(rows, endings, strict=True):
            count = (longest - len(one)) * pad
            parts: tuple[tuple[list[Any], list[Any]], ...] = (
                (one, ["[PAD]"] * count),
                (segment(len(beginning), len(ending)), [of_padding[0]] * count),
                ([of_text] * len(one), [of_padding[1]] * count),
            )
            for table, (text, padding) in zip(tables, parts, strict=True):
                table.append(padding + text if left else text + padding)
        return tables

    return wrong


def _numbered_choices(beginning: Pieces, endings: list[Pieces]) -> Rows:
    tokens, segments, mask = right_choice_rows(beginning, endings)
    return tokens, [[n * s for s in row] for n, row in enumerate(segments)], mask


def _only_first(beginning: Pieces, endings: list[Pieces]) -> Rows:
    pack = _packing(row=lambda a, b: ["[CLS]", *a, "[SEP]", *b, "[SEP]"])
    first = pack(beginning, endings[:1])
    rest = _packing(
        row=lambda a, b: ["[CLS]", *b, "[SEP]"], segment=lambda a, b: [0] + [1] * (b + 1)
    )(beginning, endings[1:])
    longest = max(len(rows[0]) for rows in (first[0], rest[0]))
    tables = []
    for some, others, filler in zip(first, rest, ("[PAD]", 0, 0), strict=True):
        rows = [*some, *others]
        tables.append([row + [filler] * (longest - len(row)) for row in rows])
    return tuple(tables)  # type: ignore[return-value]


CHOICE_ROWS = Exercise(
    name="choice_rows",
    right=right_choice_rows,
    cases=_rows_cases,
    read=_read_rows,
    differ=_rows_difference,
    first_part=0,
    tried="61 random cases, 2 to 4 endings of different lengths.",
    start="one row: [CLS] beginning [SEP] ending [SEP]. Then a loop over the endings, and last the "
    "padding.",
    source=(MultipleChoice.encode, collate, right_choice_rows),
    mistakes=(
        Mistake(
            "only the first row holds the beginning.",
            "rows do not see one another. Each ending needs the beginning beside it.",
            (_only_first,),
        ),
        Mistake(
            "the ending comes before the beginning.",
            "segment A is the beginning, B the ending: [CLS] beginning [SEP] ending [SEP].",
            (
                _packing(row=lambda a, b: ["[CLS]", *b, "[SEP]", *a, "[SEP]"]),
                _packing(
                    row=lambda a, b: ["[CLS]", *b, "[SEP]", *a, "[SEP]"],
                    segment=lambda a, b: [0] * (b + 2) + [1] * (a + 1),
                ),
            ),
        ),
        Mistake(
            "[CLS] is missing.",
            "it is the token whose state becomes the score. Each row begins with it.",
            (
                _packing(
                    row=lambda a, b: [*a, "[SEP]", *b, "[SEP]"],
                    segment=lambda a, b: [0] * (a + 1) + [1] * (b + 1),
                ),
            ),
        ),
        Mistake(
            "the [SEP] between the two texts is missing.",
            "without it nobody can tell where the beginning ends.",
            (
                _packing(
                    row=lambda a, b: ["[CLS]", *a, *b, "[SEP]"],
                    segment=lambda a, b: [0] * (a + 1) + [1] * (b + 1),
                ),
            ),
        ),
        Mistake(
            "the last [SEP] is missing.",
            "each of the two texts ends with a [SEP] of its own.",
            (
                _packing(
                    row=lambda a, b: ["[CLS]", *a, "[SEP]", *b],
                    segment=lambda a, b: [0] * (a + 2) + [1] * b,
                ),
            ),
        ),
        Mistake(
            "a second [CLS] stands before the ending.",
            "there is one [CLS] a row; the two texts are parted by [SEP].",
            (
                _packing(
                    row=lambda a, b: ["[CLS]", *a, "[SEP]", "[CLS]", *b, "[SEP]"],
                    segment=lambda a, b: [0] * (a + 2) + [1] * (b + 2),
                ),
            ),
        ),
        Mistake(
            "the segments are all 0.",
            "the ending and its [SEP] are segment 1.",
            (_packing(segment=lambda a, b: [0] * (a + b + 3)),),
        ),
        Mistake(
            "the segments are swapped.",
            "[CLS], the beginning and its [SEP] are 0; the ending and its [SEP] are 1.",
            (
                _packing(segment=lambda a, b: [1] * (a + 2) + [0] * (b + 1)),
                _packing(segment=lambda a, b: [1] * (a + 2) + [0] * (b + 1), of_padding=(1, 0)),
            ),
        ),
        Mistake(
            "the segments number the choices.",
            "there are two segments, A and B. Every ending is B: 1, whichever it is.",
            (_numbered_choices,),
        ),
        Mistake(
            "the first [SEP] is in segment 1.",
            "it belongs to the beginning, which it ends: 0.",
            (_packing(segment=lambda a, b: [0] * (a + 1) + [1] * (b + 2)),),
        ),
        Mistake(
            "the last [SEP] is in segment 0.",
            "it belongs to the ending: 1.",
            (_packing(segment=lambda a, b: [0] * (a + 2) + [1] * b + [0]),),
        ),
        Mistake(
            "the rows are not padded.",
            "rows of a tensor are equally long: fill up with [PAD] to the longest of them.",
            (_packing(pad=False),),
        ),
        Mistake(
            "the padding stands on the left.",
            "[CLS] must be at place 0, where the head looks for it. Pad on the right.",
            (_packing(left=True),),
        ),
        Mistake(
            "the mask is 1 at padding, too: it is attended to.",
            "1 for what is text, [CLS] and [SEP] included; 0 for [PAD].",
            (_packing(of_padding=(0, 1)), _packing(of_padding=(1, 1))),
        ),
        Mistake(
            "the mask is the wrong way round.",
            "here 1 means: this is text, look at it.",
            (_packing(of_padding=(0, 1), of_text=0),),
        ),
        Mistake(
            "the padding is in segment 1.",
            "it belongs to no text. The package gives it 0.",
            (_packing(of_padding=(1, 0)),),
        ),
    ),
)


def choice_rows(function: object) -> None:
    """Check ``(beginning, endings) -> (tokens, segments, mask)``, a row for each ending.

    Right is [CLS] beginning [SEP] ending [SEP], padded on the right with [PAD]; segment 1 for the
    ending and its [SEP]; mask 0 at padding.
    """
    print(exercise.judge(CHOICE_ROWS, exercise.that_changes_nothing(function, operator.ne)))


# -- the head


def right_choice_head(
    c: Tensor, weight: Tensor, bias: Tensor, choices: int
) -> tuple[Tensor, Tensor]:
    """Score each row, (B * choices, H) -> (B, choices), and share out 1 over the choices."""
    scores = (c @ weight + bias).view(-1, choices)
    return scores, scores.softmax(dim=-1)


def _head_cases() -> list[Inputs]:
    generator = torch.Generator().manual_seed(21)
    cases: list[Inputs] = []
    for count, examples, choices, size in (
        (10, 1, 2, 1),
        (20, 2, 2, 2),
        (30, 2, 3, 4),
        (30, 3, 4, 5),
        (10, 5, 4, 8),
    ):
        for _ in range(count):
            c = torch.randn(examples * choices, size, generator=generator).mul(10).round() / 10
            weight = torch.randn(size, generator=generator).mul(10).round() / 10
            bias = torch.randn((), generator=generator).mul(10).round() / 10 + 0.3
            cases.append((c, weight, bias, choices))
    return cases


def _read_head(answer: Any, c: Tensor, weight: Tensor, bias: Tensor, choices: int) -> Any:
    scores, shares = exercise.read_pair(answer, "scores, shares")
    shape = (len(c) // choices, choices)
    return (
        exercise.read_tensor(scores, "scores", shape).double().tolist(),
        exercise.read_tensor(shares, "shares", shape).double().tolist(),
    )


def _head_difference(inputs: Inputs, mine: Any, right: Any) -> str:
    part = 0 if not exercise.alike(mine[0], right[0]) else 1
    name = ("scores", "shares")[part]
    return f"Your {name}: {exercise.plain(mine[part])}; right: {exercise.plain(right[part])}."


def _scored(
    change: Callable[[Tensor], Tensor] = lambda scores: scores,
    share: Callable[[Tensor], Tensor] = lambda scores: scores.softmax(-1),
    with_bias: bool = True,
    mixed: bool = False,
) -> Function:
    """Make a wrong head: what is done to the scores, and how they become shares."""

    def wrong(c: Tensor, weight: Tensor, bias: Tensor, choices: int) -> tuple[Tensor, Tensor]:
        flat = c @ weight + bias * with_bias
        scores = flat.view(choices, -1).T if mixed else flat.view(-1, choices)
        scores = change(scores)
        return scores, share(scores)

    return wrong


CHOICE_HEAD = Exercise(
    name="choice_head",
    right=right_choice_head,
    cases=_head_cases,
    read=_read_head,
    differ=_head_difference,
    first_part=0,
    tried="100 random cases, 1 to 5 examples of 2 to 4 choices.",
    start="c @ weight + bias, one number a row. Then a shape of (examples, choices), then softmax.",
    source=(MultipleChoice.scores, MultipleChoiceHead, ClassificationHead, right_choice_head),
    mistakes=(
        Mistake(
            "the choices of different examples are mixed.",
            "rows of one example follow one another: .view(-1, choices), not .view(choices, -1).T.",
            (_scored(mixed=True),),
        ),
        Mistake(
            "softmax runs over the examples.",
            "dim=0 are the examples. The choices of *one* example compete: dim=-1.",
            (_scored(share=lambda s: s.softmax(0)),),
        ),
        Mistake(
            "softmax runs over all rows of the batch at once.",
            "each example shares out its own 1: first .view(-1, choices), then softmax(dim=-1).",
            (_scored(share=lambda s: s.flatten().softmax(0).view_as(s)),),
        ),
        Mistake(
            "each choice has a sigmoid of its own.",
            "so all four could be likely at once. One of them is right: softmax over the choices.",
            (_scored(share=torch.sigmoid),),
        ),
        Mistake(
            "the bias is missing.",
            "the shares are the same without it, but the score is c · weight + bias.",
            (_scored(with_bias=False),),
        ),
        Mistake(
            "the score of a choice depends on the other choices.",
            "a score comes from its own row alone: do not subtract a mean or a maximum over the "
            "choices. Softmax brings them together, and only softmax.",
            (
                _scored(change=lambda s: s - s.mean(-1, keepdim=True)),
                _scored(change=lambda s: s - s.amax(-1, keepdim=True)),
            ),
        ),
        Mistake(
            "the scores have been through a tanh or a ReLU.",
            "the tanh is in C already. The score is a plain dot product plus bias.",
            (_scored(change=torch.tanh), _scored(change=torch.relu)),
        ),
        Mistake(
            "softmax is missing: the shares are the scores.",
            "shares are positive and sum to 1 over the choices: scores.softmax(dim=-1).",
            (_scored(share=lambda s: s),),
        ),
        Mistake(
            "the scores are softmaxed already.",
            "return the bare scores first, then the shares.",
            (
                _scored(change=lambda s: s.softmax(-1), share=lambda s: s),
                _scored(lambda s: s.softmax(-1)),
            ),
        ),
        Mistake(
            "softmax is applied twice.",
            "once is enough: shares = scores.softmax(dim=-1).",
            (_scored(share=lambda s: s.softmax(-1).softmax(-1)),),
        ),
        Mistake(
            "these are logarithms of the shares.",
            "log_softmax where softmax is wanted.",
            (_scored(share=lambda s: s.log_softmax(-1)),),
        ),
        Mistake(
            "scores are divided by their sum, without the exponential.",
            "scores may be negative, and so would these shares be: softmax takes exp first.",
            (_scored(share=lambda s: s / s.sum(-1, keepdim=True)),),
        ),
        Mistake(
            "the best choice gets everything.",
            "argmax has no slope. Softmax leaves something to the others.",
            (_scored(share=lambda s: F.one_hot(s.argmax(-1), s.shape[-1]).to(s.dtype)),),
        ),
        Mistake(
            "the two results are in the wrong order.",
            "return scores, shares, in this order.",
            (lambda *x: right_choice_head(*x)[::-1],),
        ),
    ),
)


def choice_head(function: object) -> None:
    """Check ``(c (B*N, H), weight (H,), bias (), choices N) -> (scores, shares)``, both (B, N)."""
    print(exercise.judge(CHOICE_HEAD, function))


# -- the loss


def right_choice_loss(scores: Tensor, labels: Tensor) -> Tensor:
    """Mean of -ln of the share of the right choice: (B, N), (B,) -> ()."""
    return F.cross_entropy(scores, labels)


def _loss_cases() -> list[Inputs]:
    generator = torch.Generator().manual_seed(22)
    cases: list[Inputs] = []
    for count, examples, choices in ((20, 1, 2), (40, 2, 3), (40, 3, 4), (20, 7, 4)):
        for _ in range(count):
            scores = torch.randn(examples, choices, generator=generator).mul(20).round() / 10
            cases.append((scores, torch.randint(choices, (examples,), generator=generator)))
    return cases


def _read_number(answer: Any, *_: Any) -> float:
    return exercise.read_number(answer)


def _each(scores: Tensor, labels: Tensor) -> Tensor:
    """-ln of the right choice's share in every example (B,)."""
    return -scores.log_softmax(-1).gather(-1, labels[:, None])[:, 0]


def _hot(scores: Tensor, labels: Tensor) -> Tensor:
    return F.one_hot(labels, scores.shape[-1]).to(scores.dtype)


def _yes_or_no(scores: Tensor, labels: Tensor, reduction: str = "mean") -> Tensor:
    """Ask of each ending alone whether it is the right one."""
    return F.binary_cross_entropy_with_logits(scores, _hot(scores, labels), reduction=reduction)


CHOICE_LOSS = Exercise(
    name="choice_loss",
    right=right_choice_loss,
    cases=_loss_cases,
    read=_read_number,
    tried="120 random cases, 1 to 7 examples of 2 to 4 choices.",
    start="scores.log_softmax(dim=-1), N numbers an example; then the right choice's, and their "
    "mean.",
    source=(Classification.loss, right_choice_loss),
    mistakes=(
        Mistake(
            "each ending is asked alone whether it is right (a sigmoid for each).",
            "that is another task: four yes-or-no questions. The choices of an example compete: "
            "softmax over them, then -ln of the right one's share.",
            (
                _yes_or_no,
                partial(_yes_or_no, reduction="sum"),
                lambda s, y: _yes_or_no(s, y, "none").sum(-1).mean(),
                lambda s, y: -F.logsigmoid(s).gather(-1, y[:, None]).mean(),
            ),
        ),
        Mistake(
            "softmax runs over the examples.",
            "dim=0 are the examples. The choices of one example share out 1: dim=-1.",
            (lambda s, y: -s.log_softmax(0).gather(-1, y[:, None]).mean(),),
        ),
        Mistake(
            "this is the sum over the examples, not their mean.",
            "twice the batch would mean twice the loss: divide by B.",
            (lambda s, y: _each(s, y).sum(),),
        ),
        Mistake(
            "the sum is divided by B·N; there are B examples.",
            "a mean over (B, N) counts the wrong choices as well. Divide by B.",
            (lambda s, y: -(_hot(s, y) * s.log_softmax(-1)).mean(),),
        ),
        Mistake(
            "the labels do not pick one score for each example.",
            "[:, labels] takes these columns of every example. One by one: "
            "log_shares[torch.arange(len(labels)), labels].",
            (lambda s, y: -s.log_softmax(-1)[:, y].mean(),),
        ),
        Mistake(
            "the logarithm is missing.",
            "this is a mean of shares. The loss is the mean of -ln of the right one's share.",
            (
                lambda s, y: (-_each(s, y)).exp().mean(),
                lambda s, y: 1 - (-_each(s, y)).exp().mean(),
                lambda s, y: -(-_each(s, y)).exp().mean(),
            ),
        ),
        Mistake(
            "softmax is missing: scores are treated as logarithms of shares.",
            "take scores.log_softmax(-1), or F.cross_entropy.",
            (F.nll_loss,),
        ),
        Mistake(
            "softmax is applied twice.",
            "F.cross_entropy does its own softmax: give it the scores as they are.",
            (lambda s, y: F.cross_entropy(s.softmax(-1), y),),
        ),
        Mistake(
            "the labels are not looked at.",
            "every example is scored as if the first choice were right, or all of them. Pick the "
            "column of its label.",
            (
                lambda s, y: -s.log_softmax(-1)[:, 0].mean(),
                lambda s, y: -s.log_softmax(-1).mean(),
                lambda s, y: -s.log_softmax(-1).sum(-1).mean(),
                lambda s, y: -s.log_softmax(-1).amax(-1).mean(),
            ),
        ),
        Mistake(
            "the labels are counted from 1.",
            "label 0 is the first choice.",
            (lambda s, y: F.cross_entropy(s, (y - 1) % s.shape[-1]),),
        ),
        Mistake(
            "this compares the right score with the highest of the others.",
            "that is a margin loss. Wanted is -ln of the right choice's share.",
            (
                lambda s, y: (
                    (
                        1
                        - s.gather(-1, y[:, None])[:, 0]
                        + s.masked_fill(_hot(s, y).bool(), -math.inf).amax(-1)
                    )
                    .clamp(min=0)
                    .mean()
                ),
            ),
        ),
        Mistake(
            "the sign is wrong: a better model would get a higher number.",
            "ln of a share is never above 0. The loss is -ln.",
            (lambda s, y: -right_choice_loss(s, y),),
        ),
        Mistake(
            "the loss is in bits.",
            "log2. Ours is in nats, so that chance is ln N: use the natural logarithm.",
            (lambda s, y: right_choice_loss(s, y) / math.log(2),),
        ),
        Mistake(
            "this counts right and wrong answers; it is no loss.",
            "argmax has no slope, so nothing can be learned from it. Take -ln of the share.",
            (
                lambda s, y: (s.argmax(-1) != y).double().mean(),
                lambda s, y: (s.argmax(-1) == y).double().mean(),
            ),
        ),
    ),
)


def choice_loss(function: object) -> None:
    """Check ``(scores (B, N), labels (B,)) -> scalar``, the mean cross-entropy in nats."""
    print(exercise.judge(CHOICE_LOSS, function))


# -- a test for data

Sentence = Sequence[int]
Article = tuple[str, str, Sequence[Sentence]]  # split, topic, sentences
Made = tuple[list[int], list[list[int]], int]  # beginning, endings, label
Builder = Callable[[Sequence[Article], int], dict[str, list[Made]]]
Candidates = Callable[[Sequence[Article], int, int], list[Sentence]]  # (articles, whose, t)


def _others(
    articles: Sequence[Article], index: int, split: bool = True, topic: bool = True
) -> list[Sentence]:
    """List the sentences of other articles, of the same split or any, the same topic or not."""
    here = articles[index]
    return [
        sentence
        for i, (its_split, its_topic, sentences) in enumerate(articles)
        if i != index and (its_split == here[0] or not split) and (its_topic == here[1]) == topic
        for sentence in sentences
    ]


def _building(
    candidates: Callable[..., list[Sentence]] = lambda articles, index, t: _others(articles, index),
    first: bool = False,
    backwards: bool = False,
    by_article: bool = True,
    per_article: int | None = None,
) -> Builder:
    """Make a builder of examples with up to three wrong endings, drawn from candidates."""

    def build(articles: Sequence[Article], seed: int) -> dict[str, list[Made]]:
        dice = random.Random(seed)
        made: dict[str, list[Made]] = {"train": [], "test": []}
        for index, (split, _, sentences) in enumerate(articles):
            places = list(range(len(sentences) - 1))
            for t in places if per_article is None else dice.sample(places, min(1, len(places))):
                a, right = sentences[t], sentences[t + 1]
                if backwards:
                    a, right = right, a
                pool = candidates(articles, index, t) or _others(articles, index, split=False)
                wrong = dice.sample(pool, min(3, len(pool)))
                label = 0 if first else dice.randint(0, len(wrong))
                wrong.insert(label, right)
                where = split if by_article else dice.choice(("train", "test"))
                made[where].append((list(a), [list(ending) for ending in wrong], label))
        return made

    return build


def _shorter(articles: Sequence[Article], index: int, t: int) -> list[Sentence]:
    """List the other sentences that are shorter than the right one; or else the shortest."""
    pool = sorted(_others(articles, index), key=len)
    right = articles[index][2][t + 1]
    shorter = [sentence for sentence in pool if len(sentence) < len(right)]
    return shorter if len(shorter) >= 3 else pool[:3]


def _own(articles: Sequence[Article], index: int, t: int) -> list[Sentence]:
    """List the other sentences of the same article, if there are enough."""
    return [s for i, s in enumerate(articles[index][2]) if i not in (t, t + 1)]


RIGHT_BUILDERS: tuple[tuple[str, Builder], ...] = (
    ("with one example for each pair of neighbors", _building()),
    ("with one example an article", _building(per_article=1)),
)

CHOICE_MUSEUM = (
    Exhibit(
        "examples split, not articles",
        "puts each example into train or test by a coin, so both hold pieces of one article",
        _building(by_article=False),
        'let the ids tell the article: no beginning in made["test"] may be of a train article.',
    ),
    Exhibit(
        "test sentences as wrong endings in training",
        "draws wrong endings from all articles; a sentence learned to be wrong comes again",
        _building(lambda articles, index, t: _others(articles, index, split=False)),
        'look at all four endings, too: in made["train"] none may be of a test article.',
    ),
    Exhibit(
        "right ending always first",
        "never shuffles, so label 0 is always right",
        _building(first=True),
        "gather the labels of many examples: all of 0 to 3 must occur.",
    ),
    Exhibit(
        "right ending always longest",
        "takes wrong endings that are shorter than the right one: the length tells",
        _building(_shorter),
        "give your sentences different lengths, and count how often the right one is longest.",
    ),
    Exhibit(
        "wrong endings of another topic",
        "draws them from articles on something else, so the topic tells",
        _building(lambda articles, index, t: _others(articles, index, topic=False)),
        "use two topics in each split: all four endings must be of the beginning's topic.",
    ),
    Exhibit(
        "wrong endings of the same article",
        "draws them from the article itself, where another sentence may follow as well",
        _building(_own),
        "a wrong ending may hold none of the ids of the beginning's article.",
    ),
    Exhibit(
        "segments swapped",
        "gives the later sentence as the beginning and the earlier one as its ending",
        _building(backwards=True),
        "number the ids through: the right ending must begin with the id after the beginning's "
        "last.",
    ),
)


def right_choice_data_test(builder: Builder) -> bool:
    """Say whether a builder is right, by articles whose ids tell where each comes from.

    Article n has ids from 1000·n on, numbered through, in twelve sentences of one to four ids;
    there are four articles for each split and topic.
    """
    articles: list[Article] = []
    home: dict[int, tuple[str, str]] = {}
    for split in ("train", "test"):
        for topic in ("rivers", "painters"):
            for _ in range(4):
                number, start, sentences = len(articles), 1000 * len(articles), []
                for i in range(12):
                    size = 1 + (i * (number + 3)) % 4
                    sentences.append(list(range(start, start + size)))
                    start += size
                home[number] = (split, topic)
                articles.append((split, topic, sentences))
    labels, longest, count = set(), 0.0, 0
    for seed in range(20):
        for split, examples in builder(articles, seed).items():
            for beginning, endings, label in examples:
                own, numbers = beginning[0] // 1000, [ending[0] // 1000 for ending in endings]
                if home[own][0] != split or any(home[n] != home[own] for n in numbers):
                    return False  # of the other split, or on another topic
                if endings[label][0] != beginning[-1] + 1 or numbers.count(own) != 1:
                    return False  # does not follow, or a wrong one of the same article
                labels.add(label)
                lengths = [len(ending) for ending in endings]
                if lengths[label] == max(lengths):
                    longest += 1 / lengths.count(max(lengths))
                count += 1
    return labels == {0, 1, 2, 3} and longest / count < 0.4


CHOICE_DATA_TEST = TestExercise(
    name="choice_data_test",
    argument="builder",
    thing="builder",
    start="articles of two splits and two topics, four in each, in which every id occurs once; "
    'then look at each example of builder(articles, seed)["train"] and ["test"].',
    right=RIGHT_BUILDERS,
    museum=CHOICE_MUSEUM,
    refuses_all="it returns False on every path, or the four endings are compared with the wrong "
    "article. Print some examples of builder(articles, seed) and look at them.",
    refuses_right="it asks for more than it may. With few examples the right ending may be first, "
    "or longest, by chance: build many, with several seeds.",
    source=(right_choice_data_test,),
)


def choice_data_test(function: object) -> None:
    """Check a learner's test: ``(builder) -> bool``, true if it builds right multiple choice.

    ``builder(articles, seed)`` takes a list of (split, topic, sentences) and returns a dictionary
    of lists of (beginning, endings, label), by split. The test is run on two right builders and on
    the broken ones of the bug museum.
    """
    print(judge_test(CHOICE_DATA_TEST, function))


SOLUTIONS: tuple[tuple[str, tuple[Any, ...]], ...] = (
    *((e.name, e.source) for e in (CHOICE_ROWS, CHOICE_HEAD, CHOICE_LOSS)),
    (CHOICE_DATA_TEST.name, CHOICE_DATA_TEST.source),
)
