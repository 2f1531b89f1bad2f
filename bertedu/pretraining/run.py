"""One pre-training run from corpus names to a finished checkpoint folder."""

import dataclasses
import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import torch

from bertedu.model.bert import BertForPreTraining
from bertedu.model.checkpoints import load_checkpoint, save_checkpoint
from bertedu.model.config import BertConfig
from bertedu.model.elmo import ElmoForPreTraining
from bertedu.model.hugging_face import read_config
from bertedu.model.weight_files import CheckpointError
from bertedu.pretraining import processes, run_folder
from bertedu.pretraining.batches import Text, fixed_batches
from bertedu.pretraining.evaluation import PreTrainingModel
from bertedu.pretraining.loop import Every, initialize, train
from bertedu.pretraining.next_sentence import EncodedDocument
from bertedu.pretraining.options import MASKED, PreTrainingOptions
from bertedu.pretraining.recipe import Recipe
from bertedu.pretraining.run_folder import RUN_FILE, STATE_FILE
from bertedu.pretraining.state import State, read_recipe
from bertedu.pretraining.texts import Say, load_splits, stream_windows, with_company
from bertedu.pretraining.timing import steps_for_minutes, use_threads_that_pay
from bertedu.results.files import write_atomically
from bertedu.results.origin import current_commit, describe_machine
from bertedu.text.fast_tokenizer import load_vocabulary, save_tokenizer
from bertedu.text.sources import sources

LOG_EVERY = 50
LONG = 200  # steps of a run whose first few are worth timing
EVALUATION_LENGTH, EVALUATION_BATCH = 128, 32


def pretrain(options: PreTrainingOptions, say: Say = print) -> State:
    """Pre-train BERT and write a checkpoint folder that `transformers` opens.

    ``out`` receives `model.safetensors` (16 bit), `config.json`, the tokenizer's files and
    `training.json` (recipe, curve, corpora and their hashes, machine, seconds, commit, and under
    "init" the record of the run it started from); while the run lasts, its full state, written
    every ``save_every`` steps and at Ctrl-C. Under `torchrun` every process takes its share of each
    batch; see `processes`.

    Raises ValueError for options that make no sense together or a text that is too small,
    FileNotFoundError without a vocabulary, CheckpointError if ``out`` or ``init`` cannot be used,
    TrainingDiverged if the loss became NaN, KeyboardInterrupt at Ctrl-C; each says what to do.
    """
    with run_folder.alone_in(options.out):
        return _pretrain(options, say if processes.rank() == 0 else lambda _: None)


def _pretrain(options: PreTrainingOptions, say: Say) -> State:
    options.check()
    out, stop_at = options.out, options.stop_at
    state_path = out / STATE_FILE
    resuming = _is_resumed(options)
    device = options.chosen_device()
    bfloat16 = options.bfloat16
    if bfloat16 is None:  # a resumed run goes on as it began
        bfloat16 = bool(resuming and run_folder.started_as(out).get("bfloat16"))
    before = None if options.init is None else run_folder.record_before(options.init)
    config = _config(options)
    # before the text is read: it may not fit
    longest = max(phase.length for phase in options.phases(config))
    corpora, splits, text = _texts(options, say)
    run = {
        "config": asdict(config),
        "corpora": [str(corpus) for corpus in corpora],
        "vocabulary": hashlib.sha256("\n".join(load_vocabulary()).encode()).hexdigest(),
        "init": None if before is None else before["sha256"],
        "length": options.length,
        "mask_rate": options.mask_rate,
        "variant": options.variant,
        "bfloat16": bfloat16,
    }
    if resuming:
        recipe = read_recipe(state_path)
        run_folder.check_same_run(options, run, recipe)
        if options.measure_threads:
            torch.set_num_threads(run_folder.started_as(out).get("threads") or 1)
    else:
        processes.wait_for_all()  # every process has looked into the folder
        if processes.rank() == 0:
            run_folder.write_run(out, run | {"threads": torch.get_num_threads()})
    model = _model(options, config, splits["train"]).to(device)
    if not resuming:
        recipe = _recipe(options, model, text, run, say)
    held_out = fixed_batches(
        with_company(splits["dev"]),
        min(EVALUATION_LENGTH, longest),  # no position is unknown
        EVALUATION_BATCH,
        config.vocab_size,
        direction=options.direction,
        question="masked" if options.variant in MASKED else "next",
    )
    if not held_out:
        say("too few held-out documents to score on (about 40 documents are needed): going without")
    say(
        f"{sum(p.numel() for p in model.parameters()):,} parameters, {recipe.steps:,} steps on "
        f"{device.type}, {'bfloat16' if bfloat16 else 'float32'}"
    )
    if options.compiled and isinstance(model, BertForPreTraining):
        model.bert.encoder.compile()  # in place: the names of the weights stay
    commit = current_commit()  # of the code that runs, not of what is edited meanwhile
    log = math.gcd(LOG_EVERY, options.save_every)
    every = Every(log, save=options.save_every, keep=options.keep_every)
    state = train(
        model, text, held_out, recipe, state_path, resuming, bfloat16, every, stop_at=stop_at
    )
    if state.step < recipe.steps:
        say(f"stopped after step {state.step} of {recipe.steps}, as asked: go on with --resume")
    elif processes.rank() == 0:
        _finish(options, run, model, recipe, state, commit, before)
    return state


def _is_resumed(options: PreTrainingOptions) -> bool:
    """Whether the folder holds the run to go on with; refuse one that holds what must stay."""
    out, state_path = options.out, options.out / STATE_FILE
    if (out / "model.safetensors").exists() and not state_path.exists():
        raise CheckpointError(f"{out} holds a finished run; choose another --out")
    if state_path.exists() and not options.resume:
        raise CheckpointError(
            f"{out} holds a run in progress: go on with --resume, or choose another --out"
        )
    resuming = options.resume and state_path.exists()
    if not resuming and (options.steps is None) == (options.minutes is None):
        raise ValueError("say how long to train: either --steps N or --minutes M")
    if options.minutes is not None and processes.count() > 1:
        raise ValueError("with several processes say --steps: nobody has timed a step of theirs")
    return resuming


def _config(options: PreTrainingOptions) -> BertConfig:
    config = options.config
    if config is None:
        assert options.init is not None
        config = read_config(options.init)
        if config.direction != options.direction:
            raise ValueError(
                f"{options.init} reads {config.direction}, the variant {options.variant} "
                f"{options.direction}"
            )
    # No dropout: a short run sees each text a few times only, so there is little to overfit.
    return dataclasses.replace(
        config,
        vocab_size=len(load_vocabulary()),
        dropout=options.dropout,
        direction=options.direction,
    )


def _texts(
    options: PreTrainingOptions, say: Say
) -> tuple[Sequence[str], dict[str, list[EncodedDocument]], Text]:
    """Return the names of the text, its documents by split, and what to train on."""
    if options.stream is None:
        splits = load_splits(options.corpora, say)
        return options.corpora, splits, splits["train"]
    windows = stream_windows(options.stream)
    return (f"stream:{options.stream}",), windows(0), lambda epoch: windows(epoch)["train"]


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


def _recipe(
    options: PreTrainingOptions, model: PreTrainingModel, text: Text, run: dict[str, Any], say: Say
) -> Recipe:
    """Return the recipe of a new run; what depends on this machine's speed is timed first."""
    recipe = options.recipe(model.config)
    on_cpu = next(model.parameters()).device.type == "cpu" and processes.count() == 1
    long = options.steps is None or options.steps >= LONG
    if options.measure_threads and on_cpu and long:
        threads = use_threads_that_pay(model, text, recipe, run["bfloat16"], say)
        run_folder.write_run(options.out, run | {"threads": threads})
    if options.minutes is not None:
        steps = steps_for_minutes(options.minutes, model, text, recipe, run["bfloat16"])
        recipe = dataclasses.replace(recipe, steps=steps)
    return recipe


def _finish(
    options: PreTrainingOptions,
    run: dict[str, Any],
    model: PreTrainingModel,
    recipe: Recipe,
    state: State,
    commit: str | None,
    before: dict[str, Any] | None,
) -> None:
    """Write the checkpoint and its record; then the state of the run may go."""
    known, out = sources(), options.out
    record = {
        "variant": options.variant,
        "config": asdict(model.config),
        "recipe": asdict(recipe),
        "corpora": {n: known[n].sha256 if n in known else None for n in run["corpora"]},
        "bfloat16": run["bfloat16"],
        "compiled": options.compiled,
        **describe_machine(next(model.parameters()).device),
        "processes": processes.count(),
        "commit": commit,
        "steps": state.step,
        "tokens": state.tokens,
        "seconds": round(state.seconds, 3),
        "curve": [{k: round(v, 5) for k, v in row.items()} for row in state.curve],
        "init": before,
    }
    with run_folder.writing(out):
        save_checkpoint(model, out, torch.float16)
        save_tokenizer(load_vocabulary(), out)
        write_atomically(out / "training.json", json.dumps(record, indent=1) + "\n")
        (out / STATE_FILE).unlink(missing_ok=True)
        (out / RUN_FILE).unlink(missing_ok=True)
