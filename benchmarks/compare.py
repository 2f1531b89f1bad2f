"""The comparisons themselves: pre-training step, matrix products, inference, memory."""

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch

from benchmarks.inputs import one_sentence
from benchmarks.memory import can_measure, peak_of_step
from benchmarks.products import bare_products, count_operations, linear_shapes
from benchmarks.report import INFERENCE, INPUT, MEMORY, PRODUCTS, STEP, Row
from benchmarks.sides import (
    Setting,
    assert_equal,
    inference,
    make_model,
    make_ours,
    make_theirs,
    training_step,
)
from benchmarks.timing import WARM_UP, milliseconds, ratio, take_turns
from bertedu.model.config import BertConfig
from bertedu.pretraining.batches import Batch, make_batch, pack_pairs
from bertedu.pretraining.next_sentence import EncodedDocument, make_pairs

SENTENCE = 16  # tokens
SENTENCE_REPEATS = 10  # rounds for one of a batch: it takes milliseconds
EQUAL, BEST, SAME = "equal settings", "best settings", "no dropout"
TARGETS = {
    (STEP, EQUAL): "target 1.4, aim 1.6",
    (STEP, BEST): "target 1.8, aim 2.3",
    INPUT: "target 0.02",
    (MEMORY, "sdpa, float32, dropout 0.1"): "target 0.7, aim 0.6",
    (MEMORY, "as shipped"): "aim 0.35",
}
Advance = Callable[[], object]


def name_of(config: BertConfig) -> str:
    """Say the size as the literature does, e.g. L4 H256."""
    return f"L{config.num_hidden_layers} H{config.hidden_size}"


def has_bfloat16() -> bool:
    """Say whether this CPU has instructions for products in bfloat16."""
    return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()


def precisions() -> list[bool]:
    """List the precisions to try: float32 (False), and bfloat16 (True) where the CPU has it."""
    return [False, True] if has_bfloat16() else [False]


def settings() -> list[Setting]:
    """List every way in which a side is timed, ours first."""
    ours = [Setting("ours", 0.1), *(Setting("ours", bfloat16=b) for b in precisions())]
    theirs = [
        Setting("theirs", bfloat16=b, attention=attention)
        for b in precisions()
        for attention in ("sdpa", "eager")
    ]
    return [*ours, Setting("theirs", 0.1), *theirs]


def count_calls(rounds: int) -> int:
    """Count the calls of all comparisons of time, for a progress bar."""
    steps = (WARM_UP + rounds) * (len(settings()) + len(precisions()))
    inputs = 3 * (WARM_UP + rounds)
    return steps + 4 * (WARM_UP + SENTENCE_REPEATS * rounds) + 4 * (WARM_UP + rounds) + inputs


def compare_steps(
    config: BertConfig, batches: Sequence[Batch], rounds: int, advance: Advance
) -> list[Row]:
    """Time the pre-training step of every setting, and our step's bare matrix products.

    Raises
    ------
    NotEqual
        The two sides do not compute the same loss and gradients.

    """
    for attention in ("sdpa", "eager"):
        assert_equal(make_ours(config), make_theirs(config, attention=attention), batches[0])
    size, length = batches[0].ids.shape
    selected = sum(int(batch.selected.sum()) for batch in batches) // len(batches)
    shapes = linear_shapes(config, size, length, selected)
    timed: dict[str, Callable[[], None]] = {}
    for setting in settings():
        timed[f"{setting.side} {setting}"] = training_step(
            make_model(config, setting), batches, setting.bfloat16
        )
    for bfloat16 in precisions():
        dtype = torch.bfloat16 if bfloat16 else torch.float32
        timed[f"products {dtype}"] = bare_products(shapes, dtype)
    seconds = take_turns(timed, rounds, advance)

    def row(setting: str, ours: Setting, theirs: Setting) -> Row:
        own, other = seconds[f"ours {ours}"], seconds[f"theirs {theirs}"]
        return Row(
            STEP,
            name_of(config),
            setting,
            str(ours),
            str(theirs),
            *ratio(other, own),
            ours_ms=milliseconds(own),
            theirs_ms=milliseconds(other),
            batch=size,
            length=length,
            tokens=size * length,
            rounds=rounds,
            target=TARGETS.get((STEP, setting), "") if name_of(config) == "L4 H256" else "",
        )

    rows = [row(EQUAL, Setting("ours", 0.1), Setting("theirs", 0.1))]
    theirs = [s for s in settings() if s.side == "theirs" and not s.dropout]
    best = min(theirs, key=lambda s: milliseconds(seconds[f"theirs {s}"]))
    # Ours is what the package itself would choose here, whether or not it was the fastest today.
    rows.append(row(BEST, Setting("ours", bfloat16=precisions()[-1]), best))
    rows += [row(SAME, Setting("ours", bfloat16=s.bfloat16), s) for s in theirs]
    for ours in (s for s in settings() if s.side == "ours"):
        dtype = torch.bfloat16 if ours.bfloat16 else torch.float32
        own, products = seconds[f"ours {ours}"], seconds[f"products {dtype}"]
        rows.append(
            Row(
                PRODUCTS,
                name_of(config),
                str(ours),
                str(ours),
                "",
                *ratio(products, own),
                ours_ms=milliseconds(own),
                products_ms=milliseconds(products),
                products_gflops=count_operations(shapes) / milliseconds(products) / 1e6,
                batch=size,
                length=length,
                tokens=size * length,
                rounds=rounds,
            )
        )
    return rows


def compare_inference(config: BertConfig, batch: Batch, rounds: int, advance: Advance) -> list[Row]:
    """Time the encoder on one sentence and on a batch, with and without attention weights."""
    rows = []
    for name, input, repeat in (
        ("one sentence", one_sentence(batch, SENTENCE), SENTENCE_REPEATS),
        ("batch", batch, 1),
    ):
        functions = {
            f"{side}{weights}": inference(config, side, weights, input)
            for weights in (False, True)
            for side in ("ours", "theirs")
        }
        seconds = take_turns(functions, repeat * rounds, advance)
        for weights in (False, True):
            own, other = seconds[f"ours{weights}"], seconds[f"theirs{weights}"]
            size, length = input.ids.shape
            rows.append(
                Row(
                    INFERENCE,
                    name_of(config),
                    name + (", with attention weights" if weights else ""),
                    "float32",
                    f"{'eager' if weights else 'sdpa'}, float32",
                    *ratio(other, own),
                    ours_ms=milliseconds(own),
                    theirs_ms=milliseconds(other),
                    batch=size,
                    length=length,
                    tokens=size * length,
                    rounds=repeat * rounds,
                )
            )
    return rows


def compare_input(
    config: BertConfig,
    documents: Sequence[EncodedDocument],
    batch: Batch,
    rounds: int,
    advance: Advance,
) -> list[Row]:
    """Time pairs, masks and padding, beside our fastest step.

    A round makes all pairs of the documents and ten batches of them; the pairs' time is shared
    out over the batches that they fill.
    """
    size, length = batch.ids.shape
    setting = Setting("ours", bfloat16=precisions()[-1])
    packed = pack_pairs(list(make_pairs(documents, length, _dice())), length, _dice())
    full = len(packed.sizes) // size  # batches in an epoch
    some = min(10, full)

    def pair() -> None:
        pack_pairs(list(make_pairs(documents, length, _dice())), length, _dice())

    def mask() -> None:
        for index in range(some):
            rows = slice(index * size, (index + 1) * size)
            make_batch(packed, rows, config.vocab_size, [0, index], 0.15)

    step = training_step(make_model(config, setting), [batch], setting.bfloat16)
    seconds = take_turns({"pair": pair, "mask": mask, "step": step}, rounds, advance)
    own = [
        pairs / full + masks / some
        for pairs, masks in zip(seconds["pair"], seconds["mask"], strict=True)
    ]
    return [
        Row(
            INPUT,
            name_of(config),
            str(setting),
            "pairs, masks, padding",
            "our own step",
            *ratio(own, seconds["step"]),
            ours_ms=milliseconds(own),
            theirs_ms=milliseconds(seconds["step"]),
            batch=size,
            length=length,
            tokens=size * length,
            rounds=rounds,
            target=TARGETS[INPUT],
        )
    ]


def _dice() -> np.random.Generator:
    return np.random.default_rng(0)


def memory_pairs() -> list[tuple[Setting, Setting]]:
    """List the settings, ours and theirs, whose peaks are compared; none where it cannot be."""
    if not can_measure():
        return []
    pairs = [(Setting("ours", 0.1), Setting("theirs", 0.1))]
    if True in precisions():
        pairs.append((Setting("ours", bfloat16=True), Setting("theirs", bfloat16=True)))
        pairs.append((Setting("ours", bfloat16=True), Setting("theirs", 0.1)))  # as shipped
    return pairs


def count_processes(rounds: int) -> int:
    """Count the processes that `compare_memory` starts."""
    return 2 * rounds * len(memory_pairs())


def compare_memory(config: BertConfig, batch: Batch, rounds: int, advance: Advance) -> list[Row]:
    """Measure the peak of a step, in a fresh process each; nothing where the system cannot say.

    Several rounds, because the peak depends on when which thread frees what: one is off by 10 %.
    """
    rows: list[Row] = []
    size, length = batch.ids.shape
    with tempfile.TemporaryDirectory() as folder:
        for pair in memory_pairs():
            peaks: list[list[float]] = [[], []]
            for _ in range(rounds):
                for setting, own in zip(pair, peaks, strict=True):
                    own.append(peak_of_step(config, setting, batch, Path(folder)))
                    advance()
            share = ratio(peaks[0], peaks[1])
            as_shipped = pair[0].dropout != pair[1].dropout
            target = TARGETS.get((MEMORY, "as shipped" if as_shipped else str(pair[1])), "")
            rows.append(
                Row(
                    MEMORY,
                    name_of(config),
                    f"{pair[0]}, theirs as shipped" if as_shipped else str(pair[0]),
                    str(pair[0]),
                    str(pair[1]),
                    *share,
                    ours_mb=float(np.median(peaks[0])),
                    theirs_mb=float(np.median(peaks[1])),
                    batch=size,
                    length=length,
                    tokens=size * length,
                    rounds=rounds,
                    target=target if name_of(config) == "L4 H256" else "",
                )
            )
    return rows
