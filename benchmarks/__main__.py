"""`python -m benchmarks`, or `make bench`."""

import os
import random
import time
from pathlib import Path
from typing import Annotated

import torch
import typer

from bertedu.files import Row, write_csv
from bertedu.machine import current_commit, describe_machine
from bertedu.model.config import BertConfig

VOCABULARY, BATCH, LENGTH, SENTENCES = 8192, 32, 128, 256
ROUNDS = {"mini": 12, "tiny": 20}  # with memory, under ten minutes together on two cores
MEMORY_ROUNDS = 5
ENCODER = BertConfig(30522, 384, 6, 12, 1536)  # that of the published encoder `minilm`
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
    import transformers

    from benchmarks import compare
    from bertedu.pretraining.batches import fixed_batches
    from bertedu.pretraining.next_sentence import encode_documents
    from bertedu.text.corpus import DEFAULT_CORPORA, load_documents
    from bertedu.text.fast_tokenizer import load_tokenizer

    # bertedu takes one thread; here both sides may have the whole machine
    torch.set_num_threads(os.cpu_count() or 1)
    began = time.perf_counter()
    described = describe_machine(torch.device("cpu"))
    about = {"cpu": described["hardware"], "cores": os.cpu_count()}
    about |= {name: described[name] for name in ("threads", "python", "torch")}
    about |= {"transformers": transformers.__version__, "commit": current_commit() or "unknown"}
    typer.echo("\n".join(f"{key:<13}{value}" for key, value in about.items()))
    held_out = [d for name in DEFAULT_CORPORA for d in load_documents(name) if d.split == "dev"]
    tokenizer = load_tokenizer()
    documents = encode_documents(held_out, tokenizer)
    batches = fixed_batches(documents, LENGTH, BATCH, VOCABULARY)
    batches = [batch for batch in batches if batch.ids.shape == (BATCH, LENGTH)][:4]
    sentences = [sentence for document in held_out for sentence in document.sentences()]
    random.Random(0).shuffle(sentences)
    rows: list[Row] = []
    for name, count in ROUNDS.items():
        config, rounds = BertConfig.preset(name, VOCABULARY), 2 if quick else count
        rows += compare.compare_steps(config, batches, rounds)
        rows.append(compare.compare_input(config, documents, batches[0], rounds))
    rounds = 2 if quick else ROUNDS["mini"]
    rows += compare.compare_sentences(ENCODER, tokenizer, sentences[:SENTENCES], rounds)
    config, rounds = BertConfig.preset("mini", VOCABULARY), 1 if quick else MEMORY_ROUNDS
    rows += compare.compare_memory(config, batches[0], rounds)
    typer.echo(compare.table(rows))
    path = out or (None if quick else RESULT)
    if path:  # four digits of a number; more would be noise
        short = [{k: f"{v:.4g}" if isinstance(v, float) else v for k, v in r.items()} for r in rows]
        write_csv(path, [row | about for row in short])
    where = f"written to {path}" if path else "nothing written (--out FILE writes)"
    typer.echo(f"\n{time.perf_counter() - began:.0f} s; {where}")


if __name__ == "__main__":
    typer.run(main)
