"""One pre-training run from corpus names to a finished checkpoint folder."""

import dataclasses
import errno
import hashlib
import json
import math
import os
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from functools import lru_cache, wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec

import torch
from filelock import FileLock, Timeout

from bertedu.model.bert import BertForPreTraining
from bertedu.model.checkpoints import (
    CheckpointError,
    load_checkpoint,
    load_tensors,
    read_config,
    save_checkpoint,
    write_atomically,
)
from bertedu.model.config import BertConfig, Direction
from bertedu.model.elmo import ElmoForPreTraining
from bertedu.pretraining import processes
from bertedu.pretraining.batches import Text, batches, fixed_batches
from bertedu.pretraining.evaluation import PreTrainingModel
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
    recipe_from,
    train,
)
from bertedu.pretraining.masking import PAPER
from bertedu.pretraining.next_sentence import EncodedDocument, encode_documents
from bertedu.text.corpus import DEFAULT_CORPORA, by_split, load_documents
from bertedu.text.sources import sources
from bertedu.text.streaming import DocumentStream
from bertedu.text.tokenization import load_tokenizer, load_vocabulary, save_tokenizer

# name -> what a token may see, and whether the loss has a next-sentence part (paper, 5.1)
VARIANTS: dict[str, tuple[Direction, bool]] = {
    "bert": ("bidirectional", True),
    "no-nsp": ("bidirectional", False),
    "ltr": ("left-to-right", False),
    "rtl": ("right-to-left", False),
    "elmo": ("left-to-right", False),  # its text, too, is not masked; it reads it from both ends
    # the question of no-nsp under another attention mask: same batches, same blanks, same loss
    "mlm-ltr": ("left-to-right", False),
    "mlm-rtl": ("right-to-left", False),
}
MASKED = {"bert", "no-nsp", "mlm-ltr", "mlm-rtl"}  # the others name the next word everywhere
STATE_FILE = "training_state.safetensors"
RUN_FILE = "training_run.json"  # what --resume must find unchanged
LOCK_FILE = ".pretraining.lock"  # held while a run lasts; the system lets it go, even at kill -9
LOG_EVERY = 50
LONG = 200  # steps of a run whose first few are worth timing
TOKENS_A_STEP = 2048  # of the default recipe
EVALUATION_LENGTH, EVALUATION_BATCH = 128, 32


# option -> what it may be, and in words
NUMBERS: dict[str, tuple[Callable[[float], bool], str]] = {
    "--learning-rate": (lambda rate: 0 < rate < math.inf, "a number above zero, such as 0.001"),
    "--dropout": (lambda share: 0 <= share < 1, "a share from 0 to below 1: 0.1 is 10 %"),
    "--minutes": (lambda time: 0 < time < math.inf, "a number above zero"),
    "--seed": (lambda seed: 0 <= seed < 2**32, f"a whole number from 0 to {2**32 - 1}"),
    "--mask-rate": (lambda rate: 0 < rate <= 1, "above 0 and at most 1: 0.15 is 15 %"),
}


def check_numbers(given: dict[str, float | None]) -> None:
    """Refuse a number that cannot be meant before any work, by the name of its option.

    Raises
    ------
    ValueError
        A number is not what `NUMBERS` says of it. None stands for an option that was not given.

    """
    for option, value in given.items():
        fits, wanted = NUMBERS[option]
        if value is not None and not fits(value):
            raise ValueError(f"{option} {value} should be {wanted}")


def load_splits(
    corpora: Sequence[str] = DEFAULT_CORPORA, say: Callable[[str], None] = print
) -> dict[str, list[EncodedDocument]]:
    """Read corpora, cut them into sentences and word pieces: documents by split."""
    tokenizer = load_tokenizer()
    documents = (document for corpus in corpora for document in load_documents(corpus))
    splits = {}
    for split, members in by_split(documents).items():
        say(f"encoding {len(members):,} {split} documents")
        splits[split] = encode_documents(members, tokenizer)
    return splits


def stream_windows(where: str) -> Callable[[int], dict[str, list[EncodedDocument]]]:
    """Return a function from the number of a window of a stream to its documents by split.

    Raises
    ------
    CorpusError
        There is no such stream; see `DocumentStream`.

    """
    stream, tokenizer = DocumentStream(where), load_tokenizer()

    @lru_cache(maxsize=1)  # the first is asked for three times: to start, to score, to train
    def window(number: int) -> dict[str, list[EncodedDocument]]:
        splits = by_split(d for d in stream.window(number) if d.text.strip())
        return {split: encode_documents(some, tokenizer) for split, some in splits.items()}

    return window


def steps_for_minutes(
    minutes: float,
    model: PreTrainingModel,
    documents: Text,
    recipe: Recipe,
    bfloat16: bool,
) -> int:
    """Time a few steps on a copy's behalf, and say how many of a recipe's fit.

    The answer becomes part of the recipe: a resumed run keeps its number of steps, since the
    learning rate depends on it.
    """
    return max(20, int(minutes * 60 / step_seconds(model, documents, recipe, bfloat16)))


def step_seconds(
    model: PreTrainingModel, documents: Text, recipe: Recipe, bfloat16: bool, tries: int = 8
) -> float:
    """Return how long a step of a recipe takes: each phase's median of some, by its share."""
    device = next(model.parameters()).device
    optimizer = make_optimizer(model, recipe.weight_decay)  # at learning rate 0: nothing moves
    mean = 0.0
    for phase in recipe.phases:
        stream = batches(
            documents,
            phase.length,
            phase.batch_size,
            model.config.vocab_size,
            recipe.seed,
            phase.mask_rate,
            direction=model.config.direction,
            masked=recipe.masked,
        )
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


def use_threads_that_pay(
    model: PreTrainingModel,
    documents: Text,
    recipe: Recipe,
    bfloat16: bool,
    say: Callable[[str], None] = print,
) -> int:
    """Compute on one CPU thread, or on all cores if that makes a step a tenth shorter; say which.

    A few steps of the first phase are timed on each. On a machine that is busy now, or that is
    shared, one thread is the answer, and the right one: threads that wait for a core cost more
    than they bring.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    beginning = dataclasses.replace(recipe.phases[0], share=1.0)
    recipe = dataclasses.replace(recipe, phases=(beginning,))
    seconds = {}
    for threads in (1, cores or 1):
        torch.set_num_threads(threads)
        seconds[threads] = step_seconds(model, documents, recipe, bfloat16, tries=5)
    best = threads if seconds[threads] < 0.9 * seconds[1] else 1
    torch.set_num_threads(best)
    times = ", ".join(f"{count}: {1000 * each:.0f} ms" for count, each in seconds.items())
    say(f"CPU threads: {best} (a step takes, by threads, {times}); --threads N sets another number")
    return best


P = ParamSpec("P")
Run = Callable[Concatenate[BertConfig | None, Path, P], State]


def _alone(run: Run[P]) -> Run[P]:
    """Hold the lock of a run's folder while it lasts, and leave no empty folder if it is refused.

    Of several processes under `torchrun` the first holds it for all.
    """

    @wraps(run)
    def locked(config: BertConfig | None, out: Path, /, *args: P.args, **kwargs: P.kwargs) -> State:
        if processes.rank() != 0:
            return run(config, out, *args, **kwargs)
        new = [folder for folder in (out, *out.parents) if not folder.exists()]
        with _writing(out):
            out.mkdir(parents=True, exist_ok=True)
            lock = FileLock(out / LOCK_FILE, timeout=0)
            try:
                with suppress(NotImplementedError):  # a network disk may have no locks
                    lock.acquire()
            except Timeout:
                raise CheckpointError(
                    f"another run is writing to {out} now: wait for its end, or choose another "
                    "--out"
                ) from None
        try:
            return run(config, out, *args, **kwargs)
        finally:
            with suppress(OSError):  # Windows removes no open file; it may lie there
                (out / LOCK_FILE).unlink()
            lock.release()
            with suppress(OSError):  # one that is not empty stays
                for folder in new:
                    folder.rmdir()

    return locked


@_alone
def pretrain(
    config: BertConfig | None,
    out: Path,
    steps: int | None = None,
    minutes: float | None = None,
    corpora: Sequence[str] = DEFAULT_CORPORA,
    resume: bool = False,
    seed: int | None = None,
    learning_rate: float | None = None,
    dropout: float = 0.0,
    device: str | None = None,
    bfloat16: bool | None = None,
    save_every: int = 200,
    say: Callable[[str], None] = print,
    init: Path | None = None,
    length: int | None = None,
    variant: str = "bert",
    keep_every: int | None = None,
    stop_at: int | None = None,
    stream: str | None = None,
    masking: tuple[float, float] | None = None,
    mask_rate: float | None = None,
    compiled: bool = False,
    measure_threads: bool = False,
) -> State:
    """Pre-train BERT and write a checkpoint folder that `transformers` opens.

    A new model is made from ``config``; or ``config`` is None and the run starts from the weights
    of the finished checkpoint ``init``, with a fresh optimizer and learning rate. ``length`` asks
    for sequences of that many tokens all the time, 15 % of them selected, in place of the
    recipe's phases; ``mask_rate`` for another share of selected tokens, all the time.
    ``variant`` is one of `VARIANTS`: what a token may see, and the loss.
    Every ``keep_every`` steps, the weights of that moment go to `steps/NNNNNN` in ``out``. With
    ``stop_at`` the run stops after that step, and ``resume`` can go on from there. ``stream``
    names text that is too big for memory, for `DocumentStream`; it takes the place of ``corpora``,
    and the held-out documents are those of its first window.
    ``masking``: of the selected tokens, the share of `[MASK]` and that of random words (table 8).
    ``compiled``: the encoder goes through `torch.compile`, which fuses its small operations for a
    GPU; the first step of each phase then takes a minute, and rounding differs.
    ``measure_threads``: on a CPU, a run of 200 steps or more, or of minutes, begins with
    `use_threads_that_pay`, and a resumed one takes as many as it began with.
    Under `torchrun` every process takes its share of each batch; see `processes`.

    ``out`` receives `model.safetensors` (16 bit), `config.json`, the tokenizer's files and
    `training.json` (recipe, curve, corpora and their hashes, machine, seconds, commit, and under
    "init" the record of the run it started from); while the run lasts, its full state, written
    every ``save_every`` steps and at Ctrl-C.

    A new run has seed 0 and the recipe's learning rate, if they are not given; with ``resume``,
    those that the run was started with, and so for the number of steps.

    Raises
    ------
    ValueError
        Neither or both of ``steps`` and ``minutes`` are given, or of ``config`` and ``init``; a
        number makes no sense; the text is too small; the length does not fit the model; there is
        no such device or variant, a masking or its rate is asked of a model that reads its text
        unmasked, or compiling is asked of an ELMo; or ``init`` was trained in another direction.
    FileNotFoundError
        There is no vocabulary.
    CheckpointError
        ``out`` holds a finished or another run, another process is writing to it, or it cannot be
        written; ``init`` is not a
        checkpoint, or has another vocabulary.
    TrainingDiverged
        The loss became NaN.
    KeyboardInterrupt
        Ctrl-C came; the message says where the state is.

    """
    check_numbers(
        {
            "--learning-rate": learning_rate,
            "--dropout": dropout,
            "--minutes": minutes,
            "--seed": seed,
            "--mask-rate": mask_rate,
        }
    )
    state_path = out / STATE_FILE
    if (out / "model.safetensors").exists() and not state_path.exists():
        raise CheckpointError(f"{out} holds a finished run; choose another --out")
    if state_path.exists() and not resume:
        raise CheckpointError(
            f"{out} holds a run in progress: go on with --resume, or choose another --out"
        )
    resuming = resume and state_path.exists()
    if not resuming and (steps is None) == (minutes is None):
        raise ValueError("say how long to train: either --steps N or --minutes M")
    if steps is not None and steps < 1:
        raise ValueError(f"--steps {steps} should be a number above zero")
    if (config is None) == (init is None):
        raise ValueError("choose either --config, for a new model, or --init, to train one further")
    if variant not in VARIANTS:
        raise ValueError(f"no variant {variant!r}: choose one of {', '.join(VARIANTS)}")
    if variant not in MASKED:
        for option, value in (("--masking", masking), ("--mask-rate", mask_rate)):
            if value is not None:
                raise ValueError(
                    f"the variant {variant} reads its text unmasked: leave out {option}"
                )
    if variant == "elmo" and init is not None:
        raise ValueError("--init trains a BERT further; an ELMo starts from scratch")
    if variant == "elmo" and compiled:
        raise ValueError("an LSTM is one fused operation already: leave out --compile")
    direction, next_sentence = VARIANTS[variant]
    if minutes is not None and processes.count() > 1:
        raise ValueError("with several processes say --steps: nobody has timed a step of theirs")
    first = processes.rank() == 0
    if not first:
        say = _silent
    chosen = _device(device)
    use_bfloat16 = _products(bfloat16, chosen, out if resuming else None)
    before = None if init is None else _record_before(init)
    if config is None:
        config = read_config(init or Path())
        if config.direction != direction:
            raise ValueError(f"{init} reads {config.direction}, the variant {variant} {direction}")
    # No dropout: a short run sees each text a few times only, so there is little to overfit.
    config = dataclasses.replace(
        config, vocab_size=len(load_vocabulary()), dropout=dropout, direction=direction
    )
    phases = _phases(length, mask_rate, config)
    text: Text
    if stream is None:
        splits = load_splits(corpora, say)
        text = splits["train"]
    else:
        corpora, windows = (f"stream:{stream}",), stream_windows(stream)
        splits = windows(0)

        def text(epoch: int) -> list[EncodedDocument]:
            return windows(epoch)["train"]

    run = {
        "config": asdict(config),
        "corpora": [str(corpus) for corpus in corpora],
        "vocabulary": hashlib.sha256("\n".join(load_vocabulary()).encode()).hexdigest(),
        "init": None if init is None else _digest(init),
        "length": length,
        "mask_rate": mask_rate,
        "variant": variant,
        "bfloat16": use_bfloat16,
    }
    if resuming:
        recipe = read_recipe(state_path)
        _check_same_run(out, run, recipe, steps, seed, learning_rate, masking)
        if measure_threads:
            torch.set_num_threads(_told_at_start(out, "threads") or 1)
    else:
        processes.wait_for_all()  # every process has looked into the folder
        if first:
            _start_run(out, run | {"threads": torch.get_num_threads()})
    torch.manual_seed(seed or 0)
    model: PreTrainingModel
    model = ElmoForPreTraining(config) if variant == "elmo" else BertForPreTraining(config)
    model = model.to(chosen)
    if init is None:
        initialize(model, splits["train"])
    else:
        model.load_state_dict(load_checkpoint(init).state_dict())
    if not resuming:
        rate = Recipe.learning_rate if learning_rate is None else learning_rate
        recipe = Recipe(
            steps or 1,
            rate,
            seed=seed or 0,
            next_sentence=next_sentence,
            masking=masking or PAPER,
            masked=variant in MASKED,
            phases=phases,
        )
        on_cpu = chosen.type == "cpu" and processes.count() == 1
        if measure_threads and on_cpu and (steps is None or steps >= LONG):
            threads = use_threads_that_pay(model, text, recipe, use_bfloat16, say)
            _start_run(out, run | {"threads": threads})
        if minutes is not None:
            steps = steps_for_minutes(minutes, model, text, recipe, use_bfloat16)
            recipe = dataclasses.replace(recipe, steps=steps)
    held_out = fixed_batches(
        _with_company(splits["dev"]),
        min(EVALUATION_LENGTH, max(phase.length for phase in phases)),  # no position is unknown
        EVALUATION_BATCH,
        config.vocab_size,
        direction=direction,
        masked=variant in MASKED,
    )
    if not held_out:
        say("too few held-out documents to score on (about 40 documents are needed): going without")
    say(
        f"{sum(p.numel() for p in model.parameters()):,} parameters, {recipe.steps:,} steps on "
        f"{chosen.type}, {'bfloat16' if use_bfloat16 else 'float32'}"
    )

    if compiled and isinstance(model, BertForPreTraining):
        model.bert.encoder.compile()  # in place: the names of the weights stay

    def keep(step: int) -> None:
        if first and keep_every is not None and step % keep_every == 0:
            folder = out / "steps" / f"{step:06d}"
            save_checkpoint(model, folder, torch.float16)
            save_tokenizer(load_vocabulary(), folder)

    commit = current_commit()  # of the code that runs, not of what is edited meanwhile
    state = train(
        model,
        text,
        held_out,
        recipe,
        state_path,
        resume,
        use_bfloat16,
        log_every=math.gcd(LOG_EVERY, save_every),
        save_every=save_every,
        after_step=keep,
        stop_at=stop_at,
    )
    if state.step < recipe.steps:
        say(f"stopped after step {state.step} of {recipe.steps}, as asked: go on with --resume")
        return state
    if not first:
        return state
    known = sources()
    record = {
        "variant": variant,
        "config": asdict(config),
        "recipe": asdict(recipe),
        "corpora": {name: known[name].sha256 if name in known else None for name in corpora},
        "bfloat16": use_bfloat16,
        "compiled": compiled,
        **describe_machine(chosen),
        "processes": processes.count(),
        "commit": commit,
        "steps": state.step,
        "tokens": state.tokens,
        "seconds": round(state.seconds, 3),
        "curve": [{k: round(v, 5) for k, v in row.items()} for row in state.curve],
        "init": before,
    }
    with _writing(out):
        save_checkpoint(model, out, torch.float16)
        save_tokenizer(load_vocabulary(), out)
        write_atomically(out / "training.json", json.dumps(record, indent=1) + "\n")
        state_path.unlink(missing_ok=True)
        (out / RUN_FILE).unlink(missing_ok=True)
    return state


def _phases(length: int | None, mask_rate: float | None, config: BertConfig) -> tuple[Phase, ...]:
    phases = Recipe.phases
    if length is not None:
        phases = (Phase(1.0, length, max(1, TOKENS_A_STEP // length)),)
    if mask_rate is not None:
        phases = tuple(dataclasses.replace(phase, mask_rate=mask_rate) for phase in phases)
    longest = max(phase.length for phase in phases)
    if not 16 <= longest <= config.max_position_embeddings:
        raise ValueError(
            f"sequences of {longest} tokens do not fit: choose a --length from 16 to "
            f"{config.max_position_embeddings}, the positions that the model has"
        )
    return phases


def _digest(checkpoint: Path) -> str:
    return hashlib.sha256((checkpoint / "model.safetensors").read_bytes()).hexdigest()


def _record_before(checkpoint: Path) -> dict[str, Any]:
    """What is known of the run that made a checkpoint; refuse one with other word pieces."""
    load_checkpoint(checkpoint)  # a broken one is found before any work is done
    try:
        vocabulary = (checkpoint / "vocab.txt").read_text(encoding="utf-8").splitlines()
    except OSError:
        raise CheckpointError(f"{checkpoint} has no vocab.txt to compare with ours") from None
    if vocabulary != load_vocabulary():
        raise CheckpointError(
            f"{checkpoint} was trained with another vocabulary than data/tokenizer: its token "
            "numbers mean other words, so it cannot be trained further here"
        )
    try:
        text = (checkpoint / "training.json").read_text(encoding="utf-8")
        record: dict[str, Any] = json.loads(text)
    except (OSError, ValueError):
        record = {}  # weights of others have none
    return {"sha256": _digest(checkpoint)} | record


@contextmanager
def _writing(out: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason, advice = error.strerror or str(error), "choose another folder"
        if isinstance(error, FileExistsError | NotADirectoryError):
            reason, advice = "a file of that name is in the way", "--out names a folder"
        elif error.errno in (errno.ENOSPC, errno.EDQUOT):
            advice = "free some space, or choose another folder"
        raise CheckpointError(f"cannot write to {out}: {reason}; {advice}") from None


def _start_run(out: Path, run: dict[str, Any]) -> None:
    """Write down what the run is, which also shows early whether ``out`` can be written."""
    with _writing(out):
        out.mkdir(parents=True, exist_ok=True)
        write_atomically(out / RUN_FILE, json.dumps(run, indent=1) + "\n")


def _check_same_run(
    out: Path,
    run: dict[str, Any],
    recipe: Recipe,
    steps: int | None,
    seed: int | None,
    learning_rate: float | None,
    masking: tuple[float, float] | None,
) -> None:
    """Refuse to go on with other options than the run was started with; clear what a kill left."""
    asked: dict[str, Any] = {"steps": steps, "seed": seed, "learning_rate": learning_rate}
    asked["masking"] = masking
    changed = {
        name: (getattr(recipe, name), value)
        for name, value in asked.items()
        if value is not None and value != getattr(recipe, name)
    }
    if (out / RUN_FILE).exists():
        before = json.loads((out / RUN_FILE).read_text(encoding="utf-8"))
        before.setdefault("bfloat16", run["bfloat16"])  # of a time when a run did not say
        changed |= {n: (before.get(n), run[n]) for n in run if before.get(n) != run[n]}
    for name, (was, now) in changed.items():
        raise CheckpointError(
            f"{out} is a run with {name} {was}, not {now}: resume with the same options, or "
            "choose another --out"
        )
    # safetensors writes to a .tmpXXXXXX of its own first, and a kill may leave that, too
    for part in (*out.glob(f".{STATE_FILE}.*.part"), *out.glob(".tmp??????")):
        part.unlink(missing_ok=True)


def _products(asked: bool | None, device: torch.device, resumed: Path | None) -> bool:
    """Whether products are in 16 bits: as asked, else as the run began, else as is faster here."""
    if asked is not None:
        return asked
    before = _told_at_start(resumed, "bfloat16") if resumed else None
    if before is not None:
        return bool(before)
    # where one of several machines is slow with them, none uses them: they share each step
    return not processes.any_of(not has_fast_bfloat16(device), device)


def _told_at_start(out: Path, name: str) -> Any:
    """What an unfinished run wrote down when it began; None if it did not."""
    if not (out / RUN_FILE).exists():
        return None
    return json.loads((out / RUN_FILE).read_text(encoding="utf-8")).get(name)


def _silent(_: str) -> None:
    """Say nothing: process 0 speaks for all."""


def _device(name: str | None) -> torch.device:
    if name is None:
        return default_device()
    try:
        return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError) as error:  # torch raises either
        reason = str(error).splitlines()[0]
        raise ValueError(f"device {name!r} cannot be used here: {reason}") from None


def _with_company(documents: Sequence[EncodedDocument]) -> list[EncodedDocument]:
    """Leave out a document that is the only one of its source: no pair can be drawn for it."""
    count = Counter(document.source for document in documents if document.sentences)
    return [document for document in documents if count[document.source] > 1]


def read_recipe(state_path: Path) -> Recipe:
    """Read back the recipe of an unfinished run.

    Raises
    ------
    CheckpointError
        The file is broken, or is not a training state.

    """
    _, metadata = load_tensors(state_path)
    try:
        return recipe_from(json.loads(metadata["training"])["recipe"])
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
