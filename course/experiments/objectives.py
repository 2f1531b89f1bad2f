"""After BERT, another question: five ideas on the toy language, where the best answer is known.

``python -m course.experiments.objectives`` adds to `data/results/objectives.csv` what it lacks;
some 10 minutes on one core. Each seed draws weights, batches and blanks; held-out texts stay.
"""

from collections.abc import Iterator
from functools import cache
from itertools import combinations
from statistics import mean
from timeit import repeat

import torch
from torch import Tensor
from torch.nn import functional as F

from bertedu.files import Row
from bertedu.model.bert import BertForPreTraining
from bertedu.model.inference import evaluating
from bertedu.model.variants.distillation import distillation_loss, every_second_layer
from bertedu.model.variants.electra import DETECTOR_WEIGHT, Electra
from bertedu.model.variants.xlnet import XLNet
from bertedu.text.tokenization import MASK_ID, PAD_ID
from course.experiments import toy_readers as toy
from course.experiments.fitting import fit, train
from course.experiments.toy_language import mutual_information, pair_posterior
from course.experiments.toy_readers import CONFIG, RATE, excess, few, row, text
from course.results.study import grid, study

PASSED, NO_HEAD = toy.weights(CONFIG, RATE), toy.weights(CONFIG, 0)  # weights a token goes through


def roberta(seed: int) -> Iterator[Row]:
    """200 sentences, again and again: ten fixed sets of blanks, or fresh ones."""
    ids, generator = text(seed)[1][:200], torch.Generator().manual_seed(100 + seed)
    tenfold = ids.repeat(10, 1)
    for reader in ("ten fixed sets", "fresh blanks"):
        model, blanks = toy.new_mlm(seed), toy.singles(tenfold, generator)

        def fixed(
            of: torch.Generator, model: BertForPreTraining = model, blanks: Tensor = blanks
        ) -> Tensor:
            some = toy.drawn(torch.arange(len(tenfold)), of)
            return toy.mlm_loss(model, tenfold[some], blanks[some])

        fresh = toy.mlm(model, toy.singles, ids)
        train(model, fixed if reader == "ten fixed sets" else fresh, seed, 600)
        with evaluating(model):
            training = toy.mlm_loss(model, tenfold, blanks).item()
        yield row(reader, "training loss", training, 600, PASSED)
        yield row(reader, "held-out excess", excess(model), 600, PASSED)
        yield row(reader, "topic from few", few(model.bert, seed), 600, PASSED)


@cache
def pairs(least: float = 0.3, count: int = 400) -> tuple[list[tuple[int, int, int]], float]:
    """Return held-out (row, position, position) whose words tell at least so many nats of each
    other, given all others, and the mean of what they tell: exact."""
    told = {}
    for number, sentence in enumerate(text(10_000, toy.HELD_OUT)[0][:count]):
        for i, j in combinations(range(len(sentence)), 2):
            joint = pair_posterior(toy.LANGUAGE, sentence, i, j)
            told[number, i + 1, j + 1] = mutual_information(joint)
    chosen = [at for at, nats in told.items() if nats >= least]
    return chosen, mean(told[at] for at in chosen)


def two_blanks(model: BertForPreTraining | XLNet, in_turn: bool) -> float:
    """Nats that a model pays for both words of a held-out pair: guessed at once, or in turn.

    In turn, BERT is asked twice, and the first word is filled in; XLNet reads it in one pass.
    """
    chosen, ids, total = torch.tensor(pairs()[0]), text(10_000, toy.HELD_OUT)[1], 0.0
    for positions in torch.tensor(sorted({at[1:] for at in pairs()[0]})):  # rows with these blanks
        words = ids[chosen[(chosen[:, 1:] == positions).all(dim=1), 0]]
        real = words != PAD_ID
        if isinstance(model, XLNet):
            others = [i for i in range(ids.shape[1]) if i not in positions]
            scores = model(words, torch.tensor([*others, *positions]), real)[:, positions]
        else:
            hidden = words.index_fill(1, positions, MASK_ID)
            scores = model(hidden, padding_mask=real)[0][:, positions]
            if in_turn:
                hidden = words.index_fill(1, positions[1:], MASK_ID)
                scores[:, 1] = model(hidden, padding_mask=real)[0][:, positions[1]]
        total += F.cross_entropy(scores.mT, words[:, positions], reduction="sum").item()
    return total / len(chosen)


def xlnet(seed: int) -> Iterator[Row]:
    """Two blanks that tell each other: BERT at once, BERT asked twice, XLNet; nats a pair."""
    for reader, steps in (("BERT", 600), ("BERT, equal operations", 1200)):
        bert = toy.trained_mlm(seed, steps)
        with evaluating(bert):
            yield row(reader, "at once", two_blanks(bert, False), steps, PASSED)
            yield row(reader, "in turn", two_blanks(bert, True), steps, PASSED)
    torch.manual_seed(seed)
    model = XLNet(CONFIG)

    def loss(rng: torch.Generator) -> Tensor:
        batch = toy.drawn(text(seed)[1], rng)
        order = torch.randperm(batch.shape[1], generator=rng)  # a new one for each batch
        late = order.argsort() >= round((1 - RATE) * len(order))  # as many as are masked
        asked = late & (batch >= toy.FIRST)
        return F.cross_entropy(model(batch, order, batch != PAD_ID)[asked], batch[asked])

    train(model, loss, seed, 600)
    with evaluating(model):
        value = two_blanks(model, in_turn=True)
    yield row("XLNet", "in turn", value, 600, PASSED + NO_HEAD)  # two streams


def electra(seed: int) -> Iterator[Row]:
    """The topic from few examples against operations: ELECTRA, and MLM at two rates."""
    both, ids = NO_HEAD + toy.weights(toy.SMALL, RATE / 2), text(seed)[1]
    for rate, masking in ((15, toy.half_as_many), (30, toy.singles)):
        model, passed = toy.new_mlm(seed), toy.weights(CONFIG, rate / 100)
        steps = round(400 * both / passed)
        for step in fit(model, toy.mlm(model, masking, ids), seed, steps):
            if step in (round(steps / 2), steps):
                value = few(model.bert, seed)
                yield row(f"MLM at {rate} %", "topic from few", value, step, passed)
    for where in ("every word", "15 % of words"):
        torch.manual_seed(seed)
        pair = Electra(CONFIG, toy.SMALL.hidden_size)

        def loss(rng: torch.Generator, pair: Electra = pair, where: str = where) -> Tensor:
            masked = toy.half_as_many(batch := toy.drawn(ids, rng), rng)
            everywhere, real = where == "every word", batch != PAD_ID
            guess, found = pair(batch, masked, masked == MASK_ID, rng, real, everywhere)
            return guess + DETECTOR_WEIGHT * found

        for step in fit(pair, loss, seed, 400):
            if step in (200, 400):
                value = few(pair.detector, seed)
                yield row(f"ELECTRA, {where}", "topic from few", value, step, both)
        value = excess(pair.generator, toy.half_as_many)
        yield row(f"ELECTRA, {where}", "generator's excess", value, 400, both)


def distilbert(seed: int) -> Iterator[Row]:
    """A teacher of 4 layers; students of 2: alone, taught, made of its layers, and both."""
    ids, all_layers = text(seed)[1], toy.weights(toy.LARGE, RATE)
    teacher = toy.trained_mlm(seed, 600, config=toy.LARGE).eval().requires_grad_(False)
    yield row("teacher", "excess", excess(teacher), 600, all_layers)
    for reader in ("alone", "taught", "its layers", "its layers, taught"):
        student = every_second_layer(teacher) if "layers" in reader else toy.new_mlm(seed)

        def taught(generator: torch.Generator, student: BertForPreTraining = student) -> Tensor:
            masked = toy.singles(batch := toy.drawn(ids, generator), generator)
            hidden = masked == MASK_ID
            asked = {"padding_mask": batch != PAD_ID, "selected": hidden}
            scores, (told, _) = student(masked, **asked)[0], teacher(masked, **asked)
            hard = F.cross_entropy(scores, batch[hidden])
            return (hard + distillation_loss(scores, told)) / 2

        alone = toy.mlm(student, toy.singles, ids)
        train(student, taught if "taught" in reader else alone, seed, 150)
        passed = PASSED + ("taught" in reader) * all_layers / 3  # forward: a third of training
        yield row(reader, "excess", excess(student), 150, passed)
    faster = seconds(teacher) / seconds(student)
    yield row("its layers, taught", "times faster", faster, 150, passed)


def seconds(model: BertForPreTraining) -> float:
    """Time one pass over the held-out sentences: the fastest of ten."""
    ids = text(10_000, toy.HELD_OUT)[1]
    with evaluating(model):
        return min(repeat(lambda: model.bert(ids, padding_mask=ids != PAD_ID), number=1, repeat=10))


def mmbert(seed: int) -> Iterator[Row]:
    """Blanks at 15 % or at 30 %, or falling, for as large shares of the steps as in the paper."""
    for reader, phases in (
        ("15 %", [0.15] * 600),
        ("30 %", [0.30] * 600),
        ("30, 15, 5 %", [0.30] * 460 + [0.15] * 120 + [0.05] * 20),  # of 2.3, 0.6, 0.1 T tokens
    ):
        model, rates = toy.new_mlm(seed), iter(phases)

        def masking(
            ids: Tensor, generator: torch.Generator, rates: Iterator[float] = rates
        ) -> Tensor:
            return toy.singles(ids, generator, next(rates))

        train(model, toy.mlm(model, masking, text(seed)[1]), seed, 600)
        yield row(reader, "excess at 15 %", excess(model, toy.half_as_many), 600, PASSED)
        yield row(reader, "topic from few", few(model.bert, seed), 600, PASSED)


IDEAS = {idea.__name__: idea for idea in (roberta, distilbert, xlnet, electra, mmbert)}
PLAN = grid(lambda idea, seed: IDEAS[idea](seed), idea=IDEAS, seed=range(3))

if __name__ == "__main__":
    study(objectives=PLAN)
