"""One pre-training run from corpus names to a finished checkpoint folder."""

import dataclasses
import json
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

import torch

from bertedu.model.bert import BertForPreTraining
from bertedu.model.checkpoints import (
    CheckpointError,
    load_tensors,
    save_checkpoint,
    write_atomically,
)
from bertedu.model.config import BertConfig
from bertedu.pretraining.batches import batches, fixed_batches
from bertedu.pretraining.loop import (
    Phase,
    Recipe,
    State,
    default_device,
    describe_machine,
    has_fast_bfloat16,
    initialize,
    make_optimizer,
    pretraining_loss,
    train,
)
from bertedu.pretraining.next_sentence import EncodedDocument, encode_documents
from bertedu.text.corpus import DEFAULT_CORPORA, Document, load_documents
from bertedu.text.sources import sources
from bertedu.text.tokenization import load_tokenizer, load_vocabulary, save_tokenizer

STATE_FILE = "training_state.safetensors"
EVALUATION_LENGTH, EVALUATION_BATCH = 128, 32


def load_splits(
    corpora: Sequence[str] = DEFAULT_CORPORA, say: Callable[[str], None] = print
) -> dict[str, list[EncodedDocument]]:
    """Read corpora, cut them into sentences and word pieces: documents by split."""
    tokenizer = load_tokenizer()
    documents: dict[str, list[Document]] = {"train": [], "dev": [], "test": []}
    for corpus in corpora:
        for document in load_documents(corpus):
            documents[document.split].append(document)
    splits = {}
    for split, members in documents.items():
        say(f"encoding {len(members):,} {split} documents")
        splits[split] = encode_documents(members, tokenizer)
    return splits


def steps_for_minutes(
    minutes: float, model: BertForPreTraining, documents: Sequence[EncodedDocument], bfloat16: bool
) -> int:
    """Time a few steps on a copy's behalf, and say how many of the default recipe fit.

    The answer becomes part of the recipe: a resumed run keeps its number of steps, since the
    learning rate depends on it.
    """
    recipe = Recipe(steps=1)
    device = next(model.parameters()).device
    optimizer = make_optimizer(model, recipe.weight_decay)  # at learning rate 0: nothing moves
    mean = 0.0
    for phase in recipe.phases:
        stream = batches(
            documents,
            phase.length,
            phase.batch_size,
            model.bert.config.vocab_size,
            recipe.seed,
            phase.mask_rate,
        )
        times = []
        for _ in range(8):
            batch = next(stream)[0].to(device)
            began = time.perf_counter()
            with torch.autocast(device.type, torch.bfloat16, enabled=bfloat16):
                loss, _ = pretraining_loss(model, batch)
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            loss.item()  # wait for a GPU
            times.append(time.perf_counter() - began)
        mean += phase.share * sorted(times)[len(times) // 2]
    return max(100, int(minutes * 60 / mean))


def pretrain(
    config: BertConfig,
    out: Path,
    steps: int | None = None,
    minutes: float | None = None,
    corpora: Sequence[str] = DEFAULT_CORPORA,
    resume: bool = False,
    seed: int = 0,
    learning_rate: float = Recipe.learning_rate,
    dropout: float = 0.0,
    device: str | None = None,
    bfloat16: bool | None = None,
    say: Callable[[str], None] = print,
) -> State:
    """Pre-train BERT and write a checkpoint folder that `transformers` opens.

    ``out`` receives `model.safetensors` (16 bit), `config.json`, the tokenizer's files and
    `training.json` (recipe, curve, corpora and their hashes, machine, seconds, commit); while the
    run lasts, its full state.

    Raises
    ------
    ValueError
        Neither or both of ``steps`` and ``minutes`` are given, or the text is too small.
    CheckpointError
        ``out`` holds a finished or another run, or cannot be written.
    TrainingDiverged
        The loss became NaN.

    """
    state_path = out / STATE_FILE
    if (out / "model.safetensors").exists() and not state_path.exists():
        raise CheckpointError(f"{out} holds a finished run; choose another --out")
    if state_path.exists() and not resume:
        raise CheckpointError(
            f"{out} holds a run in progress: go on with --resume, or choose another --out"
        )
    chosen = torch.device(device) if device else default_device()
    use_bfloat16 = has_fast_bfloat16(chosen) if bfloat16 is None else bfloat16
    splits = load_splits(corpora, say)
    # No dropout: a short run sees each text a few times only, so there is little to overfit.
    config = dataclasses.replace(config, vocab_size=len(load_vocabulary()), dropout=dropout)
    torch.manual_seed(seed)
    model = BertForPreTraining(config).to(chosen)
    initialize(model, splits["train"])
    if resume and state_path.exists():
        recipe = read_recipe(state_path)
        if steps is not None and steps != recipe.steps:
            raise CheckpointError(
                f"{out} is a run of {recipe.steps} steps, not {steps}: leave --steps out, "
                "or choose another --out"
            )
    elif (steps is None) == (minutes is None):
        raise ValueError("say how long to train: either --steps N or --minutes M")
    else:
        steps = steps or steps_for_minutes(minutes or 0, model, splits["train"], use_bfloat16)
        recipe = Recipe(steps=steps, seed=seed, learning_rate=learning_rate)
    held_out = fixed_batches(splits["dev"], EVALUATION_LENGTH, EVALUATION_BATCH, config.vocab_size)
    say(
        f"{sum(p.numel() for p in model.parameters()):,} parameters, {recipe.steps:,} steps on "
        f"{chosen.type}, {'bfloat16' if use_bfloat16 else 'float32'}"
    )
    state = train(
        model, splits["train"], held_out, recipe, state_path, resume, bfloat16=use_bfloat16
    )
    save_checkpoint(model, out, torch.float16)
    save_tokenizer(load_vocabulary(), out)
    known = sources()
    record = {
        "config": asdict(config),
        "recipe": asdict(recipe),
        "corpora": {name: known[name].sha256 if name in known else None for name in corpora},
        "bfloat16": use_bfloat16,
        **describe_machine(chosen),
        "commit": current_commit(),
        "steps": state.step,
        "tokens": state.tokens,
        "seconds": round(state.seconds, 1),
        "curve": [{k: round(v, 5) for k, v in row.items()} for row in state.curve],
    }
    write_atomically(out / "training.json", json.dumps(record, indent=1) + "\n")
    state_path.unlink(missing_ok=True)
    return state


def read_recipe(state_path: Path) -> Recipe:
    """Read back the recipe of an unfinished run.

    Raises
    ------
    CheckpointError
        The file is broken, or is not a training state.

    """
    _, metadata = load_tensors(state_path)
    try:
        values = json.loads(metadata["training"])["recipe"]
        return Recipe(**{**values, "phases": tuple(Phase(**phase) for phase in values["phases"])})
    except (KeyError, TypeError, ValueError):
        raise CheckpointError(f"{state_path} is not the state of a training run") from None


def current_commit() -> str | None:
    """Return the commit of the code, with "+" if files were changed since; None outside git."""
    here = Path(__file__).parent
    try:
        described = subprocess.run(
            ["git", "describe", "--always", "--dirty=+"], cwd=here, capture_output=True, text=True
        )
    except OSError:
        return None
    return described.stdout.strip() or None
