"""Both sides together, or each by itself? The toy language knows what the difference is worth.

A pair reads the left with one model, the right with another, and here joins their answers about the
word. Joined so, two perfect readers lose something: given the hidden word, the two sides are not
independent (both tell of the same animal). Their loss is the limit of this join, above that of a
perfect reader of both sides at once. Joined by the language's hidden states, nothing would be
lost (notebook 13): the limit says nothing about pairs in general.
"""

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from bertedu.pretraining.toy import Questions, Trained, held_out_questions, toy_log_chances
from bertedu.results.files import Row
from bertedu.text.tokenization import SPECIAL_TOKENS

TELLING = math.log(4)  # nats by which one side must tell more of a word than the other
JOINED = "joined"


def join(left: Tensor, right: Tensor, prior: Tensor) -> Tensor:
    """Multiply what two sides say of each word, divide by what both knew before: (N, W) each, log.

    Right if the sides were independent given the word; the result is made to add up to 1.
    """
    return torch.where(prior > -torch.inf, left + right - prior, -torch.inf).log_softmax(-1)


def told_by(questions: Questions) -> dict[str, Tensor]:
    """Return which questions (N,) are all, told by the left, and told by the right.

    A side tells if a perfect reader of it finds the word at least four times as likely as a
    perfect reader of the other side.
    """
    gain = questions.limits["right-to-left"] - questions.limits["left-to-right"]
    return {"all": gain == gain, "left": gain >= TELLING, "right": gain <= -TELLING}


def score_sides(trained: Trained) -> list[Row]:
    """Score trained models, and pairs of one-way ones of equal seed, by the side that tells.

    Beside the loss stands what a perfect reader of that kind pays on the same words (mean nats).
    Over all words that is the limit; among words that were chosen for what stood there, a model may
    be luckier.
    """
    questions = held_out_questions()
    answers = questions.answers - len(SPECIAL_TOKENS)  # as columns of the language
    neither = questions.exact[False, False]
    joined = join(questions.exact[True, False], questions.exact[False, True], neither)
    perfect: dict[str, Tensor] = dict(questions.limits.items())
    perfect[JOINED] = F.nll_loss(joined, answers, reduction="none")
    rows: list[Row] = []
    for seed in sorted({seed for _, seed in trained}):
        chances: dict[str, Tensor] = {
            direction: toy_log_chances(model, questions)[:, len(SPECIAL_TOKENS) :].double()
            for (direction, of), model in trained.items()
            if of == seed
        }
        chances[JOINED] = join(chances["left-to-right"], chances["right-to-left"], neither)
        for reader, said in chances.items():
            losses = F.nll_loss(said, answers, reduction="none")
            for side, some in told_by(questions).items():
                loss, best = (scores[some].double().mean() for scores in (losses, perfect[reader]))
                row = {"reader": reader, "seed": seed, "told_by": side, "words": int(some.sum())}
                row |= {"loss": round(loss.item(), 4), "perfect": round(best.item(), 4)}
                rows.append(row)
    return rows
