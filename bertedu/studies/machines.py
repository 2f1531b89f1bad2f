"""Another machine: ALBERT, BigBird and ModernBERT, each beside the BERT that it changes.

``python -m bertedu.studies.machines`` trains all arms in ten minutes of one core, and writes
`data/results/machines.csv`; what is there is not run again. Foretold, before the first run:

- depth: 4 passes through one layer pay more than 4 layers, and less than 1 pass through one.
- far: with a window alone a far name stays unknown. One global token brings it, random keys where
  they reach, and BigBird, which has all three, does as well as full attention.
- echo: learned places fail where they were never trained, angles do not.
- name: a name that may stand anywhere needs no places, so both kinds find it in longer texts.
"""

from collections.abc import Callable, Sequence
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Annotated

import torch
import typer
from torch import Tensor, nn
from torch.nn import functional as F

from bertedu.model.bert import BertForPreTraining
from bertedu.model.config import BertConfig, count_parameters
from bertedu.model.evaluating import evaluating
from bertedu.model.variants.albert import albert
from bertedu.model.variants.bigbird import bigbird
from bertedu.model.variants.rotary import modern_bert
from bertedu.pretraining.loop import make_optimizer
from bertedu.pretraining.masking import mask_tokens
from bertedu.pretraining.recipe import scheduled_rate
from bertedu.pretraining.toy import MASK_RATE, held_out_questions, toy_ids, toy_losses
from bertedu.results.files import Row, read_csv, write_csv
from bertedu.results.origin import origin
from bertedu.studies.after_bert import Finding, finding
from bertedu.text.tokenization import CLS_ID, MASK_ID, PAD_ID, SPECIAL_TOKENS
from bertedu.text.toy_language import ToyLanguage

RECORD = Path("data/results/machines.csv")
FIRST, NAMES, WORDS, BACK, WINDOW, LAYERS = len(SPECIAL_TOKENS), 8, 16, 3, 2, 2
LENGTH, TIMES = 32, (1, 2, 4)  # tokens of a text to train on, and how many times that is scored
Texts = tuple[Tensor, Tensor, Tensor]  # ids (B, S), selected (B, S), answers (n,)
_WORDS = ToyLanguage().words


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


@cache
def _sentences(seed: int) -> Tensor:
    language = ToyLanguage()
    return toy_ids(language, language.sample(20_000, seed))


def toy_texts(generator: torch.Generator) -> Texts:
    """Draw sentences of the toy language, with words masked."""
    sentences = _sentences(generator.initial_seed())
    some = sentences[torch.randint(len(sentences), (64,), generator=generator)]
    ids, selected = mask_tokens(some, FIRST + len(_WORDS), generator, MASK_RATE)
    return ids, selected, some[selected]


def train(
    model: BertForPreTraining, texts: Callable[..., Texts], seed: int, steps: int
) -> BertForPreTraining:
    """Train a model to fill the blanks of fresh texts."""
    generator = torch.Generator().manual_seed(seed)
    optimizer = make_optimizer(model, weight_decay=0.01)
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = scheduled_rate(step, steps, 2e-3, warmup_share=0.1)
        ids, selected, answers = texts(generator)
        words, _ = model(ids, padding_mask=ids != PAD_ID, selected=selected)
        optimizer.zero_grad()
        F.cross_entropy(words, answers).backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return model


def score_depth(model: BertForPreTraining) -> dict[str, float]:
    """Nats a word above what a perfect reader of both sides pays."""
    questions = _questions()
    losses = toy_losses(model, questions) - questions.limits["bidirectional"]
    return {"above the limit": losses.mean().item()}


_questions = cache(held_out_questions)


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
    return BertConfig(
        FIRST + words, 64, layers, 4, 256, max(TIMES) * LENGTH, 1, 0.0, initializer_range=0.1
    )


_PLACES: dict[str, Callable[..., BertForPreTraining]] = {
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
        "4 layers": (partial(albert, share_layers=False), _small(len(_WORDS), 4)),
        "1 layer, 4 times": (albert, _small(len(_WORDS), 4)),
        "1 layer, once": (albert, _small(len(_WORDS), 1)),
    },
    "far": {
        name: (lambda config, keys=keys: bigbird(config, **keys), _small(NAMES + WORDS))
        for name, keys in FAR_MASKS.items()
    },
    "echo": {name: (make, _small(WORDS)) for name, make in _PLACES.items()},
    "name": {name: (make, _small(NAMES + WORDS)) for name, make in _PLACES.items()},
}
HOW: dict[str, tuple[int, Callable[..., Texts], Callable[..., dict[str, float]]]] = {
    "depth": (400, toy_texts, score_depth),
    "far": (500, name_texts, score_far),
    "echo": (400, echo_texts, partial(score_longer, texts=echo_texts)),
    "name": (500, name_texts, partial(score_longer, texts=name_texts)),
}


def run(experiment: str, arm: str, seed: int) -> list[Row]:
    """Train and score one arm; a row for each measure."""
    make, config = ARMS[experiment][arm]
    steps, texts, score = HOW[experiment]
    torch.manual_seed(seed)
    model = train(make(config), texts, seed, steps)
    row: Row = {"experiment": experiment, "arm": arm, "seed": seed}
    generator = torch.Generator().manual_seed(seed)
    tokens = sum(texts(generator)[0].numel() for _ in range(steps))
    passed = count_parameters(config)["encoder"]  # as often as tokens pass through them
    work = {"encoder_weights": sum(p.numel() for p in model.bert.encoder.parameters())}
    work |= {"tokens": tokens, "operations": 6 * passed * tokens}
    return [row | {"measure": m, "value": round(x, 4)} | work for m, x in score(model).items()]


def gaps(rows: Sequence[Row], experiment: str, measure: str, arm: str, than: str) -> list[float]:
    """Return for each seed that both arms have, how much more the first has than the second."""
    values: dict[str, dict[str, float]] = {arm: {}, than: {}}
    for row in rows:
        if (row["experiment"], row["measure"]) == (experiment, measure) and row["arm"] in values:
            values[row["arm"]][row["seed"]] = float(row["value"])
    return [values[arm][s] - values[than][s] for s in values[arm] if s in values[than]]


# idea, year, claimed, unit; experiment, measure, an arm that has more than another; a margin
_FINDINGS: tuple[tuple[str, int, str, str, str, str, str, str, float], ...] = (
    ("ALBERT", 2019, "passing a shared layer again pays", "nats a word: 4 passes against 1",
     "depth", "above the limit", "1 layer, once", "1 layer, 4 times", 0.0),
    ("ALBERT", 2019, "separate layers are a little better", "nats a word: 4 layers against 1",
     "depth", "above the limit", "1 layer, 4 times", "4 layers", 0.0),
    ("BigBird", 2020, "window and random keys do not suffice", "nats a far name: a global token",
     "far", "far", "window + random", "BigBird", 0.0),
    ("BigBird", 2020, "as good as full attention", "nats a far name: 0.05 - what it pays more",
     "far", "far", "full", "BigBird", 0.05),
    ("rotary", 2021, "any length: where distance matters", "points at 4 times the length: echo",
     "echo", "4 x", "rotary", "learned", 0.0),
    ("rotary", 2021, "any length: where no place matters", "points at 4 times the length: name",
     "name", "4 x", "rotary", "learned", 0.0),
    ("ModernBERT", 2024, "a window does for half of the layers", "points: 1 - what it costs, name",
     "name", "1 x", "rotary, local and global", "rotary", 1.0),
)  # fmt: skip


def findings(folder: Path) -> list[Finding]:
    """Return what the runs in a folder of results make of the claims of the papers.

    "As good as" is supported if what is lost is surely below the margin.
    """
    rows = read_csv(folder / RECORD.name)
    return [
        finding(
            idea, year, claimed, unit, [margin + gap for gap in gaps(rows, where, what, more, less)]
        )
        for idea, year, claimed, unit, where, what, more, less, margin in _FINDINGS
    ]


def main(
    out: Annotated[Path, typer.Option(help="CSV file to add to.")] = RECORD,
    seeds: Annotated[int, typer.Option(help="How many runs of each.", min=1)] = 5,
) -> None:
    """Run the study."""
    torch.set_num_threads(1)
    made, rows = origin(), read_csv(out)
    done = {(row["experiment"], row["arm"], row["seed"]) for row in rows}
    for seed, (experiment, arms) in product(range(seeds), ARMS.items()):
        for arm in arms:
            if (experiment, arm, str(seed)) not in done:
                rows += [row | made for row in run(experiment, arm, seed)]
                write_csv(out, rows)


if __name__ == "__main__":
    typer.run(main)
