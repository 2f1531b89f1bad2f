"""Another machine: ALBERT, BigBird and ModernBERT, each beside the BERT that it changes.

``python -m course.experiments.machines`` adds to `data/results/machines.csv` what it lacks; ten
minutes of one core in all.
"""

from collections.abc import Callable, Iterator
from functools import cache, partial

import torch
from torch import Tensor
from torch.nn import functional as F

from bertedu.files import Row
from bertedu.model.bert import BertForPreTraining
from bertedu.model.config import BertConfig, count_parameters
from bertedu.model.inference import evaluating
from bertedu.model.variants.albert import albert
from bertedu.model.variants.bigbird import bigbird
from bertedu.model.variants.rotary import modern_bert
from bertedu.pretraining.masking import mask_tokens
from bertedu.text.tokenization import CLS_ID, MASK_ID, PAD_ID
from course.experiments.fitting import train
from course.experiments.toy import MASK_RATE, held_out_questions, toy_losses
from course.experiments.toy_readers import FIRST, LANGUAGE, text
from course.results.study import grid, study

NAMES, WORDS, BACK, WINDOW, LAYERS = 8, 16, 3, 2, 2
LENGTH, TIMES = 32, (1, 2, 4)  # tokens of a text to train on, and how many times that is scored
Texts = tuple[Tensor, Tensor, Tensor]  # ids (B, S), selected (B, S), answers (n,)
TOY = len(LANGUAGE.words)
questions = cache(held_out_questions)


def name_texts(generator: torch.Generator, count: int = 32, length: int = LENGTH) -> Texts:
    """Draw words with one name among them, and a blank, anywhere else, that asks for the name."""
    ids = torch.randint(FIRST + NAMES, FIRST + NAMES + WORDS, (count, length), generator=generator)
    ids[:, 0] = CLS_ID
    name, blank = (torch.rand(count, length - 1, generator=generator).argsort(1)[:, :2] + 1).T
    answers = torch.randint(FIRST, FIRST + NAMES, (count,), generator=generator)
    ids[range(count), name], ids[range(count), blank] = answers, MASK_ID
    return ids, ids == MASK_ID, answers


def echo_texts(generator: torch.Generator, count: int = 32, length: int = LENGTH) -> Texts:
    """Draw words, some of them blank; a blank asks for the word that stands `BACK` before it."""
    ids = torch.randint(FIRST, FIRST + WORDS, (count, length), generator=generator)
    blank = torch.rand(count, length, generator=generator) < 0.2
    blank[:, :BACK] = False
    blank &= ~blank.roll(BACK, dims=1)  # what it asks for can be seen
    return ids.masked_fill(blank, MASK_ID), blank, ids.roll(BACK, dims=1)[blank]


def toy_texts(generator: torch.Generator) -> Texts:
    """Draw sentences of the toy language, with words masked."""
    sentences = text(generator.initial_seed())[1]
    some = sentences[torch.randint(len(sentences), (64,), generator=generator)]
    ids, selected = mask_tokens(some, FIRST + TOY, generator, MASK_RATE)
    return ids, selected, some[selected]


def score_depth(model: BertForPreTraining) -> dict[str, float]:
    """Nats a word above what a perfect reader of both sides pays."""
    losses = toy_losses(model, questions()) - questions().limits["bidirectional"]
    return {"above the limit": losses.mean().item()}


def score_far(model: BertForPreTraining) -> dict[str, float]:
    """Nats for names inside of what the windows of all layers reach, and for names beyond."""
    ids, selected, answers = name_texts(torch.Generator().manual_seed(10_000), 2000)
    with evaluating(model):
        losses = F.cross_entropy(model(ids, selected=selected)[0], answers, reduction="none")
    name = ((ids >= FIRST) & (ids < FIRST + NAMES)).nonzero()[:, 1]
    far = (name - selected.nonzero()[:, 1]).abs() > WINDOW * LAYERS
    return {"near": losses[~far].mean().item(), "far": losses[far].mean().item()}


def score_longer(model: BertForPreTraining, texts: Callable[..., Texts]) -> dict[str, float]:
    """Per cent right in texts as long as in training, and longer."""
    scores = {}
    for times in TIMES:
        ids, selected, answers = texts(torch.Generator().manual_seed(10_000), 300, times * LENGTH)
        with evaluating(model):
            right = model(ids, selected=selected)[0].argmax(-1) == answers
        scores[f"{times} x"] = 100 * right.double().mean().item()
    return scores


def _small(words: int, layers: int = LAYERS) -> BertConfig:
    return BertConfig(FIRST + words, 64, layers, 4, 256, max(TIMES) * LENGTH, 1, 0.0, 1e-12, 0.1)


_POSITIONS: dict[str, Callable[..., BertForPreTraining]] = {
    "learned": BertForPreTraining,
    "rotary": modern_bert,
    "rotary, local and global": partial(modern_bert, window=4, every=2),
}
FAR_MASKS: dict[str, dict[str, int]] = {
    "window": {"window": WINDOW},
    "window + random": {"window": WINDOW, "random_keys": 2},
    "window + global": {"window": WINDOW, "global_tokens": 1},
    "BigBird": {"window": WINDOW, "random_keys": 2, "global_tokens": 1},
    "full": {"window": LENGTH},
}
# experiment -> steps, texts, score, and for each arm what makes a model of a config, and the config
ARMS: dict[str, dict[str, tuple[Callable[..., BertForPreTraining], BertConfig]]] = {
    "depth": {
        "4 layers": (partial(albert, share_layers=False), _small(TOY, 4)),
        "1 layer, 4 times": (albert, _small(TOY, 4)),
        "1 layer, once": (albert, _small(TOY, 1)),
    },
    "far": {
        name: (lambda config, keys=keys: bigbird(config, **keys), _small(NAMES + WORDS))
        for name, keys in FAR_MASKS.items()
    },
    "echo": {name: (make, _small(WORDS)) for name, make in _POSITIONS.items()},
    "name": {name: (make, _small(NAMES + WORDS)) for name, make in _POSITIONS.items()},
}
HOW: dict[str, tuple[int, Callable[..., Texts], Callable[..., dict[str, float]]]] = {
    "depth": (400, toy_texts, score_depth),
    "far": (500, name_texts, score_far),
    "echo": (400, echo_texts, partial(score_longer, texts=echo_texts)),
    "name": (500, name_texts, partial(score_longer, texts=name_texts)),
}


def run(experiment: str, arm: str, seed: int) -> Iterator[Row]:
    """Train one arm to fill the blanks of fresh texts, and score it; a row for each measure."""
    make, config = ARMS[experiment][arm]
    steps, texts, score = HOW[experiment]
    torch.manual_seed(seed)
    model, tokens = make(config), 0

    def loss(generator: torch.Generator) -> Tensor:
        nonlocal tokens
        ids, selected, answers = texts(generator)
        tokens += ids.numel()
        words, _ = model(ids, padding_mask=ids != PAD_ID, selected=selected)
        return F.cross_entropy(words, answers)

    train(model, loss, seed, steps, 2e-3)
    passed = count_parameters(config)["encoder"]  # as often as tokens pass through them
    work = {"encoder_weights": sum(p.numel() for p in model.bert.encoder.parameters())}
    work |= {"tokens": tokens, "operations": 6 * passed * tokens}
    for measure, value in score(model).items():
        yield {"measure": measure, "value": round(value, 4)} | work


PLAN = [one for name in ARMS for one in grid(run, experiment=[name], arm=ARMS[name], seed=range(3))]

if __name__ == "__main__":
    study(machines=PLAN)
