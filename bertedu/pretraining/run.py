"""One pre-training run from corpus names to a finished checkpoint folder."""

import dataclasses
import hashlib
import json
import math
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import torch

from bertedu.files import Row, write_atomically
from bertedu.machine import current_commit, describe_machine, device_named
from bertedu.model.bert import BertForPreTraining
from bertedu.model.checkpoints import CheckpointError, load_checkpoint, read_config, save_checkpoint
from bertedu.model.config import BertConfig
from bertedu.model.elmo import ElmoForPreTraining
from bertedu.pretraining import processes, run_folder
from bertedu.pretraining.batches import Text, fixed_batches
from bertedu.pretraining.evaluation import PreTrainingModel
from bertedu.pretraining.loop import Every, initialize, make_optimizer, stream_of, train
from bertedu.pretraining.next_sentence import EncodedDocument
from bertedu.pretraining.objective import pretraining_loss
from bertedu.pretraining.options import VARIANTS, PreTrainingOptions
from bertedu.pretraining.recipe import Recipe
from bertedu.pretraining.run_folder import RUN_FILE, STATE_FILE
from bertedu.pretraining.state import State, read_recipe
from bertedu.pretraining.texts import Say, halved, load_splits, stream_windows, with_company
from bertedu.text.corpus import DEFAULT_CORPORA
from bertedu.text.fast_tokenizer import load_vocabulary, save_tokenizer
from bertedu.text.sources import sources

LOG_EVERY = 50
EVALUATION_LENGTH, EVALUATION_BATCH = 128, 32


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
        options = dataclasses.replace(options, device=device)
        return _pretrain(options, say if processes.rank() == 0 else lambda _: None)


def _pretrain(options: PreTrainingOptions, say: Say) -> State:
    options.check()
    out, state_path = options.out, options.out / STATE_FILE
    resuming = _is_resumed(options)
    path = out / RUN_FILE  # what an unfinished run wrote down when it began
    started = json.loads(path.read_text(encoding="utf-8")) if resuming and path.exists() else {}
    device, bfloat16 = device_named(options.device), options.bfloat16
    if bfloat16 is None:  # a resumed run goes on as it began
        bfloat16 = bool(started.get("bfloat16"))
    before = None if options.init is None else run_folder.record_before(options.init)
    config = _config(options)
    recipe = options.recipe(config)  # before the text is read: it may not fit
    corpora, splits, text = _texts(options, say)
    run = {
        "config": asdict(config),
        "corpora": corpora,
        "vocabulary": hashlib.sha256("\n".join(load_vocabulary()).encode()).hexdigest(),
        "init": None if before is None else before["sha256"],
        "length": options.length,
        "mask_rate": options.mask_rate,
        "variant": options.variant,
        "bfloat16": bfloat16,
    }
    if resuming:
        recipe = read_recipe(state_path)
        run_folder.check_same_run(options, run, started, recipe)
        # safetensors writes to a .tmpXXXXXX of its own first, and a kill may leave that, too
        for part in (*out.glob(f".{STATE_FILE}.*.part"), *out.glob(".tmp??????")):
            part.unlink(missing_ok=True)
    if threads := options.threads or started.get("threads"):
        torch.set_num_threads(threads)
    model = _model(options, config, splits["train"]).to(device)
    if not resuming:
        if options.minutes is not None:  # the number of steps stays: the learning rate needs it
            fit = int(options.minutes * 60 / step_seconds(model, text, recipe, bfloat16))
            recipe = dataclasses.replace(recipe, steps=max(20, fit))
        if processes.rank() == 0:
            run["threads"] = torch.get_num_threads()
            write_atomically(path, json.dumps(run, indent=1) + "\n")
    direction, _, question = VARIANTS[options.variant]
    held_out = fixed_batches(
        with_company(splits["dev"]),
        min(EVALUATION_LENGTH, max(phase.length for phase in recipe.phases)),  # none is unknown
        EVALUATION_BATCH,
        config.vocab_size,
        direction=direction,
        question="masked" if question == "masked" else "next",
    )
    if not held_out:
        say("too few held-out documents to score on (about 40 documents are needed): going without")
    say(
        f"{sum(p.numel() for p in model.parameters()):,} parameters, {recipe.steps:,} steps on "
        f"{device.type}, {'bfloat16' if bfloat16 else 'float32'}"
    )
    if options.compiled and isinstance(model, BertForPreTraining):
        model.bert.encoder.compile()  # in place: the names of the weights stay
    known = sources()
    record = {
        "variant": options.variant,
        "config": run["config"],
        "recipe": asdict(recipe),
        "corpora": {n: known[n].sha256 if n in known else None for n in corpora},
        "bfloat16": bfloat16,
        "compiled": options.compiled,
        **describe_machine(device),
        "processes": processes.count(),
        "commit": current_commit(),  # of the code that runs, not of what is edited meanwhile
        "init": before,
    }
    save, last = options.save_every, options.stop_at
    every = Every(math.gcd(LOG_EVERY, save), save=save, keep=options.keep_every)
    state = train(
        model, text, held_out, recipe, state_path, resuming, bfloat16, every, stop_at=last
    )
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
        config = read_config(options.init)
        if config.direction != direction:
            raise ValueError(
                f"{options.init} reads {config.direction}, the variant {options.variant} "
                f"{direction}"
            )
    # No dropout: a short run sees each text a few times only, so there is little to overfit.
    size, dropout = len(load_vocabulary()), options.dropout
    return dataclasses.replace(config, vocab_size=size, dropout=dropout, direction=direction)


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


def step_seconds(
    model: PreTrainingModel, documents: Text, recipe: Recipe, bfloat16: bool, tries: int = 8
) -> float:
    """Return how long a step of a recipe takes: each phase's median of some, by its share."""
    device = next(model.parameters()).device
    optimizer = make_optimizer(model, recipe.weight_decay)  # at learning rate 0: nothing moves
    mean = 0.0
    for phase in recipe.phases:
        alone = dataclasses.replace(recipe, phases=(phase,))
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
