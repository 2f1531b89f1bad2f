"""After BERT, another question: six ideas on the toy language, where the best answer is known.

``python -m bertedu.studies.objectives`` adds to `data/results/objectives.csv` what it lacks; some
15 minutes on one core. Each seed draws weights, batches and blanks; held-out texts never change.
All models hide words behind `[MASK]` only, since none of them is fine-tuned on whole sentences
unless it is said; the limits are exact. What we expect, written down before the first run:

- RoBERTa: with ten fixed sets of blanks the training loss is lower, the held-out loss higher.
- XLNet: pays less for two blanks than BERT at once, by their mutual information; BERT asked twice
  closes most of that.
- ERNIE: better where a whole phrase is hidden; the topic from few examples no better.
- MT-DNN: with 24 examples a task, three tasks that hang together do better in one encoder.
- ELECTRA: the topic from few examples, at equal operations, better than MLM at 15 %; not at 30 %.
- DistilBERT: half the layers, taught, are nearer to the limit than alone, at equal steps.
"""

import copy
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Annotated

import torch
import typer
from torch import Tensor, nn
from torch.nn import functional as F

from bertedu.model.bert import Bert, BertForPreTraining
from bertedu.model.config import BertConfig
from bertedu.model.evaluating import evaluating
from bertedu.model.variants.distillation import distillation_loss, every_second_layer
from bertedu.model.variants.electra import DETECTOR_WEIGHT, Electra
from bertedu.model.variants.ernie import mask_phrases
from bertedu.model.variants.mtdnn import MultiTask
from bertedu.model.variants.xlnet import XLNet
from bertedu.pretraining.loop import make_optimizer
from bertedu.pretraining.masking import mask_tokens
from bertedu.pretraining.recipe import scheduled_rate
from bertedu.pretraining.toy import toy_ids
from bertedu.results.files import Row, read_csv, write_csv
from bertedu.results.origin import origin
from bertedu.studies.after_bert import Finding, finding
from bertedu.text import toy_blanks
from bertedu.text.tokenization import MASK_ID, PAD_ID, SPECIAL_TOKENS
from bertedu.text.toy_language import ToyLanguage

RECORD = Path("data/results/objectives.csv")
BATCH, LEARNING_RATE, RATE, FEW, HELD_OUT = 32, 3e-3, 0.30, 24, 1000
FIRST = len(SPECIAL_TOKENS)
LANGUAGE = ToyLanguage()
CONFIG = BertConfig(FIRST + len(LANGUAGE.words), 64, 2, 4, 256, 16, 2, 0.0)
Loss = Callable[[Tensor, torch.Generator], Tensor]  # rows of the training text, dice -> ()
Masking = Callable[[Tensor, torch.Generator], tuple[Tensor, Tensor]]


@cache
def text(seed: int, count: int) -> tuple[list[list[str]], Tensor]:
    """Return sentences, as words and as ids (count, S)."""
    sentences = LANGUAGE.sample(count, seed)
    return sentences, toy_ids(LANGUAGE, sentences)


def singles(ids: Tensor, dice: torch.Generator, rate: float = RATE) -> tuple[Tensor, Tensor]:
    """Hide single words, always behind `[MASK]`."""
    return mask_tokens(ids, CONFIG.vocab_size, dice, rate, mask_share=1.0, random_share=0.0)


def phrases(ids: Tensor, dice: torch.Generator) -> tuple[Tensor, Tensor]:
    """Hide whole phrases: an adjective and its noun, a preposition, its article and its place."""
    adjectives, prepositions = (
        torch.tensor([FIRST + LANGUAGE.words.index(word) for word in words.split()])
        for words in ("old young small happy loyal shy yellow fast hungry famous", "in near")
    )
    first = torch.arange(ids.shape[1]).repeat(len(ids), 1)
    for distance, openers in ((1, adjectives), (1, prepositions), (2, prepositions)):
        rows, places = torch.isin(ids[:, :-distance], openers).nonzero(as_tuple=True)
        first[rows, places + distance] = places
    return mask_phrases(ids, first, dice, RATE)


def mlm_loss(model: BertForPreTraining, ids: Tensor, masked: Tensor, selected: Tensor) -> Tensor:
    """Mean nats of the words at the selected places."""
    scores, _ = model(masked, padding_mask=ids != PAD_ID, selected=selected)
    return F.cross_entropy(scores, ids[selected])


def fit(
    model: nn.Module,
    count: int,
    loss_of: Loss,
    seed: int,
    steps: int,
    looks: Sequence[float] = (1,),
) -> Iterator[tuple[int, float]]:
    """Train on ``count`` rows; yield at ``looks`` (shares of the steps) the step and its last losses' mean."""
    optimizer, dice, losses = make_optimizer(model, 0.01), torch.Generator().manual_seed(seed), []
    for step in range(1, steps + 1):
        for group in optimizer.param_groups:
            group["lr"] = scheduled_rate(step - 1, steps, LEARNING_RATE, warmup_share=0.1)
        loss = loss_of(torch.randint(count, (BATCH,), generator=dice), dice)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
        if step in [round(look * steps) for look in looks]:
            last = losses[-max(1, steps // 10) :]
            yield step, sum(last) / len(last)


def trained_mlm(
    seed: int, steps: int, masking: Masking = singles, config: BertConfig = CONFIG
) -> BertForPreTraining:
    """Train a masked language model on 20,000 sentences."""
    torch.manual_seed(seed)
    model, ids = BertForPreTraining(config), text(seed, 20_000)[1]
    loss = lambda rows, dice: mlm_loss(model, ids[rows], *masking(ids[rows], dice))  # noqa: E731
    list(fit(model, len(ids), loss, seed, steps))
    return model


def reading(steps: int, config: BertConfig = CONFIG, times: float = 1, rate: float = RATE) -> Row:
    """Return tokens read in so many steps, and operations: 6 for each weight that one passes."""
    tokens = int(steps * BATCH * (text(0, 20_000)[1] != PAD_ID).sum(dim=1).double().mean())
    width = config.hidden_size
    weights = times * config.num_hidden_layers * 12 * width**2
    weights += rate * width * (width + config.vocab_size)
    return {"tokens": tokens, "operations": int(6 * weights * tokens)}


@cache
def blanks(masking: Masking, count: int = HELD_OUT) -> tuple[Tensor, Tensor, Tensor, float]:
    """Return held-out ids, masked ids, selected, and the exact limit in nats a blank."""
    sentences, ids = text(10_000, count)
    masked, selected = masking(ids, torch.Generator().manual_seed(10_000))
    chances = []
    for sentence, row in zip(sentences, selected[:, 1:], strict=True):
        known = [None if hidden else word for word, hidden in zip(sentence, row, strict=False)]
        posterior = toy_blanks.blank_posteriors(LANGUAGE, known)
        chances += [posterior[i, LANGUAGE.words.index(sentence[i])] for i in row.nonzero()[:, 0]]
    return ids, masked, selected, -float(torch.stack(chances).log().mean())


def excess(model: BertForPreTraining, masking: Masking = singles) -> float:
    """Nats a held-out blank above the exact limit."""
    ids, masked, selected, limit = blanks(masking)
    with evaluating(model):
        return mlm_loss(model, ids, masked, selected).item() - limit


@cache
def topics(seed: int, count: int) -> tuple[Tensor, Tensor]:
    """Return sentences (count, S), and of each a topic drawn from its exact posterior (count,)."""
    sentences, ids = text(seed, count)
    chances = torch.stack([toy_blanks.topic_posterior(LANGUAGE, s) for s in sentences])
    drawn = torch.multinomial(chances, 1, generator=torch.Generator().manual_seed(seed))
    return ids, drawn[:, 0]


# tasks that hang together: each is told by the topic (dog, cat, bird, horse, baby, singer)
ANSWERS = {
    "topic": (0, 1, 2, 3, 4, 5),
    "a person": (0, 0, 0, 0, 1, 1),
    "indoors": (0, 1, 0, 0, 1, 1),
}


def few(bert: Bert, seed: int, names: Sequence[str], steps: int = 60) -> float:
    """Fine-tune a copy on `FEW` examples a task; return the share of right held-out answers."""
    torch.manual_seed(seed)
    model = MultiTask(copy.deepcopy(bert), {name: 1 + max(ANSWERS[name]) for name in names})
    examples = {n: topics(20_000 + 10 * seed + list(ANSWERS).index(n), FEW) for n in names}

    def right(name: str, ids: Tensor, topic: Tensor) -> tuple[Tensor, Tensor]:
        return model(name, ids, ids != PAD_ID), torch.tensor(ANSWERS[name])[topic]

    def loss(rows: Tensor, dice: torch.Generator) -> Tensor:
        name = names[int(torch.randint(len(names), (), generator=dice))]  # one task a batch
        ids, topic = examples[name]
        return F.cross_entropy(*right(name, ids[rows], topic[rows]))

    list(fit(model, FEW, loss, seed, steps * len(names)))
    with evaluating(model):
        scored = [right(name, *topics(10_001, HELD_OUT)) for name in names]
    return float(torch.stack([(s.argmax(-1) == y).double().mean() for s, y in scored]).mean())


def roberta(seed: int) -> Iterator[Row]:
    """500 sentences, again and again: ten fixed sets of blanks against fresh ones."""
    ids, steps = text(seed, 20_000)[1][:500], 1500
    sets = [singles(ids, torch.Generator().manual_seed(100 * seed + s)) for s in range(10)]
    for reader in ("ten fixed sets", "fresh blanks"):
        torch.manual_seed(seed)
        model = BertForPreTraining(CONFIG)

        def loss(rows: Tensor, dice: torch.Generator) -> Tensor:
            one = sets[int(torch.randint(10, (), generator=dice))]
            pair = singles(ids[rows], dice) if fresh else (one[0][rows], one[1][rows])
            return mlm_loss(model, ids[rows], *pair)

        fresh = reader == "fresh blanks"
        ((_, last),) = fit(model, len(ids), loss, seed, steps)
        row = {"reader": reader} | reading(steps)
        yield row | {"measure": "training loss", "value": last}
        yield row | {"measure": "held-out excess", "value": excess(model)}


@cache
def pairs(least: float = 0.3, count: int = 600) -> tuple[list[tuple[int, int, int]], float]:
    """Return held-out (row, place, place) whose two words tell at least so many nats of each other,
    given all others, and the mean of what they tell: exact."""
    told = {}
    for row, sentence in enumerate(text(10_000, HELD_OUT)[0][:count]):
        for j in range(len(sentence)):
            for i in range(j):
                joint = toy_blanks.pair_posterior(LANGUAGE, sentence, i, j)
                told[row, i + 1, j + 1] = toy_blanks.mutual_information(joint)
    chosen = [at for at, nats in told.items() if nats >= least]
    return chosen, sum(told[at] for at in chosen) / len(chosen)


def train_xlnet(seed: int, steps: int) -> XLNet:
    """Train on a new order for each batch; the last of it, at the rate of masking, is foretold."""
    torch.manual_seed(seed)
    model, ids = XLNet(CONFIG), text(seed, 20_000)[1]

    def loss(rows: Tensor, dice: torch.Generator) -> Tensor:
        batch = ids[rows]
        order = torch.randperm(ids.shape[1], generator=dice)
        late = order.argsort() >= round((1 - RATE) * len(order))
        selected = late & (batch >= FIRST)
        return F.cross_entropy(model(batch, order, batch != PAD_ID)[selected], batch[selected])

    list(fit(model, len(ids), loss, seed, steps))
    return model


def two_blanks(model: BertForPreTraining | XLNet, in_turn: bool) -> float:
    """Nats that a model pays for both words of a held-out pair: guessed at once, or in turn.

    In turn, BERT is asked twice, and the first word is filled in; XLNet reads it in one pass.
    """
    total, ids = 0.0, text(10_000, HELD_OUT)[1]
    for row, *places in pairs()[0]:
        words, at = ids[row : row + 1], torch.tensor(places)
        if isinstance(model, XLNet):
            others = [i for i in range(ids.shape[1]) if i not in places]
            scores = model(words, torch.tensor(others + places), words != PAD_ID)[0, at]
        else:
            hidden = words.index_fill(1, at, MASK_ID)
            scores = model(hidden, padding_mask=words != PAD_ID)[0][0, at]
            if in_turn:
                hidden = words.index_fill(1, at[1:], MASK_ID)
                scores[1] = model(hidden, padding_mask=words != PAD_ID)[0][0, at[1]]
        total += F.cross_entropy(scores, words[0, at], reduction="sum").item()
    return total / len(pairs()[0])


def xlnet(seed: int) -> Iterator[Row]:
    """Two blanks that tell each other: BERT at once, BERT asked twice, XLNet; nats a pair."""
    steps = 1500
    for reader, more in (("BERT", 1), ("BERT, equal operations", 2), ("XLNet", 1)):
        times = 2 if reader == "XLNet" else 1  # two streams
        model = train_xlnet(seed, steps) if times == 2 else trained_mlm(seed, steps * more).eval()
        row = {"reader": reader} | reading(steps * more, times=times)
        with evaluating(model):
            for measure in ("in turn", "at once")[: 3 - times]:
                yield row | {"measure": measure, "value": two_blanks(model, measure == "in turn")}


def ernie(seed: int) -> Iterator[Row]:
    """Single words hidden, or whole phrases."""
    for reader, masking in (("single words", singles), ("whole phrases", phrases)):
        model = trained_mlm(seed, 1000, masking)
        row = {"reader": reader} | reading(1000)
        yield row | {"measure": "excess, single words", "value": excess(model, singles)}
        yield row | {"measure": "excess, whole phrases", "value": excess(model, phrases)}
        yield row | {"measure": "topic from few", "value": few(model.bert, seed, ["topic"])}


def mtdnn(seed: int) -> Iterator[Row]:
    """Three tasks of `FEW` examples in one encoder, or in three; then an A/A of the first."""
    bert = trained_mlm(seed, 400).bert
    for reader, again in (("joint", 0), ("separate", 0), ("separate, again", 50)):
        names = list(ANSWERS)
        some = [names] if reader == "joint" else [[name] for name in names]
        scores = [few(bert, seed + again, group) for group in some]
        row = {"reader": reader} | reading(60 * len(names), rate=0)
        yield row | {"measure": "right, three tasks", "value": sum(scores) / len(scores)}


def electra(seed: int) -> Iterator[Row]:
    """The topic from few examples against operations: ELECTRA, and MLM at two rates."""
    ids, steps, size = text(seed, 20_000)[1], 1000, 32
    small = replace(CONFIG, hidden_size=size, num_attention_heads=2, intermediate_size=4 * size)
    electra_work = reading(1, rate=0)["operations"] + reading(1, small, rate=0.15)["operations"]
    for reader, rate in (("MLM", 0.15), ("MLM", 0.30), ("ELECTRA", 1.0), ("ELECTRA", 0.15)):
        torch.manual_seed(seed)
        model = Electra(CONFIG, size) if reader == "ELECTRA" else BertForPreTraining(CONFIG)

        def loss(rows: Tensor, dice: torch.Generator) -> Tensor:
            batch = ids[rows]
            masked, selected = singles(batch, dice, rate if reader == "MLM" else 0.15)
            if isinstance(model, BertForPreTraining):
                return mlm_loss(model, batch, masked, selected)
            guess, found = model(batch, masked, selected, dice, batch != PAD_ID, rate == 1)
            return guess + DETECTOR_WEIGHT * found

        one = electra_work if reader == "ELECTRA" else reading(1, rate=rate)["operations"]
        for step, _ in fit(
            model, len(ids), loss, seed, steps * electra_work // one, (0.25, 0.5, 1)
        ):
            bert = model.detector if isinstance(model, Electra) else model.bert
            row = {"reader": f"{reader}, loss on {rate:.0%}"} | reading(step)
            row |= {"operations": one * step, "measure": "topic from few"}
            yield row | {"value": sum(few(bert, seed + k, ["topic"]) for k in (0, 50, 100)) / 3}
        if isinstance(model, Electra):  # the generator against its exact limit
            masking = cache_15
            yield row | {"measure": "generator's excess", "value": excess(model.generator, masking)}


cache_15 = partial(singles, rate=0.15)


def distilbert(seed: int) -> Iterator[Row]:
    """A teacher of 4 layers; students of 2, alone, taught, from its layers, and both."""
    large, steps = replace(CONFIG, num_hidden_layers=4), 300
    teacher = trained_mlm(seed, 1200, config=large).eval()
    row = {"reader": "teacher"} | reading(1200, large)
    yield row | {"measure": "excess", "value": excess(teacher)}
    ids = text(seed, 20_000)[1]
    for reader in ("alone", "taught", "from its layers", "from its layers, taught"):
        torch.manual_seed(seed)
        cut = "layers" in reader
        student = every_second_layer(teacher) if cut else BertForPreTraining(CONFIG)

        def loss(rows: Tensor, dice: torch.Generator) -> Tensor:
            batch = ids[rows]
            masked, selected = singles(batch, dice)
            scores, _ = student(masked, padding_mask=batch != PAD_ID, selected=selected)
            hard = F.cross_entropy(scores, batch[selected])
            if "taught" not in reader:
                return hard
            with torch.no_grad():
                told, _ = teacher(masked, padding_mask=batch != PAD_ID, selected=selected)
            return (hard + distillation_loss(scores, told)) / 2

        list(fit(student, len(ids), loss, seed, steps))
        row = {"reader": reader} | reading(steps)
        yield row | {"measure": "excess", "value": excess(student)}
    yield row | {"measure": "times faster", "value": seconds(teacher) / seconds(student)}


def seconds(model: BertForPreTraining) -> float:
    """Time one pass over held-out sentences: the fastest of ten."""
    ids, times = text(10_000, HELD_OUT)[1], []
    with evaluating(model):
        for _ in range(10):
            began = time.perf_counter()
            model.bert(ids, padding_mask=ids != PAD_ID)
            times.append(time.perf_counter() - began)
    return min(times)


STUDIES = (roberta, xlnet, ernie, mtdnn, electra, distilbert)


def values(rows: Sequence[Row], idea: str, reader: str, measure: str) -> list[float]:
    """Return what each seed got, in order of seeds: the last where there are several looks."""
    got = {
        int(row["seed"]): float(row["value"])
        for row in rows
        if (row["idea"], row["reader"], row["measure"]) == (idea, reader, measure)
    }
    return [got[seed] for seed in sorted(got)]


def main(
    out: Annotated[Path, typer.Option(help="CSV file to add to.")] = RECORD,
    seeds: Annotated[int, typer.Option(help="How many runs of each.", min=1)] = 5,
) -> None:
    """Run what the file lacks."""
    torch.set_num_threads(1)
    made, rows = origin(), read_csv(out)
    done = {(row["idea"], row["seed"]) for row in rows}
    for seed in range(seeds):
        for study in STUDIES:
            if (study.__name__, str(seed)) not in done:
                rows += [{"idea": study.__name__, "seed": seed} | r | made for r in study(seed)]
                write_csv(out, rows)
                print(study.__name__, seed, time.process_time(), flush=True)


if __name__ == "__main__":
    typer.run(main)
