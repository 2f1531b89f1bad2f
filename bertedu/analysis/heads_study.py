"""The study of notebook 15: what heads and layers do on held-out text, and what that is worth.

    python -m bertedu.analysis.heads_study                    # the two directions, and MiniLM
    python -m bertedu.analysis.heads_study --model bert-mini  # any checkpoint, by name or folder

Writes ``data/results/heads.csv``. What stands there is not measured again. Intervals (95 %) draw
whole documents: how far other texts might differ, not other training runs.
"""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from tokenizers import Tokenizer
from torch import Tensor
from tqdm.auto import tqdm

from bertedu.analysis.attention import encoder_of
from bertedu.analysis.heads import (
    MEASURES,
    another_attention,
    changed_attention,
    measure,
    shuffle_keys,
    spread_evenly,
    switch_off,
    total_variation,
    word_shares,
)
from bertedu.analysis.probes import (
    OFFSETS,
    RELATIONS,
    Text,
    hits_of_heads,
    hits_of_offsets,
    lens,
    pairs_of,
    probe,
    read_texts,
    states_of,
)
from bertedu.finetuning.run import read_csv, write_csv
from bertedu.model.bert import Bert, BertForPreTraining
from bertedu.model.loading import load_named
from bertedu.pretraining.batches import Batch, fixed_batches
from bertedu.pretraining.loop import default_device, describe_machine
from bertedu.pretraining.next_sentence import encode_documents
from bertedu.pretraining.run import current_commit
from bertedu.text.corpus import Document, load_documents

MODELS = ("bert-L4H128", "ltr-L4H128", "minilm")
Row = dict[str, Any]
Measured = tuple[str, Any, Any, Tensor, Tensor]  # statistic, layer, head, sums and counts (N,)


def intervals(sums: Tensor, counts: Tensor, draws: int = 1000, seed: int = 0) -> Tensor:
    """Draw documents again: (N, K) and (N, K) -> (2, K), 95 % intervals of the ratios of sums."""
    generator = torch.Generator().manual_seed(seed)
    chosen = torch.randint(len(sums), (draws, len(sums)), generator=generator)
    times = torch.zeros(draws, len(sums), dtype=torch.double)
    times.scatter_add_(1, chosen, torch.ones_like(chosen, dtype=torch.double))
    ratios = (times @ sums.double()) / (times @ counts.double())
    return ratios.nanquantile(torch.tensor([0.025, 0.975], dtype=torch.double), dim=0)


# -- the parts of the study: each gives its statistics, document by document


def where_heads_look(
    bert: Bert, texts: Sequence[Text], weights: Sequence[Tensor]
) -> list[Measured]:
    """Every head's patterns, entropy and distance."""
    found = torch.stack([measure(w, t.tokens) for w, t in zip(weights, texts, strict=True)])
    ones = torch.ones(len(texts))
    layers, heads = found.shape[1:3]
    return [
        (name, layer + 1, head + 1, found[:, layer, head, k], ones)
        for layer in range(layers)
        for head in range(heads)
        for k, name in enumerate(MEASURES)
    ]


def relations(bert: Bert, texts: Sequence[Text], weights: Sequence[Tensor]) -> list[Measured]:
    """Every head's score on each relation, and the best head beside the best fixed offset.

    Both are chosen on every second document, and scored on the others.
    """
    rows: list[Measured] = []
    for name in RELATIONS:
        pairs = [pairs_of(text, name) for text in texts]
        asked = torch.tensor([float(len(p)) for p in pairs])
        hits = torch.stack([hits_of_heads(w, p) for w, p in zip(weights, pairs, strict=True)])
        fixed = torch.stack([hits_of_offsets(p) for p in pairs])
        layers, heads = hits.shape[1:]
        chosen = int(hits[::2].sum(0).argmax())
        layer, head = divmod(chosen, heads)
        offset = int(fixed[::2].sum(0).argmax())
        test = asked[1::2]
        for i in range(layers):
            for j in range(heads):
                rows.append((name, i + 1, j + 1, hits[1::2, i, j], test))
        best, rule = hits[1::2, layer, head], fixed[1::2, offset]
        rows.append((f"{name}: best head", layer + 1, head + 1, best, test))
        rows.append((f"{name}: offset {OFFSETS[offset]:+d}", "", "", rule, test))
        rows.append((f"{name}: head minus offset", layer + 1, head + 1, best - rule, test))
    return rows


def heads_changed(model: BertForPreTraining, batches: Sequence[Batch]) -> list[Measured]:
    """Word loss with a head switched off, and answers kept with a head spread evenly."""
    losses, answers, counts = _answers(model, batches)
    rows: list[Measured] = [("word loss", "", "", losses, counts)]
    config = model.config
    for layer in range(1, config.num_hidden_layers + 1):
        for head in range(1, config.num_attention_heads + 1):
            with changed_attention(model, switch_off(layer, head)):
                off, other, _ = _answers(model, batches)
            rows.append(("loss added without the head", layer, head, off - losses, counts))
            rows.append(
                ("same answer without the head", layer, head, _same(answers, other), counts)
            )
            with changed_attention(model, spread_evenly(layer, head)):
                even, other, _ = _answers(model, batches)
            rows.append(("loss added by even weights", layer, head, even - losses, counts))
            rows.append(
                ("same answer with even weights", layer, head, _same(answers, other), counts)
            )
    return rows


@torch.no_grad()
def _answers(
    model: BertForPreTraining, batches: Sequence[Batch]
) -> tuple[Tensor, list[Tensor], Tensor]:
    """Return loss sums (N,), the best word of each blank by sequence, number of blanks (N,)."""
    losses, answers, counts = [], [], []
    for batch in batches:
        scores = model(batch.ids, batch.segment_ids, batch.padding_mask, batch.selected)[0].float()
        loss = torch.nn.functional.cross_entropy(scores, batch.labels, reduction="none")
        sizes = batch.selected.sum(dim=1).tolist()
        losses += [part.sum() for part in torch.split(loss, sizes)]
        answers += list(torch.split(scores.argmax(-1), sizes))
        counts += sizes
    return torch.stack(losses), answers, torch.tensor(counts).float()


def _same(one: Sequence[Tensor], other: Sequence[Tensor]) -> Tensor:
    return torch.stack([(a == b).float().sum() for a, b in zip(one, other, strict=True)])


def layers_probed(bert: Bert, texts: Sequence[Text]) -> list[Measured]:
    """Probe every layer for capitals, beside the control task, look-up and majority."""
    states = [states_of(bert, text) for text in texts]
    train = 2 * len(texts) // 3
    rows: list[Measured] = []
    for layer in range(len(states[0])):
        found = probe([s[layer] for s in states], texts, train)
        for name, (right, asked) in found.items():
            if name in ("probe", "control"):
                rows.append((f"capital: {name}", layer, "", right, asked))
        gap = found["probe"][0] - found["control"][0]
        rows.append(("capital: selectivity", layer, "", gap, found["probe"][1]))
    rows += [(f"capital: {name}", "", "", *found[name]) for name in ("look-up", "majority")]
    return rows


def layers_read(model: BertForPreTraining, batches: Sequence[Batch]) -> list[Measured]:
    """Let the word head read every layer."""
    found = torch.cat([lens(model, batch) for batch in batches])  # (N, L + 1, 3)
    rows: list[Measured] = []
    for layer in range(found.shape[1]):
        counts, losses, right = found[:, layer].unbind(-1)
        rows.append(("lens: loss", layer, "", losses, counts))
        rows.append(("lens: right", layer, "", right, counts))
    return rows


def one_blank_each(texts: Sequence[Text], mask_id: int, seed: int = 0) -> list[tuple[Tensor, int]]:
    """Hide one word piece of each text: its ids, and the place."""
    generator = torch.Generator().manual_seed(seed)
    blanks = []
    for text in texts:
        place = int(torch.randint(1, len(text.ids) - 1, (), generator=generator))
        ids = text.ids.clone()
        ids[place] = mask_id
        blanks.append((ids, place))
    return blanks


def answers_kept(model: BertForPreTraining, blanks: Sequence[tuple[Tensor, int]]) -> list[Measured]:
    """Look for another attention in each layer that leaves the answer of a blank as it was."""
    rows: list[Measured] = []
    ones = torch.ones(len(blanks))
    for layer in range(1, model.config.num_hidden_layers + 1):
        found: dict[str, list[Tensor]] = {}
        for ids, place in tqdm(blanks, desc=f"other attention, layer {layer}", leave=False):
            own, new, before, after = another_attention(model, ids, place, layer, steps=40)
            shuffle = shuffle_keys(layer)
            with changed_attention(model, shuffle):
                dealt = word_shares(model, ids, place)
            for name, weights, answer in (
                ("searched", new, after),
                ("shuffled", shuffle(layer, own[None])[0], dealt),
            ):
                moved = total_variation(own, weights)  # (A, S)
                for what, value in (
                    ("attention moved", moved.mean()),
                    ("attention moved at the blank", moved[:, place].mean()),
                    ("answer moved", total_variation(before, answer)),
                    ("same answer", (before.argmax() == answer.argmax()).float()),
                ):
                    found.setdefault(f"{name}: {what}", []).append(value)
        rows += [(name, layer, "", torch.stack(values), ones) for name, values in found.items()]
    return rows


# -- the command


def load_model(name: str) -> tuple[Bert | BertForPreTraining, Tokenizer]:
    """Load one of our checkpoints by name or folder, or a published encoder.

    Raises
    ------
    ValueError
        It is made of LSTMs, and has no heads.

    """
    model, tokenizer = load_named(name)
    encoder_of(model)
    assert isinstance(model, Bert | BertForPreTraining)
    return model.eval(), tokenizer


def study(
    model: Bert | BertForPreTraining,
    tokenizer: Tokenizer,
    documents: Sequence[Document],
    texts: int = 200,
    blanks: int = 64,
) -> dict[str, Callable[[], list[Measured]]]:
    """Return the parts of the study of one model, each a function that measures it."""
    bert = encoder_of(model)
    read = read_texts(tokenizer, documents, texts)

    @torch.no_grad()
    def weights() -> list[Tensor]:
        found = (bert(text.ids[None], return_attention=True).attention for text in read)
        return [torch.cat([w for w in one if w is not None]) for one in found]

    parts: dict[str, Callable[[], list[Measured]]] = {
        "patterns": lambda: where_heads_look(bert, read, weights()),
        "relations": lambda: relations(bert, read, weights()),
        "probe": lambda: layers_probed(bert, read),
    }
    if isinstance(model, BertForPreTraining):
        encoded = encode_documents(documents[:texts], tokenizer)
        batches = fixed_batches(
            encoded, 64, 16, model.config.vocab_size, direction=model.config.direction
        )
        parts |= {
            "heads": lambda: heads_changed(model, batches),
            "lens": lambda: layers_read(model, batches),
        }
        if model.config.direction == "bidirectional":
            short = read_texts(tokenizer, documents, blanks, length=32)
            mask_id = tokenizer.token_to_id("[MASK]")
            if mask_id is None:
                raise ValueError("the vocabulary has no [MASK]: there is no blank to ask for")
            hidden = one_blank_each(short, mask_id)
            parts["other attention"] = lambda: answers_kept(model, hidden)
    return parts


def run(names: Sequence[str], out: Path, texts: int = 200, blanks: int = 64) -> None:
    """Measure what is not in the file yet, part by part, and write each part as it is done."""
    documents = [d for d in load_documents("encyclopedia") if d.split == "dev"]
    for name in names:
        short = Path(name).name
        done = {(row["model"], row["part"]) for row in read_csv(out)}
        model, tokenizer = load_model(name)
        for part, measured in study(model, tokenizer, documents, texts, blanks).items():
            if (short, part) in done:
                continue
            begin = time.perf_counter()
            found = measured()
            seconds = round(time.perf_counter() - begin, 1)
            machine = describe_machine(default_device())
            origin = {
                "seed": 0,
                "seconds": seconds,
                "device": f"{machine['device']} {machine['hardware']}",
                "commit": current_commit() or "",
            }
            rows = [{"model": short, "part": part} | row | origin for row in summarize(found)]
            out.parent.mkdir(parents=True, exist_ok=True)
            write_csv(out, [*read_csv(out), *rows])
            print(f"{short}: {part}, {len(rows)} rows, {seconds:.0f} s")


def summarize(found: Sequence[Measured]) -> list[Row]:
    """Turn sums and counts of documents into values with intervals."""
    bounds: list[tuple[float, float]] = [(0.0, 0.0)] * len(found)
    for size in {len(one[3]) for one in found}:
        mine = [i for i, one in enumerate(found) if len(one[3]) == size]
        sums = torch.stack([found[i][3] for i in mine], dim=1)
        counts = torch.stack([found[i][4] for i in mine], dim=1)
        for i, low, high in zip(mine, *intervals(sums, counts).tolist(), strict=True):
            bounds[i] = low, high
    rows = []
    for (name, layer, head, sums, counts), (low, high) in zip(found, bounds, strict=True):
        if counts.sum() == 0:
            continue  # a relation that these texts do not hold
        value = float(sums.double().sum() / counts.double().sum())
        row: Row = {"layer": layer, "head": head, "statistic": name, "value": round(value, 4)}
        rows.append(
            row | {"low": round(low, 4), "high": round(high, 4), "count": int(counts.sum())}
        )
    return rows


def main(
    model: Annotated[
        list[str] | None, typer.Option(help="A checkpoint, a folder, or a published encoder.")
    ] = None,
    out: Annotated[Path, typer.Option(help="CSV file to add to.")] = Path("data/results/heads.csv"),
    texts: Annotated[int, typer.Option(help="How many held-out documents.", min=6)] = 200,
    blanks: Annotated[int, typer.Option(help="How many blanks get another attention.", min=1)] = 64,
    threads: Annotated[int, typer.Option(help="CPU threads.", min=1)] = 1,
) -> None:
    """Run the study; about two minutes a model on one quiet core."""
    torch.set_num_threads(threads)
    run(model or MODELS, out, texts, blanks)


if __name__ == "__main__":
    typer.run(main)
