"""How the studies of what came after BERT train small models, and score them on the toy language.

Blanks are always `[MASK]`, and batches are the same for all.
"""

import copy
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from statistics import mean

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bertedu.files import Row
from bertedu.model.bert import Bert, BertForPreTraining
from bertedu.model.config import BertConfig
from bertedu.model.heads import ClassificationHead
from bertedu.model.inference import evaluating
from bertedu.pretraining.masking import mask_tokens
from bertedu.text.tokenization import MASK_ID, PAD_ID, SPECIAL_TOKENS
from course.experiments.fitting import Loss, train
from course.experiments.toy import toy_ids
from course.experiments.toy_language import TOPICS, ToyLanguage, blank_posteriors, topic_posterior

BATCH, RATE, FEW, HELD_OUT = 32, 0.30, 24, 1000
FIRST, LANGUAGE = len(SPECIAL_TOKENS), ToyLanguage()
CONFIG = BertConfig(FIRST + len(LANGUAGE.words), 64, 2, 4, 256, 16, 2, 0.0)
SMALL = replace(CONFIG, hidden_size=32, num_attention_heads=2, intermediate_size=128)
LARGE = replace(CONFIG, num_hidden_layers=4)
Masking = Callable[[Tensor, torch.Generator], Tensor]  # ids (B, S), generator -> ids with blanks


@cache
def text(seed: int, count: int = 20_000) -> tuple[list[list[str]], Tensor]:
    """Return sentences, as words and as ids (count, S)."""
    sentences = LANGUAGE.sample(count, seed)
    return sentences, toy_ids(LANGUAGE, sentences)


def singles(ids: Tensor, generator: torch.Generator, rate: float = RATE) -> Tensor:
    """Hide single words."""
    return mask_tokens(ids, CONFIG.vocab_size, generator, rate, mask_share=1.0, random_share=0.0)[0]


half_as_many = partial(singles, rate=RATE / 2)


def drawn(rows: Tensor, rng: torch.Generator) -> Tensor:
    """Draw `BATCH` of some rows."""
    return rows[torch.randint(len(rows), (BATCH,), generator=rng)]


def mlm_loss(model: BertForPreTraining, ids: Tensor, masked: Tensor) -> Tensor:
    """Mean nats of the hidden words."""
    hidden = masked == MASK_ID
    scores, _ = model(masked, padding_mask=ids != PAD_ID, selected=hidden)
    return F.cross_entropy(scores, ids[hidden])


def mlm(model: BertForPreTraining, masking: Masking, ids: Tensor) -> Loss:
    """Return the loss of words hidden in rows that are drawn."""

    def loss(generator: torch.Generator) -> Tensor:
        return mlm_loss(model, batch := drawn(ids, generator), masking(batch, generator))

    return loss


def new_mlm(seed: int, config: BertConfig = CONFIG) -> BertForPreTraining:
    """Return a masked language model with random weights."""
    torch.manual_seed(seed)
    return BertForPreTraining(config)


def trained_mlm(seed: int, steps: int, config: BertConfig = CONFIG) -> BertForPreTraining:
    """Train a masked language model."""
    model = new_mlm(seed, config)
    train(model, mlm(model, singles, text(seed)[1]), seed, steps)
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


class ExactReader(nn.Module):
    """Answers every blank with its exact chances, as a BERT of `CONFIG`: none can do better."""

    config = CONFIG

    def forward(
        self,
        ids: Tensor,
        segment_ids: Tensor | None = None,  # it looks at none
        padding_mask: Tensor | None = None,
        selected: Tensor | None = None,
    ) -> tuple[Tensor, None]:
        """Return scores (B, S, V), or (n, V) of the places ``selected``."""
        scores = torch.full((*ids.shape, CONFIG.vocab_size), -1e9)
        real = ids != PAD_ID if padding_mask is None else padding_mask
        for row, (words, many) in enumerate(zip(ids.tolist(), real.sum(1), strict=True)):
            inside = words[1 : int(many) - 1]
            known = [None if i == MASK_ID else LANGUAGE.words[i - FIRST] for i in inside]
            chances = blank_posteriors(LANGUAGE, known)
            chances = chances.nan_to_num(1 / len(LANGUAGE.words))  # no sentence any more
            scores[row, 1 : len(known) + 1, FIRST:] = chances.log().float().clamp(min=-1e9)
        return scores if selected is None else scores[selected], None


@cache
def blanks(masking: Masking) -> tuple[Tensor, Tensor, float]:
    """Return held-out ids, the same with blanks, and the exact limit in nats a blank."""
    sentences, ids = text(10_000, HELD_OUT)
    masked = masking(ids, torch.Generator().manual_seed(10_000))
    chances = []
    for sentence, hidden in zip(sentences, (masked == MASK_ID)[:, 1:], strict=True):
        known = [None if h else word for word, h in zip(sentence, hidden, strict=False)]
        posterior = blank_posteriors(LANGUAGE, known)
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
    chances = torch.stack([topic_posterior(LANGUAGE, s) for s in sentences])
    return ids, torch.multinomial(chances, 1, generator=torch.Generator().manual_seed(seed))[:, 0]


def few(bert: Bert, seed: int) -> float:
    """Fine-tune copies on the topics of `FEW` sentences, of two draws; return the share right."""
    return mean(_few(bert, seed + draw) for draw in (0, 50))


def _few(bert: Bert, seed: int) -> float:
    torch.manual_seed(seed)
    model = copy.deepcopy(bert)
    head = ClassificationHead(bert.config.hidden_size, len(TOPICS))
    ids, topic = topics(20_000 + 10 * seed, FEW)

    def answer(ids: Tensor) -> Tensor:
        return head(model(ids, padding_mask=ids != PAD_ID).pooled)

    def loss(rng: torch.Generator) -> Tensor:
        rows, _ = drawn(torch.arange(FEW), rng), torch.randint(1, (), generator=rng)
        return F.cross_entropy(answer(ids[rows]), topic[rows])

    both = nn.ModuleList([model, head])
    train(both, loss, seed, 60)
    held_out, right = topics(10_001, HELD_OUT)
    with evaluating(both):
        return float((answer(held_out).argmax(-1) == right).double().mean())
