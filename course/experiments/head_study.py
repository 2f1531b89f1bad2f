"""The study of notebook 15: what heads and layers do on held-out text, and what that is worth.

    python -m course.experiments.head_study                    # the two directions, and MiniLM
    python -m course.experiments.head_study --model bert-mini  # any checkpoint, by name or folder

Writes ``data/results/heads.csv``. What stands there is not measured again. Intervals (95 %) draw
whole documents: how far other texts might differ, not other training runs.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from tokenizers import Tokenizer
from torch import Tensor, nn
from tqdm.auto import tqdm

from bertedu.analysis import probes
from bertedu.analysis.attention_heads import (
    MEASURES,
    another_attention,
    changed_attention,
    encoder_of,
    measure,
    shuffle_keys,
    spread_evenly,
    switch_off,
    total_variation,
    word_probabilities,
)
from bertedu.files import Row
from bertedu.model.bert import Bert, BertForPreTraining
from bertedu.model.checkpoints import load_named
from bertedu.pretraining.batches import Batch, fixed_batches
from bertedu.pretraining.next_sentence import encode_documents
from bertedu.pretraining.objective import sum_by_pair
from bertedu.text.corpus import Document, load_documents
from course.results.bootstrap import ratio_interval
from course.results.study import Run, add_missing

MODELS = ("bert-L4H128", "ltr-L4H128", "minilm")
TEXTS, BLANKS = 200, 64
Measured = tuple[str, Any, Any, Tensor, Tensor]  # statistic, layer, head, sums and counts (N,)


# -- the parts of the study: each gives its statistics, document by document


def where_heads_look(texts: Sequence[probes.Text], weights: Sequence[Tensor]) -> list[Measured]:
    """Every head's patterns, entropy and distance."""
    values = torch.stack([measure(w, t.tokens) for w, t in zip(weights, texts, strict=True)])
    ones = torch.ones(len(texts))
    heads = product(*map(range, values.shape[1:]))
    return [(MEASURES[k], i + 1, j + 1, values[:, i, j, k], ones) for i, j, k in heads]


def relations(texts: Sequence[probes.Text], weights: Sequence[Tensor]) -> list[Measured]:
    """Every head's score on each relation, and the best head beside the best fixed offset.

    Both are chosen on every second document, and scored on the others.
    """
    rows: list[Measured] = []
    by_text = [probes.relations_in(text) for text in texts]
    for name in probes.RELATIONS:
        pairs = [here[name] for here in by_text]
        asked = torch.tensor([float(len(p)) for p in pairs])[1::2]
        both = zip(weights, pairs, strict=True)
        hits = torch.stack([probes.hits_of_heads(w, p) for w, p in both])
        fixed = torch.stack([probes.hits_of_offsets(p) for p in pairs])
        layer, head = divmod(int(hits[::2].sum(0).argmax()), hits.shape[2])
        offset = int(fixed[::2].sum(0).argmax())
        best, rule = hits[1::2, layer, head], fixed[1::2, offset]
        heads = product(*map(range, hits.shape[1:]))
        rows += [(name, i + 1, j + 1, hits[1::2, i, j], asked) for i, j in heads]
        rows += [
            (f"{name}: best head", layer + 1, head + 1, best, asked),
            (f"{name}: offset {probes.OFFSETS[offset]:+d}", "", "", rule, asked),
            (f"{name}: head minus offset", layer + 1, head + 1, best - rule, asked),
        ]
    return rows


@torch.no_grad()
def heads_changed(model: BertForPreTraining, batches: Sequence[Batch]) -> list[Measured]:
    """Word loss with a head switched off, and answers kept with a head spread evenly."""

    def ask() -> tuple[Tensor, Tensor, list[Tensor]]:
        """Return loss sums and counts of blanks, (N,), and each sequence's best words."""
        sums, answers = [], []
        for batch in batches:
            scores = model(batch.ids, batch.segment_ids, batch.padding_mask, batch.selected)[0]
            sums.append(sum_by_pair(batch, scores))
            answers += scores.argmax(-1).split(batch.selected.sum(dim=1).tolist())
        counts, losses, _ = torch.cat(sums).unbind(1)
        return losses, counts, answers

    losses, counts, answers = ask()
    rows: list[Measured] = [("word loss", "", "", losses, counts)]
    layers, heads = model.config.num_hidden_layers, model.config.num_attention_heads
    for layer, head in product(range(1, layers + 1), range(1, heads + 1)):
        for change, added, kept in (
            (switch_off, "loss added without the head", "same answer without the head"),
            (spread_evenly, "loss added by even weights", "same answer with even weights"),
        ):
            with changed_attention(model, change(layer, head)):
                changed, _, others = ask()
            pairs = zip(answers, others, strict=True)
            same = torch.stack([(before == after).sum() for before, after in pairs])
            rows.append((added, layer, head, changed - losses, counts))
            rows.append((kept, layer, head, same, counts))
    return rows


@torch.no_grad()
def layers_probed(bert: Bert, texts: Sequence[probes.Text]) -> list[Measured]:
    """Probe every layer for capitals, beside the control task, look-up and majority."""
    # neighbors have the same subject: every third text is asked, and no subject is left out
    texts = [text for i, text in enumerate(texts) if i % 3] + [*texts[::3]]
    states = [bert(text.ids[None]).hidden_states for text in texts]
    train = len(texts) - len(texts[::3])
    rows: list[Measured] = []
    for layer in range(len(states[0])):
        found = probes.probe([s[layer][0] for s in states], texts, train=train)
        (right, asked), (drawn, _) = found["probe"], found["control"]
        found["selectivity"] = right - drawn, asked
        by_word, alone = found["probe, both ways"], found["look-up, both ways"]
        found["probe minus look-up, both ways"] = by_word[0] - alone[0], alone[1]
        without = ("look-up", "look-up, both ways", "majority")  # states: the same in every layer
        rows += [
            (f"capital: {name}", "" if name in without else layer, "", *counts)
            for name, counts in found.items()
            if name not in without or layer == 0
        ]
    return rows


def layers_read(model: BertForPreTraining, batches: Sequence[Batch]) -> list[Measured]:
    """Let the word head read every layer."""
    scores = torch.cat([probes.lens(model, batch) for batch in batches], dim=1)  # (L + 1, N, 3)
    rows: list[Measured] = []
    for layer, (counts, losses, right) in enumerate(scores.transpose(1, 2)):
        rows.append(("lens: loss", layer, "", losses, counts))
        rows.append(("lens: right", layer, "", right, counts))
    return rows


def one_blank_each(texts: Sequence[probes.Text], mask_id: int) -> list[tuple[Tensor, int]]:
    """Hide one word piece of each text: its ids, and the position."""
    generator = torch.Generator().manual_seed(0)
    blanks = []
    for text in texts:
        position = int(torch.randint(1, len(text.ids) - 1, (), generator=generator))
        blanks.append((text.ids.index_fill(0, torch.tensor(position), mask_id), position))
    return blanks


def answers_kept(model: BertForPreTraining, blanks: Sequence[tuple[Tensor, int]]) -> list[Measured]:
    """Look for another attention in each layer that leaves the answer of a blank as it was."""
    rows: list[Measured] = []
    ones = torch.ones(len(blanks))
    for layer in range(1, model.config.num_hidden_layers + 1):
        values: dict[str, list[Tensor]] = defaultdict(list)
        for ids, position in tqdm(blanks, desc=f"other attention, layer {layer}", leave=False):
            own, new, before, after = another_attention(model, ids, position, layer, steps=40)
            shuffle = shuffle_keys(layer)
            with changed_attention(model, shuffle):
                dealt = word_probabilities(model, ids, position)
            for name, weights, answer in (
                ("searched", new, after),
                ("shuffled", shuffle(layer, own[None])[0], dealt),
            ):
                moved = total_variation(own, weights)  # (A, S)
                values[f"{name}: attention moved"].append(moved.mean())
                values[f"{name}: attention moved at the blank"].append(moved[:, position].mean())
                values[f"{name}: answer moved"].append(total_variation(before, answer))
                values[f"{name}: same answer"].append(before.argmax() == answer.argmax())
        rows += [(name, layer, "", torch.stack(some), ones) for name, some in values.items()]
    return rows


# -- the command


def study(
    model: nn.Module, tokenizer: Tokenizer, documents: Sequence[Document]
) -> dict[str, Callable[[], list[Measured]]]:
    """Return the parts of the study of one model, each a function that measures it.

    Raises ValueError if the model is made of LSTMs, and has no heads.
    """
    bert = encoder_of(model)
    every = probes.read_texts(tokenizer, documents)
    texts = every[:TEXTS]

    @torch.no_grad()
    def weights() -> list[Tensor]:
        return [torch.cat(bert(text.ids[None], return_attention=True).attention) for text in texts]

    parts: dict[str, Callable[[], list[Measured]]] = {
        "patterns": lambda: where_heads_look(texts, weights()),
        "relations": lambda: relations(texts, weights()),
        "probe": lambda: layers_probed(bert, every),  # few words are written both ways
    }
    if not isinstance(model, BertForPreTraining):
        return parts
    vocabulary, direction = model.config.vocab_size, model.config.direction
    encoded = encode_documents(documents[:TEXTS], tokenizer)
    batches = fixed_batches(encoded, 64, 16, vocabulary, direction=direction)
    parts["heads"] = lambda: heads_changed(model, batches)
    parts["lens"] = lambda: layers_read(model, batches)
    if direction == "bidirectional":
        mask_id = tokenizer.token_to_id("[MASK]")
        if mask_id is None:
            raise ValueError("the vocabulary has no [MASK]: there is no blank to ask for")
        short = probes.read_texts(tokenizer, documents[:BLANKS], length=32)
        blanks = one_blank_each(short, mask_id)
        parts["other attention"] = lambda: answers_kept(model, blanks)
    return parts


def runs_of(names: Sequence[str]) -> Iterator[Run]:
    """Yield the parts of the study of each model: what names a part, and what measures it."""
    documents = [d for d in load_documents("encyclopedia") if d.split == "dev"]
    for name in names:
        model, tokenizer = load_named(name)
        for part, measured in study(model.eval(), tokenizer, documents).items():
            yield {"model": Path(name).name, "part": part}, partial(timed, measured)


def timed(measured: Callable[[], list[Measured]]) -> list[Row]:
    """Measure a part, and say how long it took."""
    begin = time.perf_counter()
    values = measured()
    seconds = round(time.perf_counter() - begin, 1)
    return [row | {"seed": 0, "seconds": seconds} for row in summarize(values)]


def summarize(measured: Sequence[Measured]) -> list[Row]:
    """Turn sums and counts of documents into values with intervals.

    A relation that these texts do not hold (all counts 0) has no row.
    """
    rows: list[Row] = []
    for name, layer, head, sums, counts in measured:
        if counts.sum():
            value = float(sums.double().sum() / counts.double().sum())
            low, high = ratio_interval(sums, counts, draws=1000)
            row = {"layer": layer, "head": head, "statistic": name, "value": round(value, 4)}
            row |= {"low": round(low, 4), "high": round(high, 4), "count": int(counts.sum())}
            rows.append(row)
    return rows


def main(
    model: Annotated[
        list[str] | None, typer.Option(help="A checkpoint, a folder, or a published encoder.")
    ] = None,
    out: Annotated[Path, typer.Option(help="CSV file to add to.")] = Path("data/results/heads.csv"),
) -> None:
    """Run the study; about two minutes a model on one quiet core."""
    add_missing(out, runs_of(model or MODELS))


if __name__ == "__main__":
    typer.run(main)
