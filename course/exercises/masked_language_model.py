"""The exercises of notebook 05: masking, the loss over blanks, a test for losses, the loop."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from bertedu.pretraining.masking import mask_tokens
from bertedu.pretraining.objective import pretraining_loss
from bertedu.text.tokenization import CLS_ID, MASK_ID, PAD_ID, SPECIAL_TOKENS
from course.exercises import judge
from course.exercises.judge import Exercise, Inputs, UnreadableError, drawer, named, read_numbers
from course.exercises.museum import TestExercise

WORDS = len(SPECIAL_TOKENS)  # ids below are special


def _masking_cases() -> Iterator[Inputs]:
    """Few words and crowded thresholds, so that every rule is at work in a case one can read."""
    whole = partial(torch.randint, generator=torch.Generator().manual_seed(5))

    def draws(shape: tuple[int, int], low: int, high: int) -> Tensor:
        """Uniform draws, half of them between low and high percent; never on a threshold."""
        crowded = whole(0, 2, shape).bool()
        return (torch.where(crowded, whole(low, high, shape), whole(0, 100, shape)) + 0.5) / 100

    sizes = [(1, 1)] * 60 + [(1, 2)] * 60 + [(1, 3)] * 40 + [(2, 6)] * 30 + [(4, 16)] * 10
    for shape in sizes:
        special = whole(0, 10, shape) < 4
        ids = torch.where(special, whole(0, WORDS, shape), whole(WORDS, WORDS + 8, shape))
        words = whole(WORDS, WORDS + 8, shape)
        yield ids, draws(shape, 0, 30), draws(shape, 60, 100), words


def _read_masking(answer: Any, ids: Tensor, *_: Tensor) -> tuple[list[Any], list[Any]]:
    first, second = judge.read_parts(answer, "masked_ids, selected")
    masked = judge.read_ids(first, "masked_ids", ids.shape)
    selected = judge.read_tensor(second, "selected", ids.shape)
    if ((selected != 0) & (selected != 1)).any():
        raise UnreadableError("selected holds values other than True and False.")
    return masked.tolist(), selected.bool().tolist()


def _masking_difference(inputs: Inputs, mine: Any, right: Any) -> str:
    """Point to the first token that differs."""
    for row, column in torch.ones_like(inputs[0]).nonzero().tolist():
        pairs = [(part[0][row][column], part[1][row][column]) for part in (mine, right)]
        if pairs[0] != pairs[1]:
            where = f"Token {column + 1}" + (f" of row {row + 1}" if len(inputs[0]) > 1 else "")
            drawn = ", ".join(
                f"{name} {judge.plain(value[row, column].item())}"
                for name, value in zip(("id", "chance", "group", "word"), inputs, strict=True)
            )
            said = [f"{token}, {'' if asked else 'not '}selected" for token, asked in pairs]
            return f"{where} ({drawn}): yours gives {said[0]}; it should give {said[1]}."
    return ""


@Exercise.asking(
    asks="(ids, chance, group, words) -> (masked_ids, selected), all (B, S). Selected are words "
    "(ids from 5 on) with chance < 0.15; of these, group < 0.8 become [MASK], 0.8 <= group < 0.9 "
    "take the id in words, and the rest stay",
    cases=_masking_cases,
    read=_read_masking,
    differ=_masking_difference,
    first_part=1,
    tried="200 random cases, from one token to 4 rows of 16. Special tokens stay, the groups are "
    "80/10/10, and kept words are to be guessed, too.",
    start="selected = (chance < 0.15) & …: first what is selected, then what becomes of it.",
    in_place="masking writes into the original, which the loss still needs as its labels. "
    "Start with masked_ids = ids.clone().",
    beside=(mask_tokens,),
    mistakes="""
    ✗ special tokens can be selected.
      your selection does not look at ids. There is nothing to learn from guessing [CLS] or [PAD]:
      select only where ids >= 5. (pytorchic-bert means to leave out [CLS] and [SEP], but does not.)
    | & (ids >= len(SPECIAL_TOKENS)) =>
    ✗ one word, the one with id 5, can never be selected.
      ids > 5 leaves it out. The special tokens are 0 to 4, so words are ids >= 5.
    | ids >= len(SPECIAL_TOKENS) => ids > len(SPECIAL_TOKENS)
    ✗ one of the two replacements is lost.
      the second torch.where begins from ids again, without what the first one did. Give it the
      first one's result: torch.where(to_random, words, changed).
    | torch.where(to_random, words, masked) => torch.where(to_random, words, ids)
    | torch.where(to_random, words, masked) => masked
    ✗ 80 % of all tokens become [MASK], not 80 % of the selected ones.
      group < 0.8 alone is not enough. Only selected tokens may change: selected & (group < 0.8).
    | selected & (group < 0.8) => group < 0.8
    ✗ no selected word is kept: that is 80/20/0.
      an else may be too wide. Random is 0.8 <= group < 0.9; from 0.9 on, the word stays.
    | group < 0.9 => group < 1
    ✗ selected is where ids changed, not where tokens were chosen.
      masked_ids != ids misses the kept words, and random words that happen to be the original:
      return the selected of the first step.
    | return torch.where(to_random, words, masked), selected => masked = torch.where(to_random,
      words, masked); return masked, masked != ids
    """,
)
def right_masking(
    ids: Tensor, chance: Tensor, group: Tensor, words: Tensor
) -> tuple[Tensor, Tensor]:
    """Hide 15 % of the words 80/10/10; all four inputs and both answers are (B, S)."""
    selected = (chance < 0.15) & (ids >= len(SPECIAL_TOKENS))
    masked = ids.masked_fill(selected & (group < 0.8), MASK_ID)
    to_random = selected & (group >= 0.8) & (group < 0.9)
    return torch.where(to_random, words, masked), selected


def _mlm_cases() -> Iterator[Inputs]:
    generator = torch.Generator().manual_seed(6)
    sizes = [(1, 1, 3)] * 20 + [(1, 2, 3)] * 30 + [(2, 2, 3)] * 30 + [(2, 4, 5)] * 30
    for rows, length, vocab in sizes + [(4, 9, 7)] * 10:
        logits = torch.randn(rows, length, vocab, generator=generator).mul(20).round() / 10
        labels = torch.randint(vocab, (rows, length), generator=generator)
        selected = torch.rand(rows, length, generator=generator) < 0.4
        selected[0, 0] = True  # there is always something to predict
        padding = ~selected & (torch.rand(rows, length, generator=generator) < 0.4)
        yield logits, labels.masked_fill(padding, PAD_ID), selected


@Exercise.asking(
    asks="(logits (B, S, V), labels (B, S), selected (B, S)) -> scalar, the mean cross-entropy in "
    "nats over the selected positions",
    cases=_mlm_cases,
    tried="120 random cases, from one token to 4 rows of 9. Only selected positions count, "
    "and each counts the same.",
    start="logits[selected], which is (n, V): the rows to score, and no others.",
    in_place="labels[~selected] = -100 writes into the caller's tensor: the next user of these "
    "labels gets yours. labels.masked_fill(~selected, -100), without the _, makes a copy.",
    beside=(pretraining_loss,),
    mistakes="""
    ✗ every position is scored, selected or not.
      selected is not used; or it comes after the mean, where it cancels (as it once did in d2l-en).
      Pick positions first: logits[selected], labels[selected].
    | logits[selected], labels[selected] => logits.flatten(0, 1), labels.flatten()
    ✗ the zeros of unselected positions are counted in the mean.
      (loss * selected).mean() divides by all B·S positions, so the loss looks several times better
      than it is. Divide by selected.sum().
    | labels[selected]) => labels[selected]) * selected.float().mean()
    ✗ this is the sum over the selected positions, not their mean.
      reduction="sum", or a missing division: twice the batch would mean twice the loss.
      Divide by selected.sum().
    | labels[selected]) => labels[selected], reduction="sum")
    ✗ softmax is applied twice.
      F.cross_entropy applies softmax itself: give it the scores as they are.
    | logits[selected] => logits[selected].softmax(-1)
    """,
)
def right_mlm_loss(logits: Tensor, labels: Tensor, selected: Tensor) -> Tensor:
    """Mean cross-entropy (B, S, V), (B, S), (B, S) -> () over selected positions only."""
    return F.cross_entropy(logits[selected], labels[selected])


def _by_weights(logits: Tensor, labels: Tensor, selected: Tensor) -> Tensor:
    each = F.cross_entropy(logits.transpose(1, 2), labels, reduction="none")
    return (each * selected).sum() / selected.sum()


def _by_ignoring(logits: Tensor, labels: Tensor, selected: Tensor) -> Tensor:
    return F.cross_entropy(logits.transpose(1, 2), labels.masked_fill(~selected, -100))


@TestExercise.asking(
    asks="(loss_function) -> bool, true if it is a right MLM loss. The test is run on three right "
    "losses and on the broken ones of the bug museum",
    thing="loss",
    start="a small example: logits, labels and selected, and the loss worked out by hand.",
    right=(
        ("with logits[selected]", right_mlm_loss),
        ("with weights: sum of losses / sum of weights", _by_weights),
        ("with labels of -100, which F.cross_entropy leaves out", _by_ignoring),
    ),
    refuses_all="it returns False on every path, or the value worked out by hand is wrong. "
    "Print that value beside what the loss function gives.",
    refuses_right="it uses == between floats. Two right ways of computing may differ in the last "
    "digit: use torch.isclose.",
    museum="""
    ✗ d2l-en, issue 2582: multiplies by the weights after the mean, so that they cancel.
      change a label where selected is False: the loss must not move.
    | logits[selected], labels[selected]) => logits.flatten(0, 1), labels.flatten()) *
      selected.sum() / selected.sum()
    ✗ pytorchic-bert, issue 24: sets unselected losses to zero, then divides by all positions.
      add unselected positions, or compare with a mean done by hand.
    | labels[selected]) => labels[selected], reduction="sum") / labels.numel()
    ✗ lucidrains/mlm-pytorch, issue 2: scores every token that is not padding.
      let a *word* be unselected, not only padding, and change one of its logits (not all of them
      by the same number: softmax ignores that).
    | [selected] => [labels != 0]
    ✗ graykode/nlp-tutorial: scores the padding (label 0) as if it were selected.
      put a label 0 where selected is False, and change one of its logits.
    | [selected] => [selected | (labels == 0)]
    ✗ Transformer-GCN-QA, pull request 32: applies softmax before F.cross_entropy, which does so
    itself.
      a model that is sure and right (logit 20) must get a loss near 0.
    | logits[selected] => logits[selected].softmax(-1)
    """,
)
def right_loss_test(loss_function: Callable[[Tensor, Tensor, Tensor], Tensor]) -> bool:
    """Say whether a function is a right MLM loss, by one example done by hand.

    Four positions: a word to predict, a word that is not asked for, padding, a word to predict.
    All logits are different, so that anything else that is counted shows in the result.
    """
    logits = torch.tensor([[[0.0, 3.0, 1.0], [2.0, 0.0, 5.0], [1.0, 4.0, 0.0], [7.0, 1.0, 2.0]]])
    labels = torch.tensor([[1, 1, 0, 2]])
    selected = torch.tensor([[True, False, False, True]])
    first = logits[0, 0].exp() / logits[0, 0].exp().sum()
    last = logits[0, 3].exp() / logits[0, 3].exp().sum()
    by_hand = -(first[1].log() + last[2].log()) / 2
    return bool(torch.isclose(loss_function(logits, labels, selected), by_hand))


# -- the loop


class _Model:
    """A model of two tables, which reads a word and the mean of the real ones around it."""

    def __init__(self, draw: Callable[..., Tensor], vocab: int) -> None:
        self.w = {"in": draw(vocab, 3), "out": draw(3, vocab), "of another head": draw(2)}
        for weight in self.w.values():
            weight.requires_grad_()

    def __call__(self, ids: Tensor, segments: Any, real: Tensor) -> tuple[Tensor, Tensor]:
        x = self.w["in"][ids]  # (B, S, 3)
        mean = (x * real[..., None]).sum(1, keepdim=True) / real.sum(1)[:, None, None]
        return (x + mean) @ self.w["out"], self.w["of another head"]

    @torch.no_grad()
    def update(self, gradients: list[Tensor], rate: float) -> None:
        for weight, gradient in zip(self.w.values(), gradients, strict=True):
            weight -= rate * gradient


def _hide(batch: Tensor) -> tuple[Tensor, Tensor]:
    """Hide the first word of each row, and every third id; no dice, so that all hide alike."""
    selected = (batch % 3 == 0) & (batch >= WORDS)
    selected[:, 1] = True
    return batch.masked_fill(selected, MASK_ID), selected


def _pretrain_cases() -> Iterator[Inputs]:
    draw, whole = drawer(9), partial(torch.randint, generator=torch.Generator().manual_seed(9))
    for rows, steps in [(1, 1)] * 4 + [(2, 2)] * 8 + [(3, 5)] * 8:
        text = whole(WORDS, 12, (4, 6))
        text[:, 0], text[1:, 4:] = CLS_ID, PAD_ID
        draws = [whole(0, 4, (rows,)) for _ in range(steps)]
        rates = [0.5 / (1 + i) for i in range(steps)]
        model = named("(a model of two tables)", _Model(draw, 12))
        yield model, text, draws, named("hide", _hide), rates


@Exercise.asking(
    asks="(model, text (N, S), draws, hide, rates) -> the loss of each step, a list. "
    "hide(batch) -> changed, selected; model(changed, None, real) -> word scores (B, S, V), pair "
    "scores; model.update(gradients, rate) moves the weights, which are in the dictionary model.w",
    cases=_pretrain_cases,
    read=lambda answer, *inputs: read_numbers(answer, "your list of losses", (len(inputs[-1]),)),
    tried="20 runs of one step to five, on batches of one row to three, with padding.",
    start="for rows, rate in zip(draws, rates): and in it batch = text[rows]. What does the model "
    "read, and what should it have said?",
    mistakes="""
    ✗ the model reads what it should guess.
      it copies, and the loss falls for nothing: give it changed, not batch.
    | model(changed => model(batch
    ✗ the answers are taken from the changed text: the model learns to say [MASK].
      what should stand there is in batch: batch[selected].
    | batch[selected] => changed[selected]
    ✗ every position is scored, and not only what was selected.
      words[selected] and batch[selected]: the rest stands in the input.
    | words[selected], batch[selected] => words.flatten(0, 1), batch.flatten()
    ✗ the weights never move.
      gradients say which way; model.update(list(gradients), rate) goes there.
    | model.update(list(gradients), rate) =>
    ✗ padding is read as if it were words.
      the third thing that the model takes says which tokens are real: batch != PAD_ID.
    | batch != PAD_ID => torch.ones_like(batch).bool()
    ✗ every step has the first rate.
      the rates change from step to step: zip(draws, rates).
    | rate) => rates[0])
    """,
)
def right_pretrain(
    model: Any, text: Tensor, draws: list[Tensor], hide: Any, rates: list[float]
) -> list[float]:
    """Train on text (N, S), one step for each draw of rows (B,); return the losses."""
    losses = []
    for rows, rate in zip(draws, rates, strict=True):
        batch = text[rows]
        changed, selected = hide(batch)
        words, _ = model(changed, None, batch != PAD_ID)
        loss = F.cross_entropy(words[selected], batch[selected])
        weights = list(model.w.values())
        gradients = torch.autograd.grad(loss, weights, materialize_grads=True)
        model.update(list(gradients), rate)
        losses.append(loss.item())
    return losses
