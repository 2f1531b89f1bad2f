"""The exercises of notebook 14: six maskings in one, a crossing, a test and a game."""

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import combinations, product
from typing import Any

import torch
from torch import Tensor

from bertedu.pretraining.masking import mask_tokens, read_procedure
from bertedu.text.tokenization import MASK_ID, SPECIAL_TOKENS
from course.exercises import judge
from course.exercises.judge import Exercise, Inputs, anything_moved, offered
from course.exercises.museum import TestExercise
from course.results.bootstrap import Estimate
from course.results.verdicts import verdicts_together

WORDS = len(SPECIAL_TOKENS)  # ids below are special
TABLE_8 = ((0.8, 0.1), (1.0, 0.0), (0.8, 0.0), (0.8, 0.2), (0.0, 0.2), (0.0, 0.0))  # MASK, SAME


def _corrupt_cases() -> Iterator[Inputs]:
    """All rows of table 8, and shares in quarters, whose thresholds a coin can hit exactly."""
    generator = torch.Generator().manual_seed(8)
    whole = partial(torch.randint, generator=generator)
    quarters = ((0.5, 0.25), (0.25, 0.5), (0.25, 0.25), (0.5, 0.0), (0.0, 0.75), (0.75, 0.25))
    shapes = [(1, 1)] * 10 + [(1, 2)] * 8 + [(1, 3)] * 4 + [(2, 6)] * 3 + [(4, 16)] * 2
    for shape, shares in product(shapes, (*TABLE_8, *quarters)):
        special = whole(0, 10, shape) < 2
        ids = torch.where(special, whole(0, WORDS - 1, shape), whole(WORDS, 13, shape))
        selected = (whole(0, 10, shape) < 7) & ~special
        # eighths fall on quarters; what lies half an eighth above, on nothing in table 8
        coin = (whole(0, 8, shape) + 0.5 * (shares in TABLE_8)) / 8
        mask_id = MASK_ID if shares in TABLE_8 else 103
        yield ids, selected, coin, whole(WORDS, 13, shape), *shares, mask_id


@Exercise.asking(
    asks="(ids, selected, coin, random_ids, mask_share, same_share, mask_id) -> ids. The tensors "
    "are (B, S). Of the selected tokens, those with coin < mask_share become mask_id, the next "
    "same_share stay, and the rest take the id in random_ids",
    cases=_corrupt_cases,
    read=lambda answer, ids, *_: judge.read_ids(answer, "your answer", ids.shape).tolist(),
    tried="324 random cases, from one token to 4 rows of 16: the six procedures of table 8, and "
    "six others.",
    start="ids.masked_fill(selected & (coin < mask_share), mask_id), which is a copy; then "
    "torch.where for the random ids.",
    in_place="the loss still needs the original: those are the labels. Start with "
    "changed = ids.clone().",
    beside=(mask_tokens, read_procedure),
    mistakes="""
    ✗ SAME and RND are exchanged.
      that was the order in notebook 05. Table 8 counts MASK/SAME/RND: the middle group keeps its
      word, the rest takes the random id.
    | (coin >= mask_share + same_share) => (coin >= mask_share) & (coin < mask_share + same_share)
    ✗ random begins at same_share, not at mask_share + same_share.
      the shares are sizes, not places on the coin: the second group ends at their sum.
    | mask_share + same_share => max(mask_share, same_share)
    ✗ mask_share of all tokens become [MASK], not of the selected ones.
      coin < mask_share alone. Only selected tokens may change: selected & (coin < mask_share).
    | selected & (coin => (coin
    """,
)
def right_corrupt(
    ids: Tensor,
    selected: Tensor,
    coin: Tensor,
    random_ids: Tensor,
    mask_share: float,
    same_share: float,
    mask_id: int,
) -> Tensor:
    """Change selected tokens by MASK/SAME/RND; the four tensors and the answer are (B, S)."""
    changed = ids.masked_fill(selected & (coin < mask_share), mask_id)
    return torch.where(selected & (coin >= mask_share + same_share), random_ids, changed)


def _crossing_cases() -> Iterator[Inputs]:
    rng = random.Random(5)
    leads = [[-1], [0], [1], [1, -1], [-1, 1], [-1, 0, 1], [1, -1, 1], [1, 0, 1], [-1, 1, -1]]
    for size in [2] * 20 + [3] * 20 + [4] * 20 + [5] * 20 + [8] * 20:
        lead = rng.choices((-2, -1, 0, 1, 2, 3), k=size)
        sure = rng.randrange(size + 1)  # from there on ours is above; with size: maybe not
        leads.append(lead[:sure] + [abs(one) or 1 for one in lead[sure:]])
    for lead in leads:
        steps = sorted(rng.sample(range(500, 20500, 500), len(lead)))
        theirs = [rng.randrange(10, 14) for _ in lead]
        ours = [score + more for score, more in zip(theirs, lead, strict=True)]
        yield steps, [x / 20 for x in ours], [x / 20 for x in theirs]


@Exercise.asking(
    moved=anything_moved,
    asks="(steps, ours, theirs) -> int or None: from when on ours stays above theirs",
    cases=_crossing_cases,
    read=judge.whole,
    tried="109 pairs of curves, of one to eight points: above from the start, only at the end, "
    "for a while, never.",
    start="a loop over zip(steps, ours, theirs): what do you remember at a step where ours is "
    "above, and what do you forget where it is not?",
    in_place="its next user gets others. Make new lists.",
    mistakes="""
    ✗ this is the first step above, though ours falls back later.
      one lucky point is no overtaking. Forget the step found, found = None, whenever ours is not
      above any more.
    | our <= their => found is None and our <= their
    ✗ this is the index, not the step.
      steps[index] is what the axis of the picture says.
    | found = step => found = steps.index(step)
    ✗ a tie counts as above.
      >= where > is wanted: equal scores show no difference.
    | our <= their => our < their
    """,
)
def right_crossing(
    steps: Sequence[int], ours: Sequence[float], theirs: Sequence[float]
) -> int | None:
    """Return the first step from which on ours is above theirs up to the end; None if none is."""
    found = None
    for step, our, their in zip(steps, ours, theirs, strict=True):
        if our <= their:
            found = None
        elif found is None:
            found = step
    return found


# -- is it fair?

Row = dict[str, Any]
Record = list[Row]


@offered
def play_record(
    variants: Sequence[str] = ("L2 H128", "L4 H128", "L8 H256"),
    tasks: Sequence[str] = ("topic", "entities"),
    seeds: int = 4,
) -> Record:
    """Make a fair record with invented scores; of several ``tries``, the best was written down."""
    rng = random.Random(14)
    same: Row = {"method": "fine-tuned", "train_examples": 3000, "batch_size": 32, "epochs": 3}
    same |= {"learning_rate": 3e-4, "pretraining_steps": 20_000, "pretraining_tokens": 40_000_000}
    same |= {"split": "test", "tries": 1}
    return [
        {"variant": variant, "task": task, "seed": seed}
        | same
        | {"score": rng.randrange(5000, 9000) / 10_000}
        for task in tasks
        for seed in range(seeds)
        for variant in variants
    ]


def _replaced(edit: Callable[[Row], Iterable[Row]], **where: Any) -> Record:
    """Make a record in which the rows of these values are replaced: by none, one or several."""
    made: Record = []
    for row in play_record():
        made += edit(row) if where.items() <= row.items() else [row]
    return made


def _set(columns: Row, **where: Any) -> Record:
    return _replaced(lambda row: [row | columns], **where)


def _without(**where: Any) -> Record:
    return _replaced(lambda row: [], **where)


_OWN_RECIPE = {"learning_rate": 1e-3, "batch_size": 16, "epochs": 6, "train_examples": 900}


@TestExercise.asking(
    asks="(rows) -> bool, true if the variants can be compared. rows is a list of dictionaries, "
    "one a run, with the columns of check.play_record()",
    thing="record",
    start='a list for each row["variant"]: of each of its runs a tuple of all that must be the '
    "same. Two variants are comparable if their lists are the same, once sorted.",
    right=(
        ("with two variants on one task", play_record(("80/10/10", "100/0/0"), ("topic",))),
        ("with many variants and tasks", play_record("ABCDE", ("topic", "valence", "next"), 3)),
        ("with its rows in no order", random.Random(3).sample(play_record(seeds=5), 30)),
        ("with a recipe of its own for each task", _set(_OWN_RECIPE, task="entities")),
        ("with fewer seeds on one task", _without(task="entities", seed=3)),
        (
            "with variants that differ by their method",
            _replaced(lambda row: [row | {"method": row["variant"]}]),
        ),
    ),
    refuses_all="variants and scores differ in every record. Compare only the columns that must be "
    "the same, and compare them between variants, not between all rows.",
    refuses_right="it asks for more than it may. A task may have a recipe and a number of seeds of "
    "its own, if they are the same for all variants; the order of the rows tells nothing, and the "
    "method may be what is compared.",
    museum="""
    ✗ two models counted as one: two one-directional models are joined, and each had the full
    budget: this variant has read twice the tokens in as many steps.
      compare pretraining_tokens, not pretraining_steps alone.
    | = _set({"pretraining_tokens": 80_000_000}, variant="L8 H256")
    ✗ tuned where one hoped for more: the learning rate was searched for the own variant; the others
    got the default.
      compare learning_rate.
    | = _set({"learning_rate": 1e-4}, variant="L2 H128")
    ✗ a run that diverged: its row was left out, so the mean of this variant is one without its
    worst run.
      compare the seeds task by task: on the other task seed 3 is there.
    | = _without(variant="L4 H128", task="topic", seed=3)
    ✗ a run made twice: it was started again after a crash, and both rows were kept: its seed weighs
    double.
      count the rows or compare sorted lists: a set holds a seed once.
    | = _replaced(lambda row: [row, row | {"score": 0.7}], variant="L2 H128", task="topic", seed=1)
    ✗ dev taken for test: one variant's scores come from the split on which its best epoch was
    chosen.
      compare split.
    | = _set({"split": "dev"}, variant="L2 H128")
    ✗ the best of five: one variant was run five times a seed, and the best was written down.
      compare tries: the best of five beats the mean of the very same model.
    | = _set({"tries": 5}, variant="L8 H256")
    """,
)
def right_fair(rows: Record) -> bool:
    """Return True if every variant has the same runs, as often, in whatever order."""
    same = ["task", "seed", "train_examples", "batch_size", "learning_rate", "epochs"]
    same += ["pretraining_steps", "pretraining_tokens", "split", "tries"]
    runs: dict[str, Counter[tuple[Any, ...]]] = {}
    for row in rows:
        runs.setdefault(row["variant"], Counter())[tuple(row[name] for name in same)] += 1
    first, *others = runs.values()
    return all(other == first for other in others)


# -- predict before you plot

Differences = Mapping[tuple[str, str], Estimate]


@offered
def predict_order(my_order: Any, differences: Differences) -> None:
    """Say how many pairs of a predicted order the data confirm: a game, not an exercise.

    ``my_order`` is the list of all names, best first. ``differences`` gives for every pair (a, b)
    a's score minus b's. All are tested together: a pair that is not decided does not count.
    """
    names = sorted({name for pair in differences for name in pair})  # gives nothing away
    turned = {(b, a): -found for (a, b), found in differences.items()}
    mine = my_order if isinstance(my_order, list | tuple) else []
    mine = [name for name in mine if name not in (None, ..., "")]  # beside what is still open
    print(_no_order(my_order, mine, names) or _compare(mine, {**differences, **turned}))


def _no_order(my_order: object, mine: Sequence[Any], names: Sequence[str]) -> str:
    """Return what to do if this is no order of the names yet; else ""."""
    start = f"Before you look: which is best? Write a list, best first, of {', '.join(names)}."
    if not (my_order is None or my_order is ... or isinstance(my_order, list | tuple)):
        came = judge.kind_of(my_order)
        return judge.report(f"… predict_order: a list is wanted, not {came}.", start)
    if not mine:
        return judge.report("… predict_order: nothing is predicted yet.", start)
    details = [f"No variant is called {name!r}." for name in mine if name not in names]
    for name in names:
        if mine.count(name) > 1:
            details.append(f"{name} stands there {mine.count(name)} times; once is enough.")
    if missing := [name for name in names if name not in mine]:
        details.append(f"Still to be placed: {', '.join(missing)}.")
    return (
        judge.report("… predict_order: your list is not complete yet.", *details) if details else ""
    )


def _compare(mine: Sequence[str], found: Differences) -> str:
    """Count the pairs; the ones that came out the other way round follow, the clearest first."""
    pairs = list(combinations(mine, 2))  # of each, the first is said to be better
    verdicts = dict(zip(pairs, verdicts_together([found[p] for p in pairs]), strict=True))
    right = [pair for pair in pairs if verdicts[pair] == "supported"]
    wrong = sorted(
        (pair for pair in pairs if verdicts[pair] == "contradicted"), key=lambda p: found[p].high
    )
    decided, still_open = len(wrong) + len(right), len(pairs) - len(wrong) - len(right)
    if not decided:
        return judge.report(
            f"predict_order: the data decide none of {len(pairs)} pairs.",
            "No difference is clear enough for one of so many, so no order is right or wrong here. "
            "More seeds and more test examples would tell more.",
        )
    of_all = f"{len(right)} of {decided} decided {'pair' if decided == 1 else 'pairs'}"
    first = f"{'' if wrong else '✓ '}predict_order: {of_all} came out as you said."
    if still_open:
        first += f" {still_open} more {'is' if still_open == 1 else 'are'} undecided."
    details = []
    for a, b in wrong:
        low, high = (judge.plain(round(end, 1)) for end in found[b, a][1:3])
        details.append(f"- You put {a} before {b}, but {b} is better by {low} to {high}.")
    return judge.report(first, *details)
