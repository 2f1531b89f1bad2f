"""The checks of notebook 14: perplexity, six maskings in one, a crossing, a test and a game."""

import math
import operator
import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import partial, wraps
from itertools import combinations
from typing import Any

import torch
from torch import Tensor

from bertedu.check import exercise
from bertedu.check.exercise import Exercise, Function, Inputs, Mistake, UnreadableError
from bertedu.check.museum import Exhibit, TestExercise, judge_test
from bertedu.pretraining.evaluation import evaluate
from bertedu.pretraining.masking import mask_tokens, read_procedure
from bertedu.text.tokenization import MASK_ID, SPECIAL_TOKENS

_WRITTEN = "your function writes into its lists: its next user gets others. Make new lists."


# -- perplexity


def right_perplexity(losses: Sequence[float], words: Sequence[int]) -> float:
    """Mean losses of the batches, in nats, and their numbers of hidden words -> perplexity."""
    total = sum(loss * count for loss, count in zip(losses, words, strict=True))
    return math.exp(total / sum(words))


def _perplexity_cases() -> list[Inputs]:
    dice = random.Random(14)
    cases: list[Inputs] = [([2.0], [1]), ([2.0], [3]), ([1.0, 3.0], [3, 1]), ([0.5, 2.5], [2, 2])]
    for batches in (2, 3, 4, 6):
        for _ in range(14):
            losses = [dice.randrange(5, 61) / 10 for _ in range(batches)]
            cases.append((losses, [dice.randint(1, 15) for _ in range(batches)]))
    return cases


def _read_perplexity(answer: Any, *_: Any) -> float:
    if isinstance(answer, exercise.Changed):
        raise UnreadableError(_WRITTEN)
    return min(exercise.read_number(answer), 1e30)  # 32 bits end there: more is all the same


def _mean(losses: Sequence[float], words: Sequence[int]) -> float:
    """Return the mean over words, which is right."""
    return math.log(right_perplexity(losses, words))


def _plain_mean(losses: Sequence[float]) -> float:
    return sum(losses) / len(losses)


def _total(losses: Sequence[float], words: Sequence[int]) -> float:
    return sum(loss * count for loss, count in zip(losses, words, strict=True))


PERPLEXITY = Exercise(
    name="perplexity",
    right=right_perplexity,
    cases=_perplexity_cases,
    read=_read_perplexity,
    tried="60 cases, of one to six batches with 1 to 15 hidden words each.",
    start="the total loss: a batch of 3 words with mean loss 2.0 has 6.0 in all. Then divide by "
    "the number of all words; exp comes last.",
    source=(evaluate, right_perplexity),
    mistakes=(
        Mistake(
            "every batch counts the same, however many words it hides.",
            "a mean of means: a batch of 1 word weighs as much as one of 15. First loss * words "
            "for each batch, then the sum of these over sum(words).",
            (lambda x, n: math.exp(_plain_mean(x)),),
        ),
        Mistake(
            "exp comes before the mean.",
            "this is a mean of perplexities, and one bad batch outweighs all others there. Take "
            "the mean of the losses, then exp, once.",
            (
                lambda x, n: _total([math.exp(loss) for loss in x], n) / sum(n),
                lambda x, n: _plain_mean([math.exp(loss) for loss in x]),
                lambda x, n: sum(math.exp(loss) for loss in x) / sum(n),
                lambda x, n: sum(math.exp(loss) for loss in x),
            ),
        ),
        Mistake(
            "this is the loss: exp is missing.",
            "perplexity is exp(mean loss): among how many words, all equally likely, one would "
            "have to guess.",
            (_mean, lambda x, n: _plain_mean(x)),
        ),
        Mistake(
            "this is the loss in bits.",
            "log2 turns nats into bits. Perplexity needs no logarithm: math.exp(mean).",
            (
                lambda x, n: _mean(x, n) / math.log(2),
                lambda x, n: _plain_mean(x) / math.log(2),
            ),
        ),
        Mistake(
            "the power is one of 2.",
            "2 ** loss belongs to a loss in bits. These losses are in nats, the natural logarithm: "
            "math.exp.",
            (lambda x, n: 2 ** _mean(x, n), lambda x, n: 2 ** _plain_mean(x)),
        ),
        Mistake(
            "the power is one of 10.",
            "10 ** loss belongs to log10. These losses are in nats, the natural logarithm: "
            "math.exp.",
            (lambda x, n: 10 ** _mean(x, n), lambda x, n: 10 ** _plain_mean(x)),
        ),
        Mistake(
            "this is exp of a sum, not of a mean.",
            "twice the text would square the perplexity. Divide by sum(words) before exp.",
            (
                lambda x, n: math.exp(_total(x, n)),
                lambda x, n: math.exp(sum(x)),
            ),
        ),
        Mistake(
            "the total loss is divided by the number of batches.",
            "the loss of how many words is it? Divide by sum(words), not by len(losses).",
            (lambda x, n: math.exp(_total(x, n) / len(x)),),
        ),
        Mistake(
            "the losses are added as they are, and then divided by the number of words.",
            "each is a mean already. Times its number of words it is a total: sum of loss * count.",
            (lambda x, n: math.exp(sum(x) / sum(n)),),
        ),
        Mistake(
            "exp is taken of the total, and the division comes after it.",
            "exp comes last: math.exp(total / sum(words)).",
            (
                lambda x, n: math.exp(_total(x, n)) / sum(n),
                lambda x, n: math.exp(sum(x)) / len(x),
                lambda x, n: math.exp(sum(x)) / sum(n),
            ),
        ),
        Mistake(
            "this is the logarithm of the mean loss.",
            "the loss is a logarithm already. Undo it: math.exp.",
            (lambda x, n: math.log(_mean(x, n)), lambda x, n: math.log(_plain_mean(x))),
        ),
        Mistake(
            "the sign is wrong: this is a probability, 1 / perplexity.",
            "exp(-loss) is the mean probability of the right word (a geometric mean). Perplexity "
            "is exp(+loss), never below 1.",
            (
                lambda x, n: math.exp(-_mean(x, n)),
                lambda x, n: -math.exp(-_mean(x, n)),
                lambda x, n: -math.exp(_mean(x, n)),
            ),
        ),
        Mistake(
            "only one batch is looked at.",
            "a return inside the loop, or a total that is written over: total += loss * count, "
            "and return after the loop.",
            (
                lambda x, n: math.exp(x[-1]),
                lambda x, n: math.exp(x[0]),
                lambda x, n: math.exp(x[-1] * n[-1] / sum(n)),
            ),
        ),
    ),
)


def perplexity(function: object) -> None:
    """Check ``(losses, words) -> float``: lists of a mean loss and a word count a batch.

    Right is exp(total loss / total words), the perplexity of the paper's table 6.
    """
    print(exercise.judge(PERPLEXITY, exercise.that_changes_nothing(function, operator.ne)))


# -- six maskings in one

WORDS = len(SPECIAL_TOKENS)  # ids below are special
TABLE_8 = ((0.8, 0.1), (1.0, 0.0), (0.8, 0.0), (0.8, 0.2), (0.0, 0.2), (0.0, 0.0))  # MASK, SAME


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


def _corrupt_cases() -> list[Inputs]:
    """All rows of table 8, and shares in quarters, whose thresholds a coin can hit exactly."""
    generator = torch.Generator().manual_seed(8)

    def whole(low: int, high: int, shape: tuple[int, int]) -> Tensor:
        return torch.randint(low, high, shape, generator=generator)

    quarters = ((0.5, 0.25), (0.25, 0.5), (0.25, 0.25), (0.5, 0.0), (0.0, 0.75), (0.75, 0.25))
    cases: list[Inputs] = []
    for count, shape in ((10, (1, 1)), (8, (1, 2)), (4, (1, 3)), (3, (2, 6)), (2, (4, 16))):
        for number in range(count):
            for shares in (*TABLE_8, *quarters):
                special = whole(0, 10, shape) < 2
                ids = torch.where(special, whole(0, WORDS - 1, shape), whole(WORDS, 13, shape))
                selected = (whole(0, 10, shape) < 7) & ~special
                if shares in TABLE_8:
                    coin = (whole(0, 100, shape) + 0.5) / 100  # on no threshold,
                    coin = coin.masked_fill(whole(0, 8, shape) == 0, 0.0)  # or on the first
                else:
                    coin = whole(0, 8, shape) / 8
                mask_id = 103 if number % 2 else MASK_ID
                cases.append((ids, selected, coin, whole(WORDS, 13, shape), *shares, mask_id))
    return cases


def _read_ids(answer: Any, ids: Tensor, *_: Any) -> list[Any]:
    if isinstance(answer, tuple):
        raise UnreadableError(
            f"your function returned {len(answer)} things; the changed ids alone are wanted. "
            "Whoever calls it has selected already."
        )
    changed = exercise.read_tensor(answer, "your answer", ids.shape)
    if changed.is_floating_point() or changed.dtype == torch.bool:
        raise UnreadableError(
            f"your answer is {changed.dtype}; ids number the rows of a table, so they must stay "
            "whole numbers (torch.long)."
        )
    rows: list[Any] = changed.tolist()
    return rows


def _corrupt_difference(inputs: Inputs, mine: Any, right: Any) -> str:
    """Point to the first token that differs."""
    ids, selected, coin, random_ids = inputs[:4]
    for row, column in torch.ones_like(ids).nonzero().tolist():
        if mine[row][column] != right[row][column]:
            where = f"Token {column + 1}" + (f" of row {row + 1}" if len(ids) > 1 else "")
            told = [exercise.plain(x[row, column].item()) for x in (ids, coin, random_ids)]
            asked = "selected" if selected[row, column] else "not selected"
            return (
                f"{where} (id {told[0]}, {asked}, coin {told[1]}, random id {told[2]}): yours "
                f"gives {mine[row][column]}; right is {right[row][column]}."
            )
    return ""


Group = Callable[[Tensor, float, float], Tensor]  # (coin, mask_share, same_share) -> true where


def _never(c: Tensor, m: float, s: float) -> Tensor:
    return c < -1


def _always(c: Tensor, m: float, s: float) -> Tensor:
    return c >= 0


def _first(c: Tensor, m: float, s: float) -> Tensor:
    return c < m


def _middle(c: Tensor, m: float, s: float) -> Tensor:
    return (c >= m) & (c < m + s)


def _rest(c: Tensor, m: float, s: float) -> Tensor:
    return c >= m + s


def _cut(
    hide: Group = _first,
    swap: Group = _rest,
    hides_at: Callable[[Tensor], Tensor] = lambda selected: selected,
    swaps_at: Callable[[Tensor], Tensor] = lambda selected: selected,
    hide_last: bool = False,
    always_id: int | None = None,
) -> Function:
    """Make a masking with groups of its own; what comes last goes over what came first."""

    def wrong(
        ids: Tensor, selected: Tensor, coin: Tensor, random_ids: Tensor, m: float, s: float, k: int
    ) -> Tensor:
        hidden = hides_at(selected) & hide(coin, m, s)
        swapped = swaps_at(selected) & swap(coin, m, s)
        if hide_last:
            swapped = swapped & ~hidden
        changed = ids.masked_fill(hidden, k if always_id is None else always_id)
        return torch.where(swapped, random_ids, changed)

    return wrong


def _everywhere(selected: Tensor) -> Tensor:
    return torch.ones_like(selected)


def _unselected_swapped(ids: Tensor, selected: Tensor, *more: Any) -> Tensor:
    return torch.where(selected, right_corrupt(ids, selected, *more), more[1])


def _unpicked(
    ids: Tensor, selected: Tensor, coin: Tensor, random_ids: Tensor, m: float, s: float, k: int
) -> Tensor:
    changed = ids.masked_fill(selected & (coin < m), k)
    changed[selected & (coin >= m + s)] = random_ids  # an error, unless the shapes fit by chance
    return changed


def _first_ones(
    ids: Tensor, selected: Tensor, coin: Tensor, random_ids: Tensor, m: float, s: float, k: int
) -> Tensor:
    changed = ids.masked_fill(selected & (coin < m), k)
    places = selected & (coin >= m + s)
    changed[places] = random_ids.flatten()[: int(places.sum())]
    return changed


CORRUPT = Exercise(
    name="corrupt",
    right=right_corrupt,
    cases=_corrupt_cases,
    read=_read_ids,
    differ=_corrupt_difference,
    tried="324 random cases, from one token to 4 rows of 16: the six procedures of table 8, and "
    "six others.",
    start="ids.masked_fill(selected & (coin < mask_share), mask_id), which is a copy; then "
    "torch.where for the random ids.",
    in_place="the loss still needs the original: those are the labels. Start with "
    "changed = ids.clone().",
    source=(mask_tokens, read_procedure, right_corrupt),
    mistakes=(
        Mistake(
            "SAME and RND are exchanged.",
            "that was the order in notebook 05. Table 8 counts MASK/SAME/RND: the middle group "
            "keeps its word, the rest takes the random id.",
            (_cut(swap=_middle),),
        ),
        Mistake(
            "same_share is taken for the share of the random words.",
            "same_share of the selected tokens stay; random are those that are left, "
            "coin >= mask_share + same_share.",
            (_cut(swap=lambda c, m, s: c >= 1 - s),),
        ),
        Mistake(
            "mask_share and same_share are exchanged.",
            "coin < mask_share becomes mask_id; same_share is the size of the group after it.",
            (_cut(hide=lambda c, m, s: c < s),),
        ),
        Mistake(
            "[MASK] and random are exchanged.",
            "coin < mask_share becomes mask_id; the random id is for the rest, "
            "coin >= mask_share + same_share.",
            (_cut(hide=_rest, swap=_first),),
        ),
        Mistake(
            "your shares are right, but cut from coin in another order.",
            "nothing is wrong with that but the agreement: from 0 on MASK, then SAME, then RND.",
            (
                _cut(swap=lambda c, m, s: (c >= m) & (c < 1 - s)),
                _cut(hide=lambda c, m, s: (c >= s) & (c < m + s)),
                _cut(hide=lambda c, m, s: c >= 1 - m, swap=lambda c, m, s: c < 1 - m - s),
                _cut(
                    hide=lambda c, m, s: c >= 1 - m,
                    swap=lambda c, m, s: (c >= s) & (c < 1 - m),
                ),
            ),
        ),
        Mistake(
            "some of the masked tokens get another fate, too: the groups overlap.",
            "same or random begins at coin 0, where [MASK] began already. One token, one group: "
            "SAME starts at mask_share, RND at mask_share + same_share.",
            (
                _cut(
                    hide=lambda c, m, s: (c >= s) & (c < m),
                    swap=lambda c, m, s: c >= max(m, s),
                ),
                _cut(hide=lambda c, m, s: (c >= s) & (c < m)),
                _cut(swap=lambda c, m, s: c < 1 - m - s),
            ),
        ),
        Mistake(
            "random begins at same_share, not at mask_share + same_share.",
            "the shares are sizes, not places on the coin: the second group ends at their sum.",
            (
                _cut(swap=lambda c, m, s: c >= max(m, s)),
                _cut(swap=lambda c, m, s: c >= s),
            ),
        ),
        Mistake(
            "nothing becomes [MASK]: the random ids go over it.",
            "the second line changes every selected token that is not kept, the masked ones too. "
            "Random is coin >= mask_share + same_share, and nothing else.",
            (
                _cut(swap=lambda c, m, s: ~_middle(c, m, s)),
                _cut(swap=_always),
                _cut(swap=lambda c, m, s: c < m + s),
            ),
        ),
        Mistake(
            "mask_share of all tokens become [MASK], not of the selected ones.",
            "coin < mask_share alone. Only selected tokens may change: "
            "selected & (coin < mask_share).",
            (_cut(hides_at=_everywhere, swaps_at=_everywhere), _cut(hides_at=_everywhere)),
        ),
        Mistake(
            "tokens that were not selected turn into random ones.",
            "an else that is too wide. Random is selected & (coin >= mask_share + same_share); "
            "everything else keeps its id.",
            (_cut(swaps_at=_everywhere), _unselected_swapped),
        ),
        Mistake(
            "the unselected tokens are changed, and the selected ones are not.",
            "a ~ too many: selected is true where a token may change.",
            (_cut(hides_at=torch.logical_not, swaps_at=torch.logical_not),),
        ),
        Mistake(
            "every selected token becomes [MASK], whatever the shares.",
            "that is one row of the table, 100/0/0. Look at coin: only below mask_share.",
            (_cut(hide=_always, swap=_never),),
        ),
        Mistake(
            "no token ever changes, so every answer can be read off.",
            "the changed ids are not the ones returned. masked_fill, without the _, gives a new "
            "tensor.",
            (_cut(hide=_never, swap=_never),),
        ),
        Mistake(
            "no selected token becomes random: all the rest stays.",
            "what is left above mask_share + same_share takes random_ids.",
            (_cut(swap=_never),),
        ),
        Mistake(
            "no selected word is kept: all the rest becomes random.",
            "same_share is not used. Random begins at mask_share + same_share, not at mask_share.",
            (_cut(swap=lambda c, m, s: c >= m),),
        ),
        Mistake(
            "nothing becomes mask_id.",
            "the line for coin < mask_share is missing, or its result is not used.",
            (_cut(hide=_never),),
        ),
        Mistake(
            "a comparison with mask_share is turned round.",
            "coin < mask_share becomes mask_id: with mask_share 0.8, eight in ten.",
            (
                _cut(hide=lambda c, m, s: c >= m, hide_last=True),
                _cut(hide=lambda c, m, s: c > m, hide_last=True),
                _cut(hide=lambda c, m, s: c > m),
            ),
        ),
        Mistake(
            "a coin that falls on a threshold goes to the wrong group.",
            "<= where < is wanted, or > for >=. A coin may be exactly 0.0: with mask_share 0 "
            "nothing may be masked.",
            (
                _cut(hide=lambda c, m, s: c <= m),
                _cut(hide=lambda c, m, s: c <= m, hide_last=True),
                _cut(swap=lambda c, m, s: c > m + s),
                _cut(hide=lambda c, m, s: c <= m, swap=lambda c, m, s: c > m + s),
                _cut(hide=lambda c, m, s: c <= (m or -1), hide_last=True),
            ),
        ),
        Mistake(
            "it is 80/10/10, whatever is asked for.",
            "0.8 and 0.9 are written into the function: use mask_share and "
            "mask_share + same_share.",
            (
                _cut(hide=lambda c, m, s: c < 0.8, swap=lambda c, m, s: c >= 0.9),
                _cut(hide=lambda c, m, s: c < 0.8, swap=lambda c, m, s: (c >= 0.8) & (c < 0.9)),
            ),
        ),
        Mistake(
            "mask_id is not looked at.",
            f"{MASK_ID} is [MASK] in our vocabulary and 103 in the published one: use mask_id.",
            (_cut(always_id=MASK_ID), _cut(always_id=103)),
        ),
        Mistake(
            "the random ids are not picked at the places that change.",
            "pick the same places on both sides, changed[places] = random_ids[places], or use "
            "torch.where(places, random_ids, changed).",
            (_unpicked, _first_ones),
        ),
    ),
)


def corrupt(function: object) -> None:
    """Check ``(ids, selected, coin, random_ids, mask_share, same_share, mask_id) -> ids``.

    The tensors are (B, S). Of the selected tokens, those with coin < mask_share become mask_id,
    the next same_share stay, and the rest take the id in ``random_ids``.
    """
    print(exercise.judge(CORRUPT, function))


# -- where two curves cross


def right_crossing(
    steps: Sequence[int], ours: Sequence[float], theirs: Sequence[float]
) -> int | None:
    """Return the first step from which on ours is above theirs up to the end; None if none is."""
    found = None
    for step, our, their in zip(steps, ours, theirs, strict=True):
        if not our > their:
            found = None
        elif found is None:
            found = step
    return found


def _crossing_cases() -> list[Inputs]:
    dice = random.Random(5)
    cases: list[Inputs] = [
        ([1500], [0.5], [0.6]),
        ([1500], [0.5], [0.5]),
        ([1500], [0.6], [0.5]),
        ([1500, 3000], [0.6, 0.5], [0.5, 0.6]),
        ([1500, 3000], [0.5, 0.7], [0.6, 0.6]),
        ([1500, 3000, 4500], [0.5, 0.6, 0.7], [0.6, 0.6, 0.6]),
        ([1500, 3000, 4500], [0.7, 0.5, 0.7], [0.6, 0.6, 0.6]),
        ([1500, 3000, 4500], [0.7, 0.6, 0.7], [0.6, 0.6, 0.6]),
        ([1500, 3000, 4500], [0.5, 0.7, 0.5], [0.6, 0.6, 0.6]),
    ]
    for size in (2, 3, 4, 5, 8):
        for _ in range(20):
            steps = sorted(dice.sample(range(500, 20500, 500), size))
            theirs = [dice.randrange(10, 14) for _ in range(size)]
            lead = [dice.choice((-2, -1, 0, 1, 2, 3)) for _ in range(size)]
            sure = dice.randrange(size + 1)  # from there on ours is above; with size: maybe not
            lead[sure:] = [abs(one) or 1 for one in lead[sure:]]
            ours = [score + more for score, more in zip(theirs, lead, strict=True)]
            cases.append((steps, [x / 20 for x in ours], [x / 20 for x in theirs]))
    return cases


def _read_step(answer: Any, *_: Any) -> float:
    if isinstance(answer, exercise.Changed):
        raise UnreadableError(_WRITTEN)
    number = exercise.read_number(answer)
    return int(number) if number == number // 1 else number


def _above(ours: Sequence[float], theirs: Sequence[float]) -> list[bool]:
    return [our > their for our, their in zip(ours, theirs, strict=True)]


def _never_is(value: Function) -> Function:
    """Make a search that is right but where there is nothing to find."""

    def wrong(steps: list[int], ours: list[float], theirs: list[float]) -> Any:
        found = right_crossing(steps, ours, theirs)
        return value(steps) if found is None else found

    return wrong


def _index(steps: list[int], ours: list[float], theirs: list[float]) -> int | None:
    found = right_crossing(steps, ours, theirs)
    return None if found is None else steps.index(found)


def _index_or_minus_one(steps: list[int], ours: list[float], theirs: list[float]) -> int:
    place = _index(steps, ours, theirs)
    return -1 if place is None else place


def _shifted(by: int) -> Function:
    """Make a search that returns a neighbor of the right step, if there is one."""

    def wrong(steps: list[int], ours: list[float], theirs: list[float]) -> int | None:
        place = _index(steps, ours, theirs)
        return None if place is None else steps[min(max(place + by, 0), len(steps) - 1)]

    return wrong


def _step_before(steps: list[int], ours: list[float], theirs: list[float]) -> int | None:
    place = _index(steps, ours, theirs)
    return steps[place - 1] if place else None


def _last_not_above(steps: list[int], ours: list[float], theirs: list[float]) -> int | None:
    below = [step for step, a in zip(steps, _above(ours, theirs), strict=True) if not a]
    return below[-1] if below else None


def _rises(steps: list[int], ours: list[float], theirs: list[float]) -> list[int]:
    """List the places at which ours comes from not above to above."""
    above = _above(ours, theirs)
    return [i for i in range(1, len(above)) if above[i] and not above[i - 1]]


def _last_rise(steps: list[int], ours: list[float], theirs: list[float]) -> int | None:
    rises = _rises(steps, ours, theirs)
    start = steps[0] if ours[0] > theirs[0] else None
    return steps[rises[-1]] if rises else start


def _only_rises(steps: list[int], ours: list[float], theirs: list[float]) -> int | None:
    found = right_crossing(steps, ours, theirs)
    return None if _above(ours, theirs)[0] and found == steps[0] else found


def _between(steps: list[int], ours: list[float], theirs: list[float]) -> float | None:
    place = _index(steps, ours, theirs)
    if not place:
        return None if place is None else steps[0]
    before, after = (ours[i] - theirs[i] for i in (place - 1, place))
    return steps[place - 1] + (steps[place] - steps[place - 1]) * -before / (after - before)


def _first_where(
    good: Callable[[list[float], list[float], int], bool], ends_above: bool = False
) -> Function:
    """Make a search for the first step that is good, whatever comes later."""

    def wrong(steps: list[int], ours: list[float], theirs: list[float]) -> int | None:
        if ends_above and not ours[-1] > theirs[-1]:
            return None
        return next((s for i, s in enumerate(steps) if good(ours, theirs, i)), None)

    return wrong


def _largest_lead(steps: list[int], ours: list[float], theirs: list[float]) -> int | None:
    leads = [round(our - their, 6) for our, their in zip(ours, theirs, strict=True)]
    return steps[leads.index(max(leads))] if max(leads) > 0 else None


def _last_above(steps: list[int], ours: list[float], theirs: list[float]) -> int | None:
    found = [step for step, a in zip(steps, _above(ours, theirs), strict=True) if a]
    return found[-1] if found else None


CROSSING = Exercise(
    name="crossing",
    right=right_crossing,
    cases=_crossing_cases,
    read=_read_step,
    tried="109 pairs of curves, of one to eight points: above from the start, only at the end, "
    "for a while, never.",
    start="a loop over zip(steps, ours, theirs): what do you remember at a step where ours is "
    "above, and what do you forget where it is not?",
    source=(right_crossing,),
    mistakes=(
        Mistake(
            "this is the first step above, though ours falls back later.",
            "one lucky point is no overtaking. Forget the step found, found = None, whenever ours "
            "is not above any more.",
            (_first_where(lambda ours, theirs, i: ours[i] > theirs[i]),),
        ),
        Mistake(
            "only the first step above and the very end are looked at.",
            "in between ours may fall back. It must stay above at every step from there on.",
            (_first_where(lambda ours, theirs, i: ours[i] > theirs[i], ends_above=True),),
        ),
        Mistake(
            "this is the index, not the step.",
            "steps[index] is what the axis of the picture says.",
            (_index, _index_or_minus_one),
        ),
        Mistake(
            "a tie counts as above.",
            ">= where > is wanted: equal scores show no difference.",
            (
                lambda s, a, b: right_crossing(
                    s, [our >= their for our, their in zip(a, b, strict=True)], [False] * len(s)
                ),
            ),
        ),
        Mistake(
            "this is where theirs stays above ours.",
            "the comparison is turned round: ours > theirs.",
            (
                lambda s, a, b: right_crossing(s, b, a),
                _first_where(lambda ours, theirs, i: ours[i] < theirs[i]),
            ),
        ),
        Mistake(
            "it is one step early: there, ours is not above yet.",
            "the last step that is not above comes right before the one wanted.",
            (_shifted(-1), _step_before, _last_not_above),
        ),
        Mistake(
            "it is one step late.",
            "the step at which ours is above for the first time belongs to it.",
            (_shifted(1),),
        ),
        Mistake(
            "this is where ours rises above for the last time, though it falls back after that.",
            "if ours is not above at the end, the answer is None.",
            (_last_rise,),
        ),
        Mistake(
            "above from the very first step gives None.",
            "nothing crosses there, but ours is ahead from steps[0] on: return that.",
            (_only_rises,),
        ),
        Mistake(
            "the last point is left out.",
            "a range or a slice that ends one early: ours must be above at the end, too, and it "
            "may be above only there.",
            (
                lambda s, a, b: right_crossing(s[:-1], a[:-1], b[:-1]),
                lambda s, a, b: right_crossing(s, [*a[:-1], math.inf], b),
            ),
        ),
        Mistake(
            "the first point is left out.",
            "a loop that starts at 1: ours may be above from steps[0] on.",
            (lambda s, a, b: right_crossing(s[1:], a[1:], b[1:]),),
        ),
        Mistake(
            "this is the last step above.",
            "wanted is the first of those that reach to the end.",
            (
                _last_above,
                lambda s, a, b: s[-1] if a[-1] > b[-1] else None,
            ),
        ),
        Mistake(
            "this is the step with the largest lead.",
            "how far above does not matter, only from when on.",
            (_largest_lead,),
        ),
        Mistake(
            "ours is compared with one point of theirs, not step by step.",
            "both had read as much at the same step: compare ours[i] with theirs[i].",
            (
                _first_where(lambda ours, theirs, i: ours[i] > theirs[-1]),
                _first_where(lambda ours, theirs, i: ours[i] > max(theirs)),
                _first_where(lambda ours, theirs, i: ours[i] > theirs[0]),
            ),
        ),
        Mistake(
            "this is a point between two steps.",
            "nobody measured there. Return a step out of steps.",
            (_between,),
        ),
        Mistake(
            "where ours does not stay above, the answer is not None.",
            "after the loop, nothing found is None: no number says never.",
            (
                _never_is(lambda steps: -1),
                _never_is(lambda steps: 0),
                _never_is(lambda steps: steps[-1]),
                _never_is(lambda steps: steps[0]),
                _never_is(lambda steps: math.inf),
                _never_is(lambda steps: math.nan),
                _never_is(lambda steps: [][0]),
                _never_is(lambda steps: min([])),
                _never_is(lambda steps: next(iter([]))),
            ),
        ),
    ),
)


def crossing(function: object) -> None:
    """Check ``(steps, ours, theirs) -> int or None``: from when on ours stays above theirs."""
    print(exercise.judge(CROSSING, exercise.that_changes_nothing(function, operator.ne)))


# -- is it fair?

Row = dict[str, Any]
Record = list[Row]


def play_record(
    variants: Sequence[str] = ("L2 H128", "L4 H128", "L8 H256"),
    tasks: Sequence[str] = ("topic", "entities"),
    seeds: int = 4,
) -> Record:
    """Make a fair record with invented scores: a row a run, much as in `ablations.csv`.

    ``split`` says which examples the score comes from, and ``tries`` how often the run was made: of
    several, the best was written down.
    """
    dice = random.Random(14)
    return [
        {
            "variant": variant,
            "task": task,
            "seed": seed,
            "method": "fine-tuned",
            "train_examples": 3000,
            "batch_size": 32,
            "learning_rate": 3e-4,
            "epochs": 3,
            "pretraining_steps": 20_000,
            "pretraining_tokens": 40_000_000,
            "split": "test",
            "tries": 1,
            "score": dice.randrange(5000, 9000) / 10_000,
        }
        for task in tasks
        for seed in range(seeds)
        for variant in variants
    ]


def right_fair(rows: Record) -> bool:
    """Return True if every variant has the same runs, as often, in whatever order."""
    same = ["task", "seed", "train_examples", "batch_size", "learning_rate", "epochs"]
    same += ["pretraining_steps", "pretraining_tokens", "split", "tries"]
    runs: dict[str, Counter[tuple[Any, ...]]] = {}
    for row in rows:
        runs.setdefault(row["variant"], Counter())[tuple(row[name] for name in same)] += 1
    first, *others = runs.values()
    return all(other == first for other in others)


def _shuffled() -> Record:
    rows = play_record(seeds=5)
    random.Random(3).shuffle(rows)
    return rows


def _recipes() -> Record:
    """A recipe for each task, as ours has: what fits one task does not fit another."""
    own = {"learning_rate": 1e-3, "batch_size": 16, "epochs": 6, "train_examples": 900}
    return [row | own if row["task"] == "entities" else row for row in play_record()]


def _fewer_seeds() -> Record:
    return [r for r in play_record() if r["task"] != "entities" or r["seed"] < 2]


def _methods() -> Record:
    rows = play_record(("fine-tuned", "fine-tuned + BiLSTM"))
    return [row | {"method": row["variant"]} for row in rows]


RIGHT_RECORDS: tuple[tuple[str, Callable[[], Record]], ...] = (
    ("with two variants on one task", partial(play_record, ("80/10/10", "100/0/0"), ("topic",))),
    (
        "with many variants and tasks",
        partial(play_record, tuple("ABCDE"), ("topic", "valence", "next", "entities"), 3),
    ),
    ("with its rows in no order", _shuffled),
    ("with a recipe of its own for each task", _recipes),
    ("with fewer seeds on one task", _fewer_seeds),
    ("with variants that differ by their method", _methods),
)


def _edited(edit: Callable[[Row], Iterable[Row]], **where: Any) -> Callable[[], Record]:
    """Make a record in which the rows of these values are replaced: by none, one or several."""

    def record() -> Record:
        made: Record = []
        for row in play_record():
            fits = all(row[name] == value for name, value in where.items())
            made += edit(row) if fits else [row]
        return made

    return record


def _set(columns: Row, **where: Any) -> Callable[[], Record]:
    return _edited(lambda row: [row | columns], **where)


FAIR_MUSEUM = (
    Exhibit(
        "two models counted as one",
        "two one-directional models are joined, and each had the full budget: this variant has "
        "read twice the tokens in as many steps",
        _set({"pretraining_tokens": 80_000_000}, variant="L8 H256"),
        "compare pretraining_tokens, not pretraining_steps alone.",
    ),
    Exhibit(
        "smaller batches where memory ran out",
        "this variant has read the same tokens, but in twice the steps",
        _set({"pretraining_steps": 40_000}, variant="L8 H256"),
        "compare pretraining_steps, not pretraining_tokens alone.",
    ),
    Exhibit(
        "a line copied from the last report",
        "that one was trained on all examples, the others on 3,000",
        _set({"train_examples": 12_000}, variant="L4 H128"),
        "compare train_examples.",
    ),
    Exhibit(
        "tuned where one hoped for more",
        "the learning rate was searched for the own variant; the others got the default",
        _set({"learning_rate": 1e-4}, variant="L2 H128"),
        "compare learning_rate.",
    ),
    Exhibit(
        "fine-tuned in smaller batches",
        "the largest variant did not fit into memory with 32 examples",
        _set({"batch_size": 16}, variant="L8 H256"),
        "compare batch_size.",
    ),
    Exhibit(
        "a run that looked unfinished",
        "one run alone was given more epochs",
        _set({"epochs": 10}, variant="L4 H128", task="entities", seed=2),
        "compare every run, not the first one of each variant.",
    ),
    Exhibit(
        "a run that diverged",
        "its row was left out, so the mean of this variant is one without its worst run",
        _edited(lambda row: [], variant="L4 H128", task="topic", seed=3),
        "compare the seeds task by task: on the other task seed 3 is there.",
    ),
    Exhibit(
        "a run made twice",
        "it was started again after a crash, and both rows were kept: its seed weighs double",
        _edited(lambda row: [row, row | {"score": 0.7}], variant="L2 H128", task="topic", seed=1),
        "count the rows or compare sorted lists: a set holds a seed once.",
    ),
    Exhibit(
        "other seeds",
        "one variant was run on another day, with seeds from 4 on, so that nothing is paired",
        _edited(lambda row: [row | {"seed": row["seed"] + 4}], variant="L8 H256"),
        "compare which seeds there are, not how many.",
    ),
    Exhibit(
        "a row under the wrong task",
        "a slip of the paste: one task has a run too many, the other one too few",
        _set({"task": "entities"}, variant="L4 H128", task="topic", seed=3),
        "compare pairs of task and seed: the number of rows is right, and so are all tasks and "
        "all seeds.",
    ),
    Exhibit(
        "a task that was left out",
        "one variant was never run on it, so its mean is one over other tasks",
        _edited(lambda row: [], variant="L2 H128", task="entities"),
        "compare the tasks of the variants.",
    ),
    Exhibit(
        "dev taken for test",
        "one variant's scores come from the split on which its best epoch was chosen",
        _set({"split": "dev"}, variant="L2 H128"),
        "compare split.",
    ),
    Exhibit(
        "the best of five",
        "one variant was run five times a seed, and the best was written down",
        _set({"tries": 5}, variant="L8 H256"),
        "compare tries: the best of five beats the mean of the very same model.",
    ),
)

FAIR = TestExercise(
    name="fair",
    argument="rows",
    thing="record",
    start='a list for each row["variant"]: of each of its runs a tuple of all that must be the '
    "same. Two variants are comparable if their lists are the same, once sorted.",
    right=RIGHT_RECORDS,
    museum=FAIR_MUSEUM,
    refuses_all="variants and scores differ in every record. Compare only the columns that must be "
    "the same, and compare them between variants, not between all rows.",
    refuses_right="it asks for more than it may. A task may have a recipe and a number of seeds of "
    "its own, if they are the same for all variants; the order of the rows tells nothing, and the "
    "method may be what is compared.",
    source=(right_fair,),
)


def _given_rows(function: object) -> object:
    """Show a learner's test the rows themselves, not the function that makes them."""
    if not callable(function) or isinstance(function, type):
        return function

    @wraps(function)
    def call(record: Callable[[], Record]) -> Any:
        return function(record())

    return call


def fair(function: object) -> None:
    """Check a learner's test: ``(rows) -> bool``, true if the variants can be compared.

    ``rows`` is a list of dictionaries, one a run, with the columns of `play_record`. The test is
    run on six fair records and on the unfair ones of the bug museum.
    """
    print(judge_test(FAIR, _given_rows(function)))


# -- predict before you plot

Differences = Mapping[tuple[str, str], tuple[float, float]]


def predict_order(my_order: object, differences: Differences) -> None:
    """Say how many pairs of a predicted order the data confirm: a game, not an exercise.

    ``my_order`` is the list of all names, best first. ``differences`` gives for every pair (a, b),
    in either order, the low and high end of the interval of a's score minus b's. A pair whose
    interval holds 0 is undecided, and does not count.

    Raises
    ------
    ValueError
        A pair is missing or stands there twice, or an interval is upside down.

    """
    names = sorted({name for pair in differences for name in pair})  # gives nothing away
    found: dict[tuple[str, str], tuple[float, float]] = {}
    for (a, b), (low, high) in differences.items():
        if low > high:
            raise ValueError(f"the interval of {a!r} minus {b!r} is upside down: {low} to {high}")
        found[a, b], found[b, a] = (low, high), (-high, -low)
    every_pair = len(names) * (len(names) - 1) // 2
    if len(names) < 2 or not len(differences) == every_pair == len(found) // 2:
        raise ValueError("differences should hold every pair of two or more names, once")
    print(_no_order(my_order, names) or _compare(_placed(my_order), found))


def _no_order(my_order: object, names: Sequence[str]) -> str:
    """Return what to do if this is no order of the names yet; else ""."""
    start = f"Before you look: which is best? Write a list, best first, of {', '.join(names)}."
    if my_order is None or my_order is ...:
        return exercise.report("… predict_order: nothing is predicted yet.", start)
    if not isinstance(my_order, list | tuple):
        came = type(my_order).__name__
        came = f"{'an' if came[0] in 'aeiou' else 'a'} {came}"
        return exercise.report(f"… predict_order: a list is wanted, not {came}.", start)
    mine = _placed(my_order)
    if not mine:
        return exercise.report("… predict_order: nothing is predicted yet.", start)
    details = []
    for name in dict.fromkeys(map(str, mine)):
        if name not in names:
            close = get_close_matches(name, names, n=1)
            meant = f" Is it {close[0]}?" if close else ""
            details.append(f"No variant is called {name!r}.{meant}")
        elif mine.count(name) > 1:
            details.append(f"{name} stands there {mine.count(name)} times; once is enough.")
    if missing := [name for name in names if name not in mine]:
        details.append(f"Still to be placed: {', '.join(missing)}.")
    if not details:
        return ""
    return exercise.report("… predict_order: your list is not complete yet.", *details)


def _placed(my_order: Any) -> list[Any]:
    """Return what stands in a list beside what is still open."""
    return [name for name in my_order if name not in (None, ..., "")]


def _compare(my_order: Sequence[str], found: Differences) -> str:
    """Count the pairs; the ones that came out the other way round follow, the clearest first."""
    pairs = list(combinations(my_order, 2))  # of each, the first is said to be better
    right = [pair for pair in pairs if found[pair][0] > 0]
    wrong = sorted((pair for pair in pairs if found[pair][1] < 0), key=lambda p: found[p][1])
    decided, open_pairs = len(wrong) + len(right), len(pairs) - len(wrong) - len(right)
    if not decided:
        return exercise.report(
            f"predict_order: the data decide none of {len(pairs)} pairs.",
            "Every interval of a difference holds 0, so no order is right or wrong here. More "
            "seeds and more test examples would make them shorter.",
        )
    mark = "" if wrong else "✓ "
    of_all = f"{len(right)} of {decided} decided {'pair' if decided == 1 else 'pairs'}"
    first = f"{mark}predict_order: {of_all} came out as you said."
    if open_pairs:
        first += f" {open_pairs} more {'does' if open_pairs == 1 else 'do'} not count: the "
        first += f"{'interval holds' if open_pairs == 1 else 'intervals hold'} 0."
    return exercise.report(
        first,
        *(
            f"- You put {a} before {b}, but {b} is better by "
            f"{exercise.plain(round(found[b, a][0], 1))} to "
            f"{exercise.plain(round(found[b, a][1], 1))}."
            for a, b in wrong
        ),
    )


SOLUTIONS: tuple[tuple[str, tuple[Any, ...]], ...] = (
    *((e.name, e.source) for e in (PERPLEXITY, CORRUPT, CROSSING)),
    (FAIR.name, FAIR.source),
)
