"""One pre-training run from corpus names to a finished checkpoint folder."""

import hashlib
import json
import math
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import lru_cache
from pathlib import Path

import torch

from bertedu.files import Row, write_atomically
from bertedu.machine import current_commit, describe_machine, device_named
from bertedu.model.bert import BertForPreTraining
from bertedu.model.checkpoints import CheckpointError, load_checkpoint, read_config, save_checkpoint
from bertedu.model.config import BertConfig
from bertedu.model.elmo import ElmoForPreTraining
from bertedu.pretraining import processes, run_folder
from bertedu.pretraining.batches import Batch, Say, Text, fixed_batches, load_splits
from bertedu.pretraining.evaluation import PreTrainingModel
from bertedu.pretraining.next_sentence import EncodedDocument, encode_documents
from bertedu.pretraining.objective import pretraining_loss
from bertedu.pretraining.recipe import VARIANTS, PreTrainingOptions, Recipe
from bertedu.pretraining.run_folder import RUN_FILE, STATE_FILE, State
from bertedu.pretraining.trainer import Trainer, initialize, optimizer_of, stream_of
from bertedu.text.corpus import DEFAULT_CORPORA, by_split
from bertedu.text.fast_tokenizer import load_tokenizer, load_vocabulary, save_tokenizer
from bertedu.text.sources import sources
from bertedu.text.streaming import DocumentStream

LOG_EVERY = 50
EVALUATION_LENGTH, EVALUATION_BATCH = 128, 32
Splits = dict[str, list[EncodedDocument]]


def pretrain(options: PreTrainingOptions, say: Say = print) -> State:
    """Pre-train BERT and write a checkpoint folder that `transformers` opens.

    ``out`` receives `model.safetensors` (16 bit), `config.json`, the tokenizer's files and
    `training.json` (recipe, curve, corpora and their hashes, machine, seconds, commit, and under
    "init" the record of the run it started from); while the run lasts, its full state, written
    every ``save_every`` steps and at Ctrl-C. Under `torchrun` every process takes its share of each
    batch; see `processes`.

    Raises ValueError for options that make no sense together or a text that is too small,
    FileNotFoundError without a vocabulary, FileError if ``out`` or ``init`` cannot be used,
    TrainingDiverged if the loss became NaN, KeyboardInterrupt at Ctrl-C; each says what to do.
    """
    with processes.joined(options.device) as device, run_folder.alone_in(options.out):
        say = say if processes.rank() == 0 else lambda _: None
        return _pretrain(replace(options, device=device), say)


def _pretrain(options: PreTrainingOptions, say: Say) -> State:
    options.check()
    out, resuming = options.out, _is_resumed(options)
    started = run_folder.read_started(out) if resuming else {}
    options = replace(  # a resumed run goes on as it began
        options,
        bfloat16=bool(started.get("bfloat16") if options.bfloat16 is None else options.bfloat16),
        threads=options.threads or started.get("threads"),
    )
    device = device_named(options.device)
    before = None if options.init is None else run_folder.record_before(options.init)
    config = _config(options)
    recipe = options.recipe(config)  # before the text is read: it may not fit
    corpora, splits, text = _texts(options, say)
    run = _described(options, config, corpora, before)
    if resuming:
        recipe = run_folder.read_recipe(out / STATE_FILE)
        run_folder.check_same_run(options, run, started, recipe)
        run_folder.remove_leftovers(out)
    if options.threads:
        torch.set_num_threads(options.threads)
    model = _model(options, config, splits["train"]).to(device)
    if not resuming:
        if options.minutes is not None:  # the number of steps stays: the learning rate needs it
            seconds = step_seconds(model, text, recipe, bool(options.bfloat16))
            recipe = replace(recipe, steps=max(20, int(options.minutes * 60 / seconds)))
        if processes.rank() == 0:
            run["threads"] = torch.get_num_threads()
            write_atomically(out / RUN_FILE, json.dumps(run, indent=1) + "\n")
    held_out = _held_out(options, config, recipe, splits["dev"])
    if not held_out:
        say("too few held-out documents to score on (about 40 documents are needed): going without")
    say(
        f"{sum(p.numel() for p in model.parameters()):,} parameters, {recipe.steps:,} steps on "
        f"{device.type}, {'bfloat16' if options.bfloat16 else 'float32'}"
    )
    if options.compiled and isinstance(model, BertForPreTraining):
        model.bert.encoder.compile()  # in place: the names of the weights stay
    known = sources()
    record = {
        "variant": options.variant,
        "config": run["config"],
        "recipe": asdict(recipe),
        "corpora": {n: known[n].sha256 if n in known else None for n in corpora},
        "bfloat16": options.bfloat16,
        "compiled": options.compiled,
        **describe_machine(device),
        "processes": processes.count(),
        "commit": current_commit(),  # of the code that runs, not of what is edited meanwhile
        "init": before,
    }
    state = _trainer(options, model, recipe).train(text, held_out, resuming, options.stop_at)
    if state.step < recipe.steps:
        say(f"stopped after step {state.step} of {recipe.steps}, as asked: go on with --resume")
    elif processes.rank() == 0:
        _finish(out, model, state, record)
        say(f"written: {out}")
    return state


def _is_resumed(options: PreTrainingOptions) -> bool:
    """Whether the folder holds the run to go on with; refuse one that holds what must stay."""
    out, unfinished = options.out, (options.out / STATE_FILE).exists()
    if (out / "model.safetensors").exists() and not unfinished:
        raise CheckpointError(f"{out} holds a finished run; choose another --out")
    if unfinished and not options.resume:
        raise CheckpointError(
            f"{out} holds a run in progress: go on with --resume, or choose another --out"
        )
    if not unfinished and (options.steps is None) == (options.minutes is None):
        raise ValueError("say how long to train: either --steps N or --minutes M")
    if options.minutes is not None and processes.count() > 1:
        raise ValueError("with several processes use --steps: --minutes cannot time them")
    return unfinished


def _config(options: PreTrainingOptions) -> BertConfig:
    direction = VARIANTS[options.variant][0]
    if options.init is None:
        config = BertConfig.preset(options.config or "mini")
    else:
        config = read_config(options.init)  # its attention mask is not kept: weights fit any
    # No dropout: a short run sees each text a few times only, so there is little to overfit.
    size, dropout = len(load_vocabulary()), options.dropout
    return replace(config, vocab_size=size, dropout=dropout, direction=direction)


def _texts(
    options: PreTrainingOptions, say: Say
) -> tuple[list[str], dict[str, list[EncodedDocument]], Text]:
    """Return the names of the text, its documents by split, and what to train on."""
    if options.stream is None:
        corpora = options.corpus or DEFAULT_CORPORA
        splits = load_splits(corpora, say)
        if not VARIANTS[options.variant][1]:
            splits["train"] = halved(splits["train"])
        return [*corpora], splits, splits["train"]
    windows = stream_windows(options.stream)
    return [f"stream:{options.stream}"], windows(0), lambda epoch: windows(epoch)["train"]


def stream_windows(where: str) -> Callable[[int], dict[str, list[EncodedDocument]]]:
    """Return a function from the number of a window of a stream to its documents by split."""
    stream, tokenizer = DocumentStream(where), load_tokenizer()

    @lru_cache(maxsize=1)  # the first is asked for three times: to start, to score, to train
    def window(number: int) -> dict[str, list[EncodedDocument]]:
        splits = by_split(d for d in stream.window(number) if d.text.strip())
        return {split: encode_documents(some, tokenizer) for split, some in splits.items()}

    return window


def with_company(documents: Sequence[EncodedDocument]) -> list[EncodedDocument]:
    """Leave out a document that is the only one of its source: no pair can be drawn for it."""
    count = Counter(document.source for document in documents if document.sentences)
    return [document for document in documents if count[document.source] > 1]


def halved(documents: Sequence[EncodedDocument]) -> list[EncodedDocument]:
    """Cut a document that is the only one of its source in two, where no loss asks what follows."""
    company = {document.source for document in with_company(documents)}
    parts = []
    for document in documents:
        half = 0 if document.source in company else len(document.sentences) // 2
        cut = document.sentences[:half], document.sentences[half:]
        parts += [EncodedDocument(document.source, some) for some in cut if some]
    return parts


def _model(
    options: PreTrainingOptions, config: BertConfig, documents: Sequence[EncodedDocument]
) -> PreTrainingModel:
    torch.manual_seed(options.seed or 0)
    elmo = options.variant == "elmo"
    model = ElmoForPreTraining(config) if elmo else BertForPreTraining(config)
    if options.init is None:
        initialize(model, documents)
    else:
        model.load_state_dict(load_checkpoint(options.init).state_dict())
    return model


def _described(
    options: PreTrainingOptions, config: BertConfig, corpora: list[str], before: Row | None
) -> Row:
    """Return what `--resume` must find unchanged."""
    return {
        "config": asdict(config),
        "corpora": corpora,
        "vocabulary": hashlib.sha256("\n".join(load_vocabulary()).encode()).hexdigest(),
        "init": None if before is None else before["sha256"],
        "length": options.length,
        "mask_rate": options.mask_rate,
        "batch_tokens": options.batch_tokens,
        "variant": options.variant,
        "bfloat16": options.bfloat16,
    }


def _held_out(
    options: PreTrainingOptions, config: BertConfig, recipe: Recipe, dev: Sequence[EncodedDocument]
) -> list[Batch]:
    """Return what the model is scored on: the question that it learns to answer, on dev."""
    direction, _, question = VARIANTS[options.variant]
    return fixed_batches(
        with_company(dev),
        min(EVALUATION_LENGTH, max(phase.length for phase in recipe.phases)),  # none is unknown
        EVALUATION_BATCH,
        config.vocab_size,
        direction=direction,
        question="next" if question == "some next" else question,
    )


def _trainer(options: PreTrainingOptions, model: PreTrainingModel, recipe: Recipe) -> Trainer:
    return Trainer(
        model,
        recipe,
        options.out / STATE_FILE,
        bool(options.bfloat16),
        log_every=math.gcd(LOG_EVERY, options.save_every),
        save_every=options.save_every,
        keep_every=options.keep_every,
    )


def step_seconds(
    model: PreTrainingModel, documents: Text, recipe: Recipe, bfloat16: bool, tries: int = 8
) -> float:
    """Return how long a step of a recipe takes: each phase's median of some, by its share."""
    device = next(model.parameters()).device
    optimizer = optimizer_of(recipe, model)  # at learning rate 0: nothing moves
    mean = 0.0
    for phase in recipe.phases:
        alone = replace(recipe, phases=(phase,))
        stream = stream_of(documents, model.config, alone, State())
        times = []
        for _ in range(tries):
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
    return mean


def _finish(out: Path, model: PreTrainingModel, state: State, record: Row) -> None:
    """Write the checkpoint and its record; then the state of the run may go."""
    record |= {"steps": state.step, "tokens": state.tokens, "seconds": round(state.seconds, 3)}
    record["curve"] = [{k: round(v, 5) for k, v in row.items()} for row in state.curve]
    save_checkpoint(model, out, torch.float16)
    save_tokenizer(load_vocabulary(), out)
    write_atomically(out / "training.json", json.dumps(record, indent=1) + "\n")
    (out / STATE_FILE).unlink(missing_ok=True)
    (out / RUN_FILE).unlink(missing_ok=True)
