"""How the studies of what came after BERT train small models, and score them on the toy language.

Blanks are always `[MASK]`; batches and the rise and fall of the learning rate are the same for all,
so that two runs differ by what a study changes, and by nothing else.
"""

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache, partial
from statistics import mean

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from tqdm.auto import tqdm

from bertedu.files import Row
from bertedu.model.bert import Bert, BertForPreTraining
from bertedu.model.config import BertConfig
from bertedu.model.evaluating import evaluating
from bertedu.model.optimization import make_optimizer, scheduled_rate
from bertedu.model.variants.ernie import mask_phrases
from bertedu.model.variants.mtdnn import MultiTask
from bertedu.pretraining.masking import mask_tokens
from bertedu.text.tokenization import MASK_ID, PAD_ID, SPECIAL_TOKENS
from course.experiments import toy_blanks
from course.experiments.toy import toy_ids
from course.experiments.toy_language import ToyLanguage

BATCH, LEARNING_RATE, RATE, FEW, HELD_OUT = 32, 3e-3, 0.30, 24, 1000
FIRST, LANGUAGE = len(SPECIAL_TOKENS), ToyLanguage()
CONFIG = BertConfig(FIRST + len(LANGUAGE.words), 64, 2, 4, 256, 16, 2, 0.0)
SMALL = replace(CONFIG, hidden_size=32, num_attention_heads=2, intermediate_size=128)
LARGE = replace(CONFIG, num_hidden_layers=4)
Loss = Callable[[torch.Generator], Tensor]  # dice -> (), the loss of what they draw
Masking = Callable[[Tensor, torch.Generator], Tensor]  # ids (B, S), dice -> ids with blanks


def fit(
    model: nn.Module, loss_of: Loss, seed: int, steps: int, peak: float = LEARNING_RATE
) -> Iterator[int]:
    """Train, and yield the number of each step, from 1, when it is done."""
    optimizer, dice = make_optimizer(model, 0.01), torch.Generator().manual_seed(seed)
    for step in tqdm(range(steps), desc=type(model).__name__):
        for group in optimizer.param_groups:
            group["lr"] = scheduled_rate(step, steps, peak, warmup_share=0.1)
        loss = loss_of(dice)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        yield step + 1


def train(
    model: nn.Module, loss_of: Loss, seed: int, steps: int, peak: float = LEARNING_RATE
) -> None:
    """Train to the end."""
    for _ in fit(model, loss_of, seed, steps, peak):
        pass


@cache
def text(seed: int, count: int = 20_000) -> tuple[list[list[str]], Tensor]:
    """Return sentences, as words and as ids (count, S)."""
    sentences = LANGUAGE.sample(count, seed)
    return sentences, toy_ids(LANGUAGE, sentences)


def singles(ids: Tensor, dice: torch.Generator, rate: float = RATE) -> Tensor:
    """Hide single words."""
    return mask_tokens(ids, CONFIG.vocab_size, dice, rate, mask_share=1.0, random_share=0.0)[0]


half_as_many = partial(singles, rate=RATE / 2)


def phrases(ids: Tensor, dice: torch.Generator) -> Tensor:
    """Hide whole phrases: an adjective and its noun, a preposition with article and place."""
    openers = {1: "old young small happy loyal shy yellow fast hungry famous in near", 2: "in near"}
    first = torch.arange(ids.shape[1]).repeat(len(ids), 1)
    for distance, words in openers.items():
        known = torch.tensor([FIRST + LANGUAGE.words.index(word) for word in words.split()])
        rows, places = torch.isin(ids[:, :-distance], known).nonzero(as_tuple=True)
        first[rows, places + distance] = places
    return mask_phrases(ids, first, dice, RATE)[0]


def drawn(rows: Tensor, dice: torch.Generator) -> Tensor:
    """Draw `BATCH` of some rows."""
    return rows[torch.randint(len(rows), (BATCH,), generator=dice)]


def mlm_loss(model: BertForPreTraining, ids: Tensor, masked: Tensor) -> Tensor:
    """Mean nats of the hidden words."""
    hidden = masked == MASK_ID
    scores, _ = model(masked, padding_mask=ids != PAD_ID, selected=hidden)
    return F.cross_entropy(scores, ids[hidden])


def mlm(model: BertForPreTraining, masking: Masking, ids: Tensor) -> Loss:
    """Return the loss of words hidden in rows that are drawn."""

    def loss(dice: torch.Generator) -> Tensor:
        return mlm_loss(model, batch := drawn(ids, dice), masking(batch, dice))

    return loss


def new_mlm(seed: int, config: BertConfig = CONFIG) -> BertForPreTraining:
    """Return a masked language model with random weights."""
    torch.manual_seed(seed)
    return BertForPreTraining(config)


def trained_mlm(
    seed: int, steps: int, masking: Masking = singles, config: BertConfig = CONFIG
) -> BertForPreTraining:
    """Train a masked language model."""
    model = new_mlm(seed, config)
    train(model, mlm(model, masking, text(seed)[1]), seed, steps)
    return model


def weights(config: BertConfig, rate: float) -> float:
    """Weights that a token goes through, as notebook 14 counts them."""
    width = config.hidden_size
    return config.num_hidden_layers * 12 * width**2 + rate * width * (width + config.vocab_size)


def row(reader: str, measure: str, value: float, steps: int, passed: float) -> Row:
    """Return what was measured, with the tokens read and the operations of training."""
    tokens = int(steps * BATCH * (text(0)[1] != PAD_ID).sum(dim=1).double().mean())
    work = {"tokens": tokens, "operations": int(6 * passed * tokens)}
    return {"reader": reader, "measure": measure, "value": round(value, 5)} | work


@cache
def blanks(masking: Masking) -> tuple[Tensor, Tensor, float]:
    """Return held-out ids, the same with blanks, and the exact limit in nats a blank."""
    sentences, ids = text(10_000, HELD_OUT)
    masked = masking(ids, torch.Generator().manual_seed(10_000))
    chances = []
    for sentence, hidden in zip(sentences, (masked == MASK_ID)[:, 1:], strict=True):
        known = [None if h else word for word, h in zip(sentence, hidden, strict=False)]
        posterior = toy_blanks.blank_posteriors(LANGUAGE, known)
        chances += [posterior[i, LANGUAGE.words.index(sentence[i])] for i in hidden.nonzero()[:, 0]]
    return ids, masked, -float(torch.stack(chances).log().mean())


def excess(model: BertForPreTraining, masking: Masking = singles) -> float:
    """Nats that a model pays for a held-out blank, above the exact limit."""
    ids, masked, limit = blanks(masking)
    with evaluating(model):
        return mlm_loss(model, ids, masked).item() - limit


@cache
def topics(seed: int, count: int) -> tuple[Tensor, Tensor]:
    """Return sentences (count, S), and of each a topic drawn from its exact chances (count,)."""
    sentences, ids = text(seed, count)
    chances = torch.stack([toy_blanks.topic_posterior(LANGUAGE, s) for s in sentences])
    return ids, torch.multinomial(chances, 1, generator=torch.Generator().manual_seed(seed))[:, 0]


# tasks that hang together: the answer for a dog, a cat, a bird, a horse, a baby, a singer
TASKS = {"topic": (0, 1, 2, 3, 4, 5), "a person": (0, 0, 0, 0, 1, 1), "indoors": (0, 1, 0, 0, 1, 1)}


def few(bert: Bert, seed: int, *names: str, count: int = FEW) -> float:
    """Fine-tune copies on two draws of so many examples a task; return the share right.

    60 steps a task; with several names one model learns them all, one task a batch.
    """
    return mean(_few(bert, seed + draw, names, count) for draw in (0, 50))


def _few(bert: Bert, seed: int, names: Sequence[str], count: int) -> float:
    torch.manual_seed(seed)
    model = MultiTask(copy.deepcopy(bert), {name: 1 + max(TASKS[name]) for name in names})
    seeds = {name: 20_000 + 10 * seed + list(TASKS).index(name) for name in names}

    def loss(dice: torch.Generator) -> Tensor:
        rows = drawn(torch.arange(count), dice)
        name = names[int(torch.randint(len(names), (), generator=dice))]
        ids, topic = topics(seeds[name], count)
        right = torch.tensor(TASKS[name])[topic[rows]]
        return F.cross_entropy(model(name, ids[rows], ids[rows] != PAD_ID), right)

    train(model, loss, seed, 60 * len(names))
    ids, topic = topics(10_001, HELD_OUT)
    with evaluating(model):
        says = {name: model(name, ids, ids != PAD_ID).argmax(-1) for name in names}
    right = [(says[name] == torch.tensor(TASKS[name])[topic]).double().mean() for name in names]
    return float(torch.stack(right).mean())
