"""One table: a pre-trained model and what it must beat, on documents nobody trained on."""

import csv
import io
import json
import math
import time
from pathlib import Path

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
    EVALUATION_LENGTH,
    current_commit,
    load_splits,
)

PRIORS = (10.0, 30.0, 100.0, 300.0, 1000.0)  # tried for the neighbor counts, on dev only


def report(checkpoint: Path, split: str = "test") -> list[dict[str, object]]:
    """Score a checkpoint and its baselines on a held-out split.

    Returns
    -------
    A row for chance, unigram, neighbors and the model: MLM loss (nats a selected token) and
    accuracy, NSP accuracy, each with its 95 % bootstrap interval over pairs.

    Raises
    ------
    CheckpointError
        The checkpoint cannot be loaded, or its `training.json` does not say how it was trained.
    ValueError
        The split is not a held-out one.

    """
    if split not in ("dev", "test"):
        raise ValueError(f"no held-out split {split!r}: choose dev or test")
    model = load_checkpoint(checkpoint)
    trained = _how_trained(checkpoint / "training.json")
    config = model.bert.config
    size = config.vocab_size
    splits = load_splits()
    blanks = fixed_batches(splits[split], EVALUATION_LENGTH, EVALUATION_BATCH, size)
    chance = -math.log(size)
    flat = UnigramModel(splits["train"], size)
    unigram = score_baseline(flat, blanks)
    flat.log_share.fill_(chance)
    uniform = score_baseline(flat, blanks)

    tuning = fixed_batches(splits["dev"], EVALUATION_LENGTH, EVALUATION_BATCH, size)[:8]
    neighbors = NeighborModel(splits["train"], size)
    best = (math.inf, 0.0)
    for neighbors.prior in tqdm(PRIORS, desc="neighbors: tuning on dev"):
        best = min(best, (float(score_baseline(neighbors, tuning)[:, 1].sum()), neighbors.prior))
    neighbors.prior = best[1]
    around = torch.cat(
        [score_baseline(neighbors, [b]) for b in tqdm(blanks, desc="neighbors: scoring")]
    )
    began = time.perf_counter()
    scored = [score_pairs(model, [batch]) for batch in tqdm(blanks, desc="model: scoring")]
    words, pairs = torch.cat([w for w, _ in scored]), torch.cat([p for _, p in scored])
    seconds = time.perf_counter() - began

    labels = torch.cat([batch.next_labels for batch in blanks]).double()
    majority = torch.maximum(labels.mean(), 1 - labels.mean())
    common = {
        "split": split,
        "selected_tokens": int(words[:, 0].sum()),
        "pairs": len(pairs),
        "nsp_majority": round(float(majority), 4),
    }
    rows: list[dict[str, object]] = []
    for name, table in (("chance", uniform), ("unigram", unigram), ("neighbors", around)):
        rows.append({"system": name} | common | _word_columns(table))
    # All scores being equal, the best one is arbitrary; a fair draw is right once in `size` times.
    rows[0] |= dict.fromkeys(("mlm_accuracy", "mlm_accuracy_low", "mlm_accuracy_high"), 1 / size)
    low, high = bootstrap_interval(pairs[:, 1], torch.ones(len(pairs)))
    rows.append(
        {"system": checkpoint.name}
        | common
        | _word_columns(words)
        | {
            "nsp_accuracy": round(float(pairs[:, 1].mean()), 4),
            "nsp_accuracy_low": round(low, 4),
            "nsp_accuracy_high": round(high, 4),
            "config": f"L{config.num_hidden_layers} H{config.hidden_size} "
            f"A{config.num_attention_heads} V{size} {config.direction}",
        }
        | trained
    )
    machine = describe_machine(torch.device("cpu"))
    for row in rows:
        row["prior"] = neighbors.prior if row["system"] == "neighbors" else ""
        row["commit"] = current_commit() or ""
        row["device"] = f"{machine['device']} {machine['hardware']}"
        row["seconds"] = round(seconds, 1) if row["system"] == checkpoint.name else ""
    return rows


def _how_trained(path: Path) -> dict[str, object]:
    """Columns from the record of a run. Read first: a report takes minutes."""
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
        return {"seed": known["recipe"]["seed"]} | {
            f"train_{name}": known[name] for name in ("steps", "tokens", "seconds")
        }
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror or error}") from None
    except (KeyError, TypeError, ValueError):
        raise CheckpointError(f"{path} is not the record of a finished run") from None


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
