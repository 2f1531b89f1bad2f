"""After BERT, another question: six ideas on the toy language, where the best answer is known.

``python -m bertedu.studies.objectives`` adds to `data/results/objectives.csv` what it lacks; some
10 minutes on one core. Each seed draws weights, batches and blanks; held-out texts never change.
What we expect, written down before the first run:

- RoBERTa: with ten fixed sets of blanks the training loss is lower, the held-out loss higher.
- XLNet: pays less for two blanks than BERT at once, by their mutual information; BERT asked twice
  closes most of that.
- ERNIE: better where a whole phrase is hidden; the topic from few examples no better.
- MT-DNN: with 24 examples a task, three tasks that hang together do better in one encoder.
- ELECTRA: the topic from few examples, at equal operations, better than MLM at 15 %; not at 30 %.
- DistilBERT: half the layers, taught, are nearer to the limit than alone, at equal steps.
"""

import time
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import product
from pathlib import Path
from typing import Annotated

import torch
import typer
from torch import Tensor
from torch.nn import functional as F

from bertedu.model.bert import BertForPreTraining
from bertedu.model.evaluating import evaluating
from bertedu.model.variants.distillation import distillation_loss, every_second_layer
from bertedu.model.variants.electra import DETECTOR_WEIGHT, Electra
from bertedu.model.variants.xlnet import XLNet
from bertedu.results.files import Row, read_csv, write_csv
from bertedu.results.origin import origin
from bertedu.studies import toy_readers as toy
from bertedu.studies.after_bert import Finding, finding
from bertedu.studies.toy_readers import CONFIG, RATE, TASKS, Loss, excess, few, fit, mlm, row, text
from bertedu.text.tokenization import MASK_ID, PAD_ID
from bertedu.text.toy_blanks import mutual_information, pair_posterior

RECORD = Path("data/results/objectives.csv")


def roberta(seed: int) -> Iterator[Row]:
    """200 sentences, again and again: ten fixed sets of blanks, or fresh ones."""
    ids, steps = text(seed)[1][:200], 600
    dice = torch.Generator().manual_seed(100 + seed)
    tenfold = ids.repeat(10, 1)
    both = torch.cat([tenfold, toy.singles(tenfold, dice)], dim=1)  # (2000, 2 S)
    for reader in ("ten fixed sets", "fresh blanks"):
        model = toy.new_mlm(seed)
        if reader == "fresh blanks":
            list(fit(model, mlm(model, toy.singles), ids, seed, steps))
            both = torch.cat([tenfold, toy.singles(tenfold, dice)], dim=1)
        else:
            list(fit(model, _given_blanks(model), both, seed, steps))
        with evaluating(model):
            training = _given_blanks(model)(both, dice).item()
        yield row(reader, "training loss", training, steps, toy.weights(CONFIG, RATE))
        yield row(reader, "held-out excess", excess(model), steps, toy.weights(CONFIG, RATE))


def _given_blanks(model: BertForPreTraining) -> Loss:
    return lambda both, _: toy.mlm_loss(model, *both.chunk(2, dim=1))


@cache
def pairs(least: float = 0.3, count: int = 400) -> tuple[list[tuple[int, int, int]], float]:
    """Return held-out (row, place, place) whose two words tell at least so many nats of each other,
    given all others, and the mean of what they tell: exact."""
    told = {}
    for number, sentence in enumerate(text(10_000, toy.HELD_OUT)[0][:count]):
        for j in range(len(sentence)):
            for i in range(j):
                joint = pair_posterior(toy.LANGUAGE, sentence, i, j)
                told[number, i + 1, j + 1] = mutual_information(joint)
    chosen = [at for at, nats in told.items() if nats >= least]
    return chosen, sum(told[at] for at in chosen) / len(chosen)


def train_xlnet(seed: int, steps: int) -> XLNet:
    """Train on a new order for each batch; its end, as much as is masked, is foretold."""
    torch.manual_seed(seed)
    model = XLNet(CONFIG)

    def loss(batch: Tensor, dice: torch.Generator) -> Tensor:
        order = torch.randperm(batch.shape[1], generator=dice)
        late = order.argsort() >= round((1 - RATE) * len(order))
        asked = late & (batch >= toy.FIRST)
        return F.cross_entropy(model(batch, order, batch != PAD_ID)[asked], batch[asked])

    list(fit(model, loss, text(seed)[1], seed, steps))
    return model


def two_blanks(model: BertForPreTraining | XLNet, in_turn: bool) -> float:
    """Nats that a model pays for both words of a held-out pair: guessed at once, or in turn.

    In turn, BERT is asked twice, and the first word is filled in; XLNet reads it in one pass.
    """
    chosen, ids, total = torch.tensor(pairs()[0]), text(10_000, toy.HELD_OUT)[1], 0.0
    for places in torch.tensor(sorted({at[1:] for at in pairs()[0]})):  # rows with these blanks
        words = ids[chosen[(chosen[:, 1:] == places).all(dim=1), 0]]
        real = words != PAD_ID
        if isinstance(model, XLNet):
            others = [i for i in range(ids.shape[1]) if i not in places]
            scores = model(words, torch.tensor([*others, *places]), real)[:, places]
        else:
            scores = model(words.index_fill(1, places, MASK_ID), padding_mask=real)[0][:, places]
            if in_turn:
                hidden = words.index_fill(1, places[1:], MASK_ID)
                scores[:, 1] = model(hidden, padding_mask=real)[0][:, places[1]]
        total += F.cross_entropy(scores.mT, words[:, places], reduction="sum").item()
    return total / len(chosen)


def xlnet(seed: int) -> Iterator[Row]:
    """Two blanks that tell each other: BERT at once, BERT asked twice, XLNet; nats a pair."""
    once = toy.weights(CONFIG, RATE)
    for reader, steps in (("BERT", 600), ("BERT, equal operations", 1200)):
        bert = toy.trained_mlm(seed, steps)
        with evaluating(bert):
            yield row(reader, "at once", two_blanks(bert, False), steps, once)
            yield row(reader, "in turn", two_blanks(bert, True), steps, once)
    model = train_xlnet(seed, 600)
    with evaluating(model):
        value = two_blanks(model, in_turn=True)
    yield row("XLNet", "in turn", value, 600, once + toy.weights(CONFIG, 0))  # two streams


def ernie(seed: int) -> Iterator[Row]:
    """Single words hidden, or whole phrases."""
    for reader, masking in (("single words", toy.singles), ("whole phrases", toy.phrases)):
        model = toy.trained_mlm(seed, 600, masking)
        for measure, value in (
            ("excess, single words", excess(model, toy.singles)),
            ("excess, whole phrases", excess(model, toy.phrases)),
            ("topic from few", few(model.bert, seed, "topic")),
        ):
            yield row(reader, measure, value, 600, toy.weights(CONFIG, RATE))


def mtdnn(seed: int) -> Iterator[Row]:
    """Three tasks of `FEW` examples in one encoder, or in three."""
    bert = toy.trained_mlm(seed, 300).bert
    for reader, groups in (
        ("joint", [tuple(TASKS)]),
        ("separate", [(name,) for name in TASKS]),
    ):
        scores = [few(bert, seed, *group) for group in groups]
        value = sum(scores) / len(scores)
        yield row(reader, "three tasks from few", value, 60 * len(TASKS), toy.weights(CONFIG, 0))


def electra(seed: int) -> Iterator[Row]:
    """The topic from few examples against operations: ELECTRA, and MLM at two rates."""
    both, ids, looks = (
        toy.weights(CONFIG, 0) + toy.weights(toy.SMALL, RATE / 2),
        text(seed)[1],
        (0.5,),
    )
    for rate, masking in ((15, toy.half_as_many), (30, toy.singles)):
        model, passed = toy.new_mlm(seed), toy.weights(CONFIG, rate / 100)
        steps = round(400 * both / passed)
        for step in fit(model, mlm(model, masking), ids, seed, steps, looks):
            value = few(model.bert, seed, "topic")
            yield row(f"MLM at {rate} %", "topic from few", value, step, passed)
    for where in ("every word", "15 % of words"):
        torch.manual_seed(seed)
        pair = Electra(CONFIG, toy.SMALL.hidden_size)
        for step in fit(pair, _electra(pair, where == "every word"), ids, seed, 400, looks):
            value = few(pair.detector, seed, "topic")
            yield row(f"ELECTRA, {where}", "topic from few", value, step, both)
        value = excess(pair.generator, toy.half_as_many)
        yield row(f"ELECTRA, {where}", "generator's excess", value, 400, both)


def _electra(model: Electra, everywhere: bool) -> Loss:
    def loss(batch: Tensor, dice: torch.Generator) -> Tensor:
        masked = toy.half_as_many(batch, dice)
        guess, found = model(batch, masked, masked == MASK_ID, dice, batch != PAD_ID, everywhere)
        return guess + DETECTOR_WEIGHT * found  # type: ignore[no-any-return]

    return loss


def distilbert(seed: int) -> Iterator[Row]:
    """A teacher of 4 layers; students of 2: alone, taught, made of its layers, and both."""
    teacher = toy.trained_mlm(seed, 600, config=toy.LARGE).eval()
    yield row("teacher", "excess", excess(teacher), 600, toy.weights(toy.LARGE, RATE))
    for reader in ("alone", "taught", "its layers", "its layers, taught"):
        student = every_second_layer(teacher) if "layers" in reader else toy.new_mlm(seed)
        loss = _taught(student, teacher) if "taught" in reader else mlm(student, toy.singles)
        list(fit(student, loss, text(seed)[1], seed, 150))
        passed = toy.weights(CONFIG, RATE) + ("taught" in reader) * toy.weights(toy.LARGE, RATE) / 3
        yield row(reader, "excess", excess(student), 150, passed)  # forward is a third of training
    faster = seconds(teacher) / seconds(student)
    yield row("its layers, taught", "times faster", faster, 150, passed)


def _taught(student: BertForPreTraining, teacher: BertForPreTraining) -> Loss:
    def loss(batch: Tensor, dice: torch.Generator) -> Tensor:
        masked, real = toy.singles(batch, dice), batch != PAD_ID
        hidden = masked == MASK_ID
        scores, _ = student(masked, padding_mask=real, selected=hidden)
        with torch.no_grad():
            told, _ = teacher(masked, padding_mask=real, selected=hidden)
        hard = F.cross_entropy(scores, batch[hidden])
        return (hard + distillation_loss(scores, told)) / 2

    return loss


def seconds(model: BertForPreTraining) -> float:
    """Time one pass over the held-out sentences: the fastest of ten."""
    ids, times = text(10_000, toy.HELD_OUT)[1], []
    with evaluating(model):
        for _ in range(10):
            began = time.perf_counter()
            model.bert(ids, padding_mask=ids != PAD_ID)
            times.append(time.perf_counter() - began)
    return min(times)


STUDIES = (roberta, ernie, mtdnn, distilbert, xlnet, electra)

# paper, year, what it claims, what was measured; study; from the first, the second is taken away
_FEW = "points more on the topic from 24 examples"
CLAIMS = (
    ("RoBERTa", 2019, "blanks drawn anew are as good as fixed ones, or better",
     "nats less a held-out blank", roberta,
     ("ten fixed sets", "held-out excess"), ("fresh blanks", "held-out excess")),
    ("XLNet", 2019, "BERT guesses words that depend on each other as if they did not",
     "nats less for two blanks: BERT asked twice, not at once", xlnet,
     ("BERT, equal operations", "at once"), ("BERT, equal operations", "in turn")),
    ("XLNet", 2019, "reading in a drawn order mends that",
     "nats less for two blanks than BERT at once", xlnet,
     ("BERT, equal operations", "at once"), ("XLNet", "in turn")),
    ("XLNet", 2019, "an order of reading is better than blanks",
     "nats less for two blanks than BERT asked twice", xlnet,
     ("BERT, equal operations", "in turn"), ("XLNet", "in turn")),
    ("ERNIE", 2019, "hiding whole phrases teaches more than hiding single words", _FEW, ernie,
     ("whole phrases", "topic from few"), ("single words", "topic from few")),
    ("MT-DNN", 2019, "tasks learned together help each other",
     "points more on three tasks of 24 examples", mtdnn,
     ("joint", "three tasks from few"), ("separate", "three tasks from few")),
    ("ELECTRA", 2020, "for the same work, it teaches more than masked words", _FEW, electra,
     ("ELECTRA, every word", "topic from few"), ("MLM at 15 %", "topic from few")),
    ("ELECTRA", 2020, "because every word is asked for, not 15 %", _FEW, electra,
     ("ELECTRA, every word", "topic from few"), ("ELECTRA, 15 % of words", "topic from few")),
    ("DistilBERT", 2019, "half of the layers, taught, are better than alone",
     "nats less a held-out blank", distilbert,
     ("alone", "excess"), ("its layers, taught", "excess")),
)  # fmt: skip


def values(rows: Sequence[Row], idea: str, reader: str, measure: str) -> list[float]:
    """Return what was measured for each seed, in their order; of several looks, the last."""
    key = (idea, reader, measure)
    found = [row for row in rows if (row["idea"], row["reader"], row["measure"]) == key]
    return list({int(row["seed"]): float(row["value"]) for row in found}.values())


def findings(folder: Path) -> list[Finding]:
    """Return the lines of the table *idea, claimed, measured, verdict* from a folder of results."""
    rows, lines = read_csv(folder / RECORD.name), []
    for idea, year, claimed, unit, study, one, other in CLAIMS:
        more, less = (values(rows, study.__name__, *of) for of in (one, other))
        times = 100 if "points" in unit else 1
        gaps = [times * (a - b) for a, b in zip(more, less, strict=True)]
        lines.append(finding(idea, year, claimed, unit, gaps))
    return lines


def main(
    out: Annotated[Path, typer.Option(help="CSV file to add to.")] = RECORD,
    seeds: Annotated[int, typer.Option(help="How many runs of each.", min=1)] = 3,
) -> None:
    """Run what the file lacks."""
    torch.set_num_threads(1)
    made, rows = origin(), read_csv(out)
    done = {(old["idea"], old["seed"]) for old in rows}
    for seed, study in product(range(seeds), STUDIES):
        if (study.__name__, str(seed)) not in done:
            rows += [{"idea": study.__name__, "seed": seed} | new | made for new in study(seed)]
            write_csv(out, rows)


if __name__ == "__main__":
    typer.run(main)
