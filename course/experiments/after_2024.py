"""What came after 2024, on the real text: four ideas, each with the runs that it needs.

*Next words first* (Weller et al. 2025; Gisserot-Boukhlef et al. 2025): a share of the steps asks
for next words, then the attention mask comes off, and the rest asks for blanks. *The mask off*
(Zhang et al. 2025): a left-to-right model read from both sides, at once and after some steps of
blanks. *Masked diffusion*: its held-out bound beside the loss of a left-to-right model. *Muon*:
beside AdamW, in the same batches.

``pretrain`` makes the runs (data/README.md has the commands); ``blanks`` reads their records into a
table, ``tune`` fine-tunes them, ``bounds`` scores readers and writers, ``seconds`` times a step.
What is recorded is not made again.

Predicted, before any of it was run. Next words first: of held-out blanks, 25 % next words cost less
than 1 point, 50 % 1 to 3, 75 % more than 3 against blanks alone; of the primary outcome of
notebook 13 all shares are undecided at 25 and 50 %, and 75 % is below. The mask off: untrained,
both tasks lose at least 5 points against the mask on, topic more than entities; after 1,000 steps
of blanks both are at least where the mask on was. Masked diffusion: its bound is 0.3 to 0.9 nats a
word above the loss of left to right after as many steps. Muon: at its best rate 0.05 to 0.15 nats
below AdamW at its best after 10,500 steps, decided over three seeds; half of the steps to AdamW's
last loss.

Predicted after the rows of blanks and of the rates, and before all others: half of the steps to
AdamW's last loss are 0.5 to 0.6 of its seconds, on this processor; bert-mini anew, by Muon in
batches of 16,384 tokens, fills 48 to 51 % of held-out blanks at length 128 (45.6 before).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Annotated

import torch
import typer
from tqdm.auto import tqdm

from bertedu.files import Row, write_csv
from bertedu.machine import default_device
from bertedu.model.bert import BertForPreTraining
from bertedu.model.checkpoints import find_checkpoint, load_checkpoint
from bertedu.model.config import BertConfig
from bertedu.model.inference import evaluating
from bertedu.model.variants.diffusion import diffusion_loss
from bertedu.optimization import MuonAndAdamW, make_optimizer
from bertedu.pretraining.batches import Batch, Recipe, fixed_batches, halved, load_splits
from bertedu.pretraining.next_sentence import EncodedDocument
from bertedu.pretraining.objective import score_pairs
from bertedu.pretraining.run import EVALUATION_BATCH, EVALUATION_LENGTH, read_record
from bertedu.pretraining.trainer import State, stream_of
from bertedu.text.tokenization import SPECIAL_TOKENS
from course.experiments.ablations import PRIMARY, TUNED, Grid, Variant, ablate
from course.experiments.pretraining_scores import with_earlier_runs
from course.results.columns import ratio_columns
from course.results.origin import made
from course.results.study import Run, add_missing

SEEDS = range(3)
SHARES = (0, 25, 50, 75)  # per cent of 10,500 steps that ask for next words, before blanks
# (variant, seed, run) of what is asked for blanks
BLANKS = [(f"{share} %", seed, f"next-{share}-{seed}") for share in SHARES for seed in SEEDS]
VOCABULARY = 8192
ADAMW, MUON = "adamw", "muon"
LTR, DIFFUSION = "left to right", "masked diffusion"
READERS = {f"at-a-blank/ltr-{seed}": LTR for seed in SEEDS} | {
    f"after-2024/diffusion-{seed}": DIFFUSION for seed in SEEDS
}
DRAWS = 16  # of blanks in each text, for the bound


def _grid(about: str, tasks: tuple[str, ...], runs: dict[str, str]) -> Grid:
    """Name variants of three pre-trainings each; a run ends where dev stops rising."""
    variants = tuple(
        Variant(name, tuple(f"{run}-{seed}" for seed in SEEDS), TUNED) for name, run in runs.items()
    )
    return Grid(about, variants, tasks)


_NEXT = {f"{share} %": f"after-2024/next-{share}" for share in SHARES}
_OFF = {"mask on": "at-a-blank/ltr", "off": "after-2024/off-0"}
_OFF |= {f"off, {steps} steps": f"after-2024/off-{steps}" for steps in (100, 1000)}
_OFF |= {"both sides from the start": "after-2024/next-0"}
_TWO = ("topic", "entities")
GRIDS = {
    "next-first": _grid("next words for a share of the steps, then blanks", PRIMARY, _NEXT),
    "mask-off": _grid("a left-to-right model with its mask taken off", _TWO, _OFF),
}

app = typer.Typer(help=__doc__.splitlines()[0], no_args_is_help=True, add_completion=False)
RESULTS = Path("data/results")
Out = Annotated[Path, typer.Option(help="Folder of results.")]
Runs = Annotated[Path, typer.Option(help="Folder of the runs.")]


def trained(record: Row) -> Row:
    """Say what a run has read, with those that it went on from."""
    return {name: int(with_earlier_runs(record, name)) for name in ("steps", "tokens")}


def step_rows(documents: Sequence[EncodedDocument], rounds: int = 12) -> Iterator[Row]:
    """Time a step of our own with both optimizers, and of `transformers` with AdamW, in turn.

    All on one thread, in the same batches of the default recipe. ``seed`` is the round.
    """
    # they come with what tests need: no learner has to have them
    from benchmarks.compare import precisions
    from benchmarks.measure import WARM_UP, take_turns
    from benchmarks.sides import Setting, make_model, training_step

    ours = [Setting("ours", bfloat16=half) for half in precisions()]
    theirs = [Setting("theirs", 0, half, way) for half in precisions() for way in ("sdpa", "eager")]
    makes: dict[str, Callable[..., torch.optim.Optimizer]]
    makes = {ADAMW: make_optimizer, MUON: MuonAndAdamW}
    sides = [(ADAMW, one) for one in (*ours, *theirs)]
    sides += [(MUON, one) for one in ours]
    config = replace(BertConfig.preset("L4H128"), vocab_size=VOCABULARY)
    seconds: dict[tuple[str, Setting], torch.Tensor] = {}
    for phase in Recipe(1).phases:
        stream = stream_of(documents, config, Recipe(1, phases=(phase,)), State())
        some = [batch for batch, _ in islice(stream, WARM_UP + rounds)]
        steps = {
            f"{optimizer}, {one.side}, {one}": training_step(
                make_model(config, one), some, one, makes[optimizer]
            )
            for optimizer, one in sides
        }
        times = take_turns(steps, rounds).values()
        for (optimizer, one), taken in zip(sides, times, strict=True):
            part = phase.share * torch.tensor(taken) / 1000
            seconds[optimizer, one] = seconds.get((optimizer, one), 0) + part
    for (optimizer, one), sums in seconds.items():
        about: Row = {"side": one.side, "optimizer": optimizer, "setting": str(one)}
        for number, value in enumerate(sums.tolist()):
            yield about | {"seed": number, "seconds": round(value, 4)}


def nats_row(name: str, reader: str, batches: Sequence[Batch]) -> Iterator[Row]:
    """Score a run in nats a word: what left to right pays, or the bound of diffusion."""
    model = load_checkpoint(find_checkpoint(name))
    assert isinstance(model, BertForPreTraining)
    model.to(default_device())
    if reader == LTR:
        words, nats = score_pairs(model, batches)[0][:, :2].T
    else:
        dice, paid = torch.Generator().manual_seed(2024), []
        with evaluating(model):
            for batch in tqdm(batches, desc=name, leave=False):
                here = batch.to(default_device())
                draws = [
                    diffusion_loss(model, here.ids, dice, here.segment_ids) for _ in range(DRAWS)
                ]
                paid.append(torch.stack(draws).double().mean(0).cpu())
        nats = torch.cat(paid)
        words = torch.cat([(b.ids >= len(SPECIAL_TOKENS)).sum(1) for b in batches]).double()
    about: Row = {"texts": len(words), "words": int(words.sum())}
    yield about | ratio_columns("nats", nats, words) | trained(read_record(find_checkpoint(name)))


@app.command()
def tune(
    grid: Annotated[str, typer.Argument(help="next-first or mask-off.")],
    variants: Annotated[list[str] | None, typer.Option("--variant", help="Repeatable.")] = None,
    tasks: Annotated[list[str] | None, typer.Option("--task", help="Repeatable.")] = None,
    out: Out = RESULTS,
) -> None:
    """Fine-tune the runs of a grid until dev stops: after_2024/ablations.csv."""
    ablate(GRIDS[grid], out / "after_2024", tasks=tasks, variants=variants)


@app.command()
def bounds(out: Out = RESULTS) -> None:
    """Score readers and writers on the same held-out texts: bounds.csv."""
    test = load_splits()["test"]
    sizes = (EVALUATION_LENGTH, EVALUATION_BATCH, VOCABULARY)
    batches = fixed_batches(test, *sizes, direction="left-to-right")
    runs: list[Run] = []
    for name, reader in READERS.items():
        about: Row = {"run": name, "reader": reader, "seed": name[-1]}
        runs.append((about, partial(nats_row, name, reader, batches)))
    add_missing(out / "bounds.csv", runs, default_device())


@app.command()
def blanks(runs: Runs = Path("runs/after-2024"), out: Out = RESULTS) -> None:
    """Read held-out blanks from the records of runs: next_first.csv."""
    rows: list[Row] = []
    for variant, seed, name in BLANKS:
        record = read_record(runs / name)
        dev = {n: record["curve"][-1][f"dev_{n}"] for n in ("mlm_loss", "mlm_accuracy")}
        about: Row = {"variant": variant, "seed": seed, "run": name}
        rows.append(about | dev | trained(record) | made(record))
    write_csv(out / "next_first.csv", rows)


@app.command()
def seconds(out: Out = RESULTS) -> None:
    """Time a step of AdamW, of Muon and of `transformers`: muon_seconds.csv."""
    documents = halved(load_splits()["train"])
    add_missing(out / "muon_seconds.csv", [({"config": "L4 H128"}, partial(step_rows, documents))])


if __name__ == "__main__":
    app()
