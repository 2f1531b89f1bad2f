"""One table: a pre-trained model and what it must beat, on documents nobody trained on."""

import csv
import io
import json
import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from tqdm.auto import tqdm

from bertedu.model.checkpoints import CheckpointError, load_checkpoint, write_atomically
from bertedu.pretraining.baselines import NeighborModel, UnigramModel, score_baseline
from bertedu.pretraining.batches import fixed_batches
from bertedu.pretraining.evaluation import bootstrap_interval, score_pairs
from bertedu.pretraining.loop import describe_machine
from bertedu.pretraining.run import (
    EVALUATION_BATCH,
    current_commit,
    load_splits,
)

LENGTHS = (64, 128)  # those of the two phases of training
PRIORS = (10.0, 30.0, 100.0, 300.0, 1000.0)  # tried for the neighbor counts, on dev only


def report(
    checkpoint: Path, split: str = "test", lengths: Sequence[int] = LENGTHS
) -> list[dict[str, object]]:
    """Score a checkpoint and its baselines on a held-out split, at each sequence length.

    Returns
    -------
    For each length a row for chance, unigram, neighbors and the model: MLM loss (nats a selected
    token) and accuracy, NSP accuracy, each with its 95 % bootstrap interval over pairs.

    Raises
    ------
    CheckpointError
        The checkpoint cannot be loaded, or its `training.json` does not say how it was trained.
    ValueError
        The split is not a held-out one, or the model reads in one direction only.

    """
    if split not in ("dev", "test"):
        raise ValueError(f"no held-out split {split!r}: choose dev or test")
    model = load_checkpoint(checkpoint)
    trained = _how_trained(checkpoint / "training.json")
    config = model.bert.config
    if config.direction != "bidirectional":
        raise ValueError(
            f"{checkpoint} reads {config.direction}: it cannot fill a blank from both sides. Its "
            "loss on held-out documents is in its training.json, as dev_mlm_loss."
        )
    size = config.vocab_size
    splits = load_splits()
    unigram = UnigramModel(splits["train"], size)
    uniform = UnigramModel(splits["train"], size)
    uniform.log_share.fill_(-math.log(size))
    neighbors = NeighborModel(splits["train"], size)
    tuning = fixed_batches(splits["dev"], lengths[0], EVALUATION_BATCH, size)[:16]
    best = (math.inf, 0.0)
    for neighbors.prior in tqdm(PRIORS, desc="neighbors: tuning on dev"):
        best = min(best, (float(score_baseline(neighbors, tuning)[:, 1].sum()), neighbors.prior))
    neighbors.prior = best[1]

    machine = describe_machine(torch.device("cpu"))
    origin = {
        "commit": current_commit() or "",
        "device": f"{machine['device']} {machine['hardware']}",
    }
    rows: list[dict[str, object]] = []
    for length in lengths:
        blanks = fixed_batches(splits[split], length, EVALUATION_BATCH, size)
        around = torch.cat(
            [score_baseline(neighbors, [b]) for b in tqdm(blanks, desc=f"neighbors at {length}")]
        )
        began = time.perf_counter()
        scored = [score_pairs(model, [b]) for b in tqdm(blanks, desc=f"model at {length}")]
        seconds = round(time.perf_counter() - began, 1)
        words, pairs = torch.cat([w for w, _ in scored]), torch.cat([p for _, p in scored])
        labels = torch.cat([batch.next_labels for batch in blanks]).double()
        common: dict[str, object] = {
            "split": split,
            "length": length,
            "selected_tokens": int(words[:, 0].sum()),
            "pairs": len(pairs),
            "nsp_majority": round(float(torch.maximum(labels.mean(), 1 - labels.mean())), 4),
        }
        chance = _word_columns(score_baseline(uniform, blanks))
        for end in ("", "_low", "_high"):
            chance[f"mlm_accuracy{end}"] = round(1 / size, 6)  # exact: no tie to break
        low, high = bootstrap_interval(pairs[:, 1], torch.ones(len(pairs)))
        rows += [
            {"system": "chance"} | common | chance | origin,
            {"system": "unigram"}
            | common
            | _word_columns(score_baseline(unigram, blanks))
            | origin,
            {"system": "neighbors"}
            | common
            | _word_columns(around)
            | {"prior": neighbors.prior}
            | origin,
            {"system": checkpoint.name}
            | common
            | _word_columns(words)
            | {
                "nsp_accuracy": round(float(pairs[:, 1].mean()), 4),
                "nsp_accuracy_low": round(low, 4),
                "nsp_accuracy_high": round(high, 4),
                "config": f"L{config.num_hidden_layers} H{config.hidden_size} "
                f"A{config.num_attention_heads} V{size} {config.direction}",
                "seconds": seconds,
            }
            | trained
            | origin,
        ]
    return rows


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
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
        columns: dict[str, object] = {"seed": known["recipe"]["seed"]}
        for name in ("steps", "tokens", "seconds"):
            columns[f"train_{name}"] = _with_earlier_runs(known, name)
        return columns
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror or error}") from None
    except (KeyError, TypeError, ValueError):
        raise CheckpointError(f"{path} is not the record of a finished run") from None


def _with_earlier_runs(record: dict[str, Any], name: str) -> float:
    """Sum a figure over a run and those that it went on from (`--init`)."""
    before = record.get("init") or {}
    mine: float = record[name]
    return round(mine + (_with_earlier_runs(before, name) if name in before else 0), 1)
