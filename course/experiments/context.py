"""What does a model take from the context? Spoil the context, and see what it costs.

The same blanks are asked in three ways. *As it is.* With the other words of the sequence
*shuffled*: what they are is still known, where they stand is not. With the other words taken from
*another* sequence: nothing is known but how often words occur. What each step costs is what the
model had taken from order, and from the words as such.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor
from tqdm.auto import tqdm

from bertedu.files import Row
from bertedu.model.bert import BertForPreTraining
from bertedu.model.checkpoints import CheckpointError, load_checkpoint
from bertedu.pretraining.batches import Batch, fixed_batches, load_splits
from bertedu.pretraining.objective import score_pairs
from bertedu.pretraining.run import read_record
from bertedu.pretraining.trainer import initialize
from bertedu.text.tokenization import SPECIAL_TOKENS
from course.experiments.pretraining_scores import documents_of
from course.results.columns import by_document, word_columns

LENGTH, BATCHES = 64, 40  # as long as the sequences of the first phase
CONTEXTS = ("as it is", "shuffled", "another")


def spoil(batch: Batch, context: str, generator: torch.Generator) -> Batch:
    """Change the words around the selected ones to one of `CONTEXTS`; special tokens stay."""
    if context == "as it is":
        return batch
    around = (batch.ids >= len(SPECIAL_TOKENS)) & ~batch.selected & batch.padding_mask
    ids = batch.ids.clone()
    if context == "shuffled":
        for row, positions in zip(ids, around, strict=True):
            words = row[positions]
            row[positions] = words[torch.randperm(len(words), generator=generator)]
    else:  # the words of the next sequence, repeated if it is shorter
        for i, positions in enumerate(around):
            j = (i + 1) % len(ids)
            words = batch.ids[j][around[j]]
            if len(words):
                ids[i, positions] = words[torch.arange(int(positions.sum())) % len(words)]
    return replace(batch, ids=ids)


def context_use(
    model: BertForPreTraining, batches: Sequence[Batch], seed: int = 0
) -> dict[str, Tensor]:
    """Score the same blanks in every context: (N, 3) of `score_pairs` for each."""
    scores = {}
    for context in CONTEXTS:
        generator = torch.Generator().manual_seed(seed)
        scores[context] = score_pairs(model, [spoil(b, context, generator) for b in batches])[0]
    return scores


def follow_run(run: Path) -> list[Row]:
    """Measure every step whose weights a finished run has kept, and its start, in each context.

    Intervals are over documents.

    Raises CheckpointError if there are none, or it is no run of a bidirectional BERT.
    """
    steps = sorted((run / "steps").glob("[0-9]*"))
    if not steps:
        raise CheckpointError(f"{run} has kept no weights: pre-train with --keep-every")
    record = read_record(run)
    config, recipe = load_checkpoint(steps[0]).config, record["recipe"]
    if config.direction != "bidirectional":
        raise CheckpointError(f"{run} reads {config.direction}: there are no blanks to ask for")
    splits = load_splits()
    torch.manual_seed(recipe["seed"])  # as `pretrain` starts
    new = BertForPreTraining(config)
    initialize(new, splits["train"])
    batches = fixed_batches(splits["dev"], LENGTH, 32, config.vocab_size)[:BATCHES]
    documents = documents_of(batches)
    models = [(0, new), *((int(step.name), load_checkpoint(step)) for step in steps)]
    origin = {"run": run.name, "config": f"L{config.num_hidden_layers} H{config.hidden_size}"}
    origin |= {"seed": recipe["seed"], "commit": record["commit"] or ""}
    return [
        {"step": step, "context": context} | word_columns(by_document(scores, documents)) | origin
        for step, model in tqdm(models, desc="steps")
        for context, scores in context_use(model, batches).items()
    ]
