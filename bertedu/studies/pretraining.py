"""One table: a pre-trained model and what it must beat, on documents nobody trained on."""

import math
import time
from collections.abc import Iterable, Sequence
from itertools import product
from pathlib import Path

import torch
from torch import Tensor
from tqdm.auto import tqdm

from bertedu.model.checkpoints import load_pretrained
from bertedu.model.config import Direction
from bertedu.model.elmo import ElmoForPreTraining
from bertedu.model.weight_files import CheckpointError
from bertedu.pretraining.batches import Batch, fixed_batches
from bertedu.pretraining.counting import NeighborModel, UnigramModel, score_baseline, score_beside
from bertedu.pretraining.evaluation import PreTrainingModel, score_pairs
from bertedu.pretraining.run import EVALUATION_BATCH
from bertedu.pretraining.run_folder import read_record
from bertedu.pretraining.texts import load_splits
from bertedu.results.files import Row
from bertedu.results.origin import origin
from bertedu.studies.columns import ratio_columns, word_columns

LENGTHS = (64, 128)  # those of the two phases of training
OBJECTIVES: dict[str, tuple[Direction, ...]] = {
    "masked words": ("bidirectional",),
    "next words": ("left-to-right",),
    "previous words": ("right-to-left",),
    "both ways": ("left-to-right", "right-to-left"),  # next and previous words, each from one side
}
ACCURACY = ("mlm_accuracy", "mlm_accuracy_low", "mlm_accuracy_high")
PRIORS = (10.0, 30.0, 100.0, 300.0, 1000.0)  # tried for the neighbor counts, on dev only


def report(
    checkpoints: Sequence[Path], split: str = "test", lengths: Sequence[int] = LENGTHS
) -> list[Row]:
    """Score checkpoints and their baselines on a held-out split, at each sequence length.

    Models are asked for what they were trained to name: losses can be compared within an objective,
    not between two. Beside them stand chance, unigram and counted neighbors (both, or the one that
    a one-way model sees): loss (nats a word asked for), accuracy, and NSP accuracy if it was
    trained, each with its 95 % bootstrap interval over pairs.

    Raises CheckpointError if a checkpoint cannot be loaded or does not say how it was trained;
    ValueError if the split is not held out, vocabularies differ, or a length has no positions.
    """
    if split not in ("dev", "test"):
        raise ValueError(f"no held-out split {split!r}: choose dev or test")
    models = [
        (folder.name, load_pretrained(folder), _how_trained(folder)) for folder in checkpoints
    ]
    size = models[0][1].config.vocab_size
    if any(model.config.vocab_size != size for _, model, _ in models):
        raise ValueError("these checkpoints have vocabularies of different sizes")
    for name, model, _ in models:
        room = model.config.max_position_embeddings
        if max(lengths) > room and not isinstance(model, ElmoForPreTraining):
            raise ValueError(
                f"{name} has positions for {room} tokens: it cannot be scored at {max(lengths)}, "
                f"choose --length up to {room}"
            )
    splits = load_splits()
    unigram, chance = (UnigramModel(splits["train"], size) for _ in range(2))
    chance.log_share.fill_(-math.log(size))
    neighbors = NeighborModel(splits["train"], size)
    about = origin()
    rows: list[Row] = []
    for length, (objective, directions) in product(lengths, OBJECTIVES.items()):
        asked = [one for one in models if _objective_of(one[1], one[2]) == objective]
        if not asked:
            continue
        tuning, batches = (
            [
                fixed_batches(splits[part], length, EVALUATION_BATCH, size, direction=direction)
                for direction in directions
            ]
            for part in ("dev", split)
        )
        neighbors.prior = _best_prior(neighbors, [some[:16] for some in tuning], directions)
        counted = _count(neighbors, tqdm(batches, desc=f"neighbors at {length}"), directions)
        by_chance, by_unigram = (
            word_columns(_added(score_baseline(model, some) for some in batches))
            for model in (chance, unigram)
        )
        exact = dict.fromkeys(ACCURACY, round(1 / size, 6))  # no tie to break
        scores = [
            ("chance", by_chance | exact),
            ("unigram", by_unigram),
            ("neighbors", word_columns(counted) | {"prior": neighbors.prior}),
            *(  # an ELMo asks for both directions itself
                (name, _model_columns(model, batches[0], f"{name} at {length}", trained))
                for name, model, trained in asked
            ),
        ]
        labels = torch.cat([batch.next_labels for batch in batches[0]]).double()
        common: Row = {
            "objective": objective,
            "split": split,
            "length": length,
            "selected_tokens": int(counted[:, 0].sum()),
            "pairs": len(labels),
            "nsp_majority": round(float(torch.maximum(labels.mean(), 1 - labels.mean())), 4),
        }
        rows += [{"system": name} | common | row | about for name, row in scores]
    return rows


def _model_columns(
    model: PreTrainingModel, batches: Sequence[Batch], name: str, trained: Row
) -> Row:
    began = time.perf_counter()
    scored = [score_pairs(model, [batch]) for batch in tqdm(batches, desc=name)]
    seconds = round(time.perf_counter() - began, 1)
    words, pairs = (torch.cat(parts) for parts in zip(*scored, strict=True))
    columns = word_columns(words)
    if trained["next_sentence"]:
        columns |= ratio_columns("nsp_accuracy", pairs[:, 1], torch.ones(len(pairs)))
    columns |= {"config": describe(model), "seconds": seconds}
    return columns | {k: v for k, v in trained.items() if k not in ("next_sentence", "masked")}


def _best_prior(
    neighbors: NeighborModel, tuning: Sequence[Sequence[Batch]], directions: Sequence[Direction]
) -> float:
    losses = {}
    for neighbors.prior in tqdm(PRIORS, desc="neighbors: tuning on dev"):
        losses[neighbors.prior] = float(_count(neighbors, tuning, directions)[:, 1].sum())
    return min(losses, key=losses.__getitem__)


def _added(tables: Iterable[Tensor]) -> Tensor:
    return torch.stack(list(tables)).sum(dim=0)


def _objective_of(model: PreTrainingModel, trained: Row) -> str:
    if trained["masked"]:  # a one-way model, too, may have been asked for masked words
        return "masked words"
    if isinstance(model, ElmoForPreTraining):
        return "both ways"
    return next(o for o, of in OBJECTIVES.items() if of == (model.config.direction,))


def describe(model: PreTrainingModel) -> str:
    """Say the size of a model in a line."""
    config = model.config
    if isinstance(model, ElmoForPreTraining):
        sizes = model.elmo.sizes
        return f"2 x {sizes.layers} LSTM H{config.hidden_size} C{sizes.cells} V{config.vocab_size}"
    return (
        f"L{config.num_hidden_layers} H{config.hidden_size} A{config.num_attention_heads} "
        f"V{config.vocab_size} {config.direction}"
    )


def curves(checkpoints: Sequence[Path]) -> list[Row]:
    """Return the loss curves of runs, from their records; a row for each that was logged.

    Raises CheckpointError if a folder holds no record of a finished run.
    """
    rows: list[Row] = []
    for folder in checkpoints:
        record = read_record(folder)
        config = record["config"]
        about = {
            "run": folder.name,
            "variant": record.get("variant", "bert"),
            "config": f"L{config['num_hidden_layers']} H{config['hidden_size']}",
            "seed": record["recipe"]["seed"],
            "commit": record["commit"] or "",
        }
        rows += [about | row for row in record["curve"]]
    return rows


def _count(
    model: NeighborModel, words: Iterable[Sequence[Batch]], directions: Sequence[Direction]
) -> Tensor:
    """Score counted neighbors on batches of each direction: (N, 3), both ways added up."""
    return _added(
        score_baseline(model, some)
        if direction == "bidirectional"
        else score_beside(model, some, direction)
        for some, direction in zip(words, directions, strict=True)
    )


def _how_trained(folder: Path) -> Row:
    """Columns from the record of a run. Read first: a report takes minutes."""
    record = read_record(folder)
    try:
        recipe = record["recipe"]
        return {
            "seed": recipe["seed"],
            "train_steps": with_earlier_runs(record, "steps"),
            "train_tokens": with_earlier_runs(record, "tokens"),
            "train_seconds": with_earlier_runs(record, "seconds"),
            "next_sentence": recipe.get("next_sentence", True),
            "masked": recipe.get("question") == "masked" or recipe.get("masked", False),
        }
    except (KeyError, TypeError):
        path = folder / "training.json"
        raise CheckpointError(f"{path} is not the record of a finished run") from None


def with_earlier_runs(record: Row, name: str) -> float:
    """Sum a figure over a run and those that it went on from (`--init`)."""
    before = record.get("init") or {}
    total: float = record[name] + (with_earlier_runs(before, name) if name in before else 0)
    return round(total, 1)
