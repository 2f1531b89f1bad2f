"""ALBERT's question: are two neighbors in their order, or exchanged? (Lan et al. 2019, section 3.1)

`python -m course.experiments.sentence_order` trains `bert-L2H128` further on one question: to tell
the real pairs of the training articles from pairs with a B of another document (NSP), or from the
same pairs exchanged (SOP). Start, real pairs, batches and steps are the same. Both are asked
about the wrong pairs of the test articles. It adds to `data/results/sentence_order.csv` what it
lacks; some ten minutes on one core.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from typing import cast

import torch
from torch import Tensor
from torch.nn import functional as F

from bertedu.files import Row
from bertedu.model.bert import BertForPreTraining
from bertedu.model.checkpoints import load_named
from bertedu.pretraining.next_sentence import Pair
from bertedu.text.corpus import DEFAULT_CORPORA, load_documents
from bertedu.text.fast_tokenizer import load_tokenizer
from course.experiments.fitting import train
from course.experiments.wrong_pairs import ask, chance_of_next, score_kinds, spoil_pairs
from course.results.study import grid, study

START = "bert-L2H128"
QUESTIONS = {"NSP": "other document", "SOP": "swapped"}  # what the wrong pairs are
STEPS, BATCH, RATE = 1200, 32, 5e-4


@cache
def pairs_of(split: str) -> tuple[dict[str, list[Pair]], Tensor]:
    """Return the real pairs of a split, each kind of wrong ones, and each pair's document (N,)."""
    documents = [d for corpus in DEFAULT_CORPORA for d in load_documents(corpus)]
    return spoil_pairs([d for d in documents if d.split == split], load_tokenizer())


def draw_pairs(
    real: Sequence[Pair], wrong: Sequence[Pair], generator: torch.Generator
) -> list[Pair]:
    """Draw as many real pairs as wrong ones, each wrong one made of another real one."""
    some = torch.randperm(len(real), generator=generator)[:BATCH].tolist()
    return [wrong[i] if n % 2 else real[i] for n, i in enumerate(some)]


def run(judge: str, seed: int) -> Iterator[Row]:
    """Train on one question, and judge the test pairs: a row for each kind of wrong pair."""
    model = cast(BertForPreTraining, load_named(START)[0])
    if judge in QUESTIONS:
        pairs, _ = pairs_of("train")
        real, wrong = pairs["real"], pairs[QUESTIONS[judge]]

        def loss(generator: torch.Generator) -> Tensor:
            return F.cross_entropy(*ask(model, draw_pairs(real, wrong, generator)))

        train(model.train(), loss, seed, STEPS, RATE)
    pairs, document = pairs_of("test")
    chances = {kind: chance_of_next(model, some) for kind, some in pairs.items()}
    yield from score_kinds(judge, chances, document, None)[1:]


PLAN = grid(run, judge=[START], seed=[0]) + grid(run, judge=QUESTIONS, seed=range(3))

if __name__ == "__main__":
    study(sentence_order=PLAN)
