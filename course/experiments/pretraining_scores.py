"""One table: a pre-trained model and what it must beat, on documents nobody trained on."""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import torch
from torch import Tensor
from tqdm.auto import tqdm

from bertedu.files import Row
from bertedu.model.checkpoints import CheckpointError, load_pretrained
from bertedu.model.config import ONE_WAY, Direction
from bertedu.model.elmo import ElmoForPreTraining
from bertedu.pretraining.batches import Batch, fixed_batches, load_splits
from bertedu.pretraining.objective import PreTrainingModel, score_pairs
from bertedu.pretraining.run import EVALUATION_BATCH, read_record
from course.experiments.counting import NeighborModel, UnigramModel, score_baseline
from course.results.columns import by_document, ratio_columns, with_interval, word_columns
from course.results.origin import made, origin

LENGTHS = (64, 128)  # those of the two phases of training
OBJECTIVES: dict[str, tuple[Direction, ...]] = {
    "masked words": ("bidirectional",),
    "next words": ("left-to-right",),
    "previous words": ("right-to-left",),
    "both ways": ("left-to-right", "right-to-left"),  # next and previous words, each from one side
}
ACCURACY = ("mlm_accuracy", "mlm_accuracy_low", "mlm_accuracy_high")
PRIORS = (10.0, 30.0, 100.0, 300.0, 1000.0)  # tried for the neighbor counts, on dev only


@dataclass(frozen=True)
class Pretrained:
    """A checkpoint, what it was trained to name, and columns of what its training took."""

    name: str
    model: PreTrainingModel
    objective: str
    next_sentence: bool
    trained: Row


def report(checkpoints: Sequence[Path], lengths: Sequence[int] = LENGTHS) -> list[Row]:
    """Score checkpoints and their baselines on the test split, at each sequence length.

    Models are asked for what they were trained to name: losses can be compared within an objective,
    not between two. Beside them stand chance, unigram and counted neighbors (both, or the one that
    a one-way model sees): loss (nats a word asked for), accuracy, and NSP accuracy if it was
    trained, each with its 95 % bootstrap interval over documents.

    Raises CheckpointError if a checkpoint cannot be loaded or does not say how it was trained;
    ValueError if vocabularies differ, or a length has no positions.
    """
    systems = load_systems(checkpoints, max(lengths))
    size = systems[0].model.config.vocab_size
    splits = load_splits()
    unigram = UnigramModel(splits["train"], size)
    neighbors = NeighborModel(splits["train"], size)
    chance = with_interval("mlm_loss", math.log(size), (math.log(size),) * 2)
    chance |= dict.fromkeys(ACCURACY, round(1 / size, 6))
    about = origin()
    rows: list[Row] = []
    for length, (objective, directions) in product(lengths, OBJECTIVES.items()):
        asked = [system for system in systems if system.objective == objective]
        if not asked:
            continue
        tuning, batches = (
            {
                direction: fixed_batches(text, length, EVALUATION_BATCH, size, direction=direction)
                for direction in directions
            }
            for text in (splits["dev"], splits["test"])
        )
        tune(neighbors, tuning)
        counted = score_counts(neighbors, batches)
        first = batches[directions[0]]  # an ELMo asks for both directions itself
        documents = documents_of(first)
        alone = word_columns(by_document(score_counts(unigram, batches), documents))
        beside = word_columns(by_document(counted, documents)) | {"prior": neighbors.prior}
        scores = [("chance", chance), ("unigram", alone), ("neighbors", beside)]
        for system in tqdm(asked, desc=f"models at {length}"):
            scores.append((system.name, score_network(system, first)))
        labels = torch.cat([batch.next_labels for batch in first]).double()
        common: Row = {
            "objective": objective,
            "split": "test",
            "length": length,
            "selected_tokens": int(counted[:, 0].sum()),
            "pairs": len(labels),
            "documents": len(set(documents.tolist())),
            "nsp_majority": round(float(torch.maximum(labels.mean(), 1 - labels.mean())), 4),
        }
        rows += [{"system": name} | common | row | about for name, row in scores]
    return rows


def documents_of(batches: Sequence[Batch]) -> Tensor:
    """Return the number of the document of each pair, (N,), of batches made from a text."""
    return torch.cat([batch.documents for batch in batches if batch.documents is not None])


def load_systems(checkpoints: Sequence[Path], longest: int) -> list[Pretrained]:
    """Load checkpoints, and see to it that all can be scored on the same texts: see `report`."""
    systems = [load_with_record(folder) for folder in checkpoints]
    if len({system.model.config.vocab_size for system in systems}) > 1:
        raise ValueError("these checkpoints have vocabularies of different sizes")
    for system in systems:
        room = system.model.config.max_position_embeddings
        if longest > room and not isinstance(system.model, ElmoForPreTraining):
            raise ValueError(
                f"{system.name} has positions for {room} tokens: it cannot be scored at "
                f"{longest}, choose --length up to {room}"
            )
    return systems


def score_counts(model: UnigramModel, batches: Mapping[Direction, Sequence[Batch]]) -> Tensor:
    """Score counts on the batches of each direction: (N, 3), both ways added up."""
    tables = [score_baseline(model, some, direction) for direction, some in batches.items()]
    return torch.stack(tables).sum(dim=0)


def tune(neighbors: NeighborModel, batches: Mapping[Direction, Sequence[Batch]]) -> None:
    """Give the counts the prior that is best on the beginning of some batches."""
    beginning, losses = {direction: some[:16] for direction, some in batches.items()}, {}
    for neighbors.prior in tqdm(PRIORS, desc="neighbors: tuning on dev"):
        losses[neighbors.prior] = float(score_counts(neighbors, beginning)[:, 1].sum())
    neighbors.prior = min(losses, key=losses.__getitem__)


def score_network(system: Pretrained, batches: Sequence[Batch]) -> Row:
    """Score a model, and say what it is and how it was trained."""
    began = time.perf_counter()
    words, pairs = score_pairs(system.model, batches)
    seconds = round(time.perf_counter() - began, 1)
    documents = documents_of(batches)
    columns = word_columns(by_document(words, documents))
    if system.next_sentence:
        right = torch.stack([pairs[:, 1], torch.ones(len(pairs))], dim=1)
        columns |= ratio_columns("nsp_accuracy", *by_document(right, documents).T)
    return columns | {"config": describe(system.model), "seconds": seconds} | system.trained


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
        config, recipe = record["config"], record["recipe"]
        about = {
            "run": folder.name,
            "variant": record.get("variant", "bert"),
            "config": f"L{config['num_hidden_layers']} H{config['hidden_size']}",
            "optimizer": recipe.get("optimizer", "adamw"),
            **{name: recipe[name] for name in ("learning_rate", "steps", "seed")},
            **made(record),
        }
        rows += [about | row for row in record["curve"]]
    return rows


def load_with_record(folder: Path) -> Pretrained:
    """Load a checkpoint and what its record says of it, before the minutes that a report takes."""
    model, record = load_pretrained(folder), read_record(folder)
    try:
        recipe = record["recipe"]
        trained = {"seed": recipe["seed"]} | {
            f"train_{name}": with_earlier_runs(record, name)
            for name in ("steps", "tokens", "seconds")
        }
        masked = recipe.get("question") == "masked" or recipe.get("masked", False)
        next_sentence = recipe.get("next_sentence", True)
    except (KeyError, TypeError):
        path = folder / "training.json"
        raise CheckpointError(f"{path} is not the record of a finished run") from None
    reads = ONE_WAY if isinstance(model, ElmoForPreTraining) else (model.config.direction,)
    if masked:  # a one-way model, too, may have been asked for masked words
        reads = OBJECTIVES["masked words"]
    objective = next(name for name, directions in OBJECTIVES.items() if directions == reads)
    return Pretrained(folder.name, model, objective, next_sentence, trained)


def with_earlier_runs(record: Row, name: str) -> float:
    """Sum a figure over a run and those that it went on from (`--init`)."""
    before = record.get("init") or {}
    total: float = record[name] + (with_earlier_runs(before, name) if name in before else 0)
    return round(total, 1)
