"""A row of the result, the CSV, and the table on the terminal."""

import csv
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import torch
import transformers

from bertedu.machine import current_commit, describe_machine

STEP, INFERENCE, SENTENCES, PRODUCTS, INPUT, MEMORY = (
    "pre-training step",
    "inference",
    "sentence vectors",
    "share of matrix products",
    "making a batch",
    "peak memory of a step",
)


@dataclass(frozen=True)
class Row:
    """One comparison. What does not apply is None.

    ``ratio`` is theirs_ms / ours_ms, how many times faster ours is; of memory, ours_mb /
    theirs_mb; of matrix products, products_ms / ours_ms, the share of our step that they take; of
    making a batch, ours_ms / theirs_ms, its share of our own step (in the place of theirs).
    ``ratio`` is the median over rounds, ``ratio_low`` and ``ratio_high`` are its quartiles.
    """

    benchmark: str
    model: str
    setting: str
    ours: str
    theirs: str
    ratio: float
    ratio_low: float
    ratio_high: float
    ours_ms: float | None = None
    theirs_ms: float | None = None
    products_ms: float | None = None
    products_gflops: float | None = None  # the rate of these products, 1e9 operations a second
    ours_mb: float | None = None
    theirs_mb: float | None = None
    batch: int = 0
    length: int = 0
    tokens: int = 0  # a batch's, padding included
    rounds: int = 0
    target: str = ""


def machine() -> dict[str, object]:
    """Say where and with what a result was measured."""
    described = describe_machine(torch.device("cpu"))
    return {
        "cpu": cpu_model() or described["hardware"],
        "cores": os.cpu_count(),
        "threads": described["threads"],
        "python": described["python"],
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "commit": current_commit() or "unknown",
    }


def cpu_model() -> str | None:
    """Read the name of the CPU, where the system writes it down."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else None


def write_csv(rows: Sequence[Row], path: Path, about: dict[str, object]) -> None:
    """Write one line a row, each with the machine; in one rename."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    with part.open("w", encoding="utf-8", newline="") as file:
        names = [field.name for field in fields(Row)]
        writer = csv.DictWriter(file, [*names, *about], lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow({k: shorten(v) for k, v in asdict(row).items()} | about)
    os.replace(part, path)


def shorten(value: object) -> object:
    """Keep four digits of a number; more would be noise."""
    return f"{value:.4g}" if isinstance(value, float) else value


def table(rows: Sequence[Row]) -> str:
    """Lay out the rows for a terminal, one block a benchmark."""
    lines: list[str] = []
    explanation = {
        STEP: "milliseconds, and how many times faster ours is [quartiles]",
        INFERENCE: "milliseconds, and how many times faster ours is [quartiles]",
        SENTENCES: "milliseconds, and how many times faster ours is [quartiles]",
        PRODUCTS: "milliseconds of our step, of its linear products alone, and their share",
        INPUT: "milliseconds for pairs, masks and padding, of our step, their share [quartiles]",
        MEMORY: "MB beyond the imports, and ours as a share of theirs [quartiles]",
    }
    for benchmark, what in explanation.items():
        chosen = [row for row in rows if row.benchmark == benchmark]
        if not chosen:
            continue
        lines += ["", f"{benchmark}: {what}"]
        for row in chosen:
            ours = row.ours_mb if row.ours_ms is None else row.ours_ms
            other = row.theirs_ms or row.products_ms or row.theirs_mb or 0.0
            spread = f" [{row.ratio_low:.2f}-{row.ratio_high:.2f}]"
            versus = f"{row.ours} / {row.theirs}" if row.theirs else row.ours
            if row.products_gflops:
                versus += f"; products at {row.products_gflops:,.0f} GFLOP/s"
            lines.append(
                f"  {row.model:<9} {row.setting:<37} {ours or 0.0:>8.1f} {other:>8.1f} "
                f"{row.ratio:>6.2f}{spread:<13} {row.target}\n{'':>12}{versus}"
            )
    return "\n".join(lines)
