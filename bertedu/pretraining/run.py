"""One pre-training run: what is asked for, and all from corpus names to a finished folder."""

import hashlib
import json
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, cast, get_args

import torch
from filelock import FileLock, Timeout

from bertedu import machine
from bertedu.files import Row, check_writable, write_atomically
from bertedu.machine import current_commit, describe_machine, device_named
from bertedu.model.bert import BertForPreTraining
from bertedu.model.checkpoints import (
    CheckpointError,
    find_checkpoint,
    load_checkpoint,
    read_config,
    read_json,
    save_checkpoint,
)
from bertedu.model.config import BertConfig, Direction
from bertedu.model.elmo import ElmoForPreTraining
from bertedu.pretraining.batches import (
    Batch,
    Optimizer,
    Phase,
    Question,
    Recipe,
    Say,
    Splits,
    Text,
    fixed_batches,
    halved,
    load_splits,
    stream_windows,
    with_company,
)
from bertedu.pretraining.masking import PAPER, read_procedure
from bertedu.pretraining.next_sentence import EncodedDocument
from bertedu.pretraining.objective import PreTrainingModel, pretraining_loss
from bertedu.pretraining.trainer import State, Trainer, initialize, optimizer_of, stream_of
from bertedu.text.corpus import DEFAULT_CORPORA
from bertedu.text.fast_tokenizer import load_vocabulary, save_tokenizer
from bertedu.text.sources import find

STATE_FILE = "training_state.safetensors"
RUN_FILE = "training_run.json"  # what the run was asked for, which --resume must not change
LOCK_FILE = ".pretraining.lock"  # held while a run lasts; the system lets it go, even at kill -9
LOG_EVERY = 50
EVALUATION_LENGTH, EVALUATION_BATCH = 128, 32
TOKENS_A_STEP = 2048  # of the default recipe

# name -> what a token may see; whether the loss has a next-sentence part; the words asked for (5.1)
VARIANTS: dict[str, tuple[Direction, bool, Question]] = {
    "bert": ("bidirectional", True, "masked"),
    "no-nsp": ("bidirectional", False, "masked"),
    "ltr": ("left-to-right", False, "next"),
    "rtl": ("right-to-left", False, "next"),
    "elmo": ("left-to-right", False, "next"),  # it reads its text from both ends
    # the question of no-nsp under another attention mask: same batches, same blanks, same loss
    "mlm-ltr": ("left-to-right", False, "masked"),
    "mlm-rtl": ("right-to-left", False, "masked"),
    "diffusion": ("bidirectional", False, "drawn"),  # each text by 1 / its share of blanks
}

# what --resume must find unchanged, or takes up where it is not given; threads may change
KEPT = (
    *("config", "corpus", "stream", "variant", "masking", "mask_rate", "length", "batch_tokens"),
    *("steps", "seed", "learning_rate", "optimizer", "dropout", "bfloat16", "threads"),
)

# option -> what it may be, and in words
NUMBERS: dict[str, tuple[Callable[[float], bool], str]] = {
    "--learning-rate": (lambda rate: 0 < rate < math.inf, "a number above zero, such as 0.001"),
    "--dropout": (lambda share: 0 <= share < 1, "a share from 0 to below 1: 0.1 is 10 %"),
    "--steps": (lambda steps: steps >= 1, "a number above zero"),
    "--minutes": (lambda time: 0 < time < math.inf, "a number above zero"),
    "--batch-tokens": (lambda tokens: tokens >= 1, "a whole number above zero: 2048 is usual"),
    "--seed": (lambda seed: 0 <= seed < 2**32, f"a whole number from 0 to {2**32 - 1}"),
    "--mask-rate": (lambda rate: 0 < rate <= 1, "above 0 and at most 1: 0.15 is 15 %"),
}


def check_number(option: str, value: float | None) -> None:
    """Raise ValueError if a number is not what `NUMBERS` says of its option; None: not given."""
    fits, wanted = NUMBERS[option]
    if value is not None and not fits(value):
        raise ValueError(f"{option} {value} should be {wanted}")


@dataclass(frozen=True)
class PreTrainingOptions:
    """What `pretrain` is asked for. None: as a resumed run began, else the recipe's own.

    A new model has the size ``config`` (a preset); or the run starts from the weights of the
    finished checkpoint ``init``, with a fresh optimizer and learning rate.
    """

    out: Path  # receives the checkpoint; while the run lasts, its state
    config: str | None = None
    init: Path | None = None
    steps: int | None = None  # or
    minutes: float | None = None
    corpus: Sequence[str] | None = None
    stream: str | None = None  # text too big for memory (`DocumentStream`), in place of corpora
    variant: str = "bert"  # one of `VARIANTS`: what a token may see, and the loss
    seed: int | None = None
    learning_rate: float | None = None
    optimizer: str = "adamw"  # or "muon"
    dropout: float = 0.0
    batch_tokens: int = TOKENS_A_STEP
    length: int | None = None  # tokens a sequence all the time, in place of the recipe's phases
    mask_rate: float | None = None  # share of tokens that is selected, all the time
    masking: str | None = None  # of these, MASK/SAME/RND in per cent (table 8)
    device: str | None = None
    bfloat16: bool | None = None
    threads: int | None = None
    save_every: int = 200
    keep_every: int | None = None  # keep the weights of every so many steps in `steps/NNNNNN`
    stop_at: int | None = None  # stop after this step; ``resume`` goes on
    resume: bool = False

    def check(self) -> None:
        """Refuse what makes no sense, before any work is done, by a ValueError that says why."""
        for option in NUMBERS:
            check_number(option, getattr(self, option.strip("-").replace("-", "_")))
        if self.masking is not None:
            read_procedure(self.masking)
        if self.config and self.init:
            raise ValueError("choose --config, for a new model, or --init, to train one further")
        if self.variant not in VARIANTS:
            raise ValueError(f"no variant {self.variant!r}: choose one of {', '.join(VARIANTS)}")
        if self.optimizer not in get_args(Optimizer):
            raise ValueError(f"no optimizer {self.optimizer!r}: choose adamw or muon")
        for option, given in (("--masking", self.masking), ("--mask-rate", self.mask_rate)):
            if given is not None and VARIANTS[self.variant][2] != "masked":
                raise ValueError(
                    f"the variant {self.variant} reads its text unmasked, or draws how much is "
                    f"hidden: leave out {option}"
                )
        if self.variant == "elmo" and self.init is not None:
            raise ValueError("--init trains a BERT further; an ELMo starts from scratch")
        if self.variant == "elmo" and self.optimizer == "muon":
            raise ValueError("Muon is for the matrices of layers; an LSTM's are trained by adamw")

    def recipe(self, config: BertConfig) -> Recipe:
        """Return the recipe of a new run; without ``steps`` it has one, until a step is timed.

        Raises ValueError if the sequences are too long for a model of that size.
        """
        phases = Recipe.phases if self.length is None else (Phase(1.0, self.length, 1),)
        phases = tuple(
            Phase(
                phase.share,
                phase.length,
                max(1, self.batch_tokens // phase.length),
                phase.mask_rate if self.mask_rate is None else self.mask_rate,
            )
            for phase in phases
        )
        longest = max(phase.length for phase in phases)
        if not 16 <= longest <= config.max_position_embeddings:
            raise ValueError(
                f"sequences of {longest} tokens do not fit: choose a --length from 16 to "
                f"{config.max_position_embeddings}, the positions that the model has"
            )
        _, next_sentence, question = VARIANTS[self.variant]
        return Recipe(
            self.steps or 1,
            Recipe.learning_rate if self.learning_rate is None else self.learning_rate,
            seed=self.seed or 0,
            next_sentence=next_sentence,
            masking=PAPER if self.masking is None else read_procedure(self.masking),
            question=question,
            optimizer=cast(Optimizer, self.optimizer),
            phases=phases,
        )


def pretrain(options: PreTrainingOptions, say: Say = print) -> State:
    """Pre-train BERT and write a checkpoint folder; `transformers` opens one that reads both sides.

    ``out`` receives `model.safetensors` (16 bit), `config.json`, the tokenizer's files and
    `training.json` (recipe, curve, corpora and their hashes, machine, seconds, commit, and under
    "init" the record of the run it started from); while the run lasts, its full state, written
    every ``save_every`` steps and at Ctrl-C. Under `torchrun` every process takes its share of each
    batch; see `bertedu.machine`.

    Raises ValueError for options that make no sense together or a text that is too small,
    FileNotFoundError without a vocabulary, FileError if ``out`` or ``init`` cannot be used,
    TrainingDiverged if the loss became NaN, KeyboardInterrupt at Ctrl-C; each says what to do.
    """
    with machine.joined_processes(options.device) as device, alone_in(options.out):
        say = say if machine.process_rank() == 0 else lambda _: None
        return _pretrain(replace(options, device=device), say)


def _pretrain(options: PreTrainingOptions, say: Say) -> State:
    options.check()
    device, resuming = device_named(options.device), _is_resumed(options)
    options, began, before = _settled(options, resuming)
    if options.resume and not resuming:
        say(f"{options.out} holds no run to go on with: this is a new one")
    if resuming:  # a kill may have left parts of a state; safetensors has a .tmpXXXXXX of its own
        for part in (*options.out.glob(f".{STATE_FILE}.*.part"), *options.out.glob(".tmp??????")):
            part.unlink(missing_ok=True)
    config = _config(options)
    recipe = options.recipe(config)  # before the text is read: it may not fit
    splits, text = _texts(options, say)
    if options.threads:
        torch.set_num_threads(options.threads)
    model = _model(options, config, splits["train"]).to(device)
    if options.minutes is not None and not resuming:
        seconds = step_seconds(model, text, recipe, bool(options.bfloat16))
        # the number of steps stays: the learning rate needs it
        recipe = replace(recipe, steps=max(20, int(options.minutes * 60 / seconds)))
    if not resuming and machine.process_rank() == 0:
        began |= {"steps": recipe.steps, "threads": torch.get_num_threads()}
        write_atomically(options.out / RUN_FILE, json.dumps(began, indent=1) + "\n")
    held_out = _held_out(options, config, recipe, splits["dev"])
    if not held_out:
        say("too few held-out documents to score on (about 40 documents are needed): going without")
    say(
        f"{sum(p.numel() for p in model.parameters()):,} parameters, {recipe.steps:,} steps on "
        f"{device.type}, {'bfloat16' if options.bfloat16 else 'float32'}"
    )
    corpora = options.corpus or [f"stream:{options.stream}"]
    record = {
        "variant": options.variant,
        "config": asdict(config),
        "recipe": asdict(recipe),
        "corpora": {n: find(n).sha256 if n in DEFAULT_CORPORA else None for n in corpora},
        "bfloat16": options.bfloat16,
        **describe_machine(device),
        "processes": machine.process_count(),
        "commit": current_commit(),  # of the code that runs, not of what is edited meanwhile
        "init": before,
    }
    trainer = Trainer(
        model,
        recipe,
        options.out / STATE_FILE,
        bool(options.bfloat16),
        log_every=math.gcd(LOG_EVERY, options.save_every),
        save_every=options.save_every,
        keep_every=options.keep_every,
    )
    state = trainer.train(text, held_out, resuming, options.stop_at)
    if state.step < recipe.steps:
        say(f"stopped after step {state.step} of {recipe.steps}, as asked: go on with --resume")
    elif machine.process_rank() == 0:
        _finish(options.out, model, state, record)
        say(f"written: {options.out}")
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
    if options.minutes is not None and machine.process_count() > 1:
        raise ValueError("with several processes use --steps: --minutes cannot time them")
    return unfinished


def _settled(
    options: PreTrainingOptions, resuming: bool
) -> tuple[PreTrainingOptions, Row, Row | None]:
    """Fill in what was not asked for: as a resumed run began, else the usual.

    Returns the options, what `RUN_FILE` holds of them, and the record of the checkpoint they start
    from. Raises CheckpointError if a resumed run is asked to go on otherwise than it began.
    """
    began: Row = {
        "config": None if options.init else "mini",
        "corpus": None if options.stream else [*DEFAULT_CORPORA],
        "masking": "80/10/10",
        "learning_rate": Recipe.learning_rate,
        "seed": 0,
        "bfloat16": False,
    }
    if resuming:
        began = json.loads((options.out / RUN_FILE).read_text(encoding="utf-8"))
    asked: Row = {name: getattr(options, name) for name in KEPT}
    asked["corpus"] = options.corpus and [*options.corpus]
    settled: Row = {name: began.get(name) if asked[name] is None else asked[name] for name in KEPT}
    folder = find_checkpoint(str(options.init)) if options.init else began.get("folder")
    before = _record_before(Path(folder)) if folder else None
    words = "\n".join(load_vocabulary()).encode()
    asked |= {"init": before and before["sha256"], "vocabulary": hashlib.sha256(words).hexdigest()}
    for name, now in asked.items():
        if resuming and now not in (None, was := began.get(name, now)) and name != "threads":
            raise CheckpointError(
                f"{options.out} is a run with {name} {was}, not {now}: resume with the "
                "same options, or choose another --out"
            )
    began = asked | settled | {"folder": folder and str(folder)}
    return replace(options, **settled, init=folder and Path(folder)), began, before


def _config(options: PreTrainingOptions) -> BertConfig:
    if options.init is None:
        config = BertConfig.preset(options.config or "mini")
    else:
        config = read_config(options.init)  # its attention mask is not kept: weights fit any
    # No dropout: a short run sees each text a few times only, so there is little to overfit.
    size, (direction, *_) = len(load_vocabulary()), VARIANTS[options.variant]
    return replace(config, vocab_size=size, dropout=options.dropout, direction=direction)


def _texts(options: PreTrainingOptions, say: Say) -> tuple[Splits, Text]:
    """Return the documents by split, and what to train on."""
    if options.stream:
        windows = stream_windows(options.stream)
        return windows(0), lambda epoch: windows(epoch)["train"]
    splits = load_splits(options.corpus or DEFAULT_CORPORA, say)
    if not VARIANTS[options.variant][1]:
        splits["train"] = halved(splits["train"])
    return splits, splits["train"]


def _model(
    options: PreTrainingOptions, config: BertConfig, documents: Sequence[EncodedDocument]
) -> PreTrainingModel:
    torch.manual_seed(options.seed or 0)
    model = ElmoForPreTraining(config) if options.variant == "elmo" else BertForPreTraining(config)
    if options.init is None:
        initialize(model, documents)
    else:
        model.load_state_dict(load_checkpoint(options.init).state_dict())
    return model


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
        question=question,
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
            optimizer.zero_grad()
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


@contextmanager
def alone_in(out: Path) -> Iterator[None]:
    """Hold the lock of a run's folder, and leave no empty folder if the run is refused.

    Of several processes under `torchrun` the first holds it for all. Raises CheckpointError if
    another run holds it, FileError if the folder cannot be written.
    """
    if machine.process_rank() != 0:
        yield
        return
    try:
        check_writable(out)
        new = [folder for folder in (out, *out.parents) if not folder.exists()]
        out.mkdir(parents=True, exist_ok=True)
        lock = FileLock(out / LOCK_FILE, timeout=0)
        with suppress(NotImplementedError):  # a network disk may have no locks
            lock.acquire()
    except Timeout:
        raise CheckpointError(
            f"another run is writing to {out} now: wait until it ends, or choose another --out"
        ) from None
    try:
        yield
    finally:
        with suppress(OSError):  # Windows removes no open file; it may lie there
            (out / LOCK_FILE).unlink()
        lock.release()
        with suppress(OSError):  # one that is not empty stays
            for folder in new:
                folder.rmdir()


def read_record(folder: Path) -> dict[str, Any]:
    """Return the record of a finished run; raise CheckpointError if the folder holds none."""
    if record := read_json(folder, "training.json"):
        return record
    raise CheckpointError(f"{folder}/training.json is not the record of a finished run")


def _record_before(checkpoint: Path) -> dict[str, Any]:
    """What is known of the run that made a checkpoint; refuse one with other word pieces."""
    load_checkpoint(checkpoint)  # a broken one is found before any work is done
    if load_vocabulary(checkpoint) != load_vocabulary():
        raise CheckpointError(
            f"{checkpoint} was trained with another vocabulary than data/tokenizer: its token "
            "numbers mean other words, so it cannot be trained further here"
        )
    record = {"sha256": hashlib.sha256((checkpoint / "model.safetensors").read_bytes()).hexdigest()}
    with suppress(CheckpointError):  # weights of others have no record
        record |= read_record(checkpoint)
    return record
