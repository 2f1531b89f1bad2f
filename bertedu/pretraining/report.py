"""One table: a pre-trained model and what it must beat, on documents nobody trained on."""

import csv
import io
import json
import math
import time
from collections.abc import Iterable, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from tqdm.auto import tqdm

from bertedu.model.checkpoints import CheckpointError, load_pretrained, write_atomically
from bertedu.model.config import Direction
from bertedu.model.elmo import ElmoForPreTraining
from bertedu.pretraining.baselines import (
    NeighborModel,
    UnigramModel,
    score_baseline,
    score_beside,
)
from bertedu.pretraining.batches import Batch, fixed_batches
from bertedu.pretraining.evaluation import PreTrainingModel, bootstrap_interval, score_pairs
from bertedu.pretraining.loop import describe_machine
from bertedu.pretraining.run import (
    EVALUATION_BATCH,
    current_commit,
    load_splits,
)

LENGTHS = (64, 128)  # those of the two phases of training
OBJECTIVES: dict[str, tuple[Direction, ...]] = {
    "masked words": ("bidirectional",),
    "next words": ("left-to-right",),
    "previous words": ("right-to-left",),
    "both ways": ("left-to-right", "right-to-left"),  # next and previous words, each from one side
}
PRIORS = (10.0, 30.0, 100.0, 300.0, 1000.0)  # tried for the neighbor counts, on dev only


def report(
    checkpoints: Sequence[Path], split: str = "test", lengths: Sequence[int] = LENGTHS
) -> list[dict[str, object]]:
    """Score checkpoints and their baselines on a held-out split, at each sequence length.

    Models that were trained to name masked words, next words, previous words or both are asked
    for these: losses can be compared within an objective, not between two.

    Returns
    -------
    For each length and objective a row for chance, unigram, counted neighbors (both, or the one
    that a one-way model sees), and each model: loss (nats a word asked for) and accuracy, NSP
    accuracy if it was trained, each with its 95 % bootstrap interval over pairs.

    Raises
    ------
    CheckpointError
        A checkpoint cannot be loaded, or its `training.json` does not say how it was trained.
    ValueError
        The split is not a held-out one, vocabularies differ, or a length has no positions.

    """
    if split not in ("dev", "test"):
        raise ValueError(f"no held-out split {split!r}: choose dev or test")
    models = [(folder.name, load_pretrained(folder)) for folder in checkpoints]
    trained = [_how_trained(folder / "training.json") for folder in checkpoints]
    size = models[0][1].config.vocab_size
    if any(model.config.vocab_size != size for _, model in models):
        raise ValueError("these checkpoints have vocabularies of different sizes")
    for name, model in models:
        room = model.config.max_position_embeddings
        if max(lengths) > room and not isinstance(model, ElmoForPreTraining):
            raise ValueError(
                f"{name} has positions for {room} tokens: it cannot be scored at {max(lengths)}, "
                f"choose --length up to {room}"
            )
    splits = load_splits()
    unigram = UnigramModel(splits["train"], size)
    uniform = UnigramModel(splits["train"], size)
    uniform.log_share.fill_(-math.log(size))
    neighbors = NeighborModel(splits["train"], size)
    machine = describe_machine(torch.device("cpu"))
    origin = {
        "commit": current_commit() or "",
        "device": f"{machine['device']} {machine['hardware']}",
    }
    rows: list[dict[str, object]] = []
    for length, (objective, directions) in product(lengths, OBJECTIVES.items()):
        asked = [
            i
            for i, (_, model) in enumerate(models)
            if objective_of(model, bool(trained[i]["masked"])) == objective
        ]
        if not asked:
            continue
        tuning, words = (
            [
                fixed_batches(splits[part], length, EVALUATION_BATCH, size, direction=direction)
                for direction in directions
            ]
            for part in ("dev", split)
        )
        neighbors.prior = _best_prior(neighbors, [some[:16] for some in tuning], directions)
        tables = {
            "chance": _added(score_baseline(uniform, some) for some in words),
            "unigram": _added(score_baseline(unigram, some) for some in words),
            "neighbors": _count(neighbors, tqdm(words, desc=f"neighbors at {length}"), directions),
        }
        labels = torch.cat([batch.next_labels for batch in words[0]]).double()
        common: dict[str, object] = {
            "objective": objective,
            "split": split,
            "length": length,
            "selected_tokens": int(tables["chance"][:, 0].sum()),
            "pairs": len(labels),
            "nsp_majority": round(float(torch.maximum(labels.mean(), 1 - labels.mean())), 4),
        }
        for system, table in tables.items():
            columns = _word_columns(table)
            if system == "chance":
                for end in ("", "_low", "_high"):
                    columns[f"mlm_accuracy{end}"] = round(1 / size, 6)  # exact: no tie to break
            if system == "neighbors":
                columns["prior"] = neighbors.prior
            rows.append({"system": system} | common | columns | origin)
        for i in asked:
            name, model = models[i]
            # an ELMo asks for both directions itself
            columns = _model_columns(model, words[0], f"{name} at {length}", trained[i])
            rows.append({"system": name} | common | columns | origin)
    return rows


def _model_columns(
    model: PreTrainingModel, batches: Sequence[Batch], name: str, trained: dict[str, object]
) -> dict[str, object]:
    began = time.perf_counter()
    scored = [score_pairs(model, [batch]) for batch in tqdm(batches, desc=name)]
    seconds = round(time.perf_counter() - began, 1)
    words, pairs = (torch.cat(parts) for parts in zip(*scored, strict=True))
    columns = _word_columns(words)
    if trained["next_sentence"]:
        low, high = bootstrap_interval(pairs[:, 1], torch.ones(len(pairs)))
        columns |= {
            "nsp_accuracy": round(float(pairs[:, 1].mean()), 4),
            "nsp_accuracy_low": round(low, 4),
            "nsp_accuracy_high": round(high, 4),
        }
    columns |= {"config": describe(model), "seconds": seconds}
    return columns | {k: v for k, v in trained.items() if k not in ("next_sentence", "masked")}


def _best_prior(
    neighbors: NeighborModel, tuning: Sequence[Sequence[Batch]], directions: Sequence[Direction]
) -> float:
    """Choose the prior with the least loss on dev."""
    losses = []
    for neighbors.prior in tqdm(PRIORS, desc="neighbors: tuning on dev"):
        losses.append(float(_count(neighbors, tuning, directions)[:, 1].sum()))
    return PRIORS[losses.index(min(losses))]


def _added(tables: Iterable[Tensor]) -> Tensor:
    return torch.stack(list(tables)).sum(dim=0)


def objective_of(model: PreTrainingModel, masked: bool = False) -> str:
    """Say what a model was trained to name: one of `OBJECTIVES`.

    ``masked``: a one-way model, too, was asked for masked words.
    """
    if masked:
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


def curves(checkpoints: Sequence[Path]) -> list[dict[str, object]]:
    """Return the loss curves of runs, from their records; a row for each that was logged.

    Raises
    ------
    CheckpointError
        A folder holds no record of a finished run.

    """
    rows: list[dict[str, object]] = []
    for folder in checkpoints:
        known = _read_record(folder / "training.json")
        config = known["config"]
        about = {
            "run": folder.name,
            "variant": known.get("variant", "bert"),
            "config": f"L{config['num_hidden_layers']} H{config['hidden_size']}",
            "seed": known["recipe"]["seed"],
            "commit": known["commit"] or "",
        }
        rows += [about | row for row in known["curve"]]
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


def write_rows(rows: list[dict[str, object]], path: Path) -> None:
    """Write rows as CSV, under a temporary name first; a column that a row lacks stays empty."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, text.getvalue())


def _word_columns(table: Tensor) -> dict[str, object]:
    """(N, 3) of `score_pairs` -> loss and accuracy with intervals."""
    columns: dict[str, object] = {}
    for name, column in (("mlm_loss", 1), ("mlm_accuracy", 2)):
        low, high = bootstrap_interval(table[:, column], table[:, 0])
        columns[name] = round(float(table[:, column].sum() / table[:, 0].sum()), 4)
        columns[f"{name}_low"], columns[f"{name}_high"] = round(low, 4), round(high, 4)
    return columns


def _how_trained(path: Path) -> dict[str, object]:
    """Columns from the record of a run. Read first: a report takes minutes."""
    known = _read_record(path)
    try:
        columns: dict[str, object] = {"seed": known["recipe"]["seed"]}
        for name in ("steps", "tokens", "seconds"):
            columns[f"train_{name}"] = with_earlier_runs(known, name)
    except (KeyError, TypeError):
        raise CheckpointError(f"{path} is not the record of a finished run") from None
    columns["next_sentence"] = known["recipe"].get("next_sentence", True)
    columns["masked"] = known["recipe"].get("masked") or False
    return columns


def _read_record(path: Path) -> dict[str, Any]:
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror or error}") from None
    except ValueError:
        known = None
    if not isinstance(known, dict):
        raise CheckpointError(f"{path} is not the record of a finished run")
    return known


def with_earlier_runs(record: dict[str, Any], name: str) -> float:
    """Sum a figure over a run and those that it went on from (`--init`)."""
    before = record.get("init") or {}
    mine: float = record[name]
    return round(mine + (with_earlier_runs(before, name) if name in before else 0), 1)
