"""`python -m benchmarks`, or `make bench`."""

import os
import time
from pathlib import Path
from typing import Annotated

import torch
import typer
from tqdm import tqdm

from bertedu.model.config import BertConfig

VOCABULARY, BATCH, LENGTH = 8192, 32, 128
ROUNDS = {"mini": 12, "tiny": 20}  # with memory, under ten minutes together on two cores
MEMORY_ROUNDS = 5
RESULT = Path(__file__).parent.parent / "data" / "results" / "speed.csv"


def main(
    quick: Annotated[
        bool, typer.Option("--quick", help="Two rounds; without --out nothing is written.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(help="The CSV; by default data/results/speed.csv.")
    ] = None,
) -> None:
    """Compare bertedu with Hugging Face transformers: time and memory, same weights, same text.

    The two take turns in one process, so that a busy machine slows both. Close other programs.
    """
    # Imported here, so that --help is quick.
    from benchmarks import compare
    from benchmarks.inputs import load_batches, load_text
    from benchmarks.report import machine, table, write_csv
    from benchmarks.sentences import compare_sentences, count_sentence_calls

    # bertedu takes one thread; here both sides may have the whole machine
    torch.set_num_threads(os.cpu_count() or 1)
    began = time.perf_counter()
    about = machine()
    typer.echo("\n".join(f"{key:<13}{value}" for key, value in about.items()))
    batches, text = load_batches(4, BATCH, LENGTH, VOCABULARY)
    documents = load_text()
    typer.echo(f"{'text':<13}{text}, batches of {BATCH} × {LENGTH} tokens, 15 % selected")
    rounds = {name: 2 if quick else count for name, count in ROUNDS.items()}
    memory_rounds = 1 if quick else MEMORY_ROUNDS
    total = sum(map(compare.count_calls, rounds.values()))
    total += compare.count_processes(memory_rounds)
    total += count_sentence_calls(rounds["mini"])
    rows = []
    with tqdm(total=total, unit="call") as bar:
        for name, count in rounds.items():
            config = BertConfig.preset(name, VOCABULARY)
            bar.set_description(f"{name}, steps")
            rows += compare.compare_steps(config, batches, count, bar.update)
            bar.set_description(f"{name}, inference")
            rows += compare.compare_inference(config, batches[0], count, bar.update)
            bar.set_description(f"{name}, batches")
            rows += compare.compare_input(config, documents, batches[0], count, bar.update)
        bar.set_description("sentence vectors")
        rows += compare_sentences(rounds["mini"], bar.update)
        bar.set_description("memory")
        config = BertConfig.preset("mini", VOCABULARY)
        rows += compare.compare_memory(config, batches[0], memory_rounds, bar.update)
    typer.echo(table(rows))
    path = out or (None if quick else RESULT)
    if path:
        write_csv(rows, path, about)
    where = f"written to {path}" if path else "nothing written (--out FILE writes)"
    typer.echo(f"\n{time.perf_counter() - began:.0f} s; {where}")


if __name__ == "__main__":
    typer.run(main)
