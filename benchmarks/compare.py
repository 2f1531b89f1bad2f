"""The comparisons themselves: pre-training step, batches, sentence vectors, memory."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer

from benchmarks.measure import STATUS, peak_of_step, ratio, take_turns
from benchmarks.sides import (
    TOLERANCE,
    NotEqual,
    Setting,
    assert_equal,
    make_model,
    sentence_vectors,
    training_step,
)
from bertedu.files import Row
from bertedu.model.config import BertConfig
from bertedu.model.features import encode
from bertedu.pretraining.batches import Batch, make_batch, pack_pairs
from bertedu.pretraining.next_sentence import EncodedDocument, make_pairs

STEP, INPUT = "pre-training step", "making a batch"
SENTENCES, MEMORY = "sentence vectors", "peak memory of a step"
# what is divided by what: faster is more, in time; else it is a share
RATIOS = {
    **dict.fromkeys((STEP, SENTENCES), ("theirs_ms", "ours_ms")),
    INPUT: ("ours_ms", "theirs_ms"),  # our own step in the place of theirs
    MEMORY: ("ours_mb", "theirs_mb"),
}
EQUAL, BEST, SAME = "equal settings", "best settings", "no dropout"
AS_SHIPPED = "bfloat16, dropout 0, theirs as shipped"
TARGETS = {
    (STEP, "L4 H256", EQUAL): "target 1.4, aim 1.6",
    (STEP, "L4 H256", BEST): "target 1.8, aim 2.3",
    (MEMORY, "L4 H256", "float32, dropout 0.1"): "target 0.7, aim 0.6",
    (MEMORY, "L4 H256", AS_SHIPPED): "aim 0.35",
    (SENTENCES, "L6 H384", "many sentences"): "target 1.3",
}
PLAIN = Setting("ours", 0.1), Setting("theirs", 0.1)


def make_row(
    config: BertConfig,
    shape: Sequence[int],  # sequences, tokens of each
    what: tuple[str, str],  # benchmark, setting
    sides: tuple[object, object],  # how ours ran, how theirs
    **series: Sequence[float],  # column -> its value in each round
) -> Row:
    """Return the columns of one comparison, all but those of the machine.

    ``ratio`` is the median over rounds of what `RATIOS` says, with its quartiles.
    """
    (benchmark, setting), (ours, theirs) = what, sides
    model = f"L{config.num_hidden_layers} H{config.hidden_size}"
    above, below = (series[name] for name in RATIOS[benchmark])
    middle, low, high = ratio(above, below)
    row: Row = {"benchmark": benchmark, "model": model, "setting": setting}
    row |= {"ours": str(ours), "theirs": str(theirs)}
    row |= {"ratio": middle, "ratio_low": low, "ratio_high": high}
    for name in ("ours_ms", "theirs_ms", "ours_mb", "theirs_mb"):
        row[name] = float(np.median(series[name])) if name in series else None
    row |= {"batch": shape[0], "length": shape[1], "tokens": shape[0] * shape[1]}
    target = "target 0.02" if benchmark == INPUT else TARGETS.get((benchmark, model, setting), "")
    return row | {"rounds": len(above), "target": target}


def precisions() -> list[bool]:
    """List the precisions to try: float32 (False), and bfloat16 (True) where the CPU has it."""
    has_bfloat16 = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    return [False, True] if has_bfloat16 else [False]


def compare_steps(config: BertConfig, batches: Sequence[Batch], rounds: int) -> list[Row]:
    """Time the pre-training step of every setting; NotEqual if loss or gradients differ."""
    ours = [PLAIN[0], *(Setting("ours", bfloat16=half) for half in precisions())]
    theirs = [Setting("theirs", 0, half, how) for half in precisions() for how in ("sdpa", "eager")]
    for other in theirs[:2]:
        assert_equal(make_model(config, ours[1]), make_model(config, other), batches[0])
    every = {f"{one.side} {one}": one for one in (*ours, PLAIN[1], *theirs)}
    steps = {k: training_step(make_model(config, one), batches, one) for k, one in every.items()}
    times = take_turns(steps, rounds)

    def row(setting: str, ours: Setting, theirs: Setting) -> Row:
        found = {"ours_ms": times[f"ours {ours}"], "theirs_ms": times[f"theirs {theirs}"]}
        return make_row(config, batches[0].ids.shape, (STEP, setting), (ours, theirs), **found)

    best = min(theirs, key=lambda setting: float(np.median(times[f"theirs {setting}"])))
    # Ours is what the package itself would choose here, whether or not it was the fastest today.
    rows = [row(EQUAL, *PLAIN), row(BEST, ours[-1], best)]
    return rows + [row(SAME, Setting("ours", bfloat16=other.bfloat16), other) for other in theirs]


def compare_input(
    config: BertConfig, documents: Sequence[EncodedDocument], batch: Batch, rounds: int
) -> Row:
    """Time pairs, masks and padding, beside our fastest step.

    A round makes all pairs of the documents and ten batches of them; the pairs' time is shared
    out over the batches that they fill.
    """
    size, length = batch.ids.shape
    setting = Setting("ours", bfloat16=precisions()[-1])

    def pair() -> Any:
        pairs = list(make_pairs(documents, length, np.random.default_rng(0)))
        return pack_pairs(pairs, length, np.random.default_rng(0))

    packed = pair()
    full = len(packed.sizes) // size  # batches in an epoch
    some = min(10, full)

    def mask() -> None:
        for index in range(some):
            rows = slice(index * size, (index + 1) * size)
            make_batch(packed, rows, config.vocab_size, [0, index], 0.15)

    step = training_step(make_model(config, setting), [batch], setting)
    times = take_turns({"pair": pair, "mask": mask, "step": step}, rounds)
    own = (np.array(times["pair"]) / full + np.array(times["mask"]) / some).tolist()
    what, sides = (INPUT, str(setting)), ("pairs, masks, padding", "our own step")
    return make_row(config, batch.ids.shape, what, sides, ours_ms=own, theirs_ms=times["step"])


def compare_sentences(
    config: BertConfig, tokenizer: Tokenizer, sentences: Sequence[str], rounds: int
) -> list[Row]:
    """Time one sentence and many, tokenizing included; NotEqual if the vectors differ."""
    ours = make_model(config, Setting("ours")).eval().bert
    theirs = make_model(config, Setting("theirs")).eval()
    middle = sorted(sentences, key=len)[len(sentences) // 2]
    rows = []
    cases = ("one sentence", [middle], 5), ("many sentences", list(sentences), 1)
    for name, texts, repeats in cases:
        functions: dict[str, Callable[[], torch.Tensor]] = {
            "theirs_ms": partial(sentence_vectors, theirs, tokenizer, texts),
            "ours_ms": partial(encode, ours, tokenizer, texts, batch_size=32),  # type: ignore[arg-type]
        }
        apart = float((functions["ours_ms"]() - functions["theirs_ms"]()).abs().max())
        if not apart <= TOLERANCE:
            raise NotEqual(f"the vectors differ by up to {apart:.2g}")
        times = take_turns(functions, repeats * rounds)
        shape = len(texts), round(np.mean([len(r.ids) for r in tokenizer.encode_batch(texts)]))
        sides = "float32, like lengths together", "sdpa, float32, in the order of the texts"
        rows.append(make_row(config, shape, (SENTENCES, name), sides, **times))
    return rows


def compare_memory(config: BertConfig, batch: Batch, rounds: int) -> list[Row]:
    """Measure the peak of a step, on Linux. Which thread frees what when is worth 10 % of it."""
    half = Setting("ours", bfloat16=True), Setting("theirs", bfloat16=True)
    pairs = {str(PLAIN[0]): PLAIN} if STATUS.exists() else {}
    if pairs and precisions()[-1]:
        pairs |= {str(half[0]): half, AS_SHIPPED: (half[0], PLAIN[1])}
    rows = []
    for name, sides in pairs.items():
        peaks = [[peak_of_step(config, one, batch) for one in sides] for _ in range(rounds)]
        ours, theirs = zip(*peaks, strict=True)
        case = config, batch.ids.shape, (MEMORY, name), sides
        rows.append(make_row(*case, ours_mb=ours, theirs_mb=theirs))
    return rows


def table(rows: Sequence[Row]) -> str:
    """Lay out the rows for a terminal: ours and theirs in ms or MB, the ratio and its quartiles."""
    lines = []
    for row in rows:
        ours, theirs = (row[f"{side}_ms"] or row[f"{side}_mb"] for side in ("ours", "theirs"))
        spread = f"{row['ratio']:>6.3f} [{row['ratio_low']:.3f}-{row['ratio_high']:.3f}]"
        name = f"{row['benchmark']:<22} {row['model']:<8} {row['setting']:<40}"
        lines.append(f"{name} {ours:>8.1f} {theirs:>8.1f} {spread}  {row['target']}")
    return "\n".join(lines)
