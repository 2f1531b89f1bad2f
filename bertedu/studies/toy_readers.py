"""Small models on the toy language: how the studies of what came after BERT train and score them.

Blanks are always `[MASK]`; batches, rates and the rise and fall of the learning rate are the same
for all, so that two runs differ by what a study changes, and by nothing else.
"""

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bertedu.model.bert import Bert, BertForPreTraining
from bertedu.model.config import BertConfig
from bertedu.model.evaluating import evaluating
from bertedu.model.variants.ernie import mask_phrases
from bertedu.model.variants.mtdnn import MultiTask
from bertedu.pretraining.loop import make_optimizer
from bertedu.pretraining.masking import mask_tokens
from bertedu.pretraining.recipe import scheduled_rate
from bertedu.pretraining.toy import toy_ids
from bertedu.results.files import Row
from bertedu.text import toy_blanks
from bertedu.text.tokenization import MASK_ID, PAD_ID, SPECIAL_TOKENS
from bertedu.text.toy_language import ToyLanguage

BATCH, LEARNING_RATE, RATE, FEW, HELD_OUT = 32, 3e-3, 0.30, 24, 1000
FIRST, LANGUAGE = len(SPECIAL_TOKENS), ToyLanguage()
CONFIG = BertConfig(FIRST + len(LANGUAGE.words), 64, 2, 4, 256, 16, 2, 0.0)
SMALL = replace(CONFIG, hidden_size=32, num_attention_heads=2, intermediate_size=128)
LARGE = replace(CONFIG, num_hidden_layers=4)
Loss = Callable[[Tensor, torch.Generator], Tensor]  # training rows, dice -> ()
Masking = Callable[[Tensor, torch.Generator], Tensor]  # ids (B, S), dice -> ids with blanks


@cache
def text(seed: int, count: int = 20_000) -> tuple[list[list[str]], Tensor]:
    """Return sentences, as words and as ids (count, S)."""
    sentences = LANGUAGE.sample(count, seed)
    return sentences, toy_ids(LANGUAGE, sentences)


def singles(ids: Tensor, dice: torch.Generator, rate: float = RATE) -> Tensor:
    """Hide single words."""
    return mask_tokens(ids, CONFIG.vocab_size, dice, rate, mask_share=1.0, random_share=0.0)[0]


def half_as_many(ids: Tensor, dice: torch.Generator) -> Tensor:
    """Hide 15 % of single words."""
    return singles(ids, dice, RATE / 2)


def phrases(ids: Tensor, dice: torch.Generator) -> Tensor:
    """Hide whole phrases: an adjective and its noun, a preposition with article and place."""
    openers = {1: "old young small happy loyal shy yellow fast hungry famous in near", 2: "in near"}
    first = torch.arange(ids.shape[1]).repeat(len(ids), 1)
    for distance, words in openers.items():
        known = torch.tensor([FIRST + LANGUAGE.words.index(word) for word in words.split()])
        rows, places = torch.isin(ids[:, :-distance], known).nonzero(as_tuple=True)
        first[rows, places + distance] = places
    return mask_phrases(ids, first, dice, RATE)[0]


def mlm_loss(model: BertForPreTraining, ids: Tensor, masked: Tensor) -> Tensor:
    """Mean nats of the hidden words."""
    hidden = masked == MASK_ID
    scores, _ = model(masked, padding_mask=ids != PAD_ID, selected=hidden)
    return F.cross_entropy(scores, ids[hidden])


def mlm(model: BertForPreTraining, masking: Masking) -> Loss:
    """Return the loss of masked words as a function of training rows."""
    return lambda batch, dice: mlm_loss(model, batch, masking(batch, dice))


def fit(
    model: nn.Module, loss_of: Loss, ids: Tensor, seed: int, steps: int, looks: Sequence[float] = ()
) -> Iterator[int]:
    """Train on rows of ids; yield the step at ``looks``, shares of all steps, and at the end."""
    optimizer, dice = make_optimizer(model, 0.01), torch.Generator().manual_seed(seed)
    for step in range(1, steps + 1):
        for group in optimizer.param_groups:
            group["lr"] = scheduled_rate(step - 1, steps, LEARNING_RATE, warmup_share=0.1)
        loss = loss_of(ids[torch.randint(len(ids), (BATCH,), generator=dice)], dice)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step in [round(look * steps) for look in (*looks, 1)]:
            yield step


def new_mlm(seed: int, config: BertConfig = CONFIG) -> BertForPreTraining:
    """Return a masked language model with random weights."""
    torch.manual_seed(seed)
    return BertForPreTraining(config)


def trained_mlm(
    seed: int, steps: int, masking: Masking = singles, config: BertConfig = CONFIG
) -> BertForPreTraining:
    """Train a masked language model."""
    model = new_mlm(seed, config)
    list(fit(model, mlm(model, masking), text(seed)[1], seed, steps))
    return model


def weights(config: BertConfig, rate: float) -> float:
    """Weights that a token goes through, as notebook 14 counts them."""
    width = config.hidden_size
    encoder = config.num_hidden_layers * 12 * width**2
    return encoder + rate * width * (width + config.vocab_size)


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


def few(bert: Bert, seed: int, *names: str) -> float:
    """Fine-tune copies on two draws of `FEW` examples a task; return the share of right answers.

    60 steps a task; with several names one model learns them all, one task a batch.
    """
    return sum(_few(bert, seed + draw, names) for draw in (0, 50)) / 2


def _few(bert: Bert, seed: int, names: Sequence[str]) -> float:
    torch.manual_seed(seed)
    model = MultiTask(copy.deepcopy(bert), {name: 1 + max(TASKS[name]) for name in names})
    seeds = {name: 20_000 + 10 * seed + list(TASKS).index(name) for name in names}

    def loss(rows: Tensor, dice: torch.Generator) -> Tensor:
        name = names[int(torch.randint(len(names), (), generator=dice))]
        ids, topic = topics(seeds[name], FEW)
        right = torch.tensor(TASKS[name])[topic[rows]]
        return F.cross_entropy(model(name, ids[rows], ids[rows] != PAD_ID), right)

    list(fit(model, loss, torch.arange(FEW), seed, 60 * len(names)))
    ids, topic = topics(10_001, HELD_OUT)
    with evaluating(model):
        says = {name: model(name, ids, ids != PAD_ID).argmax(-1) for name in names}
    right = [(says[name] == torch.tensor(TASKS[name])[topic]).double().mean() for name in names]
    return float(torch.stack(right).mean())
