"""The checks of notebook 05: masking, the loss over blanks, a test for losses, and two measures."""

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from bertedu.check import exercise
from bertedu.check.exercise import Exercise, Inputs, Mistake, UnreadableError
from bertedu.check.museum import Exhibit, TestExercise, judge_test
from bertedu.pretraining.baselines import UnigramModel
from bertedu.pretraining.evaluation import sum_by_pair
from bertedu.pretraining.loop import pretraining_loss
from bertedu.pretraining.masking import mask_tokens
from bertedu.text.tokenization import MASK_ID, PAD_ID, SPECIAL_TOKENS

# -- masking

WORDS = len(SPECIAL_TOKENS)  # ids below are special


def right_masking(
    ids: Tensor, chance: Tensor, group: Tensor, words: Tensor
) -> tuple[Tensor, Tensor]:
    """Hide 15 % of the words 80/10/10; all four inputs and both answers are (B, S)."""
    selected = (chance < 0.15) & (ids >= len(SPECIAL_TOKENS))
    masked = ids.masked_fill(selected & (group < 0.8), MASK_ID)
    to_random = selected & (group >= 0.8) & (group < 0.9)
    return torch.where(to_random, words, masked), selected


def _masking_cases() -> list[Inputs]:
    """Few words and crowded thresholds, so that every rule is at work in a case one can read."""
    generator = torch.Generator().manual_seed(5)

    def whole(low: int, high: int, shape: tuple[int, int]) -> Tensor:
        return torch.randint(low, high, shape, generator=generator)

    def draws(shape: tuple[int, int], low: int, high: int) -> Tensor:
        """Uniform draws, half of them between low and high percent; never on a threshold."""
        crowded = whole(0, 2, shape).bool()
        return (torch.where(crowded, whole(low, high, shape), whole(0, 100, shape)) + 0.5) / 100

    cases: list[Inputs] = []
    for count, shape in ((60, (1, 1)), (60, (1, 2)), (40, (1, 3)), (30, (2, 6)), (10, (4, 16))):
        for _ in range(count):
            special = whole(0, 10, shape) < 4
            ids = torch.where(special, whole(0, WORDS, shape), whole(WORDS, WORDS + 8, shape))
            words = whole(WORDS, WORDS + 8, shape)
            cases.append((ids, draws(shape, 0, 30), draws(shape, 60, 100), words))
    return cases


def _read_masking(answer: Any, ids: Tensor, *_: Tensor) -> tuple[list[Any], list[Any]]:
    first, second = exercise.read_pair(answer, "masked_ids, selected")
    masked = exercise.read_tensor(first, "masked_ids", ids.shape)
    selected = exercise.read_tensor(second, "selected", ids.shape)
    if masked.dtype == torch.bool and selected.dtype != torch.bool:
        raise UnreadableError("the two results are in the wrong order: first masked_ids.")
    if masked.is_floating_point() or masked.dtype == torch.bool:
        raise UnreadableError(
            f"masked_ids is {masked.dtype}; ids number the rows of a table, so they must stay "
            "whole numbers (torch.long)."
        )
    if ((selected != 0) & (selected != 1)).any():
        raise UnreadableError("selected holds other values than True and False.")
    return masked.tolist(), selected.bool().tolist()


def _masking_difference(inputs: Inputs, mine: Any, right: Any) -> str:
    """Point to the first token that differs."""
    for row, column in torch.ones_like(inputs[0]).nonzero().tolist():
        places = [(part[0][row][column], part[1][row][column]) for part in (mine, right)]
        if places[0] != places[1]:
            where = f"Token {column + 1}" + (f" of row {row + 1}" if len(inputs[0]) > 1 else "")
            drawn = ", ".join(
                f"{name} {exercise.plain(value[row, column].item())}"
                for name, value in zip(("id", "chance", "group", "word"), inputs, strict=True)
            )
            said = [f"{token}, {'' if asked else 'not '}selected" for token, asked in places]
            return f"{where} ({drawn}): yours gives {said[0]}; right is {said[1]}."
    return ""


def _pick(ids: Tensor, chance: Tensor) -> Tensor:
    return (chance < 0.15) & (ids >= WORDS)


def _hide(
    ids: Tensor, mask: Tensor, to_random: Tensor, words: Tensor, mask_id: int = MASK_ID
) -> Tensor:
    return torch.where(to_random, words, ids.masked_fill(mask, mask_id))


Choose = Callable[[Tensor, Tensor], Tensor]  # (ids, chance) -> selected
Between = tuple[float, float]


def _selecting(choose: Choose) -> Callable[..., tuple[Tensor, Tensor]]:
    """Make a masking that selects in its own way and then does everything right."""

    def wrong(ids: Tensor, chance: Tensor, group: Tensor, words: Tensor) -> tuple[Tensor, Tensor]:
        selected = choose(ids, chance)
        to_random = selected & (group >= 0.8) & (group < 0.9)
        return _hide(ids, selected & (group < 0.8), to_random, words), selected

    return wrong


def _grouping(
    mask: Between, to_random: Between, mask_id: int = MASK_ID
) -> Callable[..., tuple[Tensor, Tensor]]:
    """Make a masking that selects rightly, then cuts ``group`` elsewhere."""

    def wrong(ids: Tensor, chance: Tensor, group: Tensor, words: Tensor) -> tuple[Tensor, Tensor]:
        selected = _pick(ids, chance)
        masked, changed = (
            selected & (group >= low) & (group < high) for low, high in (mask, to_random)
        )
        return _hide(ids, masked, changed, words, mask_id), selected

    return wrong


def _spreading(mask: Choose, to_random: Choose) -> Callable[..., tuple[Tensor, Tensor]]:
    """Make a masking that also changes tokens outside the selected ones."""

    def wrong(ids: Tensor, chance: Tensor, group: Tensor, words: Tensor) -> tuple[Tensor, Tensor]:
        masked = mask(ids, chance) & (group < 0.8)
        changed = to_random(ids, chance) & (group >= 0.8) & (group < 0.9)
        return _hide(ids, masked, changed, words), _pick(ids, chance)

    return wrong


def _asking(ask: Callable[..., Tensor]) -> Callable[..., tuple[Tensor, Tensor]]:
    """Make a masking that changes the right tokens, and returns another ``selected``."""

    def wrong(ids: Tensor, chance: Tensor, group: Tensor, words: Tensor) -> tuple[Tensor, Tensor]:
        masked, selected = right_masking(ids, chance, group, words)
        return masked, ask(ids, masked, selected, group)

    return wrong


def _everywhere(ids: Tensor, chance: Tensor) -> Tensor:
    return torch.ones_like(ids, dtype=torch.bool)


def _all_words(ids: Tensor, chance: Tensor) -> Tensor:
    return ids >= WORDS


def _groups_from_chance(
    ids: Tensor, chance: Tensor, group: Tensor, words: Tensor
) -> tuple[Tensor, Tensor]:
    selected = _pick(ids, chance)
    to_random = selected & (chance >= 0.12) & (chance < 0.135)
    return _hide(ids, selected & (chance < 0.12), to_random, words), selected


def _unpicked_words(
    ids: Tensor, chance: Tensor, group: Tensor, words: Tensor
) -> tuple[Tensor, Tensor]:
    selected = _pick(ids, chance)
    masked = ids.masked_fill(selected & (group < 0.8), MASK_ID)
    masked[selected & (group >= 0.8) & (group < 0.9)] = words
    return masked, selected


def _words_where_not_selected(
    ids: Tensor, chance: Tensor, group: Tensor, words: Tensor
) -> tuple[Tensor, Tensor]:
    masked, selected = right_masking(ids, chance, group, words)
    return torch.where(selected, masked, words), selected


def _special_mistakes() -> list[Mistake]:
    """One mistake for every set of special tokens that may have been forgotten."""
    mistakes = []
    for count in range(WORDS, 0, -1):
        for forgotten in combinations(range(WORDS), count):

            def choose(ids: Tensor, chance: Tensor, forgotten: Sequence[int] = forgotten) -> Tensor:
                return (chance < 0.15) & (
                    (ids >= WORDS) | torch.isin(ids, torch.tensor(forgotten, dtype=ids.dtype))
                )

            *some, last = (SPECIAL_TOKENS[i] for i in forgotten)
            names = f"{', '.join(some)} and {last}" if some else last
            what = f"{names} can be selected."
            likely = f"every special token must be left out, {names} too: ids >= {WORDS}."
            if count == WORDS:
                what = "special tokens can be selected."
                likely = (
                    "nothing looks at ids when selecting. Nobody learns from guessing [CLS] or "
                    f"[PAD]: select only where ids >= {WORDS}. (pytorchic-bert means to leave "
                    "[CLS] and [SEP] out, and does not.)"
                )
            elif count == WORDS - 1 and PAD_ID not in forgotten:
                what = f"only padding is left out; {names} can be selected."
                likely = f"a test such as ids != {PAD_ID}. All {WORDS} special tokens have ids "
                likely += f"below {WORDS}: ids >= {WORDS}."
            mistakes.append(Mistake(what, likely, (_selecting(choose),)))
    return mistakes


MASKING = Exercise(
    name="masking",
    right=right_masking,
    cases=_masking_cases,
    read=_read_masking,
    differ=_masking_difference,
    first_part=1,
    tried="200 random cases, from one token to 4 rows of 16. Special tokens stay, the groups share "
    "out 80/10/10, and kept words are asked for, too.",
    start="selected = (chance < 0.15) & …: first who is selected, then what becomes of them.",
    in_place="masking writes into the original, and the loss still needs it: those are the labels. "
    "Start with masked_ids = ids.clone().",
    source=(mask_tokens, right_masking),
    mistakes=(
        *_special_mistakes(),
        Mistake(
            "the word with the lowest id is never selected.",
            f"ids > {WORDS}. The specials are 0 to {WORDS - 1}, so {WORDS} is a word: "
            f"ids >= {WORDS}.",
            (_selecting(lambda ids, chance: (chance < 0.15) & (ids > WORDS)),),
        ),
        Mistake(
            "85 % of the words are selected, not 15 %.",
            "0.15 was taken as the probability to be left alone. Selected is chance < 0.15.",
            (_selecting(lambda ids, chance: (chance >= 0.15) & (ids >= WORDS)),),
        ),
        Mistake(
            "every word is selected, whatever its chance.",
            "only one word in seven is to be predicted: add chance < 0.15.",
            (_selecting(_all_words),),
        ),
        Mistake(
            "80 % of all tokens become [MASK], not 80 % of the selected ones.",
            "group < 0.8 alone. Only selected tokens may change: selected & (group < 0.8).",
            tuple(
                _spreading(mask, to_random)
                for mask in (_everywhere, _all_words)
                for to_random in (_everywhere, _all_words, _pick)
            ),
        ),
        Mistake(
            "tokens that were not selected turn into random words.",
            "the random tenth is a tenth of the selected tokens: selected & (group >= 0.8) & "
            "(group < 0.9). Everything else keeps its id.",
            (
                _spreading(_pick, _everywhere),
                _spreading(_pick, _all_words),
                _words_where_not_selected,
            ),
        ),
        Mistake(
            "every selected token becomes [MASK]: that is 100/0/0.",
            "group is not looked at (or chance is, in its place). A model that only ever predicts "
            "at [MASK] is at a loss when fine-tuning shows it none: mask where group < 0.8.",
            (_grouping((0, 2), (2, 2)),),
        ),
        Mistake(
            "no selected token ever changes, so every answer can be read off.",
            "the changed ids are not the ones returned, or the groups are never reached. (The "
            "first BERT-pytorch of codertimo compared prob < prob * 0.8, which is never true.)",
            (_grouping((2, 2), (2, 2)),),
        ),
        Mistake(
            "no selected word is kept: that is 80/20/0.",
            "an else that is too wide. Random is 0.8 <= group < 0.9; from 0.9 on the word stays.",
            (_grouping((0, 0.8), (0.8, 2)),),
        ),
        Mistake(
            "no selected token becomes a random word: that is 80/0/20.",
            "the line for 0.8 <= group < 0.9 is missing, or a later line writes over it.",
            (_grouping((0, 0.8), (2, 2)),),
        ),
        Mistake(
            "random and kept are swapped.",
            "0.8 <= group < 0.9 takes the random word, group >= 0.9 keeps its own.",
            (_grouping((0, 0.8), (0.9, 2)),),
        ),
        Mistake(
            "[MASK] and random are swapped: 80 % become random words.",
            "group < 0.8 becomes [MASK]; 0.8 <= group < 0.9 takes the random word.",
            (
                _grouping((0.8, 0.9), (0, 0.8)),
                _grouping((0, 0.1), (0.1, 0.9)),
                _grouping((0.9, 2), (0, 0.8)),
            ),
        ),
        Mistake(
            "nothing becomes [MASK]: the random words go over it.",
            "two ifs in a row, group < 0.8 and then group < 0.9: the second is true of the first "
            "group, too. Use elif, or (group >= 0.8) & (group < 0.9).",
            (_grouping((0, 0.8), (0, 0.9)), _grouping((2, 2), (0, 0.9))),
        ),
        Mistake(
            "some of the masked tokens become random words: the groups overlap.",
            "random where group < 0.1, though group < 0.8 is [MASK] already: 70/10/20. A token "
            "belongs to one group only: random is 0.8 <= group < 0.9. (labml draws its groups "
            "independently, so that they overlap, too.)",
            (_grouping((0, 0.8), (0, 0.1)),),
        ),
        Mistake(
            "words is not picked at the places that change.",
            "masked_ids[places] = words puts a whole table into a few places. Pick the same "
            "places on both sides, words[places], or use torch.where(places, words, masked_ids).",
            (_unpicked_words,),
        ),
        Mistake(
            "your shares are right, but cut from group in another order.",
            "nothing is wrong with that but the agreement: group < 0.8 [MASK], then up to 0.9 "
            "random, the rest kept.",
            (
                _grouping((0.1, 0.9), (0, 0.1)),
                _grouping((0.2, 2), (0, 0.1)),
                _grouping((0.2, 2), (0.1, 0.2)),
                _grouping((0.1, 0.9), (0.9, 2)),
            ),
        ),
        Mistake(
            "your shares are right, but drawn from chance, and group is never used.",
            "chance says who is selected, group what becomes of them: group < 0.8.",
            (_groups_from_chance,),
        ),
        Mistake(
            "selected leaves out the tenth that stays unchanged.",
            "they must be predicted as well. Were they not, the model would learn that a word "
            "that it can see is never asked for: return the selected of the first step.",
            (_asking(lambda ids, masked, selected, group: selected & (group < 0.9)),),
        ),
        Mistake(
            "selected is where ids changed, not where tokens were chosen.",
            "masked_ids != ids. Kept words are missing there, and random words that happen to be "
            "the original: return the selected of the first step.",
            (_asking(lambda ids, masked, selected, group: masked != ids),),
        ),
        Mistake(
            "selected is true at [MASK] only.",
            "the random and the kept words must be predicted, too; that is why they are there. "
            "Return the selected of the first step.",
            (
                _asking(lambda ids, masked, selected, group: masked == MASK_ID),
                _asking(lambda ids, masked, selected, group: selected & (group < 0.8)),
            ),
        ),
        Mistake(
            "selected is upside down: true where nothing is to be predicted.",
            "a ~ too many. True means: predict here.",
            (_asking(lambda ids, masked, selected, group: ~selected),),
        ),
        Mistake(
            "selected is true at every word.",
            "selected tells the loss where to look. True only where chance < 0.15.",
            (
                _asking(lambda ids, masked, selected, group: ids >= WORDS),
                _asking(lambda ids, masked, selected, group: ids >= 0),
            ),
        ),
        *(
            Mistake(
                f"selected tokens become {SPECIAL_TOKENS[wrong_id]}, not [MASK].",
                f"id {wrong_id} is {SPECIAL_TOKENS[wrong_id]}. [MASK] is {MASK_ID}: use MASK_ID.",
                (_grouping((0, 0.8), (0.8, 0.9), wrong_id),),
            )
            for wrong_id in range(WORDS)
            if wrong_id != MASK_ID
        ),
    ),
)


def masking(function: object) -> None:
    """Check ``(ids, chance, group, words) -> (masked_ids, selected)``, all (B, S).

    Selected are words (ids from 5 on) with chance < 0.15; of these, group < 0.8 become `[MASK]`,
    0.8 <= group < 0.9 take the id in ``words``, and the rest stay.
    """
    print(exercise.judge(MASKING, function))


# -- the loss


def right_mlm_loss(logits: Tensor, labels: Tensor, selected: Tensor) -> Tensor:
    """Mean cross-entropy (B, S, V), (B, S), (B, S) -> () over selected positions only."""
    return F.cross_entropy(logits[selected], labels[selected])


def _mlm_cases() -> list[Inputs]:
    generator = torch.Generator().manual_seed(6)
    cases: list[Inputs] = []
    sizes = ((20, (1, 1, 3)), (30, (1, 2, 3)), (30, (2, 2, 3)), (30, (2, 4, 5)), (10, (4, 9, 7)))
    for count, (rows, length, vocab) in sizes:
        for _ in range(count):
            logits = torch.randn(rows, length, vocab, generator=generator).mul(20).round() / 10
            labels = torch.randint(1, vocab, (rows, length), generator=generator)
            selected = torch.rand(rows, length, generator=generator) < 0.4
            selected[0, 0] = True  # there is always something to predict
            padding = ~selected & (torch.rand(rows, length, generator=generator) < 0.4)
            cases.append((logits, labels.masked_fill(padding, PAD_ID), selected))
    return cases


def _read_number(answer: Any, *_: Any) -> float:
    return exercise.read_number(answer)


def _each(logits: Tensor, labels: Tensor, dim: int = -1) -> Tensor:
    """-ln P(label) at every position (B, S)."""
    return -logits.log_softmax(dim).gather(-1, labels[..., None])[..., 0]


def _at_blanks(logits: Tensor, labels: Tensor, selected: Tensor) -> Tensor:
    """-ln P(label) at the selected positions (n,)."""
    return _each(logits, labels)[selected]


def _mean_of_rows(logits: Tensor, labels: Tensor, selected: Tensor) -> Tensor:
    return (_each(logits, labels) * selected).sum(1) / selected.sum(1)  # NaN in a row of none


Loss = Callable[[Tensor, Tensor, Tensor], Tensor]


def _everything_scored(logits: Tensor, labels: Tensor, selected: Tensor) -> Tensor:
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten())


def _weights_after_the_mean(logits: Tensor, labels: Tensor, selected: Tensor) -> Tensor:
    weights = selected.float()
    return (_everything_scored(logits, labels, selected) * weights).sum() / weights.sum()


def _zeros_counted(logits: Tensor, labels: Tensor, selected: Tensor) -> Tensor:
    return (_each(logits, labels) * selected).mean()


def _all_but_padding(logits: Tensor, labels: Tensor, selected: Tensor) -> Tensor:
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=PAD_ID)


def _padding_as_blanks(logits: Tensor, labels: Tensor, selected: Tensor) -> Tensor:
    return right_mlm_loss(logits, labels, selected | (labels == PAD_ID))


def _summed(logits: Tensor, labels: Tensor, selected: Tensor) -> Tensor:
    return _at_blanks(logits, labels, selected).sum()


def _softmax_twice(logits: Tensor, labels: Tensor, selected: Tensor) -> Tensor:
    return right_mlm_loss(logits.softmax(-1), labels, selected)


def _scrambled(logits: Tensor, labels: Tensor, selected: Tensor) -> Tensor:
    rows, length, vocab = logits.shape
    views = logits.reshape(rows, vocab, length).transpose(1, 2)
    return right_mlm_loss(views, labels, selected)


MLM_LOSS = Exercise(
    name="mlm_loss",
    right=right_mlm_loss,
    cases=_mlm_cases,
    read=_read_number,
    tried="120 random cases, from one token to 4 rows of 9. Only selected positions count, "
    "and each counts the same.",
    start="logits[selected], which is (n, V): the rows to score, and no others.",
    in_place="labels[~selected] = -100 writes into the caller's tensor: the next user of these "
    "labels gets yours. labels.masked_fill(~selected, -100), without the _, makes a copy.",
    source=(pretraining_loss, right_mlm_loss),
    mistakes=(
        Mistake(
            "every position is scored, selected or not.",
            "selected is not used; or it comes after the mean, where it cancels (so it was in "
            "d2l-en). Pick positions first: logits[selected], labels[selected].",
            (_everything_scored, _weights_after_the_mean),
        ),
        Mistake(
            "every position is scored but padding.",
            "ignore_index=0 leaves out padding only. Words that were not selected stand in the "
            "input for all to see: pick logits[selected], labels[selected].",
            (_all_but_padding,),
        ),
        Mistake(
            "padding is scored along with the selected positions.",
            "label 0 is [PAD]: there is nothing to predict. Score where selected is true, no more.",
            (_padding_as_blanks,),
        ),
        Mistake(
            "the loss is multiplied by selected after the mean.",
            "the mean of all positions is one number; times selected.mean() it is a smaller wrong "
            "number. First pick the positions, then take their mean.",
            (
                lambda logits, labels, selected: (
                    _everything_scored(logits, labels, selected) * selected.float().mean()
                ),
            ),
        ),
        Mistake(
            "the zeros of unselected positions count in the mean.",
            "(loss * selected).mean() divides by all B·S positions, so the loss looks several "
            "times better than it is. Divide by selected.sum().",
            (_zeros_counted,),
        ),
        Mistake(
            "this is the sum over the selected positions, not their mean.",
            'reduction="sum", or a division that is missing: twice the batch would mean twice the '
            "loss. Divide by selected.sum().",
            (_summed,),
        ),
        Mistake(
            "the sum over selected positions is divided by the number of rows.",
            "rows have different numbers of blanks. Divide by selected.sum().",
            (lambda logits, labels, selected: _summed(logits, labels, selected) / len(labels),),
        ),
        Mistake(
            "the sum over selected positions is divided by the vocabulary, too.",
            "a mean over one-hot labels (n, V) divides by n·V. Sum over V, then the mean over n.",
            (
                lambda logits, labels, selected: (
                    right_mlm_loss(logits, labels, selected) / logits.shape[-1]
                ),
            ),
        ),
        Mistake(
            "each row's mean counts the same, however many blanks it has.",
            "a mean of means: one blank alone in its row weighs as much as ten in another. Put all "
            "selected positions in one list, then take the mean.",
            (
                lambda logits, labels, selected: _mean_of_rows(logits, labels, selected).nanmean(),
                lambda logits, labels, selected: _mean_of_rows(logits, labels, selected).mean(),
                lambda logits, labels, selected: (
                    _mean_of_rows(logits, labels, selected).nan_to_num().mean()
                ),
            ),
        ),
        Mistake(
            "softmax is applied twice.",
            "F.cross_entropy does its own softmax: give it the logits as they are.",
            (_softmax_twice,),
        ),
        Mistake(
            "softmax is missing: logits are treated as log probabilities.",
            "-logits[label] is no probability. Take logits.log_softmax(-1), or F.cross_entropy.",
            (
                lambda logits, labels, selected: (
                    -logits.gather(-1, labels[..., None])[..., 0][selected].mean()
                ),
            ),
        ),
        Mistake(
            "the logarithm is missing.",
            "this is a mean of probabilities. The loss is the mean of -ln P(label).",
            (
                lambda logits, labels, selected: (
                    1 - (-_at_blanks(logits, labels, selected)).exp().mean()
                ),
                lambda logits, labels, selected: (
                    -(-_at_blanks(logits, labels, selected)).exp().mean()
                ),
                lambda logits, labels, selected: (
                    (-_at_blanks(logits, labels, selected)).exp().mean()
                ),
            ),
        ),
        Mistake(
            "the logarithm is taken of the mean probability.",
            "first the logarithm at each position, then the mean: -P.log().mean().",
            (
                lambda logits, labels, selected: (
                    -(-_at_blanks(logits, labels, selected)).exp().mean().log()
                ),
            ),
        ),
        Mistake(
            "the loss is in bits.",
            "log2. Ours is in nats, so that chance is ln V: use the natural logarithm.",
            (
                lambda logits, labels, selected: (
                    right_mlm_loss(logits, labels, selected) / torch.tensor(2.0).log()
                ),
            ),
        ),
        Mistake(
            "the sign is wrong: a better model would get a higher number.",
            "ln P is never above 0. The loss is -ln P.",
            (lambda logits, labels, selected: -right_mlm_loss(logits, labels, selected),),
        ),
        Mistake(
            "the unselected positions are scored, and the selected ones are not.",
            "a ~ too many: selected is true where to predict.",
            (lambda logits, labels, selected: right_mlm_loss(logits, labels, ~selected),),
        ),
        Mistake(
            "this counts right and wrong answers; it is no loss.",
            "argmax has no slope, so nothing can be learned from it. Take -ln P(label).",
            (
                lambda logits, labels, selected: (
                    (logits.argmax(-1) != labels)[selected].float().mean()
                ),
                lambda logits, labels, selected: (
                    (logits.argmax(-1) == labels)[selected].float().mean()
                ),
            ),
        ),
        Mistake(
            "softmax runs along the sentence, not over the vocabulary.",
            "dim=1 are the positions. Each position shares out one unit over V words: dim=-1.",
            (lambda logits, labels, selected: _each(logits, labels, dim=1)[selected].mean(),),
        ),
        Mistake(
            "the logits of different positions are mixed up.",
            ".view(B, V, S) reads the numbers in another order; it does not turn the axes. Use "
            ".transpose(1, 2), or pick logits[selected] and need neither.",
            (_scrambled,),
        ),
    ),
)


def mlm_loss(function: object) -> None:
    """Check ``(logits (B, S, V), labels (B, S), selected (B, S)) -> scalar``.

    Right is the mean cross-entropy in nats over the selected positions.
    """
    print(exercise.judge(MLM_LOSS, function))


# -- a test for losses


def _right_by_weights(logits: Tensor, labels: Tensor, selected: Tensor) -> Tensor:
    return (_each(logits, labels) * selected).sum() / selected.sum()


def _right_by_ignoring(logits: Tensor, labels: Tensor, selected: Tensor) -> Tensor:
    marked = labels.masked_fill(~selected, -100)
    return F.cross_entropy(logits.flatten(0, 1), marked.flatten())


RIGHT_LOSSES: tuple[tuple[str, Loss], ...] = (
    ("with logits[selected]", right_mlm_loss),
    ("with weights: sum of losses / sum of weights", _right_by_weights),
    ("with labels of -100, which F.cross_entropy leaves out", _right_by_ignoring),
)

MUSEUM = (
    Exhibit(
        "d2l-en, issue 2582",
        "multiplies by the weights after the mean, so that they cancel",
        _weights_after_the_mean,
        "change a label where selected is False: the loss must not move.",
    ),
    Exhibit(
        "pytorchic-bert, issue 24",
        "sets unselected losses to zero, then divides by all positions",
        _zeros_counted,
        "add unselected positions, or compare with a mean done by hand.",
    ),
    Exhibit(
        "lucidrains/mlm-pytorch, issue 2",
        "scores every token that is not padding",
        _all_but_padding,
        "let a *word* be unselected, not only padding, and change its logits.",
    ),
    Exhibit(
        "graykode/nlp-tutorial",
        "scores the padding (label 0) as if it were selected",
        _padding_as_blanks,
        "put a label 0 where selected is False, and change its logits.",
    ),
    Exhibit(
        "Transformer-GCN-QA, pull request 32",
        "applies softmax before F.cross_entropy, which does so itself",
        _softmax_twice,
        "a model that is sure and right (logit 20) must get a loss near 0.",
    ),
    Exhibit(
        "many a first version",
        "returns the sum, not the mean",
        _summed,
        "select more than one position: equal logits must give ln V, however many.",
    ),
)


def right_loss_test(loss_function: Loss) -> bool:
    """Say whether a function is a right MLM loss, by one example done by hand.

    Four positions: a word to predict, a word that is not asked for, padding, a word to predict.
    All logits are different, so that whatever else is counted shows in the result.
    """
    logits = torch.tensor([[[0.0, 3.0, 1.0], [2.0, 0.0, 5.0], [1.0, 4.0, 0.0], [7.0, 1.0, 2.0]]])
    labels = torch.tensor([[1, 1, 0, 2]])
    selected = torch.tensor([[True, False, False, True]])
    first = logits[0, 0].exp() / logits[0, 0].exp().sum()
    last = logits[0, 3].exp() / logits[0, 3].exp().sum()
    by_hand = -(first[1].log() + last[2].log()) / 2
    return bool(torch.isclose(loss_function(logits, labels, selected), by_hand))


LOSS_TEST = TestExercise(
    name="loss_test",
    argument="loss_function",
    thing="loss",
    start="a small example: logits, labels and selected, and the loss worked out by hand.",
    right=RIGHT_LOSSES,
    museum=MUSEUM,
    refuses_all="it returns False on every path, or the value worked out by hand is wrong. "
    "Print that value beside what the loss function gives.",
    refuses_right="== between floats. Two right ways of computing may differ in the last "
    "digit: use torch.isclose.",
    source=(right_loss_test,),
)


def loss_test(function: object) -> None:
    """Check a learner's test: ``(loss_function) -> bool``, true if it is a right MLM loss.

    The test is run on three right losses and on the broken ones of the bug museum.
    """
    print(judge_test(LOSS_TEST, function))


# -- two measures to hold a model against


def right_unigram_loss(counts: Tensor, labels: Tensor) -> Tensor:
    """Mean -ln P(label), where P (V,) is counts (V,) plus one, shared out; labels are (n,)."""
    share = (counts + 1) / (counts.sum() + len(counts))
    return -share[labels].log().mean()


def _unigram_cases() -> list[Inputs]:
    generator = torch.Generator().manual_seed(7)
    cases: list[Inputs] = [(torch.tensor([3, 0]), torch.tensor([1]))]  # a word never counted
    for count, vocab, size in ((19, 2, 1), (30, 3, 2), (30, 5, 4), (20, 12, 30)):
        for _ in range(count):
            counts = torch.randint(0, 6, (vocab,), generator=generator)
            counts[int(torch.randint(vocab, (1,), generator=generator))] += 2
            cases.append((counts, torch.randint(vocab, (size,), generator=generator)))
    return cases


def _surprise(share: Tensor, labels: Tensor) -> Tensor:
    return -share[labels].log().mean()


UNIGRAM_LOSS = Exercise(
    name="unigram_loss",
    right=right_unigram_loss,
    cases=_unigram_cases,
    read=_read_number,
    tried="100 random cases, with words that were never counted.",
    start="share = (counts + 1) / …, which must sum to 1; then -ln of the labels' shares.",
    in_place="counts += 1 writes into the caller's counts. counts + 1 makes new ones.",
    source=(UnigramModel, right_unigram_loss),
    mistakes=(
        Mistake(
            "there is no smoothing: a word that was never counted is impossible.",
            "ln 0 is minus infinity. Give every word one count for free: counts + 1.",
            (lambda counts, labels: _surprise(counts / counts.sum(), labels),),
        ),
        Mistake(
            "the shares do not sum to 1: V is missing below the line.",
            "a count more for each of V words makes V counts more in all: counts.sum() + V.",
            (
                lambda counts, labels: _surprise((counts + 1) / counts.sum(), labels),
                lambda counts, labels: _surprise((counts + 1) / (counts.sum() + 1), labels),
            ),
        ),
        Mistake(
            "only words without a count get one for free.",
            "clamp(min=1), or an if. Every word gets one more, or a word seen once would look no "
            "more frequent than one never seen: counts + 1.",
            (
                lambda counts, labels: _surprise(
                    counts.clamp(min=1) / counts.clamp(min=1).sum(), labels
                ),
            ),
        ),
        Mistake(
            "the counts are not turned into probabilities.",
            "the logarithm of a count is no loss. Divide by counts.sum() + V first.",
            (
                lambda counts, labels: _surprise(counts + 1.0, labels),
                lambda counts, labels: -_surprise(counts + 1.0, labels),
            ),
        ),
        Mistake(
            "softmax makes the counts into probabilities.",
            "softmax is for logits: counts of 10 and 20 would become odds of 1 to 22,026. Divide "
            "by the sum.",
            (
                lambda counts, labels: _surprise(counts.float().softmax(-1), labels),
                lambda counts, labels: _surprise((counts + 1.0).softmax(-1), labels),
            ),
        ),
        Mistake(
            "this is the entropy of the distribution; the labels are not looked at.",
            "on average over all words both agree, but these labels are what there is to predict: "
            "-share[labels].log().mean().",
            (
                lambda counts, labels: torch.special.entr(
                    (counts + 1) / (counts.sum() + len(counts))
                ).sum(),
            ),
        ),
        Mistake(
            "this is the loss of guessing evenly, ln V; the counts are not looked at.",
            "frequent words are better guesses: take the labels' shares of the counts.",
            (lambda counts, labels: torch.tensor(float(len(counts))).log(),),
        ),
        Mistake(
            "this is the sum over the labels, not their mean.",
            ".mean() in place of .sum().",
            (lambda counts, labels: right_unigram_loss(counts, labels) * len(labels),),
        ),
        Mistake(
            "the loss is in bits.",
            "log2. Ours is in nats: use the natural logarithm, .log().",
            (lambda counts, labels: right_unigram_loss(counts, labels) / torch.tensor(2.0).log(),),
        ),
        Mistake(
            "the sign is wrong.",
            "ln P is never above 0. The loss is -ln P.",
            (lambda counts, labels: -right_unigram_loss(counts, labels),),
        ),
        Mistake(
            "the logarithm is taken of the mean probability.",
            "first the logarithm of each, then the mean: share[labels].log().mean().",
            (
                lambda counts, labels: (
                    -((counts + 1) / (counts.sum() + len(counts)))[labels].mean().log()
                ),
            ),
        ),
        Mistake(
            "this is the perplexity, not the loss.",
            "perplexity is exp(loss). Leave out exp.",
            (lambda counts, labels: right_unigram_loss(counts, labels).exp(),),
        ),
    ),
)


def unigram_loss(function: object) -> None:
    """Check ``(counts (V,), labels (n,)) -> scalar``.

    Right is the mean of -ln P(label), with P = (counts + 1) / (sum of counts + V).
    """
    print(exercise.judge(UNIGRAM_LOSS, function))


def right_accuracy(logits: Tensor, labels: Tensor) -> float:
    """Share of the n positions at which the label has the highest of V logits."""
    return float((logits.argmax(dim=-1) == labels).float().mean())


def _accuracy_cases() -> list[Inputs]:
    generator = torch.Generator().manual_seed(8)
    cases: list[Inputs] = []
    for count, size, vocab in ((20, 1, 3), (30, 2, 3), (30, 4, 4), (20, 9, 6)):
        for _ in range(count):
            places = torch.randperm(3 * size * vocab, generator=generator)[: size * vocab]
            logits = (places.view(size, vocab) - size * vocab) / 4  # no two alike
            labels = torch.randint(vocab, (size,), generator=generator)
            known = torch.rand(size, generator=generator) < 0.4
            cases.append((logits, torch.where(known, logits.argmax(-1), labels)))
    return cases


def _probabilities(logits: Tensor, labels: Tensor) -> Tensor:
    return logits.softmax(-1).gather(-1, labels[:, None])[:, 0]


def _one_hot(logits: Tensor) -> Tensor:
    return F.one_hot(logits.argmax(-1), logits.shape[-1])


ACCURACY = Exercise(
    name="accuracy",
    right=right_accuracy,
    cases=_accuracy_cases,
    read=_read_number,
    tried="100 random cases, from one position to 9.",
    start="logits.argmax(dim=-1), the best word at each position.",
    source=(sum_by_pair, right_accuracy),
    mistakes=(
        Mistake(
            "argmax runs over the positions, not over the words.",
            "dim=0 finds the best position for each word. The best word for each position is "
            "logits.argmax(dim=-1).",
            (
                lambda logits, labels: (logits.argmax(0) == labels).float().mean(),
                lambda logits, labels: (logits.argmax(0) == labels).sum() / len(labels),
            ),
        ),
        Mistake(
            "argmax runs over the whole table.",
            "without dim, argmax gives one number for all positions: argmax(dim=-1).",
            (lambda logits, labels: (logits.argmax() == labels).float().mean(),),
        ),
        Mistake(
            "the right answers are divided by the vocabulary, too.",
            "a mean over (n, V) divides by n·V; there are n answers, so divide by n.",
            (
                lambda logits, labels: right_accuracy(logits, labels) / logits.shape[-1],
                lambda logits, labels: (
                    right_accuracy(logits, labels) * len(labels) / logits.shape[-1]
                ),
            ),
        ),
        Mistake(
            "this is the share of (position, word) cells that agree.",
            "almost all cells of two one-hot tables are 0 in both, so it looks high. Compare "
            "argmax(dim=-1) with labels, one answer a position.",
            (
                lambda logits, labels: (
                    (_one_hot(logits) == F.one_hot(labels, logits.shape[-1])).float().mean()
                ),
            ),
        ),
        Mistake(
            "the least likely word is taken.",
            "argmin, or a minus sign. The model's answer is the highest logit: argmax.",
            (lambda logits, labels: right_accuracy(-logits, labels),),
        ),
        Mistake(
            "this is the mean probability of the labels.",
            "accuracy asks only which word comes first, however narrowly: compare argmax(dim=-1) "
            "with labels.",
            (lambda logits, labels: _probabilities(logits, labels).mean(),),
        ),
        Mistake(
            "this counts labels whose probability is above one half.",
            "a word can come first with much less. Compare argmax(dim=-1) with labels.",
            (lambda logits, labels: (_probabilities(logits, labels) > 0.5).float().mean(),),
        ),
        Mistake(
            "this is the number of right answers, not their share.",
            ".sum() where .mean() is wanted: divide by len(labels).",
            (lambda logits, labels: right_accuracy(logits, labels) * len(labels),),
        ),
        Mistake(
            "this is in percent.",
            "a share lies between 0 and 1. Leave out the 100.",
            (lambda logits, labels: right_accuracy(logits, labels) * 100,),
        ),
        Mistake(
            "this is the share of wrong answers.",
            "!= where == is wanted.",
            (lambda logits, labels: 1 - right_accuracy(logits, labels),),
        ),
    ),
)


def accuracy(function: object) -> None:
    """Check ``(logits (n, V), labels (n,)) -> float``, the share of right answers."""
    print(exercise.judge(ACCURACY, function))


SOLUTIONS: tuple[tuple[str, tuple[Any, ...]], ...] = (
    *((e.name, e.source) for e in (MASKING, MLM_LOSS)),
    (LOSS_TEST.name, LOSS_TEST.source),
    *((e.name, e.source) for e in (UNIGRAM_LOSS, ACCURACY)),
)
